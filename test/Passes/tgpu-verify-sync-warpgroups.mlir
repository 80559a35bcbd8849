// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Warpgroups of a role with different first iterations are simulated separately: the second skips these iterations, the
// first executes all.
// RUN: tilewright-opt %s --tgpu-verify-sync -split-input-file -verify-diagnostics

!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!buffer = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<2, <64x64xbf16, b128>>

tgpu.kernel @in_each_round target "sm_90a" warps 12 (%x: !view, %n: i32) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %ring = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %turns = tgpu.turns warpgroups 2 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rows = tile.dim %x, 0 : !view
  %rounds = arith.ceildivsi %rows, %c64 : i32
  tgpu.roles
    role "load" warps 4 registers 40 {
      %use = scf.for %i = %c0 to %rounds step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        %m = arith.muli %i, %c64 : i32
        tgpu.acquire %empty[%u] : !tgpu.barriers<2>
        tgpu.expect %full[%u] bytes 8192 : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%u] : !ring
        tgpu.tma_load %map[%m, 0], %slot, %full[%u] : !map, !buffer, !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
    role "compute" warps 8 registers 232 {
      %first = tgpu.first_round %c0 of %c0, %rounds
      %u1 = scf.for %i = %c0 to %first step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        tgpu.take_turn %turns
        tgpu.pass_turn %turns
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      } {tgpu.idle_rounds}
      %u2 = scf.for %i = %first to %rounds step %c1 iter_args(%u = %u1) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        tgpu.take_turn %turns
        tgpu.pass_turn %turns
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
}

// -----

// Their slots are needed before their iterations start.
!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!buffer = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<2, <64x64xbf16, b128>>

tgpu.kernel @behind_them target "sm_90a" warps 12 (%x: !view, %n: i32) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %ring = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %turns = tgpu.turns warpgroups 2 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rows = tile.dim %x, 0 : !view
  %rounds = arith.ceildivsi %rows, %c64 : i32
  tgpu.roles
    role "load" warps 4 registers 40 {
      %use = scf.for %i = %c0 to %rounds step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        %m = arith.muli %i, %c64 : i32
        // expected-note @+1 {{role "load" waits here}}
        tgpu.acquire %empty[%u] : !tgpu.barriers<2>
        tgpu.expect %full[%u] bytes 8192 : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%u] : !ring
        tgpu.tma_load %map[%m, 0], %slot, %full[%u] : !map, !buffer, !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
    role "compute" warps 8 registers 232 {
      %first = tgpu.first_round %c0 of %c0, %rounds
      %u1 = scf.for %i = %c0 to %first step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        // expected-note @+1 {{role "compute", warpgroup 1 waits here}}
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      } {tgpu.idle_rounds}
      scf.for %i = %c0 to %first step %c1 : i32 {
        tgpu.take_turn %turns
        tgpu.pass_turn %turns
      }
      %u2 = scf.for %i = %first to %rounds step %c1 iter_args(%u = %u1) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        // expected-error @+1 {{deadlocks in role "compute", warpgroup 0, while the warpgroups of its role have different first iterations (tgpu.first_round); each must wait, arrive and take turns as often as the others, in the same order}}
        tgpu.take_turn %turns
        tgpu.pass_turn %turns
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
}

// -----

// No turn is taken: the first waits for the second.
!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!buffer = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<2, <64x64xbf16, b128>>

tgpu.kernel @never target "sm_90a" warps 12 (%x: !view, %n: i32) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %ring = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %turns = tgpu.turns warpgroups 2 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rows = tile.dim %x, 0 : !view
  %rounds = arith.ceildivsi %rows, %c64 : i32
  tgpu.roles
    role "load" warps 4 registers 40 {
      %use = scf.for %i = %c0 to %rounds step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        %m = arith.muli %i, %c64 : i32
        tgpu.acquire %empty[%u] : !tgpu.barriers<2>
        tgpu.expect %full[%u] bytes 8192 : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%u] : !ring
        tgpu.tma_load %map[%m, 0], %slot, %full[%u] : !map, !buffer, !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
    role "compute" warps 8 registers 232 {
      %first = tgpu.first_round %c0 of %c0, %rounds
      %u1 = scf.for %i = %c0 to %first step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      } {tgpu.idle_rounds}
      %u2 = scf.for %i = %first to %rounds step %c1 iter_args(%u = %u1) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        // expected-error @+1 {{deadlocks in role "compute", warpgroup 0, while the warpgroups of its role have different first iterations (tgpu.first_round); each must wait, arrive and take turns as often as the others, in the same order}}
        tgpu.take_turn %turns
        tgpu.pass_turn %turns
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
}

