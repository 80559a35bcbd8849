# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of several queries of each sequence over a cache of keys and values, in pages or in one piece: what the
functions with the names of flash_attn have in common. No gradients."""

import functools

import torch

from tilewright import checks, features, places, runtime
from tilewright.choice import Choice, DecodeChoice
from tilewright.ops import as_batch, dense_rows, lists_from, named_values, new_lse, new_results
from tilewright.plans import TYPES, launch, plan
from tilewright.registration import operator
from tilewright.tensors import check_dense, check_device, check_integers


MAX_DIM, MAX_SPLITS = 256, 1024  # of kernels/attention_decode.mlir
STORED = {torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2", torch.int8: "i8"}  # types of caches for q of 16 bits or more


def factors_of(name, factors, cache, device, batch=None):
    """The factors of a cache of 8 bits, f32 [batch, Hkv], or [Hkv] without a batch; ones where there are none given, None for
    other caches. Those of each key are [pages, rows, Hkv]. Raises ValueError for factors that do not belong to the cache."""
    heads = cache.shape[2]
    shape = (heads,) if batch is None else (batch, heads)
    if cache.dtype not in STORED:
        if factors is not None:
            raise ValueError(f"{name} must be None for a cache of {cache.dtype}: only those of 8 bits have factors")
        return None
    if factors is None:
        return torch.ones(1, dtype=torch.float32, device=device).expand(shape)
    check_dense(name, factors)
    pages, rows = cache.shape[:2]
    is_by_token = tuple(factors.shape) == (pages, rows, heads)
    if factors.dtype != torch.float32 or factors.device != device or not (is_by_token or tuple(factors.shape) in ((heads,), shape)):
        extents = f"[{heads}]" + ("" if batch is None else f", [{batch}, {heads}]") + f" or [{pages}, {rows}, {heads}]"
        raise ValueError(f"{name} must be a tensor {extents} of float32 on {device}, but got {factors.dtype} "
                         f"{list(factors.shape)} on {factors.device}")
    if is_by_token and pages > 1 and factors.stride(0) != rows * factors.stride(1):
        raise ValueError(f"{name} must have pages one behind another, {rows * factors.stride(1)} elements each, but their stride is "
                         f"{factors.stride(0)}")
    return factors if is_by_token else factors.expand(shape)


def named_factors(k_by, v_by, names):
    """The arguments of a kernel for factors of a cache: with `names` of keys and of values, or those of each key and value.
    Raises ValueError unless both are of one kind."""
    if k_by is None or v_by is None:
        return dict(zip(names, (k_by, v_by)))
    if (k_by.dim() == 3) != (v_by.dim() == 3):
        raise ValueError(f"k_descale and v_descale must both be factors of each key and value, or neither, but got "
                         f"{list(k_by.shape)} and {list(v_by.shape)}")
    if k_by.dim() == 3:
        return {"k_scales": k_by.view(-1, k_by.shape[2]), "v_scales": v_by.view(-1, v_by.shape[2])}
    return dict(zip(names, (k_by, v_by)))


@functools.lru_cache(maxsize=None)
def choice_of(dtype, heads, queries, dim, key_heads, rows, value_dim, packed, has_table, leftpad, causal, window, modifier,
              splits, stored=None, lists=(), list_heads=1):
    """The choice of a call of `queries` queries for each sequence, or of any packed ones, over pages of `rows` rows. The
    library chooses between attention_decode and attention_forward, and how many rows of a page one copy takes, as it does
    for other languages; it needs the types and shapes of arguments alone. `lists`: queries and keys of the blocks of lists, of
    which there are those of `list_heads` heads."""
    q = torch.empty(1, heads, queries, dim, dtype=dtype, device="meta")
    k, v = (torch.empty(1, rows, key_heads, width, dtype=stored or dtype, device="meta") for width in (dim, value_dim))
    numbers = torch.empty(1, 1, dtype=torch.int32, device="meta")
    values = {"q": q, "k": k, "v": v, "seq_lens": numbers[0], "block_table": numbers if has_table else None,
              "cu_seqlens_q": numbers[0] if packed else None, "leftpad": numbers[0] if leftpad else None,
              "kv_num_blocks": numbers.expand(list_heads, 1)[None] if lists else None}
    library = runtime.library_at(places.find_library())
    blocks = dict(zip(("list_block_m", "list_block_n"), lists))
    desc = library.attention_describe(runtime.attention_desc("cached", TYPES[dtype], dim, num_splits=splits, **blocks), values)
    page_rows = max(desc.page_rows, 0)  # NO_TABLE is negative
    if desc.kind == runtime.KINDS["decode"]:
        tile_rows = int(library.attention_params(desc)["ROWS"])  # calls with fewer queries share the code
        return DecodeChoice(TYPES[dtype], dim, value_dim, desc.group, tile_rows, causal, window, page_rows, splits, modifier,
                            leftpad, stored=STORED.get(stored, ""), listed=lists[1] if lists else 0)
    return Choice("forward", TYPES[dtype], dim, value_dim, causal, window, modifier, packed=packed, lists=lists,
                  cached=True, page_rows=page_rows, leftpad=leftpad, stored=STORED.get(stored, ""))


_ARGUMENTS = ("Tensor q, Tensor k_cache, Tensor v_cache, Tensor? block_table, Tensor seq_lens, Tensor? leftpad, "
              "Tensor? k_descale, Tensor? v_descale, Tensor? first_keys, Tensor? total_lens, Tensor[] tensors, float[] floats, "
              "SymInt[] integers, str names, str causal, SymInt window_left, SymInt window_right, float scale, str modifier, "
              "SymInt splits, SymInt ranks, SymInt rank_keys")


@operator(f"cached_attention({_ARGUMENTS}) -> (Tensor, Tensor)")
def cached_attention(q, k_cache, v_cache, *arguments):
    """O and LSE of q [B, Hq, Sq, D], or [rows, Hq, D] if it holds packed sequences; the caches are
    [pages, rows of a page, Hkv, D or DV], with factors [B, Hkv] if they have 8 bits. The keys of a sequence are divided into
    at most `splits` parts, or as many as it needs where that is 0, if they are divided. If `ranks` is not 0, the cache is that
    of one of so many ranks, and begins at first_keys [B] of the sequences of total_lens [B] keys. The other arguments are
    those of tilewright::attention."""
    o, lse = new_results(q, v_cache)
    _launch(o, lse, q, k_cache, v_cache, *arguments)
    return o, lse


@torch.library.register_fake("tilewright::cached_attention")
def _cached_attention_fake(q, k_cache, v_cache, *arguments):
    return new_results(q, v_cache)


@operator(f"cached_attention_to(Tensor(a!) o, {_ARGUMENTS}) -> Tensor")
def cached_attention_to(o, q, *arguments):
    """The same, where O is written to a tensor of its shape whose rows are dense. Returns LSE."""
    lse = new_lse(q)
    _launch(o, lse, q, *arguments)
    if o.device.type != "cpu":  # the interpreter's copies count themselves
        torch.autograd.graph.increment_version(o)
    return lse


@torch.library.register_fake("tilewright::cached_attention_to")
def _cached_attention_to_fake(o, q, *arguments):
    return new_lse(q)


def _launch(o, lse, q, k_cache, v_cache, block_table, seq_lens, leftpad, k_descale, v_descale, first_keys, total_lens, tensors,
            floats, integers, names, causal, window_left, window_right, scale, modifier, splits, ranks, rank_keys):
    is_packed = q.dim() == 3
    more = named_values(tensors, floats, integers, names)
    lists = lists_from(more)
    list_heads = more["kv_num_blocks"].shape[1] if lists else 1
    choice = choice_of(q.dtype, q.shape[1], 1 if is_packed else q.shape[2], q.shape[-1], k_cache.shape[2], k_cache.shape[1],
                       v_cache.shape[-1], is_packed, block_table is not None, leftpad is not None, causal,
                       (window_left, window_right) != (-1, -1), modifier, int(splits), k_cache.dtype, lists, list_heads)
    if k_descale is not None and k_descale.dim() == 3:
        choice = choice._replace(by_token=True)
    if ranks:
        if not isinstance(choice, DecodeChoice):
            raise ValueError("keys of several ranks are for at most 16 queries of a sequence, and 128 of the heads that share a key "
                             f"head, of widths up to {MAX_DIM}, but got q of shape {list(q.shape)} and values of width "
                             f"{v_cache.shape[-1]}")
        choice = choice._replace(ranks=int(ranks), rank_keys=int(rank_keys))
        more |= {"first_keys": first_keys} | ({"total_lens": total_lens} if causal == "bottom_right" else {})
    values = {"q": dense_rows(q), "o": o, "lse": lse}
    values = as_batch(values) if is_packed else values
    k, v, factors = ("k_pages", "v_pages", "descale") if isinstance(choice, DecodeChoice) else ("k", "v", "factors")
    values |= {k: dense_rows(k_cache), v: dense_rows(v_cache), "block_table": block_table, "seq_lens": seq_lens,
               "leftpad": leftpad, **named_factors(k_descale, v_descale, (f"k_{factors}", f"v_{factors}")), "scale": scale,
               "window_left": window_left, "window_right": window_right, **more}
    launch(plan(choice, q.device), values, ("o", "lse"), q.device)


class _Shape(features.Shape):
    """The sizes of a call whose numbers of keys are on the device."""

    def __init__(self, q, key_heads, cu_seqlens_q, seq_lens):
        self.key_heads, self.is_packed, self.packed = key_heads, cu_seqlens_q is not None, None
        if self.is_packed:
            self.packed = {"cu_seqlens_q": cu_seqlens_q}
        self.batch, self.heads = seq_lens.shape[0], q.shape[1]
        self.queries, self.keys = None if self.is_packed else q.shape[2], None
        self.device, self.used, self.seq_lens = q.device, None, seq_lens

    def has_shift(self):
        return True

    def key_heads_of_lists(self):
        return self.key_heads

    def shift(self):
        queries, keys = self.used or (self.rows("q"), self.rows("k"))
        return keys - queries

    def rows(self, of):
        return self.seq_lens if of == "k" else super().rows(of)


class _WithoutGradient(torch.autograd.Function):
    """The results of a call without gradients, if an argument requires one: backward says so."""

    @staticmethod
    def forward(ctx, text, o, lse, *inputs):
        ctx.text = text
        return o.view_as(o), lse.view_as(lse)

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError(ctx.text)


def without_gradient(function, results, *inputs):
    """The results, whose backward raises RuntimeError if an input requires a gradient."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        text = f"{function} has no gradient; copy the pages to one array of keys and one of values, or use torch.no_grad()"
        return _WithoutGradient.apply(text, *results, *inputs)
    return results


