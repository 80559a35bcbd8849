# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# spills.py KERNEL [N...]: compiles the kernel for each N (without N: once) with its defaults, and prints the compiler's
# messages and how many of the compilations do not spill. In the full tier, each N is compiled in f32 and bf16 for both
# targets. Otherwise, it is compiled in one type for one target and in the other type for the other target, in turn.

import os
import subprocess
import sys

kernel, lengths = sys.argv[1], sys.argv[2:]
is_full = os.environ.get("TILEWRIGHT_TEST_TIER") == "full" or not lengths
silent = 0
for number, length in enumerate(lengths or [None]):
    for i, element in enumerate(("f32", "bf16")):
        for j, target in enumerate(("sm_80", "sm_90a")):
            if not is_full and (number + i + j) % 2:
                continue
            command = ["tilewrightc", kernel, f"--param=T={element}", f"--target={target}", "--emit=cubin", "-o", "/dev/null"]
            if length:
                command.append(f"--param=N={length}")
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode or done.stdout:
                print(" ".join(command), done.stdout, sep="\n")
            else:
                silent += 1
print(f"{silent} kernels do not spill")
