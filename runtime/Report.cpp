// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Report.h"

#include <cstdio>

using namespace tilewright;
using namespace tilewright::runtime;

std::string tilewright::runtime::toVariantText(const Params &params) {
  std::string text;
  for (const auto &param : params) {
    bool isWord = param.second.kind() == Expr::Kind::Enum;
    text += (text.empty() ? "" : ",") + param.first + "=" +
            (isWord ? param.second.text() : param.second.toString());
  }
  return text;
}

static std::string listOf(const int64_t *numbers, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i ? "," : "") + std::to_string(numbers[i]);
  return text;
}

std::string tilewright::runtime::toCallText(const std::vector<ArgumentSpec> &contract,
                                            const Argument *const *arguments) {
  constexpr uint64_t most = 256; // what the runtime aligns workspaces to
  std::string text;
  for (size_t i = 0; i < contract.size(); ++i) {
    const Argument &argument = *arguments[i];
    if (argument.kind == Argument::Kind::Absent)
      continue;
    text += (text.empty() ? "" : " ") + contract[i].name + "=" +
            std::string(elementTypeName(argument.type));
    if (argument.kind == Argument::Kind::Scalar) {
      char bits[24];
      std::snprintf(bits, sizeof(bits), ":0x%llx", static_cast<unsigned long long>(argument.bits));
      text += bits;
      continue;
    }
    uint64_t address = argument.bits | most;
    text += "[" + listOf(argument.extents, argument.rank) + "]/" +
            listOf(argument.strides, argument.rank) + "@" + std::to_string(address & (0 - address));
  }
  return text;
}
