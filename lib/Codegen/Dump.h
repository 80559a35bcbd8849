// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The environment variable TILEWRIGHT_DUMP: if it is set to a path such as /tmp/x, all intermediate
// results of a compilation are written under that base name:
//
//   /tmp/x.000.input.mlir, /tmp/x.001.tile-link.mlir ...   the module, also after each pass
//   /tmp/x.030.ll  .ptx  .ptxas.log  .cubin                code
//
// Numbers increase throughout the process. tilewrightc accepts an edited .ll or .ptx.

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
