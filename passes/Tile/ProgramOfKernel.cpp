// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes programs of kernels, and finds them.

#include "passes/Tile/ProgramOfKernel.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

StringRef tilewright::getEntryName(Operation *kernelOrProgram) {
  if (auto name = kernelOrProgram->getAttrOfType<StringAttr>(programOfKernelName))
    return name.getValue();
  return SymbolTable::getSymbolName(kernelOrProgram).getValue();
}

Operation *tilewright::findEntryByName(ModuleOp module, StringRef name) {
  for (auto program : module.getOps<ProgramOp>())
    if (getEntryName(program) == name)
      return program;
  return SymbolTable::lookupSymbolIn(module, name);
}

ProgramOp tilewright::makeProgramOf(KernelOp kernel, StringRef symbol, Attribute ofKernel) {
  OpBuilder b(kernel);
  auto program = ProgramOp::create(
      b, kernel.getLoc(), b.getStringAttr(symbol), kernel.getParamsAttr(),
      kernel.getConstraintsAttr(), kernel.getArgNamesAttr(), kernel.getArgOptionalAttr(),
      kernel.getBindingsAttr(), kernel.getArgDefaultsAttr(), kernel.getArgConditionsAttr());
  program->setAttr(programOfKernelName, ofKernel);
  Block &body = program.getBody().emplaceBlock();
  for (BlockArgument argument : kernel.getArgs())
    body.addArgument(argument.getType(), argument.getLoc());
  b.setInsertionPointToStart(&body);
  LaunchOp::create(b, kernel.getLoc(), kernel.getSymName(), body.getArguments(), b.getArrayAttr({}),
                   b.getArrayAttr({}), ExprAttr(), ArrayAttr());
  kernel.removeArgDefaultsAttr();
  return program;
}
