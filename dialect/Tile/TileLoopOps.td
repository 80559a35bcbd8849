// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops, and the operations that belong to them.

#ifndef TILEWRIGHT_DIALECT_TILE_TILELOOPOPS_TD
#define TILEWRIGHT_DIALECT_TILE_TILELOOPOPS_TD

include "dialect/Tile/TileOpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Tile_ForBlocksOp : Tile_Op<"for_blocks", [
    AttrSizedOperandSegments, SingleBlockImplicitTerminator<"YieldOp">, RecursiveMemoryEffects,
    DeclareOpInterfaceMethods<LoopLikeOpInterface, [
        "getLoopInductionVars", "getInitsMutable", "getRegionIterArgs", "getYieldedValuesMutable",
        "getLoopResults"]>,
    OpAsmOpInterface,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "loop over the blocks that hold a kept pair";
  let description = [{
    Pairs a fixed interval, `against (start to limit)`, with blocks of another, `in (lower to upper)`. The mask tile
    `keep` has type [A, B]: A positions of the fixed interval from `start`, and B of the current block from the
    induction variable. Its element (r, c) is true if `start + r < limit`, `block + c < upper`, and the mask function
    (`where`; absent: true) holds for the pair. In the call of the mask function the words `against` and `block` stand
    for the two positions (i32); other operands are passed unchanged, and their types may be left out if all are i32.

    *By definition the body runs for exactly the blocks in which some element of `keep` is true*, in the stated order
    (`ascending` unless `descending` is given): block starts are lower, lower + B, ... With `descending if %x`, it is
    descending if %x is true when the loop begins. Skipping is thus part of the semantics, and the author writes
    neither bounds nor special cases. A list may give the blocks instead, `in (lower to upper listed list[...] count n
    each E when (CONDITION) : type of the list)`: the loop visits list[..., 0], list[..., 1], ... up to n entries, each
    the number x of E positions that start at `lower + x * E`; numbers outside the interval are skipped. E is an
    expression over parameters, a multiple of B: the blocks of an entry are visited in the order of the loop. Without
    `each` it is B. If the condition, a flag over parameters, does not hold, there is no list.

    If a loop has no list and its body writes to no view, a compiler may start the blocks at a position other than
    `lower`, such as the first that the mask keeps; sums may then be rounded differently.

    `ranges` names a function that tile-analyze-masks derives from the mask function: for a fixed interval it returns
    bounds of the blocks that may contain a kept pair and of the blocks that contain only kept pairs, and whether all of
    the former do contain one.

    Preconditions: the mask function is pure.

    Postconditions: the results are the values yielded by the last block visited, or the initial ones.

    Example:
    ```mlir
    %acc = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
        where @attended(against, block, %shift : i32)
        keep %keep : !tile.tile<[BLOCK_M, BLOCK_N], i1>
        iter_args(%a = %zero : !tile.tile<[BLOCK_M, D], f32>) {
      ...
      tile.yield %a2 : !tile.tile<[BLOCK_M, D], f32>
    }
    ```

    Errors:
    - a `keep` that is not a tile of i1 of rank 2
    - a mask function that is unknown, does not return i1, or takes other operands
    - a `where` clause without `against` or `block`, or with a `when` that is not a flag over parameters
    - a number or type of initial, yielded and result values that differ
    - a list whose rank is not one more than the number of its indices, or not of i32
    - indices, a count, `each` or `when` without a list, or parts of a `where` clause without a mask function
    - an `each` that is not an integer over parameters, or not a multiple of B; a `when` that is not a flag over
      parameters
    - a condition of the order of a loop that is ascending
    - a `ranges` function that does not take four bounds and the mask's operands and return four bounds and a flag
  }];
  let arguments = (ins
    I32:$lower, I32:$upper, I32:$start, I32:$limit,
    Optional<Tile_AnyView>:$list, Variadic<I32>:$list_indices, Optional<I32>:$count,
    Optional<I1>:$order_condition,
    Variadic<Tile_Scalar>:$mask_operands,
    Variadic<AnyType>:$init_args,
    OptionalAttr<FlatSymbolRefAttr>:$mask,
    DefaultValuedAttr<I64Attr, "0">:$against_position,
    DefaultValuedAttr<I64Attr, "1">:$block_position,
    OptionalAttr<FlatSymbolRefAttr>:$ranges,
    OptionalAttr<Tile_ExprAttr>:$mask_condition,
    OptionalAttr<Tile_ExprAttr>:$list_span,
    OptionalAttr<Tile_ExprAttr>:$list_condition,
    DefaultValuedAttr<Tile_BlockOrderAttr,
        "::tilewright::tile::BlockOrder::Ascending">:$order);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::BlockArgument getBlockStart() { return getBody().getArgument(0); }
    ::mlir::BlockArgument getKeep() { return getBody().getArgument(1); }
    void getAsmBlockArgumentNames(::mlir::Region &region,
                                  ::mlir::OpAsmSetValueNameFn setName);
    /// Whether the order is known when the code is compiled, and descending.
    bool isDescending() { return getOrder() == BlockOrder::Descending && !getOrderCondition(); }
    /// How many blocks an entry of the list stands for; parameters are bound.
    int64_t getBlocksOfEntry();
    /// Makes this a loop over the whole interval.
    void dropList();
    /// Makes this a loop that keeps all pairs.
    void dropMask();
    /// Operands of the mask function, with the given values for the two positions.
    llvm::SmallVector<::mlir::Value> getMaskCallOperands(::mlir::Value against,
                                                         ::mlir::Value block);
  }];
}

