// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The weight of a pair as a sigmoid of its score.

!acc = !tile.param<ACC>

func.func private @weight(%s: !acc) -> !acc {
  %one = arith.constant 1.0 : !acc
  %minus = arith.negf %s : !acc
  %exp = math.exp %minus : !acc
  %divisor = arith.addf %one, %exp : !acc
  %sigmoid = arith.divf %one, %divisor : !acc
  return %sigmoid : !acc
}
