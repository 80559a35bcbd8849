// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of the tables of views that plans need.

#include "runtime/AttentionViews.h"

using namespace tilewright;
using namespace tilewright::runtime;

template <size_t n, typename Row>
static constexpr std::array<AttentionSignature::View, n> viewsOf(const Row (&rows)[n]) {
  std::array<AttentionSignature::View, n> views{};
  for (size_t i = 0; i < n; ++i)
    views[i] = rows[i].view;
  return views;
}

template <size_t n, typename Row, typename Arguments>
static std::array<const Argument *, n> list(const Row (&rows)[n], const Arguments &arguments) {
  std::array<const Argument *, n> views;
  for (size_t i = 0; i < n; ++i)
    views[i] = &(arguments.*rows[i].place);
  return views;
}

const AttentionSignature &runtime::signatureOf(const AttentionForwardDesc &) {
  static constexpr auto views = viewsOf(forward::views);
  static constexpr AttentionSignature signature{views.data(), views.size()};
  return signature;
}
const AttentionSignature &runtime::signatureOf(const AttentionBackwardDesc &) {
  static constexpr auto views = viewsOf(backward::views);
  static constexpr AttentionSignature signature{views.data(), views.size()};
  return signature;
}

std::array<const Argument *, 5> runtime::listViews(const AttentionForwardArguments &arguments) {
  return list(forward::views, arguments);
}
std::array<const Argument *, 10> runtime::listViews(const AttentionBackwardArguments &arguments) {
  return list(backward::views, arguments);
}
