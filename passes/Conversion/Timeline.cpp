// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Events are the operations that a schedule arranges: waits, copies, products, stores, iterations
// of loops. Between two events is work on tiles in registers, which needs no event.

#include "passes/Conversion/Timeline.h"

#include "base/Abi/TimelineFormat.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The name of an argument of the kernel, possibly through a tensor map; else empty.
static std::string nameOfView(Value view) {
  if (auto map = view.getDefiningOp<TensorMapOp>())
    view = map.getView();
  while (auto repeat = view.getDefiningOp<tile::RepeatOp>())
    view = repeat.getSource();
  if (auto captured = view.getDefiningOp<tile::CapturedOp>())
    return captured.getCapture().str();
  auto argument = dyn_cast<BlockArgument>(view);
  auto kernel = argument ? dyn_cast<KernelOp>(argument.getOwner()->getParentOp()) : KernelOp();
  if (!kernel || argument.getArgNumber() >= kernel.getNumArgs())
    return "";
  return cast<StringAttr>(kernel.getArgNames()[argument.getArgNumber()]).str();
}

/// The data of copies that complete these barriers.
static std::string namesOfCopies(Value barriers) {
  std::string names;
  auto add = [&](Value view) {
    std::string name = nameOfView(view);
    if (!name.empty() && names.find(name) == std::string::npos)
      names += (names.empty() ? "" : ", ") + name;
  };
  auto users = llvm::to_vector(barriers.getUsers()); // last first
  for (Operation *user : llvm::reverse(users))
    if (auto load = dyn_cast<TmaLoadOp>(user))
      add(load.getMap());
    else if (auto load = dyn_cast<BulkLoadOp>(user))
      add(load.getView());
  return names;
}

/// The data that is copied after the barrier has been acquired.
static std::string nameOfNextCopy(Operation *op) {
  while ((op = op->getNextNode())) {
    if (auto load = dyn_cast<TmaLoadOp>(op))
      return nameOfView(load.getMap());
    if (auto load = dyn_cast<BulkLoadOp>(op))
      return nameOfView(load.getView());
    if (isa<AcquireOp>(op))
      break;
  }
  return "";
}

static std::string shapeOf(Type result, Type a, bool transposed) {
  auto tile = cast<RankedTensorType>(result);
  ArrayRef<int64_t> operand;
  if (auto shared = dyn_cast<SharedType>(a))
    operand = shared.getShape();
  else
    operand = cast<RankedTensorType>(a).getShape();
  int64_t depth = operand[transposed ? 0 : 1];
  return (Twine(tile.getShape()[0]) + "x" + Twine(tile.getShape()[1]) + "x" + Twine(depth)).str();
}

/// FILE:LINE of the first known location.
static std::string lineOf(Location location) {
  std::string line;
  location->walk([&](Location inner) {
    auto file = dyn_cast<FileLineColLoc>(inner);
    if (!file)
      return WalkResult::advance();
    line = (llvm::sys::path::filename(file.getFilename().getValue()) + ":" + Twine(file.getLine()))
               .str();
    return WalkResult::interrupt();
  });
  return line;
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// The event, without location and order; nothing if the operation is not an event. Loops are
/// identified by their contents.
static std::optional<TimelineEvent> makeEvent(Operation *op) {
  auto event = [](StringRef kind, const Twine &name, const std::string &what = "") {
    TimelineEvent made;
    made.kind = kind.str();
    made.name = (what.empty() ? name : name + " " + what).str();
    return made;
  };
  return llvm::TypeSwitch<Operation *, std::optional<TimelineEvent>>(op)
      .Case([&](WaitOp op) { return event("wait", "wait", namesOfCopies(op.getBarriers())); })
      .Case([&](AcquireOp op) { return event("wait", "acquire", nameOfNextCopy(op)); })
      .Case([&](CopyWaitOp) { return event("wait", "copy_wait"); })
      .Case([&](BulkWaitOp) { return event("wait", "bulk_wait"); })
      .Case([&](SyncOp) { return event("wait", "sync"); })
      .Case([&](TakeTurnOp) { return event("wait", "take_turn"); })
      .Case([&](AwaitTurnOp op) { return event("wait", "await_turn", nameOfView(op.getTurns())); })
      .Case([&](WgmmaWaitOp op) {
        TimelineEvent made = event("wait", "wgmma_wait");
        made.pending = static_cast<int64_t>(op.getPending());
        return made;
      })
      .Case([&](TmaLoadOp op) { return event("copy", "tma_load", nameOfView(op.getMap())); })
      .Case([&](BulkLoadOp op) { return event("copy", "bulk_load", nameOfView(op.getView())); })
      .Case([&](CopyAsyncOp op) { return event("copy", "copy_async", nameOfView(op.getView())); })
      .Case([&](LoadOp op) { return event("copy", "load", nameOfView(op.getView())); })
      .Case([&](WgmmaOp op) {
        TimelineEvent made = event("product", "wgmma",
                                   shapeOf(cast<PendingType>(op.getResult().getType()).getTile(),
                                           op.getA().getType(), op.getTransposeA()));
        for (Operation *next = op->getNextNode(); next && !isa<WgmmaOp>(next);
             next = next->getNextNode())
          made.commits |= isa<WgmmaCommitOp>(next);
        return made;
      })
      .Case([&](MmaOp op) {
        return event("product", "mma", shapeOf(op.getAcc().getType(), op.getA().getType(), false));
      })
      .Case([&](FmaDotOp) { return event("product", "fma_dot"); })
      .Case([&](TmaStoreOp op) { return event("store", "tma_store", nameOfView(op.getMap())); })
      .Case([&](TmaReduceAddOp op) {
        return event("store", "tma_reduce_add", nameOfView(op.getMap()));
      })
      .Case([&](StoreOp op) { return event("store", "store", nameOfView(op.getView())); })
      .Case([&](AtomicAddOp op) { return event("store", "atomic_add", nameOfView(op.getView())); })
      .Case([&](WriteSharedOp) { return event("shared", "write"); })
      .Default([](Operation *) { return std::nullopt; });
}

/// Whether it takes negligible time: scalars, and operations that only signal others.
static bool isShort(Operation *op) {
  if (isa<SlotOp, ExpectOp, ArriveOp, SignalOp, PassTurnOp, WgmmaCommitOp, BulkCommitOp,
          CopyCommitOp, FenceAsyncOp>(op))
    return true;
  return op->getNumRegions() == 0 && isMemoryEffectFree(op) &&
         llvm::none_of(op->getResultTypes(),
                       [](Type type) { return isa<RankedTensorType, PendingType>(type); });
}

/// An event that always follows immediately also marks the end of this one.
static bool marksEnd(Operation *op, const Timeline &timeline) {
  for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
    if (next->hasTrait<OpTrait::IsTerminator>())
      return !isa<scf::ForOp>(op->getParentOp()); // end of an iteration
    if (timeline.numbers.contains(next) && !isa<scf::ForOp>(next))
      return false;
    if (!isShort(next))
      return true;
  }
  return true;
}

