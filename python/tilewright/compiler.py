# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles kernels (.mlir) to bundles: in this process with libtilewright-compiler.so, or else with tilewrightc."""

import ctypes
import functools
import os
import re
import subprocess
import tempfile
import warnings
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p

from tilewright import cache, checks, places, runtime


class CompileError(Exception):
    """A compilation failed; the text is the compiler's diagnostic, with its location."""


class _Param(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class _Request(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("source", c_char_p), ("source_size", c_size_t), ("source_name", c_char_p),
                ("entry", c_char_p), ("params", POINTER(_Param)), ("num_params", c_size_t),
                ("with_files", POINTER(c_char_p)), ("num_with", c_size_t), ("targets", POINTER(c_char_p)),
                ("num_targets", c_size_t), ("source_file", c_char_p), ("device_major", c_int), ("device_minor", c_int),
                ("device_shared_bytes", c_size_t), ("preferred_only", c_int), ("shipped_folder", c_char_p),
                ("assembler", c_char_p), ("sums", c_char_p), ("debug_ops", c_int)]


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


def entry_option(kernel, entry):
    """The option of the tools that names a kernel or program of a file, as a list; empty for None."""
    if entry is None:
        return []
    with open(kernel, encoding="utf-8", errors="replace") as file:
        is_program = re.search(rf"\btile\.program\s+@{re.escape(entry)}\b", file.read())
    return [f"--{'program' if is_program else 'kernel'}={entry}"]


def _request(kernel, params, with_files, targets, device, preferred_only, entry=None, debug_ops=False):
    """A request of the C interface, and objects that must live as long."""
    with open(kernel, "rb") as file:
        source = file.read()
    pairs = (_Param * len(params))(*[_Param(name.encode(), value.encode()) for name, value in params.items()])
    with_list, target_list = _strings(with_files), _strings(targets)
    shipped = places.SHIPPED.encode() if os.path.isdir(places.SHIPPED) else None
    request = _Request(ctypes.sizeof(_Request), source, len(source), kernel.encode(), entry.encode() if entry else None, pairs,
                       len(params), with_list, len(with_files), target_list, len(targets), kernel.encode(),
                       *(device or (0, 0, 0)), preferred_only, shipped, places.find_ptxas_of_triton(), None, debug_ops)
    return request, (source, pairs, with_list, target_list)


def _check(library, code):
    if code:
        raise CompileError(library.tilewright_compiler_last_error().decode().strip())


@functools.lru_cache(maxsize=None)
def _warn_of_cache(*variables):
    """Warns once for each value of the variables if the folder of the cache that these name is not used."""
    try:
        unused = cache.cache_info().unused
    except runtime.TilewrightError:  # there is no runtime, as where bundles are only compiled
        return
    if unused:
        warnings.warn(f"{unused}; it is not used", RuntimeWarning, stacklevel=4)


def _compile_here(path, *arguments):
    _warn_of_cache(*map(os.environ.get, ("TILEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME", "HOME")))
    library, data, size = _library(path), c_void_p(), c_size_t()
    request, kept = _request(*arguments)
    _check(library, library.tilewright_compile(byref(request), byref(data), byref(size)))
    del kept
    try:
        return ctypes.string_at(data, size.value)
    finally:
        library.tilewright_compiler_free(data)


def _compile_by_tool(kernel, params, with_files, targets, entry, debug_ops):
    tool = places.find_tool()
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "bundle.twb")
        command = [tool, kernel, "--emit=bundle", "-o", output, *entry_option(kernel, entry)]
        command += ["--debug-ops"] if debug_ops else []
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
        text = checks.param_text(value)
        if text is None:
            raise ValueError(f"parameter '{name}' must be an integer, a bool or a string, but got {value!r}")
        texts[name] = text
    return texts


