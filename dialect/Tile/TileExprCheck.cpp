// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kinds of expressions, and the rules of a signature.

#include "dialect/Tile/TileExprCheck.h"

#include "base/Numeric/ElementRule.h"
#include "dialect/Tile/Suggest.h"
#include "dialect/Tile/TileExpr.h"
#include "dialect/Tile/TileExprEval.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tilewright::tile {

//===----------------------------------------------------------------------===//
// Signature
//===----------------------------------------------------------------------===//

Signature::Signature(Operation *kernelOrProgram) : op(kernelOrProgram) {
  auto take = [&](auto kernel) {
    params = kernel.getParams();
    constraints = kernel.getConstraints();
    argNames = kernel.getArgNames();
    argOptional = kernel.getArgOptional();
    argDefaults = kernel.getArgDefaultsAttr();
    argConditions = kernel.getArgConditionsAttr();
    body = &kernel.getRegion().front();
  };
  if (auto kernel = dyn_cast<KernelOp>(op))
    take(kernel);
  else
    take(cast<ProgramOp>(op));
}

Signature::Signature(Operation *op, ArrayAttr constraints, ArrayAttr argNames,
                     ArrayRef<bool> argOptional, DictionaryAttr argDefaults, Block *body)
    : op(op), params(ArrayAttr::get(op->getContext(), {})), constraints(constraints),
      argNames(argNames), argOptional(argOptional), argDefaults(argDefaults), body(body) {}

ParamDeclAttr Signature::findParam(StringRef name) const {
  for (auto param : params.getAsRange<ParamDeclAttr>())
    if (param.getName() == name)
      return param;
  return nullptr;
}

int Signature::findArg(StringRef name) const {
  for (auto [i, argName] : llvm::enumerate(argNames.getAsRange<StringAttr>()))
    if (argName.getValue() == name)
      return i;
  return -1;
}

Attribute Signature::getArgDefault(StringRef name) const {
  return argDefaults ? argDefaults.get(name) : Attribute();
}

ExprAttr Signature::getArgCondition(StringRef name) const {
  return argConditions ? argConditions.getAs<ExprAttr>(name) : ExprAttr();
}

bool Signature::mayBeAbsent(unsigned i) const {
  return argOptional[i] || getArgCondition(cast<StringAttr>(argNames[i]).getValue());
}

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

namespace {
class Checker {
public:
  Checker(Operation *op, const Signature *signature, ExprScope scope, StringRef what)
      : op(op), signature(signature), scope(scope), what(what) {}

  FailureOr<ExprKind> check(ExprAttr expr) {
    if (!whole)
      whole = expr;
    switch (expr.getKind()) {
    case ExprKind::Int:
    case ExprKind::Flag:
    case ExprKind::Enum:
    case ExprKind::Type:
    case ExprKind::Float:
      return expr.getKind();
    case ExprKind::Name:
      return checkName(expr);
    case ExprKind::Dim:
      return checkDim(expr);
    case ExprKind::Call:
      return checkCall(expr);
    }
    return failure();
  }

private:
  InFlightDiagnostic error() { return op->emitOpError() << what << " "; }

  bool readsArguments() const {
    return scope == ExprScope::Launch || scope == ExprScope::Constraint || scope == ExprScope::Let;
  }

