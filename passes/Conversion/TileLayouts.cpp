// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts the layouts of tgpu types to the layouts of base/Layout.

#include "passes/Conversion/TileLayouts.h"

#include "dialect/Tgpu/MatrixShape.h"

using namespace mlir;
using tilewright::layout::RegisterLayout;

namespace tilewright::tgpu {

static Result<RegisterLayout> getLayout(Attribute attribute, ArrayRef<int64_t> shape, int bits) {
  if (auto blocked = dyn_cast<BlockedAttr>(attribute))
    return RegisterLayout::blocked(shape.vec(), blocked.getVector(), blocked.getLanes(),
                                   blocked.getWarpsM(), blocked.getWarpsN());
  if (shape.size() != 2)
    return Status::failure("a layout of a matrix instruction spreads tiles of rank 2, but got "
                           "rank " +
                           std::to_string(shape.size()));
  if (auto mma = dyn_cast<MmaAttr>(attribute))
    return RegisterLayout::mmaAccumulator(shape[0], shape[1], mma.getWarpsM(), mma.getWarpsN());
  if (auto wgmma = dyn_cast<WgmmaAttr>(attribute))
    return RegisterLayout::wgmmaAccumulator(shape[0], shape[1], wgmma.getWarpgroups(),
                                            wgmma.getRowPairs());
  auto operand = cast<OperandAttr>(attribute);
  if (auto wgmma = dyn_cast<WgmmaAttr>(operand.getParent()))
    return RegisterLayout::wgmmaOperandA(shape[0], shape[1], wgmma.getWarpgroups(), bits,
                                         wgmma.getRowPairs());
  auto mma = cast<MmaAttr>(operand.getParent());
  if (operand.getOperand() == MatrixOperand::A)
    return RegisterLayout::mmaOperandA(shape[0], shape[1], mma.getWarpsM(), mma.getWarpsN(), bits);
  return RegisterLayout::mmaOperandB(shape[0], shape[1], mma.getWarpsM(), mma.getWarpsN(), bits);
}

/// The type does not contain the extent of the dimension that a slice removed. It only determines
/// how often lanes and warps repeat elements, which is the same for every multiple of the layout's
/// extent.
static int64_t removedExtent(Attribute parent, int64_t dim) {
  if (auto blocked = dyn_cast<BlockedAttr>(parent))
    return dim == 0 ? 32 / blocked.getLanes() * blocked.getWarpsM()
                    : blocked.getVector() * blocked.getLanes() * blocked.getWarpsN();
  if (auto mma = dyn_cast<MmaAttr>(parent))
    return dim == 0 ? 16 * mma.getWarpsM() : 8 * mma.getWarpsN();
  if (auto wgmma = dyn_cast<WgmmaAttr>(parent))
    return dim == 0 ? rowsOfWarpgroup * wgmma.getWarpgroups() : 8;
  auto operand = cast<OperandAttr>(parent);
  bool isDepth = (operand.getOperand() == MatrixOperand::A) == (dim == 1);
  return isDepth ? 64 : removedExtent(operand.getParent(), dim);
}

Result<RegisterLayout> getRegisterLayout(RankedTensorType tile) {
  int bits = static_cast<int>(getElementBits(tile.getElementType()));
  Attribute encoding = tile.getEncoding();
  if (auto byThread = dyn_cast<ByThreadAttr>(encoding)) {
    int64_t dim = byThread.getDim();
    SmallVector<int64_t> shape(tile.getShape());
    shape[dim] = removedExtent(byThread.getParent(), dim);
    Result<RegisterLayout> parent = getLayout(byThread.getParent(), shape, bits);
    if (!parent)
      return parent;
    return RegisterLayout::byThread(*parent, static_cast<int>(dim));
  }
  auto slice = dyn_cast<SliceAttr>(encoding);
  if (!slice)
    return getLayout(encoding, getMatrixShape(tile.getShape()), bits);
  if (tile.getRank() != 1)
    return Status::failure("a slice has rank 1, but got rank " + std::to_string(tile.getRank()));
  int64_t dim = slice.getDim();
  SmallVector<int64_t> shape(tile.getShape());
  shape.insert(shape.begin() + dim, removedExtent(slice.getParent(), dim));
  Result<RegisterLayout> parent = getLayout(slice.getParent(), shape, bits);
  if (!parent)
    return parent;
  return RegisterLayout::slice(*parent, static_cast<int>(dim));
}

Result<layout::SharedLayout> getSharedLayout(SharedType type) {
  ArrayRef<int64_t> shape = type.getShape();
  return layout::SharedLayout::swizzled(shape.size() == 2 ? shape[0] : 1, shape.back(),
                                        static_cast<int>(getElementBits(type.getElementType())),
                                        type.getSwizzle());
}

} // namespace tilewright::tgpu
