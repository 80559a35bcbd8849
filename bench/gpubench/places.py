# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the compiler and the runtime are: in the build folder of a source tree, or beside the scripts in a package."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _first(paths, otherwise):
    return next((path for path in (os.path.join(ROOT, *path) for path in paths) if os.path.exists(path)), otherwise)


def find_tool():
    return _first([("build", "bin", "tilewrightc"), ("bin", "tilewrightc")], "tilewrightc")


def find_library():
    return _first([("build", "lib", "libtilewright.so"), ("lib", "libtilewright.so")], "libtilewright.so")
