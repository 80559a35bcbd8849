// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// New keys and values in caches of any layout. Every byte of a cache that no new key has must keep
// its bits, and so must values and columns that are not rotated.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Random.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

class Append : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Append, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

int64_t bytesOf(Type type) { return type == Type::F64 ? 8 : type == Type::F32 ? 4 : 2; }

/// Numbers from 0 to n - 1 in a random order.
std::vector<int64_t> permutation(int64_t n, uint64_t seed) {
  std::vector<double> keys = normals(n, seed);
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
  return order;
}

/// How a cache lies in memory.
enum class PoolLayout {
  Nhd,         ///< [pages, rows, heads, D]
  Hnd,         ///< [pages, heads, rows, D]
  Interleaved, ///< [pages, K or V, rows, heads, D]
  Fused,       ///< [pages, heads, rows, D of K and DV of V]
  Padded,      ///< gaps between pages, rows and heads; rows are not aligned
  Columns      ///< [pages, rows, D, heads]
};
constexpr PoolLayout allCaches[] = {PoolLayout::Nhd,   PoolLayout::Hnd,    PoolLayout::Interleaved,
                                    PoolLayout::Fused, PoolLayout::Padded, PoolLayout::Columns};
const char *cacheName(PoolLayout cache) {
  const char *names[] = {"NHD", "HND", "interleaved", "fused", "padded", "columns"};
  return names[static_cast<int>(cache)];
}

struct Problem {
  int64_t keys, heads, D, DV, pages, rows;
  Type type;
  PoolLayout cache = PoolLayout::Nhd;

  /// The layouts of the caches of keys and values.
  std::pair<Layout, Layout> layouts() const {
    auto dense = [&](int64_t width) {
      switch (cache) {
      case PoolLayout::Hnd:
        return Layout{{heads * rows * width, width, rows * width, 1}, nullptr, 0};
      case PoolLayout::Padded:
        return Layout{{rows * (heads * (width + 3) + 5) + 7, heads * (width + 3) + 5, width + 3, 1},
                      nullptr,
                      0};
      case PoolLayout::Columns:
        return Layout{{rows * width * heads, width * heads, 1, heads}, nullptr, 0};
      default:
        return Layout();
      }
    };
    if (cache != PoolLayout::Interleaved && cache != PoolLayout::Fused)
      return {dense(D), dense(DV)};
    auto buffer = std::make_shared<Buffer>(pages * rows * heads * (D + DV) * bytesOf(type));
    int64_t both = D + DV, page = rows * heads * both;
    if (cache == PoolLayout::Fused)
      return {{{page, both, rows * both, 1}, buffer, 0}, {{page, both, rows * both, 1}, buffer, D}};
    return {{{page, heads * D, D, 1}, buffer, 0},
            {{page, heads * DV, DV, 1}, buffer, rows * heads * D}};
  }
};

/// A row of the cache; without one, page is -1.
struct Place {
  int64_t page = -1, row = 0;
};

struct Rotation {
  int64_t columns = 0;
  bool pairs = false;
  Type type = Type::F32;          ///< of cos and sin
  std::vector<double> cos, sin;   ///< [positions, columns / 2]
  std::vector<int64_t> ofKeys;    ///< positions
  std::vector<int64_t> ofQueries; ///< as many as queries
};

Rotation makeRotation(int64_t columns, bool pairs, Type type, int64_t positions) {
  Rotation rotation{columns, pairs, type, {}, {}, {}, {}};
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < columns / 2; ++i) {
      double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(i) /
                                                                    static_cast<double>(columns));
      rotation.cos.push_back(roundTo(type, std::cos(angle)));
      rotation.sin.push_back(roundTo(type, std::sin(angle)));
    }
  return rotation;
}

/// Column c of a row at position p, and by how much a result may differ.
std::pair<double, double> rotated(const Rotation &rotation, const double *row, int64_t c, int64_t p,
                                  Type type) {
  int64_t half = rotation.columns / 2;
  int64_t i = rotation.pairs ? c / 2 : c % half;
  bool isSecond = rotation.pairs ? c % 2 != 0 : c >= half;
  int64_t other = rotation.pairs ? (c ^ 1) : (isSecond ? c - half : c + half);
  double own = row[c] * rotation.cos[p * half + i],
         turned = row[other] * rotation.sin[p * half + i];
  double value = isSecond ? own + turned : own - turned;
  double products = std::abs(own) + std::abs(turned);
  double computed = 3 * unitRoundoff(type == Type::F64 ? Type::F64 : Type::F32) * products;
  double stored = unitRoundoff(type) * (std::abs(value) + computed);
  double subnormal = type == Type::F16 ? std::ldexp(1.0, -25) : 0;
  return {value, computed + stored + subnormal};
}

