// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The time that an iteration takes of the units of a multiprocessor.

#ifndef TILEWRIGHT_PASSES_TGPU_PLAN_ITERATIONCOSTS_H
#define TILEWRIGHT_PASSES_TGPU_PLAN_ITERATIONCOSTS_H

#include "base/Target/Target.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

struct IterationCosts {
  int64_t products = 0;   ///< number of products by wgmma
  double ofProducts = 0;  ///< clocks of the matrix unit
  double ofFunctions = 0; ///< clocks of the unit of exponentials and other special functions

  /// Of a loop of a mapped kernel, with all loops and branches inside.
  static IterationCosts get(mlir::scf::ForOp loop, const Target &target);
  /// Without the special cases of branches, such as the products of full blocks: an iteration
  /// executes either these or the general ones.
  static IterationCosts getOfGeneral(mlir::scf::ForOp loop, const Target &target);
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_PLAN_ITERATIONCOSTS_H
