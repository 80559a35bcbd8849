// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shipped masks and modifiers. Their data depend only on the sizes of the problem, so that
// apply and bind agree.

#include "test/Acceptance/ShippedMods.h"

#include "test/Reference/Modifiers.h"

#include <algorithm>

namespace tilewright::acceptance {

using namespace reference;

namespace {

int64_t sinkSize(const AttentionProblem &p) { return std::min<int64_t>(3, p.Skv); }
int64_t sinkWindow(const AttentionProblem &p) { return p.Skv / 4; }

/// Of different lengths: none, some, all.
std::vector<int64_t> prefixLengths(const AttentionProblem &p) {
  std::vector<int64_t> lengths(p.B);
  for (int64_t b = 0; b < p.B; ++b)
    lengths[b] = b % 3 == 0 ? p.Skv / 3 : b % 3 == 1 ? 0 : p.Skv;
  return lengths;
}

/// Some, all, none.
std::vector<int64_t> usedQueries(const AttentionProblem &p) {
  std::vector<int64_t> lengths(p.B);
  for (int64_t b = 0; b < p.B; ++b)
    lengths[b] = b % 3 == 0 ? p.Sq - p.Sq / 3 : b % 3 == 1 ? p.Sq : 0;
  return lengths;
}
std::vector<int64_t> usedKeys(const AttentionProblem &p) {
  std::vector<int64_t> lengths(p.B);
  for (int64_t b = 0; b < p.B; ++b)
    lengths[b] = b % 3 == 1 ? p.Skv / 2 : p.Skv - p.Skv / 4;
  return lengths;
}

/// Documents of increasing length; they end at different positions in each batch. The last queries
/// are in a document without keys.
std::vector<int64_t> documentIds(const AttentionProblem &p, int64_t rows, bool isQuery) {
  std::vector<int64_t> ids(p.B * rows);
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t i = 0, id = 0, left = 5 + b; i < rows; ++i, --left) {
      if (left == 0)
        left = 11 * ++id + 7;
      bool isOrphan = isQuery && i >= rows - 2 && i > 0;
      ids[b * rows + i] = isOrphan ? 1000 : id;
    }
  return ids;
}

/// The start or end of the document of each row among the keys or the queries; documents end at
/// different positions in each batch.
std::vector<int64_t> documentBounds(const AttentionProblem &p, int64_t rows, int64_t others,
                                    bool isEnd) {
  std::vector<int64_t> ids = documentIds(p, std::max(p.Sq, p.Skv), false), bounds(p.B * rows);
  int64_t most = std::max(p.Sq, p.Skv);
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t i = 0; i < rows; ++i) {
      auto first = ids.begin() + b * most, last = first + most;
      auto found =
          isEnd ? std::upper_bound(first, last, first[i]) : std::lower_bound(first, last, first[i]);
      bounds[b * rows + i] = std::min<int64_t>(found - first, others);
    }
  return bounds;
}

/// Each key is hidden from some queries in the middle, from none, or from all.
std::vector<int64_t> hiddenRows(const AttentionProblem &p, bool isEnd) {
  std::vector<int64_t> rows(p.B * p.Skv);
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t j = 0; j < p.Skv; ++j) {
      int64_t from = j % 5 == 4 ? 0 : (7 * j + b) % (p.Sq + 1);
      int64_t length = j % 5 == 4 ? p.Sq : j % 3 * (p.Sq / 4);
      rows[b * p.Skv + j] = isEnd ? from + length : from;
    }
  return rows;
}

/// Nodes of a tree in which node n > 0 has the parent (n - 1) / 2, in the order of a traversal that
/// visits children in ascending order.
struct TreeWalk {
  std::vector<int64_t> enters, leaves;

  explicit TreeWalk(int64_t nodes) : enters(nodes), leaves(nodes) { visit(0); }

private:
  void visit(int64_t node) {
    if (node >= static_cast<int64_t>(enters.size()))
      return;
    enters[node] = next++;
    visit(2 * node + 1);
    visit(2 * node + 2);
    leaves[node] = next;
  }
  int64_t next = 0;
};

/// Queries are the last nodes, keys the first; the tree is the same for all batches.
std::vector<int64_t> treeNumbers(const AttentionProblem &p, bool isQuery, bool isLeaves) {
  TreeWalk walk(std::max(p.Sq, p.Skv));
  const std::vector<int64_t> &all = isLeaves ? walk.leaves : walk.enters;
  std::vector<int64_t> numbers;
  for (int64_t b = 0; b < p.B; ++b)
    if (isQuery)
      numbers.insert(numbers.end(), all.end() - p.Sq, all.end());
    else
      numbers.insert(numbers.end(), all.begin(), all.begin() + p.Skv);
  return numbers;
}

double softcapValue() { return 1.5; }

constexpr int64_t tableRadius = 9;

std::vector<double> biasTable(const AttentionProblem &p) {
  return normals(p.Hq * (2 * tableRadius + 1), 77, Type::F32);
}

/// One direction if the problem is causal. Buckets of several distances, and distances beyond the
/// last bucket.
struct T5Buckets {
  explicit T5Buckets(const AttentionProblem &p)
      : isBidirectional(p.causal == Causal::None), count(isBidirectional ? 16 : 12),
        table(normals(p.Hq * count, 76, Type::F32)) {}

  bool isBidirectional;
  int64_t count, maxDistance = 60;
  std::vector<double> table;
};

} // namespace

