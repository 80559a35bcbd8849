// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A cost model of a loop with products, which chooses blocks for structures without a row in the
// table of blocks.

#ifndef TILEWRIGHT_PASSES_BLOCKS_BLOCKMODEL_H
#define TILEWRIGHT_PASSES_BLOCKS_BLOCKMODEL_H

#include "passes/Blocks/KernelQuery.h"

namespace tilewright {

/// The extents that the model prefers; 0 where the structure has no such extent.
struct ModelChoice {
  int64_t rows = 0, columns = 0, step = 0;
  double clocks = 0; ///< of a multiprocessor, for an element of the loop's results
};

/// The best legal blocks by the model. Parameters that `bindings` has keep their values. Nothing if
/// the model does not apply: not a GPU, operands that are not 16 bits, extents that are not known,
/// or no blocks that fit.
std::optional<ModelChoice> chooseByModel(const ExaminedKernel &kernel, const Bindings &bindings,
                                         const BlockQuery &query);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_BLOCKS_BLOCKMODEL_H
