// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Diagnostics of tgpu-verify-sync for barriers, counters, turns and asynchronous products.
// RUN: tilewright-opt %s --tgpu-verify-sync -split-input-file -verify-diagnostics

tgpu.kernel @nobody_arrives target "sm_90a" warps 2 () grid(%i = 1) {
  // expected-note @+1 {{the barriers}}
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.roles
    role "a" warps 1 {
      // expected-error @+1 {{deadlocks in role "a": expected an arrival at the barriers for use 0, but got none}}
      tgpu.wait %full[%i] : !tgpu.barriers<1>
    }
    role "b" warps 1 {
    }
}

// -----

// One arrival per warp instead of one per thread.
tgpu.kernel @too_few target "sm_90a" warps 3 () grid(%i = 1) {
  // expected-note @+1 {{the barriers}}
  %full = tgpu.alloc_barriers arrivals 64 : !tgpu.barriers<1>
  tgpu.roles
    role "a" warps 1 {
      // expected-error @+1 {{deadlocks in role "a": expected the 64 arrivals for which the barriers were declared, but got 2 for use 0}}
      tgpu.wait %full[%i] : !tgpu.barriers<1>
    }
    role "b" warps 2 {
      tgpu.arrive %full[%i] per warp : !tgpu.barriers<1>
    }
}

// -----

// The last uses of a ring have no wait; a further round would have one.
tgpu.kernel @too_few_at_the_end target "sm_90a" warps 3 () grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  // expected-note @+1 {{the barriers}}
  %empty = tgpu.alloc_barriers arrivals 2 : !tgpu.barriers<2>
  tgpu.roles
    role "a" warps 1 {
      tgpu.acquire %empty[%c0] : !tgpu.barriers<2>
    }
    role "b" warps 2 {
      // expected-error @+1 {{arrives for use 0, which has 1 arrivals when the block ends, but the barrier was declared for 2; with more tiles, a role would wait for the others}}
      tgpu.arrive %empty[%c0] per role : !tgpu.barriers<2>
    }
}

// -----

// A role that has ended need not release the last slot.
tgpu.kernel @one_role_at_the_end target "sm_90a" warps 3 () grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %empty = tgpu.alloc_barriers arrivals 3 : !tgpu.barriers<2>
  tgpu.roles
    role "a" warps 1 {
      tgpu.arrive %empty[%c0] per warp : !tgpu.barriers<2>
    }
    role "b" warps 2 {
      tgpu.arrive %empty[%c0] per warp : !tgpu.barriers<2>
      tgpu.arrive %empty[%c1] per warp : !tgpu.barriers<2>
    }
}

// -----

tgpu.kernel @too_many target "sm_90a" warps 3 () grid(%i = 1) {
  %full = tgpu.alloc_barriers arrivals 2 : !tgpu.barriers<1>
  tgpu.roles
    role "a" warps 1 {
      tgpu.wait %full[%i] : !tgpu.barriers<1>
    }
    role "b" warps 2 {
      // expected-error @+1 {{makes 64 arrivals for use 0, but the barrier was declared for 2, of which 2 are missing}}
      tgpu.arrive %full[%i] per thread : !tgpu.barriers<1>
    }
}

// -----

tgpu.kernel @one_more target "sm_90a" warps 2 () grid(%i = 1) {
  // expected-note @+1 {{the barriers}}
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.roles
    role "a" warps 1 {
      tgpu.wait %full[%i] : !tgpu.barriers<1>
    }
    role "b" warps 1 {
      tgpu.arrive %full[%i] per role : !tgpu.barriers<1>
      // expected-error @+1 {{must be one of the 1 arrivals per use for which the barriers were declared, but got one more of use 0}}
      tgpu.arrive %full[%i] per role : !tgpu.barriers<1>
    }
}

// -----

// The producer counts 0, 2, 4, ...; the consumer 0, 1, 2, ...
tgpu.kernel @counters_part target "sm_90a" warps 2 () grid(%i = 1) {
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c6 = arith.constant 6 : i32
  tgpu.roles
    role "a" warps 1 {
      scf.for %use = %c0 to %c6 step %c2 : i32 {
        tgpu.arrive %full[%use] per role : !tgpu.barriers<2>
      }
    }
    role "b" warps 1 {
      scf.for %use = %c0 to %c2 step %c1 : i32 {
        // expected-error @+1 {{waits too late for use 0: its barrier is 2 phases ahead}}
        tgpu.wait %full[%use] : !tgpu.barriers<2>
      }
    }
}

