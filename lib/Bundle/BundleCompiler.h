// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a bound module into a bundle: code for a target, and the manifest that describes how to
// launch it.

#ifndef TILEWRIGHT_LIB_BUNDLE_BUNDLECOMPILER_H
#define TILEWRIGHT_LIB_BUNDLE_BUNDLECOMPILER_H

#include "lib/Codegen/GpuCompiler.h"
#include "runtime/Bundle.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tilewright {

/// One binding of an entry, for one target. The module contains only the symbols that the entry
/// reaches, as after tile-specialize; it is not changed.
struct BundlePart {
  mlir::ModuleOp module;
  GpuOptions gpu;
  std::string ptx; ///< if not empty, replaces the code of the module
  /// The module that mapPart made; addToBundle maps the parts that have none, and takes ownership.
  mlir::OwningOpRef<mlir::ModuleOp> mapped = nullptr;
  /// Binds the entry again, with blocks that take at most this many bytes of shared memory; null if
  /// these are the blocks of the module. The result must live until addToBundle returns.
  std::function<mlir::ModuleOp(int64_t)> bindSmaller = nullptr;
};

/// Maps the module of a part onto its target, in a copy.
llvm::Error mapPart(BundlePart &part);

/// Collects diagnostics in a scope; the caller emits or discards them.
class HeldDiagnostics {
public:
  explicit HeldDiagnostics(mlir::MLIRContext *context);
  /// Emits the diagnostics collected so far, and stops collecting.
  void emit();

private:
  mlir::MLIRContext *context;
  std::vector<mlir::Diagnostic> said;
  std::optional<mlir::ScopedDiagnosticHandler> handler;
};

/// Adds the kernels, and the program if there is one, of an entry that was bound once for each
/// target, in the order of preference at run time: exact targets first. Calls for other bindings
/// add variants. A program must have the same workspaces and launches on
/// each target. If kernels need more shared memory than smaller chips of their target have, a form
/// that these chips can run, without rings or with smaller blocks, is added last, if there is one.
/// On targets with roles, kernels that can copy captures by tensor maps are added in that form
/// first. `assemble` adds a cubin for exactly the target if this machine has a ptxas.
///
/// Errors: those of the compiler (whose diagnostics the context emits); a fill that no 32-bit
/// pattern can write; a tensor map over anything but an argument; those of Manifest::finalize. The
/// manifest is then unchanged.
llvm::Error addToBundle(runtime::BundleWriter &bundle, llvm::MutableArrayRef<BundlePart> parts,
                        bool assemble);

/// The failure of a Status.
llvm::Error toError(const Status &status);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_BUNDLE_BUNDLECOMPILER_H
