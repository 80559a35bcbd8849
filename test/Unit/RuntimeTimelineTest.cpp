// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Timelines: buffers as kernels write them, and the resulting traces.

#include "RuntimeTesting.h"

#include "base/Abi/TimelineFormat.h"
#include "runtime/Bundle.h"
#include "runtime/Json.h"
#include "runtime/Timeline.h"
#include "runtime/tilewright.h"

#include <cstring>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;
namespace format = tilewright::timeline;

namespace {

constexpr uint32_t words = 64, tag = 0x1234567;
enum Event : uint64_t { Round, Wait, Issue, Drain, Write };

Manifest manifest() {
  Manifest manifest;
  KernelSpec kernel;
  kernel.name = "attend";
  kernel.timeline.tag = tag;
  kernel.timeline.words = words;
  kernel.timeline.roles = {"load", "compute"};
  kernel.timeline.events = {{"loop", "round", "a.mlir:7"},
                            {"wait", "wait k", "a.mlir:8"},
                            {"product", "wgmma 64x64x16", "a.mlir:9", -1, true},
                            {"wait", "wgmma_wait", "a.mlir:10", 1},
                            {"store", "tma_store o", ""}};
  manifest.kernels.push_back(kernel);
  return manifest;
}

/// A buffer with a number of chunks, in the format of EmitTimeline.cpp.
struct Buffer {
  explicit Buffer(size_t chunks) : data((chunks + 1) * words) {}

  void put32(size_t byte, uint32_t value) {
    std::memcpy(reinterpret_cast<uint8_t *>(data.data()) + byte, &value, 4);
  }
  void put64(size_t byte, uint64_t value) { data[byte / 8] = value; }

  /// A record has an event, a flag for its end, and the clock.
  struct Record {
    uint64_t event;
    bool isEnd;
    uint64_t clock;
  };
  void add(uint32_t role, uint32_t group, uint32_t block, uint32_t processor,
           std::pair<uint64_t, uint64_t> begin, std::pair<uint64_t, uint64_t> end,
           const std::vector<Record> &records) {
    size_t at = ++claimed * words * 8;
    put32(0, uint32_t(claimed));
    put32(at + format::atTag, tag);
    put32(at + format::atSlot, role << 16 | group);
    put32(at + format::atBlock, block);
    put32(at + format::atProcessor, processor);
    put64(at + format::atBegin, begin.first);
    put64(at + format::atBegin + 8, begin.second);
    put64(at + format::atEnd, end.first);
    put64(at + format::atEnd + 8, end.second);
    put64(at + format::atCount, records.size());
    for (size_t i = 0; i < records.size(); ++i)
      put64(at + format::headerBytes + 8 * i,
            (2 * records[i].event + records[i].isEnd) << format::clockBits |
                (records[i].clock & ((uint64_t(1) << format::clockBits) - 1)));
  }

  Result<Json> trace(const Manifest &of = manifest()) const {
    Result<std::string> text = timelineToJson(of, data.data(), data.size() * 8);
    if (!text)
      return text.status();
    return Json::parse(*text);
  }

