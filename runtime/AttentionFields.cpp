// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the argument of each field by its name.

#include "runtime/AttentionFields.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

enum SourceKind : uint8_t { FromCapture = 252, FromScale, FromWindowLeft, FromWindowRight };

constexpr const char *scalarNames[] = {"scale", "window_left", "window_right"};
/// Arguments of features that no struct has fields for.
constexpr const char *furtherNames[] = {"cu_seqlens_q", "cu_seqlens_k", "block_table",   "seq_lens",
                                        "leftpad",      "kv_indices",   "kv_num_blocks", "d_score",
                                        "q_descale",    "k_descale",    "v_descale"};

bool isFurther(const std::string &name) {
  return std::find(std::begin(furtherNames), std::end(furtherNames), name) !=
         std::end(furtherNames);
}

} // namespace

Result<AttentionFields> AttentionFields::create(const DriverTable &driver,
                                                std::shared_ptr<const Bundle> bundle,
                                                const AttentionDesc &desc,
                                                const AttentionField *fields, size_t numFields) {
  Result<AttentionPlan> plan = AttentionPlan::create(driver, std::move(bundle), desc);
  if (!plan)
    return plan.status();
  AttentionFields result(std::move(*plan), fields, numFields);
  result.entry = entryOf(desc);
  result.noun = nounOf(desc.kind);
  for (const ArgumentSpec &argument : result.plan.arguments()) {
    uint8_t source = FromCapture;
    for (size_t i = 0; i < numFields; ++i)
      if (argument.name == fields[i].name)
        source = uint8_t(i);
    for (unsigned i = 0; i < std::size(scalarNames); ++i)
      if (argument.name == scalarNames[i])
        source = uint8_t(FromScale + i);
    bool mayBeAbsent = argument.isOptional || argument.byDefault;
    if (source == FromCapture && !argument.isCapture && !mayBeAbsent && !isFurther(argument.name))
      return Status::failure("the arguments of '" + result.entry + "' must be those of " +
                             result.noun + ", captures, or optional, but got '" + argument.name +
                             "'");
    if (source == FromCapture)
      result.captureNames.push_back(argument.name);
    result.sources.push_back(source);
  }
  auto has = [&](uint8_t source) {
    return std::find(result.sources.begin(), result.sources.end(), source) != result.sources.end();
  };
  result.hasWindows = has(FromWindowLeft) && has(FromWindowRight);
  for (size_t i = 0; i < numFields; ++i)
    if (fields[i].isRequired && !has(uint8_t(i)))
      return Status::failure("'" + result.entry + "' must have the argument '" + fields[i].name +
                             "' of " + result.noun + ", but has none of this name");
  return result;
}

Status AttentionFields::bind(const Argument *const *views, const AttentionArguments &arguments,
                             Bound &bound) const {
  for (size_t i = 0; i < numFields; ++i)
    if (views[i]->kind != Argument::Kind::Absent && !fields[i].isRequired &&
        std::find(sources.begin(), sources.end(), i) == sources.end())
      return Status::failure("'" + entry + "' has no argument '" + fields[i].name +
                             "', but got one");
  if (arguments.numCaptures != captureNames.size())
    return Status::failure(noun + " takes " + std::to_string(captureNames.size()) +
                           " captures, but got " + std::to_string(arguments.numCaptures));
  if (Status status = plan.checkWindow(arguments.windowLeft, arguments.windowRight);
      !hasWindows && !status)
    return status;
  bound.scale = Argument::scalar(arguments.scale);
  bound.windowLeft = Argument::scalar(arguments.windowLeft);
  bound.windowRight = Argument::scalar(arguments.windowRight);
  size_t capture = 0;
  for (size_t i = 0; i < sources.size(); ++i)
    switch (sources[i]) {
    case FromCapture:
      bound.arguments[i] = &arguments.captures[capture++];
      break;
    case FromScale:
      bound.arguments[i] = &bound.scale;
      break;
    case FromWindowLeft:
      bound.arguments[i] = &bound.windowLeft;
      break;
    case FromWindowRight:
      bound.arguments[i] = &bound.windowRight;
      break;
    default:
      bound.arguments[i] = views[sources[i]];
    }
  return Status::success();
}

Status AttentionFields::workspaceSize(const Argument *const *views,
                                      const AttentionArguments &arguments, int device,
                                      uint64_t &bytes) const {
  Bound bound;
  if (Status status = bind(views, arguments, bound); !status)
    return status;
  return plan.workspaceSize(bound.arguments, sources.size(), device, bytes);
}

Status AttentionFields::run(const Argument *const *views, const AttentionArguments &arguments,
                            uint64_t workspace, uint64_t workspaceBytes,
                            cuda::Stream stream) const {
  Bound bound;
  if (Status status = bind(views, arguments, bound); !status)
    return status;
  return plan.run(bound.arguments, sources.size(), workspace, workspaceBytes, stream);
}

Result<RunReport> AttentionFields::report(const Argument *const *views,
                                          const AttentionArguments &arguments, const Target &target,
                                          int multiprocessors) const {
  Bound bound;
  if (Status status = bind(views, arguments, bound); !status)
    return status;
  return plan.report(bound.arguments, sources.size(), target, multiprocessors);
}
