// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arguments of the shipped kernels.

#include "lib/Driver/AttentionRun.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

#include <algorithm>

namespace tilewright {

int64_t AttentionConfig::countPairs() const {
  int64_t shift = causal == "bottom_right" ? Skv - Sq : 0;
  int64_t pairs = 0;
  for (int64_t i = 0; i < Sq; ++i) {
    int64_t first = 0, last = Skv - 1;
    if (causal != "none")
      last = std::min(last, i + shift);
    if (windowLeft >= 0)
      first = std::max(first, i + shift - windowLeft);
    if (windowRight >= 0)
      last = std::min(last, i + shift + windowRight);
    pairs += std::max<int64_t>(last - first + 1, 0);
  }
  return pairs * B * Hq;
}

double AttentionConfig::countFlops() const {
  int64_t width = backward ? 3 * D + 2 * DV : D + DV;
  return 2.0 * countPairs() * width;
}

static std::string inFolder(llvm::StringRef folder, llvm::StringRef file) {
  llvm::SmallString<128> path = folder;
  llvm::sys::path::append(path, file);
  return path.str().str();
}

llvm::Expected<std::unique_ptr<KernelRun>> createAttention(llvm::StringRef kernelsFolder,
                                                           const AttentionConfig &config) {
  TilePipelineOptions options;
  options.target = config.target;
  options.entry = config.backward ? "attention_backward" : "attention_forward";
  for (const std::string &file : config.with)
    options.with.push_back(inFolder(kernelsFolder, file));
  options.params = {{"D", std::to_string(config.D)},
                    {"DV", std::to_string(config.DV)},
                    {"T", std::string(elementTypeName(config.type))},
                    {"CAUSAL", config.causal},
                    {"WINDOW", config.hasWindow() ? "true" : "false"}};
  options.params.insert(options.params.end(), config.params.begin(), config.params.end());

  const AttentionConfig &c = config;
  std::vector<int64_t> q = {c.B, c.Hq, c.Sq, c.D}, o = {c.B, c.Hq, c.Sq, c.DV};
  std::vector<int64_t> k = {c.B, c.Hkv, c.Skv, c.D}, v = {c.B, c.Hkv, c.Skv, c.DV};
  std::vector<int64_t> row = {c.B, c.Hq, c.Sq};
  ElementType rowType = c.type == ElementType::F64 ? ElementType::F64 : ElementType::F32;
  KernelRun::Request request{inFolder(kernelsFolder, options.entry + ".mlir"), options, {}, {}};
  request.arrays = {{"q", c.type, q},
                    {"k", c.type, k},
                    {"v", c.type, v},
                    {"o", c.type, o},
                    {"lse", rowType, row}};
  if (config.backward)
    request.arrays.insert(request.arrays.end(), {{"do", c.type, o},
                                                 {"dlse", rowType, row},
                                                 {"dq", c.type, q},
                                                 {"dk", c.type, k},
                                                 {"dv", c.type, v}});
  request.scalars = {{"scale", config.scale},
                     {"window_left", config.windowLeft},
                     {"window_right", config.windowRight}};
  return KernelRun::create(request);
}

llvm::Expected<std::unique_ptr<KernelRun>> createMatmul(llvm::StringRef kernelsFolder,
                                                        const MatmulConfig &config) {
  TilePipelineOptions options;
  options.target = config.target;
  options.entry = "matmul";
  options.params = {{"T", std::string(elementTypeName(config.type))}};
  options.params.insert(options.params.end(), config.params.begin(), config.params.end());
  KernelRun::Request request{inFolder(kernelsFolder, "matmul.mlir"), options, {}, {}};
  request.arrays = {{"a", config.type, {config.M, config.K}},
                    {"b", config.type, {config.K, config.N}},
                    {"c", config.type, {config.M, config.N}}};
  request.scalars = {{"alpha", 1.0}};
  return KernelRun::create(request);
}

} // namespace tilewright
