// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel, its roles and its shared memory.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUKERNELOPS_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUKERNELOPS_TD

include "dialect/Tgpu/TgpuOpBase.td"

def Tgpu_KernelOp : Tgpu_Op<"kernel", [
    IsolatedFromAbove, Symbol, SingleBlock, NoTerminator, HasParent<"::mlir::ModuleOp">,
    OpAsmOpInterface, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one thread block of a grid";
  let description = [{
    Arguments, constraints (`require`) and grid as those of the `tile.kernel` it comes from; parameters are bound, and
    `bindings` records them. `target` is the architecture; `warps` the size of the block; `shared_bytes` the planned
    shared memory, in which all planned buffers, rings and mbarriers lie.

    Preconditions: registers and shared memory of the block fit the target.

    Postconditions: those of the tile kernel.

    Example:
    ```mlir
    tgpu.kernel @copy target "sm_80" warps 4 require(dim(x, 0) >= 1) (%x: !tile.view<[?], f32>)
        grid(%b = ceildiv(dim(x, 0), 1024)) {
      ...
    }
    ```

    Errors:
    - an unknown target
    - a number of warps outside 1 to 32
    - an argument that is neither a view nor a scalar, or an optional scalar
    - two arguments or grid ids of one name, or a name that is not an identifier
    - a constraint that is not a condition, or that reads neither an argument nor the shape of a capture
    - a default that is not a value of its argument's type
    - a grid without extents, or one that reads anything but arguments: bind parameters first
    - more than 15 named barriers (`tgpu.turns` takes one for each warpgroup)
    - shared memory below 0 bytes, or beyond what a block of the target has
    - a planned buffer, ring or mbarrier that ends beyond the shared memory of the kernel, or of the target
    - two of them that overlap, unless both are a `tgpu.alloc shared`
    - two declarations of one hardware barrier, unless both are a `tgpu.named_barrier` for the same number of warps, not
      per warpgroup
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name, StrAttr:$target, I64Attr:$warps,
    ArrayAttr:$arg_names, DenseBoolArrayAttr:$arg_optional,
    ArrayAttr:$grid_names, ArrayAttr:$grid,
    OptionalAttr<ArrayAttr>:$constraints,
    OptionalAttr<DictionaryAttr>:$arg_defaults,
    OptionalAttr<DictionaryAttr>:$bindings,
    OptionalAttr<I64Attr>:$shared_bytes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumArgs() { return getArgNames().size(); }
    /// What a launch takes, without parameters.
    ::tilewright::tile::Signature getSignature();
    ::mlir::Block::BlockArgListType getArgs() {
      return getBody().getArguments().take_front(getNumArgs());
    }
    ::mlir::Block::BlockArgListType getGridIds() {
      return getBody().getArguments().drop_front(getNumArgs());
    }
    void getAsmBlockArgumentNames(::mlir::Region &region, ::mlir::OpAsmSetValueNameFn setName);
    static llvm::StringRef getDefaultDialect() { return ""; }
  }];
}

