// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interleaved products: operand a is a product in registers.
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_90a warps=4" -split-input-file -verify-diagnostics | FileCheck %s

!view = !tile.view<[?, ?], f8E4M3FN>
!bytes = tensor<64x64xf8E4M3FN>
!sum = tensor<64x64xf32>

// CHECK-LABEL: @registers
// CHECK:         %[[ROUNDED:.*]] = tile.cast %{{.*}} saturate
// CHECK:         %[[A:.*]] = tgpu.convert %[[ROUNDED]] interleaved : tensor<64x64xf8E4M3FN, #tgpu.wgmma<1>> -> tensor<64x64xf8E4M3FN, #tgpu.operand<a, #tgpu.wgmma<1>>>
// CHECK:         tgpu.wgmma %[[A]], %{{.*}} transpose_b
tile.kernel @registers(%q: !view, %v: !view, %y: !tile.view<[?, ?], f32>) grid(%i = 1) {
  %a = tile.load %q[0, 0] : !view -> !bytes
  %s = tile.dot %a, %a transpose_b : !bytes, !bytes -> !sum
  %p = tile.cast %s saturate : !sum -> !bytes
  %b = tile.load %v[0, 0] : !view -> !bytes
  %o = tile.dot %p, %b transpose_b interleaved : !bytes, !bytes -> !sum
  tile.store %o, %y[0, 0] : !sum, !tile.view<[?, ?], f32>
}

// -----

!view = !tile.view<[?, ?], f8E4M3FN>
tile.kernel @loaded(%q: !view, %y: !tile.view<[?, ?], f32>) grid(%i = 1) {
  %a = tile.load %q[0, 0] : !view -> tensor<64x64xf8E4M3FN>
  // expected-error @+1 {{operand a of an interleaved product must be computed from a product of the same rows, in registers, but got 'tensor<64x64xf8E4M3FN}}
  %s = tile.dot %a, %a transpose_b interleaved : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN> -> tensor<64x64xf32>
  tile.store %s, %y[0, 0] : tensor<64x64xf32>, !tile.view<[?, ?], f32>
}

// -----

tile.kernel @few_rows(%q: !tile.view<[?, ?], f16>, %y: !tile.view<[?, ?], f32>) grid(%i = 1) {
  %a = tile.load %q[0, 0] : !tile.view<[?, ?], f16> -> tensor<16x64xf16>
  // expected-error @+1 {{an interleaved product must be one of wgmma, but sm_90a has the layout #tgpu.mma}}
  %s = tile.dot %a, %a transpose_b interleaved : tensor<16x64xf16>, tensor<16x64xf16> -> tensor<16x16xf32>
  tile.store %s, %y[0, 0] : tensor<16x16xf32>, !tile.view<[?, ?], f32>
}
