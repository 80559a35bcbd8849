// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An estimate of the registers of a loop whose program adds gradients of captures.
//
// The derivative of a scalar function reads values that the function itself computed, for every
// pair. Compilers compute common values once, so these live in registers from the first product to
// the last one. Which they are follows from the function: the indices of a table, the argument of a
// function that is not linear, distances of positions.
//
// The constants are fitted to the spills of ptxas 13.0 with the shipped modifiers at D 64 and 128
// (docs/performance-log.md); test/Kernels/Inputs/digests.txt holds them.

#include "passes/Blocks/BodyRegisters.h"

#include "base/Target/Target.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Map/ChooseWarps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

#include <map>
#include <vector>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Registers of a thread for all but tiles, as in the cost model (BlockModel.cpp).
constexpr int64_t besideBody = 36;
/// Registers for a pair. Between a function and its derivative: the place of an entry of a table;
/// the argument of a function that is not linear, with its value; an element of a captured tile; a
/// position as a float, and one with an offset that is read. Without a derivative, only what a read
/// returns, until its use.
constexpr double ofKeptPlace = 2.25, ofKeptArgument = 2.5, ofKeptElement = 0.75, ofKeptOffset = 1,
                 ofKeptDistance = 0.25;
constexpr double ofRead = 1;
/// Registers of a number of 64 bits that is the same for all pairs, and of those computed from it.
constexpr int64_t ofWideUniform = 5;
/// Operations of mapped functions in the code of an iteration: with a third more, buckets of
/// distances compile in seven seconds instead of five, and take as many instructions for a pair.
constexpr double mostOperations = 3700;
/// Steps that are tried.
constexpr int64_t stepsThatFit[] = {128, 96, 80, 64, 48, 32, 16};

/// How a value of a scalar function differs between pairs.
enum class Kind {
  Constant,
  Uniform,
  Position, ///< a linear function of the positions
  Offset,   ///< its sum with a uniform number that is not a constant
  Derived,  ///< another function of positions, or what was read there
  Score     ///< depends on a float of the pair
};

using Kinds = std::vector<Kind>;

/// Classifies the values of scalar functions for each kind of their arguments.
class Examiner {
public:
  Examiner(ModuleOp module, FlagEvaluator &flags) : symbols(module), flags(flags) {}

  void examine(StringRef name, ValueRange args) {
    if (auto function = symbols.lookup<func::FuncOp>(name)) {
      Kinds kinds;
      for (Type type : args.getTypes())
        kinds.push_back(!isTile(type)                     ? Kind::Uniform
                        : isInteger(getElementType(type)) ? Kind::Position
                                                          : Kind::Score);
      visit(function, kinds);
    }
  }

  bool readsFloats = false;   ///< a captured float
  bool readsEntries = false;  ///< at an index that is not a position
  bool readsElements = false; ///< at positions
  bool isRandom = false;      ///< has random numbers
  bool hasDistances = false;  ///< positions as floats
  bool hasOffsets = false;    ///< likewise, of Kind::Offset
  bool hasNonlinear = false;  ///< of the float of a pair
  llvm::DenseSet<Value> wide; ///< uniform floats of 64 bits that pairs use

private:
  static bool isInteger(Type type) { return type.isInteger() || type.isIndex(); }