  std::vector<uint64_t> data;
  size_t claimed = 0;
};

/// Slices of a kind, as "name @ begin + duration" in microseconds.
std::vector<std::string> slices(const Json &trace, const std::string &kind) {
  std::vector<std::string> found;
  auto number = [](const Json &json) {
    return json.kind == Json::Kind::Integer ? double(json.number) : json.real;
  };
  for (const Json &event : trace.find("traceEvents")->items) {
    const Json *cat = event.find("cat");
    if (!cat || cat->text != kind)
      continue;
    char text[128];
    if (event.find("dur"))
      std::snprintf(text, sizeof(text), "%s @ %.3f + %.3f", event.find("name")->text.c_str(),
                    number(*event.find("ts")), number(*event.find("dur")));
    else
      std::snprintf(text, sizeof(text), "%s %s @ %.3f", event.find("ph")->text.c_str(),
                    event.find("name")->text.c_str(), number(*event.find("ts")));
    found.push_back(text);
  }
  return found;
}

using Strings = std::vector<std::string>;

TEST(RuntimeTimeline, SlicesAreWhatRecordsSay) {
  Buffer buffer(4);
  // Two ticks per nanosecond. An iteration: wait, issue two products, wait for the first, work.
  buffer.add(1, 0, 3, 9, {1000, 50000}, {2000, 52000},
             {{Round, false, 50200},
              {Wait, false, 50200},
              {Issue, false, 50400}, // the wait did not mark its end
              {Issue, false, 50500},
              {Drain, false, 50600},
              {Drain, true, 50800},
              {Write, false, 51200},
              {Write, true, 51300},
              {Round, true, 51400}});
  Result<Json> trace = buffer.trace();
  ASSERT_TRUE(trace) << trace.status().message();
  EXPECT_EQ(slices(*trace, "wait"),
            (Strings{"wait k @ 0.100 + 0.100", "wgmma_wait @ 0.300 + 0.100"}));
  EXPECT_EQ(slices(*trace, "product"),
            (Strings{"wgmma 64x64x16 @ 0.200 + 0.050", "wgmma 64x64x16 @ 0.250 + 0.050"}));
  // One group may remain in flight: the first product has ended, the state of the second is
  // unknown.
  EXPECT_EQ(slices(*trace, "in flight"),
            (Strings{"b wgmma 64x64x16 @ 0.200", "e wgmma 64x64x16 @ 0.400"}));
  EXPECT_EQ(slices(*trace, "store"), (Strings{"tma_store o @ 0.600 + 0.050"}));
  EXPECT_EQ(slices(*trace, "loop"), (Strings{"round @ 0.100 + 0.600"}));
  EXPECT_EQ(slices(*trace, "work"), (Strings{"work @ 0.000 + 0.100", "work @ 0.400 + 0.200",
                                             "work @ 0.650 + 0.050", "work @ 0.700 + 0.300"}));
}

TEST(RuntimeTimeline, TracksAreNamed) {
  Buffer buffer(4);
  buffer.add(1, 2, 3, 9, {1000, 0}, {2000, 1000}, {});
  buffer.add(0, 0, 3, 9, {1000, 0}, {2000, 1000}, {});
  buffer.add(1, 2, 4, 8, {1000, 0}, {2000, 1000}, {});
  Result<Json> trace = buffer.trace();
  ASSERT_TRUE(trace) << trace.status().message();
  Strings names;
  for (const Json &event : trace->find("traceEvents")->items)
    if (event.find("ph")->text == "M")
      names.push_back(event.find("args")->find("name")->text);
  EXPECT_EQ(names, (Strings{"attend block 3, SM 9", "compute 2", "load 0", "attend block 4, SM 8",
                            "compute 2"}));
  EXPECT_EQ(trace->find("otherData")->find("chunks written")->number, 3);
}

TEST(RuntimeTimeline, MultiprocessorsGetOneTime) {
  Buffer buffer(2);
  // The clocks have different origins, one is beyond 48 bits; together 110000 ticks in as many ns.
  uint64_t far = (uint64_t(5) << format::clockBits) - 300;
  std::vector<Buffer::Record> store = {{Write, false, 782000}, {Write, true, 782500}};
  buffer.add(0, 0, 0, 1, {10000, 777000}, {110000, 877500}, store);
  store = {{Write, false, far + 5000}, {Write, true, far + 5500}};
  buffer.add(0, 0, 1, 2, {10000, far}, {20000, far + 9500}, store);
  Result<Json> trace = buffer.trace();
  ASSERT_TRUE(trace) << trace.status().message();
  EXPECT_EQ(trace->find("otherData")->find("clock GHz")->real, 1.0);
  // The timer lags: according to the end pair of the second chunk, it began 500 ns later.
  EXPECT_EQ(slices(*trace, "store"),
            (Strings{"tma_store o @ 5.000 + 0.500", "tma_store o @ 5.500 + 0.500"}));
}

TEST(RuntimeTimeline, WhatFoundNoPlaceIsCounted) {
  Buffer buffer(1);
  std::vector<Buffer::Record> full;
  for (uint64_t i = 0; i < words - format::headerBytes / 8; ++i)
    full.push_back({Wait, i % 2 != 0, 100 + i});
  buffer.add(0, 0, 0, 0, {1000, 0}, {2000, 1000}, full);
  buffer.put32(0, 7);
  Result<Json> trace = buffer.trace();
  ASSERT_TRUE(trace) << trace.status().message();
  const Json &other = *trace->find("otherData");
  EXPECT_EQ(other.find("chunks claimed")->number, 7);
  EXPECT_EQ(other.find("chunks written")->number, 1);
  EXPECT_EQ(other.find("chunks full")->number, 1);
  EXPECT_EQ(slices(*trace, "wait").size(), full.size() / 2);
}

TEST(RuntimeTimeline, ARoleThatDidNotEndIsShownAsFarAsItWent) {
  Buffer buffer(1);
  buffer.add(0, 0, 0, 0, {1000, 0}, {0, 0},
             {{Round, false, 10}, {Wait, false, 20}, {Wait, true, 30}});
  Result<Json> trace = buffer.trace();
  ASSERT_TRUE(trace) << trace.status().message();
  EXPECT_EQ(slices(*trace, "wait"), (Strings{"wait k @ 0.020 + 0.010"}));
  EXPECT_EQ(slices(*trace, "loop"), (Strings{"round @ 0.010 + 0.020"}));
}

TEST(RuntimeTimeline, NothingWasLaunched) {
  Result<Json> trace = Buffer(2).trace();
  ASSERT_TRUE(trace) << trace.status().message();
  EXPECT_TRUE(trace->find("traceEvents")->items.empty());
}

TEST(RuntimeTimeline, RejectsWhatItCannotRead) {
  Manifest none = manifest();
  none.kernels[0].timeline = {};
  EXPECT_EQ(Buffer(1).trace(none).status().message(),
            "no kernel of the bundle has a timeline; compile it with tilewrightc --timeline");
  EXPECT_EQ(timelineToJson(manifest(), "", 1).status().message(),
            "a timeline requires 1024 bytes or more, but got 1");
  Manifest mixed = manifest();
  mixed.kernels.push_back(mixed.kernels[0]);
  mixed.kernels[1].timeline.words = 128;
  EXPECT_EQ(Buffer(2).trace(mixed).status().message(),
            "kernels of the bundle write timelines in chunks of 64 and of 128 words, so one buffer "
            "cannot have both; compile them with the same --timeline");

  Buffer foreign(1);
  foreign.add(0, 0, 0, 0, {1, 1}, {2, 2}, {});
  foreign.put32(words * 8 + format::atTag, 99);
  EXPECT_EQ(foreign.trace().status().message(),
            "chunk 0 of the timeline was not written by a kernel of this bundle; clear the buffer "
            "before the launch");
  Buffer role(1);
  role.add(2, 0, 0, 0, {1, 1}, {2, 2}, {});
  EXPECT_EQ(role.trace().status().message(),
            "chunk 0 of the timeline has role 2 of kernel 'attend', but the kernel has 2 roles");
  Buffer event(1);
  event.add(0, 0, 0, 0, {1, 1}, {2, 2}, {{5, false, 1}});
  EXPECT_EQ(event.trace().status().message(),
            "a timeline has event 5 of kernel 'attend', but the kernel has 5 events");
}

TEST(RuntimeTimeline, TheTableIsPartOfABundle) {
  BundleWriter writer = scaleBundle();
  writer.manifest.kernels[0].timeline = manifest().kernels[0].timeline;
  Result<std::string> bytes = writer.bytes();
  ASSERT_TRUE(bytes) << bytes.status().message();
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(*bytes);
  ASSERT_TRUE(bundle) << bundle.status().message();
  EXPECT_EQ((*bundle)->manifest().toJson().write(), writer.manifest.toJson().write());
  const TimelineSpec &read = (*bundle)->manifest().kernels[0].timeline;
  EXPECT_EQ(read.tag, tag);
  EXPECT_EQ(read.roles, (Strings{"load", "compute"}));
  ASSERT_EQ(read.events.size(), 5u);
  EXPECT_EQ(read.events[Drain].pending, 1);
  EXPECT_TRUE(read.events[Issue].commits);
  EXPECT_FALSE(read.events[Drain].commits);

  writer.manifest.kernels[0].timeline.words = 100;
  EXPECT_EQ(Bundle::fromBytes(*writer.bytes()).status().code(), Code::BadBundle);

  // Through the C interface.
  tilewright_bundle *loaded = nullptr;
  ASSERT_EQ(tilewright_bundle_load(bytes->data(), bytes->size(), &loaded), TILEWRIGHT_OK);
  Buffer buffer(1);
  buffer.add(1, 0, 0, 0, {1000, 0}, {2000, 1000}, {{Write, false, 100}, {Write, true, 200}});
  std::string path = ::testing::TempDir() + "tilewright-timeline.json";
  EXPECT_EQ(tilewright_timeline_write(loaded, buffer.data.data(), buffer.data.size() * 8, nullptr),
            TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_EQ(tilewright_timeline_write(loaded, reinterpret_cast<char *>(buffer.data.data()) + 4,
                                      buffer.data.size() * 8 - 8, path.c_str()),
            TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_STREQ(
      tilewright_last_error(),
      "a timeline must begin at a multiple of 8 bytes, but got an address with the remainder 4");
  ASSERT_EQ(
      tilewright_timeline_write(loaded, buffer.data.data(), buffer.data.size() * 8, path.c_str()),
      TILEWRIGHT_OK)
      << tilewright_last_error();
  Result<std::string> text = readFile(path);
  ASSERT_TRUE(text) << text.status().message();
  Result<Json> trace = Json::parse(*text);
  ASSERT_TRUE(trace) << trace.status().message();
  EXPECT_EQ(slices(*trace, "store"), (Strings{"tma_store o @ 0.100 + 0.100"}));
  tilewright_bundle_close(loaded);
}

} // namespace
