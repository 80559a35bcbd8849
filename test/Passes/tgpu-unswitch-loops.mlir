// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-unswitch-loops --split-input-file | FileCheck %s

// Two loop-invariant conditions and one that varies: one loop for the case that both hold, without their branches, and
// the original loop for all other cases.
// CHECK-LABEL: tgpu.kernel @two
// CHECK: role "compute"
// CHECK: %[[POSITIVE:.*]] = arith.cmpf ogt, %{{.*}}, %{{.*}} : f32
// CHECK: %[[ALL:.*]] = arith.andi {{.*}}%[[POSITIVE]]
// CHECK: scf.if %[[ALL]] -> (i32) {
// CHECK-NEXT: scf.for
// CHECK-NOT: scf.if %{{.*}}POSITIVE
// CHECK: %[[EVEN:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : i32
// CHECK: scf.if %[[EVEN]]
// CHECK-NOT: scf.if
// CHECK: tgpu.schedule
// CHECK: } else {
// CHECK-NEXT: scf.for
// CHECK: scf.if
// CHECK: scf.if
// CHECK: scf.if
// CHECK: } {tgpu.rare}
tgpu.kernel @two target "sm_90a" warps 8 (%rounds: i32, %scale: f32, %flag: i1) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c2 = arith.constant 2 : i32
      %zero = arith.constant 0.0 : f32
      %r = scf.for %i = %c0 to %rounds step %c1 iter_args(%x = %c0) -> (i32) : i32 {
        %positive = arith.cmpf ogt, %scale, %zero : f32
        %y = scf.if %positive -> (i32) {
          %z = scf.if %flag -> (i32) {
            scf.yield %c1 : i32
          } else {
            scf.yield %c2 : i32
          }
          scf.yield %z : i32
        } else {
          scf.yield %c0 : i32
        }
        %even = arith.cmpi eq, %i, %c2 : i32
        %w = scf.if %even -> (i32) {
          scf.yield %y : i32
        } else {
          scf.yield %x : i32
        }
        %sum = arith.addi %x, %w : i32
        scf.yield %sum : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
      %view = arith.addi %r, %c1 : i32
    }
}

// -----

// Both loops have iterations that are a special case; the loop for all other cases has no separate code for them.
// CHECK-LABEL: tgpu.kernel @special
// CHECK: scf.if %{{.*}} -> (i32) {
// CHECK-NEXT: scf.for
// CHECK: arith.cmpi eq
// CHECK: scf.if
// CHECK: arith.muli
// CHECK: tgpu.schedule
// CHECK: } else {
// CHECK-NEXT: scf.for
// CHECK: scf.if
// CHECK-NOT: scf.if
// CHECK-NOT: arith.muli
// CHECK: arith.divsi
// CHECK: } {tgpu.rare}
tgpu.kernel @special target "sm_90a" warps 8 (%rounds: i32, %flag: i1) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c2 = arith.constant 2 : i32
      %r = scf.for %i = %c0 to %rounds step %c1 iter_args(%x = %c0) -> (i32) : i32 {
        %y = scf.if %flag -> (i32) {
          scf.yield %c1 : i32
        } else {
          scf.yield %x : i32
        }
        %first = arith.cmpi eq, %i, %c2 : i32
        %w = scf.if %first -> (i32) {
          %twice = arith.muli %y, %c2 : i32
          scf.yield %twice : i32
        } else {
          %any = arith.divsi %y, %c2 : i32
          scf.yield %any : i32
        } {tgpu.special_case}
        %sum = arith.addi %x, %w : i32
        scf.yield %sum : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
      %view = arith.addi %r, %c1 : i32
    }
}

// -----

// Only full blocks synchronize with the other role, which also executes them: the rare loop keeps them separate.
// CHECK-LABEL: tgpu.kernel @meets
// CHECK: tgpu.schedule
// CHECK: } else {
// CHECK-NEXT: scf.for
// CHECK: tgpu.arrive
// CHECK: } {tgpu.special_case}
// CHECK: tgpu.arrive
// CHECK: tgpu.wait
// CHECK-NOT: tgpu.special_case
// CHECK: } {tgpu.rare}
tgpu.kernel @meets target "sm_90a" warps 8 (%rounds: i32, %flag: i1) grid(%b = 1) {
  %full = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<2>
  %other = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<2>
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c2 = arith.constant 2 : i32
      %r = scf.for %i = %c0 to %rounds step %c1 iter_args(%x = %c0) -> (i32) : i32 {
        %y = scf.if %flag -> (i32) {
          scf.yield %c1 : i32
        } else {
          scf.yield %x : i32
        }
        %first = arith.cmpi eq, %i, %c2 : i32
        %w = scf.if %first -> (i32) {
          tgpu.arrive %full[%x] per warp : !tgpu.barriers<2>
          scf.yield %y : i32
        } else {
          scf.yield %x : i32
        } {tgpu.special_case}
        // The same barriers on both sides: the loop is not split.
        scf.if %first {
          tgpu.arrive %other[%x] per warp : !tgpu.barriers<2>
        } else {
          tgpu.arrive %other[%x] per warp : !tgpu.barriers<2>
          tgpu.wait %other[%x] : !tgpu.barriers<2>
        } {tgpu.special_case}
        scf.yield %w : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
      %view = arith.addi %r, %c1 : i32
    }
}

