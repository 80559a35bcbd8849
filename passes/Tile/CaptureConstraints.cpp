// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Tile/CaptureConstraints.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// "PACKED = true, D = 64", for the parameters that an expression reads.
std::string listRead(ExprAttr expr, const Bindings &bindings) {
  Bindings read;
  walkExpr(expr, [&](ExprAttr leaf) {
    if (leaf.getKind() == ExprKind::Name)
      if (ExprAttr value = bindings.lookup(leaf.getName()))
        read.insert({leaf.getName(), value});
  });
  return toString(read);
}

} // namespace

LogicalResult tilewright::moveCaptureConstraints(Operation *entry, ArrayRef<CaptureOp> captures,
                                                 const Bindings &bindings) {
  Signature signature(entry);
  llvm::StringSet<> known, absent;
  for (auto name : signature.argNames.getAsRange<StringAttr>())
    (signature.getArgCondition(name) ? absent : known).insert(name.getValue());
  for (CaptureOp capture : captures)
    known.insert(capture.getSymName());

  SmallVector<Attribute> constraints(signature.constraints.getValue());
  ExprEnvironment environment = getEnvironment(bindings, entry);
  for (CaptureOp capture : captures) {
    if (!capture.getConstraints())
      continue;
    auto own = cast<ArrayAttr>(capture.removeConstraintsAttr());
    for (auto constraint : own.getAsRange<ExprAttr>()) {
      std::string text =
          ("constraint '" + tile::toString(constraint) + "' of capture '" + capture.getSymName())
              .str() +
          "'";
      llvm::Expected<ExprAttr> reduced = reduceExpr(constraint, environment);
      if (!reduced)
        return capture.emitError()
               << text << " cannot be checked: " << llvm::toString(reduced.takeError());
      if (reduced->isConstant()) {
        if (reduced->getValue())
          continue;
        return capture.emitError() << text << " must hold for " << describe(entry) << ", but got "
                                   << listRead(constraint, bindings)
                                   << "; choose other parameters, or do not link its file";
      }
      bool isExcluded = false;
      StringRef unknown;
      walkExpr(*reduced, [&](ExprAttr leaf) {
        bool isRead = leaf.getKind() == ExprKind::Name || leaf.getKind() == ExprKind::Dim;
        isExcluded |= isRead && absent.contains(leaf.getName());
        if (isRead && !known.contains(leaf.getName()) && !absent.contains(leaf.getName()))
          unknown = leaf.getName();
      });
      if (!unknown.empty())
        capture.emitWarning() << text << " is not checked: it must read parameters, arguments and "
                              << "captures of " << describe(entry) << ", but got '" << unknown
                              << "'; give an argument this name, or state the rule in the kernel";
      else if (!isExcluded)
        constraints.push_back(*reduced);
    }
  }
  entry->setAttr("constraints", ArrayAttr::get(entry->getContext(), constraints));
  return success();
}
