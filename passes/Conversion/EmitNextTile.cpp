// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles that blocks take from a counter of their launch.
//
// A counter must belong to one launch: launches of one kernel may run at the same time, on several
// streams or in replays of a graph. No argument says which launch this is, and none is needed: the
// register %gridid differs for all grids that run at the same time. So the module has a table of
// counters, all zero, and the blocks of a grid use the first entry, from its number on, that they
// find free or theirs. The last block to find no tile left frees the entry again. So the host does
// nothing for it, and a launch writes no memory of the caller's.

#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/Nvvm.h"

#include "passes/Conversion/LoweringTable.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Entries of the table: more than grids can run at a time. A power of two.
constexpr int64_t kEntries = 1024;
/// The owner (32 bits, then 32 unused), tiles taken, blocks that are done.
constexpr int64_t kEntryBytes = 16, kTakenAt = 8, kDoneAt = 12;
/// An owner is the low bits of the grid's number and this one: never 0, and the same for two grids
/// only if 2^31 launches lie between them, which do not run at the same time. With 32 bits the
/// role that copies, which has the fewest registers, does not spill.
constexpr int64_t kOwned = int64_t(1) << 31;
constexpr llvm::StringLiteral kTableName = "tile_counters";

static Value getTileCounters(KernelEmitter &e) {
  auto table = e.module.lookupSymbol<LLVM::GlobalOp>(kTableName);
  if (!table) {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(e.module.getBody());
    auto type = LLVM::LLVMArrayType::get(e.b.getI64Type(), kEntries * kEntryBytes / 8);
    table = LLVM::GlobalOp::create(e.b, type, /*isConstant=*/false, LLVM::Linkage::Internal,
                                   kTableName, Attribute(), /*alignment=*/kEntryBytes,
                                   /*addrSpace=*/1);
    Block *block = e.b.createBlock(&table.getInitializerRegion());
    e.b.setInsertionPointToEnd(block);
    LLVM::ReturnOp::create(e.b, ValueRange(LLVM::ZeroOp::create(e.b, type)));
  }
  return LLVM::AddressOfOp::create(e.b, table);
}

/// The entry of this grid: claimed, or found. As an offset in the table.
static Value findTileCounter(KernelEmitter &e) {
  Value table = getTileCounters(e);
  Value grid = arith::TruncIOp::create(
      e.b, e.b.getI32Type(), e.inlineAsm("mov.u64 $0, %gridid;", "=l", e.b.getI64Type(), {}));
  Value owner = arith::OrIOp::create(e.b, grid, e.i32(static_cast<int32_t>(kOwned)));
  auto offsetOf = [&](Value number) -> Value {
    Value index = arith::AndIOp::create(e.b, number, e.i32(kEntries - 1));
    return arith::MulIOp::create(e.b, index, e.i32(kEntryBytes));
  };
  auto entryOf = [&](Value number) -> Value {
    return LLVM::GEPOp::create(e.b, table.getType(), e.b.getI8Type(), table,
                               ValueRange{offsetOf(number)});
  };
  auto loop = scf::WhileOp::create(e.b, TypeRange{e.b.getI32Type()}, ValueRange{grid});
  OpBuilder::InsertionGuard guard(e.b);
  Block *before = e.b.createBlock(&loop.getBefore(), {}, {e.b.getI32Type()}, {e.b.getLoc()});
  Value found = LLVM::ExtractValueOp::create(
      e.b,
      LLVM::AtomicCmpXchgOp::create(e.b, entryOf(before->getArgument(0)), e.i32(0), owner,
                                    LLVM::AtomicOrdering::monotonic,
                                    LLVM::AtomicOrdering::monotonic),
      ArrayRef<int64_t>{0});
  Value isNotOwn = arith::CmpIOp::create(e.b, arith::CmpIPredicate::ne, found, owner);
  Value isTaken = arith::CmpIOp::create(e.b, arith::CmpIPredicate::ne, found, e.i32(0));
  Value isOthers = arith::AndIOp::create(e.b, isTaken, isNotOwn);
  scf::ConditionOp::create(e.b, isOthers, before->getArguments());
  Block *after = e.b.createBlock(&loop.getAfter(), {}, {e.b.getI32Type()}, {e.b.getLoc()});
  scf::YieldOp::create(e.b,
                       arith::AddIOp::create(e.b, after->getArgument(0), e.i32(1)).getResult());
  e.b.setInsertionPointAfter(loop);
  return offsetOf(loop.getResult(0));
}

