// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the form in order of a sum in memory: into the kernel, under its flag, the turns of
// the additions and the work of the kernel that reads the sums; into the program, the workspaces
// and the launch of that form.

#include "passes/Tile/OrderSum.h"

#include "passes/Tile/AppendArgument.h"
#include "passes/Tile/LaunchNames.h"
#include "passes/Tile/OrderRules.h"
#include "passes/Tile/OrderedKernel.h"
#include "passes/Tile/StoredSum.h"

#include "dialect/Tile/TileExpr.h"

#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;
using expr::Function;

namespace {

/// Names of what the program decides, as its derived parameters.
constexpr llvm::StringLiteral possibleName = "ADDS_IN_ORDER", takenName = "TAKES_TURNS",
                              listedName = "LISTS_INSTANCES";

void replaceFunction(Operation *root, ExprAttr value) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](ExprAttr expr) -> std::optional<Attribute> {
    if (expr.getKind() == ExprKind::Call && getFunction(expr) == Function::AddsInOrder)
      return value;
    return std::nullopt;
  });
  replacer.recursivelyReplaceElementsIn(root);
}

/// Launches fill a list of instances of a kernel only if it is used.
void useListIf(ExprAttr isUsed, Value list, StringRef kernel) {
  auto workspace = list.getDefiningOp<WorkspaceOp>();
  if (!workspace)
    return;
  MLIRContext *context = isUsed.getContext();
  SmallVector<Attribute> extents(workspace.getExtents().getValue());
  ExprAttr zero = ExprAttr::getInt(context, 0);
  extents[0] = makeCall(context, Function::Select, {isUsed, cast<ExprAttr>(extents[0]), zero});
  workspace.setExtentsAttr(ArrayAttr::get(context, extents));
  for (Operation *user : list.getUsers())
    if (auto launch = dyn_cast<LaunchOp>(user); launch && launch.getKernel() != kernel)
      launch.setConditionAttr(both(launch.getConditionAttr(), isUsed));
}

/// A sum in any order begins at zero: in the workspace, or in a launch before.
void clearBefore(LaunchOp adding, Value sums) {
  auto workspace = sums.getDefiningOp<WorkspaceOp>();
  if (!workspace)
    return;
  for (Operation *user : sums.getUsers()) {
    auto launch = cast<LaunchOp>(user);
    ExprAttr condition = launch.getConditionAttr();
    if (launch != adding && launch->isBeforeInBlock(adding) &&
        launch.getKernel() != adding.getKernel() && !(condition && isFalse(condition)))
      return;
  }
  workspace.setFillAttr(Builder(adding.getContext()).getF64FloatAttr(0));
}

class Orderer {
public:
  Orderer(ContributeOp op, SymbolTable &symbols, const OrderChoice &choice)
      : op(op), kernel(op->getParentOfType<KernelOp>()), symbols(symbols), choice(choice),
        context(op.getContext()), flag(op.getFlagAttr()) {
    sum.op = op;
  }

  LogicalResult run() {
    if (!choice.row || !flag || !findLaunches())
      return success(); // lowerUnordered() does the rest
    if (failed(checkOrderedKernel(sum)) || !findConditions())
      return failure();
    if (!sum.adding || !mayCompleteEarly())
      return success();
    if (failed(checkOrderedParams(sum)))
      return failure();
    ViewType turnsType = getTurnsType(sum);
    if (sum.listed)
      listedArgument = cast<BlockArgument>(sum.listed.getList()).getArgNumber();
    writeOrderedKernel(sum, choice.multiprocessors);
    writeProgram(turnsType);
    return success();
  }

private:
  //===--- What there is --------------------------------------------------===//

  /// The program's launches of the kernel, and of the kernel that reads the sums. False if there is
  /// no program, or another use of the sums, which has a remark.
  bool findLaunches() {
    auto view = dyn_cast<BlockArgument>(op.getView());
    if (!view || view.getOwner() != &kernel.getBody().front())
      return false;
    sumArgument = view.getArgNumber();
    kernel->getParentOfType<ModuleOp>().walk([&](LaunchOp launch) {
      if (launch.getKernel() == kernel.getSymName())
        launches.push_back(launch);
    });
    if (launches.empty())
      return false;
    Value sums = launches.front().getArgs()[sumArgument];
    bool isOne = sums.getDefiningOp<WorkspaceOp>() != nullptr;
    for (LaunchOp launch : launches)
      isOne &= launch.getArgs()[sumArgument] == sums;
    // Whatever else reads the sums would find none in launches of the form in order.
    for (Operation *user : sums.getUsers()) {
      auto reader = cast<LaunchOp>(user);
      if (llvm::is_contained(launches, reader) || reader->isBeforeInBlock(launches.front()))
        continue;
      isOne &= !sum.completion;
      sum.completion = reader;
    }
    sum.completing =
        sum.completion ? symbols.lookup<KernelOp>(sum.completion.getKernel()) : KernelOp();
    if (sum.completing)
      for (auto complete : sum.completing.getBody().getOps<CompleteOp>())
        if (auto array = dyn_cast<BlockArgument>(complete.getView());
            array && array.getArgNumber() < sum.completing.getNumArgs() &&
            sum.completion.getArgs()[array.getArgNumber()] == sums)
          sum.completed = complete;
    if (!isOne || !sum.completed) {
      op.emitRemark("has no form in order: its sums are no workspace that all launches of the "
                    "kernel add to, and then one launch reads by tile.complete");
      return false;
    }
    program = sum.completion->getParentOfType<ProgramOp>();
    return true;
  }

