// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid barriers, turns and fences of tgpu.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// mbarriers.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{a phase needs 1 to 1048575 arrivals, but got 0}}
  %0 = tgpu.alloc_barriers arrivals 0 : !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{a phase needs 1 to 1048575 arrivals, but got -1}}
  %0 = tgpu.alloc_barriers arrivals -1 : !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{a phase needs 1 to 1048575 arrivals, but got 1048576}}
  %0 = tgpu.alloc_barriers arrivals 1048576 : !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{offset of barriers must be a multiple of 8 bytes, but got 4}}
  %0 = tgpu.alloc_barriers arrivals 1 at 4 : !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{offset of barriers must be a multiple of 8 bytes, but got -8}}
  %0 = tgpu.alloc_barriers arrivals 1 at -8 : !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  tgpu.roles
    role "a" warps 4 {
      // expected-error @+1 {{must be outside of roles, since every warp must wait for the initialization, but got it in a role}}
      %0 = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  tgpu.roles
    role "a" warps 3 {
      // expected-error @+1 {{'per warpgroup' requires a multiple of 4 warps in its role, but got 3}}
      tgpu.arrive %b[%i] per warpgroup : !tgpu.barriers<2>
    }
    role "b" warps 1 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{must expect 1 to 1048575 bytes, but got 0}}
  tgpu.expect %b[%i] bytes 0 : !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{must expect 1 to 1048575 bytes, but got 1048576}}
  tgpu.expect %b[%i] bytes 1048576 : !tgpu.barriers<2>
}

// -----

tgpu.kernel @k target "sm_80" warps 4 () grid(%i = 1) {
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{needs target sm_90a, sm_100a, sm_103a or sm_120a, but the kernel's is sm_80}}
  tgpu.expect %b[%i] bytes 16 : !tgpu.barriers<2>
}

// -----

// Named barriers.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{a named barrier must have 1 to 32 warps, but got 0}}
  %0 = tgpu.named_barrier warps 0 : index
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{a named barrier must have 1 to 32 warps, but got 33}}
  %0 = tgpu.named_barrier warps 33 : index
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{id of a named barrier must be 1 to 15, but got 0}}
  %0 = tgpu.named_barrier warps 4 id 0 : index
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{id of a named barrier must be 1 to 15, but got 16}}
  %0 = tgpu.named_barrier warps 4 id 16 : index
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{'per warpgroup' requires a multiple of 4 warps, but got 6}}
  %0 = tgpu.named_barrier warps 6 per warpgroup : index
}

// -----

// Two barriers, of which the second would have number 16.
tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{id of a named barrier must be 1 to 14, but got 15}}
  %0 = tgpu.named_barrier warps 8 per warpgroup id 15 : index
}

// -----

