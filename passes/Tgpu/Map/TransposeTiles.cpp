// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With few queries, such as those of decoding, a score tile in the usual orientation would have 64
// rows of which most are padding, whose exponentials and conversions cost as much as others. With
// keys as rows, a thread has an element for each 128 of the tile, and each operand of 128 keys is
// read once.

#include "passes/Tgpu/Map/TransposeTiles.h"

#include "dialect/Tgpu/MatrixShape.h"
#include "dialect/Tgpu/Tgpu.h"
#include "passes/Tgpu/Analysis/TileQueries.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

RankedTensorType tgpu::getTransposed(Type type) {
  auto tile = cast<RankedTensorType>(type);
  return RankedTensorType::get({tile.getDimSize(1), tile.getDimSize(0)}, tile.getElementType(),
                               tile.getEncoding());
}

DenseI64ArrayAttr tgpu::swapDims(std::optional<ArrayRef<int64_t>> given, Value view) {
  int64_t rank = tile::getRank(view.getType());
  SmallVector<int64_t> dims{rank - 2, rank - 1};
  if (given)
    dims.assign(given->begin(), given->end());
  std::swap(dims[0], dims[1]);
  bool isDefault = dims[0] == rank - 2 && dims[1] == rank - 1;
  return isDefault ? DenseI64ArrayAttr() : DenseI64ArrayAttr::get(view.getContext(), dims);
}

namespace {

bool isMatrix(Value value) {
  return value && isa<RankedTensorType>(value.getType()) &&
         cast<RankedTensorType>(value.getType()).getRank() == 2;
}

/// Whether C^T, but not C, can be distributed over warpgroups.
bool hasFewRows(tile::DotOp dot) {
  Type element = tile::getElementType(dot.getLhs().getType());
  auto shape = cast<RankedTensorType>(dot.getType()).getShape();
  constexpr int64_t columnsOfAtom = 8;
  return (element.isF16() || element.isBF16()) && shape[0] < rowsOfWarpgroup &&
         shape[0] % columnsOfAtom == 0 && shape[1] % rowsOfWarpgroup == 0;
}

/// Made anew where it is used.
bool isMadeAnew(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !tgpu::isRematerialized(value))
    return false;
  auto constant = dyn_cast<arith::ConstantOp>(op);
  return !constant || isa<SplatElementsAttr>(constant.getValue());
}

class TileTransposer {
public:
  explicit TileTransposer(tile::KernelOp kernel) : kernel(kernel), b(kernel.getContext()) {}

