// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inference of one long sequence over the GPUs of a host, without Python: a prefill whose rows are
// distributed, with keys and values passed around a ring, then decoding with the keys spread over
// the GPUs and the results merged. docs/scale.md explains the calls.
//
//   tilewrightc kernels/attention_forward.mlir --param D=128 --param T=bf16 --param CAUSAL=top_left
//       --param SHARD=true --variant CONTINUED=false,TO=bf16 --variant CONTINUED=false,TO=f32
//       --variant CONTINUED=true,TO=bf16 --variant CONTINUED=true,TO=f32 --target=sm_90a
//       --emit=bundle -o forward.twb
//   tilewrightc kernels/attention_decode.mlir --param D=128 --param T=bf16 --param GROUP=4
//       --target=sm_90a --emit=bundle -o decode.twb
//   tilewrightc kernels/attention_merge.mlir --param D=128 --param T=bf16 --target=sm_90a
//       --emit=bundle -o merge.twb
//   context_parallel --check forward.twb decode.twb merge.twb
//
// A thread for each GPU is a rank. Ranks of several processes or hosts would differ in how they get
// the id of their group from rank 0. Without bundles, the ranks are threads on the CPU device,
// which runs the kernels of a folder by tilewright-run:
//
//   context_parallel --check --ranks=4 --kernels=kernels
//
// Exit code: 0 if all ranks have finished, and with --check all results are right; else 1. On a
// machine with fewer GPUs than ranks it says SKIPPED.

#include "runtime/Distributed/CudaProcessor.h"
#include "runtime/Distributed/HostProcessor.h"
#include "runtime/Distributed/LocalGroup.h"
#include "runtime/Distributed/Nccl.h"
#include "runtime/Distributed/RingAttention.h"
#include "runtime/Distributed/SpreadDecode.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

using namespace tilewright;
using namespace tilewright::runtime;
using Clock = std::chrono::steady_clock;

namespace {

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "context_parallel: %s\n", message.c_str());
  std::exit(1);
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

struct Options {
  int ranks = 2;
  int64_t rows = 0, heads = 16, keyHeads = 4, dim = 0, steps = 8;
  ElementType type = ElementType::BF16;
  ShareOrder order = ShareOrder::Zigzag;
  bool isChecked = false;
  int64_t timeout = 120; // seconds
  std::string kernels = "kernels";
  std::vector<std::string> bundles;

  bool isOnGpus() const { return !bundles.empty(); }
};

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i], name = text.substr(0, text.find('=')),
                value = name.size() < text.size() ? text.substr(name.size() + 1) : "";
    auto number = [&](int64_t least) {
      char *end = nullptr;
      int64_t result = std::strtoll(value.c_str(), &end, 10);
      if (value.empty() || *end || result < least)
        fail(name + " must be a number of at least " + std::to_string(least) + ", but got '" +
             value + "'");
      return result;
    };
    if (name == "--ranks")
      options.ranks = int(number(1));
    else if (name == "--rows")
      options.rows = number(1);
    else if (name == "--heads")
      options.heads = number(1);
    else if (name == "--key-heads")
      options.keyHeads = number(1);
    else if (name == "--dim")
      options.dim = number(1);
    else if (name == "--steps")
      options.steps = number(0);
    else if (name == "--timeout")
      options.timeout = number(1);
    else if (name == "--type" && (value == "bf16" || value == "f16"))
      options.type = value == "f16" ? ElementType::F16 : ElementType::BF16;
    else if (name == "--order" && (value == "zigzag" || value == "contiguous"))
      options.order = value == "zigzag" ? ShareOrder::Zigzag : ShareOrder::Contiguous;
    else if (name == "--kernels")
      options.kernels = value;
    else if (text == "--check")
      options.isChecked = true;
    else if (text[0] != '-')
      options.bundles.push_back(text);
    else
      fail("unknown option '" + text +
           "'; expected --ranks=, --rows=, --heads=, --key-heads=, --dim=, --steps=, --timeout=, "
           "--type=bf16|f16, --order=zigzag|contiguous, --kernels=, --check or bundles");
  }
  if (options.heads % options.keyHeads)
    fail("--heads must be a multiple of --key-heads");
  // The CPU device is for checks of small sizes.
  if (!options.rows)
    options.rows = options.isOnGpus() ? 256 << 10 : 96;
  if (!options.dim)
    options.dim = options.isOnGpus() ? 128 : 16;
  return options;
}

//===----------------------------------------------------------------------===//
// The numbers of q, k and v, by their places in the whole
//===----------------------------------------------------------------------===//

enum Array { Q, K, V };

