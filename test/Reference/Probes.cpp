// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mask probes.

#include "test/Reference/Probes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace tilewright::reference {

namespace {

bool isUniform(const AttentionProblem &problem) {
  return !problem.score && !problem.bias && !problem.dropout.isActive();
}

int64_t countKept(const AttentionProblem &problem, int64_t b, int64_t h, int64_t i) {
  int64_t count = 0;
  for (int64_t j = 0; j < problem.Skv; ++j)
    count += problem.keeps(b, h, i, j);
  return count;
}

bool isVisible(const AttentionProblem &problem, int64_t b, int64_t h, int64_t i, int64_t j) {
  return problem.keeps(b, h, i, j) &&
         (!problem.dropout.isActive() || problem.dropout.keeps(problem.firstBatch + b, h, i, j));
}

/// Collects wrong pairs; the message names the first, preferring a pair whose attendance is wrong
/// over one whose weight differs because of others in its row.
class Verdict {
public:
  explicit Verdict(const char *name) : name(name) {}

  void wrong(int64_t b, int64_t h, int64_t i, int64_t j, const std::string &what,
             bool isCertain = true) {
    ++numWrong;
    if (!report.ok && (namesCertain || !isCertain))
      return;
    namesCertain = isCertain;
    report.ok = false;
    report.row = i;
    report.column = j;
    std::ostringstream os;
    os << name << ": batch " << b << ", head " << h << ", row " << i;
    if (j >= 0)
      os << ", key " << j;
    os << ": " << what;
    report.message = os.str();
  }

  /// One element that is `weight` if the pair is visible, else 0. A negative weight is unknown.
  void pair(int64_t b, int64_t h, int64_t i, int64_t j, bool visible, double got, double weight,
            double tolerance) {
    bool isNaN = std::isnan(got), isCertain = true;
    bool isOtherWeight = visible && weight >= 0.0 && std::fabs(got - weight) > tolerance * weight;
    if (!isNaN && visible == (got != 0.0) && !isOtherWeight)
      return;
    std::ostringstream os;
    if (isNaN)
      os << "the output is NaN";
    else if (!visible && got != 0.0)
      os << "attended, but the mask forbids it (" << got << ")";
    else if (visible && got == 0.0)
      os << "not attended, but the mask keeps it";
    else {
      os << "the weight should be " << weight << ", but got " << got;
      isCertain = false;
    }
    wrong(b, h, i, j, os.str(), isCertain);
  }

  AccuracyReport finish() {
    if (report.ok)
      report.message = std::string(name) + ": every pair is as the mask says";
    else
      report.message += "; " + std::to_string(numWrong) + " wrong in all";
    report.worstRatio = report.ok ? 0.0 : std::numeric_limits<double>::infinity();
    return report;
  }

private:
  const char *name;
  AccuracyReport report;
  int64_t numWrong = 0;
  bool namesCertain = false;
};

AccuracyReport wrongSize(const char *name, size_t expected, size_t got) {
  AccuracyReport report;
  report.ok = false;
  report.message = std::string(name) + ": expected " + std::to_string(expected) +
                   " elements, but got " + std::to_string(got);
  return report;
}

/// Q = 0; K is random, since it must not matter.
AttentionInputs zeroQueries(const AttentionProblem &problem, uint64_t seed) {
  AttentionInputs inputs;
  inputs.q.assign(problem.sizeQ(), 0.0);
  inputs.k = normals(problem.sizeK(), seed, Type::E4M3); // representable in every type
  inputs.v.assign(problem.sizeV(), 0.0);
  inputs.dO.assign(problem.sizeO(), 0.0);
  return inputs;
}

/// The rounding errors of 1 / n: of P, of the division, of the result.
double weightTolerance(Type type) { return 4.0 * std::max(unitRoundoff(type), 0x1p-22); }

} // namespace

std::vector<MaskProbe> oneHotProbes(const AttentionProblem &problem) {
  std::vector<MaskProbe> probes;
  for (int64_t first = 0; first < problem.Skv; first += problem.DV) {
    MaskProbe probe;
    probe.inputs = zeroQueries(problem, 1);
    probe.first = first;
    int64_t count = std::min(problem.DV, problem.Skv - first);
    for (int64_t head = 0; head < problem.B * problem.Hkv; ++head)
      for (int64_t d = 0; d < count; ++d)
        probe.inputs.v[(head * problem.Skv + first + d) * problem.DV + d] = 1.0;
    probes.push_back(std::move(probe));
  }
  return probes;
}

AccuracyReport checkOneHotProbe(const AttentionProblem &problem, const MaskProbe &probe, Type type,
                                const std::vector<double> &o) {
  if (static_cast<int64_t>(o.size()) != problem.sizeO())
    return wrongSize("one-hot probe", problem.sizeO(), o.size());
  Verdict verdict("one-hot probe");
  bool uniform = isUniform(problem);
  for (int64_t b = 0; b < problem.B; ++b)
    for (int64_t h = 0; h < problem.Hq; ++h)
      for (int64_t i = 0; i < problem.Sq; ++i) {
        int64_t n = countKept(problem, b, h, i);
        const double *row = o.data() + ((b * problem.Hq + h) * problem.Sq + i) * problem.DV;
        for (int64_t d = 0; d < problem.DV; ++d) {
          int64_t j = probe.first + d;
          bool visible = j < problem.Skv && isVisible(problem, b, h, i, j);
          double weight = uniform && n ? 1.0 / static_cast<double>(n) : -1.0;
          verdict.pair(b, h, i, j, visible, row[d], weight, weightTolerance(type));
        }
      }
  return verdict.finish();
}

