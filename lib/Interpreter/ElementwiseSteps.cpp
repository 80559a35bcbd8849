// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise steps over values of any form.

#include "lib/Interpreter/ElementwiseSteps.h"

#include "base/Numeric/Transfer.h"
#include <algorithm>
#include <cmath>

namespace tilewright::interpreter {

using numeric::Operand;
using numeric::OpError;

BufferRef ElementwiseStep::allocateResult(Frame &frame, Form form, size_t bytes) const {
  if (mayReuseOperands) {
    for (const ValueOperand &operand : operands) {
      Datum &value = frame.values[operand.slot];
      if (operand.dies && value.form == form && value.buffer.isUnique() &&
          storageBytes(operand.storage) == storageBytes(result.storage))
        return value.buffer;
    }
  }
  return BufferRef(frame.pool.allocate(bytes));
}

bool ElementwiseStep::run(Frame &frame) const {
  bool anyDense = false, allAlike = true;
  const Datum *repeated = nullptr;
  for (const ValueOperand &operand : operands) {
    const Datum &value = frame.values[operand.slot];
    if (value.form == Form::Dense)
      anyDense = true;
    else if (value.form == Form::Repeated) {
      if (repeated)
        allAlike &= value.repeat == repeated->repeat && value.inner == repeated->inner;
      else
        repeated = &value;
    }
  }
  if (repeated && (anyDense || !allAlike))
    return runInRows(frame);

  llvm::SmallVector<Operand, 4> in;
  for (const ValueOperand &operand : operands) {
    const Datum &value = frame.values[operand.slot];
    in.push_back(value.isSplat() ? Operand::splat(&value.scalar)
                                 : Operand::span(value.buffer.data()));
  }
  Datum &out = frame.values[result.slot];
  if (!anyDense && !repeated) {
    Scalar element;
    if (OpError error = apply(frame, in.data(), &element, 1); error != OpError::None)
      return check(frame, error);
    result.round(&element, 1);
    out.setSplat(element);
    return true;
  }

  // A dense tile, or the distinct elements of a repeated one.
  int64_t repeat = repeated ? repeated->repeat : 1;
  int64_t inner = repeated ? repeated->inner : 1;
  size_t n = result.count / repeat;
  Form form = repeated ? Form::Repeated : Form::Dense;
  BufferRef buffer = allocateResult(frame, form, n * storageBytes(result.storage));
  if (OpError error = apply(frame, in.data(), buffer.data(), n); error != OpError::None)
    return check(frame, error);
  result.round(buffer.data(), n);
  if (repeated)
    out.setRepeated(std::move(buffer), repeat, inner);
  else
    out.setDense(std::move(buffer));
  return true;
}

bool ElementwiseStep::runInRows(Frame &frame) const {
  // Within a row, every operand is contiguous or a single element. Lengths are products of trailing
  // dimensions, so the shortest divides the others.
  int64_t row = result.count;
  for (const ValueOperand &operand : operands) {
    const Datum &value = frame.values[operand.slot];
    if (value.form == Form::Repeated)
      row = std::min(row, value.inner == 1 ? value.repeat : value.inner);
  }
  BufferRef buffer = allocateResult(frame, Form::Dense, result.bytes());
  size_t outWidth = storageBytes(result.storage);
  llvm::SmallVector<Operand, 4> in(operands.size());
  for (int64_t start = 0; start < result.count; start += row) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const Datum &value = frame.values[operands[i].slot];
      size_t width = storageBytes(operands[i].storage);
      if (value.isSplat()) {
        in[i] = Operand::splat(&value.scalar);
        continue;
      }
      const char *data = static_cast<const char *>(value.buffer.data());
      if (value.form == Form::Dense) {
        in[i] = Operand::span(data + start * width);
        continue;
      }
      int64_t e = start / (value.repeat * value.inner) * value.inner + start % value.inner;
      in[i] = value.inner == 1 ? Operand::splat(data + e * width) : Operand::span(data + e * width);
    }
    char *out = static_cast<char *>(buffer.data()) + start * outWidth;
    if (OpError error = apply(frame, in.data(), out, row); error != OpError::None)
      return check(frame, error);
    result.round(out, row);
  }
  frame.values[result.slot].setDense(std::move(buffer));
  return true;
}

bool LogicStep::run(Frame &frame) const {
  for (unsigned i = 0; i < 2; ++i) {
    const Datum &value = frame.values[operands[i].slot];
    if (!value.isSplat())
      continue;
    bool decides = isAnd ? !value.scalar.i1 : value.scalar.i1;
    if (decides)
      frame.values[result.slot].setSplat(value.scalar);
    else
      frame.values[result.slot] = take(frame, operands[1 - i]);
    return true;
  }
  return ElementwiseStep::run(frame);
}

bool SelectStep::run(Frame &frame) const {
  const Datum &condition = frame.values[operands[0].slot];
  if (!condition.isSplat())
    return ElementwiseStep::run(frame);
  frame.values[result.slot] = take(frame, operands[condition.scalar.i1 ? 1 : 2]);
  return true;
}

bool CastStep::run(Frame &frame) const {
  if (!isCopy || result.rounds())
    return ElementwiseStep::run(frame);
  frame.values[result.slot] = take(frame, operands[0]);
  return true;
}

OpError CastStep::apply(Frame &, const Operand *in, void *out, size_t n) const {
  Storage from = operands[0].storage;
  bool roundsToInteger = largest && !isFloat(result.storage);
  numeric::CastOp toWide = roundsToInteger ? numeric::CastOp::FPToFP : kind;
  if (!throughDouble && !largest)
    return numeric::cast(kind, from, in[0], result.storage, out, n);
  // Rounding to f32 first would be double rounding.
  constexpr size_t chunk = 256;
  double wide[chunk];
  uint16_t narrow[chunk];
  for (size_t start = 0; start < n; start += chunk) {
    size_t count = std::min(chunk, n - start);
    const char *data = static_cast<const char *>(in[0].data) + start * storageBytes(from);
    Operand part = in[0].isSplat ? in[0] : Operand::span(data);
    if (OpError error = numeric::cast(toWide, from, part, Storage::F64, wide, count);
        error != OpError::None)
      return error;
    if (largest)
      for (double &value : llvm::MutableArrayRef(wide, count))
        if (!std::isnan(value))
          value = roundsToInteger ? std::clamp(std::nearbyint(value), -*largest - 1, *largest)
                                  : std::clamp(value, -*largest, *largest);
    if (!result.rounds()) {
      void *place = static_cast<char *>(out) + start * storageBytes(result.storage);
      if (OpError error =
              numeric::cast(kind, Storage::F64, Operand::span(wide), result.storage, place, count);
          error != OpError::None)
        return error;
      continue;
    }
    numeric::convertToMemory(Storage::F64, wide, result.roundTo, narrow, 1, count);
    numeric::convertFromMemory(result.roundTo, narrow, 1, Storage::F32,
                               static_cast<float *>(out) + start, count);
  }
  return OpError::None;
}

} // namespace tilewright::interpreter