const std::vector<ShippedMod> &maskMods() {
  static const std::vector<ShippedMod> mods = {
      {"sink_window",
       [](AttentionProblem &p) { p.mask = sinkPlusWindow(sinkSize(p), sinkWindow(p)); },
       [](KernelCall &call, const AttentionProblem &p) {
         call.integer("sink_size", sinkSize(p));
         call.integer("sink_window", sinkWindow(p));
       }},
      {"prefix_lm", [](AttentionProblem &p) { p.mask = prefixLm(prefixLengths(p)); },
       [](KernelCall &call, const AttentionProblem &p) {
         call.integers("prefix_length", {p.B}, prefixLengths(p));
       }},
      {"document",
       [](AttentionProblem &p) {
         p.mask = documents(documentIds(p, p.Sq, true), documentIds(p, p.Skv, false), p.Sq, p.Skv);
       },
       [](KernelCall &call, const AttentionProblem &p) {
         call.integers("query_document", {p.B, p.Sq}, documentIds(p, p.Sq, true));
         call.integers("key_document", {p.B, p.Skv}, documentIds(p, p.Skv, false));
       }},
      {"spans",
       [](AttentionProblem &p) {
         p.mask = documents(documentIds(p, p.Sq, false), documentIds(p, p.Skv, false), p.Sq, p.Skv);
       },
       [](KernelCall &call, const AttentionProblem &p) {
         call.integers("key_begin", {p.B, p.Sq}, documentBounds(p, p.Sq, p.Skv, false));
         call.integers("key_end", {p.B, p.Sq}, documentBounds(p, p.Sq, p.Skv, true));
         call.integers("query_begin", {p.B, p.Skv}, documentBounds(p, p.Skv, p.Sq, false));
         call.integers("query_end", {p.B, p.Skv}, documentBounds(p, p.Skv, p.Sq, true));
       }},
      {"intervals",
       [](AttentionProblem &p) {
         p.mask = [from = hiddenRows(p, false), to = hiddenRows(p, true),
                   keys = p.Skv](int64_t b, int64_t, int64_t i, int64_t j) {
           return i < from[b * keys + j] || i >= to[b * keys + j];
         };
       },
       [](KernelCall &call, const AttentionProblem &p) {
         call.integers("hidden_from", {p.B, p.Skv}, hiddenRows(p, false));
         call.integers("hidden_to", {p.B, p.Skv}, hiddenRows(p, true));
       }},
      // Without the traversal order: follows parents from the query's node.
      {"tree",
       [](AttentionProblem &p) {
         p.mask = [first = std::max(p.Sq, p.Skv) - p.Sq](int64_t, int64_t, int64_t i, int64_t j) {
           int64_t node = first + i;
           while (node > j)
             node = (node - 1) / 2;
           return node == j;
         };
       },
       [](KernelCall &call, const AttentionProblem &p) {
         call.integers("tree_entered", {p.B, p.Sq}, treeNumbers(p, true, false));
         call.integers("tree_enters", {p.B, p.Skv}, treeNumbers(p, false, false));
         call.integers("tree_leaves", {p.B, p.Skv}, treeNumbers(p, false, true));
       }},
      {"used_lengths",
       [](AttentionProblem &p) {
         p.mask = [queries = usedQueries(p), keys = usedKeys(p)](int64_t b, int64_t, int64_t i,
                                                                 int64_t j) {
           return i < queries[b] && j < keys[b];
         };
       },
       [](KernelCall &call, const AttentionProblem &p) {
         call.integers("seqused_q", {p.B}, usedQueries(p));
         call.integers("seqused_k", {p.B}, usedKeys(p));
       }},
  };
  return mods;
}

const std::vector<ShippedMod> &scoreMods() {
  static const std::vector<ShippedMod> mods = {
      {"softcap", [](AttentionProblem &p) { p.score = softcap(softcapValue()); },
       [](KernelCall &call, const AttentionProblem &) { call.scalar("softcap", softcapValue()); }},
      {"alibi", [](AttentionProblem &p) { p.score = alibi(alibiSlopes(p.Hq)); },
       [](KernelCall &call, const AttentionProblem &p) {
         call.input("slopes", ElementType::F32, {p.Hq}, alibiSlopes(p.Hq));
       }},
      {"relative_bias",
       [](AttentionProblem &p) { p.score = relativeBias(biasTable(p), tableRadius); },
       [](KernelCall &call, const AttentionProblem &p) {
         call.input("relative_bias", ElementType::F32, {p.Hq, 2 * tableRadius + 1}, biasTable(p));
         call.integer("relative_radius", tableRadius);
       }},
      {"t5_bias",
       [](AttentionProblem &p) {
         T5Buckets buckets(p);
         p.score =
             t5Bias(buckets.table, buckets.count, buckets.maxDistance, buckets.isBidirectional);
       },
       [](KernelCall &call, const AttentionProblem &p) {
         T5Buckets buckets(p);
         call.input("t5_bias", ElementType::F32, {p.Hq, buckets.count}, buckets.table);
         call.integer("t5_max_distance", buckets.maxDistance);
         call.integer("t5_bidirectional", buckets.isBidirectional);
       }},
  };
  return mods;
}

CallOptions optionsFor(const ShippedMod &mod, const AttentionProblem &problem) {
  CallOptions options;
  options.with = {"mods/" + mod.name};
  options.bind = [&mod, problem](KernelCall &call) { mod.bind(call, problem); };
  return options;
}

} // namespace tilewright::acceptance
