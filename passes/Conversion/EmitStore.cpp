// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles from registers to global memory.
//
// The code of a store has two branches: vectors, if strides, pointer and indices allow them (one
// test for the whole block), and elements.

#include "passes/Conversion/GlobalAccess.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/ThreadCoords.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

static void emitStore(KernelEmitter &e, StoreOp op) {
  ThreadBuilder &b = e.b;
  const RegisterLayout &layout = *e.getLayout(op, op.getValue().getType());
  ViewRegion region = getRegion(e, op, op.getValue());
  Values elements = e.getElements(op.getValue());
  Value condition = b.conjunction(region.inside, isCanonicalThread(b, layout));
  auto storeAll = [&](int64_t vector) {
    forEachRun(b, region, layout, vector, condition, [&](int reg, Value address, Value inside) {
      if (isCanonicalRegister(layout, reg))
        storeGlobal(b, address, inside, ArrayRef(elements).slice(reg, vector));
    });
  };
  int64_t vector =
      elements.front().getType().isInteger(1) ? 1 : getRunLength(layout, region.view.bytes);
  if (vector == 1) {
    storeAll(1);
    return;
  }
  auto branch = scf::IfOp::create(b, TypeRange(), isVectorizable(e, region, vector),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  for (auto [block, length] :
       {std::pair(branch.thenBlock(), vector), std::pair(branch.elseBlock(), int64_t(1))}) {
    b.setInsertionPointToEnd(block);
    storeAll(length);
    scf::YieldOp::create(b);
  }
}

void tgpu::registerStoreLowerings(LoweringTable &table) { table.add<StoreOp>(emitStore); }
