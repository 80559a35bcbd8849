// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-stage-stores | FileCheck %s

!acc = tensor<128x192xbf16, #tgpu.wgmma<2>>
!view = !tile.view<[?, ?, ?], bf16>

// Three pieces through one buffer: with two buffers, a piece would not use the same buffer in every tile. Values that
// only the store uses are computed piece by piece.
// CHECK-LABEL: tgpu.kernel @pieces
// CHECK-DAG:     %[[MAP:.*]] = tgpu.tensor_map %c : !tile.view<[?, ?, ?], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
// CHECK-DAG:     %[[RING:.*]] = tgpu.alloc_ring : !tgpu.ring<1, <128x64xbf16, b128>>
// CHECK-DAG:     %[[BARRIER:.*]] = tgpu.named_barrier warps 8 per warpgroup
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
// CHECK-NEXT:      tgpu.tma_store %[[BUFFER]], %[[MAP]][%b, 128, %n] per warpgroup
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

// Two pieces of 32 columns of f32 through two buffers; the offset is added to a constant column.
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

// Results of an iteration with a product, whose pieces have a buffer each: the iteration waits once for the copies of the
// previous one, and each result has one fence and one barrier.
// CHECK-LABEL: tgpu.kernel @at_once
// CHECK-DAG:     %[[RING:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <64x64xbf16, b128>>
// CHECK-DAG:     tgpu.alloc_ring : !tgpu.ring<1, <64x64xbf16, b128>>
// CHECK:         scf.for
// CHECK:           tgpu.bulk_wait pending 0 read
// CHECK-NEXT:      tgpu.sync on %[[BARRIER:.*]]
// CHECK:           %[[S0:.*]] = tgpu.slot %[[RING]]
// CHECK:           tgpu.write %{{.*}}, %[[S0]]
// CHECK:           %[[S1:.*]] = tgpu.slot %[[RING]]
// CHECK:           tgpu.write %{{.*}}, %[[S1]]
// CHECK-NEXT:      tgpu.fence_async
// CHECK-NEXT:      tgpu.sync on %[[BARRIER]]
// CHECK-NEXT:      tgpu.tma_store %[[S0]], %[[MAP:.*]][%[[I:.*]], 0]
// CHECK-NEXT:      tgpu.tma_store %[[S1]], %[[MAP]][%[[I]], 64]
// CHECK-NEXT:      tgpu.bulk_commit
// CHECK-NOT:       tgpu.bulk_wait
// CHECK-NOT:       tgpu.sync
// CHECK:           tgpu.write
// CHECK-NEXT:      tgpu.fence_async
// CHECK-NEXT:      tgpu.sync on %[[BARRIER]]
// CHECK-NEXT:      tgpu.tma_store
// CHECK-NEXT:      tgpu.bulk_commit
// CHECK-NOT:       tgpu.bulk_wait
// CHECK:         }
// CHECK:         tgpu.bulk_wait pending 0 read
tgpu.kernel @at_once target "sm_90a" warps 4 (%c: !tile.view<[?, ?], bf16>, %d: !tile.view<[?, ?], bf16>, %n: i32) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  %x = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %y = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  tgpu.roles
    role "compute" warps 4 {
      scf.for %i = %c0 to %n step %c64 : i32 {
        %pending = tgpu.wgmma %x, %y transpose_b : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<128x64xbf16, b128>
            -> tensor<64x128xf32, #tgpu.wgmma<1>>
        tgpu.wgmma_commit
        %sum = tgpu.wgmma_wait pending 0, %pending : tensor<64x128xf32, #tgpu.wgmma<1>>
        %wide = tile.cast %sum : tensor<64x128xf32, #tgpu.wgmma<1>> -> tensor<64x128xbf16, #tgpu.wgmma<1>>
        tgpu.store %wide, %c[%i, 0] : tensor<64x128xbf16, #tgpu.wgmma<1>>, !tile.view<[?, ?], bf16>
        %narrow = tgpu.columns 0 of %wide
            : tensor<64x128xbf16, #tgpu.wgmma<1>> -> tensor<64x64xbf16, #tgpu.wgmma<1>>
        tgpu.store %narrow, %d[%i, 0] : tensor<64x64xbf16, #tgpu.wgmma<1>>, !tile.view<[?, ?], bf16>
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// Two results of an iteration: when a buffer is written again, the other result has left, too.
// CHECK-LABEL: tgpu.kernel @two_results
// CHECK:         scf.for
// CHECK:           tgpu.bulk_wait pending 2 read
// CHECK:           tgpu.tma_store %{{.*}}, %[[C:.*]][%[[I:.*]], 0] per warpgroup
// CHECK:           tgpu.bulk_wait pending 2 read
// CHECK:           tgpu.tma_store %{{.*}}, %[[C]][%[[I]], 32]
// CHECK:           tgpu.bulk_wait pending 2 read
// CHECK:           tgpu.tma_store %{{.*}}, %{{.*}}[%[[I]], 0]
// CHECK:         }
// CHECK:         tgpu.bulk_wait pending 0 read
tgpu.kernel @two_results target "sm_90a" warps 8 (%c: !tile.view<[?, ?], f32>, %d: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  tgpu.roles
    role "compute" warps 8 {
      %one = arith.constant 1.0 : f32
      %tile = tile.full %one : tensor<128x64xf32, #tgpu.wgmma<2>>
      %small = tile.full %one : tensor<128x32xf32, #tgpu.wgmma<2>>
      %step = arith.constant 128 : i32
      scf.for %i = %b to %n step %step : i32 {
        tgpu.store %tile, %c[%i, 0] : tensor<128x64xf32, #tgpu.wgmma<2>>, !tile.view<[?, ?], f32>
        tgpu.store %small, %d[%i, 0] : tensor<128x32xf32, #tgpu.wgmma<2>>, !tile.view<[?, ?], f32>
      }
    }
}

// Unchanged: an optional argument, another layout, and a part of an argument in which the tile may begin before the
// part.
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

// If the tile begins in or after the part, the part is stored through a ragged tensor map.
// CHECK-LABEL: tgpu.kernel @part
// CHECK:         %[[MAP:.*]] = tgpu.tensor_map %c : {{.*}} -> !tgpu.tensor_map<64x1x32xf32, b128, ragged 0>
// CHECK:         tgpu.tma_store %{{.*}}, %[[MAP]][%b, 0, 0] from %begin size %size per warpgroup
// CHECK:         tgpu.tma_store %{{.*}}, %[[MAP]][%b, 0, 32] from %begin size %size per warpgroup
tgpu.kernel @part target "sm_90a" warps 8 (%c: !tile.view<[?, ?, ?], f32>, %begin: i32, %size: i32) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  tgpu.roles
    role "compute" warps 8 {
      %one = arith.constant 1.0 : f32
      %tile = tile.full %one : tensor<128x64xf32, #tgpu.wgmma<2>>
      %part = tile.subview %c dim 0 from %begin size %size : !tile.view<[?, ?, ?], f32>
      tgpu.store %tile, %part[%b, 0, 0] dims [0, 2] {tgpu.starts_inside} : tensor<128x64xf32, #tgpu.wgmma<2>>, !tile.view<[?, ?, ?], f32>
    }
}

// Rows of 100 bytes end inside a chunk of 16 bytes, which TMA would write completely.
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

// The view ends where the tile does: the last piece has the 16 columns that are left of 80, in a panel whose rest the copy
// does not write.
// CHECK-LABEL: tgpu.kernel @partly_used_panel
// CHECK-DAG:     %[[MAP:.*]] = tgpu.tensor_map %c : {{.*}} -> !tgpu.tensor_map<64x64xbf16, b128>
// CHECK-DAG:     %[[RING:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <128x64xbf16, b128>>
// CHECK:         %[[LAST:.*]] = tgpu.slot %[[RING]][%{{.*}}] : !tgpu.ring<2, <128x64xbf16, b128>> as !tgpu.shared<128x16xbf16, b128>
// CHECK:         tgpu.tma_store %[[LAST]], %[[MAP]][%b, 64] per warpgroup : !tgpu.shared<128x16xbf16, b128>
// CHECK-NOT:     tgpu.store
tgpu.kernel @partly_used_panel target "sm_90a" warps 8 (%c: !tile.view<[?, 72], bf16>) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  tgpu.roles
    role "compute" warps 8 {
      %one = arith.constant 1.0 : bf16
      %tile = tile.full %one : tensor<128x80xbf16, #tgpu.wgmma<2>>
      tgpu.store %tile, %c[%b, 0] : tensor<128x80xbf16, #tgpu.wgmma<2>>, !tile.view<[?, 72], bf16>
    }
}

