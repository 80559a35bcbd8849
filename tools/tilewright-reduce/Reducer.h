// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reduces a module as long as a script finds it interesting.

#ifndef TILEWRIGHT_TOOLS_TILEWRIGHT_REDUCE_REDUCER_H
#define TILEWRIGHT_TOOLS_TILEWRIGHT_REDUCE_REDUCER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Reducer/Tester.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tilewright {

/// Passes only modules that verify to the script. So the tools can parse each file that the script
/// gets, and the error it looks for is that of a pass.
class Reducer {
public:
  Reducer(mlir::OwningOpRef<mlir::ModuleOp> module, const mlir::Tester &tester)
      : module(std::move(module)), tester(tester) {}

  bool isInteresting();
  /// Inlines the files that the module links, since the script gets a file in another folder.
  /// Returns whether there are any and the result is interesting; otherwise the module is
  /// unchanged.
  bool linkFiles(llvm::StringRef source);
  /// Reduces until no single change keeps the module interesting. Precondition: isInteresting().
  /// `progress` is called before each test with the number of remaining operations.
  void run(llvm::function_ref<void(unsigned ops, unsigned tests)> progress);

  mlir::ModuleOp getModule() { return *module; }
  unsigned getNumTests() const { return numTests; }
  /// The number of operations in the module, without the module itself.
  static unsigned countOps(mlir::ModuleOp module);

private:
  /// Applies a change to a clone, which replaces the module if the change applies and the clone
  /// verifies and is interesting. `change` gets the clone's operations in pre-order and returns
  /// whether it applies.
  using Change = llvm::function_ref<bool(llvm::ArrayRef<mlir::Operation *>)>;
  bool attempt(Change change);
  bool runPasses(llvm::function_ref<void(mlir::OpPassManager &)> add, bool mayGrow);
  bool dropOps();
  bool simplifyOps();
  bool dropDeclarations();

  mlir::OwningOpRef<mlir::ModuleOp> module;
  const mlir::Tester &tester;
  unsigned numTests = 0;
  llvm::function_ref<void(unsigned, unsigned)> progress = nullptr; ///< during run()
};

} // namespace tilewright

#endif // TILEWRIGHT_TOOLS_TILEWRIGHT_REDUCE_REDUCER_H
