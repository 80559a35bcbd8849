// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reduction steps. Results of an operation are replaced by zeros or by operands of the same
// type, so that the module stays valid; MLIR's reduction-tree pass erases operations with uses.

#include "tools/tilewright-reduce/Reducer.h"

#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace tilewright;

namespace {

llvm::SmallVector<Operation *> listOps(ModuleOp module) {
  llvm::SmallVector<Operation *> ops;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op != module)
      ops.push_back(op);
  });
  return ops;
}

/// Erases operations whose results are unused.
void eraseDead(ModuleOp module) {
  llvm::SmallVector<Operation *> ops = listOps(module);
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

/// A zero of the type, inserted before `op`, or null.
Value makeZero(Operation *op, Type type) {
  OpBuilder builder(op);
  Type element = tile::getElementType(type);
  bool isFloat = isa<FloatType, tile::ParamType>(element);
  if (!tile::isTile(type) && !tile::isElementType(type))
    return nullptr;
  if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && !isa<tile::ParamType>(element))
    return arith::ConstantOp::create(builder, op->getLoc(), builder.getZeroAttr(tensor));
  Attribute zero = builder.getI64IntegerAttr(0);
  if (isFloat)
    zero = builder.getF64FloatAttr(0.0);
  return tile::ConstantOp::create(builder, op->getLoc(), type, zero);
}

bool isZero(Operation *op) {
  if (auto constant = dyn_cast<tile::ConstantOp>(op))
    return constant.getValue() == Builder(op->getContext()).getF64FloatAttr(0.0) ||
           constant.getValue() == Builder(op->getContext()).getI64IntegerAttr(0);
  auto constant = dyn_cast<arith::ConstantOp>(op);
  return constant &&
         constant.getValue() == Builder(op->getContext()).getZeroAttr(constant.getType());
}

/// Erases the operation and replaces used results by zeros.
bool eraseForZero(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>() || isZero(op))
    return false;
  for (OpResult result : op->getResults()) {
    if (result.use_empty())
      continue;
    Value zero = makeZero(op, result.getType());
    if (!zero)
      return false;
    result.replaceAllUsesWith(zero);
  }
  op->erase();
  return true;
}

/// Erases the operation and replaces its results by operands of the same types; if there are
/// several, by the one at index `choice`.
bool eraseForOperands(Operation *op, unsigned choice) {
  if (op->getNumResults() == 0 || op->hasTrait<OpTrait::IsTerminator>())
    return false;
  for (OpResult result : op->getResults()) {
    llvm::SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      if (operand.getType() == result.getType())
        operands.push_back(operand);
    if (choice >= operands.size())
      return false;
    result.replaceAllUsesWith(operands[choice]);
  }
  op->erase();
  return true;
}

/// Replaces the operation by the first iteration of a loop, or by a branch.
bool inlineBody(Operation *op, unsigned region) {
  Block *body = nullptr;
  llvm::SmallVector<Value> arguments;
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    if (region != 0)
      return false;
    body = loop.getBody();
    arguments.push_back(loop.getLowerBound());
    llvm::append_range(arguments, loop.getInitArgs());
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    Region &chosen = op->getRegion(region);
    if (chosen.empty())
      return false;
    body = &chosen.front();
  } else {
    return false;
  }
  Operation *yield = body->getTerminator();
  IRMapping mapping;
  mapping.map(body->getArguments(), arguments);
  OpBuilder builder(op);
  for (Operation &inner : body->without_terminator())
    builder.clone(inner, mapping);
  for (auto [result, value] : llvm::zip_equal(op->getResults(), yield->getOperands()))
    result.replaceAllUsesWith(mapping.lookupOrDefault(value));
  op->erase();
  return true;
}

bool eraseFrom(Operation *op, StringRef name, unsigned index) {
  auto array = op->getAttrOfType<ArrayAttr>(name);
  if (!array || index >= array.size())
    return false;
  llvm::SmallVector<Attribute> left(array.begin(), array.end());
  left.erase(left.begin() + index);
  op->setAttr(name, ArrayAttr::get(op->getContext(), left));
  return true;
}

/// Erases an argument of a kernel that its body does not read. Verification finds other uses.
bool eraseArgument(Operation *op, unsigned index) {
  auto kernel = dyn_cast<tile::KernelOp>(op);
  if (!kernel || index >= kernel.getNumArgs() || !kernel.getArgs()[index].use_empty())
    return false;
  auto name = cast<StringAttr>(kernel.getArgNames()[index]);
  llvm::SmallVector<bool> optional(kernel.getArgOptional());
  optional.erase(optional.begin() + index);
  kernel.setArgOptional(optional);
  if (DictionaryAttr defaults = kernel.getArgDefaultsAttr()) {
    NamedAttrList left(defaults);
    left.erase(name);
    kernel.setArgDefaultsAttr(left.getDictionary(op->getContext()));
  }
  kernel.getBody().eraseArgument(index);
  return eraseFrom(op, kernel.getArgNamesAttrName(), index);
}

} // namespace

