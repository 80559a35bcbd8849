# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of tensors that the arguments of several functions have in common."""

import torch

from tilewright.checks import shown


def check_dense(name, x):
    """Raises ValueError unless x is a tensor whose elements lie in memory by strides."""
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"{name} must be a tensor, but got {type(x).__name__}")
    if x.is_nested:
        raise ValueError(f"{name} must be a dense tensor, but got a nested one; pass values() and, as cu_seqlens, offsets() of "
                         "one of the layout torch.jagged as packed sequences")
    if x.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor, but got {x.layout}; convert it with .to_dense()")


def check_device(name, x, device):
    if x.device != device:
        raise ValueError(f"{name} must be on the device of q, {device}, but got {x.device}; move it with .to()")


def check_integers(name, x, device, shape, types=(torch.int32,)):
    """Raises ValueError unless x is a dense tensor of one of the types on the device. `shape` lists its extents; a word stands
    for an extent that is not checked."""
    fits, got = False, ""
    if isinstance(x, torch.Tensor):
        check_dense(name, x)
        fits = x.dim() == len(shape) and all(isinstance(n, str) or n == own for n, own in zip(shape, x.shape))
        if fits and x.dtype in types and x.device == device:
            return
        got = f"{x.dtype} {list(x.shape)} on {x.device}{'; convert it with .to()' if fits else ''}"
    kinds = " or ".join(str(each).partition(".")[2] for each in types)
    extents = ", ".join(map(str, shape))
    raise ValueError(f"{name} must be a tensor [{extents}] of {kinds} on {device}, but got {got or shown(x)}")
