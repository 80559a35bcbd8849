// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expressions: precedence, the form inside operations and the form of the attribute.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s

// Products bind tighter than sums, sums tighter than comparisons; redundant parentheses are not printed.
// CHECK-LABEL: func.func @precedence
// CHECK-NEXT: tile.param A + B * C : i32
// CHECK-NEXT: tile.param (A + B) * C : i32
// CHECK-NEXT: tile.param A * B + C : i32
// CHECK-NEXT: tile.param A + 1 < B * 2 : i1
// CHECK-NEXT: tile.param (A < B) == (C <= 4) : i1
// CHECK-NEXT: tile.param (A < B) == FLAG : i1
func.func @precedence() {
  %0 = tile.param A + (B * C) : i32
  %1 = tile.param (A + B) * C : i32
  %2 = tile.param (A * B) + C : i32
  %3 = tile.param A + 1 < (B * 2) : i1
  %4 = tile.param (A < B) == (C <= 4) : i1
  %5 = tile.param ((A < B)) == FLAG : i1
  return
}

// Operators associate to the left.
// CHECK-LABEL: func.func @associativity
// CHECK-NEXT: tile.param A - B - C : i32
// CHECK-NEXT: tile.param A - (B - C) : i32
// CHECK-NEXT: tile.param A - (B + C) : i32
// CHECK-NEXT: tile.param A * (B * C) : i32
// CHECK-NEXT: tile.param A + (B + C) : i32
func.func @associativity() {
  %0 = tile.param (A - B) - C : i32
  %1 = tile.param A - (B - C) : i32
  %2 = tile.param A - (B + C) : i32
  %3 = tile.param A * (B * C) : i32
  %4 = tile.param A + (B + C) : i32
  return
}

// A sign belongs to the integer; integers have 64 bits.
// CHECK-LABEL: func.func @integers
// CHECK-NEXT: tile.param -5 : i32
// CHECK-NEXT: tile.param A - 1 : i32
// CHECK-NEXT: tile.param A - -1 : i32
// CHECK-NEXT: tile.param -9223372036854775808 : i64
// CHECK-NEXT: tile.param 9223372036854775807 : i64
// CHECK-NEXT: tile.param 16 : i32
func.func @integers() {
  %0 = tile.param - 5 : i32
  %1 = tile.param A -1 : i32
  %2 = tile.param A - -1 : i32
  %3 = tile.param -9223372036854775808 : i64
  %4 = tile.param 9223372036854775807 : i64
  %5 = tile.param 0x10 : i32
  return
}

// Every function; comparisons may be written as functions and print as operators.
// CHECK-LABEL: func.func @functions
// CHECK-NEXT: tile.param ceildiv(A, 8) + floordiv(A, 8) - mod(A, 8) : i32
// CHECK-NEXT: tile.param select(FLAG, min(A, B), max(A, B)) : i32
// CHECK-NEXT: tile.param and(or(FLAG, A < B), not(FLAG)) : i1
// CHECK-NEXT: tile.param bits(accumulator(T)) + bits(e4m3) : i32
// CHECK-NEXT: tile.param A <= B : i1
// CHECK-NEXT: tile.param A >= B : i1
// CHECK-NEXT: tile.param (A > B) == ne(A, C) : i1
func.func @functions() {
  %0 = tile.param ceildiv(A, 8) + floordiv(A, 8) - mod(A, 8) : i32
  %1 = tile.param select(FLAG, min(A, B), max(A, B)) : i32
  %2 = tile.param and(or(FLAG, lt(A, B)), not(FLAG)) : i1
  %3 = tile.param bits(accumulator(T)) + bits(e4m3) : i32
  %4 = tile.param le(A, B) : i1
  %5 = tile.param ge(A, B) : i1
  %6 = tile.param eq(gt(A, B), ne(A, C)) : i1
  return
}

// Literals of the other kinds. An identifier is a name unless it is a literal or the name of a called function.
// CHECK-LABEL: func.func @literals
// CHECK-NEXT: tile.param CAUSAL == "top_left" : i1
// CHECK-NEXT: tile.param CAUSAL == "a \22quoted\22 one" : i1
// CHECK-NEXT: tile.param T == bf16 : i1
// CHECK-NEXT: tile.param true == false : i1
// CHECK-NEXT: tile.param select + min : i32
func.func @literals() {
  %0 = tile.param CAUSAL == "top_left" : i1
  %1 = tile.param CAUSAL == "a \"quoted\" one" : i1
  %2 = tile.param T == bf16 : i1
  %3 = tile.param true == false : i1
  %4 = tile.param select + min : i32
  return
}

// As an attribute; comparisons are functions there, since '<' would open a bracket.
// GENERIC: "tile.param"() <{expr = #tile.expr<lt(A + 1, B * 2)>}> : () -> i1
// CHECK-LABEL: func.func private @attributes
// CHECK-SAME: a = #tile.expr<ceildiv(dim(q, 2), BLOCK_M)>
// CHECK-SAME: b = #tile.expr<eq(lt(A, B), true)>
// CHECK-SAME: c = #tile.expr<min(sm_count(), 4) * (A + 1)>
func.func private @attributes() attributes {
  a = #tile.expr<ceildiv(dim(q, 2), BLOCK_M)>, b = #tile.expr<eq(lt(A, B), true)>,
  c = #tile.expr<min(sm_count(), 4) * (A + 1)>}

// Declarations of parameters, as an attribute.
// CHECK-LABEL: func.func private @declarations
// CHECK-SAME: a = #tile.param_decl<D: int>
// CHECK-SAME: b = #tile.param_decl<M: int in [-1, 64] = select(lt(D, 64), 64, -1)>
// CHECK-SAME: c = #tile.param_decl<CAUSAL: enum in ["none", ""] = "none">
// CHECK-SAME: d = #tile.param_decl<T: type in [f16, e5m2] = f16>
// CHECK-SAME: e = #tile.param_decl<WINDOW: flag = false>
func.func private @declarations() attributes {
  a = #tile.param_decl<D: int>, b = #tile.param_decl<M: int in [-1, 64] = select(lt(D, 64), 64, -1)>,
  c = #tile.param_decl<CAUSAL: enum in ["none", ""] = "none">,
  d = #tile.param_decl<T: type in [f16, e5m2] = f16>, e = #tile.param_decl<WINDOW: flag = false>}

// Several dimensions of two views at once, in the order of the text.
// CHECK-LABEL: tile.kernel @same_dims
// CHECK-NEXT: require(dim(x, 1) == dim(y, 1), dim(x, 0) == dim(y, 0), dim(y, 0) == 4)
tile.kernel @same_dims require(same_dims(x, y, 1, 0), dim(y, 0) == 4) (%x: !tile.view<[?, ?], f32>, %y: !tile.view<[?, ?], f32>)
    grid(%i = 1) {}
