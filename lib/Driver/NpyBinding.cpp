// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds files and scalars to arguments.

#include "lib/Driver/NpyBinding.h"

#include "base/Npy/Npy.h"
#include "dialect/Tile/Tile.h"
#include "lib/Interpreter/Arguments.h"
#include "lib/Support/ElementTypes.h"
#include "lib/Support/MakeError.h"
#include "passes/Tile/BindParameters.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

#include <cmath>
#include <cstring>

namespace tilewright {

namespace {

using ExplainAbsent = llvm::function_ref<std::string(llvm::StringRef)>;

/// "capture 'slopes'", "scalar 'scale'" or "argument 'q'".
std::string describe(const ArgumentInfo &argument) {
  llvm::StringRef what = "argument";
  if (argument.isCapture)
    what = "capture";
  else if (!llvm::isa<tile::ViewType>(argument.type))
    what = "scalar";
  return (what + " '" + argument.name + "'").str();
}

std::string typeName(mlir::Type type) {
  std::optional<ElementType> element = toElementType(type);
  return element ? std::string(elementTypeName(*element)) : "an unbound type";
}

/// "[?, ?, ?, 64] of f16".
std::string describeView(tile::ViewType view) {
  return tile::printDims(tile::getDims(view)) + " of " + typeName(view.getElementType());
}

/// The argument of that name.
llvm::Expected<const ArgumentInfo *> findArgument(llvm::ArrayRef<ArgumentInfo> arguments,
                                                  llvm::StringRef name,
                                                  const BindingRequest &request,
                                                  ExplainAbsent explainAbsent) {
  llvm::SmallVector<llvm::StringRef> names;
  for (const ArgumentInfo &argument : arguments) {
    if (argument.name == name)
      return &argument;
    names.push_back(argument.name);
  }
  if (std::string reason = explainAbsent ? explainAbsent(name) : ""; !reason.empty())
    return makeError(reason);
  return makeError("there is no argument '" + name + "'" + request.suggestArgument(name, names));
}

/// Scalars and views have separate options.
llvm::Error checkKind(const ArgumentInfo &argument, bool asScalar) {
  auto view = llvm::dyn_cast<tile::ViewType>(argument.type);
  if (view && asScalar)
    return makeError(describe(argument) + " is a view " + describeView(view) +
                     "; give it with --in, --out or --inout");
  if (!view && !asScalar)
    return makeError(describe(argument) + " is a scalar of type " + typeName(argument.type) +
                     "; give it with --scalar");
  return llvm::Error::success();
}

llvm::Error missing(const ArgumentInfo &argument) {
  if (auto view = llvm::dyn_cast<tile::ViewType>(argument.type))
    return makeError(describe(argument) + " is missing; it is a view " + describeView(view) +
                     "; give it with " +
                     (argument.isCapture   ? "--in "
                      : argument.isWritten ? "--out or --inout "
                                           : "--in, --out or --inout ") +
                     argument.name + "=...");
  return makeError(describe(argument) + " is missing; it is a scalar of type " +
                   typeName(argument.type) + "; give it with --scalar " + argument.name + "=VALUE");
}

llvm::Error checkShape(const ArgumentInfo &argument, tile::ViewType view,
                       llvm::ArrayRef<int64_t> shape) {
  if (static_cast<int64_t>(shape.size()) != view.getRank())
    return makeError(describe(argument) + " must have rank " + llvm::Twine(view.getRank()) +
                     " but got " + llvm::Twine(shape.size()) + "; it is a view " +
                     describeView(view));
  for (auto [position, dim] : llvm::enumerate(tile::getDims(view)))
    if (!dim.isUnknown() && dim.extent != shape[position])
      return makeError(describe(argument) + " must have extent " + llvm::Twine(dim.extent) +
                       " in dimension " + llvm::Twine(position) + " but got " +
                       llvm::Twine(shape[position]));
  return llvm::Error::success();
}

} // namespace

/// A unique text for each file, regardless of its spelling. A device such as /dev/null accepts any
/// number of results.
static std::string toOnePath(llvm::StringRef path) {
  llvm::SmallString<128> real;
  if (!llvm::sys::fs::real_path(path, real)) {
    bool isFile = llvm::sys::fs::is_regular_file(real);
    static unsigned devices = 0;
    return isFile ? real.str().str() : (path + "#" + llvm::Twine(devices++)).str();
  }
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (llvm::sys::fs::real_path(folder.empty() ? "." : folder, real))
    return path.str();
  llvm::sys::path::append(real, llvm::sys::path::filename(path));
  return real.str().str();
}

/// Elements of the standard normal distribution, by Box and Muller from the sequence of SplitMix64.
static void fillNormal(uint64_t state, ElementType type, std::vector<uint8_t> &bytes) {
  auto next = [&state] {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>(((z ^ (z >> 31)) >> 11) + 1) * 0x1p-53; // in (0, 1]
  };
  size_t width = byteWidth(type);
  for (size_t at = 0; at < bytes.size(); at += width) {
    double radius = std::sqrt(-2 * std::log(next())), angle = 2 * 3.14159265358979323846 * next();
    double value = radius * std::cos(angle);
    numeric::convertToMemory(Storage::F64, &value, type, &bytes[at], 1, 1);
  }
}

/// Rounds elements that are stored as f64 to the type that the view declares.
static void roundElements(std::vector<uint8_t> &elements, ElementType declared) {
  auto *values = reinterpret_cast<double *>(elements.data());
  for (size_t i = 0, n = elements.size() / sizeof(double); i < n; ++i)
    values[i] = numeric::roundToType(values[i], declared);
}

/// Elements of a file that are to share memory are equal.
static llvm::Error checkRepeats(const HostArray &memory, llvm::ArrayRef<uint8_t> dense) {
  size_t width = byteWidth(memory.getType()), below = dense.size();
  for (auto [dim, extent] : llvm::enumerate(memory.getShape())) {
    size_t whole = below;
    if (whole == 0)
      break; // there are no elements
    below /= extent;
    if (!memory.repeats(dim))
      continue;
    for (size_t at = 0; at < dense.size(); at += width)
      if (std::memcmp(&dense[at], &dense[at - at % whole + at % below], width) != 0)
        return makeError("elements along dimension " + llvm::Twine(dim) +
                         ", whose stride is 0, must be equal, but got others at " +
                         llvm::Twine(at % whole / below) + " than at 0");
  }
  return llvm::Error::success();
}

llvm::Error NpyBinding::bindArray(const ArgumentInfo &argument, const ArrayRequest &request,
                                  llvm::ArrayRef<int64_t> strides, const BindingRequest &all) {
  auto view = llvm::cast<tile::ViewType>(argument.type);
  std::optional<ElementType> declared = toElementType(view.getElementType());
  if (!declared)
    return makeError(describe(argument) + " has elements of a type that no file can hold");
  if (request.type && *request.type != *declared)
    return makeError(describe(argument) + " must have elements of type " +
                     std::string(elementTypeName(*declared)) + " but got " +
                     std::string(elementTypeName(*request.type)));
  if (argument.isCapture && !request.output.empty())
    return makeError(describe(argument) + " is read-only; give it with --in");
  if (argument.isWritten && request.output.empty())
    return makeError(describe(argument) +
                     " is written, and --in discards the result; give it with --out or --inout");
  bool isPoison = request.input.empty() && !request.isRandom;
  if (!argument.isWritten && !argument.isCapture && isPoison && !request.output.empty())
    return makeError(describe(argument) +
                     " is not written, so there is no result for --out; store to it, or give it "
                     "with --in");
  ElementType type = all.f64 && isFloat(*declared) ? ElementType::F64 : *declared;
  if (request.isRandom && !isFloat(type))
    return makeError(describe(argument) +
                     " cannot be random: random is only for float arrays; give a file");

  auto inArgument = [&](llvm::Error error) {
    return makeError(describe(argument) + ": " + llvm::toString(std::move(error)));
  };
  std::optional<NpyArray> file;
  if (!request.input.empty()) {
    Result<NpyArray> read = readNpy(request.input);
    if (!read)
      return makeError(read.message());
    file = std::move(*read);
  }
  llvm::ArrayRef<int64_t> shape = request.shape;
  if (file)
    shape = file->shape;
  if (llvm::Error error = checkShape(argument, view, shape))
    return error;
  HostArray::Use use = request.output.empty() ? HostArray::Use::Read : HostArray::Use::Written;
  llvm::Expected<HostArray> memory = HostArray::create(type, shape, strides, use);
  if (!memory)
    return inArgument(memory.takeError());

  BoundArray bound{argument.name, request.output, type, std::move(*memory), {}};
  if (file) {
    bound.initial.resize(file->numElements() * byteWidth(type));
    if (Status status = convertFromNpy(*file, type, bound.initial.data()); !status)
      return makeError(describe(argument) + ": " + request.input + ": " + status.message());
    if (llvm::Error error = checkRepeats(bound.memory, bound.initial))
      return inArgument(std::move(error));
  }
  if (request.isRandom) {
    bound.initial.resize(bound.memory.getNumElements() * byteWidth(type));
    // A separate sequence for each argument, independent of the other options.
    fillNormal(all.seed ^ llvm::xxh3_64bits(llvm::StringRef(argument.name)), type, bound.initial);
  }
  if (all.roundsInputs && type != *declared)
    roundElements(bound.initial, *declared);
  if (!bound.initial.empty())
    bound.memory.copyFrom(bound.initial.data());
  ArrayArgument device;
  device.type = type;
  device.shape.assign(shape.begin(), shape.end());
  device.strides.assign(bound.memory.getStrides().begin(), bound.memory.getStrides().end());
  device.data = bound.memory.getData();
  arguments[argument.name] = std::move(device);
  arrays.push_back(std::move(bound));
  return llvm::Error::success();
}

llvm::Error NpyBinding::bindScalar(const ArgumentInfo &argument, llvm::StringRef text,
                                   const BindingRequest &all) {
  auto reject = [&] {
    return makeError(describe(argument) + " must be a value of type " + typeName(argument.type) +
                     " but got '" + text + "'");
  };
  std::optional<ElementType> type = toElementType(argument.type);
  if (!type)
    return makeError(describe(argument) + " has a type that cannot be given");
  if (isFloat(*type)) {
    double value;
    if (text.getAsDouble(value))
      return reject();
    // A finite number that overflows the type is an error; "inf" and "nan" are not.
    if (std::isfinite(value) && !std::isfinite(numeric::roundToType(value, *type)))
      return reject();
    arguments[argument.name] = all.roundsInputs ? numeric::roundToType(value, *type) : value;
    return llvm::Error::success();
  }
  int64_t value;
  if (*type == ElementType::I1 && (text == "true" || text == "false"))
    value = text == "true";
  else if (text.getAsInteger(0, value))
    return reject();
  unsigned bits = *type == ElementType::I64 ? 64 : 32;
  if (*type == ElementType::I1 ? value != 0 && value != 1 : !llvm::isIntN(bits, value))
    return reject();
  arguments[argument.name] = value;
  return llvm::Error::success();
}

llvm::Expected<NpyBinding> NpyBinding::create(llvm::ArrayRef<ArgumentInfo> arguments,
                                              const BindingRequest &request,
                                              ExplainAbsent explainAbsent) {
  NpyBinding binding;
  llvm::StringSet<> given, outputs;
  auto claim = [&](llvm::StringRef name, bool asScalar) -> llvm::Expected<const ArgumentInfo *> {
    llvm::Expected<const ArgumentInfo *> argument =
        findArgument(arguments, name, request, explainAbsent);
    if (!argument)
      return argument.takeError();
    if (llvm::Error error = checkKind(**argument, asScalar))
      return error;
    if (!given.insert(name).second)
      return makeError(describe(**argument) + " is given twice; leave one out");
    return argument;
  };

  // Names first: a mistyped name is a better diagnostic than the missing argument it causes.
  std::vector<const ArgumentInfo *> arrayTargets, scalarTargets;
  for (const ArrayRequest &array : request.arrays) {
    llvm::Expected<const ArgumentInfo *> argument = claim(array.name, /*asScalar=*/false);
    if (!argument)
      return argument.takeError();
    if (!array.output.empty() && !outputs.insert(toOnePath(array.output)).second)
      return makeError("two results would be written to '" + array.output +
                       "'; name another file for one");
    arrayTargets.push_back(*argument);
  }
  for (const ScalarRequest &scalar : request.scalars) {
    llvm::Expected<const ArgumentInfo *> argument = claim(scalar.name, /*asScalar=*/true);
    if (!argument)
      return argument.takeError();
    scalarTargets.push_back(*argument);
  }
  llvm::StringMap<llvm::ArrayRef<int64_t>> strides;
  for (const StridesRequest &entry : request.strides) {
    llvm::Expected<const ArgumentInfo *> argument =
        findArgument(arguments, entry.name, request, explainAbsent);
    if (!argument)
      return argument.takeError();
    if (llvm::none_of(request.arrays, [&](auto &array) { return array.name == entry.name; }))
      return makeError("strides of '" + entry.name +
                       "' are given, but not the array; give it, too");
    if (!strides.try_emplace(entry.name, entry.strides).second)
      return makeError("strides of '" + entry.name + "' are given twice; leave one out");
  }
  for (const ArgumentInfo &argument : arguments) {
    if (argument.isOptional || given.contains(argument.name))
      continue;
    if (!argument.byDefault)
      return missing(argument);
    binding.arguments[argument.name] = interpreter::fromDefault(argument.byDefault);
  }

  for (auto [scalar, argument] : llvm::zip_equal(request.scalars, scalarTargets))
    if (llvm::Error error = binding.bindScalar(*argument, scalar.value, request))
      return error;
  for (auto [array, argument] : llvm::zip_equal(request.arrays, arrayTargets))
    if (llvm::Error error =
            binding.bindArray(*argument, array, strides.lookup(array.name), request))
      return error;
  return binding;
}

void NpyBinding::reset() {
  for (BoundArray &array : arrays) {
    array.memory.poison();
    if (!array.initial.empty())
      array.memory.copyFrom(array.initial.data());
  }
}

std::vector<NpyBinding::ResultArray> NpyBinding::getResults() const {
  std::vector<ResultArray> results;
  for (const BoundArray &array : arrays)
    if (!array.output.empty())
      results.push_back({array.name, array.memory});
  return results;
}

llvm::Error NpyBinding::checkGaps() const {
  for (const BoundArray &array : arrays)
    if (!array.memory.gapsArePoisoned())
      return makeError("memory between the elements of '" + array.name +
                       "' must not be written, but is by the kernel");
  return llvm::Error::success();
}

llvm::Error NpyBinding::writeResults() const {
  if (llvm::Error error = checkGaps())
    return error;
  for (const BoundArray &array : arrays) {
    if (array.output.empty())
      continue;
    std::vector<uint8_t> dense(array.memory.getNumElements() * byteWidth(array.type));
    array.memory.copyTo(dense.data());
    llvm::ArrayRef<int64_t> shape = array.memory.getShape();
    Result<NpyArray> npy = convertToNpy(array.type, dense.data(), {shape.begin(), shape.end()});
    if (!npy)
      return makeError(array.output + ": " + npy.message());
    if (Status status = writeNpy(array.output, *npy); !status)
      return makeError(status.message());
  }
  return llvm::Error::success();
}

} // namespace tilewright
