// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Substitutes bound values in types and constants, for tile-specialize.

#include "passes/Tile/ApplyBindings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Rewrites types, attributes and `tile.param` of one copy in place.
class Rewriter {
public:
  Rewriter(Operation *root, const Bindings &bindings, bool exactLiterals,
           std::function<StringAttr(StringRef)> renameSymbol)
      : root(root), current(root), bindings(bindings), exactLiterals(exactLiterals) {
    replacer.addReplacement([this](Type type) -> std::optional<std::pair<Type, WalkResult>> {
      if (!isa<ParamType, TileType, ViewType>(type))
        return std::nullopt;
      return std::make_pair(replaceType(type), WalkResult::skip());
    });
    replacer.addReplacement(
        [this](Attribute attr) -> std::optional<std::pair<Attribute, WalkResult>> {
          // A literal's type determines its storage, so the generic replacement does not apply to
          // it.
          if (auto literal = dyn_cast<FloatAttr>(attr))
            return std::make_pair(replaceLiteral(literal), WalkResult::skip());
          if (auto literal = dyn_cast<DenseElementsAttr>(attr))
            return std::make_pair(replaceLiteral(literal), WalkResult::skip());
          if (isa<ExprAttr, ParamDeclAttr>(attr))
            return std::make_pair(attr, WalkResult::skip());
          return std::nullopt;
        });
    replacer.addReplacement([renameSymbol = std::move(renameSymbol)](FlatSymbolRefAttr symbol)
                                -> std::optional<std::pair<Attribute, WalkResult>> {
      StringAttr name = renameSymbol(symbol.getValue());
      Attribute renamed = name ? FlatSymbolRefAttr::get(name) : symbol;
      return std::make_pair(renamed, WalkResult::skip());
    });
  }

  LogicalResult run() {
    SmallVector<std::pair<arith::ConstantOp, APFloat>> literals;
    DenseSet<Operation *> keptExact;
    if (exactLiterals) {
      root->walk([&](arith::ConstantOp op) {
        if (isa<ParamType>(op.getType()))
          literals.emplace_back(op, cast<FloatAttr>(op.getValue()).getValue());
      });
      root->walk([&](ConstantOp op) {
        if (isa<ParamType>(getElementType(op.getType())))
          keptExact.insert(op);
      });
    }
    // Stop at the first error: most operations of a kernel repeat the same dimension.
    root->walk<WalkOrder::PreOrder>([&](Operation *op) {
      current = op;
      replacer.replaceElementsIn(op, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                 /*replaceTypes=*/true);
      return hasFailed ? WalkResult::interrupt() : WalkResult::advance();
    });
    root->walk([&](ParamOp op) {
      if (!hasFailed)
        replaceParam(op);
    });
    root->walk([&](ForBlocksOp op) {
      if (!hasFailed && op.getList())
        replaceList(op);
      if (!hasFailed && op.getMask())
        replaceMask(op);
    });
    root->walk([&](KeptRangeOp op) {
      if (!hasFailed && op.getMask())
        replaceMask(op);
    });
    root->walk([&](PagedOp op) {
      if (!hasFailed && op.getTable())
        replaceTable(op);
    });
    root->walk([&](AddGradientsOp op) {
      if (!hasFailed)
        replaceExact(op);
    });
    root->walk([&](ConstantOp op) {
      if (!hasFailed)
        replaceConstant(op, keptExact.contains(op));
    });
    for (auto &[op, value] : literals)
      if (!hasFailed)
        keepExact(op, value);
    return failure(hasFailed);
  }

private:
  InFlightDiagnostic emitError() {
    hasFailed = true;
    return current->emitOpError();
  }

