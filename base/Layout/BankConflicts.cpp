// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts wavefronts, phase by phase.

#include "base/Layout/BankConflicts.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <set>

using namespace tilewright;
using namespace tilewright::layout;

namespace {

constexpr int kBanks = 32;

/// The accesses that are served at once: `bytes` from each offset.
Wavefronts phase(const int64_t *offsets, size_t count, int bytes) {
  std::array<std::set<int64_t>, kBanks> words;
  for (size_t i = 0; i < count; ++i) {
    if (offsets[i] < 0)
      continue;
    int64_t last = (offsets[i] + bytes - 1) / 4;
    for (int64_t word = offsets[i] / 4; word <= last; ++word)
      words[word % kBanks].insert(word);
  }
  size_t worst = 0;
  for (const std::set<int64_t> &bank : words)
    worst = std::max(worst, bank.size());
  return {static_cast<int64_t>(worst), worst ? 1 : 0};
}

Wavefronts phases(const std::vector<int64_t> &offsets, size_t perPhase, int bytes) {
  Wavefronts sum;
  for (size_t i = 0; i < offsets.size(); i += perPhase)
    sum += phase(offsets.data() + i, std::min(perPhase, offsets.size() - i), bytes);
  return sum;
}

} // namespace

Wavefronts layout::warpAccess(const std::vector<int64_t> &offsets, int bytesPerLane) {
  assert(offsets.size() <= kLanes && bytesPerLane <= 16 && "not one access of a warp");
  return phases(offsets, bytesPerLane <= 4 ? kLanes : 4 * kLanes / bytesPerLane, bytesPerLane);
}

Wavefronts layout::matrixAccess(const std::vector<int64_t> &rowOffsets) {
  assert(rowOffsets.size() % 8 == 0 && "a matrix has 8 rows");
  return phases(rowOffsets, 8, 16);
}

Wavefronts layout::wavefronts(const MatrixAccess &access) {
  Wavefronts sum;
  for (size_t issue = 0; issue < access.issues().size(); ++issue)
    for (int warp = 0; warp < access.numWarps(); ++warp) {
      std::vector<int64_t> rows;
      for (int lane = 0; lane < 8 * access.issues()[issue].numMatrices; ++lane)
        rows.push_back(access.byteOffset(static_cast<int>(issue), warp, lane));
      sum += matrixAccess(rows);
    }
  return sum;
}

Wavefronts layout::wavefronts(const VectorAccess &access) {
  Wavefronts sum;
  for (size_t issue = 0; issue < access.issues().size(); ++issue)
    for (int warp = 0; warp < access.numWarps(); ++warp) {
      std::vector<int64_t> offsets;
      for (int lane = 0; lane < kLanes; ++lane)
        offsets.push_back(access.byteOffset(static_cast<int>(issue), warp, lane));
      sum += warpAccess(offsets, access.bytesPerLane());
    }
  return sum;
}

Wavefronts layout::wavefronts(const CopyPartition &partition) {
  Wavefronts sum;
  for (int issue = 0; issue < partition.numIssues(); ++issue)
    for (int warp = 0; warp * kLanes < partition.numThreads(); ++warp) {
      std::vector<int64_t> offsets;
      int end = std::min((warp + 1) * kLanes, partition.numThreads());
      for (int thread = warp * kLanes; thread < end; ++thread) {
        std::optional<CopyChunk> chunk = partition.chunkOf(thread, issue);
        offsets.push_back(chunk ? chunk->byteOffset : -1);
      }
      sum += warpAccess(offsets, partition.chunkBytes());
    }
  return sum;
}
