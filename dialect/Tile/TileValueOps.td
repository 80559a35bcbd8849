// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that compute tiles from tiles. All are pure.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEVALUEOPS_TD
#define TILEWRIGHT_DIALECT_TILE_TILEVALUEOPS_TD

include "dialect/Tile/TileOpBase.td"

def Tile_FullOp : Tile_Op<"full", [Pure]> {
  let summary = "a tile whose elements are all one scalar";
  let description = [{
    Preconditions: none. Postconditions: every element is the operand.

    Example: `%zero = tile.full %c0 : !tile.tile<[BLOCK_M, D], f32>`

    Errors:
    - a scalar of another type than the elements
    - a result that is not a tile
  }];
  let arguments = (ins Tile_Scalar:$value);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$value attr-dict `:` custom<SplatType>(type($result), type($value))";
  let hasVerifier = 1;
}

def Tile_ConstantOp : Tile_Op<"constant", [Pure]> {
  let summary = "a number, or a tile of one number";
  let description = [{
    The literal is an integer, a float, or one of the words `inf`, `minus_inf` and `nan`. Where the elements are floats,
    an integer stands for the float of its value. Binding rounds it, once, to the type of the elements, and replaces the
    operation by `arith.constant` and `tile.full`.

    Preconditions: none. Postconditions: every element is the number.

    Example:
    ```mlir
    %no_max = tile.constant minus_inf : !tile.tile<[BLOCK_M], ACC>
    %one = tile.constant 1.0 : !tile.param<T>
    ```

    Errors:
    - a float where the elements are integers
    - an integer that the elements do not hold
  }];
  let arguments = (ins AnyAttrOf<[F64Attr, I64Attr]>:$value);
  let results = (outs Tile_TileOrScalar:$result);
  let assemblyFormat = "custom<Literal>($value, type($result)) attr-dict";
  let hasVerifier = 1;
}

