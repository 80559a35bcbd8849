// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-bench: times attention on the CPU device. Rounds of all cases are interleaved, so that
// a machine that slows down slows all of them.

#include "lib/Driver/AttentionRun.h"
#include "lib/Driver/BindingOptions.h"
#include "lib/Driver/ToolSupport.h"
#include "lib/Numeric/Isa.h"
#include "lib/Numeric/ThreadPool.h"

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
      : batch("batch", cl::desc("Batch"), cl::init(1), cl::cat(category)),
        heads("heads", cl::desc("Heads of queries"), cl::init(8), cl::cat(category)),
        kvHeads("kv-heads", cl::desc("Heads of keys; those of queries by default"), cl::init(0),
                cl::cat(category)),
        queries("queries", cl::desc("Queries"), cl::init(1024), cl::cat(category)),
        keys("keys", cl::desc("Keys; as many as queries by default"), cl::init(0),
             cl::cat(category)),
        width("width", cl::desc("Width D of a query, a key and a value"), cl::init(64),
              cl::cat(category)),
        types("dtype", cl::desc("Element types: f64, f32, f16, bf16"), cl::CommaSeparated,
              cl::value_desc("type,..."), cl::cat(category)),
        masks("causal", cl::desc("Masks: none, top_left, bottom_right"), cl::CommaSeparated,
              cl::value_desc("mask,..."), cl::cat(category)),
        directions("direction", cl::desc("forward, backward"), cl::CommaSeparated,
                   cl::value_desc("direction,..."), cl::cat(category)),
        params("param", cl::desc("A further parameter, such as BLOCK_M=64"),
               cl::value_desc("NAME=VALUE"), cl::cat(category)),
        rounds("rounds", cl::desc("Rounds, of which the median counts"), cl::init(7),
               cl::cat(category)),
        cores("cores", cl::desc("Threads; as many as there are cores by default"), cl::init(0),
              cl::cat(category)),
        kernels("kernels", cl::desc("Folder of the kernels"), cl::value_desc("folder"),
                cl::cat(category)),
        json("json", cl::desc("Print JSON"), cl::cat(category)) {}

  cl::opt<unsigned> batch, heads, kvHeads, queries, keys, width;
  cl::list<std::string> types, masks, directions, params;
  cl::opt<unsigned> rounds, cores;
  cl::opt<std::string> kernels;
  cl::opt<bool> json;
};

struct BenchCase {
  std::string name;
  AttentionConfig config;
  std::unique_ptr<AttentionRun> run;
  std::vector<double> seconds;
};

std::vector<std::string> orDefault(const std::vector<std::string> &given,
                                   std::vector<std::string> byDefault) {
  return given.empty() ? byDefault : given;
}

