// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, forward.
//
//   S = scale * Q K^T               scores of a pair of a query i and a key j
//   T = score_mod(S, b, h, i, j)    identity unless another file replaces it
//   O = softmax(T) V                over the keys that query i attends
//   LSE = log sum exp T             natural logarithm, for the backward and for merging
//
//   q   [B, Hq,  Sq,  D]   T        k [B, Hkv, Skv, D]   T        v [B, Hkv, Skv, DV]   T
//   o   [B, Hq,  Sq,  DV]  T        lse [B, Hq, Sq]   ACC, optional
//   scale   f32, finite, usually 1 / sqrt(D)
//   window_left, window_right   i32; -1, the default, leaves that side open, all else needs WINDOW
//
// Hq is a multiple of Hkv: query heads h * Hq / Hkv .. share one key head (MHA, GQA, MQA).
// Sq and Skv are any, also 0, and need not be multiples of the blocks; strides are any.
//
// Parameters
//   D, DV     widths of a query and of a value, up to 256. Tiles are padded to a multiple of 16 (DP,
//             DVP): the padding reads zero and is never stored.
//   T         element type of the arrays. Scores, sums and LSE are of ACC: f64 for f64, else f32
//   CAUSAL    none; top_left keeps j <= i; bottom_right keeps j <= i + Skv - Sq
//   WINDOW    keeps i + shift - left <= j <= i + shift + right, where the shift is Skv - Sq under
//             bottom_right and 0 otherwise
//   BLOCK_M, BLOCK_N   queries of one program instance, keys of one step
//
// A query that attends no key gets O = 0 and LSE = -inf. A NaN in a query poisons that row alone.
// A NaN or infinity in v reaches the queries that attend its key, and may reach others whose block
// holds that key: 0 * NaN is NaN.
// P is rounded to T before it meets V; everything else is kept in ACC. Runs are bit-identical.
//
// Algorithm: softmax in one pass over the keys (Milakov and Gimelshein, Online normalizer
// calculation for softmax, 2018) in the loop order of FlashAttention-2 (Dao, 2023).

tile.link "lib/attention.mlir"
tile.link "lib/softmax.mlir"

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!s   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!p   = !tile.tile<[BLOCK_M, BLOCK_N], T>
!pos = !tile.tile<[BLOCK_M, BLOCK_N], i32>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

func.func private @lowest() -> !acc
func.func private @sink(i32) -> !acc

