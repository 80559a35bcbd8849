// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the passes, and why.

#include "passes/Pipelines.h"

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"
#include "lib/Target/Target.h"
#include "passes/Passes.h"
#include "passes/Tgpu/ScheduleNames.h"

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

// The tensor dialect is not for authors: folders of arith may build its operations on bound tiles.
void registerDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect, scf::SCFDialect,
                  tensor::TensorDialect, tgpu::TgpuDialect, tile::TileDialect>();
  func::registerInlinerExtension(registry);
}

void buildTilePipeline(OpPassManager &manager, const TilePipelineOptions &options) {
  TileLinkOptions link;
  link.with.assign(options.with.begin(), options.with.end());
  manager.addPass(createTileLink(std::move(link)));
  manager.addPass(createTileInlineCalls({/*ofTilesOnly=*/true}));

  // Masks that replace the file's decide about blocks, which must be known to bind parameters.
  TileChooseBlocksOptions blocks;
  blocks.entry = options.entry;
  blocks.target = options.target;
  blocks.length = options.length;
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

  // Only now: folders of arith may build dense constants, which a symbolic tile cannot hold. They
  // also remove the branches that a bound flag decides, so that the masks are as simple as they
  // get.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  // What folding has left of branches does not read arguments of others.
  manager.addPass(createTileDropArguments());
  manager.addPass(createTileDifferentiate());
  manager.addPass(createTileAnalyzeMasks());
  manager.addPass(createTileFoldScale({/*assumeFastMath=*/options.fastMath}));
  // Behind the pass that looks for factors in functions. What is loaded for a tile needs no element
  // reads; of these, hoist those that are the same for all elements.
  manager.addPass(createTileLoadCaptures());
  manager.addPass(createTileHoistUniforms());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createLoopInvariantCodeMotionPass());
  // Now that factors which no round changes are computed before their loops.
  manager.addPass(createTileScaleAfterLoop());
}

void buildGpuPipeline(OpPassManager &manager, const GpuPipelineOptions &options) {
  const Target *target = Target::find(options.target); // tile-to-tgpu refuses others
  if (llvm::is_contained(options.schedule, (tgpu::copyCapturesKey + "=1").str()))
    manager.addPass(createTileCopyCaptures());
  // Before tiles get layouts. With roles the branch that this writes leaves the loop; without, the
  // masked tile would go through it.
  manager.addPass(createTileScaleAfterMax({/*withMasked=*/target && target->hasRoles()}));
  TileToTgpuOptions mapping;
  mapping.target = options.target;
  mapping.warps = options.warps;
  manager.addPass(createTileToTgpu(mapping));
  // Threads compute the limits of their rows by functions of scalars, in 64 bits lest sums wrap.
  manager.addNestedPass<func::FuncOp>(arith::createArithIntRangeNarrowing({/*bitwidths=*/{32}}));
  // What is known of the bounds of a loop folds; whether a part of it is empty may then be known.
  manager.addPass(createTileInlineCalls());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createTgpuSumByThread());
  if (!llvm::is_contained(options.schedule, (tgpu::skipOnesKey + "=0").str()))
    manager.addPass(createTgpuSkipOnes());
  TgpuPlanScheduleOptions planning;
  planning.schedule.assign(options.schedule.begin(), options.schedule.end());
  manager.addPass(createTgpuPlanSchedule(planning));
  manager.addPass(createTgpuHoistReads());
  manager.addPass(createTgpuPipelineCopies());
  // Roles before segments: the role that copies brings all blocks in one loop. Rings of sm_80 are
  // there by now, too, and run on through the seams.
  manager.addPass(createTgpuAssignRoles());
  // Segments of the usual case only.
  manager.addPass(createTgpuUnswitchLoops());
  manager.addPass(createTgpuSkipIdleRounds());
  manager.addPass(createTgpuCloneSegments());
  manager.addPass(createTgpuStageStores());
  manager.addPass(createTgpuScheduleDots());
  // What is constant in a segment folds before its operations get places.
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createTgpuPlanStages());
  manager.addPass(createTgpuExpandStages());
  manager.addPass(createTgpuReleaseEarly());
  manager.addPass(createTgpuUniteCounters());
  manager.addPass(createTgpuStepProducts());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  // Now that each part of a loop knows what its rows are multiplied with.
  manager.addPass(createTgpuBoundMaxima());
  // Everything that takes shared memory is there.
  manager.addPass(createTgpuPlanSharedMemory());
  manager.addPass(createTgpuInsertFences());
  manager.addPass(createTgpuVerifySync());
}

namespace {
struct GpuPipelineCommandLine : PassPipelineOptions<GpuPipelineCommandLine> {
  Option<std::string> target{*this, "target", llvm::cl::desc("architecture"),
                             llvm::cl::init("sm_80")};
  Option<int64_t> warps{*this, "warps", llvm::cl::desc("warps of a block; 0: by its products"),
                        llvm::cl::init(0)};
  ListOption<std::string> schedule{*this, "schedule",
                                   llvm::cl::desc("KEY=VALUE, overrides a decision")};
};

struct TilePipelineCommandLine : PassPipelineOptions<TilePipelineCommandLine> {
  Option<std::string> entry{*this, "entry", llvm::cl::desc("kernel or program to compile")};
  ListOption<std::string> params{*this, "params", llvm::cl::desc("NAME=VALUE for each parameter")};
  ListOption<std::string> with{*this, "with", llvm::cl::desc("files of replacements")};
  Option<std::string> target{*this, "target", llvm::cl::desc("cpu, or an architecture"),
                             llvm::cl::init("cpu")};
  Option<std::string> blocks{*this, "blocks", llvm::cl::desc("file of rows for blocks")};
  Option<bool> fastMath{*this, "fast-math", llvm::cl::desc("allow other rounding"),
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
