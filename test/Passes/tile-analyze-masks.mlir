// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The derived functions, tested by their values for constant operands: callers are added after the pass, inlined and
// folded. tile-analyze-masks-random.test checks the rules against brute force.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/masks.mlir --tile-analyze-masks -o %t/derived.mlir
// RUN: FileCheck %s --input-file=%t/derived.mlir
// RUN: FileCheck %s --input-file=%t/derived.mlir --check-prefix=SPANS
// RUN: sed '/^}$/d' %t/derived.mlir > %t/all.mlir
// RUN: cat %t/calls.mlir >> %t/all.mlir
// RUN: tilewright-opt %t/all.mlir --tile-inline-calls --canonicalize --symbol-dce | FileCheck %t/calls.mlir --check-prefix=VALUES
// RUN: tilewright-opt %t/masks.mlir --tile-analyze-masks --remark-format=emitRemark --remarks-filter=tile-analyze-masks -o %t/ignored.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: tilewright-opt %t/masks.mlir --tile-analyze-masks --canonicalize | FileCheck %s --check-prefix=BEGINS

// Both ranges of a causal mask are known to begin at the lower bound: then no part of a loop precedes the full blocks.
// Those of a window may begin later.
// BEGINS-LABEL: func.func private @causal_ranges(%{{[^:]*}}: i32, %{{[^:]*}}: i32,
// BEGINS-SAME:      %[[LOWER:[^:]*]]: i32,
// BEGINS:        return %[[LOWER]], %{{[^,]*}}, %[[LOWER]], %{{[^,]*}}, %{{[^,]*}} :

// Operations with no-wrap flags are not tested for wrapping: such a mask is tight in all launches. Then the ends of
// both ranges are also known: they follow the row by a distance of argument 4.
// BEGINS-LABEL: func.func private @promised_ranges({{.*}}i32 {tile.row_edge = array<i64: 4>}, i1)
// BEGINS:        %[[TRUE:.*]] = arith.constant true
// BEGINS-NOT:    2147483647
// BEGINS:        return {{.*}}, %[[TRUE]] :

// No block of a mask that depends on data is known to be full, and the function reports that.
// BEGINS-LABEL: func.func private @document_ranges(%{{[^:]*}}: i32, %{{[^:]*}}: i32,
// BEGINS-SAME:      %[[LOWER:[^:]*]]: i32,
// BEGINS:        return %{{[^,]*}}, %{{[^,]*}}, %[[LOWER]], %[[LOWER]], %{{[^,]*}} :

// The operands are the positions, followed by the other operands of the mask in order. Two loops with one mask share
// the function; with swapped positions, it is another function.
// CHECK:      func.func private @causal_ranges_0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32) -> (i32, i32, i32, i32{{.*}}, i1)
// CHECK-NOT:  call
// CHECK:      func.func private @causal_ranges(
// CHECK-NOT:  causal_ranges_1
// CHECK:      func.func private @document_ranges(%{{.*}}: i32, %{{.*}}: i32, %[[LOWER:.*]]: i32, %{{.*}}: i32, %{{.*}}: f32)
// CHECK:      tile.kernel @loops
// CHECK:        where @causal(against, block, %{{.*}} : i32) ranges @causal_ranges
// CHECK:        where @causal(against, block, %{{.*}} : i32) ranges @causal_ranges
// CHECK:        where @causal(block, against, %{{.*}} : i32) ranges @causal_ranges_0
// A loop without a mask gets no ranges; existing ranges remain.
// CHECK:        tile.for_blocks
// CHECK-NOT:      ranges
// CHECK:        where @window({{.*}}) ranges @my_ranges

// An ascending view is bounded by its values at the first and the last row, if it has enough elements. The other form
// of the mask, for which nothing is known about these positions, gives no remark.
// SPANS-LABEL: func.func private @spans(
// SPANS-NOT:    tile.equivalent
// SPANS-LABEL: func.func private @spans_ranges_{{[0-9]+}}(
// SPANS-NOT:    @key_begin
// SPANS:        tile.at @query_begin
// SPANS-NOT:    @key_begin
// SPANS:        return
// SPANS-LABEL: func.func private @spans_ranges(
// SPANS:        %[[ARRAY:.*]] = tile.captured @key_begin
// SPANS:        tile.dim %[[ARRAY]], 0
// SPANS:        tile.at @key_begin[%{{.*}}] : i32
// SPANS:        tile.at @key_begin[%{{.*}}] : i32
// SPANS:        tile.at @key_end[%{{.*}}] : i32
// SPANS:        tile.at @key_end[%{{.*}}] : i32
// SPANS-NOT:    @query_begin
// SPANS:        return

