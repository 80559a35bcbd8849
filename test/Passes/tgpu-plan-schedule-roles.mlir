// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The schedule of kernels with roles: stages limited by shared memory, the order of tiles determined by the ids that
// the operands depend on.
// RUN: tilewright-opt %s --tgpu-plan-schedule | FileCheck %s
// RUN: tilewright-opt %s --tgpu-plan-schedule='schedule=stages=2,group=4,store_buffers=0,in_flight=0,load_registers=24,compute_registers=240' | FileCheck %s --check-prefix=FIXED
// RUN: tilewright-opt %s --tgpu-plan-schedule=schedule=skeleton=synchronous | FileCheck %s --check-prefix=PLAIN
// RUN: sed 's/_buffer : !view, !\([xy]\)$/_buffer {tgpu.read_once} : !view, !\1/' %s | tilewright-opt --tgpu-plan-schedule \
// RUN:   | FileCheck %s --check-prefix=ONCE
// RUN: sed 's/x_buffer : !view, !x$/x_buffer {tgpu.read_once} : !view, !x/' %s | tilewright-opt --tgpu-plan-schedule \
// RUN:   | FileCheck %s --check-prefix=EITHER
// RUN: sed 's/ 128)) {$/ 128)) attributes {tgpu.most_stages = 3 : i64} {/' %s | tilewright-opt --tgpu-plan-schedule \
// RUN:   | FileCheck %s --check-prefix=MOST
// RUN: sed 's/ 128)) {$/ 128)) attributes {tgpu.most_stages = 0 : i64} {/' %s | tilewright-opt --tgpu-plan-schedule \
// RUN:   | FileCheck %s --check-prefix=ONCE
// RUN: not tilewright-opt %s --tgpu-plan-schedule=schedule=compute_registers=100 2>&1 | FileCheck %s --check-prefix=REGISTERS
// RUN: not tilewright-opt %s --tgpu-plan-schedule=schedule=group=many 2>&1 | FileCheck %s --check-prefix=GROUP
// RUN: not tilewright-opt %s --tgpu-plan-schedule=schedule=color=red 2>&1 | FileCheck %s --check-prefix=KEY
// RUN: not tilewright-opt %s --tgpu-plan-schedule='schedule=skeleton=producer_consumer' 2>&1 | FileCheck %s --check-prefix=MUST
//
// KEY: schedule: expected one of skeleton, stages, in_flight, keep_in_registers, copy_captures, skip_ones, turns, group, dynamic, tile_stages, store_buffers, reduce_stages, scratch_stages, compute_roles, late_products, load_roles, lend, load_registers and compute_registers, but got 'color'
// MUST: 'tgpu.kernel' op cannot be split into roles: the target must be sm_90a, but got
// PLAIN-NOT: tgpu.role_schedule
// REGISTERS: registers of a role must be a multiple of 8 from 24 to 240, but got 100
// GROUP: schedule: group must be a number from 0 to 255, but got 'many'

!x = !tgpu.shared<128x64xbf16, b128>
!y = !tgpu.shared<64x256xbf16, b128>
!view = !tile.view<[?, ?], bf16>
!acc = tensor<128x256xf32, #tgpu.wgmma<2>>
!out = tensor<128x256xbf16, #tgpu.wgmma<2>>
!half = tensor<128x128xf32, #tgpu.wgmma<2>>

