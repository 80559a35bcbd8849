// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The clause `where`, and tile.kept_range, which has little else.

#include "dialect/Tile/MaskClause.h"

#include "dialect/Tile/TileExprCheck.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tilewright::tile;

ParseResult MaskClause::parse(OpAsmParser &parser, OperationState &result, Parsed &parsed,
                              bool withRanges) {
  if (failed(parser.parseOptionalKeyword("where")))
    return success();
  StringAttr symbol;
  SMLoc loc = parser.getCurrentLocation();
  int64_t position = 0, against = -1, block = -1;
  auto parseOperand = [&]() -> ParseResult {
    SMLoc operandLoc = parser.getCurrentLocation();
    int64_t *slot = nullptr;
    if (succeeded(parser.parseOptionalKeyword("against")))
      slot = &against;
    else if (succeeded(parser.parseOptionalKeyword("block")))
      slot = &block;
    if (slot) {
      if (*slot >= 0)
        return parser.emitError(operandLoc,
                                "'against' and 'block' may each be given once, but got '")
               << (slot == &against ? "against" : "block") << "' twice";
      *slot = position;
    } else if (parser.parseOperand(parsed.operands.emplace_back())) {
      return failure();
    }
    ++position;
    return success();
  };
  if (parser.parseSymbolName(symbol) || parser.parseLParen() ||
      parser.parseCommaSeparatedList(parseOperand))
    return failure();
  // Without types, the operands are positions and numbers.
  if (failed(parser.parseOptionalColon()))
    parsed.types.assign(parsed.operands.size(), parser.getBuilder().getI32Type());
  else if (parser.parseTypeList(parsed.types))
    return failure();
  if (parser.parseRParen())
    return failure();
  if (against < 0 || block < 0)
    return parser.emitError(loc, "the mask function must be given both positions, 'against' and "
                                 "'block', but got ")
           << (against >= 0 ? "only 'against'"
               : block >= 0 ? "only 'block'"
                            : "neither");
  Builder &builder = parser.getBuilder();
  result.addAttribute("mask", FlatSymbolRefAttr::get(symbol));
  result.addAttribute("against_position", builder.getI64IntegerAttr(against));
  result.addAttribute("block_position", builder.getI64IntegerAttr(block));
  if (withRanges && succeeded(parser.parseOptionalKeyword("ranges"))) {
    StringAttr ranges;
    if (parser.parseSymbolName(ranges))
      return failure();
    result.addAttribute("ranges", FlatSymbolRefAttr::get(ranges));
  }
  ExprAttr condition;
  if (parseWhenClause(parser, condition))
    return failure();
  if (condition)
    result.addAttribute("mask_condition", condition);
  return success();
}

ArrayRef<StringRef> MaskClause::getAttributeNames() {
  static constexpr StringRef names[] = {"mask", "against_position", "block_position", "ranges",
                                        "mask_condition"};
  return names;
}

void MaskClause::print(OpAsmPrinter &printer) const {
  if (!mask)
    return;
  printer.printNewline();
  printer << "where " << mask << '(';
  auto next = operands.begin();
  for (int64_t i = 0; i < getCount(); ++i) {
    printer << (i ? ", " : "");
    if (i == against)
      printer << "against";
    else if (i == block)
      printer << "block";
    else
      printer << *next++;
  }
  if (!operands.empty())
    printer << " : " << operands.getTypes();
  printer << ')';
  if (ranges)
    printer << " ranges " << ranges;
  if (condition) {
    printer << ' ';
    printWhenClause(printer, op, condition);
  }
}

LogicalResult MaskClause::verify() const {
  if (!mask) {
    if (ranges || condition || !operands.empty() || against != 0 || block != 1)
      return op->emitOpError("must have a mask function for its 'where' clause, but got none");
    return success();
  }
  if (against == block || against < 0 || block < 0 || against >= getCount() || block >= getCount())
    return op->emitOpError(
        "has malformed positions in its mask function; use its custom assembly format");
  return checkParameterExpr(op, condition, "the condition of its mask", ExprKind::Flag);
}

