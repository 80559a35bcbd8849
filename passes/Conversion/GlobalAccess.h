// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Views in global memory, the regions of them that tiles cover, and accesses to their elements.
// Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_GLOBALACCESS_H
#define TILEWRIGHT_PASSES_CONVERSION_GLOBALACCESS_H

#include "passes/Conversion/KernelEmitter.h"

namespace tilewright::tgpu {

struct View {
  mlir::Value base;
  Values extents; ///< i32
  Values strides; ///< in elements, i64
  mlir::Type element;
  int64_t bytes; ///< bytes per element
};
View getView(KernelEmitter &e, mlir::Value value);
/// The same for the scalars of a capture.
View getView(KernelEmitter &e, tile::ViewType type, mlir::ArrayRef<mlir::Value> list);

/// All indices of an operation, as i32.
Values getIndices(KernelEmitter &e, mlir::OperandRange indices,
                  mlir::ArrayRef<int64_t> staticIndices);
struct ElementPlace {
  mlir::Value address, inside;
};
/// The address of an element of a view, and whether it is in bounds (and `condition`; null:
/// always). Along dimensions without an index, it is the first element.
ElementPlace getElementPlace(ThreadBuilder &b, const View &view,
                             mlir::ArrayRef<mlir::Value> indices, mlir::Value condition = nullptr);

/// The remaining extent after the offset, at most `asked`; neither is below 0.
mlir::Value clampPart(ThreadBuilder &b, mlir::Value offset, mlir::Value asked, mlir::Value extent);

/// The start of a tile in a view, and the dimensions of the view that it covers.
struct ViewRegion {
  View view;
  mlir::Value outer;    ///< address from which indices along dimensions of the tile count
  mlir::Value origin;   ///< address of element 0 of the tile, even if outside
  mlir::Value inside;   ///< whether the indices along other dimensions are inside; may be null
  Values index, extent; ///< per dimension of the tile
  Values stride;        ///< in elements
  mlir::Value viewValue;
  /// An argument or capture of the kernel that determines the alignment of the view; or null.
  mlir::Value root;
  bool runsAlongLast = false;       ///< the last dimension of the tile is that of the view
  std::optional<size_t> dense;      ///< dimension of the tile along the last one of the view
  llvm::SmallVector<int64_t> shape; ///< shape of the tile
  /// Along this dimension, elements are at the index of each register. Rank 1 and 2 only.
  int gathered = -1;
  Values gatheredAt;
};
ViewRegion getRegion(KernelEmitter &e, mlir::Value view, mlir::OperandRange indices,
                     mlir::ArrayRef<int64_t> staticIndices,
                     std::optional<mlir::ArrayRef<int64_t>> dims,
                     mlir::ArrayRef<int64_t> tileShape);
/// The region of a tile, by the view, indices and dimensions that the operation names.
template <typename OpT> ViewRegion getRegion(KernelEmitter &e, OpT op, mlir::Value tile) {
  return getRegion(e, op.getView(), op.getIndices(), op.getStaticIndices(), op.getDims(),
                   mlir::cast<mlir::RankedTensorType>(tile.getType()).getShape());
}

/// Whether all of it is in bounds.
mlir::Value isWhole(ThreadBuilder &b, const ViewRegion &region);
/// Whether runs of `vector` elements along the last dimension are contiguous, aligned to their
/// size, and inside the view as a whole or not at all.
mlir::Value isVectorizable(KernelEmitter &e, const ViewRegion &region, int64_t vector);
/// Whether the code assumes arguments for which this holds.
bool isKnownAligned(KernelEmitter &e, mlir::Value viewValue, int64_t vector);

/// The longest run of registers that is consecutive along the last dimension, starts at a multiple
/// of its length in every thread, and is no wider than 16 bytes; elements have `bytes`.
int64_t getRunLength(const layout::RegisterLayout &layout, int64_t bytes);
/// Calls `access` for runs of up to `vector` registers with their address and the condition under
/// which they are inside (and `condition`); null: always. Neighbors along the tile's dimension
/// `unit` are known to lie side by side; where `isInside`, all of the tile to be inside.
void forEachRun(ThreadBuilder &b, const ViewRegion &region, const layout::RegisterLayout &layout,
                int64_t vector, mlir::Value condition,
                llvm::function_ref<void(int reg, mlir::Value address, mlir::Value inside)> access,
                std::optional<size_t> unit = std::nullopt, bool isInside = false);

/// `count` elements; `pad`, or zeros, if they are not `inside` (null: always).
Values loadGlobal(ThreadBuilder &b, mlir::Value address, mlir::Value inside, mlir::Type element,
                  int64_t count, mlir::Value pad = nullptr);
/// The elements of a thread: in vectors if the view allows them, else one by one, by a branch.
Values loadRegion(KernelEmitter &e, const ViewRegion &region, const layout::RegisterLayout &layout,
                  mlir::Value pad = nullptr);
void storeGlobal(ThreadBuilder &b, mlir::Value address, mlir::Value inside,
                 mlir::ArrayRef<mlir::Value> elements);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_GLOBALACCESS_H
