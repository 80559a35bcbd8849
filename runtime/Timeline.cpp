// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Samples are times of a multiprocessor's own clock. All tick alike, and each began to count at
// another moment, so one rate and an offset for each multiprocessor turn them into time. Both come
// from the pairs of that clock and the global timer that chunks begin and end with. The global
// timer is coarse (32 ns to 1 us): it lags by up to one step, so the greatest difference is
// nearest.

#include "runtime/Timeline.h"

#include "base/Abi/TimelineFormat.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <limits>
#include <map>

using namespace tilewright;
using namespace tilewright::runtime;
namespace format = tilewright::timeline;

namespace {

struct Chunk {
  const KernelSpec *kernel;
  uint32_t role, group, block, processor;
  uint64_t beginTime, beginClock, endTime, endClock; // endTime is 0 if the role did not end
  const uint64_t *records;
  size_t numRecords;
};

template <typename Integer> Integer read(const uint8_t *from) {
  Integer value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

class Clock {
public:
  explicit Clock(const std::vector<Chunk> &chunks) {
    double ticks = 0, nanoseconds = 0;
    for (const Chunk &chunk : chunks)
      if (chunk.endTime > chunk.beginTime) {
        ticks += double(chunk.endClock - chunk.beginClock);
        nanoseconds += double(chunk.endTime - chunk.beginTime);
      }
    if (ticks > 0 && nanoseconds > 0)
      rate = ticks / nanoseconds;
    for (const Chunk &chunk : chunks) {
      start = std::min(start, chunk.beginTime);
      Processor &processor =
          processors.emplace(chunk.processor, Processor{chunk.beginClock}).first->second;
      processor.reference = std::min(processor.reference, chunk.beginClock);
    }
    for (const Chunk &chunk : chunks) {
      Processor &processor = processors.at(chunk.processor);
      auto compare = [&](uint64_t time, uint64_t clock) {
        double offset = double(time - start) - double(clock - processor.reference) / rate;
        processor.offset = std::max(processor.offset, offset);
      };
      compare(chunk.beginTime, chunk.beginClock);
      if (chunk.endTime)
        compare(chunk.endTime, chunk.endClock);
    }
  }

  /// Nanoseconds since about the first sample, for a value of the clock.
  double at(const Chunk &chunk, uint64_t clock) const {
    const Processor &processor = processors.at(chunk.processor);
    return processor.offset + double(clock - processor.reference) / rate;
  }
  /// The full value of the clock, given the lower bits in a record.
  static uint64_t whole(const Chunk &chunk, uint64_t record) {
    uint64_t mask = (uint64_t(1) << format::clockBits) - 1;
    return chunk.beginClock + ((record - chunk.beginClock) & mask);
  }

  double rate = 1; // ticks per nanosecond
private:
  struct Processor {
    uint64_t reference;
    double offset = -std::numeric_limits<double>::infinity();
  };
  uint64_t start = UINT64_MAX;
  std::map<uint32_t, Processor> processors;
};

std::string quoted(const std::string &text) { return Json::string(text).write(); }

class Writer {
public:
  std::string text;

  void event(const std::string &body) {
    text += isFirst ? "\n" : ",\n";
    isFirst = false;
    text += "{" + body + "}";
  }
  void name(const char *what, unsigned process, unsigned thread, const std::string &value) {
    event("\"ph\":\"M\",\"name\":\"" + std::string(what) + "\",\"pid\":" + std::to_string(process) +
          ",\"tid\":" + std::to_string(thread) + ",\"args\":{\"name\":" + quoted(value) + "}");
  }
  /// `kind` is the phase in the trace format: X has a duration, b and e are begin and end.
  void slice(char phase, const std::string &name, const std::string &kind, unsigned process,
             unsigned thread, double begin, double duration, const std::string &more) {
    char times[96];
    if (phase == 'X')
      std::snprintf(times, sizeof(times), "\"ts\":%.4f,\"dur\":%.4f", begin / 1e3, duration / 1e3);
    else
      std::snprintf(times, sizeof(times), "\"ts\":%.4f", begin / 1e3);
    event("\"ph\":\"" + std::string(1, phase) + "\",\"name\":" + quoted(name) +
          ",\"cat\":" + quoted(kind) + ",\"pid\":" + std::to_string(process) +
          ",\"tid\":" + std::to_string(thread) + "," + times + more);
  }

private:
  bool isFirst = true;
};

/// The slices of one chunk.
class Track {
public:
  Track(Writer &writer, const Clock &clock, const Chunk &chunk, unsigned process, unsigned thread,
        uint64_t &numProducts)
      : writer(writer), clock(clock), chunk(chunk), process(process), thread(thread),
        numProducts(numProducts) {}

  Status write() {
    const std::vector<TimelineEventSpec> &events = chunk.kernel->timeline.events;
    double now = clock.at(chunk, chunk.beginClock);
    begin(nullptr, now);
    for (size_t i = 0; i < chunk.numRecords; ++i) {
      uint64_t number = chunk.records[i] >> format::clockBits;
      if (number / 2 >= events.size())
        return Status::failure("a timeline has event " + std::to_string(number / 2) +
                               " of kernel '" + chunk.kernel->name + "', but the kernel has " +
                               std::to_string(events.size()) + " events");
      const TimelineEventSpec &event = events[number / 2];
      now = clock.at(chunk, Clock::whole(chunk, chunk.records[i]));
      close(now);
      bool isEnd = number & 1;
      if (event.kind != "loop")
        begin(isEnd ? nullptr : &event, now);
      else if (!isEnd)
        rounds.push_back({&event, now});
      else
        endRound(event, now);
      if (event.kind == "loop")
        begin(nullptr, now);
    }
    if (chunk.endTime)
      now = clock.at(chunk, chunk.endClock);
    close(now);
    while (!rounds.empty())
      endRound(*rounds.back().event, now);
    return Status::success();
  }

private:
  struct Open {
    const TimelineEventSpec *event; // null: work without events
    double since;
  };
  struct Group {
    std::string name;
    double since;
  };

  void begin(const TimelineEventSpec *event, double now) {
    open = {event, now};
    if (!event || event->kind != "product")
      return;
    if (group.name.empty())
      group = {event->name, now};
    else
      group.name += ", " + event->name;
    if (event->commits) {
      inFlight.push_back(group);
      group.name.clear();
    }
  }

  void close(double now) {
    double duration = now - open.since;
    if (!open.event) {
      if (duration > 0)
        writer.slice('X', "work", "work", process, thread, open.since, duration, "");
      return;
    }
    const TimelineEventSpec &event = *open.event;
    writer.slice('X', event.name, event.kind, process, thread, open.since, duration, place(event));
    // A wait for products ends those that it does not leave in flight.
    while (event.pending >= 0 && inFlight.size() > size_t(event.pending)) {
      const Group &done = inFlight.front();
      std::string id = ",\"id\":" + std::to_string(numProducts++);
      writer.slice('b', done.name, "in flight", process, thread, done.since, 0, id);
      writer.slice('e', done.name, "in flight", process, thread, now, 0, id);
      inFlight.pop_front();
    }
  }

  void endRound(const TimelineEventSpec &event, double now) {
    // A record that did not fit may have been a beginning.
    if (rounds.empty() || rounds.back().event != &event)
      return;
    writer.slice('X', event.name, event.kind, process, thread, rounds.back().since,
                 now - rounds.back().since, place(event));
    rounds.pop_back();
  }

  static std::string place(const TimelineEventSpec &event) {
    return event.line.empty() ? "" : ",\"args\":{\"line\":" + quoted(event.line) + "}";
  }

  Writer &writer;
  const Clock &clock;
  const Chunk &chunk;
  unsigned process, thread;
  uint64_t &numProducts;
  Open open = {nullptr, 0};
  std::vector<Open> rounds;
  Group group;
  std::deque<Group> inFlight;
};

} // namespace

Result<std::string> runtime::timelineToJson(const Manifest &manifest, const void *buffer,
                                            size_t bytes) {
  std::map<uint32_t, const KernelSpec *> kernels;
  size_t words = 0;
  for (const KernelSpec &kernel : manifest.kernels) {
    if (!kernel.timeline.words)
      continue;
    if (words && words != kernel.timeline.words)
      return Status::failure(
          "kernels of the bundle write timelines in chunks of " + std::to_string(words) +
          " and of " + std::to_string(kernel.timeline.words) +
          " words, so one buffer cannot have both; compile them with the same --timeline");
    words = kernel.timeline.words;
    kernels.emplace(kernel.timeline.tag, &kernel);
  }
  if (!words)
    return Status::failure(
        "no kernel of the bundle has a timeline; compile it with tilewrightc --timeline");
  size_t chunkBytes = words * format::wordBytes;
  if (bytes < 2 * chunkBytes)
    return Status::failure("a timeline requires " + std::to_string(2 * chunkBytes) +
                           " bytes or more, but got " + std::to_string(bytes));

  const auto *base = static_cast<const uint8_t *>(buffer);
  size_t claimed = read<uint32_t>(base), room = bytes / chunkBytes - 1;
  size_t written = std::min(claimed, room);
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < written; ++i) {
    const uint8_t *at = base + (i + 1) * chunkBytes;
    auto kernel = kernels.find(read<uint32_t>(at + format::atTag));
    if (kernel == kernels.end())
      return Status::failure("chunk " + std::to_string(i) +
                             " of the timeline was not written by a kernel "
                             "of this bundle; clear the buffer before the launch");
    uint32_t slot = read<uint32_t>(at + format::atSlot);
    Chunk chunk{kernel->second,
                slot >> 16,
                slot & 0xffff,
                read<uint32_t>(at + format::atBlock),
                read<uint32_t>(at + format::atProcessor),
                read<uint64_t>(at + format::atBegin),
                read<uint64_t>(at + format::atBegin + 8),
                read<uint64_t>(at + format::atEnd),
                read<uint64_t>(at + format::atEnd + 8),
                reinterpret_cast<const uint64_t *>(at + format::headerBytes),
                0};
    if (chunk.role >= kernel->second->timeline.roles.size())
      return Status::failure("chunk " + std::to_string(i) + " of the timeline has role " +
                             std::to_string(chunk.role) + " of kernel '" + kernel->second->name +
                             "', but the kernel has " +
                             std::to_string(kernel->second->timeline.roles.size()) + " roles");
    // For a role that did not end, the records that exist.
    size_t most = words - format::headerBytes / format::wordBytes;
    if (chunk.endTime)
      chunk.numRecords = std::min<size_t>(most, read<uint64_t>(at + format::atCount));
    else
      while (chunk.numRecords < most && chunk.records[chunk.numRecords])
        ++chunk.numRecords;
    chunks.push_back(chunk);
  }

