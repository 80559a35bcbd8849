// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Columns of bytes in shared memory as rows of operand a: ldmatrix transposes pairs of bytes, of which a lane has two
// columns of two rows; a permutation brings those of a row together, and an instruction converts each pair.
//
// RUN: tilewrightc %s --target=sm_90a --emit=ptx -o %t.ptx && FileCheck %s --input-file=%t.ptx
// RUN: FileCheck %s --input-file=%t.ptx --check-prefix=WORDS
// RUN: FileCheck %s --input-file=%t.ptx --check-prefix=PAIRS

!bytes = !tile.view<[128, 64], f8E4M3FN>
!small = !tile.view<[128, 64], f8E5M2>
!out = !tile.view<[64, 128], f16>

// 64 rows of 128 columns are 64 bytes of each of 128 threads, in 16 words.
// CHECK-LABEL: .entry columns(
// CHECK-COUNT-4: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-NOT:     ldmatrix
// CHECK-NOT:     ld.shared
// WORDS-LABEL: .entry columns(
// WORDS-COUNT-16: prmt.b32 {{.*}}, 0x3120U
// WORDS-LABEL: .entry rows(
// PAIRS-LABEL: .entry columns(
// PAIRS-COUNT-32: cvt.rn.f16x2.e4m3x2
// PAIRS-NOT:     cvt.rn
// PAIRS-LABEL: .entry rows(
tgpu.kernel @columns target "sm_90a" warps 4 (%x: !bytes, %y: !out) grid(%i = 1) {
  %b = tgpu.alloc at 0 : !tgpu.shared<128x64xf8E4M3FN, b64>
  tgpu.copy_async %x[0, 0], %b : !bytes, !tgpu.shared<128x64xf8E4M3FN, b64>
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %t = tgpu.read %b transpose : !tgpu.shared<128x64xf8E4M3FN, b64> -> tensor<64x128xf8E4M3FN, #tgpu.wgmma<1, row_pairs = true>>
  %h = tile.cast %t : tensor<64x128xf8E4M3FN, #tgpu.wgmma<1, row_pairs = true>> -> tensor<64x128xf16, #tgpu.wgmma<1, row_pairs = true>>
  tgpu.store %h, %y[0, 0] : tensor<64x128xf16, #tgpu.wgmma<1, row_pairs = true>>, !out
}

// Rows, two bytes at a time; bf16 by way of f32.
// CHECK-LABEL: .entry rows(
// CHECK-COUNT-16: ld.shared.b16
// CHECK-NOT:     ld.shared
// PAIRS-COUNT-16: cvt.rn.f16x2.e5m2x2
tgpu.kernel @rows target "sm_90a" warps 8 (%x: !small, %y: !tile.view<[128, 64], bf16>) grid(%i = 1) {
  %b = tgpu.alloc at 0 : !tgpu.shared<128x64xf8E5M2, b64>
  tgpu.copy_async %x[0, 0], %b : !small, !tgpu.shared<128x64xf8E5M2, b64>
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %t = tgpu.read %b : !tgpu.shared<128x64xf8E5M2, b64> -> tensor<128x64xf8E5M2, #tgpu.wgmma<2>>
  %h = tile.cast %t : tensor<128x64xf8E5M2, #tgpu.wgmma<2>> -> tensor<128x64xbf16, #tgpu.wgmma<2>>
  tgpu.store %h, %y[0, 0] : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tile.view<[128, 64], bf16>
}
