// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A communicator of NCCL that does not block: each call is polled, for errors of other ranks and
// for the time-out, after which the communicator is aborted. A lost rank would hang the others
// otherwise.

#include "runtime/Distributed/Nccl.h"

#include "runtime/Device.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <thread>

using namespace tilewright;
using namespace tilewright::runtime;

Result<NcclTable> NcclTable::open(const std::string &path) {
  const char *named = std::getenv("TILEWRIGHT_NCCL");
  const std::string file = !path.empty() ? path : named && *named ? named : "libnccl.so.2";
  // Never closed: it has threads of its own.
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return Status::failure(Code::Unsupported, "no NCCL: '" + file + "' cannot be opened (" +
                                                  (reason ? reason : "no reason given") +
                                                  "); install NCCL 2.17 or later, or set "
                                                  "TILEWRIGHT_NCCL to the path of libnccl.so.2");
  }
  NcclTable table;
  const char *missing = nullptr;
  auto find = [&](const char *symbol) {
    void *address = dlsym(library, symbol);
    if (!address && !missing)
      missing = symbol;
    return address;
  };
  int version = 0;
  table.ncclGetVersion =
      reinterpret_cast<decltype(table.ncclGetVersion)>(dlsym(library, "ncclGetVersion"));
  if (table.ncclGetVersion && table.ncclGetVersion(&version) == nccl::Success &&
      (version < nccl::oldestVersion || version >= 30000))
    return Status::failure(Code::Unsupported,
                           "'" + file + "' must be NCCL 2.17 or later, of version 2, but got " +
                               std::to_string(version / 10000) + "." +
                               std::to_string(version / 100 % 100) + "." +
                               std::to_string(version % 100));
