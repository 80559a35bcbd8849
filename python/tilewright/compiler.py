# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles kernels (.mlir) to bundles: in this process with libtilewright-compiler.so, or else with tilewrightc."""

import ctypes
import functools
import os
import subprocess
import tempfile
from ctypes import POINTER, byref, c_char_p, c_size_t, c_void_p

from tilewright import places


class CompileError(Exception):
    """A compilation failed; the text is the compiler's diagnostic, with its location."""


class _Param(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class _Request(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("source", c_char_p), ("source_size", c_size_t), ("source_name", c_char_p),
                ("entry", c_char_p), ("params", POINTER(_Param)), ("num_params", c_size_t),
                ("with_files", POINTER(c_char_p)), ("num_with", c_size_t), ("targets", POINTER(c_char_p)),
                ("num_targets", c_size_t), ("source_file", c_char_p)]


@functools.lru_cache(maxsize=None)
def _library(path):
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise CompileError(f"cannot load {path}: {error}") from None
    library.tilewright_compiler_last_error.restype = c_char_p
    library.tilewright_compiler_free.restype = None
    library.tilewright_compiler_free.argtypes = [c_void_p]
    return library


def _strings(texts):
    return (c_char_p * len(texts))(*[text.encode() for text in texts])


def _compile_here(path, kernel, params, with_files, targets):
    library = _library(path)
    with open(kernel, "rb") as file:
        source = file.read()
    pairs = (_Param * len(params))(*[_Param(name.encode(), value.encode()) for name, value in params.items()])
    request = _Request(ctypes.sizeof(_Request), source, len(source), kernel.encode(), None, pairs, len(params),
                       _strings(with_files), len(with_files), _strings(targets), len(targets), kernel.encode())
    data, size = c_void_p(), c_size_t()
    if library.tilewright_compile(byref(request), byref(data), byref(size)):
        raise CompileError(library.tilewright_compiler_last_error().decode().strip())
    try:
        return ctypes.string_at(data, size.value)
    finally:
        library.tilewright_compiler_free(data)


def _compile_by_tool(kernel, params, with_files, targets):
    tool = places.find_tool()
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "bundle.twb")
        command = [tool, kernel, "--emit=bundle", "-o", output]
        command += [f"--param={name}={value}" for name, value in params.items()]
        command += [f"--with={file}" for file in with_files] + [f"--target={target}" for target in targets]
        try:
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError as error:
            raise CompileError(f"there is neither libtilewright-compiler.so nor tilewrightc ({tool}: {error.strerror}); "
                               "set TILEWRIGHT_COMPILER or TILEWRIGHTC, or load bundles") from None
        if result.returncode:
            raise CompileError(result.stdout.strip())
        with open(output, "rb") as file:
            return file.read()


def _texts(name, texts):
    """Checks that the argument `name` is a list of strings; a single string is rejected, since it would be read as a
    list of its characters."""
    if isinstance(texts, (str, bytes)) or not isinstance(texts, (list, tuple)):
        raise ValueError(f"{name} must be a list of strings, but got {texts!r}")
    for text in texts:
        if not isinstance(text, (str, os.PathLike)):
            raise ValueError(f"{name} must be a list of strings, but got {text!r} in it")
    return [os.fspath(text) for text in texts]


def param_texts(params):
    """Converts parameters, {name: integer, bool or string}, to the compiler's syntax, {name: text}."""
    if not isinstance(params, dict):
        raise ValueError(f"params must be a dict of values by name, but got {params!r}")
    texts = {}
    for name, value in params.items():
        if not isinstance(name, str) or not name or "=" in name:
            raise ValueError(f"the name of a parameter must be a string such as 'BLOCK_M', but got {name!r}")
        if isinstance(value, bool):
            texts[name] = str(value).lower()
        elif isinstance(value, (str, int)):
            texts[name] = str(value)
        elif hasattr(value, "__index__"):  # an integer of NumPy
            texts[name] = str(value.__index__())
        else:
            raise ValueError(f"parameter '{name}' must be an integer, a bool or a string, but got {value!r}")
    return texts


def compile_bundle(kernel, params, with_files=(), targets=()):
    """Compiles the file `kernel`, which must have one program or one kernel, to a bundle, and returns the bundle's bytes.

    params       {name: integer, bool or string}. Block sizes that are not given are chosen from the file that the
                 environment variable TILEWRIGHT_BLOCKS names, then from the compiler's table
    with_files   paths of .mlir files, whose functions replace the replaceable functions of `kernel`
    targets      names as in "sm_90a"; by default sm_80, and sm_90a if the kernel has a schedule with roles there

    Raises ValueError if an argument has the wrong type, and CompileError if a file does not exist or the compiler
    reports an error."""
    kernel, params = os.fspath(kernel), param_texts(params)
    with_files, targets = _texts("with_files", with_files), _texts("targets", targets)
    for file in (kernel, *with_files):
        if not os.path.isfile(file):
            raise CompileError(f"there is no kernel file '{file}'")
    library = places.find_compiler()
    if library:
        return _compile_here(library, kernel, params, with_files, targets)
    return _compile_by_tool(kernel, params, with_files, targets)
