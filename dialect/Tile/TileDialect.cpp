// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registration of the tile dialect, and helpers over both forms of a tile.

#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

#include "dialect/Tile/TileDialect.cpp.inc"

namespace tilewright::tile {

void TileDialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialect/Tile/TileOps.cpp.inc"
      >();
}

Operation *TileDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                            Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

static ParseResult rejectUnknown(OpAsmParser &parser, OperationState &state) {
  StringRef nearest = findSimilarOperation(state.name.getStringRef(), *parser.getContext());
  if (nearest.empty())
    return parser.emitError(parser.getNameLoc(),
                            "is unknown; docs/reference lists the operations of its dialect");
  return parser.emitError(parser.getNameLoc(), "is unknown; did you mean '") << nearest << "'?";
}

std::optional<Dialect::ParseOpHook> TileDialect::getParseOperationHook(StringRef name) const {
  if (auto known = Dialect::getParseOperationHook(name))
    return known;
  return ParseOpHook(rejectUnknown);
}

bool isElementType(Type type) {
  return isa<FloatType>(type) || type.isSignlessInteger(1) || type.isSignlessInteger(8) ||
         type.isSignlessInteger(32) || type.isSignlessInteger(64);
}

bool isTile(Type type) {
  if (isa<TileType>(type))
    return true;
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isElementType(tensor.getElementType()) &&
         llvm::all_of(tensor.getShape(),
                      [](int64_t extent) { return extent >= 1 && extent <= kMaxExtent; });
}

static SmallVector<Dim> zipDims(ArrayRef<int64_t> shape, ArrayRef<StringAttr> symbols) {
  SmallVector<Dim> dims;
  for (auto [extent, symbol] : llvm::zip_equal(shape, symbols))
    dims.push_back({extent, symbol});
  return dims;
}

SmallVector<Dim> getDims(Type type) {
  if (auto tile = dyn_cast<TileType>(type))
    return zipDims(tile.getShape(), tile.getSymbols());
  if (auto view = dyn_cast<ViewType>(type))
    return zipDims(view.getShape(), view.getSymbols());
  SmallVector<Dim> dims;
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    for (int64_t extent : tensor.getShape())
      dims.push_back({extent, nullptr});
  return dims;
}

Type getElementType(Type type) {
  if (auto view = dyn_cast<ViewType>(type))
    return view.getElementType();
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getElementType();
  return type;
}

int64_t getRank(Type type) {
  if (auto view = dyn_cast<ViewType>(type))
    return view.getRank();
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getRank();
  return 0;
}

Type makeTile(MLIRContext *context, ArrayRef<Dim> dims, Type elementType, bool symbolicForm) {
  SmallVector<int64_t> shape;
  SmallVector<StringAttr> symbols;
  for (const Dim &dim : dims) {
    symbolicForm |= dim.isSymbol();
    shape.push_back(dim.isSymbol() ? ShapedType::kDynamic : dim.extent);
    symbols.push_back(dim.symbol);
  }
  if (symbolicForm)
    return TileType::get(context, shape, symbols, elementType);
  return RankedTensorType::get(shape, elementType);
}

std::string printDims(ArrayRef<Dim> dims) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(dims, os, [&](const Dim &dim) {
    if (dim.isSymbol())
      os << dim.symbol.getValue();
    else if (dim.isUnknown())
      os << '?';
    else
      os << dim.extent;
  });
  os << ']';
  return text;
}

Type getAccumulatorType(Type type) {
  if (isa<ParamType>(type) || !isa<FloatType>(type))
    return nullptr;
  return type.isF64() ? type : Type(Float32Type::get(type.getContext()));
}

bool mayBecomeEqual(Type a, Type b) {
  if (a == b)
    return true;
  return (isa<ParamType>(a) && isa<FloatType>(b)) || (isa<ParamType>(b) && isa<FloatType>(a));
}

static constexpr StringLiteral kSpellings[] = {"f64", "f32", "f16", "bf16", "e4m3", "e5m2", "i8"};

Type getTypeBySpelling(MLIRContext *context, StringRef name) {
  return llvm::StringSwitch<Type>(name)
      .Case("f64", Float64Type::get(context))
      .Case("f32", Float32Type::get(context))
      .Case("f16", Float16Type::get(context))
      .Case("bf16", BFloat16Type::get(context))
      .Case("e4m3", Float8E4M3FNType::get(context))
      .Case("e5m2", Float8E5M2Type::get(context))
      .Case("i8", IntegerType::get(context, 8))
      .Default(nullptr);
}

StringRef getTypeSpelling(Type type) {
  for (StringRef name : kSpellings)
    if (getTypeBySpelling(type.getContext(), name) == type)
      return name;
  return "";
}

/// i32, si8, f16, f8E4M3FN, bf16, tf32: MLIR lexes these as types.
static bool isTypeKeyword(StringRef name) {
  StringRef rest = name;
  if (rest == "bf16" || rest == "tf32")
    return true;
  if (rest.consume_front("f"))
    return !rest.empty() && llvm::isDigit(rest.front());
  if (!rest.consume_front("i") && !rest.consume_front("si") && !rest.consume_front("ui"))
    return false;
  return !rest.empty() && llvm::all_of(rest, llvm::isDigit);
}

