// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix product with a fused epilogue: C = activation(alpha * A B + bias).
//
//   a     [M, K]  T          b   [K, N]  T
//   bias  [N]     TC, optional (absent: zero)
//   c     [M, N]  TC
//   alpha f32
//
// Any M, N and K, also 0 (K = 0: C = activation(bias)); strides are any.
//
// Parameters
//   T, TC        element types of the operands and of the result (default: T)
//   ACC          type of the sum and of the epilogue: f64 for f64, else f32
//   ACTIVATION   none; relu: max(x, 0); silu: x / (1 + exp(-x));
//                gelu_tanh: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
//                (Hendrycks and Gimpel, Gaussian error linear units, 2016)
//   BLOCK_M, BLOCK_N, BLOCK_K   rows and columns of one program instance; depth of one step
//
// C is rounded once, at the end. Runs are bit-identical.

!a   = !tile.tile<[BLOCK_M, BLOCK_K], T>
!b   = !tile.tile<[BLOCK_K, BLOCK_N], T>
!c   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!acc = !tile.param<ACC>

// What happens to an element of alpha * A B + bias. Replaceable. The parameter is a constant once
// bound, so that all but one of these fold away.
func.func private @activation(%x: !acc) -> !acc attributes {tile.replaceable} {
  %zero = arith.constant 0.0 : !acc
  %half = arith.constant 0.5 : !acc
  %one = arith.constant 1.0 : !acc

  %positive = arith.maximumf %x, %zero : !acc

  %minus_x = arith.negf %x : !acc
  %exp = math.exp %minus_x : !acc
  %silu_divisor = arith.addf %one, %exp : !acc
  %silu = arith.divf %x, %silu_divisor : !acc

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
  %is_silu = tile.param ACTIVATION == "silu" : i1
  %is_gelu = tile.param ACTIVATION == "gelu_tanh" : i1
  %a = arith.select %is_relu, %positive, %x : !acc
  %b = arith.select %is_silu, %silu, %a : !acc
  %c = arith.select %is_gelu, %gelu, %b : !acc
  return %c : !acc
}

tile.kernel @matmul
    params(T: type in [e4m3, e5m2, f16, bf16, f32, f64], TC: type in [f16, bf16, f32, f64] = T,
           ACTIVATION: enum in ["none", "relu", "gelu_tanh", "silu"] = "none",
           BLOCK_M: int = block(), BLOCK_N: int = block(), BLOCK_K: int = block(),
           let ACC: type = accumulator(T))
    require(dim(b, 0) == dim(a, 1), dim(c, 0) == dim(a, 0), dim(c, 1) == dim(b, 1),
            dim(bias, 0) == dim(b, 1))
    (%a: !tile.view<[?, ?], T>, %b: !tile.view<[?, ?], T>, %bias: optional !tile.view<[?], TC>,
     %c: !tile.view<[?, ?], TC>, %alpha: f32)
    grid(%bn = ceildiv(dim(c, 1), BLOCK_N), %bm = ceildiv(dim(c, 0), BLOCK_M)) {
  %c0 = arith.constant 0 : i32
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %block_k = tile.param BLOCK_K : i32
  %m = arith.muli %bm, %block_m : i32
  %n = arith.muli %bn, %block_n : i32
  %depth = tile.dim %a, 1 : !tile.view<[?, ?], T>

  %zero = arith.constant 0.0 : !acc
  %no_sum = tile.full %zero : !c
  // The last step may reach beyond K: there both operands read zero.
  %sum = scf.for %k = %c0 to %depth step %block_k iter_args(%sum_old = %no_sum) -> (!c) : i32 {
    %a_tile = tile.load %a[%m, %k] : !tile.view<[?, ?], T> -> !a
    %b_tile = tile.load %b[%k, %n] : !tile.view<[?, ?], T> -> !b
    %sum_new = tile.dot %a_tile, %b_tile, %sum_old : !a, !b -> !c
    scf.yield %sum_new : !c
  }

  %alpha_acc = tile.cast %alpha : f32 -> !acc
  %alphas = tile.full %alpha_acc : !c
  %scaled = arith.mulf %sum, %alphas : !c
  %bias_row = tile.load %bias[%n] : !tile.view<[?], TC> -> !tile.tile<[BLOCK_N], TC>
  %bias_acc = tile.cast %bias_row : !tile.tile<[BLOCK_N], TC> -> !tile.tile<[BLOCK_N], ACC>
  %bias_each = tile.expand %bias_acc dim 0 : !tile.tile<[BLOCK_N], ACC> -> !c
  %biased = arith.addf %scaled, %bias_each : !c
  %result = tile.map @activation(%biased) : (!c) -> !c
  %rounded = tile.cast %result : !c -> !tile.tile<[BLOCK_M, BLOCK_N], TC>
  tile.store %rounded, %c[%m, %n] : !tile.tile<[BLOCK_M, BLOCK_N], TC>, !tile.view<[?, ?], TC>
}
