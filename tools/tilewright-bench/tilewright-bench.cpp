// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-bench: times attention and matrix products on the CPU or a GPU. Rounds of all cases
// are interleaved, so that a machine that slows down slows all of them.

#include "base/Numeric/Isa.h"
#include "base/Numeric/ThreadPool.h"
#include "lib/Driver/AttentionRun.h"
#include "lib/Driver/BindingOptions.h"
#include "lib/Driver/DeviceRun.h"
#include "lib/Driver/Progress.h"
#include "lib/Driver/ToolSupport.h"
#include "lib/Support/MakeError.h"
#include "tools/tilewright-bench/BenchRunner.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <random>

using namespace tilewright;

namespace cl = llvm::cl;

static constexpr llvm::StringLiteral tool = "tilewright-bench";

namespace {

struct BenchCommandLine {
  explicit BenchCommandLine(cl::OptionCategory &category)
      : operations("operation", cl::desc("attention, matmul"), cl::CommaSeparated,
                   cl::value_desc("operation,..."), cl::cat(category)),
        sizes("size", cl::desc("Rows, columns and depth of a matrix product"), cl::CommaSeparated,
              cl::value_desc("n,..."), cl::cat(category)),
        device("device", cl::desc("Device: cpu (the default), cuda[:N], auto"), cl::init("cpu"),
               cl::value_desc("cpu|cuda|auto"), cl::cat(category)),
        target("target", cl::desc("Target of code for a GPU; by default that of the device"),
               cl::value_desc(targetWords()), cl::cat(category)),
        warps("warps", cl::desc("Warps per thread block on a GPU; 0: chosen by the compiler"),
              cl::init(GpuOptions().warps), cl::value_desc("n"), cl::cat(category)),
        schedule("schedule", cl::desc("Override a decision about loops on a GPU"),
                 cl::value_desc("KEY=VALUE"), cl::cat(category)),
        warm("warm", cl::desc("Do not overwrite the L2 of a GPU before each run"),
             cl::cat(category)),
        batch("batch", cl::desc("Batch size"), cl::init(1), cl::cat(category)),
        heads("heads", cl::desc("Heads of queries"), cl::init(8), cl::cat(category)),
        kvHeads("kv-heads", cl::desc("Heads of keys; as many as of queries by default"),
                cl::init(0), cl::cat(category)),
        queries("queries", cl::desc("Queries"), cl::init(1024), cl::cat(category)),
        keys("keys", cl::desc("Keys; as many as queries by default"), cl::init(0),
             cl::cat(category)),
        width("width", cl::desc("Width D of a query, a key and a value"), cl::init(64),
              cl::cat(category)),
        types("dtype", cl::desc("Element types: f64, f32, f16, bf16"), cl::CommaSeparated,
              cl::value_desc("type,..."), cl::cat(category)),
        masks("causal", cl::desc("Masks: none, top_left, bottom_right"), cl::CommaSeparated,
              cl::value_desc("mask,..."), cl::cat(category)),
        directions("direction", cl::desc("forward (fwd), backward (bwd)"), cl::CommaSeparated,
                   cl::value_desc("direction,..."), cl::cat(category)),
        params("param", cl::desc("An additional parameter, such as BLOCK_M=64"),
               cl::value_desc("NAME=VALUE"), cl::cat(category)),
        rounds("rounds", cl::desc("Runs, of which the median is reported (7; 20 on a GPU)"),
               cl::init(0), cl::cat(category)),
        cores("cores", cl::desc("Threads; as many as there are cores by default"), cl::init(0),
              cl::cat(category)),
        kernels("kernels", cl::desc("Folder of the kernels"), cl::value_desc("folder"),
                cl::cat(category)),
        json("json", cl::desc("Print JSON"), cl::cat(category)),
        quiet("quiet", cl::desc("Do not show progress"), cl::cat(category)) {}

  cl::list<std::string> operations;
  cl::list<unsigned> sizes;
  cl::opt<std::string> device, target;
  cl::opt<int64_t> warps;
  cl::list<std::string> schedule;
  cl::opt<bool> warm;
  cl::opt<unsigned> batch, heads, kvHeads, queries, keys, width;
  cl::list<std::string> types, masks, directions, params;
  cl::opt<unsigned> rounds, cores;
  cl::opt<std::string> kernels;
  cl::opt<bool> json, quiet;
};

/// The device of the cases.
struct BenchDevice {
  DeviceName name;
  GpuOptions gpu;
  unsigned threads = 0;
  std::unique_ptr<GpuDevice> device;
  std::unique_ptr<CacheFlush> flush;

