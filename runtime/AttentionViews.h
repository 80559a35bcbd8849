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
  AttentionSignature::View view;
};

namespace forward {
using A = AttentionForwardArguments;
using C = tilewright_attention_forward_args;
enum Number : uint8_t { Q, K, V, O, Lse };
inline constexpr AttentionViewRow<A, C> views[] = {
    {&A::q, &C::q, "q", {"q", true, {Q, Q, Q}}},
    {&A::k, &C::k, "k", {"k", true, {Q, K, K}}},
    {&A::v, &C::v, "v", {"v", true, {Q, K, K}}},
    {&A::o, &C::o, "o", {"o", true, {Q, Q, Q}}},
    {&A::lse, &C::lse, "lse", {"lse", false, {Q, Q, Q}}},
};
} // namespace forward

namespace backward {
using A = AttentionBackwardArguments;
using C = tilewright_attention_backward_args;
enum Number : uint8_t { Q, K, V, O, DO, Lse, DLse, DQ, DK, DV };
inline constexpr AttentionViewRow<A, C> views[] = {
    {&A::q, &C::q, "q", {"q", true, {Q, Q, Q}}},
    {&A::k, &C::k, "k", {"k", true, {Q, K, K}}},
    {&A::v, &C::v, "v", {"v", true, {Q, K, K}}},
    {&A::o, &C::o, "o", {"o", true, {Q, Q, Q}}},
    {&A::dO, &C::d_o, "d_o", {"do", true, {Q, Q, Q}}},
    {&A::lse, &C::lse, "lse", {"lse", true, {Q, Q, Q}}},
    {&A::dLse, &C::d_lse, "d_lse", {"dlse", false, {Q, Q, Q}}},
    {&A::dQ, &C::d_q, "d_q", {"dq", true, {Q, Q, Q}}},
    {&A::dK, &C::d_k, "d_k", {"dk", true, {K, K, K}}},
    {&A::dV, &C::d_v, "d_v", {"dv", true, {V, V, V}}},
};
} // namespace backward

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONVIEWS_H
