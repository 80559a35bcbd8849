// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts instructions in tgpu IR, by the rules of passes/Conversion, and computes bank conflicts
// with base/Layout.

#include "lib/Codegen/Report.h"

#include "base/Layout/Relations.h"
#include "dialect/Tile/TileExprEval.h"
#include "passes/Conversion/AlignedViews.h"
#include "passes/Conversion/ExchangeCounts.h"
#include "passes/Conversion/TileLayouts.h"
#include "passes/Tgpu/Analysis/Notes.h"
#include "passes/Tgpu/Sync/SyncCoverage.h"
#include "passes/Tile/BindParameters.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::Wavefronts;

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

void SharedTraffic::add(const SharedTraffic &other) {
  reads += other.reads;
  writes += other.writes;
  copies += other.copies;
  if (worst.ideal == 0 || other.worst.factor() > worst.factor()) {
    worst = other.worst;
    worstPlace = other.worstPlace;
  }
}

/// A register tile read from or written to a buffer: matrices if the layout allows them, else
/// vectors.
static Wavefronts predictAccess(RankedTensorType tile, SharedType buffer, bool isExchanged,
                                bool mayUseMatrices) {
  auto registers = getRegisterLayout(tile);
  auto shared = getSharedLayout(buffer);
  if (!registers || !shared)
    return {};
  layout::Placement placement{isExchanged, {0, 0}};
  if (mayUseMatrices)
    if (auto access = layout::MatrixAccess::plan(*registers, *shared, placement))
      return layout::wavefronts(*access);
  auto access = layout::VectorAccess::plan(*registers, *shared, placement);
  return access ? layout::wavefronts(*access) : Wavefronts();
}

static Wavefronts predictCopy(SharedType buffer, int64_t warps) {
  auto shared = getSharedLayout(buffer);
  if (!shared)
    return {};
  for (int chunk : {16, 8, 4})
    if (auto partition = layout::CopyPartition::plan(*shared, static_cast<int>(32 * warps), chunk))
      return layout::wavefronts(*partition);
  return {};
}

/// The reads of a product on the CUDA cores: strips of 16 bytes along k if k is along rows, else
/// runs of columns.
static Wavefronts predictOperand(const layout::RegisterLayout &tile, SharedType buffer, int dim,
                                 bool isKInRow) {
  auto shared = getSharedLayout(buffer);
  if (!shared)
    return {};
  int64_t bytes = shared->bytesPerElement();
  int64_t depth = isKInRow ? shared->cols() : shared->rows();
  int64_t step = 16 / bytes;
  while (depth % step != 0)
    step /= 2;
  int64_t run = isKInRow ? step : 1;
  while (!isKInRow && dim == 1 && tile.vectorLength(1) % (2 * run) == 0 && 2 * run * bytes <= 16)
    run *= 2;
  Wavefronts sum;
  llvm::SmallDenseSet<int64_t> places; // of the registers, each read once
  for (int reg = 0; reg < tile.registersPerThread(); reg += isKInRow ? 1 : run) {
    int64_t place = tile.registerPart(reg)[dim];
    if (!places.insert(place).second)
      continue;
    for (int warp = 0; warp < tile.numWarps(); ++warp) {
      std::vector<int64_t> offsets;
      for (int lane = 0; lane < layout::kLanes; ++lane) {
        int64_t at = tile.warpPart(warp)[dim] + tile.lanePart(lane)[dim] + place;
        offsets.push_back(isKInRow ? shared->byteOffset(at, 0) : shared->byteOffset(0, at));
      }
      Wavefronts once = layout::warpAccess(offsets, static_cast<int>(run * bytes));
      int64_t times = isKInRow ? depth / step : depth;
      sum += {once.actual * times, once.ideal * times};
    }
  }
  return sum;
}

