# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_t5.py RUN KERNELS [DEVICE]   compares the bucket of every distance that kernels/mods/t5_bias.mlir chooses with the
#                                    exact formula
#
# Queries attend one key, at position 0, with a score of 0. So LSE of query i is the entry of the table for distance i,
# which is the number of its bucket.

import subprocess
import sys

import numpy

run, kernels = sys.argv[1:3]
device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
# Buckets, maximum distance. 320 and 800 are WavLM's, in both directions: 160 for each.
CASES = [(32, 128), (16, 128), (160, 800), (64, 64), (33, 1000), (12, 20), (9, 17), (2, 40), (1, 7), (1024, 3000),
         (2047, 2500), (16, 1024), (48, 2187)]


def bucket(distance, count, most):
    """E + the greatest k with E (M / E)^(k / n) <= distance, in whole numbers: E^(n - k) M^k <= distance^n."""
    exact = max(count // 2, 1)
    limit, rest = max(most, exact + 1), count - exact
    if distance < exact:
        return distance
    power, k = min(distance, limit) ** rest, 0
    low = exact ** rest
    while k < rest - 1 and low // exact * limit <= power:
        low = low // exact * limit
        k += 1
    return min(exact + k, count - 1)


numpy.save("k.npy", numpy.zeros((1, 1, 1, 16), numpy.float32))
for count, most in CASES if device == "cpu" else CASES[:3]:
    rows = most + 50
    numpy.save("q.npy", numpy.zeros((1, 1, rows, 16), numpy.float32))
    numpy.save("table.npy", numpy.arange(count, dtype=numpy.float32)[None])
    subprocess.run([run, f"{kernels}/attention_forward.mlir", f"--with={kernels}/mods/t5_bias.mlir", "--param=D=16",
                    "--param=T=f32", "--in=q=q.npy", "--in=k=k.npy", "--in=v=k.npy", "--in=t5_bias=table.npy",
                    f"--scalar=t5_max_distance={most}", "--scalar=t5_bidirectional=0", "--scalar=scale=1",
                    f"--out=o=o.npy@1x1x{rows}x16", f"--out=lse=lse.npy@1x1x{rows}", f"--device={device}"], check=True)
    got = numpy.load("lse.npy")[0, 0]
    for distance in range(rows):
        expected = bucket(distance, count, most)
        assert abs(got[distance] - expected) < 0.01, (count, most, distance, got[distance], expected)
