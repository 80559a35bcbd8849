// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.expr and tile.result: formulas. Printing goes back from the last operation of each.

#include "dialect/Tile/FormulaTree.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tilewright::tile;

namespace tilewright::tile::formula {
namespace {

bool isTrue(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto integer = constant ? dyn_cast<IntegerAttr>(constant.getValue()) : IntegerAttr();
  return integer && !integer.getValue().isZero();
}

const Function *findFunction(Operation *op) {
  if (op->getNumResults() != 1)
    return nullptr;
  StringRef name = op->getName().getStringRef();
  bool ofConditions = getElementType(op->getResult(0).getType()).isInteger(1);
  for (const Function &row : ofConditions ? ArrayRef<Function>(connectives) : functions)
    if (name == row.ofFloats || name == row.ofIntegers)
      return row.word != "not" || isTrue(op->getOperand(1)) ? &row : nullptr;
  return nullptr;
}

StringRef findComparison(Operation *op) {
  for (const Comparison &row : comparisons) {
    if (auto ofFloats = dyn_cast<arith::CmpFOp>(op);
        ofFloats && ofFloats.getPredicate() == row.ofFloats)
      return row.word;
    if (auto ofIntegers = dyn_cast<arith::CmpIOp>(op);
        ofIntegers && ofIntegers.getPredicate() == row.ofIntegers)
      return row.word;
  }
  return {};
}

/// Whether the values are all the results of one operation of the formula.
bool isOneFormula(Operation *formula, ValueRange values) {
  Operation *op = values.front().getDefiningOp();
  return op && formula->isProperAncestor(op) && op->getNumResults() == values.size() &&
         isa<func::CallOp, scf::IfOp>(op) &&
         llvm::all_of(values, [&](Value each) { return each.getDefiningOp() == op; });
}

class FormulaPrinter {
public:
  FormulaPrinter(OpAsmPrinter &printer, Operation *formula) : printer(printer), formula(formula) {}

  /// What one formula yields.
  void printAll(ValueRange values) {
    Operation *op = values.front().getDefiningOp();
    if (values.size() == 1)
      return print(values.front());
    if (!isOneFormula(formula, values)) {
      printer << '(';
      llvm::interleaveComma(values, printer, [&](Value each) { print(each); });
      printer << ')';
    } else if (auto call = dyn_cast<func::CallOp>(op)) {
      printApplication(call.getCallee(), call.getOperands());
    } else {
      printChoice(cast<scf::IfOp>(op));
    }
  }

  void print(Value value, unsigned outer = 0) {
    Operation *op = value.getDefiningOp();
    if (!isOwn(op)) {
      printer << value;
      return;
    }
    if (auto call = dyn_cast<func::CallOp>(op))
      return printApplication(call.getCallee(), call.getOperands());
    if (auto map = dyn_cast<MapOp>(op)) {
      printer << "map ";
      return printApplication(map.getFunction(), map.getOperands());
    }
    if (auto branch = dyn_cast<scf::IfOp>(op))
      return printChoice(branch);
    if (auto at = dyn_cast<AtOp>(op))
      return printElement(at);
    if (auto dim = dyn_cast<DimOp>(op)) {
      printer << "dim(" << dim.getView() << ", " << static_cast<int64_t>(dim.getDim()) << ')';
      return;
    }
    if (auto load = dyn_cast<LoadOp>(op))
      return printLoad(load);
    if (auto dot = dyn_cast<DotOp>(op)) {
      printer << "dot(";
      llvm::interleaveComma(dot.getOperands(), printer, [&](Value each) { printTyped(each); });
      printer << (dot.getTransposeA() ? " transpose_a" : "")
              << (dot.getTransposeB() ? " transpose_b" : "") << ')';
      return;
    }
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      printer << "reduce " << stringifyReduceKind(reduce.getKind()) << '(';
      printTyped(reduce.getSource());
      printer << ", " << static_cast<int64_t>(reduce.getDim()) << ')';
      return;
    }
    if (auto constant = dyn_cast<ConstantOp>(op))
      return printNumber(constant.getValue());
    if (auto param = dyn_cast<ParamOp>(op))
      return printParam(param);
    if (auto full = dyn_cast<FullOp>(op)) {
      auto param = full.getValue().getDefiningOp<ParamOp>();
      if (param && isOwn(param))
        return printParam(param);
      return printCall("full", op);
    }
    if (isa<ExpandOp>(op))
      return printCall("expand", op);
    if (isa<IotaOp>(op))
      return printCall("iota", op);
    if (isa<CastOp>(op))
      return printCall("cast", op);
    if (isa<SelectOp, arith::SelectOp>(op))
      return printCall("select", op);
    StringRef comparison = findComparison(op);
    const Function *function = findFunction(op);
    unsigned precedence = !comparison.empty() ? 1 : function->precedence;
    StringRef word = !comparison.empty() ? comparison : StringRef(function->word);
    if (!precedence || word == "ne")
      return printCall(word, op);
    printer << (precedence < outer ? "(" : "");
    if (!comparison.empty() &&
        llvm::none_of(op->getOperands(), [&](Value v) { return tells(v); })) {
      printer << '(';
      printTyped(op->getOperand(0));
      printer << ')';
    } else {
      print(op->getOperand(0), std::max(precedence, kSum));
    }
    printer << ' ' << word << ' ';
    print(op->getOperand(1), precedence + 1);
    printer << (precedence < outer ? ")" : "");
  }

