// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Special registers and attributes of kernels; shared memory of lowered kernels.

#include "passes/Conversion/Nvvm.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace tilewright;

void nvvm::insertDialect(DialectRegistry &registry) { registry.insert<NVVM::NVVMDialect>(); }

Value nvvm::getThreadId(ImplicitLocOpBuilder &b) {
  return NVVM::ThreadIdXOp::create(b, b.getI32Type());
}
Value nvvm::getBlockId(ImplicitLocOpBuilder &b) {
  return NVVM::BlockIdXOp::create(b, b.getI32Type());
}
Value nvvm::getGridExtent(ImplicitLocOpBuilder &b) {
  return NVVM::GridDimXOp::create(b, b.getI32Type());
}

void nvvm::markKernel(FunctionOpInterface function, int32_t threads) {
  Builder b(function.getContext());
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(), b.getDenseI32ArrayAttr({threads}));
}
void nvvm::markRegisters(FunctionOpInterface kernel) {
  kernel->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                  Builder(kernel.getContext()).getI32IntegerAttr(1));
}
void nvvm::markGridConstant(FunctionOpInterface kernel, unsigned argument) {
  kernel.setArgAttr(argument, NVVM::NVVMDialect::getGridConstantAttrName(),
                    UnitAttr::get(kernel.getContext()));
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
