// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rewrites products that the matrix unit cannot execute or divide, and bounds the number of warps.

#include "passes/Tgpu/Map/PrepareKernel.h"

#include "base/Target/Target.h"
#include "dialect/Tgpu/MatrixShape.h"
#include "passes/FirstUser.h"
#include "passes/MaskRanges.h"
#include "passes/Tgpu/Analysis/Notes.h"
#include "passes/Tgpu/Analysis/WrittenViews.h"
#include "passes/Tgpu/Map/BlockLoop.h"
#include "passes/Tgpu/Map/ConvertedOperands.h"
#include "passes/Tgpu/Map/LayoutInference.h"
#include "passes/Tgpu/Map/TransposeTiles.h"
#include "passes/Tile/ByteProducts.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static bool isOfBits(Type type, unsigned bits) {
  auto element = dyn_cast<FloatType>(tile::getElementType(type));
  return element && element.getWidth() == bits;
}

static void remarkWidened(tile::KernelOp kernel, tile::DotOp dot, const Target &target,
                          int64_t warps) {
  bool isAlongK = !dot.getTransposeA() && dot.getTransposeB();
  constexpr StringLiteral remedy = "where speed matters, use 16-bit arrays";
  std::string why = isAlongK ? "wgmma multiplies bytes of 64 rows or more and a depth of 32, 64, "
                               "96 or 128, without an accumulator"
                             : "wgmma takes 8-bit operands only K-major, and one is not";
  if (isProductOfBytes(dot, target, warps, /*withSum=*/true))
    why = "wgmma rounds sums of bytes, so it multiplies them without an accumulator; add the "
          "product to the sum, as in %sum + dot(%a, %b)";
  else if (dot.getAcc())
    why =
        (llvm::Twine(why) + "; add the product to the sum, as in %sum + dot(%a, %b), or " + remedy)
            .str();
  else
    why = (llvm::Twine(why) + "; " + remedy).str();
  remark::missed(dot.getLoc(), remark::RemarkOpts::name("widened-product")
                                   .category("tile-to-tgpu")
                                   .function(kernel.getSymName()))
      << remark::reason("8-bit operands are converted to f16 in registers; {0}", why);
  if (target.has(Feature::Wgmma))
    recordNote(kernel, dot.getLoc(), "a product of 8-bit operands as one of f16", why);
}

