// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The properties of a kernel that select a row of the table of blocks.

#include "passes/Blocks/KernelQuery.h"

#include "dialect/Tile/Calls.h"
#include "passes/MaskRanges.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

std::optional<int64_t> tilewright::getExtent(Dim dim, const Bindings &bindings) {
  if (!dim.isSymbol())
    return dim.isUnknown() ? std::nullopt : std::optional(dim.extent);
  ExprAttr value = bindings.lookup(dim.symbol.getValue());
  return value && value.getKind() == ExprKind::Int ? std::optional(value.getValue()) : std::nullopt;
}

Type tilewright::getBoundElement(Type element, const Bindings &bindings) {
  if (auto param = dyn_cast_or_null<ParamType>(element))
    if (ExprAttr bound = bindings.lookup(param.getName()))
      return getTypeBySpelling(param.getContext(), bound.getName());
  return element;
}

/// The upper bound of a loop over blocks. Branches that parameters decide have not been folded
/// yet.
static Value getLimit(Operation *op, FlagEvaluator &flags) {
  auto loop = dyn_cast<ForBlocksOp>(op);
  Value limit = loop ? loop.getUpper() : Value();
  while (auto branch = limit ? limit.getDefiningOp<scf::IfOp>() : scf::IfOp()) {
    std::optional<bool> taken = flags.evaluate(branch.getCondition());
    if (!taken)
      break;
    Region &region = *taken ? branch.getThenRegion() : branch.getElseRegion();
    limit = region.front().getTerminator()->getOperand(cast<OpResult>(limit).getResultNumber());
  }
  return limit;
}

/// Whether the mask of a loop depends on a scalar argument of the kernel, given the known
/// parameters. Functions that the mask calls are followed: what parameters fold there is not read.
static bool readsArgument(ModuleOp module, ForBlocksOp loop, const Bindings &bindings) {
  SymbolTable symbols(module);
  auto returnOf = [](func::FuncOp function) {
    return function && !function.isExternal()
               ? dyn_cast<func::ReturnOp>(function.getBody().back().getTerminator())
               : func::ReturnOp();
  };
  auto mask = symbols.lookup<func::FuncOp>(*loop.getMask());
  func::ReturnOp result = returnOf(mask);
  auto kernel = loop->getParentOfType<KernelOp>();
  if (!result)
    return false;
  llvm::DenseSet<Value> given;
  auto operand = loop.getMaskOperands().begin();
  for (BlockArgument argument : mask.getArguments()) {
    bool isPosition = argument.getArgNumber() == loop.getAgainstPosition() ||
                      argument.getArgNumber() == loop.getBlockPosition();
    auto passed = isPosition ? BlockArgument() : dyn_cast<BlockArgument>(*operand++);
    if (passed && passed.getOwner() == &kernel.getBody().front() &&
        passed.getArgNumber() < kernel.getArgNames().size())
      given.insert(argument);
  }
  FlagEvaluator flags(module, bindings);
  llvm::SetVector<Value> values;
  values.insert(result.getOperand(0));
  // The calls whose results are among the values. An argument of their function stands for theirs.
  llvm::DenseMap<Operation *, SmallVector<func::CallOp>> calls;
  for (size_t i = 0; i < values.size(); ++i) {
    Value value = values[i];
    if (given.contains(value))
      return true;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      for (func::CallOp call : calls.lookup(argument.getOwner()->getParentOp()))
        values.insert(call.getOperand(argument.getArgNumber()));
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (flags.evaluate(value))
      continue;
    auto call = dyn_cast<func::CallOp>(op);
    auto callee = call ? symbols.lookup<func::FuncOp>(call.getCallee()) : func::FuncOp();
    func::ReturnOp returned = returnOf(callee);
    if (!returned) {
      values.insert(op->operand_begin(), op->operand_end());
      continue;
    }
    calls[callee].push_back(call);
    values.insert(returned.getOperand(cast<OpResult>(value).getResultNumber()));
    for (BlockArgument argument : callee.getArguments())
      if (values.contains(argument))
        values.insert(call.getOperand(argument.getArgNumber()));
  }
  return false;
}

/// Adds transitive callees.
static void addCallees(ModuleOp module, llvm::SetVector<Operation *> &functions) {
  Calls calls(module);
  for (size_t i = 0; i < functions.size(); ++i)
    for (const FunctionUse &use : calls.getUses(functions[i]))
      if (use.function)
        functions.insert(use.function);
}

/// Whether a mask, or a function that it calls, reads an ascending capture.
static bool readsAscending(ModuleOp module, FlatSymbolRefAttr mask) {
  SymbolTable symbols(module);
  llvm::SetVector<Operation *> functions;
  functions.insert(symbols.lookup(mask.getValue()));
  addCallees(module, functions);
  auto ascends = [&](AtOp at) {
    FlatSymbolRefAttr name = at.getCaptureAttr();
    Operation *capture = name ? symbols.lookup(name.getValue()) : nullptr;
    return capture && ascendingAttr.isOn(capture) ? WalkResult::interrupt() : WalkResult::advance();
  };
  return llvm::any_of(
      functions, [&](Operation *function) { return function->walk(ascends).wasInterrupted(); });
}