// The same from column 64 on.
// CHECK-LABEL: tgpu.kernel @last_columns
// CHECK:         tgpu.tma_store {{.*}}[%b, 64] per warpgroup : !tgpu.shared<128x64xbf16, b128>
// CHECK:         tgpu.tma_store {{.*}}[%b, 128] per warpgroup : !tgpu.shared<128x16xbf16, b128>
tgpu.kernel @last_columns target "sm_90a" warps 8 (%c: !tile.view<[?, 144], bf16>) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  tgpu.roles
    role "compute" warps 8 {
      %one = arith.constant 1.0 : bf16
      %tile = tile.full %one : tensor<128x80xbf16, #tgpu.wgmma<2>>
      tgpu.store %tile, %c[%b, 64] : tensor<128x80xbf16, #tgpu.wgmma<2>>, !tile.view<[?, 144], bf16>
    }
}

// A tile of rank 3: its columns are not its second dimension. And one that begins inside a chunk of 16 bytes.
// CHECK-LABEL: tgpu.kernel @from_registers
// CHECK-NOT:     tgpu.tma_store
// CHECK:         tgpu.store %{{.*}}, %c
// CHECK:         tgpu.store %{{.*}}, %d
tgpu.kernel @from_registers target "sm_90a" warps 4 (%c: !tile.view<[?, ?, 128], bf16>, %d: !tile.view<[?, 72], bf16>) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  tgpu.roles
    role "compute" warps 4 {
      %one = arith.constant 1.0 : bf16
      %heads = tile.full %one : tensor<8x8x128xbf16, #tgpu.wgmma<1>>
      %tile = tile.full %one : tensor<64x72xbf16, #tgpu.wgmma<1>>
      tgpu.store %heads, %c[%b, 0, 0] : tensor<8x8x128xbf16, #tgpu.wgmma<1>>, !tile.view<[?, ?, 128], bf16>
      tgpu.store %tile, %d[%b, 4] : tensor<64x72xbf16, #tgpu.wgmma<1>>, !tile.view<[?, 72], bf16>
    }
}