/// Arrays of a call, and what its results must be.
struct AppendCall {
  const Problem &problem;
  KernelCall call;
  std::vector<double> k, v, q;
  int64_t queries = 0, queryHeads = 0;
  const Rotation *rotation;

  static Params params(const Problem &problem, const Params &more, const Rotation *rotation) {
    Params all = {{"D", std::to_string(problem.D)},
                  {"DV", std::to_string(problem.DV)},
                  {"T", typeName(problem.type)}};
    if (rotation)
      all.insert(all.end(), {{"ROTARY", std::to_string(rotation->columns)},
                             {"PAIRS", rotation->pairs ? "true" : "false"},
                             {"TR", typeName(rotation->type)}});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  AppendCall(const Problem &problem, const Params &more, const Rotation *rotation = nullptr,
             uint64_t seed = 1)
      : problem(problem), call("attention_append", params(problem, more, rotation)),
        rotation(rotation) {
    const auto &[keys, heads, D, DV, pages, rows, type, cache] = problem;
    ElementType element = elementType(type);
    k = normals(keys * heads * D, 2 * seed, type);
    v = normals(keys * heads * DV, 2 * seed + 1, type);
    call.input("k", element, {keys, heads, D}, k);
    call.input("v", element, {keys, heads, DV}, v);
    auto [ofK, ofV] = problem.layouts();
    call.output("k_pages", element, {pages, rows, heads, D}, ofK);
    call.output("v_pages", element, {pages, rows, heads, DV}, ofV);
    if (!rotation)
      return;
    int64_t half = rotation->columns / 2,
            positions = static_cast<int64_t>(rotation->cos.size()) / half;
    call.input("cos", elementType(rotation->type), {positions, half}, rotation->cos);
    call.input("sin", elementType(rotation->type), {positions, half}, rotation->sin);
  }

  void addQueries(int64_t count, int64_t heads, uint64_t seed) {
    queries = count;
    queryHeads = heads;
    q = normals(count * heads * problem.D, seed, problem.type);
    ElementType element = elementType(problem.type);
    call.input("q", element, {count, heads, problem.D}, q);
    call.output("q_out", element, {count, heads, problem.D});
  }

  /// Compares a row of an array with a row of k, v or q.
  void expectRow(const char *array, int64_t at, const std::vector<double> &got,
                 const std::vector<uint8_t> &gotBytes, const std::vector<double> &given,
                 const std::vector<uint8_t> &givenBytes, int64_t from, int64_t width,
                 int64_t position) {
    int64_t bytes = bytesOf(problem.type);
    int64_t rotates = position >= 0 && rotation ? rotation->columns : 0;
    for (int64_t c = 0; c < rotates; ++c) {
      auto [value, tolerance] = rotated(*rotation, &given[from * width], c, position, problem.type);
      ASSERT_LE(std::abs(got[at * width + c] - value), tolerance)
          << array << " row " << at << " column " << c << ": " << got[at * width + c] << " for "
          << value << " at position " << position;
    }
    ASSERT_TRUE(std::equal(gotBytes.begin() + (at * width + rotates) * bytes,
                           gotBytes.begin() + (at + 1) * width * bytes,
                           givenBytes.begin() + (from * width + rotates) * bytes))
        << array << " row " << at << " differs from the given row " << from;
  }

  void expectCache(const char *name, const char *source, const std::vector<double> &given,
                   int64_t width, const std::vector<Place> &places, bool isRotated) {
    std::vector<double> got = call.read(name);
    std::vector<uint8_t> gotBytes = call.readBytes(name), givenBytes = call.readBytes(source);
    std::vector<int64_t> keyAt(problem.pages * problem.rows, -1);
    for (int64_t n = 0; n < problem.keys; ++n)
      if (places[n].page >= 0)
        keyAt[places[n].page * problem.rows + places[n].row] = n;
    int64_t bytes = bytesOf(problem.type), rowBytes = problem.heads * width * bytes;
    for (size_t slot = 0; slot < keyAt.size(); ++slot) {
      int64_t n = keyAt[slot];
      if (n < 0) {
        auto begin = gotBytes.begin() + static_cast<int64_t>(slot) * rowBytes;
        ASSERT_TRUE(std::all_of(begin, begin + rowBytes,
                                [](uint8_t byte) { return byte == Buffer::poison; }))
            << name << " slot " << slot << " was written, but has no key";
        continue;
      }
      for (int64_t h = 0; h < problem.heads; ++h)
        expectRow(name, static_cast<int64_t>(slot) * problem.heads + h, got, gotBytes, given,
                  givenBytes, n * problem.heads + h, width, isRotated ? rotation->ofKeys[n] : -1);
    }
  }

  void expect(const std::vector<Place> &places) {
    SCOPED_TRACE(std::string(typeName(problem.type)) + " " + cacheName(problem.cache) + ", " +
                 std::to_string(problem.keys) + " keys, pages of " + std::to_string(problem.rows));
    ASSERT_TRUE(call.runTwice());
    expectCache("k_pages", "k", k, problem.D, places, rotation != nullptr);
    expectCache("v_pages", "v", v, problem.DV, places, false);
    if (queries == 0)
      return;
    std::vector<double> got = call.read("q_out");
    std::vector<uint8_t> gotBytes = call.readBytes("q_out"), givenBytes = call.readBytes("q");
    for (int64_t row = 0; row < queries * queryHeads; ++row)
      expectRow("q_out", row, got, gotBytes, q, givenBytes, row, problem.D,
                rotation->ofQueries[row / queryHeads]);
  }
};

TEST_P(Append, Slots) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (PoolLayout cache : allCaches)
    for (int64_t rows : {1, 16, 64}) {
      MatrixCase matrixCase("attention_append", std::string("slots, ") + cacheName(cache), type);
      bool isWide = seed % 2 == 0; // widths that are no multiple of 8, several blocks of heads
      int64_t pages = 192 / rows, pool = pages * rows, D = isWide ? 128 : 36;
      Problem problem{
          isWide ? 3 : 70, isWide ? 21 : 2, D, isWide ? 64 : D, pages, rows, type, cache};
      bool has64Bits = seed % 3 == 0;
      std::vector<int64_t> slots = permutation(pool, seed);
      slots.resize(problem.keys);
      slots[1] = -1; // others outside of the pool are errors here: attention-append.test has them
      std::vector<Place> places;
      for (int64_t slot : slots)
        places.push_back(slot >= 0 ? Place{slot / rows, slot % rows} : Place());
      AppendCall append(problem, {{"INDICES", has64Bits ? "i64" : "i32"}}, nullptr, seed++);
      append.call.integers(has64Bits ? "slots_i64" : "slots", {problem.keys}, slots,
                           has64Bits ? ElementType::I64 : ElementType::I32);
      append.expect(places);
    }
}

