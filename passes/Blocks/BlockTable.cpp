// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of blocks. The first matching row applies, so specific rows precede general ones, and
// rows for limited lengths precede those for any. A comment names the GPU and the date of the
// measurement that a row is from; bench/tune.py measures blocks for a row.

#include "passes/Blocks/BlockTable.h"

#include "base/Target/Target.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <optional>

using namespace tilewright;

namespace {

constexpr MaskKind anyMask = MaskKind::Any, none = MaskKind::None, some = MaskKind::Some,
                   ascending = MaskKind::Ascending;
struct Entry {
  const char *target;
  BlockNumbers numbers;
};

// The forward (below) with a captured tile, such as a bias, per block of keys, which takes as much
// shared memory as two operands.
constexpr Entry forwardWithCaptures[] = {
    // 8-bit operands, as below (forwardRows): by the rows for 16 bits, registers of D 64 to 256 are
    // spilled, at D 128 8,578 bytes.
    {"sm_90a", 8, 128, 0, anyMask, 0, 128, 0, 64},
    {"sm_90a", 8, 0, 0, anyMask, 0, 128, 0, 32},
    // One H200, 2026-11-23, a bias, S 2048 and 4096: D 64 362 and 372 TFLOP/s, by 128 x 128 339
    // and 334; D 128 508 and 517, by 112 keys 484 and 505; D 256 633 and 657, by 80 keys 559
    // and 591.
    {"sm_90a", 16, 128, 0, anyMask, 0, 192, 0, 128},
    {"sm_90a", 16, 192, 0, anyMask, 0, 192, 0, 96},
    {"sm_90a", 16, 256, 0, anyMask, 0, 128, 0, 128},
    // Not measured: the most keys that leave room for two stages.
    {"sm_90a", 16, 384, 0, anyMask, 0, 128, 0, 80},
    {"sm_90a", 16, 512, 0, anyMask, 0, 128, 0, 64},
};

// The forward with a random number per element. A thread's elements share a block of random numbers
// only if LLVM knows the low bits of their positions, which requires a power of two keys.
constexpr Entry forwardWithWork[] = {
    {"sm_90a", 8, 0, 0, anyMask, 0, 128, 0, 32}, // as in forwardRows
    // One H200, 2026-11-23, dropout, S 4096: D 64 268 TFLOP/s, by 192 x 128 273, which spills
    // 4 bytes, by 64 keys 254; D 128 416, by 64 keys 404, by 96 277.
    {"sm_90a", 16, 256, 0, anyMask, 0, 128, 0, 128},
};

// The forward with a function mapped over scores.
constexpr Entry forwardWithFunctions[] = {
    // 8-bit operands become f16 in registers: with 192 rows by 80 keys, threads of 168 registers
    // spill 6,668 bytes at D 256, with 128 by 64 none of 248.
    {"sm_90a", 8, 256, 0, none, 0, 128, 0, 64, 0, /*above=*/192},
    // One H200, 2026-11-26, softcap and ALiBi, D 128, S 2048 and 8192, over 128 by 128: 1.07, 1.11
    // and 0.99, 1.01; by 64 keys causal 1.07, 1.08 and 1.06, 1.07. Shorter 0.92 to 1.02.
    {"sm_90a", 16, 256, 0, none, 1024, 128, 0, 128, 0, /*above=*/192},
    {"sm_90a", 16, 256, 0, none, 0, 192, 0, 80, 0, /*above=*/192},
};

// A product of resident rows and streamed columns, and a product of its result with a streamed
// operand: attention, forward.
constexpr Entry forwardRows[] = {
    // Larger ones are faster, but skip less under a mask.
    {"cpu", 0, 0, 128, anyMask, 0, 128, 0, 128},
    {"cpu", 0, 0, 0, anyMask, 0, 128, 0, 64},
    // Packed sequences have no products of bytes.
    {"sm_90a", 8, 128, 0, anyMask, unknownLength, 128, 0, 64},
    // One H200, 2026-11-30, products of bytes. D 64: four warpgroups over three 1.33 at S 1024,
    // causal 1.09 at 8192; by 64 keys 0.90 and 0.86, by 96 0.95 and 0.97.
    {"sm_90a", 8, 64, 0, anyMask, 0, 256, 0, 128},
    // D 128, tiles from a counter: three warpgroups over two by 128 keys at S 1024, 2048 and 4096
    // 1.01, 1.15, 1.16, causal 0.92, 1.04, 1.10. Two by 96 keys over 128, on 2026-11-29: at S 1024
    // and 2048 1.01, beyond 1.05 to 1.08, causal 0.92 to 0.94. Three by 96, causal: 0.89 to 0.95.
    {"sm_90a", 8, 128, 0, none, 0, 192, 0, 128, 0, /*above=*/120},
    {"sm_90a", 8, 128, 0, some, 1024, 128, 0, 128, 0, /*above=*/120},
    {"sm_90a", 8, 128, 0, some, 0, 192, 0, 128, 0, /*above=*/120},
    {"sm_90a", 8, 128, 0, none, 0, 128, 0, 96},
    {"sm_90a", 8, 128, 0, anyMask, 0, 128, 0, 128},
    // Not measured: 8-bit operands become f16 in registers, for which larger blocks have no room.
    {"gpu", 8, 128, 0, anyMask, 0, 128, 0, 64},
    // Packed as before. Otherwise 2.6 of 32 keys with f16 at S 8192; full 2.2 at 1024.
    {"sm_90a", 8, 256, 0, anyMask, unknownLength, 128, 0, 32},
    {"sm_90a", 8, 256, 0, anyMask, 0, 128, 0, 64},
    {"sm_90a", 8, 0, 0, anyMask, 0, 128, 0, 32},
    {"gpu", 8, 0, 0, anyMask, 0, 64, 0, 32},
    // One H200, 2026-11-22: it has the speed of 192 rows, and of steps of 112 keys under a mask
    // (0.93 of 128). Short loops: commit 7f4d29e. For narrow rows, 128 rows are better at no
    // length.
    {"sm_90a", 16, 96, 0, anyMask, 0, 192, 0, 128},
    // One H100, 2026-11-25, 32 documents in 16,384 tokens, full and causal: D 64 368
    // and 266 TFLOP/s, by 128 keys 359 and 262, by 96 361 and 262.
    {"sm_90a", 16, 128, 0, ascending, 0, 192, 0, 112},
    {"sm_90a", 16, 128, 0, some, 1024, 128, 0, 128},
    {"sm_90a", 16, 128, 0, anyMask, 0, 192, 0, 128},
    // One H200, 2026-11-27, D 72 to 96: 192 rows by 112 keys are 1.09 to 1.28 of 128 by 128 at
    // S 4096, 128 keys spill from D 80 on. D 72 by 128 keys has 1.02 of 112.
    {"sm_90a", 16, 160, 0, none, 512, 128, 0, 128},
    {"sm_90a", 16, 160, 0, none, 0, 192, 0, 128, 0, 0, /*narrow=*/144},
    {"sm_90a", 16, 160, 0, none, 1024, 128, 0, 128},
    {"sm_90a", 16, 160, 0, some, 512, 128, 0, 128},
    {"sm_90a", 16, 160, 0, some, 2048, 192, 0, 96},
    {"sm_90a", 16, 160, 0, anyMask, 0, 192, 0, 112},
    // D 88 by 128 x 128 has 0.72 to 0.99: V takes a third more shared memory than at D 96.
    {"sm_90a", 16, 192, 0, none, 0, 192, 0, 112, 0, 0, /*narrow=*/176},
    {"sm_90a", 16, 192, 0, some, 0, 192, 0, 96, 0, 0, /*narrow=*/176},
    {"sm_90a", 16, 192, 0, none, 1024, 128, 0, 128},
    {"sm_90a", 16, 192, 0, some, 1024, 128, 0, 128},
    {"sm_90a", 16, 192, 0, some, 0, 192, 0, 96},
    {"sm_90a", 16, 192, 0, anyMask, 0, 192, 0, 112},
    // Documents as at D 64: 500 and 366, by 128 keys 489 and 364, by 112 497 and 368, by 80 495 and
    // 369.
    {"sm_90a", 16, 256, 0, ascending, 0, 128, 0, 96},
    // One H200, 2026-11-26: three warpgroups by 64 keys over two by 128 keys at D 128 have 1.02 at
    // S 512, 0.95 at 1024, 1.03 to 1.05 beyond, causal 0.97, 0.98 and 1.03 to 1.05; packed and
    // causal 0.92 to 0.99.
    {"sm_90a", 16, 256, 0, none, 1024, 128, 0, 128},
    {"sm_90a", 16, 256, 0, some, 1024, 128, 0, 128},
    {"sm_90a", 16, 256, 0, some, unknownLength, 128, 0, 128},
    {"sm_90a", 16, 256, 0, anyMask, 0, 192, 0, 64},
    // One H200, 2026-11-27, 192 by 64 over 128 by 112: D 136 1.04 to 1.15, causal 1.14 to 1.19;
    // D 144 0.95 to 0.99, causal 1.03 to 1.17; D 152 1.05 to 1.29, causal 1.19 to 1.32; D 160 from
    // S 4096 on 1.01 and 1.02, causal 0.98 to 1.08.
    {"sm_90a", 16, 320, 0, some, 0, 192, 0, 64},
    {"sm_90a", 16, 288, 0, none, 0, 192, 0, 64, 0, 0, /*narrow=*/272},
    {"sm_90a", 16, 288, 0, anyMask, 0, 128, 0, 112},
    {"sm_90a", 16, 320, 0, none, 0, 192, 0, 64, 0, 0, /*narrow=*/304},
    {"sm_90a", 16, 320, 0, none, 1024, 128, 0, 96},
    {"sm_90a", 16, 320, 0, anyMask, 0, 192, 0, 64},
    // One H200, 2026-11-29, D 192 with DV 128, packed, causal, over pages of 64 rows: 1.07
    // of 96 keys; in one piece 1.01 and 1.03.
    {"sm_90a", 16, 384, 0, anyMask, unknownLength, 128, 0, 128, 0, 0, /*narrow=*/256},
    // One H200, 2026-11-26: D 176 and 192 by 96 keys 0.95 to 1.05 of 112, causal 1.00 to 1.11.
    {"sm_90a", 16, 384, 0, anyMask, 0, 128, 0, 96},
    // As at D 136, by 64 keys over 80: D 200 to 224 at S 512 1.02 to 1.07, beyond 0.96 to 1.02;
    // causal up to S 1024 1.01 to 1.11, beyond 0.95 to 1.01. By 96 keys 0.77 to 0.91, at D 224 0.93
    // to 1.01. On 2026-11-26: D 256 by 64 keys 1.00 to 1.03 of 80, packed 1.01 to 1.09, a window
    // 1.03 to 1.05.
    {"sm_90a", 16, 448, 0, none, 512, 128, 0, 64},
    {"sm_90a", 16, 448, 0, none, 0, 128, 0, 64, 0, 0, /*narrow=*/400},
    {"sm_90a", 16, 448, 0, some, 1024, 128, 0, 64},
    {"sm_90a", 16, 448, 0, anyMask, 0, 128, 0, 80},
    {"sm_90a", 16, 512, 0, anyMask, 0, 128, 0, 64},
    // Not measured, D 320 to 512: blocks that fit, without spills or with few of them.
    {"sm_90a", 16, 768, 0, anyMask, 0, 128, 0, 32},
    {"sm_90a", 16, 1024, 0, anyMask, 0, 32, 0, 32},
    // Code for sm_80 on one H200: 128 x 64 with 4 warps, 0.94 of FlashAttention-2, where 8
    // have 0.70; at D 128, 128 x 128 with 8 warps, and 64 x 64 with a mask.
    {"gpu", 16, 128, 0, anyMask, 0, 128, 0, 64},
    {"gpu", 16, 256, 0, none, 0, 128, 0, 128},
    {"gpu", 16, 256, 0, anyMask, 0, 64, 0, 64},
    // Not measured: what fits the 99 KB of the smallest chips.
    {"gpu", 16, 512, 0, anyMask, 0, 64, 0, 32},
    {"gpu", 16, 1024, 0, anyMask, 0, 32, 0, 16},
};

// Two such products that contribute to three sums, one of them in memory: attention, backward; or
// to two, without dQ. Rows are keys, a step is of queries.
constexpr Entry backwardRows[] = {
    // No measurement of others is on record.
    {"cpu", 0, 0, 128, anyMask, 0, 128, 0, 64},
    {"cpu", 0, 0, 0, anyMask, 0, 64, 0, 64},
    // One H200, 2026-11-22: with 128 queries two warpgroups share the rows of dQ.
    {"sm_90a", 16, 128, 0, anyMask, 0, 128, 0, 128},
    // Code for sm_80 on one H200, tune.py at S 4096: shared memory is the limit, and few queries
    // are best if rows are short.
    {"gpu", 16, 128, 0, anyMask, 0, 128, 0, 32},
    {"gpu", 16, 256, 0, anyMask, 0, 128, 0, 64, 131584},
    // Not measured: what fits the 99 KB of the smallest chips.
    {"gpu", 16, 256, 0, anyMask, 0, 64, 0, 64},
};

// Wider rows or elements.
constexpr Entry wideBackwardRows[] = {
    // Not measured, as above.
    {"gpu", 0, 256, 0, anyMask, 0, 64, 0, 32},
    {"gpu", 0, 512, 0, anyMask, 0, 32, 0, 32},
    {"gpu", 0, 0, 0, anyMask, 0, 16, 0, 16},
};

// Of these, without dQ: two roles compute, each one of the sums.
constexpr Entry wideWithoutQueries[] = {
    // One H200, 2026-11-26. D 192 by 96 queries without a mask 0.93 at S 512, 0.98 at 1024, 0.99
    // at 2048 and 1.02 beyond, with DV 128 0.91, 0.97, 1.01 and 1.03 to 1.05; causal 0.87 to 1.00.
    {"sm_90a", 16, 384, 0, none, 2048, 64, 0, 64},
    {"sm_90a", 16, 384, 0, none, 0, 64, 0, 96},
    {"sm_90a", 16, 512, 0, anyMask, 0, 64, 0, 64},
};

// With dQ only.
constexpr Entry backwardWithQueries[] = {
    {"sm_90a", 16, 128, 0, anyMask, 0, 128, 0, 128},
    // One H200, 2026-11-26, D 128, 80 queries over 64: without a mask 0.99 at S 512, 1.02 to 1.08
    // from 1024 on; causal 0.93 at 512, 1.00 at 4096, 1.03 and 1.05 beyond; D 96 1.02 and 1.03,
    // causal 0.97 at 1024 and 1.01 and 1.04 from 4096 on. A window of 1024 0.97. With 80 they spill
    // if rows begin inside of an array.
    {"sm_90a", 16, 256, 0, anyMask, unknownLength, 128, 0, 64},
    {"sm_90a", 16, 256, 0, none, 0, 128, 0, 80},
    {"sm_90a", 16, 256, 0, some, 4096, 128, 0, 64},
    {"sm_90a", 16, 256, 0, some, 0, 128, 0, 80},
};

// The same with a random number per element.
constexpr Entry backwardWithWork[] = {
    // One H200, dropout, S 4096, 2026-11-28. D 64 by 64, 80, 96 and 112 queries: 336, 345, 349
    // and 320 TFLOP/s, causal 319, 313, 320 and 280; 128 spill 156 bytes. D 128 by 48: 494, by 64,
    // which spill 20 bytes, 505; causal 444 and 416. At D 64, masks and packed rows spill 28
    // to 80 bytes by 96.
    {"sm_90a", 16, 128, 0, anyMask, unknownLength, 128, 0, 64},
    {"sm_90a", 16, 128, 0, none, 0, 128, 0, 96},
    {"sm_90a", 16, 128, 0, anyMask, 0, 128, 0, 64},
    {"sm_90a", 16, 256, 0, anyMask, 0, 128, 0, 48},
};

// The same with a function mapped over scores: with 80 queries softcap spills 160 bytes, a bias
// 192.
constexpr Entry backwardWithFunctions[] = {
    {"sm_90a", 16, 128, 0, anyMask, 0, 128, 0, 128},
    {"sm_90a", 16, 256, 0, anyMask, 0, 128, 0, 64},
};

// A product of a combination of two such products with a streamed operand: a single gradient, dQ or
// dK of attention. Its rows are resident; a step is of the other dimension.
constexpr Entry gradientRows[] = {
    // No measurement of others is on record.
    {"cpu", 0, 0, 128, anyMask, 0, 64, 0, 128},
    {"cpu", 0, 0, 0, anyMask, 0, 64, 0, 64},
    {"sm_90a", 16, 128, 0, anyMask, 0, 128, 0, 128},
    {"sm_90a", 16, 256, 0, anyMask, 0, 128, 0, 96},
    // One H200, bf16, S 4096, 2026-11-22: bench/peers.py --direction backward --dims 256
    // --cases "none S4096" --profile: dQ and dK.
    {"sm_90a", 16, 512, 0, anyMask, 0, 128, 0, 64},
    // The blocks of the whole backward, with rows and step exchanged, for dQ in a kernel of its
    // own.
    {"gpu", 16, 128, 0, anyMask, 0, 32, 0, 128},
    {"gpu", 16, 256, 0, anyMask, 0, 64, 0, 128, 114688},
    // Not measured, as above.
    {"gpu", 16, 256, 0, anyMask, 0, 64, 0, 64},
    // Not measured. In code for sm_80 at D 256 the loops of dK, dV and dQ by themselves have 979
    // instructions for 32 x 32 pairs and no atomics, where the whole backward by 32 x 32 has 1374.
    // That of dV takes the most shared memory.
    {"gpu", 16, 512, 0, anyMask, 0, 64, 0, 32, 106752},
    // Not measured, as above.
    {"gpu", 0, 256, 0, anyMask, 0, 32, 0, 64},
    {"gpu", 0, 512, 0, anyMask, 0, 32, 0, 32},
    {"gpu", 0, 0, 0, anyMask, 0, 16, 0, 16},
};

// A single gradient from stored probabilities: a tile of rows by steps is loaded in each iteration.
constexpr Entry gradientOfPairs[] = {
    // No measurement of others is on record.
    {"cpu", 0, 0, 128, anyMask, 0, 64, 0, 128},
    {"cpu", 0, 0, 0, anyMask, 0, 64, 0, 64},
    {"gpu", 16, 128, 0, anyMask, 0, 64, 0, 128},
    {"gpu", 16, 256, 0, anyMask, 0, 64, 0, 64},
    // Not measured: what fits the 99 KB of the smallest chips.
    {"gpu", 0, 256, 0, anyMask, 0, 32, 0, 64},
    {"gpu", 0, 512, 0, anyMask, 0, 32, 0, 32},
    {"gpu", 0, 0, 0, anyMask, 0, 16, 0, 16},
};

// The gradients with respect to keys and values from stored probabilities.
constexpr Entry gradientsOfPairs[] = {
    // No measurement of others is on record.
    {"cpu", 0, 0, 128, anyMask, 0, 128, 0, 64},
    {"cpu", 0, 0, 0, anyMask, 0, 64, 0, 64},
    {"gpu", 16, 128, 0, anyMask, 0, 128, 0, 32},
    {"gpu", 16, 256, 0, anyMask, 0, 128, 0, 64},
    // Not measured: what fits the 99 KB of the smallest chips.
    {"gpu", 0, 256, 0, anyMask, 0, 64, 0, 32},
    {"gpu", 0, 512, 0, anyMask, 0, 32, 0, 32},
    {"gpu", 0, 0, 0, anyMask, 0, 16, 0, 16},
};

// Wide rows in the structure of a forward, where the loop carries nothing but sums: dV of attention
// in a kernel of its own. Rows are keys, a step is of queries.
constexpr Entry wideForwardOfSums[] = {
    // No measurement of others is on record.
    {"sm_90a", 16, 384, 0, anyMask, 0, 128, 0, 96, 0, /*above=*/256},
    {"sm_90a", 16, 512, 0, anyMask, 0, 128, 0, 80, 0, /*above=*/256},
    {"gpu", 16, 512, 0, anyMask, 0, 64, 0, 64, /*shared=*/104 * 1024, /*above=*/256},
    {"gpu", 16, 1024, 0, anyMask, 0, 16, 0, 16, 0, /*above=*/512},
};

// Two products of resident rows with streamed ones, of which neither reads the other: the gradient
// of scores. Its results are rows by steps.
constexpr Entry pairRows[] = {
    // No measurement of others is on record.
    {"cpu", 0, 0, 128, anyMask, 0, 128, 0, 64},
    {"cpu", 0, 0, 0, anyMask, 0, 64, 0, 64},
    {"sm_90a", 16, 64, 0, anyMask, 0, 128, 0, 64},
    {"sm_90a", 16, 128, 0, anyMask, 0, 128, 0, 128},
    {"sm_90a", 16, 256, 0, anyMask, 0, 128, 0, 64},
    // Not measured: what fits the 99 KB of the smallest chips.
    {"gpu", 16, 256, 0, anyMask, 0, 64, 0, 64},
    {"gpu", 0, 256, 0, anyMask, 0, 64, 0, 32},
    {"gpu", 0, 512, 0, anyMask, 0, 32, 0, 32},
    {"gpu", 0, 0, 0, anyMask, 0, 16, 0, 16},
};

// Kernels that load whole rows and have no products: delta of attention's backward.
constexpr Entry rowRows[] = {
    // No measurement of others is on record: the rows of the backward's steps, which such a kernel
    // precedes, but for sm_90a.
    {"cpu", 0, 0, 0, anyMask, 0, 64, 0, 0},
    {"sm_90a", 16, 1024, 0, anyMask, 0, 32, 0, 0},
    {"gpu", 16, 128, 0, anyMask, 0, 32, 0, 0},
    {"gpu", 16, 256, 0, anyMask, 0, 64, 0, 0},
    {"gpu", 0, 512, 0, anyMask, 0, 32, 0, 0},
    // Not measured: 16,384 elements, since the values of more spill, at 4,096 columns and 16 rows
    // 1,432 bytes.
    {"gpu", 8, 1024, 0, anyMask, 0, 16, 0, 0},
    {"gpu", 8, 2048, 0, anyMask, 0, 8, 0, 0},
    {"gpu", 8, 4096, 0, anyMask, 0, 4, 0, 0},
    {"gpu", 8, 8192, 0, anyMask, 0, 2, 0, 0},
    {"gpu", 8, 0, 0, anyMask, 0, 1, 0, 0},
    {"gpu", 16, 2048, 0, anyMask, 0, 16, 0, 0},
    {"gpu", 16, 4096, 0, anyMask, 0, 8, 0, 0},
    {"gpu", 16, 8192, 0, anyMask, 0, 4, 0, 0},
    {"gpu", 16, 16384, 0, anyMask, 0, 2, 0, 0},
    {"gpu", 16, 0, 0, anyMask, 0, 1, 0, 0},
    {"gpu", 32, 4096, 0, anyMask, 0, 16, 0, 0},
    {"gpu", 32, 8192, 0, anyMask, 0, 8, 0, 0},
    {"gpu", 32, 16384, 0, anyMask, 0, 4, 0, 0},
    {"gpu", 32, 32768, 0, anyMask, 0, 2, 0, 0},
    {"gpu", 32, 0, 0, anyMask, 0, 1, 0, 0},
    // Half of the elements, of two registers each: by 16 rows, 2,048 columns of f64 spilled 1,980
    // bytes, 8,192 8,472.
    {"gpu", 64, 4096, 0, anyMask, 0, 16, 0, 0},
    {"gpu", 64, 8192, 0, anyMask, 0, 8, 0, 0},
    {"gpu", 64, 16384, 0, anyMask, 0, 4, 0, 0},
    {"gpu", 64, 32768, 0, anyMask, 0, 2, 0, 0},
    {"gpu", 64, 0, 0, anyMask, 0, 1, 0, 0},
    {"gpu", 0, 0, 0, anyMask, 0, 16, 0, 0},
};

// Two chains of the forward with a streamed operand in common: both sums are live simultaneously.
constexpr Entry twoChainsRows[] = {
    // No measurement of others is on record.
    {"cpu", 0, 0, 128, anyMask, 0, 128, 0, 128},
    {"cpu", 0, 0, 0, anyMask, 0, 128, 0, 64},
    // Not measured: the most columns without spills.
    {"sm_90a", 16, 128, 0, anyMask, 0, 128, 0, 80},
    // One H200, differential attention, D 64, DV 128, S 4096, causal: 452 TFLOP/s, where 32 keys
    // reached 387, and 64 with in_flight=2 435.
    {"sm_90a", 16, 256, 0, anyMask, 0, 128, 0, 48},
    // Not measured, as above.
    {"sm_90a", 16, 512, 0, anyMask, 0, 128, 0, 32},
    // Not measured: what fits the 99 KB of the smallest chips.
    {"gpu", 0, 256, 0, anyMask, 0, 64, 0, 32},
    {"gpu", 0, 512, 0, anyMask, 0, 32, 0, 32},
    {"gpu", 0, 0, 0, anyMask, 0, 16, 0, 16},
};

// Blocks that are multiplied with themselves and with a state, which they update: linear attention.
constexpr Entry stateRows[] = {
    // No measurement of others is on record.
    {"cpu", 0, 0, 0, anyMask, 0, 64, 0, 0},
    // Not measured: two warpgroups share 128 rows.
    {"sm_90a", 16, 256, 0, anyMask, 0, 128, 0, 0},
    // Not measured: what fits the 99 KB of the smallest chips.
    {"gpu", 16, 256, 0, anyMask, 0, 64, 0, 0},
    {"gpu", 0, 512, 0, anyMask, 0, 32, 0, 0},
    {"gpu", 0, 0, 0, anyMask, 0, 16, 0, 0},
};

// One product of streamed operands.
constexpr Entry productRows[] = {
    // No measurement of others is on record.
    {"cpu", 0, 0, 0, anyMask, 0, 128, 128, 64},
    // One H200, 8192 cubed, 20 interleaved rounds: 1.60 ms, where 256 x 128 took 1.68 and 128 x 128
    // 1.79 (docs/design/roles.md).
    {"sm_90a", 16, 0, 0, anyMask, 0, 128, 256, 64},
    // Not measured: what fits the 99 KB of the smallest chips.
    {"sm_90a", 0, 0, 0, anyMask, 0, 64, 64, 64},
    // Code for sm_80 on one H200, 8192 cubed: 0.56 of cuBLAS, 32 along k 0.50.
    {"gpu", 16, 0, 0, anyMask, 0, 128, 128, 64},
    // Not measured, as above.
    {"gpu", 0, 0, 0, anyMask, 0, 64, 64, 32},
};

// Two products of streamed operands: a gated linear unit. The two sums take as many registers as
// one sum of twice the columns.
constexpr Entry twoProductsRows[] = {
    // No measurement of others is on record.
    {"cpu", 0, 0, 0, anyMask, 0, 128, 128, 64},
    // Not measured: half the columns of a single product, for each of the two.
    {"sm_90a", 16, 0, 0, anyMask, 0, 128, 128, 64},
    {"gpu", 16, 0, 0, anyMask, 0, 128, 64, 64},
    // Not measured: what fits the 99 KB of the smallest chips.
    {"gpu", 0, 0, 0, anyMask, 0, 64, 64, 32},
};

// All other structures, where the cost model (BlockModel.h) does not apply. Not measured: fits the
// 99 KB of the smallest chips if the loop has at most one resident and two streamed tiles.
constexpr Entry otherRows[] = {
    {"cpu", 0, 0, 128, anyMask, 0, 64, 64, 128}, //
    {"cpu", 0, 0, 0, anyMask, 0, 64, 64, 64},    //
    {"gpu", 0, 256, 0, anyMask, 0, 64, 64, 64},  //
    {"gpu", 0, 512, 0, anyMask, 0, 64, 64, 32},  //
    {"gpu", 0, 1024, 0, anyMask, 0, 32, 32, 16}, //
    {"", 0, 0, 0, anyMask, 0, 16, 16, 16},
};

/// The first two structures of LoopStructure's comment, a gradient of attention, its backward with
/// and without dQ, two forwards side by side, a state that iterations read and update, the gradient
/// of scores, rows without products, and gradients from stored probabilities.
constexpr const char *forward = "sum (R S) S", *product = "sum S S", *gradient = "sum (R S)(R S) S",
                     *backward = "add (R S)(R S) R, sum (R S) S, sum (R S)(R S) S",
                     *withoutQueries = "sum (R S) S, sum (R S)(R S) S",
                     *twoChains = "sum (R S) S, sum (R S) S", *twoProducts = "sum S S, sum S S",
                     *state = "store (S S) S, store R S, sum S S", *pairs = "sum R S, sum R S",
                     *rowsOnly = "rows", *stored = "sum (R S) S, sum S S";

} // namespace

