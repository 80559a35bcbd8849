// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files named by tile.link, and all errors.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/main.mlir --tile-link | FileCheck %s
//
// Symbols that are used are linked, with the symbols that they use, however many files name the library; others are
// not. A kernel is inserted after the program that launches it.
// CHECK-NOT:   tile.link
// CHECK:       func.func private @twice
// CHECK-NEXT:    call @once
// CHECK-DAG:   tile.capture @table : !tile.view<[?], f32>
// CHECK-DAG:   func.func private @once
// CHECK-NOT:   @unused
// CHECK:       tile.program @main
// CHECK:       tile.kernel @work
// CHECK-NOT:   tile.kernel @other
// CHECK-NOT:   @unused
//
// A library function may be replaced if it is declared replaceable, and a linked file may use libraries.
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/lib/with.mlir' | FileCheck %s --check-prefix=WITH
// WITH-DAG:    func.func private @once_0
// WITH-DAG:    func.func private @twice(%{{.*}}: f32) -> f32 {
// WITH:          call @once_0
//
// If the folder of the file that names it has no such file, the compiler's embedded file is used.
// RUN: tilewright-opt %t/embedded.mlir --tile-link | FileCheck %s --check-prefix=EMBEDDED
// RUN: tilewright-opt --tile-link < %t/embedded.mlir | FileCheck %s --check-prefix=EMBEDDED
// EMBEDDED:    func.func private @reciprocal_or_zero
// EMBEDDED:    tile.kernel @main
//
// A declaration becomes the definition: func.call requires one.
// RUN: tilewright-opt %t/declared.mlir --tile-link | FileCheck %s --check-prefix=DECLARED
// DECLARED:    func.func private @once(%{{.*}}: f32) -> f32 {
// DECLARED-NOT: func.func private @once
//
// RUN: not tilewright-opt %t/missing.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: missing.mlir:1:1: error: 'tile.link' op must name a file in the folder of this one, or of the compiler's library, but got "lib/nothing.mlir", and there is no '{{.*}}lib/nothing.mlir'; correct the path
// RUN: sed s,lib/nothing,lib/softmx, %t/missing.mlir > %t/similar.mlir && not tilewright-opt %t/similar.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=SIMILAR
// SIMILAR: and there is no '{{.*}}lib/softmx.mlir'; did you mean 'lib/softmax.mlir'?
// RUN: not tilewright-opt %t/empty.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: empty.mlir:1:1: error: 'tile.link' op must name a file, but got an empty path; write one relative to this file
// RUN: not tilewright-opt %t/lib/round.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=ROUND
// ROUND: round_b.mlir:1:1: error: 'tile.link' op must not make files link each other in a cycle, but got '{{.*}}round_a.mlir' -> '{{.*}}round_b.mlir' -> '{{.*}}round_a.mlir'; move the shared definitions into a separate file
//
// A program of a library, and the kernel that it launches.
// RUN: tilewright-opt %t/program.mlir --tile-link --tile-inline-programs | FileCheck %s --check-prefix=PROGRAM
// PROGRAM:      tile.program @outer
// PROGRAM-NEXT:   (%x: !tile.view<[?], f32>) {
// PROGRAM-NEXT:   tile.launch @work(%x)
// PROGRAM:      tile.kernel @work
// RUN: not tilewright-opt %t/module.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=MODULE
// MODULE: other.mlir:{{[0-9]+}}:1: error: {{.*}}a file that other files link must contain only functions, captures, kernels and programs, but got 'builtin.module'; compile that file by itself
//
// What a library lets others replace, the file that links it may define.
// RUN: tilewright-opt %t/own.mlir --tile-link | FileCheck %s --check-prefix=OWN-BASE --implicit-check-not="arith.addf"
// OWN-BASE: func.func private @base(%{{.*}}: f32) -> f32 {
// OWN-BASE:   arith.mulf
// RUN: not tilewright-opt %t/two.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: two.mlir:{{[0-9]+}}:{{[0-9]+}}: error: {{.*}}uses @once, which exactly one linked file must define, but two do; rename one
// TWO: third.mlir:{{[0-9]+}}:1: note: the first definition
// TWO: second.mlir:{{[0-9]+}}:1: note: the second definition
// RUN: not tilewright-opt %t/clash.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=CLASH
// CLASH: second.mlir:{{[0-9]+}}:1: error: {{.*}}@once must have a unique name, but is also defined elsewhere; rename one
// CLASH: clash.mlir:2:1: note: the other definition
// CLASH: library.mlir:{{[0-9]+}}:{{[0-9]+}}: note: used here
// RUN: not tilewright-opt %t/mistyped.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=MISTYPED
// MISTYPED: mistyped.mlir:2:1: error: {{.*}}function @twice must be declared as the linked file defines it, '(f32) -> f32', but got '(f64) -> f64'; correct the declaration
// RUN: not tilewright-opt %t/absent.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: absent.mlir:{{[0-9]+}}:{{[0-9]+}}: error: 'tile.map' op must apply a function of this module, but got @thrice; define it, or link the file that does

