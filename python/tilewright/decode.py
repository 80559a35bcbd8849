# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of one new query of each sequence over a cache of keys and values, in pages or in one piece, with the name,
layouts and conventions of flash_attn's function. No gradients."""

import torch

from tilewright import checks
from tilewright.choice import DecodeChoice
from tilewright.ops import dense_rows, sum_type
from tilewright.plans import TYPES, launch, plan
from tilewright.registration import operator

__all__ = ["flash_attn_with_kvcache"]


def _results(q, v_cache):
    return q.new_empty((*q.shape[:-1], v_cache.shape[-1])), q.new_empty(q.shape[:-1], dtype=sum_type(q))


@operator("decode(Tensor q, Tensor k_cache, Tensor v_cache, Tensor? block_table, Tensor seq_lens, float scale, "
          "SymInt splits) -> (Tensor, Tensor)")
def decode(q, k_cache, v_cache, block_table, seq_lens, scale, splits):
    """O [B, Hq, DV] and LSE [B, Hq] of q [B, Hq, D]; the caches are [pages, rows, Hkv, width]."""
    o, lse = _results(q, v_cache)
    group = q.shape[1] // max(k_cache.shape[2], 1)
    choice = DecodeChoice(TYPES[q.dtype], q.shape[-1], v_cache.shape[-1], max(group, 1),
                          0 if block_table is None else page_rows(k_cache.shape[1]), int(splits))
    values = {"q": dense_rows(q), "k_pages": dense_rows(k_cache), "v_pages": dense_rows(v_cache), "o": o, "lse": lse,
              "block_table": block_table, "seq_lens": seq_lens, "scale": scale}
    launch(plan(choice, q.device), values, ("o", "lse"), q.device)
    return o, lse


@torch.library.register_fake("tilewright::decode")
def _decode_fake(q, k_cache, v_cache, block_table, seq_lens, scale, splits):
    return _results(q, v_cache)


def page_rows(rows):
    """How many rows of a page of `rows` rows one copy takes: a divisor."""
    return next(size for size in (128, 64, 32, 16, 8, 1) if rows % size == 0)


def _number_table(name, x, device, dims):
    if not isinstance(x, torch.Tensor) or x.dtype != torch.int32 or x.dim() != dims or x.device != device:
        got = f"{x.dtype} {list(x.shape)} on {x.device}" if isinstance(x, torch.Tensor) else type(x).__name__
        what = f"an int32 tensor of {dims} dimension{'s' * (dims > 1)} on {device}"
        raise ValueError(f"{name} must be {what}, but got {got}")


