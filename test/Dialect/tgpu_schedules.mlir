// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules of loops and roles, columns of register tiles, and first iterations of warpgroups.
// RUN: split-file %s %t
// RUN: tilewright-opt %t/valid.mlir --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %t/invalid.mlir -split-input-file -verify-diagnostics

//--- valid.mlir

// CHECK-LABEL: tgpu.kernel @k
// CHECK-SAME:  warps 8
// CHECK:       tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, group = 8, store_buffers = 2>
tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, group = 8, store_buffers = 2>} {
  %zero = arith.constant 0.0 : bf16
  %x = tile.full %zero : tensor<128x128xbf16, #tgpu.wgmma<2>>
  %y = tile.full %zero : tensor<128x24xbf16, #tgpu.mma<8, 1>>
  // CHECK: tgpu.first_round %{{.*}} of %{{.*}}, %{{.*}}
  // CHECK: tgpu.columns 64 of %{{.*}} : tensor<128x128xbf16, #tgpu.wgmma<2>> -> tensor<128x64xbf16, #tgpu.wgmma<2>>
  // CHECK: tgpu.columns 0 of %{{.*}} : tensor<128x24xbf16, #tgpu.mma<8, 1>> -> tensor<128x8xbf16, #tgpu.mma<8, 1>>
  // CHECK: tgpu.thread_sum %{{.*}} dim 1 : tensor<128x128xbf16, #tgpu.wgmma<2>> -> tensor<128x4xbf16, #tgpu.by_thread<1, #tgpu.wgmma<2>>>
  // CHECK: tgpu.thread_sum %{{.*}} dim 0 : tensor<128x24xbf16, #tgpu.mma<8, 1>> -> tensor<64x24xbf16, #tgpu.by_thread<0, #tgpu.mma<8, 1>>>
  // CHECK: tgpu.raise_max %{{.*}} by %{{.*}} to %{{.*}} times %{{.*}} : tensor<128x64xf32, #tgpu.wgmma<2>> -> tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %first = tgpu.first_round %c0 of %c1, %c0
  %one = arith.constant 1.0 : f32
  %s = tile.full %one : tensor<128x64xf32, #tgpu.wgmma<2>>
  %old = tile.full %one : tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
  %right = tgpu.columns 64 of %x : tensor<128x128xbf16, #tgpu.wgmma<2>> -> tensor<128x64xbf16, #tgpu.wgmma<2>>
  %left = tgpu.columns 0 of %y : tensor<128x24xbf16, #tgpu.mma<8, 1>> -> tensor<128x8xbf16, #tgpu.mma<8, 1>>
  %rows = tgpu.thread_sum %x dim 1 : tensor<128x128xbf16, #tgpu.wgmma<2>> -> tensor<128x4xbf16, #tgpu.by_thread<1, #tgpu.wgmma<2>>>
  %columns = tgpu.thread_sum %y dim 0 : tensor<128x24xbf16, #tgpu.mma<8, 1>> -> tensor<64x24xbf16, #tgpu.by_thread<0, #tgpu.mma<8, 1>>>
  // CHECK: tgpu.raise_max %{{.*}} by %{{.*}} to %{{.*}} plus %{{.*}} times %{{.*}} : tensor<128x64xf32, #tgpu.wgmma<2>>, tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>> -> tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
  %new = tgpu.raise_max %old by %one to %s times %one : tensor<128x64xf32, #tgpu.wgmma<2>> -> tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
  %newer = tgpu.raise_max %new by %one to %s plus %old times %one : tensor<128x64xf32, #tgpu.wgmma<2>>, tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>> -> tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
}

//--- invalid.mlir

tgpu.kernel @rounds target "sm_90a" warps 8 (%a: i32) grid(%i = 1) {
  // expected-error @+1 {{must have one iteration for every four warps that execute it, but got 3 for 8 warps}}
  %first = tgpu.first_round %a of %a, %a, %a
}

// -----

func.func @no_rounds(%a: i32) {
  // expected-error @+1 {{must have an iteration for each warpgroup, but got none}}
  %first = "tgpu.first_round"(%a) : (i32) -> i32
  return
}

// -----

func.func @rows_of_warps(%x: tensor<128x64xf32, #tgpu.mma<8, 1>>, %t: tensor<128xf32, #tgpu.slice<1, #tgpu.mma<8, 1>>>, %f: f32) {
  // expected-error @+1 {{requires f32 in a wgmma layout, but got 'tensor<128x64xf32, #tgpu.mma<8, 1>>'}}
  %y = tgpu.raise_max %t by %f to %x times %f : tensor<128x64xf32, #tgpu.mma<8, 1>> -> tensor<128xf32, #tgpu.slice<1, #tgpu.mma<8, 1>>>
}

// -----

