// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the layout of each tile when a kernel is mapped onto a GPU.

#ifndef TILEWRIGHT_PASSES_TGPU_MAP_LAYOUTINFERENCE_H
#define TILEWRIGHT_PASSES_TGPU_MAP_LAYOUTINFERENCE_H

#include "base/Support/Status.h"
#include "dialect/Tgpu/Tgpu.h"
#include "passes/Tgpu/Analysis/TileQueries.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace tilewright::tgpu {

/// Tiles that are operands of the same elementwise operation, or that a loop carries, form a class
/// with one layout. A class with the result of a dot has the accumulator's layout; reductions and
/// expansions propagate layouts between classes; the remaining classes get a layout for coalesced
/// access. The choice depends only on the structure of the kernel.
class LayoutInference {
public:
  LayoutInference(tile::KernelOp kernel, const Target &target, int64_t warps)
      : kernel(kernel), context(kernel.getContext()), hasWgmma(target.has(Feature::Wgmma)),
        warps(warps) {}

  /// Fails with a diagnostic at an operation that cannot be mapped onto a GPU.
  mlir::LogicalResult run();

  /// The layout of a tile's class. Operands that only a dot reads have none.
  mlir::Attribute get(mlir::Value tile) const;

  /// Whether wgmma has products of such operands, once those that it lacks have been widened.
  static bool isOfWgmma(mlir::Type element);
  /// The accumulator layout of a product by wgmma; null if the target or the product does not
  /// permit it.
  mlir::Attribute getWgmma(tile::DotOp op) const;
  /// Why a product is not by wgmma, on a target that has it, with the remedy; for reports.
  std::string whyNotWgmma(tile::DotOp op) const;

  /// The shape of the buffer of a matrix-instruction operand: k is rounded up to a multiple of the
  /// instruction's k.
  static llvm::SmallVector<int64_t> getOperandShape(tile::DotOp dot, unsigned operand);

  /// The swizzle of a product's operand on a target with TMA: the widest that rows of `shape` fill.
  /// TMA costs the L2 a request for each row of a panel. Where these panels have at most 32 bytes,
  /// copied operands have the widest, the last of which may be partly used: 1.08 times the speed of
  /// a forward of 72 columns that were padded to 96, 1.3 times that of 136 (H200).
  static Swizzle getSwizzleForTma(mlir::Value operand, llvm::ArrayRef<int64_t> shape);

  /// The layout for coalesced access, used for tiles without other constraints.
  mlir::Attribute getDefault(llvm::ArrayRef<int64_t> shape, int64_t bits) const {
    return tgpu::getBlocked(context, shape, bits, warps);
  }

private:
  struct Class {
    unsigned parent;
    mlir::Attribute layout;
    llvm::SmallVector<int64_t> shape; ///< collapsed to rank 1 or 2
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
  static Status checkLieForWgmma(tile::DotOp dot);
  void seedDots();
  void seedColumns();
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

#endif // TILEWRIGHT_PASSES_TGPU_MAP_LAYOUTINFERENCE_H
