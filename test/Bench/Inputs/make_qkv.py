# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes q [1, 4, 70, 24], k and v [1, 2, 53, 24] of N(0, 1) to the three files named."""

import sys

import numpy as np

generator = np.random.default_rng(3)
for path, shape in zip(sys.argv[1:], [(1, 4, 70, 24), (1, 2, 53, 24), (1, 2, 53, 24)]):
    np.save(path, generator.standard_normal(shape).astype(np.float16))
