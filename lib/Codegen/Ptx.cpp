// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM IR and PTX.

#include "lib/Codegen/Codegen.h"
#include "lib/Codegen/Dump.h"
#include "passes/Conversion/AlignedViews.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/thread.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Mem2Reg.h"

#include <memory>
#include <mutex>
#include <optional>

// Only the NVPTX back end: InitializeAllTargets would require targets that the package does not
// contain.
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace tilewright;

void tilewright::registerCodegenDialects(mlir::DialectRegistry &registry) {
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  mlir::registerNVVMDialectTranslation(registry);
}

llvm::Expected<const Target &> tilewright::findTarget(llvm::StringRef name) {
  if (const Target *target = Target::find(name))
    return *target;
  return llvm::createStringError(Target::getRejection(name));
}

static void initializeBackEnd() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    // Addresses in shared memory in one register instead of two. Available only as a command-line
    // option.
    auto &options = llvm::cl::getRegisteredOptions();
    if (auto found = options.find("nvptx-short-ptr"); found != options.end())
      static_cast<llvm::cl::opt<bool> *>(found->second)->setValue(true);
  });
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine(llvm::StringRef name) {
  llvm::Expected<const Target &> target = findTarget(name);
  if (!target)
    return target.takeError();
  initializeBackEnd();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *backEnd = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backEnd)
    return llvm::createStringError("LLVM has no NVPTX back end: " + error);
  std::unique_ptr<llvm::TargetMachine> machine(backEnd->createTargetMachine(
      triple, target->name, "+ptx" + std::to_string(target->ptxVersion), llvm::TargetOptions(),
      std::nullopt, std::nullopt,
      // Not aggressive: that runs GVN, which separates products from the sums they fuse with.
      llvm::CodeGenOptLevel::Default));
  if (!machine)
    return llvm::createStringError("LLVM cannot make code for " + name);
  return machine;
}

/// Translated and optimized.
static llvm::Expected<std::unique_ptr<llvm::Module>>
translate(mlir::ModuleOp module, llvm::LLVMContext &context, llvm::TargetMachine &machine) {
  std::unique_ptr<llvm::Module> llvmModule =
      mlir::translateModuleToLLVMIR(module, context, "tilewright");
  if (!llvmModule)
    return llvm::createStringError("the module cannot be translated to LLVM IR");
  llvmModule->setTargetTriple(machine.getTargetTriple());
  llvmModule->setDataLayout(machine.createDataLayout());

  // MLIR cannot express this: an operation that a warp executes together must not move into a
  // branch.
  for (llvm::Function &function : *llvmModule)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction); call && call->isInlineAsm())
        call->addFnAttr(llvm::Attribute::Convergent);

  // Not a default pipeline: it hoists all invariants out of loops, such as the addresses and masks
  // of each element, and a thread has no registers for them. The emitter places values that are
  // worth a register at entry; ptxas, which counts registers, decides about the rest. Loops are not
  // unrolled any further.
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::FunctionPassManager perFunction;
  // The state of a timeline is on the stack. Nothing else is but the values of prints, whose
  // address is an operand of a call: without a timeline this has no effect.
  perFunction.addPass(llvm::PromotePass());
  perFunction.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  perFunction.addPass(llvm::InstCombinePass());
  perFunction.addPass(llvm::SimplifyCFGPass());
  perFunction.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  perFunction.addPass(llvm::InstCombinePass());
  perFunction.addPass(llvm::ADCEPass());
  perFunction.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(perFunction)));
  passes.run(*llvmModule, modules);
  return llvmModule;
}

static std::string printIr(const llvm::Module &module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

/// Collects LLVM's diagnostics about its input. Without a handler, LLVM would print them, and exit
/// for an error.
class Diagnostics {
public:
  explicit Diagnostics(llvm::LLVMContext &context) : context(context) {
    context.setDiagnosticHandlerCallBack(handle, this);
  }
  ~Diagnostics() { context.setDiagnosticHandlerCallBack(nullptr); }

  llvm::Error take() {
    return errors.empty() ? llvm::Error::success()
                          : llvm::createStringError("LLVM rejects this code: " + errors);
  }

private:
  static void handle(const llvm::DiagnosticInfo *info, void *self) {
    if (info->getSeverity() != llvm::DS_Error)
      return;
    std::string &errors = static_cast<Diagnostics *>(self)->errors;
    llvm::raw_string_ostream stream(errors);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    stream << (errors.empty() ? "" : "; ");
    info->print(printer);
  }

  llvm::LLVMContext &context;
  std::string errors;
};

namespace {
/// Leaves out straight-line strength reduction where it only takes time. It searches all earlier
/// sums and products of a block for each one. Code for views of any strides computes an offset of
/// 64 bits for each element that a thread copies, so that the search takes half of the time of the
/// back end, and finds nothing that the emitter has not shared already: the PTX is the same.
/// Targets with roles copy by tensor maps instead, and there, as in code for aligned views, it can
/// matter.
class SkippedPasses : public llvm::OptPassGate {
public:
  explicit SkippedPasses(const llvm::TargetMachine &machine) {
    const Target *target = Target::find(machine.getTargetCPU());
    skips = target && !target->hasRoles();
  }

  bool isEnabled() const override { return skips; }
  /// `code` is "function (name)".
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef code) const override {
    return pass != "slsr" || code.contains(tgpu::getAlignedEntry("") + ")");
  }

private:
  bool skips;
};
} // namespace

