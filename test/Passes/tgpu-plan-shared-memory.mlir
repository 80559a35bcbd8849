// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Offsets obey the alignment of each swizzle; the sum obeys the limit of the target.
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
