// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The value of every function of the expression language, as bindings of a kernel.
//
// RUN: tilewright-opt %s --split-input-file --tile-specialize | FileCheck %s

// CHECK-LABEL: @integers
// CHECK: bindings = {A = 7 : i64, B = -7 : i64, CEIL = 4 : i64, CEILN = -3 : i64, DIFF = 14 : i64, FLOOR = 3 : i64, FLOORN = -4 : i64,
// CHECK-SAME: MAX = 7 : i64, MIN = -7 : i64, MOD = 1 : i64, MODN = 1 : i64, MODNEG = -1 : i64, ORDER = 17 : i64, PROD = -49 : i64, SUM = 0 : i64}
tile.kernel @integers params(A: int = 7, B: int = -7, SUM: int = A + B, DIFF: int = A - B,
    PROD: int = A * B, CEIL: int = ceildiv(A, 2), CEILN: int = ceildiv(B, 2), FLOOR: int = floordiv(A, 2),
    FLOORN: int = floordiv(B, 2), MOD: int = mod(A, 2), MODN: int = mod(B, 2), MODNEG: int = mod(A, 0 - 2),
    MIN: int = min(A, B), MAX: int = max(A, B), ORDER: int = 1 + 2 * (A + 1)) () grid(%i = 1) {}

// -----

// CHECK-LABEL: @flags
// CHECK: bindings = {AND = false, EQ = false, GE = true, GT = true, LE = false, LT = false, MODE = "fast", NE = true, NOT = false, OR = true, SAME = true}
tile.kernel @flags params(LT: flag = 2 < 1, LE: flag = 2 <= 1, GT: flag = 2 > 1, GE: flag = 2 >= 2, EQ: flag = 2 == 1,
    NE: flag = ne(2, 1), NOT: flag = not(GT), AND: flag = and(GT, LT), OR: flag = or(GT, LT),
    MODE: enum in ["slow", "fast"] = select(GT, "fast", "slow"), SAME: flag = MODE == "fast") () grid(%i = 1) {}

// -----

// CHECK-LABEL: @types
// CHECK: bindings = {A = f32, A64 = f64, AE = f32, BITS = 16 : i64, E = f8E4M3FN, E5 = f8E5M2, HALF = true, SMALL = 8 : i64, T = bf16, U = f16}
tile.kernel @types params(T: type = bf16, E: type = e4m3, E5: type = e5m2, A: type = accumulator(T), AE: type = accumulator(E),
    A64: type = accumulator(f64), BITS: int = bits(T), SMALL: int = bits(E), HALF: flag = BITS == 16,
    U: type = select(HALF, f16, f32)) () grid(%i = 1) {}

// -----

// Expressions that are known only at launch remain, simplified.
// CHECK-LABEL: @launch
// CHECK: grid(%i = ceildiv(dim(x, 0), 8), %j = sm_count() * 2, %k = select(n > 8, n, 3)) attributes
tile.kernel @launch params(B: int = 8, C: int = 1 + 1, D: flag = true) (%x: !tile.view<[?], f32>, %n: i32)
    grid(%i = ceildiv(dim(x, 0), B), %j = sm_count() * C, %k = select(and(D, n > B), n, B - 5)) {}

// -----

// A flag selects between sums of floats and exact sums.
// CHECK-LABEL: @exact
// CHECK: tile.add_gradients {{.*}} : tensor<8xf32> exact once : (f32, i32)
// CHECK: tile.add_gradients {{.*}} : tensor<8xf32> : (f32, i32)
func.func private @f(%s: f32, %i: i32) -> f32 {
  return %s : f32
}
tile.kernel @exact params(FIXED: flag = true) (%x: f32) grid(%i = 1) {
  %t = tile.full %x : tensor<8xf32>
  tile.add_gradients @f(%x, %i) seed %t : tensor<8xf32> exact when (FIXED) once : (f32, i32)
  tile.add_gradients @f(%x, %i) seed %t : tensor<8xf32> exact when (not(FIXED)) : (f32, i32)
}
