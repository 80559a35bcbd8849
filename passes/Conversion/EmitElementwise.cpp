// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that treat every element alike: arith, math, select, cast, map, random. On tiles they
// are repeated for each register.
//
// Accuracy of f32: exp2 and log2 are ex2.approx and lg2.approx (2 ulp; an absolute error of 2^-22
// near log2(1)), which flush subnormals; exp, log and tanh are made of them; division and square
// root are correctly rounded.

#include "passes/Conversion/KernelEmitter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

LogicalResult KernelEmitter::emitConstant(arith::ConstantOp op) {
  Type element = getScalarType(op.getType());
  TypedAttr value = op.getValue();
  if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
    if (!dense.isSplat())
      return op.emitError() << "a literal tile must have equal elements here";
    value = cast<TypedAttr>(dense.getSplatValue<Attribute>());
  }
  if (auto integer = dyn_cast<IntegerAttr>(value); integer && integer.getType() != element)
    value = b.getIntegerAttr(element, integer.getInt());
  if (auto number = dyn_cast<FloatAttr>(value); number && isa<IntegerType>(element))
    value = b.getIntegerAttr(element, number.getValue().bitcastToAPInt());
  Value scalar = constant(value);
  if (!isa<RankedTensorType>(op.getType())) {
    set(op.getResult(), {scalar});
    return success();
  }
  setElements(op.getResult(), Values(getLayout(op, op.getType())->registersPerThread(), scalar));
  return success();
}

LogicalResult KernelEmitter::emitElementwise(Operation *op) {
  if (op->getNumResults() != 1)
    return op->emitError() << "'" << op->getName().getStringRef() << "' cannot be lowered: it has "
                           << op->getNumResults() << " results";
  Value result = op->getResult(0);
  Type element = getScalarType(result.getType());
  for (Type type : {element, getScalarType(op->getOperand(0).getType())})
    if (type.isInteger(8))
      return op->emitError() << "arithmetic on floats of 8 bits is not supported; cast them first";
  if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
    setElements(result, castElements(op, getElements(op->getOperand(0)),
                                     getScalarType(op->getOperand(0).getType()), element));
    return success();
  }
  bool isIndexCast = isa<arith::IndexCastOp, arith::IndexCastUIOp>(op);

  size_t count = 1;
  SmallVector<Values> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(getElements(operand));
    count = std::max(count, operands.back().size());
  }
  Values elements;
  for (size_t i = 0; i < count; ++i) {
    IRMapping mapping;
    Values at;
    for (auto [operand, list] : llvm::zip(op->getOperands(), operands)) {
      at.push_back(list[list.size() == 1 ? 0 : i]);
      mapping.map(operand, at.back());
    }
    if (isIndexCast) {
      unsigned from = at[0].getType().getIntOrFloatBitWidth(), to = element.getIntOrFloatBitWidth();
      bool isSigned = isa<arith::IndexCastOp>(op);
      elements.push_back(from == to  ? at[0]
                         : from > to ? arith::TruncIOp::create(b, element, at[0]).getResult()
                         : isSigned  ? arith::ExtSIOp::create(b, element, at[0]).getResult()
                                     : arith::ExtUIOp::create(b, element, at[0]).getResult());
      continue;
    }
    Operation *copy = b.clone(*op, mapping);
    copy->getResult(0).setType(element);
    elements.push_back(copy->getResult(0));
  }
  setElements(result, elements);
  return success();
}

//===----------------------------------------------------------------------===//
// math
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitMath(Operation *op) {
  Type element = getScalarType(op->getResult(0).getType());
  bool isInteger = isa<IntegerType>(element);
  bool isDirect =
      isInteger || isa<math::AbsFOp, math::CopySignOp, math::FmaOp, math::FloorOp, math::CeilOp,
                       math::TruncOp, math::RoundEvenOp, math::SqrtOp>(op);
  if (isDirect && !element.isBF16() && !element.isF16())
    return emitElementwise(op);
  if (!isDirect && element.isF64())
    return op->emitError() << "'" << op->getName().getStringRef()
                           << "' has no instruction for f64; compute it in f32";
  if (isa<math::PowFOp, math::ErfOp, math::TanOp, math::FPowIOp>(op))
    return op->emitError() << "'" << op->getName().getStringRef() << "' cannot be lowered to "
                           << kernel.getTarget() << " yet";
  SmallVector<Values> operands;
  for (Value operand : op->getOperands())
    operands.push_back(castElements(op, getElements(operand), element, b.getF32Type()));
  Values elements;
  for (size_t i = 0; i < operands.front().size(); ++i) {
    Values at;
    for (const Values &list : operands)
      at.push_back(list[i]);
    Value value = emitMath(op, at);
    if (!value)
      return op->emitError() << "'" << op->getName().getStringRef() << "' cannot be lowered to "
                             << kernel.getTarget() << " yet";
    elements.push_back(value);
  }
  setElements(op->getResult(0), castElements(op, elements, b.getF32Type(), element));
  return success();
}

