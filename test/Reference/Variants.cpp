// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Variable lengths, pages, splits and fp8.

#include "test/Reference/Variants.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewright::reference {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Rows [begin, end) of each of the heads of a [heads, total, columns] array.
std::vector<double> cutRows(const std::vector<double> &all, int64_t heads, int64_t total,
                            int64_t columns, int64_t begin, int64_t end) {
  std::vector<double> part;
  if (all.empty())
    return part;
  for (int64_t h = 0; h < heads; ++h)
    part.insert(part.end(), all.begin() + (h * total + begin) * columns,
                all.begin() + (h * total + end) * columns);
  return part;
}

/// The inverse. Has no effect for an empty part.
void pasteRows(const std::vector<double> &part, std::vector<double> &all, int64_t heads,
               int64_t total, int64_t columns, int64_t begin, int64_t end) {
  if (part.empty())
    return;
  all.resize(heads * total * columns);
  int64_t size = (end - begin) * columns;
  for (int64_t h = 0; h < heads; ++h)
    std::copy_n(part.begin() + h * size, size, all.begin() + (h * total + begin) * columns);
}

} // namespace

PackedProblem packedProblem(const std::vector<int64_t> &lengthsQ,
                            const std::vector<int64_t> &lengthsKv, AttentionProblem common) {
  PackedProblem problem;
  problem.common = std::move(common);
  problem.cuQ = problem.cuKv = {0};
  for (int64_t length : lengthsQ)
    problem.cuQ.push_back(problem.cuQ.back() + length);
  for (int64_t length : lengthsKv)
    problem.cuKv.push_back(problem.cuKv.back() + length);
  return problem;
}

AttentionProblem PackedProblem::packed() const {
  AttentionProblem result = common;
  result.B = 1;
  result.Sq = totalQ();
  result.Skv = totalKv();
  return result;
}

AttentionProblem PackedProblem::sequence(int64_t n) const {
  AttentionProblem result = common;
  result.B = 1;
  result.firstBatch = n;
  result.Sq = cuQ[n + 1] - cuQ[n];
  result.Skv = cuKv[n + 1] - cuKv[n];
  return result;
}

AttentionInputs PackedProblem::inputsOf(int64_t n, const AttentionInputs &packed) const {
  const AttentionProblem &c = common;
  AttentionInputs part;
  part.q = cutRows(packed.q, c.Hq, totalQ(), c.D, cuQ[n], cuQ[n + 1]);
  part.k = cutRows(packed.k, c.Hkv, totalKv(), c.D, cuKv[n], cuKv[n + 1]);
  part.v = cutRows(packed.v, c.Hkv, totalKv(), c.DV, cuKv[n], cuKv[n + 1]);
  part.dO = cutRows(packed.dO, c.Hq, totalQ(), c.DV, cuQ[n], cuQ[n + 1]);
  part.dLse = cutRows(packed.dLse, c.Hq, totalQ(), 1, cuQ[n], cuQ[n + 1]);
  return part;
}

ForwardResult forward(const PackedProblem &problem, const AttentionInputs &inputs,
                      const Precision &precision, const RoundoffModel &roundoff) {
  const AttentionProblem &c = problem.common;
  AttentionProblem packed = problem.packed();
  ForwardResult result;
  result.o.resize(packed.sizeO());
  result.lse.assign(packed.sizeLse(), -infinity);
  for (int64_t n = 0; n < problem.numSequences(); ++n) {
    ForwardResult part =
        forward(problem.sequence(n), problem.inputsOf(n, inputs), precision, roundoff);
    int64_t begin = problem.cuQ[n], end = problem.cuQ[n + 1];
    pasteRows(part.o, result.o, c.Hq, packed.Sq, c.DV, begin, end);
    pasteRows(part.lse, result.lse, c.Hq, packed.Sq, 1, begin, end);
    pasteRows(part.roundoffO, result.roundoffO, c.Hq, packed.Sq, c.DV, begin, end);
  }
  return result;
}

