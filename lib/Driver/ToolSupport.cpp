// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Diagnostics, exit codes and requests of the tools.

#include "lib/Driver/ToolSupport.h"

#include "dialect/Tile/Suggest.h"
#include "lib/Driver/BindingOptions.h"
#include "lib/Driver/Progress.h"
#include "lib/Support/MakeError.h"
#include "passes/Tile/LinkLibraries.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

namespace tilewright {

ExitCode reportFailure(llvm::StringRef tool, const llvm::Twine &message) {
  Progress::hide();
  llvm::WithColor::error(llvm::errs(), tool) << message << '\n';
  return exitFailed;
}

ExitCode reportFailure(llvm::StringRef tool, llvm::Error error) {
  return reportFailure(tool, llvm::toString(std::move(error)));
}

ExitCode reportUsage(llvm::StringRef tool, const llvm::Twine &message) {
  reportFailure(tool, message);
  return exitUsage;
}

ExitCode reportUsage(llvm::StringRef tool, llvm::Error error) {
  return reportUsage(tool, llvm::toString(std::move(error)));
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

struct DiagnosticPrinter::Impl {
  Impl(mlir::MLIRContext &context, llvm::StringRef tool)
      : tool(tool.str()), printer(sources, &context, llvm::errs()),
        filter(&context, [this](mlir::Diagnostic &diagnostic) { return handle(diagnostic); }) {}

  /// Returning success prevents the previous handler, which prints, from seeing a diagnostic.
  mlir::LogicalResult handle(mlir::Diagnostic &diagnostic) {
    Progress::hide();
    switch (diagnostic.getSeverity()) {
    case mlir::DiagnosticSeverity::Error: {
      bool first = !sawError;
      sawError = true;
      if (!first)
        return mlir::success();
      // MLIR's parser does not know tiles: its errors about their literals lack the remedy.
      if (llvm::StringRef(diagnostic.str()).starts_with("elements literal"))
        diagnostic << "; a constant tile is tile.full of a scalar constant";
      addConversion(diagnostic);
      addOperation(diagnostic, *diagnostic.getLocation().getContext());
      addSource(diagnostic);
      addLibraryTexts(diagnostic);
      if (!isOfSources(diagnostic)) {
        printWithoutSource(diagnostic);
        return mlir::success();
      }
      mlir::Location location = diagnostic.getLocation();
      auto place = mlir::dyn_cast<mlir::FileLineColLoc>(location);
      if (!mlir::isa<mlir::UnknownLoc>(location) && !(place && place.getLine() == 0))
        return mlir::failure();
      // An error about a whole file has no line.
      reportFailure(place ? place.getFilename().getValue() : llvm::StringRef(tool),
                    diagnostic.str());
      return mlir::success();
    }
    case mlir::DiagnosticSeverity::Warning:
      addLibraryTexts(diagnostic);
      if (isOfSources(diagnostic))
        return mlir::failure();
      printWithoutSource(diagnostic);
      return mlir::success();
    case mlir::DiagnosticSeverity::Note:
    case mlir::DiagnosticSeverity::Remark:
      return mlir::success();
    }
    return mlir::success();
  }

  /// The conversion between the two types of a value, of which MLIR's parser knows none.
  static void addConversion(mlir::Diagnostic &diagnostic) {
    llvm::SmallVector<mlir::Type> types;
    for (const mlir::DiagnosticArgument &argument : diagnostic.getArguments())
      if (argument.getKind() == mlir::DiagnosticArgument::DiagnosticArgumentKind::Type)
        types.push_back(argument.getAsType());
    std::string text = diagnostic.str();
    bool isOfUse = llvm::StringRef(text).contains("expects different type than prior");
    llvm::StringRef value = llvm::StringRef(text).split('\'').second.split('\'').first;
    if (isOfUse && types.size() == 2)
      diagnostic << tile::suggestConversion(types[1], types[0], /*inFormula=*/false, value);
  }

  /// The operation that was meant in place of an unknown one of another dialect than tile, whose
  /// parser tells it.
  static void addOperation(mlir::Diagnostic &diagnostic, mlir::MLIRContext &context) {
    std::string text = diagnostic.str();
    llvm::StringRef rest = text, name;
    if (!rest.consume_front("custom op '") || !rest.consume_back("' is unknown"))
      return;
    name = rest;
    llvm::StringRef similar = tile::findSimilarOperation(name, context);
    if (!similar.empty())
      diagnostic << "; did you mean '" << similar << "'?";
  }

  /// The rest of the line at the place of a diagnostic.
  std::string getLineAt(mlir::Diagnostic &diagnostic) const {
    auto place = mlir::dyn_cast<mlir::FileLineColLoc>(diagnostic.getLocation());
    if (!place || place.getLine() == 0 || place.getColumn() == 0)
      return "";
    llvm::StringRef file = place.getFilename(), text;
    std::unique_ptr<llvm::MemoryBuffer> read;
    for (unsigned i = 1; i <= sources.getNumBuffers(); ++i)
      if (sources.getMemoryBuffer(i)->getBufferIdentifier() == file)
        text = sources.getMemoryBuffer(i)->getBuffer();
    if (text.empty() && file.ends_with(".mlir"))
      if (auto buffer = llvm::MemoryBuffer::getFile(file)) {
        read = std::move(*buffer);
        text = read->getBuffer();
      }
    for (unsigned line = 1; line < place.getLine(); ++line)
      text = text.split('\n').second;
    text = text.split('\n').first;
    return text.drop_front(std::min<size_t>(place.getColumn() - 1, text.size())).str();
  }

  /// What MLIR's parser does not say: the name that is not defined, and that operations of other
  /// dialects take values, not formulas.
  void addSource(mlir::Diagnostic &diagnostic) const {
    std::string message = diagnostic.str();
    if (message == "use of undeclared SSA value name") {
      std::string line = getLineAt(diagnostic);
      auto isName = [](char c) { return llvm::isAlnum(c) || llvm::StringRef("_.$-#").contains(c); };
      llvm::StringRef rest(line);
      if (rest.consume_front("%"))
        diagnostic << " '%" << rest.take_while(isName) << "'; correct it, or define it above";
    } else if (message == "expected ':'") {
      std::string line = getLineAt(diagnostic);
      llvm::StringRef rest = llvm::StringRef(line).ltrim();
      if (!rest.empty() && llvm::StringRef("+-*/<>").contains(rest.front()) &&
          !rest.starts_with("->") && !rest.starts_with("//"))
        diagnostic << ", but got '" << rest.take_front()
                   << "'; this operation takes values: write a statement '%x = tile.expr ...' "
                      "before it, or tile.yield for scf.yield";
    }
  }

  void addText(llvm::StringRef name, llvm::StringRef text) {
    if (texts.insert(name).second)
      sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, name), llvm::SMLoc());
  }

