// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Union-find over tiles, and the layouts that dots, reductions and expansions imply.

#include "passes/Tgpu/Map/LayoutInference.h"

#include "base/Layout/WgmmaDescriptor.h"
#include "dialect/Tgpu/MatrixShape.h"
#include "passes/Tgpu/Map/ConvertedOperands.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static constexpr int64_t mostColumnsOfWgmma = 256;

unsigned LayoutInference::find(unsigned id) const {
  while (classes[id].parent != id)
    id = classes[id].parent;
  return id;
}

std::optional<unsigned> LayoutInference::classOf(Value value) {
  if (!isTile(value) || isRematerialized(value))
    return std::nullopt;
  auto [it, isNew] = ids.try_emplace(value, classes.size());
  if (isNew) {
    auto type = cast<RankedTensorType>(value.getType());
    unsigned id = classes.size();
    classes.push_back(
        {id, Attribute(), getMatrixShape(type.getShape()), getElementBits(type.getElementType())});
  }
  return find(it->second);
}

void LayoutInference::unite(ValueRange values) {
  std::optional<unsigned> first;
  for (Value value : values) {
    std::optional<unsigned> id = classOf(value);
    if (!id)
      continue;
    if (!first) {
      first = id;
      continue;
    }
    if (*first == *id)
      continue;
    Class &root = classes[*first], &other = classes[*id];
    other.parent = *first;
    root.minBits = std::min(root.minBits, other.minBits);
    if (!root.layout)
      root.layout = other.layout;
  }
}

void LayoutInference::seed(Value value, Attribute layout) {
  if (std::optional<unsigned> id = classOf(value))
    if (layout && !classes[*id].layout && fits(layout, classes[*id].shape))
      classes[*id].layout = layout;
}

Attribute LayoutInference::lookup(Value value) {
  std::optional<unsigned> id = classOf(value);
  return id ? classes[*id].layout : Attribute();
}

Attribute LayoutInference::get(Value value) const {
  auto it = ids.find(value);
  if (it != ids.end())
    return classes[find(it->second)].layout;
  auto type = cast<RankedTensorType>(value.getType());
  return getDefault(getMatrixShape(type.getShape()), getElementBits(type.getElementType()));
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

bool LayoutInference::fits(Attribute layout, ArrayRef<int64_t> shape) {
  // Layouts of accumulators and elementwise tiles do not depend on the element type.
  return isRegisterTile(
      RankedTensorType::get(shape, Float32Type::get(layout.getContext()), layout));
}

/// Either the grid with the most warps along M, so that rows and their reductions stay within a
/// warp, or the grid of warps that reads the fewest operand elements.
Attribute LayoutInference::getMma(ArrayRef<int64_t> shape, bool keepsRows) const {
  Attribute best;
  int64_t leastRead = 0;
  for (int64_t warpsM = warps; warpsM >= 1; warpsM /= 2) {
    int64_t warpsN = warps / warpsM, read = shape[0] / warpsM + shape[1] / warpsN;
    auto layout = MmaAttr::get(context, warpsM, warpsN);
    if (!fits(layout, shape) || (best && read >= leastRead))
      continue;
    best = layout;
    leastRead = read;
    if (keepsRows)
      break;
  }
  return best;
}

namespace {
/// The bytes of operands that all warps of a grid read for one product.
int64_t getTraffic(tile::DotOp dot, MmaAttr grid, bool lhsInRegisters) {
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType());
  auto rhs = cast<RankedTensorType>(dot.getRhs().getType());
  int64_t bytes = getElementBits(lhs.getElementType()) / 8;
  int64_t ofLhs = lhsInRegisters ? 0 : grid.getWarpsN() * lhs.getNumElements();
  return bytes * (ofLhs + grid.getWarpsM() * rhs.getNumElements());
}

/// Whether a product reads the tile from shared memory in any layout of its rows.
bool isShared(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    auto dot = dyn_cast<tile::DotOp>(use.getOwner());
    return dot &&
           (use.getOperandNumber() == 1 || (use.getOperandNumber() == 0 && dot.getTransposeA()));
  });
}
} // namespace

