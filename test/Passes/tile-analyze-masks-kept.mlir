// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.kept_range becomes a call of a derived function. tile-analyze-masks-random.test checks the functions by brute
// force; here are their form, and what is refused.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/kept.mlir --tile-analyze-masks | FileCheck %t/kept.mlir
// RUN: tilewright-opt %t/kept.mlir --tile-analyze-masks --tile-inline-calls --canonicalize --cse --symbol-dce | FileCheck %t/kept.mlir --check-prefix=FOLDED
// RUN: tilewright-opt %t/refused.mlir --tile-analyze-masks -split-input-file -verify-diagnostics

//--- kept.mlir
!v = !tile.view<[?], i32>
// Positions that exist do not wrap.
func.func private @attends(%i: i32, %j: i32, %shift: i32, %left: i32, %right: i32) -> i1 {
  %c0 = arith.constant 0 : i32
  %diagonal = arith.addi %i, %shift overflow<nsw> : i32
  %ahead = arith.subi %j, %diagonal overflow<nsw> : i32
  %left_open = arith.cmpi slt, %left, %c0 : i32
  %minus_left = arith.subi %c0, %left : i32
  %near_left = arith.cmpi sge, %ahead, %minus_left : i32
  %left_ok = arith.ori %left_open, %near_left : i1
  %right_open = arith.cmpi slt, %right, %c0 : i32
  %near_right = arith.cmpi sle, %ahead, %right : i32
  %right_ok = arith.ori %right_open, %near_right : i1
  %keep = arith.andi %left_ok, %right_ok : i1
  return %keep : i1
}
func.func private @causal(%i: i32, %j: i32, %shift: i32) -> i1 {
  %c0 = arith.constant 0 : i32
  %diagonal = arith.addi %i, %shift overflow<nsw> : i32
  %ahead = arith.subi %j, %diagonal overflow<nsw> : i32
  %keep = arith.cmpi sle, %ahead, %c0 : i32
  return %keep : i1
}
tile.capture @ends {tile.ascending} : !v
func.func private @in_order(%i: i32, %j: i32) -> i1 {
  %end = tile.at @ends[%i] : i32
  %keep = arith.cmpi slt, %j, %end : i32
  return %keep : i1
}

// The bounds of both intervals and the mask's other operands. Two operations with one mask and the same roles share the
// function, not with other roles, nor with a loop.
// CHECK-LABEL: func.func private @causal_kept_{{[0-9]+}}(
// CHECK-LABEL: func.func private @causal_kept(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32) -> (i32, i32)
// CHECK-LABEL: func.func private @causal_ranges(
// CHECK-NOT:   causal_kept
// CHECK-LABEL: tile.kernel @keys
// CHECK:         tile.for_blocks
// CHECK-NEXT:      where @causal(against, block, %s : i32) ranges @causal_ranges
// CHECK:         func.call @causal_kept(%m, %end, %c, %n, %s) :
// CHECK:         func.call @causal_kept(%c, %n, %c, %end, %s) :
// CHECK:         func.call @causal_kept_{{[0-9]+}}(%m, %end, %c, %n, %s) :
// CHECK-NOT:     tile.kept_range

// In 32 bits, where the mask has an upper limit alone: the keys that lie ahead of the last query are not kept. There are
// none without queries.
// FOLDED-LABEL:   tile.kernel @causal_keys
// FOLDED-DAG:       %[[ZERO:.*]] = arith.constant 0 : i32
// FOLDED-DAG:       %[[TOP:.*]] = arith.maxsi %n, %[[ZERO]] : i32
// FOLDED-DAG:       %[[BEHIND:.*]] = arith.subi %[[TOP]], %s : i32
// FOLDED-NEXT:      %[[AHEAD:.*]] = arith.subi %[[BEHIND]], %end : i32
// FOLDED-NEXT:      %[[COUNT:.*]] = arith.maxsi %[[AHEAD]], %[[ZERO]] : i32
// FOLDED-NEXT:      %[[END:.*]] = arith.subi %[[TOP]], %[[COUNT]] : i32
// FOLDED-NEXT:      %[[ANY:.*]] = arith.cmpi slt, %m, %end : i32
// FOLDED-NEXT:      %[[LIMIT:.*]] = arith.select %[[ANY]], %[[END]], %[[ZERO]] : i32
// FOLDED-NEXT:      tile.full %[[LIMIT]] : tensor<1xi32>
// FOLDED-NEXT:      tile.store %{{.*}}, %x[%[[ZERO]]]

