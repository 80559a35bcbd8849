// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations on views and between views and tiles.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEMEMORYOPS_TD
#define TILEWRIGHT_DIALECT_TILE_TILEMEMORYOPS_TD

include "dialect/Tile/TileOpBase.td"

def Tile_AtOp : Tile_Op<"at", [
    AttrSizedOperandSegments, AlwaysSpeculatable, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one element of a view or of a capture";
  let description = [{
    Reads a scalar. The source is a view or a captured symbol; the assembly format has the type of the view, or the
    element type of the capture. A captured scalar takes no indices. The result is zero outside the bounds, including at
    negative indices.

    Preconditions: none.

    Postconditions: reading a capture has no side effect.

    Example: `%slope = tile.at @slopes[%h] : f32`, `%start = tile.at %cu_seqlens[%b]
    : !tile.view<[?], i32>`

    Errors:
    - a number of indices that differs from the rank, or an index that is not an i32
    - a result type that is not the element type
    - a symbol that is not a `tile.capture`
    - both or neither of a view and a symbol
  }];
  let arguments = (ins OptionalAttr<FlatSymbolRefAttr>:$capture, Optional<Tile_AnyView>:$view,
                       Variadic<I32>:$indices, DenseI64ArrayAttr:$static_indices);
  let results = (outs Tile_Scalar:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_SubviewOp : Tile_Op<"subview", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "a view restricted along one dimension";
  let description = [{
    Elements `offset .. offset + size - 1` along `dim`; index 0 of the result is index `offset` of the source. The
    bounds of the result are the intersection with those of the source: a load beyond `size` reads the pad, even where
    the source has more elements.

    If the condition of `when`, a flag over parameters, does not hold, the result is the whole source: a kernel for
    sequences in one array needs no other code for arrays of one sequence. tile-link turns it into a choice of views.

    Several views may be restricted alike, each to a view of its own: see `tile.subviews`. Types may be left out.

    Preconditions: offset >= 0; size may be negative, which counts as zero.

    Postconditions: the result has the same strides; dimension `dim` of its type is `?`.

    Examples:
    ```mlir
    %rows = tile.subview %q dim 0 from %start size %length : !tile.view<[?, ?, D], T>
    %part = tile.subview %q dim 2 from %start size %length when (PACKED)
        : !tile.view<[?, ?, ?, D], T>
    %k_part, %v_part = tile.subview %k, %v dim 2 from %start size %length
    ```

    Errors:
    - a dimension beyond the rank
    - a restricted dimension whose type is not `?`
    - a condition that is not a flag, or that reads an argument or the device
  }];
  let arguments = (ins Tile_AnyView:$source, I64Attr:$dim, I32:$offset, I32:$size,
                       OptionalAttr<Tile_ExprAttr>:$condition);
  let results = (outs Tile_AnyView:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_SubviewsOp : Tile_Op<"subviews", [Pure]> {
  let summary = "several views, restricted alike";
  let description = [{
    What `tile.subview` of several views is read as. It stands for a `tile.subview` of each (tile-link), and is printed
    as it was written, as `tile.subview`.

    Preconditions, postconditions: those of `tile.subview`.

    Example: `%k_part, %v_part = tile.subview %k, %v dim 2 from %start size %length when (PACKED)`

    Errors:
    - those of `tile.subview`
    - a number or type of results that is not that of the views
  }];
  let arguments = (ins Variadic<Tile_AnyView>:$sources, I64Attr:$dim, I32:$offset, I32:$size,
                       OptionalAttr<Tile_ExprAttr>:$condition);
  let results = (outs Variadic<Tile_AnyView>:$results);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static ::mlir::OperationName::PrintAssemblyFn getPrintAssemblyFn();
  }];
}

def Tile_PagedOp : Tile_Op<"paged", [Pure, AttrSizedOperandSegments]> {
  let summary = "a view whose rows lie in pages";
  let description = [{
    The rows of one sequence in a pool of pages, `pool` [pages, rows of a page, ...]. Row j of the result is row
    j mod R of page `table[..., j / R]`, where R is the extent of dimension 1 of the pool; without a table it is row j
    of page `page`, so that rows in one piece are a page for each sequence. Dimensions 0 and 1 of the pool become
    dimension 0 of the result, and the others follow. A load reads the pad, without access to memory, in rows from
    `size` on, rows that have no page (a page number outside the pool, the end of the table or of page `page`), and
    outside the other extents.

    `each` is an expression over parameters, a number of rows that divides R: a copy may then take as many rows at once.
    If the condition of `when`, a flag over parameters, does not hold, there is no table.

    Preconditions: size may be negative, which counts as zero. R is a multiple of `each`; in programs, state it by
    `require`. With a table, a load begins at a row that is a multiple of `each`, or of the greatest common divisor of
    `each` and its number of rows (the CPU device reports other rows). The kernel does not write to the pool or the
    table.

    Postconditions: only `tile.load`, along dimension 0, and `tile.dim` may use the result. Its extent along dimension 0
    is `size`, at least 0.

    Example:
    ```mlir
    %k = tile.paged %k_pages page %b by %block_table[%b] each PAGE_ROWS
        when (PAGE_ROWS > 0) size %keys
       : !tile.view<[?, ?, ?, D], T>, !tile.view<[?, ?], i32> -> !tile.view<[?, ?, D], T>
    ```

    Errors:
    - a pool of rank 1, or a result that is not the pool with dimensions 0 and 1 replaced by one that is `?`
    - a table whose rank is not one more than the number of its indices, or not of i32
    - indices, `each` or `when` without a table, or a table without `each`
    - an `each` that is not an integer of at least 1 over parameters; a `when` that is not a flag over parameters
    - another use than `tile.load` along dimension 0, or `tile.dim`
    - on a GPU: a load that is no operand of a product
  }];
  let arguments = (ins Tile_AnyView:$pool, I32:$page, Optional<Tile_AnyView>:$table,
                       Variadic<I32>:$table_indices, OptionalAttr<Tile_ExprAttr>:$each,
                       OptionalAttr<Tile_ExprAttr>:$condition, I32:$size);
  let results = (outs Tile_AnyView:$result);
  let assemblyFormat = [{
    $pool `page` $page (`by` $table^ `[` $table_indices `]` `each` custom<Expr>($each)
    custom<WhenClause>($condition))? `size` $size attr-dict
    `:` type($pool) (`,` type($table)^)? `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Makes each sequence one page.
    void dropTable();
    /// How many consecutive rows are known to lie in one page; 0: all. Parameters are bound.
    int64_t getRowsTogether();
  }];
}

def Tile_CapturedOp : Tile_Op<"captured", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a captured view as a value";
  let description = [{
    Makes a captured view available to operations that take a view; `tile.at` reads single elements without it.

    Preconditions: nothing writes through the result.

    Postconditions: none.

    Example: `%bias = tile.captured @bias : !tile.view<[?, ?, ?, ?], bf16>`

    Errors:
    - a symbol that is not a `tile.capture` of a view
    - a result of another type than the capture
  }];
  let arguments = (ins FlatSymbolRefAttr:$capture);
  let results = (outs Tile_AnyView:$result);
  let assemblyFormat = "$capture attr-dict `:` type($result)";
}

def Tile_RepeatOp : Tile_Op<"repeat", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "a view that has one element for every index along a dimension";
  let description = [{
    If `condition` is true, every index from 0 on along `dim` stands for the element at `at`; an element outside the
    view stays outside. If it is false, the result is the source. An array with an extent of 1, for data that is the
    same along a dimension, can thus be read as an array that has the whole dimension.

    Preconditions: where the condition is true, indices along `dim` are below 2^31 - 1, and no operation writes the same
    element twice unless it adds.

    Postconditions: `tile.dim` along `dim` is 2^31 - 1 where the condition is true and the element lies in the view, and
    0 where it does not.

    Example: `%rows = tile.repeat %bias dim 2 at %c0 when %is_same : !tile.view<[?, ?, ?, ?], bf16>`

    Errors:
    - a dimension beyond the rank
    - a repeated dimension whose type is not `?`
  }];
  let arguments = (ins Tile_AnyView:$source, I64Attr:$dim, I32:$at, I1:$condition);
  let results = (outs Tile_AnyView:$result);
  let assemblyFormat =
      "$source `dim` custom<Int>($dim) `at` $at `when` $condition attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_DimOp : Tile_Op<"dim", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "an extent of a view or of a capture";
  let description = [{
    Zero for an optional argument that was left out.

    Preconditions: none. Postconditions: the result is not negative.

    Example: `%rows = tile.dim %q, 2 : !tile.view<[?, ?, ?, D], T>`, `%heads = tile.dim @slopes, 0`

    Errors:
    - a dimension beyond the rank
    - a symbol that is not a `tile.capture` of a view
    - both or neither of a view and a symbol
  }];
  let arguments = (ins OptionalAttr<FlatSymbolRefAttr>:$capture, Optional<Tile_AnyView>:$view,
                       I64Attr:$dim);
  let results = (outs I32:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$view, "int64_t":$dim), [{
    build($_builder, $_state, result, ::mlir::FlatSymbolRefAttr(), view, dim);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_LoadOp : Tile_Op<"load", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
                                   AttrSizedOperandSegments]> {
  let summary = "a tile from a view";
  let description = [{
    The tile starts at the given indices, one for each dimension of the view. Its dimensions run along
    the last dimensions of the view, or along those that `dims` lists (one for each dimension of the tile, in
    the tile's order, which allows a transposed load). Elements outside the view are `pad` (default zero).

    Preconditions: no operation of the launch writes these elements, except a store of the same program instance that
    uses the loaded tile; so a load may be moved before any store. Indices may lie outside.

    Postconditions: element (i, ...) is view[index + i, ...] or the pad.

    Example:
    ```mlir
    %q = tile.load %query[%b, %h, %row, 0]
        : !tile.view<[?, ?, ?, D], T> -> !tile.tile<[BLOCK_M, D], T>
    %g = tile.load %query[%b, %h, %row, 0] dims [2, 1, 3] pad %one : ...
    ```

    Errors:
    - a number of indices that differs from the rank of the view, or an index that is not an i32
    - a tile of higher rank than the view
    - `dims` of another length than the rank of the tile, out of range or repeated
    - an element type that differs from the view's
    - a pad of another type than the elements
  }];
  let arguments = (ins Tile_AnyView:$view, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices,
                       OptionalAttr<DenseI64ArrayAttr>:$dims, Optional<Tile_Scalar>:$pad);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $view `` custom<IndexList>($indices, $static_indices) (`dims` $dims^)?
    (`pad` $pad^ `:` type($pad) `in`)? attr-dict `:` type($view) `->` type($result)
  }];
  let hasVerifier = 1;
}

class Tile_WriteOp<string mnemonic> : Tile_Op<mnemonic, [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let arguments = (ins Tile_AnyTile:$value, Tile_AnyView:$view, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices,
                       OptionalAttr<DenseI64ArrayAttr>:$dims);
  let assemblyFormat = [{
    $value `,` $view `` custom<IndexList>($indices, $static_indices) (`dims` $dims^)?
    attr-dict `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_WriteOp<"store"> {
  let summary = "a tile into a view";
  let description = [{
    The converse of `tile.load`. Elements outside the view are dropped.

    Preconditions: no other program instance of the launch writes or reads the same elements.

    Postconditions: view[index + i, ...] is element (i, ...) wherever that lies inside.

    The tile and the indices may be formulas, as those of `tile.expr`: see `tile.store_form`. The type of the view may
    be left out.

    Examples:
    ```mlir
    tile.store %o, %out[%b, %h, %row, 0] : !tile.tile<[BLOCK_M, D], T>, !tile.view<[?, ?, ?, D], T>
    tile.store cast(%sum * full(%scale)), %out[%b, %h, %row, 0] : !tile.tile<[BLOCK_M, D], T>
    ```

    Errors: those of `tile.load` (indices, rank, `dims`, element type)
  }];
  let assemblyFormat = ?;
  let hasCustomAssemblyFormat = 1;
}

def Tile_AwaitOp : Tile_Op<"await"> {
  let summary = "waits for additions in order";
  let description = [{
    Waits until the counter at that place of %turns is %number. Then the instances have added %number tiles there, in
    order (`tile.atomic_add`), and their sum may be read.

    Preconditions: inside of `tile.spread`, so that no instance waits; before it, the kernel adds at least as many
    tiles.

    Postconditions: the sum of these tiles is complete.

    Example: `tile.await %added of %turns[%b, %h, %m] : !tile.view<[?, ?, ?], i32>`

    Errors:
    - turns that are not i32, or another number of indices than their rank
    - outside of `tile.spread`
    - when it runs: a number that the counter cannot reach any more, since all other instances have ended
  }];
  let arguments = (ins I32:$number, Tile_AnyView:$turns, Variadic<I32>:$indices, DenseI64ArrayAttr:$static_indices);
  let assemblyFormat = [{
    $number `of` $turns `` custom<IndexList>($indices, $static_indices) attr-dict `:` type($turns)
  }];
  let hasVerifier = 1;
}

def Tile_AtomicAddOp : Tile_Op<"atomic_add", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a tile added to a view, atomically element by element";
  let description = [{
    Program instances may add to the same elements; the order is not defined, so sums of floats may
    differ from run to run in their last bits.

    `in order of %n by %turns[..]` defines it: the tile is added when the counter at that place of %turns is %n, and the
    counter is n + 1 when the sum is complete. So the same numbers give the same bits in each run. Tile 0 replaces what
    the view holds, so that elements to which tiles are added need no initial value.

    Preconditions: elements are not otherwise accessed in the launch. In order: the counters are 0 when the launch
    begins, and nothing else accesses them; at each place the numbers are 0, 1, 2, ...; additions to one element that
    have different orders use different places; instances that add at one place differ in the first id only, and the
    numbers grow with it.

    Postconditions: every element inside has been increased; in order, it is the sum of the tiles.

    Example: `tile.atomic_add %dq, %acc[%b, %h, %row, 0]
    : !tile.tile<[M, D], f32>, !tile.view<[?, ?, ?, D], f32>`

    Example:
    ```mlir
    tile.atomic_add %dq, %acc[%b, %row, 0] in order of %n by %turns[%b, %m]
         : !tile.tile<[M, D], f32>, !tile.view<[?, ?, D], f32>, !tile.view<[?, ?], i32>
    ```

    Errors: those of `tile.load` (indices, rank, `dims`, element type), and
    - an element type that is not f32, f64, f16, bf16 or i32
    - turns that are not i32, or another number of their indices than their rank
    - in order, inside or after a `tile.spread` that awaits the same %turns
    - when it runs: a turn that cannot come any more, since all instances before this one have ended
    - on a GPU: in order, where no role of its own can make the addition (`tgpu.await_turn`)
  }];
  let arguments = (ins Tile_AnyTile:$value, Tile_AnyView:$view, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices, OptionalAttr<DenseI64ArrayAttr>:$dims,
                       Optional<I32>:$number, Optional<Tile_AnyView>:$turns,
                       Variadic<I32>:$turn_indices,
                       OptionalAttr<DenseI64ArrayAttr>:$static_turn_indices);
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$view,
                                 "::mlir::ValueRange":$indices,
                                 "::mlir::DenseI64ArrayAttr":$static_indices,
                                 "::mlir::DenseI64ArrayAttr":$dims), [{
    build($_builder, $_state, value, view, indices, static_indices, dims, ::mlir::Value(),
          ::mlir::Value(), ::mlir::ValueRange(), ::mlir::DenseI64ArrayAttr());
  }]>];
  let assemblyFormat = [{
    $value `,` $view `` custom<IndexList>($indices, $static_indices) (`dims` $dims^)?
    (`in` `order` `of` $number^ `by` $turns ``
     custom<IndexList>($turn_indices, $static_turn_indices))?
    attr-dict `:` type($value) `,` type($view) (`,` type($turns)^)?
  }];
  let hasVerifier = 1;
}

def Tile_GatherOp : Tile_Op<"gather", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a tile from a view, indexed along one dimension by a tile of indices";
  let description = [{
    As `tile.load`, but element (.., i, ..) is read at `index + at[i]` along dimension `along` of the view.
    An index outside the view reads zero.

    Preconditions: none. Postconditions: as for `tile.load`.

    Example:
    ```mlir
    %k = tile.gather %pages[0, %h, 0] dims [0, 2] along 0 at %rows
       : !tile.view<[?, ?, D], T>, !tile.tile<[N], i32> -> !tile.tile<[N, D], T>
    ```
    Here the tile has rank 2 and the view rank 3: `dims [0, 2]` lists the dimensions that the tile runs along.

    Errors: those of `tile.load` (indices, rank, `dims`, element type), and
    - an index tile that is not of rank 1, i32, and as long as the tile's dimension along `along`
    - `along` that is not one of the dimensions the tile runs along
  }];
  let arguments = (ins Tile_AnyView:$view, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices, OptionalAttr<DenseI64ArrayAttr>:$dims,
                       I64Attr:$along, Tile_AnyTile:$at);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $view `` custom<IndexList>($indices, $static_indices) (`dims` $dims^)?
    `along` custom<Int>($along) `at` $at attr-dict
    `:` type($view) `,` type($at) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_ScatterAddOp : Tile_Op<"scatter_add", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a tile added to a view, indexed along one dimension by a tile of indices";
  let description = [{
    The converse of `tile.gather`; adds atomically, as `tile.atomic_add`. An index outside is dropped; an index
    that occurs twice adds twice.

    Preconditions, postconditions: those of `tile.atomic_add`.

    Example:
    ```mlir
    tile.scatter_add %ds, %dtable[%h, 0] along 1 at %distance
       : !tile.tile<[N], f32>, !tile.view<[?, ?], f32>, !tile.tile<[N], i32>
    ```

    Errors: those of `tile.gather` and of `tile.atomic_add`
  }];
  let arguments = (ins Tile_AnyTile:$value, Tile_AnyView:$view, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices, OptionalAttr<DenseI64ArrayAttr>:$dims,
                       I64Attr:$along, Tile_AnyTile:$at);
  let assemblyFormat = [{
    $value `,` $view `` custom<IndexList>($indices, $static_indices) (`dims` $dims^)?
    `along` custom<Int>($along) `at` $at attr-dict
    `:` type($value) `,` type($view) `,` type($at)
  }];
  let hasVerifier = 1;
}