  InFlightDiagnostic reject(Operation *at, const Twine &rule) { return at->emitOpError() << rule; }

  //===--- When -----------------------------------------------------------===//

  ExprAttr call(Function function, ArrayRef<ExprAttr> operands) const {
    return makeCall(context, function, operands);
  }
  Value getSums() { return sum.adding.getArgs()[sumArgument]; }
  WorkspaceOp getWorkspace() { return getSums().getDefiningOp<WorkspaceOp>(); }
  ExprAttr flagOf(bool value) const { return ExprAttr::getFlag(context, value); }

  /// With derived parameters of the program replaced by their values, and adds_in_order() by true.
  ExprAttr expand(ExprAttr expr) const {
    return rewriteExpr(expr, [&](ExprAttr part) -> std::optional<ExprAttr> {
      if (part.getKind() == ExprKind::Call && getFunction(part) == Function::AddsInOrder)
        return flagOf(true);
      if (part.getKind() != ExprKind::Name)
        return std::nullopt;
      ParamDeclAttr param = Signature(program).findParam(part.getName());
      return param && param.getDerived() ? expand(param.getDefaultValue()) : part;
    });
  }

  /// The one launch that adds, and expressions over the program. False, with an error, if a clause
  /// has none.
  bool findConditions() {
    for (LaunchOp launch : launches) {
      LaunchNames names(kernel, launch);
      ExprAttr adds = flagOf(true);
      for (ExprAttr branch : sum.branches) {
        ExprAttr own = names.get(branch);
        adds = own ? both(adds, own) : ExprAttr();
      }
      if (!adds || isFalse(adds = expand(adds)))
        continue;
      if (sum.adding) {
        reject(op, "is reached by two launches; give all but one a parameter by which they leave "
                   "it out")
                .attachNote(launch.getLoc())
            << "the second";
        return false;
      }
      sum.adding = launch;
      possible = adds;
    }
    if (!sum.adding)
      return true;
    LaunchNames names(kernel, sum.adding);
    auto get = [&](ExprAttr expr, ExprAttr otherwise) {
      return expr ? names.get(expr) : otherwise;
    };
    ExprAttr never = flagOf(false), one = ExprAttr::getInt(context, 1);
    OrderedLaunch facts;
    ExprAttr allowed = get(op.getOrderConditionAttr(), flagOf(true));
    deterministic = get(op.getDeterministicConditionAttr(), never);
    facts.isStaggered = get(op.getStaggeredConditionAttr(), never);
    facts.isBanded = get(op.getBandedConditionAttr(), never);
    facts.isPacked = get(op.getPackedConditionAttr(), never);
    ArrayRef<Attribute> extents = getWorkspace().getExtents().getValue();
    facts.rows = get(op.getRowsAttr(), cast<ExprAttr>(extents[extents.size() - 2]));
    facts.sequences = get(op.getSequencesAttr(), one);
    facts.positions = names.get(op.getSizeAttr());
    facts.rowsOfBlock = names.get(ExprAttr::getName(context, sum.rowsName));
    facts.width = names.getExtent(getDims(op.getView().getType()).back());
    facts.areShared = never;
    facts.haveOneWidth = flagOf(true);
    ExprAttr fits = facts.width ? isAtMost(facts.width, choice.row->width) : ExprAttr();
    if (sum.accumulate && fits) {
      ExprAttr terms = toExpr(sum.accumulate.getCount(), kernel);
      terms = terms ? names.get(terms) : ExprAttr();
      facts.areShared = terms ? call(Function::Greater, {terms, one}) : flagOf(true);
      for (OpResult result : sum.accumulate->getResults()) {
        std::string reason;
        std::optional<StoredSum> stored = StoredSum::get(kernel, result, reason);
        if (!stored) {
          op.emitRemark("has no form in order: ") << reason;
          sum.adding = LaunchOp();
          return true;
        }
        Type view = stored->view.getType();
        ExprAttr width = names.getExtent(getDims(view).back());
        ExprAttr bits = names.getBits(view);
        if (!width || !bits) {
          fits = ExprAttr();
          break;
        }
        fits = both(fits, isAtMost(width, choice.row->width));
        fits = both(fits, isAtMost(bits, choice.row->bits));
        facts.haveOneWidth = both(facts.haveOneWidth, call(Function::Equal, {width, facts.width}));
      }
    }
    instances = names.getInstances();
    const std::pair<Attribute, const char *> needed[] = {{allowed, "'when'"},
                                                         {deterministic, "'deterministic'"},
                                                         {facts.isStaggered, "'staggered'"},
                                                         {facts.isBanded, "'banded'"},
                                                         {facts.isPacked, "'packed'"},
                                                         {facts.rows, "the rows"},
                                                         {facts.sequences, "the sequences"},
                                                         {facts.positions, "the positions"},
                                                         {facts.rowsOfBlock, "the rows of a block"},
                                                         {fits, "the width of a sum"},
                                                         {instances, "the grid"}};
    const auto *unknown = llvm::find_if(needed, [](const auto &each) { return !each.first; });
    if (unknown != std::end(needed)) {
      reject(op, "must have clauses and widths of sums that are expressions over the program that "
                 "launches @")
          << kernel.getSymName() << ", but got none for " << unknown->second;
      return false;
    }
    possible = both(possible, allowed);
    if (!choice.isForced)
      possible = both(possible, fits);
    taken = choice.isForced
                ? flagOf(true)
                : call(Function::Or, {deterministic, getOrderCondition(*choice.row, facts)});
    lists = getListCondition(*choice.row, facts);
    if (choice.isForced)
      lists = call(Function::And, {facts.isPacked,
                                   both(facts.isStaggered, call(Function::Not, {facts.isBanded}))});
    orderedRows = getOrderedRows(*choice.row, facts);
    return true;
  }

