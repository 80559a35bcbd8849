// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels, programs and what they declare.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEKERNELOPS_TD
#define TILEWRIGHT_DIALECT_TILE_TILEKERNELOPS_TD

include "dialect/Tile/TileOpBase.td"

def Tile_KernelOp : Tile_Op<"kernel", [
    IsolatedFromAbove, Symbol, SingleBlock, NoTerminator, HasParent<"::mlir::ModuleOp">,
    OpAsmOpInterface, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one program instance of a grid, with its parameters and arguments";
  let description = [{
    Declares parameters, constraints on them, arguments (views and scalars; views may be `optional`, scalars may have a
    default) and the grid. A constraint over parameters is checked when they are bound, one that reads extents or scalar
    arguments at every launch; there it holds if it reads the extent of an argument that was left out. `same_dims(x, y,
    0, 1)` stands for the constraints `dim(x, 0) == dim(y, 0), dim(x, 1) == dim(y, 1)`. Parameters, or arguments, that
    follow one another may share what is after their names: `D, DV: int`. An argument with `when
    (CONDITION)`, a flag over parameters, exists only where the condition holds. Where it does not, callers do not see
    the argument, and constraints that mention it hold; nothing may read it there. The body runs once for each point of
    the grid; the ids are `i32` values named in the grid clause. The order in which points run is not defined.

    Preconditions: every parameter without a default is bound before the kernel runs; every constraint holds; the
    extents of the arguments agree with their types.

    Postconditions: the views contain what the body stored. If an extent of the grid is zero, nothing is launched.

    Example:
    ```mlir
    tile.kernel @scale params(BLOCK: int = 128, T: type, let ACC: type = accumulator(T))
        require(BLOCK <= 1024, dim(y, 0) == dim(x, 0), finite(factor))
        (%x: !tile.view<[?], T>, %y: !tile.view<[?], T>, %factor: f32, %first: i32 = 0,
         %shift: f32 when (T == f32))
        grid(%block = ceildiv(dim(x, 0), BLOCK)) {
      ...
    }
    ```

    Errors:
    - a name that two of the parameters, arguments and grid ids have
    - a name that is a literal or a type (`true`, `f32`, ...), or a name of an argument or id that is not an identifier
    - a grid without extents
    - a type, default, constraint or grid expression that names no parameter (or, in the grid and in a constraint, no
      argument)
    - a type that uses a parameter of the wrong kind
    - `dim` of something that is not a view, or at a position beyond its rank
    - an argument that is neither a view nor a scalar, or an optional scalar
    - a default of a view, or one that is not a value of the scalar's type
    - a default or a condition that reads an argument, or a condition that is not a flag
    - parameters whose defaults form a cycle
    - in the body, a literal (`arith.constant dense<...>`) of an unbound tile, which binding could not convert
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    ArrayAttr:$params,
    ArrayAttr:$constraints,
    ArrayAttr:$arg_names,
    DenseBoolArrayAttr:$arg_optional,
    ArrayAttr:$grid_names,
    ArrayAttr:$grid,
    OptionalAttr<DictionaryAttr>:$bindings,
    OptionalAttr<DictionaryAttr>:$arg_defaults,
    OptionalAttr<DictionaryAttr>:$arg_conditions);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumArgs() { return getArgNames().size(); }
    ::mlir::Block::BlockArgListType getArgs() {
      return getBody().getArguments().take_front(getNumArgs());
    }
    ::mlir::Block::BlockArgListType getGridIds() {
      return getBody().getArguments().drop_front(getNumArgs());
    }
    void getAsmBlockArgumentNames(::mlir::Region &region,
                                  ::mlir::OpAsmSetValueNameFn setName);
    static llvm::StringRef getDefaultDialect() { return ""; }
  }];
}

def Tile_ProgramOp : Tile_Op<"program", [
    IsolatedFromAbove, Symbol, SingleBlock, NoTerminator, HasParent<"::mlir::ModuleOp">,
    OpAsmOpInterface, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "an operation as a list of launches with its workspace";
  let description = [{
    Parameters and arguments as for a kernel. The body holds `tile.workspace`, `tile.launch`, `tile.fill`, `tile.call`
    and, at its end, `tile.return` only; launches run in order, each seeing what those before it wrote.

    A parameter declared by `let` may read arguments and the device; then each launch of the program computes it.
    Constraints, conditions of launches, extents of workspaces and other such parameters may read it, nothing else.

    Preconditions, postconditions: those of the launches.

    Example:
    ```mlir
    tile.program @backward params(D: int, T: type) (%q: !tile.view<[?, ?, ?, D], T>, ...) {
      %delta = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2)] : !tile.view<[?, ?, ?], f32>
      tile.launch @backward_delta(%q, %delta)
          : !tile.view<[?, ?, ?, D], T>, !tile.view<[?, ?, ?], f32>
    }
    ```

    Errors: those of `tile.kernel`, except that `let` may read arguments, and
    - another operation in the body
    - a parameter that depends on arguments in a type, the condition of an argument, a `with` clause, or the default of
      a parameter that is not derived
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    ArrayAttr:$params,
    ArrayAttr:$constraints,
    ArrayAttr:$arg_names,
    DenseBoolArrayAttr:$arg_optional,
    OptionalAttr<DictionaryAttr>:$bindings,
    OptionalAttr<DictionaryAttr>:$arg_defaults,
    OptionalAttr<DictionaryAttr>:$arg_conditions);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumArgs() { return getArgNames().size(); }
    ::mlir::Block::BlockArgListType getArgs() { return getBody().getArguments(); }
    void getAsmBlockArgumentNames(::mlir::Region &region,
                                  ::mlir::OpAsmSetValueNameFn setName);
    static llvm::StringRef getDefaultDialect() { return ""; }
  }];
}

