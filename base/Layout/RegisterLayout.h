// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a tile is distributed over the registers of a block.
//
// A tile of shape [rows, cols] (rank 1: [length]) is held by `numWarps` warps of 32 lanes with
// `registersPerThread` registers each, one element a register here; how small elements share a
// 32-bit register: see `wordOf`. Warp, lane and register are each written in mixed radix,
// least significant digit first, and every digit moves the element along one dimension by a fixed
// stride, or along none (a *replica* of the same element):
//
//   coordinate = sum over the digits d of warp, lane and register:  d * stride(d), along dim(d)
//
// So the three parts add up independently: coordinates(w, l, r) = W(w) + L(l) + R(r). Along every
// dimension the strides of the digits form a mixed radix themselves, which makes the map a
// bijection between elements and (warp, lane, register) without the replicas. Nothing has to be a
// power of two except the extents of lane digits.
//
// Units: coordinates and strides count elements. Extents that a family does not support are errors.

#ifndef TILEWRIGHT_BASE_LAYOUT_REGISTERLAYOUT_H
#define TILEWRIGHT_BASE_LAYOUT_REGISTERLAYOUT_H

#include "base/Support/Status.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::layout {

constexpr int kLanes = 32;

/// An element of a tile: {row, column}, or {index, 0} in rank 1.
using Coord = std::array<int64_t, 2>;

/// One digit of a warp, lane or register number.
struct Digit {
  static constexpr int kReplica = -1;

  int64_t extent = 1;
  int dim = kReplica; ///< 0, 1 or kReplica
  int64_t stride = 0; ///< elements along `dim`; 0 for a replica

  bool isReplica() const { return dim == kReplica; }
  friend bool operator==(const Digit &a, const Digit &b) {
    return a.extent == b.extent && a.dim == b.dim && a.stride == b.stride;
  }
};

/// The thread and register that hold an element.
struct Owner {
  int warp = 0, lane = 0, reg = 0;
  friend bool operator==(const Owner &a, const Owner &b) {
    return a.warp == b.warp && a.lane == b.lane && a.reg == b.reg;
  }
};

class RegisterLayout {
public:
  //===--------------------------------------------------------------------===//
  // Families
  //===--------------------------------------------------------------------===//

  /// The accumulator (C and D) of mma.sync m16n8, 32-bit elements. Warp w has row
  /// wm = w % warpsM and column wn = w / warpsM of a grid; it holds the atoms whose row is wm
  /// modulo warpsM and whose column is wn modulo warpsN. Registers: 4 an atom, along a row of atoms
  /// first.
  ///
  ///            columns  0   1    2   3    4   5    6   7
  ///     row 0          [lane 0] [lane 1] [lane 2] [lane 3]    registers 0, 1
  ///     row 1          [lane 4] [lane 5] [lane 6] [lane 7]
  ///     ...
  ///     row 7          [ln  28] [ln  29] [ln  30] [ln  31]
  ///     row 8          [lane 0] [lane 1] [lane 2] [lane 3]    registers 2, 3
  ///     ...
  ///
  /// Errors: rows no multiple of 16 * warpsM, columns no multiple of 8 * warpsN.
  static Result<RegisterLayout> mmaAccumulator(int64_t rows, int64_t cols, int warpsM, int warpsN);

  /// Operand a of mma.sync, [rows, k]: m16n8k32 (8 bits), m16n8k16 (16), m16n8k8 (32: tf32). With
  /// e = 32 / elementBits elements to a 32-bit word, an atom is 16 rows by 8 e columns of k:
  ///
  ///                k   0 .. e-1   e .. 2e-1    ..    4e .. 5e-1  ..
  ///     row 0          [lane 0]   [lane 1]     ..    [lane 0]    ..
  ///     row 1          [lane 4]   [lane 5]     ..    [lane 4]    ..
  ///                     word 0     word 0             word 2
  ///     row 8          [lane 0]   [lane 1]     ..    [lane 0]    ..
  ///                     word 1     word 1             word 3
  ///
  /// Registers: 4 e an atom in the order of the instruction, atoms along k first. The warps of a
  /// row of the grid (warpsN of them) hold the same. Errors: rows no multiple of 16 * warpsM, k no
  /// multiple of 8 e, other widths of elements.
  static Result<RegisterLayout> mmaOperandA(int64_t rows, int64_t k, int warpsM, int warpsN,
                                            int elementBits);

  /// Operand b of mma.sync, [k, cols]. An atom is 8 e rows of k by 8 columns; a column is held by 4
  /// lanes as a row of operand a is:
  ///
  ///              column  0         1         ..    7
  ///     k 0 .. e-1       [lane 0]  [lane 4]  ..    [ln 28]    word 0
  ///     k e .. 2e-1      [lane 1]  [lane 5]  ..    [ln 29]
  ///     ...
  ///     k 4e .. 5e-1     [lane 0]  [lane 4]  ..    [ln 28]    word 1
  ///
  /// Registers: 2 e an atom, atoms along k first. The warps of a column of the grid hold the same.
  /// Errors: k no multiple of 8 e, columns no multiple of 8 * warpsN, other widths of elements.
  static Result<RegisterLayout> mmaOperandB(int64_t k, int64_t cols, int warpsM, int warpsN,
                                            int elementBits);

