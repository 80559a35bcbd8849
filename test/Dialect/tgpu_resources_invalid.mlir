// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the operations of a kernel share of its block: shared memory, and hardware barriers.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// Shared memory of the kernel.
// expected-error @+1 {{shared memory must be 0 to 232448 bytes, what a block of sm_90a has, but got -5; run tgpu-plan-shared-memory, or use smaller blocks}}
tgpu.kernel @negative target "sm_90a" warps 4 () grid(%i = 1) attributes {shared_bytes = -5 : i64} {
}

// -----

// More than any chip has.
// expected-error @+1 {{shared memory must be 0 to 232448 bytes, what a block of sm_90a has, but got 999999999}}
tgpu.kernel @huge target "sm_90a" warps 4 () grid(%i = 1) attributes {shared_bytes = 999999999 : i64} {
}

// -----

// More than the target has.
// expected-error @+1 {{shared memory must be 0 to 166912 bytes, what a block of sm_80 has, but got 166913}}
tgpu.kernel @of_target target "sm_80" warps 4 () grid(%i = 1) attributes {shared_bytes = 166913 : i64} {
}

// -----

// A buffer in a kernel without memory.
tgpu.kernel @none target "sm_90a" warps 4 () grid(%i = 1) attributes {shared_bytes = 0 : i64} {
  // expected-error @+1 {{must lie within the 0 bytes of shared memory of its kernel, but got bytes 0 to 8191; run tgpu-plan-shared-memory}}
  %x = tgpu.alloc at 0 : !tgpu.shared<64x64xbf16, b128>
}

// -----

// A buffer that ends one byte too late.
tgpu.kernel @buffer_ends target "sm_90a" warps 4 () grid(%i = 1) attributes {shared_bytes = 9215 : i64} {
  // expected-error @+1 {{must lie within the 9215 bytes of shared memory of its kernel, but got bytes 1024 to 9215; run tgpu-plan-shared-memory}}
  %x = tgpu.alloc at 1024 : !tgpu.shared<64x64xbf16, b128>
}

// -----

// A ring whose last slot ends too late.
tgpu.kernel @ring_ends target "sm_90a" warps 4 () grid(%i = 1) attributes {shared_bytes = 24575 : i64} {
  // expected-error @+1 {{must lie within the 24575 bytes of shared memory of its kernel, but got bytes 0 to 24575; run tgpu-plan-shared-memory}}
  %x = tgpu.alloc_ring at 0 : !tgpu.ring<3, <64x64xbf16, b128>>
}

// -----

// Barriers behind the memory of the kernel.
tgpu.kernel @barriers_end target "sm_90a" warps 4 () grid(%i = 1) attributes {shared_bytes = 1024 : i64} {
  // expected-error @+1 {{must lie within the 1024 bytes of shared memory of its kernel, but got bytes 1016 to 1031; run tgpu-plan-shared-memory}}
  %x = tgpu.alloc_barriers arrivals 1 at 1016 : !tgpu.barriers<2>
}

// -----

// Without the size of the memory, that of the target is the limit.
tgpu.kernel @buffer_of_target target "sm_80" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must lie within the 166912 bytes of shared memory of the target, but got bytes 159744 to 167935; run tgpu-plan-shared-memory}}
  %x = tgpu.alloc at 159744 : !tgpu.shared<64x64xbf16, b128>
}

// -----

// The same for a ring.
tgpu.kernel @ring_of_target target "sm_80" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must lie within the 166912 bytes of shared memory of the target, but got bytes 153600 to 169983; run tgpu-plan-shared-memory}}
  %x = tgpu.alloc_ring at 153600 : !tgpu.ring<2, <64x64xbf16, b128>>
}

// -----

// And for barriers.
tgpu.kernel @barriers_of_target target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must lie within the 232448 bytes of shared memory of the target, but got bytes 300000 to 300007; run tgpu-plan-shared-memory}}
  %x = tgpu.alloc_barriers arrivals 1 at 300000 : !tgpu.barriers<1>
}

// -----