  void printIndices(OperandRange indices, ArrayRef<int64_t> integers) {
    printer << '[';
    unsigned next = 0;
    llvm::interleaveComma(integers, printer, [&](int64_t index) {
      if (ShapedType::isDynamic(index))
        print(indices[next++]);
      else
        printer << index;
    });
    printer << ']';
  }

private:
  bool isOwn(Operation *op) const { return op && formula->isProperAncestor(op); }

  /// Whether the text of a formula tells its type: see inferType.
  bool tells(Value value) const {
    Operation *op = value.getDefiningOp();
    if (!isOwn(op) || isa<DimOp>(op))
      return true;
    if (auto at = dyn_cast<AtOp>(op))
      return !at.getCapture();
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return tells(reduce.getSource());
    if (isa<SelectOp, arith::SelectOp>(op))
      return tells(op->getOperand(1)) || tells(op->getOperand(2));
    return findFunction(op) && llvm::any_of(op->getOperands(), [&](Value v) { return tells(v); });
  }

  /// With its type, if it is no value that has one.
  void printTyped(Value value) {
    print(value);
    Operation *op = value.getDefiningOp();
    if (!isOwn(op))
      return;
    // The type of a comparison is that of what it compares.
    bool compares = !findComparison(op).empty();
    printer << " : " << (compares ? op->getOperand(0).getType() : value.getType());
  }

  void printApplication(StringRef function, ValueRange arguments) {
    printer.printSymbolName(function);
    printer << '(';
    llvm::interleaveComma(arguments, printer, [&](Value each) { printTyped(each); });
    printer << ')';
  }

  void printChoice(scf::IfOp branch) {
    printer << "choose(";
    print(branch.getCondition());
    for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
      printer << ", ";
      printAll(block->getTerminator()->getOperands());
    }
    printer << ')';
  }

  void printElement(AtOp at) {
    if (at.getCapture())
      printer.printSymbolName(*at.getCapture());
    else
      printer << at.getView();
    if (!at.getStaticIndices().empty())
      printIndices(at.getIndices(), at.getStaticIndices());
  }

  void printLoad(LoadOp load) {
    printer << "load " << load.getView();
    printIndices(load.getIndices(), load.getStaticIndices());
    if (std::optional<ArrayRef<int64_t>> dims = load.getDims()) {
      printer << " dims [";
      llvm::interleaveComma(*dims, printer);
      printer << ']';
    }
  }

  void printNumber(Attribute number) {
    auto value = dyn_cast<FloatAttr>(number);
    for (auto [word, known] : numbers)
      if (value && value.getValueAsDouble() == known) {
        printer << word;
        return;
      }
    printer.printAttributeWithoutType(number);
  }
  void printParam(ParamOp param) {
    bool isName = param.getExpr().getKind() == ExprKind::Name;
    printer << (isName ? "" : "param(");
    printExprText(printer.getStream(), param.getExpr());
    printer << (isName ? "" : ")");
  }
  void printCall(StringRef word, Operation *op) {
    printer << word << '(';
    OperandRange operands = op->getOperands();
    for (auto [i, operand] : llvm::enumerate(word == "not" ? operands.take_front() : operands)) {
      printer << (i ? ", " : "");
      print(operand);
    }
    if (auto cast = dyn_cast<CastOp>(op))
      printer << " : " << cast.getSource().getType();
    if (auto expand = dyn_cast<ExpandOp>(op))
      printer << ", " << static_cast<int64_t>(expand.getDim());
    if (auto iota = dyn_cast<IotaOp>(op))
      printer << ", " << static_cast<int64_t>(iota.getDim());
    printer << ')';
  }

