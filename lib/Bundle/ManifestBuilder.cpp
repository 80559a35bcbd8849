// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contracts of kernels and programs in the format of the runtime.

#include "lib/Bundle/ManifestBuilder.h"

#include "dialect/Tile/TileExpr.h"
#include "dialect/Tile/TileExprEval.h"
#include "lib/Bundle/KernelSums.h"
#include "lib/Bundle/WrittenViews.h"
#include "lib/Support/ElementTypes.h"
#include "lib/Support/MakeError.h"
#include "passes/Conversion/ReachedCaptures.h"
#include "passes/Conversion/Timeline.h"
#include "passes/Tgpu/Analysis/Notes.h"
#include "passes/Tile/ProgramOfKernel.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::bundle;

namespace {

llvm::Expected<ElementType> getElementType(Type type) {
  if (std::optional<ElementType> element = toElementType(type))
    return *element;
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return makeError("the runtime has no element type " + text);
}

std::vector<runtime::Expr> toExprs(ArrayAttr attributes) {
  std::vector<runtime::Expr> exprs;
  for (auto attribute : attributes.getAsRange<tile::ExprAttr>())
    exprs.push_back(tile::toExpr(attribute));
  return exprs;
}

llvm::Expected<runtime::ElementRuleSpec>
toElementRule(numeric::ElementRule rule, tile::ExprAttr constraint,
              llvm::ArrayRef<runtime::ArgumentSpec> arguments) {
  ArrayRef<tile::ExprAttr> operands = constraint.getOperands();
  runtime::ElementRuleSpec spec;
  spec.rule = rule;
  runtime::Expr *const exprs[] = {nullptr, &spec.low, &spec.high, nullptr, &spec.size};
  uint32_t *const places[] = {&spec.argument, nullptr, nullptr, &spec.counts, nullptr};
  for (auto [operand, expr, place] : llvm::zip(operands, exprs, places)) {
    if (expr) {
      *expr = tile::toExpr(operand);
      continue;
    }
    llvm::StringRef name = operand.getName();
    const auto *found = llvm::find_if(
        arguments, [&](const runtime::ArgumentSpec &argument) { return argument.name == name; });
    if (found == arguments.end())
      return makeError("'" + tile::toString(constraint) + "' is of '" + name +
                       "', which is not an argument");
    *place = static_cast<uint32_t>(found - arguments.begin());
  }
  return spec;
}

/// Constraints over shapes and scalars become conditions, those over elements separate rules.
template <typename Spec> llvm::Error addConstraints(ArrayAttr constraints, Spec &spec) {
  for (auto constraint : constraints.getAsRange<tile::ExprAttr>()) {
    std::optional<numeric::ElementRule> rule;
    if (constraint.getKind() == tile::ExprKind::Call)
      rule = numeric::parseElementRule(std::string_view(constraint.getName()));
    if (rule) {
      llvm::Expected<runtime::ElementRuleSpec> element =
          toElementRule(*rule, constraint, spec.arguments);
      if (!element)
        return element.takeError();
      spec.elements.push_back(std::move(*element));
      continue;
    }
    spec.conditions.push_back(tile::toExpr(constraint));
  }
  return llvm::Error::success();
}

runtime::Params toParams(std::optional<DictionaryAttr> bindings) {
  using runtime::Expr;
  runtime::Params params;
  if (!bindings)
    return params;
  for (NamedAttribute binding : *bindings) {
    std::string name = binding.getName().str();
    Attribute value = binding.getValue();
    if (auto flag = dyn_cast<BoolAttr>(value))
      params.emplace_back(name, Expr::flag(flag.getValue()));
    else if (auto integer = dyn_cast<IntegerAttr>(value))
      params.emplace_back(name, Expr::integer(integer.getInt()));
    else if (auto text = dyn_cast<StringAttr>(value))
      params.emplace_back(name, Expr::symbol(Expr::Kind::Enum, text.str()));
    else if (auto type = dyn_cast<TypeAttr>(value))
      params.emplace_back(
          name, Expr::symbol(Expr::Kind::Type, tile::getTypeSpelling(type.getValue()).str()));
  }
  return params;
}

llvm::Expected<runtime::ArgumentSpec> makeArgument(llvm::StringRef name, Type type,
                                                   bool isOptional) {
  llvm::Expected<ElementType> element = getElementType(tile::getElementType(type));
  if (!element)
    return element.takeError();
  auto view = dyn_cast<tile::ViewType>(type);
  if (!view)
    return runtime::ArgumentSpec::scalar(name.str(), *element);
  std::vector<int64_t> extents;
  for (int64_t extent : view.getShape())
    extents.push_back(ShapedType::isDynamic(extent) ? -1 : extent);
  return runtime::ArgumentSpec::view(name.str(), *element, std::move(extents), isOptional);
}

runtime::Argument makeDefault(Attribute value, ElementType type) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return runtime::realScalar(type, number.getValueAsDouble());
  APInt number = cast<IntegerAttr>(value).getValue();
  // A flag is one bit, and not -1.
  return *runtime::integerScalar(type, number.getBitWidth() == 1
                                           ? static_cast<int64_t>(number.getZExtValue())
                                           : number.getSExtValue());
}

