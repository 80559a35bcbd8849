// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Relations between register layouts, computed from their digits.

#include "base/Layout/Relations.h"

#include <cassert>
#include <map>

using namespace tilewright;
using namespace tilewright::layout;

namespace {

/// Whether one of the lanes of a warp holds the element.
bool warpHolds(const RegisterLayout &layout, int warp, const Coord &element) {
  for (const Digit &digit : layout.warpDigits()) {
    if (!digit.isReplica() &&
        element[digit.dim] / digit.stride % digit.extent != warp % digit.extent)
      return false;
    warp /= static_cast<int>(digit.extent);
  }
  return true;
}

/// The contributions of warp, lane and register are independent, so threads only need to rename
/// registers if those of the warps and the lanes are equal.
std::vector<int> renaming(const RegisterLayout &from, const RegisterLayout &to) {
  if (from.warpDigits() != to.warpDigits() || from.laneDigits() != to.laneDigits())
    return {};
  std::map<Coord, int> held;
  for (int reg = 0; reg < from.registersPerThread(); ++reg)
    held.emplace(from.registerPart(reg), reg);
  std::vector<int> source;
  for (int reg = 0; reg < to.registersPerThread(); ++reg) {
    auto found = held.find(to.registerPart(reg));
    if (found == held.end())
      return {};
    source.push_back(found->second);
  }
  return source;
}

bool staysInWarps(const RegisterLayout &from, const RegisterLayout &to) {
  if (from.numWarps() != to.numWarps())
    return false;
  for (int warp = 0; warp < to.numWarps(); ++warp)
    for (int lane = 0; lane < kLanes; ++lane)
      for (int reg = 0; reg < to.registersPerThread(); ++reg)
        if (!warpHolds(from, warp, to.element(warp, lane, reg)))
          return false;
  return true;
}

} // namespace

bool Conversion::isIdentity() const {
  for (size_t i = 0; i < sourceRegister.size(); ++i)
    if (sourceRegister[i] != static_cast<int>(i))
      return false;
  return kind == Kind::Registers;
}

Conversion layout::convert(const RegisterLayout &from, const RegisterLayout &to) {
  assert(from.shape() == to.shape() && "a change of layout keeps the shape");
  Conversion conversion;
  conversion.sourceRegister = renaming(from, to);
  if (!conversion.sourceRegister.empty())
    conversion.kind = Conversion::Kind::Registers;
  else if (staysInWarps(from, to))
    conversion.kind = Conversion::Kind::Shuffle;
  return conversion;
}

Owner layout::shuffleSource(const RegisterLayout &from, const RegisterLayout &to, int warp,
                            int lane, int reg) {
  const Owner *best = nullptr;
  std::vector<Owner> owners = from.owners(to.element(warp, lane, reg));
  for (const Owner &owner : owners)
    if (owner.warp == warp && (!best || owner.lane == lane))
      best = &owner;
  assert(best && "the element lies in another warp");
  return *best;
}

ReductionPlan layout::reductionPlan(const RegisterLayout &layout, int dim) {
  ReductionPlan plan{RegisterLayout::slice(layout, dim), {}, {}, {}};

  for (int reg = 0; reg < layout.registersPerThread(); ++reg) {
    int64_t rest = reg, place = 1, target = 0;
    for (const Digit &digit : layout.registerDigits()) {
      if (digit.dim != dim) {
        target += rest % digit.extent * place;
        place *= digit.extent;
      }
      rest /= digit.extent;
    }
    plan.resultRegister.push_back(static_cast<int>(target));
  }

  int64_t place = 1;
  for (const Digit &digit : layout.laneDigits()) {
    if (digit.dim == dim)
      for (int64_t mask = place; mask < place * digit.extent; mask *= 2)
        plan.laneMasks.push_back(static_cast<int>(mask));
    place *= digit.extent;
  }

  place = 1;
  for (const Digit &digit : layout.warpDigits()) {
    if (digit.dim == dim)
      plan.warpGroups.push_back({static_cast<int>(place), static_cast<int>(digit.extent)});
    place *= digit.extent;
  }
  return plan;
}
