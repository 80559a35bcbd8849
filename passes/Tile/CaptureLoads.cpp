// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Tile/CaptureLoads.h"

#include "dialect/Tile/Calls.h"
#include "passes/Tile/InlineCalls.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

/// A read in a function that a tile load can replace.
struct CaptureLoads::Read {
  unsigned number; ///< its position among the function's operations
  mutable AtOp at;
  std::vector<TilePosition> indices; ///< one for each dimension of the view
  SmallVector<int64_t, 2> viewDims;  ///< dimensions along which the loaded tile lies
  SmallVector<int64_t, 2> tileDims;  ///< the corresponding dimensions of the operation's tiles
};

static bool readsView(AtOp at, SymbolTable &symbols) {
  auto capture = at.getCaptureAttr() ? symbols.lookup<CaptureOp>(*at.getCapture()) : CaptureOp();
  return capture && isa<ViewType>(capture.getType());
}

bool CaptureLoads::mayRead(func::FuncOp function) {
  llvm::SetVector<Operation *> reached;
  reached.insert(function);
  for (size_t i = 0; i < reached.size(); ++i) {
    bool reads = false;
    reached[i]->walk([&](Operation *op) {
      if (auto at = dyn_cast<AtOp>(op))
        reads |= readsView(at, symbols);
      if (auto call = dyn_cast<func::CallOp>(op))
        if (Operation *callee = symbols.lookup(call.getCallee()))
          reached.insert(callee);
    });
    if (reads)
      return true;
  }
  return false;
}

/// A clone of the function with all calls inlined.
func::FuncOp CaptureLoads::getFlat(func::FuncOp function) {
  auto [known, isNew] = flat.try_emplace(function);
  // Devices reject larger functions with a diagnostic.
  if (!isNew || !function.getBody().hasOneBlock() || !mayRead(function) ||
      Calls(module).getSize(function) > kMostOperations)
    return known->second;
  auto copy = cast<func::FuncOp>(function->clone());
  copy.setSymName((function.getSymName() + "_flat").str());
  copy.setPrivate();
  symbols.insert(copy, std::next(function->getIterator()));
  inlineCalls(copy, symbols);
  return flat[function] = copy;
}

/// Returns nothing if neighboring elements of the tile do not read neighboring elements of the
/// view, or all read the same element.
std::optional<CaptureLoads::Read> CaptureLoads::getRead(AtOp at, const TilePositions &positions,
                                                        int64_t rank) {
  auto type = cast<ViewType>(symbols.lookup<CaptureOp>(*at.getCapture()).getType());
  Read read{0, at, {}, {}, {}};
  SmallVector<int64_t> viewDimOf(rank, -1);
  size_t dynamic = 0;
  for (auto [d, known] : llvm::enumerate(at.getStaticIndices())) {
    TilePosition &index = read.indices.emplace_back();
    if (!ShapedType::isDynamic(known))
      continue;
    std::optional<TilePosition> position = positions.get(at.getIndices()[dynamic++]);
    if (!position)
      return std::nullopt;
    index = *position;
    if (!index.dim)
      continue;
    // A diagonal is not a tile. The extent of a repeated dimension is known only at run time.
    int64_t &viewDim = viewDimOf[*index.dim];
    if (viewDim >= 0 || (index.condition && !ShapedType::isDynamic(type.getShape()[d])))
      return std::nullopt;
    viewDim = static_cast<int64_t>(d);
  }
  for (auto [tileDim, viewDim] : llvm::enumerate(viewDimOf))
    if (viewDim >= 0) {
      read.viewDims.push_back(viewDim);
      read.tileDims.push_back(static_cast<int64_t>(tileDim));
    }
  return read.viewDims.empty() ? std::nullopt : std::optional(read);
}

