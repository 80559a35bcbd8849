// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid copies of tgpu.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// Registers and global memory: the rules of tile.load and tile.store hold.
tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?], bf16>) grid(%i = 1) {
  // expected-error @+1 {{needs a tile of at most rank 1, that of its view, but got rank 2}}
  %0 = tgpu.load %x[0] : !tile.view<[?], bf16> -> tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) {
  // expected-error @+1 {{view and tile must have the same elements, but got 'f32' and 'bf16'}}
  %0 = tgpu.load %x[0, 0] : !tile.view<[?, ?], f32> -> tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  // expected-error @+1 {{pad must be of the type of the elements, 'bf16', but got 'f32'}}
  %0 = tgpu.load %x[0, 0, 0] pad %z : f32 in : !tile.view<[?, ?, 64], bf16> -> tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  // expected-error @+1 {{is executed by 8 warps, over which its tiles must be distributed, but got}}
  %0 = tgpu.load %x[0, 0, 0] : !tile.view<[?, ?, 64], bf16> -> tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %z = arith.constant 0.0 : bf16
  %t = tile.full %z : tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
  // expected-error @+1 {{'dims' must list each dimension once, but got 1 twice}}
  tgpu.store %t, %x[0, 0, 0] dims [1, 1] : tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>, !tile.view<[?, ?, 64], bf16>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %z = arith.constant 0.0 : bf16
  %t = tile.full %z : tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
  // expected-error @+1 {{is executed by 8 warps, over which its tiles must be distributed, but got}}
  tgpu.store %t, %x[0, 0, 0] : tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>, !tile.view<[?, ?, 64], bf16>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?], i1>) grid(%i = 1) {
  %z = arith.constant true
  %t = tile.full %z : tensor<64xi1, #tgpu.blocked<1, lanes 32, warps 1, 4>>
  // expected-error @+1 {{requires elements of f32, f64, f16, bf16 or i32, but got 'i1'}}
  tgpu.atomic_add %t, %x[0] : tensor<64xi1, #tgpu.blocked<1, lanes 32, warps 1, 4>>, !tile.view<[?], i1>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %z = arith.constant 0.0 : bf16
  %t = tile.full %z : tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
  // expected-error @+1 {{'dims' must list one dimension of the view for each of the tile's 2, but got 1}}
  tgpu.atomic_add %t, %x[0, 0, 0] dims [1] : tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>, !tile.view<[?, ?, 64], bf16>
}

// -----

// Registers and shared memory.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x128xbf16, b128>
  // expected-error @+1 {{register tile and buffer must hold the same tile, but got 'tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>' and '!tgpu.shared<64x128xbf16, b128>'}}
  %0 = tgpu.read %s : !tgpu.shared<64x128xbf16, b128> -> tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x128xbf16, b128>
  // expected-error @+1 {{register tile and buffer must hold the same tile, transposed, but got}}
  %0 = tgpu.read %s transpose : !tgpu.shared<64x128xbf16, b128> -> tensor<64x128xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %z = arith.constant 0.0 : bf16
  %t = tile.full %z : tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
  %s = tgpu.alloc : !tgpu.shared<64x64xf32, none>
  // expected-error @+1 {{register tile and buffer must hold the same tile, but got}}
  tgpu.write %t, %s : tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>, !tgpu.shared<64x64xf32, none>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %z = arith.constant 0.0 : bf16
  %t = tile.full %z : tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{is executed by 8 warps, over which its tiles must be distributed, but got}}
  tgpu.write %t, %s : tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>, !tgpu.shared<64x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{is executed by 8 warps, over which its tiles must be distributed, but got}}
  %0 = tgpu.read %s : !tgpu.shared<64x64xbf16, b128> -> tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// -----

