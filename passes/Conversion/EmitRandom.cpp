// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random bits: tile.random. A block of Philox4x32 is drawn for each element; LLVM unites the blocks
// that elements of a thread share. Blocks that two lanes share: LaneDraws.cpp.

#include "passes/Conversion/LaneDraws.h"
#include "passes/Conversion/LoweringTable.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

std::array<Value, 4> tgpu::drawBlock(ThreadBuilder &b, Value seed, Value offset,
                                     std::array<Value, 3> counters, int64_t rounds) {
  Type i32Type = b.getI32Type(), i64Type = b.getI64Type();
  auto low = [&](Value wide) { return arith::TruncIOp::create(b, i32Type, wide).getResult(); };
  auto high = [&](Value wide) { return low(arith::ShRUIOp::create(b, wide, b.i64(32))); };
  auto wide = [&](Value x) { return arith::ExtUIOp::create(b, i64Type, x).getResult(); };
  auto exclusiveOr = [&](Value x, Value y) { return arith::XOrIOp::create(b, x, y).getResult(); };

  // Constants of Salmon et al.
  Value multiplier0 = b.i64(0xD2511F53), multiplier1 = b.i64(0xCD9E8D57);
  Value key0 = low(seed), key1 = exclusiveOr(high(seed), high(offset));
  auto [x0, x1, x2] = counters;
  Value x3 = low(offset);
  for (int64_t round = 0; round < rounds; ++round) {
    if (round != 0) {
      key0 = b.add(key0, b.i32(int32_t(0x9E3779B9)));
      key1 = b.add(key1, b.i32(int32_t(0xBB67AE85)));
    }
    Value p0 = arith::MulIOp::create(b, wide(x0), multiplier0);
    Value p1 = arith::MulIOp::create(b, wide(x2), multiplier1);
    Value y0 = exclusiveOr(exclusiveOr(high(p1), x1), key0);
    Value y2 = exclusiveOr(exclusiveOr(high(p0), x3), key1);
    x1 = low(p1);
    x3 = low(p0);
    x0 = y0;
    x2 = y2;
  }
  return {x0, x1, x2, x3};
}

static LogicalResult emitRandom(KernelEmitter &e, tile::RandomOp op) {
  ThreadBuilder &b = e.b;
  RandomOverride &override = e.state<RandomOverride>();
  bool isOverridden = override.random == op.getOperation();
  if (isOverridden && override.operands) {
    for (Value operand : op->getOperands())
      override.operands->push_back(e.getScalar(operand));
    e.set(op.getResult(), {b.i32(0)});
    return success();
  }
  if (isOverridden) {
    e.set(op.getResult(), {override.number});
    return success();
  }
  Value seed = e.getScalar(op.getSeed()), offset = e.getScalar(op.getOffset());
  Values c0 = e.getElements(op.getC0()), c1 = e.getElements(op.getC1()),
         c2 = e.getElements(op.getC2());
  // log2 of the count of numbers in a block, and in a word.
  int64_t bits = op.getBits();
  int inWord = llvm::Log2_64(32 / bits), inBlock = inWord + 2;
  Values elements;
  for (size_t i = 0; i < c0.size(); ++i) {
    Value block = arith::ShRUIOp::create(b, c0[i], b.i32(inBlock));
    auto [x0, x1, x2, x3] = drawBlock(b, seed, offset, {block, c1[i], c2[i]}, op.getRounds());
    auto bit = [&](int64_t mask) {
      Value masked = arith::AndIOp::create(b, c0[i], b.i32(mask));
      return b.notEqual(masked, b.i32(0));
    };
    Value odd = bit(int64_t(1) << inWord);
    Value lower = arith::SelectOp::create(b, odd, x1, x0);
    Value upper = arith::SelectOp::create(b, odd, x3, x2);
    Value word = arith::SelectOp::create(b, bit(int64_t(2) << inWord), upper, lower);
    if (bits < 32) {
      // The last number of a word is in its uppermost bits; the others are moved there by a byte
      // permutation: LLVM would merge a shift into the products of the last rounds, and compute
      // these twice. The selector for n bytes to the left is 0x3210 shifted by n digits, followed
      // by digits 4, a zero byte.
      int last = (1 << inWord) - 1;
      Value after = arith::AndIOp::create(b, c0[i], b.i32(last));
      after = arith::XOrIOp::create(b, after, b.i32(last));
      Value shift = arith::MulIOp::create(b, after, b.i32(bits / 2)); // four bits per byte
      shift = arith::SubIOp::create(b, b.i32(16), shift);
      Value selector = arith::ShRUIOp::create(b, b.i32(0x32104444), shift);
      selector = arith::AndIOp::create(b, selector, b.i32(0xffff));
      Value moved = b.intrinsic("llvm.nvvm.prmt", b.getI32Type(), {word, b.i32(0), selector});
      Value isLast = b.equal(after, b.i32(0));
      word = arith::SelectOp::create(b, isLast, word, moved);
    }
    elements.push_back(word);
  }
  e.setElements(op.getResult(), elements);
  return success();
}

void tgpu::registerRandomLowerings(LoweringTable &table) { table.add<tile::RandomOp>(emitRandom); }
