// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: traces the steps of each participant in one small launch.

#include "passes/Tgpu/Sync/VerifySync.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

namespace {

constexpr int kMaxCallDepth = 32;

bool takesAll(TakeTileOp op) { return op.getAll(); }
bool takesAll(GetTileOp) { return false; }

class Tracer : Scalars {
public:
  Tracer(KernelOp kernel, const Slice &slice, const LaunchData &launch, Answers answers,
         const TraceOptions &options)
      : Scalars(slice, launch, answers), kernel(kernel), options(options), apart(options.apart),
        coverage(options.coverage) {}

  Trace run(ArrayRef<int64_t> ids) {
    for (Value argument : kernel.getArgs())
      if (isa<IntegerType>(argument.getType()))
        set(argument, launch.getInteger(argument));
    assign(kernel.getGridIds(), ids);
    Participant block{"the block", static_cast<int64_t>(kernel.getWarps()), {}};
    auto flush = [&] {
      if (block.steps.empty())
        return;
      trace.phases.push_back({static_cast<int>(trace.participants.size())});
      trace.participants.push_back(std::move(block));
      block.steps.clear();
    };
    LoopBefore before;
    for (const SlicedOp &next : slice.getOps(kernel.getBody().front())) {
      Operation &op = *next.op;
      auto roles = dyn_cast<RolesOp>(op);
      if (!roles) {
        visit(next, block.steps, before);
        continue;
      }
      flush();
      // A role receives values only after the publishing role has been traced.
      auto publishes = [](Region &body) {
        return body.walk([](PublishOp) { return WalkResult::interrupt(); }).wasInterrupted();
      };
      SmallVector<int> phase;
      for (auto [name, warps, body] :
           llvm::zip_equal(roles.getNames(), roles.getWarps(), roles.getBodies())) {
        int64_t parts = apart ? countParts(body) : 1;
        for (int64_t part = 0; part < parts; ++part) {
          std::string text = "role \"" + cast<StringAttr>(name).str() + "\"";
          if (parts > 1)
            text += ", warpgroup " + std::to_string(part);
          phase.push_back(trace.participants.size());
          trace.participants.push_back({std::move(text), warps / parts, {}, part});
          regions.push_back(&body);
        }
      }
      for (bool first : {true, false})
        for (auto [index, body] : llvm::zip_equal(phase, regions))
          if (publishes(*body) == first) {
            part = trace.participants[index].warpgroup;
            visit(body->front(), trace.participants[index].steps);
          }
      regions.clear();
      trace.phases.push_back(phase);
    }
    flush();
    findOverlaps();
    return std::move(trace);
  }

private:
  /// The number of a role's warpgroups with first iterations of their own, otherwise 1.
  static int64_t countParts(Region &role) {
    int64_t parts = 1;
    role.walk([&](FirstRoundOp first) { parts = static_cast<int64_t>(first.getOwn().size()); });
    return parts;
  }

  std::pair<Operation *, int64_t> getUseOf(Value buffer) {
    auto slot = buffer.getDefiningOp<SlotOp>();
    if (!slot)
      return {buffer.getDefiningOp(), 0};
    return {slot.getRing().getDefiningOp(), get(slot.getUse())};
  }
  //===--- Control flow ------------------------------------------------------===//

  void cut(Operation &op, const char *reason, bool isLength = false) {
    if (!trace.cut)
      trace.cut = {&op, reason, isLength};
  }

  /// Records that a loop or branch was executed in a way that the numbers describe.
  void noteWay(Operation *op, int64_t a, int64_t b = 0, Operation *before = nullptr) {
    if (coverage)
      trace.ways.push_back(Coverage::getWay(op, a, b, before));
  }

  /// The loop that was executed before in the same block, and the number of its rounds.
  using LoopBefore = std::pair<Operation *, int64_t>;

  void visit(const SlicedOp &next, std::vector<Step> &steps, LoopBefore &before) {
    if (next.kind != ScalarKind::Other) {
      ++trace.numVisited;
      compute(next);
      if (next.op == options.forced)
        raise(next, options.raisedBy);
      return;
    }
    rounds = -1;
    visit(next, steps);
    if (rounds < 0 || !coverage || !coverage->counts(next.op))
      return;
    int64_t number = std::min(rounds, Coverage::kMostRounds);
    if (coverage->votes(next.op))
      number += (Coverage::kMostRounds + 1) * static_cast<int64_t>(answers.ofVotes);
    noteWay(next.op, number, isLaterRound);
    if (before.first)
      noteWay(next.op, number, before.second, before.first);
    before = {next.op, number};
  }

