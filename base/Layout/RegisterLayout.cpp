// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Register layouts as digits: the families, and the maps in both directions.

#include "base/Layout/RegisterLayout.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace tilewright;
using namespace tilewright::layout;

namespace {

constexpr int kReplica = Digit::kReplica;

/// Drops digits of extent 1 and merges consecutive digits; equal maps become equal lists.
std::vector<Digit> simplified(const std::vector<Digit> &digits) {
  std::vector<Digit> result;
  for (const Digit &digit : digits) {
    if (digit.extent == 1)
      continue;
    if (!result.empty() && result.back().dim == digit.dim &&
        result.back().stride * (digit.isReplica() ? 1 : result.back().extent) == digit.stride)
      result.back().extent *= digit.extent;
    else
      result.push_back(digit);
  }
  return result;
}

int64_t count(const std::vector<Digit> &digits) {
  int64_t product = 1;
  for (const Digit &digit : digits)
    product *= digit.extent;
  return product;
}

Coord part(const std::vector<Digit> &digits, int64_t number) {
  Coord coord = {0, 0};
  for (const Digit &digit : digits) {
    if (!digit.isReplica())
      coord[digit.dim] += number % digit.extent * digit.stride;
    number /= digit.extent;
  }
  assert(number == 0 && "a warp, lane or register out of range");
  return coord;
}

/// The number with all replica digits 0.
int canonicalNumber(const std::vector<Digit> &digits, const Coord &coord) {
  int64_t number = 0, place = 1;
  for (const Digit &digit : digits) {
    if (!digit.isReplica())
      number += coord[digit.dim] / digit.stride % digit.extent * place;
    place *= digit.extent;
  }
  return static_cast<int>(number);
}

/// The contributions of the replica digits to a number; 0 first.
std::vector<int> replicaOffsets(const std::vector<Digit> &digits) {
  std::vector<int> offsets = {0};
  int64_t place = 1;
  for (const Digit &digit : digits) {
    if (digit.isReplica()) {
      size_t known = offsets.size();
      for (int64_t value = 1; value < digit.extent; ++value)
        for (size_t i = 0; i < known; ++i)
          offsets.push_back(offsets[i] + static_cast<int>(value * place));
    }
    place *= digit.extent;
  }
  return offsets;
}

bool isReplica(const std::vector<Digit> &digits, int64_t number) {
  for (const Digit &digit : digits) {
    if (digit.isReplica() && number % digit.extent != 0)
      return true;
    number /= digit.extent;
  }
  return false;
}

/// Whether the digits along a dimension count its elements, each once.
[[maybe_unused]] bool countsDimension(std::vector<Digit> digits, int dim, int64_t extent) {
  digits.erase(std::remove_if(digits.begin(), digits.end(),
                              [&](const Digit &d) { return d.dim != dim || d.extent == 1; }),
               digits.end());
  std::sort(digits.begin(), digits.end(),
            [](const Digit &a, const Digit &b) { return a.stride < b.stride; });
  int64_t product = 1;
  for (const Digit &digit : digits) {
    if (digit.stride != product)
      return false;
    product *= digit.extent;
  }
  return product == extent;
}

std::string number(int64_t value) { return std::to_string(value); }

Status checkMultiple(const char *what, int64_t extent, int64_t of, const char *why) {
  if (extent > 0 && extent % of == 0)
    return Status::success();
  return Status::failure(std::string(what) + " must be a multiple of " + number(of) + " (" + why +
                         "), but got " + number(extent));
}

Status checkWarps(int64_t warpsM, int64_t warpsN = 1) {
  if (warpsM >= 1 && warpsN >= 1 && warpsM <= 32 && warpsN <= 32 && warpsM * warpsN <= 32)
    return Status::success();
  return Status::failure("a block must have 1 to 32 warps, but got " + number(warpsM) + " by " +
                         number(warpsN));
}

/// Of an operand of mma.sync with k elements in a row of a, or a column of b.
Status checkOperand(int64_t k, int bits, int warpsM, int warpsN) {
  if (bits != 8 && bits != 16 && bits != 32)
    return Status::failure("elements of a matrix operand must have 8, 16 or 32 bits, but got " +
                           number(bits));
  if (Status status = checkWarps(warpsM, warpsN); !status)
    return status;
  return checkMultiple("k", k, 8 * (32 / bits), "that of the instruction");
}

/// The lanes of an 8x8 matrix: 4 along `packed`, a 32-bit word of `each` elements apart, 8 across.
std::vector<Digit> matrixLanes(int packed, int64_t each) {
  return {{4, packed, each}, {8, 1 - packed, 1}};
}

} // namespace

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

