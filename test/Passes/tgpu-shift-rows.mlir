// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row terms move from a mapped function to the maximum, column terms to a tile before the loop.
// RUN: tilewright-opt %s --tgpu-shift-rows | FileCheck %s

!s = tensor<128x64xf32, #tgpu.wgmma<2>>
!pos = tensor<128x64xi32, #tgpu.wgmma<2>>
!row = tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>

// s - slope * (i - j)
func.func private @distance(%s: f32, %i: i32, %j: i32, %slope: f32) -> f32 {
  %x = tile.cast %i reassoc : i32 -> f32
  %y = tile.cast %j reassoc : i32 -> f32
  %d = arith.subf %x, %y fastmath<reassoc> : f32
  %p = arith.mulf %slope, %d fastmath<reassoc, contract> : f32
  %r = arith.subf %s, %p fastmath<reassoc, contract> : f32
  return %r : f32
}
// tanh(s) + row, where the first term remains.
// CHECK:       func.func private @bounded_0
// CHECK-NEXT:    %[[T:.*]] = math.tanh
// CHECK-NEXT:    return %[[T]]
func.func private @bounded(%s: f32, %row: f32) -> f32 {
  %t = math.tanh %s : f32
  %r = arith.addf %t, %row fastmath<reassoc> : f32
  return %r : f32
}
// Neither may be reassociated, and |i - j| is not a sum.
func.func private @strict(%s: f32, %row: f32) -> f32 {
  %r = arith.addf %s, %row : f32
  return %r : f32
}
func.func private @absolute(%s: f32, %i: i32, %j: i32) -> f32 {
  %x = tile.cast %i reassoc : i32 -> f32
  %y = tile.cast %j reassoc : i32 -> f32
  %d = arith.subf %x, %y fastmath<reassoc> : f32
  %a = math.absf %d : f32
  %r = arith.subf %s, %a fastmath<reassoc> : f32
  return %r : f32
}

// CHECK-LABEL: tgpu.kernel @attention
// CHECK:       role "compute"
// CHECK:         %[[I:.*]] = tile.iota %{{.*}} dim 0 : tensor<128xi32, #tgpu.slice<1, #tgpu.wgmma<2>>>
// CHECK:         %[[ROWS:.*]] = tile.cast %[[I]] reassoc
// CHECK:         %[[J:.*]] = tile.iota %{{.*}} dim 1 : tensor<128x64xi32, #tgpu.wgmma<2>>
// CHECK:         %[[COLS:.*]] = tile.cast %[[J]] reassoc
// CHECK:         %[[SLOPES:.*]] = tile.full %{{.*}} : tensor<128x64xf32, #tgpu.wgmma<2>>
// CHECK:         %[[COLUMN:.*]] = arith.mulf %[[COLS]], %[[SLOPES]] fastmath<reassoc,contract>
// CHECK:         scf.for %[[N:.*]] = %{{.*}} iter_args(%[[OLD:.*]] = %{{.*}})
// CHECK:           %[[FIRST:.*]] = tile.cast %[[N]] reassoc : i32 -> f32
// CHECK:           %[[FIRSTS:.*]] = tile.full %[[FIRST]]
// CHECK:           %[[D:.*]] = arith.subf %[[ROWS]], %[[FIRSTS]]
// CHECK:           %[[P:.*]] = arith.mulf %[[D]], %{{.*}}
// CHECK:           %[[OFFSET:.*]] = arith.subf %{{.*}}, %[[P]]
// CHECK-NOT:       tile.map
// CHECK:           %[[X:.*]] = arith.addf %{{.*}}, %[[COLUMN]] fastmath<reassoc,contract>
// CHECK:           %[[XC:.*]] = arith.mulf %[[X]], %{{.*}}
// CHECK:           %[[NEW:.*]] = tgpu.raise_max %[[OLD]] by %{{.*}} to %[[X]] plus %[[OFFSET]] times %[[C:.*]] : tensor<128x64xf32, #tgpu.wgmma<2>>, tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>> ->
// CHECK:           %[[SHIFT:.*]] = arith.mulf %[[OFFSET]], %{{.*}}
// CHECK:           %[[LEFT:.*]] = arith.subf %[[NEW]], %[[SHIFT]]
// CHECK:           %[[EACH:.*]] = tile.expand %[[LEFT]] dim 1
// CHECK:           arith.subf %[[XC]], %[[EACH]]
// CHECK:           scf.yield %[[NEW]]
tgpu.kernel @attention target "sm_90a" warps 12 (%m: i32, %s0: f32, %slope: f32, %c: f32, %out: !tile.view<[?, ?], f32>) grid(%i = 1) {
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %c0 = arith.constant 0 : i32
      %c64 = arith.constant 64 : i32
      %c640 = arith.constant 640 : i32
      %eight = arith.constant 8.0 : f32
      %cs = tile.full %c : !s
      %low = arith.constant -1.0e30 : f32
      %old0 = tile.full %low : !row
      %rows = tile.iota %m dim 0 : !pos
      %r = scf.for %n = %c0 to %c640 step %c64 iter_args(%old = %old0) -> (!row) : i32 {
        %s = tgpu.load %out[0, %n] : !tile.view<[?, ?], f32> -> !s
        %cols = tile.iota %n dim 1 : !pos
        %x = tile.map @distance(%s, %rows, %cols, %slope) : (!s, !pos, !pos, f32) -> !s
        %xc = arith.mulf %x, %cs fastmath<reassoc, contract> : !s
        %new = tgpu.raise_max %old by %eight to %x times %c : !s -> !row
        %each = tile.expand %new dim 1 : !row -> !s
        %d = arith.subf %xc, %each fastmath<reassoc, contract> : !s
        tgpu.store %d, %out[0, %n] : !s, !tile.view<[?, ?], f32>
        scf.yield %new : !row
      }
    }
}

