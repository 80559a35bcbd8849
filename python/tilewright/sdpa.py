# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention with the arguments of torch.nn.functional.scaled_dot_product_attention, and a switch that makes PyTorch call
it.

    tilewright.sdpa_compatible(query, key, value, attn_mask=mask, dropout_p=0.1)
    with tilewright.use_for_sdpa():
        model(x)                                    # F.scaled_dot_product_attention runs Tilewright's kernels
    print(tilewright.sdpa_fallbacks())              # how often PyTorch's function ran instead, by reason
"""

import collections
import functools
import warnings

import torch
import torch.nn.functional as F

from tilewright import checks, interpreter, ops
from tilewright.torch import attention, autocast
from tilewright.transforms import transform_of

__all__ = ["sdpa_compatible", "why_not_sdpa", "use_for_sdpa", "sdpa_fallbacks"]

_pytorch_sdpa = F.scaled_dot_product_attention
_NAMES = ("query", "key", "value")


def _lead(tensors):
    """Returns the extents before [heads, rows, width], broadcast over the tensors."""
    first, *others = (x.shape[:-3] for x in tensors)
    return first if all(x == first for x in others) else torch.broadcast_shapes(first, *others)


def _invalid(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """Returns the reason why the arguments are invalid in PyTorch as well, or None."""
    tensors = (query, key, value)
    if any(x.dim() < 2 for x in tensors):
        return f"query, key and value must be at least 2 dimensional, but got {', '.join(str(x.dim()) for x in tensors)}"
    if any(x.dtype != query.dtype for x in tensors):
        return f"query, key and value must have the same dtype, but got {', '.join(str(x.dtype) for x in tensors)}"
    if any(x.device != query.device for x in tensors):
        return f"query, key and value must be on the same device, but got {', '.join(str(x.device) for x in tensors)}"
    if key.shape[-1] != query.shape[-1]:
        return f"key must have the width of query, {query.shape[-1]}, but got {key.shape[-1]}"
    if value.shape[-2] != key.shape[-2]:
        return f"value must have as many rows as key, {key.shape[-2]}, but got {value.shape[-2]}"
    if not 0 <= dropout_p <= 1:
        return f"dropout_p must be between 0 and 1, but got {dropout_p}"
    heads = [x.shape[-3] if x.dim() > 2 else 1 for x in tensors]
    if enable_gqa:
        if any(n == 0 or heads[0] % n for n in heads[1:]) and heads[0]:
            return f"the heads of query must be a multiple of those of key and value, but got {heads}"
    elif any(n != 1 and n != max(heads) for n in heads) and 0 not in heads:
        return f"query, key and value must have as many heads, unless enable_gqa is set, but got {heads}"
    try:
        lead = _lead(tensors)
    except RuntimeError:
        return ("batches of query, key and value must be broadcastable, but got "
                f"{', '.join(str(list(x.shape[:-3])) for x in tensors)}")
    if attn_mask is None:
        return None
    if is_causal:
        return "attn_mask must be None where is_causal is set"
    if attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
        return f"attn_mask must be of bool or float or have the dtype of query, but got {attn_mask.dtype}"
    wanted = (*lead, *([max(heads)] if max(x.dim() for x in tensors) > 2 else []), query.shape[-2], key.shape[-2])
    fits = attn_mask.dim() <= len(wanted) and all(
        extent in (1, full) for extent, full in zip(attn_mask.shape[::-1], wanted[::-1]))
    return None if fits else f"attn_mask must be broadcastable to {list(wanted)}, but got {list(attn_mask.shape)}"


@functools.lru_cache(maxsize=None)
def _is_old(index):
    return torch.cuda.get_device_capability(index) < (8, 0)


def _unsupported(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """Returns the reason why the kernels do not support arguments that are valid in PyTorch, or None. Called after
    _invalid."""
    if not torch.compiler.is_compiling():
        for name, x in zip((*_NAMES, "attn_mask"), (query, key, value, attn_mask)):
            transform = transform_of(x)
            if transform is not None:
                return f"{name} must not be a tensor of {transform}"
        if query.device.type == "cuda" and torch.cuda.is_available() and _is_old(query.device.index):
            return "the device must have compute capability 8.0 or more"
    if query.device.type not in ("cuda", "meta") and not (query.device.type == "cpu" and interpreter.device()):
        return f"query must be on a CUDA device, but got {query.device}"
    if query.dtype not in ops.TYPES:
        return f"query must be of float16, bfloat16, float32 or float64, but got {query.dtype}"
    most = checks.MAX_DIM_OF_F64 if query.dtype == torch.float64 else checks.MAX_DIM
    if not 1 <= query.shape[-1] <= most or not 1 <= value.shape[-1] <= most:
        return f"widths must be from 1 to {most}, but got {query.shape[-1]} and {value.shape[-1]}"
    heads = [x.shape[-3] if x.dim() > 2 else 1 for x in (key, value)]
    if heads[0] != heads[1]:
        return f"key and value must have as many heads, but got {heads[0]} and {heads[1]}"
    if dropout_p == 1:
        return "dropout_p must be less than 1"
    if scale is not None and (not isinstance(scale, float) or not -checks.F32_MAX <= scale <= checks.F32_MAX):
        return f"scale must be a finite number of f32, but got {checks.shown(scale)}"
    if attn_mask is not None:
        if attn_mask.dtype not in (torch.bool, query.dtype):
            return f"attn_mask must be of bool or have the dtype of query, {query.dtype}, but got {attn_mask.dtype}"
        if attn_mask.device != query.device:
            return f"attn_mask must be on the device of query, {query.device}, but got {attn_mask.device}"
    return None


def _unusual(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """Returns the reason why the arguments are left to PyTorch without further checks, or None."""
    for name, x in zip(_NAMES, (query, key, value)):
        if not isinstance(x, torch.Tensor):
            return f"{name} must be a tensor, but got {type(x).__name__}"
    if attn_mask is not None and not isinstance(attn_mask, torch.Tensor):
        return f"attn_mask must be a tensor, but got {type(attn_mask).__name__}"
    for name, x in zip((*_NAMES, "attn_mask"), (query, key, value, attn_mask)):
        if x is not None and (x.is_nested or x.layout != torch.strided):
            return f"{name} must be a dense tensor, but got {'a nested one' if x.is_nested else x.layout}"
    if not isinstance(dropout_p, float):
        return f"dropout_p must be a number, but got {checks.shown(dropout_p)}"
    for name, x in ("is_causal", is_causal), ("enable_gqa", enable_gqa):
        if not isinstance(x, bool):
            return f"{name} must be True or False, but got {x!r}"
    return None


def _numbers(dropout_p, scale):
    """The two as floats; what is no number remains."""
    numbers = [None if x is None else checks.float_of(x) for x in (dropout_p, scale)]
    return [x if number is None else number for x, number in zip((dropout_p, scale), numbers)]


def _problem(*arguments):
    """Returns (whether PyTorch rejects the arguments too, the reason), or None if the kernels support the arguments."""
    text = _unusual(*arguments)
    if text is not None:
        return False, text
    text = _invalid(*arguments)
    if text is not None:
        return True, text
    text = _unsupported(*arguments)
    return None if text is None else (False, text)


def why_not_sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """Returns the reason why use_for_sdpa leaves a call with these arguments to PyTorch, or None if Tilewright's kernels
    compute it."""
    query, key, value, attn_mask = autocast(query, key, value, attn_mask)
    dropout_p, scale = _numbers(dropout_p, scale)
    problem = _problem(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return None if problem is None else problem[1]


def _four(x, lead, rank):
    """Broadcasts x to `rank` dimensions [*lead, heads, rows, width], and reshapes it to [batch, heads, rows, width]."""
    x = x[(None,) * (rank - x.dim())]
    if rank == 4:
        return x if x.shape[0] == lead[0] else x.expand(lead[0], -1, -1, -1)
    x = x.expand(*lead, *x.shape[-3:])
    return x.reshape(-1, *x.shape[-3:])


def _call(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """Runs the kernels, after _problem has returned None."""
    tensors = (query, key, value)
    dims = max(x.dim() for x in tensors)
    rank = max(dims, 4)
    lead = (1,) if dims < 4 else _lead(tensors)
    q, k, v = (_four(x, lead, rank) for x in tensors)
    if q.shape[1] < k.shape[1]:  # one head of queries for all heads of keys
        q = q.expand(-1, k.shape[1], -1, -1)
    if attn_mask is not None:
        extra = rank - attn_mask.dim()
        mask = attn_mask[(None,) * extra] if extra > 0 else attn_mask
        if rank > 4:  # one batch of all leading dimensions
            mask = mask[(0,) * (rank - 3)][None] if all(n == 1 for n in mask.shape[:-3]) else _four(mask, lead, rank)
        attn_mask = mask
    o = attention(q, k, v, causal=is_causal, scale=scale, attn_mask=attn_mask, dropout_p=dropout_p)
    if dims == 4:
        return o
    return o[0] if dims == 3 else o[0, 0] if dims == 2 else o.reshape(*lead, *o.shape[-3:])


def sdpa_compatible(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """Computes torch.nn.functional.scaled_dot_product_attention with Tilewright's kernels. Raises RuntimeError for
    arguments that PyTorch rejects too, and ValueError for those that only the kernels reject; the text is the reason that
    why_not_sdpa returns. A row whose keys are all masked gives 0 and zero gradients, as in PyTorch 2.5 and later."""
    query, key, value, attn_mask = autocast(query, key, value, attn_mask)
    dropout_p, scale = _numbers(dropout_p, scale)
    arguments = (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    problem = _problem(*arguments)
    if problem is not None:
        raise (RuntimeError if problem[0] else ValueError)(problem[1])
    return _call(*arguments)


_reasons = collections.Counter()


def sdpa_fallbacks():
    """Returns the number of calls that use_for_sdpa left to PyTorch, by reason, as a collections.Counter. Calls in
    compiled code are not counted. Its method clear() resets the counts."""
    return _reasons


def _or_pytorch(fallback):
    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
                                     enable_gqa=False):
        cast = autocast(query, key, value, attn_mask)
        number_p, number_scale = _numbers(dropout_p, scale)
        problem = _problem(*cast, number_p, is_causal, number_scale, enable_gqa)
        if problem is None:
            return _call(*cast, number_p, is_causal, number_scale, enable_gqa)
        if not torch.compiler.is_compiling():
            _reasons[problem[1]] += 1
            if fallback == "warn":
                warnings.warn(f"PyTorch computes this attention, not Tilewright: {problem[1]}", stacklevel=2)
        if fallback == "raise":
            raise ValueError(f"Tilewright does not compute this attention: {problem[1]}")
        grouped = {"enable_gqa": enable_gqa} if enable_gqa else {}  # an argument that PyTorch 2.4 does not have
        return _pytorch_sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **grouped)

    return scaled_dot_product_attention


_switched = {fallback: _or_pytorch(fallback) for fallback in ("silent", "warn", "raise")}


class use_for_sdpa:
    """Makes torch.nn.functional.scaled_dot_product_attention call Tilewright if it supports the arguments, and PyTorch
    otherwise. Takes effect immediately, for the whole process; as a context manager, until the `with` statement ends.
    False restores PyTorch's function.

    fallback   what happens for unsupported arguments: "silent" and "warn" (with the reason) call PyTorch, "raise" raises
               ValueError. sdpa_fallbacks counts the reasons, and why_not_sdpa returns the reason of a call

    Names that were bound to PyTorch's function before, with `from torch.nn.functional import ...`, are not affected."""

    def __init__(self, enabled=True, *, fallback="silent"):
        if fallback not in _switched:
            raise ValueError(f"fallback must be one of {', '.join(_switched)}, but got {fallback!r}")
        self.previous = F.scaled_dot_product_attention
        F.scaled_dot_product_attention = _switched[fallback] if enabled else _pytorch_sdpa

    def __enter__(self):
        return self

    def __exit__(self, *error):
        F.scaled_dot_product_attention = self.previous
