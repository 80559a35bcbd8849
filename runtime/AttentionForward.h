// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of attention, forward: kernels/attention_forward.mlir, or a kernel with its arguments.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONFORWARD_H
#define TILEWRIGHT_RUNTIME_ATTENTIONFORWARD_H

#include "runtime/AttentionFields.h"

namespace tilewright::runtime {

struct AttentionForwardDesc : AttentionDesc {
  AttentionForwardDesc() { kind = Kind::Forward; }
};

struct AttentionForwardArguments : AttentionArguments {
  Argument q;   // [B, Hq, Sq, D]
  Argument k;   // [B, Hkv, Skv, D]; Hq is a multiple of Hkv
  Argument v;   // [B, Hkv, Skv, DV]
  Argument o;   // [B, Hq, Sq, DV]
  Argument lse; // [B, Hq, Sq], optional
};

std::array<const Argument *, 5> listViews(const AttentionForwardArguments &arguments);
const std::array<AttentionField, 5> &fieldsOf(const AttentionForwardDesc &desc);

using AttentionForward = Attention<AttentionForwardDesc, AttentionForwardArguments>;

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONFORWARD_H
