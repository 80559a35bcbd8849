// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library with the functions of NCCL that the runtime opens, for threads of one process and
// memory of the host: calls are in progress until other ranks have come, as those of a communicator
// that does not block. Each rank has a log of its calls. Environment variables and the functions
// fakeNccl* make it fail. DistributedNcclTest.cpp opens it.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

enum Result { Success = 0, InvalidUsage = 5, InProgress = 7 };

struct Id {
  char bytes[128];
};

struct Config { // as nccl.h of 2.17 has it
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCtas, maxCtas;
  const char *netName;
};

struct Group {
  int size = 0, joined = 0;
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> boxes; // from, to
  std::map<int, std::vector<std::vector<char>>> terms;                // of reductions, by number
};

struct Operation {
  bool isSend;
  void *address;
  size_t bytes;
  int peer;
};

struct Reduction {
  void *to;
  int number, type, operation;
};

struct Comm {
  std::shared_ptr<Group> group;
  int rank;
  std::deque<Operation> receives;
  std::deque<Reduction> reductions;
  int numReductions = 0;
};

std::mutex mutex;
int numIds = 0;
std::map<std::string, std::shared_ptr<Group>> groups;
std::map<int, std::string> logs; // by rank
std::map<std::string, int> failures;
int asyncError = Success;
thread_local int depth = 0;
thread_local std::vector<std::pair<Comm *, Operation>> operations;

/// Logs a call, and returns what it shall return.
int enter(int rank, const char *call, const std::string &text) {
  logs[rank] += text + ";";
  auto found = failures.find(call);
  return found == failures.end() ? Success : found->second;
}

template <typename T> void reduce(char *to, const std::vector<char> &term, int operation) {
  for (size_t at = 0; at < term.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + at, sizeof(T));
    std::memcpy(&b, term.data() + at, sizeof(T));
    a = operation == 0 ? T(a + b) : operation == 2 ? std::max(a, b) : std::min(a, b);
    std::memcpy(to + at, &a, sizeof(T));
  }
}

