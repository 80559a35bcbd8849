// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How threads copy a tile from global to shared memory (cp.async).

#ifndef TILEWRIGHT_BASE_LAYOUT_COPYPARTITION_H
#define TILEWRIGHT_BASE_LAYOUT_COPYPARTITION_H

#include "base/Layout/SharedLayout.h"

namespace tilewright::layout {

/// One cp.async: the position of its bytes in the tile and in the buffer.
struct CopyChunk {
  int64_t row = 0, col = 0;
  int64_t byteOffset = 0;
};

/// The chunks of a tile shared among threads. Eight neighboring threads take 128 bytes that are
/// contiguous in the buffer, except for the swizzle, and so use every bank once. The next eight
/// take the same rows of the next panel, so that global rows are read in contiguous pieces:
///
///     panels of 64 bytes (4 chunks); T = threads, each number one chunk:
///                     panel 0        panel 1
///       rows 0, 1     T 0 .. 7       T 8 .. 15
///       rows 2, 3     T 16 .. 23     ...
class CopyPartition {
public:
  static constexpr int64_t lineBytes = 128; ///< all banks once

  /// `chunkBytes` is 4, 8 or 16 (the sizes of cp.async). Errors: a chunk smaller than an element,
  /// or one that does not divide the rows.
  static Result<CopyPartition> plan(const SharedLayout &buffer, int threads, int chunkBytes = 16);

  int numThreads() const { return threads; }
  int chunkBytes() const { return chunk; }
  int64_t numChunks() const;
  /// Whether chunks are distributed by lines of `lineBytes` across panels; otherwise along whole
  /// rows.
  bool isInLines() const;
  /// The maximum number of chunks that a thread copies.
  int numIssues() const;
  /// Whether every thread copies in every issue; otherwise the last issue needs a predicate.
  bool isEven() const { return numChunks() % threads == 0; }

  /// No value for threads without a chunk in this issue.
  std::optional<CopyChunk> chunkOf(int thread, int issue) const;

  /// If from every issue to the next all threads advance by the same number of rows and no columns:
  /// that number, and the column and the swizzle's chunk never change. Then a thread needs one
  /// address in either memory.
  std::optional<int64_t> rowsPerIssue() const;

private:
  CopyPartition(SharedLayout buffer, int threads, int chunk)
      : buffer(std::move(buffer)), threads(threads), chunk(chunk) {}
  CopyChunk chunkNumber(int64_t number) const;

  SharedLayout buffer;
  int threads, chunk;
};

} // namespace tilewright::layout

#endif // TILEWRIGHT_BASE_LAYOUT_COPYPARTITION_H
