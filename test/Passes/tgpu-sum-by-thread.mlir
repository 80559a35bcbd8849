// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-sum-by-thread --split-input-file | FileCheck %s

!row = tensor<64xf32, #tgpu.slice<1, #tgpu.wgmma<1>>>
!s = tensor<64x32xf32, #tgpu.wgmma<1>>

// The recurrence of a softmax. The maximum does not change, nor does the initial row, which is no longer used.
// CHECK-LABEL: tgpu.kernel @recurrence
// CHECK: %[[NONE:.*]] = tile.full %{{.*}} : tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.wgmma<1>>>
// CHECK: %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[MAX:.*]] = %{{.*}}, %[[OLD:.*]] = %[[NONE]])
// CHECK: %[[BLOCK:.*]] = tgpu.thread_sum %{{.*}} dim 1 : {{.*}} -> tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.wgmma<1>>>
// CHECK: %[[FACTOR:.*]] = tile.expand %{{.*}} dim 1 : {{.*}} -> tensor<64x4xf32, #tgpu.by_thread
// CHECK: %[[KEPT:.*]] = arith.mulf %[[OLD]], %[[FACTOR]] fastmath<reassoc>
// CHECK: %[[NEW:.*]] = arith.addf %[[KEPT]], %[[BLOCK]] fastmath<reassoc>
// CHECK: scf.yield %{{.*}}, %[[NEW]]
// CHECK: tile.reduce add %[[R]]#1 dim 1 : tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.wgmma<1>>> -> tensor<64xf32
tgpu.kernel @recurrence target "sm_90a" warps 4 (%x: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !row
  %tile = tile.full %zero : !s
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%max = %none, %old = %none) -> (!row, !row) : i32 {
    %most = tile.reduce max %tile dim 1 : !s -> !row
    %new_max = arith.maximumf %max, %most : !row
    %fall = arith.subf %max, %new_max : !row
    %factor = math.exp2 %fall : !row
    %block = tile.reduce add %tile dim 1 : !s -> !row
    %kept = arith.mulf %old, %factor fastmath<reassoc> : !row
    %new = arith.addf %kept, %block fastmath<reassoc> : !row
    scf.yield %new_max, %new : !row, !row
  }
  %both = arith.addf %r#0, %r#1 : !row
  %wide = tile.expand %both dim 1 : !row -> !s
  tgpu.store %wide, %x[0, 0] : !s, !tile.view<[?, ?], f32>
}

// -----

!row = tensor<64xf32, #tgpu.slice<1, #tgpu.wgmma<1>>>
!s = tensor<64x32xf32, #tgpu.wgmma<1>>

// A branch that adds a block or nothing, and no factor.
// CHECK-LABEL: tgpu.kernel @branch
// CHECK: %[[SUM:.*]] = scf.for {{.*}} iter_args(%[[OLD:.*]] = %{{.*}})
// CHECK: %[[EITHER:.*]] = scf.if %{{.*}} -> (tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.wgmma<1>>>)
// CHECK: %[[BLOCK:.*]] = tgpu.thread_sum
// CHECK: arith.addf %[[BLOCK]], %[[OLD]] fastmath<reassoc>
// CHECK: } else {
// CHECK: scf.yield %[[OLD]]
// CHECK: scf.yield %[[EITHER]]
// CHECK: tile.reduce add %[[SUM]] dim 1
tgpu.kernel @branch target "sm_90a" warps 4 (%x: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !row
  %tile = tile.full %zero : !s
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%old = %none) -> (!row) : i32 {
    %some = arith.cmpi sgt, %i, %c1 : i32
    %new = scf.if %some -> (!row) {
      %block = tile.reduce add %tile dim 1 : !s -> !row
      %sum = arith.addf %block, %old fastmath<reassoc> : !row
      scf.yield %sum : !row
    } else {
      scf.yield %old : !row
    }
    scf.yield %new : !row
  }
  %wide = tile.expand %r dim 1 : !row -> !s
  tgpu.store %wide, %x[0, 0] : !s, !tile.view<[?, ?], f32>
}

// -----

!row = tensor<64xf32, #tgpu.slice<1, #tgpu.wgmma<1>>>
!s = tensor<64x32xf32, #tgpu.wgmma<1>>

// Unchanged: sums that may not be reassociated, that do not start at zero, or that an iteration reads, and a maximum.
// CHECK-LABEL: tgpu.kernel @others
// CHECK-NOT: by_thread
tgpu.kernel @others target "sm_90a" warps 4 (%x: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %none = tile.full %zero : !row
  %ones = tile.full %one : !row
  %tile = tile.full %zero : !s
  %r:4 = scf.for %i = %c0 to %n step %c1 iter_args(%exact = %none, %some = %ones, %read = %none, %max = %none)
      -> (!row, !row, !row, !row) : i32 {
    %a = tile.reduce add %tile dim 1 : !s -> !row
    %exact_new = arith.addf %exact, %a : !row
    %b_ = tile.reduce add %tile dim 1 : !s -> !row
    %some_new = arith.addf %some, %b_ fastmath<reassoc> : !row
    %c = tile.reduce add %tile dim 1 : !s -> !row
    %read_new = arith.addf %read, %c fastmath<reassoc> : !row
    %m = tile.reduce max %tile dim 1 : !s -> !row
    %max_new = arith.maximumf %max, %read_new : !row
    scf.yield %exact_new, %some_new, %read_new, %max_new : !row, !row, !row, !row
  }
  %ab = arith.addf %r#0, %r#1 : !row
  %cd = arith.addf %r#2, %r#3 : !row
  %all = arith.addf %ab, %cd : !row
  %wide = tile.expand %all dim 1 : !row -> !s
  tgpu.store %wide, %x[0, 0] : !s, !tile.view<[?, ?], f32>
}