/// Whether the result is used other than as the operand that a flag does not select.
static bool isSelected(MapOp map, FlagEvaluator &flags) {
  return llvm::any_of(map->getUsers(), [&](Operation *user) {
    auto select = dyn_cast<arith::SelectOp>(user);
    std::optional<bool> flag =
        select ? flags.evaluate(select.getCondition()) : std::optional<bool>();
    return !flag || (*flag ? select.getTrueValue() : select.getFalseValue()) == map.getResult();
  });
}

/// Counts the operations per element of the functions that the loop maps, and finds reads of
/// captured views that may become tiles.
static void examineFunctions(ModuleOp module, Operation *loop, const Bindings &bindings,
                             BlockQuery &query) {
  Calls calls(module);
  FlagEvaluator flags(module, bindings);
  SymbolTable symbols(module);
  llvm::SetVector<Operation *> functions;
  loop->walk([&](MapOp map) {
    auto function = symbols.lookup<func::FuncOp>(map.getFunction());
    if (function && isSelected(map, flags))
      functions.insert(function);
  });
  for (Operation *function : functions)
    query.work += static_cast<int64_t>(std::min<uint64_t>(calls.getSize(function), 1 << 20));
  addCallees(module, functions);
  for (Operation *function : functions)
    function->walk([&](Operation *op) {
      if (isa<RandomOp>(op))
        query.work += randomWork;
      auto at = dyn_cast<AtOp>(op);
      FlatSymbolRefAttr name = at ? at.getCaptureAttr() : FlatSymbolRefAttr();
      auto capture = name ? symbols.lookup<CaptureOp>(name.getValue()) : CaptureOp();
      auto view = capture ? dyn_cast<ViewType>(capture.getType()) : ViewType();
      query.captures |= view && view.getRank() >= 2;
    });
}

std::optional<ExaminedKernel> ExaminedKernel::get(KernelOp kernel, const Bindings &bindings) {
  FlagEvaluator flags(kernel->getParentOfType<ModuleOp>(), bindings);
  std::optional<LoopStructure> structure =
      LoopStructure::get(kernel, [&](Value flag) { return flags.evaluate(flag); });
  if (!structure)
    return std::nullopt;
  Value limit = structure->loop ? getLimit(structure->loop, flags) : Value();
  return ExaminedKernel{kernel, std::move(*structure), limit};
}

ExprAttr ExaminedKernel::getLength() const {
  Signature signature(kernel);
  auto dim = limit ? limit.getDefiningOp<DimOp>() : DimOp();
  auto argument = dim ? dyn_cast_if_present<BlockArgument>(dim.getView()) : BlockArgument();
  if (!argument || argument.getOwner() != signature.body ||
      argument.getArgNumber() >= signature.argNames.size())
    return {};
  auto name = cast<StringAttr>(signature.argNames[argument.getArgNumber()]);
  return ExprAttr::get(dim.getContext(), ExprKind::Dim, static_cast<int64_t>(dim.getDim()),
                       name.getValue(), {});
}

BlockQuery ExaminedKernel::makeQuery(const Bindings &bindings) const {
  auto module = kernel->getParentOfType<ModuleOp>();
  BlockQuery query;
  query.structure = structure.key;
  Type element = getBoundElement(structure.element, bindings);
  if (element && element.isIntOrFloat())
    query.bits = element.getIntOrFloatBitWidth();
  for (Dim width : structure.widths) {
    int64_t extent = getExtent(width, bindings).value_or(0);
    query.elements = std::max(query.elements, extent);
    if (extent > 0)
      query.narrowest = query.narrowest ? std::min(query.narrowest, extent) : extent;
  }
  query.hasStates = structure.hasStates;
  query.captures = structure.loadsPairs;
  if (!structure.loop)
    return query;
  auto loop = dyn_cast<ForBlocksOp>(structure.loop);
  if (loop && loop.getMaskAttr())
    query.mask = FlagEvaluator(module, bindings).evaluate(loop.getMaskAttr()) == true
                     ? MaskKind::None
                 : readsAscending(module, loop.getMaskAttr()) ? MaskKind::Ascending
                                                              : MaskKind::Some;
  examineFunctions(module, structure.loop, bindings, query);
  query.hasLength = !!getLength();
  constexpr int64_t usualLength = 2048; // assumed length of a sequence in a packed batch
  if (limit && !limit.getDefiningOp<DimOp>() && !matchPattern(limit, m_Constant()))
    query.usual = usualLength;
  // An extent does not determine how many blocks a mask keeps if the mask depends on a number of
  // the caller, such as the size of a window.
  if (loop && query.mask != MaskKind::None && readsArgument(module, loop, bindings)) {
    query.hasLength = false;
    query.usual = usualLength;
  }
  return query;
}
