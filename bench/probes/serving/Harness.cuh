// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Caches to read, launches of the kernels, and timing.

#pragma once

#include "ReadKernels.cuh"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudaError_t code = (call);                                                                     \
    if (code != cudaSuccess) {                                                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(code));     \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

namespace probe {

/// The configuration of a launch, with its attributes.
class Launch {
public:
  Launch(int ctas, int threads, int sharedBytes, cudaStream_t stream = nullptr) {
    config.gridDim = ctas, config.blockDim = threads, config.dynamicSmemBytes = sharedBytes;
    config.stream = stream, config.attrs = attributes;
  }
  Launch(const Launch &) = delete;

  /// The kernel may start before the launch ahead of it ends.
  Launch &dependentIf(bool dependent) {
    if (dependent)
      add(cudaLaunchAttributeProgrammaticStreamSerialization)
          .programmaticStreamSerializationAllowed = 1;
    return *this;
  }
  Launch &clusterOf(int ctas) {
    if (ctas > 1) {
      cudaLaunchAttributeValue &value = add(cudaLaunchAttributeClusterDimension);
      value.clusterDim.x = ctas, value.clusterDim.y = value.clusterDim.z = 1;
    }
    return *this;
  }

  cudaLaunchConfig_t config{};

private:
  cudaLaunchAttributeValue &add(cudaLaunchAttributeID id) {
    cudaLaunchAttribute &attribute = attributes[config.numAttrs++];
    attribute.id = id;
    return attribute.val;
  }

  cudaLaunchAttribute attributes[2] = {};
};

template <typename Kernel> void allowAllSharedMemory(Kernel *kernel) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 224 * 1024));
}

using Encode = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                            const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                            const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
Encode encode;
struct Shape {
  std::string name;
  std::vector<int> lengths;
  int heads;
  int page; // 0: contiguous
  bool hnd; // heads outside of rows
  long long bytes() const {
    long long keys = 0;
    for (int n : lengths)
      keys += n;
    return keys * heads * kWidth * 2 * 2;
  }
};

CUtensorMap mapOf(char *data, const Job &job, int pages, int rows,
                  CUtensorMapL2promotion promotion) {
  CUtensorMap map;
  cuuint64_t extents[4] = {kWidth, (cuuint64_t)rows, (cuuint64_t)job.heads, (cuuint64_t)pages};
  cuuint64_t strides[3] = {(cuuint64_t)job.rowStride, (cuuint64_t)job.headStride,
                           (cuuint64_t)job.pageStride};
  cuuint32_t box[4] = {64, (cuuint32_t)std::min(rows, kKeys), 1, 1};
  cuuint32_t steps[4] = {1, 1, 1, 1};
  CUresult code = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, data, extents, strides, box,
                         steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                         promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", (int)code);
    exit(1);
  }
  return map;
}

/// The launches of one variant: as many jobs as there are copies of the cache.
struct Variant {
  std::string name;
  std::function<void(const Job &, cudaStream_t)> launch;
};

struct Setup {
  std::vector<Job> jobs;
  std::vector<void *> owned;
  ~Setup() {
    for (void *p : owned)
      cudaFree(p);
  }
};

template <typename T> T *deviceCopy(Setup &setup, const std::vector<T> &values) {
  void *p;
  CHECK(cudaMalloc(&p, values.size() * sizeof(T)));
  CHECK(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  setup.owned.push_back(p);
  return static_cast<T *>(p);
}

__global__ void fill(uint32_t *p, long long words, uint32_t seed) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < words;
       i += (long long)gridDim.x * blockDim.x) {
    uint32_t x = (uint32_t)i * 2654435761u ^ seed;
    x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
    p[i] = (x & 0x807f807fu) | 0x3f003f00u; // bf16 of about 1, either sign
  }
}

