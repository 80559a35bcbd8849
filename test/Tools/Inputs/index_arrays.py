# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Arrays of indices for index-arrays.test, some of them invalid.

import numpy as np

LEAST, MOST = -(2**31), 2**31 - 1
ARRAYS = {
    "good": [0, 3, 3, 7],
    "descending": [0, 5, 3, 7],
    "huge": [0, 3, 7, MOST],
    "negative": [-5, 3, 5, 7],
    "hostile": [LEAST, 3, MOST, 5],
    "nearest": [0, 3, 7, 7],
    "table": [[1, 0], [2, 99], [0, 1]],
    "no-pages": [[1, -3], [2, 99], [0, 1]],
    "lengths": [20, 16, 32],
    "long": [20, MOST, 32],
    "hostile-table": [[1, 0], [2, 99], [LEAST, MOST]],
    "hostile-lengths": [-1, MOST, 32],
}
for name, values in ARRAYS.items():
    np.save(name + ".npy", np.array(values, np.int32))
