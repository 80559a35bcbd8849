# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_functions.py write | check_functions.py NAME TOLERANCE: compares y of NAME.npy and derivatives of NAME_d.npy
# with the functions of Python.

import math
import sys

import numpy as np

if sys.argv[1] == "write":
    x = np.linspace(-0.96, 0.96, 37)
    x[-1] = 1
    np.save("x.npy", x.astype(np.float32))
    seed = np.linspace(0.5, 2, 37)
    seed[-1] = 0
    np.save("seed.npy", seed.astype(np.float32))
    sys.exit()
name, tolerance = sys.argv[1], float(sys.argv[2])
y, d = np.load(name + ".npy").astype(np.float64), np.load(name + "_d.npy").astype(np.float64)
# Rounded to the element type of the kernel.
element = np.load(name + ".npy").dtype
x = np.load("x.npy").astype(element).astype(np.float64)
seed = np.load("seed.npy").astype(element).astype(np.float64)
cbrt = lambda v: math.copysign(abs(v) ** (1 / 3), v)
functions = [
    (math.asin, lambda v: 1 / math.sqrt(1 - v * v)),
    (math.acos, lambda v: -1 / math.sqrt(1 - v * v)),
    (math.sinh, math.cosh),
    (math.cosh, math.sinh),
    (cbrt, lambda v: 1 / (3 * cbrt(v) ** 2)),
    (math.erfc, lambda v: -2 / math.sqrt(math.pi) * math.exp(-v * v)),
]
# Not compared: the derivative of the root is infinite at 0.
x[18] = 0.5
keep = np.arange(37) != 18
for row, (function, derivative) in enumerate(functions):
    expected = [function(v) for v in x]
    np.testing.assert_allclose(y[row][keep], np.array(expected)[keep], rtol=tolerance, atol=tolerance)
    slopes = np.array([derivative(v) if s else 0 for v, s in zip(x, seed)]) * seed
    np.testing.assert_allclose(d[row][keep], slopes[keep], rtol=4 * tolerance, atol=tolerance)
    # A zero gradient remains zero, also if the derivative is infinite.
    assert d[row][-1] == 0
