// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An empty inline assembly prevents LLVM from moving the conversion of the next iteration's operand past the branch that
// follows it. There is none if the operand is converted before the wait for the product that reads its registers.
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --convert-tgpu-to-nvvm | FileCheck %s

#w = #tgpu.wgmma<1>
!s = tensor<64x16xf32, #w>
!p16 = tensor<64x16xbf16, #w>
!a = tensor<64x16xbf16, #tgpu.operand<a, #w>>
!o = tensor<64x16xf32, #w>
!row = tensor<64xf32, #tgpu.slice<1, #w>>
!v = !tgpu.shared<16x16xbf16, b32>

// CHECK-LABEL: llvm.func @behind
// CHECK:         wgmma.mma_async
// CHECK:         wgmma.wait_group
// CHECK:         "llvm.nvvm.ff2bf16x2.rn"
// CHECK:         llvm.inline_asm has_side_effects {{.*}}"", "=r,=r,=r,=r,0,1,2,3,~{memory}"
// CHECK:         llvm.cond_br
tgpu.kernel @behind target "sm_90a" warps 4 (%n: i32, %x: f32, %out: !tile.view<[?, ?], f32>, %rows: !tile.view<[?], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %zero16 = arith.constant 0.0 : bf16
  %o0 = tile.full %zero : !o
  %a0 = tile.full %zero16 : !a
  %v = tgpu.alloc : !v
  %factor = tgpu.load %rows[0] : !tile.view<[?], f32> -> !row
  %factors = tile.expand %factor dim 1 : !row -> !o
  %r:2 = scf.for %j = %c0 to %n step %c1 iter_args(%o = %o0, %a = %a0) -> (!o, !a) : i32 {
    %s = tgpu.load %out[0, %j] : !tile.view<[?, ?], f32> -> !s
    %pending = tgpu.wgmma %a, %v, %o : !a, !v, !o -> !o
    tgpu.wgmma_commit
    %sum = tgpu.wgmma_wait pending 0, %pending : !o
    %p16 = tile.cast %s : !s -> !p16
    %p = tgpu.convert %p16 : !p16 -> !a
    %kept = arith.mulf %sum, %factors {tgpu.skip_ones} : !o
    scf.yield %kept, %p : !o, !a
  }
  tgpu.store %r#0, %out[0, 0] : !o, !tile.view<[?, ?], f32>
}

// CHECK-LABEL: llvm.func @before
// CHECK-NOT:     "=r,=r,=r,=r,0,1,2,3,~{memory}"
tgpu.kernel @before target "sm_90a" warps 4 (%n: i32, %x: f32, %out: !tile.view<[?, ?], f32>, %rows: !tile.view<[?], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %zero16 = arith.constant 0.0 : bf16
  %o0 = tile.full %zero : !o
  %a0 = tile.full %zero16 : !a
  %v = tgpu.alloc : !v
  %factor = tgpu.load %rows[0] : !tile.view<[?], f32> -> !row
  %factors = tile.expand %factor dim 1 : !row -> !o
  %r:2 = scf.for %j = %c0 to %n step %c1 iter_args(%o = %o0, %a = %a0) -> (!o, !a) : i32 {
    %s = tgpu.load %out[0, %j] : !tile.view<[?, ?], f32> -> !s
    %pending = tgpu.wgmma %a, %v, %o : !a, !v, !o -> !o
    tgpu.wgmma_commit
    %p16 = tile.cast %s : !s -> !p16
    %p = tgpu.convert %p16 : !p16 -> !a
    %sum = tgpu.wgmma_wait pending 0, %pending : !o
    %kept = arith.mulf %sum, %factors {tgpu.skip_ones} : !o
    scf.yield %kept, %p : !o, !a
  }
  tgpu.store %r#0, %out[0, 0] : !o, !tile.view<[?, ?], f32>
}
