// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-run: compiles one kernel or program of a file and runs it on .npy files.

#include "dialect/Tile/TextInput.h"
#include "lib/Driver/CompileOptions.h"
#include "lib/Driver/Progress.h"
#include "lib/Driver/ReproducerWriter.h"
#include "lib/Support/MakeError.h"
#include "runtime/Bundle.h"
#include "tools/tilewright-run/Compare.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"

using namespace tilewright;

namespace cl = llvm::cl;

static constexpr llvm::StringLiteral tool = "tilewright-run";
static constexpr llvm::StringLiteral reproducerEnding = ".repro";

namespace {

struct RunCommandLine {
  explicit RunCommandLine(cl::OptionCategory &category)
      : compile(category),
        device("device",
               cl::desc("Device: cpu (the default), cuda[:N], auto (a GPU if there is one), "
                        "or sim: and a target (a simulated thread block)"),
               cl::init("cpu"), cl::value_desc(deviceWords()), cl::cat(category)),
        compare("compare",
                cl::desc("Run twice, print where the results differ, and exit with 1 if they do; a "
                         "side is DEVICE[+NAME=VALUE]..., where NAME is an option for this side: "
                         "file, with, param, fast-math, blocks, length, sums, target, schedule, "
                         "warps or precision"),
                cl::value_desc("A,B"), cl::cat(category)),
        tolerance("tolerance",
                  cl::desc("Tolerance of --compare, relative to the larger element and absolute; "
                           "by default chosen by element type"),
                  cl::value_desc("REL[,ABS]"), cl::cat(category)),
        saveReproducer("save-reproducer",
                       cl::desc("Before the run, write the kernel, the files that it links and all "
                                "options to a file; tilewright-run FILE.repro repeats the run"),
                       cl::value_desc("FILE.repro"), cl::cat(category)),
        embedData("embed-data",
                  cl::desc("With --save-reproducer: include .npy files of up to 1 MiB; without it, "
                           "floats are replaced by random numbers"),
                  cl::cat(category)),
        target("target", cl::desc("Target of code for a GPU; by default that of the device"),
               cl::value_desc(targetWords()), cl::cat(category)),
        schedule("schedule", cl::desc("Override a decision about loops on a GPU"),
                 cl::value_desc("KEY=VALUE"), cl::cat(category)),
        warps("warps", cl::desc("Warps per thread block on a GPU; 0: chosen by the compiler"),
              cl::init(GpuOptions().warps), cl::value_desc("n"), cl::cat(category)),
        precision("precision", cl::desc("f64: compute all floats in f64, without rounding"),
                  cl::value_desc("f64"), cl::cat(category)),
        in("in",
           cl::desc("Array that the kernel reads; NAME=random[:TYPE]@DIMxDIM... is filled with "
                    "normally distributed numbers"),
           cl::value_desc("NAME=x.npy[:TYPE]"), cl::cat(category)),
        out("out", cl::desc("Array of this shape that the kernel writes"),
            cl::value_desc("NAME=y.npy[:TYPE]@DIMxDIM..."), cl::cat(category)),
        inout("inout", cl::desc("Array that the kernel reads and writes"),
              cl::value_desc("NAME=x.npy[:TYPE]=y.npy"), cl::cat(category)),
        scalars("scalar", cl::desc("Scalar argument"), cl::value_desc("NAME=VALUE"),
                cl::cat(category)),
        strides("strides",
                cl::desc("Strides of an array in memory, in elements; row-major by default"),
                cl::value_desc("NAME=s0,s1,..."), cl::cat(category)),
        checkIndices("check-indices",
                     cl::desc("On a GPU, check the elements of index arrays on the device before "
                              "each launch, including arrays that launches write and those of "
                              "mapped kernels; on other devices they are always checked"),
                     cl::cat(category)),
        timeline("timeline",
                 cl::desc("Write a trace for Perfetto: the times of waits, copies, products and "
                          "stores of each warpgroup on a GPU"),
                 cl::value_desc("trace.json"), cl::cat(category)),
        timelineMib("timeline-mib",
                    cl::desc("Size of the buffer for --timeline (1); blocks for which it has no "
                             "room are omitted"),
                    cl::init(1), cl::value_desc("MiB"), cl::cat(category)),
        repeat("repeat", cl::desc("Run this many times and print the median time"), cl::init(0),
               cl::value_desc("count"), cl::cat(category)),
        quiet("quiet", cl::desc("Do not show progress"), cl::cat(category)),
        seed("seed", cl::desc("Seed of random arrays, and of the simulator's order of events"),
             cl::init(0), cl::value_desc("number"), cl::cat(category)) {}

