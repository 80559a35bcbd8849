// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-transpose-operands=target=sm_90a | FileCheck %s
// RUN: tilewright-opt %s --tile-transpose-operands=target=sm_90a | FileCheck %s --check-prefix=WIDE
// RUN: tilewright-opt %s --tile-transpose-operands=target=sm_80 | FileCheck %s --check-prefix=SM80
// SM80-LABEL: tile.program @attend
// SM80:         tile.launch @attend_blocks(%q, %k, %v, %o, %h)
// SM80-NOT:     transpose_v

!k_view = !tile.view<[?, ?, 64], f8E4M3FN>
!q_view = !tile.view<[?, 64], f8E4M3FN>
!o_view = !tile.view<[?, 64], f32>
!bytes = tensor<64x64xf8E4M3FN>
!sum = tensor<64x64xf32>

func.func private @all(%i: i32, %j: i32) -> i1 {
  %true = arith.constant true
  return %true : i1
}

// CHECK-LABEL: tile.program @attend
// CHECK-NEXT:    require(dim(v, 0) == dim(k, 0))
// CHECK-NEXT:    (%q: {{.*}}, %k: {{.*}}, %v: !tile.view<[?, ?, 64], f8E4M3FN>, %o: {{.*}}, %h: i32 = 0)
// CHECK:         %[[ARRAY:.*]] = tile.workspace [dim(v, 0), 64, ceildiv(dim(v, 1), 16) * 16] : !tile.view<[?, 64, ?], f8E4M3FN>
// CHECK-NEXT:    tile.launch @transpose_v(%v, %[[ARRAY]])
// CHECK-NEXT:    tile.launch @attend_blocks(%q, %k, %v, %o, %h, %[[ARRAY]])
// CHECK-LABEL: tile.kernel @attend_blocks
// The kernel keeps the requirements, which its passes may assume.
// CHECK-NEXT:    require(dim(v, 0) == dim(k, 0))
// CHECK-NEXT:    {{.*}}%v_transposed: !tile.view<[?, 64, ?], f8E4M3FN>
// CHECK:         tile.for_blocks %[[N:.*]] in
// CHECK:           %[[V:.*]] = tile.load %v_transposed[%h, 0, %[[N]]]
// CHECK:           %[[PV:.*]] = tile.dot %{{.*}}, %[[V]] transpose_b interleaved
// CHECK:           arith.addf %{{.*}}, %[[PV]] fastmath<contract>
tile.kernel @attend require(dim(v, 0) == dim(k, 0))
    (%q: !q_view, %k: !k_view, %v: !k_view, %o: !o_view, %h: i32 = 0) grid(%m = 1) {
  %c0 = arith.constant 0 : i32
  %keys = tile.dim %k, 1 : !k_view
  %zero = arith.constant dense<0.0> : !sum
  %a = tile.load %q[0, 0] : !q_view -> !bytes
  %result = tile.for_blocks %n in (%c0 to %keys) against (%c0 to %keys) where @all(against, block) keep %keep : tensor<64x64xi1>
      iter_args(%old = %zero : !sum) {
    %b = tile.load %k[%h, %n, 0] : !k_view -> !bytes
    %c = tile.load %v[%h, %n, 0] : !k_view -> !bytes
    %s = tile.dot %a, %b transpose_b : !bytes, !bytes -> !sum
    %p = tile.cast %s saturate : !sum -> !bytes
    %new = tile.dot %p, %c, %old : !bytes, !bytes -> !sum
    tile.yield %new : !sum
  }
  tile.store %result, %o[0, 0] : !sum, !o_view
}

