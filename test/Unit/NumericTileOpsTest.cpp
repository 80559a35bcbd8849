// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shape operations against index arithmetic written out.

#include "NumericTesting.h"
#include "base/Numeric/Fill.h"
#include "base/Numeric/TileOps.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

using Shape = std::vector<int64_t>;

class NumericTileOps : public IsaTest {};
TILEWRIGHT_FOR_EVERY_ISA(NumericTileOps);

int64_t sizeOf(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
}

Shape indexOf(int64_t position, const Shape &shape) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0; position /= shape[d])
    index[d] = position % shape[d];
  return index;
}

int64_t positionOf(const Shape &index, const Shape &shape) {
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    position = position * shape[d] + index[d];
  return position;
}

template <typename T> std::vector<T> counted(int64_t n) {
  std::vector<T> values(n);
  for (int64_t i = 0; i < n; ++i)
    values[i] = T(i);
  return values;
}

template <typename T> void checkTranspose(Storage storage, const Shape &shape) {
  Shape permutation(shape.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::vector<T> in = counted<T>(sizeOf(shape));
  do {
    Shape outShape;
    for (int64_t d : permutation)
      outShape.push_back(shape[d]);
    std::vector<T> out(in.size(), T(99));
    transpose(storage, in.data(), shape.data(), permutation.data(), unsigned(shape.size()),
              out.data());
    for (int64_t i = 0; i < int64_t(out.size()); ++i) {
      Shape outIndex = indexOf(i, outShape), inIndex(shape.size());
      for (size_t d = 0; d < shape.size(); ++d)
        inIndex[permutation[d]] = outIndex[d];
      ASSERT_EQ(out[i], in[positionOf(inIndex, shape)]);
    }
  } while (std::next_permutation(permutation.begin(), permutation.end()));
}

TEST_P(NumericTileOps, TransposeByEveryPermutation) {
  checkTranspose<float>(Storage::F32, {37, 50});
  checkTranspose<float>(Storage::F32, {3, 17, 5});
  checkTranspose<double>(Storage::F64, {3, 4, 1, 18});
  checkTranspose<uint8_t>(Storage::I1, {5, 1, 7});
  checkTranspose<int64_t>(Storage::I64, {2, 3, 2, 2, 3});
  checkTranspose<int32_t>(Storage::I32, {4, 0, 3});
  checkTranspose<float>(Storage::F32, {6});
  checkTranspose<float>(Storage::F32, {});
}

TEST_P(NumericTileOps, Expand) {
  for (Shape outShape : {Shape{4}, Shape{3, 5}, Shape{2, 3, 4}, Shape{2, 0, 3}, Shape{0, 2}})
    for (unsigned dim = 0; dim < outShape.size(); ++dim) {
      Shape inShape = outShape;
      inShape.erase(inShape.begin() + dim);
      std::vector<float> in = counted<float>(sizeOf(inShape)), out(sizeOf(outShape), -1);
      expand(Storage::F32, in.data(), outShape.data(), unsigned(outShape.size()), dim, out.data());
      for (int64_t i = 0; i < int64_t(out.size()); ++i) {
        Shape index = indexOf(i, outShape);
        index.erase(index.begin() + dim);
        ASSERT_EQ(out[i], in[positionOf(index, inShape)]);
      }
    }
}

/// Reduces along `dim` by folding `join` over the elements in order.
template <typename T, typename Join>
void checkReduce(ReduceOp op, Storage storage, const Shape &shape, unsigned dim, std::vector<T> in,
                 T identity, Join join) {
  Shape outShape = shape;
  outShape.erase(outShape.begin() + dim);
  std::vector<T> expected(sizeOf(outShape), identity), out(expected.size(), T(1));
  for (int64_t i = 0; i < int64_t(in.size()); ++i) {
    Shape index = indexOf(i, shape);
    index.erase(index.begin() + dim);
    T &slot = expected[positionOf(index, outShape)];
    slot = join(slot, in[i]);
  }
  ASSERT_TRUE(isSupported(op, storage));
  reduce(op, storage, in.data(), shape.data(), unsigned(shape.size()), dim, out.data());
  ASSERT_EQ(out, expected) << "op " << unsigned(op) << " dim " << dim;
}

template <typename T> void checkReductions(Storage storage, T lowest, T highest) {
  for (Shape shape :
       {Shape{7}, Shape{5, 300}, Shape{129, 3}, Shape{3, 70, 9}, Shape{4, 0, 2}, Shape{3, 0}}) {
    Random random(11);
    std::vector<T> in(sizeOf(shape)), signs(in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = T(random.integer(-1000, 1000));
      signs[i] = T(random.integer(0, 1) * 2 - 1);
    }
    for (unsigned dim = 0; dim < shape.size(); ++dim) {
      checkReduce<T>(ReduceOp::Sum, storage, shape, dim, in, T(0), [](T a, T b) { return a + b; });
      checkReduce<T>(ReduceOp::Product, storage, shape, dim, signs, T(1),
                     [](T a, T b) { return a * b; });
      checkReduce<T>(ReduceOp::Max, storage, shape, dim, in, lowest,
                     [](T a, T b) { return std::max(a, b); });
      checkReduce<T>(ReduceOp::Min, storage, shape, dim, in, highest,
                     [](T a, T b) { return std::min(a, b); });
      if constexpr (std::is_integral_v<T>) {
        checkReduce<T>(ReduceOp::And, storage, shape, dim, in, T(-1),
                       [](T a, T b) { return a & b; });
        checkReduce<T>(ReduceOp::Or, storage, shape, dim, in, T(0), [](T a, T b) { return a | b; });
      }
    }
  }
}

TEST_P(NumericTileOps, Reductions) {
  checkReductions<float>(Storage::F32, -infinity, infinity);
  checkReductions<double>(Storage::F64, -infinity, infinity);
  checkReductions<int32_t>(Storage::I32, INT32_MIN, INT32_MAX);
  checkReductions<int64_t>(Storage::I64, INT64_MIN, INT64_MAX);
}

TEST_P(NumericTileOps, ReductionsOfBits) {
  Shape shape = {3, 200};
  std::vector<uint8_t> in(600, 1);
  in[250] = 0;
  checkReduce<uint8_t>(ReduceOp::And, Storage::I1, shape, 1, in, 1,
                       [](int a, int b) { return a & b; });
  checkReduce<uint8_t>(ReduceOp::And, Storage::I1, shape, 0, in, 1,
                       [](int a, int b) { return a & b; });
  std::vector<uint8_t> sparse(600, 0);
  sparse[599] = 1;
  checkReduce<uint8_t>(ReduceOp::Or, Storage::I1, shape, 1, sparse, 0,
                       [](int a, int b) { return a | b; });
  checkReduce<uint8_t>(ReduceOp::Or, Storage::I1, shape, 0, sparse, 0,
                       [](int a, int b) { return a | b; });
  checkReduce<uint8_t>(ReduceOp::And, Storage::I1, {2, 0}, 1, {}, 1,
                       [](int a, int b) { return a & b; });
  EXPECT_FALSE(isSupported(ReduceOp::Sum, Storage::I1));
  EXPECT_FALSE(isSupported(ReduceOp::And, Storage::F32));
}

TEST_P(NumericTileOps, NaNInAReduction) {
  for (int64_t columns : {5, 300})
    for (unsigned dim : {0u, 1u}) {
      Shape shape = dim ? Shape{2, columns} : Shape{columns, 2};
      for (int64_t at = 0; at < columns; at += 7) {
        std::vector<float> in(2 * columns, 1), out(2);
        in[dim ? at : 2 * at] = notANumber; // in the first of the two results
        for (ReduceOp op : {ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum, ReduceOp::Product}) {
          reduce(op, Storage::F32, in.data(), shape.data(), 2, dim, out.data());
          ASSERT_TRUE(std::isnan(out[0]));
          ASSERT_FALSE(std::isnan(out[1]));
        }
        for (ReduceOp op : {ReduceOp::MaxNum, ReduceOp::MinNum}) {
          reduce(op, Storage::F32, in.data(), shape.data(), 2, dim, out.data());
          ASSERT_EQ(out[0], 1);
        }
      }
    }
}

TEST_P(NumericTileOps, ASumDoesNotDependOnItsNeighbors) {
  Random random(2);
  std::vector<float> in(4 * 333), out(4);
  for (float &value : in)
    value = float(random.uniform());
  Shape shape = {4, 333};
  reduce(ReduceOp::Sum, Storage::F32, in.data(), shape.data(), 2, 1, out.data());
  for (int64_t row = 0; row < 4; ++row) {
    float alone;
    Shape one = {333};
    reduce(ReduceOp::Sum, Storage::F32, &in[row * 333], one.data(), 1, 0, &alone);
    EXPECT_EQ(alone, out[row]);
    double exact = std::accumulate(&in[row * 333], &in[row * 333] + 333, 0.0);
    EXPECT_NEAR(alone, exact, 1e-4);
  }
}

TEST_P(NumericTileOps, Iota) {
  for (Shape shape : {Shape{9}, Shape{3, 4}, Shape{2, 3, 5}, Shape{0, 3}})
    for (unsigned dim = 0; dim < shape.size(); ++dim) {
      std::vector<int32_t> out(sizeOf(shape));
      std::vector<float> outFloat(out.size());
      iota(Storage::I32, shape.data(), unsigned(shape.size()), dim, -2, 3, out.data());
      iota(Storage::F32, shape.data(), unsigned(shape.size()), dim, -2, 3, outFloat.data());
      for (int64_t i = 0; i < int64_t(out.size()); ++i) {
        ASSERT_EQ(out[i], -2 + 3 * indexOf(i, shape)[dim]);
        ASSERT_EQ(outFloat[i], float(out[i]));
      }
    }
  Shape shape = {2};
  std::vector<int64_t> wide(2);
  iota(Storage::I64, shape.data(), 1, 0, int64_t(1) << 40, -1, wide.data());
  EXPECT_EQ(wide[1], (int64_t(1) << 40) - 1);
}

TEST_P(NumericTileOps, Fill) {
  std::vector<double> out(13);
  double value = -infinity;
  fill(Storage::F64, &value, out.data(), out.size());
  EXPECT_EQ(out, std::vector<double>(13, -infinity));
  uint8_t bit = 1;
  std::vector<uint8_t> bits(5);
  fill(Storage::I1, &bit, bits.data(), 4);
  EXPECT_EQ(bits, (std::vector<uint8_t>{1, 1, 1, 1, 0}));
}

TEST_P(NumericTileOps, SlicesAlongEveryDimension) {
  const int64_t shape[] = {2, 5, 3};
  std::vector<float> in(30);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>(i) + 1;
  const float fill = -1;
  const int64_t least = std::numeric_limits<int32_t>::min(), most = -(least + 1);
  for (unsigned dim = 0; dim < 3; ++dim)
    for (int64_t offset :
         {least, int64_t(-7), int64_t(-2), int64_t(0), int64_t(1), int64_t(6), most})
      for (int64_t size : {1, 4, 9}) {
        int64_t to[] = {shape[0], shape[1], shape[2]};
        to[dim] = size;
        std::vector<float> out(to[0] * to[1] * to[2]);
        slice(Storage::F32, in.data(), shape, 3, dim, offset, size, &fill, out.data());
        for (int64_t i = 0; i < to[0]; ++i)
          for (int64_t j = 0; j < to[1]; ++j)
            for (int64_t k = 0; k < to[2]; ++k) {
              int64_t at[] = {i, j, k};
              at[dim] += offset;
              bool isInside = at[dim] >= 0 && at[dim] < shape[dim];
              float expected = isInside ? in[(at[0] * 5 + at[1]) * 3 + at[2]] : fill;
              ASSERT_EQ(out[(i * to[1] + j) * to[2] + k], expected)
                  << dim << " from " << offset << " size " << size;
            }
      }
}

TEST_P(NumericTileOps, ScansAlongEveryDimension) {
  const int64_t shape[] = {2, 5, 3};
  std::vector<int32_t> in(30);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<int32_t>(i * 7 % 11) - 5;
  for (unsigned dim = 0; dim < 3; ++dim)
    for (bool reverse : {false, true})
      for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Max}) {
        std::vector<int32_t> out(30), inPlace = in;
        scan(op, Storage::I32, in.data(), shape, 3, dim, reverse, out.data());
        scan(op, Storage::I32, inPlace.data(), shape, 3, dim, reverse, inPlace.data());
        EXPECT_EQ(out, inPlace);
        for (int64_t i = 0; i < 2; ++i)
          for (int64_t j = 0; j < 5; ++j)
            for (int64_t k = 0; k < 3; ++k) {
              int64_t at[] = {i, j, k};
              int64_t begin = reverse ? at[dim] : 0, end = reverse ? shape[dim] : at[dim] + 1;
              int32_t expected = 0;
              for (int64_t n = begin; n < end; ++n) {
                at[dim] = n;
                int32_t value = in[(at[0] * 5 + at[1]) * 3 + at[2]];
                expected = n == begin            ? value
                           : op == ReduceOp::Sum ? expected + value
                                                 : std::max(expected, value);
              }
              ASSERT_EQ(out[(i * 5 + j) * 3 + k], expected) << dim << reverse;
            }
      }
  // A NaN stays in the elements after it.
  const int64_t length = 3;
  std::vector<float> line = {1, std::numeric_limits<float>::quiet_NaN(), 2};
  scan(ReduceOp::Max, Storage::F32, line.data(), &length, 1, 0, /*reverse=*/false, line.data());
  EXPECT_EQ(line[0], 1);
  EXPECT_TRUE(std::isnan(line[1]) && std::isnan(line[2]));
}

} // namespace
