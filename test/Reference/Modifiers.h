// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Masks and score modifiers that the shipped kernels are tested with. Each is a function of (b, h,
// i, j); tests may also write a lambda.

#ifndef TILEWRIGHT_TEST_REFERENCE_MODIFIERS_H
#define TILEWRIGHT_TEST_REFERENCE_MODIFIERS_H

#include "test/Reference/Attention.h"

namespace tilewright::reference {

/// Attention sinks with a sliding window (StreamingLLM, Xiao et al., 2023), causal: keeps j <= i +
/// shift where j < sinks or j >= i + shift - left.
MaskMod sinkPlusWindow(int64_t sinks, int64_t left, int64_t shift = 0);

/// Prefix-LM (Raffel et al., T5, 2020): keeps j <= i + shift, and the whole prefix, j < prefix[b].
MaskMod prefixLm(std::vector<int64_t> prefix, int64_t shift = 0);

/// Packed documents: keeps pairs of one document; queryIds [B, Sq], keyIds [B, Skv] (B may be 1).
MaskMod documents(std::vector<int64_t> queryIds, std::vector<int64_t> keyIds, int64_t numQueries,
                  int64_t numKeys);

/// A list of kept blocks: keeps (i, j) where table [numRowBlocks, numKeyBlocks] is not zero at
/// (i / blockRows, j / blockKeys).
MaskMod blockSparse(std::vector<char> table, int64_t numKeyBlocks, int64_t blockRows,
                    int64_t blockKeys);

MaskMod both(MaskMod first, MaskMod second);

/// cap * tanh(s / cap) (Gemma 2, 2024).
ScoreMod softcap(double cap);

/// s - slopes[h] * |i + shift - j| (ALiBi, Press et al., 2021; the two-sided form).
ScoreMod alibi(std::vector<double> slopes, int64_t shift = 0);

/// The slopes 2^(-8 (h + 1) / numHeads) of the ALiBi paper.
std::vector<double> alibiSlopes(int64_t numHeads);

/// s + table[h, clamp(j - i, -maxDistance, maxDistance) + maxDistance], table [H, 2 maxDistance +
/// 1] (Shaw et al., 2018; T5).
ScoreMod relativeBias(std::vector<double> table, int64_t maxDistance);

/// The bucket of key j for the query i, by the formula of T5 (Raffel et al., 2020; in f32, as in
/// its code): half of the buckets for each direction, or all of them for the past.
int64_t t5Bucket(int64_t i, int64_t j, int64_t buckets, int64_t maxDistance, bool isBidirectional);

/// s + table[h, t5Bucket(i, j)], table [H, buckets].
ScoreMod t5Bias(std::vector<double> table, int64_t buckets, int64_t maxDistance,
                bool isBidirectional);

/// outer(inner(s)).
ScoreMod compose(ScoreMod outer, ScoreMod inner);

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_MODIFIERS_H
