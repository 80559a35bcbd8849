// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What programs consist of: verifiers of workspaces, launches and fills.

#include "dialect/Tile/TileExprCheck.h"
#include "dialect/Tile/TileVerify.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tilewright::tile;

LogicalResult WorkspaceOp::verify() {
  auto type = cast<ViewType>(getView().getType());
  if (static_cast<int64_t>(getExtents().size()) != type.getRank())
    return emitOpError() << "needs one extent for each dimension of its view: rank "
                         << type.getRank() << ", but got " << getExtents().size() << " extents";
  if (getFillAttr() &&
      failed(verifyNumber(*this, getFillAttr(), getElementType(type), "be filled with")))
    return failure();
  Signature signature(getOperation()->getParentOp());
  for (Attribute extent : getExtents()) {
    auto expr = dyn_cast<ExprAttr>(extent);
    if (!expr)
      return emitOpError("extents must be expressions, but got ") << extent;
    if (failed(
            checkExprKind(*this, expr, &signature, ExprScope::Launch, "an extent", ExprKind::Int)))
      return failure();
  }
  return success();
}

std::optional<WorkspaceOp::FillNumber> WorkspaceOp::getFillNumber() {
  Attribute fill = getFillAttr();
  if (!fill)
    return std::nullopt;
  if (auto integer = dyn_cast<IntegerAttr>(fill))
    return FillNumber{integer.getInt(), static_cast<double>(integer.getInt())};
  return FillNumber{std::nullopt, cast<FloatAttr>(fill).getValueAsDouble()};
}

LogicalResult LaunchOp::verify() {
  if (getWithNames().size() != getWithValues().size() ||
      !llvm::all_of(getWithNames(), [](Attribute a) { return isa<StringAttr>(a); }) ||
      !llvm::all_of(getWithValues(), [](Attribute a) { return isa<ExprAttr>(a); }))
    return emitOpError("has a malformed 'with' clause; use its custom assembly format");
  return getArgNames() ? verifyArgumentNames(*this, getArgs(), *getArgNames()) : success();
}

LogicalResult tilewright::tile::checkArgument(Operation *op, const Signature &callee, unsigned i,
                                              Value value) {
  Signature caller(op->getParentOp());
  StringRef kind = isa<ProgramOp>(callee.op) ? "program" : "kernel";
  Type expected = callee.getArgType(i), actual = value.getType();
  bool sameKind = isa<ViewType>(expected) == isa<ViewType>(actual) &&
                  getRank(expected) == getRank(actual) &&
                  mayBecomeEqual(getElementType(expected), getElementType(actual));
  auto reject = [&] {
    return op->emitOpError() << "argument '" << cast<StringAttr>(callee.argNames[i]).getValue()
                             << "' of " << kind << " @"
                             << SymbolTable::getSymbolName(callee.op).getValue();
  };
  if (!sameKind)
    return reject() << " is " << expected << ", but got " << actual;
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && caller.mayBeAbsent(argument.getArgNumber()) && !callee.mayBeAbsent(i))
    return reject() << " may not be absent, but an optional argument is passed; declare it "
                       "optional in the "
                    << kind << ", or with the same condition";
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (mayBeLinked(*this, getKernelAttr(), symbols))
    return success();
  Operation *symbol = symbols.lookupNearestSymbolFrom(*this, getKernelAttr());
  // A mapped kernel keeps its arguments, which were checked before.
  if (symbol && symbol->getName().getStringRef() == "tgpu.kernel")
    return success();
  auto kernel = dyn_cast_or_null<KernelOp>(symbol);
  if (!kernel)
    return emitOpError() << "must launch a kernel of this module, but got @" << getKernel()
                         << "; define it, or link the file that does";
  Signature callee(kernel), caller((*this)->getParentOp());
  if (getArgNames()) {
    if (failed(matchByName(*this, callee, getArgs(), *getArgNames())))
      return failure();
  } else if (getArgs().size() != callee.argNames.size()) {
    return emitOpError() << "must pass " << callee.argNames.size() << " arguments to kernel @"
                         << getKernel() << ", but got " << getArgs().size() << "; "
                         << listNames(callee.argNames);
  } else {
    for (auto [i, value] : llvm::enumerate(getArgs()))
      if (failed(checkArgument(*this, callee, i, value)))
        return failure();
  }
  for (auto [name, value] : llvm::zip(getWithNames(), getWithValues())) {
    StringRef paramName = cast<StringAttr>(name).getValue();
    ParamDeclAttr param = callee.findParam(paramName);
    // A bound kernel has no parameters left, and its launches no 'with' clause.
    if (!param)
      return emitOpError() << "binds '" << paramName << "', which is not a parameter of kernel @"
                           << getKernel() << "; " << listNames(callee.params);
    if (param.getDerived())
      return emitOpError()
             << "binds '" << paramName << "' of kernel @" << getKernel()
             << ", but a derived parameter (let) cannot be bound; bind those that it is "
                "computed from";
    auto kind = static_cast<ExprKind>(static_cast<uint32_t>(param.getKind()));
    std::string what = ("the value of '" + paramName + "'").str();
    if (failed(checkExprKind(*this, cast<ExprAttr>(value), &caller, ExprScope::Parameters, what,
                             kind)))
      return failure();
  }
  if (getConditionAttr())
    return checkExprKind(*this, getConditionAttr(), &caller, ExprScope::Launch,
                         "the condition of a launch", ExprKind::Flag);
  return success();
}

LogicalResult FillOp::verify() {
  auto type = cast<ViewType>(getView().getType());
  if (type.getRank() == 0)
    return emitOpError() << "must have a view with dimensions, but got " << type
                         << "; store its element in a kernel";
  if (failed(verifyNumber(*this, getValue(), getElementType(type))))
    return failure();
  Signature signature(getOperation()->getParentOp());
  if (!getConditionAttr())
    return success();
  return checkExprKind(*this, getConditionAttr(), &signature, ExprScope::Launch,
                       "the condition of a fill", ExprKind::Flag);
}
