// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels with copies in a loop, or with two consecutive loads, get a second form of code, for views with aligned
// addresses and strides. It omits the checks that alignment makes redundant, but still checks extents that are not
// known.
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s --implicit-check-not=.entry
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s --check-prefix=ADD
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s --check-prefix=BLOCKS --implicit-check-not=.minnctapersm

#blocked = #tgpu.blocked<4, lanes 16, warps 4, 1>

// x and the row are copied element by element if they are not aligned, "open" in both forms: its rows may end inside a
// chunk.
// CHECK:         .entry sums(
// CHECK-COUNT-4: cp.async.cg.shared.global [{{.*}}, 16
// CHECK:         cp.async.ca.shared.global [{{.*}}, 4
// CHECK-COUNT-4: cp.async.cg.shared.global [{{.*}}, 16
// CHECK-NOT:     cp.async.c{{[ag]}}
// CHECK-COUNT-9: ld.global.b32
// CHECK-NOT:     ld.global.b32
// CHECK:         .entry sums_aligned(
// CHECK-COUNT-4: cp.async.cg.shared.global [{{.*}}, 16
// CHECK:         cp.async.ca.shared.global [{{.*}}, 4
// CHECK-COUNT-4: cp.async.cg.shared.global [{{.*}}, 16
// CHECK-NOT:     cp.async.c{{[ag]}}
// CHECK-COUNT-4: ld.global.b32
// CHECK-NOT:     ld.global.b32

// Additions to a tile that is entirely in bounds have no predicate; others have one.
// ADD:           .entry sums(
// ADD-COUNT-16:  @%p{{[0-9]+}} red.global.add.f32
// ADD-COUNT-16:  {{^[[:space:]]*}}red.global.add.f32
// ADD-NOT:       red.global.add.f32
// ADD:           .entry sums_aligned(
// ADD-COUNT-16:  @%p{{[0-9]+}} red.global.add.f32
// ADD-COUNT-16:  {{^[[:space:]]*}}red.global.add.f32
// ADD-NOT:       red.global.add.f32
tgpu.kernel @sums target "sm_80" warps 4
    (%x: !tile.view<[?, 64], f32>, %row: !tile.view<[?], f32>, %open: !tile.view<[?, ?], f32>, %y: !tile.view<[?, 64], f32>)
    grid(%i = 1) attributes {shared_bytes = 16640 : i64} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant 32 : i32
  %c9 = arith.constant 9 : i32
  %a = tgpu.alloc at 0 : !tgpu.shared<32x64xf32, none>
  %b = tgpu.alloc at 8192 : !tgpu.shared<32x64xf32, none>
  %r = tgpu.alloc at 16384 : !tgpu.shared<64xf32, none>
  scf.for %j = %c0 to %c9 step %c1 : i32 {
    %m = arith.muli %j, %c32 : i32
    tgpu.sync
    tgpu.copy_async %x[%m, 0], %a : !tile.view<[?, 64], f32>, !tgpu.shared<32x64xf32, none>
    tgpu.copy_async %row[%m], %r : !tile.view<[?], f32>, !tgpu.shared<64xf32, none>
    tgpu.copy_async %open[%m, 0], %b : !tile.view<[?, ?], f32>, !tgpu.shared<32x64xf32, none>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %t = tgpu.read %a : !tgpu.shared<32x64xf32, none> -> tensor<32x64xf32, #blocked>
    tgpu.atomic_add %t, %y[%m, 0] : tensor<32x64xf32, #blocked>, !tile.view<[?, 64], f32>
  }
}

// No copy in a loop: one form.
// CHECK:         .entry once(
tgpu.kernel @once target "sm_80" warps 4 (%x: !tile.view<[?, 64], f32>, %y: !tile.view<[?, 64], f32>)
    grid(%i = 1) attributes {shared_bytes = 8192 : i64} {
  %a = tgpu.alloc at 0 : !tgpu.shared<32x64xf32, none>
  tgpu.copy_async %x[0, 0], %a : !tile.view<[?, 64], f32>, !tgpu.shared<32x64xf32, none>
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %t = tgpu.read %a : !tgpu.shared<32x64xf32, none> -> tensor<32x64xf32, #blocked>
  tgpu.store %t, %y[0, 0] : tensor<32x64xf32, #blocked>, !tile.view<[?, 64], f32>
}

