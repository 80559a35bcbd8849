// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures what binds a decode kernel on Hopper, without its arithmetic: the rate at which keys and
// values come into shared memory by each kind of copy, what it costs to merge parts of a sequence,
// and the fixed costs of a launch. It is no part of the product. Its figures decide what the
// compiler generates (docs/performance-log.md).
//
//   nvcc -O3 -std=c++17 -arch=sm_90a -o serving bench/probes/serving.cu && ./serving [probe ...]
//
// Every timing is that of a CUDA graph of many launches over buffers that rotate, so that the L2
// holds nothing of them; medians over rounds in which the variants take turns. A line of the output
// is "probe case value unit".

#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

namespace {

#ifndef KEYS
#define KEYS 128
#endif
constexpr int kKeys = KEYS;                     // of a stage
constexpr int kWidth = 128;                     // D, of 16 bits
constexpr int kStageBytes = kKeys * kWidth * 2; // of K or of V
constexpr int kPanelBytes = kStageBytes / 2;    // 64 columns, swizzled by 128 bytes
constexpr int kStateRows = 8;                   // the heads of a group
constexpr int kStateWords = kStateRows * (kWidth + 2);

enum class Copy { Tma, AsyncRows, Bulk };
enum class Merge { None, LastArriver, Cluster, SecondLaunch };

struct Job {
  CUtensorMap k, v;
  const char *kData, *vData;
  const int *table;      // [batch, blocks of `page` keys]
  const int *firstBlock; // [batch + 1]: prefix of the blocks of 64 keys of each sequence
  float *states;         // [workers, 2, kStateWords]
  unsigned *counters;    // [batch * heads]
  float *out;            // [batch * heads, kStateWords]
  long long pageStride, rowStride, headStride; // bytes
  int batch, heads, page, tableWidth, blocks;  // blocks: of all sequences
  int headOrder;                               // of the shares, see below
};

__device__ inline uint32_t shared(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline void initBarrier(uint64_t *bar, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared(bar)), "r"(count));
}
__device__ inline void expect(uint64_t *bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared(bar)), "r"(bytes)
               : "memory");
}
__device__ inline void arrive(uint64_t *bar) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared(bar)) : "memory");
}
__device__ inline void wait(uint64_t *bar, int phase) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p "
               "bra again;\n}\n" ::"r"(shared(bar)),
               "r"(phase)
               : "memory");
}
__device__ inline void tma(const CUtensorMap *map, void *to, uint64_t *bar, int column, int row,
                           int head, int page, uint64_t hint) {
  if (hint)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
                 "L2::cache_hint "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(shared(to)),
                 "l"(map), "r"(column), "r"(row), "r"(head), "r"(page), "r"(shared(bar)), "l"(hint)
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared(to)),
                 "l"(map), "r"(column), "r"(row), "r"(head), "r"(page), "r"(shared(bar))
                 : "memory");
}

/// What a worker reads next: block `block` of sequence `b`, head `h`.
struct Position {
  int b, h, block, blocks;
};

__device__ inline Position positionOf(const Job &job, int unit) {
  Position p;
  if (job.headOrder == 0 || job.headOrder == 3) { // (b, h, block)
    int b = 0;
    while (b + 1 < job.batch && job.firstBlock[b + 1] * job.heads <= unit)
      ++b;
    p.b = b;
    p.blocks = job.firstBlock[b + 1] - job.firstBlock[b];
    int inside = unit - job.firstBlock[b] * job.heads;
    p.h = inside / p.blocks;
    p.block = inside % p.blocks;
  } else { // (h, b, block)
    p.h = unit / job.blocks;
    int inside = unit % job.blocks;
    int b = 0;
    while (b + 1 < job.batch && job.firstBlock[b + 1] <= inside)
      ++b;
    p.b = b;
    p.blocks = job.firstBlock[b + 1] - job.firstBlock[b];
    p.block = inside - job.firstBlock[b];
  }
  return p;
}

