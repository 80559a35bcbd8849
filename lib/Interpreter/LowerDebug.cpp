// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that show what a kernel computes, or end it.

#include "lib/Interpreter/Lowering.h"

#include "llvm/Support/raw_ostream.h"

#include <cinttypes>
#include <cstdio>
#include <mutex>

using namespace mlir;

namespace tilewright::interpreter {

namespace {

/// A value with its shape; of a scalar it is empty.
struct Shown {
  Slot slot;
  Storage storage;
  bool isTile;
  llvm::SmallVector<int64_t, 4> shape;
  int64_t limit; ///< of the elements that are shown, in row-major order
};

void append(std::string &out, const Scalar &scalar, Storage storage) {
  char text[40];
  // All digits that tell numbers of the storage apart.
  if (storage == Storage::F32)
    std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(scalar.f32));
  else if (storage == Storage::F64)
    std::snprintf(text, sizeof(text), "%.17g", scalar.f64);
  else
    std::snprintf(text, sizeof(text), "%" PRId64, scalar.toInt(storage));
  out += text;
}

/// A line for each row of the last dimension, with the indices of the other dimensions.
void appendTile(std::string &out, const Datum &value, const Shown &shown) {
  int64_t columns = shown.shape.back();
  llvm::SmallVector<int64_t, 4> at(shown.shape.size() - 1, 0);
  for (int64_t first = 0; first < shown.limit; first += columns) {
    out += "  [";
    for (int64_t index : at)
      out += std::to_string(index) + ", ";
    out += ":]";
    for (int64_t i = 0; i < std::min(columns, shown.limit - first); ++i)
      append(out += ' ', value.element(first + i, shown.storage), shown.storage);
    out += '\n';
    for (size_t d = at.size(); d-- > 0 && ++at[d] == shown.shape[d];)
      at[d] = 0;
  }
}

/// Instances run in several threads.
void write(const std::string &text) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  llvm::errs() << text;
}

LogicalResult lower(Lowering &lowering, tile::PrintOp op) {
  auto kernel = op->getParentOfType<tile::KernelOp>();
  std::string head = ("@" + kernel.getSymName()).str();
  // In a mapped kernel the ids are values of the operation: its grid has other ones.
  auto names = op->getAttrOfType<ArrayAttr>(tile::PrintOp::getInstanceName());
  ValueRange values = op.getValues(), instance = kernel.getGridIds();
  if (names && names.size() <= values.size()) {
    instance = values.take_front(names.size());
    values = values.drop_front(names.size());
  } else {
    names = kernel.getGridNames();
  }
  llvm::SmallVector<std::pair<std::string, Slot>> ids;
  for (auto [name, id] : llvm::zip(names.getAsRange<StringAttr>(), instance))
    ids.emplace_back(name.getValue().str(), lowering.slotOf(id));
  llvm::SmallVector<Shown> all;
  for (Value value : values)
    all.push_back({lowering.slotOf(value), lowering.storage(value), tile::isTile(value.getType()),
                   llvm::SmallVector<int64_t, 4>(lowering.shapeOf(value)),
                   op.getLimitFor(lowering.countOf(value))});
  lowering.emitFunction(op, [=, text = op.getText().str()](Frame &frame) {
    if (!frame.prints)
      return true;
    std::string out = head;
    for (const auto &[name, slot] : ids)
      out += " " + name + " = " + std::to_string(frame.values[slot].scalar.i32);
    out += ": " + text;
    for (const Shown &each : all)
      if (!each.isTile)
        append(out += ' ', frame.values[each.slot].scalar, each.storage);
    out += '\n';
    for (const Shown &each : all)
      if (each.isTile)
        appendTile(out, frame.values[each.slot], each);
    write(out);
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::AssertOp op) {
  Value condition = op.getCondition();
  Slot slot = lowering.slotOf(condition);
  Storage storage = lowering.storage(condition);
  int64_t count = lowering.countOf(condition);
  llvm::SmallVector<int64_t, 4> shape(lowering.shapeOf(condition));
  lowering.emitFunction(
      op, [=, op = op.getOperation(), message = op.getMessage().str()](Frame &frame) {
        const Datum &value = frame.values[slot];
        int64_t at = 0;
        while (at < count && value.element(at, storage).toInt(storage) != 0)
          at += value.isSplat() ? count : 1;
        if (at >= count)
          return true;
        std::string place;
        for (size_t d = shape.size(); d-- > 0; at /= shape[d])
          place = std::to_string(at % shape[d]) + (place.empty() ? "" : ", ") + place;
        return frame.fail(
            op, "fails: " + message +
                    (shape.empty() ? "" : "; the first element that is false is [" + place + "]"));
      });
  return success();
}

} // namespace

void addDebugLowerings(LoweringTable &table) {
  addLowerings<tile::PrintOp, tile::AssertOp>(
      table, [](Lowering &lowering, auto op) { return lower(lowering, op); });
}

} // namespace tilewright::interpreter