  FailureOr<ExprKind> checkName(ExprAttr expr) {
    StringRef name = expr.getName();
    if (!signature)
      return ExprKind::Name;
    if (ParamDeclAttr param = signature->findParam(name)) {
      if (!readsArguments() && isOfLaunch(*signature, param))
        return error() << "may read parameters only, but got '" << name
                       << "', which depends on arguments; such parameters are for conditions of "
                          "launches, extents of workspaces, and constraints";
      return static_cast<ExprKind>(static_cast<uint32_t>(param.getKind()));
    }
    int arg = signature->findArg(name);
    if (!readsArguments()) {
      if (arg >= 0)
        return error() << "may read parameters only, but got the argument '" << name << "'";
      return error() << "names '" << name << "', which is not a parameter of @"
                     << SymbolTable::getSymbolName(signature->op).getValue() << "; "
                     << listNames(signature->params);
    }
    Type type = arg < 0 ? getCaptureType(name) : signature->getArgType(arg);
    if (!type)
      return error() << "names '" << name << "', which is neither a parameter nor an argument of @"
                     << SymbolTable::getSymbolName(signature->op).getValue()
                     << "; declare it there, or correct the name";
    if (isa<ViewType>(type))
      return error() << "uses the view '" << name << "' as a number; write dim(" << name
                     << ", position) for an extent";
    if (isa<FloatType>(type) && scope == ExprScope::Constraint)
      return ExprKind::Float;
    if (!isa<IntegerType>(type))
      return error() << "may read integer scalars only, but got '" << name << "' of type " << type;
    return type.isInteger(1) ? ExprKind::Flag : ExprKind::Int;
  }

  FailureOr<ExprKind> checkDim(ExprAttr expr) {
    StringRef name = expr.getName();
    if (!signature || !readsArguments())
      return error() << "may read parameters only, but got dim(" << name << ", " << expr.getValue()
                     << ")";
    int arg = signature->findArg(name);
    Type type = arg < 0 ? getCaptureType(name) : signature->getArgType(arg);
    auto view = dyn_cast_or_null<ViewType>(type);
    if (!view)
      return error() << "may take dim of views among the arguments only, but got '" << name << "'";
    if (expr.getValue() < 0 || expr.getValue() >= view.getRank())
      return error() << "takes dim(" << name << ", " << expr.getValue() << "), but '" << name
                     << "' has rank " << view.getRank() << "; dimensions are counted from 0";
    return ExprKind::Int;
  }

  /// Null if no capture of the name may be read.
  Type getCaptureType(StringRef name) {
    if (scope != ExprScope::Constraint)
      return {};
    auto symbol = StringAttr::get(op->getContext(), name);
    auto capture =
        SymbolTable::lookupNearestSymbolFrom<CaptureOp>(signature->op->getParentOp(), symbol);
    return capture ? capture.getType() : Type();
  }

  FailureOr<ExprKind> checkCall(ExprAttr expr) {
    if (auto rule = numeric::parseElementRule(std::string_view(expr.getName())))
      return checkElements(expr, *rule);
    static_assert(int(expr::Kind::Real) == int(ExprKind::Float), "the kinds are in one order");
    expr::Function function = getFunction(expr);
    SmallVector<expr::Kind> kinds;
    for (ExprAttr operand : expr.getOperands()) {
      FailureOr<ExprKind> kind = check(operand);
      if (failed(kind))
        return failure();
      kinds.push_back(static_cast<expr::Kind>(*kind));
    }
    if (isChosenBlock(expr))
      return error() << "uses " << expr.getName() << "() in an expression, but " << expr.getName()
                     << "() must be the whole default of an integer parameter; declare one, and "
                        "name it here";
    if (function == expr::Function::SmCount && !readsArguments())
      return error() << "may read parameters only, but got sm_count()";
    bool isQuoted = !kinds.empty() && kinds.front() == expr::Kind::Enum;
    bool mayAsk =
        scope == ExprScope::Default || scope == ExprScope::Constraint || scope == ExprScope::Let;
    if (function == expr::Function::Replaced && (!mayAsk || !isQuoted))
      return error() << "uses replaced(), but replaced() is allowed in constraints and defaults "
                        "only and takes a quoted function name; write replaced(\"mask_mod\") in "
                        "the default of a flag, and name the flag here";
    expr::CallKind call = expr::checkCall(function, kinds.data());
    if (!call.rejection.empty())
      return error() << call.rejection;
    if (function == expr::Function::Equal || function == expr::Function::NotEqual)
      if (failed(checkEnumValue(expr)))
        return failure();
    return static_cast<ExprKind>(call.kind);
  }

