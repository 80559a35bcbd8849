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
    What an author writes. A *kernel* is one program instance of a grid; it loads
    *tiles* (values, of any rank) from *views* (pointer, shape, strides), computes on
    them and stores the result. The dialect holds only what `arith`, `math`, `scf` and
    `func` do not: their elementwise operations apply to tiles as they are.

    **Two forms.** An author's kernel is a template: its tile types name parameters,
    `!tile.tile<[BLOCK_M, D], T>`, and verifiers compare dimensions symbolically: two
    dimensions are equal when both are the same integer or the same name. The pass
    `tile-specialize` binds the parameters and turns tile types into builtin ranked
    tensors. Every operation accepts both forms.

    **Integers.** Every extent, index, block coordinate and grid id is `i32`; element
    offsets (index times stride) are 64-bit.

    **Nothing outside a view is touched.** A load outside the bounds of its view reads the pad
    value, a store outside is dropped. An optional argument that was left out behaves as a view
    all of whose extents are zero, so kernels need no case for it.

    **What others may replace.** A function with the attribute `tile.replaceable` may be replaced by
    one of another file (`tile-link`), as may one without a body; all other functions of a kernel's
    file are its own. The attribute's value says how the functions of several files join: `"compose"`
    (each gets what the one before returns as its first operand), `"and"` or `"multiply"` (of what
    they return); without a value there can be one. A function without a body in a linked file with the
    attribute `tile.base = @f` stands for what the file's own `@f` replaces.
  }];
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // TILEWRIGHT_DIALECT_TILE_TILEDIALECT_TD
