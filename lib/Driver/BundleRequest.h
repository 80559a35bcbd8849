// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a file to a bundle: one entry, for several targets and bindings.

#ifndef TILEWRIGHT_LIB_DRIVER_BUNDLEREQUEST_H
#define TILEWRIGHT_LIB_DRIVER_BUNDLEREQUEST_H

#include "lib/Bundle/BundleCompiler.h"
#include "lib/Codegen/Report.h"
#include "lib/Driver/Compiler.h"

#include "llvm/Support/MemoryBufferRef.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tilewright {

struct DeviceCapability {
  int major = 0, minor = 0;

  /// Whether code for the target runs there.
  bool mayUse(const Target &target) const {
    auto own = std::pair(major, minor), wanted = std::pair(target.major, target.minor);
    return target.isExact ? own == wanted : own >= wanted;
  }
  /// The target whose code suits it best; null if it is older than all.
  const Target *getTarget() const { return Target::forDevice(major, minor); }
};

struct BundleRequest {
  using Params = std::vector<std::pair<std::string, std::string>>;

  TilePipelineOptions options; ///< parameters that all variants have in common
  EntryKind kind = EntryKind::Any;
  /// In any order. None: the default target, or that of `device`, and those with roles for kernels
  /// with a schedule of roles there. If all of them have roles, the code of kernels with tensor
  /// maps is followed by that for the default target, for other views.
  std::vector<std::string> targets;
  /// If set, `targets` are those that this device prefers: the first for which there is code.
  std::optional<DeviceCapability> device;
  std::vector<Params>
      variants;   ///< parameters of each variant; empty: one variant without additional parameters
  GpuOptions gpu; ///< its target is ignored
  BundleScope scope;
  llvm::raw_ostream *report = nullptr; ///< receives the report of each variant for each target
  ReportLength reportLength = ReportLength::Full;
  std::string ptx; ///< code for the only variant and target
  /// If set, called when a step begins, with its name.
  std::function<void(const std::string &)> progress;
};

/// "D=64,T=f16".
llvm::Expected<BundleRequest::Params> parseVariant(llvm::StringRef text);

/// The bytes of the bundle. The source may also be a module of tgpu, which is what --emit=tgpu
/// printed, edited or not: then there is one variant.
/// Errors: what the compiler rejects, emitted through the context; what
/// addToBundle and a reader of bundles reject; two variants with the same parameters.
llvm::Expected<std::string> compileBundle(mlir::MLIRContext &context, llvm::MemoryBufferRef source,
                                          const BundleRequest &request);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_BUNDLEREQUEST_H
