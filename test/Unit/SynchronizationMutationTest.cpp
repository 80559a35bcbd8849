// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Removes one synchronization at a time from the shipped kernels, under each mask, with two heads
// of queries per head of keys. Either tgpu-verify-sync, which every compilation runs, rejects such
// a mutant, or the simulator finds a fault. If neither does, for three times of asynchronous work
// and twenty seeds, the synchronization is redundant, and this file has the reason. The launches of
// kernels with roles execute every synchronization. In the smoke tier, the mutants of a kernel are
// tried under one mask; with TILEWRIGHT_TEST_TIER=full, under all.

#include "SimulatorTesting.h"

#include "dialect/Tgpu/Tgpu.h"
#include "lib/Interpreter/Simulator/Mutations.h"
#include "test/Reference/Cases.h"

#include "llvm/Support/DJB.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"

#include <limits>
#include <set>
#include <tuple>

namespace tilewright {
namespace {

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
  /// A backward has two kernels for keys, one of which has blocks (see APART), not only the one
  /// that processes all heads that share a head of K.
  bool isApart = false;
  /// For a backward: ORDERED_UP_TO.
  std::string orderedUpTo = "0";
};
void PrintTo(const Kernel &kernel, std::ostream *os) { *os << kernel.label; }

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
    if (llvm::StringRef(kernel.name) == "attention_backward") {
      if (!kernel.isApart)
        params.push_back({"APART", "false"});
      params.push_back({"ORDERED_UP_TO", kernel.orderedUpTo});
      params.push_back({"ORDERED_FROM", "0"}); // sequences of launches are short
    }
    std::vector<std::string> with;
    for (const std::string &file : kernel.with)
      with.push_back("kernels/mods/" + file + ".mlir");
    auto module = map(std::string(kernel.name) + ".mlir", params, kernel.target, kernel.warps, with,
                      kernel.schedule);
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

/// Whether the operation is in a loop with iterations that a warpgroup skips. The simulator
/// executes a role as a unit, and its warpgroups never skip an iteration together: only
/// tgpu-verify-sync simulates this case.
bool isOfIdleRound(mlir::ModuleOp module, const Mutation &mutation) {
  auto loop = findMutated(module, mutation)->getParentOfType<mlir::scf::ForOp>();
  return loop && loop->hasAttr("tgpu.idle_rounds");
}
constexpr int kMostWaitsOfIdleRounds = 3; ///< one per ring, except the last

void SynchronizationMutationTest::expectAllReached(mlir::ModuleOp module) {
  std::set<unsigned> seen;
  for (const Mutation &mutation : listMutations(module))
    if (seen.insert(mutation.number).second && !executed.count(mutation.number) &&
        !isOfIdleRound(module, mutation))
      ADD_FAILURE() << "no launch gets to " << describe(module, mutation);
}

const char *const kMasks[] = {"none", "top_left", "bottom_right"};

/// In the smoke tier, each kernel has one mask, which follows from its label, so that each mask is
/// used with some kernels.
bool isOfTier(const Kernel &kernel, llvm::StringRef mask) {
  if (mask.empty() || reference::currentTier() == reference::Tier::Full)
    return true;
  return mask == kMasks[llvm::djbHash(kernel.label, 0) % std::size(kMasks)];
}

/// For kernels with roles, the launches reach every part of a loop: parts that no launch can reach
/// are not generated. (On other targets, a mask may leave parts empty.) Then each synchronization
/// is removed, one at a time.
TEST_P(SynchronizationMutationTest, EverySynchronizationIsReachedAndMissed) {
  const auto &[kernel, mask] = GetParam();
  bool mustReach = kernel.target == "sm_90a", hasMutants = !kernel.isOnlyReached;
  if (hasMutants && !isOfTier(kernel, mask)) {
    hasMutants = false;
    if (!mustReach)
      GTEST_SKIP() << "mutants under this mask: TILEWRIGHT_TEST_TIER=full";
  }
  auto module = makeKernel();
  ASSERT_TRUE(module);
  if (mustReach)
    expectAllReached(*module);
  if (!hasMutants)
    return;
  ASSERT_TRUE(isAccepted(*module)) << messages;

  std::vector<Mutation> mutations = listMutations(*module);
  int numRejected = 0, numFound = 0, numRedundant = 0, numUnreached = 0, numOfIdleRounds = 0;
  std::string redundant;
  for (const Mutation &mutation : mutations) {
    messages.clear();
    auto mutant = mutate(*module, mutation);
    if (!isAccepted(*mutant)) {
      ++numRejected;
      continue;
    }
    if (isOfIdleRound(*module, mutation)) {
      // Without the wait for one ring, the wait for the next still follows the copies of both.
      EXPECT_TRUE(llvm::isa<tgpu::WaitOp>(findMutated(*module, mutation)))
          << "survives: " << describe(*module, mutation);
      ++numOfIdleRounds;
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
  EXPECT_LE(numOfIdleRounds, kMostWaitsOfIdleRounds);
  // A verifier that cannot analyze a kernel accepts it, and the simulator only tries a few
  // launches.
  EXPECT_GE(2 * numRejected, static_cast<int>(mutations.size()))
      << "tgpu-verify-sync does not follow the kernel";
  std::printf("%s under %s: %zu mutants, %d rejected by tgpu-verify-sync, %d found by the "
              "simulator, %d redundant, %d never executed\n",
              kernel.label, mask, mutations.size(), numRejected, numFound, numRedundant,
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
const Reasons kBackwardRoles = {{"tgpu.bulk_commit", kLastGroup}, {"tgpu.sync", kHeadOfRound}};

/// Results are stored through separate buffers.
const Reasons kBackwardVotes = {
    {"tgpu.bulk_commit", kLastGroup},
    {"tgpu.bulk_wait", "there are two results, and before each is written all copies are waited "
                       "for: the one wait of a tile does what the other does"},
    {"tgpu.sync", kHeadOfRound + "; and the same of the barriers behind those waits"}};

/// The same with a list of blocks.
const Reasons kBackwardLists = {
    {"tgpu.bulk_commit", kLastGroup},
    {"tgpu.bulk_wait", kBackwardVotes.at("tgpu.bulk_wait")},
    {"tgpu.sync", kBackwardVotes.at("tgpu.sync") +
                      "; and of a round, one before the entry of the list is looked at, and one "
                      "where it names a block"}};

/// Results are stored through an operand's buffer, which is released when the copies have read it.
const Reasons kBackwardWide = {
    {"tgpu.bulk_wait", "at the end of a role: each tile has waited for its copies already"},
    {"tgpu.acquire", "of the number of a tile: operands are copied when the results of the tile "
                     "before have left, and the number was read before they did"},
    {"tgpu.wait", "of the second role that computes, for Q: it multiplies by Q what it makes of a "
                  "tile that the first role handed over after it had waited for the same Q"}};

const CallExtents kSmall = {100, 210, 16, 32, 16};
const std::vector<std::pair<std::string, std::string>> kSmallBlocks = {
    {"T", "f16"}, {"D", "16"}, {"BLOCK_M", "32"}, {"BLOCK_N", "16"}};
const std::vector<std::pair<std::string, std::string>> kPacked = {{"PACKED", "true"}};
const std::vector<std::pair<std::string, std::string>> kListed = {{"LISTED", "true"}};
const std::vector<std::pair<std::string, std::string>> kSmallLists = {
    {"LISTED", "true"}, {"LIST_BLOCK_M", "32"}, {"LIST_BLOCK_N", "16"}};

/// The parameters, overridden by those of `more`.
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

/// A backward with both kernels for keys, and launches for both.
Kernel apart(Kernel kernel) {
  kernel.isApart = true;
  std::vector<Launch> launches = kernel.launches;
  launches.push_back({kernel.extents});
  for (Launch &launch : launches) {
    launch.extents.keyHeads = 2;
    kernel.launches.push_back(launch);
  }
  return kernel;
}

/// A backward that selects between two kernels for keys by length, and launches for both.
Kernel byLength(Kernel kernel) {
  constexpr int64_t longest = 600, more = 384; // whole blocks
  kernel.orderedUpTo = std::to_string(longest);
  for (size_t i = 0, n = kernel.launches.size(); i < n; ++i) {
    Launch launch = kernel.launches[i];
    launch.extents.keyHeads = 2; // if heads share keys, lengths do not matter
    kernel.launches.push_back(launch);
    launch.extents.rows += more;
    launch.extents.keys += launch.extents.keys ? more : 0;
    kernel.launches.push_back(launch);
  }
  return kernel;
}

/// Linked with files of kernels/mods.
Kernel withFiles(Kernel kernel, std::vector<std::string> files) {
  kernel.with = std::move(files);
  return kernel;
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, SynchronizationMutationTest,
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
            Kernel{"backward", "attention_backward", "sm_80",
                   with(kSmallBlocks, {{"BLOCK_M", "16"}, {"BLOCK_N", "32"}}), 2, kSmall, kBackward,
                   9},
            apart(Kernel{"backward_apart", "attention_backward", "sm_80",
                         with(kSmallBlocks, {{"BLOCK_M", "16"}, {"BLOCK_N", "32"}}), 2, kSmall,
                         kBackward, 18}),
            Kernel{"backward_D64",
                   "attention_backward",
                   "sm_80",
                   {{"T", "f16"}, {"D", "64"}, {"BLOCK_M", "32"}, {"BLOCK_N", "128"}},
                   0,
                   {140, 270, 64},
                   kBackward,
                   9},
            Kernel{"backward_deterministic", "attention_backward", "sm_80",
                   with(kSmallBlocks, {{"DETERMINISTIC", "true"}}), 2, kSmall, kBackward, 9}),
        testing::ValuesIn(kMasks)),
    [](const auto &info) {
      return std::string(std::get<0>(info.param).label) + "_" + std::get<1>(info.param);
    });

INSTANTIATE_TEST_SUITE_P(
    Others, SynchronizationMutationTest,
    testing::Combine(
        testing::Values(
            Kernel{"packed_forward", "attention_forward", "sm_80", with(kSmallBlocks, kPacked), 2,
                   kSmall, kForward, 9},
            Kernel{"packed_backward", "attention_backward", "sm_80", with(kSmallBlocks, kPacked), 2,
                   kSmall, kBackward, 9},
            withFiles(Kernel{"bias_forward", "attention_forward", "sm_80", kSmallBlocks, 2, kSmall,
                             kForward, 9},
                      {"bias"}),
            withFiles(Kernel{"score_gradient",
                             "attention_backward",
                             "sm_80",
                             with(kSmallBlocks, {{"SCORE_GRADIENT", "true"},
                                                 {"DETERMINISTIC", "true"},
                                                 {"SCORE_BLOCK_M", "32"},
                                                 {"SCORE_BLOCK_N", "16"}}),
                             2,
                             {70, 190, 16, 32, 16, /*batch=*/2},
                             kBackward,
                             13},
                      {"bias"}),
            withFiles(Kernel{"dropout_forward", "attention_forward", "sm_80", kSmallBlocks, 2,
                             kSmall, kForward, 9},
                      {"dropout"}),
            withFiles(Kernel{"dropout_backward", "attention_backward", "sm_80",
                             with(kSmallBlocks, {{"DETERMINISTIC", "true"}}), 2, kSmall, kBackward,
                             9},
                      {"dropout"}),
            Kernel{"split_kv", "attention_split_kv", "sm_80", kSmallBlocks, 2, kSmall, kForward, 9},
            Kernel{"listed_forward", "attention_forward", "sm_80", with(kSmallBlocks, kSmallLists),
                   2, kSmall, kForward, 9},
            Kernel{"listed_backward", "attention_backward", "sm_80",
                   with(kSmallBlocks, kSmallLists), 2, kSmall, kBackward, 9},
            Kernel{
                "packed_gqa",
                "attention_packed_gqa",
                "sm_80",
                {{"T", "f16"}, {"D", "16"}, {"QUERIES", "16"}, {"GROUP", "2"}, {"BLOCK_N", "16"}},
                2,
                kSmall,
                kForward,
                9},
            Kernel{"fp8_forward", "attention_forward", "sm_80",
                   with(kSmallBlocks, {{"T", "e4m3"}, {"TO", "f32"}}), 2, kSmall, kForward, 9}),
        testing::ValuesIn(kMasks)),
    [](const auto &info) {
      return std::string(std::get<0>(info.param).label) + "_" + std::get<1>(info.param);
    });

//===----------------------------------------------------------------------===//
// Kernels with roles
//===----------------------------------------------------------------------===//

const Pairs kHalf = {{"T", "f16"}, {"D", "64"}};
const Pairs kForwardBlocks = with(kHalf, {{"BLOCK_M", "128"}, {"BLOCK_N", "64"}});
const Pairs kBackwardBlocks = with(kHalf, {{"BLOCK_M", "128"}, {"BLOCK_N", "128"}});
const CallExtents kWide = {136, 272, 64, 128, 128};
/// Enough iterations of every kind, for each possible part of a loop; and tiles without keys.
const CallExtents kQueries = {600, 280, 64, 128, 128}, kKeys = {280, 600, 64, 128, 128},
                  kEven = {600, 536, 64, 128, 128}, kNoKeys = {600, 0, 64, 128, 128};
const std::vector<Launch> kLaunches = {{kQueries}, {kKeys}, {kEven}, {kNoKeys}};
/// A negative scale has a separate loop.
const std::vector<Launch> kScaledLaunches = {
    {kQueries}, {kKeys}, {kNoKeys}, {kQueries, {{"scale", -0.25}}}, {kKeys, {{"scale", -0.25}}}};

std::vector<Launch> ofDepth(std::vector<Launch> launches, int64_t depth) {
  for (Launch &launch : launches)
    launch.extents.depth = depth;
  return launches;
}

/// The launches, and each of them with a bias that all queries share.
std::vector<Launch> withRowBias(std::vector<Launch> launches) {
  for (size_t i = 0, n = launches.size(); i < n; ++i) {
    launches.push_back(launches[i]);
    launches.back().extents.isRowBias = true;
  }
  return launches;
}

/// The launches with a window around a close diagonal; and with one around a diagonal so far away
/// that the positions of the last rows wrap, while the first rows attend all keys. The ranges of
/// such a mask guarantee nothing.
std::vector<Launch> withShift(const std::vector<Launch> &launches) {
  constexpr int64_t largest = std::numeric_limits<int32_t>::max();
  std::vector<Launch> result;
  for (auto [shift, left] : {std::pair<int64_t, int64_t>(0, 200), {largest - 300, largest}})
    for (Launch launch : launches) {
      launch.scalars["aligned_left"] = left;
      launch.scalars["aligned_right"] = int64_t(200);
      launch.arrays["window_shift"] = static_cast<double>(shift);
      result.push_back(launch);
    }
  return result;
}

/// The launches, with windows that exclude pairs on both sides; the first also with a window within
/// a tile.
std::vector<Launch> withWindow(std::vector<Launch> launches) {
  launches.push_back(launches.front());
  for (Launch &launch : launches) {
    int64_t width = &launch == &launches.back() ? 20 : 200;
    launch.scalars["window_left"] = launch.scalars["window_right"] = width;
  }
  return launches;
}

Kernel rolesOf(const char *label, const char *name, Pairs params, Reasons reasons,
               int mostRedundant, std::vector<Launch> launches,
               std::vector<std::string> with = {}) {
  return {label, name,    "sm_90a",      std::move(params),   /*warps=*/8,
          kWide, reasons, mostRedundant, std::move(launches), std::move(with)};
}

/// With the blocks and warps that the kernel chooses.
Kernel byDefault(const char *label, const char *name, const char *depth,
                 const std::vector<Launch> &launches) {
  CallExtents extents = kWide;
  extents.depth = std::stoi(depth);
  return {label,
          name,
          "sm_90a",
          {{"T", "f16"}, {"D", depth}},
          /*warps=*/0,
          extents,
          {},
          0,
          ofDepth(launches, extents.depth),
          {},
          /*isOnlyReached=*/true};
}

Kernel backwardWide() {
  CallExtents extents = kWide;
  extents.depth = 192;
  return {
      "backward_wide", "attention_backward", "sm_90a", {{"T", "f16"}, {"D", "192"}}, /*warps=*/0,
      extents,         kBackwardWide,        4,        ofDepth(kLaunches, 192)};
}

Kernel onlyReached(Kernel kernel) {
  kernel.isOnlyReached = true;
  return kernel;
}

Kernel withSchedule(Kernel kernel, std::vector<std::string> schedule) {
  kernel.schedule = std::move(schedule);
  return kernel;
}

Kernel packed(Kernel kernel) {
  kernel.params = with(kernel.params, kPacked);
  return kernel;
}

const Pairs kWindowed = {{"WINDOW", "true"}};
const Pairs kInOrder = {{"DETERMINISTIC", "true"}, {"ORDERED", "true"}};

const std::vector<Kernel> kCausalKernels = {
    rolesOf("forward", "attention_forward", kForwardBlocks, {}, 0, kScaledLaunches),
    rolesOf("forward_window", "attention_forward", with(kForwardBlocks, kWindowed), {}, 0,
            withWindow(kScaledLaunches)),
    rolesOf("forward_documents", "attention_forward", kForwardBlocks, {}, 0, kScaledLaunches,
            {"document"}),
    rolesOf("forward_aligned", "attention_forward", kForwardBlocks, {}, 0,
            withShift(kScaledLaunches), {"window_aligned"}),
    withSchedule(rolesOf("forward_copied_bias", "attention_forward", kForwardBlocks, {}, 0,
                         kScaledLaunches, {"bias"}),
                 {"copy_captures=1"}),
    rolesOf("packed_forward", "attention_forward", with(kForwardBlocks, kPacked), {}, 0,
            kScaledLaunches),
    rolesOf("bias_forward", "attention_forward", kForwardBlocks, {}, 0,
            withRowBias(kScaledLaunches), {"bias"}),
    rolesOf("dropout_forward", "attention_forward", kForwardBlocks, {}, 0, kScaledLaunches,
            {"dropout"}),
    rolesOf("listed_forward", "attention_forward", with(kForwardBlocks, kListed), {}, 0,
            kScaledLaunches),
    rolesOf("packed_gqa", "attention_packed_gqa", with(kHalf, {{"GROUP", "2"}}), {}, 0,
            kScaledLaunches),
    rolesOf("differential", "differential_attention", with(kHalf, {{"DV", "64"}}), {}, 0,
            kScaledLaunches),
    rolesOf("backward", "attention_backward", kBackwardBlocks, kBackwardRoles, 2, kLaunches),
    apart(rolesOf("backward_apart", "attention_backward", kBackwardBlocks, kBackwardRoles, 4,
                  kLaunches)),
    rolesOf("backward_window", "attention_backward", with(kBackwardBlocks, kWindowed),
            kBackwardRoles, 2, withWindow(kLaunches)),
    rolesOf("packed_backward", "attention_backward", with(kBackwardBlocks, kPacked), kBackwardRoles,
            2, kLaunches),
    rolesOf("listed_backward", "attention_backward", with(kBackwardBlocks, kListed), kBackwardLists,
            9, kLaunches),
    // Without a mask a block that waits for its turn also waits for the other warpgroup's products,
    // so that the barrier before results is not missed in these launches.
    rolesOf("backward_in_order", "attention_backward", with(kBackwardBlocks, kInOrder),
            kBackwardRoles, 3, kLaunches),
    onlyReached(rolesOf("backward_window_in_order", "attention_backward",
                        with(with(kBackwardBlocks, kWindowed), kInOrder), {}, 0,
                        withWindow(kLaunches))),
    onlyReached(packed(rolesOf("packed_backward_in_order", "attention_backward",
                               with(kBackwardBlocks, kInOrder), {}, 0, kLaunches))),
    onlyReached(byLength(
        rolesOf("backward_by_length", "attention_backward", kBackwardBlocks, {}, 0, kLaunches))),
    rolesOf("backward_documents", "attention_backward", kBackwardBlocks, kBackwardVotes, 8,
            kLaunches, {"document"}),
    rolesOf("backward_aligned", "attention_backward", kBackwardBlocks, kBackwardRoles, 2,
            withShift(kLaunches), {"window_aligned"}),
    backwardWide(),
    onlyReached(rolesOf("score_gradient", "attention_backward",
                        with(kHalf, {{"SCORE_GRADIENT", "true"}, {"DETERMINISTIC", "true"}}), {}, 0,
                        withRowBias(kLaunches), {"bias"})),
    onlyReached(rolesOf("dropout_backward", "attention_backward",
                        with(kHalf, {{"DETERMINISTIC", "true"}}), {}, 0, kLaunches, {"dropout"})),
    byDefault("forward_D64_by_default", "attention_forward", "64", kScaledLaunches),
    byDefault("forward_D128_by_default", "attention_forward", "128", kScaledLaunches),
    byDefault("forward_D256_by_default", "attention_forward", "256", kScaledLaunches),
    byLength(apart(byDefault("backward_D128_by_default", "attention_backward", "128", kLaunches))),
    byDefault("backward_D256_by_default", "attention_backward", "256", kLaunches),
    byLength(packed(
        byDefault("packed_backward_D128_by_default", "attention_backward", "128", kLaunches))),
    packed(byDefault("packed_backward_D256_by_default", "attention_backward", "256", kLaunches)),
};

INSTANTIATE_TEST_SUITE_P(Roles, SynchronizationMutationTest,
                         testing::Combine(testing::ValuesIn(kCausalKernels),
                                          testing::ValuesIn(kMasks)),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).label) + "_" +
                                  std::get<1>(info.param);
                         });

