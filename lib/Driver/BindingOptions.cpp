// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the text of --in, --out, --inout, --scalar, --strides and --param.

#include "lib/Driver/BindingOptions.h"

#include "lib/Support/MakeError.h"
#include "passes/Tile/BindParameters.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace tilewright {

namespace {

llvm::Error expected(llvm::StringRef form, llvm::StringRef text) {
  return makeError("expected " + form + " but got '" + text + "'");
}

/// The two sides of the first '='; neither may be empty.
llvm::Expected<std::pair<std::string, std::string>> splitName(llvm::StringRef form,
                                                              llvm::StringRef text) {
  auto [name, value] = text.split('=');
  if (name.empty() || value.empty())
    return expected(form, text);
  return std::make_pair(name.str(), value.str());
}

/// Removes ":TYPE" from the end of a file name, if present.
llvm::Error splitType(llvm::StringRef form, llvm::StringRef &file,
                      std::optional<ElementType> &type) {
  size_t colon = file.rfind(':');
  if (colon == llvm::StringRef::npos)
    return llvm::Error::success();
  llvm::StringRef name = file.drop_front(colon + 1);
  if (name.contains('.') || name.contains('/'))
    return llvm::Error::success();
  type = parseElementType(name);
  if (!type)
    return makeError(
        "expected an element type (f64, f32, f16, bf16, e4m3, e5m2, i64, i32, i1, i8) but got '" +
        name + "'");
  file = file.take_front(colon);
  return llvm::Error::success();
}

/// Non-negative integers, separated by a character.
bool parseList(llvm::StringRef text, char separator, llvm::SmallVectorImpl<int64_t> &values) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, separator);
  for (llvm::StringRef part : parts)
    if (part.getAsInteger(10, values.emplace_back()))
      return false;
  return true;
}

} // namespace

llvm::Expected<ArrayRequest> parseIn(llvm::StringRef text) {
  constexpr llvm::StringLiteral form = "NAME=FILE.npy[:TYPE]";
  auto split = splitName(form, text);
  if (!split)
    return split.takeError();
  llvm::StringRef file = split->second;
  if (file.starts_with("random@") || file.starts_with("random:")) {
    llvm::Expected<ArrayRequest> request = parseOut(text);
    if (!request)
      return expected("NAME=random[:TYPE]@DIMxDIM...", text);
    request->output.clear();
    request->isRandom = true;
    return request;
  }
  ArrayRequest request;
  request.name = split->first;
  if (llvm::Error error = splitType(form, file, request.type))
    return error;
  if (file.empty())
    return expected(form, text);
  request.input = file.str();
  return request;
}

llvm::Expected<ArrayRequest> parseOut(llvm::StringRef text) {
  constexpr llvm::StringLiteral form = "NAME=FILE.npy[:TYPE]@DIMxDIM...";
  auto split = splitName(form, text);
  if (!split)
    return split.takeError();
  ArrayRequest request;
  request.name = split->first;
  llvm::StringRef value = split->second;
  size_t at = value.rfind('@');
  if (at == llvm::StringRef::npos)
    return expected(form, text);
  llvm::StringRef file = value.take_front(at), shape = value.drop_front(at + 1);
  // Without text after '@', the array has no dimensions.
  if (!shape.empty() && !parseList(shape, 'x', request.shape))
    return makeError("expected extents such as 2x8x128 after '@' but got '" + shape + "'");
  if (llvm::Error error = splitType(form, file, request.type))
    return error;
  if (file.empty())
    return expected(form, text);
  request.output = file.str();
  return request;
}

llvm::Expected<ArrayRequest> parseInOut(llvm::StringRef text) {
  constexpr llvm::StringLiteral form = "NAME=FILE.npy[:TYPE]=RESULT.npy";
  auto split = splitName(form, text);
  if (!split)
    return split.takeError();
  ArrayRequest request;
  request.name = split->first;
  auto [file, output] = llvm::StringRef(split->second).rsplit('=');
  if (llvm::Error error = splitType(form, file, request.type))
    return error;
  if (file.empty() || output.empty())
    return expected(form, text);
  request.input = file.str();
  request.output = output.str();
  return request;
}

llvm::Expected<ScalarRequest> parseScalar(llvm::StringRef text) {
  auto split = splitName("NAME=VALUE", text);
  if (!split)
    return split.takeError();
  return ScalarRequest{split->first, split->second};
}

llvm::Expected<StridesRequest> parseStrides(llvm::StringRef text) {
  auto split = splitName("NAME=STRIDE,STRIDE...", text);
  if (!split)
    return split.takeError();
  StridesRequest request{split->first, {}};
  if (!parseList(split->second, ',', request.strides))
    return makeError("expected strides in elements such as 1024,64,1 but got '" + split->second +
                     "'");
  return request;
}

std::string BindingRequest::suggestArgument(llvm::StringRef name,
                                            llvm::ArrayRef<llvm::StringRef> names) const {
  auto isGiven = [&](llvm::StringRef argument) {
    auto has = [&](const auto &each) { return each.name == argument; };
    return llvm::any_of(arrays, has) || llvm::any_of(scalars, has);
  };
  llvm::SmallVector<llvm::StringRef> candidates(names);
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](llvm::StringRef each) { return !isGiven(each); });
  return suggest(name, candidates, "; the arguments are: " + llvm::join(names, ", "));
}

llvm::Expected<std::pair<std::string, std::string>> parseParam(llvm::StringRef text) {
  return splitName("NAME=VALUE", text);
}

} // namespace tilewright