def Tile_WorkspaceOp : Tile_Op<"workspace", [HasParent<"ProgramOp">]> {
  let summary = "scratch memory of a program";
  let description = [{
    A contiguous (row-major) array that lives as long as the program runs. Extents are expressions over
    argument shapes, scalars and parameters. `fill` initializes it, with an integer if the elements are integers and a
    number otherwise (`0` is then `0.0`); without it the contents are undefined until written.

    Preconditions: extents are not negative.

    Postconditions: the view covers the whole array.

    Examples:
    ```mlir
    %acc = tile.workspace [dim(q, 0), dim(q, 2), D] fill 0.0 : !tile.view<[?, ?, D], f32>
    %largest = tile.workspace [dim(q, 0)] fill minus_inf : !tile.view<[?], f32>
    %turns = tile.workspace [dim(q, 0)] fill 0 : !tile.view<[?], i32>
    ```

    Errors:
    - those of `tile.constant` of the elements, for `fill`
    - a number of extents that differs from the rank of the view
    - an extent that names neither a parameter nor an argument of the program
  }];
  let arguments = (ins ArrayAttr:$extents, OptionalAttr<AnyAttrOf<[F64Attr, I64Attr]>>:$fill);
  let results = (outs Tile_AnyView:$view);
  let assemblyFormat = "custom<ExprList>($extents) custom<WorkspaceFill>($fill, type($view)) attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    struct FillNumber {
      std::optional<int64_t> integer; ///< where the elements are integers
      double number;                  ///< the same; of more than 53 bits, it becomes another one
    };
    /// The number that `fill` gives, if there is one.
    std::optional<FillNumber> getFillNumber();
  }];
}

def Tile_LaunchOp : Tile_Op<"launch", [
    HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "launch of a kernel by a program";
  let description = [{
    Passes arguments by position, or by name: `name = %value`. In a list of names, or an empty list, an argument that is
    not named gets the program's argument of that name; tile-link turns it into a list by position. The value of a
    kernel's parameter is the first of these: that of the `with` clause, that of the program's parameter of the same
    name, the parameter's default. A derived parameter is computed in the kernel. If the condition of `when` is false,
    the launch is skipped.

    Preconditions: every parameter of the kernel gets a value.

    Postconditions: the kernel has run over its grid.

    Examples:
    ```mlir
    tile.launch @convert(%acc, %dq) with (BLOCK = 64) when (DETERMINISTIC == false)
        : !tile.view<[?, ?, D], f32>, !tile.view<[?, ?, D], T>
    // The same if the program and the kernel have an argument dq.
    tile.launch @convert(sums = %acc) with (BLOCK = 64) when (DETERMINISTIC == false)
        : !tile.view<[?, ?, D], f32>
    ```

    Errors:
    - a callee that is not a kernel of the module
    - a number of arguments, or a rank or kind of one, that differs from the kernel's
    - a name that the kernel does not have, or that is passed twice; an argument of the kernel without a value
    - an argument that may be absent for a kernel's argument that is neither optional nor has a condition
    - a `with` clause that names no parameter of the kernel, or a derived one
    - an expression that names no parameter of the program
  }];
  let arguments = (ins
    FlatSymbolRefAttr:$kernel,
    Variadic<AnyType>:$args,
    ArrayAttr:$with_names,
    ArrayAttr:$with_values,
    OptionalAttr<Tile_ExprAttr>:$condition,
    OptionalAttr<ArrayAttr>:$arg_names);
  let assemblyFormat = [{
    $kernel `(` custom<LaunchArguments>($args, $arg_names) `)` custom<WithClause>($with_names, $with_values)
    custom<WhenClause>($condition) attr-dict `` custom<ArgumentTypes>(ref($args), type($args))
  }];
  let hasVerifier = 1;
}

