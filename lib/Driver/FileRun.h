// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One run of an entry of a file, from the text of a command line to a prepared device:
// tilewright-run does this once, or twice to compare.

#ifndef TILEWRIGHT_LIB_DRIVER_FILERUN_H
#define TILEWRIGHT_LIB_DRIVER_FILERUN_H

#include "lib/Driver/DeviceRun.h"
#include "lib/Driver/NpyBinding.h"
#include "lib/Driver/ToolSupport.h"
#include "lib/Interpreter/StatedConditions.h"

#include "llvm/Support/MemoryBuffer.h"

#include <optional>

namespace tilewright {

struct FileRunRequest {
  std::string file;
  CompileRequest compile;
  BindingRequest binding;
  std::string device = "cpu"; ///< text for DeviceName::parse
  std::string target;         ///< target of code for a GPU; empty: that of the device
  int64_t warps = GpuOptions().warps;
  std::vector<std::string> schedule;
  bool checksIndices = false;
  std::string timelineFile;
  int64_t timelineBytes = DeviceRunOptions().timelineBytes;
};

class FileRun {
public:
  /// Parses the request. The context outlives the run. Errors: wrong usage of options.
  static llvm::Expected<std::unique_ptr<FileRun>> create(mlir::MLIRContext &context,
                                                         FileRunRequest request);

  /// Reads and parses the file, and infers parameters from the arrays. Errors may also be emitted
  /// through the context, here and below; `printer` receives the text of standard input.
  llvm::Error read(DiagnosticPrinter *printer = nullptr);
  /// Compiles, binds the arrays, and prepares the device. Precondition: read() succeeded.
  llvm::Error compile();
  /// Runs on the bound arrays. Returns the seconds that it took. Precondition: compile() succeeded.
  llvm::Expected<double> run(WatchList *watches = nullptr);

  const FileRunRequest &getRequest() const { return request; }
  /// With the inferred parameters, after read().
  const TilePipelineOptions &getOptions() const { return options; }
  /// The text of the file, after read().
  llvm::StringRef getText() const { return buffer->getBuffer(); }
  DeviceName::Kind getKind() const { return device.kind; }
  const NpyBinding &getBinding() const { return *binding; }

private:
  FileRun(mlir::MLIRContext &context, FileRunRequest request)
      : context(context), request(std::move(request)) {}

  /// Whether the arrays have a view that no tensor map can describe, for which a bundle has the
  /// code for the default target. Says so in a warning.
  bool takesOtherTarget(mlir::Operation *entry, GpuOptions gpu) const;

  mlir::MLIRContext &context;
  FileRunRequest request;
  DeviceName device;
  TilePipelineOptions options;
  EntryKind kind = EntryKind::Any;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  interpreter::StatedConditions stated; ///< of the entry, before parameters are bound
  std::optional<NpyBinding> binding;
  std::unique_ptr<DeviceRun> deviceRun;
  bool hasRun = false;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_FILERUN_H
