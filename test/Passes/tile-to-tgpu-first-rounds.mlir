// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A causal loop whose tiles have more rows than its blocks have columns, from the last block to the first: each
// warpgroup has a first iteration, if iterations in which a row keeps nothing do not change the row. Targets without
// roles have none.
//
// RUN: tilewright-opt %s --tile-to-tgpu='target=sm_90a warps=8' --canonicalize | FileCheck %s
// RUN: tilewright-opt %s --tile-to-tgpu='target=sm_80 warps=8' --canonicalize | FileCheck %s --check-prefix=OLDER

!x = !tile.view<[?, 64], f16>
!out = !tile.view<[?, 64], f32>
!t = tensor<128x64xf16>
!n = tensor<64x64xf16>
!s = tensor<128x64xf32>
!keep = tensor<128x64xi1>
!row = tensor<128xf32>

func.func private @causal(%i: i32, %j: i32) -> i1 {
  %keep = arith.cmpi sle, %j, %i : i32
  return %keep : i1
}
func.func private @causal_ranges(%from: i32, %to: i32, %lower: i32, %upper: i32) -> (i32, i32, i32, i32, i1) {
  %c1 = arith.constant 1 : i32
  %whole = arith.addi %from, %c1 : i32
  %tight = arith.constant true
  return %lower, %to, %lower, %whole, %tight : i32, i32, i32, i32, i1
}
func.func private @half(%p: f32) -> f32 {
  %h = arith.constant 0.5 : f32
  %y = arith.mulf %p, %h : f32
  return %y : f32
}