// -----

// The producer does not wait: use 1 would count as an arrival for use 0.
tgpu.kernel @skips_a_use target "sm_90a" warps 2 () grid(%i = 1) {
  // expected-note @+1 {{the barriers}}
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "a" warps 1 {
      // expected-error @+1 {{belongs to use 1 of the barriers, while use 0 is not complete; both sides must count uses alike, and wait before they reuse a slot}}
      tgpu.arrive %full[%c1] per role : !tgpu.barriers<1>
    }
    role "b" warps 1 {
      tgpu.wait %full[%i] : !tgpu.barriers<1>
    }
}

// -----

tgpu.kernel @too_late target "sm_90a" warps 2 () grid(%i = 1) {
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "a" warps 1 {
      tgpu.arrive %full[%i] per role : !tgpu.barriers<1>
      tgpu.arrive %full[%c1] per role : !tgpu.barriers<1>
    }
    role "b" warps 1 {
      // expected-error @+1 {{waits too late for use 0: its barrier is 1 phases ahead, so the wait may never end; the other side must not advance before this wait}}
      tgpu.wait %full[%i] : !tgpu.barriers<1>
    }
}

// -----

tgpu.kernel @negative_use target "sm_90a" warps 1 () grid(%i = 1) {
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %minus = arith.constant -1 : i32
  // expected-error @+1 {{uses must be counted from 0, but got -1}}
  tgpu.wait %full[%minus] : !tgpu.barriers<1>
}

// -----

// Both roles wait for each other.
tgpu.kernel @each_other target "sm_90a" warps 2 () grid(%i = 1) {
  // expected-note @+1 {{the barriers}}
  %x = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %y = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.roles
    role "a" warps 1 {
      // expected-error @+1 {{deadlocks in role "a": expected arrivals at the barriers for use 0, but got warps that are also waiting}}
      tgpu.wait %x[%i] : !tgpu.barriers<1>
      tgpu.arrive %y[%i] per role : !tgpu.barriers<1>
    }
    role "b" warps 1 {
      tgpu.wait %y[%i] : !tgpu.barriers<1>
      tgpu.arrive %x[%i] per role : !tgpu.barriers<1>
    }
}

// -----

!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
tgpu.kernel @too_few_bytes target "sm_90a" warps 1 (%x: !tile.view<[?, 64], bf16>) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !tile.view<[?, 64], bf16> -> !map
  %buffer = tgpu.alloc : !tile
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  // expected-error @+1 {{expects 4096 bytes, but the copies of this use have 8192}}
  tgpu.expect %full[%i] bytes 4096 : !tgpu.barriers<1>
  // expected-note @+1 {{copied here}}
  tgpu.tma_load %map[0, 0], %buffer, %full[%i] : !map, !tile, !tgpu.barriers<1>
  tgpu.wait %full[%i] : !tgpu.barriers<1>
}

// -----

!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
tgpu.kernel @bytes_not_announced target "sm_90a" warps 1 (%x: !tile.view<[?, 64], bf16>) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !tile.view<[?, 64], bf16> -> !map
  %buffer = tgpu.alloc : !tile
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  // expected-error @+1 {{must copy bytes that a tgpu.expect of its barriers counts, but got 8192 that none counts}}
  tgpu.tma_load %map[0, 0], %buffer, %full[%i] : !map, !tile, !tgpu.barriers<1>
  tgpu.arrive %full[%i] per role : !tgpu.barriers<1>
  tgpu.wait %full[%i] : !tgpu.barriers<1>
}

// -----

!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<3, !tile>
tgpu.kernel @other_stages target "sm_90a" warps 1 (%x: !tile.view<[?, 64], bf16>) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !tile.view<[?, 64], bf16> -> !map
  %ring = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  tgpu.expect %full[%i] bytes 8192 : !tgpu.barriers<2>
  %slot = tgpu.slot %ring[%i] : !ring
  // expected-error @+1 {{fills a ring of 3 stages, but its barriers have 2; both must have the same number}}
  tgpu.tma_load %map[0, 0], %slot, %full[%i] : !map, !tile, !tgpu.barriers<2>
  tgpu.wait %full[%i] : !tgpu.barriers<2>
}

// -----

// Named barriers.
tgpu.kernel @warps_missing target "sm_90a" warps 8 () grid(%i = 1) {
  %b = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "a" warps 4 {
      // expected-error @+1 {{deadlocks in role "a": expected 8 warps at the barrier, but got 4}}
      tgpu.sync on %b
    }
    role "b" warps 4 {
    }
}

