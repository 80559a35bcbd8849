// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rings with fewer or more slots than the loop has stages.
// RUN: tilewright-opt %s -split-input-file --tgpu-plan-schedule | FileCheck %s
// RUN: not tilewright-opt %s -split-input-file --tgpu-plan-schedule='schedule=stages=2' 2> %t.errors \
// RUN:   | FileCheck %s --check-prefix=FIXED
// RUN: FileCheck %s --check-prefix=ERRORS --input-file=%t.errors
// RUN: not tilewright-opt %s -split-input-file --tgpu-plan-schedule='schedule=skeleton=producer_consumer' \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=MUST --implicit-check-not=error:
// RUN: sed 's/%k_buffer :/%k_buffer {tgpu.ring_stages = 4 : i64} :/' %s \
// RUN:   | tilewright-opt -split-input-file --tgpu-plan-schedule | FileCheck %s --check-prefix=AUTHOR
//
// ERRORS: error: 'tgpu.kernel' op cannot be split into roles: rings of two stages do not fit into shared memory; use smaller blocks
// ERRORS-NEXT: tgpu.kernel @one_slot
// MUST: error: 'tgpu.kernel' op cannot be split into roles: rings of two stages do not fit into shared memory; use smaller blocks
// MUST-NEXT: tgpu.kernel @all_one_slot

!view = !tile.view<[?, ?], bf16>
!f32_view = !tile.view<[?, ?], f32>
!tile = !tgpu.shared<128x192xbf16, b128>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!s16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!s_a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!acc = tensor<128x192xf32, #tgpu.wgmma<2>>

// Two slots of 48 KB for each operand do not fit with another 48 KB. One is enough for %k, since the iteration waits
// for its product; %v, which is also read by a product that may run into the next iteration, has two. A request for two
// is rejected with an error.
// CHECK-LABEL: tgpu.kernel @one_slot
// CHECK:         tgpu.copy_async %q[%m, 0], %{{[0-9a-z_]+}} :
// CHECK:         tgpu.copy_async %v[%{{.*}}, 0], %{{[0-9a-z_]+}} :
// CHECK-NEXT:    tgpu.copy_async %k[%{{.*}}, 0], %{{.*}} {tgpu.ring_stages = 1 : i64} :
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
tgpu.kernel @one_slot target "sm_90a" warps 8 (%q: !view, %k: !view, %v: !view, %o: !f32_view)
    grid(%m = dim(q, 0)) {
  %q_buffer = tgpu.alloc : !tile
  %k_buffer = tgpu.alloc : !tile
  %v_buffer = tgpu.alloc : !tile
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %rows = tile.dim %k, 0 : !view
  tgpu.copy_async %q[%m, 0], %q_buffer : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sum = scf.for %n = %c0 to %rows step %c128 iter_args(%old = %zeros) -> (!acc) : i32 {
    tgpu.sync
    tgpu.copy_async %v[%n, 0], %v_buffer : !view, !tile
    tgpu.copy_async %k[%n, 0], %k_buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b : !tile, !tile -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %t_pending = tgpu.wgmma %q_buffer, %v_buffer transpose_b : !tile, !tile -> !s
    tgpu.wgmma_commit
    %t = tgpu.wgmma_wait pending 0, %t_pending : !s
    %product = arith.mulf %s, %t : !s
    %s16 = tile.cast %product : !s -> !s16
    %p = tgpu.convert %s16 : !s16 -> !s_a
    %pending = tgpu.wgmma %p, %v_buffer, %old : !s_a, !tile, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    scf.yield %new : !acc
  }
  tgpu.store %sum, %o[%m, 0] : !acc, !f32_view
}

// -----

!view = !tile.view<[?, ?], bf16>
!f32_view = !tile.view<[?, ?], f32>
!tall = !tgpu.shared<256x128xbf16, b128>
!square = !tgpu.shared<128x128xbf16, b128>
!s = tensor<256x128xf32, #tgpu.wgmma<2>>
!s16 = tensor<256x128xbf16, #tgpu.wgmma<2>>
!s_a = tensor<256x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>

