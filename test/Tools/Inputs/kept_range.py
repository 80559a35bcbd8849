# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Cases of kept_range.mlir, and their results by enumeration of all pairs.
#
#   kept_range.py make CASES.npy SEED
#   kept_range.py check CASES.npy LIMITS.npy CAUSAL WINDOW

import random
import sys

import numpy as np


def make(path, seed):
    rng = random.Random(int(seed))
    rows = []
    for _ in range(600):
        lower, m = rng.choice([0, 0, rng.randrange(-6, 20)]), rng.randrange(0, 40)
        rows += [lower, lower + rng.randrange(-3, 40), m, m + rng.randrange(-2, 9), rng.choice([0, rng.randrange(-40, 30)]),
                 rng.choice([-1, -1, 0, rng.randrange(0, 12), 2**31 - 1]), rng.choice([-1, -1, 0, rng.randrange(0, 12), 2**31 - 1])]
    np.save(path, np.array(rows, np.int32).reshape(-1, 7))


def attends(i, j, shift, left, right, causal, window):
    ahead = j - (i + shift)
    return ((causal == "none" or ahead <= 0)
            and (not window or ((left < 0 or ahead >= -left) and (right < 0 or ahead <= right))))


def check(path, results, causal, window):
    cases, limits = np.load(path).tolist(), np.load(results).tolist()
    empty, partial, wrong = 0, 0, 0
    for (lower, keys, m, m_end, *rest), got in zip(cases, limits):
        for bound, (first, end) in ((lower, got[:2]), (0, got[2:])):
            kept = [j for j in range(bound, keys)
                    if any(attends(i, j, *rest, causal, window == "true") for i in range(m, m_end))]
            empty += not kept
            partial += bool(kept) and len(kept) < keys - bound
            if (first, end) != (kept[0], kept[-1] + 1) if kept else end > first:
                wrong += 1
                print(f"[{first}, {end}) for {kept}, case {bound, keys, m, m_end, *rest}")
    print(f"{empty} keep nothing, {partial} a part, {wrong} wrong")


if sys.argv[1] == "make":
    make(*sys.argv[2:])
else:
    check(*sys.argv[2:])
