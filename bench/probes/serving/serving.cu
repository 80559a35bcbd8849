// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures what binds a decode kernel on Hopper, without its arithmetic: the rate at which keys and
// values come into shared memory by each kind of copy, what it costs to merge parts of a sequence,
// and the fixed costs of a launch. It is no part of the product. Its figures decide what the
// compiler generates (docs/performance-log.md).
//
//   nvcc -O3 -std=c++17 -arch=sm_90a -o serving bench/probes/serving/serving.cu && ./serving [probe
//   ...]
//
// Every timing is that of a CUDA graph of many launches over buffers that rotate, so that the L2
// holds nothing of them; medians over rounds in which the variants take turns. A line of the output
// is "probe case value unit".

// -DKEYS=64 or 256 changes the keys of a stage, which are 128.

#include "FixedCosts.cuh"
#include "PieceKernels.cuh"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

using namespace probe;

namespace {

constexpr Copy T = Copy::Tma, A = Copy::AsyncRows, B = Copy::Bulk;
constexpr Merge N = Merge::None, L = Merge::LastArriver, C = Merge::Cluster,
                S = Merge::SecondLaunch;

/// Calls `measure(shape, jobs)` for the shapes of these names, of all if there are none, in both
/// orders of dimensions; `suffix` follows the order in the shape's name.
template <typename Measure>
void forShapes(int page, const std::vector<std::string> &names, const std::string &suffix,
               CUtensorMapL2promotion promotion, Measure measure) {
  for (bool hnd : {false, true})
    for (Shape &shape : shapes(page, hnd)) {
      if (!names.empty() && std::find(names.begin(), names.end(), shape.name) == names.end())
        continue;
      shape.name += (hnd ? ".hnd" : ".nhd") + suffix;
      Setup setup;
      prepare(setup, shape, promotion);
      measure(shape, setup.jobs);
    }
}

constexpr CUtensorMapL2promotion kPromotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B;

/// How many blocks read, for keys in one piece, beside plain loads and a copy.
void probeRate() {
  // "mixed64" in one piece has gaps, which plain loads would read.
  std::vector<std::string> names = {"B1_S1k",   "B1_S16k", "B8_S2k",
                                    "B1_S128k", "B16_S8k", "B64_S8k"};
  forShapes(0, names, "", kPromotion, [](const Shape &shape, const std::vector<Job> &jobs) {
    report(
        "rate", shape,
        {variant<T, N, kFull>("64 ctas", 64, kOne), variant<T, N, kFull>("96 ctas", 96, kOne),
         variant<T, N, kFull>("120 ctas", 120, kOne), variant<T, N, kFull>("128 ctas", 128, kOne),
         variant<T, N, kFull>("132 ctas", 132, kOne), variant<T, N, kHalf>("264 ctas", 264, kTwo),
         variant<T, N, kFull>("132 ctas, evict_first", 132, kOne, 1, kEvictFirst),
         variant<T, N, kFull>("132 ctas, (h, b)", 132, kOne, 1, 0, 1),
         variant<T, N, kFull>("128 ctas, heads together", 128, kOne, 1, 0, 2),
         variant<A, N, kFull>("132 ctas, cp.async", 132, kOne), plain("plain loads, 528 ctas", 528),
         plain("plain loads, 8192 ctas", 8192)},
        jobs);
  });
}

/// What promotion in the L2 does.
void probePromotion() {
  for (CUtensorMapL2promotion promotion :
       {CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_L2_PROMOTION_NONE})
    forShapes(0, {"B64_S8k", "B1_S16k"}, ".l2_" + std::to_string((int)promotion), promotion,
              [](const Shape &shape, const std::vector<Job> &jobs) {
                report("promote", shape, {variant<T, N, kFull>("132 ctas", 132, kOne)}, jobs);
              });
}

template <Copy COPY, int... STAGES>
void addDepths(std::vector<Variant> &all, const char *name, std::integer_sequence<int, STAGES...>) {
  auto add = [&](auto stages) {
    constexpr int kStages = decltype(stages)::value;
    std::string depth =
        std::to_string(kStages) + " x " + std::to_string(kStageBytes / 1024) + " KB";
    if (kStages * kStageBytes <= kTwo - 2048)
      all.push_back(variant<COPY, N, kStages>(std::string("264 ") + name + " " + depth, 264, kTwo));
    if (kStages * kStageBytes <= kOne)
      all.push_back(variant<COPY, N, kStages>(std::string("132 ") + name + " " + depth, 132, kOne));
  };
  (add(std::integral_constant<int, STAGES>()), ...);
}

/// How many bytes should be on their way.
void probeDepth() {
  using Depths = std::conditional_t<
      KEYS == 32, std::integer_sequence<int, 4, 5, 6, 7, 8, 10, 14>,
      std::conditional_t<KEYS == 64, std::integer_sequence<int, 2, 3, 4, 5, 6, 8>,
                         std::conditional_t<KEYS == 128, std::integer_sequence<int, 2, 3, 4, 6>,
                                            std::integer_sequence<int, 2, 3>>>>;
  forShapes(0, {"B64_S8k", "B1_S16k"}, "", kPromotion,
            [](const Shape &shape, const std::vector<Job> &jobs) {
              std::vector<Variant> all;
              addDepths<T>(all, "boxes", Depths());
              addDepths<A>(all, "cp.async", Depths());
              if (shape.hnd)
                addDepths<B>(all, "bulk", Depths());
              report("depth", shape, all, jobs);
            });
}

/// Pages by boxes and by cp.async.
void probePages() {
  for (int page : {16, 32, 64, 128})
    forShapes(page, {"B64_S8k", "B1_S16k", "mixed64"}, ".p" + std::to_string(page), kPromotion,
              [](const Shape &shape, const std::vector<Job> &jobs) {
                report("pages", shape,
                       {variant<T, N, kFull>("132 ctas, boxes", 132, kOne),
                        variant<A, N, kFull>("132 ctas, cp.async", 132, kOne),
                        variant<T, N, kHalf>("264 ctas, boxes", 264, kTwo)},
                       jobs);
              });
}

/// What a merge adds, and a programmatic launch saves.
void probeMerge() {
  for (Shape &shape : shapes(64, false)) {
    Setup setup;
    prepare(setup, shape, kPromotion);
    std::vector<Variant> all = {
        variant<T, N, kFull>("132 no merge", 132, kOne),
        variant<T, L, kFull>("132 last arriver", 132, kOne),
        variant<T, L, kFull, 128, true>("132 last arriver, PDL", 132, kOne),
        variant<T, S, kFull>("132 second launch", 132, kOne),
        variant<T, S, kFull, 128, true>("132 second launch, PDL", 132, kOne),
        variant<T, S, kFull>("64 second launch", 64, kOne),
        variant<T, S, kFull, 128, true>("64 second launch, PDL", 64, kOne),
        variant<T, L, kFull>("128 last arriver", 128, kOne),
        variant<T, L, kFull>("96 last arriver", 96, kOne),
        variant<T, L, kFull>("64 last arriver", 64, kOne),
        variant<T, N, kHalf>("264 no merge", 264, kTwo),
        variant<T, L, kHalf>("264 last arriver", 264, kTwo),
        variant<T, L, kHalf, 128, true>("264 last arriver, PDL", 264, kTwo)};
    if (shape.lengths.size() == 1) {
      all.push_back(variant<T, N, kFull>("64 no merge", 64, kOne));
      all.push_back(variant<T, C, kFull>("64 cluster of 8", 64, kOne, 8));
      all.push_back(variant<T, C, kFull, 128, true>("64 cluster of 8, PDL", 64, kOne, 8));
      all.push_back(variant<T, C, kHalf, 128, true>("64 cluster of 8, half, PDL", 64, kTwo, 8));
      all.push_back(variant<T, C, kFull>("32 cluster of 4", 32, kOne, 4));
    }
    report("merge", shape, all, setup.jobs);
  }
}

} // namespace

int main(int count, char **arguments) {
  CHECK(cudaFree(nullptr));
  cudaDriverEntryPointQueryResult found;
  void *entry = nullptr;
  CHECK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found));
  encode = reinterpret_cast<Encode>(entry);
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  printf("%s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);
  std::vector<std::string> names(arguments + 1, arguments + count);
  auto wanted = [&](const char *name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  if (wanted("launch"))
    probeLaunch();
  if (wanted("latency"))
    probeLatencies();
  if (wanted("merge"))
    probeMerge();
  if (wanted("rate"))
    probeRate();
  if (wanted("promote"))
    probePromotion();
  if (wanted("depth"))
    probeDepth();
  if (wanted("pages"))
    probePages();
  if (wanted("pieces"))
    probePieces();
  return 0;
}
