// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which bytes of a shared buffer an operation touches, warp by warp, and where the elements of the
// tile lie: from lib/Layout, as code generation has it.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_TILEPATTERNS_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_TILEPATTERNS_H

#include "dialect/Tgpu/Tgpu.h"
#include "lib/Interpreter/Simulator/ShadowMemory.h"
#include "lib/Layout/WgmmaDescriptor.h"

namespace tilewright::simulator {

using Offsets = std::vector<int32_t>; ///< in bytes, of the elements of a tile in row-major order

struct TilePattern {
  Offsets offsets;
  std::vector<Bytes> byWarp;
};

/// A register tile and the buffer that holds it, or its transpose. Of what is written the warps
/// share out what several hold.
Result<TilePattern> patternOf(mlir::RankedTensorType tile, tgpu::SharedType buffer, bool transpose,
                              bool writes);

/// cp.async by the threads of so many warps: chunks in turn.
Result<TilePattern> patternOfCopy(tgpu::SharedType buffer, int64_t warps);

/// Operand of a product on the CUDA cores, which the warp reads whose rows (columns) of `result`
/// need it.
Result<TilePattern> patternOfFmaOperand(mlir::RankedTensorType result, tgpu::SharedType buffer,
                                        bool isB, bool transpose);

/// Operand of a wgmma at an address, read through the descriptors that code generation makes. As
/// [rows, k] or [k, columns]; `byWarp` has one entry for each warpgroup: a is read by row blocks.
Result<TilePattern> patternOfWgmmaOperand(tgpu::SharedType buffer, int64_t address, bool isB,
                                          bool transpose, int64_t warpgroups);

/// One box of a tensor map in a buffer that is made of them.
struct BoxPattern {
  int64_t row, column; ///< of the buffer
  Offsets offsets;     ///< of the box's elements in row-major order, from the start of the window
};
std::vector<BoxPattern> patternOfBoxes(tgpu::TensorMapType map, tgpu::SharedType buffer,
                                       int64_t address);

/// All bytes of the buffer.
Bytes allBytes(tgpu::SharedType buffer);

} // namespace tilewright::simulator

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_TILEPATTERNS_H
