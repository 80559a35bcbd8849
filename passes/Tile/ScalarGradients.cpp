// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse mode on straight-line code: the function is cloned with calls inlined, and the adjoints
// follow its operations in reverse. Canonicalization removes unused operations.

#include "passes/Tile/ScalarGradients.h"

#include "dialect/Tile/Calls.h"
#include "passes/Tile/Derivatives.h"
#include "passes/Tile/InlineCalls.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <string>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// A clone of a function without calls and without a return.
struct Copy {
  func::FuncOp function;
  Value result;
  SmallVector<AtOp> reads; ///< reads of floats from captures
};

bool isFloatRead(Operation *op) {
  auto at = dyn_cast<AtOp>(op);
  return at && at.getCaptureAttr() && isa<FloatType>(at.getType());
}

Copy copyFlat(func::FuncOp source, const Twine &name, TypeRange extraInputs, SymbolTable &symbols) {
  OpBuilder b(source->getContext());
  SmallVector<Type> inputs(source.getArgumentTypes());
  llvm::append_range(inputs, extraInputs);
  Copy copy;
  copy.function = func::FuncOp::create(b, source.getLoc(), name.str(),
                                       b.getFunctionType(inputs, source.getResultTypes()));
  copy.function.setPrivate();
  symbols.insert(copy.function, std::next(source->getIterator()));
  Block *body = copy.function.addEntryBlock();
  b.setInsertionPointToStart(body);
  IRMapping map;
  map.map(source.getArguments(), body->getArguments().take_front(source.getNumArguments()));
  for (Operation &op : source.getBody().front())
    b.clone(op, map);
  inlineCalls(copy.function, symbols);
  Operation *end = body->getTerminator();
  copy.result = end->getOperand(0);
  end->erase();
  for (Operation &op : *body)
    if (isFloatRead(&op))
      copy.reads.push_back(cast<AtOp>(op));
  return copy;
}

