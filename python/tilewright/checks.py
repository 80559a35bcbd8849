# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Argument checks of attention. Does not need PyTorch: arrays are described by shape, type and device."""

import math
import os

from tilewright import places

TYPES = ("f16", "bf16", "f32", "f64")
CAUSAL = ("none", "top_left", "bottom_right")
ALIGNMENTS = ("top_left", "bottom_right")
SEPARATOR = os.pathsep  # separates the files of a modifier
MAX_DIM = 256
F32_MAX = 3.4028234663852886e38
SOFTCAP_MAX = 1e18  # kernels/mods/softcap.mlir requires it
I32_MAX = 2**31 - 1


def causal_mode(causal):
    """Returns "none", "top_left" or "bottom_right" for the argument `causal`. False and None mean "none"; True means
    "top_left", as PyTorch's is_causal does."""
    mode = "none" if causal is None else causal
    if isinstance(causal, bool):
        mode = "top_left" if causal else "none"
    if not isinstance(mode, str) or mode not in CAUSAL:
        raise ValueError(f"causal must be True, False or one of {', '.join(CAUSAL)}, but got {causal!r}")
    return mode


def window_of(window):
    """Returns the argument `window` as (left, right), the numbers of keys on each side; -1 means unlimited."""
    if window is None:
        return -1, -1
    try:
        left, right = window
        whole = isinstance(left, int) and isinstance(right, int) and min(left, right) >= -1 and max(left, right) <= I32_MAX
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError("window must be two integers (left, right), each the number of keys that a query sees on that "
                         f"side, or -1 for all of them, but got {window!r}")
    return left, right


def align_of(align, causal):
    """Returns the corner where the diagonal starts, "top_left" or "bottom_right"; `causal` is a result of causal_mode."""
    own = "bottom_right" if causal == "bottom_right" else "top_left"
    if align is None:
        return own
    if align not in ALIGNMENTS or (causal != "none" and align != own):
        raise ValueError(f"align must be one of {', '.join(ALIGNMENTS)}, and match causal unless that is none, but got "
                         f"{align!r} with causal {causal}")
    return align


def softcap_of(softcap):
    """Returns the argument `softcap` as a positive float, or None if it is None or 0."""
    if softcap is None or (not isinstance(softcap, bool) and isinstance(softcap, (int, float)) and softcap == 0):
        return None
    if isinstance(softcap, bool) or not isinstance(softcap, (int, float)) or not 0 < softcap <= SOFTCAP_MAX:
        raise ValueError(f"softcap must be positive and at most 1e18, or None or 0 for none, but got {softcap!r}")
    return softcap * 1.0


def dropout_of(p):
    """Returns the argument `dropout_p` as a float from 0 to less than 1."""
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p < 1:
        raise ValueError(f"dropout_p must be a number from 0 to less than 1, but got {p!r}")
    return p * 1.0


def scale_of(scale, dim):
    """Returns the argument `scale` as a float; the default is 1 / sqrt(dim). Raises ValueError for other arguments, and
    for the default of heads without columns."""
    if scale is None and dim < 1:
        raise ValueError(f"scale must be given for heads of width {dim}, since 1 / sqrt(D) has no value")
    if scale is None:
        return 1 / math.sqrt(dim)
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not -F32_MAX <= scale <= F32_MAX:
        raise ValueError(f"scale must be a finite number of f32, or None for 1 / sqrt(D), but got {scale!r}; a factor that is a "
                         "tensor belongs into q")
    return scale * 1.0


def modifier_files(modifier):
    """Returns the paths of the files of a modifier. `modifier` is the name of a file in kernels/mods, a path that ends in
    .mlir, or several of these, separated by os.pathsep. Raises ValueError if a file does not exist."""
    files = []
    for name in filter(None, (modifier or "").split(SEPARATOR)):
        path = name if name.endswith(".mlir") else os.path.join(places.KERNELS, "mods", name + ".mlir")
        if not os.path.isfile(path):
            folder = os.path.join(places.KERNELS, "mods")
            shipped = sorted(file[:-5] for file in os.listdir(folder)) if os.path.isdir(folder) else []
            raise ValueError(f"modifier must be one of {', '.join(shipped)} or the path of an .mlir file, but got {name!r}")
        files.append(path)
    return files