// A lower bound that is not known: no difference may wrap.
// FOLDED-LABEL:   tile.kernel @keys_from
// FOLDED:           %[[TOP:.*]] = arith.maxsi %c, %n : i32
// FOLDED:           %[[COUNT:.*]] = arith.maxsi %{{.*}}, %{{.*}} : i32
// FOLDED-NEXT:      %[[MOST:.*]] = arith.subi %[[TOP]], %c : i32
// FOLDED-NEXT:      %[[LESS:.*]] = arith.minui %[[COUNT]], %[[MOST]] : i32
// FOLDED-NEXT:      arith.subi %[[TOP]], %[[LESS]] : i32

// A block of a loop has rows, if it does not wrap: no test of its own.
// FOLDED-LABEL:   tile.kernel @keys_of_blocks
// FOLDED:           tile.for_blocks
// FOLDED-NOT:         arith.cmpi
// FOLDED:             tile.store
// FOLDED:           tile.for_blocks
// FOLDED:             arith.cmpi slt, %{{.*}}, %{{.*}} : i32
// FOLDED:             tile.store

// A window excludes nothing where it is open, so no conflict of its sides is tested.
// FOLDED-LABEL:   tile.kernel @window_keys
// FOLDED-NOT:       i64
// FOLDED-NOT:       arith.andi
// FOLDED:           tile.store

// Ascending captures promise tight limits.
// FOLDED-LABEL:   tile.kernel @promised_keys
// FOLDED:           tile.at @ends[
// FOLDED:           tile.store

// Without a mask: all, unless there is no row.
// FOLDED-LABEL:   tile.kernel @all_keys
// FOLDED:      %[[ANY:.*]] = arith.cmpi slt, %m, %end : i32
// FOLDED-NEXT:      %[[LIMIT:.*]] = arith.select %[[ANY]], %n, %c : i32
// FOLDED-NEXT:      tile.full %[[LIMIT]] : tensor<1xi32>
// FOLDED-NEXT:      tile.store %{{.*}}, %x[%c]
tile.kernel @keys(%n: i32, %c: i32, %m: i32, %end: i32, %s: i32, %x: !v) grid(%i = 1) {
  tile.for_blocks %b in (%c to %n) against (%m to %end)
      where @causal(against, block, %s : i32) keep %keep : tensor<4x4xi1> {}
  %a0, %b0 = tile.kept_range in (%c to %n) against (%m to %end) where @causal(against, block, %s : i32)
  %a1, %b1 = tile.kept_range in (%c to %end) against (%c to %n) where @causal(against, block, %s : i32)
  %a2, %b2 = tile.kept_range in (%c to %n) against (%m to %end) where @causal(block, against, %s : i32)
}
tile.kernel @causal_keys(%n: i32, %m: i32, %end: i32, %s: i32, %x: !v) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %a, %b = tile.kept_range in (%c0 to %n) against (%m to %end) where @causal(against, block, %s : i32)
  %t = tile.full %b : tensor<1xi32>
  tile.store %t, %x[%a] : tensor<1xi32>, !v
}
tile.kernel @keys_from(%n: i32, %c: i32, %m: i32, %end: i32, %s: i32, %x: !v) grid(%i = 1) {
  %a, %b = tile.kept_range in (%c to %n) against (%m to %end) where @causal(against, block, %s : i32)
  %t = tile.full %b : tensor<1xi32>
  tile.store %t, %x[%a] : tensor<1xi32>, !v
}
tile.kernel @keys_of_blocks(%n: i32, %rows: i32, %s: i32, %x: !v) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c4 = arith.constant 4 : i32
  tile.for_blocks %m in (%c0 to %rows) against (%c0 to %n) keep %keep : tensor<4x4xi1> {
    %behind = arith.addi %m, %c4 overflow<nsw> : i32
    %end = arith.minsi %behind, %rows : i32
    %a, %b = tile.kept_range in (%c0 to %n) against (%m to %end) where @causal(against, block, %s : i32)
    %t = tile.full %b : tensor<1xi32>
    tile.store %t, %x[%m] : tensor<1xi32>, !v
  }
  tile.for_blocks %m in (%c0 to %rows) against (%c0 to %n) keep %keep : tensor<4x4xi1> {
    %behind = arith.addi %m, %c4 : i32
    %end = arith.minsi %behind, %rows : i32
    %a, %b = tile.kept_range in (%c0 to %n) against (%m to %end) where @causal(against, block, %s : i32)
    %t = tile.full %b : tensor<1xi32>
    tile.store %t, %x[%m] : tensor<1xi32>, !v
  }
}
tile.kernel @window_keys(%n: i32, %m: i32, %end: i32, %s: i32, %l: i32, %r: i32, %x: !v) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %a, %b = tile.kept_range in (%c0 to %n) against (%m to %end)
      where @attends(against, block, %s, %l, %r : i32, i32, i32)
  %t = tile.full %b : tensor<1xi32>
  tile.store %t, %x[%a] : tensor<1xi32>, !v
}
tile.kernel @promised_keys(%n: i32, %m: i32, %end: i32, %x: !v) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %a, %b = tile.kept_range in (%c0 to %n) against (%m to %end) where @in_order(against, block)
  %t = tile.full %b : tensor<1xi32>
  tile.store %t, %x[%a] : tensor<1xi32>, !v
}
tile.kernel @all_keys(%n: i32, %c: i32, %m: i32, %end: i32, %x: !v) grid(%i = 1) {
  %a, %b = tile.kept_range in (%c to %n) against (%m to %end)
  %t = tile.full %b : tensor<1xi32>
  tile.store %t, %x[%a] : tensor<1xi32>, !v
}

