// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Additions at one index per element, as PTX.
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s
// RUN: not tilewrightc %S/Inputs/add_at_f16.mlir --target=sm_80 --emit=ptx 2>&1 | FileCheck %s --check-prefix=F16

#v = #tgpu.blocked<1, lanes 32, warps 1, 1>

// If all elements of a warp have the same index, the warp adds their sum; otherwise each thread adds its own. One
// predicate: in bounds and not zero.
// CHECK-LABEL: .entry by_element(
// CHECK: vote.sync.all.pred
// CHECK-COUNT-2: red.global.add.f32
// CHECK-NOT: red.global
tgpu.kernel @by_element target "sm_80" warps 1 (%x: !tile.view<[?], f32>, %n: !tile.view<[?], i32>, %sums: !tile.view<[?, ?], f32>) grid(%i = 1) {
  %a = tgpu.load %x[0] : !tile.view<[?], f32> -> tensor<32xf32, #v>
  %at = tgpu.load %n[0] : !tile.view<[?], i32> -> tensor<32xi32, #v>
  tile.add_at %a, %sums[%i, %at] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>, (i32, tensor<32xi32, #v>)
}

// With one index, a warp sums its elements and adds once. A tile of 16 is held twice by the lanes of a warp; each
// element counts once.
// CHECK-LABEL: .entry at_one_place(
// CHECK: selp.f32
// CHECK-COUNT-5: shfl.sync.bfly
// CHECK: red.global.add.f32
// CHECK-NOT: red.global
tgpu.kernel @at_one_place target "sm_80" warps 1 (%x: !tile.view<[?], f32>, %sums: !tile.view<[?], f32>) grid(%i = 1) {
  %a = tgpu.load %x[0] : !tile.view<[?], f32> -> tensor<16xf32, #tgpu.blocked<1, lanes 16, warps 1, 1>>
  tile.add_at %a, %sums[%i] : tensor<16xf32, #tgpu.blocked<1, lanes 16, warps 1, 1>>, !tile.view<[?], f32>, (i32)
}

// Exact addition: two digits, and a word for infinities and NaN.
// CHECK-LABEL: .entry exactly(
// CHECK-COUNT-2: red.global.add.u64
// CHECK: red.global.or.b64
// CHECK-NOT: red.global
tgpu.kernel @exactly target "sm_80" warps 1 (%x: !tile.view<[?], f32>, %sums: !tile.view<[?, 13], i64>) grid(%i = 1) {
  %a = tgpu.load %x[0] : !tile.view<[?], f32> -> tensor<32xf32, #v>
  tile.add_at %a, %sums[%i] exact : tensor<32xf32, #v>, !tile.view<[?, 13], i64>, (i32)
}

// An f64 is split into three floats.
// CHECK-LABEL: .entry exactly_f64(
// CHECK-COUNT-3: red.global.or.b64
// CHECK-NOT: red.global
tgpu.kernel @exactly_f64 target "sm_80" warps 1 (%x: !tile.view<[?], f64>, %sums: !tile.view<[?, 13], i64>) grid(%i = 1) {
  %a = tgpu.load %x[0] : !tile.view<[?], f64> -> tensor<32xf64, #v>
  tile.add_at %a, %sums[%i] exact : tensor<32xf64, #v>, !tile.view<[?, 13], i64>, (i32)
}

// F16: add_at_f16.mlir:8:3: error: adds f32 or f64 on a GPU, but got 'f16'; convert it with tile.cast
