# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_scan.py NAME TOLERANCE [ROWS COLUMNS]: compares the results NAME_*.npy of scan.mlir with NumPy.

import sys

import numpy as np

name, tolerance = sys.argv[1], float(sys.argv[2])
rows, columns = map(int, sys.argv[3:5] or (6, 40))
x = np.load("x.npy")[:rows, :columns].astype(np.float64)


def check(what, expected, tolerance=0.0):
    got = np.load(f"{name}_{what}.npy").astype(np.float64)
    scale = np.abs(x).sum(-1).max() if what in ("sums", "line") else 1.0
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale, err_msg=what)


check("sums", np.cumsum(x, 1), tolerance)
check("maxima", np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1])
check("products", np.cumprod(x, 0), rows * tolerance)
check("counts", np.cumsum((x > 0)[::-1], 0)[::-1])
check("seen", np.maximum.accumulate(x > 0, 1))
check("line", np.cumsum(x[0]), tolerance)
check("cubes", np.minimum.accumulate(x.reshape(2, rows // 2, columns), 1))
