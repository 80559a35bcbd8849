# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs kernels on tensors in host memory with tilewright-run, on its interpreter of tile IR or on its simulator of a
GPU, to test kernels and gradients without a GPU. A call is slow: it starts a process, which compiles the kernel."""

import ctypes
import os
import re
import struct
import subprocess
import tempfile

import torch

from tilewright import compiler, places
from tilewright.runtime import TORCH_TYPES, TilewrightError

# The types of .npy files; types that NumPy does not have are converted to f32.
_FILE_TYPES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i1": "|b1"}

_OPTION = re.compile(r"; give it with --(in|scalar) \w+=\S+$")  # the remedy of the tool for a capture that is missing

_device = None  # --device of tilewright-run; None: CPU tensors are rejected


class interpret:
    """Makes attention accept CPU tensors, for which tilewright-run computes the results: on its interpreter ("cpu") or
    on a simulated GPU ("sim:sm_90a"). interpret(None) restores the initial state, in which attention rejects CPU
    tensors. The call takes effect immediately, for the whole process; as a context manager, until the `with` statement
    ends. Raises ValueError for another device."""

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


def _kind(tensor):
    kind = TORCH_TYPES.get(str(tensor.dtype))
    if kind is None:
        raise TilewrightError(f"elements must be of one of {', '.join(TORCH_TYPES)}, but got {tensor.dtype}",
                              "invalid argument")
    return kind


def _write(path, tensor, kind):
    if kind not in _FILE_TYPES:
        tensor = tensor.float()
    tensor = tensor.detach().contiguous()
    shape = "".join(f"{extent}, " for extent in tensor.shape)
    header = f"{{'descr': '{_FILE_TYPES.get(kind, '<f4')}', 'fortran_order': False, 'shape': ({shape}), }}"
    header = header.ljust((len(header) + 11 + 63) // 64 * 64 - 11) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()))


def _read(path, tensor, kind):
    with open(path, "rb") as file:
        data = file.read()
    data = bytearray(data[10 + struct.unpack("<H", data[8:10])[0]:])
    dtype = tensor.dtype if kind in _FILE_TYPES else torch.float32
    if data:
        tensor.copy_(torch.frombuffer(data, dtype=dtype).reshape(tensor.shape))


class Plan:
    """One kernel or program with bound parameters, with the interface of the plans of tilewright.runtime."""

    def __init__(self, kernel, params, with_files, device, entry=None):
        self.command = [places.find_run(), kernel, f"--device={device}", *compiler.entry_option(kernel, entry)]
        self.command += [f"--param={name}={value}" for name, value in params.items()]
        self.command += [f"--with={file}" for file in with_files]

    def takes(self, name):
        return True  # tilewright-run reports unknown names

    def run(self, values, outputs, updates=()):
        """Runs the plan. `values` holds the arguments, {name: tensor or number}, None where absent; the tensors that
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
                path, kind = os.path.join(folder, name + ".npy"), _kind(value)
                if name in outputs:
                    command.append(f"--out={name}={path}:{kind}@{'x'.join(str(extent) for extent in value.shape)}")
                    written[name] = path, kind
                else:
                    _write(path, value, kind)
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
                _read(path, values[name], kind)
