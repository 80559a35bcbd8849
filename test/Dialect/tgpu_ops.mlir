// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All operations of tgpu, in the custom and the generic form.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s

!view = !tile.view<[?, ?, 64], bf16>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>

// The kernel: arguments, grid, attributes.
// CHECK-LABEL: tgpu.kernel @empty target "sm_80" warps 4
// CHECK-NEXT: ()
// CHECK-NEXT: grid(%i = 1) {
// CHECK-NEXT: }
tgpu.kernel @empty target "sm_80" warps 4 () grid(%i = 1) {
}

// CHECK-LABEL: tgpu.kernel @contract target "sm_80" warps 4
// CHECK-NEXT: require(dim(x, 0) >= n, finite(scale))
// CHECK-NEXT: (%x: !tile.view<[?], f32>, %n: i32 = -1, %scale: f32 = 5.000000e-01)
// CHECK-NEXT: grid(%i = 1)
tgpu.kernel @contract target "sm_80" warps 4 require(dim(x, 0) >= n, finite(scale))
    (%x: !tile.view<[?], f32>, %n: i32 = -1, %scale: f32 = 0.5) grid(%i = 1) {
}

// CHECK-LABEL: tgpu.kernel @signature target "sm_90a" warps 32
// CHECK-NEXT: (%x: !tile.view<[?, 64], f32>, %y: optional !tile.view<[?], bf16>, %n: i32, %s: f32)
// CHECK-NEXT: grid(%i = ceildiv(dim(x, 0), 128), %j = n, %k = sm_count()) attributes {bindings = {D = 64 : i64}, shared_bytes = 1024 : i64} {
// CHECK-NEXT: %0 = tgpu.grid_extent 2 : i32
tgpu.kernel @signature target "sm_90a" warps 32
    (%x: !tile.view<[?, 64], f32>, %y: optional !tile.view<[?], bf16>, %n: i32, %s: f32)
    grid(%i = ceildiv(dim(x, 0), 128), %j = n, %k = sm_count())
    attributes {bindings = {D = 64 : i64}, shared_bytes = 1024 : i64} {
  %0 = tgpu.grid_extent 2 : i32
}

