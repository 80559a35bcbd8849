// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether one role or two make the copies of a kernel. One thread issues all boxes of a role. Where
// pages are short, there are many for the products that an iteration has in the meantime.

#include "passes/Tgpu/Plan/LoadRoles.h"

#include "passes/Tgpu/Plan/IterationCosts.h"
#include "passes/Tgpu/Roles/LoadSplit.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// The boxes of a copy, each an instruction of the role. In pages, one has the rows that lie
/// together.
static int64_t countBoxes(KernelOp kernel, CopyAsyncOp copy) {
  auto slot = cast<SharedType>(copy.getBuffer().getType());
  ArrayRef<int64_t> shape = slot.getShape(), box = getTensorMap(kernel, copy, slot).getBox();
  int64_t rows = shape.size() == 2 ? shape.front() : 1, rowsOfBox = 1;
  for (int64_t extent : box.drop_back())
    rowsOfBox *= extent;
  return llvm::divideCeil(rows, rowsOfBox) * llvm::divideCeil(shape.back(), box.back());
}

bool tgpu::gainsBySecondLoad(KernelOp kernel, const RoleSlice &slice, ArrayRef<scf::ForOp> loops) {
  // Clocks of products for each box, up to which two roles are faster. One H200, 2026-11-30: the
  // forward over a cache, bf16, causal, packed, TFLOP/s of a prefill of 16 x 512 tokens on 8k (D
  // 192 with values of 128: 4 x 2048 on 6k):
  //
  //   rows of a page   clocks   one role   two roles
  //   D 128   8        32       302        606
  //           16       64       661        689
  //           32       128      689        698
  //           64       256      659        651       (another card)
  //   D 64    8        48       240        422
  //           16       96       429        486
  //           32       192      504        501
  //   D 192   16       64       524        550
  //           32       128      532        551
  //   D 256   16       64       667        685
  //           32       128      684        687
  constexpr double clocksOfBox = 128;
  // An iteration must wait for its products, not for memory: decoding in pages of 16 rows, a
  // product of 8 columns, two roles are 0.985 of the speed of one at D 64, 0.99 to 1.02 at D 128.
  // What only one tile reads comes from memory. What others may read as well, such as the blocks of
  // a list, must be less than the L2 gives a multiprocessor during the products: 32 bytes of a
  // clock above, 512 in a decode.
  constexpr double bytesOfClock = 64;
  if (failed(verifyLoadSplit(kernel, slice, /*explain=*/false)))
    return false;
  return llvm::all_of(loops, [&](scf::ForOp loop) {
    double boxes = 0, bytes = 0;
    bool isReadOnce = false;
    for (const CopyGroup &group : slice.groups) {
      if (group.getLoop() != loop)
        continue;
      bytes += static_cast<double>(group.getCopiedBytes());
      for (CopyAsyncOp copy : group.copies) {
        boxes += static_cast<double>(countBoxes(kernel, copy));
        isReadOnce |= readOnceAttr.isOn(copy);
      }
    }
    double clocks = IterationCosts::getOfGeneral(loop, getTargetOf(kernel)).ofProducts;
    return clocks <= clocksOfBox * boxes && bytes <= bytesOfClock * clocks && !isReadOnce;
  });
}
