// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SynchronizationMutationTest.cpp for kernels with roles. Their launches execute every
// synchronization.

#include "SynchronizationMutation.h"

#include "dialect/Tgpu/Tgpu.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"

#include <limits>

namespace tilewright::synchronization {
namespace {

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
    {"tgpu.wait", "of the second role that computes, for Q: it multiplies by Q what it makes of a "
                  "tile that the first role handed over after it had waited for the same Q"}};

const Pairs kListed = {{"LISTED", "true"}};

/// A backward that adds in order.
Kernel inOrder(Kernel kernel) {
  kernel.sums = "whole,ordered";
  return kernel;
}

/// A backward that selects between two kernels for keys by whether heads share keys and, without a
/// mask, by length, and launches for both.
Kernel byLength(Kernel kernel) {
  constexpr int64_t more = 384, longest = 512; // whole blocks; in order at D 64
  kernel.sums = "whole";
  for (size_t i = 0, n = kernel.launches.size(); i < n; ++i) {
    Launch launch = kernel.launches[i];
    launch.extents.keyHeads = 2; // if heads share keys, lengths do not matter
    kernel.launches.push_back(launch);
    launch.extents.rows += more;
    launch.extents.keys += launch.extents.keys ? more : 0;
    kernel.launches.push_back(launch);
    launch.extents.rows = longest;
    kernel.launches.push_back(launch);
  }
  return kernel;
}

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

/// The launches, and each of them without the result of the forward.
std::vector<Launch> withoutResult(std::vector<Launch> launches) {
  for (size_t i = 0, n = launches.size(); i < n; ++i) {
    launches.push_back(launches[i]);
    launches.back().extents.hasResult = false;
  }
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

/// The launches, and each of them with an LSE so large that its sums are recomputed.
std::vector<Launch> withLargeLse(std::vector<Launch> launches) {
  for (size_t i = 0, n = launches.size(); i < n; ++i) {
    launches.push_back(launches[i]);
    launches.back().arrays["lse"] = 1e6;
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
      extents,         kBackwardWide,        2,        ofDepth(kLaunches, 192)};
}

/// Products of bytes that threads add to the sum: warpgroups multiply in turn.
Kernel forwardInTurn() {
  constexpr int64_t depth = 128;
  Kernel kernel = rolesOf("forward_bytes_in_turn", "attention_forward",
                          with(kForwardBlocks, {{"T", "e4m3"}, {"TO", "f32"}, {"D", "128"}}), {}, 0,
                          ofDepth(kScaledLaunches, depth));
  kernel.extents.depth = depth;
  return kernel;
}

/// Two products whose results are added are issued together, in one turn.
Kernel forwardOfWideBytes() {
  constexpr int64_t depth = 256;
  Kernel kernel = rolesOf("forward_wide_bytes", "attention_forward",
                          with(kForwardBlocks, {{"T", "e4m3"}, {"TO", "f32"}, {"D", "256"}}), {}, 0,
                          ofDepth(kScaledLaunches, depth));
  kernel.extents.depth = depth;
  return kernel;
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

/// Two heads of queries and keys for each of values and results.
Kernel withTwoMaps(Kernel kernel) {
  kernel.extents.hasTwoMaps = true;
  for (Launch &launch : kernel.launches)
    launch.extents.hasTwoMaps = true;
  return kernel;
}

/// Keys and values in pages of 16 rows.
Kernel inPages(Kernel kernel) {
  kernel.params = with(kernel.params, {{"PAGE_ROWS", "16"}});
  kernel.extents.cacheRows = 16;
  for (Launch &launch : kernel.launches)
    launch.extents.cacheRows = 16;
  return kernel;
}

const Pairs kWindowed = {{"WINDOW", "true"}};
const Pairs kInOrder = {{"DETERMINISTIC", "true"}};

const std::vector<Kernel> kCausalKernels = {
    rolesOf("forward", "attention_forward", kForwardBlocks, {}, 0, kScaledLaunches),
    rolesOf("forward_bytes", "attention_forward",
            with(kForwardBlocks, {{"T", "e4m3"}, {"TO", "f32"}}), {}, 0, kScaledLaunches),
    forwardInTurn(),
    forwardOfWideBytes(),
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
    withSchedule(inPages(rolesOf("packed_forward_of_pages", "attention_forward",
                                 with(kForwardBlocks, kPacked), {}, 0, kScaledLaunches)),
                 {"load_roles=1"}),
    withSchedule(inPages(rolesOf("packed_forward_of_two_loads", "attention_forward",
                                 with(kForwardBlocks, kPacked), {}, 0, kScaledLaunches)),
                 {"load_roles=2"}),
    rolesOf("bias_forward", "attention_forward", kForwardBlocks, {}, 0,
            withRowBias(kScaledLaunches), {"bias"}),
    rolesOf("dropout_forward", "attention_forward", kForwardBlocks, {}, 0, kScaledLaunches,
            {"dropout"}),
    rolesOf("listed_forward", "attention_forward", with(kForwardBlocks, kListed), {}, 0,
            kScaledLaunches),
    inPages(rolesOf("listed_forward_of_pages", "attention_forward",
                    with(kForwardBlocks, with(kListed, kPacked)), {}, 0, kScaledLaunches)),
    rolesOf("differential", "differential_attention", with(kHalf, {{"DV", "64"}}), {}, 0,
            kScaledLaunches),
    rolesOf("tanh", "tanh_attention", kForwardBlocks, {}, 0, kScaledLaunches),
    rolesOf("tanh_backward", "tanh_attention_backward", kBackwardBlocks, kBackwardRoles, 2,
            kLaunches),
    onlyReached(inOrder(rolesOf("tanh_backward_in_order", "tanh_attention_backward",
                                with(kBackwardBlocks, kInOrder), {}, 0, kLaunches))),
    withTwoMaps(rolesOf("differential_backward", "differential_attention_backward",
                        with(kBackwardBlocks, {{"DV", "64"}}), kBackwardRoles, 2, kLaunches)),
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
    inOrder(rolesOf("backward_in_order", "attention_backward", with(kBackwardBlocks, kInOrder),
                    kBackwardRoles, 3, kLaunches)),
    onlyReached(inOrder(rolesOf("backward_window_in_order", "attention_backward",
                                with(with(kBackwardBlocks, kWindowed), kInOrder), {}, 0,
                                withWindow(kLaunches)))),
    onlyReached(inOrder(packed(rolesOf("packed_backward_in_order", "attention_backward",
                                       with(kBackwardBlocks, kInOrder), {}, 0, kLaunches)))),
    onlyReached(byLength(
        rolesOf("backward_by_length", "attention_backward", kBackwardBlocks, {}, 0, kLaunches))),
    rolesOf("backward_documents", "attention_backward", kBackwardBlocks, kBackwardVotes, 8,
            kLaunches, {"document"}),
    rolesOf("backward_aligned", "attention_backward", kBackwardBlocks, kBackwardRoles, 2,
            withShift(kLaunches), {"window_aligned"}),
    backwardWide(),
    onlyReached(rolesOf("score_gradient", "attention_backward",
                        with(kHalf, {{"SCORE_GRADIENT", "true"}, {"DETERMINISTIC", "true"}}), {}, 0,
                        withLargeLse(withRowBias(kLaunches)), {"bias"})),
    onlyReached(rolesOf("dropout_backward", "attention_backward",
                        with(kHalf, {{"DETERMINISTIC", "true"}}), {}, 0, kLaunches, {"dropout"})),
    byDefault("forward_D64_by_default", "attention_forward", "64", kScaledLaunches),
    byDefault("forward_D128_by_default", "attention_forward", "128", kScaledLaunches),
    byDefault("forward_D256_by_default", "attention_forward", "256", kScaledLaunches),
    byLength(byDefault("backward_D128_by_default", "attention_backward", "128", kLaunches)),
    byDefault("backward_D256_by_default", "attention_backward", "256", kLaunches),
    packed(byDefault("packed_backward_D128_by_default", "attention_backward", "128", kLaunches)),
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
/// Of a state that is split over two warpgroups.
const CallExtents kWideSequence = {140, 140, 128, 128, 128, /*batch=*/1, /*isOneSequence=*/true};

/// Transposed probabilities go through shared memory, in two slots whose numbers continue from tile
/// to tile.
const char *const kTwoSlots = "the warps also meet in each iteration, before any of them can write "
                              "the slot of the product two iterations before";

/// Sequences of several parts of several blocks each, and of one key each.
Kernel decode() {
  CallExtents extents = {3, 700, 64};
  extents.pageRows = 16;
  Kernel kernel = {"decode",
                   "attention_decode",
                   "sm_90a",
                   with(kHalf, {{"GROUP", "2"}, {"PAGE_ROWS", "16"}, {"SPLITS", "2"}}),
                   0,
                   extents,
                   {{"tgpu.sync", kTwoSlots}},
                   1};
  // Several tiles for each block of threads, so that every slot of a ring is used again.
  CallExtents many = extents;
  many.rows = 8;
  kernel.launches = {{many, {}, {{"seq_lens", 0}}},
                     {many, {}, {{"seq_lens", 129}}},
                     {many, {}, {{"seq_lens", 640}}},
                     {many, {{"scale", -0.25}}},
                     {many, {{"scale", -0.25}}, {{"seq_lens", 129}}},
                     {many, {{"scale", -0.25}}, {{"seq_lens", 640}}}};
  return kernel;
}

/// The same over a cache of 8 bits: two warpgroups read and convert what copies bring, and write
/// the queries of a tile.
Kernel decodeBytes() {
  Kernel kernel = decode();
  kernel.label = "decode_bytes";
  kernel.params = {{"T", "bf16"},  {"D", "128"},        {"CACHE", "e4m3"}, {"DESCALE", "false"},
                   {"GROUP", "2"}, {"PAGE_ROWS", "16"}, {"SPLITS", "2"}};
  kernel.extents.depth = 128;
  for (Launch &launch : kernel.launches)
    launch.extents.depth = 128;
  return kernel;
}

/// With a factor for each key and value, which two more warps gather.
Kernel decodeByToken() {
  Kernel kernel = decodeBytes();
  kernel.label = "decode_by_token";
  kernel.params = {{"T", "bf16"},  {"D", "128"},        {"CACHE", "e4m3"}, {"BY_TOKEN", "true"},
                   {"GROUP", "2"}, {"PAGE_ROWS", "16"}, {"SPLITS", "2"}};
  return kernel;
}

/// The same of listed blocks.
Kernel decodeLists() {
  Kernel kernel = decode();
  kernel.label = "decode_lists";
  kernel.params = with(kernel.params, {{"LISTED", "true"}, {"LIST_BLOCK_N", "64"}});
  kernel.mostRedundant = 5; // in each of the loops with a mask and without
  kernel.extents.blockN = 64;
  for (Launch &launch : kernel.launches)
    launch.extents.blockN = 64;
  return kernel;
}

const std::string kJoined = "two products in one sum are waited for together: the commit of the "
                            "second closes both groups";
const std::string kOneWait = "an iteration waits once for the copies of both results: the commit "
                             "of the second closes both groups";
const std::string kFirstCopies = "; and the barrier of the first copies: that of a row that warps "
                                 "exchange follows before the product";

/// More sequences than `few` has, of several blocks, of one or of none.
std::vector<Launch> launchesOfLatentRows(CallExtents few) {
  CallExtents many = few;
  many.rows = 5;
  many.keys = 330;
  return {{many},
          {many, {}, {{"seq_lens", 0}}},
          {many, {}, {{"seq_lens", 256}}},
          {many, {{"scale", -0.25}}},
          {many, {{"scale", -0.25}}, {{"seq_lens", 64}}}};
}

/// Latent attention of 64 heads, whose sum two roles compute: sequences of one part and of two,
/// which have several blocks, one or none.
Kernel latentDecode() {
  constexpr int64_t depth = 512;
  CallExtents few = {3, 8, depth};
  few.pageRows = 16;
  few.heads = 64;
  Kernel kernel = {
      "latent_decode",
      "attention_mla_decode",
      "sm_90a",
      {{"T", "f16"}, {"D", "512"}, {"GROUP", "64"}, {"PAGE_ROWS", "16"}, {"SPLITS", "2"}},
      0,
      few,
      {{"tgpu.wgmma_commit", kJoined},
       {"tgpu.wait",
        "of the second role that computes, for the right half of a block: it multiplies "
        "by it what the first role handed over after it had waited for the same half"}},
      3};
  kernel.launches = launchesOfLatentRows(few);
  return kernel;
}

const char *const kBothOperands =
    "of a part of the queries that is written directly before the next one, whose fence and "
    "barrier order both";

/// Latent rows of 8 bits, with factors and columns of 16 bits beside them.
Kernel latentBytes() {
  CallExtents few = {3, 200, 256};
  few.pageRows = 16;
  few.heads = 16;
  few.ropeDepth = 64;
  Kernel kernel = {"latent_bytes",
                   "attention_mla_decode_bytes",
                   "sm_90a",
                   {{"T", "f16"},
                    {"D", "320"},
                    {"DV", "256"},
                    {"GROUP", "16"},
                    {"PAGE_ROWS", "16"},
                    {"SPLITS", "2"}},
                   0,
                   few,
                   {{"tgpu.sync", kBothOperands}, {"tgpu.fence_async", kBothOperands}},
                   7};
  kernel.launches = launchesOfLatentRows(few);
  return kernel;
}

/// Shares of a product, with the blocks for results of up to 64, up to 128, and more rows.
Kernel sharedProduct() {
  Kernel kernel = {"matmul_shares", "matmul", "sm_90a", {{"T", "f16"}}, 0, {40, 136, 328}, {}, 0};
  kernel.launches = {{{100, 136, 328}}, {{136, 264, 328}}};
  kernel.sums = "shares=2";
  return kernel;
}

const std::vector<Kernel> kOtherKernels = {
    decode(),
    decodeBytes(),
    decodeByToken(),
    decodeLists(),
    latentDecode(),
    latentBytes(),
    rolesOf("saved_probs", "attention_backward_saved_probs", kHalf,
            {{"tgpu.sync", kFirstRound}, {"tgpu.fence_async", kFirstRound}}, 2,
            withoutResult(kLaunches)),
    rolesOf("saving_probs", "attention_forward_saved_probs", kHalf, {}, 0, kScaledLaunches),
    {"matmul", "matmul", "sm_90a", {{"T", "f16"}}, 8, kProduct, {}, 0},
    sharedProduct(),
    {"swiglu", "swiglu", "sm_90a", {{"T", "f16"}}, 8, kProduct, {}, 0},
    {"int4", "int4_matmul", "sm_90a", {{"T", "f16"}, {"BLOCK_N", "128"}}, 8, kProduct, {}, 0},
    {"grouped", "grouped_matmul", "sm_90a", {{"T", "f16"}}, 8, kProduct, {}, 0},
    {"linear",
     "linear_attention",
     "sm_90a",
     kHalf,
     8,
     kSequence,
     {{"tgpu.wgmma_commit", kJoined}},
     2},
    {"delta",
     "gated_delta_rule",
     "sm_90a",
     with(kHalf, {{"D", "128"}}),
     4,
     kWideSequence,
     {{"tgpu.sync", kHeadOfRound + kFirstCopies},
      {"tgpu.wgmma_commit", kJoined},
      {"tgpu.bulk_commit", kOneWait}},
     6},
    {"delta_backward",
     "gated_delta_rule_backward",
     "sm_90a",
     with(kHalf, {{"D", "128"}}),
     4,
     kWideSequence,
     {{"tgpu.bulk_wait", "three results of a tile leave behind those of its loop, and the first "
                         "iterations of the next tile wait for these copies, too"},
      {"tgpu.bulk_commit",
       "as of the waits for these results: they may leave as one group; and " + kOneWait},
      {"tgpu.wgmma_commit", kJoined},
      {"tgpu.sync", kHeadOfRound + kFirstCopies +
                        "; and each of several operands that a round exchanges has a "
                        "buffer and a barrier of its own: those of the others lie "
                        "between its last read and its next write"}},
     26},
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
    // Latent rows of 8 bits have at least 64 columns, and more beside them.
    const char *width = name.ends_with("_bytes") ? "576" : "64";
    for (auto [param, value] : {std::pair("D", width), {"GROUP", "4"}, {"N", "1000"}})
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
} // namespace tilewright::synchronization
