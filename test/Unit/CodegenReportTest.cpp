// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Occupancy, and the report of a kernel without ptxas.

#include "lib/Codegen/Report.h"

#include <gtest/gtest.h>

using namespace tilewright;

static KernelReport makeKernel(const char *target, int64_t warps, int64_t sharedBytes) {
  KernelReport kernel;
  kernel.kernel = "k";
  kernel.target = target;
  kernel.warps = warps;
  kernel.sharedBytes = sharedBytes;
  return kernel;
}

static void expectOccupancy(const KernelReport &kernel, std::optional<int64_t> registers,
                            int64_t blocks, const char *limit) {
  Occupancy occupancy = computeOccupancy(kernel, registers);
  EXPECT_EQ(occupancy.blocks, blocks);
  EXPECT_EQ(occupancy.limit, limit);
}

TEST(Report, OccupancyIsTheTightestLimit) {
  expectOccupancy(makeKernel("sm_80", 1, 0), 32, 32, "blocks");
  expectOccupancy(makeKernel("sm_80", 4, 0), 32, 16, "warps");
  // 255 registers: 8,192 for a warp, so 8 warps.
  expectOccupancy(makeKernel("sm_80", 4, 0), 255, 2, "registers");
  expectOccupancy(makeKernel("sm_80", 4, 0), 168, 3, "registers");
  // 164 KiB per multiprocessor; each block takes 1 KiB more than it requests.
  expectOccupancy(makeKernel("sm_80", 4, 40 * 1024), 64, 4, "shared memory");
  expectOccupancy(makeKernel("sm_90a", 4, 40 * 1024), 64, 5, "shared memory");
  expectOccupancy(makeKernel("sm_90a", 12, 227 * 1024), std::nullopt, 1, "shared memory");
}

TEST(Report, SaysUnknownWithoutAssembler) {
  KernelReport kernel = makeKernel("sm_80", 4, 32768);
  LoopReport loop;
  loop.place = "f.mlir:3:5";
  loop.skeleton = "multistage";
  loop.stages = 3;
  loop.matrixInstructions = {{"mma.sync m16n8k16", 64}};
  loop.waits = {{"barrier", 1}, {"cp.async", 2}};
  loop.shared.reads = {6, 4};
  loop.shared.worst = {4, 2};
  loop.shared.worstPlace = "f.mlir:4:1";
  kernel.loops = {LoopReport(), loop};
  std::string text;
  llvm::raw_string_ostream os(text);
  printReport(os, {kernel}, {});
  EXPECT_EQ(text, R"(k for sm_80
  threads         128 (4 warps)
  registers       unknown
  spills          unknown
  shared memory   32768 bytes planned
  occupancy       unknown, at most 4 blocks per multiprocessor, limited by shared memory
  outside of loops
    matrix instructions  none
    waits                none
    bank conflicts       no accesses
  loop at f.mlir:3:5, multistage, stages 3
    matrix instructions  64 mma.sync m16n8k16
    waits                1 barrier, 2 cp.async
    bank conflicts       reads 1.50 (worst 2.00 at f.mlir:4:1)
)");

  text.clear();
  KernelResources resources;
  resources.kernel = "k";
  resources.registers = 255;
  resources.spillStoreBytes = 8;
  resources.spillLoadBytes = 16;
  resources.stackBytes = 24;
  resources.staticSharedBytes = 32;
  printReport(os, {makeKernel("sm_80", 4, 0)}, {resources});
  EXPECT_EQ(text, R"(k for sm_80
  threads         128 (4 warps)
  registers       255 per thread
  spills          8 bytes stored, 16 bytes loaded, stack 24 bytes
  shared memory   0 bytes planned, 32 bytes static
  occupancy       2 blocks per multiprocessor, limited by registers
)");

  // Two forms: launches run the one for aligned views if possible.
  text.clear();
  KernelResources aligned = resources;
  aligned.kernel = "k_aligned";
  aligned.registers = 128;
  aligned.spillStoreBytes = aligned.spillLoadBytes = aligned.stackBytes = 0;
  printReport(os, {makeKernel("sm_80", 4, 0)}, {resources, aligned});
  EXPECT_EQ(text, R"(k for sm_80
  threads         128 (4 warps)
  registers       128 per thread
  spills          0 bytes stored, 0 bytes loaded, stack 0 bytes
  shared memory   0 bytes planned, 32 bytes static
  occupancy       4 blocks per multiprocessor, limited by registers
  unaligned views 255 registers per thread, spills 8 bytes stored, 16 bytes loaded, stack 24 bytes
)");
}
