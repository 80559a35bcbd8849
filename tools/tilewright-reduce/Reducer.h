// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes a module smaller as long as a script finds it interesting.

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

/// Only modules that verify are shown to the script. So a file that the script is given is one that
/// the tools parse, and an error that it looks for is that of a pass.
class Reducer {
public:
  Reducer(mlir::OwningOpRef<mlir::ModuleOp> module, const mlir::Tester &tester)
      : module(std::move(module)), tester(tester) {}

  bool isInteresting();
  /// Takes in the files that the module links, since the script is given a file in another folder.
  /// Whether there are any, and the module with them is interesting; else it is left as it is.
  bool linkFiles();
  /// Until no single change is left that keeps the module interesting. Precondition:
  /// isInteresting(). `progress` is told before each test how many operations are left.
  void run(llvm::function_ref<void(unsigned ops, unsigned tests)> progress);

  mlir::ModuleOp getModule() { return *module; }
  unsigned getNumTests() const { return numTests; }
  /// Operations in the module, itself left out.
  static unsigned countOps(mlir::ModuleOp module);

private:
  /// Changes a copy; takes it for the module if the change applies, the copy verifies and is
  /// interesting. `change` gets the copy's operations in pre-order, and returns whether it applies.
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