  OpAsmPrinter &printer;
  Operation *formula;
};

} // namespace

ParseResult parseFormulas(OpAsmParser &parser, OperationState &result, bool isList,
                          Formulas &formulas) {
  parser.getContext()->getOrLoadDialect<math::MathDialect>();
  auto &[roots, flags, types, converted, locals] = formulas;
  do {
    if (parseFormula(parser, roots.emplace_back()))
      return failure();
  } while (isList && succeeded(parser.parseOptionalComma()));
  SMLoc loc = parser.getCurrentLocation();
  if (parseFlags(parser, flags) || parser.parseOptionalAttrDict(result.attributes))
    return failure();
  if (!types.empty()) {
    loc = roots.front()->loc;
  } else if (succeeded(parser.parseOptionalColon())) {
    if (parser.getCurrentLocation(&loc) || parser.parseTypeList(types) ||
        (!isList && succeeded(parser.parseOptionalArrow()) && parser.parseType(converted)))
      return failure();
  } else {
    for (const NodePtr &root : roots) {
      FailureOr<Type> type = inferType(parser, *root, locals);
      if (failed(type))
        return failure();
      if (!*type)
        return parser.emitError(root->loc, "the operands do not tell the type of the formula; "
                                           "write it after a colon");
      types.push_back(*type);
    }
  }
  if (roots.size() > 1 && roots.size() != types.size())
    return parser.emitError(loc, "must have a type for each of ")
           << roots.size() << " formulas, but got " << types.size();
  for (Type type : types)
    if (roots.front()->kind != Node::Apply && roots.front()->kind != Node::Choice &&
        roots.front()->kind != Node::Operand && !isTile(type) && !isElementType(type) &&
        roots.size() == 1)
      return parser.emitError(loc, "a formula must be of tiles or scalars, but got ") << type;
  return success();
}

ParseResult buildFormulas(OpAsmParser &parser, const Formulas &formulas, Region &region) {
  const auto &[roots, flags, types, converted, locals] = formulas;
  // The region has no operation yet that would tell the builder its context.
  OpBuilder b(parser.getContext());
  b.setInsertionPointToStart(&region.emplaceBlock());
  SmallVector<Value> values;
  for (auto [i, root] : llvm::enumerate(roots)) {
    ArrayRef<Type> own = roots.size() == 1 ? ArrayRef(types) : ArrayRef(types).slice(i, 1);
    SmallVector<Value> built =
        buildFormula(parser, b, flags, *root, own, isCondition(*root), locals);
    if (built.empty())
      return failure();
    llvm::append_range(values, built);
  }
  if (converted)
    values = {CastOp::create(b, values.front().getLoc(), converted, values.front())};
  OperationState end(parser.getEncodedSourceLoc(parser.getNameLoc()), YieldOp::getOperationName());
  end.addOperands(values);
  b.create(end);
  return success();
}

void printFormulas(OpAsmPrinter &printer, Operation *op, ValueRange values) {
  FormulaPrinter formula(printer, op);
  if (values.size() > 1 && isOneFormula(op, values))
    formula.printAll(values);
  else
    llvm::interleaveComma(values, printer, [&](Value each) { formula.print(each); });
}

void printIndices(OpAsmPrinter &printer, Operation *op, OperandRange indices,
                  ArrayRef<int64_t> integers) {
  FormulaPrinter(printer, op).printIndices(indices, integers);
}

void printFlags(OpAsmPrinter &printer, Operation *formula) {
  arith::FastMathFlags fastmath{};
  arith::IntegerOverflowFlags overflow{};
  formula->walk([&](Operation *op) {
    if (auto flags = op->getAttrOfType<arith::FastMathFlagsAttr>("fastmath"))
      fastmath = fastmath | flags.getValue();
    if (auto flags = op->getAttrOfType<arith::IntegerOverflowFlagsAttr>("overflowFlags"))
      overflow = overflow | flags.getValue();
  });
  if (fastmath != arith::FastMathFlags::none)
    printer << " fastmath<" << arith::stringifyFastMathFlags(fastmath) << '>';
  if (overflow != arith::IntegerOverflowFlags::none)
    printer << " overflow<" << arith::stringifyIntegerOverflowFlags(overflow) << '>';
}