/// A multiple of 1/16 from -2 to 2, which 16-bit types have.
int numberAt(Array array, int64_t head, int64_t row, int64_t column) {
  uint64_t x = uint64_t(row) * 0x9e3779b97f4a7c15u ^ uint64_t(head * 4 + array) << 40 ^
               uint64_t(column) << 20;
  x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 29) * 0x94d049bb133111ebu;
  return int((x >> 40) % 65) - 32;
}
double valueAt(Array array, int64_t head, int64_t row, int64_t column) {
  return numberAt(array, head, row, column) / 16.0;
}

uint16_t bitsOf(ElementType type, float value) {
  if (type == ElementType::F16)
    return numeric::floatToF16(value);
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return uint16_t(bits >> 16); // exact for these numbers
}
float floatOf(ElementType type, uint16_t bits) {
  if (type == ElementType::F16)
    return numeric::f16ToFloat(bits);
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

/// [1, heads, rows, dim] of the rows of a rank.
std::vector<uint16_t> makeRows(const Options &options, Array array, const Spans &spans) {
  uint16_t bits[65];
  for (int i = 0; i < 65; ++i)
    bits[i] = bitsOf(options.type, float(i - 32) / 16);
  const int64_t heads = array == Q ? options.heads : options.keyHeads;
  std::vector<uint16_t> rows;
  rows.reserve(size_t(heads * rowsOf(spans) * options.dim));
  for (int64_t h = 0; h < heads; ++h)
    for (const Span &span : spans)
      for (int64_t i = span.begin; i < span.end; ++i)
        for (int64_t d = 0; d < options.dim; ++d)
          rows.push_back(bits[numberAt(array, h, i, d) + 32]);
  return rows;
}

/// O of a row and head by the formula, in f64: it attends the keys up to its own.
std::vector<double> attend(const Options &options, int64_t head, int64_t row) {
  const int64_t keyHead = head / (options.heads / options.keyHeads), D = options.dim;
  std::vector<double> p(static_cast<size_t>(row + 1)), o(static_cast<size_t>(D));
  double max = -INFINITY, sum = 0;
  for (int64_t j = 0; j <= row; ++j) {
    double s = 0;
    for (int64_t d = 0; d < D; ++d)
      s += valueAt(Q, head, row, d) * valueAt(K, keyHead, j, d);
    max = std::max(max, p[size_t(j)] = s / std::sqrt(double(D)));
  }
  for (double &each : p)
    sum += each = std::exp(each - max);
  for (int64_t j = 0; j <= row; ++j)
    for (int64_t d = 0; d < D; ++d)
      o[size_t(d)] += p[size_t(j)] / sum * valueAt(V, keyHead, j, d);
  return o;
}

//===----------------------------------------------------------------------===//
// A rank
//===----------------------------------------------------------------------===//

/// Seconds, and results in memory of the host.
struct Report {
  double prefill = 0, decode = 0;
  int64_t pairs = 0;
  size_t launches = 0;
  uint64_t received = 0;
  std::vector<uint16_t> o;                    // [heads, own rows, dim]
  std::vector<std::vector<uint16_t>> decoded; // [heads, dim] of each step
};

#define RETURN_IF_FAILED(expression)                                                               \
  if (Status status = (expression); !status)                                                       \
  return status

/// A dense array in memory of the processor.
struct DeviceArray {
  ProcessorMemory memory;
  Argument view;

  Status make(Processor &processor, ElementType type, std::initializer_list<int64_t> extents) {
    uint64_t bytes = byteWidth(type);
    for (int64_t extent : extents)
      bytes *= uint64_t(extent);
    Result<ProcessorMemory> made = ProcessorMemory::allocate(processor, bytes);
    if (!made)
      return made.status();
    memory = std::move(*made);
    view = Argument::dense(memory.get(), type, extents);
    return Status::success();
  }
};

class Rank {
public:
  Rank(const Options &options, Processor &processor, Communicator &communicator, Report &report)
      : options(options), processor(processor), communicator(communicator), report(report),
        shares(sharesOf(options.rows, communicator.size(), options.order)),
        own(shares[size_t(communicator.rank())]), rows(rowsOf(own)) {}

  Status prefill() {
    const int64_t H = options.heads, Hkv = options.keyHeads, D = options.dim;
    RETURN_IF_FAILED(q.make(processor, options.type, {1, H, rows, D}));
    RETURN_IF_FAILED(k.make(processor, options.type, {1, Hkv, rows, D}));
    RETURN_IF_FAILED(v.make(processor, options.type, {1, Hkv, rows, D}));
    RETURN_IF_FAILED(o.make(processor, options.type, {1, H, rows, D}));
    RETURN_IF_FAILED(lse.make(processor, ElementType::F32, {1, H, rows}));
    for (auto [array, to] : {std::pair(Q, &q), {K, &k}, {V, &v}}) {
      std::vector<uint16_t> values = makeRows(options, array, own);
      RETURN_IF_FAILED(processor.upload(to->view.bits, values.data(), 2 * values.size()));
      RETURN_IF_FAILED(wait());
    }
    RingDesc desc;
    desc.attention.type = options.type;
    desc.attention.headDim = D;
    desc.attention.causal = AttentionDesc::Causal::TopLeft;
    desc.heads = H, desc.keyHeads = Hkv;
    desc.scale = 1 / std::sqrt(double(D));
    desc.rows = desc.keys = shares;
    desc.hasModifiers = false; // the bundles have none
    auto ring = RingAttention::create(processor, communicator, desc);
    if (!ring)
      return ring.status();
    RingArguments arguments;
    arguments.q = q.view, arguments.k = k.view, arguments.v = v.view;
    arguments.o = o.view, arguments.lse = lse.view;
    report.prefill = INFINITY;
    for (int run = 0; run < (options.isOnGpus() ? 5 : 1); ++run) {
      RETURN_IF_FAILED(meet());
      const auto begin = Clock::now();
      RETURN_IF_FAILED((*ring)->run(arguments));
      RETURN_IF_FAILED(wait());
      report.prefill = std::min(report.prefill, secondsSince(begin));
    }
    report.pairs = (*ring)->countPairs();
    report.launches = (*ring)->numLaunches();
    report.received = (*ring)->receivedBytes();
    if (!options.isChecked)
      return Status::success();
    report.o.resize(size_t(H * rows * D));
    RETURN_IF_FAILED(processor.download(report.o.data(), o.view.bits, 2 * report.o.size()));
    return wait();
  }

  Status decode() {
    const int64_t H = options.heads, Hkv = options.keyHeads, D = options.dim;
    // The cache of an engine: keys of the own rows, and room for new ones, which go to the ranks in
    // turn. A query attends all keys, so their order does not matter.
    const int64_t room = rows + (options.steps + communicator.size() - 1) / communicator.size();
    DeviceArray keys, values, length, query, result;
    RETURN_IF_FAILED(keys.make(processor, options.type, {1, room, Hkv, D}));
    RETURN_IF_FAILED(values.make(processor, options.type, {1, room, Hkv, D}));
    RETURN_IF_FAILED(length.make(processor, ElementType::I32, {1}));
    RETURN_IF_FAILED(query.make(processor, options.type, {1, H, 1, D}));
    RETURN_IF_FAILED(result.make(processor, options.type, {1, H, 1, D}));
    for (auto [from, to] : {std::pair(&k, &keys), {&v, &values}}) {
      Argument place = to->view; // as [1, Hkv, rows, D]
      std::swap(place.extents[1], place.extents[2]);
      std::swap(place.strides[1], place.strides[2]);
      RETURN_IF_FAILED(copyView(processor, rowsOfView(place, 0, rows), from->view, Queue::Compute));
    }
    SpreadDecodeDesc desc;
    desc.attention.kind = AttentionDesc::Kind::Decode;
    desc.attention.type = options.type;
    desc.attention.headDim = D;
    desc.attention.group = H / Hkv;
    desc.attention.pageRows = 0; // in one piece
    desc.heads = H;
    desc.scale = 1 / std::sqrt(double(D));
    auto spread = SpreadDecode::create(processor, communicator, desc);
    if (!spread)
      return spread.status();
    SpreadDecodeArguments arguments;
    arguments.q = query.view;
    arguments.kPages = keys.view, arguments.vPages = values.view, arguments.seqLens = length.view;
    arguments.o = result.view;
    int32_t count = int32_t(rows);
    for (int64_t step = 0; step < options.steps; ++step) {
      const Spans token = {{options.rows + step, options.rows + step + 1}};
      std::vector<uint16_t> newQ = makeRows(options, Q, token), newK, newV;
      RETURN_IF_FAILED(processor.upload(query.view.bits, newQ.data(), 2 * newQ.size()));
      if (step % communicator.size() == communicator.rank()) {
        newK = makeRows(options, K, token), newV = makeRows(options, V, token);
        const uint64_t at = uint64_t(2 * count++ * Hkv * D);
        RETURN_IF_FAILED(processor.upload(keys.view.bits + at, newK.data(), 2 * newK.size()));
        RETURN_IF_FAILED(processor.upload(values.view.bits + at, newV.data(), 2 * newV.size()));
      }
      RETURN_IF_FAILED(processor.upload(length.view.bits, &count, sizeof(count)));
      RETURN_IF_FAILED(meet());
      const auto begin = Clock::now();
      RETURN_IF_FAILED((*spread)->run(arguments));
      RETURN_IF_FAILED(wait());
      report.decode += step > 0 ? secondsSince(begin) : 0; // the first one connects ranks
      report.decoded.emplace_back(size_t(H * D));
      RETURN_IF_FAILED(
          processor.download(report.decoded.back().data(), result.view.bits, uint64_t(2 * H * D)));
      RETURN_IF_FAILED(wait());
    }
    report.decode /= double(std::max<int64_t>(options.steps - 1, 1));
    return Status::success();
  }

private:
  static double secondsSince(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  Status wait() { return communicator.wait(processor.stream(Queue::Compute)); }
  /// A barrier.
  Status meet() {
    std::vector<int64_t> numbers = {0};
    return reduceOnHost(processor, communicator, numbers, Reduction::Max);
  }

  const Options &options;
  Processor &processor;
  Communicator &communicator;
  Report &report;
  const std::vector<Spans> shares;
  const Spans &own;
  const int64_t rows;
  DeviceArray q, k, v, o, lse;
};

//===----------------------------------------------------------------------===//
// All ranks
//===----------------------------------------------------------------------===//

/// What makes the processor and the communicator of a rank, on its thread.
struct Machine {
  std::function<Result<std::unique_ptr<Processor>>(int rank)> makeProcessor;
  std::function<Result<std::unique_ptr<Communicator>>(int rank)> makeCommunicator;
};

/// Runs `size` ranks, and returns what they did.
std::vector<Report> runRanks(const Options &options, const Machine &machine, int size) {
  std::vector<Report> reports{size_t(size)};
  std::vector<Status> statuses{size_t(size)};
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i)
    threads.emplace_back([&, i] {
      Status &status = statuses[size_t(i)];
      auto processor = machine.makeProcessor(i);
      auto communicator = machine.makeCommunicator(i);
      status = processor ? communicator.status() : processor.status();
      if (!status)
        return;
      Rank rank(options, **processor, **communicator, reports[size_t(i)]);
      status = rank.prefill();
      if (status)
        status = rank.decode();
      if (!status)
        (*communicator)->abort(status);
    });
  for (std::thread &thread : threads)
    thread.join();
  bool isRight = true;
  for (const Status &status : statuses) {
    if (!status)
      std::fprintf(stderr, "context_parallel: %s\n", status.message().c_str());
    isRight &= status.ok();
  }
  if (!isRight)
    std::exit(1);
  return reports;
}

/// The greatest error of the results of all ranks, by the formula and by those of one rank alone.
double greatestError(const Options &options, const std::vector<Report> &reports,
                     const Report &alone) {
  const int64_t D = options.dim;
  double greatest = 0;
  auto compare = [&](double got, double expected) {
    double difference = std::abs(got - expected);
    greatest = std::isnan(difference) ? INFINITY : std::max(greatest, difference);
  };
  // The formula takes long: of many rows, the first and last ones and heads.
  auto isForFormula = [&](int64_t head, bool isFirstOrLast) {
    return options.rows <= 4096 || (isFirstOrLast && (head == 0 || head + 1 == options.heads));
  };
  const auto shares = sharesOf(options.rows, int(reports.size()), options.order);
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const int64_t own = rowsOf(shares[rank]);
    for (int64_t h = 0; h < options.heads; ++h)
      for (const Span &span : shares[rank])
        for (int64_t i = span.begin; i < span.end; ++i) {
          const uint16_t *got = &reports[rank].o[size_t((h * own + offsetIn(shares[rank], i)) * D)];
          const uint16_t *one = &alone.o[size_t((h * options.rows + i) * D)];
          for (int64_t d = 0; d < D; ++d)
            compare(floatOf(options.type, got[d]), floatOf(options.type, one[d]));
          if (!isForFormula(h, i == span.begin || i + 1 == span.end))
            continue;
          std::vector<double> expected = attend(options, h, i);
          for (int64_t d = 0; d < D; ++d)
            compare(floatOf(options.type, got[d]), expected[size_t(d)]);
        }
  }
  for (int64_t step = 0; step < options.steps; ++step)
    for (int64_t h = 0; h < options.heads; ++h) {
      if (!isForFormula(h, step == 0 || step + 1 == options.steps))
        continue;
      std::vector<double> expected = attend(options, h, options.rows + step);
      for (const Report &report : reports)
        for (int64_t d = 0; d < D; ++d)
          compare(floatOf(options.type, report.decoded[size_t(step)][size_t(h * D + d)]),
                  expected[size_t(d)]);
    }
  return greatest;
}

