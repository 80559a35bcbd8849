// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which operands products may read from shared memory piece by piece.

#ifndef TILEWRIGHT_PASSES_TGPU_OPERANDREADS_H
#define TILEWRIGHT_PASSES_TGPU_OPERANDREADS_H

#include "dialect/Tgpu/Tgpu.h"

namespace tilewright::tgpu {

/// Whether a product alone uses what is read, as an operand, and nothing between the two can change
/// it: then the product may read it piece by piece, and few registers hold it. It does so where
/// ldmatrix can (elements of 16 bits).
bool isReadByProduct(ReadOp read);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_OPERANDREADS_H
