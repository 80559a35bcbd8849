# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exceptions are caught in both shared libraries, which do not let the process end:

    check_exceptions.py LIBTILEWRIGHT LIBTILEWRIGHT_COMPILER TILEWRIGHT_RUN KERNELS

In libtilewright, the copy of a bundle of impossible size throws; in the main thread, in another one, and after another
library was unloaded. In libtilewright-compiler, the pool of threads throws where the system provides none: stacks of
threads are made as large as the address space. Programs and libraries are those of the interpreter's glibc, so that
scripts/test-wheel.sh can run this by an older one."""

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import threading
import _ctypes

OUT_OF_MEMORY = 7  # TILEWRIGHT_OUT_OF_MEMORY
HUGE_STACK = 1 << 47
SMALL_STACK = 64 << 20


def throw_in_runtime(library):
    """std::string throws std::length_error, and operator new std::bad_alloc."""
    load = library.tilewright_bundle_load
    load.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    byte, bundle = ctypes.create_string_buffer(1), ctypes.c_void_p()
    for size in 1 << 63, 1 << 61:
        code = load(byte, size, ctypes.byref(bundle))
        assert code == OUT_OF_MEMORY and bundle.value is None, (size, code)


def in_thread(action):
    results = []
    thread = threading.Thread(target=lambda: results.append(action()))
    thread.start()
    thread.join()
    assert len(results) == 1, "the thread failed"
    return results[0]


def check_runtime(path, other):
    library = ctypes.CDLL(path)
    throw_in_runtime(library)
    in_thread(lambda: throw_in_runtime(library))
    second = ctypes.CDLL(other)
    throw_in_runtime(library)
    _ctypes.dlclose(second._handle)
    throw_in_runtime(library)
    in_thread(lambda: throw_in_runtime(library))


def get_command(tool, kernels, folder):
    return [tool, os.path.join(kernels, "row_softmax.mlir"), "--param", "T=f32", "--scalar", "scale=1", "--quiet",
            "--in", "x=random@4000x70", "--out", f"y={folder}/y.npy@4000x70"]


def limit_stacks():
    """For a process to be started: each thread gets a stack of this size unless it asks for another one."""
    resource.setrlimit(resource.RLIMIT_STACK, (HUGE_STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def run_limited(command):
    return subprocess.run(command, preexec_fn=limit_stacks, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_in_library(path, command):
    """The tool, as a function of a library that holds all tools, in a thread."""
    threading.stack_size(SMALL_STACK)
    run = ctypes.CDLL(path).tilewright_compiler_run_tool
    run.restype = ctypes.c_int
    words = [word.encode() for word in command]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    sys.exit(in_thread(lambda: run(len(words), argv)))


def check_compiler(path, tool, kernels, interpreter):
    """Whether the exception was thrown is seen by another thread of the same limits, which cannot begin."""
    begin = "import threading; threading.Thread(target=print).start()"
    refused = run_limited([*interpreter, "-c", begin])
    assert refused.returncode != 0 and "can't start new thread" in refused.stdout, refused
    if os.cpu_count() < 2:
        print("check_exceptions: SKIPPED in libtilewright-compiler, which starts no thread on one core")
        return
    with tempfile.TemporaryDirectory() as folder:
        command = get_command(tool, kernels, folder)
        if hasattr(ctypes.CDLL(path), "tilewright_compiler_run_tool"):
            command = [*interpreter, __file__, "--in-library", path, *command]
        done = run_limited(command)
        assert done.returncode == 0, done
        assert os.path.getsize(os.path.join(folder, "y.npy")) > 4000 * 70 * 4


def main():
    if sys.argv[1] == "--in-library":
        run_in_library(sys.argv[2], sys.argv[3:])
    library, compiler, tool, kernels = sys.argv[1:]
    # Where the interpreter was started by a loader, the loader must be given again.
    interpreter = os.environ.get("INTERPRETER", sys.executable).split()
    check_runtime(library, compiler)
    check_compiler(compiler, tool, kernels, interpreter)
    print("check_exceptions: all caught")


if __name__ == "__main__":
    main()
