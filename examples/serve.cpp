// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How an engine serves a language model: continuous batching over a cache in pages. Each step
// appends new keys and values to the cache, decodes a token of each running sequence, and processes
// chunks of new prompts, in one CUDA graph that is captured once. docs/serving.md explains the
// calls; serve.rs is the same program in Rust.
//
//   tilewrightc kernels/attention_append.mlir --param D=64 --param T=f16 --emit=bundle
//       -o append.twb
//   tilewrightc kernels/attention_decode.mlir --param D=64 --param T=f16 --param GROUP=4
//       --param PAGE_ROWS=16 --emit=bundle -o decode.twb
//   tilewrightc kernels/attention_forward.mlir --param D=64 --param T=f16 --param PACKED=true
//       --param CAUSAL=bottom_right --param PAGE_ROWS=16 --emit=bundle -o prefill.twb
//   serve append.twb decode.twb prefill.twb
//
// The model is a toy of one layer: a token has a fixed random query, key and value, and the next
// token is the one whose query is most similar to the result of attention.
//
// Without a GPU, loops of this program take the place of the graph: they read the same tables,
// lengths and slots, so that scheduler and page allocator are checked. The plans are made, and
// asked for their workspace, as well.
//
// Exit code: 0 if all results are right, also without a GPU, which it says; else 1.

#include "runtime/AttentionPlan.h"
#include "runtime/Device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

using namespace tilewright;
using namespace tilewright::runtime;
using numeric::f16ToFloat;
using numeric::floatToF16;

namespace {

constexpr int64_t Hq = 8, Hkv = 2, D = 64;        // the model
constexpr int64_t pages = 40, pageRows = 16;      // the pool
constexpr int64_t tableColumns = 12;              // pages that a sequence may have
constexpr int64_t running = 4;                    // sequences that a step decodes at most
constexpr int64_t prompts = 2, chunkRows = 48;    // sequences and rows of prompts in a step
constexpr int64_t stepRows = running + chunkRows; // decoded rows come first
constexpr int64_t vocabulary = 61, qWidth = Hq * D, kvWidth = Hkv * D;

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "serve: %s\n", message.c_str());
  std::exit(1);
}

void check(const Status &status) {
  if (!status)
    fail(status.message());
}

template <typename T> T take(Result<T> value) {
  if (!value)
    fail(value.status().message());
  return std::move(*value);
}

//===----------------------------------------------------------------------===//
// The model, and its results in f64
//===----------------------------------------------------------------------===//

struct Model {
  std::vector<uint16_t> q, k, v; // a row for each token
  Model() {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    for (auto [table, width] : {std::pair(&q, qWidth), {&k, kvWidth}, {&v, kvWidth}}) {
      table->resize(size_t(vocabulary * width));
      for (uint16_t &value : *table)
        value = floatToF16(normal(generator));
    }
  }
};

/// softmax(scale q K^T) V of one query over keys that `keyOf` and `valueOf` find.
template <typename KeyOf, typename ValueOf>
std::vector<double> attend(const uint16_t *q, int64_t keys, KeyOf keyOf, ValueOf valueOf) {
  std::vector<double> o(qWidth), p(static_cast<size_t>(keys));
  for (int64_t h = 0; h < Hq; ++h) {
    int64_t hk = h / (Hq / Hkv);
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      p[j] = 0;
      for (int64_t d = 0; d < D; ++d)
        p[j] += double(f16ToFloat(q[h * D + d])) * f16ToFloat(keyOf(j)[hk * D + d]);
      max = std::max(max, p[j] /= std::sqrt(double(D)));
    }
    for (int64_t j = 0; j < keys; ++j)
      sum += p[j] = std::exp(p[j] - max);
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t d = 0; d < D; ++d)
        o[h * D + d] += p[j] / sum * f16ToFloat(valueOf(j)[hk * D + d]);
  }
  return o;
}

/// How similar the query of a token is to a result.
template <typename Value>
double similarity(const Model &model, int64_t token, const std::vector<Value> &o) {
  double sum = 0;
  for (int64_t i = 0; i < qWidth; ++i)
    sum += f16ToFloat(model.q[token * qWidth + i]) * double(o[i]);
  return sum;
}

