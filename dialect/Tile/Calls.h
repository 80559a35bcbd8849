// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions that a kernel or a function uses, and the size of a kernel when every function is
// compiled separately for each call, as on all devices.

#ifndef TILEWRIGHT_DIALECT_TILE_CALLS_H
#define TILEWRIGHT_DIALECT_TILE_CALLS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace tilewright::tile {

/// Operations of a kernel on every device, counting a function once for each call of it.
inline constexpr uint64_t kMostOperations = uint64_t(1) << 18;

/// One mention of a function: by a call, or by an operation that applies it (tile.map, a mask).
struct FunctionUse {
  mlir::func::FuncOp function;
  mlir::Operation *user;
};

/// The calls of a module, which must not change during the lifetime of the object. Everything is
/// computed once and without recursion, since chains of calls may be long.
class Calls {
public:
  explicit Calls(mlir::ModuleOp module) : module(module), symbols(module) {}

  /// The functions that a kernel or a function uses, in the order of its text.
  llvm::ArrayRef<FunctionUse> getUses(mlir::Operation *op) { return getNode(op).uses; }

  /// Operations of a kernel or a function, and for each use of a function those of the function.
  /// The largest 64-bit number where there are more. A call that closes a cycle counts as nothing.
  uint64_t getSize(mlir::Operation *op);

  /// Rejects functions that call each other in a cycle.
  mlir::LogicalResult checkCycles();

  /// Rejects a kernel or a function of more than kMostOperations, at the function that alone has
  /// too many, if there is one.
  mlir::LogicalResult checkSize(mlir::Operation *op);

private:
  struct Node {
    enum class State { New, Active, Done } state = State::New;
    llvm::SmallVector<FunctionUse> uses;
    uint64_t size = 0; ///< own operations until the node is done
  };
  Node &getNode(mlir::Operation *op);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  llvm::DenseMap<mlir::Operation *, std::unique_ptr<Node>> nodes;
};

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_CALLS_H
