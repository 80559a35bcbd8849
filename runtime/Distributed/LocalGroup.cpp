// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mailboxes between the threads of a group: one for each pair of ranks.

#include "runtime/Distributed/LocalGroup.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

struct Sent {
  uint64_t address, bytes;
  bool isTaken = false;
};

/// What the ranks share; all of it under the mutex.
struct Hub {
  Hub(int size, std::chrono::milliseconds timeout)
      : size(size), timeout(timeout), boxes(size_t(size) * size_t(size)), hasLeft(size_t(size)),
        terms(size_t(size)) {}

  const int size;
  const std::chrono::milliseconds timeout;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<std::shared_ptr<Sent>>> boxes; // [from * size + to], to be received
  std::vector<bool> hasLeft;
  Status failure;
  int failedRank = -1; // of whose failure that is
  // The reduction in progress. A rank leaves it before the next one begins.
  std::vector<std::vector<unsigned char>> terms;
  int numGiven = 0, numTaken = 0;
  bool isReduced = false;
  std::vector<unsigned char> reduced;
};

template <typename T>
void reduceInto(std::vector<unsigned char> &total, const std::vector<unsigned char> &term,
                Reduction reduction) {
  for (size_t at = 0; at + sizeof(T) <= total.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, &total[at], sizeof(T));
    std::memcpy(&b, &term[at], sizeof(T));
    a = reduction == Reduction::Sum   ? T(a + b)
        : reduction == Reduction::Max ? std::max(a, b)
                                      : std::min(a, b);
    std::memcpy(&total[at], &a, sizeof(T));
  }
}

class LocalCommunicator : public Communicator {
public:
  LocalCommunicator(std::shared_ptr<Hub> hub, int rank)
      : Communicator(rank, hub->size), hub(std::move(hub)) {}
  ~LocalCommunicator() override {
    std::lock_guard<std::mutex> lock(hub->mutex);
    hub->hasLeft[size_t(rank())] = true;
    for (const PostedSend &each : sent) // whose memory may go with this rank
      box(rank(), each.peer).clear();
    hub->changed.notify_all();
  }

  Status post(const std::vector<Message> &messages, cuda::Stream, const char *what) override {
    std::lock_guard<std::mutex> lock(hub->mutex);
    if (!hub->failure)
      return failed(what);
    for (const Message &message : messages) {
      if (message.peer < 0 || message.peer >= size() || message.peer == rank())
        return Status::failure("a message must have another rank below " + std::to_string(size()) +
                               " as its peer, but got " + std::to_string(message.peer));
      if (!message.bytes)
        continue;
      if (message.kind == Message::Kind::Receive) {
        received.push_back({message, what});
        continue;
      }
      sent.push_back(
          {std::make_shared<Sent>(Sent{message.address, message.bytes}), message.peer, what});
      box(rank(), message.peer).push_back(sent.back().sent);
    }
    hub->changed.notify_all();
    return Status::success();
  }

  Status complete(cuda::Stream) override {
    std::unique_lock<std::mutex> lock(hub->mutex);
    for (const Posted &each : received) {
      const Message &message = each.message;
      auto &messages = box(message.peer, rank());
      if (Status status = expect(lock, message.peer, each.what, [&] { return !messages.empty(); });
          !status)
        return status;
      std::shared_ptr<Sent> from = messages.front();
      messages.pop_front();
      if (from->bytes != message.bytes) {
        Status status = Status::failure(
            "rank " + std::to_string(message.peer) + " must send as many bytes as rank " +
            std::to_string(rank()) + " receives, " + std::to_string(message.bytes) + ", but got " +
            std::to_string(from->bytes));
        return fail(status);
      }
      std::memcpy(reinterpret_cast<void *>(message.address),
                  reinterpret_cast<const void *>(from->address), message.bytes);
      from->isTaken = true;
      hub->changed.notify_all();
    }
    received.clear();
    for (const PostedSend &each : sent)
      if (Status status = expect(lock, each.peer, each.what, [&] { return each.sent->isTaken; });
          !status)
        return status;
    sent.clear();
    return Status::success();
  }

