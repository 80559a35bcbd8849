// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types of the dialect, in both forms.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s

// Dimensions are integers or names, elements are builtin types or names.
// CHECK-LABEL: func.func private @tiles(
// CHECK-SAME: !tile.tile<[BLOCK_M, 64], T>, !tile.tile<[1], f32>, !tile.tile<[], i1>, !tile.tile<[N], i64>)
func.func private @tiles(!tile.tile<[BLOCK_M, 64], T>, !tile.tile<[1], f32>, !tile.tile<[], i1>,
                         !tile.tile<[N], i64>)

// Elements of every kind.
// CHECK-LABEL: func.func private @elements(
// CHECK-SAME: !tile.tile<[4], f64>, !tile.tile<[4], f32>, !tile.tile<[4], f16>, !tile.tile<[4], bf16>,
// CHECK-SAME: !tile.tile<[4], f8E4M3FN>, !tile.tile<[4], f8E5M2>, !tile.tile<[4], i1>, !tile.tile<[4], i32>)
func.func private @elements(!tile.tile<[4], f64>, !tile.tile<[4], f32>, !tile.tile<[4], f16>,
                            !tile.tile<[4], bf16>, !tile.tile<[4], f8E4M3FN>, !tile.tile<[4], f8E5M2>,
                            !tile.tile<[4], i1>, !tile.tile<[4], i32>)

// A view may have extents that are known only at launch.
// CHECK-LABEL: func.func private @views(
// CHECK-SAME: !tile.view<[?, 8, D], T>, !tile.view<[], i32>, !tile.view<[2147483647], bf16>)
func.func private @views(!tile.view<[?, 8, D], T>, !tile.view<[], i32>, !tile.view<[2147483647], bf16>)

// A type parameter on its own, and as the elements of a builtin tensor.
// CHECK-LABEL: func.func private @parameters(!tile.param<ACC>, tensor<4x!tile.param<ACC>>)
func.func private @parameters(!tile.param<ACC>, tensor<4x!tile.param<ACC>>)

// Inside a tile, the long form of a parameter is printed as its name.
// CHECK-LABEL: func.func private @long_form(!tile.tile<[M], T>)
func.func private @long_form(!tile.tile<[M], !tile.param<T>>)

// Names that are not identifiers are quoted.
// CHECK-LABEL: func.func private @quoted(!tile.tile<["a b", "3", ""], "c d">, !tile.param<"e f">)
func.func private @quoted(!tile.tile<["a b", "3", ""], "c d">, !tile.param<"e f">)
