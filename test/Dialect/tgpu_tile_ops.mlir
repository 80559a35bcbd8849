// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles taken from a counter, turns of blocks, and tgpu.any in a role.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/ops.mlir --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %t/errors.mlir -split-input-file -verify-diagnostics

//--- ops.mlir

// CHECK-LABEL: tgpu.kernel @tiles
// CHECK:       tgpu.take_tile of %{{.*}} into %{{.*}} : !tgpu.shared<4xi32, none>
// CHECK-NEXT:  tgpu.take_tile of %{{[^ ]*$}}
// CHECK-NEXT:  tgpu.take_tile of %{{[^ ]*}} all{{$}}
// CHECK-NEXT:  tgpu.publish %{{.*}}, %{{.*}} to %{{.*}} : !tgpu.shared<4xi32, none>
// CHECK:       tgpu.get_tile %{{.*}} : !tgpu.shared<4xi32, none>
// CHECK-NEXT:  tgpu.receive %{{.*}} : !tgpu.shared<4xi32, none> -> i32, i32
// CHECK:       tgpu.any %{{.*}} on %{{.*}} : tensor<8x64xi1, #tgpu.blocked<1, lanes 32, warps 4, 1>>
tgpu.kernel @tiles target "sm_90a" warps 8 (%n: i32) grid(%i = 1) {
  %slot = tgpu.alloc : !tgpu.shared<4xi32, none>
  %voted = tgpu.named_barrier warps 4 : index
  tgpu.roles
    role "load" warps 4 {
      %t = tgpu.take_tile of %n into %slot : !tgpu.shared<4xi32, none>
      %u = tgpu.take_tile of %n
      %v = tgpu.take_tile of %n all
      tgpu.publish %u, %t to %slot : !tgpu.shared<4xi32, none>
    }
    role "compute" warps 4 {
      %t = tgpu.get_tile %slot : !tgpu.shared<4xi32, none>
      %words:2 = tgpu.receive %slot : !tgpu.shared<4xi32, none> -> i32, i32
      %f = arith.constant true
      %flags = tile.full %f : tensor<8x64xi1, #tgpu.blocked<1, lanes 32, warps 4, 1>>
      %any = tgpu.any %flags on %voted : tensor<8x64xi1, #tgpu.blocked<1, lanes 32, warps 4, 1>>
    }
}

// CHECK-LABEL: tgpu.kernel @turns
// CHECK:       tgpu.await_turn %{{.*}} of %turns[%{{.*}}, 0] : !tile.view<[?, ?], i32>
// CHECK-NEXT:  tgpu.end_turn %{{.*}} of %turns[%{{.*}}, 0] : !tile.view<[?, ?], i32>
// CHECK:       tgpu.atomic_add %{{.*}}, %sum[0, %{{.*}}] dims [1, 0] in order of %{{.*}} by %turns[%{{.*}}, 1] : tensor<64x64xf32, #tgpu.wgmma<1>>, !tile.view<[?, ?], f32>, !tile.view<[?, ?], i32>
tgpu.kernel @turns target "sm_90a" warps 8 (%n: i32, %turns: !tile.view<[?, ?], i32>, %sum: !tile.view<[?, ?], f32>)
    grid(%i = 1) {
  tgpu.roles
    role "reduce" warps 4 {
      tgpu.await_turn %n of %turns[%n, 0] : !tile.view<[?, ?], i32>
      tgpu.end_turn %n of %turns[%n, 0] : !tile.view<[?, ?], i32>
    }
    role "compute" warps 4 {
      %f = arith.constant 1.0 : f32
      %x = tile.full %f : tensor<64x64xf32, #tgpu.wgmma<1>>
      tgpu.atomic_add %x, %sum[0, %n] dims [1, 0] in order of %n by %turns[%n, 1] : tensor<64x64xf32, #tgpu.wgmma<1>>, !tile.view<[?, ?], f32>, !tile.view<[?, ?], i32>
    }
}

// CHECK-LABEL: tgpu.kernel @last_turn
// CHECK:       %[[FIRST:.*]], %[[STEP:.*]] = tgpu.share of %n
// CHECK:       scf.for %[[I:.*]] = %[[FIRST]] to %n step %[[STEP]]
// CHECK-NEXT:    tgpu.await_turn %n of %turns[%[[I]], 0] last : !tile.view<[?, ?], i32>
tgpu.kernel @last_turn target "sm_90a" warps 4 (%n: i32, %turns: !tile.view<[?, ?], i32>) grid(%i = 1) {
  tgpu.roles
    role "spread" warps 4 {
      %first, %step = tgpu.share of %n
      scf.for %m = %first to %n step %step : i32 {
        tgpu.await_turn %n of %turns[%m, 0] last : !tile.view<[?, ?], i32>
      }
    }
}

//--- errors.mlir

