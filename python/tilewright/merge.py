# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Merges results of attention over disjoint parts of the keys, with the names of FlashInfer's functions. No gradients."""

import torch

from tilewright.choice import MergeChoice
from tilewright.ops import dense_rows, sum_type
from tilewright.plans import TYPES, launch, plan
from tilewright.registration import operator
from tilewright.tensors import check_dense

__all__ = ["merge_state", "merge_states"]

MAX_WIDTH = 1024  # kernels/attention_merge.mlir requires it


def _results(o, like, dtype):
    """O and LSE of rows like those of `like` [M, H, D]."""
    return like.new_empty(like.shape, dtype=dtype or o.dtype), like.new_empty(like.shape[:2], dtype=sum_type(o))


@operator("merge(Tensor o, Tensor lse, Tensor? o_other, Tensor? lse_other, ScalarType? dtype, bool base2) -> (Tensor, Tensor)")
def merge(o, lse, o_other, lse_other, dtype, base2):
    """O [M, H, D] and LSE [M, H] over the parts o [M, N, H, D], lse [M, N, H], and one more, o_other and lse_other."""
    merged, sums = _results(o, o[:, 0] if o_other is None else o_other, dtype)
    launch_merge(o, lse, o_other, lse_other, merged, sums, base2)
    return merged, sums


@torch.library.register_fake("tilewright::merge")
def _merge_fake(o, lse, o_other, lse_other, dtype, base2):
    return _results(o, o[:, 0] if o_other is None else o_other, dtype)


def launch_merge(o, lse, o_other, lse_other, merged, sums, base2=False):
    """Writes the results to `merged` and `sums`."""
    choice = MergeChoice(TYPES[o.dtype], o.shape[-1], TYPES[merged.dtype], o_other is not None, base2)
    values = {"o_parts": dense_rows(o), "lse_parts": lse, "o": merged, "lse": sums}
    if o_other is not None:
        values |= {"o_other": dense_rows(o_other), "lse_other": lse_other}
    launch(plan(choice, o.device), values, ("o", "lse"), o.device)


def _described(x):
    return f"{x.dtype} {list(x.shape)} on {x.device}"


def _check(o_name, o, lse_name, lse, dims, like, like_name):
    """Checks O with `dims` dimensions and its LSE; `like` is the first O of the call."""
    words = {3: "[rows, heads, width]", 4: "[rows, parts, heads, width]"}
    for name, x in ((o_name, o), (lse_name, lse)):
        check_dense(name, x)
        if torch.is_grad_enabled() and x.requires_grad:
            raise ValueError(f"{name} must not require a gradient: merging has none; use torch.no_grad()")
    if o.dim() != dims or o.dtype not in TYPES or not 1 <= o.shape[-1] <= MAX_WIDTH:
        raise ValueError(f"{o_name} must be a tensor {words[dims]} of float16, bfloat16, float32 or float64, of a width from 1 to "
                         f"{MAX_WIDTH}, but got {_described(o)}")
    if o is not like and (o.shape != like.shape or o.dtype != like.dtype or o.device != like.device):
        raise ValueError(f"{o_name} must be as {like_name}, {_described(like)}, but got {_described(o)}")
    if lse.shape != o.shape[:-1] or lse.dtype != sum_type(o) or lse.device != o.device:
        raise ValueError(f"{lse_name} must be a tensor {list(o.shape[:-1])} of {sum_type(o)} on {o.device}, but got "
                         f"{_described(lse)}")


def _check_dtype(dtype):
    if dtype is not None and dtype not in TYPES:
        raise ValueError(f"dtype must be float16, bfloat16, float32, float64 or None, but got {dtype}")


def merge_states(o, lse, *, base2=False, dtype=None):
    """Merges the results o [M, N, H, D] of attention over N disjoint parts of the keys, and their lse [M, N, H], to those over
    all of them: (O [M, H, D], LSE [M, H]). N is any number, and strides are arbitrary, so that parts may be outside of rows
    and lse be the transpose of [H, M]. lse is of float32 (float64 if o is of float64), and a natural logarithm, as attention
    returns it; with base2, lse and LSE are logarithms to the base 2, as FlashInfer's are. A part whose lse is -inf weighs
    nothing, and its o may be NaN; where all parts are so, O is 0 and LSE -inf. O has the type of o, or `dtype`. Raises
    ValueError for invalid arguments, and for tensors that require gradients."""
    _check("o", o, "lse", lse, 4, o, "o")
    _check_dtype(dtype)
    if o.shape[1] == 0:
        raise ValueError("o must have at least 1 part, but got 0")
    return merge(o, lse, None, None, dtype, bool(base2))


def merge_state(o_a, lse_a, o_b, lse_b, *, base2=False, dtype=None):
    """merge_states of two parts in arrays of their own: o_a and o_b [M, H, D], lse_a and lse_b [M, H]. Copies neither."""
    _check("o_a", o_a, "lse_a", lse_a, 3, o_a, "o_a")
    _check("o_b", o_b, "lse_b", lse_b, 3, o_a, "o_a")
    _check_dtype(dtype)
    return merge(o_a[:, None], lse_a[:, None], o_b, lse_b, dtype, bool(base2))
