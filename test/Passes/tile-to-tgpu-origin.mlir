// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On targets with roles, blocks begin where the mask begins, if memory determines that: then the first block is full.
// Not if the body depends on the alignment of blocks, or writes.
//
// RUN: tilewright-opt %s --tile-to-tgpu='target=sm_90a warps=8' --canonicalize | FileCheck %s
// RUN: tilewright-opt %s --tile-to-tgpu='target=sm_80 warps=8' --canonicalize | FileCheck %s --check-prefix=AT-ZERO

!x = !tile.view<[?, 64], f16>
!out = !tile.view<[?, 64], f32>
!t = tensor<128x64xf16>
!s = tensor<128x128xf32>
!pos = tensor<128x128xi32>
!o = tensor<128x64xf32>

tile.capture @begins {tile.ascending} : !tile.view<[?], i32>
tile.capture @bias : !tile.view<[?, ?], f32>

func.func private @inside(%i: i32, %j: i32) -> i1 {
  %begin = tile.at @begins[%i] : i32
  %keep = arith.cmpi sle, %begin, %j : i32
  return %keep : i1
}
func.func private @inside_ranges(%from: i32, %to: i32, %lower: i32, %upper: i32) -> (i32, i32, i32, i32, i1) {
  %c1 = arith.constant 1 : i32
  %last = arith.subi %to, %c1 : i32
  %first = tile.at @begins[%from] : i32
  %most = tile.at @begins[%last] : i32
  %tight = arith.constant true
  return %first, %upper, %most, %upper, %tight : i32, i32, i32, i32, i1
}

func.func private @penalty(%s: f32, %j: i32) -> f32 {
  %x = arith.sitofp %j : i32 to f32
  %y = arith.subf %s, %x : f32
  return %y : f32
}
func.func private @biased(%s: f32, %j: i32) -> f32 {
  %x = tile.at @bias[%j, %j] : f32
  %y = arith.addf %s, %x : f32
  return %y : f32
}
func.func private @drawn(%s: f32, %j: i32) -> f32 {
  %seed = arith.constant 1 : i64
  %bits = tile.random %seed, %seed at (%j, %j, %j) : i32
  %x = arith.sitofp %bits : i32 to f32
  %y = arith.addf %s, %x : f32
  return %y : f32
}
func.func private @called(%s: f32, %j: i32) -> f32 {
  %y = func.call @drawn(%s, %j) : (f32, i32) -> f32
  return %y : f32
}

