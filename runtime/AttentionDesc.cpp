// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/AttentionDesc.h"

#include "runtime/Report.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::runtime;
using Kind = AttentionDesc::Kind;

namespace {

bool isFloat8(ElementType type) { return type == ElementType::E4M3 || type == ElementType::E5M2; }
bool isOfBytes(ElementType type) { return isFloat8(type) || type == ElementType::I8; }

constexpr const char *kindNames[] = {"forward", "backward", "decode", "append", "cached"};
/// Of kernels/attention_decode.mlir: queries of a sequence, queries of a tile, columns.
constexpr int64_t mostRows = 16, mostTileRows = 128, mostDecodeDim = 256;
constexpr int64_t usualPageRows = 64; // what a user is told to compile
/// Keys of a block of the lists of a decode.
constexpr int64_t decodedBlocks[] = {16, 32, 64, 128, 256};
/// The values of PAGE_ROWS, without 0.
constexpr int64_t pageRowsOfCode[] = {128, 64, 32, 16, 8, 1};

struct Row {
  const char *name;
  Expr value;
  bool isOn;
  /// For a feature that is off: whether code that has it on serves as well.
  bool isAnyServed = false;
  /// Only bundles of earlier versions have it.
  bool isOfEarlier = false;
  /// In a signature, but off in a search: what entries without the parameter do.
  bool isDefault = false;
};

Row flag(const char *name, bool isOn) { return {name, Expr::flag(isOn), isOn}; }
Row number(const char *name, int64_t value, bool isOn = true) {
  return {name, Expr::integer(value), isOn};
}
Row type(const char *name, ElementType type, bool isOn = true) {
  return {name, Expr::symbol(Expr::Kind::Type, std::string(elementTypeName(type))), isOn};
}
template <size_t n> Row word(const char *name, const char *const (&words)[n], size_t place) {
  return {name, Expr::symbol(Expr::Kind::Enum, words[place]), place > 0};
}

/// ROWS of a decode of so many queries.
int64_t tileRowsOf(int64_t queries) {
  int64_t rows = 1;
  while (rows < std::min(queries, mostRows))
    rows *= 2;
  return rows;
}

/// Keys of a block of the lists.
int64_t listedKeysOf(const AttentionDesc &desc) {
  return desc.listBlockN ? desc.listBlockN : desc.listBlockM;
}

/// Whether a decode has code for lists of these blocks, for so many queries of a sequence.
bool decodesLists(const AttentionDesc &desc, int64_t queries) {
  return desc.listBlockM >= queries && std::find(std::begin(decodedBlocks), std::end(decodedBlocks),
                                                 listedKeysOf(desc)) != std::end(decodedBlocks);
}

/// In the order of messages. The first three are the widths and the type.
std::vector<Row> rowsOf(const AttentionDesc &desc) {
  static constexpr const char *causal[] = {"none", "top_left", "bottom_right"};
  static constexpr const char *places[] = {"slots", "table", "sequences"};
  static constexpr const char *indices[] = {"i32", "i64"};
  std::vector<Row> rows = {number("D", desc.headDim),
                           number("DV", desc.valueDim ? desc.valueDim : desc.headDim),
                           type("T", desc.type)};
  auto add = [&](Row row) { rows.push_back(std::move(row)); };
  auto addCache = [&] {
    add(type("CACHE", desc.cacheType.value_or(desc.type), desc.cacheType.has_value()));
  };
  if (desc.kind == Kind::Append) {
    add(word("PLACES", places, size_t(desc.places)));
    add(word("INDICES", indices, desc.hasWideIndices));
    add(flag("PACKED", desc.isPacked));
    add(flag("POSITIONS", desc.hasPositions));
    const bool rotates = desc.rotary > 0; // without it, how to rotate makes no difference
    add(number("ROTARY", desc.rotary, rotates));
    add(flag("PAIRS", rotates && desc.rotatesPairs));
    add(flag("Q_FIRST", rotates && desc.rotatesFirst));
    add(type("TR", rotates ? desc.angleType : desc.type, rotates));
    addCache();
    return rows;
  }
  add(word("CAUSAL", causal, size_t(desc.causal)));
  add(flag("WINDOW", desc.hasWindow));
  auto addPageRows = [&] {
    add(number("PAGE_ROWS", desc.pageRows.value_or(usualPageRows), desc.pageRows.has_value()));
    rows.back().isDefault = desc.pageRows == 0;
  };
  if (desc.kind == Kind::Decode) {
    const int64_t queries = tileRowsOf(desc.maxRows);
    add(number("GROUP", desc.group, desc.group > 1));
    add(number("ROWS", queries, queries > 1));
    addPageRows();
    add(flag("PACKED", desc.isPacked));
    add(flag("LEFTPAD", desc.hasLeftpad));
    add(number("SPLITS", desc.numSplits, desc.numSplits > 0));
    addCache();
    add(flag("LISTED", desc.listBlockM > 0));
    if (desc.listBlockM > 0)
      add(number("LIST_BLOCK_N", listedKeysOf(desc)));
    return rows;
  }
  if (desc.kind == Kind::Backward) {
    add(flag("DETERMINISTIC", desc.isDeterministic));
    add(flag("CAPTURE_GRADIENTS", desc.hasCaptureGradients));
    rows.back().isAnyServed = true; // the arrays are optional
  }
  add(flag("PACKED", desc.isPacked));
  add(flag("LISTED", desc.listBlockM > 0));
  if (desc.listBlockM > 0) {
    add(number("LIST_BLOCK_M", desc.listBlockM));
    add(number("LIST_BLOCK_N", listedKeysOf(desc)));
  }
  if (desc.kind == Kind::Backward) {
    add(flag("ORDERED", desc.isOrdered));
    rows.back().isOfEarlier = true; // now DETERMINISTIC, where it is possible
    add(flag("SCORE_GRADIENT", desc.hasScoreGradient));
    return rows;
  }
  add(flag("CACHED", desc.isCached));
  if (desc.isCached) {
    addPageRows();
    add(flag("LEFTPAD", desc.hasLeftpad));
    addCache();
  }
  return rows;
}

/// Of the name of a kind, or a list of them.
std::string withArticle(const std::string &kinds) {
  return (kinds[0] == 'a' ? "an " : "a ") + kinds;
}

bool hasParam(const Manifest &manifest, const std::string &entry, std::string_view name) {
  auto isIn = [&](const Params &params) {
    return std::any_of(params.begin(), params.end(),
                       [&](const auto &param) { return param.first == name; });
  };
  auto has = [&](const auto &spec) { return spec.name == entry && isIn(spec.params); };
  return std::any_of(manifest.programs.begin(), manifest.programs.end(), has) ||
         std::any_of(manifest.kernels.begin(), manifest.kernels.end(), has);
}

} // namespace