// -----

tgpu.kernel @warps_too_many target "sm_90a" warps 12 () grid(%i = 1) {
  %b = tgpu.named_barrier warps 10 : index
  tgpu.roles
    role "a" warps 6 {
      tgpu.sync on %b
    }
    role "b" warps 6 {
      // expected-error @+1 {{raises the arrivals to 12 warps, but the barrier was declared for 10}}
      tgpu.sync on %b
    }
}

// -----

tgpu.kernel @second_time target "sm_90a" warps 8 () grid(%i = 1) {
  %b = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "a" warps 4 {
      tgpu.signal %b
      // expected-error @+1 {{must arrive at the barrier a second time after all 8 warps, but got 4 that have arrived}}
      tgpu.signal %b
    }
    role "b" warps 4 {
    }
}

// -----

// Turns.
tgpu.kernel @taken_twice target "sm_90a" warps 8 () grid(%i = 1) {
  %turns = tgpu.turns warpgroups 2 : index
  // expected-note @+1 {{taken here}}
  tgpu.take_turn %turns
  // expected-error @+1 {{takes the turn again before passing it on; tgpu.take_turn and tgpu.pass_turn must alternate}}
  tgpu.take_turn %turns
}

// -----

tgpu.kernel @passed_untaken target "sm_90a" warps 8 () grid(%i = 1) {
  %turns = tgpu.turns warpgroups 2 : index
  // expected-error @+1 {{passes on a turn that was not taken; tgpu.take_turn and tgpu.pass_turn must alternate}}
  tgpu.pass_turn %turns
}

// -----

tgpu.kernel @kept target "sm_90a" warps 8 () grid(%i = 1) {
  %turns = tgpu.turns warpgroups 2 : index
  // expected-error @+1 {{takes a turn that is never passed on; tgpu.pass_turn must follow}}
  tgpu.take_turn %turns
}

// -----

// The warpgroup with the turn waits for the other one, which waits for the turn.
tgpu.kernel @met_in_turn target "sm_90a" warps 8 () grid(%i = 1) {
  %turns = tgpu.turns warpgroups 2 : index
  // expected-note @+1 {{taken here}}
  tgpu.take_turn %turns
  // expected-error @+1 {{waits for all warpgroups while one has the turn that the others wait for, so that none goes on; tgpu.pass_turn must come before}}
  tgpu.sync
  tgpu.pass_turn %turns
}

// -----

// Products. A loop may carry a pending product, but the tile in flight is not available yet.
!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @in_flight target "sm_90a" warps 4 (%x: !tile.view<[?, 64], bf16>) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !tile.view<[?, 64], bf16> -> !map
  %buffer = tgpu.alloc : !tile
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.expect %full[%i] bytes 8192 : !tgpu.barriers<1>
  tgpu.tma_load %map[0, 0], %buffer, %full[%i] : !map, !tile, !tgpu.barriers<1>
  tgpu.wait %full[%i] : !tgpu.barriers<1>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %first = tgpu.wgmma %buffer, %buffer : !tile, !tile -> !acc
  tgpu.wgmma_commit
  %last = scf.for %k = %c0 to %c3 step %c1 iter_args(%before = %first) -> (!tgpu.pending<!acc>) : i32 {
    %next = tgpu.wgmma %buffer, %buffer : !tile, !tile -> !acc
    tgpu.wgmma_commit
    // This product is complete: only the group after it may be pending.
    %done = tgpu.wgmma_wait pending 1, %before : !acc
    scf.yield %next : !tgpu.pending<!acc>
  }
  // expected-error @+1 {{yields a tile that may still be in flight: wait until at most 0 groups are pending, but got 1}}
  %end = tgpu.wgmma_wait pending 1, %last : !acc
}

// -----

!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @not_committed target "sm_90a" warps 4 (%x: !tile.view<[?, 64], bf16>) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !tile.view<[?, 64], bf16> -> !map
  %buffer = tgpu.alloc : !tile
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.expect %full[%i] bytes 8192 : !tgpu.barriers<1>
  tgpu.tma_load %map[0, 0], %buffer, %full[%i] : !map, !tile, !tgpu.barriers<1>
  tgpu.wait %full[%i] : !tgpu.barriers<1>
  %pending = tgpu.wgmma %buffer, %buffer : !tile, !tile -> !acc
  // expected-error @+1 {{waits for a product that is not committed; tgpu.wgmma_commit must come between}}
  %done = tgpu.wgmma_wait pending 0, %pending : !acc
}

