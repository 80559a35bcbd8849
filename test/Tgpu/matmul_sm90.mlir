// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix product for Hopper, C = A B in bf16, tiles of 128 x 256, written by hand.
//
//   load      A and B through one ring of three stages, by TMA; the stages of the next tile are filled
//             during the epilogue of this one.
//   compute   two warpgroups, 64 rows each. One product stays in flight: the loop carries the
//             pending accumulator, and releases a stage when the next product has been issued.
//
// C is stored through its own buffer (stmatrix, TMA store), whose copy is awaited only before the next tile
// overwrites it. Persistent. K >= 1.
//
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s

!view = !tile.view<[?, ?], bf16>
!a_map = !tgpu.tensor_map<128x64xbf16, b128>
!b_map = !tgpu.tensor_map<64x64xbf16, b128>
!a = !tgpu.shared<128x64xbf16, b128>
!b = !tgpu.shared<64x256xbf16, b128>
!c = !tgpu.shared<128x256xbf16, b128>
!acc = tensor<128x256xf32, #tgpu.wgmma<2>>
!acc_bf16 = tensor<128x256xbf16, #tgpu.wgmma<2>>

// CHECK-LABEL: tgpu.kernel @matmul target "sm_90a" warps 12
tgpu.kernel @matmul target "sm_90a" warps 12 (%a: !view, %b: !view, %c: !view) grid(%cta = sm_count()) {
  %a_map = tgpu.tensor_map %a : !view -> !a_map
  %b_map = tgpu.tensor_map %b : !view -> !b_map
  // Both have boxes of 64 columns; C has the rows of A.
  %c_map = tgpu.tensor_map %c : !view -> !a_map
  %a_ring = tgpu.alloc_ring : !tgpu.ring<3, !a>
  %b_ring = tgpu.alloc_ring : !tgpu.ring<3, !b>
  %c_buffer = tgpu.alloc : !c
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<3>
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<3>
  %c_free = tgpu.named_barrier warps 8 : index
  %c_written = tgpu.named_barrier warps 8 : index

  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %c256 = arith.constant 256 : i32
  %rows = tile.dim %c, 0 : !view
  %columns = tile.dim %c, 1 : !view
  %depth = tile.dim %a, 1 : !view
  %row_blocks = arith.ceildivsi %rows, %c128 : i32
  %column_blocks = arith.ceildivsi %columns, %c256 : i32
  %steps = arith.ceildivsi %depth, %c64 : i32
  %tiles = arith.muli %row_blocks, %column_blocks : i32
  // CHECK: %[[CTAS:.*]] = tgpu.grid_extent 0 : i32
  %ctas = tgpu.grid_extent 0 : i32

  tgpu.roles
    role "load" warps 4 registers 40 {
      // CHECK: scf.for %{{.*}} = %cta to %{{.*}} step %[[CTAS]] iter_args(
      scf.for %t = %cta to %tiles step %ctas iter_args(%use0 = %c0) -> i32 : i32 {
        %row_block = arith.remsi %t, %row_blocks : i32
        %column_block = arith.divsi %t, %row_blocks : i32
        %m = arith.muli %row_block, %c128 : i32
        %n = arith.muli %column_block, %c256 : i32
        %use_end = scf.for %i = %c0 to %steps step %c1 iter_args(%use = %use0) -> i32 : i32 {
          %k = arith.muli %i, %c64 : i32
          tgpu.acquire %empty[%use] : !tgpu.barriers<3>
          tgpu.expect %full[%use] bytes 49152 : !tgpu.barriers<3>
          %a_slot = tgpu.slot %a_ring[%use] : !tgpu.ring<3, !a>
          %b_slot = tgpu.slot %b_ring[%use] : !tgpu.ring<3, !b>
          tgpu.tma_load %a_map[%m, %k], %a_slot, %full[%use] : !a_map, !a, !tgpu.barriers<3>
          tgpu.tma_load %b_map[%k, %n], %b_slot, %full[%use] : !b_map, !b, !tgpu.barriers<3>
          %next = arith.addi %use, %c1 : i32
          scf.yield %next : i32
        }
        scf.yield %use_end : i32
      }
    }
    role "compute" warps 8 registers 232 {
      scf.for %t = %cta to %tiles step %ctas iter_args(%use0 = %c0) -> i32 : i32 {
        %row_block = arith.remsi %t, %row_blocks : i32
        %column_block = arith.divsi %t, %row_blocks : i32
        %m = arith.muli %row_block, %c128 : i32
        %n = arith.muli %column_block, %c256 : i32

        tgpu.wait %full[%use0] : !tgpu.barriers<3>
        %a_first = tgpu.slot %a_ring[%use0] : !tgpu.ring<3, !a>
        %b_first = tgpu.slot %b_ring[%use0] : !tgpu.ring<3, !b>
        %first = tgpu.wgmma %a_first, %b_first : !a, !b -> !acc
        tgpu.wgmma_commit
        // CHECK: iter_args({{.*}}) -> (!tgpu.pending<tensor<128x256xf32, #tgpu.wgmma<2>>>, i32)
        %pending_end, %last = scf.for %i = %c1 to %steps step %c1
            iter_args(%pending = %first, %use = %use0) -> (!tgpu.pending<!acc>, i32) : i32 {
          %next = arith.addi %use, %c1 : i32
          tgpu.wait %full[%next] : !tgpu.barriers<3>
          %a_slot = tgpu.slot %a_ring[%next] : !tgpu.ring<3, !a>
          %b_slot = tgpu.slot %b_ring[%next] : !tgpu.ring<3, !b>
          // CHECK: tgpu.wgmma %{{.*}}, %{{.*}}, %{{.*}} : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x256xbf16, b128>, !tgpu.pending<tensor<128x256xf32, #tgpu.wgmma<2>>> -> tensor<128x256xf32, #tgpu.wgmma<2>>
          // CHECK-NEXT: tgpu.wgmma_commit
          // CHECK-NEXT: tgpu.wgmma_wait pending 1{{ *$}}
          %sum = tgpu.wgmma %a_slot, %b_slot, %pending : !a, !b, !tgpu.pending<!acc> -> !acc
          tgpu.wgmma_commit
          tgpu.wgmma_wait pending 1
          tgpu.arrive %empty[%use] per warp : !tgpu.barriers<3>
          scf.yield %sum, %next : !tgpu.pending<!acc>, i32
        }
        %product = tgpu.wgmma_wait pending 0, %pending_end : !acc
        tgpu.arrive %empty[%last] per warp : !tgpu.barriers<3>

        // The copy of the previous tile has read the buffer: one thread waits for it, then all at the barrier.
        // CHECK: tgpu.bulk_wait pending 0 read
        // CHECK-NEXT: tgpu.sync on %{{.*}}
        // CHECK-NEXT: tgpu.write %{{.*}}, %{{.*}} : tensor<128x256xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x256xbf16, b128>
        // CHECK-NEXT: tgpu.fence_async
        // CHECK-NEXT: tgpu.sync on %{{.*}}
        // CHECK-NEXT: tgpu.tma_store
        %rounded = tile.cast %product : !acc -> !acc_bf16
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %c_free
        tgpu.write %rounded, %c_buffer : !acc_bf16, !c
        tgpu.fence_async
        tgpu.sync on %c_written
        tgpu.tma_store %c_buffer, %c_map[%m, %n] : !c, !a_map
        tgpu.bulk_commit
        %next_use = arith.addi %last, %c1 : i32
        scf.yield %next_use : i32
      }
      tgpu.bulk_wait pending 0 read
    }
}
