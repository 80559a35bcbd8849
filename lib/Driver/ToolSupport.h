// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared code of the tools' main functions: exit codes, diagnostics, the compile options and the
// location of the kernels.

#ifndef TILEWRIGHT_LIB_DRIVER_TOOLSUPPORT_H
#define TILEWRIGHT_LIB_DRIVER_TOOLSUPPORT_H

#include "lib/Driver/CommandLine.h"
#include "lib/Driver/Compiler.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace tilewright {

enum ExitCode : int { exitDone = 0, exitFailed = 1, exitUsage = 2 };

/// "tool: error: message" on standard error.
ExitCode reportUsage(llvm::StringRef tool, const llvm::Twine &message);
ExitCode reportUsage(llvm::StringRef tool, llvm::Error error);
ExitCode reportFailure(llvm::StringRef tool, const llvm::Twine &message);
ExitCode reportFailure(llvm::StringRef tool, llvm::Error error);

/// Prints the diagnostics of a context to standard error while it lives: warnings and the first
/// error, each with its notes and the line of source, so that one mistake gives one message.
/// Remarks are left out. Lines come from the .mlir files that locations name, from the compiler's
/// own library, and from standard input (keepStandardInput); of other files no line is shown.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext &context, llvm::StringRef tool);
  ~DiagnosticPrinter();
  bool sawError() const;
  /// Shows lines of this text if a location names standard input, which cannot be read again.
  void keepStandardInput(llvm::StringRef text);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// --kernel, --program, --param, --with and --fast-math as given.
struct CompileRequest {
  std::string kernel, program;
  std::vector<std::string> params, with;
  bool fastMath = false;
  std::string blocks;        ///< file of rows for block()
  int64_t length = 0;        ///< maximum length of loops for which blocks are chosen; 0: any
  std::string sums = "auto"; ///< TilePipelineOptions::sums
  bool debugOps = false;     ///< TilePipelineOptions::keepDebug
};

/// The options of compileFile. Errors: both a kernel and a program, malformed parameters.
llvm::Error resolve(const CompileRequest &request, TilePipelineOptions &options, EntryKind &kind);

/// Converts the texts of a repeated option to requests, up to the first error, which begins with
/// the option.
template <typename Parsed, typename Texts>
llvm::Error parseEach(llvm::StringRef option, const Texts &texts,
                      llvm::Expected<Parsed> (*parse)(llvm::StringRef),
                      std::vector<Parsed> &results) {
  for (llvm::StringRef text : texts) {
    llvm::Expected<Parsed> parsed = parse(text);
    if (!parsed)
      return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                     option + ": " + llvm::toString(parsed.takeError()));
    results.push_back(std::move(*parsed));
  }
  return llvm::Error::success();
}

/// The folder of the shipped kernels: `given` unless it is empty, else kernels/ next to bin/ (in
/// the package), else above the build tree. Empty if there is none.
std::string findKernelsFolder(const char *argv0, llvm::StringRef given);

/// The minimum, median and maximum of at least one time.
struct Timing {
  double median = 0.0, fastest = 0.0, slowest = 0.0; ///< seconds
  static Timing of(std::vector<double> seconds);
};

/// The seconds that `body` takes on a steady clock.
double timeOf(llvm::function_ref<void()> body);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_TOOLSUPPORT_H
