// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A transpose through shared memory without a swizzle: all elements of a column are in one bank.

tgpu.kernel @conflicts target "sm_80" warps 4
    (%x: !tile.view<[?, ?], f32>, %y: !tile.view<[?, ?], f32>) grid(%b = 1)
    attributes {shared_bytes = 16384 : i64} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %buffer = tgpu.alloc at 0 : !tgpu.shared<64x64xf32, none>
  scf.for %i = %c0 to %c4 step %c1 : i32 {
    %t = tgpu.load %x[%i, %c0] : !tile.view<[?, ?], f32> -> tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
    tgpu.write %t, %buffer : tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>, !tgpu.shared<64x64xf32, none>
    tgpu.sync
    %s = tgpu.read %buffer transpose : !tgpu.shared<64x64xf32, none> -> tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
    tgpu.store %s, %y[%i, %c0] : tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>, !tile.view<[?, ?], f32>
    tgpu.sync
  }
}
