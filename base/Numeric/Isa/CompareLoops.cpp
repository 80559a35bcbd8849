// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comparisons: i1 results of float and integer operands.

#include "base/Numeric/Isa/Loops.h"

namespace tilewright::numeric::TILEWRIGHT_ISA {
namespace {

#define TILEWRIGHT_COMPARISON(Name, expression)                                                    \
  struct Name {                                                                                    \
    template <typename T> static TILEWRIGHT_INLINE uint8_t apply(T a, T b) {                       \
      return (expression);                                                                         \
    }                                                                                              \
  };
TILEWRIGHT_COMPARISON(Equal, a == b)
TILEWRIGHT_COMPARISON(NotEqual, a != b)
TILEWRIGHT_COMPARISON(Less, a < b)
TILEWRIGHT_COMPARISON(LessEqual, a <= b)
TILEWRIGHT_COMPARISON(Greater, a > b)
TILEWRIGHT_COMPARISON(GreaterEqual, a >= b)

// For floats the comparisons above are the ordered ones (and une); these complete them.
TILEWRIGHT_COMPARISON(False, (void(a), void(b), 0))
TILEWRIGHT_COMPARISON(True, (void(a), void(b), 1))
TILEWRIGHT_COMPARISON(OrderedNotEqual, (a < b) | (a > b))
TILEWRIGHT_COMPARISON(Ordered, (a == a) & (b == b))
TILEWRIGHT_COMPARISON(Unordered, (a != a) | (b != b))
TILEWRIGHT_COMPARISON(UnorderedEqual, !(a < b) & !(a > b))
TILEWRIGHT_COMPARISON(NotLess, !(a < b))
TILEWRIGHT_COMPARISON(NotLessEqual, !(a <= b))
TILEWRIGHT_COMPARISON(NotGreater, !(a > b))
TILEWRIGHT_COMPARISON(NotGreaterEqual, !(a >= b))

template <typename T> void addFloat(KernelTable &table, Storage storage) {
  auto entry = [&](CmpF predicate) -> auto & {
    return table.compareFloat[unsigned(predicate)][unsigned(storage)];
  };
  addBinary<T, uint8_t, False>(entry(CmpF::False));
  addBinary<T, uint8_t, Equal>(entry(CmpF::OEQ));
  addBinary<T, uint8_t, Greater>(entry(CmpF::OGT));
  addBinary<T, uint8_t, GreaterEqual>(entry(CmpF::OGE));
  addBinary<T, uint8_t, Less>(entry(CmpF::OLT));
  addBinary<T, uint8_t, LessEqual>(entry(CmpF::OLE));
  addBinary<T, uint8_t, OrderedNotEqual>(entry(CmpF::ONE));
  addBinary<T, uint8_t, Ordered>(entry(CmpF::ORD));
  addBinary<T, uint8_t, UnorderedEqual>(entry(CmpF::UEQ));
  addBinary<T, uint8_t, NotLessEqual>(entry(CmpF::UGT));
  addBinary<T, uint8_t, NotLess>(entry(CmpF::UGE));
  addBinary<T, uint8_t, NotGreaterEqual>(entry(CmpF::ULT));
  addBinary<T, uint8_t, NotGreater>(entry(CmpF::ULE));
  addBinary<T, uint8_t, NotEqual>(entry(CmpF::UNE));
  addBinary<T, uint8_t, Unordered>(entry(CmpF::UNO));
  addBinary<T, uint8_t, True>(entry(CmpF::True));
}

template <typename Signed, typename Unsigned> void addInteger(KernelTable &table, Storage storage) {
  auto entry = [&](CmpI predicate) -> auto & {
    return table.compareInt[unsigned(predicate)][unsigned(storage)];
  };
  addBinary<Signed, uint8_t, Equal>(entry(CmpI::EQ));
  addBinary<Signed, uint8_t, NotEqual>(entry(CmpI::NE));
  addBinary<Signed, uint8_t, Less>(entry(CmpI::SLT));
  addBinary<Signed, uint8_t, LessEqual>(entry(CmpI::SLE));
  addBinary<Signed, uint8_t, Greater>(entry(CmpI::SGT));
  addBinary<Signed, uint8_t, GreaterEqual>(entry(CmpI::SGE));
  addBinary<Unsigned, uint8_t, Less>(entry(CmpI::ULT));
  addBinary<Unsigned, uint8_t, LessEqual>(entry(CmpI::ULE));
  addBinary<Unsigned, uint8_t, Greater>(entry(CmpI::UGT));
  addBinary<Unsigned, uint8_t, GreaterEqual>(entry(CmpI::UGE));
}

} // namespace

void addCompareLoops(KernelTable &table) {
  addFloat<float>(table, Storage::F32);
  addFloat<double>(table, Storage::F64);
  addInteger<int32_t, uint32_t>(table, Storage::I32);
  addInteger<int64_t, uint64_t>(table, Storage::I64);

  // One bit, where true is -1 to a signed comparison.
  addInteger<uint8_t, uint8_t>(table, Storage::I1);
  auto bit = [&](CmpI predicate) -> auto & {
    return table.compareInt[unsigned(predicate)][unsigned(Storage::I1)];
  };
  addBinary<uint8_t, uint8_t, Greater>(bit(CmpI::SLT));
  addBinary<uint8_t, uint8_t, GreaterEqual>(bit(CmpI::SLE));
  addBinary<uint8_t, uint8_t, Less>(bit(CmpI::SGT));
  addBinary<uint8_t, uint8_t, LessEqual>(bit(CmpI::SGE));
}

} // namespace tilewright::numeric::TILEWRIGHT_ISA