// cp.async.
tgpu.kernel @k target "sm_80" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x64xf32, none>
  // expected-error @+1 {{view and tile must have the same elements, but got 'bf16' and 'f32'}}
  tgpu.copy_async %x[0, 0, 0], %s : !tile.view<[?, ?, 64], bf16>, !tgpu.shared<64x64xf32, none>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{may leave 0 to 64 groups pending, but got 65}}
  tgpu.copy_wait pending 65
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{may leave 0 to 64 groups pending, but got -1}}
  tgpu.copy_wait pending -1
}

// -----

// TMA.
tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>, %n: i32) grid(%i = 1) {
  %y = tile.subview %x dim 1 from %n size %n : !tile.view<[?, ?, 64], bf16>
  // expected-error @+1 {{must map an argument of the kernel or a capture, but got another view; the runtime supports no others}}
  %0 = tgpu.tensor_map %y : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  // expected-error @+1 {{box must have the rank and elements of its view '!tile.view<[?, ?, 64], bf16>', but got '!tgpu.tensor_map<64x64xbf16, b128>'}}
  %0 = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<64x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  // expected-error @+1 {{box must have the rank and elements of its view '!tile.view<[?, ?, 64], bf16>', but got '!tgpu.tensor_map<1x64x64xf16, b128>'}}
  %0 = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xf16, b128>
}

// -----

tgpu.kernel @k target "sm_80" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  // expected-error @+1 {{needs target sm_90a, sm_100a, sm_103a or sm_120a, but the kernel's is sm_80}}
  %0 = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  tgpu.roles
    role "a" warps 4 {
      // expected-error @+1 {{'tgpu.tensor_map' op expects parent op 'tgpu.kernel'}}
      %0 = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<64x1x64xbf16, b128, ragged 0>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{needs 'from' and 'size' with a ragged tensor map, and with no other, but got '!tgpu.tensor_map<64x1x64xbf16, b128, ragged 0>' without them}}
  tgpu.tma_load %m[0, 0, 0], %s, %b[%i] : !tgpu.tensor_map<64x1x64xbf16, b128, ragged 0>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{needs 'from' and 'size' with a ragged tensor map, and with no other, but got '!tgpu.tensor_map<1x64x64xbf16, b128>' with them}}
  tgpu.tma_store %s, %m[0, 0, 0] from %i size %i : !tgpu.shared<64x64xbf16, b128>, !tgpu.tensor_map<1x64x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{needs one index for each dimension of its map: rank 3, but got 2 indices}}
  tgpu.tma_load %m[0, 0], %s, %b[%i] : !tgpu.tensor_map<1x64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{buffer must consist of boxes of the map, one for each of its panels (128x64 elements), but got}}
  tgpu.tma_load %m[0, 0, 0], %s, %b[%i] : !tgpu.tensor_map<1x64x64xbf16, b128>, !tgpu.shared<128x64xbf16, b128>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b64>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{buffer must consist of boxes of the map, one for each of its panels (64x32 elements), but got}}
  tgpu.tma_load %m[0, 0, 0], %s, %b[%i] : !tgpu.tensor_map<1x64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b64>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<64x64xf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{buffer must consist of boxes of the map, one for each of its panels (64x64 elements), but got}}
  tgpu.tma_load %m[0, 0, 0], %s, %b[%i] : !tgpu.tensor_map<1x64x64xbf16, b128>, !tgpu.shared<64x64xf16, b128>, !tgpu.barriers<2>
}

// -----

// A box narrower than the panel.
tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x32xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{buffer must consist of boxes of the map, one for each of its panels (64x64 elements), but got}}
  tgpu.tma_load %m[0, 0, 0], %s, %b[%i] : !tgpu.tensor_map<1x64x32xbf16, b128>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>
}

// -----