// -----

!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @never_committed target "sm_90a" warps 4 (%x: !tile.view<[?, 64], bf16>) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !tile.view<[?, 64], bf16> -> !map
  %buffer = tgpu.alloc : !tile
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.expect %full[%i] bytes 8192 : !tgpu.barriers<1>
  tgpu.tma_load %map[0, 0], %buffer, %full[%i] : !map, !tile, !tgpu.barriers<1>
  tgpu.wait %full[%i] : !tgpu.barriers<1>
  // expected-error @+1 {{is not committed to a group; tgpu.wgmma_commit must follow}}
  %pending = tgpu.wgmma %buffer, %buffer : !tile, !tile -> !acc
}

// -----

// The buffer is released to the copies while the product still reads it.
!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @released_too_early target "sm_90a" warps 8 (%x: !tile.view<[?, 64], bf16>) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !tile.view<[?, 64], bf16> -> !map
  %buffer = tgpu.alloc : !tile
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %empty = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<1>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  tgpu.roles
    role "load" warps 4 {
      scf.for %use = %c0 to %c2 step %c1 : i32 {
        tgpu.acquire %empty[%use] : !tgpu.barriers<1>
        tgpu.expect %full[%use] bytes 8192 : !tgpu.barriers<1>
        // expected-error @+1 {{overwrites a buffer that a product may still read; tgpu.wgmma_wait for it first}}
        tgpu.tma_load %map[0, 0], %buffer, %full[%use] : !map, !tile, !tgpu.barriers<1>
      }
    }
    role "compute" warps 4 {
      tgpu.wait %full[%c0] : !tgpu.barriers<1>
      // expected-note @+1 {{read here by role "compute"}}
      %0 = tgpu.wgmma %buffer, %buffer : !tile, !tile -> !acc
      tgpu.wgmma_commit
      tgpu.arrive %empty[%c0] per warp : !tgpu.barriers<1>
      tgpu.wait %full[%c1] : !tgpu.barriers<1>
      %1 = tgpu.wgmma_wait pending 0, %0 : !acc
      %2 = tgpu.wgmma %buffer, %buffer : !tile, !tile -> !acc
      tgpu.wgmma_commit
      %3 = tgpu.wgmma_wait pending 0, %2 : !acc
    }
}

// -----

// The registers of %p are overwritten at the end of an iteration while a product may still read them.
!b = !tgpu.shared<64x64xbf16, b128>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
!h = tensor<64x64xbf16, #tgpu.wgmma<1>>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @operand_overwritten target "sm_90a" warps 4 (%zero: bf16, %zero_acc: f32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %buffer = tgpu.alloc : !b
  %zeros = tile.full %zero : !h
  tgpu.write %zeros, %buffer : !h, !b
  tgpu.fence_async
  tgpu.sync
  %p0 = tgpu.convert %zeros : !h -> !a
  %acc0 = tile.full %zero_acc : !acc
  %first = tgpu.wgmma %buffer, %buffer transpose_b : !b, !b -> !acc
  tgpu.wgmma_commit
  %r:2 = scf.for %n = %c0 to %c3 step %c1 iter_args(%p = %p0, %before = %first) -> (!a, !tgpu.pending<!acc>) : i32 {
    // expected-note @+1 {{the product}}
    %o = tgpu.wgmma %p, %buffer, %before : !a, !b, !tgpu.pending<!acc> -> !acc
    tgpu.wgmma_commit
    %new = arith.addf %zeros, %zeros : !h
    %p_new = tgpu.convert %new : !h -> !a
    // expected-error @+1 {{overwrites an operand a in registers for the next iteration while a product may still read it; tgpu.wgmma_wait for it before the iteration ends}}
    scf.yield %p_new, %o : !a, !tgpu.pending<!acc>
  }
  %done = tgpu.wgmma_wait pending 0, %r#1 : !acc
}

// -----

