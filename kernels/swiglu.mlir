// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gated linear unit of a transformer's MLP: Y = activation(X W_gate) * (X W_up).
//
// Arguments
//   x              [M, K]   T
//   w_gate, w_up   [K, N]   T, or [N, K] with TRANSPOSED
//   y              [M, N]   T    result
//
// M, N and K may have any value, including 0 (K = 0: Y = activation(0) * 0). Strides are arbitrary: if a model keeps
// both weights in one array, pass views of its halves.
//
// Parameters
//   T            Element type of the arrays: f16, bf16, f32 or f64.
//   ACC          Type of the sums, the activation and the product, derived: f64 for f64, else f32.
//   ACTIVATION   silu (SwiGLU, default), gelu_tanh (GeGLU), relu (ReGLU), sigmoid (GLU) or none (bilinear): see
//                lib/activation.mlir. Another file may replace @activation.
//   TRANSPOSED   The weights have the shape [N, K], as in PyTorch's linear layers. Default: false.
//   BLOCK_M, BLOCK_N   Rows and columns of y in a program instance.
//   BLOCK_K            Columns of x in an iteration. The compiler chooses the defaults of the blocks.
//
// The result is rounded once, when it is stored. Runs are bit-identical.
//
// Algorithm: Shazeer, GLU variants improve transformer, 2020. One loop computes both products: X is loaded once, and
// neither product is stored.

tile.link "lib/activation.mlir"

!view = !tile.view<[?, ?], T>
!x    = !tile.tile<[BLOCK_M, BLOCK_K], T>
!w    = !tile.tile<[BLOCK_K, BLOCK_N], T>
!w_t  = !tile.tile<[BLOCK_N, BLOCK_K], T>
!y    = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!acc  = !tile.param<ACC>

tile.kernel @swiglu
    params(T: type in [f16, bf16, f32, f64],
           ACTIVATION: enum in ["none", "relu", "gelu_tanh", "silu", "sigmoid"] = "silu", TRANSPOSED: flag = false,
           BLOCK_M, BLOCK_N, BLOCK_K: int = block(), let ACC: type = accumulator(T))
    require(dim(y, 0) == dim(x, 0), select(TRANSPOSED, dim(w_gate, 1), dim(w_gate, 0)) == dim(x, 1),
            select(TRANSPOSED, dim(w_gate, 0), dim(w_gate, 1)) == dim(y, 1), same_dims(w_up, w_gate, 0, 1))
    (%x, %w_gate, %w_up, %y: !view)
    grid(%bn = ceildiv(dim(y, 1), BLOCK_N), %bm = ceildiv(dim(y, 0), BLOCK_M)) {
  %m = tile.expr %bm * BLOCK_M : i32
  %n = tile.expr %bn * BLOCK_N : i32
  // The last iteration may extend beyond K, where all operands read as zero.
  %gate, %up = tile.for %k in (0 to dim(%x, 1)) step BLOCK_K iter_args(%gate_old = 0 : !y, %up_old = 0 : !y) {
    %x_tile = tile.load %x[%m, %k] : !view -> !x
    %gate_new, %up_new = tile.if TRANSPOSED -> (!y, !y) {
      %gate_tile = tile.load %w_gate[%n, %k] : !view -> !w_t
      %up_tile = tile.load %w_up[%n, %k] : !view -> !w_t
      tile.yield dot(%x_tile, %gate_tile, %gate_old transpose_b), dot(%x_tile, %up_tile, %up_old transpose_b)
    } else {
      %gate_tile = tile.load %w_gate[%k, %n] : !view -> !w
      %up_tile = tile.load %w_up[%k, %n] : !view -> !w
      tile.yield dot(%x_tile, %gate_tile, %gate_old), dot(%x_tile, %up_tile, %up_old)
    }
    tile.yield %gate_new, %up_new
  }
  tile.store cast(map @activation(%gate) * %up : !y), %y[%m, %n] : !tile.tile<[BLOCK_M, BLOCK_N], T>
}