/// The class of a product's operand a if that is the untransposed result of another product.
std::optional<unsigned> LayoutInference::getResultRead(tile::DotOp dot) {
  std::optional<unsigned> lhs = classOf(dot.getLhs());
  bool isResult = lhs && !dot.getTransposeA() && llvm::any_of(dots, [&](tile::DotOp other) {
                    return classOf(other.getResult()) == lhs;
                  });
  return isResult ? lhs : std::nullopt;
}

/// If products read each other's results as operand a, either the grid keeps rows within a warp and
/// the results stay in registers, or each product has its own best grid of warps and the results go
/// through shared memory. Whether the former moves fewer bytes.
bool LayoutInference::savesByRows(ArrayRef<tile::DotOp> chain) {
  int64_t byRows = 0, byGrids = 0;
  llvm::DenseSet<Value> written;
  for (tile::DotOp dot : chain) {
    auto shape = cast<RankedTensorType>(dot.getType()).getShape();
    auto rows = dyn_cast_or_null<MmaAttr>(getMma(shape, /*keepsRows=*/true));
    auto grid = dyn_cast_or_null<MmaAttr>(getMma(shape, /*keepsRows=*/false));
    if (!rows || !grid || rows.getWarpsN() != 1)
      return true; // only one grid is possible
    auto lhs = cast<RankedTensorType>(dot.getLhs().getType());
    int64_t bits = getElementBits(lhs.getElementType());
    // Multiply-adds read both operands from shared memory in either case.
    bool inRegisters = getResultRead(dot) && bits == 16;
    byRows += getTraffic(dot, rows, inRegisters);
    byGrids += getTraffic(dot, grid, false);
    if (inRegisters && !isShared(dot.getLhs()) && written.insert(dot.getLhs()).second)
      byGrids += lhs.getNumElements() * bits / 8;
  }
  return byRows <= byGrids;
}

/// Whether unused shared memory costs no stage of a ring: iterations of one or two products hold
/// few tiles. Those of a backward hold more.
static bool hasRoomForPanels(tile::KernelOp kernel) {
  constexpr int64_t mostProducts = 2;
  int64_t products = 0;
  kernel.walk([&](tile::DotOp) { ++products; });
  return products <= mostProducts;
}

tgpu::Swizzle LayoutInference::getSwizzleForTma(Value operand, ArrayRef<int64_t> shape) {
  constexpr int64_t leastBytes = 64, chunkBytes = 16, bits = 16;
  int64_t elementBits = getElementBits(tile::getElementType(operand.getType()));
  auto swizzle = layout::SharedLayout::widestSwizzle(shape[1], static_cast<int>(elementBits));
  int64_t rowBytes = shape[1] * elementBits / 8;
  bool isNarrow = elementBits == bits && rowBytes > leastBytes && rowBytes % chunkBytes == 0 &&
                  swizzle <= tgpu::Swizzle::B32;
  if (!isNarrow || !isStaged(operand) ||
      !hasRoomForPanels(operand.getDefiningOp()->getParentOfType<tile::KernelOp>()))
    return swizzle;
  return tgpu::Swizzle::B128;
}

/// Whether wgmma can read the operands from their buffers, or why not. Rows of 48 bytes, for
/// example, fill no panels.
Status LayoutInference::checkLieForWgmma(tile::DotOp dot) {
  for (unsigned operand : {0, 1}) {
    auto type = cast<RankedTensorType>(dot->getOperand(operand).getType());
    SmallVector<int64_t> shape = getOperandShape(dot, operand);
    auto bits = static_cast<int>(getElementBits(type.getElementType()));
    Result<layout::SharedLayout> shared = layout::SharedLayout::swizzled(
        shape[0], shape[1], bits, getSwizzleForTma(dot->getOperand(operand), shape));
    bool isAlongK = operand == 0 ? !dot.getTransposeA() : dot.getTransposeB();
    auto major = isAlongK ? layout::Major::K : layout::Major::MN;
    if (!shared)
      return shared.status();
    if (auto planned = layout::WgmmaOperand::plan(*shared, major); !planned)
      return planned.status();
  }
  return Status::success();
}

