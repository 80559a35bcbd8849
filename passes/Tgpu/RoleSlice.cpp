// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a kernel's load role would have to do.

#include "passes/Tgpu/RoleSlice.h"
#include "passes/Tgpu/WrittenViews.h"

#include "dialect/Tile/Tile.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

int64_t CopyGroup::getBytes() const {
  int64_t bytes = 0;
  for (CopyAsyncOp copy : copies)
    bytes += tgpu::getBytes(cast<SharedType>(copy.getBuffer().getType()));
  return bytes;
}

scf::ForOp CopyGroup::getLoop() const {
  Operation *parent = block->getParentOp();
  auto loop = dyn_cast<scf::ForOp>(parent);
  return loop ? loop : parent->getParentOfType<scf::ForOp>();
}

TensorMapType tgpu::getTensorMap(KernelOp kernel, Value view, std::optional<ArrayRef<int64_t>> dims,
                                 SharedType buffer) {
  constexpr int64_t mostDims = 5, mostExtent = 256, chunkBytes = 16;
  auto argument = dyn_cast<BlockArgument>(view);
  auto type = cast<tile::ViewType>(view.getType());
  int64_t rank = type.getRank(), bufferRank = buffer.getShape().size();
  if (!argument || argument.getOwner() != &kernel.getBody().front() || rank > mostDims ||
      bufferRank != 2 || rank < 2 || buffer.getElementType() != type.getElementType())
    return {};
  for (auto [candidate, isOptional] : llvm::zip_equal(kernel.getArgs(), kernel.getArgOptional()))
    if (candidate == view && isOptional)
      return {};
  if (dims && ((*dims)[0] != rank - 2 || (*dims)[1] != rank - 1))
    return {};
  int64_t elementBytes = getElementBits(buffer.getElementType()) / 8;
  int64_t rows = buffer.getShape()[0], columns = buffer.getShape()[1];
  if (buffer.getSwizzle() != tgpu::Swizzle::None)
    columns = static_cast<int64_t>(buffer.getSwizzle()) / elementBytes;
  while (rows > mostExtent && rows % 2 == 0)
    rows /= 2;
  if (rows > mostExtent || columns > mostExtent || columns * elementBytes % chunkBytes != 0 ||
      buffer.getShape()[1] % columns != 0)
    return {};
  SmallVector<int64_t> box(rank, 1);
  box[rank - 2] = rows;
  box[rank - 1] = columns;
  return TensorMapType::getChecked([&] { return emitError(kernel.getLoc()); }, kernel.getContext(),
                                   ArrayRef<int64_t>(box), buffer.getElementType(),
                                   buffer.getSwizzle());
}

namespace {

class Slicer {
public:
  Slicer(KernelOp kernel, bool explain) : kernel(kernel), explain(explain), written(kernel) {}

  FailureOr<RoleSlice> run() {
    WalkResult result = kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
      auto copy = dyn_cast<CopyAsyncOp>(op);
      return copy && failed(add(copy)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted() || failed(close()))
      return failure();
    if (slice.groups.empty())
      return FailureOr<RoleSlice>(refuse(kernel, "it copies nothing"));
    return std::move(slice);
  }

private:
  LogicalResult refuse(Operation *op, const Twine &why) {
    if (explain)
      op->emitError() << "kernel cannot be split into roles: " << why
                      << "; use the schedule skeleton=synchronous";
    return failure();
  }

