// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows of a view of pages, and the boxes that copy them.

#include "passes/Conversion/PagedAccess.h"

#include "dialect/Tile/TileExpr.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <map>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// An extent of an argument, or the one of an earlier argument that constraints equate with it. An
/// argument that is absent has no extents, and its constraints do not count.
static Value getEqualExtent(KernelEmitter &e, Value view, int64_t dim) {
  Value own = getView(e, view).extents[dim];
  auto argument = dyn_cast<BlockArgument>(view);
  std::optional<ArrayAttr> constraints = e.kernel.getConstraints();
  if (!argument || argument.getOwner() != &e.kernel.getBody().front() || !constraints ||
      argument.getArgNumber() >= e.kernel.getNumArgs())
    return own;
  auto nameOf = [&](unsigned number) {
    return cast<StringAttr>(e.kernel.getArgNames()[number]).getValue();
  };
  for (auto constraint : constraints->getAsRange<tile::ExprAttr>()) {
    if (constraint.getKind() != tile::ExprKind::Call ||
        tile::getFunction(constraint) != expr::Function::Equal)
      continue;
    tile::ExprAttr sides[] = {constraint.getOperands()[0], constraint.getOperands()[1]};
    if (sides[0].getKind() != tile::ExprKind::Dim || sides[1].getKind() != tile::ExprKind::Dim)
      continue;
    for (auto [left, right] : {std::pair(sides[0], sides[1]), std::pair(sides[1], sides[0])})
      if (left.getName() == nameOf(argument.getArgNumber()) && left.getValue() == dim)
        for (unsigned before = 0; before < argument.getArgNumber(); ++before)
          if (right.getName() == nameOf(before) && !e.kernel.getArgOptional()[before])
            return getView(e, e.kernel.getBody().getArgument(before)).extents[right.getValue()];
  }
  return own;
}

PagedRows::PagedRows(KernelEmitter &e, tile::PagedOp op)
    : e(e), op(op), pool(getView(e, op.getPool())), size(e.get(op.getResult())[1]),
      rowsBetweenPages(e.get(op.getResult()).back()) {
  for (int64_t dim : {0, 1})
    pool.extents[dim] = getEqualExtent(e, op.getPool(), dim);
}

PagedRows::Place PagedRows::find(Value row) {
  ThreadBuilder &b = e.b;
  Value rows = pool.extents[1], inside = b.less(row, size);
  if (!op.getTable()) {
    Value page = e.getScalar(op.getPage());
    inside = b.conjunction(inside, b.conjunction(b.less(page, pool.extents[0]), b.less(row, rows)));
    Value end = arith::MinSIOp::create(b, size, rows);
    return {page, row, arith::SubIOp::create(b, end, row), inside};
  }
  Value number = arith::DivUIOp::create(b, row, rows);
  Value rowOfPage = arith::SubIOp::create(b, row, b.mul(number, rows));
  View table = getView(e, op.getTable());
  Values indices;
  for (Value index : op.getTableIndices())
    indices.push_back(e.getScalar(index));
  indices.push_back(number);
  ElementPlace place = getElementPlace(b, table, indices, inside);
  Value page = loadGlobal(b, place.address, place.inside, table.element, 1).front();
  Value left = arith::MinSIOp::create(b, arith::SubIOp::create(b, size, row),
                                      arith::SubIOp::create(b, rows, rowOfPage));
  return {page, rowOfPage, left, b.conjunction(place.inside, b.less(page, pool.extents[0]))};
}

Value PagedRows::getOffset(const Place &place) const {
  ThreadBuilder &b = e.b;
  return b.add(b.mul(b.toI64(place.page), pool.strides[0]),
               b.mul(b.toI64(place.row), pool.strides[1]));
}

/// The numbers of the pages of some boxes.
struct tgpu::ReadNumbers {
  SmallVector<Value> pages;
  Value areWhole; ///< of PagedBoxes::readAll
};

/// The same value, for a branch that is seldom taken: ptxas moves nothing that follows from it in
/// front of the branch.
static Value hide(ThreadBuilder &b, Value value) {
  return b.inlineAsm("mov.b32 $0, $1;", "=r,r", b.getI32Type(), {value});
}

