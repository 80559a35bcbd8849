# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the compiler, the runtime and the kernels are: said by the environment, in the build folder of a source tree, or
beside this folder in an installation."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNELS = os.path.join(ROOT, "kernels")


def _first(variable, paths, otherwise):
    found = (os.path.join(ROOT, *path) for path in paths)
    return os.environ.get(variable) or next((path for path in found if os.path.exists(path)), otherwise)


def find_tool():
    """tilewrightc; TILEWRIGHTC says another."""
    return _first("TILEWRIGHTC", [("build", "bin", "tilewrightc"), ("bin", "tilewrightc")], "tilewrightc")


def find_run():
    """tilewright-run; TILEWRIGHT_RUN says another."""
    return _first("TILEWRIGHT_RUN", [("build", "bin", "tilewright-run"), ("bin", "tilewright-run")], "tilewright-run")


def find_library():
    """libtilewright.so; TILEWRIGHT_LIBRARY says another."""
    return _first("TILEWRIGHT_LIBRARY", [("build", "lib", "libtilewright.so"), ("lib", "libtilewright.so")],
                  "libtilewright.so")


def find_compiler():
    """libtilewright-compiler.so, or None; TILEWRIGHT_COMPILER says another."""
    name = "libtilewright-compiler.so"
    return _first("TILEWRIGHT_COMPILER", [("build", "lib", name), ("lib", name)], None)
