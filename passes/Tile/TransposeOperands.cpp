// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-transpose-operands: wgmma multiplies bytes only along k in both operands. Where operand b of
// a product of 8-bit floats lies across k in memory, as V does, a launch before the kernel writes
// the array transposed to a workspace, and the kernel reads that.
//
// Operand a, in registers, comes from another product, whose columns are spread over the threads of
// a warp in another order than those of an operand of bytes. The workspace holds the columns in the
// order in which each thread has what it needs (`interleaved` of tile.dot).

#include "base/Target/Target.h"
#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExpr.h"
#include "passes/Passes.h"
#include "passes/Tile/AppendArgument.h"
#include "passes/Tile/ByteProducts.h"
#include "passes/Tile/LaunchNames.h"
#include "passes/Tile/ProgramOfKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

#include <algorithm>
#include <optional>

namespace tilewright {
#define GEN_PASS_DEF_TILETRANSPOSEOPERANDS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

constexpr int64_t interleavedColumns = 16;
/// That are transposed at a time. Threads read bytes of columns in shared memory that lie as many
/// rows apart as a thread stores, in the same banks: the fewer, the better.
constexpr int64_t rowsOfPart = 32, columnsOfPart = 128;
/// An instance transposes several parts, since its start takes as many instructions as one.
constexpr int64_t bytesOfInstance = 4096, mostRows = 64;
/// Of a product, whose sum and parts of whose term are in registers.
constexpr int64_t mostColumns = 256;

struct Candidate {
  DotOp dot;
  LoadOp load;
  unsigned argument; ///< of the kernel, which it loads
};

/// Whether the row is a multiple of `interleavedColumns`: the start of a block that begins at zero.
bool isAlignedRow(Value row, int64_t rows) {
  auto start = dyn_cast<BlockArgument>(row);
  auto loop = start ? dyn_cast<ForBlocksOp>(start.getOwner()->getParentOp()) : ForBlocksOp();
  APInt lower;
  return loop && start == loop.getBlockStart() && rows % interleavedColumns == 0 &&
         matchPattern(loop.getLower(), m_ConstantInt(&lower)) && lower.isZero();
}

std::optional<Candidate> getCandidate(DotOp dot) {
  auto load = dot.getRhs().getDefiningOp<LoadOp>();
  auto view = load ? dyn_cast<BlockArgument>(load.getView()) : BlockArgument();
  auto lhs = dyn_cast<RankedTensorType>(dot.getLhs().getType());
  bool isOfBytes = lhs && isa<FloatType>(lhs.getElementType()) &&
                   lhs.getElementType().getIntOrFloatBitWidth() == 8;
  if (!isOfBytes || !view || dot.getTransposeA() || dot.getTransposeB() || dot.getInterleaved() ||
      dot.getLhs().getDefiningOp<LoadOp>() || load.getDims() || load.getPad() ||
      !load->hasOneUse() || !isa<KernelOp>(view.getOwner()->getParentOp()))
    return std::nullopt;
  ArrayRef<int64_t> fixed = load.getStaticIndices();
  int64_t rank = getRank(view.getType()), row = rank - 2;
  if (rank < 2 || fixed.back() != 0 || !ShapedType::isDynamic(fixed[row]))
    return std::nullopt;
  auto rows = cast<RankedTensorType>(load.getType()).getDimSize(0);
  if (!isAlignedRow(load.getIndices().back(), rows))
    return std::nullopt;
  return Candidate{dot, load, view.getArgNumber()};
}

/// The type of the transposed array.
ViewType getTransposed(ViewType view) {
  SmallVector<int64_t> shape(view.getShape());
  SmallVector<StringAttr> symbols(shape.size());
  std::swap(shape[shape.size() - 2], shape.back());
  return ViewType::get(view.getContext(), shape, symbols, view.getElementType());
}

struct TransposeOperandsPass : tilewright::impl::TileTransposeOperandsBase<TransposeOperandsPass> {
  using TileTransposeOperandsBase::TileTransposeOperandsBase;

