// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the code of decoding for a size of pages, and binds arguments to its contract by name.

#include "runtime/AttentionDecode.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

enum Source : uint8_t {
  Q,
  K,
  V,
  O,
  Lse,
  BlockTable,
  SeqLens,
  Scale,
  WindowLeft,
  WindowRight,
  numSources,
  FromCapture = numSources
};
constexpr const char *sourceNames[numSources] = {"q",           "k_pages",     "v_pages",  "o",
                                                 "lse",         "block_table", "seq_lens", "scale",
                                                 "window_left", "window_right"};
/// The values of PAGE_ROWS, without 0.
constexpr int64_t pageRowsOfCode[] = {128, 64, 32, 16, 8, 1};
constexpr int64_t mostRows = 16;
/// What a user is told to compile if there is none.
constexpr int64_t usualPageRows = 64;

Params paramsOf(const AttentionDecodeDesc &desc, int64_t pageRows) {
  int64_t rows = 1;
  while (rows < desc.maxRows)
    rows *= 2;
  Params params = attentionParams(desc);
  for (auto [name, value] : {std::pair("GROUP", desc.group), std::pair("ROWS", rows),
                             std::pair("PAGE_ROWS", pageRows), std::pair("SPLITS", desc.numSplits)})
    params.emplace_back(name, Expr::integer(value));
  return params;
}

/// [B, R, Hq, width] as [B, Hq, R, width].
Status headsFirst(const Argument &given, const char *name, const char *shape, Argument &to) {
  to = given;
  if (given.kind != Argument::Kind::View)
    return Status::success(); // the contract reports it
  if (given.rank != 4)
    return Status::failure(std::string("argument '") + name + "' of decoding must have the shape " +
                           shape + ", but got rank " + std::to_string(given.rank));
  std::swap(to.extents[1], to.extents[2]);
  std::swap(to.strides[1], to.strides[2]);
  return Status::success();
}

} // namespace

Result<AttentionDecode> AttentionDecode::create(const DriverTable &driver,
                                                std::shared_ptr<const Bundle> bundle,
                                                const AttentionDecodeDesc &desc) {
  if (desc.headDim < 1 || desc.valueDim < 0)
    return Status::failure("the head dimension of decoding must be positive, but got " +
                           std::to_string(desc.headDim) + " and, for values, " +
                           std::to_string(desc.valueDim));
  if (desc.group < 1)
    return Status::failure("the group of decoding must be a number of query heads for each key "
                           "head, but got " +
                           std::to_string(desc.group));
  if (desc.numSplits < 0)
    return Status::failure(
        "the splits of decoding must be a number of parts, or 0 for any, but got " +
        std::to_string(desc.numSplits));
  if (desc.maxRows < 1 || desc.maxRows > mostRows)
    return Status::failure("the rows of decoding must be a number of queries from 1 to " +
                           std::to_string(mostRows) + " for each sequence, but got " +
                           std::to_string(desc.maxRows));
  AttentionDecode plan(desc.entry, desc.hasWindow);
  plan.bundleName = bundle->name();
  Status missing;
  auto find = [&](int64_t pageRows) -> Status {
    Result<Operation> operation =
        Operation::create(driver, bundle, desc.entry, paramsOf(desc, pageRows));
    if (operation)
      return plan.add(pageRows, std::move(*operation));
    if (operation.status().code() != Code::MissingVariant)
      return operation.status();
    if (pageRows == usualPageRows)
      missing = operation.status();
    return Status::success();
  };
  for (int64_t pageRows : pageRowsOfCode)
    if (Status status = find(pageRows); !status)
      return status;
  if (Status status = find(0); !status)
    return status;
  if (plan.variants.empty())
    return missing;
  return plan;
}

Status AttentionDecode::add(int64_t pageRows, Operation operation) {
  Variant variant{pageRows, std::move(operation), false, {}};
  std::vector<std::string> captures;
  for (const ArgumentSpec &argument : variant.operation.arguments()) {
    auto *name = std::find_if(std::begin(sourceNames), std::end(sourceNames),
                              [&](const char *known) { return argument.name == known; });
    auto source = uint8_t(name - sourceNames); // FromCapture if there is none
    if (source == FromCapture && !argument.isCapture)
      return Status::failure("'" + entry + "' takes '" + argument.name +
                             "', which is not an argument of decoding");
    if (source == FromCapture) {
      captures.push_back(argument.name);
      source = uint8_t(FromCapture + captures.size() - 1);
    }
    if (source == Scale)
      variant.hasWideScale = argument.type == ElementType::F64;
    variant.sources.push_back(source);
  }
  for (uint8_t source : {Q, K, V, O, SeqLens, Scale})
    if (std::find(variant.sources.begin(), variant.sources.end(), source) == variant.sources.end())
      return Status::failure("'" + entry + "' has no argument '" + sourceNames[source] +
                             "', which decoding requires");
  if (!variants.empty() && captures != captureNames)
    return Status::failure("'" + entry + "' has other captures for pages of " +
                           std::to_string(pageRows) + " rows than for others");
  captureNames = std::move(captures);
  variants.push_back(std::move(variant));
  return Status::success();
}

