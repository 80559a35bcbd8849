// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that compute tiles from tiles: verifiers.

#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExprCheck.h"
#include "dialect/Tile/TileVerify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

using namespace mlir;
using namespace tilewright::tile;

LogicalResult tilewright::tile::verifyTileDimension(Operation *op, int64_t dim, int64_t rank) {
  if (dim >= 0 && dim < rank)
    return success();
  return op->emitOpError() << "must name one of " << rank << " dimensions, counted from 0, but got "
                           << dim;
}

LogicalResult tilewright::tile::verifyResultElements(Operation *op, Type expected, Type actual) {
  if (expected == actual)
    return success();
  return op->emitOpError() << "elements of the result must be " << expected << ", but got "
                           << actual;
}

LogicalResult tilewright::tile::verifyResultShape(Operation *op, ArrayRef<Dim> expected,
                                                  Type actual) {
  SmallVector<Dim> dims = getDims(actual);
  if (expected == ArrayRef<Dim>(dims))
    return success();
  return op->emitOpError() << "result must have shape " << printDims(expected) << ", but got "
                           << printDims(dims);
}

LogicalResult FullOp::verify() {
  if (getValue().getType() == getElementType(getResult().getType()))
    return success();
  return emitOpError() << "scalar must be of the type of the elements, "
                       << getElementType(getResult().getType()) << ", but got "
                       << getValue().getType();
}

LogicalResult tilewright::tile::verifyNumber(Operation *op, Attribute value, Type element,
                                             StringRef verb) {
  auto integer = dyn_cast<IntegerAttr>(value);
  auto type = dyn_cast<IntegerType>(element);
  if (!type) {
    if (!integer)
      return success();
    return op->emitOpError() << "of " << element << " must " << verb << " a float, but got "
                             << integer << "; write " << integer.getInt() << ".0";
  }
  if (!integer) {
    InFlightDiagnostic error = op->emitOpError() << "of " << element << " must " << verb
                                                 << " an integer, but got " << value;
    APSInt whole(/*BitWidth=*/64, /*isUnsigned=*/false);
    bool isExact = false;
    if (auto number = dyn_cast<FloatAttr>(value);
        number &&
        number.getValue().convertToInteger(whole, APFloat::rmTowardZero, &isExact) ==
            APFloat::opOK &&
        isExact)
      error << "; write " << whole.getSExtValue();
    return error;
  }
  int64_t number = integer.getInt();
  bool fits =
      type.getWidth() == 1 ? number == 0 || number == 1 : llvm::isIntN(type.getWidth(), number);
  if (fits)
    return success();
  return op->emitOpError() << "must " << verb << " an integer that fits in " << element
                           << ", but got " << number;
}

LogicalResult ConstantOp::verify() {
  return verifyNumber(*this, getValue(), getElementType(getResult().getType()));
}

LogicalResult IotaOp::verify() {
  Type type = getResult().getType();
  if (failed(verifyTileDimension(*this, getDim(), getRank(type))))
    return failure();
  return verifyResultElements(*this, getStart().getType(), getElementType(type));
}

LogicalResult ExpandOp::verify() {
  Type source = getSource().getType(), result = getResult().getType();
  if (getRank(result) != getRank(source) + 1)
    return emitOpError() << "adds one dimension to rank " << getRank(source)
                         << ", but its result has rank " << getRank(result);
  if (failed(verifyTileDimension(*this, getDim(), getRank(result))))
    return failure();
  SmallVector<Dim> expected = getDims(source);
  expected.insert(expected.begin() + getDim(), getDims(result)[getDim()]);
  if (failed(verifyResultShape(*this, expected, result)))
    return failure();
  return verifyResultElements(*this, getElementType(source), getElementType(result));
}

LogicalResult ReshapeOp::verify() {
  Type source = getSource().getType(), result = getResult().getType();
  if (failed(verifyResultElements(*this, getElementType(source), getElementType(result))))
    return failure();
  auto isStatic = [](const Dim &dim) { return !dim.isSymbol(); };
  SmallVector<Dim> from = getDims(source), to = getDims(result);
  if (!llvm::all_of(from, isStatic) || !llvm::all_of(to, isStatic))
    return success();
  auto count = [](ArrayRef<Dim> dims) {
    int64_t product = 1;
    for (const Dim &dim : dims)
      if (llvm::MulOverflow(product, dim.extent, product))
        return int64_t(-1);
    return product;
  };
  if (count(from) == count(to))
    return success();
  return emitOpError() << "must keep the number of elements, but got " << printDims(from) << " and "
                       << printDims(to);
}

