// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the order of a loop's operations, and finds the stage that the parts of a chain share.

#include "passes/Tgpu/Loops/StageParts.h"

#include <map>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

bool Part::contains(Value value) const {
  return value.getParentRegion() == &loop.getRegion() ||
         loop.getRegion().isAncestor(value.getParentRegion());
}

bool Part::isInFlight(unsigned number) const {
  return next[number] != loop.getYieldedValues()[number];
}

bool Part::endsSums(Operation *op) const {
  auto wait = dyn_cast<WgmmaWaitOp>(op);
  return wait && !wait.getTiles().empty() && llvm::is_contained(next, wait.getTiles().front());
}

int64_t tgpu::getStage(Operation *op) { return Place::get(op)->stage; }

static int64_t getOrder(Operation *op) { return Place::get(op)->order; }

std::optional<int64_t> PendingGroups::note(Operation *op) {
  if (isa<WgmmaOp>(op))
    committed[op->getResult(0)] = commits + 1; // the commit follows
  if (isa<WgmmaCommitOp>(op))
    ++commits;
  if (!isa<WgmmaWaitOp>(op))
    return std::nullopt;
  int64_t latest = 0;
  for (Value tile : op->getOperands())
    latest = std::max(latest, committed.lookup(tile));
  ended = std::max(ended, latest);
  return commits - latest;
}

void PendingGroups::note(Operation *op, Operation *copy) {
  if (std::optional<int64_t> pending = note(op))
    cast<WgmmaWaitOp>(copy).setPending(*pending);
}

void tgpu::dropRepeated(Operation *op) {
  auto sync = dyn_cast<SyncOp>(op);
  auto before = dyn_cast_or_null<SyncOp>(op->getPrevNode());
  if (sync && before && sync.getBarrier() == before.getBarrier())
    sync.erase();
}

void tgpu::moveToEnd(Operation *op, scf::ForOp loop, PendingGroups &groups) {
  op->moveBefore(loop.getBody()->getTerminator());
  placeAttr.remove(op);
  groups.note(op, op);
  dropRepeated(op);
}

namespace {

class ChainReader {
public:
  FailureOr<SmallVector<Part>> read(const LoopChain &chain) {
    SmallVector<Part> parts;
    for (scf::ForOp loop : chain) {
      FailureOr<Part> part = readPart(loop);
      if (failed(part))
        return failure();
      parts.push_back(std::move(*part));
    }
    for (const Part &part : llvm::drop_begin(parts))
      if (failed(correspond(parts.front(), part, /*stage=*/0, /*explain=*/false)) &&
          failed(correspond(parts.front(), part, /*stage=*/1, /*explain=*/true)))
        return failure();
    return parts;
  }

  /// Whether the parts have stage 1 in common; otherwise, stage 0.
  static bool shareSecond(ArrayRef<Part> parts, bool explain) {
    return llvm::all_of(parts.drop_front(), [&](const Part &part) {
      return succeeded(correspond(parts.front(), part, /*stage=*/1, explain));
    });
  }

