// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas of tile.expr and tile.result: their operations. Parsing builds these, so that their
// verifiers check them.

#include "dialect/Tile/FormulaTree.h"
#include "dialect/Tile/Suggest.h"
#include "dialect/Tile/TileExprEval.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace tilewright::tile;

namespace tilewright::tile::formula {

FailureOr<Type> findType(OpAsmParser &parser, const OpAsmParser::UnresolvedOperand &operand,
                         const Locals *locals) {
  if (locals) {
    if (Value value = locals->lookup(operand.name))
      return value.getType();
    return parser.emitError(operand.location)
           << "'" << operand.name
           << "' must be an argument of the function; correct the name, or add it";
  }
  // MLIR's parser has the type, but tells it only to those that expect another one.
  Type asked = NoneType::get(parser.getContext()), found;
  std::string error;
  SmallVector<Value, 1> value;
  {
    uint64_t thread = llvm::get_threadid();
    ScopedDiagnosticHandler listen(parser.getContext(), [&](Diagnostic &diagnostic) {
      if (llvm::get_threadid() != thread)
        return failure();
      error = diagnostic.str();
      for (const DiagnosticArgument &argument : diagnostic.getArguments())
        if (argument.getKind() == DiagnosticArgument::DiagnosticArgumentKind::Type)
          found = argument.getAsType();
      return success();
    });
    if (succeeded(parser.resolveOperand(operand, asked, value)))
      error = ("'" + operand.name + "' must be defined above the formula that reads it").str();
  }
  if (!found)
    return parser.emitError(operand.location, error);
  return found;
}

bool isCondition(const Node &node) {
  if (node.kind == Node::Typed)
    return isCondition(*node.operands[0]);
  if (node.kind == Node::Choice)
    return isCondition(*node.operands[1]);
  if (node.kind != Node::Call)
    return false;
  if (node.word == "select")
    return isCondition(*node.operands[1]);
  return find(comparisons, node.word) || find(connectives, node.word);
}

/// The type without a dimension; null if there is none.
static Type dropDim(Type type, int64_t dim) {
  if (!type || !isTile(type))
    return {};
  SmallVector<Dim> dims = getDims(type);
  if (dim < 0 || dim >= static_cast<int64_t>(dims.size()) || dims.size() < 2)
    return {};
  dims.erase(dims.begin() + dim);
  return makeTile(type.getContext(), dims, getElementType(type), !isa<RankedTensorType>(type));
}

FailureOr<Type> inferType(OpAsmParser &parser, const Node &node, const Locals *locals) {
  switch (node.kind) {
  case Node::Operand:
    return findType(parser, node.operand, locals);
  case Node::Extent:
    return Type(IntegerType::get(parser.getContext(), 32));
  case Node::Typed: {
    return isCondition(node) ? getConditionType(node.from) : node.from;
  }
  case Node::Element: {
    if (node.symbol)
      return Type();
    FailureOr<Type> view = findType(parser, node.operand, locals);
    return succeeded(view) && isa<ViewType>(*view) ? FailureOr<Type>(getElementType(*view)) : view;
  }
  case Node::Reduce: {
    FailureOr<Type> source = inferType(parser, *node.operands[0], locals);
    return succeeded(source) ? FailureOr<Type>(dropDim(*source, node.dim)) : source;
  }
  case Node::Dot:
    return node.operands.size() == 3 ? inferType(parser, *node.operands[2], locals) : Type();
  case Node::Number:
  case Node::Param:
  case Node::Load:
  case Node::Apply:
  case Node::Map:
  case Node::List:
    return Type();
  case Node::Choice:
  case Node::Call:
    break;
  }
  if (node.word == "full" || node.word == "expand" || node.word == "cast" || node.word == "iota")
    return Type();
  bool isChoice = node.word == "select" || node.kind == Node::Choice;
  for (const NodePtr &operand : ArrayRef(node.operands).drop_front(isChoice)) {
    FailureOr<Type> type = inferType(parser, *operand, locals);
    if (failed(type) || *type)
      return succeeded(type) && find(comparisons, node.word) ? getConditionType(*type) : type;
  }
  return Type();
}

namespace {

class FormulaBuilder {
public:
  FormulaBuilder(OpAsmParser &parser, OpBuilder &b, const Flags &flags, const Locals *locals)
      : parser(parser), b(b), flags(flags), locals(locals) {}