// CHECK-LABEL: func.func @rest
// CHECK:         %[[X:.*]] = tile.map @bounded_0(%arg0, %{{.*}})
// CHECK:         tgpu.raise_max %arg1 by %{{.*}} to %[[X]] plus %arg2 times
func.func @rest(%s: !s, %old: !row, %row: !row, %c: f32) -> (!s, !row) {
  %eight = arith.constant 8.0 : f32
  %cs = tile.full %c : !s
  %terms = tile.expand %row dim 1 : !row -> !s
  %x = tile.map @bounded(%s, %terms) : (!s, !s) -> !s
  %new = tgpu.raise_max %old by %eight to %x times %c : !s -> !row
  %each = tile.expand %new dim 1 : !row -> !s
  %xc = arith.mulf %x, %cs fastmath<reassoc, contract> : !s
  %d = arith.subf %xc, %each fastmath<reassoc, contract> : !s
  return %d, %new : !s, !row
}

// Unchanged: columns outside a loop, which would save nothing, and other functions that are not sums or may not be
// reassociated.
// CHECK-NOT:   plus
func.func @no_loop(%s: !s, %old: !row, %slope: f32, %m: i32, %n: i32, %c: f32) -> (!s, !row) {
  %eight = arith.constant 8.0 : f32
  %cs = tile.full %c : !s
  %rows = tile.iota %m dim 0 : !pos
  %cols = tile.iota %n dim 1 : !pos
  %x = tile.map @distance(%s, %rows, %cols, %slope) : (!s, !pos, !pos, f32) -> !s
  %new = tgpu.raise_max %old by %eight to %x times %c : !s -> !row
  %each = tile.expand %new dim 1 : !row -> !s
  %xc = arith.mulf %x, %cs fastmath<reassoc, contract> : !s
  %d = arith.subf %xc, %each fastmath<reassoc, contract> : !s
  return %d, %new : !s, !row
}
func.func @as_written(%s: !s, %old: !row, %row: !row, %c: f32) -> (!s, !row) {
  %eight = arith.constant 8.0 : f32
  %cs = tile.full %c : !s
  %terms = tile.expand %row dim 1 : !row -> !s
  %x = tile.map @strict(%s, %terms) : (!s, !s) -> !s
  %new = tgpu.raise_max %old by %eight to %x times %c : !s -> !row
  %each = tile.expand %new dim 1 : !row -> !s
  %xc = arith.mulf %x, %cs fastmath<reassoc, contract> : !s
  %d = arith.subf %xc, %each fastmath<reassoc, contract> : !s
  return %d, %new : !s, !row
}
func.func @no_sum(%s: !s, %old: !row, %m: i32, %n: i32, %c: f32) -> (!s, !row) {
  %eight = arith.constant 8.0 : f32
  %cs = tile.full %c : !s
  %rows = tile.iota %m dim 0 : !pos
  %cols = tile.iota %n dim 1 : !pos
  %x = tile.map @absolute(%s, %rows, %cols) : (!s, !pos, !pos) -> !s
  %new = tgpu.raise_max %old by %eight to %x times %c : !s -> !row
  %each = tile.expand %new dim 1 : !row -> !s
  %xc = arith.mulf %x, %cs fastmath<reassoc, contract> : !s
  %d = arith.subf %xc, %each fastmath<reassoc, contract> : !s
  return %d, %new : !s, !row
}
func.func @strict_difference(%s: !s, %old: !row, %row: !row, %c: f32) -> (!s, !row) {
  %eight = arith.constant 8.0 : f32
  %cs = tile.full %c : !s
  %terms = tile.expand %row dim 1 : !row -> !s
  %x = tile.map @bounded(%s, %terms) : (!s, !s) -> !s
  %new = tgpu.raise_max %old by %eight to %x times %c : !s -> !row
  %each = tile.expand %new dim 1 : !row -> !s
  %xc = arith.mulf %x, %cs fastmath<reassoc, contract> : !s
  %d = arith.subf %xc, %each fastmath<contract> : !s
  return %d, %new : !s, !row
}
