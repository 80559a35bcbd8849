// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which blocks are good for which kernels: rows that were measured, and a rule for the rest.

#ifndef TILEWRIGHT_PASSES_TILE_BLOCKTABLE_H
#define TILEWRIGHT_PASSES_TILE_BLOCKTABLE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace tilewright {

enum class MaskKind {
  Any,
  None,     ///< no mask, or one that keeps every pair
  Some,     ///< any other
  Ascending ///< of those, one that reads captures that ascend: rows begin and end where memory says
};

/// "any", "none", "some" or "ascending".
llvm::StringRef getName(MaskKind kind);

/// What a random number counts as, in operations.
inline constexpr int64_t randomWork = 64;

/// What is known of a kernel when its blocks are chosen.
struct BlockQuery {
  std::string structure; ///< LoopStructure::key
  std::string target;    ///< "cpu", or a name of lib/Target
  int64_t bits = 0;      ///< of an element that products read
  int64_t elements = 0;  ///< of the longest row that products read; 0: rows are blocks, too
  MaskKind mask = MaskKind::None;
  bool hasLength = false; ///< the loop ends with an extent of an argument, so a launch can be asked
  int64_t length = 0;     ///< the loop runs over at most so many; 0: any number
  /// Mapped functions of the loop read captured views of rank 2 or more, so perhaps tiles of them,
  /// which take shared memory as operands do.
  bool captures = false;
  /// Operations of the functions that the loop maps, for each element; a random number counts as
  /// its rounds.
  int64_t work = 0;
  /// Where it ends with a number read from memory, such as the length of a sequence: no launch
  /// knows it, so that rows for loops of up to as many count as if it did. 0: it does not.
  int64_t usual = 0;

  int64_t getBytes() const { return (elements * bits + 7) / 8; }
};

/// The blocks of kernels that are as the first part says; 0 and the empty string stand for any.
struct BlockRow {
  std::string structure;
  std::string target;   ///< "cpu", "gpu" for all others, or one name
  int64_t bits = 0;     ///< up to
  int64_t above = 0;    ///< bytes of a row: more than
  int64_t bytes = 0;    ///< bytes of a row: up to
  int64_t elements = 0; ///< elements of a row: up to
  MaskKind mask = MaskKind::Any;
  int64_t length = 0;   ///< for loops over up to so many
  int64_t captures = 0; ///< 1: for loops that read captured views
  int64_t work = 0;     ///< for loops that map so many operations or more for each element

  /// Extents; 0 where the structure has none of the kind. See LoopStructure.
  int64_t rows = 0, columns = 0, step = 0;

  bool matches(const BlockQuery &query) const;
  /// "sm_90a, up to 16 bits, rows up to 256 bytes, no mask".
  std::string describe() const;
};

struct BlockChoice {
  const BlockRow *row = nullptr;
  bool isUsers = false; ///< of the user's file
  /// Lengths for which rows before this one are, ascending: each is worth an entry of a bundle.
  std::vector<int64_t> shorter;
};

class BlockTable {
public:
  /// The rows that ship with the compiler.
  BlockTable();

  /// Rows that go before those: a list of objects in JSON whose keys are the members of BlockRow.
  /// Errors: text that is none; an unknown key; a value of another type; extents that no GPU takes.
  llvm::Error prepend(llvm::StringRef json);

  /// The first row that matches. There always is one, since the last match everything.
  BlockChoice choose(const BlockQuery &query) const;

private:
  std::vector<BlockRow> rows;
  size_t numUsers = 0;
};

/// What an extent must be a multiple of on a target.
struct BlockLimits {
  int64_t unit, most;
  static BlockLimits get(llvm::StringRef target);
  bool allow(int64_t extent) const { return extent >= 1 && extent <= most && extent % unit == 0; }
  /// "a multiple of 16 up to 256".
  std::string describe() const;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_BLOCKTABLE_H
