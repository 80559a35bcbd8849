// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors that only the generic form can express. All of them are reported, without a crash, also when the invalid
// operation is printed.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics
// RUN: not tilewright-opt %s -split-input-file 2>&1 | FileCheck %s
// CHECK: error: 'tgpu.kernel' op requires attribute 'arg_names'
// CHECK: note: see current operation:
// CHECK: error: 'tgpu.wgmma_wait' op must return the types of its tiles
// CHECK: note: see current operation:

// expected-error @+1 {{requires attribute 'arg_names'}}
"tgpu.kernel"() ({}) : () -> ()

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = [1], arg_optional = array<i1: false>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0(%x: f32, %i: i32):}) : () -> ()

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = ["a b"], arg_optional = array<i1: false>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0(%x: f32, %i: i32):}) : () -> ()

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = ["x"], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0(%x: f32, %i: i32):}) : () -> ()

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [1]}> ({^bb0(%i: i32):}) : () -> ()

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = []}> ({^bb0(%i: i32):}) : () -> ()

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = [], arg_optional = array<i1>, grid_names = [""], grid = [#tile.expr<1>]}> ({^bb0(%i: i32):}) : () -> ()

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0:}) : () -> ()

// -----

// expected-error @+1 {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({}) : () -> ()

// -----

// expected-error @+1 {{grid ids must be i32, but got 'index'}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0(%i: index):}) : () -> ()

// -----

// expected-error @+1 {{names of arguments and grid ids must differ, but got "i" twice}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = ["i"], arg_optional = array<i1: false>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0(%x: i32, %i: i32):}) : () -> ()

// -----

// expected-error @+1 {{a block must have 1 to 32 warps, but got -1}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = -1 : i64, arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0(%i: i32):}) : () -> ()

// -----

