// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel, its roles and its shared memory: assembly formats and verifiers.

#include "dialect/Tgpu/TgpuParsing.h"
#include "dialect/Tgpu/TgpuVerify.h"
#include "dialect/Tile/TileExprCheck.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

//===----------------------------------------------------------------------===//
// KernelOp:
//   @name target "sm_80" warps 4 require(...) (arguments) grid(...) attributes {...} { ... }
//===----------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  StringAttr name, target;
  int64_t warps;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> argNames, gridNames, grid;
  SmallVector<bool> optional;
  ArrayAttr constraints;
  NamedAttrList defaults;
  auto addName = [&](const OpAsmParser::Argument &argument, SmallVectorImpl<Attribute> &names) {
    names.push_back(builder.getStringAttr(argument.ssaName.name.drop_front()));
  };
  auto parseArgument = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    if (parser.parseArgument(argument) || parser.parseColon())
      return failure();
    optional.push_back(succeeded(parser.parseOptionalKeyword("optional")));
    addName(argument, argNames);
    Attribute value;
    if (parser.parseType(argument.type) || tile::parseArgDefault(parser, argument.type, value))
      return failure();
    if (value)
      defaults.set(cast<StringAttr>(argNames.back()), value);
    return success();
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
      tile::parseConstraints(parser, constraints) ||
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
  if (!constraints.empty())
    result.addAttribute("constraints", constraints);
  if (!defaults.empty())
    result.addAttribute("arg_defaults", defaults.getDictionary(builder.getContext()));
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  if (!body->empty())
    return success();
  Block &block = body->emplaceBlock();
  for (const OpAsmParser::Argument &argument : arguments)
    block.addArgument(argument.type, result.location);
  return success();
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << " target " << getTargetAttr() << " warps " << getWarps();
  tile::printConstraints(printer, getSignature().constraints);
  printer.increaseIndent();
  printer.printNewline();
  printer << '(';
  for (auto [i, argument] : llvm::enumerate(getArgs())) {
    printer << (i ? ", " : "") << argument << (getArgOptional()[i] ? ": optional " : ": ")
            << argument.getType();
    if (DictionaryAttr defaults = getArgDefaultsAttr())
      tile::printArgDefault(printer, defaults.get(cast<StringAttr>(getArgNames()[i])));
  }
  printer << ')';
  tile::printGrid(printer, *this);
  printer.decreaseIndent();
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {SymbolTable::getSymbolAttrName(), "target", "warps", "arg_names",
                            "arg_optional", "grid_names", "grid", "constraints", "arg_defaults"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/false);
}

void KernelOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  tile::nameBlockArguments(*this, region, setName);
}

