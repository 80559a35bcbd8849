// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads of operands, and the operations between them and their product.

#include "passes/Tgpu/Analysis/OperandReads.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tilewright;

bool tgpu::isReadByProduct(ReadOp read) {
  if (!read.getResult().hasOneUse())
    return false;
  auto product = dyn_cast<MmaOp>(*read.getResult().user_begin());
  if (!product || product.getAcc() == read.getResult() || product->getBlock() != read->getBlock())
    return false;
  for (Operation *between = read->getNextNode(); between != product;
       between = between->getNextNode())
    if (!isa<ReadOp>(between) && !isMemoryEffectFree(between))
      return false;
  return true;
}
