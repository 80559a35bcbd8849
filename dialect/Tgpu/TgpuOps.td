// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations of the `tgpu` dialect, by family.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUOPS_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUOPS_TD

include "dialect/Tgpu/TgpuKernelOps.td"
include "dialect/Tgpu/TgpuSyncOps.td"
include "dialect/Tgpu/TgpuCopyOps.td"
include "dialect/Tgpu/TgpuMatrixOps.td"

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUOPS_TD