  LogicalResult add(CopyAsyncOp copy) {
    if (!getTensorMap(kernel, copy.getView(), copy.getDims(),
                      cast<SharedType>(copy.getBuffer().getType())))
      return refuse(copy, "there is no tensor map for a copy");
    if (written.contains(copy.getView()))
      return refuse(copy, "the kernel writes to the view that a copy reads");
    auto alloc = copy.getBuffer().getDefiningOp<AllocOp>();
    if (!alloc)
      return refuse(copy, "the buffer of a copy is no result of tgpu.alloc");
    for (Operation *parent = copy->getParentOp(); parent != kernel; parent = parent->getParentOp())
      if (!isa<scf::ForOp, scf::IfOp>(parent))
        return refuse(copy, "a copy lies in '" + parent->getName().getStringRef() + "'");
    Operation *first = nullptr, *last = nullptr, *reader = nullptr;
    for (Operation *user : alloc->getUsers()) {
      if (user == copy)
        continue;
      if (!isa<WgmmaOp, ReadOp, FmaDotOp>(user))
        return refuse(user, "the buffer of a copy is written by others as well");
      Operation *end = user;
      // The operands of a product are read until it has been waited for.
      if (isa<WgmmaOp>(user)) {
        auto wait = user->hasOneUse() ? dyn_cast<WgmmaWaitOp>(*user->user_begin()) : WgmmaWaitOp();
        if (!wait || wait.getPending() != 0)
          return refuse(user, "a product is not waited for at once");
        end = wait;
      }
      Operation *read = user;
      user = copy->getBlock()->findAncestorOpInBlock(*user);
      end = copy->getBlock()->findAncestorOpInBlock(*end);
      if (!user || !end || !copy->isBeforeInBlock(user))
        return refuse(copy, "the buffer of a copy is used where the copy may not have been made");
      if (!first || user->isBeforeInBlock(first) || (user == first && comesBefore(read, reader))) {
        first = user;
        reader = read;
      }
      if (!last || last->isBeforeInBlock(end))
        last = end;
    }
    if (!first)
      return refuse(copy, "nobody uses the buffer of a copy");
    need(copy);
    for (CopyGroup &group : slice.groups)
      if (group.block == copy->getBlock() && group.reader == reader) {
        group.copies.push_back(copy);
        if (group.lastUse->isBeforeInBlock(last))
          group.lastUse = last;
        return success();
      }
    slice.groups.push_back({{copy}, copy->getBlock(), first, last, reader});
    return success();
  }

  /// In the text, of two operations that one operation contains.
  bool comesBefore(Operation *x, Operation *y) {
    if (positions.empty())
      kernel.walk<WalkOrder::PreOrder>(
          [&](Operation *op) { positions.try_emplace(op, positions.size()); });
    return positions.lookup(x) < positions.lookup(y);
  }

  /// The operands of an operation, and what decides whether it is reached.
  void need(Operation *op) {
    llvm::append_range(worklist, op->getOperands());
    needParents(op);
  }

  void needParents(Operation *op) {
    for (Operation *parent = op->getParentOp(); parent != kernel; parent = parent->getParentOp()) {
      if (!slice.needed.insert(parent).second)
        return;
      if (auto loop = dyn_cast<scf::ForOp>(parent))
        worklist.append({loop.getLowerBound(), loop.getUpperBound(), loop.getStep()});
      else
        llvm::append_range(worklist, parent->getOperands());
    }
  }

  LogicalResult close() {
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (isa<SharedType>(value.getType()) || !slice.neededValues.insert(value).second)
        continue;
      if (failed(needValue(value)))
        return failure();
    }
    return success();
  }

  LogicalResult needValue(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation *parent = argument.getOwner()->getParentOp();
      if (parent == kernel)
        return success();
      auto loop = dyn_cast<scf::ForOp>(parent);
      if (!loop)
        return refuse(parent,
                      "the place of a copy depends on '" + parent->getName().getStringRef() + "'");
      if (argument != loop.getInductionVar())
        needCarried(loop, argument.getArgNumber() - 1);
      return success();
    }
    Operation *op = value.getDefiningOp();
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (isa<RankedTensorType>(value.getType()))
        return refuse(op, "the place of a copy depends on a tile");
      needCarried(loop, cast<OpResult>(value).getResultNumber());
      needParents(loop.getBody()->getTerminator());
      return success();
    }
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      worklist.push_back(branch.thenYield().getOperand(number));
      worklist.push_back(branch.elseYield().getOperand(number));
      needParents(branch.thenYield());
      return success();
    }
    if (!written.canComputeAhead(op))
      return refuse(op, "the place of a copy depends on '" + op->getName().getStringRef() + "'");
    if (slice.needed.insert(op).second)
      need(op);
    return success();
  }

  void needCarried(scf::ForOp loop, unsigned number) {
    worklist.push_back(loop.getInitArgs()[number]);
    worklist.push_back(loop.getYieldedValues()[number]);
    slice.neededValues.insert(loop.getRegionIterArgs()[number]);
    slice.neededValues.insert(loop.getResult(number));
  }

  KernelOp kernel;
  bool explain;
  RoleSlice slice;
  WrittenViews written;
  SmallVector<Value> worklist;
  llvm::DenseMap<Operation *, size_t> positions; ///< in the text
};

} // namespace

FailureOr<RoleSlice> RoleSlice::get(KernelOp kernel, bool explain) {
  return Slicer(kernel, explain).run();
}