def modifier_text(modifier):
    """Converts None, a name, a path, or a list of names and paths to one string, which modifier_files takes."""
    if modifier is None:
        return ""
    if isinstance(modifier, str):
        return modifier
    if not isinstance(modifier, (list, tuple)) or not all(isinstance(name, str) for name in modifier):
        raise ValueError(f"modifier must be a name, a path or a list of them, but got {modifier!r}")
    return SEPARATOR.join(modifier)


def check_capture(name, value, device, q_device):
    """Raises ValueError unless `value` can be passed to a capture. `device` is the device of a tensor, or None for a
    number."""
    if device is not None:
        if device != q_device:
            raise ValueError(f"capture '{name}' must be on the device of q, {q_device}, but got {device}; move it with .to()")
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"capture '{name}' must be a tensor or a number, but got {type(value).__name__}")
    elif isinstance(value, int) and not -I32_MAX - 1 <= value <= I32_MAX:
        raise ValueError(f"capture '{name}' must be an i32, but got {value}; write {float(value)!r} where an f32 is meant")


class Array:
    """The properties of an array that the checks read: its shape, its type (one of TYPES, or the framework's name of
    another type), and its device, as in "cuda:0"."""

    def __init__(self, name, shape, dtype, device):
        self.name, self.shape, self.dtype, self.device = name, shape, dtype, device


def check_arrays(q, k, v, packed=False, devices=("cuda",)):
    """Raises ValueError unless the kernels accept q, k and v, given as Array: [batch, heads, rows, width], or
    [rows, heads, width] if they hold packed sequences. `devices` lists the allowed kinds of devices."""
    dims, what = (3, "three dimensions [rows, heads, width]") if packed else (
        4, "four dimensions [batch, heads, rows, width]")
    for array in (q, k, v):
        if array.device.partition(":")[0] not in devices:
            raise ValueError(f"{array.name} must be on a CUDA device, but got {array.device}; move it with .cuda(), or see "
                             "tilewright.interpret")
        if array.device != q.device:
            raise ValueError(f"{array.name} must be on the device of q, {q.device}, but got {array.device}; move it with .to()")
        if array.dtype not in TYPES:
            raise ValueError(f"{array.name} must be of float16, bfloat16, float32 or float64, but got {array.dtype}")
        if array.dtype != q.dtype:
            raise ValueError(f"{array.name} must have the type of q, {q.dtype}, but got {array.dtype}; convert it with .to()")
        if len(array.shape) != dims:
            hint = "" if packed or len(array.shape) != 3 else "; packed sequences have cu_seqlens_q"
            raise ValueError(f"{array.name} must have the {what}, but got shape {list(array.shape)}{hint}")
        if not 1 <= array.shape[-1] <= MAX_DIM:
            raise ValueError(f"{array.name} must have a width from 1 to {MAX_DIM}, but got {array.shape[-1]}")
    if k.shape[-1] != q.shape[-1]:
        raise ValueError(f"k must have the width of q, {q.shape[-1]}, but got {k.shape[-1]}")
    for array in (k, v):
        if not packed and array.shape[0] != q.shape[0]:
            raise ValueError(f"{array.name} must have the batch of q, {q.shape[0]}, but got {array.shape[0]}; expand it")
    for dim, what in ((1, "heads"), (0 if packed else 2, "rows")):
        if v.shape[dim] != k.shape[dim]:
            raise ValueError(f"v must have as many {what} as k, {k.shape[dim]}, but got {v.shape[dim]}")
    if q.shape[1] > 0 and (k.shape[1] == 0 or q.shape[1] % k.shape[1] != 0):
        hint = "" if packed else ("; arrays are [batch, heads, rows, width]: use transpose(1, 2) on [batch, rows, heads, "
                                  "width]")
        raise ValueError(f"the heads of q must be a multiple of those of k, but got {q.shape[1]} and {k.shape[1]}{hint}")
