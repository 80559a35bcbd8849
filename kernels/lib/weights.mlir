// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The weight of a pair in attention without a softmax, by default the hyperbolic tangent of its score. A file that is
// linked may replace it; the backward differentiates what it replaces it by. A kernel that links this file declares T
// and ACC.
//
// On a GPU, tanh may have a relative error of 2^-11 if T is bf16 (afn selects the hardware instruction), and of 2^-22
// if T is f16 (arcp): not more than the rounding of a weight to T.

!acc = !tile.param<ACC>

// The weight of a pair with the score s.
tile.function @weight(%s: !acc) -> !acc attributes {tile.replaceable} {
  %coarse = math.tanh %s fastmath<afn> : !acc
  %near = math.tanh %s fastmath<arcp> : !acc
  tile.result select(param(T == bf16), %coarse, select(param(T == f16), %near, tanh(%s))) : !acc
}
