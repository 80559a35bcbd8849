// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interprets a mask function abstractly, operation by operation. MaskBounds.h has the rules and
// their proofs.

#include "passes/Tile/MaskDerivation.h"

#include "dialect/Tile/Tile.h"
#include "passes/MaskRanges.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

#include <optional>
#include <variant>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Nothing is known about the value.
struct Unknown {};
/// The value is the same for every pair: the derived function computes it as the mask does.
struct Uniform {
  Value value;
};
/// The position of the row, of which only quotient and remainder by `period` are used. The bounds
/// number rows by the remainder.
struct Row {
  int64_t period;
  Linear quotient;
};
using Abstract = std::variant<Unknown, Uniform, Linear, Predicate, Row>;
using Abstracts = SmallVector<Abstract, 0>; // conditions are large
using Frame = llvm::DenseMap<Value, Abstract>;

/// Calls are followed, so the work may grow exponentially in the size of the source. Masks in use
/// are far below this limit.
constexpr unsigned maxOperations = 4096;
constexpr unsigned maxDepth = 64;

class MaskInterpreter {
public:
  MaskInterpreter(OpBuilder &builder, MaskBoundsBuilder &bounds, SymbolTable &symbols)
      : builder(builder), bounds(bounds), symbols(symbols) {}

  /// The abstract results of a call.
  Abstracts call(func::FuncOp function, ArrayRef<Abstract> operands);

  Predicate toPredicate(const Abstract &value) {
    if (auto *uniform = std::get_if<Uniform>(&value))
      return bounds.getUniformPredicate(uniform->value);
    auto *predicate = std::get_if<Predicate>(&value);
    return predicate ? *predicate : bounds.getUnknown();
  }

  /// Operations with unknown results and known operands.
  SmallVector<Operation *> obstacles;

private:
  Abstracts interpret(Block &block, Frame &frame);
  Abstracts interpret(Operation *op, ArrayRef<Abstract> operands, Frame &frame);
  Abstracts cloneUniform(Operation *op, ArrayRef<Abstract> operands);
  Abstracts interpretIf(scf::IfOp op, const Abstract &condition, Frame &frame);
  Abstract interpretBoolean(Operation *op, ArrayRef<Abstract> operands);
  Abstract interpretInteger(Operation *op, ArrayRef<Abstract> operands);
  Abstract interpretAscending(AtOp at, ArrayRef<Abstract> operands);
  Abstract choose(const Abstract &condition, const Abstract &a, const Abstract &b, Type type);

  /// Removes the obstacles in a value's computation, for values that another rule handles.
  void forgetObstacles(Value value) {
    llvm::SetVector<Operation *> slice;
    (void)getBackwardSlice(value, &slice);
    llvm::erase_if(obstacles, [&](Operation *op) { return slice.contains(op); });
  }

  static bool isUniform(const Abstract &value) { return std::holds_alternative<Uniform>(value); }
  static bool isUnknown(const Abstract &value) { return std::holds_alternative<Unknown>(value); }
  static bool isFollowed(Type type) { return type.isInteger(32) || type.isInteger(64); }

  /// The valid flag is null unless the value is an integer in linear form.
  Linear toLinear(const Abstract &value) {
    if (auto *linear = std::get_if<Linear>(&value))
      return *linear;
    auto *uniform = std::get_if<Uniform>(&value);
    return uniform && isFollowed(uniform->value.getType()) ? bounds.getUniform(uniform->value)
                                                           : Linear();
  }
  static Abstract toAbstract(const Linear &linear) {
    return linear.valid ? Abstract(linear) : Abstract(Unknown());
  }

  OpBuilder &builder;
  MaskBoundsBuilder &bounds;
  SymbolTable &symbols;
  unsigned operations = 0, depth = 0;
};

Abstracts MaskInterpreter::call(func::FuncOp function, ArrayRef<Abstract> operands) {
  Abstracts unknown(function.getNumResults());
  if (function.isDeclaration() || !function.getBody().hasOneBlock() || depth >= maxDepth)
    return unknown;
  ++depth;
  Frame frame;
  for (auto [argument, operand] : llvm::zip_equal(function.getArguments(), operands))
    frame[argument] = operand;
  Abstracts results = interpret(function.getBody().front(), frame);
  --depth;
  return results;
}

