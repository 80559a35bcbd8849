// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Barriers and fences.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUSYNCOPS_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUSYNCOPS_TD

include "dialect/Tgpu/TgpuOpBase.td"

def Tgpu_AllocBarriersOp : Tgpu_Op<"alloc_barriers", [MemoryEffects<[MemAlloc]>]> {
  let summary = "mbarriers, one for each stage of a ring";
  let description = [{
    A phase of a barrier completes after `arrivals` arrivals and all bytes expected in it. They are initialised,
    and made visible to all warps and to the async proxy, where they are allocated.

    Preconditions: outside of roles, so that every warp waits for the initialisation.

    Postconditions: all barriers are in their first phase, use 0.

    Example: `%k_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<3>`

    Errors:
    - a number of arrivals below 1 or beyond 2^20 - 1
    - a planned offset that is negative or no multiple of 8
    - inside a role
  }];
  let arguments = (ins I64Attr:$arrivals, OptionalAttr<I64Attr>:$offset);
  let results = (outs Tgpu_Barriers:$barriers);
  let assemblyFormat =
      "`arrivals` custom<Int>($arrivals) (`at` $offset^)? attr-dict `:` type($barriers)";
  let hasVerifier = 1;
}

class Tgpu_BarrierOp<string mnemonic> : Tgpu_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let assemblyFormat = "$barriers `[` $use `]` attr-dict `:` type($barriers)";
}

def Tgpu_WaitOp : Tgpu_BarrierOp<"wait"> {
  let summary = "waits until use `use` of a slot has been filled (or whatever the barriers stand for)";
  let description = [{
    Returns once phase `use` div stages of barrier `use` mod stages has completed.

    Preconditions: no thread is more than one phase ahead or behind; use >= 0.

    Postconditions: what was written before the arrivals, and the bytes expected, are visible.

    Example: `tgpu.wait %k_full[%n] : !tgpu.barriers<3>`
  }];
  let arguments = (ins Tgpu_Barriers:$barriers, I32:$use);
}

def Tgpu_AcquireOp : Tgpu_BarrierOp<"acquire"> {
  let summary = "waits until the slot that use `use` will fill has been released";
  let description = [{
    Returns once phase `use` div stages - 1 has completed; at once for the first round.

    Preconditions, postconditions: as for `tgpu.wait`.

    Example: `tgpu.acquire %k_empty[%n] : !tgpu.barriers<3>`
  }];
  let arguments = (ins Tgpu_Barriers:$barriers, I32:$use);
}

def Tgpu_ArriveOp : Tgpu_Op<"arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "arrives at a barrier";
  let description = [{
    `per` says who makes one arrival: every thread, one thread of each warp, of each warpgroup, or of the role. The
    threads of a warp converge first; those of a warpgroup or of the role do not.

    Preconditions: per warpgroup and per role, the other threads' work that the waiting threads rely on lies before a `tgpu.sync`.

    Postconditions: what they did before is visible to the threads that wait.

    Example: `tgpu.arrive %k_empty[%n] per warp : !tgpu.barriers<3>`

    Errors:
    - per warpgroup, in a role whose warps are no multiple of 4
  }];
  let arguments = (ins Tgpu_Barriers:$barriers, I32:$use, Tgpu_ArriveScopeAttr:$per);
  let assemblyFormat = "$barriers `[` $use `]` `per` $per attr-dict `:` type($barriers)";
  let hasVerifier = 1;
}

def Tgpu_ExpectOp : Tgpu_Op<"expect", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "arrives and announces bytes that asynchronous copies will bring";
  let description = [{
    One arrival by one thread of the role. Bytes add up over the copies of a phase: a ring whose use takes a tile and a
    row vector expects the sum.

    Preconditions: the copies that bring the bytes are issued by the same thread.

    Postconditions: the phase does not complete before the bytes are there.

    Example: `tgpu.expect %k_full[%n] bytes 16384 : !tgpu.barriers<3>`

    Errors:
    - a number of bytes below 1, or beyond 2^20 - 1
    - a target other than sm_90a
  }];
  let arguments = (ins Tgpu_Barriers:$barriers, I32:$use, I64Attr:$bytes);
  let assemblyFormat =
      "$barriers `[` $use `]` `bytes` custom<Int>($bytes) attr-dict `:` type($barriers)";
  let hasVerifier = 1;
}

