// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types and layouts of tgpu: printing gives the parsed text.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @types(
// CHECK-SAME: !tgpu.shared<128x64xbf16, b128>, %{{.*}}: !tgpu.shared<64x96xbf16, b64>, %{{.*}}: !tgpu.shared<8x16xbf16, b32>
// CHECK-SAME: !tgpu.shared<100xf32, none>, %{{.*}}: !tgpu.shared<3x5xi1, none>, %{{.*}}: !tgpu.shared<4x4xf64, none>
// CHECK-SAME: !tgpu.ring<3, <128x64xbf16, b128>>, %{{.*}}: !tgpu.ring<32, <128xf32, none>>
// CHECK-SAME: !tgpu.barriers<1>, %{{.*}}: !tgpu.barriers<32>
// CHECK-SAME: !tgpu.pending<tensor<128x64xf32, #tgpu.wgmma<2>>>
// CHECK-SAME: !tgpu.tensor_map<1x1x128x64xbf16, b128>, %{{.*}}: !tgpu.tensor_map<256xf8E4M3FN, none>
func.func @types(%0: !tgpu.shared<128x64xbf16, b128>, %1: !tgpu.shared<64x96xbf16, b64>, %2: !tgpu.shared<8x16xbf16, b32>,
    %3: !tgpu.shared<100xf32, none>, %4: !tgpu.shared<3x5xi1, none>, %5: !tgpu.shared<4x4xf64, none>,
    %6: !tgpu.ring<3, !tgpu.shared<128x64xbf16, b128>>, %7: !tgpu.ring<32, <128xf32, none>>,
    %8: !tgpu.barriers<1>, %9: !tgpu.barriers<32>, %10: !tgpu.pending<tensor<128x64xf32, #tgpu.wgmma<2>>>,
    %11: !tgpu.tensor_map<1x1x128x64xbf16, b128>, %12: !tgpu.tensor_map<256xf8E4M3FN, none>) {
  return
}

// CHECK-LABEL: func.func @layouts(
// CHECK-SAME: tensor<64x16xf32, #tgpu.mma<4, 2>>
// CHECK-SAME: tensor<128x8xf32, #tgpu.wgmma<2>>
// CHECK-SAME: tensor<64x16xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
// CHECK-SAME: tensor<16x8xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
// CHECK-SAME: tensor<64x32xf8E5M2, #tgpu.operand<a, #tgpu.wgmma<1>>>
// CHECK-SAME: tensor<64xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
// CHECK-SAME: tensor<8xi1, #tgpu.slice<0, #tgpu.wgmma<1>>>
// CHECK-SAME: tensor<16xbf16, #tgpu.slice<0, #tgpu.operand<a, #tgpu.mma<4, 1>>>>
// CHECK-SAME: tensor<7x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
// CHECK-SAME: tensor<12xf64, #tgpu.blocked<2, lanes 32, warps 1, 4>>
func.func @layouts(%0: tensor<64x16xf32, #tgpu.mma<4, 2>>, %1: tensor<128x8xf32, #tgpu.wgmma<2>>,
    %2: tensor<64x16xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>, %3: tensor<16x8xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>,
    %4: tensor<64x32xf8E5M2, #tgpu.operand<a, #tgpu.wgmma<1>>>, %5: tensor<64xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>,
    %6: tensor<8xi1, #tgpu.slice<0, #tgpu.wgmma<1>>>, %7: tensor<16xbf16, #tgpu.slice<0, #tgpu.operand<a, #tgpu.mma<4, 1>>>>,
    %8: tensor<7x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>, %9: tensor<12xf64, #tgpu.blocked<2, lanes 32, warps 1, 4>>) {
  return
}