/// Interprets the operations of a block and returns the values of the terminator's operands.
Abstracts MaskInterpreter::interpret(Block &block, Frame &frame) {
  auto getOperands = [&](Operation &op) {
    return llvm::map_to_vector<0>(op.getOperands(),
                                  [&](Value operand) { return frame.lookup(operand); });
  };
  for (Operation &op : block.without_terminator()) {
    Abstracts operands = getOperands(op);
    Abstracts results(op.getNumResults());
    if (++operations <= maxOperations)
      results = interpret(&op, operands, frame);
    // Remark only on the operation where precision is lost first, not on its users.
    if (!isa<func::CallOp, scf::IfOp>(op) && llvm::any_of(results, isUnknown) &&
        llvm::none_of(operands, isUnknown))
      obstacles.push_back(&op);
    for (auto [result, value] : llvm::zip_equal(op.getResults(), results))
      frame[result] = value;
  }
  return getOperands(*block.getTerminator());
}

Abstracts MaskInterpreter::interpret(Operation *op, ArrayRef<Abstract> operands, Frame &frame) {
  if (auto callOp = dyn_cast<func::CallOp>(op)) {
    auto callee = symbols.lookup<func::FuncOp>(callOp.getCallee());
    return callee ? call(callee, operands) : Abstracts(op->getNumResults());
  }
  if (auto ifOp = dyn_cast<scf::IfOp>(op))
    return interpretIf(ifOp, operands.front(), frame);
  if (op->getNumRegions() == 0 && isMemoryEffectFree(op) && llvm::all_of(operands, isUniform))
    return cloneUniform(op, operands);

  if (op->getNumResults() != 1)
    return Abstracts(op->getNumResults());
  Type type = op->getResult(0).getType();
  if (isa<arith::SelectOp, SelectOp>(op))
    return {choose(operands[0], operands[1], operands[2], type)};
  if (auto equivalent = dyn_cast<EquivalentOp>(op)) {
    for (auto [known, other] : {std::pair(0, 1), std::pair(1, 0)})
      if (!isUnknown(operands[known]))
        forgetObstacles(equivalent.getOperand(other));
    return {bounds.equivalent(toPredicate(operands[0]), toPredicate(operands[1]))};
  }
  if (auto at = dyn_cast<AtOp>(op))
    return {interpretAscending(at, operands)};
  if (!operands.empty())
    if (auto *row = std::get_if<Row>(&operands.front()))
      return {isa<arith::RemSIOp>(op) ? bounds.getAgainst() : row->quotient};
  if (type.isInteger(1))
    return {interpretBoolean(op, operands)};
  if (isFollowed(type))
    return {interpretInteger(op, operands)};
  return {Unknown()};
}

/// The derived function computes both sides of branches, and positions at which the mask is never
/// evaluated, so no operation may trap.
Abstracts MaskInterpreter::cloneUniform(Operation *op, ArrayRef<Abstract> operands) {
  IRMapping mapping;
  for (auto [operand, value] : llvm::zip_equal(op->getOperands(), operands))
    mapping.map(operand, std::get<Uniform>(value).value);
  Operation *copy = builder.clone(*op, mapping);
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
          arith::FloorDivSIOp, arith::RemSIOp, arith::RemUIOp>(copy)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(copy);
    copy->setOperand(1, bounds.guardDivisor(copy->getOperand(0), copy->getOperand(1)));
  }
  return llvm::map_to_vector<0>(copy->getResults(), [](Value v) { return Abstract(Uniform{v}); });
}

Abstracts MaskInterpreter::interpretIf(scf::IfOp op, const Abstract &condition, Frame &frame) {
  Abstracts results = interpret(*op.thenBlock(), frame);
  if (!op.elseBlock())
    return {};
  Abstracts others = interpret(*op.elseBlock(), frame);
  for (auto [a, b, type] : llvm::zip_equal(results, others, op.getResultTypes()))
    a = choose(condition, a, b, type);
  return results;
}

Abstract MaskInterpreter::choose(const Abstract &condition, const Abstract &a, const Abstract &b,
                                 Type type) {
  auto *uniform = std::get_if<Uniform>(&condition);
  if (uniform && isUniform(a) && isUniform(b))
    return Uniform{builder.createOrFold<arith::SelectOp>(uniform->value.getLoc(), uniform->value,
                                                         std::get<Uniform>(a).value,
                                                         std::get<Uniform>(b).value)};
  if (type.isInteger(1)) {
    Predicate x = toPredicate(a), y = toPredicate(b);
    return uniform ? bounds.choose(uniform->value, x, y)
                   : bounds.choose(toPredicate(condition), x, y);
  }
  Linear x = toLinear(a), y = toLinear(b);
  if (!x.valid || !y.valid)
    return Unknown();
  return bounds.either(x, y, uniform ? uniform->value : Value());
}