LogicalResult TransposeOp::verify() {
  Type source = getSource().getType(), result = getResult().getType();
  int64_t rank = getRank(source);
  SmallVector<bool> seen(rank);
  bool isPermutation = static_cast<int64_t>(getPermutation().size()) == rank;
  for (int64_t dim : getPermutation()) {
    isPermutation = isPermutation && dim >= 0 && dim < rank && !seen[dim];
    if (isPermutation)
      seen[dim] = true;
  }
  if (!isPermutation) {
    InFlightDiagnostic diagnostic = emitOpError("needs a permutation of the ")
                                    << rank << " dimensions, but got [";
    llvm::interleaveComma(getPermutation(), diagnostic);
    return diagnostic << "]";
  }
  SmallVector<Dim> from = getDims(source), expected;
  for (int64_t dim : getPermutation())
    expected.push_back(from[dim]);
  if (failed(verifyResultShape(*this, expected, result)))
    return failure();
  return verifyResultElements(*this, getElementType(source), getElementType(result));
}

LogicalResult SliceOp::verify() {
  Type source = getSource().getType(), result = getResult().getType();
  int64_t rank = getRank(source);
  if (failed(verifyTileDimension(*this, getDim(), rank)))
    return failure();
  if (getRank(result) != rank)
    return emitOpError() << "must keep the rank, " << rank << ", but its result has rank "
                         << getRank(result);
  SmallVector<Dim> expected = getDims(source);
  expected[getDim()] = getDims(result)[getDim()];
  if (failed(verifyResultShape(*this, expected, result)) ||
      failed(verifyResultElements(*this, getElementType(source), getElementType(result))))
    return failure();
  if (getFill() && getFill().getType() != getElementType(source))
    return emitOpError() << "fill must be of the type of the elements, " << getElementType(source)
                         << ", but got " << getFill().getType();
  return success();
}

/// Which transposition makes the inner dimensions agree. The extents are those with the present
/// ones.
static std::string suggestTransposition(DotOp dot, ArrayRef<Dim> a, ArrayRef<Dim> b) {
  std::string text;
  auto change = [](bool isThere, StringRef word) {
    return ((isThere ? "leave out " : "write ") + word).str();
  };
  std::string changeA = change(dot.getTransposeA(), "transpose_a");
  std::string changeB = change(dot.getTransposeB(), "transpose_b");
  for (const auto &[agrees, how] :
       {std::pair(a[1] == b[1], changeB), std::pair(a[0] == b[0], changeA),
        std::pair(a[0] == b[1], changeA + " and " + changeB)})
    if (agrees && text.empty())
      text = "; " + how;
  return text.empty() ? "; give both the same extent" : text;
}

LogicalResult DotOp::verify() {
  Type a = getLhs().getType(), b = getRhs().getType(), result = getResult().getType();
  if (getRank(a) != 2 || getRank(b) != 2)
    return emitOpError() << "requires tiles of rank 2, but got ranks " << getRank(a) << " and "
                         << getRank(b);
  Type element = getElementType(a);
  if (element != getElementType(b))
    return emitOpError() << "operands must have the same elements, but got " << element << " and "
                         << getElementType(b) << "; convert one with tile.cast";
  if (!isa<FloatType>(element))
    return emitOpError() << "requires float operands, but got " << element;
  SmallVector<Dim> aDims = getDims(a), bDims = getDims(b);
  if (getTransposeA())
    std::swap(aDims[0], aDims[1]);
  if (getTransposeB())
    std::swap(bDims[0], bDims[1]);
  if (aDims[1] != bDims[0])
    return emitOpError() << "inner dimensions must agree, but got " << printDims(aDims[1])
                         << " and " << printDims(bDims[0])
                         << suggestTransposition(*this, aDims, bDims);
  if (failed(verifyResultShape(*this, {aDims[0], bDims[1]}, result)))
    return failure();
  Type accumulator = getAccumulatorType(element), resultElement = getElementType(result);
  bool wellTyped = accumulator ? resultElement == accumulator || isa<ParamType>(resultElement)
                               : isa<FloatType>(resultElement);
  if (!wellTyped)
    return emitOpError() << "accumulates products of " << element << " in "
                         << (accumulator ? accumulator : Float32Type::get(getContext()))
                         << ", but its result has elements " << resultElement
                         << "; convert it with tile.cast";
  if (getAcc() && getAcc().getType() != result)
    return emitOpError() << "accumulator must be of the type of the result, " << result
                         << ", but got " << getAcc().getType();
  if (getPrecision() == DotPrecision::TF32 && !element.isF32() && !isa<ParamType>(element))
    return emitOpError() << "precision tf32 is for f32 operands, but got " << element;
  constexpr int64_t interleavedDepth = 16;
  Dim depth = aDims[1];
  bool isKnown = !depth.isSymbol() && !depth.isUnknown();
  if (getInterleaved() && isKnown && depth.extent % interleavedDepth != 0)
    return emitOpError() << "'interleaved' requires an inner dimension that is a multiple of "
                         << interleavedDepth << ", but got " << depth.extent;
  return success();
}

