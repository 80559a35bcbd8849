// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of messages and launches around the ring. Step t is with the ranks at distance t, so
// that keys travel once, and only to ranks that need them. Its messages are posted before the
// kernels of step t - 1, which hide them, into one of two buffers.

#include "runtime/Distributed/RingAttention.h"

#include "runtime/Distributed/Checks.h"

#include <algorithm>
#include <array>
#include <limits>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// One launch: own rows, by their index, on keys of a step.
struct Launch {
  Span rows, keys; // in the arrays
  int64_t firstRow = 0, firstKey = 0;
  bool isContinued = false; // of the rows' launch before
  bool isLast = true;       // else O stays in the type of sums
};

/// Messages with two ranks, and the launches on what is received.
struct Step {
  int source = 0, target = 0;
  Spans given, taken;
  std::vector<Launch> launches;
};

Status checkShares(const char *name, const std::vector<Spans> &shares, int size) {
  const std::string rule =
      std::string(name) + " must have the ranges of each of the " + std::to_string(size) + " ranks";
  if (shares.size() != size_t(size))
    return Status::failure(rule + ", but got " + std::to_string(shares.size()));
  Spans all;
  for (const Spans &spans : shares) {
    if (spans != united(spans))
      return Status::failure(rule + ", in ascending order and not empty, but got others");
    all.insert(all.end(), spans.begin(), spans.end());
  }
  std::sort(all.begin(), all.end(), [](const Span &a, const Span &b) { return a.begin < b.begin; });
  int64_t next = 0;
  for (const Span &span : all) {
    if (span.begin != next)
      return Status::failure(rule + ", together each row once, but got " +
                             (span.begin < next ? "two with row " : "none with row ") +
                             std::to_string(std::min(span.begin, next)));
    next = span.end;
  }
  if (next > std::numeric_limits<int32_t>::max())
    return Status::failure(std::string(name) + " must be fewer than 2^31, but got " +
                           std::to_string(next));
  return Status::success();
}

Status checkDesc(const RingDesc &desc, int size) {
  const AttentionDesc &attention = desc.attention;
  if (attention.kind != AttentionDesc::Kind::Forward)
    return Status::failure("ring attention must be a forward, but got another kind");
  if (attention.isPacked || attention.isCached || attention.listBlockM || attention.listBlockN)
    return Status::failure("ring attention must not have packed sequences, a cache or lists of "
                           "blocks; give each sequence its own ring");
  if (!isFloat(attention.type) || byteWidth(attention.type) < 2)
    return Status::failure("the type of ring attention must be a float of 16 bits or more, but "
                           "got " +
                           std::string(elementTypeName(attention.type)));
  if (desc.batch < 0 || desc.keyHeads < 1 || desc.heads < 1 || desc.heads % desc.keyHeads)
    return Status::failure("heads must be a multiple of key heads, and the batch not negative, but "
                           "got " +
                           std::to_string(desc.heads) + " on " + std::to_string(desc.keyHeads) +
                           ", batch " + std::to_string(desc.batch));
  for (int64_t side : {desc.windowLeft, desc.windowRight})
    if (side < -1 || side > std::numeric_limits<int32_t>::max())
      return Status::failure("a side of a window must be -1 or a number of keys, but got " +
                             std::to_string(side));
  if (Status status = checkShares("rows", desc.rows, size); !status)
    return status;
  return checkShares("keys", desc.keys, size);
}

int64_t totalOf(const std::vector<Spans> &shares) {
  int64_t total = 0;
  for (const Spans &spans : shares)
    total += rowsOf(spans);
  return total;
}

std::string textOf(const std::vector<Spans> &shares) {
  std::string text;
  for (const Spans &spans : shares) {
    for (const Span &span : spans)
      text += std::to_string(span.begin) + "-" + std::to_string(span.end) + ",";
    text += ";";
  }
  return text;
}

class Ring : public RingAttention {
public:
  Ring(Processor &processor, Communicator &communicator, const RingDesc &desc)
      : processor(processor), communicator(communicator), desc(desc) {
    AttentionDesc &attention = this->desc.attention;
    attention.valueDim = attention.valueDim ? attention.valueDim : attention.headDim;
    attention.hasWindow = desc.windowLeft >= 0 || desc.windowRight >= 0;
    type = attention.type;
    sums = sumTypeOf(type);
  }

  Status prepare() {
    if (Status status = checkDesc(desc, communicator.size()); !status)
      return status;
    plan();
    for (const Step &step : steps)
      for (const Launch &launch : step.launches)
        if (auto &kernel = kernelOf(launch); !kernel) {
          auto loaded = processor.load(descOf(launch));
          if (!loaded)
            return loaded.status();
          kernel = std::move(*loaded);
        }
    return allocate();
  }

