#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The attention forward with NumPy's matrix products, as the baseline of the CPU device.
#
#   bench/numpy_attention.py [--batch B] [--heads H] [--queries S] [--width D] [--causal] [--rounds N]

import argparse
import statistics
import time

import numpy as np


def attention(q, k, v, scale, causal):
    """softmax(scale q k^T) v for arrays [B, H, S, D]; causal keeps j <= i."""
    s = np.matmul(q, k.swapaxes(-1, -2))
    s *= q.dtype.type(scale)
    if causal:
        s[..., np.triu(np.ones(s.shape[-2:], dtype=bool), 1)] = -np.inf
    s -= s.max(axis=-1, keepdims=True)
    np.exp(s, out=s)
    o = np.matmul(s, v)
    o /= s.sum(axis=-1, keepdims=True)
    return o


def make_inputs(batch, heads, queries, width, dtype=np.float32):
    generator = np.random.default_rng(1)
    shape = (batch, heads, queries, width)
    return [generator.standard_normal(shape).astype(dtype) for _ in range(3)]


def time_of(inputs, causal):
    """Returns the time of one evaluation of attention in seconds."""
    start = time.perf_counter()
    attention(*inputs, inputs[0].shape[-1] ** -0.5, causal)
    return time.perf_counter() - start


def blas_name():
    """Returns the name of the BLAS library that NumPy has loaded."""
    with open("/proc/self/maps") as maps:
        files = {line.split()[-1].rsplit("/", 1)[-1] for line in maps if "blas" in line}
    for name in ("mkl", "openblas", "blis", "blas"):
        found = sorted(file for file in files if name in file)
        if found:
            return found[0]
    return "unknown"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--queries", type=int, default=1024)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    inputs = make_inputs(options.batch, options.heads, options.queries, options.width)
    time_of(inputs, options.causal)
    seconds = statistics.median(time_of(inputs, options.causal) for _ in range(options.rounds))
    print(f"numpy {np.__version__} with {blas_name()}: median {seconds * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
