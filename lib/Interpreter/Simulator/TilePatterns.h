// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The bytes of a shared buffer that an operation accesses, warp by warp, and the locations of the
// tile's elements: from base/Layout, as in code generation.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_TILEPATTERNS_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_TILEPATTERNS_H

#include "base/Layout/WgmmaDescriptor.h"
#include "dialect/Tgpu/Tgpu.h"
#include "lib/Interpreter/Simulator/ShadowMemory.h"

namespace tilewright::simulator {

using Offsets = std::vector<int32_t>; ///< in bytes, for the elements of a tile in row-major order

struct TilePattern {
  Offsets offsets;
  std::vector<Bytes> byWarp;
};

/// A register tile and the buffer that holds it, or its transpose. For a write, warps that hold the
/// same elements share the bytes.
Result<TilePattern> patternOf(mlir::RankedTensorType tile, tgpu::SharedType buffer, bool transpose,
                              bool writes);

/// cp.async by the threads of that many warps, which take chunks in turn.
Result<TilePattern> patternOfCopy(tgpu::SharedType buffer, int64_t warps);

/// An operand of a product on the CUDA cores. Each warp reads the rows (columns) that its part of
/// `result` needs.
Result<TilePattern> patternOfFmaOperand(mlir::RankedTensorType result, tgpu::SharedType buffer,
                                        bool isB, bool transpose);

/// A wgmma operand at an address, read through the descriptors of code generation. As [rows, k] or
/// [k, columns]; `byWarp` has one entry per warpgroup, since a is read by row blocks.
Result<TilePattern> patternOfWgmmaOperand(tgpu::SharedType buffer, int64_t address, bool isB,
                                          bool transpose, int64_t warpgroups);

/// One box of a tensor map, in a buffer made of such boxes.
struct BoxPattern {
  int64_t row, column; ///< position in the buffer
  Offsets offsets;     ///< of the box's elements in row-major order, from the start of the window
};
std::vector<BoxPattern> patternOfBoxes(tgpu::TensorMapType map, tgpu::SharedType buffer,
                                       int64_t address);

/// All bytes of the buffer.
Bytes allBytes(tgpu::SharedType buffer);

} // namespace tilewright::simulator

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_TILEPATTERNS_H
