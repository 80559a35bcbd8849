// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When buffers may be read and written. (tgpu-verify-sync-barriers.mlir tests barriers and products.)
// RUN: tilewright-opt %s --tgpu-verify-sync -split-input-file -verify-diagnostics
//
// Correct kernels, handwritten or made by passes, give no diagnostics.
// RUN: tilewright-opt %S/../Tgpu/attention_forward_sm80.mlir --tgpu-verify-sync -o %t
// RUN: tilewright-opt %S/../Tgpu/attention_forward_sm90_d128.mlir --tgpu-verify-sync -o %t
// RUN: tilewright-opt %S/../Tgpu/attention_backward_sm90.mlir --tgpu-verify-sync -o %t
// RUN: tilewright-opt %S/../Tgpu/matmul_sm90.mlir --tgpu-verify-sync -o %t
// RUN: tilewright-opt %S/../Tgpu/matmul_sm90.mlir --tgpu-plan-shared-memory --tgpu-verify-sync -o %t

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
tgpu.kernel @nothing_written target "sm_80" warps 4 (%x: !view) grid(%i = 1) {
  %buffer = tgpu.alloc : !tile
  // expected-error @+1 {{must read memory that was written, but got a buffer}}
  %0 = tgpu.read %buffer : !tile -> !a
}

// -----

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
tgpu.kernel @copy_not_waited target "sm_80" warps 4 (%x: !view) grid(%i = 1) {
  %buffer = tgpu.alloc : !tile
  // expected-note @+1 {{written here}}
  tgpu.copy_async %x[0, 0], %buffer : !view, !tile
  tgpu.copy_commit
  tgpu.copy_commit
  tgpu.copy_wait pending 2
  tgpu.sync
  // expected-error @+1 {{reads a buffer before its copy is done; tgpu.copy_wait for its group first}}
  %0 = tgpu.read %buffer : !tile -> !a
}

// -----

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
tgpu.kernel @copy_without_barrier target "sm_80" warps 4 (%x: !view) grid(%i = 1) {
  %buffer = tgpu.alloc : !tile
  // expected-note @+1 {{written here}}
  tgpu.copy_async %x[0, 0], %buffer : !view, !tile
  tgpu.copy_commit
  tgpu.sync
  tgpu.copy_wait pending 0
  // expected-error @+1 {{reads a buffer that other warps may not have written yet; a barrier must come between}}
  %0 = tgpu.read %buffer : !tile -> !a
}

// -----

// A thread may read its own writes; a row that several threads share needs a barrier.
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
tgpu.kernel @write_without_barrier target "sm_80" warps 4 (%zero: bf16) grid(%i = 1) {
  %buffer = tgpu.alloc : !tile
  %zeros = tile.full %zero : !acc
  // expected-note @+1 {{written here}}
  tgpu.write %zeros, %buffer : !acc, !tile
  %0 = tgpu.read %buffer : !tile -> !acc
  // expected-error @+1 {{reads a buffer that other warps may not have written yet}}
  %1 = tgpu.read %buffer transpose : !tile -> !a
}

// -----