def Tgpu_RolesOp : Tgpu_Op<"roles", [HasParent<"KernelOp">, NoRegionArguments, NoTerminator]> {
  let summary = "concurrent roles of the warps of a block";
  let description = [{
    There is one region for each role; the warps of the block are assigned to the roles in order. `registers` is the
    number of registers that each thread of the role may use (without it: as at entry). The machine sets it for whole
    warpgroups, so roles that share a warpgroup ask for the same number. All roles end before the operations that
    follow.

    Values from outside may be used inside; scalar code outside is executed by every role.

    Preconditions: barriers are initialized and visible before.

    Postconditions: asynchronous work of a role is complete only if the role has waited for it.

    Example:
    ```mlir
    tgpu.roles
      role "load" warps 1 registers 24 { ... }
      role "reduce" warps 3 registers 24 { ... }
      role "compute" warps 8 registers 240 { ... }
    ```

    Errors:
    - roles whose warps do not add up to the kernel's
    - two roles of one name
    - a number of registers that is not a multiple of 8 from 24 to 240
    - roles of one warpgroup (four warps of the block, from a multiple of four) with different registers, or registers
      for a part of one
    - registers on a target other than sm_90a
    - more registers in all than 65536
  }];
  let arguments = (ins ArrayAttr:$names, DenseI64ArrayAttr:$warps, DenseI64ArrayAttr:$registers);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tgpu_GridExtentOp : Tgpu_Op<"grid_extent", [Pure]> {
  let summary = "how many blocks the grid has along a dimension";
  let description = [{
    This is the step of a persistent loop, whose grid is `sm_count()`.

    Preconditions: inside a kernel. Postconditions: the result is the value of that expression of the grid.

    Example: `%blocks = tgpu.grid_extent 0 : i32`

    Errors:
    - a position beyond the grid of the kernel
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs I32:$result);
  let assemblyFormat = "custom<Int>($dim) attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tgpu_ShareOp : Tgpu_Op<"share", [Pure]> {
  let summary = "the share of a block in the numbers below a count";
  let description = [{
    These are %first, %first + %step and so on, below %count: each number from 0 to %count - 1 belongs to exactly one
    block of the grid. On a GPU, block i of n begins at i, with the step n.

    Preconditions: inside a kernel whose grid has one dimension. Postconditions: %step is positive.

    Example: `%first, %step = tgpu.share of %count`

    Errors:
    - a kernel whose grid has other than one dimension
  }];
  let arguments = (ins I32:$count);
  let results = (outs I32:$first, I32:$step);
  let assemblyFormat = "`of` $count attr-dict";
  let hasVerifier = 1;
}

def Tgpu_TakeTileOp : Tgpu_Op<"take_tile", [MemoryEffects<Tgpu_AccessesGlobal>]> {
  let summary = "the next tile of a launch that no block has taken yet";
  let description = [{
    A block that processes several tiles begins with the tile of its own number; it takes each further tile from a
    counter that belongs to the launch, so blocks that finish early take more. If no tile is left, the result is at
    least `tiles`, and the block must not take another. One thread takes the tile and writes its number to the buffer,
    if there is one; other roles read it there (`tgpu.get_tile`).

    With `all`, a block also takes its first tile from the counter: every tile with a smaller number has then been taken
    by a running block, regardless of the order in which blocks start.

    Preconditions: inside a role, once for each tile of the block (with `all`, and once before the first), until no tile
    is left. Every read of the buffer is complete.

    Postconditions: every tile from the number of blocks on (with `all`, from 0 on) is taken by exactly one block. Other
    roles see the buffer after a barrier.

    Example: `%next = tgpu.take_tile of %tiles into %slot : !tgpu.shared<4xi32, none>`

    Errors:
    - outside of roles
    - a buffer that is not of four i32
  }];
  let arguments = (ins I32:$tiles, UnitAttr:$all,
                       Arg<Optional<Tgpu_Shared>, "", Tgpu_WritesShared>:$buffer);
  let results = (outs I32:$tile);
  let assemblyFormat = "`of` $tiles (`all` $all^)? (`into` $buffer^ `:` type($buffer))? attr-dict";
  let hasVerifier = 1;
}

def Tgpu_PublishOp : Tgpu_Op<"publish"> {
  let summary = "numbers of one role for others";
  let description = [{
    One thread writes the numbers to the first words of the buffer, from which other roles receive them
    (`tgpu.receive`): they need not repeat what one role has computed for a tile.

    Preconditions: inside a role; a barrier orders the operation after all reads of the buffer. Postconditions: other
    roles see the numbers after a barrier.

    Example: `tgpu.publish %tile, %row to %slot : !tgpu.shared<4xi32, none>`

    Errors:
    - outside of roles
    - a buffer that is not of rank 1 and i32, or has fewer words than there are numbers
  }];
  let arguments = (ins Variadic<I32>:$values, Arg<Tgpu_Shared, "", Tgpu_WritesShared>:$buffer);
  let assemblyFormat = "$values `to` $buffer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Tgpu_ReceiveOp : Tgpu_Op<"receive"> {
  let summary = "numbers that another role has published";
  let description = [{
    Every thread reads the first words of the buffer, one for each result.

    Preconditions: a barrier orders the operation after a `tgpu.publish` of at least as many numbers. Postconditions:
    the buffer may be overwritten after a barrier that all reading warps have reached.

    Example: `%tile, %row = tgpu.receive %slot : !tgpu.shared<4xi32, none> -> i32, i32`

    Errors:
    - no result
    - a buffer that is not of rank 1 and i32, or has fewer words than there are results
  }];
  let arguments = (ins Arg<Tgpu_Shared, "", Tgpu_ReadsShared>:$buffer);
  let results = (outs Variadic<I32>:$values);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($values)";
  let hasVerifier = 1;
}

def Tgpu_GetTileOp : Tgpu_Op<"get_tile"> {
  let summary = "the number of a tile that another role has taken";
  let description = [{
    Every thread reads the number that `tgpu.take_tile` wrote to the buffer.

    Preconditions: a barrier orders the operation after the write. Postconditions: the buffer may be overwritten after a
    barrier that all reading warps have reached.

    Example: `%next = tgpu.get_tile %slot : !tgpu.shared<4xi32, none>`

    Errors:
    - a buffer that is not of four i32
  }];
  let arguments = (ins Arg<Tgpu_Shared, "", Tgpu_ReadsShared>:$buffer);
  let results = (outs I32:$tile);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Tgpu_AllocOp : Tgpu_Op<"alloc", [MemoryEffects<[MemAlloc<Tgpu_SharedMemory>]>]> {
  let summary = "a buffer in shared memory";
  let description = [{
    The buffer lives as long as its uses. tgpu-plan-shared-memory gives it an `offset` (printed as `at`), and may let
    buffers whose lifetimes do not overlap share bytes: such buffers are `shared`. tgpu-verify-sync and the simulator
    check that no access meets the contents of the other buffer.

    Preconditions: none. Postconditions: the contents are undefined until written.

    Examples:
    ```mlir
    %q_buffer = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
    %o_buffer = tgpu.alloc shared at 1024 : !tgpu.shared<128x64xbf16, b128>
    ```

    Errors:
    - a planned offset that the swizzle does not allow (1024, 512, 256 bytes; without, what TMA asks: 128, or 16 for
      rank 1)
    - a planned offset at which the buffer ends beyond 232448 bytes
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset, UnitAttr:$shared);
  let results = (outs Tgpu_Shared:$buffer);
  let assemblyFormat = "(`shared` $shared^)? (`at` $offset^)? attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Tgpu_AllocRingOp : Tgpu_Op<"alloc_ring", [MemoryEffects<[MemAlloc<Tgpu_SharedMemory>]>]> {
  let summary = "a ring of buffers in shared memory";
  let description = [{
    The buffers are contiguous, except that each starts at a multiple of its alignment.

    Preconditions, postconditions: those of `tgpu.alloc`.

    Example: `%k_ring = tgpu.alloc_ring : !tgpu.ring<3, <128x64xbf16, b128>>`

    Errors: those of `tgpu.alloc`
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Tgpu_Ring:$ring);
  let assemblyFormat = "(`at` $offset^)? attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def Tgpu_SlotOp : Tgpu_Op<"slot", [Pure]> {
  let summary = "the buffer of a ring that belongs to a use";
  let description = [{
    The result is buffer `use` mod stages. With `as`, the bytes of that buffer, from its start, are taken as a buffer of
    another type.

    Preconditions: use >= 0. Postconditions: none; the barriers of the ring tell when the contents are valid.

    Examples:
    ```mlir
    %k = tgpu.slot %k_ring[%n] : !tgpu.ring<3, <128x64xbf16, b128>>
    %out = tgpu.slot %ds_ring[%c0]
        : !tgpu.ring<2, <128x128xbf16, b128>> as !tgpu.shared<128x64xbf16, b128>
    ```

    Errors:
    - a result that has more bytes than the ring's buffer, or a greater alignment
  }];
  let arguments = (ins Tgpu_Ring:$ring, I32:$use);
  let results = (outs Tgpu_Shared:$buffer);
  let assemblyFormat = "$ring `[` $use `]` attr-dict `:` custom<SlotType>(type($ring), type($buffer))";
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUKERNELOPS_TD
