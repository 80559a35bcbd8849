// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scalar functions that make the results of rows without a key exactly zero. A kernel that links this file declares the
// parameter ACC.

!acc = !tile.param<ACC>

// The lowest finite number, as the initial maximum of a row. A row that has no key so far then needs no special case:
// exp2(-inf - lowest) is 0, while exp2(-inf - -inf) would be NaN.
tile.function @lowest() -> !acc = select(param(bits(ACC) == 64), -1.7976931348623157e308, -3.4028234663852886e38)

// 1 / x, or 0 where x is 0: a row without keys has the sum 0 and gets the result 0. In f32 on a GPU, accurate to one
// unit in the last place; a correctly rounded quotient takes a branch for subnormal x.
tile.function @reciprocal_or_zero(%x: !acc) -> !acc = select(%x == 0, 0, 1 / %x) fastmath<afn>

// Whether half a unit in the last place of LSE may change P by more than 2^-12 of it. False for a row without keys.
tile.function @is_large(%lse: !acc) -> i1 = and(abs(%lse) > 4096.0, ne(%lse, minus_inf))

// LSE, or 0 for a row without keys.
tile.function @lse_or_zero(%lse: !acc) -> !acc = select(%lse == minus_inf, 0, %lse)

// LSE in base 2, or 0 for a row without keys. The scores of such a row are masked to -inf, so exp2 gives 0.
tile.function @base2_or_zero(%lse: !acc) -> !acc = select(%lse == minus_inf, 0, %lse * log2e)
