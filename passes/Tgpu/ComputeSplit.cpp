// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The division follows from dependences alone:
//
//   first role    the result with the fewest products, and what depends on its products but on no
//                 other product
//   second role   all other results
//
// What depends on no product, such as positions and rows of other operands, is computed by each
// role that needs it.

#include "passes/Tgpu/ComputeSplit.h"

#include "passes/Tgpu/RoleSlice.h"
#include "passes/Tgpu/WrittenViews.h"

#include "base/Layout/SharedLayout.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
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

/// The operations of an iteration that depend on the results of products, and these.
OpSet getDependents(const OpSet &products) {
  OpSet dependents = products;
  for (size_t i = 0; i < dependents.size(); ++i)
    for (OpOperand &use : dependents[i]->getUses()) {
      Operation *user = use.getOwner();
      if (auto branch = dyn_cast<scf::IfOp>(user->getParentOp());
          branch && user->hasTrait<OpTrait::IsTerminator>()) {
        for (Operation *reader : branch.getResult(use.getOperandNumber()).getUsers())
          if (!reader->hasTrait<OpTrait::IsTerminator>() && reader->getNumRegions() == 0)
            dependents.insert(reader);
      } else if (!user->hasTrait<OpTrait::IsTerminator>() && user->getNumRegions() == 0) {
        dependents.insert(user);
      }
    }
  return dependents;
}

/// Whether the second role should repeat an operation, because its operand is no larger than its
/// result and in the layout that results of products have.
bool isRepeated(Operation *op) {
  if (auto convert = dyn_cast<ConvertOp>(op))
    return !convert.getScratch();
  if (!isa<tile::CastOp>(op))
    return false;
  auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  return from && to && getElementBits(from.getElementType()) <= getElementBits(to.getElementType());
}

/// The type of a slot for a tile that threads write and read in the layout of products; null for
/// other types.
SharedType getSlotType(Value value) {
  auto tile = dyn_cast<RankedTensorType>(value.getType());
  if (!tile || tile.getRank() != 2 || !isa<WgmmaAttr>(tile.getEncoding()) ||
      !isa<FloatType>(tile.getElementType()))
    return {};
  auto bits = static_cast<int>(getElementBits(tile.getElementType()));
  return SharedType::get(value.getContext(), tile.getShape(), tile.getElementType(),
                         layout::SharedLayout::widestSwizzle(tile.getShape()[1], bits));
}

/// Groups values that are handed over: those of one block have a ring each, and the two sides of a
/// branch share rings. Returns false if the values lie elsewhere.
bool groupHandovers(ArrayRef<Value> values, SmallVectorImpl<ComputeSplit::Handover> &handovers) {
  SmallVector<Block *> blocks;
  SmallVector<size_t> counts;
  for (Value value : values) {
    SharedType slot = getSlotType(value);
    auto *op = value.getDefiningOp();
    if (!slot || !op || !op->getParentOfType<scf::ForOp>())
      return false;
    if (blocks.empty() || blocks.back() != op->getBlock()) {
      blocks.push_back(op->getBlock());
      counts.push_back(0);
    }
    size_t number = counts.back()++;
    if (blocks.size() == 1)
      handovers.push_back({{}, slot});
    if (number >= handovers.size() || handovers[number].slot != slot)
      return false;
    handovers[number].values.push_back(value);
  }
  if (blocks.size() == 1)
    return true;
  return blocks.size() == 2 && counts[0] == counts[1] && isa<scf::IfOp>(blocks[0]->getParentOp()) &&
         blocks[0]->getParentOp() == blocks[1]->getParentOp();
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

std::optional<ComputeSplit> ComputeSplit::get(KernelOp kernel) {
  SmallVector<StoreOp> stores;
  llvm::DenseSet<Value> roots;
  WrittenViews written(kernel);
  bool isOrdered = false; // stores whose order matters
  WalkResult effects = kernel.walk([&](Operation *op) {
    if (auto store = dyn_cast<StoreOp>(op)) {
      stores.push_back(store);
      isOrdered |= !roots.insert(getViewRoot(store.getView())).second;
    }
    auto convert = dyn_cast<ConvertOp>(op);
    bool isOther =
        isa<AtomicAddOp, tile::ScatterAddOp, tile::AddAtOp, tile::SpreadOp, AnyOp, WriteSharedOp>(
            op) ||
        (convert && convert.getScratch()) || readsWritten(op, written);
    return isOther ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (effects.wasInterrupted() || isOrdered || stores.size() < 2)
    return std::nullopt;

  StoreOp smallest;
  size_t fewest = 0;
  for (StoreOp store : stores) {
    Closure closure;
    closure.add(store);
    size_t count = closure.products.size();
    if (count > 0 && (!smallest || count < fewest)) {
      smallest = store;
      fewest = count;
    }
  }
  if (!smallest)
    return std::nullopt;
  Closure first, all;
  first.add(smallest);
  for (StoreOp store : stores)
    all.add(store);
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
    if (store != smallest)
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
