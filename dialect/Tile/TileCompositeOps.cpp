// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that are made of others, and those that help to find faults: verifiers.

#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileVerify.h"

using namespace mlir;
using namespace tilewright::tile;

/// Whether each extent is an integer.
static bool areKnown(ArrayRef<Dim> dims) {
  return llvm::none_of(dims, [](const Dim &dim) { return dim.isSymbol() || dim.isUnknown(); });
}

/// A tile of the rank, the elements and, apart from `dim`, the extents of the result.
static LogicalResult verifyPart(Operation *op, StringRef what, Type part, Type result,
                                int64_t dim) {
  SmallVector<Dim> dims = getDims(part), expected = getDims(result);
  bool hasShape = dims.size() == expected.size();
  if (hasShape) {
    expected[dim] = dims[dim];
    hasShape = dims == expected;
  }
  if (hasShape && getElementType(part) == getElementType(result))
    return success();
  return op->emitOpError() << what << " must be of the type of the result, " << result
                           << ", apart from the extent of dimension " << dim << ", but got "
                           << part;
}

/// Elements that can be compared.
static LogicalResult verifyOrdered(Operation *op, Type element) {
  if (!element.isInteger(1))
    return success();
  return op->emitOpError("does not support i1; convert with tile.cast");
}

static LogicalResult verifyPositions(Operation *op, Type index, Type like) {
  if (getDims(index) == getDims(like) && getElementType(index).isInteger(32))
    return success();
  return op->emitOpError() << "positions must be i32 in the shape of the elements, "
                           << printDims(getDims(like)) << ", but got " << index;
}

template <typename OpT> static LogicalResult verifyExtremum(OpT op) {
  Type source = op.getSource().getType(), value = op.getValue().getType();
  SmallVector<Dim> expected = getDims(source);
  if (failed(verifyTileDimension(op, op.getDim(), expected.size())))
    return failure();
  expected.erase(expected.begin() + op.getDim());
  if (failed(verifyResultShape(op, expected, value)) ||
      failed(verifyResultElements(op, getElementType(source), getElementType(value))) ||
      failed(verifyPositions(op, op.getIndex().getType(), value)))
    return failure();
  return verifyOrdered(op, getElementType(source));
}

LogicalResult ArgMaxOp::verify() { return verifyExtremum(*this); }
LogicalResult ArgMinOp::verify() { return verifyExtremum(*this); }

LogicalResult TopKOp::verify() {
  Type source = getSource().getType(), values = getValues().getType();
  SmallVector<Dim> from = getDims(source), to = getDims(values);
  if (failed(verifyTileDimension(*this, getDim(), from.size())))
    return failure();
  SmallVector<Dim> expected = from;
  if (to.size() == from.size())
    expected[getDim()] = to[getDim()];
  if (failed(verifyResultShape(*this, expected, values)) ||
      failed(verifyResultElements(*this, getElementType(source), getElementType(values))) ||
      failed(verifyPositions(*this, getIndices().getType(), values)))
    return failure();
  Dim given = from[getDim()], wanted = to[getDim()];
  if (areKnown({given, wanted}) && wanted.extent > given.extent)
    return emitOpError() << "must have a result of at most " << given.extent
                         << " elements along dimension " << getDim() << ", but got "
                         << wanted.extent;
  return verifyOrdered(*this, getElementType(source));
}

LogicalResult ConcatOp::verify() {
  Type result = getResult().getType();
  SmallVector<Dim> dims = getDims(result);
  if (failed(verifyTileDimension(*this, getDim(), dims.size())))
    return failure();
  if (getSources().empty())
    return emitOpError("requires operands, but got none");
  int64_t sum = 0;
  bool isKnown = areKnown(dims[getDim()]);
  for (Value source : getSources()) {
    if (failed(verifyPart(*this, "operand", source.getType(), result, getDim())))
      return failure();
    Dim extent = getDims(source.getType())[getDim()];
    isKnown = isKnown && areKnown(extent);
    sum += isKnown ? extent.extent : 0;
  }
  if (isKnown && sum != dims[getDim()].extent)
    return emitOpError() << "requires extents along dimension " << getDim() << " that add up to "
                         << dims[getDim()].extent << ", but got " << sum;
  return success();
}

LogicalResult InsertOp::verify() {
  Type result = getResult().getType();
  if (failed(verifyTileDimension(*this, getDim(), getRank(result))))
    return failure();
  return verifyPart(*this, "part", getPart().getType(), result, getDim());
}

LogicalResult PrintOp::verify() {
  if (std::optional<int64_t> limit = getLimit(); limit && *limit < 1)
    return emitOpError() << "must have a limit of at least 1 element, but got " << *limit
                         << "; leave it out to write all";
  return success();
}

SmallVector<StringRef> PrintOp::getInstanceNames() {
  SmallVector<StringRef> names;
  if (auto list = (*this)->getAttrOfType<ArrayAttr>(getInstanceName()))
    if (list.size() <= getValues().size())
      for (auto name : list.getAsRange<StringAttr>())
        names.push_back(name.getValue());
  return names;
}

int64_t PrintOp::getLimitFor(int64_t count) {
  return std::min<int64_t>(getLimit().value_or(count), count);
}

LogicalResult AssertOp::verify() {
  Type element = getElementType(getCondition().getType());
  if (element.isInteger(1))
    return success();
  return emitOpError() << "condition must be i1, but got elements of " << element;
}