/// Declared arguments, then captures.
template <typename OpTy>
llvm::Expected<std::vector<runtime::ArgumentSpec>>
makeArguments(OpTy op, ArrayRef<tile::CaptureOp> captures) {
  std::vector<runtime::ArgumentSpec> arguments;
  for (auto [name, argument, isOptional] :
       llvm::zip(op.getArgNames(), op.getArgs(), op.getArgOptional())) {
    auto spec = makeArgument(cast<StringAttr>(name).getValue(), argument.getType(), isOptional);
    if (!spec)
      return spec.takeError();
    spec->isWritten = spec->isView && isWritten(argument);
    if (DictionaryAttr defaults = op.getArgDefaultsAttr())
      if (Attribute value = defaults.get(cast<StringAttr>(name)))
        spec->byDefault = makeDefault(value, spec->type);
    arguments.push_back(std::move(*spec));
  }
  for (tile::CaptureOp capture : captures) {
    auto spec = makeArgument(capture.getSymName(), capture.getType(), false);
    if (!spec)
      return spec.takeError();
    spec->isCapture = true;
    arguments.push_back(std::move(*spec));
  }
  return arguments;
}

/// Captures follow the arguments, as in the code.
std::optional<size_t> getArgumentNumber(tgpu::KernelOp kernel, mlir::Value view) {
  if (auto argument = dyn_cast<BlockArgument>(view))
    return argument.getArgNumber() < kernel.getNumArgs() ? std::optional(argument.getArgNumber())
                                                         : std::nullopt;
  auto captured = view.getDefiningOp<tile::CapturedOp>();
  auto captures = tgpu::getReachedCaptures(kernel);
  const auto *found = llvm::find_if(captures, [&](tile::CaptureOp capture) {
    return captured && capture.getSymName() == captured.getCapture();
  });
  if (found == captures.end())
    return std::nullopt;
  return kernel.getNumArgs() + (found - captures.begin());
}

/// In the order of the code's parameters.
llvm::Error addTensorMaps(tgpu::KernelOp kernel, runtime::KernelSpec &spec) {
  for (auto map : kernel.getBody().getOps<tgpu::TensorMapOp>()) {
    std::optional<size_t> argument = getArgumentNumber(kernel, map.getView());
    if (!argument)
      return makeError("a tensor map of kernel '" + kernel.getSymName() +
                       "' must be of an argument of the kernel or of a capture");
    auto type = cast<tgpu::TensorMapType>(map.getMap().getType());
    runtime::TensorMapSpec mapSpec;
    mapSpec.argument = static_cast<uint32_t>(*argument);
    mapSpec.box.assign(type.getBox().begin(), type.getBox().end());
    mapSpec.ragged = static_cast<int>(type.getRagged());
    mapSpec.isPaged = llvm::any_of(map.getMap().getUsers(), [](Operation *user) {
      auto load = dyn_cast<tgpu::TmaLoadOp>(user);
      return load && load.getPages();
    });
    mapSpec.swizzle = type.getSwizzle();
    mapSpec.isStored = llvm::any_of(map.getMap().getUsers(), [](Operation *user) {
      return isa<tgpu::TmaStoreOp, tgpu::TmaReduceAddOp>(user);
    });
    spec.tensorMaps.push_back(std::move(mapSpec));
  }
  return llvm::Error::success();
}

/// The grid of the code, which has one dimension: the product of the extents.
runtime::Expr makeGrid(ArrayAttr grid) {
  std::vector<runtime::Expr> extents = toExprs(grid);
  runtime::Expr product = extents.front();
  for (const runtime::Expr &extent : llvm::drop_begin(extents))
    product = runtime::Expr::call(expr::Function::Mul, {product, extent});
  return product;
}

} // namespace