void PagedBoxes::hideRow() { row = rowOfPage = hide(b, row); }

void PagedRows::hideExtents() {
  for (int64_t dim : {0, 1})
    pool.extents[dim] = hide(e.b, pool.extents[dim]);
}

namespace {
/// Numbers of pages that a block of code has read, by what determines them.
struct NumbersOfBlocks {
  using Key = std::pair<Block *, std::vector<std::pair<void *, int64_t>>>;
  std::map<Key, ReadNumbers> numbers;
};
} // namespace

/// A role that copies needs registers besides the numbers of pages that it keeps, and two for each
/// of these: with 32 registers and 8 numbers it spilled 40 bytes. To keep two numbers saves few
/// instructions, which count only where the role shares its scheduler with several warps that
/// compute. With one warpgroup of these, a decode was 1 % slower.
static bool mayKeepNumbers(KernelEmitter &e, int64_t count) {
  constexpr int64_t ofOthers = 24, ofNumber = 2, few = 2, groups = 2;
  auto roles = e.role ? dyn_cast<RolesOp>(e.role->getParentOp()) : RolesOp();
  if (!roles || roles.getRegisters()[e.role->getRegionNumber()] < ofOthers + ofNumber * count)
    return false;
  int64_t warps = llvm::sum_of(roles.getWarps());
  return count > few || 32 * warps > groups * Target::threadsOfGroup;
}

PagedBoxes::PagedBoxes(PagedRows &rows, Value first, int64_t rowsOfBox, int64_t boxes)
    : rows(rows), b(rows.e.b), rowsOfBox(rowsOfBox), row(first), rowOfPage(first), boxes(boxes) {
  KernelEmitter &e = rows.e;
  tile::PagedOp op = rows.op;
  Value rowsOfPage = rows.pool.extents[1];
  if (!op.getTable()) {
    Value exists = b.less(e.getScalar(op.getPage()), rows.pool.extents[0]);
    Value end = arith::MinSIOp::create(b, rows.size, rowsOfPage);
    limit = arith::SelectOp::create(b, exists, end, b.i32(0));
    return;
  }
  View table = getView(e, op.getTable());
  Value exists;
  for (auto [index, extent] : llvm::zip(op.getTableIndices(), table.extents))
    exists = b.conjunction(exists, b.less(e.getScalar(index), extent));
  Value room = b.mul(b.toU64(table.extents.back()), b.toU64(rowsOfPage));
  Value end = arith::MinUIOp::create(b, room, b.toU64(rows.size));
  limit = arith::TruncIOp::create(b, b.getI32Type(), end);
  if (exists)
    limit = arith::SelectOp::create(b, exists, limit, b.i32(0));
  if (!mayKeepNumbers(e, boxes))
    return;
  NumbersOfBlocks::Key key{b.getInsertionBlock(), {}};
  for (Value value : Values{op.getTable(), op.getSize(), first, rowsOfPage, rows.pool.extents[0]})
    key.second.emplace_back(value.getAsOpaquePointer(), rowsOfBox);
  for (Value index : op.getTableIndices())
    key.second.emplace_back(e.getScalar(index).getAsOpaquePointer(), 0);
  key.second.emplace_back(nullptr, boxes);
  kept = &e.state<NumbersOfBlocks>().numbers[key];
}

void PagedBoxes::findFirst(Value rowsOfPage) {
  KernelEmitter &e = rows.e;
  tile::PagedOp op = rows.op;
  View table = getView(e, op.getTable());
  Value number = arith::DivUIOp::create(b, row, rowsOfPage);
  rowOfPage = arith::SubIOp::create(b, row, b.mul(number, rowsOfPage));
  Values indices;
  for (Value index : op.getTableIndices())
    indices.push_back(e.getScalar(index));
  indices.push_back(number);
  address = getElementPlace(b, table, indices).address;
  distance = b.mul(table.strides.back(), b.i64(table.bytes));
}

Value PagedBoxes::getNumber(int64_t box) const { return kept->pages[box]; }

Value PagedBoxes::readNumber(Value inside) {
  return loadGlobal(b, address, inside, getView(rows.e, rows.op.getTable()).element, 1).front();
}

