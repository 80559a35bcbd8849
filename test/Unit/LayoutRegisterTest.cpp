// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Register layouts against the tables of the PTX manual, and as bijections.

#include "LayoutTesting.h"

using namespace tilewright;
using namespace tilewright::layout;

namespace {

struct Warps {
  int m, n;
};
const Warps warpGrids[] = {{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}, {4, 2}, {3, 1}, {8, 1}, {2, 4}};
const int64_t extents[] = {16, 32, 48, 64, 80, 96, 128, 192, 256};

template <typename Make> void forEachFitting(Make make, int64_t rowUnit, int64_t colUnit) {
  int made = 0;
  for (Warps warps : warpGrids)
    for (int64_t rows : extents)
      for (int64_t cols : extents) {
        Result<RegisterLayout> layout = make(rows, cols, warps);
        bool fits = rows % (rowUnit * warps.m) == 0 && cols % (colUnit * warps.n) == 0;
        ASSERT_EQ(layout.ok(), fits) << rows << " " << cols << " " << warps.m << " " << warps.n;
        if (!fits || rows * cols > 64 * 96)
          continue;
        expectBijection(*layout);
        EXPECT_EQ(layout->numWarps(), warps.m * warps.n);
        ++made;
      }
  EXPECT_GT(made, 50);
}

//===----------------------------------------------------------------------===//
// mma.sync
//===----------------------------------------------------------------------===//

TEST(LayoutRegister, AccumulatorIsABijection) {
  forEachFitting(
      [](int64_t rows, int64_t cols, Warps warps) {
        return RegisterLayout::mmaAccumulator(rows, cols, warps.m, warps.n);
      },
      16, 8);
}

// "Matrix Fragments for mma.m16n8k16", C and D:
// groupID = lane >> 2, row = groupID for c0, c1 and groupID + 8 for c2, c3,
// col = threadID_in_group * 2 + (i & 1).
TEST(LayoutRegister, AccumulatorAtomIsThatOfPtx) {
  RegisterLayout layout = need(RegisterLayout::mmaAccumulator(16, 8, 1, 1));
  ASSERT_EQ(layout.registersPerThread(), 4);
  forEachRegister(layout, [&](int warp, int lane, int i) {
    int64_t group = lane >> 2, thread = lane % 4;
    Coord expected = {i < 2 ? group : group + 8, thread * 2 + (i & 1)};
    EXPECT_EQ(layout.element(warp, lane, i), expected);
  });
}

TEST(LayoutRegister, AccumulatorAtomsAreDealtToTheGridOfWarps) {
  RegisterLayout layout = need(RegisterLayout::mmaAccumulator(96, 64, 3, 2));
  ASSERT_EQ(layout.numWarps(), 6);
  ASSERT_EQ(layout.registersPerThread(), 2 * 4 * 4); // 2 atoms down, 4 across
  forEachRegister(layout, [&](int warp, int lane, int reg) {
    Coord element = layout.element(warp, lane, reg);
    EXPECT_EQ(element[0] / 16 % 3, warp % 3);
    EXPECT_EQ(element[1] / 8 % 2, warp / 3);
    EXPECT_EQ(element[0] / 48, reg / 16);     // rows of atoms last
    EXPECT_EQ(element[1] / 16, reg % 16 / 4); // along a row first
  });
}

/// The four 32-bit words of A, m16 by 8 e columns of k; e elements to a word. From "Matrix
/// Fragments for mma.m16n8k8 (.tf32)", "m16n8k16" (16 bits) and "m16n8k32": row = groupID for the
/// words 0 and 2, groupID + 8 for 1 and 3; column = threadID_in_group * e + i % e, + 4 e for the
/// words 2 and 3.
TEST(LayoutRegister, OperandAAtomIsThatOfPtx) {
  for (int bits : {8, 16, 32}) {
    int e = 32 / bits;
    RegisterLayout layout = need(RegisterLayout::mmaOperandA(16, 8 * e, 1, 1, bits));
    ASSERT_EQ(layout.registersPerThread(), 4 * e);
    forEachRegister(layout, [&](int warp, int lane, int i) {
      int word = i / e, group = lane >> 2, thread = lane % 4;
      ASSERT_EQ(wordOf(i, bits), word);
      int64_t row = word == 0 || word == 2 ? group : group + 8;
      int64_t col = thread * e + i % e + (word < 2 ? 0 : 4 * e);
      Coord expected = {row, col};
      EXPECT_EQ(layout.element(warp, lane, i), expected) << bits << " bits";
    });
  }
}

/// B: row = threadID_in_group * e + i % e, + 4 e for word 1; column = groupID.
TEST(LayoutRegister, OperandBAtomIsThatOfPtx) {
  for (int bits : {8, 16, 32}) {
    int e = 32 / bits;
    RegisterLayout layout = need(RegisterLayout::mmaOperandB(8 * e, 8, 1, 1, bits));
    ASSERT_EQ(layout.registersPerThread(), 2 * e);
    forEachRegister(layout, [&](int warp, int lane, int i) {
      int group = lane >> 2, thread = lane % 4;
      Coord expected = {thread * e + i % e + (i < e ? 0 : 4 * e), group};
      EXPECT_EQ(layout.element(warp, lane, i), expected) << bits << " bits";
    });
  }
}

TEST(LayoutRegister, OperandsAreBijectionsBetweenReplicas) {
  for (int bits : {8, 16, 32}) {
    int64_t depth = 256 / bits;
    for (Warps warps : warpGrids)
      for (int64_t k : {depth, 3 * depth, 5 * depth}) {
        RegisterLayout a =
            need(RegisterLayout::mmaOperandA(48 * warps.m, k, warps.m, warps.n, bits));
        expectBijection(a);
        EXPECT_EQ(a.owners({0, 0}).size(),
                  size_t(warps.n)); // the warps of a grid row share operand a
        RegisterLayout b =
            need(RegisterLayout::mmaOperandB(k, 24 * warps.n, warps.m, warps.n, bits));
        expectBijection(b);
        EXPECT_EQ(b.owners({0, 0}).size(), size_t(warps.m));
      }
  }
}

/// Emulates mma.sync tile by tile, using only the layouts: the words of each thread are placed as
/// PTX specifies, and the product must be the matrix product.
TEST(LayoutRegister, OperandsAndAccumulatorMeetInTheSameAtoms) {
  const int warpsM = 2, warpsN = 2;
  const int64_t m = 64, n = 48, k = 32;
  RegisterLayout a = need(RegisterLayout::mmaOperandA(m, k, warpsM, warpsN, 16));
  RegisterLayout b = need(RegisterLayout::mmaOperandB(k, n, warpsM, warpsN, 16));
  RegisterLayout c = need(RegisterLayout::mmaAccumulator(m, n, warpsM, warpsN));
  int64_t atomsM = m / (16 * warpsM), atomsN = n / (8 * warpsN), atomsK = k / 16;
  for (int warp = 0; warp < 4; ++warp)
    for (int64_t i = 0; i < atomsM; ++i)
      for (int64_t j = 0; j < atomsN; ++j)
        for (int64_t s = 0; s < atomsK; ++s) {
          // Register 0 of lane 0 is the corner of an atom.
          Coord cornerA = a.element(warp, 0, static_cast<int>((i * atomsK + s) * 8));
          Coord cornerB = b.element(warp, 0, static_cast<int>((j * atomsK + s) * 4));
          Coord cornerC = c.element(warp, 0, static_cast<int>((i * atomsN + j) * 4));
          EXPECT_EQ(cornerA[0], cornerC[0]);
          EXPECT_EQ(cornerB[1], cornerC[1]);
          EXPECT_EQ(cornerA[1], s * 16);
          EXPECT_EQ(cornerB[0], s * 16);
        }
}

//===----------------------------------------------------------------------===//
// wgmma
//===----------------------------------------------------------------------===//

/// "Register Fragments for wgmma.m64nNk16", D: row = 16 * warp + lane / 4 + 8 * (i / 2 % 2),
/// column = 8 * (i / 4) + 2 * (lane % 4) + i % 2.
TEST(LayoutRegister, WgmmaAccumulatorIsThatOfPtx) {
  for (int groups : {1, 2, 3})
    for (int64_t cols : {8, 24, 64, 80, 96, 192, 256})
      for (int64_t blocks : {1, 2}) {
        RegisterLayout layout =
            need(RegisterLayout::wgmmaAccumulator(64 * groups * blocks, cols, groups));
        ASSERT_EQ(layout.registersPerThread(), blocks * cols / 2);
        forEachRegister(layout, [&](int warp, int lane, int reg) {
          int64_t block = reg / (cols / 2), i = reg % (cols / 2);
          int64_t row =
              64 * (block * groups + warp / 4) + 16 * (warp % 4) + lane / 4 + 8 * (i / 2 % 2);
          Coord expected = {row, 8 * (i / 4) + 2 * (lane % 4) + i % 2};
          ASSERT_EQ(layout.element(warp, lane, reg), expected);
        });
        if (cols <= 96)
          expectBijection(layout);
      }
}

TEST(LayoutRegister, WgmmaOperandAIsThatOfPtx) {
  RegisterLayout layout = need(RegisterLayout::wgmmaOperandA(128, 64, 2, 16));
  expectBijection(layout);
  forEachRegister(layout, [&](int warp, int lane, int reg) {
    int64_t step = reg / 8, word = reg % 8 / 2;
    int64_t row = 16 * warp + lane / 4 + 8 * (word % 2);
    Coord expected = {row, 16 * step + 8 * (word / 2) + 2 * (lane % 4) + reg % 2};
    ASSERT_EQ(layout.element(warp, lane, reg), expected);
  });
}

/// A lane has rows 2 (lane / 4) and 2 (lane / 4) + 1 of the 16 of its warp, of accumulators and of
/// operands a alike, and pairs of rows form a layout of their own.
TEST(LayoutRegister, WgmmaHoldsPairsOfRows) {
  RegisterLayout acc = need(RegisterLayout::wgmmaAccumulator(256, 24, 2, /*rowPairs=*/true));
  expectBijection(acc);
  forEachRegister(acc, [&](int warp, int lane, int reg) {
    int64_t block = reg / 12, i = reg % 12;
    int64_t row = 128 * block + 16 * warp + 2 * (lane / 4) + i / 2 % 2;
    Coord expected = {row, 8 * (i / 4) + 2 * (lane % 4) + i % 2};
    ASSERT_EQ(acc.element(warp, lane, reg), expected);
  });
  RegisterLayout a = need(RegisterLayout::wgmmaOperandA(128, 64, 2, 16, /*rowPairs=*/true));
  expectBijection(a);
  forEachRegister(a, [&](int warp, int lane, int reg) {
    int64_t step = reg / 8, word = reg % 8 / 2;
    Coord expected = {16 * warp + 2 * (lane / 4) + word % 2,
                      16 * step + 8 * (word / 2) + 2 * (lane % 4) + reg % 2};
    ASSERT_EQ(a.element(warp, lane, reg), expected);
  });

  std::optional<RegisterLayout> pairs = acc.ofRowPairs();
  ASSERT_TRUE(pairs);
  ASSERT_EQ(pairs->registersPerThread(), acc.registersPerThread() / 2);
  expectBijection(*pairs);
  forEachRegister(*pairs, [&](int warp, int lane, int reg) {
    Coord expected = acc.element(warp, lane, 4 * (reg / 2) + reg % 2);
    expected[0] /= 2;
    ASSERT_EQ(pairs->element(warp, lane, reg), expected);
  });
  EXPECT_FALSE(need(RegisterLayout::wgmmaAccumulator(128, 24, 2)).ofRowPairs());
}

//===----------------------------------------------------------------------===//
// blocked
//===----------------------------------------------------------------------===//

TEST(LayoutRegister, BlockedIsWhatItsTableSays) {
  RegisterLayout layout = need(RegisterLayout::blocked({8, 16}, 2, 8, 2, 1));
  EXPECT_EQ(layout.registersPerThread(), 2);
  forEachRegister(layout, [&](int warp, int lane, int reg) {
    Coord expected = {warp * 4 + lane / 8, lane % 8 * 2 + reg};
    EXPECT_EQ(layout.element(warp, lane, reg), expected);
  });
}

TEST(LayoutRegister, BlockedIsABijectionBetweenReplicas) {
  for (int vector : {1, 2, 8})
    for (int lanes : {1, 4, 32})
      for (Warps warps : warpGrids) {
        for (int64_t rows : {1, 2, 3, 16, 80})
          for (int64_t runs : {1, 3, 8, 10, 24, 32})
            expectBijection(need(
                RegisterLayout::blocked({rows, runs * vector}, vector, lanes, warps.m, warps.n)));
        for (int64_t runs : {1, 7, 32, 80, 256})
          expectBijection(
              need(RegisterLayout::blocked({runs * vector}, vector, lanes, warps.m, warps.n)));
      }
}

TEST(LayoutRegister, HowOneDimensionIsSpreadDoesNotDependOnTheOther) {
  RegisterLayout narrow = need(RegisterLayout::blocked({64, 32}, 8, 8, 4, 1));
  RegisterLayout wide = need(RegisterLayout::blocked({64, 192}, 8, 8, 4, 1));
  EXPECT_EQ(RegisterLayout::slice(narrow, 1), RegisterLayout::slice(wide, 1));
}

//===----------------------------------------------------------------------===//
// Slices, transposes, equality, errors
//===----------------------------------------------------------------------===//

TEST(LayoutRegister, SlicesAreReplicatedOverTheReducedDimension) {
  RegisterLayout parent = need(RegisterLayout::mmaAccumulator(64, 48, 2, 2));
  for (int dim : {0, 1}) {
    RegisterLayout slice = RegisterLayout::slice(parent, dim);
    EXPECT_EQ(slice.shape(), std::vector<int64_t>{parent.shape()[1 - dim]});
    expectBijection(slice);
    // Exactly the threads of a row (column) hold its element.
    for (int64_t i = 0; i < parent.shape()[1 - dim]; ++i) {
      std::set<std::pair<int, int>> expected, got;
      for (int64_t j = 0; j < parent.shape()[dim]; ++j)
        for (const Owner &owner : parent.owners(dim == 1 ? Coord{i, j} : Coord{j, i}))
          expected.insert({owner.warp, owner.lane});
      for (const Owner &owner : slice.owners({i, 0}))
        got.insert({owner.warp, owner.lane});
      EXPECT_EQ(got, expected);
    }
  }
  EXPECT_EQ(RegisterLayout::slice(parent, 1).owners({0, 0}).size(), 4u * 2u);
}

TEST(LayoutRegister, ByThreadHasAnElementForEachThreadOfARow) {
  RegisterLayout parent = need(RegisterLayout::mmaAccumulator(64, 48, 2, 2));
  for (int dim : {0, 1}) {
    RegisterLayout byThread = RegisterLayout::byThread(parent, dim);
    int64_t threads = dim == 1 ? 4 * 2 : 8 * 2, others = parent.shape()[1 - dim];
    EXPECT_EQ(byThread.shape(), dim == 1 ? (std::vector<int64_t>{others, threads})
                                         : (std::vector<int64_t>{threads, others}));
    expectBijection(byThread);
    // One thread holds element t of row (column) i; it holds elements of that row, with the same t
    // for all its rows.
    for (int64_t i = 0; i < others; ++i) {
      std::set<std::pair<int, int>> expected, got;
      for (int64_t j = 0; j < parent.shape()[dim]; ++j)
        for (const Owner &owner : parent.owners(dim == 1 ? Coord{i, j} : Coord{j, i}))
          expected.insert({owner.warp, owner.lane});
      for (int64_t t = 0; t < threads; ++t) {
        std::vector<Owner> owners = byThread.owners(dim == 1 ? Coord{i, t} : Coord{t, i});
        ASSERT_EQ(owners.size(), 1u);
        got.insert({owners[0].warp, owners[0].lane});
      }
      EXPECT_EQ(got, expected);
    }
    EXPECT_EQ(byThread.registersPerThread(),
              RegisterLayout::slice(parent, dim).registersPerThread());
  }
}

TEST(LayoutRegister, TransposedHoldsTheExchangedElement) {
  RegisterLayout layout = need(RegisterLayout::mmaAccumulator(48, 64, 1, 2));
  RegisterLayout exchanged = layout.transposed();
  expectBijection(exchanged);
  forEachRegister(layout, [&](int warp, int lane, int reg) {
    Coord element = layout.element(warp, lane, reg);
    Coord expected = {element[1], element[0]};
    EXPECT_EQ(exchanged.element(warp, lane, reg), expected);
  });
  EXPECT_EQ(exchanged.transposed(), layout);
}

TEST(LayoutRegister, EqualMapsAreEqual) {
  EXPECT_EQ(need(RegisterLayout::wgmmaAccumulator(128, 64, 2)),
            need(RegisterLayout::mmaAccumulator(128, 64, 8, 1)));
  EXPECT_NE(need(RegisterLayout::wgmmaAccumulator(128, 64, 2)),
            need(RegisterLayout::mmaAccumulator(128, 64, 4, 2)));
  EXPECT_EQ(need(RegisterLayout::wgmmaAccumulator(128, 64, 2)).str(),
            "[128, 64] warps 8:0*16 lanes 4:1*2 8:0*1 registers 2:1*1 2:0*8 8:1*8");
}

TEST(LayoutRegister, RejectsWhatDoesNotFit) {
  EXPECT_EQ(RegisterLayout::mmaAccumulator(40, 64, 1, 1).message(),
            "rows must be a multiple of 16 (16 for each warp), but got 40");
  EXPECT_EQ(RegisterLayout::mmaAccumulator(64, 24, 2, 2).message(),
            "columns must be a multiple of 16 (8 for each warp), but got 24");
  EXPECT_EQ(RegisterLayout::mmaAccumulator(64, 64, 16, 4).message(),
            "a block must have 1 to 32 warps, but got 16 by 4");
  EXPECT_EQ(RegisterLayout::mmaOperandA(16, 24, 1, 1, 16).message(),
            "k must be a multiple of 16 (that of the instruction), but got 24");
  EXPECT_EQ(RegisterLayout::mmaOperandB(16, 8, 1, 1, 64).message(),
            "elements of a matrix operand must have 8, 16 or 32 bits, but got 64");
  EXPECT_EQ(RegisterLayout::wgmmaAccumulator(192, 64, 2).message(),
            "rows must be a multiple of 128 (64 for each warpgroup), but got 192");
  EXPECT_EQ(RegisterLayout::wgmmaOperandA(0, 64, 1, 16).message(),
            "rows must be a multiple of 64 (64 for each warpgroup), but got 0");
  EXPECT_EQ(RegisterLayout::blocked({4, 12}, 8, 4, 1, 1).message(),
            "columns must be a multiple of 8 (the vector), but got 12");
  EXPECT_EQ(RegisterLayout::blocked({4, 16}, 8, 3, 1, 1).message(),
            "lanes along a dimension must be 1, 2, 4, 8, 16 or 32, but got 3");
  EXPECT_EQ(RegisterLayout::blocked({4, 4, 4}, 1, 4, 1, 1).message(),
            "a register tile has rank 1 or 2, but got rank 3");
}

} // namespace
