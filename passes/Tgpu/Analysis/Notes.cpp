// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records why a kernel is slower than its target allows.

#include "passes/Tgpu/Analysis/Notes.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace tilewright;

std::string tgpu::describePlace(Location location) {
  std::string text;
  location->walk([&](Location inner) {
    if (auto file = dyn_cast<FileLineColLoc>(inner); file && text.empty())
      text = (llvm::Twine(file.getFilename().getValue()) + ":" + llvm::Twine(file.getLine()) + ":" +
              llvm::Twine(file.getColumn()))
                 .str();
    return text.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  return text.empty() ? "unknown place" : text;
}

bool tgpu::recordNote(Operation *kernel, Location location, StringRef what, const Twine &why) {
  auto note = StringAttr::get(kernel->getContext(),
                              what + ": " + why + " (" + describePlace(location) + ")");
  SmallVector<Attribute> notes;
  if (auto known = notesAttr.get(kernel))
    notes.assign(known.begin(), known.end());
  if (llvm::is_contained(notes, note))
    return false;
  notes.push_back(note);
  notesAttr.set(kernel, notes);
  return true;
}

void tgpu::addNote(Operation *kernel, Location location, StringRef category, StringRef what,
                   const Twine &why) {
  std::string reason = why.str();
  if (recordNote(kernel, location, what, reason))
    remark::missed(location, remark::RemarkOpts::name(what).category(category).function(
                                 SymbolTable::getSymbolName(kernel).getValue()))
        << remark::reason("{0}", reason);
}

tgpu::Refusal tgpu::findRefusal(Operation *op, llvm::function_ref<void()> plan) {
  Refusal refusal{"", op->getLoc()};
  ScopedDiagnosticHandler held(
      op->getContext(), [&, thread = llvm::get_threadid()](Diagnostic &diagnostic) {
        if (llvm::get_threadid() != thread)
          return failure(); // for the handler of that thread
        if (refusal.why.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
          refusal = {diagnostic.str(), diagnostic.getLocation()};
        return success();
      });
  plan();
  StringRef text = refusal.why;
  for (StringRef rule : {"cannot be split into roles: ", "loop cannot be pipelined: "})
    if (size_t at = text.find(rule); at != StringRef::npos)
      text = text.drop_front(at + rule.size());
  refusal.why = text.split("; use the schedule ").first.str();
  return refusal;
}
