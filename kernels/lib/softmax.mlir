// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scalar functions that make the results of rows without a key exactly zero. A kernel that links this file declares the
// parameter ACC.

!acc = !tile.param<ACC>

// The lowest finite number, as the initial maximum of a row. A row that has no key so far then needs no special case:
// exp2(-inf - lowest) is 0, while exp2(-inf - -inf) would be NaN.
func.func private @lowest() -> !acc {
  %is_f64 = tile.param bits(ACC) == 64 : i1
  %of_f64 = arith.constant -1.7976931348623157e308 : !acc
  %of_f32 = arith.constant -3.4028234663852886e38 : !acc
  %lowest = arith.select %is_f64, %of_f64, %of_f32 : !acc
  return %lowest : !acc
}

// 1 / x, or 0 where x is 0: a row without keys has the sum 0 and gets the result 0.
func.func private @reciprocal_or_zero(%x: !acc) -> !acc {
  %zero = arith.constant 0.0 : !acc
  %one = arith.constant 1.0 : !acc
  %empty = arith.cmpf oeq, %x, %zero : !acc
  %inverse = arith.divf %one, %x : !acc
  %safe = arith.select %empty, %zero, %inverse : !acc
  return %safe : !acc
}

// LSE, or 0 for a row without keys.
func.func private @lse_or_zero(%lse: !acc) -> !acc {
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %zero = arith.constant 0.0 : !acc
  %empty = arith.cmpf oeq, %lse, %minus_inf : !acc
  %safe = arith.select %empty, %zero, %lse : !acc
  return %safe : !acc
}

// LSE in base 2, or 0 for a row without keys. The scores of such a row are masked to -inf, so exp2 gives 0.
func.func private @base2_or_zero(%lse: !acc) -> !acc {
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %zero = arith.constant 0.0 : !acc
  %log2e = arith.constant 1.4426950408889634 : !acc
  %empty = arith.cmpf oeq, %lse, %minus_inf : !acc
  %base2 = arith.mulf %lse, %log2e : !acc
  %safe = arith.select %empty, %zero, %base2 : !acc
  return %safe : !acc
}
