// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ring attention over threads, on the CPU device: the results of ranks are those of the formula for
// the whole.

#include "DistributedTesting.h"

#include "runtime/Distributed/Nccl.h"
#include "runtime/Distributed/RingAttention.h"

#include <dlfcn.h>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

using Causal = AttentionDesc::Causal;

struct Case {
  const char *name = "";
  int ranks = 2;
  int64_t rows = 40, keys = 40;
  Causal causal = Causal::None;
  ShareOrder order = ShareOrder::Contiguous;
  int64_t left = -1, right = -1;
  int64_t batch = 1, heads = 2, keyHeads = 2, dim = 16, valueDim = 16;
  ElementType type = ElementType::F32;
  bool hasModifiers = false;
  std::vector<Spans> shares = {}; // of rows and keys, if they are not those of the order
};

/// What the ranks did, summed over them.
struct Work {
  size_t launches = 0;
  uint64_t received = 0;
  int64_t pairs = 0;
};

struct Options {
  std::vector<std::string> with;
  std::vector<std::pair<std::string, HostArray>> captures; // an empty shape: a scalar
  Score score;
  double sink = -INFINITY;
  bool hasRowsOutside = false; // k and v have heads inside of rows
  bool hasLse = true;
  bool isOverNccl = false; // by libraries in place of NCCL and the driver
};

RingDesc descOf(const Case &test) {
  RingDesc desc;
  desc.attention.type = test.type;
  desc.attention.headDim = test.dim;
  desc.attention.valueDim = test.valueDim;
  desc.attention.causal = test.causal;
  desc.batch = test.batch;
  desc.heads = test.heads, desc.keyHeads = test.keyHeads;
  desc.windowLeft = test.left, desc.windowRight = test.right;
  desc.scale = 0.25;
  desc.rows = test.shares.empty() ? sharesOf(test.rows, test.ranks, test.order) : test.shares;
  desc.keys = test.shares.empty() ? sharesOf(test.keys, test.ranks, test.order) : test.shares;
  desc.hasModifiers = test.hasModifiers;
  return desc;
}

/// The array with its dimensions 1 and 2 exchanged in memory, as a view of the old order.
Argument withRowsOutside(HostArray &array) {
  const int64_t B = array.extents[0], H = array.extents[1], S = array.extents[2],
                D = array.extents[3];
  HostArray moved = array;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t s = 0; s < S; ++s)
        for (int64_t d = 0; d < D; ++d)
          moved.set(((b * S + s) * H + h) * D + d, float(array.get(((b * H + h) * S + s) * D + d)));
  array.bytes = moved.bytes;
  const int64_t extents[] = {B, H, S, D}, strides[] = {S * H * D, D, H * D, 1};
  return Argument::view(array.view().bits, array.type, 4, extents, strides);
}

/// The transport of a rank by libraries in place of NCCL and the driver.
Result<std::unique_ptr<Communicator>> overNccl(const Communicator &rank) {
  static const DriverTable driver = [] {
    void *library = dlopen(besideProgram({"lib/libfake-cuda.so"}).c_str(), RTLD_NOW | RTLD_LOCAL);
    auto table = DriverTable::load(
        [&](const char *symbol, int) -> void * { return dlsym(library, symbol); });
    return table ? *table : DriverTable();
  }();
  static const Result<NcclTable> nccl = NcclTable::open(besideProgram({"lib/libfake-nccl.so"}));
  if (!nccl)
    return nccl.status();
  NcclDesc desc;
  desc.rank = desc.device = rank.rank(), desc.size = rank.size();
  desc.id.bytes[0] = char(rank.size()); // a group for each size
  return makeNcclCommunicator(*nccl, driver, desc);
}

