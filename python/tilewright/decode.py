# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of new queries of each sequence over a cache of keys and values, in pages or in one piece, with the name,
layouts and conventions of flash_attn's function. No gradients."""

import torch

from tilewright import cached, checks
from tilewright.append import append_to_sequences
from tilewright.tensors import check_integers

__all__ = ["flash_attn_with_kvcache"]


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
                            window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
                            return_softmax_lse=False, tree_bits=None, k_descale=None, v_descale=None, sinks=None,
                            block_mask=None, cp_world_size=1, cp_rank=0, cp_tot_seqused_k=None, cp_interleave_size=1,
                            cp_first_key=None):
    """Computes O [B, Sq, Hq, DV] from q [B, Sq, Hq, D] and the first cache_seqlens[b] keys and values of each sequence,
    which include those of the queries. The caches have shapes [B, rows, Hkv, D] and [B, rows, Hkv, DV], or with
    block_table [B, L], int32, [pages, rows of a page, Hkv, D] and [..., DV]: key j of sequence b is row j mod rows of page
    block_table[b, j // rows]. Strides are arbitrary, so that pages may have their heads outside of their rows.
    cache_seqlens is an int32 tensor [B] or a number; without it, all rows of the caches count. Rows behind the end of a
    sequence are not read. With cache_batch_idx [B], int32, sequence b is cache_batch_idx[b] of the caches. With
    return_softmax_lse, returns (O, LSE [B, Hq, Sq]). Causal masks, window_size and alibi_slopes are aligned to the bottom
    right corner: the last query of a sequence is at its last key.

    num_splits: into how many parts the keys of a sequence are divided at most. With 1 or more the result of a sequence has
    the same bits in any batch; 0, the default, divides them as few or many sequences need. Keys are divided for up to 16
    queries of a sequence, and 128 of the heads that share a key head.

    With k [B, R, Hkv, D] and v [B, R, Hkv, DV], R new keys and values of each sequence are first written to the caches,
    behind the cache_seqlens[b] that it has, and then attended as well. cache_seqlens must be given, and is not changed. Keys
    for which a sequence has no room are not written. With rotary_cos and rotary_sin [positions, R / 2], the first R columns
    of the new keys and of q are rotated: key i of sequence b by position cache_seqlens[b] + i, and each row of q by
    cache_seqlens[b], or row i by cache_seqlens[b] + i if causal or with a window. rotary_interleaved: columns 2 i and
    2 i + 1 are rotated together, otherwise i and i + R / 2.

    cache_leftpad [B], int32: the keys of sequence b begin with key cache_leftpad[b], also in pages. cache_seqlens and the
    positions of a rotation count the keys before it. These are not read, but in pages up to 127 of their values are, which
    must be finite.

    tree_bits [B, Sq, W], int32, for drafted tokens that form a tree: query i attends key c of the last Sq ones, which are
    those of the queries, if bit c mod 32 of tree_bits[b, i, c // 32] is set, and all keys before these. With causal, a token
    must come before those that follow it in the tree. There is neither a window nor alibi_slopes then, since the place of a
    token in the cache is not its position.

    The caches may be of float8_e4m3fn, float8_e5m2 or int8, with q of another type. Then k_descale and v_descale, float32 [Hkv] or
    [B, Hkv], are factors of what they hold, 1 by default; new keys and values, for which these must be [Hkv], are divided by
    them. As [pages, rows, Hkv] (or [B, rows, Hkv]) they are factors of each key and value, up to 1 for values, and those of
    new keys and values are written.

    sinks [Hq]: logits that join the softmax sum of each row, without a row of v.

    block_mask: which blocks of keys are attended, in addition to other masks, as for tilewright.attention: (kv_num_blocks
    [B, Hkv, Mb], kv_indices [B, Hkv, Mb, L], block size) of int32, where the heads may also be Hq, and the extents of batches
    and heads 1. Blocks count from the first key of a sequence, and other keys are not read. With blocks of as many queries as
    a sequence has, so that Mb is 1, of 16, 32, 64, 128 or 256 keys, and with lists that the heads of a group share, keys are
    divided as described above. There is no cache_leftpad then.

    With cp_world_size W > 1, the caches are those of rank cp_rank of W, which have the keys of sequences by turns,
    cp_interleave_size consecutive ones each: with 1, key c is at position c * W + cp_rank. cache_seqlens counts the keys of
    this rank, and cp_tot_seqused_k [B], int32, those of all; masks, windows and ALiBi go by positions in the whole. O and LSE
    are those of this rank, for merge_states. Where a rank has consecutive keys instead, cp_first_key is the position of the
    first: a number or int32 [B], with cp_world_size 1. Sequences have at most 16 queries, and there are neither new keys, nor
    cache_leftpad, nor sinks.

    Raises ValueError for invalid arguments, and for tensors that require gradients."""
    has_new, window_size = k is not None or v is not None, checks.window_of(window_size)
    for name, value in (("rotary_cos", rotary_cos), ("rotary_sin", rotary_sin)):
        if value is not None and not has_new:
            raise ValueError(f"{name} must be None where there are no new keys, k and v")
    if has_new and cache_seqlens is None:
        raise ValueError("cache_seqlens must be given where there are new keys, k and v, which go behind them")
    if tree_bits is not None:
        for name, given in (("window_size", window_size != (-1, -1)), ("alibi_slopes", alibi_slopes is not None)):
            if given:
                raise ValueError(f"{name} must be left out where there are tree_bits: the place of a token is not its position")
    cached.check_caches("flash_attn_with_kvcache", q, 4, [("k_cache", k_cache), ("v_cache", v_cache)],
                        may_have_bytes=True)
    if cache_batch_idx is not None:  # sequence b is page cache_batch_idx[b], of all rows
        if block_table is not None:
            raise ValueError("cache_batch_idx must be None where there is a block_table")
        check_integers("cache_batch_idx", cache_batch_idx, q.device, (q.shape[0],))
        block_table = cache_batch_idx[:, None]
    batch, rows = q.shape[0], k_cache.shape[1]
    cached.check_pages(block_table, k_cache, batch, q.device)
    if block_table is not None:
        rows *= block_table.shape[1]
    if isinstance(cache_seqlens, torch.Tensor):
        check_integers("cache_seqlens", cache_seqlens, q.device, (batch,))
    else:
        length = rows if cache_seqlens is None else checks.integer_of(cache_seqlens)
        if length is None or not 0 <= length <= rows:
            raise ValueError(f"cache_seqlens must be a tensor or a number from 0 to {rows}, but got {checks.shown(cache_seqlens)}")
        cache_seqlens = torch.full((batch,), length, dtype=torch.int32, device=q.device)
    if cache_leftpad is not None:
        if block_mask is not None:
            raise ValueError("block_mask must be left out where there is cache_leftpad: blocks count from the first key")
        check_integers("cache_leftpad", cache_leftpad, q.device, (batch,))
    splits = cached.splits_of(num_splits)
    part = _part_of_ranks(q, cp_world_size, cp_rank, cp_tot_seqused_k, cp_interleave_size, cp_first_key,
                          [("k", k), ("v", v), ("cache_leftpad", cache_leftpad), ("sinks", sinks)])
    of_heads = [cached.factors_of(name, factors, cache, q.device) if has_new else None
                for name, factors, cache in (("k_descale", k_descale, k_cache), ("v_descale", v_descale, v_cache))]
    k_descale = cached.factors_of("k_descale", k_descale, k_cache, q.device, batch)
    v_descale = cached.factors_of("v_descale", v_descale, v_cache, q.device, batch)
    if has_new:
        is_local = causal or window_size != (-1, -1)
        q, cache_seqlens = append_to_sequences(q, k, v, k_cache, v_cache, cache_seqlens, block_table, rotary_cos, rotary_sin,
                                               rotary_interleaved, not is_local, *of_heads)
    o, lse = cached.attend(q.transpose(1, 2), k_cache, v_cache, block_table, cache_seqlens, leftpad=cache_leftpad, causal=causal,
                           window_size=window_size, softcap=softcap, alibi_slopes=alibi_slopes,
                           softmax_scale=softmax_scale, num_splits=splits, tree_bits=tree_bits, k_descale=k_descale,
                           v_descale=v_descale, sinks=sinks, block_mask=block_mask, **part)
    o = o.transpose(1, 2)
    return (o, lse) if return_softmax_lse else o


