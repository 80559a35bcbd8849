// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product and a barrier that no call reaches: an extent is never negative. Where the condition is forced, an error is.
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.mma<4, 1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!b = tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
!view = !tile.view<[?, 64], bf16>
tgpu.kernel @never target "sm_80" warps 4 (%x: !view) grid(%i = ceildiv(dim(x, 0), 64))
    attributes {shared_bytes = 16384 : i64} {
  %c0 = arith.constant 0 : i32
  %buffer = tgpu.alloc at 0 : !tile
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
    tgpu.sync
    %other = tgpu.alloc at 8192 : !tile
    %unwritten = tgpu.read %other : !tile -> !a
  }
}