llvm::Expected<runtime::KernelSpec> bundle::makeKernelSpec(tgpu::KernelOp kernel,
                                                           const tgpu::AlignedViews &aligned) {
  runtime::KernelSpec spec;
  spec.name = spec.entry = kernel.getSymName().str();
  spec.params = toParams(kernel.getBindings());
  // The same captures as the code's.
  auto arguments = makeArguments(kernel, tgpu::getReachedCaptures(kernel));
  if (!arguments)
    return arguments.takeError();
  spec.arguments = std::move(*arguments);
  spec.grid = {makeGrid(kernel.getGrid())};
  spec.block = {static_cast<uint32_t>(32 * kernel.getWarps()), 1, 1};
  spec.sharedBytes = static_cast<uint32_t>(kernel.getSharedBytes().value_or(0));
  spec.sums = getSumTypes(kernel);
  spec.addsInAnyOrder = addsInAnyOrder(kernel);
  spec.awaitsLaunch = tgpu::awaitsLaunchAttr.isOn(kernel);
  spec.allowsLaunch = tgpu::allowsLaunchAttr.isOn(kernel);
  if (llvm::Error error = addTensorMaps(kernel, spec))
    return error;
  if (llvm::Error error = addConstraints(kernel.getSignature().constraints, spec))
    return error;
  if (std::optional<tgpu::Timeline> timeline = tgpu::getTimeline(kernel)) {
    spec.timeline.tag = timeline->tag;
    spec.timeline.words = static_cast<uint32_t>(timeline->words);
    spec.timeline.roles = timeline->roles;
    for (const tgpu::TimelineEvent &event : timeline->events)
      spec.timeline.events.push_back(
          {event.kind, event.name, event.line, event.pending, event.commits});
  }
  if (auto reason = tgpu::noRolesAttr.get(kernel))
    spec.remarks.push_back(
        ("has no roles on " + kernel.getTarget() + ": " + reason.getValue()).str());
  if (!aligned.empty())
    spec.entry = tgpu::getAlignedEntry(spec.name);
  for (auto [argument, alignment] : aligned)
    spec.requirements.push_back({argument, alignment, /*isUnitInner=*/true});
  return spec;
}

llvm::Expected<runtime::ProgramSpec>
bundle::makeProgramSpec(tile::ProgramOp program, llvm::ArrayRef<runtime::KernelSpec> kernels,
                        llvm::ArrayRef<size_t> numbers, const runtime::Arch &target) {
  runtime::ProgramSpec spec;
  runtime::FormSpec form;
  form.target = target;
  spec.name = getEntryName(program).str();
  spec.params = toParams(program.getBindings());
  auto captures = program->getParentOfType<ModuleOp>().getOps<tile::CaptureOp>();
  auto arguments = makeArguments(program, llvm::to_vector(captures));
  if (!arguments)
    return arguments.takeError();
  spec.arguments = std::move(*arguments);
  if (llvm::Error error = addConstraints(program.getConstraints(), spec))
    return error;

  llvm::DenseMap<Value, std::string> names;
  for (auto [name, argument] : llvm::zip(program.getArgNames(), program.getArgs()))
    names[argument] = cast<StringAttr>(name).str();
  for (auto op : program.getOps<tile::WorkspaceOp>()) {
    runtime::WorkspaceSpec workspace;
    workspace.name = "workspace" + std::to_string(form.workspaces.size());
    llvm::Expected<ElementType> element = getElementType(tile::getElementType(op.getType()));
    if (!element)
      return element.takeError();
    workspace.type = *element;
    workspace.extents = toExprs(op.getExtents());
    if (std::optional<tile::WorkspaceOp::FillNumber> fill = op.getFillNumber()) {
      // Integers of more than 53 bits become other doubles, but none of those that have a pattern.
      workspace.fill = runtime::fillPattern(*element, fill->number);
      if (!workspace.fill)
        return makeError(
            "a workspace of program '" + spec.name +
            "' must be filled with a value whose 32 bits can be repeated, but got " +
            (fill->integer ? std::to_string(*fill->integer) : std::to_string(fill->number)) +
            " as " + std::string(elementTypeName(*element)) +
            "; leave it without 'fill', and add a tile.fill of it");
    }
    names[op.getResult()] = workspace.name;
    form.workspaces.push_back(std::move(workspace));
  }
  for (auto op : program.getOps<tile::LaunchOp>()) {
    runtime::LaunchSpec launch;
    const auto *kernel = llvm::find_if(
        kernels, [&](const runtime::KernelSpec &kernel) { return kernel.name == op.getKernel(); });
    if (kernel == kernels.end())
      return makeError("program '" + spec.name + "' launches '" + op.getKernel() +
                       "', which is not a kernel in the module");
    // All its variants, in order of preference.
    for (size_t i = kernel - kernels.begin(); i < kernels.size(); ++i)
      if (kernels[i].name == kernel->name)
        launch.kernels.push_back(numbers[i]);
    for (Value argument : op.getArgs())
      launch.arguments.push_back(names.lookup(argument));
    for (const runtime::ArgumentSpec &argument : kernel->arguments)
      if (argument.isCapture)
        launch.arguments.push_back(argument.name);
    for (auto [name, argument] : llvm::zip(launch.arguments, kernel->arguments))
      for (runtime::ArgumentSpec &own : spec.arguments)
        own.isWritten |= argument.isWritten && own.name == name;
    if (std::optional<tile::ExprAttr> condition = op.getCondition())
      launch.condition = tile::toExpr(*condition);
    form.launches.push_back(std::move(launch));
  }
  spec.forms.push_back(std::move(form));
  return spec;
}
