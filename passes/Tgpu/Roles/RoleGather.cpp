// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows that iterations gather, such as a factor for each key of a cache in pages. No tensor map
// describes them. If their indices depend only on the number of the iteration, two warps, the role
// "gather", compute the indices and gather the rows iterations ahead, into rings that share the
// barriers of the copies that are read first: the roles that compute wait once for both.
//
//   full    completes when the copies have arrived, and each warp has written its rows
//   empty   acquired by both roles
//
// A row is read from memory before its slot is acquired, so that the warps are one iteration
// further ahead than the ring has slots.

#include "passes/Tgpu/Analysis/TileQueries.h"
#include "passes/Tgpu/Roles/RoleWriter.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

FailureOr<GatherSlice> GatherSlice::get(tile::GatherOp gather, const WrittenViews &written) {
  llvm::SetVector<Operation *> reached;
  reached.insert(gather);
  GatherSlice slice;
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation *op = reached[i];
    auto read = dyn_cast<tile::GatherOp>(op);
    bool isKnown = isa<tile::FullOp, tile::IotaOp, ConvertOp>(op) ||
                   (tgpu::isElementwise(op) && isMemoryEffectFree(op)) ||
                   (read && !written.contains(read.getView()));
    if (!isKnown || cast<RankedTensorType>(op->getResult(0).getType()).getRank() != 1)
      return failure();
    for (Value operand : op->getOperands()) {
      if (isa<SharedType>(operand.getType()))
        continue;
      if (!tgpu::isTile(operand))
        slice.scalars.insert(operand);
      else if (!operand.getDefiningOp())
        return failure();
      else
        reached.insert(operand.getDefiningOp());
    }
  }
  // Operands first.
  auto hasAll = [&](Operation *op) {
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return !tgpu::isTile(operand) || slice.tiles.contains(operand.getDefiningOp());
    });
  };
  while (slice.tiles.size() < reached.size())
    for (Operation *op : llvm::reverse(reached))
      if (hasAll(op))
        slice.tiles.insert(op);
  return slice;
}

static Value skipConversions(Value value) {
  while (auto convert = value.getDefiningOp<ConvertOp>())
    value = convert.getSource();
  return value;
}

static bool areSame(Value x, Value y, llvm::DenseSet<std::pair<Value, Value>> &known) {
  x = skipConversions(x);
  y = skipConversions(y);
  if (x == y || known.contains({x, y}))
    return true;
  Operation *a = x.getDefiningOp(), *b = y.getDefiningOp();
  if (!a || !b || a->getName() != b->getName() || a->getNumRegions() != 0 ||
      a->getNumResults() != 1 || a->getNumOperands() != b->getNumOperands() ||
      a->getAttrDictionary() != b->getAttrDictionary() ||
      !(isMemoryEffectFree(a) || isa<tile::GatherOp>(a)) ||
      getElementTypeOrSelf(x.getType()) != getElementTypeOrSelf(y.getType()))
    return false;
  for (auto [of, other] : llvm::zip_equal(a->getOperands(), b->getOperands()))
    if (!areSame(of, other, known))
      return false;
  known.insert({x, y});
  return true;
}

bool tgpu::areSameGathers(tile::GatherOp x, tile::GatherOp y) {
  llvm::DenseSet<std::pair<Value, Value>> known;
  return x.getResult().getType() == y.getResult().getType() &&
         areSame(x.getResult(), y.getResult(), known);
}

/// Erases operations, users first, that nothing reads any more.
static void eraseUnused(ArrayRef<Operation *> ops) {
  for (Operation *op : llvm::reverse(ops)) {
    if (!op->use_empty())
      continue;
    auto convert = dyn_cast<ConvertOp>(op);
    Operation *scratch =
        convert && convert.getScratch() ? convert.getScratch().getDefiningOp() : nullptr;
    op->erase();
    if (scratch && scratch->use_empty())
      scratch->erase();
  }
}