TEST_P(Append, NoKeysAndMany) {
  Type type = GetParam();
  for (int64_t keys : {0, 1, 1500}) {
    Problem problem{keys, 3, 16, 24, 100, 16, type};
    std::vector<int64_t> slots = permutation(1600, 7);
    slots.resize(keys);
    std::vector<Place> places;
    for (int64_t slot : slots)
      places.push_back({slot / 16, slot % 16});
    AppendCall append(problem, {});
    append.call.integers("slots", {keys}, slots);
    append.expect(places);
  }
}

/// Pages of sequences, in a random order.
struct Sequences {
  int64_t rows, columns;
  std::vector<int64_t> lengths, table;
  bool hasTable;
  int64_t pages() const {
    auto count = static_cast<int64_t>(lengths.size());
    return hasTable ? count * columns + 2 : count;
  }
  Sequences(std::vector<int64_t> given, int64_t rows, int64_t columns, bool hasTable, uint64_t seed)
      : rows(rows), columns(columns), lengths(std::move(given)), hasTable(hasTable) {
    table = permutation(pages(), seed);
    table.resize(lengths.size() * columns);
  }
  Place placeOf(int64_t b, int64_t position) const {
    if (!hasTable)
      return position < rows ? Place{b, position} : Place();
    if (position >= rows * columns)
      return {};
    int64_t page = table[b * columns + position / rows];
    return page >= 0 && page < pages() ? Place{page, position % rows} : Place();
  }
  Params params() const { return {{"PLACES", hasTable ? "table" : "sequences"}}; }
  void bind(KernelCall &call) const {
    auto count = static_cast<int64_t>(lengths.size());
    call.integers("seq_lens", {count}, lengths);
    if (hasTable)
      call.integers("block_table", {count, columns}, table);
    call.output("total_lens", ElementType::I32, {count});
  }
  void expectTotals(const KernelCall &call, const std::vector<int64_t> &newKeys) const {
    std::vector<uint8_t> bytes = call.readBytes("total_lens");
    for (size_t b = 0; b < lengths.size(); ++b) {
      int32_t total;
      std::memcpy(&total, &bytes[b * sizeof(total)], sizeof(total));
      EXPECT_EQ(total, std::min(lengths[b] + newKeys[b], hasTable ? rows * columns : rows))
          << "sequence " << b;
    }
  }
};