std::string runtime::entryOf(const AttentionDesc &desc) {
  return desc.entry.empty() ? std::string("attention_") + kindNames[size_t(desc.kind)] : desc.entry;
}

const char *runtime::nounOf(Kind kind) {
  static constexpr const char *nouns[] = {"attention", "attention", "decoding", "appending",
                                          "attention over a cache"};
  return nouns[size_t(kind)];
}

int64_t runtime::mostPageRows(int64_t rows) {
  return *std::find_if(std::begin(pageRowsOfCode), std::end(pageRowsOfCode),
                       [&](int64_t size) { return rows % size == 0; });
}

Status runtime::check(const AttentionDesc &desc) {
  if (desc.kind == Kind::Cached)
    return Status::failure("attention over a cache is a decode or a forward, as the arguments of a "
                           "call say; describe it by them");
  const std::string of = std::string(" of ") + nounOf(desc.kind);
  auto text = [](int64_t number) { return std::to_string(number); };
  if (desc.headDim < 1 || desc.valueDim < 0)
    return Status::failure("the head dimension" + of + " must be positive, but got " +
                           text(desc.headDim) + " and, for values, " + text(desc.valueDim));
  if (desc.group < 1)
    return Status::failure("the group" + of +
                           " must be a number of query heads for each key head, but got " +
                           text(desc.group));
  if (desc.numSplits < 0)
    return Status::failure("the splits" + of +
                           " must be a number of parts, or 0 for any, but got " +
                           text(desc.numSplits));
  if (desc.maxRows < 1 || desc.maxRows > mostRows)
    return Status::failure("the rows" + of + " must be a number of queries from 1 to " +
                           text(mostRows) + " for each sequence, but got " + text(desc.maxRows));
  if (desc.listBlockM < 0 || desc.listBlockN < 0 || (desc.listBlockN && !desc.listBlockM))
    return Status::failure("the blocks of the lists" + of +
                           " must be numbers of queries and keys, or both 0 without lists, but "
                           "got " +
                           text(desc.listBlockM) + " and " + text(desc.listBlockN));
  if (desc.kind == Kind::Decode && desc.listBlockM && !decodesLists(desc, desc.maxRows))
    return Status::failure("the blocks of the lists" + of +
                           " must have 16, 32, 64, 128 or 256 keys, and the queries of a sequence, "
                           "up to " +
                           text(desc.maxRows) + ", but got " + text(listedKeysOf(desc)) + " and " +
                           text(desc.listBlockM) + "; a forward takes others");
  if (desc.listBlockM && desc.hasLeftpad)
    return Status::failure("lists of blocks" + of +
                           " are not supported with padding before the keys, but the description "
                           "has list_block_m of " +
                           text(desc.listBlockM) + " and leftpad");
  if (desc.pageRows && *desc.pageRows < 0)
    return Status::failure("the page rows" + of +
                           " must be a number of rows, or 0 without a table, but got " +
                           text(*desc.pageRows));
  if (desc.rotary < 0)
    return Status::failure("the rotary columns" + of +
                           " must be a number of columns, or 0 without a rotation, but got " +
                           text(desc.rotary));
  // A field of another kind is a mistake of the caller, which would have no effect.
  constexpr unsigned forward = 1, backward = 2, decode = 4, append = 8;
  struct Field {
    bool isSet;
    const char *name;
    unsigned kinds;
  };
  const Field fields[] = {
      {desc.causal != AttentionDesc::Causal::None, "causal", forward | backward | decode},
      {desc.hasWindow, "has_window", forward | backward | decode},
      {desc.listBlockM != 0, "list_block_m", forward | backward | decode},
      {desc.isCached, "cached", forward},
      {desc.pageRows.has_value(), "page_rows", forward | decode},
      {desc.hasLeftpad, "leftpad", forward | decode},
      {desc.cacheType.has_value(), "cache_type", forward | decode | append},
      {desc.isDeterministic, "deterministic", backward},
      {desc.isOrdered, "ordered", backward},
      {desc.hasScoreGradient, "score_gradient", backward},
      {desc.hasCaptureGradients, "capture_gradients", backward},
      {desc.group != 1, "group", decode},
      {desc.maxRows != 1, "max_rows", decode},
      {desc.numSplits != 0, "num_splits", decode},
      {desc.places != AttentionDesc::Places::Slots, "places", append},
      {desc.hasWideIndices, "wide_indices", append},
      {desc.hasPositions, "positions", append},
      {desc.rotary != 0, "rotary", append},
      {desc.rotatesPairs, "rotary_pairs", append},
      {desc.rotatesFirst, "rotary_first", append}};
  for (const Field &field : fields) {
    if (!field.isSet || (field.kinds >> unsigned(desc.kind) & 1))
      continue;
    std::string kinds;
    for (unsigned kind = 0; kind < std::size(kindNames); ++kind)
      if (field.kinds >> kind & 1)
        kinds += (kinds.empty() ? "" : " or ") + std::string(kindNames[kind]);
    return Status::failure(std::string(field.name) + " is of the description of " +
                           withArticle(kinds) + ", but this one is of " +
                           withArticle(kindNames[size_t(desc.kind)]));
  }
  if (desc.kind == Kind::Forward && !desc.isCached)
    for (auto [isSet, name] :
         {std::pair(desc.pageRows.has_value(), "page_rows"), std::pair(desc.hasLeftpad, "leftpad"),
          std::pair(desc.cacheType.has_value(), "cache_type")})
      if (isSet)
        return Status::failure(std::string(name) +
                               " is of a cache, but the description has none; set cached");
  if (desc.cacheType && (!isOfBytes(*desc.cacheType) || isFloat8(desc.type)))
    return Status::failure("a cache" + of +
                           " must have the type of 'q', or be of e4m3, e5m2 or i8 with "
                           "one of 16 bits or more, but got " +
                           std::string(elementTypeName(*desc.cacheType)) + " with " +
                           std::string(elementTypeName(desc.type)));
  const std::vector<Row> rows = rowsOf(desc);
  for (const auto &param : desc.more)
    for (const Row &row : rows)
      if (param.first == row.name)
        return Status::failure(
            "the further parameters must not follow from the description, but got '" + param.first +
            "'; set the field of the description instead");
  return Status::success();
}

