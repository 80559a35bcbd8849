// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An addition that GPUs do not support.
#v = #tgpu.blocked<1, lanes 32, warps 1, 1>
tgpu.kernel @narrow target "sm_80" warps 1 (%x: !tile.view<[?], f16>, %sums: !tile.view<[?], f16>) grid(%i = 1) {
  %a = tgpu.load %x[0] : !tile.view<[?], f16> -> tensor<32xf16, #v>
  tile.add_at %a, %sums[%i] : tensor<32xf16, #v>, !tile.view<[?], f16>, (i32)
}
