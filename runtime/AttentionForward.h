// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of attention, forward: kernels/attention_forward.mlir, or a kernel with its arguments.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONFORWARD_H
#define TILEWRIGHT_RUNTIME_ATTENTIONFORWARD_H

#include "runtime/Operation.h"

namespace tilewright::runtime {

struct AttentionForwardDesc {
  enum class Causal { None, TopLeft, BottomRight };

  ElementType type = ElementType::BF16; // of q, k, v and o
  int64_t headDim = 0;
  int64_t valueDim = 0; // 0: headDim
  Causal causal = Causal::None;
  bool hasWindow = false;
  std::string entry = "attention_forward"; // kernel or program of the bundle
};

struct AttentionForwardArguments {
  Argument q;   // [B, Hq, Sq, D]
  Argument k;   // [B, Hkv, Skv, D]; Hq is a multiple of Hkv
  Argument v;   // [B, Hkv, Skv, DV]
  Argument o;   // [B, Hq, Sq, DV]
  Argument lse; // [B, Hq, Sq], optional
  float scale = 1;
  int32_t windowLeft = -1, windowRight = -1;
  /// Captures of replaced functions, in the order of captures().
  const Argument *captures = nullptr;
  size_t numCaptures = 0;
};

class AttentionForward {
public:
  /// Needs no GPU. MissingVariant, with the command that makes it, where the bundle has no such
  /// code.
  static Expected<AttentionForward> create(const DriverTable &driver,
                                           std::shared_ptr<const Bundle> bundle,
                                           const AttentionForwardDesc &desc);

  /// Whether there is code for such a device. Needs no GPU.
  Status checkSupport(const Target &target) const { return operation.checkSupport(target); }
  /// Names of the captures that run takes.
  const std::vector<std::string> &captures() const { return captureNames; }

  Status prepare(int device) { return operation.prepare(device); }
  Status workspaceSize(const AttentionForwardArguments &arguments, int device,
                       uint64_t &bytes) const;
  Status run(const AttentionForwardArguments &arguments, uint64_t workspace,
             uint64_t workspaceBytes, cuda::Stream stream) const;

private:
  enum class Role : uint8_t { Q, K, V, O, Lse, Scale, WindowLeft, WindowRight, Capture };
  struct Scalars {
    Argument scale, windowLeft, windowRight;
  };
  explicit AttentionForward(Operation operation) : operation(std::move(operation)) {}
  Status bind(const AttentionForwardArguments &arguments, Scalars &scalars,
              const Argument **bound) const;

  Operation operation;
  std::vector<Role> roles; // of each argument of the contract
  std::vector<std::string> captureNames;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONFORWARD_H
