// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The lowerings of all families.

#include "passes/Conversion/LoweringTable.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

const LoweringTable::Lowering *LoweringTable::find(Operation *op) const {
  if (auto found = operations.find(op->getName().getStringRef()); found != operations.end())
    return &found->second;
  auto found = dialects.find(op->getName().getDialectNamespace());
  return found == dialects.end() ? nullptr : &found->second;
}

const LoweringTable &tgpu::getLowerings() {
  static const LoweringTable table = [] {
    LoweringTable table;
    registerAddAtLowerings(table);
    registerBarrierLowerings(table);
    registerCastLowerings(table);
    registerControlLowerings(table);
    registerCopyLowerings(table);
    registerDebugLowerings(table);
    registerElementwiseLowerings(table);
    registerGatherLowerings(table);
    registerGridLowerings(table);
    registerLoadLowerings(table);
    registerMatrixLowerings(table);
    registerNextTileLowerings(table);
    registerOrderLowerings(table);
    registerRaiseMaxLowerings(table);
    registerRandomLowerings(table);
    registerReduceLowerings(table);
    registerRoleLowerings(table);
    registerSharedLowerings(table);
    registerStoreLowerings(table);
    registerTileLowerings(table);
    registerTmaLowerings(table);
    registerTurnLowerings(table);
    registerViewLowerings(table);
    registerWgmmaLowerings(table);
    return table;
  }();
  return table;
}
