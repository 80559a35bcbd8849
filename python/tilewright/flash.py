# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention with the names, layouts and conventions of the package flash_attn, version 2. Arrays are
[batch, rows, heads, width], or [rows, heads, width] for packed sequences; no copy is made to change the layout. Masks,
windows and ALiBi are aligned to the bottom right corner. A side of window_size is a number of keys, or -1 for all; other
negative numbers, which that package takes for -1, are an error."""

from tilewright.torch import attention

__all__ = ["flash_attn_func", "flash_attn_varlen_func"]


def _common(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs):
    if return_attn_probs and dropout_p > 0:
        raise ValueError("return_attn_probs must be False where there is dropout: the kernels do not write probabilities; "
                         "for LSE call it without dropout, or tilewright.attention with return_lse")
    return {"dropout_p": dropout_p, "scale": softmax_scale, "causal": "bottom_right" if causal else False,
            "window": window_size, "align": "bottom_right", "softcap": softcap, "alibi_slopes": alibi_slopes,
            "deterministic": deterministic or None, "return_lse": True}


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    """Computes O [B, Sq, Hq, DV] from q [B, Sq, Hq, D], k [B, Skv, Hkv, D] and v [B, Skv, Hkv, DV]. With
    return_attn_probs, returns (O, LSE [B, Hq, Sq], None); LSE of a row without keys is -inf. Raises ValueError for
    invalid arguments, and for return_attn_probs with dropout."""
    options = _common(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
    o, lse = attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **options)
    o = o.transpose(1, 2)
    return (o, lse, None) if return_attn_probs else o


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                           deterministic=False, return_attn_probs=False, block_table=None, seqused_q=None,
                           seqused_k=None):
    """Computes O [rows, Hq, DV] from q [rows, Hq, D], k [keys, Hkv, D] and v [keys, Hkv, DV]. With return_attn_probs,
    returns (O, LSE [Hq, rows], None). Rows of no sequence give O = 0 and LSE = -inf. seqused_q and seqused_k,
    [sequences] of int32 as in version 3, limit the rows of each sequence: unused rows give O = 0, and the bottom right
    corner is that of the used rows. Raises ValueError for invalid arguments and for a block_table."""
    if block_table is not None:
        raise ValueError("block_table must be None: the kernel of packed sequences reads keys in order, not by pages; "
                         "kernels/attention_decode.mlir reads pages, by tilewright.runtime")
    options = _common(dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)
    o, lse = attention(q, k, v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q,
                       max_seqlen_k=max_seqlen_k, seqused_q=seqused_q, seqused_k=seqused_k, **options)
    return (o, lse, None) if return_attn_probs else o
