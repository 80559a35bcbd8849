// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lets warpgroups that exchange a tile run apart by half an iteration.
//
// Where warpgroups write parts of a tile to a scratch ring, and a product reads all of it, a
// barrier in each iteration keeps them together: all compute functions at the same time, and the
// matrix unit has nothing to do. Barriers of the ring's slots replace it, which only say that a
// slot has been written, or read. The product, with what waits for it and hands its result over,
// becomes stage 1, and is issued in the next iteration:
//
//   before   S | P | dS -> slot i                    | dV, meet, dQ(i), dK
//   after    S | P | slot i was read, dS -> slot i   | dQ(i - 1), dV, dK, slot i is written

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_LATEPRODUCTS_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_LATEPRODUCTS_H

#include "dialect/Tgpu/Tgpu.h"

namespace tilewright::tgpu {

/// Gives stage 1 to products of exchanged tiles in loops of a kernel whose operations are all in
/// stage 0. Applies to a ring if all loops of a tile that use it have such a product, and if stage
/// 1 would meet stage 0 in memory alone (ExpandGuarded.h). Other loops stay as they are.
void planLateProducts(KernelOp kernel);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_LATEPRODUCTS_H