// 4 x 48 KB and two buffers of 16 KB; the operand with twice as many bytes is read by half as many tiles.
// CHECK-LABEL: tgpu.kernel @product
// CHECK:         tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 16, store_buffers = 2>
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
// FIXED-LABEL: tgpu.kernel @product
// FIXED:         tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, group = 4>
// FIXED:         } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
// Two slots hold more than 64 KiB, if all comes from memory. Another limit is that of the kernel, but never less than two.
// ONCE-LABEL: tgpu.kernel @product
// ONCE:         } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
// EITHER-LABEL: tgpu.kernel @product
// EITHER:       } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
// MOST-LABEL: tgpu.kernel @product
// MOST:         } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 3, in_flight = 1>}
tgpu.kernel @product target "sm_90a" warps 8 (%a: !view, %b: !view, %c: !view)
    grid(%n = ceildiv(dim(c, 1), 256), %m = ceildiv(dim(c, 0), 128)) {
  %x_buffer = tgpu.alloc : !x
  %y_buffer = tgpu.alloc : !y
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %row = arith.muli %m, %c128 : i32
  %depth = tile.dim %a, 1 : !view
  %sum = scf.for %k = %c0 to %depth step %c64 iter_args(%old = %zeros) -> (!acc) : i32 {
    tgpu.sync
    tgpu.copy_async %a[%row, %k], %x_buffer : !view, !x
    tgpu.copy_async %b[%k, %n], %y_buffer : !view, !y
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %pending = tgpu.wgmma %x_buffer, %y_buffer, %old : !x, !y, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    scf.yield %new : !acc
  }
  %rounded = tile.cast %sum : !acc -> !out
  tgpu.store %rounded, %c[%row, %n] : !out, !view
}

// Both operands depend on the same id: the order of the grid. Results of an optional argument are stored from registers
// and need no buffers: six stages of 32 KB.
// CHECK-LABEL: tgpu.kernel @same_id
// CHECK:         tgpu.role_schedule = #tgpu.role_schedule<load_registers = 56, compute_registers = 240, group = 1, store_buffers = 2>
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 6, in_flight = 1>}
tgpu.kernel @same_id target "sm_90a" warps 4 (%a: !view, %c: optional !view)
    grid(%n = dim(a, 1), %m = dim(a, 0)) {
  %x_buffer = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %y_buffer = tgpu.alloc : !tgpu.shared<192x64xbf16, b128>
  %c0 = arith.constant 0 : i32
  %depth = tile.dim %a, 1 : !view
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : tensor<64x192xf32, #tgpu.wgmma<1>>
  %sum = scf.for %k = %c0 to %depth step %c64 iter_args(%old = %zeros) -> (tensor<64x192xf32, #tgpu.wgmma<1>>) : i32 {
    tgpu.sync
    tgpu.copy_async %a[%m, %k], %x_buffer : !view, !tgpu.shared<64x64xbf16, b128>
    tgpu.copy_async %a[%m, %k], %y_buffer : !view, !tgpu.shared<192x64xbf16, b128>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %pending = tgpu.wgmma %x_buffer, %y_buffer transpose_b, %old : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<192x64xbf16, b128>, tensor<64x192xf32, #tgpu.wgmma<1>> -> tensor<64x192xf32, #tgpu.wgmma<1>>
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : tensor<64x192xf32, #tgpu.wgmma<1>>
    scf.yield %new : tensor<64x192xf32, #tgpu.wgmma<1>>
  }
  %rounded = tile.cast %sum : tensor<64x192xf32, #tgpu.wgmma<1>> -> tensor<64x192xbf16, #tgpu.wgmma<1>>
  tgpu.store %rounded, %c[%m, %n] : tensor<64x192xbf16, #tgpu.wgmma<1>>, !view
}

!t = tensor<64x64xf32, #tgpu.wgmma<1>>
!t16 = tensor<64x64xbf16, #tgpu.wgmma<1>>
!t_a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>

