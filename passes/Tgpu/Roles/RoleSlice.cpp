// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the operations that the data-moving roles of a kernel need.

#include "passes/Tgpu/Roles/RoleSlice.h"
#include "base/Abi/TensorMapRank.h"
#include "base/Layout/SharedLayout.h"
#include "dialect/Tile/Origin.h"
#include "passes/Tgpu/Analysis/IdleRounds.h"
#include "passes/Tgpu/Analysis/WrittenViews.h"

#include "dialect/Tile/Tile.h"

#include "mlir/IR/Matchers.h"

#include <numeric>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

int64_t CopyGroup::getBytes() const {
  int64_t bytes = getCopiedBytes();
  for (const GatheredRow &row : gathers)
    bytes += tgpu::getBytes(row.slot);
  return bytes;
}

int64_t CopyGroup::getCopiedBytes() const {
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

MappedView MappedView::of(Value view) {
  if (auto paged = view.getDefiningOp<tile::PagedOp>())
    return {paged.getPool(), {}, {}};
  if (auto part = view.getDefiningOp<tile::SubviewOp>())
    return {part.getSource(), part.getOffset(), part.getSize()};
  return {view, {}, {}};
}

/// Whether a value is an argument that may be absent.
static bool isOptional(KernelOp kernel, Value value) {
  return llvm::any_of(llvm::zip_equal(kernel.getArgs(), kernel.getArgOptional()),
                      [&](auto pair) { return std::get<0>(pair) == value && std::get<1>(pair); });
}

/// Stores why there is no tensor map.
static TensorMapType noMap(std::string *why, const Twine &text) {
  if (why)
    *why = text.str();
  return {};
}

/// The name of a kernel's argument, in quotes; of another value, a word for it.
static std::string getName(KernelOp kernel, Value view) {
  auto argument = dyn_cast<BlockArgument>(MappedView::of(view).argument);
  if (!argument || argument.getOwner() != &kernel.getBody().front())
    return "a view";
  return "'" + cast<StringAttr>(kernel.getArgNames()[argument.getArgNumber()]).getValue().str() +
         "'";
}

/// Why a view cannot have a tensor map, whatever the access is; empty if it can.
static std::string whyNotMapped(KernelOp kernel, Value mapped, bool mayBeCaptured) {
  auto argument = dyn_cast<BlockArgument>(mapped);
  bool isArgument = argument ? argument.getOwner() == &kernel.getBody().front()
                             : mayBeCaptured && mapped.getDefiningOp<tile::CapturedOp>();
  if (!isArgument)
    return "its view must be an argument of the kernel, or one part of an argument, but got " +
           tile::describeOrigin(mapped);
  if (isOptional(kernel, mapped))
    return "the argument is optional; copy from one that is not";
  return "";
}

/// The box of rows of a sequence: as many as lie together, in whole repetitions of the swizzle.
static TensorMapType getPagedMap(KernelOp kernel, tile::PagedOp paged,
                                 std::optional<ArrayRef<int64_t>> dims, SharedType buffer,
                                 std::string *why) {
  constexpr int64_t rowsOfSwizzle = 8;
  auto type = cast<tile::ViewType>(paged.getPool().getType());
  int64_t rank = type.getRank();
  if (std::string text = whyNotMapped(kernel, paged.getPool(), false); !text.empty())
    return noMap(why, text);
  if (rank > TensorMapRank::mostOfRaggedView || buffer.getShape().size() != 2 ||
      buffer.getElementType() != type.getElementType())
    return noMap(why,
                 "a tile of pages must have two dimensions and the type of a pool of at most " +
                     Twine(TensorMapRank::mostOfRaggedView));
  // Dimensions count from the rows of the sequence.
  int64_t columnDim = dims ? dims->back() : rank - 2, rowDim = dims ? dims->front() : rank - 3;
  int64_t bits = getElementBits(buffer.getElementType()), rows = buffer.getShape()[0];
  if (columnDim != rank - 2 || rowDim != 0)
    return noMap(why, "rows of the tile must be those of the sequence, and columns run along the "
                      "last dimension of the pool");
  if (buffer.getSwizzle() == tgpu::Swizzle::None)
    return noMap(why, "rows of " + Twine(buffer.getShape()[1] * bits / 8) +
                          " bytes must be a multiple of 32");
  if (int64_t together = paged.getRowsTogether())
    rows = std::gcd(rows, together);
  while (rows > Target::mostBoxExtent && rows % 2 == 0)
    rows /= 2;
  if (rows > Target::mostBoxExtent || rows % rowsOfSwizzle != 0)
    return noMap(why, Twine(rows) + (rows == 1 ? " row of a tile lies" : " rows of a tile lie") +
                          " together in a page; use pages of a multiple of 8 rows");
  SmallVector<int64_t> box(rank, 1);
  box[1] = rows;
  box[rank - 1] = 8 * layout::panelBytes(buffer.getSwizzle()) / bits;
  return TensorMapType::getChecked([&] { return emitError(kernel.getLoc()); }, kernel.getContext(),
                                   ArrayRef<int64_t>(box), buffer.getElementType(),
                                   buffer.getSwizzle(), /*ragged=*/int64_t(1));
}

TensorMapType tgpu::getTensorMap(KernelOp kernel, Operation *access, Value view,
                                 std::optional<ArrayRef<int64_t>> dims, bool isOfFirst,
                                 SharedType buffer, std::string *why) {
  if (auto paged = view.getDefiningOp<tile::PagedOp>())
    return isa<CopyAsyncOp>(access) ? getPagedMap(kernel, paged, dims, buffer, why)
                                    : TensorMapType();
  constexpr int64_t mostExtent = Target::mostBoxExtent, chunkBytes = 16;
  auto part = view.getDefiningOp<tile::SubviewOp>();
  auto type = cast<tile::ViewType>(view.getType());
  int64_t rank = type.getRank(), bufferRank = buffer.getShape().size();
  int64_t ragged = part ? static_cast<int64_t>(part.getDim()) : -1;
  // A ragged map has additional dimensions, but none for a first dimension of which only element 0
  // is copied.
  int64_t mostDims = TensorMapRank::most - (part ? TensorMapRank::ofRagged : 0) +
                     (ragged > 0 && isOfFirst ? 1 : 0);
  if (std::string text = whyNotMapped(kernel, MappedView::of(view).argument, true); !text.empty())
    return noMap(why, text);
  if (rank > mostDims)
    return noMap(why, "its view has rank " + Twine(rank) + ", but at most " + Twine(mostDims) +
                          " is possible" + (part ? " of a part by tile.subview" : ""));
  if (bufferRank > 2 || rank < bufferRank || buffer.getElementType() != type.getElementType())
    return noMap(why, "a tile must have at most two dimensions, and the type of its view");
  int64_t columnDim = dims ? dims->back() : rank - 1;
  int64_t rowDim = bufferRank == 1 ? -1 : dims ? dims->front() : rank - 2;
  bool leavesOutFirst = part && rank + TensorMapRank::ofRagged > TensorMapRank::most;
  if (columnDim != rank - 1 || rowDim > rank - 2)
    return noMap(why, "columns of the tile run along dimension " + Twine(columnDim) +
                          " of the view, but must along the last, whose elements are contiguous");
  if (ragged == rank - 1)
    return noMap(why, "tile.subview takes a part of the last dimension");
  if (leavesOutFirst && rowDim == 0)
    return noMap(
        why,
        "rows run along the first of " + Twine(rank) +
            " dimensions of a part by tile.subview; add a dimension of one element before them");
  if (part && !startsInsideAttr.isOn(access))
    return noMap(why, "it may begin before the part of its view by tile.subview; use indices that "
                      "are products and sums of numbers of the grid and of positive constants");
  int64_t elementBytes = getElementBits(buffer.getElementType()) / 8;
  int64_t rows = bufferRank == 2 ? buffer.getShape()[0] : 1, columns = buffer.getShape().back();
  if (buffer.getSwizzle() != tgpu::Swizzle::None)
    columns = layout::panelBytes(buffer.getSwizzle()) / elementBytes;
  while (rows > mostExtent && rows % 2 == 0)
    rows /= 2;
  if (rows > mostExtent || columns > mostExtent)
    return noMap(why, "a box has at most " + Twine(mostExtent) + " rows and columns, but got " +
                          Twine(rows) + "x" + Twine(columns) + "; use smaller blocks");
  if (columns * elementBytes % chunkBytes != 0 ||
      (buffer.getShape().back() % columns != 0 && buffer.getSwizzle() == tgpu::Swizzle::None))
    return noMap(why, "rows of " + Twine(columns * elementBytes) +
                          " bytes must be a multiple of 16; use wider blocks");
  SmallVector<int64_t> box(rank, 1);
  if (bufferRank == 2)
    box[rowDim] = rows;
  box[rank - 1] = columns;
  return TensorMapType::getChecked([&] { return emitError(kernel.getLoc()); }, kernel.getContext(),
                                   ArrayRef<int64_t>(box), buffer.getElementType(),
                                   buffer.getSwizzle(), ragged);
}

/// Whether a branch condition is a tgpu.any.
static bool isVote(Value condition) {
  Operation *op = condition.getDefiningOp();
  return op && (isa<AnyOp>(op) || (isa<scf::IfOp>(op) && op->walk([](AnyOp) {
                                                             return WalkResult::interrupt();
                                                           }).wasInterrupted()));
}

scf::ForOp tgpu::getScratchLoop(AllocOp alloc) {
  scf::ForOp loop;
  bool isWritten = false;
  for (Operation *user : alloc->getUsers()) {
    auto parent = user->getParentOfType<scf::ForOp>();
    if (!isa<WriteSharedOp, WgmmaOp>(user) || !parent || (loop && loop != parent))
      return {};
    loop = parent;
    isWritten |= isa<WriteSharedOp>(user);
    for (Operation *op = user->getParentOp(); op != loop; op = op->getParentOp()) {
      auto branch = dyn_cast<scf::IfOp>(op);
      if (!branch || !(specialCaseAttr.isOn(branch) || isVote(branch.getCondition())))
        return {};
    }
  }
  return isWritten ? loop : scf::ForOp();
}

namespace {

class Slicer {
public:
  Slicer(KernelOp kernel, bool explain) : kernel(kernel), explain(explain), written(kernel) {}

  FailureOr<RoleSlice> run() {
    // Rows last: they join groups of tiles.
    for (bool rows : {false, true}) {
      WalkResult result = kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
        auto copy = dyn_cast<CopyAsyncOp>(op);
        return copy && isRow(copy) == rows && failed(add(copy)) ? WalkResult::interrupt()
                                                                : WalkResult::advance();
      });
      if (result.wasInterrupted())
        return failure();
    }
    if (failed(close()))
      return failure();
    FailureOr<std::optional<SpreadWork>> spread = SpreadWork::get(kernel, explain);
    if (failed(spread))
      return failure();
    slice.spread = *spread;
    if (slice.groups.empty())
      return FailureOr<RoleSlice>(reject(kernel, "it must have a copy, but has none"));
    part = &slice.reduce;
    kernel.walk([&](AtomicAddOp op) { addReduction(op); });
    if (slice.reductions.empty() && !slice.spread)
      addGathers();
    return std::move(slice);
  }

private:
  LogicalResult reject(Operation *op, const Twine &why) {
    if (explain)
      op->emitError() << "kernel cannot be split into roles: " << why
                      << "; use the schedule skeleton=synchronous";
    return failure();
  }

  static bool isRow(CopyAsyncOp copy) {
    return cast<SharedType>(copy.getBuffer().getType()).getShape().size() == 1;
  }

  LogicalResult add(CopyAsyncOp copy) {
    std::string why;
    if (!getTensorMap(kernel, copy, cast<SharedType>(copy.getBuffer().getType()), &why))
      return reject(copy, "there is no tensor map for a copy of " +
                              getName(kernel, copy.getView()) + ": " + why);
    if (written.contains(copy.getView()))
      return reject(copy, "the view that a copy reads must not be written in the kernel, but is");
    auto alloc = copy.getBuffer().getDefiningOp<AllocOp>();
    if (!alloc)
      return reject(copy, "the buffer of a copy must be the result of tgpu.alloc, but got " +
                              Twine(tile::describeOrigin(copy.getBuffer())));
    for (Operation *parent = copy->getParentOp(); parent != kernel; parent = parent->getParentOp())
      if (!isa<scf::ForOp, scf::IfOp>(parent))
        return reject(copy, "a copy must be nested in scf.for and scf.if only, but got '" +
                                parent->getName().getStringRef() + "'");
    Operation *first = nullptr, *last = nullptr, *reader = nullptr;
    for (Operation *user : alloc->getUsers()) {
      if (user == copy)
        continue;
      if (!isa<WgmmaOp, ReadOp, FmaDotOp>(user))
        return reject(user, "the buffer of a copy must be written by copies only, but got '" +
                                user->getName().getStringRef() + "'");
      Operation *end = user;
      // A product reads its operands until its wait.
      if (isa<WgmmaOp>(user)) {
        auto wait = user->hasOneUse() ? dyn_cast<WgmmaWaitOp>(*user->user_begin()) : WgmmaWaitOp();
        if (!wait || wait.getPending() != 0)
          return reject(
              user, "the result of a product must have one use, its wait for all groups, "
                    "but got " +
                        Twine(wait ? "a wait that leaves groups pending" : "other uses or none"));
        end = wait;
      }
      Operation *read = user;
      user = copy->getBlock()->findAncestorOpInBlock(*user);
      end = copy->getBlock()->findAncestorOpInBlock(*end);
      if (!user || !end || !copy->isBeforeInBlock(user))
        return reject(copy,
                      "the buffer of a copy must be used where the copy has been executed, but "
                      "is used before it or outside of its branch");
      if (!first || user->isBeforeInBlock(first) || (user == first && comesBefore(read, reader))) {
        first = user;
        reader = read;
      }
      if (!last || last->isBeforeInBlock(end))
        last = end;
    }
    if (!first)
      return reject(copy, "the copied buffer must be read, but has no reader");
    need(copy);
    if (CopyGroup *group = findGroup(copy, reader)) {
      auto *place = llvm::find_if(group->copies,
                                  [&](CopyAsyncOp other) { return copy->isBeforeInBlock(other); });
      group->copies.insert(place, copy);
      if (group->lastUse->isBeforeInBlock(last))
        group->lastUse = last;
      return success();
    }
    slice.groups.push_back({{copy}, copy->getBlock(), first, last, reader, {}});
    return success();
  }

  /// The group that a copy joins, given the first reader of its buffer.
  CopyGroup *findGroup(CopyAsyncOp copy, Operation *reader) {
    CopyGroup *best = nullptr;
    for (CopyGroup &group : slice.groups) {
      if (group.block != copy->getBlock())
        continue;
      if (group.reader == reader)
        return &group;
      if (isRow(copy) && comesBefore(group.reader, reader) &&
          (!best || comesBefore(best->reader, group.reader)))
        best = &group;
    }
    return best;
  }

  /// Additions of accumulators in loops can be made by another role. The kernel must not read the
  /// view.
  void addReduction(AtomicAddOp add) {
    auto tile = cast<RankedTensorType>(add.getValue().getType());
    bool isInLoop = false;
    for (Operation *parent = add->getParentOp(); parent != kernel; parent = parent->getParentOp()) {
      if (!isa<scf::ForOp, scf::IfOp>(parent))
        return;
      isInLoop |= isa<scf::ForOp>(parent);
    }
    if (!isInLoop || tile.getRank() != 2 || !isa<WgmmaAttr>(tile.getEncoding()) ||
        !tile.getElementType().isF32() || isRead(add.getView()))
      return;
    int64_t rank = cast<tile::ViewType>(add.getView().getType()).getRank();
    auto dims = add.getDims();
    bool isTransposed = dims && (*dims)[0] == rank - 1 && (*dims)[1] == rank - 2;
    SmallVector<int64_t> shape(tile.getShape());
    if (isTransposed)
      std::swap(shape[0], shape[1]);
    // Untransposed, a half warp stores 8 bytes to each of four rows: no bank conflict in 32-byte
    // panels, two-way in wider ones. Transposed, it stores 4 bytes each, conflict-free in the
    // widest panels.
    auto widest = layout::SharedLayout::widestSwizzle(
        shape[1], static_cast<int>(getElementBits(tile.getElementType())));
    auto swizzle = isTransposed ? widest : std::min(widest, Swizzle::B32);
    auto slot = SharedType::get(add.getContext(), shape, tile.getElementType(), swizzle);
    TensorMapType tensorMap = getTensorMap(kernel, add, isTransposed ? std::nullopt : dims, slot);
    if (!tensorMap)
      return;
    RolePart before = slice.reduce;
    llvm::DenseSet<Operation *> assumedBefore = slice.assumed;
    need(add);
    // The role needs the indices of the tile, not the tile.
    llvm::erase_if(worklist, [](Value value) { return isa<RankedTensorType>(value.getType()); });
    bool explains = std::exchange(explain, false);
    bool isKnown = succeeded(close());
    explain = explains;
    worklist.clear();
    if (!isKnown) {
      slice.reduce = std::move(before);
      slice.assumed = std::move(assumedBefore);
      return;
    }
    for (Reduction &reduction : slice.reductions)
      if (reduction.ops.front().getView() == add.getView() && reduction.map == tensorMap &&
          reduction.slot == slot && reduction.isTransposed == isTransposed) {
        reduction.ops.push_back(add);
        return;
      }
    slice.reductions.push_back({{add}, slot, tensorMap, isTransposed});
  }

  /// Rows that loops of copies gather can be gathered by another role. Backwards, so that what only
  /// other gathers read, such as numbers of pages, is not added.
  void addGathers() {
    SmallVector<tile::GatherOp> ops;
    kernel.walk([&](tile::GatherOp op) { ops.push_back(op); });
    llvm::DenseSet<Operation *> moved;
    for (tile::GatherOp op : llvm::reverse(ops)) {
      bool isIndex =
          llvm::all_of(op->getUsers(), [&](Operation *user) { return moved.contains(user); });
      if (!isIndex)
        addGather(op, moved);
    }
  }

  void addGather(tile::GatherOp op, llvm::DenseSet<Operation *> &moved) {
    auto loop = op->getParentOfType<scf::ForOp>();
    CopyGroup *first = nullptr;
    for (CopyGroup &group : slice.groups)
      if (loop && group.block == loop.getBody() &&
          (!first || comesBefore(group.reader, first->reader)))
        first = &group;
    auto type = cast<RankedTensorType>(op.getResult().getType());
    constexpr int64_t chunkBits = 128;
    if (!first || type.getRank() != 1 || type.getElementType().isInteger(1) ||
        type.getNumElements() * getElementBits(type.getElementType()) % chunkBits != 0)
      return;
    FailureOr<GatherSlice> own = GatherSlice::get(op, written);
    if (failed(own))
      return;
    RolePart before = slice.gather;
    part = &slice.gather;
    part->ops.insert(loop);
    worklist.append({getFirstOfAll(loop.getLowerBound()), loop.getUpperBound(), loop.getStep()});
    needParents(loop);
    // What sides of a branch compute is computed again.
    SetVector<Value> scalars(own->scalars);
    for (size_t i = 0; i < scalars.size(); ++i) {
      Operation *def = scalars[i].getDefiningOp();
      if (def && loop->isProperAncestor(def) && def->getBlock() != loop.getBody())
        scalars.insert_range(def->getOperands());
      else
        worklist.push_back(scalars[i]);
    }
    bool explains = std::exchange(explain, false);
    bool isKnown = succeeded(close());
    explain = explains;
    worklist.clear();
    if (!isKnown) {
      slice.gather = std::move(before);
      return;
    }
    moved.insert_range(own->tiles);
    for (GatheredRow &row : first->gathers)
      if (areSameGathers(row.ops.front(), op))
        return row.ops.push_back(op);
    auto slot = SharedType::get(op.getContext(), type.getShape(), type.getElementType(),
                                tgpu::Swizzle::None);
    first->gathers.push_back({{op}, slot, {}});
  }

  /// Whether instances access this memory, through this view or an alias, other than by additions.
  static bool isRead(Value view) {
    auto reads = [](Operation *user) {
      return !isa<AtomicAddOp, tile::DimOp>(user) && !user->getParentOfType<tile::SpreadOp>();
    };
    Value argument = MappedView::of(view).argument;
    return llvm::any_of(argument.getUsers(), [&](Operation *user) {
      return isa<tile::SubviewOp>(user) ? llvm::any_of(user->getUsers(), reads) : reads(user);
    });
  }

  /// Whether `x` precedes `y`, where some operation contains both.
  bool comesBefore(Operation *x, Operation *y) {
    if (positions.empty())
      kernel.walk<WalkOrder::PreOrder>(
          [&](Operation *op) { positions.try_emplace(op, positions.size()); });
    return positions.lookup(x) < positions.lookup(y);
  }

  /// Marks the operands of an operation, and the conditions that guard it, as needed.
  void need(Operation *op) {
    llvm::append_range(worklist, op->getOperands());
    needParents(op);
  }

  void needParents(Operation *op) {
    for (Operation *parent = op->getParentOp(); parent != kernel; parent = parent->getParentOp()) {
      if (!part->ops.insert(parent).second)
        return;
      if (auto loop = dyn_cast<scf::ForOp>(parent))
        worklist.append(
            {getFirstOfAll(loop.getLowerBound()), loop.getUpperBound(), loop.getStep()});
      else if (part == &slice.reduce && isUsuallyTrue(parent->getOperand(0)))
        slice.assumed.insert(parent);
      else
        llvm::append_range(worklist, parent->getOperands());
    }
  }

  /// Whether a condition is a branch with one side constantly true: a tgpu.any that is executed
  /// only if the ranges do not determine its result.
  static bool isUsuallyTrue(Value condition) {
    auto branch = condition.getDefiningOp<scf::IfOp>();
    if (!branch || !branch.elseBlock())
      return false;
    unsigned number = cast<OpResult>(condition).getResultNumber();
    return matchPattern(branch.thenYield().getOperand(number), m_One());
  }

  LogicalResult close() {
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (isa<SharedType>(value.getType()) || !part->values.insert(value).second)
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
        return reject(parent, "the indices of a copy must be computed ahead, but got '" +
                                  parent->getName().getStringRef() + "'");
      if (argument != loop.getInductionVar())
        needCarried(loop, argument.getArgNumber() - 1);
      return success();
    }
    Operation *op = value.getDefiningOp();
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (isa<RankedTensorType>(value.getType()))
        return reject(op, "the indices of a copy must be computed ahead, but got a tile");
      needCarried(loop, cast<OpResult>(value).getResultNumber());
      needParents(loop.getBody()->getTerminator());
      return success();
    }
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      if (slice.assumed.contains(branch))
        return reject(op, "the indices of an addition must be computed ahead, but got tgpu.any");
      unsigned number = cast<OpResult>(value).getResultNumber();
      worklist.push_back(branch.thenYield().getOperand(number));
      worklist.push_back(branch.elseYield().getOperand(number));
      needParents(branch.thenYield());
      return success();
    }
    if (!written.canComputeAhead(op))
      return reject(op, "the indices of a copy must be computed ahead, but got '" +
                            op->getName().getStringRef() + "'");
    if (part->ops.insert(op).second)
      need(op);
    return success();
  }

  void needCarried(scf::ForOp loop, unsigned number) {
    worklist.push_back(loop.getInitArgs()[number]);
    worklist.push_back(loop.getYieldedValues()[number]);
    part->values.insert(loop.getRegionIterArgs()[number]);
    part->values.insert(loop.getResult(number));
  }

  KernelOp kernel;
  bool explain;
  RoleSlice slice;
  RolePart *part = &slice.load; ///< the part that is being collected
  WrittenViews written;
  SmallVector<Value> worklist;
  llvm::DenseMap<Operation *, size_t> positions; ///< in program order
};

} // namespace

FailureOr<RoleSlice> RoleSlice::get(KernelOp kernel, bool explain) {
  return Slicer(kernel, explain).run();
}
