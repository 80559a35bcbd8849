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
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ThreadPool.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tilewright {

/// One binding of an entry, for one target. The modules contain only the symbols that the entry
/// reaches, as after tile-specialize; they are not changed.
struct BundlePart {
  mlir::ModuleOp module;
  GpuOptions gpu;
  std::string ptx = ""; ///< if not empty, replaces the code of the module
  /// The same entry, bound for limited lengths of its loops: preferred where their conditions hold.
  std::vector<mlir::ModuleOp> shorter = {};
  /// Whether the part is left out, without a diagnostic, unless `module` can be mapped and a kernel
  /// then has roles.
  bool needsRoles = false;
  /// The part only adds code for views that no tensor map can describe: PTX, left out without a
  /// diagnostic if no kernel of the parts before has a tensor map, or if a kernel cannot be mapped.
  bool isForOtherViews = false;
  /// Binds the entry again, with blocks that take at most this many bytes of shared memory; null if
  /// these are the blocks of the module. The result must live until addToBundle returns.
  std::function<mlir::ModuleOp(int64_t)> bindSmaller = nullptr;
  /// Binds the entry again, without additions in order, which require roles: whether a kernel has
  /// them is known only once it is mapped. Called if a kernel cannot be mapped, null if the module
  /// does not add in order, or must. The result is null if there is no other form, and must live
  /// until addToBundle returns.
  std::function<mlir::ModuleOp()> bindUnordered = nullptr;
};

/// How much code a bundle gets.
struct BundleScope {
  bool assemble = true; ///< with a cubin for exactly the target, if this machine has a ptxas
  /// Only the preferred form of each kernel: none for views that are not aligned.
  bool preferredOnly = false;
  /// Bytes of shared memory that a block may have on the only device for which the bundle is made;
  /// 0: on any device of the target.
  int64_t sharedLimit = 0;
};

/// By kernel: why it has no code for a target, if it would have no roles there.
using LeftOut = llvm::StringMap<std::vector<std::string>>;

/// Adds the kernels, and the program if there is one, of an entry that was bound once for each
/// target, in the order of preference at run time: exact targets first. Calls for other bindings
/// add variants. A program has a form for each, and the same arguments for all. If kernels need
/// more shared memory than smaller chips of their target have, a form that these chips can run,
/// without rings or with smaller blocks, is added last, if there is one. On targets with roles,
/// kernels that can copy captures by tensor maps are added in that form first. Kernels are compiled
/// by the threads of the context, if it has threads. `leftOut` goes from call to call of an entry;
/// its texts become remarks of the kernels.
///
/// Errors: those of the compiler (whose diagnostics the context emits); a fill that no 32-bit
/// pattern can write; a tensor map over anything but an argument; those of Manifest::finalize. The
/// manifest is then unchanged.
llvm::Error addToBundle(runtime::BundleWriter &bundle, llvm::ArrayRef<BundlePart> parts,
                        const BundleScope &scope = {}, LeftOut *leftOut = nullptr);

/// Threads for jobs of a context, unless the stages of the compilation are written or a crash must
/// be reproduced. While it exists, the context is ready for them.
class ThreadedContext {
public:
  explicit ThreadedContext(mlir::MLIRContext &context);
  ~ThreadedContext();

  /// Null: there are none.
  llvm::ThreadPoolInterface *getPool() const;

private:
  mlir::MLIRContext &context;
  std::unique_ptr<llvm::ThreadPoolInterface> pool; ///< null if the context had threads before
};

/// The failure of a Status.
llvm::Error toError(const Status &status);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_BUNDLE_BUNDLECOMPILER_H
