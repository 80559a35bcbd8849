// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A cost model of a loop with products.
//
// It counts, for an iteration of the loop with given blocks, the clocks of a multiprocessor's
// tensor cores, of its other units, and of the memory that the iteration reads and writes, and the
// latency of one warpgroup. The slowest of these determines the speed; blocks whose tiles exceed
// the registers or the shared memory are left out. Figures of a chip come from base/Target; the
// other constants were fitted to the times of the kernels in bench/blocks and compared with the
// measured rows of the table (BlockTable.cpp).

#include "passes/Blocks/BlockModel.h"

#include "base/Target/Target.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Map/ChooseWarps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

#include <cmath>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Iterations are counted for loops of this length, unless the caller states a shorter one.
constexpr int64_t usualLength = 4096;
/// Tiles of one operand that loads fill or products read at the same time: at least, and at most.
constexpr int64_t stages = 2, mostStages = 6;
/// Bytes of the second-level cache for each clock and multiprocessor.
constexpr double bytesOfClock = 20;
/// Clocks before the first product of a block, and after its last one.
constexpr double clocksOfBlock = 2000;
/// Rows of tiles that are stored by a tensor map have a multiple of these bytes; threads store
/// other tiles in this many times the clocks.
constexpr int64_t bytesOfSwizzle = 128, clocksOfRegisterStore = 3;
/// Clocks that a product takes in addition to those of the tensor cores, and that an iteration
/// takes for barriers. Another warpgroup may use them.
constexpr double clocksOfProduct = 80, clocksOfIteration = 160;
/// How much later, relative to a load, a further warpgroup ends to read a tile.
constexpr double driftOfGroup = 0.3;
/// Lanes of a multiprocessor that compute in each clock.
constexpr double lanesOfClock = 128;
/// Registers of a thread in addition to its tiles, and to the result of one product. ptxas compiles
/// each instruction with the registers that a thread has when the kernel begins.
constexpr int64_t besideTiles = 36, besideProduct = 28;
/// A product of fewer columns takes as long as one of these.
constexpr int64_t leastColumns = 48;
/// Of the rate of wgmma, on chips that have it.
constexpr double rateOfMma = 0.62;
/// Operations of a division that is rounded correctly, and of a tanh without afn; both also take
/// exponentials, or instructions of the same unit.
constexpr double operationsOfDivision = 8, operationsOfTanh = 20, exponentialsOfTanh = 2;
/// Clocks from the request of a tile until it begins to arrive.
constexpr double clocksOfLoad = 1000;
/// Bytes of shared memory for barriers and results of reductions.
constexpr int64_t otherShared = 2048;

/// No tile of a GPU is longer; products of three extents fit 64 bits.
constexpr int64_t mostExtent = 1 << 20;

/// The extents that are tried.
constexpr int64_t rowsOfGroups[] = {64, 128, 192, 256}, rowsOfWarps[] = {16, 32, 64, 128},
                  steps[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256};

/// A tile of the loop whose extents may depend on the blocks.
struct TileShape {
  SmallVector<Dim> dims;
  int64_t bits = 0;
};

struct Product {
  Dim m, n, k;
  bool isStaged = false; ///< an operand passes from registers through shared memory
};

/// Operations on each element of a tile.
struct Elementwise {
  TileShape shape;
  double operations = 0, exponentials = 0;
};

/// What the tiles of one iteration take, for given blocks.
struct Totals {
  double products = 0, elements = 0, exponentials = 0, moved = 0;
  int64_t resident = 0, streamed = 0, staged = 0;   ///< bytes of shared memory
  int64_t registers = 0;                            ///< of all threads, in units of 32 bits
  SmallVector<std::pair<int64_t, int64_t>> results; ///< rows and columns of each product
};

/// The loop's tiles, products and operations, with symbolic extents. Parameters have been bound,
/// but branches and selections that they decide have not been folded yet: only the operations that
/// remain count.
class Loop {
public:
  Loop(const ExaminedKernel &kernel, const Bindings &bindings, const BlockQuery &query)
      : bindings(bindings), loop(kernel.structure.loop),
        flags(kernel.kernel->getParentOfType<ModuleOp>(), bindings),
        symbols(kernel.kernel->getParentOfType<ModuleOp>()), work(query.work) {
    findNeeded();
    for (Value carried : cast<LoopLikeOpInterface>(loop).getRegionIterArgs())
      begins[carried] = 0;
    loop->walk([&](Operation *op) {
      if (op != loop && needed.contains(op))
        add(op);
    });
    kernel.kernel->walk([&](StoreOp store) {
      if (!loop->isProperAncestor(store) && isMatrix(store.getValue()) && !isNeverDone(store))
        results.push_back(getShape(store.getValue()));
    });
    for (auto [value, begin] : begins)
      if (isFloatMatrix(value))
        lives.push_back({getShape(value), begin, std::max(ends.lookup(value), begin + 1)});
  }

