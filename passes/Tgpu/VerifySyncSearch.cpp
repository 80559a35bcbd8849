// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: the launches with which the loops of a kernel are searched for ways of
// execution. A launch follows from a list of numbers, so that a small change of a launch that found
// something is a change of a number. Extents that constraints equate are one variable.

#include "passes/Tgpu/VerifySync.h"
#include "passes/Tgpu/WrittenViews.h"

#include "base/Target/Target.h"
#include "dialect/Tile/TileExpr.h"
#include "dialect/Tile/TileExprEval.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/EquivalenceClasses.h"

#include <map>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;
using tile::ExprAttr;
using tile::ExprKind;

namespace {

constexpr int64_t kTileMultiples[] = {2, 1, 3, 4, 5, 0, 2, 7};
constexpr int64_t kFewElements[] = {1, 2, 1, 2, 4, 2, 3, 2};
/// With an odd gene, few. With many, a block has one tile.
int64_t getMultiprocessorCount(int64_t gene) {
  return gene & 1 ? (gene & 2 ? 2 : 4) : Target::getMostMultiprocessors();
}
/// For each set of genes, the blocks that are traced.
constexpr int kBlocksOfLaunch = 2;
/// A kernel whose launches have more elements along a dimension only repeats what fewer show.
constexpr int64_t kMostElements = int64_t(1) << 20;

/// Which functions the elements of arrays are: begins of sequences of one length; begins and ends
/// of spans that move with the row; begins and ends of documents; or of any kind.
enum class Profile { Usual, Spans, Documents, Any };

/// An extent: an argument (of the kernel or of its program) or capture, by name, and a dimension.
using Extent = std::pair<StringRef, int64_t>;

/// The value that genes select: a multiple of a tile, or a little more or less than that.
int64_t selectExtent(uint32_t gene, const TilesOfDim &tiles) {
  int64_t tile = gene & 8 ? tiles.smallest : tiles.largest;
  int64_t multiple = kTileMultiples[gene & 7] * tile;
  switch (gene >> 4 & 7) {
  case 0:
  case 1:
  case 2:
    return multiple;
  case 3:
    return multiple + 1;
  case 4:
    return multiple + tile / 2 + 3;
  case 5:
    return multiple + tiles.smallest;
  default:
    return std::max<int64_t>(multiple - 1, 0);
  }
}

/// Numbers near the largest exceed all positions: a mask cannot compute with them.
int64_t selectNumber(uint32_t gene, const TilesOfDim &tiles) {
  int64_t number = selectExtent(gene, tiles);
  return (gene >> 8) % 4 == 0 ? std::numeric_limits<int32_t>::max() - number : number;
}

/// Integers are the sides of windows, numbers of parts, or positions.
int64_t selectInteger(uint32_t gene, const TilesOfDim &tiles) {
  constexpr int64_t few[] = {-1, 0, 1, 2, 3, 4};
  uint32_t kind = gene % 8;
  return kind < std::size(few) ? few[kind] : selectNumber(gene >> 3, tiles);
}

} // namespace

int64_t LaunchSpace::Derived::getExtent(const ArrayRoot &array, int64_t dim) const {
  if (!array.capture.empty()) {
    auto found = captureExtents.find(array.capture);
    return found == captureExtents.end() ? 0 : found->second[dim];
  }
  auto found = extents.find(array.view);
  return found == extents.end() || isAbsent(array.view) ? 0 : found->second[dim];
}

int64_t LaunchSpace::Derived::getElement(const ArrayRoot &array, ArrayRef<int64_t> indices) const {
  Table table =
      array.capture.empty() ? tables.lookup(array.view) : captureTables.lookup(array.capture);
  int64_t number = std::max<int64_t>(table.number, 1);
  if (indices.empty())
    return table.number;
  int64_t last = indices.back();
  switch (table.kind % 8) {
  case 0: // offsets of sequences of equal lengths
    return last * table.longest;
  case 1: // numbers of blocks
    return last + 1;
  case 2: // offsets of sequences of different lengths, among them 0
    return last / 2 * number + (last % 2) * (number / 2);
  case 3:
    return table.number;
  case 4: // spans that move with the row
    return last + number;
  case 5:
    return std::max<int64_t>(last - number, 0);
  case 6: // begin and end of documents
    return last / number * number;
  default:
    return (last / number + 1) * number;
  }
}

