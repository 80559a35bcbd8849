// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In which order a ring posts messages and launches kernels, and what it lets wait for what: by a
// processor and a transport that write this down.

#include "DistributedTesting.h"

#include "runtime/Distributed/RingAttention.h"
#include "runtime/Distributed/SpreadDecode.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

using Log = std::vector<std::string>;

class LoggedKernel : public ProcessorKernel {
public:
  LoggedKernel(Log &log, std::string name) : log(log), name(std::move(name)) {}
  bool takes(const std::string &name) const override { return name != "softcap"; }
  Status run(const NamedArguments &arguments) override {
    std::string text = name;
    for (const NamedArgument &argument : arguments) {
      if (argument.name == "first_key")
        text += " key " + std::to_string(argument.value.integer());
      if (argument.name == "o_before")
        text += " continued";
      if (argument.name == "o")
        text += " to " + std::string(elementTypeName(argument.value.type));
    }
    log.push_back(text);
    return Status::success();
  }

private:
  Log &log;
  std::string name;
};

/// Memory of the host, and kernels that do nothing.
class LoggedProcessor : public Processor {
public:
  explicit LoggedProcessor(Log &log) : log(log), host(hostProcessor()) {}
  Status allocate(uint64_t bytes, uint64_t &address) override {
    return host->allocate(bytes, address);
  }
  void release(uint64_t address) override { host->release(address); }
  cuda::Stream stream(Queue queue) const override {
    return reinterpret_cast<cuda::Stream>(uintptr_t(queue == Queue::Compute ? 1 : 2));
  }
  Status order(Queue before, Queue) override {
    log.push_back(before == Queue::Compute ? "messages wait" : "kernels wait");
    return Status::success();
  }
  Status copyRows(uint64_t to, uint64_t toPitch, uint64_t from, uint64_t fromPitch, uint64_t width,
                  uint64_t rows, Queue queue) override {
    log.push_back(queue == Queue::Exchange ? "pack" : "copy");
    return host->copyRows(to, toPitch, from, fromPitch, width, rows, queue);
  }
  Status upload(uint64_t to, const void *from, uint64_t bytes) override {
    return host->upload(to, from, bytes);
  }
  Status download(void *to, uint64_t from, uint64_t bytes) override {
    return host->download(to, from, bytes);
  }
  bool kernelsDelayMessages() const override { return true; }
  Result<std::unique_ptr<ProcessorKernel>> load(const AttentionDesc &desc) override {
    return std::unique_ptr<ProcessorKernel>(std::make_unique<LoggedKernel>(
        log, desc.kind == AttentionDesc::Kind::Decode ? "decode" : "forward"));
  }
  Result<std::unique_ptr<ProcessorKernel>> load(const std::string &entry, const Params &) override {
    return std::unique_ptr<ProcessorKernel>(std::make_unique<LoggedKernel>(log, entry));
  }

private:
  Log &log;
  std::unique_ptr<Processor> host;
};

class LoggedCommunicator : public Communicator {
public:
  LoggedCommunicator(Log &log, Communicator &other)
      : Communicator(other.rank(), other.size()), log(log), other(other) {}
  Status post(const std::vector<Message> &messages, cuda::Stream stream,
              const char *what) override {
    std::string text = stream == reinterpret_cast<cuda::Stream>(uintptr_t(2)) ? "post" : "WRONG";
    for (const Message &message : messages)
      if (message.bytes)
        text += (message.kind == Message::Kind::Send ? " >" : " <") + std::to_string(message.peer) +
                ":" + std::to_string(message.bytes);
    log.push_back(text);
    return other.post(messages, stream, what);
  }
  Status complete(cuda::Stream stream) override { return other.complete(stream); }
  Status reduce(uint64_t address, size_t count, ElementType type, Reduction reduction,
                cuda::Stream stream) override {
    return other.reduce(address, count, type, reduction, stream);
  }
  Status wait(cuda::Stream stream) override { return other.wait(stream); }
  void abort(const Status &reason) override { other.abort(reason); }

private:
  Log &log;
  Communicator &other;
};

/// What each rank does.
std::vector<Log> logsOf(int ranks, const std::function<Status(Processor &, Communicator &)> &rank) {
  std::vector<Log> logs{size_t(ranks)};
  for (const Status &status : runRanks(ranks, [&](Communicator &communicator) {
         Log &log = logs[size_t(communicator.rank())];
         LoggedProcessor processor(log);
         LoggedCommunicator logged(log, communicator);
         return rank(processor, logged);
       }))
    EXPECT_TRUE(status.ok()) << status.message();
  return logs;
}

std::vector<Log> ringLogs(int ranks, int64_t rows, const RingDesc &given) {
  return logsOf(ranks, [&](Processor &processor, Communicator &communicator) -> Status {
    RingDesc desc = given;
    desc.attention.headDim = 16;
    desc.rows = desc.keys = sharesOf(rows, ranks, ShareOrder::Contiguous);
    auto ring = RingAttention::create(processor, communicator, desc);
    if (!ring)
      return ring.status();
    HostArray q(ElementType::BF16, {1, 1, rowsOf(desc.rows[size_t(communicator.rank())]), 16}),
        k = q, v = q, o = q;
    RingArguments arguments;
    arguments.q = q.view(), arguments.k = k.view(), arguments.v = v.view(), arguments.o = o.view();
    return (*ring)->run(arguments);
  });
}

