// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums in arrays to which all instances of a kernel add.

#ifndef TILEWRIGHT_DIALECT_TILE_TILESUMOPS_TD
#define TILEWRIGHT_DIALECT_TILE_TILESUMOPS_TD

include "dialect/Tile/TileOpBase.td"

def Tile_ContributeOp : Tile_Op<"contribute", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a tile that an instance adds to a sum in memory";
  let description = [{
    `tile.contribute %tile, %sums[..] from %n of %first to %end each SIZE` adds a tile to a workspace of the program, as
    `tile.atomic_add` does. The workspace begins at zero, or a launch before this one fills it with zeros; it has no
    elements in launches that do not need them. A kernel that the program launches later reads the complete sums
    (`tile.complete`). The kernel states what is added; in which order, and who makes results of the sums, is the
    compiler's choice (tile-combine-sums):

    - In any order, atomically. The last bits of the sums may differ from run to run. The launch that reads the sums
      follows.
    - In order: the instances add to a place one after the other, and the first replaces what is there, so the
      workspace needs no zeros. As soon as a sum is complete, the same launch does what the other kernel does with it;
      that kernel is launched only if no instance adds, and then reads an empty workspace.

    For the second form the operation states which instances add to the place. Each of them has SIZE positions along an
    axis: this one those from %n, which is a multiple of SIZE. Together they have the positions from %first to %end
    (exclusive; none if %end is at most %first), and each adds one tile.

    `in order if NAME` names a flag of the kernel, by default false, that is true where instances add in order: other
    parameters may depend on it. Without this clause there is only the first form. The clauses after it are flags over
    parameters, and expressions over the launch:

    - `when (FLAG)`: the second form is possible. The positions must then be exactly those of instances that add.
    - `deterministic when (FLAG)`: the first form is not allowed. `adds_in_order()` in expressions of the program says
      whether the second is possible.
    - `staggered when (FLAG)`: where adjacent positions of a sum begin to get tiles in different instances, as under a
      causal mask, instances that add in order do not wait for each other. `banded when (FLAG)`: and end as well.
    - `packed when (FLAG) rows (N) sequences (N)`: how many rows of sums there are, and in how many sequences. By
      default, there is one, of the rows of the workspace.

    These decide speed alone, by a table.

    Preconditions: the operation is in the body of a kernel, or in a `tile.for_blocks` there, whose blocks are those of
    the sums. %tile has the rows of the sums along its last dimension or its first, given by `dims`, as many as a block.
    SIZE divides %n. Where the tile is added in order, the number of the block of positions comes from
    `tile.any_order`, and that from the first number of the grid.

    Postconditions: the tile has been added before the launch ends.

    Example: a block of keys adds to the gradient of the queries that attend it.
    ```mlir
    tile.contribute %dq, %sums[%b, %h, %m, 0] dims [3, 2] from %n of %first to %end each BLOCK_N
        in order if IN_ORDER deterministic when (DETERMINISTIC)
        : !tile.tile<[D, BLOCK_M], f32>, !tile.view<[?, ?, ?, D], f32>
    ```

    Errors: those of `tile.load` (indices, rank, `dims`, element type), and
    - an element type that is not f32, f64, f16, bf16 or i32
    - a NAME that is not a flag of the kernel with the default `false`
    - a clause that is not a flag over parameters, or a number of rows or sequences that is not an integer over the
      launch
    - a second one in a kernel
    - where instances may add in order: what tile-combine-sums lists
  }];
  let arguments = (ins Tile_AnyTile:$value, Tile_AnyView:$view, Variadic<I32>:$indices,
                       I32:$position, I32:$first, I32:$end, DenseI64ArrayAttr:$static_indices,
                       OptionalAttr<DenseI64ArrayAttr>:$dims, Tile_ExprAttr:$size,
                       OptionalAttr<StrAttr>:$flag, OptionalAttr<Tile_ExprAttr>:$order_condition,
                       OptionalAttr<Tile_ExprAttr>:$deterministic_condition,
                       OptionalAttr<Tile_ExprAttr>:$staggered_condition,
                       OptionalAttr<Tile_ExprAttr>:$banded_condition,
                       OptionalAttr<Tile_ExprAttr>:$packed_condition,
                       OptionalAttr<Tile_ExprAttr>:$rows, OptionalAttr<Tile_ExprAttr>:$sequences);
  let assemblyFormat = [{
    $value `,` $view `` custom<IndexList>($indices, $static_indices) (`dims` $dims^)?
    `from` $position `of` $first `to` $end `each` custom<Expr>($size)
    custom<OrderClauses>($flag, $order_condition, $deterministic_condition, $staggered_condition,
                         $banded_condition, $packed_condition, $rows, $sequences)
    attr-dict `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Tile_CompleteOp : Tile_Op<"complete", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a tile of complete sums";
  let description = [{
    Loads a tile of a workspace to which the instances of an earlier launch have added (`tile.contribute`): those that
    have the positions from %first to %end. If there are none, the tile is zero.

    Preconditions: the kernel has no other effect than to store results of the tile, element by element. Its instances
    store to different places. For additions in order, it has the parameters of the other kernel that it names, with the
    same values, but for the rows of a block. There are none if a launch from that of the other kernel on writes an
    array that it reads, or uses one that it writes.

    Postconditions: elements outside the view are zero.

    Example:
    ```mlir
    %sum = tile.complete %sums[%b, %h, %m, 0] of %first to %end
         : !tile.view<[?, ?, ?, D], f32> -> !tile.tile<[BLOCK_M, D], f32>
    ```

    Errors: those of `tile.load` (indices, rank, element type), and
    - a place other than the body of a kernel
    - a second one in a kernel
  }];
  let arguments = (ins Tile_AnyView:$view, Variadic<I32>:$indices, I32:$first, I32:$end,
                       DenseI64ArrayAttr:$static_indices);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $view `` custom<IndexList>($indices, $static_indices) `of` $first `to` $end attr-dict
    `:` type($view) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_AnyOrderOp : Tile_Op<"any_order", [Pure, AttrSizedOperandSegments]> {
  let summary = "a number that instances may exchange";
  let description = [{
    `tile.any_order %i of %n`: instances that otherwise compute the same have the numbers %i from 0 to %n - 1. The
    results are these numbers in any order, which the compiler chooses (tile-combine-sums). Numbers of %n and more are
    not changed.

    `tile.any_order %i listed %list : type when (FLAG)`: %i is the first number of the grid. The result is %i or
    `%list[%i]`, where the flag holds. A launch before this one fills the list with the numbers of the grid, those of
    instances that take the longest first. If the compiler does not use the list, its workspace is empty, and the launch
    is left out.

    Preconditions: no result of the kernel depends on which instance has which number.

    Postconditions: the results of all instances are a permutation of their numbers.

    Example: `%number = tile.any_order %given of %blocks`

    Errors:
    - neither `of` nor `listed`, or both
    - a list that is not a view of i32 with one dimension
    - with `listed`, a number that is not the first of the kernel's grid
  }];
  let arguments = (ins I32:$number, Optional<I32>:$count, Optional<Tile_AnyView>:$list,
                       OptionalAttr<Tile_ExprAttr>:$condition);
  let results = (outs I32:$result);
  let assemblyFormat = [{
    $number (`of` $count^)? (`listed` $list^ `:` type($list))? custom<WhenClause>($condition)
    attr-dict
  }];
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_DIALECT_TILE_TILESUMOPS_TD