#define TILEWRIGHT_NCCL_FIND(name, parameters)                                                     \
  table.name = reinterpret_cast<decltype(table.name)>(find(#name));
  TILEWRIGHT_NCCL_FUNCTIONS(TILEWRIGHT_NCCL_FIND)
#undef TILEWRIGHT_NCCL_FIND
  table.ncclGetErrorString =
      reinterpret_cast<decltype(table.ncclGetErrorString)>(find("ncclGetErrorString"));
  if (missing)
    return Status::failure(Code::Unsupported,
                           "'" + file + "' must be NCCL 2.17 or later, but has no " + missing);
  return table;
}

Status NcclTable::check(nccl::Result result, const char *call, const std::string &attempted) const {
  if (result == nccl::Success)
    return Status::success();
  const char *text = ncclGetErrorString ? ncclGetErrorString(result) : nullptr;
  return Status::failure(Code::Driver, "cannot " + attempted + ": " + call + " returned " +
                                           std::to_string(result) + " (" +
                                           (text ? text : "unknown error") + ")");
}

Result<nccl::UniqueId> NcclTable::makeUniqueId() const {
  nccl::UniqueId id;
  if (Status status = check(ncclGetUniqueId(&id), "ncclGetUniqueId", "make the id of a group");
      !status)
    return status;
  return id;
}

namespace {

class NcclCommunicator : public Communicator {
public:
  NcclCommunicator(const NcclTable &nccl, const DriverTable &driver, const NcclDesc &desc)
      : Communicator(desc.rank, desc.size), nccl(nccl), driver(driver), desc(desc) {}

  Status open() {
    Result<DeviceInfo> device = queryDevice(driver, desc.device);
    if (!device)
      return device.status();
    Result<PrimaryContext> retained = PrimaryContext::retain(driver, *device);
    if (!retained)
      return retained.status();
    context = std::move(*retained);
    ContextScope current(driver, context.get());
    nccl::Config config;
    const char *what = "join the other ranks";
    nccl::Result result =
        nccl.ncclCommInitRankConfig(&comm, desc.size, desc.id, desc.rank, &config);
    return settle(result, "ncclCommInitRankConfig", what);
  }

  ~NcclCommunicator() override {
    if (!comm)
      return;
    ContextScope current(driver, context.get());
    // Finalizing waits for messages in flight.
    if (Status status = settle(nccl.ncclCommFinalize(comm), "ncclCommFinalize", "leave the group");
        status)
      (void)nccl.ncclCommDestroy(comm);
  }

  Status post(const std::vector<Message> &messages, cuda::Stream stream,
              const char *what) override {
    if (!failure)
      return failure;
    for (const Message &message : messages)
      if (message.peer < 0 || message.peer >= size() || message.peer == rank())
        return Status::failure("a message must have another rank below " + std::to_string(size()) +
                               " as its peer, but got " + std::to_string(message.peer));
    auto isEmpty = [](const Message &message) { return message.bytes == 0; };
    if (std::all_of(messages.begin(), messages.end(), isEmpty))
      return Status::success();
    ContextScope current(driver, context.get());
    if (Status status = settle(nccl.ncclGroupStart(), "ncclGroupStart", what); !status)
      return status;
    nccl::Result result = nccl::Success;
    const char *call = nullptr;
    for (const Message &message : messages) {
      if (isEmpty(message) || (result != nccl::Success && result != nccl::InProgress))
        continue;
      bool isSend = message.kind == Message::Kind::Send;
      call = isSend ? "ncclSend" : "ncclRecv";
      result = isSend ? nccl.ncclSend(reinterpret_cast<const void *>(message.address),
                                      message.bytes, nccl::Uint8, message.peer, comm, stream)
                      : nccl.ncclRecv(reinterpret_cast<void *>(message.address), message.bytes,
                                      nccl::Uint8, message.peer, comm, stream);
    }
    nccl::Result ended = nccl.ncclGroupEnd(); // also after a failure, which it would nest else
    if (Status status = settle(result, call, what); !status)
      return status;
    return settle(ended, "ncclGroupEnd", what);
  }

  Status complete(cuda::Stream) override { return failure; } // the stream has their order

  Status reduce(uint64_t address, size_t count, ElementType type, Reduction reduction,
                cuda::Stream stream) override {
    if (!failure)
      return failure;
    if (type != ElementType::F32 && type != ElementType::F64 && type != ElementType::I32 &&
        type != ElementType::I64)
      return Status::failure("a reduction must be of f32, f64, i32 or i64, but got " +
                             std::string(elementTypeName(type)));
    int kind = type == ElementType::F32   ? nccl::Float32
               : type == ElementType::F64 ? nccl::Float64
               : type == ElementType::I32 ? nccl::Int32
                                          : nccl::Int64;
    int operation = reduction == Reduction::Sum   ? nccl::Sum
                    : reduction == Reduction::Max ? nccl::Max
                                                  : nccl::Min;
    ContextScope current(driver, context.get());
    auto *numbers = reinterpret_cast<void *>(address);
    return settle(nccl.ncclAllReduce(numbers, numbers, count, kind, operation, comm, stream),
                  "ncclAllReduce", "reduce numbers");
  }

  Status wait(cuda::Stream stream) override {
    if (!failure)
      return failure;
    ContextScope current(driver, context.get());
    const char *what = "wait for the results";
    Status status;
    bool isDone = poll([&] {
      cuda::Result result = driver.cuStreamQuery(stream);
      // Also where the stream is done: messages that NCCL gave up have not arrived.
      status = asyncError(what);
      if (!status || result == cuda::ErrorNotReady)
        return !status.ok();
      status = driver.check(result, "cuStreamQuery", what);
      return true;
    });
    if (!isDone)
      status = timedOut(what);
    return status ? status : fail(status);
  }

  void abort(const Status &reason) override { (void)fail(reason); }

private:
  /// Makes this the failure of all further calls.
  Status fail(const Status &reason) {
    if (!failure)
      return failure;
    failure = Status::failure(reason.code(), nameOf(*this) + ": " + reason.message());
    if (comm) {
      ContextScope current(driver, context.get());
      (void)nccl.ncclCommAbort(comm); // frees it, and ends what waits for others on the device
      comm = nullptr;
    }
    return failure;
  }

  /// Calls `isDone` until it returns true, or false after the time-out.
  template <typename IsDone> bool poll(IsDone isDone) const {
    const auto begin = std::chrono::steady_clock::now();
    auto pause = std::chrono::microseconds(0);
    while (!isDone()) {
      if (std::chrono::steady_clock::now() - begin > desc.timeout)
        return false;
      if (pause.count())
        std::this_thread::sleep_for(pause);
      // Connecting takes long, messages on one host take some microseconds.
      if (std::chrono::steady_clock::now() - begin > std::chrono::microseconds(200))
        pause = std::min(pause + std::chrono::microseconds(5), std::chrono::microseconds(100));
    }
    return true;
  }

  Status timedOut(const std::string &what) const {
    return Status::failure(Code::Driver, "could not " + what +
                                             ", but got no answer of another rank within " +
                                             std::to_string(desc.timeout.count()) +
                                             " ms: it raised an error, ended, or is late");
  }

  /// What the communicator has found meanwhile, such as the end of another process.
  Status asyncError(const std::string &what) const {
    nccl::Result error = nccl::Success;
    if (Status status =
            nccl.check(nccl.ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError", what);
        !status)
      return status;
    return error == nccl::InProgress ? Status::success()
                                     : nccl.check(error, "ncclCommGetAsyncError", what);
  }

  /// Waits until a call that is in progress has an end; aborts if it is not success.
  Status settle(nccl::Result result, const char *call, const char *what) {
    Status status;
    if (result == nccl::InProgress) {
      bool isDone = poll([&] {
        nccl::Result error = nccl::Success;
        result = nccl.ncclCommGetAsyncError(comm, &error);
        if (result == nccl::Success)
          result = error;
        return result != nccl::InProgress;
      });
      if (!isDone)
        status = timedOut(what);
    }
    if (status)
      status = nccl.check(result, call, what);
    return status ? status : fail(status);
  }

  const NcclTable &nccl;
  const DriverTable &driver;
  NcclDesc desc;
  PrimaryContext context;
  nccl::Comm comm = nullptr;
  Status failure;
};

} // namespace

Result<std::unique_ptr<Communicator>>
tilewright::runtime::makeNcclCommunicator(const NcclTable &nccl, const DriverTable &driver,
                                          const NcclDesc &desc) {
  if (desc.rank < 0 || desc.rank >= desc.size)
    return Status::failure("the rank must be at least 0 and below the size of the group, " +
                           std::to_string(desc.size) + ", but got " + std::to_string(desc.rank));
  if (Status status = driver.expectFunctions(); !status)
    return status;
  if (!driver.cuStreamQuery)
    return Status::failure(Code::NoDriver, "the CUDA driver must have cuStreamQuery to wait for "
                                           "NCCL; 11.2 is the oldest that works");
  auto communicator = std::make_unique<NcclCommunicator>(nccl, driver, desc);
  if (Status status = communicator->open(); !status)
    return status;
  return std::unique_ptr<Communicator>(std::move(communicator));
}