// Across iterations: the copy for the next iteration.
!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
tgpu.kernel @loop_without_barrier target "sm_80" warps 4 (%x: !view) grid(%i = 1) {
  %buffer = tgpu.alloc : !tile
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %n = tile.dim %x, 0 : !view
  scf.for %k = %c0 to %n step %c64 : i32 {
    // expected-error @+1 {{overwrites a buffer that other warps may still read; a barrier must come between}}
    tgpu.copy_async %x[%k, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    // expected-note @+1 {{read here}}
    %0 = tgpu.read %buffer : !tile -> !a
  }
}

// -----

// The ring has one stage too few for copies of two iterations.
!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<2, !tile>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
tgpu.kernel @ring_too_short target "sm_80" warps 4 (%x: !view) grid(%i = 1) {
  %ring = tgpu.alloc_ring : !ring
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c4 = arith.constant 4 : i32
  %s0 = tgpu.slot %ring[%c0] : !ring
  // expected-note @+1 {{written here}}
  tgpu.copy_async %x[0, 0], %s0 : !view, !tile
  tgpu.copy_commit
  %s1 = tgpu.slot %ring[%c1] : !ring
  tgpu.copy_async %x[64, 0], %s1 : !view, !tile
  tgpu.copy_commit
  scf.for %k = %c0 to %c4 step %c1 : i32 {
    %ahead = arith.addi %k, %c2 : i32
    %next = tgpu.slot %ring[%ahead] : !ring
    // expected-error @+1 {{overwrites slot 0 of a ring, to which a write may still be under way; a barrier must come between}}
    tgpu.copy_async %x[0, 0], %next : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 2
    tgpu.sync
    %slot = tgpu.slot %ring[%k] : !ring
    %0 = tgpu.read %slot : !tile -> !a
    tgpu.sync
  }
}

// -----

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
tgpu.kernel @never_committed target "sm_80" warps 4 (%x: !view) grid(%i = 1) {
  %buffer = tgpu.alloc : !tile
  // expected-error @+1 {{is not committed to a group; tgpu.copy_commit must follow}}
  tgpu.copy_async %x[0, 0], %buffer : !view, !tile
  tgpu.copy_wait pending 0
}

// -----

// Two buffers have the same offset while the first is in use.
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
tgpu.kernel @same_place target "sm_80" warps 4 (%zero: bf16) grid(%i = 1) {
  %x = tgpu.alloc shared at 0 : !tile
  %y = tgpu.alloc shared at 4096 : !tile
  %zeros = tile.full %zero : !acc
  tgpu.write %zeros, %x : !acc, !tile
  tgpu.sync
  // expected-note @+1 {{overwritten here}}
  tgpu.write %zeros, %y : !acc, !tile
  tgpu.sync
  // expected-error @+1 {{must read memory before another buffer overwrites it, but got a buffer, overwritten from byte 0 on}}
  %0 = tgpu.read %x : !tile -> !acc
}

// -----

// One after the other, but without a barrier: they are used by different threads.
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
tgpu.kernel @same_place_too_early target "sm_80" warps 4 (%zero: bf16) grid(%i = 1) {
  %x = tgpu.alloc shared at 0 : !tile
  %y = tgpu.alloc shared at 4096 : !tile
  %zeros = tile.full %zero : !acc
  tgpu.write %zeros, %x : !acc, !tile
  // expected-note @+1 {{read here}}
  %0 = tgpu.read %x : !tile -> !acc
  // expected-error @+1 {{overwrites a buffer that other warps may still read}}
  tgpu.write %zeros, %y : !acc, !tile
}

// -----

// A condition computed by a function is evaluated, but recursion is not.
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
func.func private @never(%x: i32) -> i1 {
  %c0 = arith.constant 0 : i32
  %0 = arith.cmpi slt, %x, %c0 : i32
  return %0 : i1
}
func.func private @for_ever(%x: i32) -> i32 {
  // expected-remark @+1 {{is not followed by tgpu-verify-sync, which checks the kernel only in part: calls of functions without a body, or nested more than 32 deep, are not followed}}
  %0 = call @for_ever(%x) : (i32) -> i32
  return %0 : i32
}
tgpu.kernel @functions target "sm_80" warps 4 (%x: i32) grid(%i = 1) {
  %buffer = tgpu.alloc : !tile
  %wrong = func.call @never(%i) : (i32) -> i1
  scf.if %wrong {
    %0 = tgpu.read %buffer : !tile -> !acc
  }
  %1 = func.call @for_ever(%x) : (i32) -> i32
  %some = func.call @never(%1) : (i32) -> i1
  scf.if %some {
    tgpu.sync
  }
  %2 = tgpu.read %buffer : !tile -> !acc
}

// -----

// Operations that are not followed.
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.mma<4, 1>>
tgpu.kernel @step_of_zero target "sm_80" warps 4 (%x: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-remark @+1 {{is not followed by tgpu-verify-sync, which checks the kernel only in part: steps of loops must be positive}}
  scf.for %n = %c0 to %c1 step %c0 : i32 {
    tgpu.sync
  }
}

// -----

tgpu.kernel @endless target "sm_80" warps 4 (%x: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %many = arith.constant 1500000 : i32
  scf.for %n = %c0 to %many step %c1 : i32 {
    // expected-remark @+1 {{is not followed by tgpu-verify-sync, which checks the kernel only in part: its launches execute too many operations}}
    tgpu.sync
  }
}

// -----

// Between roles: released before it is read.
!tile = !tgpu.shared<64x64xbf16, b128>
!acc4 = tensor<64x64xbf16, #tgpu.wgmma<1>>
tgpu.kernel @released_too_early target "sm_90a" warps 8 (%zero: bf16) grid(%i = 1) {
  %buffer = tgpu.alloc : !tile
  %full = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<1>
  %empty = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<1>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "write" warps 4 {
      %zeros = tile.full %zero : !acc4
      tgpu.write %zeros, %buffer : !acc4, !tile
      tgpu.arrive %full[%c0] per warp : !tgpu.barriers<1>
      tgpu.acquire %empty[%c1] : !tgpu.barriers<1>
      // expected-error @+1 {{overwrites a buffer that another role may still read; it must be released, and acquired before it is filled again}}
      tgpu.write %zeros, %buffer : !acc4, !tile
      tgpu.arrive %full[%c1] per warp : !tgpu.barriers<1>
    }
    role "read" warps 4 {
      tgpu.wait %full[%c0] : !tgpu.barriers<1>
      tgpu.arrive %empty[%c0] per warp : !tgpu.barriers<1>
      // expected-note @+1 {{read here by role "read"}}
      %0 = tgpu.read %buffer : !tile -> !acc4
    }
}

// -----

!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.wgmma<1>>
tgpu.kernel @copy_not_arrived target "sm_90a" warps 4 (%x: !view) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %buffer = tgpu.alloc : !tile
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.expect %full[%i] bytes 8192 : !tgpu.barriers<1>
  // expected-note @+1 {{written here}}
  tgpu.tma_load %map[0, 0], %buffer, %full[%i] : !map, !tile, !tgpu.barriers<1>
  tgpu.sync
  // expected-error @+1 {{reads a buffer before its copy has arrived; tgpu.wait for the copy's barriers first}}
  %0 = tgpu.read %buffer : !tile -> !acc
}

