// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds the arguments of attention to the contract of an entry, by name.

#include "runtime/AttentionBackward.h"

#include <algorithm>
#include <string_view>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

enum SourceKind : uint8_t { FromCapture = 252, FromScale, FromWindowLeft, FromWindowRight };

constexpr const char *scalarNames[] = {"scale", "window_left", "window_right"};

/// The dense form, without lists of blocks, of an entry that also supports packed sequences or
/// lists, which a bundle may also contain.
Params ofDense(const Bundle &bundle, const std::string &entry, Params params) {
  auto has = [&](const auto &specs, std::string_view name) {
    return std::any_of(specs.begin(), specs.end(), [&](const auto &spec) {
      return spec.name == entry &&
             std::any_of(spec.params.begin(), spec.params.end(),
                         [&](const auto &param) { return param.first == name; });
    });
  };
  const Manifest &manifest = bundle.manifest();
  for (const char *name : {"PACKED", "LISTED"})
    if (has(manifest.programs, name) || has(manifest.kernels, name))
      params.emplace_back(name, Expr::flag(false));
  return params;
}

} // namespace

Params tilewright::runtime::attentionParams(const AttentionDesc &desc) {
  static const char *const causal[] = {"none", "top_left", "bottom_right"};
  return {{"D", Expr::integer(desc.headDim)},
          {"DV", Expr::integer(desc.valueDim ? desc.valueDim : desc.headDim)},
          {"T", Expr::symbol(Expr::Kind::Type, std::string(elementTypeName(desc.type)))},
          {"CAUSAL", Expr::symbol(Expr::Kind::Enum, causal[unsigned(desc.causal)])},
          {"WINDOW", Expr::flag(desc.hasWindow)}};
}

Params tilewright::runtime::paramsOf(const AttentionBackwardDesc &desc) {
  Params params = attentionParams(desc);
  params.emplace_back("DETERMINISTIC", Expr::flag(desc.isDeterministic));
  if (desc.hasCaptureGradients) // otherwise both are suitable
    params.emplace_back("CAPTURE_GRADIENTS", Expr::flag(true));
  return params;
}

Result<AttentionPlan> AttentionPlan::create(const DriverTable &driver,
                                            std::shared_ptr<const Bundle> bundle,
                                            const std::string &entry, const AttentionDesc &desc,
                                            const Params &params,
                                            const AttentionSignature &signature) {
  if (desc.headDim < 1 || desc.valueDim < 0)
    return Status::failure("the head dimension of attention must be positive, but got " +
                           std::to_string(desc.headDim) + " and, for values, " +
                           std::to_string(desc.valueDim));
  Params dense = ofDense(*bundle, entry, params);
  Result<Operation> operation = Operation::create(driver, std::move(bundle), entry, dense);
  if (!operation)
    return operation.status();
  AttentionPlan plan(std::move(*operation), signature, entry);
  plan.ranks.resize(signature.numViews);
  plan.hasWindow = desc.hasWindow;
  for (const ArgumentSpec &argument : plan.operation.arguments()) {
    uint8_t source = FromCapture;
    for (size_t i = 0; i < signature.numViews; ++i)
      if (argument.name == signature.views[i].name) {
        source = uint8_t(i);
        plan.ranks[i] = uint8_t(argument.extents.size());
      }
    for (unsigned i = 0; i < std::size(scalarNames); ++i)
      if (argument.name == scalarNames[i])
        source = uint8_t(FromScale + i);
    if (source == FromCapture && !argument.isCapture && !argument.isOptional)
      return Status::failure("'" + entry + "' takes '" + argument.name +
                             "', which is not an argument of attention");
    if (source == FromCapture)
      plan.captureNames.push_back(argument.name);
    if (source == FromScale)
      plan.hasWideScale = argument.type == ElementType::F64;
    plan.sources.push_back(source);
  }
  const std::vector<std::string> &names = plan.captureNames;
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = 0; j < names.size(); ++j)
      if (names[i] == "d_" + names[j])
        plan.gradients.emplace_back(i, j);
  for (size_t i = 0; i < signature.numViews; ++i)
    if (signature.views[i].isRequired &&
        std::find(plan.sources.begin(), plan.sources.end(), i) == plan.sources.end())
      return Status::failure("'" + entry + "' has no argument '" + signature.views[i].name +
                             "', which attention requires");
  return plan;
}