  Clock clock(chunks);
  std::stable_sort(chunks.begin(), chunks.end(), [](const Chunk &a, const Chunk &b) {
    return std::make_tuple(a.beginTime, a.block) < std::make_tuple(b.beginTime, b.block);
  });
  Writer writer;
  std::map<std::pair<const KernelSpec *, uint32_t>, unsigned> processes;
  std::map<std::pair<unsigned, unsigned>, bool> named;
  uint64_t numProducts = 0;
  size_t numFull = 0;
  for (const Chunk &chunk : chunks) {
    auto [process, isNew] =
        processes.emplace(std::make_pair(chunk.kernel, chunk.block), processes.size() + 1);
    if (isNew)
      writer.name("process_name", process->second, 0,
                  chunk.kernel->name + " block " + std::to_string(chunk.block) + ", SM " +
                      std::to_string(chunk.processor));
    unsigned thread = 64 * chunk.role + chunk.group + 1;
    if (!named[{process->second, thread}]) {
      named[{process->second, thread}] = true;
      writer.name("thread_name", process->second, thread,
                  chunk.kernel->timeline.roles[chunk.role] + " " + std::to_string(chunk.group));
    }
    numFull += chunk.numRecords == words - format::headerBytes / format::wordBytes;
    Track track(writer, clock, chunk, process->second, thread, numProducts);
    if (Status status = track.write(); !status)
      return status;
  }
  char rate[32];
  std::snprintf(rate, sizeof(rate), "%.6f", clock.rate);
  return "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"chunks claimed\":" +
         std::to_string(claimed) + ",\"chunks written\":" + std::to_string(written) +
         ",\"chunks full\":" + std::to_string(numFull) + ",\"clock GHz\":" + rate +
         "},\"traceEvents\":[" + writer.text + "\n]}\n";
}
