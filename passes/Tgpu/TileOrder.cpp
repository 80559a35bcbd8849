// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The grid of a kernel as tiles that a block takes one after the other.

#include "passes/Tgpu/TileOrder.h"

#include "dialect/Tile/TileExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using expr::Function;

static bool isComputable(KernelOp kernel, tile::ExprAttr expr) {
  if (expr.getKind() == tile::ExprKind::Name)
    return llvm::any_of(llvm::zip_equal(kernel.getArgNames(), kernel.getArgs()), [&](auto pair) {
      return cast<StringAttr>(std::get<0>(pair)).getValue() == expr.getName() &&
             std::get<1>(pair).getType().isSignlessInteger(32);
    });
  if (expr.getKind() != tile::ExprKind::Call)
    return expr.getKind() == tile::ExprKind::Int || expr.getKind() == tile::ExprKind::Dim;
  bool isKnown = llvm::is_contained({Function::Add, Function::Sub, Function::Mul, Function::CeilDiv,
                                     Function::Min, Function::Max},
                                    tile::getFunction(expr));
  return isKnown && llvm::all_of(expr.getOperands(), [&](tile::ExprAttr operand) {
           return isComputable(kernel, operand);
         });
}

bool tgpu::hasComputableGrid(KernelOp kernel) {
  return llvm::all_of(kernel.getGrid().getAsRange<tile::ExprAttr>(),
                      [&](tile::ExprAttr expr) { return isComputable(kernel, expr); });
}

ArrayAttr tgpu::getPersistentGrid(ArrayAttr grid) {
  auto call = [&](StringRef name, ArrayRef<tile::ExprAttr> operands) {
    return tile::ExprAttr::get(grid.getContext(), tile::ExprKind::Call, 0, name, operands);
  };
  tile::ExprAttr tiles;
  for (auto extent : grid.getAsRange<tile::ExprAttr>())
    tiles = tiles ? call("*", {tiles, extent}) : extent;
  return ArrayAttr::get(grid.getContext(), {call("min", {call("sm_count", {}), tiles})});
}

