// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Discardable attributes by which passes hand decisions over: on other operations, with values of other types, and
// unknown ones.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{'tgpu.transpose_few_rows' must be on 'tile.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.transpose_few_rows}

// -----

// expected-error @+1 {{'tgpu.awaits_launch' must be on 'tile.kernel' or 'tgpu.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.awaits_launch}

// -----

// expected-error @+1 {{'tgpu.allows_launch' must be on 'tile.kernel' or 'tgpu.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.allows_launch}

// -----

// expected-error @+1 {{'tgpu.allows_run' must be on 'tile.kernel' or 'tgpu.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.allows_run}

// -----

// expected-error @+1 {{'tgpu.most_stages' must be on 'tile.kernel' or 'tgpu.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.most_stages = 4 : i64}

// -----

// expected-error @+1 {{'tgpu.transposed_keep' must be on 'tile.for_blocks', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.transposed_keep}

// -----

// expected-error @+1 {{'tgpu.copied' must be on 'tile.load', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.copied}

// -----

// expected-error @+1 {{'tgpu.read_once' must be on 'tgpu.copy_async' or 'tgpu.tma_load', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.read_once}

// -----

// expected-error @+1 {{'tgpu.starts_inside' must be on 'tgpu.copy_async' or 'tgpu.store' or 'tgpu.atomic_add', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.starts_inside}

// -----

// expected-error @+1 {{'tgpu.special_case' must be on 'scf.if', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.special_case}

// -----

// expected-error @+1 {{'tgpu.one_before' must be on 'scf.if' or 'scf.for', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.one_before}

// -----

// expected-error @+1 {{'tgpu.one_after' must be on 'scf.if' or 'scf.for', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.one_after}

// -----

// expected-error @+1 {{'tgpu.either_order' must be on 'tgpu.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.either_order}

// -----

// expected-error @+1 {{'tgpu.schedule' must be on 'scf.for' or 'tile.for', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}

// -----

// expected-error @+1 {{'tgpu.role_schedule' must be on 'tgpu.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240>}

// -----

// expected-error @+1 {{'tgpu.lend_slot' must be on 'tgpu.copy_async', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.lend_slot}

// -----

// expected-error @+1 {{'tgpu.keep_in_registers' must be on 'tgpu.read', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.keep_in_registers}

// -----

// expected-error @+1 {{'tgpu.general' must be on 'scf.for', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.general}

// -----

// expected-error @+1 {{'tgpu.rare' must be on 'scf.for', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.rare}

// -----

// expected-error @+1 {{'tgpu.idle_rounds' must be on 'scf.for', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.idle_rounds}

// -----

// expected-error @+1 {{'tgpu.skip_ones' must be on 'arith.mulf', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.skip_ones}

// -----

// expected-error @+1 {{'tgpu.as_integers' must be on 'tile.reduce', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.as_integers}

// -----

// expected-error @+1 {{'tgpu.notes' must be on 'tile.kernel' or 'tgpu.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.notes = ["a"]}

// -----

// expected-error @+1 {{'tgpu.no_roles' must be on 'tgpu.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.no_roles = "a"}

// -----

// expected-error @+1 {{'tgpu.no_roles_place' must be on 'tgpu.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.no_roles_place = "a"}

// -----

// expected-error @+1 {{'tgpu.timeline' must be on 'tgpu.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.timeline = 4 : i64}

// -----

// expected-error @+1 {{'tgpu.warps' must be on 'tile.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.warps = 4 : i64}

// -----

// expected-error @+1 {{'tgpu.shared_bytes' must be on 'tile.kernel', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.shared_bytes = 4 : i64}

// -----

// expected-error @+1 {{'tgpu.ring_stages' must be of kind 'i64', but got 2 : i32; correct or remove the attribute}}
func.func private @f() attributes {tgpu.ring_stages = 2 : i32}

// -----

// expected-error @+1 {{'tgpu.ring_stages' must be of kind 'i64', but got "two"; correct or remove the attribute}}
func.func private @f() attributes {tgpu.ring_stages = "two"}

// -----

// expected-error @+1 {{'tgpu.place' must be of kind 'array<i64: STAGE, ORDER>', but got [0, 1]; correct or remove the attribute}}
func.func private @f() attributes {tgpu.place = [0, 1]}

// -----

// expected-error @+1 {{'tgpu.place' must be of kind 'array<i64: STAGE, ORDER>', but got array<i32: 0, 1>; correct or remove the attribute}}
func.func private @f() attributes {tgpu.place = array<i32: 0, 1>}

// -----

// expected-error @+1 {{'tgpu.place' must be of kind 'array<i64: STAGE, ORDER>', but got array<i64: 0>; correct or remove the attribute}}
func.func private @f() attributes {tgpu.place = array<i64: 0>}

// -----

// expected-error @+1 {{'tgpu.keep_place' must be of kind 'builtin.unit', but got true; correct or remove the attribute}}
func.func private @f() attributes {tgpu.keep_place = true}

// -----

// expected-error @+1 {{'tgpu.redundant' must be of kind 'builtin.string', but got unit; correct or remove the attribute}}
func.func private @f() attributes {tgpu.redundant}

// -----

// expected-error @+1 {{'tgpu.role_schedule' must be of kind 'tgpu.role_schedule', but got 2 : i64; correct or remove the attribute}}
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) attributes {tgpu.role_schedule = 2 : i64} {
}

// -----

// expected-error @+1 {{'tgpu.notes' must be of kind 'array of strings', but got [1]; correct or remove the attribute}}
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) attributes {tgpu.notes = [1]} {
}

// -----

// expected-error @+1 {{'tgpu.no_roles' must be of kind 'builtin.string', but got 1 : i64; correct or remove the attribute}}
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) attributes {tgpu.no_roles = 1 : i64} {
}

// -----

// expected-error @+1 {{'tgpu.timeline' must be of kind 'i64', but got 1 : i32; correct or remove the attribute}}
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) attributes {tgpu.timeline = 1 : i32} {
}

// -----

// expected-error @+1 {{'tgpu.either_order' must be of kind 'builtin.unit', but got false; correct or remove the attribute}}
tgpu.kernel @k target "sm_90a" warps 4 () grid(%i = 1) attributes {tgpu.either_order = false} {
}

// -----

func.func @f(%n: i32) {
  // expected-error @+1 {{'tgpu.schedule' must be of kind 'tgpu.schedule', but got unit; correct or remove the attribute}}
  scf.for %i = %n to %n step %n : i32 {
  } {tgpu.schedule}
  return
}

// -----

func.func @f(%n: i32) {
  // expected-error @+1 {{'tgpu.rare' must be of kind 'builtin.unit', but got 1 : i32; correct or remove the attribute}}
  scf.for %i = %n to %n step %n : i32 {
  } {tgpu.rare = 1 : i32}
  return
}

// -----

// expected-error @+1 {{'tgpu.transpose_few_row' must be 'tgpu.transpose_few_rows' or 'tgpu.awaits_launch' or 'tgpu.allows_launch' or 'tgpu.allows_run' or 'tgpu.most_stages' or 'tgpu.transposed_keep' or 'tgpu.copied' or}}
func.func private @f() attributes {tgpu.transpose_few_row}
