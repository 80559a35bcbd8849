// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid matrix products and layout conversions of tgpu.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// Layout conversions.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_f32 = arith.constant 0.0 : f32
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{must change only the layout, but got 'tensor<64x64xf32, #tgpu.mma<4, 1>>' and 'tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>'}}
  %0 = tgpu.convert %c : tensor<64x64xf32, #tgpu.mma<4, 1>> -> tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_f32 = arith.constant 0.0 : f32
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{must change only the layout, but got}}
  %0 = tgpu.convert %c : tensor<64x64xf32, #tgpu.mma<4, 1>> -> tensor<64x32xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z = arith.constant 0.0 : bf16
  %c = tile.full %z : tensor<64x64xbf16, #tgpu.wgmma<1>>
  // expected-error @+1 {{'interleaved' requires 8-bit elements of a wgmma layout that become its operand a without scratch memory, but got 'tensor<64x64xbf16, #tgpu.wgmma<1>>' and 'tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>'}}
  %0 = tgpu.convert %c interleaved : tensor<64x64xbf16, #tgpu.wgmma<1>> -> tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_f32 = arith.constant 0.0 : f32
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{is executed by 4 warps, over which its tiles must be distributed, but got 'tensor<64x64xf32, #tgpu.mma<2, 1>>'}}
  %0 = tgpu.convert %c : tensor<64x64xf32, #tgpu.mma<4, 1>> -> tensor<64x64xf32, #tgpu.mma<2, 1>>
}

// -----

// Sums by thread.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  %c = tile.full %z : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{the result must have the layout by_thread<1> of the operand's layout, but got 'tensor<64x64xf32, #tgpu.mma<4, 1>>' and 'tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.wgmma<1>>>'}}
  %0 = tgpu.thread_sum %c dim 1 : tensor<64x64xf32, #tgpu.mma<4, 1>> -> tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.wgmma<1>>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  %c = tile.full %z : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{the result must have the layout by_thread<0> of the operand's layout, but got 'tensor<64x64xf32, #tgpu.mma<4, 1>>' and 'tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.mma<4, 1>>>'}}
  %0 = tgpu.thread_sum %c dim 0 : tensor<64x64xf32, #tgpu.mma<4, 1>> -> tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.mma<4, 1>>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  %c = tile.full %z : tensor<128x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{must keep dimension 0 and elements, but got 'tensor<128x64xf32, #tgpu.mma<4, 1>>' and 'tensor<64x4xf32}}
  %0 = tgpu.thread_sum %c dim 1 : tensor<128x64xf32, #tgpu.mma<4, 1>> -> tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.mma<4, 1>>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z = arith.constant 0 : i32
  %c = tile.full %z : tensor<64x64xi32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{requires floats, but got 'tensor<64x64xi32, #tgpu.mma<4, 1>>'}}
  %0 = tgpu.thread_sum %c dim 1 : tensor<64x64xi32, #tgpu.mma<4, 1>> -> tensor<64x4xi32, #tgpu.by_thread<1, #tgpu.mma<4, 1>>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  %c = tile.full %z : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{is executed by 8 warps, over which its tiles must be distributed, but got 'tensor<64x64xf32, #tgpu.mma<4, 1>>'}}
  %0 = tgpu.thread_sum %c dim 1 : tensor<64x64xf32, #tgpu.mma<4, 1>> -> tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.mma<4, 1>>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  // A row of five elements, distributed over four threads.
  %c = tile.full %z : tensor<64x5xf32, #tgpu.by_thread<1, #tgpu.mma<4, 1>>>
  // expected-error @+1 {{operand #0 must be a register tile (a tensor with a layout that fits its shape), but got}}
  %0 = tgpu.columns 0 of %c : tensor<64x5xf32, #tgpu.by_thread<1, #tgpu.mma<4, 1>>> -> tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.mma<4, 1>>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  %c = tile.full %z : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{requires a result of a wgmma layout, but got 'tensor<64x128xf32, #tgpu.mma<4, 1>>'}}
  %0 = tgpu.join_columns %c, %c : tensor<64x64xf32, #tgpu.mma<4, 1>>, tensor<64x64xf32, #tgpu.mma<4, 1>> -> tensor<64x128xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z = arith.constant 0.0 : bf16
  %c = tile.full %z : tensor<64x64xbf16, #tgpu.wgmma<1>>
  // expected-error @+1 {{tiles must have the layout, rows and elements of the result, and a multiple of 8 columns, but got 'tensor<64x64xbf16, #tgpu.wgmma<1>>' for 'tensor<64x128xf32, #tgpu.wgmma<1>>'}}
  %0 = tgpu.join_columns %c, %c : tensor<64x64xbf16, #tgpu.wgmma<1>>, tensor<64x64xbf16, #tgpu.wgmma<1>> -> tensor<64x128xf32, #tgpu.wgmma<1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  %c = tile.full %z : tensor<64x64xf32, #tgpu.wgmma<1>>
  // expected-error @+1 {{tiles must have the result's 192 columns together, but got 128}}
  %0 = tgpu.join_columns %c, %c : tensor<64x64xf32, #tgpu.wgmma<1>>, tensor<64x64xf32, #tgpu.wgmma<1>> -> tensor<64x192xf32, #tgpu.wgmma<1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{'columns' must be a multiple of 8 from which on a transposed operand b has the columns of the result, but got 32 of '!tgpu.shared<64x64xbf16, b128>' for 'tensor<64x64xf32, #tgpu.wgmma<1>>'}}
  %0 = tgpu.wgmma %a, %b transpose_b columns 32 : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<64x64xf32, #tgpu.wgmma<1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{'columns' must be a multiple of 8 from which on a transposed operand b has the columns of the result, but got 32}}
  %0 = tgpu.wgmma %a, %b columns 32 : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<64x32xf32, #tgpu.wgmma<1>>
}

