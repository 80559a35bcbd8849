// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Several files that replace the same function.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/double.mlir,%t/shift.mlir' | FileCheck %s --check-prefix=COMPOSE
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/shift.mlir,%t/double.mlir' | FileCheck %s --check-prefix=OTHER
//
// Files are applied in their order.
// COMPOSE:       func.func private @score_mod_0
// COMPOSE-NEXT:    arith.addf
// COMPOSE:       func.func private @score_mod_1
// COMPOSE-NEXT:    tile.at @by
// COMPOSE:       func.func private @score_mod(%[[S:.*]]: f32, %[[I:.*]]: i32) -> f32
// COMPOSE-NEXT:    %[[X:.*]] = call @score_mod_0(%[[S]], %[[I]])
// COMPOSE-NEXT:    %[[Y:.*]] = call @score_mod_1(%[[X]], %[[I]])
// COMPOSE-NEXT:    return %[[Y]]
// OTHER:         func.func private @score_mod_1
// OTHER-NEXT:      arith.addf
//
// Three, of which two read the same capture.
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/shift.mlir,%t/double.mlir,%t/shift.mlir' | FileCheck %s --check-prefix=THREE
// THREE-COUNT-1: tile.capture @by : f32
// THREE-NOT:     tile.capture
// THREE:         func.func private @score_mod(
// THREE-NEXT:      call @score_mod_2
// THREE-NEXT:      call @score_mod_3
//
// Masks are combined by and, weights by multiplication.
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/even.mlir,%t/near.mlir,%t/half.mlir,%t/third.mlir' | FileCheck %s --check-prefix=JOIN
// JOIN:       func.func private @mask_mod(%[[I:.*]]: i32) -> i1
// JOIN-NEXT:    %[[A:.*]] = call @mask_mod_0(%[[I]])
// JOIN-NEXT:    %[[B:.*]] = call @mask_mod_1(%[[I]])
// JOIN-NEXT:    arith.andi %[[A]], %[[B]]
// JOIN:       func.func private @weight_mod(%[[I:.*]]: i32) -> f32
// JOIN-NEXT:    %[[A:.*]] = call @weight_mod_0(%[[I]])
// JOIN-NEXT:    %[[B:.*]] = call @weight_mod_1(%[[I]])
// JOIN-NEXT:    arith.mulf %[[A]], %[[B]]
//
// A file that declares the function that it replaces determines how it is used: here for the kernel's own function, and
// in a chain, also from a helper.
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/either.mlir' | FileCheck %s --check-prefix=BASE
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/even.mlir,%t/either.mlir,%t/near.mlir' | FileCheck %s --check-prefix=BASES
// BASE:        func.func private @helper
// BASE-NEXT:     call @mask_mod_0
// BASE-NOT:    @before
// BASE:        func.func private @mask_mod_0
// BASE-NEXT:     arith.constant true
// BASE:        func.func private @mask_mod(
// BASE:          call @helper
// BASE:          arith.ori
// BASES:       func.func private @helper
// BASES-NEXT:    call @mask_mod_0
// BASES:       func.func private @mask_mod_0
// BASES-NEXT:    arith.constant 1
// BASES:       func.func private @mask_mod_1
// BASES:         call @helper
// BASES:       func.func private @mask_mod(
// BASES-NEXT:    call @mask_mod_1
// BASES-NEXT:    call @mask_mod_2
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/sink.mlir,%t/more_sink.mlir' | FileCheck %s --check-prefix=CALLS
// CALLS:       func.func private @sink_0
// CALLS-NEXT:    arith.constant 2
// CALLS:       func.func private @sink(
// CALLS-NEXT:    call @sink_0
//
// Replacements without effect give a remark.
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/shift.mlir,%t/forget.mlir' --remark-format=emitRemark --remarks-filter=tile-link -o /dev/null 2>&1 | FileCheck %s --check-prefix=FORGET
// FORGET: forget.mlir:1:1: remark: [Missed] chain-drops-base | Category:tile-link | Function=score_mod | Reason="@score_mod does not read its first operand, so what was linked or defined before it has no effect"
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/shift.mlir,%t/drop.mlir' --remark-format=emitRemark --remarks-filter=tile-link -o /dev/null 2>&1 | FileCheck %s --check-prefix=DROP
// DROP: drop.mlir:2:1: remark: [Missed] chain-drops-base {{.*}} Reason="@score_mod does not call the function that it replaces, so what was linked or defined before it has no effect"
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/shift.mlir,%t/double.mlir' --remark-format=emitRemark --remarks-filter=tile-link -o /dev/null 2>&1 | count 0
//
// All errors.
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/sink.mlir,%t/sink.mlir' 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: sink.mlir:1:1: error: {{.*}}function @sink must be linked from one file, or call the function that it replaces, but got a second definition; declare it as a function without a body {tile.base = @sink} and call it, or leave one of the files out
// TWICE: sink.mlir:1:1: note: the first definition
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/self.mlir' 2>&1 | FileCheck %s --check-prefix=SELF
// SELF: self.mlir:2:8: error: a function must not be recursive, but @score_mod calls itself; to call the function that it replaces, declare it as a function without a body {tile.base = @score_mod}
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/mistyped.mlir' 2>&1 | FileCheck %s --check-prefix=MISTYPED
// MISTYPED: mistyped.mlir:1:1: error: {{.*}}function @before denotes the function that @score_mod replaces, so it must have its type, '(f32, i32) -> f32', but got '(f32) -> f32'; correct the declaration
// MISTYPED: main.mlir:1:1: note: the replaced function
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/other_base.mlir' 2>&1 | FileCheck %s --check-prefix=OTHER-BASE
// OTHER-BASE: other_base.mlir:1:1: error: {{.*}}function @before denotes the function that the file's @mask_mod replaces, but the file has no @mask_mod that replaces anything; define it, or call the module's by its name
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/two_bases.mlir' 2>&1 | FileCheck %s --check-prefix=TWO-BASES
// TWO-BASES: two_bases.mlir:2:1: error: {{.*}}a file must declare only once the function that its @sink replaces, but got @b as well as @a; leave one out
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/shift.mlir,%t/param.mlir' 2>&1 | FileCheck %s --check-prefix=PARAM
// PARAM: param.mlir:1:1: error: {{.*}}function @score_mod must have the type of the function that it is combined with, '(f32, i32) -> f32', but got '(!tile.param<T>, i32) -> f32'; write the same type in both files
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/shift.mlir,%t/capture.mlir' 2>&1 | FileCheck %s --check-prefix=CAPTURE
// CAPTURE: capture.mlir:1:1: error: {{.*}}capture @by must have the same type in all files, 'f32', but got '!tile.view<[?], f32>'; rename it
// CAPTURE: shift.mlir:1:1: note: the first definition

