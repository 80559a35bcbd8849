// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of attention, backward.

#include "runtime/AttentionBackward.h"

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// As listViews has them.
enum Place : uint8_t { Q, K, V, O, DO, Lse, DLse, DQ, DK, DV };
constexpr AttentionSignature::View views[] = {
    {"q", true},   {"k", true},     {"v", true},  {"o", true},  {"do", true},
    {"lse", true}, {"dlse", false}, {"dq", true}, {"dk", true}, {"dv", true}};
constexpr AttentionSignature::Equal equals[] = {
    {K, 0, Q},    {V, 0, Q},    {V, 1, K},  {V, 2, K},   {O, 0, Q},   {O, 1, Q},   {O, 2, Q},
    {DO, 0, Q},   {DO, 1, Q},   {DO, 2, Q}, {Lse, 0, Q}, {Lse, 1, Q}, {Lse, 2, Q}, {DLse, 0, Q},
    {DLse, 1, Q}, {DLse, 2, Q}, {DQ, 0, Q}, {DQ, 1, Q},  {DQ, 2, Q},  {DK, 0, K},  {DK, 1, K},
    {DK, 2, K},   {DV, 0, V},   {DV, 1, V}, {DV, 2, V}};
constexpr AttentionSignature signature = {views, std::size(views), equals, std::size(equals)};

} // namespace

Params tilewright::runtime::paramsOf(const AttentionBackwardDesc &desc) {
  Params params = attentionParams(desc);
  params.emplace_back("DETERMINISTIC", Expr::flag(desc.isDeterministic));
  if (desc.hasCaptureGradients) // else either will do
    params.emplace_back("CAPTURE_GRADIENTS", Expr::flag(true));
  return params;
}

const AttentionSignature &tilewright::runtime::signatureOf(const AttentionBackwardDesc &) {
  return signature;
}
