// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The division follows from dependences alone:
//
//   first role    results of the products that all results need, those with the fewest further
//                 products, and what depends on these products but on no other product
//   second role   all other results
//
// What depends on no product, such as positions and rows of other operands, is computed by each
// role that needs it.

#include "passes/Tgpu/Roles/ComputeSplit.h"

#include "passes/Tgpu/Analysis/WrittenViews.h"

#include "base/Layout/SharedLayout.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

using OpSet = llvm::SetVector<Operation *>;

/// Collects all that operations depend on: operands, and the loops and branches that contain them.
class Closure {
public:
  /// Values of `given` are known without their operations.
  explicit Closure(const llvm::SetVector<Value> &given = {}) : given(given) {}

  void add(Operation *op) {
    need(op);
    close();
  }

  void add(Value value) {
    worklist.push_back(value);
    close();
  }

  RolePart part;
  OpSet products;

private:
  void close() {
    while (!worklist.empty())
      needValue(worklist.pop_back_val());
  }

  void need(Operation *op) {
    if (!part.ops.insert(op).second)
      return;
    if (isa<WgmmaOp>(op)) {
      products.insert(op);
      if (auto commit = dyn_cast_or_null<WgmmaCommitOp>(op->getNextNode()))
        part.ops.insert(commit);
    }
    if (op->getNumRegions() == 0)
      llvm::append_range(worklist, op->getOperands());
    else if (auto loop = dyn_cast<scf::ForOp>(op))
      worklist.append({loop.getLowerBound(), loop.getUpperBound(), loop.getStep()});
    else if (auto branch = dyn_cast<scf::IfOp>(op))
      worklist.push_back(branch.getCondition());
    else // cloned as a whole
      llvm::append_range(worklist, getInputs(op));
    if (Operation *parent = op->getParentOp(); parent && !isa<KernelOp>(parent))
      need(parent);
  }

  void needValue(Value value) {
    if (given.contains(value) || isa<SharedType>(value.getType()) ||
        !part.values.insert(value).second)
      return;
    Operation *op = value.getDefiningOp();
    unsigned number = 0;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      if (!loop || argument == loop.getInductionVar())
        return;
      op = loop;
      number = argument.getArgNumber() - 1;
    } else {
      number = cast<OpResult>(value).getResultNumber();
    }
    need(op);
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      part.values.insert(loop.getRegionIterArgs()[number]);
      part.values.insert(loop.getResult(number));
      worklist.push_back(loop.getInitArgs()[number]);
      worklist.push_back(loop.getYieldedValues()[number]);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      worklist.push_back(branch.thenYield().getOperand(number));
      worklist.push_back(branch.elseYield().getOperand(number));
    }
  }

  llvm::SetVector<Value> given;
  SmallVector<Value> worklist;
};

/// The operations that depend on the results of products, also in later iterations and after the
/// loop, and these.
OpSet getDependents(const OpSet &products) {
  OpSet dependents = products;
  llvm::SetVector<Value> values;
  auto addResults = [&](Operation *op) {
    if (op->getNumRegions() == 0 && dependents.insert(op))
      values.insert_range(op->getResults());
  };
  for (Operation *product : products)
    values.insert_range(product->getResults());
  for (size_t i = 0; i < values.size(); ++i)
    for (OpOperand &use : values[i].getUses()) {
      Operation *user = use.getOwner();
      if (!user->hasTrait<OpTrait::IsTerminator>()) {
        addResults(user);
        continue;
      }
      unsigned number = use.getOperandNumber();
      if (auto loop = dyn_cast<scf::ForOp>(user->getParentOp()))
        values.insert(loop.getRegionIterArgs()[number]);
      if (isa<scf::ForOp, scf::IfOp>(user->getParentOp()))
        values.insert(user->getParentOp()->getResult(number));
    }
  return dependents;
}

/// Whether the second role should repeat an operation, because its operand is no larger than its
/// result and in the layout that results of products have.
bool isRepeated(Operation *op) {
  if (isa<tile::ExpandOp>(op))
    return true;
  if (auto convert = dyn_cast<ConvertOp>(op))
    return !convert.getScratch();
  if (!isa<tile::CastOp>(op))
    return false;
  auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  return from && to && getElementBits(from.getElementType()) <= getElementBits(to.getElementType());
}

