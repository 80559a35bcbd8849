// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The registers per thread with which a block of roles is launched.
//
// RUN: tilewrightc %s --target=sm_90a --emit=ptx -o %t.ptx
// RUN: FileCheck %s --input-file=%t.ptx --implicit-check-not=.maxnreg
// RUN: %if ptxas %{ ptxas -v -arch=sm_90a %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=PTXAS --implicit-check-not=C75 %}

#w = #tgpu.blocked<1, lanes 32, warps 4, 1>

// If the next launch may start beside it, a block with roles leaves 8,192 registers to a block of it. Each role then asks
// for more or fewer.
// CHECK-LABEL: .entry taken(
// CHECK:       .maxnreg 224
// CHECK-NEXT:  {
// CHECK-DAG:   setmaxnreg.dec.sync.aligned.u32 56;
// CHECK-DAG:   setmaxnreg.inc.sync.aligned.u32 240;
// PTXAS:       Compiling entry function 'taken'
// PTXAS:       0 bytes spill stores
// PTXAS-NEXT:  Used 224 registers
tgpu.kernel @taken target "sm_90a" warps 8 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) attributes {tgpu.allows_launch} {
  tgpu.roles
    role "first" warps 4 registers 56 {
      %a = tgpu.load %x[%i, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<128xf32, #w>
      tgpu.store %a, %x[%i, 0] dims [1] : tensor<128xf32, #w>, !tile.view<[?, ?], f32>
    }
    role "second" warps 4 registers 240 {
    }
}

// 149 of each of 384 threads are in units of 8.
// CHECK-LABEL: .entry twelve(
// CHECK:       .maxnreg 144
// CHECK-DAG:   setmaxnreg.dec.sync.aligned.u32 24;
// CHECK-DAG:   setmaxnreg.inc.sync.aligned.u32 168;
tgpu.kernel @twelve target "sm_90a" warps 12 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) attributes {tgpu.allows_launch} {
  tgpu.roles
    role "first" warps 4 registers 24 {
    }
    role "second" warps 8 registers 168 {
    }
}

// Not fewer than the roles have on average: here 228.
// CHECK-LABEL: .entry many(
// CHECK:       .maxnreg 232
// CHECK-DAG:   setmaxnreg.dec.sync.aligned.u32 216;
// CHECK-DAG:   setmaxnreg.inc.sync.aligned.u32 240;
tgpu.kernel @many target "sm_90a" warps 8 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) attributes {tgpu.allows_launch} {
  tgpu.roles
    role "first" warps 4 registers 216 {
    }
    role "second" warps 4 registers 240 {
    }
}

// All registers, if no launch is to be beside; if a role leaves its number to ptxas; and if the roles take all.
// CHECK-LABEL: .entry alone(
// CHECK:       .minnctapersm 1
// CHECK-DAG:   setmaxnreg.dec.sync.aligned.u32 56;
// CHECK-DAG:   setmaxnreg.dec.sync.aligned.u32 160;
tgpu.kernel @alone target "sm_90a" warps 8 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) {
  tgpu.roles
    role "first" warps 4 registers 56 {
      %a = tgpu.load %x[%i, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<128xf32, #w>
      tgpu.store %a, %x[%i, 0] dims [1] : tensor<128xf32, #w>, !tile.view<[?, ?], f32>
    }
    role "second" warps 4 registers 160 {
    }
}

// CHECK-LABEL: .entry unnamed(
// CHECK:       .minnctapersm 1
// CHECK:       setmaxnreg.dec.sync.aligned.u32 56;
tgpu.kernel @unnamed target "sm_90a" warps 8 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) attributes {tgpu.allows_launch} {
  tgpu.roles
    role "first" warps 4 registers 56 {
    }
    role "second" warps 4 {
    }
}

// CHECK-LABEL: .entry all(
// CHECK:       .minnctapersm 1
// CHECK-DAG:   setmaxnreg.dec.sync.aligned.u32 24;
// CHECK-DAG:   setmaxnreg.inc.sync.aligned.u32 240;
tgpu.kernel @all target "sm_90a" warps 12 (%x: !tile.view<[?, ?], f32>) grid(%i = 1) attributes {tgpu.allows_launch} {
  tgpu.roles
    role "first" warps 4 registers 24 {
    }
    role "second" warps 8 registers 240 {
    }
}