def Tgpu_NamedBarrierOp : Tgpu_Op<"named_barrier", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a hardware barrier for some warps of the block";
  let description = [{
    At most 15 of a block's 16, the first being that of the whole block; tgpu-plan-shared-memory numbers them (`id`). `warps` is
    how many take part: those of the roles that `tgpu.sync` on it, and those of the roles that only `tgpu.signal`.

    Preconditions: none. Postconditions: the barriers have no arrivals.

    Example: `%scores_written = tgpu.named_barrier warps 8 : index`

    Errors:
    - a number of warps outside 1 to 32
    - an id outside 1 to 15
  }];
  let arguments = (ins I64Attr:$warps, OptionalAttr<I64Attr>:$id);
  let results = (outs Index:$barrier);
  let assemblyFormat = "`warps` custom<Int>($warps) (`id` $id^)? attr-dict `:` type($barrier)";
  let hasVerifier = 1;
}

def Tgpu_SyncOp : Tgpu_Op<"sync", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits at a named barrier, or for all threads of the block";
  let description = [{
    Who takes part:

    - `tgpu.sync`: all warps of the block. It stands outside of roles only, as the other roles would never join.
    - `tgpu.sync on %b`: all warps of the role that executes it (of the block, outside of roles), together with the roles that
      sync or signal on the same barrier at that time, as many warps in all as the barrier was declared for. A barrier for
      exactly the warps of a role is the role's own.

    Preconditions: every participant comes; none comes twice while another is missing.

    Postconditions: what the participants wrote before is visible to them all (generic proxy).

    Example: `tgpu.sync`, `tgpu.sync on %scores_written`

    Errors:
    - without a barrier, inside a role
    - a barrier that is not the result of `tgpu.named_barrier`
    - a barrier for fewer warps than execute the operation
  }];
  let arguments = (ins Optional<Index>:$barrier);
  // The word keeps the result of the next operation from being read as the operand.
  let assemblyFormat = "(`on` $barrier^)? attr-dict";
  let hasVerifier = 1;
}

def Tgpu_SignalOp : Tgpu_Op<"signal", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "arrives at a named barrier without waiting";
  let description = [{
    All warps of the role arrive; those that `tgpu.sync` on the barrier wait for them.

    Preconditions: as for `tgpu.sync`; so no role signals twice before the waiting role has come.

    Postconditions: what the role wrote before is visible to those that wait.

    Example: `tgpu.signal %dq_ready`

    Errors:
    - a barrier that is not the result of `tgpu.named_barrier`
    - a barrier for no more warps than execute the operation: none would be left to wait
  }];
  let arguments = (ins Index:$barrier);
  let assemblyFormat = "$barrier attr-dict";
  let hasVerifier = 1;
}

def Tgpu_TurnsOp : Tgpu_Op<"turns", [MemoryEffects<[MemAlloc]>]> {
  let summary = "the right to go first, handed around the warpgroups of a role";
  let description = [{
    The warpgroups of a role run the same code; turns decide whose matrix products are issued first, so that one
    computes its softmax while another keeps the matrix unit busy (ping-pong). It is made of one named barrier for each
    warpgroup, of 8 warps: the one that waits and the one that passes. tgpu-plan-shared-memory numbers them, `id` first.

    Preconditions: used by one role.

    Postconditions: it is the turn of warpgroup 0.

    Example: `%turns = tgpu.turns warpgroups 2 : index`

    Errors:
    - a number of warpgroups outside 2 to 8
    - ids beyond 15
  }];
  let arguments = (ins I64Attr:$warpgroups, OptionalAttr<I64Attr>:$id);
  let results = (outs Index:$turns);
  let assemblyFormat = "`warpgroups` custom<Int>($warpgroups) (`id` $id^)? attr-dict `:` type($turns)";
  let hasVerifier = 1;
}