RegisterLayout::RegisterLayout(std::vector<int64_t> shape, std::vector<Digit> warps,
                               std::vector<Digit> lanes, std::vector<Digit> registers)
    : extents(std::move(shape)), warps(simplified(warps)), lanes(simplified(lanes)),
      registers(simplified(registers)) {
#ifndef NDEBUG
  assert(count(this->lanes) == kLanes && "lane digits must number the lanes of a warp");
  std::vector<Digit> all = this->warps;
  all.insert(all.end(), this->lanes.begin(), this->lanes.end());
  all.insert(all.end(), this->registers.begin(), this->registers.end());
  for (int dim = 0; dim < rank(); ++dim)
    assert(countsDimension(all, dim, extents[dim]) && "digits must count every element once");
#endif
}

Result<RegisterLayout> RegisterLayout::mmaAccumulator(int64_t rows, int64_t cols, int warpsM,
                                                      int warpsN) {
  if (Status status = checkWarps(warpsM, warpsN); !status)
    return status;
  if (Status status = checkMultiple("rows", rows, 16 * warpsM, "16 for each warp"); !status)
    return status;
  if (Status status = checkMultiple("columns", cols, 8 * warpsN, "8 for each warp"); !status)
    return status;
  return RegisterLayout({rows, cols}, {{warpsM, 0, 16}, {warpsN, 1, 8}}, matrixLanes(1, 2),
                        {{2, 1, 1},
                         {2, 0, 8},
                         {cols / (8 * warpsN), 1, 8 * warpsN},
                         {rows / (16 * warpsM), 0, 16 * warpsM}});
}

Result<RegisterLayout> RegisterLayout::mmaOperandA(int64_t rows, int64_t k, int warpsM, int warpsN,
                                                   int elementBits) {
  if (Status status = checkOperand(k, elementBits, warpsM, warpsN); !status)
    return status;
  if (Status status = checkMultiple("rows", rows, 16 * warpsM, "16 for each warp"); !status)
    return status;
  int64_t each = 32 / elementBits;
  return RegisterLayout({rows, k}, {{warpsM, 0, 16}, {warpsN, kReplica, 0}}, matrixLanes(1, each),
                        {{each, 1, 1},
                         {2, 0, 8},
                         {2, 1, 4 * each},
                         {k / (8 * each), 1, 8 * each},
                         {rows / (16 * warpsM), 0, 16 * warpsM}});
}

Result<RegisterLayout> RegisterLayout::mmaOperandB(int64_t k, int64_t cols, int warpsM, int warpsN,
                                                   int elementBits) {
  if (Status status = checkOperand(k, elementBits, warpsM, warpsN); !status)
    return status;
  if (Status status = checkMultiple("columns", cols, 8 * warpsN, "8 for each warp"); !status)
    return status;
  int64_t each = 32 / elementBits;
  return RegisterLayout({k, cols}, {{warpsM, kReplica, 0}, {warpsN, 1, 8}}, matrixLanes(0, each),
                        {{each, 0, 1},
                         {2, 0, 4 * each},
                         {k / (8 * each), 0, 8 * each},
                         {cols / (8 * warpsN), 1, 8 * warpsN}});
}

static Status checkWarpgroups(int64_t rows, int64_t warpgroups) {
  if (Status status = checkWarps(4 * warpgroups); !status)
    return status;
  return checkMultiple("rows", rows, 64 * warpgroups, "64 for each warpgroup");
}

RegisterLayout RegisterLayout::withRowPairs() const {
  auto paired = [](std::vector<Digit> digits) {
    constexpr int64_t apart = 8;
    for (Digit &digit : digits)
      if (digit.dim == 0 && digit.stride <= apart)
        digit.stride = digit.stride == apart ? 1 : 2 * digit.stride;
    return digits;
  };
  return RegisterLayout(extents, warps, paired(lanes), paired(registers));
}