  bool run() {
    bool canTranspose = false;
    WalkResult walk = kernel.walk([&](tile::DotOp dot) {
      canTranspose = hasFewRows(dot);
      return canTranspose ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (walk.wasInterrupted() || !canTranspose)
      return false;
    kernel.walk([&](tile::DotOp dot) { add(dot.getResult()); });
    while (!worklist.empty())
      visit(worklist.pop_back_val());
    // Uses and definitions are collected before any of them changes.
    llvm::SetVector<Operation *> users;
    SmallVector<Value> defined;
    for (Value value : turned) {
      for (Operation *user : value.getUsers())
        users.insert(user);
      if (Operation *op = value.getDefiningOp())
        users.insert(op);
      else if (auto argument = cast<BlockArgument>(value))
        users.insert(argument.getOwner()->getParentOp());
    }
    for (Value value : turned)
      if (!isDefinedTransposed(value))
        defined.push_back(value);
    for (Operation *op : users)
      rewriteUses(op);
    for (Value value : turned)
      if (!llvm::is_contained(defined, value))
        value.setType(getTransposed(value.getType()));
    for (Operation *op : users)
      rewriteOp(op);
    for (Value value : defined)
      transposeDefinition(value);
    return true;
  }

private:
  void add(Value value) {
    if (isMatrix(value) && !isMadeAnew(value) && turned.insert(value))
      worklist.push_back(value);
  }

  void addAll(ValueRange values) {
    llvm::for_each(values, [&](Value value) { add(value); });
  }

  /// Operations whose tiles of rank 2 all have one orientation.
  static bool keepsPlaces(Operation *op) {
    return tgpu::isElementwise(op) && !isa<tile::RandomOp>(op);
  }

  /// What a loop carries in the place of a value.
  void addCarried(Operation *op, unsigned number) {
    auto loop = cast<LoopLikeOpInterface>(op);
    addAll({loop.getInits()[number], loop.getRegionIterArgs()[number],
            loop.getYieldedValues()[number], op->getResult(number)});
  }

  void addBranch(scf::IfOp branch, unsigned number) {
    add(branch.getResult(number));
    add(branch.thenYield().getOperand(number));
    add(branch.elseYield().getOperand(number));
  }

  static bool isLoop(Operation *op) { return isa<scf::ForOp, tile::ForBlocksOp>(op); }

  void visit(Value value) {
    if (Operation *op = value.getDefiningOp()) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      if (auto dot = dyn_cast<tile::DotOp>(op))
        add(dot.getAcc());
      else if (keepsPlaces(op))
        addAll(op->getOperands());
      else if (isLoop(op))
        addCarried(op, number);
      else if (auto branch = dyn_cast<scf::IfOp>(op))
        addBranch(branch, number);
      if (keepsPlaces(op))
        addAll(op->getResults());
    } else if (auto argument = cast<BlockArgument>(value);
               isLoop(argument.getOwner()->getParentOp())) {
      Operation *loop = argument.getOwner()->getParentOp();
      for (auto [i, carried] : llvm::enumerate(cast<LoopLikeOpInterface>(loop).getRegionIterArgs()))
        if (carried == argument)
          addCarried(loop, static_cast<unsigned>(i));
    }
    for (OpOperand &use : value.getUses()) {
      Operation *op = use.getOwner();
      if (auto dot = dyn_cast<tile::DotOp>(op); dot && use.getOperandNumber() == 2)
        add(dot.getResult());
      else if (keepsPlaces(op)) {
        addAll(op->getResults());
        addAll(op->getOperands());
      } else if (isa<scf::YieldOp, tile::YieldOp>(op)) {
        Operation *parent = op->getParentOp();
        if (isLoop(parent))
          addCarried(parent, use.getOperandNumber());
        else if (auto branch = dyn_cast<scf::IfOp>(parent))
          addBranch(branch, use.getOperandNumber());
      } else if (isLoop(op)) {
        auto loop = cast<LoopLikeOpInterface>(op);
        for (auto [i, init] : llvm::enumerate(loop.getInitsMutable()))
          if (&init == &use)
            addCarried(op, static_cast<unsigned>(i));
      }
    }
  }

  /// Whether the definition of a tile is rewritten such that it has the other orientation.
  static bool isDefinedTransposed(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation *parent = argument.getOwner()->getParentOp();
      auto blocks = dyn_cast<tile::ForBlocksOp>(parent);
      return (blocks && (argument != blocks.getKeep() || !blocks.getList())) ||
             isa<scf::ForOp>(parent);
    }
    Operation *op = value.getDefiningOp();
    return isa<tile::DotOp, tile::ExpandOp, tile::LoadOp, scf::IfOp>(op) || keepsPlaces(op) ||
           isLoop(op);
  }

  bool takesTransposed(OpOperand &use) {
    Operation *op = use.getOwner();
    if (isa<tile::DotOp, tile::StoreOp, tile::AtomicAddOp>(op) || keepsPlaces(op))
      return true;
    if (isa<tile::ReduceOp>(op))
      return true;
    if (isa<scf::YieldOp, tile::YieldOp>(op))
      return isLoop(op->getParentOp()) || isa<scf::IfOp>(op->getParentOp());
    return isLoop(op);
  }

  Value transpose(Value value) {
    return tile::TransposeOp::create(b, value.getLoc(), getTransposed(value.getType()), value,
                                     b.getDenseI64ArrayAttr({1, 0}));
  }

  /// Before types change: where an operation takes only the usual orientation, it gets that.
  void rewriteUses(Operation *op) {
    for (OpOperand &use : op->getOpOperands()) {
      if (!turned.contains(use.get()) || takesTransposed(use))
        continue;
      b.setInsertionPoint(op);
      // Its operand's type changes, its own stays.
      auto type = cast<RankedTensorType>(use.get().getType());
      use.set(tile::TransposeOp::create(b, op->getLoc(), type, use.get(),
                                        b.getDenseI64ArrayAttr({1, 0})));
    }
  }

