// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which a block processes the tiles of a kernel's grid.

#include "passes/Tgpu/Roles/TileOrder.h"

#include "base/Target/Target.h"
#include "dialect/Tile/TileExpr.h"
#include "passes/ExprLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using expr::Function;

static Value getArgument(KernelOp kernel, StringRef name) {
  for (auto [candidate, argument] : llvm::zip_equal(kernel.getArgNames(), kernel.getArgs()))
    if (cast<StringAttr>(candidate).getValue() == name)
      return argument;
  return nullptr;
}

namespace {
/// The range of the values of an expression, as the launch computes them.
struct Bounds {
  int64_t low, high;

  bool fits() const { return llvm::isInt<32>(low) && llvm::isInt<32>(high); }
};
} // namespace

/// Nothing if it may exceed 64 bits.
static std::optional<Bounds> getBounds(tile::ExprAttr expr) {
  constexpr int64_t least = std::numeric_limits<int32_t>::min();
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (expr.getKind() == tile::ExprKind::Int)
    return Bounds{expr.getValue(), expr.getValue()};
  if (expr.getKind() != tile::ExprKind::Call)
    return Bounds{expr.getKind() == tile::ExprKind::Dim ? 0 : least, most};
  std::optional<Bounds> x = getBounds(expr.getOperands()[0]), y = getBounds(expr.getOperands()[1]);
  if (!x || !y)
    return std::nullopt;
  Function function = tile::getFunction(expr);
  if (function == Function::Min)
    return Bounds{std::min(x->low, y->low), std::min(x->high, y->high)};
  if (function == Function::Max)
    return Bounds{std::max(x->low, y->low), std::max(x->high, y->high)};
  if (function == Function::CeilDiv) {
    if (x->low >= 0 && y->low > 0)
      return Bounds{0, llvm::divideCeilSigned(x->high, y->low)};
    if (!x->fits())
      return std::nullopt;
    int64_t size = std::max(-x->low, x->high);
    return Bounds{x->low >= 0 && y->low >= 0 ? 0 : -size, size};
  }
  // The extrema of sums, differences and products are at the ends of the ranges.
  std::optional<Bounds> bounds;
  for (int64_t a : {x->low, x->high})
    for (int64_t b : {y->low, y->high}) {
      int64_t value;
      if (expr::compute(function, a, b, value) != expr::Fault::None)
        return std::nullopt;
      bounds = bounds ? Bounds{std::min(bounds->low, value), std::max(bounds->high, value)}
                      : Bounds{value, value};
    }
  return bounds;
}

/// Whether a block can compute in 32 bits what the launch computes in 64, modulo 2^32: sums,
/// differences and products always can, and the others where their operands are in range.
static bool isComputable(KernelOp kernel, tile::ExprAttr expr) {
  if (expr.getKind() == tile::ExprKind::Name) {
    Value argument = getArgument(kernel, expr.getName());
    return argument && argument.getType().isSignlessInteger(32);
  }
  if (expr.getKind() != tile::ExprKind::Call)
    return expr.getKind() == tile::ExprKind::Int || expr.getKind() == tile::ExprKind::Dim;
  Function function = tile::getFunction(expr);
  bool isModular = llvm::is_contained({Function::Add, Function::Sub, Function::Mul}, function);
  if (!isModular &&
      !llvm::is_contained({Function::CeilDiv, Function::Min, Function::Max}, function))
    return false;
  return llvm::all_of(expr.getOperands(), [&](tile::ExprAttr operand) {
    if (!isComputable(kernel, operand))
      return false;
    if (isModular)
      return true;
    std::optional<Bounds> bounds = getBounds(operand);
    return bounds && bounds->fits();
  });
}

bool tgpu::hasComputableGrid(KernelOp kernel) {
  return llvm::all_of(kernel.getGrid().getAsRange<tile::ExprAttr>(),
                      [&](tile::ExprAttr expr) { return isComputable(kernel, expr); });
}

/// The number of tiles.
static tile::ExprAttr getProduct(ArrayAttr grid) {
  tile::ExprAttr tiles;
  for (auto extent : grid.getAsRange<tile::ExprAttr>())
    tiles = tiles ? tile::makeCall(grid.getContext(), Function::Mul, {tiles, extent}) : extent;
  return tiles;
}

