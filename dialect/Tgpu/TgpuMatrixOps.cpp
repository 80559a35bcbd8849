// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix instructions and changes of layout: verifiers.

#include "dialect/Tgpu/TgpuVerify.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

LogicalResult ConvertOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (source.getShape() != result.getShape() || source.getElementType() != result.getElementType())
    return emitOpError() << "must change only the layout, but got " << source << " and " << result;
  auto operand = dyn_cast<OperandAttr>(result.getEncoding());
  bool isOfSums = operand && operand.getOperand() == MatrixOperand::A &&
                  operand.getParent() == source.getEncoding() &&
                  isa<WgmmaAttr>(operand.getParent()) &&
                  getElementBits(source.getElementType()) == 8;
  if (getInterleaved() && (getScratch() || !isOfSums))
    return emitOpError() << "'interleaved' requires 8-bit elements of a wgmma layout that become "
                            "its operand a without scratch memory, but got "
                         << source << " and " << result;
  return verifyWarps(*this);
}

LogicalResult ColumnsOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  auto mma = dyn_cast<MmaAttr>(source.getEncoding());
  bool keepsColumns = isa<WgmmaAttr>(source.getEncoding()) || (mma && mma.getWarpsN() == 1);
  if (!keepsColumns || result.getEncoding() != source.getEncoding())
    return emitOpError() << "requires a source of one wgmma layout, or of one mma layout with one "
                            "column of warps, but got "
                         << source << " and " << result;
  if (result.getDimSize(0) != source.getDimSize(0) ||
      result.getElementType() != source.getElementType())
    return emitOpError() << "must keep rows and elements, but got " << source << " and " << result;
  int64_t first = getFirst(), columns = source.getDimSize(1);
  if (first < 0 || first % 8 != 0 || first > columns || result.getDimSize(1) > columns - first)
    return emitOpError() << "columns must begin at a multiple of 8 and lie in the source's "
                         << columns << ", but got " << result.getDimSize(1) << " from " << first;
  return verifyWarps(*this);
}

LogicalResult JoinColumnsOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  if (!isa<WgmmaAttr>(result.getEncoding()))
    return emitOpError() << "requires a result of a wgmma layout, but got " << result;
  int64_t columns = 0;
  for (Type type : getParts().getTypes()) {
    auto part = cast<RankedTensorType>(type);
    if (part.getEncoding() != result.getEncoding() || part.getDimSize(0) != result.getDimSize(0) ||
        part.getElementType() != result.getElementType() || part.getDimSize(1) % 8 != 0)
      return emitOpError() << "tiles must have the layout, rows and elements of the result, and a "
                              "multiple of 8 columns, but got "
                           << part << " for " << result;
    columns += part.getDimSize(1);
  }
  if (columns != result.getDimSize(1))
    return emitOpError() << "tiles must have the result's " << result.getDimSize(1)
                         << " columns together, but got " << columns;
  return verifyWarps(*this);
}

LogicalResult ThreadSumOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  int64_t dim = getDim();
  auto layout = dyn_cast<ByThreadAttr>(result.getEncoding());
  if (!layout || layout.getDim() != dim || layout.getParent() != source.getEncoding())
    return emitOpError() << "the result must have the layout by_thread<" << dim
                         << "> of the operand's layout, "
                         << "but got " << source << " and " << result;
  if (result.getElementType() != source.getElementType() ||
      result.getDimSize(1 - dim) != source.getDimSize(1 - dim))
    return emitOpError() << "must keep dimension " << 1 - dim << " and elements, but got " << source
                         << " and " << result;
  if (!isa<FloatType>(source.getElementType()))
    return emitOpError() << "requires floats, but got " << source;
  return verifyWarps(*this);
}

LogicalResult RaiseMaxOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (!source.getElementType().isF32() || !isa<WgmmaAttr>(source.getEncoding()))
    return emitOpError() << "requires f32 in a wgmma layout, but got " << source;
  auto layout = dyn_cast<SliceAttr>(result.getEncoding());
  if (!layout || layout.getDim() != 1 || layout.getParent() != source.getEncoding() ||
      result.getElementType() != source.getElementType() ||
      result.getDimSize(0) != source.getDimSize(0))
    return emitOpError() << "the maxima must have the rows of the operand and the layout slice<1> "
                            "of the operand's, but got "
                         << source << " and " << result;
  if (getOffset() && getOffset().getType() != result)
    return emitOpError() << "the offset must have the type of the maxima, but got "
                         << getOffset().getType() << " and " << result;
  return verifyWarps(*this);
}

