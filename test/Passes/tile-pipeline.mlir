// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the passes, and the result for a small kernel.
//
// RUN: tilewright-opt %s --tile-pipeline='params=CAUSAL=true' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=PASSES
// PASSES:      tile-link{source= },
// PASSES-NEXT: tile-inline-programs,
// PASSES-NEXT: tile-share-loops{sums=auto target=cpu},
// PASSES-NEXT: tile-inline-calls{of-tiles-only=true},
// PASSES-NEXT: tile-bind-target{target=cpu},
// PASSES-NEXT: tile-combine-sums{sums=auto target=cpu},
// PASSES-NEXT: tile-choose-blocks{by-model=false entry= length=0 params={CAUSAL=true} shared=0 table= target=cpu},
// PASSES-NEXT: tile-specialize{entry= exact-literals=false params={CAUSAL=true}},
// PASSES-NEXT: tile-unroll,
// PASSES-NEXT: canonicalize
// PASSES-NEXT: cse
// PASSES-NEXT: tile-check-debug,
// PASSES-NEXT: tile-expand-composites,
// PASSES-NEXT: tile-drop-arguments,
// PASSES-NEXT: tile-differentiate,
// PASSES-NEXT: tile-analyze-masks,
// PASSES-NEXT: tile-fold-scale{assume-fast-math=false},
// PASSES-NEXT: tile-load-captures
// PASSES-NEXT: tile-hoist-uniforms
// PASSES-NEXT: canonicalize
// PASSES-NEXT: cse
// PASSES-NEXT: loop-invariant-code-motion
// PASSES-NEXT: tile-scale-after-loop,
// PASSES-NEXT: tile-transpose-operands{target=cpu}
//
// What only the CPU executes is removed for GPUs.
// RUN: tilewright-opt %s --tile-pipeline='target=sm_90a' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=GPU
// GPU:         cse
// GPU-NEXT:    tile-drop-debug{keep=false},
// GPU-NEXT:    tile-check-debug,
// GPU-NEXT:    tile-expand-composites,
//
// RUN: tilewright-opt %s --tile-pipeline='fast-math' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=FAST
// FAST:        tile-analyze-masks,
// FAST-NEXT:   tile-fold-scale{assume-fast-math=true},
// FAST-NEXT:   tile-load-captures
// FAST-NEXT:   tile-hoist-uniforms
// FAST-NEXT:   canonicalize
//
// RUN: tilewright-opt %s --tile-pipeline='params=CAUSAL=true' --verify-roundtrip | FileCheck %s
// The bound flag is resolved, so that the mask can be analyzed.
// CHECK:       func.func private @mask(%[[I:.*]]: i32, %[[J:.*]]: i32) -> i1
// CHECK-NEXT:    %[[KEEP:.*]] = arith.cmpi sle, %[[J]], %[[I]]
// CHECK-NEXT:    return %[[KEEP]]
// CHECK:       func.func private @mask_ranges
// CHECK:       tile.kernel @k
// Values that do not depend on the block are outside the loop.
// CHECK:         math.exp2
// CHECK:         tile.for_blocks
// CHECK:           where @mask(against, block) ranges @mask_ranges
// CHECK-NOT:       math.exp2
// CHECK:           tile.yield

func.func private @mask(%i: i32, %j: i32) -> i1 {
  %causal = tile.param CAUSAL : i1
  %keep = scf.if %causal -> i1 {
    %past = arith.cmpi sle, %j, %i : i32
    scf.yield %past : i1
  } else {
    %true = arith.constant true
    scf.yield %true : i1
  }
  return %keep : i1
}
tile.kernel @k params(CAUSAL: flag = false, B: int = 16)
    (%x: !tile.view<[?, 16], f32>, %y: !tile.view<[?, 16], f32>, %n: i32)
    grid(%i = ceildiv(dim(x, 0), B)) {
  %c0 = arith.constant 0 : i32
  %b = tile.param B : i32
  %m = arith.muli %i, %b : i32
  %rows = tile.dim %x, 0 : !tile.view<[?, 16], f32>
  %xt = tile.load %x[%m, 0] : !tile.view<[?, 16], f32> -> !tile.tile<[B, B], f32>
  %r = tile.for_blocks %c in (%c0 to %n) against (%m to %rows)
      where @mask(against, block) keep %keep : !tile.tile<[B, B], i1>
      iter_args(%sum = %xt : !tile.tile<[B, B], f32>) {
    %e = math.exp2 %xt : !tile.tile<[B, B], f32>
    %kept = tile.select %keep, %e, %sum : !tile.tile<[B, B], i1>, !tile.tile<[B, B], f32>
    %next = arith.addf %sum, %kept : !tile.tile<[B, B], f32>
    tile.yield %next : !tile.tile<[B, B], f32>
  }
  tile.store %r, %y[%m, 0] : !tile.tile<[B, B], f32>, !tile.view<[?, 16], f32>
}