template <typename Value> int64_t mostSimilar(const Model &model, const std::vector<Value> &o) {
  int64_t best = 0;
  for (int64_t token = 1; token < vocabulary; ++token)
    if (similarity(model, token, o) > similarity(model, best, o))
      best = token;
  return best;
}

//===----------------------------------------------------------------------===//
// Sequences, pages and steps
//===----------------------------------------------------------------------===//

struct Sequence {
  std::vector<int64_t> tokens;
  int64_t prompt = 0, wanted = 0; // tokens of the prompt, and at the end
  int64_t cached = 0;             // tokens whose keys and values are in the cache
  std::vector<int32_t> pages;
  int64_t pagesAtTheEnd() const { return (wanted + pageRows - 1) / pageRows; }
};

class PageAllocator {
public:
  PageAllocator() {
    for (int32_t page = pages; page-- > 0;)
      unused.push_back(page);
  }
  /// An engine would take pages from other sequences instead of waiting for all that may be needed.
  bool reserve(const Sequence &sequence) {
    if (reserved + sequence.pagesAtTheEnd() > pages)
      return false;
    reserved += sequence.pagesAtTheEnd();
    return true;
  }
  /// The slot of the next key: a row of all pages.
  int32_t slotOf(Sequence &sequence, int64_t position) {
    if (position == int64_t(sequence.pages.size()) * pageRows) {
      sequence.pages.push_back(unused.back());
      unused.pop_back();
    }
    return sequence.pages[position / pageRows] * int32_t(pageRows) + int32_t(position % pageRows);
  }
  void release(Sequence &sequence) {
    reserved -= sequence.pagesAtTheEnd();
    unused.insert(unused.end(), sequence.pages.begin(), sequence.pages.end());
    sequence.pages.clear();
  }
  bool isWhole() const { return unused.size() == size_t(pages) && reserved == 0; }

private:
  std::vector<int32_t> unused;
  int64_t reserved = 0;
};

/// What a graph reads and writes: arrays of fixed extents. Places without a sequence have a length
/// of 0 or no rows, and the slot -1.
struct Step {
  std::vector<uint16_t> q = std::vector<uint16_t>(stepRows * qWidth);
  std::vector<uint16_t> k = std::vector<uint16_t>(stepRows * kvWidth), v = k;
  std::vector<int32_t> slots = std::vector<int32_t>(stepRows, -1);
  std::vector<int32_t> table = std::vector<int32_t>(running * tableColumns);
  std::vector<int32_t> lengths = std::vector<int32_t>(running);
  std::vector<int32_t> promptTable = std::vector<int32_t>(prompts * tableColumns);
  std::vector<int32_t> promptLengths = std::vector<int32_t>(prompts);
  std::vector<int32_t> starts = std::vector<int32_t>(prompts + 1); // of prompts among chunk rows
  std::vector<uint16_t> o = std::vector<uint16_t>(stepRows * qWidth);

  struct Row {
    Sequence *sequence = nullptr;
    int64_t position = 0;
  };
  std::vector<Row> rows = std::vector<Row>(stepRows); // for the scheduler alone

  void add(const Model &model, PageAllocator &allocator, int64_t row, Sequence &sequence) {
    int64_t position = sequence.cached++, token = sequence.tokens[position];
    std::copy_n(&model.q[token * qWidth], qWidth, &q[row * qWidth]);
    std::copy_n(&model.k[token * kvWidth], kvWidth, &k[row * kvWidth]);
    std::copy_n(&model.v[token * kvWidth], kvWidth, &v[row * kvWidth]);
    slots[row] = allocator.slotOf(sequence, position);
    rows[row] = {&sequence, position};
  }
};

