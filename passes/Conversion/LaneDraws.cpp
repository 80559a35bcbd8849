// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Conversion/LaneDraws.h"
#include "passes/Conversion/DeferredLoads.h"
#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/PositionBits.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::Coord;
using layout::RegisterLayout;

/// Numbers have 16 bits: bit 0 of c0 selects the half of a word, bits 1 and 2 the word of a block.
static constexpr int kNumberBits = 16, kBitsOfBlock = 3;

static bool contains(const PositionSet &set, const PositionSet &part) {
  return (set[0] & part[0]) == part[0] && (set[1] & part[1]) == part[1];
}
static bool meets(const PositionSet &x, const PositionSet &y) {
  return (x[0] & y[0]) != 0 || (x[1] & y[1]) != 0;
}
static PositionSet setOf(const Coord &part) { return {uint64_t(part[0]), uint64_t(part[1])}; }
static Coord masked(const Coord &part, const PositionSet &set) {
  return {part[0] & int64_t(set[0]), part[1] & int64_t(set[1])};
}

/// Whether the uses of a number depend on its uppermost 16 bits only: comparisons with a multiple
/// of 2^16.
static bool isUsedByUpperHalf(tile::RandomOp random, PositionBits &bits) {
  return llvm::all_of(random.getResult().getUses(), [&](OpOperand &use) {
    auto compare = dyn_cast<arith::CmpIOp>(use.getOwner());
    if (!compare || use.getOperandNumber() != 0 ||
        (compare.getPredicate() != arith::CmpIPredicate::ult &&
         compare.getPredicate() != arith::CmpIPredicate::uge))
      return false;
    BitFacts limit = bits.get(compare.getRhs());
    return llvm::all_of(ArrayRef(limit).take_front(kNumberBits),
                        [](const BitFact &bit) { return bit.kind == BitFact::Zero; });
  });
}

/// The operands of a map on which the operands of an operation of its function depend. None if one
/// passes through regions.
static std::optional<SmallVector<Value>> getSources(tile::MapOp map, Block &body, Operation *op) {
  llvm::SetVector<Value> needed(op->operand_begin(), op->operand_end());
  SmallVector<Value> sources;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (auto argument = dyn_cast<BlockArgument>(needed[i])) {
      sources.push_back(map.getOperand(argument.getArgNumber()));
      continue;
    }
    Operation *definition = needed[i].getDefiningOp();
    if (definition->getNumRegions() != 0 || !isPure(definition))
      return std::nullopt;
    needed.insert(definition->operand_begin(), definition->operand_end());
  }
  return sources;
}

/// The only tile.random at the top level of a function, which has no other.
static tile::RandomOp findRandom(Block &body) {
  tile::RandomOp only;
  bool isAlone = true;
  body.walk([&](tile::RandomOp op) {
    isAlone &= !only && op->getBlock() == &body;
    only = op;
  });
  return isAlone ? only : nullptr;
}

/// Whether warps, lanes and registers determine different bits of each coordinate, so that a
/// coordinate is composed of them without carries.
static bool hasSeparateBits(const RegisterLayout &layout) {
  PositionSet seen = {0, 0};
  auto add = [&](const Coord &all) {
    bool isNew = !meets(seen, setOf(all));
    seen = {seen[0] | all[0], seen[1] | all[1]};
    return isNew;
  };
  Coord warps = {0, 0}, lanes = {0, 0}, registers = {0, 0};
  auto gather = [](Coord &all, const Coord &part) { all = {all[0] | part[0], all[1] | part[1]}; };
  for (int w = 0; w < layout.numWarps(); ++w)
    gather(warps, layout.warpPart(w));
  for (int l = 0; l < layout::kLanes; ++l)
    gather(lanes, layout.lanePart(l));
  for (int r = 0; r < layout.registersPerThread(); ++r)
    gather(registers, layout.registerPart(r));
  return add(warps) && add(lanes) && add(registers);
}

/// The bit of the lane that moves an element by this bit of its position alone; -1: there is none.
static int findLaneBit(const RegisterLayout &layout, const PositionSet &position) {
  for (int bit = 0; bit < 5; ++bit)
    if (setOf(layout.lanePart(1 << bit)) == position)
      return bit;
  return -1;
}

/// The registers of a thread, by their parts of the coordinates.
using RegistersByPart = llvm::DenseMap<std::pair<int64_t, int64_t>, int>;

