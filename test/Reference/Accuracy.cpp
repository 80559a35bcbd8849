// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The accuracy rule.

#include "test/Reference/Accuracy.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace tilewright::reference {

namespace {

std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

std::string format(const char *pattern, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(buffer, sizeof(buffer), pattern, arguments);
  va_end(arguments);
  return buffer;
}

enum class ElementVerdict { Compare, Right, Wrong };

/// NaN, infinities and overflow of the type; Compare if the error must be measured.
ElementVerdict judgeSpecial(Type type, double out, double ref) {
  if (std::isnan(ref) || std::isnan(out))
    return std::isnan(ref) == std::isnan(out) ? ElementVerdict::Right : ElementVerdict::Wrong;
  double rounded = roundTo(type, ref);
  if (std::isfinite(ref) && !std::isfinite(rounded)) {
    // Overflow: infinity, or a value just below.
    bool near = std::fabs(out) >= largestFinite(type) * (1.0 - 4.0 * unitRoundoff(type));
    return near && std::signbit(out) == std::signbit(ref) ? ElementVerdict::Right
                                                          : ElementVerdict::Wrong;
  }
  if (!std::isfinite(ref) || !std::isfinite(out))
    return ref == out ? ElementVerdict::Right : ElementVerdict::Wrong;
  return ElementVerdict::Compare;
}

/// A report of a value that is wrong for any tolerance.
AccuracyReport wrongValue(const std::string &name, int64_t head, int64_t row, int64_t column,
                          double out, double ref) {
  AccuracyReport report;
  report.ok = false;
  report.worstRatio = INFINITY;
  report.head = head;
  report.row = row;
  report.column = column;
  report.got = out;
  report.expected = ref;
  report.message = format("%s: head %lld, row %lld, column %lld: expected %.9g but got %.9g",
                          name.c_str(), static_cast<long long>(head), static_cast<long long>(row),
                          static_cast<long long>(column), ref, out);
  return report;
}

AccuracyReport wrongSize(const std::string &name, const char *what, size_t expected, size_t got) {
  AccuracyReport report;
  report.ok = false;
  report.worstRatio = INFINITY;
  report.message =
      format("%s: %s should have %zu elements, but got %zu", name.c_str(), what, expected, got);
  return report;
}

/// The comparison of one tile.
AccuracyReport checkTile(const std::string &name, Type type, TileShape shape, int64_t head,
                         int64_t firstRow, const std::vector<double> &out,
                         const std::vector<double> &ref, const std::vector<double> &lowp,
                         const std::vector<double> &roundoff) {
  AccuracyReport report;
  report.head = head;
  int64_t rows = std::min(tileRows, shape.rows - firstRow);
  double maxLowp = 0, sumLowp = 0, sumError = 0, maxRoundoff = 0, sumRoundoff = 0, slack = 0;
  int64_t count = 0, inexactRows = 0;
  for (int64_t r = 0; r < rows; ++r) {
    bool isExact = true;
    for (int64_t c = 0; c < shape.columns; ++c) {
      size_t at = (head * shape.rows + firstRow + r) * shape.columns + c;
      ElementVerdict verdict = judgeSpecial(type, out[at], ref[at]);
      if (verdict == ElementVerdict::Wrong)
        return wrongValue(name, head, firstRow + r, c, out[at], ref[at]);
      if (verdict == ElementVerdict::Right)
        continue;
      if (!std::isfinite(lowp[at])) {
        AccuracyReport bad = wrongValue(name, head, firstRow + r, c, lowp[at], ref[at]);
        bad.message += " from lowp itself; use smaller inputs";
        return bad;
      }
      double error = std::fabs(out[at] - ref[at]), lowpError = std::fabs(lowp[at] - ref[at]);
      if (report.row < 0 || error > report.maxError) {
        report.maxError = error;
        report.row = firstRow + r;
        report.column = c;
        report.got = out[at];
        report.expected = ref[at];
      }
      maxLowp = std::max(maxLowp, lowpError);
      sumLowp += lowpError;
      sumError += error;
      slack = std::max(slack, 2.0 * perturbation(type, ref[at]));
      isExact &= lowpError == 0;
      if (!roundoff.empty()) {
        maxRoundoff = std::max(maxRoundoff, roundoff[at]);
        sumRoundoff += roundoff[at];
        isExact &= roundoff[at] == 0;
      }
      ++count;
    }
    inexactRows += !isExact;
  }
  if (count == 0)
    return report;
  // Rows without a rounding error (most contain only zeros) are not samples of it.
  int64_t samples = std::clamp<int64_t>(std::min(shape.independentRows, inexactRows), 1, rows);
  double spread = 0.6 * (1.0 + 4.0 / std::sqrt(static_cast<double>(samples)));
  report.maxAllowed = 2.0 * std::max(maxLowp, 2.0 * maxRoundoff) + slack;
  report.meanError = sumError / static_cast<double>(count);
  report.meanAllowed = 1.5 * std::max(sumLowp, spread * sumRoundoff) / static_cast<double>(count);
  auto ratio = [](double error, double allowed) {
    return error == 0 ? 0.0 : allowed == 0 ? INFINITY : error / allowed;
  };
  double ratioMax = ratio(report.maxError, report.maxAllowed);
  double ratioMean = ratio(report.meanError, report.meanAllowed);
  report.worstRatio = std::max(ratioMax, ratioMean);
  report.ok = report.worstRatio <= 1.0;
  bool isMaxRight = report.maxError <= 2.0 * maxLowp + slack;
  double meanLowp = 1.5 * sumLowp / static_cast<double>(count);
  report.numNeedRoundoff = report.ok && !(isMaxRight && report.meanError <= meanLowp);
  report.numNeedRoundoffDespiteSlack =
      report.ok && !(isMaxRight && report.meanError <= meanLowp + slack);
  return report;
}

} // namespace

