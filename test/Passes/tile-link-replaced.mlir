// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constraints and defaults that use replaced().
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/mask.mlir' | FileCheck %s
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/score.mlir' | FileCheck %s --check-prefix=OTHER
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/score.mlir' --tile-specialize='params=ORDERED=true' | FileCheck %s --check-prefixes=BOUND,SCORE
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/mask.mlir' --tile-specialize='params=ORDERED=false' | FileCheck %s --check-prefixes=BOUND,MASK
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/mask.mlir' --tile-specialize='params=ORDERED=true' 2>&1 | FileCheck %s --check-prefix=REJECTED
// RUN: not tilewright-opt %t/misspelled.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=MISSPELLED
// RUN: not tilewright-opt %t/misspelled-default.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=DEFAULT
// RUN: tilewright-opt %t/errors.mlir -split-input-file -verify-diagnostics
//
// RUN: tilewright-opt %t/asks.mlir --tile-link='with=%t/score.mlir' | FileCheck %s --check-prefix=OTHER
// RUN: tilewright-opt %t/asks.mlir --tile-link='with=%t/unbounded.mlir' | FileCheck %s --check-prefix=UNBOUNDED
// RUN: tilewright-opt %t/asks.mlir --tile-link='with=%t/unbounded.mlir,%t/score.mlir' | FileCheck %s --check-prefix=UNBOUNDED
//
// Whether a replacement is marked.
// UNBOUNDED: module attributes {tile.replaced = ["score_mod.unbounded"]}
// UNBOUNDED-NOT: tile.unbounded
//
// CHECK: module attributes {tile.replaced = ["mask_mod"]}
// CHECK: require(or(not(ORDERED), not(replaced("mask_mod"))))
// OTHER-NOT: tile.replaced
// BOUND-NOT: tile.replaced
// BOUND-NOT: require
// BOUND: tile.kernel @main
// SCORE: bindings {{.*}}MAY = true
// MASK: bindings {{.*}}MAY = false
// REJECTED: error: constraint 'or(not(ORDERED), not(replaced("mask_mod")))' of kernel @main must hold, but got ORDERED = true
// DEFAULT: error: 'tile.kernel' op replaced("score_mood") must name a replaceable function, but the module has @score_mod
// MISSPELLED: error: 'tile.kernel' op replaced("mask_mood") must name a replaceable function, but the module has @score_mod, @mask_mod

//--- asks.mlir

func.func private @score_mod(%s: f32) -> f32 attributes {tile.replaceable = "compose"} {
  return %s : f32
}
tile.kernel @main params(let WIDE: flag = replaced("score_mod.unbounded")) (%x: !tile.view<[?], f32>) grid(%g = 1) {
  %s = tile.at %x[%g] : !tile.view<[?], f32>
  %t = func.call @score_mod(%s) : (f32) -> f32
}

//--- unbounded.mlir

func.func private @score_mod(%s: f32) -> f32 attributes {tile.unbounded} {
  %t = arith.addf %s, %s : f32
  return %t : f32
}

//--- main.mlir

func.func private @score_mod(%s: f32) -> f32 attributes {tile.replaceable} {
  return %s : f32
}
func.func private @mask_mod(%i: i32) -> i1 attributes {tile.replaceable} {
  %true = arith.constant true
  return %true : i1
}
tile.kernel @main params(ORDERED: flag, let MAY: flag = not(replaced("mask_mod")))
    require(or(not(ORDERED), not(replaced("mask_mod"))))
    (%x: !tile.view<[?], f32>) grid(%g = dim(x, 0)) {
  %s = tile.at %x[%g] : !tile.view<[?], f32>
  %kept = func.call @mask_mod(%g) : (i32) -> i1
  %y = func.call @score_mod(%s) : (f32) -> f32
  %z = arith.select %kept, %y, %s : f32
  %t = tile.full %z : tensor<1xf32>
  tile.store %t, %x[%g] : tensor<1xf32>, !tile.view<[?], f32>
}

//--- mask.mlir

func.func private @mask_mod(%i: i32) -> i1 {
  %false = arith.constant false
  return %false : i1
}

//--- score.mlir

func.func private @score_mod(%s: f32) -> f32 {
  %r = arith.addf %s, %s : f32
  return %r : f32
}

//--- misspelled.mlir

func.func private @score_mod(%s: f32) -> f32 attributes {tile.replaceable} {
  return %s : f32
}
func.func private @mask_mod(%i: i32) -> i1 attributes {tile.replaceable} {
  %true = arith.constant true
  return %true : i1
}
tile.kernel @main require(not(replaced("mask_mood"))) (%x: !tile.view<[?], f32>) grid(%g = dim(x, 0)) {
}

//--- misspelled-default.mlir

func.func private @score_mod(%s: f32) -> f32 attributes {tile.replaceable} {
  return %s : f32
}
tile.kernel @main params(let A: flag = replaced("score_mood")) (%x: !tile.view<[?], f32>) grid(%g = dim(x, 0)) {
}

//--- errors.mlir

// expected-error @+1 {{a constraint uses replaced(), but replaced() is allowed in constraints and defaults only and takes a quoted function name; write replaced("mask_mod") in the default of a flag, and name the flag here}}
tile.kernel @name params(N: int) require(replaced(N)) () grid(%i = 1) {}

// -----

// expected-error @+1 {{a grid extent uses replaced(), but replaced() is allowed in constraints and defaults only and takes a quoted function name}}
tile.kernel @grid () grid(%i = select(replaced("f"), 1, 2)) {}

// -----

// expected-error @+1 {{'tile.replaced' must be on 'builtin.module', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tile.replaced = "f"}
