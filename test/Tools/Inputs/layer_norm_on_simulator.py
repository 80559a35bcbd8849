# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# layer_norm_on_simulator.py KERNEL N...: runs the kernel on rows of each length N, in f32 and bf16, on the simulator, and
# compares the results with NumPy. The tolerance is 1e-5 in f32 (the rounding of sums of N terms), and a rounding to 8 bits
# in bf16.

import subprocess
import sys

import numpy as np

kernel, lengths = sys.argv[1], [int(text) for text in sys.argv[2:]]
right = 0
for n in lengths:
    x = np.random.default_rng(n).standard_normal((5, n)).astype(np.float32)
    for element, bits in (("f32", None), ("bf16", 8)):
        values = x
        if bits:  # to bf16 and back: nearest, ties to even
            words = x.view(np.uint32)
            values = ((words + 0x7FFF + ((words >> 16) & 1)) & 0xFFFF0000).view(np.float32)
        np.save("x.npy", values)
        subprocess.run(["tilewright-run", kernel, f"--param=T={element}", "--in", "x=x.npy", "--out", f"y=y.npy@5x{n}",
                        "--out", "mean=mean.npy@5", "--scalar", "eps=1e-5", "--device=sim:sm_80"], check=True)
        exact = values.astype(np.float64)
        mean = exact.mean(1, keepdims=True)
        expected = (exact - mean) / np.sqrt(((exact - mean) ** 2).mean(1, keepdims=True) + 1e-5)
        limit = 1e-5 * (1 + abs(expected)) + (abs(expected) * 2.0**-8 if bits else 0)
        assert (abs(np.load("y.npy") - expected) <= limit).all(), (n, element)
        assert abs(np.load("mean.npy") - mean[:, 0]).max() <= 1e-6, (n, element)
        right += 1
print(f"{right} results are right")
