// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A word for each element: its writer, and its first reader.

#include "lib/Interpreter/InstanceCheck.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;

namespace tilewright::interpreter {

/// The argument that a view is a part of; null if it is not known here.
static BlockArgument rootOf(mlir::Value view, tile::KernelOp kernel) {
  while (Operation *op = view.getDefiningOp()) {
    if (!isa<tile::SubviewOp, tile::RepeatOp, tile::PagedOp>(op))
      return nullptr;
    view = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(view);
  return argument.getOwner() == &kernel.getBody().front() ? argument : nullptr;
}

/// Calls visit(element) for the elements of a tile at `base`, counted from `begin`, until it
/// returns false. Elements beyond the `size` are those of another array, which begins in a gap.
template <typename Visit>
static void visitTile(uintptr_t begin, size_t size, ElementType type, const char *base,
                      ArrayRef<numeric::TileAxis> axes, const Visit &visit) {
  int64_t origin = (reinterpret_cast<uintptr_t>(base) - begin) / byteWidth(type);
  bool goesOn = true;
  numeric::forEachRun(axes.data(), axes.size(), [&](int64_t offset, int64_t stride, int64_t count) {
    for (int64_t e = origin + offset; goesOn && count-- > 0; e += stride)
      if (static_cast<size_t>(e) < size)
        goesOn = visit(e);
  });
}

std::unique_ptr<InstanceCheck> InstanceCheck::create(tile::KernelOp kernel,
                                                     ArrayRef<BoundArgument> arguments,
                                                     ArrayRef<int64_t> gridExtents,
                                                     bool ordersInstances, bool hasThreads) {
  int64_t instances = llvm::product_of(gridExtents);
  if (instances < 2 || instances >= hasMoreReaders)
    return nullptr;
  llvm::SmallVector<bool> isStored(arguments.size());
  kernel.walk([&](tile::StoreOp store) {
    if (BlockArgument root = rootOf(store.getView(), kernel);
        root && root.getArgNumber() < arguments.size())
      isStored[root.getArgNumber()] = true;
  });
  std::unique_ptr<InstanceCheck> check(
      new InstanceCheck(kernel, gridExtents, ordersInstances, hasThreads));
  tile::Signature signature(kernel);
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    const View &view = argument.view;
    if (!isStored[i] || !argument.isView || !view.data || llvm::is_contained(view.extents, 0))
      continue;
    int64_t first = 0, last = 0;
    for (auto [extent, stride] : llvm::zip_equal(view.extents, view.strides))
      (stride < 0 ? first : last) += (extent - 1) * stride;
    auto width = static_cast<int64_t>(byteWidth(view.type));
    auto array = std::make_unique<Array>();
    array->name = cast<StringAttr>(signature.argNames[i]).getValue().str();
    array->view = view;
    array->begin = reinterpret_cast<uintptr_t>(view.data + first * width);
    array->end = reinterpret_cast<uintptr_t>(view.data + (last + 1) * width);
    array->size = last - first + 1;
    // Zeroed memory takes space only where it is written.
    auto allocate = [&] {
      return Marks(static_cast<Mark *>(std::calloc(array->size, sizeof(Mark))));
    };
    array->writers = allocate();
    array->readers = allocate();
    if (array->writers && array->readers)
      check->arrays.push_back(std::move(array));
  }
  return check->arrays.empty() ? nullptr : std::move(check);
}

InstanceCheck::Array *InstanceCheck::find(const char *base) {
  auto address = reinterpret_cast<uintptr_t>(base);
  for (const std::unique_ptr<Array> &array : arrays)
    if (address >= array->begin && address < array->end)
      return array.get();
  return nullptr;
}

bool InstanceCheck::stores(Array &array, size_t element, uint32_t self, uint32_t &other) const {
  Mark &writer = array.writers.get()[element];
  if (hasThreads) {
    other = writer.exchange(self, std::memory_order_relaxed);
  } else {
    other = writer.load(std::memory_order_relaxed);
    writer.store(self, std::memory_order_relaxed);
  }
  return other == 0 || other == self;
}

bool InstanceCheck::loads(Array &array, size_t element, uint32_t self, uint32_t &other) {
  Mark &reader = array.readers.get()[element];
  uint32_t first = 0;
  if (!reader.compare_exchange_strong(first, self) && (first & ~hasMoreReaders) != self)
    reader.fetch_or(hasMoreReaders);
  other = array.writers.get()[element].load();
  return other == 0 || other == self;
}

std::string InstanceCheck::describeElement(const Array &array, size_t element) {
  const View &view = array.view;
  auto byStride = llvm::to_vector(llvm::seq<unsigned>(0, view.rank()));
  llvm::stable_sort(byStride, [&](unsigned a, unsigned b) {
    return std::abs(view.strides[a]) > std::abs(view.strides[b]);
  });
  auto left = static_cast<int64_t>(element);
  llvm::SmallVector<int64_t> indices(view.rank());
  for (unsigned d : byStride) {
    int64_t step = std::abs(view.strides[d]);
    int64_t index = step ? std::min(left / step, view.extents[d] - 1) : 0;
    left -= index * step;
    indices[d] = view.strides[d] < 0 ? view.extents[d] - 1 - index : index;
  }
  std::string text = "'" + array.name + "' at [";
  for (auto [d, index] : llvm::enumerate(indices))
    text += (d ? ", " : "") + std::to_string(index);
  return text + "]";
}

std::string InstanceCheck::describeInstance(uint32_t mark) {
  std::string text = "the one";
  int64_t number = int64_t{mark} - 1;
  for (auto [d, name] : llvm::enumerate(kernel.getGridNames())) {
    text += (d ? ", " : " at ") + cast<StringAttr>(name).getValue().str() + " = " +
            std::to_string(number % gridExtents[d]);
    number /= gridExtents[d];
  }
  return text;
}

std::optional<std::string> InstanceCheck::noteStore(int64_t instance, ElementType type,
                                                    const char *base,
                                                    ArrayRef<numeric::TileAxis> axes) {
  Array *array = find(base);
  if (!array)
    return std::nullopt;
  auto self = static_cast<uint32_t>(instance + 1);
  std::optional<std::string> message;
  visitTile(array->begin, array->size, type, base, axes, [&](size_t e) {
    uint32_t other = 0;
    if (!stores(*array, e, self, other)) {
      message = "must store elements that no other program instance of the launch stores, but "
                "got " +
                describeElement(*array, e) + ", which " + describeInstance(other) +
                " stored; give each instance its own block, or add with tile.atomic_add";
      return false;
    }
    if (!array->hasReaders.load(std::memory_order_relaxed))
      return true;
    uint32_t reader = array->readers.get()[e].load();
    bool hasOther = reader & hasMoreReaders;
    reader &= ~hasMoreReaders;
    if (reader != 0 && (reader != self || hasOther)) {
      message = "must store elements that no other program instance of the launch loads, but "
                "got " +
                describeElement(*array, e) + ", which " +
                (reader != self ? describeInstance(reader) : std::string("another one")) +
                " loaded; store to another array, or load in a kernel before this one";
      return false;
    }
    return true;
  });
  return message;
}

std::string InstanceCheck::describeLoad(const Array &array, size_t element, uint32_t other) {
  return "must load elements that no other program instance of the launch stores, but got " +
         describeElement(array, element) + ", which " + describeInstance(other) +
         " stored; load them in a second kernel, which is launched after this one";
}

std::optional<std::string> InstanceCheck::noteLoad(int64_t instance, ElementType type,
                                                   const char *base,
                                                   ArrayRef<numeric::TileAxis> axes) {
  Array *array = ordersInstances ? nullptr : find(base);
  if (!array)
    return std::nullopt;
  array->hasReaders.store(true);
  auto self = static_cast<uint32_t>(instance + 1);
  std::optional<std::string> message;
  visitTile(array->begin, array->size, type, base, axes, [&](size_t e) {
    uint32_t other = 0;
    bool isAlone = loads(*array, e, self, other);
    if (!isAlone)
      message = describeLoad(*array, e, other);
    return isAlone;
  });
  return message;
}

std::optional<std::string> InstanceCheck::noteLoad(int64_t instance, const View &view,
                                                   ArrayRef<numeric::PointIndex> points, size_t n) {
  Array *array = ordersInstances ? nullptr : find(view.data);
  if (!array)
    return std::nullopt;
  array->hasReaders.store(true);
  auto self = static_cast<uint32_t>(instance + 1);
  int64_t origin = (reinterpret_cast<uintptr_t>(view.data) - array->begin) / byteWidth(view.type);
  std::optional<std::string> message;
  numeric::forEachPoint(points.data(), points.size(), n, [&](int64_t offset) {
    auto e = static_cast<size_t>(origin + offset);
    uint32_t other = 0;
    if (!message && e < array->size && !loads(*array, e, self, other))
      message = describeLoad(*array, e, other);
  });
  return message;
}

} // namespace tilewright::interpreter