// An iteration that adds to two sums, to one of them a combination of two products, keeps its order: overlapped with
// the next iteration, both products would be live with the sums.
// CHECK-LABEL: tgpu.kernel @combined
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = {{[0-9]}}, in_flight = 2>}
tgpu.kernel @combined target "sm_90a" warps 4 (%a: !view, %c: optional !view)
    grid(%n = dim(a, 1), %m = dim(a, 0)) {
  %x = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %y = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %c0 = arith.constant 0 : i32
  %depth = tile.dim %a, 1 : !view
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !t
  %sums:2 = scf.for %k = %c0 to %depth step %c64 iter_args(%dv = %zeros, %dk = %zeros) -> (!t, !t) : i32 {
    tgpu.sync
    tgpu.copy_async %a[%m, %k], %x : !view, !tgpu.shared<64x64xbf16, b128>
    tgpu.copy_async %a[%n, %k], %y : !view, !tgpu.shared<64x64xbf16, b128>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %x, %y transpose_b : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> !t
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !t
    %s16 = tile.cast %s : !t -> !t16
    %s_a = tgpu.convert %s16 : !t16 -> !t_a
    %dv_pending = tgpu.wgmma %s_a, %x, %dv : !t_a, !tgpu.shared<64x64xbf16, b128>, !t -> !t
    tgpu.wgmma_commit
    %dv_new = tgpu.wgmma_wait pending 0, %dv_pending : !t
    %dp_pending = tgpu.wgmma %y, %x transpose_b : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> !t
    tgpu.wgmma_commit
    %dp = tgpu.wgmma_wait pending 0, %dp_pending : !t
    %ds = arith.mulf %s, %dp : !t
    %ds16 = tile.cast %ds : !t -> !t16
    %ds_a = tgpu.convert %ds16 : !t16 -> !t_a
    %dk_pending = tgpu.wgmma %ds_a, %y, %dk : !t_a, !tgpu.shared<64x64xbf16, b128>, !t -> !t
    tgpu.wgmma_commit
    %dk_new = tgpu.wgmma_wait pending 0, %dk_pending : !t
    scf.yield %dv_new, %dk_new : !t, !t
  }
  %sum = arith.addf %sums#0, %sums#1 : !t
  %rounded = tile.cast %sum : !t -> !t16
  tgpu.store %rounded, %c[%m, %n] : !t16, !view
}

// The number of iterations depends on the tile: blocks take the next tile when they are done, and tiles of several
// steps of the second id form a group, in which the first id is the fastest.
// CHECK-LABEL: tgpu.kernel @varies
// CHECK:         tgpu.role_schedule = #tgpu.role_schedule<load_registers = 56, compute_registers = 240, group = 32, store_buffers = 2, dynamic = 1>
tgpu.kernel @varies target "sm_90a" warps 4 (%a: !view, %c: optional !view)
    grid(%n = dim(a, 1), %m = dim(a, 0)) {
  %x_buffer = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %y_buffer = tgpu.alloc : !tgpu.shared<192x64xbf16, b128>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : tensor<64x192xf32, #tgpu.wgmma<1>>
  %sum = scf.for %k = %c0 to %m step %c64 iter_args(%old = %zeros) -> (tensor<64x192xf32, #tgpu.wgmma<1>>) : i32 {
    tgpu.sync
    tgpu.copy_async %a[%m, %k], %x_buffer : !view, !tgpu.shared<64x64xbf16, b128>
    tgpu.copy_async %a[%m, %k], %y_buffer : !view, !tgpu.shared<192x64xbf16, b128>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %pending = tgpu.wgmma %x_buffer, %y_buffer transpose_b, %old : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<192x64xbf16, b128>, tensor<64x192xf32, #tgpu.wgmma<1>> -> tensor<64x192xf32, #tgpu.wgmma<1>>
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : tensor<64x192xf32, #tgpu.wgmma<1>>
    scf.yield %new : tensor<64x192xf32, #tgpu.wgmma<1>>
  }
  %rounded = tile.cast %sum : tensor<64x192xf32, #tgpu.wgmma<1>> -> tensor<64x192xbf16, #tgpu.wgmma<1>>
  tgpu.store %rounded, %c[%m, %n] : tensor<64x192xbf16, #tgpu.wgmma<1>>, !view
}

