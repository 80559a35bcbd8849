// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The block loop: assembly format, verifier and loop interface.

#include "dialect/Tile/MaskClause.h"
#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExprCheck.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include <optional>

using namespace mlir;
using namespace tilewright::tile;

using Operand = OpAsmParser::UnresolvedOperand;

//===----------------------------------------------------------------------===//
// Assembly format
//===----------------------------------------------------------------------===//

namespace {
struct ParsedLoop {
  Operand lower, upper, start, limit, count, list, orderCondition;
  Type listType;
  bool hasList = false, hasOrderCondition = false;
  MaskClause::Parsed mask;
  SmallVector<Operand> listIndices, inits;
  SmallVector<Type> initTypes;
  SmallVector<OpAsmParser::Argument> bodyArguments;
};
} // namespace

/// listed %list[%i, ...] count %n each E when (CONDITION) : view type
static ParseResult parseListed(OpAsmParser &parser, OperationState &result, ParsedLoop &loop) {
  if (failed(parser.parseOptionalKeyword("listed")))
    return success();
  loop.hasList = true;
  if (parser.parseOperand(loop.list) ||
      parser.parseOperandList(loop.listIndices, AsmParser::Delimiter::Square) ||
      parser.parseKeyword("count") || parser.parseOperand(loop.count))
    return failure();
  ExprAttr span, condition;
  if (succeeded(parser.parseOptionalKeyword("each")) && parseExprText(parser, span))
    return failure();
  if (parseWhenClause(parser, condition) || parser.parseColonType(loop.listType))
    return failure();
  if (span)
    result.addAttribute("list_span", span);
  if (condition)
    result.addAttribute("list_condition", condition);
  return success();
}

/// descending if %condition
static ParseResult parseOrder(OpAsmParser &parser, OperationState &result, ParsedLoop &loop) {
  BlockOrder order = BlockOrder::Ascending;
  if (succeeded(parser.parseOptionalKeyword("descending"))) {
    order = BlockOrder::Descending;
    loop.hasOrderCondition = succeeded(parser.parseOptionalKeyword("if"));
    if (loop.hasOrderCondition && parser.parseOperand(loop.orderCondition))
      return failure();
  }
  result.addAttribute("order", BlockOrderAttr::get(parser.getContext(), order));
  return success();
}

/// iter_args(%a = %init : type, ...)
static ParseResult parseIterArgs(OpAsmParser &parser, ParsedLoop &loop) {
  if (failed(parser.parseOptionalKeyword("iter_args")))
    return success();
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&]() -> ParseResult {
    OpAsmParser::Argument &argument = loop.bodyArguments.emplace_back();
    if (parser.parseArgument(argument) || parser.parseEqual())
      return failure();
    OptionalParseResult init = parser.parseOptionalOperand(loop.inits.emplace_back());
    if (init.has_value() && failed(*init))
      return failure();
    if (!init.has_value() || !StringRef(parser.getCurrentLocation().getPointer()).starts_with(":"))
      return rejectFormula(parser, /*isIndex=*/false);
    if (parser.parseColonType(argument.type))
      return failure();
    loop.initTypes.push_back(argument.type);
    return success();
  });
}

/// even when (FLAG), apart when (FLAG)
static ParseResult parseCondition(OpAsmParser &parser, OperationState &result, StringRef keyword,
                                  StringRef name) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  ExprAttr condition;
  if (parseFlagClause(parser, condition, keyword))
    return failure();
  result.addAttribute(name, condition);
  return success();
}

ParseResult AccumulateOp::parse(OpAsmParser &parser, OperationState &result) {
  ParsedLoop loop;
  Type i32 = parser.getBuilder().getI32Type();
  loop.bodyArguments.resize(1);
  loop.bodyArguments[0].type = i32;
  Operand id, count;
  if (parser.parseArgument(loop.bodyArguments[0]) || parser.parseKeyword("of") ||
      parser.parseOperand(id) || parser.parseKeyword("each") || parser.parseOperand(count) ||
      parseCondition(parser, result, "even", "even_condition") ||
      parseCondition(parser, result, "apart", "apart_condition") || parseIterArgs(parser, loop) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  if (parser.resolveOperands({id, count}, i32, result.operands) ||
      parser.resolveOperands(loop.inits, loop.initTypes, loc, result.operands))
    return failure();
  result.addTypes(loop.initTypes);
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, loop.bodyArguments))
    return failure();
  AccumulateOp::ensureTerminator(*body, parser.getBuilder(), result.location);
  return success();
}

