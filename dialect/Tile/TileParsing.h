// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Directives of the declarative assembly formats, and the expression grammar.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEPARSING_H
#define TILEWRIGHT_DIALECT_TILE_TILEPARSING_H

#include "dialect/Tile/Tile.h"

#include <optional>

namespace tilewright::tile {

/// Parses an infix expression; see Tile_ExprAttr for the grammar.
mlir::ParseResult parseExprText(mlir::AsmParser &parser, ExprAttr &expr);
void printExprText(llvm::raw_ostream &os, ExprAttr expr);

/// What stands at the place, for "but got": a quoted word, string or mark of the source.
std::string getToken(llvm::SMLoc loc);

/// `[index, ...]`, each a value or an integer.
mlir::ParseResult
parseIndexList(mlir::OpAsmParser &parser,
               llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &indices,
               mlir::DenseI64ArrayAttr &integers);
void printIndexList(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::OperandRange indices,
                    llvm::ArrayRef<int64_t> integers);

/// The error of a place that takes a value, an index or what a result of a loop begins with, where
/// the text goes on as a formula would.
mlir::ParseResult rejectFormula(mlir::OpAsmParser &parser, bool isIndex);

/// `let? NAME, ...: kind (in [value, ...])? (= default)?`
mlir::ParseResult parseParamDecls(mlir::AsmParser &parser,
                                  llvm::SmallVectorImpl<ParamDeclAttr> &decls);
void printParamDecl(llvm::raw_ostream &os, ParamDeclAttr decl);

/// `(require (expr, ...))?`, an empty list if it is missing. Printed on a separate line; an empty
/// list is not printed.
mlir::ParseResult parseConstraints(mlir::OpAsmParser &parser, mlir::ArrayAttr &constraints,
                                   llvm::SmallVectorImpl<llvm::SMLoc> *locs = nullptr);
void printConstraints(mlir::OpAsmPrinter &printer, mlir::ArrayAttr constraints);

/// The same for a capture, on its line; null if it is missing.
mlir::ParseResult parseCaptureConstraints(mlir::OpAsmParser &parser, mlir::ArrayAttr &constraints);
void printCaptureConstraints(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                             mlir::ArrayAttr constraints);

/// `(= value)?` after an argument of the type; null if it is missing.
mlir::ParseResult parseArgDefault(mlir::OpAsmParser &parser, mlir::Type type,
                                  mlir::Attribute &value);
void printArgDefault(mlir::OpAsmPrinter &printer, mlir::Attribute value);

/// The grid of a kernel of either dialect: `grid(%id = expr, ...)` on a line of its own.
template <typename KernelT> void printGrid(mlir::OpAsmPrinter &printer, KernelT kernel) {
  printer.printNewline();
  printer << "grid(";
  for (auto [i, id] : llvm::enumerate(kernel.getGridIds())) {
    printer << (i ? ", " : "") << id << " = ";
    printExprText(printer.getStream(), mlir::cast<ExprAttr>(kernel.getGrid()[i]));
  }
  printer << ')';
}
/// The names of a kernel's arguments and grid ids are those of its SSA values.
template <typename KernelT>
void nameBlockArguments(KernelT kernel, mlir::Region &region, mlir::OpAsmSetValueNameFn setName) {
  if (region.empty() ||
      region.front().getNumArguments() != kernel.getNumArgs() + kernel.getGridNames().size())
    return;
  for (auto [argument, name] : llvm::zip(kernel.getArgs(), kernel.getArgNames()))
    setName(argument, mlir::cast<mlir::StringAttr>(name).getValue());
  for (auto [id, name] : llvm::zip(kernel.getGridIds(), kernel.getGridNames()))
    setName(id, mlir::cast<mlir::StringAttr>(name).getValue());
}

mlir::ParseResult parseExpr(mlir::OpAsmParser &parser, ExprAttr &expr);
void printExpr(mlir::OpAsmPrinter &printer, mlir::Operation *op, ExprAttr expr);

/// `[expr, ...]`
mlir::ParseResult parseExprList(mlir::OpAsmParser &parser, mlir::ArrayAttr &exprs);
void printExprList(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr exprs);

/// `with (NAME = expr, ...)`
mlir::ParseResult parseWithClause(mlir::OpAsmParser &parser, mlir::ArrayAttr &names,
                                  mlir::ArrayAttr &values);
void printWithClause(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr names,
                     mlir::ArrayAttr values);

/// `NAME = %value, ...`
mlir::ParseResult
parseCallArguments(mlir::OpAsmParser &parser,
                   llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &args,
                   mlir::ArrayAttr &names);
void printCallArguments(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::OperandRange args,
                        mlir::ArrayAttr names);
/// The same, or `%value, ...`: then `names` is null.
mlir::ParseResult
parseLaunchArguments(mlir::OpAsmParser &parser,
                     llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &args,
                     mlir::ArrayAttr &names);
void printLaunchArguments(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::OperandRange args,
                          mlir::ArrayAttr names);

/// `"file", ...`
mlir::ParseResult parseFileList(mlir::OpAsmParser &parser, mlir::ArrayAttr &files);
void printFileList(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr files);

/// `: type, ...`, or nothing: the types of the values.
mlir::ParseResult parseArgumentTypes(mlir::OpAsmParser &parser,
                                     llvm::ArrayRef<mlir::OpAsmParser::UnresolvedOperand> args,
                                     llvm::SmallVectorImpl<mlir::Type> &types);
void printArgumentTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::OperandRange args,
                        mlir::TypeRange types);

