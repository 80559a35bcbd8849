// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-combine-sums: lowers tile.accumulate to a loop and, for launches to which a row of the table
// of strategies applies, adds the form in which each instance adds a single term.

#include "base/Target/Target.h"
#include "passes/Passes.h"
#include "passes/Tile/AppendArgument.h"
#include "passes/Tile/StoredSum.h"
#include "passes/Tile/StrategyTable.h"

#include "dialect/Tile/TileExpr.h"
#include "dialect/Tile/TileExprEval.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace tilewright {
#define GEN_PASS_DEF_TILECOMBINESUMS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;
using expr::Function;

namespace {

/// Rows of a sum that an instance makes a result of. They are written once and read once, so that
/// more would only take registers.
constexpr int64_t rowsOfResult = 32;

ExprAttr makeDim(MLIRContext *context, StringRef name, int64_t dim) {
  return ExprAttr::get(context, ExprKind::Dim, dim, name, {});
}

/// Expressions of a kernel in terms of the program that launches it; null if there is no such.
class LaunchNames {
public:
  LaunchNames(KernelOp kernel, LaunchOp launch)
      : kernel(kernel), program(launch->getParentOfType<ProgramOp>()), launch(launch) {}

  ExprAttr get(ExprAttr expr) const {
    if (expr.getKind() == ExprKind::Name)
      return getParam(expr);
    if (expr.getKind() == ExprKind::Dim)
      return getDimOf(expr);
    if (expr.getKind() != ExprKind::Call)
      return expr;
    SmallVector<ExprAttr> operands;
    for (ExprAttr operand : expr.getOperands())
      if (!operands.emplace_back(get(operand)))
        return {};
    return ExprAttr::get(expr.getContext(), ExprKind::Call, expr.getValue(), expr.getName(),
                         operands);
  }

  /// The name of the program's argument that the launch passes.
  StringAttr getArgument(unsigned number) const {
    auto passed = dyn_cast<BlockArgument>(launch.getArgs()[number]);
    return passed ? cast<StringAttr>(program.argNames[passed.getArgNumber()]) : StringAttr();
  }

private:
  ExprAttr getParam(ExprAttr name) const {
    ParamDeclAttr param = kernel.findParam(name.getName());
    if (!param)
      return {};
    if (param.getDerived())
      return get(param.getDefaultValue());
    for (auto [given, value] : llvm::zip(launch.getWithNames().getAsRange<StringAttr>(),
                                         launch.getWithValues().getAsRange<ExprAttr>()))
      if (given.getValue() == name.getName())
        return value;
    if (program.findParam(name.getName()))
      return name;
    return param.getDefaultValue() ? get(param.getDefaultValue()) : ExprAttr();
  }

  ExprAttr getDimOf(ExprAttr dim) const {
    int number = kernel.findArg(dim.getName());
    if (number < 0)
      return dim; // of a capture
    StringAttr argument = getArgument(number);
    return argument ? makeDim(dim.getContext(), argument, dim.getValue()) : ExprAttr();
  }

  Signature kernel, program;
  mutable LaunchOp launch;
};

/// The value of a scalar as an expression over the kernel; null if it has none. A divisor is an
/// extent, so it counts as at least 1.
ExprAttr toExpr(Value value, KernelOp kernel) {
  MLIRContext *context = value.getContext();
  Operation *op = value.getDefiningOp();
  if (auto param = dyn_cast_or_null<ParamOp>(op))
    return param.getExpr();
  if (auto dim = dyn_cast_or_null<DimOp>(op)) {
    auto view = dyn_cast<BlockArgument>(dim.getView());
    if (!view || view.getOwner() != &kernel.getBody().front())
      return {};
    auto name = cast<StringAttr>(kernel.getArgNames()[view.getArgNumber()]);
    return makeDim(context, name, static_cast<int64_t>(dim.getDim()));
  }
  IntegerAttr number;
  if (op && matchPattern(value, m_Constant(&number)))
    return ExprAttr::getInt(context, number.getInt());
  bool isProduct = isa_and_present<arith::MulIOp>(op);
  if (!isProduct && !isa_and_present<arith::DivSIOp, arith::CeilDivSIOp>(op))
    return {};
  ExprAttr a = toExpr(op->getOperand(0), kernel), b = toExpr(op->getOperand(1), kernel);
  if (!a || !b)
    return {};
  if (isProduct)
    return makeCall(context, Function::Mul, {a, b});
  ExprAttr divisor = makeCall(context, Function::Max, {b, ExprAttr::getInt(context, 1)});
  return makeCall(context, isa<arith::DivSIOp>(op) ? Function::FloorDiv : Function::CeilDiv,
                  {a, divisor});
}

/// Makes the form in which the instances of one launch add terms apart.
class Divider {
public:
  Divider(AccumulateOp op, LaunchOp launch, SymbolTable &symbols, const ApartRow &row,
          int64_t multiprocessors, bool isForced)
      : op(op), kernel(op->getParentOfType<KernelOp>()), launch(launch),
        program(launch->getParentOfType<ProgramOp>()), names(kernel, launch), symbols(symbols),
        context(op.getContext()), row(row), multiprocessors(multiprocessors), isForced(isForced) {}

