// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels, programs and their declarations: assembly formats and verifiers.

#include "dialect/Tile/Suggest.h"
#include "dialect/Tile/TileExprCheck.h"
#include "dialect/Tile/TileExprEval.h"
#include "dialect/Tile/TileParsing.h"
#include "dialect/Tile/TileVerify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace tilewright::tile;

//===----------------------------------------------------------------------===//
// Assembly format shared by kernels and programs
//===----------------------------------------------------------------------===//

namespace {
struct ParsedSignature {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> argNames;
  SmallVector<Clause> clauses;
};
} // namespace

/// SSA names are the public names of arguments and grid ids, so they must be words.
static bool isWord(StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

static ParseResult takeName(OpAsmParser &parser, const OpAsmParser::Argument &argument,
                            StringRef what, SmallVectorImpl<Attribute> &names) {
  StringRef name = argument.ssaName.name.drop_front();
  if (!isWord(name))
    return parser.emitError(argument.ssaName.location)
           << what << " must have a name of letters, digits and '_', but got "
           << argument.ssaName.name;
  names.push_back(parser.getBuilder().getStringAttr(name));
  return success();
}

/// same_dims(x, y, 0, ...), after its name: dim(x, 0) == dim(y, 0), ..., each a separate
/// constraint, so that an error names the violated one.
static ParseResult parseSameDims(OpAsmParser &parser, SmallVectorImpl<Attribute> &list) {
  StringRef first, second;
  if (parser.parseLParen() || parser.parseKeyword(&first) || parser.parseComma() ||
      parser.parseKeyword(&second) || parser.parseComma())
    return failure();
  MLIRContext *ctx = parser.getContext();
  auto parsePosition = [&]() -> ParseResult {
    int64_t position;
    if (parser.parseInteger(position))
      return failure();
    ExprAttr extents[] = {ExprAttr::get(ctx, ExprKind::Dim, position, first, {}),
                          ExprAttr::get(ctx, ExprKind::Dim, position, second, {})};
    list.push_back(ExprAttr::get(ctx, ExprKind::Call, 0, "==", extents));
    return success();
  };
  return failure(parser.parseCommaSeparatedList(parsePosition) || parser.parseRParen());
}

ParseResult tilewright::tile::parseConstraints(OpAsmParser &parser, ArrayAttr &constraints,
                                               SmallVectorImpl<SMLoc> *locs) {
  SmallVector<Attribute> list;
  SmallVector<SMLoc> places;
  auto parseConstraint = [&]() -> ParseResult {
    places.resize(list.size(), places.empty() ? SMLoc() : places.back());
    places.push_back(parser.getCurrentLocation());
    if (succeeded(parser.parseOptionalKeyword("same_dims")))
      return parseSameDims(parser, list);
    ExprAttr expr;
    if (parseExprText(parser, expr))
      return failure();
    list.push_back(expr);
    return success();
  };
  if (succeeded(parser.parseOptionalKeyword("require")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseConstraint))
    return failure();
  constraints = parser.getBuilder().getArrayAttr(list);
  if (locs) {
    places.resize(list.size(), places.empty() ? SMLoc() : places.back());
    locs->append(places);
  }
  return success();
}

/// keyword(element, ...) on a line of its own; nothing for an empty list.
static void printClause(OpAsmPrinter &printer, StringRef keyword, ArrayAttr list,
                        function_ref<void(Attribute)> printElement) {
  if (list.empty())
    return;
  printer.increaseIndent();
  printer.printNewline();
  printer << keyword << '(';
  llvm::interleaveComma(list, printer, printElement);
  printer << ')';
  printer.decreaseIndent();
}

void tilewright::tile::printConstraints(OpAsmPrinter &printer, ArrayAttr constraints) {
  printClause(printer, "require", constraints,
              [&](Attribute expr) { printExprText(printer.getStream(), cast<ExprAttr>(expr)); });
}

ParseResult tilewright::tile::parseCaptureConstraints(OpAsmParser &parser, ArrayAttr &constraints) {
  if (parseConstraints(parser, constraints))
    return failure();
  if (constraints.empty())
    constraints = {};
  return success();
}

void tilewright::tile::printCaptureConstraints(OpAsmPrinter &printer, Operation *,
                                               ArrayAttr constraints) {
  if (!constraints || constraints.empty())
    return;
  printer << " require(";
  llvm::interleaveComma(constraints, printer, [&](Attribute expr) {
    printExprText(printer.getStream(), cast<ExprAttr>(expr));
  });
  printer << ')';
}

/// @name params(...) require(...) (arguments)
static ParseResult parseSignature(OpAsmParser &parser, OperationState &result,
                                  ParsedSignature &signature) {
  Builder &builder = parser.getBuilder();
  StringAttr name;
  SmallVector<Attribute> params;
  ArrayAttr constraints;
  SmallVector<bool> optional;
  NamedAttrList defaults, conditions;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(), result.attributes))
    return failure();
  auto parseParam = [&]() -> ParseResult {
    SmallVector<ParamDeclAttr> decls;
    if (parseParamDecls(parser, decls))
      return failure();
    params.append(decls.begin(), decls.end());
    return success();
  };
  if (succeeded(parser.parseOptionalKeyword("params")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseParam))
    return failure();
  SmallVector<SMLoc> places;
  if (parseConstraints(parser, constraints, &places))
    return failure();
  for (auto [place, expr] : llvm::zip_equal(places, constraints.getAsRange<ExprAttr>()))
    signature.clauses.push_back({place, expr, ExprScope::Constraint});
  auto parseArgument = [&]() -> ParseResult {
    // Arguments of one type may share it, and what follows.
    SmallVector<OpAsmParser::Argument> group;
    do {
      if (parser.parseArgument(group.emplace_back()))
        return failure();
    } while (succeeded(parser.parseOptionalComma()));
    if (parser.parseColon())
      return failure();
    bool isOptional = succeeded(parser.parseOptionalKeyword("optional"));
    Type type;
    Attribute value;
    ExprAttr condition;
    if (parser.parseType(type) || parseArgDefault(parser, type, value) ||
        parseWhenClause(parser, condition))
      return failure();
    for (OpAsmParser::Argument &argument : group) {
      argument.type = type;
      optional.push_back(isOptional);
      signature.arguments.push_back(argument);
      if (takeName(parser, argument, "an argument", signature.argNames))
        return failure();
      auto argName = cast<StringAttr>(signature.argNames.back());
      if (value)
        defaults.set(argName, value);
      if (condition)
        conditions.set(argName, condition);
    }
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseArgument))
    return failure();
  result.addAttribute("params", builder.getArrayAttr(params));
  result.addAttribute("constraints", constraints);
  result.addAttribute("arg_names", builder.getArrayAttr(signature.argNames));
  result.addAttribute("arg_optional", builder.getDenseBoolArrayAttr(optional));
  if (!defaults.empty())
    result.addAttribute("arg_defaults", defaults.getDictionary(builder.getContext()));
  if (!conditions.empty())
    result.addAttribute("arg_conditions", conditions.getDictionary(builder.getContext()));
  return success();
}