  std::vector<std::pair<const char *, int64_t>> fields() const {
    const AttentionDesc &attention = desc.attention;
    return {{"type, widths and parameters", keyOf(signatureOf(attention))},
            {"batch", desc.batch},
            {"heads", desc.heads},
            {"key heads", desc.keyHeads},
            {"left side of the window", desc.windowLeft},
            {"right side of the window", desc.windowRight},
            {"scale", bitsOf(desc.scale)},
            {"shares of rows", keyOf(textOf(desc.rows))},
            {"shares of keys", keyOf(textOf(desc.keys))},
            {"hasModifiers", desc.hasModifiers}};
  }

  Status run(const RingArguments &arguments) override {
    Status status = checkArguments(arguments);
    if (status)
      status = runSteps(arguments);
    if (!status)
      communicator.abort(status);
    return status;
  }

  int64_t countPairs() const override { return numPairs; }
  uint64_t receivedBytes() const override {
    uint64_t bytes = 0;
    for (const Step &step : steps)
      bytes += bytesOf(step.taken);
    return bytes;
  }
  size_t numLaunches() const override {
    size_t count = 0;
    for (const Step &step : steps)
      count += step.launches.size();
    return count;
  }

private:
  int ranks() const { return communicator.size(); }

  /// The messages and launches of each step.
  void plan() {
    const int own = communicator.rank();
    const AttentionDesc &attention = desc.attention;
    diagonal = attention.causal == AttentionDesc::Causal::BottomRight
                   ? totalOf(desc.keys) - totalOf(desc.rows)
                   : 0;
    const bool isCausal = attention.causal != AttentionDesc::Causal::None;
    const Band band = {desc.windowLeft, isCausal ? 0 : desc.windowRight, diagonal};
    const Spans &rows = desc.rows[size_t(own)];
    std::vector<SourceKeys> sources;
    for (int t = 0; t < ranks(); ++t) {
      Step step;
      step.source = (own - t + ranks()) % ranks();
      step.target = (own + t) % ranks();
      if (t == 0) {
        sources.push_back({own, desc.keys[size_t(own)]});
      } else {
        step.given = needed(desc.rows[size_t(step.target)], desc.keys[size_t(own)], band);
        step.taken = needed(rows, desc.keys[size_t(step.source)], band);
        sources.push_back({step.source, step.taken});
      }
      steps.push_back(std::move(step));
    }
    for (const Segment &segment : segmentsOf(rows, sources, band)) {
      std::vector<KeyPart> parts =
          desc.hasModifiers ? segment.parts : merged(segment.parts, sources, band);
      const int64_t begin = offsetIn(rows, segment.rows.begin);
      const Span indices = {begin, begin + segment.rows.size()};
      if (parts.empty()) // O and LSE of rows without keys
        steps[0].launches.push_back({indices, {}, segment.rows.begin, 0, false, true});
      size_t index = 0;
      for (const KeyPart &part : parts) {
        size_t t = size_t((own - part.source + ranks()) % ranks());
        const int64_t at = offsetIn(sources[t].keys, part.keys.begin);
        Launch launch;
        launch.rows = indices;
        launch.keys = {at - part.further, at + part.keys.size()};
        launch.firstRow = segment.rows.begin;
        launch.firstKey = part.keys.begin - part.further;
        launch.isContinued = index > 0;
        launch.isLast = ++index == parts.size();
        keepsSums |= !launch.isLast;
        steps[t].launches.push_back(launch);
      }
      for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row)
        for (const Spans &spans : desc.keys)
          for (const Span &keys : spans)
            numPairs += band.keys({row, row + 1}, keys).size();
    }
  }

  AttentionDesc descOf(const Launch &launch) const {
    AttentionDesc attention = desc.attention;
    attention.more.emplace_back("SHARD", Expr::flag(true));
    attention.more.emplace_back("TO", typeValue(launch.isLast ? type : sums));
    attention.more.emplace_back("CONTINUED", Expr::flag(launch.isContinued));
    return attention;
  }
  std::unique_ptr<ProcessorKernel> &kernelOf(const Launch &launch) {
    const bool isRounded = launch.isLast && type != sums; // else TO is the same
    return kernels[size_t(2 * launch.isContinued + isRounded)];
  }

  int64_t keyElements(const Spans &spans) const {
    return desc.batch * desc.keyHeads * rowsOf(spans) * desc.attention.headDim;
  }
  int64_t valueElements(const Spans &spans) const {
    return desc.batch * desc.keyHeads * rowsOf(spans) * desc.attention.valueDim;
  }
  uint64_t bytesOf(const Spans &spans) const {
    return uint64_t(keyElements(spans) + valueElements(spans)) * byteWidth(type);
  }
  /// Where values begin after the keys of a buffer: aligned as tensor maps need it.
  uint64_t placeOfValues(const Spans &spans) const {
    return (uint64_t(keyElements(spans)) * byteWidth(type) + 255) / 256 * 256;
  }
  uint64_t bufferBytes(const Spans &spans) const {
    return placeOfValues(spans) + uint64_t(valueElements(spans)) * byteWidth(type);
  }

  Status allocate() {
    uint64_t received = 0, packed = 0;
    for (const Step &step : steps) {
      received = std::max(received, bufferBytes(step.taken));
      packed = std::max(packed, bufferBytes(step.given));
    }
    const int64_t rows = rowsOf(desc.rows[size_t(communicator.rank())]);
    const uint64_t sumBytes = byteWidth(sums);
    const uint64_t states = uint64_t(desc.batch * desc.heads * rows * desc.attention.valueDim);
    for (auto [memory, bytes] : {std::pair(&buffers[1], received),
                                 {&buffers[0], ranks() > 2 ? received : 0},
                                 {&staging, packed},
                                 {&gate, uint64_t(processor.kernelsDelayMessages() ? 512 : 0)},
                                 {&state, keepsSums && type != sums ? states * sumBytes : 0},
                                 {&ownLse, uint64_t(desc.batch * desc.heads * rows) * sumBytes}}) {
      Result<ProcessorMemory> made = ProcessorMemory::allocate(processor, bytes);
      if (!made)
        return made.status();
      *memory = std::move(*made);
    }
    return Status::success();
  }

  Status checkArguments(const RingArguments &arguments) const {
    const size_t own = size_t(communicator.rank());
    const int64_t rows = rowsOf(desc.rows[own]), keys = rowsOf(desc.keys[own]);
    const int64_t D = desc.attention.headDim, DV = desc.attention.valueDim;
    Status status = expectView("q", arguments.q, type, {desc.batch, desc.heads, rows, D});
    if (status)
      status = expectView("k", arguments.k, type, {desc.batch, desc.keyHeads, keys, D});
    if (status)
      status = expectView("v", arguments.v, type, {desc.batch, desc.keyHeads, keys, DV});
    if (status)
      status = expectView("o", arguments.o, type, {desc.batch, desc.heads, rows, DV});
    if (status && arguments.lse.kind != Argument::Kind::Absent)
      status = expectView("lse", arguments.lse, sums, {desc.batch, desc.heads, rows});
    const std::unique_ptr<ProcessorKernel> &first = kernels[0] ? kernels[0] : kernels[1];
    for (const NamedArgument &capture : arguments.captures)
      if (status && first && !first->takes(capture.name))
        status = Status::failure("a capture must be one of the files that are linked to the "
                                 "kernel, but got '" +
                                 capture.name + "'");
    return status;
  }

  Argument viewOf(uint64_t address, ElementType element, int64_t heads, int64_t rows,
                  int64_t width) const {
    return Argument::dense(address, element, {desc.batch, heads, rows, width});
  }

  /// Copies the rows of `given`, unless they can be sent where they are.
  Status pack(const Argument &from, const Spans &given, uint64_t place, uint64_t &address) {
    const Spans &own = desc.keys[size_t(communicator.rank())];
    address = from.bits;
    if (given == own && isDense(from))
      return Status::success();
    address = place;
    const Argument all = viewOf(place, type, desc.keyHeads, rowsOf(given), from.extents[3]);
    int64_t done = 0;
    for (const Span &span : given) {
      const int64_t begin = offsetIn(own, span.begin);
      if (Status status = copyView(processor, rowsOfView(all, done, done + span.size()),
                                   rowsOfView(from, begin, begin + span.size()), Queue::Exchange);
          !status)
        return status;
      done += span.size();
    }
    return Status::success();
  }

  /// Starts the messages of a step. Its buffer is that of two steps before, whose kernels are on
  /// the queue by now.
  Status post(const RingArguments &arguments, size_t t) {
    if (t >= steps.size())
      return Status::success();
    const Step &step = steps[t];
    if (Status status = processor.order(Queue::Compute, Queue::Exchange); !status)
      return status;
    uint64_t k = 0, v = 0;
    if (Status status = pack(arguments.k, step.given, staging.get(), k); !status)
      return status;
    if (Status status = pack(arguments.v, step.given, staging.get() + placeOfValues(step.given), v);
        !status)
      return status;
    const uint64_t width = byteWidth(type), into = buffers[t % 2].get();
    using Kind = Message::Kind;
    const std::vector<Message> messages = {
        {Kind::Send, k, uint64_t(keyElements(step.given)) * width, step.target},
        {Kind::Receive, into, uint64_t(keyElements(step.taken)) * width, step.source},
        {Kind::Send, v, uint64_t(valueElements(step.given)) * width, step.target},
        {Kind::Receive, into + placeOfValues(step.taken),
         uint64_t(valueElements(step.taken)) * width, step.source}};
    const cuda::Stream stream = processor.stream(Queue::Exchange);
    const char *what = "exchange keys";
    // Kernels of attention take all multiprocessors, and messages need some: one that is not begun
    // before a kernel waits for its end, and one that has begun on one side alone holds its
    // multiprocessors until the other side comes. So a message of one element goes first, for which
    // the next kernel waits: both sides then come here, and the others follow at once.
    const uint64_t sent = step.given.empty() ? 0 : 4, received = step.taken.empty() ? 0 : 4;
    if (t > 1 && sent + received > 0 && processor.kernelsDelayMessages()) {
      const std::vector<Message> first = {{Kind::Send, gate.get(), sent, step.target},
                                          {Kind::Receive, gate.get() + 256, received, step.source}};
      if (Status status = communicator.post(first, stream, what); !status)
        return status;
      if (Status status = processor.order(Queue::Exchange, Queue::Compute); !status)
        return status;
    }
    return communicator.post(messages, stream, what);
  }

  Status runSteps(const RingArguments &arguments) {
    if (Status status = post(arguments, 1); !status)
      return status;
    Argument lse = arguments.lse;
    if (lse.kind == Argument::Kind::Absent)
      lse = Argument::dense(ownLse.get(), sums, {desc.batch, desc.heads, arguments.q.extents[2]});
    for (size_t t = 0; t < steps.size(); ++t) {
      const Step &step = steps[t];
      Argument k = arguments.k, v = arguments.v;
      if (t > 0) {
        if (Status status = communicator.complete(processor.stream(Queue::Exchange)); !status)
          return status;
        if (Status status = processor.order(Queue::Exchange, Queue::Compute); !status)
          return status;
        if (Status status = post(arguments, t + 1); !status)
          return status;
        const uint64_t at = buffers[t % 2].get();
        const int64_t keys = rowsOf(step.taken);
        k = viewOf(at, type, desc.keyHeads, keys, desc.attention.headDim);
        v = viewOf(at + placeOfValues(step.taken), type, desc.keyHeads, keys,
                   desc.attention.valueDim);
      }
      for (const Launch &launch : step.launches)
        if (Status status = run(launch, arguments, lse, k, v); !status)
          return status;
    }
    return Status::success();
  }

  Status run(const Launch &launch, const RingArguments &arguments, const Argument &lse,
             const Argument &k, const Argument &v) {
    auto own = [&](const Argument &view) {
      return rowsOfView(view, launch.rows.begin, launch.rows.end);
    };
    auto number = [](int64_t value) { return Argument::scalar(int32_t(value)); };
    // O of earlier launches; the result has its place if it is of the type of sums.
    const Argument before = type == sums ? arguments.o
                                         : viewOf(state.get(), sums, desc.heads,
                                                  arguments.q.extents[2], desc.attention.valueDim);
    NamedArguments values = {
        {"q", own(arguments.q)},
        {"k", rowsOfView(k, launch.keys.begin, launch.keys.end)},
        {"v", rowsOfView(v, launch.keys.begin, launch.keys.end)},
        {"o", own(launch.isLast ? arguments.o : before), true},
        {"lse", own(lse), true},
        {"scale", Argument::scalar(desc.scale)},
        {"window_left", number(desc.windowLeft)},
        {"window_right", number(desc.windowRight)},
        {"first_row", number(launch.firstRow)},
        {"first_key", number(launch.firstKey)},
        {"diagonal", number(diagonal)},
        {"first_head", number(0)},
        {"first_batch", number(0)},
    };
    if (launch.isContinued) {
      values.push_back({"o_before", own(before)});
      values.push_back({"lse_before", own(lse)});
    }
    ProcessorKernel &kernel = *kernelOf(launch);
    for (const NamedArgument &capture : arguments.captures)
      if (kernel.takes(capture.name))
        values.push_back(capture);
    return kernel.run(values);
  }

  Processor &processor;
  Communicator &communicator;
  RingDesc desc;
  ElementType type = ElementType::F32, sums = ElementType::F32;
  int64_t diagonal = 0, numPairs = 0;
  bool keepsSums = false;
  std::vector<Step> steps;
  std::array<std::unique_ptr<ProcessorKernel>, 4> kernels; // by CONTINUED and TO
  ProcessorMemory buffers[2], staging, gate, state, ownLse;
};

} // namespace

Result<std::unique_ptr<RingAttention>>
RingAttention::create(Processor &processor, Communicator &communicator, const RingDesc &desc) {
  auto ring = std::make_unique<Ring>(processor, communicator, desc);
  if (Status status = agree(processor, communicator, ring->prepare(), ring->fields()); !status)
    return status;
  return std::unique_ptr<RingAttention>(std::move(ring));
}
