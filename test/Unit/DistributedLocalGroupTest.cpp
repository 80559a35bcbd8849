// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Messages between threads: order, sums, and what ranks get when another one is lost.

#include "DistributedTesting.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

using Kind = Message::Kind;

Message send(const std::vector<int> &from, int peer) {
  return {Kind::Send, reinterpret_cast<uint64_t>(from.data()), from.size() * sizeof(int), peer};
}
Message receive(std::vector<int> &to, int peer) {
  return {Kind::Receive, reinterpret_cast<uint64_t>(to.data()), to.size() * sizeof(int), peer};
}

TEST(DistributedLocalGroup, MessagesArriveInOrder) {
  for (int size : {2, 3, 4}) {
    std::vector<Status> statuses = runRanks(size, [&](Communicator &own) -> Status {
      const int next = (own.rank() + 1) % size, last = (own.rank() + size - 1) % size;
      std::vector<int> first = {own.rank(), 7}, second = {10 + own.rank()}, none;
      std::vector<int> gotFirst(2), gotSecond(1);
      for (int round = 0; round < 3; ++round) {
        if (Status status = own.post({send(first, next), receive(gotFirst, last),
                                      send(second, next), receive(none, last)},
                                     nullptr, "meet");
            !status)
          return status;
        if (Status status = own.post({receive(gotSecond, last)}, nullptr, "meet"); !status)
          return status;
        if (Status status = own.complete(nullptr); !status)
          return status;
        if (gotFirst != std::vector<int>{last, 7} || gotSecond[0] != 10 + last)
          return Status::failure("wrong numbers");
      }
      return own.wait(nullptr);
    });
    for (const Status &status : statuses)
      EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(DistributedLocalGroup, ArriveWhenCompleted) {
  auto group = makeLocalGroup(2, std::chrono::seconds(10));
  std::vector<int> from = {1}, to = {0};
  ASSERT_TRUE(group[0]->post({send(from, 1)}, nullptr, "meet"));
  ASSERT_TRUE(group[1]->post({receive(to, 0)}, nullptr, "meet"));
  EXPECT_EQ(to[0], 0);
  from[0] = 2; // too early: as wrong as on a GPU
  ASSERT_TRUE(group[1]->complete(nullptr));
  EXPECT_EQ(to[0], 2);
  EXPECT_TRUE(group[0]->complete(nullptr));
}

TEST(DistributedLocalGroup, Reductions) {
  for (const Status &status : runRanks(3, reduceOfThree))
    EXPECT_TRUE(status.ok()) << status.message();
  auto group = makeLocalGroup(1, std::chrono::seconds(1));
  EXPECT_EQ(group[0]->reduce(0, 0, ElementType::F16, Reduction::Sum, nullptr).message(),
            "a reduction must be of f32, f64, i32 or i64, but got f16");
}

TEST(DistributedLocalGroup, Refusals) {
  auto group = makeLocalGroup(2, std::chrono::seconds(1));
  std::vector<int> numbers = {1, 2};
  EXPECT_EQ(group[0]->post({send(numbers, 2)}, nullptr, "meet").message(),
            "a message must have another rank below 2 as its peer, but got 2");
  EXPECT_EQ(group[1]->post({receive(numbers, 1)}, nullptr, "meet").message(),
            "a message must have another rank below 2 as its peer, but got 1");
  std::vector<int> one = {0};
  ASSERT_TRUE(group[0]->post({send(numbers, 1)}, nullptr, "meet"));
  ASSERT_TRUE(group[1]->post({receive(one, 0)}, nullptr, "meet"));
  const std::string reason = "rank 0 must send as many bytes as rank 1 receives, 4, but got 8";
  EXPECT_EQ(group[1]->complete(nullptr).message(), reason);
  EXPECT_EQ(group[0]->complete(nullptr).message(),
            "rank 0 of 2 could not meet: rank 1 has failed: " + reason);

  std::vector<Status> statuses = runRanks(2, [&](Communicator &own) {
    std::vector<int64_t> terms(size_t(1 + own.rank()));
    return own.reduce(reinterpret_cast<uint64_t>(terms.data()), terms.size(), ElementType::I64,
                      Reduction::Sum, nullptr);
  });
  const char *text = "all ranks must reduce as many bytes as rank 0, 8, but got 16 on rank 1";
  for (const Status &status : statuses)
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
}

TEST(DistributedLocalGroup, LostRanks) {
  std::vector<int> numbers = {1};
  // One that raises an error: the others get its text, at once and from then on.
  auto group = makeLocalGroup(3, std::chrono::hours(1));
  ASSERT_TRUE(group[0]->post({receive(numbers, 1)}, nullptr, "meet"));
  group[2]->abort(Status::failure(Code::OutOfMemory, "no memory"));
  group[1]->abort(Status::failure("a later one"));
  Status status = group[0]->complete(nullptr);
  EXPECT_EQ(status.message(), "rank 0 of 3 could not meet: rank 2 has failed: no memory");
  EXPECT_EQ(status.code(), Code::OutOfMemory);
  EXPECT_EQ(group[1]->post({}, nullptr, "go on").message(),
            "rank 1 of 3 could not go on: rank 2 has failed: no memory");
  EXPECT_EQ(group[2]->post({}, nullptr, "go on").message(), "no memory");

  // One that ends: what it had sent is gone with it.
  group = makeLocalGroup(2, std::chrono::hours(1));
  ASSERT_TRUE(group[1]->post({send(numbers, 0)}, nullptr, "meet"));
  group[1].reset();
  ASSERT_TRUE(group[0]->post({receive(numbers, 1)}, nullptr, "meet"));
  status = group[0]->wait(nullptr);
  EXPECT_EQ(status.message(), "rank 0 of 2 could not meet: rank 1 has ended");
  EXPECT_EQ(status.code(), Code::Driver);

  // One that hangs.
  group = makeLocalGroup(2, std::chrono::milliseconds(20));
  int64_t sum = 0;
  EXPECT_EQ(
      group[0]
          ->reduce(reinterpret_cast<uint64_t>(&sum), 1, ElementType::I64, Reduction::Sum, nullptr)
          .message(),
      "rank 0 of 2 could not reduce numbers: another rank did not answer within 20 ms");
}

} // namespace
