// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which loops get a schedule, with how many stages, and which operands stay in registers. Kernels with roles are in
// tgpu-plan-schedule-roles.mlir, the slots of their rings in tgpu-plan-schedule-slots.mlir.
// RUN: tilewright-opt %s --tgpu-plan-schedule | FileCheck %s
// RUN: tilewright-opt %s --tgpu-plan-schedule='schedule=stages=4,in_flight=1,keep_in_registers=false' | FileCheck %s --check-prefix=FIXED
// RUN: tilewright-opt %s --tgpu-plan-schedule='schedule=stages=1' | FileCheck %s --check-prefix=ONE
// RUN: tilewright-opt %s --tgpu-plan-schedule='schedule=skeleton=synchronous' | FileCheck %s --check-prefix=ONE
// RUN: not tilewright-opt %s --tgpu-plan-schedule='schedule=skeleton=fast' 2>&1 | FileCheck %s --check-prefix=SKELETON
// RUN: not tilewright-opt %s --tgpu-plan-schedule='schedule=stages=0' 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: not tilewright-opt %s --tgpu-plan-schedule='schedule=stages=33' 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: not tilewright-opt %s --tgpu-plan-schedule='schedule=in_flight=8' 2>&1 | FileCheck %s --check-prefix=FLIGHT
// RUN: not tilewright-opt %s --tgpu-plan-schedule='schedule=keep_in_registers=1' 2>&1 | FileCheck %s --check-prefix=KEEP
// RUN: not tilewright-opt %s --tgpu-plan-schedule='schedule=stages' 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not tilewright-opt %s --tgpu-plan-schedule='schedule=stage=2' 2>&1 | FileCheck %s --check-prefix=KEY
//
// SKELETON: error: schedule: skeleton must be synchronous, multistage, producer_consumer, overlap or exclusive, but got 'fast'
// STAGES:   error: schedule: stages must be a number from 1 to 32, but got '{{0|33}}'
// FLIGHT:   error: schedule: in_flight must be a number from 0 to 7, but got '8'
// KEEP:     error: schedule: keep_in_registers must be true or false, but got '1'
// MISSING:  error: schedule: stages must be a number from 1 to 32, but got ''
// KEY:      error: schedule: expected one of skeleton, stages, in_flight, keep_in_registers, copy_captures, skip_ones, turns, group, dynamic, tile_stages, store_buffers, reduce_stages, scratch_stages, compute_roles, late_products, load_roles, lend, load_registers and compute_registers, but got 'stage'

!view = !tile.view<[?, ?], f16>
!tile = !tgpu.shared<64x64xf16, b128>
!large = !tgpu.shared<128x128xf16, b128>
!floats = !tgpu.shared<128x64xf32, b128>
!cores = tensor<128x128xf32, #tgpu.blocked<4, lanes 8, warps 4, 1>>
!acc = tensor<64x64xf32, #tgpu.mma<4, 1>>
!half = tensor<64x64xf16, #tgpu.mma<4, 1>>
!opa = tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!opb = tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>

// One product: three stages.
// CHECK-LABEL: tgpu.kernel @product
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 3>}
// FIXED-LABEL: tgpu.kernel @product
// FIXED:         } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 4, in_flight = 1>}
// ONE-LABEL:   tgpu.kernel @product
// ONE:           } {tgpu.schedule = #tgpu.schedule<skeleton = synchronous>}
tgpu.kernel @product target "sm_80" warps 4 (%x: !view, %y: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %x_buffer = tgpu.alloc : !tile
  %y_buffer = tgpu.alloc : !tile
  %sum = scf.for %k = %c0 to %n step %c64 iter_args(%old = %zeros) -> (!acc) : i32 {
    tgpu.sync
    tgpu.copy_async %x[0, %k], %x_buffer : !view, !tile
    tgpu.copy_async %y[%k, 0], %y_buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %a = tgpu.read %x_buffer : !tile -> !opa
    %c = tgpu.read %y_buffer : !tile -> !opb
    %new = tgpu.mma %a, %c, %old : !opa, !opb -> !acc
    scf.yield %new : !acc
  }
}

