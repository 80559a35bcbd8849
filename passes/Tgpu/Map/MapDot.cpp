// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps products, the loads of their operands, and the buffers in shared memory.

#include "base/Layout/SharedLayout.h"
#include "passes/Tgpu/Analysis/Notes.h"
#include "passes/Tgpu/Analysis/WrittenViews.h"
#include "passes/Tgpu/Map/ConvertedOperands.h"
#include "passes/Tgpu/Map/KernelMapper.h"
#include "passes/Tgpu/Map/PrepareKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

/// The widest swizzle that the rows fill, so that a column of 16-byte chunks is free of bank
/// conflicts.
SharedType KernelMapper::getShared(ArrayRef<int64_t> shape, Type element) {
  auto swizzle = tgpu::Swizzle::None;
  if (shape.size() == 2)
    swizzle = layout::SharedLayout::widestSwizzle(shape.back(),
                                                  static_cast<int>(getElementBits(element)));
  auto type = SharedType::getChecked([&] { return emitError(b.getLoc()); }, b.getContext(), shape,
                                     element, swizzle);
  if (type)
    return type;
  // The caller fails after the whole kernel has been written.
  isRejected = true;
  return SharedType::get(b.getContext(), {1, 1}, element, tgpu::Swizzle::None);
}

Value KernelMapper::getAlloc(Value key, SharedType type) {
  Value &buffer = allocs[{key, type}];
  if (buffer)
    return buffer;
  OpBuilder::InsertionGuard guard(b);
  if (lastAlloc)
    b.setInsertionPointAfter(lastAlloc);
  else
    b.setInsertionPointToStart(entry);
  lastAlloc = AllocOp::create(b, type, IntegerAttr());
  return buffer = lastAlloc->getResult(0);
}

void KernelMapper::waitForCopies() {
  if (!copiesPending)
    return;
  CopyWaitOp::create(b, 0);
  SyncOp::create(b, Value());
  copiesPending = false;
  writesPending.clear();
}

void KernelMapper::waitForAll() {
  waitForCopies();
  if (!writesPending.empty())
    SyncOp::create(b, Value());
  writesPending.clear();
}

void KernelMapper::writeShared(Value source, Value value, SharedType type, bool transpose) {
  Value tile = get(source);
  Value buffer = getAlloc(value, type);
  WriteSharedOp::create(b, tile, buffer, transpose);
  writesShared = true;
  writesPending.insert(buffer);
  inShared[{value, type}] = buffer;
}

void KernelMapper::putInShared(Value value, SharedType type) {
  if (!inShared.contains({value, type}))
    writeShared(value, value, type, /*transpose=*/false);
}

Value KernelMapper::getInShared(Value value, SharedType type) {
  putInShared(value, type);
  Value buffer = inShared.lookup({value, type});
  if (writesPending.contains(buffer))
    waitForAll();
  return buffer;
}

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

LogicalResult KernelMapper::copyForDots(tile::LoadOp op) {
  llvm::SmallSetVector<Type, 2> buffers;
  for (OpOperand &use : op->getUses()) {
    auto dot = dyn_cast<tile::DotOp>(use.getOwner());
    if (!dot || use.getOperandNumber() > 1 || !tgpu::isStaged(op))
      continue;
    SharedType buffer = getOperandBuffer(dot, use.getOperandNumber());
    if (!buffer)
      return failure();
    buffers.insert(buffer);
  }
  for (Type type : buffers)
    copyToShared(op, cast<SharedType>(type));
  return success();
}