// The number of blocks, and of full blocks, from the first key of the first row.
// CHECK-LABEL: tgpu.kernel @rows
// CHECK:         %[[FIRST:.*]] = tile.at @begins[%{{.*}}] : i32
// CHECK:         %[[MOST:.*]] = tile.at @begins[%{{.*}}] : i32
// CHECK:         %[[INSIDE:.*]] = arith.maxsi %[[FIRST]], %c0
// CHECK:         %[[ORIGIN:.*]] = arith.minsi %[[INSIDE]], %[[KEYS:.*]] : i32
// CHECK:         arith.subi %[[KEYS]], %[[ORIGIN]] : i32
// CHECK:         scf.for %[[N:[a-z0-9]+]] = %c0_i32 to
// CHECK:           %[[OFFSET:.*]] = arith.muli %[[N]], %c128
// CHECK-NEXT:      %[[BEGIN:.*]] = arith.addi %[[ORIGIN]], %[[OFFSET]] : i32
// CHECK:           tgpu.copy_async %{{.*}}[%[[BEGIN]], 0]
// AT-ZERO-LABEL: tgpu.kernel @rows
// AT-ZERO:         scf.for %[[N:[a-z0-9]+]] = %{{[0-9]+}} to
// AT-ZERO:         %[[OFFSET:.*]] = arith.muli %[[N]], %c128
// AT-ZERO:         tgpu.copy_async %{{.*}}[%[[OFFSET]], 0]
tile.kernel @rows (%q: !x, %k: !x, %o: !out) grid(%b = ceildiv(dim(q, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %b, %c128 : i32
  %rows = tile.dim %q, 0 : !x
  %keys = tile.dim %k, 0 : !x
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !s
  %no_sum = tile.full %zero : !o
  %x = tile.load %q[%m, 0] : !x -> !t
  %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %rows)
      where @inside(against, block) ranges @inside_ranges
      keep %keep : tensor<128x128xi1> iter_args(%old = %no_sum : !o) {
    %y = tile.load %k[%n, 0] : !x -> !t
    %s = tile.dot %x, %y transpose_b : !t, !t -> !s
    %columns = tile.iota %n dim 1 : !pos
    %far = tile.map @penalty(%s, %columns) : (!s, !pos) -> !s
    %t = tile.select %keep, %far, %none : tensor<128x128xi1>, !s
    %p = tile.cast %t : !s -> tensor<128x128xf16>
    %new = tile.dot %p, %y, %old : tensor<128x128xf16>, !t -> !o
    tile.yield %new : !o
  }
  tile.store %sum, %o[%m, 0] : !o, !out
}

// Columns are read as vectors if they begin at multiples.
// CHECK-LABEL: tgpu.kernel @columns
// CHECK:         scf.for %[[N:[a-z0-9]+]] = %{{[0-9]+}} to
// CHECK:           %[[OFFSET:.*]] = arith.muli %[[N]], %c128
// CHECK:           tgpu.copy_async %{{.*}}[0, %[[OFFSET]]]
tile.kernel @columns (%q: !x, %k: !tile.view<[64, ?], f16>, %o: !out) grid(%b = ceildiv(dim(q, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %b, %c128 : i32
  %rows = tile.dim %q, 0 : !x
  %keys = tile.dim %k, 1 : !tile.view<[64, ?], f16>
  %zero = arith.constant 0.0 : f32
  %no_sum = tile.full %zero : !o
  %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %rows)
      where @inside(against, block) ranges @inside_ranges
      keep %keep : tensor<128x128xi1> iter_args(%old = %no_sum : !o) {
    %y = tile.load %k[0, %n] : !tile.view<[64, ?], f16> -> tensor<64x128xf16>
    %1 = arith.constant 1.0 : f16
    %0 = arith.constant 0.0 : f16
    %one = tile.full %1 : tensor<128x128xf16>
    %none = tile.full %0 : tensor<128x128xf16>
    %p = tile.select %keep, %one, %none : tensor<128x128xi1>, tensor<128x128xf16>
    %new = tile.dot %p, %y, %old transpose_b : tensor<128x128xf16>, tensor<64x128xf16> -> !o
    tile.yield %new : !o
  }
  tile.store %sum, %o[%m, 0] : !o, !out
}

// A box of pages begins at rows that lie together.
// CHECK-LABEL: tgpu.kernel @pages
// CHECK:         scf.for %[[N:[a-z0-9]+]] = %{{[0-9]+}} to
// CHECK:           %[[OFFSET:.*]] = arith.muli %[[N]], %c128
// CHECK:           tgpu.copy_async %{{.*}}[%[[OFFSET]], 0]
tile.kernel @pages (%q: !x, %pool: !tile.view<[?, ?, 64], f16>, %table: !tile.view<[?], i32>, %keys: i32, %o: !out)
    grid(%b = ceildiv(dim(q, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %b, %c128 : i32
  %rows = tile.dim %q, 0 : !x
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !s
  %no_sum = tile.full %zero : !o
  %k = tile.paged %pool page %c0 by %table[] each 16 size %keys
      : !tile.view<[?, ?, 64], f16>, !tile.view<[?], i32> -> !x
  %x = tile.load %q[%m, 0] : !x -> !t
  %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %rows)
      where @inside(against, block) ranges @inside_ranges
      keep %keep : tensor<128x128xi1> iter_args(%old = %no_sum : !o) {
    %y = tile.load %k[%n, 0] : !x -> !t
    %s = tile.dot %x, %y transpose_b : !t, !t -> !s
    %t = tile.select %keep, %s, %none : tensor<128x128xi1>, !s
    %p = tile.cast %t : !s -> tensor<128x128xf16>
    %new = tile.dot %p, %y, %old : tensor<128x128xf16>, !t -> !o
    tile.yield %new : !o
  }
  tile.store %sum, %o[%m, 0] : !o, !out
}

// Reads or random numbers at a position, in a function with another caller.
// CHECK-LABEL: tgpu.kernel @reads
// CHECK:         scf.for %[[N:[a-z0-9]+]] = %{{[0-9]+}} to
// CHECK:           %[[OFFSET:.*]] = arith.muli %[[N]], %c128
// CHECK:           tgpu.copy_async %{{.*}}[%[[OFFSET]], 0]
tile.kernel @reads (%k: !x, %o: !out) grid(%b = ceildiv(dim(k, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %b, %c128 : i32
  %keys = tile.dim %k, 0 : !x
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !s
  %no_sum = tile.full %zero : !o
  %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %keys)
      where @inside(against, block) ranges @inside_ranges
      keep %keep : tensor<128x128xi1> iter_args(%old = %no_sum : !o) {
    %y = tile.load %k[%n, 0] : !x -> !t
    %columns = tile.iota %n dim 1 : !pos
    %s = tile.map @biased(%none, %columns) : (!s, !pos) -> !s
    %t = tile.select %keep, %s, %none : tensor<128x128xi1>, !s
    %p = tile.cast %t : !s -> tensor<128x128xf16>
    %new = tile.dot %p, %y, %old : tensor<128x128xf16>, !t -> !o
    tile.yield %new : !o
  }
  tile.store %sum, %o[%m, 0] : !o, !out
}

// CHECK-LABEL: tgpu.kernel @draws
// CHECK:         scf.for %[[N:[a-z0-9]+]] = %{{[0-9]+}} to
// CHECK:           %[[OFFSET:.*]] = arith.muli %[[N]], %c128
// CHECK:           tgpu.copy_async %{{.*}}[%[[OFFSET]], 0]
tile.kernel @draws (%k: !x, %o: !out) grid(%b = ceildiv(dim(k, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %b, %c128 : i32
  %keys = tile.dim %k, 0 : !x
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !s
  %no_sum = tile.full %zero : !o
  %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %keys)
      where @inside(against, block) ranges @inside_ranges
      keep %keep : tensor<128x128xi1> iter_args(%old = %no_sum : !o) {
    %y = tile.load %k[%n, 0] : !x -> !t
    %columns = tile.iota %n dim 1 : !pos
    %s = tile.map @called(%none, %columns) : (!s, !pos) -> !s
    %t = tile.select %keep, %s, %none : tensor<128x128xi1>, !s
    %p = tile.cast %t : !s -> tensor<128x128xf16>
    %new = tile.dot %p, %y, %old : tensor<128x128xf16>, !t -> !o
    tile.yield %new : !o
  }
  tile.store %sum, %o[%m, 0] : !o, !out
}

// CHECK-LABEL: tgpu.kernel @writes
// CHECK:         scf.for %[[N:[a-z0-9]+]] = %{{[0-9]+}} to
// CHECK:           %[[OFFSET:.*]] = arith.muli %[[N]], %c128
// CHECK:           tgpu.store %{{.*}}, %{{.*}}[%[[OFFSET]], 0]
tile.kernel @writes (%k: !x, %o: !out) grid(%b = ceildiv(dim(k, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %b, %c128 : i32
  %keys = tile.dim %k, 0 : !x
  tile.for_blocks %n in (%c0 to %keys) against (%m to %keys)
      where @inside(against, block) ranges @inside_ranges keep %keep : tensor<128x128xi1> {
    %1 = arith.constant 1.0 : f16
    %0 = arith.constant 0.0 : f16
    %one = tile.full %1 : tensor<128x128xf16>
    %none = tile.full %0 : tensor<128x128xf16>
    %y = tile.load %k[%n, 0] : !x -> !t
    %p = tile.select %keep, %one, %none : tensor<128x128xi1>, tensor<128x128xf16>
    %z = tile.dot %p, %y : tensor<128x128xf16>, !t -> !o
    tile.store %z, %o[%n, 0] : !o, !out
    tile.yield
  }
}
