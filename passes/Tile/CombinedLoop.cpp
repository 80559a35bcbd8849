// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads how a kernel uses the state of a loop, and writes the kernels that compute and merge parts
// of it.

#include "passes/Tile/CombinedLoop.h"
#include "dialect/Tile/Origin.h"

#include "passes/Tile/AppendArgument.h"
#include "passes/Tile/LaunchNames.h"

#include "dialect/Tile/TileExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;
using expr::Function;

/// Small states of which an instance that merges loads all before it merges the first: their
/// latencies overlap.
static constexpr int32_t mostStatesAtOnce = 4;

/// Whether the tile runs along the last two dimensions of the view, in any order.
static bool isAlongLast(StoreOp store) {
  std::optional<ArrayRef<int64_t>> dims = store.getDims();
  auto rank = static_cast<int64_t>(store.getStaticIndices().size());
  return !dims || (dims->size() == 2 && std::min((*dims)[0], (*dims)[1]) == rank - 2);
}

std::optional<CombinedLoop> CombinedLoop::get(scf::ForOp loop, std::string &reason) {
  CombinedLoop result;
  result.loop = loop;
  result.combine = combineAttr.get(loop);
  result.kernel = dyn_cast<KernelOp>(loop->getParentOp());
  auto fail = [&](std::string why) {
    reason = std::move(why);
    return std::nullopt;
  };
  if (!result.kernel)
    return fail("it must be in the body of a kernel, but is in '" +
                loop->getParentOp()->getName().getStringRef().str() + "'");
  if (loop.getNumResults() != 1 || getRank(loop.getResult(0).getType()) != 2 ||
      !loop.getInductionVar().getType().isInteger(32))
    return fail("it must carry a single tile of two dimensions, by an i32, but got (" +
                debugString(loop.getResultTypes()) + ") by " +
                debugString(loop.getInductionVar().getType()));
  Block &body = result.kernel.getBody().front();
  bool hasOther = false;
  result.kernel.walk([&](Operation *op) {
    auto store = dyn_cast<StoreOp>(op);
    auto effects = dyn_cast<MemoryEffectOpInterface>(op);
    if (store && !result.store && store->getBlock() == &body)
      result.store = store;
    else if (effects && effects.hasEffect<MemoryEffects::Write>())
      hasOther = true;
    else if (op != loop && combineAttr.isOn(op))
      hasOther = true;
  });
  if (!result.store || hasOther)
    return fail(std::string("its kernel must have exactly one store, in its body, and one such "
                            "loop, but has ") +
                (result.store ? "other writes or loops" : "no such store"));
  result.view = dyn_cast<BlockArgument>(result.store.getView());
  StoreOp store = result.store;
  if (!result.view || result.view.getOwner() != &body || !isAlongLast(store) ||
      getDims(store.getValue().getType()) != getDims(result.getStateType()) ||
      Signature(result.kernel).mayBeAbsent(result.view.getArgNumber()))
    return fail("what is made of it must be stored to an argument that is always there, in its own "
                "shape, but got " +
                debugString(store.getValue().getType()) + " in " + describeOrigin(store.getView()));
  for (Value index : store.getIndices())
    if (Operation *op = index.getDefiningOp();
        op && (op->getBlock() != &body || !op->isBeforeInBlock(loop)))
      return fail("the place of its result must be computed before it, but got " +
                  describeOrigin(index));
  return result;
}