/// As many new keys for each sequence; behind none, up to and over the end of a page, and behind
/// the last row. Two entries of the table name no page.
TEST_P(Append, BehindSequences) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (PoolLayout cache : {PoolLayout::Nhd, PoolLayout::Hnd, PoolLayout::Fused})
    for (int64_t rows : {1, 16, 64})
      for (int64_t each : {0, 1, 3})
        for (bool hasTable : {true, false}) {
          int64_t columns = rows == 1 ? 40 : 3, room = hasTable ? columns * rows : rows;
          std::vector<int64_t> lengths = {0, rows - 1, std::min(rows, room - 1), room, room - 1, 0};
          Sequences sequences(lengths, rows, columns, hasTable, seed);
          sequences.table[5 * columns] = seed % 2 ? -1 : sequences.pages();
          MatrixCase matrixCase("attention_append", hasTable ? "table" : "sequences", type);
          Problem problem{static_cast<int64_t>(lengths.size()) * each,
                          2,
                          24,
                          24,
                          sequences.pages(),
                          rows,
                          type,
                          cache};
          AppendCall append(problem, sequences.params(), nullptr, seed++);
          sequences.bind(append.call);
          std::vector<Place> places;
          for (size_t b = 0; b < lengths.size(); ++b)
            for (int64_t i = 0; i < each; ++i)
              places.push_back(sequences.placeOf(static_cast<int64_t>(b), lengths[b] + i));
          append.expect(places);
          sequences.expectTotals(append.call, std::vector<int64_t>(lengths.size(), each));
        }
}

/// Different numbers of new keys; some sequences have none, and some keys no sequence. With few
/// sequences and with many, which are found in more steps.
TEST_P(Append, Packed) {
  Type type = GetParam();
  for (int64_t count : {1, 5, 30, 31, 70}) {
    std::vector<int64_t> lengths, offsets = {2}, newKeys;
    for (int64_t b = 0; b < count; ++b) {
      lengths.push_back(b * 7 % 20);
      newKeys.push_back(b % 3 == 2 ? 0 : b % 4 + 1);
      offsets.push_back(offsets.back() + newKeys.back());
    }
    MatrixCase matrixCase("attention_append", "packed", type);
    Sequences sequences(lengths, 16, 2, true, count);
    Problem problem{offsets.back() + 3, 2, 32, 32, sequences.pages(), 16, type};
    Rotation rotation = makeRotation(32, count % 2 == 0, type, 64);
    Params params = sequences.params();
    params.emplace_back("PACKED", "true");
    std::vector<Place> places(problem.keys);
    rotation.ofKeys.assign(problem.keys, 0);
    for (int64_t b = 0; b < count; ++b)
      for (int64_t i = 0; i < newKeys[b]; ++i) {
        places[offsets[b] + i] = sequences.placeOf(b, lengths[b] + i);
        rotation.ofKeys[offsets[b] + i] = lengths[b] + i;
      }
    AppendCall append(problem, params, &rotation, count);
    sequences.bind(append.call);
    append.call.integers("cu_seqlens", {count + 1}, offsets);
    append.expect(places);
    sequences.expectTotals(append.call, newKeys);
  }
}

