// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In nested loops, the load role has 40 registers, but 24 if a branch with an invariant condition becomes two loops.
// RUN: tilewright-opt %s --tgpu-plan-schedule | FileCheck %s

!x = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?, ?], bf16>
!sums = !tile.view<[?, ?], f32>
!row_view = !tile.view<[?], f32>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!row = tensor<128xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>

// CHECK-LABEL: tgpu.kernel @one_version
// CHECK:         load_registers = 40, compute_registers = 232
// CHECK-LABEL: tgpu.kernel @two_versions
// CHECK:         load_registers = 24, compute_registers = 240
tgpu.kernel @one_version target "sm_90a" warps 8 (%a: !view, %b: !view, %c: !sums, %rows: !row_view, %batches: i32)
    grid(%n = ceildiv(dim(c, 1), 128), %m = ceildiv(dim(c, 0), 128)) {
  %a_buffer = tgpu.alloc : !x
  %b_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !s
  %row = arith.muli %m, %c128 : i32
  %column = arith.muli %n, %c128 : i32
  %depth = tile.dim %a, 2 : !view
  %all = scf.for %batch = %c0 to %batches step %c1 iter_args(%of_all = %zeros) -> (!s) : i32 {
    %some = scf.for %head = %c0 to %batches step %c1 iter_args(%of_some = %of_all) -> (!s) : i32 {
      %sum = scf.for %k = %c0 to %depth step %c64 iter_args(%old = %of_some) -> (!s) : i32 {
        tgpu.sync
        tgpu.copy_async %a[%head, %row, %k], %a_buffer : !view, !x
        tgpu.copy_async %b[%batch, %column, %k], %b_buffer : !view, !x
        tgpu.copy_commit
        tgpu.copy_wait pending 0
        tgpu.sync
        %first_pending = tgpu.wgmma %a_buffer, %b_buffer transpose_b : !x, !x -> !s
        tgpu.wgmma_commit
        %first = tgpu.wgmma_wait pending 0, %first_pending : !s
        %second_pending = tgpu.wgmma %b_buffer, %a_buffer transpose_b : !x, !x -> !s
        tgpu.wgmma_commit
        %second = tgpu.wgmma_wait pending 0, %second_pending : !s
        %term = arith.mulf %first, %second : !s
        %new = arith.addf %old, %term : !s
        scf.yield %new : !s
      }
      scf.yield %sum : !s
    }
    scf.yield %some : !s
  }
  tgpu.store %all, %c[%row, %column] : !s, !sums
}

tgpu.kernel @two_versions target "sm_90a" warps 8 (%a: !view, %b: !view, %c: !sums, %rows: !row_view, %batches: i32)
    grid(%n = ceildiv(dim(c, 1), 128), %m = ceildiv(dim(c, 0), 128)) {
  %a_buffer = tgpu.alloc : !x
  %b_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !s
  %row = arith.muli %m, %c128 : i32
  %column = arith.muli %n, %c128 : i32
  %depth = tile.dim %a, 2 : !view
  %is_one = arith.cmpi eq, %batches, %c1 : i32
  %all = scf.for %batch = %c0 to %batches step %c1 iter_args(%of_all = %zeros) -> (!s) : i32 {
    %some = scf.for %head = %c0 to %batches step %c1 iter_args(%of_some = %of_all) -> (!s) : i32 {
      %sum = scf.for %k = %c0 to %depth step %c64 iter_args(%old = %of_some) -> (!s) : i32 {
        tgpu.sync
        tgpu.copy_async %a[%head, %row, %k], %a_buffer : !view, !x
        tgpu.copy_async %b[%batch, %column, %k], %b_buffer : !view, !x
        tgpu.copy_commit
        tgpu.copy_wait pending 0
        tgpu.sync
        %first_pending = tgpu.wgmma %a_buffer, %b_buffer transpose_b : !x, !x -> !s
        tgpu.wgmma_commit
        %first = tgpu.wgmma_wait pending 0, %first_pending : !s
        %second_pending = tgpu.wgmma %b_buffer, %a_buffer transpose_b : !x, !x -> !s
        tgpu.wgmma_commit
        %second = tgpu.wgmma_wait pending 0, %second_pending : !s
        %near = scf.if %is_one -> (!s) {
          scf.yield %first : !s
        } else {
          %extra = tgpu.load %rows[%row] : !row_view -> !row
          %each = tile.expand %extra dim 0 : !row -> !s
          %difference = arith.subf %first, %each : !s
          scf.yield %difference : !s
        }
        %term = arith.mulf %near, %second : !s
        %new = arith.addf %old, %term : !s
        scf.yield %new : !s
      }
      scf.yield %sum : !s
    }
    scf.yield %some : !s
  }
  tgpu.store %all, %c[%row, %column] : !s, !sums
}