func.func @columns_of_it(%x: tensor<128x64xf32, #tgpu.wgmma<2>>, %t: tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>, %f: f32) {
  // expected-error @+1 {{the maxima must have the rows of the operand and the layout slice<1> of the operand's, but got 'tensor<128x64xf32, #tgpu.wgmma<2>>' and 'tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>'}}
  %y = tgpu.raise_max %t by %f to %x times %f : tensor<128x64xf32, #tgpu.wgmma<2>> -> tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>
}

// -----

func.func @offset_of_others(%x: tensor<128x64xf32, #tgpu.wgmma<2>>, %t: tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>, %o: tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>, %f: f32) {
  // expected-error @+1 {{the offset must have the type of the maxima, but got 'tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>' and 'tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>'}}
  %y = tgpu.raise_max %t by %f to %x plus %o times %f : tensor<128x64xf32, #tgpu.wgmma<2>>, tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<2>>> -> tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
}

// -----

func.func @layouts(%x: tensor<128x128xf32, #tgpu.wgmma<2>>) {
  // expected-error @+1 {{requires a source of one wgmma layout, or of one mma layout with one column of warps, but got 'tensor<128x128xf32, #tgpu.wgmma<2>>' and 'tensor<128x64xf32, #tgpu.mma<8, 1>>'}}
  %y = tgpu.columns 0 of %x : tensor<128x128xf32, #tgpu.wgmma<2>> -> tensor<128x64xf32, #tgpu.mma<8, 1>>
}

// -----

func.func @spread(%x: tensor<128x128xf32, #tgpu.mma<4, 2>>) {
  // expected-error @+1 {{requires a source of one wgmma layout, or of one mma layout with one column of warps}}
  %y = tgpu.columns 0 of %x : tensor<128x128xf32, #tgpu.mma<4, 2>> -> tensor<128x64xf32, #tgpu.mma<4, 2>>
}

// -----

func.func @elements(%x: tensor<128x128xf32, #tgpu.wgmma<2>>) {
  // expected-error @+1 {{must keep rows and elements, but got}}
  %y = tgpu.columns 0 of %x : tensor<128x128xf32, #tgpu.wgmma<2>> -> tensor<128x64xbf16, #tgpu.wgmma<2>>
}

// -----

func.func @beyond(%x: tensor<128x128xf32, #tgpu.wgmma<2>>) {
  // expected-error @+1 {{columns must begin at a multiple of 8 and lie in the source's 128, but got 64 from 72}}
  %y = tgpu.columns 72 of %x : tensor<128x128xf32, #tgpu.wgmma<2>> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

func.func @unaligned(%x: tensor<128x128xf32, #tgpu.wgmma<2>>) {
  // expected-error @+1 {{columns must begin at a multiple of 8 and lie in the source's 128, but got 64 from 4}}
  %y = tgpu.columns 4 of %x : tensor<128x128xf32, #tgpu.wgmma<2>> -> tensor<128x64xf32, #tgpu.wgmma<2>>
}

// -----

// expected-error @+1 {{registers of a role must be a multiple of 8 from 24 to 240, but got 20}}
func.func private @f() attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 20, compute_registers = 240>}

// -----

// expected-error @+1 {{group must not be negative, but got -1}}
func.func private @f() attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, group = -1>}

// -----

// expected-error @+1 {{store_buffers must be 0 to 8 buffers, but got 9}}
func.func private @f() attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, store_buffers = 9>}

// -----

// expected-error @+1 {{compute_roles must be 1 or 2, but got 3}}
func.func private @f() attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, compute_roles = 3>}

// -----

// expected-error @+1 {{late_products must be 0, or 1 if scratch_stages is 2, but got 1}}
func.func private @f() attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, late_products = 1>}

// -----

// expected-error @+1 {{load_roles must be 1, or 2 if dynamic is 1, but got 2; use dynamic=1 for two}}
func.func private @f() attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1, load_roles = 2>}

// -----

// expected-error @+1 {{load_roles must be 1, or 2 if dynamic is 1, but got 3; use dynamic=1 for two}}
func.func private @f() attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1, dynamic = 1, load_roles = 3>}

// -----

// expected-error @+1 {{scratch_stages must be 1 or 2, but got 3}}
func.func private @f() attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, scratch_stages = 3>}

// -----

// expected-error @+1 {{reduce_stages must be 0 to 4 buffers, but got 5}}
func.func private @f() attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, reduce_stages = 5>}

// -----

// expected-error @+1 {{stages must be 1 to 32 stages, but got 33}}
func.func private @f() attributes {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 33>}

// -----

// expected-error @+1 {{skeleton producer_consumer needs at least 2 stages, but got 1}}
func.func private @f() attributes {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer>}

// -----

// expected-error @+1 {{in_flight must be 0 to 7, but got 8}}
func.func private @f() attributes {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2, in_flight = 8>}
