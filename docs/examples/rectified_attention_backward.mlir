// Attention whose weights are not exponentials: W = max(S, 0) / total, where total is the sum of max(S, 0) over a row,
// a result of the forward. The gradients of a function of O = W V, of the gradient `do` of O.

tile.link "lib/pairs.mlir"
tile.link "lib/softmax.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!pair   = !tile.tile<[OWN, OTHER], ACC>
!weight = !tile.tile<[OWN, OTHER], T>
!held   = !tile.tile<[OWN, OTHER], HELD>
!keep   = !tile.tile<[OWN, OTHER], i1>
!pos    = !tile.tile<[OWN, OTHER], i32>
!sum_v  = !tile.tile<[OWN, DVP], ACC>
!own_row = !tile.tile<[OWN], ACC>
!acc    = !tile.param<ACC>

tile.program @rectified_attention_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           DETERMINISTIC: flag = false, let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %total: !row_view, %do: !v_view, %dq: !qk_view,
     %dk: !qk_view, %dv: !v_view, %scale: !acc, %window_left: i32 = -1, %window_right: i32 = -1) {
  tile.call @pairs(lse = %total) with (MAPS = 1, ROWS = true) : !row_view
}

// What the functions below need of each query: 1 / total, and rowsum(dO * O).
func.func private @row_values(%do: !sum_v, %o: !sum_v, %none: !sum_v, %total: !own_row, %dlse: !own_row, %h: i32,
                              %x: i32) -> (!own_row, !own_row) {
  %inverse = tile.map @reciprocal_or_zero(%total) : (!own_row) -> !own_row
  %terms = arith.mulf %do, %o : !sum_v
  %delta = tile.reduce add %terms dim 1 : !sum_v -> !own_row
  return %inverse, %delta : !own_row, !own_row
}

func.func private @rectify(%s: !acc) -> !acc {
  %zero = arith.constant 0.0 : !acc
  %positive = arith.maximumf %s, %zero : !acc
  return %positive : !acc
}

// W, and its derivative where the total is constant. dS is this times dW - delta.
func.func private @pair_weights(%s: !pair, %inverse: !pair, %factor: !pair, %keep: !keep, %b: i32, %h: i32, %x: i32,
                                %i: !pos, %j: !pos, %scale: !acc) -> (!weight, !held) {
  %scales = tile.full %scale : !pair
  %none = tile.constant 0 : !pair
  %scaled = arith.mulf %s, %scales : !pair
  %positive = tile.map @rectify(%scaled) : (!pair) -> !pair
  %all = arith.mulf %positive, %inverse : !pair
  %kept = tile.select %keep, %all, %none : !keep, !pair
  %w = tile.cast %kept : !pair -> !weight
  %slopes = tile.map_gradient @rectify(%scaled) wrt 0 seed %inverse : !pair : (!pair) -> !pair
  %slopes_kept = tile.select %keep, %slopes, %none : !keep, !pair
  %held = tile.cast %slopes_kept : !pair -> !held
  return %w, %held : !weight, !held
}
