#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares attention on the CPU device with NumPy on the same cores, by the median times of alternating rounds.
#
#   bench/cpu_vs_numpy.py [--bench build/bin/tilewright-bench] [--batch B] [--heads H] [--queries S] [--width D]
#                         [--rounds N] [--json]
#
# The goals: a forward without a mask takes less than 4 times NumPy's time, and a causal forward takes less than 0.65
# times the time of the forward without a mask. Without libopenblas0, Debian's python3-numpy uses the slow reference
# BLAS: install libopenblas0 for a fair comparison.

import argparse
import json
import os
import statistics
import subprocess
import sys

import numpy_attention

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run_bench(options):
    command = [options.bench, "--json", "--rounds=3", f"--batch={options.batch}", f"--heads={options.heads}",
               f"--queries={options.queries}", f"--width={options.width}", "--causal=none,top_left"]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    cases = json.loads(result.stdout)["cases"]
    return {case["causal"]: case["median_ms"] for case in cases}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", default=os.path.join(root, "build", "bin", "tilewright-bench"))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--queries", type=int, default=1024)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")

    inputs = numpy_attention.make_inputs(options.batch, options.heads, options.queries, options.width)
    numpy_attention.time_of(inputs, causal=False)
    times = {"full": [], "causal": [], "numpy": []}
    for _ in range(options.rounds):
        round_ms = run_bench(options)
        times["full"].append(round_ms["none"])
        times["causal"].append(round_ms["top_left"])
        times["numpy"].append(numpy_attention.time_of(inputs, causal=False) * 1e3)

    median = {name: statistics.median(values) for name, values in times.items()}
    report = {
        "shape": [options.batch, options.heads, options.queries, options.width],
        "blas": numpy_attention.blas_name(),
        "full_ms": median["full"],
        "causal_ms": median["causal"],
        "numpy_ms": median["numpy"],
        "full_over_numpy": median["full"] / median["numpy"],
        "causal_over_full": median["causal"] / median["full"],
    }
    if options.json:
        json.dump(report, sys.stdout, indent=2)
        print()
        return
    print(f"B{options.batch} H{options.heads} S{options.queries} D{options.width} f32, "
          f"medians of {options.rounds} rounds")
    print(f"  tilewright full    {report['full_ms']:8.2f} ms")
    print(f"  tilewright causal  {report['causal_ms']:8.2f} ms   {report['causal_over_full']:.2f} of full (target 0.65)")
    print(f"  numpy full         {report['numpy_ms']:8.2f} ms   with {report['blas']}")
    print(f"  full over numpy    {report['full_over_numpy']:8.2f}      (target 4)")


if __name__ == "__main__":
    main()
