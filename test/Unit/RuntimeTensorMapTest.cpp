// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensor maps: how they describe views, parts of views and rows of pages, and what they cannot.

#include "RuntimeTesting.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

class TensorMaps : public OperationTest {
protected:
  TensorMaps() {
    KernelSpec kernel = scaleKernel();
    kernel.arguments[0] = ArgumentSpec::view("x", ElementType::BF16, {-1, -1, 64});
    kernel.grid = {Expr::integer(1)};
    kernel.entry = "mapped";
    kernel.tensorMaps = {{0, {1, 128, 64}, Swizzle::B128}, {2, {16}, Swizzle::None}};
    writer.manifest.kernels = {kernel};
  }
  Arguments arguments(int64_t a = 5, int64_t b = 300) {
    return {Argument::dense(0x10000, ElementType::BF16, {a, b, 64}),
            Argument::dense(0x20000, ElementType::BF16, {b, 64}), Argument::absent(),
            Argument::scalar(0.5f), Argument::scalar(int32_t(7))};
  }
  BundleWriter writer = scaleBundle();
};

TEST_F(TensorMaps, ComeAfterTheArguments) {
  Operation operation = create(writer, "scale");
  EXPECT_OK(operation.prepare(0));
  EXPECT_OK(run(operation, arguments()));
  ASSERT_EQ(fake().maps.size(), 1u) << "an absent view has no map";
  const FakeMap &map = fake().maps[0];
  EXPECT_EQ(map.type, cuda::TensorBfloat16);
  EXPECT_EQ(map.swizzle, 3);
  EXPECT_EQ(map.extents, (std::vector<uint64_t>{64, 300, 5}));
  EXPECT_EQ(map.strides, (std::vector<uint64_t>{128, 300 * 128}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{64, 128, 1}));
  const ParamLayout &layout = *fake().layout;
  size_t numParams = layout.params.size();
  EXPECT_EQ(layout.params[numParams - 2].offset % 64, 0u);
  EXPECT_EQ(paramAt<uint64_t>(fake().launches[0], numParams - 2), 0x10000u);
  EXPECT_EQ(paramAt<uint64_t>(fake().launches[0], numParams - 1), 0u);
}

TEST_F(TensorMaps, OverNothingAreZero) {
  Operation operation = create(writer, "scale");
  EXPECT_OK(operation.prepare(0));
  EXPECT_OK(run(operation, arguments(5, 0)));
  EXPECT_TRUE(fake().maps.empty());
  EXPECT_EQ(fake().launches.size(), 1u);
}

TEST_F(TensorMaps, AreMadeOnceForAView) {
  Operation operation = create(writer, "scale");
  EXPECT_OK(operation.prepare(0));
  Arguments list = arguments();
  for (int i = 0; i < 3; ++i)
    EXPECT_OK(run(operation, list));
  EXPECT_EQ(fake().maps.size(), 1u);
  EXPECT_EQ(fake().launches[2].params, fake().launches[0].params);
  // A different value of any field that a map depends on gives a new map.
  size_t numMaps = 1;
  auto expectAnother = [&] {
    EXPECT_OK(run(operation, list));
    EXPECT_EQ(fake().maps.size(), ++numMaps);
    EXPECT_OK(run(operation, list));
    EXPECT_EQ(fake().maps.size(), numMaps);
  };
  list.values[0].bits += 16;
  expectAnother();
  EXPECT_EQ(paramAt<uint64_t>(fake().launches.back(), fake().layout->params.size() - 2), 0x10010u);
  list.values[0].extents[0] = 4;
  expectAnother();
  list.values[0].extents[1] = 299;
  expectAnother();
  EXPECT_EQ(fake().maps.back().extents, (std::vector<uint64_t>{64, 299, 4}));
  list.values[0].strides[0] += 8;
  expectAnother();
  EXPECT_EQ(fake().maps.back().strides, (std::vector<uint64_t>{128, 300 * 128 + 16}));
  list.values[0].strides[1] += 8;
  expectAnother();
  // An empty view gets a map of zeros, which is not reused for a view with elements.
  list.values[0].extents[1] = 0;
  EXPECT_OK(run(operation, list));
  list.values[0].extents[1] = 300;
  expectAnother();
  // Other plans and devices encode their own maps.
  Operation other = create(writer, "scale");
  EXPECT_OK(other.prepare(0));
  EXPECT_OK(run(other, list));
  EXPECT_EQ(fake().maps.size(), ++numMaps);
  EXPECT_OK(operation.prepare(1));
  EXPECT_OK(operation.run(list.data(), list.size(), 0, 0, streamOf(1)));
  EXPECT_EQ(fake().maps.size(), ++numMaps);
}

