// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --tgpu-verify-sync -split-input-file -verify-diagnostics
//
// A barrier of each warpgroup orders accesses of the rows that belong to the warpgroup, and nothing else. So does the end
// of a warpgroup's product, for operand a.

// Tiles are stored one after the other, each warpgroup its own rows.
!view = !tile.view<[?, 64], bf16>
!slot = !tgpu.shared<128x64xbf16, b128>
!acc = tensor<128x64xbf16, #tgpu.wgmma<2>>
tgpu.kernel @right target "sm_90a" warps 8 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<64x64xbf16, b128>
  %buffer = tgpu.alloc : !slot
  %group = tgpu.named_barrier warps 8 per warpgroup : index
  %all = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      scf.for %tile = %c0 to %c4 step %c1 : i32 {
        %sum = tile.full %zero : !acc
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %group
        tgpu.write %sum, %buffer : !acc, !slot
        tgpu.fence_async
        tgpu.sync on %group
        tgpu.tma_store %buffer, %map[%tile, 0] per warpgroup : !slot, !tgpu.tensor_map<64x64xbf16, b128>
        tgpu.bulk_commit
      }
      tgpu.bulk_wait pending 0 read
    }
}

// -----

// One thread copies the rows of both warpgroups.
!view = !tile.view<[?, 64], bf16>
!slot = !tgpu.shared<128x64xbf16, b128>
!acc = tensor<128x64xbf16, #tgpu.wgmma<2>>
tgpu.kernel @rows_of_others target "sm_90a" warps 8 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<64x64xbf16, b128>
  %whole = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<128x64xbf16, b128>
  %buffer = tgpu.alloc : !slot
  %group = tgpu.named_barrier warps 8 per warpgroup : index
  %all = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      %sum = tile.full %zero : !acc
      // expected-note @+1 {{written here}}
      tgpu.write %sum, %buffer : !acc, !slot
      tgpu.fence_async
      tgpu.sync on %group
      // expected-error @+1 {{reads a buffer that other warps may not have written yet; a barrier must come between}}
      tgpu.tma_store %buffer, %whole[0, 0] : !slot, !tgpu.tensor_map<128x64xbf16, b128>
      tgpu.bulk_commit
      tgpu.bulk_wait pending 0
    }
}

// -----

// The transposed tile has rows of both warpgroups in each row of the buffer.
!view = !tile.view<[?, 64], bf16>
!slot = !tgpu.shared<128x64xbf16, b128>
!acc = tensor<64x128xbf16, #tgpu.wgmma<1>>
tgpu.kernel @transposed target "sm_90a" warps 8 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<64x64xbf16, b128>
  %square = tgpu.alloc : !tgpu.shared<128x128xbf16, b128>
  %group = tgpu.named_barrier warps 8 per warpgroup : index
  %all = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      %sum = tile.full %zero : tensor<128x128xbf16, #tgpu.wgmma<2>>
      // expected-note @+1 {{written here}}
      tgpu.write %sum, %square transpose : tensor<128x128xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x128xbf16, b128>
      tgpu.fence_async
      tgpu.sync on %group
      // expected-error @+1 {{reads a buffer that other warps may not have written yet; a barrier must come between}}
      tgpu.tma_store %square, %map[0, 0] per warpgroup : !tgpu.shared<128x128xbf16, b128>, !tgpu.tensor_map<64x64xbf16, b128>
      tgpu.bulk_commit
      tgpu.bulk_wait pending 0
    }
}

// -----

// Without a barrier behind the fence.
!view = !tile.view<[?, 64], bf16>
!slot = !tgpu.shared<128x64xbf16, b128>
!acc = tensor<128x64xbf16, #tgpu.wgmma<2>>
tgpu.kernel @no_barrier target "sm_90a" warps 8 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<64x64xbf16, b128>
  %buffer = tgpu.alloc : !slot
  %group = tgpu.named_barrier warps 8 per warpgroup : index
  %all = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      %sum = tile.full %zero : !acc
      // expected-note @+1 {{written here}}
      tgpu.write %sum, %buffer : !acc, !slot
      tgpu.fence_async
      // expected-error @+1 {{reads a buffer that other warps may not have written yet; a barrier must come between}}
      tgpu.tma_store %buffer, %map[0, 0] per warpgroup : !slot, !tgpu.tensor_map<64x64xbf16, b128>
      tgpu.bulk_commit
      tgpu.bulk_wait pending 0
    }
}

// -----

