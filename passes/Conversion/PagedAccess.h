// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows of a view of pages, and the boxes that copy them. Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_PAGEDACCESS_H
#define TILEWRIGHT_PASSES_CONVERSION_PAGEDACCESS_H

#include "passes/Conversion/GlobalAccess.h"

namespace tilewright::tgpu {

/// The rows of a view of pages.
class PagedRows {
public:
  PagedRows(KernelEmitter &e, tile::PagedOp op);
  struct Place {
    mlir::Value page, row; ///< i32; row of the page
    mlir::Value left;      ///< rows from this one to the end of the page or sequence, i32
    mlir::Value inside;    ///< whether the row has a page
  };
  /// Reads the number of the page.
  Place find(mlir::Value row);
  /// Elements from the base of the pool, i64, to the row.
  mlir::Value getOffset(const Place &place) const;
  /// How many rows a page is after the one before it, i32, if it is a whole number.
  mlir::Value getRowsOfPage() const { return rowsBetweenPages; }
  /// In a branch that is seldom taken: what follows from the size of the pool is computed in it.
  /// ptxas would move divisions and comparisons in front of it.
  void hideExtents();

private:
  friend class PagedBoxes;
  KernelEmitter &e;
  tile::PagedOp op;
  View pool;
  mlir::Value size, rowsBetweenPages;
};

struct ReadNumbers;

/// Boxes of rows that lie together, one after the other. Rows of a page are a multiple of those of
/// a box, so that a division finds the first box, and comparisons the others. The numbers of pages
/// are read once for the same boxes of two pools, such as those of keys and values, if constraints
/// say that their pages have as many rows, and the role has registers for them.
class PagedBoxes {
public:
  /// `boxes` is how many there are. The first begins at row `first`, a multiple of `rowsOfBox`
  /// unless there is no table.
  PagedBoxes(PagedRows &rows, mlir::Value first, int64_t rowsOfBox, int64_t boxes);
  struct Box {
    mlir::Value page, row; ///< i32; row of the page
    mlir::Value size;      ///< how many of the rows exist, i32
  };
  /// Reads the number of the page.
  Box next();
  /// Whether all numbers may be read ahead of their use, and are kept.
  bool areKept() const { return kept; }
  /// Before the first `next`: what follows from the row is computed behind this, as with
  /// hideExtents.
  void hideRow();
  /// Before the first `next`: reads all numbers, unless they were read. Returns whether each box is
  /// a whole page that exists, so that it has `rowsOfBox` rows from the first row of a page on.
  mlir::Value readAll();
  /// The number of the page of a box that was read.
  mlir::Value getNumber(int64_t box) const;

private:
  /// Divides, which only the boxes of a page in several ones need.
  void findFirst(mlir::Value rowsOfPage);
  mlir::Value readNumber(mlir::Value inside);

  PagedRows &rows;
  ThreadBuilder &b;
  int64_t rowsOfBox;
  mlir::Value row, limit; ///< of the sequence: this row, and the first that has no page
  mlir::Value rowOfPage;
  mlir::Value address, distance; ///< of the number of the page, and between two numbers, in bytes
  int64_t boxes;
  ReadNumbers *kept = nullptr; ///< of pages, that were read
  size_t count = 0;            ///< boxes so far
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_PAGEDACCESS_H
