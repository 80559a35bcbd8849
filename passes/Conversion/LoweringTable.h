// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which function lowers which operation. Internal to convert-tgpu-to-nvvm.
//
// Each Emit*.cpp file lowers a family of operations and registers its functions here. To lower a
// new operation, write a function that takes the emitter and the operation, and register it with
// the others of the file.

#ifndef TILEWRIGHT_PASSES_CONVERSION_LOWERINGTABLE_H
#define TILEWRIGHT_PASSES_CONVERSION_LOWERINGTABLE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringMap.h"

#include <functional>
#include <type_traits>

namespace tilewright::tgpu {

class KernelEmitter;

class LoweringTable {
public:
  /// Emits the code of an operation. Fails with a diagnostic.
  using Lowering = std::function<mlir::LogicalResult(KernelEmitter &, mlir::Operation *)>;

  /// `lower` takes the emitter and an OpTy, and returns a LogicalResult, or nothing if it cannot
  /// fail.
  template <typename OpTy, typename LowerT> void add(LowerT lower) {
    operations[OpTy::getOperationName()] = [lower](KernelEmitter &e,
                                                   mlir::Operation *op) -> mlir::LogicalResult {
      if constexpr (std::is_void_v<std::invoke_result_t<LowerT, KernelEmitter &, OpTy>>) {
        lower(e, mlir::cast<OpTy>(op));
        return mlir::success();
      } else {
        return lower(e, mlir::cast<OpTy>(op));
      }
    };
  }
  /// For the operations of a dialect without separate functions.
  template <typename DialectT> void addDialect(Lowering lower) {
    dialects[DialectT::getDialectNamespace()] = std::move(lower);
  }

  /// Null if there is none.
  const Lowering *find(mlir::Operation *op) const;

private:
  llvm::StringMap<Lowering> operations, dialects;
};

/// All lowerings.
const LoweringTable &getLowerings();

void registerAddAtLowerings(LoweringTable &table);
void registerBarrierLowerings(LoweringTable &table);
void registerCastLowerings(LoweringTable &table);
void registerControlLowerings(LoweringTable &table);
void registerCopyLowerings(LoweringTable &table);
void registerDebugLowerings(LoweringTable &table);
void registerElementwiseLowerings(LoweringTable &table);
void registerGatherLowerings(LoweringTable &table);
void registerGridLowerings(LoweringTable &table);
void registerLoadLowerings(LoweringTable &table);
void registerMatrixLowerings(LoweringTable &table);
void registerNextTileLowerings(LoweringTable &table);
void registerOrderLowerings(LoweringTable &table);
void registerRaiseMaxLowerings(LoweringTable &table);
void registerRandomLowerings(LoweringTable &table);
void registerReduceLowerings(LoweringTable &table);
void registerRoleLowerings(LoweringTable &table);
void registerSharedLowerings(LoweringTable &table);
void registerStoreLowerings(LoweringTable &table);
void registerTileLowerings(LoweringTable &table);
void registerTmaLowerings(LoweringTable &table);
void registerTurnLowerings(LoweringTable &table);
void registerViewLowerings(LoweringTable &table);
void registerWgmmaLowerings(LoweringTable &table);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_LOWERINGTABLE_H
