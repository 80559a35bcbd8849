// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel gets an argument for the gradient of each capture that it differentiates by: the array
// of the caller, or the exact sums of a workspace. The program clears the first before its
// launches, and turns the second into floats after them.

#include "passes/Tile/CaptureGradients.h"

#include "dialect/Tile/TileExpr.h"
#include "passes/Tile/AppendArgument.h"
#include "passes/Tile/Derivatives.h"
#include "passes/Tile/GradientSums.h"
#include "passes/Tile/LaunchNames.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

constexpr int64_t blockOfEntries = 256;

/// The type of the argument that takes the gradient: as the capture, or one element.
ViewType getGradientType(CaptureOp capture) {
  MLIRContext *context = capture.getContext();
  if (auto view = dyn_cast<ViewType>(capture.getType()); view && view.getRank() > 0)
    return ViewType::get(context, view.getShape(), view.getSymbols(), getSumType(capture));
  return ViewType::get(context, {1}, {StringAttr()}, getSumType(capture));
}

/// The type of the exact sums. Their extents are unknown: those of an absent gradient are 0,
/// regardless of its type.
ViewType getWordsType(CaptureOp capture) {
  SmallVector<int64_t> shape(getGradientType(capture).getRank(), ShapedType::kDynamic);
  shape.push_back(AddAtOp::kWords);
  SmallVector<StringAttr> symbols(shape.size());
  return ViewType::get(capture.getContext(), shape, symbols,
                       IntegerType::get(capture.getContext(), 64));
}

std::string getName(CaptureOp capture) { return ("d_" + capture.getSymName()).str(); }

//===----------------------------------------------------------------------===//
// Kernels and their programs
//===----------------------------------------------------------------------===//

/// The gradients of one kernel: its argument for each capture.
struct KernelGradients {
  llvm::MapVector<Operation *, unsigned> arguments; ///< capture -> number of the argument
  AddGradientsOp first;                             ///< if this one is exact, all others are
};

class ProgramRewriter {
public:
  ProgramRewriter(ModuleOp module, ScalarGradients &gradients)
      : module(module), gradients(gradients), context(module.getContext()) {}

  LogicalResult run();

private:
  LogicalResult lowerKernel(KernelOp kernel);
  FailureOr<unsigned> addArgument(KernelOp kernel, CaptureOp capture, KernelGradients &sums);
  LogicalResult rewriteProgram(ProgramOp program);
  FailureOr<Value> addArgument(ProgramOp program, CaptureOp capture);
  Value addWords(ProgramOp program, CaptureOp capture);
  KernelOp makeEntryKernel(StringRef prefix, CaptureOp capture, TypeRange arguments,
                           ArrayRef<StringRef> names,
                           function_ref<void(OpBuilder &, KernelOp, ValueRange)> fill);
  KernelOp getClearKernel(CaptureOp capture);
  KernelOp getConvertKernel(CaptureOp capture);
  func::FuncOp getWordsToFloat(Type type);

  ModuleOp module;
  ScalarGradients &gradients;
  MLIRContext *context;
  llvm::MapVector<Operation *, KernelGradients> kernels;
  llvm::StringMap<KernelOp> entryKernels;
};

template <typename OpTy> LogicalResult checkName(OpTy op, CaptureOp capture) {
  std::string name = getName(capture);
  if (Signature(op).findArg(name) < 0 && !Signature(op).findParam(name))
    return success();
  return op.emitOpError() << "has an argument '" << name
                          << "', which is the name of the gradient of "
                          << "capture @" << capture.getSymName() << "; rename one of them";
}

FailureOr<unsigned> ProgramRewriter::addArgument(KernelOp kernel, CaptureOp capture,
                                                 KernelGradients &sums) {
  auto [known, isNew] = sums.arguments.try_emplace(capture.getOperation(), kernel.getNumArgs());
  if (!isNew)
    return known->second;
  if (failed(checkName(kernel, capture)))
    return failure();
  bool isExact = sums.first.getExact();
  appendArgument(kernel, getName(capture),
                 isExact ? getWordsType(capture) : getGradientType(capture), !isExact,
                 capture.getLoc());
  return known->second;
}

