// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shipped kernels under each mask, with two heads of queries for each of keys and one
// synchronisation less: what every compilation checks (tgpu-verify-sync) refuses them, or else the
// simulator finds a fault. What neither finds, at three moments and with twenty seeds, is not
// needed, and the reason is here.

#include "SimulatorTesting.h"

#include "lib/Interpreter/Simulator/Mutations.h"

#include <set>
#include <tuple>

namespace tilewright {
namespace {

/// Why operations may be missing, by their names; "unreached": why some are never executed.
using Reasons = std::map<std::string, std::string>;

struct Kernel {
  const char *label;
  const char *name;
  std::string target;
  std::vector<std::pair<std::string, std::string>> params;
  int64_t warps; ///< 0: chosen
  CallExtents extents;
  Reasons reasons;
  int mostRedundant; ///< of operations that are executed, under any mask
};
void PrintTo(const Kernel &kernel, std::ostream *os) { *os << kernel.label; }

class SynchronisationMutationTest
    : public SimulatorTest,
      public testing::WithParamInterface<std::tuple<Kernel, const char *>> {
protected:
  bool isAccepted(mlir::ModuleOp module) {
    mlir::PassManager manager(&context);
    manager.addPass(createTgpuVerifySync());
    return mlir::succeeded(manager.run(module));
  }

  bool runs(mlir::ModuleOp module, const std::string &entry, llvm::ArrayRef<SimulatedCall> calls,
            const SimulationOptions &options) {
    return llvm::all_of(calls, [&](SimulatedCall copy) {
      return mlir::succeeded(simulate(module, entry, copy.arguments(), options));
    });
  }

  /// Whether the simulator finds nothing, whenever asynchronous work is done.
  bool survives(mlir::ModuleOp module, const std::string &entry,
                llvm::ArrayRef<SimulatedCall> calls) {
    SimulationOptions options;
    for (options.seed = 0; options.seed < 20; ++options.seed) {
      if (!runs(module, entry, calls, options))
        return false;
      options.moments = {AsyncMoment::Random}; // the others do not depend on the seed
    }
    return true;
  }
};

TEST_P(SynchronisationMutationTest, EverySynchronisationIsMissed) {
  const auto &[kernel, mask] = GetParam();
  Params params = kernel.params;
  params.push_back({"CAUSAL", mask});
  auto module = map(std::string(kernel.name) + ".mlir", params, kernel.target, kernel.warps);
  ASSERT_TRUE(module);
  std::vector<SimulatedCall> calls;
  CallExtents extents = kernel.extents;
  for (int i = 0; i < 2; ++i) {
    calls.push_back(extents.makeCall(entryArguments, /*window=*/-1));
    std::swap(extents.rows, extents.keys);
  }
  ASSERT_TRUE(isAccepted(*module)) << messages;
  std::set<unsigned> executed;
  for (const SimulatedCall &call : calls) {
    SimulationOptions whole;
    whole.executed = &executed;
    ASSERT_TRUE(runs(*module, kernel.name, call, whole)) << messages;
  }

  std::vector<Mutation> mutations = listMutations(*module);
  int numRefused = 0, numFound = 0, numRedundant = 0, numUnreached = 0;
  std::string redundant;
  for (const Mutation &mutation : mutations) {
    messages.clear();
    auto mutant = mutate(*module, mutation);
    if (!isAccepted(*mutant)) {
      ++numRefused;
      continue;
    }
    bool isReached = executed.count(mutation.number) != 0;
    if (isReached && !survives(*mutant, kernel.name, calls)) {
      ++numFound;
      continue;
    }
    ++(isReached ? numRedundant : numUnreached);
    std::string name =
        isReached ? findMutated(*module, mutation)->getName().getStringRef().str() : "unreached";
    EXPECT_TRUE(kernel.reasons.count(name)) << "survives: " << describe(*module, mutation)
                                            << (isReached ? "" : ", which is never executed");
    if (isReached)
      redundant += "\n  " + describe(*module, mutation);
  }
  EXPECT_LE(numRedundant, kernel.mostRedundant) << "survive:" << redundant;
  std::printf("%s under %s: %zu mutants, %d refused by tgpu-verify-sync, %d found by the "
              "simulator, %d redundant, %d never executed\n",
              kernel.label, mask, mutations.size(), numRefused, numFound, numRedundant,
              numUnreached);
}

const std::string kMergedGroups =
    "copies that follow each other, each with a commit, are waited for together: the commit of the "
    "second closes both. And the last round of a loop copies nothing ahead, so that where it is "
    "the only one its commit closes nothing";
const std::string kFirstRound =
    "what is copied before a loop is waited for, fenced and followed by a barrier in its first "
    "round again, before it is read";
const std::string kNoWindow =
    "without a window no mask begins behind the first key (query) of the loop, so the first of the "
    "three parts of a block loop, that of masked blocks before the full ones, is empty; without "
    "any mask, the last part has the partial block alone";
const Reasons kForward = {{"tgpu.copy_commit", kMergedGroups},
                          {"tgpu.copy_wait", kFirstRound},
                          {"tgpu.sync", kFirstRound},
                          {"tgpu.fence_async", kFirstRound},
                          {"unreached", kNoWindow}};
/// With roles.
const Reasons kForwardRoles = {
    {"tgpu.arrive", "a tile without keys gives Q back in a branch of its own; such tiles are the "
                    "last of these launches, so that no copy waits for it"},
    {"unreached", kNoWindow}};
const std::string kHeadOfRound =
    "a round that writes shared memory begins with a barrier; where a vote or the exchange of a "
    "tile is a barrier as well, it lies between the last read of each buffer and its next write";
const Reasons kBackward = {{"tgpu.copy_commit", kMergedGroups},
                           {"tgpu.copy_wait", kFirstRound},
                           {"tgpu.sync", kFirstRound + "; " + kHeadOfRound},
                           {"tgpu.fence_async", kFirstRound},
                           {"unreached", kNoWindow}};

const std::string kLastGroup =
    "results that leave one after the other are waited for together, at the end: the commit of the "
    "second closes both groups";
const Reasons kBackwardRoles = {{"tgpu.bulk_commit", kLastGroup},
                                {"tgpu.sync", kHeadOfRound},
                                {"unreached", kNoWindow + "; roles have a loop, kept short, for "
                                                          "masks whose ranges promise nothing"}};

/// Results leave through an operand's buffer, which is given back when the copies have read it.
const Reasons kBackwardWide = {
    {"tgpu.bulk_wait", "at the end of a role: each tile has waited for its copies already"},
    {"tgpu.acquire", "of the number of a tile: operands are copied when the results of the tile "
                     "before have left, and the number was read before they did"},
    {"unreached", kNoWindow + "; roles have a loop, kept short, for masks whose ranges promise "
                              "nothing"}};

const CallExtents kSmall = {100, 210, 16, 32, 16};
const std::vector<std::pair<std::string, std::string>> kSmallBlocks = {
    {"T", "f16"}, {"D", "16"}, {"BLOCK_M", "32"}, {"BLOCK_N", "16"}};

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// The parameters, with those of `more` in their place.
Pairs with(Pairs params, const Pairs &more) {
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

INSTANTIATE_TEST_SUITE_P(
    Kernels, SynchronisationMutationTest,
    testing::Combine(
        testing::Values(
            Kernel{"forward", "attention_forward", "sm_80", kSmallBlocks, 2, kSmall, kForward, 9},
            Kernel{"forward_D64",
                   "attention_forward",
                   "sm_80",
                   {{"T", "f16"}, {"D", "64"}, {"BLOCK_M", "128"}, {"BLOCK_N", "64"}},
                   0,
                   {140, 270, 64},
                   kForward,
                   9},
            Kernel{"forward_hopper",
                   "attention_forward",
                   "sm_90a",
                   {{"T", "f16"}, {"D", "64"}, {"BLOCK_M", "128"}, {"BLOCK_N", "64"}},
                   8,
                   {140, 270, 64},
                   kForwardRoles,
                   1},
            Kernel{"backward", "attention_backward", "sm_80",
                   with(kSmallBlocks, {{"BLOCK_M", "16"}, {"BLOCK_N", "32"}}), 2, kSmall, kBackward,
                   9},
            Kernel{"backward_D64",
                   "attention_backward",
                   "sm_80",
                   {{"T", "f16"}, {"D", "64"}, {"BLOCK_M", "32"}, {"BLOCK_N", "128"}},
                   0,
                   {140, 270, 64},
                   kBackward,
                   9},
            Kernel{"backward_deterministic", "attention_backward", "sm_80",
                   with(kSmallBlocks, {{"DETERMINISTIC", "true"}}), 2, kSmall, kBackward, 9},
            Kernel{"backward_hopper",
                   "attention_backward",
                   "sm_90a",
                   {{"T", "f16"}, {"D", "64"}, {"BLOCK_M", "128"}, {"BLOCK_N", "128"}},
                   8,
                   {140, 270, 64},
                   kBackwardRoles,
                   2},
            Kernel{"backward_wide_hopper",
                   "attention_backward",
                   "sm_90a",
                   {{"T", "f16"}, {"D", "192"}},
                   8,
                   {140, 270, 192},
                   kBackwardWide,
                   6}),
        testing::Values("none", "top_left", "bottom_right")),
    [](const auto &info) {
      return std::string(std::get<0>(info.param).label) + "_" + std::get<1>(info.param);
    });

INSTANTIATE_TEST_SUITE_P(
    Others, SynchronisationMutationTest,
    testing::Combine(testing::Values(Kernel{"varlen_forward", "attention_varlen_forward", "sm_80",
                                            kSmallBlocks, 2, kSmall, kForward, 9},
                                     Kernel{"varlen_backward", "attention_varlen_backward", "sm_80",
                                            kSmallBlocks, 2, kSmall, kBackward, 9},
                                     Kernel{"bias_forward", "attention_bias_forward", "sm_80",
                                            kSmallBlocks, 2, kSmall, kForward, 9},
                                     Kernel{"bias_backward",
                                            "attention_bias_backward",
                                            "sm_80",
                                            kSmallBlocks,
                                            2,
                                            {70, 190, 16, 32, 16, /*batch=*/2},
                                            kBackward,
                                            13},
                                     Kernel{"dropout_forward", "attention_dropout_forward", "sm_80",
                                            kSmallBlocks, 2, kSmall, kForward, 9},
                                     Kernel{"dropout_backward", "attention_dropout_backward",
                                            "sm_80", kSmallBlocks, 2, kSmall, kBackward, 9},
                                     Kernel{"split_kv", "attention_split_kv", "sm_80", kSmallBlocks,
                                            2, kSmall, kForward, 9},
                                     Kernel{"block_sparse", "attention_block_sparse", "sm_80",
                                            kSmallBlocks, 2, kSmall, kForward, 9},
                                     Kernel{"packed_gqa", "attention_packed_gqa", "sm_80",
                                            with(kSmallBlocks, {{"BLOCK_M", "16"}, {"GROUP", "2"}}),
                                            2, kSmall, kForward, 9},
                                     Kernel{"fp8_forward", "attention_fp8_forward", "sm_80",
                                            with(kSmallBlocks, {{"T", "e4m3"}, {"TO", "f32"}}), 2,
                                            kSmall, kForward, 9}),
                     testing::Values("none", "top_left", "bottom_right")),
    [](const auto &info) {
      return std::string(std::get<0>(info.param).label) + "_" + std::get<1>(info.param);
    });

} // namespace
} // namespace tilewright
