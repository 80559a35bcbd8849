// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches of a program that overlap.

#include "RuntimeTesting.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

class Overlaps : public OperationTest {
protected:
  Operation create(const BundleWriter &writer) { return OperationTest::create(writer, "twice"); }
};

/// Which of the launches of a run may start before the previous one has ended.
std::vector<bool> overlapsOf(const Operation &operation, int64_t rows) {
  fake().launches.clear();
  Arguments arguments = scaleArguments(rows);
  EXPECT_OK(operation.run(arguments.data(), arguments.size(), 0x40000, 1 << 24, nullptr));
  std::vector<bool> overlaps;
  for (const FakeLaunch &launch : fake().launches)
    overlaps.push_back(launch.overlaps);
  return overlaps;
}

/// programBundle, whose launches may overlap.
BundleWriter overlappingBundle() {
  BundleWriter writer = programBundle();
  writer.manifest.kernels[0].allowsLaunch = true;
  writer.manifest.kernels[1].awaitsLaunch = true;
  return writer;
}

// A grid has a block for each 128 rows, and the device 108 multiprocessors.
TEST_F(Overlaps, LaunchesThatFitTheMultiprocessors) {
  using Flags = std::vector<bool>;
  driver.cuKernelGetAttribute = nullptr; // none fits beside another
  Operation operation = create(overlappingBundle());
  EXPECT_OK(operation.prepare(0));
  EXPECT_EQ(overlapsOf(operation, 300), (Flags{false, true}));
  EXPECT_EQ(overlapsOf(operation, 54 * 128), (Flags{false, true}));
  EXPECT_EQ(overlapsOf(operation, 54 * 128 + 1), (Flags{false, false}));
}

TEST_F(Overlaps, NoLaunchesOfKernelsThatDoNotWait) {
  using Flags = std::vector<bool>;
  for (bool allows : {false, true}) {
    BundleWriter writer = overlappingBundle();
    writer.manifest.kernels[0].allowsLaunch = allows;
    writer.manifest.kernels[1].awaitsLaunch = !allows;
    Operation operation = create(writer);
    EXPECT_OK(operation.prepare(0));
    EXPECT_EQ(overlapsOf(operation, 300), (Flags{false, false}));
  }
}

/// The program of overlappingBundle with a further launch, of a third kernel like the first ones;
/// each allows the next launch and awaits the previous one. The second is launched if rows > 100.
BundleWriter threeLaunchesBundle() {
  BundleWriter writer = programBundle();
  std::vector<KernelSpec> &kernels = writer.manifest.kernels;
  kernels.push_back(kernels[1]);
  kernels[2].name = "scale_again";
  kernels[2].entry = "plain";
  for (KernelSpec &kernel : kernels)
    kernel.allowsLaunch = kernel.awaitsLaunch = true;
  FormSpec &form = formOf(writer.manifest.programs[0]);
  form.launches.push_back(form.launches[1]);
  form.launches[2].kernels = {2};
  form.launches[1].condition = *Expr::call(">", {Expr::dim("x", 0), Expr::integer(100)});
  return writer;
}

// Each with the one before it: that one has waited for the end of the others.
TEST_F(Overlaps, LaunchesThatFitWithTheLastOne) {
  using Flags = std::vector<bool>;
  driver.cuKernelGetAttribute = nullptr;
  Operation operation = create(threeLaunchesBundle());
  EXPECT_OK(operation.prepare(0));
  EXPECT_EQ(overlapsOf(operation, 54 * 128), (Flags{false, true, true}));
  EXPECT_EQ(overlapsOf(operation, 54 * 128 + 1), (Flags{false, false, false}));
}

// A launch that is left out changes nothing for the one behind it.
TEST_F(Overlaps, WithTheLastThatWasLaunched) {
  using Flags = std::vector<bool>;
  BundleWriter writer = threeLaunchesBundle();
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  EXPECT_EQ(overlapsOf(operation, 100), (Flags{false, true}));
  writer.manifest.kernels[0].allowsLaunch = false; // which the third one now follows
  Operation without = create(writer);
  EXPECT_OK(without.prepare(0));
  EXPECT_EQ(overlapsOf(without, 100), (Flags{false, false}));
  EXPECT_EQ(overlapsOf(without, 101), (Flags{false, false, true}));
}