/// Checks that the contract of the entry cannot express: equal extents. Absent views and other
/// ranks are not compared here: the contract rejects them with the name of the view that is wrong.
Status AttentionPlan::checkViews(const Argument *const *views) const {
  auto isComparable = [&](size_t view) {
    return views[view]->kind == Argument::Kind::View && views[view]->rank == ranks[view];
  };
  auto quoted = [&](size_t view) { return std::string("'") + signature->views[view].name + "'"; };
  for (size_t i = 0; i < signature->numViews; ++i)
    for (size_t dim = 0; dim < std::size(signature->views[i].like); ++dim) {
      size_t like = signature->views[i].like[dim];
      int64_t wanted = views[like]->extents[dim], got = views[i]->extents[dim];
      if (isComparable(i) && isComparable(like) && got != wanted)
        return Status::failure("argument " + quoted(i) + " of attention must have extent " +
                               std::to_string(wanted) + " along dimension " + std::to_string(dim) +
                               ", as " + quoted(like) + " has, but got " + std::to_string(got));
    }
  int64_t heads = views[0]->extents[1], keyHeads = views[1]->extents[1];
  if (isComparable(0) && isComparable(1) && heads > 0 && (keyHeads <= 0 || heads % keyHeads != 0))
    return Status::failure("the heads of 'q' must be a multiple of those of 'k', but got " +
                           std::to_string(heads) + " and " + std::to_string(keyHeads));
  for (size_t i = 0; i < signature->numViews; ++i)
    if (views[i]->kind != Argument::Kind::Absent && !signature->views[i].isRequired &&
        std::find(sources.begin(), sources.end(), i) == sources.end())
      return Status::failure("'" + entry + "' has no argument " + quoted(i) + ", but got one");
  return Status::success();
}

/// The gradient of a capture has the shape of the capture; that of a scalar has one element.
Status AttentionPlan::checkGradients(const AttentionArguments &arguments) const {
  for (auto [place, of] : gradients) {
    const Argument &gradient = arguments.captures[place], &capture = arguments.captures[of];
    if (gradient.kind != Argument::Kind::View)
      continue;
    bool isView = capture.kind == Argument::Kind::View;
    for (unsigned dim = 0; dim < gradient.rank && dim < maxRank; ++dim) {
      int64_t wanted = isView ? capture.extents[dim] : 1;
      if (gradient.extents[dim] != wanted)
        return Status::failure("argument '" + captureNames[place] +
                               "' of attention must have extent " + std::to_string(wanted) +
                               " along dimension " + std::to_string(dim) + ", as the capture '" +
                               captureNames[of] + "' has, but got " +
                               std::to_string(gradient.extents[dim]));
    }
  }
  return Status::success();
}

Status AttentionPlan::bind(const Argument *const *views, const AttentionArguments &arguments,
                           Scalars &scalars, const Argument **bound) const {
  if (Status status = checkViews(views); !status)
    return status;
  if (!hasWindow && (arguments.windowLeft != -1 || arguments.windowRight != -1))
    return Status::failure(
        "the window of attention must be -1 and -1, since it was planned without one, but got " +
        std::to_string(arguments.windowLeft) + " and " + std::to_string(arguments.windowRight) +
        "; set has_window in the description");
  for (auto [name, side] : {std::pair("window_left", arguments.windowLeft),
                            std::pair("window_right", arguments.windowRight)})
    if (side < -1)
      return Status::failure(
          std::string(name) +
          " of attention must be a number of keys, or -1 for no limit, but got " +
          std::to_string(side));
  if (arguments.numCaptures != captureNames.size())
    return Status::failure("attention takes " + std::to_string(captureNames.size()) +
                           " captures, but got " + std::to_string(arguments.numCaptures));
  if (Status status = checkGradients(arguments); !status)
    return status;
  scalars.scale =
      hasWideScale ? Argument::scalar(arguments.scale) : Argument::scalar(float(arguments.scale));
  scalars.windowLeft = Argument::scalar(arguments.windowLeft);
  scalars.windowRight = Argument::scalar(arguments.windowRight);
  size_t capture = 0;
  for (size_t i = 0; i < sources.size(); ++i)
    switch (sources[i]) {
    case FromCapture:
      bound[i] = &arguments.captures[capture++];
      break;
    case FromScale:
      bound[i] = &scalars.scale;
      break;
    case FromWindowLeft:
      bound[i] = &scalars.windowLeft;
      break;
    case FromWindowRight:
      bound[i] = &scalars.windowRight;
      break;
    default:
      bound[i] = views[sources[i]];
    }
  return Status::success();
}

Status AttentionPlan::workspaceSize(const Argument *const *views,
                                    const AttentionArguments &arguments, int device,
                                    uint64_t &bytes) const {
  Scalars scalars;
  const Argument *bound[maxArguments];
  if (Status status = bind(views, arguments, scalars, bound); !status)
    return status;
  return operation.workspaceSize(bound, sources.size(), device, bytes);
}

Status AttentionPlan::run(const Argument *const *views, const AttentionArguments &arguments,
                          uint64_t workspace, uint64_t workspaceBytes, cuda::Stream stream) const {
  Scalars scalars;
  const Argument *bound[maxArguments];
  if (Status status = bind(views, arguments, scalars, bound); !status)
    return status;
  return operation.run(bound, sources.size(), workspace, workspaceBytes, stream);
}