  /// Everything the options say of a run.
  llvm::Expected<FileRunRequest> request() const {
    FileRunRequest request;
    request.file = compile.file;
    request.compile = compile.request();
    request.device = device;
    request.target = target;
    request.warps = warps;
    request.schedule.assign(schedule.begin(), schedule.end());
    request.checksIndices = checkIndices;
    request.timelineFile = timeline;
    if (!precision.empty() && precision != "f64")
      return makeError("--precision: expected f64 but got '" + precision + "'");
    constexpr int64_t mostMib = 4096;
    if (timelineMib < 1 || timelineMib > mostMib)
      return makeError("--timeline-mib: expected 1 to " + llvm::Twine(mostMib) + " but got " +
                       llvm::Twine(timelineMib));
    request.timelineBytes = timelineMib << 20;
    BindingRequest &binding = request.binding;
    binding.f64 = precision == "f64";
    binding.seed = seed;
    if (llvm::Error error = parseEach("--in", in, parseIn, binding.arrays))
      return error;
    if (llvm::Error error = parseEach("--inout", inout, parseInOut, binding.arrays))
      return error;
    if (llvm::Error error = parseEach("--out", out, parseOut, binding.arrays))
      return error;
    if (llvm::Error error = parseEach("--scalar", scalars, parseScalar, binding.scalars))
      return error;
    if (llvm::Error error = parseEach("--strides", strides, parseStrides, binding.strides))
      return error;
    return request;
  }

  CompileOptions compile;
  cl::opt<std::string> device, compare, tolerance, saveReproducer;
  cl::opt<bool> embedData;
  cl::opt<std::string> target;
  cl::list<std::string> schedule;
  cl::opt<int64_t> warps;
  cl::opt<std::string> precision;
  cl::list<std::string> in, out, inout, scalars, strides;
  cl::opt<bool> checkIndices;
  cl::opt<std::string> timeline;
  cl::opt<int64_t> timelineMib;
  cl::opt<int> repeat;
  cl::opt<bool> quiet;
  cl::opt<uint64_t> seed;
};

} // namespace

/// REL, or REL,ABS.
static llvm::Expected<Tolerance> parseTolerance(llvm::StringRef text) {
  auto [relative, absolute] = text.split(',');
  Tolerance tolerance;
  auto isWrong = [](llvm::StringRef text, double &value) {
    return text.getAsDouble(value) || !(value >= 0);
  };
  if (isWrong(relative, tolerance.relative) ||
      (text.contains(',') && isWrong(absolute, tolerance.absolute)))
    return makeError(
        "--tolerance: expected RELATIVE or RELATIVE,ABSOLUTE, numbers from 0, but got '" + text +
        "'");
  return tolerance;
}

static ExitCode compare(const RunCommandLine &commandLine, const FileRunRequest &request,
                        mlir::MLIRContext &context) {
  for (const auto &[option, occurs] :
       {std::pair("--device", commandLine.device.getNumOccurrences()),
        std::pair("--repeat", commandLine.repeat.getNumOccurrences()),
        std::pair("--timeline", commandLine.timeline.getNumOccurrences())})
    if (occurs)
      return reportUsage(tool,
                         llvm::Twine("--compare must be without the options of one run, but got ") +
                             option + "; leave it out");
  std::optional<Tolerance> tolerance;
  if (!commandLine.tolerance.empty()) {
    llvm::Expected<Tolerance> parsed = parseTolerance(commandLine.tolerance);
    if (!parsed)
      return reportUsage(tool, parsed.takeError());
    tolerance = *parsed;
  }
  llvm::Expected<std::array<ComparedSide, 2>> sides = parseCompare(commandLine.compare, request);
  if (!sides)
    return reportUsage(tool, sides.takeError());
  return compareRuns(tool, context, *sides, tolerance, commandLine.quiet, llvm::outs());
}

/// Writes what the run needs, before anything can go wrong with it.
static ExitCode saveReproducer(const RunCommandLine &commandLine, const FileRunRequest &run,
                               mlir::MLIRContext &context) {
  const std::string &path = commandLine.saveReproducer;
  if (!llvm::StringRef(path).ends_with(reproducerEnding))
    return reportUsage(tool, "--save-reproducer: expected a name that ends with .repro but got '" +
                                 path + "'");
  if (run.file == "-")
    return reportUsage(tool,
                       "--save-reproducer: standard input can be read only once; give a file");
  ReproducerRequest request;
  request.run = run;
  request.compare = commandLine.compare;
  request.tolerance = commandLine.tolerance;
  request.embedsData = commandLine.embedData;
  llvm::Expected<std::unique_ptr<FileRun>> probe = FileRun::create(context, run);
  if (!probe)
    return reportUsage(tool, probe.takeError());
  {
    // The run reports errors of the file.
    mlir::ScopedDiagnosticHandler silence(&context, [](mlir::Diagnostic &) {});
    llvm::consumeError((*probe)->read());
  }
  request.params = (*probe)->getOptions().params;
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> text = readText(run.file);
  if (!text)
    return reportFailure(tool,
                         "cannot open '" + run.file + "': " + llvm::toString(text.takeError()));
  request.text = (*text)->getBuffer().str();
  std::vector<std::string> replaced;
  llvm::Expected<Reproducer> reproducer = makeReproducer(request, replaced);
  if (!reproducer)
    return reportFailure(tool, reproducer.takeError());
  if (Status status = runtime::writeFileAtomically(path, reproducer->print()); !status)
    return reportFailure(tool, status.message());
  for (const std::string &name : replaced)
    llvm::WithColor::note(llvm::errs(), tool)
        << "in the reproducer random numbers stand for those of '" << name
        << "'; --embed-data keeps them\n";
  return exitDone;
}

