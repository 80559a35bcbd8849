// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matches arrays with the views that declare them.

#include "lib/Driver/ParamInference.h"

#include "base/Npy/Npy.h"
#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExpr.h"
#include "lib/Bundle/HeldDiagnostics.h"
#include "lib/Support/MakeError.h"
#include "passes/Tile/BindParameters.h"
#include "passes/Tile/LinkLibraries.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace tilewright;

namespace {

/// Shape and element type of an array, as far as the request specifies them.
struct KnownArray {
  llvm::SmallVector<int64_t> shape;
  std::optional<ElementType> type;
};

llvm::Expected<KnownArray> inspect(const ArrayRequest &request) {
  KnownArray known{request.shape, request.type};
  if (request.input.empty())
    return known;
  Result<NpyKind> file = inspectNpy(request.input);
  if (!file)
    return makeError(file.message());
  known.shape.assign(file->shape.begin(), file->shape.end());
  if (!known.type && file->type == NpyType::F16)
    known.type = ElementType::F16;
  if (!known.type && file->type == NpyType::F32)
    known.type = ElementType::F32;
  if (!known.type && file->type == NpyType::F64)
    known.type = ElementType::F64;
  return known;
}

class Inference {
public:
  Inference(const tile::Signature &signature, TilePipelineOptions &options)
      : signature(signature), options(options), given(options.params) {}

  llvm::Error addArray(const ArrayRequest &request) {
    isOfResult = request.input.empty() && !request.isRandom;
    int position = signature.findArg(request.name);
    auto view = position < 0 ? tile::ViewType()
                             : llvm::dyn_cast<tile::ViewType>(signature.getArgType(position));
    if (!view)
      return llvm::Error::success();
    llvm::Expected<KnownArray> known = inspect(request);
    if (!known)
      return known.takeError();
    llvm::SmallVector<tile::Dim> dims = tile::getDims(view);
    if (dims.size() != known->shape.size())
      return llvm::Error::success();
    for (auto [position, dim] : llvm::enumerate(dims)) {
      tile::ParamDeclAttr param = dim.isSymbol() ? find(dim.symbol.getValue()) : nullptr;
      if (!param)
        continue;
      if (llvm::Error error = add(param, std::to_string(known->shape[position]),
                                  describe(position, request.name), ""))
        return error;
    }
    if (llvm::Error error = addConstraints(request.name, known->shape))
      return error;
    auto element = llvm::dyn_cast<tile::ParamType>(view.getElementType());
    tile::ParamDeclAttr param = element ? find(element.getName()) : nullptr;
    if (!param || !known->type || !isFloat(*known->type))
      return llvm::Error::success();
    std::string name = param.getName().str(), type(elementTypeName(*known->type));
    if (!goesBeforeDefault(param, type))
      return llvm::Error::success();
    return add(param, type, "the elements of '" + request.name + "'",
               "; files are converted, so choose by --param " + name + "=TYPE");
  }

  /// Whether a parameter has neither a value nor a default.
  bool lacksValue() const {
    return llvm::any_of(signature.params.getAsRange<tile::ParamDeclAttr>(), [&](auto param) {
      // Of a TARGET, compilation knows the value.
      return find(param.getName()) && !found.contains(param.getName()) &&
             !param.getDefaultValue() && param.getName() != "TARGET";
    });
  }

  /// An extent that no array needs but a result, which --out states, and that is not the default.
  void warnAboutResults() const {
    tile::ExprEnvironment environment;
    environment.name = [&](llvm::StringRef name) -> tile::ExprAttr {
      int64_t value;
      auto it = found.find(name);
      if (it == found.end() || llvm::StringRef(it->second.first).getAsInteger(10, value))
        return nullptr;
      return tile::ExprAttr::getInt(signature.op->getContext(), value);
    };
    for (tile::ParamDeclAttr param : ofResults) {
      if (param.getKind() != tile::ParamKind::Int || !param.getDefaultValue())
        continue;
      llvm::Expected<tile::ExprAttr> standard =
          tile::reduceExpr(param.getDefaultValue(), environment);
      if (!standard) {
        llvm::consumeError(standard.takeError());
        continue;
      }
      const auto &[value, where] = found.find(param.getName())->second;
      if (standard->isConstant() && tile::toString(*standard) != value)
        emitWarning(signature.op->getLoc())
            << "parameter " << param.getName() << " is " << value << ", from " << where
            << ", although its default is " << tile::toString(*standard) << "; give --param "
            << param.getName() << "=" << value << " to confirm it, or correct --out";
    }
  }

private:
  /// The value of a parameter that `require(dim(NAME, position) == PARAM)` implies.
  llvm::Error addConstraints(llvm::StringRef array, llvm::ArrayRef<int64_t> shape) {
    for (auto constraint : signature.constraints.getAsRange<tile::ExprAttr>()) {
      if (constraint.getKind() != tile::ExprKind::Call ||
          tile::getFunction(constraint) != expr::Function::Equal)
        continue;
      for (unsigned i : {0u, 1u}) {
        tile::ExprAttr dim = constraint.getOperands()[i], name = constraint.getOperands()[1 - i];
        if (dim.getKind() != tile::ExprKind::Dim || dim.getName() != array ||
            name.getKind() != tile::ExprKind::Name)
          continue;
        if (tile::ParamDeclAttr param = find(name.getName()))
          if (llvm::Error error = add(param, std::to_string(shape[dim.getValue()]),
                                      describe(dim.getValue(), array), ""))
            return error;
      }
    }
    return llvm::Error::success();
  }

