# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# run_examples.py ROOT TOOL...: runs the examples at the end of --help of each tool, in a folder that contains kernels/, as the
# root of the source tree does, and a script interesting.sh. Prints the number of examples of each tool. --help must not show
# the options of LLVM's libraries.

import os
import subprocess
import sys

LINES = 400  # tilewright-opt has an option for each pass

root, *tools = sys.argv[1:]
os.symlink(os.path.join(root, "kernels"), "kernels")
with open("interesting.sh", "w") as script:
    # Ignores its arguments, so that few tests suffice for the reduction.
    script.write("#!/bin/sh\nexit 1\n")
os.chmod("interesting.sh", 0o755)

for tool in tools:
    text = subprocess.run([tool, "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    examples = [line.strip() for line in text.partition("EXAMPLES:\n")[2].splitlines() if line.strip()]
    if "--aarch64" in text or "--amdgpu" in text or len(text.splitlines()) > LINES:
        sys.exit(f"{tool} --help shows options of LLVM's libraries")
    if not examples or not all(tool in example for example in examples):
        sys.exit(f"{tool} --help does not end with examples of itself: {examples}")
    for example in examples:
        done = subprocess.run(example, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{example}\nexits with {done.returncode}:\n{done.stdout}")
    print(f"{tool}: {len(examples)} examples")