// -----

// A slot is released before the other warpgroup has released its previous use.
!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!buffer = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<1, <64x64xbf16, b128>>

tgpu.kernel @without_waits target "sm_90a" warps 12 (%x: !view, %n: i32) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %ring = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rows = tile.dim %x, 0 : !view
  %rounds = arith.ceildivsi %rows, %c64 : i32
  tgpu.roles
    role "load" warps 4 registers 40 {
      %use = scf.for %i = %c0 to %rounds step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        %m = arith.muli %i, %c64 : i32
        tgpu.acquire %empty[%u] : !tgpu.barriers<1>
        tgpu.expect %full[%u] bytes 8192 : !tgpu.barriers<1>
        %slot = tgpu.slot %ring[%u] : !ring
        tgpu.tma_load %map[%m, 0], %slot, %full[%u] : !map, !buffer, !tgpu.barriers<1>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
    role "compute" warps 8 registers 232 {
      %first = tgpu.first_round %c0 of %c0, %rounds
      %u1 = scf.for %i = %c0 to %first step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        // expected-error @+1 {{reaches use 2 of its barriers in role "compute", warpgroup 1 before the previous use of the slot is complete, while the warpgroups of its role have different first iterations (tgpu.first_round); it must wait for the slot first}}
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<1>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      } {tgpu.idle_rounds}
      %u2 = scf.for %i = %first to %rounds step %c1 iter_args(%u = %u1) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<1>
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<1>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
}

// -----

// A slot is free when all warps have arrived, not when a warpgroup that skips the round has done so twice.
!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!buffer = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<2, <64x64xbf16, b128>>

tgpu.kernel @twice target "sm_90a" warps 12 (%x: !view, %n: i32) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %ring = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-note @+1 {{the barriers}}
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rows = tile.dim %x, 0 : !view
  %blocks = arith.ceildivsi %rows, %c64 : i32
  %rounds = arith.minsi %blocks, %blocks : i32
  tgpu.roles
    role "load" warps 4 registers 40 {
      %use = scf.for %i = %c0 to %rounds step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        %m = arith.muli %i, %c64 : i32
        tgpu.acquire %empty[%u] : !tgpu.barriers<2>
        tgpu.expect %full[%u] bytes 8192 : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%u] : !ring
        tgpu.tma_load %map[%m, 0], %slot, %full[%u] : !map, !buffer, !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
    role "compute" warps 8 registers 232 {
      %first = tgpu.first_round %c0 of %c0, %rounds
      %u1 = scf.for %i = %c0 to %first step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        // expected-error @+1 {{makes 8 arrivals for use 0 in role "compute", warpgroup 1, and all warps make 12, but the barriers were declared for 8; each warpgroup must arrive as often in rounds that it skips (tgpu.first_round) as in others}}
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      } {tgpu.idle_rounds}
      %u2 = scf.for %i = %first to %rounds step %c1 iter_args(%u = %u1) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
}

// -----

// The same if each of its threads arrives.
!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!buffer = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<2, <64x64xbf16, b128>>