/// Whether each instance of the kernel reads a tile of its own in each iteration: all numbers of
/// the grid determine its place. A quotient of a number, such as the key head of a query head, may
/// be that of another instance.
static bool isReadOnce(tile::LoadOp op) {
  if (!op->getParentOfType<tile::ForBlocksOp>())
    return false;
  auto kernel = op->getParentOfType<tile::KernelOp>();
  llvm::SetVector<Value> reached;
  auto add = [&](ValueRange values) { reached.insert(values.begin(), values.end()); };
  add(op->getOperands());
  for (size_t i = 0; i < reached.size(); ++i) {
    if (Operation *definition = reached[i].getDefiningOp()) {
      if (!isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::ShRUIOp,
               arith::ShRSIOp>(definition))
        add(definition->getOperands());
      continue;
    }
    auto argument = cast<BlockArgument>(reached[i]);
    if (auto loop = dyn_cast<tile::ForBlocksOp>(argument.getOwner()->getParentOp());
        loop && argument == loop.getBlockStart())
      add({loop.getLower(), loop.getUpper()});
  }
  return !kernel.getGridIds().empty() &&
         llvm::all_of(kernel.getGridIds(), [&](Value id) { return reached.contains(id); });
}

void KernelMapper::copyToShared(tile::LoadOp op, SharedType type) {
  Value buffer = getAlloc(op, type);
  DenseI64ArrayAttr dims = op.getDimsAttr();
  if (isReadByColumns(op)) // the copy keeps the view's orientation
    dims = b.getDenseI64ArrayAttr({dims[1], dims[0]});
  auto copy =
      CopyAsyncOp::create(b, map.lookup(op.getView()), getAll(op.getIndices(), op.getIndices()),
                          op.getStaticIndicesAttr(), dims, buffer);
  noteStart(op, copy);
  if (isReadOnce(op))
    readOnceAttr.set(copy);
  CopyCommitOp::create(b);
  copiesPending = writesShared = true;
  inShared[{op, type}] = buffer;
}

bool KernelMapper::isReadFromBuffer(tile::LoadOp load) {
  if (copiedAttr.isOn(load))
    return true;
  // A single load without a tensor map would prevent all copies by TMA.
  if (getViewRoot(load.getView()).getDefiningOp<tile::CapturedOp>())
    return false;
  auto type = dyn_cast<RankedTensorType>(load.getType());
  constexpr int64_t leastBits = 32; // the smallest copy of one thread
  return type && type.getRank() == 1 && tgpu::isStaged(load) &&
         getElementBits(type.getElementType()) >= leastBits;
}

SharedType KernelMapper::getReadBuffer(tile::LoadOp load) {
  auto type = cast<RankedTensorType>(load.getType());
  SmallVector<int64_t> shape(type.getShape());
  if (isReadByColumns(load))
    std::swap(shape[0], shape[1]);
  return getShared(shape, type.getElementType());
}

/// Only copies to shared memory find rows in pages.
static LogicalResult verifyPagedLoad(tile::LoadOp op) {
  if (!op.getView().getDefiningOp<tile::PagedOp>())
    return success();
  bool isOperand = op.getPad() == nullptr && llvm::all_of(op->getUses(), [](OpOperand &use) {
                     return isa<tile::DotOp>(use.getOwner()) && use.getOperandNumber() < 2;
                   });
  if (isOperand || copiedAttr.isOn(op))
    return success();
  InFlightDiagnostic diagnostic =
      op.emitOpError("on a GPU, a tile of rows in pages must be an operand of products only, "
                     "without a pad, but has another use; gather the rows with 'tile.gather'");
  if (!op->use_empty())
    diagnostic.attachNote(op->getUsers().begin()->getLoc()) << "a use";
  return diagnostic;
}