/// Which kinds of combination the elements have.
static LogicalResult verifyKind(Operation *op, ReduceKind kind, Type element) {
  bool logical = kind == ReduceKind::And || kind == ReduceKind::Or;
  if (logical && isa<FloatType>(element))
    return op->emitOpError() << stringifyReduceKind(kind) << " requires integers, but got "
                             << element;
  if (!logical && element.isInteger(1))
    return op->emitOpError() << stringifyReduceKind(kind)
                             << " does not support i1; use and, or, or convert with tile.cast";
  return success();
}

LogicalResult ScanOp::verify() {
  Type source = getSource().getType();
  if (failed(verifyTileDimension(*this, getDim(), getRank(source))))
    return failure();
  return verifyKind(*this, getKind(), getElementType(source));
}

LogicalResult ReduceOp::verify() {
  Type source = getSource().getType(), result = getResult().getType();
  if (failed(verifyTileDimension(*this, getDim(), getRank(source))))
    return failure();
  SmallVector<Dim> expected = getDims(source);
  expected.erase(expected.begin() + getDim());
  if (failed(verifyResultShape(*this, expected, result)) ||
      failed(verifyResultElements(*this, getElementType(source), getElementType(result))))
    return failure();
  return verifyKind(*this, getKind(), getElementType(source));
}

/// Tiles among the operands must have the shape of the result, or of the given tile.
static LogicalResult verifyMapShapes(Operation *op, OperandRange operands, Type like) {
  SmallVector<Dim> shape = getDims(like);
  bool anyTile = false;
  for (Value operand : operands) {
    if (!isTile(operand.getType()))
      continue;
    anyTile = true;
    if (getDims(operand.getType()) != shape)
      return op->emitOpError() << "tiles must have one shape, " << printDims(shape) << ", but got "
                               << printDims(getDims(operand.getType()));
  }
  if (!anyTile)
    return op->emitOpError(
        "needs a tile among its operands; use tile.full of func.call for scalars");
  return success();
}

static LogicalResult verifyMapped(Operation *op, FlatSymbolRefAttr symbol, OperandRange operands,
                                  Type returned, SymbolTableCollection &symbols) {
  if (mayBeLinked(op, symbol, symbols))
    return success();
  StringRef name = symbol.getValue();
  auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(op, symbol);
  if (!function)
    return op->emitOpError() << "must apply a function of this module, but got @" << name
                             << "; define it, or link the file that does";
  FunctionType type = function.getFunctionType();
  if (type.getNumInputs() != operands.size())
    return op->emitOpError() << "must pass " << type.getNumInputs() << " operands to @" << name
                             << ", but got " << operands.size();
  for (auto [i, operand] : llvm::enumerate(operands))
    if (!mayBecomeEqual(type.getInput(i), getElementType(operand.getType())))
      return op->emitOpError() << "operand " << i << " of @" << name << " is " << type.getInput(i)
                               << ", but got elements of " << getElementType(operand.getType());
  if (type.getNumResults() != 1 || !mayBecomeEqual(type.getResult(0), returned))
    return op->emitOpError() << "needs @" << name << " to return one " << returned << ", but it is "
                             << type;
  return success();
}

LogicalResult MapOp::verify() {
  return verifyMapShapes(*this, getOperands(), getResult().getType());
}

LogicalResult MapOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyMapped(*this, getFunctionAttr(), getOperands(),
                      getElementType(getResult().getType()), symbols);
}

/// The seed has the shape of the result.
static LogicalResult verifySeed(Operation *op, Type seed, Type like) {
  if (getDims(seed) != getDims(like))
    return op->emitOpError() << "seed must have the shape of the result, "
                             << printDims(getDims(like)) << ", but got "
                             << printDims(getDims(seed));
  Type element = getElementType(seed);
  if (!isa<FloatType, ParamType>(element))
    return op->emitOpError() << "seed must be a tile of floats, but got elements of " << element;
  return success();
}

