// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Clock samples of kernels with a timeline; base/Abi/TimelineFormat.h defines the format. Each role
// begins by claiming a chunk for every warpgroup, whose first thread writes.
//
// All threads execute the same few predicated instructions: a branch would end the basic block that
// ptxas schedules. The state is one 32-bit register: the offset of the next record in the buffer. A
// multiple of the chunk size marks a full chunk; 0 means that no chunk was allocated. In the IR the
// state is a variable on the stack, which becomes a register (lib/Codegen/Ptx.cpp): that needs no
// values carried through loops.

#include "passes/Conversion/TimelineWriter.h"

#include "base/Abi/TimelineFormat.h"
#include "passes/Conversion/GlobalAccess.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
namespace format = tilewright::timeline;

static std::string text(int64_t number) { return std::to_string(number); }

void TimelineWriter::begin(KernelEmitter &e) {
  ThreadBuilder &b = e.b;
  timeline = getTimeline(e.kernel);
  if (!timeline)
    return;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&e.func.getBody().front());
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value one = LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr(1));
  state = LLVM::AllocaOp::create(b, pointer, b.getI32Type(), one);

  b.setInsertionPoint(b.threads.endOfEntry);
  Value argument;
  for (auto [name, value] : llvm::zip(e.kernel.getArgNames(), e.kernel.getArgs()))
    if (cast<StringAttr>(name).getValue() == format::argumentName)
      argument = value;
  View view = getView(e, argument);
  buffer = view.base;
  // Chunk 0 is the header of the buffer, and an offset has 32 bits. An absent view has no words.
  int64_t bytes = timeline->words * format::wordBytes;
  Value chunks = arith::DivUIOp::create(b, view.extents[0], b.i32(timeline->words));
  chunks = arith::MinUIOp::create(b, chunks, b.i32((int64_t(1) << 32) / bytes - 1));
  chunks = arith::SubIOp::create(b, arith::MaxUIOp::create(b, chunks, b.i32(1)), b.i32(1));
  Value isDense = b.equal(view.strides[0], b.i64(1));
  this->chunks = arith::SelectOp::create(b, isDense, chunks, b.i32(0));
}

void TimelineWriter::open(ThreadBuilder &b, int64_t roleNumber) {
  if (!timeline)
    return;
  Value group = arith::ShRUIOp::create(b, b.threads.thread, b.i32(7));
  Value first = b.equal(arith::AndIOp::create(b, b.threads.thread, b.i32(127)), b.i32(0));
  Value writes = arith::ExtUIOp::create(b, b.getI32Type(), first);
  Value slot = arith::OrIOp::create(b, group, b.i32(roleNumber << 16));
  int64_t bytes = timeline->words * format::wordBytes;
  auto at = [](int64_t offset) { return "[a+" + text(offset) + "], "; };
  std::string code =
      "{ .reg .pred p; .reg .b32 i; .reg .b64 a, t; setp.ne.u32 p, $1, 0; "
      "setp.ne.and.u32 p, $2, 0, p; mov.b32 i, 0; @p atom.global.add.u32 i, [$3], 1; "
      "setp.lt.and.u32 p, i, $2, p; mov.b32 $0, 0; @p mad.lo.u32 $0, i, " +
      text(bytes) + ", " + text(bytes) + "; cvt.u64.u32 a, $0; add.s64 a, a, $3; mov.b32 i, " +
      text(static_cast<int32_t>(timeline->tag)) + "; @p st.global.b32 " + at(format::atTag) +
      "i; @p st.global.b32 " + at(format::atSlot) + "$4; mov.u32 i, %ctaid.x; @p st.global.b32 " +
      at(format::atBlock) + "i; mov.u32 i, %smid; @p st.global.b32 " + at(format::atProcessor) +
      "i; mov.u64 t, %globaltimer; @p st.global.b64 " + at(format::atBegin) +
      "t; mov.u64 t, %clock64; @p st.global.b64 " + at(format::atBegin + 8) +
      "t; @p add.u32 $0, $0, " + text(format::headerBytes) + "; }";
  Value now = b.inlineAsm(code, "=&r,r,r,l,r,~{memory}", b.getI32Type(),
                          {writes, this->chunks, buffer, slot});
  LLVM::StoreOp::create(b, now, state);
}

void TimelineWriter::close(ThreadBuilder &b) {
  if (!timeline)
    return;
  int64_t bytes = timeline->words * format::wordBytes;
  Value now = LLVM::LoadOp::create(b, b.getI32Type(), state);
  auto at = [](int64_t offset) { return "[a+" + text(offset) + "], "; };
  std::string code =
      "{ .reg .pred p; .reg .b32 o, n; .reg .b64 a, t; setp.ne.u32 p, $0, 0; "
      "sub.u32 n, $0, 1; and.b32 o, n, " +
      text(-bytes) + "; cvt.u64.u32 a, o; add.s64 a, a, $1; sub.u32 n, $0, o; sub.u32 n, n, " +
      text(format::headerBytes) + "; shr.u32 n, n, 3; cvt.u64.u32 t, n; @p st.global.b64 " +
      at(format::atCount) + "t; mov.u64 t, %globaltimer; @p st.global.b64 " + at(format::atEnd) +
      "t; mov.u64 t, %clock64; @p st.global.b64 " + at(format::atEnd + 8) + "t; }";
  b.inlineAsm(code, "r,l,~{memory}", nullptr, {now, buffer});
}

/// Eight machine instructions, and four registers meanwhile: the clock, its upper 16 bits replaced
/// by the number, the address, the test, the store, the increment.
void TimelineWriter::sample(ThreadBuilder &b, Operation *op, bool isEnd) {
  if (!timeline)
    return;
  auto found = timeline->numbers.find(op);
  if (found == timeline->numbers.end())
    return;
  if (isEnd && !timeline->events[found->second].marksEnd)
    return;
  static_assert(format::clockBits == 48 && 2 * format::maxEvents - 1 <= 0xffff);
  int64_t number = 2 * static_cast<int64_t>(found->second) + isEnd;
  int64_t mask = timeline->words * format::wordBytes - 1;
  Value now = LLVM::LoadOp::create(b, b.getI32Type(), state);
  std::string code =
      "{ .reg .pred p; .reg .b32 l, h; .reg .b64 a, t; mov.u64 t, %clock64; and.b32 l, $1, " +
      text(mask) +
      "; setp.ne.u32 p, l, 0; cvt.u64.u32 a, $1; add.s64 a, a, $2; mov.b64 {l, h}, t; "
      "prmt.b32 h, h, " +
      text(number) +
      ", 0x5410; mov.b64 t, {l, h}; @p st.global.b64 [a], t; mov.b32 $0, $1; "
      "@p add.u32 $0, $1, 8; }";
  Value next = b.inlineAsm(code, "=&r,r,l,~{memory}", b.getI32Type(), {now, buffer});
  LLVM::StoreOp::create(b, next, state);
}

bool TimelineWriter::hasEvents(Region &region) const {
  return timeline && llvm::any_of(timeline->numbers, [&](const auto &event) {
           return region.isAncestor(event.first->getParentRegion());
         });
}
