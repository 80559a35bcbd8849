// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Encoding of tensor maps.

#include "runtime/TensorMap.h"

#include "base/Abi/TensorMapRank.h"

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

int dataType(ElementType type) {
  switch (type) {
  case ElementType::F64:
    return cuda::TensorFloat64;
  case ElementType::F32:
    return cuda::TensorFloat32;
  case ElementType::F16:
    return cuda::TensorFloat16;
  case ElementType::BF16:
    return cuda::TensorBfloat16;
  case ElementType::I64:
    return cuda::TensorInt64;
  case ElementType::I32:
    return cuda::TensorInt32;
  case ElementType::E4M3:
  case ElementType::E5M2:
  case ElementType::I1:
  case ElementType::I8:
    return cuda::TensorUint8;
  }
  return cuda::TensorUint8;
}

/// Calls visit(i, word) for the words that a map depends on, until it returns false. Missing
/// dimensions are zero; an absent view has the key 0.
template <typename Visit> bool forEachKeyWord(const Argument &view, unsigned rank, Visit visit) {
  if (!visit(0u, view.bits))
    return false;
  for (unsigned dim = 0; dim < rank; ++dim)
    if (!visit(1 + dim, uint64_t(view.extents[dim])) ||
        !visit(1 + rank + dim, uint64_t(view.strides[dim])))
      return false;
  return true;
}

} // namespace

unsigned TensorMapCache::slotOf(const Argument &view) {
  // Arrays of one allocator differ in the bits above their alignment.
  return unsigned((view.bits >> 4) * 0x9e3779b97f4a7c15ull >> (64 - slotBits));
}

bool TensorMapCache::find(const Argument &view, cuda::TensorMap &map) const {
  const Slot &slot = slots[slotOf(view)];
  uint64_t version = slot.version.load(std::memory_order_acquire);
  if (version == 0 || version % 2 != 0)
    return false;
  bool isSame = forEachKeyWord(view, mapRank, [&](unsigned i, uint64_t word) {
    return slot.key[i].load(std::memory_order_relaxed) == word;
  });
  if (!isSame)
    return false;
  for (unsigned i = 0; i < mapWords; ++i)
    map.opaque[i] = slot.map[i].load(std::memory_order_relaxed);
  // The data read is consistent only if no writer has started meanwhile.
  std::atomic_thread_fence(std::memory_order_acquire);
  return slot.version.load(std::memory_order_relaxed) == version;
}

void TensorMapCache::keep(const Argument &view, const cuda::TensorMap &map) {
  Slot &slot = slots[slotOf(view)];
  uint64_t version = slot.version.load(std::memory_order_relaxed);
  if (version % 2 != 0 ||
      !slot.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire))
    return; // another thread is writing it
  std::atomic_thread_fence(std::memory_order_release);
  forEachKeyWord(view, mapRank, [&](unsigned i, uint64_t word) {
    slot.key[i].store(word, std::memory_order_relaxed);
    return true;
  });
  for (unsigned i = 0; i < mapWords; ++i)
    slot.map[i].store(map.opaque[i], std::memory_order_relaxed);
  slot.version.store(version + 2, std::memory_order_release);
}

Status tilewright::runtime::encodeTensorMap(const DriverTable &driver, const TensorMapSpec &spec,
                                            const ArgumentSpec &contract, const Argument &view,
                                            cuda::TensorMap &map) {
  map = {};
  unsigned rank = view.kind == Argument::Kind::View ? view.rank : 0;
  for (unsigned i = 0; i < rank; ++i)
    if (view.extents[i] == 0)
      rank = 0;
  if (rank == 0)
    return Status::success();

  // The driver counts from the innermost dimension, whose stride is implied.
  constexpr int64_t most = TensorMapRank::most;
  uint64_t extents[most], strides[most], width = byteWidth(view.type);
  uint32_t box[most], steps[most] = {1, 1, 1, 1, 1};
  for (unsigned i = 0; i < rank; ++i) {
    unsigned dim = rank - 1 - i;
    extents[i] = uint64_t(view.extents[dim]);
    box[i] = spec.box[dim];
    if (i == 0)
      continue;
    // A dimension of one element may have any stride; the driver requires a multiple of 16.
    bool hasStride = view.extents[dim] > 1 || (spec.isPaged && dim == 1 && view.extents[0] > 1);
    strides[i - 1] = !hasStride ? (width * 16) : uint64_t(view.strides[dim]) * width;
  }
  if (spec.ragged >= 0) { // x, y and z of KernelAbi.h
    unsigned x = rank - 1 - unsigned(spec.ragged);
    if (TensorMapRank::leavesOutFirst(rank))
      --rank; // the first dimension of the view
    uint64_t rows = strides[x - 1];
    extents[x] = uint64_t(raggedBound);
    for (unsigned i : {rank, rank + 1}) {
      extents[i] = uint64_t(raggedBound) + 1;
      box[i] = 1;
    }
    strides[rank - 1] = rows;
    strides[rank] = uint64_t(raggedTurn) - rows;
    rank += unsigned(TensorMapRank::ofRagged);
  }
  cuda::Result result = driver.cuTensorMapEncodeTiled(
      &map, dataType(view.type), rank, reinterpret_cast<void *>(view.bits), extents, strides, box,
      steps, cuda::tensorInterleaveNone, cuda::tensorSwizzle(int(layout::panelBytes(spec.swizzle))),
      cuda::tensorPromotion128, cuda::tensorFillZero);
  if (result != cuda::Success)
    return driver.check(result, "cuTensorMapEncodeTiled",
                        "make the tensor map over '" + contract.name + "'");
  return Status::success();
}
