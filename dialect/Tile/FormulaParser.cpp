// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas of tile.expr and tile.result: their text.

#include "base/Expr/Function.h"
#include "dialect/Tile/FormulaTree.h"
#include "dialect/Tile/Suggest.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace tilewright::tile;

namespace tilewright::tile::formula {
namespace {

/// Operators of other languages that formulas do not have, longest first.
struct OtherMark {
  StringLiteral mark, remedy;
};
constexpr OtherMark otherMarks[] = {{"!=", "write ne(a, b)"},
                                    {"&&", "write and(a, b)"},
                                    {"||", "write or(a, b)"},
                                    {"**", "write x * x"},
                                    {"!", "write not(a)"},
                                    {"&", "write bitand(a, b)"},
                                    {"^", "write x * x for a power"},
                                    {"%", "write mod(a, b)"}};

/// The end of the error of a formula whose text goes on at `text`; empty if another is to blame.
std::string explainMark(StringRef text) {
  for (const OtherMark &other : otherMarks)
    if (text.starts_with(other.mark))
      return ("a formula has no '" + other.mark + "'; " + other.remedy).str();
  return "";
}

/// While a formula is parsed, adds remedies to the errors of MLIR's lexer, which reads one token
/// ahead.
class MarkErrors {
public:
  explicit MarkErrors(OpAsmParser &parser)
      : start(parser.getCurrentLocation().getPointer()),
        place(dyn_cast<FileLineColLoc>(
            LocationAttr(parser.getEncodedSourceLoc(parser.getCurrentLocation())))),
        listen(parser.getContext(), [this, thread = llvm::get_threadid()](Diagnostic &diagnostic) {
          std::string text = diagnostic.str();
          if (thread == llvm::get_threadid() &&
              llvm::is_contained({"invalid type identifier", "unexpected character",
                                  "invalid block name", "invalid SSA name"},
                                 text))
            if (std::string more = explainMark(findText(diagnostic.getLocation())); !more.empty())
              diagnostic << "; " << more;
          return failure(); // the next handler shows it
        }) {}

private:
  /// The text at a location that follows the start of the formula.
  StringRef findText(Location location) const {
    auto wanted = dyn_cast<FileLineColLoc>(LocationAttr(location));
    if (!place || !wanted || wanted.getLine() < place.getLine())
      return "";
    StringRef rest(start);
    unsigned column = place.getColumn();
    for (unsigned line = place.getLine(); line < wanted.getLine(); ++line, column = 1)
      rest = rest.split('\n').second;
    return wanted.getColumn() < column
               ? ""
               : rest.drop_front(std::min<size_t>(wanted.getColumn() - column, rest.size()));
  }

  const char *start;
  FileLineColLoc place;
  ScopedDiagnosticHandler listen;
};

/// Far above handwritten formulas; protects the stack from hostile input.
constexpr unsigned kMaxDepth = 64;
constexpr unsigned kMaxNodes = 1024;

class FormulaParser {
public:
  explicit FormulaParser(OpAsmParser &parser) : parser(parser) {}

  ParseResult parseComparison(NodePtr &result) {
    if (depth >= kMaxDepth)
      return parser.emitError(parser.getCurrentLocation(), "a formula may be nested at most ")
             << kMaxDepth << " levels deep, but got more; name parts of it by another tile.expr";
    ++depth;
    ParseResult parsed = parseComparisonUnbounded(result);
    --depth;
    return parsed;
  }

private:
  ParseResult make(NodePtr &result, SMLoc loc, StringRef word, NodePtr a = {}, NodePtr b = {}) {
    if (++nodes > kMaxNodes)
      return parser.emitError(loc, "a formula may have at most ")
             << kMaxNodes << " operations, but got more; name parts of it by another tile.expr";
    auto node = std::make_unique<Node>();
    node->loc = loc;
    node->word = word;
    for (NodePtr *operand : {&a, &b})
      if (*operand)
        node->operands.push_back(std::move(*operand));
    result = std::move(node);
    return success();
  }

