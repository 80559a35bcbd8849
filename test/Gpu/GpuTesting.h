// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GPU, compiled kernels and device memory for tests. Tests are skipped, with the reason, if there
// is no GPU.

#ifndef TILEWRIGHT_TEST_GPU_GPUTESTING_H
#define TILEWRIGHT_TEST_GPU_GPUTESTING_H

#include "lib/Driver/GpuDevice.h"

#include "gtest/gtest.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tilewright::gputest {

namespace cuda = runtime::cuda;

/// Memory of the device.
class Memory {
public:
  Memory(const GpuDevice &device, size_t bytes);
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  cuda::DevicePtr address() const { return pointer; }
  /// Sets every byte, on the stream of the device.
  void poison();
  void write(size_t offset, const std::vector<uint8_t> &bytes);
  std::vector<uint8_t> read(size_t offset, size_t size) const;

private:
  const GpuDevice &device;
  cuda::DevicePtr pointer = 0;
  size_t bytes;
};

/// A call of attention_forward on bf16: arrays on the device, in any layout.
struct AttentionShape {
  int64_t B, H, Sq, Skv, D;
  int64_t batchStride = 0, headStride = 0; ///< strides of all arrays, in elements; 0: row-major
};

class GpuTest : public ::testing::Test {
protected:
  static constexpr ElementType type = ElementType::BF16;

  void SetUp() override;
  void TearDown() override;

  /// Compiles `kernels/FILE.mlir`, once for each binding. Fails the test if it does not compile.
  std::shared_ptr<const runtime::Bundle>
  compileBundle(const std::string &file,
                const std::vector<std::pair<std::string, std::string>> &params,
                std::string *entryName = nullptr);
  std::shared_ptr<GpuOperation>
  compile(const std::string &file, const std::vector<std::pair<std::string, std::string>> &params);
  std::shared_ptr<GpuOperation> compileAttention(int64_t D);
  /// Random numbers of a standard normal distribution.
  static std::vector<uint8_t> normal(size_t count, uint64_t seed);
  cuda::Stream createStream(unsigned flags);
  void wait(cuda::Stream stream);
  /// Captures the launches of `record` on the stream into a graph; null, and the test is skipped,
  /// if the driver has no graphs. The caller destroys it.
  cuda::GraphExec capture(cuda::Stream stream, llvm::function_ref<Status()> record);
  const runtime::DriverTable &driver() const { return device->getDriver(); }

  static std::unique_ptr<GpuDevice> device; ///< for all tests
  std::vector<cuda::Stream> streams;
  cuda::Context pushed = nullptr;
};

/// One problem with its arrays on the device.
class Attention {
public:
  Attention(const GpuDevice &device, const AttentionShape &shape);

  /// The same q, k and v for a head of another problem: rows are written head by head.
  void setHead(int64_t b, int64_t h, const std::vector<uint8_t> &q, const std::vector<uint8_t> &k,
               const std::vector<uint8_t> &v);
  Status run(const GpuOperation &operation, cuda::Stream stream) const;
  std::vector<uint8_t> readHead(int64_t b, int64_t h) const;
  std::vector<uint8_t> readO() const;
  void poisonO() { o.poison(); }

private:
  size_t spanOf(int64_t rows) const;
  size_t offsetOf(int64_t rows, int64_t b, int64_t h) const;
  runtime::Argument view(const Memory &memory, int64_t rows) const;

  AttentionShape shape;
  Memory q, k, v, o;
};

} // namespace tilewright::gputest

#endif // TILEWRIGHT_TEST_GPU_GPUTESTING_H