// The first launch that is executed has none before it, and no fill comes between launches.
TEST_F(Overlaps, NotTheFirstLaunchThatIsExecuted) {
  BundleWriter writer = threeLaunchesBundle();
  FormSpec &form = formOf(writer.manifest.programs[0]);
  std::swap(form.launches[0], form.launches[1]);
  form.launches[0].condition = *Expr::call(">", {Expr::dim("x", 0), Expr::integer(1000)});
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  fake().fills.clear();
  EXPECT_EQ(overlapsOf(operation, 300), (std::vector<bool>{false, true}));
  EXPECT_EQ(fake().fills.size(), 1u);
  form.workspaces[1].fill.reset(); // nothing comes between the run and what is before it
  Operation unfilled = create(writer);
  EXPECT_OK(unfilled.prepare(0));
  EXPECT_EQ(overlapsOf(unfilled, 300), (std::vector<bool>{true, true}));
}

// An empty grid launches nothing.
TEST_F(Overlaps, AcrossAnEmptyGrid) {
  BundleWriter writer = threeLaunchesBundle();
  writer.manifest.kernels[1].grid = {Expr::integer(0)};
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  EXPECT_EQ(overlapsOf(operation, 300), (std::vector<bool>{false, true}));
  EXPECT_EQ(fake().launches[1].grid[0], 3u);
}

// The first launch, too, whatever its blocks, if its kernel waits, no workspace is filled before
// it, and the application does not object.
TEST_F(Overlaps, ThePreviousRun) {
  using Flags = std::vector<bool>;
  driver.cuKernelGetAttribute = nullptr;
  auto filled = [](BundleWriter writer, bool isFilled) {
    if (!isFilled)
      formOf(writer.manifest.programs[0]).workspaces[1].fill.reset();
    return writer;
  };
  Operation operation = create(filled(threeLaunchesBundle(), false));
  EXPECT_OK(operation.prepare(0));
  EXPECT_EQ(overlapsOf(operation, 36 * 128), (Flags{true, true, true}));
  EXPECT_EQ(overlapsOf(operation, 100 * 128), (Flags{true, false, false}));
  operation.overlapPrevious(false);
  EXPECT_EQ(overlapsOf(operation, 300), (Flags{false, true, true}));
  operation.overlapPrevious(true);
  EXPECT_EQ(overlapsOf(operation, 300), (Flags{true, true, true}));
  for (auto [writer, isFilled] : {std::pair(threeLaunchesBundle(), true),
                                  {overlappingBundle(), false}}) { // its first kernel does not wait
    Operation other = create(filled(writer, isFilled));
    EXPECT_OK(other.prepare(0));
    EXPECT_FALSE(overlapsOf(other, 300)[0]);
  }
}

TEST_F(Overlaps, ThePreviousRunOfAKernel) {
  BundleWriter writer = scaleBundle();
  writer.manifest.kernels[0].awaitsLaunch = true;
  Arguments arguments = scaleArguments(300);
  auto overlapsWith = [&](const char *value) {
    if (value)
      setenv("TILEWRIGHT_OVERLAP_PREVIOUS", value, 1);
    Operation operation = OperationTest::create(writer, writer.manifest.kernels[0].name);
    unsetenv("TILEWRIGHT_OVERLAP_PREVIOUS");
    EXPECT_OK(operation.prepare(0));
    EXPECT_OK(operation.run(arguments.data(), arguments.size(), 0, 0, nullptr));
    bool byDefault = fake().launches.back().overlaps;
    operation.overlapPrevious(!byDefault);
    EXPECT_OK(operation.run(arguments.data(), arguments.size(), 0, 0, nullptr));
    EXPECT_EQ(fake().launches.back().overlaps, !byDefault);
    return byDefault;
  };
  EXPECT_TRUE(overlapsWith(nullptr));
  EXPECT_TRUE(overlapsWith(""));
  EXPECT_TRUE(overlapsWith("1"));
  EXPECT_FALSE(overlapsWith("0"));
}

TEST_F(Overlaps, LaunchesOfClusters) {
  BundleWriter writer = overlappingBundle();
  writer.manifest.kernels[1].cluster = {3, 1, 1};
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  EXPECT_EQ(overlapsOf(operation, 300), (std::vector<bool>{false, true}));
  EXPECT_EQ(fake().launches[1].cluster[0], 3u);
}

