// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that are parts of other programs.

#include "dialect/Tile/TileExprCheck.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace tilewright::tile;

/// Whether the type has the parameter as an extent or as its elements.
static bool readsParam(Type type, StringRef name) {
  auto param = dyn_cast<ParamType>(getElementType(type));
  return (param && param.getName() == name) || llvm::any_of(getDims(type), [&](const Dim &dim) {
           return dim.isSymbol() && dim.symbol.getValue() == name;
         });
}

std::string tilewright::tile::listNames(ArrayAttr names) {
  std::string list;
  for (Attribute each : names) {
    auto param = dyn_cast<ParamDeclAttr>(each);
    list += list.empty() ? "it has " : ", ";
    list += param ? param.getName() : cast<StringAttr>(each).getValue();
  }
  return list.empty() ? "it has none" : list;
}

FailureOr<SmallVector<Value>> tilewright::tile::matchByName(Operation *op, const Signature &callee,
                                                            OperandRange args, ArrayAttr names) {
  Signature caller(op->getParentOp());
  bool isProgram = isa<ProgramOp>(callee.op);
  std::string described = (llvm::Twine(isProgram ? "program @" : "kernel @") +
                           SymbolTable::getSymbolName(callee.op).getValue())
                              .str();
  llvm::StringMap<Value> given;
  for (auto [name, value] : llvm::zip(names.getAsRange<StringAttr>(), args)) {
    if (callee.findArg(name.getValue()) < 0)
      return op->emitOpError() << "passes '" << name.getValue() << "', which is not an argument of "
                               << described << "; " << listNames(callee.argNames);
    given[name.getValue()] = value;
  }
  SmallVector<Value> values;
  for (auto [i, name] : llvm::enumerate(callee.argNames.getAsRange<StringAttr>())) {
    Value value = given.lookup(name.getValue());
    int own = caller.findArg(name.getValue());
    if (!value && own >= 0)
      value = caller.body->getArgument(own);
    bool mayMiss = isProgram && callee.mayBeAbsent(i) && isa<ViewType>(callee.getArgType(i));
    if (!value && !mayMiss)
      return op->emitOpError() << "argument '" << name.getValue() << "' of " << described
                               << " has no value; pass it as '" << name.getValue()
                               << " = %value', or declare an argument of that name";
    if (value && failed(checkArgument(op, callee, i, value)))
      return failure();
    values.push_back(value);
  }
  return values;
}

LogicalResult tilewright::tile::verifyArgumentNames(Operation *op, OperandRange args,
                                                    ArrayAttr names) {
  if (names.size() != args.size() ||
      !llvm::all_of(names, [](Attribute each) { return isa<StringAttr>(each); }))
    return op->emitOpError("has malformed arguments or a malformed 'with' clause; use its custom "
                           "assembly format");
  llvm::StringMap<bool> seen;
  for (auto name : names.getAsRange<StringAttr>())
    if (!seen.try_emplace(name.getValue(), true).second)
      return op->emitOpError() << "must pass '" << name.getValue()
                               << "' once, but got it twice; leave one out";
  return success();
}

FailureOr<SmallVector<Value>> CallOp::matchArguments(ProgramOp program) {
  return matchByName(*this, Signature(program), getArgs(), getArgNames());
}

LogicalResult CallOp::verify() {
  if (getWithNames().size() != getWithValues().size() ||
      !llvm::all_of(getWithNames(), [](Attribute each) { return isa<StringAttr>(each); }) ||
      !llvm::all_of(getWithValues(), [](Attribute each) { return isa<ExprAttr>(each); }))
    return emitOpError("has malformed arguments or a malformed 'with' clause; use its custom "
                       "assembly format");
  return verifyArgumentNames(*this, getArgs(), getArgNames());
}

static LogicalResult checkWith(CallOp call, const Signature &callee, const Signature &caller) {
  for (auto [attr, value] : llvm::zip(call.getWithNames().getAsRange<StringAttr>(),
                                      call.getWithValues().getAsRange<ExprAttr>())) {
    StringRef name = attr.getValue();
    ParamDeclAttr param = callee.findParam(name);
    auto reject = [&] {
      return call.emitOpError() << "binds '" << name << "' of program @" << call.getProgram();
    };
    if (!param)
      return reject() << ", which is not a parameter of it; " << listNames(callee.params);
    if (param.getDerived())
      return reject() << ", but a derived parameter (let) cannot be bound; bind those that it is "
                         "computed from";
    auto reads = [&](Type type) { return readsParam(type, name); };
    if (llvm::any_of(callee.body->getArgumentTypes(), reads) ||
        llvm::any_of(callee.body->getOps<WorkspaceOp>(),
                     [&](WorkspaceOp op) { return reads(op.getType()); }))
      return reject() << ", which a type of its arguments or workspaces reads; declare a parameter "
                         "of that name instead";
    auto kind = static_cast<ExprKind>(static_cast<uint32_t>(param.getKind()));
    std::string what = ("the value of '" + name + "'").str();
    if (failed(checkExprKind(call, value, &caller, ExprScope::Parameters, what, kind)))
      return failure();
  }
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (mayBeLinked(*this, getProgramAttr(), symbols))
    return success();
  auto program = symbols.lookupNearestSymbolFrom<ProgramOp>(*this, getProgramAttr());
  if (!program)
    return emitOpError() << "must call a program of this module, but got @" << getProgram()
                         << "; define it, or link the file that does";
  if (failed(matchArguments(program)) ||
      failed(checkWith(*this, Signature(program), Signature((*this)->getParentOp()))))
    return failure();
  auto returned = program.getBody().front().empty()
                      ? ReturnOp()
                      : dyn_cast<ReturnOp>(program.getBody().front().back());
  SmallVector<Type> types;
  if (returned)
    llvm::append_range(types, returned.getViews().getTypes());
  if (types != SmallVector<Type>(getResultTypes()))
    return emitOpError() << "must have the results that program @" << getProgram() << " returns, "
                         << types << ", but got " << SmallVector<Type>(getResultTypes());
  return success();
}
