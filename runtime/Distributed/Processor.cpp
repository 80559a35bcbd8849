// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the processors have in common.

#include "runtime/Distributed/Processor.h"

using namespace tilewright;
using namespace tilewright::runtime;

Result<ProcessorMemory> ProcessorMemory::allocate(Processor &processor, uint64_t bytes) {
  ProcessorMemory memory;
  memory.processor = &processor;
  if (Status status = processor.allocate(bytes, memory.address); !status)
    return status;
  return memory;
}

ProcessorMemory &ProcessorMemory::operator=(ProcessorMemory &&other) noexcept {
  std::swap(processor, other.processor);
  std::swap(address, other.address);
  return *this;
}

ProcessorMemory::~ProcessorMemory() {
  if (address)
    processor->release(address);
}

bool tilewright::runtime::isDense(const Argument &view) {
  int64_t stride = 1;
  for (unsigned i = view.rank; i-- > 0;) {
    if (view.extents[i] > 1 && view.strides[i] != stride)
      return false;
    stride *= view.extents[i];
  }
  return true;
}

Argument tilewright::runtime::rowsOfView(const Argument &view, int64_t begin, int64_t end) {
  Argument rows = view;
  if (begin < end) // else the address may be after the array
    rows.bits += uint64_t(begin * view.strides[2]) * byteWidth(view.type);
  rows.extents[2] = end - begin;
  return rows;
}

Status tilewright::runtime::copyView(Processor &processor, const Argument &to, const Argument &from,
                                     Queue queue) {
  const int64_t element = int64_t(byteWidth(to.type));
  for (unsigned i = 0; i < to.rank; ++i)
    if (!to.extents[i])
      return Status::success();
  // The innermost dimensions that are dense in both make a row; the next one makes the rows of a
  // copy, and each of those outside of it a loop.
  unsigned inner = to.rank;
  int64_t width = 1;
  while (inner > 0 && (to.extents[inner - 1] == 1 ||
                       (to.strides[inner - 1] == width && from.strides[inner - 1] == width)))
    width *= to.extents[--inner];
  const int64_t rows = inner ? to.extents[inner - 1] : 1;
  const int64_t toPitch = inner ? to.strides[inner - 1] : width;
  const int64_t fromPitch = inner ? from.strides[inner - 1] : width;
  int64_t index[maxRank] = {};
  for (;;) {
    int64_t toOffset = 0, fromOffset = 0;
    for (unsigned i = 0; i + 1 < inner; ++i) {
      toOffset += index[i] * to.strides[i];
      fromOffset += index[i] * from.strides[i];
    }
    if (Status status = processor.copyRows(
            to.bits + uint64_t(toOffset * element), uint64_t(toPitch * element),
            from.bits + uint64_t(fromOffset * element), uint64_t(fromPitch * element),
            uint64_t(width * element), uint64_t(rows), queue);
        !status)
      return status;
    unsigned i = inner > 0 ? inner - 1 : 0;
    while (i > 0 && ++index[i - 1] == to.extents[i - 1])
      index[--i] = 0;
    if (i == 0)
      return Status::success();
  }
}

Status tilewright::runtime::reduceOnHost(Processor &processor, Communicator &communicator,
                                         std::vector<int64_t> &numbers, Reduction reduction) {
  const uint64_t bytes = numbers.size() * sizeof(int64_t);
  Result<ProcessorMemory> memory = ProcessorMemory::allocate(processor, bytes);
  Status status = memory.status();
  if (memory)
    status = processor.upload(memory->get(), numbers.data(), bytes);
  if (status)
    status = communicator.reduce(memory->get(), numbers.size(), ElementType::I64, reduction,
                                 processor.stream(Queue::Compute));
  if (status)
    status = processor.download(numbers.data(), memory->get(), bytes);
  if (status)
    status = communicator.wait(processor.stream(Queue::Compute));
  if (!status)
    communicator.abort(status);
  return status;
}

Status tilewright::runtime::agree(Processor &processor, Communicator &communicator,
                                  const Status &status,
                                  const std::vector<std::pair<const char *, int64_t>> &fields) {
  // The number of the rank that failed, then the greatest and the least value of each field.
  std::vector<int64_t> numbers = {status ? -1 : communicator.rank()};
  for (const auto &field : fields) {
    numbers.push_back(field.second);
    numbers.push_back(~field.second);
  }
  Status reduced = reduceOnHost(processor, communicator, numbers, Reduction::Max);
  if (!status)
    return status;
  if (!reduced)
    return reduced;
  if (numbers[0] >= 0)
    return Status::failure("all ranks must prepare the call, but got an error on rank " +
                           std::to_string(numbers[0]));
  for (size_t i = 0; i < fields.size(); ++i)
    if (numbers[1 + 2 * i] != ~numbers[2 + 2 * i])
      return Status::failure(std::string("all ranks must have the same ") + fields[i].first +
                             ", but got others than on " + nameOf(communicator));
  return Status::success();
}