/// A step that decodes `active`, whose prompts are cached, and continues the first prompts.
Step makeStep(const Model &model, PageAllocator &allocator, std::vector<Sequence *> &active) {
  Step step;
  int64_t decoded = 0, chunks = 0, row = running;
  for (Sequence *sequence : active) {
    if (sequence->cached >= sequence->prompt) {
      step.add(model, allocator, decoded, *sequence);
      std::copy(sequence->pages.begin(), sequence->pages.end(),
                &step.table[decoded * tableColumns]);
      step.lengths[decoded++] = int32_t(sequence->cached);
    } else if (chunks < prompts && row < stepRows) {
      while (sequence->cached < sequence->prompt && row < stepRows)
        step.add(model, allocator, row++, *sequence);
      std::copy(sequence->pages.begin(), sequence->pages.end(),
                &step.promptTable[chunks * tableColumns]);
      step.promptLengths[chunks++] = int32_t(sequence->cached);
      step.starts[chunks] = int32_t(row - running);
    }
  }
  std::fill(step.starts.begin() + chunks + 1, step.starts.end(), int32_t(row - running));
  return step;
}

/// The graph by loops of the host, which know tables, lengths and slots alone.
class HostCache {
public:
  void run(Step &step) {
    for (int64_t row = 0; row < stepRows; ++row)
      if (step.slots[row] >= 0) {
        std::copy_n(&step.k[row * kvWidth], kvWidth, &k[step.slots[row] * kvWidth]);
        std::copy_n(&step.v[row * kvWidth], kvWidth, &v[step.slots[row] * kvWidth]);
      }
    for (int64_t b = 0; b < running; ++b)
      attendRow(step, b, &step.table[b * tableColumns], step.lengths[b]);
    for (int64_t b = 0; b < prompts; ++b)
      for (int64_t i = step.starts[b]; i < step.starts[b + 1]; ++i)
        attendRow(step, running + i, &step.promptTable[b * tableColumns],
                  step.promptLengths[b] - (step.starts[b + 1] - 1 - i));
  }

private:
  void attendRow(Step &step, int64_t row, const int32_t *table, int64_t keys) const {
    auto rowOf = [&](const std::vector<uint16_t> &pool, int64_t j) {
      return &pool[(table[j / pageRows] * pageRows + j % pageRows) * kvWidth];
    };
    std::vector<double> o = attend(
        &step.q[row * qWidth], keys, [&](int64_t j) { return rowOf(k, j); },
        [&](int64_t j) { return rowOf(v, j); });
    for (int64_t i = 0; i < qWidth; ++i)
      step.o[row * qWidth + i] = floatToF16(float(o[i]));
  }
  std::vector<uint16_t> k = std::vector<uint16_t>(pages * pageRows * kvWidth), v = k;
};

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

/// A plan, and arguments in its order.
struct Call {
  AttentionPlan plan;
  std::vector<Argument> values;
  std::vector<const Argument *> pointers;
};

using Named = std::vector<std::pair<std::string, Argument>>;

/// The plan for these arguments. The library says which kernel attends to the cache.
Call makeCall(const DriverTable &driver, const char *bundle, AttentionDesc desc, Named arguments) {
  check(complete(desc, arguments));
  if (desc.kind == AttentionDesc::Kind::Decode)
    for (auto &argument : arguments)
      if (argument.first == "k" || argument.first == "v")
        argument.first += "_pages";
  Call call{take(AttentionPlan::create(driver, take(Bundle::open(bundle)), desc)), {}, {}};
  size_t used = 0;
  for (const ArgumentSpec &spec : call.plan.arguments()) {
    auto named = [&](const auto &argument) { return argument.first == spec.name; };
    auto found = std::find_if(arguments.begin(), arguments.end(), named);
    used += found != arguments.end();
    call.values.push_back(found == arguments.end() ? Argument::absent() : found->second);
  }
  if (used != arguments.size())
    fail(call.plan.signature() + " does not take all arguments");
  for (const Argument &value : call.values)
    call.pointers.push_back(&value);
  std::printf("%s\n", call.plan.signature().c_str());
  return call;
}

/// Where the arrays of a step are in one block of memory. The results are last.
struct Layout {
  explicit Layout(const Step &step) {
    auto place = [&](const auto &values) {
      uint64_t at = bytes;
      bytes += (values.size() * sizeof(values[0]) + 255) / 256 * 256;
      return at;
    };
    q = place(step.q), k = place(step.k), v = place(step.v), slots = place(step.slots);
    table = place(step.table), lengths = place(step.lengths);
    promptTable = place(step.promptTable), promptLengths = place(step.promptLengths);
    starts = place(step.starts);
    o = place(step.o);
  }
  uint64_t bytes = 0, q, k, v, slots, table, lengths, promptTable, promptLengths, starts, o;
};

