// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the work of a kernel in addition to its instances that a separate role can execute:
//
//   tile.spread %i to %count {
//     scf.if ... {                        conditions by scalars
//       tile.await %n of %turns[...]
//       %sum = tgpu.load %sums[%i, 0]
//       ...                               operations on each element
//       tgpu.store %converted, %result[%j, 0]
//     }
//   }

#include "passes/Tgpu/Roles/SpreadWork.h"

#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/TileQueries.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static bool isTileType(Type type) { return isa<RankedTensorType>(type); }

int64_t SpreadWork::getRows(int64_t warps, int64_t registers) const {
  using Limits = RegisterLimits;
  constexpr int64_t lanes = 32;
  int64_t ofLane =
      registers < Limits::ofDeepSpreadRole ? Limits::ofSpreadTile : Limits::ofDeepSpreadTile;
  int64_t rows = shape[0];
  while (rows % 2 == 0 && rows * shape[1] > ofLane * lanes * warps)
    rows /= 2;
  return rows;
}

bool SpreadWork::isScalar(Operation *op) {
  WalkResult result = op->walk([](Operation *inner) {
    bool hasTiles = llvm::any_of(inner->getOperandTypes(), isTileType) ||
                    llvm::any_of(inner->getResultTypes(), isTileType);
    bool isKnown = isMemoryEffectFree(inner) ||
                   isa<tile::AtOp, scf::IfOp, scf::ForOp, scf::WhileOp, scf::YieldOp>(inner);
    return hasTiles || !isKnown ? WalkResult::interrupt() : WalkResult::advance();
  });
  return !result.wasInterrupted();
}

/// Whether a tile has the order of memory, and its rows begin at a value that can be increased.
template <typename AccessOp> static bool goesByRows(AccessOp access) {
  ArrayRef<int64_t> indices = access.getStaticIndices();
  return !access.getDims() && indices.size() >= 2 &&
         ShapedType::isDynamic(indices[indices.size() - 2]);
}

/// The reason why a role cannot execute an operation on tiles; empty if it can.
static std::string getRejection(Operation *op) {
  const std::string byRows = "a tile must be loaded and stored row by row, but is not by '" +
                             op->getName().getStringRef().str() + "'";
  if (auto load = dyn_cast<LoadOp>(op))
    return goesByRows(load) ? "" : byRows;
  if (auto store = dyn_cast<StoreOp>(op))
    return goesByRows(store) ? "" : byRows;
  bool isKnown = isa<tile::FullOp>(op) || tgpu::isElementwise(op);
  return isKnown ? ""
                 : "tiles must have only operations on each element, but got '" +
                       op->getName().getStringRef().str() + "'";
}

/// "64x32".
static std::string textOf(ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t extent : shape)
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

FailureOr<std::optional<SpreadWork>> SpreadWork::get(KernelOp kernel, bool explain) {
  SpreadWork work;
  Operation *rejected = nullptr;
  std::string rejection;
  auto reject = [&](Operation *op, std::string why) {
    rejected = op;
    rejection = std::move(why);
    return WalkResult::interrupt();
  };
  kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto spread = dyn_cast<tile::SpreadOp>(op)) {
      if (spread->getParentOp() != kernel)
        return reject(op, "it must be in the body of the kernel, but is in '" +
                              spread->getParentOp()->getName().getStringRef().str() + "'");
      if (work.op)
        return reject(op, "a kernel must have one of them, but there is another one before it");
      work.op = spread;
      return WalkResult::advance();
    }
    if (!op->getParentOfType<tile::SpreadOp>() || isa<tile::AwaitOp, tile::YieldOp>(op))
      return WalkResult::advance();
    if (isScalar(op))
      return WalkResult::skip();
    if (auto branch = dyn_cast<scf::IfOp>(op))
      return branch->getNumResults() == 0 && !branch.elseBlock()
                 ? WalkResult::advance()
                 : reject(op, std::string("a branch that contains tiles must have no else region "
                                          "and no result, but has ") +
                                  (branch.elseBlock() ? "an else region" : "a result"));
    if (std::string why = getRejection(op); !why.empty())
      return reject(op, why);
    if (work.block && work.block != op->getBlock())
      return reject(op, "its tiles must be in one branch, but got '" +
                            op->getName().getStringRef().str() + "' in another one");
    work.block = op->getBlock();
    for (Type type : llvm::concat<Type>(llvm::to_vector(op->getOperandTypes()),
                                        llvm::to_vector(op->getResultTypes()))) {
      if (!isTileType(type))
        continue;
      ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
      bool isFirst = work.shape.empty();
      if (shape.size() != 2 || (!isFirst && shape != ArrayRef<int64_t>(work.shape)))
        return reject(op, "its tiles must all have rank 2 and the same shape, but got " +
                              textOf(shape) + (isFirst ? "" : " after " + textOf(work.shape)));
      work.shape.assign(shape.begin(), shape.end());
    }
    return WalkResult::advance();
  });
  if (!rejected && work.op && !work.block)
    reject(work.op, "it must store a tile, but has no operation on tiles");
  if (rejected && explain)
    rejected->emitOpError() << "prevents a separate role for tile.spread: " << rejection
                            << "; move the work into a separate kernel";
  if (rejected)
    return failure();
  return work.op ? std::optional<SpreadWork>(work) : std::nullopt;
}
