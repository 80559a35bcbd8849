// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-run: compiles one kernel or program of a file and runs it on .npy files.

#include "dialect/Tile/TextInput.h"
#include "lib/Driver/CompileOptions.h"
#include "lib/Driver/DeviceRun.h"
#include "lib/Driver/MappedModule.h"
#include "lib/Driver/NpyBinding.h"
#include "lib/Driver/ParamInference.h"
#include "runtime/TimelineFormat.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace tilewright;

namespace cl = llvm::cl;

static constexpr llvm::StringLiteral tool = "tilewright-run";

namespace {

struct RunCommandLine {
  explicit RunCommandLine(cl::OptionCategory &category)
      : compile(category),
        device("device",
               cl::desc("Where to run: cpu (the default), cuda[:N], auto (a GPU if there is one), "
                        "or sim: and a target (a simulated block of threads)"),
               cl::init("cpu"), cl::value_desc("name"), cl::cat(category)),
        target("target", cl::desc("The target of code for a GPU; by default what the device is"),
               cl::value_desc("name"), cl::cat(category)),
        schedule("schedule", cl::desc("Overrides a decision about loops on a GPU"),
                 cl::value_desc("KEY=VALUE"), cl::cat(category)),
        warps("warps", cl::desc("Warps of a thread block on a GPU; 0: by the kernel's products"),
              cl::init(GpuOptions().warps), cl::value_desc("n"), cl::cat(category)),
        precision("precision", cl::desc("f64: hold every float in f64 and round nothing"),
                  cl::value_desc("type"), cl::cat(category)),
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
        checkIndices(
            "check-indices",
            cl::desc(
                "On a GPU, check the elements of index arrays on the device before each launch, "
                "also those that launches write, and those of mapped kernels; elsewhere they "
                "are always checked"),
            cl::cat(category)),
        timeline(
            "timeline",
            cl::desc("Write when waits, copies, products and stores of each warpgroup ran on a "
                     "GPU: a trace for Perfetto"),
            cl::value_desc("trace.json"), cl::cat(category)),
        timelineMib(
            "timeline-mib",
            cl::desc("Size of the buffer for --timeline (1): the blocks that find no room in it "
                     "are left out"),
            cl::init(1), cl::value_desc("MiB"), cl::cat(category)),
        repeat("repeat", cl::desc("Run so many times and print the median time"), cl::init(0),
               cl::value_desc("count"), cl::cat(category)),
        seed("seed", cl::desc("Of random arrays, and of the simulator's order of events"),
             cl::init(0), cl::value_desc("number"), cl::cat(category)) {}

  /// Everything the options say about arguments.
  llvm::Expected<BindingRequest> request() const {
    BindingRequest request;
    request.f64 = precision == "f64";
    request.seed = seed;
    if (llvm::Error error = parseEach("--in", in, parseIn, request.arrays))
      return error;
    if (llvm::Error error = parseEach("--inout", inout, parseInOut, request.arrays))
      return error;
    if (llvm::Error error = parseEach("--out", out, parseOut, request.arrays))
      return error;
    if (llvm::Error error = parseEach("--scalar", scalars, parseScalar, request.scalars))
      return error;
    if (llvm::Error error = parseEach("--strides", strides, parseStrides, request.strides))
      return error;
    return request;
  }

