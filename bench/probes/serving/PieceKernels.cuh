// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many contiguous pieces of a cache should be on their way, if they follow each other or lie at
// random places: 128 blocks read 512 MiB, each an equal part of it, and do nothing with it.

#pragma once

#include "Harness.cuh"

namespace probe {

constexpr long long kCacheBytes = 512ll << 20;
constexpr int kReaders = 128, kMostPieces = 16;

/// Reads the pieces of `order` that belong to the block; as many as there are slots at a time.
__global__ void readPieces(const char *cache, const uint32_t *order, int count, int bytes,
                           int slots) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ uint64_t barriers[kMostPieces];
  if (threadIdx.x != 0)
    return;
  auto first = (uint32_t)__cvta_generic_to_shared(barriers);
  auto ring = (uint32_t)__cvta_generic_to_shared(memory);
  for (int i = 0; i < slots; ++i)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(first + 8 * i));
  asm volatile("fence.proxy.async.shared::cta;");
  const uint32_t *own = order + (long long)blockIdx.x * count;
  for (int i = 0; i < count + slots; ++i) {
    int slot = i % slots;
    uint32_t barrier = first + 8 * slot;
    if (i >= slots)
      asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; "
                   "@!p bra AGAIN; }" ::"r"(barrier),
                   "r"((i / slots - 1) & 1)
                   : "memory");
    if (i >= count)
      continue;
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(ring + slot * bytes),
                 "l"(cache + (long long)own[i] * bytes), "r"(bytes), "r"(barrier)
                 : "memory");
  }
}

/// Pieces of each size, by how many are on their way: in order, at random places, and groups of 64
/// KiB at random places.
inline void probePieces() {
  allowAllSharedMemory(readPieces);
  Setup setup;
  for (int copy = 0; copy < 2; ++copy) {
    char *cache;
    CHECK(cudaMalloc(&cache, kCacheBytes));
    setup.owned.push_back(cache);
    fill<<<1024, 256>>>((uint32_t *)cache, kCacheBytes / 4, copy + 1);
    Job job{};
    job.kData = cache;
    setup.jobs.push_back(job);
  }
  Shape shape{"512MiB", {(int)(kCacheBytes / kWidth / 4)}, 1, 0, false};
  for (int bytes : {16 << 10, 32 << 10}) {
    int pieces = (int)(kCacheBytes / bytes), group = (64 << 10) / bytes;
    std::vector<Variant> all;
    for (int places : {1, group, pieces}) { // how many follow each other, of a random order
      std::vector<uint32_t> order(pieces), groups(pieces / places);
      for (size_t i = 0; i < groups.size(); ++i)
        groups[i] = (uint32_t)i;
      std::shuffle(groups.begin(), groups.end(), std::mt19937(7));
      for (int i = 0; i < pieces; ++i)
        order[i] = groups[i / places] * places + i % places;
      const uint32_t *numbers = deviceCopy(setup, order);
      for (int slots : {2, 3, 4, 5, 6, 8, 12}) {
        if (slots * bytes > 192 << 10)
          continue;
        std::string name = std::to_string(slots) + " x " + std::to_string(bytes >> 10) + " KB, " +
                           (places == 1 ? "random" : places == group ? "64 KB random" : "in order");
        all.push_back({name, [=](const Job &job, cudaStream_t stream) {
                         readPieces<<<kReaders, 32, slots * bytes, stream>>>(
                             job.kData, numbers, pieces / kReaders, bytes, slots);
                       }});
      }
    }
    report("pieces", shape, all, setup.jobs);
  }
}

} // namespace probe