  bool hasProducts() const { return !products.empty(); }

  /// Nothing if an extent is unknown, or no extent of a tile.
  std::optional<Totals> measure(const llvm::StringMap<int64_t> &blocks) const {
    Totals totals;
    bool known = true;
    auto extent = [&](Dim dim) -> int64_t {
      if (dim.isSymbol())
        if (auto block = blocks.find(dim.symbol.getValue()); block != blocks.end())
          return block->second;
      std::optional<int64_t> value = getExtent(dim, bindings);
      bool isUsual = value && *value >= 0 && *value <= mostExtent;
      known &= isUsual;
      return isUsual ? *value : 0;
    };
    auto elements = [&](const TileShape &shape) {
      int64_t count = 1;
      for (Dim dim : shape.dims)
        count *= extent(dim);
      return count;
    };
    auto bytes = [&](const TileShape &shape) { return elements(shape) * shape.bits / 8; };
    for (const Product &product : products) {
      int64_t m = extent(product.m), n = extent(product.n), k = extent(product.k);
      totals.products += 2.0 * std::max(m * n, leastColumns * std::max(m, n)) * k;
      totals.results.push_back({m, n});
      totals.staged += product.isStaged ? std::min(m * k, n * k) * 2 : 0;
    }
    for (const Elementwise &each : elementwise) {
      totals.elements += each.operations * elements(each.shape);
      totals.exponentials += each.exponentials * elements(each.shape);
    }
    for (Value load : resident)
      totals.resident += bytes(getShape(load));
    for (const TileShape &shape : streams)
      totals.streamed += bytes(shape);
    totals.moved = totals.streamed;
    // What is written passes through shared memory; a role of its own adds one tile while the next
    // is computed.
    for (const TileShape &shape : stored) {
      bool isWhole = extent(shape.dims.back()) * shape.bits / 8 % bytesOfSwizzle == 0;
      totals.moved += (isWhole ? 1 : clocksOfRegisterStore) * bytes(shape);
      totals.staged += bytes(shape);
    }
    for (const TileShape &shape : added) {
      totals.moved += 2 * bytes(shape);
      totals.staged += 2 * bytes(shape);
    }
    // Results are stored from shared memory while the next block begins, in parts.
    for (const TileShape &shape : results)
      totals.staged += bytes(shape) / 2;
    SmallVector<int64_t> changes(number + 2);
    for (const Live &live : lives) {
      int64_t registers = elements(live.shape) * live.shape.bits / 32;
      changes[live.begin] += registers;
      changes[live.end] -= registers;
    }
    int64_t registers = 0;
    for (int64_t change : changes)
      totals.registers = std::max(totals.registers, registers += change);
    if (!known)
      return std::nullopt;
    return totals;
  }

private:
  /// A tile in registers, from one operation of the loop to before another.
  struct Live {
    TileShape shape;
    unsigned begin, end;
  };

  static bool isMatrix(Value value) {
    return isTile(value.getType()) && getDims(value.getType()).size() >= 2;
  }

  Type getElement(Value value) const {
    return getBoundElement(getElementType(value.getType()), bindings);
  }

  bool isFloatMatrix(Value value) const {
    return isMatrix(value) && isa_and_nonnull<FloatType>(getElement(value));
  }

  TileShape getShape(Value value) const {
    Type element = getElement(value);
    return {getDims(value.getType()),
            element && element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 32};
  }

