// Attention whose weights are not exponentials: W = max(S, 0) / total, where total is the sum of max(S, 0) over a row,
// a result of the forward. The gradients of a function of O = W V, of the gradient `do` of O.

tile.link "lib/pairs.mlir", "lib/softmax.mlir"

tile.program @rectified_attention_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           DETERMINISTIC: flag = false, let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %total: !row_view, %do: !v_view, %dq: !qk_view,
     %dk: !qk_view, %dv: !v_view, %scale: !acc, %window_left: i32 = -1, %window_right: i32 = -1) {
  tile.call @pairs(lse = %total) with (MAPS = 1, ROWS = true) : !row_view
}

// What the functions below need of each query: 1 / total, and rowsum(dO * O).
tile.function @row_values(%do, %o, %none: !sum_v, %total, %dlse: !own_row, %h, %x: i32) -> (!own_row, !own_row)
    = map @reciprocal_or_zero(%total), reduce add(%do * %o, 1)

tile.function @rectify(%s: !acc) -> !acc = max(%s, 0)

// W, and its derivative where the total is constant. dS is this times dW - delta.
tile.function @pair_weights(%s, %inverse, %factor: !pair, %keep: !pair_keep, %b, %h, %x: i32, %i, %j: !pair_pos,
                            %scale: !acc) -> (!weight, !held) {
  %scaled = tile.expr %s * full(%scale) : !pair
  %w = tile.expr select(%keep, map @rectify(%scaled) * %inverse, 0) : !pair -> !weight
  %slopes = tile.map_gradient @rectify(%scaled) wrt 0 seed %inverse : !pair : (!pair) -> !pair
  tile.result %w, cast(select(%keep, %slopes, 0)) : !weight, !held
}