//--- main.mlir
tile.link "lib/library.mlir"
tile.link "lib/second.mlir"
tile.program @main (%x: !tile.view<[?], f32>) {
  tile.launch @work(%x) : !tile.view<[?], f32>
}
//--- lib/library.mlir
tile.link "second.mlir"
tile.capture @table : !tile.view<[?], f32>
func.func private @twice(%x: f32) -> f32 attributes {tile.replaceable} {
  %half = func.call @once(%x) : (f32) -> f32
  %y = arith.addf %half, %half : f32
  return %y : f32
}
func.func private @once(f32) -> f32
func.func private @unused(%x: f32) -> f32 {
  return %x : f32
}
tile.kernel @work (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[8], f32>
  %u = tile.map @twice(%t) : (!tile.tile<[8], f32>) -> !tile.tile<[8], f32>
  tile.store %u, %x[0] : !tile.tile<[8], f32>, !tile.view<[?], f32>
}
tile.kernel @other () grid(%i = 1) {
}
//--- lib/second.mlir
func.func private @once(%x: f32) -> f32 {
  %c0 = arith.constant 0 : i32
  %t = tile.at @table[%c0] : f32
  %y = arith.addf %x, %t : f32
  return %y : f32
}
tile.capture @table : !tile.view<[?], f32>
//--- lib/with.mlir
tile.link "second.mlir"
func.func private @once(f32) -> f32
func.func private @twice(%x: f32) -> f32 {
  %y = func.call @once(%x) : (f32) -> f32
  return %y : f32
}
//--- embedded.mlir
tile.link "lib/softmax.mlir"
tile.kernel @main params(ACC: type = f32) () grid(%i = 1) {
  %zero = arith.constant 0.0 : !tile.param<ACC>
  %s = tile.full %zero : !tile.tile<[8], ACC>
  %t = tile.map @reciprocal_or_zero(%s) : (!tile.tile<[8], ACC>) -> !tile.tile<[8], ACC>
}
//--- declared.mlir
tile.link "lib/second.mlir"
func.func private @once(f32) -> f32
func.func @f(%x: f32) -> f32 {
  %y = func.call @once(%x) : (f32) -> f32
  return %y : f32
}
//--- missing.mlir
tile.link "lib/nothing.mlir"
//--- empty.mlir
tile.link ""
//--- lib/round.mlir
tile.link "round_a.mlir"
//--- lib/round_a.mlir
tile.link "round_b.mlir"
//--- lib/round_b.mlir
tile.link "round_a.mlir"
//--- program.mlir
tile.link "main.mlir"
tile.program @outer (%x: !tile.view<[?], f32>) {
  tile.call @main()
}
//--- other.mlir
module @inner {}
module {}
//--- module.mlir
tile.link "other.mlir"
tile.program @outer () {}
//--- lib/replaceable.mlir
func.func private @base(%x: f32) -> f32 attributes {tile.replaceable} {
  %y = arith.addf %x, %x : f32
  return %y : f32
}
func.func private @user(%x: f32) -> f32 {
  %y = func.call @base(%x) : (f32) -> f32
  return %y : f32
}
//--- own.mlir
tile.link "lib/replaceable.mlir"
func.func private @user(f32) -> f32
func.func private @base(%x: f32) -> f32 {
  %y = arith.mulf %x, %x : f32
  return %y : f32
}
//--- lib/third.mlir
func.func private @once(%x: f32) -> f32 {
  return %x : f32
}
//--- two.mlir
tile.link "lib/third.mlir"
tile.link "lib/second.mlir"
tile.kernel @main (%s: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %s[0] : !tile.view<[?], f32> -> !tile.tile<[8], f32>
  %u = tile.map @once(%t) : (!tile.tile<[8], f32>) -> !tile.tile<[8], f32>
}
//--- clash.mlir
tile.link "lib/library.mlir"
func.func private @once(%x: f32) -> f32 {
  return %x : f32
}
tile.program @main (%x: !tile.view<[?], f32>) {
  tile.launch @work(%x) : !tile.view<[?], f32>
}
//--- mistyped.mlir
tile.link "lib/library.mlir"
func.func private @twice(f64) -> f64
//--- absent.mlir
tile.link "lib/second.mlir"
tile.kernel @main (%s: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %s[0] : !tile.view<[?], f32> -> !tile.tile<[8], f32>
  %u = tile.map @thrice(%t) : (!tile.tile<[8], f32>) -> !tile.tile<[8], f32>
}
