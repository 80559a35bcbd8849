// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Determines the operands that products may read from shared memory piecewise.

#ifndef TILEWRIGHT_PASSES_TGPU_ANALYSIS_OPERANDREADS_H
#define TILEWRIGHT_PASSES_TGPU_ANALYSIS_OPERANDREADS_H

#include "dialect/Tgpu/Tgpu.h"

namespace tilewright::tgpu {

/// Whether the read has one use, as a product's operand, and no operation between the two can
/// change the buffer. The product may then read it piecewise into few registers. It does so where
/// ldmatrix can read it (16-bit elements).
bool isReadByProduct(ReadOp read);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ANALYSIS_OPERANDREADS_H
