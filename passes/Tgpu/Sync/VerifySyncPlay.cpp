// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: which launches of a kernel are executed. The first ones are chosen for all
// kernels. Others are derived until loops and branches are executed in no new way; of these, only
// traces that show something new are executed, since most launches repeat what others have shown.

#include "passes/Tgpu/Sync/VerifySync.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

namespace {

using Integers = Launch::Integers;
using Relation = Launch::Relation;
constexpr Launch kLaunches[] = {
    {/*answer=*/true, /*hasPartialTiles=*/true, Integers::Small, Relation::More},
    {/*answer=*/false, /*hasPartialTiles=*/false, Integers::Small, Relation::Equal},
    {/*answer=*/true, /*hasPartialTiles=*/false, Integers::Small, Relation::Less},
    {/*answer=*/true, /*hasPartialTiles=*/true, Integers::Large, Relation::More},
    {/*answer=*/true, /*hasPartialTiles=*/false, Integers::Large, Relation::Less},
    {/*answer=*/true, /*hasPartialTiles=*/true, Integers::Window, Relation::More},
    {/*answer=*/false, /*hasPartialTiles=*/true, Integers::Window, Relation::Equal},
    {/*answer=*/true, /*hasPartialTiles=*/true, Integers::Small, Relation::More,
     /*hasOptional=*/false},
};
/// No further blocks of a kernel are executed after this many operations.
constexpr int64_t kEnoughOperations = 320000;
/// Limits of the search for launches: launches; operations of one block, and of all; launches in
/// succession that show nothing new, and this number while a synchronization was not executed, or
/// one next to a product not twice.
constexpr int64_t kMostDerived = 60000, kMostOperationsOfDerived = 20000;
constexpr int64_t kMostDerivedOperations = 8000000;
constexpr int64_t kFewStale = 60, kSomeStale = 300, kMostStale = 20000;
/// Short launches are cheap: the search does not end before it visited so many operations since it
/// found something new.
constexpr int64_t kFewOperations = 60000;
constexpr int64_t kOperationsOfDerivation = 200; // takes about as long
constexpr size_t kRecent = 8;                    // of the launches that showed something new
/// Limits of the attempts for what no launch reaches: values of a bound or condition that are
/// forced, and operations.
constexpr size_t kMostForced = 12;
constexpr int64_t kMostForcedOperations = 2000000;
/// A launch in which some warpgroups have no rows, and the maximum number of its blocks.
constexpr Launch kFewRows = {/*answer=*/true,      /*hasPartialTiles=*/true,
                             Integers::Small,      Relation::Equal,
                             /*hasOptional=*/true, /*hasFewRows=*/true};
constexpr int64_t kMostBlocksOfFewRows = 64;

/// Identifies identical traces, which are executed once.
llvm::hash_code hash(const Trace &trace) {
  llvm::hash_code code(0);
  for (const Participant &participant : trace.participants) {
    code = llvm::hash_combine(code, participant.steps.size());
    for (const Step &step : participant.steps) {
      code = llvm::hash_combine(code, step.op, step.use, step.buffer, step.operandA);
      for (int64_t product : step.products)
        code = llvm::hash_combine(code, product);
    }
  }
  return code;
}

/// Executes the launches of one kernel.
class Verification {
public:
  Verification(KernelOp kernel, Coverage &coverage, Cut &cut)
      : kernel(kernel), coverage(coverage), cut(cut), slice(kernel) {
    hasParts = kernel.walk([](FirstRoundOp) { return WalkResult::interrupt(); }).wasInterrupted();
    // Roles that vote on the same tile have the same answer.
    llvm::SmallDenseSet<Region *> voters;
    kernel.walk([&](AnyOp any) {
      Region *region = any->getParentRegion();
      while (!isa<KernelOp, RolesOp>(region->getParentOp()))
        region = region->getParentRegion();
      voters.insert(region);
    });
    votesInOneRole = voters.size() <= 1;
  }

  LogicalResult run() {
    if (failed(playChosen()) || failed(playFewRows()) || failed(search()))
      return failure();
    for (UncheckedSync unchecked : coverage.findUnreached())
      if (unchecked.isBesideProduct && !cut)
        force(unchecked.op);
    return success();
  }

private:
  /// A launch chosen for all kernels, and its blocks.
  struct Play {
    bool answer;
    LaunchShape shape;
    std::vector<SmallVector<int64_t>> blocks;
  };

