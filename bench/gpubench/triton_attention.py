# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention forward in idiomatic Triton: one program per block of queries, with block sizes from Triton's tuner.
Requires contiguous arrays whose length is a multiple of 128."""

import itertools
import math

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK_M": 128, "BLOCK_N": n}, num_warps=warps, num_stages=stages)
           for n, warps, stages in itertools.product([32, 64, 128], [4, 8], [2, 3])]


@triton.jit
def add_block(acc, total, peak, q, k_columns, v_rows, n, rows, scale, MASKED: tl.constexpr, BLOCK_N: tl.constexpr,
              D: tl.constexpr):
    scores = tl.dot(q, tl.load(k_columns + n * D)) * scale
    if MASKED:
        columns = n + tl.arange(0, BLOCK_N)
        scores = tl.where(columns[None, :] <= rows[:, None], scores, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(scores, 1))
    p = tl.exp2(scores - new_peak[:, None])
    shrink = tl.exp2(peak - new_peak)
    acc = tl.dot(p.to(q.dtype), tl.load(v_rows + n * D), acc * shrink[:, None])
    return acc, total * shrink + tl.sum(p, 1), new_peak


@triton.autotune(CONFIGS, key=["D", "CAUSAL"])
@triton.jit
def forward(q_array, k_array, v_array, o_array, scale, length, D: tl.constexpr, CAUSAL: tl.constexpr,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    first = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1).to(tl.int64) * length * D
    rows, columns, widths = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, D)
    q = tl.load(q_array + head + rows[:, None] * D + widths[None, :])
    k_columns = k_array + head + columns[None, :] * D + widths[:, None]
    v_rows = v_array + head + columns[:, None] * D + widths[None, :]
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    peak = tl.full([BLOCK_M], float("-inf"), tl.float32)
    whole = length
    if CAUSAL:
        whole = first // BLOCK_N * BLOCK_N
    for n in range(0, whole, BLOCK_N):
        acc, total, peak = add_block(acc, total, peak, q, k_columns, v_rows, n, rows, scale, False, BLOCK_N, D)
    if CAUSAL:
        for n in range(whole, first + BLOCK_M, BLOCK_N):
            acc, total, peak = add_block(acc, total, peak, q, k_columns, v_rows, n, rows, scale, True, BLOCK_N, D)
    tl.store(o_array + head + rows[:, None] * D + widths[None, :], (acc / total[:, None]).to(q.dtype))


def attention(q, k, v, causal):
    batch, heads, length, width = q.shape
    o = torch.empty_like(q)

    def grid(config):
        return length // config["BLOCK_M"], batch * heads

    forward[grid](q, k, v, o, math.log2(math.e) / math.sqrt(width), length, width, causal)
    return o