TEST_F(TensorMaps, ThatWereNotMadeAreNotKept) {
  Operation operation = create(writer, "scale");
  EXPECT_OK(operation.prepare(0));
  fake().failures["cuTensorMapEncodeTiled"] = 999;
  EXPECT_FALSE(run(operation, arguments()).ok());
  EXPECT_FALSE(run(operation, arguments()).ok());
  fake().failures.clear();
  EXPECT_OK(run(operation, arguments()));
  EXPECT_EQ(fake().maps.size(), 1u);
}

TEST_F(TensorMaps, RejectWhatTheyCannotDescribe) {
  Operation operation = create(writer, "scale");
  EXPECT_OK(operation.prepare(0));
  const std::string prefix = "no variant of kernel 'scale' takes these arguments: ";
  struct Case {
    uint64_t address;
    int64_t strides[3];
    const char *message;
  };
  const Case cases[] = {
      {0x10008, {19200, 64, 1}, "'x' must be aligned to 16 bytes for a tensor map"},
      {0x10000,
       {19200, 68, 1},
       "the stride 68 along dimension 1 of 'x' must be a multiple of 16 bytes for a tensor map"},
      {0x10000,
       {-19200, 64, 1},
       "the stride -19200 along dimension 0 of 'x' must be from 0 to 2^40 bytes for a tensor map"},
      {0x10000,
       {int64_t(1) << 39, 64, 1},
       "the stride 549755813888 along dimension 0 of 'x' must be from 0 to 2^40 bytes for a tensor "
       "map"},
      {0x10000,
       {19200, 64, 2},
       "the stride 2 along dimension 2 of 'x' must be 1 for a tensor map"}};
  for (const Case &wrong : cases) {
    Arguments list = arguments();
    list.values[0].bits = wrong.address;
    std::memcpy(list.values[0].strides, wrong.strides, sizeof(wrong.strides));
    EXPECT_FAILURE(run(operation, list), Code::Unsupported, prefix + wrong.message);
  }
  EXPECT_TRUE(fake().launches.empty());
  // Strides along dimensions of one element do not matter.
  Arguments list = arguments(1, 300);
  list.values[0].strides[0] = -3;
  EXPECT_OK(run(operation, list));
  EXPECT_EQ(fake().maps[0].strides[1] % 16, 0u);
}

