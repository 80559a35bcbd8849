// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Statements whose operands are formulas: tile.if, tile.for, tile.yield and tile.store, and
// functions that are a formula.

#include "dialect/Tile/FormulaTree.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tilewright::tile;
using formula::NodePtr;

namespace {

bool isPlain(const NodePtr &node) { return node->kind == formula::Node::Operand; }

/// Ends a region of formulas.
void endFormulas(OpAsmParser &parser, OpBuilder &b, ValueRange values) {
  OperationState end(parser.getEncodedSourceLoc(parser.getNameLoc()), YieldOp::getOperationName());
  end.addOperands(values);
  b.create(end);
}

/// A builder of a new region of formulas.
OpBuilder beginFormulas(OpAsmParser &parser, Region &region) {
  OpBuilder b(parser.getContext());
  b.setInsertionPointToStart(&region.emplaceBlock());
  return b;
}

/// The value of a formula; null after an error.
Value buildOne(OpAsmParser &parser, OpBuilder &b, const formula::Node &node, Type type) {
  SmallVector<Value> values =
      formula::buildFormula(parser, b, {}, node, type, formula::isCondition(node));
  return values.size() == 1 ? values.front() : Value();
}

/// The region of a branch or a loop, which may end without a word if it yields nothing.
ParseResult parseStatements(OpAsmParser &parser, Region &region,
                            ArrayRef<OpAsmParser::Argument> arguments = {}) {
  if (parser.parseRegion(region, arguments))
    return failure();
  if (region.empty())
    region.emplaceBlock();
  Block &block = region.front();
  if (block.empty() || !block.back().hasTrait<OpTrait::IsTerminator>()) {
    OpBuilder b(parser.getContext());
    b.setInsertionPointToEnd(&block);
    endFormulas(parser, b, {});
  }
  return success();
}

void printStatements(OpAsmPrinter &printer, Region &region) {
  auto end = dyn_cast<YieldOp>(region.front().back());
  bool yields = !end || !end.getYieldedTypes().empty();
  printer.printRegion(region, /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/yields);
}

LogicalResult verifyEnd(Operation *op, Region &region, TypeRange expected, StringRef what) {
  if (region.empty())
    return success();
  auto end = region.front().empty() ? YieldOp() : dyn_cast<YieldOp>(region.front().back());
  if (!end)
    return op->emitOpError("must end ")
           << what << " with tile.yield; write it as the last statement";
  if (!llvm::equal(end.getYieldedTypes(), expected))
    return end.emitOpError("must yield the types of the results, (")
           << expected << "), but got (" << end.getYieldedTypes() << ")";
  return success();
}

} // namespace

//===----------------------------------------------------------------------===//
// YieldOp
//===----------------------------------------------------------------------===//

TypeRange YieldOp::getYieldedTypes() {
  MutableArrayRef<Region> formulas = getFormulas();
  return formulas.empty() ? TypeRange(getValues().getTypes())
                          : TypeRange(formulas[0].front().back().getOperandTypes());
}

ParseResult YieldOp::parse(OpAsmParser &parser, OperationState &result) {
  StringRef rest(parser.getCurrentLocation().getPointer());
  if (rest.empty() || rest.starts_with("}") || rest.starts_with("{") || rest.starts_with("loc("))
    return parser.parseOptionalAttrDict(result.attributes);
  formula::Formulas formulas;
  if (formula::parseFormulas(parser, result, /*isList=*/true, formulas))
    return failure();
  if (!llvm::all_of(formulas.roots, isPlain) || formulas.flags.fastmath || formulas.flags.overflow)
    return formula::buildFormulas(parser, formulas, *result.addRegion());
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  for (const NodePtr &root : formulas.roots)
    operands.push_back(root->operand);
  return parser.resolveOperands(operands, formulas.types, parser.getNameLoc(), result.operands);
}

void YieldOp::print(OpAsmPrinter &printer) {
  if (!getFormulas().empty()) {
    printer << ' ';
    formula::printFormulas(printer, *this, getFormulas()[0].front().back().getOperands());
    formula::printFlags(printer, *this);
  } else if (!getValues().empty()) {
    printer << ' ' << getValues();
  }
  printer.printOptionalAttrDict((*this)->getAttrs());
  TypeRange types = getYieldedTypes();
  if (!types.empty())
    printer << " : " << types;
}

LogicalResult YieldOp::verify() {
  if (getFormulas().empty())
    return success();
  if (getFormulas().size() != 1 || !getValues().empty())
    return emitOpError("must have values or formulas; use its custom assembly format");
  return formula::verifyBody(*this, getFormulas()[0]);
}

