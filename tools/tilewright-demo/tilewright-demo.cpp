// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-demo: compiles the shipped attention kernels, runs them on arrays of random numbers,
// checks every result against the oracle and prints a table. What `make demo` shows.

#include "lib/Driver/AttentionRun.h"
#include "lib/Driver/DeviceRun.h"
#include "lib/Driver/Progress.h"
#include "lib/Driver/ToolSupport.h"
#include "test/Reference/Accuracy.h"
#include "test/Reference/Modifiers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

using namespace tilewright;

namespace cl = llvm::cl;

static constexpr llvm::StringLiteral tool = "tilewright-demo";

namespace {

struct DemoCase {
  std::string name;
  AttentionConfig config;
  reference::ScoreMod score; ///< description of what the linked file computes
  std::function<llvm::Error(KernelRun &)> bindCaptures;
};

AttentionConfig shaped(ElementType type, int64_t B, int64_t Hq, int64_t Hkv, int64_t Sq,
                       int64_t Skv, int64_t D, int64_t DV, llvm::StringRef causal = "none") {
  AttentionConfig config;
  config.type = type;
  config.B = B;
  config.Hq = Hq;
  config.Hkv = Hkv;
  config.Sq = Sq;
  config.Skv = Skv;
  config.D = D;
  config.DV = DV;
  config.causal = causal.str();
  config.scale = float(1.0 / std::sqrt(double(D)));
  return config;
}

AttentionConfig windowed(AttentionConfig config, int64_t left, int64_t right) {
  config.windowLeft = left;
  config.windowRight = right;
  return config;
}

AttentionConfig linked(AttentionConfig config, llvm::StringRef file) {
  config.with.push_back(file.str());
  return config;
}

AttentionConfig backwardOf(AttentionConfig config, bool deterministic = false) {
  config.backward = true;
  config.params.emplace_back("DETERMINISTIC", deterministic ? "true" : "false");
  return config;
}

std::vector<DemoCase> makeCases() {
  using T = ElementType;
  auto softcap = [](KernelRun &run) {
    run.capture("softcap", 20.0);
    return llvm::Error::success();
  };
  std::vector<double> slopes = reference::alibiSlopes(8);
  auto alibi = [slopes](KernelRun &run) { return run.capture("slopes", {8}, slopes); };
  return {
      {"forward  f32", shaped(T::F32, 1, 8, 8, 1024, 1024, 64, 64), {}, {}},
      {"forward  f32  causal", shaped(T::F32, 1, 8, 8, 1024, 1024, 64, 64, "top_left"), {}, {}},
      {"forward  f16  D 128", shaped(T::F16, 1, 8, 8, 512, 512, 128, 128), {}, {}},
      {"forward  bf16 GQA, causal", shaped(T::BF16, 2, 8, 2, 512, 512, 64, 64, "top_left"), {}, {}},
      {"forward  f64", shaped(T::F64, 1, 2, 2, 256, 256, 64, 64), {}, {}},
      {"forward  f16  MQA, ragged, D 72, DV 40", shaped(T::F16, 2, 4, 1, 113, 203, 72, 40), {}, {}},
      {"forward  bf16 window, bottom right",
       windowed(shaped(T::BF16, 1, 4, 4, 239, 511, 64, 64, "bottom_right"), 100, 0),
       {},
       {}},
      {"forward  f16  rows without keys",
       shaped(T::F16, 1, 4, 4, 300, 140, 64, 64, "bottom_right"),
       {},
       {}},
      {"forward  f32  softcap",
       linked(shaped(T::F32, 1, 4, 4, 256, 256, 64, 64), "mods/softcap.mlir"),
       reference::softcap(20.0), softcap},
      {"forward  bf16 ALiBi, causal",
       linked(shaped(T::BF16, 1, 8, 8, 256, 256, 64, 64, "top_left"), "mods/alibi.mlir"),
       reference::alibi(slopes), alibi},
      {"backward f32", backwardOf(shaped(T::F32, 1, 8, 8, 512, 512, 64, 64)), {}, {}},
      {"backward bf16 GQA, causal",
       backwardOf(shaped(T::BF16, 1, 8, 2, 512, 512, 64, 64, "top_left")),
       {},
       {}},
      {"backward f16  window, ragged",
       backwardOf(windowed(shaped(T::F16, 1, 4, 4, 199, 263, 80, 48), 64, 32)),
       {},
       {}},
      {"backward f64  deterministic, causal",
       backwardOf(shaped(T::F64, 1, 2, 2, 160, 160, 64, 64, "top_left"), true),
       {},
       {}},
  };
}

reference::Type referenceType(ElementType type) {
  switch (type) {
  case ElementType::F64:
    return reference::Type::F64;
  case ElementType::F16:
    return reference::Type::F16;
  case ElementType::BF16:
    return reference::Type::BF16;
  default:
    return reference::Type::F32;
  }
}

reference::AttentionProblem problemOf(const DemoCase &demo) {
  const AttentionConfig &config = demo.config;
  reference::AttentionProblem problem;
  problem.B = config.B;
  problem.Hq = config.Hq;
  problem.Hkv = config.Hkv;
  problem.Sq = config.Sq;
  problem.Skv = config.Skv;
  problem.D = config.D;
  problem.DV = config.DV;
  problem.scale = config.scale;
  problem.causal = config.causal == "top_left"       ? reference::Causal::TopLeft
                   : config.causal == "bottom_right" ? reference::Causal::BottomRight
                                                     : reference::Causal::None;
  problem.window = {config.windowLeft, config.windowRight};
  problem.score = demo.score;
  return problem;
}

struct Outcome {
  std::vector<reference::AccuracyReport> reports;
  double seconds = 0.0;
};

/// The median of three runs; one before them warms up.
llvm::Error runTimed(KernelRun &kernel, const DeviceName &device, double &seconds) {
  auto withReason = [&](llvm::Error error) {
    return kernel.takeError(llvm::toString(std::move(error)));
  };
  llvm::Expected<std::unique_ptr<DeviceRun>> run = DeviceRun::create(device, kernel.getEntry());
  if (!run)
    return withReason(run.takeError());
  std::vector<double> times;
  for (int round = 0; round < 4; ++round) {
    llvm::Expected<double> time = (*run)->run(kernel.getArguments());
    if (!time)
      return withReason(time.takeError());
    if (round > 0)
      times.push_back(*time);
  }
  seconds = Timing::of(times).median;
  return llvm::Error::success();
}

/// Compiles and binds what both directions take.
llvm::Expected<std::unique_ptr<KernelRun>> prepare(llvm::StringRef kernels, const DemoCase &demo,
                                                   const AttentionConfig &config,
                                                   const reference::AttentionInputs &inputs) {
  auto run = createAttention(kernels, config);
  if (!run)
    return run.takeError();
  (*run)->write("q", inputs.q);
  (*run)->write("k", inputs.k);
  (*run)->write("v", inputs.v);
  if (demo.bindCaptures)
    if (llvm::Error error = demo.bindCaptures(**run))
      return error;
  return run;
}

/// The backward takes O and LSE from the forward kernel, as in training.
llvm::Expected<Outcome> runCase(llvm::StringRef kernels, const DemoCase &demo,
                                const DeviceName &device) {
  reference::AttentionProblem problem = problemOf(demo);
  reference::Type type = referenceType(demo.config.type);
  reference::AttentionInputs inputs = reference::randomInputs(problem, type, /*seed=*/1);

  AttentionConfig config = demo.config, backwardConfig = demo.config;
  config.target = backwardConfig.target = device.target;
  config.backward = false;
  if (demo.config.backward)
    config.params.clear();
  auto forward = prepare(kernels, demo, config, inputs);
  if (!forward)
    return forward.takeError();
  Outcome outcome;
  if (llvm::Error error = runTimed(**forward, device, outcome.seconds))
    return error;
  if (!demo.config.backward) {
    reference::ForwardOracle oracle(problem, inputs, type);
    outcome.reports = {oracle.checkO((*forward)->read("o")),
                       oracle.checkLse((*forward)->read("lse"))};
    return outcome;
  }

  auto backward = prepare(kernels, demo, backwardConfig, inputs);
  if (!backward)
    return backward.takeError();
  KernelRun &run = **backward;
  run.write("o", (*forward)->read("o"));
  run.write("lse", (*forward)->read("lse"));
  run.write("do", inputs.dO);
  run.write("dlse", inputs.dLse);
  if (llvm::Error error = runTimed(run, device, outcome.seconds))
    return error;
  reference::BackwardOracle oracle(problem, inputs, type);
  outcome.reports = {oracle.checkDQ(run.read("dq")), oracle.checkDK(run.read("dk")),
                     oracle.checkDV(run.read("dv"))};
  return outcome;
}

/// "1x4x512x512x64": batch, heads, queries, keys, width.
std::string describeShape(const AttentionConfig &c) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << c.B << 'x' << c.Hq << 'x' << c.Sq << 'x' << c.Skv << 'x' << c.D;
  return text;
}