  Kinds visit(func::FuncOp function, const Kinds &args) {
    size_t results = function.getNumResults();
    // A call that closes a cycle, which is an error elsewhere, finds this.
    auto [it, isNew] =
        known.try_emplace({function.getOperation(), args}, Kinds(results, Kind::Score));
    if (!isNew || function.isExternal() || depth == mostDepth)
      return it->second;
    ++depth;
    for (auto [argument, kind] : llvm::zip(function.getArguments(), args))
      kinds[argument] = kind;
    Kinds returned(results, Kind::Constant);
    function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto end = dyn_cast<func::ReturnOp>(op))
        for (auto [kind, value] : llvm::zip(returned, end.getOperands()))
          kind = std::max(kind, kindOf(value));
      else
        visit(op);
    });
    --depth;
    return it->second = returned;
  }

  Kind kindOf(Value value) {
    auto it = kinds.find(value);
    return it == kinds.end() ? Kind::Score : it->second;
  }

  void visit(Operation *op) {
    bool isConstant = op->getNumOperands() || isa<arith::ConstantOp, ConstantOp, ParamOp>(op);
    Kind most = isConstant ? Kind::Constant : Kind::Uniform;
    for (Value operand : op->getOperands())
      most = std::max(most, kindOf(operand));
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee())) {
        Kinds args;
        for (Value operand : call.getOperands())
          args.push_back(kindOf(operand));
        for (auto [result, kind] : llvm::zip(call.getResults(), visit(callee, args)))
          kinds[result] = kind;
        return;
      }
    }
    if (auto at = dyn_cast<AtOp>(op))
      most = read(at, most);
    else if (op->getNumRegions())
      most = Kind::Score;
    else
      most = compute(op, most);
    for (Value result : op->getResults())
      kinds[result] = most;
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        kinds[argument] = Kind::Score;
  }

  Kind read(AtOp at, Kind index) {
    FlatSymbolRefAttr name = at.getCaptureAttr();
    auto capture = name ? symbols.lookup<CaptureOp>(name.getValue()) : CaptureOp();
    Type element = at.getResult().getType();
    readsFloats |= capture && !isInteger(element);
    readsEntries |= index > Kind::Offset;
    readsElements |= index == Kind::Position || index == Kind::Offset;
    return index <= Kind::Uniform ? Kind::Uniform : Kind::Derived;
  }

  Kind compute(Operation *op, Kind most) {
    if (most <= Kind::Uniform || !op->getNumResults())
      return most;
    for (Value operand : op->getOperands())
      if (operand.getType().isF64() && kindOf(operand) == Kind::Uniform)
        wide.insert(operand);
    if (auto select = dyn_cast<arith::SelectOp>(op)) {
      Kind yes = kindOf(select.getTrueValue()), no = kindOf(select.getFalseValue());
      if (std::optional<bool> flag = flags.evaluate(select.getCondition()))
        return *flag ? yes : no;
      return kindOf(select.getCondition()) <= Kind::Uniform ? std::max(yes, no)
                                                            : std::max(most, Kind::Derived);
    }
    if (isa<RandomOp>(op)) {
      isRandom = true;
      return Kind::Derived;
    }
    if (isa<arith::AddIOp, arith::SubIOp>(op) && most == Kind::Position &&
        llvm::any_of(op->getOperands(),
                     [&](Value value) { return kindOf(value) == Kind::Uniform; }))
      return Kind::Offset;
    bool isFloat = !isInteger(op->getResult(0).getType()); // or a type that is a parameter
    hasDistances |= isFloat && most == Kind::Position;
    hasOffsets |= isFloat && most == Kind::Offset;
    if (isa<arith::AddIOp, arith::SubIOp, arith::AddFOp, arith::SubFOp, arith::NegFOp,
            arith::SIToFPOp, arith::ExtSIOp, arith::ExtFOp, arith::TruncIOp, arith::TruncFOp,
            CastOp>(op))
      return most;
    bool isProduct = isa<arith::MulIOp, arith::MulFOp>(op), isQuotient = isa<arith::DivFOp>(op);
    if (isProduct || isQuotient) {
      Kind a = kindOf(op->getOperand(0)), b = kindOf(op->getOperand(1));
      if (b <= Kind::Uniform || (isProduct && a <= Kind::Uniform))
        return most;
      hasNonlinear |= isQuotient ? b == Kind::Score : a == Kind::Score && b == Kind::Score;
      return std::max(most, Kind::Derived);
    }
    bool isMath = op->getName().getDialectNamespace() == "math" && !isa<math::AbsFOp>(op);
    hasNonlinear |= isMath && most == Kind::Score;
    return std::max(most, Kind::Derived);
  }

  static constexpr unsigned mostDepth = 256;

  SymbolTable symbols;
  FlagEvaluator &flags;
  unsigned depth = 0;
  llvm::DenseMap<Value, Kind> kinds;
  std::map<std::pair<Operation *, Kinds>, Kinds> known;
};

/// Whether a branch that contains the operation is known not to be taken.
bool isNeverDone(Operation *op, FlagEvaluator &flags) {
  for (Region *region = op->getParentRegion(); region; region = region->getParentRegion())
    if (auto branch = dyn_cast<scf::IfOp>(region->getParentOp()))
      if (std::optional<bool> taken = flags.evaluate(branch.getCondition()))
        if (region != (*taken ? &branch.getThenRegion() : &branch.getElseRegion()))
          return true;
  return false;
}

} // namespace

