// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Register tiles from and to shared memory: ldmatrix where the layout allows it, else vectors.

#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Tgpu/OperandReads.h"

#include "base/Layout/RegisterAccess.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::Coord;
using layout::MatrixAccess;
using layout::RegisterLayout;
using layout::VectorAccess;
using MatrixRead = KernelEmitter::MatrixRead;

//===----------------------------------------------------------------------===//
// One vector
//===----------------------------------------------------------------------===//

Values KernelEmitter::loadVector(Value address, Type element, int64_t count) {
  bool isFlag = element.isInteger(1);
  Type memory = isFlag ? b.getI8Type() : element;
  Type type = count == 1 ? memory : VectorType::get(count, memory);
  unsigned alignment = memory.getIntOrFloatBitWidth() / 8 * count;
  Value loaded = LLVM::LoadOp::create(b, type, address, alignment);
  Values elements;
  for (int64_t i = 0; i < count; ++i) {
    Value value = count == 1 ? loaded : extract(loaded, i);
    elements.push_back(
        isFlag ? arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value, zero(memory)).getResult()
               : value);
  }
  return elements;
}

void KernelEmitter::storeVector(Value address, ArrayRef<Value> elements) {
  Values list(elements);
  if (list.front().getType().isInteger(1))
    for (Value &value : list)
      value = arith::ExtUIOp::create(b, b.getI8Type(), value);
  unsigned alignment = list.front().getType().getIntOrFloatBitWidth() / 8 * list.size();
  LLVM::StoreOp::create(b, list.size() == 1 ? list.front() : vectorOf(list), address, alignment);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// The address of each issue of a plan; `place` is the row and column of the buffer where a
/// thread's part of it begins.
template <typename Access>
static Values issueAddresses(KernelEmitter &e, const Access &access, Value buffer,
                             const layout::SharedLayout &shared, ArrayRef<layout::Digit> warpDigits,
                             llvm::function_ref<Coord(int, int, int)> place) {
  auto offsetOf = [&](int issue) -> Value {
    Value at[2];
    for (int axis : {0, 1}) {
      at[axis] = e.threadNumber([&](int w, int l) { return place(issue, w, l)[axis]; }, warpDigits);
      if (!at[axis])
        return nullptr;
    }
    // As long as it depends on the thread alone, it belongs to what is computed once.
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPoint(e.endOfEntry);
    return e.byteOffset(shared, at[0], at[1]);
  };
  Value first = offsetOf(0);
  if (!first)
    return {};
  llvm::DenseMap<int64_t, Value> flipped;
  flipped[0] = first;
  Values addresses;
  for (int issue = 0; issue < static_cast<int>(access.issues().size()); ++issue) {
    std::optional<layout::OffsetDelta> delta = access.delta(issue);
    if (!delta) {
      Value offset = offsetOf(issue);
      if (!offset)
        return {};
      addresses.push_back(e.advance(buffer, offset));
      continue;
    }
    Value &offset = flipped[delta->flip];
    if (!offset) {
      OpBuilder::InsertionGuard guard(e.b);
      e.b.setInsertionPoint(e.endOfEntry);
      offset = arith::XOrIOp::create(e.b, first, e.i32(delta->flip));
    }
    addresses.push_back(e.advance(e.advance(buffer, offset), delta->add));
  }
  return addresses;
}

static Coord toBuffer(const RegisterLayout &layout, bool exchanged, Coord element) {
  if (layout.rank() == 1)
    return {0, element[0]};
  if (exchanged)
    std::swap(element[0], element[1]);
  return element;
}

static std::optional<KernelEmitter::MatrixRead>
planMatrixRead(KernelEmitter &e, const RegisterLayout &layout, Value buffer,
               const layout::SharedLayout &shared, bool exchanged) {
  Result<MatrixAccess> access = MatrixAccess::plan(layout, shared, {exchanged, {0, 0}});
  if (!access)
    return std::nullopt;
  MatrixRead read;
  read.addresses = issueAddresses(e, *access, buffer, shared, layout.warpDigits(),
                                  [&](int i, int w, int l) { return access->rowStart(i, w, l); });
  if (read.addresses.empty())
    return std::nullopt;
  read.issues = access->issues();
  read.transposed = access->isTransposed();
  return read;
}

Values KernelEmitter::loadMatrices(const MatrixRead &read, size_t issue) {
  int count = read.issues[issue].numMatrices;
  std::string name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
                     (read.transposed ? ".trans" : "") + ".b16";
  SmallVector<Type> types(count, b.getI32Type());
  Type loaded =
      count == 1 ? types[0] : Type(LLVM::LLVMStructType::getLiteral(b.getContext(), types));
  Value matrices = intrinsic(name, loaded, read.addresses[issue]);
  Values words;
  for (int i = 0; i < count; ++i)
    words.push_back(count == 1 ? matrices : extract(matrices, i));
  return words;
}

LogicalResult KernelEmitter::readShared(Operation *op, Value buffer, SharedType type,
                                        bool exchanged, Value result) {
  const layout::SharedLayout *shared = getLayout(op, type);
  const RegisterLayout &layout = *getLayout(op, result.getType());
  if (!shared)
    return failure();
  Type element = getScalarType(type.getElementType());
  bool isOperand = isPacked(result.getType());
  if (isOperand || (shared->elementBits() == 16 && layout.rank() == 2))
    if (std::optional<MatrixRead> read =
            planMatrixRead(*this, layout, buffer, *shared, exchanged)) {
      Values words(layout.registersPerThread() * shared->elementBits() / 32);
      for (size_t issue = 0; issue < read->issues.size(); ++issue)
        for (auto [i, value] : llvm::enumerate(loadMatrices(*read, issue)))
          words[read->issues[issue].words[i]] = value;
      set(result, isOperand ? words : unpackWords(words, element));
      return success();
    }

  Result<VectorAccess> access = VectorAccess::plan(layout, *shared, {exchanged, {0, 0}});
  if (!access)
    return op->emitError() << access.message();
  Values addresses = issueAddresses(
      *this, *access, buffer, *shared, layout.warpDigits(), [&](int i, int w, int l) {
        return toBuffer(layout, exchanged, layout.element(w, l, access->issues()[i].firstRegister));
      });
  if (addresses.empty())
    return op->emitError() << "threads of " << result.getType() << " do not form a grid";
  Values elements;
  for (auto [issue, address] : llvm::zip_equal(access->issues(), addresses))
    llvm::append_range(elements, loadVector(address, element, issue.count));
  setElements(result, elements);
  return success();
}

/// By stmatrix; false where the layout or the target does not allow it.
static bool storeMatrices(KernelEmitter &e, Value value, Value buffer,
                          const layout::SharedLayout &shared, bool exchanged) {
  auto type = cast<RankedTensorType>(value.getType());
  const RegisterLayout &layout = *e.getLayout(e.kernel, type);
  if (!getTargetOf(e.kernel).has(Feature::StoreMatrix) || shared.elementBits() != 16 ||
      layout.rank() != 2 || !isa<MmaAttr, WgmmaAttr>(type.getEncoding()))
    return false;
  Result<MatrixAccess> access = MatrixAccess::plan(layout, shared, {exchanged, {0, 0}});
  if (!access)
    return false;
  Values addresses = issueAddresses(e, *access, buffer, shared, layout.warpDigits(),
                                    [&](int i, int w, int l) { return access->rowStart(i, w, l); });
  if (addresses.empty())
    return false;
  Values words = e.packWords(e.getElements(value));
  for (auto [issue, address] : llvm::zip_equal(access->issues(), addresses)) {
    int count = issue.numMatrices;
    std::string name = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
                       (access->isTransposed() ? ".trans" : "") + ".b16";
    Values operands{address};
    for (int i = 0; i < count; ++i)
      operands.push_back(words[issue.words[i]]);
    e.intrinsic(name, operands);
  }
  return true;
}

LogicalResult KernelEmitter::writeShared(Operation *op, Value value, Value buffer, SharedType type,
                                         bool exchanged) {
  const layout::SharedLayout *shared = getLayout(op, type);
  const RegisterLayout &layout = *getLayout(op, value.getType());
  if (!shared)
    return failure();
  if (storeMatrices(*this, value, buffer, *shared, exchanged))
    return success();
  Result<VectorAccess> access = VectorAccess::plan(layout, *shared, {exchanged, {0, 0}});
  if (!access)
    return op->emitError() << access.message();
  Values addresses = issueAddresses(
      *this, *access, buffer, *shared, layout.warpDigits(), [&](int i, int w, int l) {
        return toBuffer(layout, exchanged, layout.element(w, l, access->issues()[i].firstRegister));
      });
  if (addresses.empty())
    return op->emitError() << "threads of " << value.getType() << " do not form a grid";
  Values elements = getElements(value);
  for (auto [issue, address] : llvm::zip_equal(access->issues(), addresses))
    if (KernelEmitter::isCanonicalRegister(layout, issue.firstRegister))
      storeVector(address, ArrayRef(elements).slice(issue.firstRegister, issue.count));
  return success();
}

static LogicalResult emitRead(KernelEmitter &e, ReadOp op) {
  Value buffer = e.getScalar(op.getBuffer()), result = op.getResult();
  auto type = cast<SharedType>(op.getBuffer().getType());
  const layout::SharedLayout *shared = e.getLayout(op, type);
  if (!shared)
    return failure();
  if (KernelEmitter::isPacked(result.getType()) && isReadByProduct(op))
    if (std::optional<MatrixRead> read = planMatrixRead(e, *e.getLayout(op, result.getType()),
                                                        buffer, *shared, op.getTranspose())) {
      e.deferredReads[result] = std::move(*read);
      return success();
    }
  return e.readShared(op, buffer, type, op.getTranspose(), result);
}

static LogicalResult emitWrite(KernelEmitter &e, WriteSharedOp op) {
  return e.writeShared(op, op.getValue(), e.getScalar(op.getBuffer()),
                       cast<SharedType>(op.getBuffer().getType()), op.getTranspose());
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitAlloc(Operation *op, std::optional<uint64_t> offset, int64_t bytes,
                                       int64_t alignment) {
  if (!offset)
    return op->emitError() << "a buffer must have an offset before code is generated; run "
                              "tgpu-plan-shared-memory";
  if (std::optional<uint64_t> limit = kernel.getSharedBytes(); limit && *offset + bytes > *limit)
    return op->emitError() << "a buffer of " << bytes << " bytes at " << *offset
                           << " must lie within the kernel's " << *limit
                           << " bytes of shared memory";
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(endOfEntry);
  Value base = LLVM::AddressOfOp::create(b, sharedMemory);
  set(op->getResult(0), {advance(base, static_cast<int64_t>(*offset))});
  return success();
}

static LogicalResult emitSlot(KernelEmitter &e, SlotOp op) {
  auto type = cast<RingType>(op.getRing().getType());
  int64_t slot = llvm::alignTo(getBytes(type.getSlot()), getAlignment(type.getSlot()));
  Value ring = e.getScalar(op.getRing());
  if (type.getStages() == 1) {
    e.set(op.getBuffer(), {ring});
    return success();
  }
  Value index = arith::RemUIOp::create(e.b, e.getScalar(op.getUse()), e.i32(type.getStages()));
  e.set(op.getBuffer(), {e.advance(ring, e.mul(index, e.i32(slot)))});
  return success();
}

static LogicalResult emitAllocBuffer(KernelEmitter &e, AllocOp op) {
  auto type = cast<SharedType>(op.getBuffer().getType());
  return e.emitAlloc(op, op.getOffset(), getBytes(type), getAlignment(type));
}

static LogicalResult emitAllocRing(KernelEmitter &e, AllocRingOp op) {
  auto type = cast<RingType>(op.getRing().getType());
  int64_t alignment = getAlignment(type.getSlot());
  int64_t slot = llvm::alignTo(getBytes(type.getSlot()), alignment);
  return e.emitAlloc(op, op.getOffset(), type.getStages() * slot, alignment);
}

void tgpu::registerSharedLowerings(LoweringTable &table) {
  table.add<AllocOp>(emitAllocBuffer);
  table.add<AllocRingOp>(emitAllocRing);
  table.add<SlotOp>(emitSlot);
  table.add<ReadOp>(emitRead);
  table.add<WriteSharedOp>(emitWrite);
}
