// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-plan-shared-memory -o %t.mlir
// RUN: tilewrightc %t.mlir --target=sm_90a --emit=ptx | FileCheck %s
//
// Each warpgroup of a role waits at its own barrier and copies its own 64 rows, of 8192 bytes. The role begins with the
// thread 128, and the numbers of its barriers with 1.

!view = !tile.view<[?, 64], bf16>
!slot = !tgpu.shared<128x64xbf16, b128>

// CHECK-LABEL: .entry rows(
// CHECK:       fence.proxy.async.shared::cta;
// CHECK:       mov.u32 %[[THREAD:r[0-9]+]], %tid.x;
// CHECK:       add.s32 %[[OF_ROLE:r[0-9]+]], %[[THREAD]], -128;
// CHECK:       shr.u32 %[[GROUP:r[0-9]+]], %[[OF_ROLE]], 7;
// CHECK:       add.s32 %[[ID:r[0-9]+]], %[[GROUP]], 1;
// CHECK:       bar.sync %[[ID]], 128;
// CHECK:       and.b32 %[[OF_GROUP:r[0-9]+]], %{{.*}}, 127;
// CHECK:       setp.ne.b32 %[[OTHERS:p[0-9]+]], %[[OF_GROUP]], 0;
// CHECK:       @%[[OTHERS]] bra
// CHECK:       cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
tgpu.kernel @rows target "sm_90a" warps 12 (%x: !view, %zero: bf16) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<64x64xbf16, b128>
  %buffer = tgpu.alloc : !slot
  %group = tgpu.named_barrier warps 8 per warpgroup : index
  tgpu.roles
    role "other" warps 4 {
    }
    role "compute" warps 8 {
      %sum = tile.full %zero : tensor<128x64xbf16, #tgpu.wgmma<2>>
      tgpu.write %sum, %buffer : tensor<128x64xbf16, #tgpu.wgmma<2>>, !slot
      tgpu.fence_async
      tgpu.sync on %group
      tgpu.tma_store %buffer, %map[0, 0] per warpgroup : !slot, !tgpu.tensor_map<64x64xbf16, b128>
      tgpu.bulk_commit
      tgpu.bulk_wait pending 0 read
    }
}

// All warps execute a role that only copies per warpgroup: one thread would copy the rows of the first one.
// CHECK-LABEL: .entry copies(
// CHECK:       mbarrier.try_wait
// CHECK:       mov.u32 %[[COPIER:r[0-9]+]], %tid.x;
// CHECK:       and.b32 %[[IN_GROUP:r[0-9]+]], %[[COPIER]], 127;
// CHECK:       setp.ne.b32 %[[NOT_FIRST:p[0-9]+]], %[[IN_GROUP]], 0;
// CHECK:       @%[[NOT_FIRST]] bra
// CHECK:       cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
tgpu.kernel @copies target "sm_90a" warps 12 (%x: !view) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<128x64xbf16, b128>
  %share = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<64x64xbf16, b128>
  %buffer = tgpu.alloc : !slot
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  tgpu.roles
    role "other" warps 4 {
    }
    role "copy" warps 8 {
      %c0 = arith.constant 0 : i32
      tgpu.expect %full[%c0] bytes 16384 : !tgpu.barriers<1>
      tgpu.tma_load %map[0, 0], %buffer, %full[%c0] : !tgpu.tensor_map<128x64xbf16, b128>, !slot, !tgpu.barriers<1>
      tgpu.wait %full[%c0] : !tgpu.barriers<1>
      tgpu.tma_store %buffer, %share[128, 0] per warpgroup : !slot, !tgpu.tensor_map<64x64xbf16, b128>
      tgpu.bulk_commit
      tgpu.bulk_wait pending 0
    }
}
