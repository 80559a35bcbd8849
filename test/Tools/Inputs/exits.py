# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# exits.py CODE COMMAND...: runs the command, prints its standard error, and fails unless the command printed exactly one
# error and exited with CODE.

import subprocess
import sys

expected = int(sys.argv[1])
result = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
messages = result.stderr.decode(errors="replace")
print(messages, end="")
if result.returncode != expected:
    sys.exit(f"exits.py: expected exit code {expected} but got {result.returncode}")
if expected == 1 and messages.count("error: ") != 1:
    sys.exit(f"exits.py: expected one error but got {messages.count('error: ')}")
if result.stdout:
    sys.exit(f"exits.py: an error must leave standard output empty but got {result.stdout!r}")