Params runtime::paramsOf(const AttentionDesc &desc) {
  Params params;
  for (Row &row : rowsOf(desc))
    if (!row.isOfEarlier)
      params.emplace_back(row.name, std::move(row.value));
  params.insert(params.end(), desc.more.begin(), desc.more.end());
  return params;
}

Params runtime::paramsOf(const AttentionDesc &desc, const Manifest &manifest) {
  const std::string entry = entryOf(desc);
  Params params;
  for (Row &row : rowsOf(desc))
    if ((row.isOn && !row.isDefault && !row.isOfEarlier) ||
        (!row.isAnyServed && hasParam(manifest, entry, row.name)))
      params.emplace_back(row.name, std::move(row.value));
  params.insert(params.end(), desc.more.begin(), desc.more.end());
  return params;
}

std::string runtime::signatureOf(const AttentionDesc &desc) {
  Params params, more = desc.more;
  for (Row &row : rowsOf(desc))
    if (row.isOn && !row.isOfEarlier)
      params.emplace_back(row.name, std::move(row.value));
  std::sort(more.begin(), more.end(),
            [](const auto &a, const auto &b) { return a.first < b.first; });
  params.insert(params.end(), more.begin(), more.end());
  return entryOf(desc) + " " + toVariantText(params);
}

namespace {

/// The arguments of a call that a description follows from.
class Call {
public:
  Call(Kind kind, const std::vector<std::pair<std::string, Argument>> &arguments)
      : noun(nounOf(kind)), arguments(arguments) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Argument *find(std::string_view name) const {
    for (const auto &argument : arguments)
      if (argument.first == name && argument.second.kind != Argument::Kind::Absent)
        return &argument.second;
    return nullptr;
  }
  /// A view that every call has, of this rank.
  Status expect(const char *name, unsigned rank, const Argument *&view) const {
    view = find(name);
    std::string got = !view                                ? "none"
                      : view->kind != Argument::Kind::View ? "a scalar"
                                                           : "rank " + std::to_string(view->rank);
    if (view && view->kind == Argument::Kind::View && view->rank == rank)
      return Status::success();
    return Status::failure(std::string("the description of ") + noun + " follows from '" + name +
                           "', a view of rank " + std::to_string(rank) + ", but got " + got);
  }
  static Status expectInteger(const char *name, const Argument &argument) {
    bool isScalar = argument.kind == Argument::Kind::Scalar;
    if (isScalar && (argument.type == ElementType::I32 || argument.type == ElementType::I64))
      return Status::success();
    return Status::failure(std::string("argument '") + name +
                           "' must be a scalar of type i32 or i64, but got " +
                           (isScalar ? std::string(elementTypeName(argument.type)) : "a view"));
  }

private:
  const char *noun;
  const std::vector<std::pair<std::string, Argument>> &arguments;
};

void setCacheType(AttentionDesc &desc, const Argument *pages) {
  desc.cacheType.reset();
  if (pages && pages->kind == Argument::Kind::View && pages->type != desc.type)
    desc.cacheType = pages->type;
}

/// Whether the lists of a call are those of key heads, or all heads share them.
bool areOfKeyHeads(const Argument *counts, int64_t keyHeads) {
  return !counts || counts->kind != Argument::Kind::View || counts->rank != 3 ||
         counts->extents[1] == 1 || counts->extents[1] == keyHeads;
}

/// Few queries are decoded; what only a decode has is dropped from others.
Status chooseKernel(AttentionDesc &desc, bool isPacked, const Argument &q, const Argument &k,
                    const Argument &v, const Argument *counts) {
  const int64_t queries = std::max(desc.maxRows, q.extents[2]), heads = q.extents[1],
                keyHeads = k.extents[2];
  if (keyHeads <= 0 || heads % keyHeads != 0)
    return Status::failure("the heads of 'q' must be a multiple of those of 'k', but got " +
                           std::to_string(heads) + " and " + std::to_string(keyHeads));
  const bool isFew = queries <= mostRows && heads / keyHeads <= mostTileRows / tileRowsOf(queries);
  const bool isNarrow = std::max(q.extents[3], v.extents[3]) <= mostDecodeDim;
  const bool sharesLists =
      !desc.listBlockM || (decodesLists(desc, queries) && areOfKeyHeads(counts, keyHeads));
  desc.kind = isFew && isNarrow && sharesLists && !isPacked ? Kind::Decode : Kind::Forward;
  if (desc.kind == Kind::Decode)
    return Status::success();
  const AttentionDesc other;
  desc.group = other.group;
  desc.maxRows = other.maxRows;
  desc.numSplits = other.numSplits;
  return Status::success();
}

Status completeAppend(AttentionDesc &desc, const Call &call) {
  const Argument *k, *v = call.find("v"), *cos = call.find("cos");
  if (Status status = call.expect("k", 3, k); !status)
    return status;
  if (v)
    if (Status status = call.expect("v", 3, v); !status)
      return status;
  if (cos)
    if (Status status = call.expect("cos", 2, cos); !status)
      return status;
  desc.type = k->type;
  desc.headDim = k->extents[2];
  desc.valueDim = v ? v->extents[2] : 0;
  desc.isPacked = call.has("cu_seqlens");
  desc.hasWideIndices = call.has("slots_i64") || call.has("positions_i64");
  desc.hasPositions = call.has("positions") || call.has("positions_i64");
  desc.places = call.has("slots") || call.has("slots_i64") ? AttentionDesc::Places::Slots
                : call.has("block_table")                  ? AttentionDesc::Places::Table
                                                           : AttentionDesc::Places::Sequences;
  constexpr int64_t mostColumns = int64_t(1) << 31;
  if (cos && (cos->extents[1] < 0 || cos->extents[1] > mostColumns))
    return Status::failure("the columns of 'cos' must be a number up to " +
                           std::to_string(mostColumns) + ", but got " +
                           std::to_string(cos->extents[1]));
  setCacheType(desc, call.find("k_pages"));
  desc.rotary = cos ? 2 * cos->extents[1] : 0;
  if (cos)
    desc.angleType = cos->type;
  return Status::success();
}

} // namespace