static ParseResult parseBody(OpAsmParser &parser, OperationState &result,
                             ArrayRef<OpAsmParser::Argument> arguments) {
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  Region *body = result.addRegion();
  SmallVector<StringRef> params;
  for (auto param : cast<ArrayAttr>(result.attributes.get("params")).getAsRange<ParamDeclAttr>())
    params.push_back(param.getName());
  auto name = cast<StringAttr>(result.attributes.get(SymbolTable::getSymbolAttrName()));
  ParsedParams parsed(name.getValue(), params);
  if (parser.parseRegion(*body, arguments))
    return failure();
  if (body->empty()) {
    Block &block = body->emplaceBlock();
    for (const OpAsmParser::Argument &argument : arguments)
      block.addArgument(argument.type, result.location);
  }
  return success();
}

static void printSignature(OpAsmPrinter &printer, const Signature &signature) {
  printer << ' ';
  printer.printSymbolName(SymbolTable::getSymbolName(signature.op).getValue());
  printClause(printer, "params", signature.params, [&](Attribute param) {
    printParamDecl(printer.getStream(), cast<ParamDeclAttr>(param));
  });
  printConstraints(printer, signature.constraints);
  printer.increaseIndent();
  printer.printNewline();
  printer << '(';
  for (unsigned i = 0, e = signature.argNames.size(); i < e; ++i) {
    printer << (i ? ", " : "");
    printer.printOperand(signature.body->getArgument(i));
    printer << (signature.argOptional[i] ? ": optional " : ": ") << signature.getArgType(i);
    auto name = cast<StringAttr>(signature.argNames[i]);
    printArgDefault(printer, signature.getArgDefault(name));
    if (ExprAttr condition = signature.getArgCondition(name)) {
      printer << " when (";
      printExprText(printer.getStream(), condition);
      printer << ')';
    }
  }
  printer << ')';
  printer.decreaseIndent();
}

static void printBody(OpAsmPrinter &printer, Operation *op) {
  SmallVector<StringRef> elided = {SymbolTable::getSymbolAttrName(),
                                   "params",
                                   "constraints",
                                   "arg_names",
                                   "arg_optional",
                                   "arg_defaults",
                                   "arg_conditions",
                                   "grid_names",
                                   "grid"};
  printer.printOptionalAttrDictWithKeyword(op->getAttrs(), elided);
  printer << ' ';
  printer.printRegion(op->getRegion(0), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/false);
}

