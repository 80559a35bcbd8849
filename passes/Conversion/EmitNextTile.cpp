// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles that blocks take from a counter of their launch.
//
// A counter must belong to one launch: launches of one kernel may run at the same time, on several
// streams or in replays of a graph. The register %gridid identifies the launch: it
// differs between all grids that run at the same time. So the module has a table of counters, all
// zero, and the blocks of a grid search it, starting at the index of %gridid, for the first entry
// that is free or their own. The last block that gets no tile frees the entry. So the host does
// nothing, and a launch writes no memory of the caller.

#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/Nvvm.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Entries of the table: more than the number of grids that can run at a time. A power of two.
constexpr int64_t kEntries = 1024;
/// The owner (32 bits, then 32 unused), tiles taken, blocks that are done.
constexpr int64_t kEntryBytes = 16, kTakenAt = 8, kDoneAt = 12;
/// An owner is the low bits of the grid's number, with this bit set: never 0, and the same for two
/// grids only if 2^31 launches are between them, which do not run at the same time. With 32 bits, a
/// role that also copies, with the fewest registers, does not spill.
constexpr int64_t kOwned = int64_t(1) << 31;
constexpr llvm::StringLiteral kTableName = "tile_counters";

static Value getTileCounters(KernelEmitter &e) {
  ThreadBuilder &b = e.b;
  auto table = e.module.lookupSymbol<LLVM::GlobalOp>(kTableName);
  if (!table) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(e.module.getBody());
    auto type = LLVM::LLVMArrayType::get(b.getI64Type(), kEntries * kEntryBytes / 8);
    table = LLVM::GlobalOp::create(b, type, /*isConstant=*/false, LLVM::Linkage::Internal,
                                   kTableName, Attribute(), /*alignment=*/kEntryBytes,
                                   /*addrSpace=*/1);
    Block *block = b.createBlock(&table.getInitializerRegion());
    b.setInsertionPointToEnd(block);
    LLVM::ReturnOp::create(b, ValueRange(LLVM::ZeroOp::create(b, type)));
  }
  return LLVM::AddressOfOp::create(b, table);
}

/// The entry of this grid: claimed or found, as an offset in the table.
static Value findTileCounter(KernelEmitter &e) {
  ThreadBuilder &b = e.b;
  Value table = getTileCounters(e);
  Value grid = arith::TruncIOp::create(
      b, b.getI32Type(), b.inlineAsm("mov.u64 $0, %gridid;", "=l", b.getI64Type(), {}));
  Value owner = arith::OrIOp::create(b, grid, b.i32(static_cast<int32_t>(kOwned)));
  auto offsetOf = [&](Value number) -> Value {
    Value index = arith::AndIOp::create(b, number, b.i32(kEntries - 1));
    return arith::MulIOp::create(b, index, b.i32(kEntryBytes));
  };
  auto entryOf = [&](Value number) -> Value { return b.advance(table, offsetOf(number)); };
  auto loop = scf::WhileOp::create(b, TypeRange{b.getI32Type()}, ValueRange{grid});
  OpBuilder::InsertionGuard guard(b);
  Block *before = b.createBlock(&loop.getBefore(), {}, {b.getI32Type()}, {b.getLoc()});
  Value found = LLVM::ExtractValueOp::create(
      b,
      LLVM::AtomicCmpXchgOp::create(b, entryOf(before->getArgument(0)), b.i32(0), owner,
                                    LLVM::AtomicOrdering::monotonic,
                                    LLVM::AtomicOrdering::monotonic),
      ArrayRef<int64_t>{0});
  Value isNotOwn = b.notEqual(found, owner);
  Value isTaken = b.notEqual(found, b.i32(0));
  Value isOthers = arith::AndIOp::create(b, isTaken, isNotOwn);
  scf::ConditionOp::create(b, isOthers, before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, {b.getI32Type()}, {b.getLoc()});
  scf::YieldOp::create(b, arith::AddIOp::create(b, after->getArgument(0), b.i32(1)).getResult());
  b.setInsertionPointAfter(loop);
  return offsetOf(loop.getResult(0));
}

namespace {
struct KeptEntry {
  Value place; ///< location of the entry of this grid
};
} // namespace

/// The same, as an address, ordered after the accesses of its last owner. A role with a free
/// register computes it once: it takes a memory round trip and a fence.
static Value getTileCounter(KernelEmitter &e, bool keeps) {
  ThreadBuilder &b = e.b;
  auto addressOf = [&](Value offset) -> Value {
    Value table = getTileCounters(e);
    return b.advance(table, offset);
  };
  auto find = [&]() -> Value {
    Value offset = findTileCounter(e);
    b.inlineAsm("fence.acq_rel.gpu;", "~{memory}", nullptr, {});
    return offset;
  };
  if (!keeps)
    return addressOf(find());
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value &kept = e.state<KeptEntry>().place;
  if (!kept) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&e.func.getBody().front());
    auto constant = [&](int32_t value) {
      return LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr(value));
    };
    kept = LLVM::AllocaOp::create(b, pointer, b.getI32Type(), constant(1));
    LLVM::StoreOp::create(b, constant(-1), kept);
  }
  Value known = LLVM::LoadOp::create(b, b.getI32Type(), kept);
  Value isUnknown = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, known, b.i32(0));
  b.onlyIf(isUnknown, [&] { LLVM::StoreOp::create(b, find(), kept); });
  return addressOf(LLVM::LoadOp::create(b, b.getI32Type(), kept));
}

