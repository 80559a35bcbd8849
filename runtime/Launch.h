// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One launch: checks of the arguments, the choice among variants, packing, and the driver's call.
// Nothing here allocates unless it fails.

#ifndef TILEWRIGHT_RUNTIME_LAUNCH_H
#define TILEWRIGHT_RUNTIME_LAUNCH_H

#include "runtime/ExprCode.h"
#include "runtime/Module.h"
#include "runtime/TensorMap.h"

namespace tilewright::runtime {

/// A contract in one piece of memory, against which a run checks its arguments: kinds, element
/// types, ranks, literal extents, i32 extents, null and misaligned addresses.
class ContractCheck {
public:
  struct Row {
    bool isView, isOptional, isWritten;
    ElementType type;
    uint8_t rank;
    uint32_t alignment;       // bytes per element
    int32_t extents[maxRank]; // -1: any
  };
  /// `contract` must outlive it.
  explicit ContractCheck(const std::vector<ArgumentSpec> &contract);
  /// `owner` is "kernel" or "program" and its name, separate to avoid a concatenation.
  Status check(const Argument *const *arguments, size_t numArguments, const char *owner,
               const std::string &name) const {
    return accepts(arguments, numArguments) ? Status::success()
                                            : reject(arguments, numArguments, owner, name);
  }

  const std::vector<Row> &arguments() const { return rows; }

private:
  bool accepts(const Argument *const *arguments, size_t numArguments) const;
  Status reject(const Argument *const *arguments, size_t numArguments, const char *owner,
                const std::string &name) const;

  const std::vector<ArgumentSpec> *contract;
  std::vector<Row> rows;
};

/// A kernel that is ready on a device, with the parts of its manifest that a launch needs, as flat
/// code.
struct PreparedKernel {
  PreparedKernel(const KernelSpec &spec, const CodeSpec &code, const LoadedKernel &loaded,
                 bool mayStartEarly);

  const KernelSpec *spec;
  const CodeSpec *code; // that of the function
  LoadedKernel loaded;
  bool mayStartEarly; // the kernel waits for the previous launch, and the driver can let it
  ContractCheck contract;
  ExprCode conditions;
  std::vector<ExprCode> grid;
  std::unique_ptr<TensorMapCache[]> maps; // one per tensor map; filled by runs
};

/// The reason why a variant does not accept arguments that satisfy its contract.
struct Rejection {
  enum class Reason : uint8_t {
    None,
    Address,
    Stride,
    Inner,
    MapAddress,
    MapStride,
    MapStrideSign,
    MapInner,
    MapRow,
    MapRaggedRows,
    MapRaggedStride,
    MapPages,
    Condition
  };
  Reason reason = Reason::None;
  uint32_t argument = 0;
  uint32_t dim = 0;
  int64_t limit = 0;       // bytes
  ExprCode::End condition; // the condition that does not hold, or has no value

  std::string toString(const KernelSpec &kernel, const ExprInputs &inputs) const;
};

/// Whether the variant accepts arguments that satisfy its contract; `rejection`, empty on entry,
/// gets the reason if not.
bool isUsable(const PreparedKernel &kernel, const ExprInputs &inputs, Rejection &rejection);

/// Whether the tensor map can describe the view; `rejection`, empty on entry, gets the reason if
/// not.
bool canDescribe(const TensorMapSpec &map, const Argument &view, Rejection &rejection);

/// Evaluates the grid; it is empty if an extent is 0.
Status gridOf(const PreparedKernel &kernel, const ExprInputs &inputs, unsigned (&grid)[3],
              bool &isEmpty);

/// The last kernel that a program has launched, null before the first one, and the number of its
/// blocks. No other launch of the program still runs when it lets the next one start: it waits for
/// those before it first. Code that is given, or of bundles made before that rule, may let the next
/// one start sooner. Then blocks of three launches may share a multiprocessor, which takes time.
struct LastLaunch {
  const PreparedKernel *kernel = nullptr;
  int64_t blocks = 0;
  bool mayOverlapOther = false; // before the first one: see Operation::overlapPrevious
};

/// Whether a launch may start before the last one of its program has ended, and then the dynamic
/// shared memory that it has in addition. Both kernels must be made for it, and
///  - all blocks have a multiprocessor of their own; or
///  - the last launch leaves at least half of the multiprocessors, and the blocks of this one have
///    room there, up to four on each; or
///  - the last launch has at most one block per multiprocessor, and a block of this one fits beside
///    one of it. With as much shared memory as leaves room for just one, the blocks spread: at most
///    two are on a multiprocessor that is free, and all have room.
/// Registers are counted for the whole multiprocessor, though each of its four parts has its own: a
/// block that does not fit for that reason only waits. Blocks of this launch never take the place
/// of those of the last one: it begins when all of them have started.
///
/// Without room, the blocks that wait gather on the multiprocessors that are free. One H200,
/// 2026-11-30, decode of one sequence of 16,384 keys, 128 blocks, and merge of 64: without overlap
/// 22.0 us; with 16 blocks of the merge on each of the four free multiprocessors 22.9 to 24.0; with
/// up to ten there, and one beside each block of the decode, 23.9; with up to two there 21.2. Of
/// 1,024 keys, 64 blocks and 64, it takes 0.88 of the time; with 2 or 4 queries, 64 and 128 or 256,
/// 0.87.
///
/// The last kernel of a program lets the next run start at once, while the launch before it still
/// runs; blocks of three launches are on the device then. They wait for each other all the same.
///
/// Before the first launch of a run: if the kernel waits, unless the application objects, whatever
/// the blocks.
std::optional<uint32_t> findOverlap(const LastLaunch &last, const PreparedKernel &kernel,
                                    int64_t blocks, int64_t multiprocessors);

/// Evaluates the grid, packs the arguments (KernelAbi.h) and launches; an empty grid launches
/// nothing, and leaves `last` as it is, which otherwise becomes this launch. The context must be
/// current, and the arguments checked.
Status launchKernel(const DriverTable &driver, const PreparedKernel &kernel,
                    const ExprInputs &inputs, cuda::Stream stream, LastLaunch &last);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_LAUNCH_H