def Tile_KeptRangeOp : Tile_Op<"kept_range", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the positions that a mask keeps for some position of an interval";
  let description = [{
    `%first, %end = tile.kept_range in (lower to upper) against (start to limit) where @mask(...)`: of the positions c
    with `lower <= c < upper`, the first one that the mask function keeps for some position of the interval `against`,
    and the one after the last. If there is none, %end is at most %first; so it is where one of the intervals is empty.
    The `where` clause is that of `tile.for_blocks`: `block` stands for c, and `against` for a position from `start` to
    `limit`. Without the clause each pair is kept.

    Each position between the limits is kept for some position of `against`: the operation is defined for masks of which
    tile-analyze-masks proves this, for all intervals, when the kernel is compiled (`tight`, see there). So the blocks
    that hold a kept pair can be counted: where blocks take turns, each knows how many precede it.
    tile-analyze-masks replaces the operation by a call of a function that it derives from the mask.

    Preconditions: the mask function is pure.

    Example: the keys that a block of queries attends. The mask takes the query first.
    ```mlir
    %first, %end = tile.kept_range in (%c0 to %keys) against (%m to %m_end)
        where @attends(%b, %h, against, block, %shift)
    ```

    Errors:
    - a mask function that is unknown, does not return i1, or takes other operands
    - a `where` clause without `against` or `block`, or with a `when` that is not a flag over parameters
    - a `when` or operands without a mask function
    - a mask function without a body, or whose limits are not known to be tight, reported by tile-analyze-masks
  }];
  let arguments = (ins
    I32:$lower, I32:$upper, I32:$start, I32:$limit,
    Variadic<Tile_Scalar>:$mask_operands,
    OptionalAttr<FlatSymbolRefAttr>:$mask,
    DefaultValuedAttr<I64Attr, "0">:$against_position,
    DefaultValuedAttr<I64Attr, "1">:$block_position,
    OptionalAttr<Tile_ExprAttr>:$mask_condition);
  let results = (outs I32:$first, I32:$end);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Makes this the range of a mask that keeps all pairs.
    void dropMask();
    /// Operands of the mask function, with the given values for the two positions.
    llvm::SmallVector<::mlir::Value> getMaskCallOperands(::mlir::Value against,
                                                         ::mlir::Value block);
  }];
}

def Tile_SpreadOp : Tile_Op<"spread", [SingleBlockImplicitTerminator<"YieldOp">, OpAsmOpInterface]> {
  let summary = "work of a launch in addition to its instances";
  let description = [{
    The body runs once for each number from 0 to %count - 1, in any order, while instances of the kernel run. An
    instance of the launch may execute any share of the numbers. So a kernel can use what other instances have finished
    (`tile.await`) without a further launch. On a GPU, each thread block executes its share: by a role if the kernel has
    roles, else after its own instance, by all of its warps.

    Preconditions: %count is the same in all instances, and not negative. Instances do not write what the body reads,
    except what the body awaits. The kernel adds what the body awaits before `tile.spread` (`tile.atomic_add`).

    Postconditions: the body has run once for each number, unless the grid is empty.

    Example:
    ```mlir
    tile.spread %m to %blocks {
      tile.await %added of %turns[%m] : !tile.view<[?], i32>
      %sum = tile.load %sums[%m, 0] : !tile.view<[?, D], f32> -> !tile.tile<[BLOCK_M, D], f32>
      %rounded = tile.cast %sum : !tile.tile<[BLOCK_M, D], f32> -> !tile.tile<[BLOCK_M, D], bf16>
      tile.store %rounded, %result[%m, 0] : !tile.tile<[BLOCK_M, D], bf16>, !tile.view<[?, D], bf16>
    }
    ```

    Errors:
    - inside of anything but a kernel
    - an addition in order, inside or after it, to %turns that its body awaits
    - on a GPU: a branch around it; with `tile.await`, a kernel without roles, which a kernel is also if the body does
      more than load a tile, convert it element by element, and store it, under conditions on scalars
  }];
  let arguments = (ins I32:$count);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::BlockArgument getNumber() { return getBody().getArgument(0); }
    void getAsmBlockArgumentNames(::mlir::Region &region, ::mlir::OpAsmSetValueNameFn setName);
  }];
}

