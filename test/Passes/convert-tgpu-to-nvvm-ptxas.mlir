// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention with a ring of two stages, written in tgpu: ptxas accepts the PTX and reports no spills.
//
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s
// RUN: %if ptxas %{ tilewrightc %s --target=sm_80 --emit=cubin --report -o %t.cubin 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REPORT %}
//
// REPORT: attention for sm_80
// REPORT: registers {{[0-9]+}} per thread
// REPORT: spills 0 bytes stored, 0 bytes loaded
//
// CHECK: .target sm_80
// CHECK: .visible .entry attention(
// CHECK: .reqntid 128
// CHECK-DAG: cp.async.cg.shared.global {{.*}}, 16, %r{{[0-9]+}};
// CHECK-DAG: cp.async.wait_group
// CHECK-DAG: bar.sync
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4{{.*}}b16
// CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK-DAG: shfl.sync.bfly.b32
// CHECK-DAG: ex2.approx.ftz.f32
// CHECK-DAG: cvt.rn.f16x2.f32
// CHECK-DAG: ldmatrix.sync.aligned.m8n8.x4.trans{{.*}}b16
// CHECK-DAG: st.global

#acc = #tgpu.mma<4, 1>
#opa = #tgpu.operand<a, #acc>
#opb = #tgpu.operand<b, #acc>
#row = #tgpu.slice<1, #acc>
func.func private @zero_if_minus_inf(%arg0: f32) -> f32 {
  %cst = arith.constant 0xFF800000 : f32
  %cst_0 = arith.constant 0.000000e+00 : f32
  %0 = arith.cmpf oeq, %arg0, %cst : f32
  %1 = arith.select %0, %cst_0, %arg0 : f32
  return %1 : f32
}
func.func private @mask(%i: i32, %j: i32, %n: i32, %causal: i1) -> i1 {
  %in = arith.cmpi slt, %j, %n : i32
  %le = arith.cmpi sle, %j, %i : i32
  %true = arith.constant true
  %c = arith.select %causal, %le, %true : i1
  %k = arith.andi %in, %c : i1
  return %k : i1
}
tgpu.kernel @attention target "sm_80" warps 4
  (%q: !tile.view<[?, ?, ?, 64], f16>, %k: !tile.view<[?, ?, ?, 64], f16>, %v: !tile.view<[?, ?, ?, 64], f16>, %o: !tile.view<[?, ?, ?, 64], f16>, %lse: optional !tile.view<[?, ?, ?], f32>, %scale: f32, %causal: i1)
  grid(%bm = ceildiv(dim(q, 2), 128), %h = dim(q, 1), %b = dim(q, 0)) attributes {shared_bytes = 49152 : i64} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %cn = arith.constant 64 : i32
  %cn1 = arith.constant 63 : i32
  %cm = arith.constant 128 : i32
  %log2e = arith.constant 1.44269504 : f32
  %ninf = arith.constant dense<0xFF800000> : tensor<128xf32, #row>
  %zerorow = arith.constant dense<0.0> : tensor<128xf32, #row>
  %onerow = arith.constant dense<1.0> : tensor<128xf32, #row>
  %ln2 = arith.constant dense<0.693147182> : tensor<128xf32, #row>
  %zacc = arith.constant dense<0.0> : tensor<128x64xf32, #acc>
  %zs = arith.constant dense<0.0> : tensor<128x64xf32, #acc>
  %ninfs = arith.constant dense<0xFF800000> : tensor<128x64xf32, #acc>
  %rows = tile.dim %q, 2 : !tile.view<[?, ?, ?, 64], f16>
  %n = tile.dim %k, 2 : !tile.view<[?, ?, ?, 64], f16>
  %hq = tile.dim %q, 1 : !tile.view<[?, ?, ?, 64], f16>
  %hkv = tile.dim %k, 1 : !tile.view<[?, ?, ?, 64], f16>
  %m0 = arith.muli %bm, %cm : i32
  %hh = arith.muli %h, %hkv : i32
  %hk = arith.divsi %hh, %hq : i32
  %sc = arith.mulf %scale, %log2e : f32
  %qb = tgpu.alloc at 0 : !tgpu.shared<128x64xf16, b128>
  %kr = tgpu.alloc_ring at 16384 : !tgpu.ring<2, !tgpu.shared<64x64xf16, b128>>
  %vr = tgpu.alloc_ring at 32768 : !tgpu.ring<2, !tgpu.shared<64x64xf16, b128>>
  %endm = arith.addi %m0, %cm : i32
  %ce = arith.minsi %endm, %n : i32
  %end = arith.select %causal, %ce, %n : i32
  %e1 = arith.addi %end, %cn1 : i32
  %blocks = arith.divsi %e1, %cn : i32
  tgpu.copy_async %q[%b, %h, %m0, 0], %qb : !tile.view<[?, ?, ?, 64], f16>, !tgpu.shared<128x64xf16, b128>
  %k0 = tgpu.slot %kr[%c0] : !tgpu.ring<2, !tgpu.shared<64x64xf16, b128>>
  %v0 = tgpu.slot %vr[%c0] : !tgpu.ring<2, !tgpu.shared<64x64xf16, b128>>
  tgpu.copy_async %k[%b, %hk, 0, 0], %k0 : !tile.view<[?, ?, ?, 64], f16>, !tgpu.shared<64x64xf16, b128>
  tgpu.copy_commit
  tgpu.copy_async %v[%b, %hk, 0, 0], %v0 : !tile.view<[?, ?, ?, 64], f16>, !tgpu.shared<64x64xf16, b128>
  tgpu.copy_commit
  tgpu.copy_wait pending 1
  tgpu.sync
  %qt = tgpu.read %qb : !tgpu.shared<128x64xf16, b128> -> tensor<128x64xf16, #opa>
  %irow = tile.iota %m0 dim 0 : tensor<128x64xi32, #acc>
  %r:3 = scf.for %it = %c0 to %blocks step %c1 iter_args(%mx = %ninf, %l = %zerorow, %acc = %zacc) -> (tensor<128xf32, #row>, tensor<128xf32, #row>, tensor<128x64xf32, #acc>) : i32 {
    %j0 = arith.muli %it, %cn : i32
    %next = arith.addi %it, %c1 : i32
    %j1 = arith.muli %next, %cn : i32
    %kc = tgpu.slot %kr[%it] : !tgpu.ring<2, !tgpu.shared<64x64xf16, b128>>
    %vc = tgpu.slot %vr[%it] : !tgpu.ring<2, !tgpu.shared<64x64xf16, b128>>
    %kn = tgpu.slot %kr[%next] : !tgpu.ring<2, !tgpu.shared<64x64xf16, b128>>
    %vn = tgpu.slot %vr[%next] : !tgpu.ring<2, !tgpu.shared<64x64xf16, b128>>
    tgpu.copy_wait pending 1
    tgpu.sync
    tgpu.copy_async %k[%b, %hk, %j1, 0], %kn : !tile.view<[?, ?, ?, 64], f16>, !tgpu.shared<64x64xf16, b128>
    tgpu.copy_commit
    %kt = tgpu.read %kc transpose : !tgpu.shared<64x64xf16, b128> -> tensor<64x64xf16, #opb>
    %s = tgpu.mma %qt, %kt, %zs : tensor<128x64xf16, #opa>, tensor<64x64xf16, #opb> -> tensor<128x64xf32, #acc>
    %jn = arith.addi %j0, %cn : i32
    %over = arith.cmpi sgt, %jn, %n : i32
    %diag = arith.cmpi sgt, %jn, %m0 : i32
    %cd = arith.andi %diag, %causal : i1
    %partial = arith.ori %over, %cd : i1
    %sm = scf.if %partial -> (tensor<128x64xf32, #acc>) {
      %icol = tile.iota %j0 dim 1 : tensor<128x64xi32, #acc>
      %keep = tile.map @mask(%irow, %icol, %n, %causal) : (tensor<128x64xi32, #acc>, tensor<128x64xi32, #acc>, i32, i1) -> tensor<128x64xi1, #acc>
      %mm = tile.select %keep, %s, %ninfs : tensor<128x64xi1, #acc>, tensor<128x64xf32, #acc>
      scf.yield %mm : tensor<128x64xf32, #acc>
    } else {
      scf.yield %s : tensor<128x64xf32, #acc>
    }
    %sr = tile.full %sc : tensor<128xf32, #row>
    %st = tile.full %sc : tensor<128x64xf32, #acc>
    %rm = tile.reduce max %sm dim 1 : tensor<128x64xf32, #acc> -> tensor<128xf32, #row>
    %mn = arith.maximumf %mx, %rm : tensor<128xf32, #row>
    %mz = tile.map @zero_if_minus_inf(%mn) : (tensor<128xf32, #row>) -> tensor<128xf32, #row>
    %ms = arith.mulf %mz, %sr : tensor<128xf32, #row>
    %me = tile.expand %ms dim 1 : tensor<128xf32, #row> -> tensor<128x64xf32, #acc>
    %ss = arith.mulf %sm, %st fastmath<contract> : tensor<128x64xf32, #acc>
    %d = arith.subf %ss, %me fastmath<contract> : tensor<128x64xf32, #acc>
    %p = math.exp2 %d : tensor<128x64xf32, #acc>
    %dm0 = arith.subf %mx, %mz : tensor<128xf32, #row>
    %dm = arith.mulf %dm0, %sr : tensor<128xf32, #row>
    %al = math.exp2 %dm : tensor<128xf32, #row>
    %rs = tile.reduce add %p dim 1 : tensor<128x64xf32, #acc> -> tensor<128xf32, #row>
    %la = arith.mulf %l, %al : tensor<128xf32, #row>
    %ln = arith.addf %la, %rs : tensor<128xf32, #row>
    %ae = tile.expand %al dim 1 : tensor<128xf32, #row> -> tensor<128x64xf32, #acc>
    %as = arith.mulf %acc, %ae : tensor<128x64xf32, #acc>
    %ph = tile.cast %p : tensor<128x64xf32, #acc> -> tensor<128x64xf16, #acc>
    %pa = tgpu.convert %ph : tensor<128x64xf16, #acc> -> tensor<128x64xf16, #opa>
    tgpu.copy_wait pending 1
    tgpu.sync
    tgpu.copy_async %v[%b, %hk, %j1, 0], %vn : !tile.view<[?, ?, ?, 64], f16>, !tgpu.shared<64x64xf16, b128>
    tgpu.copy_commit
    %vt = tgpu.read %vc : !tgpu.shared<64x64xf16, b128> -> tensor<64x64xf16, #opb>
    %an = tgpu.mma %pa, %vt, %as : tensor<128x64xf16, #opa>, tensor<64x64xf16, #opb> -> tensor<128x64xf32, #acc>
    scf.yield %mn, %ln, %an : tensor<128xf32, #row>, tensor<128xf32, #row>, tensor<128x64xf32, #acc>
  }
  tgpu.copy_wait pending 0
  %inv = arith.divf %onerow, %r#1 : tensor<128xf32, #row>
  %ie = tile.expand %inv dim 1 : tensor<128xf32, #row> -> tensor<128x64xf32, #acc>
  %of = arith.mulf %r#2, %ie : tensor<128x64xf32, #acc>
  %oh = tile.cast %of : tensor<128x64xf32, #acc> -> tensor<128x64xf16, #acc>
  tgpu.store %oh, %o[%b, %h, %m0, 0] : tensor<128x64xf16, #acc>, !tile.view<[?, ?, ?, 64], f16>
  %scr = tile.full %scale : tensor<128xf32, #row>
  %mxs = arith.mulf %r#0, %scr : tensor<128xf32, #row>
  %lg = math.log %r#1 : tensor<128xf32, #row>
  %lv = arith.addf %mxs, %lg : tensor<128xf32, #row>
  tgpu.store %lv, %lse[%b, %h, %m0] : tensor<128xf32, #row>, !tile.view<[?, ?, ?], f32>
}

