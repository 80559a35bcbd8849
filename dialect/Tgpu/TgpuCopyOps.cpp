// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies between global memory, shared memory and registers: verifiers.

#include "dialect/Tgpu/TgpuVerify.h"
#include "dialect/Tile/Origin.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

LogicalResult LoadOp::verify() {
  if (failed(tile::verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                                getResult().getType(), getDims())))
    return failure();
  Type element = tile::getElementType(getResult().getType());
  if (getPad() && getPad().getType() != element)
    return emitOpError() << "pad must be of the type of the elements, " << element << ", but got "
                         << getPad().getType();
  return verifyWarps(*this);
}

template <typename Op> static LogicalResult verifyWrite(Op op) {
  if (failed(tile::verifyAccess(op, op.getView().getType(), op.getIndices(), op.getStaticIndices(),
                                op.getValue().getType(), op.getDims())))
    return failure();
  return verifyWarps(op);
}

LogicalResult StoreOp::verify() { return verifyWrite(*this); }

LogicalResult AtomicAddOp::verify() {
  Type type = tile::getElementType(getValue().getType());
  if (!type.isF64() && !type.isF32() && !type.isF16() && !type.isBF16() && !type.isInteger(32))
    return emitOpError() << "requires elements of f32, f64, f16, bf16 or i32, but got " << type;
  Type turns = getTurns() ? getTurns().getType() : Type();
  if (getNumber() &&
      failed(tile::verifyTurn(*this, turns, getTurnIndices(), getStaticTurnIndices())))
    return failure();
  return verifyWrite(*this);
}

template <typename Op> static LogicalResult verifyTurn(Op op) {
  if (!op->template getParentOfType<RolesOp>())
    return op.emitOpError() << "must be inside a role of a tgpu.roles, but got it in '"
                            << op->getParentOp()->getName() << "'";
  if (failed(verifyFeature(op, Feature::Tma)))
    return failure();
  return tile::verifyTurn(op, op.getTurns().getType(), op.getIndices(), op.getStaticIndices());
}
LogicalResult AwaitTurnOp::verify() { return verifyTurn(*this); }
LogicalResult EndTurnOp::verify() { return verifyTurn(*this); }

/// A register tile and a buffer hold the same tile, transposed where asked for.
static LogicalResult verifySameTile(Operation *op, RankedTensorType tile, SharedType buffer,
                                    bool transpose) {
  SmallVector<int64_t> shape(buffer.getShape());
  if (transpose)
    std::reverse(shape.begin(), shape.end());
  if (tile.getShape() == ArrayRef<int64_t>(shape) &&
      tile.getElementType() == buffer.getElementType())
    return verifyWarps(op);
  return op->emitOpError() << "register tile and buffer must hold the same tile"
                           << (transpose ? ", transposed" : "") << ", but got " << tile << " and "
                           << buffer;
}

LogicalResult ReadOp::verify() {
  return verifySameTile(*this, cast<RankedTensorType>(getResult().getType()),
                        cast<SharedType>(getBuffer().getType()), getTranspose());
}

LogicalResult WriteSharedOp::verify() {
  return verifySameTile(*this, cast<RankedTensorType>(getValue().getType()),
                        cast<SharedType>(getBuffer().getType()), getTranspose());
}

LogicalResult CopyAsyncOp::verify() {
  return tile::verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                            getTensorType(cast<SharedType>(getBuffer().getType())), getDims());
}

static LogicalResult verifyPending(Operation *op, int64_t pending) {
  if (pending >= 0 && pending <= 64)
    return success();
  return op->emitOpError() << "may leave 0 to 64 groups pending, but got " << pending;
}

LogicalResult CopyWaitOp::verify() { return verifyPending(*this, getPending()); }
LogicalResult BulkCommitOp::verify() { return verifyFeature(*this, Feature::Tma); }
LogicalResult BulkWaitOp::verify() {
  return failure(failed(verifyFeature(*this, Feature::Tma)) ||
                 failed(verifyPending(*this, getPending())));
}

LogicalResult TensorMapOp::verify() {
  if (failed(verifyFeature(*this, Feature::Tma)))
    return failure();
  auto argument = dyn_cast<BlockArgument>(getView());
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  if (argument ? argument.getOwner() != &kernel.getBody().front()
               : !getView().getDefiningOp<tile::CapturedOp>())
    return emitOpError("must map an argument of the kernel or a capture, but got another view; the "
                       "runtime supports no others");
  auto view = cast<tile::ViewType>(getView().getType());
  auto map = cast<TensorMapType>(getMap().getType());
  if (view.getRank() != static_cast<int64_t>(map.getBox().size()) ||
      view.getElementType() != map.getElementType())
    return emitOpError() << "box must have the rank and elements of its view " << view
                         << ", but got " << map;
  return success();
}

bool tilewright::tgpu::startsWithZero(ValueRange indices, ArrayRef<int64_t> staticIndices) {
  if (!staticIndices.empty() && ShapedType::isDynamic(staticIndices.front()))
    return matchPattern(indices.front(), m_Zero());
  return !staticIndices.empty() && staticIndices.front() == 0;
}

