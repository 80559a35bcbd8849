// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adjoints are summed as far as the indices of the read allow before they are added to memory:
// where the indices are the same for all elements of a tile, over the tile; where they change along
// one of its two dimensions, over the other.

#include "passes/Tile/GradientSums.h"

#include "passes/Tile/Derivatives.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

Type tilewright::getSumType(CaptureOp capture) {
  return getAdjointType(getElementType(capture.getType()));
}

namespace {

/// Adds the gradients of one operation.
class SumEmitter {
public:
  explicit SumEmitter(AddGradientsOp op)
      : op(op), b(op), loc(op.getLoc()), rank(getRank(op.getSeed().getType())) {}

  void emit(const CaptureRead &read, Value sums);

private:
  using DimSet = unsigned; ///< bit d: changes along dimension d of the tiles

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
    // Any dimension will do for a tile that changes along none.
    operands.push_back(isScalar ? getSlice(operand, 0) : dim ? getSlice(operand, *dim) : operand);
  }
  func::FuncOp function = index.function;
  if (!function)
    return operands.front();
  if (isScalar)
    return func::CallOp::create(b, loc, function, operands).getResult(0);
  return MapOp::create(b, loc, getTileType(b.getI32Type(), dim), function.getSymName(), operands);
}

void SumEmitter::emit(const CaptureRead &read, Value sums) {
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
  SmallVector<Value> indices;
  for (const ReadIndex &index : read.indices)
    indices.push_back(getIndex(index, dim));
  if (indices.empty())
    indices.push_back(arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0)));
  AddAtOp::create(b, loc, adjoint, sums, indices, op.getExact());
}

} // namespace

void tilewright::addToSums(AddGradientsOp op, const CaptureRead &read, Value sums) {
  SumEmitter(op).emit(read, sums);
}