Value CaptureLoads::load(OpBuilder &b, MapOp op, const Read &read, TilePositions &positions) {
  Location loc = read.at.getLoc();
  auto capture = symbols.lookup<CaptureOp>(*read.at.getCapture());
  auto viewType = cast<ViewType>(capture.getType());
  Value view = CapturedOp::create(b, loc, viewType, capture.getSymName());
  SmallVector<Value> indices;
  for (auto [d, index] : llvm::enumerate(read.indices)) {
    if (!ShapedType::isDynamic(read.at.getStaticIndices()[d]))
      continue;
    Value start = positions.writeStart(b, loc, index);
    if (index.condition) {
      // The view repeats the element at the fixed index, from index 0 on.
      Value isFixed = positions.writeCondition(b, loc, index);
      Value fixed = positions.write(b, index.fixed), first = fixed;
      if (index.dim) {
        view = RepeatOp::create(b, loc, viewType, view, d, fixed, isFixed);
        first = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
      }
      start = arith::SelectOp::create(b, loc, isFixed, first, start);
    }
    indices.push_back(start);
  }
  int64_t last = viewType.getRank() - static_cast<int64_t>(read.viewDims.size());
  bool isUsual = llvm::equal(read.viewDims, llvm::seq<int64_t>(last, viewType.getRank()));
  DenseI64ArrayAttr dims = isUsual ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(read.viewDims);
  RankedTensorType whole = cast<RankedTensorType>(op.getType()).clone(viewType.getElementType());
  Value tile =
      create(b, {loc, whole, view, indices, read.at.getStaticIndices(), dims, read.tileDims});
  if (read.tileDims.size() == static_cast<size_t>(whole.getRank()))
    return tile;
  return ExpandOp::create(b, loc, whole, tile, 1 - read.tileDims.front());
}

/// The function with operands instead of the replaced reads.
func::FuncOp CaptureLoads::getRest(func::FuncOp function, func::FuncOp copy, ArrayRef<Read> reads) {
  std::vector<unsigned> numbers;
  for (const Read &read : reads)
    numbers.push_back(read.number);
  func::FuncOp &known = rests[{function, numbers}];
  if (known)
    return known;
  IRMapping map;
  auto rest = cast<func::FuncOp>(copy->clone(map));
  rest.setSymName((function.getSymName() + "_of_tiles").str());
  symbols.insert(rest, std::next(function->getIterator()));
  Block &body = rest.getBody().front();
  for (const Read &read : reads)
    map.lookup(read.at.getResult())
        .replaceAllUsesWith(body.addArgument(read.at.getType(), read.at.getLoc()));
  rest.setFunctionType(FunctionType::get(rest.getContext(), body.getArgumentTypes(),
                                         function.getFunctionType().getResults()));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
  return known = rest;
}

/// After the definitions that a load depends on, and as early in the block as possible: loads have
/// a long latency, and captures are never written.
static void setInsertionPoint(OpBuilder &b, Operation *user,
                              const llvm::SetVector<Value> &sources) {
  Block *block = user->getBlock();
  Operation *last = nullptr;
  for (Value source : sources) {
    Operation *op = source.getDefiningOp();
    op = op ? block->findAncestorOpInBlock(*op) : nullptr;
    if (op && (!last || last->isBeforeInBlock(op)))
      last = op;
  }
  if (last)
    b.setInsertionPointAfter(last);
  else
    b.setInsertionPointToStart(block);
}

void CaptureLoads::run(MapOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getType());
  constexpr int64_t mostRank = 2;
  auto function = symbols.lookup<func::FuncOp>(op.getFunction());
  if (!type || type.getRank() < 1 || type.getRank() > mostRank || !function)
    return;
  func::FuncOp copy = getFlat(function);
  if (!copy)
    return;
  TilePositions positions(copy, op.getOperands());
  std::vector<Read> reads;
  for (auto [number, inner] : llvm::enumerate(copy.getBody().front()))
    if (auto at = dyn_cast<AtOp>(inner); at && readsView(at, symbols))
      if (std::optional<Read> read = getRead(at, positions, type.getRank())) {
        read->number = static_cast<unsigned>(number);
        reads.push_back(*read);
      }
  if (reads.empty())
    return;
  std::vector<TilePosition> all;
  for (const Read &read : reads)
    all.insert(all.end(), read.indices.begin(), read.indices.end());
  OpBuilder b(op);
  setInsertionPoint(b, op, positions.getSources(all));
  SmallVector<Value> operands(op.getOperands());
  for (const Read &read : reads)
    operands.push_back(load(b, op, read, positions));
  func::FuncOp rest = getRest(function, copy, reads);
  op->setOperands(operands);
  op.setFunctionAttr(FlatSymbolRefAttr::get(rest.getSymNameAttr()));
}

void CaptureLoads::run(ModuleOp module, ArrayRef<MapOp> maps, Create create) {
  CaptureLoads loads(module, create);
  for (MapOp map : maps)
    loads.run(map);
  for (auto &[function, copy] : loads.flat)
    if (copy)
      loads.symbols.erase(copy);
}