ViewType CombinedLoop::getStatesType() const {
  auto type = cast<ViewType>(view.getType());
  SmallVector<int64_t> shape(type.getRank() + 1, ShapedType::kDynamic);
  return ViewType::get(type.getContext(), shape, SmallVector<StringAttr>(shape.size()),
                       getElementType(getStateType()));
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// The index of the store along a dimension of the tile; null if it is a constant.
static Value getIndex(StoreOp store, unsigned dim) {
  ArrayRef<int64_t> fixed = store.getStaticIndices();
  std::optional<ArrayRef<int64_t>> dims = store.getDims();
  size_t place = dims ? (*dims)[dim] : fixed.size() - 2 + dim;
  if (!ShapedType::isDynamic(fixed[place]))
    return {};
  return store.getIndices()[llvm::count_if(fixed.take_front(place), ShapedType::isDynamic)];
}

/// The number of the grid of which the value is the product with a parameter; null otherwise.
static BlockArgument getBlockNumber(Value index, StringAttr block, KernelOp kernel) {
  auto product = index ? index.getDefiningOp<arith::MulIOp>() : arith::MulIOp();
  if (!product)
    return {};
  for (auto [number, extent] : {std::pair(product.getLhs(), product.getRhs()),
                                std::pair(product.getRhs(), product.getLhs())}) {
    auto param = extent.getDefiningOp<ParamOp>();
    if (param && param.getExpr() == ExprAttr::getName(block.getContext(), block) &&
        llvm::is_contained(kernel.getGridIds(), number))
      return cast<BlockArgument>(number);
  }
  return {};
}

ExprAttr CombinedLoop::getPlaces(unsigned dim) const {
  KernelOp own = kernel;
  Dim extent = getDims(getStateType())[dim];
  if (!extent.isSymbol())
    return {};
  BlockArgument number = getBlockNumber(getIndex(store, dim), extent.symbol, own);
  if (!number)
    return {};
  auto blocks = cast<ExprAttr>(own.getGrid()[number.getArgNumber() - own.getNumArgs()]);
  if (blocks.getKind() != ExprKind::Call || getFunction(blocks) != Function::CeilDiv ||
      blocks.getOperands()[1] != ExprAttr::getName(own.getContext(), extent.symbol))
    return {};
  return blocks.getOperands()[0];
}

StringAttr CombinedLoop::getFreeBlock(unsigned dim) const {
  if (!getPlaces(dim))
    return {};
  StringAttr symbol = getDims(getStateType())[dim].symbol;
  ParamDeclAttr param = Signature(kernel).findParam(symbol);
  bool isFree = param && !param.getDerived() && param.getDefaultValue() &&
                isChosenBlock(param.getDefaultValue());
  return isFree ? symbol : StringAttr();
}

bool CombinedLoop::isMadeInPlace() const {
  KernelOp own = kernel;
  SmallVector<Dim> tile = getDims(getStateType());
  /// Whether the elements are those at the places of the result along their dimensions.
  auto isInPlace = [&](LoadOp load) {
    SmallVector<Dim> dims = getDims(load.getType());
    size_t first = load.getStaticIndices().size() - dims.size();
    if (load.getDims() || load.getPad())
      return false;
    for (auto [i, dim] : llvm::enumerate(dims)) {
      auto along = llvm::find(tile, dim);
      if (!dim.isSymbol() || along == tile.end() || llvm::count(tile, dim) != 1 ||
          !ShapedType::isDynamic(load.getStaticIndices()[first + i]))
        return false;
      size_t number =
          llvm::count_if(load.getStaticIndices().take_front(first + i), ShapedType::isDynamic);
      if (load.getIndices()[number] != getIndex(store, along - tile.begin()))
        return false;
    }
    return first == 0;
  };
  llvm::SetVector<Value> values;
  values.insert(StoreOp(store).getValue());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == state())
      continue;
    if (auto argument = dyn_cast<BlockArgument>(values[i])) {
      if (argument.getOwner() != &own.getBody().front() ||
          argument.getArgNumber() >= own.getNumArgs())
        return false;
      continue;
    }
    Operation *op = values[i].getDefiningOp();
    if (auto load = dyn_cast<LoadOp>(op)) {
      if (!isInPlace(load))
        return false;
      continue;
    }
    bool isOfElements = isa<CastOp, FullOp, MapOp, tile::ConstantOp, arith::ConstantOp>(op) ||
                        (isa<ExpandOp>(op) && getRank(op->getOperand(0).getType()) == 1) ||
                        (OpTrait::hasElementwiseMappableTraits(op) && isMemoryEffectFree(op));
    if (!isOfElements)
      return false;
    values.insert_range(op->getOperands());
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// A copy with an argument for the states. The program checks the constraints.
static KernelOp copyKernel(const CombinedLoop &of, StringRef suffix, IRMapping &map,
                           Value &states) {
  KernelOp original = of.kernel;
  auto copy = cast<KernelOp>(original->clone(map));
  copy.setSymName((original.getSymName() + suffix).str());
  copy.setConstraintsAttr(ArrayAttr::get(copy.getContext(), {}));
  copy.removeArgDefaultsAttr();
  states = appendArgument(copy, getFreeName(copy, "states"), of.getStatesType(),
                          /*isOptional=*/false, original.getLoc());
  return copy;
}

/// The place of a state in the array.
static std::pair<SmallVector<Value>, SmallVector<int64_t>> getPlace(StoreOp store, Value share) {
  SmallVector<Value> indices{share};
  indices.append(store.getIndices().begin(), store.getIndices().end());
  SmallVector<int64_t> fixed{ShapedType::kDynamic};
  fixed.append(store.getStaticIndices().begin(), store.getStaticIndices().end());
  return {indices, fixed};
}

/// The dimensions of that array along which a state lies.
static DenseI64ArrayAttr getStatesDims(StoreOp store) {
  std::optional<ArrayRef<int64_t>> dims = store.getDims();
  if (!dims)
    return {};
  return DenseI64ArrayAttr::get(store.getContext(), {(*dims)[0] + 1, (*dims)[1] + 1});
}

KernelOp CombinedLoop::writeShare() const {
  IRMapping map;
  Value states;
  KernelOp share = copyKernel(*this, "_share", map, states);
  MLIRContext *context = share.getContext();
  Location loc = scf::ForOp(loop).getLoc();
  Block &body = share.getBody().front();
  SmallVector<Attribute> names(share.getGridNames().getValue()), grid(share.getGrid().getValue());
  names.push_back(StringAttr::get(context, getFreeName(share, "share")));
  grid.push_back(
      makeDim(context, cast<StringAttr>(share.getArgNames().getValue().back()).getValue(), 0));
  share.setGridNamesAttr(ArrayAttr::get(context, names));
  share.setGridAttr(ArrayAttr::get(context, grid));

  auto own = cast<scf::ForOp>(map.lookup(scf::ForOp(loop).getOperation()));
  OpBuilder b(own);
  Value number = body.addArgument(b.getI32Type(), loc);
  auto integer = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
  };
  // Shares of equal numbers of iterations, but for the last ones, which may have fewer, or none.
  Value shares = DimOp::create(b, loc, b.getI32Type(), states, 0);
  Value lower = own.getLowerBound(), step = own.getStep();
  Value length = arith::MaxSIOp::create(
      b, loc, arith::SubIOp::create(b, loc, own.getUpperBound(), lower), integer(0));
  auto divideUp = [&](Value a, Value by) -> Value {
    Value last = arith::SubIOp::create(b, loc, by, integer(1));
    return arith::DivSIOp::create(b, loc, arith::AddIOp::create(b, loc, a, last), by);
  };
  Value iterations = divideUp(length, step);
  Value each = divideUp(iterations, shares);
  Value first =
      arith::MinSIOp::create(b, loc, arith::MulIOp::create(b, loc, number, each), iterations);
  Value last =
      arith::MinSIOp::create(b, loc, arith::AddIOp::create(b, loc, first, each), iterations);
  auto at = [&](Value iteration) -> Value {
    return arith::AddIOp::create(b, loc, lower, arith::MulIOp::create(b, loc, iteration, step));
  };
  Value upper = arith::MinSIOp::create(b, loc, at(last), own.getUpperBound());
  own.setLowerBound(at(first));
  own.setUpperBound(upper);
  combineAttr.remove(own);

  auto ownStore = cast<StoreOp>(map.lookup(StoreOp(store).getOperation()));
  auto [indices, fixed] = getPlace(ownStore, number);
  b.setInsertionPointAfter(own);
  StoreOp kept =
      StoreOp::create(b, loc, own.getResult(0), states, indices, fixed, getStatesDims(ownStore));
  // What the kernel makes of the state.
  ownStore.erase();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (&op == kept)
      break;
    else if (op.use_empty())
      op.erase();
  return share;
}