/// The buffer is made of boxes of the map, `groups` for each panel; of pages, any number of boxes.
template <typename Op>
static LogicalResult verifyBoxes(Op op, int64_t groups = 1, bool isOfPages = false) {
  if (failed(verifyFeature(op, Feature::Tma)))
    return failure();
  auto map = cast<TensorMapType>(op.getMap().getType());
  auto buffer = cast<SharedType>(op.getBuffer().getType());
  OperandRange indices = op.getIndices();
  ArrayRef<int64_t> staticIndices = op.getStaticIndices();
  ArrayRef<int64_t> box = map.getBox();
  int64_t dynamic = llvm::count_if(staticIndices, ShapedType::isDynamic);
  if (dynamic != static_cast<int64_t>(indices.size()))
    return op->emitOpError("has malformed indices; use its custom assembly format");
  if (staticIndices.size() != box.size())
    return op->emitOpError() << "needs one index for each dimension of its map: rank " << box.size()
                             << ", but got " << staticIndices.size()
                             << (staticIndices.size() == 1 ? " index" : " indices");
  bool isOfPart = map.isRagged() && !isOfPages;
  if (isOfPart != static_cast<bool>(op.getBegin()) || isOfPart != static_cast<bool>(op.getSize()))
    return op->emitOpError() << "needs 'from' and 'size' with a ragged tensor map, and with no "
                                "other, but got "
                             << map
                             << (op.getBegin() && op.getSize()   ? " with them"
                                 : op.getBegin() || op.getSize() ? " with one of them"
                                                                 : " without them");
  if ((map.leavesOutFirst() || isOfPages) && !startsWithZero(indices, staticIndices)) {
    std::string first = staticIndices.empty() || ShapedType::isDynamic(staticIndices[0])
                            ? "a value that is no constant"
                            : std::to_string(staticIndices[0]);
    if (isOfPages)
      return op->emitOpError()
             << "first index must be 0, since the rows determine the pages, but got " << first;
    return op->emitOpError() << "first index must be 0, since " << map
                             << " omits that dimension, but got " << first;
  }
  int64_t columns = box.back(), rows = 1;
  for (int64_t extent : box.drop_back())
    rows *= extent;
  ArrayRef<int64_t> shape = buffer.getShape();
  int64_t bufferRows = shape.size() == 2 ? shape.front() : 1;
  int64_t width = layout::panelBytes(buffer.getSwizzle());
  int64_t panel = width ? 8 * width / getElementBits(buffer.getElementType()) : shape.back();
  if (isOfPages && bufferRows % rows == 0)
    groups = bufferRows / rows;
  if (bufferRows == groups * rows && panel == columns && map.getSwizzle() == buffer.getSwizzle() &&
      map.getElementType() == buffer.getElementType())
    return success();
  return op->emitOpError()
         << "buffer must consist of boxes of the map, one for each of its panels ("
         << bufferRows / groups << "x" << panel << " elements), but got " << buffer << " and "
         << map;
}

bool tgpu::isCopyPerWarpgroup(Operation *op) {
  if (auto store = dyn_cast<TmaStoreOp>(op))
    return store.getPerWarpgroup();
  auto add = dyn_cast<TmaReduceAddOp>(op);
  return add && add.getPerWarpgroup();
}

LogicalResult TmaLoadOp::verify() {
  if (!getPages())
    return verifyBoxes(*this);
  auto paged = getPages().getDefiningOp<tile::PagedOp>();
  auto definition = getMap().getDefiningOp<TensorMapOp>();
  if (!paged)
    return emitOpError("pages must be the result of tile.paged, but got ")
           << tile::describeOrigin(getPages());
  if (!definition || paged.getPool() != definition.getView())
    return emitOpError(
               "pages must be of the pool that is the view of its map, but got a map that is ")
           << (definition ? "over another view" : tile::describeOrigin(getMap()));
  auto map = cast<TensorMapType>(getMap().getType());
  if (map.getRagged() != 1)
    return emitOpError() << "needs a tensor map that is ragged along dimension 1, the rows of a "
                            "page, but got "
                         << map;
  int64_t rows = map.getBox()[1], together = paged.getRowsTogether();
  if (together > 0 && together % rows != 0)
    return emitOpError() << "boxes must have a divisor of the " << together
                         << " rows that are known to lie in one page, but got " << rows << " rows";
  return verifyBoxes(*this, 1, /*isOfPages=*/true);
}

/// With `per warpgroup`, a box is the share of a warpgroup.
template <typename OpT> static LogicalResult verifyTmaWrite(OpT op) {
  if (!op.getPerWarpgroup())
    return verifyBoxes(op);
  int64_t warps = getExecutingWarps(op);
  if (warps % Target::warpsOfGroup != 0)
    return op.emitOpError() << "'per warpgroup' requires a multiple of 4 warps, but got " << warps;
  // A share begins where the swizzle does.
  constexpr int64_t rowsOfSwizzle = 8;
  int64_t groups = warps / Target::warpsOfGroup;
  int64_t rows = cast<SharedType>(op.getBuffer().getType()).getShape().front();
  if (groups > 0 && rows % (groups * rowsOfSwizzle) != 0)
    return op.emitOpError() << "'per warpgroup' requires a multiple of " << groups * rowsOfSwizzle
                            << " rows for " << groups << " warpgroups, but got " << rows;
  return verifyBoxes(op, std::max<int64_t>(groups, 1));
}

LogicalResult TmaStoreOp::verify() { return verifyTmaWrite(*this); }
LogicalResult TmaReduceAddOp::verify() {
  Type type = cast<SharedType>(getBuffer().getType()).getElementType();
  if (!type.isF32() && !type.isF16() && !type.isBF16() && !type.isInteger(32))
    return emitOpError() << "requires elements of f32, f16, bf16 or i32, but got " << type;
  return verifyTmaWrite(*this);
}

LogicalResult BulkLoadOp::verify() {
  auto buffer = cast<SharedType>(getBuffer().getType());
  if (failed(verifyFeature(*this, Feature::Tma)))
    return failure();
  if (buffer.getShape().size() != 1)
    return emitOpError() << "must fill a buffer of rank 1, but got " << buffer;
  if (getBytes(buffer) % 16 != 0)
    return emitOpError() << "must copy a multiple of 16 bytes, but got " << getBytes(buffer);
  return tile::verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                            getTensorType(buffer), std::nullopt);
}
