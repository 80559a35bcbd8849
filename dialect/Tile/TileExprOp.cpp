// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.expr: its formulas. Parsing builds the operations of the body, so that their verifiers check
// them; printing goes back from the last of them.

#include "dialect/Tile/Formula.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

#include <memory>

using namespace mlir;
using namespace tilewright::tile;

namespace tilewright::tile::formula {
namespace {

//===----------------------------------------------------------------------===//
// Parser
//===----------------------------------------------------------------------===//

/// Far above handwritten formulas; protects the stack from hostile input.
constexpr unsigned kMaxDepth = 64;
constexpr unsigned kMaxNodes = 1024;

struct Node {
  enum Kind { Operand, Number, Param, Call } kind = Call;
  SMLoc loc;
  OpAsmParser::UnresolvedOperand operand;
  Attribute number; ///< an integer or a float
  ExprAttr param;
  StringRef word; ///< of a call
  Type from;      ///< of the operand of a cast
  int64_t dim = 0;
  SmallVector<std::unique_ptr<Node>, 3> operands = {};
};
using NodePtr = std::unique_ptr<Node>;

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
      return failure(parseComparison(result) || parser.parseRParen());
    if (make(result, loc, {}))
      return failure();
    OptionalParseResult operand = parser.parseOptionalOperand(result->operand);
    if (operand.has_value()) {
      result->kind = Node::Operand;
      return *operand;
    }
    StringRef word;
    if (succeeded(parser.parseOptionalKeyword(&word)))
      return parseWord(*result, word);
    return parseNumber(*result);
  }

