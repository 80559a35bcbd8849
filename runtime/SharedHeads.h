// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Heads of keys that are one head in memory, and so have one gradient.

#ifndef TILEWRIGHT_RUNTIME_SHAREDHEADS_H
#define TILEWRIGHT_RUNTIME_SHAREDHEADS_H

#include "runtime/Manifest.h"

#include <algorithm>

namespace tilewright::runtime {

/// The places of k, v, dk and dv, [batch, heads, rows, width], among the arguments of a backward.
struct SharedHeads {
  static constexpr const char *names[] = {"k", "v", "dk", "dv"};
  static constexpr unsigned heads = 1; // dimension
  size_t places[4];

  static std::optional<SharedHeads> find(const std::vector<ArgumentSpec> &contract) {
    SharedHeads found;
    for (unsigned i = 0; i < 4; ++i) {
      auto spec = std::find_if(contract.begin(), contract.end(),
                               [&](const ArgumentSpec &each) { return each.name == names[i]; });
      if (spec == contract.end() || !spec->isView || spec->extents.size() != 4)
        return std::nullopt;
      found.places[i] = size_t(spec - contract.begin());
    }
    return found;
  }

  /// Whether all four have several heads at the same place.
  bool areIn(const Argument *const *arguments) const {
    return std::all_of(places, places + 4, [&](size_t place) {
      const Argument &view = *arguments[place];
      return view.kind == Argument::Kind::View && view.rank == 4 && view.extents[heads] > 1 &&
             view.strides[heads] == 0;
    });
  }
};

/// The arguments of a call, where those heads are one: its gradient is the sum of theirs.
struct UnitedHeads {
  UnitedHeads(const SharedHeads &shared, const Argument *const *arguments, size_t count) {
    std::copy_n(arguments, count, pointers);
    for (unsigned i = 0; i < 4; ++i) {
      views[i] = *arguments[shared.places[i]];
      views[i].extents[SharedHeads::heads] = 1;
      pointers[shared.places[i]] = &views[i];
    }
  }
  Argument views[4];
  const Argument *pointers[maxArguments];
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_SHAREDHEADS_H
