// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What tile-link makes of tile.fill: a launch of a kernel that stores the value, over blocks of the last two dimensions.
//
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s --check-prefix=TEXT
// RUN: tilewright-opt %s --tile-link | FileCheck %s

// TEXT: tile.fill %y, 0.000000e+00 : !tile.view<[?, ?, D], T>
// TEXT: tile.fill %most, minus_inf when (MAXIMA) : !tile.view<[?], f32>
// TEXT: tile.fill %{{.*}}, 7 : !tile.view<[?, ?], i32>

// CHECK-LABEL: tile.program @p
// CHECK:         tile.launch @fill_y(%y) {{ *}}: !tile.view<[?, ?, D], T>
// CHECK-NEXT:    tile.launch @fill_most(%most) {{ *}}when (MAXIMA) : !tile.view<[?], f32>
// CHECK-NEXT:    tile.launch @fill_workspace(%{{.*}}) {{ *}}: !tile.view<[?, ?], i32>
// CHECK-NEXT:    tile.launch @fill_y_0(%y) {{ *}}: !tile.view<[?, ?, D], T>
tile.program @p params(D: int, T: type in [f16, f32], MAXIMA: flag = true)
    (%y: !tile.view<[?, ?, D], T>, %most: !tile.view<[?], f32> when (MAXIMA)) {
  %counts = tile.workspace [dim(y, 0), 3] : !tile.view<[?, ?], i32>
  tile.fill %y, 0
  tile.fill %most, minus_inf when (MAXIMA)
  tile.fill %counts, 7
  tile.fill %y, 1.5 : !tile.view<[?, ?, D], T>
}

// CHECK-LABEL: tile.kernel @fill_workspace
// CHECK-NEXT:    (%workspace: !tile.view<[?, ?], i32>)
// CHECK:         tile.constant 7 : !tile.tile<[16, 256], i32>

// CHECK-LABEL: tile.kernel @fill_most
// CHECK-NEXT:    (%most: optional !tile.view<[?], f32>)
// CHECK-NEXT:    grid(%at0 = ceildiv(dim(most, 0), 1024))
// CHECK:         tile.constant minus_inf : !tile.tile<[1024], f32>

// CHECK-LABEL: tile.kernel @fill_y
// CHECK-NEXT:    params(D: int, T: type in [f16, f32])
// CHECK-NEXT:    (%y: !tile.view<[?, ?, D], T>)
// CHECK-NEXT:    grid(%at2 = ceildiv(dim(y, 2), 256), %at1 = ceildiv(dim(y, 1), 16), %at0 = dim(y, 0))
// CHECK-NEXT:    %{{.*}} = tile.constant 0.000000e+00 : !tile.tile<[16, 256], T>
// CHECK:         tile.store %{{.*}}, %y[%at0, %{{.*}}, %{{.*}}] : !tile.tile<[16, 256], T>, !tile.view<[?, ?, D], T>