  /// The reason why there is no such form; empty if it was made, or the launch must not have it.
  std::string run() {
    ExprAttr always = ExprAttr::getFlag(context, true);
    ExprAttr allowed = names.get(op.getApartConditionAttr() ? op.getApartConditionAttr() : always);
    terms = toExpr(op.getCount(), kernel);
    if (!allowed || !terms || !(terms = names.get(terms)))
      return "the number of terms, or 'apart when', is no expression over the program";
    if (isFalse(allowed))
      return "";
    for (auto [i, result] : llvm::enumerate(op.getResults())) {
      std::string reason;
      std::optional<StoredSum> sum = StoredSum::get(kernel, result, reason);
      if (!sum)
        return reason;
      if (!names.getArgument(sum->getArgument()))
        return "sums are stored to an array that is not an argument of the program";
      auto element = dyn_cast<ParamType>(sum->getElementType());
      if (element && !Signature(program).findParam(element.getName()))
        return ("the program has no parameter '" + element.getName() + "', the type of sums").str();
      sums.push_back(std::move(*sum));
      for (ExprAttr &branch : sums.back().conditions)
        if (!(branch = names.get(branch)))
          return "a condition of its store is no expression over the program";
    }
    for (Operation *user : op.getId().getUsers())
      if (user->getBlock() == op->getBlock() && op.getCount().getDefiningOp() &&
          user->isBeforeInBlock(op.getCount().getDefiningOp()))
        return "the number behind 'of' is used before the number of terms is known";
    if (!findConditions(allowed))
      return "the grid, or a row of a result, is no expression over the program";
    write();
    return "";
  }

private:
  static bool isFalse(ExprAttr condition) {
    ExprEnvironment environment;
    environment.name = [](StringRef) { return ExprAttr(); };
    llvm::Expected<ExprAttr> flag = reduceExpr(condition, environment);
    bool result = flag && flag->getKind() == ExprKind::Flag && !flag->getValue();
    llvm::consumeError(flag.takeError());
    return result;
  }

  ExprAttr call(Function function, ArrayRef<ExprAttr> operands) const {
    return makeCall(context, function, operands);
  }
  ExprAttr both(ExprAttr a, ExprAttr b) const { return a ? call(Function::And, {a, b}) : b; }

  /// Whether terms may be added apart, and when that is faster, as expressions over the program.
  bool findConditions(ExprAttr allowed) {
    ExprAttr instances;
    for (auto extent : kernel.getGrid().getAsRange<ExprAttr>()) {
      ExprAttr own = names.get(extent);
      if (!own)
        return false;
      instances = instances ? call(Function::Mul, {instances, own}) : own;
    }
    ExprAttr fits;
    for (const StoredSum &sum : sums) {
      auto element = dyn_cast<ParamType>(getElementType(sum.view.getType()));
      ExprAttr type =
          element ? names.get(ExprAttr::getName(context, element.getName()))
                  : ExprAttr::getType(context, getTypeSpelling(getElementType(sum.view.getType())));
      ExprAttr width = getExtent(getDims(sum.view.getType()).back());
      if (!type || !width)
        return false;
      ExprAttr bits = call(Function::Bits, {type});
      fits =
          fits ? call(Function::And, {fits, isAtMost(bits, row.bits)}) : isAtMost(bits, row.bits);
      fits = both(fits, isAtMost(call(Function::Mul, {width, bits}), 8 * row.bytes));
    }
    ExprAttr isEven = op.getEvenConditionAttr() ? names.get(op.getEvenConditionAttr())
                                                : ExprAttr::getFlag(context, false);
    if (!isEven)
      return false;
    possible = isForced ? allowed : both(allowed, fits);
    faster = isForced ? call(Function::Greater, {terms, ExprAttr::getInt(context, 1)})
                      : getApartCondition(row, multiprocessors, instances, terms, isEven);
    return true;
  }

  ExprAttr isAtMost(ExprAttr value, int64_t most) {
    return call(Function::LessEqual, {value, ExprAttr::getInt(context, most)});
  }