const CallExtents kProduct = {136, 264, 328};
/// More tiles than thread blocks.
const CallExtents kSequence = {300, 300, 64, 128, 128, /*batch=*/6, /*isOneSequence=*/true};

const std::vector<Kernel> kOtherKernels = {
    rolesOf("saved_probs", "attention_backward_saved_probs", kHalf,
            {{"tgpu.sync", kFirstRound}, {"tgpu.fence_async", kFirstRound}}, 2, kLaunches),
    {"matmul", "matmul", "sm_90a", {{"T", "f16"}}, 8, kProduct, {}, 0},
    {"swiglu", "swiglu", "sm_90a", {{"T", "f16"}}, 8, kProduct, {}, 0},
    {"linear",
     "linear_attention",
     "sm_90a",
     kHalf,
     8,
     kSequence,
     {{"tgpu.wgmma_commit", "two products in one sum are waited for together: the commit of the "
                            "second closes both groups"}},
     2},
};

INSTANTIATE_TEST_SUITE_P(RolesWithoutMask, SynchronizationMutationTest,
                         testing::Combine(testing::ValuesIn(kOtherKernels), testing::Values("")),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).label);
                         });

class KernelsWithRoles : public SimulatorTest {};

/// A new kernel, or one that gets roles, must be in one of the lists.
TEST_F(KernelsWithRoles, AreListed) {
  std::set<std::string> listed, found;
  for (const auto *kernels : {&kCausalKernels, &kOtherKernels})
    for (const Kernel &kernel : *kernels)
      listed.insert(kernel.name);
  std::error_code error;
  for (llvm::sys::fs::directory_iterator file("kernels", error), end; file != end && !error;
       file.increment(error)) {
    llvm::StringRef path = file->path(), name = llvm::sys::path::stem(path);
    if (llvm::sys::path::extension(path) != ".mlir")
      continue;
    auto text = llvm::MemoryBuffer::getFile(path);
    ASSERT_TRUE(text) << path.str();
    Params params = {{"T", name.contains("fp8") ? "e4m3" : "f16"}};
    for (auto [param, value] :
         {std::pair("D", "64"), {"GROUP", "4"}, {"PAGE", "64"}, {"N", "1000"}})
      if (llvm::Regex(("[( ]" + llvm::Twine(param) + ": int").str()).match((*text)->getBuffer()))
        params.push_back({param, value});
    auto module = map(name.str() + ".mlir", params, "sm_90a", /*warps=*/0);
    ASSERT_TRUE(module) << name.str() << ": " << messages;
    module->walk([&](tgpu::RolesOp) { found.insert(name.str()); });
  }
  ASSERT_FALSE(error);
  EXPECT_EQ(listed, found);
}

} // namespace
} // namespace tilewright
