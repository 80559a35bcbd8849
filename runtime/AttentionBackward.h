// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of attention, backward: kernels/attention_backward.mlir, or a program with its
// arguments.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONBACKWARD_H
#define TILEWRIGHT_RUNTIME_ATTENTIONBACKWARD_H

#include "runtime/AttentionFields.h"

namespace tilewright::runtime {

struct AttentionBackwardDesc : AttentionDesc {
  AttentionBackwardDesc() { kind = Kind::Backward; }
};

struct AttentionBackwardArguments : AttentionArguments {
  Argument q;          // [B, Hq, Sq, D]
  Argument k;          // [B, Hkv, Skv, D]; Hq is a multiple of Hkv
  Argument v;          // [B, Hkv, Skv, DV]
  Argument o;          // [B, Hq, Sq, DV], from the forward pass
  Argument dO;         // [B, Hq, Sq, DV], any strides
  Argument lse;        // [B, Hq, Sq], from the forward pass
  Argument dLse;       // [B, Hq, Sq], optional
  Argument dQ, dK, dV; // shapes of q, k and v; written entirely
};

std::array<const Argument *, 10> listViews(const AttentionBackwardArguments &arguments);
const std::array<AttentionField, 10> &fieldsOf(const AttentionBackwardDesc &desc);

using AttentionBackward = Attention<AttentionBackwardDesc, AttentionBackwardArguments>;

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONBACKWARD_H
