// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simulator: runs kernels of tgpu on a simulated thread block and reports faults that may occur
// on a GPU. docs/design/verification.md describes its guarantees and limits.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SIMULATE_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SIMULATE_H

#include "lib/Interpreter/Argument.h"
#include "lib/Interpreter/Simulator/SimulationOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <memory>

namespace tilewright {

/// Runs the tgpu.kernel or the tile.program `entry` of the module, all of whose kernels are of tgpu
/// and planned (tgpu-plan-shared-memory). The module is not changed. Arguments as for runOnCpu.
/// Every fault is a diagnostic at an operation of the module: an access to shared memory that is
/// not ordered after another one or to which that one is not visible, a deadlock, inconsistent
/// arrivals or bytes, a phase that a warp may miss, a product read too early, asynchronous work
/// incomplete at the end.
mlir::LogicalResult simulate(mlir::ModuleOp module, llvm::StringRef entry,
                             const llvm::StringMap<Argument> &arguments,
                             const SimulationOptions &options = {});

/// The same for several runs of a module, which is compiled once. It must not change meanwhile.
class SimulatedModule {
public:
  explicit SimulatedModule(mlir::ModuleOp module);
  ~SimulatedModule();
  mlir::LogicalResult run(llvm::StringRef entry, const llvm::StringMap<Argument> &arguments,
                          const SimulationOptions &options = {});

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SIMULATE_H