static llvm::Expected<std::string> printPtx(llvm::Module &module, llvm::TargetMachine &machine) {
  Diagnostics diagnostics(module.getContext());
  SkippedPasses skipped(machine);
  module.getContext().setOptPassGate(skipped);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return llvm::createStringError("LLVM cannot emit PTX for " + machine.getTargetCPU());
  passes.run(module);
  if (llvm::Error error = diagnostics.take())
    return error;
  dump("ptx", text);
  return text.str().str();
}

/// LLVM's analyses recurse along chains of values, and the code of a thread may be a chain of 2^18
/// operations: the program's stack would overflow.
static llvm::Expected<std::string>
onLargeStack(llvm::function_ref<llvm::Expected<std::string>()> action) {
  constexpr unsigned stackBytes = 512u << 20; // reserved addresses; memory is allocated on use
  std::optional<llvm::Expected<std::string>> result;
  llvm::thread worker(std::optional<unsigned>(stackBytes), [&] { result.emplace(action()); });
  worker.join();
  return std::move(*result);
}

/// The result of `print` for the module in LLVM IR.
static llvm::Expected<std::string>
emit(mlir::ModuleOp module, llvm::StringRef target,
     llvm::function_ref<llvm::Expected<std::string>(llvm::Module &, llvm::TargetMachine &)> print) {
  return onLargeStack([&]() -> llvm::Expected<std::string> {
    auto machine = createMachine(target);
    if (!machine)
      return machine.takeError();
    llvm::LLVMContext context;
    auto llvmModule = translate(module, context, **machine);
    if (!llvmModule)
      return llvmModule.takeError();
    return print(**llvmModule, **machine);
  });
}

llvm::Expected<std::string> tilewright::emitLlvmIr(mlir::ModuleOp module, llvm::StringRef target) {
  return emit(module, target, [](llvm::Module &llvmModule, llvm::TargetMachine &) {
    std::string text = printIr(llvmModule);
    dump("ll", text);
    return llvm::Expected<std::string>(std::move(text));
  });
}

llvm::Expected<std::string> tilewright::emitPtx(mlir::ModuleOp module, llvm::StringRef target) {
  return emit(module, target, [](llvm::Module &llvmModule, llvm::TargetMachine &machine) {
    if (isDumping())
      dump("ll", printIr(llvmModule));
    return printPtx(llvmModule, machine);
  });
}

llvm::Expected<std::string> tilewright::emitPtxFromIr(llvm::MemoryBufferRef ir,
                                                      llvm::StringRef target) {
  return onLargeStack([&]() -> llvm::Expected<std::string> {
    auto machine = createMachine(target);
    if (!machine)
      return machine.takeError();
    llvm::LLVMContext context;
    llvm::SMDiagnostic problem;
    std::unique_ptr<llvm::Module> module = llvm::parseIR(ir, problem, context);
    if (!module)
      return llvm::createStringError(
          "not LLVM IR: " + problem.getFilename() + ":" + llvm::Twine(problem.getLineNo()) + ":" +
          llvm::Twine(problem.getColumnNo() + 1) + ": " + problem.getMessage());
    if (module->getTargetTriple() != (*machine)->getTargetTriple())
      return llvm::createStringError("LLVM IR must be for nvptx64-nvidia-cuda, but is for '" +
                                     module->getTargetTriple().str() + "'");
    module->setDataLayout((*machine)->createDataLayout());
    // The back end assumes what the verifier checks.
    std::string broken;
    llvm::raw_string_ostream stream(broken);
    if (llvm::verifyModule(*module, &stream))
      return llvm::createStringError("not valid LLVM IR: " + llvm::StringRef(broken).trim());
    return printPtx(*module, **machine);
  });
}
