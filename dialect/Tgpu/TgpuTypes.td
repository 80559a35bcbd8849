// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types of the `tgpu` dialect.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUTYPES_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUTYPES_TD

include "dialect/Tgpu/TgpuAttrs.td"

class Tgpu_Type<string name, string typeMnemonic> : TypeDef<Tgpu_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Tgpu_SharedType : Tgpu_Type<"Shared", "shared"> {
  let summary = "a tile in shared memory";
  let description = [{
    The rank is 1 or 2, the size at most 232448 bytes. The layout is row-major; with a swizzle, it consists of panels of
    32 (`b32`), 64 (`b64`) or 128 (`b128`) bytes along the last dimension, whose 16-byte chunks are permuted as TMA and
    wgmma expect. `none` means that there is no swizzle.

    Example: `!tgpu.shared<128x64xbf16, b128>`
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        "::tilewright::layout::Swizzle":$swizzle);
  let assemblyFormat = "`<` custom<ShapeAndElement>($shape, $elementType) `,` custom<Swizzle>($swizzle) `>`";
  let genVerifyDecl = 1;
}

def Tgpu_RingType : Tgpu_Type<"Ring", "ring"> {
  let summary = "`stages` buffers in shared memory, used in turn";
  let description = [{
    Use k of the ring is its buffer k mod `stages`. 1 to 32 stages.

    Example: `!tgpu.ring<3, <128x64xbf16, b128>>`
  }];
  let parameters = (ins "int64_t":$stages, "::tilewright::tgpu::SharedType":$slot);
  let assemblyFormat = "`<` $stages `,` $slot `>`";
  let genVerifyDecl = 1;
}

def Tgpu_BarriersType : Tgpu_Type<"Barriers", "barriers"> {
  let summary = "one mbarrier for each stage of a ring";
  let description = [{
    1 to 32. Example: `!tgpu.barriers<3>`
  }];
  let parameters = (ins "int64_t":$stages);
  let assemblyFormat = "`<` $stages `>`";
  let genVerifyDecl = 1;
}

def Tgpu_PendingType : Tgpu_Type<"Pending", "pending"> {
  let summary = "a register tile that an asynchronous product is still writing";
  let description = [{
    Loops may carry it, so that a product started in one iteration is waited for in the next.

    Example: `!tgpu.pending<tensor<128x128xf32, #tgpu.wgmma<2>>>`
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tile);
  let assemblyFormat = "`<` $tile `>`";
  let genVerifyDecl = 1;
}

def Tgpu_TensorMapType : Tgpu_Type<"TensorMap", "tensor_map"> {
  let summary = "descriptor of a view for the tensor memory accelerator";
  let description = [{
    The box has one extent, 1 to 256, for each dimension of the view, 1 to 5. Its rows are multiples of 16 bytes, and no
    wider than the swizzle.

    A map may be ragged along a dimension, other than the innermost. It then copies parts of the view: each copy states
    where along that dimension its part begins and how long it is, and no copy accesses anything outside of its part.
    The map takes two dimensions more than the view. For a view of rank 4, it therefore leaves out the first dimension,
    which is not the ragged one, and copies access element 0 of that dimension.

    Example: `!tgpu.tensor_map<1x1x128x64xbf16, b128>`,
    `!tgpu.tensor_map<128x1x64xbf16, b128, ragged 0>`
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$box, "::mlir::Type":$elementType,
                        "::tilewright::layout::Swizzle":$swizzle,
                        DefaultValuedParameter<"int64_t", "-1">:$ragged);
  let assemblyFormat = [{
    `<` custom<ShapeAndElement>($box, $elementType) `,` custom<Swizzle>($swizzle) (`,` `ragged` $ragged^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Copies are of parts of the view along the dimension getRagged().
    bool isRagged() { return getRagged() >= 0; }
    /// The map has no dimension for the first one of the view, of which copies read or write element 0.
    bool leavesOutFirst();
    /// The dimension of the view along which the rows of a buffer run.
    int64_t getRowDim();
  }];
}

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUTYPES_TD
