// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations on views and between views and tiles: verifiers and memory effects.

#include "dialect/Tile/FormulaTree.h"
#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExprCheck.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/IR/Builders.h"

#include <optional>

using namespace mlir;
using namespace tilewright::tile;

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

//===----------------------------------------------------------------------===//
// AtOp
//===----------------------------------------------------------------------===//

ParseResult AtOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  StringAttr symbol;
  OpAsmParser::UnresolvedOperand view;
  SmallVector<OpAsmParser::UnresolvedOperand> indices;
  DenseI64ArrayAttr staticIndices = builder.getDenseI64ArrayAttr({});
  bool isCapture = succeeded(parser.parseOptionalSymbolName(symbol));
  if (isCapture)
    result.addAttribute("capture", FlatSymbolRefAttr::get(symbol));
  else if (parser.parseOperand(view))
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  // A captured scalar has no index list.
  bool hasIndices = !isCapture;
  if (isCapture && StringRef(loc.getPointer()).starts_with("["))
    hasIndices = true;
  if (hasIndices && parseIndexList(parser, indices, staticIndices))
    return failure();
  Type viewType, resultType;
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColon())
    return failure();
  if (!isCapture) {
    if (parser.parseType(viewType))
      return failure();
    if (!isa<ViewType>(viewType))
      return parser.emitError(loc, "requires a view or a capture, but got ") << viewType;
    resultType = getElementType(viewType);
    if (parser.resolveOperand(view, viewType, result.operands))
      return failure();
  } else if (parser.parseType(resultType)) {
    return failure();
  }
  if (parser.resolveOperands(indices, builder.getI32Type(), result.operands))
    return failure();
  result.addAttribute("static_indices", staticIndices);
  result.addAttribute("operandSegmentSizes",
                      builder.getDenseI32ArrayAttr({isCapture ? 0 : 1, int32_t(indices.size())}));
  result.addTypes(resultType);
  return success();
}

void AtOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  if (getCaptureAttr())
    printer.printSymbolName(getCapture().value());
  else
    printer << getView();
  if (!getCaptureAttr() || !getStaticIndices().empty())
    printIndexList(printer, *this, getIndices(), getStaticIndices());
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"capture", "static_indices", "operandSegmentSizes"});
  printer << " : ";
  if (getView())
    printer << getView().getType();
  else
    printer << getResult().getType();
}

static LogicalResult verifyIndexCount(Operation *op, int64_t rank, OperandRange indices,
                                      ArrayRef<int64_t> staticIndices) {
  if (llvm::count_if(staticIndices, ShapedType::isDynamic) != static_cast<int64_t>(indices.size()))
    return op->emitOpError("has malformed indices; use its custom assembly format");
  for (int64_t index : staticIndices)
    if (!ShapedType::isDynamic(index) && !llvm::isInt<32>(index))
      return op->emitOpError() << "indices are i32, but got " << index;
  if (static_cast<int64_t>(staticIndices.size()) == rank)
    return success();
  return op->emitOpError() << "needs one index for each dimension of its view: rank " << rank
                           << ", but got " << staticIndices.size()
                           << (staticIndices.size() == 1 ? " index" : " indices");
}

LogicalResult AtOp::verify() {
  if (static_cast<bool>(getView()) == static_cast<bool>(getCaptureAttr()))
    return emitOpError("requires either a view or a capture, but got both or neither");
  if (!getView())
    return success();
  if (getElementType(getView().getType()) != getResult().getType())
    return emitOpError() << "reads an element of " << getView().getType() << ", but its result is "
                         << getResult().getType();
  return verifyIndexCount(*this, getRank(getView().getType()), getIndices(), getStaticIndices());
}

LogicalResult AtOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!getCaptureAttr() || mayBeLinked(*this, getCaptureAttr(), symbols))
    return success();
  auto capture = symbols.lookupNearestSymbolFrom<CaptureOp>(*this, getCaptureAttr());
  if (!capture)
    return emitOpError() << "must read a tile.capture of this module, but got @" << *getCapture()
                         << "; declare it by tile.capture @" << *getCapture();
  if (!mayBecomeEqual(getElementType(capture.getType()), getResult().getType()))
    return emitOpError() << "reads an element of @" << *getCapture() << ", which is "
                         << capture.getType() << ", but its result is " << getResult().getType();
  return verifyIndexCount(*this, getRank(capture.getType()), getIndices(), getStaticIndices());
}

