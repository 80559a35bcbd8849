// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel takes views of any strides, and tests in its loops whether it may copy 16 bytes at once.
// Nearly all calls may. Where views are aligned, as a launch knows, code without these tests and
// without the other way to copy has loops of one basic block each, in which addresses are computed
// between products, and fewer registers. Where a block loads two tiles to registers, both loads are
// in flight at the same time: with a test between them, ptxas unpacks the elements of the first
// tile before the test, and so waits for them.

#include "passes/Conversion/AlignedViews.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {
/// Copies of a matrix move 16 bytes at once; those of a vector, and additions, single elements.
constexpr int64_t widest = 16;

struct Access {
  Value view;
  std::optional<ArrayRef<int64_t>> dims;
  int64_t tileRank;
  bool isByElements;
};

std::optional<Access> getAccess(Operation *op) {
  auto rankOf = [](Type type) { return cast<RankedTensorType>(type).getRank(); };
  return llvm::TypeSwitch<Operation *, std::optional<Access>>(op)
      .Case([](CopyAsyncOp copy) {
        int64_t rank =
            static_cast<int64_t>(cast<SharedType>(copy.getBuffer().getType()).getShape().size());
        return Access{copy.getView(), copy.getDims(), rank, rank == 1};
      })
      .Case([&](LoadOp load) {
        return Access{load.getView(), load.getDims(), rankOf(load.getType()), false};
      })
      .Case([&](StoreOp store) {
        return Access{store.getView(), store.getDims(), rankOf(store.getValue().getType()), false};
      })
      .Case([&](AtomicAddOp add) {
        return Access{add.getView(), add.getDims(), rankOf(add.getValue().getType()), true};
      })
      .Default([](Operation *) { return std::nullopt; });
}

/// The requirements on an argument that make one form of an access sufficient.
struct Wanted {
  unsigned argument;
  int64_t alignment;
};

std::optional<Wanted> getWanted(KernelOp kernel, Operation *op) {
  std::optional<Access> access = getAccess(op);
  auto argument = access ? getAlignedArgument(kernel, access->view) : BlockArgument();
  if (!argument)
    return std::nullopt;
  auto type = cast<tile::ViewType>(argument.getType());
  int64_t bytes = getElementBits(type.getElementType()) / 8, rank = type.getRank();
  bool runsAlongLast =
      access->dims ? llvm::is_contained(*access->dims, rank - 1) : access->tileRank > 0;
  int64_t extent = type.getShape().back();
  bool endsEvenly = !ShapedType::isDynamic(extent) && extent * bytes % widest == 0;
  // Whether a row of an unknown extent ends at a chunk is known only in the kernel.
  if (!runsAlongLast || bytes == 0 || (!access->isByElements && !endsEvenly))
    return std::nullopt;
  return Wanted{argument.getArgNumber(), access->isByElements ? bytes : widest};
}

bool hasRing(KernelOp kernel) {
  return kernel
      .walk([](CopyAsyncOp copy) {
        return copy->getParentOfType<scf::ForOp>() ? WalkResult::interrupt()
                                                   : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether a block loads several tiles that have two forms.
bool hasLoadsInTurn(KernelOp kernel) {
  return kernel
      .walk([&](Block *block) {
        auto hasTwoWays = [&](LoadOp load) { return getWanted(kernel, load).has_value(); };
        return llvm::count_if(block->getOps<LoadOp>(), hasTwoWays) > 1 ? WalkResult::interrupt()
                                                                       : WalkResult::advance();
      })
      .wasInterrupted();
}
} // namespace

BlockArgument tgpu::getAlignedArgument(KernelOp kernel, Value view) {
  // A part of a view along a dimension other than the last has the alignment of the view: its
  // address differs by a multiple of a stride.
  if (auto paged = view.getDefiningOp<tile::PagedOp>())
    view = paged.getPool();
  auto part = view.getDefiningOp<tile::SubviewOp>();
  while (part &&
         static_cast<int64_t>(part.getDim()) + 1 < cast<tile::ViewType>(part.getType()).getRank()) {
    view = part.getSource();
    part = view.getDefiningOp<tile::SubviewOp>();
  }
  auto argument = dyn_cast<BlockArgument>(view);
  bool isOfKernel = argument && argument.getOwner() == &kernel.getBody().front() &&
                    argument.getArgNumber() < kernel.getNumArgs();
  return isOfKernel ? argument : BlockArgument();
}

AlignedViews tgpu::getAlignedViews(KernelOp kernel) {
  AlignedViews views;
  // The name may already be used.
  auto module = kernel->getParentOfType<ModuleOp>();
  if (module.lookupSymbol(getAlignedEntry(kernel.getSymName())) ||
      (!hasRing(kernel) && !hasLoadsInTurn(kernel)))
    return views;
  kernel.walk([&](Operation *op) {
    if (std::optional<Wanted> wanted = getWanted(kernel, op)) {
      int64_t &alignment = views[wanted->argument];
      alignment = std::max(alignment, wanted->alignment);
    }
  });
  return views;
}