/// One element, in f32.
Value KernelEmitter::emitMath(Operation *op, ValueRange operands) {
  Type f32 = b.getF32Type();
  Value x = operands[0];
  auto number = [&](double value) { return constant(b.getF32FloatAttr(value)); };
  auto times = [&](Value a, Value b2) { return arith::MulFOp::create(b, a, b2).getResult(); };
  auto exp2 = [&](Value a) { return intrinsic("llvm.nvvm.ex2.approx.ftz.f", f32, a); };
  auto log2 = [&](Value a) { return intrinsic("llvm.nvvm.lg2.approx.ftz.f", f32, a); };
  auto direct = [&](auto tag) {
    return decltype(tag)::create(b, f32, operands, op->getAttrs())->getResult(0);
  };
  constexpr double log2e = 1.4426950408889634, ln2 = 0.6931471805599453;
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<math::Exp2Op>([&](auto) { return exp2(x); })
      .Case<math::ExpOp>([&](auto) { return exp2(times(x, number(log2e))); })
      .Case<math::Log2Op>([&](auto) { return log2(x); })
      .Case<math::LogOp>([&](auto) { return times(log2(x), number(ln2)); })
      .Case<math::RsqrtOp>([&](auto) -> Value {
        return arith::DivFOp::create(b, number(1.0), math::SqrtOp::create(b, x));
      })
      .Case<math::SinOp>([&](auto) { return intrinsic("llvm.nvvm.sin.approx.ftz.f", f32, x); })
      .Case<math::CosOp>([&](auto) { return intrinsic("llvm.nvvm.cos.approx.ftz.f", f32, x); })
      .Case<math::TanhOp>([&](auto) -> Value {
        // tanh |x| = (1 - t) / (1 + t) with t = exp(-2 |x|), which neither overflows nor loses 1.
        Value t = exp2(times(math::AbsFOp::create(b, x), number(-2.0 * log2e)));
        Value ratio = arith::DivFOp::create(b, arith::SubFOp::create(b, number(1.0), t),
                                            arith::AddFOp::create(b, number(1.0), t));
        return math::CopySignOp::create(b, ratio, x);
      })
      .Case<math::AbsFOp, math::CopySignOp, math::FmaOp, math::FloorOp, math::CeilOp, math::TruncOp,
            math::RoundEvenOp, math::SqrtOp>([&](auto op) { return direct(op); })
      .Default([](Operation *) { return Value(); });
}

//===----------------------------------------------------------------------===//
// Selection and conversion
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitSelect(tile::SelectOp op) {
  Values condition = getElements(op.getCondition());
  Values ifTrue = getElements(op.getIfTrue()), ifFalse = getElements(op.getIfFalse()), elements;
  for (size_t i = 0; i < ifTrue.size(); ++i)
    elements.push_back(arith::SelectOp::create(b, condition[condition.size() == 1 ? 0 : i],
                                               ifTrue[i], ifFalse[i]));
  setElements(op.getResult(), elements);
  return success();
}

LogicalResult KernelEmitter::emitCast(tile::CastOp op) {
  Type from = getScalarType(op.getSource().getType()), to = getScalarType(op.getResult().getType());
  if (from != to && (from.isInteger(8) || to.isInteger(8)))
    return op.emitError() << "conversion of floats of 8 bits is not supported yet";
  setElements(op.getResult(), castElements(op, getElements(op.getSource()), from, to));
  return success();
}

