// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The threads of a role that execute it.

#include "passes/Conversion/RoleThreads.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tilewright::tgpu;

bool tilewright::tgpu::isForOneThread(Region &role) {
  auto roles = cast<RolesOp>(role.getParentOp());
  bool isWarp = roles.getWarps()[role.getRegionNumber()] == 1;
  WalkResult result = role.walk([=](Operation *op) {
    bool hasTile = llvm::any_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
    bool isScalar = !hasTile && (isMemoryEffectFree(op) || isa<tile::AtOp>(op));
    bool isControl = isa<scf::ForOp, scf::IfOp, scf::WhileOp, scf::ConditionOp, scf::YieldOp>(op);
    bool isCopy = isa<AcquireOp, WaitOp, ExpectOp, TmaLoadOp, BulkLoadOp, TmaStoreOp,
                      TmaReduceAddOp, BulkCommitOp, BulkWaitOp, TakeTileOp, GetTileOp, PublishOp,
                      ReceiveOp, AwaitTurnOp, EndTurnOp>(op);
    isCopy &= !isCopyPerWarpgroup(op);
    auto arrive = dyn_cast<ArriveOp>(op);
    bool isArrival = arrive && (arrive.getPer() == ArriveScope::Role ||
                                (arrive.getPer() == ArriveScope::Warp && isWarp));
    return isScalar || isControl || isCopy || isArrival ? WalkResult::advance()
                                                        : WalkResult::interrupt();
  });
  return !result.wasInterrupted() && !role.front().empty();
}
