# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_integers.py write   writes x.npy and y.npy for integers.mlir
# check_integers.py         compares low.npy and near.npy with NumPy's conversions of them

import sys

import numpy as np

x = np.array([0, 1, -1, 127, 128, -128, -129, 255, 256, 1000, -1000, 2**31 - 1, -(2**31), 77, -77, 300], np.int32)
y = np.array([0, 0.5, 1.5, -0.5, -1.5, 2.4999, 127.4, 127.5, 1e30, -128.5, -129, -np.inf, np.nan, 3.7, -3.2, 1e-40], np.float32)
if sys.argv[1:] == ["write"]:
    np.save("x.npy", x)
    np.save("y.npy", y)
else:
    near = np.clip(np.rint(np.nan_to_num(y, nan=0, posinf=1e30, neginf=-1e30)), -128, 127)
    for name, wanted in (("low", x.astype(np.int8)), ("near", near.astype(np.int8))):
        got = np.load(f"{name}.npy")
        assert got.dtype == np.int8 and (got == wanted).all(), (name, got, wanted)
