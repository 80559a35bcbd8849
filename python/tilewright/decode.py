# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of new queries of each sequence over a cache of keys and values, in pages or in one piece, with the name,
layouts and conventions of flash_attn's function, of versions 2 and 3. No gradients."""

import torch

from tilewright import cached, checks
from tilewright.append import append_to_sequences
from tilewright.features import is_length, packed_of
from tilewright.tensors import check_dense, check_integers

__all__ = ["flash_attn_with_kvcache", "get_scheduler_metadata"]

BYTES = (torch.float8_e4m3fn, torch.float8_e5m2)  # types of q that are converted


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
                            window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
                            return_softmax_lse=False, tree_bits=None, k_descale=None, v_descale=None, sinks=None,
                            block_mask=None, cp_world_size=1, cp_rank=0, cp_tot_seqused_k=None, cp_interleave_size=1,
                            cp_first_key=None, *, page_table=None, cu_seqlens_q=None, cu_seqlens_k_new=None,
                            max_seqlen_q=None, rotary_seqlens=None, qv=None, q_descale=None, attention_chunk=0,
                            scheduler_metadata=None, pack_gqa=None, sm_margin=0, out=None):
    """Computes O [B, Sq, Hq, DV] from q [B, Sq, Hq, D] and the first cache_seqlens[b] keys and values of each sequence,
    which include those of the queries. The caches have shapes [B, rows, Hkv, D] and [B, rows, Hkv, DV], or with
    block_table [B, L], int32, [pages, rows of a page, Hkv, D] and [..., DV]: key j of sequence b is row j mod rows of page
    block_table[b, j // rows]. Strides are arbitrary, so that pages may have their heads outside of their rows.
    cache_seqlens is an int32 tensor [B] or a number; without it, all rows of the caches count. Rows behind the end of a
    sequence are not read. With cache_batch_idx [B], int32, sequence b is cache_batch_idx[b] of the caches, or of the rows of
    the block_table. With return_softmax_lse, returns (O, LSE [B, Hq, Sq]). Causal masks, window_size and alibi_slopes are aligned to the bottom
    right corner: the last query of a sequence is at its last key.

    num_splits: into how many parts the keys of a sequence are divided at most. With 1 or more the result of a sequence has
    the same bits in any batch; 0, the default, divides them as few or many sequences need. Keys are divided for up to 16
    queries of a sequence, and 128 of the heads that share a key head.

    With k [B, R, Hkv, D] and v [B, R, Hkv, DV], R new keys and values of each sequence are first written to the caches,
    behind the cache_seqlens[b] that it has, and then attended as well. cache_seqlens must be given, and is not changed. Keys
    for which a sequence has no room are not written. With rotary_cos and rotary_sin [positions, R / 2], the first R columns
    of the new keys and of q are rotated: key i of sequence b by position cache_seqlens[b] + i, and each row of q by
    cache_seqlens[b], or row i by cache_seqlens[b] + i if causal or with a window or chunks. rotary_interleaved: columns 2 i and
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

    Further arguments, by name alone, are those of FlashAttention 3. page_table is another name of block_table. With cu_seqlens_q
    [B + 1], int32, and max_seqlen_q, a number, q is [rows, Hq, D], packed: queries cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1 are
    those of sequence b. O is [rows, Hq, DV] and LSE [Hq, rows] then, and keys are not divided. With cu_seqlens_k_new, k and v
    are packed as well, [keys, Hkv, D or DV]. rotary_seqlens [B], int32, takes the place of cache_seqlens in the positions of
    the rotation. q may be of float8_e4m3fn or float8_e5m2, if caches, k and v are: it is converted to bfloat16, the type of the
    result, and q_descale, float32 [B, Hkv], is the factor of what it holds. k and v are written as they are then. O is written
    to `out`, if that is given, which is also the result. pack_gqa, sm_margin and scheduler_metadata are not used: heads that
    share a key head are always packed, and kernels divide the keys themselves. With attention_chunk C, a number, the positions of a
    sequence are in chunks of C, from position 0 (that of key cache_leftpad[b]) on, and a query attends only the keys in its own, in
    addition to other masks. qv is refused.

    Raises ValueError for invalid arguments, and for tensors that require gradients."""
    has_new, window_size = k is not None or v is not None, checks.window_of(window_size)
    is_packed = cu_seqlens_q is not None
    chunk, splits = cached.check_names_of_3(
        qv, attention_chunk, num_splits, pack_gqa, sm_margin,
        "flash_mla_with_kvcache attends a latent cache, for which q and qv are the columns of one array")
    if scheduler_metadata is not None and not isinstance(scheduler_metadata, torch.Tensor):
        raise ValueError("scheduler_metadata must be None or a tensor, as get_scheduler_metadata returns it, but got "
                         f"{checks.shown(scheduler_metadata)}")
    if not is_packed and max_seqlen_q is not None and not is_length(max_seqlen_q):
        raise ValueError(f"max_seqlen_q must be an integer, but got {checks.shown(max_seqlen_q)}")
    if page_table is not None:
        if block_table is not None:
            raise ValueError("page_table must be None where there is a block_table: these are names of one argument")
        block_table = page_table
    for name, value in (("rotary_cos", rotary_cos), ("rotary_sin", rotary_sin), ("cu_seqlens_k_new", cu_seqlens_k_new)):
        if value is not None and not has_new:
            raise ValueError(f"{name} must be None where there are no new keys, k and v")
    if has_new and cache_seqlens is None:
        raise ValueError("cache_seqlens must be given where there are new keys, k and v, which go behind them")
    if tree_bits is not None:
        for name, given in (("window_size", window_size != (-1, -1)), ("alibi_slopes", alibi_slopes is not None),
                            ("attention_chunk", chunk > 0), ("cu_seqlens_q", is_packed)):
            if given:
                why = "the bits are those of as many queries in each sequence" if name == "cu_seqlens_q" else (
                    "the place of a token is not its position")
                raise ValueError(f"{name} must be left out where there are tree_bits: {why}")
    is_of_bytes = isinstance(q, torch.Tensor) and q.dtype in BYTES
    if is_of_bytes:
        q, k, v, rotary_cos, rotary_sin = _widened(q, k_cache, k, v, rotary_cos, rotary_sin)
    elif q_descale is not None:
        raise ValueError("q_descale must be None for q of other types than float8_e4m3fn and float8_e5m2; softmax_scale may "
                         "have a factor of all queries")
    cached.check_caches("flash_attn_with_kvcache", q, 3 if is_packed else 4, [("k_cache", k_cache), ("v_cache", v_cache)],
                        may_have_bytes=True)
    if is_packed:
        packed_of(cu_seqlens_q, cu_seqlens_q, max_seqlen_q, max_seqlen_q, q.device)
    batch, rows = cu_seqlens_q.shape[0] - 1 if is_packed else q.shape[0], k_cache.shape[1]
    block_table = _chosen(cache_batch_idx, block_table, k_cache, batch, q.device)
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
    for name, x, shape in (("cu_seqlens_k_new", cu_seqlens_k_new, (batch + 1,)), ("rotary_seqlens", rotary_seqlens, (batch,))):
        if x is not None:
            check_integers(name, x, q.device, shape)
    if out is not None:
        cached.check_out(out, q, v_cache.shape[-1])
    part = _part_of_ranks(q, batch, cp_world_size, cp_rank, cp_tot_seqused_k, cp_interleave_size, cp_first_key,
                          [("k", k), ("v", v), ("cache_leftpad", cache_leftpad), ("sinks", sinks),
                           ("attention_chunk", chunk or None)])
    of_heads = [cached.factors_of(name, None if is_of_bytes else factors, cache, q.device) if has_new else None
                for name, factors, cache in (("k_descale", k_descale, k_cache), ("v_descale", v_descale, v_cache))]
    k_descale = cached.factors_of("k_descale", k_descale, k_cache, q.device, batch)
    v_descale = cached.factors_of("v_descale", v_descale, v_cache, q.device, batch)
    if q_descale is not None:
        k_descale = _with_factors_of_queries(q_descale, k_descale, batch, q.device)
    if has_new:
        is_local = causal or chunk > 0 or window_size != (-1, -1)
        other_positions = None if rotary_seqlens is cache_seqlens else rotary_seqlens
        q, cache_seqlens = append_to_sequences(q, k, v, k_cache, v_cache, cache_seqlens, block_table, rotary_cos, rotary_sin,
                                               rotary_interleaved, not is_local, *of_heads, cu_seqlens_q, cu_seqlens_k_new,
                                               other_positions)
    o, lse = cached.attend(q if is_packed else q.transpose(1, 2), k_cache, v_cache, block_table, cache_seqlens,
                           leftpad=cache_leftpad, cu_seqlens_q=cu_seqlens_q, causal=causal, window_size=window_size,
                           softcap=softcap, alibi_slopes=alibi_slopes, softmax_scale=softmax_scale, num_splits=splits,
                           tree_bits=tree_bits, k_descale=k_descale, v_descale=v_descale, sinks=sinks, block_mask=block_mask,
                           attention_chunk=chunk, out=out if out is None or is_packed else out.transpose(1, 2), **part)
    o = out if out is not None else o if is_packed else o.transpose(1, 2)
    return (o, lse) if return_softmax_lse else o


