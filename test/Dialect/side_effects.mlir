// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory effects: which operations are moved and which are merged.
// RUN: tilewright-opt %s --cse | FileCheck %s --check-prefixes=CHECK,CSE
// RUN: tilewright-opt %s --loop-invariant-code-motion | FileCheck %s --check-prefixes=CHECK,LICM
// RUN: tilewright-opt %s --canonicalize | FileCheck %s --check-prefixes=CHECK,CANONICAL

!v = !tile.view<[?], f32>
!t = tensor<8xf32>
!k = tensor<4x8xi1>

tile.capture @slopes : !v

// Two loads of the same elements are merged if nothing is written between them.
// CHECK-LABEL: func.func @loads_merge(
// CSE: %[[L:.*]] = tile.load
// CSE-NEXT: return %[[L]], %[[L]]
func.func @loads_merge(%x: !v) -> (!t, !t) {
  %0 = tile.load %x[0] : !v -> !t
  %1 = tile.load %x[0] : !v -> !t
  return %0, %1 : !t, !t
}

// A store between them prevents it: views may overlap.
// CHECK-LABEL: func.func @store_between(
// CSE: tile.load
// CSE-NEXT: tile.store
// CSE-NEXT: tile.load
func.func @store_between(%x: !v, %y: !v, %t: !t) -> (!t, !t) {
  %0 = tile.load %x[0] : !v -> !t
  tile.store %t, %y[0] : !t, !v
  %1 = tile.load %x[0] : !v -> !t
  return %0, %1 : !t, !t
}

// An atomic addition does, too, for one element and for a gather.
// CHECK-LABEL: func.func @atomic_between(
// CSE: tile.at
// CSE-NEXT: tile.gather
// CSE-NEXT: tile.atomic_add
// CSE-NEXT: tile.at
// CSE-NEXT: tile.gather
func.func @atomic_between(%x: !v, %t: !t, %i: tensor<8xi32>) -> (f32, !t, f32, !t) {
  %0 = tile.at %x[0] : !v
  %1 = tile.gather %x[0] along 0 at %i : !v, tensor<8xi32> -> !t
  tile.atomic_add %t, %x[0] : !t, !v
  %2 = tile.at %x[0] : !v
  %3 = tile.gather %x[0] along 0 at %i : !v, tensor<8xi32> -> !t
  return %0, %1, %2, %3 : f32, !t, f32, !t
}

// Captures are read-only: a store does not prevent merging reads of them.
// CHECK-LABEL: func.func @captures_merge(
// CSE: %[[A:.*]] = tile.at @slopes[0] : f32
// CSE-NEXT: tile.store
// CSE-NEXT: return %[[A]], %[[A]]
func.func @captures_merge(%y: !v, %t: !t) -> (f32, f32) {
  %0 = tile.at @slopes[0] : f32
  tile.store %t, %y[0] : !t, !v
  %1 = tile.at @slopes[0] : f32
  return %0, %1 : f32, f32
}

// Values that do not depend on the block leave the loop; reads and writes of memory remain.
// CHECK-LABEL: func.func @invariants(
// LICM-NEXT: tile.at @slopes[0] : f32
// LICM-NEXT: tile.full
// LICM-NEXT: tile.dim
// LICM-NEXT: tile.for_blocks
// LICM: tile.load
// LICM: tile.store
// LICM: arith.addi
func.func @invariants(%x: !v, %y: !v, %n: i32) {
  tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : !k {
    %slope = tile.at @slopes[0] : f32
    %t = tile.full %slope : !t
    %d = tile.dim %x, 0 : !v
    %u = tile.load %x[0] : !v -> !t
    tile.store %t, %y[%b] : !t, !v
    %e = arith.addi %d, %b : i32
    tile.store %u, %y[%e] : !t, !v
  }
  return
}

// Unused values, reads, and loops without writes are removed. Writes remain.
// CHECK-LABEL: func.func @unused(
// CANONICAL-NEXT: tile.atomic_add
// CANONICAL-NEXT: tile.scatter_add
// CANONICAL-NEXT: tile.store
// CANONICAL-NEXT: return
func.func @unused(%x: !v, %t: !t, %i: tensor<8xi32>, %n: i32, %seed: i64) {
  %0 = tile.load %x[0] : !v -> !t
  %1 = tile.gather %x[0] along 0 at %i : !v, tensor<8xi32> -> !t
  %2 = tile.random %seed, %seed at (%n, %n, %n) : i32
  tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : !k {
    %3 = tile.iota %b dim 0 : tensor<8xi32>
  }
  %4, %5 = tile.kept_range in (%n to %n) against (%n to %n)
  tile.atomic_add %t, %x[0] : !t, !v
  tile.scatter_add %t, %x[0] along 0 at %i : !t, !v, tensor<8xi32>
  tile.store %t, %x[0] : !t, !v
  return
}