  /// For parts with stage 0 in common: gives all parts the same list of values that cross stages,
  /// each value that at least one part reads.
  static void uniteCrossing(MutableArrayRef<Part> parts) {
    using Key = std::tuple<int, size_t, size_t>; // identifies a value of stage 0 by position
    std::map<Key, SmallVector<Value>> all;
    for (Part &part : parts) {
      auto note = [&](Key key, Value value) { all[key].push_back(value); };
      note({0, 0, 0}, part.loop.getInductionVar());
      for (auto [i, argument] : llvm::enumerate(part.loop.getRegionIterArgs()))
        if (part.stagesOfNext[i] == 0)
          note({1, i, 0}, argument);
      for (auto [i, op] : llvm::enumerate(getOps(part, 0)))
        for (OpResult result : op->getResults())
          note({2, i, result.getResultNumber()}, result);
    }
    SmallVector<llvm::SetVector<Value>> crossing(parts.size());
    for (auto &[key, values] : all) {
      bool isRead = llvm::any_of(llvm::zip(parts, values), [](auto pair) {
        return std::get<0>(pair).crossing.contains(std::get<1>(pair));
      });
      for (size_t i = 0; isRead && i < parts.size(); ++i)
        crossing[i].insert(values[i]);
    }
    for (auto [part, values] : llvm::zip_equal(parts, crossing))
      part.crossing = std::move(values);
  }

private:
  /// The product of stage 0 that extends a carried sum, if stage 1 waits for it and nothing else of
  /// the iteration reads the sum. Null otherwise.
  static Value getSumInFlight(BlockArgument sum, Value yielded) {
    auto wait = yielded.getDefiningOp<WgmmaWaitOp>();
    if (!wait || wait->getBlock() != sum.getOwner() || !yielded.hasOneUse() || !sum.hasOneUse() ||
        getStage(wait) != 1)
      return {};
    auto product =
        wait.getTiles()[cast<OpResult>(yielded).getResultNumber()].getDefiningOp<WgmmaOp>();
    bool isInFlight = product && product->getBlock() == sum.getOwner() && getStage(product) == 0 &&
                      product.getAcc() == sum && product->hasOneUse();
    return isInFlight ? product.getResult() : Value();
  }

  FailureOr<Part> readPart(scf::ForOp loop) {
    Part part{loop, {}, {}, {}, {}};
    for (Operation &op : loop.getBody()->without_terminator()) {
      std::optional<Place> place = Place::get(&op);
      if (!place || place->stage < 0 || place->stage > 1)
        return op.emitOpError() << "needs a place [stage, order] with a stage of 0 or 1, as do the "
                                   "other operations of its loop, but got "
                                << (place ? "stage " + std::to_string(place->stage) : "none");
      part.ops.push_back(&op);
    }
    llvm::stable_sort(part.ops,
                      [](Operation *x, Operation *y) { return getOrder(x) < getOrder(y); });
    for (auto [argument, yielded] :
         llvm::zip_equal(loop.getRegionIterArgs(), loop.getYieldedValues())) {
      Value product = getSumInFlight(argument, yielded);
      part.next.push_back(product ? product : yielded);
      Operation *def = part.next.back().getDefiningOp();
      bool isInside = def && def->getBlock() == loop.getBody();
      part.stagesOfNext.push_back(isInside ? getStage(def) : 0);
    }
    for (Operation *op : part.ops)
      if (failed(readOp(part, op)))
        return failure();
    return part;
  }

  LogicalResult readOp(Part &part, Operation *op) {
    Place place = *Place::get(op);
    for (Value operand : op->getOperands()) {
      if (!part.contains(operand))
        continue;
      if (auto argument = dyn_cast<BlockArgument>(operand)) {
        bool isInduction = argument == part.loop.getInductionVar();
        unsigned number = isInduction ? 0 : argument.getArgNumber() - 1;
        int64_t from = isInduction ? 0 : part.stagesOfNext[number];
        if (place.stage == 1 && from == 0)
          part.crossing.insert(operand);
        Operation *def = isInduction ? nullptr : part.next[number].getDefiningOp();
        if (place.stage == 0 && from == 1 && getOrder(def) >= place.order)
          return op->emitOpError()
                 << "of stage 0 must come in the order after the value that it reads of stage 1 of "
                    "the previous iteration, but got place "
                 << place.order << ", with the value at " << getOrder(def);
        continue;
      }
      Place from = *Place::get(operand.getDefiningOp());
      if (from.stage > place.stage)
        return op->emitOpError()
               << "of stage " << place.stage
               << " must read results of no later stage of the same iteration, but "
                  "got one of stage "
               << from.stage;
      if (from.stage == place.stage && from.order >= place.order)
        return op->emitOpError() << "must follow its operands in the order, but got place "
                                 << place.order << ", with an operand at " << from.order;
      if (from.stage < place.stage && !part.endsSums(op))
        part.crossing.insert(operand);
    }
    if (auto wait = dyn_cast<WgmmaWaitOp>(op))
      for (Value tile : wait.getTiles())
        if (Operation *product = tile.getDefiningOp();
            !product || product->getBlock() != part.loop.getBody() ||
            (getStage(product) != place.stage && !llvm::is_contained(part.next, tile)))
          return op->emitOpError()
                 << "must wait in the stage in which the product is issued, but got "
                 << (product && product->getBlock() == part.loop.getBody()
                         ? "stage " + std::to_string(place.stage) + " and a product of stage " +
                               std::to_string(getStage(product))
                         : "a product outside of the loop");
    return success();
  }

