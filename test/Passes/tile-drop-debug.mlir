// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-drop-debug --verify-diagnostics | FileCheck %s
// RUN: tilewright-opt %s --tile-drop-debug=keep | FileCheck %s --check-prefix=KEEP

// KEEP: tile.assert %{{.*}}, "few" at(%b) {instance = ["b"], place = "tile-drop-debug.mlir:[[#ASSERT:]]"} : i1
// KEEP: tile.print "t" %b, %{{.*}} : i32, tensor<8xf32> {instance = ["b"]}

// What only they used is removed with them.
// CHECK-LABEL: tile.kernel @k
// CHECK-NOT:     arith.addi
// CHECK:         arith.cmpi slt
// CHECK-NOT:     arith.cmpi
// CHECK-NOT:     tile.assert
// CHECK:         scf.if
// CHECK-NOT:     tile.print
// CHECK:         tile.store
tile.kernel @k(%x: !tile.view<[?], f32>, %n: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  %t = tile.load %x[0] : !tile.view<[?], f32> -> tensor<8xf32>
  %less = arith.cmpi slt, %n, %c1 : i32
  %c9 = arith.constant 9 : i32
  %more = arith.addi %n, %c9 : i32
  %fewer = arith.cmpi slt, %more, %c1 : i32
  // expected-warning @+1 {{'tile.assert' is left out of code for GPUs; compile with --debug-ops, or run the kernel on the CPU device or the simulator}}
  tile.assert %fewer, "few" : i1
  scf.if %less {
    // expected-warning @+1 {{'tile.print' is left out of code for GPUs; compile with --debug-ops, or run the kernel on the CPU device or the simulator}}
    tile.print "t" %t : tensor<8xf32>
    tile.store %t, %x[0] : tensor<8xf32>, !tile.view<[?], f32>
  }
}