// -----

!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.wgmma<1>>
tgpu.kernel @no_fence target "sm_90a" warps 4 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %buffer = tgpu.alloc : !tile
  %zeros = tile.full %zero : !acc
  // expected-note @+1 {{written here}}
  tgpu.write %zeros, %buffer : !acc, !tile
  tgpu.sync
  // expected-error @+1 {{reads generic-proxy writes to a buffer through the async proxy without tgpu.fence_async, which must come between the write and the barrier}}
  tgpu.tma_store %buffer, %map[0, 0] : !tile, !map
  tgpu.bulk_commit
  tgpu.bulk_wait pending 0
}

// -----

!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.wgmma<1>>
tgpu.kernel @store_not_waited target "sm_90a" warps 4 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %buffer = tgpu.alloc : !tile
  %zeros = tile.full %zero : !acc
  tgpu.write %zeros, %buffer : !acc, !tile
  tgpu.fence_async
  tgpu.sync
  // expected-note @+1 {{read here}}
  tgpu.tma_store %buffer, %map[0, 0] : !tile, !map
  tgpu.bulk_commit
  tgpu.sync
  // expected-error @+1 {{overwrites a buffer that a copy may still read; tgpu.bulk_wait for it first}}
  tgpu.write %zeros, %buffer : !acc, !tile
}

// -----

// One thread waits for the copy; the others are not synchronized with it.
!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.wgmma<1>>
tgpu.kernel @one_thread_waited target "sm_90a" warps 4 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %buffer = tgpu.alloc : !tile
  %zeros = tile.full %zero : !acc
  tgpu.write %zeros, %buffer : !acc, !tile
  tgpu.fence_async
  tgpu.sync
  // expected-note @+1 {{read here}}
  tgpu.tma_store %buffer, %map[0, 0] : !tile, !map
  tgpu.bulk_commit
  tgpu.bulk_wait pending 0 read
  // expected-error @+1 {{overwrites a buffer that other warps may still read}}
  tgpu.write %zeros, %buffer : !acc, !tile
}

// -----

!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.wgmma<1>>
tgpu.kernel @store_outlives_kernel target "sm_90a" warps 4 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %buffer = tgpu.alloc : !tile
  %zeros = tile.full %zero : !acc
  tgpu.write %zeros, %buffer : !acc, !tile
  tgpu.fence_async
  tgpu.sync
  // expected-error @+1 {{may still read shared memory when its role ends; tgpu.bulk_wait must follow}}
  tgpu.tma_store %buffer, %map[0, 0] : !tile, !map
  tgpu.bulk_commit
}

// -----

!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.wgmma<1>>
tgpu.kernel @store_not_committed target "sm_90a" warps 4 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %buffer = tgpu.alloc : !tile
  %zeros = tile.full %zero : !acc
  tgpu.write %zeros, %buffer : !acc, !tile
  tgpu.fence_async
  tgpu.sync
  // expected-error @+1 {{is not committed to a group; tgpu.bulk_commit must follow}}
  tgpu.tma_store %buffer, %map[0, 0] : !tile, !map
  tgpu.bulk_wait pending 0
}

// -----

// If no iteration waits for the copy, it is still pending when the kernel ends.
!tile = !tgpu.shared<64x64xbf16, b128>
tgpu.kernel @copy_outlives_kernel target "sm_80" warps 4 (%x: !tile.view<[?, 64], bf16>, %n: i32) grid(%i = 2) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  // expected-error @+1 {{may still be under way when its role ends; tgpu.copy_wait must follow, on every path}}
  tgpu.copy_async %x[%i, 0], %buffer : !tile.view<[?, 64], bf16>, !tile
  tgpu.copy_commit
  scf.for %round = %c0 to %i step %c1 : i32 {
    tgpu.copy_wait pending 0
    tgpu.sync
    %tile = tgpu.read %buffer : !tile -> tensor<64x64xbf16, #tgpu.mma<4, 1>>
  }
}

