# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#   pass_order.py PASSES.td PIPELINES.cpp
#
# Compares the order of the definitions in PASSES.td with the order in which PIPELINES.cpp first creates the passes. Passes
# that no pipeline creates come last. Prints one line for each pass that is out of place, and exits with 1 if there is one.

import re
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        names = dict(re.findall(r'^def (\w+) : Pass<"([\w-]+)"', file.read(), re.MULTILINE))
    with open(sys.argv[2], encoding="utf-8") as file:
        source = re.sub(r"//.*", "", file.read())
    created = dict.fromkeys(name for name in re.findall(r"\bcreate(\w+)\(", source) if name in names)
    order = list(created) + [name for name in names if name not in created]
    mistakes = 0
    for before, (defined, expected) in zip([None] + order, zip(names, order)):
        if defined != expected:
            place = f"after {names[before]}" if before else "first"
            print(f"{names[expected]} must be defined {place}, but got {names[defined]} there")
            mistakes += 1
    print(f"{len(names)} passes, {len(created)} of them in pipelines, {mistakes} out of place")
    return 1 if mistakes or not created else 0


if __name__ == "__main__":
    sys.exit(main())