struct LaunchSpace::Impl {
  explicit Impl(KernelOp kernel);

  struct Variable {
    bool hasTiles = false;
    TilesOfDim tiles;
  };
  struct Array {
    StringRef name;
    SmallVector<int64_t, 4> variables; // or -1 for a known extent
    SmallVector<int64_t, 4> known;
    bool isOptional = false;
  };
  struct TableOf {
    Value argument;
    StringRef capture;
  };

  void addArray(StringRef name, Type type, bool isOptional);
  void readConstraints(ArrayAttr constraints);
  void equateExtents(const tile::Signature &signature);
  int64_t getVariable(const Extent &extent);

  KernelOp kernel;
  Operation *root; // the program that launches the kernel, or the kernel
  SmallVector<tile::LaunchOp> launches;
  std::vector<Array> arrays; // of the root, then captures
  size_t numArguments = 0;
  std::vector<StringRef> integers;
  std::vector<TableOf> tables;
  std::vector<Variable> variables;
  llvm::EquivalenceClasses<Extent> equal;
  std::map<Extent, int64_t> variableOf; // by leader
  std::vector<std::pair<Extent, ExprAttr>> equations;
  SmallVector<ExprAttr> conditions;         // of the root
  SmallVector<ExprAttr> conditionsOfKernel; // if the root is a program
  TilesOfDim tiles;                         // of all dimensions
};

static bool isDimNode(ExprAttr expr) { return expr.getKind() == ExprKind::Dim; }
static Extent extentOf(ExprAttr dim) { return {dim.getName(), dim.getValue()}; }

LaunchSpace::Impl::Impl(KernelOp kernel) : kernel(kernel), root(kernel) {
  auto module = kernel->getParentOfType<ModuleOp>();
  for (auto program : module.getOps<tile::ProgramOp>())
    for (auto launch : program.getBody().getOps<tile::LaunchOp>())
      if (launch.getKernel() == kernel.getSymName() && (root == kernel || root == program)) {
        root = program;
        launches.push_back(launch);
      }
  llvm::DenseSet<Value> accessed;
  TiledDims tiled = findTiledDims(kernel, accessed);
  tiles = {16, 16};
  for (auto &[dim, found] : tiled) {
    tiles.largest = std::max(tiles.largest, found.largest);
    tiles.smallest = std::min(tiles.smallest, found.smallest);
  }
  std::optional<tile::Signature> signature;
  if (root == kernel)
    signature.emplace(kernel.getSignature());
  else
    signature.emplace(root);
  if (signature->constraints && !signature->constraints.empty())
    readConstraints(signature->constraints);
  else
    equateExtents(*signature);
  if (root != kernel && kernel.getConstraints())
    for (auto constraint : kernel.getConstraints()->getAsRange<ExprAttr>())
      conditionsOfKernel.push_back(constraint);
  for (auto [i, name] : llvm::enumerate(signature->argNames.getAsRange<StringAttr>())) {
    Type type = signature->getArgType(i);
    if (isa<IntegerType>(type))
      integers.push_back(name.getValue());
    else if (isa<tile::ViewType>(type))
      addArray(name, type, signature->argOptional[i]);
  }
  numArguments = arrays.size();
  for (auto capture : module.getOps<tile::CaptureOp>())
    if (isa<tile::ViewType>(capture.getType()))
      addArray(capture.getSymName(), capture.getType(), false);
  // The tiles of a variable, from those of the views that the kernel accesses.
  auto noteTiles = [&](StringRef name, int64_t dim, const TilesOfDim &found) {
    for (Array &array : arrays)
      if (array.name == name && array.variables[dim] >= 0) {
        Variable &variable = variables[array.variables[dim]];
        TilesOfDim &all = variable.tiles;
        all.largest = variable.hasTiles ? std::max(all.largest, found.largest) : found.largest;
        all.smallest = std::min(all.smallest, found.smallest);
        variable.hasTiles = true;
      }
  };
  for (auto &[dim, found] : tiled) {
    if (found.largest == 0)
      continue;
    ArrayRoot array = getArrayRoot(dim.first);
    if (!array.capture.empty()) {
      noteTiles(array.capture, dim.second, found);
      continue;
    }
    auto argument = dyn_cast<BlockArgument>(array.view);
    if (!argument)
      continue;
    if (root == kernel)
      noteTiles(cast<StringAttr>(kernel.getArgNames()[argument.getArgNumber()]).getValue(),
                dim.second, found);
    for (tile::LaunchOp launch : launches)
      if (auto given = dyn_cast<BlockArgument>(launch.getArgs()[argument.getArgNumber()]))
        noteTiles(cast<StringAttr>(signature->argNames[given.getArgNumber()]).getValue(),
                  dim.second, found);
  }
  // Arrays of which single elements are read.
  auto noteTable = [&](tile::AtOp at) {
    TableOf table;
    if (at.getView()) {
      ArrayRoot array = getArrayRoot(at.getView());
      table = {array.view, array.capture};
    } else {
      table.capture = at.getCapture().value_or("");
    }
    bool isKnown = llvm::any_of(tables, [&](const TableOf &other) {
      return other.argument == table.argument && other.capture == table.capture;
    });
    if (!isKnown && (!table.capture.empty() || isa_and_present<BlockArgument>(table.argument)))
      tables.push_back(table);
  };
  kernel.walk(noteTable);
  for (auto function : module.getOps<func::FuncOp>())
    function.walk([&](tile::AtOp at) {
      if (!at.getView())
        noteTable(at);
    });
}