// One form if the name of the second is already used.
// CHECK:         .entry taken(
// CHECK:         .entry taken_aligned(
tgpu.kernel @taken target "sm_80" warps 4 (%x: !tile.view<[?, 64], f32>) grid(%i = 1) attributes {shared_bytes = 8192 : i64} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c9 = arith.constant 9 : i32
  %a = tgpu.alloc at 0 : !tgpu.shared<32x64xf32, none>
  scf.for %j = %c0 to %c9 step %c1 : i32 {
    tgpu.copy_async %x[%j, 0], %a : !tile.view<[?, 64], f32>, !tgpu.shared<32x64xf32, none>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
  }
}
tgpu.kernel @taken_aligned target "sm_80" warps 4 (%x: !tile.view<[?], f32>) grid(%i = 1) {
}

// Two tiles, the second of a part of a view, which has the alignment of the view: all loads are issued before their
// first use, without a branch.
// CHECK:         .entry pair(
// CHECK:         bra
// CHECK:         .entry pair_aligned(
// CHECK-NOT:     bra
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK-NOT:     ld.global
// CHECK:         ret;
// ptxas takes the registers of both tiles, 32, two for each view, and 10: 10 blocks of 128 threads have 48 each.
// BLOCKS:        .entry pair_aligned(
// BLOCKS:        .minnctapersm 10
tgpu.kernel @pair target "sm_80" warps 4
    (%x: !tile.view<[?, 64], f32>, %y: !tile.view<[?, 64], f32>, %z: !tile.view<[?, 64], f32>, %from: i32, %size: i32) grid(%i = 1) {
  %part = tile.subview %y dim 0 from %from size %size : !tile.view<[?, 64], f32>
  %t = tgpu.load %x[0, 0] : !tile.view<[?, 64], f32> -> tensor<32x64xf32, #blocked>
  %u = tgpu.load %part[0, 0] : !tile.view<[?, 64], f32> -> tensor<32x64xf32, #blocked>
  %v = arith.addf %t, %u : tensor<32x64xf32, #blocked>
  tgpu.store %v, %z[0, 0] : tensor<32x64xf32, #blocked>, !tile.view<[?, 64], f32>
}

// A sum that has two uses takes 16 registers more.
// CHECK:         .entry twice(
// CHECK:         .entry twice_aligned(
// BLOCKS:        .entry twice_aligned(
// BLOCKS:        .minnctapersm 8
tgpu.kernel @twice target "sm_80" warps 4
    (%x: !tile.view<[?, 64], f32>, %y: !tile.view<[?, 64], f32>, %z: !tile.view<[?, 64], f32>) grid(%i = 1) {
  %t = tgpu.load %x[0, 0] : !tile.view<[?, 64], f32> -> tensor<32x64xf32, #blocked>
  %u = tgpu.load %y[0, 0] : !tile.view<[?, 64], f32> -> tensor<32x64xf32, #blocked>
  %v = arith.addf %t, %u : tensor<32x64xf32, #blocked>
  %w = arith.mulf %v, %v : tensor<32x64xf32, #blocked>
  tgpu.store %w, %z[0, 0] : tensor<32x64xf32, #blocked>, !tile.view<[?, 64], f32>
}

// With one tile, there is no other load to issue first.
// CHECK:         .entry single(
tgpu.kernel @single target "sm_80" warps 4 (%x: !tile.view<[?, 64], f32>, %z: !tile.view<[?, 64], f32>) grid(%i = 1) {
  %t = tgpu.load %x[0, 0] : !tile.view<[?, 64], f32> -> tensor<32x64xf32, #blocked>
  tgpu.store %t, %z[0, 0] : tensor<32x64xf32, #blocked>, !tile.view<[?, 64], f32>
}
