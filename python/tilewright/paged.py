# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decoding over a cache in pages with the layouts and conventions of FlashInfer. No gradients."""

import math

import torch

from tilewright import cached, checks
from tilewright.tensors import check_dense, check_device, check_integers

__all__ = ["paged_decode", "block_tables_of"]

LOG2_E = math.log2(math.e)
LAYOUTS = ("NHD", "HND")


def paged_decode(q, kv_cache, indptr=None, indices=None, last_page_len=None, *, block_tables=None, seq_lens=None, max_pages=None,
                 kv_layout="NHD", q_len_per_req=1, sm_scale=None, logits_soft_cap=None, window_left=-1, k_scale=None,
                 v_scale=None, sinks=None, pos_encoding_mode="NONE", num_splits=0, out=None, return_lse=False):
    """Computes O [B * R, Hq, DV] from q [B * R, Hq, D], the R = q_len_per_req last queries of each sequence, of which the last
    one attends all keys and each before it one key fewer. kv_cache is [pages, 2, rows of a page, Hkv, D] with kv_layout "NHD",
    and [pages, 2, Hkv, rows of a page, D] with "HND"; or (k, v), each without the dimension of 2. Strides are arbitrary.

    Which pages a sequence has, int32: pages indices[indptr[b]] to indices[indptr[b + 1] - 1], of whose last one
    last_page_len[b] rows count; or block_tables [B, L], with seq_lens [B] keys, those of the queries included. The first three
    are converted to the last two in each call, by block_tables_of: an engine does that once for all layers of a step.

    sm_scale is 1 / sqrt(D) by default. logits_soft_cap c: scores become c tanh(score / c); None or 0: off. window_left: the
    number of keys before that of a query that it attends, or -1 for all. The cache may be of float8_e4m3fn, float8_e5m2 or int8,
    with q of another type: k_scale and v_scale are then factors of what it holds, numbers or float32 [1], [Hkv] or [B, Hkv].
    sinks [Hq]: logits that join the softmax sum of each row. num_splits is that of flash_attn_with_kvcache: with 1 or more the
    result of a sequence has the same bits in any batch. O is written to `out`, if that is given, which is also the result.

    With return_lse, returns (O, LSE [B * R, Hq]), a logarithm to the base 2, as merge_state takes it with base2. A sequence
    without keys gives O = 0 and LSE = -inf. Raises ValueError for invalid arguments, and for tensors that require
    gradients."""
    if pos_encoding_mode != "NONE":
        raise ValueError("pos_encoding_mode must be 'NONE': keys are rotated when they are written to the cache, by append_kv, but "
                         f"got {checks.shown(pos_encoding_mode)}")
    k_cache, v_cache = _caches(kv_cache, kv_layout)
    check_dense("q", q)
    queries = checks.integer_of(q_len_per_req)
    if queries is None or queries < 1:
        raise ValueError(f"q_len_per_req must be a number of at least 1, but got {checks.shown(q_len_per_req)}")
    if q.dim() != 3 or q.shape[0] % queries != 0:
        raise ValueError(f"q must be a tensor of three dimensions, of which the first is a multiple of q_len_per_req, {queries}, but "
                         f"got shape {list(q.shape)}")
    cached.check_caches("paged_decode", q, 3, [("k", k_cache), ("v", v_cache)], may_have_bytes=True)
    batch = q.shape[0] // queries
    block_tables, seq_lens = _tables(indptr, indices, last_page_len, block_tables, seq_lens, max_pages, k_cache, batch, q.device)
    window = checks.window_of((window_left, -1))
    softcap = 0.0 if logits_soft_cap is None else logits_soft_cap
    factors = [_factors(name, x, cache, batch, q.device)
               for name, x, cache in (("k_scale", k_scale, k_cache), ("v_scale", v_scale, v_cache))]
    if out is not None:
        cached.check_out(out, q, v_cache.shape[-1])
    splits = cached.splits_of(num_splits)

    def by_sequence(x):
        return None if x is None else x.unflatten(0, (batch, queries)).transpose(1, 2)

    o, lse = cached.attend(by_sequence(q), k_cache, v_cache, block_tables, seq_lens, causal=True, window_size=window,
                           softcap=softcap, softmax_scale=sm_scale, num_splits=splits, sinks=sinks, k_descale=factors[0],
                           v_descale=factors[1], out=by_sequence(out))
    o = o.transpose(1, 2).flatten(0, 1) if out is None else out
    return (o, lse.transpose(1, 2).flatten(0, 1) * LOG2_E) if return_lse else o


