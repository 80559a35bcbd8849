// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs kernels and programs: workspaces, conditions, launches.

#include "lib/Interpreter/CpuDevice.h"

#include "base/Numeric/Isa.h"
#include "lib/Interpreter/Arguments.h"
#include "lib/Interpreter/EntryRun.h"
#include "lib/Interpreter/Launch.h"
#include "lib/Interpreter/Lowering.h"
#include "lib/Interpreter/Watch.h"
#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace mlir;

namespace tilewright {

using namespace interpreter;

namespace {

struct Free {
  void operator()(char *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

/// One run of a program.
class ProgramRun {
public:
  ProgramRun(tile::ProgramOp program, BoundArguments arguments, const EntryOptions &options,
             KernelRunner &runner)
      : program(program), bound(std::move(arguments)), options(options), runner(runner) {}

  LogicalResult compile();
  LogicalResult run();

private:
  LogicalResult allocate(tile::WorkspaceOp op);
  LogicalResult launchKernel(tile::LaunchOp op);

  tile::ProgramOp program;
  BoundArguments bound;
  EntryOptions options;
  KernelRunner &runner;
  llvm::DenseMap<mlir::Value, BoundArgument> workspaces;
  std::vector<Memory> memory;
};

tile::KernelOp kernelOf(tile::LaunchOp op) {
  return SymbolTable::lookupNearestSymbolFrom<tile::KernelOp>(op, op.getKernelAttr());
}

LogicalResult requireBound(Operation *op) {
  if (!tile::Signature(op).params.empty())
    return op->emitOpError("has parameters that are not bound; run tile-specialize first");
  return success();
}

LogicalResult ProgramRun::compile() {
  for (auto op : program.getOps<tile::LaunchOp>()) {
    tile::KernelOp kernel = kernelOf(op);
    if (!kernel)
      return op.emitOpError() << "refers to " << op.getKernelAttr() << ", which is not a kernel";
    if (failed(requireBound(kernel)))
      return failure();
    if (failed(runner.compile(kernel)))
      return failure();
  }
  return success();
}

LogicalResult ProgramRun::allocate(tile::WorkspaceOp op) {
  BoundArgument workspace;
  workspace.isView = true;
  workspace.type = *elementTypeOf(op.getType());
  View &view = workspace.view;
  view.type = options.f64 && isFloat(workspace.type) ? ElementType::F64 : workspace.type;
  tile::ExprEnvironment environment = environmentOf(program, bound.arguments, options.smCount);
  for (auto [d, attribute] : llvm::enumerate(op.getExtents())) {
    auto expression = cast<tile::ExprAttr>(attribute);
    llvm::Expected<int64_t> extent = tile::evaluateInt(expression, environment);
    if (!extent)
      return op.emitOpError() << "has an extent '" << tile::toString(expression)
                              << "' that cannot be computed: "
                              << llvm::toString(extent.takeError());
    if (*extent < 0 || *extent > std::numeric_limits<int32_t>::max())
      return op.emitOpError() << "requires extents from 0 to 2147483647, but got " << *extent
                              << " along dimension " << d;
    view.extents.push_back(*extent);
  }
  if (failed(checkExtents(op, "the workspace", cast<tile::ViewType>(op.getType()), workspace)))
    return failure();

  // Row-major; an extent of zero makes all strides harmless.
  size_t width = byteWidth(view.type), elements = 1, bytes = 0;
  bool isTooLarge = false;
  view.strides.resize(view.rank());
  for (unsigned d = view.rank(); d-- > 0;) {
    view.strides[d] = static_cast<int64_t>(elements);
    isTooLarge |= __builtin_mul_overflow(elements, static_cast<size_t>(view.extents[d]), &elements);
  }
  if (isTooLarge || __builtin_mul_overflow(elements, width, &bytes) || bytes > SIZE_MAX / 2)
    return op.emitOpError("must have at most 2^63 - 1 bytes, but got extents (")
           << llvm::ArrayRef<int64_t>(view.extents) << ")";
  constexpr size_t alignment = 64;
  size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  memory.emplace_back(
      static_cast<char *>(std::aligned_alloc(alignment, std::max(rounded, alignment))));
  view.data = memory.back().get();
  if (!view.data)
    return op.emitOpError() << "needs " << bytes
                            << " bytes, which cannot be allocated; give smaller arrays";

  if (std::optional<tile::WorkspaceOp::FillNumber> fill = op.getFillNumber()) {
    Storage storage = fill->integer ? storageOf(view.type) : Storage::F64;
    Scalar scalar = fill->integer ? Scalar::fromInt(*fill->integer, storage)
                                  : Scalar::fromFloat(fill->number, storage);
    if (elements > 0)
      numeric::convertToMemory(storage, &scalar, view.type, view.data, 1, 1);
    for (size_t done = width; done < bytes; done += std::min(done, bytes - done))
      std::memcpy(view.data + done, view.data, std::min(done, bytes - done));
  } else {
    // All ones is a NaN in every float type. Integers become large and negative.
    std::memset(view.data, isFloat(view.type) ? 0xff : 0xa5, bytes);
  }
  workspaces[op.getResult()] = std::move(workspace);
  return success();
}

LogicalResult ProgramRun::launchKernel(tile::LaunchOp op) {
  if (std::optional<tile::ExprAttr> condition = op.getCondition()) {
    llvm::Expected<bool> holds =
        tile::evaluateFlag(*condition, environmentOf(program, bound.arguments, options.smCount));
    if (!holds)
      return op.emitOpError() << "has a condition '" << tile::toString(*condition)
                              << "' that cannot be computed: " << llvm::toString(holds.takeError());
    if (!*holds)
      return success();
  }
  tile::KernelOp kernel = kernelOf(op);
  tile::Signature signature(kernel);
  llvm::SmallVector<BoundArgument> arguments;
  for (auto [i, value] : llvm::enumerate(op.getArgs())) {
    auto argument = dyn_cast<BlockArgument>(value);
    arguments.push_back(argument ? bound.arguments[argument.getArgNumber()] : workspaces[value]);
    std::string name =
        ("argument '" + cast<StringAttr>(signature.argNames[i]).getValue() + "'").str();
    if (auto view = dyn_cast<tile::ViewType>(signature.getArgType(i)))
      if (failed(checkExtents(op, name, view, arguments.back())))
        return failure();
  }
  return runner.launch(kernel, arguments, bound.captures);
}

LogicalResult ProgramRun::run() {
  if (failed(checkConstraints(program, bound.arguments, bound.captures, options.smCount)))
    return failure();
  for (auto op : program.getOps<tile::WorkspaceOp>())
    if (failed(allocate(op)))
      return failure();
  for (auto op : program.getOps<tile::LaunchOp>())
    if (failed(launchKernel(op)))
      return failure();
  return success();
}

/// Executes kernels as steps, on the threads of this machine.
class CpuRunner : public KernelRunner {
public:
  explicit CpuRunner(const RunOptions &options) : options(options) {}

  LogicalResult compile(tile::KernelOp kernel) override {
    std::unique_ptr<CompiledKernel> &compiled = kernels[kernel];
    if (!compiled)
      compiled = compileKernel(kernel, options.f64);
    return success(compiled != nullptr);
  }
  LogicalResult launch(tile::KernelOp kernel, ArrayRef<BoundArgument> arguments,
                       const llvm::StringMap<BoundArgument> &captures) override {
    return interpreter::launch(*kernels[kernel], arguments, captures, options.threads,
                               options.watches, options.checksInstances);
  }

private:
  RunOptions options;
  llvm::DenseMap<Operation *, std::unique_ptr<CompiledKernel>> kernels;
};

} // namespace

LogicalResult interpreter::runEntry(Operation *entry, const llvm::StringMap<Argument> &arguments,
                                    const EntryOptions &options, KernelRunner &runner) {
  auto kernel = dyn_cast<tile::KernelOp>(entry);
  auto program = dyn_cast<tile::ProgramOp>(entry);
  if (!kernel && !program)
    return entry->emitOpError("is neither a kernel nor a program");
  if (failed(requireBound(entry)))
    return failure();
  if (Status isa = numeric::checkWantedIsa(); !isa)
    return entry->emitError() << isa.message();

  if (kernel && failed(runner.compile(kernel)))
    return failure();
  FailureOr<BoundArguments> bound = bindArguments(entry, arguments, options.f64);
  if (failed(bound))
    return failure();
  if (kernel)
    return runner.launch(kernel, bound->arguments, bound->captures);
  ProgramRun run(program, std::move(*bound), options, runner);
  if (failed(run.compile()))
    return failure();
  return run.run();
}

LogicalResult interpreter::checkEntry(Operation *entry, const llvm::StringMap<Argument> &arguments,
                                      std::optional<int64_t> smCount) {
  FailureOr<BoundArguments> bound = bindArguments(entry, arguments, /*f64=*/false);
  if (failed(bound))
    return failure();
  return checkConstraints(entry, bound->arguments, bound->captures, smCount);
}

LogicalResult runOnCpu(Operation *entry, const llvm::StringMap<Argument> &arguments,
                       const RunOptions &options) {
  if (options.watches)
    options.watches->start();
  CpuRunner runner(options);
  return runEntry(entry, arguments, {options.f64, std::nullopt}, runner);
}

} // namespace tilewright
