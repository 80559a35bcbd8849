// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a product of tgpu must not overwrite.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %a = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{'overwriting' must be followed by a finished tile, computed in this block, without uses after the product or in other blocks, but got none}}
  %0 = tgpu.wgmma %a, %b transpose_b {overwriting} : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<64x64xf32, #tgpu.wgmma<1>>
}

// -----

!b = !tgpu.shared<64x64xbf16, b128>
!o = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @k target "sm_90a" warps 4 (%out: !tile.view<[?, 64], f32>) grid(%i = 1) {
  %a = tgpu.alloc : !b
  %0 = tgpu.wgmma %a, %a transpose_b : !b, !b -> !o
  tgpu.wgmma_commit
  %1 = tgpu.wgmma_wait pending 0, %0 : !o
  // expected-error @+1 {{'overwriting' must be followed by a finished tile, computed in this block, without uses after the product or in other blocks, but got one with such a use}}
  %2 = tgpu.wgmma %a, %a transpose_b, overwriting %1 : !b, !b, !o -> !o
  tgpu.wgmma_commit
  %3 = tgpu.wgmma_wait pending 0, %2 : !o
  tgpu.store %1, %out[0, 0] : !o, !tile.view<[?, 64], f32>
}

// -----

!b = !tgpu.shared<64x64xbf16, b128>
!o = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %a = tgpu.alloc : !b
  %0 = tgpu.wgmma %a, %a transpose_b : !b, !b -> !o
  // expected-error @+1 {{'overwriting' must be followed by a finished tile, computed in this block, without uses after the product or in other blocks, but got a pending one}}
  %1 = tgpu.wgmma %a, %a transpose_b, overwriting %0 : !b, !b, !tgpu.pending<!o> -> !o
}

// -----

!b = !tgpu.shared<64x64xbf16, b128>
!o = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %a = tgpu.alloc : !b
  %0 = tgpu.wgmma %a, %a transpose_b : !b, !b -> !o
  tgpu.wgmma_commit
  %1 = tgpu.wgmma_wait pending 0, %0 : !o
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %2 = scf.for %n = %c0 to %c1 step %c1 iter_args(%old = %1) -> (!o) : i32 {
    // expected-error @+1 {{'overwriting' must be followed by a finished tile, computed in this block, without uses after the product or in other blocks, but got one that is not computed in it}}
    %3 = tgpu.wgmma %a, %a transpose_b, overwriting %old : !b, !b, !o -> !o
    tgpu.wgmma_commit
    %4 = tgpu.wgmma_wait pending 0, %3 : !o
    scf.yield %4 : !o
  }
}