// The remark names only the operation at which information is lost, not its uses.
// REMARK-NOT:  remark:
// REMARK:      masks.mlir:[[#]]:{{.*}}: remark: {{.*}}Reason="tile.at depends on a position in a way that is not analyzed, so it neither excludes blocks nor makes them full"
// REMARK:      remark: {{.*}}tile.at depends on a position
// REMARK:      remark: {{.*}}arith.muli depends on a position
// REMARK-NOT:  remark:

//--- masks.mlir
func.func private @my_ranges(i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)

func.func private @causal(%i: i32, %j: i32, %shift: i32) -> i1 {
  %last = arith.addi %i, %shift : i32
  %keep = arith.cmpi sle, %j, %last : i32
  return %keep : i1
}
func.func private @promised(%i: i32, %j: i32, %shift: i32) -> i1 {
  %last = arith.addi %i, %shift overflow<nsw> : i32
  %ahead = arith.subi %j, %last overflow<nsw> : i32
  %zero = arith.constant 0 : i32
  %keep = arith.cmpi sle, %ahead, %zero : i32
  return %keep : i1
}
// i - left <= j <= i + right, where -1 is unlimited. Written so that it does not wrap.
func.func private @window(%i: i32, %j: i32, %left: i32, %right: i32) -> i1 {
  %zero = arith.constant 0 : i32
  %ahead = arith.subi %j, %i : i32
  %behind = arith.subi %i, %j : i32
  %left_open = arith.cmpi slt, %left, %zero : i32
  %left_near = arith.cmpi sle, %behind, %left : i32
  %left_ok = arith.ori %left_open, %left_near : i1
  %right_open = arith.cmpi slt, %right, %zero : i32
  %right_near = arith.cmpi sle, %ahead, %right : i32
  %right_ok = arith.select %right_open, %right_open, %right_near : i1
  %keep = arith.andi %left_ok, %right_ok : i1
  return %keep : i1
}
// The first keys, or a window: the union of two intervals.
func.func private @sink(%i: i32, %j: i32, %sinks: i32, %left: i32) -> i1 {
  %zero = arith.constant 0 : i32
  %near = func.call @window(%i, %j, %left, %zero) : (i32, i32, i32, i32) -> i1
  %sink = arith.cmpi slt, %j, %sinks : i32
  %keep = arith.ori %sink, %near : i1
  return %keep : i1
}
// Rows are pairs of a query and a head of its group.
func.func private @packed(%row: i32, %j: i32, %group: i32) -> i1 {
  %i = arith.divsi %row, %group : i32
  %past = arith.cmpi sgt, %j, %i : i32
  %true = arith.constant true
  %keep = arith.xori %past, %true : i1
  return %keep : i1
}
tile.capture @documents : !tile.view<[?], i32>
tile.capture @prefix : !tile.view<[?], i32>
// Data selected by positions is unknown, but causality still bounds the range.
func.func private @document(%i: i32, %j: i32, %unused: f32) -> i1 {
  %a = tile.at @documents[%i] : i32
  %b = tile.at @documents[%j] : i32
  %same = arith.cmpi eq, %a, %b : i32
  %causal = arith.cmpi uge, %i, %j : i32
  %keep = arith.andi %same, %causal : i1
  return %keep : i1
}
tile.capture @key_begin {tile.ascending} : !tile.view<[?], i32>
tile.capture @key_end {tile.ascending} : !tile.view<[?], i32>
tile.capture @query_begin {tile.ascending} : !tile.view<[?], i32>
func.func private @spans(%i: i32, %j: i32) -> i1 {
  %begin = tile.at @key_begin[%i] : i32
  %end = tile.at @key_end[%i] : i32
  %begins = arith.cmpi sle, %begin, %j : i32
  %ends = arith.cmpi slt, %j, %end : i32
  %key_inside = arith.andi %begins, %ends : i1
  %first_query = tile.at @query_begin[%j] : i32
  %query_inside = arith.cmpi sle, %first_query, %i : i32
  %keep = tile.equivalent %key_inside, %query_inside : i1
  return %keep : i1
}
// Data that is equal for all pairs is read once.
func.func private @prefix_lm(%b: i32, %i: i32, %j: i32) -> i1 {
  %length = tile.at @prefix[%b] : i32
  %inside = arith.cmpi slt, %j, %length : i32
  %causal = arith.cmpi sle, %j, %i : i32
  %keep = scf.if %inside -> i1 {
    %true = arith.constant true
    scf.yield %true : i1
  } else {
    scf.yield %causal : i1
  }
  return %keep : i1
}
// Both sides keep keys from the first on: their union has no gap, so each block before its end holds a kept pair.
func.func private @kept_prefix(%i: i32, %j: i32, %length: i32) -> i1 {
  %inside = arith.cmpi slt, %j, %length : i32
  %causal = arith.cmpi sle, %j, %i : i32
  %keep = arith.ori %inside, %causal : i1
  return %keep : i1
}
// The promise of an ascending array is about the whole mask: the first side alone need not be tight, and the union is
// not, although both sides begin at key 0.
// BEGINS-LABEL: func.func private @promised_union_ranges(
// BEGINS:        %[[FALSE:.*]] = arith.constant false
// BEGINS:        return {{.*}}, %[[FALSE]] :
func.func private @promised_union(%i: i32, %j: i32) -> i1 {
  %end = tile.at @query_begin[%i] : i32
  %inside = arith.cmpi slt, %j, %end : i32
  %causal = arith.cmpi sle, %j, %i : i32
  %keep = arith.ori %inside, %causal : i1
  return %keep : i1
}
// A gap between the sides.
func.func private @ends(%i: i32, %j: i32, %length: i32) -> i1 {
  %inside = arith.cmpi slt, %j, %length : i32
  %ahead = arith.cmpi sge, %j, %i : i32
  %keep = arith.ori %inside, %ahead : i1
  return %keep : i1
}
// The last row keeps most of the union, the first row most of what is not ahead of it.
func.func private @prefix_ahead(%i: i32, %j: i32, %length: i32) -> i1 {
  %kept = func.call @kept_prefix(%i, %j, %length) : (i32, i32, i32) -> i1
  %ahead = arith.cmpi sge, %j, %i : i32
  %keep = arith.andi %kept, %ahead : i1
  return %keep : i1
}
func.func private @square(%i: i32, %j: i32) -> i1 {
  %jj = arith.muli %j, %j : i32
  %keep = arith.cmpi sle, %jj, %i : i32
  return %keep : i1
}

