// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Determines the structure of a loop from its products.

#include "passes/Blocks/LoopStructure.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <optional>
#include <string>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Structures with more products have not been measured. This also bounds the nesting of
/// descriptions.
constexpr size_t mostProducts = 16;
/// In characters. Each product may contain the descriptions of all previous ones, twice.
constexpr size_t mostText = 1024;

/// The values that an operand of a product is computed from, through any operations except
/// products.
struct Sources {
  llvm::SmallSetVector<DotOp, 4> products;
  bool isStreamed = false, isResident = false;
};

struct Extents {
  Dim m, n, k;
};

/// The uses of values, without code that is never executed.
class Flow {
public:
  Flow(KernelOp kernel, llvm::function_ref<std::optional<bool>(Value)> evaluate) {
    kernel.walk<WalkOrder::PreOrder>([&](scf::IfOp branch) {
      std::optional<bool> taken = evaluate(branch.getCondition());
      if (taken)
        never.insert(*taken ? &branch.getElseRegion() : &branch.getThenRegion());
    });
    kernel.walk([&](DotOp dot) {
      if (!isNeverDone(dot) && isUsed(dot))
        products.push_back(dot);
    });
  }

  ArrayRef<DotOp> getProducts() const { return products; }

  /// The operations that use a value, and the values that it becomes there: results, including
  /// those of a branch.
  template <typename Note> void forEachUse(Value value, Note note) const {
    for (Operation *user : value.getUsers()) {
      auto branch = dyn_cast<scf::IfOp>(user->getParentOp());
      if (isNeverDone(user))
        continue;
      if (!isa<scf::YieldOp>(user) || !branch) {
        note(user, SmallVector<Value>(user->getResults()));
        continue;
      }
      SmallVector<Value> results;
      for (auto [operand, result] : llvm::zip(user->getOperands(), branch.getResults()))
        if (operand == value)
          results.push_back(result);
      note(branch, results);
    }
  }

  /// The values that a tile is computed from: tile operands, or values yielded by branches that may
  /// be taken.
  SmallVector<Value> getOperands(Value value) const {
    Operation *def = value.getDefiningOp();
    SmallVector<Value> operands;
    if (auto branch = dyn_cast<scf::IfOp>(def)) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      for (Region &region : branch->getRegions())
        if (!region.empty() && !never.contains(&region))
          operands.push_back(region.front().getTerminator()->getOperand(number));
      return operands;
    }
    llvm::copy_if(def->getOperands(), std::back_inserter(operands),
                  [](Value operand) { return isTile(operand.getType()); });
    return operands;
  }

private:
  bool isNeverDone(Operation *op) const {
    for (Region *region = op->getParentRegion(); region; region = region->getParentRegion())
      if (never.contains(region))
        return true;
    return false;
  }

  /// Whether an operation without results uses the value of a product: the loop's yield, a store.
  bool isUsed(DotOp product) const {
    llvm::SmallSetVector<Value, 16> worklist;
    worklist.insert(product.getResult());
    bool found = false;
    for (size_t i = 0; i < worklist.size() && !found; ++i)
      forEachUse(worklist[i], [&](Operation *user, ArrayRef<Value> results) {
        found |= results.empty();
        worklist.insert(results.begin(), results.end());
      });
    return found;
  }

  llvm::DenseSet<Region *> never;
  SmallVector<DotOp> products;
};

class Reader {
public:
  Reader(const Flow &flow, Operation *loop, ArrayRef<DotOp> all)
      : flow(flow), loop(loop), products(all.take_front(mostProducts)), total(all.size()) {}

  LoopStructure read() {
    LoopStructure structure;
    structure.loop = loop;
    structure.products = total;
    readRoles(structure);
    structure.hasStates = hasStates();
    if (structure.columns.isUnknown())
      loop->walk([&](LoadOp load) {
        SmallVector<Dim> dims = getDims(load.getType());
        structure.loadsPairs |= dims.size() == 2 && llvm::is_contained(dims, structure.rows) &&
                                llvm::is_contained(dims, structure.step);
      });
    structure.key = total > mostProducts ? "more than 16 products" : getKey();
    if (isTooLong || structure.key.size() > mostText)
      structure.key = "more than 1024 characters";
    return structure;
  }

private:
  static Extents getExtents(DotOp dot) {
    SmallVector<Dim> lhs = getDims(dot.getLhs().getType()), rhs = getDims(dot.getRhs().getType());
    bool a = dot.getTransposeA(), b = dot.getTransposeB();
    return {lhs[a ? 1 : 0], rhs[b ? 0 : 1], lhs[a ? 0 : 1]};
  }