/// The attributes have as many elements as the block has arguments: only the generic form can
/// violate that.
static LogicalResult verifyShape(Operation *op, ArrayAttr params, ArrayAttr constraints,
                                 ArrayAttr argNames, ArrayRef<bool> optional,
                                 DictionaryAttr defaults, DictionaryAttr conditions,
                                 ArrayAttr gridNames, ArrayAttr grid) {
  if (SymbolTable::getSymbolName(op).empty())
    return op->emitOpError("needs a name, but got an empty one");
  auto all = [](ArrayAttr list, auto predicate) { return llvm::all_of(list, predicate); };
  auto isName = [](Attribute a) {
    auto name = dyn_cast<StringAttr>(a);
    return name && isWord(name.getValue());
  };
  bool wellFormed =
      all(params, [](Attribute a) { return isa<ParamDeclAttr>(a); }) &&
      all(constraints, [](Attribute a) { return isa<ExprAttr>(a); }) && all(argNames, isName) &&
      (!grid ||
       (all(gridNames, isName) && all(grid, [](Attribute a) { return isa<ExprAttr>(a); }) &&
        grid.size() == gridNames.size())) &&
      optional.size() == argNames.size() &&
      (!defaults || llvm::all_of(defaults,
                                 [&](NamedAttribute value) {
                                   return llvm::is_contained(argNames, value.getName());
                                 })) &&
      (!conditions || llvm::all_of(conditions, [&](NamedAttribute condition) {
        return llvm::is_contained(argNames, condition.getName()) &&
               isa<ExprAttr>(condition.getValue());
      }));
  if (!wellFormed)
    return op->emitOpError("has malformed attributes; use its custom assembly format");
  size_t expected = argNames.size() + (grid ? grid.size() : 0);
  Region &body = op->getRegion(0);
  if (body.empty() || body.front().getNumArguments() != expected)
    return op->emitOpError() << "needs a body with " << expected << " block arguments, but got "
                             << (body.empty() ? 0 : body.front().getNumArguments());
  return success();
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  ParsedSignature signature;
  SmallVector<Attribute> gridNames, grid;
  if (parseSignature(parser, result, signature) || parser.parseKeyword("grid"))
    return failure();
  auto parseId = [&]() -> ParseResult {
    OpAsmParser::Argument &id = signature.arguments.emplace_back();
    Clause &clause = signature.clauses.emplace_back();
    ExprAttr &extent = clause.expr;
    clause.scope = ExprScope::Launch;
    if (parser.parseArgument(id) || parser.parseEqual() || parser.getCurrentLocation(&clause.loc) ||
        parseExprText(parser, extent))
      return failure();
    id.type = parser.getBuilder().getI32Type();
    grid.push_back(extent);
    return takeName(parser, id, "a grid id", gridNames);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseId))
    return failure();
  result.addAttribute("grid_names", parser.getBuilder().getArrayAttr(gridNames));
  result.addAttribute("grid", parser.getBuilder().getArrayAttr(grid));
  return failure(checkClauses(parser, result, signature.arguments, signature.clauses) ||
                 parseBody(parser, result, signature.arguments));
}

void KernelOp::print(OpAsmPrinter &printer) {
  printSignature(printer, Signature(*this));
  printer.increaseIndent();
  printGrid(printer, *this);
  printer.decreaseIndent();
  printBody(printer, *this);
}

void KernelOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameBlockArguments(*this, region, setName);
}

LogicalResult KernelOp::verify() {
  if (failed(verifyShape(*this, getParams(), getConstraints(), getArgNames(), getArgOptional(),
                         getArgDefaultsAttr(), getArgConditionsAttr(), getGridNames(), getGrid())))
    return failure();
  if (getGrid().empty())
    return emitOpError("needs at least one grid extent; write grid(%id = 1) for a single instance");
  for (BlockArgument id : getGridIds())
    if (!id.getType().isSignlessInteger(32))
      return emitOpError() << "grid ids must be i32, but got " << id.getType();
  return verifyNamesAreDeclared(Signature(*this));
}