/// The type of a slot for a tile that threads write and read in the layout of products, or one
/// value for each of its rows; null for other types.
SharedType getSlotType(Value value) {
  auto tile = dyn_cast<RankedTensorType>(value.getType());
  auto slice = tile ? dyn_cast_or_null<SliceAttr>(tile.getEncoding()) : SliceAttr();
  if (slice && slice.getDim() == 1 && isa<WgmmaAttr>(slice.getParent()) &&
      tile.getElementType().isF32())
    return SharedType::get(value.getContext(), tile.getShape(), tile.getElementType(),
                           tgpu::Swizzle::None);
  if (!tile || tile.getRank() != 2 || !isa<WgmmaAttr>(tile.getEncoding()) ||
      !isa<FloatType>(tile.getElementType()))
    return {};
  auto bits = static_cast<int>(getElementBits(tile.getElementType()));
  return SharedType::get(value.getContext(), tile.getShape(), tile.getElementType(),
                         layout::SharedLayout::widestSwizzle(tile.getShape()[1], bits));
}

/// Groups values that are handed over: those of one block have a ring each, and the two sides of a
/// branch share rings. Returns false if values of a loop lie elsewhere.
bool groupHandovers(ArrayRef<Value> values, SmallVectorImpl<ComputeSplit::Handover> &handovers) {
  llvm::MapVector<Block *, SmallVector<Value>> inBlocks;
  for (Value value : values) {
    Operation *op = value.getDefiningOp();
    if (!op || !getSlotType(value))
      return false;
    inBlocks[op->getBlock()].push_back(value);
  }
  llvm::DenseMap<Operation *, size_t> firstOf; // of branches
  for (auto &[block, own] : inBlocks) {
    Operation *parent = block->getParentOp();
    bool isSide = isa<scf::IfOp>(parent) && parent->getParentOfType<scf::ForOp>();
    if (!isSide && !isa<KernelOp, scf::ForOp>(parent))
      return false;
    auto [it, isFirst] = firstOf.try_emplace(parent, handovers.size());
    if (isFirst) {
      for (Value value : own)
        handovers.push_back({{value}, getSlotType(value)});
      continue;
    }
    for (auto [i, value] : llvm::enumerate(own)) {
      size_t number = it->second + i;
      if (number >= handovers.size() || handovers[number].slot != getSlotType(value) ||
          handovers[number].values.front().getDefiningOp()->getParentOp() != parent)
        return false;
      handovers[number].values.push_back(value);
    }
  }
  // Both sides of a branch hand over equally many values.
  return llvm::all_of(handovers, [](const ComputeSplit::Handover &handover) {
    Operation *parent = handover.values.front().getDefiningOp()->getParentOp();
    return !isa<scf::IfOp>(parent) || handover.values.size() == 2;
  });
}

} // namespace

int64_t ComputeSplit::getBytes() const {
  int64_t bytes = 0;
  for (const Handover &handover : handovers)
    bytes += tgpu::getBytes(handover.slot);
  return bytes;
}

/// Whether an operation reads memory that the kernel writes: the roles would not agree on what.
static bool readsWritten(Operation *op, const WrittenViews &written) {
  return !isa<StoreOp, tile::DimOp, tile::SubviewOp>(op) &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return isa<tile::ViewType>(operand.getType()) && written.contains(operand);
         });
}

/// Whether two stores write different columns of the same rows.
static bool writeOtherColumns(StoreOp x, StoreOp y) {
  struct Place {
    SmallVector<Value> indices; ///< of all but the last dimension, as far as they are operands
    ArrayRef<int64_t> known;
    std::optional<int64_t> first; ///< column
    int64_t columns;
  };
  auto getPlace = [](StoreOp store) {
    Place place{SmallVector<Value>(store.getIndices()), store.getStaticIndices(), {}, 1};
    if (ShapedType::isDynamic(place.known.back()))
      place.first = getConstantIntValue(place.indices.pop_back_val());
    else
      place.first = place.known.back();
    place.known = place.known.drop_back();
    std::optional<ArrayRef<int64_t>> dims = store.getDims();
    auto tile = cast<RankedTensorType>(store.getValue().getType());
    if (!dims || dims->back() == static_cast<int64_t>(place.known.size()))
      place.columns = tile.getShape().back();
    return place;
  };
  Place a = getPlace(x), b = getPlace(y);
  return x.getView() == y.getView() && x.getDims() == y.getDims() && a.indices == b.indices &&
         a.known == b.known && a.first && b.first &&
         (*a.first + a.columns <= *b.first || *b.first + b.columns <= *a.first);
}

/// Whether two stores to one array may write the same element, so that their order matters.
static bool areOrdered(StoreOp x, StoreOp y) {
  return getViewRoot(x.getView()) == getViewRoot(y.getView()) && !writeOtherColumns(x, y);
}