// -----

// mma.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %z_f32 = arith.constant 0.0 : f32
  %a = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %b = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{needs operands a and b, of one element type, of the accumulator's layout, but got}}
  %0 = tgpu.mma %a, %b, %c : tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>, tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %z_f32 = arith.constant 0.0 : f32
  %a = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  %b = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{needs operands a and b, of one element type, of the accumulator's layout, but got}}
  %0 = tgpu.mma %a, %b, %c : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %z_f16 = arith.constant 0.0 : f16
  %z_f32 = arith.constant 0.0 : f32
  %a = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  %b = tile.full %z_f16 : tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{needs operands a and b, of one element type, of the accumulator's layout, but got}}
  %0 = tgpu.mma %a, %b, %c : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %z_f32 = arith.constant 0.0 : f32
  %a = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<2, 2>>>
  %b = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{needs operands a and b, of one element type, of the accumulator's layout, but got}}
  %0 = tgpu.mma %a, %b, %c : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<2, 2>>>, tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %z_f32 = arith.constant 0.0 : f32
  %a = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
  %b = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.wgmma<1>>
  // expected-error @+1 {{needs operands a and b, of one element type, of the accumulator's layout, but got}}
  %0 = tgpu.mma %a, %b, %c : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>, tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.wgmma<1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %z_f32 = arith.constant 0.0 : f32
  %a = tile.full %z_bf16 : tensor<64x32xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  %b = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{shapes must multiply, but got 64x32 by 64x64 into 64x64}}
  %0 = tgpu.mma %a, %b, %c : tensor<64x32xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %z_f32 = arith.constant 0.0 : f32
  %a = tile.full %z_bf16 : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  %b = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{shapes must multiply, but got 128x64 by 64x64 into 64x64}}
  %0 = tgpu.mma %a, %b, %c : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_i32 = arith.constant 0 : i32
  %z_f32 = arith.constant 0.0 : f32
  %a = tile.full %z_i32 : tensor<64x64xi32, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  %b = tile.full %z_i32 : tensor<64x64xi32, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{has no instruction for elements of 'i32'; the supported ones are f16, bf16, f32 (as tf32), e4m3 and e5m2}}
  %0 = tgpu.mma %a, %b, %c : tensor<64x64xi32, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xi32, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_80" warps 4 () grid(%i = 1) {
  %z_f8E4M3FN = arith.constant 0.0 : f8E4M3FN
  %z_f32 = arith.constant 0.0 : f32
  %a = tile.full %z_f8E4M3FN : tensor<64x64xf8E4M3FN, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  %b = tile.full %z_f8E4M3FN : tensor<64x64xf8E4M3FN, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{has no instruction for elements of 'f8E4M3FN' on sm_80; convert them}}
  %0 = tgpu.mma %a, %b, %c : tensor<64x64xf8E4M3FN, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xf8E4M3FN, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_f16 = arith.constant 0.0 : f16
  %a = tile.full %z_f16 : tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  %b = tile.full %z_f16 : tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f16 : tensor<64x64xf16, #tgpu.mma<4, 1>>
  // expected-error @+1 {{must accumulate in f32, but got 'f16'}}
  %0 = tgpu.mma %a, %b, %c : tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf16, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %z_f32 = arith.constant 0.0 : f32
  %a = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  %b = tile.full %z_bf16 : tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{is executed by 8 warps, over which its tiles must be distributed, but got}}
  %0 = tgpu.mma %a, %b, %c : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