static SharedTraffic predictTraffic(Operation *op, const Target &target) {
  SharedTraffic traffic;
  auto note = [&](Wavefronts &kind, Wavefronts found) {
    kind += found;
    traffic.worst = found;
    traffic.worstPlace = describePlace(op->getLoc());
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](ReadOp read) {
        auto tile = cast<RankedTensorType>(read.getResult().getType());
        auto buffer = cast<SharedType>(read.getBuffer().getType());
        bool mayUseMatrices =
            isa<OperandAttr>(tile.getEncoding()) ||
            (getElementBits(buffer.getElementType()) == 16 && tile.getRank() == 2);
        note(traffic.reads, predictAccess(tile, buffer, read.getTranspose(), mayUseMatrices));
      })
      .Case([&](WriteSharedOp write) {
        auto tile = cast<RankedTensorType>(write.getValue().getType());
        auto buffer = cast<SharedType>(write.getBuffer().getType());
        bool mayUseMatrices = target.has(Feature::StoreMatrix) && tile.getRank() == 2 &&
                              getElementBits(buffer.getElementType()) == 16 &&
                              isa<MmaAttr, WgmmaAttr>(tile.getEncoding());
        note(traffic.writes, predictAccess(tile, buffer, write.getTranspose(), mayUseMatrices));
      })
      .Case([&](CopyAsyncOp copy) {
        note(traffic.copies,
             predictCopy(cast<SharedType>(copy.getBuffer().getType()), getExecutingWarps(copy)));
      })
      .Case([&](FmaDotOp dot) {
        auto tile = getRegisterLayout(cast<RankedTensorType>(dot.getResult().getType()));
        if (!tile || tile->rank() != 2)
          return;
        Wavefronts operands =
            predictOperand(*tile, cast<SharedType>(dot.getA().getType()), 0, !dot.getTransposeA());
        operands +=
            predictOperand(*tile, cast<SharedType>(dot.getB().getType()), 1, dot.getTransposeB());
        note(traffic.reads, operands);
      });
  return traffic;
}

//===----------------------------------------------------------------------===//
// Matrix instructions and waits
//===----------------------------------------------------------------------===//

static void countMatrixInstructions(Operation *op, std::map<std::string, int64_t> &counts) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](MmaOp mma) {
        auto a = cast<RankedTensorType>(mma.getA().getType());
        auto acc = cast<RankedTensorType>(mma.getAcc().getType());
        auto layout = dyn_cast<MmaAttr>(acc.getEncoding());
        if (!layout)
          return;
        int64_t depth = getInstructionDepth(a.getElementType());
        counts["mma.sync m16n8k" + std::to_string(depth)] +=
            acc.getDimSize(0) / (16 * layout.getWarpsM()) * acc.getDimSize(1) /
            (8 * layout.getWarpsN()) * a.getDimSize(1) / depth;
      })
      .Case([&](WgmmaOp wgmma) {
        RankedTensorType tile = cast<PendingType>(wgmma.getResult().getType()).getTile();
        auto layout = cast<WgmmaAttr>(tile.getEncoding());
        auto b = cast<SharedType>(wgmma.getB().getType());
        int64_t depth = getInstructionDepth(b.getElementType());
        int64_t total = b.getShape()[wgmma.getTransposeB() ? 1 : 0];
        counts["wgmma m64n" + std::to_string(tile.getDimSize(1)) + "k" + std::to_string(depth)] +=
            tile.getDimSize(0) / (rowsOfWarpgroup * layout.getWarpgroups()) * total / depth;
      })
      .Case([&](FmaDotOp dot) {
        auto tile = cast<RankedTensorType>(dot.getResult().getType());
        auto layout = getRegisterLayout(tile);
        if (!layout)
          return;
        int64_t depth =
            cast<SharedType>(dot.getA().getType()).getShape()[dot.getTransposeA() ? 0 : 1];
        counts["fma"] += layout->registersPerThread() * depth;
      });
}