//===----------------------------------------------------------------------===//
// BranchOp
//===----------------------------------------------------------------------===//

ParseResult BranchOp::parse(OpAsmParser &parser, OperationState &result) {
  NodePtr root;
  if (formula::parseFormula(parser, root))
    return failure();
  OpBuilder b = beginFormulas(parser, *result.addRegion());
  Value condition = buildOne(parser, b, *root, b.getI1Type());
  if (!condition)
    return failure();
  endFormulas(parser, b, condition);
  if (parser.parseOptionalArrowTypeList(result.types) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parseStatements(parser, *result.addRegion()))
    return failure();
  Region *otherwise = result.addRegion();
  return failure(succeeded(parser.parseOptionalKeyword("else")) &&
                 parseStatements(parser, *otherwise));
}

void BranchOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  formula::printFormulas(printer, *this, getCondition().front().back().getOperands());
  printer.printOptionalArrowTypeList(getResultTypes());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer << ' ';
  printStatements(printer, getThenRegion());
  if (getElseRegion().empty())
    return;
  printer << " else ";
  printStatements(printer, getElseRegion());
}

LogicalResult BranchOp::verify() {
  if (failed(formula::verifyBody(*this, getCondition())))
    return failure();
  TypeRange condition = getCondition().front().back().getOperandTypes();
  if (condition.size() != 1 || !condition.front().isInteger(1))
    return emitOpError("must have one condition of type i1, but got (") << condition << ")";
  if (getElseRegion().empty() && getNumResults() != 0)
    return emitOpError("must have a second region, 'else', since it has results; write else "
                       "{ ... } that yields the others");
  return failure(failed(verifyEnd(*this, getThenRegion(), getResultTypes(), "its first region")) ||
                 failed(verifyEnd(*this, getElseRegion(), getResultTypes(), "its second region")));
}

//===----------------------------------------------------------------------===//
// LoopOp
//===----------------------------------------------------------------------===//

ValueRange LoopOp::getFormulas() { return getBounds().front().back().getOperands(); }

ParseResult LoopOp::parse(OpAsmParser &parser, OperationState &result) {
  Type i32 = parser.getBuilder().getI32Type();
  SmallVector<OpAsmParser::Argument> arguments(1);
  SmallVector<NodePtr> roots(2);
  arguments[0].type = i32;
  if (parser.parseArgument(arguments[0]) || parser.parseKeyword("in") || parser.parseLParen() ||
      formula::parseFormula(parser, roots[0]) || parser.parseKeyword("to") ||
      formula::parseFormula(parser, roots[1]) || parser.parseRParen())
    return failure();
  bool hasStep = succeeded(parser.parseOptionalKeyword("step"));
  if (hasStep && formula::parseFormula(parser, roots.emplace_back()))
    return failure();
  auto parseCarried = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    if (parser.parseArgument(argument) || parser.parseEqual() ||
        formula::parseFormula(parser, roots.emplace_back()) || parser.parseColonType(argument.type))
      return failure();
    result.addTypes(argument.type);
    return success();
  };
  if (succeeded(parser.parseOptionalKeyword("iter_args")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseCarried))
    return failure();

  OpBuilder b = beginFormulas(parser, *result.addRegion());
  SmallVector<Value> values;
  for (auto [i, root] : llvm::enumerate(roots)) {
    unsigned bounds = hasStep ? 3 : 2;
    if (!values.emplace_back(
            buildOne(parser, b, *root, i < bounds ? i32 : result.types[i - bounds])))
      return failure();
    if (i == 1 && !hasStep)
      values.push_back(ConstantOp::create(b, result.location, i32, b.getI64IntegerAttr(1)));
  }
  endFormulas(parser, b, values);
  return failure(parseStatements(parser, *result.addRegion(), arguments) ||
                 parser.parseOptionalAttrDict(result.attributes));
}

void LoopOp::print(OpAsmPrinter &printer) {
  ValueRange values = getFormulas();
  Block &body = getBody().front();
  auto print = [&](Value value) { formula::printFormulas(printer, *this, value); };
  printer << ' ' << body.getArgument(0) << " in (";
  print(values[0]);
  printer << " to ";
  print(values[1]);
  printer << ") step ";
  print(values[2]);
  if (getNumResults() != 0) {
    printer << " iter_args(";
    llvm::interleaveComma(llvm::zip(body.getArguments().drop_front(), values.drop_front(3)),
                          printer, [&](auto pair) {
                            auto [argument, init] = pair;
                            printer << argument << " = ";
                            print(init);
                            printer << " : " << argument.getType();
                          });
    printer << ')';
  }
  printer << ' ';
  printStatements(printer, getBody());
  printer.printOptionalAttrDict((*this)->getAttrs());
}