namespace {
/// M x N x K of a product.
struct Extents {
  int64_t m, n, k;
};
} // namespace

static FailureOr<Extents> verifyShapes(Operation *op, ArrayRef<int64_t> a, bool transposeA,
                                       ArrayRef<int64_t> b, bool transposeB,
                                       ArrayRef<int64_t> result) {
  if (a.size() != 2 || b.size() != 2 || result.size() != 2)
    return op->emitOpError() << "requires tiles of rank 2, but got ranks " << a.size() << ", "
                             << b.size() << " and " << result.size();
  Extents extents{a[transposeA], b[!transposeB], a[!transposeA]};
  if (b[transposeB] != extents.k || result[0] != extents.m || result[1] != extents.n)
    return op->emitOpError() << "shapes must multiply, but got " << a[0] << "x" << a[1]
                             << (transposeA ? " (transposed)" : "") << " by " << b[0] << "x" << b[1]
                             << (transposeB ? " (transposed)" : "") << " into " << result[0] << "x"
                             << result[1];
  return extents;
}

/// Elements along k of one instruction; 0 for types that have none.
static int64_t getInstructionK(Type element) {
  bool isKnown =
      isa<Float16Type, BFloat16Type, Float32Type, Float8E4M3FNType, Float8E5M2Type>(element);
  return isKnown ? getInstructionDepth(element) : 0;
}

static LogicalResult verifyInstruction(Operation *op, Type element, Type accumulator, Extents e,
                                       int64_t rows, int64_t columns) {
  int64_t k = getInstructionK(element);
  if (!k)
    return op->emitOpError() << "has no instruction for elements of " << element
                             << "; the supported ones are f16, bf16, f32 (as tf32), e4m3 and e5m2";
  if (!accumulator.isF32())
    return op->emitOpError() << "must accumulate in f32, but got " << accumulator;
  if (e.m % rows != 0 || e.n % columns != 0 || e.k % k != 0)
    return op->emitOpError() << "shape must be a multiple of " << rows << "x" << columns << "x" << k
                             << " (M, N, K), but got " << e.m << "x" << e.n << "x" << e.k;
  return verifyWarps(op);
}

