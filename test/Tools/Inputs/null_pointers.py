# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Calls the C interfaces of runtime and compiler with null pointers, and prints the errors.

import ctypes
import os
import shutil


def load(name, last_error):
    library = ctypes.CDLL(os.path.join(os.path.dirname(shutil.which("tilewrightc")), "..", "lib", name))
    getattr(library, last_error).restype = ctypes.c_char_p
    return library, getattr(library, last_error)


def main():
    runtime, error = load("libtilewright.so", "tilewright_last_error")
    print("timeline:", runtime.tilewright_timeline_write(None, None, 0, None) != 0, error().decode())
    print("workspace:", runtime.tilewright_operation_workspace_size(None, None, 0, 0, None) != 0, error().decode())
    compiler, error = load("libtilewright-compiler.so", "tilewright_compiler_last_error")
    print("compile:", compiler.tilewright_compile(None, None, None) != 0, error().decode())


if __name__ == "__main__":
    main()
