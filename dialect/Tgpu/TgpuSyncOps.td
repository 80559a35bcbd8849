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

    Example: `%k_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<3>`

    Errors:
    - a number of arrivals below 1
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

    Preconditions: no thread is more than one phase ahead or behind.

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
    threads it stands for have converged first.

    Postconditions: what they did before is visible to whoever waits.

    Example: `tgpu.arrive %k_empty[%n] per warp : !tgpu.barriers<3>`
  }];
  let arguments = (ins Tgpu_Barriers:$barriers, I32:$use, Tgpu_ArriveScopeAttr:$per);
  let assemblyFormat = "$barriers `[` $use `]` `per` $per attr-dict `:` type($barriers)";
}

def Tgpu_ExpectOp : Tgpu_Op<"expect", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "arrives and announces bytes that asynchronous copies will bring";
  let description = [{
    One arrival by one thread of the role.

    Example: `tgpu.expect %k_full[%n] bytes 16384 : !tgpu.barriers<3>`

    Errors:
    - a number of bytes below 1, or beyond 2^20 - 1
  }];
  let arguments = (ins Tgpu_Barriers:$barriers, I32:$use, I64Attr:$bytes);
  let assemblyFormat =
      "$barriers `[` $use `]` `bytes` custom<Int>($bytes) attr-dict `:` type($barriers)";
  let hasVerifier = 1;
}

def Tgpu_NamedBarrierOp : Tgpu_Op<"named_barrier", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a hardware barrier for some warps of the block";
  let description = [{
    At most 15 of a block's 16; tgpu-plan-shared-memory numbers them. `warps` is how many take part, those that only
    arrive included.

    Example: `%turn = tgpu.named_barrier warps 8 : index`

    Errors:
    - a number of warps outside 1 to 32
  }];
  let arguments = (ins I64Attr:$warps, OptionalAttr<I64Attr>:$id);
  let results = (outs Index:$barrier);
  let assemblyFormat = "`warps` custom<Int>($warps) (`id` $id^)? attr-dict `:` type($barrier)";
  let hasVerifier = 1;
}

def Tgpu_SyncOp : Tgpu_Op<"sync", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits at a named barrier, or for all threads of the block";
  let description = [{
    Postconditions: what the participants wrote before is visible to them all (generic proxy).

    Example: `tgpu.sync`, `tgpu.sync %turn`
  }];
  let arguments = (ins Optional<Index>:$barrier);
  let assemblyFormat = "($barrier^)? attr-dict";
}

def Tgpu_SignalOp : Tgpu_Op<"signal", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "arrives at a named barrier without waiting";
  let description = "Example: `tgpu.signal %turn`";
  let arguments = (ins Index:$barrier);
  let assemblyFormat = "$barrier attr-dict";
}

def Tgpu_FenceAsyncOp : Tgpu_Op<"fence_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "makes generic writes to shared memory visible to the async proxy";
  let description = [{
    Needed between ordinary stores to shared memory and their reading by wgmma or TMA, in each writing
    thread, before the barrier. tgpu-insert-fences places it.

    Example: `tgpu.fence_async`
  }];
  let assemblyFormat = "attr-dict";
}

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUSYNCOPS_TD
