// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of an iteration in which the matrix unit and the other units overlap, without overlap
// between iterations.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_ORDERROUND_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_ORDERROUND_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// An operation and its stage: 0 if it belongs to the next iteration.
struct OrderedOp {
  mlir::Operation *op;
  int64_t stage;
};

/// Whether an order can be computed: there are several wgmmas, and the dependences of all
/// operations are known.
bool canOrderRound(mlir::scf::ForOp loop);

/// Returns the operations of such a loop in the order of skeleton *side by side*. Products are
/// issued as early as their operands allow and waited for as late as possible. A product whose
/// result is only carried to the next iteration is kept back until the matrix unit would be idle
/// while the result of another product is used. If warps exchange what they compute from products,
/// one is kept for the barrier:
///
///   issue S, dP | wait S | P | wait dP | dS, to shared memory | issue dV | barrier |
///   issue dQ, dK | wait dQ | dQ to its ring | wait dV, dK
///
/// With `ahead`, the previous iteration issues the first product, if it needs only copied operands,
/// and a kept product is issued while the result of another is used, and before a barrier.
///
/// A short row that is used with the first product, such as LSE, is read when that product is
/// issued, since warps wait for it anyway. Accesses to shared memory that the loop writes keep
/// their order, with the barriers between them, as do stores to global memory. Products into one
/// accumulator are issued consecutively and waited for once. May clone slots, since each stage
/// needs its own.
llvm::SmallVector<OrderedOp> orderRound(mlir::scf::ForOp loop, bool ahead);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_ORDERROUND_H
