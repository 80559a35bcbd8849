// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Type aliases of files that tile.link names.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/main.mlir --tile-link | FileCheck %s
//
// A text has those of the files that it links, and of those that they link. Its own come first, as in a linked file
// those of that file do.
// CHECK:      func.func private @of_file(%{{.*}}: !tile.tile<[M], i32>, %{{.*}}: !tile.tile<[K], f64>)
// CHECK:      tile.kernel @main
// CHECK-NEXT:   params(M: int)
// CHECK-NEXT:   (%{{.*}}: !tile.view<[?, M], f32>)
// CHECK:        tile.load %{{.*}}[0, 0] : !tile.view<[?, M], f32> -> !tile.tile<[M], f32>
//
// Places in the text stay as they are.
// RUN: not tilewright-opt %t/error.mlir 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: error.mlir:4:32: error: custom op 'tile.expr' a value of type '!tile.tile<[M], f32>' is required here, but got 'f32'; write full(...)
// RUN: not tilewrightc %t/error.mlir --emit=tile 2>&1 | FileCheck %s --check-prefix=PLACE
//
// An alias that nothing defines, or that only a comment or a string mentions.
// RUN: not tilewright-opt %t/unknown.mlir 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: unknown.mlir:3:{{[0-9]+}}: error: undefined symbol alias id 'nothing'
//
// Two files that disagree; what nothing uses may differ.
// RUN: not tilewright-opt %t/differ.mlir 2>&1 | FileCheck %s --check-prefix=DIFFER
// DIFFER: differ.mlir', line 4: '!row' must be one type in all linked files, but got two, in '{{.*}}file.mlir' and '{{.*}}types.mlir'; define it in this file
// RUN: not tilewrightc %t/differ.mlir --emit=tile 2>&1 | FileCheck %s --check-prefix=DIFFERENCE
// DIFFERENCE: differ.mlir:4:26: error: '!row' must be one type in all linked files, but got two, in '{{.*}}file.mlir' and '{{.*}}types.mlir'; define it in this file
//
// A linked file with the same fault; files in a cycle, and one that is missing.
// RUN: not tilewright-opt %t/inner.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=INNER
// INNER: differ.mlir:4:26: error: '!row' must be one type in all linked files
// RUN: not tilewright-opt %t/round.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=ROUND
// ROUND: must not make files link each other in a cycle
// RUN: not tilewright-opt %t/missing.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: missing.mlir:1:1: error: 'tile.link' op must name a file
// RUN: not tilewrightc %t/lost.mlir --emit=tile 2>&1 | FileCheck %s --check-prefix=LOST
// LOST: lost.mlir:2:26: error: '!row' must be defined in this file or in one that is linked, but 'nothing.mlir' was not found; put it next to the file that links it
//
// The compiler's own library, for a text from memory.
// RUN: tilewright-opt --tile-link < %t/embedded.mlir | FileCheck %s --check-prefix=EMBEDDED
// EMBEDDED: func.func private @first(%{{.*}}: !tile.tile<[BLOCK_M, DP], T>)

//--- types.mlir
// !row is not this.
!element = f32
!row = !tile.tile<[M], !element>
!rows =
    !tile.view<[?,
                M], !element>
!unused = !tile.tile<[Z], f32>

//--- file.mlir
tile.link "types.mlir"
!row = !tile.tile<[M], i32> // another type
!unused = !tile.tile<[Z], f64>
!own = !tile.tile<[J], f64>
func.func private @of_file(%x: !row, %y: !tile.tile<[K], f64>) {
  return
}

//--- main.mlir
tile.link "file.mlir"
tile.link "types.mlir"
!row = !tile.tile<[M], f32>
!own = !tile.tile<[K], f64>
tile.kernel @main params(M: int) (%x: !rows) grid(%i = 1) {
  %0 = tile.load %x[0, 0] : !rows -> !row
}
func.func private @of_file(!tile.tile<[M], i32>, !own)
tile.kernel @other params(M: int, K: int) (%x: !rows) grid(%i = 1) {
  %x_tile = tile.constant 0 : !tile.tile<[M], i32>
  %y = tile.constant 0 : !own
  func.call @of_file(%x_tile, %y) : (!tile.tile<[M], i32>, !own) -> ()
}

//--- error.mlir
// tile.link "no.mlir"
tile.link "types.mlir"
func.func @f(%x: !row, %y: f32) {
  %0 = tile.expr (%x : !row) + %y : !row
  return
}

//--- unknown.mlir
tile.link "types.mlir"
// !element
func.func @"!row"(%x: !nothing)

//--- differ.mlir
tile.link "file.mlir"
tile.link "types.mlir"

func.func private @f(%x: !row) {
  return
}

//--- inner.mlir
tile.link "differ.mlir"
func.func private @f(!tile.tile<[M], f32>)

//--- round.mlir
tile.link "round.mlir"
func.func private @f(!tile.tile<[M], f32>)

//--- missing.mlir
tile.link "nothing.mlir"
func.func private @f(!tile.tile<[M], f32>)

//--- lost.mlir
tile.link "nothing.mlir"
func.func private @f(%x: !row)

//--- embedded.mlir
tile.link "lib/types.mlir"
func.func private @first(%x: !q) -> !q {
  return %x : !q
}
