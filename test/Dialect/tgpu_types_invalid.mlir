// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid types and layouts of tgpu.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// Layouts.
// expected-error @+1 {{warps of an mma layout must be at least 1 and at most 32 in all, but got 0 by 1}}
func.func private @f() -> tensor<64x8xf32, #tgpu.mma<0, 1>>

// -----

// expected-error @+1 {{warps of an mma layout must be at least 1 and at most 32 in all, but got 8 by 8}}
func.func private @f() -> tensor<64x8xf32, #tgpu.mma<8, 8>>

// -----

// expected-error @+1 {{a wgmma layout must have 1 to 8 warpgroups, but got 9}}
func.func private @f() -> tensor<64x8xf32, #tgpu.wgmma<9>>

// -----

// expected-error @+1 {{the parent of an operand layout must be an mma or wgmma layout, but got #tgpu.slice<0, #tgpu.mma<1, 1>>}}
#bad = #tgpu.operand<a, #tgpu.slice<0, #tgpu.mma<1, 1>>>

// -----

// expected-error @+1 {{the parent of an operand layout must be an mma or wgmma layout, but got 3 : i64}}
#bad = #tgpu.operand<a, 3>

// -----

// expected-error @+1 {{operand b of wgmma must be in shared memory, but got a register layout; use a shared buffer}}
#bad = #tgpu.operand<b, #tgpu.wgmma<1>>

// -----

// expected-error @+2 {{expected one of [a, b] for operand of a matrix instruction, got: c}}
// expected-error @+1 {{failed to parse Tgpu_OperandAttr parameter 'operand' which is to be a `::tilewright::tgpu::MatrixOperand`}}
#bad = #tgpu.operand<c, #tgpu.wgmma<1>>

// -----

// expected-error @+1 {{a slice must remove dimension 0 or 1 of its parent, but got 2}}
#bad = #tgpu.slice<2, #tgpu.wgmma<1>>

// -----

// expected-error @+1 {{the parent of a slice must be a layout of rank 2, but got}}
#bad = #tgpu.slice<0, #tgpu.slice<0, #tgpu.wgmma<1>>>

// -----

// expected-error @+1 {{the parent of a slice must be a layout of rank 2, but got "x"}}
#bad = #tgpu.slice<0, "x">

// -----

// expected-error @+1 {{by_thread must combine elements along dimension 0 or 1, but got 2}}
#bad = #tgpu.by_thread<2, #tgpu.wgmma<1>>

// -----

// expected-error @+1 {{the parent of a by_thread layout must be an mma or wgmma layout, but got #tgpu.blocked<1, lanes 32, warps 1, 1>}}
#bad = #tgpu.by_thread<1, #tgpu.blocked<1, lanes 32, warps 1, 1>>

// -----

// expected-error @+1 {{a blocked layout must have a vector of 1, 2, 4, 8 or 16 elements, but got 3}}
#bad = #tgpu.blocked<3, lanes 8, warps 4, 1>

// -----

// expected-error @+1 {{a blocked layout must have 1, 2, 4, 8, 16 or 32 lanes along its last dimension, but got 64}}
#bad = #tgpu.blocked<4, lanes 64, warps 4, 1>

// -----

// expected-error @+1 {{warps of a blocked layout must be at least 1 and at most 32 in all, but got 4 by 0}}
#bad = #tgpu.blocked<4, lanes 8, warps 4, 0>

// -----

// Shared buffers.
// expected-error @+1 {{elements must be floats, i1, i8, i32 or i64, but got 'i16'}}
func.func private @f() -> !tgpu.shared<4x4xi16, none>

// -----

// expected-error @+1 {{elements must be floats, i1, i8, i32 or i64, but got '!tile.param<T>'}}
func.func private @f() -> !tgpu.shared<4x4x!tile.param<T>, none>

// -----

// expected-error @+1 {{a shared buffer must have rank 1 or 2, but got rank 3}}
func.func private @f() -> !tgpu.shared<4x4x4xf32, none>

// -----