// Rows of 192 bytes are too many for one sum: those of the other product are divided, and so is what an instance
// transposes.
// CHECK-LABEL: tile.kernel @wide_blocks
// CHECK:         %[[A0:.*]] = tile.load %q[0, 0] : {{.*}} -> tensor<64x128xf8E4M3FN>
// CHECK:         %[[A1:.*]] = tile.load %q[0, 128] : {{.*}} -> tensor<64x64xf8E4M3FN>
// CHECK:         tile.for_blocks %[[N:.*]] in
// CHECK:           %[[B0:.*]] = tile.load %k[%h, %[[N]], 0] : {{.*}} -> tensor<64x128xf8E4M3FN>
// CHECK:           %[[B1:.*]] = tile.load %k[%h, %[[N]], 128] : {{.*}} -> tensor<64x64xf8E4M3FN>
// CHECK:           %[[S0:.*]] = tile.dot %[[A0]], %[[B0]] transpose_b
// CHECK:           %[[S1:.*]] = tile.dot %[[A1]], %[[B1]] transpose_b
// CHECK:           %[[S:.*]] = arith.addf %[[S0]], %[[S1]] : tensor<64x64xf32>
// CHECK:           %[[P:.*]] = tile.cast %[[S]] saturate
// CHECK:           tile.dot %[[P]], %{{.*}} transpose_b interleaved : {{.*}}, tensor<192x64xf8E4M3FN> -> tensor<64x192xf32>
// WIDE-LABEL: tile.kernel @transpose_v
// WIDE:         tile.gather %v[%{{.*}}, %{{.*}}, 0] along 1 at %[[AT:.*]] : {{.*}} -> tensor<32x128xf8E4M3FN>
// WIDE-NEXT:    tile.gather %v[%{{.*}}, %{{.*}}, 128] along 1 at %[[AT]] : {{.*}} -> tensor<32x64xf8E4M3FN>
// WIDE:         tile.store %{{.*}}, %v_transposed[%{{.*}}, 0, %{{.*}}] : tensor<128x32xf8E4M3FN>
// WIDE:         tile.store %{{.*}}, %v_transposed[%{{.*}}, 128, %{{.*}}] : tensor<64x32xf8E4M3FN>
tile.kernel @wide(%q: !tile.view<[?, 192], f8E4M3FN>, %k: !tile.view<[?, ?, 192], f8E4M3FN>,
                  %v: !tile.view<[?, ?, 192], f8E4M3FN>, %o: !tile.view<[?, 192], f32>, %h: i32 = 0) grid(%m = 1) {
  %c0 = arith.constant 0 : i32
  %keys = tile.dim %k, 1 : !tile.view<[?, ?, 192], f8E4M3FN>
  %zero = arith.constant dense<0.0> : tensor<64x192xf32>
  %a = tile.load %q[0, 0] : !tile.view<[?, 192], f8E4M3FN> -> tensor<64x192xf8E4M3FN>
  %result = tile.for_blocks %n in (%c0 to %keys) against (%c0 to %keys) where @all(against, block) keep %keep : tensor<64x64xi1>
      iter_args(%old = %zero : tensor<64x192xf32>) {
    %b = tile.load %k[%h, %n, 0] : !tile.view<[?, ?, 192], f8E4M3FN> -> tensor<64x192xf8E4M3FN>
    %c = tile.load %v[%h, %n, 0] : !tile.view<[?, ?, 192], f8E4M3FN> -> tensor<64x192xf8E4M3FN>
    %s = tile.dot %a, %b transpose_b : tensor<64x192xf8E4M3FN>, tensor<64x192xf8E4M3FN> -> !sum
    %p = tile.cast %s saturate : !sum -> !bytes
    %new = tile.dot %p, %c, %old : !bytes, tensor<64x192xf8E4M3FN> -> tensor<64x192xf32>
    tile.yield %new : tensor<64x192xf32>
  }
  tile.store %result, %o[0, 0] : tensor<64x192xf32>, !tile.view<[?, 192], f32>
}

// The array that is given to the program is transposed before the launch, under its condition.
// CHECK-LABEL: tile.program @twice
// CHECK:         tile.launch @first
// CHECK-NEXT:    %[[OTHER:.*]] = tile.workspace [dim(values, 0), 64, ceildiv(dim(values, 1), 16) * 16]
// CHECK-NEXT:    tile.launch @transpose_v{{.*}}(%values, %[[OTHER]]) when (dim(values, 1) >= 64)
// CHECK-NEXT:    tile.launch @second(%k, %values, %o, %[[OTHER]]) when (dim(values, 1) >= 64)
tile.program @twice(%k: !k_view, %values: !k_view, %o: !o_view) {
  tile.launch @first(%k, %values, %o) : !k_view, !k_view, !o_view
  tile.launch @second(%k, %values, %o) when (dim(values, 1) >= 64) : !k_view, !k_view, !o_view
}

// Not rows of a block that begins at zero.
// CHECK-LABEL: tile.kernel @first
// CHECK-NOT:     transposed
// CHECK:         tile.dot %{{.*}}, %{{[^ ]*}} :
tile.kernel @first(%k: !k_view, %v: !k_view, %o: !o_view) grid(%m = 1) {
  %a = tile.load %k[0, 0, 0] : !k_view -> !bytes
  %b = tile.load %k[0, 0, 0] : !k_view -> !bytes
  %s = tile.dot %a, %b transpose_b : !bytes, !bytes -> !sum
  %p = tile.cast %s saturate : !sum -> !bytes
  %c = tile.load %v[0, %m, 0] : !k_view -> !bytes
  %new = tile.dot %p, %c : !bytes, !bytes -> !sum
  tile.store %new, %o[0, 0] : !sum, !o_view
}

