// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-share-loops: adds, to launches of kernels with a loop whose states merge, the form in which
// several instances share its iterations.

#include "base/Target/Target.h"
#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Origin.h"
#include "dialect/Tile/TileExpr.h"
#include "passes/Passes.h"
#include "passes/Tile/BindParameters.h"
#include "passes/Tile/CombinedLoop.h"
#include "passes/Tile/LaunchNames.h"
#include "passes/Tile/ProgramOfKernel.h"
#include "passes/Tile/StrategyTable.h"
#include "passes/Tile/SumStrategies.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TILESHARELOOPS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;
using expr::Function;

namespace {

/// Columns of the array of states are a multiple of this, so that its rows are aligned.
constexpr int64_t unitOfColumns = 16;

/// The strategy for all loops.
struct Choice {
  const SharesRow *row;
  int64_t multiprocessors;
  int64_t shares; ///< 0: by the row
};

/// Makes the form of one launch.
class Sharer {
public:
  Sharer(const CombinedLoop &of, LaunchOp launch, const Choice &choice)
      : of(of), kernel(of.kernel), launch(launch), program(launch->getParentOfType<ProgramOp>()),
        names(kernel, launch), context(kernel.getContext()), choice(choice) {}

  /// The reason why there is none; empty if there is.
  std::string findConditions() {
    if (auto param = dyn_cast<ParamType>(getElementType(of.getStateType()));
        param && !names.isSameInProgram(param.getName()))
      return ("the program has no parameter '" + param.getName() +
              "' with the value of the kernel's, the type of states; declare it in the "
              "program")
          .str();
    scf::ForOp loop = of.loop;
    ExprAttr upper = getOfProgram(loop.getUpperBound()), step = getOfProgram(loop.getStep());
    IntegerAttr lower;
    if (!upper || !step || !matchPattern(loop.getLowerBound(), m_Constant(&lower)) ||
        lower.getInt() != 0)
      return "its iterations must be from 0 to an expression over the program, but got " +
             (!upper  ? "a bound that is " + describeOrigin(loop.getUpperBound())
              : !step ? "a step that is " + describeOrigin(loop.getStep())
                      : "a beginning that is " + describeOrigin(loop.getLowerBound()));
    iterations = call(Function::CeilDiv, {upper, step});
    for (unsigned dim : {0, 1})
      blocks[dim] = of.getFreeBlock(dim);
    std::string reason;
    llvm::SetVector<Attribute> narrow; // conditions on types of operands
    loop.getBody()->walk([&](DotOp dot) {
      for (Value operand : {dot.getLhs(), dot.getRhs()}) {
        ExprAttr bits = names.getBits(operand.getType());
        if (!bits)
          reason = "the type of a product must be a parameter of the program, but got " +
                   debugString(operand.getType());
        else if (!choice.shares)
          narrow.insert(isAtMost(bits, choice.row->bits));
      }
    });
    for (Attribute condition : narrow)
      fits = both(fits, cast<ExprAttr>(condition));
    if (!reason.empty())
      return reason;
    std::optional<Form> whole = getForm(std::nullopt);
    if (!whole)
      return "the grid, or an extent of the result, is no expression over the program; compute "
             "both from its arguments and parameters";
    ExprAttr rows = blocks[0] ? names.get(of.getPlaces(0)) : ExprAttr();
    for (const SharesRow::Blocks &few : choice.row->few)
      if (rows && blocks[1] && of.isMadeInPlace()) {
        forms.push_back(*getForm(few));
        forms.back().condition = isAtMost(rows, few.extent);
      }
    forms.push_back(*whole);
    return "";
  }

