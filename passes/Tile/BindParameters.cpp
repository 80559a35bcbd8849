// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binding of parameters.

#include "passes/Tile/BindParameters.h"

#include "dialect/Tile/Suggest.h"
#include "passes/Tile/ProgramOfKernel.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

ExprEnvironment tilewright::getEnvironment(const Bindings &bindings) {
  ExprEnvironment environment;
  environment.name = [&bindings](StringRef name) { return bindings.lookup(name); };
  return environment;
}

ExprEnvironment tilewright::getEnvironment(const Bindings &bindings, Operation *op) {
  ExprEnvironment environment = getEnvironment(bindings);
  auto module = op->getParentOfType<ModuleOp>();
  auto replaced = module ? replacedAttr.get(module) : ArrayAttr();
  environment.replaced = [replaced](StringRef name) {
    return replaced && llvm::any_of(replaced.getAsRange<StringAttr>(),
                                    [&](StringAttr each) { return each.getValue() == name; });
  };
  return environment;
}

DictionaryAttr tilewright::getBindingsAttr(MLIRContext *context, const Bindings &bindings) {
  Builder builder(context);
  NamedAttrList list;
  for (auto [name, value] : bindings) {
    switch (value.getKind()) {
    case ExprKind::Int:
      list.append(name, builder.getI64IntegerAttr(value.getValue()));
      break;
    case ExprKind::Flag:
      list.append(name, builder.getBoolAttr(value.getValue()));
      break;
    case ExprKind::Type:
      list.append(name, TypeAttr::get(getTypeBySpelling(context, value.getName())));
      break;
    default:
      list.append(name, builder.getStringAttr(value.getName()));
      break;
    }
  }
  return list.getDictionary(context);
}

std::string tilewright::toString(const Bindings &bindings) {
  if (bindings.empty())
    return "no parameters";
  std::string text;
  for (auto [name, value] : bindings) {
    if (!text.empty())
      text += ", ";
    text += name.str() + " = " + tile::toString(value);
  }
  return text;
}

std::string tilewright::describe(Operation *kernelOrProgram) {
  bool isKernel = isa<KernelOp>(kernelOrProgram) || kernelOrProgram->hasAttr(programOfKernelName);
  return (isKernel ? "kernel @" : "program @") + getEntryName(kernelOrProgram).str();
}

std::string tilewright::suggest(StringRef name, ArrayRef<StringRef> candidates,
                                StringRef otherwise) {
  StringRef best = findSimilar(name, candidates);
  return best.empty() ? otherwise.str() : "; did you mean '" + best.str() + "'?";
}

static bool hasKind(ExprAttr literal, ParamKind kind) {
  return static_cast<uint32_t>(literal.getKind()) == static_cast<uint32_t>(kind);
}

static StringRef describeKind(ParamKind kind) {
  switch (kind) {
  case ParamKind::Int:
    return "an integer";
  case ParamKind::Flag:
    return "true or false";
  case ParamKind::Enum:
    return "one of its names";
  case ParamKind::Type:
    return "one of f64, f32, f16, bf16, e4m3, e5m2, i8";
  }
  return "";
}

static std::string listAllowed(ParamDeclAttr decl) {
  std::string text;
  for (ExprAttr value : decl.getAllowed())
    text += (text.empty() ? "" : ", ") + tile::toString(value);
  return text;
}

/// The values that the text of an option may have.
static std::string describeValues(ParamDeclAttr decl) {
  bool isListed = decl.getKind() == ParamKind::Type || decl.getKind() == ParamKind::Enum;
  if (isListed && !decl.getAllowed().empty())
    return "one of " + listAllowed(decl);
  return describeKind(decl.getKind()).str();
}

/// Null if the text is not a value of that kind.
static ExprAttr parseValue(MLIRContext *context, ParamKind kind, StringRef text) {
  int64_t integer;
  switch (kind) {
  case ParamKind::Int:
    return text.getAsInteger(10, integer) ? ExprAttr() : ExprAttr::getInt(context, integer);
  case ParamKind::Flag:
    if (text != "true" && text != "false")
      return {};
    return ExprAttr::getFlag(context, text == "true");
  case ParamKind::Enum:
    return ExprAttr::getEnum(context, text);
  case ParamKind::Type:
    return getTypeBySpelling(context, text) ? ExprAttr::getType(context, text) : ExprAttr();
  }
  return {};
}

