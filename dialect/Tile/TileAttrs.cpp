// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes of the tile dialect: the expression grammar and declarations of parameters.

#include "dialect/Tile/Suggest.h"
#include "dialect/Tile/TileExpr.h"
#include "dialect/Tile/TileExprEval.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"

#include <cstring>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

#include "dialect/Tile/TileEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/Tile/TileAttrs.cpp.inc"

void TileDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/Tile/TileAttrs.cpp.inc"
      >();
}

ExprAttr ExprAttr::getInt(MLIRContext *ctx, int64_t value) {
  return get(ctx, ExprKind::Int, value, "", {});
}
ExprAttr ExprAttr::getFlag(MLIRContext *ctx, bool value) {
  return get(ctx, ExprKind::Flag, value, "", {});
}
ExprAttr ExprAttr::getEnum(MLIRContext *ctx, StringRef value) {
  return get(ctx, ExprKind::Enum, 0, value, {});
}
ExprAttr ExprAttr::getType(MLIRContext *ctx, StringRef value) {
  return get(ctx, ExprKind::Type, 0, value, {});
}
ExprAttr ExprAttr::getName(MLIRContext *ctx, StringRef name) {
  return get(ctx, ExprKind::Name, 0, name, {});
}
ExprAttr ExprAttr::getFloat(MLIRContext *ctx, double value) {
  return get(ctx, ExprKind::Float, llvm::bit_cast<int64_t>(value), "", {});
}
double ExprAttr::getNumber() const {
  return getKind() == ExprKind::Float ? llvm::bit_cast<double>(getValue())
                                      : static_cast<double>(getValue());
}

//===----------------------------------------------------------------------===//
// Grammar. Precedence, loosest first: comparison (not associative), sum, product, primary.
// MLIR's lexer has no '%', '/', '&&' or '!=', hence the functions. Inside the angle brackets of
// an attribute '<' and '>' would be taken for brackets, so comparisons are functions there, too.
//===----------------------------------------------------------------------===//

namespace {

/// Far above handwritten expressions; the bounds protect the stack from hostile input, since a
/// chain `1 + 1 + ...` is a tree as deep as it is long.
constexpr unsigned kMaxDepth = 64;
constexpr unsigned kMaxOperations = 1024;

class ExprParser {
public:
  ExprParser(AsmParser &parser, bool infixComparisons)
      : parser(parser), ctx(parser.getContext()), infixComparisons(infixComparisons) {}

  ParseResult parseComparison(ExprAttr &result) {
    if (depth >= kMaxDepth)
      return parser.emitError(parser.getCurrentLocation(), "an expression may be nested at most ")
             << kMaxDepth
             << " levels deep, but got more; name parts of it by derived parameters (let)";
    ++depth;
    ParseResult parsed = parseComparisonUnbounded(result);
    --depth;
    return parsed;
  }

private:
  ParseResult parseComparisonUnbounded(ExprAttr &result) {
    ExprAttr rhs;
    if (parseSum(result))
      return failure();
    if (!infixComparisons)
      return success();
    std::string op;
    if (succeeded(parser.parseOptionalLess()))
      op = "<";
    else if (succeeded(parser.parseOptionalGreater()))
      op = ">";
    else if (succeeded(parser.parseOptionalEqual())) {
      if (parser.parseEqual())
        return failure();
      op = "==";
    } else
      return success();
    if (op != "==" && succeeded(parser.parseOptionalEqual()))
      op += '=';
    if (parseSum(rhs))
      return failure();
    result = call(op, {result, rhs});
    return success();
  }

  ParseResult parseSum(ExprAttr &result) {
    if (parseProduct(result))
      return failure();
    while (true) {
      ExprAttr rhs;
      if (succeeded(parser.parseOptionalPlus())) {
        if (parseProduct(rhs) || countOperation())
          return failure();
        result = call("+", {result, rhs});
      } else if (succeeded(parser.parseOptionalMinus())) {
        if (parseProduct(rhs) || countOperation())
          return failure();
        result = call("-", {result, rhs});
      } else {
        return success();
      }
    }
  }

  ParseResult parseProduct(ExprAttr &result) {
    if (parsePrimary(result))
      return failure();
    while (succeeded(parser.parseOptionalStar())) {
      ExprAttr rhs;
      if (parsePrimary(rhs) || countOperation())
        return failure();
      result = call("*", {result, rhs});
    }
    return success();
  }