def Tile_AddAtOp : Tile_Op<"add_at", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "the elements of a tile added to a view, each at indices of its own";
  let description = [{
    The converse of a `tile.at` that `tile.map` applies: each element of the value is added, atomically, at the indices
    that the index tiles hold at the same place. An index is a tile of the value's shape, or a scalar, which applies to
    every element; if all indices are scalars, the elements are summed first. Elements whose indices are outside the
    view are dropped.

    With `exact`, the view has one more dimension, of 13 `i64`: the digits (24 bits each, of weight 2^(24 k - 149), k
    from 0 to 11) of a sum of f32, and bits for NaN (1), infinity (2) and minus infinity (4). Integers are added, so the
    sum does not depend on the order. An f64 is added as its
    three leading f32; the remainder, and what is beyond their range, is lost.

    Preconditions: elements are not otherwise accessed in the launch. With `exact`, fewer than 2^39
    additions to one sum.

    Postconditions: every sum inside has been increased.

    Example: `tile.add_at %dt, %d_table[%h, %columns] : !s, !tile.view<[?, ?], f32>, (i32, !pos)`

    Errors:
    - a number of indices that differs from the rank of the view (less one with `exact`)
    - an index that is not an i32, or a tile of another shape than the value
    - elements of value and view that differ, or that are not floats
    - `exact` with a view whose elements are not i64 or whose last extent is not 13, or with a value
      that is neither f32 nor f64
  }];
  let arguments = (ins Tile_AnyTile:$value, Tile_AnyView:$view,
                       Variadic<Tile_TileOrScalar>:$indices, UnitAttr:$exact);
  let assemblyFormat = [{
    $value `,` $view `[` $indices `]` (`exact` $exact^)? attr-dict
    `:` type($value) `,` type($view) `,` `(` type($indices) `)`
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Of one exact sum: digits, and the word of what is not finite.
    static constexpr int64_t kDigits = 12, kWords = 13, kDigitBits = 24, kLowestExponent = -149;
  }];
}

