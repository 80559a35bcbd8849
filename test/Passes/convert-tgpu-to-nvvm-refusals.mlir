// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Unsupported layouts, barriers without numbers, and other operations that no code can be generated for.
// RUN: tilewright-opt %s --convert-tgpu-to-nvvm -split-input-file -verify-diagnostics

tgpu.kernel @named_barrier target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{a named barrier must have a number before code is generated; run tgpu-plan-shared-memory}}
  %b = tgpu.named_barrier warps 4 : index
}

// -----

tgpu.kernel @turns target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{turns must have a number before code is generated; run tgpu-plan-shared-memory}}
  %t = tgpu.turns warpgroups 2 : index
  tgpu.take_turn %t
}

// -----

tgpu.kernel @turns_within_warpgroup target "sm_90a" warps 10 () grid(%i = 1) {
  // expected-error @+1 {{the role that takes turns must begin at a warpgroup, but it begins at warp 2}}
  %t = tgpu.turns warpgroups 2 id 1 : index
  tgpu.roles
    role "a" warps 2 {
    }
    role "b" warps 8 {
      tgpu.take_turn %t
      tgpu.pass_turn %t
    }
}

// -----

!t = tensor<32x16xf32, #tgpu.mma<2, 1>>
tgpu.kernel @constant target "sm_80" warps 2 () grid(%i = 1) {
  // expected-error @+1 {{a constant tile must have equal elements in all places}}
  %0 = arith.constant dense<[[0.0, 1.0], [2.0, 3.0]]> : tensor<2x2xf32, #tgpu.blocked<1, lanes 32, warps 2, 1>>
}

// -----

tgpu.kernel @no_layout target "sm_80" warps 2 (%s: f32) grid(%i = 1) {
  // expected-error @+1 {{a tile must have a layout here, but got 'tensor<32x16xf32>'}}
  %0 = tile.full %s : tensor<32x16xf32>
}

// -----

tgpu.kernel @other_warps target "sm_80" warps 2 (%s: f32) grid(%i = 1) {
  // expected-error @+1 {{a layout must spread a tile over the 2 warps of the block, but got 4, in}}
  %0 = tile.full %s : tensor<64x16xf32, #tgpu.mma<4, 1>>
}

// -----

// Rows of another layout.
!t = tensor<32x16xf32, #tgpu.mma<2, 1>>
!row = tensor<32xf32, #tgpu.blocked<1, lanes 32, warps 2, 1>>
tgpu.kernel @expand target "sm_80" warps 2 (%s: f32) grid(%i = 1) {
  %row = tile.full %s : !row
  // expected-error @+1 {{the operand must have the layout slice<1> of the result's layout, but got}}
  %0 = tile.expand %row dim 1 : !row -> !t
}

// -----

!t = tensor<32x16xf32, #tgpu.mma<2, 1>>
!row = tensor<32xf32, #tgpu.blocked<1, lanes 32, warps 2, 1>>
tgpu.kernel @reduce target "sm_80" warps 2 (%s: f32) grid(%i = 1) {
  %t = tile.full %s : !t
  // expected-error @+1 {{the result must have the layout slice<1> of the operand's layout, but got}}
  %0 = tile.reduce add %t dim 1 : !t -> !row
}

// -----

!t = tensor<32x16xf32, #tgpu.mma<2, 1>>
tgpu.kernel @scratch_of_other_shape target "sm_80" warps 2 (%s: f32) grid(%i = 1) attributes {shared_bytes = 1024 : i64} {
  %scratch = tgpu.alloc at 0 : !tgpu.shared<16x16xf32, none>
  %t = tile.full %s : !t
  // expected-error @+1 {{scratch memory must have the shape and elements of the tile, but got '!tgpu.shared<16x16xf32, none>'}}
  %0 = tgpu.convert %t through %scratch : !tgpu.shared<16x16xf32, none> in : !t -> tensor<32x16xf32, #tgpu.mma<1, 2>>
}

// -----

func.func private @outside(%x: f32) -> f32
tgpu.kernel @no_body target "sm_80" warps 1 (%s: f32) grid(%i = 1) {
  // expected-error @+1 {{function 'outside' has no body in the module}}
  %0 = func.call @outside(%s) : (f32) -> f32
}

// -----

func.func private @branches(%c: i1, %x: f32) -> f32 {
  cf.cond_br %c, ^a, ^b
^a:
  return %x : f32
^b:
  %0 = arith.addf %x, %x : f32
  return %0 : f32
}
tgpu.kernel @unstructured target "sm_80" warps 1 (%c: i1, %s: f32) grid(%i = 1) {
  // expected-error @+1 {{function 'branches' must have structured control flow (scf), but got branches}}
  %0 = func.call @branches(%c, %s) : (i1, f32) -> f32
}

// -----

// The sum of planned memory and scratch memory of exchanges.
!t = tensor<128x128xf32, #tgpu.mma<4, 1>>
// expected-error @+1 {{bytes of shared memory and}}
tgpu.kernel @memory target "sm_80" warps 4 (%s: f32) grid(%i = 1) attributes {shared_bytes = 166912 : i64} {
  %t = tile.full %s : !t
  %0 = tile.reduce add %t dim 0 : !t -> tensor<128xf32, #tgpu.slice<0, #tgpu.mma<4, 1>>>
}

// -----

// The code of a function is repeated for each element of a thread, and again for a second form of the code.
func.func private @mapped(%x: f32) -> f32 {
  // expected-error @+1 {{the code of a thread must have at most 262144 operations, but exceeds the limit here; use smaller blocks, more warps or fewer operations for each element}}
  %0 = math.sin %x : f32
  %1 = math.sin %0 : f32
  return %1 : f32
}
!t = tensor<1024x256xf32, #tgpu.blocked<4, lanes 32, warps 1, 1>>
tgpu.kernel @large target "sm_80" warps 1 (%s: f32) grid(%i = 1) {
  %t = tile.full %s : !t
  %0 = tile.map @mapped(%t) : (!t) -> !t
}

// -----

func.func private @twice(%x: f32) -> f32 {
  %0 = arith.negf %x : f32
  %1 = arith.negf %0 : f32
  return %1 : f32
}
!t = tensor<8192x1024xf32, #tgpu.blocked<4, lanes 32, warps 1, 1>>
tgpu.kernel @counted target "sm_80" warps 1 (%s: f32) grid(%i = 1) {
  %t = tile.full %s : !t
  // expected-error @+1 {{a thread must have at most 262144 operations of a mapped function, but got 2 of @twice for each of 262144 elements; use smaller blocks, more warps or a smaller function}}
  %0 = tile.map @twice(%t) : (!t) -> !t
}
