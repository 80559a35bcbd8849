// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations on elements that several families of lowerings use. Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_ELEMENTOPS_H
#define TILEWRIGHT_PASSES_CONVERSION_ELEMENTOPS_H

#include "base/Layout/RegisterLayout.h"
#include "dialect/Tile/Tile.h"
#include "passes/Conversion/ThreadBuilder.h"

namespace tilewright::tgpu {

inline bool isFloat8(mlir::Type type) {
  return mlir::isa<mlir::FloatType>(type) && type.getIntOrFloatBitWidth() == 8;
}
/// Converts between element types of tiles; 8-bit floats have their own types. `hasFloat8`: by the
/// instructions that convert pairs of them.
Values castElements(ThreadBuilder &b, mlir::ArrayRef<mlir::Value> source, mlir::Type from,
                    mlir::Type to, bool hasFloat8 = false, bool saturates = false);
mlir::Value combine(ThreadBuilder &b, tile::ReduceKind kind, mlir::Value x, mlir::Value y);
/// A shuffle between the lanes of a warp: `mode` is "bfly" or "idx", `other` the mask or the lane.
mlir::Value shuffle(ThreadBuilder &b, llvm::StringRef mode, mlir::Value value, mlir::Value other);
/// The registers of `from` in the order of `to`, if threads only need to rename registers.
std::optional<std::vector<int>> getRenaming(const layout::RegisterLayout &from,
                                            const layout::RegisterLayout &to);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_ELEMENTOPS_H
