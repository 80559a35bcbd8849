// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the watched bytes after each instance.

#include "lib/Interpreter/Watch.h"

#include "dialect/Tile/Tile.h"

#include <cstring>

using namespace tilewright;

WatchList::WatchList(llvm::ArrayRef<std::pair<const void *, size_t>> addresses) {
  for (auto [address, bytes] : addresses)
    elements.push_back({address, bytes, {}, {}, 0});
}

void WatchList::start() {
  for (Element &element : elements) {
    const char *first = static_cast<const char *>(element.address);
    element.last.assign(first, first + element.bytes);
    element.writer.clear();
    element.numWriters = 0;
  }
}

void WatchList::note(mlir::Operation *kernel, llvm::ArrayRef<int64_t> point) {
  for (Element &element : elements) {
    if (std::memcmp(element.last.data(), element.address, element.bytes) == 0)
      continue;
    std::memcpy(element.last.data(), element.address, element.bytes);
    ++element.numWriters;
    auto op = llvm::cast<tile::KernelOp>(kernel);
    element.writer = ("@" + op.getSymName()).str();
    for (auto [d, name] : llvm::enumerate(op.getGridNames()))
      element.writer += ((d ? ", " : " at ") + llvm::cast<mlir::StringAttr>(name).getValue() +
                         " = " + llvm::Twine(point[d]))
                            .str();
  }
}
