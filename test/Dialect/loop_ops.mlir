// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The block loop, on symbolic tiles and on tensors, tile.kept_range, tile.accumulate and tile.spread.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

func.func private @causal(i32, i32) -> i1
func.func private @windowed(!tile.param<T>, i32, i32, i32) -> i1
func.func private @bounds(i32, i32, i32, i32, !tile.param<T>, i32) -> (i32, i32, i32, i32, i1)

// A loop that carries nothing needs no yield.
// GENERIC: "tile.for_blocks"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) <{against_position = 0 : i64, block_position = 1 : i64,
// GENERIC-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>, order = #tile<block_order ascending>}> ({
// GENERIC: "tile.yield"() : () -> ()
// CHECK-LABEL: func.func @plain(
// CHECK: tile.for_blocks %[[BLOCK:.*]] in (%[[LO:.*]] to %[[HI:.*]]) against (%[[START:.*]] to %[[LIMIT:.*]])
// CHECK-NEXT: keep %{{.*}} : !tile.tile<[M, N], i1> {
// CHECK-NEXT: arith.addi %[[BLOCK]], %[[LO]] : i32
// CHECK-NEXT: }
func.func @plain(%lo: i32, %hi: i32, %start: i32, %limit: i32) {
  tile.for_blocks %n in (%lo to %hi) against (%start to %limit) keep %keep : !tile.tile<[M, N], i1> {
    %0 = arith.addi %n, %lo : i32
  }
  return
}

// A mask, carried values, and another order.
// CHECK-LABEL: func.func @masked(
// CHECK: %{{.*}}:2 = tile.for_blocks %{{.*}} in (%{{.*}} to %{{.*}}) against (%{{.*}} to %{{.*}}) descending
// CHECK-NEXT: where @causal(against, block)
// CHECK-NEXT: keep %[[KEEP:.*]] : tensor<4x8xi1>
// CHECK-NEXT: iter_args(%[[ACC:.*]] = %{{.*}} : tensor<4x8xf32>, %[[COUNT:.*]] = %{{.*}} : i32) {
// CHECK-NEXT: %[[NEXT:.*]] = tile.select %[[KEEP]], %[[ACC]], %[[ACC]] : tensor<4x8xi1>, tensor<4x8xf32>
// CHECK-NEXT: tile.yield %[[NEXT]], %[[COUNT]] : tensor<4x8xf32>, i32
func.func @masked(%n: i32, %zero: tensor<4x8xf32>) {
  %0:2 = tile.for_blocks %b in (%n to %n) against (%n to %n) descending
      where @causal(against, block) keep %keep : tensor<4x8xi1>
      iter_args(%acc = %zero : tensor<4x8xf32>, %count = %n : i32) {
    %1 = tile.select %keep, %acc, %acc : tensor<4x8xi1>, tensor<4x8xf32>
    tile.yield %1, %count : tensor<4x8xf32>, i32
  }
  return
}

// A mask of some bindings of the parameters.
// CHECK-LABEL: tile.kernel @masked_or_not
// CHECK: where @causal(against, block) when (and(MASKED, P > 1))
tile.kernel @masked_or_not params(MASKED: flag, P: int) () grid(%i = 1) {
  tile.for_blocks %b in (%i to %i) against (%i to %i) where @causal(against, block) when (and(MASKED, P > 1))
      keep %keep : tensor<4x8xi1> {
    %0 = arith.addi %b, %i : i32
  }
}

// An order that is known when the loop runs.
// GENERIC: operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 1, 0, 0>
// CHECK-LABEL: func.func @either_order(
// CHECK-SAME: %[[UP:.*]]: i32, %[[DOWN:.*]]: i1)
// CHECK-NEXT: tile.for_blocks %{{.*}} in (%[[UP]] to %[[UP]]) against (%[[UP]] to %[[UP]]) descending if %[[DOWN]]
// CHECK-NEXT: keep
func.func @either_order(%n: i32, %down: i1) {
  tile.for_blocks %b in (%n to %n) against (%n to %n) descending if %down keep %keep : tensor<4x8xi1> {
    %0 = arith.addi %b, %n : i32
  }
  return
}

// The positions may be any operands of the call; `ranges` follows the mask.
// GENERIC: against_position = 2 : i64, block_position = 1 : i64, mask = @windowed
// CHECK-LABEL: func.func @positions(
// CHECK: where @windowed(%{{.*}}, block, against, %{{.*}} : !tile.param<T>, i32) ranges @bounds
func.func @positions(%n: i32, %x: !tile.param<T>) {
  tile.for_blocks %b in (%n to %n) against (%n to %n)
      where @windowed(%x, block, against, %n : !tile.param<T>, i32) ranges @bounds
      keep %keep : !tile.tile<[M, N], i1> {}
  return
}