// Products on the CUDA cores.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_f32 = arith.constant 0.0 : f32
  %a = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{requires elements of f32 or f64, but got 'bf16'}}
  %0 = tgpu.fma_dot %a, %a, %c : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_f32 = arith.constant 0.0 : f32
  %a = tgpu.alloc : !tgpu.shared<64x64xf32, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xf64, b128>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{operands and accumulator must have the same elements, but got}}
  %0 = tgpu.fma_dot %a, %b, %c : !tgpu.shared<64x64xf32, b128>, !tgpu.shared<64x64xf64, b128> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_f32 = arith.constant 0.0 : f32
  %a = tgpu.alloc : !tgpu.shared<64x32xf32, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xf32, b128>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{shapes must multiply, but got 64x32 (transposed) by 64x64 (transposed) into 64x64}}
  %0 = tgpu.fma_dot %a, %b transpose_a transpose_b, %c : !tgpu.shared<64x32xf32, b128>, !tgpu.shared<64x64xf32, b128> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z_f32 = arith.constant 0.0 : f32
  %a = tgpu.alloc : !tgpu.shared<64xf32, none>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{requires tiles of rank 2}}
  %0 = tgpu.fma_dot %a, %a, %c : !tgpu.shared<64xf32, none>, !tgpu.shared<64xf32, none> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %z_f32 = arith.constant 0.0 : f32
  %a = tgpu.alloc : !tgpu.shared<64x64xf32, b128>
  %c = tile.full %z_f32 : tensor<64x64xf32, #tgpu.mma<4, 1>>
  // expected-error @+1 {{is executed by 8 warps, over which its tiles must be distributed, but got}}
  %0 = tgpu.fma_dot %a, %a, %c : !tgpu.shared<64x64xf32, b128>, !tgpu.shared<64x64xf32, b128> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

