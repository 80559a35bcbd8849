// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of the tables of views that plans need.

#include "runtime/AttentionViews.h"

using namespace tilewright;
using namespace tilewright::runtime;

template <size_t n, typename Row>
static constexpr std::array<AttentionField, n> fieldsIn(const Row (&rows)[n]) {
  std::array<AttentionField, n> fields{};
  for (size_t i = 0; i < n; ++i)
    fields[i] = rows[i].view;
  return fields;
}

template <size_t n, typename Row, typename Arguments>
static std::array<const Argument *, n> list(const Row (&rows)[n], const Arguments &arguments) {
  std::array<const Argument *, n> views;
  for (size_t i = 0; i < n; ++i)
    views[i] = &(arguments.*rows[i].place);
  return views;
}

const std::array<AttentionField, 5> &runtime::fieldsOf(const AttentionForwardDesc &) {
  static constexpr auto fields = fieldsIn(forward::views);
  return fields;
}
const std::array<AttentionField, 10> &runtime::fieldsOf(const AttentionBackwardDesc &) {
  static constexpr auto fields = fieldsIn(backward::views);
  return fields;
}

std::array<const Argument *, 5> runtime::listViews(const AttentionForwardArguments &arguments) {
  return list(forward::views, arguments);
}
std::array<const Argument *, 10> runtime::listViews(const AttentionBackwardArguments &arguments) {
  return list(backward::views, arguments);
}