/// SSA names are the public names of arguments and grid ids, so they must be words.
static bool isWord(Attribute attribute) {
  auto name = dyn_cast<StringAttr>(attribute);
  return name && !name.empty() && !llvm::isDigit(name.getValue().front()) &&
         llvm::all_of(name.getValue(), [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// A grid extent reads extents of views and integer scalars among the arguments.
static LogicalResult verifyGridExtent(KernelOp kernel, tile::ExprAttr extent) {
  auto isArgument = [&](tile::ExprAttr leaf) {
    for (auto [argument, name] : llvm::zip(kernel.getArgs(), kernel.getArgNames())) {
      if (cast<StringAttr>(name).getValue() != leaf.getName())
        continue;
      if (leaf.getKind() == tile::ExprKind::Name)
        return isa<IntegerType>(argument.getType());
      auto view = dyn_cast<tile::ViewType>(argument.getType());
      return view && leaf.getValue() >= 0 && leaf.getValue() < view.getRank();
    }
    return false;
  };
  bool valid = true;
  tile::walkExpr(extent, [&](tile::ExprAttr leaf) { valid = valid && isArgument(leaf); });
  if (valid)
    return success();
  std::string text;
  llvm::raw_string_ostream stream(text);
  tile::printExprText(stream, extent);
  return kernel.emitOpError() << "a grid extent may read only extents of views and integer scalars "
                                 "among the arguments, but got "
                              << text;
}

LogicalResult KernelOp::verify() {
  if (getArgOptional().size() != getArgNames().size() ||
      getGrid().size() != getGridNames().size() || !llvm::all_of(getArgNames(), isWord) ||
      !llvm::all_of(getGridNames(), isWord) ||
      !llvm::all_of(getGrid(), [](Attribute a) { return isa<tile::ExprAttr>(a); }) ||
      (getConstraintsAttr() &&
       !llvm::all_of(getConstraintsAttr(), [](Attribute a) { return isa<tile::ExprAttr>(a); })) ||
      getBody().empty() || getBody().getNumArguments() != getArgNames().size() + getGrid().size())
    return emitOpError("has malformed attributes; use its custom assembly format");
  if (!Target::find(getTarget()))
    return emitOpError() << "target must be " << Target::getNames() << ", but got " << getTarget();
  if (getWarps() < 1 || getWarps() > Target::warpsOfBlock)
    return emitOpError() << "a block must have 1 to " << Target::warpsOfBlock << " warps, but got "
                         << static_cast<int64_t>(getWarps());
  for (auto [i, argument] : llvm::enumerate(getArgs()))
    if (!isa<tile::ViewType>(argument.getType()) && !tile::isElementType(argument.getType()))
      return emitOpError() << "argument " << getArgNames()[i]
                           << " must be a view or a scalar, but got " << argument.getType();
    else if (getArgOptional()[i] && !isa<tile::ViewType>(argument.getType()))
      return emitOpError() << "argument " << getArgNames()[i]
                           << " must be a view to be optional, but got " << argument.getType();
  llvm::SmallPtrSet<Attribute, 16> names;
  for (ArrayAttr list : {getArgNames(), getGridNames()})
    for (Attribute name : list)
      if (!names.insert(name).second)
        return emitOpError() << "names of arguments and grid ids must differ, but got " << name
                             << " twice";
  if (getGrid().empty())
    return emitOpError("needs at least one grid extent; write grid(%id = 1) for a single block");
  for (BlockArgument id : getGridIds())
    if (!id.getType().isSignlessInteger(32))
      return emitOpError() << "grid ids must be i32, but got " << id.getType();
  for (auto extent : getGrid().getAsRange<tile::ExprAttr>())
    if (failed(verifyGridExtent(*this, extent)))
      return failure();
  return tile::verifyDefaults(getSignature());
}

tile::Signature KernelOp::getSignature() {
  ArrayAttr constraints = getConstraintsAttr();
  return tile::Signature(*this, constraints ? constraints : ArrayAttr::get(getContext(), {}),
                         getArgNames(), getArgOptional(), getArgDefaultsAttr(), &getBody().front());
}

// Constraints read shapes of captures, which are symbols of the module.
LogicalResult KernelOp::verifySymbolUses(SymbolTableCollection &) {
  return tile::verifyConstraints(getSignature());
}

LogicalResult KernelOp::verifyRegions() {
  int64_t barriers = 0;
  getBody().walk([&](Operation *op) { barriers += getNumHardwareBarriers(op); });
  auto roleOf = [](Operation *op) {
    Region *region = op->getParentRegion();
    while (!isa<RolesOp, KernelOp>(region->getParentOp()))
      region = region->getParentOp()->getParentRegion();
    return region;
  };
  for (auto named : getBody().getOps<NamedBarrierOp>()) {
    if (!named.getPerWarpgroup() || named->use_empty())
      continue;
    Region *role = roleOf(*named->user_begin());
    for (Operation *user : named->getUsers())
      if (roleOf(user) != role)
        return user->emitOpError("must be in the role of the other uses of its barrier per "
                                 "warpgroup; give each role a barrier of its own");
  }
  constexpr int64_t most = Target::namedBarriers - 1; // number 0 is the barrier of the whole block
  if (barriers > most)
    return emitOpError() << "must have at most the " << most
                         << " named barriers of a block, but got " << barriers;
  return verifyResources(*this);
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
    return emitOpError("has malformed attributes; use its custom assembly format");
  int64_t warps = 0, registers = 0, groupRegisters = 0;
  llvm::SmallPtrSet<Attribute, 4> seen;
  for (auto [name, roleWarps, roleRegisters] :
       llvm::zip_equal(getNames(), getWarps(), getRegisters())) {
    if (!seen.insert(name).second)
      return emitOpError() << "names of roles must differ, but got " << name << " twice";
    if (roleWarps < 1 || roleWarps > 32)
      return emitOpError() << "role " << name << " needs 1 to 32 warps, but got " << roleWarps;
    if (roleRegisters &&
        (roleRegisters < Target::leastRoleRegisters || roleRegisters > Target::mostRoleRegisters ||
         roleRegisters % Target::roleRegisterUnit != 0))
      return emitOpError() << "registers of role " << name << " must be a multiple of "
                           << Target::roleRegisterUnit << " from " << Target::leastRoleRegisters
                           << " to " << Target::mostRoleRegisters << ", but got " << roleRegisters;
    // Warps 4 g to 4 g + 3 are a warpgroup, whichever roles they belong to.
    if (warps % Target::warpsOfGroup != 0 && roleRegisters != groupRegisters)
      return emitOpError() << "roles that share a warpgroup must have the same registers, but got "
                           << roleRegisters << " for role " << name << " and " << groupRegisters
                           << " for the one before it";
    groupRegisters = roleRegisters;
    warps += roleWarps;
    registers += roleWarps * 32 * roleRegisters;
  }
  int64_t blockWarps = cast<KernelOp>((*this)->getParentOp()).getWarps();
  if (warps != blockWarps)
    return emitOpError() << "the warps of the roles must add up to the " << blockWarps
                         << " warps of the kernel, but got " << warps;
  if (registers && warps % Target::warpsOfGroup != 0 && groupRegisters)
    return emitOpError(
        "registers require whole warpgroups, but the last one has fewer than 4 warps");
  if (registers && failed(verifyFeature(*this, Feature::RoleRegisters)))
    return failure();
  // A role that asks for more than the others gave back waits for ever.
  int64_t atEntry = Target::getRegistersAtEntry(warps), available = atEntry * Target::lanes * warps;
  if (registers > available)
    return emitOpError() << "roles must use at most the " << available
                         << " registers with which a block of " << warps << " warps is launched, "
                         << atEntry << " per thread, but got " << registers;
  return success();
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

static LogicalResult verifyOffset(Operation *op, std::optional<uint64_t> planned, SharedType type,
                                  int64_t stages) {
  int64_t alignment = getAlignment(type), offset = planned.value_or(0);
  if (offset < 0 || offset % alignment != 0)
    return op->emitOpError() << "offset of a buffer of " << type << " must be a multiple of "
                             << alignment << " bytes, but got " << offset;
  int64_t pitch = llvm::alignTo(getBytes(type), alignment);
  int64_t end = (stages - 1) * pitch + getBytes(type);
  const int64_t limit = Target::getMostShared();
  if (offset <= limit - end || !planned)
    return success();
  return op->emitOpError() << "must end in the " << limit
                           << " bytes of shared memory, but got offset " << offset << " and " << end
                           << " bytes";
}

LogicalResult AllocOp::verify() {
  return verifyOffset(*this, getOffset(), cast<SharedType>(getBuffer().getType()), 1);
}

LogicalResult AllocRingOp::verify() {
  auto ring = cast<RingType>(getRing().getType());
  return verifyOffset(*this, getOffset(), ring.getSlot(), ring.getStages());
}

/// The buffer through which a tile's number goes: as small as a slot of a ring can be.
static LogicalResult verifyTileBuffer(Operation *op, Value buffer) {
  auto type = cast<SharedType>(buffer.getType());
  if (type.getElementType().isInteger(32) && type.getShape() == ArrayRef<int64_t>(4))
    return success();
  return op->emitOpError() << "requires a buffer of 4xi32 for the tile's number, but got " << type;
}

LogicalResult TakeTileOp::verify() {
  if (!(*this)->getParentOfType<RolesOp>())
    return emitOpError() << "must be inside a role of a tgpu.roles, but got it in '"
                         << (*this)->getParentOp()->getName() << "'";
  return getBuffer() ? verifyTileBuffer(*this, getBuffer()) : success();
}

LogicalResult GetTileOp::verify() { return verifyTileBuffer(*this, getBuffer()); }

static LogicalResult verifyWords(Operation *op, Value buffer, int64_t count) {
  auto type = cast<SharedType>(buffer.getType());
  if (type.getElementType().isInteger(32) && type.getShape().size() == 1 &&
      type.getShape()[0] >= count && count > 0)
    return success();
  return op->emitOpError() << "requires a count of at least 1 and a buffer of rank 1 of i32 with "
                              "at least as many elements, but got "
                           << count << " and " << type;
}

LogicalResult PublishOp::verify() {
  if (!(*this)->getParentOfType<RolesOp>())
    return emitOpError() << "must be inside a role of a tgpu.roles, but got it in '"
                         << (*this)->getParentOp()->getName() << "'";
  return verifyWords(*this, getBuffer(), static_cast<int64_t>(getValues().size()));
}

LogicalResult ReceiveOp::verify() {
  return verifyWords(*this, getBuffer(), static_cast<int64_t>(getValues().size()));
}

LogicalResult GridExtentOp::verify() {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (!kernel)
    return emitOpError() << "must be inside a tgpu.kernel, but got it in '"
                         << (*this)->getParentOp()->getName() << "'";
  int64_t dim = getDim(), rank = kernel.getGrid().size();
  if (dim >= 0 && dim < rank)
    return success();
  return emitOpError() << "extent must be one of the " << rank
                       << " of the grid, from 0 on, but got " << dim;
}

LogicalResult ShareOp::verify() {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (!kernel)
    return emitOpError() << "must be inside a tgpu.kernel, but got it in '"
                         << (*this)->getParentOp()->getName() << "'";
  if (kernel.getGrid().size() == 1)
    return success();
  return emitOpError() << "needs a grid of one dimension, but got " << kernel.getGrid().size();
}

LogicalResult SlotOp::verify() {
  SharedType slot = cast<RingType>(getRing().getType()).getSlot();
  auto buffer = cast<SharedType>(getBuffer().getType());
  if (getBytes(buffer) <= getBytes(slot) && getAlignment(buffer) <= getAlignment(slot))
    return success();
  return emitOpError() << "result must fit into a slot of " << getRing().getType() << " ("
                       << getBytes(slot) << " bytes, aligned to " << getAlignment(slot)
                       << "), but got " << buffer << " (" << getBytes(buffer)
                       << " bytes, aligned to " << getAlignment(buffer) << ")";
}