/// Prints the row of the worst output; true if all are within what is allowed.
bool printRow(const DemoCase &demo, const Outcome &outcome, const char *device) {
  const reference::AccuracyReport *worst = &outcome.reports.front();
  bool ok = true;
  for (const reference::AccuracyReport &report : outcome.reports) {
    ok &= report.ok;
    if (report.ok < worst->ok || (report.ok == worst->ok && report.worstRatio > worst->worstRatio))
      worst = &report;
  }
  std::string maxError, meanError;
  llvm::raw_string_ostream(maxError)
      << llvm::format("%.1e (%.1e)", worst->maxError, worst->maxAllowed);
  llvm::raw_string_ostream(meanError)
      << llvm::format("%.1e (%.1e)", worst->meanError, worst->meanAllowed);
  llvm::outs() << llvm::format("%-39s %-18s %-6s %-18s  %-18s %9.2f %9.1f  %s\n", demo.name.c_str(),
                               describeShape(demo.config).c_str(), device, maxError.c_str(),
                               meanError.c_str(), outcome.seconds * 1e3,
                               demo.config.countFlops() / outcome.seconds * 1e-9,
                               ok ? "ok" : "WRONG");
  if (!ok)
    llvm::outs() << "    " << worst->message << '\n';
  llvm::outs().flush();
  return ok;
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::OptionCategory category("tilewright-demo");
  cl::opt<std::string> kernelsOption("kernels", cl::desc("Folder of the kernels"),
                                     cl::value_desc("folder"), cl::cat(category));
  cl::opt<std::string> deviceOption(
      "device", cl::desc("Where to run: auto (a GPU if there is one; the default), cpu, cuda[:N]"),
      cl::init("auto"), cl::value_desc("cpu|cuda|auto"), cl::cat(category));
  cl::opt<bool> quiet("quiet", cl::desc("Do not show progress"), cl::cat(category));
  if (!parseOptions(argc, argv, category,
                    "Runs attention forward and backward and checks them against the reference.\n",
                    {"tilewright-demo"}))
    return exitUsage;
  llvm::Expected<DeviceName> device = DeviceName::parse(deviceOption);
  if (!device)
    return reportUsage(tool, "--device: " + llvm::toString(device.takeError()));
  if (device->kind == DeviceName::Kind::Cuda) {
    llvm::Expected<std::unique_ptr<GpuDevice>> gpu = GpuDevice::open(device->ordinal);
    if (!gpu)
      return reportFailure(tool, "cannot run on " + deviceOption + ": " +
                                     llvm::toString(gpu.takeError()));
  }
  std::string kernels = findKernelsFolder(argv[0], kernelsOption);
  if (kernels.empty())
    return reportFailure(tool, "cannot find the folder of the kernels; give it with --kernels");

  llvm::outs() << llvm::format("%-39s %-18s %-6s %-18s  %-18s %9s %9s\n", "case",
                               "B x H x Sq x Skv x D", "device", "max error (allowed)",
                               "mean error (allowed)", "ms", "GFLOP/s");
  llvm::outs().flush();
  unsigned failures = 0, fallbacks = 0;
  std::vector<DemoCase> cases = makeCases();
  std::optional<Progress> progress(std::in_place, tool, quiet);
  for (const auto &[i, demo] : llvm::enumerate(cases)) {
    progress->show("case " + llvm::Twine(i + 1) + " of " + llvm::Twine(cases.size()) + ", " +
                   demo.name);
    DeviceName used = *device;
    llvm::Expected<Outcome> outcome = runCase(kernels, demo, used);
    std::string rejection;
    if (!outcome && used.kind != DeviceName::Kind::Cpu) {
      rejection = llvm::toString(outcome.takeError());
      used = DeviceName();
      ++fallbacks;
      outcome = runCase(kernels, demo, used);
    }
    Progress::hide();
    if (!outcome) {
      llvm::outs() << llvm::format("%-39s FAILED\n", demo.name.c_str());
      llvm::outs().flush();
      reportFailure(tool, outcome.takeError());
      ++failures;
      continue;
    }
    bool onCpu = used.kind == DeviceName::Kind::Cpu;
    std::string name = onCpu ? "cpu" : deviceOption == "auto" ? "cuda" : deviceOption.c_str();
    failures += !printRow(demo, *outcome, name.c_str());
    if (!rejection.empty())
      llvm::outs() << "    not on the GPU: " << llvm::StringRef(rejection).split('\n').first
                   << '\n';
  }
  progress.reset();
  llvm::outs() << cases.size() - failures << " of " << cases.size() << " cases are right";
  if (fallbacks)
    llvm::outs() << ", " << fallbacks << " of them on the CPU only";
  llvm::outs() << '\n';
  return failures == 0 ? exitDone : exitFailed;
}
