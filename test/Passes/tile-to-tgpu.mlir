// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts, staging of operands and the two copies of a block loop's body. TgpuMappingTest checks values.
// RUN: split-file %s %t
// RUN: tilewright-opt %t/kernels.mlir --tile-to-tgpu=warps=4 | FileCheck %s
// RUN: tilewright-opt %t/kernels.mlir --tile-to-tgpu=warps=4 | tilewright-opt | FileCheck %s
// RUN: tilewright-opt %t/errors.mlir --tile-to-tgpu -split-input-file -verify-diagnostics

//--- kernels.mlir

// A product: both operands are copied; one barrier orders the copies after the previous reads.
// CHECK-LABEL: tgpu.kernel @product target "sm_80" warps 4
// CHECK-DAG:     %[[X:.*]] = tgpu.alloc : !tgpu.shared<64x32xf16, b64>
// CHECK-DAG:     %[[Y:.*]] = tgpu.alloc : !tgpu.shared<32x64xf16, b128>
// CHECK:         scf.for {{.*}} -> (tensor<64x64xf32, #tgpu.mma<2, 2>>)
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.copy_async %a[{{.*}}], %[[X]]
// CHECK-NEXT:      tgpu.copy_commit
// CHECK-NEXT:      tgpu.copy_async %b[{{.*}}], %[[Y]]
// CHECK-NEXT:      tgpu.copy_commit
// CHECK-NEXT:      tgpu.copy_wait pending 0
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      %[[A:.*]] = tgpu.read %[[X]] : {{.*}} -> tensor<64x32xf16, #tgpu.operand<a, #tgpu.mma<2, 2>>>
// CHECK-NEXT:      %[[B:.*]] = tgpu.read %[[Y]] : {{.*}} -> tensor<32x64xf16, #tgpu.operand<b, #tgpu.mma<2, 2>>>
// CHECK-NEXT:      tgpu.mma %[[A]], %[[B]],
// The row has a slice of the layout of the tile that it is added to.
// CHECK:         tgpu.load %bias[{{.*}}] : {{.*}} -> tensor<64xf32, #tgpu.slice<0, #tgpu.mma<2, 2>>>
tile.kernel @product (%a: !tile.view<[?, ?], f16>, %b: !tile.view<[?, ?], f16>,
                      %bias: !tile.view<[?], f32>, %c: !tile.view<[?, ?], f32>)
    grid(%bn = ceildiv(dim(c, 1), 64), %bm = ceildiv(dim(c, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %m = arith.muli %bm, %c64 : i32
  %n = arith.muli %bn, %c64 : i32
  %depth = tile.dim %a, 1 : !tile.view<[?, ?], f16>
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : tensor<64x64xf32>
  %sum = scf.for %k = %c0 to %depth step %c32 iter_args(%old = %none) -> (tensor<64x64xf32>) : i32 {
    %x = tile.load %a[%m, %k] : !tile.view<[?, ?], f16> -> tensor<64x32xf16>
    %y = tile.load %b[%k, %n] : !tile.view<[?, ?], f16> -> tensor<32x64xf16>
    %new = tile.dot %x, %y, %old : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
    scf.yield %new : tensor<64x64xf32>
  }
  %row = tile.load %bias[%n] : !tile.view<[?], f32> -> tensor<64xf32>
  %each = tile.expand %row dim 0 : tensor<64xf32> -> tensor<64x64xf32>
  %biased = arith.addf %sum, %each : tensor<64x64xf32>
  tile.store %biased, %c[%m, %n] : tensor<64x64xf32>, !tile.view<[?, ?], f32>
}

// tile.spread is mapped like a branch; a preceding copy is waited for.
// CHECK-LABEL: tgpu.kernel @beside
// CHECK:         tgpu.copy_wait pending 0
// CHECK:         tgpu.mma
// CHECK:         tile.spread %[[M:.*]] to %{{.*}} {
// CHECK-NEXT:      %[[SOME:.*]] = arith.cmpi slt, %[[M]],
// CHECK-NEXT:      scf.if %[[SOME]] {
// CHECK-NEXT:        tile.await %{{.*}} of %turns[%[[M]]] : !tile.view<[?], i32>
// CHECK-NEXT:        %[[LOADED:.*]] = tgpu.load %s[%[[M]], 0] : !tile.view<[?, ?], f32> -> tensor<64x64xf32, [[LAYOUT:#tgpu.blocked<.*>]]>
// CHECK-NEXT:        %[[ROUNDED:.*]] = tile.cast %[[LOADED]] : tensor<64x64xf32, [[LAYOUT]]> -> tensor<64x64xf16, [[LAYOUT]]>
// CHECK-NEXT:        tgpu.store %[[ROUNDED]], %c[%[[M]], 0] : tensor<64x64xf16, [[LAYOUT]]>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
tile.kernel @beside (%a: !tile.view<[?, ?], f16>, %s: !tile.view<[?, ?], f32>, %turns: !tile.view<[?], i32>,
                     %c: !tile.view<[?, ?], f16>, %n: i32) grid(%b = dim(a, 0)) {
  %x = tile.load %a[%b, 0] : !tile.view<[?, ?], f16> -> tensor<64x64xf16>
  %p = tile.dot %x, %x : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
  tile.store %p, %s[%b, 0] : tensor<64x64xf32>, !tile.view<[?, ?], f32>
  tile.spread %m to %n {
    %some = arith.cmpi slt, %m, %n : i32
    scf.if %some {
      tile.await %n of %turns[%m] : !tile.view<[?], i32>
      %loaded = tile.load %s[%m, 0] : !tile.view<[?, ?], f32> -> tensor<64x64xf32>
      %rounded = tile.cast %loaded : tensor<64x64xf32> -> tensor<64x64xf16>
      tile.store %rounded, %c[%m, 0] : tensor<64x64xf16>, !tile.view<[?, ?], f16>
    }
  }
}

// Without a dot: 16 bytes per thread, no shared memory.
// CHECK-LABEL: tgpu.kernel @rows
// CHECK-NOT:     tgpu.alloc
// CHECK:         tgpu.load {{.*}} -> tensor<8x256xf16, #tgpu.blocked<8, lanes 32, warps 4, 1>>
// CHECK:         tile.reduce add {{.*}} -> tensor<8xf32, #tgpu.slice<1, #tgpu.blocked<8, lanes 32, warps 4, 1>>>
tile.kernel @rows (%x: !tile.view<[?, 256], f16>, %y: !tile.view<[?], f32>)
    grid(%b = ceildiv(dim(x, 0), 8)) {
  %c8 = arith.constant 8 : i32
  %m = arith.muli %b, %c8 : i32
  %t = tile.load %x[%m, 0] : !tile.view<[?, 256], f16> -> tensor<8x256xf16>
  %f = tile.cast %t : tensor<8x256xf16> -> tensor<8x256xf32>
  %s = tile.reduce add %f dim 1 : tensor<8x256xf32> -> tensor<8xf32>
  tile.store %s, %y[%m] : tensor<8xf32>, !tile.view<[?], f32>
}

// A block loop: the derived function that computes the bounds is inlined. Full blocks have no mask; others are
// processed if tgpu.any finds a kept pair. The result of the first product becomes operand a of the second in
// registers. Both copies of the body use the same buffers.
// CHECK-LABEL: tgpu.kernel @blocks
// CHECK-COUNT-3: tgpu.alloc
// CHECK-NOT:     tgpu.alloc
// CHECK-NOT:     call @causal_ranges
// CHECK:         scf.for
// CHECK-NEXT:      tgpu.sync
// CHECK:           scf.if
// CHECK-NOT:         tile.select
// CHECK:             tgpu.convert {{.*}} : tensor<64x64xf16, #tgpu.mma<4, 1>> -> tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
// CHECK:           else
// CHECK:             %[[MASK:.*]] = tile.map @causal
// CHECK-NEXT:        %[[KEEP:.*]] = arith.andi %{{.*}}, %[[MASK]]
// CHECK:             %[[ANY:.*]] = tgpu.any %[[KEEP]]
// CHECK:             scf.if %[[ANY]]
// CHECK:               tile.select %[[KEEP]]
// CHECK:             else
// CHECK-NEXT:          scf.yield
func.func private @causal(%i: i32, %j: i32) -> i1 {
  %keep = arith.cmpi sle, %j, %i : i32
  return %keep : i1
}
func.func private @causal_ranges(%from: i32, %to: i32, %lower: i32, %upper: i32)
    -> (i32, i32, i32, i32, i1) {
  %loose = arith.constant false
  return %lower, %to, %lower, %from, %loose : i32, i32, i32, i32, i1
}
tile.kernel @blocks (%q: !tile.view<[?, 64], f16>, %k: !tile.view<[?, 64], f16>,
                     %v: !tile.view<[?, 64], f16>, %o: !tile.view<[?, 64], f32>)
    grid(%b = ceildiv(dim(q, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %m = arith.muli %b, %c64 : i32
  %rows = tile.dim %q, 0 : !tile.view<[?, 64], f16>
  %keys = tile.dim %k, 0 : !tile.view<[?, 64], f16>
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : tensor<64x64xf32>
  %x = tile.load %q[%m, 0] : !tile.view<[?, 64], f16> -> tensor<64x64xf16>
  %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %rows)
      where @causal(against, block) ranges @causal_ranges
      keep %keep : tensor<64x64xi1> iter_args(%old = %none : tensor<64x64xf32>) {
    %y = tile.load %k[%n, 0] : !tile.view<[?, 64], f16> -> tensor<64x64xf16>
    %z = tile.load %v[%n, 0] : !tile.view<[?, 64], f16> -> tensor<64x64xf16>
    %s = tile.dot %x, %y transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %t = tile.select %keep, %s, %none : tensor<64x64xi1>, tensor<64x64xf32>
    %p = tile.cast %t : tensor<64x64xf32> -> tensor<64x64xf16>
    %new = tile.dot %p, %z, %old : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    tile.yield %new : tensor<64x64xf32>
  }
  tile.store %sum, %o[%m, 0] : tensor<64x64xf32>, !tile.view<[?, 64], f32>
}

// Rows beyond the limit affect other rows, so a tile without rows processes no block. If the grid has no such tile,
// there is no check.
// CHECK-LABEL: tgpu.kernel @rows_in_every_tile
// CHECK-NOT:     arith.andi
// CHECK:         scf.for
// CHECK-LABEL: tgpu.kernel @tiles_without_rows
// CHECK:         arith.andi %{{.*}}, %{{.*}} : i1
// CHECK:         scf.for
tile.kernel @rows_in_every_tile (%q: !tile.view<[?, 64], f16>, %k: !tile.view<[?, 64], f16>, %o: !tile.view<[64], f32>)
    grid(%b = ceildiv(dim(q, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %m = arith.muli %b, %c64 : i32
  %rows = tile.dim %q, 0 : !tile.view<[?, 64], f16>
  %keys = tile.dim %k, 0 : !tile.view<[?, 64], f16>
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : tensor<64x64xf32>
  %x = tile.load %q[%m, 0] : !tile.view<[?, 64], f16> -> tensor<64x64xf16>
  %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %rows) keep %keep : tensor<64x64xi1>
      iter_args(%old = %none : tensor<64x64xf32>) {
    %y = tile.load %k[%n, 0] : !tile.view<[?, 64], f16> -> tensor<64x64xf16>
    %s = tile.dot %x, %y, %old transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    tile.yield %s : tensor<64x64xf32>
  }
  %columns = tile.reduce add %sum dim 0 : tensor<64x64xf32> -> tensor<64xf32>
  tile.store %columns, %o[0] : tensor<64xf32>, !tile.view<[64], f32>
}
tile.kernel @tiles_without_rows (%q: !tile.view<[?, 64], f16>, %k: !tile.view<[?, 64], f16>, %o: !tile.view<[64], f32>)
    grid(%b = 1 + ceildiv(dim(q, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %m = arith.muli %b, %c64 : i32
  %rows = tile.dim %q, 0 : !tile.view<[?, 64], f16>
  %keys = tile.dim %k, 0 : !tile.view<[?, 64], f16>
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : tensor<64x64xf32>
  %x = tile.load %q[%m, 0] : !tile.view<[?, 64], f16> -> tensor<64x64xf16>
  %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %rows) keep %keep : tensor<64x64xi1>
      iter_args(%old = %none : tensor<64x64xf32>) {
    %y = tile.load %k[%n, 0] : !tile.view<[?, 64], f16> -> tensor<64x64xf16>
    %s = tile.dot %x, %y, %old transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    tile.yield %s : tensor<64x64xf32>
  }
  %columns = tile.reduce add %sum dim 0 : tensor<64x64xf32> -> tensor<64xf32>
  tile.store %columns, %o[0] : tensor<64xf32>, !tile.view<[64], f32>
}

// f32 operands are read from shared memory; a computed operand is written there.
// CHECK-LABEL: tgpu.kernel @fma
// CHECK:         tgpu.write %{{.*}}, %[[P:.*]] : tensor<64x64xf32, #tgpu.mma<2, 2>>
// CHECK-NEXT:    tgpu.copy_wait pending 0
// CHECK-NEXT:    tgpu.sync
// CHECK:         tgpu.fma_dot %[[P]], %{{.*}} transpose_a,
tile.kernel @fma (%x: !tile.view<[?, ?], f32>, %y: !tile.view<[?, ?], f32>)
    grid(%b = ceildiv(dim(x, 0), 64)) {
  %a = tile.load %x[0, 0] : !tile.view<[?, ?], f32> -> tensor<64x64xf32>
  %e = math.exp2 %a : tensor<64x64xf32>
  %w = tile.load %x[0, 64] : !tile.view<[?, ?], f32> -> tensor<64x64xf32>
  %d = tile.dot %e, %w transpose_a : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %r = arith.addf %d, %e : tensor<64x64xf32>
  tile.store %r, %y[0, 0] : tensor<64x64xf32>, !tile.view<[?, ?], f32>
}

// A tile of rank 3 has the layout of a matrix: the reshape moves no elements. Indices have the layout of the rows that
// they select.
// CHECK-LABEL: tgpu.kernel @higher_rank
// CHECK:         %[[T:.*]] = tgpu.load %x[0, 0, 0] : {{.*}} -> tensor<4x8x16xf32, #[[L:.*]]>
// CHECK:         %[[M:.*]] = tile.reshape %[[T]] : tensor<4x8x16xf32, #[[L]]> -> tensor<32x16xf32, #[[L]]>
// CHECK:         tile.reduce add %[[M]] dim 1 : tensor<32x16xf32, #[[L]]> -> tensor<32xf32, #tgpu.slice<1, #[[L]]>>
// CHECK:         %[[AT:.*]] = tgpu.convert {{.*}} -> tensor<32xi32, #tgpu.slice<1, #[[F:.*]]>>
// CHECK:         tile.gather %z[0, 0] along 0 at %[[AT]] : {{.*}} -> tensor<32x16xf32, #[[F]]>
tile.kernel @higher_rank (%x: !tile.view<[?, ?, ?], f32>, %y: !tile.view<[?], f32>, %rows: !tile.view<[?], i32>,
                          %z: !tile.view<[?, ?], f32>) grid(%b = 1) {
  %t = tile.load %x[0, 0, 0] : !tile.view<[?, ?, ?], f32> -> tensor<4x8x16xf32>
  %m = tile.reshape %t : tensor<4x8x16xf32> -> tensor<32x16xf32>
  %s = tile.reduce add %m dim 1 : tensor<32x16xf32> -> tensor<32xf32>
  tile.store %s, %y[0] : tensor<32xf32>, !tile.view<[?], f32>
  %at = tile.load %rows[0] : !tile.view<[?], i32> -> tensor<32xi32>
  %g = tile.gather %z[0, 0] along 0 at %at : !tile.view<[?, ?], f32>, tensor<32xi32> -> tensor<32x16xf32>
  tile.store %g, %z[0, 0] : tensor<32x16xf32>, !tile.view<[?, ?], f32>
}

// 8-bit floats are multiplied as f16; two warps are used where four cannot divide the tile. An operand that a loop only
// reads is written once, before it.
// CHECK-LABEL: tgpu.kernel @float8 target "sm_80" warps 2
// CHECK:         tile.cast {{.*}} : tensor<16x32xf8E4M3FN, {{.*}} -> tensor<16x32xf16
// CHECK:         tgpu.write
// CHECK:         scf.for
// CHECK:           tgpu.mma {{.*}} -> tensor<16x16xf32, #tgpu.mma<1, 2>>
tile.kernel @float8 (%x: !tile.view<[?, ?], f8E4M3FN>, %y: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %a = tile.load %x[0, 0] : !tile.view<[?, ?], f8E4M3FN> -> tensor<16x32xf8E4M3FN>
  scf.for %i = %c0 to %n step %c16 : i32 {
    %k = tile.load %x[%i, 0] : !tile.view<[?, ?], f8E4M3FN> -> tensor<16x32xf8E4M3FN>
    %d = tile.dot %a, %k transpose_b : tensor<16x32xf8E4M3FN>, tensor<16x32xf8E4M3FN> -> tensor<16x16xf32>
    tile.store %d, %y[0, %i] : tensor<16x16xf32>, !tile.view<[?, ?], f32>
  }
}

//--- errors.mlir

// expected-error @+1 {{has tiles that are not bound; run tile-specialize first}}
tile.kernel @symbolic (%x: !tile.view<[?], f32>) grid(%b = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[32], f32>
  tile.store %t, %x[0] : !tile.tile<[32], f32>, !tile.view<[?], f32>
}

// -----

// expected-error @+1 {{has parameters that are not bound; run tile-specialize first}}
tile.kernel @unbound params(D: int) (%x: !tile.view<[?], f32>) grid(%b = D) {
}

// -----

tile.kernel @rank0 (%x: !tile.view<[?], f32>) grid(%b = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> tensor<16xf32>
  // expected-error @+1 {{'tile.reduce' has a tile of rank 0, which the CPU device alone computes; on a GPU a tile must have rank 1 or more, so reduce a tile [1, N], as tile.reshape makes it, to a tile [1]}}
  %s = tile.reduce add %t dim 0 : tensor<16xf32> -> tensor<f32>
}

// -----

tile.kernel @middle (%x: !tile.view<[?, ?, ?], f32>) grid(%b = 1) {
  %t = tile.load %x[0, 0, 0] : !tile.view<[?, ?, ?], f32> -> tensor<4x8x16xf32>
  // expected-error @+1 {{on a GPU a tile of rank 2 or more must be reduced along its first or last dimension, but got dimension 1 of 'tensor<4x8x16xf32>'}}
  %s = tile.reduce add %t dim 1 : tensor<4x8x16xf32> -> tensor<4x16xf32>
}

// -----

tile.kernel @gathered (%x: !tile.view<[?, ?, ?], f32>, %rows: !tile.view<[?], i32>) grid(%b = 1) {
  %at = tile.load %rows[0] : !tile.view<[?], i32> -> tensor<4xi32>
  // expected-error @+1 {{a gathered tile must have rank 1 or 2 on a GPU, but got 'tensor<4x8x16xf32>'}}
  %t = tile.gather %x[0, 0, 0] along 0 at %at : !tile.view<[?, ?, ?], f32>, tensor<4xi32> -> tensor<4x8x16xf32>
}

// -----

tile.kernel @scattered (%x: !tile.view<[?, ?, ?], f32>, %rows: !tile.view<[?], i32>) grid(%b = 1) {
  %at = tile.load %rows[0] : !tile.view<[?], i32> -> tensor<4xi32>
  %t = tile.load %x[0, 0, 0] : !tile.view<[?, ?, ?], f32> -> tensor<4x8x16xf32>
  // expected-error @+1 {{a scattered tile must have rank 1 or 2 on a GPU, but got 'tensor<4x8x16xf32>'}}
  tile.scatter_add %t, %x[0, 0, 0] along 0 at %at : tensor<4x8x16xf32>, !tile.view<[?, ?, ?], f32>, tensor<4xi32>
}

// -----

tile.kernel @inner_extent (%x: !tile.view<[?, ?], f16>) grid(%b = 1) {
  %t = tile.load %x[0, 0] : !tile.view<[?, ?], f16> -> tensor<64x24xf16>
  // expected-error @+1 {{inner extent of a product must be a multiple of 16, or end where the views of both operands end, but got 24}}
  %d = tile.dot %t, %t transpose_b : tensor<64x24xf16>, tensor<64x24xf16> -> tensor<64x64xf32>
}

// -----

tile.kernel @few_rows (%x: !tile.view<[?, ?], f16>) grid(%b = 1) {
  %t = tile.load %x[0, 0] : !tile.view<[?, ?], f16> -> tensor<8x64xf16>
  // expected-error @+1 {{a product of 'f16' by 1 warps needs a multiple of 16 rows and of 8 columns for each warp, but got 'tensor<8x8xf32>'; use larger blocks or fewer warps}}
  %d = tile.dot %t, %t transpose_b : tensor<8x64xf16>, tensor<8x64xf16> -> tensor<8x8xf32>
}

// -----

tile.kernel @large (%x: !tile.view<[?, ?], f32>) grid(%b = 1) {
  // expected-error @+1 {{a shared buffer must have at most 232448 bytes}}
  %t = tile.load %x[0, 0] : !tile.view<[?, ?], f32> -> tensor<512x128xf32>
  %d = tile.dot %t, %t transpose_b : tensor<512x128xf32>, tensor<512x128xf32> -> tensor<512x512xf32>
}