// Valid: the new operand is computed while the product runs, and yielded after it has ended. An iteration that keeps
// the operand needs no wait.
!b = !tgpu.shared<64x64xbf16, b128>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
!h = tensor<64x64xbf16, #tgpu.wgmma<1>>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @operand_kept target "sm_90a" warps 4 (%zero: bf16, %zero_acc: f32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %buffer = tgpu.alloc : !b
  %zeros = tile.full %zero : !h
  tgpu.write %zeros, %buffer : !h, !b
  tgpu.fence_async
  tgpu.sync
  %p0 = tgpu.convert %zeros : !h -> !a
  %acc0 = tile.full %zero_acc : !acc
  %p_last, %sum = scf.for %n = %c0 to %c3 step %c1 iter_args(%p = %p0, %acc = %acc0) -> (!a, !acc) : i32 {
    %o = tgpu.wgmma %p, %buffer, %acc : !a, !b, !acc -> !acc
    tgpu.wgmma_commit
    %p_new = tgpu.convert %zeros : !h -> !a
    %o_done = tgpu.wgmma_wait pending 0, %o : !acc
    scf.yield %p_new, %o_done : !a, !acc
  }
  %first = tgpu.wgmma %p_last, %buffer, %sum : !a, !b, !acc -> !acc
  tgpu.wgmma_commit
  %r:2 = scf.for %n = %c0 to %c3 step %c1 iter_args(%p = %p_last, %before = %first) -> (!a, !tgpu.pending<!acc>) : i32 {
    %o = tgpu.wgmma %p, %buffer, %before : !a, !b, !tgpu.pending<!acc> -> !acc
    tgpu.wgmma_commit
    scf.yield %p, %o : !a, !tgpu.pending<!acc>
  }
  %done = tgpu.wgmma_wait pending 0, %r#1 : !acc
}

// -----

!b = !tgpu.shared<64x64xbf16, b128>
!h = tensor<64x64xbf16, #tgpu.wgmma<1>>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @product_outlives_kernel target "sm_90a" warps 4 (%zero: bf16) grid(%i = 1) {
  %buffer = tgpu.alloc : !b
  %zeros = tile.full %zero : !h
  tgpu.write %zeros, %buffer : !h, !b
  tgpu.fence_async
  tgpu.sync
  // expected-error @+1 {{may still be under way when its role ends; tgpu.wgmma_wait must follow}}
  %product = tgpu.wgmma %buffer, %buffer transpose_b : !b, !b -> !acc
  tgpu.wgmma_commit
}

// -----

// The first warps of role "b" may arrive for use 1 before the last have arrived for use 0: nothing tells them.
tgpu.kernel @arrives_unknowing target "sm_90a" warps 3 () grid(%i = 1) {
  %c1 = arith.constant 1 : i32
  // expected-note @+1 {{the barriers}}
  %full = tgpu.alloc_barriers arrivals 2 : !tgpu.barriers<1>
  tgpu.roles
    role "a" warps 1 {
      tgpu.wait %full[%i] : !tgpu.barriers<1>
    }
    role "b" warps 2 {
      tgpu.arrive %full[%i] per warp : !tgpu.barriers<1>
      // expected-error @+1 {{may count for the previous use of its barrier: role "b" arrives for use 1 without knowing that the previous one is complete; it must wait for that use, or for another role that has done so}}
      tgpu.arrive %full[%c1] per warp : !tgpu.barriers<1>
    }
}

// -----

// A role of one warp that arrives alone knows; and so does one that another role told.
tgpu.kernel @arrives_knowing target "sm_90a" warps 4 () grid(%i = 1) {
  %c1 = arith.constant 1 : i32
  %full = tgpu.alloc_barriers arrivals 2 : !tgpu.barriers<1>
  %seen = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %alone = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.roles
    role "a" warps 1 {
      tgpu.wait %full[%i] : !tgpu.barriers<1>
      tgpu.arrive %seen[%i] per role : !tgpu.barriers<1>
      tgpu.wait %full[%c1] : !tgpu.barriers<1>
    }
    role "b" warps 2 {
      tgpu.arrive %full[%i] per warp : !tgpu.barriers<1>
      tgpu.wait %seen[%i] : !tgpu.barriers<1>
      tgpu.arrive %full[%c1] per warp : !tgpu.barriers<1>
    }
    role "c" warps 1 {
      tgpu.arrive %alone[%i] per role : !tgpu.barriers<1>
      tgpu.arrive %alone[%c1] per role : !tgpu.barriers<1>
    }
}

// -----

// A signal does not wait, so the next one may come before role "a" has arrived.
tgpu.kernel @signals_again target "sm_90a" warps 3 () grid(%i = 1) {
  %meet = tgpu.named_barrier warps 3 : index
  tgpu.roles
    role "a" warps 1 {
      // expected-note @+1 {{the earlier arrival by role "a"}}
      tgpu.sync on %meet
      tgpu.sync on %meet
    }
    role "b" warps 2 {
      tgpu.signal %meet
      // expected-error @+1 {{may arrive at the barrier again before the warps of an earlier arrival; a barrier must come between}}
      tgpu.signal %meet
    }
}
