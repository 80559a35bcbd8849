// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementary functions and conversions of 8-bit floats, for constants: LLVM folds the code of a thread.
// Inputs/check_math.py has the exact values and the error bounds.
//
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s
// RUN: %python %S/Inputs/check_math.py
//
// Approximate instructions are the default.
// CHECK-LABEL: .entry approximate(
// CHECK-DAG: ex2.approx.ftz.f32
// CHECK-DAG: lg2.approx.ftz.f32
// CHECK-LABEL: .entry tanh(
// CHECK: tanh.approx.f32
// CHECK: rcp.approx.ftz.f32
// CHECK: div.
// CHECK: .entry quarter(
// CHECK: st.global

#v = #tgpu.blocked<1, lanes 32, warps 1, 1>
tgpu.kernel @approximate target "sm_80" warps 1 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %a = tgpu.load %x[0] : !tile.view<[?], f32> -> tensor<32xf32, #v>
  %b = math.exp %a : tensor<32xf32, #v>
  %c = math.log %b : tensor<32xf32, #v>
  tgpu.store %c, %x[0] : tensor<32xf32, #v>, !tile.view<[?], f32>
}

// Precision as the flags require.
tgpu.kernel @tanh target "sm_80" warps 1 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %a = tgpu.load %x[0] : !tile.view<[?], f32> -> tensor<32xf32, #v>
  %b = math.tanh %a fastmath<afn> : tensor<32xf32, #v>
  %c = math.tanh %b fastmath<arcp> : tensor<32xf32, #v>
  %d = math.tanh %c : tensor<32xf32, #v>
  tgpu.store %d, %x[0] : tensor<32xf32, #v>, !tile.view<[?], f32>
}

// Arithmetic on 8-bit floats is computed in f32.
tgpu.kernel @quarter target "sm_80" warps 1 (%x: !tile.view<[?], f8E5M2>) grid(%i = 1) {
  %a = tgpu.load %x[0] : !tile.view<[?], f8E5M2> -> tensor<32xf8E5M2, #v>
  %b = arith.addf %a, %a : tensor<32xf8E5M2, #v>
  %c = math.absf %b : tensor<32xf8E5M2, #v>
  tgpu.store %c, %x[0] : tensor<32xf8E5M2, #v>, !tile.view<[?], f8E5M2>
}
