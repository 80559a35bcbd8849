// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the passes, with reasons.

#include "passes/Pipelines/Pipelines.h"

#include "base/Target/Target.h"
#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"
#include "passes/Tgpu/Plan/ScheduleKeys.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tilewright {

// Authors do not use the tensor dialect; folders of arith may create its operations on bound tiles.
void registerDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect, scf::SCFDialect,
                  tensor::TensorDialect, tgpu::TgpuDialect, tile::TileDialect>();
  func::registerInlinerExtension(registry);
}

void buildTilePipeline(OpPassManager &manager, const TilePipelineOptions &options) {
  TileLinkOptions link;
  link.with.assign(options.with.begin(), options.with.end());
  link.source = options.source;
  manager.addPass(createTileLink(std::move(link)));
  manager.addPass(createTileInlinePrograms());
  // Before calls are inlined, since what merges states is one. The forms are kernels of their own.
  TileShareLoopsOptions shares;
  shares.target = options.target;
  shares.sums = options.sums;
  manager.addPass(createTileShareLoops(std::move(shares)));
  manager.addPass(createTileInlineCalls({/*ofTilesOnly=*/true}));

  manager.addPass(createTileBindTarget({options.target}));
  // After inlining, so that a kernel shows what it adds. Before blocks are chosen, since forms are
  // kernels of their own.
  TileCombineSumsOptions sums;
  sums.target = options.target;
  sums.sums = options.sums;
  manager.addPass(createTileCombineSums(std::move(sums)));
  // After linking, because masks of linked files affect the choice of blocks. Before binding, which
  // needs the blocks.
  TileChooseBlocksOptions blocks;
  blocks.entry = options.entry;
  blocks.target = options.target;
  blocks.length = options.length;
  blocks.shared = options.shared;
  blocks.table = options.blocks;
  TileSpecializeOptions specialize;
  specialize.entry = options.entry;
  specialize.exactLiterals = options.exactLiterals;
  for (const auto &[name, value] : options.params) {
    blocks.params.push_back(name + "=" + value);
    specialize.params.push_back(name + "=" + value);
  }
  manager.addPass(createTileChooseBlocks(std::move(blocks)));
  manager.addPass(createTileSpecialize(std::move(specialize)));

  // Before any pass that may rebuild a loop without its attributes.
  manager.addPass(createTileUnroll());

  // Not earlier: folders of arith may create dense constants, which do not exist for symbolic
  // tiles. Folding also removes the branches that bound flags decide, which simplifies masks.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  // After folding has removed what a flag excludes, before any pass that looks for patterns, which
  // must not depend on what only shows values.
  if (options.target != "cpu")
    manager.addPass(createTileDropDebug({options.keepDebug}));
  manager.addPass(createTileCheckDebug());
  manager.addPass(createTileExpandComposites());
  // After folding: the branches that remain read no argument whose condition is false.
  manager.addPass(createTileDropArguments());
  manager.addPass(createTileDifferentiate());
  manager.addPass(createTileAnalyzeMasks());
  manager.addPass(createTileFoldScale({/*assumeFastMath=*/options.fastMath}));
  // After tile-fold-scale, which looks for factors in mapped functions. Reads of elements that
  // remain after loading tiles are hoisted if they are the same for all elements.
  manager.addPass(createTileLoadCaptures());
  manager.addPass(createTileHoistUniforms());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createLoopInvariantCodeMotionPass());
  // After loop-invariant code motion has moved invariant factors out of loops.
  manager.addPass(createTileScaleAfterLoop());
  // Last, because sums that it adds apart are no longer accumulators, which the passes before look
  // for.
  manager.addPass(createTileTransposeOperands({options.target}));
  // After the passes that add launches.
  manager.addPass(createTileOverlapLaunches({options.target}));
}