BodyRegisters BodyRegisters::get(const ExaminedKernel &kernel, const BlockQuery &query,
                                 const Bindings &bindings) {
  const LoopStructure &structure = kernel.structure;
  BodyRegisters body;
  if (!structure.loop)
    return body;
  auto module = kernel.kernel->getParentOfType<ModuleOp>();
  FlagEvaluator flags(module, bindings);
  Examiner derived(module, flags), mapped(module, flags);
  structure.loop->walk([&](Operation *op) {
    if (isNeverDone(op, flags))
      return;
    if (auto sums = dyn_cast<AddGradientsOp>(op))
      derived.examine(sums.getFunction(), sums.getArgs());
    else if (auto map = dyn_cast<MapOp>(op))
      mapped.examine(map.getFunction(), map.getOperands());
  });
  body.sums = static_cast<int64_t>(StringRef(structure.key).count("sum "));
  // Operands may be padded to more columns than the sums that the loop carries.
  for (Value carried : cast<LoopLikeOpInterface>(structure.loop).getRegionIterArgs())
    if (isTile(carried.getType()) && getDims(carried.getType()).size() == 2)
      body.width =
          std::max(body.width, getExtent(getDims(carried.getType()).back(), bindings).value_or(0));
  if (!body.width)
    body.width = query.elements;
  // The results of two products, such as scores and the gradients of weights, or halves of such as
  // operands of products beside one of them.
  body.ofPair = static_cast<double>(std::clamp<int64_t>(structure.products - 1, 1, 2));
  body.addsGradients = derived.readsFloats;
  if (derived.readsFloats)
    body.ofPair += derived.hasNonlinear    ? ofKeptArgument
                   : derived.readsEntries  ? ofKeptPlace
                   : derived.hasOffsets    ? ofKeptOffset
                   : derived.readsElements ? ofKeptElement
                   : derived.hasDistances  ? ofKeptDistance
                                           : 0;
  else if (mapped.readsEntries || mapped.readsElements || mapped.isRandom)
    body.ofPair += ofRead;
  body.isRandom = mapped.isRandom;
  body.work = query.work - (mapped.isRandom ? randomWork : 0);
  body.uniform = ofWideUniform * static_cast<int64_t>(mapped.wide.size());
  return body;
}

/// The warpgroups that share the rows.
static int64_t getGroupsOfRows(int64_t rows) {
  constexpr int64_t rowsOfGroup = 64;
  return std::max<int64_t>(tgpu::getWarpgroups(rows / rowsOfGroup), 1);
}

double BodyRegisters::each(int64_t rows, int64_t columns) {
  return static_cast<double>(rows * columns) /
         static_cast<double>(Target::threadsOfGroup * getGroupsOfRows(rows));
}

double BodyRegisters::count(int64_t rows, int64_t step) const {
  return each(rows, sums * width) + each(rows, step) * ofPair + static_cast<double>(uniform);
}

static bool fitsRegisters(const BodyRegisters &body, int64_t rows, int64_t step) {
  int64_t ofGroup = Target::registers / Target::threadsOfGroup - tgpu::RegisterLimits::ofLoadRole;
  int64_t most = std::min<int64_t>(Target::mostRoleRegisters, ofGroup / getGroupsOfRows(rows) /
                                                                  Target::roleRegisterUnit *
                                                                  Target::roleRegisterUnit);
  bool isShort = body.each(rows, step) * static_cast<double>(body.work) <= mostOperations;
  return isShort && body.count(rows, step) <= static_cast<double>(most - besideBody);
}

int64_t BodyRegisters::fit(int64_t rows, int64_t step) const {
  return fitsRegisters(*this, rows, step) ? step : fitBelow(rows, step);
}

int64_t BodyRegisters::fitBelow(int64_t rows, int64_t step) const {
  int64_t least = step;
  for (int64_t next : stepsThatFit)
    if (next < step && (!isRandom || llvm::isPowerOf2_64(next)) &&
        (least == step || !fitsRegisters(*this, rows, least)))
      least = next;
  return least;
}