LogicalResult MmaOp::verify() {
  auto a = cast<RankedTensorType>(getA().getType()), b = cast<RankedTensorType>(getB().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  auto layout = dyn_cast<MmaAttr>(result.getEncoding());
  auto isOperand = [&](RankedTensorType type, MatrixOperand operand) {
    auto attr = dyn_cast<OperandAttr>(type.getEncoding());
    return attr && attr.getOperand() == operand && attr.getParent() == layout;
  };
  if (!layout || !isOperand(a, MatrixOperand::A) || !isOperand(b, MatrixOperand::B) ||
      a.getElementType() != b.getElementType() || getAcc().getType() != result)
    return emitOpError() << "needs operands a and b, of one element type, of the accumulator's "
                            "layout, but got "
                         << a << ", " << b << " and " << result;
  Type element = a.getElementType();
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (kernel && !getTargetOf(kernel).has(Feature::MmaOfBytes) && getInstructionK(element) == 32)
    return emitOpError() << "has no instruction for elements of " << element << " on "
                         << kernel.getTarget() << "; convert them";
  FailureOr<Extents> extents =
      verifyShapes(*this, a.getShape(), false, b.getShape(), false, result.getShape());
  if (failed(extents))
    return failure();
  return verifyInstruction(*this, element, result.getElementType(), *extents,
                           16 * layout.getWarpsM(), 8 * layout.getWarpsN());
}

LogicalResult FmaDotOp::verify() {
  auto a = cast<SharedType>(getA().getType()), b = cast<SharedType>(getB().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  Type element = a.getElementType();
  if (!element.isF32() && !element.isF64())
    return emitOpError() << "requires elements of f32 or f64, but got " << element;
  if (b.getElementType() != element || result.getElementType() != element ||
      getAcc().getType() != result)
    return emitOpError() << "operands and accumulator must have the same elements, but got " << a
                         << ", " << b << " and " << result;
  if (failed(verifyShapes(*this, a.getShape(), getTransposeA(), b.getShape(), getTransposeB(),
                          result.getShape())))
    return failure();
  return verifyWarps(*this);
}

LogicalResult WgmmaOp::verify() {
  if (failed(verifyFeature(*this, Feature::Wgmma)))
    return failure();
  auto b = cast<SharedType>(getB().getType());
  RankedTensorType result = cast<PendingType>(getResult().getType()).getTile();
  auto layout = cast<WgmmaAttr>(result.getEncoding());
  ArrayRef<int64_t> aShape;
  Type element = b.getElementType();
  if (auto shared = dyn_cast<SharedType>(getA().getType())) {
    aShape = shared.getShape();
    if (shared.getElementType() != element)
      return emitOpError() << "operands must have the same elements, but got " << shared << " and "
                           << b;
    if (layout.getRowPairs())
      return emitOpError() << "operand a must be in registers where lanes hold pairs of rows, but "
                              "got "
                           << shared;
  } else {
    auto tile = dyn_cast<RankedTensorType>(getA().getType());
    auto operand = tile ? dyn_cast_or_null<OperandAttr>(tile.getEncoding()) : OperandAttr();
    if (!operand || operand.getOperand() != MatrixOperand::A || operand.getParent() != layout ||
        tile.getElementType() != element)
      return emitOpError() << "operand a must have the elements of b, and be a shared buffer or "
                              "have the layout of the result's operand a, but got "
                           << getA().getType();
    if (getTransposeA())
      return emitOpError() << "operand a must be in shared memory to be transposed, but got "
                           << getA().getType();
    aShape = tile.getShape();
  }
  bool transposes = getTransposeA() || !getTransposeB();
  if (transposes && getInstructionK(element) != 16)
    return emitOpError() << "operands of " << element
                         << " must be contiguous along k (a as it is, b transposed); only 16-bit "
                            "elements can be transposed";
  if (getAcc() && getAcc().getType() != result && getAcc().getType() != getResult().getType())
    return emitOpError() << "accumulator must be the result's tile, or pending on it, but got "
                         << getAcc().getType();
  SmallVector<int64_t> bShape(b.getShape());
  if (getOverwriting()) {
    auto isBefore = [&](Operation *user) {
      return user == getOperation() ||
             (user->getBlock() == (*this)->getBlock() && user->isBeforeInBlock(*this));
    };
    Operation *made = getAcc() ? getAcc().getDefiningOp() : nullptr;
    bool isOfBlock = made && made->getBlock() == (*this)->getBlock();
    bool isPending = getAcc() && getAcc().getType() != result;
    if (!isOfBlock || isPending || !llvm::all_of(getAcc().getUsers(), isBefore))
      return emitOpError(
                 "'overwriting' must be followed by a finished tile, computed in this block, "
                 "without uses after the product or in other blocks, but got ")
             << (!getAcc()    ? "none"
                 : !isOfBlock ? "one that is not computed in it"
                 : isPending  ? "a pending one"
                              : "one with such a use");
  }
  if (std::optional<uint64_t> columns = getColumns()) {
    int64_t first = static_cast<int64_t>(*columns), last = first + result.getDimSize(1);
    if (!getTransposeB() || first < 0 || first % 8 != 0 || last > bShape[0])
      return emitOpError() << "'columns' must be a multiple of 8 from which on a transposed "
                              "operand b has the columns of the result, but got "
                           << first << " of " << b << " for " << result;
    bShape[0] = result.getDimSize(1);
  }
  FailureOr<Extents> extents =
      verifyShapes(*this, aShape, getTransposeA(), bShape, getTransposeB(), result.getShape());
  if (failed(extents))
    return failure();
  if (extents->n > 256)
    return emitOpError() << "must have at most 256 columns, but got " << extents->n;
  return verifyInstruction(*this, element, result.getElementType(), *extents,
                           rowsOfWarpgroup * layout.getWarpgroups(), 8);
}

LogicalResult WgmmaCommitOp::verify() { return verifyFeature(*this, Feature::Wgmma); }

LogicalResult WgmmaWaitOp::verify() {
  if (failed(verifyFeature(*this, Feature::Wgmma)))
    return failure();
  if (getPending() > 7)
    return emitOpError() << "may leave 0 to 7 groups pending, but got "
                         << static_cast<int64_t>(getPending());
  auto tiles = llvm::map_to_vector(
      getTiles().getTypes(), [](Type type) -> Type { return cast<PendingType>(type).getTile(); });
  if (TypeRange(tiles) != TypeRange(getResultTypes()))
    return emitOpError("must return the types of its tiles, (")
           << TypeRange(tiles) << "), but got (" << TypeRange(getResultTypes()) << ")";
  return verifyWarps(*this);
}
