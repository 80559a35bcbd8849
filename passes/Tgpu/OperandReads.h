// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which operands of products never lie in registers as a whole.

#ifndef TILEWRIGHT_PASSES_TGPU_OPERANDREADS_H
#define TILEWRIGHT_PASSES_TGPU_OPERANDREADS_H

#include "dialect/Tgpu/Tgpu.h"

namespace tilewright::tgpu {

/// Whether nothing between a read and the product that alone uses it can change what it reads: then
/// the product reads its operand bit by bit, and few registers hold it.
bool isReadByProduct(ReadOp read);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_OPERANDREADS_H