class Tgpu_TurnOp<string mnemonic> : Tgpu_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let arguments = (ins Index:$turns);
  let assemblyFormat = "$turns attr-dict";
  let hasVerifier = 1;
}
def Tgpu_TakeTurnOp : Tgpu_TurnOp<"take_turn"> {
  let summary = "each warpgroup waits until it is its turn";
  let description = [{
    Warpgroup g goes on once warpgroup g - 1 has passed (warpgroup 0 the first time at once).

    Preconditions: `tgpu.take_turn` and `tgpu.pass_turn` alternate.

    Postconditions: no other warpgroup is between taking and passing. Orders time only: no memory is made visible.

    Example: `tgpu.take_turn %turns`

    Errors:
    - turns that are not the result of `tgpu.turns`
    - a role of other than these warpgroups
  }];
}
def Tgpu_PassTurnOp : Tgpu_TurnOp<"pass_turn"> {
  let summary = "each warpgroup passes its turn on to the next";
  let description = [{
    The last passes to the first. Does not wait.

    Preconditions, postconditions, errors: those of `tgpu.take_turn`.

    Example: `tgpu.pass_turn %turns`
  }];
}

def Tgpu_FirstRoundOp : Tgpu_Op<"first_round", [Pure]> {
  let summary = "the round with which each warpgroup begins a loop";
  let description = [{
    The operand of the warpgroup that executes it, in the order of the warpgroups of its role. `all` is the first round of
    the loop: of the rounds from there on each warpgroup may leave out those before its own, because they change nothing
    of what its rows carry. As the lower bound of a loop it is obeyed by `tgpu-skip-idle-rounds`.

    Preconditions: no operand is below `all`. Postconditions: all threads of a warpgroup have the same result. Where
    warpgroups are played as one (interpreter, simulator, `tgpu-verify-sync`), it is the least operand.

    Example: `%first = tgpu.first_round %c0 of %r0, %r1, %r2`

    Errors:
    - operands for other than the warpgroups that execute it
  }];
  let arguments = (ins I32:$all, Variadic<I32>:$own);
  let results = (outs I32:$first);
  let assemblyFormat = "$all `of` $own attr-dict";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tgpu_FenceAsyncOp : Tgpu_Op<"fence_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "makes generic writes to shared memory visible to the async proxy";
  let description = [{
    Needed between ordinary stores to shared memory and their reading by wgmma or TMA, in each writing
    thread, before the barrier. tgpu-insert-fences places it.

    Preconditions: none. Postconditions: threads that a barrier orders behind it may read the writes by wgmma or TMA.

    Example: `tgpu.fence_async`

    Errors:
    - a target other than sm_90a
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Tgpu_AnyOp : Tgpu_Op<"any", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "whether any element of a tile of i1 is true, in the whole block or role";
  let description = [{
    A vote of all threads, and so a barrier as well: every thread gets the same answer. Inside a role it is a vote of the
    role, at a named barrier for its warps.

    Preconditions: all warps of the block, or of the role, execute it. Postconditions: those of `tgpu.sync`.

    Example: `%some = tgpu.any %keep : tensor<128x128xi1, #tgpu.mma<4, 1>>`,
    `%some = tgpu.any %keep on %voted : tensor<128x128xi1, #tgpu.wgmma<2>>`

    Errors:
    - elements that are not i1
    - inside a role, without a barrier
    - a barrier that is not the result of `tgpu.named_barrier`, or for other than the warps that vote
    - a layout for other than the warps that vote
  }];
  let arguments = (ins Tgpu_RegisterTile:$tile, Optional<Index>:$barrier);
  let results = (outs I1:$result);
  let assemblyFormat = "$tile (`on` $barrier^)? attr-dict `:` type($tile)";
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUSYNCOPS_TD