  /// Whether the type of an array determines a parameter. Not if the default is computed, since it
  /// then follows the parameters that it reads; nor if the parameter does not allow that type, so
  /// that an array of f64 can be passed to a kernel of f32.
  static bool goesBeforeDefault(tile::ParamDeclAttr param, llvm::StringRef type) {
    tile::ExprAttr standard = param.getDefaultValue();
    if (!standard)
      return true;
    auto value = tile::ExprAttr::getType(param.getContext(), type);
    return standard.isConstant() &&
           (param.getAllowed().empty() || llvm::is_contained(param.getAllowed(), value));
  }

  static std::string describe(int64_t position, llvm::StringRef array) {
    return ("dimension " + llvm::Twine(position) + " of '" + array + "'").str();
  }

  /// Parameters that a caller may give, and has not.
  tile::ParamDeclAttr find(llvm::StringRef name) const {
    tile::ParamDeclAttr param = signature.findParam(name);
    bool isGiven = llvm::any_of(given, [&](const auto &pair) { return pair.first == name; });
    return param && !param.getDerived() && !isGiven ? param : nullptr;
  }

  llvm::Error add(tile::ParamDeclAttr param, const std::string &value, const std::string &where,
                  const std::string &remedy) {
    llvm::StringRef name = param.getName();
    auto [it, isNew] = found.try_emplace(name, value, where);
    const auto &[known, place] = it->second;
    if (isNew && isOfResult)
      ofResults.push_back(param);
    else if (!isOfResult)
      llvm::erase(ofResults, param);
    if (isNew)
      options.params.emplace_back(name.str(), value);
    else if (known != value)
      return makeError("parameter " + name + " must have one value, but got " + known + " from " +
                       place + " and " + value + " from " + where + remedy);
    return llvm::Error::success();
  }

  const tile::Signature &signature;
  TilePipelineOptions &options;
  const std::vector<std::pair<std::string, std::string>> given;
  llvm::StringMap<std::pair<std::string, std::string>> found; ///< value and its source
  bool isOfResult = false;                                    ///< whether the array is only written
  llvm::SmallVector<tile::ParamDeclAttr> ofResults;           ///< that only such arrays determine
};

/// Rejects a name that is no argument: it would have been the one that determines a parameter.
llvm::Error rejectUnknownNames(mlir::ModuleOp module, const tile::Signature &signature,
                               const TilePipelineOptions &options, const BindingRequest &request) {
  llvm::SmallVector<llvm::StringRef> known;
  for (auto name : signature.argNames.getAsRange<mlir::StringAttr>())
    known.push_back(name.getValue());
  auto check = [&](llvm::StringRef name) -> llvm::Error {
    if (llvm::is_contained(known, name))
      return llvm::Error::success();
    return makeError("there is no argument '" + name + "'" + request.suggestArgument(name, known));
  };
  // Captures are arguments, too, also those of linked files, and some have gradients.
  mlir::OwningOpRef<mlir::ModuleOp> linked = module.clone();
  HeldDiagnostics held(module.getContext());
  if (!options.with.empty() ||
      failed(linkLibraries(*linked, options.source, [](llvm::StringRef) { return false; })) ||
      !linked->getOps<tile::CaptureOp>().empty())
    return llvm::Error::success(); // what binds arguments knows them
  for (const ArrayRequest &array : request.arrays)
    if (llvm::Error error = check(array.name))
      return error;
  for (const ScalarRequest &scalar : request.scalars)
    if (llvm::Error error = check(scalar.name))
      return error;
  return llvm::Error::success();
}

} // namespace

llvm::Error tilewright::inferParams(mlir::ModuleOp module, TilePipelineOptions &options,
                                    const BindingRequest &request) {
  mlir::Operation *entry = findEntry(module, options.entry);
  if (!llvm::isa_and_present<tile::KernelOp, tile::ProgramOp>(entry))
    return llvm::Error::success();
  tile::Signature signature(entry);
  Inference inference(signature, options);
  for (const ArrayRequest &array : request.arrays)
    if (llvm::Error error = inference.addArray(array))
      return error;
  inference.warnAboutResults();
  if (inference.lacksValue())
    return rejectUnknownNames(module, signature, options, request);
  return llvm::Error::success();
}