BlockTable::BlockTable() {
  auto append = [&](const char *structure, llvm::ArrayRef<Entry> entries, int64_t captures = 0,
                    int64_t work = 0, int64_t stateless = 0) {
    for (const auto &[target, numbers] : entries)
      rows.push_back({numbers, structure, target, captures, work, stateless});
  };
  append(forward, gradientOfPairs, /*captures=*/1, /*work=*/0, /*stateless=*/1);
  append(stored, gradientsOfPairs, /*captures=*/1);
  append(forward, forwardWithWork, /*captures=*/0, randomWork);
  append(backward, backwardWithWork, /*captures=*/0, randomWork);
  append(withoutQueries, backwardWithWork, /*captures=*/0, randomWork);
  append(backward, backwardWithFunctions, /*captures=*/0, /*work=*/1);
  append(forward, forwardWithCaptures, /*captures=*/1);
  append(forward, forwardWithFunctions, /*captures=*/0, /*work=*/1);
  append(forward, wideForwardOfSums, /*captures=*/0, /*work=*/0, /*stateless=*/1);
  append(forward, forwardRows);
  append(backward, backwardWithQueries);
  append(backward, backwardRows);
  append(withoutQueries, backwardRows);
  append(withoutQueries, wideWithoutQueries);
  append(backward, wideBackwardRows);
  append(withoutQueries, wideBackwardRows);
  append(gradient, gradientRows);
  append(pairs, pairRows);
  append(product, productRows);
  append(twoChains, twoChainsRows);
  append(twoProducts, twoProductsRows);
  append(state, stateRows);
  append(rowsOnly, rowRows);
  append("", otherRows);
}

