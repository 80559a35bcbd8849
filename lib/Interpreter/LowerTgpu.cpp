// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers operations of tgpu that have a meaning without threads.

#include "dialect/Tgpu/Tgpu.h"
#include "lib/Interpreter/Lowering.h"
#include "lib/Interpreter/Placements.h"
#include "lib/Interpreter/TgpuKernels.h"
#include "lib/Interpreter/TileSteps.h"

#include "mlir/IR/Builders.h"
#include <algorithm>
#include <cstring>
#include <limits>

using namespace mlir;

namespace tilewright::interpreter {

namespace {

/// Initial contents of a buffer: floats are NaN, integers odd.
LogicalResult lower(Lowering &lowering, tgpu::AllocOp op) {
  Slot slot = lowering.define(op.getBuffer());
  Storage storage = lowering.storage(op.getBuffer());
  bool isFloat = storage == Storage::F32 || storage == Storage::F64;
  Scalar poison = isFloat ? Scalar::fromFloat(std::numeric_limits<double>::quiet_NaN(), storage)
                          : Scalar::fromInt(0x5a5a5a5b, storage);
  lowering.emit<CopyStep>(op, ValueOperand{lowering.constant(poison), storage, false}, slot);
  return success();
}

/// The buffer's value is not consumed: its memory must not be reused.
ValueOperand bufferOperand(Lowering &lowering, Value buffer) {
  return {lowering.slotOf(buffer), lowering.storage(buffer), false};
}

ValueResult bufferResult(Lowering &lowering, Value buffer) {
  return {lowering.slotOf(buffer), lowering.storage(buffer), lowering.countOf(buffer),
          ElementType::F32};
}

const int64_t exchange[] = {1, 0};

LogicalResult lower(Lowering &lowering, tgpu::CopyAsyncOp op) {
  Placement place = placementOf(lowering, op, lowering.shapeOf(op.getBuffer()));
  lowering.emit(TransferStep::load(op, std::move(place), std::nullopt,
                                   bufferResult(lowering, op.getBuffer())));
  return success();
}

/// A tile of the given shape to or from a buffer.
template <typename OpT>
LogicalResult lowerCopy(Lowering &lowering, OpT op, ValueOperand source, ArrayRef<int64_t> shape,
                        ValueResult result) {
  if (op.getTranspose() && shape.size() == 2)
    lowering.emit<TransposeStep>(op, source, shape, exchange, result);
  else
    lowering.emit<CopyStep>(op, source, result.slot);
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::ReadOp op) {
  return lowerCopy(lowering, op, bufferOperand(lowering, op.getBuffer()),
                   lowering.shapeOf(op.getBuffer()), lowering.result(op.getResult()));
}

LogicalResult lower(Lowering &lowering, tgpu::WriteSharedOp op) {
  return lowerCopy(lowering, op, lowering.operand(op.getValueMutable()),
                   lowering.shapeOf(op.getValue()), bufferResult(lowering, op.getBuffer()));
}

LogicalResult lower(Lowering &lowering, tgpu::ConvertOp op) {
  ValueOperand source = lowering.operand(op.getSourceMutable());
  if (op.getInterleaved()) {
    ArrayRef<int64_t> shape = lowering.shapeOf(op.getSource());
    Interleaving order(shape[0], shape[1]);
    lowering.emit<TransposeStep>(op, source, order.shape, order.permutation,
                                 lowering.result(op.getResult()));
    return success();
  }
  lowering.emit<CopyStep>(op, source, lowering.define(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::MmaOp op) {
  ValueOperand a = lowering.operand(op.getAMutable()), b = lowering.operand(op.getBMutable());
  ValueOperand acc = lowering.operand(op.getAccMutable());
  ArrayRef<int64_t> result = lowering.shapeOf(op.getResult());
  auto shape = numeric::MatMulShape::dense(result[0], result[1], lowering.shapeOf(op.getA())[1],
                                           false, false);
  bool tf32 = tile::getElementType(op.getA().getType()).isF32() && !lowering.allF64();
  lowering.emit<DotStep>(op, a, b, acc, shape, tf32, lowering.result(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::WgmmaOp op) {
  bool isShared = isa<tgpu::SharedType>(op.getA().getType());
  ValueOperand a =
      isShared ? bufferOperand(lowering, op.getA()) : lowering.operand(op.getAMutable());
  std::optional<ValueOperand> acc;
  if (op.getAddend())
    acc = lowering.operand(op.getAccMutable()[0]);
  ArrayRef<int64_t> shapeOfA = lowering.shapeOf(op.getA()),
                    result = lowering.shapeOf(op.getResult());
  auto shape =
      numeric::MatMulShape::dense(result[0], result[1], shapeOfA[op.getTransposeA() ? 0 : 1],
                                  op.getTransposeA(), op.getTransposeB());
  Type element = cast<tgpu::SharedType>(op.getB().getType()).getElementType();
  lowering.emit<DotStep>(op, a, bufferOperand(lowering, op.getB()), acc, shape,
                         element.isF32() && !lowering.allF64(), lowering.result(op.getResult()),
                         /*isInterleaved=*/false,
                         static_cast<int64_t>(op.getColumns().value_or(0)));
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::WgmmaWaitOp op) {
  for (auto [tile, result] : llvm::zip_equal(op.getTilesMutable(), op.getResults()))
    lowering.emit<CopyStep>(op, lowering.operand(tile), lowering.define(result));
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::FmaDotOp op) {
  ValueOperand acc = lowering.operand(op.getAccMutable());
  ArrayRef<int64_t> a = lowering.shapeOf(op.getA()), result = lowering.shapeOf(op.getResult());
  auto shape = numeric::MatMulShape::dense(result[0], result[1], a[op.getTransposeA() ? 0 : 1],
                                           op.getTransposeA(), op.getTransposeB());
  lowering.emit<DotStep>(op, bufferOperand(lowering, op.getA()), bufferOperand(lowering, op.getB()),
                         acc, shape, /*tf32=*/false, lowering.result(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::ColumnsOp op) {
  ValueOperand source = lowering.operand(op.getSourceMutable());
  ArrayRef<int64_t> shape = lowering.shapeOf(op.getSource());
  int64_t rows = shape[0], pitch = shape[1], first = op.getFirst();
  int64_t columns = lowering.shapeOf(op.getResult())[1];
  ValueResult result = lowering.result(op.getResult());
  lowering.emitFunction(op, [=](Frame &frame) {
    DenseElements elements(frame.pool, frame.values[source.slot], rows * pitch, source.storage);
    BufferRef out(frame.pool.allocate(result.bytes()));
    size_t width = storageBytes(result.storage);
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(static_cast<char *>(out.data()) + row * columns * width,
                  static_cast<const char *>(elements.data()) + (row * pitch + first) * width,
                  columns * width);
    frame.values[result.slot].setDense(std::move(out));
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::JoinColumnsOp op) {
  struct Part {
    ValueOperand operand;
    int64_t columns;
  };
  SmallVector<Part> parts;
  for (OpOperand &part : op.getPartsMutable())
    parts.push_back({lowering.operand(part), lowering.shapeOf(part.get())[1]});
  ArrayRef<int64_t> shape = lowering.shapeOf(op.getResult());
  int64_t rows = shape[0], pitch = shape[1];
  ValueResult result = lowering.result(op.getResult());
  lowering.emitFunction(op, [=](Frame &frame) {
    BufferRef out(frame.pool.allocate(result.bytes()));
    size_t width = storageBytes(result.storage);
    int64_t first = 0;
    for (const Part &part : parts) {
      DenseElements elements(frame.pool, frame.values[part.operand.slot], rows * part.columns,
                             part.operand.storage);
      for (int64_t row = 0; row < rows; ++row)
        std::memcpy(static_cast<char *>(out.data()) + (row * pitch + first) * width,
                    static_cast<const char *>(elements.data()) + row * part.columns * width,
                    part.columns * width);
      first += part.columns;
    }
    frame.values[result.slot].setDense(std::move(out));
    return true;
  });
  return success();
}

/// Sums by thread: elements are permuted to the order of their threads, then added.
LogicalResult lower(Lowering &lowering, tgpu::ThreadSumOp op) {
  ValueOperand source = lowering.operand(op.getSourceMutable());
  if (!numeric::isSupported(numeric::ReduceOp::Sum, source.storage))
    return op.emitOpError() << "is not supported on " << tile::getElementType(op.getType())
                            << " by the CPU device; convert it by tile.cast";
  auto type = cast<RankedTensorType>(op.getSource().getType());
  int64_t dim = op.getDim(), extent = type.getDimSize(dim);
  std::vector<int64_t> from(extent); // source index of each element along dim, grouped by thread
  std::iota(from.begin(), from.end(), 0);
  std::stable_sort(from.begin(), from.end(), [&](int64_t a, int64_t b) {
    return tgpu::getThreadAlong(type.getEncoding(), dim, a) <
           tgpu::getThreadAlong(type.getEncoding(), dim, b);
  });
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  int64_t threads = tgpu::getThreadsAlong(type.getEncoding(), dim), each = extent / threads;
  ValueResult result = lowering.result(op.getResult());
  lowering.emitFunction(op, [=](Frame &frame) {
    int64_t count = rows * columns;
    DenseElements elements(frame.pool, frame.values[source.slot], count, source.storage);
    size_t width = storageBytes(source.storage);
    BufferRef ordered(frame.pool.allocate(count * width)), out(frame.pool.allocate(result.bytes()));
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        int64_t i = dim == 0 ? from[row] : row, j = dim == 1 ? from[column] : column;
        std::memcpy(static_cast<char *>(ordered.data()) + (row * columns + column) * width,
                    static_cast<const char *>(elements.data()) + (i * columns + j) * width, width);
      }
    int64_t byRows[] = {rows, threads, each}, byColumns[] = {threads, each, columns};
    numeric::reduce(numeric::ReduceOp::Sum, source.storage, ordered.data(),
                    dim == 1 ? byRows : byColumns, 3, dim == 1 ? 2 : 1, out.data());
    result.round(out.data(), result.count);
    frame.values[result.slot].setDense(std::move(out));
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::RaiseMaxOp op) {
  SmallVector<ValueOperand> operands{
      // old, lag, source, factor, perhaps an offset
      lowering.operand(op.getOldMutable()), lowering.operand(op.getLagMutable()),
      lowering.operand(op.getSourceMutable()), lowering.operand(op.getFactorMutable())};
  for (OpOperand &offset : op.getOffsetMutable())
    operands.push_back(lowering.operand(offset));
  ArrayRef<int64_t> shape = lowering.shapeOf(op.getSource());
  int64_t rows = shape[0], columns = shape[1];
  ValueResult result = lowering.result(op.getResult());
  lowering.emitFunction(op, [=](Frame &frame) {
    auto read = [&](const ValueOperand &operand, int64_t count) {
      return DenseElements(frame.pool, frame.values[operand.slot], count, operand.storage);
    };
    DenseElements old = read(operands[0], rows), lag = read(operands[1], 1),
                  source = read(operands[2], rows * columns), factor = read(operands[3], 1);
    std::optional<DenseElements> offset;
    if (operands.size() > 4)
      offset.emplace(read(operands[4], rows));
    auto floats = [](const DenseElements &elements) {
      return static_cast<const float *>(elements.data());
    };
    BufferRef out(frame.pool.allocate(result.bytes()));
    for (int64_t row = 0; row < rows; ++row) {
      const float *elements = floats(source) + row * columns;
      float most = *std::max_element(elements, elements + columns);
      if (offset)
        most += floats(*offset)[row];
      most *= *floats(factor);
      float before = floats(old)[row];
      static_cast<float *>(out.data())[row] = most > before + *floats(lag) ? most : before;
    }
    frame.values[result.slot].setDense(std::move(out));
    return true;
  });
  return success();
}

/// All warpgroups are executed as one.
LogicalResult lower(Lowering &lowering, tgpu::FirstRoundOp op) {
  SmallVector<IntOperand> own;
  for (Value value : op.getOwn())
    own.push_back(lowering.intOperand(value));
  lowering.emitFunction(
      op, [own = std::move(own), result = lowering.define(op.getFirst())](Frame &frame) {
        int64_t least = std::numeric_limits<int64_t>::max();
        for (const IntOperand &operand : own)
          least = std::min(least, operand.read(frame));
        frame.values[result].setSplat(Scalar::fromInt(least, Storage::I32));
        return true;
      });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::AnyOp op) {
  Slot tile = lowering.slotOf(op.getTile()), result = lowering.define(op.getResult());
  int64_t count = lowering.countOf(op.getTile());
  lowering.emitFunction(op, [=](Frame &frame) {
    DenseElements elements(frame.pool, frame.values[tile], count, Storage::I1);
    const auto *flags = static_cast<const uint8_t *>(elements.data());
    bool any = std::any_of(flags, flags + count, [](uint8_t flag) { return flag; });
    frame.values[result].setSplat(Scalar::fromInt(any, Storage::I1));
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::LoadOp op) { return lowerLoad(lowering, op); }
LogicalResult lower(Lowering &lowering, tgpu::StoreOp op) { return lowerStore(lowering, op); }
LogicalResult lower(Lowering &lowering, tgpu::AtomicAddOp op) {
  return lowerAtomicAdd(lowering, op);
}

/// Operations without effect, since everything is executed immediately and in order.
LogicalResult lowerNothing(Lowering &, Operation *) { return success(); }

} // namespace

void addTgpuLowerings(LoweringTable &table) {
  addLowerings<tgpu::AllocOp, tgpu::CopyAsyncOp, tgpu::ReadOp, tgpu::WriteSharedOp, tgpu::ConvertOp,
               tgpu::MmaOp, tgpu::FmaDotOp, tgpu::WgmmaOp, tgpu::WgmmaWaitOp, tgpu::AnyOp,
               tgpu::ColumnsOp, tgpu::JoinColumnsOp, tgpu::ThreadSumOp, tgpu::RaiseMaxOp,
               tgpu::FirstRoundOp, tgpu::LoadOp, tgpu::StoreOp, tgpu::AtomicAddOp>(
      table, [](Lowering &lowering, auto op) { return lower(lowering, op); });
  for (StringRef name :
       {tgpu::CopyCommitOp::getOperationName(), tgpu::WgmmaCommitOp::getOperationName(),
        tgpu::FenceAsyncOp::getOperationName(), tgpu::CopyWaitOp::getOperationName(),
        tgpu::SyncOp::getOperationName()})
    table[name] = lowerNothing;
}

} // namespace tilewright::interpreter

void tilewright::unwrapTgpuKernels(ModuleOp module) {
  for (auto kernel : llvm::to_vector(module.getOps<tgpu::KernelOp>())) {
    OpBuilder b(kernel);
    auto plain = tile::KernelOp::create(b, kernel.getLoc(), kernel.getSymNameAttr(),
                                        b.getArrayAttr({}), kernel.getSignature().constraints,
                                        kernel.getArgNamesAttr(), kernel.getArgOptionalAttr(),
                                        kernel.getGridNamesAttr(), kernel.getGridAttr(),
                                        kernel.getBindingsAttr(), kernel.getArgDefaultsAttr(),
                                        /*arg_conditions=*/DictionaryAttr());
    tgpu::warpsAttr.set(plain, kernel.getWarps());
    tgpu::sharedBytesAttr.set(plain, kernel.getSharedBytes().value_or(0));
    plain.getBody().takeBody(kernel.getBody());
    kernel.erase();
  }
}
