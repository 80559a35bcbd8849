// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewrightc %s --target=sm_80 --emit=ptx | FileCheck %s
//
// Elements of 64 bits are loaded and stored two at a time, each with the pad.
// CHECK-LABEL: .entry twice(
// CHECK: mov.b64 [[A:%rd[0-9]+]], [[PAD:%rd[0-9]+]]; mov.b64 [[B:%rd[0-9]+]], [[PAD]]; @{{%p[0-9]+}} ld.global.v2.b64 {[[A]], [[B]]}
// CHECK: st.global.v2.b64

#v = #tgpu.blocked<2, lanes 32, warps 1, 1>

tgpu.kernel @twice target "sm_80" warps 1 (%x: !tile.view<[?], f64>, %y: !tile.view<[?], f64>) grid(%i = 1) {
  %one = arith.constant 1.0 : f64
  %a = tgpu.load %x[0] pad %one : f64 in : !tile.view<[?], f64> -> tensor<64xf64, #v>
  %b = arith.addf %a, %a : tensor<64xf64, #v>
  tgpu.store %b, %y[0] : tensor<64xf64, #v>, !tile.view<[?], f64>
}
