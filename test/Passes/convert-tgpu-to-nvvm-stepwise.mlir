// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stepwise product: the operands of the first step are loaded first, those of the next step before the instructions
// of each step. Events prevent ptxas from moving code between steps.
//
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s

#acc = #tgpu.mma<4, 1>
#opa = #tgpu.operand<a, #acc>
#opb = #tgpu.operand<b, #acc>
#b = #tgpu.blocked<8, lanes 4, warps 4, 1>

// Two steps of two atoms along k by four along n: 2 ldmatrix of four tiles for a, 4 for b.
// CHECK-LABEL: .entry steps(
// CHECK-COUNT-6: ldmatrix.sync.aligned.m8n8.x4
// CHECK-NOT:     {{ldmatrix|mma.sync}}
// CHECK:         pmevent.mask
// CHECK-COUNT-6: ldmatrix.sync.aligned.m8n8.x4
// CHECK-COUNT-8: mma.sync
// CHECK-NOT:     {{ldmatrix|mma.sync}}
// CHECK:         pmevent.mask
// CHECK-NOT:     ldmatrix
// CHECK-COUNT-8: mma.sync
// CHECK-NOT:     {{ldmatrix|mma.sync|pmevent}}
tgpu.kernel @steps target "sm_80" warps 4 (%s: !tile.view<[?, ?], f32>) grid(%i = 1) {
  %x = tgpu.alloc at 0 : !tgpu.shared<64x64xbf16, b128>
  %y = tgpu.alloc at 8192 : !tgpu.shared<64x32xbf16, b64>
  %half = arith.constant 0.5 : bf16
  %left = tile.full %half : tensor<64x64xbf16, #b>
  %right = tile.full %half : tensor<64x32xbf16, #b>
  tgpu.write %left, %x : tensor<64x64xbf16, #b>, !tgpu.shared<64x64xbf16, b128>
  tgpu.write %right, %y : tensor<64x32xbf16, #b>, !tgpu.shared<64x32xbf16, b64>
  tgpu.sync
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : tensor<64x32xf32, #acc>
  %a = tgpu.read %x : !tgpu.shared<64x64xbf16, b128> -> tensor<64x64xbf16, #opa>
  %b = tgpu.read %y : !tgpu.shared<64x32xbf16, b64> -> tensor<64x32xbf16, #opb>
  %c = tgpu.mma %a, %b, %zeros stepwise : tensor<64x64xbf16, #opa>, tensor<64x32xbf16, #opb> -> tensor<64x32xf32, #acc>
  tgpu.store %c, %s[0, 0] : tensor<64x32xf32, #acc>, !tile.view<[?, ?], f32>
}

// An operand in registers is not loaded; a product of one atom has one step.
// CHECK-LABEL: .entry one_atom(
// CHECK:         ldmatrix
// CHECK-NOT:     {{ldmatrix|mma.sync}}
// CHECK:         pmevent.mask
// CHECK-NOT:     {{ldmatrix|pmevent}}
// CHECK:         mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK-NOT:     {{ldmatrix|mma.sync|pmevent}}
tgpu.kernel @one_atom target "sm_80" warps 4 (%s: !tile.view<[?, ?], f32>) grid(%i = 1) {
  %y = tgpu.alloc at 0 : !tgpu.shared<16x8xf16, none>
  %half = arith.constant 0.5 : f16
  %left = tile.full %half : tensor<64x16xf16, #opa>
  %right = tile.full %half : tensor<16x8xf16, #tgpu.blocked<1, lanes 8, warps 4, 1>>
  tgpu.write %right, %y : tensor<16x8xf16, #tgpu.blocked<1, lanes 8, warps 4, 1>>, !tgpu.shared<16x8xf16, none>
  tgpu.sync
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : tensor<64x8xf32, #acc>
  %b = tgpu.read %y : !tgpu.shared<16x8xf16, none> -> tensor<16x8xf16, #opb>
  %c = tgpu.mma %left, %b, %zeros stepwise : tensor<64x16xf16, #opa>, tensor<16x8xf16, #opb> -> tensor<64x8xf32, #acc>
  tgpu.store %c, %s[0, 0] : tensor<64x8xf32, #acc>, !tile.view<[?, ?], f32>
}
