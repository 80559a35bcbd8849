// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid kernels, roles and shared buffers of tgpu.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// Kernels.
// expected-error @+1 {{target must be sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a or sm_120a, but got sm_70}}
tgpu.kernel @k target "sm_70" warps 4 () grid(%i = 1) {}

// -----

// expected-error @+1 {{a block must have 1 to 32 warps, but got 0}}
tgpu.kernel @k target "sm_80" warps 0 () grid(%i = 1) {}

// -----

// expected-error @+1 {{a block must have 1 to 32 warps, but got 33}}
tgpu.kernel @k target "sm_80" warps 33 () grid(%i = 1) {}

// -----

// expected-error @+1 {{argument "x" must be a view or a scalar, but got 'tensor<4xf32>'}}
tgpu.kernel @k target "sm_80" warps 4 (%x: tensor<4xf32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{argument "x" must be a view to be optional, but got 'f32'}}
tgpu.kernel @k target "sm_80" warps 4 (%x: optional f32) grid(%i = 1) {}

// -----

// expected-error @+1 {{needs at least one grid extent; write grid(%id = 1) for a single block}}
tgpu.kernel @k target "sm_80" warps 4 () grid() {}

// -----

// Names of arguments must be identifiers.
// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
tgpu.kernel @k target "sm_80" warps 4 (%0: f32) grid(%i = 1) {}

// -----

// expected-error @+1 {{a grid extent may read only extents of views and integer scalars among the arguments, but got M}}
tgpu.kernel @k target "sm_80" warps 4 (%x: f32) grid(%i = M) {}

// -----

// expected-error @+1 {{a grid extent may read only extents of views and integer scalars among the arguments, but got x}}
tgpu.kernel @k target "sm_80" warps 4 (%x: f32) grid(%i = x) {}

// -----

// expected-error @+1 {{a grid extent may read only extents of views and integer scalars among the arguments, but got ceildiv(dim(x, 1), 4)}}
tgpu.kernel @k target "sm_80" warps 4 (%x: !tile.view<[?], f32>) grid(%i = ceildiv(dim(x, 1), 4)) {}

// -----

// expected-error @+1 {{a grid extent may read only extents of views and integer scalars among the arguments, but got dim(x, 0)}}
tgpu.kernel @k target "sm_80" warps 4 (%x: i32) grid(%i = dim(x, 0)) {}

// -----

// expected-error @+1 {{must have at most the 15 named barriers of a block, but got 16}}
tgpu.kernel @k target "sm_90a" warps 32 () grid(%i = 1) {
  %0 = tgpu.turns warpgroups 8 : index
  %1 = tgpu.turns warpgroups 7 : index
  %2 = tgpu.named_barrier warps 4 : index
}

// -----

func.func @f() {
  // expected-error @+1 {{'tgpu.kernel' op expects parent op 'builtin.module'}}
  tgpu.kernel @k target "sm_80" warps 4 () grid(%i = 1) {}
  return
}

// -----

// expected-error @+1 {{expected attribute value}}
tgpu.kernel @k target sm_80 warps 4 () grid(%i = 1) {}

// -----

// Launch constraints of a kernel.
// expected-error @+1 {{a constraint must be of kind flag, but got kind int}}
tgpu.kernel @k target "sm_80" warps 4 require(dim(x, 0)) (%x: !tile.view<[?], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint may take dim of views among the arguments only, but got 'y'}}
tgpu.kernel @k target "sm_80" warps 4 require(dim(y, 0) == 1) (%x: !tile.view<[?], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of argument 'n' must be an i32, but got 4294967296 : i64}}
tgpu.kernel @k target "sm_80" warps 4 (%n: i32 = 4294967296) grid(%i = 1) {}

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tgpu.kernel"() <{sym_name = "k", target = "sm_80", warps = 4 : i64, arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>], constraints = [1]}> ({^bb0(%i: i32):}) : () -> ()

// -----

// Roles.
tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{the warps of the roles must add up to the 8 warps of the kernel, but got 4}}
  tgpu.roles
    role "a" warps 4 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{the warps of the roles must add up to the 8 warps of the kernel, but got 0}}
  tgpu.roles
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{names of roles must differ, but got "a" twice}}
  tgpu.roles
    role "a" warps 4 {
    }
    role "a" warps 4 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{role "a" needs 1 to 32 warps, but got 0}}
  tgpu.roles
    role "a" warps 0 {
    }
    role "b" warps 8 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{role "a" needs 1 to 32 warps, but got 9223372036854775807}}
  tgpu.roles
    role "a" warps 9223372036854775807 {
    }
    role "b" warps 9223372036854775807 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{registers of role "a" must be a multiple of 8 from 24 to 240, but got 20}}
  tgpu.roles
    role "a" warps 8 registers 20 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{registers of role "a" must be a multiple of 8 from 24 to 240, but got 248}}
  tgpu.roles
    role "a" warps 8 registers 248 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{registers of role "a" must be a multiple of 8 from 24 to 240, but got 41}}
  tgpu.roles
    role "a" warps 8 registers 41 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{roles that share a warpgroup must have the same registers, but got 240 for role "b" and 24 for the one before it}}
  tgpu.roles
    role "a" warps 1 registers 24 {
    }
    role "b" warps 7 registers 240 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{roles that share a warpgroup must have the same registers, but got 0 for role "b" and 24 for the one before it}}
  tgpu.roles
    role "a" warps 2 registers 24 {
    }
    role "b" warps 6 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 6 () grid(%i = 1) {
  // expected-error @+1 {{registers require whole warpgroups, but the last one has fewer than 4 warps}}
  tgpu.roles
    role "a" warps 6 registers 40 {
    }
}