// Boxes side by side without a swizzle: rows would not be contiguous.
tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x32xbf16, none>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, none>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{buffer must consist of boxes of the map, one for each of its panels (64x64 elements), but got}}
  tgpu.tma_load %m[0, 0, 0], %s, %b[%i] : !tgpu.tensor_map<1x64x32xbf16, none>, !tgpu.shared<64x64xbf16, none>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<32x64xbf16, b128>
  // expected-error @+1 {{buffer must consist of boxes of the map, one for each of its panels (32x64 elements), but got}}
  tgpu.tma_store %s, %m[0, 0, 0] : !tgpu.shared<32x64xbf16, b128>, !tgpu.tensor_map<1x64x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 2 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{'per warpgroup' requires a multiple of 4 warps, but got 2}}
  tgpu.tma_store %s, %m[0, 0, 0] per warpgroup : !tgpu.shared<64x64xbf16, b128>, !tgpu.tensor_map<1x64x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x4x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<8x64xbf16, b128>
  // expected-error @+1 {{'per warpgroup' requires a multiple of 16 rows for 2 warpgroups, but got 8}}
  tgpu.tma_store %s, %m[0, 0, 0] per warpgroup : !tgpu.shared<8x64xbf16, b128>, !tgpu.tensor_map<1x4x64xbf16, b128>
}

// -----

// The share of a warpgroup has 64 rows.
tgpu.kernel @k target "sm_90a" warps 8 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x128x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  // expected-error @+1 {{buffer must consist of boxes of the map, one for each of its panels (64x64 elements), but got}}
  tgpu.tma_reduce_add %s, %m[0, 0, 0] per warpgroup : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<1x128x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<32x64xbf16, b128>
  // expected-error @+1 {{buffer must consist of boxes of the map, one for each of its panels (32x64 elements), but got}}
  tgpu.tma_reduce_add %s, %m[0, 0, 0] : !tgpu.shared<32x64xbf16, b128>, !tgpu.tensor_map<1x64x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?], f64>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?], f64> -> !tgpu.tensor_map<64x16xf64, b128>
  %s = tgpu.alloc : !tgpu.shared<64x16xf64, b128>
  // expected-error @+1 {{requires elements of f32, f16, bf16 or i32, but got 'f64'}}
  tgpu.tma_reduce_add %s, %m[0, 0] : !tgpu.shared<64x16xf64, b128>, !tgpu.tensor_map<64x16xf64, b128>
}

// -----

// Bulk copies.
tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{must fill a buffer of rank 1, but got '!tgpu.shared<64x64xbf16, b128>'}}
  tgpu.bulk_load %x[0, 0, 0], %s, %b[%i] : !tile.view<[?, ?, 64], bf16>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<3xf32, none>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{must copy a multiple of 16 bytes, but got 12}}
  tgpu.bulk_load %x[0], %s, %b[%i] : !tile.view<[?], f32>, !tgpu.shared<3xf32, none>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64xf16, none>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{view and tile must have the same elements, but got 'f32' and 'f16'}}
  tgpu.bulk_load %x[0], %s, %b[%i] : !tile.view<[?], f32>, !tgpu.shared<64xf16, none>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_80" warps 4 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64xf32, none>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{needs target sm_90a, sm_100a, sm_103a or sm_120a, but the kernel's is sm_80}}
  tgpu.bulk_load %x[0], %s, %b[%i] : !tile.view<[?], f32>, !tgpu.shared<64xf32, none>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_80" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{needs target sm_90a, sm_100a, sm_103a or sm_120a, but the kernel's is sm_80}}
  tgpu.bulk_commit
}

// -----

tgpu.kernel @k target "sm_80" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{needs target sm_90a, sm_100a, sm_103a or sm_120a, but the kernel's is sm_80}}
  tgpu.bulk_wait pending 0
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{may leave 0 to 64 groups pending, but got 65}}
  tgpu.bulk_wait pending 65 read
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, ?, 64], bf16>) grid(%i = 2) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, ?, 64], bf16> -> !tgpu.tensor_map<1x1x64x64xbf16, b128, ragged 2>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{first index must be 0, since '!tgpu.tensor_map<1x1x64x64xbf16, b128, ragged 2>' omits that dimension, but got a value that is no constant}}
  tgpu.tma_store %s, %m[%i, 0, 0, 0] from %i size %i : !tgpu.shared<64x64xbf16, b128>, !tgpu.tensor_map<1x1x64x64xbf16, b128, ragged 2>
}

