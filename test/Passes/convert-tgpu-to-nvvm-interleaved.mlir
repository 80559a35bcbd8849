// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product of wgmma that becomes operand a of one of bytes: an instruction for each pair converts it, and nothing moves
// between threads. Of 64 columns, a thread has the pairs at 2 c + 8 b in word 0 of the operand, b = 0 first.
//
// RUN: tilewrightc %s --target=sm_90a --emit=ptx -o %t.ptx && FileCheck %s --input-file=%t.ptx
// RUN: ptxas -arch=sm_90a %t.ptx -o %t.cubin

// CHECK-LABEL:     .entry bytes(
// CHECK-NOT:       shfl
// CHECK-COUNT-16:  cvt.rn.satfinite.e4m3x2.f32
// CHECK-NOT:       cvt.rn
// CHECK-NOT:       shfl
// CHECK:           wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3
// CHECK:           ret;
tgpu.kernel @bytes target "sm_90a" warps 4 (%x: !tile.view<[64, 64], f32>, %y: !tile.view<[64, 64], f32>) grid(%i = 1) {
  %b = tgpu.alloc at 0 : !tgpu.shared<64x64xf8E4M3FN, b64>
  %s = tgpu.load %x[0, 0] : !tile.view<[64, 64], f32> -> tensor<64x64xf32, #tgpu.wgmma<1>>
  %p = tile.cast %s saturate : tensor<64x64xf32, #tgpu.wgmma<1>> -> tensor<64x64xf8E4M3FN, #tgpu.wgmma<1>>
  tgpu.write %p, %b : tensor<64x64xf8E4M3FN, #tgpu.wgmma<1>>, !tgpu.shared<64x64xf8E4M3FN, b64>
  tgpu.fence_async
  tgpu.sync
  %a = tgpu.convert %p interleaved : tensor<64x64xf8E4M3FN, #tgpu.wgmma<1>> -> tensor<64x64xf8E4M3FN, #tgpu.operand<a, #tgpu.wgmma<1>>>
  %pending = tgpu.wgmma %a, %b transpose_b : tensor<64x64xf8E4M3FN, #tgpu.operand<a, #tgpu.wgmma<1>>>, !tgpu.shared<64x64xf8E4M3FN, b64> -> tensor<64x64xf32, #tgpu.wgmma<1>>
  tgpu.wgmma_commit
  %o = tgpu.wgmma_wait pending 0, %pending : tensor<64x64xf32, #tgpu.wgmma<1>>
  tgpu.store %o, %y[0, 0] : tensor<64x64xf32, #tgpu.wgmma<1>>, !tile.view<[64, 64], f32>
}
