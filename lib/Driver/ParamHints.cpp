// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Guessing parameters from arrays.

#include "lib/Driver/ParamHints.h"

#include "dialect/Tile/TextInput.h"
#include "dialect/Tile/Tile.h"
#include "lib/Npy/Npy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

namespace tilewright {

namespace {

/// Shape and element type of an array, as far as the request says.
struct KnownArray {
  llvm::SmallVector<int64_t> shape;
  std::optional<ElementType> type;
};

std::optional<KnownArray> inspect(const ArrayRequest &request) {
  KnownArray known{request.shape, request.type};
  if (request.input.empty())
    return known;
  Result<NpyArray> file = readNpy(request.input);
  if (!file)
    return std::nullopt;
  known.shape.assign(file->shape.begin(), file->shape.end());
  if (!known.type && file->type == NpyType::F16)
    known.type = ElementType::F16;
  if (!known.type && file->type == NpyType::F32)
    known.type = ElementType::F32;
  if (!known.type && file->type == NpyType::F64)
    known.type = ElementType::F64;
  return known;
}

/// Whether the caller has to give the parameter and has not.
bool isMissing(const tile::Signature &signature, llvm::StringRef name,
               const TilePipelineOptions &options) {
  tile::ParamDeclAttr param = signature.findParam(name);
  return param && !param.getDefaultValue() &&
         llvm::none_of(options.params, [&](const auto &given) { return given.first == name; });
}

} // namespace

std::string suggestParams(mlir::MLIRContext &context, llvm::StringRef file,
                          const TilePipelineOptions &options, const BindingRequest &request) {
  if (file == "-")
    return "";
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readText(file);
  if (!buffer) {
    llvm::consumeError(buffer.takeError());
    return "";
  }
  mlir::OwningOpRef<mlir::ModuleOp> module = parseBuffer(context, **buffer);
  mlir::Operation *entry = module ? findEntry(*module, options.entry) : nullptr;
  if (!entry)
    return "";

  tile::Signature signature(entry);
  std::string text;
  llvm::SmallVector<std::string> suggested;
  auto suggest = [&](llvm::StringRef name, const std::string &value) {
    if (!isMissing(signature, name, options) || llvm::is_contained(suggested, name))
      return;
    suggested.push_back(name.str());
    text += (text.empty() ? "--param " : " --param ") + name.str() + "=" + value;
  };
  for (const ArrayRequest &array : request.arrays) {
    int position = signature.findArg(array.name);
    if (position < 0)
      continue;
    auto view = llvm::dyn_cast<tile::ViewType>(signature.getArgType(position));
    std::optional<KnownArray> known = view ? inspect(array) : std::nullopt;
    if (!known)
      continue;
    for (auto [dim, extent] : llvm::zip(tile::getDims(view), known->shape))
      if (dim.isSymbol())
        suggest(dim.symbol.getValue(), std::to_string(extent));
    auto element = llvm::dyn_cast<tile::ParamType>(view.getElementType());
    if (element && known->type)
      suggest(element.getName(), std::string(elementTypeName(*known->type)));
  }
  return text;
}

} // namespace tilewright
