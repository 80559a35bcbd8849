// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums adjoints as far as the read's indices allow before adding them to memory: over the whole
// tile if the indices are uniform; over one dimension if they vary along the other. If neighboring
// elements of the tile read neighboring elements of the view, the adjoints are added as a tile, or
// stored if each element of a launch has its own location.

#include "passes/Tile/GradientSums.h"

#include "passes/Tile/Derivatives.h"
#include "passes/Tile/TilePositions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <memory>
#include <optional>
#include <vector>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

Type tilewright::getSumType(CaptureOp capture) {
  return getAdjointType(getElementType(capture.getType()));
}

namespace {

/// Emits the additions for the gradients of one operation.
class SumEmitter {
public:
  explicit SumEmitter(AddGradientsOp op)
      : op(op), b(op), loc(op.getLoc()), rank(getRank(op.getSeed().getType())) {}

  void emit(const CaptureRead &read, Value sums, bool isOnlyRead);

private:
  /// The location of a tile of adjoints in the view: one index for each dimension.
  struct Place {
    std::vector<TilePosition> indices;
    std::vector<std::unique_ptr<TilePositions>> writers; ///< null: without a function
    SmallVector<int64_t> viewDims;                       ///< one per dimension of the tile
    bool isOwn = false; ///< each element has its own location unless a condition fixes an index
  };
  std::optional<Place> getPlace(const CaptureRead &read, std::optional<int64_t> dim);
  bool hasOwnPlaces(const CaptureRead &read, const Place &place);
  void addTile(const CaptureRead &read, const Place &place, Value adjoint, Value sums,
               bool isOnlyRead);
  using DimSet = unsigned; ///< bit d: varies along dimension d of the tiles

  DimSet getVariation(Value operand) const;
  DimSet getVariation(const ReadIndex &index) const;
  Value getAdjoint(const CaptureRead &read);
  /// The operand along dimension `dim` only.
  Value getSlice(Value operand, int64_t dim);
  Value getIndex(const ReadIndex &index, std::optional<int64_t> dim);
  Type getTileType(Type element, std::optional<int64_t> dim) const {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getSeed().getType()).getShape();
    return RankedTensorType::get(dim ? shape.slice(*dim, 1) : shape, element);
  }

  mutable AddGradientsOp op;
  OpBuilder b;
  Location loc;
  int64_t rank;
};

SumEmitter::DimSet SumEmitter::getVariation(Value operand) const {
  if (!isTile(operand.getType()) || operand.getDefiningOp<FullOp>())
    return 0;
  if (auto iota = operand.getDefiningOp<IotaOp>())
    return 1u << iota.getDim();
  auto expand = operand.getDefiningOp<ExpandOp>();
  if (expand && rank == 2)
    return 1u << (1 - expand.getDim());
  return (1u << rank) - 1;
}

SumEmitter::DimSet SumEmitter::getVariation(const ReadIndex &index) const {
  DimSet variation = 0;
  for (unsigned operand : index.operands)
    variation |= getVariation(op.getArgs()[operand]);
  return variation;
}

Value SumEmitter::getAdjoint(const CaptureRead &read) {
  Type element = getSumType(read.capture);
  Type type = getTileType(element, std::nullopt);
  if (read.derivative.kind == Derivative::Kind::Seed)
    return op.getSeed().getType() == type ? op.getSeed()
                                          : CastOp::create(b, loc, type, op.getSeed()).getResult();
  SmallVector<Value> operands(op.getArgs());
  operands.push_back(op.getSeed());
  func::FuncOp function = read.derivative.function;
  return MapOp::create(b, loc, type, function.getSymName(), operands);
}

Value SumEmitter::getSlice(Value operand, int64_t dim) {
  if (!isTile(operand.getType()))
    return operand;
  if (auto full = operand.getDefiningOp<FullOp>())
    return full.getValue();
  if (auto iota = operand.getDefiningOp<IotaOp>())
    return IotaOp::create(b, loc, getTileType(b.getI32Type(), dim), iota.getStart(), 0);
  return operand.getDefiningOp<ExpandOp>().getSource();
}

Value SumEmitter::getIndex(const ReadIndex &index, std::optional<int64_t> dim) {
  if (index.constant)
    return arith::ConstantOp::create(b, loc,
                                     b.getI32IntegerAttr(static_cast<int32_t>(*index.constant)));
  bool isScalar = getVariation(index) == 0;
  SmallVector<Value> operands;
  for (unsigned i : index.operands) {
    Value operand = op.getArgs()[i];
    // For an operand that varies along no dimension, any slice is correct.
    operands.push_back(isScalar ? getSlice(operand, 0) : dim ? getSlice(operand, *dim) : operand);
  }
  func::FuncOp function = index.function;
  if (!function)
    return operands.front();
  if (isScalar)
    return func::CallOp::create(b, loc, function, operands).getResult(0);
  return MapOp::create(b, loc, getTileType(b.getI32Type(), dim), function.getSymName(), operands);
}