tgpu.kernel @k target "sm_90a" warps 4 (%n: i32, %turns: !tile.view<[?], i32>) grid(%i = 1) {
  // expected-error @+1 {{'tgpu.await_turn' op must be inside a role of a tgpu.roles, but got it in 'tgpu.kernel'}}
  tgpu.await_turn %n of %turns[%n] : !tile.view<[?], i32>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%n: i32, %turns: !tile.view<[?], i32>) grid(%i = 1) {
  // expected-error @+1 {{'tgpu.await_turn' op must be inside a role of a tgpu.roles, but got it in 'tgpu.kernel'}}
  tgpu.await_turn %n of %turns[%n] last : !tile.view<[?], i32>
}

// -----

tgpu.kernel @k target "sm_80" warps 8 (%n: i32, %turns: !tile.view<[?], i32>) grid(%i = 1) {
  tgpu.roles
    role "load" warps 4 {
      // expected-error @+1 {{'tgpu.end_turn' op needs target sm_90a, sm_100a, sm_103a or sm_120a, but the kernel's is sm_80}}
      tgpu.end_turn %n of %turns[%n] : !tile.view<[?], i32>
    }
    role "compute" warps 4 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 (%n: i32, %turns: !tile.view<[?], f32>) grid(%i = 1) {
  tgpu.roles
    role "load" warps 4 {
      // expected-error @+1 {{'tgpu.end_turn' op requires a view of i32 for its turns, but got '!tile.view<[?], f32>'}}
      tgpu.end_turn %n of %turns[%n] : !tile.view<[?], f32>
    }
    role "compute" warps 4 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%n: i32) grid(%i = 1) {
  %slot = tgpu.alloc : !tgpu.shared<4xi32, none>
  // expected-error @+1 {{'tgpu.publish' op must be inside a role of a tgpu.roles, but got it in 'tgpu.kernel'}}
  tgpu.publish %n to %slot : !tgpu.shared<4xi32, none>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%n: i32) grid(%i = 1) {
  %slot = tgpu.alloc : !tgpu.shared<4xi32, none>
  // expected-error @+1 {{requires a count of at least 1 and a buffer of rank 1 of i32 with at least as many elements, but got 5 and '!tgpu.shared<4xi32, none>'}}
  %words:5 = tgpu.receive %slot : !tgpu.shared<4xi32, none> -> i32, i32, i32, i32, i32
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%n: i32) grid(%i = 1) {
  %slot = tgpu.alloc : !tgpu.shared<4xf32, none>
  // expected-error @+1 {{requires a count of at least 1 and a buffer of rank 1 of i32 with at least as many elements, but got 1 and '!tgpu.shared<4xf32, none>'}}
  %word = tgpu.receive %slot : !tgpu.shared<4xf32, none> -> i32
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%n: i32) grid(%i = 1) {
  %slot = tgpu.alloc : !tgpu.shared<4xi32, none>
  // expected-error @+1 {{'tgpu.take_tile' op must be inside a role of a tgpu.roles, but got it in 'tgpu.kernel'}}
  %t = tgpu.take_tile of %n into %slot : !tgpu.shared<4xi32, none>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%n: i32) grid(%i = 1) {
  %slot = tgpu.alloc : !tgpu.shared<4xf32, none>
  tgpu.roles
    role "load" warps 4 {
      // expected-error @+1 {{requires a buffer of 4xi32 for the tile's number, but got '!tgpu.shared<4xf32, none>'}}
      %t = tgpu.take_tile of %n into %slot : !tgpu.shared<4xf32, none>
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %slot = tgpu.alloc : !tgpu.shared<8xi32, none>
  // expected-error @+1 {{requires a buffer of 4xi32 for the tile's number, but got '!tgpu.shared<8xi32, none>'}}
  %t = tgpu.get_tile %slot : !tgpu.shared<8xi32, none>
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  %voted = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "load" warps 4 {
    }
    role "compute" warps 4 {
      %f = arith.constant true
      %flags = tile.full %f : tensor<8x64xi1, #tgpu.blocked<1, lanes 32, warps 4, 1>>
      // expected-error @+1 {{must be executed by the 8 warps of its barrier, but got 4}}
      %any = tgpu.any %flags on %voted : tensor<8x64xi1, #tgpu.blocked<1, lanes 32, warps 4, 1>>
    }
}

// -----

// expected-error @+1 {{turns must be 0 or 1, or 2 with in_flight 0, but got 3}}
func.func private @turns() attributes {x = #tgpu.schedule<skeleton = producer_consumer, stages = 2, turns = 3>}

// -----

// expected-error @+1 {{turns must be 0 or 1, or 2 with in_flight 0, but got 2}}
func.func private @turns() attributes {x = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1, turns = 2>}

// -----

// expected-error @+1 {{dynamic must be 0, or 1 if group > 0, but got 1}}
func.func private @dynamic() attributes {x = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, dynamic = 1>}

// -----

// expected-error @+1 {{tile_stages must be 1 or 2, but got 3}}
func.func private @tiles() attributes {x = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, tile_stages = 3>}