// -----

tgpu.kernel @k target "sm_80" warps 8 () grid(%i = 1) {
  // expected-error @+1 {{needs target sm_90a, sm_100a, sm_103a or sm_120a, but the kernel's is sm_80}}
  tgpu.roles
    role "a" warps 8 registers 40 {
    }
}

// -----

tgpu.kernel @k target "sm_90a" warps 12 () grid(%i = 1) {
  // expected-error @+1 {{roles must use at most the 64512 registers with which a block of 12 warps is launched, 168 per thread, but got 66560}}
  tgpu.roles
    role "a" warps 4 registers 40 {
    }
    role "b" warps 8 registers 240 {
    }
}

// -----

// All registers of a multiprocessor, but the block was launched with 168 per thread.
tgpu.kernel @k target "sm_90a" warps 12 () grid(%i = 1) {
  // expected-error @+1 {{roles must use at most the 64512 registers with which a block of 12 warps is launched, 168 per thread, but got 65536}}
  tgpu.roles
    role "a" warps 4 registers 32 {
    }
    role "b" warps 8 registers 240 {
    }
}

// -----

func.func @f() {
  // expected-error @+1 {{'tgpu.roles' op expects parent op 'tgpu.kernel'}}
  tgpu.roles
    role "a" warps 4 {
    }
  return
}

// -----

// The grid.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{extent must be one of the 1 of the grid, from 0 on, but got 1}}
  %0 = tgpu.grid_extent 1 : i32
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{extent must be one of the 1 of the grid, from 0 on, but got -1}}
  %0 = tgpu.grid_extent -1 : i32
}

// -----

func.func @f() {
  // expected-error @+1 {{must be inside a tgpu.kernel}}
  %0 = tgpu.grid_extent 0 : i32
  return
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 (%n: i32) grid(%i = 1, %j = 1) {
  // expected-error @+1 {{'tgpu.share' op needs a grid of one dimension, but got 2}}
  %0, %1 = tgpu.share of %n
}

// -----

func.func @f(%n: i32) {
  // expected-error @+1 {{'tgpu.share' op must be inside a tgpu.kernel}}
  %0, %1 = tgpu.share of %n
  return
}

// -----

// Shared memory.
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{offset of a buffer of '!tgpu.shared<128x64xbf16, b128>' must be a multiple of 1024 bytes, but got 512}}
  %0 = tgpu.alloc at 512 : !tgpu.shared<128x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must be a multiple of 512 bytes, but got 256}}
  %0 = tgpu.alloc at 256 : !tgpu.shared<8x32xbf16, b64>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must be a multiple of 256 bytes, but got 128}}
  %0 = tgpu.alloc at 128 : !tgpu.shared<8x16xbf16, b32>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must be a multiple of 128 bytes, but got 16}}
  %0 = tgpu.alloc at 16 : !tgpu.shared<8x16xbf16, none>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must be a multiple of 128 bytes, but got 8}}
  %0 = tgpu.alloc at 8 : !tgpu.shared<16xbf16, none>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must be a multiple of 1024 bytes, but got -1024}}
  %0 = tgpu.alloc at -1024 : !tgpu.shared<128x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must end in the 232448 bytes of shared memory, but got offset 216064 and 16512 bytes}}
  %0 = tgpu.alloc at 216064 : !tgpu.shared<129x64xbf16, b128>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must be a multiple of 1024 bytes, but got 16}}
  %0 = tgpu.alloc_ring at 16 : !tgpu.ring<2, !tgpu.shared<128x64xbf16, b128>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must end in the 232448 bytes of shared memory, but got offset 200704 and 32768 bytes}}
  %0 = tgpu.alloc_ring at 200704 : !tgpu.ring<2, !tgpu.shared<128x64xbf16, b128>>
}

// -----

tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) {
  %0 = tgpu.alloc_ring : !tgpu.ring<2, !tgpu.shared<128x64xbf16, b128>>
  // expected-error @+1 {{expected the type of a ring, but got '!tgpu.barriers<2>'}}
  %1 = tgpu.slot %0[%i] : !tgpu.barriers<2>
}
