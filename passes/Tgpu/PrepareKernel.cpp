// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rewrites products that the matrix unit cannot execute or divide, and bounds the number of warps.

#include "passes/Tgpu/PrepareKernel.h"

#include "base/Target/Target.h"
#include "dialect/Tgpu/MatrixShape.h"
#include "passes/Tgpu/LayoutInference.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

#include <optional>

using namespace mlir;
using namespace tilewright;
using tgpu::LayoutInference;
using tgpu::rowsOfWarpgroup;

static bool isOfBits(Type type, unsigned bits) {
  auto element = dyn_cast<FloatType>(tile::getElementType(type));
  return element && element.getWidth() == bits;
}

bool tgpu::isProductOfBytes(tile::DotOp dot, const Target &target, int64_t warps) {
  constexpr int64_t depthOfInstruction = 32, mostInstructions = 4, mostColumns = 256, unit = 8;
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType());
  auto result = cast<RankedTensorType>(dot.getType());
  int64_t depth = lhs.getDimSize(1);
  bool isLoad = static_cast<bool>(dot.getLhs().getDefiningOp<tile::LoadOp>());
  return isOfBits(lhs, 8) && target.has(Feature::Wgmma) && warps % Target::warpsOfGroup == 0 &&
         !dot.getTransposeA() && dot.getTransposeB() && !dot.getAcc() &&
         (!isLoad || LayoutInference::isStaged(dot.getLhs())) &&
         LayoutInference::isStaged(dot.getRhs()) && depth % depthOfInstruction == 0 &&
         depth <= mostInstructions * depthOfInstruction &&
         result.getDimSize(0) % rowsOfWarpgroup == 0 && result.getDimSize(1) % unit == 0 &&
         result.getDimSize(1) <= mostColumns;
}

static void remarkWidened(tile::KernelOp kernel, tile::DotOp dot) {
  bool isAlongK = !dot.getTransposeA() && dot.getTransposeB();
  remark::missed(dot.getLoc(), remark::RemarkOpts::name("widened-product")
                                   .category("tile-to-tgpu")
                                   .function(kernel.getSymName()))
      << remark::reason("8-bit operands are converted to f16 in registers; {0}; where speed "
                        "matters, use 16-bit arrays",
                        isAlongK ? "wgmma multiplies bytes of 64 rows or more and a depth of 32, "
                                   "64, 96 or 128, without an accumulator"
                                 : "wgmma takes 8-bit operands only K-major, and one is not");
}

void tgpu::widenProducts(tile::KernelOp kernel, const Target &target, int64_t warps) {
  // Convert at the definition, so that loop-invariant operands are converted outside of the loop.
  llvm::DenseMap<Value, Value> widened;
  kernel.walk([&](tile::DotOp dot) {
    if (!isOfBits(dot.getLhs().getType(), 8) || isProductOfBytes(dot, target, warps))
      return;
    remarkWidened(kernel, dot);
    for (OpOperand &operand : dot->getOpOperands().take_front(2)) {
      Value source = operand.get();
      Value &wide = widened[source];
      if (!wide) {
        OpBuilder b(dot.getContext());
        b.setInsertionPointAfterValue(source);
        auto type = cast<RankedTensorType>(source.getType());
        wide = tile::CastOp::create(b, dot.getLoc(), type.clone(b.getF16Type()), source);
      }
      operand.set(wide);
    }
  });
}

//===----------------------------------------------------------------------===//
// Inner extents
//===----------------------------------------------------------------------===//

static int64_t getColumns(Value tile) {
  return cast<RankedTensorType>(tile.getType()).getShape().back();
}

/// The load of an operand, through casts and reshapes that keep whole rows.
static tile::LoadOp getLoad(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto load = dyn_cast<tile::LoadOp>(op))
      return load;
    bool keepsRows = isa<tile::CastOp>(op) || (isa<tile::ReshapeOp>(op) &&
                                               getColumns(op->getOperand(0)) == getColumns(value));
    if (!keepsRows)
      return {};
    value = op->getOperand(0);
  }
  return {};
}

bool tgpu::endsWithView(tile::LoadOp load, int64_t dim) {
  auto view = cast<tile::ViewType>(load.getView().getType());
  int64_t rank = tile::getRank(load.getType());
  int64_t viewDim = load.getDims() ? (*load.getDims())[dim] : view.getRank() - rank + dim;
  int64_t extent = view.getShape()[viewDim], index = load.getStaticIndices()[viewDim];
  return !ShapedType::isDynamic(extent) && !ShapedType::isDynamic(index) &&
         extent - index <= cast<RankedTensorType>(load.getType()).getShape()[dim];
}

