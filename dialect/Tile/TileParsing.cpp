// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Directives of the declarative assembly formats.

#include "dialect/Tile/TileParsing.h"

#include "dialect/Tile/FormulaTree.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

using namespace mlir;
using namespace tilewright::tile;

namespace tilewright::tile {

std::string getToken(SMLoc loc) {
  // The parser's text ends with a NUL.
  StringRef text(loc.getPointer());
  if (text.empty())
    return "the end of the text";
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$'; };
  constexpr size_t longest = 40;
  size_t start = StringRef("%@!#^").contains(text.front()) ? 1 : 0;
  size_t length = start + text.drop_front(start).take_while(isWord).size();
  if (text.front() == '"')
    length = std::min(text.find_first_of("\"\n", 1), text.size() - 1) + 1;
  return ("'" + text.take_front(std::min(std::max<size_t>(length, 1), longest)).rtrim() + "'")
      .str();
}

ParseResult parseExpr(OpAsmParser &parser, ExprAttr &expr) { return parseExprText(parser, expr); }
void printExpr(OpAsmPrinter &printer, Operation *, ExprAttr expr) {
  printExprText(printer.getStream(), expr);
}

ParseResult parseExprList(OpAsmParser &parser, ArrayAttr &exprs) {
  SmallVector<Attribute> list;
  auto parseOne = [&]() -> ParseResult {
    ExprAttr expr;
    if (parseExprText(parser, expr))
      return failure();
    list.push_back(expr);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  exprs = parser.getBuilder().getArrayAttr(list);
  return success();
}
void printExprList(OpAsmPrinter &printer, Operation *, ArrayAttr exprs) {
  printer << '[';
  llvm::interleaveComma(exprs.getAsRange<ExprAttr>(), printer,
                        [&](ExprAttr expr) { printExprText(printer.getStream(), expr); });
  printer << ']';
}

ParseResult parseWithClause(OpAsmParser &parser, ArrayAttr &names, ArrayAttr &values) {
  SmallVector<Attribute> nameList, valueList;
  auto parseOne = [&]() -> ParseResult {
    StringRef name;
    ExprAttr value;
    if (parser.parseKeyword(&name) || parser.parseEqual() || parseExprText(parser, value))
      return failure();
    nameList.push_back(parser.getBuilder().getStringAttr(name));
    valueList.push_back(value);
    return success();
  };
  if (succeeded(parser.parseOptionalKeyword("with")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  names = parser.getBuilder().getArrayAttr(nameList);
  values = parser.getBuilder().getArrayAttr(valueList);
  return success();
}
void printWithClause(OpAsmPrinter &printer, Operation *, ArrayAttr names, ArrayAttr values) {
  if (names.empty())
    return;
  printer << "with (";
  llvm::interleaveComma(llvm::zip(names, values), printer, [&](auto pair) {
    printer << cast<StringAttr>(std::get<0>(pair)).getValue() << " = ";
    printExprText(printer.getStream(), cast<ExprAttr>(std::get<1>(pair)));
  });
  printer << ") ";
}

ParseResult parseCallArguments(OpAsmParser &parser,
                               SmallVectorImpl<OpAsmParser::UnresolvedOperand> &args,
                               ArrayAttr &names) {
  SmallVector<Attribute> nameList;
  StringRef name;
  // An empty list ends at once.
  if (succeeded(parser.parseOptionalKeyword(&name)))
    while (true) {
      nameList.push_back(parser.getBuilder().getStringAttr(name));
      if (parser.parseEqual() || parser.parseOperand(args.emplace_back()))
        return failure();
      if (failed(parser.parseOptionalComma()))
        break;
      if (parser.parseKeyword(&name))
        return failure();
    }
  names = parser.getBuilder().getArrayAttr(nameList);
  return success();
}
void printCallArguments(OpAsmPrinter &printer, Operation *, OperandRange args, ArrayAttr names) {
  llvm::interleaveComma(llvm::zip(names, args), printer, [&](auto pair) {
    printer << cast<StringAttr>(std::get<0>(pair)).getValue() << " = " << std::get<1>(pair);
  });
}

ParseResult parseLaunchArguments(OpAsmParser &parser,
                                 SmallVectorImpl<OpAsmParser::UnresolvedOperand> &args,
                                 ArrayAttr &names) {
  OpAsmParser::UnresolvedOperand first;
  OptionalParseResult isList = parser.parseOptionalOperand(first);
  if (!isList.has_value())
    return parseCallArguments(parser, args, names);
  if (failed(*isList))
    return failure();
  args.push_back(first);
  while (succeeded(parser.parseOptionalComma()))
    if (parser.parseOperand(args.emplace_back()))
      return failure();
  return success();
}
void printLaunchArguments(OpAsmPrinter &printer, Operation *op, OperandRange args,
                          ArrayAttr names) {
  if (names)
    printCallArguments(printer, op, args, names);
  else
    printer << args;
}

ParseResult parseArgumentTypes(OpAsmParser &parser, ArrayRef<OpAsmParser::UnresolvedOperand> args,
                               SmallVectorImpl<Type> &types) {
  if (succeeded(parser.parseOptionalColon()))
    return parser.parseTypeList(types);
  for (const OpAsmParser::UnresolvedOperand &arg : args) {
    FailureOr<Type> type = formula::findType(parser, arg);
    if (failed(type))
      return failure();
    types.push_back(*type);
  }
  return success();
}
void printArgumentTypes(OpAsmPrinter &printer, Operation *, OperandRange, TypeRange types) {
  if (!types.empty())
    printer << " : " << types;
}

ParseResult parseWhenClause(OpAsmParser &parser, ExprAttr &condition) {
  if (failed(parser.parseOptionalKeyword("when")))
    return success();
  return failure(parser.parseLParen() || parseExprText(parser, condition) || parser.parseRParen());
}
void printWhenClause(OpAsmPrinter &printer, Operation *, ExprAttr condition) {
  if (!condition)
    return;
  printer << "when (";
  printExprText(printer.getStream(), condition);
  printer << ')';
}

ParseResult parseFlagClause(OpAsmParser &parser, ExprAttr &flag, StringRef keyword) {
  SMLoc loc = parser.getCurrentLocation();
  if (parseWhenClause(parser, flag))
    return failure();
  if (!flag)
    return parser.emitError(loc, "expected 'when (FLAG)' after '")
           << keyword << "', but got " << getToken(loc);
  return success();
}

ParseResult parseInt(OpAsmParser &parser, IntegerAttr &value) {
  int64_t integer;
  if (parser.parseInteger(integer))
    return failure();
  value = parser.getBuilder().getI64IntegerAttr(integer);
  return success();
}
void printInt(OpAsmPrinter &printer, Operation *, IntegerAttr value) {
  printer << value.getValue().getSExtValue();
}

ParseResult parseReduceKind(OpAsmParser &parser, ReduceKindAttr &kind) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (failed(parser.parseOptionalKeyword(&word)) || !symbolizeReduceKind(word))
    return parser.emitError(
               loc, "the kind of a reduction must be add, mul, max, min, and or or, but got ")
           << getToken(loc);
  kind = ReduceKindAttr::get(parser.getContext(), *symbolizeReduceKind(word));
  return success();
}
void printReduceKind(OpAsmPrinter &printer, Operation *, ReduceKindAttr kind) {
  printer << stringifyReduceKind(kind.getValue());
}

ParseResult parseSplatType(OpAsmParser &parser, Type &tile, Type &scalar) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(tile))
    return failure();
  if (!isTile(tile))
    return parser.emitError(loc, "expected the type of a tile, but got ") << tile;
  scalar = getElementType(tile);
  return success();
}
void printSplatType(OpAsmPrinter &printer, Operation *, Type tile, Type) { printer << tile; }

/// A number; where the elements are floats, an integer becomes one (convertLiteral).
static ParseResult parseLiteralNumber(OpAsmParser &parser, Attribute &value, bool &isNegative) {
  Builder &builder = parser.getBuilder();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::pair<StringRef, double> words[] = {
      {"inf", infinity}, {"minus_inf", -infinity}, {"nan", std::nan("")}};
  for (auto [word, number] : words)
    if (!value && succeeded(parser.parseOptionalKeyword(word)))
      value = builder.getF64FloatAttr(number);
  isNegative = !value && succeeded(parser.parseOptionalMinus());
  if (value)
    return success();
  int64_t integer;
  OptionalParseResult parsed = parser.parseOptionalInteger(integer);
  double number;
  if (parsed.has_value() ? failed(*parsed) : failed(parser.parseFloat(number)))
    return failure();
  if (parsed.has_value())
    value = builder.getI64IntegerAttr(isNegative ? -integer : integer);
  else
    value = builder.getF64FloatAttr(isNegative ? -number : number);
  return success();
}

static void convertLiteral(Builder &builder, Attribute &value, bool isNegative, Type type) {
  auto integer = dyn_cast<IntegerAttr>(value);
  if (integer && isa<FloatType, ParamType>(getElementType(type)))
    value = builder.getF64FloatAttr(isNegative && integer.getInt() == 0 ? -0.0 : integer.getInt());
}

static void printLiteralNumber(OpAsmPrinter &printer, Attribute value) {
  auto number = dyn_cast<FloatAttr>(value);
  if (number && number.getValue().isNaN())
    printer << "nan";
  else if (number && number.getValue().isInfinity())
    printer << (number.getValue().isNegative() ? "minus_inf" : "inf");
  else
    printer.printAttributeWithoutType(value);
}

ParseResult parseLiteral(OpAsmParser &parser, Attribute &value, Type &result) {
  bool isNegative;
  if (parseLiteralNumber(parser, value, isNegative) || parser.parseColonType(result))
    return failure();
  convertLiteral(parser.getBuilder(), value, isNegative, result);
  return success();
}
void printLiteral(OpAsmPrinter &printer, Operation *, Attribute value, Type result) {
  printLiteralNumber(printer, value);
  printer << " : " << result;
}

ParseResult rejectFormula(OpAsmParser &parser, bool isIndex) {
  SMLoc loc = parser.getCurrentLocation();
  return parser.emitError(loc, isIndex ? "an index must be a value or an integer"
                                       : "what a result begins with must be a value")
         << ", but got " << getToken(loc)
         << "; for a formula, write a statement '%x = tile.expr ...' before it and give %x";
}

ParseResult parseIndexList(OpAsmParser &parser,
                           SmallVectorImpl<OpAsmParser::UnresolvedOperand> &indices,
                           DenseI64ArrayAttr &integers) {
  SmallVector<int64_t> list;
  auto parseOne = [&]() -> ParseResult {
    int64_t integer = ShapedType::kDynamic;
    OptionalParseResult parsed = parser.parseOptionalInteger(integer);
    if (!parsed.has_value())
      parsed = parser.parseOptionalOperand(indices.emplace_back());
    if (!parsed.has_value())
      return rejectFormula(parser, /*isIndex=*/true);
    list.push_back(integer);
    if (failed(*parsed))
      return failure();
    // The next token is read: behind an index there is a comma or the end of the list.
    StringRef rest(parser.getCurrentLocation().getPointer());
    return rest.starts_with(",") || rest.starts_with("]") ? ParseResult::success()
                                                          : rejectFormula(parser, /*isIndex=*/true);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  integers = parser.getBuilder().getDenseI64ArrayAttr(list);
  return success();
}
void printIndexList(OpAsmPrinter &printer, Operation *op, OperandRange indices,
                    ArrayRef<int64_t> integers) {
  printDynamicIndexList(printer, op, indices, integers);
}

ParseResult parseArgDefault(OpAsmParser &parser, Type type, Attribute &value) {
  Builder &builder = parser.getBuilder();
  value = {};
  if (failed(parser.parseOptionalEqual()))
    return success();
  if (isa<FloatType>(type)) {
    double number;
    if (parser.parseFloat(number))
      return failure();
    value = builder.getF64FloatAttr(number);
    return success();
  }
  for (bool flag : {false, true})
    if (succeeded(parser.parseOptionalKeyword(flag ? "true" : "false"))) {
      value = builder.getBoolAttr(flag);
      return success();
    }
  int64_t integer;
  if (parser.parseInteger(integer))
    return failure();
  value = builder.getI64IntegerAttr(integer);
  return success();
}

void printArgDefault(OpAsmPrinter &printer, Attribute value) {
  if (!value)
    return;
  printer << " = ";
  printer.printAttributeWithoutType(value);
}

/// Whether the text is `%a, %b:2 = ...`: MLIR's parser cannot look further than one token.
static bool beginsWithResults(const char *text) {
  StringRef rest(text);
  while (rest.consume_front("%")) {
    rest =
        rest.drop_while([](char c) { return llvm::isAlnum(c) || StringRef("_$.-").contains(c); });
    if (rest.consume_front(":"))
      rest = rest.drop_while(llvm::isDigit);
    rest = rest.ltrim();
    if (!rest.consume_front(","))
      return rest.starts_with("=");
    rest = rest.ltrim();
  }
  return false;
}

ParseResult parsePrintValues(OpAsmParser &parser,
                             SmallVectorImpl<OpAsmParser::UnresolvedOperand> &values) {
  if (beginsWithResults(parser.getCurrentLocation().getPointer()))
    return success();
  return parser.parseOperandList(values);
}
void printPrintValues(OpAsmPrinter &printer, Operation *, OperandRange values) {
  if (!values.empty())
    printer << ' ' << values;
}

ParseResult parseWorkspaceFill(OpAsmParser &parser, Attribute &fill, Type &type) {
  bool isNegative = false;
  if (succeeded(parser.parseOptionalKeyword("fill")) &&
      parseLiteralNumber(parser, fill, isNegative))
    return failure();
  if (parser.parseColonType(type))
    return failure();
  if (fill)
    convertLiteral(parser.getBuilder(), fill, isNegative, type);
  return success();
}
void printWorkspaceFill(OpAsmPrinter &printer, Operation *, Attribute fill, Type type) {
  if (fill) {
    printer << "fill ";
    printLiteralNumber(printer, fill);
    printer << ' ';
  }
  printer << ": " << type;
}

ParseResult parseFillValue(OpAsmParser &parser, Attribute &value, ExprAttr &condition,
                           const OpAsmParser::UnresolvedOperand &view, Type &type) {
  bool isNegative;
  if (parseLiteralNumber(parser, value, isNegative) || parseWhenClause(parser, condition))
    return failure();
  if (succeeded(parser.parseOptionalColon())) {
    if (parser.parseType(type))
      return failure();
  } else {
    FailureOr<Type> known = formula::findType(parser, view);
    if (failed(known))
      return failure();
    type = *known;
  }
  convertLiteral(parser.getBuilder(), value, isNegative, type);
  return success();
}
void printFillValue(OpAsmPrinter &printer, Operation *op, Attribute value, ExprAttr condition,
                    Value, Type type) {
  printLiteralNumber(printer, value);
  if (condition)
    printer << ' ';
  printWhenClause(printer, op, condition);
  printer << " : " << type;
}

ParseResult parseResultAndFill(OpAsmParser &parser, Type &result,
                               const std::optional<OpAsmParser::UnresolvedOperand> &fill,
                               Type &fillType) {
  if (parser.parseType(result))
    return failure();
  if (fill)
    fillType = getElementType(result);
  return success();
}
void printResultAndFill(OpAsmPrinter &printer, Operation *, Type result, Value, Type) {
  printer << result;
}

ParseResult parseResultAndAcc(OpAsmParser &parser, Type &result,
                              const std::optional<OpAsmParser::UnresolvedOperand> &acc,
                              Type &accType) {
  if (parser.parseType(result))
    return failure();
  if (acc)
    accType = result;
  return success();
}
void printResultAndAcc(OpAsmPrinter &printer, Operation *, Type result, Value, Type) {
  printer << result;
}

/// `source (-> result)?`, where `infer` computes the dimensions. A layout belongs to one shape: for
/// tiles with a layout, the result's type is required.
static ParseResult parseInferred(OpAsmParser &parser, Type &source, Type &result,
                                 function_ref<bool(SmallVector<Dim> &)> infer) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(source))
    return failure();
  if (succeeded(parser.parseOptionalArrow()))
    return parser.parseType(result);
  auto tensor = dyn_cast<RankedTensorType>(source);
  if (!isTile(source) || (tensor && tensor.getEncoding()))
    return parser.emitError(loc, "the type of the result must be written, but got only ") << source;
  SmallVector<Dim> dims = getDims(source);
  if (!infer(dims))
    return parser.emitError(loc, "the operation must name dimensions of its operand, so that the "
                                 "result type can be inferred, but got ")
           << source;
  result = makeTile(parser.getContext(), dims, getElementType(source), !tensor);
  return success();
}

