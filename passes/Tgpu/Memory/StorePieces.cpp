// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pieces in which a tile is stored through shared memory, and the operations of a piece.

#include "passes/Tgpu/Memory/StorePieces.h"

#include "passes/Tgpu/Analysis/TileQueries.h"
#include "passes/Tgpu/Roles/RoleSlice.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

template <typename WriteOp> bool tgpu::mayWritePanels(WriteOp write, int64_t panel) {
  constexpr int64_t chunkBits = 128;
  auto tile = cast<RankedTensorType>(write.getValue().getType());
  int64_t columns = tile.getShape().back(), bits = getElementBits(tile.getElementType());
  int64_t first = write.getStaticIndices().back();
  int64_t extent = cast<tile::ViewType>(write.getView().getType()).getShape().back();
  // TMA writes whole chunks of 16 bytes: the launch would always reject the map.
  if (tile.getRank() != 2 || (!ShapedType::isDynamic(extent) && extent * bits % chunkBits != 0))
    return false;
  bool endsWithView = !ShapedType::isDynamic(first) && !ShapedType::isDynamic(extent) &&
                      first * bits % chunkBits == 0 && extent - first <= columns;
  return columns % panel == 0 || (columns * bits % chunkBits == 0 && endsWithView);
}

template bool tgpu::mayWritePanels(StoreOp, int64_t);
template bool tgpu::mayWritePanels(AtomicAddOp, int64_t);

template <typename WriteOp>
std::optional<StorePieces> StorePieces::get(KernelOp kernel, WriteOp write, int64_t buffers) {
  constexpr int64_t panelBytes = 128;
  auto tile = cast<RankedTensorType>(write.getValue().getType());
  int64_t bits = getElementBits(tile.getElementType());
  int64_t columns = panelBytes * 8 / bits;
  if (buffers < 1 || !isa<WgmmaAttr>(tile.getEncoding()) || (bits != 16 && bits != 32) ||
      !mayWritePanels(write, columns))
    return std::nullopt;
  StorePieces pieces;
  pieces.columns = tile.getDimSize(1);
  pieces.type = SharedType::get(kernel.getContext(), {tile.getDimSize(0), columns},
                                tile.getElementType(), tgpu::Swizzle::B128);
  pieces.map = getTensorMap(kernel, write, pieces.type);
  if (!pieces.map)
    return std::nullopt;
  pieces.count = llvm::divideCeilSigned(pieces.columns, columns);
  pieces.buffers = std::min(buffers, pieces.count);
  while (pieces.count % pieces.buffers != 0)
    --pieces.buffers;
  return pieces;
}

template std::optional<StorePieces> StorePieces::get(KernelOp, StoreOp, int64_t);
template std::optional<StorePieces> StorePieces::get(KernelOp, AtomicAddOp, int64_t);

int64_t StorePieces::getColumnsFrom(int64_t first, int64_t most) const {
  return std::min(columns - first, most * type.getShape().back());
}

SharedType StorePieces::getType(int64_t columnCount) const {
  assert(columnCount > 0 && "a buffer without columns");
  return SharedType::get(type.getContext(), {type.getShape().front(), columnCount},
                         type.getElementType(), type.getSwizzle());
}

int64_t StorePieces::getCountIn(SharedType slot) const {
  if (getAlignment(type) > getAlignment(slot))
    return 0;
  return std::min(getBytes(slot) / getBytes(type), count);
}

template <typename WriteOp>
void tgpu::storePiece(ImplicitLocOpBuilder &b, WriteOp write, Value buffer, Value map,
                      int64_t first, bool perWarpgroup) {
  SmallVector<Value> indices(write.getIndices());
  SmallVector<int64_t> known(write.getStaticIndices());
  if (!ShapedType::isDynamic(known.back()))
    known.back() += first;
  else if (first)
    indices.back() = arith::AddIOp::create(
        b, indices.back(),
        arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(first))));
  MappedView view = MappedView::of(write.getView());
  using Copy = std::conditional_t<std::is_same_v<WriteOp, StoreOp>, TmaStoreOp, TmaReduceAddOp>;
  Copy::create(b, buffer, map, indices, known, view.begin, view.size, perWarpgroup);
}

template void tgpu::storePiece(ImplicitLocOpBuilder &, StoreOp, Value, Value, int64_t, bool);
template void tgpu::storePiece(ImplicitLocOpBuilder &, AtomicAddOp, Value, Value, int64_t, bool);

/// The operation that computes a tile element by element for one use, or a splat; null for
/// others.
static Operation *getElementwise(Value tile) {
  Operation *op = tile.getDefiningOp();
  if (!op || isa<tile::FullOp>(op))
    return op;
  bool isElementwise = tgpu::isElementwise(op) && op->hasOneUse() && op->getNumResults() == 1 &&
                       isMemoryEffectFree(op);
  return isElementwise ? op : nullptr;
}

Value tgpu::getColumns(ImplicitLocOpBuilder &b, Value tile, int64_t first, int64_t count) {
  if (cast<RankedTensorType>(tile.getType()).getDimSize(1) == count)
    return tile;
  IRMapping pieces;
  // Operands first, with an explicit stack: the computation may be a chain of any length.
  SmallVector<Value> stack{tile};
  while (!stack.empty()) {
    Value value = stack.back();
    if (pieces.contains(value)) {
      stack.pop_back();
      continue;
    }
    auto type = cast<RankedTensorType>(value.getType());
    auto pieceType = type.clone({type.getDimSize(0), count});
    Operation *op = getElementwise(value);
    if (!op) {
      pieces.map(value, ColumnsOp::create(b, pieceType, first, value).getResult());
      continue;
    }
    size_t size = stack.size();
    for (Value operand : llvm::reverse(op->getOperands()))
      if (isa<RankedTensorType>(operand.getType()) && !pieces.contains(operand))
        stack.push_back(operand);
    if (stack.size() == size)
      b.clone(*op, pieces)->getResult(0).setType(pieceType);
  }
  return pieces.lookup(tile);
}

Value tgpu::getStoreMap(ImplicitLocOpBuilder &b, Value view, TensorMapType type) {
  view = MappedView::of(view).argument;
  for (Operation *user : view.getUsers())
    if (auto map = dyn_cast<TensorMapOp>(user); map && map.getMap().getType() == type)
      return map.getMap();
  return TensorMapOp::create(b, type, view);
}