// -----

// A fence behind the barrier, by the warps that multiply, is between the write and the product.
!b = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.wgmma<1>>
tgpu.kernel @fence_behind target "sm_90a" warps 4 (%zero: bf16) grid(%i = 1) {
  %b = tgpu.alloc : !b
  %zeros = tile.full %zero : !r
  tgpu.write %zeros, %b : !r, !b
  tgpu.sync
  tgpu.fence_async
  %p = tgpu.wgmma %b, %b transpose_b : !b, !b -> tensor<64x64xf32, #tgpu.wgmma<1>>
  tgpu.wgmma_commit
  %t = tgpu.wgmma_wait pending 0, %p : tensor<64x64xf32, #tgpu.wgmma<1>>
}

// -----

// The fence of a third role: behind a barrier at which it learns of the write, and before one that orders the product.
!b = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.wgmma<1>>
tgpu.kernel @third_fence target "sm_90a" warps 8 (%zero: bf16) grid(%i = 1) {
  %b = tgpu.alloc : !b
  %written = tgpu.named_barrier warps 8 : index
  %fenced = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "fence" warps 4 {
      tgpu.sync on %written
      tgpu.fence_async
      tgpu.signal %fenced
    }
    role "compute" warps 4 {
      %zeros = tile.full %zero : !r
      tgpu.write %zeros, %b : !r, !b
      tgpu.signal %written
      tgpu.sync on %fenced
      %p = tgpu.wgmma %b, %b transpose_b : !b, !b -> tensor<64x64xf32, #tgpu.wgmma<1>>
      tgpu.wgmma_commit
      %t = tgpu.wgmma_wait pending 0, %p : tensor<64x64xf32, #tgpu.wgmma<1>>
    }
}

// -----

// The same fence before the role learns of the write.
!b = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.wgmma<1>>
tgpu.kernel @early_third_fence target "sm_90a" warps 8 (%zero: bf16) grid(%i = 1) {
  %b = tgpu.alloc : !b
  %written = tgpu.named_barrier warps 8 : index
  %fenced = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "fence" warps 4 {
      tgpu.fence_async
      tgpu.sync on %written
      tgpu.signal %fenced
    }
    role "compute" warps 4 {
      %zeros = tile.full %zero : !r
      // expected-note @+1 {{written here by role "compute"}}
      tgpu.write %zeros, %b : !r, !b
      tgpu.signal %written
      tgpu.sync on %fenced
      // expected-error @+1 {{reads generic-proxy writes to a buffer through the async proxy without tgpu.fence_async, which must come between the write and the barrier, or after the barrier}}
      %p = tgpu.wgmma %b, %b transpose_b : !b, !b -> tensor<64x64xf32, #tgpu.wgmma<1>>
      tgpu.wgmma_commit
      %t = tgpu.wgmma_wait pending 0, %p : tensor<64x64xf32, #tgpu.wgmma<1>>
    }
}

// -----

// The next iteration writes registers that the product may still read.
!y = !tgpu.shared<64x64xbf16, b128>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @operand_in_flight target "sm_90a" warps 4 (%n: i32) grid(%b = 1) {
  %y = tgpu.alloc : !y
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %kept = tgpu.read %y : !y -> !a
  %first = tgpu.wgmma %kept, %y : !a, !y -> !acc
  tgpu.wgmma_commit
  %outside = scf.for %i = %c0 to %n step %c1 iter_args(%old = %first) -> (!tgpu.pending<!acc>) : i32 {
    %next = tgpu.wgmma %kept, %y, %old : !a, !y, !tgpu.pending<!acc> -> !acc
    tgpu.wgmma_commit
    tgpu.wgmma_wait pending 1
    scf.yield %next : !tgpu.pending<!acc>
  }
  %inside = scf.for %i = %c0 to %n step %c1 iter_args(%old = %outside) -> (!tgpu.pending<!acc>) : i32 {
    %read = tgpu.read %y : !y -> !a
    // expected-error @+1 {{must end in its iteration, since the next one may write the registers of operand a, but got a product that the loop carries; await it by tgpu.wgmma_wait, or read operand a from shared memory}}
    %next = tgpu.wgmma %read, %y, %old : !a, !y, !tgpu.pending<!acc> -> !acc
    tgpu.wgmma_commit
    tgpu.wgmma_wait pending 1
    scf.yield %next : !tgpu.pending<!acc>
  }
  %sum = tgpu.wgmma_wait pending 0, %inside : !acc
}