def Tile_IotaOp : Tile_Op<"iota", [Pure]> {
  let summary = "a tile that counts along one dimension";
  let description = [{
    Element (.., i, ..) is `start + i`, where i is the position along `dim`. Wraps on overflow.

    Preconditions: none. Postconditions: the tile is constant along its other dimensions.

    Example: `%cols = tile.iota %n dim 1 : !tile.tile<[BLOCK_M, BLOCK_N], i32>`

    Errors:
    - a dimension beyond the rank
    - elements that are not i32
  }];
  let arguments = (ins I32:$start, I64Attr:$dim);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$start `dim` custom<Int>($dim) attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_ExpandOp : Tile_Op<"expand", [Pure]> {
  let summary = "a tile repeated along a new dimension";
  let description = [{
    Inserts dimension `dim` into the shape of the operand; the result is constant along it.

    Preconditions: none. Postconditions: result(.., i, ..) = source(.., ..) for every i.

    Example: `%m2 = tile.expand %m dim 1
    : !tile.tile<[BLOCK_M], f32> -> !tile.tile<[BLOCK_M, BLOCK_N], f32>`

    Errors:
    - a result whose rank is not one more than the operand's
    - a dimension beyond the rank of the result
    - a result whose other dimensions, or elements, differ from the operand's
  }];
  let arguments = (ins Tile_AnyTile:$source, I64Attr:$dim);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat =
      "$source `dim` custom<Int>($dim) attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def Tile_ReshapeOp : Tile_Op<"reshape", [Pure]> {
  let summary = "the same elements, in row-major order, in another shape";
  let description = [{
    Preconditions: the numbers of elements agree once parameters are bound.

    Postconditions: elements keep their row-major order.

    Example: `%rows = tile.reshape %q : !tile.tile<[M, G, D], T> -> !tile.tile<[ROWS, D], T>`

    Errors:
    - another element type
    - another number of elements (checked where both shapes are integers)
  }];
  let arguments = (ins Tile_AnyTile:$source);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Tile_TransposeOp : Tile_Op<"transpose", [Pure]> {
  let summary = "a tile with its dimensions permuted";
  let description = [{
    The type of the result follows from the operand's and may be left out.

    Preconditions: none. Postconditions: dimension d of the result is dimension `permutation[d]` of the operand.

    Example: `%t = tile.transpose %s [1, 0] : !tile.tile<[M, N], T> -> !tile.tile<[N, M], T>`

    Errors:
    - a list that is not a permutation of the dimensions
    - a result whose shape or elements are not the permuted operand's
  }];
  let arguments = (ins Tile_AnyTile:$source, DenseI64ArrayAttr:$permutation);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $source $permutation attr-dict `:`
    custom<PermutedTypes>(type($source), type($result), ref($permutation))
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Tile_SliceOp : Tile_Op<"slice", [Pure]> {
  let summary = "a part of a tile along one dimension, or the tile shifted along it";
  let description = [{
    Element (.., i, ..) of the result is element (.., `offset` + i, ..) of the operand, where i is the
    position along `dim`. Where the operand has no such element it is `fill`, or zero without `fill`. A
    result of the operand's shape is the operand shifted by `-offset`.

    Preconditions: none; the offset is any number, known when the kernel runs.

    Postconditions: no element depends on what lies beyond the operand.

    Example:
    ```mlir
    %left = tile.slice %x dim 1 from %c0 : !tile.tile<[M, 128], T> -> !tile.tile<[M, 64], T>
    %next = tile.slice %x dim 0 from %c1 fill %one : !tile.tile<[M, N], T> -> !tile.tile<[M, N], T>
    ```

    Errors:
    - a dimension beyond the rank
    - a result whose rank, other dimensions or elements differ from the operand's
    - a fill of another type than the elements
  }];
  let arguments = (ins Tile_AnyTile:$source, I64Attr:$dim, I32:$offset, Optional<Tile_Scalar>:$fill);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $source `dim` custom<Int>($dim) `from` $offset (`fill` $fill^)? attr-dict `:` type($source) `->`
    custom<ResultAndFill>(type($result), ref($fill), type($fill))
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_DotOp : Tile_Op<"dot", [Pure]> {
  let summary = "matrix product, with an accumulator";
  let description = [{
    `result = op(lhs) op(rhs) + acc`, where op transposes if asked to. Products of f16, bf16 and fp8
    accumulate in f32; f32 in f32 (`precision = tf32` rounds the operands first); f64 in f64. The order of
    summation is not defined, but fixed for a given target.

    With `interleaved`, column 16 a + 8 b + 2 c + d of op(lhs) is multiplied with row 16 a + 4 c + 2 b + d of op(rhs),
    for b, d < 2 and c < 4: in rhs, the pairs of the two halves of each 16 alternate. This is the order in which a
    thread that holds a sum of wgmma has the operand of a product of bytes. tile-transpose-operands stores rhs so.

    Preconditions: none. Postconditions: NaN and infinities propagate as in the formula.

    Example:
    ```mlir
    %s = tile.dot %q, %k transpose_b
        : !tile.tile<[M, D], T>, !tile.tile<[N, D], T> -> !tile.tile<[M, N], f32>
    %o = tile.dot %p, %v, %acc
        : !tile.tile<[M, N], T>, !tile.tile<[N, D], T> -> !tile.tile<[M, D], f32>
    ```

    Errors:
    - operands that are not of rank 2
    - operands of different element types, or of integers
    - inner dimensions that differ
    - a result that is not rows by columns
    - an accumulator of another type than the result
    - an element type of the result other than the accumulation type
    - tf32 on elements other than f32
    - `interleaved` with an inner dimension that is no multiple of 16
  }];
  let arguments = (ins Tile_AnyTile:$lhs, Tile_AnyTile:$rhs, Optional<Tile_AnyTile>:$acc,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       DefaultValuedAttr<Tile_DotPrecisionAttr,
                           "::tilewright::tile::DotPrecision::IEEE">:$precision,
                       UnitAttr:$interleaved);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`,` $acc^)? (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)?
    (`precision` $precision^)? (`interleaved` $interleaved^)? attr-dict `:` type($lhs) `,` type($rhs) `->`
    custom<ResultAndAcc>(type($result), ref($acc), type($acc))
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def Tile_ReduceOp : Tile_Op<"reduce", [Pure]> {
  let summary = "a tile combined along one dimension";
  let description = [{
    `add`, `mul`, `max` and `min` apply to floats and integers (max and min propagate NaN; integers are signed), `and`
    and `or` to integers. The order of combination is not defined, but fixed for a given target.

    The type of the result follows from the operand's and may be left out.

    Preconditions: none. Postconditions: the dimension is gone.

    Example: `%m = tile.reduce max %s dim 1 : !tile.tile<[M, N], f32> -> !tile.tile<[M], f32>`

    Errors:
    - an unknown kind
    - a dimension beyond the rank
    - a result that is not the operand without that dimension
    - `and` or `or` on floats; `add`, `mul`, `max` or `min` on i1
  }];
  let arguments = (ins Tile_ReduceKindAttr:$kind, Tile_AnyTile:$source, I64Attr:$dim);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    custom<ReduceKind>($kind) $source `dim` custom<Int>($dim) attr-dict `:`
    custom<ReducedTypes>(type($source), type($result), ref($dim))
  }];
  let hasVerifier = 1;
}

def Tile_ScanOp : Tile_Op<"scan", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "running combinations along one dimension: cumulative sums, running maxima";
  let description = [{
    Element i along `dim` of the result is the combination of the elements 0 to i of the operand, or with `reverse` of
    the elements from i to the last. Kinds and their elements are those of `tile.reduce`. The order of combination is
    not defined, but fixed for a given target. A sum without the element itself is `tile.slice` of the result, by one
    position.

    On a GPU, the tile goes through shared memory once for each doubling of the extent.

    Preconditions: none. Postconditions: the last element (with `reverse` the first) is that of `tile.reduce`, apart
    from rounding.

    Example:
    ```mlir
    %ends = tile.scan add %counts dim 0 : !tile.tile<[N], i32>
    %best = tile.scan max %scores dim 1 reverse : !tile.tile<[M, N], f32>
    ```

    Errors:
    - an unknown kind
    - a dimension beyond the rank
    - `and` or `or` on floats; `add`, `mul`, `max` or `min` on i1
  }];
  let arguments = (ins Tile_ReduceKindAttr:$kind, Tile_AnyTile:$source, I64Attr:$dim, UnitAttr:$reverse);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    custom<ReduceKind>($kind) $source `dim` custom<Int>($dim) (`reverse` $reverse^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_MapOp : Tile_Op<"map", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a scalar function applied to every element";
  let description = [{
    The function takes and returns scalars. Operands are tiles of one shape, or scalars, which are the
    same for every element. The same function serves a tile and its transpose.

    Preconditions: the function is pure and not recursive.

    Postconditions: element e of the result is the function of the elements e.

    Example:
    ```mlir
    %t = tile.map @score_mod(%s, %b, %h, %rows, %cols)
       : (!tile.tile<[M, N], f32>, i32, i32, !tile.tile<[M, N], i32>, !tile.tile<[M, N], i32>)
       -> !tile.tile<[M, N], f32>
    ```

    Errors:
    - a symbol that is not a function of the module
    - a number or an element type of operands that differs from the function's
    - a function that does not return exactly one value of the result's element type
    - tiles of different shapes, or no tile at all
  }];
  let arguments = (ins FlatSymbolRefAttr:$function, Variadic<Tile_TileOrScalar>:$operands);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat =
      "$function `(` $operands `)` attr-dict `:` functional-type($operands, $result)";
  let hasVerifier = 1;
}

def Tile_MapGradientOp : Tile_Op<"map_gradient", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the derivative of a scalar function at every element, times a seed";
  let description = [{
    The derivative of `tile.map`: element e of the result is the partial derivative of the function with respect to
    operand `wrt` at the elements e, times element e of the seed. tile-differentiate derives the function and replaces
    the operation by `tile.map`.

    Preconditions: those of `tile.map`, and every operation between the operand and the result of the
    function has a derivative rule.

    Postconditions: where the seed is zero, the result is zero, even if the derivative is infinite. Where the function
    has no derivative, the result is the one that tile-differentiate documents.

    Example:
    ```mlir
    %ds = tile.map_gradient @score_mod(%s, %b, %h, %rows, %cols) wrt 0 seed %dt : !s
        : (!s, i32, i32, !pos, !pos) -> !s
    ```

    Errors: those of `tile.map`, and
    - `wrt` that is not an operand, or one whose elements are not floats
    - a seed of another shape than the result, or of other elements than the function returns
    - a result of other elements than operand `wrt`
  }];
  let arguments = (ins FlatSymbolRefAttr:$function, Variadic<Tile_TileOrScalar>:$args,
                       I64Attr:$wrt, Tile_AnyTile:$seed);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $function `(` $args `)` `wrt` custom<Int>($wrt) `seed` $seed `:` type($seed) attr-dict
    `:` functional-type($args, $result)
  }];
  let hasVerifier = 1;
}