  void runOnOperation() override {
    const Target *machine = Target::find(target);
    if (!machine) // the CPU
      return;
    symbols.emplace(getOperation());
    for (auto kernel : llvm::to_vector(getOperation().getOps<KernelOp>())) {
      llvm::MapVector<unsigned, SmallVector<Candidate>> found;
      kernel.walk([&](DotOp dot) {
        if (std::optional<Candidate> candidate = getCandidate(dot))
          if (isPassed(kernel, candidate->argument))
            found[candidate->argument].push_back(*candidate);
      });
      // Forms for several targets are of one program, so a kernel gets one for all GPUs.
      if (!found.empty() && getLaunches(kernel).empty())
        makeProgram(kernel);
      if (machine->has(Feature::Wgmma))
        for (auto &[argument, candidates] : found)
          rewrite(kernel, argument, candidates, *machine);
    }
    symbols.reset();
  }

private:
  SmallVector<LaunchOp> getLaunches(KernelOp kernel) {
    SmallVector<LaunchOp> launches;
    getOperation().walk([&](LaunchOp launch) {
      if (launch.getKernel() == kernel.getSymName())
        launches.push_back(launch);
    });
    return launches;
  }

  /// Whether all programs that launch the kernel pass an array of their own callers.
  bool isPassed(KernelOp kernel, unsigned argument) {
    return !kernel.getArgOptional()[argument] &&
           llvm::all_of(getLaunches(kernel), [&](LaunchOp launch) {
             return isa<BlockArgument>(launch.getArgs()[argument]);
           });
  }

  void rewrite(KernelOp kernel, unsigned argument, ArrayRef<Candidate> candidates,
               const Target &machine) {
    StringRef name = cast<StringAttr>(kernel.getArgNames()[argument]).getValue();
    auto type = cast<ViewType>(kernel.getArgs()[argument].getType());
    ViewType turned = getTransposed(type);
    SmallVector<DotOp> products;
    for (const Candidate &candidate : candidates)
      products.push_back(multiplyTransposed(candidate, kernel.getArgs()[argument], turned));
    bool areOfBytes = llvm::all_of(products, [&](DotOp product) {
      return isProductOfBytes(product, machine, /*warps=*/0) &&
             cast<RankedTensorType>(product.getType()).getDimSize(1) <= mostColumns;
    });
    if (!areOfBytes) {
      for (DotOp product : products) {
        Operation *load = product.getRhs().getDefiningOp();
        product.erase();
        load->erase();
      }
      return;
    }
    LoadOp load = candidates.front().load;
    int64_t columns = cast<RankedTensorType>(load.getType()).getDimSize(1);
    std::string turnedName = getFreeName(kernel, (name + "_transposed").str());
    Value array = appendArgument(kernel, turnedName, turned, /*isOptional=*/false, kernel.getLoc());
    for (auto [candidate, product] : llvm::zip_equal(candidates, products)) {
      product.getRhs().getDefiningOp<LoadOp>().getViewMutable().assign(array);
      addInstead(candidate, product);
    }
    // The other products, of rows, multiply bytes only where this one does.
    SmallVector<DotOp> others;
    kernel.walk([&](DotOp dot) { others.push_back(dot); });
    for (DotOp dot : others)
      divideDepth(dot, machine);
    KernelOp transpose = makeKernel(kernel, name, type, turnedName, turned, columns);
    for (LaunchOp launch : getLaunches(kernel))
      addLaunch(launch, argument, turned, transpose);
  }

