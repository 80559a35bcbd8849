// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-step-products | FileCheck %s

!x = !tgpu.shared<128x64xbf16, b128>
!y = !tgpu.shared<64x128xbf16, b128>
!z = !tgpu.shared<64x64xbf16, b128>
!view = !tile.view<[?, ?], f32>
!wide = tensor<128x128xf32, #tgpu.mma<4, 1>>
!narrow = tensor<128x64xf32, #tgpu.mma<4, 1>>
!opx = tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!opy = tensor<64x128xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
!opz = tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>

// A wide sum takes 128 registers of a thread, a narrow one 64. Zeros, and operands that a product
// loads itself, take none.
//
// The products are considered one by one, unless far too few registers are available at one of them.
// CHECK-LABEL: tgpu.kernel @apart
// CHECK:         tgpu.mma %{{.*}}, %{{.*}}, %{{[^ ]*}} stepwise :
// CHECK:         tgpu.mma %{{.*}}, %{{.*}}, %{{[^ ]*}} :
tgpu.kernel @apart target "sm_80" warps 4 (%s: !view) grid(%i = 1) {
  %x = tgpu.alloc : !x
  %y = tgpu.alloc : !y
  %z = tgpu.alloc : !z
  %zero = arith.constant 0.0 : f32
  %wide = tile.full %zero : !wide
  %narrow = tile.full %zero : !narrow
  %a = tgpu.read %x : !x -> !opx
  %b = tgpu.read %y : !y -> !opy
  %sum = tgpu.mma %a, %b, %wide : !opx, !opy -> !wide
  tgpu.store %sum, %s[0, 0] : !wide, !view
  %c = tgpu.read %x : !x -> !opx
  %d = tgpu.read %z : !z -> !opz
  %other = tgpu.mma %c, %d, %narrow : !opx, !opz -> !narrow
  tgpu.store %other, %s[0, 0] : !narrow, !view
}

// An operand of 32 registers that is kept across the loop makes 160 at the first product: both are stepwise.
// CHECK-LABEL: tgpu.kernel @kept
// CHECK:         tgpu.mma %{{.*}}, %{{.*}}, %{{[^ ]*}} stepwise :
// CHECK:         tgpu.mma %{{.*}}, %{{.*}}, %{{[^ ]*}} stepwise :
tgpu.kernel @kept target "sm_80" warps 4 (%s: !view, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = tgpu.alloc : !x
  %y = tgpu.alloc : !y
  %z = tgpu.alloc : !z
  %zero = arith.constant 0.0 : f32
  %wide = tile.full %zero : !wide
  %narrow = tile.full %zero : !narrow
  %a = tgpu.read %x : !x -> !opx
  scf.for %k = %c0 to %n step %c1 : i32 {
    %b = tgpu.read %y : !y -> !opy
    %sum = tgpu.mma %a, %b, %wide : !opx, !opy -> !wide
    tgpu.store %sum, %s[0, 0] : !wide, !view
    %d = tgpu.read %z : !z -> !opz
    %other = tgpu.mma %a, %d, %narrow : !opx, !opz -> !narrow
    tgpu.store %other, %s[0, 0] : !narrow, !view
  }
}

// A single product in a body does not change, regardless of the registers of other tiles.
// CHECK-LABEL: tgpu.kernel @alone
// CHECK:         tgpu.mma %{{.*}}, %{{.*}}, %{{[^ ]*}} :
tgpu.kernel @alone target "sm_80" warps 4 (%s: !view) grid(%i = 1) {
  %x = tgpu.alloc : !x
  %y = tgpu.alloc : !y
  %zero = arith.constant 0.0 : f32
  %wide = tile.full %zero : !wide
  %more = tgpu.load %s[0, 0] : !view -> !narrow
  %a = tgpu.read %x : !x -> !opx
  %b = tgpu.read %y : !y -> !opy
  %sum = tgpu.mma %a, %b, %wide : !opx, !opy -> !wide
  tgpu.store %sum, %s[0, 0] : !wide, !view
  tgpu.store %more, %s[0, 0] : !narrow, !view
}

// Values that are live only between products, here 192 registers, do not count.
// CHECK-LABEL: tgpu.kernel @between
// CHECK:         tgpu.mma %{{.*}}, %{{.*}}, %{{[^ ]*}} :
// CHECK:         tgpu.mma %{{.*}}, %{{.*}}, %{{[^ ]*}} :
tgpu.kernel @between target "sm_80" warps 4 (%s: !view) grid(%i = 1) {
  %x = tgpu.alloc : !x
  %z = tgpu.alloc : !z
  %zero = arith.constant 0.0 : f32
  %narrow = tile.full %zero : !narrow
  %a = tgpu.read %x : !x -> !opx
  %b = tgpu.read %z : !z -> !opz
  %sum = tgpu.mma %a, %b, %narrow : !opx, !opz -> !narrow
  %more = tgpu.load %s[0, 0] : !view -> !narrow
  %rest = tgpu.load %s[1, 0] : !view -> !narrow
  %two = arith.addf %sum, %more : !narrow
  %three = arith.mulf %two, %rest : !narrow
  tgpu.store %three, %s[0, 0] : !narrow, !view
  %c = tgpu.read %x : !x -> !opx
  %d = tgpu.read %z : !z -> !opz
  %other = tgpu.mma %c, %d, %narrow : !opx, !opz -> !narrow
  tgpu.store %other, %s[0, 0] : !narrow, !view
}

// Operands that all warps of a column of the grid hold are not divided among them: 64 registers for b and 64 for the
// sum. Tiles of indices count as well.
// CHECK-LABEL: tgpu.kernel @shared_by_warps
// CHECK:         tgpu.mma %{{.*}}, %{{.*}}, %{{[^ ]*}} stepwise :
tgpu.kernel @shared_by_warps target "sm_80" warps 4 (%s: !view, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = tgpu.alloc : !x
  %z = tgpu.alloc : !z
  %zero = arith.constant 0.0 : f32
  %narrow = tile.full %zero : !narrow
  %positions = tile.iota %c0 dim 0 : tensor<128x64xi32, #tgpu.mma<4, 1>>
  %indices = arith.index_cast %positions : tensor<128x64xi32, #tgpu.mma<4, 1>> to tensor<128x64xindex, #tgpu.mma<4, 1>>
  %b = tgpu.read %z : !z -> !opz
  scf.for %k = %c0 to %n step %c1 : i32 {
    %a = tgpu.read %x : !x -> !opx
    %sum = tgpu.mma %a, %b, %narrow : !opx, !opz -> !narrow
    tgpu.store %sum, %s[0, 0] : !narrow, !view
    %c = tgpu.read %x : !x -> !opx
    %other = tgpu.mma %c, %b, %narrow : !opx, !opz -> !narrow
    tgpu.store %other, %s[0, 0] : !narrow, !view
  }
}
