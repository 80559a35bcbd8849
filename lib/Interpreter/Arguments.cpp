// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Validation of the caller's arguments, with a diagnostic for each rule.

#include "lib/Interpreter/Arguments.h"

#include "lib/Interpreter/Lowering.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"
#include <limits>

using namespace mlir;

namespace tilewright::interpreter {

namespace {

constexpr int64_t maxExtent = std::numeric_limits<int32_t>::max();

/// One argument or capture as declared.
struct Declaration {
  Operation *entry;
  std::string role; ///< "argument 'q'", "capture 'slopes'"
  Type type;
  bool isOptional;
};

LogicalResult bindArray(const Declaration &declared, const ArrayArgument &array, bool f64,
                        BoundArgument &bound) {
  auto view = dyn_cast<tile::ViewType>(declared.type);
  auto error = [&] { return declared.entry->emitOpError(); }; // prints the operation
  const std::string &role = declared.role;
  if (!view)
    return error() << "requires a scalar of type " << declared.type << " for " << role
                   << ", but got an array";
  ElementType expected = *elementTypeOf(view);
  if (f64 && isFloat(expected))
    expected = ElementType::F64;
  if (array.type != expected)
    return error() << "requires elements of type " << StringRef(elementTypeName(expected)) << " in "
                   << role << (f64 && isFloat(expected) ? ", since the run is in f64" : "")
                   << ", but got " << StringRef(elementTypeName(array.type));
  int64_t rank = view.getRank();
  if (static_cast<int64_t>(array.shape.size()) != rank)
    return error() << "requires an array of rank " << rank << " for " << role << ", but got rank "
                   << array.shape.size();
  if (array.strides.size() != array.shape.size())
    return error() << "requires one stride for each of the " << rank << " dimensions of " << role
                   << ", but got " << array.strides.size();
  bool isEmpty = false;
  for (auto [d, extent] : llvm::enumerate(array.shape)) {
    if (extent < 0)
      return error() << "requires extents that are not negative, but got " << extent
                     << " along dimension " << d << " of " << role;
    if (extent > maxExtent)
      return error() << "requires extents up to " << maxExtent << ", but got " << extent
                     << " along dimension " << d << " of " << role;
    isEmpty |= extent == 0;
  }
  if (!array.data && !isEmpty)
    return error() << "requires memory for " << role << ", but got a null pointer";

  bound.isView = true;
  bound.type = *elementTypeOf(view);
  bound.view.data = static_cast<char *>(array.data);
  bound.view.type = expected;
  bound.view.extents.assign(array.shape.begin(), array.shape.end());
  bound.view.strides.assign(array.strides.begin(), array.strides.end());
  return checkExtents(declared.entry, role, view, bound);
}

LogicalResult bindScalar(const Declaration &declared, const Argument &argument, bool f64,
                         BoundArgument &bound) {
  auto error = [&] { return declared.entry->emitOpError(); }; // prints the operation
  const std::string &role = declared.role;
  if (isa<tile::ViewType>(declared.type))
    return error() << "requires an array for " << role << ", but got a scalar";
  bound.type = *elementTypeOf(declared.type);
  const auto *integer = std::get_if<int64_t>(&argument);
  if (isFloat(bound.type)) {
    double value = integer ? static_cast<double>(*integer) : std::get<double>(argument);
    Storage storage = storageOf(bound.type, f64);
    bound.number = f64 ? value : numeric::roundToType(value, bound.type);
    bound.scalar = Scalar::fromFloat(bound.number, storage);
    return success();
  }
  if (!integer)
    return error() << "requires an integer for " << role << " of type " << declared.type
                   << ", but got " << std::get<double>(argument);
  bool isWide = bound.type == ElementType::I64, isBit = bound.type == ElementType::I1;
  int64_t lowest = isBit ? 0 : std::numeric_limits<int32_t>::min();
  int64_t highest = isBit ? 1 : std::numeric_limits<int32_t>::max();
  if (!isWide && (*integer < lowest || *integer > highest))
    return error() << "requires a value from " << lowest << " to " << highest << " for " << role
                   << " of type " << declared.type << ", but got " << *integer;
  bound.scalar = Scalar::fromInt(*integer, storageOf(bound.type));
  return success();
}

FailureOr<BoundArgument> bind(const Declaration &declared, const Argument *argument, bool f64) {
  BoundArgument bound;
  if (!elementTypeOf(declared.type)) {
    declared.entry->emitOpError() << "declares " << declared.role << " of type " << declared.type
                                  << ", which is not supported by the CPU device";
    return failure();
  }
  if (!argument) {
    if (!declared.isOptional) {
      declared.entry->emitOpError() << "requires " << declared.role << ", but got none";
      return failure();
    }
    auto view = cast<tile::ViewType>(declared.type);
    bound.isView = bound.isAbsent = true;
    bound.type = *elementTypeOf(view);
    bound.view.type = f64 && isFloat(bound.type) ? ElementType::F64 : bound.type;
    bound.view.extents.assign(view.getRank(), 0);
    bound.view.strides.assign(view.getRank(), 0);
    return bound;
  }
  const auto *array = std::get_if<ArrayArgument>(argument);
  LogicalResult result =
      array ? bindArray(declared, *array, f64, bound) : bindScalar(declared, *argument, f64, bound);
  if (failed(result))
    return failure();
  return bound;
}

} // namespace

LogicalResult checkExtents(Operation *reportAt, StringRef name, tile::ViewType type,
                           const BoundArgument &argument) {
  if (argument.isAbsent)
    return success();
  for (auto [d, pair] : llvm::enumerate(llvm::zip(type.getShape(), argument.view.extents))) {
    auto [expected, got] = pair;
    if (!ShapedType::isDynamic(expected) && expected != got)
      return reportAt->emitOpError() << "requires extent " << expected << " along dimension " << d
                                     << " of " << name << ", but got " << got;
  }
  return success();
}

Argument fromDefault(Attribute value) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValueAsDouble();
  return static_cast<int64_t>(cast<IntegerAttr>(value).getValue().getZExtValue());
}

