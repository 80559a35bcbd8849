// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Synchronization that no launch reaches gives one warning for each line of the source, whatever its copies.

// RUN: tilewright-opt %s --tgpu-verify-sync -o /dev/null 2>&1 | FileCheck %s --implicit-check-not=warning
// CHECK: author.mlir:7:3: warning: 'tgpu.sync' is not checked: no launch that tgpu-verify-sync plays reaches it
// CHECK: author.mlir:8:3: warning: 'tgpu.sync' is not checked

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!acc = tensor<64x64xf32, #tgpu.mma<4, 1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!b = tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
!view = !tile.view<[?, 64], bf16>
tgpu.kernel @never target "sm_80" warps 4 (%x: !view) grid(%i = ceildiv(dim(x, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %buffer = tgpu.alloc : !tile
  tgpu.copy_async %x[%i, 0], %buffer : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %left = tgpu.read %buffer : !tile -> !a
  %right = tgpu.read %buffer : !tile -> !b
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %rows = tile.dim %x, 0 : !view
  %never = arith.cmpi slt, %rows, %c0 : i32
  scf.if %never {
    %product = tgpu.mma %left, %right, %zeros : !a, !b -> !acc
    tgpu.sync loc("author.mlir":7:3)
    %other = tgpu.alloc : !tile
    %unwritten = tgpu.read %other : !tile -> !r
  }
  scf.if %never {
    %product = tgpu.mma %left, %right, %zeros : !a, !b -> !acc
    tgpu.sync loc("author.mlir":7:9)
    %other = tgpu.alloc : !tile
    %unwritten = tgpu.read %other : !tile -> !r
  }
  scf.if %never {
    %product = tgpu.mma %left, %right, %zeros : !a, !b -> !acc
    tgpu.sync loc("author.mlir":8:3)
    %other = tgpu.alloc : !tile
    %unwritten = tgpu.read %other : !tile -> !r
  }
}