  /// Rejects the operators of other languages after the token at the current position, and names
  /// the function to use instead. MLIR's lexer, which is one token ahead, would only report an
  /// unknown token.
  ParseResult rejectOperator() {
    constexpr std::pair<StringLiteral, StringLiteral> functions[] = {
        {"%", "mod(a, b)"},
        {"/", "floordiv(a, b) or ceildiv(a, b)"},
        {"&&", "and(a, b)"},
        {"||", "or(a, b)"},
        {"!=", "ne(a, b)"}};
    const char *at = parser.getCurrentLocation().getPointer();
    auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
    const char *end = at;
    while (isWord(*end))
      ++end;
    end += end == at && *at != 0; // a parenthesis
    while (*end == ' ' || *end == '\n' || *end == '\t' || *end == '\r')
      ++end;
    if (end[0] == '/' && end[1] == '/')
      return success();
    if (*end == '%' && StringRef(at, end - at).contains('\n')) // the next operation
      return parser.emitError(SMLoc::getFromPointer(at),
                              "expected ':' and a type after the expression, but got the next "
                              "operation; write a type such as ': i32'");
    for (auto [symbol, function] : functions)
      if (std::strncmp(end, symbol.data(), symbol.size()) == 0)
        return parser.emitError(SMLoc::getFromPointer(end), "there is no '")
               << symbol << "' in an expression; write " << function;
    return success();
  }

  ParseResult parseCloseParen() { return failure(rejectOperator() || parser.parseRParen()); }

  ParseResult parsePrimary(ExprAttr &result) {
    SMLoc loc = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalLParen()))
      return failure(parseComparison(result) || parseCloseParen());
    if (rejectOperator())
      return failure();
    // Before integers: MLIR reads true and false as those, too.
    for (bool flag : {false, true})
      if (succeeded(parser.parseOptionalKeyword(flag ? "true" : "false"))) {
        result = ExprAttr::getFlag(ctx, flag);
        return success();
      }
    int64_t value;
    OptionalParseResult integer = parser.parseOptionalInteger(value);
    if (integer.has_value()) {
      result = ExprAttr::getInt(ctx, succeeded(*integer) ? value : 0);
      return *integer;
    }
    std::string text;
    if (succeeded(parser.parseOptionalString(&text))) {
      result = ExprAttr::getEnum(ctx, text);
      return success();
    }
    StringRef name;
    if (failed(parser.parseOptionalKeyword(&name)))
      return parser.emitError(
                 loc, "expected an integer, a name, a string or '(' in an expression, but got ")
             << getToken(loc);
    if (getTypeBySpelling(ctx, name)) {
      result = ExprAttr::getType(ctx, name);
      return success();
    }
    if (failed(parser.parseOptionalLParen())) {
      result = ExprAttr::getName(ctx, name);
      return success();
    }
    return parseCall(loc, name, result);
  }

  ParseResult parseCall(SMLoc loc, StringRef name, ExprAttr &result) {
    if (name == "dim") {
      StringRef argument;
      int64_t position;
      if (parser.parseKeyword(&argument) || parser.parseComma() || rejectOperator() ||
          parser.parseInteger(position) || parseCloseParen())
        return failure();
      result = ExprAttr::get(ctx, ExprKind::Dim, position, argument, {});
      return success();
    }
    SmallVector<ExprAttr> operands;
    if (failed(parser.parseOptionalRParen())) {
      do {
        if (parseComparison(operands.emplace_back()))
          return failure();
      } while (succeeded(parser.parseOptionalComma()));
      if (parseCloseParen())
        return failure();
    }
    std::optional<expr::Function> function = expr::findFunction(std::string_view(name));
    if (!function)
      return rejectFunction(loc, name);
    const expr::FunctionRow &row = rowOf(*function);
    if (row.arity != operands.size())
      return parser.emitError(loc, "'")
             << name << "' takes " << row.arity << " operands, but got " << operands.size();
    result = call(row.name, operands);
    return success();
  }

  ParseResult rejectFunction(SMLoc loc, StringRef name) {
    std::string list = expr::listFunctions();
    SmallVector<StringRef> known;
    StringRef(list).split(known, ", ");
    auto [one, other] = known.pop_back_val().split(" and ");
    known.append({one, other});
    if (StringRef similar = findSimilarFunction(name, known); !similar.empty())
      return parser.emitError(loc, "unknown function '")
             << name << "' in an expression; did you mean '" << similar << "'?";
    return parser.emitError(loc, "unknown function '")
           << name << "' in an expression; there are " << list;
  }

  ParseResult countOperation() {
    if (++operations <= kMaxOperations)
      return success();
    return parser.emitError(parser.getCurrentLocation(), "an expression may hold at most ")
           << kMaxOperations
           << " of '+', '-' and '*', but got more; name parts of it by derived parameters (let)";
  }

  ExprAttr call(StringRef function, ArrayRef<ExprAttr> operands) {
    return ExprAttr::get(ctx, ExprKind::Call, 0, function, operands);
  }

  AsmParser &parser;
  MLIRContext *ctx;
  bool infixComparisons;
  unsigned depth = 0, operations = 0;
};

} // namespace