ParseResult parseReducedTypes(OpAsmParser &parser, Type &source, Type &result, IntegerAttr dim) {
  return parseInferred(parser, source, result, [&](SmallVector<Dim> &dims) {
    int64_t at = dim.getInt();
    if (at < 0 || at >= static_cast<int64_t>(dims.size()))
      return false;
    dims.erase(dims.begin() + at);
    return true;
  });
}

/// The type of a tile with elements of i32 instead; of other types themselves, which the operation
/// rejects.
static Type getIndexType(Type type) {
  auto i32 = IntegerType::get(type.getContext(), 32);
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return tensor.clone(i32);
  return isTile(type) ? makeTile(type.getContext(), getDims(type), i32, /*symbolicForm=*/true)
                      : type;
}

ParseResult parseExtremumTypes(OpAsmParser &parser, Type &source, Type &value, Type &index,
                               IntegerAttr dim) {
  if (parseReducedTypes(parser, source, value, dim))
    return failure();
  if (succeeded(parser.parseOptionalComma()))
    return parser.parseType(index);
  index = getIndexType(value);
  return success();
}

ParseResult parseValuesAndIndices(OpAsmParser &parser, Type &values, Type &indices) {
  if (parser.parseType(values))
    return failure();
  indices = getIndexType(values);
  return success();
}

