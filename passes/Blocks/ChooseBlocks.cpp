// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-choose-blocks: binds parameters whose default is block() to the extents in the table for a
// kernel of this structure.

#include "passes/Blocks/BlockModel.h"
#include "passes/Blocks/BodyRegisters.h"
#include "passes/Blocks/KernelQuery.h"
#include "passes/Passes.h"
#include "passes/Tile/LaunchLets.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MemoryBuffer.h"

#include <vector>

namespace tilewright {
#define GEN_PASS_DEF_TILECHOOSEBLOCKS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

bool isBlock(ParamDeclAttr decl) {
  return decl.getDefaultValue() && isChosenBlock(decl.getDefaultValue());
}

/// A kernel that an entry reaches, the source of its parameters, and its blocks.
struct Reached : ExaminedKernel {
  LaunchOp launch; ///< null: the kernel is the entry
  BlockQuery query;
  BlockChoice choice;
  SmallVector<NamedAttribute> report;
  BodyRegisters body;
  int64_t rows = 0, step = 0;       ///< blocks; 0: unknown
  bool usesTable = false;           ///< the table determines at least one block
  bool isLeftOut = false;           ///< determines only blocks that no other kernel has
  const Reached *chooser = nullptr; ///< determines a block that this kernel has, too
};

class Chooser {
public:
  Chooser(ModuleOp module, Operation *entry, const BlockTable &table, StringRef target,
          int64_t length, int64_t shared, bool byModel)
      : module(module), entry(entry), signature(entry), table(table), target(target),
        length(length), shared(shared), byModel(byModel) {}

  LogicalResult run(ArrayRef<std::string> assignments) {
    FailureOr<llvm::StringMap<ExprAttr>> given = parseBindings(signature, assignments);
    if (failed(given))
      return failure();
    FailureOr<Bindings> bindings = bindKnown(signature, *given, [&] { return entry->emitError(); });
    if (failed(bindings))
      return failure();
    if (failed(findKernels(*bindings)))
      return failure();
    SmallVector<Attribute> params;
    for (auto decl : signature.params.getAsRange<ParamDeclAttr>()) {
      if (isBlock(decl)) {
        FailureOr<ExprAttr> extent = choose(decl, given->lookup(decl.getName()), *bindings);
        if (failed(extent))
          return failure();
        // Later parameters may be derived from this one.
        (*given)[decl.getName()] = *extent;
        bindings = bindKnown(signature, *given, [&] { return entry->emitError(); });
        if (failed(bindings))
          return failure();
        decl = ParamDeclAttr::get(decl.getContext(), decl.getName(), decl.getKind(),
                                  decl.getAllowed(), *extent, /*derived=*/false);
      }
      params.push_back(decl);
    }
    entry->setAttr("params", ArrayAttr::get(module.getContext(), params));
    for (Reached &each : llvm::reverse(reached)) { // the first belongs to the entry, too
      const Reached *by = each.usesTable ? &each : each.chooser;
      if (by && by->usesTable && !each.isLeftOut && by->choice.row->length && each.query.hasLength)
        require(each, by->choice.row->length);
      describe(each);
    }
    return success();
  }

private:
  /// Finds the entry, or the kernels it launches, that have a loop with products, or rows.
  LogicalResult findKernels(const Bindings &bindings) {
    auto consider = [&](KernelOp kernel, LaunchOp launch) -> LogicalResult {
      FailureOr<Bindings> inKernel = launch ? bindLaunch(kernel, launch, bindings) : bindings;
      if (failed(inKernel))
        return failure();
      std::optional<ExaminedKernel> examined = ExaminedKernel::get(kernel, *inKernel);
      if (!examined)
        return success();
      Reached each{std::move(*examined), launch, {}, {}, {}, {}};
      each.isLeftOut = launch && isLeftOut(launch, bindings);
      each.query = each.makeQuery(*inKernel);
      each.query.target = target.str();
      each.query.length = length;
      each.query.shared = shared;
      each.choice = table.choose(each.query);
      each.body = BodyRegisters::get(each, each.query, *inKernel);
      each.rows = getExtent(each.structure.rows, *inKernel).value_or(0);
      addsGradients |= each.body.addsGradients && !each.isLeftOut;
      if (byModel || (each.choice.row->structure.empty() && !each.choice.isUsers))
        chooseWithoutRow(each, *inKernel);
      reached.push_back(std::move(each));
      return success();
    };
    if (auto kernel = dyn_cast<KernelOp>(entry))
      return consider(kernel, nullptr);
    for (auto launch : cast<ProgramOp>(entry).getBody().getOps<LaunchOp>())
      if (auto kernel = module.lookupSymbol<KernelOp>(launch.getKernel()))
        if (failed(consider(kernel, launch)))
          return failure();
    llvm::stable_sort(reached, [](const Reached &a, const Reached &b) {
      auto getPlace = [](const Reached &each) {
        int64_t products = each.structure.products;
        return std::tuple(products == 0, each.isLeftOut, -products);
      };
      return getPlace(a) < getPlace(b);
    });
    return success();
  }

