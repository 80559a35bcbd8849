// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Barriers and fences: verifiers.

#include "dialect/Tgpu/Tgpu.h"

using namespace mlir;
using namespace tilewright::tgpu;

LogicalResult AllocBarriersOp::verify() {
  if (static_cast<int64_t>(getArrivals()) < 1 || getArrivals() >= (1u << 20))
    return emitOpError() << "a phase needs 1 to 1048575 arrivals, but got "
                         << static_cast<int64_t>(getArrivals());
  if (getOffset() && *getOffset() % 8 != 0)
    return emitOpError() << "offset of barriers must be a multiple of 8 bytes, but got "
                         << *getOffset();
  return success();
}

LogicalResult ExpectOp::verify() {
  if (static_cast<int64_t>(getBytes()) >= 1 && getBytes() < (1u << 20))
    return success();
  return emitOpError() << "expects 1 to 1048575 bytes, but got " << static_cast<int64_t>(getBytes());
}

LogicalResult NamedBarrierOp::verify() {
  if (static_cast<int64_t>(getWarps()) < 1 || getWarps() > 32)
    return emitOpError() << "1 to 32 warps meet at a named barrier, but got "
                         << static_cast<int64_t>(getWarps());
  // Barrier 0 is that of the whole block.
  if (getId() && (*getId() < 1 || *getId() > 15))
    return emitOpError() << "id of a named barrier must be 1 to 15, but got "
                         << static_cast<int64_t>(*getId());
  return success();
}
