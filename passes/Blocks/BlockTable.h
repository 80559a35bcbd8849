// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The block extents of kernels: measured rows, and general rows for the rest.

#ifndef TILEWRIGHT_PASSES_BLOCKS_BLOCKTABLE_H
#define TILEWRIGHT_PASSES_BLOCKS_BLOCKTABLE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tilewright {

enum class MaskKind {
  Any,
  None,     ///< no mask, or one that keeps every pair
  Some,     ///< any other
  Ascending ///< like Some, but reads ascending captures: bounds of rows come from memory
};

/// The spellings in JSON and in the attribute `blocks`.
inline constexpr std::pair<const char *, MaskKind> maskKinds[] = {
    {"any", MaskKind::Any},
    {"none", MaskKind::None},
    {"some", MaskKind::Some},
    {"ascending", MaskKind::Ascending}};
llvm::StringRef getName(MaskKind kind);

/// The number of operations that a random number counts as.
inline constexpr int64_t randomWork = 64;

/// The properties of a kernel that determine its blocks.
struct BlockQuery {
  std::string structure; ///< LoopStructure::key
  std::string target;    ///< "cpu", or a name of base/Target
  int64_t bits = 0;      ///< bits of an operand's element
  int64_t elements = 0;  ///< elements of the longest operand row; 0: rows are blocks, too
  int64_t narrowest = 0; ///< elements of the shortest one; 0: unknown
  MaskKind mask = MaskKind::None;
  bool hasLength = false; ///< an argument's extent bounds the loop, so a launch can check it
  int64_t length = 0;     ///< upper bound of the loop's length; 0: none
  /// Mapped functions of the loop read captured views of rank 2 or more, or it loads tiles of rows
  /// by steps itself: these may take shared memory like operands.
  bool captures = false;
  /// Operations per element of the functions that the loop maps; a random number counts as
  /// randomWork.
  int64_t work = 0;
  int64_t shared = 0; ///< bytes of shared memory available to a block; 0: all that the target has
  /// If the loop ends at a number read from memory, such as the length of a sequence, or its mask
  /// depends on one, such as the size of a window, no launch knows its length, and rows are matched
  /// with this typical length instead. 0: it does not.
  int64_t usual = 0;
  bool hasStates = false; ///< LoopStructure::hasStates

  int64_t getBytes() const { return getBytes(elements); }
  int64_t getLeastBytes() const { return getBytes(narrowest); }

private:
  /// No row of the table is as long as the greatest number of elements that is counted.
  int64_t getBytes(int64_t count) const {
    constexpr int64_t most = int64_t(1) << 40;
    return ((count < most ? count : most) * bits + 7) / 8;
  }
};

/// Of a row: only loops whose length no launch knows.
inline constexpr int64_t unknownLength = -1;

/// The numbers of a row of the table: conditions and, between them, the extents. A condition of 0
/// matches anything.
struct BlockNumbers {
  int64_t bits = 0;     ///< maximum
  int64_t bytes = 0;    ///< bytes of a row: maximum
  int64_t elements = 0; ///< elements of a row: maximum
  MaskKind mask = MaskKind::Any;
  int64_t length = 0; ///< maximum, or unknownLength
  /// Extents; 0 if the structure has no such extent. See LoopStructure.
  int64_t rows = 0, columns = 0, step = 0;
  /// The least shared memory of a block on the chip, in bytes; 0 if every chip has enough.
  int64_t shared = 0;
  int64_t above = 0;  ///< bytes of a row: greater than this
  int64_t narrow = 0; ///< bytes of the shortest row
};

/// The blocks of the kernels that match all conditions; the empty string matches anything, too.
struct BlockRow : BlockNumbers {
  std::string structure;
  std::string target;    ///< "cpu", "gpu" for all others, or one name
  int64_t captures = 0;  ///< 1: for loops that read captured views
  int64_t work = 0;      ///< mapped operations per element: minimum
  int64_t stateless = 0; ///< 1: for loops that carry nothing but sums of products

  bool matches(const BlockQuery &query) const;
  /// "sm_90a, up to 16 bits, rows up to 256 bytes, no mask".
  std::string describe() const;
};

struct BlockChoice {
  const BlockRow *row = nullptr;
  bool isUsers = false; ///< from the user's file
  /// Holds the row if the cost model made it (BlockModel.h), since the table has none for the
  /// structure.
  std::shared_ptr<const BlockRow> modeled;
  /// Ascending lengths for which earlier rows would match; each becomes an entry of a bundle.
  std::vector<int64_t> shorter;
};

class BlockTable {
public:
  /// The rows that ship with the compiler.
  BlockTable();

  /// Adds rows before those: a JSON list of objects whose keys are the members of BlockRow. Errors:
  /// malformed text; an unknown key; a value of another type; extents that no GPU supports.
  llvm::Error prepend(llvm::StringRef json);

  /// The first row that matches. One always does, since the last rows match everything.
  BlockChoice choose(const BlockQuery &query) const;

private:
  std::vector<BlockRow> rows;
  size_t numUsers = 0;
};

/// The divisor and the maximum of extents on a target. The rows of a kernel without products may
/// have any number.
struct BlockLimits {
  int64_t unit, most;
  static BlockLimits get(llvm::StringRef target, bool hasProducts = true);
  bool allow(int64_t extent) const { return extent >= 1 && extent <= most && extent % unit == 0; }
  /// "a multiple of 16 up to 256".
  std::string describe() const;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_BLOCKS_BLOCKTABLE_H