llvm::StringRef tilewright::getName(MaskKind kind) {
  return llvm::find_if(maskKinds, [&](const auto &each) { return each.second == kind; })->first;
}

/// Rows for a chip whose code runs on later ones serve those of them that have no roles either:
/// theirs is the same code, in blocks that `shared` limits.
static bool serves(llvm::StringRef ofRow, llvm::StringRef asked) {
  if (ofRow.empty() || ofRow == asked || (ofRow == "gpu" && asked != "cpu"))
    return true;
  const Target *own = Target::find(ofRow), *other = Target::find(asked);
  return own && other && !other->hasRoles() && own->runsOn(*other);
}

bool BlockRow::matches(const BlockQuery &query) const {
  bool isTarget = serves(target, query.target);
  bool isWidth =
      (!elements || query.elements <= elements) && (!bytes || query.getBytes() <= bytes) &&
      (!narrow || query.getLeastBytes() == narrow) && query.getBytes() >= above + (above > 0);
  bool isMask = mask == anyMask || mask == query.mask || (mask == some && query.mask == ascending);
  int64_t asked = query.hasLength ? query.length : query.usual;
  bool isLength = length == unknownLength ? query.usual && !query.hasLength
                                          : !length || (asked && asked <= length);
  const Target *chip = Target::find(query.target);
  int64_t room = query.shared ? query.shared : chip ? chip->sharedOfBlock : shared;
  bool isRoom = room >= shared;
  return (structure.empty() || structure == query.structure) && isTarget && isRoom &&
         (!captures || query.captures) && (!stateless || !query.hasStates) && query.work >= work &&
         (!bits || query.bits <= bits) && isWidth && isMask && isLength;
}