// An offset at which the end overflows.
tgpu.kernel @overflow target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-error @+1 {{must lie within the 232448 bytes of shared memory of the target, but got bytes 9223372036854775800 to}}
  %x = tgpu.alloc_barriers arrivals 1 at 9223372036854775800 : !tgpu.barriers<4>
}

// -----

// Two buffers overlap.
tgpu.kernel @buffers target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-note @+1 {{the other allocation}}
  %x = tgpu.alloc at 0 : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{must have bytes of its own, but bytes 4096 to 8191 belong to another allocation, too; run tgpu-plan-shared-memory, or declare both}}
  %y = tgpu.alloc at 4096 : !tgpu.shared<64x64xbf16, b128>
}

// -----

// One begins where the other does.
tgpu.kernel @same_begin target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-note @+1 {{the other allocation}}
  %x = tgpu.alloc at 1024 : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{must have bytes of its own, but bytes 1024 to 1151 belong to another allocation, too; run tgpu-plan-shared-memory, or declare both}}
  %y = tgpu.alloc at 1024 : !tgpu.shared<32xf32, none>
}

// -----

// A buffer in a slot of a ring.
tgpu.kernel @in_ring target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-note @+1 {{the other allocation}}
  %x = tgpu.alloc_ring at 0 : !tgpu.ring<3, <64x64xbf16, b128>>
  // expected-error @+1 {{must have bytes of its own, but bytes 16384 to 16511 belong to another allocation, too; run tgpu-plan-shared-memory, or declare both}}
  %y = tgpu.alloc at 16384 : !tgpu.shared<32xf32, none>
}

// -----

// Two rings: the last slot of one is the first of the other.
tgpu.kernel @rings target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-note @+1 {{the other allocation}}
  %x = tgpu.alloc_ring at 0 : !tgpu.ring<2, <64x64xbf16, b128>>
  // expected-error @+1 {{must have bytes of its own, but bytes 8192 to 16383 belong to another allocation, too; run tgpu-plan-shared-memory, or declare both}}
  %y = tgpu.alloc_ring at 8192 : !tgpu.ring<2, <64x64xbf16, b128>>
}

// -----

// Behind a long buffer, and in it: not only neighbors are compared.
tgpu.kernel @not_neighbors target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-note @+1 {{the other allocation}}
  %x = tgpu.alloc shared at 0 : !tgpu.shared<64x64xbf16, b128>
  %y = tgpu.alloc shared at 128 : !tgpu.shared<32xf32, none>
  // expected-error @+1 {{must have bytes of its own, but bytes 4096 to 4223 belong to another allocation, too; run tgpu-plan-shared-memory, or declare both}}
  %z = tgpu.alloc at 4096 : !tgpu.shared<32xf32, none>
}

// -----

// Barriers in a buffer.
tgpu.kernel @barriers_in_buffer target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-note @+1 {{the other allocation}}
  %x = tgpu.alloc at 0 : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{must have bytes of its own, but bytes 8184 to 8191 belong to another allocation, too; run tgpu-plan-shared-memory, or declare both}}
  %y = tgpu.alloc_barriers arrivals 1 at 8184 : !tgpu.barriers<2>
}

// -----

// Barriers in a buffer that may share its bytes.
tgpu.kernel @barriers_share target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-note @+1 {{the other allocation}}
  %x = tgpu.alloc shared at 0 : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{must have bytes of its own, but bytes 64 to 71 belong to another allocation, too; run tgpu-plan-shared-memory, or declare both}}
  %y = tgpu.alloc_barriers arrivals 1 at 64 : !tgpu.barriers<1>
}

// -----

// Two arrays of barriers.
tgpu.kernel @barriers target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-note @+1 {{the other allocation}}
  %x = tgpu.alloc_barriers arrivals 1 at 64 : !tgpu.barriers<3>
  // expected-error @+1 {{must have bytes of its own, but bytes 80 to 87 belong to another allocation, too; run tgpu-plan-shared-memory, or declare both}}
  %y = tgpu.alloc_barriers arrivals 4 at 80 : !tgpu.barriers<3>
}

// -----

