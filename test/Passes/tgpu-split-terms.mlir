// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product that threads add to a sum is computed by columns, the next of which are under way while some are added.
//
// RUN: tilewright-opt %s --tgpu-split-terms | FileCheck %s

!p = tensor<64x96xf8E4M3FN, #tgpu.operand<a, #tgpu.wgmma<1>>>
!v = !tgpu.shared<128x96xf8E4M3FN, b32>
!o = tensor<64x128xf32, #tgpu.wgmma<1>>

// CHECK-LABEL: tgpu.kernel @added
// CHECK:         %[[OLD:.*]] = arith.mulf
// CHECK-NEXT:    %[[P0:.*]] = tgpu.wgmma %[[A:.*]], %[[V:.*]] transpose_b columns 0 : {{.*}} -> tensor<64x64xf32, #tgpu.wgmma<1>>
// CHECK-NEXT:    tgpu.wgmma_commit
// CHECK-NEXT:    %[[P1:.*]] = tgpu.wgmma %[[A]], %[[V]] transpose_b columns 64 : {{.*}} -> tensor<64x64xf32, #tgpu.wgmma<1>>
// CHECK-NEXT:    tgpu.wgmma_commit
// CHECK-NEXT:    %[[T0:.*]] = tgpu.wgmma_wait pending 1, %[[P0]]
// CHECK-NEXT:    %[[O0:.*]] = tgpu.columns 0 of %[[OLD]]
// CHECK-NEXT:    %[[S0:.*]] = arith.addf %[[O0]], %[[T0]] fastmath<contract>
// CHECK-NEXT:    %[[T1:.*]] = tgpu.wgmma_wait pending 0, %[[P1]]
// CHECK-NEXT:    %[[O1:.*]] = tgpu.columns 64 of %[[OLD]]
// CHECK-NEXT:    %[[S1:.*]] = arith.addf %[[O1]], %[[T1]] fastmath<contract>
// CHECK-NEXT:    tgpu.join_columns %[[S0]], %[[S1]] : {{.*}} -> tensor<64x128xf32, #tgpu.wgmma<1>>
// CHECK-NOT:     tgpu.wgmma {{.*}} -> tensor<64x128
tgpu.kernel @added target "sm_90a" warps 4 (%out: !tile.view<[?, 128], f32>) grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  %z8 = arith.constant 0.0 : f8E4M3FN
  %a = tile.full %z8 : !p
  %o = tile.full %z : !o
  %v = tgpu.alloc : !v
  %old = arith.mulf %o, %o : !o
  %pending = tgpu.wgmma %a, %v transpose_b : !p, !v -> !o
  tgpu.wgmma_commit
  %term = tgpu.wgmma_wait pending 0, %pending : !o
  %sum = arith.addf %old, %term fastmath<contract> : !o
  tgpu.store %sum, %out[0, 0] : !o, !tile.view<[?, 128], f32>
}

// The last part takes the remaining columns.
// CHECK-LABEL: tgpu.kernel @remainder
// CHECK:         %[[R2:.*]] = tgpu.wgmma {{.*}} columns 128 : {{.*}} -> tensor<64x32xf32, #tgpu.wgmma<1>>
// CHECK:         %[[T2:.*]] = tgpu.wgmma_wait pending 0, %[[R2]]
// CHECK-NEXT:    %[[O2:.*]] = tgpu.columns 128 of {{.*}} -> tensor<64x32xf32, #tgpu.wgmma<1>>
// CHECK-NEXT:    %[[S2:.*]] = arith.addf %[[O2]], %[[T2]]
// CHECK-NEXT:    tgpu.join_columns %{{.*}}, %{{.*}}, %[[S2]] : {{.*}} -> tensor<64x160xf32, #tgpu.wgmma<1>>
tgpu.kernel @remainder target "sm_90a" warps 4 (%out: !tile.view<[?, 160], f32>) grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  %z8 = arith.constant 0.0 : f8E4M3FN
  %a = tile.full %z8 : !p
  %o = tile.full %z : tensor<64x160xf32, #tgpu.wgmma<1>>
  %v = tgpu.alloc : !tgpu.shared<160x96xf8E4M3FN, b32>
  %pending = tgpu.wgmma %a, %v transpose_b : !p, !tgpu.shared<160x96xf8E4M3FN, b32> -> tensor<64x160xf32, #tgpu.wgmma<1>>
  tgpu.wgmma_commit
  %term = tgpu.wgmma_wait pending 0, %pending : tensor<64x160xf32, #tgpu.wgmma<1>>
  %sum = arith.addf %o, %term : tensor<64x160xf32, #tgpu.wgmma<1>>
  tgpu.store %sum, %out[0, 0] : tensor<64x160xf32, #tgpu.wgmma<1>>, !tile.view<[?, 160], f32>
}