def Tile_AccumulateOp : Tile_Op<"accumulate", [SingleBlockImplicitTerminator<"YieldOp">, OpAsmOpInterface]> {
  let summary = "sums over numbers that share a number of the grid";
  let description = [{
    `%a = tile.accumulate %h of %x each %n iter_args(%old = %zero : type)`: for an instance with the number %x in the
    grid, the body runs for each %h from `%x * %n` to `%x * %n + %n - 1`, and adds its terms to each sum, which begins
    at 0. The kernel states what is added; which instance adds it is the compiler's choice (tile-combine-sums):

    - An instance runs the body for all its numbers, in ascending order.
    - An instance runs it for a single number: the grid has %n times as many instances along %x. They add to arrays in
      memory, which begin at zero, and a further launch makes the kernel's results of these.

    The second form has more instances where there are few, and no order: the last bits of its sums may differ from run
    to run. It is possible only where the flag of `apart when`, over parameters, holds (absent: it does).
    `even when` states where the instances of the kernel take about the same time (absent: they need not), which matters
    for this choice alone.

    Preconditions: the body adds to its sums, and does not read them otherwise. %n is the same in all instances, and at
    least 1. The instances store every element of the arrays of the results, since the further launch does. Where
    `apart when` holds, the kernel writes no other memory outside of the body: it would be written once for each term.

    Postconditions: the results are the sums over all numbers, in either form.

    Example: heads of queries that share a head of keys, whose gradient is a sum over them.
    ```mlir
    %dk = tile.accumulate %h of %hk each %heads apart when (not(DETERMINISTIC))
        iter_args(%old = %zero : !dk) {
      %q_tile = tile.load %q[%h, %m, 0] : !view -> !q
      %new = tile.dot %ds, %q_tile, %old : !ds, !q -> !dk
      tile.yield %new : !dk
    }
    ```

    Errors:
    - a number %x that is not one of the kernel's grid, or a place other than the body of a kernel
    - a second one in a kernel
    - no sum, or one that is not a tile of floats, or does not begin as `tile.constant 0`
    - a number or type of initial, yielded and result values that differ
    - an `even when` or `apart when` that is not a flag over parameters
    - a body that reads a sum other than to add to it, reported by tile-combine-sums
  }];
  let arguments = (ins
    I32:$id, I32:$count,
    Variadic<AnyType>:$init_args,
    OptionalAttr<Tile_ExprAttr>:$even_condition,
    OptionalAttr<Tile_ExprAttr>:$apart_condition);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::BlockArgument getNumber() { return getBody().getArgument(0); }
    /// The sums at the start of the body.
    ::llvm::MutableArrayRef<::mlir::BlockArgument> getSums() {
      return getBody().getArguments().drop_front();
    }
    void getAsmBlockArgumentNames(::mlir::Region &region, ::mlir::OpAsmSetValueNameFn setName);
  }];
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ReturnLike,
                                     ParentOneOf<["AccumulateOp", "BranchOp", "ExprOp", "ForBlocksOp", "LoopOp",
                                                  "ResultOp", "SpreadOp", "StoreFormOp", "YieldOp"]>]> {
  let summary = "values for the next block, or of a branch";
  let description = [{
    The operands may be formulas, as those of `tile.result`; tile-link then writes the operations of these in their
    place. Types may be left out if the formulas tell them.

    Preconditions: none. Postconditions: none.

    Examples:
    ```mlir
    tile.yield %acc : !tile.tile<[M, D], f32>
    tile.yield max(%max, reduce max(%x, 1)), dot(%p, %v_tile, %acc)
    ```

    Errors: those of `tile.expr` and of the enclosing loop or branch
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  /// One if operands are formulas: it yields them; there are no values then.
  let regions = (region VariadicRegion<SizedRegion<1>>:$formulas);
  let skipDefaultBuilders = 1;
  let builders = [
    OpBuilder<(ins), [{ /* a loop that carries nothing */ }]>,
    OpBuilder<(ins "::mlir::ValueRange":$values), [{ $_state.addOperands(values); }]>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Of the values, or of what the formulas yield.
    ::mlir::TypeRange getYieldedTypes();
  }];
}

#endif // TILEWRIGHT_DIALECT_TILE_TILELOOPOPS_TD