  /// A rule for the elements of an index array: a whole constraint, since its error names the
  /// element that violates it.
  FailureOr<ExprKind> checkElements(ExprAttr expr, numeric::ElementRule rule) {
    StringRef function = expr.getName();
    if (scope != ExprScope::Constraint || expr != whole)
      return error() << "uses '" << function
                     << "' inside an expression; it must be a whole constraint";
    auto checkView = [&](ExprAttr operand, int64_t rank) -> LogicalResult {
      int arg = operand.getKind() == ExprKind::Name && signature
                    ? signature->findArg(operand.getName())
                    : -1;
      auto view = arg < 0 ? ViewType() : dyn_cast<ViewType>(signature->getArgType(arg));
      auto isIndex = [](Type type) {
        return type.isSignlessInteger(32) || type.isSignlessInteger(64);
      };
      if (!view || !isIndex(view.getElementType()) || (rank && view.getRank() != rank))
        return error() << "uses '" << function << "', which requires a view of i32 or i64"
                       << (rank == 1   ? " of rank 1"
                           : rank == 2 ? " of rank 2"
                                       : "")
                       << " among the arguments, but got '" << toString(operand) << "'";
      return success();
    };
    ArrayRef<ExprAttr> operands = expr.getOperands();
    if (failed(checkView(operands[0], numeric::elementRuleRank(rule))))
      return failure();
    for (auto [i, operand] : llvm::enumerate(operands)) {
      if (i == 0)
        continue;
      if (i == 3) {
        if (failed(checkView(operand, 1)))
          return failure();
        continue;
      }
      FailureOr<ExprKind> kind = check(operand);
      if (failed(kind))
        return failure();
      if (*kind != ExprKind::Int && *kind != ExprKind::Name)
        return error() << "must apply '" << function << "' to a value of kind int, but got "
                       << stringifyExprKind(*kind);
    }
    return ExprKind::Flag;
  }

  /// A string compared with an enum parameter must be one of its values: a typo would never match.
  LogicalResult checkEnumValue(ExprAttr expr) {
    for (unsigned i : {0u, 1u}) {
      ExprAttr name = expr.getOperands()[i], value = expr.getOperands()[1 - i];
      if (!signature || name.getKind() != ExprKind::Name || value.getKind() != ExprKind::Enum)
        continue;
      ParamDeclAttr param = signature->findParam(name.getName());
      if (param && !llvm::is_contained(param.getAllowed(), value))
        return error() << "compares parameter '" << param.getName() << "' with \""
                       << value.getName()
                       << "\", which is not one of its values; it is declared as "
                       << toString(param);
    }
    return success();
  }

  Operation *op;
  const Signature *signature;
  ExprScope scope;
  StringRef what;
  ExprAttr whole; ///< the function being checked; null before
};
} // namespace

FailureOr<ExprKind> checkExpr(Operation *op, ExprAttr expr, const Signature *signature,
                              ExprScope scope, StringRef what) {
  return Checker(op, signature, scope, what).check(expr);
}

LogicalResult checkExprKind(Operation *op, ExprAttr expr, const Signature *signature,
                            ExprScope scope, StringRef what, ExprKind wanted) {
  FailureOr<ExprKind> kind = checkExpr(op, expr, signature, scope, what);
  if (failed(kind))
    return failure();
  if (*kind == wanted || *kind == ExprKind::Name)
    return success();
  return op->emitOpError() << what << " must be of kind " << stringifyExprKind(wanted)
                           << ", but got kind " << stringifyExprKind(*kind);
}

LogicalResult checkParameterExpr(Operation *op, ExprAttr expr, StringRef what, ExprKind wanted) {
  if (!expr)
    return success();
  std::optional<Signature> signature;
  if (auto kernel = op->getParentOfType<KernelOp>())
    signature.emplace(kernel);
  return checkExprKind(op, expr, signature ? &*signature : nullptr, ExprScope::Parameters, what,
                       wanted);
}