// Here rather than in verify(): types inside the body are checked too, and those ops must have been
// verified.
LogicalResult KernelOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Signature signature(*this);
  if (failed(verifySignature(signature, getGridNames().getValue())) ||
      failed(verifyCallsOfScalars(*this, symbols)))
    return failure();
  for (auto extent : getGrid().getAsRange<ExprAttr>())
    if (failed(checkExprKind(*this, extent, &signature, ExprScope::Launch, "a grid extent",
                             ExprKind::Int)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  ParsedSignature signature;
  return failure(parseSignature(parser, result, signature) ||
                 checkClauses(parser, result, signature.arguments, signature.clauses) ||
                 parseBody(parser, result, signature.arguments));
}

void ProgramOp::print(OpAsmPrinter &printer) {
  printSignature(printer, Signature(*this));
  printBody(printer, *this);
}

void ProgramOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  if (region.empty() || region.front().getNumArguments() != getNumArgs())
    return;
  for (auto [argument, name] : llvm::zip(getArgs(), getArgNames()))
    setName(argument, cast<StringAttr>(name).getValue());
}

LogicalResult ProgramOp::verify() {
  if (failed(verifyShape(*this, getParams(), getConstraints(), getArgNames(), getArgOptional(),
                         getArgDefaultsAttr(), getArgConditionsAttr(), nullptr, nullptr)))
    return failure();
  for (Operation &op : getBody().front()) {
    if (!isa<WorkspaceOp, LaunchOp, FillOp, CallOp, ReturnOp>(op))
      return op.emitError() << "a program may contain only tile.workspace, tile.launch, tile.fill "
                               "and tile.call, but got "
                            << op.getName() << "; compute in a kernel";
    if (isa<ReturnOp>(op) && &op != &getBody().front().back())
      return op.emitOpError("must be the last operation of a program; move it to the end");
  }
  return verifyNamesAreDeclared(Signature(*this));
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &) {
  return verifySignature(Signature(*this), {});
}

//===----------------------------------------------------------------------===//
// ParamOp, CaptureOp, LinkOp
//===----------------------------------------------------------------------===//

LogicalResult ParamOp::verify() {
  ExprKind wanted = getResult().getType().isInteger(1) ? ExprKind::Flag : ExprKind::Int;
  if (!(*this)->getParentOfType<KernelOp>() && !(*this)->getParentOfType<func::FuncOp>())
    return emitOpError("is allowed in kernels and functions only; a program binds parameters in "
                       "the 'with' clauses of its launches");
  return checkParameterExpr(*this, getExpr(), "its expression", wanted);
}

LogicalResult CaptureOp::verify() {
  if (getSymName().empty())
    return emitOpError("needs a name, but got \"\"");
  if (!isa<ViewType>(getType()) && !isElementType(getType()))
    return emitOpError() << "must be a view or a scalar, but got " << getType();
  for (Attribute constraint : getConstraints().value_or(ArrayAttr::get(getContext(), {}))) {
    auto expr = dyn_cast<ExprAttr>(constraint);
    if (!expr)
      return emitOpError("has a malformed 'require' clause; use its custom assembly format");
    bool readsOwn = false;
    walkExpr(expr, [&](ExprAttr node) {
      bool reads = node.getKind() == ExprKind::Name || node.getKind() == ExprKind::Dim;
      readsOwn |= reads && node.getName() == getSymName();
    });
    if (!readsOwn)
      return emitOpError() << "must constrain '" << getSymName() << "', but got '"
                           << tile::toString(expr)
                           << "', which does not read it; state it in the kernel, or with the "
                              "capture that it reads";
  }
  return success();
}

std::optional<std::string> tilewright::tile::findLinkFault(StringRef file) {
  std::string reason;
  // Roots and separators of all systems, so that a file is rejected on all systems or on none.
  namespace path = llvm::sys::path;
  constexpr path::Style style = path::Style::windows;
  if (file.empty())
    reason = "must name a file, but got an empty path; write one relative to this file";
  else if (file.contains('\0'))
    reason = "must name a file, but got a path with a NUL character; leave it out";
  else if (path::has_root_path(file, style))
    reason = ("must name a file relative to this one, but got the absolute path \"" + file +
              "\"; move the file to the folder of this one, or below")
                 .str();
  else if (llvm::is_contained(llvm::make_range(path::begin(file, style), path::end(file)), ".."))
    reason = ("must name a file in the folder of this one or below, but got \"" + file +
              "\"; move the file there, or name one of the compiler's library, such as "
              "\"lib/attention.mlir\"")
                 .str();
  else if (path::extension(file, style) != ".mlir")
    reason =
        ("must name a file whose name ends with .mlir, but got \"" + file + "\"; rename the file")
            .str();
  if (reason.empty())
    return std::nullopt;
  return reason;
}

LogicalResult LinkOp::verify() {
  if (getFiles().empty())
    return emitOpError("must name a file, but got none");
  for (auto file : getFiles().getAsRange<StringAttr>())
    if (std::optional<std::string> fault = findLinkFault(file))
      return emitOpError() << *fault;
  return success();
}
