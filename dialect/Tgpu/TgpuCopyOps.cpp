// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies between global memory, shared memory and registers: verifiers.

#include "dialect/Tgpu/Tgpu.h"

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
  return success();
}

LogicalResult StoreOp::verify() {
  return tile::verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                            getValue().getType(), getDims());
}

LogicalResult AtomicAddOp::verify() {
  return tile::verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                            getValue().getType(), getDims());
}

/// A register tile and a buffer hold the same tile, transposed where asked for.
static LogicalResult verifySameTile(Operation *op, RankedTensorType tile, SharedType buffer,
                                    bool transpose) {
  SmallVector<int64_t> shape(buffer.getShape());
  if (transpose)
    std::reverse(shape.begin(), shape.end());
  if (tile.getShape() == ArrayRef<int64_t>(shape) &&
      tile.getElementType() == buffer.getElementType())
    return success();
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
LogicalResult BulkWaitOp::verify() { return verifyPending(*this, getPending()); }

LogicalResult TensorMapOp::verify() {
  auto argument = dyn_cast<BlockArgument>(getView());
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  if (!argument || argument.getOwner() != &kernel.getBody().front())
    return emitOpError("maps an argument of the kernel, but got another view; the runtime knows "
                       "arguments only");
  auto view = cast<tile::ViewType>(getView().getType());
  auto map = cast<TensorMapType>(getMap().getType());
  if (view.getRank() != static_cast<int64_t>(map.getBox().size()) ||
      view.getElementType() != map.getElementType())
    return emitOpError() << "box must have the rank and elements of its view " << view
                         << ", but got " << map;
  return success();
}

/// The buffer is made of boxes of the map, side by side.
static LogicalResult verifyBoxes(Operation *op, TensorMapType map, SharedType buffer,
                                 OperandRange indices, ArrayRef<int64_t> staticIndices) {
  ArrayRef<int64_t> box = map.getBox();
  int64_t dynamic = llvm::count_if(staticIndices, ShapedType::isDynamic);
  if (dynamic != static_cast<int64_t>(indices.size()) || staticIndices.size() != box.size())
    return op->emitOpError() << "needs one index for each dimension of its map: rank " << box.size()
                             << ", but got " << staticIndices.size() << " indices";
  int64_t columns = box.back(), rows = 1;
  for (int64_t extent : box.drop_back())
    rows *= extent;
  ArrayRef<int64_t> shape = buffer.getShape();
  int64_t bufferRows = shape.size() == 2 ? shape.front() : 1;
  if (bufferRows == rows && shape.back() % columns == 0 && map.getSwizzle() == buffer.getSwizzle() &&
      map.getElementType() == buffer.getElementType())
    return success();
  return op->emitOpError() << "buffer must be made of boxes of the map, side by side, but got "
                           << buffer << " and " << map;
}

LogicalResult TmaLoadOp::verify() {
  return verifyBoxes(*this, cast<TensorMapType>(getMap().getType()),
                     cast<SharedType>(getBuffer().getType()), getIndices(), getStaticIndices());
}
LogicalResult TmaStoreOp::verify() {
  return verifyBoxes(*this, cast<TensorMapType>(getMap().getType()),
                     cast<SharedType>(getBuffer().getType()), getIndices(), getStaticIndices());
}
LogicalResult TmaReduceAddOp::verify() {
  return verifyBoxes(*this, cast<TensorMapType>(getMap().getType()),
                     cast<SharedType>(getBuffer().getType()), getIndices(), getStaticIndices());
}

LogicalResult BulkLoadOp::verify() {
  auto buffer = cast<SharedType>(getBuffer().getType());
  if (buffer.getShape().size() != 1)
    return emitOpError() << "fills a buffer of rank 1, but got " << buffer;
  return tile::verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                            getTensorType(buffer), std::nullopt);
}
