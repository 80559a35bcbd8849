// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of attention, forward: kernels/attention_forward.mlir, or a kernel with its arguments.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONFORWARD_H
#define TILEWRIGHT_RUNTIME_ATTENTIONFORWARD_H

#include "runtime/AttentionPlan.h"

namespace tilewright::runtime {

struct AttentionForwardDesc : AttentionDesc {
  std::string entry = "attention_forward"; // kernel or program of the bundle
};

struct AttentionForwardArguments : AttentionArguments {
  Argument q;   // [B, Hq, Sq, D]
  Argument k;   // [B, Hkv, Skv, D]; Hq is a multiple of Hkv
  Argument v;   // [B, Hkv, Skv, DV]
  Argument o;   // [B, Hq, Sq, DV]
  Argument lse; // [B, Hq, Sq], optional
};

class AttentionForward {
public:
  /// Needs no GPU. MissingVariant, with the command that makes it, where the bundle has no such
  /// code.
  static Expected<AttentionForward> create(const DriverTable &driver,
                                           std::shared_ptr<const Bundle> bundle,
                                           const AttentionForwardDesc &desc);

  /// Whether there is code for such a device. Needs no GPU.
  Status checkSupport(const Target &target) const { return plan.checkSupport(target); }
  /// Names of the captures that run takes.
  const std::vector<std::string> &captures() const { return plan.captures(); }

  Status prepare(int device) { return plan.prepare(device); }
  /// As Operation::checkIndices.
  void checkIndices(bool isWanted) { plan.checkIndices(isWanted); }
  Status workspaceSize(const AttentionForwardArguments &arguments, int device,
                       uint64_t &bytes) const;
  Status run(const AttentionForwardArguments &arguments, uint64_t workspace,
             uint64_t workspaceBytes, cuda::Stream stream) const;

private:
  explicit AttentionForward(AttentionPlan plan) : plan(std::move(plan)) {}
  AttentionPlan plan;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONFORWARD_H
