// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where kernels whose launches overlap wait for the previous launch, and let the next one start.
//
// RUN: tilewrightc %s --target=sm_90a --emit=ptx -o %t.ptx
// RUN: FileCheck %s --input-file=%t.ptx
// RUN: sed 's/sm_90a/sm_80/' %s | not tilewrightc - --target=sm_80 --emit=ptx 2>&1 | FileCheck %s --check-prefix=TARGET
//
// With roles, a counter of tiles and tensor maps, each role waits by itself before its first access, also to shared memory,
// so that no role waits after another. The role that reads what the next tile is waits before the first read of its loop,
// and behind the loop. With a timeline, whose events are written to memory, all wait earlier.
// RUN: tilewrightc %kernels/attention_backward.mlir --param D=64 --param T=bf16 --target=sm_90a --emit=ptx -o %t.backward.ptx
// RUN: FileCheck %s --input-file=%t.backward.ptx --check-prefix=ROLES
// RUN: tilewrightc %kernels/attention_decode.mlir --param D=64 --param T=bf16 --target=sm_90a --timeline --emit=ptx -o %t.decode.ptx
// RUN: FileCheck %s --input-file=%t.decode.ptx --check-prefix=TIMELINE
//
// TARGET: error: 'tgpu.kernel' op can await or allow launches for target sm_90a{{.*}} only, but got sm_80; remove tgpu.awaits_launch, tgpu.allows_launch and tgpu.allows_run
//
// ROLES-LABEL: .entry pairs_of_keys(
// ROLES-NOT:     {{(ld|st|atom|red|cp)[.a-z]*\.global|cp\.async|griddepcontrol}}
// ROLES:         setmaxnreg
// ROLES-NOT:     {{(ld|st|atom|red|cp)[.a-z]*\.global|cp\.async}}
// ROLES:         griddepcontrol.wait;
// ROLES:         setmaxnreg
// ROLES-LABEL: .entry convert_pairs(
// ROLES-NOT:     {{(ld|st|atom|red|cp)[.a-z]*\.global|cp\.async}}
// ROLES:         griddepcontrol.wait;
//
// RUN: tilewrightc %kernels/attention_decode.mlir --param D=64 --param T=bf16 --target=sm_90a --emit=ptx | FileCheck %s --check-prefix=DECODE
// The roles in the order of the code: results, what the next tile is, copies.
// DECODE-LABEL: .entry attention_decode_part(
// DECODE-NOT:   {{(ld|st)[.a-z]*\.global|cp\.async}}
// DECODE:       @always griddepcontrol.wait;
// DECODE:       griddepcontrol.launch_dependents;
// DECODE:       mbarrier.try_wait
// DECODE:       st.global
// DECODE:       @always griddepcontrol.wait;
// DECODE:       griddepcontrol.launch_dependents;
// DECODE:       ld.global
// DECODE:       @always griddepcontrol.wait;
// DECODE:       griddepcontrol.launch_dependents;
// DECODE:       mbarrier.try_wait
// DECODE:       cp.async.bulk.tensor
// The next run may start when all blocks of the merge have.
// DECODE-LABEL: .entry attention_decode_merge(
// DECODE-NOT:   {{(ld|st)[.a-z]*\.global|mul}}
// DECODE:       griddepcontrol.launch_dependents;
// DECODE:       @always griddepcontrol.wait;
// DECODE-NOT:   griddepcontrol
// DECODE:       ld.global
//
// TIMELINE-LABEL: .entry attention_decode_merge(
// TIMELINE-NOT:   {{(ld|st|atom|red)[.a-z]*\.global}}
// TIMELINE:       griddepcontrol.wait;

#v = #tgpu.blocked<1, lanes 32, warps 1, 1>

// What computes addresses comes before the wait, every access behind it. The next launch may start behind the wait.
// CHECK-LABEL: .entry both(
// CHECK-NOT: {{(ld|st)\.global|griddepcontrol}}
// CHECK: mul.lo.s64
// CHECK-NOT: {{(ld|st)\.global}}
// CHECK: @always griddepcontrol.wait;
// CHECK: griddepcontrol.launch_dependents;
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

// One that does not wait itself starts when all before it has ended, so the next one may start at once.
// CHECK-LABEL: .entry allows(
// CHECK-NOT: {{(ld|st)\.global|mul}}
// CHECK: griddepcontrol.launch_dependents;
// CHECK: ld.global
// CHECK-NOT: griddepcontrol
tgpu.kernel @allows target "sm_90a" warps 1 (%x: !tile.view<[?, ?], f32>) grid(%i = dim(x, 0)) attributes {tgpu.allows_launch} {
  %a = tgpu.load %x[%i, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<32xf32, #v>
  tgpu.store %a, %x[%i, 0] dims [1] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>
}

// CHECK-LABEL: .entry neither(
// CHECK-NOT: griddepcontrol
tgpu.kernel @neither target "sm_90a" warps 1 (%x: !tile.view<[?, ?], f32>) grid(%i = dim(x, 0)) {
  %a = tgpu.load %x[%i, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<32xf32, #v>
  tgpu.store %a, %x[%i, 0] dims [1] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>
}
