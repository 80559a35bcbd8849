// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-specialize=params=T=f16 | FileCheck %s
// RUN: tilewright-opt %s --tile-specialize="params=T=f16 exact-literals" | FileCheck %s --check-prefix=EXACT

// 0.1 is rounded once, to f16; in a run in f64, it is not rounded if the type is a parameter.
// CHECK-LABEL: func.func private @scalar() -> f16
// CHECK-NEXT:    %[[S:.*]] = arith.constant 9.997550e-02 : f16
// CHECK-NEXT:    return %[[S]] : f16
// EXACT-LABEL: func.func private @scalar() -> f16
// EXACT-NEXT:    %[[S:.*]] = arith.constant 1.000000e-01 : f64
// EXACT-NEXT:    arith.truncf %[[S]] : f64 to f16
func.func private @scalar() -> !tile.param<T> {
  %0 = tile.constant 0.1 : !tile.param<T>
  return %0 : !tile.param<T>
}

// CHECK-LABEL: tile.kernel @k
// CHECK:         %[[TENTH:.*]] = arith.constant 9.997550e-02 : f16
// CHECK-NEXT:    tile.full %[[TENTH]] : tensor<8xf16>
// CHECK-NEXT:    %[[LEAST:.*]] = arith.constant 0xFC00 : f16
// CHECK-NEXT:    tile.full %[[LEAST]] : tensor<8xf16>
// CHECK-NEXT:    %[[SEVEN:.*]] = arith.constant -7 : i32
// CHECK-NEXT:    tile.full %[[SEVEN]] : tensor<8xi32>
// CHECK-NEXT:    %[[TRUE:.*]] = arith.constant true
// CHECK-NEXT:    tile.full %[[TRUE]] : tensor<8xi1>
// CHECK-NEXT:    %[[F32:.*]] = arith.constant 1.000000e-01 : f32
// CHECK-NEXT:    tile.full %[[F32]] : tensor<8xf32>
// CHECK-NOT:     tile.constant
// EXACT-LABEL: tile.kernel @k
// EXACT:         %[[E:.*]] = arith.constant 1.000000e-01 : f64
// EXACT-NEXT:    %[[T:.*]] = arith.truncf %[[E]] : f64 to f16
// EXACT-NEXT:    tile.full %[[T]] : tensor<8xf16>
// EXACT-NEXT:    %[[LEAST:.*]] = arith.constant 0xFC00 : f16
// EXACT-NEXT:    tile.full %[[LEAST]] : tensor<8xf16>
// EXACT:         %[[F32:.*]] = arith.constant 1.000000e-01 : f32
tile.kernel @k params(T: type, N: int = 8) (%x: !tile.view<[?], T>) grid(%b = 1) {
  %0 = tile.constant 0.1 : !tile.tile<[N], T>
  %1 = tile.constant minus_inf : !tile.tile<[N], T>
  %2 = tile.constant -7 : !tile.tile<[N], i32>
  %3 = tile.constant 1 : !tile.tile<[N], i1>
  %4 = tile.constant 0.1 : !tile.tile<[N], f32>
  %5 = func.call @scalar() : () -> !tile.param<T>
}