Machine hostMachine(const Options &options, int size) {
  auto group = std::make_shared<std::vector<std::unique_ptr<Communicator>>>(
      makeLocalGroup(size, std::chrono::seconds(options.timeout)));
  HostProcessorDesc desc;
  desc.kernels = options.kernels;
  return {[desc](int) { return makeHostProcessor(desc); },
          [group](int rank) -> Result<std::unique_ptr<Communicator>> {
            return std::move((*group)[size_t(rank)]);
          }};
}

Machine cudaMachine(const Options &options, const DriverTable &driver, const NcclTable &nccl,
                    int size) {
  CudaProcessorDesc desc;
  for (const std::string &file : options.bundles) {
    auto bundle = Bundle::open(file);
    if (!bundle)
      fail(bundle.status().message());
    desc.bundles.push_back(*bundle);
  }
  auto id = nccl.makeUniqueId(); // other processes would get it from rank 0
  if (!id)
    fail(id.status().message());
  return {[&driver, desc](int rank) {
            CudaProcessorDesc own = desc;
            own.device = rank;
            return makeCudaProcessor(driver, own);
          },
          [&, id = *id, size](int rank) {
            NcclDesc own;
            own.rank = rank, own.size = size, own.device = rank;
            own.id = id;
            own.timeout = std::chrono::seconds(options.timeout);
            return makeNcclCommunicator(nccl, driver, own);
          }};
}

} // namespace

