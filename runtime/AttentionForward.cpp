// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of attention, forward.

#include "runtime/AttentionForward.h"

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// As listViews has them.
enum Place : uint8_t { Q, K, V, O, Lse };
constexpr AttentionSignature::View views[] = {
    {"q", true}, {"k", true}, {"v", true}, {"o", true}, {"lse", false}};
constexpr AttentionSignature::Equal equals[] = {{K, 0, Q},   {V, 0, Q},  {O, 0, Q}, {V, 1, K},
                                                {O, 1, Q},   {V, 2, K},  {O, 2, Q}, {Lse, 0, Q},
                                                {Lse, 1, Q}, {Lse, 2, Q}};
constexpr AttentionSignature signature = {views, std::size(views), equals, std::size(equals)};

} // namespace

const AttentionSignature &tilewright::runtime::signatureOf(const AttentionForwardDesc &) {
  return signature;
}
