// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The views of attention, one row each: used by the plans and the C interface. The structs of a
// call (AttentionForward.h, AttentionBackward.h, tilewright.h) declare its fields.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONVIEWS_H
#define TILEWRIGHT_RUNTIME_ATTENTIONVIEWS_H

#include "runtime/AttentionBackward.h"
#include "runtime/AttentionForward.h"
#include "runtime/tilewright.h"

namespace tilewright::runtime {

template <typename Arguments, typename Args> struct AttentionViewRow {
  Argument Arguments::*place;
  const tilewright_view *Args::*field;
  const char *fieldName;
  AttentionField view;
};

namespace forward {
using A = AttentionForwardArguments;
using C = tilewright_attention_forward_args;
inline constexpr AttentionViewRow<A, C> views[] = {
    {&A::q, &C::q, "q", {"q", true}},          {&A::k, &C::k, "k", {"k", true}},
    {&A::v, &C::v, "v", {"v", true}},          {&A::o, &C::o, "o", {"o", true}},
    {&A::lse, &C::lse, "lse", {"lse", false}},
};
} // namespace forward

namespace backward {
using A = AttentionBackwardArguments;
using C = tilewright_attention_backward_args;
inline constexpr AttentionViewRow<A, C> views[] = {
    {&A::q, &C::q, "q", {"q", true}},
    {&A::k, &C::k, "k", {"k", true}},
    {&A::v, &C::v, "v", {"v", true}},
    {&A::o, &C::o, "o", {"o", true}},
    {&A::dO, &C::d_o, "d_o", {"do", true}},
    {&A::lse, &C::lse, "lse", {"lse", true}},
    {&A::dLse, &C::d_lse, "d_lse", {"dlse", false}},
    {&A::dQ, &C::d_q, "d_q", {"dq", true}},
    {&A::dK, &C::d_k, "d_k", {"dk", true}},
    {&A::dV, &C::d_v, "d_v", {"dv", true}},
};
} // namespace backward

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONVIEWS_H
