// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of attention, backward: kernels/attention_backward.mlir, or a program with its
// arguments.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONBACKWARD_H
#define TILEWRIGHT_RUNTIME_ATTENTIONBACKWARD_H

#include "runtime/AttentionPlan.h"

namespace tilewright::runtime {

struct AttentionBackwardDesc : AttentionDesc {
  /// Runs are bit-identical, at the price of two more products for each pair.
  bool isDeterministic = false;
  /// Takes optional places for the gradients of captures: d_x for x, among the captures.
  bool hasCaptureGradients = false;
  std::string entry = "attention_backward"; // kernel or program of the bundle
};

struct AttentionBackwardArguments : AttentionArguments {
  Argument q;          // [B, Hq, Sq, D]
  Argument k;          // [B, Hkv, Skv, D]; Hq is a multiple of Hkv
  Argument v;          // [B, Hkv, Skv, DV]
  Argument o;          // [B, Hq, Sq, DV], of the forward
  Argument dO;         // [B, Hq, Sq, DV], of any strides
  Argument lse;        // [B, Hq, Sq], of the forward
  Argument dLse;       // [B, Hq, Sq], optional
  Argument dQ, dK, dV; // of the shapes of q, k and v; all of them is written
};

class AttentionBackward {
public:
  /// Needs no GPU. MissingVariant, with the command that makes it, where the bundle has no such
  /// code.
  static Expected<AttentionBackward> create(const DriverTable &driver,
                                            std::shared_ptr<const Bundle> bundle,
                                            const AttentionBackwardDesc &desc);

  /// Whether there is code for such a device. Needs no GPU.
  Status checkSupport(const Target &target) const { return plan.checkSupport(target); }
  /// Names of the captures that run takes.
  const std::vector<std::string> &captures() const { return plan.captures(); }

  Status prepare(int device) { return plan.prepare(device); }
  /// As Operation::checkIndices.
  void checkIndices(bool isWanted) { plan.checkIndices(isWanted); }
  Status workspaceSize(const AttentionBackwardArguments &arguments, int device,
                       uint64_t &bytes) const;
  Status run(const AttentionBackwardArguments &arguments, uint64_t workspace,
             uint64_t workspaceBytes, cuda::Stream stream) const;

private:
  explicit AttentionBackward(AttentionPlan plan) : plan(std::move(plan)) {}
  AttentionPlan plan;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONBACKWARD_H
