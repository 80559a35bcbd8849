// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the code of a description, and binds arguments to it.

#include "runtime/AttentionPlan.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::runtime;
using Kind = AttentionDesc::Kind;

namespace {

constexpr const char *windowNames[] = {"window_left", "window_right"};
const Argument openSide = Argument::scalar(int32_t(-1));

/// Of arrays that are no cache, the arguments that have the same extents along dimensions 0 to 2.
/// The constraints of shipped kernels say the same; here it holds for custom entries too.
struct Likeness {
  const char *name, *like[3];
};
constexpr Likeness likenesses[] = {
    {"k", {"q", nullptr, nullptr}}, {"v", {"q", "k", "k"}},   {"o", {"q", "q", "q"}},
    {"do", {"q", "q", "q"}},        {"lse", {"q", "q", "q"}}, {"dlse", {"q", "q", "q"}},
    {"dq", {"q", "q", "q"}},        {"dk", {"k", "k", "k"}},  {"dv", {"v", "v", "v"}}};

/// The values of PAGE_ROWS in a bundle, the largest first.
std::vector<int64_t> pageRowsIn(const Manifest &manifest, const std::string &entry) {
  std::vector<int64_t> values;
  auto add = [&](const Params &params) {
    for (const auto &param : params)
      if (param.first == "PAGE_ROWS" && param.second.kind() == Expr::Kind::Integer &&
          std::find(values.begin(), values.end(), param.second.value()) == values.end())
        values.push_back(param.second.value());
  };
  for (const ProgramSpec &program : manifest.programs)
    if (program.name == entry)
      add(program.params);
  for (const KernelSpec &kernel : manifest.kernels)
    if (kernel.name == entry)
      add(kernel.params);
  std::sort(values.rbegin(), values.rend());
  return values;
}

std::vector<std::string> capturesOf(const Operation &operation) {
  std::vector<std::string> names;
  for (const ArgumentSpec &argument : operation.arguments())
    if (argument.isCapture)
      names.push_back(argument.name);
  return names;
}

std::string listOf(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "'" : ", '") + name + "'";
  return text.empty() ? "none" : text;
}

} // namespace

AttentionPlan::AttentionPlan(const AttentionDesc &desc, std::string bundleName)
    : desc(desc), bundleName(std::move(bundleName)), entry(entryOf(desc)), text(signatureOf(desc)) {
}

int AttentionPlan::find(const char *name) const {
  for (size_t i = 0; i < contract.size(); ++i)
    if (contract[i].name == name)
      return int(i);
  return -1;
}

Result<AttentionPlan> AttentionPlan::create(const DriverTable &driver,
                                            std::shared_ptr<const Bundle> bundle,
                                            const AttentionDesc &desc) {
  if (Status status = check(desc); !status)
    return status;
  AttentionPlan plan(desc, bundle->name());
  const Manifest &manifest = bundle->manifest();
  auto create = [&](const AttentionDesc &wanted) {
    return Operation::create(driver, bundle, plan.entry, paramsOf(wanted, manifest));
  };
  std::vector<int64_t> sizes;
  if (hasCache(desc))
    sizes = desc.pageRows ? std::vector<int64_t>{*desc.pageRows} : pageRowsIn(manifest, plan.entry);
  plan.choosesByPages = !sizes.empty();
  if (sizes.empty()) // no cache, or an entry whose code does not depend on pages
    sizes = {0};
  Status missing;
  for (int64_t pageRows : sizes) {
    AttentionDesc wanted = desc;
    if (hasCache(desc))
      wanted.pageRows = pageRows;
    Result<Operation> operation = create(wanted);
    if (!operation && operation.status().code() != Code::MissingVariant)
      return operation.status();
    if (!operation) {
      missing = operation.status();
      continue;
    }
    if (Status status = plan.add(pageRows, std::move(*operation)); !status)
      return status;
  }
  if (plan.variants.empty()) {
    Status usual = create(desc).status(); // names the command for a usual page
    return usual.ok() ? missing : usual;
  }
  plan.finish();
  return plan;
}

Status AttentionPlan::add(int64_t pageRows, Operation operation) {
  Variant variant{pageRows, std::move(operation), {}};
  if (!variants.empty() && capturesOf(variant.operation) != capturesOf(variants[0].operation))
    return Status::failure("'" + entry + "' must have the same captures for all sizes of pages, " +
                           "but got " + listOf(capturesOf(variant.operation)) + " for pages of " +
                           std::to_string(pageRows) + " rows, and " +
                           listOf(capturesOf(variants[0].operation)) + " for others");
  for (const ArgumentSpec &argument : variant.operation.arguments()) {
    int place = find(argument.name.c_str());
    if (place < 0) {
      if (contract.size() == maxArguments)
        return Status::failure("'" + entry + "' must have at most " + std::to_string(maxArguments) +
                               " arguments for all sizes of pages, but got '" + argument.name +
                               "' as well");
      place = int(contract.size());
      contract.push_back(argument);
      contract.back().isOptional |= argument.isView && !variants.empty();
    }
    variant.sources.push_back(uint8_t(place));
  }
  for (size_t i = 0; i < contract.size(); ++i)
    if (std::find(variant.sources.begin(), variant.sources.end(), i) == variant.sources.end())
      contract[i].isOptional |= contract[i].isView;
  variants.push_back(std::move(variant));
  return Status::success();
}