  /// Null, after an error, if the parameter is unknown or of another kind.
  ExprAttr find(StringRef name, ExprKind kind, StringRef use) {
    ExprAttr value = bindings.lookup(name);
    if (value && value.getKind() == kind)
      return value;
    if (value)
      emitError() << "uses '" << name << "' as " << use << ", but got '" << tile::toString(value)
                  << "'";
    else
      emitError() << "uses parameter '" << name << "', which is not declared";
    return {};
  }

  Type replaceElement(Type type) {
    auto param = dyn_cast<ParamType>(type);
    if (!param)
      return type;
    ExprAttr value = find(param.getName(), ExprKind::Type, "a type");
    return value ? getTypeBySpelling(type.getContext(), value.getName()) : type;
  }

  Type replaceType(Type type) {
    if (hasFailed)
      return type;
    if (isa<ParamType>(type))
      return replaceElement(type);
    SmallVector<int64_t> shape;
    int64_t elements = 1;
    bool isView = isa<ViewType>(type);
    for (const Dim &dim : getDims(type)) {
      int64_t extent = dim.extent;
      if (dim.isSymbol()) {
        ExprAttr value = find(dim.symbol, ExprKind::Int, "a dimension");
        if (!value)
          return type;
        extent = value.getValue();
        if (extent < 1 || extent > maxExtent) {
          emitError() << "uses '" << dim.symbol.getValue()
                      << "' as a dimension, which must be from 1 to " << maxExtent << ", but got "
                      << extent;
          return type;
        }
      }
      shape.push_back(extent);
      if (!isView && (llvm::MulOverflow(elements, extent, elements) || elements > maxExtent)) {
        emitError() << "must have tiles of at most " << maxExtent << " elements, but got " << type
                    << " with " << toString(bindings);
        return type;
      }
    }
    Type element = replaceElement(getElementType(type));
    if (hasFailed)
      return type;
    if (!isView)
      return RankedTensorType::get(shape, element);
    SmallVector<StringAttr> symbols(shape.size());
    return ViewType::get(type.getContext(), shape, symbols, element);
  }

