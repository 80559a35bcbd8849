// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attention problem, its inputs, and the forward.

#include "test/Reference/Attention.h"
#include "test/Reference/AttentionRows.h"

namespace tilewright::reference {

bool AttentionProblem::keeps(int64_t b, int64_t h, int64_t i, int64_t j) const {
  if (j < firstKey || (endKey >= 0 && j >= endKey))
    return false;
  int64_t diagonal = i + shift();
  if (causal != Causal::None && j > diagonal)
    return false;
  if (window.left >= 0 && j < diagonal - window.left)
    return false;
  if (window.right >= 0 && j > diagonal + window.right)
    return false;
  return !mask || mask(firstBatch + b, h, i, j);
}

AttentionInputs randomInputs(const AttentionProblem &problem, Type type, uint64_t seed) {
  AttentionInputs inputs;
  inputs.q = normals(problem.sizeQ(), 5 * seed, type);
  inputs.k = normals(problem.sizeK(), 5 * seed + 1, type);
  inputs.v = normals(problem.sizeV(), 5 * seed + 2, type);
  inputs.dO = normals(problem.sizeO(), 5 * seed + 3, type);
  inputs.dLse = normals(problem.sizeLse(), 5 * seed + 4, Type::F32);
  return inputs;
}

Precision Precision::lowp(Type type) {
  Precision precision;
  precision.compute = type == Type::F64 ? Type::F64 : Type::F32;
  precision.order = type == Type::F64 ? SumOrder::Descending : SumOrder::Ascending;
  precision.score = precision.probability = precision.output = type;
  return precision;
}

namespace {

/// Calls body(b, kv head, keys, h, first row) for every block of rows, in parallel.
template <typename Real, typename Body>
void forEachRowBlock(const AttentionProblem &problem, const AttentionInputs &inputs,
                     bool withRoundoff, Body &&body) {
  int64_t numBlocks = (problem.Sq + rowsPerBlock - 1) / rowsPerBlock;
  for (int64_t b = 0; b < problem.B; ++b)
    for (int64_t kvHead = 0; kvHead < problem.Hkv; ++kvHead) {
      KeyHead<Real> keys(problem, inputs, b, kvHead, withRoundoff);
      parallelFor(problem.groupSize() * numBlocks, [&](int64_t task) {
        int64_t h = kvHead * problem.groupSize() + task / numBlocks;
        body(keys, b, h, task % numBlocks * rowsPerBlock);
      });
    }
}

template <typename Real>
void roundoffOfRows(const RowBlock<Real> &block, const std::vector<Real> &o,
                    const RoundoffModel &model, std::vector<double> &result) {
  const int64_t dv = block.problem.DV, n = block.n, rows = block.rows;
  std::vector<double> weights(rows * n, 0.0), errors(rows * dv, 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    if (model.rows == RoundoffModel::SingleKey && block.numKept(r) != 1)
      continue;
    double normQ = block.normOfQ(r), count = static_cast<double>(block.numKept(r));
    for (int64_t c = 0; c < n; ++c)
      if (block.kept[r * n + c])
        weights[r * n + c] = squareOf(block.z[r * n + c]) *
                             (squareOf(block.relativeErrorOfP(r, c, normQ)) + 0.09 * count +
                              squareOf(model.narrowing(model.probability)));
  }
  addSquares(errors, 0, {weights.data(), n}, block.keys.squaresV.data() + block.firstKey() * dv,
             rows, dv, n, model);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t count = block.numKept(r);
    if (model.rows == RoundoffModel::SingleKey && count != 1)
      continue;
    for (int64_t d = 0; d < dv; ++d)
      result[block.row(r) * dv + d] =
          sumError(count, errors[r * dv + d], 0.0, o[r * dv + d], model);
  }
}

template <typename Real>
ForwardResult forwardIn(const AttentionProblem &problem, const AttentionInputs &inputs,
                        const Precision &precision, const RoundoffModel &roundoff) {
  ForwardResult result;
  result.o.resize(problem.sizeO());
  result.lse.resize(problem.sizeLse());
  if (roundoff)
    result.roundoffO.resize(problem.sizeO());
  bool skipZeros = hasNonFinite(inputs);
  forEachRowBlock<Real>(
      problem, inputs, static_cast<bool>(roundoff),
      [&](const KeyHead<Real> &keys, int64_t b, int64_t h, int64_t begin) {
        RowBlock<Real> block(problem, inputs, precision, keys, b, h, begin,
                             ProbabilitySource::Softmax);
        std::vector<Real> o = outputOf(block, skipZeros);
        std::copy(o.begin(), o.end(), result.o.begin() + block.row(0) * problem.DV);
        std::copy(block.lse.begin(), block.lse.end(), result.lse.begin() + block.row(0));
        if (roundoff)
          roundoffOfRows(block, o, roundoff, result.roundoffO);
      });
  return result;
}

template <typename Real>
std::vector<double> probabilitiesIn(const AttentionProblem &problem, const AttentionInputs &inputs,
                                    const Precision &precision) {
  std::vector<double> result(problem.sizeLse() * problem.Skv);
  forEachRowBlock<Real>(
      problem, inputs, false, [&](const KeyHead<Real> &keys, int64_t b, int64_t h, int64_t begin) {
        RowBlock<Real> block(problem, inputs, precision, keys, b, h, begin,
                             ProbabilitySource::Softmax);
        for (int64_t r = 0; r < block.rows; ++r)
          std::copy_n(block.p.begin() + r * block.n, block.n,
                      result.begin() + block.row(r) * problem.Skv + block.firstKey());
      });
  return result;
}

} // namespace

ForwardResult forward(const AttentionProblem &problem, const AttentionInputs &inputs,
                      const Precision &precision, const RoundoffModel &roundoff) {
  return precision.compute == Type::F64 ? forwardIn<double>(problem, inputs, precision, roundoff)
                                        : forwardIn<float>(problem, inputs, precision, roundoff);
}

std::vector<double> probabilities(const AttentionProblem &problem, const AttentionInputs &inputs,
                                  const Precision &precision) {
  return precision.compute == Type::F64 ? probabilitiesIn<double>(problem, inputs, precision)
                                        : probabilitiesIn<float>(problem, inputs, precision);
}

} // namespace tilewright::reference