void AttentionPlan::finish() {
  q = find("q");
  k = find(desc.kind == Kind::Decode ? "k_pages" : "k");
  blockTable = find("block_table");
  for (unsigned i = 0; i < 2; ++i) {
    windows[i] = find(windowNames[i]);
    if (windows[i] >= 0 && !contract[size_t(windows[i])].byDefault)
      contract[size_t(windows[i])].byDefault = openSide; // a bundle of ABI 3 has no defaults
  }
  for (size_t i = 0; i < contract.size(); ++i)
    for (size_t j = 0; j < contract.size(); ++j)
      if (contract[j].isCapture && contract[i].name == "d_" + contract[j].name)
        gradients.emplace_back(i, j);
  if (desc.kind != Kind::Backward && (desc.kind != Kind::Forward || desc.isCached))
    return;
  for (const Likeness &row : likenesses)
    for (uint8_t dim = 0; dim < 3; ++dim) {
      int place = find(row.name), like = row.like[dim] ? find(row.like[dim]) : -1;
      if (place >= 0 && like >= 0)
        equalExtents.push_back({uint8_t(place), uint8_t(like), dim});
    }
}

Result<const AttentionPlan::Variant *>
AttentionPlan::choose(const Argument *const *arguments) const {
  if (!choosesByPages || k < 0 || arguments[k]->kind != Argument::Kind::View)
    return &variants[0];
  bool hasTable = blockTable >= 0 && arguments[blockTable]->kind != Argument::Kind::Absent;
  int64_t rows = arguments[k]->extents[1];
  for (const Variant &variant : variants)
    if (hasTable ? variant.pageRows > 0 && rows % variant.pageRows == 0 : variant.pageRows == 0)
      return &variant;
  std::string sizes;
  for (const Variant &variant : variants)
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(variant.pageRows);
  return Status::failure(Code::MissingVariant,
                         "'" + bundleName + "' has no variant of '" + entry + "' for " +
                             (hasTable ? "pages of " + std::to_string(rows) + " rows"
                                       : std::string("a cache without a table")) +
                             ", but PAGE_ROWS = " + sizes + "; compile it with --param=PAGE_ROWS=" +
                             std::to_string(hasTable ? mostPageRows(rows) : 0));
}

/// Only of views of the ranks that these dimensions need: the contract, which a run checks later,
/// rejects what is missing, or of another rank.
Status AttentionPlan::checkExtents(const Argument *const *arguments) const {
  auto hasDim = [](const Argument &view, unsigned dim) {
    return view.kind == Argument::Kind::View && view.rank > dim;
  };
  for (const EqualExtent &equal : equalExtents) {
    const Argument &view = *arguments[equal.place], &like = *arguments[equal.like];
    if (view.extents[equal.dim] == like.extents[equal.dim] || !hasDim(view, equal.dim) ||
        !hasDim(like, equal.dim) || view.rank != contract[equal.place].extents.size() ||
        like.rank != contract[equal.like].extents.size())
      continue;
    return Status::failure("argument '" + contract[equal.place].name +
                           "' of attention must have extent " +
                           std::to_string(like.extents[equal.dim]) + " along dimension " +
                           std::to_string(equal.dim) + ", as '" + contract[equal.like].name +
                           "' has, but got " + std::to_string(view.extents[equal.dim]));
  }
  if (!equalExtents.empty() && q >= 0 && k >= 0 && hasDim(*arguments[q], 3) &&
      hasDim(*arguments[k], 3)) {
    int64_t heads = arguments[q]->extents[1], keyHeads = arguments[k]->extents[1];
    if (heads > 0 && (keyHeads <= 0 || heads % keyHeads != 0))
      return Status::failure("the heads of 'q' must be a multiple of those of 'k', but got " +
                             std::to_string(heads) + " and " + std::to_string(keyHeads));
  }
  if (desc.kind == Kind::Decode && !desc.isPacked && q >= 0 && hasDim(*arguments[q], 3) &&
      arguments[q]->extents[2] > desc.maxRows)
    return Status::failure("the queries of a sequence must be at most " +
                           std::to_string(desc.maxRows) +
                           ", max_rows of the description of decoding, but got " +
                           std::to_string(arguments[q]->extents[2]));
  return Status::success();
}

/// The gradient of a capture has the shape of the capture; that of a scalar has one element.
Status AttentionPlan::checkGradients(const Argument *const *arguments) const {
  for (auto [place, of] : gradients) {
    const Argument &gradient = *arguments[place], &capture = *arguments[of];
    if (gradient.kind != Argument::Kind::View)
      continue;
    bool isView = capture.kind == Argument::Kind::View;
    for (unsigned dim = 0; dim < gradient.rank && dim < maxRank; ++dim) {
      int64_t wanted = isView ? capture.extents[dim] : 1;
      if (gradient.extents[dim] != wanted)
        return Status::failure("argument '" + contract[place].name +
                               "' of attention must have extent " + std::to_string(wanted) +
                               " along dimension " + std::to_string(dim) + ", as the capture '" +
                               contract[of].name + "' has, but got " +
                               std::to_string(gradient.extents[dim]));
    }
  }
  return Status::success();
}

