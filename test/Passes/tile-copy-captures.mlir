// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-copy-captures --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --tile-copy-captures --tile-to-tgpu="target=sm_90a warps=4" | FileCheck %s --check-prefix=TGPU

!bias = !tile.view<[?, ?, ?], bf16>
!part = tensor<64x32xbf16>

tile.capture @bias : !bias
tile.capture @table : !tile.view<[?, ?], f8E4M3FN>

// The row is assumed not to be broadcast. The load moves to its first use.
// CHECK-LABEL: tile.kernel @biased
// CHECK:         require(dim(x, 0) == dim(o, 0), ne(dim(bias, 1), 1))
// CHECK:         %[[VIEW:.*]] = tile.captured @bias
// CHECK:         scf.for
// CHECK:           arith.negf
// CHECK-NEXT:      tile.load %[[VIEW]][%{{.*}}, %{{.*}}, %{{.*}}] {tgpu.copied} : !tile.view<[?, ?, ?], bf16> -> tensor<64x32xbf16>
// CHECK-NEXT:      arith.addf

// TGPU-LABEL: tgpu.kernel @biased
// TGPU:         %[[BUFFER:.*]] = tgpu.alloc : !tgpu.shared<64x32xbf16, b64>
// TGPU:         scf.for
// TGPU:           tgpu.copy_async %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}], %[[BUFFER]] : !tile.view<[?, ?, ?], bf16>, !tgpu.shared<64x32xbf16, b64>
// TGPU:           tgpu.copy_wait pending 0
// TGPU:           tgpu.read %[[BUFFER]]
tile.kernel @biased params() require(dim(x, 0) == dim(o, 0))
    (%x: !tile.view<[?, ?], bf16>, %o: !tile.view<[?, ?], bf16>, %h: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant 32 : i32
  %m = arith.constant 64 : i32
  %columns = tile.dim %x, 1 : !tile.view<[?, ?], bf16>
  %all = tile.captured @bias : !bias
  %rows = tile.dim @bias, 1
  %is_same = arith.cmpi eq, %rows, %c1 : i32
  %view = tile.repeat %all dim 1 at %c0 when %is_same : !bias
  scf.for %n = %c0 to %columns step %c32 : i32 {
    %bias = tile.load %view[%h, %m, %n] : !bias -> !part
    %s = tile.load %x[%m, %n] : !tile.view<[?, ?], bf16> -> !part
    %negated = arith.negf %s : !part
    %t = arith.addf %negated, %bias : !part
    tile.store %t, %o[%m, %n] : !part, !tile.view<[?, ?], bf16>
  }
}

// Each thread loads tiles along another dimension, tiles broadcast for another reason, elements of 8 bits, and tiles
// that no loop reads.
// CHECK-LABEL: tile.kernel @others
// CHECK-NOT:   ne(
// CHECK-NOT:   tgpu.copied
// TGPU-LABEL:  tgpu.kernel @others
// TGPU-NOT:    tgpu.copy_async
tile.kernel @others params()
    (%x: !tile.view<[?, ?], bf16>, %o: !tile.view<[?, ?], bf16>, %h: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant 32 : i32
  %columns = tile.dim %x, 1 : !tile.view<[?, ?], bf16>
  %all = tile.captured @bias : !bias
  %table = tile.captured @table : !tile.view<[?, ?], f8E4M3FN>
  %is_first = arith.cmpi eq, %h, %c0 : i32
  %view = tile.repeat %all dim 1 at %c0 when %is_first : !bias
  %before = tile.load %all[%h, 0, 0] : !bias -> !part
  tile.store %before, %o[0, 0] : !part, !tile.view<[?, ?], bf16>
  scf.for %n = %c0 to %columns step %c32 : i32 {
    %a = tile.load %all[%h, %n, 0] dims [1, 0] : !bias -> !part
    %b2 = tile.load %view[%h, 0, %n] : !bias -> !part
    %bytes = tile.load %table[0, %n] : !tile.view<[?, ?], f8E4M3FN> -> tensor<64x32xf8E4M3FN>
    %sum = arith.addf %a, %b2 : !part
    tile.store %sum, %o[0, %n] : !part, !tile.view<[?, ?], bf16>
  }
}

// A transposed tile is copied in rows of the view, and read column by column.
// CHECK-LABEL: tile.kernel @transposed
// CHECK:       tile.load %{{.*}} dims [2, 1] {tgpu.copied}
// TGPU-LABEL:  tgpu.kernel @transposed
// TGPU:        tgpu.copy_async %{{.*}}, %[[BUFFER:.*]] : !tile.view<[?, ?, ?], bf16>, !tgpu.shared<32x64xbf16, b128>
// TGPU:        tgpu.read %[[BUFFER]] transpose : !tgpu.shared<32x64xbf16, b128> -> tensor<64x32xbf16,
tile.kernel @transposed params()
    (%x: !tile.view<[?, ?], bf16>, %o: !tile.view<[?, ?], bf16>, %h: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %columns = tile.dim %x, 1 : !tile.view<[?, ?], bf16>
  %all = tile.captured @bias : !bias
  scf.for %n = %c0 to %columns step %c32 : i32 {
    %a = tile.load %all[%h, %n, 0] dims [2, 1] : !bias -> !part
    tile.store %a, %o[0, %n] : !part, !tile.view<[?, ?], bf16>
  }
}