void tgpu::widenProducts(tile::KernelOp kernel, const Target &target, int64_t warps) {
  // Convert at the definition, so that loop-invariant operands are converted outside of the loop.
  llvm::DenseMap<Value, Value> widened;
  kernel.walk([&](tile::DotOp dot) {
    if (!isOfBits(dot.getLhs().getType(), 8) || isProductOfBytes(dot, target, warps))
      return;
    remarkWidened(kernel, dot, target, warps);
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
// Masks
//===----------------------------------------------------------------------===//

void tgpu::noteMasksOfBlocks(tile::KernelOp kernel) {
  kernel.walk([&](tile::ForBlocksOp loop) {
    auto ranges = loop.getRangesAttr() ? getRanges(loop) : func::FuncOp();
    auto place = ranges ? dyn_cast<FusedLoc>(ranges.getLoc()) : FusedLoc();
    auto name = place ? dyn_cast_if_present<StringAttr>(place.getMetadata()) : StringAttr();
    if (name && name.getValue() == maskNotFollowedName)
      recordNote(kernel, place, "a mask that is evaluated for each block",
                 "how it depends on a position is not analyzed; if the columns that each row keeps "
                 "are one span, give the limits of the spans, as kernels/mods/spans.mlir does");
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

namespace {

/// Whether all uses are operands a whose columns are rows of the tile.
bool isTransposedA(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    return use.getOperandNumber() == 0 && cast<tile::DotOp>(use.getOwner()).getTransposeA();
  });
}

/// The converted tile is read from its buffer column by column.
void turn(tile::LoadOp load, Value converted) {
  load.setDimsAttr(swapDims(load.getDims(), load.getView()));
  for (Value value : {load.getResult(), converted})
    value.setType(getTransposed(value.getType()));
  for (Operation *user : converted.getUsers())
    cast<tile::DotOp>(user).setTransposeA(false);
}

/// After the product before its first one, during which it can be read and converted, and whose
/// operands' registers it follows.
void moveBehindProduct(tile::LoadOp load, Operation *convert) {
  Operation *first = getFirstUser(convert);
  if (!first)
    return;
  for (Operation *before = first->getPrevNode(); before && before != convert;
       before = before->getPrevNode())
    if (isa<tile::DotOp>(before)) {
      first = before->getNextNode();
      break;
    }
  if (!load->isBeforeInBlock(first))
    return;
  for (Operation *op = load->getNextNode(); op != first; op = op->getNextNode())
    if (!isa<tile::LoadOp>(op) && !isMemoryEffectFree(op)) // it may write what is loaded
      return;
  load->moveBefore(first);
  convert->moveBefore(first);
}

} // namespace

void tgpu::copyConvertedOperands(tile::KernelOp kernel, const Target &target) {
  SmallVector<tile::CastOp> casts;
  kernel.walk([&](tile::CastOp op) {
    if (getConvertedLoad(op.getResult()))
      casts.push_back(op);
  });
  for (tile::CastOp op : casts) {
    tile::LoadOp load = getConvertedLoad(op.getResult());
    // Without wgmma, nothing is gained but rows in pages, which only copies find.
    if (!target.has(Feature::Wgmma) && !load.getView().getDefiningOp<tile::PagedOp>())
      continue;
    copiedAttr.set(load);
    moveBehindProduct(load, op);
    if (target.has(Feature::Wgmma) && isTransposedA(op.getResult()))
      turn(load, op.getResult());
  }
  if (target.has(Feature::Wgmma))
    kernel.walk([](tile::DotOp dot) {
      for (tile::LoadOp load : getComputedLoads(dot))
        if (LayoutInference::isOfWgmma(tile::getElementType(dot.getLhs().getType())) &&
            tgpu::isStaged(load) && load->getParentOfType<LoopLikeOpInterface>())
          copiedAttr.set(load);
    });
}

/// Whether the loads of the body are all copies of one iteration: there is a product of tiles that
/// it loads, and no inner loop.
static bool copiesOperands(scf::ForOp loop) {
  bool copies = false, isInnermost = true;
  for (Operation &op : loop.getBody()->without_terminator()) {
    isInnermost &= op.getNumRegions() == 0;
    if (auto dot = dyn_cast<tile::DotOp>(op))
      for (Value operand : {dot.getLhs(), dot.getRhs()})
        copies |= tgpu::isStaged(operand) && operand.getParentBlock() == loop.getBody();
  }
  return copies && isInnermost;
}

/// Whether a tensor map describes the view of a whole row, whose length is a constant, so that rows
/// begin at a multiple of it. A row without a map would keep the kernel from having roles: its view
/// must be an argument that each launch has, not a part of one.
static bool isWholeRow(tile::KernelOp kernel, tile::LoadOp load) {
  constexpr int64_t leastBits = 32, chunkBits = 128;
  auto tile = dyn_cast<RankedTensorType>(load.getType());
  auto shape = cast<tile::ViewType>(load.getView().getType()).getShape();
  auto argument = dyn_cast<BlockArgument>(load.getView());
  if (!argument || argument.getOwner() != &kernel.getBody().front() ||
      kernel.getArgOptional()[argument.getArgNumber()])
    return false;
  if (load.getDims() && load.getDims()->back() != static_cast<int64_t>(shape.size()) - 1)
    return false;
  int64_t bits = tile ? getElementBits(tile.getElementType()) : 0;
  return tile && tile.getRank() == 1 && bits >= leastBits && shape.back() == tile.getDimSize(0) &&
         tile.getDimSize(0) <= Target::mostBoxExtent && load.getStaticIndices().back() == 0 &&
         tile.getDimSize(0) * bits % chunkBits == 0;
}

void tgpu::copyRowsOfIterations(tile::KernelOp kernel, const Target &target) {
  if (!target.hasRoles())
    return;
  WrittenViews written(kernel);
  kernel.walk([&](scf::ForOp loop) {
    if (!copiesOperands(loop))
      return;
    for (auto load : loop.getBody()->getOps<tile::LoadOp>())
      if (tgpu::isStaged(load) && isWholeRow(kernel, load) && !written.contains(load.getView()))
        copiedAttr.set(load);
  });
}