// Two arrays of barriers at one offset.
tgpu.kernel @barriers_at_once target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-note @+1 {{the other allocation}}
  %x = tgpu.alloc_barriers arrivals 1 at 0 : !tgpu.barriers<1>
  // expected-error @+1 {{must have bytes of its own, but bytes 0 to 7 belong to another allocation, too; run tgpu-plan-shared-memory, or declare both}}
  %y = tgpu.alloc_barriers arrivals 1 at 0 : !tgpu.barriers<1>
}

// -----

// Only one of two buffers may share.
tgpu.kernel @one_shares target "sm_90a" warps 4 () grid(%i = 1) {
  // expected-note @+1 {{the other allocation}}
  %x = tgpu.alloc at 0 : !tgpu.shared<64x64xbf16, b128>
  // expected-error @+1 {{must have bytes of its own, but bytes 4096 to 8191 belong to another allocation, too; run tgpu-plan-shared-memory, or declare both}}
  %y = tgpu.alloc shared at 4096 : !tgpu.shared<64x64xbf16, b128>
}

// -----

// One hardware barrier for different numbers of warps.
tgpu.kernel @counts target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-note @+1 {{the other declaration}}
  %x = tgpu.named_barrier warps 4 id 1 : index
  // expected-error @+1 {{must have an id of its own, or one of a barrier for the same number of warps, but got id 1 of another declaration; run tgpu-plan-shared-memory}}
  %y = tgpu.named_barrier warps 8 id 1 : index
}

// -----

// A barrier per warpgroup takes the ids behind its first.
tgpu.kernel @per_warpgroup target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-note @+1 {{the other declaration}}
  %x = tgpu.named_barrier warps 8 per warpgroup id 2 : index
  // expected-error @+1 {{must have an id of its own, or one of a barrier for the same number of warps, but got id 3 of another declaration; run tgpu-plan-shared-memory}}
  %y = tgpu.named_barrier warps 8 id 3 : index
}

// -----

// Two of them, for the same number of warps.
tgpu.kernel @both_per_warpgroup target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-note @+1 {{the other declaration}}
  %x = tgpu.named_barrier warps 8 per warpgroup id 2 : index
  // expected-error @+1 {{must have an id of its own, or one of a barrier for the same number of warps, but got id 2 of another declaration; run tgpu-plan-shared-memory}}
  %y = tgpu.named_barrier warps 8 per warpgroup id 2 : index
}

// -----

// Turns take a barrier for each warpgroup.
tgpu.kernel @turns target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-note @+1 {{the other declaration}}
  %x = tgpu.turns warpgroups 2 id 3 : index
  // expected-error @+1 {{must have an id of its own, or one of a barrier for the same number of warps, but got id 4 of another declaration; run tgpu-plan-shared-memory}}
  %y = tgpu.named_barrier warps 4 id 4 : index
}

// -----

// Two turns of the same ids.
tgpu.kernel @both_turns target "sm_90a" warps 8 () grid(%i = 1) {
  // expected-note @+1 {{the other declaration}}
  %x = tgpu.turns warpgroups 2 id 3 : index
  // expected-error @+1 {{must have an id of its own, or one of a barrier for the same number of warps, but got id 3 of another declaration; run tgpu-plan-shared-memory}}
  %y = tgpu.turns warpgroups 2 id 3 : index
}

// -----

// Bytes and ids that end where others begin, buffers that may share, and two names of one barrier.
tgpu.kernel @accepted target "sm_90a" warps 8 () grid(%i = 1) attributes {shared_bytes = 9368 : i64} {
  %a = tgpu.alloc shared at 0 : !tgpu.shared<64x64xbf16, b128>
  %b = tgpu.alloc shared at 1024 : !tgpu.shared<64x64xbf16, b128>
  %c = tgpu.alloc at 9216 : !tgpu.shared<32xf32, none>
  %d = tgpu.alloc_barriers arrivals 1 at 9344 : !tgpu.barriers<2>
  %e = tgpu.alloc_barriers arrivals 1 at 9360 : !tgpu.barriers<1>
  %f = tgpu.named_barrier warps 8 per warpgroup id 1 : index
  %g = tgpu.named_barrier warps 8 id 3 : index
  %h = tgpu.named_barrier warps 8 id 3 : index
  %j = tgpu.turns warpgroups 2 id 4 : index
}
