# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Argument checks of attention. Does not need PyTorch: arrays are described by shape, type and device.

Numbers are given by protocol: an integer is whatever has __index__, a float whatever has __float__ or __index__, such as
numbers of NumPy and tensors without dimensions. A bool is not a number. A path is whatever has __fspath__."""

import math
import operator
import os

from tilewright import performance, places

TYPES = ("f16", "bf16", "f32", "f64")
CAUSAL = ("none", "top_left", "bottom_right")
ALIGNMENTS = ("top_left", "bottom_right")
SEPARATOR = os.pathsep  # separates the files of a modifier
MAX_DIM = 512
MAX_DIM_OF_F64 = 256  # the least blocks of wider heads do not fit the shared memory of every GPU, in some direction
F32_MAX = 3.4028234663852886e38
SOFTCAP_MAX = 1e18  # kernels/mods/softcap.mlir requires it
I32_MAX = 2**31 - 1


def is_flag(x):
    """Whether x is a bool, or an array of bools."""
    return isinstance(x, bool) or str(getattr(x, "dtype", "")) in ("bool", "torch.bool")


def _gives(x, *protocols):
    """Whether x is a single number with one of these methods. A tensor that requires a gradient is not, since it would get
    none, nor is one without data."""
    if not any(hasattr(x, protocol) for protocol in protocols) or is_flag(x) or getattr(x, "ndim", 0):
        return False
    return not (getattr(x, "requires_grad", False) or getattr(x, "is_meta", False)
                or "complex" in str(getattr(x, "dtype", "")))


def _read(x, convert):
    if getattr(x, "is_cuda", False):
        performance.warn("number on a device", f"a number is a tensor on {x.device}, so each call waits for the device to read it, "
                         "and cannot be captured in a graph; pass a number of Python, or a tensor on the CPU")
    try:
        return convert(x)
    except (TypeError, ValueError, OverflowError):
        return None


def integer_of(x):
    """Returns the int that x gives, or None if it is no integer."""
    if isinstance(x, (int, float)):  # not by protocol: torch.compile traces numbers whose value it does not know
        return x if isinstance(x, int) and not isinstance(x, bool) else None
    return _read(x, operator.index) if _gives(x, "__index__") else None


def float_of(x):
    """Returns the float that x gives, or None if it is no number."""
    if isinstance(x, float):
        return x * 1.0  # of a subclass, as numpy.float64 is
    if isinstance(x, int):
        return None if isinstance(x, bool) else _read(x, float) if abs(x) > F32_MAX else x * 1.0
    return _read(x, float) if _gives(x, "__float__", "__index__") else None


def flag_of(x):
    """Returns x as True or False if it is a single bool, else None."""
    if isinstance(x, bool):
        return x
    return _read(x, bool) if is_flag(x) and not getattr(x, "ndim", 0) and not getattr(x, "is_meta", False) else None


def param_text(value):
    """A parameter in the compiler's syntax, or None if the value is neither an integer, a bool nor a string."""
    flag, number = flag_of(value), integer_of(value)
    return value if isinstance(value, str) else str(flag).lower() if flag is not None else None if number is None else str(number)


def kernel_param(name, value, kind, types):
    """The text of a value of a kernel's parameter; `kind` is that of a type, else None. Raises ValueError."""
    text = kind or param_text(value)
    if text is None:
        raise ValueError(f"parameter '{name}' must be an integer, a bool, a string or {types}, but got {shown(value)}")
    return text


def shown(x):
    """x in the text of an error. A tensor is described, since it may be large, or on a device."""
    if hasattr(x, "data_ptr") and hasattr(x, "device"):
        if getattr(x, "is_nested", False):
            return "a nested tensor"
        hint = ", which requires a gradient" if x.requires_grad and x.dim() == 0 else ""
        return f"a tensor of {x.dtype} and shape {list(x.shape)}{hint}"
    return repr(x)


def causal_mode(causal):
    """Returns "none", "top_left" or "bottom_right" for the argument `causal`. False and None mean "none"; True means
    "top_left", as PyTorch's is_causal does."""
    mode = "none" if causal is None else causal
    flag = flag_of(causal)
    if flag is not None:
        mode = "top_left" if flag else "none"
    if not isinstance(mode, str) or mode not in CAUSAL:
        raise ValueError(f"causal must be True, False or one of {', '.join(CAUSAL)}, but got {shown(causal)}")
    return mode


def window_of(window):
    """Returns the argument `window` as (left, right), the numbers of keys on each side; -1 means unlimited."""
    if window is None:
        return -1, -1
    try:
        left, right = map(integer_of, window)
        whole = left is not None and right is not None and min(left, right) >= -1 and max(left, right) <= I32_MAX
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError("window must be two integers (left, right), each the number of keys that a query sees on that "
                         f"side, or -1 for all of them, but got {shown(window)}")
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
    if softcap is None:
        return None
    value = float_of(softcap)
    if value is None or not 0 <= value <= SOFTCAP_MAX:
        raise ValueError(f"softcap must be positive and at most 1e18, or None or 0 for none, but got {shown(softcap)}")
    return value or None


def dropout_of(p):
    """Returns the argument `dropout_p` as a float from 0 to less than 1."""
    value = float_of(p)
    if value is None or not 0 <= value < 1:
        raise ValueError(f"dropout_p must be a number from 0 to less than 1, but got {shown(p)}")
    return value


def scale_of(scale, dim):
    """Returns the argument `scale` as a float; the default is 1 / sqrt(dim). Raises ValueError for other arguments, and
    for the default of heads without columns."""
    if scale is None and dim < 1:
        raise ValueError(f"scale must be given for heads of width {dim}, since 1 / sqrt(D) has no value")
    if scale is None:
        return 1 / math.sqrt(dim)
    value = float_of(scale)
    if value is None or not -F32_MAX <= value <= F32_MAX:
        raise ValueError(f"scale must be a finite number of f32, or None for 1 / sqrt(D), but got {shown(scale)}; a factor that "
                         "has a gradient, or differs between rows or heads, belongs into q")
    return value


def sizes_of(size):
    """Returns the block sizes of a block mask, (queries, keys), from one number for both or a pair."""
    both = integer_of(size)
    try:
        sizes = (both, both) if both is not None else tuple(map(integer_of, size))
    except TypeError:
        sizes = ()
    if len(sizes) != 2 or None in sizes or min(sizes) < 1:
        raise ValueError("block_mask must have blocks of a positive number of queries and keys, an int or a pair of them, "
                         f"but got {shown(size)}")
    return sizes


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
    names = modifier if isinstance(modifier, (list, tuple)) else [modifier]
    if not all(isinstance(name, (str, os.PathLike)) for name in names):
        raise ValueError(f"modifier must be a name, a path or a list of them, but got {modifier!r}")
    return SEPARATOR.join(map(os.fsdecode, names))


def capture_of(name, value, device, q_device):
    """Returns what is passed for a capture: a tensor on `device`, or, if that is None, an int or a float. Raises ValueError
    for other values."""
    if device is not None:
        if device != q_device:
            raise ValueError(f"capture '{name}' must be on the device of q, {q_device}, but got {device}; move it with .to()")
        return value
    number = integer_of(value)
    number = float_of(value) if number is None else number
    if number is None:
        raise ValueError(f"capture '{name}' must be a tensor or a number, but got {type(value).__name__}")
    if isinstance(number, int) and not -I32_MAX - 1 <= number <= I32_MAX:
        raise ValueError(f"capture '{name}' must be an i32, but got {number}; write {float(number)!r} where an f32 is meant")
    return number


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
