// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions among warps. Each shuffle halves what a lane has; where there are as many results as lanes, each lane
// combines those of all warps for one of them; and the barrier behind is left out where another one follows.
//
// RUN: tilewright-opt %s --convert-tgpu-to-nvvm -split-input-file | FileCheck %s

#w = #tgpu.wgmma<2>
!s = tensor<128x32xf32, #w>
!row = tensor<32xf32, #tgpu.slice<0, #w>>

// A lane has 8 columns of the 32, as 7 others: 4 + 2 + 1 shuffles leave it one.
// CHECK-LABEL: llvm.func @columns
// CHECK-COUNT-4: shfl.sync.bfly.f32
// CHECK-COUNT-2: llvm.select
// CHECK:         shfl.sync.bfly.f32
// CHECK-COUNT-2: llvm.select
// CHECK:         shfl.sync.bfly.f32
// CHECK-COUNT-2: llvm.select
// CHECK:         shfl.sync.bfly.f32
// CHECK-NOT:     shfl
// CHECK:         llvm.store %{{.*}} : f32, !llvm.ptr<3>
// CHECK-NOT:     llvm.store %{{.*}} : f32, !llvm.ptr<3>
// CHECK:         barrier.cta.sync.aligned.count"(%[[ID:[^,]*]],
// The maxima of eight warps, then the columns of eight lanes.
// CHECK-COUNT-8: llvm.load %{{.*}} : !llvm.ptr<3> -> f32
// CHECK-NOT:     llvm.load %{{.*}} : !llvm.ptr<3> -> f32
// CHECK-COUNT-8: shfl.sync.idx.f32
// The barrier of the role follows before any exchange.
// CHECK-NOT:     barrier.cta.sync
// CHECK:         stmatrix
// CHECK:         barrier.cta.sync.aligned.count"(%[[OTHER:[^,]*]],
// CHECK-NOT:     barrier.cta.sync.aligned.count"(%[[ID]],
// Here none does.
// CHECK:         llvm.store %{{.*}} : f32, !llvm.ptr<3>
// CHECK-COUNT-2: barrier.cta.sync.aligned.count"(%[[ID]],
// CHECK-NOT:     barrier.cta.sync
// CHECK:         llvm.return
tgpu.kernel @columns target "sm_90a" warps 12 (%x: f32, %v: !tile.view<[?], f32>) grid(%i = 1) {
  %written = tgpu.named_barrier warps 8 id 1 : index
  %u = tgpu.alloc at 0 : !tgpu.shared<128x32xbf16, b64>
  tgpu.roles
    role "compute" warps 8 {
      %t = tile.full %x : !s
      %most = tile.reduce max %t dim 0 : !s -> !row
      %each = tile.expand %most dim 0 : !row -> !s
      %p = tile.cast %each : !s -> tensor<128x32xbf16, #w>
      tgpu.write %p, %u : tensor<128x32xbf16, #w>, !tgpu.shared<128x32xbf16, b64>
      tgpu.sync on %written
      %sum = tile.reduce add %each dim 0 : !s -> !row
      tgpu.store %sum, %v[0] : !row, !tile.view<[?], f32>
    }
    role "idle" warps 4 {
    }
}

// -----

#w = #tgpu.wgmma<2>
!s = tensor<128x8xf32, #w>
!row = tensor<8xf32, #tgpu.slice<0, #w>>

// Of two columns, a lane keeps one after the first shuffle, and two more reduce it. Eight warps have 16 numbers for a
// thread, which it reads. A barrier of single warpgroups is not one of all warps, nor is one behind another exchange.
// CHECK-LABEL: llvm.func @few
// CHECK-COUNT-3: shfl.sync.bfly.f32
// CHECK-NOT:     shfl
// CHECK:         barrier.cta.sync.aligned.count"(%[[ID:[^,]*]],
// CHECK-COUNT-16: llvm.load %{{.*}} : !llvm.ptr<3> -> f32
// CHECK-NOT:     shfl
// CHECK:         barrier.cta.sync.aligned.count"(%[[ID]],
// CHECK:         barrier.cta.sync.aligned.count"(%{{.*}},
// CHECK-COUNT-3: barrier.cta.sync.aligned.count"(%[[ID]],
// CHECK-NOT:     barrier.cta.sync.aligned.count"(%[[ID]],
// CHECK:         llvm.return
tgpu.kernel @few target "sm_90a" warps 12 (%x: f32, %v: !tile.view<[?], f32>) grid(%i = 1) {
  %apart = tgpu.named_barrier warps 8 per warpgroup id 1 : index
  %all = tgpu.named_barrier warps 8 id 3 : index
  tgpu.roles
    role "compute" warps 8 {
      %t = tile.full %x : !s
      %most = tile.reduce max %t dim 0 : !s -> !row
      tgpu.sync on %apart
      %each = tile.expand %most dim 0 : !row -> !s
      %sum = tile.reduce add %each dim 0 : !s -> !row
      %more = tile.expand %sum dim 0 : !row -> !s
      %sums = tile.reduce add %more dim 0 : !s -> !row
      tgpu.sync on %all
      tgpu.store %sums, %v[0] : !row, !tile.view<[?], f32>
    }
    role "idle" warps 4 {
    }
}

// -----

#acc = #tgpu.mma<4, 1>
#deep = #tgpu.blocked<1, lanes 16, warps 4, 1>
!s = tensor<64x16xf32, #acc>
!row = tensor<16xf32, #tgpu.slice<0, #acc>>

// Elements change warps by an expansion to three dimensions, which is an exchange.
// CHECK-LABEL: llvm.func @deep
// CHECK-COUNT-5: nvvm.barrier.cta.sync.aligned.all
// CHECK-NOT:     nvvm.barrier.cta.sync.aligned.all
// CHECK:         llvm.return
tgpu.kernel @deep target "sm_80" warps 4 (%x: f32, %v: !tile.view<[?, ?, ?], f32>) grid(%i = 1) {
  %t = tile.full %x : !s
  %each = tile.full %x : tensor<16x16xf32, #deep>
  %most = tile.reduce max %t dim 0 : !s -> !row
  %more = tile.expand %each dim 0 : tensor<16x16xf32, #deep> -> tensor<1x16x16xf32, #deep>
  tgpu.sync
  tgpu.store %more, %v[0, 0, 0] : tensor<1x16x16xf32, #deep>, !tile.view<[?, ?, ?], f32>
}
