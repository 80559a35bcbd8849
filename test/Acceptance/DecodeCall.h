// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs of the kernel for few queries, on keys and values in pages or in one piece.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_DECODECALL_H
#define TILEWRIGHT_TEST_ACCEPTANCE_DECODECALL_H

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Variants.h"

#include "gtest/gtest.h"

#include <functional>

namespace tilewright::acceptance {

class Decode : public ::testing::TestWithParam<reference::Type> {};

/// From [pages, heads, rows, columns] to [pages, rows, heads, columns].
std::vector<double> rowsBeforeHeads(const std::vector<double> &in, const reference::PagedKeys &keys,
                                    int64_t heads, int64_t columns);

/// New queries for each sequence, and the keys and values in pages.
struct DecodeArrays {
  reference::AttentionProblem problem;
  reference::PagedKeys keys;
  std::vector<double> q;
  reference::Type cache;

  DecodeArrays(const std::vector<int64_t> &lengths, int64_t pageSize, int64_t group, int64_t D,
               int64_t DV, reference::Type type, uint64_t seed, int64_t queries = 1)
      : DecodeArrays(lengths, pageSize, group, D, DV, type, type, seed, queries) {}
  DecodeArrays(const std::vector<int64_t> &lengths, int64_t pageSize, int64_t group, int64_t D,
               int64_t DV, reference::Type type, reference::Type cache, uint64_t seed,
               int64_t queries);
  reference::ForwardOracle oracle(reference::Type type) const;
};

struct DecodeShape {
  int64_t queries, rows, group, pageSize, pageRows;
  reference::Causal causal;
  reference::Window window;
};

/// Odd numbers of pieces have an instance each, whose results a launch merges. How many instances
/// attend the others follows from the batch.
void addPieces(Params &params, int64_t splits);

/// `options`: parameters, files and captures in addition to those of the arrays.
reference::ForwardResult runDecode(const DecodeArrays &arrays, reference::Type type, int64_t group,
                                   int64_t pageRows, int64_t splits,
                                   const CallOptions &options = {});

/// Writes NaN to key j of key head h of sequence b, wherever `isPoisoned` holds.
void poison(std::vector<double> &values, int64_t columns, const DecodeArrays &arrays,
            const std::function<bool(int64_t b, int64_t h, int64_t j)> &isPoisoned);

/// The same for the padding of each sequence that lies in whole blocks of this size.
void poisonPadding(std::vector<double> &values, int64_t columns, const DecodeArrays &arrays,
                   const std::vector<int64_t> &leftpad, int64_t block);

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_DECODECALL_H
