// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A matrix product by wgmma: one role loads by TMA into a ring of four stages, two warpgroups multiply. ptxas spills
// nothing.
//
// RUN: tilewrightc %s --target=sm_90a --emit=ptx | FileCheck %s
// RUN: %if ptxas %{ tilewrightc %s --target=sm_90a --emit=cubin --report -o %t.cubin 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REPORT %}
//
// REPORT: matmul90 for sm_90a
// REPORT: registers 168 per thread
// REPORT: spills 0 bytes stored, 0 bytes loaded
//
// CHECK: .target sm_90a
// CHECK: .entry matmul90(
// CHECK: .param .align 64 .b8 matmul90_param_15[128],
// CHECK: .reqntid 384
// CHECK: .minnctapersm 1
// CHECK-DAG: mbarrier.init.shared::cta.b64
// CHECK-DAG: setmaxnreg.dec.sync.aligned.u32 40;
// CHECK-DAG: setmaxnreg.inc.sync.aligned.u32 232;
// CHECK-DAG: mbarrier.arrive.expect_tx.shared::cta.b64
// CHECK-DAG: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
// CHECK-DAG: mbarrier.try_wait.parity.shared::cta.b64
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK-DAG: wgmma.wait_group.sync.aligned 0;
// CHECK-DAG: fence.proxy.async.shared::cta;
// CHECK-DAG: bar.sync 1, 256;
// CHECK-DAG: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group

tgpu.kernel @matmul90 target "sm_90a" warps 12
  (%a: !tile.view<[?, ?], bf16>, %b: !tile.view<[?, ?], bf16>, %c: !tile.view<[?, ?], bf16>)
  grid(%bn = ceildiv(dim(c, 1), 128), %bm = ceildiv(dim(c, 0), 128)) attributes {shared_bytes = 163904 : i64} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %cbk = arith.constant 64 : i32
  %cbk1 = arith.constant 63 : i32
  %cbm = arith.constant 128 : i32
  %cbn = arith.constant 128 : i32
  %k = tile.dim %a, 1 : !tile.view<[?, ?], bf16>
  %k1 = arith.addi %k, %cbk1 : i32
  %steps = arith.divsi %k1, %cbk : i32
  %m0 = arith.muli %bm, %cbm : i32
  %n0 = arith.muli %bn, %cbn : i32
  %am = tgpu.tensor_map %a : !tile.view<[?, ?], bf16> -> !tgpu.tensor_map<128x64xbf16, b128>
  %bmap = tgpu.tensor_map %b : !tile.view<[?, ?], bf16> -> !tgpu.tensor_map<64x64xbf16, b128>
  %cm = tgpu.tensor_map %c : !tile.view<[?, ?], bf16> -> !tgpu.tensor_map<128x64xbf16, b128>
  %ar = tgpu.alloc_ring at 0 : !tgpu.ring<4, !tgpu.shared<128x64xbf16, b128>>
  %br = tgpu.alloc_ring at 65536 : !tgpu.ring<4, !tgpu.shared<64x128xbf16, b128>>
  %cb = tgpu.alloc at 131072 : !tgpu.shared<128x128xbf16, b128>
  %full = tgpu.alloc_barriers arrivals 1 at 163840 : !tgpu.barriers<4>
  %empty = tgpu.alloc_barriers arrivals 8 at 163872 : !tgpu.barriers<4>
  %done = tgpu.named_barrier warps 8 id 1 : index
  tgpu.roles
    role "load" warps 4 registers 40 {
      scf.for %i = %c0 to %steps step %c1 : i32 {
        %kk = arith.muli %i, %cbk : i32
        %as = tgpu.slot %ar[%i] : !tgpu.ring<4, !tgpu.shared<128x64xbf16, b128>>
        %bs = tgpu.slot %br[%i] : !tgpu.ring<4, !tgpu.shared<64x128xbf16, b128>>
        tgpu.acquire %empty[%i] : !tgpu.barriers<4>
        tgpu.expect %full[%i] bytes 32768 : !tgpu.barriers<4>
        tgpu.tma_load %am[%m0, %kk], %as, %full[%i] : !tgpu.tensor_map<128x64xbf16, b128>, !tgpu.shared<128x64xbf16, b128>, !tgpu.barriers<4>
        tgpu.tma_load %bmap[%kk, %n0], %bs, %full[%i] : !tgpu.tensor_map<64x64xbf16, b128>, !tgpu.shared<64x128xbf16, b128>, !tgpu.barriers<4>
      }
    }
    role "compute" warps 8 registers 232 {
      %z = arith.constant dense<0.0> : tensor<128x128xf32, #tgpu.wgmma<2>>
      %r = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %z) -> (tensor<128x128xf32, #tgpu.wgmma<2>>) : i32 {
        %as = tgpu.slot %ar[%i] : !tgpu.ring<4, !tgpu.shared<128x64xbf16, b128>>
        %bs = tgpu.slot %br[%i] : !tgpu.ring<4, !tgpu.shared<64x128xbf16, b128>>
        tgpu.wait %full[%i] : !tgpu.barriers<4>
        %p = tgpu.wgmma %as, %bs, %acc : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x128xbf16, b128>, tensor<128x128xf32, #tgpu.wgmma<2>> -> tensor<128x128xf32, #tgpu.wgmma<2>>
        tgpu.wgmma_commit
        %n = tgpu.wgmma_wait pending 0, %p : tensor<128x128xf32, #tgpu.wgmma<2>>
        tgpu.arrive %empty[%i] per warp : !tgpu.barriers<4>
        scf.yield %n : tensor<128x128xf32, #tgpu.wgmma<2>>
      }
      %h = tile.cast %r : tensor<128x128xf32, #tgpu.wgmma<2>> -> tensor<128x128xbf16, #tgpu.wgmma<2>>
      tgpu.write %h, %cb : tensor<128x128xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x128xbf16, b128>
      tgpu.fence_async
      tgpu.sync on %done
      tgpu.tma_store %cb, %cm[%m0, %n0] : !tgpu.shared<128x128xbf16, b128>, !tgpu.tensor_map<128x64xbf16, b128>
      tgpu.bulk_commit
      tgpu.bulk_wait pending 0
    }
}