//--- refused.mlir
// A mask that depends on data may keep no position between its limits.
tile.capture @documents : !tile.view<[?], i32>
func.func private @document(%i: i32, %j: i32) -> i1 {
  // expected-note @+1 {{'tile.at' depends on a position in a way that is not analyzed}}
  %a = tile.at @documents[%i] : i32
  // expected-note @+1 {{'tile.at' depends on a position in a way that is not analyzed}}
  %b = tile.at @documents[%j] : i32
  %same = arith.cmpi eq, %a, %b : i32
  return %same : i1
}
tile.kernel @k(%n: i32) grid(%i = 1) {
  // expected-error @+1 {{'tile.kept_range' op needs a mask that keeps each position between its limits for some position of 'against', but this is not known of @document when the kernel is compiled; write it as a conjunction of comparisons of sums of positions, marked overflow<nsw>}}
  %0, %1 = tile.kept_range in (%i to %n) against (%i to %n) where @document(against, block)
}

// -----

// A sum that may wrap is tight in some launches only.
func.func private @wraps(%i: i32, %j: i32, %shift: i32) -> i1 {
  %last = arith.addi %i, %shift : i32
  %keep = arith.cmpi sle, %j, %last : i32
  return %keep : i1
}
tile.kernel @k(%n: i32) grid(%i = 1) {
  // expected-error @+1 {{but this is not known of @wraps when the kernel is compiled}}
  %0, %1 = tile.kept_range in (%i to %n) against (%i to %n) where @wraps(against, block, %n : i32)
}

// -----

// Two intervals with a gap.
func.func private @ends(%i: i32, %j: i32, %length: i32) -> i1 {
  %inside = arith.cmpi slt, %j, %length : i32
  %ahead = arith.cmpi sge, %j, %i : i32
  %keep = arith.ori %inside, %ahead : i1
  return %keep : i1
}
tile.kernel @k(%n: i32) grid(%i = 1) {
  // expected-error @+1 {{but this is not known of @ends when the kernel is compiled}}
  %0, %1 = tile.kept_range in (%i to %n) against (%i to %n) where @ends(against, block, %n : i32)
}

// -----

// Rows by their remainder: those of a tile may not be all.
func.func private @by_remainder(%i: i32, %j: i32) -> i1 {
  %c64 = arith.constant 64 : i32
  %row = arith.remsi %i, %c64 : i32
  %keep = arith.cmpi sle, %j, %row : i32
  return %keep : i1
}
tile.kernel @k(%n: i32) grid(%i = 1) {
  // expected-error @+1 {{but this is not known of @by_remainder when the kernel is compiled}}
  %0, %1 = tile.kept_range in (%i to %n) against (%i to %n) where @by_remainder(against, block)
}

// -----

func.func private @elsewhere(i32, i32) -> i1
tile.kernel @k(%n: i32) grid(%i = 1) {
  // expected-error @+1 {{'tile.kept_range' op needs the body of its mask function @elsewhere, but got a declaration; link the file that defines it}}
  %0, %1 = tile.kept_range in (%i to %n) against (%i to %n) where @elsewhere(against, block)
}
