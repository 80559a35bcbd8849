// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transposition, repetition, reduction and index tiles.

#include "base/Numeric/TileOps.h"
#include "base/Numeric/Elementwise.h"
#include "base/Numeric/Fill.h"
#include "base/Numeric/KernelTable.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

/// A shape relative to one dimension: the extents outside it, itself, and inside it.
struct Split {
  size_t outer = 1, size = 1, inner = 1;

  Split(const int64_t *shape, unsigned rank, unsigned dim) {
    assert(dim < rank && "no such dimension");
    for (unsigned i = 0; i < dim; ++i)
      outer *= shape[i];
    size = shape[dim];
    for (unsigned i = dim + 1; i < rank; ++i)
      inner *= shape[i];
  }
};

/// Calls `action` with a zero of the unsigned type as wide as the storage.
template <typename Action> void withWord(Storage storage, Action action) {
  switch (storageBytes(storage)) {
  case 1:
    return action(uint8_t(0));
  case 4:
    return action(uint32_t(0));
  default:
    return action(uint64_t(0));
  }
}

//===--- Transposition -----------------------------------------------------===//

/// One dimension of the result: its size, and its distance in the operand and in the result.
struct CopyDim {
  int64_t size, in, out;
};

/// out[j * outStride + i] = in[i * inStride + j] in square blocks, which keeps both sides in the
/// cache.
template <typename Word>
void transposeMatrix(const Word *in, int64_t inStride, Word *out, int64_t outStride, int64_t rows,
                     int64_t columns) {
  constexpr int64_t block = 16;
  for (int64_t i0 = 0; i0 < rows; i0 += block)
    for (int64_t j0 = 0; j0 < columns; j0 += block) {
      int64_t i1 = std::min(i0 + block, rows), j1 = std::min(j0 + block, columns);
      for (int64_t j = j0; j < j1; ++j)
        for (int64_t i = i0; i < i1; ++i)
          out[j * outStride + i] = in[i * inStride + j];
    }
}

template <typename Word>
void copyDims(const Word *in, Word *out, const CopyDim *dims, unsigned count) {
  if (count == 0) {
    *out = *in;
  } else if (count == 1 && dims->in == 1 && dims->out == 1) {
    std::memcpy(out, in, dims->size * sizeof(Word));
  } else if (count == 2 && dims[0].in == 1 && dims[1].out == 1) {
    transposeMatrix(in, dims[1].in, out, dims[0].out, dims[1].size, dims[0].size);
  } else {
    for (int64_t i = 0; i < dims->size; ++i)
      copyDims(in + i * dims->in, out + i * dims->out, dims + 1, count - 1);
  }
}

/// Result dimensions from the outermost inwards, without those of size 1, and with dimensions that
/// stay neighbors as one.
std::vector<CopyDim> copyDimsOf(const int64_t *shape, const int64_t *permutation, unsigned rank) {
  std::vector<int64_t> inStrides(rank);
  int64_t stride = 1;
  for (unsigned i = rank; i-- > 0; stride *= shape[i])
    inStrides[i] = stride;
  std::vector<CopyDim> dims;
  stride = 1;
  for (unsigned i = rank; i-- > 0;) {
    CopyDim dim = {shape[permutation[i]], inStrides[permutation[i]], stride};
    stride *= dim.size;
    if (dim.size == 1)
      continue;
    if (!dims.empty() && dim.in == dims.back().in * dims.back().size)
      dims.back().size *= dim.size;
    else
      dims.push_back(dim);
  }
  std::reverse(dims.begin(), dims.end());
  // The dimension that is contiguous in the operand goes next to the innermost one, so that the two
  // make a matrix to transpose.
  if (dims.size() > 1 && dims.back().in != 1)
    for (size_t i = 0; i + 1 < dims.size(); ++i)
      if (dims[i].in == 1)
        std::rotate(dims.begin() + i, dims.begin() + i + 1, dims.end() - 1);
  return dims;
}

//===--- Reduction ---------------------------------------------------------===//

/// The elementwise operation that joins two partial results.
BinaryOp joinOf(ReduceOp op, Storage storage) {
  bool isF = isFloat(storage);
  switch (op) {
  case ReduceOp::Sum:
    return isF ? BinaryOp::AddF : BinaryOp::AddI;
  case ReduceOp::Product:
    return isF ? BinaryOp::MulF : BinaryOp::MulI;
  case ReduceOp::Max:
    return isF ? BinaryOp::MaximumF : BinaryOp::MaxSI;
  case ReduceOp::Min:
    return isF ? BinaryOp::MinimumF : BinaryOp::MinSI;
  case ReduceOp::MaxNum:
    return BinaryOp::MaxNumF;
  case ReduceOp::MinNum:
    return BinaryOp::MinNumF;
  case ReduceOp::And:
    return BinaryOp::AndI;
  case ReduceOp::Or:
    return BinaryOp::OrI;
  }
  return BinaryOp::AddF;
}

template <typename T>
void writeIota(size_t outer, size_t size, size_t inner, int64_t start, int64_t step, T *out) {
  auto value = [&](size_t j) { return T(int64_t(uint64_t(start) + j * uint64_t(step))); };
  if (outer == 0 || size == 0 || inner == 0)
    return;
  for (size_t j = 0; j < size; ++j)
    std::fill_n(out + j * inner, inner, value(j));
  for (size_t i = 1; i < outer; ++i)
    std::memcpy(out + i * size * inner, out, size * inner * sizeof(T));
}

} // namespace