// tile.kept_range, with and without a mask.
// GENERIC-LABEL: sym_name = "kept"
// GENERIC: "tile.kept_range"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) <{against_position = 2 : i64, block_position = 1 : i64, mask = @windowed}>
// GENERIC-SAME: {note = "kept"} : (i32, i32, i32, i32, !tile.param<T>, i32) -> (i32, i32)
// GENERIC: "tile.kept_range"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) <{against_position = 0 : i64, block_position = 1 : i64, mask = @causal, mask_condition = #tile.expr<MASKED>}>
// CHECK-LABEL: func.func @kept(
// CHECK-SAME: %[[LO:[^:]*]]: i32, %[[HI:[^:]*]]: i32, %[[M:[^:]*]]: i32, %[[END:[^:]*]]: i32, %[[X:[^:]*]]: !tile.param<T>)
// CHECK-NEXT: %{{.*}}, %{{.*}} = tile.kept_range in (%[[LO]] to %[[HI]]) against (%[[M]] to %[[END]])
// CHECK-NEXT: where @windowed(%[[X]], block, against, %[[LO]] : !tile.param<T>, i32) attributes {note = "kept"}
// CHECK-NEXT: tile.kept_range in (%[[LO]] to %[[HI]]) against (%[[M]] to %[[END]]){{$}}
// CHECK-NEXT: return
// CHECK: tile.kept_range in (%i to %n) against (%i to %i)
// CHECK-NEXT: where @causal(against, block) when (MASKED)
func.func @kept(%lo: i32, %hi: i32, %m: i32, %end: i32, %x: !tile.param<T>) -> (i32, i32, i32, i32) {
  %a, %b = tile.kept_range in (%lo to %hi) against (%m to %end)
      where @windowed(%x, block, against, %lo : !tile.param<T>, i32) attributes {note = "kept"}
  %c, %d = tile.kept_range in (%lo to %hi) against (%m to %end)
  return %a, %b, %c, %d : i32, i32, i32, i32
}
tile.kernel @kept_or_all params(MASKED: flag) (%n: i32) grid(%i = 1) {
  %0, %1 = tile.kept_range in (%i to %n) against (%i to %i) where @causal(against, block) when (MASKED)
}

// A list of blocks; other attributes remain.
// GENERIC: operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 2, 1, 0, 0, 0>
// CHECK-LABEL: func.func @listed(
// CHECK: in (%{{.*}} to %{{.*}} listed %[[LIST:.*]][%[[I:.*]], %[[I]]] count %{{.*}} : !tile.view<[?, ?, ?], i32>) against
// CHECK-NEXT: keep %{{.*}} : !tile.tile<[M, N], i1> attributes {note = "kept"} {
func.func @listed(%n: i32, %list: !tile.view<[?, ?, ?], i32>) {
  tile.for_blocks %b in (%n to %n listed %list[%n, %n] count %n : !tile.view<[?, ?, ?], i32>)
      against (%n to %n) keep %keep : !tile.tile<[M, N], i1> attributes {note = "kept"} {}
  return
}

// List entries that cover several blocks, and a list with a condition.
// CHECK-LABEL: tile.kernel @entries
// CHECK: in (%{{.*}} to %{{.*}} listed %x[%i] count %i each SPAN when (LISTED) : !tile.view<[?, ?], i32>) against
// CHECK: in (%{{.*}} to %{{.*}} listed %x[%i] count %i each 64 : !tile.view<[?, ?], i32>) against
tile.kernel @entries params(LISTED: flag, SPAN: int) (%x: !tile.view<[?, ?], i32>) grid(%i = 1) {
  tile.for_blocks %b in (%i to %i listed %x[%i] count %i each SPAN when (LISTED) : !tile.view<[?, ?], i32>)
      against (%i to %i) keep %keep : !tile.tile<[8, 16], i1> {}
  tile.for_blocks %b in (%i to %i listed %x[%i] count %i each 64 : !tile.view<[?, ?], i32>)
      against (%i to %i) keep %keep : !tile.tile<[8, 16], i1> {}
}

