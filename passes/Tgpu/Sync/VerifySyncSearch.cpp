// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: the launches with which the loops of a kernel are searched for ways of
// execution. A launch follows from a list of numbers, so that a small change of a launch that found
// something is a change of a number. Extents that constraints equate are one variable.

#include "passes/Tgpu/Sync/VerifySyncSpace.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;
using tile::ExprAttr;
using tile::ExprKind;

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
  llvm::DenseSet<Value> numbers = findNumbers(kernel);
  auto noteTable = [&](tile::AtOp at) {
    TableOf table;
    if (at.getView()) {
      ArrayRoot array = getArrayRoot(at.getView());
      table = {array.view, array.capture};
    } else {
      table.capture = at.getCapture().value_or("");
    }
    table.rank = at.getStaticIndices().size();
    table.isNumber = numbers.contains(table.argument);
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

const LaunchSpace::Impl::Array *LaunchSpace::Impl::findArray(StringRef name) const {
  auto found = llvm::find_if(arrays, [&](const Array &array) { return array.name == name; });
  return found == arrays.end() ? nullptr : &*found;
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

size_t LaunchSpace::getNumGenes() const {
  return kFirstGenes + impl->variables.size() + impl->integers.size() + 2 * impl->tables.size();
}