void AtOp::getEffects(Effects &effects) {
  if (getView())
    effects.emplace_back(MemoryEffects::Read::get(), &getViewMutable()[0],
                         SideEffects::DefaultResource::get());
}

//===----------------------------------------------------------------------===//
// SubviewOp, DimOp
//===----------------------------------------------------------------------===//

static LogicalResult verifyDimension(Operation *op, int64_t dim, int64_t rank, StringRef what) {
  if (dim >= 0 && dim < rank)
    return success();
  return op->emitOpError() << "must name one of the " << rank << " dimensions of its " << what
                           << ", counted from 0, but got " << dim;
}

ParseResult SubviewOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> sources;
  OpAsmParser::UnresolvedOperand offset, size;
  int64_t dim;
  ExprAttr condition;
  SmallVector<Type> types;
  Builder &builder = parser.getBuilder();
  if (parser.parseOperandList(sources) || parser.parseKeyword("dim") || parser.parseInteger(dim) ||
      parser.parseKeyword("from") || parser.parseOperand(offset) || parser.parseKeyword("size") ||
      parser.parseOperand(size) || parseWhenClause(parser, condition) ||
      parser.parseOptionalAttrDict(result.attributes))
    return failure();
  if (succeeded(parser.parseOptionalColon())) {
    if (parser.parseTypeList(types))
      return failure();
  } else {
    for (const OpAsmParser::UnresolvedOperand &source : sources) {
      FailureOr<Type> type = formula::findType(parser, source);
      if (failed(type))
        return failure();
      types.push_back(*type);
    }
  }
  result.addAttribute("dim", builder.getI64IntegerAttr(dim));
  if (condition)
    result.addAttribute("condition", condition);
  result.addTypes(types);
  if (sources.size() != 1)
    result.name = OperationName(SubviewsOp::getOperationName(), parser.getContext());
  return failure(parser.resolveOperands(sources, types, parser.getNameLoc(), result.operands) ||
                 parser.resolveOperands({offset, size}, builder.getI32Type(), result.operands));
}

template <typename Part> static void printSubview(OpAsmPrinter &printer, Part part) {
  Operation *op = part;
  printer << ' ' << op->getOperands().drop_back(2) << " dim " << part.getDim() << " from "
          << part.getOffset() << " size " << part.getSize();
  if (part.getConditionAttr())
    printer << ' ';
  printWhenClause(printer, op, part.getConditionAttr());
  printer.printOptionalAttrDict(op->getAttrs(), {"dim", "condition"});
  printer << " : " << op->getResultTypes();
}

void SubviewOp::print(OpAsmPrinter &printer) { printSubview(printer, *this); }

static LogicalResult verifySubview(Operation *op, Type type, int64_t dim, ExprAttr condition) {
  if (failed(verifyDimension(op, dim, getRank(type), "view")))
    return failure();
  if (!getDims(type)[dim].isUnknown())
    return op->emitOpError() << "restricts dimension " << dim
                             << ", which must be '?' since its extent changes, but got " << type;
  return checkParameterExpr(op, condition, "the condition of a part", ExprKind::Flag);
}

LogicalResult SubviewOp::verify() {
  return verifySubview(*this, getSource().getType(), getDim(), getConditionAttr());
}

ParseResult SubviewsOp::parse(OpAsmParser &parser, OperationState &) {
  return parser.emitError(parser.getNameLoc(), "has no text of its own; write tile.subview");
}

OperationName::PrintAssemblyFn SubviewsOp::getPrintAssemblyFn() {
  return [](Operation *op, OpAsmPrinter &printer, StringRef) {
    printer << SubviewOp::getOperationName();
    cast<SubviewsOp>(op).print(printer);
  };
}

void SubviewsOp::print(OpAsmPrinter &printer) { printSubview(printer, *this); }

LogicalResult SubviewsOp::verify() {
  if (!llvm::equal(getSources().getTypes(), getResultTypes()))
    return emitOpError("must have a result of the type of each view, (")
           << getSources().getTypes() << "), but got (" << getResultTypes() << ")";
  for (Type type : getResultTypes())
    if (failed(verifySubview(*this, type, getDim(), getConditionAttr())))
      return failure();
  return success();
}