// No more than two parts have registers of their own: a part takes those of the last one that was added.
// CHECK-LABEL: tgpu.kernel @four
// CHECK:         %[[Q0:.*]] = tgpu.wgmma {{.*}} columns 0 :
// CHECK:         %[[Q1:.*]] = tgpu.wgmma {{.*}} columns 64 :
// CHECK:         %[[U0:.*]] = tgpu.wgmma_wait pending 1, %[[Q0]]
// CHECK:         arith.addf %{{.*}}, %[[U0]]
// CHECK-NEXT:    %[[Q2:.*]] = tgpu.wgmma {{.*}} columns 128, overwriting %[[U0]] :
// CHECK:         %[[U1:.*]] = tgpu.wgmma_wait pending 1, %[[Q1]]
// CHECK:         arith.addf %{{.*}}, %[[U1]]
// CHECK-NEXT:    %[[Q3:.*]] = tgpu.wgmma {{.*}} columns 192, overwriting %[[U1]] :
// CHECK:         tgpu.wgmma_wait pending 1, %[[Q2]]
// CHECK:         tgpu.wgmma_wait pending 0, %[[Q3]]
tgpu.kernel @four target "sm_90a" warps 4 (%out: !tile.view<[?, 256], f32>) grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  %z8 = arith.constant 0.0 : f8E4M3FN
  %a = tile.full %z8 : !p
  %o = tile.full %z : tensor<64x256xf32, #tgpu.wgmma<1>>
  %v = tgpu.alloc : !tgpu.shared<256x96xf8E4M3FN, b32>
  %pending = tgpu.wgmma %a, %v transpose_b : !p, !tgpu.shared<256x96xf8E4M3FN, b32> -> tensor<64x256xf32, #tgpu.wgmma<1>>
  tgpu.wgmma_commit
  %term = tgpu.wgmma_wait pending 0, %pending : tensor<64x256xf32, #tgpu.wgmma<1>>
  %sum = arith.addf %o, %term : tensor<64x256xf32, #tgpu.wgmma<1>>
  tgpu.store %sum, %out[0, 0] : tensor<64x256xf32, #tgpu.wgmma<1>>, !tile.view<[?, 256], f32>
}

// Another operation that overlaps with the product, a product that the matrix unit adds to a sum, a term with another
// use, and a sum whose other operand comes later.
// CHECK-LABEL: tgpu.kernel @others
// CHECK-COUNT-4: tgpu.wgmma {{.*}} -> tensor<64x128xf32, #tgpu.wgmma<1>>
// CHECK-NOT:     tgpu.join_columns
tgpu.kernel @others target "sm_90a" warps 4 (%out: !tile.view<[?, 128], f32>) grid(%i = 1) {
  %z = arith.constant 0.0 : f32
  %z8 = arith.constant 0.0 : f8E4M3FN
  %a = tile.full %z8 : !p
  %o = tile.full %z : !o
  %v = tgpu.alloc : !v
  %overlaps = tgpu.wgmma %a, %v transpose_b : !p, !v -> !o
  tgpu.wgmma_commit
  %old = arith.mulf %o, %o : !o
  %term = tgpu.wgmma_wait pending 0, %overlaps : !o
  %sum = arith.addf %old, %term : !o
  tgpu.store %sum, %out[0, 0] : !o, !tile.view<[?, 128], f32>
  %extends = tgpu.wgmma %a, %v transpose_b, %old : !p, !v, !o -> !o
  tgpu.wgmma_commit
  %extended = tgpu.wgmma_wait pending 0, %extends : !o
  %more = arith.addf %sum, %extended : !o
  tgpu.store %more, %out[0, 0] : !o, !tile.view<[?, 128], f32>
  %used = tgpu.wgmma %a, %v transpose_b : !p, !v -> !o
  tgpu.wgmma_commit
  %twice = tgpu.wgmma_wait pending 0, %used : !o
  %twofold = arith.addf %twice, %twice : !o
  tgpu.store %twofold, %out[0, 0] : !o, !tile.view<[?, 128], f32>
  %early = tgpu.wgmma %a, %v transpose_b : !p, !v -> !o
  tgpu.wgmma_commit
  %known = tgpu.wgmma_wait pending 0, %early : !o
  %late = arith.mulf %more, %more : !o
  %last = arith.addf %late, %known : !o
  tgpu.store %last, %out[0, 0] : !o, !tile.view<[?, 128], f32>
}
