// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles from global memory in registers.
//
// The code of a load has two branches: vectors, if the view allows them, and elements.
//
// Captures are never written. So a loop reads each run of elements of a capture where it is used,
// and ptxas decides how many loads are in flight: registers for a whole tile are seldom available.
// Nearly every such tile is entirely inside the view, with contiguous neighbors. Then each run is
// one instruction, without a test, at an address that differs from others by a constant. Any other
// tile is first copied to local memory and read from there by the same instructions, so the code
// after the branch is straight-line. The copy uses vectors for a tile that crosses the bounds, so
// that the last block of keys is not slower than others, and elements for a tile that cannot be
// read in vectors.

#include "passes/Conversion/DeferredLoads.h"
#include "passes/Conversion/GlobalAccess.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/ThreadCoords.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/RegisterPressure.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <array>
#include <numeric>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

namespace {
/// Runs of elements in the memory of a thread.
struct LocalTile {
  /// Strides of the dimension across the runs: to the neighbor, and between fragments of matrix
  /// products.
  static constexpr std::array<int64_t, 2> steps{1, 8};
  mlir::Value base;
  std::array<int64_t, 2> strides{}; ///< in bytes, per step
  int64_t getOffset(int64_t at) const {
    return at % steps[1] * strides[0] + at / steps[1] * strides[1];
  }
};

/// A tile that is loaded run by run, at its uses: element `at` is `at` strides from element 0.
struct DeferredLoad {
  const RegisterLayout *layout = nullptr;
  Type element;
  int64_t vector = 1, bytes = 0;
  size_t unit = 0; ///< the dimension along which elements are contiguous
  Values strides;  ///< bytes per LocalTile::steps along the other dimension; none in rank 1
  std::map<int64_t, Value> places;
  std::map<int, Values> early; ///< runs that are read at the position of the load
};

struct DeferredLoads {
  llvm::DenseMap<Value, DeferredLoad> loads;
  /// By the number of the load in its block, and bytes.
  std::map<std::pair<unsigned, int64_t>, Value> localTiles;
};
} // namespace

/// Whether all users of the tile are in its block and use its elements in order. No other block
/// reads captures meanwhile.
static bool isReadInOrder(LoadOp op) {
  for (Operation &other : *op->getBlock())
    if (other.getNumRegions() != 0 &&
        other.walk([](LoadOp) { return WalkResult::interrupt(); }).wasInterrupted())
      return false;
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return user->getBlock() == op->getBlock() && isa<tile::MapOp, tile::ExpandOp>(user);
  });
}

/// The number of runs of `registersOfRun` registers that a role can keep in addition to the tiles
/// of an iteration. The role waits for products, and ptxas moves no load across such a wait, so
/// runs that are loaded before it hide their latency.
static int64_t countEarlyRuns(KernelEmitter &e, LoadOp op, int64_t registersOfRun) {
  constexpr int64_t atOnce = 8;
  auto roles = e.role ? cast<RolesOp>(e.role->getParentOp()) : RolesOp();
  auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
  if (!roles || !loop)
    return 0;
  int64_t left = roles.getRegisters()[e.role->getRegionNumber()] - RegisterLimits::forScalars;
  for (BlockArgument argument : loop.getRegionIterArgs())
    if (isa<RankedTensorType>(argument.getType()))
      left -= getRegistersOf(argument.getType(), 32 * e.b.threads.numWarps);
  for (auto product : loop.getBody()->getOps<WgmmaOp>())
    if (!product.getAcc())
      left -=
          getRegistersOf(cast<PendingType>(product.getType()).getTile(), 32 * e.b.threads.numWarps);
  return std::max<int64_t>(0, left / registersOfRun) / atOnce * atOnce;
}

/// The smallest number of registers after which the pattern repeats at a constant distance.
static int getPeriod(const RegisterLayout &layout) {
  int count = layout.registersPerThread(), rank = layout.rank();
  auto repeats = [&](int period) {
    for (int reg = period; reg < count; ++reg)
      for (int d = 0; d < rank; ++d)
        if (layout.registerPart(reg)[d] - layout.registerPart(reg - period)[d] !=
            layout.registerPart(period)[d] - layout.registerPart(0)[d])
          return false;
    return true;
  };
  int period = 1;
  while (period < count && (count % period != 0 || !repeats(period)))
    ++period;
  return period;
}

