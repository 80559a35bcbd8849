// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Halves of a rounded pair are taken out of it where they are used: until then the pair is one register.
//
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s
//
// CHECK-LABEL: .entry bf16_pairs(
// CHECK-NOT: mov.b32 {{.}}%rs
// CHECK-COUNT-8: cvt.rn.bf16x2.f32
// CHECK-NOT: mov.b32 {{.}}%rs
// CHECK: bar.sync
// CHECK: shl.b32 {{.*}}, 16;
// CHECK-NEXT: and.b32 {{.*}}, -65536;
// CHECK-NOT: mov.b32 {{.}}%rs
//
// CHECK-LABEL: .entry f16_pairs(
// CHECK-NOT: mov.b32 {{.}}%rs
// CHECK-COUNT-8: cvt.rn.f16x2.f32
// CHECK-NOT: %rs
// CHECK: bar.sync
// CHECK-NEXT: mov.b32 {{.}}%rs
// CHECK-NEXT: cvt.f32.f16

tgpu.kernel @bf16_pairs target "sm_80" warps 4 (%x: !tile.view<[64, 32], f32>) grid(%j = 1) {
  %t = tgpu.load %x[0, 0] : !tile.view<[64, 32], f32> -> tensor<64x32xf32, #tgpu.mma<4, 1>>
  %h = tile.cast %t : tensor<64x32xf32, #tgpu.mma<4, 1>> -> tensor<64x32xbf16, #tgpu.mma<4, 1>>
  tgpu.sync
  %w = tile.cast %h : tensor<64x32xbf16, #tgpu.mma<4, 1>> -> tensor<64x32xf32, #tgpu.mma<4, 1>>
  tgpu.store %w, %x[0, 0] : tensor<64x32xf32, #tgpu.mma<4, 1>>, !tile.view<[64, 32], f32>
}
tgpu.kernel @f16_pairs target "sm_80" warps 4 (%x: !tile.view<[64, 32], f32>) grid(%j = 1) {
  %t = tgpu.load %x[0, 0] : !tile.view<[64, 32], f32> -> tensor<64x32xf32, #tgpu.mma<4, 1>>
  %h = tile.cast %t : tensor<64x32xf32, #tgpu.mma<4, 1>> -> tensor<64x32xf16, #tgpu.mma<4, 1>>
  tgpu.sync
  %w = tile.cast %h : tensor<64x32xf16, #tgpu.mma<4, 1>> -> tensor<64x32xf32, #tgpu.mma<4, 1>>
  tgpu.store %w, %x[0, 0] : tensor<64x32xf32, #tgpu.mma<4, 1>>, !tile.view<[64, 32], f32>
}
