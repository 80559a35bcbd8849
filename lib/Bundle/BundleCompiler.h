// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a bound module into a bundle: code for a target, and the manifest that says how to
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

/// One binding of an entry, for one target. The module holds nothing but what the entry reaches, as
/// tile-specialize leaves it; it is not changed.
struct BundlePart {
  mlir::ModuleOp module;
  GpuOptions gpu;
  std::string ptx; ///< taken for the code of the module, where it is not empty
  /// What mapPart has made of the module; addToBundle maps those that have none, and takes it.
  mlir::OwningOpRef<mlir::ModuleOp> mapped = nullptr;
  /// Binds the entry once more, by blocks of at most so many bytes of shared memory; null where
  /// there are none, or none but those of the module. The result lives until addToBundle returns.
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

/// Adds the kernels, and the program where there is one, of an entry that was bound once for each
/// target, in the order of preference at run time: exact targets first. It may be called again for
/// other bindings, which become variants. A program must have the same workspaces and launches on
/// each target. Kernels that take more shared memory than smaller chips of their target have are
/// added after all others in a form that these can run, if there is one: without rings, or else
/// by smaller blocks. Those of targets with roles that may copy what they capture by tensor maps
/// are added in that form before the other. `assemble` adds a cubin for exactly the target where
/// this machine has a ptxas.
///
/// Errors: what the compiler refuses (then diagnostics are emitted through the context, too); a
/// fill that no 32-bit pattern says; a tensor map over something else than an argument; what
/// Manifest::finalize refuses. The manifest is then unchanged.
llvm::Error addToBundle(runtime::BundleWriter &bundle, llvm::MutableArrayRef<BundlePart> parts,
                        bool assemble = true);

/// The failure of a Status.
llvm::Error toError(const Status &status);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_BUNDLE_BUNDLECOMPILER_H