/// `when (expr)`
mlir::ParseResult parseWhenClause(mlir::OpAsmParser &parser, ExprAttr &condition);
void printWhenClause(mlir::OpAsmPrinter &printer, mlir::Operation *op, ExprAttr condition);
/// `when (flag)`, which must follow a keyword.
mlir::ParseResult parseFlagClause(mlir::OpAsmParser &parser, ExprAttr &flag,
                                  mlir::StringRef keyword);

/// `number (when (expr))? (: type)?`: without the type, it is that of the view.
/// `fill 0 : !tile.view<...>`, or the type alone.
mlir::ParseResult parseWorkspaceFill(mlir::OpAsmParser &parser, mlir::Attribute &fill,
                                     mlir::Type &type);
void printWorkspaceFill(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Attribute fill,
                        mlir::Type type);
mlir::ParseResult parseFillValue(mlir::OpAsmParser &parser, mlir::Attribute &value,
                                 ExprAttr &condition,
                                 const mlir::OpAsmParser::UnresolvedOperand &view,
                                 mlir::Type &type);
void printFillValue(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Attribute value,
                    ExprAttr condition, mlir::Value view, mlir::Type type);

/// `%value, ...`, or nothing. The results of an operation that follows are no values.
mlir::ParseResult
parsePrintValues(mlir::OpAsmParser &parser,
                 llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &values);
void printPrintValues(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::OperandRange values);

/// `in order if NAME` and the clauses after it; nothing if it is missing.
mlir::ParseResult parseOrderClauses(mlir::OpAsmParser &parser, mlir::StringAttr &flag,
                                    ExprAttr &order, ExprAttr &deterministic, ExprAttr &staggered,
                                    ExprAttr &banded, ExprAttr &packed, ExprAttr &rows,
                                    ExprAttr &sequences);
void printOrderClauses(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::StringAttr flag,
                       ExprAttr order, ExprAttr deterministic, ExprAttr staggered, ExprAttr banded,
                       ExprAttr packed, ExprAttr rows, ExprAttr sequences);

/// An integer attribute without its type.
mlir::ParseResult parseInt(mlir::OpAsmParser &parser, mlir::IntegerAttr &value);
void printInt(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::IntegerAttr value);

/// `add`, `max`, ...
mlir::ParseResult parseReduceKind(mlir::OpAsmParser &parser, ReduceKindAttr &kind);
void printReduceKind(mlir::OpAsmPrinter &printer, mlir::Operation *op, ReduceKindAttr kind);

/// The type of a tile; the scalar's type is its element type.
mlir::ParseResult parseSplatType(mlir::OpAsmParser &parser, mlir::Type &tile, mlir::Type &scalar);
void printSplatType(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Type tile,
                    mlir::Type scalar);

/// A number or one of the words inf, minus_inf, nan; then `:` and the type; with a float type, an
/// integer is a float.
mlir::ParseResult parseLiteral(mlir::OpAsmParser &parser, mlir::Attribute &value,
                               mlir::Type &result);
void printLiteral(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Attribute value,
                  mlir::Type result);

/// The type of the result; that of the fill is its element type.
mlir::ParseResult
parseResultAndFill(mlir::OpAsmParser &parser, mlir::Type &result,
                   const std::optional<mlir::OpAsmParser::UnresolvedOperand> &fill,
                   mlir::Type &fillType);
void printResultAndFill(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Type result,
                        mlir::Value fill, mlir::Type fillType);

/// The type of the result, which the accumulator shares.
mlir::ParseResult parseResultAndAcc(mlir::OpAsmParser &parser, mlir::Type &result,
                                    const std::optional<mlir::OpAsmParser::UnresolvedOperand> &acc,
                                    mlir::Type &accType);
void printResultAndAcc(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Type result,
                       mlir::Value acc, mlir::Type accType);

/// The type of the operand and, unless omitted, `->` and that of the result: without dimension
/// `dim`, or with the dimensions permuted.
mlir::ParseResult parseReducedTypes(mlir::OpAsmParser &parser, mlir::Type &source,
                                    mlir::Type &result, mlir::IntegerAttr dim);
mlir::ParseResult parsePermutedTypes(mlir::OpAsmParser &parser, mlir::Type &source,
                                     mlir::Type &result, mlir::DenseI64ArrayAttr permutation);
/// The type of the operand and, unless omitted, `->` and those of the results: without dimension
/// `dim`, of its elements and of i32.
mlir::ParseResult parseExtremumTypes(mlir::OpAsmParser &parser, mlir::Type &source,
                                     mlir::Type &value, mlir::Type &index, mlir::IntegerAttr dim);
template <typename Attr>
void printExtremumTypes(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Type source,
                        mlir::Type value, mlir::Type index, Attr) {
  printer << source << " -> " << value << ", " << index;
}
/// The type of the first result; the second has elements of i32 instead.
mlir::ParseResult parseValuesAndIndices(mlir::OpAsmParser &parser, mlir::Type &values,
                                        mlir::Type &indices);
inline void printValuesAndIndices(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Type values,
                                  mlir::Type) {
  printer << values;
}
template <typename Attr>
void printReducedTypes(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Type source,
                       mlir::Type result, Attr) {
  printer << source << " -> " << result;
}
template <typename Attr>
void printPermutedTypes(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Type source,
                        mlir::Type result, Attr) {
  printer << source << " -> " << result;
}

/// One type for the result and the operands.
mlir::ParseResult parseSameTypes(mlir::OpAsmParser &parser, mlir::Type &result, mlir::Type &a,
                                 mlir::Type &b);
mlir::ParseResult parseSameTypes(mlir::OpAsmParser &parser, mlir::Type &result, mlir::Type &a,
                                 mlir::Type &b, mlir::Type &c);
template <typename... Types>
void printSameTypes(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::Type result, Types...) {
  printer << result;
}

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_TILEPARSING_H