// expected-error @+1 {{invalid properties}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = "x", arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0(%i: i32):}) : () -> ()

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{has malformed attributes; use its custom assembly format}}
  "tgpu.roles"() <{names = ["a"], warps = array<i64: 4>, registers = array<i64>}> ({^bb0:}) : () -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{has malformed attributes; use its custom assembly format}}
  "tgpu.roles"() <{names = [1], warps = array<i64: 4>, registers = array<i64: 0>}> ({^bb0:}) : () -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{has malformed attributes; use its custom assembly format}}
  "tgpu.roles"() <{names = ["a"], warps = array<i64: 4>, registers = array<i64: 0>}> : () -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{requires attribute 'names'}}
  "tgpu.roles"() : () -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{region #0 ('bodies') failed to verify constraint: region with 1 blocks}}
  "tgpu.roles"() <{names = ["a"], warps = array<i64: 4>, registers = array<i64: 0>}> ({}) : () -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{region should have no arguments}}
  "tgpu.roles"() <{names = ["a"], warps = array<i64: 4>, registers = array<i64: 0>}> ({^bb0(%x: i32):}) : () -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %0 = tgpu.alloc_ring : !tgpu.ring<2, !tgpu.shared<128x64xbf16, b128>>
  // expected-error @+1 {{result must fit into a slot of '!tgpu.ring<2, <128x64xbf16, b128>>' (16384 bytes, aligned to 1024), but got '!tgpu.shared<129x64xbf16, b128>' (16512 bytes, aligned to 1024)}}
  %1 = "tgpu.slot"(%0, %i) : (!tgpu.ring<2, <128x64xbf16, b128>>, i32) -> !tgpu.shared<129x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{operand #0 must be a ring, but got 'i32'}}
  %1 = "tgpu.slot"(%i, %i) : (i32, i32) -> !tgpu.shared<64x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{result #0 must be a shared buffer, but got 'i32'}}
  %0 = "tgpu.alloc"() : () -> i32
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{result #0 must be barriers, but got 'i32'}}
  %0 = "tgpu.alloc_barriers"() <{arrivals = 1 : i64}> : () -> i32
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{operand #0 must be barriers, but got 'i32'}}
  "tgpu.wait"(%i, %i) : (i32, i32) -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %0 = arith.constant 0 : index
  // expected-error @+1 {{operand #1 must be 32-bit signless integer, but got 'index'}}
  "tgpu.acquire"(%b, %0) : (!tgpu.barriers<2>, index) -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{requires attribute 'per'}}
  "tgpu.arrive"(%b, %i) : (!tgpu.barriers<2>, i32) -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{requires attribute 'bytes'}}
  "tgpu.expect"(%b, %i) : (!tgpu.barriers<2>, i32) -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{operand #0 must be index, but got 'i32'}}
  "tgpu.sync"(%i) : (i32) -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  // expected-error @+1 {{requires attribute 'static_indices'}}
  %0 = "tgpu.load"(%x) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tile.view<[?, ?, 64], bf16>) -> tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  // expected-error @+1 {{operand count (1) does not match with the total size (6)}}
  %0 = "tgpu.load"(%x) <{operandSegmentSizes = array<i32: 1, 5, 0>, static_indices = array<i64>}> : (!tile.view<[?, ?, 64], bf16>) -> tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  // expected-error @+1 {{has malformed indices; use its custom assembly format}}
  %0 = "tgpu.load"(%x) <{operandSegmentSizes = array<i32: 1, 0, 0>, static_indices = array<i64: -9223372036854775808, 0, 0>}> : (!tile.view<[?, ?, 64], bf16>) -> tensor<64x64xbf16, #tgpu.blocked<8, lanes 8, warps 4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<64x1x64xbf16, b128, ragged 0>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{needs 'from' and 'size' with a ragged tensor map, and with no other, but got '!tgpu.tensor_map<64x1x64xbf16, b128, ragged 0>' with one of them}}
  "tgpu.tma_store"(%s, %m, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>, static_indices = array<i64: 0, 0, 0>}> : (!tgpu.shared<64x64xbf16, b128>, !tgpu.tensor_map<64x1x64xbf16, b128, ragged 0>, i32) -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{has malformed indices; use its custom assembly format}}
  "tgpu.tma_store"(%s, %m) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>, static_indices = array<i64: -9223372036854775808, 0, 0>}> : (!tgpu.shared<64x64xbf16, b128>, !tgpu.tensor_map<1x64x64xbf16, b128>) -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%x: !tile.view<[?, ?, 64], bf16>) grid(%i = 1) {
  %m = tgpu.tensor_map %x : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x64x64xbf16, b128>
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{needs one index for each dimension of its map: rank 3, but got 0 indices}}
  "tgpu.tma_load"(%m, %s, %b, %i) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 1, 1, 1>, static_indices = array<i64>}> : (!tgpu.tensor_map<1x64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>, i32) -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  // expected-error @+1 {{operand #0 must be a tensor map, but got 'i32'}}
  "tgpu.tma_load"(%i, %s, %b, %i) <{operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 1, 1, 1>, static_indices = array<i64>}> : (i32, !tgpu.shared<64x64xbf16, b128>, !tgpu.barriers<2>, i32) -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{result #0 must be a register tile (a tensor with a layout that fits its shape), but got 'tensor<*xf32>'}}
  %0 = "tgpu.read"(%s) : (!tgpu.shared<64x64xbf16, b128>) -> tensor<*xf32>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{result #0 must be a register tile (a tensor with a layout that fits its shape), but got 'tensor<?x64xf32, #tgpu.mma<4, 1>>'}}
  %0 = "tgpu.read"(%s) : (!tgpu.shared<64x64xbf16, b128>) -> tensor<?x64xf32, #tgpu.mma<4, 1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{result #0 must be a pending tile, but got}}
  %0 = "tgpu.wgmma"(%s, %s) : (!tgpu.shared<64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128>) -> tensor<64x64xf32, #tgpu.wgmma<1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{operand a must have the elements of b, and be a shared buffer or have the layout of the result's operand a, but got 'i32'}}
  %0 = "tgpu.wgmma"(%i, %s) : (i32, !tgpu.shared<64x64xbf16, b128>) -> !tgpu.pending<tensor<64x64xf32, #tgpu.wgmma<1>>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %s = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  %0 = tgpu.wgmma %s, %s : !tgpu.shared<64x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128> -> tensor<64x64xf32, #tgpu.wgmma<1>>
  // expected-error @+1 {{must return the types of its tiles}}
  %1 = "tgpu.wgmma_wait"(%0) <{pending = 0 : i64}> : (!tgpu.pending<tensor<64x64xf32, #tgpu.wgmma<1>>>) -> tensor<64x32xf32, #tgpu.wgmma<1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must return the types of its tiles}}
  %1 = "tgpu.wgmma_wait"() <{pending = 0 : i64}> : () -> tensor<64x64xf32, #tgpu.wgmma<1>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{requires attribute 'pending'}}
  "tgpu.wgmma_wait"() : () -> ()
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{requires attribute 'pending'}}
  "tgpu.bulk_wait"() : () -> ()
}
