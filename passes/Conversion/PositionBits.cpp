// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Conversion/PositionBits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static PositionSet unite(PositionSet x, const PositionSet &y) { return {x[0] | y[0], x[1] | y[1]}; }

static BitFact constantBit(bool isOne) { return {isOne ? BitFact::One : BitFact::Zero, {0, 0}}; }

static BitFacts constantBits(const APInt &value) {
  BitFacts bits;
  for (unsigned i = 0; i < value.getBitWidth(); ++i)
    bits.push_back(constantBit(value[i]));
  return bits;
}

/// The number of low bits of a scalar that are known to be zero.
static unsigned zeroBits(Value scalar) {
  APInt constant;
  if (matchPattern(scalar, m_ConstantInt(&constant)))
    return constant.countTrailingZeros();
  if (auto product = scalar.getDefiningOp<arith::MulIOp>())
    return zeroBits(product.getLhs()) + zeroBits(product.getRhs());
  if (auto sum = scalar.getDefiningOp<arith::AddIOp>())
    return std::min(zeroBits(sum.getLhs()), zeroBits(sum.getRhs()));
  return 0;
}

/// The positions along a dimension, from `first`.
static BitFacts positions(tile::IotaOp iota, unsigned width) {
  auto type = cast<RankedTensorType>(iota.getType());
  int64_t dim = iota.getDim();
  unsigned inTile = llvm::Log2_64_Ceil(type.getDimSize(dim));
  unsigned exact = zeroBits(iota.getStart());
  BitFacts bits;
  for (unsigned i = 0; i < width; ++i) {
    BitFact bit{BitFact::Function, {0, 0}};
    if (i < exact && i < inTile) {
      bit.kind = BitFact::Copy;
      bit.depends[dim] = uint64_t(1) << i;
    } else if (exact < inTile) {
      // The sum of both, from the lowest bit on that both may have.
      bit.depends[dim] = ~uint64_t(0) << exact;
    }
    bits.push_back(bit);
  }
  return bits;
}

PositionBits::PositionBits(tile::MapOp map, Block &body) {
  for (auto [operand, argument] : llvm::zip_equal(map.getOperands(), body.getArguments())) {
    auto integer = dyn_cast<IntegerType>(argument.getType());
    if (!integer)
      continue;
    if (!isa<RankedTensorType>(operand.getType()))
      known[argument] = BitFacts(integer.getWidth(), BitFact{BitFact::Function, {0, 0}});
    else if (auto iota = operand.getDefiningOp<tile::IotaOp>())
      known[argument] = positions(iota, integer.getWidth());
  }
}

BitFacts PositionBits::get(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  BitFacts bits = compute(value);
  known[value] = bits;
  return bits;
}

BitFacts PositionBits::compute(Value value) {
  unsigned width = value.getType().getIntOrFloatBitWidth();
  BitFacts bits(width);
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constantBits(constant);
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumRegions() != 0 || !isPure(op))
    return bits;

  auto bitwise = [&](llvm::function_ref<std::optional<BitFact>(BitFact, BitFact)> combine) {
    BitFacts x = get(op->getOperand(0)), y = get(op->getOperand(1));
    for (unsigned i = 0; i < width; ++i) {
      std::optional<BitFact> bit = combine(x[i], y[i]);
      if (!bit)
        bit = combine(y[i], x[i]);
      bits[i] = bit ? *bit : BitFact{BitFact::Function, unite(x[i].depends, y[i].depends)};
    }
    return bits;
  };
  /// The facts of `x` moved up by `by` bits, or down.
  auto shifted = [&](BitFacts x, int64_t by) {
    for (int64_t i = 0; i < width; ++i)
      bits[i] = i - by >= 0 && i - by < width ? x[i - by] : constantBit(false);
    return bits;
  };
  if (isa<arith::AndIOp>(op))
    return bitwise([](BitFact x, BitFact y) -> std::optional<BitFact> {
      if (x.kind == BitFact::Zero)
        return x;
      return x.kind == BitFact::One ? std::optional(y) : std::nullopt;
    });
  if (isa<arith::OrIOp>(op))
    return bitwise([](BitFact x, BitFact y) -> std::optional<BitFact> {
      if (x.kind == BitFact::One)
        return x;
      return x.kind == BitFact::Zero ? std::optional(y) : std::nullopt;
    });
  if (isa<arith::XOrIOp>(op))
    return bitwise([](BitFact x, BitFact y) -> std::optional<BitFact> {
      return x.kind == BitFact::Zero ? std::optional(y) : std::nullopt;
    });
  if (isa<arith::AddIOp>(op)) {
    // Without carries, an or. A bit that may receive a carry depends on all bits below it.
    BitFacts x = get(op->getOperand(0)), y = get(op->getOperand(1));
    PositionSet below = {0, 0};
    bool carries = false;
    for (unsigned i = 0; i < width; ++i) {
      bool isAlone = x[i].kind == BitFact::Zero || y[i].kind == BitFact::Zero;
      below = unite(below, unite(x[i].depends, y[i].depends));
      if (carries || !isAlone)
        bits[i] = {BitFact::Function, below};
      else
        bits[i] = x[i].kind == BitFact::Zero ? y[i] : x[i];
      carries |= !isAlone;
    }
    return bits;
  }
  if (isa<arith::ShLIOp, arith::ShRUIOp>(op) &&
      matchPattern(op->getOperand(1), m_ConstantInt(&constant)) && constant.ult(width)) {
    int64_t by = constant.getZExtValue();
    return shifted(get(op->getOperand(0)), isa<arith::ShLIOp>(op) ? by : -by);
  }
  // Any other function of its operands.
  PositionSet depends = {0, 0};
  for (Value operand : op->getOperands()) {
    if (!isa<IntegerType>(operand.getType()))
      return bits;
    for (const BitFact &bit : get(operand))
      depends = unite(depends, bit.depends);
  }
  for (BitFact &bit : bits)
    bit = {BitFact::Function, depends};
  return bits;
}
