// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: timelines that a kernel, or other code, wrote to memory. A trace must be JSON.
//
// The input fills a buffer of a few chunks; if the first byte is odd, each chunk gets the tag
// and a role of the bundle.

#include "RuntimeFuzzing.h"

#include "base/Abi/TimelineFormat.h"
#include "runtime/Timeline.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;
namespace format = tilewright::timeline;

namespace {

constexpr uint32_t words = 64, tag = 0x1234567;

Manifest makeManifest() {
  KernelSpec kernel;
  kernel.name = "attend";
  kernel.timeline = {tag,
                     words,
                     {"load", "compute"},
                     {{"loop", "round", "a.mlir:7"},
                      {"wait", "wait k", "a.mlir:8"},
                      {"product", "wgmma", "a.mlir:9", -1, true},
                      {"product", "wgmma 2", "", -1, false},
                      {"wait", "wgmma_wait", "a.mlir:10", 1},
                      {"store", "tma_store \"o\"", ""}}};
  Manifest manifest;
  manifest.kernels = {kernel};
  return manifest;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const Manifest manifest = makeManifest();
  if (size == 0)
    return 0;
  std::vector<uint64_t> buffer((size + 7) / 8);
  std::copy(bytes + 1, bytes + size, reinterpret_cast<uint8_t *>(buffer.data()));
  if (bytes[0] % 2)
    for (size_t chunk = 1; (chunk + 1) * words <= buffer.size(); ++chunk) {
      uint64_t &first = buffer[chunk * words];
      first = uint64_t(first >> 48 & 1) << 48 | (first & 0xffff00000000) | tag;
      for (size_t i = format::headerBytes / 8; i < words; ++i) {
        uint64_t &record = buffer[chunk * words + i];
        record = (record >> format::clockBits) % 12 << format::clockBits |
                 (record & ((uint64_t(1) << format::clockBits) - 1));
      }
    }
  Result<std::string> trace = timelineToJson(manifest, buffer.data(), buffer.size() * 8);
  if (!trace)
    require(trace.status().code() == Code::InvalidArgument);
  else
    require(Json::parse(*trace).ok());
  return 0;
}
