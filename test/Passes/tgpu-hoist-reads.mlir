// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-hoist-reads | FileCheck %s

!tile = !tgpu.shared<64x64xf16, b128>
!half = tensor<64x64xf16, #tgpu.mma<4, 1>>
!opa = tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!opb = tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>

// A marked read moves before the loop and loses its mark; other operations remain. Copies of a body share one read. A
// different kind of read of the buffer is a separate read, also if the type is the same.
// CHECK-LABEL: tgpu.kernel @copies
// CHECK:         %[[Q:.*]] = tgpu.alloc
// CHECK:         tgpu.sync
// CHECK-NEXT:    %[[PLAIN:.*]] = tgpu.read %[[Q]] : {{.*}} -> tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
// CHECK-NEXT:    %[[TURNED:.*]] = tgpu.read %[[Q]] transpose : {{.*}} -> tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
// CHECK-NEXT:    %[[LEFT:.*]] = tgpu.read %[[Q]] : {{.*}} -> tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
// CHECK-NEXT:    scf.for
// CHECK:           scf.if
// CHECK-NEXT:        %[[STAYS:.*]] = tgpu.read %[[Q]] : {{.*}} -> tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
// CHECK-NEXT:        tgpu.mma %[[STAYS]], %[[PLAIN]],
// CHECK-NEXT:      else
// CHECK-NEXT:        tgpu.mma %[[LEFT]], %[[TURNED]],
// CHECK-NEXT:        tgpu.mma %[[LEFT]], %[[PLAIN]],
// CHECK-NOT:     tgpu.keep_in_registers
tgpu.kernel @copies target "sm_80" warps 4 (%x: !tile.view<[?, 64], f16>, %n: i32, %m: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : tensor<64x64xf32, #tgpu.mma<4, 1>>
  %q = tgpu.alloc : !tile
  tgpu.copy_async %x[0, 0], %q : !tile.view<[?, 64], f16>, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  scf.for %i = %c0 to %n step %c1 : i32 {
    %full = arith.cmpi slt, %i, %m : i32
    scf.if %full {
      %0 = tgpu.read %q : !tile -> !opa
      %1 = tgpu.read %q {tgpu.keep_in_registers} : !tile -> !opb
      %2 = tgpu.mma %0, %1, %zeros : !opa, !opb -> tensor<64x64xf32, #tgpu.mma<4, 1>>
    } else {
      %0 = tgpu.read %q transpose {tgpu.keep_in_registers} : !tile -> !opb
      %1 = tgpu.read %q {tgpu.keep_in_registers} : !tile -> !opa
      %2 = tgpu.mma %1, %0, %zeros : !opa, !opb -> tensor<64x64xf32, #tgpu.mma<4, 1>>
      %3 = tgpu.read %q {tgpu.keep_in_registers} : !tile -> !opb
      %4 = tgpu.mma %1, %3, %zeros : !opa, !opb -> tensor<64x64xf32, #tgpu.mma<4, 1>>
    }
  }
}

// Reads leave all loops that do not write the buffer: if the outer loop writes it, only the inner one.
// CHECK-LABEL: tgpu.kernel @nested
// CHECK-DAG:     %[[ONCE:.*]] = tgpu.alloc : !tgpu.shared<64x64xf16, b128>
// CHECK-DAG:     %[[EACH:.*]] = tgpu.alloc : !tgpu.shared<64x64xf16, none>
// CHECK:         tgpu.read %[[ONCE]] :
// CHECK-NEXT:    scf.for
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.copy_async
// CHECK:           tgpu.sync
// CHECK-NEXT:      tgpu.read %[[EACH]] :
// CHECK-NEXT:      scf.for
// CHECK-NOT:         tgpu.read
tgpu.kernel @nested target "sm_80" warps 4 (%x: !tile.view<[?, 64], f16>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %once = tgpu.alloc : !tile
  %each = tgpu.alloc : !tgpu.shared<64x64xf16, none>
  tgpu.copy_async %x[0, 0], %once : !tile.view<[?, 64], f16>, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  scf.for %i = %c0 to %n step %c1 : i32 {
    tgpu.sync
    tgpu.copy_async %x[%i, 0], %each : !tile.view<[?, 64], f16>, !tgpu.shared<64x64xf16, none>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    scf.for %j = %c0 to %n step %c1 : i32 {
      %0 = tgpu.read %once {tgpu.keep_in_registers} : !tile -> !half
      %1 = tgpu.read %each {tgpu.keep_in_registers} : !tgpu.shared<64x64xf16, none> -> !half
    }
  }
}

// A mark that an author set is ignored if the loop writes the buffer: the value would be outdated.
// CHECK-LABEL: tgpu.kernel @written
// CHECK:         scf.for
// CHECK-NEXT:      tgpu.write
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.read %{{.*}} : !tgpu.shared
tgpu.kernel @written target "sm_80" warps 4 (%n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  %ones = arith.constant dense<1.0> : !half
  scf.for %i = %c0 to %n step %c1 : i32 {
    tgpu.write %ones, %buffer : !half, !tile
    tgpu.sync
    %0 = tgpu.read %buffer {tgpu.keep_in_registers} : !tile -> !half
    tgpu.sync
  }
}