// With 64 KB and two slots of 32 KB for each operand, there is space for one more slot. Products of two iterations read
// %k at the same time: the one that the iteration waits for, and the one that continues. %v does not need a third slot.
// A number of slots given by the author is used, for one operand or for all.
// CHECK-LABEL: tgpu.kernel @three_slots
// CHECK:         tgpu.copy_async %q[%m, 0], %{{[0-9a-z_]+}} :
// CHECK:         tgpu.copy_async %v[%{{.*}}, 0], %{{[0-9a-z_]+}} :
// CHECK-NEXT:    tgpu.copy_async %k[%{{.*}}, 0], %{{.*}} {tgpu.ring_stages = 3 : i64} :
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
// FIXED-LABEL: tgpu.kernel @three_slots
// FIXED-NOT:     tgpu.ring_stages
// AUTHOR-LABEL: tgpu.kernel @three_slots
// AUTHOR:        tgpu.copy_async %k[%{{.*}}, 0], %{{.*}} {tgpu.ring_stages = 4 : i64} :
tgpu.kernel @three_slots target "sm_90a" warps 8 (%q: !view, %k: !view, %v: !view, %o: optional !f32_view, %d: optional !f32_view)
    grid(%m = max(dim(q, 0), 4)) {
  %q_buffer = tgpu.alloc : !tall
  %k_buffer = tgpu.alloc : !square
  %v_buffer = tgpu.alloc : !square
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !s
  %rows = tile.dim %k, 0 : !view
  tgpu.copy_async %q[%m, 0], %q_buffer : !view, !tall
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sum:2 = scf.for %n = %c0 to %rows step %c128 iter_args(%old = %zeros, %old_d = %zeros) -> (!s, !s) : i32 {
    tgpu.sync
    tgpu.copy_async %v[%n, 0], %v_buffer : !view, !square
    tgpu.copy_async %k[%n, 0], %k_buffer : !view, !square
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b : !tall, !square -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %s16 = tile.cast %s : !s -> !s16
    %p = tgpu.convert %s16 : !s16 -> !s_a
    %pending = tgpu.wgmma %p, %v_buffer, %old : !s_a, !square, !s -> !s
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !s
    %d_pending = tgpu.wgmma %p, %k_buffer, %old_d : !s_a, !square, !s -> !s
    tgpu.wgmma_commit
    %new_d = tgpu.wgmma_wait pending 0, %d_pending : !s
    scf.yield %new, %new_d : !s, !s
  }
  tgpu.store %sum#0, %o[%m, 0] : !s, !f32_view
  tgpu.store %sum#1, %d[%m, 0] : !s, !f32_view
}

// -----

!view = !tile.view<[?, ?], bf16>
!f32_view = !tile.view<[?, ?], f32>
!few_rows = !tgpu.shared<128x256xbf16, b128>
!many_rows = !tgpu.shared<256x256xbf16, b128>
!sum = tensor<128x256xf32, #tgpu.wgmma<2>>

// One slot of 128 KB fits in addition to 64 KB, but then no copy could be issued ahead, so the kernel gets no roles.
// CHECK-LABEL: tgpu.kernel @all_one_slot
// CHECK-NOT:     tgpu.role_schedule
// CHECK-NOT:     tgpu.ring_stages
// CHECK-NOT:     producer_consumer
// FIXED-NOT:   tgpu.kernel @all_one_slot
// AUTHOR-LABEL: tgpu.kernel @all_one_slot
tgpu.kernel @all_one_slot target "sm_90a" warps 8 (%q: !view, %k: !view, %o: !f32_view)
    grid(%m = dim(q, 0)) {
  %q_buffer = tgpu.alloc : !few_rows
  %k_buffer = tgpu.alloc : !many_rows
  %c0 = arith.constant 0 : i32
  %c256 = arith.constant 256 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !sum
  %rows = tile.dim %k, 0 : !view
  tgpu.copy_async %q[%m, 0], %q_buffer : !view, !few_rows
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sum = scf.for %n = %c0 to %rows step %c256 iter_args(%old = %zeros) -> (!sum) : i32 {
    tgpu.sync
    tgpu.copy_async %k[%n, 0], %k_buffer : !view, !many_rows
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b : !few_rows, !many_rows -> !sum
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %pending : !sum
    %new = arith.addf %old, %s : !sum
    scf.yield %new : !sum
  }
  tgpu.store %sum, %o[%m, 0] : !sum, !f32_view
}