ParseResult tilewright::tile::parseExprText(AsmParser &parser, ExprAttr &expr) {
  return ExprParser(parser, /*infixComparisons=*/true).parseComparison(expr);
}

expr::Expr tilewright::tile::toExpr(ExprAttr attribute) {
  using expr::Expr;
  std::string name = attribute.getName().str();
  switch (attribute.getKind()) {
  case ExprKind::Int:
    return Expr::integer(attribute.getValue());
  case ExprKind::Flag:
    return Expr::flag(attribute.getValue() != 0);
  case ExprKind::Float:
    return Expr::real(attribute.getNumber());
  case ExprKind::Enum:
    return Expr::symbol(Expr::Kind::Enum, std::move(name));
  case ExprKind::Type:
    return Expr::symbol(Expr::Kind::Type, std::move(name));
  case ExprKind::Name:
    return Expr::name(std::move(name));
  case ExprKind::Dim:
    return Expr::dim(std::move(name), attribute.getValue());
  case ExprKind::Call:
    break;
  }
  std::vector<Expr> operands;
  for (ExprAttr operand : attribute.getOperands())
    operands.push_back(toExpr(operand));
  return Expr::call(getFunction(attribute), std::move(operands));
}

void tilewright::tile::printExprText(raw_ostream &os, ExprAttr expr) {
  os << toExpr(expr).toString();
}

Attribute ExprAttr::parse(AsmParser &parser, Type) {
  ExprAttr expr;
  if (parser.parseLess() || ExprParser(parser, /*infixComparisons=*/false).parseComparison(expr) ||
      parser.parseGreater())
    return {};
  return expr;
}

void ExprAttr::print(AsmPrinter &printer) const {
  printer << '<' << toExpr(*this).toString(/*hasOperators=*/false) << '>';
}

void tilewright::tile::walkExpr(ExprAttr expr, function_ref<void(ExprAttr)> fn) {
  if (expr.getKind() == ExprKind::Name || expr.getKind() == ExprKind::Dim)
    fn(expr);
  for (ExprAttr operand : expr.getOperands())
    walkExpr(operand, fn);
}

//===----------------------------------------------------------------------===//
// ParamDeclAttr: let? NAME (, NAME)* : kind (in [values])? (= default)?
//===----------------------------------------------------------------------===//

static bool hasKind(ExprAttr literal, ParamKind kind) {
  return static_cast<uint32_t>(literal.getKind()) == static_cast<uint32_t>(kind);
}

/// One of the names that the expression reads; empty if there is none.
static StringRef findRead(ExprAttr expr, ArrayRef<StringRef> names) {
  StringRef found;
  walkExpr(expr, [&](ExprAttr leaf) {
    if (leaf.getKind() == ExprKind::Name && llvm::is_contained(names, leaf.getName()))
      found = leaf.getName();
  });
  return found;
}