  /// Returns the values of the terminator's operands.
  SmallVector<int64_t> visit(Block &block, std::vector<Step> &steps) {
    LoopBefore before;
    for (const SlicedOp &next : slice.getOps(block)) {
      if (trace.cut)
        return SmallVector<int64_t>(block.back().getNumOperands(), 0);
      visit(next, steps, before);
    }
    rounds = -1;
    return block.empty() ? SmallVector<int64_t>() : get(block.back().getOperands());
  }

  void visit(const SlicedOp &sliced, std::vector<Step> &steps) {
    Operation &op = *sliced.op;
    if (++trace.numVisited > options.mostOperations)
      cut(op, "its launches execute too many operations", /*isLength=*/true);
    if (trace.cut)
      return;
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return visitFor(loop, steps);
    if (auto condition = dyn_cast<scf::IfOp>(op)) {
      bool takes = get(condition.getCondition()) != 0;
      Region &region = takes ? condition.getThenRegion() : condition.getElseRegion();
      if (coverage && coverage->counts(&op))
        noteWay(&op, takes, isLaterRound);
      if (!region.empty())
        assign(op.getResults(), visit(region.front(), steps));
      return;
    }
    if (auto loop = dyn_cast<scf::WhileOp>(op))
      return visitWhile(loop, steps);
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(&op, call.getCalleeAttr());
      if (!callee || !callee.getBody().hasOneBlock() || callDepth == kMaxCallDepth)
        return cut(op, "calls of functions without a body, or nested more than 32 deep, are not "
                       "followed");
      ++callDepth;
      assign(callee.getArguments(), get(call.getOperands()));
      assign(op.getResults(), visit(callee.getBody().front(), steps));
      --callDepth;
      return;
    }
    bool isUnknown = llvm::any_of(op.getOperands(), [](Value operand) {
      return isa<BarriersType>(operand.getType()) && !operand.getDefiningOp<AllocBarriersOp>();
    });
    if (isUnknown)
      return cut(op, "barriers are followed only from their tgpu.alloc_barriers to an operand");
    if (op.getNumRegions() != 0)
      return cut(op, "of operations with regions, only scf.for, scf.while and scf.if are followed");
    if (isa<TgpuDialect>(op.getDialect()))
      visitTgpu(op, steps);
    else
      compute(op);
  }

  void visitFor(scf::ForOp loop, std::vector<Step> &steps) {
    int64_t end = get(loop.getUpperBound()), step = get(loop.getStep());
    SmallVector<int64_t> carried = get(loop.getInitArgs());
    if (step <= 0)
      return cut(*loop, "steps of loops must be positive");
    int64_t number = 0;
    bool isLater = isLaterRound;
    for (int64_t i = get(loop.getLowerBound()); i < end && !trace.cut; i += step, ++number) {
      isLaterRound = number > 0;
      isOddRound = number % 2 != 0;
      set(loop.getInductionVar(), i);
      assign(loop.getRegionIterArgs(), carried);
      carried = visit(*loop.getBody(), steps);
      noteOverwritten(loop, steps);
    }
    isLaterRound = isLater;
    rounds = number;
    assign(loop.getResults(), carried);
  }

  /// A carried tile keeps its registers in all iterations; the loop's result has the same ones.
  static BlockArgument getCarried(Value tile) {
    if (auto loop = tile.getDefiningOp<scf::ForOp>())
      return loop.getRegionIterArg(cast<OpResult>(tile).getResultNumber());
    auto argument = dyn_cast<BlockArgument>(tile);
    return argument && isa<scf::ForOp>(argument.getOwner()->getParentOp()) ? argument
                                                                           : BlockArgument();
  }

  void noteOverwritten(scf::ForOp loop, std::vector<Step> &steps) {
    for (auto [argument, yielded] :
         llvm::zip_equal(loop.getRegionIterArgs(), loop.getYieldedValues())) {
      auto found = readers.find(argument);
      if (yielded == argument || found == readers.end())
        continue;
      Step step;
      step.op = loop.getBody()->getTerminator();
      step.products = std::move(found->second);
      readers.erase(found);
      steps.push_back(std::move(step));
    }
  }

