// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: tilewright-opt %s --tgpu-stage-stores | FileCheck %s

// The additions of a tile after its iterations go through the ring that iterations write for their own products and the
// slot of the next tile's first sum, in batches: the second sum waits until the additions have read the first. The next
// tile's iterations, here two loops, begin when all buffers have been read.
// CHECK-LABEL: tgpu.kernel @batches
// CHECK-DAG:     %[[SCRATCH:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <128x64xbf16, b128>>
// CHECK-DAG:     %[[SUMS:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <64x128xf32, b128>>
// CHECK-DAG:     %[[BARRIER:.*]] = tgpu.named_barrier warps 8
// CHECK-DAG:     %[[C_MAP:.*]] = tgpu.tensor_map %c : {{.*}} -> !tgpu.tensor_map<128x32xf32, b128>
// CHECK-DAG:     %[[D_MAP:.*]] = tgpu.tensor_map %d : {{.*}} -> !tgpu.tensor_map<128x32xf32, b128>
// CHECK:         role "compute"
// CHECK:           tgpu.bulk_wait pending 0 read
// CHECK-NEXT:      tgpu.sync on %[[BARRIER]]
// CHECK-NEXT:      scf.for
// CHECK-NOT:       tgpu.bulk_wait
// CHECK:           %[[USE:.*]] = scf.for
// CHECK:           tgpu.sync on %[[BARRIER]]
// CHECK:           tgpu.acquire %{{.*}}[%[[USE]]]
// CHECK:           %[[A:.*]] = tgpu.slot %[[SCRATCH]][%{{.*}}] : {{.*}} as !tgpu.shared<128x32xf32, b128>
// CHECK:           tgpu.write %{{.*}}, %[[A]]
// CHECK:           %[[B:.*]] = tgpu.slot %[[SCRATCH]][%{{.*}}] : {{.*}} as !tgpu.shared<128x32xf32, b128>
// CHECK:           tgpu.write %{{.*}}, %[[B]]
// CHECK:           %[[C:.*]] = tgpu.slot %[[SUMS]][%[[USE]]] : {{.*}} as !tgpu.shared<128x64xf32, b128>
// CHECK:           tgpu.write %{{.*}}, %[[C]]
// CHECK-NEXT:      tgpu.fence_async
// CHECK-NEXT:      tgpu.sync on %[[BARRIER]]
// CHECK-NEXT:      tgpu.tma_reduce_add %[[A]], %[[C_MAP]][%{{.*}}, 0]
// CHECK-NEXT:      tgpu.tma_reduce_add %[[B]], %[[C_MAP]][%{{.*}}, 32]
// CHECK-NEXT:      tgpu.tma_reduce_add %[[C]], %[[C_MAP]][%{{.*}}, 64]
// CHECK-NEXT:      tgpu.bulk_commit
// CHECK-NEXT:      tgpu.bulk_wait pending 0 read
// CHECK-NEXT:      tgpu.sync on %[[BARRIER]]
// CHECK:           tgpu.tma_reduce_add %{{.*}}, %[[D_MAP]][%{{.*}}, 0]
// CHECK:           tgpu.bulk_commit
// CHECK-NOT:       tgpu.atomic_add
// CHECK:           scf.yield
// CHECK:         tgpu.bulk_wait pending 0 read
!view = !tile.view<[?, ?], f32>
!sum = tensor<128x128xf32, #tgpu.wgmma<2>>
!scratch = !tgpu.ring<2, <128x64xbf16, b128>>
!sums = !tgpu.ring<2, <64x128xf32, b128>>
tgpu.kernel @batches target "sm_90a" warps 12 (%c: !view, %d: !view, %f: !view) grid(%b = 4)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %ring = tgpu.alloc_ring : !scratch
  %sums = tgpu.alloc_ring : !sums
  %full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %empty = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %map = tgpu.tensor_map %f : !view -> !tgpu.tensor_map<64x32xf32, b128>
  tgpu.roles
    role "reduce" warps 4 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c16 = arith.constant 16 : i32
      scf.for %i = %c0 to %c16 step %c1 : i32 {
        tgpu.wait %full[%i] : !tgpu.barriers<2>
        %slot = tgpu.slot %sums[%i] : !sums
        tgpu.tma_reduce_add %slot, %map[%b, 0] : !tgpu.shared<64x128xf32, b128>, !tgpu.tensor_map<64x32xf32, b128>
        tgpu.bulk_commit
        tgpu.bulk_wait pending 0 read
        tgpu.arrive %empty[%i] per role : !tgpu.barriers<2>
      }
    }
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c2 = arith.constant 2 : i32
      %c4 = arith.constant 4 : i32
      %one = arith.constant 1.0 : bf16
      %one_sum = arith.constant 1.0 : f32
      %tile = tile.full %one_sum : !sum
      %sum = tile.full %one_sum : tensor<128x64xf32, #tgpu.wgmma<2>>
      %p = tile.full %one : tensor<128x64xbf16, #tgpu.wgmma<2>>
      scf.while (%t = %b, %use = %c0) : (i32, i32) -> (i32, i32) {
        %more = arith.cmpi slt, %t, %c4 : i32
        scf.condition(%more) %t, %use : i32, i32
      } do {
      ^bb0(%t: i32, %use: i32):
        %middle = scf.for %i = %c0 to %c2 step %c1 iter_args(%inner = %use) -> (i32) : i32 {
          %slot = tgpu.slot %ring[%i] : !scratch
          tgpu.write %p, %slot : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x64xbf16, b128>
          tgpu.acquire %empty[%inner] : !tgpu.barriers<2>
          %sum_slot = tgpu.slot %sums[%inner] : !sums
          tgpu.write %sum, %sum_slot transpose : tensor<128x64xf32, #tgpu.wgmma<2>>, !tgpu.shared<64x128xf32, b128>
          tgpu.fence_async
          tgpu.arrive %full[%inner] per warp : !tgpu.barriers<2>
          %next = arith.addi %inner, %c1 : i32
          scf.yield %next : i32
        }
        %after = scf.for %i = %c2 to %c4 step %c1 iter_args(%inner = %middle) -> (i32) : i32 {
          %slot = tgpu.slot %ring[%i] : !scratch
          tgpu.write %p, %slot : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x64xbf16, b128>
          scf.yield %inner : i32
        }
        tgpu.atomic_add %tile, %c[%t, 0] : !sum, !view
        tgpu.atomic_add %tile, %d[%t, 0] : !sum, !view
        %next_t = arith.addi %t, %c1 : i32
        scf.yield %next_t, %after : i32, i32
      }
    }
}

