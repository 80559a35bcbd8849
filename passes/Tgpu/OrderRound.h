// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of a round in which the matrix unit and the other units work side by side, without
// reaching into the next round.

#ifndef TILEWRIGHT_PASSES_TGPU_ORDERROUND_H
#define TILEWRIGHT_PASSES_TGPU_ORDERROUND_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// The operations of a loop of several wgmmas in the order of skeleton *side by side*; empty where
/// the loop has none. Products are issued as early as their operands allow, and waited for as late
/// as possible; one whose result is only carried to the next round is kept back until the matrix
/// unit would have nothing to do while the result of another is used:
///
///   issue S, dP | wait S | P | issue dV, wait dP | dS, to shared memory | issue dQ, dK, wait dQ |
///   dQ to its ring | wait dV, dK
///
/// Accesses to shared memory that the loop writes keep their order, with the barriers between them.
llvm::SmallVector<mlir::Operation *> orderRound(mlir::scf::ForOp loop);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ORDERROUND_H