Result<RegisterLayout> RegisterLayout::wgmmaAccumulator(int64_t rows, int64_t cols, int warpgroups,
                                                        bool rowPairs) {
  if (Status status = checkWarpgroups(rows, warpgroups); !status)
    return status;
  Result<RegisterLayout> layout = mmaAccumulator(rows, cols, 4 * warpgroups, 1);
  return layout && rowPairs ? layout->withRowPairs() : layout;
}

Result<RegisterLayout> RegisterLayout::wgmmaOperandA(int64_t rows, int64_t k, int warpgroups,
                                                     int elementBits, bool rowPairs) {
  if (Status status = checkWarpgroups(rows, warpgroups); !status)
    return status;
  Result<RegisterLayout> layout = mmaOperandA(rows, k, 4 * warpgroups, 1, elementBits);
  return layout && rowPairs ? layout->withRowPairs() : layout;
}

Result<RegisterLayout> RegisterLayout::blocked(const std::vector<int64_t> &shape, int vector,
                                               int lanesN, int warpsM, int warpsN) {
  if (Status status = checkWarps(warpsM, warpsN); !status)
    return status;
  if (lanesN < 1 || lanesN > kLanes || (lanesN & (lanesN - 1)) != 0)
    return Status::failure("lanes along a dimension must be 1, 2, 4, 8, 16 or 32, but got " +
                           number(lanesN));
  if (shape.empty() || shape.size() > 2)
    return Status::failure("a register tile has rank 1 or 2, but got rank " + number(shape.size()));
  int dimN = static_cast<int>(shape.size()) - 1, dimM = dimN == 1 ? 0 : kReplica;
  int64_t rows = dimN == 1 ? shape[0] : 1;
  if (rows < 1)
    return Status::failure("rows must be at least 1, but got " + number(rows));
  if (vector < 1)
    return Status::failure("a vector has at least 1 element, but got " + number(vector));
  if (Status status = checkMultiple("columns", shape[dimN], vector, "the vector"); !status)
    return status;

  int64_t runs = shape[dimN] / vector, lanesM = kLanes / lanesN;
  int64_t laneN = std::gcd<int64_t>(lanesN, runs), warpN = std::gcd<int64_t>(warpsN, runs / laneN);
  int64_t laneM = std::gcd<int64_t>(lanesM, rows), warpM = std::gcd<int64_t>(warpsM, rows / laneM);
  // A row of rank 1 is a dimension of extent 1; its digits vanish.
  return RegisterLayout(shape,
                        {{warpM, dimM, laneM},
                         {warpsM / warpM, kReplica, 0},
                         {warpN, dimN, vector * laneN},
                         {warpsN / warpN, kReplica, 0}},
                        {{laneN, dimN, vector},
                         {lanesN / laneN, kReplica, 0},
                         {laneM, dimM, 1},
                         {lanesM / laneM, kReplica, 0}},
                        {{vector, dimN, 1},
                         {runs / (laneN * warpN), dimN, vector * laneN * warpN},
                         {rows / (laneM * warpM), dimM, laneM * warpM}});
}

std::optional<RegisterLayout> RegisterLayout::ofRowPairs() const {
  auto isPair = [](const Digit &digit) {
    return digit.dim == 0 && digit.stride == 1 && digit.extent == 2;
  };
  if (rank() != 2 || std::none_of(registers.begin(), registers.end(), isPair))
    return std::nullopt;
  auto halved = [&](std::vector<Digit> digits) {
    digits.erase(std::remove_if(digits.begin(), digits.end(), isPair), digits.end());
    for (Digit &digit : digits)
      if (digit.dim == 0)
        digit.stride /= 2;
    return digits;
  };
  return RegisterLayout({extents[0] / 2, extents[1]}, halved(warps), halved(lanes),
                        halved(registers));
}

RegisterLayout RegisterLayout::slice(const RegisterLayout &parent, int dim) {
  assert(dim >= 0 && dim < parent.rank() && "a slice removes one of the dimensions");
  auto reduced = [&](const std::vector<Digit> &digits, bool keepReplicas) {
    std::vector<Digit> result;
    for (Digit digit : digits) {
      if (digit.dim != dim)
        result.push_back(digit.isReplica() ? digit : Digit{digit.extent, 0, digit.stride});
      else if (keepReplicas)
        result.push_back({digit.extent, kReplica, 0});
    }
    return result;
  };
  std::vector<int64_t> shape = {parent.rank() == 2 ? parent.extents[1 - dim] : 1};
  return RegisterLayout(std::move(shape), reduced(parent.warps, true), reduced(parent.lanes, true),
                        reduced(parent.registers, false));
}

