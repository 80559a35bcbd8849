// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// compareArrays: which elements count as different, and their positions.

#include "lib/Driver/ArrayComparison.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace tilewright;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

HostArray make(ElementType type, llvm::ArrayRef<int64_t> shape, const std::vector<double> &values,
               llvm::ArrayRef<int64_t> strides = {}) {
  HostArray array = llvm::cantFail(HostArray::create(type, shape, strides));
  std::vector<uint8_t> dense(values.size() * byteWidth(type));
  numeric::convertToMemory(Storage::F64, values.data(), type, dense.data(), 1, values.size());
  array.copyFrom(dense.data());
  return array;
}

ArrayDifference compare(const HostArray &a, const HostArray &b,
                        std::optional<Tolerance> tolerance = std::nullopt) {
  return llvm::cantFail(compareArrays(a, b, tolerance));
}

TEST(ArrayComparison, FindsTheFirstAndTheWorst) {
  HostArray a = make(ElementType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostArray b = make(ElementType::F32, {2, 3}, {1, 2.5, 3, 4, 5, 9}, {7, 2});
  ArrayDifference difference = compare(a, b);
  EXPECT_FALSE(difference.sameBits);
  EXPECT_EQ(difference.count, 6);
  EXPECT_EQ(difference.beyond, 2);
  EXPECT_EQ(difference.nonFinite, 0);
  EXPECT_EQ(difference.absolute, 3);
  EXPECT_EQ(difference.relative, 3.0 / 9);
  EXPECT_EQ(difference.first, 1);
  EXPECT_EQ(difference.worst, 5);
  EXPECT_EQ(difference.firstValues[1], 2.5);
  EXPECT_EQ(difference.worstValues[0], 6);
  EXPECT_EQ(toIndices(difference.worst, a.getShape()), (llvm::SmallVector<int64_t>{1, 2}));
}

TEST(ArrayComparison, AllowsWhatTheNarrowerTypeJustifies) {
  HostArray one = make(ElementType::F16, {2}, {1, 1});
  HostArray near = make(ElementType::F16, {2}, {1, 1 + 0x1p-9});
  HostArray far = make(ElementType::F16, {2}, {1, 1 + 0x1p-7});
  EXPECT_EQ(compare(one, one).beyond, 0);
  EXPECT_TRUE(compare(one, one).sameBits);
  EXPECT_EQ(compare(one, near).beyond, 0);
  EXPECT_FALSE(compare(one, near).sameBits);
  EXPECT_EQ(compare(one, near, Tolerance{}).beyond, 1);
  EXPECT_EQ(compare(one, far).beyond, 1);
  // Equal when f64 is compared with f16, but not with f32.
  HostArray wide = make(ElementType::F64, {2}, {1, 1 + 0x1p-9});
  EXPECT_EQ(compare(one, wide).beyond, 0);
  EXPECT_EQ(compare(make(ElementType::F32, {2}, {1, 1}), wide).beyond, 1);
  // Near zero, neighboring elements determine the tolerance.
  EXPECT_EQ(compare(make(ElementType::F16, {2}, {1000, 0.001}),
                    make(ElementType::F16, {2}, {1000, -0.001}))
                .beyond,
            0);
}

TEST(ArrayComparison, NanAndInfinityMustBeOnBothSides) {
  double nan = std::nan("");
  HostArray a = make(ElementType::F32, {5}, {nan, infinity, infinity, 1, 2});
  HostArray b = make(ElementType::F32, {5}, {-nan, infinity, -infinity, nan, 2});
  ArrayDifference difference = compare(a, b, Tolerance{1e30, 1e30});
  EXPECT_EQ(difference.beyond, 2);
  EXPECT_EQ(difference.nonFinite, 2);
  EXPECT_EQ(difference.first, 2);
  EXPECT_EQ(difference.absolute, 0);
}

TEST(ArrayComparison, TellsLargeIntegersApart) {
  HostArray a = llvm::cantFail(HostArray::create(ElementType::I64, {2}));
  HostArray b = llvm::cantFail(HostArray::create(ElementType::I64, {2}));
  int64_t large = int64_t(1) << 60, valuesA[] = {large, large}, valuesB[] = {large, large + 1};
  a.copyFrom(valuesA);
  b.copyFrom(valuesB);
  EXPECT_EQ(compare(a, b).beyond, 1);
  EXPECT_EQ(compare(a, b).first, 1);
  EXPECT_EQ(compare(a, b).absolute, 1);
}

TEST(ArrayComparison, TakesArraysWithoutElements) {
  HostArray a = make(ElementType::F32, {0, 3}, {});
  EXPECT_TRUE(compare(a, a).sameBits);
  EXPECT_EQ(compare(a, a).beyond, 0);
}

TEST(ArrayComparison, RejectsWhatCannotBeCompared) {
  auto rejection = [](const HostArray &a, const HostArray &b) {
    llvm::Expected<ArrayDifference> difference = compareArrays(a, b, std::nullopt);
    return difference ? "" : llvm::toString(difference.takeError());
  };
  HostArray a = make(ElementType::F32, {2}, {1, 2}), b = make(ElementType::F32, {2, 1}, {1, 2});
  HostArray c = llvm::cantFail(HostArray::create(ElementType::I32, {2}));
  EXPECT_EQ(rejection(a, b), "results must have one shape, but got (2,) and (2, 1)");
  EXPECT_EQ(rejection(a, c), "results must both be floats, but got f32 and i32");
}

} // namespace