// Nested loops use values of the enclosing loops.
// CHECK-LABEL: func.func @nested(
// CHECK: tile.for_blocks
// CHECK: tile.for_blocks
// CHECK: tile.select
func.func @nested(%n: i32, %x: !tile.tile<[M, N], f32>) {
  tile.for_blocks %a in (%n to %n) against (%n to %n) keep %outer : !tile.tile<[M, N], i1> {
    tile.for_blocks %b in (%a to %n) against (%n to %a) keep %inner : !tile.tile<[M, N], i1> {
      %0 = tile.select %outer, %x, %x : !tile.tile<[M, N], i1>, !tile.tile<[M, N], f32>
    }
  }
  return
}

// tile.spread, also in branches on parameters.
// GENERIC-LABEL: sym_name = "beside"
// GENERIC: "tile.spread"(%{{.*}}) ({
// GENERIC-NEXT: ^bb0(%{{.*}}: i32):
// GENERIC: "tile.await"(%{{.*}}, %{{.*}}, %{{.*}}) <{static_indices = array<i64: -9223372036854775808, 0>}> : (i32, !tile.view<[?, ?], i32>, i32) -> ()
// GENERIC: "tile.yield"() : () -> ()
// CHECK-LABEL: tile.kernel @beside
// CHECK: scf.if %{{.*}} {
// CHECK-NEXT: tile.spread %[[M:.*]] to %[[COUNT:.*]] {
// CHECK-NEXT: arith.cmpi slt, %[[M]], %[[COUNT]] : i32
// CHECK-NEXT: scf.if
// CHECK-NEXT: tile.await %[[COUNT]] of %turns[%[[M]], 0] : !tile.view<[?, ?], i32>
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK: tile.spread %{{.*}} to %{{.*}} attributes {note = "kept"} {
// CHECK-NEXT: }
tile.kernel @beside params(ORDERED: flag) (%turns: !tile.view<[?, ?], i32>) grid(%i = 4) {
  %count = tile.dim %turns, 0 : !tile.view<[?, ?], i32>
  %ordered = tile.param ORDERED : i1
  scf.if %ordered {
    tile.spread %m to %count {
      %0 = arith.cmpi slt, %m, %count : i32
      scf.if %0 {
        tile.await %count of %turns[%m, 0] : !tile.view<[?, ?], i32>
      }
    }
  }
  tile.spread %m to %count attributes {note = "kept"} {}
}

// tile.accumulate, with and without conditions.
// GENERIC-LABEL: sym_name = "terms"
// GENERIC: "tile.accumulate"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) <{apart_condition = #tile.expr<not(FIXED)>, even_condition = #tile.expr<FIXED>}> ({
// GENERIC-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: !tile.tile<[M, 16], f32>, %{{.*}}: tensor<4xf16>):
// GENERIC: "tile.yield"(%{{.*}}, %{{.*}})
// CHECK-LABEL: tile.kernel @terms
// CHECK: %{{.*}}:2 = tile.accumulate %[[NUMBER:.*]] of %i each %n even when (FIXED) apart when (not(FIXED))
// CHECK-NEXT: iter_args(%[[A:.*]] = %{{.*}} : !tile.tile<[M, 16], f32>, %[[B:.*]] = %{{.*}} : tensor<4xf16>) {
// CHECK-NEXT: tile.full %[[NUMBER]] : tensor<4xi32>
// CHECK-NEXT: tile.yield %[[A]], %[[B]] : !tile.tile<[M, 16], f32>, tensor<4xf16>
tile.kernel @terms params(M: int, FIXED: flag) (%n: i32) grid(%i = 4) {
  %zero = tile.constant 0 : !tile.tile<[M, 16], f32>
  %none = tile.constant 0.0 : tensor<4xf16>
  %a, %b = tile.accumulate %h of %i each %n even when (FIXED) apart when (not(FIXED))
      iter_args(%old = %zero : !tile.tile<[M, 16], f32>, %other = %none : tensor<4xf16>) {
    %0 = tile.full %h : tensor<4xi32>
    tile.yield %old, %other : !tile.tile<[M, 16], f32>, tensor<4xf16>
  }
}

// CHECK-LABEL: tile.kernel @terms_always
// CHECK: tile.accumulate %{{.*}} of %i each %n
// CHECK-NEXT: iter_args(%{{.*}} = %{{.*}} : tensor<4xf16>) attributes {note = "kept"} {
tile.kernel @terms_always params() (%n: i32) grid(%i = 4) {
  %none = tile.constant 0.0 : tensor<4xf16>
  %a = tile.accumulate %h of %i each %n iter_args(%other = %none : tensor<4xf16>) attributes {note = "kept"} {
    tile.yield %other : tensor<4xf16>
  }
}