  /// The blocks of a structure that the table does not have, by the cost model where it applies.
  void chooseWithoutRow(Reached &each, const Bindings &bindings) {
    std::optional<ModelChoice> chosen = chooseByModel(each, bindings, each.query);
    if (!chosen)
      return;
    BlockRow row;
    row.target = target.str();
    std::tie(row.rows, row.columns, row.step) =
        std::tuple(chosen->rows, chosen->columns, chosen->step);
    each.choice.modeled = std::make_shared<const BlockRow>(row);
    each.choice.row = each.choice.modeled.get();
  }

  /// The step that a row gives, or one that needs fewer registers if the program adds gradients of
  /// captures, for whose functions no row was measured. The rows of a user's file remain.
  int64_t fitStep(const Reached &each) const {
    const BlockRow &row = *each.choice.row;
    return addsGradients && !each.choice.isUsers && hasRoles(each)
               ? each.body.fit(each.rows ? each.rows : row.rows, row.step)
               : row.step;
  }

  bool hasRoles(const Reached &each) const {
    const Target *machine = Target::find(target);
    return machine && machine->hasRoles() && each.query.bits == 16 && each.structure.loop;
  }

  /// Whether the condition of a launch is known not to hold.
  static bool isLeftOut(LaunchOp launch, const Bindings &bindings) {
    ExprAttr condition = launch.getConditionAttr();
    if (!condition)
      return false;
    llvm::Expected<ExprAttr> flag = reduceExpr(condition, getEnvironment(bindings));
    bool isFalse = flag && flag->getKind() == ExprKind::Flag && !flag->getValue();
    llvm::consumeError(flag.takeError());
    return isFalse;
  }

  static ExprAttr getWith(LaunchOp launch, StringRef name) {
    for (auto [given, expr] : llvm::zip(launch.getWithNames().getAsRange<StringAttr>(),
                                        launch.getWithValues().getAsRange<ExprAttr>()))
      if (given.getValue() == name)
        return expr;
    return {};
  }

  /// Binds a launched kernel as tile-specialize does, as far as values are known.
  static FailureOr<Bindings> bindLaunch(KernelOp op, LaunchOp launch, const Bindings &bindings) {
    Signature kernel(op);
    llvm::StringMap<ExprAttr> given;
    for (auto decl : kernel.params.getAsRange<ParamDeclAttr>()) {
      ExprAttr value = getWith(launch, decl.getName());
      if (value) {
        llvm::Expected<ExprAttr> reduced = reduceExpr(value, getEnvironment(bindings));
        value = reduced && reduced->isConstant() ? *reduced : ExprAttr();
        llvm::consumeError(reduced.takeError());
      } else if (!decl.getDerived()) {
        value = bindings.lookup(decl.getName());
      }
      if (value)
        given[decl.getName()] = value;
    }
    return bindKnown(kernel, given, [&] { return launch.emitError(); });
  }

  /// Adds the constraint that a launch with blocks for short loops has only such loops. It is one
  /// of the kernel: a program may have variants of it.
  void require(Reached &reached, int64_t longest) {
    MLIRContext *context = module.getContext();
    auto limit = ExprAttr::getInt(context, longest);
    auto isShort = ExprAttr::get(context, ExprKind::Call, 0, "<=", {reached.getLength(), limit});
    llvm::SetVector<Attribute> constraints;
    constraints.insert(isShort); // once for a kernel that is launched several times
    constraints.insert_range(Signature(reached.kernel).constraints);
    reached.kernel->setAttr("constraints", ArrayAttr::get(context, constraints.getArrayRef()));
  }

  /// The operand that a select takes, if its condition is known; other expressions as they are.
  static ExprAttr resolveSelect(ExprAttr expr, const Bindings &bindings) {
    while (expr.getKind() == ExprKind::Call && expr.getName() == "select") {
      llvm::Expected<ExprAttr> flag =
          reduceExpr(expr.getOperands().front(), getEnvironment(bindings));
      bool isKnown = flag && flag->getKind() == ExprKind::Flag;
      if (isKnown)
        expr = expr.getOperands()[flag->getValue() ? 1 : 2];
      llvm::consumeError(flag.takeError());
      if (!isKnown)
        break;
    }
    return expr;
  }

