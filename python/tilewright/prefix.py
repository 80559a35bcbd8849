# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of new queries of sequences that share their first keys: these are read for all queries together, the keys of
each sequence by itself, and the two results are merged. No gradients."""

import functools

import torch

from tilewright import cached, checks
from tilewright.choice import DecodeChoice
from tilewright.merge import launch_merge
from tilewright.ops import dense_rows, sum_type
from tilewright.plans import TYPES, launch, plan
from tilewright.registration import operator
from tilewright.tensors import check_integers

__all__ = ["cascade"]

TILE_ROWS, TILE_QUERIES = 128, 16  # of kernels/attention_decode.mlir


def queries_of_tile(group, queries):
    """How many queries, of any sequences, attend the shared keys in one tile, with all heads of a group: a power of two."""
    most = max(min(TILE_ROWS // group, TILE_QUERIES), 1)
    return min(1 << (most.bit_length() - 1), 1 << max(queries - 1, 0).bit_length())


@functools.lru_cache(maxsize=64)
def _kept(make, device, *arguments):
    made = make(device, *arguments)
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # any stream may read it
    return made


def _integers(device, make, *arguments):
    """A tensor of int32 that does not change, made once; for a graph, by the graph."""
    is_capturing = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
    return make(device, *arguments) if is_capturing else _kept(make, device, *arguments)


def _starts(device, rows, each):
    """The boundaries of rows in tiles of `each` ones."""
    return torch.arange(0, rows + each, each, dtype=torch.int32, device=device).clamp(max=rows)


def _number(device, value):
    return torch.full((1,), value, dtype=torch.int32, device=device)


def _attend_shared(q, k_cache, v_cache, table, length, o, lse, values, scale, modifier, splits):
    """O and LSE of the rows q [T, Hq, D], each of which attends all keys of the table [L] up to length [1]."""
    rows, heads = q.shape[:2]
    each = queries_of_tile(heads // k_cache.shape[2], rows)
    choice = cached.choice_of(q.dtype, heads, each, q.shape[-1], k_cache.shape[2], k_cache.shape[1], v_cache.shape[-1], False, True,
                              False, "none", False, modifier, splits)
    k, v = "k", "v"
    if isinstance(choice, DecodeChoice):  # tiles of rows are sequences with equal keys
        k, v = "k_pages", "v_pages"
        tiles = -(-rows // each)
        if rows % each:
            choice, values = choice._replace(packed=True), {**values, "cu_seqlens_q": _integers(q.device, _starts, rows, each)}
    else:  # a group of too many heads
        tiles, each = 1, rows
    arrays = {"q": q, "o": o, "lse": lse}
    if rows % each:
        values = {**values, **{name: x.transpose(0, 1)[None] for name, x in arrays.items()}}
    else:
        values = {**values, **{name: x.unflatten(0, (tiles, each)).transpose(1, 2) for name, x in arrays.items()}}
    values |= {k: k_cache, v: v_cache, "block_table": table.expand(tiles, -1), "seq_lens": length.expand(tiles), "scale": scale,
               "window_left": -1, "window_right": -1}
    launch(plan(choice, q.device), values, ("o", "lse"), q.device)


def _attend_own(q, k_cache, v_cache, block_table, seq_lens, o, lse, values, causal, scale, modifier, splits):
    """O and LSE [B, Sq, Hq, ...] of q [B, Sq, Hq, D] over the keys of each sequence."""
    choice = cached.choice_of(q.dtype, q.shape[2], q.shape[1], q.shape[-1], k_cache.shape[2], k_cache.shape[1],
                              v_cache.shape[-1], False, block_table is not None, False, causal, False, modifier, splits)
    k, v = ("k_pages", "v_pages") if isinstance(choice, DecodeChoice) else ("k", "v")
    values = {**values, "q": q.transpose(1, 2), k: k_cache, v: v_cache, "block_table": block_table, "seq_lens": seq_lens,
              "o": o.transpose(1, 2), "lse": lse.transpose(1, 2), "scale": scale, "window_left": -1, "window_right": -1}
    launch(plan(choice, q.device), values, ("o", "lse"), q.device)


def _results(q, v_cache):
    return q.new_empty((*q.shape[:3], v_cache.shape[-1])), q.new_empty(q.shape[:3], dtype=sum_type(q))


@operator("cascade(Tensor q, Tensor k_cache, Tensor v_cache, Tensor shared_k, Tensor shared_v, Tensor? shared_table, "
          "Tensor? shared_len, SymInt shared_keys, Tensor? block_table, Tensor seq_lens, str causal, float scale, "
          "float softcap, SymInt splits) -> (Tensor, Tensor)")
def cascade_attention(q, k_cache, v_cache, shared_k, shared_v, shared_table, shared_len, shared_keys, block_table, seq_lens,
                      causal, scale, softcap, splits):
    """O and LSE, [B, Sq, Hq, ...], of q [B, Sq, Hq, D] over shared_keys keys, or shared_len [1], of the table [L] (None: of the
    only page), and those of each sequence. A softcap of 0 is none."""
    o, lse = _results(q, v_cache)
    if o.numel() == 0:
        return o, lse
    q, k_cache, v_cache, shared_k, shared_v = map(dense_rows, (q, k_cache, v_cache, shared_k, shared_v))
    rows = q.shape[0] * q.shape[1]
    parts, sums = o.new_empty((2, *o.shape)), lse.new_empty((2, *lse.shape))  # parts outside of rows
    modifier, values = ("softcap", {"softcap": float(softcap)}) if softcap else ("", {})
    if shared_table is None:
        shared_table = _integers(q.device, _number, 0)
    if shared_len is None:
        shared_len = _integers(q.device, _number, int(shared_keys))
    _attend_shared(q.reshape(rows, *q.shape[2:]), shared_k, shared_v, shared_table, shared_len,
                   parts[0].view(rows, *o.shape[2:]), sums[0].view(rows, -1), values, scale, modifier, int(splits))
    _attend_own(q, k_cache, v_cache, block_table, seq_lens, parts[1], sums[1], values, causal, scale, modifier, int(splits))
    launch_merge(parts.view(2, rows, *o.shape[2:]).transpose(0, 1), sums.view(2, rows, -1).transpose(0, 1), None, None,
                 o.view(rows, *o.shape[2:]), lse.view(rows, -1))
    return o, lse


@torch.library.register_fake("tilewright::cascade")
def _cascade_fake(q, k_cache, v_cache, shared_k, shared_v, shared_table, shared_len, shared_keys, block_table, seq_lens, causal,
                  scale, softcap, splits):
    return _results(q, v_cache)


def cascade(q, k_cache, v_cache, shared_keys, *, shared_table=None, shared_k=None, shared_v=None, block_table=None,
            cache_seqlens=None, softmax_scale=None, causal=False, softcap=0.0, num_splits=0, return_softmax_lse=False):
    """Attention of new queries q [B, Sq, Hq, D] of B sequences that begin with the same keys (a prompt of the system, a
    document, samples of one prompt): O [B, Sq, Hq, DV], and with return_softmax_lse (O, LSE [B, Hq, Sq]), as
    flash_attn_with_kvcache computes them with the shared keys in front of those of each sequence. The shared keys are read
    once for all queries, not once for each sequence.

    shared_keys     how many keys are shared: a number, or an int32 tensor [1], whose value may change between the replays of a
                    graph
    shared_table    [L], int32: the pages of k_cache and v_cache that hold them; or
    shared_k, shared_v
                    [rows, Hkv, D] and [rows, Hkv, DV]: an array of the shared keys and one of their values
    k_cache, v_cache, block_table, cache_seqlens
                    the other keys, as in flash_attn_with_kvcache: the sequences count and list them from 0 on. A sequence may
                    have none
    causal          of the last cache_seqlens keys; every query attends all shared keys
    num_splits      as in flash_attn_with_kvcache; shared keys are divided likewise

    Other arguments are those of flash_attn_with_kvcache. Can be captured in a graph after a first call. Raises ValueError for
    invalid arguments, and for tensors that require gradients."""
    cached.check_caches("cascade", q, 4, [("k_cache", k_cache), ("v_cache", v_cache)], max_dim=cached.MAX_DIM)
    batch = q.shape[0]
    if (shared_table is None) == (shared_k is None and shared_v is None):
        raise ValueError("either shared_table, or shared_k and shared_v must be given")
    if shared_table is not None:
        check_integers("shared_table", shared_table, q.device, ("pages",))
        shared_k, shared_v = k_cache, v_cache
    else:
        if shared_k is None or shared_v is None:
            raise ValueError("shared_k and shared_v must both be given, or both be None")
        cached.check_caches("cascade", q, 4, [("shared_k", shared_k[None]), ("shared_v", shared_v[None])],
                            max_dim=cached.MAX_DIM)
        if shared_k.shape[1] != k_cache.shape[2] or shared_v.shape[2] != v_cache.shape[3]:
            raise ValueError("shared_k must have the heads of k_cache, and shared_v the width of v_cache, but got "
                             f"{list(shared_k.shape)} and {list(shared_v.shape)}")
        shared_k, shared_v = shared_k[None], shared_v[None]  # one page
    room = shared_k.shape[1] * (1 if shared_table is None else shared_table.shape[0])
    length = None
    if isinstance(shared_keys, torch.Tensor):
        check_integers("shared_keys", shared_keys, q.device, (1,))
        length, shared_keys = shared_keys, 0
    else:
        given = checks.integer_of(shared_keys)
        if given is None or not 0 <= given <= room:
            raise ValueError(f"shared_keys must be a tensor or a number from 0 to {room}, but got {checks.shown(shared_keys)}")
        shared_keys = given
    cached.check_pages(block_table, k_cache, batch, q.device)
    check_integers("cache_seqlens", cache_seqlens, q.device, (batch,))
    splits = cached.splits_of(num_splits)
    causal = "bottom_right" if causal or q.shape[1] == 1 else "none"
    o, lse = cascade_attention(q, k_cache, v_cache, shared_k, shared_v, shared_table, length, shared_keys, block_table,
                               cache_seqlens, causal, checks.scale_of(softmax_scale, q.shape[-1]),
                               checks.softcap_of(softcap) or 0.0, splits)
    return (o, lse.transpose(1, 2)) if return_softmax_lse else o
