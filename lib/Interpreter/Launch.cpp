// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The grid: its extents, its threads, and a frame for each thread.

#include "lib/Interpreter/Launch.h"

#include "lib/Interpreter/ElementConstraints.h"
#include "lib/Interpreter/InstanceCheck.h"
#include "lib/Interpreter/StatedConditions.h"
#include "lib/Interpreter/Watch.h"

#include "base/Expr/Broken.h"
#include "base/Numeric/ThreadPool.h"
#include "dialect/Tile/TileExpr.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SetVector.h"
#include <algorithm>
#include <cstring>
#include <limits>

using namespace mlir;

namespace tilewright::interpreter {

static constexpr unsigned maxThreads = 1024;

/// The value of a scalar argument.
static tile::ExprAttr valueOf(MLIRContext *context, const BoundArgument &argument) {
  if (isFloat(argument.type))
    return tile::ExprAttr::getFloat(context, argument.number);
  int64_t value = argument.scalar.toInt(storageOf(argument.type));
  return argument.type == ElementType::I1 ? tile::ExprAttr::getFlag(context, value)
                                          : tile::ExprAttr::getInt(context, value);
}

tile::ExprEnvironment environmentOf(Operation *op, ArrayRef<BoundArgument> arguments,
                                    std::optional<int64_t> smCount) {
  tile::ExprEnvironment environment;
  tile::Signature signature(op);
  MLIRContext *context = op->getContext();
  environment.name = [=](StringRef name) -> tile::ExprAttr {
    int position = signature.findArg(name);
    if (position < 0 || arguments[position].isView)
      return nullptr;
    return valueOf(context, arguments[position]);
  };
  environment.dim = [=](StringRef name, int64_t dim) -> std::optional<int64_t> {
    int position = signature.findArg(name);
    if (position < 0 || !arguments[position].isView)
      return std::nullopt;
    return arguments[position].view.extents[dim];
  };
  environment.smCount = smCount.value_or(numeric::hardwareThreads());
  return environment;
}

/// For `dim(x, 0) == 0`, where x is optional: a kernel has no use for it.
static std::string suggestOmission(tile::ExprAttr constraint, const tile::Signature &signature) {
  bool isEquation = constraint.getKind() == tile::ExprKind::Call &&
                    tile::getFunction(constraint) == expr::Function::Equal;
  if (!isEquation || constraint.getOperands()[0].getKind() != tile::ExprKind::Dim ||
      constraint.getOperands()[1] != tile::ExprAttr::getInt(constraint.getContext(), 0))
    return "";
  StringRef name = constraint.getOperands()[0].getName();
  int position = signature.findArg(name);
  bool isOptional = position >= 0 && signature.argOptional[position];
  return isOptional ? "; leave '" + name.str() + "' out" : "";
}

LogicalResult checkConstraints(Operation *op, ArrayRef<BoundArgument> arguments,
                               const llvm::StringMap<BoundArgument> &captures,
                               std::optional<int64_t> smCount) {
  tile::Signature signature(op);
  tile::ExprEnvironment environment = environmentOf(op, arguments, smCount);
  environment.name = [&captures, op,
                      declared = environment.name](StringRef name) -> tile::ExprAttr {
    if (tile::ExprAttr value = declared(name))
      return value;
    auto capture = captures.find(name);
    if (capture == captures.end() || capture->second.isView)
      return nullptr;
    return valueOf(op->getContext(), capture->second);
  };
  environment.dim = [&captures, declared = environment.dim](StringRef name,
                                                            int64_t dim) -> std::optional<int64_t> {
    if (std::optional<int64_t> extent = declared(name, dim))
      return extent;
    auto capture = captures.find(name);
    if (capture == captures.end() || !capture->second.isView)
      return std::nullopt;
    return capture->second.view.extents[dim];
  };
  for (auto constraint : signature.constraints.getAsRange<tile::ExprAttr>()) {
    if (readsElements(constraint)) {
      if (failed(checkElements(op, constraint, arguments, environment)))
        return failure();
      continue;
    }
    bool readsAbsent = false;
    llvm::SetVector<tile::ExprAttr> read;
    tile::walkExpr(constraint, [&](tile::ExprAttr node) {
      if (node.isConstant() || node.getKind() == tile::ExprKind::Call)
        return;
      int position = signature.findArg(node.getName());
      readsAbsent |= position >= 0 && arguments[position].isAbsent;
      read.insert(node);
    });
    if (readsAbsent)
      continue;
    llvm::Expected<bool> holds = tile::evaluateFlag(constraint, environment);
    if (!holds)
      return op->emitOpError() << "has a constraint '" << tile::toString(constraint)
                               << "' that cannot be computed: "
                               << llvm::toString(holds.takeError());
    if (*holds)
      continue;
    InFlightDiagnostic error = op->emitOpError()
                               << "requires '" << tile::toString(constraint) << "', but got ";
    llvm::interleaveComma(read, error, [&](tile::ExprAttr leaf) {
      error << tile::toString(leaf) << " = "
            << tile::toString(llvm::cantFail(tile::reduceExpr(leaf, environment)));
    });
    std::string remedy = suggestOmission(constraint, signature);
    if (remedy.empty())
      remedy = expr::suggestValues(tile::toExpr(constraint), [&](const expr::Expr &leaf) {
        for (tile::ExprAttr each : read)
          if (tile::toExpr(each) == leaf)
            return tile::toString(llvm::cantFail(tile::reduceExpr(each, environment)));
        return std::string();
      });
    std::string params = StatedConditions::find(op).suggestParams(op, constraint, environment);
    error << remedy;
    if (!params.empty())
      error << (remedy.empty() ? "; give " : ", or give ") << params;
    return error;
  }
  return success();
}

FailureOr<Grid> gridOf(const CompiledKernel &kernel, ArrayRef<BoundArgument> arguments,
                       std::optional<int64_t> smCount) {
  tile::KernelOp op = kernel.op;
  tile::ExprEnvironment environment = environmentOf(op, arguments, smCount);
  Grid grid;
  for (auto [name, attribute] : llvm::zip(op.getGridNames(), op.getGrid())) {
    auto expression = cast<tile::ExprAttr>(attribute);
    llvm::Expected<int64_t> extent = tile::evaluateInt(expression, environment);
    if (!extent) {
      op.emitOpError() << "has a grid extent '" << tile::toString(expression)
                       << "' that cannot be computed: " << llvm::toString(extent.takeError());
      return failure();
    }
    StringRef id = cast<StringAttr>(name).getValue();
    if (*extent < 0 || *extent > std::numeric_limits<int32_t>::max()) {
      op.emitOpError() << "requires a grid extent from 0 to 2147483647 for '" << id << "', but got "
                       << *extent;
      return failure();
    }
    grid.extents.push_back(*extent);
    if (llvm::MulOverflow(grid.points, *extent, grid.points)) {
      op.emitOpError("must have a grid of at most 2^63 points, but got more");
      return failure();
    }
  }
  return grid;
}

llvm::SmallVector<int64_t, 4> Grid::pointAt(int64_t number) const {
  llvm::SmallVector<int64_t, 4> point;
  for (int64_t extent : extents) {
    point.push_back(number % extent);
    number /= extent;
  }
  return point;
}

void initialize(Frame &frame, const CompiledKernel &kernel, ArrayRef<BoundArgument> arguments,
                const llvm::StringMap<BoundArgument> &captures) {
  frame.values.resize(kernel.numValues);
  frame.views.resize(kernel.numViews);
  auto set = [&](Slot slot, const BoundArgument &argument) {
    if (argument.isView)
      frame.views[slot] = argument.view;
    else
      frame.values[slot].setSplat(argument.scalar);
  };
  for (auto [parameter, argument] : llvm::zip_equal(kernel.arguments, arguments))
    set(parameter.slot, argument);
  for (const CompiledKernel::Capture &capture : kernel.captures)
    set(capture.slot, captures.find(capture.name)->second);
  for (const CompiledKernel::Constant &constant : kernel.constants) {
    Datum &value = frame.values[constant.slot];
    if (constant.elements.empty()) {
      value.setSplat(constant.scalar);
      continue;
    }
    BufferRef buffer(frame.pool.allocate(constant.elements.size()));
    std::memcpy(buffer.data(), constant.elements.data(), constant.elements.size());
    value.setDense(std::move(buffer));
  }
}

void notePoint(InFlightDiagnostic &error, const CompiledKernel &kernel, ArrayRef<int64_t> point) {
  tile::KernelOp op = kernel.op;
  Diagnostic &note = error.attachNote(op.getLoc()) << "while running the kernel";
  for (auto [d, name] : llvm::enumerate(op.getGridNames()))
    note << (d ? ", " : " at ") << cast<StringAttr>(name).getValue() << " = " << point[d];
}

LogicalResult launch(const CompiledKernel &kernel, ArrayRef<BoundArgument> arguments,
                     const llvm::StringMap<BoundArgument> &captures, unsigned threads,
                     WatchList *watches, bool checksInstances) {
  if (failed(checkConstraints(kernel.op, arguments, captures)))
    return failure();
  FailureOr<Grid> grid = gridOf(kernel, arguments);
  if (failed(grid))
    return failure();
  int64_t points = grid->points;
  if (watches)
    threads = 1;
  if (threads == 0)
    threads = numeric::hardwareThreads();
  threads = static_cast<unsigned>(std::clamp<int64_t>(points, 1, std::min(threads, maxThreads)));

  std::unique_ptr<InstanceCheck> check;
  if (checksInstances)
    check = InstanceCheck::create(kernel.op, arguments, grid->extents, kernel.hasTurns,
                                  /*hasThreads=*/threads > 1);
  std::optional<Progress> progress;
  if (kernel.hasTurns)
    progress.emplace(points);
  std::vector<std::unique_ptr<Frame>> frames(threads);
  std::vector<int64_t> failedAt(threads, -1);
  Status status = numeric::parallelFor(points, threads, [&](int64_t number, unsigned thread) {
    std::unique_ptr<Frame> &frame = frames[thread];
    if (!frame) {
      frame = std::make_unique<Frame>();
      initialize(*frame, kernel, arguments, captures);
      frame->progress = progress ? &*progress : nullptr;
    }
    frame->instance = number;
    frame->instances = points;
    frame->check = check.get();
    auto end = llvm::scope_exit([&] {
      if (progress)
        progress->noteEnd(number);
    });
    auto point = grid->pointAt(number);
    for (auto [slot, id] : llvm::zip_equal(kernel.gridIds, point))
      frame->values[slot].setSplat(Scalar::fromInt(id, Storage::I32));
    if (kernel.code.run(*frame) && !frame->failedOp) {
      if (watches)
        watches->note(kernel.op, point);
      return Status::success();
    }
    failedAt[thread] = number;
    return Status::failure(frame->failure);
  });
  if (status.ok())
    return success();

  // If there are several errors, report the one at the first grid point.
  const Frame *first = nullptr;
  int64_t point = -1;
  for (auto [frame, number] : llvm::zip(frames, failedAt)) {
    if (number >= 0 && (!first || number < point)) {
      first = frame.get();
      point = number;
    }
  }
  if (first) {
    InFlightDiagnostic error = first->failedOp->emitOpError() << first->failure;
    notePoint(error, kernel, grid->pointAt(point));
  } else {
    kernel.op->emitOpError() << status.message();
  }
  return failure();
}

} // namespace tilewright::interpreter