// After these tiles the view has, or may have, columns that such a copy would overwrite.
// CHECK-LABEL: tgpu.kernel @more_columns
// CHECK-NOT:     tgpu.tma_store
// CHECK:         tgpu.store %{{.*}}, %c[%b, 0]
// CHECK:         tgpu.store %{{.*}}, %d[%b, 8]
// CHECK:         tgpu.store %{{.*}}, %e[%b, 0]
// CHECK:         tgpu.store %{{.*}}, %d[%b, %n]
tgpu.kernel @more_columns target "sm_90a" warps 8
    (%c: !tile.view<[?, 88], bf16>, %d: !tile.view<[?, 96], bf16>, %e: !tile.view<[?, ?], bf16>, %n: i32) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, store_buffers = 2>} {
  tgpu.roles
    role "compute" warps 8 {
      %one = arith.constant 1.0 : bf16
      %tile = tile.full %one : tensor<128x80xbf16, #tgpu.wgmma<2>>
      tgpu.store %tile, %c[%b, 0] : tensor<128x80xbf16, #tgpu.wgmma<2>>, !tile.view<[?, 88], bf16>
      tgpu.store %tile, %d[%b, 8] : tensor<128x80xbf16, #tgpu.wgmma<2>>, !tile.view<[?, 96], bf16>
      tgpu.store %tile, %e[%b, 0] : tensor<128x80xbf16, #tgpu.wgmma<2>>, !tile.view<[?, ?], bf16>
      tgpu.store %tile, %d[%b, %n] : tensor<128x80xbf16, #tgpu.wgmma<2>>, !tile.view<[?, 96], bf16>
    }
}