  ParseResult parseComparisonUnbounded(NodePtr &result) {
    if (parseSum(result))
      return failure();
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    if (succeeded(parser.parseOptionalLess()))
      word = succeeded(parser.parseOptionalEqual()) ? "<=" : "<";
    else if (succeeded(parser.parseOptionalGreater()))
      word = succeeded(parser.parseOptionalEqual()) ? ">=" : ">";
    else if (succeeded(parser.parseOptionalEqual()))
      word = "==";
    else
      return success();
    NodePtr other;
    if ((word == "==" && parser.parseEqual()) || parseSum(other))
      return failure();
    return make(result, loc, word, std::move(result), std::move(other));
  }

  ParseResult parseSum(NodePtr &result) {
    if (parseProduct(result))
      return failure();
    while (true) {
      SMLoc loc = parser.getCurrentLocation();
      StringRef word;
      if (succeeded(parser.parseOptionalPlus()))
        word = "+";
      else if (succeeded(parser.parseOptionalMinus()))
        word = "-";
      else
        return success();
      NodePtr other;
      if (parseProduct(other) || make(result, loc, word, std::move(result), std::move(other)))
        return failure();
    }
  }

  ParseResult parseProduct(NodePtr &result) {
    if (parsePrimary(result))
      return failure();
    while (true) {
      SMLoc loc = parser.getCurrentLocation();
      StringRef word;
      if (succeeded(parser.parseOptionalStar()))
        word = "*";
      else if (succeeded(parser.parseOptionalSlash()))
        word = "/";
      else
        return success();
      NodePtr other;
      if (parsePrimary(other) || make(result, loc, word, std::move(result), std::move(other)))
        return failure();
    }
  }

  ParseResult parsePrimary(NodePtr &result) {
    SMLoc loc = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalLParen()))
      return parseParenthesized(result, loc);
    if (make(result, loc, {}))
      return failure();
    OptionalParseResult operand = parser.parseOptionalOperand(result->operand);
    if (operand.has_value()) {
      result->kind = Node::Operand;
      return failure(failed(*operand) || parseIndices(*result));
    }
    StringAttr symbol;
    if (succeeded(parser.parseOptionalSymbolName(symbol)))
      return parseSymbol(*result, symbol);
    StringRef word;
    if (succeeded(parser.parseOptionalKeyword(&word)))
      return parseWord(*result, word);
    return parseNumber(*result);
  }

  /// A formula, or a list of formulas.
  ParseResult parseParenthesized(NodePtr &result, SMLoc loc) {
    if (parseTyped(result))
      return failure();
    if (failed(parser.parseOptionalComma()))
      return parser.parseRParen();
    NodePtr first = std::move(result);
    if (make(result, loc, {}, std::move(first)))
      return failure();
    result->kind = Node::List;
    do {
      if (parseTyped(result->operands.emplace_back()))
        return failure();
    } while (succeeded(parser.parseOptionalComma()));
    return parser.parseRParen();
  }

  ParseResult parseNumber(Node &node) {
    node.kind = Node::Number;
    Builder &builder = parser.getBuilder();
    bool isNegative = succeeded(parser.parseOptionalMinus());
    const char *at = parser.getCurrentLocation().getPointer();
    if (*at == '*' && at[-1] == '*')
      return parser.emitError(parser.getCurrentLocation()) << explainMark(StringRef(at - 1));
    if (!llvm::isDigit(*at))
      return parser.emitError(parser.getCurrentLocation(),
                              isNegative
                                  ? "expected a number after the sign; write neg(x) for the "
                                    "negative of a value"
                                  : "expected a value, a number, a name or '(' in a formula");
    int64_t integer;
    double number;
    OptionalParseResult parsed = parser.parseOptionalInteger(integer);
    if (parsed.has_value() ? failed(*parsed) : failed(parser.parseFloat(number)))
      return failure();
    node.number = parsed.has_value()
                      ? Attribute(builder.getI64IntegerAttr(isNegative ? -integer : integer))
                      : builder.getF64FloatAttr(isNegative ? -number : number);
    return success();
  }