void tilewright::numeric::transpose(Storage storage, const void *in, const int64_t *shape,
                                    const int64_t *permutation, unsigned rank, void *out) {
  if (std::find(shape, shape + rank, 0) != shape + rank)
    return;
  std::vector<CopyDim> dims = copyDimsOf(shape, permutation, rank);
  withWord(storage, [&](auto zero) {
    using Word = decltype(zero);
    copyDims(static_cast<const Word *>(in), static_cast<Word *>(out), dims.data(),
             unsigned(dims.size()));
  });
}

void tilewright::numeric::slice(Storage storage, const void *in, const int64_t *shape,
                                unsigned rank, unsigned dim, int64_t offset, int64_t size,
                                const void *fill, void *out) {
  Split split(shape, rank, dim);
  auto extent = static_cast<int64_t>(split.size);
  // Positions of the result from `begin` to `end` lie within the operand.
  int64_t begin = std::clamp<int64_t>(-offset, 0, size);
  int64_t end = std::clamp<int64_t>(extent - offset, begin, size);
  withWord(storage, [&](auto zero) {
    using Word = decltype(zero);
    Word outside;
    std::memcpy(&outside, fill, sizeof(Word));
    auto *from = static_cast<const Word *>(in);
    auto *to = static_cast<Word *>(out);
    for (size_t i = 0; i < split.outer; ++i, from += extent * split.inner) {
      to = std::fill_n(to, begin * split.inner, outside);
      if (begin < end)
        to = std::copy_n(from + (begin + offset) * split.inner, (end - begin) * split.inner, to);
      to = std::fill_n(to, (size - end) * split.inner, outside);
    }
  });
}

void tilewright::numeric::expand(Storage storage, const void *in, const int64_t *outShape,
                                 unsigned outRank, unsigned dim, void *out) {
  Split split(outShape, outRank, dim);
  if (split.outer * split.size * split.inner == 0)
    return;
  withWord(storage, [&](auto zero) {
    using Word = decltype(zero);
    auto *from = static_cast<const Word *>(in);
    auto *to = static_cast<Word *>(out);
    for (size_t i = 0; i < split.outer; ++i, from += split.inner) {
      if (split.inner == 1) {
        std::fill_n(to, split.size, *from);
        to += split.size;
        continue;
      }
      for (size_t j = 0; j < split.size; ++j, to += split.inner)
        std::memcpy(to, from, split.inner * sizeof(Word));
    }
  });
}

bool tilewright::numeric::isSupported(ReduceOp op, Storage storage) {
  return kernels().reduceRows[unsigned(op)][unsigned(storage)] != nullptr;
}

void tilewright::numeric::reduce(ReduceOp op, Storage storage, const void *in, const int64_t *shape,
                                 unsigned rank, unsigned dim, void *out) {
  assert(isSupported(op, storage) && "no such reduction");
  Split split(shape, rank, dim);
  auto *reduceRows = kernels().reduceRows[unsigned(op)][unsigned(storage)];
  if (split.inner == 1)
    return reduceRows(in, split.outer, split.size, out);
  size_t bytes = split.inner * storageBytes(storage);
  if (bytes == 0)
    return;
  if (split.size == 0) {
    uint64_t identity;
    reduceRows(in, 1, 0, &identity);
    return fill(storage, &identity, out, split.outer * split.inner);
  }
  auto *from = static_cast<const char *>(in);
  auto *to = static_cast<char *>(out);
  BinaryOp join = joinOf(op, storage);
  for (size_t i = 0; i < split.outer; ++i, to += bytes) {
    std::memcpy(to, from, bytes);
    from += bytes;
    for (size_t j = 1; j < split.size; ++j, from += bytes) {
      [[maybe_unused]] OpError error =
          binary(join, storage, Operand::span(to), Operand::span(from), to, split.inner);
      assert(error == OpError::None && "a reduction has an elementwise operation");
    }
  }
}

void tilewright::numeric::scan(ReduceOp op, Storage storage, const void *in, const int64_t *shape,
                               unsigned rank, unsigned dim, bool reverse, void *out) {
  assert(isSupported(op, storage) && "no such reduction");
  Split split(shape, rank, dim);
  size_t bytes = split.inner * storageBytes(storage), count = split.outer * split.size;
  if (out != in)
    std::memcpy(out, in, bytes * count);
  if (bytes == 0)
    return;
  BinaryOp join = joinOf(op, storage);
  for (size_t i = 0; i < split.outer; ++i)
    for (size_t j = 1; j < split.size; ++j) {
      size_t at = reverse ? split.size - 1 - j : j, before = reverse ? at + 1 : at - 1;
      char *line = static_cast<char *>(out) + i * split.size * bytes;
      [[maybe_unused]] OpError error =
          binary(join, storage, Operand::span(line + before * bytes),
                 Operand::span(line + at * bytes), line + at * bytes, split.inner);
      assert(error == OpError::None && "a reduction has an elementwise operation");
    }
}

void tilewright::numeric::iota(Storage storage, const int64_t *shape, unsigned rank, unsigned dim,
                               int64_t start, int64_t step, void *out) {
  Split split(shape, rank, dim);
  switch (storage) {
  case Storage::F64:
    return writeIota(split.outer, split.size, split.inner, start, step, static_cast<double *>(out));
  case Storage::F32:
    return writeIota(split.outer, split.size, split.inner, start, step, static_cast<float *>(out));
  case Storage::I64:
    return writeIota(split.outer, split.size, split.inner, start, step,
                     static_cast<int64_t *>(out));
  case Storage::I32:
    return writeIota(split.outer, split.size, split.inner, start, step,
                     static_cast<int32_t *>(out));
  case Storage::I1:
    assert(false && "no iota of i1");
  }
}