/// Runs the ranks, and compares O and LSE with the formula.
Work check(const Case &test, Options options = {}) {
  SCOPED_TRACE(test.name);
  HostArray q(test.type, {test.batch, test.heads, test.rows, test.dim});
  HostArray k(test.type, {test.batch, test.keyHeads, test.keys, test.dim});
  HostArray v(test.type, {test.batch, test.keyHeads, test.keys, test.valueDim});
  q.fill(1), k.fill(2), v.fill(3);
  const int64_t shift = test.causal == Causal::BottomRight ? test.keys - test.rows : 0;
  int64_t kept = 0;
  Keep keep = [&](int64_t, int64_t i, int64_t j) {
    return (test.causal == Causal::None || j <= i + shift) &&
           (test.left < 0 || j >= i + shift - test.left) &&
           (test.right < 0 || j <= i + shift + test.right);
  };
  for (int64_t i = 0; i < test.rows; ++i)
    for (int64_t j = 0; j < test.keys; ++j)
      kept += keep(0, i, j);
  const Expected expected = attend(q, k, v, 0.25, keep, options.score, options.sink);
  const RingDesc desc = descOf(test);
  HostArray o(test.type, {test.batch, test.heads, test.rows, test.valueDim});
  HostArray lse(ElementType::F32, {test.batch, test.heads, test.rows});
  std::mutex mutex;
  Work work;
  std::vector<Status> statuses = runRanks(test.ranks, [&](Communicator &own) -> Status {
    std::unique_ptr<Communicator> other;
    if (options.isOverNccl) {
      auto made = overNccl(own);
      if (!made)
        return made.status();
      other = std::move(*made);
    }
    Communicator &communicator = other ? *other : own;
    std::unique_ptr<Processor> processor = hostProcessor(options.with);
    auto ring = RingAttention::create(*processor, communicator, desc);
    if (!ring)
      return ring.status();
    const Spans &rows = desc.rows[size_t(communicator.rank())];
    const Spans &keys = desc.keys[size_t(communicator.rank())];
    HostArray ownQ = rowsOfArray(q, rows), ownK = rowsOfArray(k, keys), ownV = rowsOfArray(v, keys);
    HostArray ownO(o.type, {test.batch, test.heads, rowsOf(rows), test.valueDim});
    HostArray ownLse(lse.type, {test.batch, test.heads, rowsOf(rows)});
    RingArguments arguments;
    arguments.q = ownQ.view(), arguments.k = ownK.view(), arguments.v = ownV.view();
    if (options.hasRowsOutside)
      arguments.k = withRowsOutside(ownK), arguments.v = withRowsOutside(ownV);
    arguments.o = ownO.view();
    if (options.hasLse)
      arguments.lse = ownLse.view();
    for (auto &[name, array] : options.captures)
      arguments.captures.push_back(
          {name, array.extents.empty() ? Argument::scalar(float(array.get(0))) : array.view()});
    // Twice, since the second run finds what the first one has left in the buffers.
    for (int run = 0; run < (test.ranks == 3 ? 2 : 1); ++run) {
      if (Status status = (*ring)->run(arguments); !status)
        return status;
      if (Status status = communicator.wait(processor->stream(Queue::Compute)); !status)
        return status;
    }
    std::lock_guard<std::mutex> lock(mutex);
    putRows(o, ownO, rows);
    putRows(lse, ownLse, rows);
    work.launches += (*ring)->numLaunches();
    work.received += (*ring)->receivedBytes();
    work.pairs += (*ring)->countPairs();
    return Status::success();
  });
  for (const Status &status : statuses)
    EXPECT_TRUE(status.ok()) << status.message();
  // O is rounded once; f32 has sums of 40 terms.
  const double allowed = test.type == ElementType::F32   ? 1e-5
                         : test.type == ElementType::F16 ? 2e-3
                                                         : 1.6e-2;
  EXPECT_LE(difference(o, expected.o), allowed);
  if (options.hasLse) {
    EXPECT_LE(difference(lse, expected.lse), 1e-4);
  }
  EXPECT_EQ(work.pairs, kept);
  return work;
}

TEST(DistributedRing, EachRankHasAllKeys) {
  // A launch for each rank and the keys of each rank, which all others receive.
  Work two = check({"two ranks"});
  EXPECT_EQ(two.launches, 4u);
  EXPECT_EQ(two.received, 40u * 2 * 2 * 16 * 4);
  Work three = check({"three ranks, rows that they do not divide", 3, 41, 37});
  EXPECT_EQ(three.launches, 9u);
  Work four = check({"four ranks", 4, 20, 50});
  EXPECT_EQ(four.received, 3 * 50u * 2 * 2 * 16 * 4);
}