std::string LayoutInference::whyNotWgmma(tile::DotOp dot) const {
  Type element = tile::getElementType(dot.getLhs().getType());
  auto shape = cast<RankedTensorType>(dot.getType()).getShape();
  std::string text;
  llvm::raw_string_ostream os(text);
  int64_t rows = rowsOfWarpgroup * std::max<int64_t>(1, warps / Target::warpsOfGroup);
  if (!isOfWgmma(element))
    os << "wgmma takes operands of f16 and bf16, but got " << element << "; use 16-bit arrays";
  else if (warps % Target::warpsOfGroup != 0)
    os << "a thread block must have a multiple of 4 warps, but has " << warps
       << "; use blocks of 64 rows or more, or tgpu.transpose_few_rows";
  else if (shape[1] > mostColumnsOfWgmma)
    os << "a product must have at most " << mostColumnsOfWgmma << " columns, but got " << shape[1]
       << "; use smaller blocks";
  else if (!getWgmma(dot))
    os << "by " << warps << " warps, a product must have a multiple of " << rows
       << " rows and of 8 columns, but got " << shape[0] << 'x' << shape[1]
       << (shape[0] % rowsOfWarpgroup ? "; use blocks of a multiple of 64 rows"
                                      : "; use other blocks, or fewer warps")
       << (shape[0] < rowsOfWarpgroup
               ? ", or give the kernel the attribute tgpu.transpose_few_rows, where all products "
                 "have a multiple of 64 columns"
               : "");
  else if (Status lies = checkLieForWgmma(dot); !lies)
    os << lies.message() << "; use blocks whose rows are a multiple of 32 bytes";
  else
    os << "another product, whose result it reads or which reads its result, must be by mma.sync";
  return text;
}

/// Keeps rows within a warp where they are reduced, and where that reduces shared-memory traffic.
void LayoutInference::seedDots() {
  llvm::DenseSet<unsigned> reduced;
  for (Operation *op : relations)
    if (auto reduce = dyn_cast<tile::ReduceOp>(op); reduce && reduce.getDim() == 1)
      if (std::optional<unsigned> id = classOf(reduce.getSource()))
        reduced.insert(*id);

  // Classes of results that some product reads as operand a.
  llvm::EquivalenceClasses<unsigned> tied;
  for (tile::DotOp dot : dots) {
    tied.insert(*classOf(dot.getResult()));
    if (std::optional<unsigned> lhs = getResultRead(dot))
      tied.unionSets(*lhs, *classOf(dot.getResult()));
  }
  llvm::MapVector<unsigned, SmallVector<tile::DotOp>> chains;
  for (tile::DotOp dot : dots)
    chains[tied.getLeaderValue(*classOf(dot.getResult()))].push_back(dot);

  for (auto &[leader, chain] : chains) {
    bool isReduced = llvm::any_of(
        chain, [&](tile::DotOp dot) { return reduced.contains(*classOf(dot.getResult())); });
    bool isTied = llvm::any_of(chain, [&](tile::DotOp dot) { return !!getResultRead(dot); });
    bool keepsRows = isReduced || (isTied && savesByRows(chain));
    // If one of the products must be an mma, it would read the others' results through shared
    // memory.
    bool canBeWgmma =
        llvm::all_of(chain, [](tile::DotOp dot) { return checkLieForWgmma(dot).ok(); });
    for (tile::DotOp dot : chain) {
      if (canBeWgmma) {
        // A converted operand is read from its buffer in the layout in which wgmma takes it from
        // registers.
        Attribute layout = getWgmma(dot);
        tile::LoadOp load = dot.getTransposeA() ? tile::LoadOp() : getConvertedLoad(dot.getLhs());
        auto wgmma = dyn_cast_or_null<WgmmaAttr>(layout);
        if (wgmma && load && isReadByColumns(load))
          layout = WgmmaAttr::get(context, wgmma.getWarpgroups(), /*rowPairs=*/true);
        seed(dot.getResult(), layout);
        if (load || (wgmma && !getComputedLoads(dot).empty()))
          seed(dot.getLhs(), layout);
      }
      seed(dot.getResult(), getMma(cast<RankedTensorType>(dot.getType()).getShape(), keepsRows));
    }
  }
}

