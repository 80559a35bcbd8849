// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comparisons of columns with a bound of each row, as masks of causal attention, windows and
// documents have them: column < bound(row). A thread counts the columns below the bound among those
// that it holds of a row, and has their answers as bits of a word. A comparison for each element
// takes one or two instructions; of a bit ptxas makes a predicate in a seventh (R2P).

#include "passes/Conversion/ColumnBounds.h"
#include "passes/Conversion/ThreadCoords.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

namespace {

constexpr int bitsPerWord = 32;

/// For each row of the thread: a bound that its columns are below, or not below, or a condition on
/// the whole row.
struct ColumnBound {
  enum class Kind { Below, NotBelow, WholeRow } kind;
  Values rows;
};
/// The conjunction of all.
struct BoundsOfTiles : llvm::DenseMap<Value, SmallVector<ColumnBound>> {};

/// The columns that a thread holds of each of its rows: `run` consecutive ones at each multiple of
/// `stride`, starting at the thread's position.
struct ThreadColumns {
  int64_t run, stride;
  int perRow;
  llvm::SmallVector<int> rows;           ///< number of the row of each register
  llvm::SmallVector<int> bits;           ///< position of each register within its row
  llvm::SmallVector<int> firstRegisters; ///< first register of each row

  int wordsPerRow() const { return (perRow + bitsPerWord - 1) / bitsPerWord; }
  int wordOf(int reg) const { return rows[reg] * wordsPerRow() + bits[reg] / bitsPerWord; }
};

} // namespace

/// Nothing if rows differ, if runs are not powers of two, or if so few columns are held that
/// counting takes longer.
static std::optional<ThreadColumns> findColumns(const RegisterLayout &layout) {
  constexpr size_t fewest = 8;
  llvm::MapVector<int64_t, llvm::SmallVector<std::pair<int64_t, int>>> rows;
  for (int reg = 0; reg < layout.registersPerThread(); ++reg) {
    auto part = layout.registerPart(reg);
    rows[part[0]].push_back({part[1], reg});
  }
  ThreadColumns columns;
  columns.rows.resize(layout.registersPerThread());
  columns.bits.resize(layout.registersPerThread());
  const auto &first = rows.front().second;
  columns.perRow = static_cast<int>(first.size());
  if (first.size() < fewest)
    return std::nullopt;
  for (auto [number, row] : llvm::enumerate(rows)) {
    llvm::sort(row.second);
    if (row.second.size() != first.size())
      return std::nullopt;
    for (auto [bit, element] : llvm::enumerate(row.second)) {
      columns.rows[element.second] = static_cast<int>(number);
      columns.bits[element.second] = static_cast<int>(bit);
    }
    columns.firstRegisters.push_back(row.second.front().second);
  }
  size_t run = 1;
  while (run < first.size() && first[run].first == static_cast<int64_t>(run))
    ++run;
  columns.run = static_cast<int64_t>(run);
  columns.stride = run < first.size() ? first[run].first : columns.run;
  if (!llvm::isPowerOf2_64(columns.run) || !llvm::isPowerOf2_64(columns.stride))
    return std::nullopt;
  for (auto &[number, row] : rows)
    for (auto [bit, element] : llvm::enumerate(row)) {
      int64_t place = static_cast<int64_t>(bit);
      if (element.first != place / columns.run * columns.stride + place % columns.run)
        return std::nullopt;
    }
  return columns;
}

bool tgpu::hasColumnBounds(KernelEmitter &e, Value tile) {
  return e.state<BoundsOfTiles>().count(tile);
}

static void setColumnBounds(KernelEmitter &e, Value tile, SmallVector<ColumnBound> bounds) {
  e.state<BoundsOfTiles>()[tile] = std::move(bounds);
  e.defer(tile, [&e, tile] {
    Values elements(e.getLayout(tile.getDefiningOp(), tile.getType())->registersPerThread());
    visitColumnBits(e, tile, [&](int reg, Value is) { elements[reg] = is; });
    return elements;
  });
  // Other users compute the bits at the use: computed here, they would stay live until then.
  bool isKept = llvm::all_of(tile.getUsers(), llvm::IsaPred<arith::AndIOp, tile::SelectOp>);
  if (!isKept)
    e.setElements(tile, e.getElements(tile));
}

/// The number of columns of the thread below the bound: those of whole strides, and those of the
/// stride that contains the bound.
static Value countColumns(OpBuilder &b, Location loc, const ThreadColumns &columns, Value first,
                          Value bound) {
  auto i32 = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  Value behind = arith::MaxSIOp::create(b, loc, bound, first);
  Value count = arith::SubIOp::create(b, loc, behind, first);
  if (columns.run == columns.stride)
    return count;
  Value whole = arith::ShRUIOp::create(b, loc, count, i32(llvm::Log2_64(columns.stride)));
  Value inside = arith::AndIOp::create(b, loc, count, i32(columns.stride - 1));
  Value ofWhole = arith::MulIOp::create(b, loc, whole, i32(columns.run));
  Value ofLast = arith::MinUIOp::create(b, loc, inside, i32(columns.run));
  return arith::AddIOp::create(b, loc, ofWhole, ofLast);
}