  /// Of a view's dimension, over the program; null if it is `?`.
  ExprAttr getExtent(Dim dim) {
    if (dim.isSymbol())
      return names.get(ExprAttr::getName(context, dim.symbol));
    return dim.isUnknown() ? ExprAttr() : ExprAttr::getInt(context, dim.extent);
  }

  void write() {
    // What is known when parameters are bound precedes what each launch decides.
    ExprAttr given = launch.getConditionAttr();
    ExprAttr condition = both(possible, given ? both(given, faster) : faster);
    ExprAttr whole = call(Function::Not, {faster}), always = ExprAttr::getFlag(context, true);
    launch.setConditionAttr(call(
        Function::Select, {possible, given ? both(given, whole) : whole, given ? given : always}));
    OpBuilder b(launch);
    // As many elements as the results; none in launches that do not use them.
    SmallVector<Value> arrays;
    for (const StoredSum &sum : sums) {
      StringAttr name = names.getArgument(sum.getArgument());
      auto type = cast<ViewType>(launch.getArgs()[sum.getArgument()].getType());
      SmallVector<Attribute> extents;
      for (auto [i, dim] : llvm::enumerate(getDims(sum.view.getType()))) {
        ExprAttr extent = getExtent(dim);
        if (!extent)
          extent = makeDim(context, name, static_cast<int64_t>(i));
        ExprAttr zero = ExprAttr::getInt(context, 0);
        extents.push_back(i ? extent : call(Function::Select, {condition, extent, zero}));
      }
      b.setInsertionPoint(*program.getBody().getOps<LaunchOp>().begin());
      arrays.push_back(WorkspaceOp::create(
          b, op.getLoc(),
          ViewType::get(context, type.getShape(), type.getSymbols(), sum.getElementType()),
          b.getArrayAttr(extents), b.getF64FloatAttr(0)));
    }
    KernelOp apart = writeKernel();
    b.setInsertionPointAfter(launch);
    SmallVector<Value> passed(launch.getArgs());
    passed.append(arrays);
    LaunchOp::create(b, launch.getLoc(), apart.getSymName(), passed, launch.getWithNames(),
                     launch.getWithValues(), condition);
    for (auto [sum, array] : llvm::zip(sums, arrays)) {
      ExprAttr when = condition;
      for (ExprAttr branch : sum.conditions)
        when = both(branch, when);
      SmallVector<Value> arguments{array};
      for (unsigned number : sum.arguments)
        arguments.push_back(launch.getArgs()[number]);
      KernelOp result = writeResult(sum);
      SmallVector<Attribute> withNames, withValues;
      Dim rows = getDims(sum.result.getType()).front();
      for (auto [name, value] : llvm::zip(launch.getWithNames(), launch.getWithValues()))
        if (name != rows.symbol) {
          withNames.push_back(name);
          withValues.push_back(value);
        }
      if (rows.isSymbol()) {
        withNames.push_back(rows.symbol);
        withValues.push_back(ExprAttr::getInt(context, rowsOfResult));
      }
      LaunchOp::create(b, launch.getLoc(), result.getSymName(), arguments,
                       b.getArrayAttr(withNames), b.getArrayAttr(withValues), when);
    }
  }

  /// The extent of the grid along the number of terms: a constraint of the program may state the
  /// product.
  ExprAttr getProduct(ExprAttr extent) {
    ExprAttr count = toExpr(op.getCount(), kernel);
    for (auto constraint : program.getConstraints().getAsRange<ExprAttr>()) {
      if (constraint.getKind() != ExprKind::Call || getFunction(constraint) != Function::Equal)
        continue;
      ExprAttr product = constraint.getOperands()[0], value = constraint.getOperands()[1];
      ExprAttr a = names.get(extent);
      if (value.getKind() != ExprKind::Dim || (product != call(Function::Mul, {a, terms}) &&
                                               product != call(Function::Mul, {terms, a})))
        continue;
      for (unsigned i = 0; i < kernel.getNumArgs(); ++i)
        if (StringAttr name = names.getArgument(i); name && name == value.getName())
          return makeDim(context, cast<StringAttr>(kernel.getArgNames()[i]), value.getValue());
    }
    return call(Function::Mul, {extent, count});
  }