static ParseResult parseDecl(AsmParser &parser, SmallVectorImpl<ParamDeclAttr> &decls,
                             bool infixComparisons) {
  auto parseValue = [&](ExprAttr &expr) {
    return ExprParser(parser, infixComparisons).parseComparison(expr);
  };
  StringRef name, kindName;
  SmallVector<StringRef> names;
  bool isDerived = succeeded(parser.parseOptionalKeyword("let"));
  do {
    SMLoc nameLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return failure();
    if (isReservedName(name))
      return parser.emitError(nameLoc, "'")
             << name << "' is a literal or a type and cannot name a parameter; choose another name";
    names.push_back(name);
  } while (succeeded(parser.parseOptionalComma()));
  SMLoc kindLoc = parser.getCurrentLocation();
  if (failed(parser.parseOptionalColon()))
    return parser.emitError(kindLoc, "expected ':' and the kind of parameter '")
           << name << "'; write them after the name, as in " << name << ": int";
  kindLoc = parser.getCurrentLocation();
  if (parser.parseKeyword(&kindName))
    return failure();
  std::optional<ParamKind> kind = symbolizeParamKind(kindName);
  if (!kind)
    return parser.emitError(kindLoc,
                            "the kind of a parameter must be int, flag, enum or type, but got '")
           << kindName << "'";
  auto checkLiteral = [&](SMLoc loc, ExprAttr expr, StringRef what) -> LogicalResult {
    if (!expr.isConstant() || hasKind(expr, *kind))
      return success();
    InFlightDiagnostic diagnostic = parser.emitError(loc);
    diagnostic << what << " of parameter '" << name << "' must be of kind "
               << stringifyParamKind(*kind) << ", but got a value of kind "
               << stringifyExprKind(expr.getKind());
    if (*kind == ParamKind::Enum)
      diagnostic << "; values of an enum are written as strings";
    return diagnostic;
  };
  SmallVector<ExprAttr> allowed;
  if (succeeded(parser.parseOptionalKeyword("in"))) {
    auto parseAllowed = [&]() -> ParseResult {
      SMLoc loc = parser.getCurrentLocation();
      ExprAttr &value = allowed.emplace_back();
      if (parseValue(value))
        return failure();
      if (!value.isConstant())
        return parser.emitError(loc, "an allowed value of a parameter must be a literal, but got '")
               << tile::toString(value) << "'";
      return checkLiteral(loc, value, "an allowed value");
    };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAllowed))
      return failure();
  }
  if (*kind == ParamKind::Enum && allowed.empty())
    return parser.emitError(kindLoc, "enum parameter '")
           << name << "' must list its values, but got none; write them as in [\"a\", \"b\"]";
  ExprAttr defaultValue;
  if (succeeded(parser.parseOptionalEqual())) {
    SMLoc loc = parser.getCurrentLocation();
    if (parseValue(defaultValue) || failed(checkLiteral(loc, defaultValue, "the default")))
      return failure();
    if (StringRef read = findRead(defaultValue, names); names.size() > 1 && !read.empty())
      return parser.emitError(loc, "a default is that of all parameters before it that share it, "
                                   "and must not read one of them, but got '")
             << read << "'; declare it with a kind of its own, as in " << read << ": "
             << stringifyParamKind(*kind);
    if (defaultValue.isConstant() && !allowed.empty() && !llvm::is_contained(allowed, defaultValue))
      return parser.emitError(loc, "the default of parameter '")
             << name << "' must be one of its allowed values, but got '"
             << tile::toString(defaultValue) << "'";
  }
  if (isDerived && !defaultValue)
    return parser.emitError(kindLoc, "derived parameter '")
           << name << "' must have a value, but got none; write let " << name << ": "
           << stringifyParamKind(*kind) << " = ...";
  for (StringRef each : names)
    decls.push_back(
        ParamDeclAttr::get(parser.getContext(), each, *kind, allowed, defaultValue, isDerived));
  return success();
}

ParseResult tilewright::tile::parseParamDecls(AsmParser &parser,
                                              SmallVectorImpl<ParamDeclAttr> &decls) {
  return parseDecl(parser, decls, /*infixComparisons=*/true);
}

static void printDecl(raw_ostream &os, ParamDeclAttr decl, bool infixComparisons) {
  os << (decl.getDerived() ? "let " : "") << decl.getName() << ": "
     << stringifyParamKind(decl.getKind());
  if (!decl.getAllowed().empty()) {
    os << " in [";
    llvm::interleaveComma(decl.getAllowed(), os, [&](ExprAttr e) { printExprText(os, e); });
    os << ']';
  }
  if (ExprAttr value = decl.getDefaultValue()) {
    os << " = ";
    os << toExpr(value).toString(infixComparisons);
  }
}

void tilewright::tile::printParamDecl(raw_ostream &os, ParamDeclAttr decl) {
  printDecl(os, decl, /*infixComparisons=*/true);
}

Attribute ParamDeclAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<ParamDeclAttr> decls;
  if (parser.parseLess() || parseDecl(parser, decls, /*infixComparisons=*/false) ||
      parser.parseGreater())
    return {};
  if (decls.size() == 1)
    return decls.front();
  parser.emitError(loc, "the attribute must declare one parameter, but got ") << decls.size();
  return {};
}

void ParamDeclAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printDecl(printer.getStream(), *this, /*infixComparisons=*/false);
  printer << '>';
}