// Older drivers cannot capture such a launch, or cannot launch with attributes.
TEST_F(Overlaps, NoLaunchesOnOldDrivers) {
  fake().driverVersion = 12020;
  Operation operation = create(overlappingBundle());
  EXPECT_OK(operation.prepare(0));
  EXPECT_EQ(overlapsOf(operation, 300), (std::vector<bool>{false, false}));
  fake().driverVersion = 12030;
  driver.cuLaunchKernelEx = nullptr;
  Operation without = create(overlappingBundle());
  EXPECT_OK(without.prepare(0));
  EXPECT_EQ(overlapsOf(without, 300), (std::vector<bool>{false, false}));
}

/// Two kernels and a device, by default those of a decode on an H200: 128 blocks leave room for 64
/// others, 90 KiB of shared memory and 26,624 registers on each multiprocessor.
struct Pair {
  struct Side {
    int blocks, threads, registers;
    uint32_t sharedBytes;
    int staticBytes = 0;
    std::array<uint32_t, 3> cluster = {1, 1, 1};
  };
  Side part = {128, 256, 152, 137 * 1024}, merge = {64, 128, 46, 0};
  int threads = 2048, sharedLimit = 227 * 1024; // of a multiprocessor, and of a block

  BundleWriter bundle() const {
    BundleWriter writer = overlappingBundle();
    for (size_t i = 0; i < 2; ++i) {
      const Side &side = i == 0 ? part : merge;
      KernelSpec &kernel = writer.manifest.kernels[i];
      kernel.grid = {Expr::integer(side.blocks)};
      kernel.block = {uint32_t(side.threads), 1, 1};
      kernel.cluster = side.cluster;
      kernel.sharedBytes = side.sharedBytes;
      kernel.staticSharedBytes = uint32_t(side.staticBytes);
      fake().registers[kernel.entry] = side.registers;
      fake().staticShared[kernel.entry] = side.staticBytes;
    }
    fake().smCount = 132;
    fake().sharedLimit = sharedLimit;
    fake().sharedOfMultiprocessor = 228 * 1024;
    fake().threadsOfMultiprocessor = threads;
    return writer;
  }
};

/// Of a merge that does not overlap.
constexpr int64_t alone = -1;

class OverlapsBeside : public Overlaps {
protected:
  /// The dynamic shared memory with which the merge overlaps, or `alone`; then it has its own.
  int64_t runPair(const Pair &pair) {
    Operation operation = create(pair.bundle());
    EXPECT_OK(operation.prepare(0));
    std::vector<bool> overlaps = overlapsOf(operation, 300);
    EXPECT_EQ(overlaps.size(), 2u);
    EXPECT_FALSE(overlaps[0]);
    EXPECT_EQ(fake().launches[0].sharedBytes, pair.part.sharedBytes);
    int64_t sharedBytes = fake().launches[1].sharedBytes;
    if (overlaps[1])
      return sharedBytes;
    EXPECT_EQ(sharedBytes, pair.merge.sharedBytes);
    return alone;
  }
};

// One block of the merge fits beside one of the part: it has what that leaves of 228 KiB, of which
// the driver takes 1 KiB for each of them.
TEST_F(OverlapsBeside, HaveTheSharedMemoryThatIsLeft) {
  Pair pair;
  EXPECT_EQ(runPair(pair), 89 * 1024);
  pair.merge.sharedBytes = 5 * 1024; // whole KiB are added
  pair.merge.staticBytes = 512;
  EXPECT_EQ(runPair(pair), (5 + 83) * 1024);
  EXPECT_EQ(fake().allowedShared[fake().launches[0].function], pair.part.sharedBytes);
  EXPECT_EQ(fake().allowedShared[fake().launches[1].function], 227u * 1024 - 512);
  pair = Pair(); // each block takes a multiple of 128 bytes
  pair.part.sharedBytes += 8;
  pair.merge.sharedBytes = 1024 - 8;
  EXPECT_EQ(runPair(pair), 1024 - 8 + 87 * 1024);
}

// Where the last launch leaves half of the multiprocessors or more, up to four on each of them,
// with no more shared memory than they need.
TEST_F(OverlapsBeside, HaveTheOtherMultiprocessors) {
  Pair pair;
  pair.part.blocks = 66;
  pair.merge.blocks = 4 * 66;
  EXPECT_EQ(runPair(pair), 0);
  pair.merge.blocks += 1;
  EXPECT_EQ(runPair(pair), alone);
  pair.part.blocks = 67;
  pair.merge.blocks = 4 * 65;
  EXPECT_EQ(runPair(pair), alone) << "fewer than half are left";
  pair.merge.blocks = 67 + 2 * 65;
  EXPECT_EQ(runPair(pair), 89 * 1024) << "beside the blocks of the last one";
}

