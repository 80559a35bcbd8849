// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a rank computes on: memory, two queues, and kernels by their descriptions. CudaProcessor.h
// is a GPU, HostProcessor.h the CPU device.

#ifndef TILEWRIGHT_RUNTIME_DISTRIBUTED_PROCESSOR_H
#define TILEWRIGHT_RUNTIME_DISTRIBUTED_PROCESSOR_H

#include "runtime/Distributed/Communicator.h"

#include "runtime/AttentionDesc.h"

#include <memory>
#include <utility>

namespace tilewright::runtime {

/// An argument by its name.
struct NamedArgument {
  std::string name;
  Argument value;
  bool isWritten = false; // whether the kernel writes the array
};
using NamedArguments = std::vector<NamedArgument>;

/// Code of a processor, which outlives it.
class ProcessorKernel {
public:
  virtual ~ProcessorKernel() = default;
  /// Whether the code takes an argument of this name.
  virtual bool takes(const std::string &name) const = 0;
  /// Launches on Queue::Compute. May allocate a workspace at the first call with such extents.
  virtual Status run(const NamedArguments &arguments) = 0;
};

/// Kernels are on one queue, messages on the other, so that they run at the same time.
enum class Queue { Compute, Exchange };

/// Used by one thread at a time.
class Processor {
public:
  Processor() = default;
  Processor(const Processor &) = delete;
  Processor &operator=(const Processor &) = delete;
  virtual ~Processor() = default;

  /// Aligned to 256 bytes; 0 for no bytes.
  virtual Status allocate(uint64_t bytes, uint64_t &address) = 0;
  virtual void release(uint64_t address) = 0;
  virtual cuda::Stream stream(Queue queue) const = 0;
  /// Lets `after` wait for what `before` has now.
  virtual Status order(Queue before, Queue after) = 0;
  /// Copies rows of `width` bytes, whose begins are `toPitch` and `fromPitch` bytes apart.
  virtual Status copyRows(uint64_t to, uint64_t toPitch, uint64_t from, uint64_t fromPitch,
                          uint64_t width, uint64_t rows, Queue queue) = 0;
  /// After the work of Queue::Compute. The host's memory must stay until that is done.
  virtual Status upload(uint64_t to, const void *from, uint64_t bytes) = 0;
  virtual Status download(void *to, uint64_t from, uint64_t bytes) = 0;
  /// Whether kernels that have begun can keep messages from beginning: see RingAttention.cpp.
  virtual bool kernelsDelayMessages() const = 0;

  /// A kernel of attention, and one by its name in bundles.
  virtual Result<std::unique_ptr<ProcessorKernel>> load(const AttentionDesc &desc) = 0;
  virtual Result<std::unique_ptr<ProcessorKernel>> load(const std::string &entry,
                                                        const Params &params) = 0;
};

/// Memory of a processor.
class ProcessorMemory {
public:
  ProcessorMemory() = default;
  static Result<ProcessorMemory> allocate(Processor &processor, uint64_t bytes);
  ProcessorMemory(ProcessorMemory &&other) noexcept { *this = std::move(other); }
  ProcessorMemory &operator=(ProcessorMemory &&other) noexcept;
  ~ProcessorMemory();

  uint64_t get() const { return address; }

private:
  Processor *processor = nullptr;
  uint64_t address = 0;
};

/// Copies a view to another of the same extents and type.
Status copyView(Processor &processor, const Argument &to, const Argument &from, Queue queue);
/// The rows `begin` to `end` of a view [batch, heads, rows, ...].
Argument rowsOfView(const Argument &view, int64_t begin, int64_t end);
/// Row-major and without gaps.
bool isDense(const Argument &view);

/// Reduces numbers in memory of the host over all ranks, and waits. A barrier, too.
Status reduceOnHost(Processor &processor, Communicator &communicator, std::vector<int64_t> &numbers,
                    Reduction reduction);
/// Fails on all ranks if `status` is a failure on one, or if `fields` are not the same on all:
/// names one that is not. Success is on all ranks, then.
Status agree(Processor &processor, Communicator &communicator, const Status &status,
             const std::vector<std::pair<const char *, int64_t>> &fields);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DISTRIBUTED_PROCESSOR_H
