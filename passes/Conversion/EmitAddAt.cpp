// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements added to global memory at indices of their own: as floats, or exactly, as integers.

#include "passes/Conversion/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

/// What several threads or registers hold counts once.
Value KernelEmitter::sumOverWarp(const RegisterLayout &layout, ArrayRef<Value> elements) {
  Value sum;
  for (auto [reg, element] : llvm::enumerate(elements))
    if (isCanonicalRegister(layout, static_cast<int>(reg)))
      sum = sum ? combine(tile::ReduceKind::Add, sum, element) : element;
  if (Value isCanonical = isCanonicalThread(layout))
    sum = arith::SelectOp::create(b, isCanonical, sum, zero(sum.getType()));
  for (int mask = layout::kLanes / 2; mask > 0; mask /= 2)
    sum = combine(tile::ReduceKind::Add, sum, shuffle("bfly", sum, i32(mask)));
  return sum;
}

/// The words of a sum in fixed point begin at `address`, `stride` bytes apart (lib/Numeric's
/// ExactSum says what they hold).
void KernelEmitter::addExactly(Value term, Value address, Value stride, Value condition) {
  auto is = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y).getResult();
  };
  if (term.getType().isF64()) {
    // Three leading floats.
    for (int part = 0; part < 3; ++part) {
      Value leading = arith::TruncFOp::create(b, b.getF32Type(), term);
      addExactly(leading, address, stride, condition);
      Value known = arith::ExtFOp::create(b, term.getType(), leading);
      term = arith::SubFOp::create(b, term, known);
      // What is left of an infinity is not a number, and has been counted.
      Value bits = arith::AndIOp::create(b, bitcast(leading, b.getI32Type()), i32(0x7f800000));
      Value isFinite = is(arith::CmpIPredicate::ne, bits, i32(0x7f800000));
      term = arith::SelectOp::create(b, isFinite, term, zero(term.getType()));
    }
    return;
  }
  constexpr int64_t digitBits = tile::AddAtOp::kDigitBits;
  Value bits = bitcast(term, b.getI32Type());
  Value exponent = arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, i32(23)), i32(0xff));
  Value fraction = arith::AndIOp::create(b, bits, i32(0x7fffff));
  Value normal = arith::OrIOp::create(b, fraction, i32(0x800000));
  fraction =
      arith::SelectOp::create(b, is(arith::CmpIPredicate::ne, exponent, i32(0)), normal, fraction);
  Value place = arith::SubIOp::create(b, arith::MaxUIOp::create(b, exponent, i32(1)), i32(1));
  Value digit = arith::DivUIOp::create(b, place, i32(digitBits));
  Value shift = arith::RemUIOp::create(b, place, i32(digitBits));
  Value distance = toI64(shift);
  Value wide =
      arith::ShLIOp::create(b, arith::ExtUIOp::create(b, b.getI64Type(), fraction), distance);
  Value low = arith::AndIOp::create(b, wide, i64((int64_t(1) << digitBits) - 1));
  Value high = arith::ShRUIOp::create(b, wide, i64(digitBits));
  Value isNegative = is(arith::CmpIPredicate::slt, bits, i32(0));
  Value isFinite = is(arith::CmpIPredicate::ne, exponent, i32(0xff));
  Value word = advance(address, mul(toI64(digit), stride));
  auto isNonzero = [&](Value part) { return is(arith::CmpIPredicate::ne, part, i64(0)); };
  for (Value part : {low, high}) {
    Value negated = arith::SubIOp::create(b, i64(0), part);
    Value addend = arith::SelectOp::create(b, isNegative, negated, part);
    inlineAsm("@$2 red.global.add.u64 [$0], $1;", "l,l,b,~{memory}", nullptr,
              {word, addend, conjunction(condition, conjunction(isFinite, isNonzero(part)))});
    word = advance(word, stride);
  }
  // 1 for a NaN, 2 and 4 for the infinities.
  Value isNaN = is(arith::CmpIPredicate::ne, arith::AndIOp::create(b, bits, i32(0x7fffff)), i32(0));
  Value infinity = arith::SelectOp::create(b, isNegative, i64(4), i64(2));
  Value flag = arith::SelectOp::create(b, isNaN, i64(1), infinity);
  Value flags = advance(address, mul(i64(tile::AddAtOp::kDigits), stride));
  Value isSpecial = is(arith::CmpIPredicate::eq, exponent, i32(0xff));
  inlineAsm("@$2 red.global.or.b64 [$0], $1;", "l,l,b,~{memory}", nullptr,
            {flags, flag, conjunction(condition, isSpecial)});
}