  /// The accumulator of wgmma m64nNk*, f32. Row block g of 64 belongs to warpgroup
  /// g % warpgroups, rows 16 w to 16 w + 15 of it to warp w of the warpgroup; within them lanes and
  /// registers are those of mmaAccumulator. Registers: the N / 2 of a row block, then the next
  /// block's. It is the map of mmaAccumulator with warpsM = 4 * warpgroups, warpsN = 1.
  /// With rowPairs, lane i and registers 0 to 3 hold rows 2 (i / 4) and 2 (i / 4) + 1 of the 16.
  /// Errors: rows no multiple of 64 * warpgroups, columns no multiple of 8.
  static Result<RegisterLayout> wgmmaAccumulator(int64_t rows, int64_t cols, int warpgroups,
                                                 bool rowPairs = false);

  /// Operand a of wgmma in registers, [rows, k]; rows as in wgmmaAccumulator, else mmaOperandA.
  static Result<RegisterLayout> wgmmaOperandA(int64_t rows, int64_t k, int warpgroups,
                                              int elementBits, bool rowPairs = false);

  /// For coalesced access to global memory. A thread holds runs of `vector` elements along the last
  /// dimension; `lanesN` lanes of a warp (a power of two) are side by side along it, the other
  /// 32 / lanesN below each other, and the warps likewise in a grid of warpsM by warpsN (warp
  /// w at row w % warpsM, column w / warpsM). What is left repeats in registers, along the last
  /// dimension first. In rank 1 only lanesN lanes and warpsN warps share the elements.
  ///
  ///     vector 2, lanesN 8, warps 2 by 1; 16 columns:
  ///     row 0     [lane 0 ] [lane 1 ] ... [lane 7 ]    warp 0
  ///     ...
  ///     row 3     [lane 24] [lane 25] ... [lane 31]
  ///     row 4     [lane 0 ] ...                        warp 1
  ///
  /// Where n threads are along a dimension that has m rows (or runs) for them, gcd(n, m) share
  /// them and the others hold replicas. Thus how one dimension is spread never depends on the
  /// other. Errors: a last dimension that is no multiple of `vector`.
  static Result<RegisterLayout> blocked(const std::vector<int64_t> &shape, int vector, int lanesN,
                                        int warpsM, int warpsN);

  /// What a reduction of `parent` (rank 2) along `dim` leaves: rank 1, of the other dimension.
  /// Every thread that held an element of a row (column) holds the row's (column's) element once;
  /// it is replicated over the lanes and warps among which `dim` was spread.
  static RegisterLayout slice(const RegisterLayout &parent, int dim);

  /// What `parent` (rank 2) becomes when every thread combines its own elements of a row (`dim` 1)
  /// or column (0): one element for each thread that held some, counted by lanes first, then by
  /// warps.
  static RegisterLayout byThread(const RegisterLayout &parent, int dim);

  /// The layout of pairs of rows 2 i and 2 i + 1 (rank 2), if each is in one thread. The registers
  /// of a pair are counted where the first of them was.
  std::optional<RegisterLayout> ofRowPairs() const;

  /// Rows and columns swapped: the holder of [i, j] then holds [j, i].
  RegisterLayout transposed() const;

  //===--------------------------------------------------------------------===//
  // Maps
  //===--------------------------------------------------------------------===//

  int rank() const { return static_cast<int>(extents.size()); }
  const std::vector<int64_t> &shape() const { return extents; }
  int64_t numElements() const;
  int numWarps() const;
  int registersPerThread() const;
  const std::vector<Digit> &warpDigits() const { return warps; }
  const std::vector<Digit> &laneDigits() const { return lanes; }
  const std::vector<Digit> &registerDigits() const { return registers; }

  /// The element in a register. Precondition: warp, lane and register are in range.
  Coord element(int warp, int lane, int reg) const;
  Coord warpPart(int warp) const;
  Coord lanePart(int lane) const;
  Coord registerPart(int reg) const;

  /// All holders of an element, the canonical one first. Precondition: the element is in the tile.
  std::vector<Owner> owners(Coord element) const;
  /// The holder whose replica digits are all 0: it stores or counts the element.
  Owner canonicalOwner(Coord element) const;
  bool isCanonicalOwner(int warp, int lane, int reg) const;

  /// How many consecutive registers, from any multiple of that number, hold consecutive elements
  /// along `dim`: the widest vector of a load or store.
  int vectorLength(int dim) const;

  /// Whether both map every (warp, lane, register) to the same element.
  friend bool operator==(const RegisterLayout &a, const RegisterLayout &b);
  friend bool operator!=(const RegisterLayout &a, const RegisterLayout &b) { return !(a == b); }

  /// For messages and reports: each digit as extent:dim*stride.
  std::string str() const;

private:
  /// Lanes that hold rows i and i + 8 hold rows 2 i and 2 i + 1 instead.
  RegisterLayout withRowPairs() const;

  RegisterLayout(std::vector<int64_t> shape, std::vector<Digit> warps, std::vector<Digit> lanes,
                 std::vector<Digit> registers);

  std::vector<int64_t> extents;
  std::vector<Digit> warps, lanes, registers; ///< simplified: equal maps have equal digits
};

/// The 32-bit word of a thread that holds element `reg`, elements of `elementBits` (8, 16, 32)
/// packed in the order of registers, lowest bits first: what mma, ldmatrix and stmatrix expect.
inline int wordOf(int reg, int elementBits) { return reg * elementBits / 32; }

} // namespace tilewright::layout

#endif // TILEWRIGHT_BASE_LAYOUT_REGISTERLAYOUT_H
