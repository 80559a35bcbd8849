// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tracks the last reads and the last write of each byte of shared memory and checks that the next
// access is ordered after them: a race detector on vector clocks (Flanagan and Freund, FastTrack,
// 2009). The result does not depend on the order in which the simulation executes operations.
//
// A clock has a component for each source of events: a warp, its asynchronous copies, the products
// of a warpgroup, a barrier. An access completes at a time of one component. Another access is
// ordered after it if its source knows that time, that is, if its clock has reached it.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SHADOWMEMORY_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SHADOWMEMORY_H

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright::simulator {

using Time = uint32_t;
using Clock = std::vector<Time>; ///< indexed by component

/// Merges the knowledge of `from` into `into`.
void join(Clock &into, const Clock &from);
/// Reduces `into` to the knowledge that both have.
void meet(Clock &into, const Clock &other);

/// The meaning of the components, for a block of this size.
struct Components {
  Components(unsigned warps, unsigned barriers, unsigned namedBarriers)
      : warps(warps), barriers(barriers), namedBarriers(namedBarriers) {}

  unsigned warp(unsigned w) const { return w; }
  /// Groups of cp.async of a warp: the number of the last complete one.
  unsigned copies(unsigned w) const { return warps + w; }
  /// The time of another component (a warp's, or its copies') at the warp's last proxy fence.
  unsigned fenceOf(unsigned component) const { return component + 2 * warps; }
  /// Groups of TMA stores of a warp that have read their shared memory.
  unsigned stores(unsigned w) const { return 4 * warps + w; }
  /// Groups of wgmma of a warpgroup.
  unsigned products(unsigned warpgroup) const { return 5 * warps + warpgroup; }
  /// Completed phases of an mbarrier, and the TMA writes for them.
  unsigned barrier(unsigned number) const { return 5 * warps + (warps + 3) / 4 + number; }
  unsigned namedBarrier(unsigned number) const { return barrier(barriers) + number; }
  unsigned count() const { return namedBarrier(namedBarriers); }

  /// Whether the component writes through the generic proxy.
  bool isGeneric(unsigned component) const { return component < 2 * warps; }

private:
  unsigned warps, barriers, namedBarriers;
};

struct ByteRange {
  int64_t begin = 0, end = 0;
};
/// Disjoint and sorted.
using Bytes = std::vector<ByteRange>;

struct Access {
  const Clock &known;
  unsigned component; ///< the access ends at its `time`
  Time time;
  bool isAsync; ///< through the async proxy: wgmma, TMA
  mlir::Operation *op;
};

/// An access that is not ordered after an earlier one.
struct Conflict {
  enum class Kind {
    Unwritten,    ///< reads bytes that were never written
    ReadOfWrite,  ///< reads bytes that may still be written
    WriteOfRead,  ///< overwrites bytes that may still be read
    WriteOfWrite, ///< overwrites bytes that may still be written
    NoFence,      ///< ordered, but the async proxy may not see the write
    Outside       ///< beyond the shared memory of the block
  };
  Kind kind;
  int64_t byte;
  mlir::Operation *earlier;
  unsigned component; ///< component of the earlier access
};

class ShadowMemory {
public:
  /// `granule` bytes are always accessed together.
  ShadowMemory(const Components &components, int64_t bytes, int64_t granule)
      : components(components), size(bytes), granule(granule),
        cells((bytes + granule - 1) / granule), states(1) {}

  /// The first conflict, if any. Bytes are relative to `base`.
  std::optional<Conflict> read(int64_t base, const Bytes &bytes, const Access &access);
  std::optional<Conflict> write(int64_t base, const Bytes &bytes, const Access &access);

private:
  struct Reader {
    unsigned component;
    Time time;
    mlir::Operation *op;
  };
  /// The state of a byte. Bytes with the same accesses share one.
  struct State {
    static constexpr unsigned none = ~0u;
    unsigned writer = none;
    Time time = 0;
    mlir::Operation *op = nullptr;
    std::vector<Reader> readers; ///< since the last write
  };

  template <typename Next>
  std::optional<Conflict> update(int64_t base, const Bytes &bytes, Next next);
  /// Frees the states that no cell has any more, so that long runs need no more memory than short
  /// ones.
  void dropUnused();

  static constexpr size_t kFewStates = 4096;
  Components components;
  int64_t size, granule;
  std::vector<uint32_t> cells; ///< state numbers
  std::deque<State> states;
  size_t mostStates = kFewStates; ///< before unused ones are dropped
};

} // namespace tilewright::simulator

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SHADOWMEMORY_H
