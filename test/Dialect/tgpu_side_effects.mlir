// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory effects of tgpu operations, as seen by canonicalize, cse and loop-invariant-code-motion.
// RUN: tilewright-opt %s --canonicalize --cse --loop-invariant-code-motion | FileCheck %s

!acc = tensor<64x64xf16, #tgpu.mma<4, 1>>
!b = tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
!a = tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!buffer = !tgpu.shared<64x64xf16, b128>
!view = !tile.view<[?, ?], f16>

// A conversion in registers has no effects. A conversion through scratch memory writes it: the conversion remains and
// is not merged with another, and reads of the memory before and after it differ.
// CHECK-LABEL: tgpu.kernel @convert
tgpu.kernel @convert target "sm_80" warps 4 (%x: !view) grid(%i = 1) {
  // CHECK: %[[SCRATCH:.*]] = tgpu.alloc : !tgpu.shared<64x64xf16, b128>
  %scratch = tgpu.alloc : !buffer
  // CHECK-NEXT: %[[BEFORE:.*]] = tgpu.read %[[SCRATCH]]
  // CHECK-NEXT: tgpu.convert %[[BEFORE]] through %[[SCRATCH]]
  // CHECK-NEXT: tgpu.convert %[[BEFORE]] through %[[SCRATCH]]
  // CHECK-NEXT: %[[AFTER:.*]] = tgpu.read %[[SCRATCH]]
  // CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[BEFORE]], %[[AFTER]]
  // CHECK-NEXT: tgpu.store %[[SUM]]
  // CHECK-NEXT: }
  %before = tgpu.read %scratch : !buffer -> !acc
  %unused = tgpu.convert %before : !acc -> !a
  %first = tgpu.convert %before through %scratch : !buffer in : !acc -> !b
  %second = tgpu.convert %before through %scratch : !buffer in : !acc -> !b
  %after = tgpu.read %scratch : !buffer -> !acc
  %sum = arith.addf %before, %after : !acc
  tgpu.store %sum, %x[%i, 0] : !acc, !view
}

// Reads are merged unless something writes, or threads wait, between them. An unused read is removed.
// CHECK-LABEL: tgpu.kernel @reads
tgpu.kernel @reads target "sm_80" warps 4 (%x: !view) grid(%i = 1) {
  // CHECK: %[[BUFFER:.*]] = tgpu.alloc
  // CHECK-NEXT: %[[FIRST:.*]] = tgpu.read %[[BUFFER]]
  // CHECK-NEXT: tgpu.sync
  // CHECK-NEXT: %[[THIRD:.*]] = tgpu.read %[[BUFFER]]
  // CHECK-NEXT: %[[LOADED:.*]] = tgpu.load
  // CHECK-NEXT: tgpu.store %[[FIRST]]
  // CHECK-NEXT: tgpu.store %[[FIRST]]
  // CHECK-NEXT: tgpu.store %[[THIRD]]
  // CHECK-NEXT: tgpu.store %[[LOADED]]
  // CHECK-NEXT: }
  %buffer = tgpu.alloc : !buffer
  %first = tgpu.read %buffer : !buffer -> !acc
  %second = tgpu.read %buffer : !buffer -> !acc
  tgpu.sync
  %third = tgpu.read %buffer : !buffer -> !acc
  %unused = tgpu.read %buffer transpose : !buffer -> !acc
  %loaded = tgpu.load %x[%i, 0] : !view -> !acc
  %unloaded = tgpu.load %x[%i, 64] : !view -> !acc
  tgpu.store %first, %x[%i, 0] : !acc, !view
  tgpu.store %second, %x[%i, 64] : !acc, !view
  tgpu.store %third, %x[%i, 128] : !acc, !view
  tgpu.store %loaded, %x[%i, 192] : !acc, !view
}

// A loop-invariant conversion in registers leaves the loop; one through scratch memory remains.
// CHECK-LABEL: tgpu.kernel @loop
tgpu.kernel @loop target "sm_80" warps 4 (%x: !view, %n: i32) grid(%i = 1) {
  // CHECK: %[[SCRATCH:.*]] = tgpu.alloc
  // CHECK: tgpu.convert %{{.*}} : tensor
  // CHECK: scf.for
  // CHECK-NOT: tgpu.convert %{{.*}} : tensor
  // CHECK: tgpu.convert %{{.*}} through %[[SCRATCH]]
  // CHECK: tgpu.mma
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %scratch = tgpu.alloc : !buffer
  %tile = tgpu.load %x[%i, 0] : !view -> !acc
  %none = tile.full %zero : tensor<64x64xf32, #tgpu.mma<4, 1>>
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %none) -> (tensor<64x64xf32, #tgpu.mma<4, 1>>) : i32 {
    %a = tgpu.convert %tile : !acc -> !a
    %b = tgpu.convert %tile through %scratch : !buffer in : !acc -> !b
    %new = tgpu.mma %a, %b, %sum : !a, !b -> tensor<64x64xf32, #tgpu.mma<4, 1>>
    scf.yield %new : tensor<64x64xf32, #tgpu.mma<4, 1>>
  }
  %half = tile.cast %r : tensor<64x64xf32, #tgpu.mma<4, 1>> -> !acc
  tgpu.store %half, %x[%i, 0] : !acc, !view
}
