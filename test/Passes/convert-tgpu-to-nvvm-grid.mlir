// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread computes the extents of the grid as the launch does: floordiv and mod round down and ceildiv rounds up for
// all signs. For constants, LLVM folds the computation of a thread: 6, 11, 9, 7, 17, 12.
//
// RUN: tilewrightc %s --target=sm_80 --emit=llvm | FileCheck %s

// CHECK-LABEL: define {{.*}}@constants(
// CHECK: urem i32 %{{.*}}, 6
// CHECK: urem i32 %{{.*}}, 11
// CHECK: urem i32 %{{.*}}, 9
// CHECK: urem i32 %{{.*}}, 7
// CHECK: urem i32 %{{.*}}, 17
// CHECK: urem i32 %{{.*}}, 12
#v = #tgpu.blocked<1, lanes 32, warps 1, 1>
tgpu.kernel @constants target "sm_80" warps 1 (%x: !tile.view<[?], i32>)
    grid(%a = floordiv(0 - 7, 2) + 10, %b = mod(0 - 7, 2) + 10, %c = mod(7, 0 - 2) + 10, %d = ceildiv(0 - 7, 2) + 10,
         %e = ceildiv(7, 0 - 2) + 20, %f = floordiv(0 - 8, 2) + 16, %g = 1) {
  %ta = tile.full %a : tensor<32xi32, #v>
  %tb = tile.full %b : tensor<32xi32, #v>
  %tc = tile.full %c : tensor<32xi32, #v>
  %td = tile.full %d : tensor<32xi32, #v>
  %te = tile.full %e : tensor<32xi32, #v>
  %tf = tile.full %f : tensor<32xi32, #v>
  tgpu.store %ta, %x[0] : tensor<32xi32, #v>, !tile.view<[?], i32>
  tgpu.store %tb, %x[32] : tensor<32xi32, #v>, !tile.view<[?], i32>
  tgpu.store %tc, %x[64] : tensor<32xi32, #v>, !tile.view<[?], i32>
  tgpu.store %td, %x[96] : tensor<32xi32, #v>, !tile.view<[?], i32>
  tgpu.store %te, %x[128] : tensor<32xi32, #v>, !tile.view<[?], i32>
  tgpu.store %tf, %x[160] : tensor<32xi32, #v>, !tile.view<[?], i32>
}

// Extents are not negative, so one machine division suffices.
// CHECK-LABEL: define {{.*}}@extents(
// CHECK-NOT: select
// CHECK: ret void
tgpu.kernel @extents target "sm_80" warps 1 (%x: !tile.view<[?], i32>) grid(%a = floordiv(dim(x, 0), 3), %b = 1) {
  %ta = tile.full %a : tensor<32xi32, #v>
  tgpu.store %ta, %x[0] : tensor<32xi32, #v>, !tile.view<[?], i32>
}

// A difference may be negative.
// CHECK-LABEL: define {{.*}}@difference(
// CHECK: %[[QUOTIENT:.*]] = sdiv i64 %[[NUMBER:.*]], 3
// CHECK: %[[PRODUCT:.*]] = mul nsw i64 %[[QUOTIENT]], 3
// CHECK: icmp ne i64 %[[NUMBER]], %[[PRODUCT]]
// CHECK: ret void
tgpu.kernel @difference target "sm_80" warps 1 (%x: !tile.view<[?], i32>) grid(%a = floordiv(dim(x, 0) - 9, 3) + 3, %b = 1) {
  %ta = tile.full %a : tensor<32xi32, #v>
  tgpu.store %ta, %x[0] : tensor<32xi32, #v>, !tile.view<[?], i32>
}

// If a grid extent is a quotient, it is positive in every block, and therefore so is the dividend.
// CHECK-LABEL: define {{.*}}@quotient(
// CHECK-NOT: select
// CHECK: ret void
tgpu.kernel @quotient target "sm_80" warps 1 (%x: !tile.view<[?], i32>, %n: i32) grid(%a = ceildiv(n, 64), %b = 1) {
  %ta = tile.full %a : tensor<32xi32, #v>
  tgpu.store %ta, %x[0] : tensor<32xi32, #v>, !tile.view<[?], i32>
}

// As in the launch, a selection evaluates only the selected operand: the other one may divide by zero.
// CHECK-LABEL: define {{.*}}@chosen(
// CHECK:      %[[ZERO:.*]] = icmp eq i32 %{{.*}}, 0
// CHECK-NEXT: br i1 %[[ZERO]], label %{{.*}}, label %[[DIVIDE:[0-9]+]]
// CHECK:      [[DIVIDE]]:
// CHECK:      sdiv i64
// CHECK:      phi i32 [ {{.*}}, %[[DIVIDE]] ], [ 1, %{{.*}} ]
// CHECK:      ret void
tgpu.kernel @chosen target "sm_80" warps 1 (%x: !tile.view<[?], i32>, %n: i32)
    grid(%a = select(n == 0, 1, floordiv(dim(x, 0) - 9, n)), %b = 1) {
  %ta = tile.full %a : tensor<32xi32, #v>
  tgpu.store %ta, %x[0] : tensor<32xi32, #v>, !tile.view<[?], i32>
}

// Conditions short-circuit: neither division is executed if n is 0.
// CHECK-LABEL: define {{.*}}@conditions(
// CHECK:      %[[ZERO:.*]] = icmp eq i32 %{{.*}}, 0
// CHECK-NEXT: br i1 %[[ZERO]], label %{{.*}}, label %[[AND:[0-9]+]]
// CHECK:      [[AND]]:
// CHECK:      sdiv i64 7,
// CHECK:      phi i32 [ {{.*}}, %[[AND]] ], [ 3, %{{.*}} ]
// CHECK-NEXT: br i1 %[[ZERO]], label %{{.*}}, label %[[OR:[0-9]+]]
// CHECK:      [[OR]]:
// CHECK:      sdiv i64 8,
// CHECK:      phi i32 [ {{.*}}, %[[OR]] ], [ 4, %{{.*}} ]
// CHECK:      ret void
tgpu.kernel @conditions target "sm_80" warps 1 (%x: !tile.view<[?], i32>, %n: i32)
    grid(%a = select(and(ne(n, 0), mod(7, n) == 0), 2, 3), %b = select(or(n == 0, mod(8, n) == 0), 4, 5), %c = 1) {
  %ta = tile.full %a : tensor<32xi32, #v>
  %tb = tile.full %b : tensor<32xi32, #v>
  tgpu.store %ta, %x[0] : tensor<32xi32, #v>, !tile.view<[?], i32>
  tgpu.store %tb, %x[32] : tensor<32xi32, #v>, !tile.view<[?], i32>
}

// If no operand can fail, both are computed, and no warp branches.
// CHECK-LABEL: define {{.*}}@eager(
// CHECK-NOT: br
// CHECK:     select i1
// CHECK-NOT: br
// CHECK:     ret void
tgpu.kernel @eager target "sm_80" warps 1 (%x: !tile.view<[?], i32>, %n: i32)
    grid(%a = select(n == 0, 1, ceildiv(dim(x, 0), 4)), %b = 1) {
  %ta = tile.full %a : tensor<32xi32, #v>
  tgpu.store %ta, %x[0] : tensor<32xi32, #v>, !tile.view<[?], i32>
}
