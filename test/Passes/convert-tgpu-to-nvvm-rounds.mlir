// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code that makes the iterations of a role shorter: sums per thread, turns with one barrier, and operations whose order
// is kept.
// RUN: tilewright-opt %s --convert-tgpu-to-nvvm --split-input-file | FileCheck %s

!s = tensor<64x16xf32, #tgpu.wgmma<1>>
!sums = tensor<64x4xf32, #tgpu.by_thread<1, #tgpu.wgmma<1>>>

// A thread has two rows of four elements each: three dependent additions per row, and no shuffle.
// CHECK-LABEL: llvm.func @sums
// CHECK: %[[A:.*]] = llvm.fadd %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: %[[B:.*]] = llvm.fadd %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: %[[A2:.*]] = llvm.fadd %[[A]], %{{.*}} : f32
// CHECK-NEXT: llvm.fadd %[[A2]], %{{.*}} : f32
// CHECK-NEXT: %[[B2:.*]] = llvm.fadd %[[B]], %{{.*}} : f32
// CHECK-NEXT: llvm.fadd %[[B2]], %{{.*}} : f32
// CHECK-NOT: {{shfl|fadd}}
// CHECK: llvm.return
tgpu.kernel @sums target "sm_90a" warps 4 (%x: !tile.view<[?, ?], f32>, %y: !tile.view<[?, ?], f32>) grid(%b = 1) {
  %s = tgpu.load %x[0, 0] : !tile.view<[?, ?], f32> -> !s
  %sums = tgpu.thread_sum %s dim 1 : !s -> !sums
  tgpu.store %sums, %y[0, 0] : !sums, !tile.view<[?, ?], f32>
}

// -----

// The numbers of the barriers are computed once, and exchanged, so that they remain in registers; there is no branch
// per warpgroup.
// CHECK-LABEL: llvm.func @turns
// CHECK: %[[OWN:.*]] = llvm.add %{{.*}}, %{{.*}} : i32
// CHECK-NEXT: %[[TAKES:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"(%{{.*}}, %[[OWN]], %{{.*}}, %{{.*}})
// CHECK: %[[PASSES:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"
// CHECK-NOT: {{llvm.cond_br|llvm.add|shfl}}
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.count{{.*}}(%[[TAKES]],
// CHECK-NOT: {{llvm.cond_br|llvm.add|shfl}}
// CHECK: llvm.nvvm.barrier.cta.arrive.aligned.count{{.*}}(%[[PASSES]],
tgpu.kernel @turns target "sm_90a" warps 8 () grid(%b = 1) {
  %turns = tgpu.turns warpgroups 2 id 2 : index
  tgpu.roles
    role "compute" warps 8 {
      tgpu.take_turn %turns
      tgpu.pass_turn %turns
    }
}

// -----

!row = tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>

// A branch that is never taken keeps what precedes a turn before it; rows that are used later pass through an empty
// instruction. Without the attribute there is neither.
// CHECK-LABEL: llvm.func @turn_keeps_place
// CHECK: mbarrier.try_wait
// CHECK: %[[A:.*]] = llvm.fadd
// CHECK-NEXT: %[[B:.*]] = llvm.fadd
// CHECK-NEXT: %[[KEPT:.*]] = llvm.inline_asm has_side_effects "", "=f,=f,0,1,~{memory}" %[[A]], %[[B]]
// CHECK: %[[NEVER:.*]] = llvm.icmp "slt" %{{.*}}, %{{.*}} : i32
// CHECK-NEXT: llvm.cond_br %[[NEVER]], ^[[TRAP:bb[0-9]+]], ^[[NEXT:bb[0-9]+]]
// CHECK-NEXT: ^[[TRAP]]:
// CHECK-NEXT: llvm.intr.trap
// CHECK-NEXT: llvm.br ^[[NEXT]]
// CHECK-NEXT: ^[[NEXT]]:
// CHECK-NEXT: llvm.nvvm.barrier.cta.sync.aligned.count
// CHECK-NOT: llvm.cond_br
// CHECK: llvm.nvvm.barrier.cta.sync.aligned.count
// CHECK-NOT: {{intr.trap|cond_br}}
// CHECK: llvm.br
tgpu.kernel @turn_keeps_place target "sm_90a" warps 8 (%n: i32, %f: f32) grid(%b = 1) {
  %ring = tgpu.alloc_ring at 0 : !tgpu.ring<2, <64x64xbf16, b128>>
  %full = tgpu.alloc_barriers arrivals 1 at 16384 : !tgpu.barriers<2>
  %turns = tgpu.turns warpgroups 2 id 2 : index
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %first = tile.full %f : !row
      %last:2 = scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0, %old = %first) -> (i32, !row) : i32 {
        tgpu.wait %full[%use] : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, <64x64xbf16, b128>>
        %new = arith.addf %old, %first : !row
        tgpu.take_turn %turns {tgpu.keep_place}
        tgpu.pass_turn %turns
        tgpu.take_turn %turns
        tgpu.pass_turn %turns
        %later = arith.mulf %new, %first : !row
        %next = arith.addi %use, %c1 : i32
        scf.yield %next, %later : i32, !row
      }
    }
}

// -----

!o = tensor<64x8xf32, #tgpu.wgmma<1>>

// Loop-carried operands pass through an empty instruction before the multiplications; other operands do not.
// CHECK-LABEL: llvm.func @keeps_place
// CHECK: llvm.inline_asm has_side_effects{{.*}} "", "=f,=f,=f,=f,0,1,2,3,~{memory}"
// CHECK-COUNT-4: llvm.fmul
// CHECK-NOT: llvm.inline_asm {{.*}}"", "=f
// CHECK: llvm.return
tgpu.kernel @keeps_place target "sm_90a" warps 4 (%y: !tile.view<[?, ?], f32>, %n: i32, %f: f32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !o
  %factor = tile.full %f : !o
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%old = %none) -> (!o) : i32 {
    %new = arith.mulf %old, %factor {tgpu.keep_place} : !o
    scf.yield %new : !o
  }
  tgpu.store %r, %y[0, 0] : !o, !tile.view<[?, ?], f32>
}
