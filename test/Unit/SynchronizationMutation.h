// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the mutation tests of synchronization share: the description of a kernel, and the fixture.

#ifndef TILEWRIGHT_TEST_UNIT_SYNCHRONIZATIONMUTATION_H
#define TILEWRIGHT_TEST_UNIT_SYNCHRONIZATIONMUTATION_H

#include "SimulatorTesting.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tilewright::synchronization {

/// Reasons why operations are redundant, by their names; "unreached": why some are never executed.
using Reasons = std::map<std::string, std::string>;

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// A launch of one kernel in addition to the two that all kernels get.
struct Launch {
  CallExtents extents;
  std::map<std::string, Argument> scalars = {}; ///< replace the default arguments of a call
  std::map<std::string, double> arrays = {};    ///< likewise for arrays: the value of all elements
};

struct Kernel {
  const char *label;
  const char *name;
  std::string target;
  Pairs params;
  int64_t warps; ///< 0: chosen by the compiler
  CallExtents extents;
  Reasons reasons;
  int mostRedundant; ///< limit for redundant operations that are executed under some mask
  std::vector<Launch> launches = {};
  std::vector<std::string> with = {}; ///< files of kernels/mods
  /// Only checks that all code is executed, without mutants: for bindings with similar code, or
  /// where mutants would take minutes.
  bool isOnlyReached = false;
  std::vector<std::string> schedule = {};
  /// --sums. With "auto", a backward has two kernels for keys, one of which adds the terms of
  /// single heads, not only the one that processes all heads that share a head of K, and a product
  /// has kernels for shares of its loop.
  std::string sums = "whole,unordered,shares=1";
};
inline void PrintTo(const Kernel &kernel, std::ostream *os) { *os << kernel.label; }

class SynchronizationMutationTest
    : public SimulatorTest,
      public testing::WithParamInterface<std::tuple<Kernel, const char *>> {
protected:
  bool isAccepted(mlir::ModuleOp module) {
    mlir::PassManager manager(&context);
    manager.addPass(createTgpuVerifySync());
    return mlir::succeeded(manager.run(module));
  }

  bool runs(SimulatedModule &module, const std::string &entry, llvm::ArrayRef<SimulatedCall> calls,
            const SimulationOptions &options) {
    return llvm::all_of(calls, [&](SimulatedCall copy) {
      return mlir::succeeded(module.run(entry, copy.arguments(), options));
    });
  }

  /// Whether the simulator finds no fault at any time of asynchronous work.
  bool survives(mlir::ModuleOp module, const std::string &entry,
                llvm::ArrayRef<SimulatedCall> calls) {
    SimulatedModule simulated(module);
    SimulationOptions options;
    for (options.seed = 0; options.seed < 20; ++options.seed) {
      // Launches for code that the first two do not reach are long: they run with one seed.
      bool isFirst = options.seed == 0;
      if (!runs(simulated, entry, isFirst ? calls : calls.take_front(2), options))
        return false;
      options.moments = {AsyncMoment::Random}; // the others do not depend on the seed
    }
    return true;
  }

  /// The mapped kernel and its launches. Null after a failure.
  mlir::OwningOpRef<mlir::ModuleOp> makeKernel() {
    const auto &[kernel, mask] = GetParam();
    Params params = kernel.params;
    if (*mask)
      params.push_back({"CAUSAL", mask});
    std::vector<std::string> with;
    for (const std::string &file : kernel.with)
      with.push_back("kernels/mods/" + file + ".mlir");
    auto module = map(std::string(kernel.name) + ".mlir", params, kernel.target, kernel.warps, with,
                      kernel.schedule, kernel.sums);
    if (!module)
      return module;
    CallExtents extents = kernel.extents;
    for (int i = 0; i < 2; ++i) {
      calls.push_back(extents.makeCall(entryArguments, /*window=*/-1));
      std::swap(extents.rows, extents.keys);
    }
    for (const Launch &launch : kernel.launches) {
      SimulatedCall call = launch.extents.makeCall(entryArguments, /*window=*/-1);
      for (const auto &[name, value] : launch.scalars)
        call.scalars.insert_or_assign(name, value);
      for (const auto &[name, value] : launch.arrays)
        call.tensors.at(name).fill([number = value](int64_t) { return number; });
      calls.push_back(std::move(call));
    }
    SimulatedModule simulated(*module);
    for (const SimulatedCall &call : calls) {
      SimulationOptions whole;
      whole.executed = &executed;
      EXPECT_TRUE(runs(simulated, kernel.name, call, whole)) << messages;
    }
    if (HasFailure())
      module = nullptr;
    return module;
  }

  void expectAllReached(mlir::ModuleOp module);

  std::vector<SimulatedCall> calls;
  std::set<unsigned> executed; ///< executed by at least one call
};

inline constexpr const char *kMasks[] = {"none", "top_left", "bottom_right"};

inline const std::string kFirstRound =
    "what is copied before a loop is waited for, fenced and followed by a barrier in its first "
    "round again, before it is read";
inline const std::string kMergedGroups =
    "copies that follow each other, each with a commit, are waited for together: the commit of the "
    "second closes both. And the last round of a loop copies nothing ahead, so that where it is "
    "the only one its commit closes nothing";
inline const std::string kHeadOfRound =
    "a round that writes shared memory begins with a barrier; where a vote or the exchange of a "
    "tile is a barrier as well, it lies between the last read of each buffer and its next write";

inline const Pairs kPacked = {{"PACKED", "true"}};

/// The parameters, overridden by those of `more`.
inline Pairs with(Pairs params, const Pairs &more) {
  for (const auto &[name, value] : more) {
    auto found =
        llvm::find_if(params, [&, wanted = name](const auto &p) { return p.first == wanted; });
    if (found == params.end())
      params.push_back({name, value});
    else
      found->second = value;
  }
  return params;
}

/// A backward with both kernels for keys, and launches for both.
inline Kernel apart(Kernel kernel) {
  kernel.sums = "auto,unordered";
  std::vector<Launch> launches = kernel.launches;
  launches.push_back({kernel.extents});
  for (Launch &launch : launches) {
    launch.extents.keyHeads = 2;
    kernel.launches.push_back(launch);
  }
  return kernel;
}

} // namespace tilewright::synchronization

#endif // TILEWRIGHT_TEST_UNIT_SYNCHRONIZATIONMUTATION_H
