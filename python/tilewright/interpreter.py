# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs kernels on tensors in host memory with tilewright-run (tilewright.host)."""

import ctypes
import struct

import torch

from tilewright import host
from tilewright.host import device, interpret
from tilewright.runtime import TORCH_TYPES, TilewrightError

__all__ = ["Plan", "device", "interpret"]


class Plan(host.Plan):
    """The plan of a kernel for tensors."""

    def kind_of(self, tensor):
        kind = TORCH_TYPES.get(str(tensor.dtype))
        if kind is None:
            raise TilewrightError(f"elements must be of one of {', '.join(TORCH_TYPES)}, but got {tensor.dtype}",
                                  "invalid argument")
        return kind

    def write(self, path, tensor, kind):
        if kind not in host.FILE_TYPES:
            tensor = tensor.float()
        tensor = tensor.detach().contiguous()
        shape = "".join(f"{extent}, " for extent in tensor.shape)
        header = f"{{'descr': '{host.FILE_TYPES.get(kind, '<f4')}', 'fortran_order': False, 'shape': ({shape}), }}"
        header = header.ljust((len(header) + 11 + 63) // 64 * 64 - 11) + "\n"
        with open(path, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            file.write(ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()))

    def read(self, path, tensor, kind):
        with open(path, "rb") as file:
            data = file.read()
        data = bytearray(data[10 + struct.unpack("<H", data[8:10])[0]:])
        dtype = tensor.dtype if kind in host.FILE_TYPES else torch.float32
        if data:
            tensor.copy_(torch.frombuffer(data, dtype=dtype).reshape(tensor.shape))