LogicalResult KernelMapper::mapLoad(tile::LoadOp op) {
  if (failed(verifyPagedLoad(op)))
    return failure();
  bool isCopied = copiedAhead.contains(op);
  if (isReadFromBuffer(op) && (isCopied || copiedAttr.isOn(op))) {
    if (!isCopied)
      copyToShared(op, getReadBuffer(op));
    waitForCopies();
    Value buffer = inShared.lookup({op, getReadBuffer(op)});
    map.map(op.getResult(),
            ReadOp::create(b, getType(op.getResult()), buffer, isReadByColumns(op)));
    return success();
  }
  if (!isCopied && failed(copyForDots(op)))
    return failure();
  bool inRegisters = llvm::any_of(op->getUses(), [&](OpOperand &use) {
    return !isa<tile::DotOp>(use.getOwner()) || use.getOperandNumber() > 1 || !tgpu::isStaged(op);
  });
  if (inRegisters)
    map.map(op.getResult(),
            LoadOp::create(b, getType(op.getResult()), map.lookup(op.getView()),
                           getAll(op.getIndices(), op.getIndices()), op.getStaticIndicesAttr(),
                           op.getDimsAttr(), op.getPad() ? map.lookup(op.getPad()) : Value()));
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

bool KernelMapper::usesMma(tile::DotOp op) {
  Type element = tile::getElementType(op.getLhs().getType());
  return element.isF16() || element.isBF16() || op.getPrecision() == tile::DotPrecision::TF32;
}

/// The buffer with k rounded up to the instruction's k, if the operand's load permits it.
SharedType KernelMapper::getOperandBuffer(tile::DotOp op, unsigned operand) {
  Value value = op->getOperand(operand);
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  if (usesMma(op)) {
    SmallVector<int64_t> rounded = LayoutInference::getOperandShape(op, operand);
    int64_t dim = rounded[0] != shape[0] ? 0 : 1;
    if (rounded != shape &&
        (!tgpu::isStaged(value) || !endsWithView(value.getDefiningOp<tile::LoadOp>(), dim))) {
      op.emitError() << "inner extent of a product must be a multiple of "
                     << getInstructionDepth(type.getElementType())
                     << ", or end where the views of both operands end, but got " << shape[dim];
      return {};
    }
    shape = std::move(rounded);
  }
  SharedType buffer = getShared(shape, type.getElementType());
  if (!target.hasRoles())
    return buffer;
  tgpu::Swizzle swizzle = LayoutInference::getSwizzleForTma(value, shape);
  return swizzle == buffer.getSwizzle()
             ? buffer
             : SharedType::get(buffer.getContext(), shape, buffer.getElementType(), swizzle);
}

bool KernelMapper::isReadFromRegisters(tile::DotOp op, unsigned operand) {
  Value value = op->getOperand(operand);
  Attribute layout = layouts.get(op.getResult());
  auto mma = dyn_cast<MmaAttr>(layout);
  if (!mma || !usesMma(op) || tgpu::isStaged(value) ||
      (operand == 0 ? op.getTransposeA() : op.getTransposeB()))
    return false;
  bool isAccumulator = operand == 0 && mma.getWarpsN() == 1 && layouts.get(value) == layout;
  return isAccumulator || tgpu::isRematerialized(value);
}

/// Whether one product by wgmma takes a converted tile from registers, and another one, which reads
/// its columns, from shared memory. It is written as soon as it is converted: held until the second
/// product, the tiles of several loads exceed the registers.
bool KernelMapper::isReadBothWays(Value value) {
  bool fromRegisters = false, fromShared = false;
  for (OpOperand &use : value.getUses()) {
    auto dot = dyn_cast<tile::DotOp>(use.getOwner());
    if (!dot || !isa<WgmmaAttr>(layouts.get(dot.getResult())) || !layouts.getWgmma(dot) ||
        dot->getBlock() != value.getParentBlock())
      return false;
    bool isA = use.getOperandNumber() == 0 && !dot.getTransposeA();
    (isA && layouts.get(value) == layouts.get(dot.getResult()) ? fromRegisters : fromShared) = true;
  }
  return fromRegisters && fromShared && getConvertedLoad(value);
}

LogicalResult KernelMapper::putForDots(Value value) {
  if (!tgpu::isTile(value) || tgpu::isStaged(value) || tgpu::isRematerialized(value))
    return success();
  for (OpOperand &use : value.getUses()) {
    auto dot = dyn_cast<tile::DotOp>(use.getOwner());
    unsigned operand = use.getOperandNumber();
    if (!dot || operand > 1)
      continue;
    if (operand == 0 && dot.getTransposeA() && isReadBothWays(value)) {
      SharedType buffer = getOperandBuffer(dot, operand);
      if (!buffer)
        return failure();
      putInShared(value, buffer);
      continue;
    }
    bool isInner = dot->getBlock() != value.getParentBlock();
    // An accumulator's layout serves as operand a without conversion. Multiply-adds and wgmma of
    // the same block write their operands at the product.
    bool isShared = isInner ? operand == 1 || isa<BlockedAttr>(layouts.get(value))
                            : usesMma(dot) && isa<MmaAttr>(layouts.get(dot.getResult())) &&
                                  !isReadFromRegisters(dot, operand);
    if (!isShared)
      continue;
    SharedType buffer = getOperandBuffer(dot, operand);
    if (!buffer)
      return failure();
    if (isInner)
      getInShared(value, buffer);
    else
      putInShared(value, buffer);
  }
  return success();
}

FailureOr<Value> KernelMapper::getOperand(tile::DotOp op, unsigned operand, MmaAttr layout) {
  Value value = op->getOperand(operand);
  bool transpose = operand == 0 ? op.getTransposeA() : op.getTransposeB();
  auto type = cast<RankedTensorType>(value.getType());
  auto kind = operand == 0 ? MatrixOperand::A : MatrixOperand::B;
  auto operandLayout = OperandAttr::get(op.getContext(), kind, layout);
  SharedType buffer = getOperandBuffer(op, operand);
  if (!buffer)
    return failure();
  if (isReadFromRegisters(op, operand) && !inShared.contains({value, buffer}))
    return getTile(value, operandLayout);
  Value source = getInShared(value, buffer);
  waitForCopies();
  SmallVector<int64_t> shape(buffer.getShape());
  if (transpose)
    std::swap(shape[0], shape[1]);
  auto resultType = RankedTensorType::get(shape, type.getElementType(), operandLayout);
  return Value(ReadOp::create(b, resultType, source, transpose));
}

bool KernelMapper::isAccumulator(tile::DotOp op, Attribute layout) {
  Value lhs = op.getLhs();
  return !tgpu::isStaged(lhs) && !op.getTransposeA() &&
         (isReadBothWays(lhs) || !inShared.contains({lhs, getOperandBuffer(op, 0)})) &&
         cast<RankedTensorType>(getType(lhs)).getEncoding() == layout;
}

LogicalResult KernelMapper::putForWgmma(tile::DotOp op) {
  bool writes = false;
  for (Operation *next = op; next; next = next->getNextNode()) {
    auto dot = dyn_cast<tile::DotOp>(next);
    if (!dot || !layouts.getWgmma(dot) || !isa<WgmmaAttr>(layouts.get(dot.getResult())))
      continue;
    for (unsigned operand : {0, 1}) {
      Value value = dot->getOperand(operand);
      SharedType buffer = getOperandBuffer(dot, operand);
      if (!buffer)
        return failure();
      // Values after the product may have been mapped, too, in another form of the iteration.
      Operation *def = value.getDefiningOp();
      bool isBehind = def && def->getBlock() == op->getBlock() && !def->isBeforeInBlock(op);
      bool exists = !isBehind && map.contains(value) && !tgpu::isStaged(value) &&
                    !inShared.contains({value, buffer});
      if (!exists || (operand == 0 && isAccumulator(dot, layouts.get(dot.getResult()))))
        continue;
      writes |= dot == op;
      if (writes)
        putInShared(value, buffer);
    }
    // Nothing is gained without a barrier.
    if (dot == op && !writes)
      return success();
  }
  return success();
}

LogicalResult KernelMapper::mapWgmma(tile::DotOp op, WgmmaAttr layout) {
  SharedType types[] = {getOperandBuffer(op, 0), getOperandBuffer(op, 1)};
  if (!types[0] || !types[1])
    return failure();
  Value lhs = op.getLhs(), rhs = op.getRhs();
  bool fromRegisters = isAccumulator(op, layout);
  if (failed(putForWgmma(op)))
    return failure();
  auto operandLayout = OperandAttr::get(op.getContext(), MatrixOperand::A, layout);
  if (op.getInterleaved() && !fromRegisters)
    return op.emitError()
           << "operand a of an interleaved product must be computed from a product of "
              "the same rows, in registers, but got "
           << getType(lhs);
  Value a = op.getInterleaved() ? ConvertOp::create(this->b, getType(lhs.getType(), operandLayout),
                                                    map.lookup(lhs), Value(), /*interleaved=*/true)
            : fromRegisters     ? getTile(lhs, operandLayout)
                                : getInShared(lhs, types[0]);
  Value b = getInShared(rhs, types[1]);
  waitForCopies();
  auto tile = cast<RankedTensorType>(getType(op.getResult()));
  Value acc = op.getAcc() ? getTile(op.getAcc(), layout) : Value();
  Value pending = WgmmaOp::create(this->b, PendingType::get(op.getContext(), tile), a, b,
                                  op.getTransposeA(), op.getTransposeB(), acc);
  WgmmaCommitOp::create(this->b);
  auto wait = WgmmaWaitOp::create(this->b, TypeRange{tile}, 0, ValueRange{pending});
  map.map(op.getResult(), wait.getResult(0));
  return success();
}

LogicalResult KernelMapper::mapDot(tile::DotOp op) {
  Attribute layout = layouts.get(op.getResult());
  Type type = getType(op.getResult());
  if (auto wgmma = dyn_cast<WgmmaAttr>(layout); wgmma && layouts.getWgmma(op))
    return mapWgmma(op, wgmma);
  if (op.getInterleaved())
    return op.emitError() << "an interleaved product must be one of wgmma, but " << target.name
                          << " has the layout " << layout
                          << " for its result; leave out 'interleaved'";
  Value acc;
  if (op.getAcc()) {
    acc = getTile(op.getAcc(), layout);
  } else {
    Type element = tile::getElementType(type);
    acc = tile::FullOp::create(b, type, arith::ConstantOp::create(b, b.getFloatAttr(element, 0.0)));
  }
  if (usesMma(op)) {
    auto mma = dyn_cast<MmaAttr>(layout);
    if (!mma)
      return op.emitError() << "a product of " << tile::getElementType(op.getLhs().getType())
                            << " by " << warps << " warps needs a multiple of 16 rows and of 8 "
                            << "columns for each warp, but got " << op.getType()
                            << "; use larger blocks or fewer warps";
    if (target.has(Feature::Wgmma))
      addNote(mapped, op.getLoc(), "tile-to-tgpu", "a product by mma.sync, not wgmma",
              layouts.whyNotWgmma(op));
    FailureOr<Value> lhs = getOperand(op, 0, mma);
    if (failed(lhs))
      return failure();
    FailureOr<Value> rhs = getOperand(op, 1, mma);
    if (failed(rhs))
      return failure();
    map.map(op.getResult(), MmaOp::create(b, type, *lhs, *rhs, acc));
    return success();
  }
  Type element = tile::getElementType(op.getLhs().getType());
  if (!element.isF32() && !element.isF64())
    return op.emitError() << "target " << target.name << " has no product of " << element
                          << "; the supported ones are f16, bf16, f32 and f64";
  if (element.isF32())
    addNote(mapped, op.getLoc(), "tile-to-tgpu", "a product on the CUDA cores",
            "its operands are f32; use f16 or bf16, or precision tf32");
  SharedType types[] = {getOperandBuffer(op, 0), getOperandBuffer(op, 1)};
  if (!types[0] || !types[1])
    return failure();
  Value lhs = getInShared(op.getLhs(), types[0]), rhs = getInShared(op.getRhs(), types[1]);
  waitForCopies();
  map.map(op.getResult(),
          FmaDotOp::create(b, type, lhs, rhs, op.getTransposeA(), op.getTransposeB(), acc));
  return success();
}
