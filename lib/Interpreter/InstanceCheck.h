// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that the instances of a launch do not depend on each other: no element is stored by two of
// them, and none loads what another one stores. On a GPU, which of them comes first is undefined.

#ifndef TILEWRIGHT_LIB_INTERPRETER_INSTANCECHECK_H
#define TILEWRIGHT_LIB_INTERPRETER_INSTANCECHECK_H

#include "lib/Interpreter/Arguments.h"

#include "llvm/ADT/ArrayRef.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::interpreter {

/// The instances that stored and loaded each element of the arguments to which a kernel stores, in
/// one launch. Several threads may call the functions below.
///
/// Only tile.store counts as a store. Additions may meet, since they are atomic. Loads of a kernel
/// that orders its instances (tile.await, additions in turns) are not checked.
class InstanceCheck {
public:
  /// Null if the launch has a single instance, or no tile.store to an argument.
  static std::unique_ptr<InstanceCheck> create(tile::KernelOp kernel,
                                               llvm::ArrayRef<BoundArgument> arguments,
                                               llvm::ArrayRef<int64_t> gridExtents,
                                               bool ordersInstances, bool hasThreads);

  /// Records a store or a load of a tile at `base`, by this instance. Returns a message if another
  /// instance stored one of the elements, or, for a store, loaded it.
  std::optional<std::string> noteStore(int64_t instance, ElementType type, const char *base,
                                       llvm::ArrayRef<numeric::TileAxis> axes);
  std::optional<std::string> noteLoad(int64_t instance, ElementType type, const char *base,
                                      llvm::ArrayRef<numeric::TileAxis> axes);
  /// The same for n points of a view, as in tile.at.
  std::optional<std::string> noteLoad(int64_t instance, const View &view,
                                      llvm::ArrayRef<numeric::PointIndex> points, size_t n);

private:
  /// An instance, counted from 1; 0 is none. Of several readers the first is kept, with a flag.
  using Mark = std::atomic<uint32_t>;
  static constexpr uint32_t hasMoreReaders = 1u << 31;
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  using Marks = std::unique_ptr<Mark, Free>;

  /// The memory of an argument.
  struct Array {
    std::string name;
    View view;
    uintptr_t begin = 0, end = 0;
    size_t size = 0; ///< elements, with those in gaps
    Marks writers, readers;
    std::atomic<bool> hasReaders{false};
  };

  InstanceCheck(tile::KernelOp kernel, llvm::ArrayRef<int64_t> gridExtents, bool ordersInstances,
                bool hasThreads)
      : kernel(kernel), gridExtents(gridExtents), ordersInstances(ordersInstances),
        hasThreads(hasThreads) {}

  Array *find(const char *base);
  bool stores(Array &array, size_t element, uint32_t self, uint32_t &other) const;
  static bool loads(Array &array, size_t element, uint32_t self, uint32_t &other);
  static std::string describeElement(const Array &array, size_t element);
  std::string describeInstance(uint32_t mark);
  std::string describeLoad(const Array &array, size_t element, uint32_t other);

  tile::KernelOp kernel;
  llvm::SmallVector<int64_t> gridExtents;
  bool ordersInstances, hasThreads;
  std::vector<std::unique_ptr<Array>> arrays;
};

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_INSTANCECHECK_H
