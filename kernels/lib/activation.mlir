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
tile.function @activation(%x: !acc) -> !acc attributes {tile.replaceable} {
  %divisor = tile.expr 1 + exp(neg(%x))
  %twice_share = tile.expr tanh((%x + %x * %x * %x * 0.044715) * 0.7978845608028654) + 1
  %a = tile.expr select(param(ACTIVATION == "relu"), max(%x, 0), %x)
  %b = tile.expr select(param(ACTIVATION == "sigmoid"), 1 / %divisor, %a)
  %c = tile.expr select(param(ACTIVATION == "silu"), %x / %divisor, %b)
  tile.result select(param(ACTIVATION == "gelu_tanh"), %x * 0.5 * %twice_share, %c)
}
