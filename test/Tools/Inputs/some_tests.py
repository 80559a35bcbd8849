#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# some_tests.py: a program with the interface of GoogleTest, for run-acceptance.test. The environment variable COUNT is a
# folder where each test that runs writes a line. If MENDED is set, the failing test passes.

import os
import sys

TESTS = {"Suite.Passes": "OK", "Type/Cases.Skips/f32": "SKIPPED", "Type/Cases.Fails/f16": "FAILED"}

if "--gtest_list_tests" in sys.argv:
    print("Suite.\n  Passes\nType/Cases.\n  Skips/f32  # GetParam() = 1\n  Fails/f16  # GetParam() = 2\n  Crashes/f64")
    sys.exit()
name = next(argument.split("=", 1)[1] for argument in sys.argv if argument.startswith("--gtest_filter="))
with open(os.path.join(os.environ["COUNT"], name.replace("/", "+")), "a") as file:
    print("ran", file=file)
outcome = "OK" if os.environ.get("MENDED") else TESTS.get(name)
if not outcome:
    os.abort()
with open(os.environ["TILEWRIGHT_SUPPORT_MATRIX"], "w") as file:
    print("tier\tsmoke", file=file)
print(f"[ RUN      ] {name}\n[{outcome:>9} ] {name} (1 ms)")
sys.exit(outcome == "FAILED")