Value PagedBoxes::readAll() {
  if (kept->areWhole)
    return kept->areWhole;
  // No row is beyond the end, and no page has several boxes: then neither numbers nor boxes need
  // comparisons of their own, and no division finds the first number.
  Value isEach = b.conjunction(b.equal(rows.pool.extents[1], b.i32(rowsOfBox)),
                               b.less(b.add(row, b.i32(boxes * rowsOfBox - 1)), limit));
  PagedBoxes pages = *this, others = *this;
  pages.findFirst(b.i32(rowsOfBox));
  others.kept = nullptr;
  auto readEither = [&](Value condition, llvm::function_ref<Values()> read,
                        llvm::function_ref<Values()> readElse) {
    SmallVector<Type> types(boxes, b.getI32Type());
    auto branch = scf::IfOp::create(b, types, condition, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(&branch.getThenRegion().front());
    scf::YieldOp::create(b, read());
    b.setInsertionPointToEnd(&branch.getElseRegion().front());
    scf::YieldOp::create(b, readElse());
    return Values(branch.result_begin(), branch.result_end());
  };
  auto readOneByOne = [&] {
    Values numbers;
    for (int64_t box = 0; box < boxes; ++box) {
      numbers.push_back(pages.readNumber(nullptr));
      pages.address = b.advance(pages.address, pages.distance);
    }
    return numbers;
  };
  auto readTogether = [&]() -> Values {
    View table = getView(rows.e, rows.op.getTable());
    // The largest power of two that divides the count: a vector has 2 or 4 elements.
    int64_t together = std::min<int64_t>(boxes & -boxes, 4), bytes = together * table.bytes;
    if (together == 1 || bytes > 16)
      return readOneByOne();
    Value bits = LLVM::PtrToIntOp::create(b, b.getI64Type(), pages.address);
    Value rest = arith::RemUIOp::create(b, bits, b.i64(bytes));
    Value isDense = b.equal(pages.distance, b.i64(table.bytes));
    Value isRun = b.conjunction(b.equal(rest, b.i64(0)), isDense);
    auto readRuns = [&] {
      Values numbers;
      for (int64_t box = 0; box < boxes; box += together)
        llvm::append_range(numbers, loadGlobal(b, b.advance(pages.address, box * table.bytes),
                                               nullptr, table.element, together));
      return numbers;
    };
    return readEither(isRun, readRuns, readOneByOne);
  };
  auto readOthers = [&] {
    Values numbers;
    others.hideRow();
    for (int64_t box = 0; box < boxes; ++box)
      numbers.push_back(others.next().page);
    return numbers;
  };
  kept->pages = readEither(isEach, readTogether, readOthers);
  Value most = kept->pages.front();
  for (Value page : ArrayRef(kept->pages).drop_front())
    most = arith::MaxUIOp::create(b, most, page);
  return kept->areWhole = b.conjunction(isEach, b.less(most, rows.pool.extents[0]));
}

PagedBoxes::Box PagedBoxes::next() {
  KernelEmitter &e = rows.e;
  tile::PagedOp op = rows.op;
  if (op.getTable() && !address)
    findFirst(rows.pool.extents[1]);
  Box box;
  box.row = rowOfPage;
  Value inside = b.less(row, limit);
  if (op.getTable()) {
    bool isKnown = kept && count < kept->pages.size();
    box.page = isKnown ? kept->pages[count] : readNumber(inside);
    if (kept && !isKnown)
      kept->pages.push_back(box.page);
    ++count;
    inside = b.conjunction(inside, b.less(box.page, rows.pool.extents[0]));
  } else {
    box.page = e.getScalar(op.getPage());
  }
  Value left = arith::SubIOp::create(b, limit, row);
  left = arith::MinSIOp::create(b, left, b.i32(rowsOfBox));
  box.size = arith::SelectOp::create(b, inside, left, b.i32(0));

  row = b.add(row, b.i32(rowsOfBox));
  rowOfPage = b.add(rowOfPage, b.i32(rowsOfBox));
  if (op.getTable()) {
    Value isSame = b.less(rowOfPage, rows.pool.extents[1]);
    rowOfPage = arith::SelectOp::create(b, isSame, rowOfPage, b.i32(0));
    address = b.advance(address, arith::SelectOp::create(b, isSame, b.i64(0), distance));
  }
  return box;
}
