// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of a round in which the matrix unit and the other units work side by side, without
// reaching into the next round.

#ifndef TILEWRIGHT_PASSES_TGPU_ORDERROUND_H
#define TILEWRIGHT_PASSES_TGPU_ORDERROUND_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// An operation of a round, and its stage: 0 for what belongs to the next round.
struct OrderedOp {
  mlir::Operation *op;
  int64_t stage;
};

/// Whether a round has an order of its own: several wgmmas, and nothing whose place is not known.
bool canOrderRound(mlir::scf::ForOp loop);

/// The operations of a loop that has one in the order of skeleton *side by side*. Products are
/// issued as early as their operands allow, and waited for as late as possible; one whose result is
/// only carried to the next round is kept back until the matrix unit would have nothing to do while
/// the result of another is used:
///
///   issue S, dP | wait S | P | issue dV, wait dP | dS, to shared memory | issue dQ, dK, wait dQ |
///   dQ to its ring | wait dV, dK
///
/// With `ahead` the first product is issued in the round before, if it needs but what roles copy:
///
///   issue dP | P | issue dV, wait dP | dS, to shared memory, issue dK | issue dQ, next S, wait dQ
///   | dQ to its ring | wait next S
///
/// A short row that is used with the first product, such as LSE, is read when that is issued: warps
/// wait for it anyway. Accesses to shared memory that the loop writes keep their order, with the
/// barriers between them, and so do stores to global memory. Products that are summed up in one
/// accumulator are issued one behind the other, and waited for once. May clone slots, which every
/// stage has its own of.
llvm::SmallVector<OrderedOp> orderRound(mlir::scf::ForOp loop, bool ahead);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ORDERROUND_H