  LogicalResult playChosen() {
    size_t mostBlocks = 0;
    bool takesNumbers = !findNumbers(kernel).empty();
    for (int64_t number : {0, 1})
      for (Launch launch : kLaunches) {
        launch.number = number;
        // Without numbers or integer arguments some launches are identical.
        if (number != 0 && !takesNumbers)
          continue;
        if (launch.integers != Integers::Small && !takesIntegers(kernel))
          continue;
        if (!launch.hasOptional && !takesOptional(kernel))
          continue;
        LaunchShape shape(kernel, launch);
        plays.push_back({launch.answer, shape, shape.getBlocks()});
        mostBlocks = std::max(mostBlocks, plays.back().blocks.size());
      }
    // One block of each launch first, then a second block of each, and so on.
    for (size_t i = 0; i < mostBlocks && numVisited < kEnoughOperations; ++i)
      for (const Play &play : plays)
        if (i < play.blocks.size() &&
            failed(playBlock(play.shape, play.blocks[i], Answers::all(play.answer),
                             /*onlyNewWays=*/false)))
          return failure();
    return success();
  }

  LogicalResult playFewRows() {
    if (!hasParts)
      return success();
    LaunchShape few(kernel, kFewRows);
    int64_t blocks = 1;
    for (int64_t extent : few.getGrid())
      blocks = std::min(blocks * extent, kMostBlocksOfFewRows);
    for (int64_t block = 0; block < blocks; ++block) {
      SmallVector<int64_t> ids;
      int64_t rest = block;
      for (int64_t extent : few.getGrid()) {
        ids.push_back(rest % extent);
        rest /= extent;
      }
      if (failed(playParts(few, ids, Answers::all(kFewRows.answer))))
        return failure();
    }
    return success();
  }

  /// Derives launches until loops and branches are executed in no new way.
  LogicalResult search() {
    if (!coverage.hasSynchronization())
      return success();
    LaunchSpace space(kernel);
    std::vector<LaunchSpace::Genes> useful;
    uint32_t state = 1;
    auto draw = [&] { // xorshift
      state ^= state << 13;
      state ^= state >> 17;
      state ^= state << 5;
      return state;
    };
    int64_t stale = 0, begin = numVisited, visitedAtNew = numVisited;
    for (int64_t i = 0; i < kMostDerived; ++i) {
      int64_t most = !coverage.hasProductsTwice() ? kMostStale
                     : coverage.hasAll()          ? kFewStale
                                                  : kSomeStale;
      bool isStale = stale >= most && numVisited - visitedAtNew >= kFewOperations;
      if (isStale || numVisited - begin > kMostDerivedOperations || cut)
        break;
      LaunchSpace::Genes genes(space.getNumGenes());
      if (useful.empty() || draw() % 3 == 0) {
        for (uint32_t &gene : genes)
          gene = draw() >> 8;
      } else {
        // Often one of the last: what it showed that others did not may be a step towards more.
        size_t among = draw() % 2 ? useful.size() : std::min(useful.size(), kRecent);
        genes = useful[useful.size() - 1 - draw() % among];
        for (uint32_t n = draw() % 3 + 1; n != 0; --n)
          genes[draw() % genes.size()] = draw() >> 8;
      }
      std::unique_ptr<LaunchSpace::Derived> launch = space.derive(genes);
      numVisited += kOperationsOfDerivation;
      if (!launch)
        continue;
      ++stale;
      if (!votesInOneRole)
        launch->answers = Answers::all(launch->answers.onData);
      for (ArrayRef<int64_t> block : launch->blocks) {
        int64_t before = numNew;
        if (failed(playBlock(*launch, block, launch->answers, /*onlyNewWays=*/true)))
          return failure();
        if (numNew == before)
          continue;
        stale = 0;
        visitedAtNew = numVisited;
        useful.push_back(genes);
      }
    }
    return success();
  }

  //===--- What no launch reaches --------------------------------------------===//

  /// The integers on which the innermost loop or branch around the operation that was not entered
  /// depends, the nearest first.
  SmallVector<Operation *> findDeciding(Operation *op) const {
    Operation *parent = op->getParentOp();
    SmallVector<Value> worklist;
    if (auto loop = dyn_cast<scf::ForOp>(parent))
      worklist = {loop.getUpperBound(), loop.getLowerBound()};
    else if (auto branch = dyn_cast<scf::IfOp>(parent)) {
      worklist = {branch.getCondition()};
      // A branch on whether an iteration of a tile is the first: the others may be in another part.
      if (auto loop = dyn_cast<scf::ForOp>(branch->getParentOp()))
        worklist.append({loop.getUpperBound(), loop.getLowerBound()});
    }
    SmallVector<Operation *> found;
    for (size_t next = 0; next < worklist.size() && found.size() < kMostForced; ++next) {
      Operation *source = worklist[next].getDefiningOp();
      if (!source || source->getNumOperands() == 0 || source->getNumRegions() != 0 ||
          llvm::is_contained(found, source) ||
          !llvm::all_of(source->getResultTypes(), [](Type type) { return type.isIntOrIndex(); }))
        continue;
      found.push_back(source);
      llvm::append_range(worklist, source->getOperands());
    }
    return found;
  }

