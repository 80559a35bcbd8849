// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements added to global memory at indices of their own: as floats, or exactly, as integers.

#include "passes/Conversion/KernelEmitter.h"

#include "passes/Conversion/LoweringTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;
using View = KernelEmitter::View;

/// Counts an element once if several threads or registers hold it.
static Value sumOverWarp(KernelEmitter &e, const RegisterLayout &layout, ArrayRef<Value> elements) {
  Value sum;
  for (auto [reg, element] : llvm::enumerate(elements))
    if (KernelEmitter::isCanonicalRegister(layout, static_cast<int>(reg)))
      sum = sum ? e.combine(tile::ReduceKind::Add, sum, element) : element;
  if (Value isCanonical = e.isCanonicalThread(layout))
    sum = arith::SelectOp::create(e.b, isCanonical, sum, e.zero(sum.getType()));
  for (int mask = layout::kLanes / 2; mask > 0; mask /= 2)
    sum = e.combine(tile::ReduceKind::Add, sum, e.shuffle("bfly", sum, e.i32(mask)));
  return sum;
}

/// The words of a sum in fixed point begin at `address`, `stride` bytes apart (base/Numeric's
/// ExactSum says what they hold).
static void addExactly(KernelEmitter &e, Value term, Value address, Value stride, Value condition) {
  auto is = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(e.b, predicate, x, y).getResult();
  };
  if (term.getType().isF64()) {
    // Three leading floats.
    for (int part = 0; part < 3; ++part) {
      Value leading = arith::TruncFOp::create(e.b, e.b.getF32Type(), term);
      addExactly(e, leading, address, stride, condition);
      Value known = arith::ExtFOp::create(e.b, term.getType(), leading);
      term = arith::SubFOp::create(e.b, term, known);
      // The remainder of an infinity is a NaN; the infinity has been counted.
      Value bits =
          arith::AndIOp::create(e.b, e.bitcast(leading, e.b.getI32Type()), e.i32(0x7f800000));
      Value isFinite = is(arith::CmpIPredicate::ne, bits, e.i32(0x7f800000));
      term = arith::SelectOp::create(e.b, isFinite, term, e.zero(term.getType()));
    }
    return;
  }
  constexpr int64_t digitBits = tile::AddAtOp::kDigitBits;
  Value bits = e.bitcast(term, e.b.getI32Type());
  Value exponent =
      arith::AndIOp::create(e.b, arith::ShRUIOp::create(e.b, bits, e.i32(23)), e.i32(0xff));
  Value fraction = arith::AndIOp::create(e.b, bits, e.i32(0x7fffff));
  Value normal = arith::OrIOp::create(e.b, fraction, e.i32(0x800000));
  fraction = arith::SelectOp::create(e.b, is(arith::CmpIPredicate::ne, exponent, e.i32(0)), normal,
                                     fraction);
  Value place =
      arith::SubIOp::create(e.b, arith::MaxUIOp::create(e.b, exponent, e.i32(1)), e.i32(1));
  Value digit = arith::DivUIOp::create(e.b, place, e.i32(digitBits));
  Value shift = arith::RemUIOp::create(e.b, place, e.i32(digitBits));
  Value distance = e.toI64(shift);
  Value wide =
      arith::ShLIOp::create(e.b, arith::ExtUIOp::create(e.b, e.b.getI64Type(), fraction), distance);
  Value low = arith::AndIOp::create(e.b, wide, e.i64((int64_t(1) << digitBits) - 1));
  Value high = arith::ShRUIOp::create(e.b, wide, e.i64(digitBits));
  Value isNegative = is(arith::CmpIPredicate::slt, bits, e.i32(0));
  Value isFinite = is(arith::CmpIPredicate::ne, exponent, e.i32(0xff));
  Value word = e.advance(address, e.mul(e.toI64(digit), stride));
  auto isNonzero = [&](Value part) { return is(arith::CmpIPredicate::ne, part, e.i64(0)); };
  for (Value part : {low, high}) {
    Value negated = arith::SubIOp::create(e.b, e.i64(0), part);
    Value addend = arith::SelectOp::create(e.b, isNegative, negated, part);
    e.inlineAsm("@$2 red.global.add.u64 [$0], $1;", "l,l,b,~{memory}", nullptr,
                {word, addend, e.conjunction(condition, e.conjunction(isFinite, isNonzero(part)))});
    word = e.advance(word, stride);
  }
  // 1 for a NaN, 2 and 4 for the infinities.
  Value isNaN =
      is(arith::CmpIPredicate::ne, arith::AndIOp::create(e.b, bits, e.i32(0x7fffff)), e.i32(0));
  Value infinity = arith::SelectOp::create(e.b, isNegative, e.i64(4), e.i64(2));
  Value flag = arith::SelectOp::create(e.b, isNaN, e.i64(1), infinity);
  Value flags = e.advance(address, e.mul(e.i64(tile::AddAtOp::kDigits), stride));
  Value isSpecial = is(arith::CmpIPredicate::eq, exponent, e.i32(0xff));
  e.inlineAsm("@$2 red.global.or.b64 [$0], $1;", "l,l,b,~{memory}", nullptr,
              {flags, flag, e.conjunction(condition, isSpecial)});
}