bool isReservedName(StringRef name) {
  return isTypeKeyword(name) ||
         llvm::StringSwitch<bool>(name)
             .Cases({"true", "false", "e4m3", "e5m2"}, true)
             .Cases({"index", "none", "complex", "memref", "tensor", "tuple", "vector"}, true)
             .Default(false);
}

bool mayBeLinked(Operation *user, FlatSymbolRefAttr symbol, SymbolTableCollection &symbols) {
  auto module = user->getParentOfType<ModuleOp>();
  return module && !symbols.lookupSymbolIn(module, symbol) && !module.getOps<LinkOp>().empty();
}

/// The rule for combining functions of several files must fit their type.
static LogicalResult verifyReplaceable(Operation *op, Attribute value) {
  auto rule = dyn_cast<StringAttr>(value);
  if (rule ? rule != kComposeRule && rule != kAndRule && rule != kMultiplyRule
           : !isa<UnitAttr>(value))
    return op->emitError()
           << "'" << replaceableAttr.name
           << "' must have no value, or \"compose\", \"and\" or \"multiply\", but got " << value
           << "; correct or remove it";
  if (!rule)
    return success();
  FunctionType type = cast<func::FuncOp>(op).getFunctionType();
  Type result = type.getNumResults() == 1 ? type.getResult(0) : Type();
  StringRef needed;
  if (rule == kComposeRule && (!result || type.getNumInputs() == 0 || type.getInput(0) != result))
    needed = "one result of the type of its first operand";
  else if (rule == kAndRule && (!result || !result.isInteger(1)))
    needed = "one result of i1";
  else if (rule == kMultiplyRule && !isa_and_present<FloatType>(result))
    needed = "one result of a float type";
  if (needed.empty())
    return success();
  return op->emitError() << "a function that is replaceable by " << value << " must have " << needed
                         << ", but got " << type << "; leave out the value or change the type";
}

/// The function takes two states of the loop and returns one. tile-link finds those of other files.
static LogicalResult verifyCombine(Operation *op, FlatSymbolRefAttr symbol) {
  if (op->getNumResults() == 0)
    return op->emitError() << "a loop with '" << combineAttr.name
                           << "' must carry values, but got none; leave out the attribute";
  SymbolTableCollection symbols;
  auto module = op->getParentOfType<ModuleOp>();
  if (!module || mayBeLinked(op, symbol, symbols))
    return success();
  auto function = symbols.lookupSymbolIn<func::FuncOp>(module, symbol);
  if (!function)
    return op->emitError() << "merges states by @" << symbol.getValue()
                           << ", which is no function of the module; define it, or link its file";
  SmallVector<Type> states(op->getResultTypes());
  states.append(op->result_type_begin(), op->result_type_end());
  auto needed = FunctionType::get(op->getContext(), states, op->getResultTypes());
  if (function.getFunctionType() == needed)
    return success();
  InFlightDiagnostic error = op->emitError()
                             << "merges states by @" << symbol.getValue()
                             << ", which must take two states and return one, that is " << needed
                             << ", but got " << function.getFunctionType()
                             << "; change the types of the function";
  error.attachNote(function.getLoc()) << "the function";
  return error;
}

LogicalResult TileDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (failed(verifyDiscardable(op, attribute, replaceableAttr, baseAttr, unboundedAttr, unrollAttr,
                               combineAttr, ascendingAttr, replacedAttr, statedAttr)))
    return failure();
  StringRef name = attribute.getName();
  if (name == baseAttr.name && !cast<func::FuncOp>(op).isDeclaration())
    return op->emitError() << "'" << name
                           << "' must be on a function without a body, but got one on @"
                           << SymbolTable::getSymbolName(op).getValue() << "; leave the body out";
  return name == replaceableAttr.name ? verifyReplaceable(op, attribute.getValue())
         : name == combineAttr.name   ? verifyCombine(op, combineAttr.get(op))
                                      : success();
}

LogicalResult TileDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                                       NamedAttribute attribute) {
  return verifyDiscardable(op, attribute, rowEdgeAttr, endsAtUpperAttr);
}

} // namespace tilewright::tile

bool I64Attr::classof(Attribute value) {
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getType().isSignlessInteger(64);
}
I64Attr I64Attr::get(MLIRContext *context, int64_t number) {
  return cast<I64Attr>(IntegerAttr::get(IntegerType::get(context, 64), number));
}

bool StringsAttr::classof(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  return list && llvm::all_of(list, llvm::IsaPred<StringAttr>);
}

LogicalResult tilewright::rejectDiscardable(Operation *op, StringRef name, StringRef rule,
                                            ArrayRef<StringRef> allowed, Attribute got) {
  return op->emitError() << "'" << name << "' must " << rule << " '"
                         << llvm::join(allowed, "' or '") << "', but got " << got
                         << "; correct or remove the attribute";
}