/// The same, as an address, after what its last owner left. A role that has a register to keep it
/// in finds it once: that is a way to memory and back, and a fence.
static Value getTileCounter(KernelEmitter &e, bool keeps) {
  auto addressOf = [&](Value offset) -> Value {
    Value table = getTileCounters(e);
    return LLVM::GEPOp::create(e.b, table.getType(), e.b.getI8Type(), table, ValueRange{offset});
  };
  auto find = [&]() -> Value {
    Value offset = findTileCounter(e);
    e.inlineAsm("fence.acq_rel.gpu;", "~{memory}", nullptr, {});
    return offset;
  };
  if (!keeps)
    return addressOf(find());
  auto pointer = LLVM::LLVMPointerType::get(e.b.getContext());
  if (!e.tileCounter) {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(&e.func.getBody().front());
    auto constant = [&](int32_t value) {
      return LLVM::ConstantOp::create(e.b, e.b.getI32Type(), e.b.getI32IntegerAttr(value));
    };
    e.tileCounter = LLVM::AllocaOp::create(e.b, pointer, e.b.getI32Type(), constant(1));
    LLVM::StoreOp::create(e.b, constant(-1), e.tileCounter);
  }
  Value known = LLVM::LoadOp::create(e.b, e.b.getI32Type(), e.tileCounter);
  Value isUnknown = arith::CmpIOp::create(e.b, arith::CmpIPredicate::slt, known, e.i32(0));
  auto branch = scf::IfOp::create(e.b, isUnknown, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPoint(branch.thenBlock()->getTerminator());
  LLVM::StoreOp::create(e.b, find(), e.tileCounter);
  e.b.setInsertionPointAfter(branch);
  return addressOf(LLVM::LoadOp::create(e.b, e.b.getI32Type(), e.tileCounter));
}

/// A role with four copies or more, as a backward has, would spill it.
static bool hasRegisterForCounter(TakeTileOp op) {
  constexpr int64_t mostCopies = 3;
  Region *role = op->getParentRegion();
  while (!isa<RolesOp>(role->getParentOp()))
    role = role->getParentRegion();
  int64_t copies = 0;
  role->walk([&](TmaLoadOp) { ++copies; });
  return copies <= mostCopies;
}

static LogicalResult emitTakeTile(KernelEmitter &e, TakeTileOp op) {
  if (!e.isOneThread)
    return op.emitOpError("is executed by one thread: its role may only copy and compute scalars");
  auto fence = [&] { e.inlineAsm("fence.acq_rel.gpu;", "~{memory}", nullptr, {}); };
  auto at = [&](Value entry, int64_t offset) -> Value {
    return LLVM::GEPOp::create(e.b, entry.getType(), e.b.getI8Type(), entry,
                               ValueRange{e.i64(offset)});
  };
  auto count = [&](Value address) -> Value {
    return LLVM::AtomicRMWOp::create(e.b, LLVM::AtomicBinOp::add, address, e.i32(1),
                                     LLVM::AtomicOrdering::monotonic);
  };
  Value tiles = e.getScalar(op.getTiles());
  Value blocks = nvvm::getGridExtent(e.b);
  // Where every block has its only tile from the beginning, the counter is not touched.
  Value hasMore = op.getAll()
                      ? arith::ConstantOp::create(e.b, e.b.getBoolAttr(true)).getResult()
                      : arith::CmpIOp::create(e.b, arith::CmpIPredicate::slt, blocks, tiles);
  auto branch = scf::IfOp::create(e.b, e.b.getI32Type(), hasMore, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(e.b, tiles);
    e.b.setInsertionPointToEnd(branch.thenBlock());
    Value entry = getTileCounter(e, /*keeps=*/hasRegisterForCounter(op));
    Value tile = count(at(entry, kTakenAt));
    if (!op.getAll())
      tile = arith::AddIOp::create(e.b, tile, blocks);
    Value isNone = arith::CmpIOp::create(e.b, arith::CmpIPredicate::sge, tile, tiles);
    auto last = scf::IfOp::create(e.b, isNone, /*withElseRegion=*/false);
    scf::YieldOp::create(e.b, tile);
    e.b.setInsertionPoint(last.thenBlock()->getTerminator());
    fence();
    Value before = count(at(entry, kDoneAt));
    Value one = e.i32(1);
    Value isLast = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq,
                                         arith::AddIOp::create(e.b, before, one), blocks);
    auto release = scf::IfOp::create(e.b, isLast, /*withElseRegion=*/false);
    e.b.setInsertionPoint(release.thenBlock()->getTerminator());
    fence();
    LLVM::StoreOp::create(e.b, e.i64(0), at(entry, kTakenAt), /*alignment=*/8, /*isVolatile=*/true);
    fence();
    LLVM::AtomicRMWOp::create(e.b, LLVM::AtomicBinOp::xchg, entry, e.i32(0),
                              LLVM::AtomicOrdering::monotonic);
  }
  Value tile = branch.getResult(0);
  if (op.getBuffer())
    LLVM::StoreOp::create(e.b, tile, e.getScalar(op.getBuffer()), /*alignment=*/4,
                          /*isVolatile=*/true);
  e.set(op.getTile(), {tile});
  return success();
}