//--- main.mlir
func.func private @score_mod(%s: f32, %i: i32) -> f32 attributes {tile.replaceable = "compose"} {
  return %s : f32
}
func.func private @mask_mod(%i: i32) -> i1 attributes {tile.replaceable = "and"} {
  %true = arith.constant true
  return %true : i1
}
func.func private @weight_mod(%i: i32) -> f32 attributes {tile.replaceable = "multiply"} {
  %one = arith.constant 1.0 : f32
  return %one : f32
}
func.func private @sink(%i: i32) -> f32 attributes {tile.replaceable} {
  %zero = arith.constant 0.0 : f32
  return %zero : f32
}
//--- double.mlir
func.func private @score_mod(%s: f32, %i: i32) -> f32 {
  %r = arith.addf %s, %s : f32
  return %r : f32
}
//--- shift.mlir
tile.capture @by : f32
func.func private @score_mod(%s: f32, %i: i32) -> f32 {
  %by = tile.at @by : f32
  %r = arith.addf %s, %by : f32
  return %r : f32
}
//--- forget.mlir
func.func private @score_mod(%s: f32, %i: i32) -> f32 {
  %zero = arith.constant 0.0 : f32
  return %zero : f32
}
//--- drop.mlir
func.func private @before(f32, i32) -> f32 attributes {tile.base = @score_mod}
func.func private @score_mod(%s: f32, %i: i32) -> f32 {
  return %s : f32
}
//--- even.mlir
func.func private @mask_mod(%i: i32) -> i1 {
  %c1 = arith.constant 1 : i32
  %odd = arith.andi %i, %c1 : i32
  %keep = arith.cmpi ne, %odd, %c1 : i32
  return %keep : i1
}
//--- near.mlir
func.func private @mask_mod(%i: i32) -> i1 {
  %c8 = arith.constant 8 : i32
  %keep = arith.cmpi slt, %i, %c8 : i32
  return %keep : i1
}
//--- either.mlir
func.func private @before(i32) -> i1 attributes {tile.base = @mask_mod}
func.func private @helper(%i: i32) -> i1 {
  %r = func.call @before(%i) : (i32) -> i1
  return %r : i1
}
func.func private @mask_mod(%i: i32) -> i1 {
  %c8 = arith.constant 8 : i32
  %keep = arith.cmpi slt, %i, %c8 : i32
  %other = func.call @helper(%i) : (i32) -> i1
  %r = arith.ori %keep, %other : i1
  return %r : i1
}
//--- half.mlir
func.func private @weight_mod(%i: i32) -> f32 {
  %half = arith.constant 0.5 : f32
  return %half : f32
}
//--- third.mlir
func.func private @weight_mod(%i: i32) -> f32 {
  %third = arith.constant 0.25 : f32
  return %third : f32
}
//--- sink.mlir
func.func private @sink(%i: i32) -> f32 {
  %two = arith.constant 2.0 : f32
  return %two : f32
}
//--- more_sink.mlir
func.func private @before(i32) -> f32 attributes {tile.base = @sink}
func.func private @sink(%i: i32) -> f32 {
  %r = func.call @before(%i) : (i32) -> f32
  %s = arith.addf %r, %r : f32
  return %s : f32
}
//--- self.mlir
func.func private @score_mod(%s: f32, %i: i32) -> f32 {
  %r = func.call @score_mod(%s, %i) : (f32, i32) -> f32
  return %r : f32
}
//--- mistyped.mlir
func.func private @before(f32) -> f32 attributes {tile.base = @score_mod}
func.func private @score_mod(%s: f32, %i: i32) -> f32 {
  %r = func.call @before(%s) : (f32) -> f32
  return %r : f32
}
//--- other_base.mlir
func.func private @before(i32) -> i1 attributes {tile.base = @mask_mod}
func.func private @score_mod(%s: f32, %i: i32) -> f32 {
  return %s : f32
}
//--- two_bases.mlir
func.func private @a(i32) -> f32 attributes {tile.base = @sink}
func.func private @b(i32) -> f32 attributes {tile.base = @sink}
func.func private @sink(%i: i32) -> f32 {
  %r = func.call @a(%i) : (i32) -> f32
  return %r : f32
}
//--- param.mlir
func.func private @score_mod(%s: !tile.param<T>, %i: i32) -> f32 {
  %r = tile.cast %s : !tile.param<T> -> f32
  return %r : f32
}
//--- capture.mlir
tile.capture @by : !tile.view<[?], f32>
func.func private @score_mod(%s: f32, %i: i32) -> f32 {
  return %s : f32
}
