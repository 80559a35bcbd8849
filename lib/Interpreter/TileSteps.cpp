// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transposes and products of tiles.

#include "lib/Interpreter/TileSteps.h"

#include <algorithm>
#include <cstring>

namespace tilewright::interpreter {

bool TransposeStep::run(Frame &frame) const {
  Datum &value = frame.values[source.slot];
  Datum &out = frame.values[result.slot];
  if (value.isSplat()) {
    out = value;
    return true;
  }
  // Transposing a vector that is repeated along the rows or the columns changes only the
  // description.
  if (value.form == Form::Repeated && shape.size() == 2 && permutation[0] == 1) {
    bool alongRows = value.inner == 1 && value.repeat == shape[1];
    bool alongColumns = value.inner == shape[1] && value.repeat == shape[0];
    if (alongRows || alongColumns) {
      int64_t repeat = value.repeat, inner = alongRows ? shape[0] : 1;
      out.setRepeated(take(frame, source).buffer, repeat, inner);
      return true;
    }
  }
  DenseElements in(frame.pool, value, result.count, source.storage);
  BufferRef buffer(frame.pool.allocate(result.bytes()));
  numeric::transpose(result.storage, in.data(), shape.data(), permutation.data(), shape.size(),
                     buffer.data());
  out.setDense(std::move(buffer));
  return true;
}

float roundToTF32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7f800000u) == 0x7f800000u)
    return value;
  bits += 0xfffu + ((bits >> 13) & 1);
  bits &= ~0x1fffu;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

namespace {

/// An operand of a product, rounded to tf32 if requested.
class DotOperand {
public:
  DotOperand(Frame &frame, const ValueOperand &operand, int64_t n, bool tf32)
      : elements(frame.pool, frame.values[operand.slot], n, operand.storage) {
    if (!tf32)
      return;
    rounded = BufferRef(frame.pool.allocate(n * sizeof(float)));
    const float *in = static_cast<const float *>(elements.data());
    std::transform(in, in + n, static_cast<float *>(rounded.data()), roundToTF32);
  }
  const void *data() const { return rounded ? rounded.data() : elements.data(); }

  /// Brings rows of k elements, or columns if transposed, into the order of 'interleaved'.
  void interleave(Frame &frame, Storage storage, int64_t rows, int64_t k, bool isTransposed) {
    BufferRef buffer(frame.pool.allocate(rows * k * storageBytes(storage)));
    Interleaving order(isTransposed ? 1 : rows, k, /*inner=*/isTransposed ? rows : 1);
    numeric::transpose(storage, data(), order.shape.data(), order.permutation.data(),
                       order.shape.size(), buffer.data());
    rounded = std::move(buffer);
  }

private:
  DenseElements elements;
  BufferRef rounded;
};

} // namespace

bool DotStep::run(Frame &frame) const {
  DotOperand a(frame, lhs, shape.m * shape.k, tf32);
  DotOperand b(frame, rhs, shape.k * (firstColumn + shape.n), tf32);
  if (isInterleaved)
    a.interleave(frame, lhs.storage, shape.m, shape.k, shape.transposeA);

  // Accumulate in place if this is the accumulator's last use; skip the addition if it is zero.
  BufferRef buffer;
  const void *addend = nullptr;
  if (acc) {
    Datum &value = frame.values[acc->slot];
    Scalar zero = Scalar::fromFloat(0.0, acc->storage);
    bool isZero = value.isSplat() && value.scalar.i64 == zero.i64;
    if (value.form == Form::Dense) {
      addend = value.buffer.data();
      if (acc->dies && value.buffer.isUnique())
        buffer = value.buffer;
    } else if (!isZero) {
      buffer = BufferRef(frame.pool.allocate(result.bytes()));
      value.copyTo(buffer.data(), result.count, acc->storage);
      addend = buffer.data();
    }
  }
  if (!buffer)
    buffer = BufferRef(frame.pool.allocate(result.bytes()));
  if (addend == a.data() || addend == b.data()) // a product must not alias its operands
    buffer = BufferRef(frame.pool.allocate(result.bytes()));

  if (result.storage == Storage::F64)
    numeric::matmul(shape, static_cast<const double *>(a.data()),
                    static_cast<const double *>(b.data()) + firstColumn * shape.k,
                    static_cast<const double *>(addend), static_cast<double *>(buffer.data()));
  else
    numeric::matmul(shape, static_cast<const float *>(a.data()),
                    static_cast<const float *>(b.data()) + firstColumn * shape.k,
                    static_cast<const float *>(addend), static_cast<float *>(buffer.data()));
  frame.values[result.slot].setDense(std::move(buffer));
  return true;
}

} // namespace tilewright::interpreter
