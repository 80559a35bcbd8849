// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One case for each operation. x and y are its operands, r its result, a the adjoint of the result,
// all of the adjoint type.

#include "passes/Tile/Derivatives.h"

#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;

Type tilewright::getAdjointType(Type type) {
  return type.isF64() ? type : Type(Float32Type::get(type.getContext()));
}

Value tilewright::convertFloat(OpBuilder &b, Location loc, Value value, Type type) {
  return value.getType() == type ? value : tile::CastOp::create(b, loc, type, value).getResult();
}

bool tilewright::hasZeroDerivative(Operation *op) {
  if (isa<arith::CmpFOp, arith::FPToSIOp, arith::FPToUIOp, math::FloorOp, math::CeilOp,
          math::TruncOp, math::RoundOp, math::RoundEvenOp>(op))
    return true;
  auto cast = dyn_cast<tile::CastOp>(op);
  return cast && !isa<FloatType>(cast.getType());
}

namespace {

constexpr double kLn2 = 0.6931471805599453, kLog2E = 1.4426950408889634;
constexpr double kLog10E = 0.4342944819032518, kTwoBySqrtPi = 1.1283791670955126;

class Rules {
public:
  Rules(OpBuilder &b, const AdjointRequest &request)
      : b(b), request(request), op(request.op), loc(op->getLoc()), a(request.adjoint) {
    // The derivative has the fast-math flags of the operation.
    if (auto fast = dyn_cast<arith::ArithFastMathInterface>(op))
      if (arith::FastMathFlagsAttr attr = fast.getFastMathFlagsAttr())
        flags = attr.getValue();
  }

  LogicalResult apply();

private:
  Value operand(unsigned i) {
    Value value = op->getOperand(i);
    return isa<FloatType>(value.getType())
               ? convertFloat(b, loc, value, getAdjointType(value.getType()))
               : value;
  }
  Value result() { return convertFloat(b, loc, op->getResult(0), a.getType()); }
  Value number(double value) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(a.getType(), value));
  }
  template <typename OpTy> Value make(Value x, Value y) {
    return OpTy::create(b, loc, x, y, arith::FastMathFlagsAttr::get(b.getContext(), flags));
  }
  Value add(Value x, Value y) { return make<arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return make<arith::SubFOp>(x, y); }
  Value mul(Value x, Value y) { return make<arith::MulFOp>(x, y); }
  Value div(Value x, Value y) { return make<arith::DivFOp>(x, y); }
  Value neg(Value x) { return arith::NegFOp::create(b, loc, x); }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, loc, predicate, x, y);
  }
  template <typename OpTy> Value call(Value x) { return OpTy::create(b, loc, x); }
  /// 0 if the adjoint is 0, even if the value is not finite.
  Value guarded(Value value) {
    Value isZero = compare(arith::CmpFPredicate::OEQ, a, number(0));
    return select(isZero, number(0), value);
  }
  /// Whether an operation without a bounded result computes the value, per element.
  bool mayBeInfinite(Value value) const {
    Operation *def = value.getDefiningOp();
    while (isa_and_nonnull<arith::ExtFOp, arith::NegFOp>(def) && !request.isUniform(value)) {
      value = def->getOperand(0);
      def = value.getDefiningOp();
    }
    if (!def || request.isUniform(value))
      return false;
    if (auto cast = dyn_cast<tile::CastOp>(def))
      return isa<FloatType>(cast.getSource().getType());
    return !isa<arith::SIToFPOp, arith::UIToFPOp, math::TanhOp, math::SinOp, math::CosOp,
                math::AsinOp, math::AcosOp, math::ErfOp, math::ErfcOp, math::AtanOp>(def);
  }
  /// The adjoint times the other operand of a product.
  Value timesOperand(unsigned i) {
    Value product = mul(a, operand(i));
    return mayBeInfinite(op->getOperand(i)) ? guarded(product) : product;
  }
  /// Calls `value` only if it is used.
  template <typename Fn> void give(unsigned i, Fn value) {
    if (request.isWanted(i))
      request.add(i, value());
  }
  template <typename Fn> LogicalResult one(Fn value) {
    give(0, value);
    return success();
  }

  LogicalResult applyExtremum(bool isMaximum);
  LogicalResult applyDivision();
  LogicalResult applyPower();
  LogicalResult applyArith();
  LogicalResult applyMath();
  LogicalResult applySelect();

  OpBuilder &b;
  const AdjointRequest &request;
  Operation *op;
  Location loc;
  Value a;
  arith::FastMathFlags flags = arith::FastMathFlags::none;
};

