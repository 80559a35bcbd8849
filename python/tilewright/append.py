# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""New keys and values, written to a cache in pages or in one piece; they, and queries, may be rotated by their positions.
No gradients."""

import torch

from tilewright.cached import STORED, factors_of, named_factors
from tilewright.choice import AppendChoice
from tilewright.ops import dense_rows
from tilewright.plans import TYPES, launch, plan
from tilewright.registration import operator
from tilewright.tensors import check_dense, check_integers

__all__ = ["append_kv"]

MAX_WIDTH = 1024  # kernels/attention_append.mlir requires it
INDICES = (torch.int32, torch.int64)


def _results(k, seq_lens, q):
    """Rotated queries, and lengths with the new keys; empty where there are none."""
    rotated = k.new_empty(0) if q is None else torch.empty_like(q, memory_format=torch.contiguous_format)
    lengths = k.new_empty(0, dtype=torch.int32) if seq_lens is None else torch.empty_like(seq_lens)
    return rotated, lengths


@operator("append(Tensor k, Tensor? v, Tensor(a!) k_cache, Tensor(b!)? v_cache, Tensor? slots, Tensor? seq_lens, "
          "Tensor? block_table, Tensor? cu_seqlens, Tensor? positions, Tensor? cos, Tensor? sin, Tensor? q, bool pairs, "
          "bool q_first, Tensor? k_descale, Tensor? v_descale, Tensor(c!)? k_scales, Tensor(d!)? v_scales) -> (Tensor, Tensor)")
def append(k, v, k_cache, v_cache, slots, seq_lens, block_table, cu_seqlens, positions, cos, sin, q, pairs, q_first,
           k_descale, v_descale, k_scales, v_scales):
    """Writes k [N, Hkv, D] and v [N, Hkv, DV] to the caches [pages, rows, Hkv, width]: by slots, or behind the keys of the
    sequences. Caches of 8 bits have factors that are given, [Hkv], or factors of each key and value, which are written:
    [pages * rows, Hkv]. Returns the rotated q [NQ, Hq, D], and the lengths of the sequences with their new keys."""
    rotated, lengths = _results(k, seq_lens, q)
    if k.shape[0] == 0 and rotated.numel() == 0 and lengths.numel() == 0:
        return rotated, lengths
    places = "slots" if slots is not None else "sequences" if block_table is None else "table"
    wide = "_i64" if slots is not None and slots.dtype == torch.int64 else ""
    choice = AppendChoice(TYPES[k.dtype], k.shape[-1], k.shape[-1] if v is None else v.shape[-1], places,
                          "i64" if wide else "i32", cu_seqlens is not None, positions is not None,
                          0 if cos is None else 2 * cos.shape[-1], pairs, q_first, "" if cos is None else TYPES[cos.dtype],
                          STORED.get(k_cache.dtype, ""), k_scales is not None)
    values = {"k": dense_rows(k), "v": None if v is None else dense_rows(v), "k_pages": k_cache, "v_pages": v_cache,
              "slots" + wide: slots, "seq_lens": seq_lens, "block_table": block_table, "cu_seqlens": cu_seqlens,
              "positions" + wide: positions, "cos": cos, "sin": sin, "q": None if q is None else dense_rows(q),
              "q_out": None if q is None else rotated, "total_lens": None if seq_lens is None else lengths,
              "k_descale": k_descale, "v_descale": v_descale, "k_scales": k_scales, "v_scales": v_scales}
    values = {name: value for name, value in values.items() if value is not None}
    launch(plan(choice, k.device), values, ("q_out", "total_lens"), k.device, updates=("k_pages", "v_pages", "k_scales", "v_scales"))
    for cache in (k_cache, v_cache, k_scales, v_scales):
        if cache is not None and cache.device.type != "cpu":  # the interpreter's copies count themselves
            torch.autograd.graph.increment_version(cache)
    return rotated, lengths


@torch.library.register_fake("tilewright::append")
def _append_fake(k, v, k_cache, v_cache, slots, seq_lens, block_table, cu_seqlens, positions, cos, sin, q, pairs, q_first,
                 k_descale, v_descale, k_scales, v_scales):
    return _results(k, seq_lens, q)


def _described(x):
    return f"{x.dtype} {list(x.shape)} on {x.device}"


def _check_rows(name, x, dims, like, of, may_have_bytes=False):
    """Checks a tensor of T with `dims` dimensions; `like` is named `of`."""
    check_dense(name, x)
    is_stored = may_have_bytes and x.dtype in STORED
    if x.dim() != dims or (x.dtype not in TYPES and not is_stored):
        raise ValueError(f"{name} must be a tensor of {dims} dimensions, of float16, bfloat16, float32 or float64, but got "
                         f"{_described(x)}")
    if (x.dtype != like.dtype and not is_stored) or x.device != like.device:
        raise ValueError(f"{name} must have the type and the device of {of}, {like.dtype} on {like.device}, but got "
                         f"{_described(x)}")
    if not 1 <= x.shape[-1] <= MAX_WIDTH:
        raise ValueError(f"{name} must have a width from 1 to {MAX_WIDTH}, but got {x.shape[-1]}")
    if torch.is_grad_enabled() and x.requires_grad:
        raise ValueError(f"{name} must not require a gradient: appending has none; use torch.no_grad()")


def _check_new(k, v, k_cache, v_cache, dims):
    """Checks new keys and values, whose last two dimensions are heads and width, and the caches that they go to."""
    _check_rows("k", k, dims, k, "k")
    _check_rows("k_cache", k_cache, 4, k, "k", may_have_bytes=True)
    if (v is None) != (v_cache is None):
        raise ValueError("v and v_cache must both be given, or both be None")
    for name, x, cache in (("k", k, k_cache), ("v", v, v_cache)):
        if x is None:
            continue
        _check_rows(name, x, dims, k, "k")
        _check_rows(name + "_cache", cache, 4, k, "k", may_have_bytes=True)
        if cache.dtype != k_cache.dtype:
            raise ValueError(f"v_cache must have the type of k_cache, {k_cache.dtype}, but got {cache.dtype}")
        if x.shape[-2:] != cache.shape[-2:]:
            raise ValueError(f"{name} must have the heads and the width of {name}_cache, {list(cache.shape[-2:])}, but got "
                             f"{list(x.shape[-2:])}")
    if v is not None and v.shape[:-1] != k.shape[:-1]:
        raise ValueError(f"v must agree with k in all but its width, but got {list(v.shape)} and {list(k.shape)}")
    if v is not None and v_cache.shape[:3] != k_cache.shape[:3]:
        raise ValueError(f"v_cache must agree with k_cache in all but its width, but got {list(v_cache.shape)} and "
                         f"{list(k_cache.shape)}")
    if k_cache.shape[0] * k_cache.shape[1] >= 2**31:
        raise ValueError(f"k_cache must have less than 2**31 rows in all pages, but got {k_cache.shape[0]} * {k_cache.shape[1]}")


def _check_rotary(cos, sin, k):
    """Checks the tables of a rotation; returns them with rows that lie dense."""
    for name, x in (("rotary_cos", cos), ("rotary_sin", sin)):
        check_dense(name, x)
        if x.dim() != 2 or x.device != k.device:
            raise ValueError(f"{name} must be a tensor [positions, half of the columns that are rotated] on {k.device}, but "
                             f"got {_described(x)}")
        if x.dtype not in (k.dtype, torch.float32):
            raise ValueError(f"{name} must be of {k.dtype}, as k is, or float32, but got {x.dtype}")
    if cos.shape != sin.shape or cos.dtype != sin.dtype:
        raise ValueError(f"rotary_sin must have the shape and the type of rotary_cos, {_described(cos)}, but got "
                         f"{_described(sin)}")
    if cos.shape[1] == 0 or cos.shape[1] % 8 != 0 or 2 * cos.shape[1] > k.shape[-1]:
        raise ValueError(f"rotary_cos must have half as many columns as are rotated, a multiple of 8 and at most half of the "
                         f"{k.shape[-1]} of k, but got {cos.shape[1]}")
    return dense_rows(cos), dense_rows(sin)


def append_kv(k, v, k_cache, v_cache, slot_mapping, *, positions=None, rotary_cos=None, rotary_sin=None,
              rotary_interleaved=True, q=None, k_descale=None, v_descale=None):
    """Writes k [N, Hkv, D] and v [N, Hkv, DV] to k_cache [pages, rows, Hkv, D] and v_cache [pages, rows, Hkv, DV]: key n to
    row slot_mapping[n] mod rows of page slot_mapping[n] // rows. A slot that is negative or beyond the pages is skipped;
    no two may be equal. The order of dimensions in memory is arbitrary, as strides are: pages may have their heads outside
    of their rows, or lie beside those of values. v and v_cache may both be None. slot_mapping is of int32 or int64.

    With rotary_cos and rotary_sin [positions, R / 2], the first R columns of each key are rotated (rotary embedding) by its
    position, positions[n]: columns 2 i and 2 i + 1 together, or i and i + R / 2 if rotary_interleaved is False. Then a q
    [N, Hq, D] may be given, whose rotated rows are the result; otherwise it is None. A position beyond the tables reads
    zeros there. positions is converted to the type of slot_mapping if it has another.

    The caches may be of float8_e4m3fn, float8_e5m2 or int8: keys and values are then divided by k_descale and v_descale, float32
    [Hkv], 1 by default, and rounded; what exceeds the type becomes its largest number. If k_descale and v_descale are
    [pages, rows, Hkv], factors of each key and value are written there. Can be captured in a graph, whose
    replays read what slot_mapping and positions then hold. Raises ValueError for invalid arguments, and for tensors that
    require gradients."""
    _check_new(k, v, k_cache, v_cache, 3)
    check_integers("slot_mapping", slot_mapping, k.device, (k.shape[0],), INDICES)
    if rotary_cos is None:
        for name, x in (("rotary_sin", rotary_sin), ("positions", positions), ("q", q)):
            if x is not None:
                raise ValueError(f"{name} must be None where there is no rotary_cos")
    else:
        rotary_cos, rotary_sin = _check_rotary(rotary_cos, rotary_sin, k)
        check_integers("positions", positions, k.device, (k.shape[0],), INDICES)
        positions = positions.to(slot_mapping.dtype)
    if q is not None:
        _check_rows("q", q, 3, k, "k")
        if q.shape[0] != k.shape[0] or q.shape[2] != k.shape[2]:
            raise ValueError(f"q must have the rows and the width of k, {k.shape[0]} and {k.shape[2]}, but got {list(q.shape)}")
    k_descale = factors_of("k_descale", k_descale, k_cache, k.device)
    v_descale = factors_of("v_descale", v_descale, k_cache if v_cache is None else v_cache, k.device)
    rotated, _ = append(k, v, k_cache, v_cache, slot_mapping, None, None, None, positions, rotary_cos, rotary_sin, q,
                        bool(rotary_interleaved), False, *_factors(k_descale, v_descale))
    return None if q is None else rotated


def _factors(k_descale, v_descale):
    """The factors as `append` takes them: those that are given, and those that it writes."""
    named = named_factors(k_descale, v_descale, ("k_descale", "v_descale"))
    return [named.get(name) for name in ("k_descale", "v_descale", "k_scales", "v_scales")]


def append_to_sequences(q, k, v, k_cache, v_cache, seq_lens, block_table, rotary_cos, rotary_sin, interleaved, q_first,
                        k_descale=None, v_descale=None, cu_seqlens_q=None, cu_seqlens_k=None, rotary_lens=None):
    """For flash_attn_with_kvcache, which has checked q [B, Rq, Hq, D], the caches, seq_lens [B] and block_table: writes k
    [B, R, Hkv, D] and v [B, R, Hkv, DV] behind the keys of each sequence. With cu_seqlens_q, q is [rows, Hq, D], and with
    cu_seqlens_k k and v are [keys, Hkv, D or DV], packed. Returns q, rotated if there is rotary_cos: row i at position
    rotary_lens[b] + i, or with q_first all at rotary_lens[b], where rotary_lens are seq_lens by default; and the lengths with
    the new keys."""
    if k is None or v is None:
        raise ValueError("k and v must both be given, or both be None")
    is_packed, batch = cu_seqlens_k is not None, seq_lens.shape[0]
    _check_new(k, v, k_cache, v_cache, 3 if is_packed else 4)
    if (not is_packed and k.shape[0] != batch) or k.dtype != q.dtype or k.device != q.device:
        raise ValueError(f"k must have the batch, the type and the device of q, {batch} of {q.dtype} on {q.device}, but got "
                         f"{_described(k)}")
    rotates = rotary_cos is not None or rotary_sin is not None
    if rotates:
        rotary_cos, rotary_sin = _check_rotary(rotary_cos, rotary_sin, k)
    alone = rotates and (is_packed or cu_seqlens_q is not None or rotary_lens is not None)  # whether q has a launch of its own
    with_q = q.reshape(-1, *q.shape[2:]) if rotates and not alone else None
    positions = None
    if rotates and rotary_lens is not None:
        positions = _positions(rotary_lens, k, cu_seqlens_k)
    k, v = (x if is_packed else x.reshape(-1, *x.shape[2:]) for x in (k, v))
    rotated, lengths = append(k, v, k_cache, v_cache, None, seq_lens, block_table, cu_seqlens_k, positions, rotary_cos, rotary_sin,
                              with_q, bool(interleaved) and rotates, q_first and with_q is not None,
                              *_factors(k_descale, v_descale))
    if alone:
        positions = _positions(seq_lens if rotary_lens is None else rotary_lens, q, cu_seqlens_q, q_first)
        rotated = _rotated(q.reshape(-1, *q.shape[-2:]), positions, rotary_cos, rotary_sin, bool(interleaved))
    return (rotated.view(q.shape) if rotates else q), lengths


def _positions(first, x, cu_seqlens, all_first=False):
    """The position of each row of x [B, rows, ...], or packed [rows, ...]: those of sequence b begin with first[b]. Rows of no
    sequence have some position."""
    if cu_seqlens is None:
        rows = torch.arange(x.shape[1], dtype=torch.int32, device=x.device)
        return (first[:, None] + (torch.zeros_like(rows) if all_first else rows)).flatten()
    rows = torch.arange(x.shape[0], dtype=torch.int32, device=x.device)
    if first.shape[0] == 0:
        return rows
    b = torch.searchsorted(cu_seqlens[1:].contiguous(), rows, right=True).clamp_(max=first.shape[0] - 1)
    return first[b] if all_first else first[b] + rows - cu_seqlens[b]


def _rotated(q, positions, cos, sin, pairs):
    """q [N, Hq, D], rotated: as the queries of new keys of which none has a place."""
    page = q.new_empty(1, 1, 1, q.shape[2])
    nowhere = torch.full((q.shape[0],), -1, dtype=torch.int32, device=q.device)
    return append(q[:, :1], None, page, None, nowhere, None, None, None, positions, cos, sin, q, pairs, False, *[None] * 4)[0]