ParseResult DimOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr symbol;
  OpAsmParser::UnresolvedOperand view;
  int64_t dim;
  Type viewType;
  bool isCapture = succeeded(parser.parseOptionalSymbolName(symbol));
  if ((!isCapture && parser.parseOperand(view)) || parser.parseComma() ||
      parser.parseInteger(dim) || parser.parseOptionalAttrDict(result.attributes))
    return failure();
  if (isCapture)
    result.addAttribute("capture", FlatSymbolRefAttr::get(symbol));
  else if (parser.parseColonType(viewType) ||
           parser.resolveOperand(view, viewType, result.operands))
    return failure();
  result.addAttribute("dim", parser.getBuilder().getI64IntegerAttr(dim));
  result.addTypes(parser.getBuilder().getI32Type());
  return success();
}

void DimOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  if (getView())
    printer << getView();
  else
    printer << getCaptureAttr();
  printer << ", " << getDim();
  printer.printOptionalAttrDict((*this)->getAttrs(), {"capture", "dim"});
  if (getView())
    printer << " : " << getView().getType();
}

LogicalResult DimOp::verify() {
  if (static_cast<bool>(getView()) == static_cast<bool>(getCaptureAttr()))
    return emitOpError("requires either a view or a capture, but got both or neither");
  if (!getView())
    return success();
  return verifyDimension(*this, getDim(), getRank(getView().getType()), "view");
}

LogicalResult DimOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!getCaptureAttr() || mayBeLinked(*this, getCaptureAttr(), symbols))
    return success();
  auto capture = symbols.lookupNearestSymbolFrom<CaptureOp>(*this, getCaptureAttr());
  if (!capture || !isa<ViewType>(capture.getType()))
    return emitOpError() << "requires @" << *getCapture()
                         << " to be a tile.capture of a view, but got "
                         << (capture ? "a capture of a scalar" : "no capture of this module");
  return verifyDimension(*this, getDim(), getRank(capture.getType()), "capture");
}

//===----------------------------------------------------------------------===//
// CapturedOp, RepeatOp
//===----------------------------------------------------------------------===//

LogicalResult CapturedOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (mayBeLinked(*this, getCaptureAttr(), symbols))
    return success();
  auto capture = symbols.lookupNearestSymbolFrom<CaptureOp>(*this, getCaptureAttr());
  if (capture && isa<ViewType>(capture.getType()) && capture.getType() == getResult().getType())
    return success();
  InFlightDiagnostic diagnostic = emitOpError() << "requires @" << getCapture()
                                                << " to be a tile.capture of the result's type, "
                                                << getResult().getType() << ", but got ";
  if (capture)
    return diagnostic << "a capture of " << capture.getType();
  return diagnostic << "no capture of this module";
}

LogicalResult RepeatOp::verify() {
  Type type = getSource().getType();
  if (failed(verifyDimension(*this, getDim(), getRank(type), "view")))
    return failure();
  if (!getDims(type)[getDim()].isUnknown())
    return emitOpError() << "repeats an element along dimension " << getDim()
                         << ", which must be '?' since its extent changes, but got " << type;
  return success();
}

//===----------------------------------------------------------------------===//
// Access of a tile: load, store, atomic_add, gather, scatter_add
//===----------------------------------------------------------------------===//

/// Dimensions of the view along which the tile runs: `dims`, or the last ones.
static SmallVector<int64_t> getTileDims(std::optional<ArrayRef<int64_t>> dims, int64_t tileRank,
                                        int64_t viewRank) {
  if (dims)
    return SmallVector<int64_t>(*dims);
  return llvm::to_vector(llvm::seq<int64_t>(viewRank - tileRank, viewRank));
}