llvm::Error usage(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// The cases that the options ask for: every combination of their lists.
llvm::Expected<std::vector<BenchCase>> makeCases(BenchCommandLine &options) {
  AttentionConfig base;
  base.B = options.batch;
  base.Hq = options.heads;
  base.Hkv = options.kvHeads ? options.kvHeads : options.heads;
  base.Sq = options.queries;
  base.Skv = options.keys ? options.keys : options.queries;
  base.D = base.DV = options.width;
  base.scale = 1.0 / std::sqrt(double(base.D));
  if (base.Hq % base.Hkv != 0)
    return usage("--heads must be a multiple of --kv-heads");
  if (llvm::Error error = parseEach("--param", options.params, parseParam, base.params))
    return error;

  std::vector<BenchCase> cases;
  for (const std::string &direction : orDefault(options.directions, {"forward"})) {
    if (direction != "forward" && direction != "backward")
      return usage("--direction: expected forward or backward but got '" + direction + "'");
    for (const std::string &typeText : orDefault(options.types, {"f32"})) {
      std::optional<ElementType> type = parseElementType(typeText);
      if (!type || !isFloat(*type))
        return usage("--dtype: expected f64, f32, f16 or bf16 but got '" + typeText + "'");
      for (const std::string &mask : orDefault(options.masks, {"none", "top_left"})) {
        AttentionConfig config = base;
        config.backward = direction == "backward";
        config.type = *type;
        config.causal = mask;
        cases.push_back({direction + " " + typeText + " " + mask, config, nullptr, {}});
      }
    }
  }
  return cases;
}

/// Compiles the case and fills its inputs with N(0, 1); the backward gets O and LSE of the forward.
llvm::Error prepare(llvm::StringRef kernels, BenchCase &bench, unsigned threads) {
  const AttentionConfig &c = bench.config;
  auto run = AttentionRun::create(kernels, c);
  if (!run)
    return run.takeError();
  std::mt19937 generator(1);
  std::normal_distribution<double> normal;
  auto fill = [&](llvm::StringRef name, int64_t elements) {
    std::vector<double> values(elements);
    for (double &value : values)
      value = normal(generator);
    (*run)->write(name, values);
    return values;
  };
  std::vector<double> q = fill("q", c.B * c.Hq * c.Sq * c.D);
  std::vector<double> k = fill("k", c.B * c.Hkv * c.Skv * c.D);
  std::vector<double> v = fill("v", c.B * c.Hkv * c.Skv * c.DV);
  if (c.backward) {
    fill("do", c.B * c.Hq * c.Sq * c.DV);
    fill("dlse", c.B * c.Hq * c.Sq);
    AttentionConfig forwardConfig = c;
    forwardConfig.backward = false;
    forwardConfig.params.clear();
    auto forward = AttentionRun::create(kernels, forwardConfig);
    if (!forward)
      return forward.takeError();
    (*forward)->write("q", q);
    (*forward)->write("k", k);
    (*forward)->write("v", v);
    llvm::Expected<double> time = (*forward)->run(threads);
    if (!time)
      return time.takeError();
    (*run)->write("o", (*forward)->read("o"));
    (*run)->write("lse", (*forward)->read("lse"));
  }
  bench.run = std::move(*run);
  llvm::Expected<double> warmUp = bench.run->run(threads);
  return warmUp.takeError();
}

void printTable(const std::vector<BenchCase> &cases) {
  llvm::outs() << llvm::format("%-28s %10s %10s %10s %9s\n", "case", "median ms", "fastest",
                               "slowest", "GFLOP/s");
  for (const BenchCase &bench : cases) {
    Timing timing = Timing::of(bench.seconds);
    llvm::outs() << llvm::format("%-28s %10.2f %10.2f %10.2f %9.1f\n", bench.name.c_str(),
                                 timing.median * 1e3, timing.fastest * 1e3, timing.slowest * 1e3,
                                 bench.config.countFlops() / timing.median * 1e-9);
  }
}

void printJson(const std::vector<BenchCase> &cases, unsigned threads) {
  llvm::json::Array list;
  for (const BenchCase &bench : cases) {
    const AttentionConfig &c = bench.config;
    Timing timing = Timing::of(bench.seconds);
    list.push_back(llvm::json::Object{
        {"name", bench.name},
        {"direction", c.backward ? "backward" : "forward"},
        {"dtype", std::string(elementTypeName(c.type))},
        {"causal", c.causal},
        {"B", c.B},
        {"Hq", c.Hq},
        {"Hkv", c.Hkv},
        {"Sq", c.Sq},
        {"Skv", c.Skv},
        {"D", c.D},
        {"median_ms", timing.median * 1e3},
        {"fastest_ms", timing.fastest * 1e3},
        {"slowest_ms", timing.slowest * 1e3},
        {"gflops", c.countFlops() / timing.median * 1e-9},
    });
  }
  llvm::json::Object report{{"device", "cpu"},
                            {"isa", numeric::isaName(numeric::activeIsa())},
                            {"threads", threads ? threads : numeric::hardwareThreads()},
                            {"cases", std::move(list)}};
  llvm::outs() << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(report)));
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::OptionCategory category("tilewright-bench");
  BenchCommandLine options(category);
  if (!parseOptions(argc, argv, category, "Times attention on the CPU.\n"))
    return exitUsage;
  if (options.rounds < 1)
    return reportUsage(tool, "--rounds: expected at least 1 but got 0");
  llvm::Expected<std::vector<BenchCase>> cases = makeCases(options);
  if (!cases)
    return reportUsage(tool, cases.takeError());
  std::string kernels = findKernelsFolder(argv[0], options.kernels);
  if (kernels.empty())
    return reportFailure(tool, "cannot find the folder of the kernels; name it by --kernels");

  for (BenchCase &bench : *cases)
    if (llvm::Error error = prepare(kernels, bench, options.cores))
      return reportFailure(tool, std::move(error));
  for (unsigned round = 0; round < options.rounds; ++round)
    for (BenchCase &bench : *cases) {
      llvm::Expected<double> seconds = bench.run->run(options.cores);
      if (!seconds)
        return reportFailure(tool, seconds.takeError());
      bench.seconds.push_back(*seconds);
    }
  if (options.json)
    printJson(*cases, options.cores);
  else
    printTable(*cases);
  return exitDone;
}