tile.kernel @attention_forward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           BLOCK_M: int = block(), BLOCK_N: int = block(),
           let DP: int = ceildiv(D, 16) * 16, let DVP: int = ceildiv(DV, 16) * 16,
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256,
            dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(v, 1) == dim(k, 1), dim(v, 2) == dim(k, 2),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1), dim(o, 2) == dim(q, 2),
            dim(lse, 0) == dim(q, 0), dim(lse, 1) == dim(q, 1), dim(lse, 2) == dim(q, 2),
            finite(scale),
            or(WINDOW, window_left == -1), or(WINDOW, window_right == -1))
    (%q: !tile.view<[?, ?, ?, D], T>, %k: !tile.view<[?, ?, ?, D], T>,
     %v: !tile.view<[?, ?, ?, DV], T>, %o: !tile.view<[?, ?, ?, DV], T>,
     %lse: optional !tile.view<[?, ?, ?], ACC>,
     %scale: f32, %window_left: i32 = -1, %window_right: i32 = -1)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %queries = tile.dim %q, 2 : !tile.view<[?, ?, ?, D], T>
  %keys = tile.dim %k, 2 : !tile.view<[?, ?, ?, D], T>
  %q_heads = tile.dim %q, 1 : !tile.view<[?, ?, ?, D], T>
  %k_heads = tile.dim %k, 1 : !tile.view<[?, ?, ?, D], T>

  // First query of this instance, and the key head it reads. Under a causal mask the last queries
  // have the most keys: they go first, so that nobody waits for them in the end. Divisors are at
  // least 1, also where there are no heads.
  %block_m = tile.param BLOCK_M : i32
  %ascending = tile.param CAUSAL == "none" : i1
  %row_blocks = arith.ceildivsi %queries, %block_m : i32
  %last = arith.subi %row_blocks, %c1 : i32
  %from_last = arith.subi %last, %bm : i32
  %row_block = arith.select %ascending, %bm, %from_last : i32
  %m = arith.muli %row_block, %block_m : i32
  %some_heads = arith.maxsi %k_heads, %c1 : i32
  %heads_each = arith.divsi %q_heads, %some_heads : i32
  %group = arith.maxsi %heads_each, %c1 : i32
  %hk = arith.divsi %h, %group : i32

  // Where the diagonal starts.
  %bottom_right = tile.param CAUSAL == "bottom_right" : i1
  %surplus = arith.subi %keys, %queries : i32
  %shift = arith.select %bottom_right, %surplus, %c0 : i32

  // Scores are kept in base 2: exp2 is what machines have. The two factors may be rounded together,
  // and the difference below with its product.
  %log2e = arith.constant 1.4426950408889634 : !acc
  %ln2 = arith.constant 0.6931471805599453 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales = tile.full %scale_acc : !s
  %log2es = tile.full %log2e : !s

  %zero = arith.constant 0.0 : !acc
  %one = arith.constant 1.0 : !acc
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !s
  // What a row begins with: its sink, if there is one.
  %sink = func.call @sink(%h) : (i32) -> !acc
  %sink_base2 = arith.mulf %sink, %log2e : !acc
  %no_sink = arith.cmpf oeq, %sink, %minus_inf : !acc
  %sink_weight = arith.select %no_sink, %zero, %one : !acc
  %lowest = func.call @lowest() : () -> !acc
  %first_max = arith.maximumf %sink_base2, %lowest : !acc
  %no_max = tile.full %first_max : !row
  %no_sum = tile.full %sink_weight : !row
  %no_o = tile.full %zero : !o

  %q_tile = tile.load %q[%b, %h, %m, 0] : !tile.view<[?, ?, ?, D], T> -> !q
  %rows = tile.iota %m dim 0 : !pos

  // From the last block to the first: those that a mask or the end cuts come first, and nothing
  // waits for them in the end. Carries the maximum of each row so far, the sum of
  // exp2(x - maximum), and the sum of exp2(x - maximum) V.
  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries) descending
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right
                     : i32, i32, i32, i32, i32)
      keep %keep : !tile.tile<[BLOCK_M, BLOCK_N], i1>
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !tile.view<[?, ?, ?, D], T> -> !k
    %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s

    %cols = tile.iota %n dim 1 : !pos
    %natural = arith.mulf %s, %scales fastmath<reassoc> : !s
    %modified = tile.map @score_mod(%natural, %b, %h, %rows, %cols)
        : (!s, i32, i32, !pos, !pos) -> !s
    %base2 = arith.mulf %modified, %log2es fastmath<reassoc, contract> : !s
    %x = tile.select %keep, %base2, %masked_out : !tile.tile<[BLOCK_M, BLOCK_N], i1>, !s

    %max_block = tile.reduce max %x dim 1 : !s -> !row
    %max_new = arith.maximumf %max_old, %max_block : !row
    %max_each = tile.expand %max_new dim 1 : !row -> !s
    %below = arith.subf %x, %max_each fastmath<contract> : !s
    %p = math.exp2 %below : !s

    // What was summed against the old maximum shrinks by 2^(old - new).
    %fall = arith.subf %max_old, %max_new : !row
    %rescale = math.exp2 %fall : !row
    %sum_block = tile.reduce add %p dim 1 : !s -> !row
    %sum_kept = arith.mulf %sum_old, %rescale fastmath<reassoc, contract> : !row
    %sum_new = arith.addf %sum_kept, %sum_block fastmath<reassoc, contract> : !row
    %rescale_each = tile.expand %rescale dim 1 : !row -> !o
    %acc_kept = arith.mulf %acc_old, %rescale_each : !o

    %v_tile = tile.load %v[%b, %hk, %n, 0] : !tile.view<[?, ?, ?, DV], T> -> !v
    %weight = tile.map @weight_mod(%b, %h, %rows, %cols) : (i32, i32, !pos, !pos) -> !s
    %p_weighted = arith.mulf %p, %weight : !s
    %p_tile = tile.cast %p_weighted : !s -> !p
    %acc_new = tile.dot %p_tile, %v_tile, %acc_kept : !p, !v -> !o
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  %inverse = tile.map @reciprocal_or_zero(%sum) : (!row) -> !row
  %inverse_each = tile.expand %inverse dim 1 : !row -> !o
  %result = arith.mulf %acc, %inverse_each : !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], T>
  tile.store %o_tile, %o[%b, %h, %m, 0]
      : !tile.tile<[BLOCK_M, DVP], T>, !tile.view<[?, ?, ?, DV], T>

  // log(2^max * sum); the logarithm of a row without keys is -inf.
  %ln2s = tile.full %ln2 : !row
  %max_natural = arith.mulf %max, %ln2s : !row
  %log_sum = math.log %sum : !row
  %lse_row = arith.addf %max_natural, %log_sum : !row
  tile.store %lse_row, %lse[%b, %h, %m] : !row, !tile.view<[?, ?, ?], ACC>
}
