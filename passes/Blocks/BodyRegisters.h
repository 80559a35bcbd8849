// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An estimate of the registers of a loop whose program adds gradients of captures.

#ifndef TILEWRIGHT_PASSES_BLOCKS_BODYREGISTERS_H
#define TILEWRIGHT_PASSES_BLOCKS_BODYREGISTERS_H

#include "passes/Blocks/KernelQuery.h"

namespace tilewright {

/// Of the attribute `blocks` of a kernel: blocks that need fewer registers, as text.
constexpr llvm::StringLiteral fewerRegistersName = "without_spills";

/// What a thread holds in an iteration of a loop with products, besides the scalars that every loop
/// has. A pair is an element of a tile of the loop's rows by its step.
struct BodyRegisters {
  int64_t sums = 0;    ///< sums of products that the loop carries
  int64_t width = 0;   ///< columns of a sum
  double ofPair = 0;   ///< for each pair
  int64_t uniform = 0; ///< for values that are the same for all pairs
  int64_t work = 0;    ///< BlockQuery::work
  /// Threads share blocks of random numbers if the step is a power of two.
  bool isRandom = false;
  bool addsGradients = false; ///< an iteration adds gradients of captures

  static BodyRegisters get(const ExaminedKernel &kernel, const BlockQuery &query,
                           const Bindings &bindings);

  /// The elements of a tile of so many rows that a thread has, in the warpgroups that share them.
  static double each(int64_t rows, int64_t columns);

  /// The registers of a thread.
  double count(int64_t rows, int64_t step) const;

  /// The greatest step, up to the given one, whose registers a thread of a role has, or the least
  /// step.
  int64_t fit(int64_t rows, int64_t step) const;

  /// The same, but less than the given step, if there is one: for code that spills nevertheless.
  int64_t fitBelow(int64_t rows, int64_t step) const;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_BLOCKS_BODYREGISTERS_H