  /// The values of a node; none after an error.
  SmallVector<Value> buildAll(const Node &node, TypeRange types, bool asCondition) {
    Location loc = parser.getEncodedSourceLoc(node.loc);
    if (node.kind == Node::Apply) {
      FailureOr<SmallVector<Value>> arguments = buildArguments(node);
      if (failed(arguments))
        return {};
      return func::CallOp::create(b, loc, node.symbol, types, *arguments).getResults();
    }
    if (node.kind == Node::Choice)
      return buildChoice(node, types, asCondition);
    if (node.kind == Node::List && node.operands.size() == types.size()) {
      SmallVector<Value> values;
      for (auto [operand, type] : llvm::zip(node.operands, types))
        if (!values.emplace_back(build(*operand, type, isCondition(*operand))))
          return {};
      return values;
    }
    if (types.size() == 1 && node.kind != Node::List) {
      Value value = build(node, types.front(), asCondition);
      return value ? SmallVector<Value>{value} : SmallVector<Value>();
    }
    if (node.kind == Node::List)
      reject(node) << "expected a formula or list of " << types.size()
                   << (types.size() == 1 ? " result" : " results") << ", but got a list of "
                   << node.operands.size();
    else
      reject(node) << "a formula with " << types.size()
                   << " results must be a call, or a choice of calls or lists, but got a formula "
                      "with one result";
    return {};
  }

private:
  /// The value of a node, where numbers have the type; null after an error.
  Value build(const Node &node, Type type, bool asCondition) {
    bool isOfConditions = getElementType(type).isInteger(1);
    Location loc = parser.getEncodedSourceLoc(node.loc);
    Type result = asCondition && !isOfConditions ? getConditionType(type) : type;
    switch (node.kind) {
    case Node::Operand:
      return resolve(node, result);
    case Node::Param:
      return buildParam(node, loc, result);
    case Node::Typed:
      return checkType(node, build(*node.operands[0], node.from, isCondition(node)), result);
    case Node::Element:
      return checkType(node, buildElement(node, loc, result), result);
    case Node::Extent: {
      Value view = resolveView(node);
      return view ? checkType(node, DimOp::create(b, loc, b.getI32Type(), view, node.dim), result)
                  : view;
    }
    case Node::Map: {
      FailureOr<SmallVector<Value>> arguments = buildArguments(node);
      return succeeded(arguments) ? Value(MapOp::create(b, loc, result, node.symbol, *arguments))
                                  : Value();
    }
    case Node::Load:
      return buildLoad(node, loc, result);
    case Node::Dot:
      return buildDot(node, loc, result);
    case Node::Reduce:
      return checkType(node, buildReduction(node, loc), result);
    case Node::Apply:
    case Node::List:
    case Node::Choice: {
      SmallVector<Value> values = buildAll(node, result, asCondition);
      return values.empty() ? Value() : values.front();
    }
    case Node::Number:
    case Node::Call:
      break;
    }
    // Whether its operand is a condition, the operand's type tells.
    if ((node.word == "full" || node.word == "expand") && (asCondition || isOfConditions))
      return buildTile(node, loc, result);
    if (isCondition(node) != (asCondition || isOfConditions) && node.word != "select")
      return reject(node) << (asCondition || isOfConditions
                                  ? "a condition is required here, but got a number; compare it, "
                                    "as in x > 0"
                                  : "a number is required here, but got a condition; write "
                                    "select(condition, a, b)");
    if (node.kind == Node::Number)
      return buildNumber(node, loc, type);
    if (node.word == "select")
      return buildSelect(node, loc, type, result, asCondition);
    if (node.word == "full" || node.word == "expand" || node.word == "iota")
      return buildTile(node, loc, type);
    if (node.word == "cast") {
      Value value = buildInferred(*node.operands[0], node.from);
      return value ? Value(CastOp::create(b, loc, type, value)) : value;
    }
    if (const Comparison *comparison = find(comparisons, node.word))
      return buildComparison(node, *comparison, loc, type);
    const Function *connective = find(connectives, node.word);
    const Function *function = connective ? connective : find(functions, node.word);
    SmallVector<Value> operands;
    for (const NodePtr &operand : node.operands) {
      operands.push_back(build(*operand, type, connective));
      if (!operands.back())
        return {};
    }
    bool ofFloats = !connective && isOfFloats(type);
    StringRef name = ofFloats ? function->ofFloats : function->ofIntegers;
    if (name.empty())
      return reject(node) << "'" << node.word << "' is a function of "
                          << (ofFloats ? "integers" : "floats") << ", but the type is " << type
                          << "; cast its operand with tile.cast";
    if (node.word == "not")
      operands.push_back(
          ConstantOp::create(b, loc, operands.front().getType(), b.getI64IntegerAttr(1)));
    OperationState state(loc, name);
    state.addOperands(operands);
    state.addTypes(connective ? operands.front().getType() : result);
    if (ofFloats && flags.fastmath)
      state.addAttribute("fastmath", flags.fastmath);
    if (!ofFloats && flags.overflow && node.operands.size() == 2 && function->precedence &&
        node.word != "/")
      state.addAttribute("overflowFlags", flags.overflow);
    return b.create(state)->getResult(0);
  }

