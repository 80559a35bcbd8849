// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewrightc --crash-reproducer: when a pass fails or crashes, the module before that pass and the
// pass with its options are written to a file, which tilewright-opt --run-reproducer runs.

#ifndef TILEWRIGHT_LIB_CODEGEN_CRASHREPRODUCER_H
#define TILEWRIGHT_LIB_CODEGEN_CRASHREPRODUCER_H

#include "llvm/ADT/StringRef.h"

namespace mlir {
class PassManager;
} // namespace mlir

namespace tilewright {

/// Applies to all later compilations of the process.
void setCrashReproducer(llvm::StringRef path);

/// Whether a pass has failed, and the file was written.
bool wroteCrashReproducer();

/// Whether a file was set: then compilations must not use threads.
bool wantsCrashReproducer();

/// Called for every pass manager; has no effect if no file was set, or if the context has threads,
/// which MLIR's reproducers of a single pass do not support.
void reproduceCrashes(mlir::PassManager &manager);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_CODEGEN_CRASHREPRODUCER_H