  ParseResult parseNumber(Node &node) {
    node.kind = Node::Number;
    Builder &builder = parser.getBuilder();
    bool isNegative = succeeded(parser.parseOptionalMinus());
    const char *at = parser.getCurrentLocation().getPointer();
    if (!llvm::isDigit(*at))
      return parser.emitError(parser.getCurrentLocation(),
                              isNegative
                                  ? "expected a number behind the sign; write neg(x) for the "
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

  /// A function and its operands, a constant, or a parameter.
  ParseResult parseWord(Node &node, StringRef word) {
    node.word = word;
    for (auto [name, number] : numbers)
      if (word == name) {
        node.kind = Node::Number;
        node.number = parser.getBuilder().getF64FloatAttr(number);
        return success();
      }
    if (failed(parser.parseOptionalLParen())) {
      node.kind = Node::Param;
      node.param = ExprAttr::getName(parser.getContext(), word);
      return success();
    }
    if (word == "param") {
      node.kind = Node::Param;
      return failure(parseExprText(parser, node.param) || parser.parseRParen());
    }
    const Function *function = find(functions, word), *connective = find(connectives, word);
    unsigned expected = function ? function->operands : 0;
    if (word == "select")
      expected = 3;
    else if (connective || word == "ne")
      expected = 2;
    else if (word == "full" || word == "expand" || word == "cast")
      expected = 1;
    if (!expected)
      return parser.emitError(node.loc, "formulas have no function '")
             << word << "'; write param(...) for an expression over parameters";
    for (unsigned i = 0; i < expected; ++i)
      if ((i && parser.parseComma()) || parseComparison(node.operands.emplace_back()))
        return failure();
    if (word == "cast" && parser.parseColonType(node.from))
      return failure();
    if (word == "expand" && (parser.parseComma() || parser.parseInteger(node.dim)))
      return failure();
    return parser.parseRParen();
  }

  OpAsmParser &parser;
  unsigned depth = 0, nodes = 0;
};

//===----------------------------------------------------------------------===//
// Operations of a formula
//===----------------------------------------------------------------------===//

/// Whether it is a condition, as far as the node itself tells.
bool isCondition(const Node &node) {
  if (node.kind != Node::Call)
    return false;
  if (node.word == "select")
    return isCondition(*node.operands[1]);
  return find(comparisons, node.word) || find(connectives, node.word);
}

class FormulaBuilder {
public:
  FormulaBuilder(OpAsmParser &parser, OpBuilder &b, Attribute fastmath, Attribute overflow)
      : parser(parser), b(b), fastmath(fastmath), overflow(overflow) {}

  /// The value of a node, where numbers have the type; null after an error.
  Value build(const Node &node, Type type, bool asCondition) {
    bool isOfConditions = getElementType(type).isInteger(1);
    Location loc = parser.getEncodedSourceLoc(node.loc);
    Type result = asCondition && !isOfConditions ? getConditionType(type) : type;
    if (node.kind == Node::Operand) {
      SmallVector<Value, 1> value;
      return failed(parser.resolveOperand(node.operand, result, value)) ? Value() : value.front();
    }
    if (node.kind == Node::Param)
      return buildParam(node, loc, result);
    if (isCondition(node) != (asCondition || isOfConditions) && node.word != "select")
      return reject(node) << (asCondition || isOfConditions
                                  ? "a condition is required here, but got a number; compare it"
                                  : "a number is required here, but got a condition; write "
                                    "select(condition, a, b)");
    if (node.kind == Node::Number)
      return buildNumber(node, loc, type);
    if (node.word == "select")
      return buildSelect(node, loc, type, result, asCondition);
    if (node.word == "full" || node.word == "expand")
      return buildTile(node, loc, type);
    if (node.word == "cast") {
      Value value = build(*node.operands[0], node.from, false);
      return value ? Value(CastOp::create(b, loc, type, value)) : value;
    }
    if (const Comparison *comparison = find(comparisons, node.word)) {
      Value a = build(*node.operands[0], type, false);
      Value other = a ? build(*node.operands[1], type, false) : Value();
      if (!other)
        return {};
      if (isOfFloats(type))
        return arith::CmpFOp::create(b, loc, comparison->ofFloats, a, other);
      return arith::CmpIOp::create(b, loc, comparison->ofIntegers, a, other);
    }
    const Function *connective = find(connectives, node.word);
    const Function *function = connective ? connective : find(functions, node.word);
    SmallVector<Value> operands;
    for (const NodePtr &operand : node.operands) {
      operands.push_back(build(*operand, type, connective));
      if (!operands.back())
        return {};
    }
    bool ofFloats = !connective && isOfFloats(type);
    StringRef name = ofFloats ? function->ofFloats : function->ofIntegers;
    if (name.empty())
      return reject(node) << "'" << node.word << "' is a function of "
                          << (ofFloats ? "integers" : "floats") << ", but the type is " << type
                          << "; cast its operand with tile.cast";
    OperationState state(loc, name);
    state.addOperands(operands);
    state.addTypes(result);
    if (ofFloats && fastmath)
      state.addAttribute("fastmath", fastmath);
    if (!ofFloats && overflow && node.operands.size() == 2 && function->precedence &&
        node.word != "/")
      state.addAttribute("overflowFlags", overflow);
    return b.create(state)->getResult(0);
  }

private:
  struct Rejection {
    InFlightDiagnostic diagnostic;
    template <typename T> Rejection &operator<<(T &&part) {
      diagnostic << part;
      return *this;
    }
    operator Value() const { return {}; }
  };
  Rejection reject(const Node &node) { return {parser.emitError(node.loc)}; }

  Value buildParam(const Node &node, Location loc, Type type) {
    Type element = getElementType(type);
    if (isOfFloats(type))
      return reject(node) << "a parameter has no place in a formula of floats, whose type is "
                          << type << "; cast it with tile.cast";
    Value value = ParamOp::create(b, loc, element, node.param);
    return isTile(type) ? Value(FullOp::create(b, loc, type, value)) : value;
  }

  Value buildNumber(const Node &node, Location loc, Type type) {
    Attribute number = node.number;
    auto integer = dyn_cast<IntegerAttr>(number);
    if (integer && isOfFloats(type))
      number = b.getF64FloatAttr(static_cast<double>(integer.getInt()));
    if (!integer && !isOfFloats(type))
      return reject(node) << "an integer is required here, since the type is " << type
                          << ", but got a float; leave out its fraction, or cast the operands";
    return ConstantOp::create(b, loc, type, number);
  }

  Value buildSelect(const Node &node, Location loc, Type type, Type result, bool asCondition) {
    const Node &condition = *node.operands[0];
    // A parameter is one condition for all elements.
    bool isOne = condition.kind == Node::Param || !isTile(type);
    Value chosen = condition.kind == Node::Param ? buildParam(condition, loc, b.getI1Type())
                                                 : build(condition, type, true);
    Value a = chosen ? build(*node.operands[1], type, asCondition) : Value();
    Value other = a ? build(*node.operands[2], type, asCondition) : Value();
    if (!other)
      return {};
    if (isOne)
      return arith::SelectOp::create(b, loc, chosen, a, other);
    return SelectOp::create(b, loc, result, chosen, a, other);
  }

  Value buildTile(const Node &node, Location loc, Type type) {
    if (!isTile(type))
      return reject(node) << "'" << node.word << "' makes a tile, but the type is " << type;
    if (node.word == "full") {
      Value value = build(*node.operands[0], getElementType(type), false);
      return value ? Value(FullOp::create(b, loc, type, value)) : value;
    }
    SmallVector<Dim> dims = getDims(type);
    if (node.dim < 0 || node.dim >= static_cast<int64_t>(dims.size()) || dims.size() < 2)
      return reject(node)
             << "must reduce one dimension of a tile and leave another, but got dimension "
             << node.dim << " of " << type;
    dims.erase(dims.begin() + node.dim);
    Type source =
        makeTile(b.getContext(), dims, getElementType(type), !isa<RankedTensorType>(type));
    Value value = build(*node.operands[0], source, false);
    return value ? Value(ExpandOp::create(b, loc, type, value, node.dim)) : value;
  }

  OpAsmParser &parser;
  OpBuilder &b;
  Attribute fastmath, overflow;
};

//===----------------------------------------------------------------------===//
// Printer
//===----------------------------------------------------------------------===//

const Function *findFunction(Operation *op) {
  if (op->getNumResults() != 1)
    return nullptr;
  StringRef name = op->getName().getStringRef();
  bool ofConditions = getElementType(op->getResult(0).getType()).isInteger(1);
  for (const Function &row : ofConditions ? ArrayRef<Function>(connectives) : functions)
    if (name == row.ofFloats || name == row.ofIntegers)
      return &row;
  return nullptr;
}

StringRef findComparison(Operation *op) {
  for (const Comparison &row : comparisons) {
    if (auto ofFloats = dyn_cast<arith::CmpFOp>(op);
        ofFloats && ofFloats.getPredicate() == row.ofFloats)
      return row.word;
    if (auto ofIntegers = dyn_cast<arith::CmpIOp>(op);
        ofIntegers && ofIntegers.getPredicate() == row.ofIntegers)
      return row.word;
  }
  return {};
}

class FormulaPrinter {
public:
  FormulaPrinter(OpAsmPrinter &printer, Block *body) : printer(printer), body(body) {}

  void print(Value value, unsigned outer = 0) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != body) {
      printer << value;
      return;
    }
    if (auto constant = dyn_cast<ConstantOp>(op))
      return printNumber(constant.getValue());
    if (auto param = dyn_cast<ParamOp>(op))
      return printParam(param);
    if (auto full = dyn_cast<FullOp>(op)) {
      auto param = full.getValue().getDefiningOp<ParamOp>();
      if (param && param->getBlock() == body)
        return printParam(param);
      return printCall("full", op);
    }
    if (isa<ExpandOp>(op))
      return printCall("expand", op);
    if (isa<CastOp>(op))
      return printCall("cast", op);
    if (isa<SelectOp, arith::SelectOp>(op))
      return printCall("select", op);
    StringRef comparison = findComparison(op);
    const Function *function = findFunction(op);
    unsigned precedence = !comparison.empty() ? 1 : function->precedence;
    StringRef word = !comparison.empty() ? comparison : StringRef(function->word);
    if (!precedence || word == "ne")
      return printCall(word, op);
    printer << (precedence < outer ? "(" : "");
    print(op->getOperand(0), std::max(precedence, kSum));
    printer << ' ' << word << ' ';
    print(op->getOperand(1), precedence + 1);
    printer << (precedence < outer ? ")" : "");
  }

private:
  void printNumber(Attribute number) {
    auto value = dyn_cast<FloatAttr>(number);
    for (auto [word, known] : numbers)
      if (value && value.getValueAsDouble() == known) {
        printer << word;
        return;
      }
    printer.printAttributeWithoutType(number);
  }
  void printParam(ParamOp param) {
    bool isName = param.getExpr().getKind() == ExprKind::Name;
    printer << (isName ? "" : "param(");
    printExprText(printer.getStream(), param.getExpr());
    printer << (isName ? "" : ")");
  }
  void printCall(StringRef word, Operation *op) {
    printer << word << '(';
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      printer << (i ? ", " : "");
      print(operand);
    }
    if (auto cast = dyn_cast<CastOp>(op))
      printer << " : " << cast.getSource().getType();
    if (auto expand = dyn_cast<ExpandOp>(op))
      printer << ", " << static_cast<int64_t>(expand.getDim());
    printer << ')';
  }

  OpAsmPrinter &printer;
  Block *body;
};

} // namespace
} // namespace tilewright::tile::formula