/// Keys and queries rotate, each by its position. Given positions are arbitrary; otherwise they
/// follow from the lengths.
TEST_P(Append, Rotary) {
  Type type = GetParam();
  uint64_t seed = 1;
  struct Shape {
    int64_t D, columns, heads, queryHeads;
  };
  for (auto [D, columns, heads, queryHeads] : std::initializer_list<Shape>{
           {64, 64, 2, 8}, {128, 128, 1, 20}, {80, 32, 9, 9}, {56, 48, 3, 3}})
    for (bool pairs : {false, true})
      for (const char *by : {"slots", "table", "first", "given"}) {
        std::string mode = by;
        bool hasPositions = mode == "slots" || mode == "given";
        MatrixCase matrixCase("attention_append",
                              std::string("rotary, ") + (pairs ? "pairs" : "halves"), type);
        constexpr int64_t rows = 16, each = 2, positions = 70;
        Sequences sequences({0, 15, 31, 7}, rows, 3, true, seed);
        auto count = static_cast<int64_t>(sequences.lengths.size());
        Type ofAngles = seed % 2 ? type : type == Type::F64 ? Type::F64 : Type::F32;
        Rotation rotation = makeRotation(columns, pairs, ofAngles, positions);
        Problem problem{
            count * each,      heads, D,    seed % 2 ? D : 16,
            sequences.pages(), rows,  type, seed % 3 ? PoolLayout::Nhd : PoolLayout::Padded};
        // Without positions, the number of queries is independent of that of keys.
        int64_t queriesEach = hasPositions ? each : 3;
        std::vector<int64_t> slots, given = permutation(positions, seed);
        given.resize(problem.keys);
        std::vector<Place> places;
        for (int64_t b = 0; b < count; ++b) {
          for (int64_t i = 0; i < each; ++i) {
            places.push_back(sequences.placeOf(b, sequences.lengths[b] + i));
            slots.push_back(places.back().page * rows + places.back().row);
            rotation.ofKeys.push_back(hasPositions ? given[b * each + i]
                                                   : sequences.lengths[b] + i);
          }
          for (int64_t i = 0; i < queriesEach; ++i)
            rotation.ofQueries.push_back(hasPositions
                                             ? given[b * each + i]
                                             : sequences.lengths[b] + (mode == "first" ? 0 : i));
        }
        Params params = mode == "slots" ? Params{{"PLACES", "slots"}} : sequences.params();
        bool has64Bits = mode == "slots" && seed % 4 == 1;
        if (has64Bits)
          params.emplace_back("INDICES", "i64");
        if (hasPositions)
          params.emplace_back("POSITIONS", "true");
        if (mode == "first")
          params.emplace_back("Q_FIRST", "true");
        AppendCall append(problem, params, &rotation, seed++);
        append.addQueries(count * queriesEach, queryHeads, seed);
        ElementType indices = has64Bits ? ElementType::I64 : ElementType::I32;
        std::string suffix = has64Bits ? "_i64" : "";
        if (mode == "slots")
          append.call.integers("slots" + suffix, {problem.keys}, slots, indices);
        else
          sequences.bind(append.call);
        if (hasPositions)
          append.call.integers("positions" + suffix, {problem.keys}, given, indices);
        append.expect(places);
      }
}

/// Caches of 8 bits have quotients by the factor of each head, rounded once more; what exceeds the
/// type becomes its largest number, and NaN stays NaN.
TEST_P(Append, EightBitCaches) {
  Type type = GetParam();
  constexpr int64_t keys = 5, heads = 3, D = 40, DV = 24, pages = 2, rows = 4;
  for (Type cache : {Type::E4M3, Type::E5M2}) {
    KernelCall call("attention_append", {{"D", std::to_string(D)},
                                         {"DV", std::to_string(DV)},
                                         {"T", typeName(type)},
                                         {"CACHE", typeName(cache)}});
    std::vector<double> k = normals(keys * heads * D, 1, type),
                        v = normals(keys * heads * DV, 2, type);
    k[0] = roundTo(type, 60000);
    k[1] = roundTo(type, -60000);
    k[2] = std::numeric_limits<double>::quiet_NaN();
    v[0] = std::numeric_limits<double>::infinity();
    const std::vector<double> ofK = {0.25, 1, 2}, ofV = {1, 0.5, 4};
    const std::vector<int64_t> slots = {6, 0, -1, 3, 5};
    call.input("k", elementType(type), {keys, heads, D}, k);
    call.input("v", elementType(type), {keys, heads, DV}, v);
    call.input("k_descale", ElementType::F32, {heads}, ofK);
    call.input("v_descale", ElementType::F32, {heads}, ofV);
    call.integers("slots", {keys}, slots);
    call.output("k_pages", elementType(cache), {pages, rows, heads, D});
    call.output("v_pages", elementType(cache), {pages, rows, heads, DV});
    call.runTwice();
    for (auto [name, given, factors, width] :
         {std::tuple("k_pages", &k, &ofK, D), {"v_pages", &v, &ofV, DV}}) {
      std::vector<double> got = call.read(name);
      for (int64_t n = 0; n < keys; ++n)
        for (int64_t c = 0; slots[n] >= 0 && c < heads * width; ++c) {
          double quotient = (*given)[n * heads * width + c] / (*factors)[c / width];
          double most = largestFinite(cache);
          double expected = std::isnan(quotient)
                                ? quotient
                                : roundTo(cache, std::min(std::max(quotient, -most), most));
          double value = got[slots[n] * heads * width + c];
          ASSERT_TRUE(value == expected || (std::isnan(value) && std::isnan(expected)))
              << name << " of " << typeName(cache) << ", key " << n << ", column " << c << ": "
              << value << " for " << expected;
        }
    }
  }
}

} // namespace