static void printIterArgs(OpAsmPrinter &printer, ValueRange arguments, ValueRange inits) {
  printer << "iter_args(";
  llvm::interleaveComma(llvm::zip(arguments, inits), printer, [&](auto pair) {
    auto [argument, init] = pair;
    printer << argument << " = " << init << " : " << init.getType();
  });
  printer << ')';
}

void AccumulateOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getNumber() << " of " << getId() << " each " << getCount();
  for (auto [keyword, condition] :
       {std::pair("even", getEvenConditionAttr()), std::pair("apart", getApartConditionAttr())})
    if (condition) {
      printer << ' ' << keyword << ' ';
      printWhenClause(printer, *this, condition);
    }
  printer.increaseIndent();
  printer.printNewline();
  printIterArgs(printer, ValueRange(getSums()), getInitArgs());
  printer.decreaseIndent();
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"even_condition", "apart_condition"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

void AccumulateOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  if (!region.empty() && region.front().getNumArguments())
    setName(region.front().getArgument(0), "number");
}

LogicalResult AccumulateOp::verify() {
  auto kernel = dyn_cast<KernelOp>((*this)->getParentOp());
  if (!kernel)
    return emitOpError() << "must be in the body of a kernel, since an instance may run it for a "
                            "single number, but is inside '"
                         << (*this)->getParentOp()->getName() << "'; move it out";
  auto id = dyn_cast<BlockArgument>(getId());
  if (!id || id.getOwner() != (*this)->getBlock() || id.getArgNumber() < kernel.getNumArgs())
    return emitOpError("needs a number of the kernel's grid after 'of', but got another value");
  auto others = (*this)->getBlock()->getOps<AccumulateOp>();
  if (*others.begin() != *this)
    return emitOpError("must be the only one of its kernel; add to all sums in the first")
               .attachNote((*others.begin()).getLoc())
           << "the first";
  if (getInitArgs().empty())
    return emitOpError("needs a sum; use scf.for for a loop without sums");
  for (auto [i, init] : llvm::enumerate(getInitArgs())) {
    if (!isTile(init.getType()) || !isa<FloatType, ParamType>(getElementType(init.getType())))
      return emitOpError() << "adds to tiles of floats, but got sum " << i << " of type "
                           << init.getType();
    auto zero = init.getDefiningOp<ConstantOp>();
    auto number = zero ? dyn_cast<FloatAttr>(zero.getValue()) : FloatAttr();
    auto integer = zero ? dyn_cast<IntegerAttr>(zero.getValue()) : IntegerAttr();
    if (!(number && number.getValue().isZero()) && !(integer && integer.getValue().isZero()))
      return emitOpError() << "has sums that begin at 0, but sum " << i
                           << " does not; give it 'tile.constant 0', and add what it begins with "
                              "to its result";
  }
  if (failed(checkParameterExpr(*this, getEvenConditionAttr(), "'even when'", ExprKind::Flag)))
    return failure();
  return checkParameterExpr(*this, getApartConditionAttr(), "'apart when'", ExprKind::Flag);
}

LogicalResult AccumulateOp::verifyRegions() {
  Block &body = getBody().front();
  TypeRange inits = getInitArgs().getTypes();
  if (body.getNumArguments() != inits.size() + 1 ||
      !body.getArgument(0).getType().isSignlessInteger(32) ||
      TypeRange(body.getArgumentTypes()).drop_front() != inits)
    return emitOpError("needs a body that takes a number (i32) and its sums, but got (")
           << body.getArgumentTypes() << ")";
  TypeRange yielded = cast<YieldOp>(body.getTerminator()).getYieldedTypes();
  if (yielded != inits || getResultTypes() != inits)
    return emitOpError() << "must yield and return tiles of the types of its sums, (" << inits
                         << "), but got (" << yielded << ")";
  return success();
}

ParseResult SpreadOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::Argument number;
  OpAsmParser::UnresolvedOperand count;
  Type i32 = number.type = parser.getBuilder().getI32Type();
  Region *body = result.addRegion();
  if (parser.parseArgument(number) || parser.parseKeyword("to") || parser.parseOperand(count) ||
      parser.resolveOperand(count, i32, result.operands) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseRegion(*body, number))
    return failure();
  SpreadOp::ensureTerminator(*body, parser.getBuilder(), result.location);
  return success();
}

void SpreadOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getNumber() << " to " << getCount();
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/false);
}