MaskProbe integerProbe(const AttentionProblem &problem, uint64_t seed) {
  MaskProbe probe;
  probe.inputs = zeroQueries(problem, seed);
  Generator generator(seed);
  for (double &value : probe.inputs.v)
    value = generator.bits() >> 63 ? 1.0 : -1.0;
  return probe;
}

AccuracyReport checkIntegerProbe(const AttentionProblem &problem, const MaskProbe &probe, Type type,
                                 const std::vector<double> &o) {
  if (static_cast<int64_t>(o.size()) != problem.sizeO())
    return wrongSize("integer probe", problem.sizeO(), o.size());
  Verdict verdict("integer probe");
  if (!isUniform(problem))
    return verdict.finish();
  double u = std::max(unitRoundoff(type), 0x1p-22);
  for (int64_t b = 0; b < problem.B; ++b)
    for (int64_t h = 0; h < problem.Hq; ++h)
      for (int64_t i = 0; i < problem.Sq; ++i) {
        int64_t n = 0, kvHead = h / problem.groupSize();
        std::vector<double> sums(problem.DV, 0.0);
        for (int64_t j = 0; j < problem.Skv; ++j) {
          if (!problem.keeps(b, h, i, j))
            continue;
          ++n;
          const double *v =
              probe.inputs.v.data() + ((b * problem.Hkv + kvHead) * problem.Skv + j) * problem.DV;
          for (int64_t d = 0; d < problem.DV; ++d)
            sums[d] += v[d];
        }
        const double *row = o.data() + ((b * problem.Hq + h) * problem.Sq + i) * problem.DV;
        for (int64_t d = 0; d < problem.DV; ++d) {
          // A row without keys must be 0.
          double got = row[d] * static_cast<double>(std::max<int64_t>(n, 1));
          if (std::fabs(got - sums[d]) <= 0.25 + 2.0 * u * std::fabs(sums[d]) && (n || got == 0))
            continue;
          std::ostringstream os;
          os << "the " << n << " keys of the mask add up to " << sums[d] << " in column " << d
             << ", but got " << got;
          verdict.wrong(b, h, i, -1, os.str());
          break;
        }
      }
  return verdict.finish();
}

AccuracyReport checkProbeLse(const AttentionProblem &problem, const std::vector<double> &lse) {
  std::vector<double> expected;
  for (int64_t b = 0; b < problem.B; ++b)
    for (int64_t h = 0; h < problem.Hq; ++h)
      for (int64_t i = 0; i < problem.Sq; ++i)
        expected.push_back(std::log(static_cast<double>(countKept(problem, b, h, i))));
  return checkStatistic("lse of a mask probe", problem.B * problem.Hq, problem.Sq, lse, expected);
}

std::vector<MaskProbe> backwardProbes(const AttentionProblem &problem) {
  std::vector<MaskProbe> probes;
  int64_t groupRows = problem.groupSize() * problem.Sq;
  for (int64_t first = 0; first < groupRows; first += problem.DV) {
    MaskProbe probe;
    probe.inputs = zeroQueries(problem, 2);
    probe.inputs.v = normals(problem.sizeV(), 3, Type::E4M3);
    probe.first = first;
    int64_t count = std::min(problem.DV, groupRows - first);
    // The rows of a group are consecutive rows of [B, Hq, Sq].
    for (int64_t head = 0; head < problem.B * problem.Hkv; ++head)
      for (int64_t d = 0; d < count; ++d)
        probe.inputs.dO[(head * groupRows + first + d) * problem.DV + d] = 1.0;
    probe.saved = forward(problem, probe.inputs);
    probes.push_back(std::move(probe));
  }
  return probes;
}

AccuracyReport checkBackwardProbe(const AttentionProblem &problem, const MaskProbe &probe,
                                  Type type, const std::vector<double> &dV) {
  if (static_cast<int64_t>(dV.size()) != problem.sizeV())
    return wrongSize("backward probe", problem.sizeV(), dV.size());
  Verdict verdict("backward probe");
  bool uniform = isUniform(problem);
  int64_t groupRows = problem.groupSize() * problem.Sq;
  for (int64_t b = 0; b < problem.B; ++b)
    for (int64_t kvHead = 0; kvHead < problem.Hkv; ++kvHead)
      for (int64_t d = 0; d < problem.DV; ++d) {
        int64_t row = probe.first + d;
        bool exists = row < groupRows;
        int64_t h = kvHead * problem.groupSize() + (exists ? row / problem.Sq : 0);
        int64_t i = exists ? row % problem.Sq : 0;
        int64_t n = exists ? countKept(problem, b, h, i) : 0;
        double weight = uniform && n ? 1.0 / static_cast<double>(n) : -1.0;
        for (int64_t j = 0; j < problem.Skv; ++j) {
          double got = dV[((b * problem.Hkv + kvHead) * problem.Skv + j) * problem.DV + d];
          bool visible = exists && isVisible(problem, b, h, i, j);
          // P comes from exp(0 - lse): the rounding of lse counts too.
          double tolerance = 2.0 * weightTolerance(type);
          verdict.pair(b, h, i, j, visible, got, weight, tolerance);
        }
      }
  return verdict.finish();
}

} // namespace tilewright::reference