  Status reduce(uint64_t address, size_t count, ElementType type, Reduction reduction,
                cuda::Stream) override {
    auto *numbers = reinterpret_cast<unsigned char *>(address);
    const char *what = "reduce numbers";
    if (type != ElementType::F32 && type != ElementType::F64 && type != ElementType::I32 &&
        type != ElementType::I64)
      return Status::failure("a reduction must be of f32, f64, i32 or i64, but got " +
                             std::string(elementTypeName(type)));
    std::unique_lock<std::mutex> lock(hub->mutex);
    if (Status status = expect(lock, -1, what, [&] { return !hub->isReduced; }); !status)
      return status;
    hub->terms[size_t(rank())].assign(numbers, numbers + count * byteWidth(type));
    if (++hub->numGiven == size()) {
      hub->reduced = hub->terms[0];
      for (int other = 1; other < size(); ++other) {
        const auto &term = hub->terms[size_t(other)];
        if (term.size() != hub->reduced.size())
          return fail(Status::failure("all ranks must reduce as many bytes as rank 0, " +
                                      std::to_string(hub->reduced.size()) + ", but got " +
                                      std::to_string(term.size()) + " on rank " +
                                      std::to_string(other)));
        if (type == ElementType::F32)
          reduceInto<float>(hub->reduced, term, reduction);
        else if (type == ElementType::F64)
          reduceInto<double>(hub->reduced, term, reduction);
        else if (type == ElementType::I32)
          reduceInto<int32_t>(hub->reduced, term, reduction);
        else
          reduceInto<int64_t>(hub->reduced, term, reduction);
      }
      hub->isReduced = true;
      hub->numGiven = 0;
      hub->changed.notify_all();
    }
    if (Status status = expect(lock, -1, what, [&] { return hub->isReduced; }); !status)
      return status;
    std::memcpy(numbers, hub->reduced.data(), count * byteWidth(type));
    if (++hub->numTaken == size()) {
      hub->numTaken = 0;
      hub->isReduced = false;
      hub->changed.notify_all();
    }
    return Status::success();
  }

  Status wait(cuda::Stream stream) override { return complete(stream); }

  void abort(const Status &reason) override {
    std::lock_guard<std::mutex> lock(hub->mutex);
    (void)fail(reason);
  }

private:
  struct Posted {
    Message message;
    const char *what;
  };
  struct PostedSend {
    std::shared_ptr<Sent> sent;
    int peer;
    const char *what;
  };

  std::deque<std::shared_ptr<Sent>> &box(int from, int to) {
    return hub->boxes[size_t(from * size() + to)];
  }

  /// Makes this the failure of the group if it is the first one.
  Status fail(const Status &reason) {
    if (hub->failure) {
      hub->failure = reason;
      hub->failedRank = rank();
      hub->changed.notify_all();
    }
    return hub->failure;
  }

  /// The failure of the group, as this rank reports it.
  Status failed(const char *what) const {
    if (hub->failedRank == rank())
      return hub->failure;
    return Status::failure(hub->failure.code(), nameOf(*this) + " could not " + what + ": rank " +
                                                    std::to_string(hub->failedRank) +
                                                    " has failed: " + hub->failure.message());
  }

  /// Waits for what another rank does; -1: any.
  template <typename Condition>
  Status expect(std::unique_lock<std::mutex> &lock, int peer, const char *what,
                Condition condition) {
    auto hasLeft = [&] {
      if (peer >= 0)
        return bool(hub->hasLeft[size_t(peer)]);
      return std::find(hub->hasLeft.begin(), hub->hasLeft.end(), true) != hub->hasLeft.end();
    };
    bool isInTime = hub->changed.wait_for(
        lock, hub->timeout, [&] { return !hub->failure || condition() || hasLeft(); });
    // The numbers of a reduction are those of the hub, but messages are in the memory of others.
    if (peer < 0 && condition())
      return Status::success();
    if (!hub->failure)
      return failed(what);
    if (condition())
      return Status::success();
    std::string reason = peer >= 0 ? "rank " + std::to_string(peer) : "another rank";
    reason += isInTime ? " has ended"
                       : " did not answer within " + std::to_string(hub->timeout.count()) + " ms";
    return fail(
        Status::failure(Code::Driver, nameOf(*this) + " could not " + what + ": " + reason));
  }

  std::shared_ptr<Hub> hub;
  std::vector<Posted> received;
  std::vector<PostedSend> sent;
};

} // namespace

std::vector<std::unique_ptr<Communicator>>
tilewright::runtime::makeLocalGroup(int size, std::chrono::milliseconds timeout) {
  auto hub = std::make_shared<Hub>(size, timeout);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<LocalCommunicator>(hub, rank));
  return ranks;
}