def Tile_FillOp : Tile_Op<"fill", [HasParent<"ProgramOp">]> {
  let summary = "sets all elements of an argument or workspace of a program";
  let description = [{
    Stands for the launch of a kernel that stores the value into each element of the view, whatever its strides are
    (tile-link). If the condition of `when` is false, or the argument was left out, nothing is stored. A workspace that
    is only to begin with a value has `fill` itself, which needs no launch.

    Preconditions: none.

    Postconditions: all elements of the view have the value, for the launches that follow.

    Examples:
    ```mlir
    tile.fill %dq, 0.0
    tile.fill %largest, minus_inf when (MAXIMA) : !tile.view<[?, ?, D], f32>
    ```

    Errors:
    - those of `tile.constant` of the elements
    - a condition that names no parameter or argument of the program
  }];
  let arguments = (ins
    Tile_AnyView:$view,
    AnyAttrOf<[F64Attr, I64Attr]>:$value,
    OptionalAttr<Tile_ExprAttr>:$condition);
  let assemblyFormat = [{
    $view `,` custom<FillValue>($value, $condition, ref($view), type($view)) attr-dict
  }];
  let hasVerifier = 1;
}

def Tile_ParamOp : Tile_Op<"param", [Pure]> {
  let summary = "the value of an expression over parameters";
  let description = [{
    The type is `i32` (or `i64`) for an integer, and `i1` for a flag or a comparison. The operation is allowed in
    kernels and in scalar functions; in a function, names refer to parameters of the kernel that reaches it.

    Preconditions: the value fits the result type.

    Postconditions: binding replaces it with a constant.

    Example: `%top_left = tile.param CAUSAL == "top_left" : i1`

    Errors:
    - a place outside of kernels and functions
    - a name that is not a parameter of the enclosing kernel
    - an expression whose kind does not fit the result type
    - an expression that reads an argument or the device
  }];
  let arguments = (ins Tile_ExprAttr:$expr);
  let results = (outs AnyTypeOf<[I1, I32, I64]>:$result);
  let assemblyFormat = "custom<Expr>($expr) attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_CaptureOp : Tile_Op<"capture", [Symbol]> {
  let summary = "an argument that scalar functions read by name";
  let description = [{
    A view or a scalar that the caller binds by name. It is appended, in order of declaration,
    to the arguments of every kernel and program that reaches a `tile.at` of it. A captured view is
    read-only.

    Constraints are those of a kernel, over the capture, other captures, and arguments and parameters of the entry:
    tile-specialize adds them to the constraints of the entry that reaches it, so every device checks them at every
    launch. A constraint that reads an argument that the parameters exclude, or an optional one that is absent, holds.
    A file may be linked to entries of other arguments: a constraint that reads a name that the entry does not have is
    dropped with a warning.

    Example: `tile.capture @slopes : !tile.view<[?], f32>`,
    `tile.capture @dropout : f32 require(dropout >= 0, dropout < 1)`,
    `tile.capture @sinks : !tile.view<[?], f32> require(dim(sinks, 0) == dim(q, 1))`

    Errors:
    - a type that is neither a view nor a scalar
    - an empty name
    - a constraint that does not read the capture
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type,
                       OptionalAttr<ArrayAttr>:$constraints);
  let builders = [OpBuilder<(ins "::mlir::StringRef":$name, "::mlir::Type":$type), [{
    build($_builder, $_state, name, type, ::mlir::ArrayAttr());
  }]>];
  let assemblyFormat = "$sym_name attr-dict `:` $type `` custom<CaptureConstraints>($constraints)";
  let hasVerifier = 1;
}

def Tile_LinkOp : Tile_Op<"link", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "names files of functions, captures, kernels and programs that this one uses";
  let description = [{
    tile-link takes from the files the symbols that this file mentions and does not define, and the symbols that those
    need in turn. A path is relative to the folder of the file that contains the operation, and does not leave this
    folder. The compiler knows that file from where it read the text, not from a location. If there is no such file, or
    the text comes from memory, tile-link looks for the path among the files that are embedded in the compiler: the
    folder `lib` of its kernels, by names such as `lib/attention.mlir`.

    The text may also use the type aliases of the file, and of the files that this one links. An alias that the text
    defines comes first. Tools write these aliases into the text before MLIR parses it, in the line of its first
    `tile.link`.

    Preconditions: none.

    Postconditions: a module with a `tile.link` may mention functions, kernels and captures that it
    does not define, until tile-link has run. A function that `func.call` names must be declared where MLIR's own driver
    parses the text.

    Examples:
    ```mlir
    tile.link "lib/attention.mlir"
    tile.link "lib/batch.mlir", "lib/cache.mlir"
    ```

    Errors:
    - an empty path, one with a NUL character, an absolute path, one with `..`
    - a path that does not end with `.mlir`
    - an alias that the text uses, and that linked files define as different types
    - anywhere but in a module
  }];
  let arguments = (ins StrArrayAttr:$files);
  let assemblyFormat = "custom<FileList>($files) attr-dict";
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_DIALECT_TILE_TILEKERNELOPS_TD
