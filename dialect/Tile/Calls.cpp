// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls between functions: cycles, and sizes from the functions that call nothing upwards.

#include "dialect/Tile/Calls.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

#include <string>

using namespace mlir;
using namespace tilewright::tile;

Calls::Node &Calls::getNode(Operation *op) {
  std::unique_ptr<Node> &node = nodes[op];
  if (node)
    return *node;
  node = std::make_unique<Node>();
  op->walk<WalkOrder::PreOrder>([&](Operation *inner) {
    if (inner != op && !inner->hasTrait<OpTrait::IsTerminator>())
      ++node->size;
    inner->getAttrDictionary().walk([&](FlatSymbolRefAttr symbol) {
      if (auto function = symbols.lookup<func::FuncOp>(symbol.getAttr()))
        node->uses.push_back({function, inner});
    });
  });
  return *node;
}

uint64_t Calls::getSize(Operation *op) {
  Node &root = getNode(op);
  SmallVector<std::pair<Node *, unsigned>> path;
  auto enter = [&](Node &node) {
    if (node.state != Node::State::New)
      return;
    node.state = Node::State::Active;
    path.push_back({&node, 0});
  };
  enter(root);
  while (!path.empty()) {
    auto &[node, next] = path.back();
    if (next < node->uses.size()) {
      enter(getNode(node->uses[next++].function));
      continue;
    }
    for (const FunctionUse &use : node->uses) {
      Node &callee = getNode(use.function);
      if (callee.state == Node::State::Done)
        node->size = llvm::SaturatingAdd(node->size, callee.size);
    }
    node->state = Node::State::Done;
    path.pop_back();
  }
  return root.size;
}

LogicalResult Calls::checkCycles() {
  DenseSet<Operation *> done;
  DenseMap<Operation *, size_t> positions; ///< on the path
  for (auto root : module.getOps<func::FuncOp>()) {
    SmallVector<std::pair<func::FuncOp, unsigned>> path;
    auto enter = [&](func::FuncOp function) {
      positions[function] = path.size();
      path.push_back({function, 0});
    };
    if (!done.contains(root))
      enter(root);
    while (!path.empty()) {
      auto &[function, next] = path.back();
      ArrayRef<FunctionUse> uses = getUses(function);
      if (next == uses.size()) {
        done.insert(function);
        positions.erase(function);
        path.pop_back();
        continue;
      }
      func::FuncOp callee = uses[next++].function;
      auto start = positions.find(callee);
      if (start == positions.end()) {
        if (!done.contains(callee))
          enter(callee);
        continue;
      }
      std::string cycle;
      for (auto &step : MutableArrayRef(path).drop_front(start->second))
        cycle += "@" + step.first.getSymName().str() + " -> ";
      return callee.emitError("a function must not be recursive, but got the cycle ")
             << cycle << '@' << callee.getSymName();
    }
  }
  return success();
}

LogicalResult Calls::checkSize(Operation *root) {
  if (getSize(root) <= kMostOperations)
    return success();
  Operation *op = root, *user = nullptr;
  for (DenseSet<Operation *> seen; seen.insert(op).second;) {
    ArrayRef<FunctionUse> uses = getUses(op);
    const FunctionUse *tooLarge = llvm::find_if(
        uses, [&](const FunctionUse &use) { return getSize(use.function) > kMostOperations; });
    if (tooLarge == uses.end())
      break;
    user = user ? user : tooLarge->user;
    op = tooLarge->function;
  }
  InFlightDiagnostic error = op->emitError();
  error << (isa<func::FuncOp>(op) ? "function @" : "kernel @")
        << SymbolTable::getSymbolName(op).getValue() << " must have at most " << kMostOperations
        << " operations, counting a function once for each call of it, but got " << getSize(op)
        << "; call functions less often, or in a loop (scf.for)";
  if (user)
    error.attachNote(user->getLoc()) << "reached from here";
  return error;
}