TEST(DistributedRing, CausalMasksOfTheWhole) {
  const ShareOrder contiguous = ShareOrder::Contiguous, zigzag = ShareOrder::Zigzag;
  Work two = check({"contiguous, 2", 2, 40, 40, Causal::TopLeft, contiguous});
  EXPECT_EQ(two.launches, 3u); // the first rank needs no keys of the second
  EXPECT_EQ(two.received, 20u * 2 * 2 * 16 * 4);
  check({"contiguous, 3", 3, 40, 40, Causal::TopLeft, contiguous});
  Work four = check({"contiguous, 4", 4, 42, 42, Causal::TopLeft, contiguous});
  EXPECT_EQ(four.launches, 10u);
  check({"zigzag, 2", 2, 40, 40, Causal::TopLeft, zigzag});
  check({"zigzag, 3", 3, 41, 41, Causal::TopLeft, zigzag});
  check({"zigzag, 4", 4, 42, 42, Causal::TopLeft, zigzag});
  check({"bottom right, more keys", 2, 24, 40, Causal::BottomRight, contiguous});
  check({"bottom right, more rows", 3, 40, 24, Causal::BottomRight, zigzag});
}

TEST(DistributedRing, MergesRangesOfCodeWithoutModifiers) {
  Case test{"zigzag, 2", 2, 40, 40, Causal::TopLeft, ShareOrder::Zigzag};
  const Work merged = check(test);
  test.hasModifiers = true;
  const Work apart = check(test);
  EXPECT_LT(merged.launches, apart.launches);
  EXPECT_EQ(merged.received, apart.received);
}

TEST(DistributedRing, WindowsTakeNeighborsOnly) {
  Work left = check({"left", 4, 40, 40, Causal::None, ShareOrder::Contiguous, 3, 0});
  EXPECT_EQ(left.received, 3 * 3u * 2 * 2 * 16 * 4); // three keys of each neighbor
  check({"both sides", 3, 40, 40, Causal::None, ShareOrder::Contiguous, 4, 2});
  check({"causal, wider than a share", 4, 40, 40, Causal::TopLeft, ShareOrder::Contiguous, 13, -1});
  check({"zigzag", 2, 40, 40, Causal::TopLeft, ShareOrder::Zigzag, 7, -1});
  check({"bottom right", 2, 24, 40, Causal::BottomRight, ShareOrder::Contiguous, 5, -1});
}

TEST(DistributedRing, SharesOfAnySize) {
  Case test{"uneven", 3, 40, 40, Causal::TopLeft};
  test.shares = {{{0, 3}, {30, 40}}, {{3, 29}}, {{29, 30}}};
  check(test);
  test.name = "a rank without rows";
  test.shares = {{{0, 17}}, {}, {{17, 40}}};
  check(test);
  test.causal = Causal::None;
  check(test);
  check({"fewer rows than ranks", 4, 2, 2, Causal::TopLeft, ShareOrder::Zigzag});
  check({"no keys", 2, 6, 0});
  check({"no rows", 2, 0, 6});
}

TEST(DistributedRing, SharedHeadsBatchesAndWidths) {
  Case test{"two batch elements, four heads on two",
            2,
            24,
            24,
            Causal::TopLeft,
            ShareOrder::Zigzag,
            -1,
            -1,
            2,
            4,
            2,
            16,
            24};
  check(test);
  test.name = "one key head, rows outside of heads";
  test.keyHeads = 1, test.ranks = 3;
  Options options;
  options.hasRowsOutside = true;
  check(test, options);
  test.keyHeads = 2;
  options.hasLse = false;
  check(test, options);
}

TEST(DistributedRing, RoundsResultsOnce) {
  Case test{"f16", 3, 40, 40, Causal::TopLeft, ShareOrder::Zigzag};
  test.type = ElementType::F16;
  check(test);
  test.name = "bf16", test.type = ElementType::BF16;
  check(test);
}

