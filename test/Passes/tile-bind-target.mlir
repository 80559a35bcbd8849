// RUN: rm -rf %t && split-file %s %t
// RUN: tilewright-opt %t/functions.mlir --tile-bind-target=target=sm_90a | FileCheck %s --check-prefixes=ALL,ROLES
// RUN: tilewright-opt %t/functions.mlir --tile-bind-target=target=sm_80 | FileCheck %s --check-prefixes=ALL,GPU
// RUN: tilewright-opt %t/functions.mlir --tile-bind-target | FileCheck %s --check-prefixes=ALL,CPU
// RUN: tilewright-opt %t/widths.mlir --tile-bind-target=target=sm_90a --tile-specialize="entry=w params=D=104,DV=136,T=bf16" | FileCheck %s --check-prefix=HALF-ROLES
// RUN: tilewright-opt %t/widths.mlir --tile-bind-target=target=sm_80 --tile-specialize="entry=w params=D=104,DV=136,T=bf16" | FileCheck %s --check-prefix=HALF
// RUN: tilewright-opt %t/widths.mlir --tile-bind-target=target=sm_90a --tile-specialize="entry=w params=D=72,DV=24,T=f32" | FileCheck %s --check-prefix=WORD
// RUN: tilewright-opt %t/widths.mlir --tile-bind-target=target=sm_80 --tile-specialize="entry=w params=D=72,DV=24,T=e4m3" | FileCheck %s --check-prefix=BYTE
// RUN: tilewright-opt %t/widths.mlir --tile-bind-target=target=sm_90a --tile-specialize="entry=w params=D=72,DV=24,T=bf16" | FileCheck %s --check-prefix=NARROW
// RUN: tilewright-opt %t/widths.mlir --tile-bind-target=target=sm_90a --tile-specialize="entry=w params=D=24,DV=72,T=f16" | FileCheck %s --check-prefix=WIDE-VALUES
// RUN: tilewright-opt %t/widths.mlir --tile-bind-target=target=sm_90a --tile-specialize="entry=w params=D=24,DV=64,T=f16" | FileCheck %s --check-prefix=ALL-NARROW
// RUN: tilewright-opt %t/widths.mlir --tile-bind-target=target=sm_90a --tile-specialize="entry=w params=D=40,DV=40,T=bf16" | FileCheck %s --check-prefix=SHARED-ROWS
// RUN: tilewright-opt %t/widths.mlir --tile-bind-target=target=sm_80 --tile-specialize="entry=w params=D=40,DV=40,T=bf16" | FileCheck %s --check-prefix=UNSHARED-ROWS
// RUN: not tilewright-opt %t/functions.mlir --tile-specialize="entry=p" 2>&1 | FileCheck %s --check-prefix=UNBOUND
// RUN: not tilewright-opt %t/unknown.mlir --tile-bind-target 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not tilewright-opt %t/kinds.mlir 2>&1 | FileCheck %s --check-prefix=KINDS

// In defaults, derived parameters, constraints, workspaces, conditions of launches and operations.
//--- functions.mlir
// ALL-LABEL: tile.kernel @k
// ROLES-NEXT: params(SIZE: int = select(true, 132, 1), let OTHER: flag = not(true)
// GPU-NEXT:   params(SIZE: int = select(true, 108, 1), let OTHER: flag = not(false)
// CPU-NEXT:   params(SIZE: int = select(false, 188, 1), let OTHER: flag = not(false)
// ALL:       require([[$MPS:188|132|108]] < 1000)
// ALL:       grid(%i = ceildiv(dim(x, 0), ceildiv(SIZE + 1, 8) * 8))
// ALL:         tile.param 2 * [[$MPS]] : i32
tile.kernel @k params(SIZE: int = select(on_gpu(), multiprocessors(), 1), let OTHER: flag = not(has_roles()))
    require(multiprocessors() < 1000) (%x: !tile.view<[?], f32>) grid(%i = ceildiv(dim(x, 0), padded(SIZE + 1))) {
  %two_each = tile.param 2 * multiprocessors() : i32
  %tile = tile.load %x[%two_each] : !tile.view<[?], f32> -> !tile.tile<[16], f32>
  tile.store %tile, %x[%i] : !tile.tile<[16], f32>, !tile.view<[?], f32>
}
// ALL-LABEL: tile.program @p
// ALL:         tile.workspace [min(dim(x, 0), [[$MPS]])] fill
// ALL:         tile.launch @k{{.*}} with (SIZE = [[$MPS]]) when (dim(x, 0) > [[$MPS]])
tile.program @p params(N: int = 1) (%x: !tile.view<[?], f32>) {
  %w = tile.workspace [min(dim(x, 0), multiprocessors())] fill 0.0 : !tile.view<[?], f32>
  tile.launch @k(%w) with (SIZE = multiprocessors()) when (dim(x, 0) > multiprocessors()) : !tile.view<[?], f32>
}
// UNBOUND: error: {{.*}}multiprocessors() is bound by tile-bind-target, which has not run; run that pass first