  KernelOp writeKernel() {
    IRMapping map;
    auto apart = cast<KernelOp>(kernel->clone(map));
    apart.setSymName((kernel.getSymName() + "_apart").str());
    symbols.insert(apart);
    auto own = cast<AccumulateOp>(map.lookup(op.getOperation()));
    auto id = cast<BlockArgument>(own.getId());
    unsigned numGiven = apart.getNumArgs();
    SmallVector<Attribute> grid(apart.getGrid().getValue());
    Attribute &extent = grid[id.getArgNumber() - numGiven];
    extent = getProduct(cast<ExprAttr>(extent));
    apart.setGridAttr(ArrayAttr::get(context, grid));

    // The number in the grid is now that of a term.
    OpBuilder b(context);
    if (Operation *count = own.getCount().getDefiningOp())
      b.setInsertionPointAfter(count);
    else
      b.setInsertionPointToStart(&apart.getBody().front());
    Value number = arith::DivSIOp::create(b, own.getLoc(), id, own.getCount());
    id.replaceAllUsesExcept(number, number.getDefiningOp());

    for (const StoredSum &sum : sums) {
      auto view = cast<BlockArgument>(map.lookup(sum.view));
      auto type = cast<ViewType>(view.getType());
      Value array = appendArgument(
          apart, getFreeName(apart, sum.getName(kernel)),
          ViewType::get(context, type.getShape(), type.getSymbols(), sum.getElementType()),
          /*isOptional=*/false, own.getLoc());
      sum.addInstead(map, array);
    }
    Block &body = own.getBody().front();
    Operation *yield = body.getTerminator();
    SmallVector<Value> yielded(yield->getOperands());
    yield->erase();
    SmallVector<Value> values{id};
    values.append(own.getInitArgs().begin(), own.getInitArgs().end());
    SmallVector<Value> results;
    for (Value term : yielded) { // a sum that the body does not change is what it begins with
      auto argument = dyn_cast<BlockArgument>(term);
      bool isOwn = argument && argument.getOwner() == &body;
      results.push_back(isOwn ? values[argument.getArgNumber()] : term);
    }
    // The body becomes a part of that of the kernel.
    for (auto [argument, value] : llvm::zip(body.getArguments(), values))
      argument.replaceAllUsesWith(value);
    own->getBlock()->getOperations().splice(own->getIterator(), body.getOperations());
    own->replaceAllUsesWith(results);
    own->erase();
    return apart;
  }

  static std::string getFreeName(KernelOp kernel, std::string name) {
    Signature signature(kernel);
    auto isTaken = [&] {
      return signature.findParam(name) || signature.findArg(name) >= 0 ||
             llvm::is_contained(kernel.getGridNames(), StringAttr::get(kernel.getContext(), name));
    };
    while (isTaken())
      name += "_";
    return name;
  }

  /// A kernel that makes the result of the complete sum.
  KernelOp writeResult(const StoredSum &sum) {
    OpBuilder b(context);
    Location loc = op.getLoc();
    auto viewType = cast<ViewType>(sum.view.getType());
    int64_t rank = viewType.getRank();
    std::string name = (kernel.getSymName() + "_of_" + sum.getName(kernel)).str();
    SmallVector<Attribute> argNames, gridNames, grid;
    SmallVector<Type> types{
        ViewType::get(context, viewType.getShape(), viewType.getSymbols(), sum.getElementType())};
    argNames.push_back(b.getStringAttr(getFreeName(kernel, sum.getName(kernel))));
    for (unsigned number : sum.arguments) {
      argNames.push_back(kernel.getArgNames()[number]);
      types.push_back(kernel.getArgs()[number].getType());
    }
    auto viewName = cast<StringAttr>(kernel.getArgNames()[sum.getArgument()]);
    Dim rows = getDims(sum.result.getType()).front();
    ExprAttr block = rows.isSymbol() ? ExprAttr::getName(context, rows.symbol)
                                     : ExprAttr::getInt(context, rows.extent);
    grid.push_back(call(Function::CeilDiv, {makeDim(context, viewName, rank - 2), block}));
    for (int64_t dim = rank - 3; dim >= 0; --dim)
      grid.push_back(makeDim(context, viewName, dim));
    for (size_t i = 0; i < grid.size(); ++i)
      gridNames.push_back(b.getStringAttr(
          getFreeName(kernel, i ? ("index" + Twine(rank - 2 - i)).str() : "block_of_rows")));
    SmallVector<bool> optional(argNames.size(), false);
    auto result = KernelOp::create(
        b, loc, b.getStringAttr(name), kernel.getParams(), b.getArrayAttr({}),
        b.getArrayAttr(argNames), b.getDenseBoolArrayAttr(optional), b.getArrayAttr(gridNames),
        b.getArrayAttr(grid), DictionaryAttr(), DictionaryAttr(), DictionaryAttr());
    symbols.insert(result);
    Block &body = result.getBody().emplaceBlock();
    for (Type type : types)
      body.addArgument(type, loc);
    for (size_t i = 0; i < grid.size(); ++i)
      body.addArgument(b.getI32Type(), loc);
    b.setInsertionPointToStart(&body);
    Value extent = ParamOp::create(b, loc, b.getI32Type(), block); // or a number
    SmallVector<Value> indices(llvm::reverse(result.getGridIds().drop_front()));
    indices.push_back(arith::MulIOp::create(b, loc, result.getGridIds().front(), extent));
    SmallVector<int64_t> places(indices.size(), ShapedType::kDynamic);
    places.push_back(0);
    IRMapping map;
    for (auto [i, number] : llvm::enumerate(sum.arguments))
      map.map(kernel.getArgs()[number], result.getArgs()[i + 1]);
    map.map(sum.result, LoadOp::create(b, loc, sum.result.getType(), result.getArgs()[0], indices,
                                       places, DenseI64ArrayAttr(), Value())
                            .getResult());
    for (Operation *each : sum.epilogue)
      b.clone(*each, map);
    StoreOp::create(b, loc, map.lookup(StoreOp(sum.store).getValue()), map.lookup(sum.view),
                    indices, places, DenseI64ArrayAttr());
    return result;
  }