  Sources getSources(Value operand) {
    Sources sources;
    llvm::SmallSetVector<Value, 16> worklist;
    worklist.insert(operand);
    for (size_t i = 0; i < worklist.size(); ++i) {
      Operation *def = worklist[i].getDefiningOp();
      if (!def) // an iteration argument of the loop, or its mask
        continue;
      if (isa<LoadOp, GatherOp>(def))
        (loop->isProperAncestor(def) ? sources.isStreamed : sources.isResident) = true;
      else if (auto dot = dyn_cast<DotOp>(def); dot && llvm::is_contained(products, dot))
        sources.products.insert(dot);
      else
        for (Value value : flow.getOperands(worklist[i]))
          worklist.insert(value);
    }
    return sources;
  }

  std::string describe(Value operand) {
    Sources sources = getSources(operand);
    if (sources.products.empty())
      return sources.isStreamed ? "S" : "R";
    SmallVector<std::string> texts;
    for (DotOp product : sources.products)
      texts.push_back("(" + describe(product) + ")");
    llvm::sort(texts);
    return llvm::join(texts, "");
  }

  /// The operands in the order of their descriptions, so that a transposed product has the same
  /// description.
  std::string describe(DotOp product) {
    std::string &known = texts[product];
    if (known.empty()) {
      std::string a = describe(product.getLhs()), b = describe(product.getRhs());
      isTooLong |= a.size() + b.size() > mostText;
      texts[product] = isTooLong ? "..." : a < b ? a + " " + b : b + " " + a;
    }
    return texts[product];
  }

  /// The use of a product that no other product reads.
  StringRef getEnd(DotOp product) {
    llvm::SmallSetVector<Value, 16> worklist;
    worklist.insert(product.getResult());
    bool isAdded = false, isStored = false;
    for (size_t i = 0; i < worklist.size(); ++i)
      flow.forEachUse(worklist[i], [&](Operation *user, ArrayRef<Value> results) {
        isAdded |= isa<AtomicAddOp, ScatterAddOp>(user);
        isStored |= isa<StoreOp>(user) && loop->isProperAncestor(user);
        for (Value result : results)
          if (isTile(result.getType()) && loop->isProperAncestor(user))
            worklist.insert(result);
      });
    return isAdded ? "add" : isStored ? "store" : "sum";
  }

  /// Whether an iteration passes on a tile that is neither a product nor the tile that it got.
  bool hasStates() {
    auto iterations = cast<LoopLikeOpInterface>(loop);
    llvm::SmallSetVector<Value, 16> worklist;
    for (auto [yielded, old] :
         llvm::zip(iterations.getYieldedValues(), iterations.getRegionIterArgs())) {
      worklist.clear();
      if (isTile(yielded.getType()))
        worklist.insert(yielded);
      for (size_t i = 0; i < worklist.size(); ++i) {
        Operation *def = worklist[i].getDefiningOp();
        if (worklist[i] == old || isa_and_present<DotOp>(def))
          continue;
        if (!isa_and_present<scf::IfOp>(def))
          return true;
        for (Value value : flow.getOperands(worklist[i]))
          worklist.insert(value);
      }
    }
    return false;
  }

  llvm::DenseSet<DotOp> getReadProducts() {
    llvm::DenseSet<DotOp> isRead;
    for (DotOp product : products)
      for (Value operand : {product.getLhs(), product.getRhs()})
        for (DotOp source : getSources(operand).products)
          isRead.insert(source);
    return isRead;
  }

  std::string getKey() {
    llvm::DenseSet<DotOp> isRead = getReadProducts();
    SmallVector<std::string> ends;
    for (DotOp product : products)
      if (!isRead.contains(product))
        ends.push_back((getEnd(product) + " " + describe(product)).str());
    llvm::sort(ends);
    return llvm::join(ends, ", ");
  }

