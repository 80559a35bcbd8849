// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The transport of GPUs, with a library in place of NCCL, Inputs/fake-nccl.cpp, and functions in
// place of the driver's, whose device memory is that of the host.

#include "DistributedTesting.h"

#include "runtime/Distributed/Nccl.h"

#include <atomic>
#include <dlfcn.h>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

using Kind = Message::Kind;
using Milliseconds = std::chrono::milliseconds;

std::string fakePath() { return besideProgram({"lib/libfake-nccl.so"}); }

/// The controls of the library.
struct Fake {
  void *library = dlopen(fakePath().c_str(), RTLD_NOW | RTLD_LOCAL);
  template <typename Function> Function get(const char *name) const {
    return reinterpret_cast<Function>(dlsym(library, name));
  }
  Fake() { get<void (*)()>("fakeNcclReset")(); }
  ~Fake() { get<void (*)()>("fakeNcclReset")(); }
  void fail(const char *call, int result) const {
    get<void (*)(const char *, int)>("fakeNcclFail")(call, result);
  }
  void failLater(int result) const { get<void (*)(int)>("fakeNcclFailLater")(result); }
  std::string log(int rank) const { return get<const char *(*)(int)>("fakeNcclLog")(rank); }
};

std::atomic<int> numNotReady{0}; // queries of streams that are not ready
std::atomic<cuda::Result> queried{cuda::Success};
thread_local std::vector<cuda::Context> contexts;

const DriverTable &driver() {
  static const DriverTable table = [] {
    DriverTable table;
    using Result = cuda::Result;
    table.cuDeviceGet = [](cuda::Device *device, int ordinal) -> Result {
      return *device = ordinal, 0;
    };
    table.cuDeviceGetCount = [](int *count) -> Result { return *count = 4, 0; };
    table.cuDeviceGetName = [](char *name, int, cuda::Device) -> Result { return *name = 0, 0; };
    table.cuDeviceGetAttribute = [](int *value, int, cuda::Device) -> Result {
      return *value = 9, 0;
    };
    table.cuDevicePrimaryCtxRetain = [](cuda::Context *context, cuda::Device device) -> Result {
      return *context = reinterpret_cast<cuda::Context>(uintptr_t(0x1000 + device)), 0;
    };
    table.cuDevicePrimaryCtxRelease = [](cuda::Device) -> Result { return 0; };
    table.cuCtxPushCurrent = [](cuda::Context context) -> Result {
      return contexts.push_back(context), 0;
    };
    table.cuCtxPopCurrent = [](cuda::Context *context) -> Result {
      *context = contexts.back();
      return contexts.pop_back(), 0;
    };
    table.cuStreamQuery = [](cuda::Stream) -> Result {
      return numNotReady-- > 0 ? Result(cuda::ErrorNotReady) : queried.load();
    };
    return table;
  }();
  return table;
}

NcclTable table() {
  auto table = NcclTable::open(fakePath());
  EXPECT_TRUE(table.ok()) << table.message();
  return table ? *table : NcclTable();
}

/// Runs `rank` on a thread for each communicator.
std::vector<Status> run(const NcclTable &nccl, int size,
                        const std::function<Status(Communicator &)> &rank,
                        Milliseconds timeout = std::chrono::minutes(1)) {
  auto id = nccl.makeUniqueId();
  std::vector<Status> statuses(size_t(size), id.status());
  std::vector<std::thread> threads;
  for (int i = 0; id && i < size; ++i)
    threads.emplace_back([&, i] {
      auto communicator = makeNcclCommunicator(nccl, driver(), {i, size, *id, i, timeout});
      statuses[size_t(i)] = communicator ? rank(**communicator) : communicator.status();
      EXPECT_TRUE(contexts.empty());
    });
  for (std::thread &thread : threads)
    thread.join();
  return statuses;
}

/// Sends a number to the next rank, and expects that of the last one.
Status passOn(Communicator &own) {
  int size = own.size(), next = (own.rank() + 1) % size, last = (own.rank() + size - 1) % size;
  int number = own.rank(), got = -1;
  const uint64_t from = reinterpret_cast<uint64_t>(&number), to = reinterpret_cast<uint64_t>(&got);
  if (Status status = own.post({{Kind::Send, from, 4, next},
                                {Kind::Send, from, 0, next}, // no message
                                {Kind::Receive, to, 4, last}},
                               nullptr, "exchange keys");
      !status)
    return status;
  if (Status status = own.complete(nullptr); !status)
    return status;
  if (Status status = own.wait(nullptr); !status)
    return status;
  return got == last ? Status::success() : Status::failure("a wrong number");
}

