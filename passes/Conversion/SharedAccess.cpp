// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers, vectors, and tiles by ldmatrix and stmatrix.

#include "passes/Conversion/SharedAccess.h"

#include "passes/Conversion/ThreadCoords.h"

#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::Coord;
using layout::MatrixAccess;
using layout::RegisterLayout;
using layout::VectorAccess;

LogicalResult tgpu::bindToShared(KernelEmitter &e, Operation *op, std::optional<uint64_t> offset) {
  ThreadBuilder &b = e.b;
  if (!offset)
    return op->emitError() << "a buffer must have an offset before code is generated; run "
                              "tgpu-plan-shared-memory";
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(b.threads.endOfEntry);
  Value base =
      LLVM::AddressOfOp::create(b, e.module.lookupSymbol<LLVM::GlobalOp>(sharedMemoryName));
  e.set(op->getResult(0), {b.advance(base, static_cast<int64_t>(*offset))});
  return success();
}

Value tgpu::getWindowAddress(ThreadBuilder &b, Value pointer) {
  return LLVM::PtrToIntOp::create(b, b.getI32Type(), pointer);
}

//===----------------------------------------------------------------------===//
// One vector
//===----------------------------------------------------------------------===//

Values tgpu::loadVector(ThreadBuilder &b, Value address, Type element, int64_t count) {
  bool isFlag = element.isInteger(1);
  Type memory = isFlag ? b.getI8Type() : element;
  Type type = count == 1 ? memory : VectorType::get(count, memory);
  unsigned alignment = memory.getIntOrFloatBitWidth() / 8 * count;
  Value loaded = LLVM::LoadOp::create(b, type, address, alignment);
  Values elements;
  for (int64_t i = 0; i < count; ++i) {
    Value value = count == 1 ? loaded : b.extract(loaded, i);
    elements.push_back(isFlag ? b.notEqual(value, b.zero(memory)) : value);
  }
  return elements;
}