  /// The value itself, or the one that it is once selections and branches are folded.
  Value resolve(Value value) {
    while (Operation *def = value.getDefiningOp()) {
      Value source;
      if (auto select = dyn_cast<arith::SelectOp>(def)) {
        if (std::optional<bool> flag = evaluate(select.getCondition()))
          source = *flag ? select.getTrueValue() : select.getFalseValue();
      } else if (auto branch = dyn_cast<scf::IfOp>(def)) {
        std::optional<bool> taken = evaluate(branch.getCondition());
        Region *region = !taken   ? nullptr
                         : *taken ? &branch.getThenRegion()
                                  : &branch.getElseRegion();
        if (region && !region->empty())
          source =
              region->front().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber());
      } else if (auto map = dyn_cast<MapOp>(def)) {
        auto function = symbols.lookup<func::FuncOp>(map.getFunction());
        auto result = function && !function.isExternal()
                          ? dyn_cast<func::ReturnOp>(function.getBody().back().getTerminator())
                          : func::ReturnOp();
        auto argument = result && result.getNumOperands() == 1
                            ? dyn_cast<BlockArgument>(result.getOperand(0))
                            : BlockArgument();
        if (argument)
          source = map.getOperand(argument.getArgNumber());
      } else if (isa<CastOp>(def) && isMatrix(def->getOperand(0)) &&
                 getElement(def->getOperand(0)) == getElement(value)) {
        source = def->getOperand(0);
      }
      if (!source || !isTile(source.getType()))
        break;
      value = source;
    }
    return value;
  }

  std::optional<bool> evaluate(Value flag) {
    return flag.getType().isInteger(1) ? flags.evaluate(flag) : std::nullopt;
  }

  /// Whether a branch that contains the operation is known not to be taken.
  bool isNeverDone(Operation *op) {
    for (Region *region = op->getParentRegion(); region; region = region->getParentRegion())
      if (auto branch = dyn_cast<scf::IfOp>(region->getParentOp()))
        if (std::optional<bool> taken = evaluate(branch.getCondition()))
          if (region != (*taken ? &branch.getThenRegion() : &branch.getElseRegion()))
            return true;
    return false;
  }

  /// The operations of the loop that write memory or that the next iteration depends on.
  void findNeeded() {
    llvm::SetVector<Operation *> work;
    auto demand = [&](Value value) {
      Operation *def = resolve(value).getDefiningOp();
      if (def && loop->isProperAncestor(def))
        work.insert(def);
    };
    loop->walk([&](Operation *op) {
      if (isNeverDone(op))
        return;
      if (isa<StoreOp, AtomicAddOp, ScatterAddOp>(op) ||
          (op->getParentOp() == loop && op->hasTrait<OpTrait::IsTerminator>()))
        work.insert(op);
    });
    for (size_t i = 0; i < work.size(); ++i) {
      Operation *op = work[i];
      needed.insert(op);
      for (Value operand : op->getOperands())
        demand(operand);
      if (auto branch = dyn_cast<scf::IfOp>(op))
        for (Region &region : branch->getRegions())
          if (!region.empty())
            work.insert(region.front().getTerminator());
    }
  }

  void add(Operation *op) {
    ++number;
    auto dot = dyn_cast<DotOp>(op);
    for (Value operand : op->getOperands()) {
      if (!isMatrix(operand))
        continue;
      // The last operation that reads a tile may write its result in the same registers, but a
      // product reads an operand from them while it runs, unless that is in shared memory.
      bool isOperand = dot && operand == dot.getLhs() && !dot.getTransposeA();
      unsigned &end = ends[resolve(operand)];
      end = std::max(end, number + (isOperand ? 1 : 0));
    }
    if (dot)
      addProduct(dot);
    if (isa<LoadOp, GatherOp>(op) && isMatrix(op->getResult(0)))
      streams.push_back(getShape(op->getResult(0)));
    if (isa<StoreOp, AtomicAddOp>(op) && isMatrix(op->getOperand(0)))
      (isa<StoreOp>(op) ? stored : added).push_back(getShape(op->getOperand(0)));
    if (op->getNumResults() != 1 || !isMatrix(op->getResult(0)) || isa<scf::IfOp>(op))
      return;
    // Constants, positions and expanded rows take no registers, operands that are loaded only as
    // they are converted.
    if (!isa<LoadOp, GatherOp, IotaOp, ConstantOp, FullOp, ExpandOp>(op))
      begins[op->getResult(0)] = number;
    if (!dot && !isa<LoadOp, GatherOp>(op))
      addElementwise(op);
  }

  /// Whether it is an operation of that kind that is not the instruction of the hardware.
  template <typename MathOp> static bool isExact(Operation *op) {
    auto math = dyn_cast<MathOp>(op);
    return math && !arith::bitEnumContainsAll(math.getFastmath(), arith::FastMathFlags::afn);
  }

  void addElementwise(Operation *op) {
    bool isFree = isa<IotaOp, ConstantOp, FullOp, ExpandOp, CastOp>(op);
    bool isDivision = isExact<arith::DivFOp>(op), isTanh = isExact<math::TanhOp>(op);
    bool isExponential = isa<math::ExpOp, math::Exp2Op, math::LogOp, math::Log2Op, math::TanhOp,
                             math::RsqrtOp, math::SqrtOp, arith::DivFOp>(op);
    double mapped = static_cast<double>(std::min<int64_t>(work, 64));
    double operations = isFree           ? 0.5
                        : isDivision     ? operationsOfDivision
                        : isTanh         ? operationsOfTanh
                        : isa<MapOp>(op) ? mapped
                                         : 1;
    double exponentials = isTanh ? exponentialsOfTanh : isExponential ? 1 : 0;
    elementwise.push_back({getShape(op->getResult(0)), operations, exponentials});
  }

  void addProduct(DotOp dot) {
    SmallVector<Dim> lhs = getDims(dot.getLhs().getType()), rhs = getDims(dot.getRhs().getType());
    bool a = dot.getTransposeA(), b = dot.getTransposeB();
    Product product{lhs[a ? 1 : 0], rhs[b ? 0 : 1], lhs[a ? 0 : 1]};
    bool isLhsComputed = addOperand(dot.getLhs()), isRhsComputed = addOperand(dot.getRhs());
    product.isStaged = isRhsComputed || (isLhsComputed && a);
    products.push_back(product);
  }

  /// Finds the loads that an operand comes from; returns whether it is computed in the loop.
  bool addOperand(Value operand) {
    llvm::SetVector<Value> values;
    values.insert(resolve(operand));
    bool isComputed = false;
    for (size_t i = 0; i < values.size(); ++i) {
      Operation *def = values[i].getDefiningOp();
      if (!def)
        continue;
      bool isInside = loop->isProperAncestor(def);
      if (isa<LoadOp, GatherOp>(def)) {
        if (!isInside)
          resident.insert(values[i]);
        continue;
      }
      isComputed |= isInside;
      if (!isa<DotOp>(def))
        for (Value value : def->getOperands())
          if (isMatrix(value))
            values.insert(resolve(value));
    }
    return isComputed;
  }

  const Bindings &bindings;
  Operation *loop;
  FlagEvaluator flags;
  SymbolTable symbols;
  int64_t work;
  llvm::DenseSet<Operation *> needed;
  unsigned number = 0; ///< of the operation that is added
  llvm::MapVector<Value, unsigned> begins;
  llvm::DenseMap<Value, unsigned> ends;
  SmallVector<Product> products;
  SmallVector<Elementwise> elementwise;
  llvm::SetVector<Value> resident; ///< loads before the loop that products read
  SmallVector<TileShape> streams, stored, added, results;
  SmallVector<Live> lives;
};