LogicalResult LoopOp::verify() {
  if (failed(formula::verifyBody(*this, getBounds())))
    return failure();
  SmallVector<Type> expected(3, IntegerType::get(getContext(), 32));
  llvm::append_range(expected, getResultTypes());
  Block &body = getBody().front();
  if (!llvm::equal(getFormulas().getTypes(), expected) ||
      !llvm::equal(body.getArgumentTypes(), ArrayRef(expected).drop_front(2)))
    return emitOpError("must have bounds and a step of i32, and initial values and arguments of "
                       "the types of its results, but got (")
           << getFormulas().getTypes() << ") and (" << body.getArgumentTypes()
           << "); use its custom assembly format";
  return verifyEnd(*this, getBody(), getResultTypes(), "its body");
}

//===----------------------------------------------------------------------===//
// StoreOp, StoreFormOp
//===----------------------------------------------------------------------===//

ParseResult StoreOp::parse(OpAsmParser &parser, OperationState &result) {
  NodePtr value;
  OpAsmParser::UnresolvedOperand viewName;
  SmallVector<NodePtr> indices;
  SmallVector<int64_t> dims;
  SmallVector<Type> types;
  Builder &builder = parser.getBuilder();
  if (formula::parseFormula(parser, value) || parser.parseComma() ||
      parser.parseOperand(viewName) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return formula::parseFormula(parser, indices.emplace_back());
      }))
    return failure();
  bool hasDims = succeeded(parser.parseOptionalKeyword("dims"));
  if (hasDims && parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parser.parseInteger(dims.emplace_back());
      }))
    return failure();
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColonTypeList(types))
    return failure();
  if (types.size() > 2)
    return parser.emitError(parser.getNameLoc(), "must have the types of the tile and of the view, "
                                                 "but got ")
           << types.size() << " types";
  if (types.size() == 1) {
    FailureOr<Type> known = formula::findType(parser, viewName);
    if (failed(known))
      return failure();
    types.push_back(*known);
  }

  SmallVector<int64_t> integers;
  bool isStore = isPlain(value);
  for (const NodePtr &index : indices) {
    auto number = dyn_cast_if_present<IntegerAttr>(index->number);
    integers.push_back(number ? number.getInt() : ShapedType::kDynamic);
    isStore &= number || isPlain(index);
  }
  OpBuilder b(parser.getContext());
  Region *region = isStore ? nullptr : result.addRegion();
  if (region)
    b = beginFormulas(parser, *region);
  auto resolve = [&](const formula::Node &node, Type type, SmallVectorImpl<Value> &values) {
    if (node.kind == formula::Node::Operand)
      return failed(parser.resolveOperand(node.operand, type, values));
    Value built = buildOne(parser, b, node, type);
    values.push_back(built);
    return !built;
  };
  SmallVector<Value> operands;
  if (resolve(*value, types[0], operands) || parser.resolveOperand(viewName, types[1], operands))
    return failure();
  for (auto [index, integer] : llvm::zip(indices, integers))
    if (ShapedType::isDynamic(integer) && resolve(*index, builder.getI32Type(), operands))
      return failure();
  NamedAttrList attributes;
  attributes.append("static_indices", builder.getDenseI64ArrayAttr(integers));
  if (hasDims)
    attributes.append("dims", builder.getDenseI64ArrayAttr(dims));
  if (isStore) {
    result.addAttributes(attributes);
    result.addOperands(operands);
    return success();
  }
  OperationState store(result.location, getOperationName());
  store.addAttributes(attributes);
  store.addOperands(operands);
  b.create(store);
  endFormulas(parser, b, {});
  result.name = OperationName(StoreFormOp::getOperationName(), parser.getContext());
  return success();
}

static void printPlace(OpAsmPrinter &printer, StoreOp store, Operation *op) {
  if (std::optional<ArrayRef<int64_t>> dims = store.getDims()) {
    printer << " dims [";
    llvm::interleaveComma(*dims, printer);
    printer << ']';
  }
  printer.printOptionalAttrDict(op->getAttrs(), {"static_indices", "dims"});
  printer << " : " << store.getValue().getType() << ", " << store.getView().getType();
}

void StoreOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getValue() << ", " << getView();
  printIndexList(printer, *this, getIndices(), getStaticIndices());
  printPlace(printer, *this, *this);
}

StoreOp StoreFormOp::getStore() {
  Block &body = getBody().front();
  return body.getOperations().size() < 2 ? StoreOp() : dyn_cast<StoreOp>(*std::prev(body.end(), 2));
}