static Value i32(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

/// In 32 bits, since as many blocks at most are launched, and each of them computes this for each
/// of its tiles. `zero` is added to every extent.
static Value compute(ImplicitLocOpBuilder &b, KernelOp kernel, tile::ExprAttr expr, Value zero) {
  if (expr.getKind() == tile::ExprKind::Int)
    return i32(b, expr.getValue());
  if (expr.getKind() != tile::ExprKind::Call) {
    Value argument;
    for (auto [name, candidate] : llvm::zip_equal(kernel.getArgNames(), kernel.getArgs()))
      if (cast<StringAttr>(name).getValue() == expr.getName())
        argument = candidate;
    if (expr.getKind() == tile::ExprKind::Name)
      return argument;
    Value extent = tile::DimOp::create(b, b.getI32Type(), argument, expr.getValue());
    return arith::AddIOp::create(b, extent, zero);
  }
  Value x = compute(b, kernel, expr.getOperands()[0], zero);
  Value y = compute(b, kernel, expr.getOperands()[1], zero);
  switch (tile::getFunction(expr)) {
  case Function::Add:
    return arith::AddIOp::create(b, x, y);
  case Function::Sub:
    return arith::SubIOp::create(b, x, y);
  case Function::Mul:
    return arith::MulIOp::create(b, x, y);
  case Function::Min:
    return arith::MinSIOp::create(b, x, y);
  case Function::Max:
    return arith::MaxSIOp::create(b, x, y);
  default:
    return arith::CeilDivSIOp::create(b, x, y);
  }
}

/// Tiles count from zero, which compilers do not know: what is computed from it stays in the loop.
Value TileOrder::getZero(ImplicitLocOpBuilder &b, Value t) const {
  return isKept ? i32(b, 0) : arith::ShRSIOp::create(b, t, i32(b, 31)).getResult();
}

Value TileOrder::getTiles(ImplicitLocOpBuilder &b, Value t) const {
  Value tiles;
  for (Value extent : getExtents(b, getZero(b, t)))
    tiles = tiles ? arith::MulIOp::create(b, tiles, extent).getResult() : extent;
  return tiles;
}

SmallVector<Value> TileOrder::getExtents(ImplicitLocOpBuilder &b, Value zero) const {
  return llvm::map_to_vector(grid.getAsRange<tile::ExprAttr>(), [&](tile::ExprAttr extent) {
    return compute(b, kernel, extent, zero);
  });
}

Value TileOrder::getHeight(ImplicitLocOpBuilder &b, Value zero) const {
  if (!bytesOfStep)
    return i32(b, group);
  // Of the 50 MB of an H100's L2; results and what else is under way take the rest. In units that
  // make it a division of 32 bits.
  constexpr int64_t cacheBytes = 16 << 20, unitBits = 10;
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

SmallVector<Value> TileOrder::getIds(ImplicitLocOpBuilder &b, Value t) const {
  Value zero = getZero(b, t);
  SmallVector<Value> extents = getExtents(b, zero);
  // Divisions are what this costs. Numbers of tiles and extents are not negative, which saves the
  // treatment of signs, and one division gives the remainder, too.
  auto divide = [&](Value x, Value y) {
    Value quotient = arith::DivUIOp::create(b, x, y);
    Value multiple = arith::MulIOp::create(b, quotient, y);
    return std::pair<Value, Value>(quotient, arith::SubIOp::create(b, x, multiple));
  };
  SmallVector<Value> ids;
  Value number = t;
  if (group > 1 && extents.size() > 1) {
    bool hasOneMore = extents.size() == 3;
    bool isAlone = hasOneMore && matchPattern(extents[2], m_One());
    bool goesOn = hasOneMore && !isAlone && groupGoesOn;
    bool mayUnite = hasOneMore && !isAlone && !groupGoesOn && blocksOfFew;
    Value inner = t, steps = extents[1], height = getHeight(b, zero);
    if (goesOn)
      steps = arith::MulIOp::create(b, steps, extents[2]);
    else if (extents.size() > 2 && !isAlone)
      std::tie(t, inner) = divide(t, arith::MulIOp::create(b, extents[0], extents[1]));
    if (mayUnite) {
      auto select = [&](Value condition, Value yes, Value no) -> Value {
        return arith::SelectOp::create(b, condition, yes, no);
      };
      // Blocks of fewer tiles than these would wait for the last, long one.
      constexpr int64_t tilesOfBlock = 4;
      Value all = arith::MulIOp::create(b, extents[1], extents[2]);
      Value tiles = arith::MulIOp::create(b, all, extents[0]);
      Value many = arith::MulIOp::create(b, blocksOfFew, i32(b, tilesOfBlock));
      Value areFew = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, tiles, many);
      inner = select(areFew, number, inner);
      t = select(areFew, i32(b, 0), t);
      steps = select(areFew, all, steps);
      height = select(areFew, all, height);
    }
    auto [index, within] = divide(inner, arith::MulIOp::create(b, extents[0], height));
    Value start = arith::MulIOp::create(b, index, height);
    // The last group may be lower.
    Value left = arith::SubIOp::create(b, steps, start);
    auto [x, y] = divide(within, arith::MinSIOp::create(b, left, height));
    Value step = arith::AddIOp::create(b, start, y);
    if (goesOn) {
      auto [z, ofZ] = divide(step, extents[1]);
      ids = {x, ofZ, z};
    } else if (mayUnite) {
      auto [z, ofZ] = divide(step, extents[1]);
      ids = {x, ofZ, arith::AddIOp::create(b, t, z)};
    } else {
      ids = {x, step};
      if (isAlone)
        ids.push_back(i32(b, 0));
    }
  }
  while (ids.size() < extents.size()) {
    if (ids.size() + 1 == extents.size()) {
      ids.push_back(t);
      break;
    }
    auto [rest, id] = divide(t, extents[ids.size()]);
    ids.push_back(id);
    t = rest;
  }
  return ids;
}
