// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s
// RUN: %if ptxas %{ tilewrightc %s --target=sm_80 --emit=cubin --report -o %t.cubin 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REPORT %}
//
// REPORT-COUNT-4: spills 0 bytes stored, 0 bytes loaded
//
// The bias is a capture; a thread computes products without tensor cores.
// CHECK-LABEL: .entry fma(
// CHECK: cp.async.cg.shared.global
// CHECK: ld.shared.v4.b32
// CHECK: fma.rn.f32
//
// The sum of a block starts at zero and is added to the previous value: one addition for each of 32 elements, after the
// loop.
// CHECK-LABEL: .entry accumulate(
// CHECK: fma.rn.f32
// CHECK: bra
// CHECK-COUNT-32: add.rn.f32
// CHECK-NOT: fma.rn.f32
//
// Operand a is read transposed; the column sum crosses warps and lanes, and one thread adds each element; the
// conversion goes through shared memory between two barriers.
// CHECK-LABEL: .entry gram(
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK-DAG: red.global.add.f32
// CHECK-DAG: st.shared.b32
// CHECK-DAG: ld.shared.v4.b32
//
// Subviews, a while loop, ten iterations of two products for each of 32 elements.
// CHECK-LABEL: .entry bits(
// CHECK-COUNT-32: mul.{{hi|wide}}.u32
// Of the two halves of a word, the lower one is shifted, the upper one is the word itself.
// CHECK: prmt.b32 %{{.*}}, %{{.*}}, 0, 0x1044U;
// CHECK: st.global.v4.b32
// Three of four bytes are shifted, by three, two and one bytes.
// CHECK-DAG: prmt.b32 %{{.*}}, %{{.*}}, 0, 0x444U;
// CHECK-DAG: prmt.b32 %{{.*}}, %{{.*}}, 0, 0x1044U;
// CHECK-DAG: prmt.b32 %{{.*}}, %{{.*}}, 0, 0x2104U;
// CHECK: st.global.v4.b32