ParseResult StoreFormOp::parse(OpAsmParser &parser, OperationState &) {
  return parser.emitError(parser.getNameLoc(), "has no text of its own; write tile.store");
}

OperationName::PrintAssemblyFn StoreFormOp::getPrintAssemblyFn() {
  return [](Operation *op, OpAsmPrinter &printer, StringRef) {
    printer << StoreOp::getOperationName();
    cast<StoreFormOp>(op).print(printer);
  };
}

void StoreFormOp::print(OpAsmPrinter &printer) {
  StoreOp store = getStore();
  printer << ' ';
  formula::printFormulas(printer, *this, store.getValue());
  printer << ", " << store.getView();
  formula::printIndices(printer, *this, store.getIndices(), store.getStaticIndices());
  printPlace(printer, store, *this);
}

LogicalResult StoreFormOp::verify() {
  if (!getStore())
    return emitOpError("must end with a store; use the custom assembly format of tile.store");
  return formula::verifyBody(*this, getBody(), getStore());
}

//===----------------------------------------------------------------------===//
// FunctionOp
//===----------------------------------------------------------------------===//

/// `(%x, %y: type, ...)`
static ParseResult parseArguments(OpAsmParser &parser,
                                  SmallVectorImpl<OpAsmParser::Argument> &arguments) {
  size_t typed = 0;
  auto parseOne = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    if (parser.parseArgument(argument))
      return failure();
    for (const OpAsmParser::Argument &other : ArrayRef(arguments).drop_back())
      if (other.ssaName.name == argument.ssaName.name)
        return parser.emitError(argument.ssaName.location, "arguments must have different names, "
                                                           "but got '")
               << argument.ssaName.name << "' twice";
    if (failed(parser.parseOptionalColon()))
      return success();
    Type type;
    if (parser.parseType(type))
      return failure();
    for (; typed < arguments.size(); ++typed)
      arguments[typed].type = type;
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  if (typed != arguments.size())
    return parser.emitError(arguments.back().ssaName.location, "expected ':' and the type of '")
           << arguments.back().ssaName.name << "'; write it after the name, as in "
           << arguments.back().ssaName.name << ": i32";
  return success();
}

/// A body that is formulas, of the results of the function.
static ParseResult parseFormulaBody(OpAsmParser &parser, Region &body,
                                    ArrayRef<OpAsmParser::Argument> arguments,
                                    ArrayRef<Type> results, Location loc) {
  OpBuilder b(parser.getContext());
  b.setInsertionPointToEnd(&body.emplaceBlock());
  formula::Locals locals;
  for (const OpAsmParser::Argument &argument : arguments)
    locals[argument.ssaName.name] =
        body.addArgument(argument.type, parser.getEncodedSourceLoc(argument.ssaName.location));
  formula::Formulas formulas;
  formulas.locals = &locals;
  formulas.types.assign(results.begin(), results.end());
  OperationState end(loc, ResultOp::getOperationName());
  if (formula::parseFormulas(parser, end, /*isList=*/true, formulas) ||
      formula::buildFormulas(parser, formulas, *end.addRegion()))
    return failure();
  b.create(end);
  return success();
}

ParseResult FunctionOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Type> types, results;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(), result.attributes) ||
      parseArguments(parser, arguments) || parser.parseOptionalArrowTypeList(results) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  for (const OpAsmParser::Argument &argument : arguments)
    types.push_back(argument.type);
  Region *body = result.addRegion();
  bool isFormula = succeeded(parser.parseOptionalEqual());
  if (isFormula ? parseFormulaBody(parser, *body, arguments, results, result.location)
                : parser.parseRegion(*body, arguments))
    return failure();
  if (results.empty() && !isFormula &&
      (body->empty() || body->front().empty() ||
       !body->front().back().hasTrait<OpTrait::IsTerminator>())) {
    OpBuilder b(parser.getContext());
    b.setInsertionPointToEnd(body->empty() ? &body->emplaceBlock() : &body->front());
    func::ReturnOp::create(b, result.location);
  }
  auto type = FunctionType::get(parser.getContext(), types, results);
  result.addAttribute("function_type", TypeAttr::get(type));
  result.addAttribute("sym_visibility", parser.getBuilder().getStringAttr("private"));
  result.name = OperationName(func::FuncOp::getOperationName(), parser.getContext());
  return success();
}

void FunctionOp::print(OpAsmPrinter &) {}

LogicalResult FunctionOp::verify() {
  return emitOpError("has no generic form; use its custom assembly format, or func.func");
}