  /// The same product of the transposed array. Until that is an argument, it loads the given one.
  static DotOp multiplyTransposed(const Candidate &candidate, Value view, ViewType turned) {
    LoadOp load = candidate.load;
    DotOp dot = candidate.dot;
    OpBuilder b(load);
    auto tile = cast<RankedTensorType>(load.getType());
    auto type =
        RankedTensorType::get({tile.getDimSize(1), tile.getDimSize(0)}, tile.getElementType());
    SmallVector<int64_t> fixed(load.getStaticIndices());
    std::swap(fixed[fixed.size() - 2], fixed.back());
    auto other = LoadOp::create(b, load.getLoc(), type, view, load.getIndices(), fixed,
                                DenseI64ArrayAttr(), Value());
    b.setInsertionPoint(dot);
    return DotOp::create(b, dot.getLoc(), dot.getType(), dot.getLhs(), other, /*acc=*/Value(),
                         /*transpose_a=*/false, /*transpose_b=*/true, dot.getPrecision(),
                         /*interleaved=*/true);
  }

  /// The sum is not that of the matrix unit, which keeps few bits of long sums of bytes.
  static void addInstead(const Candidate &candidate, DotOp product) {
    DotOp dot = candidate.dot;
    LoadOp load = candidate.load;
    Value result = product;
    if (Value acc = dot.getAcc()) {
      OpBuilder b(dot);
      result = arith::AddFOp::create(b, dot.getLoc(), acc, product, arith::FastMathFlags::contract);
    }
    dot.replaceAllUsesWith(result);
    dot.erase();
    load.erase();
  }

