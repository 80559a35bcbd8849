// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Special registers and attributes of kernels; shared memory of lowered kernels.

#include "passes/Conversion/Nvvm.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace tilewright;

void nvvm::insertDialect(DialectRegistry &registry) { registerNVVMDialectTranslation(registry); }

static Value readRegister(ImplicitLocOpBuilder &b, StringRef name) {
  OperationState state(b.getLoc(), ("nvvm.read.ptx.sreg." + name).str());
  state.addTypes(b.getI32Type());
  return b.create(state)->getResult(0);
}
Value nvvm::getThreadId(ImplicitLocOpBuilder &b) { return readRegister(b, "tid.x"); }
Value nvvm::getBlockId(ImplicitLocOpBuilder &b) { return readRegister(b, "ctaid.x"); }
Value nvvm::getGridExtent(ImplicitLocOpBuilder &b) { return readRegister(b, "nctaid.x"); }

void nvvm::markKernel(FunctionOpInterface function, int32_t threads) {
  Builder b(function.getContext());
  function->setAttr("nvvm.kernel", b.getUnitAttr());
  function->setAttr("nvvm.reqntid", b.getDenseI32ArrayAttr({threads}));
}
static void setNumber(FunctionOpInterface kernel, StringRef attribute, int64_t value) {
  kernel->setAttr(attribute,
                  Builder(kernel.getContext()).getI32IntegerAttr(static_cast<int32_t>(value)));
}
void nvvm::setLeastBlocks(FunctionOpInterface kernel, int64_t blocks) {
  setNumber(kernel, "nvvm.minctasm", blocks);
}
void nvvm::setRegisters(FunctionOpInterface kernel, int64_t registers) {
  setNumber(kernel, "nvvm.maxnreg", registers);
}
void nvvm::markGridConstant(FunctionOpInterface kernel, unsigned argument) {
  kernel.setArgAttr(argument, "nvvm.grid_constant", UnitAttr::get(kernel.getContext()));
}

uint32_t nvvm::getStaticSharedBytes(ModuleOp lowered, llvm::StringRef entry) {
  llvm::SmallPtrSet<Operation *, 4> globals;
  SymbolTable symbols(lowered);
  symbols.lookup<LLVM::LLVMFuncOp>(entry).walk([&](LLVM::AddressOfOp op) {
    auto global = symbols.lookup<LLVM::GlobalOp>(op.getGlobalName());
    if (global && global.getAddrSpace() == 3 && global.getLinkage() != LLVM::Linkage::External)
      globals.insert(global);
  });
  uint64_t bytes = 0;
  for (Operation *global : globals)
    bytes += DataLayout(lowered).getTypeSize(cast<LLVM::GlobalOp>(global).getGlobalType());
  return static_cast<uint32_t>(bytes);
}
