// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// convert-tgpu-to-nvvm: emits the code of one thread for every tgpu.kernel, then applies MLIR's own
// conversions.

#include "dialect/Tile/Calls.h"
#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/Nvvm.h"
#include "passes/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/DialectConversion.h"

namespace tilewright {
#define GEN_PASS_DEF_CONVERTTGPUTONVVM
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;

namespace {
struct ConvertTgpuToNvvm : tilewright::impl::ConvertTgpuToNvvmBase<ConvertTgpuToNvvm> {
  using ConvertTgpuToNvvmBase::ConvertTgpuToNvvmBase;
  void getDependentDialects(DialectRegistry &registry) const override {
    ConvertTgpuToNvvmBase::getDependentDialects(registry);
    nvvm::insertDialect(registry);
  }
  void runOnOperation() override;
};
} // namespace

/// What MLIR's passes for arith, math and cf do one after the other, in one traversal, and without
/// the records by which patterns could be undone.
static LogicalResult convertToLlvm(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LLVMTypeConverter converter(context);
  LLVMConversionTarget target(*context);
  RewritePatternSet patterns(context);
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  ConversionConfig config;
  config.allowPatternRollback = false;
  return applyPartialConversion(module, target, std::move(patterns), config);
}

void ConvertTgpuToNvvm::runOnOperation() {
  ModuleOp module = getOperation();
  // A function is emitted once for each call of it.
  tile::Calls calls(module);
  for (tgpu::KernelOp kernel : module.getOps<tgpu::KernelOp>())
    if (failed(calls.checkSize(kernel)))
      return signalPassFailure();

  bool failedAny = false;
  for (tgpu::KernelOp kernel : llvm::to_vector(module.getOps<tgpu::KernelOp>())) {
    // The code has the kernel's name; the tgpu.kernel is erased at the end of the pass.
    std::string name = kernel.getSymName().str();
    tgpu::AlignedViews aligned = tgpu::getAlignedViews(kernel);
    kernel.setSymName(name + ".tgpu");
    bool wantsAligned = !aligned.empty() && forms != tgpu::CodeForms::General;
    if (aligned.empty()) {
      failedAny |= failed(tgpu::KernelEmitter(kernel, name, {}).run());
    } else if (forms != tgpu::CodeForms::Aligned) {
      // Few calls need it, and it is longer: short code is assembled in less time.
      auto rare = cast<tgpu::KernelOp>(OpBuilder(kernel).clone(*kernel));
      rare.setSymName(name + ".rare");
      OpPassManager joining(tgpu::KernelOp::getOperationName());
      joining.addPass(createTgpuJoinSegments());
      failedAny |=
          failed(runPipeline(joining, rare)) || failed(tgpu::KernelEmitter(rare, name, {}).run());
    }
    if (!failedAny && wantsAligned)
      failedAny |= failed(
          tgpu::KernelEmitter(kernel, tgpu::getAlignedEntry(name), std::move(aligned)).run());
  }
  if (failedAny)
    return signalPassFailure();

  // Nothing else is device code: functions have been inlined, and programs belong to the launcher.
  for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
    if (!isa<LLVM::LLVMFuncOp, LLVM::GlobalOp>(op))
      op.erase();

  OpPassManager manager(ModuleOp::getOperationName());
  manager.addPass(createArithAddConstantsLast());
  manager.addPass(createSCFToControlFlowPass());
  if (failed(runPipeline(manager, module)) || failed(convertToLlvm(module)))
    signalPassFailure();
}
