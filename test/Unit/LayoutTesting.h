// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared code of the tests of base/Layout.

#ifndef TILEWRIGHT_TEST_UNIT_LAYOUTTESTING_H
#define TILEWRIGHT_TEST_UNIT_LAYOUTTESTING_H

#include "base/Layout/RegisterLayout.h"
#include "base/Layout/SharedLayout.h"

#include "gtest/gtest.h"

#include <set>
#include <vector>

namespace tilewright::layout {

inline constexpr Swizzle swizzles[] = {Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128};

inline std::ostream &operator<<(std::ostream &out, const Owner &owner) {
  return out << "warp " << owner.warp << " lane " << owner.lane << " register " << owner.reg;
}

/// The value; or fails the test and exits, since later lines would only repeat the failure.
template <typename T> T need(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.message();
    std::exit(1);
  }
  return *result;
}

/// The pad that takes the bank conflicts of a column of 16-byte rows away: makes the pitch an odd
/// multiple of 16 bytes.
inline int64_t conflictFreePad(int64_t cols, int elementBits) {
  int64_t rowBytes = cols * elementBits / 8, chunks = (rowBytes + 15) / 16;
  return (chunks | 1) * 16 - rowBytes;
}

/// Calls visit(warp, lane, register) for all.
template <typename Visit> void forEachRegister(const RegisterLayout &layout, Visit visit) {
  for (int warp = 0; warp < layout.numWarps(); ++warp)
    for (int lane = 0; lane < kLanes; ++lane)
      for (int reg = 0; reg < layout.registersPerThread(); ++reg)
        visit(warp, lane, reg);
}

/// A number for each element.
inline int64_t idOf(const RegisterLayout &layout, Coord element) {
  return layout.rank() == 2 ? element[0] * layout.shape()[1] + element[1] : element[0];
}

/// Both maps agree; every element is in the tile, has one canonical owner, and has as many owners
/// as any other.
inline void expectBijection(const RegisterLayout &layout) {
  SCOPED_TRACE(layout.str());
  std::vector<int> owned(layout.numElements(), 0), canonical(layout.numElements(), 0);
  int64_t wrong = 0;
  forEachRegister(layout, [&](int warp, int lane, int reg) {
    Coord element = layout.element(warp, lane, reg);
    int64_t id = idOf(layout, element);
    if (id < 0 || id >= layout.numElements()) {
      ++wrong;
      return;
    }
    ++owned[id];
    bool first = layout.isCanonicalOwner(warp, lane, reg);
    canonical[id] += first;
    if (first && !(layout.canonicalOwner(element) == Owner{warp, lane, reg}))
      ++wrong;
  });
  EXPECT_EQ(wrong, 0);
  int64_t slots = int64_t(layout.numWarps()) * kLanes * layout.registersPerThread();
  int64_t replicas = slots / layout.numElements();
  EXPECT_EQ(slots % layout.numElements(), 0);
  int64_t cols = layout.rank() == 2 ? layout.shape()[1] : 1;
  std::vector<bool> seen(slots);
  for (int64_t id = 0; id < layout.numElements(); ++id) {
    ASSERT_EQ(owned[id], replicas) << "element " << id;
    ASSERT_EQ(canonical[id], 1) << "element " << id;
    Coord element = {id / cols, id % cols};
    std::vector<Owner> owners = layout.owners(element);
    ASSERT_EQ(static_cast<int64_t>(owners.size()), replicas);
    ASSERT_EQ(owners[0], layout.canonicalOwner(element));
    for (const Owner &owner : owners) {
      ASSERT_EQ(layout.element(owner.warp, owner.lane, owner.reg), element) << owner;
      int64_t slot =
          (int64_t(owner.warp) * kLanes + owner.lane) * layout.registersPerThread() + owner.reg;
      ASSERT_FALSE(seen[slot]) << owner << " owns two elements";
      seen[slot] = true;
    }
  }
}

} // namespace tilewright::layout

#endif // TILEWRIGHT_TEST_UNIT_LAYOUTTESTING_H