ArrayAttr tgpu::getPersistentGrid(ArrayAttr grid) {
  MLIRContext *context = grid.getContext();
  tile::ExprAttr blocks = tile::makeCall(context, Function::SmCount, {});
  return ArrayAttr::get(context,
                        {tile::makeCall(context, Function::Min, {blocks, getProduct(grid)})});
}

ArrayAttr tgpu::getPersistentConstraints(ArrayAttr constraints, ArrayAttr grid, int64_t group) {
  // Half of 32 bits leaves room for numbers of tiles that blocks take after the last one. The first
  // extent is also multiplied by the height of a group.
  int64_t most = int64_t(1) << 30;
  std::optional<Bounds> first = getBounds(cast<tile::ExprAttr>(grid[0]));
  if (group > 1 && (!first || first->high > std::numeric_limits<uint32_t>::max() / group))
    most /= group;
  tile::ExprAttr tiles = getProduct(grid);
  if (std::optional<Bounds> bounds = getBounds(tiles); bounds && bounds->high <= most)
    return constraints;
  MLIRContext *context = grid.getContext();
  SmallVector<Attribute> list;
  if (constraints)
    llvm::append_range(list, constraints);
  list.push_back(
      tile::makeCall(context, Function::LessEqual, {tiles, tile::ExprAttr::getInt(context, most)}));
  return ArrayAttr::get(context, list);
}

static Value i32(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

/// Tiles are counted from zero, which compilers cannot see: values computed from it stay in the
/// loop.
Value TileOrder::getZero(ImplicitLocOpBuilder &b, Value t) const {
  return isKept ? i32(b, 0) : arith::ShRSIOp::create(b, t, i32(b, 31)).getResult();
}

Value TileOrder::getTiles(ImplicitLocOpBuilder &b, Value t) const {
  Value tiles;
  for (Value extent : getExtents(b, getZero(b, t)))
    tiles = tiles ? arith::MulIOp::create(b, tiles, extent).getResult() : extent;
  return tiles;
}

/// In 32 bits, since each block computes this for each of its tiles; getPersistentConstraints()
/// states that they suffice. `zero` is added to every extent.
SmallVector<Value> TileOrder::getExtents(ImplicitLocOpBuilder &b, Value zero) const {
  auto getLeaf = [&](tile::ExprAttr leaf) -> Value {
    Value argument = getArgument(kernel, leaf.getName());
    if (!argument || leaf.getKind() == tile::ExprKind::Name)
      return argument;
    Value extent = tile::DimOp::create(b, b.getI32Type(), argument, leaf.getValue());
    return arith::AddIOp::create(b, extent, zero);
  };
  ExprLowering lowering{b, /*width=*/32, getLeaf};
  return llvm::map_to_vector(grid.getAsRange<tile::ExprAttr>(),
                             [&](tile::ExprAttr extent) { return lowerExpr(lowering, extent); });
}

Value TileOrder::getHeight(ImplicitLocOpBuilder &b, Value zero) const {
  if (!bytesOfStep)
    return i32(b, group);
  // In units for which the division fits in 32 bits.
  constexpr int64_t unitBits = 10;
  int64_t cacheBytes = Target::find(KernelOp(kernel).getTarget())->cacheOfTiles;
  auto i64 = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  };
  Value units = arith::ShRUIOp::create(b, bytesOfStep(zero), i64(unitBits));
  Value some = arith::MaxSIOp::create(b, units, i64(1));
  Value divisor = arith::TruncIOp::create(
      b, b.getI32Type(), arith::MinSIOp::create(b, some, i64(cacheBytes >> unitBits)));
  Value steps = arith::DivUIOp::create(b, i32(b, cacheBytes >> unitBits), divisor);
  return arith::MinSIOp::create(b, steps, i32(b, group));
}

/// Divisions dominate the cost of ids. Numbers of tiles and extents are not negative, which avoids
/// the handling of signs, and one division also gives the remainder.
static std::pair<Value, Value> divide(ImplicitLocOpBuilder &b, Value x, Value y) {
  Value quotient = arith::DivUIOp::create(b, x, y);
  Value multiple = arith::MulIOp::create(b, quotient, y);
  return {quotient, arith::SubIOp::create(b, x, multiple)};
}