def get_scheduler_metadata(batch_size, max_seqlen_q, max_seqlen_k, num_heads_q, num_heads_kv, headdim, cache_seqlens,
                           qkv_dtype=torch.bfloat16, headdim_v=None, cu_seqlens_q=None, cu_seqlens_k_new=None,
                           cache_leftpad=None, page_size=None, max_seqlen_k_new=0, causal=False, window_size=(-1, -1),
                           attention_chunk=0, has_softcap=False, num_splits=0, pack_gqa=None, sm_margin=0):
    """An empty tensor of int32 on the device of cache_seqlens, for callers of FlashAttention 3's function: kernels find their
    share of the keys by themselves. flash_attn_with_kvcache accepts it as scheduler_metadata."""
    check_dense("cache_seqlens", cache_seqlens)
    return torch.empty(0, dtype=torch.int32, device=cache_seqlens.device)


def _widened(q, k_cache, k, v, rotary_cos, rotary_sin):
    """q of 8 bits, new keys and values, and the tables of a rotation, all in bfloat16, which has their values."""
    for name, x in (("k_cache", k_cache), ("k", k), ("v", v)):
        if x is not None and getattr(x, "dtype", None) != q.dtype:
            raise ValueError(f"{name} must have the type of q, {q.dtype}, where that has 8 bits, but got "
                             f"{getattr(x, 'dtype', type(x).__name__)}")
    return [x.to(torch.bfloat16) if isinstance(x, torch.Tensor) and x.dtype in BYTES else x
            for x in (q, k, v, rotary_cos, rotary_sin)]