// As many as registers, threads and shared memory allow.
TEST_F(OverlapsBeside, HaveRoomOnTheOtherMultiprocessors) {
  auto fits = [&](const Pair::Side &merge, int each) {
    Pair pair;
    pair.part.blocks = 64;
    pair.part.sharedBytes = 200 * 1024; // none fits beside it
    pair.merge = merge;
    pair.merge.blocks = each * 68;
    EXPECT_EQ(runPair(pair), int64_t(merge.sharedBytes));
    pair.merge.blocks += 1;
    EXPECT_EQ(runPair(pair), alone);
  };
  fits({0, 256, 80, 30 * 1024}, 3);   // 20,480 of 65,536 registers
  fits({0, 1024, 24, 30 * 1024}, 2);  // of 2,048 threads
  fits({0, 128, 24, 100 * 1024}, 2);  // of 228 KiB
  fits({0, 1024, 64, 100 * 1024}, 1); // of registers
}

// Registers are allocated to warps, 256 at a time.
TEST_F(OverlapsBeside, IfTheRegistersSuffice) {
  Pair pair;
  pair.merge.registers = 208;
  EXPECT_EQ(runPair(pair), 89 * 1024);
  pair.merge.registers = 209;
  EXPECT_EQ(runPair(pair), alone);
  pair.part.registers = 153;
  pair.merge.registers = 192;
  EXPECT_EQ(runPair(pair), 89 * 1024);
  pair.merge.registers = 193;
  EXPECT_EQ(runPair(pair), alone);
}

TEST_F(OverlapsBeside, IfTheThreadsSuffice) {
  Pair pair;
  pair.threads = 640;
  pair.merge.threads = 384;
  EXPECT_EQ(runPair(pair), 89 * 1024);
  pair.threads = 639;
  EXPECT_EQ(runPair(pair), alone);
  pair.threads = 671;
  pair.merge.threads = 385; // 13 warps, and 8 of the part
  EXPECT_EQ(runPair(pair), alone);
  pair.threads = 672;
  EXPECT_EQ(runPair(pair), 89 * 1024);
}

TEST_F(OverlapsBeside, IfTheSharedMemorySuffices) {
  Pair pair;
  pair.merge.threads = 1024; // two of which fit a multiprocessor
  pair.merge.registers = 24;
  pair.part.sharedBytes = 225 * 1024;
  pair.merge.sharedBytes = 1024;
  EXPECT_EQ(runPair(pair), 1024) << "nothing is added";
  pair.merge.sharedBytes = 1024 + 128;
  EXPECT_EQ(runPair(pair), alone);
  pair.merge.sharedBytes = 1024;
  pair.part.sharedBytes += 128;
  EXPECT_EQ(runPair(pair), alone);
}

// One beside each block of the part, and two on each of the others.
TEST_F(OverlapsBeside, IfAllBlocksHaveRoom) {
  Pair pair;
  pair.merge.blocks = 128 + 2 * 4;
  EXPECT_EQ(runPair(pair), 89 * 1024);
  pair.merge.blocks += 1;
  EXPECT_EQ(runPair(pair), alone);
}

// Beside smaller blocks, there is one on each of the others, too.
TEST_F(OverlapsBeside, IfAllBlocksHaveAMultiprocessor) {
  Pair pair;
  pair.part.sharedBytes = 60 * 1024;
  pair.merge.blocks = 132;
  EXPECT_EQ(runPair(pair), 166 * 1024);
  pair.merge.blocks = 133;
  EXPECT_EQ(runPair(pair), alone);
}

// So that each of the last launch has a multiprocessor of its own.
TEST_F(OverlapsBeside, AtMostOneBlockPerMultiprocessor) {
  Pair pair;
  pair.part.blocks = pair.merge.blocks = 132;
  EXPECT_EQ(runPair(pair), 89 * 1024);
  pair.merge.blocks = 1;
  EXPECT_EQ(runPair(pair), 89 * 1024);
  pair.part.blocks = 133;
  EXPECT_EQ(runPair(pair), alone);
}