  /// Whether what the other kernel does may be done while this one still runs, and before launches
  /// between the two: it must not touch what they write, nor they what it writes. False with a
  /// remark.
  bool mayCompleteEarly() {
    std::string reason;
    if (!sum.adding->isBeforeInBlock(sum.completion))
      reason = "the launch that reads the sums must follow the one that adds, but is before it";
    Value sums = getSums();
    for (Operation *at = sum.adding; reason.empty() && at != sum.completion;
         at = at->getNextNode()) {
      auto launch = dyn_cast<LaunchOp>(at);
      if (!launch)
        continue;
      auto launched = symbols.lookup<KernelOp>(launch.getKernel());
      for (auto [i, value] : llvm::enumerate(sum.completion.getArgs()))
        for (auto [j, other] : llvm::enumerate(launch.getArgs()))
          if (other == value && value != sums && isa<ViewType>(value.getType()) &&
              (!launched || writesArgument(sum.completing, i) || writesArgument(launched, j)))
            reason =
                "the arrays of the launch that reads the sums must not be written by it, or by "
                "others from the launch that adds on, but got argument " +
                std::to_string(i) + ", which @" + launched.getSymName().str() + " takes";
    }
    if (!reason.empty())
      op.emitRemark("has no form in order: ") << reason;
    return reason.empty();
  }

  ExprAttr isAtMost(ExprAttr value, int64_t most) const {
    return call(Function::LessEqual, {value, ExprAttr::getInt(context, most)});
  }

  //===--- The program ----------------------------------------------------===//

  /// A derived parameter of the program.
  ExprAttr declare(StringRef name, ExprAttr value) {
    std::string free = getFreeName(program, name.str());
    SmallVector<Attribute> params(program.getParams().getValue());
    params.push_back(
        ParamDeclAttr::get(context, free, ParamKind::Flag, {}, value, /*derived=*/true));
    program.setParamsAttr(ArrayAttr::get(context, params));
    return ExprAttr::getName(context, free);
  }

