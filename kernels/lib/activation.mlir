// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activation functions. A kernel that links this file declares the parameters ACC and ACTIVATION:
//
//   none        x
//   relu        max(x, 0)
//   sigmoid     1 / (1 + exp(-x))
//   silu        x / (1 + exp(-x))
//   gelu_tanh   x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
//               (Hendrycks and Gimpel, Gaussian error linear units, 2016)

!acc = !tile.param<ACC>

// Specialization replaces ACTIVATION by a constant, and the unused functions fold away.
func.func private @activation(%x: !acc) -> !acc attributes {tile.replaceable} {

  %positive = tile.expr max(%x, 0) : !acc

  %divisor = tile.expr 1 + exp(neg(%x)) : !acc
  %silu = arith.divf %x, %divisor : !acc
  %sigmoid = tile.expr 1 / %divisor : !acc

  %twice_share = tile.expr tanh((%x + %x * %x * %x * 0.044715) * 0.7978845608028654) + 1 : !acc
  %gelu = tile.expr %x * 0.5 * %twice_share : !acc

  %a = tile.expr select(param(ACTIVATION == "relu"), %positive, %x) : !acc
  %b = tile.expr select(param(ACTIVATION == "sigmoid"), %sigmoid, %a) : !acc
  tile.result select(param(ACTIVATION == "gelu_tanh"), %gelu, select(param(ACTIVATION == "silu"), %silu, %b)) : !acc
}
