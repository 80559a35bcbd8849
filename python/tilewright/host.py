# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs kernels on arrays in host memory with tilewright-run, on its interpreter of tile IR or on its simulator of a GPU, to
test kernels and gradients without a GPU. A call is slow: it starts a process, which compiles the kernel. Does not need
PyTorch: a subclass of Plan knows the arrays of a library."""

import os
import re
import subprocess
import tempfile

from tilewright import compiler, places
from tilewright.runtime import TilewrightError

# The types of .npy files; types that NumPy does not have are converted to f32.
FILE_TYPES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i1": "|b1", "i8": "|i1"}

_OPTION = re.compile(r"; give it with --(in|scalar) \w+=\S+$")  # the remedy of the tool for a capture that is missing

_device = None  # --device of tilewright-run; None: arrays in host memory are rejected


class interpret:
    """Makes attention accept arrays in host memory, for which tilewright-run computes the results: on its interpreter
    ("cpu") or on a simulated GPU ("sim:sm_90a"). interpret(None) restores the initial state, in which attention rejects
    them. The call takes effect immediately, for the whole process; as a context manager, until the `with` statement ends.
    Raises ValueError for another device."""

    def __init__(self, device="cpu"):
        global _device
        if device is not None and device != "cpu" and not str(device).startswith("sim:"):
            raise ValueError(f"device must be 'cpu', 'sim:' and a target, or None, but got {device!r}")
        self.previous, _device = _device, device

    def __enter__(self):
        return self

    def __exit__(self, *error):
        global _device
        _device = self.previous


def device():
    """Returns the device that `interpret` has selected, or None."""
    return _device


class Plan:
    """One kernel or program with bound parameters, with the interface of the plans of tilewright.runtime. A subclass has
    kind_of(array), the type of the elements (of runtime.TYPES), and write(path, array, kind) and read(path, array, kind),
    which copy an array to and from an .npy file of FILE_TYPES[kind], or of f32 for other kinds."""

    def __init__(self, kernel, params, with_files, device, entry=None):
        self.command = [places.find_run(), kernel, f"--device={device}", *compiler.entry_option(kernel, entry)]
        self.command += [f"--param={name}={value}" for name, value in params.items()]
        self.command += [f"--with={file}" for file in with_files]

    def takes(self, name):
        return True  # tilewright-run reports unknown names

    def run(self, values, outputs, updates=()):
        """Runs the plan. `values` holds the arguments, {name: array or number}, None where absent; the arrays that
        `outputs` and `updates` name are written, and the latter keep the elements that are not. Raises TilewrightError if
        the run fails."""
        with tempfile.TemporaryDirectory() as folder:
            command, written = list(self.command), {}
            for name, value in values.items():
                if value is None:
                    continue
                if isinstance(value, (int, float)):
                    command.append(f"--scalar={name}={value!r}")
                    continue
                path, kind = os.path.join(folder, name + ".npy"), self.kind_of(value)
                if name in outputs:
                    command.append(f"--out={name}={path}:{kind}@{'x'.join(str(extent) for extent in value.shape)}")
                    written[name] = path, kind
                else:
                    self.write(path, value, kind)
                    command.append(f"--inout={name}={path}:{kind}={path}" if name in updates else f"--in={name}={path}:{kind}")
                    written |= {name: (path, kind)} if name in updates else {}
            try:
                result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            except OSError as error:
                raise TilewrightError(f"there is no tilewright-run ({command[0]}: {error.strerror}); set TILEWRIGHT_RUN",
                                      "io") from None
            if result.returncode:
                text = result.stdout.strip().removeprefix("tilewright-run: error: ")
                raise TilewrightError(_OPTION.sub("; give it in captures", text), "invalid argument")
            for name, (path, kind) in written.items():
                self.read(path, values[name], kind)
