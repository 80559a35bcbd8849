// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of the table of blocks that the user gives, as JSON.

#include "passes/Blocks/BlockTable.h"

#include "base/Target/Target.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <optional>

using namespace tilewright;

BlockLimits BlockLimits::get(llvm::StringRef target, bool hasProducts) {
  // A warp multiplies 16 rows and sums over 16 elements of 16 bits; the next product sums over the
  // step of the one whose result it reads. wgmma and boxes of tensor maps are limited to 256
  // columns.
  if (target == "cpu")
    return {1, 1024};
  return {hasProducts ? 16 : 1, 256};
}

std::string BlockLimits::describe() const {
  return unit == 1 ? "from 1 to " + std::to_string(most)
                   : "a multiple of " + std::to_string(unit) + " up to " + std::to_string(most);
}

static llvm::Expected<BlockRow> readRow(const llvm::json::Object &object) {
  BlockRow row;
  std::string mask = "any";
  struct Field {
    const char *name;
    std::string *text;
    int64_t *number;
  };
  const Field fields[] = {{"structure", &row.structure, nullptr},
                          {"target", &row.target, nullptr},
                          {"mask", &mask, nullptr},
                          {"bits", nullptr, &row.bits},
                          {"above", nullptr, &row.above},
                          {"bytes", nullptr, &row.bytes},
                          {"narrow", nullptr, &row.narrow},
                          {"elements", nullptr, &row.elements},
                          {"length", nullptr, &row.length},
                          {"captures", nullptr, &row.captures},
                          {"work", nullptr, &row.work},
                          {"stateless", nullptr, &row.stateless},
                          {"shared", nullptr, &row.shared},
                          {"rows", nullptr, &row.rows},
                          {"columns", nullptr, &row.columns},
                          {"step", nullptr, &row.step}};
  for (const auto &[key, value] : object) {
    const Field *field =
        llvm::find_if(fields, [&key = key](const Field &f) { return key == f.name; });
    if (field == std::end(fields))
      return llvm::createStringError(
          "unknown key '" + key.str() + "' of a row; expected one of " +
          llvm::join(llvm::map_range(fields, [](const Field &f) { return std::string(f.name); }),
                     ", "));
    std::optional<llvm::StringRef> text = value.getAsString();
    std::optional<int64_t> number = value.getAsInteger();
    int64_t least = field->number == &row.length ? unknownLength : 0;
    if (field->text ? !text : !number || *number < least)
      return llvm::createStringError(
          "'" + key.str() + "' of a row must be " +
          (field->text ? "a string" : "a number of at least " + std::to_string(least)) +
          ", but got " + llvm::formatv("{0}", value).str());
    if (field->text)
      *field->text = text->str();
    else
      *field->number = *number;
  }
  const auto *kind = llvm::find_if(maskKinds, [&](const auto &each) { return each.first == mask; });
  if (kind == std::end(maskKinds))
    return llvm::createStringError(
        "'mask' of a row must be any, none, some or ascending, but got '" + mask + "'");
  row.mask = kind->second;
  for (auto [name, extent] : {std::pair("rows", row.rows), std::pair("columns", row.columns),
                              std::pair("step", row.step)}) {
    BlockLimits limits = BlockLimits::get(row.target, /*hasProducts=*/row.structure != "rows");
    if (extent && !limits.allow(extent))
      return llvm::createStringError(
          llvm::Twine(name) + " of a row for " + (row.target.empty() ? "any target" : row.target) +
          " must be " + limits.describe() + ", but got " + llvm::Twine(extent));
  }
  if (!row.rows && !row.columns && !row.step)
    return llvm::createStringError(
        "a row must have at least one of rows, columns and step, but got none");
  return row;
}

llvm::Error BlockTable::prepend(llvm::StringRef json) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(json);
  if (!value)
    return value.takeError();
  const llvm::json::Array *list = value->getAsArray();
  if (!list)
    return llvm::createStringError("expected a list of rows, but got another value; enclose the "
                                   "rows in [ and ]");
  std::vector<BlockRow> read;
  for (const llvm::json::Value &entry : *list) {
    const llvm::json::Object *object = entry.getAsObject();
    if (!object)
      return llvm::createStringError("expected a list of objects, but got " +
                                     llvm::formatv("{0}", entry).str());
    llvm::Expected<BlockRow> row = readRow(*object);
    if (!row)
      return row.takeError();
    read.push_back(std::move(*row));
  }
  numUsers += read.size();
  rows.insert(rows.begin(), std::make_move_iterator(read.begin()),
              std::make_move_iterator(read.end()));
  return llvm::Error::success();
}
