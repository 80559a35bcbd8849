// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns of blocks: a counter is polled with acquire, and released when what was added before it is visible to the other
// proxy. Outside of the view there is no counter. The first tile is taken, too.
//
// RUN: split-file %s %t
// RUN: tilewrightc %t/turns.mlir --target=sm_90a --emit=ptx | FileCheck %s
// RUN: not tilewrightc %t/threads.mlir --target=sm_90a --emit=ptx 2>&1 | FileCheck %s --check-prefix=THREADS
// THREADS: error: 'tgpu.await_turn' op is executed by one thread: its role may only copy and compute scalars

// CHECK:       .entry turns(
// CHECK:       atom.global.add.u32 [[TILE:%r[0-9]+]], [{{.*}}], 1;
// CHECK-NEXT:  setp.lt.s32 {{.*}}, [[TILE]],
// CHECK:       ld.acquire.gpu.global.b32 [[COUNT:%r[0-9]+]], [[[AT:%rd[0-9]+]]];
// CHECK:       setp.ne.b32 {{.*}}, [[COUNT]], [[TILE]];
// CHECK:       fence.proxy.async.global;
// CHECK:       fence.proxy.async.global; st.release.gpu.global.b32 [[[AT]]],

//--- turns.mlir

!turns = !tile.view<[?, ?], i32>
tgpu.kernel @turns target "sm_90a" warps 8 (%turns: !turns, %tiles: i32) grid(%i = min(sm_count(), 7)) {
  tgpu.roles
    role "reduce" warps 4 {
      %t = tgpu.take_tile of %tiles all
      tgpu.await_turn %t of %turns[%t, 1] : !turns
      tgpu.end_turn %t of %turns[%t, 1] : !turns
    }
    role "compute" warps 4 {
    }
}

//--- threads.mlir

!turns = !tile.view<[?], i32>
!out = !tile.view<[64, 64], f32>
tgpu.kernel @threads target "sm_90a" warps 8 (%turns: !turns, %a: f32, %o: !out, %n: i32) grid(%i = 1) {
  tgpu.roles
    role "a" warps 4 {
      tgpu.await_turn %n of %turns[%n] : !turns
      tgpu.end_turn %n of %turns[%n] : !turns
      %x = tile.full %a : tensor<64x64xf32, #tgpu.mma<4, 1>>
      tgpu.store %x, %o[0, 0] : tensor<64x64xf32, #tgpu.mma<4, 1>>, !out
    }
    role "b" warps 4 {
    }
}
