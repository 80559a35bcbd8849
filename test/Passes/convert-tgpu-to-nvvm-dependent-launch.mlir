// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where kernels whose launches overlap wait for the previous launch, and let the next one start.
//
// RUN: tilewrightc %s --target=sm_90a --emit=ptx -o %t.ptx
// RUN: FileCheck %s --input-file=%t.ptx

#v = #tgpu.blocked<1, lanes 32, warps 1, 1>

// The next launch may start at once. What computes addresses comes before the wait, every access behind it.
// CHECK-LABEL: .entry both(
// CHECK: griddepcontrol.launch_dependents;
// CHECK-NOT: {{(ld|st)\.global}}
// CHECK: mul.lo.s64
// CHECK-NOT: {{(ld|st)\.global}}
// CHECK: @always griddepcontrol.wait;
// CHECK: ld.global
// CHECK: st.global
// CHECK-NOT: griddepcontrol
tgpu.kernel @both target "sm_90a" warps 1 (%x: !tile.view<[?, ?], f32>) grid(%i = dim(x, 0)) attributes {tgpu.allows_launch, tgpu.awaits_launch} {
  %a = tgpu.load %x[%i, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<32xf32, #v>
  tgpu.store %a, %x[%i, 0] dims [1] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>
}

// A loop may access memory.
// CHECK-LABEL: .entry loop(
// CHECK-NOT: {{(ld|st)\.global}}
// CHECK: griddepcontrol.wait;
// CHECK: ld.global
// CHECK-NOT: griddepcontrol
tgpu.kernel @loop target "sm_90a" warps 1 (%x: !tile.view<[?, ?], f32>, %n: i32) grid(%i = 1) attributes {tgpu.awaits_launch} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %j = %c0 to %n step %c1 : i32 {
    %a = tgpu.load %x[%j, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<32xf32, #v>
    tgpu.store %a, %x[%j, 0] dims [1] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>
  }
}

// A kernel without accesses waits, too: the launch after it waits for its end alone.
// CHECK-LABEL: .entry nothing(
// CHECK: griddepcontrol.wait;
tgpu.kernel @nothing target "sm_90a" warps 1 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) attributes {tgpu.awaits_launch} {
}

// CHECK-LABEL: .entry neither(
// CHECK-NOT: griddepcontrol
tgpu.kernel @neither target "sm_90a" warps 1 (%x: !tile.view<[?, ?], f32>) grid(%i = dim(x, 0)) {
  %a = tgpu.load %x[%i, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<32xf32, #v>
  tgpu.store %a, %x[%i, 0] dims [1] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>
}