void buildGpuPipeline(OpPassManager &manager, const GpuPipelineOptions &options) {
  const Target *target = Target::find(options.target); // tile-to-tgpu rejects others
  if (llvm::is_contained(options.schedule, (tgpu::copyCapturesKey + "=1").str()))
    manager.addPass(createTileCopyCaptures());
  // Before tiles get layouts. The pass creates a branch. With roles, tgpu-unswitch-loops moves it
  // out of the loop; without, it must not yield the masked tile.
  bool hasRoles = target && target->hasRoles();
  // Where the branch stays in the loop, loops without it have other registers: not measured.
  manager.addPass(createTileScaleAfterMax({/*withMasked=*/hasRoles, /*alwaysBranch=*/!hasRoles}));
  TileToTgpuOptions mapping;
  mapping.target = options.target;
  mapping.warps = options.warps;
  manager.addPass(createTileToTgpu(mapping));
  manager.addPass(createTgpuLoadMaskCaptures());
  // Functions that compute the limits of rows use 64 bits so that sums do not wrap. Narrow them to
  // 32 bits where ranges allow it.
  manager.addNestedPass<func::FuncOp>(arith::createArithIntRangeNarrowing({/*bitwidths=*/{32}}));
  // Inlining and folding make bounds of loops constant where possible, which may show that a part
  // of a loop is empty.
  manager.addPass(createTileInlineCalls());
  // Again, for masks of blocks, which are maps only since tile-to-tgpu.
  manager.addPass(createTileHoistUniforms());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  // Differences of expressions that CSE has found to be equal.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createTgpuSumByThread());
  if (!llvm::is_contained(options.schedule, (tgpu::skipOnesKey + "=0").str()))
    manager.addPass(createTgpuSkipOnes());
  TgpuPlanScheduleOptions planning;
  planning.schedule.assign(options.schedule.begin(), options.schedule.end());
  manager.addPass(createTgpuPlanSchedule(planning));
  manager.addPass(createTgpuHoistReads());
  manager.addPass(createTgpuPipelineCopies());
  // Before tgpu-clone-segments: the role that copies keeps one loop over all blocks. Rings of
  // tgpu-pipeline-copies exist by now, too, and continue across the segments.
  manager.addPass(createTgpuAssignRoles());
  manager.addPass(createTgpuShareSpread());
  manager.addPass(createTgpuHoistElements());
  // Before tgpu-clone-segments, so that only the usual case is split into segments.
  manager.addPass(createTgpuUnswitchLoops());
  manager.addPass(createTgpuSkipIdleRounds());
  manager.addPass(createTgpuCloneSegments());
  manager.addPass(createTgpuStageStores());
  // Folds what is constant within a segment before its operations get places.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createTgpuPlanStages());
  manager.addPass(createTgpuExpandStages());
  // Folds loops of one iteration before slots are released.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createTgpuReleaseEarly());
  manager.addPass(createTgpuUniteCounters());
  manager.addPass(createTgpuStepProducts());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  // After folding, when the factors of rows in each part of a loop are visible.
  manager.addPass(createTgpuBoundMaxima());
  manager.addPass(createTgpuShiftRows());
  manager.addPass(createTgpuSplitTerms());
  // After all passes that allocate shared memory.
  manager.addPass(createTgpuPlanSharedMemory());
  manager.addPass(createTgpuInsertFences());
  manager.addPass(createTgpuVerifySync());
}

namespace {
struct GpuPipelineCommandLine : PassPipelineOptions<GpuPipelineCommandLine> {
  Option<std::string> target{*this, "target", llvm::cl::desc("architecture"),
                             llvm::cl::init("sm_80")};
  Option<int64_t> warps{*this, "warps", llvm::cl::desc("warps per block; 0: chosen by the pass"),
                        llvm::cl::init(0)};
  ListOption<std::string> schedule{*this, "schedule",
                                   llvm::cl::desc("KEY=VALUE: overrides a decision")};
};

struct TilePipelineCommandLine : PassPipelineOptions<TilePipelineCommandLine> {
  Option<std::string> entry{*this, "entry", llvm::cl::desc("kernel or program to compile")};
  ListOption<std::string> params{*this, "params", llvm::cl::desc("NAME=VALUE for each parameter")};
  ListOption<std::string> with{
      *this, "with",
      llvm::cl::desc("files whose functions and captures replace those of the module")};
  Option<std::string> target{*this, "target", llvm::cl::desc("cpu, or an architecture"),
                             llvm::cl::init("cpu")};
  Option<std::string> blocks{
      *this, "blocks",
      llvm::cl::desc("file of rows that take precedence over the table of blocks")};
  Option<bool> fastMath{*this, "fast-math", llvm::cl::desc("allow rewrites that change rounding"),
                        llvm::cl::init(false)};
};
} // namespace

void registerTilewrightPipelines() {
  PassPipelineRegistration<TilePipelineCommandLine>(
      "tile-pipeline", "bind one entry and prepare it for a device",
      [](OpPassManager &manager, const TilePipelineCommandLine &commandLine) {
        TilePipelineOptions options;
        options.entry = commandLine.entry;
        options.with.assign(commandLine.with.begin(), commandLine.with.end());
        options.fastMath = commandLine.fastMath;
        options.target = commandLine.target;
        options.blocks = commandLine.blocks;
        for (StringRef param : commandLine.params) {
          auto [name, value] = param.split('=');
          options.params.emplace_back(name.str(), value.str());
        }
        buildTilePipeline(manager, options);
      });
  PassPipelineRegistration<GpuPipelineCommandLine>(
      "gpu-pipeline", "map bound kernels onto a GPU",
      [](OpPassManager &manager, const GpuPipelineCommandLine &commandLine) {
        GpuPipelineOptions options;
        options.target = commandLine.target;
        options.warps = commandLine.warps;
        options.schedule.assign(commandLine.schedule.begin(), commandLine.schedule.end());
        buildGpuPipeline(manager, options);
      });
}

} // namespace tilewright