// -----

// Rows of pages.
tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, ?, 64], bf16>, %y: !tile.view<[?, ?, ?, 64], bf16>) grid(%i = 2) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x1x64xbf16, b128, ragged 1>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %p = tile.paged %y page %i size %i : !tile.view<[?, ?, ?, 64], bf16> -> !tile.view<[?, ?, 64], bf16>
  // expected-error @+1 {{pages must be of the pool that is the view of its map, but got a map that is over another view}}
  tgpu.tma_load %m[0, %i, 0, 0] of %p : !tile.view<[?, ?, 64], bf16>, %s, %b[%i] : !tgpu.tensor_map<1x64x1x64xbf16, b128, ragged 1>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, ?, 64], bf16>, %p: !tile.view<[?, ?, 64], bf16>) grid(%i = 2) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x1x64xbf16, b128, ragged 1>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{pages must be the result of tile.paged, but got an argument of 'tgpu.kernel'}}
  tgpu.tma_load %m[0, %i, 0, 0] of %p : !tile.view<[?, ?, 64], bf16>, %s, %b[%i] : !tgpu.tensor_map<1x64x1x64xbf16, b128, ragged 1>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, ?, 64], bf16>) grid(%i = 2) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x1x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %p = tile.paged %x page %i size %i : !tile.view<[?, ?, ?, 64], bf16> -> !tile.view<[?, ?, 64], bf16>
  // expected-error @+1 {{needs a tensor map that is ragged along dimension 1, the rows of a page, but got}}
  tgpu.tma_load %m[0, %i, 0, 0] of %p : !tile.view<[?, ?, 64], bf16>, %s, %b[%i] : !tgpu.tensor_map<1x64x1x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, ?, 64], bf16>, %t: !tile.view<[?, ?], i32>) grid(%i = 2) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x1x64xbf16, b128, ragged 1>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %p = tile.paged %x page %i by %t[%i] each 16 size %i : !tile.view<[?, ?, ?, 64], bf16>, !tile.view<[?, ?], i32> -> !tile.view<[?, ?, 64], bf16>
  // expected-error @+1 {{boxes must have a divisor of the 16 rows that are known to lie in one page, but got 64 rows}}
  tgpu.tma_load %m[0, %i, 0, 0] of %p : !tile.view<[?, ?, 64], bf16>, %s, %b[%i] : !tgpu.tensor_map<1x64x1x64xbf16, b128, ragged 1>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, ?, 64], bf16>) grid(%i = 2) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x1x64xbf16, b128, ragged 1>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %p = tile.paged %x page %i size %i : !tile.view<[?, ?, ?, 64], bf16> -> !tile.view<[?, ?, 64], bf16>
  // expected-error @+1 {{first index must be 0, since the rows determine the pages, but got a value that is no constant}}
  tgpu.tma_load %m[%i, %i, 0, 0] of %p : !tile.view<[?, ?, 64], bf16>, %s, %b[%i] : !tgpu.tensor_map<1x64x1x64xbf16, b128, ragged 1>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, ?, 64], bf16>) grid(%i = 2) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, ?, 64], bf16> -> !tgpu.tensor_map<1x48x1x64xbf16, b128, ragged 1>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %p = tile.paged %x page %i size %i : !tile.view<[?, ?, ?, 64], bf16> -> !tile.view<[?, ?, 64], bf16>
  // expected-error @+1 {{buffer must consist of boxes of the map, one for each of its panels (64x64 elements), but got '!tgpu.shared<64x64xbf16, b128>' and '!tgpu.tensor_map<1x48x1x64xbf16, b128, ragged 1>'}}
  tgpu.tma_load %m[0, %i, 0, 0] of %p : !tile.view<[?, ?, 64], bf16>, %s, %b[%i] : !tgpu.tensor_map<1x48x1x64xbf16, b128, ragged 1>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>
}