/// Half to each of two equal operands, so that the directional derivative is correct along any
/// line.
LogicalResult Rules::applyExtremum(bool isMaximum) {
  Value x = operand(0), y = operand(1);
  auto above = isMaximum ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
  Value isTie = compare(arith::CmpFPredicate::OEQ, x, y);
  Value shared = select(isTie, mul(a, number(0.5)), number(0));
  give(0, [&] { return select(compare(above, x, y), a, shared); });
  give(1, [&] { return select(compare(above, y, x), a, shared); });
  return success();
}

LogicalResult Rules::applyDivision() {
  Value x = operand(0), y = operand(1);
  bool isSafe = request.isUniform(op->getOperand(1));
  auto guard = [&](Value value) { return isSafe ? value : guarded(value); };
  give(0, [&] { return guard(div(a, y)); });
  give(1, [&] { return guard(neg(div(mul(a, div(x, y)), y))); });
  return success();
}

LogicalResult Rules::applyPower() {
  Value x = operand(0), y = operand(1), zero = number(0);
  give(0, [&] {
    // Also at x = 0, where x^(y - 1) may be infinite.
    Value slope = mul(y, math::PowFOp::create(b, loc, x, sub(y, number(1))));
    return guarded(select(compare(arith::CmpFPredicate::OEQ, y, zero), zero, mul(a, slope)));
  });
  give(1, [&] {
    Value slope = mul(result(), call<math::LogOp>(x));
    return guarded(select(compare(arith::CmpFPredicate::OEQ, x, zero), zero, mul(a, slope)));
  });
  return success();
}

LogicalResult Rules::applySelect() {
  Value condition = op->getOperand(0), zero = number(0);
  give(1, [&] { return select(condition, a, zero); });
  give(2, [&] { return select(condition, zero, a); });
  return success();
}