// In a block that processes several tiles, results are stored through the ring that iterations write for their own
// products: when all warps have finished with it (sync), the copies read it, and the iterations of the next tile begin
// after that. The third piece finds no slot, and is not staged.
// CHECK-LABEL: tgpu.kernel @through_scratch
// CHECK:         %[[RING:.*]] = tgpu.alloc_ring
// CHECK:         %[[BARRIER:.*]] = tgpu.named_barrier warps 8
// CHECK:         role "compute"
// CHECK:           scf.for
// CHECK:             tgpu.bulk_wait pending 0 read
// CHECK-NEXT:        tgpu.sync on %[[BARRIER]]
// CHECK-NEXT:        scf.for
// CHECK:             tgpu.sync on %[[BARRIER]]
// CHECK:             %[[FIRST:.*]] = tgpu.slot %[[RING]][%{{.*}}] : !tgpu.ring<2, <128x128xbf16, b128>> as !tgpu.shared<128x64xbf16, b128>
// CHECK-NEXT:        tgpu.write %{{.*}}, %[[FIRST]]
// CHECK-NEXT:        tgpu.fence_async
// CHECK-NEXT:        tgpu.sync on %[[BARRIER]]
// CHECK-NEXT:        tgpu.tma_store %[[FIRST]]
// CHECK-NEXT:        tgpu.bulk_commit
// CHECK-NOT:         tgpu.bulk_wait
// CHECK:             %[[SECOND:.*]] = tgpu.slot %[[RING]][%{{.*}}] : {{.*}} as !tgpu.shared<128x64xbf16, b128>
// CHECK:             tgpu.tma_store %[[SECOND]]
// CHECK:             tgpu.store
// CHECK:           tgpu.bulk_wait pending 0 read
// With one tile per block, this has no benefit.
// CHECK-LABEL: tgpu.kernel @one_tile
// CHECK-NOT:     tgpu.tma_store
// CHECK:         tgpu.store
!scratch = !tgpu.ring<2, <128x128xbf16, b128>>
!out = tensor<128x64xbf16, #tgpu.wgmma<2>>
!out_view = !tile.view<[?, ?], bf16>
tgpu.kernel @through_scratch target "sm_90a" warps 8 (%c: !out_view, %d: !out_view, %e: !out_view) grid(%b = 4)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %ring = tgpu.alloc_ring : !scratch
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      %one = arith.constant 1.0 : bf16
      %tile = tile.full %one : !out
      %p = tile.full %one : tensor<128x128xbf16, #tgpu.wgmma<2>>
      scf.for %t = %b to %c4 step %c1 : i32 {
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %slot = tgpu.slot %ring[%i] : !scratch
          tgpu.write %p, %slot : tensor<128x128xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x128xbf16, b128>
        }
        tgpu.store %tile, %c[%t, 0] : !out, !out_view
        tgpu.store %tile, %d[%t, 0] : !out, !out_view
        tgpu.store %tile, %e[%t, 0] : !out, !out_view
      }
    }
}
tgpu.kernel @one_tile target "sm_90a" warps 8 (%c: !out_view) grid(%b = 4)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %ring = tgpu.alloc_ring : !scratch
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %one = arith.constant 1.0 : bf16
      %tile = tile.full %one : !out
      %p = tile.full %one : tensor<128x128xbf16, #tgpu.wgmma<2>>
      scf.for %i = %c0 to %c1 step %c1 : i32 {
        %slot = tgpu.slot %ring[%i] : !scratch
        tgpu.write %p, %slot : tensor<128x128xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x128xbf16, b128>
      }
      tgpu.store %tile, %c[%b, 0] : !out, !out_view
    }
}

