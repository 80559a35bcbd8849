// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Looks up the loop and calls it.

#include "base/Numeric/Elementwise.h"
#include "base/Numeric/Fill.h"
#include "base/Numeric/KernelTable.h"

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

OpError runBinary(const KernelTable::Binary (&entry)[numSplatSides], Operand a, Operand b,
                  Storage result, void *out, size_t n) {
  if (!entry[0])
    return OpError::Unsupported;
  if (n == 0)
    return OpError::None;
  if (a.isSplat && b.isSplat) {
    uint64_t element; // any storage
    OpError error = entry[unsigned(SplatSide::None)](a.data, b.data, &element, 1);
    if (error == OpError::None)
      fill(result, &element, out, n);
    return error;
  }
  SplatSide side = a.isSplat ? SplatSide::Left : b.isSplat ? SplatSide::Right : SplatSide::None;
  return entry[unsigned(side)](a.data, b.data, out, n);
}

OpError runUnary(KernelTable::Unary entry, Operand a, Storage result, void *out, size_t n) {
  if (!entry)
    return OpError::Unsupported;
  if (a.isSplat && n != 0) {
    uint64_t element;
    entry(a.data, &element, 1);
    fill(result, &element, out, n);
  } else {
    entry(a.data, out, n);
  }
  return OpError::None;
}

} // namespace

const char *tilewright::numeric::opErrorMessage(OpError error) {
  switch (error) {
  case OpError::None:
    return "";
  case OpError::DivisionByZero:
    return "integer division by zero; divide by a select that replaces zeros";
  case OpError::DivisionOverflow:
    return "integer division overflows: the smallest integer divided by -1; divide in a wider type";
  case OpError::Unsupported:
    return "operation is not supported on this element type";
  }
  return "";
}

OpError tilewright::numeric::unary(UnaryOp op, Storage storage, Operand a, void *out, size_t n) {
  return runUnary(kernels().unary[unsigned(op)][unsigned(storage)], a, storage, out, n);
}

OpError tilewright::numeric::binary(BinaryOp op, Storage storage, Operand a, Operand b, void *out,
                                    size_t n) {
  return runBinary(kernels().binary[unsigned(op)][unsigned(storage)], a, b, storage, out, n);
}

OpError tilewright::numeric::fma(Storage storage, Operand a, Operand b, Operand c, void *out,
                                 size_t n) {
  if (!isFloat(storage))
    return OpError::Unsupported;
  kernels().fma[unsigned(storage)](a.data, a.isSplat, b.data, b.isSplat, c.data, c.isSplat, out, n);
  return OpError::None;
}

OpError tilewright::numeric::compareFloat(CmpF predicate, Storage storage, Operand a, Operand b,
                                          uint8_t *out, size_t n) {
  if (!isFloat(storage))
    return OpError::Unsupported;
  return runBinary(kernels().compareFloat[unsigned(predicate)][unsigned(storage)], a, b,
                   Storage::I1, out, n);
}

OpError tilewright::numeric::compareInt(CmpI predicate, Storage storage, Operand a, Operand b,
                                        uint8_t *out, size_t n) {
  return runBinary(kernels().compareInt[unsigned(predicate)][unsigned(storage)], a, b, Storage::I1,
                   out, n);
}

void tilewright::numeric::select(Storage storage, Operand condition, Operand a, Operand b,
                                 void *out, size_t n) {
  if (n != 0)
    kernels().select[unsigned(storage)](condition.data, condition.isSplat, a.data, a.isSplat,
                                        b.data, b.isSplat, out, n);
}

OpError tilewright::numeric::cast(CastOp op, Storage from, Operand a, Storage to, void *out,
                                  size_t n) {
  return runUnary(kernels().cast[unsigned(op)][unsigned(from)][unsigned(to)], a, to, out, n);
}