/// The warpgroups that share the rows of the largest product; 0 if some product cannot be divided
/// among them by rows, in either orientation. Two may also share columns; with three that took
/// twice the time.
int64_t getGroups(const Totals &totals) {
  constexpr int64_t rows = 64, columns = 8;
  auto largest = *llvm::max_element(totals.results, [](const auto &a, const auto &b) {
    return a.first * a.second < b.first * b.second;
  });
  int64_t groups = tgpu::getWarpgroups(largest.first / rows);
  auto divides = [&](int64_t m, int64_t n) {
    return m % (groups * rows) == 0 ||
           (groups == 2 && m % rows == 0 && n % (groups * columns) == 0);
  };
  bool isDivided = llvm::all_of(totals.results, [&](const auto &result) {
    return divides(result.first, result.second) || divides(result.second, result.first);
  });
  return isDivided ? groups : 0;
}

/// The clocks of an element with the blocks, or nothing if they do not fit.
std::optional<double> getCost(const Totals &totals, const Target &target, const BlockQuery &query,
                              int64_t rows, int64_t step, int64_t length) {
  using Limits = tgpu::RegisterLimits;
  int64_t shared = totals.resident + stages * totals.streamed + totals.staged + otherShared;
  int64_t room = query.shared ? query.shared : target.sharedOfBlock;
  if (shared > room)
    return std::nullopt;
  double rate = target.operationsOfClock;
  int64_t warps = 4, blocks = 1;
  int64_t compute = target.has(Feature::Wgmma) ? getGroups(totals) : 0;
  if (compute) {
    warps = Target::warpsOfGroup * compute;
    // One more warpgroup, or part of one, loads.
    int64_t most =
        std::min<int64_t>(Target::mostRoleRegisters,
                          (Target::registers / Target::threadsOfGroup - Limits::ofLoadRole) /
                              compute / Target::roleRegisterUnit * Target::roleRegisterUnit);
    int64_t threads = Target::lanes * warps;
    int64_t atEntry = Target::getRegistersAtEntry(warps + Target::warpsOfGroup);
    if (totals.registers / threads + besideTiles > most ||
        llvm::any_of(totals.results, [&](const auto &result) {
          return result.first * result.second / threads + besideProduct > atEntry;
        }))
      return std::nullopt;
  } else {
    if (target.has(Feature::Wgmma))
      rate *= rateOfMma;
    warps = totals.registers / (Target::lanes * 4) > Limits::forTiles ? 8 : 4;
    if (totals.registers / (Target::lanes * warps) > Limits::forTiles)
      return std::nullopt;
    blocks = std::min(target.sharedOfMultiprocessor / (shared + Target::systemShared),
                      Target::registers / (Target::lanes * warps * Target::registersOfThread));
    blocks = std::max<int64_t>(blocks, 1);
  }
  double products = totals.products / rate;
  double others = totals.elements / lanesOfClock + totals.exponentials / target.exponentialsOfClock;
  double memory = totals.moved / bytesOfClock;
  double groups = static_cast<double>(warps) / Target::warpsOfGroup;
  // A tile that has been read makes room for the one that is `ahead` iterations later.
  int64_t ahead = std::min<int64_t>((room - totals.resident - totals.staged - otherShared) /
                                        std::max<int64_t>(totals.streamed, 1),
                                    mostStages) -
                  1;
  // Warpgroups drift apart, and the last one to read makes the room.
  double drift = 1 + driftOfGroup * (groups - 1);
  double load = drift * (clocksOfLoad + totals.streamed / bytesOfClock) / ahead;
  double latency = ((products + others) / groups + clocksOfIteration + clocksOfProduct) / blocks;
  double clocks = std::pow(std::pow(products, 4) + std::pow(others, 4) + std::pow(memory, 4) +
                               std::pow(load, 4) + std::pow(latency, 4),
                           0.25);
  // Under a mask half of the blocks are skipped, and those on its border are computed whole.
  double kept = query.mask == MaskKind::None ? length : length / 2.0;
  double border = query.mask == MaskKind::None ? 0 : (rows + step) / 2.0;
  double iterations = std::ceil((kept + border) / step);
  double first = (totals.resident / bytesOfClock + clocksOfBlock) / blocks;
  return (first + iterations * clocks) / (rows * kept);
}

