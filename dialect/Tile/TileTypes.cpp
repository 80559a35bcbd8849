// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parsing, printing and verification of the types of the tile dialect.

#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <optional>
#include <string>

using namespace mlir;
using namespace tilewright::tile;

static ParseResult parseParamName(AsmParser &parser, std::string &name) {
  return parser.parseKeywordOrString(&name);
}
static void printParamName(AsmPrinter &printer, StringRef name) {
  printer.printKeywordOrString(name);
}

#define GET_TYPEDEF_CLASSES
#include "dialect/Tile/TileTypes.cpp.inc"

void TileDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/Tile/TileTypes.cpp.inc"
      >();
}

// Literals of a parametric type keep the precision of the widest type it may be bound to.
const llvm::fltSemantics &ParamType::getFloatSemantics() const {
  return llvm::APFloat::IEEEdouble();
}

FloatType ParamType::scaleElementBitwidth(unsigned) const { return {}; }

LogicalResult ParamType::verify(function_ref<InFlightDiagnostic()> emitError, StringRef name) {
  if (!isReservedName(name))
    return success();
  return emitError() << "'" << name
                     << "' is a literal or a type and cannot name a parameter; choose another name";
}

//===----------------------------------------------------------------------===//
// `<[dims], element>`, shared by tiles and views
//===----------------------------------------------------------------------===//

namespace {
struct Body {
  SmallVector<int64_t> shape;
  SmallVector<StringAttr> symbols;
  Type elementType;
};
} // namespace

static ParseResult parseDim(AsmParser &parser, bool allowUnknown, Body &body) {
  SMLoc loc = parser.getCurrentLocation();
  int64_t extent;
  if (allowUnknown && succeeded(parser.parseOptionalQuestion())) {
    body.shape.push_back(ShapedType::kDynamic);
    body.symbols.push_back(nullptr);
    return success();
  }
  // Before integers: MLIR reads true and false as those, too.
  bool isFlag = succeeded(parser.parseOptionalKeyword("true")) ||
                succeeded(parser.parseOptionalKeyword("false"));
  OptionalParseResult parsed;
  if (!isFlag)
    parsed = parser.parseOptionalInteger(extent);
  if (parsed.has_value()) {
    if (failed(*parsed))
      return failure();
    if (extent < 1 || extent > kMaxExtent)
      return parser.emitError(loc, "a dimension must be between 1 and ")
             << kMaxExtent << ", but got " << extent;
    body.shape.push_back(extent);
    body.symbols.push_back(nullptr);
    return success();
  }
  std::string name;
  if (isFlag || failed(parser.parseOptionalKeywordOrString(&name)))
    return parser.emitError(loc, "expected a dimension: an integer")
           << (allowUnknown ? ", '?'" : "") << " or the name of a parameter, but got "
           << getToken(loc);
  body.shape.push_back(ShapedType::kDynamic);
  body.symbols.push_back(parser.getBuilder().getStringAttr(name));
  return success();
}

static FailureOr<Body> parseBody(AsmParser &parser, bool allowUnknown) {
  Body body;
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&] { return parseDim(parser, allowUnknown, body); }) ||
      parser.parseComma())
    return failure();
  OptionalParseResult parsed = parser.parseOptionalType(body.elementType);
  if (parsed.has_value()) {
    if (failed(*parsed))
      return failure();
  } else {
    std::string name;
    SMLoc loc = parser.getCurrentLocation();
    if (failed(parser.parseOptionalKeywordOrString(&name)))
      return parser.emitError(loc,
                              "expected an element type or the name of a type parameter, but got ")
             << getToken(loc);
    body.elementType = getTypeBySpelling(parser.getContext(), name); // e4m3, e5m2
    if (!body.elementType)
      body.elementType = parser.getChecked<ParamType>(loc, parser.getContext(), name);
    if (!body.elementType)
      return failure();
  }
  if (parser.parseGreater())
    return failure();
  return body;
}

static void printBody(AsmPrinter &printer, Type type) {
  printer << "<[";
  llvm::interleaveComma(getDims(type), printer, [&](const Dim &dim) {
    if (dim.isSymbol())
      printer.printKeywordOrString(dim.symbol.getValue());
    else if (dim.isUnknown())
      printer << '?';
    else
      printer << dim.extent;
  });
  printer << "], ";
  Type elementType = getElementType(type);
  if (auto param = dyn_cast<ParamType>(elementType))
    printer.printKeywordOrString(param.getName());
  else
    printer << elementType;
  printer << '>';
}

static LogicalResult verifyElementType(function_ref<InFlightDiagnostic()> emitError, Type type) {
  if (isElementType(type))
    return success();
  return emitError() << "elements must be floats, i1, i8, i32, i64 or a type parameter, but got "
                     << type;
}

Type TileType::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  FailureOr<Body> body = parseBody(parser, /*allowUnknown=*/false);
  if (failed(body))
    return {};
  return parser.getChecked<TileType>(loc, parser.getContext(), body->shape, body->symbols,
                                     body->elementType);
}

void TileType::print(AsmPrinter &printer) const { printBody(printer, *this); }

LogicalResult TileType::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<int64_t> shape, ArrayRef<StringAttr> symbols,
                               Type elementType) {
  return verifyElementType(emitError, elementType);
}

// arith and math require a type of the same shape with other elements (the i1 of a comparison).
TileType TileType::cloneWith(std::optional<ArrayRef<int64_t>> shape, Type elementType) const {
  if (!shape || *shape == getShape())
    return get(getContext(), getShape(), getSymbols(), elementType);
  SmallVector<StringAttr> symbols(shape->size());
  return get(getContext(), *shape, symbols, elementType);
}

Type ViewType::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  FailureOr<Body> body = parseBody(parser, /*allowUnknown=*/true);
  if (failed(body))
    return {};
  return parser.getChecked<ViewType>(loc, parser.getContext(), body->shape, body->symbols,
                                     body->elementType);
}

void ViewType::print(AsmPrinter &printer) const { printBody(printer, *this); }

LogicalResult ViewType::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<int64_t> shape, ArrayRef<StringAttr> symbols,
                               Type elementType) {
  return verifyElementType(emitError, elementType);
}