  static APFloat round(APFloat value, Type type) {
    bool losesInfo;
    value.convert(cast<FloatType>(type).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    return value;
  }

  Attribute replaceLiteral(FloatAttr literal) {
    Type type = replacer.replace(literal.getType());
    if (type == literal.getType() || !isa<FloatType>(type))
      return literal;
    return FloatAttr::get(type, round(literal.getValue(), type));
  }

  Attribute replaceLiteral(DenseElementsAttr literal) {
    auto type = dyn_cast<RankedTensorType>(replacer.replace(literal.getType()));
    if (!type || type == literal.getType())
      return literal;
    if (isa<FloatType>(type.getElementType()))
      return literal.isSplat()
                 ? DenseElementsAttr::get(
                       type, round(literal.getSplatValue<APFloat>(), type.getElementType()))
                 : DenseElementsAttr::get(
                       type, llvm::map_to_vector(literal.getValues<APFloat>(), [&](APFloat value) {
                         return round(value, type.getElementType());
                       }));
    return DenseElementsAttr::getFromRawBuffer(type, literal.getRawData());
  }

  /// Replaces a literal that its type cannot represent by a truncation of an f64 literal. arith
  /// folds a truncation only if it is exact.
  void keepExact(arith::ConstantOp op, APFloat value) {
    auto rounded = cast<FloatAttr>(op.getValue());
    if (rounded.getValue().convertToDouble() == value.convertToDouble() || value.isNaN())
      return;
    OpBuilder builder(op);
    Value exact = arith::ConstantOp::create(builder, op.getLoc(),
                                            FloatAttr::get(builder.getF64Type(), value));
    Value result = arith::TruncFOp::create(builder, op.getLoc(), op.getType(), exact);
    op.getResult().replaceAllUsesWith(result);
    op.erase();
  }

  void replaceConstant(ConstantOp op, bool isExact) {
    OpBuilder builder(op);
    Type element = getElementType(op.getType());
    auto literal = cast<TypedAttr>(op.getValue());
    if (auto integer = dyn_cast<IntegerAttr>(literal))
      literal = builder.getIntegerAttr(element, integer.getInt());
    else
      literal = FloatAttr::get(element, round(cast<FloatAttr>(literal).getValue(), element));
    auto scalar = arith::ConstantOp::create(builder, op.getLoc(), literal);
    Value result = scalar;
    if (isTile(op.getType()))
      result = FullOp::create(builder, op.getLoc(), op.getType(), scalar);
    op.getResult().replaceAllUsesWith(result);
    if (isExact)
      keepExact(scalar, cast<FloatAttr>(op.getValue()).getValue());
    op.erase();
  }

  /// Null, after an error, if the expression cannot be evaluated.
  ExprAttr evaluate(ExprAttr expr) {
    llvm::Expected<ExprAttr> value = evaluateExpr(expr, getEnvironment(bindings));
    if (value)
      return *value;
    emitError() << "cannot be computed: " << llvm::toString(value.takeError());
    return {};
  }

  void replaceExact(AddGradientsOp op) {
    current = op;
    ExprAttr condition = op.getExactConditionAttr();
    if (!condition)
      return;
    if (ExprAttr holds = evaluate(condition)) {
      op.removeExactConditionAttr();
      op.setExact(holds.getValue());
    }
  }

  /// The value of the condition of a part of an operation, true without one; null after an error.
  std::optional<bool> findWhether(ExprAttr condition) {
    if (!condition)
      return true;
    ExprAttr holds = evaluate(condition);
    return holds ? std::optional<bool>(holds.getValue()) : std::nullopt;
  }

  void replaceList(ForBlocksOp op) {
    current = op;
    std::optional<bool> stays = findWhether(op.getListConditionAttr());
    if (!stays)
      return;
    op.removeListConditionAttr();
    if (!*stays)
      return op.dropList();
    if (ExprAttr span = op.getListSpanAttr())
      if (ExprAttr value = evaluate(span))
        op.setListSpanAttr(value);
  }

  template <typename OpT> void replaceMask(OpT op) {
    current = op;
    std::optional<bool> stays = findWhether(op.getMaskConditionAttr());
    if (!stays)
      return;
    op.removeMaskConditionAttr();
    if (!*stays)
      op.dropMask();
  }

  void replaceTable(PagedOp op) {
    current = op;
    std::optional<bool> stays = findWhether(op.getConditionAttr());
    if (!stays)
      return;
    op.removeConditionAttr();
    if (!*stays)
      return op.dropTable();
    if (ExprAttr value = evaluate(op.getEachAttr()))
      op.setEachAttr(value);
  }

  void replaceParam(ParamOp op) {
    current = op;
    ExprAttr value = evaluate(op.getExpr());
    if (!value)
      return;
    auto type = cast<IntegerType>(op.getType());
    ExprKind wanted = type.getWidth() == 1 ? ExprKind::Flag : ExprKind::Int;
    if (value.getKind() != wanted ||
        !llvm::isIntN(std::max(type.getWidth(), 2u), value.getValue())) {
      emitError() << "must have a value of " << type << ", but got '" << tile::toString(value)
                  << "'";
      return;
    }
    OpBuilder builder(op);
    Value constant = arith::ConstantOp::create(builder, op.getLoc(),
                                               builder.getIntegerAttr(type, value.getValue()));
    op.getResult().replaceAllUsesWith(constant);
    op.erase();
  }

  Operation *root, *current;
  const Bindings &bindings;
  bool exactLiterals;
  AttrTypeReplacer replacer;
  bool hasFailed = false;
};

} // namespace

LogicalResult tilewright::applyBindings(Operation *root, const Bindings &bindings,
                                        bool exactLiterals,
                                        std::function<StringAttr(StringRef)> renameSymbol) {
  return Rewriter(root, bindings, exactLiterals, std::move(renameSymbol)).run();
}
