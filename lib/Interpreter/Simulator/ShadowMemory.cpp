// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vector clocks over shared memory.

#include "lib/Interpreter/Simulator/ShadowMemory.h"

#include "llvm/ADT/DenseMap.h"
#include <algorithm>

namespace tilewright::simulator {

void join(Clock &into, const Clock &from) {
  for (size_t i = 0; i < into.size(); ++i)
    into[i] = std::max(into[i], from[i]);
}

void meet(Clock &into, const Clock &other) {
  for (size_t i = 0; i < into.size(); ++i)
    into[i] = std::min(into[i], other[i]);
}

void ShadowMemory::dropUnused() {
  std::vector<uint32_t> renamed(states.size(), ~uint32_t(0));
  std::deque<State> used;
  for (uint32_t &cell : cells) {
    uint32_t &number = renamed[cell];
    if (number == ~uint32_t(0)) {
      number = static_cast<uint32_t>(used.size());
      used.push_back(std::move(states[cell]));
    }
    cell = number;
  }
  states = std::move(used);
  mostStates = std::max(kFewStates, 2 * states.size());
}

/// Replaces the state of every cell. A tile has few distinct states, so each is computed once.
template <typename Next>
std::optional<Conflict> ShadowMemory::update(int64_t base, const Bytes &bytes, Next next) {
  if (states.size() > mostStates)
    dropUnused();
  llvm::SmallDenseMap<uint32_t, uint32_t, 8> known;
  uint32_t from = 0, to = 0;
  bool isFirst = true;
  uint32_t *numbers = cells.data();
  for (const ByteRange &range : bytes) {
    if (base + range.begin < 0 || base + range.end > size)
      return Conflict{Conflict::Kind::Outside,
                      base + (base + range.begin < 0 ? range.begin : size - base), nullptr,
                      State::none};
    int64_t end = (base + range.end + granule - 1) / granule;
    for (int64_t cell = (base + range.begin) / granule; cell < end; ++cell) {
      if (isFirst || numbers[cell] != from) {
        isFirst = false;
        from = numbers[cell];
        auto [entry, isNew] = known.try_emplace(from, 0);
        if (isNew) {
          State state;
          if (std::optional<Conflict> conflict = next(states[from], state)) {
            conflict->byte = cell * granule;
            return conflict;
          }
          entry->second = static_cast<uint32_t>(states.size());
          states.push_back(std::move(state));
        }
        to = entry->second;
      }
      numbers[cell] = to;
    }
  }
  return std::nullopt;
}

std::optional<Conflict> ShadowMemory::read(int64_t base, const Bytes &bytes, const Access &access) {
  using Kind = Conflict::Kind;
  return update(base, bytes, [&](const State &old, State &state) -> std::optional<Conflict> {
    if (old.writer == State::none)
      return Conflict{Kind::Unwritten, 0, nullptr, old.writer};
    if (access.known[old.writer] < old.time)
      return Conflict{Kind::ReadOfWrite, 0, old.op, old.writer};
    if (access.isAsync && components.isGeneric(old.writer) &&
        access.known[components.fenceOf(old.writer)] < old.time)
      return Conflict{Kind::NoFence, 0, old.op, old.writer};
    state = old;
    // An earlier read by the same source has completed when this one has.
    for (Reader &reader : state.readers)
      if (reader.component == access.component) {
        reader = {access.component, access.time, access.op};
        return std::nullopt;
      }
    state.readers.push_back({access.component, access.time, access.op});
    return std::nullopt;
  });
}

std::optional<Conflict> ShadowMemory::write(int64_t base, const Bytes &bytes,
                                            const Access &access) {
  using Kind = Conflict::Kind;
  return update(base, bytes, [&](const State &old, State &state) -> std::optional<Conflict> {
    for (const Reader &reader : old.readers)
      if (access.known[reader.component] < reader.time)
        return Conflict{Kind::WriteOfRead, 0, reader.op, reader.component};
    if (old.writer != State::none) {
      if (access.known[old.writer] < old.time)
        return Conflict{Kind::WriteOfWrite, 0, old.op, old.writer};
      if (access.isAsync && components.isGeneric(old.writer) &&
          access.known[components.fenceOf(old.writer)] < old.time)
        return Conflict{Kind::NoFence, 0, old.op, old.writer};
    }
    state.writer = access.component;
    state.time = access.time;
    state.op = access.op;
    return std::nullopt;
  });
}

} // namespace tilewright::simulator