// CHECK-LABEL: tile.kernel @second
// CHECK-NEXT:    {{.*}}%v_transposed
tile.kernel @second(%k: !k_view, %v: !k_view, %o: !o_view) grid(%m = 1) {
  %c0 = arith.constant 0 : i32
  %keys = tile.dim %k, 1 : !k_view
  %zero = arith.constant dense<0.0> : !sum
  %a = tile.load %k[0, 0, 0] : !k_view -> !bytes
  %result = tile.for_blocks %n in (%c0 to %keys) against (%c0 to %keys) where @all(against, block) keep %keep : tensor<64x64xi1>
      iter_args(%old = %zero : !sum) {
    %s = tile.dot %a, %a transpose_b : !bytes, !bytes -> !sum
    %p = tile.cast %s saturate : !sum -> !bytes
    %c = tile.load %v[%c0, %n, 0] : !k_view -> !bytes
    %new = tile.dot %p, %c, %old : !bytes, !bytes -> !sum
    tile.yield %new : !sum
  }
  tile.store %result, %o[0, 0] : !sum, !o_view
}

// Rows, a depth or a position that wgmma does not have, and an operand that is loaded.
// CHECK-LABEL: tile.kernel @others
// CHECK-NOT:     transposed
// CHECK-LABEL: tile.kernel @transpose_v
// Row 16 g + 4 i + 2 j + k is read from 16 g + 2 i + 8 j + k.
// CHECK:         %[[ROW:.*]] = tile.iota %{{.*}} dim 0 : tensor<32xi32>
// CHECK:         %[[J:.*]] = arith.andi %[[ROW]], %{{.*}}
// CHECK:         %[[HALF:.*]] = arith.shli %[[J]]
// CHECK:         %[[I:.*]] = arith.shrui %[[ROW]]
// CHECK:         %[[PAIR:.*]] = arith.andi %[[I]]
// CHECK:         %[[REST:.*]] = arith.andi %[[ROW]]
// CHECK:         %[[OTHERS:.*]] = arith.ori %[[REST]], %[[PAIR]]
// CHECK:         %[[AT:.*]] = arith.ori %[[OTHERS]], %[[HALF]]
// An instance transposes two parts, which it loads before it writes the first one.
// CHECK:         %[[ROWS:.*]] = tile.gather %v[%{{.*}}, %[[BEGIN:.*]], 0] along 1 at %[[AT]] : {{.*}} -> tensor<32x64xf8E4M3FN>
// CHECK:         %[[NEXT:.*]] = arith.addi %[[BEGIN]], %{{.*}} : i32
// CHECK-NEXT:    %[[MORE:.*]] = tile.gather %v[%{{.*}}, %[[NEXT]], 0] along 1 at %[[AT]] : {{.*}} -> tensor<32x64xf8E4M3FN>
// CHECK-NOT:     tile.gather
// CHECK:         %[[RESULT:.*]] = tile.transpose %[[ROWS]] [1, 0]
// CHECK-NEXT:    tile.store %[[RESULT]], %v_transposed[%{{.*}}, 0, %[[BEGIN]]]
// CHECK-NEXT:    %[[RESULT:.*]] = tile.transpose %[[MORE]] [1, 0]
// CHECK-NEXT:    tile.store %[[RESULT]], %v_transposed[%{{.*}}, 0, %[[NEXT]]]
tile.kernel @others(%k: !k_view, %v: !k_view, %o: !o_view) grid(%m = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %keys = tile.dim %k, 1 : !k_view
  %zero = arith.constant dense<0.0> : tensor<32x64xf32>
  %a = tile.load %k[0, 0, 0] : !k_view -> tensor<32x64xf8E4M3FN>
  %result = tile.for_blocks %n in (%c0 to %keys) against (%c0 to %keys) where @all(against, block) keep %keep : tensor<32x64xi1>
      iter_args(%old = %zero : tensor<32x64xf32>) {
    %c = tile.load %v[%c0, %n, 0] : !k_view -> !bytes
    %s = tile.dot %a, %c transpose_b : tensor<32x64xf8E4M3FN>, !bytes -> tensor<32x64xf32>
    %p = tile.cast %s saturate : tensor<32x64xf32> -> tensor<32x64xf8E4M3FN>
    %d = tile.load %v[%c0, %n, 0] : !k_view -> !bytes
    %one = tile.dot %p, %d, %old : tensor<32x64xf8E4M3FN>, !bytes -> tensor<32x64xf32>
    %e = tile.load %v[%c0, %n, 0] : !k_view -> !bytes
    %new = tile.dot %a, %e, %one : tensor<32x64xf8E4M3FN>, !bytes -> tensor<32x64xf32>
    tile.yield %new : tensor<32x64xf32>
  }
  tile.store %result, %o[0, 0] : tensor<32x64xf32>, !o_view
}