/// The command line with a reproducer that it names taken apart, whose files live as long as
/// `unpacked`.
static llvm::Error expandReproducer(std::vector<std::string> &arguments,
                                    std::optional<UnpackedReproducer> &unpacked) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    llvm::StringRef argument = arguments[i];
    if (argument.starts_with("-") || !argument.ends_with(reproducerEnding) ||
        llvm::StringRef(arguments[i - 1]).ltrim('-') == "save-reproducer")
      continue;
    llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> text = readText(argument);
    if (!text)
      return makeError("cannot open '" + argument + "': " + llvm::toString(text.takeError()));
    llvm::Expected<Reproducer> reproducer = Reproducer::parse((*text)->getBuffer());
    if (!reproducer)
      return makeError(argument + ": " + llvm::toString(reproducer.takeError()));
    llvm::Expected<UnpackedReproducer> files = UnpackedReproducer::create(*reproducer);
    if (!files)
      return files.takeError();
    unpacked.emplace(std::move(*files));
    arguments.erase(arguments.begin() + i);
    llvm::SmallVector<llvm::StringRef> given(arguments.begin() + 1, arguments.end());
    std::vector<std::string> options = unpacked->getOptions(*reproducer, given);
    arguments.insert(arguments.begin() + 1, options.begin(), options.end());
    return llvm::Error::success();
  }
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::OptionCategory category("tilewright-run");
  RunCommandLine commandLine(category);
  std::vector<std::string> arguments(argv, argv + argc);
  std::optional<UnpackedReproducer> unpacked;
  if (llvm::Error error = expandReproducer(arguments, unpacked))
    return reportFailure(tool, std::move(error));
  llvm::SmallVector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  if (!parseOptions(static_cast<int>(pointers.size()), pointers.data(), category,
                    "Runs a kernel or program on .npy files.\n\nTYPE (f64, f32, f16, bf16, e4m3, "
                    "e5m2, i64, i32, i1, i8) is the element type in the kernel.\n",
                    {"tilewright-run kernels/row_softmax.mlir --param T=f32 --scalar scale=1 "
                     "--in x=random@40x70 --out y=y.npy@40x70",
                     "tilewright-run kernels/row_softmax.mlir --param T=f32 --scalar scale=1 "
                     "--in x=random@40x70 --out y=y.npy@40x70 --compare=cpu,sim:sm_90a"}))
    return exitUsage;
  llvm::Expected<FileRunRequest> request = commandLine.request();
  if (!request)
    return reportUsage(tool, request.takeError());
  bool timed = commandLine.repeat.getNumOccurrences() != 0;
  if (timed && commandLine.repeat < 1)
    return reportUsage(tool, "--repeat: expected a count of at least 1 but got " +
                                 llvm::Twine(commandLine.repeat));

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  if (commandLine.embedData && commandLine.saveReproducer.empty())
    return reportUsage(tool,
                       "--embed-data requires --save-reproducer=FILE.repro, but it is not given");
  if (!commandLine.saveReproducer.empty())
    if (ExitCode code = saveReproducer(commandLine, *request, context))
      return code;
  if (!commandLine.compare.empty())
    return compare(commandLine, *request, context);
  if (!commandLine.tolerance.empty())
    return reportUsage(tool, "--tolerance requires --compare=A,B, but it is not given");

  DiagnosticPrinter diagnostics(context, tool);
  llvm::Expected<std::unique_ptr<FileRun>> run = FileRun::create(context, std::move(*request));
  if (!run)
    return reportUsage(tool, run.takeError());
  auto fail = [&](llvm::Error error) {
    if (!diagnostics.sawError())
      return reportFailure(tool, std::move(error));
    llvm::consumeError(std::move(error)); // the diagnostic says it better
    return exitFailed;
  };
  if (llvm::Error error = (*run)->read(&diagnostics))
    return fail(std::move(error));
  std::optional<Progress> progress(std::in_place, tool, commandLine.quiet);
  progress->show("compiles for " + (*run)->getRequest().device);
  if (llvm::Error error = (*run)->compile())
    return fail(std::move(error));
  std::vector<double> seconds;
  for (int i = 0, runs = timed ? commandLine.repeat : 1; i < runs; ++i) {
    progress->show("run " + llvm::Twine(i + 1) + " of " + llvm::Twine(runs));
    llvm::Expected<double> time = (*run)->run();
    if (!time)
      return fail(time.takeError());
    seconds.push_back(*time);
  }
  progress.reset();
  if (llvm::Error error = (*run)->getBinding().writeResults())
    return reportFailure(tool, std::move(error));
  if (timed)
    llvm::outs() << llvm::format("median of %zu runs: %.3f ms\n", seconds.size(),
                                 Timing::of(seconds).median * 1e3);
  return exitDone;
}
