# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_convolution.py NAME TOLERANCE: compares NAME.npy and NAME_shifted.npy with NumPy.

import sys

import numpy as np

name, tolerance = sys.argv[1], float(sys.argv[2])
x, w = np.load("x.npy").astype(np.float64), np.load("w.npy").astype(np.float64)
y = sum(w[k] * x[:, k : k + 47] for k in range(4))
np.testing.assert_allclose(np.load(name + ".npy").astype(np.float64), y, rtol=tolerance, atol=tolerance)
shifted = np.concatenate([np.full((1, 47), -1.0), x[:-1, :47]])
np.testing.assert_array_equal(np.load(name + "_shifted.npy").astype(np.float64), shifted)