LogicalResult tilewright::tile::verifyAccess(Operation *op, Type viewType, OperandRange indices,
                                             ArrayRef<int64_t> staticIndices, Type tileType,
                                             std::optional<ArrayRef<int64_t>> dims) {
  int64_t viewRank = getRank(viewType), tileRank = getRank(tileType);
  if (failed(verifyIndexCount(op, viewRank, indices, staticIndices)))
    return failure();
  if (tileRank > viewRank)
    return op->emitOpError() << "needs a tile of at most rank " << viewRank
                             << ", that of its view, but got rank " << tileRank;
  if (dims) {
    if (static_cast<int64_t>(dims->size()) != tileRank)
      return op->emitOpError()
             << "'dims' must list one dimension of the view for each of the tile's " << tileRank
             << ", but got " << dims->size();
    SmallVector<bool> seen(viewRank);
    for (int64_t dim : *dims) {
      if (failed(verifyDimension(op, dim, viewRank, "view")))
        return failure();
      if (seen[dim])
        return op->emitOpError() << "'dims' must list each dimension once, but got " << dim
                                 << " twice";
      seen[dim] = true;
    }
  }
  if (getElementType(viewType) != getElementType(tileType))
    return op->emitOpError() << "view and tile must have the same elements, but got "
                             << getElementType(viewType) << " and " << getElementType(tileType)
                             << "; convert the tile with tile.cast";
  return success();
}

static LogicalResult verifyAtomic(Operation *op, Type tileType) {
  Type type = getElementType(tileType);
  if (type.isF64() || type.isF32() || type.isF16() || type.isBF16() || type.isInteger(32) ||
      isa<ParamType>(type))
    return success();
  return op->emitOpError() << "requires elements of f32, f64, f16, bf16 or i32, but got " << type;
}

static LogicalResult verifyAlong(Operation *op, Type viewType, Type tileType, Type atType,
                                 std::optional<ArrayRef<int64_t>> dims, int64_t along) {
  SmallVector<int64_t> tileDims = getTileDims(dims, getRank(tileType), getRank(viewType));
  auto *position = llvm::find(tileDims, along);
  if (position == tileDims.end())
    return op->emitOpError() << "must index along a dimension of the tile, one of [" << tileDims
                             << "], but got " << along;
  Dim length = getDims(tileType)[position - tileDims.begin()];
  if (getRank(atType) != 1 || !getElementType(atType).isInteger(32) || getDims(atType)[0] != length)
    return op->emitOpError() << "indices must be a tile of " << printDims(length)
                             << " i32, but got " << atType;
  return success();
}

LogicalResult LoadOp::verify() {
  if (failed(verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                          getResult().getType(), getDims())))
    return failure();
  if (getPad() && getPad().getType() != getElementType(getResult().getType()))
    return emitOpError() << "pad must be of the type of the elements, "
                         << getElementType(getResult().getType()) << ", but got "
                         << getPad().getType();
  return success();
}

LogicalResult StoreOp::verify() {
  return verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                      getValue().getType(), getDims());
}

LogicalResult tilewright::tile::verifyTurn(Operation *op, Type turnsType, OperandRange indices,
                                           std::optional<ArrayRef<int64_t>> staticIndices) {
  auto turns = dyn_cast_or_null<ViewType>(turnsType);
  if (!turns || !turns.getElementType().isInteger(32)) {
    InFlightDiagnostic error = op->emitOpError("requires a view of i32 for its turns, but got ");
    return turnsType ? error << turnsType : error << "none";
  }
  return verifyIndexCount(op, turns.getRank(), indices,
                          staticIndices.value_or(ArrayRef<int64_t>()));
}

LogicalResult AwaitOp::verify() {
  if (!(*this)->getParentOfType<SpreadOp>())
    return emitOpError("is allowed only inside tile.spread, since instances that wait for each "
                       "other may deadlock; move it into one");
  return verifyTurn(*this, getTurns().getType(), getIndices(), getStaticIndices());
}

/// Whether `point` executes after `op`, or never in the same instance, as branches of one scf.if.
static bool isBefore(Operation *op, Operation *point) {
  for (Operation *at = point; at->getBlock(); at = at->getParentOp())
    if (Operation *ancestor = at->getBlock()->findAncestorOpInBlock(*op))
      return ancestor == at ? at != point : ancestor->isBeforeInBlock(at);
  return true;
}

/// One instance executes the body of tile.spread: its own additions must be complete by then.
static LogicalResult verifyAwaited(AtomicAddOp add) {
  for (Operation *user : add.getTurns().getUsers()) {
    auto spread = isa<AwaitOp>(user) ? user->getParentOfType<SpreadOp>() : SpreadOp();
    if (!spread || isBefore(add, spread))
      continue;
    InFlightDiagnostic error =
        add->emitOpError("must precede the tile.spread that waits for it, but is ")
        << (spread->isAncestor(add) ? "inside" : "after") << "; move it before the tile.spread";
    error.attachNote(user->getLoc()) << "awaited here";
    return error;
  }
  return success();
}