def check_caches(function, q, dims, named_caches, may_require_grad=False, may_have_bytes=False, max_dim=checks.MAX_DIM):
    """Raises ValueError unless q, of `dims` dimensions [..., heads, width], and the caches, [(name, tensor)] of keys and of
    values, belong together. Above MAX_DIM, which is that of a decode, keys are not divided."""
    words = {3: "three", 4: "four"}
    for name, x, wanted in (("q", q, dims), *((name, x, 4) for name, x in named_caches)):
        check_dense(name, x)
        if x.dim() != wanted:
            raise ValueError(f"{name} must be a tensor of {words[wanted]} dimensions, but got shape {list(x.shape)}")
        is_stored = may_have_bytes and name != "q" and x.dtype in STORED
        if not is_stored and (x.dtype != q.dtype or x.dtype not in TYPES):
            more = ", or of float8_e4m3fn, float8_e5m2 or int8" if may_have_bytes and name != "q" else ""
            raise ValueError(f"{name} must be of float16, bfloat16, float32 or float64, as q is{more}, but got {x.dtype}")
        check_device(name, x, q.device)
        if torch.is_grad_enabled() and x.requires_grad and not may_require_grad:
            raise ValueError(f"{name} must not require a gradient: {function} has none; use torch.no_grad()")
    (k_name, k), (v_name, v) = named_caches
    if k.dtype != v.dtype:
        raise ValueError(f"{v_name} must have the type of {k_name}, {k.dtype}, but got {v.dtype}")
    if k.shape[:3] != v.shape[:3] or k.shape[3] != q.shape[-1]:
        raise ValueError(f"{k_name} and {v_name} must agree in all but their width, and {k_name} and q in their width, but "
                         f"got {list(k.shape)}, {list(v.shape)} and {list(q.shape)}")
    for name, x in (("q", q), (v_name, v)):
        if not 1 <= x.shape[-1] <= max_dim:
            raise ValueError(f"{name} must have a width from 1 to {max_dim}, but got {x.shape[-1]}")
    heads, key_heads = q.shape[-2], k.shape[2]
    if key_heads == 0 or heads % key_heads != 0:
        raise ValueError(f"q must have a multiple of the {key_heads} heads of {k_name}, but got {heads}")


