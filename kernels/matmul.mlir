// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix product with a fused epilogue: C = activation(alpha * A B + bias).
//
// Arguments
//   a       [M, K]   T
//   b       [K, N]   T
//   bias    [N]      TC   optional; absent: zero
//   c       [M, N]   TC   result
//   alpha   f32
//
// M, N and K may have any value, including 0 (K = 0: C = activation(bias)). Strides are arbitrary.
//
// Parameters
//   T            Element type of the operands: f16, bf16, f32, f64, e4m3 or e5m2.
//   TC           Element type of bias and c: f16, bf16, f32 or f64. Default: T. It has no default if T has 8 bits.
//   ACC          Type of the sum and of the epilogue, derived: f64 for f64, else f32.
//   ACTIVATION   none (default), relu, gelu_tanh, silu or sigmoid: see lib/activation.mlir. Another file may replace
//                @activation.
//   BLOCK_M, BLOCK_N   Rows and columns of c in a program instance.
//   BLOCK_K            Columns of a in an iteration. The compiler chooses the defaults of the blocks.
//
// The result is rounded once, when it is stored. Runs are bit-identical. If there are few blocks of c, several program
// instances have a part of K each, and their sums, in ACC, are added in order.

tile.link "lib/activation.mlir"

!a   = !tile.tile<[BLOCK_M, BLOCK_K], T>
!b   = !tile.tile<[BLOCK_K, BLOCK_N], T>
!c   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!acc = !tile.param<ACC>

// The products of two parts of K, as one.
tile.function @add_parts(%a, %b: !c) -> !c = %a + %b

tile.kernel @matmul
    params(T: type in [e4m3, e5m2, f16, bf16, f32, f64], TC: type in [f16, bf16, f32, f64] = T,
           ACTIVATION: enum in ["none", "relu", "gelu_tanh", "silu", "sigmoid"] = "none",
           BLOCK_M, BLOCK_N, BLOCK_K: int = block(), let ACC: type = accumulator(T))
    require(dim(b, 0) == dim(a, 1), dim(c, 0) == dim(a, 0), dim(c, 1) == dim(b, 1), dim(bias, 0) == dim(b, 1))
    (%a, %b: !tile.view<[?, ?], T>, %bias: optional !tile.view<[?], TC>, %c: !tile.view<[?, ?], TC>, %alpha: f32)
    grid(%bn = ceildiv(dim(c, 1), BLOCK_N), %bm = ceildiv(dim(c, 0), BLOCK_M)) {
  %m = tile.expr %bm * BLOCK_M : i32
  %n = tile.expr %bn * BLOCK_N : i32
  // The last iteration may extend beyond K, where both operands read as zero.
  %sum = tile.for %k in (0 to dim(%a, 1)) step BLOCK_K iter_args(%sum_old = 0 : !c) {
    tile.yield dot(load %a[%m, %k] : !a, load %b[%k, %n] : !b, %sum_old)
  } {tile.combine = @add_parts}

  %biased = tile.expr %sum * full(cast(%alpha)) + expand(cast(load %bias[%n] : !tile.tile<[BLOCK_N], TC>), 0) : !c
  tile.store cast(map @activation(%biased) : !c), %c[%m, %n] : !tile.tile<[BLOCK_M, BLOCK_N], TC>
}