  /// Some parts of loops are entered in no launch: the masked blocks before the full ones, if at
  /// most the first block of the loop can be one, are not more than that block. Such a part is
  /// tried in a launch in which one integer is forced, so that it takes iterations from the next
  /// part. A launch of this kind may be impossible, so an error in it is not reported; what it
  /// executes without one is checked.
  void force(Operation *op) {
    if (coverage.isReached(op))
      return;
    int64_t begin = numVisited;
    SmallVector<Operation *> all = findDeciding(op);
    for (const Play &play : plays)
      for (ArrayRef<int64_t> block : play.blocks)
        for (Operation *deciding : all)
          for (int64_t by : {1, -1, 2, -2}) {
            if (numVisited - begin > kMostForcedOperations)
              return;
            if (forceInBlock(op, play, block, deciding, by))
              return;
          }
  }

  bool forceInBlock(Operation *op, const Play &play, ArrayRef<int64_t> block, Operation *deciding,
                    int64_t by) {
    TraceOptions options;
    options.mostOperations = kMostOperationsOfDerived;
    options.forced = deciding;
    options.raisedBy = by;
    Trace trace = traceKernel(kernel, slice, play.shape, block, Answers::all(play.answer), options);
    numVisited += trace.numVisited;
    bool isReached = llvm::any_of(trace.participants, [&](const Participant &participant) {
      return llvm::any_of(participant.steps, [&](const Step &step) { return step.op == op; });
    });
    if (trace.cut || !isReached)
      return false;
    // Other threads may use the context.
    ScopedDiagnosticHandler silent(kernel.getContext(), [own = llvm::get_threadid()](Diagnostic &) {
      return success(llvm::get_threadid() == own);
    });
    if (failed(playTrace(trace)))
      return false;
    coverage.addReached(trace);
    return true;
  }

  LogicalResult playBlock(const LaunchData &launch, ArrayRef<int64_t> block, Answers answers,
                          bool onlyNewWays) {
    TraceOptions options;
    options.coverage = &coverage;
    if (onlyNewWays)
      options.mostOperations = kMostOperationsOfDerived;
    Trace trace = traceKernel(kernel, slice, launch, block, answers, options);
    numVisited += trace.numVisited;
    if (trace.cut && !(onlyNewWays && trace.cut.isLength) && !cut)
      cut = trace.cut;
    if (onlyNewWays && trace.cut)
      return success();
    bool isNew = coverage.add(trace);
    if (onlyNewWays && !isNew)
      return success();
    ++numNew;
    if (played.insert(hash(trace)).second && failed(playTrace(trace)))
      return failure();
    return hasParts ? playParts(launch, block, answers) : success();
  }

  /// Executes one block with its warpgroups as separate participants.
  LogicalResult playParts(const LaunchData &launch, ArrayRef<int64_t> block, Answers answers) {
    TraceOptions options;
    options.apart = true;
    Trace parts = traceKernel(kernel, slice, launch, block, answers, options);
    numVisited += parts.numVisited;
    coverage.addReached(parts);
    return played.insert(hash(parts)).second ? playWarpgroups(parts) : success();
  }

  LogicalResult playTrace(const Trace &trace) {
    bool flies = false;
    for (const Participant &participant : trace.participants)
      for (const Step &step : participant.steps)
        flies |= isa<TmaLoadOp, BulkLoadOp>(step.op);
    if (failed(Player(kernel, trace, /*deliversEarly=*/false).play()))
      return failure();
    return flies ? Player(kernel, trace, /*deliversEarly=*/true).play() : success();
  }

  KernelOp kernel;
  Coverage &coverage;
  Cut &cut;
  Slice slice;
  std::vector<Play> plays;
  bool hasParts, votesInOneRole;
  int64_t numVisited = 0, numNew = 0;
  llvm::DenseSet<size_t> played;
};

} // namespace

LogicalResult sync::verifyLaunches(KernelOp kernel, Coverage &coverage, Cut &cut) {
  return Verification(kernel, coverage, cut).run();
}

SmallVector<UncheckedSync> tgpu::findUncheckedSync(KernelOp kernel) {
  Coverage coverage(kernel);
  Cut cut;
  if (failed(verifyLaunches(kernel, coverage, cut)))
    return {};
  return coverage.findUnreached();
}
