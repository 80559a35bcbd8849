// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The grid of a kernel as tiles that a block takes one after the other.

#include "passes/Tgpu/TileOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static bool isComputable(KernelOp kernel, tile::ExprAttr expr) {
  if (expr.getKind() == tile::ExprKind::Name)
    return llvm::any_of(llvm::zip_equal(kernel.getArgNames(), kernel.getArgs()), [&](auto pair) {
      return cast<StringAttr>(std::get<0>(pair)).getValue() == expr.getName() &&
             std::get<1>(pair).getType().isSignlessInteger(32);
    });
  if (expr.getKind() != tile::ExprKind::Call)
    return expr.getKind() == tile::ExprKind::Int || expr.getKind() == tile::ExprKind::Dim;
  bool isKnown = llvm::is_contained({"+", "-", "*", "ceildiv"}, expr.getName());
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

static Value compute(ImplicitLocOpBuilder &b, KernelOp kernel, tile::ExprAttr expr) {
  if (expr.getKind() == tile::ExprKind::Int)
    return i32(b, expr.getValue());
  if (expr.getKind() != tile::ExprKind::Call) {
    Value argument;
    for (auto [name, candidate] : llvm::zip_equal(kernel.getArgNames(), kernel.getArgs()))
      if (cast<StringAttr>(name).getValue() == expr.getName())
        argument = candidate;
    if (expr.getKind() == tile::ExprKind::Name)
      return argument;
    return tile::DimOp::create(b, b.getI32Type(), argument, expr.getValue());
  }
  Value x = compute(b, kernel, expr.getOperands()[0]);
  Value y = compute(b, kernel, expr.getOperands()[1]);
  StringRef name = expr.getName();
  if (name == "+")
    return arith::AddIOp::create(b, x, y);
  if (name == "-")
    return arith::SubIOp::create(b, x, y);
  if (name == "*")
    return arith::MulIOp::create(b, x, y);
  return arith::CeilDivSIOp::create(b, x, y);
}

TileOrder::TileOrder(ImplicitLocOpBuilder &b, KernelOp kernel, ArrayAttr grid, int64_t group)
    : group(group) {
  for (auto extent : grid.getAsRange<tile::ExprAttr>()) {
    extents.push_back(compute(b, kernel, extent));
    tiles = tiles ? arith::MulIOp::create(b, tiles, extents.back()).getResult() : extents.back();
  }
}

void TileOrder::limitGroup(ImplicitLocOpBuilder &b, Value bytesOfStep) {
  // Of the 50 MB of an H100's L2; results and what else is under way take the rest.
  constexpr int64_t cacheBytes = 32 << 20;
  Value one = arith::ConstantOp::create(b, b.getI64IntegerAttr(1));
  Value bytes = arith::MaxSIOp::create(b, bytesOfStep, one);
  Value all = arith::ConstantOp::create(b, b.getI64IntegerAttr(cacheBytes));
  Value most = arith::ConstantOp::create(b, b.getI64IntegerAttr(group));
  Value steps = arith::MinSIOp::create(b, arith::DivSIOp::create(b, all, bytes), most);
  limit = arith::TruncIOp::create(b, b.getI32Type(), arith::MaxSIOp::create(b, steps, one));
}

SmallVector<Value> TileOrder::getIds(ImplicitLocOpBuilder &b, Value t) const {
  auto divide = [&](Value x, Value y) {
    Value quotient = arith::DivSIOp::create(b, x, y);
    return std::pair<Value, Value>(quotient, arith::RemSIOp::create(b, x, y));
  };
  SmallVector<Value> ids;
  if (group > 1 && extents.size() > 1) {
    Value inner = t;
    if (extents.size() > 2)
      std::tie(t, inner) = divide(t, arith::MulIOp::create(b, extents[0], extents[1]));
    Value height = limit ? limit : i32(b, group);
    auto [number, within] = divide(inner, arith::MulIOp::create(b, extents[0], height));
    Value start = arith::MulIOp::create(b, number, height);
    // The last group may be lower.
    Value left = arith::SubIOp::create(b, extents[1], start);
    auto [x, y] = divide(within, arith::MinSIOp::create(b, left, height));
    ids = {x, arith::AddIOp::create(b, start, y)};
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