/// The same tile with additional columns, which are beyond the view and therefore zero.
static Value addColumns(Value value, int64_t columns) {
  SmallVector<Operation *> ops{value.getDefiningOp()}; // from the tile to the load
  while (!isa<tile::LoadOp>(ops.back()))
    ops.push_back(ops.back()->getOperand(0).getDefiningOp());
  IRMapping map;
  for (Operation *op : llvm::reverse(ops)) {
    OpBuilder b(op);
    Operation *copy = b.clone(*op, map);
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.back() = columns;
    copy->getResult(0).setType(type.clone(shape));
  }
  return map.lookup(value);
}

void tgpu::roundInnerExtents(tile::KernelOp kernel) {
  SmallVector<tile::DotOp> dots;
  kernel.walk([&](tile::DotOp dot) { dots.push_back(dot); });
  for (tile::DotOp dot : dots) {
    auto type = cast<RankedTensorType>(dot.getLhs().getType());
    bool isStoredAlongK = !dot.getTransposeA() && dot.getTransposeB();
    if (!isOfBits(type, 16) || !isStoredAlongK)
      continue;
    constexpr int64_t multiple = 16;
    int64_t rounded = (type.getDimSize(1) + multiple - 1) / multiple * multiple;
    auto loads = {getLoad(dot.getLhs()), getLoad(dot.getRhs())};
    bool isRoundable = llvm::all_of(loads, [](tile::LoadOp load) {
      return load && !load.getPad() && endsWithView(load, tile::getRank(load.getType()) - 1);
    });
    if (rounded == type.getDimSize(1) || !isRoundable)
      continue;
    for (OpOperand &operand : dot->getOpOperands().take_front(2))
      operand.set(addColumns(operand.get(), rounded));
  }
}

//===----------------------------------------------------------------------===//
// Warps
//===----------------------------------------------------------------------===//

int64_t tgpu::getUsableWarps(tile::KernelOp kernel, int64_t warps) {
  kernel.walk([&](tile::DotOp dot) {
    bool isTf32 = dot.getPrecision() == tile::DotPrecision::TF32;
    if (!isOfBits(dot.getLhs().getType(), 16) && !isTf32)
      return;
    auto shape = cast<RankedTensorType>(dot.getType()).getShape();
    auto fits = [&] {
      for (int64_t warpsM = 1; warpsM <= warps; ++warpsM)
        if (warps % warpsM == 0 && shape[0] % (16 * warpsM) == 0 &&
            shape[1] % (8 * (warps / warpsM)) == 0)
          return true;
      return false;
    };
    while (warps > 1 && !fits())
      warps /= 2;
  });
  return warps;
}

//===----------------------------------------------------------------------===//
// Which way up
//===----------------------------------------------------------------------===//

static void transpose(tile::DotOp dot, tile::AtomicAddOp add, RankedTensorType type) {
  OpBuilder b(dot);
  auto flipped = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)},
                                       type.getElementType(), type.getEncoding());
  auto other = tile::DotOp::create(b, dot.getLoc(), flipped, dot.getRhs(), dot.getLhs(),
                                   /*acc=*/Value(), !dot.getTransposeB(), !dot.getTransposeA(),
                                   dot.getPrecision());
  int64_t rank = tile::getRank(add.getView().getType());
  SmallVector<int64_t> dims{rank - 2, rank - 1};
  if (std::optional<ArrayRef<int64_t>> given = add.getDims())
    dims.assign(given->begin(), given->end());
  std::swap(dims[0], dims[1]);
  bool isDefault = dims[0] == rank - 2 && dims[1] == rank - 1;
  add.setDimsAttr(isDefault ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(dims));
  add.getValueMutable().assign(other.getResult());
  dot.erase();
}

void tgpu::orientProducts(tile::KernelOp kernel, int64_t rows) {
  kernel.walk([&](tile::DotOp dot) {
    auto type = cast<RankedTensorType>(dot.getType());
    auto add =
        dot->hasOneUse() ? dyn_cast<tile::AtomicAddOp>(*dot->user_begin()) : tile::AtomicAddOp();
    if (add && !dot.getAcc() && type.getDimSize(0) % rows != 0 && type.getDimSize(1) % rows == 0)
      transpose(dot, add, type);
  });
}