/// x, y and z of KernelAbi.h cover the same rows; z goes back to their start.
TEST_F(TensorMaps, ThatAreRaggedHaveTheirRowsThreeTimes) {
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.tensorMaps = {{0, {128, 1, 64}, Swizzle::B128, /*isStored=*/false, /*ragged=*/0}};
  Operation operation = create(writer, "scale");
  EXPECT_OK(operation.prepare(0));
  EXPECT_OK(run(operation, arguments(300, 5)));
  ASSERT_EQ(fake().maps.size(), 1u);
  const FakeMap &map = fake().maps[0];
  uint64_t row = 5 * 128, bound = uint64_t(1) << 30;
  EXPECT_EQ(map.extents, (std::vector<uint64_t>{64, 5, bound, bound + 1, bound + 1}));
  EXPECT_EQ(map.strides, (std::vector<uint64_t>{128, row, row, (uint64_t(1) << 34) - row}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{64, 1, 128, 1, 1}));
  // Row 7 of the part of 20 rows that begins at row 100.
  uint64_t x = bound - 20 + 7, y = 100 + 20, z = bound;
  EXPECT_EQ(x * map.strides[1] + y * map.strides[2] + z * map.strides[3], 107 * row);

  Arguments list = arguments(300, 5);
  list.values[0].extents[0] = int64_t(1) << 30;
  EXPECT_OK(run(operation, list));
  const std::string prefix = "no variant of kernel 'scale' takes these arguments: ";
  list.values[0].extents[0] += 1;
  EXPECT_FAILURE(run(operation, list), Code::Unsupported,
                 prefix + "dimension 0 of 'x' must be at most 1073741824 for a ragged tensor map, "
                          "but is 1073741825");
  list = arguments(300, 5);
  list.values[0].strides[0] = int64_t(1) << 33;
  EXPECT_FAILURE(run(operation, list), Code::Unsupported,
                 prefix + "the stride 8589934592 along dimension 0 of 'x' must be less than "
                          "17179869184 bytes for a ragged tensor map");
}

/// With rank 4, the first dimension is omitted, since five is the limit.
TEST_F(TensorMaps, ThatAreRaggedLeaveOutTheFirstOfFourDimensions) {
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.arguments[0] = ArgumentSpec::view("x", ElementType::F16, {-1, -1, -1, 64});
  kernel.tensorMaps = {{0, {1, 1, 128, 64}, Swizzle::B128, /*isStored=*/false, /*ragged=*/2}};
  kernel.layout = {};
  Operation operation = create(writer, "scale");
  EXPECT_OK(operation.prepare(0));
  Arguments list = arguments(300, 5);
  const int64_t extents[] = {1, 5, 300, 64}, strides[] = {300 * 5 * 64, 64, 5 * 64, 1};
  list.values[0] = Argument::view(list.values[0].bits, ElementType::F16, 4, extents, strides);
  EXPECT_OK(run(operation, list));
  ASSERT_EQ(fake().maps.size(), 1u);
  const FakeMap &map = fake().maps[0];
  uint64_t row = 5 * 128, bound = uint64_t(1) << 30;
  EXPECT_EQ(map.extents, (std::vector<uint64_t>{64, bound, 5, bound + 1, bound + 1}));
  EXPECT_EQ(map.strides, (std::vector<uint64_t>{row, 128, row, (uint64_t(1) << 34) - row}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{64, 128, 1, 1, 1}));
}