LogicalResult ProgramRewriter::lowerKernel(KernelOp kernel) {
  SmallVector<AddGradientsOp> ops;
  kernel.walk([&](AddGradientsOp op) { ops.push_back(op); });
  SmallVector<SmallVector<CaptureRead>> readsOf;
  llvm::DenseMap<Operation *, unsigned> numReads; ///< reads per capture
  for (AddGradientsOp op : ops) {
    auto function = gradients.getSymbols().lookup<func::FuncOp>(op.getFunction());
    FailureOr<SmallVector<CaptureRead>> reads = gradients.ofCaptures(function, op);
    if (failed(reads))
      return failure();
    for (const CaptureRead &read : *reads)
      ++numReads[read.capture];
    readsOf.push_back(std::move(*reads));
  }
  for (auto [op, reads] : llvm::zip_equal(ops, readsOf)) {
    if (!reads.empty()) {
      KernelGradients &sums = kernels[kernel];
      if (!sums.first)
        sums.first = op;
      if (sums.first.getExact() != op.getExact()) {
        op.emitOpError("must have 'exact' if and only if the other gradients of captures in the "
                       "kernel have it; write 'exact' on all or on none")
                .attachNote(sums.first.getLoc())
            << "the other place";
        return failure();
      }
      for (const CaptureRead &read : reads) {
        FailureOr<unsigned> position = addArgument(kernel, read.capture, sums);
        if (failed(position))
          return failure();
        // Nothing is computed for an absent gradient.
        Value argument = kernel.getArgs()[*position];
        OpBuilder b(op);
        Value extent = DimOp::create(b, op.getLoc(), b.getI32Type(), argument, 0);
        Value zero = arith::ConstantOp::create(b, op.getLoc(), b.getI32IntegerAttr(0));
        Value isPresent =
            arith::CmpIOp::create(b, op.getLoc(), arith::CmpIPredicate::sgt, extent, zero);
        auto branch = scf::IfOp::create(b, op.getLoc(), isPresent, /*withElseRegion=*/false);
        Operation *end = branch.thenBlock()->getTerminator();
        op->moveBefore(end); // temporarily: the emitter inserts before it
        addToSums(op, read, argument, numReads[read.capture] == 1);
        op->moveAfter(branch);
      }
    }
  }
  // Kept until here for locations of errors and for their attribute `exact`.
  return success();
}

//===----------------------------------------------------------------------===//
// Kernels of the entries of a gradient
//===----------------------------------------------------------------------===//

/// One instance for each block along the last dimension; `fill` receives the indices of its first
/// entry.
KernelOp
ProgramRewriter::makeEntryKernel(StringRef prefix, CaptureOp capture, TypeRange arguments,
                                 ArrayRef<StringRef> names,
                                 function_ref<void(OpBuilder &, KernelOp, ValueRange)> fill) {
  std::string name = (prefix + getName(capture)).str();
  KernelOp &known = entryKernels[name];
  if (known)
    return known;
  int64_t rank = getGradientType(capture).getRank();
  StringRef shaped = names.back();
  OpBuilder b(context);
  SmallVector<Attribute> gridNames, grid, argNames;
  for (StringRef argument : names)
    argNames.push_back(b.getStringAttr(argument));
  auto blocks =
      makeCall(context, expr::Function::CeilDiv,
               {makeDim(context, shaped, rank - 1), ExprAttr::getInt(context, blockOfEntries)});
  gridNames.push_back(b.getStringAttr("block"));
  grid.push_back(blocks);
  for (int64_t dim = 0; dim + 1 < rank; ++dim) {
    gridNames.push_back(b.getStringAttr("index" + Twine(dim)));
    grid.push_back(makeDim(context, shaped, dim));
  }
  // The gradient itself is the last argument, and the only one that may be absent.
  SmallVector<bool> optional(names.size(), false);
  optional.back() = true;
  ArrayAttr none = b.getArrayAttr({});
  known = KernelOp::create(b, capture.getLoc(), b.getStringAttr(name), none, none,
                           b.getArrayAttr(argNames), b.getDenseBoolArrayAttr(optional),
                           b.getArrayAttr(gridNames), b.getArrayAttr(grid), DictionaryAttr(),
                           DictionaryAttr(), DictionaryAttr());
  gradients.getSymbols().insert(known);
  Block &body = known.getBody().emplaceBlock();
  for (Type type : arguments)
    body.addArgument(type, capture.getLoc());
  for (size_t i = 0; i < grid.size(); ++i)
    body.addArgument(b.getI32Type(), capture.getLoc());
  b.setInsertionPointToStart(&body);
  Value length =
      arith::ConstantOp::create(b, capture.getLoc(), b.getI32IntegerAttr(blockOfEntries));
  SmallVector<Value> first(known.getGridIds().drop_front());
  first.push_back(arith::MulIOp::create(b, capture.getLoc(), known.getGridIds().front(), length));
  fill(b, known, first);
  return known;
}