KernelOp CombinedLoop::writeMerge() const {
  IRMapping map;
  Value states;
  KernelOp merge = copyKernel(*this, "_merge", map, states);
  auto own = cast<scf::ForOp>(map.lookup(scf::ForOp(loop).getOperation()));
  auto ownStore = cast<StoreOp>(map.lookup(StoreOp(store).getOperation()));
  Location loc = own.getLoc();
  OpBuilder b(own);
  auto integer = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(value));
  };
  Value shares = DimOp::create(b, loc, b.getI32Type(), states, 0);
  int32_t statesAtOnce = mayMergeFewRows() ? mostStatesAtOnce : 1;
  Value zero = integer(0), step = integer(statesAtOnce);
  auto outer = scf::ForOp::create(b, loc, zero, shares, step, own.getInitArgs());
  b.setInsertionPointToStart(outer.getBody());
  SmallVector<Value> numbers, loaded;
  for (int32_t i = 0; i < statesAtOnce; ++i) {
    Value share = i ? arith::AddIOp::create(b, loc, outer.getInductionVar(), integer(i))
                    : Value(outer.getInductionVar());
    auto [indices, fixed] = getPlace(ownStore, share);
    numbers.push_back(share);
    loaded.push_back(LoadOp::create(b, loc, getStateType(), states, indices, fixed,
                                    getStatesDims(ownStore), Value()));
  }
  Value merged = outer.getRegionIterArg(0);
  for (auto [share, part] : llvm::zip_equal(numbers, loaded)) {
    Value next =
        func::CallOp::create(b, loc, combine, TypeRange(getStateType()), ValueRange{merged, part})
            .getResult(0);
    if (share != numbers.front()) { // which always exists
      Value exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, share, shares);
      next = arith::SelectOp::create(b, loc, exists, next, merged);
    }
    merged = next;
  }
  scf::YieldOp::create(b, loc, merged);
  own.replaceAllUsesWith(outer.getResults());
  own.erase();
  return merge;
}