std::ostream &operator<<(std::ostream &os, const AccuracyReport &report) {
  return os << report.message;
}

AccuracyReport checkAccuracy(const std::string &name, Type type, TileShape shape,
                             const std::vector<double> &out, const std::vector<double> &ref,
                             const std::vector<double> &lowp, const std::vector<double> &roundoff) {
  size_t size = static_cast<size_t>(shape.heads * shape.rows * shape.columns);
  if (out.size() != size)
    return wrongSize(name, "the output", size, out.size());
  if (ref.size() != size || lowp.size() != size)
    return wrongSize(name, "the reference", size, std::min(ref.size(), lowp.size()));
  if (!roundoff.empty() && roundoff.size() != size)
    return wrongSize(name, "the expected roundoff", size, roundoff.size());

  AccuracyReport worst;
  int64_t numTiles = 0, numWrong = 0, numNeed = 0, numNeedDespiteSlack = 0;
  for (int64_t head = 0; head < shape.heads && shape.columns > 0; ++head)
    for (int64_t row = 0; row < shape.rows; row += tileRows) {
      AccuracyReport tile = checkTile(name, type, shape, head, row, out, ref, lowp, roundoff);
      numWrong += !tile.ok;
      numNeed += tile.numNeedRoundoff;
      numNeedDespiteSlack += tile.numNeedRoundoffDespiteSlack;
      if (numTiles++ == 0 || (!tile.ok && worst.ok) || tile.worstRatio > worst.worstRatio)
        worst = tile;
    }
  worst.type = type;
  worst.numTiles = numTiles;
  worst.numNeedRoundoff = numNeed;
  worst.numNeedRoundoffDespiteSlack = numNeedDespiteSlack;
  if (worst.message.empty())
    worst.message = format(
        "%s (%s): max error %.3g (allowed %.3g) at head %lld, row %lld, column %lld: expected "
        "%.9g, got %.9g; mean error %.3g (allowed %.3g)",
        name.c_str(), typeName(type), worst.maxError, worst.maxAllowed,
        static_cast<long long>(worst.head), static_cast<long long>(worst.row),
        static_cast<long long>(worst.column), worst.expected, worst.got, worst.meanError,
        worst.meanAllowed);
  if (numWrong)
    worst.message += format("; %lld of %lld tiles are wrong", static_cast<long long>(numWrong),
                            static_cast<long long>(numTiles));
  return worst;
}

AccuracyReport checkStatistic(const std::string &name, int64_t heads, int64_t rows,
                              const std::vector<double> &out, const std::vector<double> &ref) {
  size_t size = static_cast<size_t>(heads * rows);
  if (out.size() != size)
    return wrongSize(name, "the output", size, out.size());
  if (ref.size() != size)
    return wrongSize(name, "the reference", size, ref.size());
  AccuracyReport report;
  double sum = 0;
  for (size_t at = 0; at < size; ++at) {
    int64_t head = static_cast<int64_t>(at) / rows, row = static_cast<int64_t>(at) % rows;
    ElementVerdict verdict = judgeSpecial(Type::F64, out[at], ref[at]);
    if (verdict == ElementVerdict::Wrong)
      return wrongValue(name, head, row, 0, out[at], ref[at]);
    if (verdict == ElementVerdict::Right)
      continue;
    double error = std::fabs(out[at] - ref[at]), allowed = 1e-4 * (1.0 + std::fabs(ref[at]));
    sum += error;
    if (report.row < 0 || error / allowed > report.worstRatio) {
      report.worstRatio = error / allowed;
      report.maxError = error;
      report.maxAllowed = allowed;
      report.head = head;
      report.row = row;
      report.column = 0;
      report.got = out[at];
      report.expected = ref[at];
    }
  }
  report.ok = report.worstRatio <= 1.0;
  report.meanError = size ? sum / static_cast<double>(size) : 0;
  report.message =
      format("%s: error %.3g (allowed %.3g) at head %lld, row %lld: expected %.9g, "
             "got %.9g",
             name.c_str(), report.maxError, report.maxAllowed, static_cast<long long>(report.head),
             static_cast<long long>(report.row), report.expected, report.got);
  return report;
}