LogicalResult Rules::applyArith() {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](arith::AddFOp) {
        give(0, [&] { return a; });
        give(1, [&] { return a; });
        return success();
      })
      .Case([&](arith::SubFOp) {
        give(0, [&] { return a; });
        give(1, [&] { return neg(a); });
        return success();
      })
      .Case([&](arith::MulFOp) {
        give(0, [&] { return timesOperand(1); });
        give(1, [&] { return timesOperand(0); });
        return success();
      })
      .Case([&](arith::DivFOp) { return applyDivision(); })
      .Case([&](arith::RemFOp) {
        give(0, [&] { return a; });
        give(1, [&] {
          Value quotient = call<math::TruncOp>(div(operand(0), operand(1)));
          return guarded(neg(mul(a, quotient)));
        });
        return success();
      })
      .Case([&](arith::NegFOp) { return one([&] { return neg(a); }); })
      .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](auto) { return applyExtremum(true); })
      .Case<arith::MinimumFOp, arith::MinNumFOp>([&](auto) { return applyExtremum(false); })
      .Case<arith::ExtFOp, arith::TruncFOp, tile::CastOp>([&](auto) {
        Type type = getAdjointType(op->getOperand(0).getType());
        return one([&] { return convertFloat(b, loc, a, type); });
      })
      .Case<arith::SelectOp, tile::SelectOp>([&](auto) { return applySelect(); })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Rules::applyMath() {
  auto square = [&](Value x) { return mul(x, x); };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](math::FmaOp) {
        give(0, [&] { return timesOperand(1); });
        give(1, [&] { return timesOperand(0); });
        give(2, [&] { return a; });
        return success();
      })
      .Case([&](math::AbsFOp) {
        return one([&] {
          Value x = operand(0), zero = number(0);
          Value falling = select(compare(arith::CmpFPredicate::OLT, x, zero), neg(a), zero);
          return select(compare(arith::CmpFPredicate::OGT, x, zero), a, falling);
        });
      })
      .Case([&](math::CopySignOp) {
        give(0, [&] {
          Value x = operand(0), zero = number(0), unit = number(1);
          Value other = math::CopySignOp::create(b, loc, unit, operand(1));
          Value sign = mul(math::CopySignOp::create(b, loc, unit, x), other);
          return select(compare(arith::CmpFPredicate::OEQ, x, zero), zero, mul(a, sign));
        });
        give(1, [&] { return number(0); });
        return success();
      })
      .Case([&](math::ExpOp) { return one([&] { return guarded(mul(a, result())); }); })
      .Case([&](math::Exp2Op) {
        return one([&] { return guarded(mul(mul(a, result()), number(kLn2))); });
      })
      .Case([&](math::ExpM1Op) {
        return one([&] { return guarded(mul(a, add(result(), number(1)))); });
      })
      .Case([&](math::LogOp) { return one([&] { return guarded(div(a, operand(0))); }); })
      .Case([&](math::Log2Op) {
        return one([&] { return guarded(div(mul(a, number(kLog2E)), operand(0))); });
      })
      .Case([&](math::Log10Op) {
        return one([&] { return guarded(div(mul(a, number(kLog10E)), operand(0))); });
      })
      .Case([&](math::Log1pOp) {
        return one([&] { return guarded(div(a, add(number(1), operand(0)))); });
      })
      .Case([&](math::SqrtOp) {
        return one([&] { return guarded(div(mul(a, number(0.5)), result())); });
      })
      .Case([&](math::RsqrtOp) {
        return one([&] {
          Value r = result();
          return guarded(mul(mul(mul(a, number(-0.5)), r), square(r)));
        });
      })
      .Case([&](math::SinOp) { return one([&] { return mul(a, call<math::CosOp>(operand(0))); }); })
      .Case([&](math::CosOp) {
        return one([&] { return neg(mul(a, call<math::SinOp>(operand(0)))); });
      })
      .Case([&](math::TanOp) {
        return one([&] { return guarded(mul(a, add(number(1), square(result())))); });
      })
      .Case<math::AsinOp, math::AcosOp>([&](auto) {
        return one([&] {
          // (1 - x)(1 + x) is exact near 1, where 1 - x^2 is not.
          Value x = operand(0), unit = number(1);
          Value above = add(unit, x);
          Value root = call<math::SqrtOp>(mul(sub(unit, x), above));
          Value slope = guarded(div(a, root));
          return isa<math::AcosOp>(op) ? neg(slope) : slope;
        });
      })
      .Case([&](math::SinhOp) {
        return one([&] { return guarded(mul(a, call<math::CoshOp>(operand(0)))); });
      })
      .Case([&](math::CoshOp) {
        return one([&] { return guarded(mul(a, call<math::SinhOp>(operand(0)))); });
      })
      .Case([&](math::CbrtOp) {
        return one([&] { return guarded(div(a, mul(number(3), square(result())))); });
      })
      .Case([&](math::TanhOp) {
        return one([&] {
          Value r = result();
          return mul(a, math::FmaOp::create(b, loc, neg(r), r, number(1)));
        });
      })
      .Case([&](math::AtanOp) {
        return one([&] { return div(a, add(number(1), square(operand(0)))); });
      })
      .Case([&](math::Atan2Op) {
        Value y = operand(0), x = operand(1), norm = add(square(x), square(y));
        give(0, [&] { return guarded(div(mul(a, x), norm)); });
        give(1, [&] { return guarded(neg(div(mul(a, y), norm))); });
        return success();
      })
      .Case<math::ErfOp, math::ErfcOp>([&](auto) {
        return one([&] {
          Value bell = call<math::ExpOp>(neg(square(operand(0))));
          double factor = isa<math::ErfOp>(op) ? kTwoBySqrtPi : -kTwoBySqrtPi;
          return mul(mul(a, number(factor)), bell);
        });
      })
      .Case([&](math::PowFOp) { return applyPower(); })
      .Default([](Operation *) { return failure(); });
}

LogicalResult Rules::apply() { return succeeded(applyArith()) ? success() : applyMath(); }

} // namespace

LogicalResult tilewright::emitAdjoints(OpBuilder &b, const AdjointRequest &request) {
  return Rules(b, request).apply();
}