#acc = #tgpu.mma<2, 2>
#opa = #tgpu.operand<a, #acc>
#opb = #tgpu.operand<b, #acc>
#b = #tgpu.blocked<8, lanes 8, warps 4, 1>
#f = #tgpu.blocked<4, lanes 8, warps 4, 1>
#col = #tgpu.slice<0, #acc>
#row = #tgpu.slice<1, #acc>
tile.capture @slopes : !tile.view<[?], f32>
func.func private @bias(%x: f32, %h: i32, %i: i32, %j: i32) -> f32 {
  %s = tile.at @slopes[%h] : f32
  %d = arith.subi %j, %i : i32
  %f = arith.sitofp %d : i32 to f32
  %m = arith.mulf %s, %f : f32
  %r = arith.addf %x, %m : f32
  return %r : f32
}
// C = A B^T in f32 on the CUDA cores, with a bias; C is stored to y.
tgpu.kernel @fma target "sm_80" warps 4 (%x: !tile.view<[?, 32], f32>, %y: !tile.view<[?, ?], f32>) grid(%i = ceildiv(dim(x, 0), 64)) attributes {shared_bytes = 16384 : i64} {
  %c64 = arith.constant 64 : i32
  %c0 = arith.constant 0 : i32
  %at = arith.muli %i, %c64 : i32
  %a = tgpu.alloc at 0 : !tgpu.shared<64x32xf32, b128>
  %bb = tgpu.alloc at 8192 : !tgpu.shared<64x32xf32, none>
  %z = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  tgpu.copy_async %x[%at, 0], %a : !tile.view<[?, 32], f32>, !tgpu.shared<64x32xf32, b128>
  tgpu.copy_async %x[0, 0], %bb : !tile.view<[?, 32], f32>, !tgpu.shared<64x32xf32, none>
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %c = tgpu.fma_dot %a, %bb transpose_b, %z : !tgpu.shared<64x32xf32, b128>, !tgpu.shared<64x32xf32, none> -> tensor<64x64xf32, #acc>
  %r = tile.iota %at dim 0 : tensor<64x64xi32, #acc>
  %q = tile.iota %c0 dim 1 : tensor<64x64xi32, #acc>
  %t = tile.map @bias(%c, %i, %r, %q) : (tensor<64x64xf32, #acc>, i32, tensor<64x64xi32, #acc>, tensor<64x64xi32, #acc>) -> tensor<64x64xf32, #acc>
  tgpu.store %t, %y[%at, 0] : tensor<64x64xf32, #acc>, !tile.view<[?, ?], f32>
}
// The accumulator of the second product is not constant.
tgpu.kernel @accumulate target "sm_80" warps 4 (%x: !tile.view<[?, 32], f32>, %y: !tile.view<[?, ?], f32>) grid(%i = 1) attributes {shared_bytes = 8192 : i64} {
  %a = tgpu.alloc at 0 : !tgpu.shared<64x32xf32, b128>
  %before = tgpu.load %y[0, 0] : !tile.view<[?, ?], f32> -> tensor<64x64xf32, #acc>
  tgpu.copy_async %x[0, 0], %a : !tile.view<[?, 32], f32>, !tgpu.shared<64x32xf32, b128>
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %c = tgpu.fma_dot %a, %a transpose_b, %before : !tgpu.shared<64x32xf32, b128>, !tgpu.shared<64x32xf32, b128> -> tensor<64x64xf32, #acc>
  tgpu.store %c, %y[0, 0] : tensor<64x64xf32, #acc>, !tile.view<[?, ?], f32>
}
// y = x^T x by mma, with operand a read transposed; conversion through scratch memory to a blocked layout; column sums
// by atomic additions.
tgpu.kernel @gram target "sm_80" warps 4 (%x: !tile.view<[64, 64], f16>, %y: !tile.view<[?, ?], f16>, %sums: !tile.view<[?], f32>, %maxima: !tile.view<[?], f32>) grid(%i = 1) attributes {shared_bytes = 16384 : i64} {
  %a = tgpu.alloc at 0 : !tgpu.shared<64x64xf16, b128>
  %s = tgpu.alloc at 8192 : !tgpu.shared<64x64xf16, b128>
  %t = tgpu.load %x[0, 0] : !tile.view<[64, 64], f16> -> tensor<64x64xf16, #b>
  tgpu.write %t, %a : tensor<64x64xf16, #b>, !tgpu.shared<64x64xf16, b128>
  tgpu.sync
  %z = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %l = tgpu.read %a transpose : !tgpu.shared<64x64xf16, b128> -> tensor<64x64xf16, #opa>
  %r = tgpu.read %a : !tgpu.shared<64x64xf16, b128> -> tensor<64x64xf16, #opb>
  %c = tgpu.mma %l, %r, %z : tensor<64x64xf16, #opa>, tensor<64x64xf16, #opb> -> tensor<64x64xf32, #acc>
  %cs = tile.reduce add %c dim 0 : tensor<64x64xf32, #acc> -> tensor<64xf32, #col>
  tgpu.atomic_add %cs, %sums[0] : tensor<64xf32, #col>, !tile.view<[?], f32>
  %rs = tile.reduce max %c dim 1 : tensor<64x64xf32, #acc> -> tensor<64xf32, #row>
  tgpu.store %rs, %maxima[0] : tensor<64xf32, #row>, !tile.view<[?], f32>
  %h = tile.cast %c : tensor<64x64xf32, #acc> -> tensor<64x64xf16, #acc>
  %o = tgpu.convert %h through %s : !tgpu.shared<64x64xf16, b128> in : tensor<64x64xf16, #acc> -> tensor<64x64xf16, #b>
  tgpu.store %o, %y[0, 0] : tensor<64x64xf16, #b>, !tile.view<[?, ?], f16>
}
// Random bits, subviews, while.
tgpu.kernel @bits target "sm_80" warps 4 (%y: !tile.view<[?, ?], i32>, %seed: i64, %offset: i64, %from: i32) grid(%j = 2, %i = 3) {
  %c64 = arith.constant 64 : i32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %n = tile.dim %y, 0 : !tile.view<[?, ?], i32>
  %v = tile.subview %y dim 0 from %from size %n : !tile.view<[?, ?], i32>
  %k:2 = scf.while (%a = %c0, %s = %c0) : (i32, i32) -> (i32, i32) {
    %go = arith.cmpi slt, %a, %c7 : i32
    scf.condition(%go) %a, %s : i32, i32
  } do {
  ^bb0(%a: i32, %s: i32):
    %a1 = arith.addi %a, %c1 : i32
    %s1 = arith.addi %s, %a1 : i32
    scf.yield %a1, %s1 : i32, i32
  }
  %m0 = arith.muli %i, %c64 : i32
  %n0 = arith.muli %j, %c64 : i32
  %r = tile.iota %m0 dim 0 : tensor<64x64xi32, #f>
  %q = tile.iota %n0 dim 1 : tensor<64x64xi32, #f>
  %w = tile.full %k#1 : tensor<64x64xi32, #f>
  %x = tile.random %seed, %offset at (%q, %r, %w) : tensor<64x64xi32, #f>
  tgpu.store %x, %v[%m0, %n0] : tensor<64x64xi32, #f>, !tile.view<[?, ?], i32>
  %halves = tile.random %seed, %offset at (%q, %r, %w) bits 16 rounds 7 : tensor<64x64xi32, #f>
  tgpu.store %halves, %v[%m0, %n0] : tensor<64x64xi32, #f>, !tile.view<[?, ?], i32>
  %bytes = tile.random %seed, %offset at (%q, %r, %w) bits 8 : tensor<64x64xi32, #f>
  tgpu.store %bytes, %v[%m0, %n0] : tensor<64x64xi32, #f>, !tile.view<[?, ?], i32>
}