void RoleWriter::detachGathers() {
  for (CopyGroup &group : slice.groups) {
    for (const GatheredRow &row : group.gathers)
      for (Operation *op : row.ops) {
        Operation *reader = group.block->findAncestorOpInBlock(*op);
        if (reader->isBeforeInBlock(group.firstUse))
          group.firstUse = reader;
        if (group.lastUse->isBeforeInBlock(reader))
          group.lastUse = reader;
      }
    IRMapping clones; // rows of a loop share what their indices have in common
    b.setInsertionPoint(group.firstUse);
    for (GatheredRow &row : group.gathers)
      detachGather(group, row, clones);
  }
}

void RoleWriter::detachGather(CopyGroup &group, GatheredRow &row, IRMapping &clones) {
  auto slices = llvm::map_to_vector(
      row.ops, [&](tile::GatherOp op) { return *GatherSlice::get(op, written); });
  auto clone = [&](Operation *op) {
    Operation *copy = b.clone(*op, clones);
    for (Value result : copy->getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType())) {
        constexpr int64_t bits = 32; // one layout for indices and what they select
        Attribute layout = tgpu::getBlocked(b.getContext(), type.getShape(), bits, gatherWarps);
        result.setType(RankedTensorType::get(type.getShape(), type.getElementType(), layout));
      }
    gatherOps.insert(copy);
    lastGathers[group.block] = copy;
  };
  // Scalars that a side of a branch computes.
  std::function<void(Value)> cloneScalar = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || clones.contains(value) || op->getBlock() == group.block ||
        !group.block->getParentOp()->isProperAncestor(op))
      return;
    llvm::for_each(op->getOperands(), cloneScalar);
    clone(op);
  };
  llvm::for_each(slices.front().scalars, cloneScalar);
  for (Operation *op : slices.front().tiles) {
    Value result = op->getResult(0);
    if (auto convert = dyn_cast<ConvertOp>(op))
      clones.map(result, clones.lookup(convert.getSource()));
    else if (!clones.contains(result))
      clone(op);
  }
  row.gathered = clones.lookup(row.ops.front().getResult());
  // What is left in its place says where the row is read.
  for (auto [op, own] : llvm::zip_equal(row.ops, slices)) {
    op.getAtMutable().assign(row.gathered.getDefiningOp<tile::GatherOp>().getAt());
    own.tiles.remove(op);
    eraseUnused(own.tiles.getArrayRef());
  }
}

void RoleWriter::writeForGather(Operation &op) {
  if (!gatherOps.contains(&op)) {
    if (has(&op))
      writeOp(op);
    return;
  }
  b.clone(op, map);
  // All rows have been read, and none has been written.
  if (lastGathers.lookup(op.getBlock()) != &op)
    return;
  for (auto [i, channel] : llvm::enumerate(channels)) {
    if (!channel.concerns(role) || channel.group->block != op.getBlock())
      continue;
    AcquireOp::create(b, channel.empty, uses[i]);
    for (auto [j, row] : llvm::enumerate(channel.group->gathers))
      WriteSharedOp::create(b, map.lookup(row.gathered),
                            getSlot(i, channel.group->copies.size() + j),
                            /*transpose=*/false);
    ArriveOp::create(b, channel.full, uses[i], ArriveScope::Warp);
    uses[i] = arith::AddIOp::create(b, uses[i], i32(1));
  }
}

bool RoleWriter::readGathered(Operation &op) {
  auto gather = dyn_cast<tile::GatherOp>(op);
  for (auto [i, channel] : llvm::enumerate(channels)) {
    if (!gather || !channel.group)
      continue;
    for (auto [j, row] : llvm::enumerate(channel.group->gathers)) {
      if (!llvm::is_contained(row.ops, gather))
        continue;
      Value slot = getSlot(i, channel.group->copies.size() + j);
      map.map(
          gather.getResult(),
          ReadOp::create(b, gather.getResult().getType(), slot, /*transpose=*/false).getResult());
      return true;
    }
  }
  return false;
}
