// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layout conversions, reductions and broadcasts, each emulated on values.

#include "LayoutTesting.h"
#include "base/Layout/Relations.h"

using namespace tilewright;
using namespace tilewright::layout;

namespace {

using Kind = Conversion::Kind;

/// The values of all registers, [warp][lane][register].
using Values = std::vector<std::vector<std::vector<int64_t>>>;

Values valuesOf(const RegisterLayout &layout) {
  Values values(layout.numWarps(), std::vector<std::vector<int64_t>>(
                                       kLanes, std::vector<int64_t>(layout.registersPerThread())));
  forEachRegister(layout, [&](int warp, int lane, int reg) {
    values[warp][lane][reg] = idOf(layout, layout.element(warp, lane, reg));
  });
  return values;
}

void expectConversion(const RegisterLayout &from, const RegisterLayout &to, Kind kind) {
  Conversion conversion = convert(from, to);
  SCOPED_TRACE(from.str() + " -> " + to.str());
  ASSERT_EQ(conversion.kind, kind);
  Values source = valuesOf(from), expected = valuesOf(to);
  int64_t wrong = 0;
  forEachRegister(to, [&](int warp, int lane, int reg) {
    if (kind == Kind::Registers)
      wrong += source[warp][lane][conversion.sourceRegister[reg]] != expected[warp][lane][reg];
    if (kind != Kind::SharedMemory) {
      Owner owner = shuffleSource(from, to, warp, lane, reg);
      wrong +=
          owner.warp != warp || source[warp][owner.lane][owner.reg] != expected[warp][lane][reg];
    }
  });
  EXPECT_EQ(wrong, 0);
}

// P of the second product of attention: no data moves, and at 16 bits not even a register changes.
TEST(LayoutRelations, AccumulatorBecomesOperandAInPlace) {
  for (int warps : {1, 2, 4, 8})
    for (int64_t keys : {16, 32, 48, 64, 80, 96, 128, 192}) {
      RegisterLayout acc = need(RegisterLayout::mmaAccumulator(16 * warps, keys, warps, 1));
      RegisterLayout a = need(RegisterLayout::mmaOperandA(16 * warps, keys, warps, 1, 16));
      expectConversion(acc, a, Kind::Registers);
      EXPECT_TRUE(convert(acc, a).isIdentity());
    }
  RegisterLayout acc = need(RegisterLayout::wgmmaAccumulator(128, 176, 2));
  RegisterLayout a = need(RegisterLayout::wgmmaOperandA(128, 176, 2, 16));
  expectConversion(acc, a, Kind::Registers);
  EXPECT_TRUE(convert(acc, a).isIdentity());
}

TEST(LayoutRelations, SeveralRowBlocksRenameRegisters) {
  // Rows of atoms come last in both, so the renaming is still the identity; for the transposed
  // product, they are swapped.
  RegisterLayout acc = need(RegisterLayout::mmaAccumulator(64, 48, 2, 1));
  expectConversion(acc, need(RegisterLayout::mmaOperandA(64, 48, 2, 1, 16)), Kind::Registers);
  RegisterLayout swapped = need(RegisterLayout::mmaAccumulator(48, 32, 1, 1)).transposed();
  RegisterLayout b = need(RegisterLayout::mmaOperandB(32, 48, 1, 1, 16));
  expectConversion(swapped, b, Kind::Registers);
  EXPECT_FALSE(convert(swapped, b).isIdentity());
}

TEST(LayoutRelations, NarrowOperandsNeedShuffles) {
  RegisterLayout acc = need(RegisterLayout::mmaAccumulator(64, 64, 4, 1));
  expectConversion(acc, need(RegisterLayout::mmaOperandA(64, 64, 4, 1, 8)), Kind::Shuffle);
  expectConversion(acc, need(RegisterLayout::mmaOperandA(64, 64, 4, 1, 32)), Kind::Shuffle);
  // A warp keeps its 16 rows.
  expectConversion(acc, need(RegisterLayout::mmaAccumulator(64, 64, 4, 1)), Kind::Registers);
}

TEST(LayoutRelations, OtherWarpsNeedSharedMemory) {
  RegisterLayout acc = need(RegisterLayout::mmaAccumulator(128, 64, 4, 1));
  expectConversion(acc, need(RegisterLayout::mmaAccumulator(128, 64, 2, 2)), Kind::SharedMemory);
  expectConversion(acc, need(RegisterLayout::mmaAccumulator(128, 64, 8, 1)), Kind::SharedMemory);
  expectConversion(acc, need(RegisterLayout::blocked({128, 64}, 8, 8, 4, 1)), Kind::SharedMemory);
  // With two columns of warps each holds half of a row, but operand a needs all of it.
  expectConversion(need(RegisterLayout::mmaAccumulator(64, 64, 2, 2)),
                   need(RegisterLayout::mmaOperandA(64, 64, 2, 2, 16)), Kind::SharedMemory);
}

TEST(LayoutRelations, SlicesOfEqualRowsAreEqual) {
  RegisterLayout s = need(RegisterLayout::mmaAccumulator(64, 128, 4, 1));
  RegisterLayout o = need(RegisterLayout::mmaAccumulator(64, 80, 4, 1));
  expectConversion(RegisterLayout::slice(s, 1), RegisterLayout::slice(o, 1), Kind::Registers);
  RegisterLayout rows = need(RegisterLayout::blocked({64}, 1, 32, 1, 4));
  expectConversion(RegisterLayout::slice(s, 1), rows, Kind::SharedMemory);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Executes a plan on sums and compares with the sums of rows or columns.
void expectReduction(const RegisterLayout &layout, int dim) {
  SCOPED_TRACE(layout.str() + " along " + std::to_string(dim));
  ReductionPlan plan = reductionPlan(layout, dim);
  ASSERT_EQ(plan.result, RegisterLayout::slice(layout, dim));
  ASSERT_EQ(plan.resultRegister.size(), size_t(layout.registersPerThread()));
  Values values = valuesOf(layout);
  for (auto &warp : values) {
    for (auto &registers : warp) {
      std::vector<int64_t> sums(plan.result.registersPerThread());
      for (size_t reg = 0; reg < registers.size(); ++reg)
        sums[plan.resultRegister[reg]] += registers[reg];
      registers = sums;
    }
    for (int mask : plan.laneMasks) {
      auto before = warp;
      for (int lane = 0; lane < kLanes; ++lane)
        for (size_t reg = 0; reg < warp[lane].size(); ++reg)
          warp[lane][reg] += before[lane ^ mask][reg];
    }
  }
  for (WarpGroup group : plan.warpGroups) {
    Values before = values;
    for (int warp = 0; warp < layout.numWarps(); ++warp) {
      int first = warp - warp / group.place % group.extent * group.place;
      for (int lane = 0; lane < kLanes; ++lane)
        for (size_t reg = 0; reg < values[warp][lane].size(); ++reg) {
          values[warp][lane][reg] = 0;
          for (int i = 0; i < group.extent; ++i)
            values[warp][lane][reg] += before[first + i * group.place][lane][reg];
        }
    }
  }
  int64_t kept = plan.result.shape()[0];
  std::vector<int64_t> sums(kept);
  int64_t cols = layout.rank() == 2 ? layout.shape()[1] : 1;
  for (int64_t id = 0; id < layout.numElements(); ++id) {
    Coord element = {id / cols, id % cols};
    sums[layout.rank() == 2 ? element[1 - dim] : 0] += idOf(layout, element);
  }
  forEachRegister(plan.result, [&](int warp, int lane, int reg) {
    ASSERT_EQ(values[warp][lane][reg], sums[plan.result.element(warp, lane, reg)[0]]);
  });
}

TEST(LayoutRelations, ReductionsGiveEveryThreadItsSums) {
  for (int dim : {0, 1}) {
    expectReduction(need(RegisterLayout::mmaAccumulator(64, 80, 4, 1)), dim);
    expectReduction(need(RegisterLayout::mmaAccumulator(96, 48, 3, 2)), dim);
    expectReduction(need(RegisterLayout::wgmmaAccumulator(128, 96, 2)), dim);
    expectReduction(need(RegisterLayout::blocked({64, 96}, 8, 4, 4, 1)), dim);
    expectReduction(need(RegisterLayout::blocked({4, 1024}, 4, 32, 1, 4)), dim);
    expectReduction(need(RegisterLayout::blocked({3, 40}, 8, 8, 2, 2)), dim); // with replicas
    expectReduction(need(RegisterLayout::mmaOperandA(32, 32, 2, 2, 16)), dim);
  }
  expectReduction(need(RegisterLayout::blocked({512}, 2, 32, 1, 4)), 0);
  expectReduction(RegisterLayout::slice(need(RegisterLayout::mmaAccumulator(64, 80, 4, 1)), 1), 0);
}

TEST(LayoutRelations, SoftmaxRowsNeedTwoShufflesAndNoOtherWarp) {
  ReductionPlan plan = reductionPlan(need(RegisterLayout::mmaAccumulator(64, 128, 4, 1)), 1);
  EXPECT_EQ(plan.laneMasks, (std::vector<int>{1, 2}));
  EXPECT_FALSE(plan.acrossWarps());
  EXPECT_EQ(plan.result.registersPerThread(), 2);
  plan = reductionPlan(need(RegisterLayout::mmaAccumulator(64, 128, 4, 1)), 0);
  EXPECT_EQ(plan.laneMasks, (std::vector<int>{4, 8, 16}));
  EXPECT_TRUE(plan.acrossWarps());
  plan = reductionPlan(need(RegisterLayout::mmaAccumulator(64, 128, 2, 2)), 1);
  ASSERT_EQ(plan.warpGroups.size(), 1u);
  EXPECT_EQ(plan.warpGroups[0].place, 2);
  EXPECT_EQ(plan.warpGroups[0].extent, 2);
}

TEST(LayoutRelations, TheReductionReadBackwardsIsTheBroadcast) {
  for (int dim : {0, 1}) {
    RegisterLayout parent = need(RegisterLayout::mmaAccumulator(64, 48, 2, 2));
    ReductionPlan plan = reductionPlan(parent, dim);
    forEachRegister(parent, [&](int warp, int lane, int reg) {
      EXPECT_EQ(plan.result.element(warp, lane, plan.resultRegister[reg])[0],
                parent.element(warp, lane, reg)[1 - dim]);
    });
  }
}

} // namespace