std::string BlockRow::describe() const {
  std::vector<std::string> parts;
  if (structure.empty())
    parts.push_back("any structure");
  if (!target.empty())
    parts.push_back(target);
  if (bits)
    parts.push_back("up to " + std::to_string(bits) + " bits");
  std::string least = above ? "above " + std::to_string(above) + " and " : "";
  if (bytes || above)
    parts.push_back("rows " + least + (bytes ? "up to " + std::to_string(bytes) : "of any") +
                    " bytes");
  if (narrow)
    parts.push_back("the shortest rows of " + std::to_string(narrow) + " bytes");
  if (elements)
    parts.push_back("rows up to " + std::to_string(elements) + " elements");
  if (mask != MaskKind::Any)
    parts.push_back(mask == none   ? "no mask"
                    : mask == some ? "a mask"
                                   : "a mask of captures that ascend");
  if (length)
    parts.push_back(length == unknownLength ? "loops whose length no launch knows"
                                            : "loops over up to " + std::to_string(length));
  if (captures)
    parts.push_back("captured tiles");
  if (work)
    parts.push_back(std::to_string(work) + " operations or more for an element");
  if (stateless)
    parts.push_back("sums of products only");
  if (shared)
    parts.push_back("at least " + std::to_string(shared) + " bytes of shared memory");
  return parts.empty() ? "any kernel" : llvm::join(parts, ", ");
}

BlockChoice BlockTable::choose(const BlockQuery &query) const {
  BlockChoice choice;
  for (const auto &[i, row] : llvm::enumerate(rows)) {
    if (row.matches(query)) {
      choice.row = &row;
      choice.isUsers = i < numUsers;
      break;
    }
    BlockQuery shorter = query;
    shorter.length = row.length;
    if (row.length > 0 && query.hasLength && !query.length && row.matches(shorter))
      choice.shorter.push_back(row.length);
  }
  llvm::sort(choice.shorter);
  choice.shorter.erase(llvm::unique(choice.shorter), choice.shorter.end());
  return choice;
}