/// The position of a thread's element in its local tile, in bytes.
template <typename Tile>
static int64_t getLocalOffset(const Tile &local, const RegisterLayout &layout, layout::Coord part,
                              size_t unit, int64_t bytes) {
  return part[unit] * bytes + (layout.rank() == 2 ? local.getOffset(part[1 - unit]) : 0);
}

/// The runs of a partial tile, several of which are in flight at a time.
static void copyRunsToLocal(ThreadBuilder &b, const ViewRegion &region,
                            const RegisterLayout &layout, const LocalTile &local, int64_t vector) {
  constexpr size_t atOnce = 16;
  SmallVector<std::pair<Value, Value>> loaded;
  auto store = [&] {
    for (auto [elements, to] : loaded)
      LLVM::StoreOp::create(b, elements, to, static_cast<unsigned>(vector * region.view.bytes));
    loaded.clear();
  };
  size_t unit = *region.dense;
  auto access = [&](int reg, Value address, Value inside) {
    int64_t offset =
        getLocalOffset(local, layout, layout.registerPart(reg), unit, region.view.bytes);
    Values run = loadGlobal(b, address, inside, region.view.element, vector);
    loaded.emplace_back(b.vectorOf(run), b.advance(local.base, offset));
    if (loaded.size() == atOnce)
      store();
  };
  forEachRun(b, region, layout, vector, region.inside, access);
  store();
}