/// The calls of a step, for arrays in memory at these addresses.
std::vector<Call> makeCalls(const DriverTable &driver, char **bundles, const Layout &at,
                            uint64_t step, uint64_t kPool, uint64_t vPool) {
  constexpr ElementType f16 = ElementType::F16, i32 = ElementType::I32;
  const Argument k = Argument::dense(kPool, f16, {pages, pageRows, Hkv, D}),
                 v = Argument::dense(vPool, f16, {pages, pageRows, Hkv, D}),
                 scale = Argument::scalar(1 / std::sqrt(float(D)));
  AttentionDesc append, cached, chunked;
  append.kind = AttentionDesc::Kind::Append;
  cached.kind = chunked.kind = AttentionDesc::Kind::Cached;
  chunked.causal = AttentionDesc::Causal::BottomRight;
  // Queries of packed sequences are [1, heads, rows, D]; here a row has its heads side by side.
  const int64_t extents[] = {1, Hq, chunkRows, D}, strides[] = {chunkRows * qWidth, D, qWidth, 1};
  auto rowsOfChunks = [&](uint64_t array) {
    return Argument::view(step + array + 2 * running * qWidth, f16, 4, extents, strides);
  };
  std::vector<Call> calls;
  calls.push_back(makeCall(driver, bundles[0], append,
                           {{"k", Argument::dense(step + at.k, f16, {stepRows, Hkv, D})},
                            {"v", Argument::dense(step + at.v, f16, {stepRows, Hkv, D})},
                            {"k_pages", k},
                            {"v_pages", v},
                            {"slots", Argument::dense(step + at.slots, i32, {stepRows})}}));
  calls.push_back(
      makeCall(driver, bundles[1], cached,
               {{"q", Argument::dense(step + at.q, f16, {running, Hq, 1, D})},
                {"k", k},
                {"v", v},
                {"o", Argument::dense(step + at.o, f16, {running, Hq, 1, D})},
                {"block_table", Argument::dense(step + at.table, i32, {running, tableColumns})},
                {"seq_lens", Argument::dense(step + at.lengths, i32, {running})},
                {"scale", scale}}));
  calls.push_back(makeCall(
      driver, bundles[2], chunked,
      {{"q", rowsOfChunks(at.q)},
       {"k", k},
       {"v", v},
       {"o", rowsOfChunks(at.o)},
       {"cu_seqlens_q", Argument::dense(step + at.starts, i32, {prompts + 1})},
       {"block_table", Argument::dense(step + at.promptTable, i32, {prompts, tableColumns})},
       {"seq_lens", Argument::dense(step + at.promptLengths, i32, {prompts})},
       {"scale", scale}}));
  return calls;
}

/// The workspace that all calls share, as they run one after the other: it depends on extents, not
/// on lengths.
uint64_t workspaceOf(const std::vector<Call> &calls) {
  uint64_t most = 0;
  for (const Call &call : calls) {
    uint64_t bytes = 0;
    check(call.plan.workspaceSize(call.pointers.data(), call.pointers.size(), 0, bytes));
    most = std::max(most, bytes);
  }
  return most;
}

/// A call of the driver that is the application's own.
#define CHECK_CALL(driver, call, ...)                                                              \
  check((driver).check((driver).call ? (driver).call(__VA_ARGS__) : cuda::ErrorNotFound, #call,    \
                       "run the example"))