// The rows of the first group end 64 positions before those of the second.
// CHECK-LABEL: tgpu.kernel @softmax
// CHECK:         %[[ROWS:.*]] = arith.minsi %{{.*}}, %c128_i32
// CHECK:         %[[FEWER:.*]] = arith.minsi %[[ROWS]], %c64_i32
// CHECK:         %[[END:.*]] = arith.addi %{{.*}}, %[[FEWER]]
// CHECK:         arith.minsi %[[END]], %{{.*}} : i32
// CHECK:         %[[HAS:.*]] = arith.cmpi sgt, %[[ROWS]], %c64_i32
// CHECK:         %[[SECOND:.*]] = arith.select %[[HAS]], %{{.*}}, %[[ROUNDS:.*]] : i32
// CHECK:         %[[FIRST:.*]] = tgpu.first_round %c0_i32 of %{{.*}}, %[[SECOND]]
// CHECK:         scf.for %{{.*}} = %[[FIRST]] to %[[ROUNDS]]
// OLDER-NOT:   tgpu.first_round
tile.kernel @softmax require(dim(o, 0) == dim(q, 0)) (%q: !x, %k: !x, %o: !out) grid(%b = ceildiv(dim(q, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %b, %c128 : i32
  %rows = tile.dim %q, 0 : !x
  %keys = tile.dim %k, 0 : !x
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.4028234663852886e38 : f32
  %infinite = arith.constant 0xFF800000 : f32
  %outside = tile.full %infinite : !s
  %no_max = tile.full %lowest : !row
  %no_sum = tile.full %zero : !row
  %no_o = tile.full %zero : !s
  %x = tile.load %q[%m, 0] : !x -> !t
  %r:3 = tile.for_blocks %n in (%c0 to %keys) against (%m to %rows) descending
      where @causal(against, block) ranges @causal_ranges
      keep %keep : !keep iter_args(%max = %no_max : !row, %sum = %no_sum : !row, %acc = %no_o : !s) {
    %y = tile.load %k[%n, 0] : !x -> !n
    %s = tile.dot %x, %y transpose_b : !t, !n -> !s
    %t = tile.select %keep, %s, %outside : !keep, !s
    %most = tile.reduce max %t dim 1 : !s -> !row
    %all = arith.maximumf %max, %most : !row
    %each = tile.expand %all dim 1 : !row -> !s
    %below = arith.subf %t, %each : !s
    %p = math.exp2 %below : !s
    %fall = arith.subf %max, %all : !row
    %factor = math.exp2 %fall : !row
    %more = tile.reduce add %p dim 1 : !s -> !row
    %kept = arith.mulf %sum, %factor : !row
    %total = arith.addf %kept, %more : !row
    %factors = tile.expand %factor dim 1 : !row -> !s
    %old = arith.mulf %acc, %factors : !s
    %w = tile.map @half(%p) : (!s) -> !s
    %p16 = tile.cast %w : !s -> tensor<128x64xf16>
    %new = tile.dot %p16, %y, %old : tensor<128x64xf16>, !n -> !s
    tile.yield %all, %total, %new : !row, !row, !s
  }
  tile.store %r#2, %o[%m, 0] : !s, !out
}

// Each iteration adds one to a value of the row, even if the row keeps no pair.
// CHECK-LABEL: tgpu.kernel @counts
// CHECK-NOT:     tgpu.first_round
tile.kernel @counts require(dim(o, 0) == dim(q, 0)) (%q: !x, %k: !x, %o: !out) grid(%b = ceildiv(dim(q, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %b, %c128 : i32
  %rows = tile.dim %q, 0 : !x
  %keys = tile.dim %k, 0 : !x
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %nothing = tile.full %zero : !s
  %ones = tile.full %one : !s
  %x = tile.load %q[%m, 0] : !x -> !t
  %r = tile.for_blocks %n in (%c0 to %keys) against (%m to %rows) descending
      where @causal(against, block) ranges @causal_ranges
      keep %keep : !keep iter_args(%acc = %nothing : !s) {
    %y = tile.load %k[%n, 0] : !x -> !n
    %s = tile.dot %x, %y transpose_b : !t, !n -> !s
    %t = tile.select %keep, %s, %nothing : !keep, !s
    %p16 = tile.cast %t : !s -> tensor<128x64xf16>
    %more = arith.addf %acc, %ones : !s
    %new = tile.dot %p16, %y, %more : tensor<128x64xf16>, !n -> !s
    tile.yield %new : !s
  }
  tile.store %r, %o[%m, 0] : !s, !out
}

// A sum that each iteration rounds.
// CHECK-LABEL: tgpu.kernel @rounds
// CHECK-NOT:     tgpu.first_round
tile.kernel @rounds require(dim(o, 0) == dim(q, 0)) (%q: !x, %k: !x, %o: !out) grid(%b = ceildiv(dim(q, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %b, %c128 : i32
  %rows = tile.dim %q, 0 : !x
  %keys = tile.dim %k, 0 : !x
  %zero = arith.constant 0.0 : f32
  %nothing = tile.full %zero : !s
  %x = tile.load %q[%m, 0] : !x -> !t
  %r = tile.for_blocks %n in (%c0 to %keys) against (%m to %rows) descending
      where @causal(against, block) ranges @causal_ranges
      keep %keep : !keep iter_args(%acc = %nothing : !s) {
    %y = tile.load %k[%n, 0] : !x -> !n
    %s = tile.dot %x, %y transpose_b : !t, !n -> !s
    %t = tile.select %keep, %s, %nothing : !keep, !s
    %narrow = tile.cast %acc : !s -> tensor<128x64xf16>
    %wide = tile.cast %narrow : tensor<128x64xf16> -> !s
    %p16 = tile.cast %t : !s -> tensor<128x64xf16>
    %new = tile.dot %p16, %y, %wide : tensor<128x64xf16>, !n -> !s
    tile.yield %new : !s
  }
  tile.store %r, %o[%m, 0] : !s, !out
}

// The results of one call of the function do not hold for the next.
// CHECK-LABEL: tgpu.kernel @calls
// CHECK-NOT:     tgpu.first_round
func.func private @chosen(%x: f32, %w: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %large = arith.cmpf ogt, %w, %one : f32
  %larger = arith.cmpf ogt, %w, %two : f32
  %y = scf.if %large -> (f32) {
    %z = scf.if %larger -> (f32) {
      %a = arith.mulf %x, %two : f32
      scf.yield %a : f32
    } else {
      %a = arith.mulf %w, %two : f32
      scf.yield %a : f32
    }
    scf.yield %z : f32
  } else {
    %a = arith.mulf %w, %two : f32
    scf.yield %a : f32
  }
  return %y : f32
}
tile.kernel @calls require(dim(o, 0) == dim(q, 0)) (%q: !x, %k: !x, %o: !out) grid(%b = ceildiv(dim(q, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %b, %c128 : i32
  %rows = tile.dim %q, 0 : !x
  %keys = tile.dim %k, 0 : !x
  %zero = arith.constant 0.0 : f32
  %nothing = tile.full %zero : !s
  %x = tile.load %q[%m, 0] : !x -> !t
  %r = tile.for_blocks %n in (%c0 to %keys) against (%m to %rows) descending
      where @causal(against, block) ranges @causal_ranges
      keep %keep : !keep iter_args(%acc = %nothing : !s) {
    %y = tile.load %k[%n, 0] : !x -> !n
    %s = tile.dot %x, %y transpose_b : !t, !n -> !s
    %t = tile.select %keep, %s, %nothing : !keep, !s
    %first = tile.map @chosen(%t, %t) : (!s, !s) -> !s
    %second = tile.map @chosen(%s, %t) : (!s, !s) -> !s
    %both = arith.addf %first, %second : !s
    %new = arith.addf %acc, %both : !s
    tile.yield %new : !s
  }
  tile.store %r, %o[%m, 0] : !s, !out
}
