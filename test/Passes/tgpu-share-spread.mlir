// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.spread that no role executes: a loop of all warps over the numbers of the block.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/shared.mlir --tgpu-share-spread | FileCheck %s
// RUN: tilewright-opt %t/shared.mlir --tgpu-share-spread --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null
// RUN: tilewright-opt %t/rejected.mlir -split-input-file -verify-diagnostics --tgpu-share-spread

//--- shared.mlir

!view = !tile.view<[?, ?], f32>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>

// The last id of the grid is the fastest.
// CHECK-LABEL: tgpu.kernel @in_two_dimensions
// CHECK:         %[[EXTENT0:.*]] = tgpu.grid_extent 0 : i32
// CHECK-NEXT:    %[[WIDE0:.*]] = arith.extsi %[[EXTENT0]] : i32 to i64
// CHECK-NEXT:    %[[I:.*]] = arith.extsi %i : i32 to i64
// CHECK-NEXT:    %[[EXTENT1:.*]] = tgpu.grid_extent 1 : i32
// CHECK-NEXT:    %[[WIDE1:.*]] = arith.extsi %[[EXTENT1]] : i32 to i64
// CHECK-NEXT:    %[[J:.*]] = arith.extsi %j : i32 to i64
// CHECK-NEXT:    %[[ROW:.*]] = arith.muli %[[I]], %[[WIDE1]] : i64
// CHECK-NEXT:    %[[BLOCK:.*]] = arith.addi %[[ROW]], %[[J]] : i64
// CHECK-NEXT:    %[[BLOCKS:.*]] = arith.muli %[[WIDE0]], %[[WIDE1]] : i64
// CHECK:         %[[NEAREST:.*]] = arith.minsi %[[BLOCK]], %{{.*}} : i64
// CHECK-NEXT:    %[[FIRST:.*]] = arith.trunci %[[NEAREST]] : i64 to i32
// CHECK:         %[[MOST:.*]] = arith.minsi %[[BLOCKS]], %{{.*}} : i64
// CHECK-NEXT:    %[[NARROW:.*]] = arith.trunci %[[MOST]] : i64 to i32
// CHECK-NEXT:    %[[STEP:.*]] = arith.maxsi %[[NARROW]], %{{.*}} : i32
// CHECK-NEXT:    scf.for %[[M:.*]] = %[[FIRST]] to %n step %[[STEP]] : i32 {
// CHECK-NEXT:      %[[TILE:.*]] = tgpu.load %o[%[[M]], 0]
// CHECK-NEXT:      tgpu.store %[[TILE]], %y[%[[M]], 0]
// CHECK-NEXT:    }
// CHECK-NOT:     tile.spread
tgpu.kernel @in_two_dimensions target "sm_80" warps 4 (%o: !view, %y: !view, %n: i32) grid(%i = dim(o, 0), %j = 3) {
  tile.spread %m to %n {
    %0 = tgpu.load %o[%m, 0] : !view -> !t
    tgpu.store %0, %y[%m, 0] : !t, !view
  }
}

//--- rejected.mlir

!view = !tile.view<[?, ?], f32>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @without_roles target "sm_90a" warps 4 (%o: !view, %y: !view, %turns: !tile.view<[?], i32>, %n: i32) grid(%i = 1) {
  // expected-error @+1 {{'tile.spread' op with tile.await requires a separate role, but got a kernel without products by wgmma, which has no roles; use a separate kernel}}
  tile.spread %m to %n {
    tile.await %n of %turns[%m] : !tile.view<[?], i32>
    %0 = tgpu.load %o[%m, 0] : !view -> !t
    tgpu.store %0, %y[%m, 0] : !t, !view
  }
}

// -----

!view = !tile.view<[?, ?], f32>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @older_target target "sm_80" warps 4 (%o: !view, %y: !view, %turns: !tile.view<[?], i32>, %n: i32) grid(%i = 1) {
  // expected-error @+1 {{'tile.spread' op with tile.await requires a separate role, on sm_90a, but got sm_80; use such a target, or a separate kernel}}
  tile.spread %m to %n {
    tile.await %n of %turns[%m] : !tile.view<[?], i32>
    %0 = tgpu.load %o[%m, 0] : !view -> !t
    tgpu.store %0, %y[%m, 0] : !t, !view
  }
}

// -----

!view = !tile.view<[?, ?], f32>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
!x = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @without_schedule target "sm_90a" warps 4 (%a: !tile.view<[?, ?], bf16>, %o: !view, %y: !view, %turns: !tile.view<[?], i32>, %n: i32) grid(%i = 1) {
  %b = tgpu.alloc : !x
  %p = tgpu.wgmma %b, %b transpose_b : !x, !x -> !acc
  tgpu.wgmma_commit
  %new = tgpu.wgmma_wait pending 0, %p : !acc
  // expected-error @+1 {{'tile.spread' op with tile.await requires a separate role, but got a kernel without roles; use blocks for which it has them (--report names what prevents them), or a separate kernel}}
  tile.spread %m to %n {
    tile.await %n of %turns[%m] : !tile.view<[?], i32>
    %0 = tgpu.load %o[%m, 0] : !view -> !t
    tgpu.store %0, %y[%m, 0] : !t, !view
  }
}

// -----

!view = !tile.view<[?, ?], f32>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @in_branch target "sm_90a" warps 4 (%o: !view, %y: !view, %n: i32, %flag: i1) grid(%i = 1) {
  scf.if %flag {
    // expected-error @+1 {{'tile.spread' op requires all blocks, which do not have the 'scf.if' around it; move it to the body of the kernel, or use a separate kernel}}
    tile.spread %m to %n {
      %0 = tgpu.load %o[%m, 0] : !view -> !t
      tgpu.store %0, %y[%m, 0] : !t, !view
    }
  }
}
