// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of kernels that come before others, whose messages or places would be worse.

#include "dialect/Tile/TileExprCheck.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tilewright::tile;

ParseResult tilewright::tile::checkClauses(OpAsmParser &parser, const OperationState &parsed,
                                           ArrayRef<OpAsmParser::Argument> arguments,
                                           ArrayRef<Clause> clauses) {
  OperationState state(parsed.location, parsed.name);
  state.attributes = parsed.attributes;
  Block &body = state.addRegion()->emplaceBlock();
  for (const OpAsmParser::Argument &argument : arguments)
    body.addArgument(argument.type, parsed.location);
  OwningOpRef<Operation *> op(Operation::create(state));
  Signature signature(*op);
  for (const Clause &clause : clauses) {
    bool isGrid = clause.scope == ExprScope::Launch, isKnown = true;
    walkExpr(clause.expr, [&](ExprAttr leaf) {
      StringRef name = leaf.getName();
      isKnown &= signature.findParam(name) || signature.findArg(name) >= 0;
    });
    // Another name of a constraint may be a capture; the verifier knows it.
    if (!isGrid && !isKnown)
      continue;
    op.get()->setLoc(parser.getEncodedSourceLoc(clause.loc));
    if (failed(checkExprKind(*op, clause.expr, &signature, clause.scope,
                             isGrid ? "a grid extent" : "a constraint",
                             isGrid ? ExprKind::Int : ExprKind::Flag)))
      return failure();
  }
  return success();
}

LogicalResult tilewright::tile::verifyCallsOfScalars(Operation *scope,
                                                     SymbolTableCollection &symbols) {
  return failure(scope
                     ->walk([&](func::CallOp call) {
                       FlatSymbolRefAttr callee = call.getCalleeAttr();
                       auto function =
                           callee ? symbols.lookupNearestSymbolFrom<func::FuncOp>(call, callee)
                                  : func::FuncOp();
                       if (!function || !function.getFunctionTypeAttr() ||
                           function.getNumArguments() != call.getNumOperands())
                         return WalkResult::advance();
                       for (auto [i, type] : llvm::enumerate(call.getOperandTypes()))
                         if (Type expected = function.getArgumentTypes()[i];
                             isTile(type) && isElementType(expected)) {
                           call.emitOpError()
                               << "operand " << i << " of @" << call.getCallee() << " is "
                               << expected << ", but got " << type << "; write map @"
                               << call.getCallee() << "(...) to apply it to each element";
                           return WalkResult::interrupt();
                         }
                       return WalkResult::advance();
                     })
                     .wasInterrupted());
}