  CompileOptions compile;
  cl::opt<std::string> device, target;
  cl::list<std::string> schedule;
  cl::opt<int64_t> warps;
  cl::opt<std::string> precision;
  cl::list<std::string> in, out, inout, scalars, strides;
  cl::opt<bool> checkIndices;
  cl::opt<std::string> timeline;
  cl::opt<int64_t> timelineMib;
  cl::opt<int> repeat;
  cl::opt<uint64_t> seed;
};

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::OptionCategory category("tilewright-run");
  RunCommandLine commandLine(category);
  if (!parseOptions(argc, argv, category,
                    "Runs a kernel or program on .npy files.\n\nTYPE (f64, f32, f16, bf16, e4m3, "
                    "e5m2, i64, i32, i1) is the element type in the kernel.\n"))
    return exitUsage;
  llvm::Expected<DeviceName> device = DeviceName::parse(commandLine.device);
  if (!device)
    return reportUsage(tool, "--device: " + llvm::toString(device.takeError()));
  if (!commandLine.target.empty()) {
    if (llvm::Expected<const Target &> known = findTarget(commandLine.target); !known)
      return reportUsage(tool, known.takeError());
    if (device->kind != DeviceName::Kind::Cuda)
      return reportUsage(tool,
                         "--target: only cuda can run code for another target, but the device "
                         "is " +
                             commandLine.device);
    device->target = commandLine.target;
  }
  if (!commandLine.precision.empty() && commandLine.precision != "f64")
    return reportUsage(tool, "--precision: expected f64 but got '" + commandLine.precision + "'");
  constexpr int64_t mostMib = 4096;
  if (commandLine.timelineMib < 1 || commandLine.timelineMib > mostMib)
    return reportUsage(tool, "--timeline-mib: expected 1 to " + llvm::Twine(mostMib) + " but got " +
                                 llvm::Twine(commandLine.timelineMib));
  bool timed = commandLine.repeat.getNumOccurrences() != 0;
  if (timed && commandLine.repeat < 1)
    return reportUsage(tool, "--repeat: expected a count of at least 1 but got " +
                                 llvm::Twine(commandLine.repeat));

  TilePipelineOptions options;
  EntryKind kind;
  if (llvm::Error error = resolve(commandLine.compile.request(), options, kind))
    return reportUsage(tool, std::move(error));
  llvm::Expected<BindingRequest> request = commandLine.request();
  if (!request)
    return reportUsage(tool, request.takeError());

  options.exactLiterals = request->f64;
  options.target = device->target;

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  DiagnosticPrinter diagnostics(context, tool);
  DeviceRunOptions runOptions;
  runOptions.f64 = request->f64;
  runOptions.seed = request->seed;
  runOptions.gpu.warps = commandLine.warps;
  runOptions.gpu.schedule = commandLine.schedule;
  runOptions.checksIndices = commandLine.checkIndices;
  runOptions.timelineFile = commandLine.timeline;
  runOptions.timelineBytes = commandLine.timelineMib << 20;
  if (!runOptions.timelineFile.empty())
    runOptions.gpu.timelineWords = timeline::defaultWords;
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readText(commandLine.compile.file);
  if (!buffer)
    return reportFailure(tool, "cannot open '" + commandLine.compile.file +
                                   "': " + llvm::toString(buffer.takeError()));
  mlir::OwningOpRef<mlir::ModuleOp> module = parseBuffer(context, **buffer);
  if (module && !isMapped(*module))
    if (llvm::Error error = inferParams(*module, options, *request))
      return reportFailure(tool, std::move(error));
  module = compileOrTakeMapped(std::move(module), **buffer, options, kind, runOptions.gpu);
  if (!module)
    return diagnostics.sawError() ? exitFailed : reportFailure(tool, "compilation failed");

  mlir::Operation *entry = chooseEntry(*module, options.entry, kind, **buffer);
  if (!entry)
    return exitFailed;
  llvm::Expected<NpyBinding> binding = NpyBinding::create(getArguments(entry), *request);
  if (!binding)
    return reportFailure(tool, binding.takeError());

  auto fail = [&](llvm::Error error) {
    if (!diagnostics.sawError())
      return reportFailure(tool, std::move(error));
    llvm::consumeError(std::move(error)); // the diagnostic says it better
    return exitFailed;
  };
  llvm::Expected<std::unique_ptr<DeviceRun>> run = DeviceRun::create(*device, entry, runOptions);
  if (!run)
    return fail(run.takeError());
  std::vector<double> seconds;
  for (int i = 0, runs = timed ? commandLine.repeat : 1; i < runs; ++i) {
    if (i > 0)
      binding->reset();
    llvm::Expected<double> time = (*run)->run(binding->getArguments());
    if (!time)
      return fail(time.takeError());
    seconds.push_back(*time);
  }
  if (llvm::Error error = binding->writeResults())
    return reportFailure(tool, std::move(error));
  if (timed)
    llvm::outs() << llvm::format("median of %zu runs: %.3f ms\n", seconds.size(),
                                 Timing::of(seconds).median * 1e3);
  return exitDone;
}