// expected-error @+1 {{a shared buffer must have rank 1 or 2, but got rank 0}}
func.func private @f() -> !tgpu.shared<f32, none>

// -----

// expected-error @+1 {{an extent of a shared buffer must be 1 to 232448, but got 0}}
func.func private @f() -> !tgpu.shared<4x0xf32, none>

// -----

// expected-error @+1 {{an extent of a shared buffer must be 1 to 232448, but got 9223372036854775807}}
func.func private @f() -> !tgpu.shared<4x9223372036854775807xf32, b128>

// -----

// expected-error @+1 {{a shared buffer must have at most 232448 bytes}}
func.func private @f() -> !tgpu.shared<512x128xf32, none>

// -----

// expected-error @+1 {{rows of a swizzled buffer must be a multiple of 16 bytes, but got 200 bytes}}
func.func private @f() -> !tgpu.shared<64x100xbf16, b128>

// -----

// expected-error @+1 {{a buffer with a swizzle must have rank 2, but got rank 1}}
func.func private @f() -> !tgpu.shared<64xbf16, b128>

// -----

// expected-error @+1 {{a swizzle must be one of none, b32, b64, b128, but got 'b16'}}
func.func private @f() -> !tgpu.shared<64xbf16, b16>

// -----

// Rings, barriers, pending tiles.
// expected-error @+1 {{a ring must have 1 to 32 stages, but got 0}}
func.func private @f() -> !tgpu.ring<0, <4x4xf32, none>>

// -----

// expected-error @+1 {{barriers must have 1 to 32 stages, but got 33}}
func.func private @f() -> !tgpu.barriers<33>

// -----

// expected-error @+1 {{only a tile of a wgmma layout that fits its shape can be pending, but got 'tensor<64x8xf32>'}}
func.func private @f() -> !tgpu.pending<tensor<64x8xf32>>

// -----

// expected-error @+1 {{only a tile of a wgmma layout that fits its shape can be pending, but got 'tensor<64x8xf32, #tgpu.mma<4, 1>>'}}
func.func private @f() -> !tgpu.pending<tensor<64x8xf32, #tgpu.mma<4, 1>>>

// -----

// expected-error @+1 {{only a tile of a wgmma layout that fits its shape can be pending, but got 'tensor<64x8xf32, #tgpu.wgmma<2>>'}}
func.func private @f() -> !tgpu.pending<tensor<64x8xf32, #tgpu.wgmma<2>>>

// -----

// Tensor maps.
// expected-error @+1 {{elements must be floats, i1, i8, i32 or i64, but got 'index'}}
func.func private @f() -> !tgpu.tensor_map<4x4xindex, none>

// -----

// expected-error @+1 {{a tensor map must have rank 1 to 5, but got rank 6}}
func.func private @f() -> !tgpu.tensor_map<1x1x1x1x1x64xbf16, none>

// -----

// expected-error @+1 {{an extent of a box must be 1 to 256, but got 257}}
func.func private @f() -> !tgpu.tensor_map<257x64xbf16, none>

// -----

// expected-error @+1 {{rows of a box must be a multiple of 16 bytes, but got 24 bytes}}
func.func private @f() -> !tgpu.tensor_map<64x12xbf16, none>

// -----

// expected-error @+1 {{rows of a box must be a multiple of 16 bytes and fit the swizzle, but got 256 bytes}}
func.func private @f() -> !tgpu.tensor_map<64x128xbf16, b128>

// -----

// expected-error @+1 {{a tensor map may be ragged along any dimension except the innermost, 0 to 1, but got 2}}
func.func private @f() -> !tgpu.tensor_map<64x1x64xbf16, b128, ragged 2>

// -----

// expected-error @+1 {{a ragged tensor map must have rank 2 to 4, but got rank 5}}
func.func private @f() -> !tgpu.tensor_map<1x1x64x1x64xbf16, b128, ragged 1>

// -----

// expected-error @+1 {{a ragged tensor map of rank 4 omits the first dimension, so it must not be ragged there and its box must have 1 element there, but got ragged 0 and 1 elements}}
func.func private @f() -> !tgpu.tensor_map<1x64x1x64xbf16, b128, ragged 0>

