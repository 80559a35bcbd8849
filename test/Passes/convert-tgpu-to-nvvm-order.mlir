// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns of blocks: a block polls a counter with acquire, and releases it after a proxy fence for its additions. A turn
// outside the view has no counter. The first tile is taken from the counter, too. A role that waits for the last turn
// polls by relaxed loads with pauses, and acquires once; one lane per warp polls.
//
// RUN: split-file %s %t
// RUN: tilewrightc %t/turns.mlir --target=sm_90a --emit=ptx | FileCheck %s
// RUN: tilewrightc %t/last.mlir --target=sm_90a --emit=ptx | FileCheck %s --check-prefix=LAST
// RUN: not tilewrightc %t/threads.mlir --target=sm_90a --emit=ptx 2>&1 | FileCheck %s --check-prefix=THREADS
// THREADS: error: 'tgpu.await_turn' op must be in a role of one thread, but got one of several, which has more than copies and scalars

// CHECK:       .entry turns(
// CHECK:       atom.global.add.u32 [[TILE:%r[0-9]+]], [{{.*}}], 1;
// CHECK-NEXT:  setp.lt.s32 {{.*}}, [[TILE]],
// CHECK:       ld.acquire.gpu.global.b32 [[COUNT:%r[0-9]+]], [[[AT:%rd[0-9]+]]];
// CHECK:       setp.ne.b32 {{.*}}, [[COUNT]], [[TILE]];
// CHECK:       fence.proxy.async.global;
// CHECK:       fence.proxy.async.global; st.release.gpu.global.b32 [[[AT]]],

// A block starts at its own number and advances by the number of blocks.
// LAST:       .entry last(
// LAST-DAG:   mov.u32 [[BLOCK:%r[0-9]+]], %ctaid.x;
// LAST-DAG:   mov.u32 [[BLOCKS:%r[0-9]+]], %nctaid.x;
// LAST-DAG:   and.b32 [[LANE:%r[0-9]+]], %{{r[0-9]+}}, 31;
// LAST:       ld.relaxed.gpu.global.b32 [[COUNT:%r[0-9]+]], [[[AT:%rd[0-9]+]]];
// LAST:       nanosleep.u32 256;
// LAST:       ld.acquire.gpu.global.b32 %{{r[0-9]+}}, [[[AT]]];
// LAST:       fence.proxy.async.global;
// LAST:       bar.warp.sync -1;
// LAST:       ld.global
// LAST-NOT:   st.release

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

//--- last.mlir

!turns = !tile.view<[?], i32>
!view = !tile.view<[?, 64], f32>
!t = tensor<16x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @last target "sm_90a" warps 8 (%turns: !turns, %sum: !view, %o: !view, %n: i32) grid(%i = sm_count()) {
  tgpu.roles
    role "spread" warps 4 {
      %first, %step = tgpu.share of %n
      scf.for %m = %first to %n step %step : i32 {
        tgpu.await_turn %n of %turns[%m] last : !turns
        %x = tgpu.load %sum[%m, 0] : !view -> !t
        tgpu.store %x, %o[%m, 0] : !t, !view
      }
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