  void visitWhile(scf::WhileOp loop, std::vector<Step> &steps) {
    SmallVector<int64_t> carried = get(loop.getInits());
    bool isLater = isLaterRound;
    for (int64_t number = 0; !trace.cut; ++number) {
      isLaterRound = number > 0;
      assign(loop.getBeforeArguments(), carried);
      carried = visit(*loop.getBeforeBody(), steps);
      bool goesOn = carried.front() != 0;
      carried.erase(carried.begin());
      if (!goesOn) {
        assign(loop.getResults(), carried);
        rounds = number;
        break;
      }
      assign(loop.getAfterArguments(), carried);
      carried = visit(*loop.getAfterBody(), steps);
    }
    isLaterRound = isLater;
  }

  void visitTgpu(Operation &op, std::vector<Step> &steps) {
    Step step;
    step.op = &op;
    auto at = [&](Value use) { step.use = get(use); };
    auto into = [&](Value buffer) { step.buffer = static_cast<int>(get(buffer)); };
    bool isStep =
        TypeSwitch<Operation *, bool>(&op)
            .Case<AllocOp>([&](AllocOp alloc) {
              auto type = cast<SharedType>(alloc.getBuffer().getType());
              set(alloc.getBuffer(), allocate(alloc, type, 1, alloc.getOffset()));
              return false;
            })
            .Case<AllocRingOp>([&](AllocRingOp alloc) {
              auto type = cast<RingType>(alloc.getRing().getType());
              set(alloc.getRing(),
                  allocate(alloc, type.getSlot(), type.getStages(), alloc.getOffset()));
              return false;
            })
            .Case<SlotOp>([&](SlotOp slot) {
              int64_t stages = cast<RingType>(slot.getRing().getType()).getStages();
              int64_t use = get(slot.getUse());
              set(slot.getBuffer(), get(slot.getRing()) + ((use % stages) + stages) % stages);
              return false;
            })
            .Case<GridExtentOp>([&](GridExtentOp extent) {
              set(extent.getResult(), launch.getGrid()[extent.getDim()]);
              return false;
            })
            .Case<ShareOp>([&](ShareOp share) {
              set(share.getFirst(), get(kernel.getGridIds().front()));
              set(share.getStep(), launch.getGrid().front());
              return false;
            })
            .Case<TakeTileOp, GetTileOp>([&](auto op) {
              // The block takes every n-th tile, where n is the number of blocks.
              int64_t block = get(kernel.getGridIds().front());
              int64_t round =
                  takesAll(op) ? taken[{kernel.getOperation(), 0}]++ : ++taken[{op, part}];
              set(op.getTile(), block + round * launch.getGrid().front());
              if (!op.getBuffer())
                return false;
              into(op.getBuffer());
              return true;
            })
            .Case<PublishOp>([&](PublishOp op) {
              into(op.getBuffer());
              SmallVector<int64_t> &words = published[getUseOf(op.getBuffer())];
              words.clear();
              for (Value value : op.getValues())
                words.push_back(get(value));
              return true;
            })
            .Case<ReceiveOp>([&](ReceiveOp op) {
              into(op.getBuffer());
              ArrayRef<int64_t> words = published[getUseOf(op.getBuffer())];
              if (words.size() < op.getValues().size())
                cut(*op, "nothing was published in its buffer");
              for (auto [i, value] : llvm::enumerate(op.getValues()))
                set(value, i < words.size() ? words[i] : 0);
              return true;
            })
            .Case<AwaitTurnOp, EndTurnOp>([&](auto op) {
              at(op.getNumber());
              step.products.push_back(getPlaceOfView(op.getTurns()));
              ArrayRef<int64_t> fixed = op.getStaticIndices();
              SmallVector<int64_t> indices = get(op.getIndices());
              for (size_t i = 0, next = 0; i < fixed.size(); ++i)
                step.products.push_back(ShapedType::isDynamic(fixed[i]) ? indices[next++]
                                                                        : fixed[i]);
              return true;
            })
            .Case<WaitOp, AcquireOp, ArriveOp, ExpectOp>([&](auto op) {
              at(op.getUse());
              return true;
            })
            .Case<TmaLoadOp, BulkLoadOp>([&](auto op) {
              at(op.getUse());
              into(op.getBuffer());
              return true;
            })
            .Case<ReadOp, WriteSharedOp, CopyAsyncOp, TmaStoreOp, TmaReduceAddOp>([&](auto op) {
              into(op.getBuffer());
              return true;
            })
            .Case<ConvertOp>([&](ConvertOp convert) {
              if (convert.getScratch())
                into(convert.getScratch());
              return static_cast<bool>(convert.getScratch());
            })
            .Case<FmaDotOp>([&](FmaDotOp dot) {
              step.operandA = static_cast<int>(get(dot.getA()));
              into(dot.getB());
              return true;
            })
            .Case<WgmmaOp>([&](WgmmaOp product) {
              if (isa<SharedType>(product.getA().getType()))
                step.operandA = static_cast<int>(get(product.getA()));
              else if (BlockArgument carried = getCarried(product.getA()))
                readers[carried].push_back(numProducts);
              into(product.getB());
              step.products.push_back(numProducts);
              set(product.getResult(), numProducts++);
              return true;
            })
            .Case<WgmmaWaitOp>([&](WgmmaWaitOp wait) {
              for (Value tile : wait.getTiles())
                step.products.push_back(get(tile));
              return true;
            })
            .Case<AnyOp>([&](AnyOp any) {
              bool isTrue = answers.ofVotes == Answers::Votes::True ||
                            (answers.ofVotes == Answers::Votes::Mixed && isOddRound);
              set(any.getResult(), isTrue ? -1 : 0);
              return true;
            })
            .Case<FirstRoundOp>([&](FirstRoundOp first) {
              SmallVector<int64_t> own = get(first.getOwn());
              set(first.getFirst(), apart ? own[part] : *llvm::min_element(own));
              return false;
            })
            .Case<CopyCommitOp, CopyWaitOp, BulkCommitOp, BulkWaitOp, WgmmaCommitOp, SyncOp,
                  SignalOp, TakeTurnOp, PassTurnOp, FenceAsyncOp>([](auto) { return true; })
            .Default([](Operation *) { return false; });
    if (isStep)
      steps.push_back(std::move(step));
  }