// Every warp reads all rows as operand b.
!view = !tile.view<[?, 64], bf16>
!slot = !tgpu.shared<128x64xbf16, b128>
!acc = tensor<128x64xbf16, #tgpu.wgmma<2>>
!p = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
tgpu.kernel @read_by_all target "sm_90a" warps 8 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<64x64xbf16, b128>
  %buffer = tgpu.alloc : !slot
  %group = tgpu.named_barrier warps 8 per warpgroup : index
  %all = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      %sum = tile.full %zero : !acc
      %p = tile.full %zero : !p
      // expected-note @+1 {{written here}}
      tgpu.write %sum, %buffer : !acc, !slot
      tgpu.fence_async
      tgpu.sync on %group
      // expected-error @+1 {{reads a buffer that other warps may not have written yet; a barrier must come between}}
      %0 = tgpu.wgmma %p, %buffer : !p, !slot -> tensor<128x64xf32, #tgpu.wgmma<2>>
      tgpu.wgmma_commit
      %1 = tgpu.wgmma_wait pending 0, %0 : tensor<128x64xf32, #tgpu.wgmma<2>>
    }
}

// -----

// The first thread of each warpgroup waits for its copy; another warpgroup's warps know nothing of it.
!view = !tile.view<[?, 64], bf16>
!slot = !tgpu.shared<128x64xbf16, b128>
!acc = tensor<128x64xbf16, #tgpu.wgmma<2>>
tgpu.kernel @wait_of_others target "sm_90a" warps 8 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<64x64xbf16, b128>
  %buffer = tgpu.alloc : !slot
  %group = tgpu.named_barrier warps 8 per warpgroup : index
  %all = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c4 = arith.constant 4 : i32
      %sum = tile.full %zero : !acc
      tgpu.write %sum, %buffer : !acc, !slot
      tgpu.fence_async
      tgpu.sync on %group
      // expected-note @+1 {{read here}}
      tgpu.tma_store %buffer, %map[0, 0] per warpgroup : !slot, !tgpu.tensor_map<64x64xbf16, b128>
      tgpu.bulk_commit
      tgpu.bulk_wait pending 0 read
      // expected-error @+1 {{overwrites a buffer that other warps may still read; a barrier must come between}}
      tgpu.write %sum, %buffer : !acc, !slot
    }
}

// -----

// The same slot as buffers of other rows: the first warpgroup writes bytes that the second one copies.
!view = !tile.view<[?, 64], bf16>
!ring = !tgpu.ring<1, <128x64xbf16, b128>>
!slot = !tgpu.shared<128x64xbf16, b128>
!acc = tensor<128x64xbf16, #tgpu.wgmma<2>>
!half = tensor<128x32xbf16, #tgpu.wgmma<2>>
tgpu.kernel @other_rows target "sm_90a" warps 8 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<64x64xbf16, b128>
  %ring = tgpu.alloc_ring : !tgpu.ring<1, <128x64xbf16, none>>
  %group = tgpu.named_barrier warps 8 per warpgroup : index
  tgpu.roles
    role "compute" warps 8 {
      %c0 = arith.constant 0 : i32
      %sum = tile.full %zero : !acc
      %half = tile.full %zero : !half
      %whole = tgpu.slot %ring[%c0] : !tgpu.ring<1, <128x64xbf16, none>>
      %narrow = tgpu.slot %ring[%c0] : !tgpu.ring<1, <128x64xbf16, none>> as !tgpu.shared<128x32xbf16, none>
      // expected-note @+1 {{written here}}
      tgpu.write %half, %narrow : !half, !tgpu.shared<128x32xbf16, none>
      tgpu.sync on %group
      // expected-error @+1 {{overwrites}}
      tgpu.write %sum, %whole : !acc, !tgpu.shared<128x64xbf16, none>
    }
}

// -----

// Valid: a warpgroup overwrites the rows of operand a that its own product has read.
!x = !tgpu.shared<128x64xbf16, b128>
!rows = tensor<128x64xbf16, #tgpu.wgmma<2>>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
tgpu.kernel @own_operand target "sm_90a" warps 8 (%zero: bf16) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %a = tgpu.alloc : !x
  %b = tgpu.alloc : !x
  %tile = tile.full %zero : !rows
  tgpu.write %tile, %b : !rows, !x
  scf.for %n = %c0 to %c3 step %c1 : i32 {
    tgpu.write %tile, %a : !rows, !x
    tgpu.fence_async
    tgpu.sync
    %pending = tgpu.wgmma %a, %b transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %pending : !s
  }
}

// -----

// In another layout, a warp writes rows of both warpgroups, of which one may still multiply.
!x = !tgpu.shared<128x64xbf16, b128>
!rows = tensor<128x64xbf16, #tgpu.blocked<8, lanes 8, warps 8, 1>>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
tgpu.kernel @mixed_operand target "sm_90a" warps 8 (%zero: bf16) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %a = tgpu.alloc : !x
  %b = tgpu.alloc : !x
  %tile = tile.full %zero : !rows
  tgpu.write %tile, %b : !rows, !x
  scf.for %n = %c0 to %c3 step %c1 : i32 {
    // expected-error @+1 {{overwrites a buffer that other warps may still read; a barrier must come between}}
    tgpu.write %tile, %a : !rows, !x
    tgpu.fence_async
    tgpu.sync
    // expected-note @+1 {{read here}}
    %pending = tgpu.wgmma %a, %b transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %pending : !s
  }
}