tile.kernel @loops(%n: i32, %b: i32, %x: f32) grid(%i = 1) {
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @causal(against, block, %b : i32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @causal(against, block, %n : i32) keep %keep : tensor<8x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @causal(block, against, %b : i32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @window(against, block, %b, %b : i32, i32) ranges @my_ranges keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @window(against, block, %b, %b : i32, i32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @sink(against, block, %b, %b : i32, i32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @packed(against, block, %b : i32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @document(against, block, %x : f32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @prefix_lm(%b, against, block : i32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @promised(against, block, %b : i32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @kept_prefix(against, block, %b : i32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @ends(against, block, %b : i32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @prefix_ahead(against, block, %b : i32) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @promised_union(against, block) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @square(against, block) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @spans(against, block) keep %keep : tensor<4x4xi1> { tile.yield }
  tile.for_blocks %c in (%b to %n) against (%b to %n)
      where @spans(block, against) keep %keep : tensor<4x4xi1> { tile.yield }
}
//--- calls.mlir
  // Rows 64 .. 127: keys up to 127 may be kept, all rows keep keys up to 64.
  // VALUES-LABEL: @case0(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C65:.*]] = arith.constant 65 : i32
  // VALUES-DAG: %[[C128:.*]] = arith.constant 128 : i32
  // VALUES: return %[[C0]], %[[C128]], %[[C0]], %[[C65]], %[[TIGHT:.*]] :
  func.func @case0() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 0 : i32
    %r:5 = func.call @causal_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // With a negative shift, the first rows have no keys.
  // VALUES-LABEL: @case1(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES: return %[[C0]], %[[C0]], %[[C0]], %[[C0]], %[[TIGHT:.*]] :
  func.func @case1() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 0 : i32
    %1 = arith.constant 64 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant -100 : i32
    %r:5 = func.call @causal_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Keys end before the diagonal.
  // VALUES-LABEL: @case2(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C50:.*]] = arith.constant 50 : i32
  // VALUES: return %[[C0]], %[[C50]], %[[C0]], %[[C50]], %[[TIGHT:.*]] :
  func.func @case2() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 50 : i32
    %4 = arith.constant 0 : i32
    %r:5 = func.call @causal_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // No keys.
  // VALUES-LABEL: @case4(
  // VALUES-DAG: %[[C10:.*]] = arith.constant 10 : i32
  // VALUES: return %[[C10]], %[[C10]], %[[C10]], %[[C10]], %[[TIGHT:.*]] :
  func.func @case4() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 0 : i32
    %1 = arith.constant 64 : i32
    %2 = arith.constant 10 : i32
    %3 = arith.constant 10 : i32
    %4 = arith.constant 0 : i32
    %r:5 = func.call @causal_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Keys that end before they begin.
  // VALUES-LABEL: @case5(
  // VALUES-DAG: %[[C10:.*]] = arith.constant 10 : i32
  // VALUES: return %[[C10]], %[[C10]], %[[C10]], %[[C10]], %[[TIGHT:.*]] :
  func.func @case5() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 0 : i32
    %1 = arith.constant 64 : i32
    %2 = arith.constant 10 : i32
    %3 = arith.constant -5 : i32
    %4 = arith.constant 0 : i32
    %r:5 = func.call @causal_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // i + shift wraps in the mask itself: the function excludes and guarantees nothing.
  // VALUES-LABEL: @case6(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C1000:.*]] = arith.constant 1000 : i32
  // VALUES: return %[[C0]], %[[C1000]], %[[C0]], %[[C0]], %[[TIGHT:.*]] :
  func.func @case6() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 2147483647 : i32
    %r:5 = func.call @causal_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Blocks of queries against keys 64 .. 127.
  // VALUES-LABEL: @case7(
  // VALUES-DAG: %[[C64:.*]] = arith.constant 64 : i32
  // VALUES-DAG: %[[C127:.*]] = arith.constant 127 : i32
  // VALUES-DAG: %[[C1000:.*]] = arith.constant 1000 : i32
  // VALUES: return %[[C64]], %[[C1000]], %[[C127]], %[[C1000]], %[[TIGHT:.*]] :
  func.func @case7() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 0 : i32
    %r:5 = func.call @causal_ranges_0(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Both sides.
  // VALUES-LABEL: @case8(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C48:.*]] = arith.constant 48 : i32
  // VALUES-DAG: %[[C136:.*]] = arith.constant 136 : i32
  // VALUES: return %[[C48]], %[[C136]], %[[C0]], %[[C0]], %[[TIGHT:.*]] :
  func.func @case8() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 16 : i32
    %5 = arith.constant 8 : i32
    %r:5 = func.call @window_ranges(%0, %1, %2, %3, %4, %5) : (i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Large enough for a full block.
  // VALUES-LABEL: @case9(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C27:.*]] = arith.constant 27 : i32
  // VALUES-DAG: %[[C145:.*]] = arith.constant 145 : i32
  // VALUES-DAG: %[[C208:.*]] = arith.constant 208 : i32
  // VALUES: return %[[C0]], %[[C208]], %[[C27]], %[[C145]], %[[TIGHT:.*]] :
  func.func @case9() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 100 : i32
    %5 = arith.constant 80 : i32
    %r:5 = func.call @window_ranges(%0, %1, %2, %3, %4, %5) : (i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // An unlimited side, and a side with the largest number.
  // VALUES-LABEL: @case10(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C1000:.*]] = arith.constant 1000 : i32
  // VALUES: return %[[C0]], %[[C1000]], %[[C0]], %[[C1000]], %[[TIGHT:.*]] :
  func.func @case10() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant -1 : i32
    %5 = arith.constant 2147483647 : i32
    %r:5 = func.call @window_ranges(%0, %1, %2, %3, %4, %5) : (i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Disjoint sinks and window: their hull, and the longer guaranteed interval.
  // VALUES-LABEL: @case11(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C4:.*]] = arith.constant 4 : i32
  // VALUES-DAG: %[[C128:.*]] = arith.constant 128 : i32
  // VALUES: return %[[C0]], %[[C128]], %[[C0]], %[[C4]], %[[TIGHT:.*]] :
  func.func @case11() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 4 : i32
    %5 = arith.constant 16 : i32
    %r:5 = func.call @sink_ranges(%0, %1, %2, %3, %4, %5) : (i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Sinks and window overlap.
  // VALUES-LABEL: @case12(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C65:.*]] = arith.constant 65 : i32
  // VALUES-DAG: %[[C128:.*]] = arith.constant 128 : i32
  // VALUES: return %[[C0]], %[[C128]], %[[C0]], %[[C65]], %[[TIGHT:.*]] :
  func.func @case12() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 60 : i32
    %5 = arith.constant 70 : i32
    %r:5 = func.call @sink_ranges(%0, %1, %2, %3, %4, %5) : (i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Groups of 4.
  // VALUES-LABEL: @case13(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C17:.*]] = arith.constant 17 : i32
  // VALUES-DAG: %[[C32:.*]] = arith.constant 32 : i32
  // VALUES: return %[[C0]], %[[C32]], %[[C0]], %[[C17]], %[[TIGHT:.*]] :
  func.func @case13() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 4 : i32
    %r:5 = func.call @packed_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // A group of 0, for which the mask is undefined, does not trap.
  // VALUES-LABEL: @case14(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C1000:.*]] = arith.constant 1000 : i32
  // VALUES: return %[[C0]], %[[C1000]], %[[C0]], %[[C0]], %[[TIGHT:.*]] :
  func.func @case14() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 0 : i32
    %r:5 = func.call @packed_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Only causality is known, which guarantees no kept pair.
  // VALUES-LABEL: @case15(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C128:.*]] = arith.constant 128 : i32
  // VALUES: return %[[C0]], %[[C128]], %[[C0]], %[[C0]], %[[TIGHT:.*]] :
  func.func @case15() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 0.0 : f32
    %r:5 = func.call @document_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, f32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Nothing is known.
  // VALUES-LABEL: @case16(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C1000:.*]] = arith.constant 1000 : i32
  // VALUES: return %[[C0]], %[[C1000]], %[[C0]], %[[C0]], %[[TIGHT:.*]] :
  func.func @case16() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %r:5 = func.call @square_ranges(%0, %1, %2, %3) : (i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // A prefix of 100 keys.
  // VALUES-LABEL: @case17(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C100:.*]] = arith.constant 100 : i32
  // VALUES-DAG: %[[C128:.*]] = arith.constant 128 : i32
  // VALUES-DAG: %[[TIGHT:.*]] = arith.constant true
  // VALUES: return %[[C0]], %[[C128]], %[[C0]], %[[C100]], %[[TIGHT]] :
  func.func @case17() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 100 : i32
    %r:5 = func.call @kept_prefix_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // One that ends behind the diagonal.
  // VALUES-LABEL: @case18(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C500:.*]] = arith.constant 500 : i32
  // VALUES-DAG: %[[TIGHT:.*]] = arith.constant true
  // VALUES: return %[[C0]], %[[C500]], %[[C0]], %[[C500]], %[[TIGHT]] :
  func.func @case18() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 500 : i32
    %r:5 = func.call @kept_prefix_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Keys 10 to 63 are in the hull, but not kept.
  // VALUES-LABEL: @case19(
  // VALUES-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // VALUES-DAG: %[[C127:.*]] = arith.constant 127 : i32
  // VALUES-DAG: %[[C1000:.*]] = arith.constant 1000 : i32
  // VALUES-DAG: %[[TIGHT:.*]] = arith.constant false
  // VALUES: return %[[C0]], %[[C1000]], %[[C127]], %[[C1000]], %[[TIGHT]] :
  func.func @case19() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 10 : i32
    %r:5 = func.call @ends_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
  // Kept keys are at most 127 or 499, and at least 64; which of them, is not known.
  // VALUES-LABEL: @case20(
  // VALUES-DAG: %[[C64:.*]] = arith.constant 64 : i32
  // VALUES-DAG: %[[C127:.*]] = arith.constant 127 : i32
  // VALUES-DAG: %[[C500:.*]] = arith.constant 500 : i32
  // VALUES-DAG: %[[TIGHT:.*]] = arith.constant false
  // VALUES: return %[[C64]], %[[C500]], %[[C127]], %[[C500]], %[[TIGHT]] :
  func.func @case20() -> (i32, i32, i32, i32, i1) {
    %0 = arith.constant 64 : i32
    %1 = arith.constant 128 : i32
    %2 = arith.constant 0 : i32
    %3 = arith.constant 1000 : i32
    %4 = arith.constant 500 : i32
    %r:5 = func.call @prefix_ahead_ranges(%0, %1, %2, %3, %4) : (i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
    return %r#0, %r#1, %r#2, %r#3, %r#4 : i32, i32, i32, i32, i1
  }
}