tgpu.kernel @by_each_thread target "sm_90a" warps 12 (%x: !view, %n: i32) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %ring = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-note @+1 {{the barriers}}
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rows = tile.dim %x, 0 : !view
  %blocks = arith.ceildivsi %rows, %c64 : i32
  %rounds = arith.minsi %blocks, %blocks : i32
  tgpu.roles
    role "load" warps 4 registers 40 {
      %use = scf.for %i = %c0 to %rounds step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        %m = arith.muli %i, %c64 : i32
        tgpu.acquire %empty[%u] : !tgpu.barriers<2>
        tgpu.expect %full[%u] bytes 8192 : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%u] : !ring
        tgpu.tma_load %map[%m, 0], %slot, %full[%u] : !map, !buffer, !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
    role "compute" warps 8 registers 232 {
      %first = tgpu.first_round %c0 of %c0, %rounds
      %u1 = scf.for %i = %c0 to %first step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        // expected-error @+1 {{makes 128 arrivals for use 0 in role "compute", warpgroup 1, and all warps make 132, but the barriers were declared for 8; each warpgroup must arrive as often in rounds that it skips (tgpu.first_round) as in others}}
        tgpu.arrive %empty[%u] per thread : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      } {tgpu.idle_rounds}
      %u2 = scf.for %i = %first to %rounds step %c1 iter_args(%u = %u1) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
}

// -----

// No role needs the slot again, but the phase would never end.
!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!buffer = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<2, <64x64xbf16, b128>>

tgpu.kernel @not_at_all target "sm_90a" warps 12 (%x: !view, %n: i32) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %ring = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-note @+1 {{the barriers}}
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rows = tile.dim %x, 0 : !view
  %blocks = arith.ceildivsi %rows, %c64 : i32
  %rounds = arith.minsi %blocks, %c1 : i32
  tgpu.roles
    role "load" warps 4 registers 40 {
      %use = scf.for %i = %c0 to %rounds step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        %m = arith.muli %i, %c64 : i32
        tgpu.acquire %empty[%u] : !tgpu.barriers<2>
        tgpu.expect %full[%u] bytes 8192 : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%u] : !ring
        tgpu.tma_load %map[%m, 0], %slot, %full[%u] : !map, !buffer, !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
    role "compute" warps 8 registers 232 {
      %first = tgpu.first_round %c0 of %c0, %rounds
      %u1 = scf.for %i = %c0 to %first step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      } {tgpu.idle_rounds}
      %u2 = scf.for %i = %first to %rounds step %c1 iter_args(%u = %u1) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        // expected-error @+1 {{must make as many arrivals for use 0 in all warpgroups, but got 4 in role "compute", warpgroup 0 and 0 in role "compute", warpgroup 1; each warpgroup must arrive as often in rounds that it skips (tgpu.first_round) as in others}}
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
}

// -----

// One arrival for the warpgroup in place of one for each warp.
!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!buffer = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<2, <64x64xbf16, b128>>

tgpu.kernel @too_few target "sm_90a" warps 12 (%x: !view, %n: i32) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %ring = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-note @+1 {{the barriers}}
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rows = tile.dim %x, 0 : !view
  %blocks = arith.ceildivsi %rows, %c64 : i32
  %rounds = arith.minsi %blocks, %c1 : i32
  tgpu.roles
    role "load" warps 4 registers 40 {
      %use = scf.for %i = %c0 to %rounds step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        %m = arith.muli %i, %c64 : i32
        tgpu.acquire %empty[%u] : !tgpu.barriers<2>
        tgpu.expect %full[%u] bytes 8192 : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%u] : !ring
        tgpu.tma_load %map[%m, 0], %slot, %full[%u] : !map, !buffer, !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
    role "compute" warps 8 registers 232 {
      %first = tgpu.first_round %c0 of %c0, %rounds
      %u1 = scf.for %i = %c0 to %first step %c1 iter_args(%u = %c0) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        tgpu.arrive %empty[%u] per warpgroup : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      } {tgpu.idle_rounds}
      %u2 = scf.for %i = %first to %rounds step %c1 iter_args(%u = %u1) -> (i32) : i32 {
        tgpu.wait %full[%u] : !tgpu.barriers<2>
        // expected-error @+1 {{must make as many arrivals for use 0 in all warpgroups, but got 4 in role "compute", warpgroup 0 and 1 in role "compute", warpgroup 1; each warpgroup must arrive as often in rounds that it skips (tgpu.first_round) as in others}}
        tgpu.arrive %empty[%u] per warp : !tgpu.barriers<2>
        %next = arith.addi %u, %c1 : i32
        scf.yield %next : i32
      }
    }
}