static Value getWord(ImplicitLocOpBuilder &b, Value buffer, int64_t number) {
  return LLVM::GEPOp::create(b, buffer.getType(), b.getI32Type(), buffer,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(number)});
}

/// A word that all lanes read. The reduction tells ptxas that it is uniform.
static Value readWord(KernelEmitter &e, Value buffer, int64_t number) {
  Value word =
      LLVM::LoadOp::create(e.b, e.b.getI32Type(), getWord(e.b, buffer, number), /*alignment=*/4,
                           /*isVolatile=*/true);
  // The same in all lanes; but only of a reduction does ptxas know it. Otherwise everything that
  // depends on the tile, the counters of rings among it, takes registers of each thread.
  return e.isOneThread
             ? word
             : e.intrinsic("llvm.nvvm.redux.sync.min", e.b.getI32Type(), {word, e.i32(-1)});
}

static void emitGetTile(KernelEmitter &e, GetTileOp op) {
  e.set(op.getTile(), {readWord(e, e.getScalar(op.getBuffer()), 0)});
}

static LogicalResult emitPublish(KernelEmitter &e, PublishOp op) {
  if (!e.isOneThread)
    return op.emitOpError("is executed by one thread: its role may only copy and compute scalars");
  Value buffer = e.getScalar(op.getBuffer());
  for (auto [number, value] : llvm::enumerate(op.getValues()))
    LLVM::StoreOp::create(e.b, e.getScalar(value),
                          getWord(e.b, buffer, static_cast<int64_t>(number)),
                          /*alignment=*/4, /*isVolatile=*/true);
  return success();
}

static void emitReceive(KernelEmitter &e, ReceiveOp op) {
  Value buffer = e.getScalar(op.getBuffer());
  for (auto [number, value] : llvm::enumerate(op.getValues()))
    e.set(value, {readWord(e, buffer, static_cast<int64_t>(number))});
}

void tgpu::registerNextTileLowerings(LoweringTable &table) {
  table.add<TakeTileOp>(emitTakeTile);
  table.add<GetTileOp>(emitGetTile);
  table.add<PublishOp>(emitPublish);
  table.add<ReceiveOp>(emitReceive);
}
