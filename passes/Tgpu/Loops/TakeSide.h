// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Branches with known conditions.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_TAKESIDE_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_TAKESIDE_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

namespace tilewright::tgpu {

/// Replaces a branch by the operations of one side; a branch without results may lack the else.
inline void takeSide(mlir::RewriterBase &rewriter, mlir::scf::IfOp branch, bool isThen) {
  mlir::Block *block = isThen ? branch.thenBlock() : branch.elseBlock();
  if (!block)
    return rewriter.eraseOp(branch);
  mlir::Operation *terminator = block->getTerminator();
  llvm::SmallVector<mlir::Value> results(terminator->getOperands());
  rewriter.inlineBlockBefore(block, branch);
  rewriter.replaceOp(branch, results);
  rewriter.eraseOp(terminator);
}

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_TAKESIDE_H