FailureOr<llvm::StringMap<ExprAttr>> tilewright::parseBindings(const Signature &signature,
                                                               ArrayRef<std::string> assignments) {
  Operation *op = signature.op;
  llvm::StringMap<ExprAttr> values;
  SmallVector<StringRef> names;
  for (auto decl : signature.params.getAsRange<ParamDeclAttr>())
    if (!decl.getDerived())
      names.push_back(decl.getName());

  for (StringRef assignment : assignments) {
    auto [name, text] = assignment.split('=');
    if (name.empty() || name.size() == assignment.size())
      return op->emitError("expected a binding NAME=VALUE, but got '") << assignment << "'";
    ParamDeclAttr decl = signature.findParam(name);
    auto removed = op->getAttrOfType<DictionaryAttr>(removedAttrName);
    if (auto instead = removed ? removed.getAs<StringAttr>(name) : StringAttr(); instead && !decl)
      return op->emitError() << describe(op) << " no longer has the parameter '" << name
                             << "'; use " << instead.getValue();
    if (!decl) {
      std::string all = names.empty() ? "; it has none" : "; it has " + llvm::join(names, ", ");
      return op->emitError() << describe(op) << " has no parameter '" << name << "'"
                             << suggest(name, names, all);
    }
    if (decl.getDerived())
      return op->emitError("parameter '")
             << name << "' of " << describe(op) << " must not be bound: it is derived, "
             << tile::toString(decl) << "; bind those that it is computed from";
    ExprAttr value = parseValue(op->getContext(), decl.getKind(), text);
    // Only what a list names may be i8, which has no arithmetic.
    if (value && decl.getAllowed().empty() && decl.getKind() == ParamKind::Type &&
        value.getName() == "i8")
      value = {};
    if (!value)
      return op->emitError("parameter '") << name << "' of " << describe(op) << " must be "
                                          << describeValues(decl) << ", but got '" << text << "'";
    if (!values.try_emplace(name, value).second)
      return op->emitError("parameter '")
             << name << "' of " << describe(op) << " must be bound once, but got '" << assignment
             << "' after '" << name << "=" << tile::toString(values.lookup(name)) << "'";
  }
  return values;
}

namespace {

/// The state of one call of bindParameters.
class Binder {
public:
  Binder(const Signature &signature, const llvm::StringMap<ExprAttr> &given,
         function_ref<InFlightDiagnostic()> emitError)
      : signature(signature), given(given), emitError(emitError) {
    for (auto decl : signature.params.getAsRange<ParamDeclAttr>())
      bindings[decl.getName()] = {};
  }

  /// Leaves the parameter unbound if it, or a parameter that its default reads, has no value.
  /// Binds what defaults read first, with an explicit stack, since a chain of defaults may have any
  /// length. This terminates, since the verifier of the signature rejects cycles between defaults.
  LogicalResult bind(ParamDeclAttr decl) {
    SmallVector<ParamDeclAttr> stack{decl};
    while (!stack.empty()) {
      ParamDeclAttr top = stack.back();
      size_t size = stack.size();
      bool needsDefault = top.getDefaultValue() && !given.contains(top.getName());
      if (visited.insert(top.getName()).second && needsDefault)
        walkExpr(top.getDefaultValue(), [&](ExprAttr leaf) {
          ParamDeclAttr other = signature.findParam(leaf.getName());
          if (other && !visited.contains(other.getName()))
            stack.push_back(other);
        });
      std::reverse(stack.begin() + static_cast<ptrdiff_t>(size), stack.end());
      if (stack.size() > size)
        continue;
      stack.pop_back();
      if (failed(bindOne(top)))
        return failure();
    }
    return success();
  }

  /// What its default reads has been bound.
  LogicalResult bindOne(ParamDeclAttr decl) {
    ExprAttr &value = bindings[decl.getName()];
    if (value)
      return success();
    value = given.lookup(decl.getName());
    if (!value && decl.getDefaultValue()) {
      FailureOr<ExprAttr> computed = evaluateDefault(decl);
      if (failed(computed))
        return failure();
      value = *computed;
    }
    return value ? check(decl, value) : success();
  }

  /// Constraints that read arguments are checked at the launch.
  LogicalResult checkConstraints() {
    ExprEnvironment environment = getEnvironment(bindings, signature.op);
    for (auto constraint : signature.constraints.getAsRange<ExprAttr>()) {
      llvm::Expected<ExprAttr> holds = reduceExpr(constraint, environment);
      if (!holds)
        return emitError() << "constraint '" << tile::toString(constraint) << "' of "
                           << describe(signature.op)
                           << " cannot be checked: " << llvm::toString(holds.takeError());
      if (holds->isConstant() && !holds->getValue())
        return emitError() << "constraint '" << tile::toString(constraint) << "' of "
                           << describe(signature.op) << " must hold, but got "
                           << toString(getReadBy(constraint));
    }
    return success();
  }