def _checked(kernel, params, with_files, targets, device):
    kernel, params = os.fspath(kernel), param_texts(params)
    if device is not None:
        numbers = [checks.integer_of(x) for x in device] if isinstance(device, (list, tuple)) else []
        if len(numbers) != 3 or None in numbers:
            raise ValueError(f"device must be (major, minor, bytes of shared memory), three integers, but got {device!r}")
        device = tuple(numbers)
    with_files, targets = _texts("with_files", with_files), _texts("targets", targets)
    for file in (kernel, *with_files):
        if not os.path.isfile(file):
            raise CompileError(f"there is no kernel file '{file}'")
    return kernel, params, with_files, targets, device


def compile_bundle(kernel, params, with_files=(), targets=(), *, device=None, preferred_only=False, entry=None,
                   debug_ops=None):
    """Compiles the file `kernel` to a bundle, and returns the bundle's bytes: its only program or kernel that no program
    launches, or the one that `entry` names.
    What the compiler library made before, in this process or another, comes from the cache (tilewright.cache_info).

    params       {name: integer, bool or string}. Block sizes that are not given are chosen from the file that the
                 environment variable TILEWRIGHT_BLOCKS names, then from the compiler's table
    with_files   paths of .mlir files, whose functions replace the replaceable functions of `kernel`
    targets      names as in "sm_90a"; by default sm_80, and sm_90a if the kernel has a schedule with roles there
    device       (major, minor, shared_bytes): the compute capability of the only device for which the code is, and the
                 bytes of shared memory that a block may have there (0: unknown). The default is then its best target
    preferred_only
                 only the preferred form of each kernel, which may need aligned views
    debug_ops    whether code for GPUs executes tile.print and tile.assert; by default, whether the environment variable
                 TILEWRIGHT_DEBUG_OPS is set, and neither empty nor 0

    tilewrightc, which is used if there is no compiler library, makes all forms for all devices.

    Raises ValueError if an argument has the wrong type, and CompileError if a file does not exist or the compiler
    reports an error."""
    *arguments, device = _checked(kernel, params, with_files, targets, device)
    if debug_ops is None:
        debug_ops = os.environ.get("TILEWRIGHT_DEBUG_OPS", "0") not in ("", "0")
    library = places.find_compiler()
    if library:
        return _compile_here(library, *arguments, device, preferred_only, entry, debug_ops)
    return _compile_by_tool(*arguments, entry, debug_ops)


def compile_shipped(folder, kernel, params, with_files=(), targets=(), *, device=None, preferred_only=False):
    """As compile_bundle, but writes the result to a folder, as `shipped` in this package's folder: compile_bundle takes
    it from there for the same arguments. Raises CompileError if there is no compiler library."""
    arguments = _checked(kernel, params, with_files, targets, device)
    path = places.find_compiler()
    if not path:
        raise CompileError("there is no libtilewright-compiler.so; set TILEWRIGHT_COMPILER")
    library = _library(path)
    request, kept = _request(*arguments, preferred_only)
    _check(library, library.tilewright_compile_shipped(byref(request), os.fspath(folder).encode()))
    del kept


_LINK = re.compile(r'"([^"\n]*\.mlir)"')  # perhaps the file of a tile.link
_links = {}  # the files beside a file that its tile.link name, by the stamp of the file


def stamps(files):
    """Returns a value that differs if one of the files, or of the files that these link, has been changed or is another
    one. It holds absolute paths, inodes, sizes and times of change, so that it is cheap."""
    found = {}
    pending = [os.path.abspath(file) for file in files]
    while pending:
        path = pending.pop()
        if path in found:
            continue
        try:
            state = os.stat(path)
        except OSError:
            found[path] = None
            continue
        found[path] = key = (path, state.st_ino, state.st_size, state.st_mtime_ns)
        if key not in _links:
            with open(path, encoding="utf-8", errors="replace") as file:
                names = _LINK.findall(file.read())
            _links[key] = [os.path.join(os.path.dirname(path), name) for name in names]
        pending += _links[key]
    return tuple(found.items())
