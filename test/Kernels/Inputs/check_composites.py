# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_composites.py NAME OFFSET K: compares the results NAME_*.npy of composites.mlir with NumPy, bit for bit.

import sys

import numpy as np

name, offset, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x = np.load("x.npy")
rows, columns = x.shape
part = x[:, 1:6]


def check(what, expected):
    np.testing.assert_array_equal(np.load(f"{name}_{what}.npy").astype(expected.dtype), expected, err_msg=what)


# NumPy sorts NaN last and keeps the order of equals.
descending = np.argsort(np.where(np.isnan(x), -np.inf, -x.astype(np.float64)), axis=1, kind="stable")
nan_first = np.argsort(~np.isnan(x), axis=1, kind="stable")
order = np.where(np.isnan(x).any(1, keepdims=True), 0, descending)
for r in range(rows):
    if np.isnan(x[r]).any():
        others = [c for c in np.argsort(-np.nan_to_num(x[r].astype(np.float64), nan=0), kind="stable") if not np.isnan(x[r, c])]
        order[r] = [c for c in nan_first[r] if np.isnan(x[r, c])] + others
check("most", np.max(x, 1))
check("most_at", np.argmax(x, 1))
check("least_at", np.argmin(x, 0))
check("top", np.take_along_axis(x, order, 1)[:, :k])
check("top_at", order[:, :k])
numbers = np.arange(rows)[:, None] * np.arange(columns) % 7
check("low_at", np.argsort(numbers, axis=0, kind="stable")[:k])
check("low", np.sort(numbers, axis=0)[:k])
inserted = x.copy()
for i in range(5):
    if 0 <= i + offset < columns:
        inserted[:, i + offset] = part[:, i]
check("inserted", inserted)
check("joined", np.concatenate([part, x, part], 1))
check("line", x[0, order[0, :k]])
check("line_at", order[0, :k])