  struct Rejection {
    InFlightDiagnostic diagnostic;
    template <typename T> Rejection &operator<<(T &&part) {
      diagnostic << part;
      return *this;
    }
    operator Value() const { return {}; }
  };
  Rejection reject(const Node &node) { return {parser.emitError(node.loc)}; }

  /// What has a type of its own must have that of the formula.
  Value checkType(const Node &node, Value value, Type expected) {
    if (!value || value.getType() == expected)
      return value;
    return rejectType(node, value.getType(), expected);
  }

  Value rejectType(const Node &node, Type type, Type expected) {
    StringRef value = node.kind == Node::Operand ? node.operand.name : "x";
    return reject(node) << "a value of type " << expected << " is required here, but got " << type
                        << suggestConversion(type, expected, /*inFormula=*/true, value);
  }

  /// The value of a node whose type its operands tell, unless `type` does.
  Value buildInferred(const Node &node, Type type) {
    if (!type) {
      FailureOr<Type> inferred = inferType(parser, node, locals);
      if (failed(inferred))
        return {};
      type = *inferred;
    }
    if (!type)
      return reject(node) << "the type of this operand is not known; write it after the operand, "
                             "as in (x : f32)";
    return build(node, type, isCondition(node));
  }

  FailureOr<SmallVector<Value>> buildArguments(const Node &node) {
    SmallVector<Value> values;
    for (const NodePtr &operand : node.operands) {
      Value value = buildInferred(*operand, {});
      if (!value)
        return failure();
      values.push_back(value);
    }
    return values;
  }

  Value resolve(const Node &node, Type type) {
    if (locals) {
      FailureOr<Type> known = findType(parser, node.operand, locals);
      return succeeded(known) ? checkType(node, locals->lookup(node.operand.name), type) : Value();
    }
    // What MLIR's parser says about an operand of another type names no conversion.
    FailureOr<Type> known = findType(parser, node.operand, locals);
    if (failed(known))
      return {};
    if (*known != type)
      return rejectType(node, *known, type);
    SmallVector<Value, 1> value;
    return failed(parser.resolveOperand(node.operand, type, value)) ? Value() : value.front();
  }

  Value resolveView(const Node &node) {
    FailureOr<Type> type = findType(parser, node.operand, locals);
    if (failed(type))
      return {};
    if (!isa<ViewType>(*type))
      return reject(node) << "a view is required here, but got " << *type;
    return resolve(node, *type);
  }