LogicalResult AtomicAddOp::verify() {
  if (failed(verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                          getValue().getType(), getDims())))
    return failure();
  Type turns = getTurns() ? getTurns().getType() : Type();
  if (getNumber() && (failed(verifyTurn(*this, turns, getTurnIndices(), getStaticTurnIndices())) ||
                      failed(verifyAwaited(*this))))
    return failure();
  return verifyAtomic(*this, getValue().getType());
}

LogicalResult GatherOp::verify() {
  if (failed(verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                          getResult().getType(), getDims())))
    return failure();
  return verifyAlong(*this, getView().getType(), getResult().getType(), getAt().getType(),
                     getDims(), getAlong());
}

LogicalResult ScatterAddOp::verify() {
  if (failed(verifyAccess(*this, getView().getType(), getIndices(), getStaticIndices(),
                          getValue().getType(), getDims())) ||
      failed(verifyAtomic(*this, getValue().getType())))
    return failure();
  return verifyAlong(*this, getView().getType(), getValue().getType(), getAt().getType(), getDims(),
                     getAlong());
}

LogicalResult AddAtOp::verify() {
  auto view = cast<ViewType>(getView().getType());
  Type value = getValue().getType(), element = getElementType(value);
  int64_t rank = view.getRank() - (getExact() ? 1 : 0);
  if (getExact()) {
    if (!view.getElementType().isInteger(64) || rank < 0 || view.getShape().back() != kWords)
      return emitOpError() << "'exact' requires a view of i64 whose last extent is " << kWords
                           << ", but got " << view;
    if (!element.isF32() && !element.isF64() && !isa<ParamType>(element))
      return emitOpError() << "'exact' requires elements of f32 or f64, but got " << element
                           << "; convert it with tile.cast";
  } else if (view.getElementType() != element) {
    return emitOpError() << "view and tile must have the same elements, but got "
                         << view.getElementType() << " and " << element
                         << "; convert the tile with tile.cast";
  } else if (!isa<FloatType, ParamType>(element)) {
    return emitOpError() << "requires floats, but got " << element;
  }
  if (static_cast<int64_t>(getIndices().size()) != rank)
    return emitOpError() << "needs one index for each dimension of what it adds to: rank " << rank
                         << ", but got " << getIndices().size()
                         << (getIndices().size() == 1 ? " index" : " indices");
  for (Value index : getIndices()) {
    Type type = index.getType();
    if (!getElementType(type).isInteger(32))
      return emitOpError() << "indices are i32, but got " << getElementType(type);
    if (isTile(type) && getDims(type) != getDims(value))
      return emitOpError() << "indices must have the shape of the value, "
                           << printDims(getDims(value)) << ", but got " << printDims(getDims(type));
  }
  return success();
}

template <typename Op> static void addRead(Op op, Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &op.getViewMutable(),
                       SideEffects::DefaultResource::get());
}
template <typename Op> static void addWrite(Op op, Effects &effects) {
  effects.emplace_back(MemoryEffects::Write::get(), &op.getViewMutable(),
                       SideEffects::DefaultResource::get());
}

void LoadOp::getEffects(Effects &effects) { addRead(*this, effects); }
void GatherOp::getEffects(Effects &effects) { addRead(*this, effects); }
void StoreOp::getEffects(Effects &effects) { addWrite(*this, effects); }
void AtomicAddOp::getEffects(Effects &effects) {
  addRead(*this, effects);
  addWrite(*this, effects);
  if (!getTurns())
    return;
  OpOperand &turns = *getTurnsMutable().begin();
  effects.emplace_back(MemoryEffects::Read::get(), &turns, SideEffects::DefaultResource::get());
  effects.emplace_back(MemoryEffects::Write::get(), &turns, SideEffects::DefaultResource::get());
}
void ScatterAddOp::getEffects(Effects &effects) {
  addRead(*this, effects);
  addWrite(*this, effects);
}
void AddAtOp::getEffects(Effects &effects) {
  addRead(*this, effects);
  addWrite(*this, effects);
}
// Gradients are not values yet.
void AddGradientsOp::getEffects(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), SideEffects::DefaultResource::get());
  effects.emplace_back(MemoryEffects::Write::get(), SideEffects::DefaultResource::get());
}