FailureOr<BoundArguments> bindArguments(Operation *entry,
                                        const llvm::StringMap<Argument> &arguments, bool f64) {
  tile::Signature signature(entry);
  BoundArguments bound;
  llvm::SmallVector<std::string> known;
  auto find = [&](StringRef name) -> const Argument * {
    known.push_back(name.str());
    auto it = arguments.find(name);
    return it == arguments.end() ? nullptr : &it->second;
  };
  for (auto [i, attribute] : llvm::enumerate(signature.argNames)) {
    StringRef name = cast<StringAttr>(attribute).getValue();
    const Argument *given = find(name);
    std::optional<Argument> value;
    if (Attribute byDefault = given ? Attribute() : signature.getArgDefault(name))
      given = &value.emplace(fromDefault(byDefault));
    FailureOr<BoundArgument> argument = bind({entry, ("argument '" + name + "'").str(),
                                              signature.getArgType(i), signature.argOptional[i]},
                                             given, f64);
    if (failed(argument))
      return failure();
    bound.arguments.push_back(*argument);
  }
  if (auto module = entry->getParentOfType<ModuleOp>()) {
    for (auto capture : module.getOps<tile::CaptureOp>()) {
      StringRef name = capture.getSymName();
      FailureOr<BoundArgument> argument = bind(
          {entry, ("capture '" + name + "'").str(), capture.getType(), false}, find(name), f64);
      if (failed(argument))
        return failure();
      bound.captures[name] = *argument;
    }
  }
  for (const auto &given : arguments) {
    if (!llvm::is_contained(known, given.getKey())) {
      entry->emitOpError() << "has no argument '" << given.getKey() << "'; it takes "
                           << llvm::join(known, ", ");
      return failure();
    }
  }
  return bound;
}

} // namespace tilewright::interpreter
