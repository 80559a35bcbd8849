// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The launches and blocks that tgpu-verify-sync simulates, and its remarks on code that none of them reaches.
// RUN: tilewright-opt %s --tgpu-verify-sync=report-unreached -split-input-file -verify-diagnostics
// RUN: not tilewright-opt %s --tgpu-verify-sync -split-input-file 2>&1 | FileCheck %s --check-prefix=QUIET
// QUIET-NOT: remark:

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, 64], bf16>

// The last block has no iteration.
tgpu.kernel @first_block target "sm_80" warps 4 (%x: !view) grid(%i = ceildiv(dim(x, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %buffer = tgpu.alloc : !tile
  %rows = tile.dim %x, 0 : !view
  %blocks = arith.ceildivsi %rows, %c64 : i32
  %last = arith.subi %blocks, %c1 : i32
  %rounds = arith.subi %last, %i : i32
  scf.for %round = %c0 to %rounds step %c1 : i32 {
    tgpu.sync
    // expected-note @+1 {{written here}}
    tgpu.copy_async %x[%round, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.sync
    // expected-error @+1 {{reads a buffer before its copy is done; tgpu.copy_wait for its group first}}
    %tile = tgpu.read %buffer : !tile -> !r
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, 64], bf16>

// Neither the first nor the last block has an iteration.
tgpu.kernel @middle_block target "sm_80" warps 4 (%x: !view) grid(%i = ceildiv(dim(x, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %buffer = tgpu.alloc : !tile
  %rows = tile.dim %x, 0 : !view
  %blocks = arith.ceildivsi %rows, %c64 : i32
  %last = arith.subi %blocks, %c1 : i32
  %left = arith.subi %last, %i : i32
  %rounds = arith.minsi %left, %i : i32
  scf.for %round = %c0 to %rounds step %c1 : i32 {
    // expected-note @+1 {{written here}}
    tgpu.copy_async %x[%round, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.sync
    // expected-error @+1 {{reads a buffer before its copy is done; tgpu.copy_wait for its group first}}
    %tile = tgpu.read %buffer : !tile -> !r
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, ?, 64], bf16>

// A group has two heads, and a barrier between them is missing.
tgpu.kernel @heads_of_a_group target "sm_80" warps 4 (%q: !view, %k: !view) grid(%i = dim(k, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  %q_heads = tile.dim %q, 0 : !view
  %k_heads = tile.dim %k, 0 : !view
  %some = arith.maxsi %k_heads, %c1 : i32
  %group = arith.divsi %q_heads, %some : i32
  scf.for %g = %c0 to %group step %c1 : i32 {
    // expected-error @+1 {{overwrites a buffer that other warps may still read; a barrier must come between}}
    tgpu.copy_async %q[%g, 0, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    // expected-note @+1 {{read here}}
    %tile = tgpu.read %buffer : !tile -> !r
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, 64], bf16>

// If an unused array has no elements, there are tiles.
tgpu.kernel @instead_of_another target "sm_80" warps 4 (%x: !view, %sums: !view)
    grid(%i = min(148, ceildiv(dim(x, 0), 64) * (1 - min(dim(sums, 0), 1)))) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %buffer = tgpu.alloc : !tile
  %rows = tile.dim %x, 0 : !view
  %blocks = arith.ceildivsi %rows, %c64 : i32
  %others = tile.dim %sums, 0 : !view
  %one = arith.minsi %others, %c1 : i32
  %own = arith.subi %c1, %one : i32
  %tiles = arith.muli %blocks, %own : i32
  scf.for %t = %c0 to %tiles step %c1 : i32 {
    tgpu.sync
    // expected-note @+1 {{written here}}
    tgpu.copy_async %x[%t, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.sync
    // expected-error @+1 {{reads a buffer before its copy is done; tgpu.copy_wait for its group first}}
    %tile = tgpu.read %buffer : !tile -> !r
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, ?, 64], bf16>

// The heads of another argument are also read: they may have to equal those of the queries, so they stay equal.
tgpu.kernel @heads_that_are_related target "sm_80" warps 4 (%q: !view, %k: !view, %o: !view) grid(%i = dim(k, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  %q_heads = tile.dim %q, 0 : !view
  %k_heads = tile.dim %k, 0 : !view
  %o_heads = tile.dim %o, 0 : !view
  %group = arith.divsi %q_heads, %k_heads : i32
  %differ = arith.cmpi ne, %q_heads, %o_heads : i32
  scf.if %differ {
    // expected-remark @+1 {{was not reached by any simulated launch}}
    tgpu.sync
    %tile = tgpu.read %buffer : !tile -> !r
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, 64], bf16>

// The numbers of keys and queries differ, by less than a tile.
tgpu.kernel @surplus target "sm_80" warps 4 (%q: !view, %k: !view) grid(%i = ceildiv(dim(q, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %buffer = tgpu.alloc : !tile
  %queries = tile.dim %q, 0 : !view
  %keys = tile.dim %k, 0 : !view
  %surplus = arith.subi %keys, %queries : i32
  %rest = arith.remsi %surplus, %c64 : i32
  %differ = arith.cmpi sgt, %rest, %c0 : i32
  %fewer = arith.cmpi slt, %rest, %c0 : i32
  %other = tgpu.alloc : !tile
  tgpu.copy_async %q[%i, 0], %buffer : !view, !tile
  tgpu.copy_async %k[%i, 0], %other : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  scf.if %differ {
    tgpu.sync
  }
  scf.if %fewer {
    tgpu.sync
  }
  %never = arith.cmpi sgt, %rest, %c64 : i32
  scf.if %never {
    // expected-remark @+1 {{was not reached by any simulated launch}}
    tgpu.sync
    tgpu.copy_commit
  }
}

// -----

// A window given by an integer argument: masked on both sides, full between them.
!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, 64], bf16>
tgpu.kernel @window target "sm_80" warps 4 (%x: !view, %left: i32) grid(%i = ceildiv(dim(x, 0), 64)) {
  %tile = tgpu.load %x[%i, 0] : !view -> !r
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rows = tile.dim %x, 0 : !view
  %m = arith.muli %i, %c64 : i32
  %first = arith.subi %m, %left : i32
  %is_left = arith.cmpi sgt, %first, %c0 : i32
  %end = arith.addi %m, %left : i32
  %end_of_tile = arith.addi %end, %c64 : i32
  %is_right = arith.cmpi sle, %end_of_tile, %rows : i32
  %some_tiles = arith.divsi %left, %c64 : i32
  %is_wide = arith.cmpi sgt, %some_tiles, %c1 : i32
  %both = arith.andi %is_left, %is_right : i1
  %all = arith.andi %both, %is_wide : i1
  scf.if %all {
    // Reached: no remark.
    tgpu.sync
  }
}

// -----

// A role receives values from a role that follows it in the text.
!words = !tgpu.shared<4xi32, none>
!s = !tgpu.shared<128x64xbf16, b128>
!r = tensor<128x64xbf16, #tgpu.mma<4, 1>>
!a = tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!full = !tgpu.barriers<1>
!ring = !tgpu.ring<1, <4xi32, none>>
!view = !tile.view<[?, 64], bf16>
tgpu.kernel @told_by_a_later_role target "sm_90a" warps 8 (%x: !view) grid(%i = ceildiv(dim(x, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %told = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !full
  %meet = tgpu.named_barrier warps 4 : index
  %buffer = tgpu.alloc : !s
  tgpu.roles
    role "compute" warps 4 {
      tgpu.wait %full[%c0] : !full
      %slot = tgpu.slot %told[%c0] : !ring
      %rounds = tgpu.receive %slot : !words -> i32
      scf.for %round = %c0 to %rounds step %c1 : i32 {
        %zero = arith.constant 0.0 : bf16
        %tile = tile.full %zero : !r
        tgpu.sync on %meet
        // expected-note @+1 {{written here}}
        tgpu.write %tile, %buffer : !r, !s
        // expected-error @+1 {{reads a buffer that other warps may not have written yet; a barrier must come between}}
        %read = tgpu.read %buffer : !s -> !a
      }
    }
    role "schedule" warps 4 {
      %rows = tile.dim %x, 0 : !view
      %blocks = arith.ceildivsi %rows, %c128 : i32
      %slot = tgpu.slot %told[%c0] : !ring
      tgpu.publish %blocks to %slot : !words
      tgpu.arrive %full[%c0] per role : !full
    }
}

// -----

// The optional argument is absent, regardless of its extent.
tgpu.kernel @absent target "sm_90a" warps 2 (%gradient: optional !tile.view<[1], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  // expected-note @+1 {{the barriers}}
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.roles
    role "a" warps 1 {
      // expected-error @+1 {{deadlocks in role "a": expected an arrival at the barriers for use 0, but got none}}
      tgpu.wait %full[%i] : !tgpu.barriers<1>
    }
    role "b" warps 1 {
      %size = tile.dim %gradient, 0 : !tile.view<[1], f32>
      %is_there = arith.cmpi sgt, %size, %c0 : i32
      scf.if %is_there {
        tgpu.arrive %full[%i] per warp : !tgpu.barriers<1>
      }
    }
}

// -----

// A required argument is always given.
tgpu.kernel @given target "sm_90a" warps 2 (%gradient: !tile.view<[1], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.roles
    role "a" warps 1 {
      tgpu.wait %full[%i] : !tgpu.barriers<1>
    }
    role "b" warps 1 {
      %size = tile.dim %gradient, 0 : !tile.view<[1], f32>
      %is_there = arith.cmpi sgt, %size, %c0 : i32
      scf.if %is_there {
        tgpu.arrive %full[%i] per warp : !tgpu.barriers<1>
      }
    }
}


// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!map  = !tgpu.tensor_map<64x64xbf16, b128>
!view = !tile.view<[?, 64], bf16>

// Both roles clamp a position by the extent of a capture, of which each has a view of its own. Only one of them loads
// tiles of it; the extent is the same.
tile.capture @rows : !tile.view<[?, 64], bf16>
tgpu.kernel @captured target "sm_90a" warps 5 (%x: !view, %y: !view) grid(%i = ceildiv(dim(x, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %map = tgpu.tensor_map %x : !view -> !map
  %ring = tgpu.alloc_ring : !tgpu.ring<2, <64x64xbf16, b128>>
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %empty = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<2>
  tgpu.roles
    role "load" warps 1 {
      %view = tile.captured @rows : !view
      %rows = tile.dim %view, 0 : !view
      %blocks = arith.ceildivsi %rows, %c64 : i32
      scf.for %n = %c0 to %blocks step %c1 : i32 {
        tgpu.acquire %empty[%n] : !tgpu.barriers<2>
        tgpu.expect %full[%n] bytes 8192 : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%n] : !tgpu.ring<2, <64x64xbf16, b128>>
        tgpu.tma_load %map[%n, 0], %slot, %full[%n] : !map, !tile, !tgpu.barriers<2>
      }
    }
    role "compute" warps 4 {
      %view = tile.captured @rows : !view
      %rows = tile.dim %view, 0 : !view
      %blocks = arith.ceildivsi %rows, %c64 : i32
      scf.for %n = %c0 to %blocks step %c1 : i32 {
        %first = arith.muli %n, %c64 : i32
        %own = tgpu.load %view[%first, 0] : !view -> tensor<64x64xbf16, #tgpu.wgmma<1>>
        tgpu.wait %full[%n] : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%n] : !tgpu.ring<2, <64x64xbf16, b128>>
        %tile = tgpu.read %slot : !tile -> tensor<64x64xbf16, #tgpu.wgmma<1>>
        %sum = arith.addf %tile, %own : tensor<64x64xbf16, #tgpu.wgmma<1>>
        tgpu.store %sum, %y[%first, 0] : tensor<64x64xbf16, #tgpu.wgmma<1>>, !view
        tgpu.arrive %empty[%n] per warp : !tgpu.barriers<2>
      }
    }
}
