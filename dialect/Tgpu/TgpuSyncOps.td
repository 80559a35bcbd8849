// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Barriers and fences.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUSYNCOPS_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUSYNCOPS_TD

include "dialect/Tgpu/TgpuOpBase.td"

def Tgpu_AllocBarriersOp : Tgpu_Op<"alloc_barriers", [MemoryEffects<[MemAlloc<Tgpu_BarrierState>]>]> {
  let summary = "mbarriers, one for each stage of a ring";
  let description = [{
    A phase of a barrier completes after `arrivals` arrivals and after all bytes expected in it have arrived. The
    operation initializes the barriers and makes them visible to all warps and to the async proxy.

    Preconditions: outside of roles, so that every warp waits for the initialization.

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

class Tgpu_BarrierOp<string mnemonic> : Tgpu_Op<mnemonic, [Tgpu_Synchronizes<>]> {
  let assemblyFormat = "$barriers `[` $use `]` attr-dict `:` type($barriers)";
}

def Tgpu_WaitOp : Tgpu_BarrierOp<"wait"> {
  let summary = "waits until use `use` of a slot has been filled (or what else the barriers stand for)";
  let description = [{
    Returns once phase `use` div stages of barrier `use` mod stages has completed.

    Preconditions: no thread is more than one phase ahead or behind; use >= 0.

    Postconditions: writes that precede the arrivals, and the expected bytes, are visible.

    Example: `tgpu.wait %k_full[%n] : !tgpu.barriers<3>`
  }];
  let arguments = (ins Tgpu_Barriers:$barriers, I32:$use);
}

def Tgpu_AcquireOp : Tgpu_BarrierOp<"acquire"> {
  let summary = "waits until the slot that use `use` will fill has been released";
  let description = [{
    Returns once phase `use` div stages - 1 has completed; at once for the first `stages` uses.

    Preconditions, postconditions: as for `tgpu.wait`.

    Example: `tgpu.acquire %k_empty[%n] : !tgpu.barriers<3>`
  }];
  let arguments = (ins Tgpu_Barriers:$barriers, I32:$use);
}

def Tgpu_ArriveOp : Tgpu_Op<"arrive", [Tgpu_Synchronizes<>]> {
  let summary = "arrives at a barrier";
  let description = [{
    `per` states what makes one arrival: every thread, or one thread of each warp, of each warpgroup, or of the role.
    The threads of a warp converge first; those of a warpgroup or of the role do not.

    Preconditions: per warpgroup and per role, a `tgpu.sync` comes after the other threads' accesses that the waiting
    threads depend on.

    Postconditions: accesses that precede the arrival are visible to the threads that wait.

    Example: `tgpu.arrive %k_empty[%n] per warp : !tgpu.barriers<3>`

    Errors:
    - per warpgroup, in a role whose number of warps is not a multiple of 4
  }];
  let arguments = (ins Tgpu_Barriers:$barriers, I32:$use, Tgpu_ArriveScopeAttr:$per);
  let assemblyFormat = "$barriers `[` $use `]` `per` $per attr-dict `:` type($barriers)";
  let hasVerifier = 1;
}

def Tgpu_ExpectOp : Tgpu_Op<"expect", [Tgpu_Synchronizes<>]> {
  let summary = "arrives and announces bytes that asynchronous copies will bring";
  let description = [{
    One thread of the role arrives. Bytes add up over the copies of a phase: if a use of a ring takes a tile and a row
    vector, the barrier expects the sum.

    Preconditions: the copies that bring the bytes are issued by the same thread.

    Postconditions: the phase does not complete before the bytes have arrived.

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

def Tgpu_NamedBarrierOp : Tgpu_Op<"named_barrier", [MemoryEffects<[MemAlloc<Tgpu_BarrierState>]>]> {
  let summary = "a hardware barrier for some warps of the block";
  let description = [{
    A block has 16 barriers; the first is that of the whole block, so at most 15 can be named. tgpu-plan-shared-memory
    numbers them (`id`). `warps` is the number of warps that take part: those of the roles that `tgpu.sync` on the
    barrier, and those of the roles that only `tgpu.signal`.

    `per warpgroup`: every warpgroup of the one role that syncs on it has a barrier of its own, numbered from `id` on.
    Two declarations of one id denote the same barrier; both are then for the same number of warps.

    Preconditions: none. Postconditions: the barriers have no arrivals.

    Example: `%scores_written = tgpu.named_barrier warps 8 : index`

    Errors:
    - a number of warps outside 1 to 32, or with `per warpgroup` no multiple of 4
    - an id outside 1 to 15, of any of its barriers
  }];
  let arguments = (ins I64Attr:$warps, OptionalAttr<I64Attr>:$id, UnitAttr:$perWarpgroup);
  let results = (outs Index:$barrier);
  let assemblyFormat = [{
    `warps` custom<Int>($warps) (`per` `warpgroup` $perWarpgroup^)? (`id` $id^)? attr-dict `:` type($barrier)
  }];
  let hasVerifier = 1;
}

def Tgpu_SyncOp : Tgpu_Op<"sync", [Tgpu_Synchronizes<>]> {
  let summary = "waits at a named barrier, or for all threads of the block";
  let description = [{
    These warps take part:

    - `tgpu.sync`: all warps of the block. It is allowed outside of roles only, because other roles would never reach
      it.
    - `tgpu.sync on %b`: all warps of the role that executes it (of the block, outside of roles), together with the
      roles that sync or signal on the same barrier at that time. Their number must be that of the barrier's
      declaration. A barrier for exactly the warps of one role is private to that role.
    - the same with a barrier `per warpgroup`: each warpgroup of the role waits for its own warps only. This orders
      accesses of rows that a warpgroup has to itself: writes of accumulators to a buffer of 64 rows for each warpgroup,
      and copies of the buffer by `tgpu.tma_store` or `tgpu.tma_reduce_add` `per warpgroup`.

    Preconditions: every participant reaches the barrier; none reaches it twice before all have reached it once.

    Postconditions: writes that precede the barrier are visible to all participants (generic proxy).

    Example: `tgpu.sync`, `tgpu.sync on %scores_written`

    Errors:
    - without a barrier, inside a role
    - a barrier that is not the result of `tgpu.named_barrier`
    - a barrier for fewer warps than execute the operation, or `per warpgroup` for others
  }];
  let arguments = (ins Optional<Index>:$barrier);
  // The word keeps the result of the next operation from being read as the operand.
  let assemblyFormat = "(`on` $barrier^)? attr-dict";
  let hasVerifier = 1;
}

def Tgpu_SignalOp : Tgpu_Op<"signal", [Tgpu_Synchronizes<>]> {
  let summary = "arrives at a named barrier without waiting";
  let description = [{
    All warps of the role arrive; those that `tgpu.sync` on the barrier wait for them.

    Preconditions: as for `tgpu.sync`; so no role signals twice before the waiting role has reached the barrier.

    Postconditions: the role's preceding writes are visible to the threads that wait.

    Example: `tgpu.signal %dq_ready`

    Errors:
    - a barrier that is not the result of `tgpu.named_barrier`
    - a barrier for no more warps than execute the operation, so that none would wait
  }];
  let arguments = (ins Index:$barrier);
  let assemblyFormat = "$barrier attr-dict";
  let hasVerifier = 1;
}

def Tgpu_TurnsOp : Tgpu_Op<"turns", [MemoryEffects<[MemAlloc<Tgpu_BarrierState>]>]> {
  let summary = "a token that the warpgroups of a role pass around";
  let description = [{
    The warpgroups of a role run the same code; turns decide whose matrix products are issued first, so that one
    warpgroup computes its softmax while another keeps the matrix unit busy (ping-pong). Turns consist of one named
    barrier for each warpgroup, of 8 warps: the warpgroup that waits and the one that passes. tgpu-plan-shared-memory
    numbers them from `id` on.

    Preconditions: used by one role.

    Postconditions: warpgroup 0 has the turn.

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

class Tgpu_TurnOp<string mnemonic> : Tgpu_Op<mnemonic, [Tgpu_Synchronizes<>]> {
  let arguments = (ins Index:$turns);
  let assemblyFormat = "$turns attr-dict";
  let hasVerifier = 1;
}
def Tgpu_TakeTurnOp : Tgpu_TurnOp<"take_turn"> {
  let summary = "each warpgroup waits until it is its turn";
  let description = [{
    Warpgroup g continues once warpgroup g - 1 has passed its turn on (warpgroup 0 continues at once the first time).

    Preconditions: `tgpu.take_turn` and `tgpu.pass_turn` alternate.

    Postconditions: no other warpgroup is between taking and passing. This orders time only; no memory becomes visible.
    With the discardable attribute `tgpu.keep_place` in a loop, code generation also keeps what precedes before it.

    Example: `tgpu.take_turn %turns`

    Errors:
    - turns that are not the result of `tgpu.turns`
    - a role with another number of warpgroups
  }];
}
def Tgpu_PassTurnOp : Tgpu_TurnOp<"pass_turn"> {
  let summary = "each warpgroup passes its turn on to the next";
  let description = [{
    The last warpgroup passes to the first. The operation does not wait.

    Preconditions, postconditions, errors: those of `tgpu.take_turn`.

    Example: `tgpu.pass_turn %turns`
  }];
}

def Tgpu_FirstRoundOp : Tgpu_Op<"first_round", [Pure]> {
  let summary = "the iteration with which each warpgroup begins a loop";
  let description = [{
    The result is the operand for the warpgroup that executes the operation; operands are in the order of the warpgroups
    of the role. `all` is the first iteration of the loop. From there on, each warpgroup may skip the iterations before
    its own, because they do not change what the loop carries for its rows. tgpu-skip-idle-rounds applies this where the
    result is the lower bound of a loop.

    Preconditions: no operand is below `all`. Postconditions: all threads of a warpgroup have the same result. If the
    warpgroups are executed as one (interpreter, simulator, tgpu-verify-sync), it is the smallest operand.

    Example: `%first = tgpu.first_round %c0 of %r0, %r1, %r2`

    Errors:
    - no operand, or another number of operands than the warpgroups that execute the operation
  }];
  let arguments = (ins I32:$all, Variadic<I32>:$own);
  let results = (outs I32:$first);
  let assemblyFormat = "$all `of` $own attr-dict";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tgpu_FenceAsyncOp : Tgpu_Op<"fence_async", [MemoryEffects<Tgpu_AccessesShared>]> {
  let summary = "makes generic writes to shared memory visible to the async proxy";
  let description = [{
    Needed between ordinary stores to shared memory and accesses to the same memory by wgmma or TMA, on the path of
    barriers from the one to the other. Before the first barrier, each thread that writes executes it:
    tgpu-insert-fences inserts it there. After a barrier, a thread executes it for all writes that it knows of.

    Preconditions: none. Postconditions: the thread, and threads that a barrier orders after its fence, may read by
    wgmma or TMA what the thread had written or knew to be written.

    Example: `tgpu.fence_async`

    Errors:
    - a target other than sm_90a
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Tgpu_AnyOp : Tgpu_Op<"any", [Tgpu_Synchronizes<>]> {
  let summary = "whether any element of a tile of i1 is true, in the whole block or role";
  let description = [{
    A vote of all threads, and thus also a barrier: every thread gets the same result. Inside a role it is a vote of the
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