  struct Indices {
    SmallVector<Value> values;
    SmallVector<int64_t> integers; ///< ShapedType::kDynamic for a value
  };
  FailureOr<Indices> buildIndices(const Node &node) {
    Indices indices;
    for (const NodePtr &operand : node.operands) {
      auto number = dyn_cast_if_present<IntegerAttr>(operand->number);
      indices.integers.push_back(number ? number.getInt() : ShapedType::kDynamic);
      if (!number && !indices.values.emplace_back(build(*operand, b.getI32Type(), false)))
        return failure();
    }
    return indices;
  }

  Value buildElement(const Node &node, Location loc, Type type) {
    Value view;
    if (!node.symbol && !(view = resolveView(node)))
      return {};
    FailureOr<Indices> indices = buildIndices(node);
    if (failed(indices))
      return {};
    Type result = view ? getElementType(view.getType()) : type;
    return AtOp::create(b, loc, result, node.symbol, view, indices->values,
                        b.getDenseI64ArrayAttr(indices->integers));
  }

  Value buildLoad(const Node &node, Location loc, Type type) {
    if (!isTile(type))
      return reject(node) << "'load' makes a tile, but the type is " << type;
    Value view = resolveView(node);
    FailureOr<Indices> indices = view ? buildIndices(node) : FailureOr<Indices>();
    if (failed(indices))
      return {};
    auto dims = node.dims.empty() ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(node.dims);
    return LoadOp::create(b, loc, type, view, indices->values,
                          b.getDenseI64ArrayAttr(indices->integers), dims, /*pad=*/Value());
  }

  Value buildDot(const Node &node, Location loc, Type type) {
    Value lhs = buildInferred(*node.operands[0], {});
    Value rhs = lhs ? buildInferred(*node.operands[1], {}) : Value();
    if (!rhs)
      return {};
    Value sum;
    if (node.operands.size() == 3 && !(sum = build(*node.operands[2], type, false)))
      return {};
    return DotOp::create(b, loc, type, lhs, rhs, sum, node.transposesA, node.transposesB,
                         DotPrecision::IEEE, /*interleaved=*/false);
  }

  Value buildReduction(const Node &node, Location loc) {
    Value source = buildInferred(*node.operands[0], {});
    if (!source)
      return {};
    Type result = dropDim(source.getType(), node.dim);
    if (!result) {
      Rejection error = reject(node);
      error << "must reduce one dimension of a tile and leave another, but got dimension "
            << node.dim << " of " << source.getType();
      if (isTile(source.getType()) && getRank(source.getType()) == 1)
        error << "; repeat a row to reduce it to one number: reduce add(expand(%x, 0) : !rows, 1) "
                 "gives the number once for each of the rows";
      return error;
    }
    return ReduceOp::create(b, loc, result, node.reduction, source, b.getI64IntegerAttr(node.dim));
  }