/// The position behind the last block of a head.
__device__ inline Position following(const Job &job, Position p) {
  p.block = 0;
  if (job.headOrder == 3) {
    int task = p.b * job.heads + p.h + gridDim.x;
    p.b = task / job.heads, p.h = task % job.heads;
    return p;
  }
  if (job.headOrder == 0 && ++p.h == job.heads)
    p.h = 0, ++p.b;
  else if (job.headOrder != 0 && ++p.b == job.batch)
    p.b = 0, ++p.h;
  p.blocks = __ldg(job.firstBlock + p.b + 1) - __ldg(job.firstBlock + p.b);
  return p;
}

__device__ inline int workerOf(const Job &job, int unit, int workers) {
  long long units = (long long)job.blocks * job.heads;
  return static_cast<int>(((unit + 1) * (long long)workers - 1) / units);
}

/// Reads its share of all blocks through a ring; a warpgroup takes 16 bytes a thread of each stage,
/// adds them to a state, and parts of one head are merged as `MERGE` says.
template <Copy COPY, Merge MERGE, int STAGES, int THREADS_OF_LOAD, bool DEPENDENT>
__global__ void __launch_bounds__(THREADS_OF_LOAD + 128, 1)
    readAll(const __grid_constant__ Job job, uint64_t hint) {
  extern __shared__ __align__(1024) char memory[];
  __shared__ uint64_t full[STAGES], empty[STAGES];
  __shared__ unsigned arrived;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      initBarrier(&full[i], COPY == Copy::AsyncRows ? THREADS_OF_LOAD : 1);
      initBarrier(&empty[i], 4);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(&job.k) : "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(&job.v) : "memory");
  }
  __syncthreads();
  if (DEPENDENT) {
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
  const int workers = gridDim.x;
  const long long units = (long long)job.blocks * job.heads;
  int first = static_cast<int>(units * blockIdx.x / workers);
  int last = static_cast<int>(units * (blockIdx.x + 1) / workers);
  if (job.headOrder == 2) { // the same blocks of keys for each head, at the same time
    int shares = workers / job.heads, share = blockIdx.x / job.heads, head = blockIdx.x % job.heads;
    first = head * job.blocks + (int)((long long)job.blocks * share / shares);
    last = head * job.blocks + (int)((long long)job.blocks * (share + 1) / shares);
  }
  if (job.headOrder == 3) { // whole heads in turn: (b, h) = w, w + workers, ...
    int blocksOfOne = job.firstBlock[1];
    int tasks = job.batch * job.heads;
    first = blockIdx.x * blocksOfOne;
    last = first + ((tasks - (int)blockIdx.x + workers - 1) / workers) * blocksOfOne;
  }

  if (threadIdx.x < THREADS_OF_LOAD) {
    if (COPY != Copy::AsyncRows && threadIdx.x != 0)
      goto end;
    int use = 0;
    Position p = positionOf(job, first);
    for (int unit = first; unit < last; ++unit) {
      for (int part = 0; part < 2; ++part, ++use) {
        int slot = use % STAGES;
        wait(&empty[slot], ((use / STAGES) & 1) ^ 1);
        char *to = memory + slot * kStageBytes;
        int rowsOfPage = job.page < kKeys ? job.page : kKeys;
        if (COPY == Copy::Tma) {
          expect(&full[slot], kStageBytes);
          for (int r = 0; r < kKeys; r += rowsOfPage) {
            int key = p.block * kKeys + r;
            int page = __ldg(job.table + p.b * job.tableWidth + key / job.page);
            int row = key % job.page;
            for (int panel = 0; panel < 2; ++panel)
              tma(part ? &job.v : &job.k, to + panel * kPanelBytes + r * 128, &full[slot],
                  panel * 64, row, p.h, page, hint);
          }
        } else if (COPY == Copy::Bulk) { // rows of one head one behind the other
          int key = p.block * kKeys;
          const char *from =
              (part ? job.vData : job.kData) +
              __ldg(job.table + p.b * job.tableWidth + key / job.page) * job.pageStride +
              p.h * job.headStride + key % job.page * job.rowStride;
          expect(&full[slot], kStageBytes);
          asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                       "[%1], %2, [%3];" ::"r"(shared(to)),
                       "l"(from), "r"(kStageBytes), "r"(shared(&full[slot]))
                       : "memory");
        } else {
          const char *from = part ? job.vData : job.kData;
          // A row of 256 bytes by 16 threads.
          constexpr int kRowsAtOnce = THREADS_OF_LOAD / 16;
          int piece = threadIdx.x % 16;
          for (int r = threadIdx.x / 16; r < kKeys; r += kRowsAtOnce) {
            int key = p.block * kKeys + r;
            int page = __ldg(job.table + p.b * job.tableWidth + key / job.page);
            const char *row = from + page * job.pageStride + (key % job.page) * job.rowStride +
                              p.h * job.headStride;
            char *target =
                to + (piece / 8) * kPanelBytes + r * 128 + (((piece % 8) ^ (r % 8)) * 16);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared(target)),
                         "l"(row + piece * 16)
                         : "memory");
          }
          asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared(&full[slot]))
                       : "memory");
        }
      }
      if (++p.block == p.blocks && unit + 1 < last)
        p = following(job, p);
    }
  } else {
    const int thread = threadIdx.x - THREADS_OF_LOAD;
    float sum[4] = {0, 0, 0, 0};
    int use = 0;
    Position p = positionOf(job, first);
    int pieceBegin = first, piece = 0;
    for (int unit = first; unit < last; ++unit) {
      for (int part = 0; part < 2; ++part, ++use) {
        int slot = use % STAGES;
        wait(&full[slot], (use / STAGES) & 1);
        float4 x = *reinterpret_cast<const float4 *>(memory + slot * kStageBytes + thread * 16);
        sum[0] += x.x, sum[1] += x.y, sum[2] += x.z, sum[3] += x.w;
        __syncwarp();
        if (thread % 32 == 0)
          arrive(&empty[slot]);
      }
      bool endOfHead = ++p.block == p.blocks;
      if (!endOfHead && unit + 1 < last)
        continue;
      // The end of a piece: of a head, or of the share.
      const int pair = p.b * job.heads + p.h;
      const int headBegin = unit - (p.block - 1), headEnd = headBegin + p.blocks;
      const bool whole = pieceBegin == headBegin && endOfHead;
      if (MERGE == Merge::None || (whole && MERGE != Merge::SecondLaunch)) {
        for (int i = thread; i < kStateWords; i += 128)
          job.out[(long long)pair * kStateWords + i] = sum[i % 4];
      } else if (MERGE == Merge::LastArriver || MERGE == Merge::SecondLaunch) {
        float4 *states = reinterpret_cast<float4 *>(job.states);
        float4 *mine = states + ((long long)blockIdx.x * 2 + (piece ? 1 : 0)) * kStateWords / 4;
        for (int i = thread; i < kStateWords / 4; i += 128)
          __stcg(mine + i, make_float4(sum[0], sum[1], sum[2], sum[3]));
        if (MERGE == Merge::LastArriver) {
          int firstWorker = workerOf(job, headBegin, workers),
              lastWorker = workerOf(job, headEnd - 1, workers);
          __threadfence();
          asm volatile("bar.sync 1, 128;" ::: "memory");
          if (thread == 0) {
            unsigned before;
            asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                         : "=r"(before)
                         : "l"(job.counters + pair), "r"((unsigned)(lastWorker - firstWorker))
                         : "memory");
            arrived = before;
          }
          asm volatile("bar.sync 1, 128;" ::: "memory");
          if (arrived == (unsigned)(lastWorker - firstWorker)) {
            // Parts of a head are the first pieces of its workers, but for the first worker's, if
            // it began before.
            int firstSlot = firstWorker * 2 + (units * firstWorker / workers < headBegin ? 1 : 0);
            constexpr int kAtOnce = 12;
            float4 merged[2] = {};
            for (int w = firstWorker; w <= lastWorker; w += kAtOnce) {
              float4 part[kAtOnce][2];
#pragma unroll
              for (int j = 0; j < kAtOnce; ++j) {
                int slot = w + j == firstWorker ? firstSlot : (w + j) * 2;
                if (w + j <= lastWorker) {
                  part[j][0] = __ldcg(states + (long long)slot * kStateWords / 4 + thread);
                  part[j][1] = __ldcg(states + (long long)slot * kStateWords / 4 + 128 + thread);
                } else {
                  part[j][0] = part[j][1] = make_float4(0, 0, 0, 0);
                }
              }
#pragma unroll
              for (int j = 0; j < kAtOnce; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                  merged[half].x += part[j][half].x, merged[half].y += part[j][half].y;
                  merged[half].z += part[j][half].z, merged[half].w += part[j][half].w;
                }
            }
            float4 *out = reinterpret_cast<float4 *>(job.out + (long long)pair * kStateWords);
            out[thread] = merged[0];
            out[thread + 128] = merged[1];
          }
        }
      } else { // One cluster has one head: its blocks exchange their states through shared memory.
        // The ring is idle now, as this is the only piece.
        float *mine = reinterpret_cast<float *>(memory);
        for (int i = thread; i < kStateWords; i += 128)
          mine[i] = sum[i % 4];
      }
      sum[0] = sum[1] = sum[2] = sum[3] = 0;
      pieceBegin = unit + 1;
      ++piece;
      if (endOfHead && unit + 1 < last)
        p = following(job, p);
    }
  }