// Two products in an iteration: two stages. Of the buffers, only q is constant in the loop, and its fragment fits into
// registers.
// CHECK-LABEL: tgpu.kernel @attention
// CHECK:         scf.for
// CHECK:           tgpu.read %{{[0-9]+}} {tgpu.keep_in_registers}
// CHECK:           tgpu.read %{{[0-9]+}} transpose :
// CHECK:           tgpu.read %{{[0-9]+}} :
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
// FIXED-LABEL: tgpu.kernel @attention
// FIXED-NOT:     tgpu.keep_in_registers
// FIXED:         } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 4, in_flight = 1>}
// ONE-LABEL:   tgpu.kernel @attention
// ONE:           tgpu.keep_in_registers
// ONE:           } {tgpu.schedule = #tgpu.schedule<skeleton = synchronous>}
tgpu.kernel @attention target "sm_80" warps 4 (%q: !view, %k: !view, %v: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %q_buffer = tgpu.alloc : !tile
  %k_buffer = tgpu.alloc : !tile
  %v_buffer = tgpu.alloc : !tile
  tgpu.copy_async %q[0, 0], %q_buffer : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sum = scf.for %i = %c0 to %n step %c64 iter_args(%old = %zeros) -> (!acc) : i32 {
    tgpu.sync
    tgpu.copy_async %k[%i, 0], %k_buffer : !view, !tile
    tgpu.copy_async %v[%i, 0], %v_buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %qa = tgpu.read %q_buffer : !tile -> !opa
    %kb = tgpu.read %k_buffer transpose : !tile -> !opb
    %s = tgpu.mma %qa, %kb, %zeros : !opa, !opb -> !acc
    %p = tile.cast %s : !acc -> !half
    %pa = tgpu.convert %p : !half -> !opa
    %vb = tgpu.read %v_buffer : !tile -> !opb
    %new = tgpu.mma %pa, %vb, %old : !opa, !opb -> !acc
    scf.yield %new : !acc
  }
}

// 32 KB per stage: three stages would leave space for only one block in 163 KB, so there are two. A requested number is
// used.
// CHECK-LABEL: tgpu.kernel @half_of_memory
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
// FIXED-LABEL: tgpu.kernel @half_of_memory
// FIXED:         } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 4, in_flight = 1>}
tgpu.kernel @half_of_memory target "sm_80" warps 4 (%x: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !large
  scf.for %k = %c0 to %n step %c1 : i32 {
    tgpu.copy_async %x[%k, 0], %buffer : !view, !large
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
  }
}

// Two stages of 96 KB do not fit into 163 KB, but into the 227 KB of sm_90a.
// CHECK-LABEL: tgpu.kernel @no_room
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = synchronous>}
// CHECK-LABEL: tgpu.kernel @more_room
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
tgpu.kernel @no_room target "sm_80" warps 4 (%x: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tgpu.shared<384x128xf16, b128>
  scf.for %k = %c0 to %n step %c1 : i32 {
    tgpu.copy_async %x[%k, 0], %buffer : !view, !tgpu.shared<384x128xf16, b128>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
  }
}
tgpu.kernel @more_room target "sm_90a" warps 4 (%x: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tgpu.shared<384x128xf16, b128>
  scf.for %k = %c0 to %n step %c1 : i32 {
    tgpu.copy_async %x[%k, 0], %buffer : !view, !tgpu.shared<384x128xf16, b128>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
  }
}

// Products on CUDA cores stay within the 99 KB of the smallest chips: two stages of 64 KB are too many.
// CHECK-LABEL: tgpu.kernel @cores
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = synchronous>}
tgpu.kernel @cores target "sm_80" warps 4 (%x: !tile.view<[?, 64], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !cores
  %x_buffer = tgpu.alloc : !floats
  %y_buffer = tgpu.alloc : !floats
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%old = %zeros)
      -> (!cores) : i32 {
    tgpu.copy_async %x[%k, 0], %x_buffer : !tile.view<[?, 64], f32>, !floats
    tgpu.copy_async %x[%k, 0], %y_buffer : !tile.view<[?, 64], f32>, !floats
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %new = tgpu.fma_dot %x_buffer, %y_buffer transpose_b, %old : !floats, !floats -> !cores
    scf.yield %new : !cores
  }
}

