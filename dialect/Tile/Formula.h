// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions, operators and words of formulas (tile.expr), and the operations that they stand
// for.

#ifndef TILEWRIGHT_DIALECT_TILE_FORMULA_H
#define TILEWRIGHT_DIALECT_TILE_FORMULA_H

#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <limits>

namespace tilewright::tile::formula {

struct Function {
  llvm::StringLiteral word;
  llvm::StringLiteral ofFloats, ofIntegers; ///< the operations; empty if there is none
  unsigned operands;
  unsigned precedence = 0; ///< of an operator; 0: a function
};

inline constexpr unsigned kSum = 2, kProduct = 3;

inline constexpr Function functions[] = {
    {"+", "arith.addf", "arith.addi", 2, kSum},
    {"-", "arith.subf", "arith.subi", 2, kSum},
    {"*", "arith.mulf", "arith.muli", 2, kProduct},
    {"/", "arith.divf", "arith.divsi", 2, kProduct},
    {"min", "arith.minimumf", "arith.minsi", 2},
    {"max", "arith.maximumf", "arith.maxsi", 2},
    {"mod", "", "arith.remsi", 2},
    {"ceildiv", "", "arith.ceildivsi", 2},
    {"bitand", "", "arith.andi", 2},
    {"neg", "arith.negf", "", 1},
    {"abs", "math.absf", "", 1},
    {"exp", "math.exp", "", 1},
    {"exp2", "math.exp2", "", 1},
    {"log", "math.log", "", 1},
    {"log2", "math.log2", "", 1},
    {"sqrt", "math.sqrt", "", 1},
    {"rsqrt", "math.rsqrt", "", 1},
    {"tanh", "math.tanh", "", 1},
};

/// Of conditions. Their operations have integer operands of type i1.
inline constexpr Function connectives[] = {{"and", "", "arith.andi", 2},
                                           {"or", "", "arith.ori", 2},
                                           {"not", "", "arith.xori", 1}}; ///< with true

struct Comparison {
  llvm::StringLiteral word;
  mlir::arith::CmpFPredicate ofFloats;
  mlir::arith::CmpIPredicate ofIntegers;
};

inline constexpr Comparison comparisons[] = {
    {"<", mlir::arith::CmpFPredicate::OLT, mlir::arith::CmpIPredicate::slt},
    {"<=", mlir::arith::CmpFPredicate::OLE, mlir::arith::CmpIPredicate::sle},
    {">", mlir::arith::CmpFPredicate::OGT, mlir::arith::CmpIPredicate::sgt},
    {">=", mlir::arith::CmpFPredicate::OGE, mlir::arith::CmpIPredicate::sge},
    {"==", mlir::arith::CmpFPredicate::OEQ, mlir::arith::CmpIPredicate::eq},
    {"ne", mlir::arith::CmpFPredicate::UNE, mlir::arith::CmpIPredicate::ne},
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr std::pair<llvm::StringLiteral, double> numbers[] = {
    {"inf", kInfinity},
    {"minus_inf", -kInfinity},
    {"log2e", 1.4426950408889634},
    {"ln2", 0.6931471805599453},
};

template <typename Rows> auto *find(const Rows &rows, llvm::StringRef word) {
  auto *row = llvm::find_if(rows, [&](const auto &row) { return row.word == word; });
  return row == std::end(rows) ? nullptr : row;
}

inline bool isOfFloats(mlir::Type type) {
  return mlir::isa<mlir::FloatType, ParamType>(getElementType(type));
}

/// The type of conditions on values of the type.
inline mlir::Type getConditionType(mlir::Type type) {
  mlir::Type i1 = mlir::IntegerType::get(type.getContext(), 1);
  return isTile(type) ? makeTile(type.getContext(), getDims(type), i1,
                                 !mlir::isa<mlir::RankedTensorType>(type))
                      : i1;
}

} // namespace tilewright::tile::formula

#endif // TILEWRIGHT_DIALECT_TILE_FORMULA_H
