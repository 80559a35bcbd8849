// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --convert-tgpu-to-nvvm --split-input-file --verify-diagnostics

tgpu.kernel @unplanned target "sm_80" warps 1 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  // expected-error @+1 {{a buffer must have an offset before code is generated; run tgpu-plan-shared-memory}}
  %b = tgpu.alloc : !tgpu.shared<32xf32, none>
}

// -----

tgpu.kernel @beyond target "sm_80" warps 1 (%x: !tile.view<[?], f32>) grid(%i = 1) attributes {shared_bytes = 64 : i64} {
  // expected-error @+1 {{a buffer of 128 bytes at 0 must lie within the kernel's 64 bytes of shared memory}}
  %b = tgpu.alloc at 0 : !tgpu.shared<32xf32, none>
}

// -----

#one = #tgpu.mma<1, 1>
#two = #tgpu.blocked<2, lanes 4, warps 1, 1>
tgpu.kernel @scratch target "sm_80" warps 2 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) {
  %z = arith.constant dense<0.0> : tensor<32x16xf32, #tgpu.mma<2, 1>>
  // expected-error @+1 {{elements change warps, for which the conversion needs scratch memory (through)}}
  %y = tgpu.convert %z : tensor<32x16xf32, #tgpu.mma<2, 1>> -> tensor<32x16xf32, #tgpu.mma<1, 2>>
}

// -----

func.func private @loops(%x: f32) -> f32 {
  // expected-error @+1 {{function 'loops' must not be recursive}}
  %y = func.call @loops(%x) : (f32) -> f32
  return %y : f32
}
tgpu.kernel @recursive target "sm_80" warps 1 (%x: !tile.view<[?], f32>, %s: f32) grid(%i = 1) {
  %y = func.call @loops(%s) : (f32) -> f32
}

// -----

tgpu.kernel @root target "sm_80" warps 1 (%x: !tile.view<[?], f64>, %s: f64) grid(%i = 1) {
  // expected-error @+1 {{'math.cbrt' cannot be lowered to sm_80 yet}}
  %y = math.cbrt %s : f64
}

// -----

#v = #tgpu.blocked<1, lanes 32, warps 1, 1>
tgpu.kernel @atomic target "sm_80" warps 1 (%x: !tile.view<[?], bf16>) grid(%i = 1) {
  %z = arith.constant dense<1.0> : tensor<32xbf16, #v>
  // expected-error @+1 {{there is no atomic addition of 'bf16' on sm_80; add in f32}}
  tgpu.atomic_add %z, %x[0] : tensor<32xbf16, #v>, !tile.view<[?], bf16>
}

// -----

// expected-error @+1 {{in the grid, 'sm_count' cannot be computed on the device except for the extent of the last id}}
tgpu.kernel @grid target "sm_80" warps 1 (%x: !tile.view<[?], bf16>) grid(%i = sm_count(), %j = 2) {
}
