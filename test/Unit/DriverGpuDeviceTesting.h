// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of DriverGpuDeviceTest, and a driver without a GPU whose device memory is host
// memory.

#ifndef TILEWRIGHT_TEST_UNIT_DRIVERGPUDEVICETESTING_H
#define TILEWRIGHT_TEST_UNIT_DRIVERGPUDEVICETESTING_H

#include "test/Unit/RuntimeTesting.h"

#include "llvm/ADT/StringRef.h"

#include <cstdlib>
#include <map>

namespace tilewright::testing {

namespace cuda = runtime::cuda;
using runtime::testing::fake;

inline constexpr llvm::StringLiteral source = R"(
tile.capture @gain : f32

tile.kernel @scale
    params(N: int in [32, 64] = 32, TARGET: enum in ["cpu", "sm_80", "sm_90a"] = "cpu",
           BLOCK: int = select(TARGET == "cpu", 16, 64))
    require(dim(y, 0) == dim(x, 0), dim(bias, 0) == dim(x, 0), rows >= 1)
    (%x: !tile.view<[?, N], f32>, %y: !tile.view<[?, N], f32>, %bias: optional !tile.view<[?], f32>,
     %factor: f32, %rows: i32)
    grid(%b = ceildiv(dim(x, 0), BLOCK), %c = dim(y, 1)) {
  %size = tile.param BLOCK : i32
  %row = arith.muli %b, %size : i32
  %gain = tile.at @gain : f32
  %product = arith.mulf %gain, %factor : f32
  %t = tile.load %x[%row, 0] : !tile.view<[?, N], f32> -> !tile.tile<[BLOCK, N], f32>
  %f = tile.full %product : !tile.tile<[BLOCK, N], f32>
  %u = arith.mulf %t, %f : !tile.tile<[BLOCK, N], f32>
  tile.store %u, %y[%row, 0] : !tile.tile<[BLOCK, N], f32>, !tile.view<[?, N], f32>
}

tile.program @twice
    params(N: int in [32, 64] = 32, TARGET: enum in ["cpu", "sm_80"] = "cpu")
    require(dim(y, 0) == dim(x, 0), rows <= 1000)
    (%x: !tile.view<[?, N], f32>, %y: !tile.view<[?, N], f32>, %bias: optional !tile.view<[?], f32>,
     %rows: i32, %factor: f32) {
  %tmp = tile.workspace [dim(x, 0), N] fill 1.0 : !tile.view<[?, N], f32>
  tile.launch @scale(%x, %tmp, %bias, %factor, %rows)
      : !tile.view<[?, N], f32>, !tile.view<[?, N], f32>, !tile.view<[?], f32>, f32, i32
  tile.launch @scale(%tmp, %y, %bias, %factor, %rows) when (rows > 1)
      : !tile.view<[?, N], f32>, !tile.view<[?, N], f32>, !tile.view<[?], f32>, f32, i32
}
)";

/// Real memory as device memory, up to a limit.
struct FakeMemory {
  size_t limit = size_t(1) << 30, used = 0;
  std::map<cuda::DevicePtr, size_t> blocks;
};
inline FakeMemory &memory() {
  static FakeMemory memory;
  return memory;
}

inline runtime::DriverTable tableWithMemory() {
  runtime::DriverTable table = runtime::testing::fakeTable();
  table.cuMemAlloc = [](cuda::DevicePtr *address, size_t bytes) -> cuda::Result {
    if (memory().used + bytes > memory().limit)
      return cuda::ErrorOutOfMemory;
    *address =
        reinterpret_cast<cuda::DevicePtr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    memory().blocks[*address] = bytes;
    memory().used += bytes;
    return cuda::Success;
  };
  table.cuMemFree = [](cuda::DevicePtr address) -> cuda::Result {
    memory().used -= memory().blocks.at(address);
    memory().blocks.erase(address);
    std::free(reinterpret_cast<void *>(address));
    return cuda::Success;
  };
  table.cuMemcpyHtoDAsync = [](cuda::DevicePtr to, const void *from, size_t bytes,
                               cuda::Stream) -> cuda::Result {
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return fake().enter("cuMemcpyHtoDAsync");
  };
  table.cuMemcpyDtoHAsync = [](void *to, cuda::DevicePtr from, size_t bytes,
                               cuda::Stream) -> cuda::Result {
    std::memcpy(to, reinterpret_cast<void *>(from), bytes);
    return fake().enter("cuMemcpyDtoHAsync");
  };
  table.cuStreamCreate = [](cuda::Stream *stream, unsigned) -> cuda::Result {
    *stream = runtime::testing::streamOf(0);
    return fake().enter("cuStreamCreate");
  };
  table.cuStreamDestroy = [](cuda::Stream) -> cuda::Result { return cuda::Success; };
  table.cuStreamSynchronize = [](cuda::Stream) -> cuda::Result {
    return fake().enter("cuStreamSynchronize");
  };
  return table;
}

} // namespace tilewright::testing

#endif // TILEWRIGHT_TEST_UNIT_DRIVERGPUDEVICETESTING_H
