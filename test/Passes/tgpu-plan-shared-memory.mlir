// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Offsets satisfy the alignment of each swizzle; the sum is within the limit of the target.
// RUN: tilewright-opt %s --tgpu-plan-shared-memory -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: tgpu.kernel @places
// CHECK:         attributes {shared_bytes = 15144 : i64}
// CHECK:         tgpu.alloc at 14336 : !tgpu.shared<200xf32, none>
// CHECK:         tgpu.alloc at 0 : !tgpu.shared<16x64xf16, b128>
// CHECK:         tgpu.alloc_ring at 2048 : !tgpu.ring<3, <32x64xf16, b128>>
// CHECK:         tgpu.alloc_barriers arrivals 1 at 15136 : !tgpu.barriers<1>
tgpu.kernel @places target "sm_80" warps 4 (%x: !tile.view<[?], f32>) grid(%b = 1) {
  %row = tgpu.alloc : !tgpu.shared<200xf32, none>
  %tile = tgpu.alloc : !tgpu.shared<16x64xf16, b128>
  %ring = tgpu.alloc_ring : !tgpu.ring<3, <32x64xf16, b128>>
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
}

// -----

// expected-error @+1 {{needs 196608 bytes of shared memory, but the limit of sm_80 is 166912; use smaller blocks}}
tgpu.kernel @too_large target "sm_80" warps 4 (%x: !tile.view<[?], f32>) grid(%b = 1) {
  %x0 = tgpu.alloc : !tgpu.shared<256x128xf32, b128>
  %x1 = tgpu.alloc : !tgpu.shared<128x128xf32, b128>
}

// -----

// The same fits into the larger memory of sm_90a.
// CHECK-LABEL: tgpu.kernel @larger
// CHECK:         attributes {shared_bytes = 196608 : i64}
tgpu.kernel @larger target "sm_90a" warps 4 (%x: !tile.view<[?], f32>) grid(%b = 1) {
  %x0 = tgpu.alloc : !tgpu.shared<256x128xf32, b128>
  %x1 = tgpu.alloc : !tgpu.shared<128x128xf32, b128>
}

// -----

#tile = #tgpu.blocked<4, lanes 8, warps 4, 1>

// Buffers of 96 KB with disjoint lifetimes share their bytes. A barrier must separate the reads of the first from the
// writes of the second. The loop has one; in the direction from the second to the first, another is inserted.
// CHECK-LABEL: tgpu.kernel @shares
// CHECK:         attributes {shared_bytes = 98816 : i64}
// CHECK-DAG:     %[[KEPT:.+]] = tgpu.alloc at 98304 : !tgpu.shared<128xf32, none>
// CHECK-DAG:     %[[FIRST:.+]] = tgpu.alloc shared at 0 : !tgpu.shared<192x128xf32, b128>
// CHECK-DAG:     %[[SECOND:.+]] = tgpu.alloc shared at 0 : !tgpu.shared<192x128xf32, b128>
// CHECK:         scf.for
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.write %{{.+}}, %[[FIRST]]
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.read %[[FIRST]]
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.write %{{.+}}, %[[SECOND]]
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.read %[[SECOND]]
tgpu.kernel @shares target "sm_80" warps 4 (%x: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %first = tgpu.alloc : !tgpu.shared<192x128xf32, b128>
  %second = tgpu.alloc : !tgpu.shared<192x128xf32, b128>
  %kept = tgpu.alloc : !tgpu.shared<128xf32, none>
  %row = arith.constant dense<1.0> : tensor<128xf32, #tgpu.blocked<1, lanes 32, warps 1, 4>>
  tgpu.write %row, %kept : tensor<128xf32, #tgpu.blocked<1, lanes 32, warps 1, 4>>, !tgpu.shared<128xf32, none>
  tgpu.sync
  %init = arith.constant dense<0.0> : tensor<192x128xf32, #tile>
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%t = %init) -> (tensor<192x128xf32, #tile>) : i32 {
    tgpu.write %t, %first : tensor<192x128xf32, #tile>, !tgpu.shared<192x128xf32, b128>
    tgpu.sync
    %u = tgpu.read %first : !tgpu.shared<192x128xf32, b128> -> tensor<192x128xf32, #tile>
    tgpu.write %u, %second : tensor<192x128xf32, #tile>, !tgpu.shared<192x128xf32, b128>
    tgpu.sync
    %v = tgpu.read %second : !tgpu.shared<192x128xf32, b128> -> tensor<192x128xf32, #tile>
    %w = tgpu.read %kept : !tgpu.shared<128xf32, none> -> tensor<128xf32, #tgpu.slice<0, #tile>>
    scf.yield %v : tensor<192x128xf32, #tile>
  }
  tgpu.store %end, %x[0, 0] : tensor<192x128xf32, #tile>, !tile.view<[?, ?], f32>
}

// -----

#tile = #tgpu.blocked<4, lanes 8, warps 4, 1>

// A buffer that is written before a loop and read in it is live during the whole loop.
// expected-error @+1 {{needs 196608 bytes of shared memory, but the limit of sm_80 is 166912}}
tgpu.kernel @lives_on target "sm_80" warps 4 (%x: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %first = tgpu.alloc : !tgpu.shared<192x128xf32, b128>
  %second = tgpu.alloc : !tgpu.shared<192x128xf32, b128>
  %init = arith.constant dense<0.0> : tensor<192x128xf32, #tile>
  tgpu.write %init, %first : tensor<192x128xf32, #tile>, !tgpu.shared<192x128xf32, b128>
  tgpu.sync
  scf.for %i = %c0 to %n step %c1 : i32 {
    %u = tgpu.read %first : !tgpu.shared<192x128xf32, b128> -> tensor<192x128xf32, #tile>
    tgpu.sync
    tgpu.write %u, %second : tensor<192x128xf32, #tile>, !tgpu.shared<192x128xf32, b128>
    tgpu.sync
    %v = tgpu.read %second : !tgpu.shared<192x128xf32, b128> -> tensor<192x128xf32, #tile>
    tgpu.store %v, %x[0, 0] : tensor<192x128xf32, #tile>, !tile.view<[?, ?], f32>
  }
}