SmallVector<int64_t> LayoutInference::getOperandShape(tile::DotOp dot, unsigned operand) {
  auto type = cast<RankedTensorType>(dot->getOperand(operand).getType());
  SmallVector<int64_t> shape(type.getShape());
  bool transpose = operand == 0 ? dot.getTransposeA() : dot.getTransposeB();
  int64_t &depth = shape[(operand == 0) != transpose ? 1 : 0];
  depth = llvm::alignTo(depth, getInstructionDepth(type.getElementType()));
  return shape;
}

bool LayoutInference::isOfWgmma(Type element) {
  return element.isF16() || element.isBF16() || getElementBits(element) == 8;
}

Attribute LayoutInference::getWgmma(tile::DotOp op) const {
  Type element = tile::getElementType(op.getLhs().getType());
  auto shape = cast<RankedTensorType>(op.getType()).getShape();
  if (!hasWgmma || !isOfWgmma(element) || warps % Target::warpsOfGroup != 0 ||
      shape[1] > mostColumnsOfWgmma)
    return {};
  auto layout = WgmmaAttr::get(context, warps / Target::warpsOfGroup, /*rowPairs=*/false);
  return fits(layout, shape) ? layout : Attribute();
}

//===----------------------------------------------------------------------===//
// Classes
//===----------------------------------------------------------------------===//

LogicalResult LayoutInference::visit(Operation *op) {
  auto isTileType = [](Type type) { return isa<RankedTensorType>(type); };
  if (llvm::none_of(op->getOperandTypes(), isTileType) &&
      llvm::none_of(op->getResultTypes(), isTileType) && !isa<tile::ForBlocksOp>(op))
    return success();
  for (Value value : llvm::concat<Value>(llvm::to_vector(op->getOperands()),
                                         llvm::to_vector(ValueRange(op->getResults()))))
    if (auto type = dyn_cast<RankedTensorType>(value.getType()); type && type.getRank() < 1)
      return op->emitError() << "'" << op->getName() << "' has a tile of rank " << type.getRank()
                             << ", which the CPU device alone computes; on a GPU a tile must have "
                                "rank 1 or more, so reduce a tile [1, N], as tile.reshape makes "
                                "it, to a tile [1]";
  if (isa<tile::ForBlocksOp>(op))
    classOf(cast<tile::ForBlocksOp>(op).getKeep());
  if (isa<scf::ForOp, tile::ForBlocksOp>(op)) {
    auto loop = cast<LoopLikeOpInterface>(op);
    for (auto [init, argument, yielded, result] : llvm::zip_equal(
             loop.getInits(), loop.getRegionIterArgs(), loop.getYieldedValues(), op->getResults()))
      unite({argument, result, init, yielded});
    return success();
  }
  if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      unite({result, branch.thenYield().getOperand(i), branch.elseYield().getOperand(i)});
    return success();
  }
  if (auto dot = dyn_cast<tile::DotOp>(op)) {
    unite({dot.getResult()});
    if (dot.getAcc())
      unite({dot.getResult(), dot.getAcc()});
    dots.push_back(dot);
    return success();
  }
  if (isa<tile::ReduceOp, tile::ExpandOp>(op)) {
    classOf(op->getOperand(0));
    classOf(op->getResult(0));
    Value whole = isa<tile::ReduceOp>(op) ? op->getOperand(0) : op->getResult(0);
    if (tile::getRank(whole.getType()) == 2)
      relations.push_back(op);
    return success();
  }
  if (isElementwise(op) || isa<tile::AddAtOp>(op)) {
    SmallVector<Value> values(op->getResults());
    llvm::append_range(values, op->getOperands());
    unite(values);
    return success();
  }
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) {
    auto shapeOf = [](Value value) {
      return getMatrixShape(cast<RankedTensorType>(value.getType()).getShape());
    };
    classOf(reshape.getSource());
    classOf(reshape.getResult());
    if (shapeOf(reshape.getSource()) == shapeOf(reshape.getResult()))
      unite({reshape.getResult(), reshape.getSource()});
    return success();
  }
  if (auto scan = dyn_cast<tile::ScanOp>(op)) {
    unite({scan.getResult(), scan.getSource()});
    return success();
  }
  if (isa<tile::LoadOp, tile::StoreOp, tile::AtomicAddOp, tile::GatherOp, tile::ScatterAddOp,
          tile::TransposeOp, tile::SliceOp, tile::FullOp, tile::IotaOp, tile::PrintOp,
          tile::AssertOp, arith::ConstantOp, scf::YieldOp, tile::YieldOp>(op)) {
    for (Value value : op->getOperands())
      classOf(value);
    for (Value value : op->getResults())
      classOf(value);
    return success();
  }
  return op->emitError() << "operation '" << op->getName()
                         << "' on tiles cannot be mapped onto a GPU; use operations of arith, "
                            "math and tile";
}

