// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel, its roles and its shared memory: assembly formats and verifiers.

#include "dialect/Tgpu/TgpuParsing.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

//===----------------------------------------------------------------------===//
// KernelOp: @name target "sm_80" warps 4 (arguments) grid(...) attributes {...} { ... }
//===----------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  StringAttr name, target;
  int64_t warps;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> argNames, gridNames, grid;
  SmallVector<bool> optional;
  auto addName = [&](const OpAsmParser::Argument &argument, SmallVectorImpl<Attribute> &names) {
    names.push_back(builder.getStringAttr(argument.ssaName.name.drop_front()));
  };
  auto parseArgument = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    if (parser.parseArgument(argument) || parser.parseColon())
      return failure();
    optional.push_back(succeeded(parser.parseOptionalKeyword("optional")));
    addName(argument, argNames);
    return parser.parseType(argument.type);
  };
  auto parseId = [&]() -> ParseResult {
    OpAsmParser::Argument &id = arguments.emplace_back();
    tile::ExprAttr extent;
    if (parser.parseArgument(id) || parser.parseEqual() || tile::parseExprText(parser, extent))
      return failure();
    id.type = builder.getI32Type();
    grid.push_back(extent);
    addName(id, gridNames);
    return success();
  };
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(), result.attributes) ||
      parser.parseKeyword("target") || parser.parseAttribute(target) ||
      parser.parseKeyword("warps") || parser.parseInteger(warps) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseArgument) ||
      parser.parseKeyword("grid") ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseId) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  result.addAttribute("target", target);
  result.addAttribute("warps", builder.getI64IntegerAttr(warps));
  result.addAttribute("arg_names", builder.getArrayAttr(argNames));
  result.addAttribute("arg_optional", builder.getDenseBoolArrayAttr(optional));
  result.addAttribute("grid_names", builder.getArrayAttr(gridNames));
  result.addAttribute("grid", builder.getArrayAttr(grid));
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  if (body->empty())
    for (Block &block = body->emplaceBlock(); const OpAsmParser::Argument &argument : arguments)
      block.addArgument(argument.type, result.location);
  return success();
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << " target " << getTargetAttr() << " warps " << getWarps();
  printer.increaseIndent();
  printer.printNewline();
  printer << '(';
  for (auto [i, argument] : llvm::enumerate(getArgs()))
    printer << (i ? ", " : "") << argument << (getArgOptional()[i] ? ": optional " : ": ")
            << argument.getType();
  printer << ')';
  printer.printNewline();
  printer << "grid(";
  for (auto [i, id] : llvm::enumerate(getGridIds())) {
    printer << (i ? ", " : "") << id << " = ";
    tile::printExprText(printer.getStream(), cast<tile::ExprAttr>(getGrid()[i]));
  }
  printer << ')';
  printer.decreaseIndent();
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {SymbolTable::getSymbolAttrName(), "target", "warps", "arg_names",
                            "arg_optional", "grid_names", "grid"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/false);
}

void KernelOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  if (region.empty() || region.front().getNumArguments() != getNumArgs() + getGridNames().size())
    return;
  for (auto [argument, name] : llvm::zip(getArgs(), getArgNames()))
    setName(argument, cast<StringAttr>(name).getValue());
  for (auto [id, name] : llvm::zip(getGridIds(), getGridNames()))
    setName(id, cast<StringAttr>(name).getValue());
}

LogicalResult KernelOp::verify() {
  auto isString = [](Attribute a) { return isa<StringAttr>(a); };
  if (getArgOptional().size() != getArgNames().size() || getGrid().size() != getGridNames().size() ||
      !llvm::all_of(getArgNames(), isString) || !llvm::all_of(getGridNames(), isString) ||
      !llvm::all_of(getGrid(), [](Attribute a) { return isa<tile::ExprAttr>(a); }) ||
      getBody().empty() ||
      getBody().getNumArguments() != getArgNames().size() + getGrid().size())
    return emitOpError("has malformed attributes; write it in its own syntax");
  if (getTarget() != "sm_80" && getTarget() != "sm_90a")
    return emitOpError() << "target must be sm_80 or sm_90a, but got " << getTarget();
  if (getWarps() < 1 || getWarps() > 32)
    return emitOpError() << "a block has 1 to 32 warps, but got " << getWarps();
  for (auto [i, argument] : llvm::enumerate(getArgs()))
    if (!isa<tile::ViewType>(argument.getType()) && !tile::isElementType(argument.getType()))
      return emitOpError() << "argument " << getArgNames()[i]
                           << " must be a view or a scalar, but got " << argument.getType();
  return success();
}