  bool isGpu() const { return name.kind == DeviceName::Kind::Cuda; }
  llvm::Expected<std::unique_ptr<BenchRunner>> createRunner(KernelRun &kernel) {
    if (isGpu())
      return createGpuRunner(kernel, *device, gpu, flush.get());
    return createCpuRunner(kernel, threads);
  }
};

struct BenchCase {
  std::string name;
  std::optional<AttentionConfig> attention; ///< otherwise a matrix
  MatmulConfig matmul;
  std::unique_ptr<KernelRun> kernel;
  std::unique_ptr<BenchRunner> runner;
  std::vector<double> seconds, hostSeconds;

  double countFlops() const { return attention ? attention->countFlops() : matmul.countFlops(); }
};

std::vector<std::string> orDefault(const std::vector<std::string> &given,
                                   std::vector<std::string> byDefault) {
  return given.empty() ? byDefault : given;
}

llvm::Expected<ElementType> parseType(llvm::StringRef text) {
  std::optional<ElementType> type = parseElementType(text);
  if (!type || !isFloat(*type))
    return makeError("--dtype: expected f64, f32, f16 or bf16 but got '" + text + "'");
  return *type;
}

llvm::Error addAttention(BenchCommandLine &options, const std::string &target,
                         std::vector<BenchCase> &cases) {
  AttentionConfig base;
  base.B = options.batch;
  base.Hq = options.heads;
  base.Hkv = options.kvHeads ? options.kvHeads : options.heads;
  base.Sq = options.queries;
  base.Skv = options.keys ? options.keys : options.queries;
  base.D = base.DV = options.width;
  base.scale = 1.0 / std::sqrt(double(base.D));
  base.target = target;
  if (base.Hq % base.Hkv != 0)
    return makeError("--heads must be a multiple of --kv-heads, but got " +
                     std::to_string(base.Hq) + " and " + std::to_string(base.Hkv));
  if (llvm::Error error = parseEach("--param", options.params, parseParam, base.params))
    return error;
  for (const std::string &direction : orDefault(options.directions, {"forward"})) {
    bool isBackward = direction == "backward" || direction == "bwd";
    if (!isBackward && direction != "forward" && direction != "fwd")
      return makeError("--direction: expected forward or backward but got '" + direction + "'");
    for (const std::string &typeText : orDefault(options.types, {"f32"})) {
      llvm::Expected<ElementType> type = parseType(typeText);
      if (!type)
        return type.takeError();
      for (const std::string &mask : orDefault(options.masks, {"none", "top_left"})) {
        AttentionConfig config = base;
        config.backward = isBackward;
        config.type = *type;
        config.causal = mask;
        cases.emplace_back();
        cases.back().name = (isBackward ? "backward " : "forward ") + typeText + " " + mask;
        cases.back().attention = config;
      }
    }
  }
  return llvm::Error::success();
}

llvm::Error addMatmul(BenchCommandLine &options, const std::string &target,
                      std::vector<BenchCase> &cases) {
  std::vector<unsigned> sizes = options.sizes;
  if (sizes.empty())
    sizes = {1024};
  for (const std::string &typeText : orDefault(options.types, {"f32"})) {
    llvm::Expected<ElementType> type = parseType(typeText);
    if (!type)
      return type.takeError();
    for (unsigned size : sizes) {
      cases.emplace_back();
      BenchCase &bench = cases.back();
      bench.name = "matmul " + typeText + " " + std::to_string(size);
      bench.matmul.M = bench.matmul.N = bench.matmul.K = size;
      bench.matmul.type = *type;
      bench.matmul.target = target;
      if (llvm::Error error = parseEach("--param", options.params, parseParam, bench.matmul.params))
        return error;
    }
  }
  return llvm::Error::success();
}

/// The cases that the options ask for: every combination of their lists.
llvm::Expected<std::vector<BenchCase>> makeCases(BenchCommandLine &options,
                                                 const std::string &target) {
  std::vector<BenchCase> cases;
  for (const std::string &operation : orDefault(options.operations, {"attention"})) {
    if (operation != "attention" && operation != "matmul")
      return makeError("--operation: expected attention or matmul but got '" + operation + "'");
    if (llvm::Error error = operation == "matmul" ? addMatmul(options, target, cases)
                                                  : addAttention(options, target, cases))
      return error;
  }
  return cases;
}

std::vector<double> fill(KernelRun &kernel, llvm::StringRef name, std::mt19937 &generator) {
  std::normal_distribution<double> normal;
  std::vector<double> values(kernel.read(name).size());
  for (double &value : values)
    value = normal(generator);
  kernel.write(name, values);
  return values;
}

/// Compiles the case and fills its inputs with N(0, 1); the backward gets O and LSE of the forward.
llvm::Error prepare(llvm::StringRef kernels, BenchCase &bench, BenchDevice &device) {
  auto kernel = bench.attention ? createAttention(kernels, *bench.attention)
                                : createMatmul(kernels, bench.matmul);
  if (!kernel)
    return kernel.takeError();
  bench.kernel = std::move(*kernel);
  std::mt19937 generator(1);
  if (!bench.attention) {
    fill(*bench.kernel, "a", generator);
    fill(*bench.kernel, "b", generator);
  } else {
    std::vector<double> q = fill(*bench.kernel, "q", generator);
    std::vector<double> k = fill(*bench.kernel, "k", generator);
    std::vector<double> v = fill(*bench.kernel, "v", generator);
    if (bench.attention->backward) {
      fill(*bench.kernel, "do", generator);
      fill(*bench.kernel, "dlse", generator);
      AttentionConfig config = *bench.attention;
      config.backward = false;
      config.params.clear();
      auto forward = createAttention(kernels, config);
      if (!forward)
        return forward.takeError();
      (*forward)->write("q", q);
      (*forward)->write("k", k);
      (*forward)->write("v", v);
      auto runner = device.createRunner(**forward);
      if (!runner)
        return runner.takeError();
      if (llvm::Expected<RunTime> time = (*runner)->run(); !time)
        return time.takeError();
      if (llvm::Error error = (*runner)->fetch())
        return error;
      bench.kernel->write("o", (*forward)->read("o"));
      bench.kernel->write("lse", (*forward)->read("lse"));
    }
  }
  auto runner = device.createRunner(*bench.kernel);
  if (!runner)
    return runner.takeError();
  bench.runner = std::move(*runner);
  llvm::Expected<RunTime> warmUp = bench.runner->run();
  return warmUp.takeError();
}

/// The device that the options name. Errors: no such device.
llvm::Expected<BenchDevice> openDevice(BenchCommandLine &options) {
  llvm::Expected<DeviceName> name = DeviceName::parse(options.device);
  if (!name)
    return makeError("--device: " + llvm::toString(name.takeError()));
  if (name->kind == DeviceName::Kind::Simulator)
    return makeError("--device: a simulator cannot be timed; give cpu or cuda");
  BenchDevice device;
  device.name = *name;
  device.threads = options.cores;
  if (!options.target.empty()) {
    if (llvm::Expected<const Target &> known = findTarget(options.target); !known)
      return known.takeError();
    if (!device.isGpu())
      return makeError("--target requires a GPU, but the device is a CPU");
    device.name.target = options.target;
  }
  device.gpu.target = device.name.target;
  device.gpu.warps = options.warps;
  device.gpu.schedule = options.schedule;
  return device;
}

llvm::Error startGpu(BenchDevice &device, bool isWarm) {
  llvm::Expected<std::unique_ptr<GpuDevice>> opened = GpuDevice::open(device.name.ordinal);
  if (!opened)
    return opened.takeError();
  device.device = std::move(*opened);
  if (isWarm)
    return llvm::Error::success();
  llvm::Expected<std::unique_ptr<CacheFlush>> flush = CacheFlush::create(*device.device);
  if (!flush)
    return flush.takeError();
  device.flush = std::move(*flush);
  return llvm::Error::success();
}

void printTable(const std::vector<BenchCase> &cases) {
  llvm::outs() << llvm::format("%-28s %10s %10s %10s %9s\n", "case", "median ms", "fastest",
                               "slowest", "GFLOP/s");
  for (const BenchCase &bench : cases) {
    Timing timing = Timing::of(bench.seconds);
    llvm::outs() << llvm::format("%-28s %10.2f %10.2f %10.2f %9.1f\n", bench.name.c_str(),
                                 timing.median * 1e3, timing.fastest * 1e3, timing.slowest * 1e3,
                                 bench.countFlops() / timing.median * 1e-9);
  }
}

void printJson(const std::vector<BenchCase> &cases, const BenchDevice &device) {
  llvm::json::Array list;
  for (const BenchCase &bench : cases) {
    Timing timing = Timing::of(bench.seconds);
    llvm::json::Object object{
        {"name", bench.name},
        {"operation", bench.attention ? "attention" : "matmul"},
        {"median_ms", timing.median * 1e3},
        {"fastest_ms", timing.fastest * 1e3},
        {"slowest_ms", timing.slowest * 1e3},
        {"gflops", bench.countFlops() / timing.median * 1e-9},
    };
    if (device.isGpu())
      object["host_us"] = Timing::of(bench.hostSeconds).median * 1e6;
    if (bench.attention) {
      const AttentionConfig &c = *bench.attention;
      object["direction"] = c.backward ? "backward" : "forward";
      object["dtype"] = std::string(elementTypeName(c.type));
      object["causal"] = c.causal;
      for (auto [name, value] : {std::pair<const char *, int64_t>{"B", c.B},
                                 {"Hq", c.Hq},
                                 {"Hkv", c.Hkv},
                                 {"Sq", c.Sq},
                                 {"Skv", c.Skv},
                                 {"D", c.D}})
        object[name] = value;
    } else {
      object["dtype"] = std::string(elementTypeName(bench.matmul.type));
      object["size"] = bench.matmul.M;
    }
    list.push_back(std::move(object));
  }
  llvm::json::Object report{{"cases", std::move(list)}};
  if (device.isGpu()) {
    report["device"] = device.device->getInfo().toString();
    report["target"] = device.gpu.target;
    report["l2"] = device.flush ? "flushed" : "warm";
  } else {
    report["device"] = "cpu";
    report["isa"] = numeric::isaName(numeric::activeIsa());
    report["threads"] = device.threads ? device.threads : numeric::hardwareThreads();
  }
  llvm::outs() << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(report)));
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::OptionCategory category("tilewright-bench");
  BenchCommandLine options(category);
  if (!parseOptions(argc, argv, category, "Times attention and matrix products.\n",
                    {"tilewright-bench --operation=attention --batch=1 --heads=2 --queries=256 "
                     "--width=64 --dtype=f32 --rounds=1"}))
    return exitUsage;
  llvm::Expected<BenchDevice> device = openDevice(options);
  if (!device)
    return reportUsage(tool, device.takeError());
  unsigned rounds = device->isGpu() ? 20 : 7;
  if (options.rounds.getNumOccurrences())
    rounds = options.rounds;
  if (rounds < 1)
    return reportUsage(tool, "--rounds: expected at least 1 but got 0");
  llvm::Expected<std::vector<BenchCase>> cases = makeCases(options, device->name.target);
  if (!cases)
    return reportUsage(tool, cases.takeError());
  std::string kernels = findKernelsFolder(argv[0], options.kernels);
  if (kernels.empty())
    return reportFailure(tool, "cannot find the folder of the kernels; give it with --kernels");
  if (device->isGpu())
    if (llvm::Error error = startGpu(*device, options.warm))
      return reportFailure(tool, std::move(error));

  std::optional<Progress> progress(std::in_place, tool, options.quiet);
  for (BenchCase &bench : *cases) {
    progress->show("compiles " + bench.name);
    if (llvm::Error error = prepare(kernels, bench, *device))
      return reportFailure(tool, std::move(error));
  }
  for (unsigned round = 0; round < rounds; ++round)
    for (BenchCase &bench : *cases) {
      progress->show("round " + llvm::Twine(round + 1) + " of " + llvm::Twine(rounds) + ", " +
                     bench.name);
      llvm::Expected<RunTime> time = bench.runner->run();
      if (!time)
        return reportFailure(tool, time.takeError());
      bench.seconds.push_back(time->seconds);
      bench.hostSeconds.push_back(time->hostSeconds);
    }
  progress.reset();
  if (options.json)
    printJson(*cases, *device);
  else
    printTable(*cases);
  return exitDone;
}