void prepare(Setup &setup, const Shape &shape, CUtensorMapL2promotion promotion) {
  long long bytes = shape.bytes();
  int copies = (int)std::max<long long>(1, std::min<long long>(64, (600ll << 20) / bytes + 1));
  int most = *std::max_element(shape.lengths.begin(), shape.lengths.end());
  Job job{};
  job.batch = (int)shape.lengths.size();
  job.heads = shape.heads;
  job.page = shape.page ? shape.page : most;
  int perSequence = (most + job.page - 1) / job.page;
  job.tableWidth = perSequence;
  int pages = job.batch * perSequence;
  if (shape.page) {
    pages = 0;
    for (int n : shape.lengths)
      pages += (n + job.page - 1) / job.page;
  }
  if (shape.hnd) {
    job.rowStride = kWidth * 2;
    job.headStride = job.rowStride * job.page;
  } else {
    job.headStride = kWidth * 2;
    job.rowStride = job.headStride * job.heads;
  }
  job.pageStride = (long long)kWidth * 2 * job.heads * job.page;
  std::vector<int> order(pages), table(job.batch * perSequence, 0), prefix{0};
  for (int i = 0; i < pages; ++i)
    order[i] = i;
  if (shape.page)
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
  int next = 0;
  for (int b = 0; b < job.batch; ++b) {
    int own = shape.page ? (shape.lengths[b] + job.page - 1) / job.page : 1;
    for (int i = 0; i < own; ++i)
      table[b * perSequence + i] = order[next++];
    prefix.push_back(prefix.back() + shape.lengths[b] / kKeys);
  }
  job.blocks = prefix.back();
  job.table = deviceCopy(setup, table);
  job.firstBlock = deviceCopy(setup, prefix);
  job.states = deviceCopy(setup, std::vector<float>(264 * 2 * kStateWords));
  job.counters = deviceCopy(setup, std::vector<unsigned>(job.batch * job.heads));
  job.out = deviceCopy(setup, std::vector<float>((size_t)job.batch * job.heads * kStateWords));
  long long poolBytes = pages * job.pageStride;
  for (int c = 0; c < copies; ++c) {
    char *k, *v;
    CHECK(cudaMalloc(&k, poolBytes));
    CHECK(cudaMalloc(&v, poolBytes));
    setup.owned.push_back(k), setup.owned.push_back(v);
    fill<<<1024, 256>>>((uint32_t *)k, poolBytes / 4, c * 2 + 1);
    fill<<<1024, 256>>>((uint32_t *)v, poolBytes / 4, c * 2 + 2);
    job.kData = k, job.vData = v;
    job.k = mapOf(k, job, pages, job.page, promotion);
    job.v = mapOf(v, job, pages, job.page, promotion);
    setup.jobs.push_back(job);
  }
  CHECK(cudaDeviceSynchronize());
}

template <Copy COPY, Merge MERGE, int STAGES, int LOAD, bool DEPENDENT>
void launch(const Job &job, cudaStream_t stream, int ctas, int cluster, uint64_t hint,
            int sharedBytes) {
  auto *kernel = readAll<COPY, MERGE, STAGES, LOAD, DEPENDENT>;
  allowAllSharedMemory(kernel);
  int workers = (int)std::min<long long>(ctas, (long long)job.blocks * job.heads);
  Launch first(workers, LOAD + 128, std::max(sharedBytes, STAGES * kStageBytes), stream);
  first.dependentIf(DEPENDENT).clusterOf(cluster);
  CHECK(cudaLaunchKernelEx(&first.config, kernel, job, hint));
  if (MERGE == Merge::SecondLaunch) {
    Launch second(job.batch * job.heads * (kStateRows / kRowsOfFold), 128, 0, stream);
    second.dependentIf(DEPENDENT);
    CHECK(cudaLaunchKernelEx(&second.config, fold<DEPENDENT>, job, workers));
  }
}

