// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Removes one synchronization at a time from the shipped kernels, under each mask, with two heads
// of queries per head of keys. Either tgpu-verify-sync, which every compilation runs, rejects such
// a mutant, or the simulator finds a fault. If neither does, for three times of asynchronous work
// and twenty seeds, the synchronization is redundant, and the file that lists the kernel has the
// reason. This file lists kernels without roles, SynchronizationMutationRolesTest.cpp those with
// roles. In the smoke tier, the mutants of a kernel are tried under one mask; with
// TILEWRIGHT_TEST_TIER=full, under all.

#include "SynchronizationMutation.h"

#include "dialect/Tgpu/Tgpu.h"
#include "lib/Interpreter/Simulator/Mutations.h"
#include "test/Reference/Cases.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/DJB.h"

#include <set>

namespace tilewright::synchronization {
namespace {

/// Whether the operation is in a loop with iterations that a warpgroup skips. The simulator
/// executes a role as a unit, and its warpgroups never skip an iteration together: only
/// tgpu-verify-sync simulates this case.
bool isOfIdleRound(mlir::ModuleOp module, const Mutation &mutation) {
  auto loop = findMutated(module, mutation)->getParentOfType<mlir::scf::ForOp>();
  return loop && tgpu::idleRoundsAttr.isOn(loop);
}
constexpr int kMostWaitsOfIdleRounds = 3; ///< one per ring, except the last

} // namespace

void SynchronizationMutationTest::expectAllReached(mlir::ModuleOp module) {
  std::set<unsigned> seen;
  for (const Mutation &mutation : listMutations(module))
    if (seen.insert(mutation.number).second && !executed.count(mutation.number) &&
        !isOfIdleRound(module, mutation))
      ADD_FAILURE() << "no launch gets to " << describe(module, mutation);
}

namespace {

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
  messages.clear();
  ASSERT_TRUE(isAccepted(*module)) << messages;
  // Remarks on what the pass does not follow, and warnings about what its launches do not reach.
  const std::string unchecked = messages;
  EXPECT_EQ(unchecked.find("is not followed"), std::string::npos) << unchecked;
  if (mustReach) {
    EXPECT_EQ(unchecked, "");
  }
  if (!hasMutants)
    return;

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
              "simulator, %d redundant, %d never executed\n%s",
              kernel.label, mask, mutations.size(), numRejected, numFound, numRedundant,
              numUnreached, unchecked.c_str());
}

const std::string kNoWindow =
    "without a window no mask begins behind the first key (query) of the loop, so the first of the "
    "three parts of a block loop, that of masked blocks before the full ones, is empty; without "
    "any mask, the last part has the partial block alone";
const Reasons kForward = {{"tgpu.copy_commit", kMergedGroups},
                          {"tgpu.copy_wait", kFirstRound},
                          {"tgpu.sync", kFirstRound},
                          {"tgpu.fence_async", kFirstRound},
                          {"unreached", kNoWindow}};
const Reasons kBackward = {{"tgpu.copy_commit", kMergedGroups},
                           {"tgpu.copy_wait", kFirstRound},
                           {"tgpu.sync", kFirstRound + "; " + kHeadOfRound},
                           {"tgpu.fence_async", kFirstRound},
                           {"unreached", kNoWindow}};

const CallExtents kSmall = {100, 210, 16, 32, 16};
const std::vector<std::pair<std::string, std::string>> kSmallBlocks = {
    {"T", "f16"}, {"D", "16"}, {"BLOCK_M", "32"}, {"BLOCK_N", "16"}};
const std::vector<std::pair<std::string, std::string>> kSmallLists = {
    {"LISTED", "true"}, {"LIST_BLOCK_M", "32"}, {"LIST_BLOCK_N", "16"}};

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
        testing::Values(Kernel{"packed_forward", "attention_forward", "sm_80",
                               with(kSmallBlocks, kPacked), 2, kSmall, kForward, 9},
                        Kernel{"packed_backward", "attention_backward", "sm_80",
                               with(kSmallBlocks, kPacked), 2, kSmall, kBackward, 9},
                        withFiles(Kernel{"bias_forward", "attention_forward", "sm_80", kSmallBlocks,
                                         2, kSmall, kForward, 9},
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
                                         15},
                                  {"bias"}),
                        withFiles(Kernel{"dropout_forward", "attention_forward", "sm_80",
                                         kSmallBlocks, 2, kSmall, kForward, 9},
                                  {"dropout"}),
                        withFiles(Kernel{"dropout_backward", "attention_backward", "sm_80",
                                         with(kSmallBlocks, {{"DETERMINISTIC", "true"}}), 2, kSmall,
                                         kBackward, 9},
                                  {"dropout"}),
                        Kernel{"listed_forward", "attention_forward", "sm_80",
                               with(kSmallBlocks, kSmallLists), 2, kSmall, kForward, 9},
                        Kernel{"listed_backward", "attention_backward", "sm_80",
                               with(kSmallBlocks, kSmallLists), 2, kSmall, kBackward, 9},
                        Kernel{"fp8_forward", "attention_forward", "sm_80",
                               with(kSmallBlocks, {{"T", "e4m3"}, {"TO", "f32"}}), 2, kSmall,
                               kForward, 9}),
        testing::ValuesIn(kMasks)),
    [](const auto &info) {
      return std::string(std::get<0>(info.param).label) + "_" + std::get<1>(info.param);
    });

/// Four queries of each sequence of 210 keys in pages of 16 rows, in two parts and a merge.
Kernel decode() {
  CallExtents extents = {5, 210, 16};
  extents.pageRows = 16;
  extents.decodeQueries = 4;
  CallExtents others = extents;
  others.keys = 64;
  return {"decode",
          "attention_decode",
          "sm_80",
          {{"T", "f16"},
           {"D", "16"},
           {"GROUP", "2"},
           {"ROWS", "4"},
           {"PAGE_ROWS", "16"},
           {"SPLITS", "2"},
           {"BLOCK_N", "16"}},
          2,
          extents,
          kForward,
          9,
          {{extents, {}, {{"seq_lens", 0}}}, {others, {}, {{"seq_lens", 17}}}}};
}

// Under top_left four queries attend four keys: one block, and the loop has no second iteration.
INSTANTIATE_TEST_SUITE_P(Decode, SynchronizationMutationTest,
                         testing::Combine(testing::Values(decode()),
                                          testing::Values("none", "bottom_right")),
                         [](const auto &info) {
                           return std::string("decode_") + std::get<1>(info.param);
                         });

} // namespace
} // namespace tilewright::synchronization
