// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: derives a launch from a list of numbers, such that the constraints of the
// kernel, or of the program that launches it, hold.

#include "passes/Tgpu/Sync/VerifySyncSpace.h"

#include "base/Target/Target.h"
#include "dialect/Tile/TileExprEval.h"

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
int64_t getMultiprocessorCount(uint32_t gene) {
  return gene & 1 ? (gene & 2 ? 2 : 4) : Target::getMostMultiprocessors();
}
/// The kinds of functions of Derived::getElement; the last is a number below kFewBlocks.
constexpr uint32_t kNumKinds = 10;
constexpr int64_t kFewBlocks = 8;
/// A kernel whose launches have more elements along a dimension only repeats what fewer show.
constexpr int64_t kMostElements = int64_t(1) << 20;

/// Which functions the elements of arrays are: begins of sequences of one length; begins and ends
/// of spans that move with the row; begins and ends of documents; or of any kind.
enum class Profile { Usual, Spans, Documents, Any };

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

/// Derives one launch. The steps are in the order in which one depends on the other.
class Derivation {
public:
  Derivation(const LaunchSpace::Impl &space, ArrayRef<uint32_t> genes)
      : space(space), kernel(space.kernel), genes(genes), rest(genes.drop_front(kFirstGenes)),
        launch(std::make_unique<LaunchSpace::Derived>()) {}

  /// Null if the constraints do not hold, or there is no block.
  std::unique_ptr<LaunchSpace::Derived> run() {
    launch->answers.onData = genes[0] % 3 != 0;
    launch->answers.ofVotes = static_cast<Answers::Votes>(genes[0] / 3 % 3);
    if (!space.launches.empty())
      call = space.launches[genes[2] % space.launches.size()];
    chooseNumbers();
    if (!computeExtents() || !meetConstraints())
      return nullptr;
    bindArguments();
    if (call && call.getCondition() && !holds(*call.getCondition()))
      return nullptr;
    if (call)
      nameByKernel();
    if (!llvm::all_of(space.conditionsOfKernel, [&](ExprAttr e) { return holds(e); }) || !setGrid())
      return nullptr;
    bindCaptures();
    chooseTables();
    chooseBlocks();
    return std::move(launch);
  }

private:
  using Impl = LaunchSpace::Impl;

  uint32_t take() {
    uint32_t gene = rest.front();
    rest = rest.drop_front();
    return gene;
  }

  //===--- Expressions -------------------------------------------------------===//

  std::optional<int64_t> evaluate(ExprAttr expr) const {
    llvm::Expected<int64_t> value = tile::evaluateInt(expr, environment);
    if (value)
      return *value;
    llvm::consumeError(value.takeError());
    return std::nullopt;
  }

  /// Constraints on elements are not evaluated, and count as true.
  bool holds(ExprAttr condition) const {
    llvm::Expected<bool> value = tile::evaluateFlag(condition, environment);
    if (value)
      return *value;
    llvm::consumeError(value.takeError());
    return true;
  }

  int64_t extentOfArray(const Impl::Array &array, int64_t dim) const {
    int64_t variable = array.variables[dim];
    return variable < 0 ? array.known[dim] : values[variable];
  }

  //===--- The root: a program, or the kernel --------------------------------===//

  void chooseNumbers() {
    for (const Impl::Variable &variable : space.variables) {
      uint32_t gene = take();
      values.push_back(variable.hasTiles ? selectExtent(gene, variable.tiles)
                                         : kFewElements[gene & 7]);
      if (variable.hasTiles)
        longest = std::max(longest, values.back());
    }
    for (StringRef name : space.integers)
      integers[name] = selectInteger(take(), space.tiles);
    environment.smCount = getMultiprocessorCount(genes[1]);
    environment.dim = [this](StringRef name, int64_t dim) -> std::optional<int64_t> {
      const Impl::Array *array = space.findArray(name);
      return array ? std::optional(extentOfArray(*array, dim)) : std::nullopt;
    };
    environment.name = [this](StringRef name) -> ExprAttr {
      auto found = integers.find(name);
      return found == integers.end() ? nullptr
                                     : ExprAttr::getInt(kernel.getContext(), found->second);
    };
  }

  bool computeExtents() {
    for (auto &[extent, expr] : space.equations)
      if (const Impl::Array *array = space.findArray(extent.first))
        if (int64_t variable = array->variables[extent.second]; variable >= 0)
          if (std::optional<int64_t> value = evaluate(expr))
            values[variable] = *value;
    return llvm::all_of(values, [](int64_t value) { return value >= 0 && value <= kMostElements; });
  }

  /// An integer that a constraint fixes has this value.
  bool meetConstraints() {
    for (ExprAttr condition : space.conditions) {
      bool isEquation = condition.getKind() == ExprKind::Call &&
                        tile::getFunction(condition) == expr::Function::Equal;
      if (!isEquation || condition.getOperands()[0].getKind() != ExprKind::Name)
        continue;
      auto found = integers.find(condition.getOperands()[0].getName());
      if (found == integers.end())
        continue;
      if (std::optional<int64_t> value = evaluate(condition.getOperands()[1]))
        found->second = *value;
    }
    return llvm::all_of(space.conditions, [&](ExprAttr condition) { return holds(condition); });
  }

  //===--- The kernel --------------------------------------------------------===//