/// The ids of a number that enumerates the extents, the first the fastest.
static SmallVector<Value> split(ImplicitLocOpBuilder &b, Value number, ArrayRef<Value> extents) {
  SmallVector<Value> ids;
  for (Value extent : extents.drop_back()) {
    auto [behind, id] = divide(b, number, extent);
    ids.push_back(id);
    number = behind;
  }
  ids.push_back(number);
  return ids;
}

Value TileOrder::getLast(ImplicitLocOpBuilder &b, Value all, Value tilesOfStep,
                         Value height) const {
  // With fewer tiles per block than this, blocks would wait for the last, long one.
  constexpr int64_t tilesOfBlock = 4;
  Value tiles = arith::MulIOp::create(b, all, tilesOfStep);
  Value many = arith::MulIOp::create(b, blocksOfLast, i32(b, tilesOfBlock));
  Value areFew = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, tiles, many);
  Value otherwise = i32(b, 0);
  if (last == Last::TwoGroups)
    otherwise = arith::MinSIOp::create(b, all, arith::AddIOp::create(b, height, height));
  if (last == Last::TwoRounds) {
    Value two = arith::AddIOp::create(b, blocksOfLast, blocksOfLast);
    Value some = arith::MaxSIOp::create(b, tilesOfStep, i32(b, 1));
    otherwise = arith::MinSIOp::create(b, all, arith::CeilDivSIOp::create(b, two, some));
  }
  return arith::SelectOp::create(b, areFew, all, otherwise);
}

SmallVector<Value> TileOrder::getIdsOfGroup(ImplicitLocOpBuilder &b, Value number,
                                            ArrayRef<Value> extents, Value height) const {
  // The third id and those after it count as one.
  ArrayRef<Value> rest = extents.drop_front(2);
  bool hasThird = llvm::any_of(rest, [](Value extent) { return !matchPattern(extent, m_One()); });
  Value all = extents[1], inner = number, begin;
  if (hasThird)
    for (Value extent : rest)
      all = arith::MulIOp::create(b, all, extent);
  Value steps = all, united;
  if (blocksOfLast) {
    united = getLast(b, all, extents[0], height);
    steps = arith::SubIOp::create(b, all, united);
  }
  Value before = steps; // the last group
  if (hasThird && !groupGoesOn) {
    Value t;
    std::tie(t, inner) = divide(b, number, arith::MulIOp::create(b, extents[0], extents[1]));
    begin = arith::MulIOp::create(b, t, extents[1]);
    steps = extents[1];
    if (blocksOfLast && last != Last::NoneUnlessFew)
      steps = arith::MinSIOp::create(b, steps, arith::SubIOp::create(b, before, begin));
  }
  if (blocksOfLast) {
    Value tilesBefore = arith::MulIOp::create(b, before, extents[0]);
    Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, number, tilesBefore);
    auto select = [&](Value yes, Value no) -> Value {
      return arith::SelectOp::create(b, isLast, yes, no);
    };
    inner = select(arith::SubIOp::create(b, number, tilesBefore), inner);
    begin = select(before, begin ? begin : i32(b, 0));
    steps = select(united, steps);
    height = select(united, height);
  }
  auto [index, within] = divide(b, inner, arith::MulIOp::create(b, extents[0], height));
  Value start = arith::MulIOp::create(b, index, height);
  // The last group may be lower.
  Value left = arith::SubIOp::create(b, steps, start);
  auto [x, y] = divide(b, within, arith::MinSIOp::create(b, left, height));
  Value step = arith::AddIOp::create(b, start, y);
  if (begin)
    step = arith::AddIOp::create(b, begin, step);
  SmallVector<Value> ids{x};
  if (hasThird) {
    llvm::append_range(ids, split(b, step, extents.drop_front()));
    return ids;
  }
  ids.push_back(step);
  ids.append(rest.size(), i32(b, 0));
  return ids;
}

SmallVector<Value> TileOrder::getIds(ImplicitLocOpBuilder &b, Value t) const {
  Value zero = getZero(b, t);
  SmallVector<Value> extents = getExtents(b, zero);
  if (group > 1 && extents.size() > 1)
    return getIdsOfGroup(b, t, extents, getHeight(b, zero));
  return split(b, t, extents);
}