end:
  if (MERGE == Merge::Cluster) {
    uint32_t rank, size;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    __syncwarp();
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    Position p = positionOf(job, first);
    for (int i = threadIdx.x + rank * (THREADS_OF_LOAD + 128); i < kStateWords;
         i += (THREADS_OF_LOAD + 128) * size) {
      float merged = 0;
      for (uint32_t r = 0; r < size; ++r) {
        uint32_t remote;
        float value;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                     : "=r"(remote)
                     : "r"(shared(memory + i * 4)), "r"(r));
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(remote) : "memory");
        merged += value;
      }
      job.out[(long long)(p.b * job.heads + p.h) * kStateWords + i] = merged;
    }
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
  }
}

/// The second launch: a block merges the parts of `kRowsOfFold` rows of one head.
constexpr int kRowsOfFold = 2;
template <bool DEPENDENT>
__global__ void __launch_bounds__(128) fold(const __grid_constant__ Job job, int workers) {
  if (DEPENDENT)
    asm volatile("griddepcontrol.wait;" ::: "memory");
  int pair = blockIdx.x / (kStateRows / kRowsOfFold),
      rows = blockIdx.x % (kStateRows / kRowsOfFold);
  const long long units = (long long)job.blocks * job.heads;
  int b = pair / job.heads, h = pair % job.heads;
  int blocks = __ldg(job.firstBlock + b + 1) - __ldg(job.firstBlock + b);
  int headBegin = __ldg(job.firstBlock + b) * job.heads + h * blocks;
  int firstWorker = workerOf(job, headBegin, workers),
      lastWorker = workerOf(job, headBegin + blocks - 1, workers);
  int firstSlot = firstWorker * 2 + (units * firstWorker / workers < headBegin ? 1 : 0);
  const float2 *states = reinterpret_cast<const float2 *>(job.states);
  float2 merged = {};
  constexpr int kAtOnce = 16;
  for (int w = firstWorker; w <= lastWorker; w += kAtOnce) {
    float2 part[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      int slot = w + j == firstWorker ? firstSlot : (w + j) * 2;
      part[j] = w + j <= lastWorker
                    ? __ldcg(states + (long long)slot * kStateWords / 2 + rows * 128 + threadIdx.x)
                    : make_float2(0, 0);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      merged.x += part[j].x, merged.y += part[j].y;
  }
  reinterpret_cast<float2 *>(job.out + (long long)pair * kStateWords)[rows * 128 + threadIdx.x] =
      merged;
}

//===-- Launches
//------------------------------------------------------------------------------------------------===//

using Encode = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                            const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                            const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
Encode encode;

struct Cache {
  char *k = nullptr, *v = nullptr;
  long long bytes = 0;
};

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
  static bool ready = false;
  if (!ready) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 224 * 1024));
    ready = true;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = (int)std::min<long long>(ctas, (long long)job.blocks * job.heads);
  config.blockDim = LOAD + 128;
  config.dynamicSmemBytes = std::max(sharedBytes, STAGES * kStageBytes);
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  config.attrs = attributes;
  if (DEPENDENT) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim.x = cluster;
    attributes[config.numAttrs].val.clusterDim.y = 1;
    attributes[config.numAttrs++].val.clusterDim.z = 1;
  }
  CHECK(cudaLaunchKernelEx(&config, kernel, job, hint));
  if (MERGE == Merge::SecondLaunch) {
    cudaLaunchConfig_t second{};
    second.gridDim = job.batch * job.heads * (kStateRows / kRowsOfFold), second.blockDim = 128;
    second.stream = stream, second.attrs = attributes, second.numAttrs = DEPENDENT ? 1 : 0;
    CHECK(cudaLaunchKernelEx(&second, fold<DEPENDENT>, job, (int)config.gridDim.x));
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
uint64_t evictFirst = 0x12F0000000000000ull;

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

constexpr Copy T = Copy::Tma, A = Copy::AsyncRows, B = Copy::Bulk;
constexpr Merge N = Merge::None, L = Merge::LastArriver, C = Merge::Cluster,
                S = Merge::SecondLaunch;

/// Reads K and V with 16-byte loads, the plain way: what the memory gives.
__global__ void __launch_bounds__(512)
    readPlainly(const uint4 *k, const uint4 *v, long long pieces, uint32_t *out) {
  uint32_t x = 0;
  long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < pieces; i += step * 4) {
    uint4 part[8];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      long long at = min(i + j * step, pieces - 1);
      part[j * 2] = __ldcs(k + at);
      part[j * 2 + 1] = __ldcs(v + at);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j)
      x ^= part[j].x ^ part[j].y ^ part[j].z ^ part[j].w;
  }
  if (x == 0x12345678u)
    *out = x;
}

