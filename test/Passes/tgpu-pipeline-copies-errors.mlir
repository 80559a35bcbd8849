// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops whose schedule is impossible for their copies.
// RUN: tilewright-opt %s --tgpu-pipeline-copies -split-input-file -verify-diagnostics

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
tgpu.kernel @no_copy target "sm_80" warps 4 (%x: !view, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-error @+1 {{loop cannot be pipelined: its body must have a copy, but has none; use the schedule skeleton=synchronous}}
  scf.for %k = %c0 to %n step %c1 : i32 {
    tgpu.sync
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
}

// -----

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
tgpu.kernel @ring target "sm_80" warps 4 (%x: !view, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !tile>
  scf.for %k = %c0 to %n step %c1 : i32 {
    %slot = tgpu.slot %ring[%k] : !tgpu.ring<2, !tile>
    // expected-error @+1 {{loop cannot be pipelined: the buffer of a copy must be the result of tgpu.alloc, but got a result of 'tgpu.slot'; use the schedule skeleton=synchronous}}
    tgpu.copy_async %x[%k, 0], %slot : !view, !tile
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
}

// -----

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
tgpu.kernel @outside target "sm_80" warps 4 (%x: !view, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  scf.for %k = %c0 to %n step %c1 : i32 {
    // expected-error @+1 {{loop cannot be pipelined: the buffer of a copy must be used only in the loop, but got 'tgpu.read' outside of it; use the schedule skeleton=synchronous}}
    tgpu.copy_async %x[%k, 0], %buffer : !view, !tile
    tgpu.copy_commit
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
  tgpu.copy_wait pending 0
  tgpu.sync
  %0 = tgpu.read %buffer : !tile -> !acc
}

// -----

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
tgpu.kernel @twice target "sm_80" warps 4 (%x: !view, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  scf.for %k = %c0 to %n step %c1 : i32 {
    tgpu.copy_async %x[%k, 0], %buffer : !view, !tile
    // expected-error @+1 {{loop cannot be pipelined: copies of an iteration must have different buffers, but got the buffer of another one; use the schedule skeleton=synchronous}}
    tgpu.copy_async %x[%k, 0], %buffer : !view, !tile
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
}

// -----

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
tgpu.kernel @written target "sm_80" warps 4 (%x: !view, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  scf.for %k = %c0 to %n step %c1 : i32 {
    // expected-error @+1 {{loop cannot be pipelined: the view that a copy reads must not be written in the loop, but is; use the schedule skeleton=synchronous}}
    tgpu.copy_async %x[%k, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %0 = tgpu.read %buffer : !tile -> !acc
    tgpu.store %0, %x[%k, 0] : !acc, !view
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
}

// -----

// Additions at indices are writes, through any view of the argument.
!view = !tile.view<[?, 64], f32>
!tile = !tgpu.shared<64x64xf32, b128>
!rows = tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
!acc = tensor<64x64xf32, #tgpu.mma<4, 1>>
tgpu.kernel @scattered target "sm_80" warps 4 (%x: !view, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  %half = tile.subview %x dim 0 from %c0 size %n : !view
  scf.for %k = %c0 to %n step %c1 : i32 {
    // expected-error @+1 {{loop cannot be pipelined: the view that a copy reads must not be written in the loop, but is; use the schedule skeleton=synchronous}}
    tgpu.copy_async %x[%k, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %0 = tgpu.read %buffer : !tile -> !acc
    %rows = tile.iota %k dim 0 : !rows
    tile.scatter_add %0, %half[0, 0] along 0 at %rows : !acc, !view, !rows
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
}

// -----

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
tgpu.kernel @carried target "sm_80" warps 4 (%x: !view, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  // expected-error @+1 {{loop cannot be pipelined: the indices of a copy must not depend on loop-carried values, but got an argument of 'scf.for'; use the schedule skeleton=synchronous}}
  %end = scf.for %k = %c0 to %n step %c1 iter_args(%at = %c0) -> i32 : i32 {
    tgpu.copy_async %x[%at, 0], %buffer : !view, !tile
    %next = arith.addi %at, %k : i32
    scf.yield %next : i32
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
}

// -----

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
tgpu.kernel @vote target "sm_80" warps 4 (%x: !view, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  %true = arith.constant true
  %all = tile.full %true : tensor<64x64xi1, #tgpu.mma<4, 1>>
  scf.for %k = %c0 to %n step %c1 : i32 {
    // expected-error @+1 {{loop cannot be pipelined: the indices of a copy must be computed by operations that may be executed ahead, but got 'tgpu.any'; use the schedule skeleton=synchronous}}
    %some = tgpu.any %all : tensor<64x64xi1, #tgpu.mma<4, 1>>
    %at = arith.extui %some : i1 to i32
    tgpu.copy_async %x[%at, 0], %buffer : !view, !tile
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
}