  void write(KernelOp share, KernelOp merge) {
    // The first form whose condition holds.
    ExprAttr shares, others;
    for (Form &form : llvm::reverse(forms))
      shares = shares && shares != form.shares
                   ? call(Function::Select, {form.condition, form.shares, shares})
                   : form.shares;
    for (Form &form : forms) {
      ExprAttr own = form.condition;
      form.condition = both(others, own);
      if (own)
        others = both(others, call(Function::Not, {own}));
    }
    ExprAttr one = ExprAttr::getInt(context, 1), zero = ExprAttr::getInt(context, 0);
    ExprAttr areSeveral = call(Function::Greater, {shares, one});
    ExprAttr given = launch.getConditionAttr();
    // What is known when parameters are bound precedes what each launch decides.
    ExprAttr condition = both(both(fits, given), areSeveral);
    ExprAttr isWhole = both(given, call(Function::Not, {areSeveral}));

    OpBuilder b(launch);
    SmallVector<Attribute> extents{call(Function::Select, {condition, shares, zero})};
    auto viewType = cast<ViewType>(of.view.getType());
    for (int64_t dim = 0; dim < viewType.getRank(); ++dim) {
      ExprAttr extent = getExtent(dim);
      if (dim + 1 == viewType.getRank()) {
        ExprAttr unit = ExprAttr::getInt(context, unitOfColumns);
        extent = call(Function::Mul, {call(Function::CeilDiv, {extent, unit}), unit});
      }
      extents.push_back(extent);
    }
    b.setInsertionPoint(*program.getBody().getOps<LaunchOp>().begin());
    Value states = WorkspaceOp::create(b, of.loop->getLoc(), of.getStatesType(),
                                       b.getArrayAttr(extents), FloatAttr());
    SmallVector<Value> arguments(launch.getArgs());
    arguments.push_back(states);
    b.setInsertionPointAfter(launch);
    auto add = [&](KernelOp written, ArrayRef<std::pair<StringAttr, ExprAttr>> extentsOfBlocks,
                   ExprAttr when) {
      SmallVector<Attribute> withNames, withValues;
      for (auto [name, value] : llvm::zip(launch.getWithNames(), launch.getWithValues()))
        if (llvm::none_of(extentsOfBlocks, [&](const auto &own) { return own.first == name; })) {
          withNames.push_back(name);
          withValues.push_back(value);
        }
      for (auto [name, value] : extentsOfBlocks) {
        withNames.push_back(name);
        withValues.push_back(value);
      }
      LaunchOp::create(b, launch.getLoc(), written.getSymName(), arguments,
                       b.getArrayAttr(withNames), b.getArrayAttr(withValues), when, ArrayAttr());
    };
    for (const Form &form : forms)
      add(share, form.blocks, both(condition, form.condition));
    SmallVector<std::pair<StringAttr, ExprAttr>> ofMerge;
    if (of.mayMergeFewRows())
      ofMerge.push_back(getAtMost(blocks[0], choice.row->rowsOfMerge));
    add(merge, ofMerge, condition);
    if (fits)
      isWhole =
          call(Function::Select, {fits, isWhole, given ? given : ExprAttr::getFlag(context, true)});
    launch.setConditionAttr(isWhole);
  }

private:
  struct Form {
    ExprAttr condition; ///< null: always
    ExprAttr shares;
    SmallVector<std::pair<StringAttr, ExprAttr>> blocks;
  };

  ExprAttr call(Function function, ArrayRef<ExprAttr> operands) const {
    return makeCall(context, function, operands);
  }
  ExprAttr isAtMost(ExprAttr value, int64_t most) const {
    return call(Function::LessEqual, {value, ExprAttr::getInt(context, most)});
  }
  ExprAttr getOfProgram(Value value) const {
    ExprAttr own = toExpr(value, kernel);
    return own ? names.get(own) : own;
  }
  ExprAttr getExtent(int64_t dim) const {
    Dim own = getDims(of.view.getType())[dim];
    ExprAttr extent = names.getExtent(own);
    return extent ? extent
                  : names.get(makeDim(
                        context,
                        cast<StringAttr>(KernelOp(kernel).getArgNames()[of.view.getArgNumber()]),
                        dim));
  }

  /// A parameter of a launch: that of the given one, but not more.
  std::pair<StringAttr, ExprAttr> getAtMost(StringAttr param, int64_t most) const {
    ExprAttr own = names.get(ExprAttr::getName(context, param));
    return {param, call(Function::Min, {own, ExprAttr::getInt(context, most)})};
  }

