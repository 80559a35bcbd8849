# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs a kernel of the corpus on small cases and compares it with reference.py.
#
#   check.py NAME...    NAME: a function of a module of corpus/

import sys

from corpus import attention, backwards, batches, layers, mods, serving
from harness import finish
from progress import Progress

MODULES = (attention, batches, mods, layers, backwards, serving)


def find(name):
    for module in MODULES:
        if hasattr(module, name):
            return getattr(module, name)
    sys.exit(f"check.py: there is no function {name} in corpus/")


if __name__ == "__main__":
    names = sys.argv[1:]
    for i, name in enumerate(names):
        with Progress(lambda: f"check: {name}, {i + 1} of {len(names)}"):
            find(name)()
        finish(name)