  /// Whether an extent is one of the results of the loop.
  bool isOfResult(Dim dim) {
    llvm::DenseSet<DotOp> isRead = getReadProducts();
    return llvm::any_of(products, [&](DotOp product) {
      Extents extents = getExtents(product);
      return !isRead.contains(product) && (dim == extents.m || dim == extents.n);
    });
  }

  /// Determined by the first product whose operands are both loaded, and whose resident operand has
  /// rows of the results; else by the first product of a resident operand and a computed one. So a
  /// resident matrix that the loop multiplies with what it streams has no rows, but widths.
  void readRoles(LoopStructure &structure) {
    bool found = false;
    for (bool mayBeComputed : {false, true})
      found = found || readRoles(structure, mayBeComputed);
    for (DotOp product : products) {
      Extents extents = getExtents(product);
      for (Dim dim : {extents.m, extents.n, extents.k})
        if (dim != structure.rows && dim != structure.columns && dim != structure.step)
          structure.widths.push_back(dim);
    }
  }

  bool readRoles(LoopStructure &structure, bool mayBeComputed) {
    for (DotOp product : products) {
      Sources a = getSources(product.getLhs()), b = getSources(product.getRhs());
      bool isComputed = !a.products.empty() || !b.products.empty();
      if (isComputed && (!mayBeComputed || a.products.empty() == b.products.empty()))
        continue;
      a.isStreamed |= !a.products.empty();
      b.isStreamed |= !b.products.empty();
      Extents extents = getExtents(product);
      if (a.isStreamed != b.isStreamed) {
        Dim rows = a.isStreamed ? extents.n : extents.m;
        Value streamed = a.isStreamed ? product.getLhs() : product.getRhs();
        if (!isOfResult(rows) || llvm::is_contained(getDims(streamed.getType()), rows))
          continue;
      }
      structure.element = getElementType(product.getLhs().getType());
      if (a.isStreamed == b.isStreamed) {
        structure.rows = extents.m;
        structure.columns = extents.n;
        // For a product of a block with one of the same rows, k is a width.
        if (a.isStreamed && extents.m != extents.n)
          structure.step = extents.k;
      } else {
        structure.rows = a.isStreamed ? extents.n : extents.m;
        structure.step = a.isStreamed ? extents.m : extents.n;
      }
      return true;
    }
    return false;
  }

  const Flow &flow;
  Operation *loop;
  ArrayRef<DotOp> products; ///< products to describe
  size_t total;
  llvm::DenseMap<Operation *, std::string> texts;
  bool isTooLong = false; ///< the key exceeds its length limit
};

/// The structure of a kernel that has no products and loads whole rows.
std::optional<LoopStructure> getRows(KernelOp kernel) {
  LoopStructure structure;
  structure.key = "rows";
  bool areRows = true;
  kernel.walk([&](LoadOp load) {
    SmallVector<Dim> dims = getDims(load.getType());
    if (load->getParentOfType<LoopLikeOpInterface>() || dims.size() > 2)
      areRows = false;
    if (!areRows || dims.size() != 2)
      return;
    if (!structure.element) {
      structure.element = getElementType(load.getType());
      structure.rows = dims[0];
    }
    areRows = dims[0] == structure.rows && dims[1] != structure.rows;
    structure.widths.push_back(dims[1]);
  });
  return areRows && structure.element ? std::optional(structure) : std::nullopt;
}

} // namespace

std::optional<LoopStructure>
LoopStructure::get(KernelOp kernel, llvm::function_ref<std::optional<bool>(Value)> evaluate) {
  Flow flow(kernel, evaluate);
  llvm::MapVector<Operation *, SmallVector<DotOp>> loops;
  for (DotOp dot : flow.getProducts())
    if (auto loop = dot->getParentOfType<LoopLikeOpInterface>())
      loops[loop].push_back(dot);
  Operation *main = nullptr;
  for (auto &[loop, products] : loops)
    if (!main || products.size() > loops[main].size())
      main = loop;
  if (!main)
    return flow.getProducts().empty() ? getRows(kernel) : std::nullopt;
  return Reader(flow, main, loops[main]).read();
}