  /// `[i, ...]` after a view or a capture.
  ParseResult parseIndices(Node &node) {
    if (failed(parser.parseOptionalLSquare()))
      return success();
    node.kind = Node::Element;
    do {
      if (parseComparison(node.operands.emplace_back()))
        return failure();
    } while (succeeded(parser.parseOptionalComma()));
    return parser.parseRSquare();
  }

  /// A function of the module and its arguments, or a capture.
  ParseResult parseSymbol(Node &node, StringAttr symbol) {
    node.symbol = FlatSymbolRefAttr::get(symbol);
    node.kind = Node::Element;
    if (failed(parser.parseOptionalLParen()))
      return parseIndices(node);
    node.kind = Node::Apply;
    return parseArguments(node);
  }

  /// `x, y : type, ...)`
  ParseResult parseArguments(Node &node) {
    if (succeeded(parser.parseOptionalRParen()))
      return success();
    do {
      if (parseTyped(node.operands.emplace_back()))
        return failure();
    } while (succeeded(parser.parseOptionalComma()));
    return parser.parseRParen();
  }

  ParseResult parseTyped(NodePtr &result) {
    Type type;
    if (parseComparison(result))
      return failure();
    if (failed(parser.parseOptionalColon()))
      return success();
    if (parser.parseType(type))
      return failure();
    NodePtr inner = std::move(result);
    SMLoc loc = inner->loc;
    if (make(result, loc, {}, std::move(inner)))
      return failure();
    result->kind = Node::Typed;
    result->from = type;
    return success();
  }

