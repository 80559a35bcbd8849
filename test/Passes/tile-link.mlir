// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linking of files, and all errors. The files are parts of this one.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/softcap.mlir,%t/mask.mlir' | FileCheck %s
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/softcap.mlir' --tile-specialize | FileCheck %s --check-prefix=BOUND
//
// CHECK:       tile.capture @cap : f32
// CHECK-NOT:   @score_mod
// CHECK:       tile.capture @table : !tile.view<[?], f32>
// The replacement takes the place of the original, whose body is removed.
// CHECK:       func.func private @score_mod(%[[S:.*]]: !tile.param<ACC>) -> !tile.param<ACC>
// CHECK-NEXT:    tile.at @cap : f32
// CHECK:         call @shared
// CHECK:       func.func @shared
// CHECK:       func.func private @mask_mod(%[[I:.*]]: i32, %[[J:.*]]: i32) -> i1
// CHECK-NEXT:    arith.cmpi sge, %[[I]], %[[J]]
// CHECK:       tile.kernel @main
//
// BOUND:       func.func private @score_mod(%{{.*}}: f32) -> f32
// BOUND-NEXT:    tile.at @cap : f32
//
// A function of a file is local unless the module declares it replaceable: it is renamed if the module or another file
// uses its name.
// RUN: tilewright-opt %t/main.mlir --tile-link='with=%t/own.mlir,%t/own_mask.mlir' | FileCheck %s --check-prefix=OWN
// OWN:       func.func private @shared_1(%{{.*}}: i32) -> i1
// OWN:       func.func private @shared_0(%[[S:.*]]: !tile.param<ACC>) -> !tile.param<ACC>
// OWN-NEXT:    arith.addf %[[S]], %[[S]]
// OWN:       tile.capture @table
// OWN:       func.func private @score_mod
// OWN-NEXT:    call @shared_0
// OWN:       func.func @shared(%[[S:.*]]: f32) -> f32
// OWN-NEXT:    return %[[S]]
// OWN:       func.func @uses_shared
// OWN-NEXT:    call @shared(
// OWN:       func.func private @mask_mod
// OWN-NEXT:    call @shared_1
//
// Unreadable files.
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/missing.mlir' 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: cannot read '{{.*}}missing.mlir', which is to be linked: No such file or directory
// RUN: mkdir -p %t/folder && ln -sf %t/folder %t/link.mlir
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/link.mlir' 2>&1 | FileCheck %s --check-prefix=FOLDER
// FOLDER: error: a linked file must be a regular file, but got '{{.*}}link.mlir'
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/syntax.mlir' 2>&1 | FileCheck %s --check-prefix=SYNTAX
// SYNTAX: syntax.mlir:1:{{.*}}: error:
// SYNTAX: error: cannot link '{{.*}}syntax.mlir', which is not a module
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/invalid.mlir' 2>&1 | FileCheck %s --check-prefix=INVALID
// INVALID: invalid.mlir:2:{{.*}}: error: 'arith.addf' op requires the same type
//
// A file with other operations.
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/kernel.mlir' 2>&1 | FileCheck %s --check-prefix=KERNEL
// KERNEL: kernel.mlir:1:1: error: {{.*}}a linked file may contain only functions and captures, but got kernel @other; compile that file by itself
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/nested.mlir' 2>&1 | FileCheck %s --check-prefix=NESTED
// NESTED: nested.mlir:2:1: error: {{.*}}a linked file may contain only functions and captures, but got 'builtin.module'
//
// Incompatible definitions.
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/nothing.mlir' 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: nothing.mlir:{{.*}} error: a linked file must replace a function of the module, which lets files replace @score_mod, @mask_mod, but got '{{.*}}nothing.mlir', which defines @score_mood; rename its function, or link it by tile.link
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/kept.mlir' 2>&1 | FileCheck %s --check-prefix=KEPT
// KEPT: kept.mlir:{{.*}} error: a linked file must replace a function of the module, which lets files replace @score_mod, @mask_mod, but got '{{.*}}kept.mlir', which defines @shared; rename its function, or link it by tile.link
// RUN: not tilewright-opt %t/kernel.mlir --tile-link='with=%t/kept.mlir' 2>&1 | FileCheck %s --check-prefix=CLOSED
// CLOSED: error: a linked file must replace a function of the module, which lets files replace nothing, but got '{{.*}}kept.mlir', which defines @shared; rename its function, or link it by tile.link
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/unused.mlir' 2>&1 | FileCheck %s --check-prefix=UNUSED
// UNUSED: unused.mlir:4:1: error: {{.*}}function @shared must replace a function or be called by one that does, but the module lets files replace @score_mod, @mask_mod; rename it or leave it out
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/twice.mlir' 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: twice.mlir:2:1: error: {{.*}}a file must define @helper once, but got a second definition
// TWICE: twice.mlir:1:1: note: the first definition
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/type.mlir' 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: type.mlir:1:1: error: {{.*}}function @mask_mod must have the type of the function that it replaces, '(i32, i32) -> i1', but got '(i32, i32, i32) -> i1'
// TYPE: main.mlir:{{12|13}}:1: note: the module's @mask_mod
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/view.mlir' 2>&1 | FileCheck %s --check-prefix=VIEW
// VIEW: error: {{.*}}capture @table must have the type of the module's, '!tile.view<[?], f32>', but got '!tile.view<[?, ?], f32>'
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/clash.mlir' 2>&1 | FileCheck %s --check-prefix=CLASH
// CLASH: error: a linked file must replace a function of the module, which lets files replace {{.*}}, but got '{{.*}}clash.mlir', which defines @main
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/capture.mlir' 2>&1 | FileCheck %s --check-prefix=CAPTURE
// CAPTURE: capture.mlir:1:1: error: {{.*}}capture @shared must be a capture of the module, too, but got a function; rename it
// CAPTURE: main.mlir:{{[0-9]+}}:1: note: the module's @shared
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/declared.mlir' 2>&1 | FileCheck %s --check-prefix=DECLARED
// DECLARED: declared.mlir:1:1: error: {{.*}}function @table must be a function of the module, too, but got a capture; rename it
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/absent.mlir' 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: absent.mlir:1:1: error: {{.*}}function @absent has no body, so the module must define it; define it in the file that uses it
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/declared_type.mlir' 2>&1 | FileCheck %s --check-prefix=DECLARED-TYPE
// DECLARED-TYPE: error: {{.*}}function @shared must have the type of the module's, '(f32) -> f32', but got '(f64) -> f64'
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/softcap.mlir,%t/second_cap.mlir' 2>&1 | FileCheck %s --check-prefix=SECOND-CAP
// SECOND-CAP: second_cap.mlir:1:1: error: {{.*}}capture @cap must have the same type in all files, 'f32', but got 'i32'; rename it
// SECOND-CAP: softcap.mlir:1:1: note: the first definition
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/softcap.mlir,%t/again.mlir' 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: again.mlir:1:1: error: {{.*}}function @score_mod must be linked from one file, or call the function that it replaces, but got a second definition; declare it as a function without a body {tile.base = @score_mod} and call it, or leave one of the files out
// AGAIN: softcap.mlir:3:1: note: the first definition
//
// Incompatible calls. Linking may create a cycle, or the file may have one.
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/cycle.mlir' 2>&1 | FileCheck %s --check-prefix=CYCLE
// CYCLE: error: {{.*}}a function must not be recursive, but got the cycle @helper -> @score_mod -> @helper
// RUN: not tilewright-opt %t/self.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=SELF
// SELF: self.mlir:1:1: error: {{.*}}a function must not be recursive, but got the cycle @f -> @f
// RUN: not tilewright-opt %t/body.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=BODY
// BODY: body.mlir:3:{{.*}}: error: {{.*}}uses function @f, which must have a body; define it or link a file that does
// BODY: body.mlir:1:1: note: declared here
// RUN: not tilewright-opt %t/main.mlir --tile-link='with=%t/unknown.mlir' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: unknown.mlir:2:{{.*}}: error: {{.*}}uses @missing, which neither '{{.*}}unknown.mlir' nor the module has; define it

