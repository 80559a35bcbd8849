// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a copy of the kernel that adds to arrays, the arrays, and kernels that make results of
// them.

#include "passes/Tile/DivideSum.h"
#include "dialect/Tile/Origin.h"

#include "passes/Tile/AppendArgument.h"
#include "passes/Tile/BindParameters.h"
#include "passes/Tile/LaunchNames.h"
#include "passes/Tile/StoredSum.h"

#include "dialect/Tile/TileExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Support/DebugStringHelper.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;
using expr::Function;

namespace {

/// Rows of a sum that an instance makes a result of. They are written once and read once, so that
/// more would only take registers.
constexpr int64_t rowsOfResult = 32;

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
    if (!allowed)
      return "'apart when' must be an expression over the program, but got " +
             debugString(op.getApartConditionAttr());
    if (!terms || !(terms = names.get(terms)))
      return "the number of terms must be an expression over the program, but got " +
             describeOrigin(op.getCount());
    if (isFalse(allowed))
      return "";
    for (auto [i, result] : llvm::enumerate(op.getResults())) {
      std::string reason;
      std::optional<StoredSum> sum = StoredSum::get(kernel, result, reason);
      if (!sum)
        return reason;
      if (auto element = dyn_cast<ParamType>(sum->getElementType());
          element && !names.isSameInProgram(element.getName()))
        return ("the program has no parameter '" + element.getName() +
                "' with the value of the kernel's, the type of sums; declare it in the "
                "program")
            .str();
      sums.push_back(std::move(*sum));
      for (ExprAttr &branch : sums.back().conditions)
        if (ExprAttr named = names.get(branch))
          branch = named;
        else
          return "the conditions of its store must be expressions over the program, but got " +
                 debugString(branch);
    }
    if (Operation *count = op.getCount().getDefiningOp())
      for (Operation *user : op.getId().getUsers())
        if (op->getBlock()->findAncestorOpInBlock(*user)->isBeforeInBlock(count))
          return "the number after 'of' must be used where the number of terms is known, but got "
                 "'" +
                 user->getName().getStringRef().str() + "' before it";
    if (std::string missing = findConditions(allowed); !missing.empty())
      return "the grid, rows of results and 'even when' must be expressions over the program, but "
             "got "
             "none for " +
             missing;
    write();
    return "";
  }

private:
  ExprAttr call(Function function, ArrayRef<ExprAttr> operands) const {
    return makeCall(context, function, operands);
  }

  /// Whether terms may be added apart, and when that is faster, as expressions over the program.
  /// Returns what is no such expression.
  std::string findConditions(ExprAttr allowed) {
    ExprAttr instances = names.getInstances();
    if (!instances)
      return "the grid";
    ExprAttr fits;
    for (const StoredSum &sum : sums) {
      ExprAttr bits = names.getBits(sum.view.getType());
      ExprAttr width = names.getExtent(getDims(sum.view.getType()).back());
      if (!bits || !width)
        return "rows of " + debugString(sum.view.getType());
      fits = both(fits, isAtMost(bits, row.bits));
      fits = both(fits, isAtMost(call(Function::Mul, {width, bits}), 8 * row.bytes));
    }
    ExprAttr isEven = op.getEvenConditionAttr() ? names.get(op.getEvenConditionAttr())
                                                : ExprAttr::getFlag(context, false);
    if (!isEven)
      return "'even when'";
    possible = isForced ? allowed : both(allowed, fits);
    faster = isForced ? call(Function::Greater, {terms, ExprAttr::getInt(context, 1)})
                      : getApartCondition(row, multiprocessors, instances, terms, isEven);
    return "";
  }

  ExprAttr isAtMost(ExprAttr value, int64_t most) {
    return call(Function::LessEqual, {value, ExprAttr::getInt(context, most)});
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
      auto name = cast<StringAttr>(kernel.getArgNames()[sum.getArgument()]);
      auto type = cast<ViewType>(launch.getArgs()[sum.getArgument()].getType());
      SmallVector<Attribute> extents;
      for (auto [i, dim] : llvm::enumerate(getDims(sum.view.getType()))) {
        ExprAttr extent = names.getExtent(dim);
        if (!extent)
          extent = names.get(makeDim(context, name, static_cast<int64_t>(i)));
        ExprAttr zero = ExprAttr::getInt(context, 0);
        extents.push_back(i ? extent : call(Function::Select, {condition, extent, zero}));
      }
      b.setInsertionPoint(*program.getBody().getOps<LaunchOp>().begin());
      Attribute zero = b.getF64FloatAttr(0);
      if (isa<IntegerType>(sum.getElementType()))
        zero = b.getI64IntegerAttr(0);
      arrays.push_back(WorkspaceOp::create(
          b, op.getLoc(),
          ViewType::get(context, type.getShape(), type.getSymbols(), sum.getElementType()),
          b.getArrayAttr(extents), zero));
    }
    KernelOp apart = writeKernel();
    b.setInsertionPointAfter(launch);
    SmallVector<Value> passed(launch.getArgs());
    passed.append(arrays);
    LaunchOp::create(b, launch.getLoc(), apart.getSymName(), passed, launch.getWithNames(),
                     launch.getWithValues(), condition, ArrayAttr());
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
      ParamDeclAttr param =
          rows.isSymbol() ? Signature(kernel).findParam(rows.symbol.getValue()) : ParamDeclAttr();
      ExprAttr few = ExprAttr::getInt(context, rowsOfResult);
      bool choosesRows =
          param && !param.getDerived() &&
          (param.getAllowed().empty() || llvm::is_contained(param.getAllowed(), few));
      for (auto [name, value] : llvm::zip(launch.getWithNames(), launch.getWithValues()))
        if (!choosesRows || name != rows.symbol) {
          withNames.push_back(name);
          withValues.push_back(value);
        }
      if (choosesRows) {
        withNames.push_back(rows.symbol);
        withValues.push_back(few);
      }
      LaunchOp::create(b, launch.getLoc(), result.getSymName(), arguments,
                       b.getArrayAttr(withNames), b.getArrayAttr(withValues), when, ArrayAttr());
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
    describe(apart, "an instance for each term of its sums");
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

  void describe(KernelOp written, StringRef what) const {
    std::string by = isForced ? "as given" : "by the table: " + tilewright::describe(row);
    written->setAttr(strategyAttrName, StringAttr::get(context, (what + ", " + by).str()));
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
    describe(result, "the result of a sum whose terms instances add apart");
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

} // namespace

std::string tilewright::divideSum(AccumulateOp op, LaunchOp launch, SymbolTable &symbols,
                                  const ApartRow &row, int64_t multiprocessors, bool isForced) {
  return Divider(op, launch, symbols, row, multiprocessors, isForced).run();
}
