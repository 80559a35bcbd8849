// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A long run of decoding on a GPU: one graph is replayed 1000 times, with other lengths and other
// pages each time, and each sequence has the bits of a launch of its own in the batch-invariant
// mode.

#include "test/Gpu/GpuTesting.h"

#include "runtime/AttentionDecode.h"

#include <algorithm>
#include <cstring>
#include <random>

using namespace tilewright;
using namespace tilewright::gputest;

namespace {

class DecodeSoakGpu : public GpuTest {};

constexpr int64_t soakBatch = 6, soakHeads = 8, soakKeyHeads = 2, soakWidth = 64;
constexpr int64_t soakPageRows = 16, soakPages = 40, soakBound = soakPageRows * soakPages;
/// Each page is there so many times: which one a table names makes no difference.
constexpr int64_t soakCopies = 3, soakLogicalPages = soakBatch * soakPages,
                  soakPool = soakCopies * soakLogicalPages;
constexpr int numReplays = 1000;

void writeSoak(Memory &memory, const std::vector<int32_t> &values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(int32_t));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  memory.write(0, bytes);
}

/// q and results of some sequences.
struct SoakArrays {
  int64_t count;
  Memory q, o, lse, table, lengths;
  runtime::AttentionDecodeArguments arguments;

  static constexpr size_t ofO = soakHeads * soakWidth * 2, ofLse = soakHeads * 4;

  SoakArrays(const GpuDevice &device, ElementType type, int64_t count, const Memory &k,
             const Memory &v)
      : count(count), q(device, count * ofO), o(device, count * ofO), lse(device, count * ofLse),
        table(device, count * soakPages * 4), lengths(device, count * 4) {
    using runtime::Argument;
    arguments.q = Argument::dense(q.address(), type, {count, 1, soakHeads, soakWidth});
    arguments.o = Argument::dense(o.address(), type, {count, 1, soakHeads, soakWidth});
    arguments.lse = Argument::dense(lse.address(), ElementType::F32, {count, soakHeads, 1});
    for (auto [array, memory] : {std::pair(&arguments.cache.k, &k), {&arguments.cache.v, &v}})
      *array = Argument::dense(memory->address(), type,
                               {soakPool, soakPageRows, soakKeyHeads, soakWidth});
    arguments.cache.blockTable =
        Argument::dense(table.address(), ElementType::I32, {count, soakPages});
    arguments.cache.seqLens = Argument::dense(lengths.address(), ElementType::I32, {count});
    arguments.scale = 0.125;
  }
};

