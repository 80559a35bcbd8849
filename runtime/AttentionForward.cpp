// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of attention, forward.

#include "runtime/AttentionForward.h"

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

enum Place : uint8_t { Q, K, V, O, Lse };
constexpr AttentionSignature::View views[] = {
    {"q", true}, {"k", true}, {"v", true}, {"o", true}, {"lse", false}};
constexpr AttentionSignature::Equal equals[] = {{K, 0, Q},   {V, 0, Q},  {O, 0, Q}, {V, 1, K},
                                                {O, 1, Q},   {V, 2, K},  {O, 2, Q}, {Lse, 0, Q},
                                                {Lse, 1, Q}, {Lse, 2, Q}};
constexpr AttentionSignature signature = {views, std::size(views), equals, std::size(equals)};

struct Views {
  const Argument *list[std::size(views)];
  explicit Views(const AttentionForwardArguments &a) : list{&a.q, &a.k, &a.v, &a.o, &a.lse} {}
};

} // namespace

Expected<AttentionForward> AttentionForward::create(const DriverTable &driver,
                                                    std::shared_ptr<const Bundle> bundle,
                                                    const AttentionForwardDesc &desc) {
  Expected<AttentionPlan> plan = AttentionPlan::create(driver, std::move(bundle), desc.entry, desc,
                                                       attentionParams(desc), signature);
  if (!plan)
    return plan.status();
  return AttentionForward(std::move(*plan));
}

Status AttentionForward::workspaceSize(const AttentionForwardArguments &arguments, int device,
                                       uint64_t &bytes) const {
  return plan.workspaceSize(Views(arguments).list, arguments, device, bytes);
}

Status AttentionForward::run(const AttentionForwardArguments &arguments, uint64_t workspace,
                             uint64_t workspaceBytes, cuda::Stream stream) const {
  return plan.run(Views(arguments).list, arguments, workspace, workspaceBytes, stream);
}
