// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-stage-stores | FileCheck %s

!acc = tensor<128x192xbf16, #tgpu.wgmma<2>>
!view = !tile.view<[?, ?, ?], bf16>

// Three pieces through one buffer: two would not take turns with the same pieces in every tile.
// What is computed for the store alone is computed piece by piece.
// CHECK-LABEL: tgpu.kernel @pieces
// CHECK-DAG:     %[[MAP:.*]] = tgpu.tensor_map %c : !tile.view<[?, ?, ?], bf16> -> !tgpu.tensor_map<1x128x64xbf16, b128>
// CHECK-DAG:     %[[RING:.*]] = tgpu.alloc_ring : !tgpu.ring<1, <128x64xbf16, b128>>
// CHECK-DAG:     %[[BARRIER:.*]] = tgpu.named_barrier warps 8
// CHECK:         role "compute"
// CHECK:           %[[TILE:.*]] = tgpu.load
// CHECK:           %[[T0:.*]] = tgpu.columns 0 of %[[TILE]]
// CHECK:           %[[ONE:.*]] = tile.full %{{.*}} : tensor<128x64xbf16, #tgpu.wgmma<2>>
// CHECK-NEXT:      %[[P0:.*]] = arith.addf %[[T0]], %[[ONE]] : tensor<128x64xbf16, #tgpu.wgmma<2>>
// CHECK:           %[[BUFFER:.*]] = tgpu.slot %[[RING]]
// CHECK-NEXT:      tgpu.bulk_wait pending 0 read
// CHECK-NEXT:      tgpu.sync on %[[BARRIER]]
// CHECK-NEXT:      tgpu.write %[[P0]], %[[BUFFER]]
// CHECK-NEXT:      tgpu.fence_async
// CHECK-NEXT:      tgpu.sync on %[[BARRIER]]
// CHECK-NEXT:      tgpu.tma_store %[[BUFFER]], %[[MAP]][%b, 128, %n]
// CHECK-NEXT:      tgpu.bulk_commit
// CHECK:           tgpu.columns 64 of %[[TILE]]
// CHECK:           %[[N1:.*]] = arith.addi %n, %{{.*}} : i32
// CHECK-NEXT:      tgpu.tma_store {{.*}}[%b, 128, %[[N1]]]
// CHECK:           tgpu.columns 128 of %[[TILE]]
// CHECK:           tgpu.bulk_commit
// CHECK-NEXT:      tgpu.bulk_wait pending 0 read
// CHECK-NEXT:    }
tgpu.kernel @pieces target "sm_90a" warps 8 (%c: !view, %d: !view, %n: i32) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  tgpu.roles
    role "compute" warps 8 {
      %one = arith.constant 1.0 : bf16
      %tile = tgpu.load %d[%b, 0, 0] : !view -> !acc
      %ones = tile.full %one : !acc
      %more = arith.addf %tile, %ones : !acc
      tgpu.store %more, %c[%b, 128, %n] : !acc, !view
    }
}

// Two pieces of 32 columns of f32 by two buffers; a known column is counted on.
// CHECK-LABEL: tgpu.kernel @two_buffers
// CHECK:         tgpu.alloc_ring : !tgpu.ring<2, <128x32xf32, b128>>
// CHECK:           tgpu.bulk_wait pending 1 read
// CHECK:           tgpu.tma_store %{{.*}}, %{{.*}}[%b, 0]
// CHECK:           tgpu.bulk_wait pending 1 read
// CHECK:           tgpu.tma_store %{{.*}}, %{{.*}}[%b, 32]
// CHECK:           tgpu.bulk_wait pending 0 read
tgpu.kernel @two_buffers target "sm_90a" warps 8 (%c: !tile.view<[?, ?], f32>) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  tgpu.roles
    role "compute" warps 8 {
      %one = arith.constant 1.0 : f32
      %tile = tile.full %one : tensor<128x64xf32, #tgpu.wgmma<2>>
      tgpu.store %tile, %c[%b, 0] : tensor<128x64xf32, #tgpu.wgmma<2>>, !tile.view<[?, ?], f32>
    }
}

// Stays: an optional argument, a layout of other registers, a part of the argument.
// CHECK-LABEL: tgpu.kernel @stays
// CHECK-NOT:     tgpu.tma_store
// CHECK-NOT:     tgpu.bulk_wait
tgpu.kernel @stays target "sm_90a" warps 8 (%c: !tile.view<[?, ?], f32>, %d: optional !tile.view<[?, ?], f32>) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  tgpu.roles
    role "compute" warps 8 {
      %one = arith.constant 1.0 : f32
      %tile = tile.full %one : tensor<128x64xf32, #tgpu.wgmma<2>>
      %other = tile.full %one : tensor<128x64xf32, #tgpu.mma<8, 1>>
      %part = tile.subview %c dim 0 from %b size %b : !tile.view<[?, ?], f32>
      tgpu.store %tile, %d[%b, 0] : tensor<128x64xf32, #tgpu.wgmma<2>>, !tile.view<[?, ?], f32>
      tgpu.store %other, %c[%b, 0] : tensor<128x64xf32, #tgpu.mma<8, 1>>, !tile.view<[?, ?], f32>
      tgpu.store %tile, %part[%b, 0] : tensor<128x64xf32, #tgpu.wgmma<2>>, !tile.view<[?, ?], f32>
    }
}

// Rows of 100 bytes end inside of a chunk of 16, which TMA would write as a whole.
// CHECK-LABEL: tgpu.kernel @ragged_rows
// CHECK-NOT:     tgpu.tma_store
// CHECK:         tgpu.store
tgpu.kernel @ragged_rows target "sm_90a" warps 8 (%c: !tile.view<[?, 50], bf16>) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  tgpu.roles
    role "compute" warps 8 {
      %one = arith.constant 1.0 : bf16
      %tile = tile.full %one : tensor<128x64xbf16, #tgpu.wgmma<2>>
      tgpu.store %tile, %c[%b, 0] : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tile.view<[?, 50], bf16>
    }
}