//===----------------------------------------------------------------------===//
// RolesOp: role "name" warps 4 registers 24 { ... } ...
//===----------------------------------------------------------------------===//

ParseResult RolesOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  SmallVector<Attribute> names;
  SmallVector<int64_t> warps, registers;
  while (succeeded(parser.parseOptionalKeyword("role"))) {
    StringAttr name;
    int64_t count = 0, perThread = 0;
    if (parser.parseAttribute(name) || parser.parseKeyword("warps") || parser.parseInteger(count))
      return failure();
    if (succeeded(parser.parseOptionalKeyword("registers")) && parser.parseInteger(perThread))
      return failure();
    names.push_back(name);
    warps.push_back(count);
    registers.push_back(perThread);
    Region *body = result.addRegion();
    if (parser.parseRegion(*body))
      return failure();
    if (body->empty())
      body->emplaceBlock();
  }
  result.addAttribute("names", builder.getArrayAttr(names));
  result.addAttribute("warps", builder.getDenseI64ArrayAttr(warps));
  result.addAttribute("registers", builder.getDenseI64ArrayAttr(registers));
  return parser.parseOptionalAttrDict(result.attributes);
}

void RolesOp::print(OpAsmPrinter &printer) {
  printer.increaseIndent();
  for (auto [i, body] : llvm::enumerate(getBodies())) {
    printer.printNewline();
    printer << "role " << getNames()[i] << " warps " << getWarps()[i];
    if (getRegisters()[i])
      printer << " registers " << getRegisters()[i];
    printer << ' ';
    printer.printRegion(body, /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/false);
  }
  printer.decreaseIndent();
  printer.printOptionalAttrDict((*this)->getAttrs(), {"names", "warps", "registers"});
}

LogicalResult RolesOp::verify() {
  size_t count = getBodies().size();
  if (getNames().size() != count || getWarps().size() != count || getRegisters().size() != count ||
      !llvm::all_of(getNames(), [](Attribute a) { return isa<StringAttr>(a); }))
    return emitOpError("has malformed attributes; write it in its own syntax");
  int64_t warps = 0, registers = 0;
  llvm::SmallPtrSet<Attribute, 4> seen;
  for (auto [name, roleWarps, roleRegisters] :
       llvm::zip_equal(getNames(), getWarps(), getRegisters())) {
    if (!seen.insert(name).second)
      return emitOpError() << "has two roles of the name " << name;
    if (roleWarps < 1)
      return emitOpError() << "role " << name << " needs at least one warp, but got " << roleWarps;
    if (roleRegisters && (roleRegisters < 24 || roleRegisters > 240 || roleRegisters % 8 != 0))
      return emitOpError() << "registers of role " << name
                           << " must be a multiple of 8 from 24 to 240, but got " << roleRegisters;
    if (roleRegisters && roleWarps % 4 != 0)
      return emitOpError() << "registers are set for warpgroups, so role " << name
                           << " must have a multiple of 4 warps, but got " << roleWarps;
    warps += roleWarps;
    registers += roleWarps * 32 * roleRegisters;
  }
  int64_t blockWarps = cast<KernelOp>((*this)->getParentOp()).getWarps();
  if (warps != blockWarps)
    return emitOpError() << "roles must share out the " << blockWarps
                         << " warps of the kernel, but got " << warps;
  if (registers > 65536)
    return emitOpError() << "roles use " << registers << " registers; a multiprocessor has 65536";
  return success();
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

static LogicalResult verifyOffset(Operation *op, std::optional<uint64_t> offset, SharedType type) {
  int64_t alignment = getAlignment(type);
  if (!offset || *offset % alignment == 0)
    return success();
  return op->emitOpError() << "offset of a buffer of " << type << " must be a multiple of "
                           << alignment << " bytes, but got " << *offset;
}

LogicalResult AllocOp::verify() {
  return verifyOffset(*this, getOffset(), cast<SharedType>(getBuffer().getType()));
}

LogicalResult AllocRingOp::verify() {
  return verifyOffset(*this, getOffset(), cast<RingType>(getRing().getType()).getSlot());
}

LogicalResult SlotOp::verify() {
  if (cast<RingType>(getRing().getType()).getSlot() == getBuffer().getType())
    return success();
  return emitOpError() << "result must be a slot of " << getRing().getType() << ", but got "
                       << getBuffer().getType();
}
