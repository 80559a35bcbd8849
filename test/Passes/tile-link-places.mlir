// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The locations of files of tile.link: the folder of the file that names them, regardless of MLIR locations in the
// text. test/Dialect/link_ops_invalid.mlir has the paths that are always rejected.
//
// RUN: rm -rf %t && split-file %s %t && cd %t
// RUN: ln -s ../other/secret.mlir own/out.mlir && ln -s ../other own/folder && ln -s lib/once.mlir own/in.mlir && ln -s own alias
//
// MLIR locations (of the op, of the module, or in an embedded file) that name a file in a folder where the linked file
// exists have no effect.
// RUN: sed 's,FOLDER,%t,' own/op.mlir.in > own/op.mlir && not tilewright-opt own/op.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=FORGED
// RUN: sed 's,FOLDER,%t,' own/module.mlir.in > own/module.mlir && not tilewright-opt own/module.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=FORGED
// FORGED-NOT: func.func
// FORGED: error: 'tile.link' op must name a file in the folder of this one, or of the compiler's library, but got "secret.mlir", and there is no 'own/secret.mlir'; correct the path
// RUN: not tilewright-opt own/embedded.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=EMBEDDED
// EMBEDDED: error: 'tile.link' op must name a file in the folder of this one, or of the compiler's library, but got "softmax.mlir", and there is no 'own/softmax.mlir'; did you mean 'lib/softmax.mlir'?
//
// The same in a file of `with`, in a linked file, and in the file that the tools read.
// RUN: not tilewright-opt own/main.mlir --tile-link='with=own/op.mlir' 2>&1 | FileCheck %s --check-prefix=FORGED
// RUN: not tilewright-opt own/nested.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=FORGED
// RUN: not tilewrightc own/op.mlir --kernel=main 2>&1 | FileCheck %s --check-prefix=TOOL
// RUN: not tilewrightc own/op.mlir --kernel=main --emit=bundle -o %t/x.twb 2>&1 | FileCheck %s --check-prefix=TOOL
// RUN: not tilewright-run own/op.mlir --kernel=main 2>&1 | FileCheck %s --check-prefix=TOOL
// TOOL: error: 'tile.link' op must name a file in the folder of this one, or of the compiler's library, but got "secret.mlir", and there is no 'own/secret.mlir'; correct the path
//
// Standard input has no folder.
// RUN: cd %t/own && not tilewright-opt --tile-link < op.mlir 2>&1 | FileCheck %s --check-prefix=INPUT
// INPUT: error: 'tile.link' op must name a file of the compiler's library, since the text was not read from a file, but got "secret.mlir"; correct the path, or compile a file
// RUN: cd %t/own && not tilewrightc - --kernel=main < beside.mlir 2>&1 | FileCheck %s --check-prefix=BESIDE
// BESIDE: error: 'tile.link' op must name a file of the compiler's library, since the text was not read from a file, but got "lib/once.mlir"; correct the path, or compile a file
//
// A symbolic link must not lead out of the folder, but the folder may be reached by one.
// RUN: cd %t && not tilewright-opt own/file_link.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=OUT
// OUT: file_link.mlir:1:1: error: 'tile.link' op must name a file in the folder of this one or below, but got "out.mlir", where a symbolic link leads to '{{.*}}/other/secret.mlir'; copy the file into the folder
// RUN: not tilewright-opt own/folder_link.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=FOLDER
// FOLDER: folder_link.mlir:1:1: error: 'tile.link' op must name a file in the folder of this one or below, but got "folder/secret.mlir", where
// RUN: tilewright-opt own/inside.mlir --tile-link | FileCheck %s
// RUN: tilewright-opt alias/beside.mlir --tile-link | FileCheck %s
// RUN: cd %t/own && tilewright-opt beside.mlir --tile-link | FileCheck %s
// RUN: cd %t/own/lib && tilewright-opt ../beside.mlir --tile-link | FileCheck %s
// RUN: tilewright-opt %t/own/beside.mlir --tile-link | FileCheck %s
// RUN: cd %t && tilewright-opt own/beside.mlir --pass-pipeline='builtin.module(tile-link)' | FileCheck %s
// CHECK: func.func private @once
//
// The source name given by a caller takes precedence over the file; a folder may have the name of the folder of
// embedded files.
// RUN: not tilewright-opt own/beside.mlir --tile-link='source=other/x.mlir' 2>&1 | FileCheck %s --check-prefix=SOURCE
// SOURCE: error: 'tile.link' op must name a file in the folder of this one, or of the compiler's library, but got "lib/once.mlir", and there is no 'other/lib/once.mlir'; correct the path
// RUN: cp -r own '<tilewright>' && tilewright-opt '<tilewright>/beside.mlir' --tile-link | FileCheck %s
// RUN: cp -r own 'a folder' && tilewright-opt 'a folder/beside.mlir' --tile-link | FileCheck %s
// RUN: tilewrightc 'a folder/beside.mlir' | FileCheck %s --check-prefix=KERNEL
// KERNEL: tile.kernel @main

//--- own/op.mlir.in
tile.link "secret.mlir" loc("FOLDER/other/x.mlir":1:1)
tile.kernel @main () grid(%i = 1) {
}
//--- own/module.mlir.in
module {
  tile.link "secret.mlir" loc("FOLDER/other/x.mlir":1:1)
  tile.kernel @main () grid(%i = 1) {
  }
} loc("FOLDER/other/x.mlir":0:0)
//--- own/embedded.mlir
tile.link "softmax.mlir" loc("<tilewright>/lib/forward.mlir":1:1)
//--- own/nested.mlir
tile.link "op.mlir"
//--- own/main.mlir
func.func private @secret() attributes {tile.replaceable} {
  return
}
//--- own/file_link.mlir
tile.link "out.mlir"
//--- own/folder_link.mlir
tile.link "folder/secret.mlir"
//--- own/inside.mlir
tile.link "./in.mlir"
func.func private @once(f32) -> f32
//--- own/beside.mlir
tile.link "lib/once.mlir"
tile.kernel @main (%s: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %s[0] : !tile.view<[?], f32> -> !tile.tile<[8], f32>
  %u = tile.map @once(%t) : (!tile.tile<[8], f32>) -> !tile.tile<[8], f32>
  tile.store %u, %s[0] : !tile.tile<[8], f32>, !tile.view<[?], f32>
}
//--- own/lib/once.mlir
func.func private @once(%x: f32) -> f32 {
  return %x : f32
}
//--- other/secret.mlir
func.func private @secret() {
  return
}
//--- other/x.mlir
module {
}
