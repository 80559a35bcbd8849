// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-skip-ones -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: tilewrightc %t.mlir --target=sm_90a --emit=ptx | FileCheck %s --check-prefix=PTX

!row = tensor<64xf32, #tgpu.slice<1, #tgpu.wgmma<1>>>
!flags = tensor<64xi1, #tgpu.slice<1, #tgpu.wgmma<1>>>
!s = tensor<64x32xf32, #tgpu.wgmma<1>>

// A lagging maximum: the factor is one for rows that keep it. The sum becomes the first operand.
// CHECK-LABEL: tgpu.kernel @lagging
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %{{.*}})
// CHECK: %[[FACTORS:.*]] = tile.expand
// CHECK: arith.mulf %[[SUM]], %[[FACTORS]] {tgpu.skip_ones}
//
// A thread has two rows. All lanes take the same branch, whose products are consecutive.
// PTX-LABEL: .entry lagging(
// PTX: setp.neu.f32 %[[A:.*]], %{{.*}}, 0f3F800000;
// PTX: setp.neu.f32 %[[B:.*]], %{{.*}}, 0f3F800000;
// PTX: or.pred %[[ANY:.*]], %[[A]], %[[B]];
// PTX: vote.sync.any.pred
// PTX: bra
// PTX-COUNT-16: mul.rn.f32
// PTX-NOT: mul.rn.f32
// PTX-LABEL: .entry exact(
// PTX-NOT: vote.sync
// PTX: ret;
tgpu.kernel @lagging target "sm_90a" warps 4 (%x: !tile.view<[64, 32], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %eight = arith.constant 8.0 : f32
  %eights = tile.full %eight : !row
  %none = tile.full %zero : !row
  %no_sum = tile.full %zero : !s
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%max = %none, %sum = %no_sum) -> (!row, !s) : i32 {
    %tile = tgpu.load %x[%i, 0] : !tile.view<[64, 32], f32> -> !s
    %most = tile.reduce max %tile dim 1 : !s -> !row
    %allowed = arith.addf %max, %eights : !row
    %exceeds = arith.cmpf ogt, %most, %allowed : !row
    %new_max = tile.select %exceeds, %most, %max : !flags, !row
    %fall = arith.subf %max, %new_max : !row
    %factor = math.exp2 %fall : !row
    %factors = tile.expand %factor dim 1 : !row -> !s
    %kept = arith.mulf %factors, %sum : !s
    %new_sum = arith.addf %kept, %tile : !s
    scf.yield %new_max, %new_sum : !row, !s
  }
  tgpu.store %r#1, %x[0, 0] : !s, !tile.view<[64, 32], f32>
}

// A maximum that is always raised, and a tile that no loop carries.
// CHECK-LABEL: tgpu.kernel @exact
// CHECK-NOT: tgpu.skip_ones
tgpu.kernel @exact target "sm_90a" warps 4 (%x: !tile.view<[64, 32], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !row
  %no_sum = tile.full %zero : !s
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%max = %none, %sum = %no_sum) -> (!row, !s) : i32 {
    %tile = tgpu.load %x[%i, 0] : !tile.view<[64, 32], f32> -> !s
    %most = tile.reduce max %tile dim 1 : !s -> !row
    %new_max = arith.maximumf %max, %most : !row
    %fall = arith.subf %max, %new_max : !row
    %factor = math.exp2 %fall : !row
    %factors = tile.expand %factor dim 1 : !row -> !s
    %kept = arith.mulf %sum, %factors : !s
    %exceeds = arith.cmpf ogt, %most, %max : !row
    %lagging = tile.select %exceeds, %most, %max : !flags, !row
    %less = arith.subf %max, %lagging : !row
    %other = math.exp2 %less : !row
    %others = tile.expand %other dim 1 : !row -> !s
    %scaled = arith.mulf %tile, %others : !s
    %new_sum = arith.addf %kept, %scaled : !s
    scf.yield %new_max, %new_sum : !row, !s
  }
  tgpu.store %r#1, %x[0, 0] : !s, !tile.view<[64, 32], f32>
}
