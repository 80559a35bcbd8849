// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The environment variable TILEWRIGHT_DUMP: where it is set, to a path such as /tmp/x, everything
// that a compilation makes is written under that base name:
//
//   /tmp/x.000.input.mlir, /tmp/x.001.tile-link.mlir ...   the module, and what each pass leaves of
//   it /tmp/x.030.ll  .ptx  .ptxas.log  .cubin                code
//
// Numbers run on through the process. What is edited goes back into tilewrightc.

#ifndef TILEWRIGHT_LIB_CODEGEN_DUMP_H
#define TILEWRIGHT_LIB_CODEGEN_DUMP_H

#include "llvm/ADT/StringRef.h"

namespace mlir {
class ModuleOp;
class PassManager;
} // namespace mlir

namespace tilewright {

/// Whether stages are written.
bool isDumping();

/// Writes one stage: "BASE.NUMBER.NAME". A file that cannot be written is reported once, on
/// standard error, and ends the dumping. Does nothing unless isDumping().
void dump(llvm::StringRef name, llvm::StringRef bytes);
void dump(llvm::StringRef name, mlir::ModuleOp module);

/// Writes the module after each pass of the manager, under the name of the pass.
void dumpPasses(mlir::PassManager &manager);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_CODEGEN_DUMP_H