def _check_caches(q, k_cache, v_cache, block_table):
    for name, x in (("q", q), ("k_cache", k_cache), ("v_cache", v_cache)):
        if not isinstance(x, torch.Tensor) or x.dim() != 4:
            got = f"shape {list(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor of four dimensions, but got {got}")
        if x.dtype != q.dtype or x.dtype not in TYPES:
            raise ValueError(f"{name} must be of float16, bfloat16, float32 or float64, as q is, but got {x.dtype}")
        if x.device != q.device:
            raise ValueError(f"{name} must be on the device of q, {q.device}, but got {x.device}; move it with .to()")
        if torch.is_grad_enabled() and x.requires_grad:
            raise ValueError(f"{name} must not require a gradient: flash_attn_with_kvcache has none; use torch.no_grad()")
    if k_cache.shape[:3] != v_cache.shape[:3] or k_cache.shape[3] != q.shape[3]:
        raise ValueError("k_cache and v_cache must agree in all but their width, and k_cache and q in their width, but got "
                         f"{list(k_cache.shape)}, {list(v_cache.shape)} and {list(q.shape)}")
    for name, x in (("q", q), ("v_cache", v_cache)):
        if not 1 <= x.shape[3] <= checks.MAX_DIM:
            raise ValueError(f"{name} must have a width from 1 to {checks.MAX_DIM}, but got {x.shape[3]}")
    if q.shape[1] != 1:
        raise ValueError(f"q must have one row for each sequence, but got {q.shape[1]}; flash_attn_func takes more, of keys "
                         "in one piece")
    heads, key_heads = q.shape[2], k_cache.shape[2]
    if key_heads == 0 or heads % key_heads != 0 or heads // key_heads > 128:
        raise ValueError(f"q must have a multiple of the {key_heads} heads of k_cache, at most 128 for each, but got {heads}")
    if block_table is None and k_cache.shape[0] != q.shape[0]:
        raise ValueError(f"k_cache must have the batch of q, {q.shape[0]}, where there is no block_table, but got "
                         f"{k_cache.shape[0]}")


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
                            window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
                            return_softmax_lse=False):
    """Computes O [B, 1, Hq, DV] from q [B, 1, Hq, D] and the first cache_seqlens[b] keys and values of each sequence. The
    caches have shapes [B, rows, Hkv, D] and [B, rows, Hkv, DV], or with block_table [B, L], int32, [pages, rows of a page,
    Hkv, D] and [..., DV]: key j of sequence b is row j mod rows of page block_table[b, j // rows]. Strides are arbitrary,
    so that pages may have their heads outside of their rows. cache_seqlens is an int32 tensor [B] or a number; without it,
    all rows of the caches count. Rows behind the end of a sequence are not read. With cache_batch_idx [B], int32, sequence b
    is cache_batch_idx[b] of the caches. With return_softmax_lse, returns (O, LSE [B, Hq, 1]).

    num_splits: into how many parts the keys of a sequence are divided at most. With 1 or more the result of a sequence has
    the same bits in any batch; 0, the default, divides them as few or many sequences need. One query attends all keys, so
    causal changes nothing. Raises ValueError for invalid arguments, for tensors that require gradients, and for what it
    does not support: new keys (k, v), rotary embeddings, cache_leftpad, windows, softcap and ALiBi."""
    for name, value in (("k", k), ("v", v), ("rotary_cos", rotary_cos), ("rotary_sin", rotary_sin),
                        ("cache_leftpad", cache_leftpad), ("alibi_slopes", alibi_slopes)):
        if value is not None:
            raise ValueError(f"{name} must be None: flash_attn_with_kvcache does not support it yet")
    if checks.window_of(window_size) != (-1, -1) or softcap:
        raise ValueError("window_size must be (-1, -1) and softcap 0: flash_attn_with_kvcache does not support others yet")
    if cache_batch_idx is not None:  # sequence b is page cache_batch_idx[b], of all rows
        if block_table is not None:
            raise ValueError("cache_batch_idx must be None where there is a block_table")
        _number_table("cache_batch_idx", cache_batch_idx, q.device, 1)
        block_table = cache_batch_idx[:, None]
    _check_caches(q, k_cache, v_cache, block_table)
    batch, rows = q.shape[0], k_cache.shape[1]
    if block_table is not None:
        _number_table("block_table", block_table, q.device, 2)
        if block_table.shape[0] != batch or rows == 0:
            raise ValueError(f"block_table must have the batch of q, {batch}, and pages at least 1 row, but got "
                             f"{list(block_table.shape)} and {rows}")
        rows *= block_table.shape[1]
    if isinstance(cache_seqlens, torch.Tensor):
        _number_table("cache_seqlens", cache_seqlens, q.device, 1)
        if cache_seqlens.shape[0] != batch:
            raise ValueError(f"cache_seqlens must have the batch of q, {batch}, but got {cache_seqlens.shape[0]}")
    else:
        length = rows if cache_seqlens is None else cache_seqlens
        if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length <= rows:
            raise ValueError(f"cache_seqlens must be a tensor or a number from 0 to {rows}, but got {length!r}")
        cache_seqlens = torch.full((batch,), length, dtype=torch.int32, device=q.device)
    if isinstance(num_splits, bool) or not isinstance(num_splits, int) or not 0 <= num_splits <= 1024:
        raise ValueError(f"num_splits must be a number from 0 to 1024, but got {num_splits!r}")
    scale = checks.scale_of(softmax_scale, q.shape[3])
    o, lse = decode(q[:, 0], k_cache, v_cache, block_table, cache_seqlens, scale, num_splits)
    return (o[:, None], lse[:, :, None]) if return_softmax_lse else o[:, None]
