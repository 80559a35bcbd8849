// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The work on one kernel: mapping onto a target, then code for each of its forms. Jobs are
// independent, and so are the forms of a job, so threads may run them.

#ifndef TILEWRIGHT_LIB_BUNDLE_KERNELJOB_H
#define TILEWRIGHT_LIB_BUNDLE_KERNELJOB_H

#include "lib/Codegen/GpuCompiler.h"
#include "runtime/Manifest.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ThreadPool.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::bundle {

/// Code that is compiled as one piece.
struct CodeUnit {
  tgpu::CodeForms forms = tgpu::CodeForms::All;
  std::vector<runtime::KernelSpec> kernels; ///< without `codes`
  int ptxVersion = 0;
  std::string ptx, cubin; ///< no cubin: there is no ptxas, or none was requested
  std::vector<KernelResources> resources;
  std::vector<mlir::Diagnostic> said;
  std::optional<std::string> error;

  /// Takes the code of a unit of equal text; diagnostics and resources are not repeated.
  void takeCode(const CodeUnit &other);
};

class KernelJob {
public:
  /// The module has the kernel and what it reaches; or several kernels, whose code is one unit. If
  /// `ptx` is not empty, it replaces the code of the module.
  KernelJob(mlir::OwningOpRef<mlir::ModuleOp> module, GpuOptions gpu, std::string ptx);

  /// Maps the module, and lists the units of code, with their kernels. Then either `mapped` is set,
  /// or `error`.
  void map();
  /// Makes the code of a unit, and adds its static shared memory to the kernels.
  void makeCode(CodeUnit &unit, bool assemble) const;
  /// Emits the diagnostics of the mapping and of the code, and warnings about spills; once.
  void emitDiagnostics();

  /// The text on which the code depends: of kernels that are equal but for the parameters that they
  /// were bound to and for the launches that they are for, it is the same.
  std::string describeCode() const;

  /// The message of the first error of the mapping; empty if there is none.
  std::string getFirstError() const;
  bool hasRoles() const;
  bool hasTensorMaps() const;
  /// Whether it copies captures by tensor maps.
  bool copiesCaptures() const;

  const GpuOptions gpu;
  std::vector<CodeUnit> units; ///< in order of preference
  std::optional<std::string> error;
  mlir::OwningOpRef<mlir::ModuleOp> mapped;

private:
  llvm::Error addUnits();
  llvm::Expected<std::string> emit(CodeUnit &unit) const;

  mlir::MLIRContext *context;
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< null once it is mapped
  std::string ptx;                          ///< if not empty, the given code
  std::vector<mlir::Diagnostic> said;
  std::optional<SpillWarnings> spills;
  bool hasEmitted = false;
};

/// A job whose code is wanted: PTX, and a cubin if it is to be assembled.
struct WantedCode {
  KernelJob *job;
  bool assemble;
};

/// Jobs, of which those of equal text and options are one.
class JobList {
public:
  /// `pool` is null if jobs are done one after the other.
  explicit JobList(llvm::ThreadPoolInterface *pool) : pool(pool) {}

  /// `kernel` is null for a job of the whole module.
  std::shared_ptr<KernelJob> add(mlir::ModuleOp module, mlir::Operation *kernel,
                                 const GpuOptions &gpu, const std::string &ptx = "");
  /// Maps all jobs that are not mapped yet.
  void map();
  /// Makes the code of these jobs, as far as it does not exist yet. A job may be wanted more than
  /// once, and is assembled if one of these asks for it. With `preferredOnly`, only of the first
  /// unit of each; the others are removed.
  void makeCode(llvm::ArrayRef<WantedCode> wanted, bool preferredOnly);

private:
  llvm::ThreadPoolInterface *pool;
  llvm::StringMap<std::shared_ptr<KernelJob>> known;
  std::vector<std::pair<size_t, KernelJob *>> pending; ///< with the size of its text
};

} // namespace tilewright::bundle

#endif // TILEWRIGHT_LIB_BUNDLE_KERNELJOB_H