Abstract MaskInterpreter::interpretBoolean(Operation *op, ArrayRef<Abstract> operands) {
  return llvm::TypeSwitch<Operation *, Abstract>(op)
      .Case([&](arith::AndIOp) {
        return bounds.conjunction(toPredicate(operands[0]), toPredicate(operands[1]));
      })
      .Case([&](arith::OrIOp) {
        return bounds.disjunction(toPredicate(operands[0]), toPredicate(operands[1]));
      })
      .Case([&](arith::XOrIOp) {
        return bounds.exclusive(toPredicate(operands[0]), toPredicate(operands[1]));
      })
      .Case([&](arith::CmpIOp cmp) -> Abstract {
        Linear a = toLinear(operands[0]), b = toLinear(operands[1]);
        if (!a.valid || !b.valid)
          return Unknown();
        return bounds.compare(cmp.getPredicate(), a, b,
                              cmp.getLhs().getType().getIntOrFloatBitWidth());
      })
      .Default([](Operation *) { return Unknown(); });
}

Abstract MaskInterpreter::interpretInteger(Operation *op, ArrayRef<Abstract> operands) {
  unsigned width = op->getResult(0).getType().getIntOrFloatBitWidth();
  SmallVector<Linear> linear = llvm::map_to_vector(operands, [&](auto &o) { return toLinear(o); });
  if (llvm::any_of(linear, [](const Linear &l) { return !l.valid; }))
    return Unknown();
  auto getConstant = [&](unsigned i) -> std::optional<int64_t> {
    APInt value;
    auto *uniform = std::get_if<Uniform>(&operands[i]);
    if (uniform && matchPattern(uniform->value, m_ConstantInt(&value)))
      return value.getSExtValue();
    return std::nullopt;
  };
  auto mayWrap = [](auto operation) {
    return !bitEnumContainsAny(operation.getOverflowFlags(), arith::IntegerOverflowFlags::nsw);
  };
  auto byUniform = [&](auto rule) {
    auto *divisor = std::get_if<Uniform>(&operands[1]);
    return divisor ? toAbstract(rule(divisor->value)) : Abstract(Unknown());
  };

  return llvm::TypeSwitch<Operation *, Abstract>(op)
      .Case([&](arith::AddIOp add) {
        return toAbstract(bounds.add(linear[0], linear[1], width, mayWrap(add)));
      })
      .Case([&](arith::SubIOp subtract) {
        return toAbstract(bounds.subtract(linear[0], linear[1], width, mayWrap(subtract)));
      })
      .Case([&](arith::MulIOp) -> Abstract {
        if (std::optional<int64_t> factor = getConstant(1))
          return toAbstract(bounds.scale(linear[0], *factor, width));
        if (std::optional<int64_t> factor = getConstant(0))
          return toAbstract(bounds.scale(linear[1], *factor, width));
        return Unknown();
      })
      .Case([&](arith::MaxSIOp) { return toAbstract(bounds.maximum(linear[0], linear[1])); })
      .Case([&](arith::MinSIOp) { return toAbstract(bounds.minimum(linear[0], linear[1])); })
      .Case([&](arith::DivSIOp) {
        return byUniform([&](Value d) { return bounds.divide<arith::DivSIOp>(linear[0], d); });
      })
      .Case([&](arith::FloorDivSIOp) {
        return byUniform([&](Value d) { return bounds.divide<arith::FloorDivSIOp>(linear[0], d); });
      })
      .Case([&](arith::CeilDivSIOp) {
        return byUniform([&](Value d) { return bounds.divide<arith::CeilDivSIOp>(linear[0], d); });
      })
      .Case([&](arith::RemSIOp) {
        return byUniform([&](Value d) { return bounds.remainder(linear[0], d); });
      })
      .Case<arith::ExtSIOp, arith::TruncIOp, CastOp>(
          [&](Operation *) { return toAbstract(bounds.resize(linear[0], width)); })
      .Default([](Operation *) { return Unknown(); });
}

