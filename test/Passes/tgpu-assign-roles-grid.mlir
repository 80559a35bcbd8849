// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks that process several tiles compute the extents of the grid, and numbers of tiles, in 32 bits. The kernel gets
// constraints that make 32 bits sufficient, unless they follow from the grid.
//
// RUN: tilewright-opt %s --split-input-file --tgpu-assign-roles --verify-diagnostics | FileCheck %s

// CHECK-LABEL: tgpu.kernel @few
// CHECK-NOT:     require
// CHECK:         grid(%cta = min(sm_count(), 7 * ceildiv(dim(x, 0), 128)))
!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
tgpu.kernel @few target "sm_90a" warps 4 (%x: !view) grid(%a = 7, %b = ceildiv(dim(x, 0), 128))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %q = tgpu.alloc : !q
  tgpu.copy_async %x[%b, 0], %q : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<1>>
}

// -----

// A sum may exceed 32 bits if it is a factor of the number of tiles: its low 32 bits are correct, as is that number.
// CHECK-LABEL: tgpu.kernel @sum
// CHECK:         require(dim(x, 1) == 64, (ceildiv(dim(x, 0), 128) + dim(x, 1) - 1) * min(dim(x, 0), 1) <= 1073741824)
!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
tgpu.kernel @sum target "sm_90a" warps 4 require(dim(x, 1) == 64) (%x: !view)
    grid(%b = (ceildiv(dim(x, 0), 128) + dim(x, 1) - 1) * min(dim(x, 0), 1))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %q = tgpu.alloc : !q
  tgpu.copy_async %x[%b, 0], %q : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<1>>
}

// -----

// The first extent is also multiplied by the height of a group: 2^31 tiles of one row by 16.
// CHECK-LABEL: tgpu.kernel @tall
// CHECK:         require(dim(x, 0) * dim(x, 1) <= 67108864)
!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
tgpu.kernel @tall target "sm_90a" warps 4 (%x: !view) grid(%a = dim(x, 0), %b = dim(x, 1))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 16>} {
  %q = tgpu.alloc : !q
  tgpu.copy_async %x[%a, 0], %q : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<1>>
}

// -----

// A quotient, a minimum or a maximum needs operands of 32 bits.
!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
// expected-error @+1 {{cannot process several tiles in a block: its grid is not computed with +, -, *, ceildiv, min and max from extents and numbers; use the schedule group=0}}
tgpu.kernel @wide target "sm_90a" warps 4 (%x: !view) grid(%b = ceildiv(dim(x, 0) * dim(x, 1), 128))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %q = tgpu.alloc : !q
  tgpu.copy_async %x[%b, 0], %q : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<1>>
}