// Roles, barriers, fences.
// CHECK-LABEL: tgpu.kernel @roles
tgpu.kernel @roles target "sm_90a" warps 12 () grid(%i = 1) {
  // CHECK: %[[BARRIERS:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<3>
  // CHECK: %[[PLANNED:.*]] = tgpu.alloc_barriers arrivals 1048575 at 64 : !tgpu.barriers<1>
  // CHECK: %[[NAMED:.*]] = tgpu.named_barrier warps 8 : index
  // CHECK: tgpu.named_barrier warps 32 id 15 : index
  // CHECK: %[[SHARED:.*]] = tgpu.named_barrier warps 9 id 1 : index
  // CHECK: %[[TURNS:.*]] = tgpu.turns warpgroups 2 : index
  // CHECK: tgpu.turns warpgroups 8 id 7 : index
  %barriers = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<3>
  %planned = tgpu.alloc_barriers arrivals 1048575 at 64 : !tgpu.barriers<1>
  %named = tgpu.named_barrier warps 8 : index
  %numbered = tgpu.named_barrier warps 32 id 15 : index
  %shared = tgpu.named_barrier warps 9 id 1 : index
  %turns = tgpu.turns warpgroups 2 : index
  %many = tgpu.turns warpgroups 8 id 7 : index
  // CHECK: tgpu.sync{{$}}
  // CHECK-NEXT: tgpu.fence_async
  tgpu.sync
  tgpu.fence_async
  // CHECK-NEXT: tgpu.roles
  // CHECK-NEXT: role "load" warps 1 registers 24 {
  // CHECK-NEXT: tgpu.acquire %[[BARRIERS]][%i] : !tgpu.barriers<3>
  // CHECK-NEXT: tgpu.expect %[[BARRIERS]][%i] bytes 1048575 : !tgpu.barriers<3>
  // CHECK-NEXT: tgpu.arrive %[[PLANNED]][%i] per role : !tgpu.barriers<1>
  // CHECK-NEXT: tgpu.signal %[[SHARED]]
  // CHECK-NEXT: }
  // CHECK-NEXT: role "nothing" warps 3 registers 24 {
  // CHECK-NEXT: }
  // CHECK-NEXT: role "compute" warps 8 {
  // CHECK-NEXT: tgpu.wait %[[BARRIERS]][%i] : !tgpu.barriers<3>
  // CHECK-NEXT: tgpu.arrive %[[BARRIERS]][%i] per thread : !tgpu.barriers<3>
  // CHECK-NEXT: tgpu.arrive %[[BARRIERS]][%i] per warp : !tgpu.barriers<3>
  // CHECK-NEXT: tgpu.arrive %[[BARRIERS]][%i] per warpgroup : !tgpu.barriers<3>
  // CHECK-NEXT: tgpu.sync on %[[NAMED]]
  // CHECK-NEXT: tgpu.sync on %[[SHARED]]
  // CHECK-NEXT: tgpu.take_turn %[[TURNS]]
  // CHECK-NEXT: tgpu.pass_turn %[[TURNS]]
  // CHECK-NEXT: } {note = "kept"}
  tgpu.roles
    role "load" warps 1 registers 24 {
      tgpu.acquire %barriers[%i] : !tgpu.barriers<3>
      tgpu.expect %barriers[%i] bytes 1048575 : !tgpu.barriers<3>
      tgpu.arrive %planned[%i] per role : !tgpu.barriers<1>
      tgpu.signal %shared
    }
    role "nothing" warps 3 registers 24 {
    }
    role "compute" warps 8 {
      tgpu.wait %barriers[%i] : !tgpu.barriers<3>
      tgpu.arrive %barriers[%i] per thread : !tgpu.barriers<3>
      tgpu.arrive %barriers[%i] per warp : !tgpu.barriers<3>
      tgpu.arrive %barriers[%i] per warpgroup : !tgpu.barriers<3>
      tgpu.sync on %named
      tgpu.sync on %shared
      tgpu.take_turn %turns
      tgpu.pass_turn %turns
    } {note = "kept"}
}

// Shared memory.
// CHECK-LABEL: tgpu.kernel @shared
tgpu.kernel @shared target "sm_90a" warps 4 () grid(%i = 1) {
  // CHECK: tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  // CHECK: tgpu.alloc at 1024 : !tgpu.shared<128x64xbf16, b128>
  // CHECK: tgpu.alloc at 128 : !tgpu.shared<128xf32, none>
  // CHECK: %[[RING:.*]] = tgpu.alloc_ring : !tgpu.ring<3, <128x64xbf16, b128>>
  // CHECK: tgpu.alloc_ring at 183296 : !tgpu.ring<3, <128x64xbf16, b128>>
  // CHECK: tgpu.slot %[[RING]][%i] : !tgpu.ring<3, <128x64xbf16, b128>>{{$}}
  %0 = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %1 = tgpu.alloc at 1024 : !tgpu.shared<128x64xbf16, b128>
  %2 = tgpu.alloc at 128 : !tgpu.shared<128xf32, none>
  %ring = tgpu.alloc_ring : !tgpu.ring<3, !tgpu.shared<128x64xbf16, b128>>
  %4 = tgpu.alloc_ring at 183296 : !tgpu.ring<3, <128x64xbf16, b128>>
  %5 = tgpu.slot %ring[%i] : !tgpu.ring<3, <128x64xbf16, b128>>
  // CHECK: tgpu.alloc shared at 32768 : !tgpu.shared<128x64xbf16, b128>
  // CHECK: tgpu.alloc shared at 40960 : !tgpu.shared<128x64xbf16, b128>
  %6 = tgpu.alloc shared at 32768 : !tgpu.shared<128x64xbf16, b128>
  %7 = tgpu.alloc shared at 40960 : !tgpu.shared<128x64xbf16, b128>
  // CHECK: tgpu.slot %[[RING]][%i] : !tgpu.ring<3, <128x64xbf16, b128>> as !tgpu.shared<64x64xf16, b128>
  %as = tgpu.slot %ring[%i] : !tgpu.ring<3, <128x64xbf16, b128>> as !tgpu.shared<64x64xf16, b128>
}