LogicalResult MaskClause::verifySymbolUses(SymbolTableCollection &symbols) const {
  if (!mask || mayBeLinked(op, mask, symbols))
    return success();
  auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(op, mask);
  if (!function)
    return op->emitOpError() << "must mask by a function of this module, but got " << mask
                             << "; define it, or link the file that does";
  FunctionType type = function.getFunctionType();
  auto *context = op->getContext();
  SmallVector<Type> wanted;
  auto next = operands.begin();
  for (int64_t i = 0; i < getCount(); ++i)
    wanted.push_back(i == against || i == block ? IntegerType::get(context, 32)
                                                : (*next++).getType());
  bool matches = type.getNumInputs() == wanted.size() && type.getNumResults() == 1 &&
                 type.getResult(0).isInteger(1);
  for (unsigned i = 0; matches && i < wanted.size(); ++i)
    matches = mayBecomeEqual(type.getInput(i), wanted[i]);
  if (!matches)
    return op->emitOpError() << "needs mask function " << mask << " of type "
                             << FunctionType::get(context, wanted, IntegerType::get(context, 1))
                             << ", but it is " << type;
  if (!ranges)
    return success();
  auto derived = symbols.lookupNearestSymbolFrom<func::FuncOp>(op, ranges);
  // Operands: four bounds and the mask's other operands; results: four bounds and a flag; see
  // tile-analyze-masks.
  if (!derived || derived.getNumArguments() != operands.size() + 4 || derived.getNumResults() != 5)
    return op->emitOpError()
           << "needs ranges in the form that tile-analyze-masks generates, but got " << ranges
           << "; omit them: the pass adds them";
  return success();
}

SmallVector<Value> MaskClause::getCallOperands(Value againstValue, Value blockValue) const {
  SmallVector<Value> values;
  auto next = operands.begin();
  for (int64_t i = 0; i < getCount(); ++i)
    values.push_back(i == against ? againstValue : i == block ? blockValue : *next++);
  return values;
}

//===----------------------------------------------------------------------===//
// tile.kept_range
//===----------------------------------------------------------------------===//

ParseResult KeptRangeOp::parse(OpAsmParser &parser, OperationState &result) {
  Type i32 = parser.getBuilder().getI32Type();
  OpAsmParser::UnresolvedOperand lower, upper, start, limit;
  MaskClause::Parsed mask;
  if (parser.parseKeyword("in") || parser.parseLParen() || parser.parseOperand(lower) ||
      parser.parseKeyword("to") || parser.parseOperand(upper) || parser.parseRParen() ||
      parser.parseKeyword("against") || parser.parseLParen() || parser.parseOperand(start) ||
      parser.parseKeyword("to") || parser.parseOperand(limit) || parser.parseRParen() ||
      MaskClause::parse(parser, result, mask, /*withRanges=*/false) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  result.addTypes({i32, i32});
  SMLoc loc = parser.getCurrentLocation();
  return failure(parser.resolveOperands({lower, upper, start, limit}, i32, result.operands) ||
                 mask.resolve(parser, loc, result));
}

void KeptRangeOp::print(OpAsmPrinter &printer) {
  printer << " in (" << getLower() << " to " << getUpper() << ") against (" << getStart() << " to "
          << getLimit() << ')';
  printer.increaseIndent();
  MaskClause(*this).print(printer);
  printer.decreaseIndent();
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), MaskClause::getAttributeNames());
}

LogicalResult KeptRangeOp::verify() { return MaskClause(*this).verify(); }

LogicalResult KeptRangeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return MaskClause(*this).verifySymbolUses(symbols);
}

void KeptRangeOp::dropMask() { MaskClause::drop(*this); }

SmallVector<Value> KeptRangeOp::getMaskCallOperands(Value against, Value block) {
  return MaskClause(*this).getCallOperands(against, block);
}
