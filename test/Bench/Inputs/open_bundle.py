# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Opens a bundle of attention forward (D 64, bf16, top_left) through gpubench/library.py, and prints the
results and the errors of calls of its plan, and the plan's arguments."""

import ctypes
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "bench"))

from gpubench import library  # noqa: E402


def attempt(name, call):
    try:
        result = call()
        print(f"{name}: ok" if result is None else f"{name}: {result}")
    except library.TilewrightError as error:
        print(f"{name}: {error}")


tools = os.path.dirname(shutil.which("tilewrightc"))
runtime = library.Library(os.path.join(tools, "..", "lib", "libtilewright.so"))
bundle = runtime.open(sys.argv[1])
plan = library.AttentionForward(runtime, bundle, "bf16", 64, "top_left")
operation = library.Operation(runtime, bundle, "attention_forward", {"D": "64", "T": "bf16"})
functions = runtime.functions
names = [functions.tilewright_operation_argument_name(operation.handle, i).decode()
         for i in range(functions.tilewright_operation_num_arguments(operation.handle))]
print("arguments:", *names)
for major, minor in ((7, 5), (8, 0), (9, 0)):
    attempt(f"{major}.{minor}", lambda: runtime.call("attention_forward_check_support", plan.handle, ctypes.c_int(major),
                                                     ctypes.c_int(minor), ctypes.c_int(0)))
attempt("D 128", lambda: library.AttentionForward(runtime, bundle, "bf16", 128, "top_left"))
attempt("no file", lambda: runtime.open("nowhere.twb"))
attempt("prepare", plan.prepare)