//===----------------------------------------------------------------------===//
// ExprOp
//===----------------------------------------------------------------------===//

ParseResult ExprOp::parse(OpAsmParser &parser, OperationState &result) {
  MLIRContext *context = parser.getContext();
  context->getOrLoadDialect<math::MathDialect>();
  formula::NodePtr root;
  if (formula::FormulaParser(parser).parseComparison(root))
    return failure();
  Attribute fastmath, overflow;
  if (succeeded(parser.parseOptionalKeyword("fastmath")) &&
      !(fastmath = arith::FastMathFlagsAttr::parse(parser, {})))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("overflow")) &&
      !(overflow = arith::IntegerOverflowFlagsAttr::parse(parser, {})))
    return failure();
  SMLoc loc;
  Type type, converted;
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColon() ||
      parser.getCurrentLocation(&loc) || parser.parseType(type))
    return failure();
  if (succeeded(parser.parseOptionalArrow()) && parser.parseType(converted))
    return failure();
  if (!isTile(type) && !isElementType(type))
    return parser.emitError(loc, "a formula must be of tiles or scalars, but got ") << type;
  result.addAttribute(getTypeAttrName(result.name), TypeAttr::get(type));

  Region *body = result.addRegion();
  Block &block = body->emplaceBlock();
  // The region has no operation yet that would tell the builder its context.
  OpBuilder b(context);
  b.setInsertionPointToStart(&block);
  Value value = formula::FormulaBuilder(parser, b, fastmath, overflow)
                    .build(*root, type, formula::isCondition(*root));
  if (!value)
    return failure();
  if (converted)
    value = CastOp::create(b, value.getLoc(), converted, value);
  OperationState end(parser.getEncodedSourceLoc(parser.getNameLoc()), YieldOp::getOperationName());
  end.addOperands(value);
  b.create(end);
  result.addTypes(value.getType());
  return success();
}