static bool readsDevice(ExprAttr expr) {
  return (expr.getKind() == ExprKind::Call && expr.getName() == "sm_count") ||
         llvm::any_of(expr.getOperands(), readsDevice);
}

bool isOfLaunch(const Signature &signature, ParamDeclAttr param) {
  if (!isa<ProgramOp>(signature.op) || !param.getDerived())
    return false;
  SmallVector<ParamDeclAttr> path{param};
  llvm::StringSet<> visited; // the verifier rejects cycles later
  while (!path.empty()) {
    ParamDeclAttr current = path.pop_back_val();
    if (!current.getDerived() || !visited.insert(current.getName()).second)
      continue;
    bool isFound = false;
    walkExpr(current.getDefaultValue(), [&](ExprAttr leaf) {
      ParamDeclAttr other;
      if (leaf.getKind() == ExprKind::Name)
        other = signature.findParam(leaf.getName());
      if (other)
        path.push_back(other);
      isFound |= leaf.getKind() == ExprKind::Dim || (leaf.getKind() == ExprKind::Name && !other);
    });
    if (isFound || readsDevice(current.getDefaultValue()))
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Rules of a signature
//===----------------------------------------------------------------------===//

static LogicalResult verifyNames(const Signature &signature, ArrayRef<Attribute> gridNames) {
  llvm::StringMap<StringRef> seen;
  auto add = [&](StringRef name, StringRef kind) -> LogicalResult {
    if (isReservedName(name))
      return signature.op->emitOpError()
             << kind << " '" << name
             << "' must not have the name of a literal or a type; rename it";
    auto [it, inserted] = seen.try_emplace(name, kind);
    if (inserted)
      return success();
    return signature.op->emitOpError() << kind << " '" << name << "' has the name of another "
                                       << it->second << "; names must differ";
  };
  for (auto param : signature.params.getAsRange<ParamDeclAttr>())
    if (failed(add(param.getName(), "parameter")))
      return failure();
  for (auto name : signature.argNames.getAsRange<StringAttr>())
    if (failed(add(name.getValue(), "argument")))
      return failure();
  for (Attribute name : gridNames)
    if (failed(add(cast<StringAttr>(name).getValue(), "grid id")))
      return failure();
  return success();
}

static LogicalResult verifyNoCycle(const Signature &signature) {
  // Depth-first over defaults, with an explicit stack, since a chain of defaults may have any
  // length; the message shows the path.
  struct Step {
    StringRef name;
    SmallVector<StringRef> reads;
    size_t next = 0;
  };
  llvm::StringMap<ParamDeclAttr> params;
  for (auto param : signature.params.getAsRange<ParamDeclAttr>())
    params.try_emplace(param.getName(), param);
  llvm::StringMap<size_t> positions; // on the path
  llvm::StringSet<> entered;
  SmallVector<Step> path;
  auto enter = [&](StringRef name) {
    if (!entered.insert(name).second)
      return;
    positions[name] = path.size();
    path.push_back({name, {}});
    if (ParamDeclAttr param = params.lookup(name); param && param.getDefaultValue())
      walkExpr(param.getDefaultValue(), [&](ExprAttr leaf) {
        if (leaf.getKind() == ExprKind::Name)
          path.back().reads.push_back(leaf.getName());
      });
  };
  for (auto param : signature.params.getAsRange<ParamDeclAttr>()) {
    enter(param.getName());
    while (!path.empty()) {
      Step &top = path.back();
      if (top.next == top.reads.size()) {
        positions.erase(top.name);
        path.pop_back();
        continue;
      }
      StringRef name = top.reads[top.next++];
      auto start = positions.find(name);
      if (start == positions.end()) {
        enter(name);
        continue;
      }
      InFlightDiagnostic diagnostic = signature.op->emitOpError()
                                      << "defaults of parameters must not form a cycle, but got ";
      for (const Step &step : ArrayRef(path).drop_front(start->second))
        diagnostic << step.name << " -> ";
      return diagnostic << name;
    }
  }
  return success();
}

static SmallVector<StringRef> getParamNames(const Signature &signature) {
  SmallVector<StringRef> names;
  for (auto param : signature.params.getAsRange<ParamDeclAttr>())
    names.push_back(param.getName());
  return names;
}

LogicalResult verifyNamesAreDeclared(const Signature &signature) {
  SmallVector<StringRef> params = getParamNames(signature);
  StringRef kernel = SymbolTable::getSymbolName(signature.op).getValue();
  auto verify = [&](Operation *where, Type type) -> LogicalResult {
    StringRef unknown;
    bool standsForType = false;
    visitNames(type, [&](StringRef name, bool isElement) {
      if (!unknown.empty() || llvm::is_contained(params, name))
        return;
      unknown = name;
      standsForType = isElement;
    });
    if (unknown.empty())
      return success();
    return where->emitOpError() << "uses type " << type << ", but '" << unknown
                                << "' is not a parameter of @" << kernel << "; "
                                << suggestParameter(unknown, standsForType, params);
  };
  auto verifyBlocks = [&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Type type : block.getArgumentTypes())
          if (failed(verify(op, type)))
            return failure();
    return success();
  };
  if (failed(verifyBlocks(signature.op)))
    return failure();
  return failure(signature.body
                     ->walk<WalkOrder::PreOrder>([&](Operation *inner) {
                       for (Type type : inner->getResultTypes())
                         if (failed(verify(inner, type)))
                           return WalkResult::interrupt();
                       return WalkResult(verifyBlocks(inner));
                     })
                     .wasInterrupted());
}

/// Names inside a type are parameters of the required kind. Errors are emitted at `where`.
static LogicalResult verifyTypeNames(const Signature &signature, Operation *where, Type type) {
  auto check = [&](StringRef name, ParamKind wanted) -> LogicalResult {
    ParamDeclAttr param = signature.findParam(name);
    assert(param && "see verifyNamesAreDeclared");
    if (param.getKind() != wanted)
      return where->emitOpError() << "uses type " << type << ", which needs '" << name
                                  << "' to be a parameter of kind " << stringifyParamKind(wanted)
                                  << ", but got kind " << stringifyParamKind(param.getKind());
    if (isOfLaunch(signature, param))
      return where->emitOpError() << "uses type " << type << ", but '" << name
                                  << "' depends on arguments; types may name other parameters only";
    return success();
  };
  WalkResult walk = type.walk<WalkOrder::PreOrder>([&](Type inner) {
    LogicalResult result = success();
    if (auto param = dyn_cast<ParamType>(inner))
      result = check(param.getName(), ParamKind::Type);
    if (isa<TileType, ViewType>(inner))
      for (const Dim &dim : getDims(inner))
        if (succeeded(result) && dim.isSymbol())
          result = check(dim.symbol.getValue(), ParamKind::Int);
    return failed(result) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// The default of a scalar argument is a value of its type.
static LogicalResult verifyDefault(const Signature &signature, StringAttr name, Type type) {
  Attribute value = signature.getArgDefault(name.getValue());
  if (!value)
    return success();
  auto reject = [&](StringRef rule) {
    return signature.op->emitOpError() << "the default of argument '" << name.getValue()
                                       << "' must be " << rule << ", but got " << value;
  };
  if (isa<ViewType>(type))
    return signature.op->emitOpError() << "only scalars may have a default, but got argument '"
                                       << name.getValue() << "' of type " << type;
  if (isa<FloatType>(type))
    return isa<FloatAttr>(value) ? success() : reject("a float");
  auto integer = dyn_cast<IntegerAttr>(value);
  if (type.isInteger(1))
    return integer && integer.getType().isInteger(1) ? success() : reject("true or false");
  if (!integer || integer.getType().isInteger(1) ||
      !integer.getValue().isSignedIntN(type.getIntOrFloatBitWidth()))
    return reject(type.isInteger(32) ? "an i32" : "an i64");
  return success();
}

LogicalResult verifyConstraints(const Signature &signature) {
  for (auto constraint : signature.constraints.getAsRange<ExprAttr>())
    if (failed(checkExprKind(signature.op, constraint, &signature, ExprScope::Constraint,
                             "a constraint", ExprKind::Flag)))
      return failure();
  return success();
}

LogicalResult verifyDefaults(const Signature &signature) {
  for (auto [i, name] : llvm::enumerate(signature.argNames.getAsRange<StringAttr>()))
    if (failed(verifyDefault(signature, name, signature.getArgType(i))))
      return failure();
  return success();
}

LogicalResult verifySignature(const Signature &signature, ArrayRef<Attribute> gridNames) {
  Operation *op = signature.op;
  if (failed(verifyNames(signature, gridNames)))
    return failure();
  for (auto param : signature.params.getAsRange<ParamDeclAttr>()) {
    if (!param.getDefaultValue())
      continue;
    std::string what = ("the default of parameter '" + param.getName() + "'").str();
    ExprAttr value = param.getDefaultValue();
    // Chosen by tile-choose-blocks.
    if (isChosenBlock(value) && param.getKind() == ParamKind::Int && !param.getDerived()) {
      if (value.getOperands().empty())
        continue;
      value = value.getOperands().front();
    }
    auto kind = static_cast<ExprKind>(static_cast<uint32_t>(param.getKind()));
    ExprScope scope =
        isa<ProgramOp>(op) && param.getDerived() ? ExprScope::Let : ExprScope::Default;
    if (failed(checkExprKind(op, value, &signature, scope, what, kind)))
      return failure();
  }
  if (failed(verifyNoCycle(signature)))
    return failure();
  if (failed(verifyConstraints(signature)))
    return failure();

  for (auto [i, name] : llvm::enumerate(signature.argNames.getAsRange<StringAttr>())) {
    Type type = signature.getArgType(i);
    if (!isa<ViewType>(type) && !isElementType(type))
      return op->emitOpError() << "argument '" << name.getValue()
                               << "' must be a view or a scalar, but got " << type;
    if (signature.argOptional[i] && !isa<ViewType>(type))
      return op->emitOpError() << "only views may be optional, but got argument '"
                               << name.getValue() << "' of type " << type
                               << "; give a scalar a default instead";
    if (failed(verifyDefault(signature, name, type)))
      return failure();
    if (ExprAttr condition = signature.getArgCondition(name)) {
      std::string what = ("the condition of argument '" + name.getValue() + "'").str();
      if (failed(checkExprKind(op, condition, &signature, ExprScope::Parameters, what,
                               ExprKind::Flag)))
        return failure();
    }
    if (failed(verifyTypeNames(signature, op, type)))
      return failure();
  }
  WalkResult walk = signature.body->walk([&](Operation *inner) {
    auto verify = [&](Type type) { return verifyTypeNames(signature, inner, type); };
    // Binding replaces types, but not the elements of a literal.
    if (auto constant = inner->getAttrOfType<ElementsAttr>("value"))
      if (!isTile(constant.getType()) || isa<TileType>(constant.getType()) ||
          isa<ParamType>(getElementType(constant.getType()))) {
        inner->emitOpError() << "cannot make a constant of type " << constant.getType()
                             << "; write a scalar constant and tile.full";
        return WalkResult::interrupt();
      }
    for (Type type : inner->getResultTypes())
      if (failed(verify(type)))
        return WalkResult::interrupt();
    for (Region &region : inner->getRegions())
      for (Block &block : region)
        for (Type type : block.getArgumentTypes())
          if (failed(verify(type)))
            return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

} // namespace tilewright::tile