/// Rows of pages have one stride, and pages begin at any multiple of it.
TEST_F(TensorMaps, OfPagesNeedPagesOfWholeRows) {
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.arguments[0] = ArgumentSpec::view("x", ElementType::F16, {-1, -1, -1, 64});
  kernel.tensorMaps = {
      {0, {1, 64, 1, 64}, Swizzle::B128, /*isStored=*/false, /*ragged=*/1, /*isPaged=*/true}};
  kernel.layout = {};
  Operation operation = create(writer, "scale");
  EXPECT_OK(operation.prepare(0));
  auto runWith = [&](std::array<int64_t, 4> extents, std::array<int64_t, 4> strides) {
    Arguments list = arguments(300, 5);
    list.values[0] =
        Argument::view(list.values[0].bits, ElementType::F16, 4, extents.data(), strides.data());
    return run(operation, list);
  };
  // Pages with heads outside of rows: 5 x 64 rows of 64 elements.
  EXPECT_OK(runWith({7, 64, 5, 64}, {5 * 64 * 64, 64, 64 * 64, 1}));
  ASSERT_EQ(fake().maps.size(), 1u);
  EXPECT_EQ(fake().maps[0].strides[1], 128u);
  // A row of its own for each page, whose stride counts nevertheless.
  EXPECT_OK(runWith({7, 1, 5, 64}, {5 * 64, 5 * 64, 64, 1}));
  EXPECT_EQ(fake().maps.back().strides[1], 5u * 128);
  const std::string prefix = "no variant of kernel 'scale' takes these arguments: the stride ";
  const std::string rule = " along dimension 0 of 'x' must be a multiple of the stride of its "
                           "rows, dimension 1, and the "
                           "pages must lie within 1073741824 rows, for a tensor map of pages";
  EXPECT_FAILURE(runWith({7, 64, 5, 64}, {5 * 64 * 64 + 64, 5 * 64, 64, 1}), Code::Unsupported,
                 prefix + "20544" + rule);
  EXPECT_FAILURE(runWith({7, 64, 5, 64}, {5 * 64 * 64, 0, 64, 1}), Code::Unsupported,
                 prefix + "20480" + rule);
  EXPECT_FAILURE(runWith({int64_t(1) << 21, 512, 5, 64}, {5 * 512 * 64, 64, 512 * 64, 1}),
                 Code::Unsupported, prefix + "163840" + rule);
  // One page may have any stride.
  EXPECT_OK(runWith({1, 64, 5, 64}, {77, 5 * 64, 64, 1}));
}

/// A store writes the whole 16-byte chunk that contains the end of a row.
TEST_F(TensorMaps, ThatAreStoredThroughNeedRowsOfWholeChunks) {
  KernelSpec kernel = writer.manifest.kernels[0];
  kernel.arguments[0] = ArgumentSpec::view("x", ElementType::BF16, {-1, -1, -1});
  for (bool isStored : {false, true}) {
    kernel.tensorMaps[0].isStored = isStored;
    writer.manifest.kernels = {kernel};
    Operation operation = create(writer, "scale");
    EXPECT_OK(operation.prepare(0));
    for (int64_t extent : {1, 8, 64, 65, 71, 72}) {
      // In a padded array, so that strides are multiples of a chunk.
      Arguments list = arguments();
      list.values[0].extents[2] = extent;
      list.values[0].strides[1] = 72;
      list.values[0].strides[0] = 300 * 72;
      if (!isStored || extent % 8 == 0)
        EXPECT_OK(run(operation, list));
      else
        EXPECT_FAILURE(run(operation, list), Code::Unsupported,
                       "no variant of kernel 'scale' takes these arguments: the rows of 'x', " +
                           std::to_string(2 * extent) +
                           " bytes, must be a multiple of 16 bytes for a tensor map that is stored "
                           "through");
    }
  }
}

TEST_F(TensorMaps, FallBackToAVariantWithoutThem) {
  KernelSpec plain = writer.manifest.kernels[0];
  plain.tensorMaps.clear();
  plain.entry = "plain";
  writer.manifest.kernels.push_back(plain);
  Operation operation = create(writer, "scale");
  EXPECT_OK(operation.prepare(0));
  Arguments list = arguments();
  list.values[0].strides[1] = 68;
  fake().layout = &bundle->manifest().kernels[1].layout;
  EXPECT_OK(run(operation, list));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(fake().launches.at(0).function), 0x8002u);
}

TEST_F(TensorMaps, ReportTheDriver) {
  Operation operation = create(writer, "scale");
  EXPECT_OK(operation.prepare(0));
  fake().failures["cuTensorMapEncodeTiled"] = 999;
  EXPECT_FAILURE(run(operation, arguments()), Code::Driver,
                 "cannot make the tensor map over 'x': cuTensorMapEncodeTiled returned "
                 "CUDA_ERROR_FAKE (999), as told");
  driver.cuTensorMapEncodeTiled = nullptr;
  EXPECT_FAILURE(operation.prepare(1), Code::NoDriver,
                 "kernel 'scale' uses tensor maps, which need a driver of CUDA 12.0; update the "
                 "driver");
}

} // namespace
