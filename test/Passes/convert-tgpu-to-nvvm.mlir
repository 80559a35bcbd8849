// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --convert-tgpu-to-nvvm --split-input-file | FileCheck %s

#b = #tgpu.blocked<8, lanes 8, warps 4, 1>

// A view consists of pointer, extents and strides. 64 x 64 elements of 16 bits in 128 threads are four vectors of 16
// bytes per thread, or 32 elements if strides or pointer are not aligned.
// CHECK-LABEL: llvm.func @copy(
// CHECK-SAME:    %[[X:[^:]*]]: !llvm.ptr<1>, %{{[^:]*}}: i32, %{{[^:]*}}: i32, %[[STRIDE:[^:]*]]: i64, %{{[^:]*}}: i64, %{{[^:]*}}: !llvm.ptr<1>,
// CHECK-SAME:    nvvm.kernel, nvvm.reqntid = array<i32: 128>
// CHECK:         nvvm.read.ptx.sreg.tid.x
// CHECK:         nvvm.read.ptx.sreg.ctaid.x
// CHECK:         llvm.cond_br
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK-NOT:     ld.global.v4.b32
// CHECK-COUNT-32: ld.global.b16
// CHECK-NOT:     ld.global
// CHECK:         llvm.cond_br
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-COUNT-32: st.global.b16
// CHECK-NOT:     st.global
// CHECK:         llvm.return
// CHECK-NOT:     tgpu
tgpu.kernel @copy target "sm_80" warps 4 (%x: !tile.view<[?, 64], f16>, %y: !tile.view<[?, 64], f16>)
    grid(%i = ceildiv(dim(x, 0), 64)) {
  %c64 = arith.constant 64 : i32
  %at = arith.muli %i, %c64 : i32
  %t = tgpu.load %x[%at, 0] : !tile.view<[?, 64], f16> -> tensor<64x64xf16, #b>
  tgpu.store %t, %y[%at, 0] : tensor<64x64xf16, #b>, !tile.view<[?, 64], f16>
}

// -----

#b = #tgpu.blocked<4, lanes 32, warps 2, 2>
#s = #tgpu.slice<1, #b>

// A row is distributed over two warps: shuffles within them, then 2 rows x 2 warps x 4 bytes of shared memory.
// CHECK:         llvm.mlir.global internal @softmax_scratch() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<16 x i8>
// CHECK-LABEL: llvm.func @softmax(
// CHECK-COUNT-7: llvm.intr.maximum
// CHECK:         llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"
// CHECK-NOT:     shfl
// CHECK:         llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK:         llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK-COUNT-2: llvm.load {{.*}} : !llvm.ptr<3> -> f32
// CHECK:         llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"
// CHECK-COUNT-8: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"
// CHECK-NOT:     ex2
// CHECK-COUNT-8: llvm.fdiv
tgpu.kernel @softmax target "sm_80" warps 4 (%x: !tile.view<[?, 512], f32>)
    grid(%i = ceildiv(dim(x, 0), 2)) {
  %c2 = arith.constant 2 : i32
  %at = arith.muli %i, %c2 : i32
  %t = tgpu.load %x[%at, 0] : !tile.view<[?, 512], f32> -> tensor<2x512xf32, #b>
  %u = arith.addf %t, %t : tensor<2x512xf32, #b>
  %m = tile.reduce max %u dim 1 : tensor<2x512xf32, #b> -> tensor<2xf32, #s>
  %me = tile.expand %m dim 1 : tensor<2xf32, #s> -> tensor<2x512xf32, #b>
  %d = arith.subf %u, %me : tensor<2x512xf32, #b>
  %e = math.exp2 %d : tensor<2x512xf32, #b>
  %r = arith.divf %e, %me : tensor<2x512xf32, #b>
  tgpu.store %r, %x[%at, 0] : tensor<2x512xf32, #b>, !tile.view<[?, 512], f32>
}

// -----

#acc = #tgpu.mma<1, 1>
#opa = #tgpu.operand<a, #acc>
#opb = #tgpu.operand<b, #acc>

