// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks of random numbers that two lanes share. Internal to convert-tgpu-to-nvvm.
//
// A thread that holds all elements whose numbers are in one block of Philox4x32 draws the block
// once. In a transposed product, half of the numbers of a block belong to another lane: numbers of
// 16 bits, of which a lane needs all upper halves of words, or all lower halves. But each thread
// then has pairs of registers that differ in one bit of their position only, and need the same part
// of two blocks. So one lane draws one block, the other lane the other, and they exchange halves:
//
//                          lane l                     lane l ^ (1 << bit)
//     draws                block of register r        block of register r'
//     keeps                its lower halves           its upper halves
//     passes               its upper halves           its lower halves
//     has after that       the lower halves of both   the upper halves of both
//
// Half of the blocks, for a shuffle of four numbers.

#ifndef TILEWRIGHT_PASSES_CONVERSION_LANEDRAWS_H
#define TILEWRIGHT_PASSES_CONVERSION_LANEDRAWS_H

#include "passes/Conversion/KernelEmitter.h"

namespace tilewright::tgpu {

struct LaneDraws {
  /// A pair of blocks, and the registers that need numbers of them.
  struct Pair {
    int reg = 0; ///< one that needs a number of the first block
    struct Number {
      int reg = 0;
      bool isSecond = false; ///< in the second block
      int word = 0;
    };
    llvm::SmallVector<Number, 8> numbers;
  };

  tile::RandomOp random;
  int laneBit = 0; ///< lanes that differ in it draw for each other
  /// The bits of the counters c0, c1, c2 that are set in the second block and not in the first.
  std::array<uint32_t, 3> second = {0, 0, 0};
  llvm::SmallVector<Pair> pairs;
  /// The operands of the map from which the numbers follow.
  llvm::SmallVector<mlir::Value> operands;
};

/// How the threads of a map can draw the numbers of the tile.random in its function together; none
/// if this saves nothing, or is not known to be right.
std::optional<LaneDraws> findLaneDraws(KernelEmitter &e, tile::MapOp map);

/// The number for each register of the map, drawn for an earlier map or now; only the uppermost 16
/// bits are defined. `getArguments` gives the arguments of the function for a register.
mlir::FailureOr<Values>
drawTogether(KernelEmitter &e, tile::MapOp map, const LaneDraws &draws,
             llvm::function_ref<llvm::SmallVector<Values>(int reg)> getArguments);

/// What a tile.random in a mapped function does while the function is emitted; others draw.
struct RandomOverride {
  mlir::Operation *random = nullptr; ///< which one
  mlir::Value number;                ///< the result to take
  /// Where to leave the operands instead of drawing.
  llvm::SmallVector<mlir::Value> *operands = nullptr;
};

/// The four words of a block of Philox4x32. `counters`: c0 without the number in the block, c1, c2.
std::array<mlir::Value, 4> drawBlock(ThreadBuilder &b, mlir::Value seed, mlir::Value offset,
                                     std::array<mlir::Value, 3> counters, int64_t rounds);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_LANEDRAWS_H
