// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// HostArray: layouts, errors, and the poison between elements.

#include "lib/Driver/HostArray.h"

#include "gtest/gtest.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

using namespace tilewright;

namespace {

HostArray make(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides = {}) {
  return llvm::cantFail(HostArray::create(ElementType::F32, shape, strides));
}

std::string rejection(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides = {},
                      ElementType type = ElementType::F32) {
  llvm::Expected<HostArray> array = HostArray::create(type, shape, strides);
  return array ? "" : llvm::toString(array.takeError());
}

std::vector<float> count(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

float at(const HostArray &array, int64_t offset) {
  return static_cast<const float *>(array.getData())[offset];
}

TEST(HostArray, IsRowMajorByDefault) {
  HostArray array = make({2, 3, 4});
  EXPECT_EQ(array.getStrides(), llvm::ArrayRef<int64_t>({12, 4, 1}));
  EXPECT_EQ(array.getNumBytes(), 24 * sizeof(float));
  array.copyFrom(count(24).data());
  for (int64_t i = 0; i < 24; ++i)
    EXPECT_EQ(at(array, i), i);
}

TEST(HostArray, PlacesElementsByStrides) {
  HostArray array = make({2, 3}, {1, 7});
  std::vector<float> values = count(6);
  array.copyFrom(values.data());
  EXPECT_EQ(at(array, 1 * 1 + 2 * 7), 5.0f);
  EXPECT_TRUE(std::isnan(at(array, 3)));
  std::vector<float> out(6);
  array.copyTo(out.data());
  EXPECT_EQ(out, values);
  EXPECT_EQ(array.getNumBytes(), (1 * 1 + 2 * 7 + 1) * sizeof(float));
}

TEST(HostArray, FindsWhatWasWrittenBetweenElements) {
  HostArray array = make({2, 3}, {4, 1});
  array.copyFrom(count(6).data());
  EXPECT_TRUE(array.gapsArePoisoned());
  static_cast<float *>(array.getData())[3] = 0.0f;
  EXPECT_FALSE(array.gapsArePoisoned());
  array.poison();
  EXPECT_TRUE(array.gapsArePoisoned());
}

// Before, every stride of 0 was refused.
TEST(HostArray, RepeatsElementsThatAreOnlyRead) {
  HostArray array = llvm::cantFail(
      HostArray::create(ElementType::F32, {2, 2, 3}, {0, 4, 1}, HostArray::Use::Read));
  EXPECT_EQ(array.getNumBytes(), 7 * sizeof(float));
  EXPECT_TRUE(array.repeats(0));
  EXPECT_FALSE(array.repeats(1));
  std::vector<float> values = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}, out(12);
  array.copyFrom(values.data());
  EXPECT_EQ(at(array, 4), 3.0f);
  array.copyTo(out.data());
  EXPECT_EQ(out, values);
  EXPECT_TRUE(array.gapsArePoisoned());
  static_cast<float *>(array.getData())[3] = 0.0f;
  EXPECT_FALSE(array.gapsArePoisoned());
  // As many bytes as elements, and yet gaps.
  HostArray even =
      llvm::cantFail(HostArray::create(ElementType::F32, {2, 2}, {0, 3}, HostArray::Use::Read));
  even.copyFrom(out.data());
  static_cast<float *>(even.getData())[1] = 0.0f;
  EXPECT_FALSE(even.gapsArePoisoned());
  // Other overlaps remain errors.
  EXPECT_EQ(
      llvm::toString(
          HostArray::create(ElementType::F32, {2, 3}, {2, 1}, HostArray::Use::Read).takeError()),
      "elements must not share memory, but stride 0 is 2 where at least 3 is needed; give a larger "
      "one");
}

TEST(HostArray, HoldsNoElementsAndOne) {
  HostArray none = make({3, 0, 2});
  EXPECT_EQ(none.getNumElements(), 0);
  EXPECT_NE(none.getData(), nullptr);
  none.copyFrom(nullptr);
  EXPECT_TRUE(none.gapsArePoisoned());
  HostArray one = make({});
  float value = 3.0f;
  one.copyFrom(&value);
  EXPECT_EQ(at(one, 0), 3.0f);
}

TEST(HostArray, TouchesOnlyTheElementsOfHugeLayouts) {
  int64_t stride = (int64_t(1) << 31) + 5;
  HostArray array = make({2, 2}, {stride, 1});
  std::vector<float> values = count(4), out(4);
  array.copyFrom(values.data());
  EXPECT_EQ(at(array, stride + 1), 3.0f);
  array.copyTo(out.data());
  EXPECT_EQ(out, values);
}

TEST(HostArray, AllowsEveryLayoutWithoutOverlap) {
  EXPECT_EQ(rejection({4, 5}, {1, 4}), "");
  EXPECT_EQ(rejection({2, 3, 4}, {3, 1, 6}), "");
  EXPECT_EQ(rejection({1, 5}, {0, 1}), "") << "the stride of a single row does not matter";
  EXPECT_EQ(rejection({0, 5}, {0, 0}), "") << "nor do those of no elements";
}

TEST(HostArray, RejectsWhatCannotBeLaidOut) {
  EXPECT_EQ(rejection({2, 3}, {1}), "expected one stride for each of the 2 dimensions but got 1");
  EXPECT_EQ(rejection({-1}), "dimension 0 must not be negative but got -1");
  EXPECT_EQ(rejection({int64_t(1) << 31}), "dimension 0 must fit in 32 bits but got 2147483648");
  EXPECT_EQ(rejection({2, 3}, {3, -1}), "stride 1 must not be negative but got -1");
  EXPECT_EQ(rejection({2, 3}, {2, 1}), "elements must not share memory, but stride 0 is 2 where at "
                                       "least 3 is needed; give a larger one");
  EXPECT_EQ(rejection({2, 3}, {0, 1}),
            "elements of an array that is written must not share memory, but stride 0 is 0 where "
            "at least 1 is needed; only an array that is read (--in) may repeat elements");
  EXPECT_EQ(rejection({4}, {INT64_MAX / 2}),
            "the array must be addressable in 64 bits, but got 4611686018427387903 as stride 0");
  EXPECT_EQ(
      rejection({2}, {INT64_MAX / 4}),
      "the array must be addressable in 64 bits, but got 2305843009213693952 elements in memory");
  std::vector<int64_t> large(4, int64_t(1) << 30);
  EXPECT_EQ(rejection(large), "the array must be addressable in 64 bits, but got 1073741824 as "
                              "extent 1 of rows of 1152921504606846976");
  EXPECT_EQ(rejection({2}, {int64_t(1) << 50}, ElementType::I1),
            "cannot allocate 1125899906842625 bytes: Cannot allocate memory");
}

TEST(HostArray, PoisonsWithNaNInEveryFloatType) {
  for (ElementType type : {ElementType::F64, ElementType::F32, ElementType::F16, ElementType::BF16,
                           ElementType::E4M3, ElementType::E5M2}) {
    HostArray array = llvm::cantFail(HostArray::create(type, {1}));
    double value = 0.0;
    numeric::convertFromMemory(type, array.getData(), 1, Storage::F64, &value, 1);
    EXPECT_TRUE(std::isnan(value)) << elementTypeName(type);
  }
}

} // namespace