  /// Of each 16 rows, the pairs 0, 4, 1, 5, 2, 6, 3 and 7: those that a thread has of a product.
  static Value makeInterleavedRows(OpBuilder &b, Location loc) {
    auto type = RankedTensorType::get({rowsOfPart}, b.getI32Type());
    auto splat = [&](int32_t value) -> Value {
      return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, value));
    };
    Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
    Value row = IotaOp::create(b, loc, type, zero, 0);
    auto masked = [&](Value x, int32_t mask) -> Value {
      return arith::AndIOp::create(b, loc, x, splat(mask));
    };
    Value half = arith::ShLIOp::create(b, loc, masked(row, 2), splat(2));
    Value pair = masked(arith::ShRUIOp::create(b, loc, row, splat(1)), 6);
    Value others = masked(row, ~int32_t(interleavedColumns - 2));
    return arith::OrIOp::create(b, loc, arith::OrIOp::create(b, loc, others, pair), half);
  }

  /// A kernel that transposes some rows in each instance.
  KernelOp makeKernel(KernelOp user, StringRef name, ViewType type, StringRef turnedName,
                      ViewType turned, int64_t columns) {
    MLIRContext *context = &getContext();
    OpBuilder b(context);
    Location loc = user.getLoc();
    int64_t rank = type.getRank();
    int64_t rows = std::clamp(bytesOfInstance / columns, rowsOfPart, mostRows);
    rows -= rows % rowsOfPart;
    SmallVector<Attribute> gridNames{b.getStringAttr("block")};
    SmallVector<Attribute> grid{
        makeCall(context, expr::Function::CeilDiv,
                 {makeDim(context, turnedName, rank - 1), ExprAttr::getInt(context, rows)})};
    for (int64_t dim = 0; dim < rank - 2; ++dim) {
      gridNames.push_back(b.getStringAttr("index" + Twine(dim)));
      grid.push_back(makeDim(context, turnedName, dim));
    }
    ArrayAttr none = b.getArrayAttr({});
    auto kernel = KernelOp::create(
        b, loc, b.getStringAttr("transpose_" + name), none, none,
        b.getArrayAttr({b.getStringAttr(name), b.getStringAttr(turnedName)}),
        b.getDenseBoolArrayAttr({false, false}), b.getArrayAttr(gridNames), b.getArrayAttr(grid),
        DictionaryAttr(), DictionaryAttr(), DictionaryAttr());
    symbols->insert(kernel);
    Block &body = kernel.getBody().emplaceBlock();
    body.addArgument(type, loc);
    body.addArgument(turned, loc);
    for (size_t i = 0; i < grid.size(); ++i)
      body.addArgument(b.getI32Type(), loc);
    b.setInsertionPointToStart(&body);
    auto number = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
    };
    Value begin = arith::MulIOp::create(b, loc, kernel.getGridIds().front(), number(rows));
    SmallVector<int64_t> from(rank, ShapedType::kDynamic), to(from);
    Type element = type.getElementType();
    auto tile = [&](ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, element); };
    Value rowsInOrder = makeInterleavedRows(b, loc);
    // All parts are loaded before the first one is written.
    SmallVector<std::tuple<Value, Value, int64_t>> parts;
    for (int64_t row = 0; row < rows; row += rowsOfPart) {
      SmallVector<Value> indices(kernel.getGridIds().drop_front());
      indices.push_back(row ? arith::AddIOp::create(b, loc, begin, number(row)).getResult()
                            : begin);
      for (int64_t column = 0; column < columns; column += columnsOfPart) {
        from[rank - 1] = column;
        auto part = tile({rowsOfPart, std::min(columnsOfPart, columns - column)});
        Value source = GatherOp::create(b, loc, part, body.getArgument(0), indices, from,
                                        DenseI64ArrayAttr(), rank - 2, rowsInOrder);
        parts.emplace_back(source, indices.back(), column);
      }
    }
    for (auto [source, row, column] : parts) {
      SmallVector<Value> indices(kernel.getGridIds().drop_front());
      indices.push_back(row);
      to[rank - 2] = column;
      auto shape = cast<RankedTensorType>(source.getType()).getShape();
      Value result =
          TransposeOp::create(b, loc, tile({shape[1], shape[0]}), source, ArrayRef<int64_t>{1, 0});
      StoreOp::create(b, loc, result, body.getArgument(1), indices, to, DenseI64ArrayAttr());
    }
    return kernel;
  }

  /// A program of the kernel's name that launches it.
  void makeProgram(KernelOp kernel) {
    OpBuilder b(kernel);
    std::string name = kernel.getSymName().str();
    symbols->remove(kernel);
    kernel.setSymName(name + "_blocks");
    symbols->insert(kernel);
    symbols->insert(makeProgramOf(kernel, name, b.getUnitAttr()));
  }

  void addLaunch(LaunchOp launch, unsigned argument, ViewType turned, KernelOp transpose) {
    MLIRContext *context = &getContext();
    OpBuilder b(launch);
    auto program = launch->getParentOfType<ProgramOp>();
    auto given = cast<BlockArgument>(launch.getArgs()[argument]);
    StringRef name = cast<StringAttr>(program.getArgNames()[given.getArgNumber()]).getValue();
    int64_t rank = turned.getRank();
    SmallVector<Attribute> extents;
    for (int64_t dim = 0; dim < rank - 2; ++dim)
      extents.push_back(makeDim(context, name, dim));
    int64_t columns = turned.getShape()[rank - 2];
    extents.push_back(ShapedType::isDynamic(columns) ? makeDim(context, name, rank - 1)
                                                     : ExprAttr::getInt(context, columns));
    ExprAttr unit = ExprAttr::getInt(context, interleavedColumns);
    extents.push_back(makeCall(
        context, expr::Function::Mul,
        {makeCall(context, expr::Function::CeilDiv, {makeDim(context, name, rank - 2), unit}),
         unit}));
    auto array =
        WorkspaceOp::create(b, launch.getLoc(), turned, b.getArrayAttr(extents), FloatAttr());
    LaunchOp::create(b, launch.getLoc(), transpose.getSymName(), ValueRange{given, array},
                     b.getArrayAttr({}), b.getArrayAttr({}), launch.getConditionAttr(),
                     ArrayAttr());
    launch.getArgsMutable().append(array.getView());
  }

  std::optional<SymbolTable> symbols;
};

} // namespace