BackwardResult backward(const PackedProblem &problem, const AttentionInputs &inputs,
                        const Precision &precision, const RoundoffModel &roundoff) {
  const AttentionProblem &c = problem.common;
  AttentionProblem packed = problem.packed();
  BackwardResult result;
  result.dQ.resize(packed.sizeQ());
  result.dK.resize(packed.sizeK());
  result.dV.resize(packed.sizeV());
  result.delta.resize(packed.sizeLse());
  for (int64_t n = 0; n < problem.numSequences(); ++n) {
    BackwardResult part =
        backward(problem.sequence(n), problem.inputsOf(n, inputs), precision, roundoff);
    int64_t begin = problem.cuQ[n], end = problem.cuQ[n + 1];
    int64_t beginKv = problem.cuKv[n], endKv = problem.cuKv[n + 1];
    pasteRows(part.dQ, result.dQ, c.Hq, packed.Sq, c.D, begin, end);
    pasteRows(part.delta, result.delta, c.Hq, packed.Sq, 1, begin, end);
    pasteRows(part.dK, result.dK, c.Hkv, packed.Skv, c.D, beginKv, endKv);
    pasteRows(part.dV, result.dV, c.Hkv, packed.Skv, c.DV, beginKv, endKv);
    pasteRows(part.roundoffDQ, result.roundoffDQ, c.Hq, packed.Sq, c.D, begin, end);
    pasteRows(part.roundoffDK, result.roundoffDK, c.Hkv, packed.Skv, c.D, beginKv, endKv);
    pasteRows(part.roundoffDV, result.roundoffDV, c.Hkv, packed.Skv, c.DV, beginKv, endKv);
  }
  return result;
}

ForwardResult forward(const AttentionProblem &problem, const std::vector<double> &q,
                      const PagedKeys &keys, const Precision &precision,
                      const RoundoffModel &roundoff) {
  ForwardResult result;
  for (int64_t b = 0; b < problem.B; ++b) {
    AttentionProblem one = problem;
    one.B = 1;
    one.firstBatch = problem.firstBatch + b;
    one.Skv = keys.lengths[b];
    AttentionInputs inputs;
    inputs.q.assign(q.begin() + b * one.sizeQ(), q.begin() + (b + 1) * one.sizeQ());
    for (int64_t h = 0; h < one.Hkv; ++h)
      for (int64_t j = 0; j < one.Skv; ++j) {
        int64_t page = keys.table[b * keys.maxPages + j / keys.pageSize];
        int64_t row = (page * one.Hkv + h) * keys.pageSize + j % keys.pageSize;
        auto add = [&](std::vector<double> &to, const std::vector<double> &pages,
                       const std::vector<double> &factors, int64_t columns) {
          double factor = factors.empty() ? 1 : factors[b * one.Hkv + h];
          for (int64_t d = 0; d < columns; ++d)
            to.push_back(pages[row * columns + d] * factor);
        };
        add(inputs.k, keys.pagesK, keys.factorsK, one.D);
        add(inputs.v, keys.pagesV, keys.factorsV, one.DV);
      }
    ForwardResult part = forward(one, inputs, precision, roundoff);
    result.o.insert(result.o.end(), part.o.begin(), part.o.end());
    result.lse.insert(result.lse.end(), part.lse.begin(), part.lse.end());
    result.roundoffO.insert(result.roundoffO.end(), part.roundoffO.begin(), part.roundoffO.end());
  }
  return result;
}