// wgmma.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{only a tile of a wgmma layout that fits its shape can be pending, but got 'tensor<64x64xf32, #tgpu.mma<4, 1>>'}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{expected the type of a register tile, but got 'f32'}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> f32
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x64xf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{operands must have the same elements, but got '!tgpu.shared<128x64xf16, b128>' and '!tgpu.shared<64x64xbf16, b128>'}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<128x64xf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{operand a must be in registers where lanes hold pairs of rows, but got '!tgpu.shared<128x64xbf16, b128>'}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2, row_pairs = true>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %a = tile.full %z_bf16 : tensor<128x64xbf16, #tgpu.wgmma<2>>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{operand a must have the elements of b, and be a shared buffer or have the layout of the result's operand a, but got 'tensor<128x64xbf16, #tgpu.wgmma<2>>'}}
  %0 = tgpu.wgmma %a, %b : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %z_f16 = arith.constant 0.0 : f16
  %a = tile.full %z_f16 : tensor<128x64xf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{operand a must have the elements of b, and be a shared buffer or have the layout of the result's operand a, but got}}
  %0 = tgpu.wgmma %a, %b : tensor<128x64xf16, #tgpu.operand<a, #tgpu.wgmma<2>>>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %a = tile.full %z_bf16 : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<8, 1>>>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{operand a must have the elements of b, and be a shared buffer or have the layout of the result's operand a, but got}}
  %0 = tgpu.wgmma %a, %b : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<8, 1>>>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %z_bf16 = arith.constant 0.0 : bf16
  %a = tile.full %z_bf16 : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{operand a must be in shared memory to be transposed, but got 'tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>'}}
  %0 = tgpu.wgmma %a, %b transpose_a : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x128xf8E4M3FN, b128>
  %b = tgpu.alloc : !tgpu.shared<128x128xf8E4M3FN, b128>
  // expected-error @+1 {{operands of 'f8E4M3FN' must be contiguous along k (a as it is, b transposed); only 16-bit elements can be transposed}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<128x128xf8E4M3FN, b128>, !tgpu.shared<128x128xf8E4M3FN, b128> -> tensor<128x128xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<64x128xf32, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xf32, b128>
  // expected-error @+1 {{operands of 'f32' must be contiguous along k (a as it is, b transposed); only 16-bit elements can be transposed}}
  %0 = tgpu.wgmma %a, %b transpose_a transpose_b : !tgpu.shared<64x128xf32, b128>, !tgpu.shared<64x64xf32, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_80" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{needs target sm_90a, but the kernel's is sm_80}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  // expected-error @+1 {{shapes must multiply, but got 128x64 by 128x64 (transposed) into 128x64}}
  %0 = tgpu.wgmma %a, %b transpose_b : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<128x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<64xbf16, none>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{requires tiles of rank 2}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<64xbf16, none>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x320xbf16, b128>
  // expected-error @+1 {{must have at most 256 columns, but got 320}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x320xbf16, b128> -> tensor<128x320xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x64xi32, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xi32, b128>
  // expected-error @+1 {{operands of 'i32' must be contiguous along k (a as it is, b transposed); only 16-bit elements can be transposed}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<128x64xi32, b128>, !tgpu.shared<64x64xi32, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x64xf64, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xf64, b128>
  // expected-error @+1 {{has no instruction for elements of 'f64'; the supported ones are f16, bf16, f32 (as tf32), e4m3 and e5m2}}
  %0 = tgpu.wgmma %a, %b transpose_b : !tgpu.shared<128x64xf64, b128>, !tgpu.shared<64x64xf64, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x64xf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xf16, b128>
  // expected-error @+1 {{must accumulate in f32, but got 'f16'}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<128x64xf16, b128>, !tgpu.shared<64x64xf16, b128> -> tensor<128x64xf16, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x8xbf16, none>
  %b = tgpu.alloc : !tgpu.shared<8x64xbf16, b128>
  // expected-error @+1 {{shape must be a multiple of 128x8x16 (M, N, K), but got 128x64x8}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<128x8xbf16, none>, !tgpu.shared<8x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{is executed by 4 warps, over which its tiles must be distributed, but got '!tgpu.pending<tensor<128x64xf32, #tgpu.wgmma<2>>>'}}
  %0 = tgpu.wgmma %a, %b : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %z_f32 = arith.constant 0.0 : f32
  %a = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %c = tile.full %z_f32 : tensor<128x32xf32, #tgpu.wgmma<2>>
  // expected-error @+1 {{accumulator must be the result's tile, or pending on it, but got 'tensor<128x32xf32, #tgpu.wgmma<2>>'}}
  %0 = tgpu.wgmma %a, %b, %c : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128>, tensor<128x32xf32, #tgpu.wgmma<2>> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

tgpu.kernel @k target "sm_80" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{needs target sm_90a, but the kernel's is sm_80}}
  tgpu.wgmma_commit
}

// -----

tgpu.kernel @k target "sm_80" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{needs target sm_90a, but the kernel's is sm_80}}
  tgpu.wgmma_wait pending 0
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{may leave 0 to 7 groups pending, but got 8}}
  tgpu.wgmma_wait pending 8
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{may leave 0 to 7 groups pending, but got -1}}
  tgpu.wgmma_wait pending -1
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{expected the type of a register tile, but got 'f32'}}
  %0 = tgpu.wgmma_wait pending 0, %1 : f32
}