def check_table(block_table, k, batch, device, name="block_table"):
    """Raises ValueError unless the table has a row for each sequence, and pages have rows."""
    check_integers(name, block_table, device, ("sequences", "pages"))
    if block_table.shape[0] != batch or k.shape[1] == 0:
        raise ValueError(f"{name} must have the batch of q, {batch}, and pages at least 1 row, but got "
                         f"{list(block_table.shape)} and {k.shape[1]}")


def check_pages(block_table, k_cache, batch, device):
    """Raises ValueError unless the table, or without one the cache, has a row for each sequence."""
    if block_table is not None:
        check_table(block_table, k_cache, batch, device)
    elif k_cache.shape[0] != batch:
        raise ValueError(f"k_cache must have the batch of q, {batch}, where there is no block_table, but got "
                         f"{k_cache.shape[0]}")


def check_out(out, q, value_dim):
    """Raises ValueError unless `out` can take O of q [..., Hq, D]."""
    check_dense("out", out)
    shape = (*q.shape[:-1], value_dim)
    if tuple(out.shape) != shape or out.dtype != q.dtype or out.device != q.device:
        raise ValueError(f"out must be a tensor {list(shape)} of {q.dtype} on {q.device}, as the result is, but got {out.dtype} "
                         f"{list(out.shape)} on {out.device}")
    if out.stride(-1) != 1 and value_dim > 1:
        raise ValueError(f"out must have rows whose elements lie one after the other, but their stride is {out.stride(-1)}")
    if out.requires_grad:
        raise ValueError("out must not require a gradient: results over a cache have none; use out.detach()")