LogicalResult MapGradientOp::verify() {
  Type result = getResult().getType();
  if (getWrt() >= getArgs().size())
    return emitOpError() << "differentiates with respect to operand " << getWrt()
                         << ", but there are " << getArgs().size() << " operands, counted from 0";
  Type operand = getElementType(getArgs()[getWrt()].getType());
  if (!isa<FloatType, ParamType>(operand))
    return emitOpError() << "differentiates with respect to a float, but got operand " << getWrt()
                         << " of " << operand << " elements";
  if (getElementType(result) != operand)
    return emitOpError() << "result must have the elements of operand " << getWrt() << ", "
                         << operand << ", but got " << getElementType(result);
  if (failed(verifySeed(*this, getSeed().getType(), result)))
    return failure();
  return verifyMapShapes(*this, getArgs(), result);
}

LogicalResult MapGradientOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyMapped(*this, getFunctionAttr(), getArgs(), getElementType(getSeed().getType()),
                      symbols);
}

LogicalResult AddGradientsOp::verify() {
  if (ExprAttr condition = getExactConditionAttr()) {
    if (!getExact())
      return emitOpError(
          "'when' requires 'exact', but got it alone; remove it, or write 'exact' before "
          "it");
    if (failed(checkParameterExpr(*this, condition, "the condition of 'exact'", ExprKind::Flag)))
      return failure();
  }
  Type seed = getSeed().getType();
  if (failed(verifySeed(*this, seed, seed)))
    return failure();
  // The seed is a tile, regardless of the function's operands.
  bool isUniform = llvm::none_of(getArgs(), [](Value arg) { return isTile(arg.getType()); });
  return isUniform ? success() : verifyMapShapes(*this, getArgs(), seed);
}

LogicalResult AddGradientsOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyMapped(*this, getFunctionAttr(), getArgs(), getElementType(getSeed().getType()),
                      symbols);
}

LogicalResult SelectOp::verify() {
  Type condition = getCondition().getType(), type = getResult().getType();
  if (!getElementType(condition).isInteger(1))
    return emitOpError() << "condition must be i1, but got elements of "
                         << getElementType(condition);
  if (isTile(condition) && getDims(condition) != getDims(type))
    return emitOpError() << "condition must have the shape of the values, "
                         << printDims(getDims(type)) << ", but got "
                         << printDims(getDims(condition));
  if (getIfTrue().getType() != type || getIfFalse().getType() != type)
    return emitOpError() << "values must be of the type of the result, " << type << ", but got "
                         << getIfTrue().getType() << " and " << getIfFalse().getType();
  return success();
}

LogicalResult CastOp::verify() {
  Type source = getSource().getType(), result = getResult().getType();
  if (isTile(source) != isTile(result) || getDims(source) != getDims(result))
    return emitOpError() << "must keep the shape, but got " << source << " and " << result;
  if (getReassoc() &&
      !(isa<IntegerType>(getElementType(source)) && isa<FloatType>(getElementType(result))))
    return emitOpError() << "'reassoc' requires a conversion of integers to floats, but got "
                         << source << " and " << result;
  Type from = getElementType(source), to = getElementType(result);
  if (getSaturate() && (!isa<FloatType, ParamType>(from) || to.isInteger(1)))
    return emitOpError() << "'saturate' requires a conversion of floats to floats, i8, i32 or i64, "
                            "but got "
                         << source << " and " << result;
  return success();
}

LogicalResult RandomOp::verify() {
  Type type = getResult().getType();
  if (getC0().getType() != type || getC1().getType() != type || getC2().getType() != type)
    return emitOpError() << "counters must be of the type of the result, " << type << ", but got "
                         << getC0().getType() << ", " << getC1().getType() << " and "
                         << getC2().getType();
  if (!getElementType(type).isInteger(32))
    return emitOpError() << "counters and bits must be i32, but got " << getElementType(type);
  if (int64_t bits = getBits(); bits != 8 && bits != 16 && bits != 32)
    return emitOpError() << "numbers must have 8, 16 or 32 bits, but got " << bits;
  if (int64_t rounds = getRounds(); rounds < 7 || rounds > 16)
    return emitOpError() << "a block must have 7 to 16 rounds, but got " << rounds;
  return success();
}