def Tile_AddGradientsOp : Tile_Op<"add_gradients", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the gradients of what a scalar function captures, summed";
  let description = [{
    Consider a `tile.at` of a captured float on which the function's result depends. For every element, the derivative
    of the result with respect to the value read, times the seed, is added to the gradient of the capture, at the
    indices that were read. tile-differentiate replaces the operation.

    The gradient of a capture `@x` is an optional argument `d_x` of the program: a view of the same shape (of one
    element if the capture is a scalar), of f64 if the capture is f64, else of f32. The program clears it before its
    first launch. If the argument is left out, the gradient is not computed.

    Without `exact`, sums are atomic additions of floats, whose last bits may differ from run to run. With `exact`, they
    are sums of integers (`tile.add_at exact`), and bit-identical; `exact when (FLAG)` chooses by a flag over
    parameters.

    `once` promises that no two elements for which the launch adds have the same integers among their operands. If a
    read then has a place of its own for each element, its gradient is stored instead of added.

    Preconditions: those of `tile.map_gradient`; the kernel is launched by a program, which launches one kernel with
    `once` for each function.

    Postconditions: what was read outside a view adds nothing.

    Example:
    ```mlir
    tile.add_gradients @score_mod(%s, %b, %h, %rows, %cols) seed %dt : !s
        : (!s, i32, i32, !pos, !pos)
    ```

    Errors: those of `tile.map`, and
    - a seed of another shape than the operands, or of other elements than the function returns
    - a condition of `exact` that is not a flag over parameters
  }];
  let arguments = (ins FlatSymbolRefAttr:$function, Variadic<Tile_TileOrScalar>:$args,
                       Tile_AnyTile:$seed, UnitAttr:$exact, OptionalAttr<Tile_ExprAttr>:$exact_condition,
                       UnitAttr:$once);
  let assemblyFormat = [{
    $function `(` $args `)` `seed` $seed `:` type($seed)
    (`exact` $exact^ custom<WhenClause>($exact_condition))? (`once` $once^)? attr-dict `:` `(` type($args) `)`
  }];
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_DIALECT_TILE_TILEMEMORYOPS_TD