LogicalResult verifyBody(Operation *formula, Region &region, Operation *last) {
  Block &body = region.front();
  auto end = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!end || (end.getValues().empty() && !last))
    return formula->emitOpError("must end by yielding its results; use its custom assembly format");
  WalkResult walk = body.walk([&](Operation *op) -> WalkResult {
    auto load = dyn_cast<LoadOp>(op);
    auto dot = dyn_cast<DotOp>(op);
    if (op == end || op == last || (load && !load.getPad()) ||
        (dot && dot.getPrecision() == DotPrecision::IEEE && !dot.getInterleaved()) ||
        isa<ConstantOp, ParamOp, FullOp, ExpandOp, CastOp, SelectOp, arith::SelectOp, AtOp, DimOp,
            IotaOp, MapOp, ReduceOp, func::CallOp, scf::IfOp, scf::YieldOp>(op) ||
        findFunction(op) || !findComparison(op).empty())
      return WalkResult::advance();
    return op->emitOpError("has no place in a formula; use the custom assembly format of "
                           "tile.expr");
  });
  return failure(walk.wasInterrupted());
}

} // namespace tilewright::tile::formula

//===----------------------------------------------------------------------===//
// ExprOp
//===----------------------------------------------------------------------===//

ParseResult ExprOp::parse(OpAsmParser &parser, OperationState &result) {
  formula::Formulas formulas;
  if (formula::parseFormulas(parser, result, /*isList=*/false, formulas))
    return failure();
  // Several results may share a type.
  if (formulas.types.size() == 1 && parser.getNumResults() > 1)
    formulas.types.append(parser.getNumResults() - 1, formulas.types.front());
  if (formula::buildFormulas(parser, formulas, *result.addRegion()))
    return failure();
  if (formulas.types.size() == 1)
    result.addAttribute(getTypeAttrName(result.name), TypeAttr::get(formulas.types.front()));
  result.addTypes(result.regions.front()->front().getTerminator()->getOperandTypes());
  return success();
}

void ExprOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  formula::FormulaPrinter formula(printer, *this);
  ValueRange values = getBody().front().getTerminator()->getOperands();
  CastOp converted;
  if (values.size() != 1) {
    formula.printAll(values);
  } else {
    Value value = values.front();
    converted = value.getDefiningOp<CastOp>();
    if (value.getType() == getType() || value.getType() == formula::getConditionType(*getType()))
      converted = nullptr;
    formula.print(converted ? converted.getSource() : value);
  }
  formula::printFlags(printer, *this);
  printer.printOptionalAttrDict((*this)->getAttrs(), {getTypeAttrName()});
  printer << " : ";
  if (values.size() == 1)
    printer << *getType();
  else
    llvm::interleaveComma(values.getTypes(), printer);
  if (converted)
    printer << " -> " << values.front().getType();
}

LogicalResult ExprOp::verify() {
  Block &body = getBody().front();
  auto end = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!end || end.getValues().getTypes() != getResultTypes() ||
      (getNumResults() == 1) != getType().has_value())
    return emitOpError("must end by yielding its result; use its custom assembly format");
  if (getNumResults() != 1 && !formula::isOneFormula(*this, end.getValues()))
    return emitOpError("must have one result, or be a call; use its custom assembly format");
  return formula::verifyBody(*this, getBody());
}

//===----------------------------------------------------------------------===//
// ResultOp
//===----------------------------------------------------------------------===//

ParseResult ResultOp::parse(OpAsmParser &parser, OperationState &result) {
  formula::Formulas formulas;
  return failure(formula::parseFormulas(parser, result, /*isList=*/true, formulas) ||
                 formula::buildFormulas(parser, formulas, *result.addRegion()));
}

void ResultOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  ValueRange values = getBody().front().getTerminator()->getOperands();
  formula::printFormulas(printer, *this, values);
  formula::printFlags(printer, *this);
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : ";
  llvm::interleaveComma(values.getTypes(), printer);
}

LogicalResult ResultOp::verify() {
  if (failed(formula::verifyBody(*this, getBody())))
    return failure();
  auto function = dyn_cast<func::FuncOp>((*this)->getParentOp());
  if (!function)
    return emitOpError("must end a function; use the terminator of the region that it is in");
  TypeRange types = getBody().front().getTerminator()->getOperandTypes();
  TypeRange expected = function.getResultTypes();
  if (types != expected)
    return emitOpError("must have the results of its function, ")
           << SmallVector<Type>(expected) << ", but got " << SmallVector<Type>(types);
  return success();
}