RegisterLayout RegisterLayout::byThread(const RegisterLayout &parent, int dim) {
  assert(dim >= 0 && dim < 2 && parent.rank() == 2 && "threads share rows or columns of a matrix");
  int64_t threads = 1;
  auto counted = [&](std::vector<Digit> digits) {
    for (Digit &digit : digits)
      if (digit.dim == dim) {
        digit.stride = threads;
        threads *= digit.extent;
      }
    return digits;
  };
  std::vector<Digit> lanes = counted(parent.lanes), warps = counted(parent.warps), registers;
  for (const Digit &digit : parent.registers)
    if (digit.dim != dim)
      registers.push_back(digit);
  std::vector<int64_t> shape = parent.extents;
  shape[dim] = threads;
  return RegisterLayout(std::move(shape), warps, lanes, registers);
}

RegisterLayout RegisterLayout::transposed() const {
  assert(rank() == 2 && "only matrices are transposed");
  auto exchanged = [](std::vector<Digit> digits) {
    for (Digit &digit : digits)
      if (!digit.isReplica())
        digit.dim = 1 - digit.dim;
    return digits;
  };
  return RegisterLayout({extents[1], extents[0]}, exchanged(warps), exchanged(lanes),
                        exchanged(registers));
}

//===----------------------------------------------------------------------===//
// Maps
//===----------------------------------------------------------------------===//

int64_t RegisterLayout::numElements() const {
  return std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
}
int RegisterLayout::numWarps() const { return static_cast<int>(count(warps)); }
int RegisterLayout::registersPerThread() const { return static_cast<int>(count(registers)); }

Coord RegisterLayout::warpPart(int warp) const { return part(warps, warp); }
Coord RegisterLayout::lanePart(int lane) const { return part(lanes, lane); }
Coord RegisterLayout::registerPart(int reg) const { return part(registers, reg); }

Coord RegisterLayout::element(int warp, int lane, int reg) const {
  Coord w = warpPart(warp), l = lanePart(lane), r = registerPart(reg);
  return {w[0] + l[0] + r[0], w[1] + l[1] + r[1]};
}

Owner RegisterLayout::canonicalOwner(Coord element) const {
  return {canonicalNumber(warps, element), canonicalNumber(lanes, element),
          canonicalNumber(registers, element)};
}

std::vector<Owner> RegisterLayout::owners(Coord element) const {
  Owner first = canonicalOwner(element);
  std::vector<Owner> result;
  for (int warp : replicaOffsets(warps))
    for (int lane : replicaOffsets(lanes))
      for (int reg : replicaOffsets(registers))
        result.push_back({first.warp + warp, first.lane + lane, first.reg + reg});
  return result;
}

bool RegisterLayout::isCanonicalOwner(int warp, int lane, int reg) const {
  return !isReplica(warps, warp) && !isReplica(lanes, lane) && !isReplica(registers, reg);
}

int RegisterLayout::vectorLength(int dim) const {
  if (registers.empty() || registers[0].dim != dim || registers[0].stride != 1)
    return 1;
  return static_cast<int>(registers[0].extent);
}

std::string RegisterLayout::str() const {
  std::string text = "[" + number(extents[0]);
  if (rank() == 2)
    text += ", " + number(extents[1]);
  text += "]";
  auto append = [&](const char *name, const std::vector<Digit> &digits) {
    text += std::string(" ") + name;
    for (const Digit &digit : digits)
      text +=
          " " + number(digit.extent) +
          (digit.isReplica() ? ":replica" : ":" + number(digit.dim) + "*" + number(digit.stride));
  };
  append("warps", warps);
  append("lanes", lanes);
  append("registers", registers);
  return text;
}

namespace tilewright::layout {
bool operator==(const RegisterLayout &a, const RegisterLayout &b) {
  return a.extents == b.extents && a.warps == b.warps && a.lanes == b.lanes &&
         a.registers == b.registers;
}
} // namespace tilewright::layout