/// A role with four copies or more, as in a backward, would spill it.
static bool hasRegisterForCounter(TakeTileOp op) {
  constexpr size_t mostCopies = 3;
  Region *role = op->getParentRegion();
  while (!isa<RolesOp>(role->getParentOp()))
    role = role->getParentRegion();
  // A copy may be in an iteration and behind the loop.
  llvm::SmallSet<std::tuple<void *, void *, void *>, 4> copies;
  role->walk([&](TmaLoadOp copy) {
    copies.insert({copy.getMap().getAsOpaquePointer(), copy.getBarriers().getAsOpaquePointer(),
                   copy.getUse().getAsOpaquePointer()});
  });
  return copies.size() <= mostCopies;
}

static LogicalResult emitTakeTile(KernelEmitter &e, TakeTileOp op) {
  ThreadBuilder &b = e.b;
  if (!e.isOneThread)
    return op.emitOpError("must be in a role of one thread, but got one of several, which has more "
                          "than copies and scalars");
  auto fence = [&] { b.inlineAsm("fence.acq_rel.gpu;", "~{memory}", nullptr, {}); };
  auto count = [&](Value address) -> Value {
    return LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, address, b.i32(1),
                                     LLVM::AtomicOrdering::monotonic);
  };
  Value tiles = e.getScalar(op.getTiles());
  Value blocks = nvvm::getGridExtent(b);
  // If every block has only its first tile, the counter is not used.
  Value hasMore = op.getAll() ? arith::ConstantOp::create(b, b.getBoolAttr(true)).getResult()
                              : arith::CmpIOp::create(b, arith::CmpIPredicate::slt, blocks, tiles);
  auto branch = scf::IfOp::create(b, b.getI32Type(), hasMore, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(b, tiles);
    b.setInsertionPointToEnd(branch.thenBlock());
    Value entry = getTileCounter(e, /*keeps=*/hasRegisterForCounter(op));
    Value tile = count(b.advance(entry, kTakenAt));
    if (!op.getAll())
      tile = arith::AddIOp::create(b, tile, blocks);
    Value isNone = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, tile, tiles);
    auto last = scf::IfOp::create(b, isNone, /*withElseRegion=*/false);
    scf::YieldOp::create(b, tile);
    b.setInsertionPoint(last.thenBlock()->getTerminator());
    fence();
    Value before = count(b.advance(entry, kDoneAt));
    Value one = b.i32(1);
    Value isLast = b.equal(arith::AddIOp::create(b, before, one), blocks);
    auto release = scf::IfOp::create(b, isLast, /*withElseRegion=*/false);
    b.setInsertionPoint(release.thenBlock()->getTerminator());
    fence();
    LLVM::StoreOp::create(b, b.i64(0), b.advance(entry, kTakenAt), /*alignment=*/8,
                          /*isVolatile=*/true);
    fence();
    LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::xchg, entry, b.i32(0),
                              LLVM::AtomicOrdering::monotonic);
  }
  Value tile = branch.getResult(0);
  if (op.getBuffer())
    LLVM::StoreOp::create(b, tile, e.getScalar(op.getBuffer()), /*alignment=*/4,
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
  ThreadBuilder &b = e.b;
  Value word = LLVM::LoadOp::create(b, b.getI32Type(), getWord(b, buffer, number), /*alignment=*/4,
                                    /*isVolatile=*/true);
  // The value is the same in all lanes, but ptxas knows that only of a reduction. Otherwise all
  // values that depend on the tile, including the counters of rings, take registers of each thread.
  return e.isOneThread ? word
                       : b.intrinsic("llvm.nvvm.redux.sync.min", b.getI32Type(), {word, b.i32(-1)});
}

static void emitGetTile(KernelEmitter &e, GetTileOp op) {
  e.set(op.getTile(), {readWord(e, e.getScalar(op.getBuffer()), 0)});
}

static LogicalResult emitPublish(KernelEmitter &e, PublishOp op) {
  if (!e.isOneThread)
    return op.emitOpError("must be in a role of one thread, but got one of several, which has more "
                          "than copies and scalars");
  Value buffer = e.getScalar(op.getBuffer());
  for (auto [number, value] : llvm::enumerate(op.getValues()))
    LLVM::StoreOp::create(e.b, e.getScalar(value),
                          getWord(e.b, buffer, static_cast<int64_t>(number)),
                          /*alignment=*/4, /*isVolatile=*/true);
  return success();
}

/// The one thread of a role that copies takes four words by an instruction: the first copy waits
/// for all of them. Roles that compute take them one by one, since they lack registers.
static void emitReceive(KernelEmitter &e, ReceiveOp op) {
  constexpr int64_t atOnce = 4;
  ThreadBuilder &b = e.b;
  Value buffer = e.getScalar(op.getBuffer());
  int64_t count = op.getValues().size(), vectors = e.isOneThread ? count / atOnce : 0;
  for (int64_t number = 0; number < count; ++number) {
    Value value = op.getValues()[number];
    if (number >= vectors * atOnce) {
      e.set(value, {readWord(e, buffer, number)});
      continue;
    }
    if (number % atOnce != 0)
      continue;
    Value words = LLVM::LoadOp::create(b, VectorType::get(atOnce, b.getI32Type()),
                                       getWord(b, buffer, number), /*alignment=*/16,
                                       /*isVolatile=*/true);
    for (int64_t i = 0; i < atOnce; ++i)
      e.set(op.getValues()[number + i],
            {LLVM::ExtractElementOp::create(b, words, b.i32(i)).getResult()});
  }
}

void tgpu::registerNextTileLowerings(LoweringTable &table) {
  table.add<TakeTileOp>(emitTakeTile);
  table.add<GetTileOp>(emitGetTile);
  table.add<PublishOp>(emitPublish);
  table.add<ReceiveOp>(emitReceive);
}