TEST_F(DecodeSoakGpu, ReplaysHaveTheBitsOfFreshLaunches) {
  std::shared_ptr<const runtime::Bundle> bundle =
      compileBundle("attention_decode", {{"D", std::to_string(soakWidth)},
                                         {"T", "bf16"},
                                         {"GROUP", std::to_string(soakHeads / soakKeyHeads)},
                                         {"PAGE_ROWS", std::to_string(soakPageRows)},
                                         {"SPLITS", "5"}});
  ASSERT_TRUE(bundle);
  const size_t pageBytes = soakPageRows * soakKeyHeads * soakWidth * 2;
  Memory k(*device, soakPool * pageBytes), v(*device, soakPool * pageBytes);
  for (auto [memory, seed] : {std::pair(&k, 1), {&v, 2}}) {
    std::vector<uint8_t> values = normal(soakLogicalPages * pageBytes / 2, seed);
    for (int64_t copy = 0; copy < soakCopies; ++copy) // page n is in n, n + soakLogicalPages, ...
      memory->write(copy * values.size(), values);
  }
  SoakArrays replayed(*device, type, soakBatch, k, v), reversed(*device, type, soakBatch, k, v),
      alone(*device, type, 1, k, v);
  std::vector<uint8_t> queries = normal(soakBatch * soakHeads * soakWidth, 3);
  auto queriesOf = [&](int64_t b) {
    auto begin = queries.begin() + b * SoakArrays::ofO;
    return std::vector<uint8_t>(begin, begin + SoakArrays::ofO);
  };
  replayed.q.write(0, queries);
  for (int64_t b = 0; b < soakBatch; ++b)
    reversed.q.write((soakBatch - 1 - b) * SoakArrays::ofO, queriesOf(b));

  runtime::AttentionDecodeDesc desc;
  desc.type = type;
  desc.headDim = soakWidth;
  desc.group = soakHeads / soakKeyHeads;
  desc.numSplits = 5;
  Result<runtime::AttentionDecode> plan = runtime::AttentionDecode::create(driver(), bundle, desc);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  Status status = plan->prepare(0);
  ASSERT_TRUE(status.ok()) << status.message();
  uint64_t bytes = 0;
  ASSERT_TRUE(plan->workspaceSize(replayed.arguments, 0, bytes).ok());
  const uint64_t size = std::max<uint64_t>(bytes, 256);
  Memory workspace(*device, size), fresh(*device, size);
  cuda::Stream stream = createStream(1);
  auto launch = [&](SoakArrays &arrays) {
    arrays.o.poison();
    arrays.lse.poison();
    fresh.poison();
    return plan->run(arrays.arguments, fresh.address(), size, stream);
  };
  cuda::GraphExec graph = capture(
      stream, [&] { return plan->run(replayed.arguments, workspace.address(), size, stream); });
  if (!graph)
    return;

  std::mt19937_64 engine(4);
  auto anyOf = [&](int64_t n) { return static_cast<int64_t>(engine() % n); };
  std::vector<int64_t> seen(soakBound + 1);
  std::vector<uint8_t> last;
  int64_t changes = 0;
  for (int replay = 0; replay < numReplays; ++replay) {
    // One sequence grows through all lengths, one shrinks, and others jump.
    std::vector<int32_t> lengths, tables, backwards(soakBatch), backwardTables, identity;
    for (int64_t b = 0; b < soakBatch; ++b) {
      int64_t length = b == 0   ? replay % (soakBound + 1)
                       : b == 1 ? soakBound - replay % (soakBound + 1)
                                : anyOf(soakBound + 1);
      ++seen[length];
      lengths.push_back(static_cast<int32_t>(length));
      backwards[soakBatch - 1 - b] = static_cast<int32_t>(length);
    }
    for (int64_t b = 0; b < soakBatch; ++b)
      for (int64_t c = 0; c < soakPages; ++c) { // behind the keys, any number
        bool isUsed = c * soakPageRows < lengths[b];
        int64_t page = b * soakPages + c + soakLogicalPages * anyOf(soakCopies);
        tables.push_back(static_cast<int32_t>(isUsed ? page : anyOf(3) * 1000000 - 7));
      }
    for (int64_t b = soakBatch - 1; b >= 0; --b)
      for (int64_t c = 0; c < soakPages; ++c)
        backwardTables.push_back(static_cast<int32_t>(b * soakPages + c));
    writeSoak(replayed.lengths, lengths);
    writeSoak(replayed.table, tables);
    replayed.o.poison();
    replayed.lse.poison();
    ASSERT_EQ(driver().cuGraphLaunch(graph, stream), cuda::Success);
    wait(stream);
    std::vector<uint8_t> o = replayed.o.read(0, soakBatch * SoakArrays::ofO),
                         lse = replayed.lse.read(0, soakBatch * SoakArrays::ofLse);
    auto isSame = [&](SoakArrays &other, int64_t at, int64_t b) {
      return other.o.read(at * SoakArrays::ofO, SoakArrays::ofO) ==
                 std::vector<uint8_t>(o.begin() + b * SoakArrays::ofO,
                                      o.begin() + (b + 1) * SoakArrays::ofO) &&
             other.lse.read(at * SoakArrays::ofLse, SoakArrays::ofLse) ==
                 std::vector<uint8_t>(lse.begin() + b * SoakArrays::ofLse,
                                      lse.begin() + (b + 1) * SoakArrays::ofLse);
    };
    // A fresh launch of all sequences in another order, over one copy of their pages.
    writeSoak(reversed.lengths, backwards);
    writeSoak(reversed.table, backwardTables);
    status = launch(reversed);
    ASSERT_TRUE(status.ok()) << status.message();
    wait(stream);
    for (int64_t b = 0; b < soakBatch; ++b)
      ASSERT_TRUE(isSame(reversed, soakBatch - 1 - b, b))
          << "replay " << replay << ", sequence " << b << " of " << lengths[b]
          << " keys, in another order";
    // And one of a sequence alone.
    int64_t b = replay % soakBatch;
    alone.q.write(0, queriesOf(b));
    writeSoak(alone.lengths, {lengths[b]});
    for (int64_t c = 0; c < soakPages; ++c)
      identity.push_back(static_cast<int32_t>(b * soakPages + c));
    writeSoak(alone.table, identity);
    status = launch(alone);
    ASSERT_TRUE(status.ok()) << status.message();
    wait(stream);
    ASSERT_TRUE(isSame(alone, 0, b))
        << "replay " << replay << ", sequence " << b << " of " << lengths[b] << " keys, alone";
    changes += o != last;
    last = o;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 0) << "lengths that were not tried";
  EXPECT_EQ(changes, numReplays);
  driver().cuGraphExecDestroy(graph);
}

} // namespace
