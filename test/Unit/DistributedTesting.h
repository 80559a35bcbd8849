// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks as threads of a test, arrays of a whole and of a rank, and attention by its formula.

#ifndef TILEWRIGHT_TEST_UNIT_DISTRIBUTEDTESTING_H
#define TILEWRIGHT_TEST_UNIT_DISTRIBUTEDTESTING_H

#include "runtime/Distributed/HostProcessor.h"
#include "runtime/Distributed/LocalGroup.h"
#include "runtime/Distributed/Shares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>
#include <unistd.h>

namespace tilewright::runtime::testing {

/// A file beside this program, or in one of the folders where it is in a build or a package.
inline std::string besideProgram(const std::vector<std::string> &places) {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  std::string folder(path, length > 0 ? size_t(length) : 0);
  folder.resize(folder.rfind('/') + 1);
  for (const std::string &place : places)
    if (access((folder + place).c_str(), R_OK) == 0)
      return folder + place;
  return places.front();
}

inline std::unique_ptr<Processor> hostProcessor(std::vector<std::string> with = {}) {
  HostProcessorDesc desc;
  if (!std::getenv("TILEWRIGHT_RUN"))
    desc.program = besideProgram({"../tilewright-run", "../bin/tilewright-run"});
  desc.with = std::move(with);
  return std::move(*makeHostProcessor(desc));
}

/// Runs `rank` on a thread for each communicator, and returns what each returned. A thread that
/// ends destroys its communicator.
inline std::vector<Status> runRanks(std::vector<std::unique_ptr<Communicator>> group,
                                    const std::function<Status(Communicator &)> &rank) {
  std::vector<Status> statuses(group.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < group.size(); ++i)
    threads.emplace_back(
        [&, i, communicator = std::move(group[i])] { statuses[i] = rank(*communicator); });
  for (std::thread &thread : threads)
    thread.join();
  return statuses;
}
inline std::vector<Status> runRanks(int size, const std::function<Status(Communicator &)> &rank,
                                    std::chrono::milliseconds timeout = std::chrono::minutes(5)) {
  return runRanks(makeLocalGroup(size, timeout), rank);
}

/// Sums, minima and maxima over three ranks.
inline Status reduceOfThree(Communicator &own) {
  auto reduce = [&](auto value, ElementType type, Reduction reduction) {
    Status status = own.reduce(reinterpret_cast<uint64_t>(&value), 1, type, reduction, nullptr);
    return status ? value : decltype(value)(-100);
  };
  const int n = own.rank() + 1;
  bool isRight = reduce(int64_t(n), ElementType::I64, Reduction::Sum) == 6 &&
                 reduce(int32_t(n), ElementType::I32, Reduction::Min) == 1 &&
                 reduce(float(n), ElementType::F32, Reduction::Max) == 3 &&
                 reduce(double(n) / 2, ElementType::F64, Reduction::Sum) == 3;
  return isRight ? Status::success() : Status::failure("wrong sums");
}

/// A row-major array of host memory.
struct HostArray {
  HostArray() = default;
  HostArray(ElementType type, std::vector<int64_t> extents)
      : type(type), extents(std::move(extents)) {
    int64_t count = 1;
    for (int64_t extent : this->extents)
      count *= extent;
    bytes.assign(size_t(count) * byteWidth(type), 0xff); // NaN
  }
  int64_t size() const { return int64_t(bytes.size() / byteWidth(type)); }
  double get(int64_t i) const {
    const unsigned char *at = &bytes[size_t(i) * byteWidth(type)];
    uint16_t half;
    float single;
    std::memcpy(&half, at, 2);
    if (type == ElementType::F16)
      return numeric::f16ToFloat(half);
    if (type == ElementType::BF16) {
      uint32_t bits = uint32_t(half) << 16;
      std::memcpy(&single, &bits, 4);
      return single;
    }
    std::memcpy(&single, at, 4);
    return single;
  }
  void set(int64_t i, float value) {
    unsigned char *at = &bytes[size_t(i) * byteWidth(type)];
    uint16_t half = numeric::floatToF16(value);
    if (type == ElementType::BF16) { // values of tests have few bits
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      half = uint16_t(bits >> 16);
    }
    if (byteWidth(type) == 2)
      std::memcpy(at, &half, 2);
    else
      std::memcpy(at, &value, 4);
  }
  /// Random multiples of 1/16 from -2 to 2, which all types have.
  void fill(unsigned seed) {
    std::mt19937 generator(seed);
    for (int64_t i = 0; i < size(); ++i)
      set(i, float(int(generator() % 65) - 32) / 16);
  }
  Argument view() {
    Argument argument;
    argument.kind = Argument::Kind::View;
    argument.type = type;
    argument.rank = uint8_t(extents.size());
    argument.bits = reinterpret_cast<uint64_t>(bytes.data());
    int64_t stride = 1;
    for (size_t i = extents.size(); i-- > 0; stride *= extents[i]) {
      argument.extents[i] = extents[i];
      argument.strides[i] = stride;
    }
    return argument;
  }

