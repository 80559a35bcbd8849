// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that know the shape of a tile. Tiles are dense and row-major; a shape is `rank` sizes,
// the last one contiguous. Sizes may be zero. The result must not overlap the operand.

#ifndef TILEWRIGHT_BASE_NUMERIC_TILEOPS_H
#define TILEWRIGHT_BASE_NUMERIC_TILEOPS_H

#include "base/Numeric/ElementType.h"
#include "base/Numeric/Operators.h"

namespace tilewright::numeric {

/// out[i0, i1, ...] = in[...], where dimension d of the result is dimension permutation[d] of the
/// operand (as in numpy.transpose). `shape` is the operand's.
void transpose(Storage storage, const void *in, const int64_t *shape, const int64_t *permutation,
               unsigned rank, void *out);

/// Inserts dimension `dim` of size outShape[dim] by repetition: out[.., j, ..] = in[.., ..] for
/// every j. `outShape` has `outRank` sizes; the operand has the same without `dim`.
void expand(Storage storage, const void *in, const int64_t *outShape, unsigned outRank,
            unsigned dim, void *out);

/// out[.., i, ..] = in[.., offset + i, ..] for the `size` positions i along dimension `dim`, or the
/// element at `fill` where the operand has none. `shape` is the operand's.
void slice(Storage storage, const void *in, const int64_t *shape, unsigned rank, unsigned dim,
           int64_t offset, int64_t size, const void *fill, void *out);

/// Whether the operation exists on the storage.
bool isSupported(ReduceOp op, Storage storage);

/// Reduces dimension `dim` of `in` away. Over no elements: 0, 1, -inf (the smallest integer), +inf
/// (the largest), -1 (And; 1 for i1), 0 (Or). The order of a float sum depends on the shape and
/// `dim` alone. Requires isSupported(op, storage).
void reduce(ReduceOp op, Storage storage, const void *in, const int64_t *shape, unsigned rank,
            unsigned dim, void *out);

/// out[.., j, ..] = the reduction of in[.., 0 to j, ..] along dimension `dim`, or with `reverse` of
/// in[.., j to the last, ..]; from the first element of the reduction to the last. Requires
/// isSupported(op, storage). `out` may be `in`.
void scan(ReduceOp op, Storage storage, const void *in, const int64_t *shape, unsigned rank,
          unsigned dim, bool reverse, void *out);

/// out[.., j, ..] = start + j * step along `dim`. Storages I32, I64 (wrapping), F32, F64.
void iota(Storage storage, const int64_t *shape, unsigned rank, unsigned dim, int64_t start,
          int64_t step, void *out);

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_TILEOPS_H