  /// Shares with the kernel's blocks, or smaller ones. Nothing if there is no expression for them.
  std::optional<Form> getForm(std::optional<SharesRow::Blocks> few) const {
    Form form;
    if (few)
      form.blocks = {getAtMost(blocks[0], few->rows), getAtMost(blocks[1], few->columns)};
    ExprAttr instances;
    for (auto extent : KernelOp(kernel).getGrid().getAsRange<ExprAttr>()) {
      ExprAttr own = rewriteExpr(extent, [&](ExprAttr part) -> std::optional<ExprAttr> {
        for (auto [name, value] : form.blocks)
          if (part == ExprAttr::getName(context, name))
            return value;
        if (part.getKind() == ExprKind::Call)
          return std::nullopt;
        return names.get(part);
      });
      if (!own)
        return std::nullopt;
      instances = instances ? call(Function::Mul, {instances, own}) : own;
    }
    for (int64_t dim = 0; dim < getRank(of.view.getType()); ++dim)
      if (!getExtent(dim))
        return std::nullopt;
    form.shares = choice.shares
                      ? ExprAttr::getInt(context, choice.shares)
                      : getShares(*choice.row, choice.multiprocessors, instances, iterations);
    return form;
  }

  const CombinedLoop &of;
  KernelOp kernel;
  LaunchOp launch;
  ProgramOp program;
  LaunchNames names;
  MLIRContext *context;
  const Choice &choice;
  StringAttr blocks[2]; ///< that the launches may bind
  ExprAttr iterations, fits;
  SmallVector<Form> forms;
};

struct TileShareLoopsPass : tilewright::impl::TileShareLoopsBase<TileShareLoopsPass> {
  using TileShareLoopsBase::TileShareLoopsBase;

  void runOnOperation() override {
    FailureOr<SumStrategies> strategies =
        SumStrategies::parse(sums.getValue(), [&] { return emitError(getOperation().getLoc()); });
    if (failed(strategies))
      return signalPassFailure();
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) {
      if (combineAttr.isOn(loop))
        loops.push_back(loop);
    });
    bool isGpu = target.getValue() != "cpu";
    const Target *chip = Target::find(target.getValue());
    Choice choice{findSharesRow(target.getValue()),
                  chip ? chip->multiprocessors : Target::getMostMultiprocessors(),
                  strategies->shares};
    if (choice.shares > 1 && !choice.row)
      choice.row = getAnySharesRow();
    if (choice.shares == 1)
      choice.row = nullptr;
    if (isGpu || choice.row) {
      symbols.emplace(getOperation());
      for (scf::ForOp loop : loops) {
        std::string reason;
        if (std::optional<CombinedLoop> found = CombinedLoop::get(loop, reason))
          reason = share(*found, choice);
        if (!reason.empty())
          loop.emitRemark("has no shares: ") << reason;
      }
      symbols.reset();
    }
    for (scf::ForOp loop : loops)
      combineAttr.remove(loop);
  }

private:
  std::string share(const CombinedLoop &found, const Choice &choice) {
    KernelOp kernel = found.kernel;
    SmallVector<LaunchOp> launches;
    getOperation().walk([&](LaunchOp launch) {
      if (launch.getKernel() == kernel.getSymName())
        launches.push_back(launch);
    });
    // Targets of a bundle have forms of one program, so a kernel becomes one for all GPUs.
    if (launches.empty()) {
      auto program =
          makeProgramOf(kernel, (kernel.getSymName() + "_launches").str(), kernel.getSymNameAttr());
      symbols->insert(program);
      launches.push_back(*program.getBody().getOps<LaunchOp>().begin());
    }
    if (!choice.row)
      return "";
    KernelOp part, merge;
    for (LaunchOp launch : launches) {
      Sharer sharer(found, launch, choice);
      std::string reason = sharer.findConditions();
      if (!reason.empty())
        return reason;
      if (!part) {
        part = found.writeShare();
        merge = found.writeMerge();
        tgpu::mostStagesAttr.set(part, choice.row->mostStages);
        for (auto [written, what] : {std::pair(part, "a share of the iterations of its loop"),
                                     std::pair(merge, "the merge of shares of a loop")}) {
          symbols->insert(written);
          std::string by = choice.shares ? "as given" : "by the table: " + describe(*choice.row);
          written->setAttr(strategyAttrName,
                           StringAttr::get(&getContext(), std::string(what) + ", " + by));
        }
      }
      sharer.write(part, merge);
    }
    return "";
  }

  std::optional<SymbolTable> symbols;
};

} // namespace
