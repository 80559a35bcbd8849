#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the blocks that the cost model chooses for the kernels of bench/blocks/ with the times of all blocks.

    block_model.py TIMES BENCH_BLOCKS

Prints, for each kernel and width, the chosen blocks, the best, and the ratio of their times, and whether every ratio is at
most 1.15. bench/blocks.py measures the times on a GPU.
"""

import json
import os
import re
import subprocess
import sys

LIMIT = 1.15


def chosen(folder, name, dim):
    """The choice, "128x64", and what made it."""
    command = ["tilewrightc", os.path.join(folder, name + ".mlir"), f"--param=D={dim}", "--param=T=bf16",
               "--target=sm_90a", "--emit=tile"]
    text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True).stdout
    blocks = re.search(r'\bblocks = \{[^}]*\}', text)[0]
    rows, step = (re.search(rf'{role} = "\w+ = (\d+)"', blocks)[1] for role in ("rows", "step"))
    return f"{rows}x{step}", re.search(r'by = "([^"]*)"', blocks)[1]


def main(times, folder):
    with open(times) as file:
        kernels = json.load(file)["kernels"]
    ratios = []
    for key, each in kernels.items():
        name, dim = key.rsplit(" D", 1)
        pair, by = chosen(folder, name, dim)
        best = min((time, other) for other, time in each.items() if isinstance(time, float))
        time = each.get(pair)
        if not isinstance(time, float):
            print(f"{key}: {pair} by {by}: no time: {time}")
            return 1
        ratios.append(time / best[0])
        print(f"{key}: {pair} by {by}, {ratios[-1]:.3f} of the best, {best[1]}")
    worst = max(ratios)
    print(f"{len(set(key.rsplit(' D', 1)[0] for key in kernels))} kernels, {len(ratios)} cases, "
          f"{'all' if worst <= LIMIT else 'not all'} within {LIMIT} of the best")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
