# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# count_refusals.py FOLDER [--verified PREFIX] [--list]: counts the distinct error messages that the tests of a folder assert
# by FileCheck or, with --verified, by -verify-diagnostics in files whose names begin with PREFIX. Messages that differ only in
# quoted text and numbers count once.

import os
import re
import sys

printed = r"^(?://\s*)?[A-Z0-9-]+: .*?error: (.*)"
verified = r".*// expected-error(?:-re)? (?:@\S+ )?\{\{(.*)\}\}$"
prefix = sys.argv[sys.argv.index("--verified") + 1] if "--verified" in sys.argv else None

templates = set()
for folder, _, files in os.walk(sys.argv[1]):
    for file in files:
        if not file.endswith((".test", ".mlir")) or not file.startswith(prefix or ""):
            continue
        with open(os.path.join(folder, file)) as stream:
            for line in stream:
                found = re.match(verified if prefix else printed, line)
                if not found:
                    continue
                text = re.sub(r"\{\{.*?\}\}|\"[^\"]*\"|'[^']*'|@\w+|-?\d+|\[.*?\]", "#", found.group(1))
                templates.add(text.strip())
if "--list" in sys.argv:
    print("\n".join(sorted(templates)))
print(f"{len(templates)} distinct templates")
