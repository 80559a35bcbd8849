// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who read and wrote each byte of shared memory last, and whether the next access is ordered behind
// them: a race detector on vector clocks (Flanagan and Freund, FastTrack, 2009). Its verdict does
// not depend on the order in which the simulation happens to run things.
//
// A clock has a component for each source of events: a warp, its asynchronous copies, the products
// of a warpgroup, a barrier. An access is over at a time of one component; another access comes
// behind it if the one who makes it knows that time: if his clock has reached it.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SHADOWMEMORY_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SHADOWMEMORY_H

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright::simulator {

using Time = uint32_t;
using Clock = std::vector<Time>; ///< by component

/// The owner of `into` learns what `from` knows.
void join(Clock &into, const Clock &from);
/// What both know.
void meet(Clock &into, const Clock &other);

/// Which component is what, in a block of this size.
struct Components {
  Components(unsigned warps, unsigned barriers, unsigned namedBarriers)
      : warps(warps), barriers(barriers), namedBarriers(namedBarriers) {}

  unsigned warp(unsigned w) const { return w; }
  /// Groups of cp.async of a warp: the number of the last that is finished.
  unsigned copies(unsigned w) const { return warps + w; }
  /// The time of another component (a warp's, or its copies') at the warp's last proxy fence.
  unsigned fenceOf(unsigned component) const { return component + 2 * warps; }
  /// Groups of TMA stores of a warp that have read their shared memory.
  unsigned stores(unsigned w) const { return 4 * warps + w; }
  /// Groups of wgmma of a warpgroup.
  unsigned products(unsigned warpgroup) const { return 5 * warps + warpgroup; }
  /// Completed phases of an mbarrier, and what TMA has written for them.
  unsigned barrier(unsigned number) const { return 5 * warps + (warps + 3) / 4 + number; }
  unsigned namedBarrier(unsigned number) const { return barrier(barriers) + number; }
  unsigned count() const { return namedBarrier(namedBarriers); }

  /// Whether what the component wrote went through the generic proxy.
  bool isGeneric(unsigned component) const { return component < 2 * warps; }

private:
  unsigned warps, barriers, namedBarriers;
};

struct ByteRange {
  int64_t begin = 0, end = 0;
};
/// Disjoint, in order.
using Bytes = std::vector<ByteRange>;

struct Access {
  const Clock &known;
  unsigned component; ///< of which `time` is the end of the access
  Time time;
  bool isAsync; ///< through the async proxy: wgmma, TMA
  mlir::Operation *op;
};

/// An access that is not ordered behind an earlier one.
struct Conflict {
  enum class Kind {
    Unwritten,    ///< reads what was never written
    ReadOfWrite,  ///< reads while it may still be written
    WriteOfRead,  ///< overwrites what may still be read
    WriteOfWrite, ///< overwrites what may still be written
    NoFence       ///< ordered, but the async proxy may not see the write
  };
  Kind kind;
  int64_t byte;
  mlir::Operation *earlier;
  unsigned component; ///< of the earlier access
};

class ShadowMemory {
public:
  /// `granule` bytes are accessed together.
  ShadowMemory(const Components &components, int64_t bytes, int64_t granule)
      : components(components), granule(granule), cells((bytes + granule - 1) / granule),
        states(1) {}

  /// The first conflict, if any. The bytes count from `base`.
  std::optional<Conflict> read(int64_t base, const Bytes &bytes, const Access &access);
  std::optional<Conflict> write(int64_t base, const Bytes &bytes, const Access &access);

private:
  struct Reader {
    unsigned component;
    Time time;
    mlir::Operation *op;
  };
  /// Of a byte. Bytes that are accessed alike share one.
  struct State {
    static constexpr unsigned none = ~0u;
    unsigned writer = none;
    Time time = 0;
    mlir::Operation *op = nullptr;
    std::vector<Reader> readers; ///< since it was written
  };

  template <typename Next>
  std::optional<Conflict> update(int64_t base, const Bytes &bytes, Next next);

  Components components;
  int64_t granule;
  std::vector<uint32_t> cells; ///< numbers of states
  std::deque<State> states;
};

} // namespace tilewright::simulator

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SHADOWMEMORY_H
