# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# count_refusals.py FOLDER [--list]: counts the distinct templates of the error messages that the tests of a folder
# assert. What is quoted, and every number, is the variable part of a message.

import os
import re
import sys

templates = set()
for folder, _, files in os.walk(sys.argv[1]):
    for file in files:
        if not file.endswith((".test", ".mlir")):
            continue
        with open(os.path.join(folder, file)) as stream:
            for line in stream:
                found = re.match(r"^(?://\s*)?[A-Z0-9-]+: .*?error: (.*)", line)
                if not found:
                    continue
                text = re.sub(r"\{\{.*?\}\}|\"[^\"]*\"|'[^']*'|@\w+|-?\d+|\[.*?\]", "#", found.group(1))
                templates.add(text.strip())
if "--list" in sys.argv:
    print("\n".join(sorted(templates)))
print(f"{len(templates)} distinct templates")
