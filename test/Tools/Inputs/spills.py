# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# spills.py KERNEL [N...]: compiles the kernel for each N (none: once), in f32 and bf16, for both targets, with all else by
# default, and prints what the compiler says and how many do not spill.

import subprocess
import sys

kernel, lengths = sys.argv[1], sys.argv[2:]
silent = 0
for length in lengths or [None]:
    for element in ("f32", "bf16"):
        for target in ("sm_80", "sm_90a"):
            command = ["tilewrightc", kernel, f"--param=T={element}", f"--target={target}", "--emit=cubin", "-o", "/dev/null"]
            if length:
                command.append(f"--param=N={length}")
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode or done.stdout:
                print(" ".join(command), done.stdout, sep="\n")
            else:
                silent += 1
print(f"{silent} kernels do not spill")
