// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Additions to global memory at one index per element: as floats, or exactly, as integers.

#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/GlobalAccess.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/ThreadCoords.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

/// Counts an element once if several threads or registers hold it.
static Value sumOverWarp(ThreadBuilder &b, const RegisterLayout &layout, ArrayRef<Value> elements) {
  Value sum;
  for (auto [reg, element] : llvm::enumerate(elements))
    if (isCanonicalRegister(layout, static_cast<int>(reg)))
      sum = sum ? combine(b, tile::ReduceKind::Add, sum, element) : element;
  if (Value isCanonical = isCanonicalThread(b, layout))
    sum = arith::SelectOp::create(b, isCanonical, sum, b.zero(sum.getType()));
  for (int mask = layout::kLanes / 2; mask > 0; mask /= 2)
    sum = combine(b, tile::ReduceKind::Add, sum, shuffle(b, "bfly", sum, b.i32(mask)));
  return sum;
}

/// The words of a fixed-point sum begin at `address`, `stride` bytes apart (ExactSum in
/// base/Numeric defines their meaning).
static void addExactly(ThreadBuilder &b, Value term, Value address, Value stride, Value condition) {
  auto is = [&](arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y).getResult();
  };
  if (term.getType().isF64()) {
    // Three leading floats.
    for (int part = 0; part < 3; ++part) {
      Value leading = arith::TruncFOp::create(b, b.getF32Type(), term);
      addExactly(b, leading, address, stride, condition);
      Value known = arith::ExtFOp::create(b, term.getType(), leading);
      term = arith::SubFOp::create(b, term, known);
      // The remainder of an infinity is a NaN; the infinity has been counted.
      Value bits = arith::AndIOp::create(b, b.bitcast(leading, b.getI32Type()), b.i32(0x7f800000));
      Value isFinite = is(arith::CmpIPredicate::ne, bits, b.i32(0x7f800000));
      term = arith::SelectOp::create(b, isFinite, term, b.zero(term.getType()));
    }
    return;
  }
  constexpr int64_t digitBits = tile::AddAtOp::kDigitBits;
  Value bits = b.bitcast(term, b.getI32Type());
  Value exponent =
      arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, b.i32(23)), b.i32(0xff));
  Value fraction = arith::AndIOp::create(b, bits, b.i32(0x7fffff));
  Value normal = arith::OrIOp::create(b, fraction, b.i32(0x800000));
  fraction = arith::SelectOp::create(b, is(arith::CmpIPredicate::ne, exponent, b.i32(0)), normal,
                                     fraction);
  Value place = arith::SubIOp::create(b, arith::MaxUIOp::create(b, exponent, b.i32(1)), b.i32(1));
  Value digit = arith::DivUIOp::create(b, place, b.i32(digitBits));
  Value shift = arith::RemUIOp::create(b, place, b.i32(digitBits));
  Value distance = b.toI64(shift);
  Value wide =
      arith::ShLIOp::create(b, arith::ExtUIOp::create(b, b.getI64Type(), fraction), distance);
  Value low = arith::AndIOp::create(b, wide, b.i64((int64_t(1) << digitBits) - 1));
  Value high = arith::ShRUIOp::create(b, wide, b.i64(digitBits));
  Value isNegative = is(arith::CmpIPredicate::slt, bits, b.i32(0));
  Value isFinite = is(arith::CmpIPredicate::ne, exponent, b.i32(0xff));
  Value word = b.advance(address, b.mul(b.toI64(digit), stride));
  auto isNonzero = [&](Value part) { return is(arith::CmpIPredicate::ne, part, b.i64(0)); };
  for (Value part : {low, high}) {
    Value negated = arith::SubIOp::create(b, b.i64(0), part);
    Value addend = arith::SelectOp::create(b, isNegative, negated, part);
    b.inlineAsm("@$2 red.global.add.u64 [$0], $1;", "l,l,b,~{memory}", nullptr,
                {word, addend, b.conjunction(condition, b.conjunction(isFinite, isNonzero(part)))});
    word = b.advance(word, stride);
  }
  // 1 for a NaN, 2 and 4 for the infinities.
  Value isNaN =
      is(arith::CmpIPredicate::ne, arith::AndIOp::create(b, bits, b.i32(0x7fffff)), b.i32(0));
  Value infinity = arith::SelectOp::create(b, isNegative, b.i64(4), b.i64(2));
  Value flag = arith::SelectOp::create(b, isNaN, b.i64(1), infinity);
  Value flags = b.advance(address, b.mul(b.i64(tile::AddAtOp::kDigits), stride));
  Value isSpecial = is(arith::CmpIPredicate::eq, exponent, b.i32(0xff));
  b.inlineAsm("@$2 red.global.or.b64 [$0], $1;", "l,l,b,~{memory}", nullptr,
              {flags, flag, b.conjunction(condition, isSpecial)});
}

/// Whether every element that the warp holds has the index of lane 0's first, which is also
/// returned. Tables of relative positions mostly use one element, that of all distant pairs.
static std::pair<Value, Values> findCommonPlace(KernelEmitter &e, tile::AddAtOp op) {
  ThreadBuilder &b = e.b;
  Values place;
  Value isCommon;
  for (Value operand : op.getIndices()) {
    Values list = e.getElements(operand);
    bool isTile = tile::isTile(operand.getType());
    place.push_back(isTile ? shuffle(b, "idx", list.front(), b.i32(0)) : list.front());
    if (!isTile)
      continue;
    for (Value index : list)
      isCommon = b.conjunction(isCommon, b.equal(index, place.back()));
  }
  Value all = b.intrinsic("llvm.nvvm.vote.all.sync", b.getI1Type(), {b.i32(-1), isCommon});
  return {all, place};
}

static LogicalResult emitAddAt(KernelEmitter &e, tile::AddAtOp op) {
  ThreadBuilder &b = e.b;
  const RegisterLayout &layout = *e.getLayout(op, op.getValue().getType());
  View view = getView(e, op.getView());
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
    Value isNeeded = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, term, b.zero(element));
    auto [address, inside] = getElementPlace(b, view, place, b.conjunction(condition, isNeeded));
    if (op.getExact())
      addExactly(b, term, address, b.mul(view.strides.back(), b.i64(view.bytes)), inside);
    else
      b.inlineAsm(text, constraints, nullptr, {address, term, inside});
  };
  auto addSum = [&](ArrayRef<Value> place) {
    Value isFirst = b.equal(b.threads.lane, b.i32(0));
    addOne(sumOverWarp(b, layout, elements), place, isFirst);
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
  auto branch = scf::IfOp::create(b, TypeRange(), isCommon, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  addSum(place);
  scf::YieldOp::create(b);
  b.setInsertionPointToEnd(branch.elseBlock());
  Value isCanonical = isCanonicalThread(b, layout);
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

void tgpu::registerAddAtLowerings(LoweringTable &table) { table.add<tile::AddAtOp>(emitAddAt); }
