// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The bits of floats that are not negative, and of positive NaNs, are ordered as signed integers
// are, and all are larger than those of negative floats. Among the bits of negative floats, the
// smallest unsigned integer is that of the largest float. VIMNMX3 takes three integers, where FMNMX
// takes two floats.

#include "passes/Conversion/IntegerMaxima.h"

#include "passes/Conversion/ElementOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <deque>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

Value tgpu::combineByThrees(ArrayRef<Value> values, function_ref<Value(Value, Value)> combine) {
  std::deque<Value> queue(values.begin(), values.end());
  auto take = [&] {
    Value value = queue.front();
    queue.pop_front();
    return value;
  };
  while (queue.size() > 1) {
    Value first = take(), pair = combine(first, take());
    queue.push_back(queue.empty() ? pair : combine(pair, take()));
  }
  return queue.front();
}

SmallVector<Value> tgpu::emitIntegerMaxima(ThreadBuilder &b, ArrayRef<SmallVector<Value>> rows,
                                           const std::vector<int> &laneMasks) {
  auto combineRow = [&](ArrayRef<Value> words, function_ref<Value(Value, Value)> combine) {
    Value result = combineByThrees(words, combine);
    for (int mask : laneMasks)
      result = combine(result, shuffle(b, "bfly", result, b.i32(mask)));
    return result;
  };
  auto larger = [&](Value x, Value y) -> Value { return arith::MaxSIOp::create(b, x, y); };
  auto smaller = [&](Value x, Value y) -> Value { return arith::MinUIOp::create(b, x, y); };
  SmallVector<SmallVector<Value>> words;
  SmallVector<Value> largest, negative;
  Value any;
  for (ArrayRef<Value> row : rows) {
    SmallVector<Value> &bits = words.emplace_back();
    for (Value value : row)
      bits.push_back(arith::BitcastOp::create(b, b.getI32Type(), value));
    largest.push_back(combineRow(bits, larger));
    negative.push_back(
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, largest.back(), b.i32(0)));
    any = any ? arith::OrIOp::create(b, any, negative.back()).getResult() : negative.back();
  }
  // Rarely all elements of a row are negative. Both ways together take as many instructions as
  // comparisons of floats do.
  SmallVector<Type> types(rows.size(), b.getI32Type());
  auto branch = scf::IfOp::create(b, types, b.voteAny(any), /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(branch.thenBlock());
    SmallVector<Value> results;
    for (auto [row, most, isNegative] : llvm::zip_equal(words, largest, negative))
      results.push_back(arith::SelectOp::create(b, isNegative, combineRow(row, smaller), most));
    scf::YieldOp::create(b, results);
    b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(b, largest);
  }
  SmallVector<Value> maxima;
  for (Value result : branch.getResults())
    maxima.push_back(arith::BitcastOp::create(b, b.getF32Type(), result));
  return maxima;
}