TEST(DistributedRing, ModifiersReadPositionsInTheWhole) {
  Case test{"soft cap", 2, 40, 40, Causal::TopLeft, ShareOrder::Zigzag};
  Options options;
  options.with = {"kernels/mods/softcap.mlir"};
  options.captures = {{"softcap", HostArray(ElementType::F32, {1})}};
  options.captures[0].second.set(0, 1.5f);
  options.captures[0].second.extents.clear();
  options.score = [](double s, int64_t, int64_t, int64_t) { return 1.5 * std::tanh(s / 1.5); };
  check(test, options);

  test.name = "alibi", test.hasModifiers = true, test.ranks = 3;
  options.with = {"kernels/mods/alibi.mlir"};
  options.captures = {{"slopes", HostArray(ElementType::F32, {2})}};
  options.captures[0].second.set(0, 0.25f), options.captures[0].second.set(1, 0.125f);
  options.score = [](double s, int64_t h, int64_t i, int64_t j) {
    return s - (h ? 0.125 : 0.25) * std::abs(double(i - j));
  };
  check(test, options);

  test.name = "sinks, of the first launch only";
  options.with = {"kernels/mods/sink.mlir"};
  options.captures = {{"sinks", HostArray(ElementType::F32, {2})}};
  options.captures[0].second.set(0, 0.5f), options.captures[0].second.set(1, 0.5f);
  options.score = {};
  options.sink = 0.5;
  check(test, options);
}

TEST(DistributedRing, OverNccl) {
  Options options;
  options.isOverNccl = true;
  check({"two ranks", 2, 40, 40, Causal::TopLeft, ShareOrder::Zigzag}, options);
  check({"three ranks", 3, 41, 41, Causal::TopLeft, ShareOrder::Contiguous, 9, -1}, options);
}

//===----------------------------------------------------------------------===//
// Refusals
//===----------------------------------------------------------------------===//

/// The messages of all ranks, of descriptions that `change` makes of a valid one.
std::vector<std::string> refusals(const std::function<void(RingDesc &, int rank)> &change) {
  std::vector<std::string> messages;
  for (const Status &status : runRanks(2, [&](Communicator &communicator) -> Status {
         RingDesc desc = descOf({});
         change(desc, communicator.rank());
         std::unique_ptr<Processor> processor = hostProcessor();
         auto ring = RingAttention::create(*processor, communicator, desc);
         return ring ? Status::success() : ring.status();
       }))
    messages.push_back(status.message());
  return messages;
}

/// On both ranks.
std::string refusal(const std::function<void(RingDesc &)> &change) {
  std::vector<std::string> messages = refusals([&](RingDesc &desc, int) { change(desc); });
  EXPECT_EQ(messages[0], messages[1]);
  return messages[0];
}

TEST(DistributedRing, RefusesDescriptions) {
  EXPECT_EQ(refusal([](RingDesc &) {}), "");
  EXPECT_EQ(refusal([](RingDesc &desc) { desc.attention.kind = AttentionDesc::Kind::Decode; }),
            "ring attention must be a forward, but got another kind");
  EXPECT_EQ(refusal([](RingDesc &desc) { desc.attention.isPacked = true; }),
            "ring attention must not have packed sequences, a cache or lists of blocks; give each "
            "sequence its own ring");
  EXPECT_EQ(refusal([](RingDesc &desc) { desc.attention.type = ElementType::E4M3; }),
            "the type of ring attention must be a float of 16 bits or more, but got e4m3");
  EXPECT_EQ(refusal([](RingDesc &desc) { desc.heads = 3; }),
            "heads must be a multiple of key heads, and the batch not negative, but got 3 on 2, "
            "batch 1");
  EXPECT_EQ(refusal([](RingDesc &desc) { desc.windowLeft = -2; }),
            "a side of a window must be -1 or a number of keys, but got -2");
  EXPECT_EQ(refusal([](RingDesc &desc) { desc.rows.pop_back(); }),
            "rows must have the ranges of each of the 2 ranks, but got 1");
  EXPECT_EQ(refusal([](RingDesc &desc) { desc.keys[0] = {{10, 20}, {0, 10}}; }),
            "keys must have the ranges of each of the 2 ranks, in ascending order and not empty, "
            "but got others");
  EXPECT_EQ(refusal([](RingDesc &desc) { desc.rows[0] = {{0, 21}}; }),
            "rows must have the ranges of each of the 2 ranks, together each row once, but got two "
            "with row 20");
  EXPECT_EQ(refusal([](RingDesc &desc) { desc.rows[0] = {{1, 20}}; }),
            "rows must have the ranges of each of the 2 ranks, together each row once, but got "
            "none with row 0");
  EXPECT_EQ(refusal([](RingDesc &desc) { desc.keys[1] = {{20, int64_t(1) << 31}}; }),
            "keys must be fewer than 2^31, but got 2147483648");
}

