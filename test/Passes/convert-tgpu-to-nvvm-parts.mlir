// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row %row of the part [begin, begin + size), as x, y and z of base/Abi/KernelAbi.h.
//
// RUN: tilewrightc %s --target=sm_90a --emit=ptx | FileCheck %s
//
// CHECK-LABEL: .entry parts(
// CHECK:       add.s32 %[[X:r[0-9]+]], %{{.*}}, 1073741824;
// CHECK-NEXT:  add.s32 %[[Y:r[0-9]+]], %{{.*}}, %{{.*}};
// CHECK:       mov.b32 %[[Z:r[0-9]+]], 1073741824;
// CHECK:       cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [{{.*}}], [{{.*}}, {%{{.*}}, %{{.*}}, %[[X]], %[[Y]], %[[Z]]}], [

tgpu.kernel @parts target "sm_90a" warps 8 (%x: !tile.view<[?, ?, 64], bf16>, %begin: i32, %size: i32, %row: i32)
    grid(%h = 4) attributes {shared_bytes = 16400 : i64} {
  %c0 = arith.constant 0 : i32
  %map = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<128x1x64xbf16, b128, ragged 0>
  %buffer = tgpu.alloc at 0 : !tgpu.shared<128x64xbf16, b128>
  %full = tgpu.alloc_barriers arrivals 1 at 16384 : !tgpu.barriers<1>
  tgpu.roles
    role "load" warps 4 {
      tgpu.expect %full[%c0] bytes 16384 : !tgpu.barriers<1>
      tgpu.tma_load %map[%row, %h, 0] from %begin size %size, %buffer, %full[%c0] : !tgpu.tensor_map<128x1x64xbf16, b128, ragged 0>, !tgpu.shared<128x64xbf16, b128>, !tgpu.barriers<1>
    }
    role "wait" warps 4 {
      tgpu.wait %full[%c0] : !tgpu.barriers<1>
    }
}

// The map of a view of rank 4 omits the first dimension.
// CHECK-LABEL: .entry part_of_the_first(
// CHECK:       cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
tgpu.kernel @part_of_the_first target "sm_90a" warps 8 (%x: !tile.view<[?, ?, ?, 64], bf16>, %begin: i32, %size: i32, %row: i32)
    grid(%h = 4) attributes {shared_bytes = 16400 : i64} {
  %c0 = arith.constant 0 : i32
  %map = tgpu.tensor_map %x : !tile.view<[?, ?, ?, 64], bf16> -> !tgpu.tensor_map<1x1x128x64xbf16, b128, ragged 2>
  %buffer = tgpu.alloc at 0 : !tgpu.shared<128x64xbf16, b128>
  %full = tgpu.alloc_barriers arrivals 1 at 16384 : !tgpu.barriers<1>
  tgpu.roles
    role "load" warps 4 {
      tgpu.expect %full[%c0] bytes 16384 : !tgpu.barriers<1>
      tgpu.tma_load %map[%c0, %h, %row, 0] from %begin size %size, %buffer, %full[%c0] : !tgpu.tensor_map<1x1x128x64xbf16, b128, ragged 2>, !tgpu.shared<128x64xbf16, b128>, !tgpu.barriers<1>
    }
    role "wait" warps 4 {
      tgpu.wait %full[%c0] : !tgpu.barriers<1>
    }
}
