// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers and rings in shared memory, and copies of register tiles from and to them.

#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/SharedAccess.h"
#include "passes/Tgpu/Analysis/OperandReads.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static LogicalResult emitRead(KernelEmitter &e, ReadOp op) {
  Value buffer = e.getScalar(op.getBuffer()), result = op.getResult();
  auto type = cast<SharedType>(op.getBuffer().getType());
  const layout::SharedLayout *shared = e.getLayout(op, type);
  if (!shared)
    return failure();
  if (KernelEmitter::isPacked(result.getType()) && isReadByProduct(op) &&
      deferRead(e, op, buffer, *shared, op.getTranspose(), result))
    return success();
  return readShared(e, op, buffer, type, op.getTranspose(), result);
}

static LogicalResult emitWrite(KernelEmitter &e, WriteSharedOp op) {
  return writeShared(e, op, op.getValue(), e.getScalar(op.getBuffer()),
                     cast<SharedType>(op.getBuffer().getType()), op.getTranspose());
}

static void emitSlot(KernelEmitter &e, SlotOp op) {
  ThreadBuilder &b = e.b;
  auto type = cast<RingType>(op.getRing().getType());
  int64_t slot = llvm::alignTo(getBytes(type.getSlot()), getAlignment(type.getSlot()));
  Value ring = e.getScalar(op.getRing());
  if (type.getStages() == 1) {
    e.set(op.getBuffer(), {ring});
    return;
  }
  Value index = arith::RemUIOp::create(b, e.getScalar(op.getUse()), b.i32(type.getStages()));
  e.set(op.getBuffer(), {b.advance(ring, b.mul(index, b.i32(slot)))});
}

static LogicalResult emitAllocBuffer(KernelEmitter &e, AllocOp op) {
  return bindToShared(e, op, op.getOffset());
}

static LogicalResult emitAllocRing(KernelEmitter &e, AllocRingOp op) {
  return bindToShared(e, op, op.getOffset());
}

void tgpu::registerSharedLowerings(LoweringTable &table) {
  table.add<AllocOp>(emitAllocBuffer);
  table.add<AllocRingOp>(emitAllocRing);
  table.add<SlotOp>(emitSlot);
  table.add<ReadOp>(emitRead);
  table.add<WriteSharedOp>(emitWrite);
}