  /// A constant, a splat or positions as operand of an operation that is transposed.
  void makeAnew(OpOperand &use) {
    Operation *op = use.get().getDefiningOp();
    b.setInsertionPoint(use.getOwner());
    Operation *copy = b.clone(*op);
    RankedTensorType type = getTransposed(use.get().getType());
    if (auto constant = dyn_cast<arith::ConstantOp>(copy))
      constant.setValueAttr(
          cast<DenseElementsAttr>(cast<SplatElementsAttr>(constant.getValue()).resizeSplat(type)));
    else if (auto iota = dyn_cast<tile::IotaOp>(copy))
      iota.setDim(1 - iota.getDim());
    copy->getResult(0).setType(type);
    use.set(copy->getResult(0));
  }

  void rewriteDot(tile::DotOp dot) {
    bool transposeA = dot.getTransposeA() != turned.contains(dot.getLhs());
    bool transposeB = dot.getTransposeB() != turned.contains(dot.getRhs());
    if (turned.contains(dot.getResult())) {
      Value lhs = dot.getLhs();
      dot.getLhsMutable().assign(dot.getRhs());
      dot.getRhsMutable().assign(lhs);
      bool ofLhs = transposeA;
      transposeA = !transposeB;
      transposeB = !ofLhs;
    }
    dot.setTransposeA(transposeA);
    dot.setTransposeB(transposeB);
  }

  /// After types have changed.
  void rewriteOp(Operation *op) {
    bool hasTurned = llvm::any_of(op->getOperands(), [&](Value v) { return turned.contains(v); }) ||
                     llvm::any_of(op->getResults(), [&](Value v) { return turned.contains(v); });
    if (auto dot = dyn_cast<tile::DotOp>(op)) {
      if (dot.getAcc() && isMadeAnew(dot.getAcc()) && turned.contains(dot.getResult()))
        makeAnew(dot->getOpOperand(2));
      rewriteDot(dot);
    } else if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
      if (turned.contains(reduce.getSource()))
        reduce.setDim(1 - reduce.getDim());
    } else if (auto expand = dyn_cast<tile::ExpandOp>(op)) {
      if (turned.contains(expand.getResult()))
        expand.setDim(1 - expand.getDim());
    } else if (auto load = dyn_cast<tile::LoadOp>(op)) {
      load.setDimsAttr(swapDims(load.getDims(), load.getView()));
    } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
      store.setDimsAttr(swapDims(store.getDims(), store.getView()));
    } else if (auto add = dyn_cast<tile::AtomicAddOp>(op)) {
      add.setDimsAttr(swapDims(add.getDims(), add.getView()));
    } else if (keepsPlaces(op) && hasTurned) {
      for (OpOperand &use : op->getOpOperands())
        if (isMatrix(use.get()) && isMadeAnew(use.get()))
          makeAnew(use);
    } else if (isLoop(op)) {
      auto loop = cast<LoopLikeOpInterface>(op);
      for (auto [init, argument] :
           llvm::zip_equal(loop.getInitsMutable(), loop.getRegionIterArgs()))
        if (turned.contains(argument) && isMadeAnew(init.get()))
          makeAnew(init);
      rewriteYield(op->getRegion(0).front().getTerminator(), op->getResults());
      if (auto blocks = dyn_cast<tile::ForBlocksOp>(op);
          blocks && turned.contains(blocks.getKeep()) && isDefinedTransposed(blocks.getKeep()))
        transposedKeepAttr.set(blocks);
    } else if (auto branch = dyn_cast<scf::IfOp>(op); branch && branch->getNumResults() > 0) {
      rewriteYield(branch.thenYield(), branch.getResults());
      rewriteYield(branch.elseYield(), branch.getResults());
    }
  }

  void rewriteYield(Operation *yield, ValueRange results) {
    for (auto [use, result] : llvm::zip_equal(yield->getOpOperands(), results))
      if (turned.contains(result) && isMadeAnew(use.get()))
        makeAnew(use);
  }

  /// A tile whose definition stays: its users take a transposed copy.
  void transposeDefinition(Value value) {
    b.setInsertionPointAfterValue(value);
    Value other = transpose(value);
    value.replaceAllUsesExcept(other, other.getDefiningOp());
  }

  tile::KernelOp kernel;
  OpBuilder b;
  llvm::SetVector<Value> turned;
  SmallVector<Value> worklist;
};

} // namespace

bool tgpu::transposeTilesOfFewRows(tile::KernelOp kernel) { return TileTransposer(kernel).run(); }
