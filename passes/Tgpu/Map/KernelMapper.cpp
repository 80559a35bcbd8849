// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps operations and control flow.

#include "passes/Tgpu/Map/KernelMapper.h"

#include "passes/Tgpu/Analysis/Notes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Type KernelMapper::getType(Type type, Attribute layout) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), tensor.getElementType(), layout);
}

Type KernelMapper::getType(Value value) {
  return tgpu::isTile(value) ? getType(value.getType(), layouts.get(value)) : value.getType();
}

Value KernelMapper::i32(int64_t value) {
  return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

Value KernelMapper::getTile(Value value, Attribute layout) {
  Type type = getType(value.getType(), layout);
  if (allTrue.contains(value))
    return tile::FullOp::create(b, type, arith::ConstantOp::create(b, b.getBoolAttr(true)));
  if (auto full = value.getDefiningOp<tile::FullOp>())
    return tile::FullOp::create(b, type, map.lookup(full.getValue()));
  if (auto iota = value.getDefiningOp<tile::IotaOp>())
    return tile::IotaOp::create(b, type, map.lookup(iota.getStart()), iota.getDim());
  if (auto constant = value.getDefiningOp<arith::ConstantOp>()) {
    auto elements = cast<SplatElementsAttr>(constant.getValue());
    Value scalar = arith::ConstantOp::create(b, elements.getSplatValue<TypedAttr>());
    return tile::FullOp::create(b, type, scalar);
  }

  Value mapped = map.lookup(value);
  Type mappedType = mapped.getType();
  if (mappedType == type)
    return mapped;
  Attribute from = cast<RankedTensorType>(mappedType).getEncoding();
  auto operand = dyn_cast<OperandAttr>(layout);
  auto mma = dyn_cast<MmaAttr>(from);
  bool keepsRows = isa<WgmmaAttr>(from) || (mma && mma.getWarpsN() == 1);
  bool inRegisters = operand && operand.getOperand() == MatrixOperand::A &&
                     operand.getParent() == from && keepsRows;
  if (inRegisters)
    return ConvertOp::create(b, type, mapped, Value());
  // Conversions wait for their scratch memory before they end, so all conversions of one type share
  // it.
  auto tensor = cast<RankedTensorType>(type);
  SharedType scratch = getShared(tensor.getShape(), tensor.getElementType());
  return ConvertOp::create(b, type, mapped, getAlloc(Value(), scratch));
}

Value KernelMapper::get(Value value) {
  return tgpu::isTile(value) ? getTile(value, layouts.get(value)) : map.lookup(value);
}

KernelMapper::Values KernelMapper::getAll(ValueRange values, ValueRange like) {
  Values result;
  for (auto [value, other] : llvm::zip_equal(values, like))
    result.push_back(tgpu::isTile(value) ? getTile(value, layouts.get(other)) : map.lookup(value));
  return result;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

LogicalResult KernelMapper::mapElementwise(Operation *op) {
  Value result = op->getResult(0);
  Attribute layout = layouts.get(result);
  Value condition = isa<tile::SelectOp, arith::SelectOp>(op) ? op->getOperand(0) : Value();
  if (condition && allTrue.contains(condition)) {
    map.map(result, getTile(op->getOperand(1), layout));
    return success();
  }
  Values operands;
  for (Value operand : op->getOperands())
    operands.push_back(tgpu::isTile(operand) ? getTile(operand, layout) : map.lookup(operand));
  Operation *copy = b.clone(*op);
  copy->setOperands(operands);
  for (auto [from, to] : llvm::zip_equal(op->getResults(), copy->getResults())) {
    to.setType(getType(from.getType(), layout));
    map.map(from, to);
  }
  return success();
}

LogicalResult KernelMapper::mapReduce(tile::ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getSource().getType());
  int64_t rank = type.getRank(), dim = op.getDim();
  if (rank < 2 || (dim != 0 && dim != rank - 1))
    return op.emitError()
           << "on a GPU a tile of rank 2 or more must be reduced along its first or last "
              "dimension, but got dimension "
           << dim << " of " << type;
  Attribute layout = layouts.get(op.getSource());
  Value source = getTile(op.getSource(), layout);
  if (rank > 2) {
    // Store it as a matrix; the result is its other dimension.
    int64_t bits = getElementBits(type.getElementType()), count = type.getNumElements();
    int64_t extent = type.getDimSize(dim), others = count / extent;
    SmallVector<int64_t> shape{dim == 0 ? extent : others, dim == 0 ? others : extent};
    if (dim == 0)
      layout = layouts.getDefault(shape, bits);
    int64_t matrixDim = dim == 0 ? 0 : 1;
    SliceAttr slice = getSlice(layout, matrixDim);
    auto row = RankedTensorType::get({others}, type.getElementType(), slice);
    Value reduced =
        tile::ReduceOp::create(b, row, op.getKind(), reshape(source, shape, layout), matrixDim);
    auto resultType = cast<RankedTensorType>(op.getType());
    map.map(op.getResult(), reshape(reduced, resultType.getShape(), layouts.get(op.getResult())));
    return success();
  }
  SliceAttr slice = getSlice(layout, static_cast<int64_t>(op.getDim()));
  map.map(op.getResult(), tile::ReduceOp::create(b, getType(op.getType(), slice), op.getKind(),
                                                 source, op.getDim()));
  return success();
}

Value KernelMapper::reshape(Value tile, ArrayRef<int64_t> shape, Attribute layout) {
  auto type = cast<RankedTensorType>(tile.getType());
  return tile::ReshapeOp::create(b, RankedTensorType::get(shape, type.getElementType(), layout),
                                 tile);
}

LogicalResult KernelMapper::mapReshape(tile::ReshapeOp op) {
  map.map(op.getResult(), tile::ReshapeOp::create(b, getType(op.getResult()), get(op.getSource())));
  return success();
}

LogicalResult KernelMapper::mapScan(tile::ScanOp op) {
  Value source = getTile(op.getSource(), layouts.get(op.getResult()));
  map.map(op.getResult(), tile::ScanOp::create(b, source.getType(), op.getKind(), source,
                                               op.getDim(), op.getReverse()));
  return success();
}

LogicalResult KernelMapper::mapSlice(tile::SliceOp op) {
  Value fill = op.getFill() ? map.lookup(op.getFill()) : Value();
  map.map(op.getResult(), tile::SliceOp::create(b, getType(op.getResult()), get(op.getSource()),
                                                op.getDim(), map.lookup(op.getOffset()), fill));
  return success();
}

Value KernelMapper::getIndexTile(Value at, Type tile, Type view, int64_t along,
                                 std::optional<ArrayRef<int64_t>> dims) {
  auto type = cast<RankedTensorType>(tile);
  if (type.getRank() == 1)
    return getTile(at, type.getEncoding());
  int64_t first = dims ? (*dims)[0] : tile::getRank(view) - type.getRank();
  int64_t other = along == first ? 1 : 0;
  return getTile(at, getSlice(type.getEncoding(), other));
}

LogicalResult KernelMapper::mapGather(tile::GatherOp op) {
  if (tile::getRank(op.getType()) > 2)
    return op.emitError() << "a gathered tile must have rank 1 or 2 on a GPU, but got "
                          << op.getType();
  Type type = getType(op.getResult());
  Value at = getIndexTile(op.getAt(), type, op.getView().getType(), op.getAlong(), op.getDims());
  map.map(op.getResult(), tile::GatherOp::create(b, type, map.lookup(op.getView()),
                                                 getAll(op.getIndices(), op.getIndices()),
                                                 op.getStaticIndicesAttr(), op.getDimsAttr(),
                                                 op.getAlongAttr(), at));
  return success();
}

LogicalResult KernelMapper::mapScatterAdd(tile::ScatterAddOp op) {
  if (tile::getRank(op.getValue().getType()) > 2)
    return op.emitError() << "a scattered tile must have rank 1 or 2 on a GPU, but got "
                          << op.getValue().getType();
  waitForCopies(); // copies may still read the buffer
  Value value = get(op.getValue());
  Value at = getIndexTile(op.getAt(), value.getType(), op.getView().getType(), op.getAlong(),
                          op.getDims());
  tile::ScatterAddOp::create(b, value, map.lookup(op.getView()),
                             getAll(op.getIndices(), op.getIndices()), op.getStaticIndicesAttr(),
                             op.getDimsAttr(), op.getAlongAttr(), at);
  return success();
}

LogicalResult KernelMapper::mapExpand(tile::ExpandOp op) {
  Attribute layout = layouts.get(op.getResult());
  if (tile::getRank(op.getType()) > 2) {
    map.map(op.getResult(),
            tile::ExpandOp::create(b, getType(op.getResult()), get(op.getSource()), op.getDim()));
    return success();
  }
  Value source = getTile(op.getSource(), getSlice(layout, static_cast<int64_t>(op.getDim())));
  map.map(op.getResult(),
          tile::ExpandOp::create(b, getType(op.getType(), layout), source, op.getDim()));
  return success();
}

LogicalResult KernelMapper::mapTranspose(tile::TransposeOp op) {
  auto source = cast<RankedTensorType>(op.getSource().getType());
  if (llvm::is_sorted(op.getPermutation())) {
    map.map(op.getResult(), get(op.getSource()));
    return success();
  }
  if (source.getRank() > 2) {
    map.map(op.getResult(),
            tile::TransposeOp::create(b, getType(op.getResult()), get(op.getSource()),
                                      op.getPermutationAttr()));
    return success();
  }
  auto getBuffer = [&](Value tile) {
    return getShared(cast<RankedTensorType>(tile.getType()).getShape(), source.getElementType());
  };
  // Threads of a product hold columns of the result in pairs of rows, which stmatrix transposes, or
  // which lie in different banks. Reading columns, whole vectors would be in the same banks.
  bool writesTransposed =
      isa<MmaAttr, WgmmaAttr>(cast<RankedTensorType>(getType(op.getSource())).getEncoding()) &&
      target.has(Feature::StoreMatrix) &&
      !inShared.contains({op.getSource(), getBuffer(op.getSource())});
  Value tile = writesTransposed ? op.getResult() : op.getSource();
  if (writesTransposed)
    writeShared(op.getSource(), tile, getBuffer(tile), /*transpose=*/true);
  Value buffer = getInShared(tile, getBuffer(tile));
  waitForCopies();
  map.map(op.getResult(),
          ReadOp::create(b, getType(op.getResult()), buffer, /*transpose=*/!writesTransposed));
  return success();
}

LogicalResult KernelMapper::mapOp(Operation *op) {
  b.setLoc(op->getLoc());
  if (failed(dispatch(op)))
    return failure();
  for (Value result : op->getResults())
    if (failed(putForDots(result)))
      return failure();
  return success();
}

LogicalResult KernelMapper::dispatch(Operation *op) {
  auto hasTile = [](ValueRange values) { return llvm::any_of(values, tgpu::isTile); };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<tile::FullOp, tile::IotaOp>([](Operation *) { return success(); })
      .Case([&](tile::LoadOp load) { return mapLoad(load); })
      .Case([&](tile::DotOp dot) { return mapDot(dot); })
      .Case([&](tile::ReduceOp reduce) { return mapReduce(reduce); })
      .Case([&](tile::ExpandOp expand) { return mapExpand(expand); })
      .Case([&](tile::TransposeOp transpose) { return mapTranspose(transpose); })
      .Case([&](tile::ReshapeOp reshape) { return mapReshape(reshape); })
      .Case([&](tile::SliceOp slice) { return mapSlice(slice); })
      .Case([&](tile::ScanOp scan) { return mapScan(scan); })
      .Case([&](tile::GatherOp gather) { return mapGather(gather); })
      .Case([&](tile::ScatterAddOp scatter) { return mapScatterAdd(scatter); })
      .Case([&](tile::AddAtOp add) {
        waitForCopies();
        // The indices have the value's layout.
        Value value = get(add.getValue());
        Attribute layout = cast<RankedTensorType>(value.getType()).getEncoding();
        Values indices;
        for (Value index : add.getIndices())
          indices.push_back(tgpu::isTile(index) ? getTile(index, layout) : map.lookup(index));
        tile::AddAtOp::create(b, value, map.lookup(add.getView()), indices, add.getExact());
        return success();
      })
      .Case([&](tile::StoreOp store) {
        waitForCopies(); // copies may still read the buffer
        auto mapped = StoreOp::create(b, get(store.getValue()), map.lookup(store.getView()),
                                      getAll(store.getIndices(), store.getIndices()),
                                      store.getStaticIndicesAttr(), store.getDimsAttr());
        noteStart(store, mapped);
        return success();
      })
      .Case([&](tile::AtomicAddOp add) {
        waitForCopies();
        auto mapped = AtomicAddOp::create(
            b, get(add.getValue()), map.lookup(add.getView()),
            getAll(add.getIndices(), add.getIndices()), add.getStaticIndicesAttr(),
            add.getDimsAttr(), add.getNumber() ? get(add.getNumber()) : Value(),
            add.getTurns() ? map.lookup(add.getTurns()) : Value(),
            getAll(add.getTurnIndices(), add.getTurnIndices()), add.getStaticTurnIndicesAttr());
        noteStart(add, mapped);
        return success();
      })
      .Case<tile::PrintOp, tile::AssertOp>([&](Operation *debug) {
        waitForCopies();
        IRMapping local = map;
        for (Value operand : debug->getOperands())
          local.map(operand, tgpu::isTile(operand) ? get(operand) : map.lookup(operand));
        b.clone(*debug, local);
        return success();
      })
      .Case([&](scf::ForOp loop) { return mapFor(loop); })
      .Case([&](scf::IfOp branch) { return mapIf(branch); })
      .Case([&](tile::SpreadOp spread) { return mapSpread(spread); })
      .Case([&](tile::ForBlocksOp loop) { return mapForBlocks(loop); })
      .Default(
          [&](Operation *) -> LogicalResult {
            if (isa<arith::ConstantOp>(op) && hasTile(op->getResults())) {
              if (isa<SplatElementsAttr>(cast<arith::ConstantOp>(op).getValue()))
                return success();
              return op->emitError(
                  "a constant tile must have one value for all elements; compute others, such "
                  "as by tile.iota");
            }
            if (hasTile(op->getResults()) && tgpu::isElementwise(op))
              return mapElementwise(op);
            if (isa<arith::SelectOp>(op) && isa<tile::ViewType>(op->getResult(0).getType()))
              return op->emitError() << "a view cannot be selected at run time on a GPU, but got "
                                     << op->getResult(0).getType()
                                     << "; load a tile of each and select between the tiles";
            WalkResult tiles = op->walk([&](Operation *inner) {
              return hasTile(inner->getOperands()) || hasTile(inner->getResults())
                         ? WalkResult::interrupt()
                         : WalkResult::advance();
            });
            if (tiles.wasInterrupted())
              return op->emitError()
                     << "operation '" << op->getName()
                     << "' on tiles cannot be mapped onto a GPU; use operations of arith, "
                        "math and tile";
            b.clone(*op, map);
            return success();
          });
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult KernelMapper::mapBody(Block &from, ValueRange like, Values &yielded) {
  for (Operation &op : from.without_terminator())
    if (failed(mapOp(&op)))
      return failure();
  waitForAll();
  yielded = getAll(from.getTerminator()->getOperands(), like);
  return success();
}

LogicalResult KernelMapper::inScope(Block *block, bool isLoop, function_ref<LogicalResult()> body) {
  OpBuilder::InsertionGuard guard(b);
  auto outerShared = inShared;
  bool outerWrites = std::exchange(writesShared, false);
  b.setInsertionPointToEnd(block);
  LogicalResult result = body();
  if (isLoop && writesShared) {
    b.setInsertionPointToStart(block);
    SyncOp::create(b, Value());
  }
  inShared = std::move(outerShared);
  writesShared = outerWrites || (!isLoop && writesShared);
  return result;
}

LogicalResult KernelMapper::mapFor(scf::ForOp op) {
  waitForAll();
  auto loop = scf::ForOp::create(b, map.lookup(op.getLowerBound()), map.lookup(op.getUpperBound()),
                                 map.lookup(op.getStep()),
                                 getAll(op.getInitArgs(), op.getRegionIterArgs()));
  loop->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  loop.setUnsignedCmp(op.getUnsignedCmp());
  if (op.getInitArgs().empty())
    loop.getBody()->getTerminator()->erase();
  map.map(op.getInductionVar(), loop.getInductionVar());
  map.map(op.getRegionIterArgs(), loop.getRegionIterArgs());
  map.map(op.getResults(), loop.getResults());
  return inScope(loop.getBody(), /*isLoop=*/true, [&] {
    Values yielded;
    if (failed(mapBody(*op.getBody(), op.getRegionIterArgs(), yielded)))
      return failure();
    scf::YieldOp::create(b, yielded);
    return success();
  });
}

LogicalResult KernelMapper::mapSpread(tile::SpreadOp op) {
  waitForAll();
  OpBuilder::InsertionGuard guard(b);
  auto spread = tile::SpreadOp::create(b, map.lookup(op.getCount()));
  Block *body = b.createBlock(&spread.getBody(), {}, b.getI32Type(), op.getLoc());
  map.map(op.getNumber(), body->getArgument(0));
  return inScope(body, /*isLoop=*/true, [&] {
    Values yielded;
    if (failed(mapBody(op.getBody().front(), {}, yielded)))
      return failure();
    tile::YieldOp::create(b);
    return success();
  });
}

LogicalResult KernelMapper::branch(Value condition, ValueRange like,
                                   function_ref<LogicalResult(Values &)> thenBody,
                                   function_ref<LogicalResult(Values &)> elseBody,
                                   Values &results) {
  waitForAll();
  SmallVector<Type> types = llvm::map_to_vector(like, [&](Value value) { return getType(value); });
  auto op = scf::IfOp::create(b, types, condition, /*addThenBlock=*/true,
                              /*addElseBlock=*/static_cast<bool>(elseBody));
  auto fill = [&](Block *block, function_ref<LogicalResult(Values &)> body) {
    return inScope(block, /*isLoop=*/false, [&] {
      Values yielded;
      if (failed(body(yielded)))
        return failure();
      scf::YieldOp::create(b, yielded);
      return success();
    });
  };
  if (failed(fill(op.thenBlock(), thenBody)) ||
      (elseBody && failed(fill(op.elseBlock(), elseBody))))
    return failure();
  results.assign(op->result_begin(), op->result_end());
  return success();
}

LogicalResult KernelMapper::mapIf(scf::IfOp op) {
  auto bodyOf = [&](Block *block) {
    return [this, op, block](Values &yielded) mutable {
      return mapBody(*block, op->getResults(), yielded);
    };
  };
  auto thenBody = bodyOf(op.thenBlock());
  auto elseBody = bodyOf(op.elseBlock());
  Values results;
  function_ref<LogicalResult(Values &)> noElse = nullptr;
  if (failed(branch(map.lookup(op.getCondition()), op->getResults(), thenBody,
                    op.elseBlock() ? function_ref<LogicalResult(Values &)>(elseBody) : noElse,
                    results)))
    return failure();
  map.map(op->getResults(), results);
  return success();
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

LogicalResult KernelMapper::run() {
  if (!kernel.getParams().empty())
    return kernel.emitOpError("has parameters that are not bound; run tile-specialize first");
  if (failed(layouts.run()))
    return failure();
  b.setInsertionPoint(kernel);
  mapped = KernelOp::create(b, kernel.getSymNameAttr(), b.getStringAttr(target.name),
                            b.getI64IntegerAttr(warps), kernel.getArgNamesAttr(),
                            kernel.getArgOptionalAttr(), kernel.getGridNamesAttr(),
                            kernel.getGridAttr(), kernel.getConstraintsAttr(),
                            kernel.getArgDefaultsAttr(), kernel.getBindingsAttr(), IntegerAttr());
  if (StringsAttr notes = notesAttr.get(kernel))
    notesAttr.set(mapped, notes);
  entry = b.createBlock(&mapped.getBody());
  for (BlockArgument argument : kernel.getBody().getArguments())
    map.map(argument, entry->addArgument(argument.getType(), argument.getLoc()));
  for (Operation &op : kernel.getBody().front()) {
    if (failed(mapOp(&op)))
      isRejected = true;
    if (isRejected)
      break;
  }
  if (isRejected) {
    mapped.erase();
    return failure();
  }
  waitForAll();
  kernel.erase();
  return success();
}