  /// Only the chosen side is computed.
  SmallVector<Value> buildChoice(const Node &node, TypeRange types, bool asCondition) {
    Location loc = parser.getEncodedSourceLoc(node.loc);
    Value chosen = build(*node.operands[0], b.getI1Type(), true);
    if (!chosen)
      return {};
    auto branch = scf::IfOp::create(b, loc, types, chosen, /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(b);
    for (auto [block, side] : {std::pair(branch.thenBlock(), &node.operands[1]),
                               std::pair(branch.elseBlock(), &node.operands[2])}) {
      b.setInsertionPointToEnd(block);
      SmallVector<Value> values = buildAll(**side, types, asCondition);
      if (values.empty())
        return {};
      scf::YieldOp::create(b, loc, values);
    }
    return branch.getResults();
  }

  Value buildParam(const Node &node, Location loc, Type type) {
    Type element = getElementType(type);
    if (isOfFloats(type)) {
      std::string text = tilewright::tile::toString(node.param);
      if (node.param.getKind() != ExprKind::Name)
        text = "param(" + text + ")";
      text = "cast(" + text + " : i32)";
      return reject(node) << "a parameter has no place in a formula of floats, whose type is "
                          << type << "; write " << (isTile(type) ? "full(" + text + ")" : text);
    }
    Value value = ParamOp::create(b, loc, element, node.param);
    return isTile(type) ? Value(FullOp::create(b, loc, type, value)) : value;
  }

  Value buildNumber(const Node &node, Location loc, Type type) {
    Attribute number = node.number;
    auto integer = dyn_cast<IntegerAttr>(number);
    if (integer && isOfFloats(type))
      number = b.getF64FloatAttr(static_cast<double>(integer.getInt()));
    if (!integer && !isOfFloats(type))
      return reject(node) << "an integer is required here, since the type is " << type
                          << ", but got a float; leave out its fraction, or cast the operands";
    return ConstantOp::create(b, loc, type, number);
  }

  /// Of operands of their own type, if they tell it.
  Value buildComparison(const Node &node, const Comparison &comparison, Location loc, Type type) {
    for (const NodePtr &operand : node.operands) {
      FailureOr<Type> inferred = inferType(parser, *operand, locals);
      if (failed(inferred))
        return {};
      if (*inferred) {
        type = *inferred;
        break;
      }
    }
    if (getElementType(type).isInteger(1) || !(isTile(type) || isElementType(type)))
      return reject(node) << "numbers are compared, but the operands are " << type;
    Value a = build(*node.operands[0], type, false);
    Value other = a ? build(*node.operands[1], type, false) : Value();
    if (!other)
      return {};
    if (isOfFloats(type))
      return arith::CmpFOp::create(b, loc, comparison.ofFloats, a, other);
    return arith::CmpIOp::create(b, loc, comparison.ofIntegers, a, other);
  }

  /// One condition for all elements, or a tile of conditions.
  Value buildCondition(const Node &node, Location loc, Type type) {
    if (node.kind == Node::Param)
      return buildParam(node, loc, b.getI1Type());
    FailureOr<Type> inferred = inferType(parser, node, locals);
    if (failed(inferred))
      return {};
    bool isScalar = *inferred && (*inferred).isInteger(1);
    return build(node, isScalar ? *inferred : type, true);
  }

  Value buildSelect(const Node &node, Location loc, Type type, Type result, bool asCondition) {
    Value chosen = buildCondition(*node.operands[0], loc, type);
    Value a = chosen ? build(*node.operands[1], type, asCondition) : Value();
    Value other = a ? build(*node.operands[2], type, asCondition) : Value();
    if (!other)
      return {};
    if (chosen.getType().isInteger(1))
      return arith::SelectOp::create(b, loc, chosen, a, other);
    return SelectOp::create(b, loc, result, chosen, a, other);
  }

  Value buildTile(const Node &node, Location loc, Type type) {
    if (!isTile(type))
      return reject(node) << "'" << node.word << "' makes a tile, but the type is " << type;
    if (node.word == "full") {
      Value value = build(*node.operands[0], getElementType(type), false);
      return value ? Value(FullOp::create(b, loc, type, value)) : value;
    }
    if (node.word == "iota") {
      Value first = build(*node.operands[0], b.getI32Type(), false);
      return first ? Value(IotaOp::create(b, loc, type, first, b.getI64IntegerAttr(node.dim)))
                   : first;
    }
    Type source = dropDim(type, node.dim);
    if (!source)
      return reject(node)
             << "must reduce one dimension of a tile and leave another, but got dimension "
             << node.dim << " of " << type;
    Value value = build(*node.operands[0], source, false);
    return value ? Value(ExpandOp::create(b, loc, type, value, node.dim)) : value;
  }

  OpAsmParser &parser;
  OpBuilder &b;
  const Flags &flags;
  const Locals *locals;
};

} // namespace

SmallVector<Value> buildFormula(OpAsmParser &parser, OpBuilder &b, const Flags &flags,
                                const Node &node, TypeRange types, bool asCondition,
                                const Locals *locals) {
  return FormulaBuilder(parser, b, flags, locals).buildAll(node, types, asCondition);
}

} // namespace tilewright::tile::formula