KernelOp ProgramRewriter::getClearKernel(CaptureOp capture) {
  std::string name = getName(capture);
  auto fill = [&](OpBuilder &b, KernelOp kernel, ValueRange first) {
    Location loc = capture.getLoc();
    Type sum = getSumType(capture);
    Value zero = arith::ConstantOp::create(b, loc, b.getFloatAttr(sum, 0));
    Value zeros = FullOp::create(b, loc, RankedTensorType::get({blockOfEntries}, sum), zero);
    SmallVector<int64_t> dynamic(first.size(), ShapedType::kDynamic);
    StoreOp::create(b, loc, zeros, kernel.getArgs().front(), first, dynamic, DenseI64ArrayAttr());
  };
  return makeEntryKernel("clear_", capture, getGradientType(capture), StringRef(name), fill);
}

/// The sum that its words represent, rounded once or nearly so: first carries, so that all digits
/// but the highest are positive, then Horner's rule in f64.
func::FuncOp ProgramRewriter::getWordsToFloat(Type type) {
  std::string name = type.isF64() ? "exact_sum_to_f64" : "exact_sum_to_f32";
  if (auto known = gradients.getSymbols().lookup<func::FuncOp>(name))
    return known;
  OpBuilder b(context);
  Location loc = module.getLoc();
  Type i64 = b.getI64Type(), f64 = b.getF64Type();
  SmallVector<Type> inputs(AddAtOp::kWords, i64);
  auto function = func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, type));
  function.setPrivate();
  gradients.getSymbols().insert(function);
  Block *body = function.addEntryBlock();
  b.setInsertionPointToStart(body);
  auto whole = [&](int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value)).getResult();
  };
  auto number = [&](double value) {
    return arith::ConstantOp::create(b, loc, b.getF64FloatAttr(value)).getResult();
  };
  auto toF64 = [&](Value value) { return arith::SIToFPOp::create(b, loc, f64, value).getResult(); };
  Value carry, mask = whole((int64_t(1) << AddAtOp::kDigitBits) - 1);
  Value bits = whole(AddAtOp::kDigitBits);
  SmallVector<Value> digits;
  for (int64_t k = 0; k < AddAtOp::kDigits; ++k) {
    Value word = body->getArgument(k);
    if (carry)
      word = arith::AddIOp::create(b, loc, word, carry);
    bool isLast = k + 1 == AddAtOp::kDigits;
    digits.push_back(isLast ? word : arith::AndIOp::create(b, loc, word, mask).getResult());
    if (!isLast)
      carry = arith::ShRSIOp::create(b, loc, word, bits);
  }
  Value sum = toF64(digits.back()), base = number(double(int64_t(1) << AddAtOp::kDigitBits));
  for (Value digit : llvm::drop_begin(llvm::reverse(digits)))
    sum = arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, sum, base), toF64(digit));
  sum = arith::MulFOp::create(b, loc, sum, number(std::ldexp(1.0, AddAtOp::kLowestExponent)));

  auto hasBit = [&](int64_t bit) {
    Value masked = arith::AndIOp::create(b, loc, body->getArguments().back(), whole(bit));
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, masked, whole(0)).getResult();
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value isInfinite = hasBit(2), isMinusInfinite = hasBit(4);
  Value cancels = arith::AndIOp::create(b, loc, isInfinite, isMinusInfinite);
  Value isNaN = arith::OrIOp::create(b, loc, hasBit(1), cancels);
  sum = arith::SelectOp::create(b, loc, isMinusInfinite, number(-infinity), sum);
  sum = arith::SelectOp::create(b, loc, isInfinite, number(infinity), sum);
  Value nan = number(std::numeric_limits<double>::quiet_NaN());
  sum = arith::SelectOp::create(b, loc, isNaN, nan, sum);
  func::ReturnOp::create(b, loc, convertFloat(b, loc, sum, type));
  return function;
}