def Tile_SelectOp : Tile_Op<"select", [Pure]> {
  let summary = "one of two values, chosen by a condition";
  let description = [{
    The condition is a tile of `i1` of the same shape or one `i1`.

    Preconditions: none. Postconditions: an element comes from `if_true` where the condition holds; the other
    operand's element has no influence, even if it is NaN.

    Example: `%t = tile.select %keep, %s, %minus_inf
    : !tile.tile<[M, N], i1>, !tile.tile<[M, N], f32>`

    Errors:
    - a condition whose elements are not i1
    - a condition of another shape than the values
    - values of different types
  }];
  let arguments = (ins Tile_TileOrScalar:$condition, Tile_TileOrScalar:$if_true,
                       Tile_TileOrScalar:$if_false);
  let results = (outs Tile_TileOrScalar:$result);
  let assemblyFormat = [{
    $condition `,` $if_true `,` $if_false attr-dict `:` type($condition) `,`
    custom<SameTypes>(type($result), type($if_true), type($if_false))
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_ExprOp : Tile_Op<"expr", [
    SingleBlock, NoRegionArguments, RecursiveMemoryEffects, RecursivelySpeculatable]> {
  let summary = "arithmetic, calls and loads, written as a formula";
  let description = [{
    Stands for the operations that its formula names (tile-link), in the order in which a reader meets them: operands
    from left to right, then the operation on them. The type is that of the numbers, tiles or scalars; a comparison has
    a result of `i1` of the same shape. From the loosest: comparisons `<`, `<=`, `>`, `>=` and `==`, then `+` and `-`,
    then `*` and `/`. There are the functions

    - `min`, `max`; `ne`, which holds for NaN; for floats `neg`, `abs`, `exp`, `exp2`, `log`, `log2`, `sqrt`, `rsqrt`
      and `tanh`; for integers, which are signed, `mod` (`arith.remsi`), `ceildiv` and `bitand`; `/` truncates;
    - `and`, `or` and `not` of conditions, and `select(condition, a, b)`;
    - `full(x)`, a scalar as a tile; `expand(x, dim)`, `iota(x, dim)` and `reduce add(x, dim)`, as the operations of
      these names;
    - `cast(x)`, as `tile.cast` from the type of x. A second type, after `->`, casts the result;
    - `load %view[i, ...] dims [d, ...]` and `dot(a, b, sum transpose_b)`, as `tile.load` and `tile.dot`, with the type
      of the formula;
    - `%view[i, ...]` and `@capture[i, ...]`, as `tile.at`, and `dim(%view, dim)`;
    - `@f(x, ...)`, a call of a function, and `map @f(x, ...)`, as `tile.map`, with the type of the formula;
    - `choose(condition, a, b)`, of which only a or only b is computed, as by `scf.if`.

    Operands of a cast, a call, a product, a reduction and a comparison may have other types than the formula: those of
    their values. Where an operand tells none, as a number or a load, its type is written after it: `@f(1.0 : f32)`,
    `(@limits[%b] : i32) == 0`. The type of the formula may be left out if its operands tell it. A call may have several
    results, and so may a choice of calls, or of lists `(x, y)`.

    An operand is a value; a number; `inf`, `minus_inf`, `log2e`, `ln2`; a parameter by its name; or `param(e)`, the
    value of an expression over parameters. `fastmath<...>` and `overflow<...>` belong to all arithmetic of the formula.

    Preconditions, postconditions: those of the operations.

    Examples:
    ```mlir
    %x = tile.expr min(%sink - %lse, 0) * log2e : f32
    %is_inside = tile.expr and(%b >= 0, %b < %sequences) : i32
    %row = tile.expr select(PACKED, %block * PAD, 0) : i32
    %below = tile.expr %s * full(%scale) - expand(%max, 1) fastmath<contract>
        : !tile.tile<[M, N], f32>
    %rounded = tile.expr %sum * full(%scale) : !tile.tile<[M, D], f32> -> !tile.tile<[M, D], T>
    %o = tile.expr %acc * expand(map @reciprocal_or_zero(%sum), 1) : !tile.tile<[M, D], f32>
    %begin, %end = tile.expr @rows_of(%b, %offsets, dim(%q, 2)) : i32, i32
    %max, %sum = tile.expr choose(SINKS, @with_sink(%h), @without())
        : !tile.tile<[M], f32>, !tile.tile<[M], f32>
    ```

    Errors:
    - a word that is no function, or a function of another number of operands
    - a function of floats of integers, or the other way round
    - a condition where a number is required, or the other way round
    - `full` or `expand` where the type is no tile
    - an operand that is not defined above, or of another type than its place requires
    - an operand of a call or a cast, or a formula, that has no type and whose operands tell none
    - several results of a formula that is neither a call nor a choice of calls or lists
    - `dim`, `load` or an element of something that is not a view
    - a product of one operand, or of more than two and a sum
    - those of the operations
  }];
  let arguments = (ins OptionalAttr<TypeAttr>:$type);
  let results = (outs Variadic<AnyType>:$values);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_ResultOp : Tile_Op<"result", [
    SingleBlock, NoRegionArguments, RecursiveMemoryEffects, Terminator]> {
  let summary = "results of a function, written as formulas";
  let description = [{
    Ends a function like `func.return`. Its operands are formulas, as those of `tile.expr`, from left to right, and
    their types follow. tile-link replaces it by the operations and `func.return`.

    Preconditions, postconditions: those of the operations.

    Examples:
    ```mlir
    tile.result select(%x == 0, 0, 1 / %x) : f32
    tile.result min(%first, %last), %last - %first : i32, i32
    tile.result @online_softmax(%x, %max, %sum)
        : !tile.tile<[M, N], f32>, !tile.tile<[M], f32>, !tile.tile<[M], f32>
    ```

    Errors:
    - those of `tile.expr`
    - a place other than the end of a function
    - a number of types that differs from that of the formulas
    - types that are not those of the function's results
  }];
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_EquivalentOp : Tile_Op<"equivalent", [Pure]> {
  let summary = "two equivalent conditions";
  let description = [{
    States two equivalent conditions of a mask for tile-analyze-masks, such as one that tells which keys a query attends
    and one that tells which queries attend a key: the pass may use either condition to exclude blocks, and to find full
    blocks. After that pass the first condition stands for both.

    Preconditions: both conditions are true for the same pairs of positions; otherwise it is undefined which blocks are
    visited.

    Example: `%keep = tile.equivalent %keys_of_query, %queries_of_key : i1`

    Errors: operands that are not i1
  }];
  let arguments = (ins I1:$first, I1:$second);
  let results = (outs I1:$result);
  let assemblyFormat = "$first `,` $second attr-dict `:` type($result)";
}

def Tile_CastOp : Tile_Op<"cast", [Pure]> {
  let summary = "conversion of elements to another type";
  let description = [{
    A conversion between floats rounds to nearest, ties to even; a value that is too large becomes infinity, or NaN in
    e4m3, which has no infinity. With `saturate`, it becomes the greatest finite value of its sign instead, as an
    infinity does; NaN stays NaN. A conversion from integer to float rounds likewise (integers are signed; `i1` is 0 or
    1). A conversion from float to integer truncates toward zero; with `saturate`, a value out of range becomes the
    nearest integer of the type, and NaN 0, and one to `i8` rounds to nearest even, as quantization does. Integers are
    extended by sign (`i1` by zero) or truncated.

    With `reassoc`, an integer that is a sum may be converted term by term, and its terms may be summed in any order
    with values that are added to the result under `fastmath<reassoc>`. If the float type holds all of these integers
    exactly (below 2^24 in f32), the result is the same. A GPU can thus convert the position of a thread's first
    element, and derive the others by adding constants.

    Preconditions: a float converted to an integer without `saturate` is in its range; with `reassoc` no sum overflows.

    Postconditions: the shape is unchanged.

    Examples:
    ```mlir
    %p = tile.cast %s : !tile.tile<[M, N], f32> -> !tile.tile<[M, N], T>
    %y = tile.cast %x saturate : !tile.tile<[M, N], f32> -> !tile.tile<[M, N], e4m3>
    %x = tile.cast %j reassoc : i32 -> f32
    ```

    Errors:
    - a result of another shape
    - `saturate` on a conversion other than from float to float, i8, i32 or i64
    - `reassoc` on a conversion other than from integer to float
  }];
  let arguments = (ins Tile_TileOrScalar:$source, UnitAttr:$reassoc, UnitAttr:$saturate);
  let results = (outs Tile_TileOrScalar:$result);
  let assemblyFormat = [{
    $source (`reassoc` $reassoc^)? (`saturate` $saturate^)? attr-dict `:` type($source) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_RandomOp : Tile_Op<"random", [Pure]> {
  let summary = "random bits by Philox4x32, from a counter";
  let description = [{
    For scalars or, elementwise, for tiles. A block of Philox4x32 has 128 bits, which are n = 128 / `bits` numbers. With
    key = (seed[31:0], seed[63:32] xor offset[63:32]) and counter = (c0 / n, c1, c2, offset[31:0]), number c0 mod n of
    the block gives the uppermost `bits` bits of the result; below them are the numbers before it in its word, and
    zeros. So a result is an unsigned fraction of 2^32 with `bits` random bits, which are independent of those of other
    counters. n consecutive c0 share one block. The bits depend on logical coordinates only, never on tile sizes,
    so that a forward and a backward see the same. Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3
    (SC11); by their tests 7 rounds are enough, and 10, the default, leave a margin.

    On a GPU, a thread computes a block once for all of its numbers that the thread holds. To profit from that, compose
    c0 mod n of the bits of positions in which the elements of a thread differ. In a product these are bit 0 of the
    column and bit 3 of row and column. In a transposed product, bit 0 of the column is a bit of the lane. Lanes that
    differ in it draw for each other if numbers of 16 bits are only compared (`ult`, `uge`) with multiples of 2^16.

    Preconditions: none. Postconditions: the same operands give the same bits on every target.

    Examples:
    ```mlir
    %0 = tile.random %seed, %offset at (%j, %i, %bh) : i32
    %1 = tile.random %seed, %offset at (%c0, %i, %bh) bits 16 rounds 7 : !tile.tile<[M, N], i32>
    ```

    Errors:
    - counters and result of different types
    - elements that are not i32
    - `bits` other than 8, 16 and 32
    - fewer than 7 rounds, which tests of randomness find, or more than 16
  }];
  let arguments = (ins I64:$seed, I64:$offset, Tile_TileOrScalar:$c0, Tile_TileOrScalar:$c1,
                       Tile_TileOrScalar:$c2, DefaultValuedAttr<I64Attr, "32">:$bits,
                       DefaultValuedAttr<I64Attr, "10">:$rounds);
  let results = (outs Tile_TileOrScalar:$result);
  let assemblyFormat = [{
    $seed `,` $offset `at` `(` $c0 `,` $c1 `,` $c2 `)` (`bits` $bits^)? (`rounds` $rounds^)? attr-dict `:`
    custom<SameTypes>(type($result), type($c0), type($c1), type($c2))
  }];
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_DIALECT_TILE_TILEVALUEOPS_TD