//--- widths.mlir
// HALF-ROLES: COLUMNS = 136 : i64
// HALF-ROLES-SAME: DEPTH = 128 : i64
// HALF-ROLES-SAME: GRADIENTS = 128 : i64, GRADIENT_ROWS = 128 : i64, ORDERED = 128 : i64, PLAIN = 104 : i64, SCORES = 112 : i64, SHARED = 128 : i64, SHARES = 256 : i64, STATE = 128 : i64
// HALF-ROLES-SAME: TRANSPOSED = 128 : i64
// HALF:       COLUMNS = 144 : i64
// HALF-SAME:  DEPTH = 112 : i64
// HALF-SAME:  GRADIENTS = 128 : i64, GRADIENT_ROWS = 128 : i64, ORDERED = 128 : i64, PLAIN = 104 : i64, SCORES = 112 : i64, SHARED = 128 : i64, SHARES = 256 : i64, STATE = 128 : i64
// HALF-SAME:  TRANSPOSED = 128 : i64
// WORD:       COLUMNS = 32 : i64
// WORD-SAME:  DEPTH = 80 : i64
// WORD-SAME:  GRADIENTS = 72 : i64, GRADIENT_ROWS = 80 : i64, ORDERED = 80 : i64, PLAIN = 72 : i64, SCORES = 72 : i64
// WORD-SAME:  TRANSPOSED = 80 : i64
// BYTE:       COLUMNS = 32 : i64
// BYTE-SAME:  DEPTH = 96 : i64
// NARROW:      COLUMNS = 32 : i64
// NARROW-SAME: DEPTH = 80 : i64
// NARROW-SAME: GRADIENTS = 80 : i64, GRADIENT_ROWS = 80 : i64, ORDERED = 128 : i64
// NARROW-SAME: TRANSPOSED = 128 : i64
// WIDE-VALUES:      GRADIENT_ROWS = 32 : i64, ORDERED = 128 : i64
// WIDE-VALUES-SAME: TRANSPOSED = 32 : i64
// ALL-NARROW:       GRADIENT_ROWS = 32 : i64, ORDERED = 32 : i64
// ALL-NARROW-SAME:  SHARED = 32 : i64, {{.*}}TRANSPOSED = 32 : i64
// SHARED-ROWS:   SHARED = 128 : i64, {{.*}}TRANSPOSED = 48 : i64
// UNSHARED-ROWS: SHARED = 48 : i64, {{.*}}TRANSPOSED = 48 : i64
tile.kernel @w
    params(D: int, DV: int, T: type, let PLAIN: int = padded(D), let DEPTH: int = padded_for("depth", D, DV, T),
           let COLUMNS: int = padded_for("columns", DV, D, T), let GRADIENTS: int = padded_for("gradients", D, DV, T),
           let GRADIENT_ROWS: int = padded_for("gradient_rows", D, DV, T),
           let TRANSPOSED: int = padded_for("transposed_rows", D, DV, T),
           let ORDERED: int = padded_for("ordered_rows", D, DV, T),
           let SHARED: int = padded_for("shared_rows", D, DV, T),
           let SCORES: int = padded_for("scores", D, DV, T), let STATE: int = padded_for("state", D, DV, T),
           let SHARES: int = padded_for("shares", D, DV, T))
    (%x: !tile.view<[?, D], T>) grid(%i = dim(x, 0)) {
  %tile = tile.load %x[%i, 0] : !tile.view<[?, D], T> -> !tile.tile<[1, PLAIN], T>
  tile.store %tile, %x[%i, 0] : !tile.tile<[1, PLAIN], T>, !tile.view<[?, D], T>
}

//--- unknown.mlir
// UNKNOWN: error: 'tile.kernel' op the first operand of padded_for() must be one of depth, columns, {{.*}}shares, but got 'width'
tile.kernel @k params(D: int, T: type, let DP: int = padded_for("width", D, D, T)) () grid(%i = 1) {
}

//--- kinds.mlir
// KINDS: error: 'tile.kernel' op the default of parameter 'DP' must apply 'padded_for' to a value of kind enum, but got int
tile.kernel @k params(D: int, T: type, let DP: int = padded_for(D, D, D, T)) () grid(%i = 1) {
}