ParseResult parsePermutedTypes(OpAsmParser &parser, Type &source, Type &result,
                               DenseI64ArrayAttr permutation) {
  return parseInferred(parser, source, result, [&](SmallVector<Dim> &dims) {
    SmallVector<Dim> from = std::exchange(dims, {});
    for (int64_t dim : permutation.asArrayRef()) {
      if (dim < 0 || dim >= static_cast<int64_t>(from.size()))
        return false;
      dims.push_back(from[dim]);
    }
    return dims.size() == from.size();
  });
}

ParseResult parseSameTypes(OpAsmParser &parser, Type &result, Type &a, Type &b) {
  if (parser.parseType(result))
    return failure();
  a = b = result;
  return success();
}
ParseResult parseSameTypes(OpAsmParser &parser, Type &result, Type &a, Type &b, Type &c) {
  c = nullptr;
  if (parseSameTypes(parser, result, a, b))
    return failure();
  c = result;
  return success();
}

ParseResult parseFileList(OpAsmParser &parser, ArrayAttr &files) {
  SmallVector<Attribute> list;
  do {
    std::string file;
    if (parser.parseString(&file))
      return failure();
    list.push_back(parser.getBuilder().getStringAttr(file));
  } while (succeeded(parser.parseOptionalComma()));
  files = parser.getBuilder().getArrayAttr(list);
  return success();
}
void printFileList(OpAsmPrinter &printer, Operation *, ArrayAttr files) {
  llvm::interleaveComma(files, printer,
                        [&](Attribute file) { printer.printAttributeWithoutType(file); });
}

} // namespace tilewright::tile
