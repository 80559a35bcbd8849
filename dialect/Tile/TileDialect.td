// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The `tile` dialect: definition and its documentation.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEDIALECT_TD
#define TILEWRIGHT_DIALECT_TILE_TILEDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::tilewright::tile";
  let summary = "kernels as programs over tiles, without threads or a memory hierarchy";
  let description = [{
    The language of kernel authors. A *kernel* describes one program instance of a grid: it loads *tiles* (values, of
    any rank) from *views* (pointer, shape, strides), computes with them, and stores the results. Elementwise operations
    of `arith` and `math` apply to tiles as they are, and `scf` and `func` provide control flow; the dialect adds what
    these dialects lack.

    **Two forms.** An author's kernel is a template: its tile types name parameters, `!tile.tile<[BLOCK_M, D], T>`, and
    verifiers compare dimensions symbolically: two dimensions are equal if both are the same integer or the same name.
    The pass `tile-specialize` binds the parameters and replaces tile types by builtin ranked tensors. Every operation
    accepts both forms.

    **Integers.** Every extent, index, block coordinate and grid id is `i32`; element offsets (index times stride) are
    64-bit.

    **Bounds.** A load outside the bounds of its view reads the pad value, and a store outside is dropped. An optional
    argument that was left out behaves as a view whose extents are all zero, so a kernel needs no special case for it.

    **Replaceable functions.** `tile-link` may replace a function with the attribute `tile.replaceable`, or one without
    a body, by a function of another file. All other functions of a kernel's file are private to it. The attribute's
    value says how to join the functions of several files: `"compose"` passes the result of each to the next as its
    first operand, and `"and"` and `"multiply"` combine their results; without a value, only one file may replace the
    function. In a linked file, a function without a body and with the attribute `tile.base = @f` stands for the
    function that the file's own `@f` replaces.
  }];
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
    /// For a name that no operation has: reports it, with the nearest.
    std::optional<ParseOpHook> getParseOperationHook(::llvm::StringRef name) const override;
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::scf::SCFDialect"];
}

#endif // TILEWRIGHT_DIALECT_TILE_TILEDIALECT_TD