class DeviceCache {
public:
  DeviceCache(const DriverTable &driver, char **bundles)
      : driver(driver), step(at.bytes), kPool(2 * pages * pageRows * kvWidth), vPool(kPool) {
    constexpr unsigned nonBlocking = 1;
    CHECK_CALL(driver, cuStreamCreate, &stream, nonBlocking);
    for (auto [address, bytes] :
         {std::pair(&stepAddress, step.size()), {&kAddress, kPool}, {&vAddress, vPool}}) {
      CHECK_CALL(driver, cuMemAlloc, address, bytes);
      // NaN: what no key was written to is not read.
      CHECK_CALL(driver, cuMemsetD32Async, *address, 0xffffffff, bytes / 4, stream);
    }
    std::vector<Call> calls = makeCalls(driver, bundles, at, stepAddress, kAddress, vAddress);
    for (Call &call : calls)
      check(call.plan.prepare(0));
    uint64_t bytes = workspaceOf(calls);
    if (bytes)
      CHECK_CALL(driver, cuMemAlloc, &workspace, bytes); // aligned to 256 bytes
    CHECK_CALL(driver, cuStreamSynchronize, stream);
    cuda::Graph captured = nullptr;
    constexpr int captureThreadLocal = 1;
    CHECK_CALL(driver, cuStreamBeginCapture, stream, captureThreadLocal);
    for (const Call &call : calls)
      check(call.plan.run(call.pointers.data(), call.pointers.size(), workspace, bytes, stream));
    CHECK_CALL(driver, cuStreamEndCapture, stream, &captured);
    CHECK_CALL(driver, cuGraphInstantiate, &graph, captured, 0);
    CHECK_CALL(driver, cuGraphDestroy, captured);
    plans = std::move(calls); // graphs launch code that plans hold
  }
  ~DeviceCache() {
    (void)driver.cuGraphExecDestroy(graph);
    for (cuda::DevicePtr address : {stepAddress, kAddress, vAddress, workspace})
      if (address)
        (void)driver.cuMemFree(address);
    (void)driver.cuStreamDestroy(stream);
  }