int64_t LaunchSpace::Impl::getVariable(const Extent &extent) {
  Extent leader =
      equal.findLeader(extent) == equal.member_end() ? extent : *equal.findLeader(extent);
  auto [found, isNew] = variableOf.try_emplace(leader, variables.size());
  if (isNew)
    variables.emplace_back();
  return found->second;
}

void LaunchSpace::Impl::addArray(StringRef name, Type type, bool isOptional) {
  Array array;
  array.name = name;
  array.isOptional = isOptional;
  for (auto [i, dim] : llvm::enumerate(tile::getDims(type))) {
    bool isKnown = !dim.isUnknown() && !dim.isSymbol();
    array.known.push_back(isKnown ? dim.extent : 0);
    array.variables.push_back(isKnown ? -1 : getVariable({array.name, static_cast<int64_t>(i)}));
  }
  arrays.push_back(std::move(array));
}

/// Equal extents become one variable; an extent that equals another expression is computed; all
/// other constraints are evaluated.
void LaunchSpace::Impl::readConstraints(ArrayAttr constraints) {
  for (auto constraint : constraints.getAsRange<ExprAttr>()) {
    bool isEquation = constraint.getKind() == ExprKind::Call &&
                      tile::getFunction(constraint) == expr::Function::Equal;
    if (!isEquation) {
      conditions.push_back(constraint);
      continue;
    }
    ExprAttr left = constraint.getOperands()[0], right = constraint.getOperands()[1];
    if (isDimNode(left) && isDimNode(right))
      equal.unionSets(extentOf(left), extentOf(right));
    else if (isDimNode(left) || isDimNode(right))
      equations.push_back(isDimNode(left) ? std::pair(extentOf(left), right)
                                          : std::pair(extentOf(right), left));
    if (!(isDimNode(left) && isDimNode(right)))
      conditions.push_back(constraint);
  }
}

/// Without constraints, it is not known which extents must be equal: those of one dimension are.
void LaunchSpace::Impl::equateExtents(const tile::Signature &signature) {
  llvm::DenseMap<int64_t, Extent> first;
  for (auto [i, name] : llvm::enumerate(signature.argNames.getAsRange<StringAttr>())) {
    if (!isa<tile::ViewType>(signature.getArgType(i)))
      continue;
    for (int64_t dim = 0, rank = tile::getRank(signature.getArgType(i)); dim < rank; ++dim) {
      Extent extent(name.getValue(), dim);
      equal.unionSets(first.try_emplace(dim, extent).first->second, extent);
    }
  }
}

LaunchSpace::LaunchSpace(KernelOp kernel) : impl(std::make_unique<Impl>(kernel)) {}
LaunchSpace::~LaunchSpace() = default;

/// The first genes: the answer of conditions on data, the number of multiprocessors, the launch of
/// the program, which optional arguments are absent, and one gene for each traced block.
constexpr size_t kFirstGenes = 4 + kBlocksOfLaunch;