Variant plain(std::string name, int blocks) {
  return {std::move(name), [=](const Job &job, cudaStream_t stream) {
            long long bytes = (long long)job.blocks * job.heads * kStageBytes;
            readPlainly<<<blocks, 512, 0, stream>>>((const uint4 *)job.kData,
                                                    (const uint4 *)job.vData, bytes / 16,
                                                    (uint32_t *)job.out);
          }};
}

/// How many blocks read, for keys in one piece, beside plain loads and a copy.
void probeRate() {
  for (bool hnd : {false, true})
    for (Shape &shape : shapes(0, hnd)) {
      if (shape.name == "mixed64")
        continue; // its cache in one piece has gaps, which plain loads would read
      Setup setup;
      shape.name += hnd ? ".hnd" : ".nhd";
      prepare(setup, shape, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
      report(
          "rate", shape,
          {variant<T, N, kFull>("64 ctas", 64, kOne), variant<T, N, kFull>("96 ctas", 96, kOne),
           variant<T, N, kFull>("120 ctas", 120, kOne), variant<T, N, kFull>("128 ctas", 128, kOne),
           variant<T, N, kFull>("132 ctas", 132, kOne), variant<T, N, kHalf>("264 ctas", 264, kTwo),
           variant<T, N, kFull>("132 ctas, evict_first", 132, kOne, 1, evictFirst),
           variant<T, N, kFull>("132 ctas, (h, b)", 132, kOne, 1, 0, 1),
           variant<T, N, kFull>("128 ctas, heads together", 128, kOne, 1, 0, 2),
           variant<A, N, kFull>("132 ctas, cp.async", 132, kOne),
           plain("plain loads, 528 ctas", 528), plain("plain loads, 8192 ctas", 8192)},
          setup.jobs);
    }
}

/// What promotion in the L2 does.
void probePromotion() {
  for (CUtensorMapL2promotion promotion :
       {CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_L2_PROMOTION_NONE})
    for (bool hnd : {false, true})
      for (Shape &shape : shapes(0, hnd)) {
        if (shape.name != "B64_S8k" && shape.name != "B1_S16k")
          continue;
        Setup setup;
        shape.name += std::string(hnd ? ".hnd" : ".nhd") + ".l2_" + std::to_string((int)promotion);
        prepare(setup, shape, promotion);
        report("promote", shape, {variant<T, N, kFull>("132 ctas", 132, kOne)}, setup.jobs);
      }
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
  for (bool hnd : {false, true})
    for (Shape &shape : shapes(0, hnd)) {
      if (shape.name != "B64_S8k" && shape.name != "B1_S16k")
        continue;
      Setup setup;
      shape.name += hnd ? ".hnd" : ".nhd";
      prepare(setup, shape, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
      std::vector<Variant> all;
      addDepths<T>(all, "boxes", Depths());
      addDepths<A>(all, "cp.async", Depths());
      if (hnd)
        addDepths<B>(all, "bulk", Depths());
      report("depth", shape, all, setup.jobs);
    }
}

/// Pages by boxes and by cp.async.
void probePages() {
  for (int page : {16, 32, 64, 128})
    for (bool hnd : {false, true})
      for (Shape &shape : shapes(page, hnd)) {
        if (shape.name != "B64_S8k" && shape.name != "B1_S16k" && shape.name != "mixed64")
          continue;
        Setup setup;
        shape.name += (hnd ? ".hnd" : ".nhd") + std::string(".p") + std::to_string(page);
        prepare(setup, shape, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
        report("pages", shape,
               {variant<T, N, kFull>("132 ctas, boxes", 132, kOne),
                variant<A, N, kFull>("132 ctas, cp.async", 132, kOne),
                variant<T, N, kHalf>("264 ctas, boxes", 264, kTwo)},
               setup.jobs);
      }
}

/// What a merge adds, and a programmatic launch saves.
void probeMerge() {
  for (Shape &shape : shapes(64, false)) {
    Setup setup;
    prepare(setup, shape, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
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

//===-- Fixed costs
//---------------------------------------------------------------------------------------------===//

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
            CHECK(cudaFuncSetAttribute(nothing<DEPENDENT>,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, 224 * 1024));
            cudaLaunchConfig_t config{};
            config.gridDim = ctas, config.blockDim = threads, config.dynamicSmemBytes = bytes,
            config.stream = stream;
            cudaLaunchAttribute attribute;
            attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
            attribute.val.programmaticStreamSerializationAllowed = 1;
            config.attrs = &attribute;
            config.numAttrs = DEPENDENT ? 1 : 0;
            CHECK(cudaLaunchKernelEx(&config, nothing<DEPENDENT>, (int *)nullptr));
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

__global__ void latencies(unsigned *counter, float *data, int *chain, long long *out) {
  // One thread of block 0: dependent operations.
  if (threadIdx.x || blockIdx.x)
    return;
  constexpr int kTimes = 64;
  unsigned x = 0;
  long long t0 = clock64();
  for (int i = 0; i < kTimes; ++i) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter + (x & 1)), "r"(0xffffffffu)
                 : "memory");
    x ^= before;
  }
  long long t1 = clock64();
  for (int i = 0; i < kTimes; ++i) {
    unsigned before;
    asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter + (x & 1)), "r"(0xffffffffu)
                 : "memory");
    x ^= before;
  }
  long long t2 = clock64();
  int at = (int)(x & 0);
  for (int i = 0; i < kTimes; ++i)
    at = __ldcg(chain + at);
  long long t3 = clock64();
  for (int i = 0; i < kTimes; ++i) {
    __stcg(data + i, (float)at);
    __threadfence();
  }
  long long t4 = clock64();
  out[0] = (t1 - t0) / kTimes, out[1] = (t2 - t1) / kTimes, out[2] = (t3 - t2) / kTimes,
  out[3] = (t4 - t3) / kTimes;
  out[4] = at;
}

__global__ void clusterCosts(long long *out) {
  __shared__ float value[256];
  uint32_t rank, size;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  constexpr int kTimes = 32;
  value[threadIdx.x] = threadIdx.x;
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
  long long t0 = clock64();
  for (int i = 0; i < kTimes; ++i)
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
  long long t1 = clock64();
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(remote)
               : "r"(shared(&value[threadIdx.x])), "r"((rank + 1) % size));
  float x = 0;
  for (int i = 0; i < kTimes; ++i) {
    float y;
    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                 : "=f"(y)
                 : "r"(remote + (x > 1e30f ? 4 : 0))
                 : "memory");
    x += y;
  }
  long long t2 = clock64();
  for (int i = 0; i < kTimes; ++i) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(x) : "memory");
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
  }
  long long t3 = clock64();
  if (threadIdx.x == 0 && blockIdx.x == 0)
    out[0] = (t1 - t0) / kTimes, out[1] = (t2 - t1) / kTimes, out[2] = (t3 - t2) / kTimes,
    out[3] = (long long)x;
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
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
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  for (int i = 0; i < 2; ++i) {
    latencies<<<1, 32>>>(counter, data, chain, out);
    CHECK(cudaDeviceSynchronize());
  }
  printf("latency  atom.acq_rel.gpu.inc   %lld clk\nlatency  atom.relaxed.gpu.inc   %lld clk\n"
         "latency  ld.global.cg (L2)      %lld clk\nlatency  st.cg + membar.gl      %lld clk\n",
         out[0], out[1], out[2], out[3]);
  for (int size : {2, 4, 8}) {
    cudaLaunchConfig_t config{};
    config.gridDim = size, config.blockDim = 256;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = size, attribute.val.clusterDim.y = 1,
    attribute.val.clusterDim.z = 1;
    config.attrs = &attribute, config.numAttrs = 1;
    for (int i = 0; i < 2; ++i) {
      CHECK(cudaLaunchKernelEx(&config, clusterCosts, out));
      CHECK(cudaDeviceSynchronize());
    }
    printf("latency  cluster of %d           barrier %lld, remote load %lld, remote store + "
           "barrier %lld clk\n",
           size, out[0], out[1], out[2]);
  }
  for (int threads : {128, 256, 512, 1024}) {
    for (int i = 0; i < 2; ++i) {
      conversions<<<1, threads>>>((uint32_t *)data, out);
      CHECK(cudaDeviceSynchronize());
    }
    printf("latency  cvt.f16x2.e4m3x2       %d threads: %.1f instructions a clock\n", threads,
           512.0 * 8 * threads / out[0]);
  }
  for (int bytes : {kOne, kTwo})
    for (int size : {4, 8}) {
      auto *kernel = readAll<Copy::Tma, Merge::Cluster, 6, 128, false>;
      CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 224 * 1024));
      cudaLaunchConfig_t config{};
      config.gridDim = size * 64, config.blockDim = 256, config.dynamicSmemBytes = bytes;
      cudaLaunchAttribute attribute;
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = size, attribute.val.clusterDim.y = 1,
      attribute.val.clusterDim.z = 1;
      config.attrs = &attribute, config.numAttrs = 1;
      int clusters = 0;
      CHECK(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
      printf("clusters of %d, %d KB: %d at once\n", size, bytes / 1024, clusters);
    }
  cudaFree(counter), cudaFree(data), cudaFree(chain), cudaFree(out);
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
  return 0;
}
