// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementary functions of one f32 or f64, from arithmetic and approximate instructions.
//
// Accuracy. f32: exp2 and log2 are ex2.approx and lg2.approx (2 ulp; an absolute error of 2^-22
// near log2(1)), which flush subnormals; exp, log and log10 use them; the error of
// others is a few ulp. f64: exp2 and exp to less than 1 ulp, others to a few. Sines, cosines and
// tangents are for arguments up to 2^30; the error of pow is |y log2(x)| ulp in f64, 1 ulp in f32.
// Division and square root are correctly rounded.

#ifndef TILEWRIGHT_PASSES_CONVERSION_SCALARMATH_H
#define TILEWRIGHT_PASSES_CONVERSION_SCALARMATH_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/DenseMap.h"

namespace tilewright::tgpu {

class ScalarMath {
public:
  /// `b` must insert into one block during the lifetime of the object.
  explicit ScalarMath(mlir::ImplicitLocOpBuilder &b) : b(b) {}

  /// The value of an operation of the math dialect on these operands, all f32 or all f64; null if
  /// the operation is not supported.
  mlir::Value emit(mlir::Operation *op, mlir::ValueRange operands);

private:
  using Value = mlir::Value;

  /// Shared by all code emitted in one block.
  Value constant(mlir::TypedAttr value);
  Value number(double value, Value like);
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value div(Value x, Value y);
  Value fma(Value x, Value y, Value z);
  Value abs(Value x);
  Value copySign(Value x, Value sign);
  Value select(Value condition, Value x, Value y);
  Value isLess(Value x, Value y);
  Value isEqual(Value x, Value y);
  /// Coefficients, starting with the constant term; `terms` of them (0: all).
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients, size_t terms = 0);
  Value toF32(Value x);
  Value toF64(Value x);
  /// The nearest integer of |x| < 2^51 (f64) or 2^22 (f32): as a float, and its low 32 bits.
  std::pair<Value, Value> roundToInteger(Value x);
  /// x 2^exponent, for exponents of which half is one of a normal number.
  Value scale(Value x, Value exponent);

  Value exp2(Value x);
  Value exp(Value x);
  Value expM1(Value x);
  /// e^x 2^plus, corrected for the error of ex2.approx, for a small number `plus`.
  Value scaledExp(Value x, int plus);
  Value sinh(Value x);
  Value cosh(Value x);
  Value log2(Value x);
  Value log(Value x);
  Value log1P(Value x);
  /// ln(x), corrected for the error of lg2.approx near 1.
  Value preciseLog(Value x);
  Value reciprocal(Value x); ///< of an f32, with an error of 1 ulp
  /// For an f32: to a few ulps; with arcp, to a few units of 2^-24; with afn, the machine's
  /// instruction, to 2^-11 of the result.
  Value tanh(Value x, mlir::arith::FastMathFlags allowed);
  Value erf(Value x);
  Value erfc(Value x);
  Value power(Value x, Value y);
  Value cbrt(Value x);
  /// pi / 2, and its rounding error.
  std::pair<Value, Value> halfPi(Value like);
  /// For magnitudes up to 1/2.
  Value asinSeries(Value x);
  Value asin(Value x);
  Value acos(Value x);
  Value atan(Value x);
  Value atan2(Value y, Value x);
  /// Sine and cosine.
  std::pair<Value, Value> sinCos(Value x);

  mlir::ImplicitLocOpBuilder &b;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_SCALARMATH_H
