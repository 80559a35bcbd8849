// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the code of a kernel sums, which a user may want to know before a run.

#ifndef TILEWRIGHT_LIB_BUNDLE_KERNELSUMS_H
#define TILEWRIGHT_LIB_BUNDLE_KERNELSUMS_H

#include "base/Numeric/ElementType.h"
#include "dialect/Tgpu/Tgpu.h"

namespace tilewright {

/// The types in which products are summed, each once, in the order of the code.
std::vector<ElementType> getSumTypes(tgpu::KernelOp kernel);

/// Whether instances add floats to memory in an order that nothing defines.
bool addsInAnyOrder(tgpu::KernelOp kernel);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_BUNDLE_KERNELSUMS_H