/// The values of a block that are tried, or only that which it has.
SmallVector<int64_t> getCandidates(Dim dim, const Bindings &bindings, ArrayRef<int64_t> all) {
  if (dim.isUnknown())
    return {0};
  if (std::optional<int64_t> extent = getExtent(dim, bindings))
    return {*extent};
  return SmallVector<int64_t>(all);
}

} // namespace

std::optional<ModelChoice> tilewright::chooseByModel(const ExaminedKernel &kernel,
                                                     const Bindings &bindings,
                                                     const BlockQuery &query) {
  const Target *target = Target::find(query.target);
  constexpr int64_t bits = 16;
  if (!target || query.bits != bits || !kernel.structure.loop)
    return std::nullopt;
  Loop loop(kernel, bindings, query);
  if (!loop.hasProducts())
    return std::nullopt;
  bool hasWgmma = target->has(Feature::Wgmma);
  const LoopStructure &structure = kernel.structure;
  SmallVector<int64_t> rows =
      getCandidates(structure.rows, bindings,
                    hasWgmma ? ArrayRef<int64_t>(rowsOfGroups) : ArrayRef<int64_t>(rowsOfWarps));
  int64_t length = query.hasLength && query.length ? query.length
                   : query.usual                   ? query.usual
                                                   : usualLength;
  std::optional<ModelChoice> best;
  for (int64_t row : rows)
    for (int64_t column : getCandidates(structure.columns, bindings, steps))
      for (int64_t step : getCandidates(structure.step, bindings, steps)) {
        llvm::StringMap<int64_t> blocks;
        for (auto [dim, extent] :
             {std::pair(structure.rows, row), std::pair(structure.columns, column),
              std::pair(structure.step, step)})
          if (dim.isSymbol())
            blocks[dim.symbol.getValue()] = extent;
        std::optional<Totals> totals = loop.measure(blocks);
        if (!totals)
          return std::nullopt;
        std::optional<double> cost =
            getCost(*totals, *target, query, row * std::max<int64_t>(column, 1),
                    std::max<int64_t>(step, 1), length);
        if (cost && (!best || *cost < best->clocks))
          best = ModelChoice{row, column, step, *cost};
      }
  return best;
}
