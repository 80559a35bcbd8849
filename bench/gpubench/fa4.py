# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""FlashAttention-4 as a peer: the package flash-attn-4, which compiles its kernels at their first use and needs no nvcc."""

import importlib
import importlib.metadata

from gpubench.cases import SOFTCAP

MODULE = "flash_attn.cute.interface"
SOFTCAPS = {"": 0.0, "softcap": SOFTCAP}  # the supported modifiers


def why_absent():
    """None if the package can be imported, else one line with the reason."""
    try:
        importlib.import_module(MODULE)
    except Exception as error:  # importing loads libraries and compiles, and may raise any exception
        return f"not installed: {type(error).__name__}: {error}".splitlines()[0]
    return None


def version():
    try:
        return importlib.metadata.version("flash-attn-4")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def arrange(array):
    """The array [batch, heads, rows, dim], stored in the order [batch, rows, heads, dim] that the package takes."""
    return array.transpose(1, 2).contiguous().transpose(1, 2)


def forward(causal, scale, mod="", window=0):
    """A function of q, k and v, [batch, heads, rows, dim], that returns O; None if the package does not support the
    modifier. For arrays of `arrange`, the transpositions change only strides."""
    if mod not in SOFTCAPS:
        return None
    options = {"softmax_scale": scale, "causal": causal, "softcap": SOFTCAPS[mod],
               "window_size": ((window, None) if causal else (window, window)) if window else (None, None)}

    def call(q, k, v):
        result = importlib.import_module(MODULE).flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), **options)
        return (result[0] if isinstance(result, tuple) else result).transpose(1, 2)

    return call


def varlen_forward(causal, scale):
    """A function that returns O from q, k and v, [tokens, heads, dim], the start of each sequence, and the longest
    length."""
    def call(q, k, v, cu_seqlens, longest):
        result = importlib.import_module(MODULE).flash_attn_varlen_func(
            q, k, v, cu_seqlens_q=cu_seqlens, cu_seqlens_k=cu_seqlens, max_seqlen_q=longest, max_seqlen_k=longest,
            softmax_scale=scale, causal=causal)
        return result[0] if isinstance(result, tuple) else result

    return call