static void countWaits(Operation *op, std::map<std::string, int64_t> &counts) {
  if (int64_t barriers = countBarriersOfExchanges(op))
    counts["barrier"] += barriers;
  StringRef kind = llvm::TypeSwitch<Operation *, StringRef>(op)
                       .Case<CopyWaitOp>([](auto) { return "cp.async"; })
                       .Case<WgmmaWaitOp>([](auto) { return "wgmma"; })
                       .Case<WaitOp, AcquireOp>([](auto) { return "mbarrier"; })
                       .Case<BulkWaitOp>([](auto) { return "bulk"; })
                       .Case<TakeTurnOp>([](auto) { return "turn"; })
                       .Case<SyncOp>([](auto) { return "barrier"; })
                       .Default([](Operation *) { return ""; });
  if (!kind.empty())
    ++counts[kind.str()];
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

namespace {

/// "ROWS = 128 (rows), KEYS = 176 (step), by the table: ...; 'sum (R S) S', ...".
std::string describeBlocks(DictionaryAttr blocks) {
  if (!blocks)
    return "";
  std::string text;
  auto getText = [&](StringRef name) {
    auto value = blocks.getAs<StringAttr>(name);
    return value ? value.getValue() : StringRef();
  };
  auto getNumber = [&](StringRef name) {
    auto value = blocks.getAs<IntegerAttr>(name);
    return value ? value.getInt() : 0;
  };
  for (StringRef role : {"rows", "columns", "step"})
    if (StringRef chosen = getText(role); !chosen.empty())
      text += (chosen + " (" + role + "), ").str();
  llvm::raw_string_ostream os(text);
  os << "by " << getText("by") << "; '" << getText("structure") << "', " << getNumber("bits")
     << " bits";
  if (int64_t bytes = getNumber("row_bytes"))
    os << ", rows of " << bytes << " bytes";
  os << (getText("mask") == "none" ? ", no mask" : ", a mask");
  return text;
}

class Describer {
public:
  explicit Describer(KernelOp kernel) : kernel(kernel) {}

  KernelReport run() {
    report.kernel = kernel.getSymName().str();
    report.target = kernel.getTarget().str();
    report.blocks = describeBlocks(kernel->getAttrOfType<DictionaryAttr>(blocksAttrName));
    if (auto strategy = kernel->getAttrOfType<StringAttr>(strategyAttrName))
      report.strategy = strategy.str();
    if (auto reason = noRolesAttr.get(kernel)) {
      report.noRoles = reason.str();
      if (auto place = noRolesPlaceAttr.get(kernel))
        report.noRoles += " (" + place.str() + ")";
    }
    if (auto notes = notesAttr.get(kernel))
      for (auto note : notes.getAsRange<StringAttr>())
        report.notes.push_back(note.str());
    report.warps = kernel.getWarps();
    report.sharedBytes = kernel.getSharedBytes().value_or(0);
    kernel.walk([&](AllocRingOp op) {
      auto type = cast<RingType>(op.getRing().getType());
      std::string slot;
      llvm::raw_string_ostream os(slot);
      llvm::interleave(type.getSlot().getShape(), os, "x");
      os << 'x' << type.getSlot().getElementType();
      report.rings.push_back({slot, type.getStages(), type.getStages() * getBytes(type.getSlot())});
    });
    LoopReport outside = describe(kernel.getBody(), {});
    report.loops.insert(report.loops.begin(), std::move(outside));
    for (UncheckedSync unchecked : findUncheckedSync(kernel)) {
      std::string place = describePlace(unchecked.op->getLoc());
      bool isKnown = llvm::any_of(report.unchecked, [&](llvm::StringRef known) {
        return known.rsplit(':').first == llvm::StringRef(place).rsplit(':').first;
      });
      if (!isKnown)
        report.unchecked.push_back(std::move(place));
    }
    return std::move(report);
  }

private:
  struct Context {
    int depth = 0;
    std::string role;
  };

  /// The contents of the region without its loops, which get separate reports.
  LoopReport describe(Region &region, const Context &context) {
    LoopReport found;
    for (Operation &op : region.getOps())
      visit(&op, context, found);
    return found;
  }

  static void merge(LoopReport &into, const LoopReport &from) {
    for (auto &[name, count] : from.matrixInstructions)
      into.matrixInstructions[name] += count;
    for (auto &[name, count] : from.waits)
      into.waits[name] += count;
    into.shared.add(from.shared);
  }

  static int64_t weight(const LoopReport &report) {
    int64_t sum = 0;
    for (auto &[name, count] : report.matrixInstructions)
      sum += count;
    return sum;
  }

  /// Whether the body of a loop, without inner loops, loads tiles, and none to shared memory.
  static bool loadsToRegisters(Operation *loop) {
    bool loads = false, copies = false;
    loop->walk([&](Operation *op) {
      bool isOwn = op->getParentOfType<LoopLikeOpInterface>() == loop;
      loads |= isOwn && isa<LoadOp>(op);
      copies |= isOwn && isa<CopyAsyncOp, TmaLoadOp>(op);
    });
    return loads && !copies;
  }

  void visit(Operation *op, const Context &context, LoopReport &found) {
    if (auto roles = dyn_cast<RolesOp>(op)) {
      for (auto [i, body] : llvm::enumerate(roles.getBodies())) {
        std::string name = cast<StringAttr>(roles.getNames()[i]).getValue().str();
        report.roles.push_back({name, roles.getWarps()[i], roles.getRegisters()[i]});
        LoopReport outside = describe(body, {context.depth, name});
        merge(found, outside);
      }
      return;
    }
    if (isa<LoopLikeOpInterface>(op)) {
      size_t place = report.loops.size();
      report.loops.emplace_back();
      Context inner = {context.depth + 1, context.role};
      LoopReport loop;
      for (Region &region : op->getRegions())
        merge(loop, describe(region, inner));
      loop.place = describePlace(op->getLoc());
      loop.role = context.role;
      loop.depth = context.depth;
      if (auto schedule = scheduleAttr.get(op)) {
        loop.skeleton = stringifySkeleton(schedule.getSkeleton()).str();
        loop.stages = schedule.getStages();
      } else if (loadsToRegisters(op)) {
        loop.notPipelined = "it loads tiles to registers; only operands of products are copied "
                            "ahead";
      }
      report.loops[place] = std::move(loop);
      return;
    }
    if (op->getNumRegions()) {
      LoopReport most;
      for (Region &region : op->getRegions())
        if (LoopReport branch = describe(region, context); weight(branch) >= weight(most))
          if (&region == &op->getRegion(0) || weight(branch) > weight(most))
            most = std::move(branch);
      merge(found, most);
      return;
    }
    countMatrixInstructions(op, found.matrixInstructions);
    countWaits(op, found.waits);
    SharedTraffic traffic = predictTraffic(op, getTargetOf(kernel));
    if (traffic.worst.ideal)
      found.shared.add(traffic);
  }

  KernelOp kernel;
  KernelReport report;
};

} // namespace

std::vector<KernelReport> tilewright::describeKernels(ModuleOp module) {
  std::vector<KernelReport> reports;
  for (auto kernel : module.getOps<KernelOp>())
    reports.push_back(Describer(kernel).run());
  return reports;
}

Occupancy tilewright::computeOccupancy(const KernelReport &kernel,
                                       std::optional<int64_t> registers) {
  const Target *target = Target::find(kernel.target);
  assert(target && "the report is of a verified kernel");
  Occupancy occupancy{target->blocksOfMultiprocessor, "blocks"};
  auto limit = [&](int64_t blocks, StringRef by) {
    if (blocks < occupancy.blocks)
      occupancy = {blocks, by.str()};
  };
  limit(target->warpsOfMultiprocessor / kernel.warps, "warps");
  limit(target->sharedOfMultiprocessor / (kernel.sharedBytes + Target::systemShared),
        "shared memory");
  if (registers && *registers) {
    int64_t ofWarp = llvm::alignTo(*registers * Target::lanes, Target::registerUnit);
    limit(Target::registers / ofWarp / kernel.warps, "registers");
  }
  return occupancy;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printCounts(llvm::raw_ostream &os, const std::map<std::string, int64_t> &counts) {
  if (counts.empty())
    os << "none";
  llvm::interleave(
      counts, os, [&](auto &entry) { os << entry.second << ' ' << entry.first; }, ", ");
}

static void printTraffic(llvm::raw_ostream &os, const SharedTraffic &shared) {
  bool isFirst = true;
  for (auto [name, wavefronts] :
       {std::pair<const char *, const Wavefronts *>("reads", &shared.reads),
        {"writes", &shared.writes},
        {"copies", &shared.copies}}) {
    if (!wavefronts->ideal)
      continue;
    os << (isFirst ? "" : ", ") << name << ' ' << llvm::format("%.2f", wavefronts->factor());
    isFirst = false;
  }
  if (isFirst)
    os << "no accesses";
  if (!shared.worst.conflictFree())
    os << " (worst " << llvm::format("%.2f", shared.worst.factor()) << " at " << shared.worstPlace
       << ')';
}

/// What ptxas says of an entry; null if that is unknown.
static const KernelResources *findResources(const std::vector<KernelResources> &resources,
                                            llvm::StringRef entry) {
  auto known =
      llvm::find_if(resources, [&](const KernelResources &r) { return r.kernel == entry; });
  return known == resources.end() ? nullptr : &*known;
}

void tilewright::printSummary(llvm::raw_ostream &os, const std::vector<KernelReport> &kernels,
                              const std::vector<KernelResources> &resources) {
  for (const KernelReport &kernel : kernels) {
    const KernelResources *known = findResources(resources, tgpu::getAlignedEntry(kernel.kernel));
    if (!known)
      known = findResources(resources, kernel.kernel);
    Occupancy occupancy =
        computeOccupancy(kernel, known ? std::optional(known->registers) : std::nullopt);
    os << kernel.kernel << " for " << kernel.target << ": " << 32 * kernel.warps << " threads, ";
    if (known)
      os << known->registers << " registers, spills " << known->spillStoreBytes
         << " bytes stored and " << known->spillLoadBytes << " loaded, ";
    os << kernel.sharedBytes << " bytes shared, " << (known ? "" : "at most ") << occupancy.blocks
       << (occupancy.blocks == 1 ? " block" : " blocks") << " per multiprocessor, "
       << (kernel.roles.empty() ? "no roles" : "roles") << '\n';
    if (!kernel.noRoles.empty())
      os << "  no roles        " << kernel.noRoles << '\n';
    for (const std::string &note : kernel.notes)
      os << "  slower          " << note << '\n';
    for (const std::string &place : kernel.unchecked)
      os << "  unchecked       synchronization at " << place << '\n';
  }
}

void tilewright::printReport(llvm::raw_ostream &os, const std::vector<KernelReport> &kernels,
                             const std::vector<KernelResources> &resources) {
  for (const KernelReport &kernel : kernels) {
    // Of two forms, the one that most launches use comes first.
    const KernelResources *general = findResources(resources, kernel.kernel);
    const KernelResources *aligned = findResources(resources, tgpu::getAlignedEntry(kernel.kernel));
    const KernelResources *known = aligned ? aligned : general;
    auto printSpills = [&](const KernelResources &of) {
      os << of.spillStoreBytes << " bytes stored, " << of.spillLoadBytes << " bytes loaded, stack "
         << of.stackBytes << " bytes";
    };
    os << kernel.kernel << " for " << kernel.target << '\n';
    if (!kernel.blocks.empty())
      os << "  blocks          " << kernel.blocks << '\n';
    if (!kernel.strategy.empty())
      os << "  strategy        " << kernel.strategy << '\n';
    if (!kernel.noRoles.empty())
      os << "  no roles        " << kernel.noRoles << '\n';
    for (const std::string &note : kernel.notes)
      os << "  slower          " << note << '\n';
    os << "  threads         " << 32 * kernel.warps << " (" << kernel.warps << " warps)\n";
    os << "  registers       ";
    if (known)
      os << known->registers << " per thread";
    else
      os << "unknown";
    os << "\n  spills          ";
    if (known)
      printSpills(*known);
    else
      os << "unknown";
    os << "\n  shared memory   " << kernel.sharedBytes << " bytes planned";
    if (known && known->staticSharedBytes)
      os << ", " << known->staticSharedBytes << " bytes static";
    Occupancy occupancy =
        computeOccupancy(kernel, known ? std::optional(known->registers) : std::nullopt);
    os << "\n  occupancy       ";
    if (!known)
      os << "unknown, at most ";
    os << occupancy.blocks << (occupancy.blocks == 1 ? " block" : " blocks")
       << " per multiprocessor, limited by " << occupancy.limit << '\n';
    if (aligned && general) {
      os << "  unaligned views " << general->registers << " registers per thread, spills ";
      printSpills(*general);
      os << '\n';
    }
    for (const std::string &place : kernel.unchecked)
      os << "  unchecked       synchronization at " << place << '\n';
    for (const RoleReport &role : kernel.roles) {
      os << "  role " << role.name << ": " << role.warps << (role.warps == 1 ? " warp" : " warps");
      if (role.registers)
        os << ", " << role.registers << " registers per thread";
      os << '\n';
    }
    for (const RingReport &ring : kernel.rings)
      os << "  ring of " << ring.stages << " x " << ring.slot << ", " << ring.bytes << " bytes\n";
    for (const LoopReport &loop : kernel.loops) {
      std::string indent(2 * loop.depth, ' ');
      os << "  " << indent;
      if (loop.place.empty()) {
        os << "outside of loops";
      } else {
        os << "loop at " << loop.place;
        if (!loop.role.empty())
          os << " in role " << loop.role;
        if (!loop.skeleton.empty())
          os << ", " << loop.skeleton << ", stages " << loop.stages;
        if (!loop.notPipelined.empty())
          os << ", not pipelined: " << loop.notPipelined;
      }
      os << "\n    " << indent << "matrix instructions  ";
      printCounts(os, loop.matrixInstructions);
      os << "\n    " << indent << "waits                ";
      printCounts(os, loop.waits);
      os << "\n    " << indent << "bank conflicts       ";
      printTraffic(os, loop.shared);
      os << '\n';
    }
  }
}

void tilewright::printWorkspaces(llvm::raw_ostream &os, ModuleOp module) {
  for (auto program : module.getOps<tile::ProgramOp>()) {
    os << "program " << program.getSymName() << '\n';
    auto workspaces = program.getBody().getOps<tile::WorkspaceOp>();
    if (workspaces.empty())
      os << "  workspace       none\n";
    for (tile::WorkspaceOp workspace : workspaces) {
      Type element = tile::getElementType(workspace.getType());
      os << "  workspace       ";
      for (auto extent : workspace.getExtents().getAsRange<tile::ExprAttr>())
        os << tile::toString(extent) << " x ";
      os << element.getIntOrFloatBitWidth() / 8 << " bytes\n";
    }
  }
}

void tilewright::reportOn(ModuleOp module, const GpuOptions &options, llvm::raw_ostream &os,
                          ReportLength length) {
  std::vector<KernelReport> kernels = describeKernels(module);
  std::vector<KernelResources> resources;
  if (!findAssembler().empty()) {
    OwningOpRef<ModuleOp> copy = module.clone();
    llvm::Expected<std::string> cubin = compileForGpu(*copy, GpuForm::Cubin, options, &resources);
    if (!cubin)
      os << "no resources: " << llvm::toString(cubin.takeError()) << '\n';
  }
  if (length == ReportLength::Summary)
    return printSummary(os, kernels, resources);
  printWorkspaces(os, module);
  printReport(os, kernels, resources);
}