std::optional<Timeline> tgpu::getTimeline(KernelOp kernel) {
  auto words = timelineAttr.get(kernel);
  if (!words)
    return std::nullopt;
  Timeline timeline;
  timeline.words = words.getInt();
  SmallVector<Operation *> operations;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto roles = dyn_cast<RolesOp>(op))
      for (auto name : roles.getNames().getAsRange<StringAttr>())
        timeline.roles.push_back(name.str());
    std::optional<TimelineEvent> event = makeEvent(op);
    if (isa<scf::ForOp>(op)) {
      WalkResult holdsEvent = op->walk([&](Operation *inner) {
        return makeEvent(inner) ? WalkResult::interrupt() : WalkResult::advance();
      });
      if (holdsEvent.wasInterrupted()) {
        event.emplace();
        event->kind = "loop";
        event->name = "round";
      }
    }
    if (!event)
      return;
    event->line = lineOf(op->getLoc());
    timeline.numbers[op] = static_cast<unsigned>(timeline.events.size());
    timeline.events.push_back(std::move(*event));
    operations.push_back(op);
  });
  if (timeline.roles.empty())
    timeline.roles.push_back("block");

  // A hash of all data of the table that a reader uses, so that no other table can be used to read
  // it.
  StringRef name = kernel.getSymName();
  name.consume_back(".tgpu"); // suffix during code generation
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << name << ' ' << kernel.getTarget() << ' ' << kernel.getBindingsAttr() << '\n';
  for (auto [op, event] : llvm::zip_equal(operations, timeline.events)) {
    event.marksEnd = event.kind == "loop" || marksEnd(op, timeline);
    stream << event.kind << ' ' << event.name << ' ' << event.line << ' ' << event.pending << ' '
           << event.commits << '\n';
  }
  timeline.tag =
      static_cast<uint32_t>(llvm::xxh3_64bits(text)) | 1; // not 0, the initial value of the memory
  return timeline;
}

//===----------------------------------------------------------------------===//
// The argument
//===----------------------------------------------------------------------===//

template <typename OpTy> static FailureOr<Value> appendArgument(OpTy op) {
  MLIRContext *context = op.getContext();
  auto name = StringAttr::get(context, timeline::argumentName);
  if (llvm::is_contained(op.getArgNames(), name))
    return op.emitOpError() << "has an argument '" << name.getValue()
                            << "', the name of the argument that a timeline adds; rename it";
  unsigned position = op.getNumArgs();
  SmallVector<Attribute> names(op.getArgNames().getValue());
  names.push_back(name);
  SmallVector<bool> optional(op.getArgOptional());
  optional.push_back(true);
  op.setArgNamesAttr(ArrayAttr::get(context, names));
  op.setArgOptionalAttr(DenseBoolArrayAttr::get(context, optional));
  auto type = tile::ViewType::get(context, {ShapedType::kDynamic}, {StringAttr()},
                                  IntegerType::get(context, 64));
  return Value(op.getBody().front().insertArgument(position, type, op.getLoc()));
}

LogicalResult tgpu::addTimeline(ModuleOp module, int64_t words) {
  llvm::DenseSet<StringAttr> added;
  for (auto kernel : module.getOps<KernelOp>()) {
    if (timelineAttr.isOn(kernel))
      continue;
    if (failed(appendArgument(kernel)))
      return failure();
    timelineAttr.set(kernel, words);
    if (getTimeline(kernel)->events.size() > timeline::maxEvents)
      return kernel.emitOpError()
             << "has more than the " << timeline::maxEvents
             << " operations that a timeline can distinguish; use smaller blocks";
    added.insert(kernel.getSymNameAttr());
  }
  for (auto program : module.getOps<tile::ProgramOp>()) {
    Value argument;
    for (auto launch : program.getOps<tile::LaunchOp>()) {
      if (!added.contains(launch.getKernelAttr().getAttr()))
        continue;
      if (!argument) {
        FailureOr<Value> made = appendArgument(program);
        if (failed(made))
          return failure();
        argument = *made;
      }
      launch.getArgsMutable().append(argument);
    }
  }
  return success();
}