// Lane l supplies the address of row l % 16, chunk l / 16 of operand a; the chunk is xored with the row modulo 8. The
// address of the second ldmatrix of a row differs by an xor of 32 bytes, operand b uses .trans, and each mma follows
// its operands.
// CHECK-LABEL: llvm.func @product(
// CHECK-DAG:     %[[C7:.*]] = llvm.mlir.constant(896 : i32)
// CHECK:         %[[BITS:.*]] = llvm.and %[[OFFSET:.*]], %[[C7]]
// CHECK:         %[[SHIFTED:.*]] = llvm.lshr %[[BITS]]
// CHECK:         llvm.xor %[[OFFSET]], %[[SHIFTED]]
// CHECK:         llvm.call_intrinsic "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16"
// CHECK:         llvm.call_intrinsic "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
// CHECK:         llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"
// CHECK:         llvm.call_intrinsic "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
// CHECK-NEXT:    llvm.extractvalue
// CHECK-COUNT-31: llvm.call_intrinsic "llvm.nvvm.mma.m16n8k16.row.col.bf16"
// CHECK-NOT:     llvm.nvvm.mma
// The elements of the accumulator are rounded in pairs.
// CHECK-COUNT-16: llvm.call_intrinsic "llvm.nvvm.ff2bf16x2.rn"
// CHECK-NOT:     ff2bf16x2
tgpu.kernel @product target "sm_80" warps 1
    (%x: !tile.view<[16, 64], bf16>, %y: !tile.view<[64, 64], bf16>, %z: !tile.view<[16, 64], bf16>) grid(%i = 1)
    attributes {shared_bytes = 10240 : i64} {
  %a = tgpu.alloc at 0 : !tgpu.shared<16x64xbf16, b128>
  %b = tgpu.alloc at 2048 : !tgpu.shared<64x64xbf16, b128>
  tgpu.copy_async %x[0, 0], %a : !tile.view<[16, 64], bf16>, !tgpu.shared<16x64xbf16, b128>
  tgpu.copy_async %y[0, 0], %b : !tile.view<[64, 64], bf16>, !tgpu.shared<64x64xbf16, b128>
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %zero = arith.constant dense<0.0> : tensor<16x64xf32, #acc>
  %ar = tgpu.read %a : !tgpu.shared<16x64xbf16, b128> -> tensor<16x64xbf16, #opa>
  %br = tgpu.read %b : !tgpu.shared<64x64xbf16, b128> -> tensor<64x64xbf16, #opb>
  %s = tgpu.mma %ar, %br, %zero : tensor<16x64xbf16, #opa>, tensor<64x64xbf16, #opb> -> tensor<16x64xf32, #acc>
  %h = tile.cast %s : tensor<16x64xf32, #acc> -> tensor<16x64xbf16, #acc>
  tgpu.store %h, %z[0, 0] : tensor<16x64xbf16, #acc>, !tile.view<[16, 64], bf16>
}

// -----

// Ids of the grid are computed from blockIdx.x; the first is the fastest, and the extent of the last is not needed.
// Captures follow the arguments; a call is replaced by the body of the function.
// CHECK-LABEL: llvm.func @ids(
// CHECK-SAME:    %[[X:[^:]*]]: !llvm.ptr<1>, %[[N:[^:]*]]: i32, %[[STRIDE:[^:]*]]: i64, %[[FACTOR:[^:]*]]: f32)
// CHECK:         %[[BLOCK:.*]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK:         %[[REST:.*]] = llvm.udiv %[[BLOCK]],
// CHECK-NOT:     llvm.call @
// CHECK:         llvm.fmul %{{.*}}, %[[FACTOR]]
// CHECK-NOT:     func.func
tile.capture @factor : f32
func.func private @scaled(%x: f32) -> f32 {
  %f = tile.at @factor : f32
  %y = arith.mulf %x, %f : f32
  return %y : f32
}
#v = #tgpu.blocked<1, lanes 32, warps 1, 1>
tgpu.kernel @ids target "sm_80" warps 1 (%x: !tile.view<[?], f32>)
    grid(%i = ceildiv(dim(x, 0), 32), %h = sm_count()) {
  %c32 = arith.constant 32 : i32
  %m = arith.muli %i, %c32 : i32
  %at = arith.addi %m, %h : i32
  %t = tgpu.load %x[%at] : !tile.view<[?], f32> -> tensor<32xf32, #v>
  %u = tile.map @scaled(%t) : (tensor<32xf32, #v>) -> tensor<32xf32, #v>
  tgpu.store %u, %x[%at] : tensor<32xf32, #v>, !tile.view<[?], f32>
}

// -----

// A tile may begin before the view. Its rows are addressed by offsets from each thread's first row, which is signed
// when it is extended to 64 bits: later rows may be in bounds.
// CHECK-LABEL: llvm.func @before(
// CHECK:         %[[ROW:.*]] = llvm.add %arg5, %{{.*}} : i32
// CHECK-NEXT:    %[[WIDE:.*]] = llvm.sext %[[ROW]] : i32 to i64
// CHECK-NEXT:    llvm.mul %[[WIDE]], %{{.*}} : i64
// CHECK:         cp.async.cg.shared.global.16
tgpu.kernel @before target "sm_80" warps 4 (%x: !tile.view<[?, 64], f16>, %at: i32) grid(%i = 1) attributes {shared_bytes = 8192 : i64} {
  %a = tgpu.alloc at 0 : !tgpu.shared<64x64xf16, b128>
  tgpu.copy_async %x[%at, 0], %a : !tile.view<[?, 64], f16>, !tgpu.shared<64x64xf16, b128>
  tgpu.copy_commit
  tgpu.copy_wait pending 0
}