Status runtime::complete(AttentionDesc &desc,
                         const std::vector<std::pair<std::string, Argument>> &arguments) {
  const Call call(desc.kind, arguments);
  if (desc.kind == Kind::Append)
    return completeAppend(desc, call);
  const bool namesPages = desc.kind == Kind::Decode, hasChoice = desc.kind == Kind::Cached;
  const Argument *q, *k, *v;
  if (Status status = call.expect("q", 4, q); !status)
    return status;
  if (Status status = call.expect(namesPages ? "k_pages" : "k", 4, k); !status)
    return status;
  if (Status status = call.expect(namesPages ? "v_pages" : "v", 4, v); !status)
    return status;
  if (hasChoice)
    if (Status status =
            chooseKernel(desc, call.has("cu_seqlens_q"), *q, *k, *v, call.find("kv_num_blocks"));
        !status)
      return status;
  const bool isDecode = desc.kind == Kind::Decode;
  desc.type = q->type;
  desc.headDim = q->extents[3];
  desc.valueDim = v->extents[3];
  desc.hasWindow = false;
  for (const char *name : {"window_left", "window_right"}) {
    const Argument *side = call.find(name);
    if (!side)
      continue;
    if (Status status = call.expectInteger(name, *side); !status)
      return status;
    desc.hasWindow |= side->integer() != -1;
  }
  desc.isPacked = call.has("cu_seqlens_q");
  desc.isCached = desc.kind == Kind::Forward && (hasChoice || call.has("seq_lens"));
  desc.hasLeftpad = hasCache(desc) && call.has("leftpad");
  if (hasCache(desc) && !desc.pageRows)
    desc.pageRows = call.has("block_table") ? mostPageRows(k->extents[1]) : 0;
  if (desc.kind == Kind::Backward) {
    desc.hasScoreGradient = call.has("d_score");
    desc.hasCaptureGradients = false;
    for (const auto &argument : arguments)
      desc.hasCaptureGradients |= argument.first.rfind("d_", 0) == 0 && call.has(argument.first) &&
                                  call.has(argument.first.substr(2));
  }
  if (hasCache(desc))
    setCacheType(desc, k);
  if (isDecode) {
    int64_t heads = q->extents[1], keyHeads = k->extents[2];
    if (keyHeads <= 0 || heads % keyHeads != 0)
      return Status::failure("the heads of 'q' must be a multiple of those of 'k_pages', but got " +
                             std::to_string(heads) + " and " + std::to_string(keyHeads));
    desc.group = std::max<int64_t>(heads / keyHeads, 1);
    if (!desc.isPacked)
      desc.maxRows = std::max(desc.maxRows, q->extents[2]);
  }
  return Status::success();
}