def _with_factors_of_queries(q_descale, k_descale, batch, device):
    """The factors of keys, times those of queries: both are factors of the scores."""
    check_dense("q_descale", q_descale)
    heads = k_descale.shape[-1]
    if q_descale.dtype != torch.float32 or q_descale.device != device or tuple(q_descale.shape) not in ((heads,), (batch, heads)):
        raise ValueError(f"q_descale must be a tensor [{heads}] or [{batch}, {heads}] of float32 on {device}, but got "
                         f"{q_descale.dtype} {list(q_descale.shape)} on {q_descale.device}")
    if k_descale.dim() == 3:
        raise ValueError("q_descale must be None where k_descale has factors of each key")
    return k_descale * q_descale


def _chosen(cache_batch_idx, block_table, k_cache, batch, device):
    """The table of the sequences that cache_batch_idx chooses of the caches, or of the rows of a table. An index that there is
    not gives pages that there are not."""
    if cache_batch_idx is None:
        return block_table
    check_integers("cache_batch_idx", cache_batch_idx, device, (batch,))
    if block_table is None:  # sequence b is page cache_batch_idx[b], of all rows
        return cache_batch_idx[:, None]
    check_integers("block_table", block_table, device, ("sequences", "pages"))
    count = block_table.shape[0]
    if count == 0:
        raise ValueError("block_table must have at least 1 row where there is cache_batch_idx, but got 0")
    is_row = (cache_batch_idx >= 0) & (cache_batch_idx < count)
    rows = block_table.index_select(0, cache_batch_idx.clamp(0, count - 1))
    return rows.masked_fill(~is_row[:, None], -1)


def _part_of_ranks(q, batch, world_size, rank, total_lens, interleave, first_key, others):
    """What cached.attend takes for the keys of one rank; nothing where the caches have all keys."""
    numbers = {}
    for name, given, least in (("cp_world_size", world_size, 1), ("cp_rank", rank, 0), ("cp_interleave_size", interleave, 1)):
        numbers[name] = value = checks.integer_of(given)
        if value is None or value < least:
            raise ValueError(f"{name} must be a number of at least {least}, but got {checks.shown(given)}")
    ranks, rank, interleave = numbers.values()
    if rank >= ranks:
        raise ValueError(f"cp_rank must be less than cp_world_size, {ranks}, but got {rank}")
    is_whole = ranks == 1 and first_key is None
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