Values KernelEmitter::castElements(Operation *op, ArrayRef<Value> source, Type from, Type to) {
  if (from == to)
    return Values(source);
  Values elements;
  // Two at a time: one instruction, and the pair is in the register that an operand needs.
  bool isNarrow = to.isF16() || to.isBF16();
  if (from.isF32() && isNarrow && source.size() % 2 == 0) {
    StringRef name = to.isF16() ? "llvm.nvvm.ff2f16x2.rn" : "llvm.nvvm.ff2bf16x2.rn";
    for (size_t i = 0; i < source.size(); i += 2) {
      Value pair = intrinsic(name, VectorType::get(2, to), ValueRange{source[i + 1], source[i]});
      elements.push_back(extract(pair, 0));
      elements.push_back(extract(pair, 1));
    }
    return elements;
  }
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  for (Value x : source) {
    Value y = x;
    if (isa<FloatType>(from) && isa<FloatType>(to)) {
      // Between the two of 16 bits by way of f32, which holds both.
      if (fromBits == toBits)
        y = arith::TruncFOp::create(b, to, arith::ExtFOp::create(b, b.getF32Type(), x));
      else if (fromBits < toBits)
        y = arith::ExtFOp::create(b, to, x);
      else
        y = arith::TruncFOp::create(b, to, x);
    } else if (isa<FloatType>(to)) {
      y = from.isInteger(1) ? arith::UIToFPOp::create(b, to, x).getResult()
                            : arith::SIToFPOp::create(b, to, x).getResult();
    } else if (isa<FloatType>(from)) {
      y = arith::FPToSIOp::create(b, to, x);
    } else if (fromBits > toBits) {
      y = arith::TruncIOp::create(b, to, x);
    } else {
      y = from.isInteger(1) ? arith::ExtUIOp::create(b, to, x).getResult()
                            : arith::ExtSIOp::create(b, to, x).getResult();
    }
    elements.push_back(y);
  }
  return elements;
}

//===----------------------------------------------------------------------===//
// Scalar functions, random bits
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitMap(tile::MapOp op) {
  SmallVector<Values> operands;
  for (Value operand : op.getOperands())
    operands.push_back(getElements(operand));
  size_t count = getLayout(op, op.getResult().getType())->registersPerThread();
  Values elements;
  for (size_t i = 0; i < count; ++i) {
    SmallVector<Values> arguments;
    for (auto [operand, list] : llvm::zip(op.getOperands(), operands))
      arguments.push_back({list[isa<RankedTensorType>(operand.getType()) ? i : 0]});
    Values results;
    if (failed(inlineCall(op, op.getFunction(), arguments, results)))
      return failure();
    elements.push_back(results.front());
  }
  setElements(op.getResult(), elements);
  return success();
}

LogicalResult KernelEmitter::emitRandom(tile::RandomOp op) {
  Type i32Type = b.getI32Type(), i64Type = b.getI64Type();
  auto low = [&](Value wide) { return arith::TruncIOp::create(b, i32Type, wide).getResult(); };
  auto high = [&](Value wide) { return low(arith::ShRUIOp::create(b, wide, i64(32))); };
  auto exclusiveOr = [&](Value x, Value y) { return arith::XOrIOp::create(b, x, y).getResult(); };
  Value seed = getScalar(op.getSeed()), offset = getScalar(op.getOffset());
  Values c0 = getElements(op.getC0()), c1 = getElements(op.getC1()), c2 = getElements(op.getC2());

  // The keys of all rounds, from constants that Salmon et al. give.
  Values key0{low(seed)}, key1{exclusiveOr(high(seed), high(offset))};
  for (int round = 1; round < 10; ++round) {
    key0.push_back(add(key0.back(), i32(int32_t(0x9E3779B9))));
    key1.push_back(add(key1.back(), i32(int32_t(0xBB67AE85))));
  }
  Value multiplier0 = i64(0xD2511F53), multiplier1 = i64(0xCD9E8D57);
  auto wide = [&](Value x) { return arith::ExtUIOp::create(b, i64Type, x).getResult(); };
  Values elements;
  for (size_t i = 0; i < c0.size(); ++i) {
    Value x0 = arith::ShRUIOp::create(b, c0[i], i32(2)), x1 = c1[i], x2 = c2[i], x3 = low(offset);
    for (int round = 0; round < 10; ++round) {
      Value p0 = arith::MulIOp::create(b, wide(x0), multiplier0);
      Value p1 = arith::MulIOp::create(b, wide(x2), multiplier1);
      Value y0 = exclusiveOr(exclusiveOr(high(p1), x1), key0[round]);
      Value y2 = exclusiveOr(exclusiveOr(high(p0), x3), key1[round]);
      x1 = low(p1);
      x3 = low(p0);
      x0 = y0;
      x2 = y2;
    }
    auto bit = [&](int64_t mask) {
      Value masked = arith::AndIOp::create(b, c0[i], i32(mask));
      return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, masked, i32(0)).getResult();
    };
    Value odd = bit(1);
    Value lower = arith::SelectOp::create(b, odd, x1, x0);
    Value upper = arith::SelectOp::create(b, odd, x3, x2);
    elements.push_back(arith::SelectOp::create(b, bit(2), upper, lower));
  }
  setElements(op.getResult(), elements);
  return success();
}