/// Whether all that the rank has begun is done.
bool progress(Comm &comm) {
  Group &group = *comm.group;
  if (group.joined < group.size)
    return false;
  while (!comm.receives.empty()) {
    const Operation &receive = comm.receives.front();
    auto &box = group.boxes[{receive.peer, comm.rank}];
    if (box.empty())
      return false;
    std::memcpy(receive.address, box.front().data(), std::min(receive.bytes, box.front().size()));
    box.pop_front();
    comm.receives.pop_front();
  }
  while (!comm.reductions.empty()) {
    const Reduction &reduction = comm.reductions.front();
    const auto &terms = group.terms[reduction.number];
    if (terms.size() < size_t(group.size))
      return false;
    auto *to = static_cast<char *>(reduction.to);
    std::memcpy(to, terms[0].data(), terms[0].size());
    for (size_t i = 1; i < terms.size(); ++i) {
      if (reduction.type == 4)
        reduce<int64_t>(to, terms[i], reduction.operation);
      else if (reduction.type == 2)
        reduce<int32_t>(to, terms[i], reduction.operation);
      else if (reduction.type == 7)
        reduce<float>(to, terms[i], reduction.operation);
      else
        reduce<double>(to, terms[i], reduction.operation);
    }
    comm.reductions.pop_front();
  }
  return true;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void fakeNcclReset() {
  std::lock_guard<std::mutex> lock(mutex);
  logs.clear(), failures.clear(), groups.clear();
  asyncError = Success;
}
EXPORT void fakeNcclFail(const char *call, int result) {
  std::lock_guard<std::mutex> lock(mutex);
  failures[call] = result;
}
EXPORT void fakeNcclFailLater(int result) {
  std::lock_guard<std::mutex> lock(mutex);
  asyncError = result;
}
EXPORT const char *fakeNcclLog(int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  return logs[rank].c_str();
}

EXPORT int ncclGetVersion(int *version) {
  const char *text = std::getenv("FAKE_NCCL_VERSION");
  return *version = text ? std::atoi(text) : 22809, Success;
}
EXPORT const char *ncclGetErrorString(int result) {
  return result == 6 ? "remote process exited or there was a network error" : "some error";
}
EXPORT int ncclGetUniqueId(Id *id) {
  std::lock_guard<std::mutex> lock(mutex);
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->bytes, &++numIds, sizeof(numIds));
  auto found = failures.find("ncclGetUniqueId");
  return found == failures.end() ? Success : found->second;
}
EXPORT int ncclCommInitRankConfig(Comm **comm, int size, Id id, int rank, Config *config) {
  std::lock_guard<std::mutex> lock(mutex);
  if (config->magic != 0xcafebeef || config->size != sizeof(Config) || config->version != 21700)
    return 4;
  int result = enter(rank, "ncclCommInitRankConfig",
                     "init " + std::to_string(rank) + " of " + std::to_string(size) +
                         (config->blocking ? " blocking" : ""));
  if (result != Success)
    return result;
  std::shared_ptr<Group> &group = groups[std::string(id.bytes, sizeof(id.bytes))];
  if (!group)
    group = std::make_shared<Group>();
  group->size = size;
  ++group->joined;
  *comm = new Comm{group, rank, {}, {}, 0};
  return InProgress;
}
EXPORT int ncclCommFinalize(Comm *comm) {
  std::lock_guard<std::mutex> lock(mutex);
  return enter(comm->rank, "ncclCommFinalize", "finalize");
}
EXPORT int ncclCommDestroy(Comm *comm) {
  std::lock_guard<std::mutex> lock(mutex);
  int result = enter(comm->rank, "ncclCommDestroy", "destroy");
  delete comm;
  return result;
}
EXPORT int ncclCommAbort(Comm *comm) {
  std::lock_guard<std::mutex> lock(mutex);
  int result = enter(comm->rank, "ncclCommAbort", "abort");
  delete comm;
  return result;
}
EXPORT int ncclCommGetAsyncError(Comm *comm, int *error) {
  std::lock_guard<std::mutex> lock(mutex);
  *error = asyncError != Success ? asyncError : progress(*comm) ? int(Success) : int(InProgress);
  auto found = failures.find("ncclCommGetAsyncError");
  return found == failures.end() ? Success : found->second;
}
EXPORT int ncclGroupStart() {
  ++depth;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = failures.find("ncclGroupStart");
  return found == failures.end() ? Success : found->second;
}
EXPORT int ncclGroupEnd() {
  if (--depth > 0)
    return Success;
  std::lock_guard<std::mutex> lock(mutex);
  for (auto &[comm, operation] : operations) {
    if (operation.isSend) {
      auto *from = static_cast<const char *>(operation.address);
      comm->group->boxes[{comm->rank, operation.peer}].emplace_back(from, from + operation.bytes);
    } else {
      comm->receives.push_back(operation);
    }
  }
  if (!operations.empty())
    logs[operations[0].first->rank] += "post " + std::to_string(operations.size()) + ";";
  operations.clear();
  auto found = failures.find("ncclGroupEnd");
  return found == failures.end() ? InProgress : found->second;
}
EXPORT int ncclSend(const void *address, size_t count, int type, int peer, Comm *comm, void *) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!depth || type != 1)
    return InvalidUsage;
  operations.push_back({comm, {true, const_cast<void *>(address), count, peer}});
  return enter(comm->rank, "ncclSend",
               "send " + std::to_string(count) + " to " + std::to_string(peer));
}
EXPORT int ncclRecv(void *address, size_t count, int type, int peer, Comm *comm, void *) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!depth || type != 1)
    return InvalidUsage;
  operations.push_back({comm, {false, address, count, peer}});
  return enter(comm->rank, "ncclRecv",
               "receive " + std::to_string(count) + " from " + std::to_string(peer));
}
EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                         Comm *comm, void *) {
  std::lock_guard<std::mutex> lock(mutex);
  int result = enter(comm->rank, "ncclAllReduce",
                     "reduce " + std::to_string(count) + " of " + std::to_string(type) + " by " +
                         std::to_string(operation));
  if (result != Success)
    return result;
  auto *bytes = static_cast<const char *>(from);
  int number = comm->numReductions++;
  comm->group->terms[number].emplace_back(bytes,
                                          bytes + count * size_t(type == 4 || type == 8 ? 8 : 4));
  comm->reductions.push_back({to, number, type, operation});
  return InProgress;
}
