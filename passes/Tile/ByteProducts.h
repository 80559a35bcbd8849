// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of 8-bit operands that a target multiplies as they are.

#ifndef TILEWRIGHT_PASSES_TILE_BYTEPRODUCTS_H
#define TILEWRIGHT_PASSES_TILE_BYTEPRODUCTS_H

#include "dialect/Tile/Tile.h"

namespace tilewright {

class Target;

/// Whether wgmma multiplies 8-bit operands as they are: it takes bytes only along k, and its sums
/// are exact enough for four instructions (docs/design/tgpu.md), without an accumulator.
/// `warps` is the number that the user wants, or 0. `withSum` asks of the product alone, whether or
/// not it has an accumulator.
bool isProductOfBytes(tile::DotOp dot, const Target &target, int64_t warps, bool withSum = false);

/// If the rows of two loaded tiles of bytes are too long for one sum, replaces their product by the
/// sum of products of parts of the rows, each of which is loaded by itself. Does nothing if a part
/// would not be a product of bytes.
void divideDepth(tile::DotOp dot, const Target &target);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_BYTEPRODUCTS_H
