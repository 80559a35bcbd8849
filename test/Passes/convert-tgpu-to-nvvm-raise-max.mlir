// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An integer test determines whether a row may be raised; maxima, differences and exponentials are computed only in
// that case.
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --convert-tgpu-to-nvvm | FileCheck %s

#w = #tgpu.wgmma<1>
!row = tensor<64xf32, #tgpu.slice<1, #w>>

// Of eight columns, a thread holds two in each of its two rows.
// CHECK-LABEL: llvm.func @rows
// CHECK:         %[[LIMIT:.*]] = llvm.fadd %{{.*}}, %arg7
// CHECK:         %[[POSITIVE:.*]] = llvm.fcmp "ogt"
// CHECK:         %[[NOT:.*]] = llvm.icmp "eq" %[[POSITIVE]], %{{.*}} : i1
// CHECK:         %[[PAIR:.*]] = llvm.intr.smax(%{{.*}}, %{{.*}}) : (i32, i32) -> i32
// CHECK-NEXT:    %[[MOST:.*]] = llvm.intr.smax(%[[PAIR]], %{{.*}}) : (i32, i32) -> i32
// CHECK-NEXT:    %[[FLOAT:.*]] = llvm.bitcast %[[MOST]] : i32 to f32
// CHECK-NEXT:    %[[SCALED:.*]] = llvm.fmul %[[FLOAT]], %{{.*}} : f32
// CHECK-NEXT:    %[[ABOVE:.*]] = llvm.fcmp "ogt" %[[SCALED]], %[[LIMIT]] : f32
// CHECK-NEXT:    %[[FIRST:.*]] = llvm.or %[[NOT]], %[[ABOVE]] : i1
// CHECK:         %[[MAY:.*]] = llvm.or %[[FIRST]], %{{.*}} : i1
// CHECK:         %[[ANY:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%{{.*}}, %[[MAY]])
// CHECK-NEXT:    llvm.cond_br %[[ANY]], ^[[RAISE:.*]], ^[[KEEP:.*]]
// CHECK:       ^[[RAISE]]:
// CHECK:         llvm.intr.maximum
// CHECK:         llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"
// CHECK:         llvm.select
// CHECK:         llvm.fsub
// CHECK:         "llvm.nvvm.ex2.approx.ftz.f"
// CHECK:       ^[[KEEP]]:
// CHECK-NEXT:    %[[NONE:.*]] = llvm.mlir.constant(0.0
// CHECK-NEXT:    %[[ONE:.*]] = llvm.mlir.constant(1.0
// CHECK-NEXT:    llvm.br ^{{.*}}(%{{.*}}, %{{.*}}, %[[NONE]], %[[NONE]], %[[ONE]], %[[ONE]]
// A product by the exponentials reuses the test.
// CHECK-NOT:     vote.any
// CHECK:         llvm.cond_br %[[ANY]],
// CHECK-NOT:     llvm.intr.exp2
tgpu.kernel @rows target "sm_90a" warps 4 (%in: !tile.view<[?], f32>, %out: !tile.view<[?], f32>, %x: f32, %lag: f32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %s = tile.full %x : tensor<64x8xf32, #w>
  %column = tile.iota %c0 dim 1 : tensor<64x8xi32, #w>
  %number = arith.sitofp %column : tensor<64x8xi32, #w> to tensor<64x8xf32, #w>
  %sum = arith.addf %s, %number : tensor<64x8xf32, #w>
  %old = tgpu.load %in[0] : !tile.view<[?], f32> -> !row
  %new = tgpu.raise_max %old by %lag to %sum times %x : tensor<64x8xf32, #w> -> !row
  %fall = arith.subf %old, %new : !row
  %factor = math.exp2 %fall : !row
  %factors = tile.expand %factor dim 1 : !row -> tensor<64x8xf32, #w>
  %kept = arith.mulf %sum, %factors {tgpu.skip_ones} : tensor<64x8xf32, #w>
  %total = tile.reduce add %kept dim 1 : tensor<64x8xf32, #w> -> !row
  %both = arith.addf %total, %new : !row
  tgpu.store %both, %out[0] : !row, !tile.view<[?], f32>
}

// An offset times the factor is added to the values that the maximum is compared with and raised by.
// CHECK-LABEL: llvm.func @offset
// CHECK:         %[[FIRST:.*]] = llvm.fmul %{{.*}}, %{{.*}} : f32
// CHECK:         %[[SECOND:.*]] = llvm.fmul %{{.*}}, %{{.*}} : f32
// CHECK:         llvm.intr.smax
// CHECK:         %[[SCALED:.*]] = llvm.fmul %{{.*}}, %{{.*}} {fastmathFlags = #llvm.fastmath<contract>} : f32
// CHECK-NEXT:    %[[SUM:.*]] = llvm.fadd %[[SCALED]], %[[FIRST]] {fastmathFlags = #llvm.fastmath<contract>} : f32
// CHECK-NEXT:    llvm.fcmp "ogt" %[[SUM]], %{{.*}} : f32
// CHECK:         llvm.cond_br
// CHECK:         llvm.intr.maximum
// CHECK:         llvm.fadd %{{.*}}, %[[FIRST]] {fastmathFlags = #llvm.fastmath<contract>}
// CHECK:         llvm.fadd %{{.*}}, %[[SECOND]] {fastmathFlags = #llvm.fastmath<contract>}
tgpu.kernel @offset target "sm_90a" warps 4 (%in: !tile.view<[?], f32>, %out: !tile.view<[?], f32>, %x: f32, %lag: f32) grid(%i = 1) {
  %s = tile.full %x : tensor<64x8xf32, #w>
  %old = tgpu.load %in[0] : !tile.view<[?], f32> -> !row
  %more = tgpu.load %in[64] : !tile.view<[?], f32> -> !row
  %new = tgpu.raise_max %old by %lag to %s plus %more times %x : tensor<64x8xf32, #w>, !row -> !row
  tgpu.store %new, %out[0] : !row, !tile.view<[?], f32>
}

// A factor that the constraints of the kernel bound needs no test of its sign.
// CHECK-LABEL: llvm.func @constrained
// CHECK-NOT:     llvm.fcmp
// CHECK:         %[[SCALED:.*]] = llvm.fmul
// CHECK-NEXT:    llvm.fcmp "ogt" %[[SCALED]],
// CHECK-NOT:     llvm.icmp "eq"
// CHECK:         llvm.call_intrinsic "llvm.nvvm.vote.any.sync"
tgpu.kernel @constrained target "sm_90a" warps 4 require(x > 0, x <= 8)
    (%in: !tile.view<[?], f32>, %out: !tile.view<[?], f32>, %x: f32, %lag: f32) grid(%i = 1) {
  %s = tile.full %x : tensor<64x8xf32, #w>
  %old = tgpu.load %in[0] : !tile.view<[?], f32> -> !row
  %new = tgpu.raise_max %old by %lag to %s times %x : tensor<64x8xf32, #w> -> !row
  tgpu.store %new, %out[0] : !row, !tile.view<[?], f32>
}
