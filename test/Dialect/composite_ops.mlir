// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s

// The types of results may be left out.
// CHECK-LABEL: func.func @extrema(
// CHECK-NEXT: tile.argmax %{{.*}} dim 1 : !tile.tile<[M, N], T> -> !tile.tile<[M], T>, !tile.tile<[M], i32>
// CHECK-NEXT: tile.argmin %{{.*}} dim 0 : tensor<4x8xf32> -> tensor<8xf32>, tensor<8xi32>
// CHECK-NEXT: tile.argmax %{{.*}} dim 1 : tensor<4x8xf32> -> tensor<4xf32>, tensor<4xi32>
// CHECK-NEXT: tile.argmin %{{.*}} dim 0 : tensor<4x8xf32> -> tensor<8xf32>, tensor<8xi32>
func.func @extrema(%x: !tile.tile<[M, N], T>, %y: tensor<4x8xf32>) {
  %0, %1 = tile.argmax %x dim 1 : !tile.tile<[M, N], T>
  %2, %3 = tile.argmin %y dim 0 : tensor<4x8xf32>
  %4, %5 = tile.argmax %y dim 1 : tensor<4x8xf32> -> tensor<4xf32>
  %6, %7 = tile.argmin %y dim 0 : tensor<4x8xf32> -> tensor<8xf32>, tensor<8xi32>
  return
}

// CHECK-LABEL: func.func @largest(
// CHECK-NEXT: tile.top_k %{{.*}} dim 1 : !tile.tile<[M, N], T> -> !tile.tile<[M, K], T>
// CHECK-NEXT: tile.top_k %{{.*}} dim 0 smallest : tensor<8xi32> -> tensor<2xi32>
// CHECK-NEXT: return %{{.*}} : !tile.tile<[M, K], i32>
func.func @largest(%x: !tile.tile<[M, N], T>, %y: tensor<8xi32>) -> !tile.tile<[M, K], i32> {
  %0, %1 = tile.top_k %x dim 1 : !tile.tile<[M, N], T> -> !tile.tile<[M, K], T>
  %2, %3 = tile.top_k %y dim 0 smallest : tensor<8xi32> -> tensor<2xi32>
  return %1 : !tile.tile<[M, K], i32>
}

// CHECK-LABEL: func.func @joined(
// CHECK-NEXT: tile.concat %{{.*}}, %{{.*}} dim 1 : !tile.tile<[M, A], T>, !tile.tile<[M, B], T> -> !tile.tile<[M, N], T>
// CHECK-NEXT: tile.concat %{{.*}}, %{{.*}}, %{{.*}} dim 0 : tensor<1x8xi1>, tensor<2x8xi1>, tensor<1x8xi1> -> tensor<4x8xi1>
// CHECK-NEXT: tile.insert %{{.*}} into %{{.*}} dim 1 from %{{.*}} : !tile.tile<[M, A], T> -> !tile.tile<[M, B], T>
func.func @joined(%a: !tile.tile<[M, A], T>, %b: !tile.tile<[M, B], T>, %c: tensor<1x8xi1>, %d: tensor<2x8xi1>,
                  %i: i32) {
  %0 = tile.concat %a, %b dim 1 : !tile.tile<[M, A], T>, !tile.tile<[M, B], T> -> !tile.tile<[M, N], T>
  %1 = tile.concat %c, %d, %c dim 0 : tensor<1x8xi1>, tensor<2x8xi1>, tensor<1x8xi1> -> tensor<4x8xi1>
  %2 = tile.insert %a into %b dim 1 from %i : !tile.tile<[M, A], T> -> !tile.tile<[M, B], T>
  return
}

func.func private @two() -> (i32, i32)

// CHECK-LABEL: func.func @debug(
// CHECK-NEXT: tile.print "here"{{$}}
// CHECK-NEXT: call @two
// CHECK-NEXT: tile.print "x" %{{.*}}, %{{.*}} : !tile.tile<[M], T>, i32
// CHECK-NEXT: tile.assert %{{.*}}, "not empty" : i1
// CHECK-NEXT: tile.assert %{{.*}}, "all" : tensor<4xi1>
// CHECK-NEXT: tile.print "some" %{{.*}} limit 8 : !tile.tile<[M], T>
// CHECK-NEXT: tile.assert %{{.*}}, "there" at(%{{.*}}, %{{.*}}) {instance = ["i", "j"], place = "f.mlir:3"} : i1
func.func @debug(%x: !tile.tile<[M], T>, %i: i32, %flag: i1, %flags: tensor<4xi1>) {
  tile.print "here"
  %c1, %unused = func.call @two() : () -> (i32, i32)
  tile.print "x" %x, %i : !tile.tile<[M], T>, i32
  tile.assert %flag, "not empty" : i1
  tile.assert %flags, "all" : tensor<4xi1>
  tile.print "some" %x limit 8 : !tile.tile<[M], T>
  tile.assert %flag, "there" at(%i, %i) {instance = ["i", "j"], place = "f.mlir:3"} : i1
  return
}