// If no ring of the iterations holds a piece (its rows have an alignment of 256 bytes), the pieces go through operands
// that all products have read, as rings of one slot. One thread releases these when the additions have read them.
// CHECK-LABEL: tgpu.kernel @through_operands
// CHECK:         %[[RING:.*]] = tgpu.alloc_ring : !tgpu.ring<1, <128x128xbf16, b128>>
// CHECK:         %[[K:.*]] = tgpu.slot %[[RING]][%{{.*}}] : !tgpu.ring<1, <128x128xbf16, b128>>
// CHECK:         tgpu.alloc_barriers arrivals 1
// CHECK-NEXT:    %[[EMPTY:.*]] = tgpu.alloc_barriers arrivals 1
// CHECK:         tgpu.tma_load {{.*}}, %[[K]],
// CHECK:         role "compute"
// CHECK:           tgpu.wgmma %[[K]]
// CHECK-NOT:       tgpu.arrive
// CHECK:           %[[FIRST:.*]] = tgpu.slot %[[RING]][%{{.*}}] : {{.*}} as !tgpu.shared<128x64xf32, b128>
// CHECK:           tgpu.tma_reduce_add %[[FIRST]]
// CHECK:           tgpu.bulk_wait pending 0 read
// CHECK-NEXT:      tgpu.sync
// CHECK:           tgpu.tma_reduce_add
// CHECK-NEXT:      tgpu.bulk_commit
// CHECK:           tgpu.bulk_wait pending 0 read
// CHECK-NEXT:      tgpu.arrive %[[EMPTY]][%{{.*}}] per role
!kview = !tile.view<[?, ?], bf16>
!k = !tgpu.shared<128x128xbf16, b128>
!narrow = !tgpu.ring<2, <128x80xbf16, b32>>
tgpu.kernel @through_operands target "sm_90a" warps 12 (%c: !view, %kv: !kview) grid(%b = 4)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %ring = tgpu.alloc_ring : !narrow
  %k = tgpu.alloc : !k
  %k_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %k_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
  %map = tgpu.tensor_map %kv : !kview -> !tgpu.tensor_map<128x64xbf16, b128>
  tgpu.roles
    role "load" warps 4 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      scf.for %t = %c0 to %c4 step %c1 : i32 {
        tgpu.acquire %k_empty[%t] : !tgpu.barriers<1>
        tgpu.expect %k_full[%t] bytes 32768 : !tgpu.barriers<1>
        tgpu.tma_load %map[%t, 0], %k, %k_full[%t] : !tgpu.tensor_map<128x64xbf16, b128>, !k, !tgpu.barriers<1>
      }
    }
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      %one = arith.constant 1.0 : bf16
      %p = tile.full %one : tensor<128x80xbf16, #tgpu.wgmma<2>>
      scf.while (%t = %c0) : (i32) -> (i32) {
        %more = arith.cmpi slt, %t, %c4 : i32
        scf.condition(%more) %t : i32
      } do {
      ^bb0(%t: i32):
        scf.for %i = %c0 to %c4 step %c1 : i32 {
          %slot = tgpu.slot %ring[%i] : !narrow
          tgpu.write %p, %slot : tensor<128x80xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x80xbf16, b32>
        }
        tgpu.wait %k_full[%t] : !tgpu.barriers<1>
        %product = tgpu.wgmma %k, %k transpose_b : !k, !k -> tensor<128x128xf32, #tgpu.wgmma<2>>
        tgpu.wgmma_commit
        %done = tgpu.wgmma_wait pending 0, %product : tensor<128x128xf32, #tgpu.wgmma<2>>
        tgpu.arrive %k_empty[%t] per warp : !tgpu.barriers<1>
        tgpu.atomic_add %done, %c[%t, 0] : !sum, !view
        %next = arith.addi %t, %c1 : i32
        scf.yield %next : i32
      }
    }
}

// Additions in an iteration do not change, nor do those of a block that processes only one tile.
// CHECK-LABEL: tgpu.kernel @stay
// CHECK-NOT:     tgpu.tma_reduce_add
// CHECK:         tgpu.atomic_add
// CHECK-NOT:     tgpu.tma_reduce_add
tgpu.kernel @stay target "sm_90a" warps 8 (%c: !view) grid(%b = 4)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %ring = tgpu.alloc_ring : !scratch
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      %one = arith.constant 1.0 : bf16
      %one_sum = arith.constant 1.0 : f32
      %tile = tile.full %one_sum : !sum
      %p = tile.full %one : tensor<128x64xbf16, #tgpu.wgmma<2>>
      scf.for %i = %c0 to %c4 step %c1 : i32 {
        %slot = tgpu.slot %ring[%i] : !scratch
        tgpu.write %p, %slot : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x64xbf16, b128>
        tgpu.atomic_add %tile, %c[%i, 0] : !sum, !view
      }
    }
}