/// Where tiles are only reduced along dimension 0, threads hold whole columns: no number crosses
/// lanes.
void LayoutInference::seedColumns() {
  llvm::DenseSet<unsigned> alongRows;
  for (Operation *op : relations)
    if (auto reduce = dyn_cast<tile::ReduceOp>(op); reduce && reduce.getDim() == 1)
      alongRows.insert(*classOf(reduce.getSource()));
  for (Operation *op : relations) {
    auto reduce = dyn_cast<tile::ReduceOp>(op);
    std::optional<unsigned> id = reduce ? classOf(reduce.getSource()) : std::nullopt;
    if (!id || classes[*id].layout || alongRows.contains(*id))
      continue;
    int64_t columns = classes[*id].shape[1];
    if (columns % layout::kLanes != 0)
      continue;
    int64_t warpsN = std::gcd(warps, columns / layout::kLanes);
    seed(reduce.getSource(), BlockedAttr::get(context, 1, layout::kLanes, warps / warpsN, warpsN));
  }
}

/// One sweep over reductions and expansions. Returns whether it found a layout.
bool LayoutInference::propagate() {
  bool changed = false;
  for (Operation *op : relations) {
    bool reduces = isa<tile::ReduceOp>(op);
    Value whole = reduces ? op->getOperand(0) : op->getResult(0);
    Value slice = reduces ? op->getResult(0) : op->getOperand(0);
    int64_t dim = reduces ? cast<tile::ReduceOp>(op).getDim() : cast<tile::ExpandOp>(op).getDim();
    Attribute wholeLayout = lookup(whole), sliceLayout = lookup(slice);
    if (wholeLayout && !sliceLayout && classOf(slice) && tile::getRank(whole.getType()) == 2) {
      seed(slice, getSlice(wholeLayout, dim));
      changed |= static_cast<bool>(lookup(slice));
    }
    auto known = dyn_cast_or_null<SliceAttr>(sliceLayout);
    if (!wholeLayout && known && known.getDim() == dim && classOf(whole)) {
      seed(whole, known.getParent());
      changed |= static_cast<bool>(lookup(whole));
    }
  }
  return changed;
}

LogicalResult LayoutInference::run() {
  WalkResult result = kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    return failed(visit(op)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  seedDots();
  while (propagate())
    ;
  seedColumns();
  while (propagate())
    ;
  // Tiles of rank 2 first, since vectors take slices of their layouts.
  for (size_t rank : {2, 1})
    for (unsigned i = 0; i < classes.size(); ++i) {
      Class &members = classes[i];
      if (members.parent != i || members.layout || members.shape.size() != rank)
        continue;
      members.layout = getDefault(members.shape, members.minBits);
      while (propagate())
        ;
    }
  return success();
}
