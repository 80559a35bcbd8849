// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of attention, forward.

#include "runtime/AttentionForward.h"

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

Params paramsOf(const AttentionForwardDesc &desc) {
  static const char *const causal[] = {"none", "top_left", "bottom_right"};
  return {{"D", Expr::integer(desc.headDim)},
          {"DV", Expr::integer(desc.valueDim ? desc.valueDim : desc.headDim)},
          {"T", Expr::symbol(Expr::Kind::Type, std::string(elementTypeName(desc.type)))},
          {"CAUSAL", Expr::symbol(Expr::Kind::Enum, causal[unsigned(desc.causal)])},
          {"WINDOW", Expr::flag(desc.hasWindow)}};
}

Status mismatch(const char *name, unsigned dim, int64_t expected, int64_t got, const char *like) {
  return Status::failure(Code::InvalidArgument,
                         std::string("argument '") + name + "' of attention must have extent " +
                             std::to_string(expected) + " along dimension " + std::to_string(dim) +
                             ", as '" + like + "' has, but got " + std::to_string(got));
}

/// What the contract of the kernel cannot say: extents that are equal. Ranks are checked later, and
/// what a view of a smaller rank lacks is zero here.
Status checkShapes(const AttentionForwardArguments &arguments) {
  const Argument &q = arguments.q, &k = arguments.k, &v = arguments.v, &o = arguments.o;
  struct Equal {
    const char *name;
    const Argument &view;
    unsigned dim;
    const char *like;
    const Argument &model;
  };
  const Equal equals[] = {{"k", k, 0, "q", q},
                          {"v", v, 0, "q", q},
                          {"o", o, 0, "q", q},
                          {"v", v, 1, "k", k},
                          {"o", o, 1, "q", q},
                          {"v", v, 2, "k", k},
                          {"o", o, 2, "q", q},
                          {"lse", arguments.lse, 0, "q", q},
                          {"lse", arguments.lse, 1, "q", q},
                          {"lse", arguments.lse, 2, "q", q}};
  for (const Equal &equal : equals)
    if (equal.view.kind == Argument::Kind::View &&
        equal.view.extents[equal.dim] != equal.model.extents[equal.dim])
      return mismatch(equal.name, equal.dim, equal.model.extents[equal.dim],
                      equal.view.extents[equal.dim], equal.like);
  int64_t heads = q.extents[1], keyHeads = k.extents[1];
  if (heads > 0 && (keyHeads <= 0 || heads % keyHeads != 0))
    return Status::failure(Code::InvalidArgument,
                           "the heads of 'q' must be a multiple of those of 'k', but got " +
                               std::to_string(heads) + " and " + std::to_string(keyHeads));
  return Status::success();
}

} // namespace

Expected<AttentionForward> AttentionForward::create(const DriverTable &driver,
                                                    std::shared_ptr<const Bundle> bundle,
                                                    const AttentionForwardDesc &desc) {
  if (desc.headDim < 1 || desc.valueDim < 0)
    return Status::failure(Code::InvalidArgument,
                           "the head dimension of attention must be positive, but got " +
                               std::to_string(desc.headDim) + " and, for values, " +
                               std::to_string(desc.valueDim));
  Expected<Operation> operation =
      Operation::create(driver, std::move(bundle), desc.entry, paramsOf(desc));
  if (!operation)
    return operation.status();
  AttentionForward plan(std::move(*operation));
  static const char *const names[] = {"q",   "k",     "v",           "o",
                                      "lse", "scale", "window_left", "window_right"};
  bool isFound[4] = {};
  for (const ArgumentSpec &argument : plan.operation.arguments()) {
    Role role = Role::Capture;
    for (unsigned i = 0; i < std::size(names); ++i)
      if (argument.name == names[i])
        role = Role(i);
    if (role <= Role::O)
      isFound[unsigned(role)] = true;
    if (role == Role::Capture && !argument.isCapture)
      return Status::failure(Code::InvalidArgument, "'" + desc.entry + "' takes '" + argument.name +
                                                        "', which is no argument of attention");
    if (role == Role::Capture)
      plan.captureNames.push_back(argument.name);
    plan.roles.push_back(role);
  }
  for (unsigned i = 0; i < 4; ++i)
    if (!isFound[i])
      return Status::failure(Code::InvalidArgument, "'" + desc.entry + "' takes no '" + names[i] +
                                                        "', which attention has");
  return plan;
}

Status AttentionForward::bind(const AttentionForwardArguments &arguments, Scalars &scalars,
                              const Argument **bound) const {
  if (Status status = checkShapes(arguments); !status)
    return status;
  if (arguments.numCaptures != captureNames.size())
    return Status::failure(Code::InvalidArgument,
                           "attention takes " + std::to_string(captureNames.size()) +
                               " captures, but got " + std::to_string(arguments.numCaptures));
  scalars.scale = Argument::scalar(arguments.scale);
  scalars.windowLeft = Argument::scalar(arguments.windowLeft);
  scalars.windowRight = Argument::scalar(arguments.windowRight);
  const Argument *fixed[] = {&arguments.q,        &arguments.k,        &arguments.v,
                             &arguments.o,        &arguments.lse,      &scalars.scale,
                             &scalars.windowLeft, &scalars.windowRight};
  size_t capture = 0;
  for (size_t i = 0; i < roles.size(); ++i)
    bound[i] =
        roles[i] == Role::Capture ? &arguments.captures[capture++] : fixed[unsigned(roles[i])];
  return Status::success();
}

Status AttentionForward::workspaceSize(const AttentionForwardArguments &arguments, int device,
                                       uint64_t &bytes) const {
  Scalars scalars;
  const Argument *bound[maxArguments];
  if (Status status = bind(arguments, scalars, bound); !status)
    return status;
  return operation.workspaceSize(bound, roles.size(), device, bytes);
}

Status AttentionForward::run(const AttentionForwardArguments &arguments, uint64_t workspace,
                             uint64_t workspaceBytes, cuda::Stream stream) const {
  Scalars scalars;
  const Argument *bound[maxArguments];
  if (Status status = bind(arguments, scalars, bound); !status)
    return status;
  return operation.run(bound, roles.size(), workspace, workspaceBytes, stream);
}
