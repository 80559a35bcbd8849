// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A modifier that takes one step by every smooth function of math, each of the result so far plus a
// captured number, so that an error in any derivative shows in the gradients of all.
//
//   shifts   [24]   f32, about 0

tile.capture @shifts : !tile.view<[?], f32>

// x + f / 8, which is increasing for the functions below.
func.func private @step(%x: !tile.param<ACC>, %f: !tile.param<ACC>) -> !tile.param<ACC> {
  %eighth = arith.constant 0.125 : !tile.param<ACC>
  %r = math.fma %f, %eighth, %x : !tile.param<ACC>
  return %r : !tile.param<ACC>
}

func.func private @shift(%n: i32) -> !tile.param<ACC> {
  %f32 = tile.at @shifts[%n] : f32
  %r = tile.cast %f32 : f32 -> !tile.param<ACC>
  return %r : !tile.param<ACC>
}

func.func private @score_mod(%s: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32)
    -> !tile.param<ACC> {
  %one = arith.constant 1.0 : !tile.param<ACC>
  %half = arith.constant 0.5 : !tile.param<ACC>
  %three = arith.constant 3.0 : !tile.param<ACC>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %c4 = arith.constant 4 : i32
  %c5 = arith.constant 5 : i32
  %c6 = arith.constant 6 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %c9 = arith.constant 9 : i32
  %c10 = arith.constant 10 : i32
  %c11 = arith.constant 11 : i32
  %c12 = arith.constant 12 : i32
  %c13 = arith.constant 13 : i32
  %c14 = arith.constant 14 : i32
  %c15 = arith.constant 15 : i32
  %c16 = arith.constant 16 : i32
  %c17 = arith.constant 17 : i32
  %c18 = arith.constant 18 : i32
  %c19 = arith.constant 19 : i32
  %c20 = arith.constant 20 : i32
  %c21 = arith.constant 21 : i32
  %c22 = arith.constant 22 : i32
  %c23 = arith.constant 23 : i32

  // First, functions of small arguments, which tanh produces from any score.
  %a0 = func.call @shift(%c0) : (i32) -> !tile.param<ACC>
  %t0 = arith.addf %s, %a0 : !tile.param<ACC>
  %x0 = math.tanh %t0 : !tile.param<ACC>

  %a1 = func.call @shift(%c1) : (i32) -> !tile.param<ACC>
  %t1 = arith.addf %x0, %a1 : !tile.param<ACC>
  %f1 = math.exp %t1 : !tile.param<ACC>
  %x1 = func.call @step(%x0, %f1) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a2 = func.call @shift(%c2) : (i32) -> !tile.param<ACC>
  %t2 = arith.addf %x1, %a2 : !tile.param<ACC>
  %f2 = math.exp2 %t2 : !tile.param<ACC>
  %x2 = func.call @step(%x1, %f2) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a3 = func.call @shift(%c3) : (i32) -> !tile.param<ACC>
  %t3 = arith.addf %x2, %a3 : !tile.param<ACC>
  %f3 = math.expm1 %t3 : !tile.param<ACC>
  %x3 = func.call @step(%x2, %f3) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  // Of arguments from 3 on: e + 3 where e = x^2.
  %a4 = func.call @shift(%c4) : (i32) -> !tile.param<ACC>
  %p4 = arith.addf %x3, %a4 : !tile.param<ACC>
  %q4 = arith.mulf %p4, %p4 : !tile.param<ACC>
  %t4 = arith.addf %q4, %three : !tile.param<ACC>
  %f4 = math.log %t4 : !tile.param<ACC>
  %x4 = func.call @step(%x3, %f4) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a5 = func.call @shift(%c5) : (i32) -> !tile.param<ACC>
  %t5 = arith.addf %t4, %a5 : !tile.param<ACC>
  %f5 = math.log2 %t5 : !tile.param<ACC>
  %x5 = func.call @step(%x4, %f5) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a6 = func.call @shift(%c6) : (i32) -> !tile.param<ACC>
  %t6 = arith.addf %t4, %a6 : !tile.param<ACC>
  %f6 = math.log10 %t6 : !tile.param<ACC>
  %x6 = func.call @step(%x5, %f6) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a7 = func.call @shift(%c7) : (i32) -> !tile.param<ACC>
  %t7 = arith.addf %t4, %a7 : !tile.param<ACC>
  %f7 = math.log1p %t7 : !tile.param<ACC>
  %x7 = func.call @step(%x6, %f7) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a8 = func.call @shift(%c8) : (i32) -> !tile.param<ACC>
  %t8 = arith.addf %t4, %a8 : !tile.param<ACC>
  %f8 = math.sqrt %t8 : !tile.param<ACC>
  %x8 = func.call @step(%x7, %f8) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a9 = func.call @shift(%c9) : (i32) -> !tile.param<ACC>
  %t9 = arith.addf %t4, %a9 : !tile.param<ACC>
  %f9 = math.rsqrt %t9 : !tile.param<ACC>
  %x9 = func.call @step(%x8, %f9) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a10 = func.call @shift(%c10) : (i32) -> !tile.param<ACC>
  %t10 = arith.addf %x9, %a10 : !tile.param<ACC>
  %f10 = math.sin %t10 : !tile.param<ACC>
  %x10 = func.call @step(%x9, %f10) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a11 = func.call @shift(%c11) : (i32) -> !tile.param<ACC>
  %t11 = arith.addf %x10, %a11 : !tile.param<ACC>
  %f11 = math.cos %t11 : !tile.param<ACC>
  %x11 = func.call @step(%x10, %f11) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  // Far from the poles: tan of a number below 1.
  %a12 = func.call @shift(%c12) : (i32) -> !tile.param<ACC>
  %p12 = arith.mulf %x0, %half : !tile.param<ACC>
  %t12 = arith.addf %p12, %a12 : !tile.param<ACC>
  %f12 = math.tan %t12 : !tile.param<ACC>
  %x12 = func.call @step(%x11, %f12) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a13 = func.call @shift(%c13) : (i32) -> !tile.param<ACC>
  %t13 = arith.addf %x12, %a13 : !tile.param<ACC>
  %f13 = math.atan %t13 : !tile.param<ACC>
  %x13 = func.call @step(%x12, %f13) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a14 = func.call @shift(%c14) : (i32) -> !tile.param<ACC>
  %t14 = arith.addf %x13, %a14 : !tile.param<ACC>
  %f14 = math.atan2 %t14, %t4 : !tile.param<ACC>
  %x14 = func.call @step(%x13, %f14) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a15 = func.call @shift(%c15) : (i32) -> !tile.param<ACC>
  %t15 = arith.addf %x14, %a15 : !tile.param<ACC>
  %f15 = math.erf %t15 : !tile.param<ACC>
  %x15 = func.call @step(%x14, %f15) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  // Both the base and the exponent change.
  %a16 = func.call @shift(%c16) : (i32) -> !tile.param<ACC>
  %t16 = arith.addf %x0, %a16 : !tile.param<ACC>
  %f16 = math.powf %t4, %t16 : !tile.param<ACC>
  %x16 = func.call @step(%x15, %f16) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a17 = func.call @shift(%c17) : (i32) -> !tile.param<ACC>
  %t17 = arith.addf %x0, %a17 : !tile.param<ACC>
  %f17 = arith.divf %t17, %t4 : !tile.param<ACC>
  %x17 = func.call @step(%x16, %f17) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a18 = func.call @shift(%c18) : (i32) -> !tile.param<ACC>
  %t18 = arith.addf %x0, %a18 : !tile.param<ACC>
  // x^2 with the sign of x is smooth.
  %e18 = arith.mulf %t18, %t18 : !tile.param<ACC>
  %n18 = math.copysign %e18, %t18 : !tile.param<ACC>
  %x18 = func.call @step(%x17, %n18) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  // |x| x is smooth where |x| is not.
  %a19 = func.call @shift(%c19) : (i32) -> !tile.param<ACC>
  %t19 = arith.addf %x0, %a19 : !tile.param<ACC>
  %g19 = math.absf %t19 : !tile.param<ACC>
  %f19 = arith.mulf %g19, %t19 : !tile.param<ACC>
  %x19 = func.call @step(%x18, %f19) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  // max(x, 0)^2 and min(x, 0)^2, likewise.
  %zero = arith.constant 0.0 : !tile.param<ACC>
  %a20 = func.call @shift(%c20) : (i32) -> !tile.param<ACC>
  %t20 = arith.addf %x0, %a20 : !tile.param<ACC>
  %g20 = arith.maximumf %t20, %zero : !tile.param<ACC>
  %f20 = arith.mulf %g20, %g20 : !tile.param<ACC>
  %x20 = func.call @step(%x19, %f20) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  %a21 = func.call @shift(%c21) : (i32) -> !tile.param<ACC>
  %t21 = arith.addf %x0, %a21 : !tile.param<ACC>
  %g21 = arith.minnumf %zero, %t21 : !tile.param<ACC>
  %f21 = arith.mulf %g21, %g21 : !tile.param<ACC>
  %x21 = func.call @step(%x20, %f21) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  // A select: x^2 above 0, -x^2 below.
  %a22 = func.call @shift(%c22) : (i32) -> !tile.param<ACC>
  %t22 = arith.subf %x0, %a22 : !tile.param<ACC>
  %u22 = arith.mulf %t22, %t22 : !tile.param<ACC>
  %d22 = arith.negf %u22 : !tile.param<ACC>
  %is_up = arith.cmpf ogt, %t22, %zero : !tile.param<ACC>
  %f22 = arith.select %is_up, %u22, %d22 : !tile.param<ACC>
  %x22 = func.call @step(%x21, %f22) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>

  // The remainder for a divisor larger than the argument: (x + 3) mod (x^2 + 7 + shift) is x + 3.
  %a23 = func.call @shift(%c23) : (i32) -> !tile.param<ACC>
  %v23 = arith.addf %x0, %three : !tile.param<ACC>
  %w23 = arith.addf %t4, %three : !tile.param<ACC>
  %y23 = arith.addf %w23, %three : !tile.param<ACC>
  %z23 = arith.addf %y23, %a23 : !tile.param<ACC>
  %f23 = arith.remf %v23, %z23 : !tile.param<ACC>
  %x23 = func.call @step(%x22, %f23) : (!tile.param<ACC>, !tile.param<ACC>) -> !tile.param<ACC>
  // Step functions count as constant; this one is 0 for all arguments.
  %eighth = arith.constant 0.125 : !tile.param<ACC>
  %small = arith.mulf %f23, %eighth : !tile.param<ACC>
  %whole = math.floor %small : !tile.param<ACC>
  %fraction = arith.subf %x23, %whole : !tile.param<ACC>
  %r = arith.addf %fraction, %one : !tile.param<ACC>
  return %r : !tile.param<ACC>
}
