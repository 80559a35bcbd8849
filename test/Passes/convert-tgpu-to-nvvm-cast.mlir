// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two halves of a rounded pair are extracted at their uses: before, the pair occupies one register.
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

// For positions that can be converted term by term, a thread converts the first one; the others follow by a constant
// difference.
//
// CHECK-LABEL: .entry positions(
// CHECK-COUNT-2: cvt.rn.f32.{{[us]}}32
// CHECK-NOT: cvt.rn.f32
// CHECK: sub.rn.f32 [[FIRST:%r[0-9]+]],
// CHECK-COUNT-15: add.rn.f32 {{.*}}, [[FIRST]], 0f
// CHECK-NOT: {{(add|sub|cvt)}}.rn.f32
// CHECK: ret;
#l = #tgpu.blocked<16, lanes 32, warps 1, 1>
tgpu.kernel @positions target "sm_80" warps 1 (%y: !tile.view<[512], f32>, %j: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %columns = tile.iota %c0 dim 0 : tensor<512xi32, #l>
  %x = tile.cast %columns reassoc : tensor<512xi32, #l> -> tensor<512xf32, #l>
  %row = tile.cast %j : i32 -> f32
  %rows = tile.full %row : tensor<512xf32, #l>
  %ahead = arith.subf %x, %rows fastmath<reassoc> : tensor<512xf32, #l>
  tgpu.store %ahead, %y[0] : tensor<512xf32, #l>, !tile.view<[512], f32>
}

// Narrow floats are converted one by one.
//
// CHECK-LABEL: .entry narrow(
// CHECK-COUNT-16: cvt.rn.f16.s32
// CHECK: ret;
tgpu.kernel @narrow target "sm_80" warps 1 (%y: !tile.view<[512], f16>, %j: i32) grid(%b = 1) {
  %columns = tile.iota %j dim 0 : tensor<512xi32, #l>
  %x = tile.cast %columns reassoc : tensor<512xi32, #l> -> tensor<512xf16, #l>
  tgpu.store %x, %y[0] : tensor<512xf16, #l>, !tile.view<[512], f16>
}