  void bindArguments() {
    auto root = call ? tile::Signature(space.root) : kernel.getSignature();
    auto nameOf = [&](BlockArgument source) {
      return cast<StringAttr>(root.argNames[source.getArgNumber()]).getValue();
    };
    for (auto [i, argument] : llvm::enumerate(kernel.getArgs())) {
      Value given = call ? call.getArgs()[i] : Value(argument);
      auto source = dyn_cast<BlockArgument>(given);
      if (isa<IntegerType>(argument.getType()))
        launch->integers[argument] = source ? integers.lookup(nameOf(source)) : 0;
      if (!isa<tile::ViewType>(argument.getType()))
        continue;
      SmallVector<int64_t> &extents = launch->extents[argument];
      if (source) {
        const Impl::Array *array = space.findArray(nameOf(source));
        size_t number = array - space.arrays.data();
        if (array->isOptional && (genes[3] >> (number % 16) & 3) == 0)
          launch->absent.insert(argument);
        for (size_t dim = 0; dim < array->variables.size(); ++dim)
          extents.push_back(extentOfArray(*array, static_cast<int64_t>(dim)));
      } else if (auto workspace = given.getDefiningOp<tile::WorkspaceOp>()) {
        for (auto extent : workspace.getExtents().getAsRange<ExprAttr>())
          extents.push_back(evaluate(extent).value_or(0));
      }
    }
  }

  /// From here on, names are those of the kernel's arguments.
  void nameByKernel() {
    auto argumentOf = [this](StringRef name) {
      int at = kernel.getSignature().findArg(name);
      return at < 0 ? Value() : Value(kernel.getArgs()[at]);
    };
    environment.dim = [this, argumentOf](StringRef name, int64_t dim) -> std::optional<int64_t> {
      auto found = launch->extents.find(argumentOf(name));
      return found == launch->extents.end() ? std::nullopt
                                            : std::optional<int64_t>(found->second[dim]);
    };
    environment.name = [this, argumentOf](StringRef name) -> ExprAttr {
      auto found = launch->integers.find(argumentOf(name));
      return found == launch->integers.end() ? nullptr
                                             : ExprAttr::getInt(kernel.getContext(), found->second);
    };
  }

  bool setGrid() {
    for (auto extent : kernel.getGrid().getAsRange<ExprAttr>()) {
      std::optional<int64_t> value = evaluate(extent);
      if (!value || *value <= 0)
        return false;
      launch->grid.push_back(*value);
    }
    return true;
  }

  //===--- Captures, elements, blocks ----------------------------------------===//

  Profile getProfile() const { return static_cast<Profile>(genes[2] >> 8 & 3); }

  /// Captures may be shorter than the rows that they describe; usually, they are not.
  void bindCaptures() {
    int64_t least = getProfile() == Profile::Any ? 0 : longest;
    for (const Impl::Array &array : ArrayRef(space.arrays).drop_front(space.numArguments))
      for (size_t dim = 0; dim < array.variables.size(); ++dim)
        launch->captureExtents[array.name].push_back(
            std::max(extentOfArray(array, static_cast<int64_t>(dim)), least));
  }

  void chooseTables() {
    for (const Impl::TableOf &table : space.tables) {
      LaunchSpace::Derived::Table elements;
      elements.kind = selectKind(take(), table);
      uint32_t gene = take();
      // A number may be a flag, or how many there are.
      bool isZero = table.isNumber && gene >> 16 & 1;
      elements.number = isZero ? 0 : selectNumber(gene, space.tiles);
      elements.fewBlocks = gene % kFewBlocks;
      elements.longest = longest;
      if (table.argument)
        launch->tables[table.argument] = elements;
      else
        launch->captureTables[table.capture] = elements;
    }
  }

  /// Elements that are read at constant indices are numbers. Of the captures with an element for
  /// each row, the first is a begin, the next an end, and so on. Arguments with more than one
  /// dimension are lists of blocks; arrays of one dimension have an element for each sequence: of
  /// an argument its offset, of a capture usually a length, which would be 0 for the first sequence
  /// if it were like an offset.
  uint32_t selectKind(uint32_t gene, const Impl::TableOf &table) {
    constexpr uint32_t ofLists[] = {8, 9, 1, 0}, ofSequences[] = {0, 3, 2, 0},
                       ofLengths[] = {3, 3, 2, 3};
    bool isLength = !table.argument && table.rank == 1;
    Profile profile = getProfile();
    if (profile == Profile::Any)
      return gene % kNumKinds;
    if (table.isNumber)
      return 3;
    if (table.argument && table.rank > 1)
      return ofLists[gene % std::size(ofLists)];
    if (profile == Profile::Usual)
      return isLength ? 3 : 0;
    if (isLength)
      return ofLengths[gene % std::size(ofLengths)];
    if (table.argument || table.rank < 2)
      return ofSequences[gene % std::size(ofSequences)];
    uint32_t isEnd = numOfRows++ % 2;
    return profile == Profile::Spans ? 5 - isEnd : 6 + isEnd;
  }

  void chooseBlocks() {
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
  }

  const Impl &space;
  KernelOp kernel;
  ArrayRef<uint32_t> genes, rest;
  std::unique_ptr<LaunchSpace::Derived> launch;
  tile::LaunchOp call; ///< of the program, or null
  SmallVector<int64_t> values;
  int64_t longest = 1;
  uint32_t numOfRows = 0; ///< captures with an element for each row, so far
  llvm::StringMap<int64_t> integers;
  tile::ExprEnvironment environment;
};

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
  switch (table.kind) {
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
  case 7:
    return (last / number + 1) * number;
  case 8: // lists of blocks, and their lengths
    return last;
  default:
    return table.fewBlocks;
  }
}

std::unique_ptr<LaunchSpace::Derived> LaunchSpace::derive(ArrayRef<uint32_t> genes) const {
  return Derivation(*impl, genes).run();
}
