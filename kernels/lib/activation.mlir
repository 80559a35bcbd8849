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
  %zero = arith.constant 0.0 : !acc
  %half = arith.constant 0.5 : !acc
  %one = arith.constant 1.0 : !acc

  %positive = arith.maximumf %x, %zero : !acc

  %minus_x = arith.negf %x : !acc
  %exp = math.exp %minus_x : !acc
  %divisor = arith.addf %one, %exp : !acc
  %silu = arith.divf %x, %divisor : !acc
  %sigmoid = arith.divf %one, %divisor : !acc

  %cubic = arith.constant 0.044715 : !acc
  %slope = arith.constant 0.7978845608028654 : !acc
  %x2 = arith.mulf %x, %x : !acc
  %x3 = arith.mulf %x2, %x : !acc
  %bend = arith.mulf %x3, %cubic : !acc
  %bent = arith.addf %x, %bend : !acc
  %argument = arith.mulf %bent, %slope : !acc
  %tanh = math.tanh %argument : !acc
  %twice_share = arith.addf %tanh, %one : !acc
  %half_x = arith.mulf %x, %half : !acc
  %gelu = arith.mulf %half_x, %twice_share : !acc

  %is_relu = tile.param ACTIVATION == "relu" : i1
  %is_sigmoid = tile.param ACTIVATION == "sigmoid" : i1
  %is_silu = tile.param ACTIVATION == "silu" : i1
  %is_gelu = tile.param ACTIVATION == "gelu_tanh" : i1
  %a = arith.select %is_relu, %positive, %x : !acc
  %b = arith.select %is_sigmoid, %sigmoid, %a : !acc
  %c = arith.select %is_silu, %silu, %b : !acc
  %d = arith.select %is_gelu, %gelu, %c : !acc
  return %d : !acc
}
