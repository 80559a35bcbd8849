// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fixed costs: of a launch, of atomics and fences, of clusters, of conversions.

#pragma once

#include "Harness.cuh"

namespace probe {

template <bool DEPENDENT> __global__ void nothing(int *p) {
  if (DEPENDENT) {
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
  if (p && threadIdx.x == 1024)
    *p = 1;
}

template <bool DEPENDENT> Variant nothingOf(const char *name, int ctas, int threads, int bytes) {
  return {name, [=](const Job &, cudaStream_t stream) {
            allowAllSharedMemory(nothing<DEPENDENT>);
            Launch launch(ctas, threads, bytes, stream);
            launch.dependentIf(DEPENDENT);
            CHECK(cudaLaunchKernelEx(&launch.config, nothing<DEPENDENT>, (int *)nullptr));
          }};
}

void probeLaunch() {
  std::vector<Variant> all = {nothingOf<false>("1 cta", 1, 32, 0),
                              nothingOf<true>("1 cta, PDL", 1, 32, 0),
                              nothingOf<false>("132 ctas of 256, 200 KB", 132, 256, kOne),
                              nothingOf<true>("132 ctas of 256, 200 KB, PDL", 132, 256, kOne),
                              nothingOf<false>("264 ctas of 256, 113 KB", 264, 256, kTwo),
                              nothingOf<true>("264 ctas of 256, 113 KB, PDL", 264, 256, kTwo)};
  std::vector<double> us = timeAll(all, std::vector<Job>(1), 3);
  for (size_t i = 0; i < all.size(); ++i)
    printf("launch   node to node           %-34s %8.2f us\n", all[i].name.c_str(), us[i]);
}

/// Clocks of one of `TIMES` calls of `operation`, each of which depends on the one before.
template <int TIMES, typename Operation> __device__ long long clocksOf(Operation operation) {
  long long begin = clock64();
  for (int i = 0; i < TIMES; ++i)
    operation(i);
  return (clock64() - begin) / TIMES;
}

/// One thread.
__global__ void latencies(unsigned *counter, float *data, int *chain, long long *out) {
  constexpr int kTimes = 64;
  unsigned x = 0, before;
  out[0] = clocksOf<kTimes>([&](int) {
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter + (x & 1)), "r"(0xffffffffu)
                 : "memory");
    x ^= before;
  });
  out[1] = clocksOf<kTimes>([&](int) {
    asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter + (x & 1)), "r"(0xffffffffu)
                 : "memory");
    x ^= before;
  });
  int at = (int)(x & 0);
  out[2] = clocksOf<kTimes>([&](int) { at = __ldcg(chain + at); });
  out[3] = clocksOf<kTimes>([&](int i) {
    __stcg(data + i, (float)at);
    __threadfence();
  });
  out[4] = at;
}

__global__ void clusterCosts(long long *out) {
  __shared__ float value[256];
  uint32_t rank = rankInCluster(), size = ctasOfCluster();
  constexpr int kTimes = 32;
  value[threadIdx.x] = threadIdx.x;
  meetCluster();
  long long barrier = clocksOf<kTimes>([](int) { meetCluster(); });
  uint32_t remote = remoteOf(&value[threadIdx.x], (rank + 1) % size);
  float x = 0;
  long long load = clocksOf<kTimes>([&](int) { x += loadRemote(remote + (x > 1e30f ? 4 : 0)); });
  long long store = clocksOf<kTimes>([&](int) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(x) : "memory");
    meetCluster();
  });
  if (threadIdx.x == 0 && blockIdx.x == 0)
    out[0] = barrier, out[1] = load, out[2] = store, out[3] = (long long)x;
  meetCluster();
}

__global__ void conversions(uint32_t *data, long long *out) {
  constexpr int kTimes = 512;
  uint32_t x[8];
  for (int i = 0; i < 8; ++i)
    x[i] = data[threadIdx.x * 8 + i];
  __syncthreads();
  long long t0 = clock64();
#pragma unroll 4
  for (int i = 0; i < kTimes; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      uint32_t y;
      asm volatile("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"((unsigned short)x[j]));
      x[j] = y;
    }
  __syncthreads();
  long long t1 = clock64();
  uint32_t sum = 0;
  for (int i = 0; i < 8; ++i)
    sum += x[i];
  data[threadIdx.x * 8] = sum;
  if (threadIdx.x == 0)
    out[0] = t1 - t0;
}

void probeLatencies() {
  unsigned *counter;
  float *data;
  int *chain;
  long long *out;
  CHECK(cudaMalloc(&counter, 1024));
  CHECK(cudaMalloc(&data, 1 << 20));
  CHECK(cudaMalloc(&chain, 1 << 20));
  CHECK(cudaMallocManaged(&out, 256));
  CHECK(cudaMemset(counter, 0, 1024));
  CHECK(cudaMemset(data, 1, 1 << 20));
  CHECK(cudaMemset(chain, 0, 1 << 20));
  // The first of two launches warms the caches.
  auto twice = [](auto launch) {
    for (int i = 0; i < 2; ++i) {
      launch();
      CHECK(cudaDeviceSynchronize());
    }
  };
  twice([&] { latencies<<<1, 1>>>(counter, data, chain, out); });
  printf("latency  atom.acq_rel.gpu.inc   %lld clk\nlatency  atom.relaxed.gpu.inc   %lld clk\n"
         "latency  ld.global.cg (L2)      %lld clk\nlatency  st.cg + membar.gl      %lld clk\n",
         out[0], out[1], out[2], out[3]);
  for (int size : {2, 4, 8}) {
    Launch launch(size, 256, 0);
    launch.clusterOf(size);
    twice([&] { CHECK(cudaLaunchKernelEx(&launch.config, clusterCosts, out)); });
    printf("latency  cluster of %d           barrier %lld, remote load %lld, remote store + "
           "barrier %lld clk\n",
           size, out[0], out[1], out[2]);
  }
  for (int threads : {128, 256, 512, 1024}) {
    twice([&] { conversions<<<1, threads>>>((uint32_t *)data, out); });
    printf("latency  cvt.f16x2.e4m3x2       %d threads: %.1f instructions a clock\n", threads,
           512.0 * 8 * threads / out[0]);
  }
  for (int bytes : {kOne, kTwo})
    for (int size : {4, 8}) {
      auto *kernel = readAll<Copy::Tma, Merge::Cluster, 6, 128, false>;
      allowAllSharedMemory(kernel);
      Launch launch(size * 64, 256, bytes);
      launch.clusterOf(size);
      int clusters = 0;
      CHECK(cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config));
      printf("clusters of %d, %d KB: %d at once\n", size, bytes / 1024, clusters);
    }
  cudaFree(counter), cudaFree(data), cudaFree(chain), cudaFree(out);
}

} // namespace probe