  void run(Step &values) {
    auto copyIn = [&](uint64_t place, const auto &from) {
      std::memcpy(&step[place], from.data(), from.size() * sizeof(from[0]));
    };
    copyIn(at.q, values.q), copyIn(at.k, values.k), copyIn(at.v, values.v);
    copyIn(at.slots, values.slots), copyIn(at.table, values.table);
    copyIn(at.lengths, values.lengths), copyIn(at.promptTable, values.promptTable);
    copyIn(at.promptLengths, values.promptLengths), copyIn(at.starts, values.starts);
    auto begin = std::chrono::steady_clock::now();
    CHECK_CALL(driver, cuMemcpyHtoDAsync, stepAddress, step.data(), at.o, stream);
    CHECK_CALL(driver, cuGraphLaunch, graph, stream);
    CHECK_CALL(driver, cuMemcpyDtoHAsync, values.o.data(), stepAddress + at.o, 2 * values.o.size(),
               stream);
    CHECK_CALL(driver, cuStreamSynchronize, stream);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  double seconds = 0; // of copies and graphs

private:
  const DriverTable &driver;
  const Layout at{Step()};
  std::vector<char> step;
  size_t kPool, vPool; // bytes
  cuda::Stream stream = nullptr;
  cuda::DevicePtr stepAddress = 0, kAddress = 0, vAddress = 0, workspace = 0;
  cuda::GraphExec graph = nullptr;
  std::vector<Call> plans;
};

//===----------------------------------------------------------------------===//
// The engine
//===----------------------------------------------------------------------===//

struct Served {
  int64_t steps = 0, mixed = 0, rows = 0, generated = 0, wrong = 0;
  double worst = 0; // error of an element
};

/// Serves all requests, and checks each row that `cache` computes.
template <typename Cache> Served serve(const Model &model, Cache &cache) {
  // P and O are rounded to f16, which has 11 significant bits; values are averages of N(0, 1).
  constexpr double allowed = 4e-3;
  std::mt19937 generator(2);
  std::deque<Sequence> sequences;
  for (int64_t prompt : {100, 1, 17, 16, 150, 33, 5, 64, 128, 47}) {
    Sequence sequence;
    for (int64_t i = 0; i < prompt; ++i)
      sequence.tokens.push_back(int64_t(generator() % vocabulary));
    sequence.prompt = prompt;
    sequence.wanted = prompt + 6 + int64_t(generator() % 30);
    sequences.push_back(sequence);
  }
  PageAllocator allocator;
  std::vector<Sequence *> active;
  auto waiting = sequences.begin();
  Served served;
  while (waiting != sequences.end() || !active.empty()) {
    while (waiting != sequences.end() && active.size() < size_t(running) &&
           allocator.reserve(*waiting))
      active.push_back(&*waiting++);
    Step step = makeStep(model, allocator, active);
    cache.run(step);
    ++served.steps;
    served.mixed += step.lengths[0] > 0 && step.promptLengths[0] > 0;
    for (int64_t row = 0; row < stepRows; ++row) {
      auto [sequence, position] = step.rows[row];
      if (!sequence)
        continue;
      const std::vector<int64_t> &tokens = sequence->tokens;
      std::vector<double> expected = attend(
          &model.q[tokens[position] * qWidth], position + 1,
          [&](int64_t j) { return &model.k[tokens[j] * kvWidth]; },
          [&](int64_t j) { return &model.v[tokens[j] * kvWidth]; });
      std::vector<float> o(qWidth);
      double error = 0, slack = 0;
      for (int64_t i = 0; i < qWidth; ++i) {
        o[i] = f16ToFloat(step.o[row * qWidth + i]);
        double difference = std::abs(o[i] - expected[i]);
        error = std::isnan(difference) ? INFINITY : std::max(error, difference);
      }
      ++served.rows;
      served.worst = std::max(served.worst, error);
      served.wrong += error > allowed;
      if (position + 1 < int64_t(tokens.size()))
        continue; // within a prompt
      // The token is right if no other one is more similar, but for the error of results.
      int64_t next = mostSimilar(model, o), best = mostSimilar(model, expected);
      for (int64_t i = 0; i < qWidth; ++i)
        slack += allowed * std::abs(f16ToFloat(model.q[next * qWidth + i]) -
                                    f16ToFloat(model.q[best * qWidth + i]));
      served.wrong += similarity(model, next, expected) < similarity(model, best, expected) - slack;
      sequence->tokens.push_back(next);
      ++served.generated;
    }
    for (size_t i = active.size(); i-- > 0;)
      if (int64_t(active[i]->tokens.size()) == active[i]->wanted) {
        allocator.release(*active[i]);
        active.erase(active.begin() + int64_t(i));
      }
  }
  if (!allocator.isWhole())
    fail("pages are missing at the end");
  std::printf(
      "%zu requests in %lld steps, %lld of them mixed: %lld rows, %lld new tokens, greatest "
      "error %.1e (%.1e allowed): %s\n",
      sequences.size(), (long long)served.steps, (long long)served.mixed, (long long)served.rows,
      (long long)served.generated, served.worst, allowed, served.wrong == 0 ? "ok" : "WRONG");
  return served;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4)
    fail("expected the names of three bundles: append, decode, prefill");
  const Model model;
  Result<const DriverTable *> found = DriverTable::system();
  Result<DeviceInfo> device = found ? queryDevice(**found, 0) : Result<DeviceInfo>(found.status());
  if (!device) {
    static const DriverTable none; // without a driver, everything except prepare and run works
    std::vector<Call> calls =
        makeCalls(none, argv + 1, Layout(Step()), 0x10000, 0x100000, 0x200000);
    for (const Call &call : calls)
      check(call.plan.checkSupport({8, 0, 0}));
    std::printf("workspace of %llu bytes, for any lengths\n",
                (unsigned long long)workspaceOf(calls));
    HostCache host;
    bool isRight = serve(model, host).wrong == 0;
    std::printf("serve: SKIPPED the graph, there is no GPU: %s\n",
                device.status().message().c_str());
    return isRight ? 0 : 1;
  }
  const DriverTable &driver = **found;
  std::printf("%s\n", device->toString().c_str());
  PrimaryContext context = take(PrimaryContext::retain(driver, *device));
  CHECK_CALL(driver, cuCtxPushCurrent, context.get());
  bool isRight = true;
  {
    DeviceCache cache(driver, argv + 1);
    Served served = serve(model, cache);
    isRight = served.wrong == 0;
    std::printf("in a graph: %.0f rows per second, %.0f new tokens per second\n",
                double(served.rows) / cache.seconds, double(served.generated) / cache.seconds);
  }
  cuda::Context popped = nullptr;
  CHECK_CALL(driver, cuCtxPopCurrent, &popped);
  return isRight ? 0 : 1;
}