def _part_of_ranks(q, world_size, rank, total_lens, interleave, first_key, others):
    """What cached.attend takes for the keys of one rank; nothing where the caches have all keys."""
    numbers = {}
    for name, given, least in (("cp_world_size", world_size, 1), ("cp_rank", rank, 0), ("cp_interleave_size", interleave, 1)):
        numbers[name] = value = checks.integer_of(given)
        if value is None or value < least:
            raise ValueError(f"{name} must be a number of at least {least}, but got {checks.shown(given)}")
    ranks, rank, interleave = numbers.values()
    if rank >= ranks:
        raise ValueError(f"cp_rank must be less than cp_world_size, {ranks}, but got {rank}")
    batch, is_whole = q.shape[0], ranks == 1 and first_key is None
    if is_whole:
        if total_lens is not None:
            raise ValueError("cp_tot_seqused_k must be None where the caches have all keys: cp_world_size is 1, without cp_first_key")
        return {}
    for name, value in others:
        if value is not None:
            raise ValueError(f"{name} must be None where keys are those of one rank")
    check_integers("cp_tot_seqused_k", total_lens, q.device, (batch,))
    if isinstance(first_key, torch.Tensor):
        check_integers("cp_first_key", first_key, q.device, (batch,))
        first_keys = first_key
    else:
        first = rank * interleave if first_key is None else checks.integer_of(first_key)
        if first is None or first < 0:
            raise ValueError(f"cp_first_key must be a tensor or a number of at least 0, but got {checks.shown(first_key)}")
        first_keys = torch.full((1,), first, dtype=torch.int32, device=q.device).expand(batch)
    return dict(first_keys=first_keys, total_lens=total_lens, ranks=ranks, rank_keys=interleave)