size_t LaunchSpace::getNumGenes() const {
  return kFirstGenes + impl->variables.size() + impl->integers.size() + 2 * impl->tables.size();
}

std::unique_ptr<LaunchSpace::Derived> LaunchSpace::derive(ArrayRef<uint32_t> genes) const {
  const Impl &space = *impl;
  KernelOp kernel = space.kernel;
  MLIRContext *context = kernel.getContext();
  auto launch = std::make_unique<Derived>();
  launch->answers.onData = genes[0] % 3 != 0;
  launch->answers.ofVotes = static_cast<Answers::Votes>(genes[0] / 3 % 3);
  ArrayRef<uint32_t> next = genes.drop_front(kFirstGenes);
  auto take = [&] {
    uint32_t gene = next.front();
    next = next.drop_front();
    return gene;
  };
  SmallVector<int64_t> values;
  int64_t longest = 1;
  for (const Impl::Variable &variable : space.variables) {
    uint32_t gene = take();
    values.push_back(variable.hasTiles ? selectExtent(gene, variable.tiles)
                                       : kFewElements[gene & 7]);
    if (variable.hasTiles)
      longest = std::max(longest, values.back());
  }
  llvm::StringMap<int64_t> integers;
  for (StringRef name : space.integers)
    integers[name] = selectInteger(take(), space.tiles);

  // The arguments and captures of the root.
  auto isAbsent = [&](size_t array) {
    return space.arrays[array].isOptional && (genes[3] >> (array % 16) & 3) == 0;
  };
  auto findArray = [&](StringRef name) -> const Impl::Array * {
    for (const Impl::Array &array : space.arrays)
      if (array.name == name)
        return &array;
    return nullptr;
  };
  auto extentOfArray = [&](const Impl::Array &array, int64_t dim) {
    int64_t variable = array.variables[dim];
    return variable < 0 ? array.known[dim] : values[variable];
  };
  tile::ExprEnvironment environment;
  environment.smCount = getMultiprocessorCount(genes[1]);
  environment.dim = [&](StringRef name, int64_t dim) -> std::optional<int64_t> {
    const Impl::Array *array = findArray(name);
    if (!array)
      return std::nullopt;
    return extentOfArray(*array, dim);
  };
  environment.name = [&](StringRef name) -> ExprAttr {
    auto found = integers.find(name);
    return found == integers.end() ? nullptr : ExprAttr::getInt(context, found->second);
  };
  auto evaluate = [&](ExprAttr expr) -> std::optional<int64_t> {
    llvm::Expected<int64_t> value = tile::evaluateInt(expr, environment);
    if (value)
      return *value;
    llvm::consumeError(value.takeError());
    return std::nullopt;
  };
  for (auto &[extent, expr] : space.equations)
    if (const Impl::Array *array = findArray(extent.first))
      if (int64_t variable = array->variables[extent.second]; variable >= 0)
        if (std::optional<int64_t> value = evaluate(expr))
          values[variable] = *value;
  if (llvm::any_of(values, [](int64_t value) { return value < 0 || value > kMostElements; }))
    return nullptr;
  // An integer that a constraint fixes has this value; constraints on elements are not evaluated.
  auto holds = [&](ExprAttr condition) {
    llvm::Expected<bool> value = tile::evaluateFlag(condition, environment);
    if (value)
      return *value;
    llvm::consumeError(value.takeError());
    return true;
  };
  for (ExprAttr condition : space.conditions) {
    if (condition.getKind() == ExprKind::Call &&
        tile::getFunction(condition) == expr::Function::Equal &&
        condition.getOperands()[0].getKind() == ExprKind::Name)
      if (auto found = integers.find(condition.getOperands()[0].getName()); found != integers.end())
        if (std::optional<int64_t> value = evaluate(condition.getOperands()[1]))
          found->second = *value;
  }

  if (!llvm::all_of(space.conditions, holds))
    return nullptr;

  // The arguments of the kernel.
  tile::LaunchOp call;
  if (!space.launches.empty())
    call = space.launches[genes[2] % space.launches.size()];
  auto root = call ? tile::Signature(space.root) : kernel.getSignature();
  auto nameOf = [&](unsigned i) { return cast<StringAttr>(root.argNames[i]).getValue(); };
  for (auto [i, argument] : llvm::enumerate(kernel.getArgs())) {
    Value given = call ? call.getArgs()[i] : Value(argument);
    auto source = dyn_cast<BlockArgument>(given);
    if (isa<IntegerType>(argument.getType())) {
      launch->integers[argument] = source ? integers.lookup(nameOf(source.getArgNumber())) : 0;
      continue;
    }
    if (!isa<tile::ViewType>(argument.getType()))
      continue;
    SmallVector<int64_t> &extents = launch->extents[argument];
    if (source) {
      const Impl::Array *array = findArray(nameOf(source.getArgNumber()));
      if (isAbsent(array - space.arrays.data()))
        launch->absent.insert(argument);
      for (size_t dim = 0; dim < array->variables.size(); ++dim)
        extents.push_back(extentOfArray(*array, static_cast<int64_t>(dim)));
    } else if (auto workspace = given.getDefiningOp<tile::WorkspaceOp>()) {
      for (auto extent : workspace.getExtents().getAsRange<ExprAttr>())
        extents.push_back(evaluate(extent).value_or(0));
    }
  }
  if (call && call.getCondition() && !holds(*call.getCondition()))
    return nullptr;
  if (call) // from here on, names are those of the kernel's arguments
    environment.dim = [&](StringRef name, int64_t dim) -> std::optional<int64_t> {
      int at = kernel.getSignature().findArg(name);
      if (at < 0)
        return std::nullopt;
      auto found = launch->extents.find(kernel.getArgs()[at]);
      return found == launch->extents.end() ? std::nullopt
                                            : std::optional<int64_t>(found->second[dim]);
    };
  if (call)
    environment.name = [&](StringRef name) -> ExprAttr {
      int at = kernel.getSignature().findArg(name);
      auto found = at < 0 ? launch->integers.end() : launch->integers.find(kernel.getArgs()[at]);
      return found == launch->integers.end() ? nullptr : ExprAttr::getInt(context, found->second);
    };
  if (!llvm::all_of(space.conditionsOfKernel, holds))
    return nullptr;
  for (auto extent : kernel.getGrid().getAsRange<ExprAttr>()) {
    std::optional<int64_t> value = evaluate(extent);
    if (!value || *value <= 0)
      return nullptr;
    launch->grid.push_back(*value);
  }

  // Captures may be shorter than the rows that they describe; usually, they are not.
  auto profile = static_cast<Profile>(genes[2] >> 8 & 3);
  for (size_t i = space.numArguments; i < space.arrays.size(); ++i)
    for (size_t dim = 0; dim < space.arrays[i].variables.size(); ++dim)
      launch->captureExtents[space.arrays[i].name].push_back(
          std::max(extentOfArray(space.arrays[i], static_cast<int64_t>(dim)),
                   profile == Profile::Any ? 0 : longest));
  for (const Impl::TableOf &table : space.tables) {
    Derived::Table elements;
    uint32_t gene = take();
    switch (profile) {
    case Profile::Usual:
      elements.kind = 0;
      break;
    case Profile::Spans:
      elements.kind = launch->tables.size() + launch->captureTables.size();
      elements.kind = 5 - elements.kind % 2;
      break;
    case Profile::Documents:
      elements.kind = launch->tables.size() + launch->captureTables.size();
      elements.kind = 6 + elements.kind % 2;
      break;
    case Profile::Any:
      elements.kind = gene % 8;
      break;
    }
    elements.number = selectNumber(take(), space.tiles);
    elements.longest = longest;
    if (table.argument)
      launch->tables[table.argument] = elements;
    else
      launch->captureTables[table.capture] = elements;
  }
  for (int i = 0; i < kBlocksOfLaunch; ++i) {
    uint32_t gene = genes[4 + i];
    SmallVector<int64_t> block;
    for (int64_t extent : launch->grid) {
      int64_t last = extent - 1, at = gene % 4 == 0   ? 0
                                      : gene % 4 == 1 ? last
                                      : gene % 4 == 2 ? extent / 2
                                                      : gene / 4 % extent;
      block.push_back(std::clamp<int64_t>(at, 0, last));
      gene = gene / 4 * 5 + 1;
    }
    if (!llvm::is_contained(launch->blocks, block))
      launch->blocks.push_back(block);
  }
  return launch;
}
