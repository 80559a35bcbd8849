# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Multi-head latent attention of new queries of each sequence over a cache of latent rows, with the names, layouts and
conventions of FlashMLA. No gradients."""

import torch

from tilewright import cached, checks
from tilewright.choice import MlaDecodeChoice
from tilewright.ops import dense_rows
from tilewright.plans import TYPES, launch, plan
from tilewright.registration import operator
from tilewright.tensors import check_dense, check_device, check_integers

__all__ = ["flash_mla_with_kvcache", "get_mla_metadata"]

MOST_HEADS, MOST_VALUE_DIM, MOST_REST = 128, 512, 256  # of kernels/attention_mla_decode.mlir
PAGE_ROWS = (128, 64, 32, 16, 8, 1)
SPANS = 4  # factors of a row of 8 bits, of type f32
BYTES = (torch.float8_e4m3fn, torch.uint8, torch.int8)  # types of such rows


def _results(q, value_dim):
    o = q.new_empty((*q.shape[:3], value_dim))
    return o, q.new_empty(q.shape[:3], dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)


@operator("mla_decode(Tensor q, Tensor k_cache, Tensor? block_table, Tensor seq_lens, SymInt value_dim, float scale, bool causal, "
          "SymInt splits) -> (Tensor, Tensor)")
def mla_decode(q, k_cache, block_table, seq_lens, value_dim, scale, causal, splits):
    """O and LSE of q [B, Hq, Sq, D] over k_cache [pages, rows of a page, 1, D]."""
    o, lse = _results(q, value_dim)
    page_rows = 0 if block_table is None else next(rows for rows in PAGE_ROWS if k_cache.shape[1] % rows == 0)
    choice = MlaDecodeChoice(TYPES[q.dtype], q.shape[3], int(value_dim), q.shape[1], "bottom_right" if causal else "none",
                             page_rows, int(splits))
    values = {"q": dense_rows(q), "k_pages": dense_rows(k_cache), "o": o, "lse": lse, "block_table": block_table,
              "seq_lens": seq_lens, "scale": scale}
    launch(plan(choice, q.device), values, ("o", "lse"), q.device)
    return o, lse


@torch.library.register_fake("tilewright::mla_decode")
def _mla_decode_fake(q, k_cache, block_table, seq_lens, value_dim, scale, causal, splits):
    return _results(q, value_dim)


@operator("mla_decode_bytes(Tensor q, Tensor latent, Tensor rope, Tensor factors, Tensor? block_table, Tensor seq_lens, "
          "float scale, bool causal, SymInt splits) -> (Tensor, Tensor)")
def mla_decode_bytes(q, latent, rope, factors, block_table, seq_lens, scale, causal, splits):
    """O and LSE of q [B, Hq, Sq, D] over latent [pages, rows of a page, 1, DV] of e4m3, of whose columns each of four parts
    has factors [pages * rows, 4], and rope [pages, rows of a page, 1, D - DV]."""
    o, lse = _results(q, latent.shape[3])
    page_rows = 0 if block_table is None else next(rows for rows in PAGE_ROWS if latent.shape[1] % rows == 0)
    choice = MlaDecodeChoice(TYPES[q.dtype], q.shape[3], latent.shape[3], q.shape[1], "bottom_right" if causal else "none",
                             page_rows, int(splits), "e4m3")
    values = {"q": dense_rows(q), "k_pages": latent, "rope_pages": rope, "k_scales": factors, "o": o, "lse": lse,
              "block_table": block_table, "seq_lens": seq_lens, "scale": scale}
    launch(plan(choice, q.device), values, ("o", "lse"), q.device)
    return o, lse


@torch.library.register_fake("tilewright::mla_decode_bytes")
def _mla_decode_bytes_fake(q, latent, rope, factors, block_table, seq_lens, scale, causal, splits):
    return _results(q, latent.shape[3])


def _parts_of_rows(k_cache, q, value_dim):
    """The latent columns, the others, and the factors of rows of bytes. Raises ValueError for rows of another layout."""
    rest = (q.shape[3] - value_dim) * q.element_size()
    width = value_dim + 4 * SPANS + rest
    if k_cache.dtype not in BYTES or k_cache.shape[2:] != (1, width):
        raise ValueError(f"k_cache must have 1 head and rows of {width} bytes, {value_dim} of e4m3, {SPANS} factors of float32 and "
                         f"{q.shape[3] - value_dim} columns of {q.dtype}, but got {k_cache.dtype} {list(k_cache.shape)}")
    strides = k_cache.stride()
    if strides[3] != 1 or any(n % 16 for n in (*strides[:2], k_cache.storage_offset())) or (
            k_cache.shape[0] > 1 and strides[0] != k_cache.shape[1] * strides[1]):
        raise ValueError(f"k_cache must have dense rows, a multiple of 16 bytes apart, and pages one behind another, but its "
                         f"strides are {list(strides)}")
    raw = k_cache.view(torch.uint8)
    latent, factors, rope = raw.split((value_dim, 4 * SPANS, rest), 3)
    return (latent.view(torch.float8_e4m3fn), rope.view(q.dtype), factors.view(torch.float32).view(-1, SPANS))


def get_mla_metadata(*arguments, **options):
    """Two empty tensors, for callers of FlashMLA's function: instances find their share of the keys by themselves."""
    return torch.empty(0, dtype=torch.int32), torch.empty(0, dtype=torch.int32)