  /// Names in locations that are not files: MLIR's handler finds buffers by their names.
  void addLibraryTexts(mlir::Diagnostic &diagnostic) {
    auto add = [&](mlir::Location location) {
      location->walk([&](mlir::Location part) {
        auto place = mlir::dyn_cast<mlir::FileLineColLoc>(part);
        llvm::StringRef name = place ? place.getFilename().getValue() : llvm::StringRef();
        llvm::StringRef inner = name;
        if (inner.consume_front(embeddedFolder))
          if (std::optional<llvm::StringRef> text = findLibraryText(inner))
            addText(name, *text);
        return mlir::WalkResult::advance();
      });
    };
    add(diagnostic.getLocation());
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      add(note.getLocation());
  }

  /// Whether lines of all files that the diagnostic names may be shown. A kernel file can name any
  /// file in a `loc`, including files that the reader of the message must not see.
  bool isOfSources(mlir::Diagnostic &diagnostic) {
    auto isSource = [&](mlir::Location location) {
      return !location
                  ->walk([&](mlir::Location part) {
                    auto place = mlir::dyn_cast<mlir::FileLineColLoc>(part);
                    llvm::StringRef name = place ? place.getFilename().getValue() : "";
                    bool isShown = name.empty() || name.ends_with(".mlir") || texts.contains(name);
                    return isShown ? mlir::WalkResult::advance() : mlir::WalkResult::interrupt();
                  })
                  .wasInterrupted();
    };
    return isSource(diagnostic.getLocation()) &&
           llvm::all_of(diagnostic.getNotes(),
                        [&](mlir::Diagnostic &note) { return isSource(note.getLocation()); });
  }