tgpu.kernel @k target "sm_90a" warps 12 () grid(%i = 1) {
  %0 = tgpu.named_barrier warps 12 per warpgroup : index
  tgpu.roles
    role "a" warps 8 {
      // expected-error @+1 {{must be executed by the 12 warps of its barrier per warpgroup, but got 8}}
      tgpu.sync on %0
    }
    role "b" warps 4 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %0 = tgpu.named_barrier warps 4 per warpgroup : index
  tgpu.roles
    role "a" warps 4 {
      // expected-error @+1 {{must be in the role of the other uses of its barrier per warpgroup; give each role a barrier of its own}}
      tgpu.sync on %0
    }
    role "b" warps 4 {
      tgpu.sync on %0
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 12 () grid(%i = 1) {
  %0 = tgpu.named_barrier warps 8 per warpgroup : index
  tgpu.roles
    role "a" warps 8 {
      // expected-error @+1 {{barrier must be one of the whole role, but got a barrier per warpgroup, which is for tgpu.sync only}}
      tgpu.signal %0
    }
    role "b" warps 4 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  tgpu.roles
    role "a" warps 4 {
      // expected-error @+1 {{a block-wide sync is not allowed inside a role; use a named barrier}}
      tgpu.sync
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %0 = arith.constant 3 : index
  // expected-error @+1 {{barrier must be the result of tgpu.named_barrier, but got a result of 'arith.constant'}}
  tgpu.sync on %0
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %0 = tgpu.turns warpgroups 2 : index
  // expected-error @+1 {{barrier must be the result of tgpu.named_barrier, but got a result of 'tgpu.turns'}}
  tgpu.signal %0
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %0 = tgpu.named_barrier warps 4 : index
  // expected-error @+1 {{is executed by 8 warps, but its barrier is for 4}}
  tgpu.sync on %0
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %0 = tgpu.named_barrier warps 4 : index
  tgpu.roles
    role "a" warps 5 {
      // expected-error @+1 {{is executed by 5 warps, but its barrier is for 4}}
      tgpu.sync on %0
    }
    role "b" warps 3 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %0 = tgpu.named_barrier warps 4 : index
  tgpu.roles
    role "a" warps 4 {
      // expected-error @+1 {{is executed by 4 warps, but its barrier is for 4, of which some must wait}}
      tgpu.signal %0
    }
    role "b" warps 4 {
    }
}

// -----

// Turns.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{turns must have 2 to 8 warpgroups, but got 1}}
  %0 = tgpu.turns warpgroups 1 : index
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{turns must have 2 to 8 warpgroups, but got 9}}
  %0 = tgpu.turns warpgroups 9 : index
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{ids of 2 named barriers must begin at 1 to 14, but got 15}}
  %0 = tgpu.turns warpgroups 2 id 15 : index
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{ids of 2 named barriers must begin at 1 to 14, but got 0}}
  %0 = tgpu.turns warpgroups 2 id 0 : index
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %0 = tgpu.named_barrier warps 4 : index
  // expected-error @+1 {{turns must be the result of tgpu.turns, but got a result of 'tgpu.named_barrier'}}
  tgpu.take_turn %0
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %0 = arith.constant 1 : index
  // expected-error @+1 {{turns must be the result of tgpu.turns, but got a result of 'arith.constant'}}
  tgpu.pass_turn %0
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %0 = tgpu.turns warpgroups 2 : index
  // expected-error @+1 {{must be executed by the 2 warpgroups of its turns, but got 4 warps}}
  tgpu.take_turn %0
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %0 = tgpu.turns warpgroups 2 : index
  tgpu.roles
    role "a" warps 4 {
      // expected-error @+1 {{must be executed by the 2 warpgroups of its turns, but got 4 warps}}
      tgpu.pass_turn %0
    }
    role "b" warps 4 {
    }
}

// -----

// Fences and votes.
tgpu.kernel @k target "sm_80" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{needs target sm_90a, sm_100a, sm_103a or sm_120a, but the kernel's is sm_80}}
  tgpu.fence_async
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %f = arith.constant 0.0 : f32
  %t = tile.full %f : tensor<8x64xf32, #tgpu.blocked<1, lanes 32, warps 4, 1>>
  // expected-error @+1 {{requires a tile of i1, but got elements of 'f32'}}
  %0 = tgpu.any %t : tensor<8x64xf32, #tgpu.blocked<1, lanes 32, warps 4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %f = arith.constant true
  %t = tile.full %f : tensor<8x64xi1, #tgpu.blocked<1, lanes 32, warps 4, 1>>
  tgpu.roles
    role "a" warps 4 {
      // expected-error @+1 {{must have a named barrier of the role inside a role, but got none}}
      %0 = tgpu.any %t : tensor<8x64xi1, #tgpu.blocked<1, lanes 32, warps 4, 1>>
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %f = arith.constant true
  %t = tile.full %f : tensor<8x64xi1, #tgpu.blocked<1, lanes 32, warps 4, 1>>
  // expected-error @+1 {{is executed by 8 warps, over which its tiles must be distributed, but got 'tensor<8x64xi1, #tgpu.blocked<1, lanes 32, warps 4, 1>>'}}
  %0 = tgpu.any %t : tensor<8x64xi1, #tgpu.blocked<1, lanes 32, warps 4, 1>>
}
