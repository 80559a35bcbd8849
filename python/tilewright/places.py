# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Locates the compiler, the runtime and the kernels. Environment variables have priority. Otherwise, they are in this
folder (installed from a wheel), in the build folder of the source tree, or in the root of an unpacked package."""

import functools
import importlib.util
import os
import shutil

PACKAGE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(PACKAGE))
_PLACES = (PACKAGE, os.path.join(ROOT, "build"), ROOT)
# The ABI number of the C interfaces that this package calls, as in the names of the libraries.
_ABI = 0


def _first(variable, folder, names, otherwise):
    found = (os.path.join(place, folder, name) for place in _PLACES for name in names)
    return os.environ.get(variable) or next((path for path in found if os.path.exists(path)), otherwise)


def _find_shared(variable, name, otherwise):
    return _first(variable, "lib", (f"{name}.{_ABI}", name), otherwise)


KERNELS = os.path.join(PACKAGE if os.path.isdir(os.path.join(PACKAGE, "kernels")) else ROOT, "kernels")

# Bundles that were compiled with the package (scripts/make-wheel.py); TILEWRIGHT_SHIPPED overrides it, empty for none.
SHIPPED = os.environ.get("TILEWRIGHT_SHIPPED", os.path.join(PACKAGE, "shipped"))


def kernel_file(name):
    """The path of a kernel: of a file, or of one of kernels/ by its name. Raises ValueError if there is none."""
    path = os.fsdecode(name)
    if not path.endswith(".mlir"):
        path = os.path.join(KERNELS, path + ".mlir")
    if not os.path.isfile(path):
        shipped = sorted(file[:-5] for file in os.listdir(KERNELS) if file.endswith(".mlir")) if os.path.isdir(KERNELS) else []
        raise ValueError(f"file must be the path of an .mlir file, or one of {', '.join(shipped)}, but got {os.fsdecode(name)!r}")
    return os.path.abspath(path)


def find_tool(name="tilewrightc"):
    """The path of a tool; TILEWRIGHTC and TILEWRIGHT_RUN override tilewrightc and tilewright-run."""
    variable = {"tilewrightc": "TILEWRIGHTC", "tilewright-run": "TILEWRIGHT_RUN"}.get(name, "")
    return _first(variable, "bin", (name,), name)


def find_run():
    """The path of tilewright-run; TILEWRIGHT_RUN overrides it."""
    return find_tool("tilewright-run")


def find_library():
    """The path of libtilewright.so; TILEWRIGHT_LIBRARY overrides it."""
    return _find_shared("TILEWRIGHT_LIBRARY", "libtilewright.so", "libtilewright.so")


def find_compiler():
    """The path of libtilewright-compiler.so, or None; TILEWRIGHT_COMPILER overrides it."""
    return _find_shared("TILEWRIGHT_COMPILER", "libtilewright-compiler.so", None)


def find_ptxas():
    """The path of the ptxas that the compiler finds (docs/runtime.md, "The cache"), or None."""
    given = os.environ.get("TILEWRIGHT_PTXAS")
    if given is not None:
        return given or None
    roots = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found = [shutil.which("ptxas"), *(os.path.join(root, "bin", "ptxas") for root in (*roots, "/usr/local/cuda"))]
    of_triton = find_ptxas_of_triton()
    return next((path for path in found if path and os.access(path, os.X_OK)), os.fsdecode(of_triton) if of_triton else None)


@functools.lru_cache(maxsize=None)
def find_ptxas_of_triton():
    """The path, as bytes, of the ptxas in the package of Triton, which PyTorch installs, or None. Does not import it."""
    try:
        spec = importlib.util.find_spec("triton")
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = os.path.join(folder, "backends", "nvidia", "bin", "ptxas")
        if os.access(path, os.X_OK):
            return os.fsencode(path)
    return None