Result<const AttentionDecode::Variant *> AttentionDecode::choose(const KvCache &cache) const {
  bool hasTable = cache.blockTable.kind != Argument::Kind::Absent;
  int64_t rows = cache.k.extents[1];
  for (const Variant &variant : variants)
    if (hasTable ? variant.pageRows > 0 && rows % variant.pageRows == 0 : variant.pageRows == 0)
      return &variant;
  std::string sizes;
  for (const Variant &variant : variants)
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(variant.pageRows);
  int64_t wanted = 0;
  if (hasTable)
    wanted = *std::find_if(std::begin(pageRowsOfCode), std::end(pageRowsOfCode),
                           [&](int64_t size) { return rows % size == 0; });
  return Status::failure(Code::MissingVariant,
                         "'" + bundleName + "' has no variant of '" + entry + "' for " +
                             (hasTable ? "pages of " + std::to_string(rows) + " rows"
                                       : std::string("a cache without a table")) +
                             ", but PAGE_ROWS = " + sizes +
                             "; compile it with --param=PAGE_ROWS=" + std::to_string(wanted));
}

Status AttentionDecode::bind(const AttentionDecodeArguments &arguments, Bound &bound) const {
  Result<const Variant *> chosen = choose(arguments.cache);
  if (!chosen)
    return chosen.status();
  const Variant &variant = **chosen;
  bound.variant = &variant;
  if (!hasWindow && (arguments.windowLeft != -1 || arguments.windowRight != -1))
    return Status::failure("window_left and window_right must be -1 for a plan without windows, "
                           "but got " +
                           std::to_string(arguments.windowLeft) + " and " +
                           std::to_string(arguments.windowRight));
  if (arguments.numCaptures != captureNames.size())
    return Status::failure("decoding takes " + std::to_string(captureNames.size()) +
                           " captures, but got " + std::to_string(arguments.numCaptures));
  if (Status status = headsFirst(arguments.q, "q", "[B, R, Hq, D]", bound.q); !status)
    return status;
  if (Status status = headsFirst(arguments.o, "o", "[B, R, Hq, DV]", bound.o); !status)
    return status;
  bound.scale = variant.hasWideScale ? Argument::scalar(arguments.scale)
                                     : Argument::scalar(float(arguments.scale));
  bound.windowLeft = Argument::scalar(arguments.windowLeft);
  bound.windowRight = Argument::scalar(arguments.windowRight);
  const Argument *places[numSources] = {
      &bound.q,          &arguments.cache.k,          &arguments.cache.v,       &bound.o,
      &arguments.lse,    &arguments.cache.blockTable, &arguments.cache.seqLens, &bound.scale,
      &bound.windowLeft, &bound.windowRight};
  for (size_t i = 0; i < variant.sources.size(); ++i) {
    uint8_t source = variant.sources[i];
    bound.arguments[i] =
        source < FromCapture ? places[source] : &arguments.captures[source - FromCapture];
  }
  return Status::success();
}

Status AttentionDecode::checkSupport(const Target &target) const {
  for (const Variant &variant : variants)
    if (Status status = variant.operation.checkSupport(target); !status)
      return status;
  return Status::success();
}

Status AttentionDecode::prepare(int device) {
  for (Variant &variant : variants)
    if (Status status = variant.operation.prepare(device); !status)
      return status;
  return Status::success();
}

void AttentionDecode::checkIndices(bool isWanted) {
  for (Variant &variant : variants)
    variant.operation.checkIndices(isWanted);
}

Status AttentionDecode::workspaceSize(const AttentionDecodeArguments &arguments, int device,
                                      uint64_t &bytes) const {
  Bound bound;
  if (Status status = bind(arguments, bound); !status)
    return status;
  const Variant &variant = *bound.variant;
  return variant.operation.workspaceSize(bound.arguments, variant.sources.size(), device, bytes);
}

Status AttentionDecode::run(const AttentionDecodeArguments &arguments, uint64_t workspace,
                            uint64_t workspaceBytes, cuda::Stream stream) const {
  Bound bound;
  if (Status status = bind(arguments, bound); !status)
    return status;
  const Variant &variant = *bound.variant;
  return variant.operation.run(bound.arguments, variant.sources.size(), workspace, workspaceBytes,
                               stream);
}
