// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums in memory: assembly format, verifiers and memory effects.

#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExprCheck.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tilewright::tile;

//===----------------------------------------------------------------------===//
// Assembly format
//===----------------------------------------------------------------------===//

/// KEYWORD (EXPR)
static ParseResult parseNumber(OpAsmParser &parser, ExprAttr &number, StringRef keyword) {
  return failure(parser.parseKeyword(keyword) || parser.parseLParen() ||
                 parseExprText(parser, number) || parser.parseRParen());
}

ParseResult tilewright::tile::parseOrderClauses(OpAsmParser &parser, StringAttr &flag,
                                                ExprAttr &order, ExprAttr &deterministic,
                                                ExprAttr &staggered, ExprAttr &banded,
                                                ExprAttr &packed, ExprAttr &rows,
                                                ExprAttr &sequences) {
  if (failed(parser.parseOptionalKeyword("in")))
    return success();
  StringRef name;
  if (parser.parseKeyword("order") || parser.parseKeyword("if") || parser.parseKeyword(&name) ||
      parseWhenClause(parser, order))
    return failure();
  flag = parser.getBuilder().getStringAttr(name);
  for (auto [keyword, condition] :
       {std::pair<StringRef, ExprAttr *>("deterministic", &deterministic),
        {"staggered", &staggered},
        {"banded", &banded}})
    if (succeeded(parser.parseOptionalKeyword(keyword)) &&
        failed(parseFlagClause(parser, *condition, keyword)))
      return failure();
  if (failed(parser.parseOptionalKeyword("packed")))
    return success();
  return failure(parseFlagClause(parser, packed, "packed") || parseNumber(parser, rows, "rows") ||
                 parseNumber(parser, sequences, "sequences"));
}

void tilewright::tile::printOrderClauses(OpAsmPrinter &printer, Operation *op, StringAttr flag,
                                         ExprAttr order, ExprAttr deterministic, ExprAttr staggered,
                                         ExprAttr banded, ExprAttr packed, ExprAttr rows,
                                         ExprAttr sequences) {
  if (!flag)
    return;
  printer << "in order if " << flag.getValue();
  if (order) {
    printer << ' ';
    printWhenClause(printer, op, order);
  }
  for (auto [keyword, condition] :
       {std::pair("deterministic", deterministic), std::pair("staggered", staggered),
        std::pair("banded", banded), std::pair("packed", packed)})
    if (condition) {
      printer << ' ' << keyword << ' ';
      printWhenClause(printer, op, condition);
    }
  for (auto [keyword, number] : {std::pair("rows", rows), std::pair("sequences", sequences)})
    if (number) {
      printer << ' ' << keyword << " (";
      printExprText(printer.getStream(), number);
      printer << ')';
    }
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// Whether an operation is the first of its kind in the kernel.
template <typename OpTy> static LogicalResult verifySingle(OpTy op, KernelOp kernel) {
  OpTy first;
  kernel.getBody().walk([&](OpTy other) {
    first = other;
    return WalkResult::interrupt();
  });
  if (first == op)
    return success();
  return (op.emitOpError("must be the only one of its kernel; write a kernel for each sum"))
             .attachNote(first.getLoc())
         << "the first";
}

LogicalResult ContributeOp::verify() {
  if (failed(verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                          getValue().getType(), getDims())))
    return failure();
  Type type = getElementType(getValue().getType());
  if (!type.isF64() && !type.isF32() && !type.isF16() && !type.isBF16() && !type.isInteger(32) &&
      !isa<ParamType>(type))
    return emitOpError() << "requires elements of f32, f64, f16, bf16 or i32, but got " << type
                         << "; convert the tile with tile.cast";
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (!kernel)
    return success(); // in a function, which a kernel calls
  if (failed(verifySingle(*this, kernel)) ||
      failed(checkParameterExpr(*this, getSizeAttr(), "'each'", ExprKind::Int)))
    return failure();
  Signature signature(kernel);
  if (StringAttr name = getFlagAttr()) {
    ParamDeclAttr param = signature.findParam(name.getValue());
    ExprAttr initial = param && !param.getDerived() ? param.getDefaultValue() : ExprAttr();
    if (!initial || initial.getKind() != ExprKind::Flag || initial.getValue())
      return emitOpError() << "needs a flag of the kernel after 'in order if', 'NAME: flag = "
                              "false', but got '"
                           << name.getValue() << "'";
  }
  for (auto [what, flag] : {std::pair("'in order ... when'", getOrderConditionAttr()),
                            std::pair("'deterministic when'", getDeterministicConditionAttr()),
                            std::pair("'staggered when'", getStaggeredConditionAttr()),
                            std::pair("'banded when'", getBandedConditionAttr()),
                            std::pair("'packed when'", getPackedConditionAttr())})
    if (failed(checkParameterExpr(*this, flag, what, ExprKind::Flag)))
      return failure();
  for (auto [what, number] :
       {std::pair("'rows'", getRowsAttr()), std::pair("'sequences'", getSequencesAttr())})
    if (number &&
        failed(checkExprKind(*this, number, &signature, ExprScope::Launch, what, ExprKind::Int)))
      return failure();
  return success();
}

LogicalResult CompleteOp::verify() {
  auto kernel = dyn_cast<KernelOp>((*this)->getParentOp());
  if (!kernel)
    return emitOpError() << "must be in the body of a kernel, but is inside '"
                         << (*this)->getParentOp()->getName() << "'; move it out";
  if (failed(verifySingle(*this, kernel)))
    return failure();
  return verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                      getResult().getType(), std::nullopt);
}

LogicalResult AnyOrderOp::verify() {
  if (!getCount() == !getList())
    return emitOpError("needs either 'of' and how many numbers there are, or 'listed' and a list "
                       "of numbers, but got ")
           << (getList() ? "both" : "neither");
  if (!getList())
    return getConditionAttr()
               ? emitOpError("takes 'when' only after 'listed', but got it without a "
                             "list; use 'of' in a branch")
               : success();
  auto list = dyn_cast<ViewType>(getList().getType());
  if (!list || list.getRank() != 1 || !list.getElementType().isInteger(32))
    return emitOpError("needs a list that is a view of i32 with one dimension, but got ")
           << getList().getType();
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (kernel && (kernel.getGridIds().empty() || getNumber() != kernel.getGridIds().front()))
    return emitOpError("with 'listed' needs the first number of the kernel's grid, but got another "
                       "value");
  return checkParameterExpr(*this, getConditionAttr(), "'listed when'", ExprKind::Flag);
}

//===----------------------------------------------------------------------===//
// Memory effects
//===----------------------------------------------------------------------===//

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

void ContributeOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getViewMutable(),
                       SideEffects::DefaultResource::get());
  effects.emplace_back(MemoryEffects::Write::get(), &getViewMutable(),
                       SideEffects::DefaultResource::get());
}

void CompleteOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getViewMutable(),
                       SideEffects::DefaultResource::get());
}
