# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compiles attention with default tiles and sums the spills of ptxas; lists every entry that spills. Code for sm_80 is
# assembled for sm_80, in the full tier also for sm_90.
#
#   no_spills.py SCRATCH KERNEL.mlir...

import os
import re
import subprocess
import sys

IS_FULL = os.environ.get("TILEWRIGHT_TEST_TIER") == "full"
CHIPS = ["sm_80", "sm_90"] if IS_FULL else ["sm_80"]
# Each mask and each type once, since their code is similar.
MASKS = [("bf16", "none"), ("bf16", "top_left"), ("f16", "bottom_right")]
if IS_FULL:
    MASKS += [("bf16", "bottom_right"), ("f16", "top_left")]
ENTRY = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads", re.DOTALL)


def run(*command):
    """Runs a command and returns its standard error; on failure exits with it."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stderr


def main():
    scratch, *kernels = sys.argv[1:]
    entries, spilled = dict.fromkeys(CHIPS, 0), dict.fromkeys(CHIPS, 0)
    for kernel in kernels:
        for dim in [64, 128]:
            for dtype, causal in MASKS:
                ptx, cubin = f"{scratch}.ptx", f"{scratch}.cubin"
                params = [f"--param={name}={value}" for name, value in [("D", dim), ("T", dtype), ("CAUSAL", causal)]]
                run("tilewrightc", kernel, *params, "--target=sm_80", "--emit=ptx", "-o", ptx)
                for chip in CHIPS:
                    for name, stored, loaded in ENTRY.findall(run("ptxas", "-v", f"-arch={chip}", ptx, "-o", cubin)):
                        entries[chip] += 1
                        if int(stored) or int(loaded):
                            spilled[chip] += int(stored) + int(loaded)
                            print(f"{name}, D {dim}, {dtype}, {causal}, {chip}: {stored} bytes stored, {loaded} loaded")
    for chip in CHIPS:
        print(f"{chip}: {entries[chip]} entries, {spilled[chip]} bytes spilled")


main()