TEST(DistributedRing, RefusesWhatDiffersBetweenRanks) {
  auto messages = refusals([](RingDesc &desc, int rank) { desc.scale += rank; });
  EXPECT_EQ(messages[0], "all ranks must have the same scale, but got others than on rank 0 of 2");
  EXPECT_EQ(messages[1], "all ranks must have the same scale, but got others than on rank 1 of 2");
  messages = refusals([](RingDesc &desc, int rank) {
    desc.attention.causal = rank ? Causal::TopLeft : Causal::None;
  });
  EXPECT_EQ(messages[0], "all ranks must have the same type, widths and parameters, but got others "
                         "than on rank 0 of 2");
  messages = refusals([](RingDesc &desc, int rank) { desc.heads += rank; });
  EXPECT_EQ(messages[0], "all ranks must prepare the call, but got an error on rank 1");
}

/// The messages of ranks whose arguments `change` makes of valid ones.
std::vector<std::string> failures(const std::function<Status(RingArguments &, int rank)> &change,
                                  std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
  std::vector<std::string> messages;
  for (const Status &status : runRanks(
           3,
           [&](Communicator &communicator) -> Status {
             const RingDesc desc = descOf({"", 3, 12, 12});
             std::unique_ptr<Processor> processor = hostProcessor();
             auto ring = RingAttention::create(*processor, communicator, desc);
             if (!ring)
               return ring.status();
             HostArray q(ElementType::F32, {1, 2, 4, 16}), k = q, v = q, o = q;
             q.fill(1), k.fill(2), v.fill(3);
             RingArguments arguments;
             arguments.q = q.view(), arguments.k = k.view(), arguments.v = v.view();
             arguments.o = o.view();
             if (Status status = change(arguments, communicator.rank()); !status)
               return status;
             return (*ring)->run(arguments);
           },
           timeout))
    messages.push_back(status.message());
  return messages;
}

TEST(DistributedRing, AFailureOfARankFailsAll) {
  auto messages = failures([](RingArguments &arguments, int rank) {
    if (rank == 1)
      arguments.o = rowsOfView(arguments.o, 0, 3);
    return Status::success();
  });
  const std::string reason = "o must be f32[1,2,4,16] on this rank, but got f32[1,2,3,16]";
  EXPECT_EQ(messages[1], reason);
  EXPECT_EQ(messages[0], "rank 0 of 3 could not exchange keys: rank 1 has failed: " + reason);
  EXPECT_EQ(messages[2], "rank 2 of 3 could not exchange keys: rank 1 has failed: " + reason);

  messages = failures([](RingArguments &arguments, int rank) {
    if (rank == 2)
      arguments.captures = {{"softcap", Argument::scalar(1.0f)}};
    return Status::success();
  });
  EXPECT_NE(messages[2].find("the CPU device rejects the call: "), std::string::npos);
  EXPECT_NE(messages[2].find("softcap"), std::string::npos);
  EXPECT_NE(messages[0].find("rank 0 of 3 could not exchange keys: rank 2 has failed: the CPU "
                             "device rejects the call"),
            std::string::npos);
  EXPECT_NE(messages[1], "");

  // A rank that ends, and one that hangs.
  messages = failures([](RingArguments &, int rank) {
    return rank == 1 ? Status::failure("its program has ended") : Status::success();
  });
  EXPECT_EQ(messages[1], "its program has ended");
  for (int rank : {0, 2})
    EXPECT_NE(messages[size_t(rank)].find("could not exchange keys: rank 1 has ended"),
              std::string::npos)
        << messages[size_t(rank)];
  messages = failures(
      [](RingArguments &, int rank) {
        if (rank == 1)
          std::this_thread::sleep_for(std::chrono::seconds(8));
        return Status::success();
      },
      std::chrono::seconds(4));
  for (const std::string &message : messages)
    EXPECT_NE(message.find("could not exchange keys: rank 1 did not answer within 4000 ms"),
              std::string::npos)
        << message;
}

} // namespace