  void writeProgram(ViewType turnsType) {
    ExprAttr isPossible = declare(possibleName, possible);
    replaceFunction(program, isPossible);
    // The form in order makes results of the sums, as the launch that reads them does.
    ExprAttr wanted = sum.completion.getConditionAttr(), given = sum.adding.getConditionAttr();
    ExprAttr isTaken = declare(takenName, both(both(both(isPossible, given), wanted), taken));
    OpBuilder b(program.getBody().getContext());
    WorkspaceOp workspace = getWorkspace();
    b.setInsertionPointAfter(workspace);
    ExprAttr zero = ExprAttr::getInt(context, 0);
    SmallVector<Attribute> extents(workspace.getExtents().getValue());
    auto whole = cast<ExprAttr>(extents[0]);
    auto withFirst = [&](ExprAttr first, ArrayRef<Attribute> all) {
      SmallVector<Attribute> result(all);
      result[0] = first;
      return ArrayAttr::get(context, result);
    };
    ExprAttr inOrder = call(Function::Select, {isTaken, whole, zero});
    Value sums = WorkspaceOp::create(b, workspace.getLoc(), workspace.getType(),
                                     withFirst(inOrder, extents), FloatAttr());
    Value counters = WorkspaceOp::create(
        b, workspace.getLoc(), turnsType,
        withFirst(inOrder, ArrayRef<Attribute>(extents).drop_back()), b.getI64IntegerAttr(0));
    workspace.setExtentsAttr(withFirst(call(Function::Select, {isTaken, zero, whole}), extents));
    clearBefore(sum.adding, workspace);
    if (listedArgument)
      useListIf(declare(listedName, both(lists, isTaken)), sum.adding.getArgs()[*listedArgument],
                kernel.getSymName());

    for (Value value : sum.appended)
      if (auto other = value.getDefiningOp<WorkspaceOp>())
        other->moveAfter(workspace);
    for (LaunchOp launch : launches) {
      SmallVector<Value> passed(launch.getArgs());
      passed.push_back(counters);
      passed.append(sum.appended.begin(), sum.appended.end());
      launch.getArgsMutable().assign(passed);
    }
    ExprAttr notTaken = call(Function::Not, {isTaken});
    b.setInsertionPointAfter(sum.adding);
    SmallVector<Value> passed(sum.adding.getArgs());
    passed[sumArgument] = sums;
    SmallVector<Attribute> names{flag, sum.rowsName}, values{flagOf(true), orderedRows};
    for (auto [name, value] : llvm::zip(sum.adding.getWithNames(), sum.adding.getWithValues()))
      if (!llvm::is_contained(names, name)) {
        names.push_back(name);
        values.push_back(value);
      }
    LaunchOp::create(b, sum.adding.getLoc(), sum.adding.getKernel(), passed, b.getArrayAttr(names),
                     b.getArrayAttr(values), isTaken, ArrayAttr());
    sum.adding.setConditionAttr(both(given, notTaken));
    // An empty grid does nothing at its end either; then the other kernel reads no sums, but zeros.
    ExprAttr isEmpty = call(Function::Equal, {instances, zero});
    sum.completion.setConditionAttr(both(wanted, call(Function::Or, {notTaken, isEmpty})));
  }

  ContributeOp op;
  KernelOp kernel;
  SymbolTable &symbols;
  const OrderChoice &choice;
  MLIRContext *context;
  StringAttr flag;
  unsigned sumArgument = 0;
  std::optional<unsigned> listedArgument;
  SmallVector<LaunchOp> launches;
  ProgramOp program;
  OrderedSum sum;
  ExprAttr possible, taken, lists, deterministic, orderedRows, instances; ///< over the program
};

} // namespace

LogicalResult tilewright::orderSum(ContributeOp op, SymbolTable &symbols,
                                   const OrderChoice &choice) {
  return Orderer(op, symbols, choice).run();
}

void tilewright::lowerUnordered(ModuleOp module) {
  for (auto program : module.getOps<ProgramOp>())
    replaceFunction(program, ExprAttr::getFlag(module.getContext(), false));
  auto forLaunches = [&](KernelOp kernel, Value argument, auto fn) {
    auto array = dyn_cast<BlockArgument>(argument);
    if (array && array.getOwner() == &kernel.getBody().front())
      module.walk([&](LaunchOp launch) {
        if (launch.getKernel() == kernel.getSymName())
          fn(launch, launch.getArgs()[array.getArgNumber()]);
      });
  };
  module.walk([&](Operation *each) {
    OpBuilder b(each);
    auto kernel = each->getParentOfType<KernelOp>();
    if (auto op = dyn_cast<ContributeOp>(each)) {
      forLaunches(kernel, op.getView(), clearBefore);
      AtomicAddOp::create(b, op.getLoc(), op.getValue(), op.getView(), op.getIndices(),
                          op.getStaticIndicesAttr(), op.getDimsAttr());
      op.erase();
    } else if (auto complete = dyn_cast<CompleteOp>(each)) {
      Value sum = LoadOp::create(b, complete.getLoc(), complete.getType(), complete.getView(),
                                 complete.getIndices(), complete.getStaticIndicesAttr(),
                                 DenseI64ArrayAttr(), Value());
      complete.replaceAllUsesWith(sum);
      complete.erase();
    } else if (auto order = dyn_cast<AnyOrderOp>(each)) {
      if (order.getList())
        forLaunches(kernel, order.getList(), [&](LaunchOp, Value list) {
          useListIf(ExprAttr::getFlag(module.getContext(), false), list, kernel.getSymName());
        });
      order.replaceAllUsesWith(order.getNumber());
      order.erase();
    }
  });
}
