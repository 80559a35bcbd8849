// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels whose loops copy, or that load two tiles one after the other, get a second form of code, for views of aligned addresses and
// strides. It asks none of the questions that such views have answered; extents that are not known it still looks at.
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s --implicit-check-not=.entry
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s --check-prefix=ADD

#blocked = #tgpu.blocked<4, lanes 16, warps 4, 1>

// x and the row are copied by elements where they must be, "open" in either form: it is not known whether its rows end with a chunk.
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

// Additions to a tile that is inside as a whole have no predicate; those to others do.
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

// Nothing is copied in a loop: one form.
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

// One form where the other's name is taken.
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

// Two tiles, the second of a part of a view, which is aligned as the view: all loads before their first use, and no branch.
// CHECK:         .entry pair(
// CHECK:         bra
// CHECK:         .entry pair_aligned(
// CHECK-NOT:     bra
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK-NOT:     ld.global
// CHECK:         ret;
tgpu.kernel @pair target "sm_80" warps 4
    (%x: !tile.view<[?, 64], f32>, %y: !tile.view<[?, 64], f32>, %z: !tile.view<[?, 64], f32>, %from: i32, %size: i32) grid(%i = 1) {
  %part = tile.subview %y dim 0 from %from size %size : !tile.view<[?, 64], f32>
  %t = tgpu.load %x[0, 0] : !tile.view<[?, 64], f32> -> tensor<32x64xf32, #blocked>
  %u = tgpu.load %part[0, 0] : !tile.view<[?, 64], f32> -> tensor<32x64xf32, #blocked>
  %v = arith.addf %t, %u : tensor<32x64xf32, #blocked>
  tgpu.store %v, %z[0, 0] : tensor<32x64xf32, #blocked>, !tile.view<[?, 64], f32>
}

// One tile has nothing to wait for.
// CHECK:         .entry single(
tgpu.kernel @single target "sm_80" warps 4 (%x: !tile.view<[?, 64], f32>, %z: !tile.view<[?, 64], f32>) grid(%i = 1) {
  %t = tgpu.load %x[0, 0] : !tile.view<[?, 64], f32> -> tensor<32x64xf32, #blocked>
  tgpu.store %t, %z[0, 0] : tensor<32x64xf32, #blocked>, !tile.view<[?, 64], f32>
}