KernelOp ProgramRewriter::getConvertKernel(CaptureOp capture) {
  std::string name = getName(capture), words = "sums_of_" + name;
  auto fill = [&](OpBuilder &b, KernelOp kernel, ValueRange first) {
    Location loc = capture.getLoc();
    auto wordTile = RankedTensorType::get({blockOfEntries}, b.getI64Type());
    int64_t dim = static_cast<int64_t>(first.size()) - 1;
    SmallVector<int64_t> indices(first.size(), ShapedType::kDynamic);
    StoreOp store;
    SmallVector<Value> tiles;
    indices.push_back(0);
    for (int64_t k = 0; k < AddAtOp::kWords; ++k) {
      indices.back() = k;
      tiles.push_back(LoadOp::create(b, loc, wordTile, kernel.getArgs()[0], first, indices,
                                     b.getDenseI64ArrayAttr({dim}), Value()));
    }
    indices.pop_back();
    Type sum = getSumType(capture);
    Value floats = MapOp::create(b, loc, RankedTensorType::get({blockOfEntries}, sum),
                                 getWordsToFloat(sum).getSymName(), tiles);
    StoreOp::create(b, loc, floats, kernel.getArgs()[1], first, indices, DenseI64ArrayAttr());
  };
  SmallVector<Type> types{getWordsType(capture), getGradientType(capture)};
  return makeEntryKernel("convert_", capture, types, {StringRef(words), StringRef(name)}, fill);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

FailureOr<Value> ProgramRewriter::addArgument(ProgramOp program, CaptureOp capture) {
  if (failed(checkName(program, capture)))
    return failure();
  std::string name = getName(capture);
  ViewType type = getGradientType(capture);
  Value argument = appendArgument(program, name, type, /*isOptional=*/true, capture.getLoc());
  // A gradient has the shape of its capture.
  SmallVector<Attribute> constraints(program.getConstraints().getValue());
  if (isa<ViewType>(capture.getType()))
    for (int64_t dim = 0; dim < getRank(capture.getType()); ++dim)
      constraints.push_back(ExprAttr::get(
          context, ExprKind::Call, 0,
          "==", {makeDim(context, name, dim), makeDim(context, capture.getSymName(), dim)}));
  program.setConstraintsAttr(ArrayAttr::get(context, constraints));
  return argument;
}

Value ProgramRewriter::addWords(ProgramOp program, CaptureOp capture) {
  OpBuilder b = OpBuilder::atBlockBegin(&program.getBody().front());
  SmallVector<Attribute> extents;
  for (int64_t dim = 0, rank = getGradientType(capture).getRank(); dim < rank; ++dim)
    extents.push_back(makeDim(context, getName(capture), dim));
  extents.push_back(ExprAttr::getInt(context, AddAtOp::kWords));
  return WorkspaceOp::create(b, capture.getLoc(), getWordsType(capture), b.getArrayAttr(extents),
                             b.getI64IntegerAttr(0));
}

LogicalResult ProgramRewriter::rewriteProgram(ProgramOp program) {
  llvm::MapVector<Operation *, Value> arguments, words;
  SmallVector<LaunchOp> launches(program.getBody().getOps<LaunchOp>());
  for (LaunchOp launch : launches) {
    Operation *kernel = gradients.getSymbols().lookup(launch.getKernel());
    auto found = kernels.find(kernel);
    if (found == kernels.end())
      continue;
    for (auto [op, position] : found->second.arguments) {
      auto capture = cast<CaptureOp>(op);
      if (!arguments.count(op)) {
        FailureOr<Value> argument = addArgument(program, capture);
        if (failed(argument))
          return failure();
        arguments[op] = *argument;
      }
      Value passed = arguments[op];
      if (found->second.first.getExact()) {
        Value &sums = words[op];
        if (!sums)
          sums = addWords(program, capture);
        passed = sums;
      }
      launch.getArgsMutable().append(passed);
    }
  }
  for (auto [op, argument] : arguments) {
    auto capture = cast<CaptureOp>(op);
    bool isExact = words.count(op);
    OpBuilder b(context);
    if (isExact)
      b.setInsertionPointToEnd(&program.getBody().front());
    else
      b.setInsertionPoint(launches.front());
    KernelOp kernel = isExact ? getConvertKernel(capture) : getClearKernel(capture);
    SmallVector<Value> passed;
    if (isExact)
      passed.push_back(words[op]);
    passed.push_back(argument);
    LaunchOp::create(b, capture.getLoc(), kernel.getSymName(), passed, b.getArrayAttr({}),
                     b.getArrayAttr({}), ExprAttr(), ArrayAttr());
  }
  return success();
}

LogicalResult ProgramRewriter::run() {
  SmallVector<KernelOp> all(module.getOps<KernelOp>());
  for (KernelOp kernel : all)
    if (failed(lowerKernel(kernel)))
      return failure();
  llvm::DenseSet<Operation *> launched;
  module.walk(
      [&](LaunchOp launch) { launched.insert(gradients.getSymbols().lookup(launch.getKernel())); });
  for (auto &[kernel, sums] : kernels)
    if (!launched.contains(kernel))
      return sums.first.emitOpError()
             << "needs a program that launches its kernel, to clear or convert the gradient of "
                "capture @"
             << cast<CaptureOp>(sums.arguments.front().first).getSymName()
             << ", but got none; write a program with tile.launch @"
             << cast<KernelOp>(kernel).getSymName();
  for (ProgramOp program : SmallVector<ProgramOp>(module.getOps<ProgramOp>()))
    if (failed(rewriteProgram(program)))
      return failure();
  module.walk([](AddGradientsOp op) { op.erase(); });
  return success();
}

} // namespace

LogicalResult tilewright::lowerCaptureGradients(ModuleOp module, ScalarGradients &gradients) {
  return ProgramRewriter(module, gradients).run();
}
