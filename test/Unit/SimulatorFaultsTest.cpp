// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults reported by the simulator: one small kernel for each kind.

#include "SimulatorTesting.h"

namespace tilewright {
namespace {

class SimulatorFaultsTest : public SimulatorTest {
protected:
  /// A kernel of two roles: "load" with one of four warps, and "compute" with one warpgroup.
  static std::string roles(const std::string &load, const std::string &compute) {
    return "tgpu.roles\n role \"load\" warps 1 {\n" + load +
           "}\n role \"idle\" warps 3 {\n}\n role \"compute\" warps 4 {\n" + compute + "}\n";
  }

  /// The view x has `columns` of an array of 64.
  mlir::LogicalResult run(const std::string &target, int warps, const std::string &body,
                          int64_t columns = 64) {
    messages.clear();
    std::string source = R"(
      !x = !tile.view<[64, ?], bf16>
      !r = tensor<64x64xbf16, #tgpu.mma<$WARPS, 1>>
      !map = !tgpu.tensor_map<64x64xbf16, b128>
      !buffer = !tgpu.shared<64x64xbf16, b128>
      !bar = !tgpu.barriers<1>
      !turns = !tile.view<[?], i32>
      tgpu.kernel @k target "$TARGET" warps $BLOCK (%x: !x, %counters: !turns) grid(%i = 1) {
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %b = tgpu.alloc : !buffer
        $BODY
      })";
    source = substitute(
        source,
        {{"WARPS", "4"}, {"TARGET", target}, {"BLOCK", std::to_string(warps)}, {"BODY", body}});
    mlir::OwningOpRef<mlir::ModuleOp> module =
        parseBuffer(context, llvm::MemoryBufferRef(source, "test.mlir"));
    mlir::PassManager manager(&context);
    manager.addPass(createTgpuPlanSharedMemory());
    if (!module || mlir::failed(manager.run(*module))) {
      ADD_FAILURE() << messages;
      return mlir::success();
    }
    Tensor x = randomTensor(ElementType::BF16, {64, 64}, 1);
    llvm::StringMap<Argument> arguments;
    ArrayArgument array = x.argument();
    array.shape.back() = columns;
    arguments["x"] = array;
    Tensor turns(ElementType::I32, {2});
    arguments["counters"] = turns.argument();
    if (sharedBytes)
      module->lookupSymbol<tgpu::KernelOp>("k").setSharedBytes(*sharedBytes);
    SimulationOptions options;
    if (mostSteps)
      options.mostSteps = *mostSteps;
    return simulate(*module, "k", arguments, options);
  }
  std::optional<int64_t> sharedBytes; ///< instead of the planned ones
  std::optional<int64_t> mostSteps;
  void expectFault(const std::string &message, const std::string &target, int warps,
                   const std::string &body) {
    EXPECT_TRUE(mlir::failed(run(target, warps, body))) << "expected: " << message;
    EXPECT_NE(messages.find(message), std::string::npos) << messages << "expected: " << message;
  }
  void expectClean(const std::string &target, int warps, const std::string &body) {
    EXPECT_TRUE(mlir::succeeded(run(target, warps, body))) << messages;
  }
  void expectHopperFault(const std::string &message, const std::string &prologue,
                         const std::string &load, const std::string &compute) {
    expectFault(message, "sm_90a", 8, prologue + roles(load, compute));
  }
};

const std::string kCopy = "tgpu.copy_async %x[0, 0], %b : !x, !buffer\n";
const std::string kRead = "%r = tgpu.read %b : !buffer -> !r\n";
const std::string kFull = "%full = tgpu.alloc_barriers arrivals 1 : !bar\n"
                          "%map = tgpu.tensor_map %x : !x -> !map\n";
const std::string kLoad = "tgpu.tma_load %map[0, 0], %b, %full[%c0] : !map, !buffer, !bar\n";
const std::string kExpect = "tgpu.expect %full[%c0] bytes 8192 : !bar\n";
const std::string kWait = "tgpu.wait %full[%c0] : !bar\n";

TEST_F(SimulatorFaultsTest, Copies) {
  expectClean("sm_80", 4,
              kCopy + "tgpu.copy_commit\n tgpu.copy_wait pending 0\n tgpu.sync\n" + kRead);
  expectFault(
      "'tgpu.read' op must read shared memory when it has been written, but got byte 0 in an "
      "access by warp 0 of the block, which an asynchronous copy of warp 0 may still be writing",
      "sm_80", 4, kCopy + "tgpu.copy_commit\n tgpu.sync\n" + kRead);
  expectFault(
      "'tgpu.read' op must read shared memory when it has been written, but got byte 512 in an "
      "access by warp 0 of the block, which an asynchronous copy of warp 1 may still be writing",
      "sm_80", 4, kCopy + "tgpu.copy_commit\n tgpu.copy_wait pending 0\n" + kRead);
  expectFault("'tgpu.read' op must read shared memory that was written, but got byte 0 in an "
              "access by warp 0 of the block",
              "sm_80", 4, kRead);
  expectFault("'tgpu.copy_async' op must be committed before the block ends, but got an "
              "asynchronous copy without a commit",
              "sm_80", 4, kCopy);
  expectFault("'tgpu.copy_async' op must be complete before the block ends, but got an "
              "asynchronous copy without a wait",
              "sm_80", 4, kCopy + "tgpu.copy_commit\n");
  expectFault("'tgpu.copy_async' op must overwrite shared memory when it has been read, but got "
              "byte 2048 in an access by warp 0 of the block, which warp 1 may still be reading",
              "sm_80", 4,
              kCopy + "tgpu.copy_commit\n tgpu.copy_wait pending 0\n tgpu.sync\n" + kRead + kCopy +
                  "tgpu.copy_commit\n tgpu.copy_wait pending 0\n");
}

TEST_F(SimulatorFaultsTest, WritesOfRegisters) {
  const std::string write = "%value = tgpu.load %x[0, 0] : !x -> !r\n"
                            "tgpu.write %value, %b : !r, !buffer\n";
  expectClean("sm_80", 4, write + "tgpu.sync\n" + kRead);
  expectClean("sm_80", 4, write + kRead); // every warp reads what it wrote
  const std::string transposed = "%t = tgpu.read %b transpose : !buffer -> !r\n";
  expectFault("'tgpu.read' op must read shared memory when it has been written, but got byte 2048 "
              "in an access by warp 0 of the block, which warp 1 may still be writing",
              "sm_80", 4, write + transposed);
  expectFault("'tgpu.write' op must overwrite shared memory when it has been written, but got byte "
              "2048 in an access by warp 0 of the block, which warp 1 may still be writing",
              "sm_80", 4, write + "tgpu.write %value, %b transpose : !r, !buffer\n");
}

TEST_F(SimulatorFaultsTest, Phases) {
  expectClean("sm_90a", 8, kFull + roles(kExpect + kLoad, kWait + kRead));
  expectHopperFault(
      "'tgpu.read' op must read shared memory when it has been written, but got byte 0 in an "
      "access by warp 4 of role 'compute', which a copy by TMA may still be writing",
      kFull, kExpect + kLoad, kRead + kWait);
  expectHopperFault("'tgpu.wait' op must return, but got role 'compute' waiting for phase 0 of "
                    "stage 0, which misses 1 of 1 arrivals",
                    kFull, "", kWait);
  expectHopperFault("misses 0 of 1 arrivals and 8192 bytes", kFull,
                    "tgpu.expect %full[%c0] bytes 16384 : !bar\n" + kLoad, kWait);
  expectHopperFault(
      "must be for the phase under way of stage 0, 1, but got phase 0; expect as many bytes "
      "and arrivals as there are",
      kFull, "tgpu.expect %full[%c0] bytes 8192 : !bar\n" + kLoad + kLoad, kWait);
  expectHopperFault("'tgpu.tma_load' op must be followed by a wait for its phase, but has none",
                    kFull, kExpect + kLoad, "");
  expectHopperFault("is for phase 1 of stage 0, but got warp 0 of role 'load', which has not "
                    "observed the end of the previous phase",
                    kFull, "tgpu.expect %full[%c1] bytes 8192 : !bar\n", "");
  expectHopperFault("must wait for the phase before phase 1 of stage 0 first, but got warp 4 of "
                    "role 'compute', which has not observed its end and may return too early",
                    kFull, kExpect + kLoad, "tgpu.wait %full[%c1] : !bar\n");
}

TEST_F(SimulatorFaultsTest, RaggedMaps) {
  const std::string type = "!tgpu.tensor_map<64x64xbf16, b128, ragged 0>";
  const std::string full = "%full = tgpu.alloc_barriers arrivals 1 : !bar\n"
                           "%map = tgpu.tensor_map %x : !x -> " +
                           type + "\n";
  auto load = [&](const std::string &row) {
    return kExpect + "tgpu.tma_load %map[" + row +
           ", 0] from %c1 size %c1, %b, %full[%c0] : " + type + ", !buffer, !bar\n";
  };
  expectClean("sm_90a", 8, full + roles(load("1"), kWait + kRead));
  expectHopperFault("'tgpu.tma_load' op begins before its part of the view, at row -1; a ragged "
                    "tensor map clips only at the end of a part",
                    full, load("-1"), kWait + kRead);
}

TEST_F(SimulatorFaultsTest, PhasesThatMayBeMissed) {
  // One of four warps releases the slot, so the others may miss the second phase.
  const std::string prologue = kFull + "%empty = tgpu.alloc_barriers arrivals 1 : !bar\n";
  const std::string load = kExpect + kLoad +
                           "tgpu.acquire %empty[%c1] : !bar\n"
                           "tgpu.expect %full[%c1] bytes 8192 : !bar\n"
                           "tgpu.tma_load %map[0, 0], %b, %full[%c1] : !map, !buffer, !bar\n";
  const std::string compute = kWait +
                              "tgpu.arrive %empty[%c0] per $SCOPE : !bar\n"
                              "tgpu.wait %full[%c1] : !bar\n" +
                              kRead;
  expectHopperFault("must complete phase 1 of stage 0 when no warp waits for the previous phase, "
                    "but got warp 5, which may still wait and miss its end",
                    prologue, load, substitute(compute, {{"SCOPE", "role"}}));
  expectHopperFault("'tgpu.arrive' op must be for the phase under way of stage 0, 1, but got phase "
                    "0; expect as many bytes and arrivals as there are",
                    prologue, load, substitute(compute, {{"SCOPE", "warp"}}));
}

TEST_F(SimulatorFaultsTest, NamedBarriers) {
  const std::string barrier = "%meet = tgpu.named_barrier warps 5 : index\n";
  expectClean("sm_90a", 8, barrier + roles("tgpu.signal %meet\n", "tgpu.sync on %meet\n"));
  expectHopperFault("'tgpu.sync' op must return, but got role 'compute' waiting for 1 of the 5 "
                    "warps of a named barrier",
                    barrier, "", "tgpu.sync on %meet\n");
  expectHopperFault("'tgpu.named_barrier' op must have a warp that waits for those that arrived, "
                    "but got none for 1 when the block ends",
                    barrier, "tgpu.signal %meet\n", "");
  expectFault("raises the arrivals to 8 warps, but the barrier was declared for 5", "sm_90a", 8,
              barrier + "tgpu.roles role \"a\" warps 4 {\n tgpu.signal %meet\n} "
                        "role \"b\" warps 4 {\n tgpu.signal %meet\n}\n");
  expectHopperFault("'tgpu.signal' op must arrive a second time after the other warps, but got "
                    "warp 0 of role 'load', which has not observed their arrival",
                    barrier, "tgpu.signal %meet\n tgpu.signal %meet\n",
                    "tgpu.sync on %meet\n tgpu.sync on %meet\n");
}

TEST_F(SimulatorFaultsTest, Turns) {
  auto expect = [&](const std::string &message, const std::string &body) {
    expectFault(message, "sm_90a", 12,
                "%turns = tgpu.turns warpgroups 2 : index\n"
                "%meet = tgpu.named_barrier warps 8 : index\n"
                "tgpu.roles role \"load\" warps 4 {\n} role \"compute\" warps 8 {\n" +
                    body + "}\n");
  };
  expect("'tgpu.pass_turn' op must pass on a turn that was taken, but got one that is free",
         "tgpu.pass_turn %turns\n");
  expect("'tgpu.take_turn' op must take a turn that was passed on, but got one that role 'compute' "
         "has",
         "tgpu.take_turn %turns\n tgpu.take_turn %turns\n");
  expect("'tgpu.turns' op must be passed on before the block ends, but got a turn that role "
         "'compute' has taken",
         "tgpu.take_turn %turns\n");
  expect("'tgpu.sync' op must wait for other warpgroups outside of a turn, but has a turn that "
         "they wait for; pass it on first",
         "tgpu.take_turn %turns\n tgpu.sync on %meet\n tgpu.pass_turn %turns\n");
}

TEST_F(SimulatorFaultsTest, TurnsOfBlocks) {
  const std::string write = "%value = tgpu.load %x[0, 0] : !x -> !r\n"
                            "tgpu.write %value, %b : !r, !buffer\n tgpu.fence_async\n"
                            "tgpu.arrive %done[%c0] per warp : !bar\n";
  const std::string done = "%done = tgpu.alloc_barriers arrivals 4 : !bar\n"
                           "%map = tgpu.tensor_map %x : !x -> !map\n";
  const std::string await = "tgpu.await_turn %c0 of %counters[1] : !turns\n",
                    end = "tgpu.end_turn %c0 of %counters[1] : !turns\n",
                    add = "tgpu.wait %done[%c0] : !bar\n"
                          "tgpu.tma_reduce_add %b, %map[0, 0] : !buffer, !map\n"
                          "tgpu.bulk_commit\n",
                    wait = "tgpu.bulk_wait pending 0\n";
  expectClean("sm_90a", 8, done + roles(await + add + wait + end, write));
  expectHopperFault(
      "'tgpu.end_turn' op must end the turn that its thread has awaited, but got turn 0 and none",
      done, add + wait + end, write);
  expectHopperFault(
      "'tgpu.end_turn' op must end the turn that its thread has awaited, but got turn 1 and turn 0",
      done, await + add + wait + "tgpu.end_turn %c1 of %counters[1] : !turns\n", write);
  expectHopperFault("'tgpu.await_turn' op must be ended before role 'load' ends, but is not", done,
                    await + add + wait, write);
  expectHopperFault("'tgpu.await_turn' op must await a turn while its thread has no other one, but "
                    "has one, so that blocks may deadlock; end that one first",
                    done, await + await + add + wait + end, write);
  expectHopperFault("'tgpu.await_turn' op must return, but got role 'load' waiting for turn 1, but "
                    "the counter is 0 and all blocks before have ended",
                    done, "tgpu.await_turn %c1 of %counters[1] : !turns\n" + add + wait, write);
  // It is not sufficient that shared memory has been read.
  expectHopperFault(
      "'tgpu.end_turn' op must release the turn when its writes to the view have completed, but "
      "has waited for their reads of shared memory only; wait for the writes",
      done, await + add + "tgpu.bulk_wait pending 0 read\n" + end, write);
}

TEST_F(SimulatorFaultsTest, Products) {
  const std::string product = "%p = tgpu.wgmma %b, %b transpose_b : !buffer, !buffer -> "
                              "tensor<64x64xf32, #tgpu.wgmma<1>>\n";
  const std::string result = " : tensor<64x64xf32, #tgpu.wgmma<1>>\n";
  expectClean("sm_90a", 8,
              kFull + roles(kExpect + kLoad, kWait + product + "tgpu.wgmma_commit\n" +
                                                 "%t = tgpu.wgmma_wait pending 0, %p" + result));
  expectHopperFault("'tgpu.wgmma_wait' op must yield tiles that are complete, but got one that may "
                    "still be in flight; leave fewer groups pending",
                    kFull, kExpect + kLoad,
                    kWait + product + "tgpu.wgmma_commit\n" + "%t = tgpu.wgmma_wait pending 1, %p" +
                        result);
  expectHopperFault("'tgpu.wgmma' op must be committed before role 'compute' ends, but got an "
                    "asynchronous product without a commit",
                    kFull, kExpect + kLoad, kWait + product);
  const std::string write = "%value = tgpu.load %x[0, 0] : !x -> !r\n"
                            "tgpu.write %value, %b : !r, !buffer\n";
  const std::string barrier = "%own = tgpu.named_barrier warps 4 : index\n";
  expectHopperFault("'tgpu.wgmma' op must access generic-proxy writes through the async proxy "
                    "after a fence, but got byte 0 in an access by warpgroup 0 of role 'compute', "
                    "which warp 4 wrote without one; put tgpu.fence_async between",
                    barrier, "", write + "tgpu.sync on %own\n" + product);
  // A fence behind the barrier is on the path from the write to the product, too; one before the
  // write is not.
  const std::string wait =
      "tgpu.wgmma_commit\n"
      "%t = tgpu.wgmma_wait pending 0, %p : tensor<64x64xf32, #tgpu.wgmma<1>>\n";
  expectClean("sm_90a", 8,
              barrier +
                  roles("", write + "tgpu.sync on %own\n tgpu.fence_async\n" + product + wait));
  expectHopperFault("which warp 4 wrote without one; put tgpu.fence_async between", barrier, "",
                    "tgpu.fence_async\n" + write + "tgpu.sync on %own\n" + product + wait);
  // The fence of a third role, which knows of the write, is one as well; not if it does not.
  const std::string third = barrier + "%written = tgpu.named_barrier warps 5 : index\n"
                                      "%fenced = tgpu.named_barrier warps 5 : index\n";
  const std::string writer =
      write + "tgpu.signal %written\n tgpu.sync on %fenced\n" + product + wait;
  expectClean(
      "sm_90a", 8,
      third + roles("tgpu.sync on %written\n tgpu.fence_async\n tgpu.signal %fenced\n", writer));
  expectHopperFault("which warp 4 wrote without one; put tgpu.fence_async between", third,
                    "tgpu.fence_async\n tgpu.sync on %written\n tgpu.signal %fenced\n", writer);
  expectHopperFault(
      "'tgpu.wgmma' op must read shared memory when it has been written, but got byte 0 in an "
      "access by warpgroup 0 of role 'compute', which warp 4 may still be writing",
      barrier, "", write + "tgpu.fence_async\n" + product);
  expectHopperFault(
      "'tgpu.write' op must overwrite shared memory when it has been read, but got byte 0 in an "
      "access by warp 4 of role 'compute', which a product of warpgroup 1 may still be reading",
      barrier, "",
      write + "tgpu.fence_async\n tgpu.sync on %own\n" + product +
          "tgpu.wgmma_commit\n tgpu.write %value, %b : !r, !buffer\n");
}

TEST_F(SimulatorFaultsTest, ProductsOutsideOfRoles) {
  expectClean("sm_90a", 4,
              "%value = tgpu.load %x[0, 0] : !x -> !r\n"
              "tgpu.write %value, %b : !r, !buffer\n"
              "tgpu.fence_async\n tgpu.sync\n"
              "%p = tgpu.wgmma %b, %b transpose_b : !buffer, !buffer -> "
              "tensor<64x64xf32, #tgpu.wgmma<1>>\n"
              "tgpu.wgmma_commit\n"
              "%t = tgpu.wgmma_wait pending 0, %p : tensor<64x64xf32, #tgpu.wgmma<1>>\n");
}

TEST_F(SimulatorFaultsTest, Stores) {
  const std::string write = "%value = tgpu.load %x[0, 0] : !x -> !r\n"
                            "tgpu.write %value, %b : !r, !buffer\n"
                            "tgpu.fence_async\n tgpu.sync on %own\n"
                            "tgpu.tma_store %b, %map[0, 0] : !buffer, !map\n";
  const std::string prologue = kFull + "%own = tgpu.named_barrier warps 4 : index\n";
  expectClean("sm_90a", 8,
              prologue + roles("", write + "tgpu.bulk_commit\n tgpu.bulk_wait pending 0 read\n"));
  expectHopperFault("'tgpu.tma_store' op must be complete before role 'compute' ends, but got a "
                    "store that reads shared memory without a wait",
                    prologue, "", write + "tgpu.bulk_commit\n");
  // A row of 60 columns ends inside a chunk.
  messages.clear();
  EXPECT_TRUE(mlir::failed(
      run("sm_90a", 8,
          prologue + roles("", write + "tgpu.bulk_commit\n tgpu.bulk_wait pending 0\n"), 60)));
  EXPECT_NE(messages.find("'tgpu.tma_store' op writes whole chunks of 16 bytes, and thus beyond "
                          "rows of 120 bytes; rows must be a multiple of 16 bytes"),
            std::string::npos)
      << messages;
  EXPECT_TRUE(mlir::succeeded(
      run("sm_90a", 8,
          prologue + roles("", write + "tgpu.bulk_commit\n tgpu.bulk_wait pending 0\n"), 56)))
      << messages;
  // Columns past the end of the view are not read from the panel, either.
  const std::string narrow =
      "%n = tgpu.alloc : !tgpu.shared<64x56xbf16, b128>\n"
      "%part = tgpu.load %x[0, 0] : !x -> tensor<64x56xbf16, #tgpu.mma<4, 1>>\n"
      "tgpu.write %part, %n : tensor<64x56xbf16, #tgpu.mma<4, 1>>, !tgpu.shared<64x56xbf16, b128>\n"
      "tgpu.fence_async\n tgpu.sync on %own\n"
      "tgpu.tma_store %n, %map[0, 0] : !tgpu.shared<64x56xbf16, b128>, !map\n"
      "tgpu.bulk_commit\n tgpu.bulk_wait pending 0 read\n";
  EXPECT_TRUE(mlir::succeeded(run("sm_90a", 8, prologue + roles("", narrow), 56))) << messages;
  expectHopperFault("'tgpu.tma_store' op must read shared memory that was written, but got byte "
                    "8304 in an access by TMA for warp 4 of role 'compute'",
                    prologue, "", narrow);
  // Only the thread that issued the store can wait for it.
  const std::string again = "tgpu.write %value, %b : !r, !buffer\n";
  expectHopperFault(
      "in an access by warp 5 of role 'compute', which a store of warp 4 may still be reading",
      prologue, "", write + "tgpu.bulk_commit\n tgpu.bulk_wait pending 0 read\n" + again);
}

/// Schedules that never end are stopped, with what the other roles wait for.
TEST_F(SimulatorFaultsTest, Endless) {
  mostSteps = 2000;
  const std::string forEver = "scf.while : () -> () {\n"
                              "  %true = arith.constant true\n"
                              "  scf.condition(%true)\n"
                              "} do {\n";
  // Of operations that are steps, and of scalar code alone.
  expectHopperFault(
      "'tgpu.fence_async' op is executed by role 'compute', which has not ended after "
      "2000 steps of the block, the most that are simulated; the condition under "
      "which its loops end may never hold",
      kFull, kWait, forEver + "tgpu.fence_async\n scf.yield\n}\n");
  EXPECT_NE(messages.find("role 'load' waits for phase 0 of stage 0, which misses 1 of 1 "
                          "arrivals"),
            std::string::npos)
      << messages;
  expectHopperFault("'scf.while' op is executed by role 'load', which has not ended after as many "
                    "rounds of its loops as are simulated",
                    kFull, forEver + "scf.yield\n}\n", kWait);
  const std::string many = "%most = arith.constant 1000000000 : i32\n"
                           "scf.for %n = %c0 to %most step %c1 : i32 {\n}\n";
  expectHopperFault("'scf.for' op is executed by role 'compute', which has not ended after as many "
                    "rounds of its loops as are simulated",
                    kFull, "", many);
  expectFault("'scf.for' op is executed by the block, which has not ended after as many rounds",
              "sm_80", 4, many);
}

/// What an endless schedule would accumulate is bounded.
TEST_F(SimulatorFaultsTest, MemoryOfLongRuns) {
  const std::string store = "%most = arith.constant 70000 : i32\n"
                            "%value = tgpu.load %x[0, 0] : !x -> !r\n"
                            "tgpu.write %value, %b : !r, !buffer\n"
                            "tgpu.fence_async\n tgpu.sync on %own\n"
                            "scf.for %n = %c0 to %most step %c1 : i32 {\n"
                            "tgpu.tma_store %b, %map[0, 0] : !buffer, !map\n tgpu.bulk_commit\n}\n";
  expectHopperFault(
      "'tgpu.tma_store' op is one more than the 65536 asynchronous operations that may "
      "be in flight; a wait must come between",
      kFull + "%own = tgpu.named_barrier warps 4 : index\n", "", store);
}

/// A warpgroup that skips a round arrives as often as if it took part.
TEST_F(SimulatorFaultsTest, IdleRounds) {
  const std::string prologue = "%empty = tgpu.alloc_barriers arrivals 8 : !bar\n"
                               "%c2 = arith.constant 2 : i32\n";
  auto body = [](const std::string &idle) {
    return "tgpu.roles\n role \"compute\" warps 8 {\n"
           "  %first = tgpu.first_round %c0 of %c0, %c2\n"
           "  %u1 = scf.for %n = %c0 to %first step %c1 iter_args(%u = %c0) -> (i32) : i32 {\n" +
           idle +
           "    %next = arith.addi %u, %c1 : i32\n"
           "    scf.yield %next : i32\n"
           "  } {tgpu.idle_rounds}\n"
           "  %u2 = scf.for %n = %first to %c2 step %c1 iter_args(%u = %u1) -> (i32) : i32 {\n"
           "    tgpu.acquire %empty[%u] : !bar\n"
           "    tgpu.arrive %empty[%u] per warp : !bar\n"
           "    %next = arith.addi %u, %c1 : i32\n"
           "    scf.yield %next : i32\n"
           "  }\n}\n";
  };
  const std::string arrive = "    tgpu.arrive %empty[%u] per warp : !bar\n";
  const std::string acquire = "    tgpu.acquire %empty[%u] : !bar\n";
  expectClean("sm_90a", 8, prologue + body(acquire + arrive));
  expectFault(
      "'tgpu.arrive' op makes 8 arrivals for phase 0 of stage 0 in a round that warpgroup 1 "
      "skips, but the warpgroup makes 4 if it takes part",
      "sm_90a", 8, prologue + body(acquire + arrive + arrive));
  expectFault(
      "'tgpu.arrive' op makes 128 arrivals for phase 0 of stage 0 in a round that warpgroup "
      "1 skips, but the warpgroup makes 4 if it takes part",
      "sm_90a", 8, prologue + body("    tgpu.arrive %empty[%u] per thread : !bar\n"));
  expectFault(
      "'tgpu.arrive' op makes 1 arrivals for phase 0 of stage 0 in a round that warpgroup 1 "
      "skips, but the warpgroup makes 4 if it takes part",
      "sm_90a", 8, prologue + body("    tgpu.arrive %empty[%u] per warpgroup : !bar\n"));
  expectFault("'tgpu.fence_async' op must wait, arrive or take turns in rounds that a warpgroup "
              "skips, but got '",
              "sm_90a", 8, prologue + body(acquire + "tgpu.fence_async\n" + arrive));
}

/// The simulator checks the bounds of shared memory by itself.
TEST_F(SimulatorFaultsTest, OutsideOfSharedMemory) {
  sharedBytes = 4096;
  expectFault("'tgpu.copy_async' op must access one of the 4096 bytes of shared memory, but got "
              "byte 4096 in an access by",
              "sm_80", 4, kCopy);
  sharedBytes = -1;
  expectFault("shared memory must be 0 to 232448 bytes, but got -1", "sm_80", 4, kCopy);
  sharedBytes = 999999999;
  expectFault("shared memory must be 0 to 232448 bytes, but got 999999999", "sm_80", 4, kCopy);
}

} // namespace
} // namespace tilewright