/// The comparisons of each row of the thread with its bound, as bits of one or more words.
static Values makeColumnWords(ThreadBuilder &b, const RegisterLayout &layout,
                              const ColumnBound &bound) {
  ThreadColumns columns = *findColumns(layout);
  Value first = getThreadCoord(b, layout, 1);
  Values words;
  for (Value row : bound.rows) {
    if (bound.kind == ColumnBound::Kind::WholeRow) {
      words.append(columns.wordsPerRow(),
                   arith::SelectOp::create(b, row, b.i32(-1), b.i32(0)).getResult());
      continue;
    }
    Value count = countColumns(b, b.getLoc(), columns, first, row);
    for (int word = 0; word < columns.wordsPerRow(); ++word) {
      Value before = b.i32(int64_t(word) * bitsPerWord), size = count;
      if (word > 0)
        size = arith::SubIOp::create(b, arith::MaxUIOp::create(b, count, before), before);
      // The low min(size, 32) bits are set.
      Value bits = b.intrinsic("llvm.nvvm.fshl.clamp", b.getI32Type(), {b.i32(0), b.i32(-1), size});
      bool isBelow = bound.kind == ColumnBound::Kind::Below;
      words.push_back(isBelow ? bits : arith::XOrIOp::create(b, bits, b.i32(-1)).getResult());
    }
  }
  return words;
}

void tgpu::visitColumnBits(KernelEmitter &e, Value tile,
                           llvm::function_ref<void(int, Value)> visit) {
  ThreadBuilder &b = e.b;
  const RegisterLayout &layout = *e.getLayout(tile.getDefiningOp(), tile.getType());
  ThreadColumns columns = *findColumns(layout);
  Values words;
  for (const ColumnBound &bound : e.state<BoundsOfTiles>()[tile]) {
    Values other = makeColumnWords(b, layout, bound);
    for (auto [word, otherWord] : llvm::zip(words, other))
      word = arith::AndIOp::create(b, word, otherWord);
    if (words.empty())
      words = other;
  }
  auto registers = llvm::to_vector(llvm::seq(0, layout.registersPerThread()));
  llvm::sort(registers, [&](int x, int y) {
    return std::pair(columns.rows[x], columns.bits[x]) <
           std::pair(columns.rows[y], columns.bits[y]);
  });
  for (int reg : registers) {
    Value mask = b.i32(int64_t(1) << columns.bits[reg] % bitsPerWord);
    Value bit = arith::AndIOp::create(b, words[columns.wordOf(reg)], mask);
    visit(reg, b.notEqual(bit, b.i32(0)));
  }
}

/// One bound for all rows needs few comparisons, whose results take fewer registers than words.
bool tgpu::emitColumnCompare(KernelEmitter &e, arith::CmpIOp op) {
  auto iota = op.getLhs().getDefiningOp<tile::IotaOp>();
  bool isBelow = op.getPredicate() == arith::CmpIPredicate::slt;
  if (!iota || iota.getDim() != 1 || !op.getRhs().getDefiningOp<tile::ExpandOp>() ||
      tile::getRank(op.getType()) != 2 || !matchPattern(iota.getStart(), m_Zero()) ||
      !(isBelow || op.getPredicate() == arith::CmpIPredicate::sge))
    return false;
  const RegisterLayout &layout = *e.getLayout(op, op.getType());
  std::optional<ThreadColumns> columns = findColumns(layout);
  if (!columns)
    return false;
  Values bounds = e.getElements(op.getRhs());
  ColumnBound bound{isBelow ? ColumnBound::Kind::Below : ColumnBound::Kind::NotBelow, {}};
  for (int reg : columns->firstRegisters)
    bound.rows.push_back(bounds[reg]);
  for (auto [reg, value] : llvm::enumerate(bounds))
    if (value != bound.rows[columns->rows[reg]])
      return false;
  setColumnBounds(e, op.getResult(), {bound});
  return true;
}

/// Whether all elements of a row have the same result: a comparison of row positions with a scalar.
static bool isOfRows(Value tile) {
  auto op = tile.getDefiningOp<arith::CmpIOp>();
  auto iota = op ? op.getLhs().getDefiningOp<tile::IotaOp>() : tile::IotaOp();
  return iota && iota.getDim() == 0 && op.getRhs().getDefiningOp<tile::FullOp>();
}

/// The conjunction of a condition on columns and another on columns or rows.
bool tgpu::emitColumnAnd(KernelEmitter &e, arith::AndIOp op) {
  Value lhs = op.getLhs(), rhs = op.getRhs();
  if (!hasColumnBounds(e, lhs))
    std::swap(lhs, rhs);
  if (!hasColumnBounds(e, lhs) || !(hasColumnBounds(e, rhs) || isOfRows(rhs)))
    return false;
  SmallVector<ColumnBound> bounds = e.state<BoundsOfTiles>()[lhs];
  if (hasColumnBounds(e, rhs)) {
    llvm::append_range(bounds, e.state<BoundsOfTiles>()[rhs]);
  } else {
    Values elements = e.getElements(rhs);
    ColumnBound rows{ColumnBound::Kind::WholeRow, {}};
    auto columns = findColumns(*e.getLayout(op, op.getType()));
    for (int reg : columns->firstRegisters)
      rows.rows.push_back(elements[reg]);
    bounds.push_back(rows);
  }
  setColumnBounds(e, op.getResult(), bounds);
  return true;
}
