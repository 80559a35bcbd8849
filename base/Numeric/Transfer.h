// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transfers between strided memory and dense tiles, with the bounds of the view applied to every
// element.
//
// A tile of rank r is described by r TileAxis, one per tile dimension. Element (i0, ..) of the tile
// is at memory index x_d = start_d + i_d of each axis, at byte address base + byteWidth(type) *
// sum_d x_d * stride_d. An axis with `indices` takes x_d = start_d + indices[i_d] instead (gather,
// scatter). An element is inside if 0 <= x_d < extent_d for all d. Dimensions of the view that the
// tile does not have are folded into `base` by the caller; if their index is outside, the caller
// passes an extent of 0. All offsets are 64-bit. Memory needs no alignment, except for the atomic
// additions, which assume the natural one.

#ifndef TILEWRIGHT_BASE_NUMERIC_TRANSFER_H
#define TILEWRIGHT_BASE_NUMERIC_TRANSFER_H

#include "base/Numeric/Elementwise.h"

#include <functional>

namespace tilewright::numeric {

struct TileAxis {
  int64_t size = 0;                    ///< extent of the tile
  int64_t start = 0;                   ///< memory index of element 0 of the tile; may be negative
  int64_t extent = 0;                  ///< extent of the view
  int64_t stride = 0;                  ///< stride of the view, in elements; may be negative
  const void *indices = nullptr;       ///< `size` integers of storage `indexStorage`, or null
  Storage indexStorage = Storage::I32; ///< I32 (signed) or I64
};

/// out = memory, or *pad (one element of `storage`; null: zero) outside. Requires
/// isConvertible(type, storage) here and below.
void loadTile(ElementType type, const void *base, const TileAxis *axes, unsigned rank,
              Storage storage, const void *pad, void *out);

/// memory = in; elements outside are dropped. If several elements share an address, the last one in
/// row-major order remains.
void storeTile(Storage storage, const void *in, ElementType type, void *base, const TileAxis *axes,
               unsigned rank);

/// memory += in, in row-major order, each addition rounded to the memory's type, atomic against
/// other calls of addTile and addPoints. Any float type, I32 and I64 (wrapping); i1 is rejected by
/// isAddable. Zeroes are added too. The order between threads is not defined.
void addTile(Storage storage, const void *in, ElementType type, void *base, const TileAxis *axes,
             unsigned rank);
constexpr bool isAddable(ElementType type) { return type != ElementType::I1; }

/// One coordinate of a list of n points: I32 or I64 indices, a run or a splat.
struct PointIndex {
  Operand index;
  Storage indexStorage = Storage::I32;
  int64_t extent = 0;
  int64_t stride = 0; ///< in elements
};

/// out[e] = memory at the point (index_0[e], index_1[e], ...), or *pad outside (null: zero).
void loadPoints(ElementType type, const void *base, const PointIndex *indices, unsigned count,
                Storage storage, const void *pad, void *out, size_t n);

/// memory at point e += in[e], as addTile.
void addPoints(Storage storage, const void *in, ElementType type, void *base,
               const PointIndex *indices, unsigned count, size_t n);

/// Calls visit(offset, stride, count), in elements from the base, for runs of elements of a tile
/// that are inside, in row-major order.
void forEachRun(const TileAxis *axes, unsigned rank,
                const std::function<void(int64_t, int64_t, int64_t)> &visit);
/// Calls visit(offset), in elements from the base, for the points that are inside, in their order.
void forEachPoint(const PointIndex *indices, unsigned count, size_t n,
                  const std::function<void(int64_t)> &visit);

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_TRANSFER_H
