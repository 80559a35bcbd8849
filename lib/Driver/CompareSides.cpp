// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses --compare.

#include "lib/Driver/CompareSides.h"

#include "lib/Support/MakeError.h"
#include "llvm/ADT/StringExtras.h"

using namespace tilewright;

namespace {

/// Replaces the text of the same key, KEY=VALUE, or adds it.
void setKey(std::vector<std::string> &texts, llvm::StringRef text) {
  llvm::StringRef key = text.split('=').first;
  for (std::string &each : texts)
    if (llvm::StringRef(each).split('=').first == key) {
      each = text.str();
      return;
    }
  texts.push_back(text.str());
}

llvm::Error setOption(FileRunRequest &request, llvm::StringRef text) {
  auto [name, value] = text.split('=');
  auto reject = [&](llvm::StringRef form) {
    return makeError("--compare: expected " + form + " but got '" + text + "'");
  };
  if (name == "fast-math") {
    if (!value.empty())
      return reject("fast-math");
    request.compile.fastMath = true;
    return llvm::Error::success();
  }
  if (value.empty())
    return reject("an option of a side, +NAME=VALUE (file, with, param, blocks, length, sums, "
                  "target, schedule, warps, precision) or +fast-math,");
  if (name == "file")
    request.file = value.str();
  else if (name == "with")
    request.compile.with.push_back(value.str());
  else if (name == "param")
    setKey(request.compile.params, value);
  else if (name == "blocks")
    request.compile.blocks = value.str();
  else if (name == "sums")
    request.compile.sums = value.str();
  else if (name == "target")
    request.target = value.str();
  else if (name == "schedule")
    setKey(request.schedule, value);
  else if (name == "precision" && value == "f64")
    request.binding.f64 = true;
  else if (name == "precision")
    return reject("precision=f64");
  else if (name == "length" || name == "warps") {
    int64_t &number = name == "length" ? request.compile.length : request.warps;
    if (value.getAsInteger(10, number))
      return reject("a number");
  } else {
    return reject("an option of a side, +NAME=VALUE (file, with, param, blocks, length, sums, "
                  "target, schedule, warps, precision) or +fast-math,");
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::array<ComparedSide, 2>> tilewright::parseCompare(llvm::StringRef text,
                                                                     const FileRunRequest &common) {
  llvm::SmallVector<llvm::StringRef> sides;
  text.split(sides, ',');
  if (sides.size() != 2 || sides[0].empty() || sides[1].empty())
    return makeError("--compare: expected two sides, A,B, but got '" + text + "'");
  std::array<ComparedSide, 2> result;
  for (auto [side, text] : llvm::zip_equal(result, sides)) {
    side.text = text.str();
    side.request = common;
    llvm::SmallVector<llvm::StringRef> parts;
    text.split(parts, '+');
    side.request.device = parts.front().str();
    for (llvm::StringRef part : llvm::drop_begin(parts))
      if (llvm::Error error = setOption(side.request, part))
        return error;
  }
  bool rounds = result[0].request.binding.f64 != result[1].request.binding.f64;
  for (ComparedSide &side : result)
    side.request.binding.roundsInputs = rounds;
  return result;
}