// The next result is stored through the slot of the next tile's first sum: the role waits until the other role has read
// it, and the next tile's iterations begin after the copy has read it. Loops and branches yield the number of the slot.
// CHECK-LABEL: tgpu.kernel @through_sums
// CHECK-DAG:     %[[SCRATCH:.*]] = tgpu.alloc_ring : !tgpu.ring<1, <128x128xbf16, b128>>
// CHECK-DAG:     %[[SUMS:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <128x64xf32, b128>>
// CHECK-DAG:     %[[BARRIER:.*]] = tgpu.named_barrier warps 8
// CHECK:         role "compute"
// CHECK:           scf.for
// CHECK:             tgpu.bulk_wait pending 0 read
// CHECK-NEXT:        tgpu.sync on %[[BARRIER]]
// CHECK-NEXT:        %[[USE:.*]] = scf.for
// CHECK:             %[[FIRST:.*]] = tgpu.slot %[[SCRATCH]][%{{.*}}] : {{.*}} as
// CHECK:             tgpu.tma_store %[[FIRST]]
// CHECK:             tgpu.acquire %{{.*}}[%[[USE]]]
// CHECK-NEXT:        %[[SECOND:.*]] = tgpu.slot %[[SUMS]][%[[USE]]] : {{.*}} as !tgpu.shared<128x64xbf16, b128>
// CHECK-NEXT:        tgpu.write %{{.*}}, %[[SECOND]]
// CHECK-NEXT:        tgpu.fence_async
// CHECK-NEXT:        tgpu.sync on %[[BARRIER]]
// CHECK-NEXT:        tgpu.tma_store %[[SECOND]]
// CHECK-NEXT:        tgpu.bulk_commit
// CHECK:             tgpu.store
!sums = !tgpu.ring<2, <128x64xf32, b128>>
!sum = tensor<128x64xf32, #tgpu.wgmma<2>>
tgpu.kernel @through_sums target "sm_90a" warps 12
    (%c: !out_view, %d: !out_view, %e: !out_view, %f: !tile.view<[?, ?], f32>) grid(%b = 4)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %ring = tgpu.alloc_ring : !tgpu.ring<1, <128x128xbf16, b128>>
  %sums = tgpu.alloc_ring : !sums
  %full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %empty = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %map = tgpu.tensor_map %f : !tile.view<[?, ?], f32> -> !tgpu.tensor_map<128x32xf32, b128>
  tgpu.roles
    role "reduce" warps 4 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c16 = arith.constant 16 : i32
      scf.for %i = %c0 to %c16 step %c1 : i32 {
        tgpu.wait %full[%i] : !tgpu.barriers<2>
        %slot = tgpu.slot %sums[%i] : !sums
        tgpu.tma_reduce_add %slot, %map[%b, 0] : !tgpu.shared<128x64xf32, b128>, !tgpu.tensor_map<128x32xf32, b128>
        tgpu.bulk_commit
        tgpu.bulk_wait pending 0 read
        tgpu.arrive %empty[%i] per role : !tgpu.barriers<2>
      }
    }
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      %one = arith.constant 1.0 : bf16
      %one_sum = arith.constant 1.0 : f32
      %tile = tile.full %one : !out
      %sum = tile.full %one_sum : !sum
      %p = tile.full %one : tensor<128x128xbf16, #tgpu.wgmma<2>>
      %is_odd = arith.cmpi eq, %b, %c1 : i32
      scf.for %t = %b to %c4 step %c1 iter_args(%use = %c0) -> (i32) : i32 {
        %after = scf.for %i = %c0 to %c4 step %c1 iter_args(%inner = %use) -> (i32) : i32 {
          %slot = tgpu.slot %ring[%i] : !tgpu.ring<1, <128x128xbf16, b128>>
          tgpu.write %p, %slot : tensor<128x128xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x128xbf16, b128>
          %end = scf.if %is_odd -> (i32) {
            tgpu.acquire %empty[%inner] : !tgpu.barriers<2>
            %sum_slot = tgpu.slot %sums[%inner] : !sums
            tgpu.write %sum, %sum_slot : !sum, !tgpu.shared<128x64xf32, b128>
            tgpu.fence_async
            tgpu.arrive %full[%inner] per warp : !tgpu.barriers<2>
            %next = arith.addi %inner, %c1 : i32
            scf.yield %next : i32
          } else {
            scf.yield %inner : i32
          }
          scf.yield %end : i32
        }
        tgpu.store %tile, %c[%t, 0] : !out, !out_view
        tgpu.store %tile, %d[%t, 0] : !out, !out_view
        tgpu.store %tile, %e[%t, 0] : !out, !out_view
        scf.yield %after : i32
      }
    }
}