std::optional<ComputeSplit> ComputeSplit::get(KernelOp kernel) {
  SmallVector<StoreOp> stores;
  WrittenViews written(kernel);
  bool isOrdered = false; // stores whose order matters
  WalkResult effects = kernel.walk([&](Operation *op) {
    if (auto store = dyn_cast<StoreOp>(op)) {
      isOrdered |= llvm::any_of(stores, [&](StoreOp other) { return areOrdered(other, store); });
      stores.push_back(store);
    }
    auto convert = dyn_cast<ConvertOp>(op);
    bool isOther = isa<AtomicAddOp, tile::ScatterAddOp, tile::AddAtOp, tile::SpreadOp,
                       tile::PrintOp, tile::AssertOp, AnyOp, WriteSharedOp>(op) ||
                   (convert && convert.getScratch()) || readsWritten(op, written);
    return isOther ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (effects.wasInterrupted() || isOrdered || stores.size() < 2)
    return std::nullopt;

  // Products of each result, and those of all results that have some.
  SmallVector<OpSet> products;
  std::optional<OpSet> common;
  for (StoreOp store : stores) {
    Closure closure;
    closure.add(store);
    if (!common && !closure.products.empty())
      common = closure.products;
    else if (!closure.products.empty())
      common->remove_if([&](Operation *op) { return !closure.products.contains(op); });
    products.push_back(std::move(closure.products));
  }
  if (!common)
    return std::nullopt;
  auto isSame = [](const OpSet &x, const OpSet &y) {
    return x.size() == y.size() && llvm::all_of(x, [&](Operation *op) { return y.contains(op); });
  };
  // The fewest further products, unless all results have these.
  const OpSet *fewest = nullptr;
  for (const OpSet &each : products)
    if (each.size() > common->size() && (!fewest || each.size() < fewest->size()))
      fewest = &each;
  if (!fewest || llvm::all_of(products, [&](const OpSet &each) {
        return each.size() <= common->size() || isSame(each, *fewest);
      }))
    fewest = &*common;
  Closure first, all;
  llvm::SmallDenseSet<Operation *> storesOfFirst;
  for (auto [store, each] : llvm::zip_equal(stores, products)) {
    all.add(store);
    if (each.empty() || !(isSame(each, *fewest) || isSame(each, *common)))
      continue;
    first.add(store);
    storesOfFirst.insert(store);
  }
  OpSet others;
  for (Operation *product : all.products)
    if (!first.products.contains(product))
      others.insert(product);
  if (others.empty())
    return std::nullopt;

  OpSet onFirst = getDependents(first.products), onOthers = getDependents(others);
  llvm::SetVector<Value> handed;
  auto handOver = [&](Value value) {
    for (;;) {
      Operation *op = value.getDefiningOp();
      if (!op || !onFirst.contains(op) || onOthers.contains(op))
        return;
      if (!isRepeated(op)) {
        handed.insert(value);
        return;
      }
      value = op->getOperand(0);
    }
  };
  kernel.walk([&](Operation *op) {
    if (onOthers.contains(op) && all.part.ops.contains(op))
      llvm::for_each(op->getOperands(), handOver);
  });
  // In program order, as roles write and read them.
  SmallVector<Value> inOrder;
  kernel.walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (handed.contains(result))
        inOrder.push_back(result);
  });
  ComputeSplit split;
  if (handed.empty() || !groupHandovers(inOrder, split.handovers))
    return std::nullopt;
  Closure second(handed);
  for (StoreOp store : stores)
    if (!storesOfFirst.contains(store))
      second.add(store);
  for (Value value : handed)
    first.add(value);
  auto isIn = [](const OpSet &products, const RolePart &part) {
    return llvm::any_of(products, [&](Operation *op) { return part.ops.contains(op); });
  };
  if (isIn(others, first.part) || isIn(first.products, second.part))
    return std::nullopt;
  // Each copy has a reader, and only one role reduces over warps, for which a kernel has one
  // buffer.
  bool reduces[2] = {false, false};
  WalkResult result = kernel.walk([&](Operation *op) {
    auto isPart = [&](Operation *each) {
      return first.part.ops.contains(each) || second.part.ops.contains(each);
    };
    if (auto reduce = dyn_cast<tile::ReduceOp>(op); reduce && reduce.getDim() == 0) {
      reduces[0] |= first.part.ops.contains(op);
      reduces[1] |= second.part.ops.contains(op);
    }
    auto copy = dyn_cast<CopyAsyncOp>(op);
    return copy && llvm::none_of(copy.getBuffer().getUsers(), isPart) ? WalkResult::interrupt()
                                                                      : WalkResult::advance();
  });
  if (result.wasInterrupted() || (reduces[0] && reduces[1]))
    return std::nullopt;
  split.first = std::move(first.part);
  split.second = std::move(second.part);
  return split;
}