PagedKeys randomPages(const AttentionProblem &problem, const std::vector<int64_t> &lengths,
                      int64_t pageSize, Type type, uint64_t seed, double filler) {
  PagedKeys keys;
  keys.pageSize = pageSize;
  keys.lengths = lengths;
  int64_t used = 0;
  for (int64_t length : lengths) {
    int64_t pages = (length + pageSize - 1) / pageSize;
    used += pages;
    keys.maxPages = std::max(keys.maxPages, pages);
  }
  keys.numPages = used + 2;
  int64_t rows = keys.numPages * problem.Hkv * pageSize;
  keys.pagesK = normals(rows * problem.D, 2 * seed, type);
  keys.pagesV = normals(rows * problem.DV, 2 * seed + 1, type);

  std::vector<int64_t> order(keys.numPages);
  for (int64_t i = 0; i < keys.numPages; ++i)
    order[i] = i;
  Generator generator(seed);
  for (int64_t i = keys.numPages - 1; i > 0; --i)
    std::swap(order[i], order[generator.integer(0, i + 1)]);

  // Entries after a batch's length name a page that no batch uses.
  keys.table.assign(lengths.size() * keys.maxPages, order[used]);
  auto fillFrom = [&](int64_t page, int64_t firstRow) {
    for (int64_t h = 0; h < problem.Hkv; ++h) {
      int64_t row = (page * problem.Hkv + h) * pageSize;
      std::fill(keys.pagesK.begin() + (row + firstRow) * problem.D,
                keys.pagesK.begin() + (row + pageSize) * problem.D, filler);
      std::fill(keys.pagesV.begin() + (row + firstRow) * problem.DV,
                keys.pagesV.begin() + (row + pageSize) * problem.DV, filler);
    }
  };
  fillFrom(order[used], 0);
  fillFrom(order[used + 1], 0);
  int64_t next = 0;
  for (size_t b = 0; b < lengths.size(); ++b)
    for (int64_t j = 0; j < lengths[b]; j += pageSize) {
      keys.table[b * keys.maxPages + j / pageSize] = order[next];
      if (lengths[b] - j < pageSize)
        fillFrom(order[next], lengths[b] - j);
      ++next;
    }
  return keys;
}

std::vector<ForwardResult> forwardParts(const AttentionProblem &problem,
                                        const AttentionInputs &inputs,
                                        const std::vector<int64_t> &boundaries) {
  std::vector<ForwardResult> parts;
  for (size_t n = 0; n + 1 < boundaries.size(); ++n) {
    AttentionProblem part = problem;
    part.firstKey = boundaries[n];
    part.endKey = boundaries[n + 1];
    parts.push_back(forward(part, inputs));
  }
  return parts;
}

ForwardResult combine(const std::vector<ForwardResult> &parts, int64_t rows, int64_t columns) {
  ForwardResult result;
  result.o.assign(rows * columns, 0.0);
  result.lse.assign(rows, -infinity);
  for (int64_t r = 0; r < rows; ++r) {
    double max = -infinity, sum = 0.0;
    bool any = false;
    for (const ForwardResult &part : parts) {
      any = any || part.lse[r] != -infinity; // a NaN counts
      max = std::max(max, part.lse[r]);
    }
    if (!any)
      continue;
    for (const ForwardResult &part : parts)
      sum += std::exp(part.lse[r] - max);
    result.lse[r] = max + std::log(sum);
    for (const ForwardResult &part : parts)
      for (int64_t d = 0; d < columns; ++d)
        result.o[r * columns + d] +=
            std::exp(part.lse[r] - result.lse[r]) * part.o[r * columns + d];
  }
  return result;
}

ForwardResult forwardFp8(const AttentionProblem &problem, const AttentionInputs &inputs,
                         const Descales &descales, const Precision &precision,
                         const RoundoffModel &roundoff) {
  AttentionProblem scaled = problem;
  scaled.scale *= descales.q * descales.k;
  Precision unrounded = precision;
  unrounded.output = Type::F64; // only after the last factor
  ForwardResult result = forward(scaled, inputs, unrounded, roundoff);
  for (double &value : result.o)
    value = roundTo(precision.output, value * descales.v);
  for (double &value : result.roundoffO)
    value *= std::fabs(descales.v);
  return result;
}

Precision lowpFp8(Type output) {
  Precision precision;
  precision.compute = Type::F32;
  precision.score = Type::F32;
  precision.probability = Type::E4M3;
  precision.output = output;
  precision.roundBeforeNormalizing = true;
  return precision;
}

} // namespace tilewright::reference