/// Adds a return to the function and removes operations that the result does not depend on.
void finish(func::FuncOp function, Value result) {
  Block &body = function.getBody().front();
  OpBuilder b = OpBuilder::atBlockEnd(&body);
  func::ReturnOp::create(b, function.getLoc(), result);
  function.setFunctionType(b.getFunctionType(function.getArgumentTypes(), result.getType()));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

//===----------------------------------------------------------------------===//
// Reverse mode
//===----------------------------------------------------------------------===//

/// Whether the operation, or a nested one, uses one of the values.
bool usesAny(Operation &op, const DenseSet<Value> &values) {
  return op
      .walk([&](Operation *inner) {
        bool uses =
            llvm::any_of(inner->getOperands(), [&](Value value) { return values.contains(value); });
        return uses ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

class Backward {
public:
  Backward(Copy &copy, Value target, std::string what, Operation *user)
      : copy(copy), body(copy.function.getBody().front()), target(target), what(std::move(what)),
        user(user), b(OpBuilder::atBlockEnd(&body)) {
    findUniform();
  }

  /// The adjoint of the target; null if the result does not depend on it.
  FailureOr<Value> run(Value seed);

private:
  void findUniform();
  void findDependent();
  void findNeeded();
  bool isOnPath(Operation &op) const {
    return llvm::any_of(op.getResults(), [&](Value result) {
      return dependent.contains(result) && needed.contains(result);
    });
  }
  bool isUniform(Value value) const { return uniform.contains(value); }
  LogicalResult reject(Operation &op);

  /// A value times a uniform factor (null: 1), kept separate while products may be reassociated, so
  /// that the factors of a chain combine.
  struct Adjoint {
    Value value, factor;
  };
  Value materialize(const Adjoint &adjoint);
  void add(Value operand, Adjoint contribution);
  bool deferFactor(Operation *op, const Adjoint &adjoint);

  Copy &copy;
  Block &body;
  Value target;
  std::string what;
  Operation *user;
  OpBuilder b;
  DenseSet<Value> uniform;   ///< the same for all elements
  DenseSet<Value> dependent; ///< depend differentiably on the target
  DenseSet<Value> needed;    ///< for the result
  DenseMap<Value, Adjoint> adjoints;
};

void Backward::findUniform() {
  for (Operation &op : body)
    if (op.getNumRegions() == 0 &&
        llvm::all_of(op.getOperands(), [&](Value operand) { return isUniform(operand); }))
      uniform.insert(op.result_begin(), op.result_end());
}

void Backward::findDependent() {
  dependent.insert(target);
  for (Operation &op : body)
    if (!hasZeroDerivative(&op) && usesAny(op, dependent))
      dependent.insert(op.result_begin(), op.result_end());
}

void Backward::findNeeded() {
  needed.insert(copy.result);
  for (Operation &op : llvm::reverse(body)) {
    if (llvm::none_of(op.getResults(), [&](Value result) { return needed.contains(result); }))
      continue;
    op.walk([&](Operation *inner) { needed.insert(inner->operand_begin(), inner->operand_end()); });
  }
}

LogicalResult Backward::reject(Operation &op) {
  InFlightDiagnostic error =
      op.emitError() << "'" << op.getName() << "' has no derivative, but " << what
                     << " passes through it; "
                     << (op.getNumRegions() ? "choose between values with arith.select"
                                            : "use operations of arith and math that have one");
  error.attachNote(user->getLoc()) << "differentiated here";
  return error;
}

Value Backward::materialize(const Adjoint &adjoint) {
  if (!adjoint.factor)
    return adjoint.value;
  return arith::MulFOp::create(b, adjoint.value.getLoc(), adjoint.value, adjoint.factor,
                               arith::FastMathFlags::reassoc);
}

void Backward::add(Value operand, Adjoint contribution) {
  Value &factor = contribution.factor;
  if (factor)
    factor = convertFloat(b, factor.getLoc(), factor, contribution.value.getType());
  auto [known, isNew] = adjoints.try_emplace(operand, contribution);
  if (isNew)
    return;
  Adjoint sum = known->second;
  if (sum.factor != factor) {
    sum = {materialize(sum), Value()};
    contribution = {materialize(contribution), Value()};
  }
  sum.value = arith::AddFOp::create(b, operand.getLoc(), sum.value, contribution.value);
  adjoints[operand] = sum;
}

/// The rule for a product with a uniform factor, if the product may be reassociated.
bool Backward::deferFactor(Operation *op, const Adjoint &adjoint) {
  auto product = dyn_cast<arith::MulFOp>(op);
  if (!product || !bitEnumContainsAll(product.getFastmath(), arith::FastMathFlags::reassoc))
    return false;
  for (unsigned i : {0u, 1u}) {
    Value other = op->getOperand(1 - i);
    if (dependent.contains(other) || !isUniform(other))
      continue;
    Value factor = convertFloat(b, op->getLoc(), other, adjoint.value.getType());
    if (adjoint.factor)
      factor = arith::MulFOp::create(b, op->getLoc(), adjoint.factor, factor,
                                     arith::FastMathFlags::reassoc);
    add(op->getOperand(i), {adjoint.value, factor});
    return true;
  }
  return false;
}

FailureOr<Value> Backward::run(Value seed) {
  findDependent();
  findNeeded();
  if (!dependent.contains(copy.result))
    return Value();
  // Conversions to integers have no derivative: reject them before their users.
  for (Operation &op : body)
    if (isOnPath(op) && (op.getNumResults() != 1 || !isa<FloatType>(op.getResult(0).getType())))
      return reject(op);

  SmallVector<Operation *> path;
  for (Operation &op : body)
    if (isOnPath(op) && op.getResult(0) != target)
      path.push_back(&op);
  add(copy.result,
      {convertFloat(b, seed.getLoc(), seed, getAdjointType(copy.result.getType())), Value()});
  for (Operation *op : llvm::reverse(path)) {
    Adjoint adjoint = adjoints.lookup(op->getResult(0));
    if (!adjoint.value || deferFactor(op, adjoint))
      continue;
    auto isWanted = [&](unsigned i) { return dependent.contains(op->getOperand(i)); };
    auto give = [&](unsigned i, Value value) { add(op->getOperand(i), {value, adjoint.factor}); };
    auto isSame = [&](Value value) { return isUniform(value); };
    if (failed(emitAdjoints(b, {op, adjoint.value, isWanted, isSame, give})))
      return reject(*op);
  }
  Adjoint result = adjoints.lookup(target);
  return result.value ? materialize(result) : Value();
}

/// The derivative, after the function has been completed with the adjoint.
Derivative conclude(Copy &copy, Value adjoint, Value seed, SymbolTable &symbols) {
  Derivative derivative;
  // Ignore conversions of the seed, which are made at its use.
  Value source = adjoint;
  while (source && isa_and_present<CastOp, arith::ExtFOp, arith::TruncFOp>(source.getDefiningOp()))
    source = source.getDefiningOp()->getOperand(0);
  if (adjoint && source != seed) {
    finish(copy.function, adjoint);
    derivative.kind = Derivative::Kind::Computed;
    derivative.function = copy.function;
    return derivative;
  }
  derivative.kind = adjoint ? Derivative::Kind::Seed : Derivative::Kind::Zero;
  symbols.erase(copy.function);
  return derivative;
}

} // namespace

//===----------------------------------------------------------------------===//
// ScalarGradients
//===----------------------------------------------------------------------===//

FailureOr<Derivative> ScalarGradients::ofOperand(func::FuncOp function, unsigned operand,
                                                 Operation *user) {
  auto [known, isNew] = byOperand.try_emplace({function.getOperation(), operand});
  if (!isNew)
    return known->second;
  std::string name = (function.getSymName() + "_gradient_" + Twine(operand)).str();
  Copy copy = copyFlat(function, name, function.getResultTypes(), symbols);
  Value seed = copy.function.getArguments().back();
  Value target = copy.function.getArgument(operand);
  std::string what =
      ("the gradient of @" + function.getSymName() + " with respect to operand " + Twine(operand))
          .str();
  FailureOr<Value> adjoint = Backward(copy, target, what, user).run(seed);
  if (failed(adjoint)) {
    symbols.erase(copy.function);
    return failure();
  }
  if (*adjoint) {
    OpBuilder b = OpBuilder::atBlockEnd(&copy.function.getBody().front());
    *adjoint = convertFloat(b, user->getLoc(), *adjoint, target.getType());
  }
  return known->second = conclude(copy, *adjoint, seed, symbols);
}

FailureOr<SmallVector<CaptureRead>> ScalarGradients::ofCaptures(func::FuncOp function,
                                                                Operation *user) {
  auto [known, isNew] = byFunction.try_emplace(function);
  if (!isNew)
    return known->second;
  SmallVector<CaptureRead> reads;
  for (unsigned i = 0;; ++i) {
    std::string name = (function.getSymName() + "_gradient_of_read_" + Twine(i)).str();
    Copy copy = copyFlat(function, name, function.getResultTypes(), symbols);
    if (i == 0) {
      Operation *hidden = nullptr;
      copy.function.walk([&](Operation *op) {
        if (!hidden && isFloatRead(op) && op->getParentOp() != copy.function)
          hidden = op;
      });
      if (hidden) {
        hidden->emitError("a captured float whose gradient is requested must be read outside of "
                          "regions; read it before and choose with arith.select")
                .attachNote(user->getLoc())
            << "differentiated here";
        symbols.erase(copy.function);
        return failure();
      }
      // Each read is differentiated in its own clone of the function.
      uint64_t size = llvm::range_size(copy.function.getOps());
      if (size * copy.reads.size() > kMostOperations) {
        function.emitError("gradients of captures must take at most ")
                .append(kMostOperations, " operations for one function, but @",
                        function.getSymName(), " reads captured floats in ", copy.reads.size(),
                        " places and has ", size, " operations; read each float in one place")
                .attachNote(user->getLoc())
            << "differentiated here";
        symbols.erase(copy.function);
        return failure();
      }
    }
    if (i == copy.reads.size()) {
      symbols.erase(copy.function);
      break;
    }
    AtOp read = copy.reads[i];
    auto capture = symbols.lookup<CaptureOp>(*read.getCapture());
    unsigned rank = read.getStaticIndices().size();
    Value seed = copy.function.getArguments().back();
    std::string what = ("the gradient of capture @" + capture.getSymName()).str();
    FailureOr<Value> adjoint = Backward(copy, read.getResult(), what, user).run(seed);
    if (failed(adjoint)) {
      symbols.erase(copy.function);
      return failure();
    }
    Derivative derivative = conclude(copy, *adjoint, seed, symbols);
    if (derivative.kind == Derivative::Kind::Zero)
      continue;
    CaptureRead entry{capture, derivative, {}};
    for (unsigned dim = 0; dim < rank; ++dim)
      entry.indices.push_back(getIndex(function, i, dim));
    reads.push_back(std::move(entry));
  }
  byFunction[function] = reads;
  return reads;
}

ReadIndex ScalarGradients::getIndex(func::FuncOp function, unsigned read, unsigned dim) {
  std::string name =
      (function.getSymName() + "_index_" + Twine(dim) + "_of_read_" + Twine(read)).str();
  Copy copy = copyFlat(function, name, {}, symbols);
  AtOp at = copy.reads[read];
  ReadIndex index;
  int64_t known = at.getStaticIndices()[dim];
  Value value;
  if (ShapedType::isDynamic(known)) {
    unsigned position =
        llvm::count_if(at.getStaticIndices().take_front(dim), ShapedType::isDynamic);
    value = at.getIndices()[position];
  } else {
    index.constant = known;
  }
  if (auto argument = dyn_cast_or_null<BlockArgument>(value))
    index.operands.push_back(argument.getArgNumber());
  if (!value || isa<BlockArgument>(value)) {
    symbols.erase(copy.function);
    return index;
  }
  finish(copy.function, value);
  llvm::BitVector unused(copy.function.getNumArguments());
  for (BlockArgument argument : copy.function.getArguments()) {
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
    else
      index.operands.push_back(argument.getArgNumber());
  }
  (void)copy.function.eraseArguments(unused);
  index.function = copy.function;
  return index;
}
