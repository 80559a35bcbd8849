// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product that overwrites a tile has the registers of the tile as its operands, but its first instruction adds nothing
// to them. What is computed of the tile stays before it.
//
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --convert-tgpu-to-nvvm | FileCheck %s

!b = !tgpu.shared<64x64xbf16, b128>
!o = tensor<64x8xf32, #tgpu.wgmma<1>>

// CHECK-LABEL: llvm.func @k
// CHECK:         llvm.inline_asm {{.*}}"wgmma.wait_group.sync.aligned 0;
// CHECK:         %[[OLD:.*]] = llvm.extractvalue
// CHECK:         %[[SUM:.*]] = llvm.fadd %[[OLD]],
// CHECK:         llvm.inline_asm has_side_effects {{.*}}"", "=f,=f,=f,=f,0,1,2,3,~{memory}" %[[SUM]],
// CHECK:         "wgmma.fence.sync.aligned;"
// CHECK:         "{ .reg .pred p; setp.ne.b32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n8k16{{.*}} %[[OLD]],
// CHECK:         "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async
tgpu.kernel @k target "sm_90a" warps 4 (%out: !tile.view<[?, 8], f32>, %x: f32) grid(%i = 1) {
  %a = tgpu.alloc : !b
  %v = tgpu.alloc : !tgpu.shared<16x64xbf16, b128>
  %0 = tgpu.wgmma %a, %v transpose_b columns 0 : !b, !tgpu.shared<16x64xbf16, b128> -> !o
  tgpu.wgmma_commit
  %1 = tgpu.wgmma_wait pending 0, %0 : !o
  %2 = tile.full %x : !o
  %sum = arith.addf %1, %2 : !o
  %3 = tgpu.wgmma %a, %v transpose_b columns 8, overwriting %1 : !b, !tgpu.shared<16x64xbf16, b128>, !o -> !o
  tgpu.wgmma_commit
  %4 = tgpu.wgmma_wait pending 0, %3 : !o
  %5 = arith.addf %sum, %4 : !o
  tgpu.store %5, %out[0, 0] : !o, !tile.view<[?, 8], f32>
}