/// Whether every element that the warp holds goes to the place of lane 0's first, which is returned
/// as well. Tables of distances mostly ask for one place: that of all that is far.
std::pair<Value, Values> KernelEmitter::findCommonPlace(tile::AddAtOp op) {
  Values place;
  Value isCommon;
  for (Value operand : op.getIndices()) {
    Values list = getElements(operand);
    bool isTile = tile::isTile(operand.getType());
    place.push_back(isTile ? shuffle("idx", list.front(), i32(0)) : list.front());
    if (!isTile)
      continue;
    for (Value index : list)
      isCommon = conjunction(
          isCommon, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, index, place.back()));
  }
  Value all = intrinsic("llvm.nvvm.vote.all.sync", b.getI1Type(), {i32(-1), isCommon});
  return {all, place};
}

LogicalResult KernelEmitter::emitAddAt(tile::AddAtOp op) {
  const RegisterLayout &layout = *getLayout(op, op.getValue().getType());
  View view = getView(op.getView());
  Values elements = getElements(op.getValue());
  Type element = elements.front().getType();
  if (!element.isF32() && !element.isF64())
    return op.emitError() << "adds f32 or f64 on a GPU, but got " << element
                          << "; convert it with tile.cast";

  StringRef text =
      element.isF32() ? "@$2 red.global.add.f32 [$0], $1;" : "@$2 red.global.add.f64 [$0], $1;";
  StringRef constraints = element.isF32() ? "l,f,b,~{memory}" : "l,d,b,~{memory}";
  auto addOne = [&](Value term, ArrayRef<Value> place, Value condition) {
    // Masked pairs have no gradient; nothing needs to travel for them.
    Value inside = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, term, zero(element));
    inside = conjunction(condition, inside);
    Value offset = i64(0);
    for (auto [d, index] : llvm::enumerate(place)) {
      inside = conjunction(inside, less(index, view.extents[d]));
      offset = add(offset, mul(toI64(index), view.strides[d]));
    }
    Value address = advance(view.base, mul(offset, i64(view.bytes)));
    if (op.getExact())
      addExactly(term, address, mul(view.strides.back(), i64(view.bytes)), inside);
    else
      inlineAsm(text, constraints, nullptr, {address, term, inside});
  };
  auto addSum = [&](ArrayRef<Value> place) {
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, i32(0));
    addOne(sumOverWarp(layout, elements), place, isFirst);
  };
  SmallVector<Values> indices;
  bool isUniform = true;
  for (Value index : op.getIndices()) {
    indices.push_back(getElements(index));
    isUniform &= !tile::isTile(index.getType());
  }
  if (isUniform) {
    Values place;
    for (const Values &list : indices)
      place.push_back(list.front());
    addSum(place);
    return success();
  }

  auto [isCommon, place] = findCommonPlace(op);
  auto branch = scf::IfOp::create(b, TypeRange(), isCommon, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  addSum(place);
  scf::YieldOp::create(b);
  b.setInsertionPointToEnd(branch.elseBlock());
  Value isCanonical = isCanonicalThread(layout);
  for (auto [reg, term] : llvm::enumerate(elements)) {
    if (!isCanonicalRegister(layout, static_cast<int>(reg)))
      continue;
    Values own;
    for (const Values &list : indices)
      own.push_back(list[list.size() == 1 ? 0 : reg]);
    addOne(term, own, isCanonical);
  }
  scf::YieldOp::create(b);
  return success();
}