  Bindings bindings;
  bool mayBeOpen = false; ///< values that a later pass chooses may be missing

private:
  Bindings getReadBy(ExprAttr expr) {
    Bindings read;
    walkExpr(expr, [&](ExprAttr leaf) {
      if (bindings.count(leaf.getName()))
        read[leaf.getName()] = bindings.lookup(leaf.getName());
    });
    return read;
  }

  /// Null if a parameter that the default reads has no value.
  FailureOr<ExprAttr> evaluateDefault(ParamDeclAttr decl) {
    if (mayBeOpen && isChosenBlock(decl.getDefaultValue()))
      return ExprAttr();
    llvm::Expected<ExprAttr> value =
        reduceExpr(decl.getDefaultValue(), getEnvironment(bindings, signature.op));
    if (!value)
      return emitError() << "the default of parameter '" << decl.getName() << "' of "
                         << describe(signature.op)
                         << " cannot be computed: " << llvm::toString(value.takeError());
    return value->isConstant() ? *value : ExprAttr();
  }

  LogicalResult check(ParamDeclAttr decl, ExprAttr value) {
    if (!hasKind(value, decl.getKind()))
      return emitError() << "parameter '" << decl.getName() << "' of " << describe(signature.op)
                         << " must be " << describeKind(decl.getKind()) << ", but got '"
                         << tile::toString(value) << "'";
    if (!decl.getAllowed().empty() && !llvm::is_contained(decl.getAllowed(), value))
      return emitError() << "parameter '" << decl.getName() << "' of " << describe(signature.op)
                         << " must be one of " << listAllowed(decl) << ", but got "
                         << tile::toString(value);
    return success();
  }

  const Signature &signature;
  const llvm::StringMap<ExprAttr> &given;
  llvm::StringSet<> visited; ///< parameters that are bound, or whose defaults are being followed
  function_ref<InFlightDiagnostic()> emitError;
};

} // namespace

FailureOr<Bindings> tilewright::bindParameters(const Signature &signature,
                                               const llvm::StringMap<ExprAttr> &given,
                                               StringRef remedy,
                                               function_ref<InFlightDiagnostic()> emitError) {
  Binder binder(signature, given, emitError);
  SmallVector<StringRef> missing;
  for (auto decl : signature.params.getAsRange<ParamDeclAttr>()) {
    if (failed(binder.bind(decl)))
      return failure();
    // If a parameter's default depends on a missing one, report only the missing one.
    if (!binder.bindings.lookup(decl.getName()) && !decl.getDefaultValue())
      missing.push_back(decl.getName());
  }
  if (!missing.empty())
    return emitError() << "every parameter of " << describe(signature.op)
                       << " needs a value, but there is none for " << llvm::join(missing, ", ")
                       << "; " << remedy;
  if (failed(binder.checkConstraints()))
    return failure();
  return std::move(binder.bindings);
}

FailureOr<Bindings> tilewright::bindKnown(const Signature &signature,
                                          const llvm::StringMap<ExprAttr> &given,
                                          function_ref<InFlightDiagnostic()> emitError) {
  Binder binder(signature, given, emitError);
  binder.mayBeOpen = true;
  for (auto decl : signature.params.getAsRange<ParamDeclAttr>())
    if (failed(binder.bind(decl)))
      return failure();
  binder.bindings.remove_if([](const auto &binding) { return !binding.second; });
  return std::move(binder.bindings);
}

Operation *tilewright::findEntry(ModuleOp module, StringRef name, bool explain) {
  llvm::DenseSet<StringAttr> launched;
  module.walk([&](LaunchOp launch) { launched.insert(launch.getKernelAttr().getAttr()); });
  module.walk([&](CallOp call) { launched.insert(call.getProgramAttr().getAttr()); });
  SmallVector<Operation *> candidates;
  SmallVector<StringRef> all;
  for (Operation &op : *module.getBody()) {
    if (!isa<KernelOp, ProgramOp>(op))
      continue;
    StringAttr symbol = SymbolTable::getSymbolName(&op);
    all.push_back(symbol);
    if (name.empty() && !launched.contains(symbol))
      candidates.push_back(&op);
  }
  if (Operation *named = name.empty() ? nullptr : findEntryByName(module, name))
    if (isa<KernelOp, ProgramOp>(named))
      candidates.push_back(named);
  if (candidates.size() == 1)
    return candidates.front();
  if (!explain)
    return nullptr;
  std::string list = "; the module has " + llvm::join(all, ", ");
  if (all.empty())
    emitError(module.getLoc(), "expected a module with a kernel or a program, but there is none");
  else if (name.empty())
    emitError(module.getLoc(), "one kernel or program must be chosen by name, but got none")
        << list;
  else
    emitError(module.getLoc(), "expected the name of a kernel or program, but got '")
        << name << "'" << suggest(name, all, list);
  return nullptr;
}