TEST(DistributedNccl, PostsMessagesInGroups) {
  Fake fake;
  const NcclTable nccl = table();
  for (int size : {2, 3})
    for (const Status &status : run(nccl, size, [](Communicator &own) {
           Status status = passOn(own);
           return status ? passOn(own) : status;
         }))
      EXPECT_TRUE(status.ok()) << status.message();
  const std::string two = "send 4 to 1;receive 4 from 1;post 2;";
  const std::string three = "send 4 to 1;receive 4 from 2;post 2;";
  EXPECT_EQ(fake.log(0), "init 0 of 2;" + two + two + "finalize;destroy;init 0 of 3;" + three +
                             three + "finalize;destroy;");
}

TEST(DistributedNccl, NoMessagesAreNoGroup) {
  Fake fake;
  const NcclTable nccl = table();
  for (const Status &status : run(nccl, 2, [](Communicator &own) {
         return own.post({{Kind::Send, 0, 0, 1 - own.rank()}}, nullptr, "exchange keys");
       }))
    EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(fake.log(1), "init 1 of 2;finalize;destroy;");
}

TEST(DistributedNccl, Reductions) {
  Fake fake;
  const NcclTable nccl = table();
  for (const Status &status : run(nccl, 3, reduceOfThree))
    EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(fake.log(2), "init 2 of 3;reduce 1 of 4 by 0;reduce 1 of 2 by 3;reduce 1 of 7 by 2;"
                         "reduce 1 of 8 by 0;finalize;destroy;");
}

TEST(DistributedNccl, MissingLibrary) {
  auto missing = NcclTable::open("/nowhere/libnccl.so.2");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.status().code(), Code::Unsupported);
  EXPECT_NE(missing.message().find("no NCCL: '/nowhere/libnccl.so.2' cannot be opened ("),
            std::string::npos);
  EXPECT_NE(missing.message().find("); install NCCL 2.17 or later, or set TILEWRIGHT_NCCL to the "
                                   "path of libnccl.so.2"),
            std::string::npos);
  setenv("TILEWRIGHT_NCCL", "/nowhere/else.so", 1);
  EXPECT_NE(NcclTable::open().message().find("no NCCL: '/nowhere/else.so' cannot be opened"),
            std::string::npos);
  setenv("TILEWRIGHT_NCCL", fakePath().c_str(), 1);
  EXPECT_TRUE(NcclTable::open().ok());
  unsetenv("TILEWRIGHT_NCCL");
  // A library of other functions.
  EXPECT_EQ(NcclTable::open("libm.so.6").message(),
            "'libm.so.6' must be NCCL 2.17 or later, but has no ncclGetVersion");
}

TEST(DistributedNccl, Versions) {
  for (const char *version : {"21604", "30100"}) {
    setenv("FAKE_NCCL_VERSION", version, 1);
    EXPECT_EQ(NcclTable::open(fakePath()).message(),
              "'" + fakePath() + "' must be NCCL 2.17 or later, of version 2, but got " +
                  (version[0] == '2' ? "2.16.4" : "3.1.0"));
  }
  setenv("FAKE_NCCL_VERSION", "21700", 1);
  EXPECT_TRUE(NcclTable::open(fakePath()).ok());
  unsetenv("FAKE_NCCL_VERSION");
}

TEST(DistributedNccl, ErrorsOfCalls) {
  struct Case {
    const char *call, *text;
  };
  for (const Case &test :
       {Case{"ncclCommInitRankConfig", "cannot join the other ranks: ncclCommInitRankConfig "},
        {"ncclGroupStart", "cannot exchange keys: ncclGroupStart "},
        {"ncclSend", "cannot exchange keys: ncclSend "},
        {"ncclRecv", "cannot exchange keys: ncclRecv "},
        {"ncclGroupEnd", "cannot exchange keys: ncclGroupEnd "}}) {
    Fake fake;
    const NcclTable nccl = table();
    fake.fail(test.call, 3);
    for (const Status &status : run(nccl, 2, passOn)) {
      EXPECT_NE(status.message().find(test.text + std::string("returned 3 (some error)")),
                std::string::npos)
          << status.message();
      EXPECT_EQ(status.code(), Code::Driver);
    }
    const std::string log = fake.log(0);
    if (log.find("send") != std::string::npos) {
      EXPECT_EQ(log.substr(log.size() - 6), "abort;") << log;
    }
  }
  Fake fake;
  const NcclTable nccl = table();
  fake.fail("ncclGetUniqueId", 2);
  EXPECT_EQ(nccl.makeUniqueId().message(),
            "cannot make the id of a group: ncclGetUniqueId returned 2 (some error)");
}