def splits_of(num_splits, kinds="a number"):
    """The number of parts into which keys are divided at most, 0 to choose it. Raises ValueError for others; `kinds` says
    what the function takes."""
    splits = checks.integer_of(num_splits)
    if splits is None or not 0 <= splits <= MAX_SPLITS:
        raise ValueError(f"num_splits must be {kinds} from 0 to {MAX_SPLITS}, but got {checks.shown(num_splits)}")
    return splits


def check_names_of_3(qv, attention_chunk, num_splits, pack_gqa, sm_margin, instead_of_qv):
    """Checks the arguments of FlashAttention 3 that there is no kernel for, with what there is instead, and those that have no
    effect. Returns attention_chunk and num_splits, numbers."""
    if qv is not None:
        raise ValueError("qv must be None: there is no kernel whose scores have a second product, of queries and values; "
                         f"{instead_of_qv}")
    chunk = checks.integer_of(attention_chunk)
    if chunk is None or chunk < 0:
        raise ValueError(f"attention_chunk must be a number of positions, or 0 for no chunks, but got {checks.shown(attention_chunk)}")
    splits = splits_of(num_splits)
    if pack_gqa is not None and not checks.is_flag(pack_gqa):
        raise ValueError(f"pack_gqa must be None, True or False, but got {checks.shown(pack_gqa)}")
    margin = checks.integer_of(sm_margin)
    if margin is None or margin < 0:
        raise ValueError(f"sm_margin must be a number of at least 0, but got {checks.shown(sm_margin)}")
    return chunk, splits


def attend(q, k_cache, v_cache, block_table, seq_lens, *, leftpad=None, cu_seqlens_q=None, seqused_q=None, causal=False,
           window_size=(-1, -1), softcap=0.0, alibi_slopes=None, dropout_p=0.0, softmax_scale=None, num_splits=0, mask=None,
           sinks=None, tree_bits=None, k_descale=None, v_descale=None, block_mask=None, first_keys=None, total_lens=None,
           ranks=0, rank_keys=1, attention_chunk=0, out=None):
    """O and LSE of q [B, Hq, Sq, D], or [rows, Hq, D] with cu_seqlens_q. Masks, windows and ALiBi are aligned to the bottom
    right corner of each sequence, as flash_attn's are, so that keys may begin at leftpad [B] without an effect on them. A
    mask, bool [B, Hq, Sq, Skv] or extents of 1, sinks [Hq], tree_bits and block_mask are those of
    tilewright.attention and tilewright.flash_attn_with_kvcache. If `ranks` is not 0, the cache has the keys of one of so many
    ranks, `rank_keys` consecutive ones by turns, from first_keys [B] on, of sequences of total_lens [B] keys. With attention_chunk
    a query attends keys in its chunk of so many positions, which count from leftpad. O is written to `out`, if that is given: a
    tensor of its shape."""
    left, right = checks.window_of(window_size)
    if q.dim() == 4 and q.shape[2] == 1:  # no key is ahead of the only query
        causal, right = True, -1
    shape = _Shape(q, k_cache.shape[2], cu_seqlens_q, total_lens if ranks else seq_lens)
    asked = features.Features(shape, q.dtype)
    asked.add_softcap(softcap)
    if seqused_q is not None:
        asked.add_used_lengths(seqused_q, None)
    if alibi_slopes is not None:
        asked.add_alibi(alibi_slopes, from_corner=True)
    if mask is not None:
        asked.add_mask(mask)
    mode, left, right = asked.align_to_corner("bottom_right" if causal else "none", left, right)
    if attention_chunk:
        asked.add_chunks(attention_chunk, q.shape[-2] if q.dim() == 4 else q.shape[0], leftpad)
    dropout_p = checks.dropout_of(dropout_p)
    if tree_bits is not None:
        asked.add_tree_bits(tree_bits)
    if dropout_p > 0:
        asked.add_dropout(dropout_p, None)
    if sinks is not None:
        asked.add_sinks(sinks)
    if block_mask is not None:
        asked.add_block_mask(block_mask)
    files, *arguments = asked.arguments()
    scale = checks.scale_of(softmax_scale, q.shape[-1])
    arguments = (q, k_cache, v_cache, block_table, seq_lens, leftpad, k_descale, v_descale, first_keys, total_lens, *arguments,
                 mode, left, right, scale, files, num_splits, ranks, rank_keys)
    return cached_attention(*arguments) if out is None else (out, cached_attention_to(out, *arguments))
