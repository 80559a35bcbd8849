// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
namespace tilewright {
#define GEN_PASS_DEF_TILEANALYZEMASKS
#include "passes/Passes.h.inc"
namespace {
struct P : impl::TileAnalyzeMasksBase<P> {
  using TileAnalyzeMasksBase::TileAnalyzeMasksBase;
  void runOnOperation() override {}
};
}
}