def flash_mla_with_kvcache(q, k_cache, block_table, cache_seqlens, head_dim_v, tile_scheduler_metadata=None, num_splits=None,
                           softmax_scale=None, causal=False, is_fp8_kvcache=False):
    """Computes O [B, Sq, Hq, head_dim_v] and LSE [B, Hq, Sq] from q [B, Sq, Hq, D], the last queries of each sequence, and
    k_cache [pages, rows of a page, 1, D], of whose rows the first head_dim_v columns are values. Key j of sequence b is row
    j mod rows of page block_table[b, j // rows], int32; without a table, sequence b is page b. cache_seqlens [B], int32,
    counts all keys of a sequence, those of the queries included. Rows behind them are not read. With causal, the last query
    attends all keys, and each query before it one key fewer. softmax_scale is 1 / sqrt(D) by default.

    tile_scheduler_metadata is not used, nor is num_splits if it is a tensor. A number from 1 to 1024 as num_splits divides
    the keys of a sequence into at most so many parts, so that its result has the same bits in any batch.

    With is_fp8_kvcache, rows of k_cache are bytes, float8_e4m3fn, uint8 or int8: head_dim_v of e4m3, four factors of float32,
    each of a quarter of these columns, and the other D - head_dim_v columns of q's type: 656 of the rows of DeepSeek-V3.
    head_dim_v is a multiple of 64 then. Factors are at most 1 if q has 16 bits.

    Raises ValueError for invalid arguments, and for tensors that require gradients."""
    for name, x in (("q", q), ("k_cache", k_cache)):
        check_dense(name, x)
        if x.dim() != 4:
            raise ValueError(f"{name} must be a tensor of four dimensions, but got shape {list(x.shape)}")
        is_of_bytes = is_fp8_kvcache and name == "k_cache"
        if not is_of_bytes and (x.dtype != q.dtype or x.dtype not in TYPES):
            raise ValueError(f"{name} must be of float16, bfloat16, float32 or float64, as q is, but got {x.dtype}")
        check_device(name, x, q.device)
        if torch.is_grad_enabled() and x.requires_grad:
            raise ValueError(f"{name} must not require a gradient: flash_mla_with_kvcache has none; use torch.no_grad()")
    batch, _, heads, dim = q.shape
    if not is_fp8_kvcache and k_cache.shape[2:] != (1, dim):
        raise ValueError(f"k_cache must have 1 head and the width of q, {dim}, but got {list(k_cache.shape)}")
    if not 1 <= heads <= MOST_HEADS:
        raise ValueError(f"q must have 1 to {MOST_HEADS} heads, but got {heads}")
    value_dim = checks.integer_of(head_dim_v)
    most = min(dim, MOST_VALUE_DIM)
    if value_dim is None or not max(32, dim - MOST_REST) <= value_dim <= most or value_dim % 32:
        raise ValueError(f"head_dim_v must be a multiple of 32 from {max(32, dim - MOST_REST)} to {most} where q has {dim} "
                         f"columns, but got {checks.shown(head_dim_v)}")
    if is_fp8_kvcache and (value_dim % 64 or value_dim == dim):
        raise ValueError(f"head_dim_v must be a multiple of 64 and less than {dim} with is_fp8_kvcache, but got {value_dim}")
    cached.check_pages(block_table, k_cache, batch, q.device)
    check_integers("cache_seqlens", cache_seqlens, q.device, (batch,))
    splits = 0
    if num_splits is not None and not isinstance(num_splits, torch.Tensor):
        splits = cached.splits_of(num_splits, "None, a tensor, or a number")
    if is_fp8_kvcache:
        o, lse = mla_decode_bytes(q.transpose(1, 2), *_parts_of_rows(k_cache, q, value_dim), block_table, cache_seqlens,
                                  checks.scale_of(softmax_scale, dim), bool(causal), splits)
        return o.transpose(1, 2), lse
    o, lse = mla_decode(q.transpose(1, 2), k_cache, block_table, cache_seqlens, value_dim,
                        checks.scale_of(softmax_scale, dim), bool(causal), splits)
    return o.transpose(1, 2), lse