void tgpu::storeVector(ThreadBuilder &b, Value address, ArrayRef<Value> elements) {
  Values list(elements);
  if (list.front().getType().isInteger(1))
    for (Value &value : list)
      value = arith::ExtUIOp::create(b, b.getI8Type(), value);
  unsigned alignment = list.front().getType().getIntOrFloatBitWidth() / 8 * list.size();
  LLVM::StoreOp::create(b, list.size() == 1 ? list.front() : b.vectorOf(list), address, alignment);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// The address of each issue of a plan; `place` is the row and column of the buffer at which a
/// thread's part of it begins. `atUse`: computed here, where LLVM and ptxas cannot see that it is
/// the same for all tiles. Otherwise, the addresses take registers in the loops before.
template <typename Access>
static Values issueAddresses(ThreadBuilder &b, const Access &access, Value buffer,
                             const layout::SharedLayout &shared, ArrayRef<layout::Digit> warpDigits,
                             llvm::function_ref<Coord(int, int, int)> place, bool atUse = false) {
  llvm::SaveAndRestore<Value> lane(b.threads.lane);
  if (atUse)
    b.threads.lane = b.readLane();
  auto offsetOf = [&](int issue) -> Value {
    Value at[2];
    for (int axis : {0, 1}) {
      at[axis] = getThreadNumber(
          b, [&](int w, int l) { return place(issue, w, l)[axis]; }, warpDigits, atUse);
      if (!at[axis])
        return nullptr;
    }
    // If it depends only on the thread, it is computed once, at entry.
    OpBuilder::InsertionGuard guard(b);
    if (!atUse)
      b.setInsertionPoint(b.threads.endOfEntry);
    return getByteOffset(b, shared, at[0], at[1]);
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
      addresses.push_back(b.advance(buffer, offset));
      continue;
    }
    Value &offset = flipped[delta->flip];
    if (!offset) {
      OpBuilder::InsertionGuard guard(b);
      if (!atUse)
        b.setInsertionPoint(b.threads.endOfEntry);
      offset = arith::XOrIOp::create(b, first, b.i32(delta->flip));
    }
    addresses.push_back(b.advance(b.advance(buffer, offset), delta->add));
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

static std::optional<MatrixRead> planMatrixRead(KernelEmitter &e, const RegisterLayout &layout,
                                                Value buffer, const layout::SharedLayout &shared,
                                                bool exchanged) {
  Result<MatrixAccess> access = MatrixAccess::plan(layout, shared, {exchanged, {0, 0}});
  if (!access)
    return std::nullopt;
  MatrixRead read;
  read.addresses = issueAddresses(e.b, *access, buffer, shared, layout.warpDigits(),
                                  [&](int i, int w, int l) { return access->rowStart(i, w, l); });
  if (read.addresses.empty())
    return std::nullopt;
  read.issues = access->issues();
  read.transposed = access->isTransposed();
  return read;
}

Values tgpu::loadMatrices(ThreadBuilder &b, const MatrixRead &read, size_t issue) {
  int count = read.issues[issue].numMatrices;
  std::string name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
                     (read.transposed ? ".trans" : "") + ".b16";
  SmallVector<Type> types(count, b.getI32Type());
  Type loaded =
      count == 1 ? types[0] : Type(LLVM::LLVMStructType::getLiteral(b.getContext(), types));
  Value matrices = b.intrinsic(name, loaded, read.addresses[issue]);
  Values words;
  for (int i = 0; i < count; ++i)
    words.push_back(count == 1 ? matrices : b.extract(matrices, i));
  return words;
}

/// A tile of bytes whose rows are columns of the buffer, by ldmatrix of pairs of bytes. Null unless
/// threads hold pairs of rows.
static std::optional<Values> readBytePairs(KernelEmitter &e, const RegisterLayout &layout,
                                           Value buffer, SharedType type, Type element) {
  ThreadBuilder &b = e.b;
  std::optional<RegisterLayout> pairs = layout.ofRowPairs();
  ArrayRef<int64_t> shape = type.getShape();
  if (!pairs || shape.size() != 2 || shape[1] % 2 != 0)
    return std::nullopt;
  constexpr int pairBits = 16;
  Result<layout::SharedLayout> shared =
      layout::SharedLayout::swizzled(shape[0], shape[1] / 2, pairBits, type.getSwizzle());
  if (!shared)
    return std::nullopt;
  std::optional<MatrixRead> read = planMatrixRead(e, *pairs, buffer, *shared, /*exchanged=*/true);
  if (!read)
    return std::nullopt;
  // A word has two columns of two rows; the registers of a row follow each other.
  constexpr int64_t columnsOfRows = 0x3120;
  Values words(pairs->registersPerThread() / 2);
  for (size_t issue = 0; issue < read->issues.size(); ++issue)
    for (auto [i, value] : llvm::enumerate(loadMatrices(b, *read, issue)))
      words[read->issues[issue].words[i]] =
          b.intrinsic("llvm.nvvm.prmt", b.getI32Type(), {value, value, b.i32(columnsOfRows)});
  return b.unpackWords(words, element);
}

LogicalResult tgpu::readShared(KernelEmitter &e, Operation *op, Value buffer, SharedType type,
                               bool exchanged, Value result) {
  ThreadBuilder &b = e.b;
  const layout::SharedLayout *shared = e.getLayout(op, type);
  const RegisterLayout &layout = *e.getLayout(op, result.getType());
  if (!shared)
    return failure();
  Type element = e.getScalarType(type.getElementType());
  bool isOperand = e.isPacked(result.getType());
  if (isOperand || (shared->elementBits() == 16 && layout.rank() == 2))
    if (std::optional<MatrixRead> read = planMatrixRead(e, layout, buffer, *shared, exchanged)) {
      Values words(layout.registersPerThread() * shared->elementBits() / 32);
      for (size_t issue = 0; issue < read->issues.size(); ++issue)
        for (auto [i, value] : llvm::enumerate(loadMatrices(b, *read, issue)))
          words[read->issues[issue].words[i]] = value;
      e.set(result, isOperand ? words : b.unpackWords(words, element));
      return success();
    }

  if (shared->elementBits() == 8 && exchanged)
    if (std::optional<Values> elements = readBytePairs(e, layout, buffer, type, element)) {
      e.setElements(result, *elements);
      return success();
    }

  Result<VectorAccess> access = VectorAccess::plan(layout, *shared, {exchanged, {0, 0}});
  if (!access)
    return op->emitError() << access.message();
  Values addresses =
      issueAddresses(b, *access, buffer, *shared, layout.warpDigits(), [&](int i, int w, int l) {
        return toBuffer(layout, exchanged, layout.element(w, l, access->issues()[i].firstRegister));
      });
  if (addresses.empty())
    return op->emitError() << "threads of " << result.getType() << " do not form a grid";
  Values elements;
  for (auto [issue, address] : llvm::zip_equal(access->issues(), addresses))
    llvm::append_range(elements, loadVector(b, address, element, issue.count));
  e.setElements(result, elements);
  return success();
}

namespace {
struct DeferredReads : llvm::DenseMap<Value, MatrixRead> {};
} // namespace

bool tgpu::deferRead(KernelEmitter &e, Operation *op, Value buffer,
                     const layout::SharedLayout &shared, bool exchanged, Value result) {
  std::optional<MatrixRead> read =
      planMatrixRead(e, *e.getLayout(op, result.getType()), buffer, shared, exchanged);
  if (read)
    e.state<DeferredReads>()[result] = std::move(*read);
  return read.has_value();
}

const MatrixRead *tgpu::getDeferredRead(KernelEmitter &e, Value operand) {
  auto &reads = e.state<DeferredReads>();
  auto found = reads.find(operand);
  return found == reads.end() ? nullptr : &found->second;
}

/// By stmatrix; false if the layout or the target does not support it.
static bool storeMatrices(KernelEmitter &e, Value value, Value buffer,
                          const layout::SharedLayout &shared, bool exchanged, bool atUse) {
  ThreadBuilder &b = e.b;
  auto type = cast<RankedTensorType>(value.getType());
  const RegisterLayout &layout = *e.getLayout(e.kernel, type);
  if (!getTargetOf(e.kernel).has(Feature::StoreMatrix) || shared.elementBits() != 16 ||
      layout.rank() != 2 || !isa<MmaAttr, WgmmaAttr>(type.getEncoding()))
    return false;
  Result<MatrixAccess> access = MatrixAccess::plan(layout, shared, {exchanged, {0, 0}});
  if (!access)
    return false;
  Values addresses = issueAddresses(
      b, *access, buffer, shared, layout.warpDigits(),
      [&](int i, int w, int l) { return access->rowStart(i, w, l); }, atUse);
  if (addresses.empty())
    return false;
  Values words = b.packWords(e.getElements(value));
  for (auto [issue, address] : llvm::zip_equal(access->issues(), addresses)) {
    int count = issue.numMatrices;
    std::string name = "llvm.nvvm.stmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
                       (access->isTransposed() ? ".trans" : "") + ".b16";
    Values operands{address};
    for (int i = 0; i < count; ++i)
      operands.push_back(words[issue.words[i]]);
    b.intrinsic(name, operands);
  }
  return true;
}

/// Whether the operation is in an outermost loop that contains others, such as that over tiles, but
/// in none of these.
static bool isBesideInnerLoops(Operation *op) {
  Operation *loop = op->getParentOfType<LoopLikeOpInterface>();
  if (!loop || loop->getParentOfType<LoopLikeOpInterface>())
    return false;
  return loop
      ->walk<WalkOrder::PreOrder>([&](LoopLikeOpInterface inner) {
        return inner == loop ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

LogicalResult tgpu::writeShared(KernelEmitter &e, Operation *op, Value value, Value buffer,
                                SharedType type, bool exchanged) {
  const layout::SharedLayout *shared = e.getLayout(op, type);
  const RegisterLayout &layout = *e.getLayout(op, value.getType());
  if (!shared)
    return failure();
  bool atUse = isBesideInnerLoops(op);
  if (storeMatrices(e, value, buffer, *shared, exchanged, atUse))
    return success();
  Result<VectorAccess> access = VectorAccess::plan(layout, *shared, {exchanged, {0, 0}});
  if (!access)
    return op->emitError() << access.message();
  Values addresses = issueAddresses(
      e.b, *access, buffer, *shared, layout.warpDigits(),
      [&](int i, int w, int l) {
        return toBuffer(layout, exchanged, layout.element(w, l, access->issues()[i].firstRegister));
      },
      atUse);
  if (addresses.empty())
    return op->emitError() << "threads of " << value.getType() << " do not form a grid";
  Values elements = e.getElements(value);
  for (auto [issue, address] : llvm::zip_equal(access->issues(), addresses))
    if (isCanonicalRegister(layout, issue.firstRegister))
      storeVector(e.b, address, ArrayRef(elements).slice(issue.firstRegister, issue.count));
  return success();
}