// Warpgroups skip iterations in which they have no rows, so tiles may differ in length: blocks take the next tile when
// they are done, in the order of the grid.
// CHECK-LABEL: tgpu.kernel @ends_early
// CHECK:         tgpu.role_schedule = #tgpu.role_schedule<load_registers = 56, compute_registers = 224, group = 1, store_buffers = 2, dynamic = 1>
tgpu.kernel @ends_early target "sm_90a" warps 8 (%a: !view, %c: !view) grid(%m = ceildiv(dim(a, 0), 128)) {
  %x_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !half
  %row = arith.muli %m, %c128 : i32
  %rows = tile.dim %a, 0 : !view
  %left = arith.subi %rows, %row : i32
  %rounds = arith.ceildivsi %rows, %c128 : i32
  %second_idles = arith.cmpi sle, %left, %c64 : i32
  %first_of_second = arith.select %second_idles, %rounds, %c0 : i32
  %first = tgpu.first_round %c0 of %c0, %first_of_second
  %sum = scf.for %i = %first to %rounds step %c1 iter_args(%old = %zeros) -> (!half) : i32 {
    %n = arith.muli %i, %c128 : i32
    tgpu.sync
    tgpu.copy_async %a[%n, 0], %x_buffer : !view, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %pending = tgpu.wgmma %x_buffer, %x_buffer transpose_b, %old : !x, !x, !half -> !half
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !half
    scf.yield %new : !half
  }
  %rounded = tile.cast %sum : !half -> tensor<128x128xbf16, #tgpu.wgmma<2>>
  tgpu.store %rounded, %c[%row, 0] : tensor<128x128xbf16, #tgpu.wgmma<2>>, !view
}

// The blocks of a head read its keys. Rows of less than 128 bytes: four heads at a time.
!heads = !tile.view<[?, ?, 48], bf16>
!keys = !tgpu.shared<128x48xbf16, b32>
// CHECK-LABEL: tgpu.kernel @narrow_rows
// CHECK:         tgpu.role_schedule = #tgpu.role_schedule<load_registers = {{[0-9]+}}, compute_registers = {{[0-9]+}}, group = 4,
tgpu.kernel @narrow_rows target "sm_90a" warps 8 (%a: !heads, %c: !heads)
    grid(%m = ceildiv(dim(a, 1), 128), %h = dim(a, 0)) {
  %x_buffer = tgpu.alloc : !keys
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !half
  %row = arith.muli %m, %c128 : i32
  %rows = tile.dim %a, 1 : !heads
  %sum = scf.for %n = %c0 to %rows step %c128 iter_args(%old = %zeros) -> (!half) : i32 {
    tgpu.sync
    tgpu.copy_async %a[%h, %n, 0], %x_buffer : !heads, !keys
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %pending = tgpu.wgmma %x_buffer, %x_buffer transpose_b, %old : !keys, !keys, !half -> !half
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !half
    scf.yield %new : !half
  }
  %rounded = tile.cast %sum : !half -> tensor<128x128xbf16, #tgpu.wgmma<2>>
  tgpu.store %rounded, %c[%h, %row, 0] : tensor<128x128xbf16, #tgpu.wgmma<2>>, !heads
}

// Rows of 128 bytes: one head after the other.
!wide_heads = !tile.view<[?, ?, 64], bf16>
!wide_keys = !tgpu.shared<128x64xbf16, b128>
// CHECK-LABEL: tgpu.kernel @rows_of_a_line
// CHECK:         group = 1,
tgpu.kernel @rows_of_a_line target "sm_90a" warps 8 (%a: !wide_heads, %c: !wide_heads)
    grid(%m = ceildiv(dim(a, 1), 128), %h = dim(a, 0)) {
  %x_buffer = tgpu.alloc : !wide_keys
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !half
  %row = arith.muli %m, %c128 : i32
  %rows = tile.dim %a, 1 : !wide_heads
  %sum = scf.for %n = %c0 to %rows step %c128 iter_args(%old = %zeros) -> (!half) : i32 {
    tgpu.sync
    tgpu.copy_async %a[%h, %n, 0], %x_buffer : !wide_heads, !wide_keys
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %pending = tgpu.wgmma %x_buffer, %x_buffer transpose_b, %old : !wide_keys, !wide_keys, !half -> !half
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !half
    scf.yield %new : !half
  }
  %rounded = tile.cast %sum : !half -> tensor<128x128xbf16, #tgpu.wgmma<2>>
  tgpu.store %rounded, %c[%h, %row, 0] : tensor<128x128xbf16, #tgpu.wgmma<2>>, !wide_heads
}

// Without a request for roles, the kernel is planned as on any target.
// CHECK-LABEL: tgpu.kernel @older
// CHECK-NOT:     tgpu.role_schedule
tgpu.kernel @older target "sm_80" warps 4 (%a: !view) grid(%n = 1) {
}