  AccumulateOp op;
  KernelOp kernel;
  LaunchOp launch;
  ProgramOp program;
  LaunchNames names;
  SymbolTable &symbols;
  MLIRContext *context;
  const ApartRow &row;
  int64_t multiprocessors;
  bool isForced;
  ExprAttr terms;            ///< of a sum, over the program
  ExprAttr possible, faster; ///< conditions over the program
  SmallVector<StoredSum, 2> sums;
};

void lowerToLoop(AccumulateOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  // Beside the number of terms, as a scalar that does not change.
  if (Operation *count = op.getCount().getDefiningOp())
    b.setInsertionPointAfter(count);
  Value first = arith::MulIOp::create(b, loc, op.getId(), op.getCount());
  b.setInsertionPoint(op);
  Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
  Value one = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(1));
  auto loop = scf::ForOp::create(b, loc, zero, op.getCount(), one, op.getInitArgs());
  if (op.getNumResults() == 0 && !loop.getBody()->empty())
    loop.getBody()->back().erase();
  b.setInsertionPointToStart(loop.getBody());
  Value number = arith::AddIOp::create(b, loc, first, loop.getInductionVar());
  Block &body = op.getBody().front();
  SmallVector<Value> values{number};
  values.append(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  for (auto [argument, value] : llvm::zip(body.getArguments(), values))
    argument.replaceAllUsesWith(value);
  Operation *yield = body.getTerminator();
  b.setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> results(yield->getOperands());
  yield->erase();
  loop.getBody()->getOperations().splice(loop.getBody()->end(), body.getOperations());
  b.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(b, loc, results);
  op.replaceAllUsesWith(loop.getResults());
  op.erase();
}

struct TileCombineSumsPass : tilewright::impl::TileCombineSumsBase<TileCombineSumsPass> {
  using TileCombineSumsBase::TileCombineSumsBase;

  void runOnOperation() override {
    if (sums != "auto" && sums != "whole" && sums != "apart") {
      emitError(getOperation().getLoc())
          << "the strategy of sums must be auto, whole or apart, but got '" << sums << "'";
      return signalPassFailure();
    }
    SmallVector<AccumulateOp> ops;
    getOperation().walk([&](AccumulateOp op) { ops.push_back(op); });
    for (AccumulateOp op : ops)
      if (failed(checkSums(op)))
        return signalPassFailure();
    const ApartRow *row = sums == "whole" ? nullptr : findApartRow(target.getValue());
    if (row)
      divide(ops, *row);
    for (AccumulateOp op : ops)
      lowerToLoop(op);
  }

private:
  void divide(ArrayRef<AccumulateOp> ops, const ApartRow &row) {
    SymbolTable symbols(getOperation());
    // tile-to-tgpu rejects unknown targets.
    const Target *chip = Target::find(target.getValue());
    int64_t multiprocessors = chip ? chip->multiprocessors : Target::getMostMultiprocessors();
    SmallVector<LaunchOp> launches;
    getOperation().walk([&](LaunchOp launch) { launches.push_back(launch); });
    for (AccumulateOp op : ops) {
      auto name = op->getParentOfType<KernelOp>().getSymName();
      for (LaunchOp launch : launches) {
        if (launch.getKernel() != name)
          continue;
        std::string reason =
            Divider(op, launch, symbols, row, multiprocessors, sums == "apart").run();
        if (!reason.empty())
          op.emitRemark("has no form that adds terms apart: ") << reason;
      }
    }
  }
};

} // namespace
