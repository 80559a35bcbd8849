// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operands that no code can be generated for.
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --convert-tgpu-to-nvvm -split-input-file -verify-diagnostics

#v = #tgpu.blocked<4, lanes 8, warps 4, 1>
tgpu.kernel @gather_rank_3 target "sm_80" warps 4 (%x: !tile.view<[?, ?, ?], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %at = tile.iota %c0 dim 0 : tensor<32xi32, #tgpu.slice<1, #v>>
  // expected-error @+1 {{only a tile of rank 1 or 2 can be indexed by a tile, but got 'tensor<1x32x32xf32, #tgpu.blocked<4, lanes 8, warps 4, 1>>'}}
  %t = tile.gather %x[0, 0, 0] along 1 at %at : !tile.view<[?, ?, ?], f32>, tensor<32xi32, #tgpu.slice<1, #v>> -> tensor<1x32x32xf32, #v>
}

// -----

#v = #tgpu.blocked<4, lanes 8, warps 4, 1>
tgpu.kernel @gather_rank_1 target "sm_80" warps 4 (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %at = tile.iota %c0 dim 0 : tensor<32xi32, #tgpu.slice<1, #v>>
  // expected-error @+1 {{the indices must have the layout of the tile, but got 'tensor<32xi32, #tgpu.slice<1, #tgpu.blocked<4, lanes 8, warps 4, 1>>>'}}
  %t = tile.gather %x[0] along 0 at %at : !tile.view<[?], f32>, tensor<32xi32, #tgpu.slice<1, #v>> -> tensor<32xf32, #tgpu.slice<0, #v>>
}

// -----

#m = #tgpu.mma<4, 1>
tgpu.kernel @transpose target "sm_80" warps 4 (%a: f32) grid(%i = 1) {
  %x = tile.full %a : tensor<64x64xf32, #m>
  // expected-error @+1 {{a transpose must not move elements between threads, but got 'tensor<64x64xf32, #tgpu.mma<4, 1>>' to 'tensor<64x64xf32, #tgpu.mma<4, 1>>'; exchange it through shared memory (tgpu.write, tgpu.read)}}
  %y = tile.transpose %x [1, 0] : tensor<64x64xf32, #m> -> tensor<64x64xf32, #m>
}

// -----

#m = #tgpu.mma<4, 1>
tgpu.kernel @two_results target "sm_80" warps 4 (%a: i32) grid(%i = 1) {
  %x = tile.full %a : tensor<64x64xi32, #m>
  // expected-error @+1 {{'arith.mulsi_extended' must have one result to be lowered, but got 2}}
  %low, %high = arith.mulsi_extended %x, %x : tensor<64x64xi32, #m>
}

// -----

!x = !tile.view<[64, ?], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128, ragged 0>
!buffer = !tgpu.shared<64x64xbf16, b128>
!bar = !tgpu.barriers<1>
tgpu.kernel @chosen_map target "sm_90a" warps 8 (%x: !x, %y: !x) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %f = arith.cmpi eq, %i, %c0 : i32
  %b = tgpu.alloc : !buffer
  %full = tgpu.alloc_barriers arrivals 1 : !bar
  %m1 = tgpu.tensor_map %x : !x -> !map
  %m2 = tgpu.tensor_map %y : !x -> !map
  %m = arith.select %f, %m1, %m2 : !map
  tgpu.expect %full[%c0] bytes 8192 : !bar
  // expected-error @+1 {{the tensor map must be the result of tgpu.tensor_map}}
  tgpu.tma_load %m[0, 0] from %c1 size %c1, %b, %full[%c0] : !map, !buffer, !bar
}

// -----

#m = #tgpu.mma<1, 1>
tgpu.kernel @rows_to_columns target "sm_80" warps 1 (%a: f32) grid(%i = 1) {
  %x = tile.full %a : tensor<32xf32, #tgpu.slice<1, #m>>
  // expected-error @+1 {{a conversion whose warps move elements differently must have scratch memory, but has none; add 'through'}}
  %y = tgpu.convert %x : tensor<32xf32, #tgpu.slice<1, #m>> -> tensor<32xf32, #tgpu.slice<0, #m>>
}

// -----

!out = !tile.view<[64, 64], f32>
tgpu.kernel @tile_in_role_of_one_thread target "sm_90a" warps 8 (%n: i32, %a: f32, %o: !out) grid(%i = 1) {
  tgpu.roles
    role "a" warps 4 {
      // expected-error @+1 {{'tgpu.take_tile' op must be in a role of one thread, but got one of several, which has more than copies and scalars}}
      %u = tgpu.take_tile of %n
      %x = tile.full %a : tensor<64x64xf32, #tgpu.mma<4, 1>>
      tgpu.store %x, %o[%u, 0] : tensor<64x64xf32, #tgpu.mma<4, 1>>, !out
    }
    role "b" warps 4 {
    }
}

// -----

#m = #tgpu.mma<4, 1>
tgpu.kernel @product_of_fp8 target "sm_90a" warps 4 (%a: f8E4M3FN, %f: f32) grid(%i = 1) {
  %x = tile.full %a : tensor<64x64xf8E4M3FN, #tgpu.operand<a, #m>>
  %y = tile.full %a : tensor<64x64xf8E4M3FN, #tgpu.operand<b, #m>>
  %z = tile.full %f : tensor<64x64xf32, #m>
  // expected-error @+1 {{mma.sync must be of f16, bf16 or f32 into f32 on sm_90a, but got 'tensor<64x64xf8E4M3FN, #tgpu.operand<a, #tgpu.mma<4, 1>>>' into 'f32'}}
  %d = tgpu.mma %x, %y, %z : tensor<64x64xf8E4M3FN, #tgpu.operand<a, #m>>, tensor<64x64xf8E4M3FN, #tgpu.operand<b, #m>> -> tensor<64x64xf32, #m>
}
