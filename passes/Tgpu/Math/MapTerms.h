// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits values of a mapped function into sums of terms, by the coordinates of an element that they
// depend on.

#ifndef TILEWRIGHT_PASSES_TGPU_MATH_MAPTERMS_H
#define TILEWRIGHT_PASSES_TGPU_MATH_MAPTERMS_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// A value of a mapped function, as a sum. Null terms are zero. A value that was not split only has
/// `varying`.
struct Terms {
  mlir::Value varying; ///< a value of the function: the part that is no term of columns or rows
  mlir::Value columns; ///< a tile whose rows are equal
  bool subtractsColumns = false;
  mlir::Value rows;    ///< a tile of one number for each row
  mlir::Value uniform; ///< a scalar outside of the function; null if `rows` is set

  bool isForRows() const { return !varying && !columns; }
  bool isUniform() const { return isForRows() && !rows; }
  bool isWhole() const { return varying && !columns && !rows && !uniform; }
};

/// Splits the values of a function that is mapped in a loop: sums, differences, products with
/// uniform values, and conversions of positions. Loop-invariant terms are computed before the loop,
/// those of columns only if `keepsColumns`.
class TermSplitter {
public:
  /// `function` is the mapped function, or a copy, to which sums of varying terms are added; `rows`
  /// is the type of a tile of rows.
  TermSplitter(tile::MapOp map, mlir::func::FuncOp function, mlir::RankedTensorType rows,
               mlir::scf::ForOp loop, bool keepsColumns)
      : map(map), function(function), rowLayout(rows), loop(loop), keepsColumns(keepsColumns) {}

  Terms split(mlir::Value value);
  /// The terms of rows as a tile; null if there are none.
  mlir::Value getRows(const Terms &terms);
  /// Erases operations for terms that turned out to be unused.
  void eraseUnused();

private:
  using Build = llvm::function_ref<mlir::Value(mlir::OpBuilder &)>;
  mlir::Type typeOfRows(mlir::Type element) { return rowLayout.clone(element); }
  mlir::Value at(mlir::ValueRange operands, Build build);
  mlir::Value atColumns(mlir::ValueRange operands, Build build);
  mlir::Value buildBefore(mlir::Operation *op, Build build);
  Terms compute(mlir::Value value);
  Terms ofOperand(mlir::Value operand);
  Terms ofRows(mlir::Operation *op, llvm::ArrayRef<Terms> operands);
  Terms convert(tile::CastOp op, const Terms &source);
  Terms add(mlir::Operation *op, Terms x, Terms y, bool isSum);
  Terms multiply(mlir::Operation *op, Terms terms, mlir::Value factor);

  tile::MapOp map;
  mlir::func::FuncOp function;
  mlir::RankedTensorType rowLayout;
  mlir::scf::ForOp loop;
  bool keepsColumns;
  llvm::DenseMap<mlir::Value, Terms> known;
  llvm::SmallVector<mlir::Operation *> built;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MATH_MAPTERMS_H