TEST(DistributedOrder, MessagesOfAStepAreBeforeTheKernelsThatHideThem) {
  // Four rows a rank: 4 * 16 * 2 bytes of keys, and of values.
  const std::vector<Log> logs = ringLogs(3, 12, {});
  EXPECT_EQ(logs[0], (Log{"messages wait", "post >1:128 <2:128 >1:128 <2:128", // step 1
                          "forward to f32 key 0",                              // step 0
                          "kernels wait",                                      // for step 1
                          "messages wait",  // for kernels that read the buffer of step 2
                          "post >2:4 <1:4", // both sides of step 2 are here
                          "kernels wait",   // only for that
                          "post >2:128 <1:128 >2:128 <1:128", "forward to f32 key 8 continued",
                          "kernels wait", // for step 2
                          "forward to bf16 key 4 continued"}));
}

TEST(DistributedOrder, RefusesCapturesThatNoKernelTakes) {
  Log log;
  LoggedProcessor processor(log);
  auto group = makeLocalGroup(1, std::chrono::seconds(1));
  RingDesc desc;
  desc.attention.headDim = 16;
  desc.rows = desc.keys = {{{0, 4}}};
  auto ring = RingAttention::create(processor, *group[0], desc);
  ASSERT_TRUE(ring.ok()) << ring.message();
  HostArray q(ElementType::BF16, {1, 1, 4, 16});
  RingArguments arguments;
  arguments.q = arguments.k = arguments.v = arguments.o = q.view();
  arguments.captures = {{"slopes", q.view()}};
  EXPECT_TRUE((*ring)->run(arguments).ok());
  arguments.captures = {{"softcap", Argument::scalar(1.0f)}};
  EXPECT_EQ((*ring)->run(arguments).message(),
            "a capture must be one of the files that are linked to the kernel, but got 'softcap'");
}

TEST(DistributedOrder, CausalRanksExchangeWhatIsNeeded) {
  RingDesc desc;
  desc.attention.causal = AttentionDesc::Causal::TopLeft;
  const std::vector<Log> logs = ringLogs(3, 12, desc);
  EXPECT_EQ(logs[0], (Log{"messages wait", "post >1:128 >1:128", "forward to bf16 key 0",
                          "kernels wait", "messages wait", "post >2:4", "kernels wait",
                          "post >2:128 >2:128", "kernels wait"}));
  EXPECT_EQ(logs[2], (Log{"messages wait", "post <1:128 <1:128", "forward to f32 key 8",
                          "kernels wait", "messages wait", "post <0:4", "kernels wait",
                          "post <0:128 <0:128", "forward to f32 key 4 continued", "kernels wait",
                          "forward to bf16 key 0 continued"}));
}

TEST(DistributedOrder, WindowsPackRowsOfNeighbors) {
  RingDesc desc;
  desc.windowLeft = 2, desc.windowRight = 0;
  const std::vector<Log> logs = ringLogs(3, 12, desc);
  // Two rows of a neighbor; step 2 has no messages. Rows 6 and 7 need no other keys.
  EXPECT_EQ(logs[1],
            (Log{"messages wait", "pack", "pack", "post >2:64 <0:64 >2:64 <0:64",
                 "forward to f32 key 4", "forward to bf16 key 4", "kernels wait", "messages wait",
                 "post", "forward to bf16 key 2 continued", "kernels wait"}));
}

TEST(DistributedOrder, DecodesThenExchangesThenMerges) {
  auto logs = [&](int resultRank) {
    return logsOf(2, [&](Processor &processor, Communicator &communicator) -> Status {
      SpreadDecodeDesc desc;
      desc.attention.kind = AttentionDesc::Kind::Decode;
      desc.attention.headDim = 16;
      desc.resultRank = resultRank;
      auto decode = SpreadDecode::create(processor, communicator, desc);
      if (!decode)
        return decode.status();
      HostArray q(ElementType::BF16, {1, 1, 1, 16}), o = q;
      SpreadDecodeArguments arguments;
      arguments.q = q.view(), arguments.o = o.view();
      return (*decode)->run(arguments);
    });
  };
  // 32 bytes of O and 4 of LSE, each at a multiple of 256.
  EXPECT_EQ(logs(-1)[0], (Log{"decode to bf16", "messages wait", "post >1:512 <1:512",
                              "kernels wait", "attention_merge to bf16"}));
  EXPECT_EQ(logs(1)[0], (Log{"decode to bf16", "messages wait", "post >1:512", "kernels wait"}));
  EXPECT_EQ(logs(1)[1], (Log{"decode to bf16", "messages wait", "post <0:512", "kernels wait",
                             "attention_merge to bf16"}));
}

} // namespace