  void printWithoutSource(mlir::Diagnostic &diagnostic) {
    std::string where;
    diagnostic.getLocation()->walk([&](mlir::Location part) {
      auto place = mlir::dyn_cast<mlir::FileLineColLoc>(part);
      if (!place)
        return mlir::WalkResult::advance();
      where = place.getFilename().str() + ":" + std::to_string(place.getLine()) + ":" +
              std::to_string(place.getColumn());
      return mlir::WalkResult::interrupt();
    });
    bool isError = diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
    (isError ? llvm::WithColor::error(llvm::errs(), where)
             : llvm::WithColor::warning(llvm::errs(), where))
        << diagnostic.str() << '\n';
  }

  std::string tool;
  llvm::StringSet<> texts; ///< names of buffers among the sources
  bool sawError = false;
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler printer;
  mlir::ScopedDiagnosticHandler filter; // the handler registered last is called first
};

DiagnosticPrinter::DiagnosticPrinter(mlir::MLIRContext &context, llvm::StringRef tool)
    : impl(std::make_unique<Impl>(context, tool)) {
  context.printOpOnDiagnostic(false); // the source line shows it
}
DiagnosticPrinter::~DiagnosticPrinter() = default;
bool DiagnosticPrinter::sawError() const { return impl->sawError; }
void DiagnosticPrinter::keepStandardInput(llvm::StringRef text) { impl->addText("<stdin>", text); }

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

llvm::Error resolve(const CompileRequest &request, TilePipelineOptions &options, EntryKind &kind) {
  if (!request.kernel.empty() && !request.program.empty())
    return makeError("--kernel and --program are mutually exclusive, but got both; leave one out");
  kind = !request.kernel.empty()    ? EntryKind::Kernel
         : !request.program.empty() ? EntryKind::Program
                                    : EntryKind::Any;
  options.entry = request.kernel + request.program;
  options.with = request.with;
  options.fastMath = request.fastMath;
  options.keepDebug = request.debugOps;
  options.blocks = request.blocks;
  options.length = request.length;
  options.sums = request.sums;
  if (llvm::Error error = parseEach("--param", request.params, parseParam, options.params))
    return error;
  return llvm::Error::success();
}

std::string findKernelsFolder(const char *argv0, llvm::StringRef given) {
  if (!given.empty())
    return given.str();
  static int anchor; // any address in the executable
  std::string executable = llvm::sys::fs::getMainExecutable(argv0, &anchor);
  for (llvm::StringRef up : {"..", "../..", "../share/tilewright"}) {
    llvm::SmallString<128> folder = llvm::sys::path::parent_path(executable);
    llvm::sys::path::append(folder, up, "kernels", "attention_forward.mlir");
    llvm::sys::path::remove_dots(folder, /*remove_dot_dot=*/true);
    if (llvm::sys::fs::exists(folder))
      return llvm::sys::path::parent_path(folder).str();
  }
  return "";
}

Timing Timing::of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  size_t n = seconds.size();
  return {(seconds[(n - 1) / 2] + seconds[n / 2]) / 2, seconds.front(), seconds.back()};
}

double timeOf(llvm::function_ref<void()> body) {
  auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace tilewright