void ExprOp::print(OpAsmPrinter &printer) {
  Block *body = &getBody().front();
  printer << ' ';
  Value value = body->getTerminator()->getOperand(0);
  auto converted = value.getDefiningOp<CastOp>();
  Type type = value.getType();
  if (type == getType() || type == formula::getConditionType(getType()))
    converted = nullptr;
  formula::FormulaPrinter(printer, body).print(converted ? converted.getSource() : value);
  arith::FastMathFlags fastmath{};
  arith::IntegerOverflowFlags overflow{};
  for (Operation &op : *body) {
    if (auto flags = op.getAttrOfType<arith::FastMathFlagsAttr>("fastmath"))
      fastmath = fastmath | flags.getValue();
    if (auto flags = op.getAttrOfType<arith::IntegerOverflowFlagsAttr>("overflowFlags"))
      overflow = overflow | flags.getValue();
  }
  if (fastmath != arith::FastMathFlags::none)
    printer << " fastmath<" << arith::stringifyFastMathFlags(fastmath) << '>';
  if (overflow != arith::IntegerOverflowFlags::none)
    printer << " overflow<" << arith::stringifyIntegerOverflowFlags(overflow) << '>';
  printer.printOptionalAttrDict((*this)->getAttrs(), {getTypeAttrName()});
  printer << " : " << getType();
  if (converted)
    printer << " -> " << type;
}

LogicalResult ExprOp::verify() {
  Block &body = getBody().front();
  auto end = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!end || end.getValues().getTypes() != TypeRange(getResult().getType()))
    return emitOpError("must end by yielding its result; use its custom assembly format");
  for (Operation &op : body.without_terminator())
    if (!isa<ConstantOp, ParamOp, FullOp, ExpandOp, CastOp, SelectOp, arith::SelectOp>(op) &&
        !formula::findFunction(&op) && formula::findComparison(&op).empty())
      return op.emitOpError("has no place in a formula; use the custom assembly format of "
                            "tile.expr");
  return success();
}