/// Whether every element that the warp holds goes to the place of lane 0's first, which is returned
/// as well. Tables of relative positions mostly use one place, that of all distant pairs.
static std::pair<Value, Values> findCommonPlace(KernelEmitter &e, tile::AddAtOp op) {
  Values place;
  Value isCommon;
  for (Value operand : op.getIndices()) {
    Values list = e.getElements(operand);
    bool isTile = tile::isTile(operand.getType());
    place.push_back(isTile ? e.shuffle("idx", list.front(), e.i32(0)) : list.front());
    if (!isTile)
      continue;
    for (Value index : list)
      isCommon = e.conjunction(
          isCommon, arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, index, place.back()));
  }
  Value all = e.intrinsic("llvm.nvvm.vote.all.sync", e.b.getI1Type(), {e.i32(-1), isCommon});
  return {all, place};
}

static LogicalResult emitAddAt(KernelEmitter &e, tile::AddAtOp op) {
  const RegisterLayout &layout = *e.getLayout(op, op.getValue().getType());
  View view = e.getView(op.getView());
  Values elements = e.getElements(op.getValue());
  Type element = elements.front().getType();
  if (!element.isF32() && !element.isF64())
    return op.emitError() << "adds f32 or f64 on a GPU, but got " << element
                          << "; convert it with tile.cast";

  StringRef text =
      element.isF32() ? "@$2 red.global.add.f32 [$0], $1;" : "@$2 red.global.add.f64 [$0], $1;";
  StringRef constraints = element.isF32() ? "l,f,b,~{memory}" : "l,d,b,~{memory}";
  auto addOne = [&](Value term, ArrayRef<Value> place, Value condition) {
    // Masked pairs have no gradient and need no addition.
    Value inside = arith::CmpFOp::create(e.b, arith::CmpFPredicate::UNE, term, e.zero(element));
    inside = e.conjunction(condition, inside);
    Value offset = e.i64(0);
    for (auto [d, index] : llvm::enumerate(place)) {
      inside = e.conjunction(inside, e.less(index, view.extents[d]));
      offset = e.add(offset, e.mul(e.toI64(index), view.strides[d]));
    }
    Value address = e.advance(view.base, e.mul(offset, e.i64(view.bytes)));
    if (op.getExact())
      addExactly(e, term, address, e.mul(view.strides.back(), e.i64(view.bytes)), inside);
    else
      e.inlineAsm(text, constraints, nullptr, {address, term, inside});
  };
  auto addSum = [&](ArrayRef<Value> place) {
    Value isFirst = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, e.lane, e.i32(0));
    addOne(sumOverWarp(e, layout, elements), place, isFirst);
  };
  SmallVector<Values> indices;
  bool isUniform = true;
  for (Value index : op.getIndices()) {
    indices.push_back(e.getElements(index));
    isUniform &= !tile::isTile(index.getType());
  }
  if (isUniform) {
    Values place;
    for (const Values &list : indices)
      place.push_back(list.front());
    addSum(place);
    return success();
  }

  auto [isCommon, place] = findCommonPlace(e, op);
  auto branch = scf::IfOp::create(e.b, TypeRange(), isCommon, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToEnd(branch.thenBlock());
  addSum(place);
  scf::YieldOp::create(e.b);
  e.b.setInsertionPointToEnd(branch.elseBlock());
  Value isCanonical = e.isCanonicalThread(layout);
  for (auto [reg, term] : llvm::enumerate(elements)) {
    if (!KernelEmitter::isCanonicalRegister(layout, static_cast<int>(reg)))
      continue;
    Values own;
    for (const Values &list : indices)
      own.push_back(list[list.size() == 1 ? 0 : reg]);
    addOne(term, own, isCanonical);
  }
  scf::YieldOp::create(e.b);
  return success();
}

void tgpu::registerAddAtLowerings(LoweringTable &table) { table.add<tile::AddAtOp>(emitAddAt); }
