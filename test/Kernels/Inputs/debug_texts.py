# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The texts of prints in a file of PTX, sorted."""

import re
import sys

with open(sys.argv[1]) as file:
    texts = re.findall(r"debug_text_\d+\[\d+\] = \{([\d, ]*)\}", file.read())
print("".join(sorted(bytes(map(int, text.split(","))).decode() for text in texts)), end="")