int main(int argc, char **argv) {
  const Options options = parse(argc, argv);
  const DriverTable *driver = nullptr;
  NcclTable nccl;
  if (options.isOnGpus()) {
    Result<const DriverTable *> found = DriverTable::system();
    Result<int> count = found ? countDevices(**found) : Result<int>(found.status());
    if (!count || *count < options.ranks) {
      std::printf("context_parallel: SKIPPED, it needs %d GPUs: %s\n", options.ranks,
                  count ? ("there are " + std::to_string(*count)).c_str()
                        : count.status().message().c_str());
      return 0;
    }
    driver = *found;
    Result<NcclTable> opened = NcclTable::open();
    if (!opened)
      fail(opened.status().message());
    nccl = *opened;
  }
  auto run = [&](int size) {
    return runRanks(options,
                    driver ? cudaMachine(options, *driver, nccl, size) : hostMachine(options, size),
                    size);
  };
  std::printf("%d ranks on %s: %lld rows, %lld heads on %lld, width %lld, %s, %s\n", options.ranks,
              driver ? "GPUs, by NCCL" : "the CPU device", (long long)options.rows,
              (long long)options.heads, (long long)options.keyHeads, (long long)options.dim,
              std::string(elementTypeName(options.type)).c_str(),
              options.order == ShareOrder::Zigzag ? "zigzag" : "contiguous");
  const std::vector<Report> reports = run(options.ranks);
  double prefill = 0, decode = 0;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const Report &report = reports[rank];
    prefill = std::max(prefill, report.prefill), decode = std::max(decode, report.decode);
    // Two products of each pair, of two operations for each column.
    const double operations =
        4.0 * double(report.pairs) * double(options.heads) * double(options.dim);
    std::printf("rank %zu: prefill %.3f ms, %.2f TFLOP/s, %zu launches, %.1f MB received; a token "
                "%.3f ms\n",
                rank, 1e3 * report.prefill, 1e-12 * operations / report.prefill, report.launches,
                1e-6 * double(report.received), 1e3 * report.decode);
  }
  const double all =
      2.0 * double(options.rows) * double(options.rows + 1) * double(options.heads * options.dim);
  std::printf("prefill %.3f ms, %.2f TFLOP/s a rank; %lld tokens, %.3f ms each\n", 1e3 * prefill,
              1e-12 * all / prefill / options.ranks, (long long)options.steps, 1e3 * decode);
  if (!options.isChecked)
    return 0;
  const Report alone = std::move(run(1)[0]);
  std::printf("one rank: prefill %.3f ms, %.2f TFLOP/s\n", 1e3 * alone.prefill,
              1e-12 * all / alone.prefill);
  // P, the results of ranks and O are rounded; values are averages of numbers up to 2.
  const double allowed = options.type == ElementType::F16 ? 4e-3 : 3e-2;
  const double error = greatestError(options, reports, alone);
  std::printf("greatest error %.1e (%.1e allowed): %s\n", error, allowed,
              error <= allowed ? "ok" : "WRONG");
  return error <= allowed ? 0 : 1;
}