TEST(DistributedNccl, ErrorsOfOtherRanks) {
  // NCCL finds that another process has ended, while a stream waits.
  Fake fake;
  const NcclTable nccl = table();
  std::vector<Status> statuses = run(nccl, 2, [&](Communicator &own) {
    Status status = passOn(own);
    int64_t sum = 0;
    if (status)
      status = own.reduce(reinterpret_cast<uint64_t>(&sum), 1, ElementType::I64, Reduction::Sum,
                          nullptr);
    if (!status || own.rank() == 1)
      return status;
    numNotReady = 1000000000;
    fake.failLater(6);
    status = own.wait(nullptr);
    numNotReady = 0;
    // All further calls have this failure.
    EXPECT_EQ(own.post({}, nullptr, "exchange keys").message(), status.message());
    EXPECT_EQ(own.complete(nullptr).message(), status.message());
    EXPECT_EQ(own.reduce(0, 0, ElementType::I64, Reduction::Sum, nullptr).message(),
              status.message());
    return status;
  });
  EXPECT_EQ(statuses[0].message(),
            "rank 0 of 2: cannot wait for the results: ncclCommGetAsyncError returned 6 (remote "
            "process exited or there was a network error)");
  EXPECT_NE(fake.log(0).find("abort;"), std::string::npos);

  // The stream is done, since NCCL has given up its messages.
  Fake later;
  for (const Status &status : run(nccl, 1, [&](Communicator &own) {
         later.failLater(6);
         return own.wait(nullptr);
       }))
    EXPECT_NE(status.message().find("cannot wait for the results: ncclCommGetAsyncError returned"),
              std::string::npos)
        << status.message();

  // A kernel fails on the own device.
  Fake other;
  queried = 700;
  for (const Status &status : run(nccl, 2, passOn))
    EXPECT_NE(status.message().find("cannot wait for the results: cuStreamQuery returned"),
              std::string::npos)
        << status.message();
  queried = cuda::Success;
}

TEST(DistributedNccl, TimesOut) {
  Fake fake;
  const NcclTable nccl = table();
  auto id = nccl.makeUniqueId();
  ASSERT_TRUE(id.ok());
  // The other rank never comes.
  auto alone = makeNcclCommunicator(nccl, driver(), {0, 2, *id, 0, Milliseconds(30)});
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.message(), "rank 0 of 2: could not join the other ranks, but got no answer of "
                             "another rank within 30 ms: it raised an error, ended, or is late");
  EXPECT_EQ(fake.log(0), "init 0 of 2;abort;");

  // It has raised an error, and leaves the group.
  std::vector<Status> statuses = run(
      nccl, 2,
      [](Communicator &own) -> Status {
        if (own.rank() == 0)
          return passOn(own);
        own.abort(Status::failure("no memory"));
        return own.post({}, nullptr, "exchange keys");
      },
      Milliseconds(500));
  EXPECT_EQ(statuses[1].message(), "rank 1 of 2: no memory");
  EXPECT_EQ(statuses[0].message(),
            "rank 0 of 2: could not exchange keys, but got no answer of another rank within 500 "
            "ms: it raised an error, ended, or is late");

  // Work of the stream hangs.
  statuses = run(
      nccl, 2,
      [](Communicator &own) {
        if (own.rank() == 1)
          return Status::success();
        numNotReady = 1000000000;
        Status status = own.wait(nullptr);
        numNotReady = 0;
        return status;
      },
      Milliseconds(500));
  EXPECT_EQ(statuses[0].message(),
            "rank 0 of 2: could not wait for the results, but got no answer of another rank within "
            "500 ms: it raised an error, ended, or is late");
}

TEST(DistributedNccl, Refusals) {
  Fake fake;
  const NcclTable nccl = table();
  EXPECT_EQ(makeNcclCommunicator(nccl, driver(), {2, 2, {}, 0, Milliseconds(1)}).message(),
            "the rank must be at least 0 and below the size of the group, 2, but got 2");
  DriverTable old = driver();
  old.cuStreamQuery = nullptr;
  EXPECT_EQ(makeNcclCommunicator(nccl, old, {0, 1, {}, 0, Milliseconds(1)}).message(),
            "the CUDA driver must have cuStreamQuery to wait for NCCL; 11.2 is the oldest that "
            "works");
  EXPECT_EQ(
      makeNcclCommunicator(nccl, DriverTable(), {0, 1, {}, 0, Milliseconds(1)}).status().code(),
      Code::NoDriver);
  EXPECT_NE(
      makeNcclCommunicator(nccl, driver(), {0, 1, {}, 4, Milliseconds(1)}).message().find("device"),
      std::string::npos);
  for (const Status &status : run(nccl, 2, [](Communicator &own) {
         EXPECT_EQ(own.reduce(0, 0, ElementType::F16, Reduction::Sum, nullptr).message(),
                   "a reduction must be of f32, f64, i32 or i64, but got f16");
         return own.post({{Kind::Send, 0, 4, own.rank()}}, nullptr, "exchange keys");
       }))
    EXPECT_NE(
        status.message().find("a message must have another rank below 2 as its peer, but got "),
        std::string::npos);
}

} // namespace
