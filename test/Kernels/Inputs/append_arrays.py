# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Arrays of indices for attention-append.test, in the current folder.

import numpy as np

ARRAYS = {"slots": [7, 3, 5], "slots_32": [0, 32, 1], "positions_9": [0, 8, 9], "cu": [0, 1, 2, 3], "cu_3": [0, 1, 3],
          "cu_4": [0, 1, 4], "lens": [5, 16], "lens_17": [5, 17], "table": [[0, 1], [2, 3]]}
for name, numbers in ARRAYS.items():
    np.save(name + ".npy", np.array(numbers, np.int32))