/// The elements that a thread reads, one by one, with zeros for elements outside. Rarely executed,
/// so the code is short.
static void copyToLocal(ThreadBuilder &b, const ViewRegion &region, const RegisterLayout &layout,
                        const LocalTile &local) {
  int rank = layout.rank(), count = layout.registersPerThread(), period = getPeriod(layout);
  size_t unit = *region.dense;
  auto offsetOf = [&](layout::Coord part) {
    return getLocalOffset(local, layout, part, unit, region.view.bytes);
  };
  auto distanceOf = [&](int reg) {
    return offsetOf(layout.registerPart(reg)) - offsetOf(layout.registerPart(reg - period));
  };
  for (int reg = period; reg < count; ++reg)
    if (distanceOf(reg) != distanceOf(period)) {
      period = count;
      break;
    }
  layout::Coord distance{};
  int64_t localDistance = 0;
  if (period < count) {
    localDistance = distanceOf(period);
    for (int d = 0; d < rank; ++d)
      distance[d] = layout.registerPart(period)[d] - layout.registerPart(0)[d];
  }
  auto loop = scf::ForOp::create(b, b.i32(0), b.i32(count / period), b.i32(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value round = loop.getInductionVar(), address = region.outer;
  Values start;
  for (int d = 0; d < rank; ++d) {
    Value moved = b.mul(round, b.i32(distance[d]));
    start.push_back(b.add(b.add(region.index[d], getThreadCoord(b, layout, d)), moved));
    Value offset = b.mul(b.toI64(start[d]), region.stride[d]);
    address = b.advance(address, b.mul(offset, b.i64(region.view.bytes)));
  }
  Value place = b.advance(local.base, b.mul(b.toI64(round), b.i64(localDistance)));
  for (int reg = 0; reg < period; ++reg) {
    Value from = address, to = place, inside = region.inside;
    for (int d = 0; d < rank; ++d) {
      int64_t at = layout.registerPart(reg)[d];
      inside = b.conjunction(inside, b.less(b.add(start[d], b.i32(at)), region.extent[d]));
      from = b.advance(from, b.mul(b.mul(b.i64(at), region.stride[d]), b.i64(region.view.bytes)));
    }
    to = b.advance(to, offsetOf(layout.registerPart(reg)));
    Value loaded = loadGlobal(b, from, inside, region.view.element, 1).front();
    LLVM::StoreOp::create(b, loaded, to, static_cast<unsigned>(region.view.bytes));
  }
}

/// From global or local memory.
static Values loadVectorAnywhere(ThreadBuilder &b, Value address, Type element, int64_t count) {
  unsigned bits = element.getIntOrFloatBitWidth();
  unsigned total = bits * static_cast<unsigned>(count);
  unsigned wordBits = std::max(bits, std::min(total, 32u)), words = total / wordBits;
  StringRef constraint = wordBits == 64 ? "l" : wordBits == 32 ? "r" : "h";
  std::string list = operandList(0, words), constraints;
  for (unsigned i = 0; i < words; ++i)
    constraints += ("=" + constraint + ",").str();
  std::string text = "ld" + (words > 1 ? ".v" + std::to_string(words) : std::string()) + ".b" +
                     std::to_string(wordBits) + " " + (words > 1 ? "{" + list + "}" : list) +
                     ", [$" + std::to_string(words) + "];";
  Type word = b.getIntegerType(wordBits);
  Type result =
      words == 1 ? word
                 : LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(words, word));
  Value loaded = b.inlineAsm(text, constraints + "l,~{memory}", result, {address});
  Values elements;
  for (unsigned i = 0; i < words; ++i)
    llvm::append_range(elements,
                       b.unpackWords(words == 1 ? loaded : b.extract(loaded, i), element));
  return elements;
}

static Values readRun(ThreadBuilder &b, DeferredLoad &load, int reg) {
  if (auto known = load.early.find(reg); known != load.early.end())
    return known->second;
  layout::Coord part = load.layout->registerPart(reg);
  int64_t at = load.strides.empty() ? 0 : part[1 - load.unit];
  // Each is computed from a previous one by an addition.
  std::function<Value(int64_t)> place = [&](int64_t at) {
    if (Value known = load.places[at])
      return known;
    bool isFar = at >= LocalTile::steps[1];
    Value before = place(at - LocalTile::steps[isFar]);
    return load.places[at] = b.advance(before, load.strides[isFar]);
  };
  return loadVectorAnywhere(b, b.advance(place(at), part[load.unit] * load.bytes), load.element,
                            load.vector);
}

bool tgpu::isDeferredLoad(KernelEmitter &e, Value tile) {
  return e.state<DeferredLoads>().loads.count(tile);
}

Values tgpu::loadRun(KernelEmitter &e, Value tile, int reg) {
  return readRun(e.b, e.state<DeferredLoads>().loads[tile], reg);
}

/// The positions of a thread's runs in its local memory: along the unit with the strides of the
/// view, along the other dimension in the gaps between them, if they fit, or after them. Equal
/// loads share the memory, except loads of one block, which may be live at the same time.
static LocalTile getLocalTile(KernelEmitter &e, LoadOp op, const RegisterLayout &layout,
                              size_t unit, int64_t runBytes, int64_t bytes) {
  ThreadBuilder &b = e.b;
  constexpr int64_t alignment = 16;
  int64_t lastNear = 0, lastFar = 0, lastUnit = 0, gap = 0;
  for (int reg = 0; reg < layout.registersPerThread(); ++reg) {
    layout::Coord part = layout.registerPart(reg);
    lastUnit = std::max(lastUnit, part[unit]);
    if (int64_t from = part[unit] * bytes; from >= runBytes)
      gap = std::gcd(gap, from & -from);
    if (layout.rank() == 2) {
      lastNear = std::max(lastNear, part[1 - unit] % LocalTile::steps[1]);
      lastFar = std::max(lastFar, part[1 - unit] / LocalTile::steps[1]);
    }
  }
  gap = gap ? gap : alignment;
  int64_t span = llvm::alignTo(lastUnit * bytes + std::max(runBytes, gap), alignment);
  LocalTile tile;
  bool nearFits = (lastNear + 1) * runBytes <= gap, farFits = (lastFar + 1) * runBytes <= gap;
  if (lastNear == 0)
    tile.strides = {0, farFits ? runBytes : span};
  else
    tile.strides = {nearFits ? runBytes : span, nearFits ? span : (lastNear + 1) * span};
  int64_t size =
      llvm::alignTo(lastNear * tile.strides[0] + lastFar * tile.strides[1] + span, alignment);
  unsigned number = 0;
  for (Operation &before : *op->getBlock())
    number += before.isBeforeInBlock(op) && isa<LoadOp>(before);
  Value &base = e.state<DeferredLoads>().localTiles[{number, size}];
  if (!base) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&e.func.getBody().front());
    auto pointer = LLVM::LLVMPointerType::get(b.getContext());
    Value count = LLVM::ConstantOp::create(b, b.getI32Type(),
                                           b.getI32IntegerAttr(static_cast<int32_t>(size)));
    base = LLVM::AllocaOp::create(b, pointer, b.getI8Type(), count, alignment);
  }
  tile.base = base;
  return tile;
}