LogicalResult SpreadOp::verify() {
  Block &body = getBody().front();
  if (body.getNumArguments() != 1 || !body.getArgument(0).getType().isSignlessInteger(32))
    return emitOpError("needs a body that takes a number (i32), but got (")
           << body.getArgumentTypes() << ")";
  if (body.getTerminator()->getNumOperands() != 0)
    return emitOpError("must not yield values, but got ")
           << body.getTerminator()->getOperandTypes();
  // Branches on parameters may enclose it.
  Operation *parent = (*this)->getParentOp();
  while (isa<scf::IfOp>(parent))
    parent = parent->getParentOp();
  if (isa<SymbolOpInterface>(parent))
    return success();
  return emitOpError() << "may be nested in scf.if only, but got '" << parent->getName()
                       << "' around it; move it out of that";
}

void SpreadOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  setName(region.getArgument(0), "number");
}

ParseResult ForBlocksOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  Type i32 = builder.getI32Type();
  ParsedLoop loop;
  loop.bodyArguments.resize(2);
  loop.bodyArguments[0].type = i32;
  if (parser.parseArgument(loop.bodyArguments[0]) || parser.parseKeyword("in") ||
      parser.parseLParen() || parser.parseOperand(loop.lower) || parser.parseKeyword("to") ||
      parser.parseOperand(loop.upper) || parseListed(parser, result, loop) ||
      parser.parseRParen() || parser.parseKeyword("against") || parser.parseLParen() ||
      parser.parseOperand(loop.start) || parser.parseKeyword("to") ||
      parser.parseOperand(loop.limit) || parser.parseRParen())
    return failure();
  if (parseOrder(parser, result, loop) ||
      MaskClause::parse(parser, result, loop.mask, /*withRanges=*/true) ||
      parser.parseKeyword("keep") || parser.parseArgument(loop.bodyArguments[1]) ||
      parser.parseColonType(loop.bodyArguments[1].type) || parseIterArgs(parser, loop) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();

  SMLoc loc = parser.getCurrentLocation();
  if (parser.resolveOperands({loop.lower, loop.upper, loop.start, loop.limit}, i32,
                             result.operands))
    return failure();
  if (loop.hasList && (parser.resolveOperand(loop.list, loop.listType, result.operands) ||
                       parser.resolveOperands(loop.listIndices, i32, result.operands) ||
                       parser.resolveOperand(loop.count, i32, result.operands)))
    return failure();
  if (loop.hasOrderCondition &&
      parser.resolveOperand(loop.orderCondition, builder.getI1Type(), result.operands))
    return failure();
  if (loop.mask.resolve(parser, loc, result) ||
      parser.resolveOperands(loop.inits, loop.initTypes, loc, result.operands))
    return failure();
  result.addAttribute("operandSegmentSizes",
                      builder.getDenseI32ArrayAttr(
                          {1, 1, 1, 1, loop.hasList, int32_t(loop.listIndices.size()), loop.hasList,
                           loop.hasOrderCondition, int32_t(loop.mask.operands.size()),
                           int32_t(loop.inits.size())}));
  result.addTypes(loop.initTypes);
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, loop.bodyArguments))
    return failure();
  ForBlocksOp::ensureTerminator(*body, builder, result.location);
  return success();
}

void ForBlocksOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getBlockStart() << " in (" << getLower() << " to " << getUpper();
  if (getList()) {
    printer << " listed " << getList() << '[' << getListIndices() << "] count " << getCount();
    if (getListSpanAttr()) {
      printer << " each ";
      printExprText(printer.getStream(), getListSpanAttr());
    }
    if (getListConditionAttr()) {
      printer << ' ';
      printWhenClause(printer, *this, getListConditionAttr());
    }
    printer << " : " << getList().getType();
  }
  printer << ") against (" << getStart() << " to " << getLimit() << ')';
  if (getOrder() == BlockOrder::Descending)
    printer << " descending";
  if (getOrderCondition())
    printer << " if " << getOrderCondition();
  printer.increaseIndent();
  MaskClause(*this).print(printer);
  printer.printNewline();
  printer << "keep " << getKeep() << " : " << getKeep().getType();
  if (!getInitArgs().empty()) {
    printer.printNewline();
    printIterArgs(printer, ValueRange(getRegionIterArgs()), getInitArgs());
  }
  printer.decreaseIndent();
  SmallVector<StringRef> elided{"operandSegmentSizes", "list_span", "list_condition", "order"};
  llvm::append_range(elided, MaskClause::getAttributeNames());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), elided);
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/!getInitArgs().empty());
}

void ForBlocksOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  if (region.empty() || region.front().getNumArguments() < 2)
    return;
  setName(region.front().getArgument(0), "block");
  setName(region.front().getArgument(1), "keep");
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult ForBlocksOp::verify() {
  if (static_cast<bool>(getList()) != static_cast<bool>(getCount()) ||
      (!getList() && (!getListIndices().empty() || getListSpanAttr() || getListConditionAttr())))
    return emitOpError("needs a list with its indices and its count, or none of them, but got "
                       "a part of these");
  if (getList()) {
    if (failed(checkParameterExpr(*this, getListSpanAttr(), "'each' of its list", ExprKind::Int)) ||
        failed(checkParameterExpr(*this, getListConditionAttr(), "the condition of its list",
                                  ExprKind::Flag)))
      return failure();
    int64_t rank = getRank(getList().getType()), wanted = getListIndices().size() + 1;
    if (rank != wanted || !getElementType(getList().getType()).isInteger(32))
      return emitOpError() << "list must be a view of rank " << wanted
                           << " (one more than its indices) of i32, but got "
                           << getList().getType();
  }
  if (getOrderCondition() && getOrder() != BlockOrder::Descending)
    return emitOpError("has a condition of its order, but is ascending; use its custom assembly "
                       "format");
  return MaskClause(*this).verify();
}

LogicalResult ForBlocksOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getNumArguments() != 2 + getInitArgs().size() ||
      !body.getArgument(0).getType().isSignlessInteger(32))
    return emitOpError("needs a body that takes the block (i32), the mask tile and one value for "
                       "each initial value, but got (")
           << body.getArgumentTypes() << ")";
  Type keep = body.getArgument(1).getType();
  if (!isTile(keep) || getRank(keep) != 2 || !getElementType(keep).isInteger(1))
    return emitOpError() << "keep must be a tile of i1 of rank 2, but got " << keep;
  ExprAttr span = getListSpanAttr();
  if (auto tile = dyn_cast<RankedTensorType>(keep); tile && span && span.isConstant())
    if (int64_t columns = tile.getDimSize(1); span.getValue() < 1 || span.getValue() % columns != 0)
      return emitOpError() << "each entry of its list must cover a multiple of the " << columns
                           << " positions of a block, but got 'each " << span.getValue()
                           << "'; choose a block that divides it";
  auto yield = cast<YieldOp>(body.getTerminator());
  auto sameTypes = [](TypeRange a, TypeRange b) { return llvm::equal(a, b); };
  if (!sameTypes(getInitArgs().getTypes(), getResultTypes()) ||
      !sameTypes(getInitArgs().getTypes(), yield.getYieldedTypes()) ||
      !sameTypes(getInitArgs().getTypes(),
                 ValueRange(body.getArguments().drop_front(2)).getTypes()))
    return emitOpError() << "initial, yielded and result values must have the same types, but got ("
                         << getInitArgs().getTypes() << "), (" << yield.getYieldedTypes()
                         << ") and (" << getResultTypes() << ")";
  return success();
}

LogicalResult ForBlocksOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return MaskClause(*this).verifySymbolUses(symbols);
}

int64_t ForBlocksOp::getBlocksOfEntry() {
  int64_t columns = cast<RankedTensorType>(getKeep().getType()).getDimSize(1);
  return getListSpanAttr() ? getListSpanAttr().getValue() / columns : 1;
}

void ForBlocksOp::dropList() {
  getListMutable().clear();
  getListIndicesMutable().clear();
  getCountMutable().clear();
  removeListSpanAttr();
  removeListConditionAttr();
}

void ForBlocksOp::dropMask() {
  MaskClause::drop(*this);
  removeRangesAttr();
}

SmallVector<Value> ForBlocksOp::getMaskCallOperands(Value against, Value block) {
  return MaskClause(*this).getCallOperands(against, block);
}

//===----------------------------------------------------------------------===//
// LoopLikeOpInterface
//===----------------------------------------------------------------------===//

SmallVector<Region *> ForBlocksOp::getLoopRegions() { return {&getBody()}; }
std::optional<SmallVector<Value>> ForBlocksOp::getLoopInductionVars() {
  return SmallVector<Value>{getBlockStart()};
}
MutableArrayRef<OpOperand> ForBlocksOp::getInitsMutable() { return getInitArgsMutable(); }
Block::BlockArgListType ForBlocksOp::getRegionIterArgs() {
  // The interface's verifier calls this before ours has checked the body.
  Block::BlockArgListType arguments = getBody().getArguments();
  return arguments.size() < 2 ? Block::BlockArgListType() : arguments.drop_front(2);
}
std::optional<MutableArrayRef<OpOperand>> ForBlocksOp::getYieldedValuesMutable() {
  return cast<YieldOp>(getBody().front().getTerminator()).getValuesMutable();
}
std::optional<ResultRange> ForBlocksOp::getLoopResults() { return getResults(); }
