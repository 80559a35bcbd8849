// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensor maps, which Hopper's copy engine uses instead of a pointer and strides.

#ifndef TILEWRIGHT_RUNTIME_TENSORMAP_H
#define TILEWRIGHT_RUNTIME_TENSORMAP_H

#include "runtime/DriverTable.h"
#include "runtime/Manifest.h"

#include <atomic>

namespace tilewright::runtime {

/// The map over a whole view, for a view that satisfies the limits (isUsable). Absent and empty
/// views give 128 bytes of zero: the driver does not accept an extent of zero, and using a map over
/// no rows is an illegal instruction.
Status encodeTensorMap(const DriverTable &driver, const TensorMapSpec &spec,
                       const ArgumentSpec &contract, const Argument &view, cuda::TensorMap &map);

/// Maps that the driver encoded for one tensor map of a kernel, so that not every run calls it. A
/// map only depends on address, extents and strides of the view, so it is never outdated.
/// Concurrent readers never wait; an entry that is being written is not found.
class TensorMapCache {
public:
  /// Whether there is a map for the view; if so, `map` is set, else it is unspecified.
  bool find(const Argument &view, cuda::TensorMap &map) const;
  void keep(const Argument &view, const cuda::TensorMap &map);

private:
  static constexpr unsigned mapRank = 5, slotBits = 6;
  static constexpr unsigned mapWords = sizeof(cuda::TensorMap) / sizeof(uint64_t);
  struct Slot {
    std::atomic<uint64_t> version{0}; // 0: empty; odd: being written
    std::atomic<uint64_t> key[1 + 2 * mapRank] = {};
    std::atomic<uint64_t> map[mapWords] = {};
  };
  static unsigned slotOf(const Argument &view);

  Slot slots[1u << slotBits];
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_TENSORMAP_H
