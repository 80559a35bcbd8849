# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Arrays for attention-append.test, in the current folder.
#
#   append_arrays.py            writes them
#   append_arrays.py written    out.npy must be pages.npy, with key 2 of k.npy in row 30

import sys

import numpy as np

ARRAYS = {"slots": [7, 3, 5], "slots_32": [0, 32, 1], "positions_9": [0, 8, 9], "cu": [0, 1, 2, 3], "cu_3": [0, 1, 3],
          "cu_4": [0, 1, 4], "lens": [5, 16], "lens_17": [5, 17], "table": [[0, 1], [2, 3]],
          "outside": [32, -2147483648, 30], "beyond": [-1, 2**32 + 3, 30]}

if sys.argv[1:] == ["written"]:
    k, pages, out = (np.load(f"{name}.npy") for name in ("k", "pages", "out"))
    pages.reshape(32, 2, 16)[30] = k[2]
    if not np.array_equal(out, pages):
        sys.exit(f"rows {np.unique(np.argwhere(out != pages)[:, :2], axis=0).tolist()} differ")
else:
    for name, numbers in ARRAYS.items():
        np.save(name + ".npy", np.array(numbers, np.int64 if name == "beyond" else np.int32))
    rng = np.random.default_rng(1)
    np.save("k.npy", rng.standard_normal((3, 2, 16)).astype(np.float32))
    np.save("pages.npy", rng.standard_normal((4, 8, 2, 16)).astype(np.float32))