// -----

// expected-error @+1 {{a ragged tensor map of rank 4 omits the first dimension, so it must not be ragged there and its box must have 1 element there, but got ragged 1 and 2 elements}}
func.func private @f() -> !tgpu.tensor_map<2x64x1x64xbf16, b128, ragged 1>

// -----

// A tile whose layout does not fit its shape is not a register tile.
func.func @mma(%x: !tgpu.shared<8x8xf32, none>) {
  // expected-error @+1 {{result #0 must be a register tile (a tensor with a layout that fits its shape), but got 'tensor<8x8xf32, #tgpu.mma<1, 1>>'}}
  %0 = tgpu.read %x : !tgpu.shared<8x8xf32, none> -> tensor<8x8xf32, #tgpu.mma<1, 1>>
}

// -----

func.func @rank(%x: !tgpu.shared<64xf32, none>) {
  // expected-error @+1 {{result #0 must be a register tile (a tensor with a layout that fits its shape), but got 'tensor<64xf32, #tgpu.mma<1, 1>>'}}
  %0 = tgpu.read %x : !tgpu.shared<64xf32, none> -> tensor<64xf32, #tgpu.mma<1, 1>>
}

// -----

func.func @slice(%x: !tgpu.shared<12xf32, none>) {
  // expected-error @+1 {{result #0 must be a register tile (a tensor with a layout that fits its shape), but got 'tensor<12xf32, #tgpu.slice<0, #tgpu.mma<1, 1>>>'}}
  %0 = tgpu.read %x : !tgpu.shared<12xf32, none> -> tensor<12xf32, #tgpu.slice<0, #tgpu.mma<1, 1>>>
}

// -----

func.func @slice_rank(%x: !tgpu.shared<16x8xf32, none>) {
  // expected-error @+1 {{result #0 must be a register tile (a tensor with a layout that fits its shape), but got 'tensor<16x8xf32, #tgpu.slice<0, #tgpu.mma<1, 1>>>'}}
  %0 = tgpu.read %x : !tgpu.shared<16x8xf32, none> -> tensor<16x8xf32, #tgpu.slice<0, #tgpu.mma<1, 1>>>
}

// -----

func.func @operand_depth(%x: !tgpu.shared<16x8xbf16, none>) {
  // expected-error @+1 {{result #0 must be a register tile (a tensor with a layout that fits its shape), but got 'tensor<16x8xbf16, #tgpu.operand<a, #tgpu.mma<1, 1>>>'}}
  %0 = tgpu.read %x : !tgpu.shared<16x8xbf16, none> -> tensor<16x8xbf16, #tgpu.operand<a, #tgpu.mma<1, 1>>>
}

// -----

func.func @operand_width(%x: !tgpu.shared<16x8xf64, none>) {
  // expected-error @+1 {{result #0 must be a register tile (a tensor with a layout that fits its shape), but got 'tensor<16x8xf64, #tgpu.operand<a, #tgpu.mma<1, 1>>>'}}
  %0 = tgpu.read %x : !tgpu.shared<16x8xf64, none> -> tensor<16x8xf64, #tgpu.operand<a, #tgpu.mma<1, 1>>>
}

// -----

func.func @vector(%x: !tgpu.shared<6xf32, none>) {
  // expected-error @+1 {{result #0 must be a register tile (a tensor with a layout that fits its shape), but got 'tensor<6xf32, #tgpu.blocked<4, lanes 32, warps 4, 1>>'}}
  %0 = tgpu.read %x : !tgpu.shared<6xf32, none> -> tensor<6xf32, #tgpu.blocked<4, lanes 32, warps 4, 1>>
}

// -----

func.func @no_layout(%x: !tgpu.shared<8x8xf32, none>) {
  // expected-error @+1 {{result #0 must be a register tile (a tensor with a layout that fits its shape), but got 'tensor<8x8xf32>'}}
  %0 = tgpu.read %x : !tgpu.shared<8x8xf32, none> -> tensor<8x8xf32>
}
