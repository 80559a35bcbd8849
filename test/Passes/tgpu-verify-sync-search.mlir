// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The launches that tgpu-verify-sync derives from loops and branches, and its warning about what none of them reaches.
// RUN: tilewright-opt %s --tgpu-verify-sync -split-input-file -verify-diagnostics

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, 64], bf16>

// One tile of %q and several of %k: constraints say that their rows are independent.
tgpu.kernel @independent target "sm_80" warps 4 require(dim(q, 0) >= 1) (%q: !view, %k: !view)
    grid(%i = ceildiv(dim(q, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %c64 = arith.constant 64 : i32
  %buffer = tgpu.alloc : !tile
  tgpu.copy_async %q[%i, 0], %buffer : !view, !tile
  %other = tgpu.alloc : !tile
  tgpu.copy_async %k[%i, 0], %other : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %queries = tile.dim %q, 0 : !view
  %keys = tile.dim %k, 0 : !view
  %q_blocks = arith.ceildivsi %queries, %c64 : i32
  %k_blocks = arith.ceildivsi %keys, %c64 : i32
  %is_one = arith.cmpi eq, %q_blocks, %c1 : i32
  %are_many = arith.cmpi sgt, %k_blocks, %c3 : i32
  %both = arith.andi %is_one, %are_many : i1
  scf.if %both {
    // expected-note @+1 {{written here}}
    tgpu.copy_async %k[%c64, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.sync
    // expected-error @+1 {{reads a buffer before its copy is done; tgpu.copy_wait for its group first}}
    %tile = tgpu.read %buffer : !tile -> !r
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, 64], bf16>

// The program's constraints hold for the kernel that it launches: both have the same number of rows.
tile.program @program require(dim(q, 0) == dim(k, 0)) (%q: !view, %k: !view) {
  tile.launch @equal(%q, %k) : !view, !view
}
tgpu.kernel @equal target "sm_80" warps 4 (%x: !view, %y: !view) grid(%i = ceildiv(dim(x, 0), 64)) {
  %buffer = tgpu.alloc : !tile
  tgpu.copy_async %x[%i, 0], %buffer : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %xs = tile.dim %x, 0 : !view
  %ys = tile.dim %y, 0 : !view
  %differ = arith.cmpi ne, %xs, %ys : i32
  scf.if %differ {
    tgpu.copy_async %y[%i, 0], %buffer : !view, !tile
    %tile = tgpu.read %buffer : !tile -> !r
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!acc = tensor<64x64xf32, #tgpu.mma<4, 1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!b = tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
!view = !tile.view<[?, 64], bf16>

// Beside a product, in a branch that no extent takes: it is tried with a forced condition, in which an error is not
// reported, but leaves the warning.
tgpu.kernel @never target "sm_80" warps 4 (%x: !view) grid(%i = ceildiv(dim(x, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %buffer = tgpu.alloc : !tile
  tgpu.copy_async %x[%i, 0], %buffer : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %left = tgpu.read %buffer : !tile -> !a
  %right = tgpu.read %buffer : !tile -> !b
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %rows = tile.dim %x, 0 : !view
  %never = arith.cmpi slt, %rows, %c0 : i32
  scf.if %never {
    %product = tgpu.mma %left, %right, %zeros : !a, !b -> !acc
    // expected-warning @+1 {{is not checked: no launch that tgpu-verify-sync plays reaches it; run the kernel on the simulator with arguments that do}}
    tgpu.sync
    %other = tgpu.alloc : !tile
    %unwritten = tgpu.read %other : !tile -> !r
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.mma<4, 1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!b = tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
!view = !tile.view<[?, 64], bf16>

// The same without the error: nothing is left to report.
tgpu.kernel @forced target "sm_80" warps 4 (%x: !view) grid(%i = ceildiv(dim(x, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  tgpu.copy_async %x[%i, 0], %buffer : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %left = tgpu.read %buffer : !tile -> !a
  %right = tgpu.read %buffer : !tile -> !b
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %rows = tile.dim %x, 0 : !view
  %less = arith.minsi %rows, %c0 : i32
  scf.for %n = %c0 to %less step %c1 : i32 {
    %product = tgpu.mma %left, %right, %zeros : !a, !b -> !acc
    tgpu.sync
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!acc = tensor<64x64xf32, #tgpu.mma<4, 1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!b = tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
!view = !tile.view<[?, 64], bf16>

// The first iteration is always in the first of two parts. The branch for it in the second part is tried in a launch in
// which that part has the first iteration; with the condition alone forced, there would be an error in each.
tgpu.kernel @first_of_tile target "sm_80" warps 4 (%x: !view) grid(%i = ceildiv(dim(x, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %buffer = tgpu.alloc : !tile
  %next = tgpu.alloc : !tile
  tgpu.copy_async %x[%i, 0], %buffer : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %left = tgpu.read %buffer : !tile -> !a
  %right = tgpu.read %buffer : !tile -> !b
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %rows = tile.dim %x, 0 : !view
  %blocks = arith.ceildivsi %rows, %c64 : i32
  %end = arith.minsi %blocks, %c1 : i32
  scf.for %n = %c0 to %end step %c1 : i32 {
    tgpu.copy_async %x[%n, 0], %next : !view, !tile
    tgpu.copy_commit
  }
  scf.for %n = %end to %blocks step %c1 : i32 {
    %is_later = arith.cmpi ne, %n, %c0 : i32
    scf.if %is_later {
      tgpu.copy_wait pending 0
      tgpu.sync
      %tile = tgpu.read %next : !tile -> !r
    } else {
      %product = tgpu.mma %left, %right, %zeros : !a, !b -> !acc
      tgpu.sync
      tgpu.copy_async %x[%n, 0], %next : !view, !tile
      tgpu.copy_commit
    }
  }
  tgpu.copy_wait pending 0
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, 64], bf16>

// A condition on data holds, while a vote fails.
tgpu.kernel @mixed target "sm_80" warps 4 (%x: !view, %scale: f32) grid(%i = ceildiv(dim(x, 0), 64)) {
  %zero = arith.constant 0.0 : f32
  %buffer = tgpu.alloc : !tile
  %loaded = tgpu.load %x[%i, 0] : !view -> !r
  %zeros = arith.constant dense<0.0> : !r
  %keep = arith.cmpf ogt, %loaded, %zeros : !r
  %some = tgpu.any %keep : tensor<64x64xi1, #tgpu.mma<4, 1>>
  %is_positive = arith.cmpf ogt, %scale, %zero : f32
  scf.if %is_positive {
    scf.if %some {
    } else {
      // expected-error @+1 {{must read memory that was written, but got a buffer}}
      %tile = tgpu.read %buffer : !tile -> !r
    }
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, 64], bf16>
!numbers = !tile.view<[?], i32>

// An element that is read at a constant index is a number, which may be 0 or not.
tgpu.kernel @zero target "sm_80" warps 4 (%x: !view, %found: !numbers) grid(%i = ceildiv(dim(x, 0), 64)) {
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  %number = tile.at %found[0] : !numbers
  %has_none = arith.cmpi slt, %number, %c1 : i32
  scf.if %has_none {
    // expected-note @+1 {{written here}}
    tgpu.copy_async %x[%i, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.sync
    // expected-error @+1 {{reads a buffer before its copy is done; tgpu.copy_wait for its group first}}
    %tile = tgpu.read %buffer : !tile -> !r
  }
}

// -----

!tile = !tgpu.shared<64x64xbf16, b128>
!r = tensor<64x64xbf16, #tgpu.mma<4, 1>>
!view = !tile.view<[?, 64], bf16>
!numbers = !tile.view<[?], i32>

tgpu.kernel @positive target "sm_80" warps 4 (%x: !view, %found: !numbers) grid(%i = ceildiv(dim(x, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %buffer = tgpu.alloc : !tile
  %number = tile.at %found[0] : !numbers
  %has_some = arith.cmpi sgt, %number, %c0 : i32
  scf.if %has_some {
    // expected-note @+1 {{written here}}
    tgpu.copy_async %x[%i, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.sync
    // expected-error @+1 {{reads a buffer before its copy is done; tgpu.copy_wait for its group first}}
    %tile = tgpu.read %buffer : !tile -> !r
  }
}