/// False if the load is not of this kind; nothing was emitted then.
static bool deferLoad(KernelEmitter &e, LoadOp op, const ViewRegion &region,
                      const RegisterLayout &layout) {
  ThreadBuilder &b = e.b;
  size_t rank = region.shape.size();
  unsigned bits = region.view.element.getIntOrFloatBitWidth();
  constexpr unsigned leastBits = 16; // minimum width of a PTX register
  if (!op->getParentOfType<LoopLikeOpInterface>() || op.getPad() || bits < leastBits ||
      !region.root || !region.root.getDefiningOp<tile::CapturedOp>() || !region.dense ||
      rank != static_cast<size_t>(layout.rank()) || !isReadInOrder(op))
    return false;
  size_t unit = *region.dense, other = 1 - unit;
  int64_t vector = unit == rank - 1 ? getRunLength(layout, region.view.bytes) : 1;

  Value isFast =
      vector > 1 ? isVectorizable(e, region, vector) : b.equal(region.stride[unit], b.i64(1));
  isFast = b.conjunction(isFast, isWhole(b, region));
  Value base = region.outer;
  for (size_t d = 0; d < rank; ++d) {
    Value index = b.toI64(b.add(region.index[d], getThreadCoord(b, layout, static_cast<int>(d))));
    Value offset = d == unit ? index : b.mul(index, region.stride[d]);
    base = b.advance(base, b.mul(offset, b.i64(region.view.bytes)));
  }

  LocalTile local =
      getLocalTile(e, op, layout, unit, vector * region.view.bytes, region.view.bytes);
  Value isSlow = arith::XOrIOp::create(b, isFast, b.constant(b.getBoolAttr(true)));
  auto branch = scf::IfOp::create(b, isSlow, /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    if (vector > 1) {
      auto way = scf::IfOp::create(b, isVectorizable(e, region, vector), /*withElseRegion=*/true);
      b.setInsertionPointToStart(way.thenBlock());
      copyRunsToLocal(b, region, layout, local, vector);
      b.setInsertionPointToStart(way.elseBlock());
    }
    copyToLocal(b, region, layout, local);
  }

  DeferredLoad load;
  load.layout = &layout;
  load.element = region.view.element;
  load.vector = vector;
  load.unit = unit;
  load.bytes = region.view.bytes;
  Type generic = local.base.getType();
  if (base.getType() != generic)
    base = LLVM::AddrSpaceCastOp::create(b, generic, base);
  // After an assembly that is opaque to LLVM, which would otherwise select once per run, since one
  // side is a constant.
  Value first = arith::SelectOp::create(b, isFast, base, local.base);
  load.places[0] = b.inlineAsm("mov.b64 $0, $1;", "=l,l", generic, first);
  if (rank == 2) {
    Value stride = b.mul(region.stride[other], b.i64(region.view.bytes));
    for (auto [step, far] : llvm::zip_equal(LocalTile::steps, local.strides))
      load.strides.push_back(
          arith::SelectOp::create(b, isFast, b.mul(stride, b.i64(step)), b.i64(far)));
  }
  int64_t early = countEarlyRuns(e, op, std::max<int64_t>(1, vector * bits / 32));
  for (int reg = 0; reg < layout.registersPerThread() && early > 0;
       reg += static_cast<int>(vector), --early)
    load.early[reg] = readRun(b, load, reg);
  e.defer(op.getResult(), [&e, op, vector, count = layout.registersPerThread()]() mutable {
    Values elements;
    for (int reg = 0; reg < count; reg += static_cast<int>(vector))
      llvm::append_range(elements, loadRun(e, op.getResult(), reg));
    return elements;
  });
  e.state<DeferredLoads>().loads[op.getResult()] = std::move(load);
  return true;
}

static void emitLoad(KernelEmitter &e, LoadOp op) {
  const RegisterLayout &layout = *e.getLayout(op, op.getResult().getType());
  ViewRegion region = getRegion(e, op, op.getResult());
  if (deferLoad(e, op, region, layout))
    return;
  Value pad = op.getPad() ? e.getScalar(op.getPad()) : Value();
  e.setElements(op.getResult(), loadRegion(e, region, layout, pad));
}

void tgpu::registerLoadLowerings(LoweringTable &table) { table.add<LoadOp>(emitLoad); }