  /// Whether a parameter of the entry is this extent of the kernel, directly or through the launch.
  static bool names(ParamDeclAttr decl, const Reached &reached, Dim dim, const Bindings &bindings) {
    if (!dim.isSymbol())
      return false;
    ExprAttr with = reached.launch ? getWith(reached.launch, dim.symbol) : ExprAttr();
    if (with)
      with = resolveSelect(with, bindings);
    if (with)
      return with.getKind() == ExprKind::Name && with.getName() == decl.getName();
    return dim.symbol.getValue() == decl.getName();
  }

  /// The number that a block must divide; 0 if there is none.
  FailureOr<int64_t> getMultiple(ParamDeclAttr decl, const Bindings &bindings) {
    if (decl.getDefaultValue().getOperands().empty())
      return 0;
    llvm::Expected<ExprAttr> value =
        evaluateExpr(decl.getDefaultValue().getOperands().front(), getEnvironment(bindings));
    if (value)
      return value->getValue();
    return entry->emitError("the extent that block ")
           << decl.getName() << " of " << tilewright::describe(entry)
           << " must divide cannot be computed: " << llvm::toString(value.takeError());
  }

  /// Chooses by the first kernel that has the parameter as an extent.
  FailureOr<ExprAttr> choose(ParamDeclAttr decl, ExprAttr given, const Bindings &bindings) {
    Builder builder(module.getContext());
    auto emit = [&] {
      return entry->emitError("block ")
             << decl.getName() << " of " << tilewright::describe(entry) << " ";
    };
    Reached *user = nullptr;
    StringRef role;
    int64_t extent = 0;
    for (Reached &each : reached) {
      const LoopStructure &structure = each.structure;
      const BlockRow &row = *each.choice.row;
      for (auto [name, dim, value] : {std::tuple("rows", structure.rows, row.rows),
                                      std::tuple("columns", structure.columns, row.columns),
                                      std::tuple("step", structure.step, fitStep(each))})
        if (!user && names(decl, each, dim, bindings)) {
          user = &each;
          role = name;
          extent = value;
        }
    }
    for (Reached &each : reached)
      for (Dim dim : {each.structure.rows, each.structure.columns, each.structure.step})
        if (&each != user && !each.chooser && names(decl, each, dim, bindings))
          each.chooser = user;
    if (!user && given)
      return given;
    if (!user)
      return emit() << "is neither the extent of an operand of a product in a loop nor that of the "
                       "rows that a kernel loads, so it cannot be chosen; give it a default or a "
                       "value";
    const bool hasProducts = user->structure.products != 0;
    BlockLimits limits = BlockLimits::get(target, hasProducts);
    if (given) {
      if (given.getKind() != ExprKind::Int || !limits.allow(given.getValue()))
        return emit() << "is for the " << role << (hasProducts ? " of products" : " of its loads")
                      << " and must be " << limits.describe() << " on " << target << ", but got "
                      << tile::toString(given);
      extent = given.getValue();
    }
    if (!extent)
      return emit() << "is for the " << role << " of products, which the row for '"
                    << user->choice.row->describe() << "' does not give; give it a value";
    FailureOr<int64_t> multiple = getMultiple(decl, bindings);
    if (failed(multiple))
      return failure();
    int64_t most = extent;
    if (!given && *multiple) {
      // Rows of loads may have any number, but are divided evenly by those of products if possible.
      auto findDivisor = [&](BlockLimits of) {
        int64_t divisor = most;
        while (divisor && !(of.allow(divisor) && *multiple % divisor == 0))
          --divisor;
        return divisor;
      };
      extent = findDivisor(BlockLimits::get(target));
      if (!extent)
        extent = findDivisor(limits);
    }
    if (!extent)
      return emit() << "must divide " << *multiple << " and be " << limits.describe() << " on "
                    << target << ", of at most " << most << ", but there is no such number";
    user->usesTable |= !given;
    if (role == "step")
      user->step = extent;
    else if (role == "rows")
      user->rows = extent;
    std::string text = (decl.getName() + " = " + Twine(extent) + (given ? ", as given" : "")).str();
    user->report.push_back(builder.getNamedAttr(role, builder.getStringAttr(text)));
    return ExprAttr::getInt(module.getContext(), extent);
  }

  /// Says that no measurement is behind the blocks of a kernel.
  void remark(Reached &reached) {
    if (target == "cpu")
      return;
    std::string extents;
    for (NamedAttribute each : reached.report)
      extents += (extents.empty() ? "" : ", ") + cast<StringAttr>(each.getValue()).str();
    reached.kernel->emitRemark("blocks by ")
        << (reached.choice.modeled ? "model" : "general rule") << ", not measured: " << extents
        << "; the table of blocks has no row for the structure '" << reached.query.structure
        << "'; measure others and pass them as parameters or by --blocks";
  }