unsigned Reducer::countOps(ModuleOp module) { return listOps(module).size(); }

bool Reducer::isInteresting() {
  ++numTests;
  return tester.isInteresting(*module).first == Tester::Interestingness::True;
}

bool Reducer::attempt(Change change) {
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>((*module)->clone()));
  if (!change(listOps(*copy)))
    return false;
  // Candidates may be invalid; suppress their diagnostics.
  ScopedDiagnosticHandler silence(module->getContext(), [](Diagnostic &) {});
  if (failed(verify(*copy)))
    return false;
  eraseDead(*copy);
  if (progress)
    progress(countOps(*module), numTests);
  ++numTests;
  if (tester.isInteresting(*copy).first != Tester::Interestingness::True)
    return false;
  module = std::move(copy);
  return true;
}

bool Reducer::runPasses(llvm::function_ref<void(OpPassManager &)> add, bool mayGrow) {
  unsigned before = countOps(*module);
  return attempt([&](ArrayRef<Operation *> ops) {
    if (ops.empty())
      return false;
    auto copy = ops.front()->getParentOfType<ModuleOp>();
    ScopedDiagnosticHandler silence(copy.getContext(), [](Diagnostic &) {});
    PassManager manager(copy.getContext(), ModuleOp::getOperationName());
    add(manager);
    return succeeded(manager.run(copy)) && (mayGrow || countOps(copy) < before);
  });
}

bool Reducer::linkFiles(llvm::StringRef source) {
  TileLinkOptions link;
  link.source = source.str();
  return !module->getOps<tile::LinkOp>().empty() &&
         runPasses([&](OpPassManager &manager) { manager.addPass(createTileLink(link)); },
                   /*mayGrow=*/true);
}

/// Drops ranges of operations, from the end: half of all, a quarter, and so on.
bool Reducer::dropOps() {
  bool any = false;
  for (unsigned length = countOps(*module) / 2; length > 0; length /= 2) {
    for (unsigned end = countOps(*module); end > 0;) {
      unsigned begin = end > length ? end - length : 0;
      any |= attempt([&](ArrayRef<Operation *> ops) {
        bool applies = false;
        // In reverse order, nested operations precede the operation that contains them.
        for (Operation *op : llvm::reverse(ops.slice(begin, end - begin)))
          applies |= eraseForZero(op);
        return applies;
      });
      end = std::min(begin, countOps(*module));
    }
  }
  return any;
}

bool Reducer::simplifyOps() {
  bool any = false;
  for (unsigned i = countOps(*module); i-- > 0;) {
    if (i >= countOps(*module))
      continue;
    any |= attempt([&](ArrayRef<Operation *> ops) { return inlineBody(ops[i], 0); }) ||
           attempt([&](ArrayRef<Operation *> ops) { return inlineBody(ops[i], 1); }) ||
           attempt([&](ArrayRef<Operation *> ops) { return eraseForOperands(ops[i], 0); }) ||
           attempt([&](ArrayRef<Operation *> ops) { return eraseForOperands(ops[i], 1); });
  }
  return any;
}

/// Arguments, parameters and constraints.
bool Reducer::dropDeclarations() {
  bool any = false;
  for (unsigned i = 0; i < countOps(*module); ++i) {
    auto each = [&](llvm::function_ref<bool(Operation *, unsigned)> erase) {
      constexpr unsigned most = 64;
      for (unsigned index = most; index-- > 0;)
        any |= attempt([&](ArrayRef<Operation *> ops) {
          return isa<tile::KernelOp, tile::ProgramOp>(ops[i]) && erase(ops[i], index);
        });
    };
    if (!isa<tile::KernelOp, tile::ProgramOp>(listOps(*module)[i]))
      continue;
    each([](Operation *op, unsigned index) { return eraseFrom(op, "constraints", index); });
    each(eraseArgument);
    each([](Operation *op, unsigned index) { return eraseFrom(op, "params", index); });
  }
  return any;
}

void Reducer::run(llvm::function_ref<void(unsigned, unsigned)> told) {
  progress = told;
  for (bool changes = true; changes;) {
    changes = dropOps();
    changes |= simplifyOps();
    changes |= dropDeclarations();
    changes |= runPasses([](OpPassManager &manager) { manager.addPass(createCSEPass()); },
                         /*mayGrow=*/false);
    changes |= runPasses(
        [](OpPassManager &manager) {
          manager.addPass(createTileInlineCalls());
          manager.addPass(createSymbolDCEPass());
        },
        /*mayGrow=*/false);
  }
  progress = nullptr;
}
