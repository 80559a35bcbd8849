// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensor maps: what the copy engine of Hopper reads instead of a pointer and strides.

#ifndef TILEWRIGHT_RUNTIME_TENSORMAP_H
#define TILEWRIGHT_RUNTIME_TENSORMAP_H

#include "runtime/DriverTable.h"
#include "runtime/Manifest.h"

namespace tilewright::runtime {

/// The map over a whole view, for a view that satisfies the limits (findRefusal). Absent and empty
/// views give 128 bytes of zero: the driver takes no extent of zero, and a map over no rows is an
/// illegal instruction when it is used.
Status encodeTensorMap(const DriverTable &driver, const TensorMapSpec &spec,
                       const ArgumentSpec &contract, const Argument &view, cuda::TensorMap &map);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_TENSORMAP_H