//--- main.mlir
tile.capture @table : !tile.view<[?], f32>
func.func @score_mod(%s: !tile.param<ACC>) -> !tile.param<ACC> attributes {tile.replaceable} {
  return %s : !tile.param<ACC>
}
func.func @shared(%s: f32) -> f32 {
  return %s : f32
}
func.func @uses_shared(%s: f32) -> f32 {
  %r = func.call @shared(%s) : (f32) -> f32
  return %r : f32
}
func.func private @mask_mod(i32, i32) -> i1
tile.kernel @main params(ACC: type = f32) () grid(%i = 1) {
  %zero = arith.constant 0.0 : !tile.param<ACC>
  %s = tile.full %zero : !tile.tile<[8], ACC>
  %t = tile.map @score_mod(%s) : (!tile.tile<[8], ACC>) -> !tile.tile<[8], ACC>
}
//--- softcap.mlir
tile.capture @cap : f32
func.func private @shared(f32) -> f32
func.func private @score_mod(%s: !tile.param<ACC>) -> !tile.param<ACC> {
  %cap32 = tile.at @cap : f32
  %twice = func.call @shared(%cap32) : (f32) -> f32
  %cap = tile.cast %twice : f32 -> !tile.param<ACC>
  %x = arith.divf %s, %cap : !tile.param<ACC>
  %t = math.tanh %x : !tile.param<ACC>
  %r = arith.mulf %t, %cap : !tile.param<ACC>
  return %r : !tile.param<ACC>
}
//--- mask.mlir
func.func private @mask_mod(%i: i32, %j: i32) -> i1 {
  %keep = arith.cmpi sge, %i, %j : i32
  return %keep : i1
}
//--- again.mlir
func.func private @score_mod(%s: f32) -> f32 {
  return %s : f32
}
//--- syntax.mlir
func.func @score_mod(
//--- invalid.mlir
func.func @score_mod(%s: f32, %t: f64) -> f32 {
  %r = "arith.addf"(%s, %t) : (f32, f64) -> f32
  return %r : f32
}
//--- kernel.mlir
tile.kernel @other() grid(%i = 1) {}
//--- nested.mlir
func.func @score_mod(%s: f32) -> f32 { return %s : f32 }
module {}
//--- nothing.mlir
func.func @score_mood(%s: f32) -> f32 { return %s : f32 }
//--- type.mlir
func.func @mask_mod(%b: i32, %i: i32, %j: i32) -> i1 {
  %keep = arith.cmpi sge, %i, %j : i32
  return %keep : i1
}
//--- view.mlir
tile.capture @table : !tile.view<[?, ?], f32>
//--- clash.mlir
func.func @main() { return }
//--- cycle.mlir
func.func @score_mod(%s: f32) -> f32 {
  %r = func.call @helper(%s) : (f32) -> f32
  return %r : f32
}
func.func @helper(%s: f32) -> f32 {
  %r = func.call @score_mod(%s) : (f32) -> f32
  return %r : f32
}
//--- own.mlir
tile.capture @table : !tile.view<[?], f32>
func.func private @score_mod(%s: !tile.param<ACC>) -> !tile.param<ACC> {
  %r = func.call @shared(%s) : (!tile.param<ACC>) -> !tile.param<ACC>
  return %r : !tile.param<ACC>
}
func.func private @shared(%s: !tile.param<ACC>) -> !tile.param<ACC> {
  %r = arith.addf %s, %s : !tile.param<ACC>
  return %r : !tile.param<ACC>
}
//--- own_mask.mlir
func.func private @mask_mod(%i: i32, %j: i32) -> i1 {
  %r = func.call @shared(%i) : (i32) -> i1
  return %r : i1
}
func.func private @shared(%i: i32) -> i1 {
  %r = arith.trunci %i : i32 to i1
  return %r : i1
}
//--- kept.mlir
func.func @shared(%s: f32) -> f32 { return %s : f32 }
//--- unused.mlir
func.func private @mask_mod(%i: i32, %j: i32) -> i1 {
  %keep = arith.cmpi sge, %i, %j : i32
  return %keep : i1 }
func.func @shared(%s: f32) -> f32 { return %s : f32 }
//--- twice.mlir
func.func @helper(%s: f32) -> f32 { return %s : f32 }
func.func @helper(%s: f32) -> f32 { return %s : f32 }
//--- capture.mlir
tile.capture @shared : f32
//--- declared.mlir
func.func private @table(f32) -> f32
//--- absent.mlir
func.func private @absent(f32) -> f32
//--- declared_type.mlir
func.func private @shared(f64) -> f64
//--- second_cap.mlir
tile.capture @cap : i32
//--- self.mlir
func.func @f() {
  func.call @f() : () -> ()
  return
}
//--- body.mlir
func.func private @f() -> i1
func.func @g() -> i1 {
  %r = func.call @f() : () -> i1
  return %r : i1
}
//--- unknown.mlir
func.func @score_mod(%s: f32) -> f32 {
  %r = func.call @missing(%s) : (f32) -> f32
  return %r : f32
}