def block_tables_of(indptr, indices, last_page_len, page_size, max_pages=None):
    """The table [B, max_pages] and the numbers of keys [B] of sequences that have pages indices[indptr[b]] to
    indices[indptr[b + 1] - 1], all full but for the last one, of which last_page_len[b] rows count; all int32. max_pages, by
    default the number of all pages, is the largest number that a sequence may have: keys beyond it do not count. Nothing is
    read on the host. Raises ValueError for invalid arguments."""
    check_dense("indptr", indptr)
    device = indptr.device
    check_integers("indptr", indptr, device, ("sequences + 1",))
    if indptr.shape[0] < 1:
        raise ValueError("indptr must have one element more than there are sequences, but got 0")
    check_integers("indices", indices, device, ("pages",))
    check_integers("last_page_len", last_page_len, device, (indptr.shape[0] - 1,))
    columns, rows = indices.shape[0] if max_pages is None else checks.integer_of(max_pages), checks.integer_of(page_size)
    for name, value, given in (("page_size", rows, page_size), ("max_pages", columns, max_pages)):
        if value is None or value < (1 if name == "page_size" else 0):
            raise ValueError(f"{name} must be a number of at least {1 if name == 'page_size' else 0}, but got {checks.shown(given)}")
    count = indptr.diff()
    lengths = ((count - 1) * rows + last_page_len).masked_fill(count <= 0, 0).clamp(max=columns * rows)
    if indices.shape[0] == 0 or columns == 0:
        return indices.new_zeros(count.shape[0], columns), lengths
    at = indptr[:-1, None] + torch.arange(columns, dtype=torch.int32, device=device)
    return indices[at.clamp(0, indices.shape[0] - 1)], lengths


def _caches(kv_cache, layout):
    """Keys and values as [pages, rows, heads, width]."""
    if layout not in LAYOUTS:
        raise ValueError(f"kv_layout must be 'NHD' or 'HND', but got {checks.shown(layout)}")
    if isinstance(kv_cache, (tuple, list)):
        if len(kv_cache) != 2:
            raise ValueError(f"kv_cache must be a tensor, or a pair of keys and values, but got {len(kv_cache)} tensors")
        caches = kv_cache
        for name, x in zip(("k", "v"), caches):
            check_dense(f"{name} of kv_cache", x)
            if x.dim() != 4:
                raise ValueError(f"{name} of kv_cache must be a tensor of four dimensions, but got shape {list(x.shape)}")
    else:
        check_dense("kv_cache", kv_cache)
        if kv_cache.dim() != 5 or kv_cache.shape[1] != 2:
            raise ValueError("kv_cache must be a tensor of five dimensions, of which the second, of keys and values, is 2, but got "
                             f"shape {list(kv_cache.shape)}")
        caches = kv_cache.unbind(1)
    return [x.transpose(1, 2) if layout == "HND" else x for x in caches]


def _tables(indptr, indices, last_page_len, block_tables, seq_lens, max_pages, k_cache, batch, device):
    lists = {"indptr": indptr, "indices": indices, "last_page_len": last_page_len}
    listed = [name for name, x in lists.items() if x is not None]
    for name, x in (("block_tables", block_tables), ("seq_lens", seq_lens)):
        if listed and x is not None:
            raise ValueError(f"{name} must be None where there is {listed[0]}: pages are those of lists, or of a table")
    if block_tables is None and seq_lens is None:
        if indptr is None:
            raise ValueError("block_tables must be given, with seq_lens, or indptr, indices and last_page_len: they say which pages "
                             "a sequence has")
        check_dense("indptr", indptr)
        check_device("indptr", indptr, device)
        block_tables, seq_lens = block_tables_of(indptr, indices, last_page_len, max(k_cache.shape[1], 1), max_pages)
        if seq_lens.shape[0] != batch:
            raise ValueError(f"indptr must have one element more than the {batch} sequences of q, but got {indptr.shape[0]}")
    elif max_pages is not None:
        raise ValueError("max_pages must be None where there are block_tables, whose columns are so many")
    cached.check_table(block_tables, k_cache, batch, device, "block_tables")
    check_integers("seq_lens", seq_lens, device, (batch,))
    return block_tables, seq_lens


def _factors(name, factors, cache, batch, device):
    """The factors of a cache of 8 bits, [batch, Hkv]; None for other caches."""
    number = None if isinstance(factors, torch.Tensor) else checks.float_of(factors)
    if number is not None:
        if cache.dtype not in cached.STORED and number == 1:
            return None
        factors = torch.full((1,), number, dtype=torch.float32, device=device)
    if isinstance(factors, torch.Tensor) and tuple(factors.shape) in ((), (1,)):
        factors = factors.reshape(1).expand(cache.shape[2])
    return cached.factors_of(name, factors, cache, device, batch)
