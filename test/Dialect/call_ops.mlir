// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls of programs.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s

!x = !tile.view<[?, N], f32>

// CHECK-LABEL: tile.program @caller
// CHECK:         tile.call @nothing()
// CHECK:         %[[ALL:.*]]:2 = tile.call @rows(x = %a, y = %a) with (SIZE = N * 2) : !tile.view<[?, N], f32>, !tile.view<[?, N], f32> -> !tile.view<[?, N], f32>, !tile.view<[?, N], f32>
// CHECK:         tile.call @rows(x = %[[ALL]]#0)
tile.program @caller params(N: int) (%a: !x, %y: !x) {
  tile.call @nothing()
  %all:2 = tile.call @rows(x = %a, y = %a) with (SIZE = N * 2) : !x, !x -> !x, !x
  %again:2 = tile.call @rows(x = %all#0) : !x -> !x, !x
}

// CHECK: tile.return %x, %y : !tile.view<[?, N], f32>, !tile.view<[?, N], f32>
tile.program @rows params(N: int, SIZE: int = 4) (%x: !x, %y: !x, %z: optional !x, %w: !x when (SIZE > N)) {
  tile.return %x, %y : !x, !x
}

tile.program @nothing () {}
