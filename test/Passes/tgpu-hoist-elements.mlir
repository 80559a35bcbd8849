// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-hoist-elements | FileCheck %s

!view = !tile.view<[?], f32>

// Not what depends on the tile, what only some tiles read, or what the kernel writes.
// CHECK-LABEL: tgpu.kernel @elements
// CHECK:         role "load"
// CHECK:           %[[SAME:.*]] = tile.at %numbers[0]
// CHECK-NEXT:      %[[OTHER:.*]] = tile.at %numbers[%last]
// CHECK-NEXT:      scf.for %[[TILE:.*]] =
// CHECK-NEXT:        tile.at %numbers[%[[TILE]]]
// CHECK-NEXT:        tile.at %written[0]
// CHECK-NEXT:        arith.addf %[[SAME]], %[[OTHER]]
// CHECK:             scf.if
// CHECK-NEXT:          tile.at %numbers[1]
tgpu.kernel @elements target "sm_90a" warps 8
    (%numbers: !view, %written: !view, %y: !view, %last: i32, %tiles: i32) grid(%cta = 132) {
  %c0 = arith.constant 0 : i32
  %c132 = arith.constant 132 : i32
  tgpu.roles
      role "load" warps 4 registers 40 {
        scf.for %tile = %cta to %tiles step %c132 : i32 {
          %same = tile.at %numbers[0] : !view
          %own = tile.at %numbers[%tile] : !view
          %changed = tile.at %written[0] : !view
          %other = tile.at %numbers[%last] : !view
          %sum = arith.addf %same, %other : f32
          %sums = arith.addf %own, %changed : f32
          %is_first = arith.cmpi eq, %tile, %c0 : i32
          %some = scf.if %is_first -> (f32) {
            %seldom = tile.at %numbers[1] : !view
            scf.yield %seldom : f32
          } else {
            scf.yield %sum : f32
          }
          %all = arith.addf %some, %sums : f32
          %row = tile.full %all : tensor<128xf32, #tgpu.blocked<1, lanes 32, warps 4, 1>>
          tgpu.store %row, %y[%tile] : tensor<128xf32, #tgpu.blocked<1, lanes 32, warps 4, 1>>, !view
          tgpu.store %row, %written[%tile] : tensor<128xf32, #tgpu.blocked<1, lanes 32, warps 4, 1>>, !view
        }
      }
      role "compute" warps 4 registers 240 {
      }
}
