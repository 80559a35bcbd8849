// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Warps that exchange elements synchronize at a barrier for exactly those warps: outside roles at the barrier of the
// block, inside a role at one with an unused number.
// RUN: tilewright-opt %s --convert-tgpu-to-nvvm -split-input-file -verify-diagnostics | FileCheck %s

#acc = #tgpu.mma<2, 1>
!t = tensor<32x8xf32, #acc>
!row = tensor<8xf32, #tgpu.slice<0, #acc>>

// CHECK-LABEL: llvm.func @block
// CHECK-COUNT-2: nvvm.barrier.cta.sync.aligned.all
tgpu.kernel @block target "sm_80" warps 2 (%s: f32) grid(%i = 1) {
  %t = tile.full %s : !t
  %r = tile.reduce add %t dim 0 : !t -> !row
}

// -----

#acc = #tgpu.mma<2, 1>
!t = tensor<32x8xf32, #acc>
!row = tensor<8xf32, #tgpu.slice<0, #acc>>

// Barriers 1 and 2 are used; this one has 64 threads.
// CHECK-LABEL: llvm.func @role
// CHECK-DAG:     %[[ID:.*]] = llvm.mlir.constant(3 : i32)
// CHECK-DAG:     %[[THREADS:.*]] = llvm.mlir.constant(64 : i32)
// CHECK-NOT:     sync.aligned.all
// CHECK:         "llvm.nvvm.barrier.cta.sync.aligned.count"(%[[ID]], %[[THREADS]])
// CHECK:         "llvm.nvvm.barrier.cta.sync.aligned.count"(%[[ID]], %[[THREADS]])
// CHECK-NOT:     sync.aligned.all
tgpu.kernel @role target "sm_90a" warps 3 (%s: f32) grid(%i = 1) {
  %x = tgpu.named_barrier warps 2 id 1 : index
  %y = tgpu.named_barrier warps 2 id 2 : index
  tgpu.roles
    role "idle" warps 1 {
    }
    role "sum" warps 2 {
      %t = tile.full %s : !t
      %r = tile.reduce add %t dim 0 : !t -> !row
    }
}

// -----

#acc = #tgpu.mma<2, 1>
!t = tensor<32x8xf32, #acc>
!row = tensor<8xf32, #tgpu.slice<0, #acc>>

// Barriers 1 to 3 are those of the warpgroups.
// CHECK-LABEL: llvm.func @beside_warpgroups
// CHECK-DAG:     %[[ID:.*]] = llvm.mlir.constant(4 : i32)
// CHECK:         "llvm.nvvm.barrier.cta.sync.aligned.count"(%[[ID]], %
tgpu.kernel @beside_warpgroups target "sm_90a" warps 2 (%s: f32) grid(%i = 1) {
  %x = tgpu.named_barrier warps 12 per warpgroup id 1 : index
  tgpu.roles
    role "sum" warps 2 {
      %t = tile.full %s : !t
      %r = tile.reduce add %t dim 0 : !t -> !row
    }
}

// -----

#acc = #tgpu.mma<2, 1>
!t = tensor<32x8xf32, #acc>
!row = tensor<8xf32, #tgpu.slice<0, #acc>>
tgpu.kernel @two_roles target "sm_90a" warps 4 (%s: f32) grid(%i = 1) {
  tgpu.roles
    role "a" warps 2 {
      %t = tile.full %s : !t
      %r = tile.reduce add %t dim 0 : !t -> !row
    }
    role "b" warps 2 {
      %t = tile.full %s : !t
      // expected-error @+1 {{only one role can exchange elements between its warps, but two roles do; use layouts with one column of warps in one of them}}
      %r = tile.reduce add %t dim 0 : !t -> !row
    }
}

// -----

#acc = #tgpu.mma<2, 1>
!t = tensor<32x8xf32, #acc>
!row = tensor<8xf32, #tgpu.slice<0, #acc>>
tgpu.kernel @all_taken target "sm_90a" warps 28 (%s: f32) grid(%i = 1) {
  %turns = tgpu.turns warpgroups 6 id 1 : index
  %more = tgpu.turns warpgroups 6 id 7 : index
  %x = tgpu.named_barrier warps 2 id 13 : index
  %y = tgpu.named_barrier warps 2 id 14 : index
  %z = tgpu.named_barrier warps 2 id 15 : index
  tgpu.roles
    role "sum" warps 2 {
      %t = tile.full %s : !t
      // expected-error @+1 {{an exchange between warps of a role requires a named barrier, but the kernel uses all 15}}
      %r = tile.reduce add %t dim 0 : !t -> !row
    }
    role "idle" warps 26 {
    }
}