/// A bit of the position that a thread has with both values, and that becomes bits of a block's
/// counters as it is: sets draws.second to these.
static std::optional<PositionSet> findPairing(const BitFacts (&counter)[3],
                                              const PositionSet &ofBlock,
                                              const PositionSet &ofRegisters,
                                              const RegistersByPart &registers, LaneDraws &draws) {
  auto pairsBy = [&](const PositionSet &position) {
    for (int c = 0; c < 3; ++c)
      for (auto [i, bit] : llvm::enumerate(counter[c]))
        if (meets(bit.depends, position)) {
          if (bit.kind != BitFact::Copy || (c == 0 && i < kBitsOfBlock))
            return false;
          draws.second[c] |= uint32_t(1) << i;
        }
    return llvm::all_of(registers, [&](const auto &entry) {
      return registers.contains(
          {entry.first.first ^ int64_t(position[0]), entry.first.second ^ int64_t(position[1])});
    });
  };
  for (int dim = 1; dim >= 0; --dim)
    for (uint64_t bit = 1; bit != 0 && bit <= ofRegisters[dim]; bit <<= 1) {
      PositionSet position = {dim == 0 ? bit : 0, dim == 1 ? bit : 0};
      draws.second = {0, 0, 0};
      if (contains(ofRegisters, position) && contains(ofBlock, position) && pairsBy(position))
        return position;
    }
  return std::nullopt;
}

std::optional<LaneDraws> tgpu::findLaneDraws(KernelEmitter &e, tile::MapOp map) {
  auto function = e.module.lookupSymbol<func::FuncOp>(map.getFunction());
  if (!function || !function.getBody().hasOneBlock() || e.isOneThread ||
      cast<RankedTensorType>(map.getResult().getType()).getRank() != 2)
    return std::nullopt;
  Block &body = function.getBody().front();
  LaneDraws draws;
  draws.random = findRandom(body);
  if (!draws.random || draws.random.getBits() != kNumberBits)
    return std::nullopt;
  std::optional<SmallVector<Value>> sources = getSources(map, body, draws.random);
  const RegisterLayout *layout = e.getLayout(map, map.getResult().getType());
  PositionBits bits(map, body);
  if (!sources || !layout || !hasSeparateBits(*layout) || !isUsedByUpperHalf(draws.random, bits) ||
      llvm::any_of(map.getOperands(), [&](Value operand) { return isDeferredLoad(e, operand); }))
    return std::nullopt;
  draws.operands = *sources;

  // The bits of the counters that select a number in a block, and those that select the block.
  BitFacts counter[3] = {bits.get(draws.random.getC0()), bits.get(draws.random.getC1()),
                         bits.get(draws.random.getC2())};
  ArrayRef<BitFact> inBlock = ArrayRef(counter[0]).take_front(kBitsOfBlock);
  PositionSet ofBlock = {0, 0};
  for (int c = 0; c < 3; ++c)
    for (const BitFact &bit : ArrayRef(counter[c]).drop_front(c == 0 ? kBitsOfBlock : 0))
      ofBlock = {ofBlock[0] | bit.depends[0], ofBlock[1] | bit.depends[1]};

  for (Value key : {draws.random.getSeed(), draws.random.getOffset()})
    for (const BitFact &bit : bits.get(key))
      if (bit.depends != PositionSet{0, 0})
        return std::nullopt; // each number has a key of its own

  // The half of a word is a bit of the lane, and the lanes that differ in it need the same words of
  // the same blocks.
  const BitFact &half = inBlock[0];
  if (half.kind != BitFact::Copy || meets(ofBlock, half.depends))
    return std::nullopt;
  draws.laneBit = findLaneBit(*layout, half.depends);
  if (draws.laneBit < 0)
    return std::nullopt;
  PositionSet ofRegisters = {0, 0};
  RegistersByPart registers;
  for (int reg = 0; reg < layout->registersPerThread(); ++reg) {
    Coord part = layout->registerPart(reg);
    ofRegisters = {ofRegisters[0] | part[0], ofRegisters[1] | part[1]};
    if (!registers.try_emplace({part[0], part[1]}, reg).second)
      return std::nullopt; // replicas
  }
  for (const BitFact &bit : inBlock.drop_front())
    if (!bit.isConstant() && (bit.kind != BitFact::Copy || !contains(ofRegisters, bit.depends)))
      return std::nullopt;

  std::optional<PositionSet> found = findPairing(counter, ofBlock, ofRegisters, registers, draws);
  if (!found)
    return std::nullopt;
  PositionSet position = *found;

  // Registers with equal bits of the block are in one pair, but for the bit above.
  llvm::DenseMap<std::pair<int64_t, int64_t>, size_t> pairs;
  PositionSet ofPair = {ofBlock[0] & ~position[0], ofBlock[1] & ~position[1]};
  for (int reg = 0; reg < layout->registersPerThread(); ++reg) {
    Coord part = layout->registerPart(reg), key = masked(part, ofPair);
    auto [pair, isNew] = pairs.try_emplace({key[0], key[1]}, draws.pairs.size());
    if (isNew)
      draws.pairs.emplace_back().reg =
          registers.at({part[0] & ~int64_t(position[0]), part[1] & ~int64_t(position[1])});
    LaneDraws::Pair::Number number;
    number.reg = reg;
    number.isSecond = masked(part, position) != Coord{0, 0};
    for (int bit = 1; bit < kBitsOfBlock; ++bit)
      if (inBlock[bit].kind == BitFact::One ||
          (inBlock[bit].kind == BitFact::Copy && meets(setOf(part), inBlock[bit].depends)))
        number.word |= 1 << (bit - 1);
    draws.pairs[pair->second].numbers.push_back(number);
  }
  return draws;
}