/// Returns nothing if the elements along `dim` (all, if there is none) are not contiguous.
std::optional<SumEmitter::Place> SumEmitter::getPlace(const CaptureRead &read,
                                                      std::optional<int64_t> dim) {
  Place place;
  CaptureOp capture = read.capture;
  auto type = dyn_cast<ViewType>(capture.getType());
  SmallVector<int64_t> viewDimOf(rank, -1);
  for (auto [d, index] : llvm::enumerate(read.indices)) {
    TilePosition &position = place.indices.emplace_back();
    std::unique_ptr<TilePositions> &writer = place.writers.emplace_back();
    if (index.constant)
      continue;
    SmallVector<Value> operands;
    for (unsigned operand : index.operands)
      operands.push_back(op.getArgs()[operand]);
    std::optional<TilePosition> found;
    if (index.function) {
      writer = std::make_unique<TilePositions>(index.function, operands);
      func::FuncOp function = index.function;
      found = writer->get(function.getBody().front().getTerminator()->getOperand(0));
    } else {
      found = TilePositions::getOfOperand(operands.front());
    }
    if (!found)
      return std::nullopt;
    position = *found;
    if (!position.dim)
      continue;
    int64_t &viewDim = viewDimOf[*position.dim];
    if (viewDim >= 0 || (position.condition && !ShapedType::isDynamic(type.getShape()[d])))
      return std::nullopt;
    viewDim = static_cast<int64_t>(d);
  }
  for (auto [tileDim, viewDim] : llvm::enumerate(viewDimOf)) {
    bool isAlong = !dim || static_cast<int64_t>(tileDim) == *dim;
    if ((viewDim >= 0) != isAlong)
      return std::nullopt;
    if (isAlong)
      place.viewDims.push_back(viewDim);
  }
  place.isOwn = !dim && hasOwnPlaces(read, place);
  return place;
}

/// Whether each integer among the operands is an index, up to an offset that is uniform within the
/// launch: different integers then have different locations.
bool SumEmitter::hasOwnPlaces(const CaptureRead &read, const Place &place) {
  llvm::DenseSet<unsigned> found;
  for (auto [d, index] : llvm::enumerate(read.indices)) {
    const TilePosition &position = place.indices[d];
    if (index.constant || index.operands.size() != 1)
      continue;
    TilePositions *writer = place.writers[d].get();
    bool isOperand = !writer || position.dim.has_value();
    for (TilePosition::Term term : position.terms)
      if (writer && writer->isOfFunction(term.value)) {
        bool isArgument = isa<BlockArgument>(term.value) && !term.isNegative;
        if ((isArgument && isOperand) || (!isArgument && !writer->isConstant(term.value)))
          return false;
        isOperand |= isArgument;
      }
    if (position.condition &&
        !(writer->isConstant(position.condition) && writer->isConstant(position.fixed)))
      return false;
    if (isOperand)
      found.insert(index.operands.front());
  }
  for (auto [i, operand] : llvm::enumerate(op.getArgs()))
    if (getElementType(operand.getType()).isInteger(32) && !found.contains(i))
      return false;
  return true;
}

void SumEmitter::addTile(const CaptureRead &read, const Place &place, Value adjoint, Value sums,
                         bool isOnlyRead) {
  Value view = sums, isAnyFixed;
  SmallVector<Value> repeated, plain;
  SmallVector<int64_t> fixedIndices;
  for (auto [d, index] : llvm::enumerate(read.indices)) {
    fixedIndices.push_back(index.constant.value_or(ShapedType::kDynamic));
    if (index.constant)
      continue;
    const TilePosition &position = place.indices[d];
    TilePositions none;
    TilePositions &writer = place.writers[d] ? *place.writers[d] : none;
    Value start = writer.writeStart(b, loc, position);
    plain.push_back(start);
    if (position.condition) {
      Value isFixed = writer.writeCondition(b, loc, position);
      Value fixed = writer.write(b, position.fixed), first = fixed;
      if (position.dim) {
        view = RepeatOp::create(b, loc, view.getType(), view, d, fixed, isFixed);
        first = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
      }
      start = arith::SelectOp::create(b, loc, isFixed, first, start);
      isAnyFixed =
          isAnyFixed ? arith::OrIOp::create(b, loc, isAnyFixed, isFixed).getResult() : isFixed;
    }
    repeated.push_back(start);
  }
  auto dims = b.getDenseI64ArrayAttr(place.viewDims);
  auto staticIndices = b.getDenseI64ArrayAttr(fixedIndices);
  bool isStored = op.getOnce() && isOnlyRead && place.isOwn;
  if (isStored && !isAnyFixed) {
    StoreOp::create(b, loc, adjoint, sums, plain, staticIndices, dims);
    return;
  }
  if (!isStored) {
    AtomicAddOp::create(b, loc, adjoint, view, repeated, staticIndices, dims);
    return;
  }
  auto branch = scf::IfOp::create(b, loc, isAnyFixed, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  AtomicAddOp::create(b, loc, adjoint, view, repeated, staticIndices, dims);
  b.setInsertionPoint(branch.elseBlock()->getTerminator());
  StoreOp::create(b, loc, adjoint, sums, plain, staticIndices, dims);
}

void SumEmitter::emit(const CaptureRead &read, Value sums, bool isOnlyRead) {
  DimSet variation = 0;
  for (const ReadIndex &index : read.indices)
    variation |= getVariation(index);
  Value adjoint = getAdjoint(read);
  std::optional<int64_t> dim;
  if (rank == 2 && (variation == 1 || variation == 2)) {
    dim = variation == 1 ? 0 : 1;
    adjoint = ReduceOp::create(b, loc, getTileType(getSumType(read.capture), dim), ReduceKind::Add,
                               adjoint, 1 - *dim);
  }
  constexpr int64_t mostRank = 2;
  if (!op.getExact() && variation != 0 && rank <= mostRank)
    if (std::optional<Place> place = getPlace(read, dim))
      return addTile(read, *place, adjoint, sums, isOnlyRead);
  SmallVector<Value> indices;
  for (const ReadIndex &index : read.indices)
    indices.push_back(getIndex(index, dim));
  if (indices.empty())
    indices.push_back(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0)));
  AddAtOp::create(b, loc, adjoint, sums, indices, op.getExact());
}

} // namespace

void tilewright::addToSums(AddGradientsOp op, const CaptureRead &read, Value sums,
                           bool isOnlyRead) {
  SumEmitter(op).emit(read, sums, isOnlyRead);
}
