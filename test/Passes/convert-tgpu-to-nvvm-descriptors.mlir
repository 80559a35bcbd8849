// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The placement of wgmma operand descriptors.
//
// RUN: tilewright-opt %s --convert-tgpu-to-nvvm | FileCheck %s

!acc = tensor<64x8xf32, #tgpu.wgmma<1>>
!a = !tgpu.shared<64x192xbf16, b128>
!b = !tgpu.shared<8x192xbf16, b128>
!a_few = !tgpu.shared<64x176xbf16, b32>
!b_few = !tgpu.shared<8x176xbf16, b32>

// The descriptors of 12 steps in a buffer that is constant in the loop would take too many registers if computed before
// the loop: a zero that ptxas cannot fold, since it depends on the use of b's ring, is added to the address. The
// address of b changes in any case.
// CHECK-LABEL: llvm.func @many(
// CHECK:         %[[BITS:.*]] = llvm.mlir.constant(31 : i32) : i32
// CHECK:       ^bb1(%{{[0-9]+}}: i32, {{.*}}: f32, %[[USE:[0-9]+]]: i32):
// CHECK:       ^bb2:
// CHECK:         %[[B_PLACE:.*]] = llvm.lshr %{{.*}}, %{{.*}} : i32
// CHECK-NEXT:    llvm.zext %[[B_PLACE]] : i32 to i64
// CHECK:         %[[PLACE:.*]] = llvm.lshr %{{.*}}, %{{.*}} : i32
// CHECK-NEXT:    %[[ZERO:.*]] = llvm.lshr %[[USE]], %[[BITS]] : i32
// CHECK-NEXT:    %[[VARYING:.*]] = llvm.add %[[PLACE]], %[[ZERO]] : i32
// CHECK-NEXT:    %[[WIDE:.*]] = llvm.zext %[[VARYING]] : i32 to i64
// CHECK-NEXT:    %[[FIRST:.*]] = llvm.or %[[WIDE]], %{{.*}} : i64
// CHECK-NOT:     llvm.lshr
// CHECK:         llvm.add %[[FIRST]],
// CHECK-NOT:     llvm.lshr
// CHECK:         llvm.return
tgpu.kernel @many target "sm_90a" warps 4 (%n: i32) grid(%m = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %a = tgpu.alloc at 0 : !a
  %b_ring = tgpu.alloc_ring at 49152 : !tgpu.ring<2, !b>
  %zeros = arith.constant dense<0.0> : !acc
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros, %use = %c7) -> (!acc, i32) : i32 {
    %b = tgpu.slot %b_ring[%use] : !tgpu.ring<2, !b>
    %pending = tgpu.wgmma %a, %b transpose_b, %old : !a, !b, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    %next = arith.addi %use, %c1 : i32
    scf.yield %new, %next : !acc, i32
  }
}

// A ring of one slot is constant as well.
// CHECK-LABEL: llvm.func @one_slot(
// CHECK:         %[[BITS:.*]] = llvm.mlir.constant(31 : i32) : i32
// CHECK:       ^bb1(%{{[0-9]+}}: i32, {{.*}}: f32, %[[USE:[0-9]+]]: i32):
// CHECK:         llvm.lshr %[[USE]], %[[BITS]] : i32
// CHECK:         llvm.return
tgpu.kernel @one_slot target "sm_90a" warps 4 (%n: i32) grid(%m = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %a_ring = tgpu.alloc_ring at 0 : !tgpu.ring<1, !a>
  %b_ring = tgpu.alloc_ring at 49152 : !tgpu.ring<2, !b>
  %zeros = arith.constant dense<0.0> : !acc
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros, %use = %c7) -> (!acc, i32) : i32 {
    %a = tgpu.slot %a_ring[%use] : !tgpu.ring<1, !a>
    %b = tgpu.slot %b_ring[%use] : !tgpu.ring<2, !b>
    %pending = tgpu.wgmma %a, %b transpose_b, %old : !a, !b, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    %next = arith.addi %use, %c1 : i32
    scf.yield %new, %next : !acc, i32
  }
}

// For 11 steps, ptxas may keep the descriptors in registers.
// CHECK-LABEL: llvm.func @few(
// CHECK-NOT:     llvm.mlir.constant(31 :
// CHECK:         wgmma.mma_async
// CHECK-NOT:     llvm.mlir.constant(31 :
// CHECK:         llvm.return
tgpu.kernel @few target "sm_90a" warps 4 (%n: i32) grid(%m = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %a = tgpu.alloc at 0 : !a_few
  %b_ring = tgpu.alloc_ring at 49152 : !tgpu.ring<2, !b_few>
  %zeros = arith.constant dense<0.0> : !acc
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros, %use = %c7) -> (!acc, i32) : i32 {
    %b = tgpu.slot %b_ring[%use] : !tgpu.ring<2, !b_few>
    %pending = tgpu.wgmma %a, %b transpose_b, %old : !a_few, !b_few, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    %next = arith.addi %use, %c1 : i32
    scf.yield %new, %next : !acc, i32
  }
}

// The slots of a ring of two change with the iterations.
// CHECK-LABEL: llvm.func @two_slots(
// CHECK-NOT:     llvm.mlir.constant(31 :
// CHECK:         wgmma.mma_async
// CHECK-NOT:     llvm.mlir.constant(31 :
// CHECK:         llvm.return
tgpu.kernel @two_slots target "sm_90a" warps 4 (%n: i32) grid(%m = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %a_ring = tgpu.alloc_ring at 0 : !tgpu.ring<2, !a>
  %b_ring = tgpu.alloc_ring at 49152 : !tgpu.ring<2, !b>
  %zeros = arith.constant dense<0.0> : !acc
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros, %use = %c7) -> (!acc, i32) : i32 {
    %a = tgpu.slot %a_ring[%use] : !tgpu.ring<2, !a>
    %b = tgpu.slot %b_ring[%use] : !tgpu.ring<2, !b>
    %pending = tgpu.wgmma %a, %b transpose_b, %old : !a, !b, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    %next = arith.addi %use, %c1 : i32
    scf.yield %new, %next : !acc, i32
  }
}
