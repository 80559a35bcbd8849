# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# captured_mods.py FOLDER make: writes q, k, v, mask, alibi_slopes and alibi_shift.
# captured_mods.py FOLDER check: compares o_mask.npy and o_alibi.npy in FOLDER with attention in f64.

import os
import sys

import numpy as np

folder, action = sys.argv[1:]
batch, heads, queries, keys, depth, scale = 2, 2, 33, 41, 16, 0.25


def path(name):
    return os.path.join(folder, name + ".npy")


def attention(q, k, v, bias):
    scores = np.einsum("bhid,bhjd->bhij", q, k) * scale + bias
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = weights.sum(-1, keepdims=True)
    return np.einsum("bhij,bhjd->bhid", weights / np.where(total == 0, 1, total), v)


def compare(name, expected):
    error = np.abs(np.load(path(name)) - expected).max()
    print(f"{name}: {'equal' if error < 1e-5 else error}")


def main():
    random = np.random.default_rng(7)
    if action == "make":
        for name, rows in (("q", queries), ("k", keys), ("v", keys)):
            np.save(path(name), random.standard_normal((batch, heads, rows, depth)).astype(np.float32))
        # The same for all heads; a query has no key.
        mask = random.random((batch, 1, queries, keys)) < 0.6
        mask[1, 0, 5] = False
        np.save(path("mask"), mask)
        np.save(path("alibi_slopes"), np.array([[0.5, 0.25], [0.125, 1.0]], np.float32))
        np.save(path("alibi_shift"), np.array([8, -3], np.int32))
        return
    q, k, v = (np.load(path(name)).astype(np.float64) for name in "qkv")
    compare("o_mask", attention(q, k, v, np.where(np.load(path("mask")), 0, -np.inf)))
    diagonal = np.arange(queries)[:, None] + np.load(path("alibi_shift"))[:, None, None]
    distance = np.abs(np.arange(keys) - diagonal)[:, None]
    compare("o_alibi", attention(q, k, v, -np.load(path("alibi_slopes"))[:, :, None, None] * distance))


main()