  /// A unique number for a view.
  int64_t getPlaceOfView(Value view) {
    return views.try_emplace(view, static_cast<int64_t>(views.size())).first->second;
  }

  int64_t allocate(Operation *op, SharedType type, int64_t stages, std::optional<uint64_t> offset) {
    auto [found, isNew] = firstPlaces.try_emplace(op, trace.places.size());
    if (!isNew)
      return found->second;
    int64_t pitch = llvm::alignTo(getBytes(type), getAlignment(type));
    for (int64_t slot = 0; slot < stages; ++slot) {
      sync::Place place;
      place.allocation = op;
      place.slot = slot;
      if (offset) {
        place.begin = static_cast<int64_t>(*offset) + slot * pitch;
        place.end = place.begin + getBytes(type);
      }
      trace.places.push_back(place);
    }
    return found->second;
  }

  void findOverlaps() {
    for (auto [i, place] : llvm::enumerate(trace.places))
      for (auto [j, other] : llvm::enumerate(trace.places))
        if (i == j || (place.begin < other.end && other.begin < place.end))
          place.overlapping.push_back(static_cast<int>(j));
  }

  KernelOp kernel;
  const TraceOptions &options;
  bool apart;
  const Coverage *coverage;
  int64_t rounds = -1;       ///< of the loop that was just traced, or -1
  bool isLaterRound = false; ///< of the enclosing loop
  bool isOddRound = true;    ///< of the loop that was entered last
  int64_t part = 0;          ///< the traced warpgroup, if warpgroups are participants
  SmallVector<Region *> regions;
  Trace trace;
  int64_t numProducts = 0;
  int callDepth = 0;
  DenseMap<Operation *, int64_t> firstPlaces;
  DenseMap<std::pair<Operation *, int64_t>, int64_t> taken; ///< number of tiles by warpgroup
  DenseMap<Value, int64_t> views; ///< numbers of the views of turns among blocks
  /// The words that roles have published, by buffer or ring and its use.
  std::map<std::pair<Operation *, int64_t>, SmallVector<int64_t>> published;
  /// Products whose operand a is a carried value.
  DenseMap<Value, SmallVector<int64_t, 1>> readers;
};

} // namespace

Trace sync::traceKernel(KernelOp kernel, const Slice &slice, const LaunchData &launch,
                        ArrayRef<int64_t> block, Answers answers, const TraceOptions &options) {
  return Tracer(kernel, slice, launch, answers, options).run(block);
}