// Registers, global and shared memory, cp.async.
!tile = tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
// CHECK-LABEL: tgpu.kernel @copies
tgpu.kernel @copies target "sm_80" warps 4 (%x: !view, %sum: !tile.view<[?, ?], f32>) grid(%i = 1) {
  %pad = arith.constant 1.0 : bf16
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // CHECK: %[[T:.*]] = tgpu.load %x[%i, 0, 0] : !tile.view<[?, ?, 64], bf16> -> tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
  // CHECK: tgpu.load %x[%i, %i, 3] dims [2, 0] pad %{{.*}} : bf16 in : !tile.view<[?, ?, 64], bf16> -> tensor<64x64xbf16
  %t = tgpu.load %x[%i, 0, 0] : !view -> !tile
  %u = tgpu.load %x[%i, %i, 3] dims [2, 0] pad %pad : bf16 in : !view -> !tile
  // CHECK: tgpu.store %[[T]], %x[0, %i, 0] : tensor<64x64xbf16, {{.*}}>, !tile.view<[?, ?, 64], bf16>
  // CHECK: tgpu.store %[[T]], %x[0, %i, 0] dims [1, 0] :
  tgpu.store %t, %x[0, %i, 0] : !tile, !view
  tgpu.store %t, %x[0, %i, 0] dims [1, 0] : !tile, !view
  // CHECK: tgpu.write %[[T]], %[[S:.*]] : tensor<64x64xbf16, {{.*}}>, !tgpu.shared<64x64xbf16, b128>
  // CHECK: tgpu.write %[[T]], %[[S]] transpose :
  tgpu.write %t, %s : !tile, !tgpu.shared<64x64xbf16, b128>
  tgpu.write %t, %s transpose : !tile, !tgpu.shared<64x64xbf16, b128>
  // CHECK: tgpu.read %[[S]] : !tgpu.shared<64x64xbf16, b128> -> tensor<64x64xbf16, {{.*}}>
  // CHECK: tgpu.read %[[S]] transpose :
  %v = tgpu.read %s : !tgpu.shared<64x64xbf16, b128> -> !tile
  %w = tgpu.read %s transpose : !tgpu.shared<64x64xbf16, b128> -> !tile
  // CHECK: tgpu.atomic_add %{{.*}}, %sum[%i, 0] : tensor<64xf32, #tgpu.blocked<1, lanes 32, warps 1, 4>>, !tile.view<[?, ?], f32>
  %f = arith.constant 0.0 : f32
  %row = tile.full %f : tensor<64xf32, #tgpu.blocked<1, lanes 32, warps 1, 4>>
  tgpu.atomic_add %row, %sum[%i, 0] : tensor<64xf32, #tgpu.blocked<1, lanes 32, warps 1, 4>>, !tile.view<[?, ?], f32>
  // CHECK: tgpu.copy_async %x[%i, 64, 0], %[[S]] : !tile.view<[?, ?, 64], bf16>, !tgpu.shared<64x64xbf16, b128>
  // CHECK: tgpu.copy_async %x[%i, 64, 0] dims [0, 2], %[[S]] :
  // CHECK: tgpu.copy_commit
  // CHECK: tgpu.copy_wait pending 64
  tgpu.copy_async %x[%i, 64, 0], %s : !view, !tgpu.shared<64x64xbf16, b128>
  tgpu.copy_async %x[%i, 64, 0] dims [0, 2], %s : !view, !tgpu.shared<64x64xbf16, b128>
  tgpu.copy_commit
  tgpu.copy_wait pending 64
  // CHECK: tgpu.any %{{.*}} : tensor<64x64xi1, #tgpu.blocked<8, lanes 8, warps 4, 1>>
  %true = arith.constant true
  %keep = tile.full %true : tensor<64x64xi1, #tgpu.blocked<8, lanes 8, warps 4, 1>>
  %some = tgpu.any %keep : tensor<64x64xi1, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// TMA and bulk copies.
!map = !tgpu.tensor_map<1x128x64xbf16, b128>
!slot = !tgpu.shared<128x64xbf16, b128>
// CHECK-LABEL: tgpu.kernel @tma
tgpu.kernel @tma target "sm_90a" warps 4 (%x: !view, %lse: !tile.view<[?, ?], f32>) grid(%i = 1) {
  // CHECK: %[[MAP:.*]] = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x128x64xbf16, b128>
  %map = tgpu.tensor_map %x : !view -> !map
  %row_map = tgpu.tensor_map %lse : !tile.view<[?, ?], f32> -> !tgpu.tensor_map<1x128xf32, none>
  %s = tgpu.alloc : !slot
  %row = tgpu.alloc : !tgpu.shared<128xf32, none>
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // CHECK: tgpu.tma_load %[[MAP]][%i, 0, 64], %[[S:.*]], %[[FULL:.*]][%i] : !tgpu.tensor_map<1x128x64xbf16, b128>, !tgpu.shared<128x64xbf16, b128>, !tgpu.barriers<2>
  // CHECK: tgpu.tma_load %{{.*}}[%i, %i], %{{.*}}, %[[FULL]][%i] : !tgpu.tensor_map<1x128xf32, none>, !tgpu.shared<128xf32, none>, !tgpu.barriers<2>
  // CHECK: tgpu.bulk_load %lse[%i, 128], %{{.*}}, %[[FULL]][%i] : !tile.view<[?, ?], f32>, !tgpu.shared<128xf32, none>, !tgpu.barriers<2>
  // CHECK: tgpu.tma_store %[[S]], %[[MAP]][0, %i, 0] : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<1x128x64xbf16, b128>
  // CHECK: tgpu.tma_reduce_add %[[S]], %[[MAP]][0, %i, 0] : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<1x128x64xbf16, b128>
  // CHECK: tgpu.bulk_commit
  // CHECK: tgpu.bulk_wait pending 1{{$}}
  // CHECK: tgpu.bulk_wait pending 0 read
  tgpu.tma_load %map[%i, 0, 64], %s, %full[%i] : !map, !slot, !tgpu.barriers<2>
  tgpu.tma_load %row_map[%i, %i], %row, %full[%i] : !tgpu.tensor_map<1x128xf32, none>, !tgpu.shared<128xf32, none>, !tgpu.barriers<2>
  tgpu.bulk_load %lse[%i, 128], %row, %full[%i] : !tile.view<[?, ?], f32>, !tgpu.shared<128xf32, none>, !tgpu.barriers<2>
  tgpu.tma_store %s, %map[0, %i, 0] : !slot, !map
  tgpu.tma_reduce_add %s, %map[0, %i, 0] : !slot, !map
  tgpu.bulk_commit
  tgpu.bulk_wait pending 1
  tgpu.bulk_wait pending 0 read
}

// Each warpgroup for itself.
// CHECK-LABEL: tgpu.kernel @per_warpgroup
tgpu.kernel @per_warpgroup target "sm_90a" warps 8 (%x: !view) grid(%i = 1) {
  %map = tgpu.tensor_map %x : !view -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !slot
  // CHECK: %[[BARRIER:.*]] = tgpu.named_barrier warps 8 per warpgroup id 2 : index
  // CHECK: tgpu.sync on %[[BARRIER]]
  // CHECK: tgpu.tma_store %{{.*}}, %{{.*}}[0, %i, 0] per warpgroup : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<1x64x64xbf16, b128>
  %barrier = tgpu.named_barrier warps 8 per warpgroup id 2 : index
  tgpu.sync on %barrier
  tgpu.tma_store %s, %map[0, %i, 0] per warpgroup : !slot, !tgpu.tensor_map<1x64x64xbf16, b128>
}

// Parts of a packed array, whose rows are its first dimension.
!ragged = !tgpu.tensor_map<128x1x64xbf16, b128, ragged 0>
// CHECK-LABEL: tgpu.kernel @ragged
tgpu.kernel @ragged target "sm_90a" warps 4 (%x: !view, %begin: i32, %size: i32) grid(%i = 1) {
  // CHECK: %[[MAP:.*]] = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<128x1x64xbf16, b128, ragged 0>
  %map = tgpu.tensor_map %x : !view -> !ragged
  %s = tgpu.alloc : !slot
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // CHECK: tgpu.tma_load %[[MAP]][%i, 0, 0] from %begin size %size, %[[S:.*]], %{{.*}}[%i] : !tgpu.tensor_map<128x1x64xbf16, b128, ragged 0>, !tgpu.shared<128x64xbf16, b128>, !tgpu.barriers<2>
  // CHECK: tgpu.tma_store %[[S]], %[[MAP]][%i, 0, 0] from %begin size %size : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<128x1x64xbf16, b128, ragged 0>
  tgpu.tma_load %map[%i, 0, 0] from %begin size %size, %s, %full[%i] : !ragged, !slot, !tgpu.barriers<2>
  tgpu.tma_store %s, %map[%i, 0, 0] from %begin size %size : !slot, !ragged
}

// Matrix products by mma and on CUDA cores; layout conversions.
// CHECK-LABEL: tgpu.kernel @mma
tgpu.kernel @mma target "sm_80" warps 4 () grid(%i = 1) {
  %zero = arith.constant 0.0 : f32
  %c = tile.full %zero : tensor<64x64xf32, #tgpu.mma<4, 1>>
  %half = tile.cast %c : tensor<64x64xf32, #tgpu.mma<4, 1>> -> tensor<64x64xf16, #tgpu.mma<4, 1>>
  %scratch = tgpu.alloc : !tgpu.shared<64x64xf16, b128>
  %f = tgpu.alloc : !tgpu.shared<64x64xf32, none>
  // CHECK: %[[A:.*]] = tgpu.convert %{{.*}} : tensor<64x64xf16, #tgpu.mma<4, 1>> -> tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  // CHECK: %[[B:.*]] = tgpu.convert %{{.*}} through %{{.*}} : !tgpu.shared<64x64xf16, b128> in : tensor<64x64xf16, #tgpu.mma<4, 1>> -> tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  // CHECK: tgpu.mma %[[A]], %[[B]], %{{.*}} : tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
  %a = tgpu.convert %half : tensor<64x64xf16, #tgpu.mma<4, 1>> -> tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
  %b = tgpu.convert %half through %scratch : !tgpu.shared<64x64xf16, b128> in : tensor<64x64xf16, #tgpu.mma<4, 1>> -> tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
  %d = tgpu.mma %a, %b, %c : tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
  // CHECK: tgpu.mma %[[A]], %[[B]], %{{[^ ]*}} stepwise : tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
  %steps = tgpu.mma %a, %b, %c stepwise : tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
  // CHECK: tgpu.fma_dot %{{.*}}, %{{.*}}, %{{.*}} : !tgpu.shared<64x64xf32, none>, !tgpu.shared<64x64xf32, none> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
  // CHECK: tgpu.fma_dot %{{.*}}, %{{.*}} transpose_a transpose_b, %{{.*}} :
  %e = tgpu.fma_dot %f, %f, %c : !tgpu.shared<64x64xf32, none>, !tgpu.shared<64x64xf32, none> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
  %g = tgpu.fma_dot %f, %f transpose_a transpose_b, %e : !tgpu.shared<64x64xf32, none>, !tgpu.shared<64x64xf32, none> -> tensor<64x64xf32, #tgpu.mma<4, 1>>
}

// Matrix products by wgmma.
// CHECK-LABEL: tgpu.kernel @wgmma
tgpu.kernel @wgmma target "sm_90a" warps 8 () grid(%i = 1) {
  %q = tgpu.alloc : !slot
  %k = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %kt = tgpu.alloc : !tgpu.shared<64x128xbf16, b128>
  %zero = arith.constant 0.0 : bf16
  %p = tile.full %zero : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
  // CHECK: %[[ONE:.*]] = tgpu.wgmma %{{.*}}, %{{.*}} transpose_b : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
  // CHECK: %[[TWO:.*]] = tgpu.wgmma %{{.*}}, %{{.*}}, %[[ONE]] : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>, !tgpu.shared<64x64xbf16, b128>, !tgpu.pending<tensor<128x64xf32, #tgpu.wgmma<2>>> -> tensor<128x64xf32, #tgpu.wgmma<2>>
  // CHECK: tgpu.wgmma_commit
  // CHECK: tgpu.wgmma_wait pending 7{{ *$}}
  // CHECK: %[[DONE:.*]] = tgpu.wgmma_wait pending 0, %[[TWO]] : tensor<128x64xf32, #tgpu.wgmma<2>>
  // CHECK: %[[THREE:.*]] = tgpu.wgmma %{{.*}}, %{{.*}} transpose_a, %[[DONE]] : !tgpu.shared<64x128xbf16, b128>, !tgpu.shared<64x64xbf16, b128>, tensor<128x64xf32, #tgpu.wgmma<2>> -> tensor<128x64xf32, #tgpu.wgmma<2>>
  // CHECK: %[[RIGHT:.*]] = tgpu.wgmma %{{.*}}, %{{.*}} transpose_b columns 32 : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<128x32xf32, #tgpu.wgmma<2>>
  // CHECK: tgpu.wgmma_wait pending 0, %[[THREE]], %[[TWO]] : tensor<128x64xf32, #tgpu.wgmma<2>>, tensor<128x64xf32, #tgpu.wgmma<2>>
  %one = tgpu.wgmma %q, %k transpose_b : !slot, !tgpu.shared<64x64xbf16, b128> -> !acc
  %two = tgpu.wgmma %p, %k, %one : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>, !tgpu.shared<64x64xbf16, b128>, !tgpu.pending<!acc> -> !acc
  tgpu.wgmma_commit
  tgpu.wgmma_wait pending 7
  %done = tgpu.wgmma_wait pending 0, %two : !acc
  %three = tgpu.wgmma %kt, %k transpose_a, %done : !tgpu.shared<64x128xbf16, b128>, !tgpu.shared<64x64xbf16, b128>, !acc -> !acc
  %right = tgpu.wgmma %q, %k transpose_b columns 32 : !slot, !tgpu.shared<64x64xbf16, b128> -> tensor<128x32xf32, #tgpu.wgmma<2>>
  tgpu.wgmma_commit
  %last:2 = tgpu.wgmma_wait pending 0, %three, %two : !acc, !acc
  // CHECK: %[[HALF:.*]] = tgpu.wgmma_wait pending 0, %[[RIGHT]] :
  %half = tgpu.wgmma_wait pending 0, %right : tensor<128x32xf32, #tgpu.wgmma<2>>
  // CHECK: tgpu.wgmma %{{.*}}, %{{.*}} transpose_b columns 32, overwriting %[[HALF]] : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128>, tensor<128x32xf32, #tgpu.wgmma<2>> -> tensor<128x32xf32, #tgpu.wgmma<2>>
  %again = tgpu.wgmma %q, %k transpose_b columns 32, overwriting %half : !slot, !tgpu.shared<64x64xbf16, b128>, tensor<128x32xf32, #tgpu.wgmma<2>> -> tensor<128x32xf32, #tgpu.wgmma<2>>
  tgpu.wgmma_commit
  %second = tgpu.wgmma_wait pending 0, %again : tensor<128x32xf32, #tgpu.wgmma<2>>
  // CHECK: tgpu.join_columns %{{.*}}, %{{.*}} : tensor<128x32xf32, #tgpu.wgmma<2>>, tensor<128x64xf32, #tgpu.wgmma<2>> -> tensor<128x96xf32, #tgpu.wgmma<2>>
  %joined = tgpu.join_columns %second, %done : tensor<128x32xf32, #tgpu.wgmma<2>>, !acc -> tensor<128x96xf32, #tgpu.wgmma<2>>
}