  /// The blocks that need fewer registers: "BLOCK_N = 128, BLOCK_M = 48". By the estimate they fit.
  std::string describeFewer(const Reached &reached) const {
    std::string text;
    int64_t least = reached.rows && hasRoles(reached)
                        ? reached.body.fitBelow(reached.rows, reached.step)
                        : reached.step;
    if (least >= reached.step)
      return text;
    for (NamedAttribute each : reached.report) {
      StringRef chosen = cast<StringAttr>(each.getValue()).getValue().split(',').first;
      text += text.empty() ? "" : ", ";
      text += each.getName() == "step" ? (chosen.split(" =").first + " = " + Twine(least)).str()
                                       : chosen.str();
    }
    return text;
  }

  /// Records the input and the result of the choice, for reports and tools.
  void describe(Reached &reached) {
    if (reached.report.empty())
      return;
    if (reached.usesTable && !byModel && reached.choice.row->structure.empty() &&
        !reached.choice.isUsers)
      remark(reached);
    Builder builder(module.getContext());
    auto add = [&](StringRef name, Attribute value) {
      reached.report.push_back(builder.getNamedAttr(name, value));
    };
    const BlockQuery &query = reached.query;
    const BlockChoice &choice = reached.choice;
    std::string fewer = describeFewer(reached);
    add("structure", builder.getStringAttr(query.structure));
    add("target", builder.getStringAttr(query.target));
    add("bits", builder.getI64IntegerAttr(query.bits));
    add("row_bytes", builder.getI64IntegerAttr(query.getBytes()));
    if (query.narrowest < query.elements)
      add("narrow_bytes", builder.getI64IntegerAttr(query.getLeastBytes()));
    add("mask", builder.getStringAttr(getName(query.mask)));
    add("by",
        builder.getStringAttr(!reached.usesTable ? "the caller"
                              : choice.modeled   ? "a model, not measured"
                              : choice.isUsers   ? "the file of blocks: " + choice.row->describe()
                                                 : "the table: " + choice.row->describe() +
                                                       (fitStep(reached) < choice.row->step
                                                            ? ", and the registers of gradients"
                                                            : "")));
    if (!fewer.empty())
      add(fewerRegistersName, builder.getStringAttr(fewer));
    if (reached.usesTable && !reached.isLeftOut && !choice.shorter.empty())
      add("shorter", builder.getI64ArrayAttr(choice.shorter));
    auto all = builder.getDictionaryAttr(reached.report);
    entry->setAttr(blocksAttrName, all);
    if (reached.launch)
      reached.launch->setAttr(blocksAttrName, all);
  }

  ModuleOp module;
  Operation *entry;
  Signature signature;
  const BlockTable &table;
  StringRef target;
  int64_t length, shared;
  bool byModel;
  bool addsGradients = false; ///< some loop adds gradients of captures
  /// Sorted by the number of products, descending; before those without, those that are left out.
  std::vector<Reached> reached;
};

struct TileChooseBlocksPass : tilewright::impl::TileChooseBlocksBase<TileChooseBlocksPass> {
  using TileChooseBlocksBase::TileChooseBlocksBase;

  void runOnOperation() override {
    if (length < 0) {
      emitError(getOperation().getLoc())
          << "the maximum length of loops must be at least 0, where 0 is any length, but got "
          << length.getValue() << "; see --length";
      return signalPassFailure();
    }
    if (failed(expandLaunchLets(getOperation())))
      return signalPassFailure();
    // tile-specialize reports a missing entry.
    Operation *chosen = findEntry(getOperation(), entry, /*explain=*/false);
    if (!chosen || llvm::none_of(Signature(chosen).params.getAsRange<ParamDeclAttr>(), isBlock))
      return;
    BlockTable blocks;
    if (failed(readTable(blocks)))
      return signalPassFailure();
    std::vector<std::string> assignments(params.begin(), params.end());
    Chooser chooser(getOperation(), chosen, blocks, target.getValue(), length, shared, byModel);
    if (failed(chooser.run(assignments)))
      signalPassFailure();
  }

private:
  LogicalResult readTable(BlockTable &blocks) {
    if (table.empty())
      return success();
    auto buffer = llvm::MemoryBuffer::getFile(table, /*IsText=*/true);
    if (!buffer)
      return emitError(getOperation().getLoc())
             << "cannot open the file of blocks '" << table.getValue()
             << "': " << buffer.getError().message();
    if (llvm::Error error = blocks.prepend((*buffer)->getBuffer()))
      return emitError(getOperation().getLoc())
             << "file of blocks '" << table.getValue() << "': " << llvm::toString(std::move(error));
    return success();
  }
};

} // namespace