  /// `%view[i, ...] dims [d, ...]`
  ParseResult parseLoad(Node &node) {
    if (parser.parseOperand(node.operand) || parseIndices(node))
      return failure();
    node.kind = Node::Load;
    if (failed(parser.parseOptionalKeyword("dims")))
      return success();
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
      return parser.parseInteger(node.dims.emplace_back());
    });
  }

  /// `(a, b, sum transpose_a transpose_b)`
  ParseResult parseDot(Node &node) {
    node.kind = Node::Dot;
    if (parser.parseLParen())
      return failure();
    do {
      if (parseTyped(node.operands.emplace_back()))
        return failure();
    } while (succeeded(parser.parseOptionalComma()));
    if (node.operands.size() != 2 && node.operands.size() != 3)
      return parser.emitError(node.loc, "a product has two operands, and may have a sum, but got ")
             << node.operands.size();
    node.transposesA = succeeded(parser.parseOptionalKeyword("transpose_a"));
    node.transposesB = succeeded(parser.parseOptionalKeyword("transpose_b"));
    return parser.parseRParen();
  }

  ParseResult parseReduction(Node &node) {
    node.kind = Node::Reduce;
    return failure(parseReduceKind(parser, node.reduction) || parser.parseLParen() ||
                   parseTyped(node.operands.emplace_back()) || parser.parseComma() ||
                   parser.parseInteger(node.dim) || parser.parseRParen());
  }

  /// A function that formulas do not have, but perhaps the math dialect or expressions.
  ParseResult rejectFunction(const Node &node, StringRef word) {
    static constexpr std::pair<StringLiteral, StringLiteral> remedies[] = {
        {"pow", "write x * x, or a statement math.powf before it"},
        {"sigmoid", "write 1 / (1 + exp(neg(x)))"},
        {"sum", "write reduce add(x, dim)"},
        {"prod", "write reduce mul(x, dim)"},
        {"any", "write reduce or(x, dim)"},
        {"all", "write reduce and(x, dim)"}};
    for (auto [name, remedy] : remedies)
      if (word == name)
        return parser.emitError(node.loc, "formulas have no function '") << word << "'; " << remedy;
    SmallVector<StringRef> known = {"select", "choose", "full",   "expand", "cast", "iota",
                                    "dim",    "load",   "reduce", "dot",    "map",  "ne"};
    for (const Function &row : functions)
      if (!row.precedence)
        known.push_back(row.word);
    for (const Function &row : connectives)
      known.push_back(row.word);
    if (StringRef similar = findSimilarFunction(word, known); !similar.empty())
      return parser.emitError(node.loc, "formulas have no function '")
             << word << "'; did you mean '" << similar << "'?";
    for (StringRef dialect : {"math.", "tile."})
      if (std::string op = (dialect + word).str();
          RegisteredOperationName::lookup(op, parser.getContext()))
        return parser.emitError(node.loc, "formulas have no function '")
               << word << "'; write a statement " << op << " before it";
    if (expr::findFunction(std::string_view(word)))
      return parser.emitError(node.loc, "formulas have no function '")
             << word << "'; write param(" << word << "(...)), an expression over parameters";
    llvm::sort(known);
    return parser.emitError(node.loc, "formulas have no function '")
           << word << "'; there are " << llvm::join(known, ", ")
           << ", and @NAME(...) for a function of the module";
  }

  /// A function and its operands, a constant, or a parameter.
  ParseResult parseWord(Node &node, StringRef word) {
    node.word = word;
    for (auto [name, number] : numbers)
      if (word == name) {
        node.kind = Node::Number;
        node.number = parser.getBuilder().getF64FloatAttr(number);
        return success();
      }
    if (word == "map") {
      StringAttr symbol;
      if (parser.parseSymbolName(symbol) || parser.parseLParen())
        return failure();
      node.symbol = FlatSymbolRefAttr::get(symbol);
      node.kind = Node::Map;
      return parseArguments(node);
    }
    if (word == "reduce")
      return parseReduction(node);
    if (word == "load")
      return parseLoad(node);
    if (word == "dot")
      return parseDot(node);
    if (failed(parser.parseOptionalLParen())) {
      node.kind = Node::Param;
      node.param = ExprAttr::getName(parser.getContext(), word);
      return success();
    }
    if (word == "param") {
      node.kind = Node::Param;
      return failure(parseExprText(parser, node.param) || parser.parseRParen());
    }
    if (word == "dim") {
      node.kind = Node::Extent;
      return failure(parser.parseOperand(node.operand) || parser.parseComma() ||
                     parser.parseInteger(node.dim) || parser.parseRParen());
    }
    const Function *function = find(functions, word), *connective = find(connectives, word);
    unsigned expected = function ? function->operands : 0;
    if (word == "select" || word == "choose")
      expected = 3;
    else if (connective || word == "ne")
      expected = connective ? connective->operands : 2;
    else if (word == "full" || word == "expand" || word == "cast" || word == "iota")
      expected = 1;
    if (!expected)
      return rejectFunction(node, word);
    for (unsigned i = 0; i < expected; ++i)
      if ((i && parser.parseComma()) || parseComparison(node.operands.emplace_back()))
        return failure();
    if (word == "choose")
      node.kind = Node::Choice;
    if (word == "cast" && succeeded(parser.parseOptionalColon()) && parser.parseType(node.from))
      return failure();
    if ((word == "expand" || word == "iota") &&
        (parser.parseComma() || parser.parseInteger(node.dim)))
      return failure();
    return parser.parseRParen();
  }

  OpAsmParser &parser;
  unsigned depth = 0, nodes = 0;
};

} // namespace

ParseResult parseFormula(OpAsmParser &parser, NodePtr &result) {
  MarkErrors errors(parser);
  if (FormulaParser(parser).parseComparison(result))
    return failure();
  // MLIR's lexer reads these as tokens of its own.
  SMLoc loc = parser.getCurrentLocation();
  if (StringRef text(loc.getPointer()); text.starts_with("||"))
    return parser.emitError(loc) << explainMark(text);
  return success();
}

ParseResult parseFlags(OpAsmParser &parser, Flags &flags) {
  if (succeeded(parser.parseOptionalKeyword("fastmath")) &&
      !(flags.fastmath = arith::FastMathFlagsAttr::parse(parser, {})))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("overflow")) &&
      !(flags.overflow = arith::IntegerOverflowFlagsAttr::parse(parser, {})))
    return failure();
  return success();
}

} // namespace tilewright::tile::formula
