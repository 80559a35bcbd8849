// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A remark says that operands of 8-bit floats are converted; wider types give none.
//
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_90a warps=4" --remark-format=emitRemark --remarks-filter=tile-to-tgpu -o /dev/null 2>&1 | FileCheck %s

!view = !tile.view<[?, ?], f8E4M3FN>
!half = !tile.view<[?, ?], f16>
!sum = !tile.view<[?, ?], f32>

// The product of q and k is one of bytes.
// CHECK-NOT: remark
// CHECK: [[#@LINE+8]]:8: remark: [Missed] widened-product | Category:tile-to-tgpu | Function=tied | Reason="8-bit operands are converted to f16 in registers; wgmma takes 8-bit operands only K-major, and one is not; where speed matters, use 16-bit arrays"
// CHECK-NOT: remark
tile.kernel @tied(%q: !view, %k: !view, %v: !view, %y: !sum) grid(%i = 1) {
  %a = tile.load %q[0, 0] : !view -> tensor<64x64xf8E4M3FN>
  %b = tile.load %k[0, 0] : !view -> tensor<64x64xf8E4M3FN>
  %s = tile.dot %a, %b transpose_b : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN> -> tensor<64x64xf32>
  %p = tile.cast %s : tensor<64x64xf32> -> tensor<64x64xf8E4M3FN>
  %c = tile.load %v[0, 0] : !view -> tensor<64x64xf8E4M3FN>
  %o = tile.dot %p, %c : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN> -> tensor<64x64xf32>
  tile.store %o, %y[0, 0] : tensor<64x64xf32>, !sum
}

// A sum of more than four instructions would be too inexact.
// CHECK: [[#@LINE+4]]:8: remark: [Missed] widened-product | Category:tile-to-tgpu | Function=deep | Reason="8-bit operands are converted to f16 in registers; wgmma multiplies bytes of 64 rows or more and a depth of 32, 64, 96 or 128, without an accumulator; where speed matters, use 16-bit arrays"
tile.kernel @deep(%q: !view, %k: !view, %y: !sum) grid(%i = 1) {
  %a = tile.load %q[0, 0] : !view -> tensor<64x256xf8E4M3FN>
  %b = tile.load %k[0, 0] : !view -> tensor<64x256xf8E4M3FN>
  %s = tile.dot %a, %b transpose_b : tensor<64x256xf8E4M3FN>, tensor<64x256xf8E4M3FN> -> tensor<64x64xf32>
  tile.store %s, %y[0, 0] : tensor<64x64xf32>, !sum
}

// The accumulator alone is in the way.
// CHECK: [[#@LINE+5]]:8: remark: [Missed] widened-product | Category:tile-to-tgpu | Function=summed | Reason="8-bit operands are converted to f16 in registers; wgmma rounds sums of bytes, so it multiplies them without an accumulator; add the product to the sum, as in %sum + dot(%a, %b)"
tile.kernel @summed(%q: !view, %k: !view, %y: !sum) grid(%i = 1) {
  %a = tile.load %q[0, 0] : !view -> tensor<64x64xf8E4M3FN>
  %b = tile.load %k[0, 0] : !view -> tensor<64x64xf8E4M3FN>
  %old = tile.load %y[0, 0] : !sum -> tensor<64x64xf32>
  %s = tile.dot %a, %b, %old transpose_b : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN> -> tensor<64x64xf32>
  tile.store %s, %y[0, 0] : tensor<64x64xf32>, !sum
}

// So is the layout of an operand.
// CHECK: [[#@LINE+5]]:8: remark: [Missed] widened-product | Category:tile-to-tgpu | Function=summed_along | Reason="8-bit operands are converted to f16 in registers; wgmma takes 8-bit operands only K-major, and one is not; add the product to the sum, as in %sum + dot(%a, %b), or where speed matters, use 16-bit arrays"
tile.kernel @summed_along(%q: !view, %k: !view, %y: !sum) grid(%i = 1) {
  %a = tile.load %q[0, 0] : !view -> tensor<64x64xf8E4M3FN>
  %b = tile.load %k[0, 0] : !view -> tensor<64x64xf8E4M3FN>
  %old = tile.load %y[0, 0] : !sum -> tensor<64x64xf32>
  %s = tile.dot %a, %b, %old : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN> -> tensor<64x64xf32>
  tile.store %s, %y[0, 0] : tensor<64x64xf32>, !sum
}

// CHECK-NOT: remark
tile.kernel @wider(%q: !half, %k: !half, %y: !sum) grid(%i = 1) {
  %a = tile.load %q[0, 0] : !half -> tensor<64x64xf16>
  %b = tile.load %k[0, 0] : !half -> tensor<64x64xf16>
  %s = tile.dot %a, %b transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
  tile.store %s, %y[0, 0] : tensor<64x64xf32>, !sum
}