/// An element of an ascending capture is between the elements at the first and the last index.
/// Indices that depend on the blocks' positions are not handled.
Abstract MaskInterpreter::interpretAscending(AtOp at, ArrayRef<Abstract> operands) {
  auto capture = at.getCapture() ? symbols.lookup<CaptureOp>(*at.getCapture()) : CaptureOp();
  if (!capture || !ascendingAttr.isOn(capture) || !at.getType().isInteger(32) ||
      !ShapedType::isDynamic(at.getStaticIndices().back()) ||
      !llvm::all_of(operands.drop_back(), isUniform))
    return Unknown();
  Linear index = toLinear(operands.back());
  if (!index.valid || index.block != 0)
    return Unknown();
  Location loc = at.getLoc();
  Value view = CapturedOp::create(builder, loc, capture.getType(), capture.getSymName());
  auto rank = static_cast<int64_t>(at.getStaticIndices().size());
  Value extent = DimOp::create(builder, loc, builder.getI32Type(), view, rank - 1);
  auto read = [&](Value place) {
    IRMapping mapping;
    for (auto [operand, value] : llvm::zip(at.getIndices().drop_back(), operands.drop_back()))
      mapping.map(operand, std::get<Uniform>(value).value);
    mapping.map(at.getIndices().back(), place);
    return builder.clone(*at, mapping)->getResult(0);
  };
  return toAbstract(bounds.ascending(index, extent, read));
}

/// The number by which a function divides an argument, if it uses nothing but the quotient and the
/// remainder. `levels` bounds the depth of calls.
std::optional<int64_t> getPeriod(func::FuncOp function, int64_t argument, SymbolTable &symbols,
                                 unsigned levels = 8) {
  std::optional<int64_t> period;
  if (function.isDeclaration() || levels-- == 0)
    return std::nullopt;
  for (OpOperand &use : function.getArgument(argument).getUses()) {
    std::optional<int64_t> other;
    APInt divisor;
    if (isa<arith::DivSIOp, arith::RemSIOp>(use.getOwner())) {
      if (use.getOperandNumber() == 0 &&
          matchPattern(use.getOwner()->getOperand(1), m_ConstantInt(&divisor)))
        other = divisor.getSExtValue();
    } else if (auto call = dyn_cast<func::CallOp>(use.getOwner())) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (callee && !callee.isDeclaration() &&
          callee.getArgument(use.getOperandNumber()).use_empty())
        continue;
      other = callee ? getPeriod(callee, use.getOperandNumber(), symbols, levels) : std::nullopt;
    }
    if (!other || *other <= 1 || (period && *period != *other))
      return std::nullopt;
    period = other;
  }
  return period;
}

} // namespace

MaskDerivation::MaskDerivation(func::FuncOp mask, int64_t against, int64_t block, StringRef suffix,
                               TypeRange results, SymbolTable &symbols, IntegerAttr lower)
    : builder(mask->getContext()) {
  Location loc = mask.getLoc();
  SmallVector<Type> inputs(4, builder.getI32Type());
  for (auto [i, type] : llvm::enumerate(mask.getArgumentTypes()))
    if (static_cast<int64_t>(i) != against && static_cast<int64_t>(i) != block)
      inputs.push_back(type);
  function = func::FuncOp::create(builder, loc, (mask.getSymName() + suffix).str(),
                                  builder.getFunctionType(inputs, results));
  function.setPrivate();
  symbols.insert(function, std::next(mask->getIterator()));

  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  Value lowerBound = body->getArgument(2);
  if (lower)
    lowerBound = arith::ConstantOp::create(builder, loc, lower);
  bounds.emplace(builder, loc, body->getArgument(0), body->getArgument(1), lowerBound,
                 body->getArgument(3));
  Abstracts operands;
  unsigned next = 4;
  std::optional<int64_t> period = getPeriod(mask, against, symbols);
  isByRemainder = period.has_value();
  for (int64_t i = 0, e = mask.getNumArguments(); i < e; ++i) {
    if (i == against && period)
      operands.push_back(Row{*period, bounds->numberByRemainder(*period)});
    else if (i == against)
      operands.push_back(bounds->getAgainst());
    else if (i == block)
      operands.push_back(bounds->getBlock());
    else
      operands.push_back(Uniform{body->getArgument(next++)});
  }
  MaskInterpreter interpreter(builder, *bounds, symbols);
  kept = interpreter.toPredicate(interpreter.call(mask, operands).front()).yes;
  obstacles = std::move(interpreter.obstacles);
}

void MaskDerivation::finish(ValueRange results) {
  func::ReturnOp::create(builder, function.getLoc(), results);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}