Status AttentionPlan::checkWindow(int64_t left, int64_t right) const {
  const int64_t sides[] = {left, right};
  if (!desc.hasWindow && (sides[0] != -1 || sides[1] != -1))
    return Status::failure(std::string("the window of ") + nounOf(desc.kind) +
                           " must be -1 and -1, since it was planned without one, but got " +
                           std::to_string(sides[0]) + " and " + std::to_string(sides[1]) +
                           "; set has_window in the description");
  for (unsigned i = 0; i < 2; ++i)
    if (sides[i] < -1)
      return Status::failure(std::string(windowNames[i]) + " of " + nounOf(desc.kind) +
                             " must be a number of keys, or -1 for no limit, but got " +
                             std::to_string(sides[i]));
  return Status::success();
}

Status AttentionPlan::bind(const Argument *const *arguments, size_t numArguments,
                           Bound &bound) const {
  if (numArguments != contract.size())
    return Status::failure("'" + entry + "' takes " + std::to_string(contract.size()) +
                           " arguments, but got " + std::to_string(numArguments));
  Result<const Variant *> chosen = choose(arguments);
  if (!chosen)
    return chosen.status();
  bound.variant = *chosen;
  if (Status status = checkExtents(arguments); !status)
    return status;
  int64_t sides[2] = {-1, -1};
  for (unsigned i = 0; i < 2; ++i)
    if (windows[i] >= 0 && arguments[windows[i]]->kind == Argument::Kind::Scalar &&
        arguments[windows[i]]->type == ElementType::I32)
      sides[i] = arguments[windows[i]]->integer();
  if (Status status = checkWindow(sides[0], sides[1]); !status)
    return status;
  if (Status status = checkGradients(arguments); !status)
    return status;
  const std::vector<uint8_t> &sources = bound.variant->sources;
  for (size_t i = 0; i < sources.size(); ++i)
    bound.arguments[i] = arguments[sources[i]];
  for (int window : windows)
    if (window >= 0 && arguments[window]->kind == Argument::Kind::Absent)
      for (size_t i = 0; i < sources.size(); ++i)
        if (sources[i] == window)
          bound.arguments[i] = &openSide;
  if (sources.size() < contract.size())
    for (size_t i = 0; i < contract.size(); ++i)
      if (arguments[i]->kind != Argument::Kind::Absent &&
          std::find(sources.begin(), sources.end(), i) == sources.end())
        return Status::failure("'" + entry + "' has no argument '" + contract[i].name +
                               "' for pages of this size, but got one");
  return Status::success();
}

Status AttentionPlan::checkSupport(const Target &target) const {
  for (const Variant &variant : variants)
    if (Status status = variant.operation.checkSupport(target); !status)
      return status;
  return Status::success();
}

Status AttentionPlan::prepare(int device) {
  for (Variant &variant : variants)
    if (Status status = variant.operation.prepare(device); !status)
      return status;
  return Status::success();
}

void AttentionPlan::checkIndices(bool isWanted) {
  for (Variant &variant : variants)
    variant.operation.checkIndices(isWanted);
}

void AttentionPlan::overlapPrevious(bool isWanted) {
  for (Variant &variant : variants)
    variant.operation.overlapPrevious(isWanted);
}

Status AttentionPlan::workspaceSize(const Argument *const *arguments, size_t numArguments,
                                    int device, uint64_t &bytes) const {
  Bound bound;
  if (Status status = bind(arguments, numArguments, bound); !status)
    return status;
  return bound.variant->operation.workspaceSize(bound.arguments, bound.count(), device, bytes);
}

Status AttentionPlan::run(const Argument *const *arguments, size_t numArguments, uint64_t workspace,
                          uint64_t workspaceBytes, cuda::Stream stream) const {
  Bound bound;
  if (Status status = bind(arguments, numArguments, bound); !status)
    return status;
  return bound.variant->operation.run(bound.arguments, bound.count(), workspace, workspaceBytes,
                                      stream);
}

template <typename... Device>
Result<RunReport> AttentionPlan::reportOn(const Argument *const *arguments, size_t numArguments,
                                          Device... device) const {
  Bound bound;
  if (Status status = bind(arguments, numArguments, bound); !status)
    return status;
  Result<RunReport> report =
      bound.variant->operation.report(bound.arguments, bound.count(), device...);
  if (report)
    report->call.replace(0, bound.variant->operation.signature().size(), text);
  return report;
}

Result<RunReport> AttentionPlan::report(const Argument *const *arguments, size_t numArguments,
                                        int device) const {
  return reportOn(arguments, numArguments, device);
}

Result<RunReport> AttentionPlan::report(const Argument *const *arguments, size_t numArguments,
                                        const Target &target, int multiprocessors) const {
  return reportOn<const Target &, int>(arguments, numArguments, target, multiprocessors);
}