namespace {
/// The numbers that maps have drawn, to be used by later maps of the same block.
struct DrawnNumbers {
  struct Entry {
    Block *block;
    Operation *random;
    SmallVector<Value> operands;
    Values numbers;
  };
  SmallVector<Entry> entries;
};
} // namespace

FailureOr<Values>
tgpu::drawTogether(KernelEmitter &e, tile::MapOp map, const LaneDraws &draws,
                   llvm::function_ref<SmallVector<Values>(int reg)> getArguments) {
  SmallVector<DrawnNumbers::Entry> &drawn = e.state<DrawnNumbers>().entries;
  for (const DrawnNumbers::Entry &entry : drawn)
    if (entry.block == map->getBlock() && entry.random == draws.random &&
        entry.operands == draws.operands)
      return entry.numbers;

  ThreadBuilder &b = e.b;
  Value bit = arith::ShRUIOp::create(b, b.threads.lane, b.i32(draws.laneBit));
  bit = arith::AndIOp::create(b, bit, b.i32(1));
  Value drawsSecond = b.equal(bit, b.i32(1));
  auto permute = [&](Value x, Value y, Value selector) {
    return b.intrinsic("llvm.nvvm.prmt", b.getI32Type(), {x, y, selector});
  };
  /// A selector of bytes: digits 0 to 3 of the first word, 4 to 7 of the second one, lowest first.
  auto selectorOf = [&](int64_t ifFirst, int64_t ifSecond) -> Value {
    return arith::SelectOp::create(b, drawsSecond, b.i32(ifSecond), b.i32(ifFirst));
  };
  constexpr int64_t kLower = 0x1010, kUpper = 0x3232; // of this lane's word, to both halves
  constexpr int64_t kReceived[] = {0x5454, 0x7676};   // of what the other lane passed
  constexpr int64_t kLowerHalves = 0x5410, kUpperHalves = 0x7632; // of two words
  Value passed = selectorOf(kUpperHalves, kLowerHalves);

  int64_t rounds = tile::RandomOp(draws.random).getRounds();
  Values numbers(e.getLayout(map, map.getResult().getType())->registersPerThread());
  RandomOverride &override = e.state<RandomOverride>();
  for (const LaneDraws::Pair &pair : draws.pairs) {
    SmallVector<Value> operands;
    Values unused;
    override = {draws.random, nullptr, &operands};
    LogicalResult result = e.inlineCall(map, map.getFunction(), getArguments(pair.reg), unused);
    override = {};
    if (failed(result))
      return failure();
    std::array<Value, 3> counters;
    for (int c = 0; c < 3; ++c) {
      Value more = b.mul(bit, b.i32(int32_t(draws.second[c])));
      counters[c] = arith::OrIOp::create(b, operands[2 + c], more);
    }
    counters[0] = arith::ShRUIOp::create(b, counters[0], b.i32(kBitsOfBlock));
    std::array<Value, 4> words = drawBlock(b, operands[0], operands[1], counters, rounds);
    Value received[2];
    for (int i = 0; i < 2; ++i)
      received[i] = shuffle(b, "bfly", permute(words[2 * i], words[2 * i + 1], passed),
                            b.i32(int64_t(1) << draws.laneBit));
    for (const LaneDraws::Pair::Number &number : pair.numbers) {
      int64_t other = kReceived[number.word % 2];
      Value selector = number.isSecond ? selectorOf(other, kUpper) : selectorOf(kLower, other);
      numbers[number.reg] = permute(words[number.word], received[number.word / 2], selector);
    }
  }
  drawn.push_back({map->getBlock(), draws.random, draws.operands, numbers});
  return numbers;
}