std::vector<double> deltaOf(const AttentionProblem &problem, const std::vector<double> &o,
                            const std::vector<double> &dO, const std::vector<double> &dLse) {
  std::vector<double> delta(problem.sizeLse(), 0.0);
  for (size_t row = 0; row < delta.size(); ++row) {
    for (int64_t d = 0; d < problem.DV; ++d)
      delta[row] += dO[row * problem.DV + d] * o[row * problem.DV + d];
    if (!dLse.empty())
      delta[row] -= dLse[row];
  }
  return delta;
}

RoundoffModel roundoffFor(const AttentionProblem &problem, Type type) {
  bool isWide = type == Type::F64 || type == Type::F32;
  bool isSmall = problem.Sq * problem.Skv <= 256 * 256;
  return {isWide || isSmall ? RoundoffModel::All : RoundoffModel::SingleKey, type, type};
}

ForwardOracle::ForwardOracle(const AttentionProblem &problem, const AttentionInputs &inputs,
                             Type type)
    : ForwardOracle(problem, type,
                    forward(problem, inputs, Precision::reference(), roundoffFor(problem, type)),
                    forward(problem, inputs, Precision::lowp(type))) {}

ForwardOracle::ForwardOracle(const AttentionProblem &problem, Type type, ForwardResult ref,
                             ForwardResult lowp)
    : shapeO{problem.B * problem.Hq, problem.Sq, problem.DV}, type(type), ref(std::move(ref)),
      lowp(std::move(lowp)) {}

AccuracyReport ForwardOracle::checkO(const std::vector<double> &o) const {
  return checkAccuracy("o", type, shapeO, o, ref.o, lowp.o, ref.roundoffO);
}

AccuracyReport ForwardOracle::checkLse(const std::vector<double> &lse) const {
  return checkStatistic("lse", shapeO.heads, shapeO.rows, lse, ref.lse);
}

BackwardOracle::BackwardOracle(const AttentionProblem &problem, const AttentionInputs &inputs,
                               Type type)
    : BackwardOracle(problem, type,
                     backward(problem, inputs, Precision::reference(), roundoffFor(problem, type)),
                     backward(problem, inputs, Precision::lowp(type))) {}

BackwardOracle::BackwardOracle(const AttentionProblem &problem, Type type, BackwardResult ref,
                               BackwardResult lowp)
    : shapeQ{problem.B * problem.Hq, problem.Sq, problem.D},
      shapeK{problem.B * problem.Hkv, problem.Skv, problem.D, problem.groupSize() * problem.Sq},
      shapeV{problem.B * problem.Hkv, problem.Skv, problem.DV, problem.groupSize() * problem.Sq},
      shapeBias{problem.bias.b * problem.bias.h, problem.bias.rows, problem.Skv}, type(type),
      ref(std::move(ref)), lowp(std::move(lowp)) {}

AccuracyReport BackwardOracle::checkDQ(const std::vector<double> &dQ) const {
  return checkAccuracy("dq", type, shapeQ, dQ, ref.dQ, lowp.dQ, ref.roundoffDQ);
}

AccuracyReport BackwardOracle::checkDK(const std::vector<double> &dK) const {
  return checkAccuracy("dk", type, shapeK, dK, ref.dK, lowp.dK, ref.roundoffDK);
}

AccuracyReport BackwardOracle::checkDV(const std::vector<double> &dV) const {
  return checkAccuracy("dv", type, shapeV, dV, ref.dV, lowp.dV, ref.roundoffDV);
}

AccuracyReport BackwardOracle::checkDBias(const std::vector<double> &dBias) const {
  return checkAccuracy("dbias", type, shapeBias, dBias, ref.dBias, lowp.dBias, ref.roundoffDBias);
}

} // namespace tilewright::reference
