// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On no path of a kernel that awaits the previous launch is global memory accessed before the wait: of shipped kernels with
// and without roles, with a timeline, and of kernels whose roles are not all that there is.
//
// RUN: tilewrightc %s --target=sm_90a --emit=ptx -o %t.ptx
// RUN: %python %S/Inputs/launch_waits.py %t.ptx | FileCheck %s
// RUN: FileCheck %s --input-file=%t.ptx --check-prefix=CODE
// RUN: tilewrightc %kernels/attention_decode.mlir --param D=128 --param T=bf16 --param GROUP=8 --param PAGE_ROWS=64 --target=sm_90a --emit=ptx -o %t.ptx
// RUN: %python %S/Inputs/launch_waits.py %t.ptx | FileCheck %s --check-prefix=DECODE
// RUN: tilewrightc %kernels/attention_decode.mlir --param D=64 --param T=f16 --param ROWS=4 --param GROUP=8 --target=sm_90a --timeline --emit=ptx -o %t.ptx
// RUN: %python %S/Inputs/launch_waits.py %t.ptx | FileCheck %s --check-prefix=DECODE
// RUN: tilewrightc %kernels/attention_mla_decode.mlir --param D=576 --param DV=512 --param T=bf16 --param GROUP=16 --param PAGE_ROWS=64 --target=sm_90a --emit=ptx -o %t.ptx
// RUN: %python %S/Inputs/launch_waits.py %t.ptx
// RUN: tilewrightc %kernels/attention_append.mlir --param D=64 --param T=f16 --target=sm_90a --emit=ptx -o %t.ptx
// RUN: %python %S/Inputs/launch_waits.py %t.ptx
// RUN: tilewrightc %kernels/attention_backward.mlir --param D=64 --param T=bf16 --target=sm_90a --emit=ptx -o %t.ptx
// RUN: %python %S/Inputs/launch_waits.py %t.ptx
// RUN: tilewrightc %kernels/matmul.mlir --param T=bf16 --target=sm_90a --emit=ptx -o %t.ptx
// RUN: %python %S/Inputs/launch_waits.py %t.ptx
//
// The script finds accesses where there is no wait.
// RUN: sed '0,/@always griddepcontrol.wait;/s///' %t.ptx > %t.without.ptx
// RUN: not %python %S/Inputs/launch_waits.py %t.without.ptx
//
// DECODE: attention_decode_part: {{[4-9]}} waits, 0 accesses before them
// DECODE: attention_decode_merge: 1 waits, 0 accesses before them

#v = #tgpu.blocked<1, lanes 32, warps 1, 1>

// Each role by itself; a role without accesses waits at its end. The loop that begins with an access waits in it and
// behind it.
// CHECK: roles: 4 waits, 0 accesses before them
// CODE-LABEL: .entry roles(
tgpu.kernel @roles target "sm_90a" warps 4 (%x: !tile.view<[?, ?], f32>, %n: i32) grid(%i = dim(x, 0)) attributes {tgpu.allows_launch, tgpu.awaits_launch} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "loop" warps 1 {
      scf.for %j = %c0 to %n step %c1 : i32 {
        %a = tgpu.load %x[%j, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<32xf32, #v>
        tgpu.store %a, %x[%i, 0] dims [1] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>
      }
    }
    role "once" warps 1 {
      %a = tgpu.load %x[%i, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<32xf32, #v>
      tgpu.store %a, %x[%i, 0] dims [1] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>
    }
    role "idle" warps 2 {
    }
}

// All threads, in front of the roles: what comes before them accesses memory.
// CHECK: before: 1 waits, 0 accesses before them
tgpu.kernel @before target "sm_90a" warps 4 (%x: !tile.view<[?, ?], f32>) grid(%i = dim(x, 0)) attributes {tgpu.awaits_launch} {
  %first = tile.at %x[%i, 0] : !tile.view<[?, ?], f32>
  tgpu.roles
    role "once" warps 1 {
      %a = tile.full %first : tensor<32xf32, #v>
      tgpu.store %a, %x[%i, 0] dims [1] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>
    }
    role "idle" warps 3 {
    }
}

// And what comes behind them.
// CHECK: behind: 1 waits, 0 accesses before them
#w = #tgpu.blocked<1, lanes 32, warps 4, 1>
tgpu.kernel @behind target "sm_90a" warps 4 (%x: !tile.view<[?, ?], f32>) grid(%i = dim(x, 0)) attributes {tgpu.awaits_launch} {
  tgpu.roles
    role "once" warps 1 {
      %a = tgpu.load %x[%i, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<32xf32, #v>
      tgpu.store %a, %x[%i, 0] dims [1] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>
    }
    role "idle" warps 3 {
    }
  %b = tgpu.load %x[%i, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<128xf32, #w>
  tgpu.store %b, %x[%i, 0] dims [1] : tensor<128xf32, #w>, !tile.view<[?, ?], f32>
}

// Of a kernel that is the last of one program and the first of another, the next launch starts behind the wait.
// CHECK: shared: 1 waits, 0 accesses before them
// CODE-LABEL: .entry shared(
// CODE-NOT:   griddepcontrol
// CODE:       griddepcontrol.wait;
// CODE:       griddepcontrol.launch_dependents;
// CODE-NOT:   griddepcontrol
tgpu.kernel @shared target "sm_90a" warps 1 (%x: !tile.view<[?, ?], f32>) grid(%i = dim(x, 0)) attributes {tgpu.allows_launch, tgpu.allows_run, tgpu.awaits_launch} {
  %a = tgpu.load %x[%i, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<32xf32, #v>
  tgpu.store %a, %x[%i, 0] dims [1] : tensor<32xf32, #v>, !tile.view<[?, ?], f32>
}
