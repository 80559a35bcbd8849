// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels with a role schedule that cannot be split into roles.
// RUN: tilewright-opt %s --tgpu-assign-roles -split-input-file -verify-diagnostics

// The copied buffer is never read.
!view = !tile.view<[?, ?], bf16>
!b = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @unread target "sm_90a" warps 4 (%a: !view, %o: !tile.view<[?, ?], f32>, %n: i32) grid(%i = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 0>} {
  %b = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    // expected-error @+1 {{kernel cannot be split into roles: the copied buffer must be read, but has no reader; use the schedule skeleton=synchronous}}
    tgpu.copy_async %a[%m, 0], %b : !view, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    scf.yield %old : !acc
  }
  tgpu.store %s, %o[0, 0] : !acc, !tile.view<[?, ?], f32>
}

// -----

!view = !tile.view<[?, ?], bf16>
!b = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @pending target "sm_90a" warps 4 (%a: !view, %o: !tile.view<[?, ?], f32>, %n: i32) grid(%i = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 0>} {
  %b = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !view, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    // expected-error @+1 {{kernel cannot be split into roles: the result of a product must have one use, its wait for all groups, but got a wait that leaves groups pending; use the schedule skeleton=synchronous}}
    %p = tgpu.wgmma %b, %b transpose_b, %old : !b, !b, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 1, %p : !acc
    tgpu.sync
    scf.yield %new : !acc
  }
  tgpu.store %s, %o[0, 0] : !acc, !tile.view<[?, ?], f32>
}

// -----

!view = !tile.view<[?, ?], bf16>
!b = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @while target "sm_90a" warps 4 (%a: !view, %o: !tile.view<[?, ?], f32>, %n: i32) grid(%i = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 0>} {
  %b = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %r = scf.while (%m = %c0) : (i32) -> i32 {
    %go = arith.cmpi slt, %m, %n : i32
    scf.condition(%go) %m : i32
  } do {
  ^bb0(%m: i32):
    // expected-error @+1 {{kernel cannot be split into roles: a copy must be nested in scf.for and scf.if only, but got 'scf.while'; use the schedule skeleton=synchronous}}
    tgpu.copy_async %a[%m, 0], %b : !view, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %none : !b, !b, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    tgpu.sync
    %next = arith.addi %m, %c64 : i32
    scf.yield %next : i32
  }
}

// -----

!view = !tile.view<[?, ?], bf16>
!b = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
// expected-error @+1 {{kernel cannot be split into roles: it must have a copy, but has none; use the schedule skeleton=synchronous}}
tgpu.kernel @nothing target "sm_90a" warps 4 (%a: !view, %o: !tile.view<[?, ?], f32>, %n: i32) grid(%i = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 0>} {
  %b = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  tgpu.store %none, %o[0, 0] : !acc, !tile.view<[?, ?], f32>
}

// -----

// A target without roles.
!view = !tile.view<[?, ?], bf16>
!b = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.mma<4, 1>>
// expected-error @+1 {{can be split into roles for target sm_90a only, but got sm_80}}
tgpu.kernel @older target "sm_80" warps 4 (%a: !view, %o: !tile.view<[?, ?], f32>, %n: i32) grid(%i = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 0>} {
  %b = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !view, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %r = tgpu.read %b : !b -> tensor<64x64xbf16, #tgpu.mma<4, 1>>
    %f = tile.cast %r : tensor<64x64xbf16, #tgpu.mma<4, 1>> -> !acc
    %new = arith.addf %old, %f : !acc
    scf.yield %new : !acc
  }
  tgpu.store %s, %o[0, 0] : !acc, !tile.view<[?, ?], f32>
}

// -----

// A slot of a ring is no buffer of its own.
!view = !tile.view<[?, ?], bf16>
!b = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @slot target "sm_90a" warps 4 (%a: !view, %o: !tile.view<[?, ?], f32>, %n: i32) grid(%i = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 0>} {
  %c0 = arith.constant 0 : i32
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !b>
  %b = tgpu.slot %ring[%c0] : !tgpu.ring<2, !b>
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    // expected-error @+1 {{kernel cannot be split into roles: the buffer of a copy must be the result of tgpu.alloc, but got a result of 'tgpu.slot'; use the schedule skeleton=synchronous}}
    tgpu.copy_async %a[%m, 0], %b : !view, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    scf.yield %old : !acc
  }
  tgpu.store %s, %o[0, 0] : !acc, !tile.view<[?, ?], f32>
}