// Not planned: a loop without copies, one whose copies depend on carried values, and one whose buffer is read after it.
// Schedules of the author remain.
// CHECK-LABEL: tgpu.kernel @left_alone
// CHECK-NOT:     tgpu.schedule
// CHECK-LABEL: tgpu.kernel @by_author
// CHECK:         } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 5>}
// ONE-LABEL:   tgpu.kernel @left_alone
// ONE-NOT:       tgpu.schedule
// ONE-LABEL:   tgpu.kernel @by_author
// ONE:           } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 5>}
tgpu.kernel @left_alone target "sm_80" warps 4 (%x: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %first = tgpu.alloc : !tile
  %second = tgpu.alloc : !tile
  scf.for %k = %c0 to %n step %c1 : i32 {
    tgpu.sync
  }
  %end = scf.for %k = %c0 to %n step %c1 iter_args(%at = %c0) -> (i32) : i32 {
    tgpu.copy_async %x[%at, 0], %first : !view, !tile
    tgpu.copy_commit
    %next = arith.addi %at, %k : i32
    scf.yield %next : i32
  }
  scf.for %k = %c0 to %n step %c1 : i32 {
    tgpu.copy_async %x[%k, 0], %second : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
  }
  %0 = tgpu.read %second : !tile -> !half
}
tgpu.kernel @by_author target "sm_80" warps 4 (%x: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  scf.for %k = %c0 to %n step %c1 : i32 {
    tgpu.copy_async %x[%k, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 5>}
}

// Of 184 registers, the accumulator of the loop takes 128 and the fragment of the first buffer 32 (128 by 64 halves,
// for 128 threads); the second does not fit. Copies of a read are decided together. A buffer that is written in the
// loop is not constant.
// CHECK-LABEL: tgpu.kernel @registers
// CHECK:         scf.for
// CHECK:           tgpu.read %[[FIRST:[0-9]+]] {tgpu.keep_in_registers}
// CHECK-NEXT:      tgpu.read %[[SECOND:[0-9]+]] : !tgpu.shared<128x64xf16, b128>
// CHECK-NEXT:      tgpu.read %[[FIRST]] {tgpu.keep_in_registers}
// CHECK:           tgpu.read %{{[0-9]+}} : !tgpu.shared<64x64xf16, b128>
// CHECK-NEXT:      tgpu.read %{{[0-9]+}} : !tgpu.shared<64x64xf16, b128>
tgpu.kernel @registers target "sm_80" warps 4 (%n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : tensor<256x64xf32, #tgpu.mma<4, 1>>
  %first = tgpu.alloc : !tgpu.shared<128x64xf16, b128>
  %second = tgpu.alloc : !tgpu.shared<128x64xf16, b128>
  %written = tgpu.alloc : !tile
  %inside = arith.constant dense<1.0> : !half
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%old = %zeros) -> (tensor<256x64xf32, #tgpu.mma<4, 1>>) : i32 {
    %0 = tgpu.read %first : !tgpu.shared<128x64xf16, b128> -> tensor<128x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
    %1 = tgpu.read %second : !tgpu.shared<128x64xf16, b128> -> tensor<128x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
    %2 = tgpu.read %first : !tgpu.shared<128x64xf16, b128> -> tensor<128x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
    tgpu.write %inside, %written : !half, !tile
    tgpu.sync
    %3 = tgpu.read %written : !tile -> !opb
    %4 = tgpu.read %written : !tile -> !opb
    tgpu.sync
    scf.yield %old : tensor<256x64xf32, #tgpu.mma<4, 1>>
  }
}