/// Microseconds a launch of each variant: medians of `rounds` in which they take turns.
std::vector<double> timeAll(const std::vector<Variant> &variants, const std::vector<Job> &jobs,
                            double estimate) {
  int repeats =
      (int)std::max<double>(jobs.size(), std::min(400.0, 3000.0 / std::max(estimate, 3.0)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  std::vector<cudaGraphExec_t> graphs;
  for (const Variant &variant : variants) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < repeats; ++i)
      variant.launch(jobs[i % jobs.size()], stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    graphs.push_back(exec);
  }
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<std::vector<float>> times(variants.size());
  for (int round = 0; round < 12; ++round)
    for (size_t v = 0; v < graphs.size(); ++v) {
      CHECK(cudaEventRecord(begin, stream));
      CHECK(cudaGraphLaunch(graphs[v], stream));
      CHECK(cudaEventRecord(end, stream));
      CHECK(cudaEventSynchronize(end));
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      if (round > 0)
        times[v].push_back(ms * 1000 / repeats);
    }
  std::vector<double> medians;
  for (auto &list : times) {
    std::nth_element(list.begin(), list.begin() + list.size() / 2, list.end());
    medians.push_back(list[list.size() / 2]);
  }
  for (cudaGraphExec_t exec : graphs)
    CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaStreamDestroy(stream));
  return medians;
}

void report(const char *probe, const Shape &shape, const std::vector<Variant> &variants,
            const std::vector<Job> &jobs) {
  std::vector<double> us = timeAll(variants, jobs, shape.bytes() / 4.5e6);
  for (size_t i = 0; i < variants.size(); ++i)
    printf("%-8s %-22s %-34s %8.2f us %6.3f TB/s\n", probe, shape.name.c_str(),
           variants[i].name.c_str(), us[i], shape.bytes() / us[i] / 1e6);
  fflush(stdout);
}

constexpr int kHalf = 96 * 1024 / kStageBytes;  // stages, of two blocks on a multiprocessor
constexpr int kFull = 192 * 1024 / kStageBytes; // of one
constexpr int kTwo = 113 * 1024; // dynamic shared memory of which two blocks fit a multiprocessor
constexpr int kOne = 200 * 1024;
constexpr uint64_t kEvictFirst = 0x12F0000000000000ull;

std::vector<Shape> shapes(int page, bool hnd) {
  auto same = [](int batch, int length) { return std::vector<int>(batch, length); };
  std::vector<int> mixed;
  std::mt19937 random(3);
  for (int i = 0; i < 64; ++i)
    mixed.push_back(std::max(kKeys, (int)(128 * std::pow(128.0, i / 63.0)) / kKeys * kKeys));
  std::shuffle(mixed.begin(), mixed.end(), random);
  return {{"B1_S1k", same(1, 1024), 8, page, hnd},   {"B1_S16k", same(1, 16384), 8, page, hnd},
          {"B8_S2k", same(8, 2048), 8, page, hnd},   {"B1_S128k", same(1, 131072), 8, page, hnd},
          {"B16_S8k", same(16, 8192), 8, page, hnd}, {"B64_S8k", same(64, 8192), 8, page, hnd},
          {"mixed64", mixed, 8, page, hnd}};
}

template <Copy COPY, Merge MERGE, int STAGES, int LOAD = 128, bool DEPENDENT = false>
Variant variant(std::string name, int ctas, int sharedBytes, int cluster = 1, uint64_t hint = 0,
                int headOrder = 0) {
  return {std::move(name), [=](const Job &given, cudaStream_t stream) {
            Job job = given;
            job.headOrder = headOrder;
            launch<COPY, MERGE, STAGES, LOAD, DEPENDENT>(job, stream, ctas, cluster, hint,
                                                         sharedBytes);
          }};
}

Variant plain(std::string name, int blocks) {
  return {std::move(name), [=](const Job &job, cudaStream_t stream) {
            long long bytes = (long long)job.blocks * job.heads * kStageBytes;
            readPlainly<<<blocks, 512, 0, stream>>>((const uint4 *)job.kData,
                                                    (const uint4 *)job.vData, bytes / 16,
                                                    (uint32_t *)job.out);
          }};
}

} // namespace probe