TEST_F(OverlapsBeside, NotWhereThreeBlocksGather) {
  Pair pair;
  pair.part.sharedBytes = 150 * 1024;
  EXPECT_EQ(runPair(pair), 76 * 1024);
  pair.part.sharedBytes = 151 * 1024; // leaves 76 KiB, a third
  EXPECT_EQ(runPair(pair), alone);
}

// A block cannot have as much as would keep a second one away from the same block of the part.
TEST_F(OverlapsBeside, NotWhereTwoBlocksFitBeside) {
  Pair pair;
  pair.part.sharedBytes = 60 * 1024;
  pair.sharedLimit = 83 * 1024;
  EXPECT_EQ(runPair(pair), 83 * 1024);
  pair.sharedLimit = 82 * 1024;
  EXPECT_EQ(runPair(pair), alone);
}

TEST_F(OverlapsBeside, NotOnDriversThatDoNotSayWhatABlockTakes) {
  EXPECT_EQ(runPair(Pair()), 89 * 1024);
  driver.cuKernelGetAttribute = nullptr;
  EXPECT_EQ(runPair(Pair()), alone);
  driver = fakeTable();
  driver.cuLibraryLoadData = nullptr;
  EXPECT_EQ(runPair(Pair()), alone);
  driver = fakeTable();
  fake().driverVersion = 12020;
  EXPECT_EQ(runPair(Pair()), alone);
}

TEST_F(OverlapsBeside, NoClusters) {
  for (Pair::Side Pair::*side : {&Pair::part, &Pair::merge}) {
    Pair pair;
    (pair.*side).cluster = {2, 1, 1};
    EXPECT_EQ(runPair(pair), alone);
  }
}

// When a launch lets the next one start, those before it have ended.
TEST_F(OverlapsBeside, ALaunchThatOverlapsItself) {
  using Flags = std::vector<bool>;
  auto runThree = [&](int64_t first, int64_t second, int64_t third) {
    BundleWriter writer = threeLaunchesBundle();
    Pair().bundle(); // the device
    const int64_t blocks[] = {first, second, third};
    for (size_t i = 0; i < 3; ++i)
      writer.manifest.kernels[i].grid = {Expr::integer(blocks[i])};
    Operation operation = create(writer);
    EXPECT_OK(operation.prepare(0));
    return overlapsOf(operation, 300);
  };
  EXPECT_EQ(runThree(66, 66, 67), (Flags{false, true, true})) << "beside one that has room";
  EXPECT_EQ(runThree(66, 67, 66), (Flags{false, true, true})) << "beside both";
}

// And neither does a run.
TEST_F(OverlapsBeside, AskTheDriverOnlyWhereItMatters) {
  auto countQueries = [&](const BundleWriter &writer, const std::string &name) {
    fake().calls.clear();
    Operation operation = OperationTest::create(writer, name);
    EXPECT_OK(operation.prepare(0));
    int ofKernel = fake().calls["cuKernelGetAttribute"];
    int ofDevice = fake().calls["cuDeviceGetAttribute"];
    if (name == "twice") {
      overlapsOf(operation, 300);
      EXPECT_EQ(fake().calls["cuKernelGetAttribute"], ofKernel);
      EXPECT_EQ(fake().calls["cuDeviceGetAttribute"], ofDevice);
    }
    return std::pair(ofKernel, ofDevice);
  };
  EXPECT_EQ(countQueries(Pair().bundle(), "twice"), std::pair(4, 8));
  EXPECT_EQ(countQueries(Pair().bundle(), "scale_sums"), std::pair(0, 4)) << "a kernel alone";
  EXPECT_EQ(countQueries(programBundle(), "twice"), std::pair(0, 4));
  BundleWriter writer = threeLaunchesBundle();
  writer.manifest.kernels[2].allowsLaunch = writer.manifest.kernels[2].awaitsLaunch = false;
  EXPECT_EQ(countQueries(writer, "twice"), std::pair(4, 8)) << "two of three kernels";
}

TEST_F(OverlapsBeside, AreReportedWithTheirOwnSharedMemory) {
  Pair pair;
  pair.merge.sharedBytes = 4096;
  Operation operation = create(pair.bundle());
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments(300);
  Result<RunReport> report = operation.report(arguments.data(), arguments.size(), 0);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->launches.size(), 2u);
  EXPECT_EQ(report->launches[1].sharedBytes, 4096u);
}

} // namespace