// -----

// No loop-invariant condition, and a loop outside roles.
// CHECK-LABEL: tgpu.kernel @none
// CHECK-NOT: tgpu.rare
tgpu.kernel @none target "sm_90a" warps 8 (%rounds: i32, %flag: i1) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %rounds step %c1 iter_args(%x = %c0) -> (i32) : i32 {
    %y = scf.if %flag -> (i32) {
      scf.yield %c1 : i32
    } else {
      scf.yield %x : i32
    }
    scf.yield %y : i32
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %s = scf.for %i = %c0 to %rounds step %c1 iter_args(%x = %c0) -> (i32) : i32 {
        %odd = arith.cmpi eq, %i, %c1 : i32
        %y = scf.if %odd -> (i32) {
          scf.yield %c1 : i32
        } else {
          scf.yield %x : i32
        }
        scf.yield %y : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
    }
}

// -----

// A choice between tiles that is the same in all loops of a tile is made before all of them, but in the loop over tiles.
// CHECK-LABEL: tgpu.kernel @nested
// CHECK: role "compute"
// CHECK: scf.for %{{.*}} = %cta
// CHECK: scf.if %flag
// CHECK-NEXT: scf.for
// CHECK: scf.for
// CHECK-NOT: scf.if
// CHECK: tgpu.schedule
// CHECK: } else {
// CHECK-NEXT: scf.for
// CHECK: scf.for
// CHECK: scf.if %flag
// CHECK: } {tgpu.rare}
!row = tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<1>>>
tgpu.kernel @nested target "sm_90a" warps 8 (%rounds: i32, %tiles: i32, %flag: i1, %y: !tile.view<[?], f32>)
    grid(%cta = 132) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c132 = arith.constant 132 : i32
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !row
      scf.for %tile = %cta to %tiles step %c132 : i32 {
        %all = scf.for %head = %c0 to %rounds step %c1 iter_args(%of_heads = %zeros) -> (!row) : i32 {
          %some = scf.for %i = %c0 to %rounds step %c1 iter_args(%x = %of_heads) -> (!row) : i32 {
            %z = scf.if %flag -> (!row) {
              scf.yield %x : !row
            } else {
              %twice = arith.addf %x, %x : !row
              scf.yield %twice : !row
            }
            scf.yield %z : !row
          } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
          scf.yield %some : !row
        }
        tgpu.store %all, %y[%tile] : !row, !tile.view<[?], f32>
      }
    }
}

// -----

// The second loop is in the loop that is split for the first; its own choice depends on the head. A branch outside of
// these loops does not count.
// CHECK-LABEL: tgpu.kernel @siblings
// CHECK: role "compute"
// CHECK: scf.for %{{.*}} = %cta
// CHECK: scf.if %flag
// CHECK-NEXT: scf.for
// CHECK: arith.cmpi eq
// CHECK-NEXT: scf.for
// CHECK-NOT: scf.if
// CHECK: tgpu.schedule
// CHECK: scf.if
// CHECK-NEXT: scf.for
// CHECK-NOT: scf.if
// CHECK: tgpu.schedule
// CHECK: } else {
// CHECK-NEXT: scf.for
// CHECK: scf.if
// CHECK: } {tgpu.rare}
// CHECK: scf.if %other
// CHECK: } else {
// CHECK: scf.for
// CHECK: scf.for
// CHECK: scf.if %flag
// CHECK: } {tgpu.rare}
!row = tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<1>>>
tgpu.kernel @siblings target "sm_90a" warps 8
    (%rounds: i32, %tiles: i32, %flag: i1, %other: i1, %y: !tile.view<[?], f32>) grid(%cta = 132) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c132 = arith.constant 132 : i32
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !row
      scf.for %tile = %cta to %tiles step %c132 : i32 {
        %all = scf.for %head = %c0 to %rounds step %c1 iter_args(%of_heads = %zeros) -> (!row) : i32 {
          %is_first = arith.cmpi eq, %head, %c0 : i32
          %some = scf.for %i = %c0 to %rounds step %c1 iter_args(%x = %of_heads) -> (!row) : i32 {
            %z = scf.if %flag -> (!row) {
              scf.yield %x : !row
            } else {
              %twice = arith.addf %x, %x : !row
              scf.yield %twice : !row
            }
            scf.yield %z : !row
          } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
          %more = scf.for %i = %c0 to %rounds step %c1 iter_args(%x = %some) -> (!row) : i32 {
            %z = scf.if %is_first -> (!row) {
              scf.yield %x : !row
            } else {
              %square = arith.mulf %x, %x : !row
              scf.yield %square : !row
            }
            scf.yield %z : !row
          } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
          %after = scf.if %other -> (!row) {
            scf.yield %more : !row
          } else {
            %negated = arith.negf %more : !row
            scf.yield %negated : !row
          }
          scf.yield %after : !row
        }
        tgpu.store %all, %y[%tile] : !row, !tile.view<[?], f32>
      }
    }
}
