// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --convert-tgpu-to-nvvm --split-input-file --verify-diagnostics

tgpu.kernel @unplanned target "sm_80" warps 1 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  // expected-error @+1 {{a buffer must have an offset before code is generated; run tgpu-plan-shared-memory}}
  %b = tgpu.alloc : !tgpu.shared<32xf32, none>
}

// -----

#one = #tgpu.mma<1, 1>
#two = #tgpu.blocked<2, lanes 4, warps 1, 1>
tgpu.kernel @scratch target "sm_80" warps 2 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) {
  %z = arith.constant dense<0.0> : tensor<32x16xf32, #tgpu.mma<2, 1>>
  // expected-error @+1 {{a conversion that moves elements between warps must have scratch memory, but has none; add 'through'}}
  %y = tgpu.convert %z : tensor<32x16xf32, #tgpu.mma<2, 1>> -> tensor<32x16xf32, #tgpu.mma<1, 2>>
}

// -----

func.func private @loops(%x: f32) -> f32 {
  // expected-error @+1 {{function 'loops' must not be recursive; write a loop}}
  %y = func.call @loops(%x) : (f32) -> f32
  return %y : f32
}
tgpu.kernel @recursive target "sm_80" warps 1 (%x: !tile.view<[?], f32>, %s: f32) grid(%i = 1) {
  %y = func.call @loops(%s) : (f32) -> f32
}

// -----

tgpu.kernel @root target "sm_80" warps 1 (%x: !tile.view<[?], f64>, %s: f64) grid(%i = 1) {
  // expected-error @+1 {{'math.asinh' cannot be lowered to sm_80; use another operation of arith or math}}
  %y = math.asinh %s : f64
}

// -----

#v = #tgpu.blocked<1, lanes 32, warps 1, 1>
tgpu.kernel @atomic target "sm_80" warps 1 (%x: !tile.view<[?], bf16>) grid(%i = 1) {
  %z = arith.constant dense<1.0> : tensor<32xbf16, #v>
  // expected-error @+1 {{there is no atomic addition of 'bf16' on sm_80; add in f32}}
  tgpu.atomic_add %z, %x[0] : tensor<32xbf16, #v>, !tile.view<[?], bf16>
}

// -----

// expected-error @+1 {{in the grid, 'sm_count' is supported on the device only as the extent of the last grid id; let the caller pass it as an argument}}
tgpu.kernel @grid target "sm_80" warps 1 (%x: !tile.view<[?], bf16>) grid(%i = sm_count(), %j = 2) {
}

// -----

#acc = #tgpu.mma<1, 2>
// expected-error @+1 {{needs 166912 bytes of shared memory and 128 for exchanges between warps, but the limit of sm_80 is 166912; use smaller blocks}}
tgpu.kernel @exchange target "sm_80" warps 2 (%x: !tile.view<[?], f32>) grid(%i = 1) attributes {shared_bytes = 166912 : i64} {
  %z = arith.constant dense<1.0> : tensor<16x16xf32, #acc>
  %s = tile.reduce add %z dim 1 : tensor<16x16xf32, #acc> -> tensor<16xf32, #tgpu.slice<1, #acc>>
}

// -----

#v = #tgpu.blocked<4, lanes 8, warps 4, 1>
tgpu.kernel @rearranged target "sm_80" warps 4 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %z = arith.constant dense<1.0> : tensor<128x128xf32, #v>
  // expected-error @+1 {{an exchange between threads has at most 49152 bytes of scratch memory, but the tile needs 65536; use smaller blocks}}
  %s = tile.reshape %z : tensor<128x128xf32, #v> -> tensor<256x64xf32, #v>
}

// -----

#v = #tgpu.blocked<4, lanes 8, warps 4, 1>
tgpu.kernel @indices target "sm_80" warps 4 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %at = tile.iota %c0 dim 0 : tensor<32xi32, #tgpu.slice<0, #v>>
  // expected-error @+1 {{the indices must have the layout slice<1> of the tile's layout, but got 'tensor<32xi32, #tgpu.slice<0, #tgpu.blocked<4, lanes 8, warps 4, 1>>>'; convert them first}}
  %t = tile.gather %x[0, 0] along 0 at %at : !tile.view<[?, ?], f32>, tensor<32xi32, #tgpu.slice<0, #v>> -> tensor<32x32xf32, #v>
}

// -----

tgpu.kernel @unnumbered target "sm_90a" warps 8 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  // expected-error @+1 {{turns must have a number before code is generated; run tgpu-plan-shared-memory}}
  %turns = tgpu.turns warpgroups 2 : index
}

// -----

tgpu.kernel @misplaced target "sm_90a" warps 10 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  // expected-error @+1 {{the role that takes turns must begin at a warpgroup, but it begins at warp 2}}
  %turns = tgpu.turns warpgroups 2 id 1 : index
  tgpu.roles
    role "load" warps 2 { }
    role "compute" warps 8 {
      tgpu.take_turn %turns
      tgpu.pass_turn %turns
    }
}

// -----

#v = #tgpu.blocked<4, lanes 8, warps 4, 1>
tgpu.kernel @reduced target "sm_80" warps 4 (%x: !tile.view<[?, ?, ?], f32>, %y: !tile.view<[?, ?], f32>) grid(%b = 1) {
  %t = tgpu.load %x[0, 0, 0] : !tile.view<[?, ?, ?], f32> -> tensor<2x64x64xf32, #v>
  // expected-error @+1 {{only tiles of rank 2 can be reduced here, but got 'tensor<2x64x64xf32, #tgpu.blocked<4, lanes 8, warps 4, 1>>'; reshape it to a matrix first}}
  %s = tile.reduce add %t dim 2 : tensor<2x64x64xf32, #v> -> tensor<2x64xf32, #v>
  tgpu.store %s, %y[0, 0] : tensor<2x64xf32, #v>, !tile.view<[?, ?], f32>
}