  static SmallVector<Operation *> getOps(const Part &part, int64_t stage) {
    return llvm::filter_to_vector(part.ops, [&](Operation *op) { return getStage(op) == stage; });
  }

  /// Whether a stage of two parts has the same operations on corresponding values.
  static LogicalResult correspond(const Part &first, const Part &other, int64_t stage,
                                  bool explain) {
    auto reject = [&](Operation *op, const Twine &why) -> LogicalResult {
      if (!explain)
        return failure();
      return op->emitOpError() << "of stage 1 must equal stage 1 of the loop's first part, but got "
                               << why;
    };
    SmallVector<Operation *> ops = getOps(first, stage), others = getOps(other, stage);
    if (ops.size() != others.size())
      return reject(other.loop,
                    Twine(others.size()) + " operations instead of " + Twine(ops.size()));
    if (first.stagesOfNext != other.stagesOfNext)
      return reject(other.loop, "other stages of the yielded values");
    llvm::DenseMap<Value, Value> match;
    match[first.loop.getInductionVar()] = other.loop.getInductionVar();
    if (stage == 1) {
      if (first.crossing.size() != other.crossing.size())
        return reject(other.loop, Twine(other.crossing.size()) + " values of stage 0 instead of " +
                                      Twine(first.crossing.size()));
      for (auto [x, y] : llvm::zip_equal(first.crossing, other.crossing)) {
        if (x.getType() != y.getType())
          return reject(other.loop, "a value of stage 0 of another type");
        match[x] = y;
      }
      for (auto [x, y] : llvm::zip_equal(first.next, other.next))
        if (x.getDefiningOp<WgmmaOp>())
          match[x] = y;
    }
    for (auto [x, y] :
         llvm::zip_equal(first.loop.getRegionIterArgs(), other.loop.getRegionIterArgs()))
      match.try_emplace(x, y);
    for (auto [x, y] : llvm::zip_equal(ops, others)) {
      auto withoutPlace = [](Operation *op) {
        NamedAttrList attributes(op->getAttrs());
        attributes.erase(placeAttr.name);
        return attributes.getDictionary(op->getContext());
      };
      if (x->getName() != y->getName() || x->getResultTypes() != y->getResultTypes() ||
          withoutPlace(x) != withoutPlace(y) || x->getNumOperands() != y->getNumOperands())
        return reject(y, "another operation than its '" + x->getName().getStringRef() + "'");
      for (auto [a, b] : llvm::zip_equal(x->getOperands(), y->getOperands()))
        if ((first.contains(a) ? match.lookup(a) : a) != b)
          return reject(y, "an operand that is another value");
      for (auto [a, b] : llvm::zip_equal(x->getResults(), y->getResults()))
        match[a] = b;
    }
    return success();
  }
};

} // namespace

FailureOr<SmallVector<Part>> tgpu::readParts(const LoopChain &chain) {
  return ChainReader().read(chain);
}

bool tgpu::shareSecondStage(ArrayRef<Part> parts) {
  return ChainReader::shareSecond(parts, /*explain=*/false);
}

LogicalResult tgpu::requireSecondStage(ArrayRef<Part> parts) {
  return success(ChainReader::shareSecond(parts, /*explain=*/true));
}

void tgpu::uniteCrossing(MutableArrayRef<Part> parts) { ChainReader::uniteCrossing(parts); }