  ElementType type = ElementType::F32;
  std::vector<int64_t> extents;
  std::vector<unsigned char> bytes;
};

/// The rows of the spans of an array [B, H, rows, ...].
inline HostArray rowsOfArray(const HostArray &whole, const Spans &spans) {
  HostArray part(whole.type, whole.extents);
  part.extents[2] = rowsOf(spans);
  part.bytes.clear();
  size_t row = byteWidth(whole.type);
  for (size_t i = 3; i < whole.extents.size(); ++i)
    row *= size_t(whole.extents[i]);
  for (int64_t bh = 0; bh < whole.extents[0] * whole.extents[1]; ++bh)
    for (const Span &span : spans) {
      auto begin = whole.bytes.begin() + long(size_t(bh * whole.extents[2] + span.begin) * row);
      part.bytes.insert(part.bytes.end(), begin, begin + long(size_t(span.size()) * row));
    }
  return part;
}

/// O and LSE of the whole by the formula, in f64.
struct Expected {
  std::vector<double> o, lse;
};
using Score = std::function<double(double s, int64_t h, int64_t i, int64_t j)>;
using Keep = std::function<bool(int64_t b, int64_t i, int64_t j)>;

inline Expected attend(const HostArray &q, const HostArray &k, const HostArray &v, double scale,
                       const Keep &keep, const Score &score = {}, double sink = -INFINITY) {
  const int64_t B = q.extents[0], H = q.extents[1], Sq = q.extents[2], D = q.extents[3];
  const int64_t Hkv = k.extents[1], Skv = k.extents[2], DV = v.extents[3];
  Expected expected;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t i = 0; i < Sq; ++i) {
        const int64_t hk = h / (H / Hkv);
        std::vector<double> p;
        double max = sink, sum = 0;
        for (int64_t j = 0; j < Skv; ++j) {
          double s = 0;
          for (int64_t d = 0; d < D; ++d)
            s += q.get(((b * H + h) * Sq + i) * D + d) * k.get(((b * Hkv + hk) * Skv + j) * D + d);
          s *= scale;
          p.push_back(!keep(b, i, j) ? -INFINITY : score ? score(s, h, i, j) : s);
          max = std::max(max, p.back());
        }
        if (sink > -INFINITY)
          sum = std::exp(sink - max);
        for (double &each : p)
          sum += each = each > -INFINITY ? std::exp(each - max) : 0;
        for (int64_t d = 0; d < DV; ++d) {
          double o = 0;
          for (int64_t j = 0; j < Skv; ++j)
            o += p[size_t(j)] * v.get(((b * Hkv + hk) * Skv + j) * DV + d);
          expected.o.push_back(sum > 0 ? o / sum : 0);
        }
        expected.lse.push_back(sum > 0 ? max + std::log(sum) : -INFINITY);
      }
  return expected;
}

/// The greatest difference; infinite if one is NaN where the other is not.
inline double difference(const HostArray &got, const std::vector<double> &expected) {
  if (got.size() != int64_t(expected.size()))
    return INFINITY;
  double greatest = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    double value = got.get(i), wanted = expected[size_t(i)];
    double each = value == wanted ? 0 : std::abs(value - wanted);
    greatest = std::isnan(each) ? INFINITY : std::max(greatest, each);
  }
  return greatest;
}

/// Writes the rows of a rank to the whole [B, H, rows, ...].
inline void putRows(HostArray &whole, const HostArray &part, const Spans &spans) {
  size_t row = byteWidth(whole.type), at = 0;
  for (size_t i = 3; i < whole.extents.size(); ++i)
    row *= size_t(whole.extents[i]);
  for (int64_t bh = 0; bh < whole.extents[0] * whole.extents[1]; ++bh)
    for (const Span &span : spans) {
      size_t bytes = size_t(span.size()) * row;
      if (bytes)
        std::memcpy(&whole.bytes[size_t(bh * whole.extents[2] + span.begin) * row], &part.bytes[at],
                    bytes);
      at += bytes;
    }
}

} // namespace tilewright::runtime::testing

#endif // TILEWRIGHT_TEST_UNIT_DISTRIBUTEDTESTING_H
