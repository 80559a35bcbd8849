// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which layout each tile of a kernel gets when it is mapped onto a GPU.

#ifndef TILEWRIGHT_PASSES_TGPU_LAYOUTINFERENCE_H
#define TILEWRIGHT_PASSES_TGPU_LAYOUTINFERENCE_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace tilewright::tgpu {

/// Tiles that meet in an elementwise operation, or that a loop carries, form a class and share a
/// layout. A class that holds the result of a dot has the layout of its accumulator; reductions
/// and expansions carry layouts from class to class; what is left is spread for coalesced access.
/// Decided by structure alone.
class LayoutInference {
public:
  LayoutInference(tile::KernelOp kernel, const Target &target, int64_t warps)
      : kernel(kernel), context(kernel.getContext()), hasWgmma(target.has(Feature::Wgmma)),
        warps(warps) {}

  /// Fails with a diagnostic at an operation that has no place on a GPU.
  mlir::LogicalResult run();

  /// The layout of a tile's class. Not for operands that only a dot reads, which have none.
  mlir::Attribute get(mlir::Value tile) const;

  /// Of the accumulator of a product by wgmma; null where the target or the product has none.
  mlir::Attribute getWgmma(tile::DotOp op) const;

  /// Of the buffer that holds an operand of a product by matrix instructions: k is rounded up to
  /// what they multiply.
  static llvm::SmallVector<int64_t> getOperandShape(tile::DotOp dot, unsigned operand);

  static bool isTile(mlir::Value value) {
    return mlir::isa<mlir::RankedTensorType>(value.getType());
  }
  /// Cheaper to compute again in every layout than to convert: full, iota, constants.
  static bool isRematerialised(mlir::Value value);
  /// Every tile of the operation's operands and results has one shape and one layout.
  static bool isElementwise(mlir::Operation *op);
  /// For coalesced access to a tile of which nothing else is known.
  mlir::Attribute getDefault(llvm::ArrayRef<int64_t> shape, int64_t bits) const;

private:
  struct Class {
    unsigned parent;
    mlir::Attribute layout;
    llvm::SmallVector<int64_t> shape; ///< as layouts see it, of rank 1 or 2
    int64_t minBits;
  };
  unsigned find(unsigned id) const;
  std::optional<unsigned> classOf(mlir::Value value);
  void unite(mlir::ValueRange values);
  void seed(mlir::Value value, mlir::Attribute layout);
  mlir::Attribute lookup(mlir::Value value);
  mlir::LogicalResult visit(mlir::Operation *op);
  bool propagate();
  mlir::Attribute getMma(llvm::ArrayRef<int64_t> shape, bool keepsRows) const;
  std::optional<unsigned> getResultRead(tile::DotOp dot);
  bool savesByRows(llvm::ArrayRef<tile::DotOp> chain);
  static bool canLieForWgmma(tile::DotOp dot);
  void seedDots();
  static bool fits(mlir::Attribute layout, llvm::ArrayRef<int64_t> shape);

  tile::KernelOp kernel;
  mlir::MLIRContext *context;
  bool hasWgmma;
  int64_t warps;
  std::vector<Class> classes;
  llvm::DenseMap<mlir::Value, unsigned> ids;
  llvm::SmallVector<mlir::Operation *> relations; ///< reductions and expansions
  llvm::SmallVector<tile::DotOp> dots;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LAYOUTINFERENCE_H
