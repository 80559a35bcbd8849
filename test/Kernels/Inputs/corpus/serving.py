# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Decoding with parts of a cache on several devices, and with caches of 8 bits.

import numpy as np

from corpus.attention import one_behind_another, paged, results_one_behind_another, rotated
from corpus.cases import SCALE, check_forward, lse_kind, tensors
from harness import compare, normal, round_to, run
from reference import forward, keep_mask


def pages_of(rng, batch, keys, page):
    """A table of pages in any order, for `keys` keys of each sequence, and the number of all pages."""
    most = -(-keys // page)
    total = batch * most + 3
    return rng.permutation(total)[: batch * most].reshape(batch, most).astype(np.int32), total


def merge_of_ranks(parts, kind):
    """O and LSE [B, H, S, ...] of several ranks, merged by the kernel."""
    rows = [np.stack([part[name].reshape(-1, *part[name].shape[3:]) for part in parts], 1) for name in ("o", "lse")]
    inputs = {"o_parts": rows[0][:, :, None], "lse_parts": rows[1][:, :, None]}
    shape = parts[0]["o"].shape
    got = run("attention_merge", {"D": shape[-1], "T": kind, "TO": kind}, inputs,
              {"o": ((rows[0].shape[0], 1, shape[-1]), kind), "lse": ((rows[0].shape[0], 1), lse_kind(kind))},
              kinds={"o_parts": kind, "lse_parts": lse_kind(kind)})
    return {"o": got["o"].reshape(shape), "lse": got["lse"].reshape(shape[:3])}


def ranks_of(ranks, rank_keys, keys):
    """The positions of the keys of each rank, and the position of its first key: with rank_keys 0, consecutive thirds
    or halves of unequal sizes."""
    if rank_keys == 0:
        cuts = [0] + [keys * r // ranks + 3 for r in range(1, ranks)] + [keys]
        return [(np.arange(cuts[r], cuts[r + 1]), cuts[r]) for r in range(ranks)]
    rank = np.arange(keys) // rank_keys % ranks
    return [(np.flatnonzero(rank == r), r * rank_keys) for r in range(ranks)]


# kind, heads, key heads, queries, causal, window, rows of a page, ranks, consecutive keys of a rank, with ALiBi
RANKS = [
    ("f64", 6, 2, 3, "bottom_right", 20, 7, 2, 1, False),
    ("f16", 4, 2, 1, "none", None, 0, 3, 1, True),
    ("bf16", 8, 1, 4, "bottom_right", None, 16, 2, 0, False),
    ("f16", 8, 2, 2, "top_left", None, 16, 3, 1, False),
    ("f64", 4, 2, 2, "bottom_right", 45, 0, 3, 4, True),
    ("bf16", 8, 1, 16, "bottom_right", 9, 16, 3, 16, False),
    ("f16", 4, 2, 1, "bottom_right", 70, 0, 2, 0, True),
]


def sharded_decode():
    """Keys spread over ranks, each with its own cache and lengths: results of each, and merged those of the whole."""
    rng, keys, lengths = np.random.default_rng(3), 300, np.array([300, 5, 0, 131], np.int32)
    for kind, heads, kv_heads, queries, causal, window, page, ranks, rank_keys, alibi in RANKS:
        q, k, v, _ = tensors(91, kind, 4, heads, kv_heads, queries, keys, 64)
        slopes = 2.0 ** -np.arange(1, heads + 1)
        keep = np.stack([np.pad(keep_mask(queries, n, causal, -1 if window is None else window), ((0, 0), (0, keys - n)))
                         for n in lengths])[:, None]
        distance = np.abs(np.arange(queries)[:, None] - np.arange(keys)[None])
        bias = -slopes[:, None, None] * distance if alibi else None
        parts = []
        for positions, first in ranks_of(ranks, rank_keys, keys):
            own = np.array([(positions < n).sum() for n in lengths], np.int32)
            table, pool = pages_of(rng, 4, len(positions), page) if page else (np.arange(4)[:, None], 4)
            rows = page or len(positions)
            inputs = {"q": q, "k_pages": paged(k[:, :, positions], own, rows, table, pool),
                      "v_pages": paged(v[:, :, positions], own, rows, table, pool), "seq_lens": own,
                      "first_keys": np.full(4, first, np.int32)}
            inputs |= {"block_table": table} if page else {}
            inputs |= {"total_lens": lengths} if causal == "bottom_right" else {}
            inputs |= {"slopes": slopes} if alibi else {}
            params = {"T": kind, "D": 64, "GROUP": heads // kv_heads, "ROWS": 1 << (queries - 1).bit_length(),
                      "CAUSAL": causal, "PAGE_ROWS": {0: 0, 7: 1, 16: 16}[page], "SHARD": "true",
                      "WINDOW": str(window is not None).lower()}
            params |= {"RANKS": ranks, "RANK_KEYS": rank_keys} if rank_keys else {}
            got = run("attention_decode", params, inputs,
                      {"o": (q.shape, kind), "lse": (q.shape[:3], lse_kind(kind))},
                      {"scale": SCALE, **({} if window is None else {"window_left": window})},
                      entry=("program", "attention_decode"), with_files=("alibi",) if alibi else (), kinds={"slopes": "f32"})
            of_rank = forward(q, k[:, :, positions], v[:, :, positions], SCALE, keep[..., positions],
                              None if bias is None else bias[..., positions])
            check_forward(f"{params} from {first}", got, *of_rank[:2], kind)
            parts.append(got)
        check_forward(f"{ranks} ranks", merge_of_ranks(parts, kind), *forward(q, k, v, SCALE, keep, bias)[:2], kind)


def sharded_mla_decode():
    """The same with latent rows, whose queries attend as many keys of a rank as are before their ends."""
    rng, keys, lengths = np.random.default_rng(4), 200, np.array([200, 5, 0, 131], np.int32)
    for kind, heads, queries, page, ranks, rank_keys in (("f64", 6, 3, 7, 2, 1), ("bf16", 16, 4, 16, 3, 4), ("f16", 70, 2, 0, 2, 0)):
        q, k, _, _ = tensors(92, kind, 4, heads, 1, queries, keys, 96)
        keep = np.arange(keys) <= (lengths[:, None] - queries + np.arange(queries))[:, None, :, None]
        parts = []
        for positions, first in ranks_of(ranks, rank_keys, keys):
            own = np.array([(positions < n).sum() for n in lengths], np.int32)
            table, pool = pages_of(rng, 4, len(positions), page) if page else (np.arange(4)[:, None], 4)
            inputs = {"q": q, "k_pages": paged(k[:, :, positions], own, page or len(positions), table, pool), "seq_lens": own,
                      "first_keys": np.full(4, first, np.int32), "total_lens": lengths}
            inputs |= {"block_table": table} if page else {}
            params = {"T": kind, "D": 96, "DV": 64, "GROUP": heads, "CAUSAL": "bottom_right", "SHARD": "true",
                      "PAGE_ROWS": {0: 0, 7: 1, 16: 16}[page]} | ({"RANKS": ranks, "RANK_KEYS": rank_keys} if rank_keys else {})
            got = run("attention_mla_decode", params, inputs,
                      {"o": ((*q.shape[:3], 64), kind), "lse": (q.shape[:3], lse_kind(kind))}, {"scale": SCALE},
                      entry=("program", "attention_mla_decode"))
            of_rank = forward(q, k[:, :, positions], k[:, :, positions, :64], SCALE, keep[..., positions])
            check_forward(f"{params} from {first}", got, *of_rank[:2], kind)
            parts.append(got)
        check_forward(f"{ranks} ranks", merge_of_ranks(parts, kind), *forward(q, k, k[..., :64], SCALE, keep)[:2], kind)


# The largest number of a type of 8 bits that a cache takes for the largest magnitude of a row.
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "i8": 127.0}


def quantized(x, stored, axes=(-1,)):
    """Numbers of a type of 8 bits, and the factors by which they are multiplied, of magnitudes along some axes."""
    by = np.abs(x).max(axis=axes, keepdims=True) / LARGEST[stored]
    by = np.where(by == 0, 1, by).astype(np.float32).astype(np.float64)
    quotients = x / by
    values = np.clip(np.rint(quotients), -128, 127) if stored == "i8" else round_to(quotients, stored)
    return values, by


def cached_inputs(stored, q, k, v, lengths, page, table, pool):
    """Arrays of a cache of 8 bits in pages, and the types of these; integers are those of int8 arrays."""
    pages = {"k_pages": paged(k, lengths, page, table, pool), "v_pages": paged(v, lengths, page, table, pool)}
    if stored == "i8":
        pages = {name: np.nan_to_num(x, nan=-77).astype(np.int8) for name, x in pages.items()}
    return {"q": q, **pages, "seq_lens": lengths}, {name: stored for name in pages}


def decode_of_bytes(stored, by_token):
    """Decoding over caches of 8 bits, with factors of each key or of each sequence and head. Magnitudes of rows differ by
    powers of ten."""
    rng, keys, lengths = np.random.default_rng(6), 300, np.array([300, 0, 16, 290], np.int32)
    for kind, heads, kv_heads, queries, page, page_rows, splits in (
            ("f32", 6, 2, 1, 7, 1, 0), ("f16", 8, 1, 1, 32, 32, 3), ("bf16", 8, 2, 4, 64, 64, 0), ("f16", 4, 2, 1, 300, 0, 2)):
        q, k, v, _ = tensors(31, kind, 4, heads, kv_heads, queries, keys, 64)
        if by_token:
            k, v = (x * 10.0 ** rng.uniform(-2, 0.5, (*x.shape[:3], 1)) for x in (k, v))
        (k, of_keys), (v, of_values) = (quantized(x, stored, (-1,) if by_token else (-2, -1)) for x in (k, v))
        table, pool = pages_of(rng, 4, keys, page) if page_rows else (np.arange(4)[:, None], 4)
        inputs, kinds = cached_inputs(stored, q, k, v, lengths, page, table, pool)
        inputs |= {"block_table": table} if page_rows else {}
        for name, by in (("k", of_keys), ("v", of_values)):
            if by_token:  # NaN in unused rows
                inputs[f"{name}_scales"] = paged(by, lengths, page, table, pool).reshape(pool * page, kv_heads)
            else:
                inputs[f"{name}_descale"] = by[:, :, 0, 0]
            kinds[f"{name}_{'scales' if by_token else 'descale'}"] = "f32"
        params = {"T": kind, "D": 64, "CACHE": stored, "BY_TOKEN": str(by_token).lower(), "GROUP": heads // kv_heads,
                  "ROWS": queries, "PAGE_ROWS": page_rows, "SPLITS": splits, "CAUSAL": "bottom_right"}
        got = run("attention_decode", params, inputs, {"o": (q.shape, kind), "lse": (q.shape[:3], lse_kind(kind))},
                  {"scale": SCALE}, entry=("program", "attention_decode"), kinds=kinds)
        keep = np.arange(keys) <= (lengths[:, None] - queries + np.arange(queries))[:, None, :, None]
        check_forward(str(params), got, *forward(q, k * of_keys, v * of_values, SCALE, keep)[:2], kind)


def decode_by_token():
    decode_of_bytes("e4m3", True)
    decode_of_bytes("e5m2", True)


def decode_of_integers():
    decode_of_bytes("i8", False)
    decode_of_bytes("i8", True)


def append_of_bytes(stored):
    """New keys and values with factors of their own, in any slots, one of which is skipped; with and without rotation. Where
    keys are rotated, a rounding may differ in the last place of the type."""
    for seed, (kind, rows, heads, rotary, pairs) in enumerate((
            ("f32", 16, 3, 0, False), ("f16", 8, 20, 16, False), ("bf16", 64, 1, 48, True), ("f16", 4, 2, 32, True))):
        rng, count = np.random.default_rng(seed), 64
        k, v = (round_to(normal(seed + i, (count, heads, width), kind) * 10.0 ** rng.uniform(-2, 2, (count, heads, 1)), kind)
                for i, width in enumerate((48, 24)))
        k[7] = 0
        slots = rng.permutation(count).astype(np.int32)
        slots[5] = -1
        params = {"T": kind, "CACHE": stored, "BY_TOKEN": "true", "D": 48, "DV": 24, "ROTARY": rotary, "PAIRS": str(pairs).lower()}
        inputs = {"k": k, "v": v, "slots": slots}
        if rotary:
            angles = rng.uniform(0, 6, (100, rotary // 2))
            cos, sin = round_to(np.cos(angles), kind), round_to(np.sin(angles), kind)
            positions = rng.permutation(100)[:count].astype(np.int32)
            inputs |= {"cos": cos, "sin": sin, "positions": positions}
            params["POSITIONS"] = "true"
            k = round_to(rotated(k, positions, cos, sin, pairs), kind)
        outputs = {f"{name}_pages": ((count // rows, rows, heads, x.shape[2]), stored) for name, x in (("k", k), ("v", v))}
        outputs |= {f"{name}_scales": ((count, heads), "f32") for name in "kv"}
        got = run("attention_append", params, inputs, outputs)
        written = slots >= 0
        for name, x in (("k", k), ("v", v)):
            largest = np.abs(x).max(axis=-1, keepdims=True).astype(np.float32)
            by = np.where(largest == 0, 1, largest / np.float32(LARGEST[stored])).astype(np.float32)
            quotients = (x.astype(np.float32) / by).astype(np.float64)
            values = np.clip(np.rint(quotients), -128, 127) if stored == "i8" else round_to(quotients, stored)
            last = {"e4m3": 2.0**-3, "e5m2": 2.0**-2, "i8": 0}[stored]
            allowed = np.maximum(last * np.abs(values), 1 if stored == "i8" else 2.0**-9) if rotary and name == "k" else 0 * values
            pages, scales = got[f"{name}_pages"].reshape(x.shape), got[f"{name}_scales"]
            compare(f"{params} {name}", pages[slots[written]], values[written], "f32", allowed[written])
            compare(f"{params} {name} by", scales[slots[written]], by[written][..., 0], "f32",
                    1e-2 * by[written][..., 0] if rotary else 0)
            untouched = np.setdiff1d(np.arange(count), slots)
            if not np.isnan(scales[untouched]).all():
                raise SystemExit(f"{params}: the factor of a key without a place was written")


def append_by_token():
    append_of_bytes("e4m3")
    append_of_bytes("e5m2")


def append_of_integers():
    append_of_bytes("i8")


def forward_of_bytes(stored, by_token, cases=(("f16", 16, 16), ("bf16", 300, 0), ("f16", 7, 1))):
    """Packed chunks over a cache of 8 bits, with factors of each key or of each sequence and head."""
    rng, lengths, rows = np.random.default_rng(27), np.array([137, 0, 290], np.int32), [70, 5, 130]
    starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
    for kind, page, page_rows in cases:
        q, k, v, _ = tensors(63, kind, 3, 4, 2, max(rows), 290, 64)
        if by_token:
            k, v = (x * 10.0 ** rng.uniform(-2, 0.5, (*x.shape[:3], 1)) for x in (k, v))
        (k, of_keys), (v, of_values) = (quantized(x, stored, (-1,) if by_token else (-2, -1)) for x in (k, v))
        table, pool = pages_of(rng, 3, 290, page) if page_rows else (np.arange(3)[:, None], 3)
        inputs, kinds = cached_inputs(stored, one_behind_another(q, rows), k, v, lengths, page, table, pool)
        inputs = {name.removesuffix("_pages"): x for name, x in inputs.items()} | {"cu_seqlens_q": starts}
        kinds = {name.removesuffix("_pages"): x for name, x in kinds.items()}
        inputs |= {"block_table": table} if page_rows else {}
        for name, by in (("k", of_keys), ("v", of_values)):
            array = paged(by, lengths, page, table, pool).reshape(pool * page, 2) if by_token else by[:, :, 0, 0]
            inputs[f"{name}_{'scales' if by_token else 'factors'}"] = array
            kinds[f"{name}_{'scales' if by_token else 'factors'}"] = "f32"
        params = {"T": kind, "CACHE": stored, "BY_TOKEN": str(by_token).lower(), "D": 64, "CAUSAL": "bottom_right",
                  "PACKED": "true", "CACHED": "true", "PAGE_ROWS": page_rows}
        got = run("attention_forward", params, inputs,
                  {"o": ((1, 4, starts[-1], 64), kind), "lse": ((1, 4, starts[-1]), lse_kind(kind))}, {"scale": SCALE}, kinds=kinds)
        keeps = [keep_mask(n, m, "bottom_right") for n, m in zip(rows, lengths)]
        check_forward(str(params), got, *results_one_behind_another(q, k * of_keys, v * of_values, rows, lengths, keeps), kind)


def cached_forward_by_token():
    forward_of_bytes("e4m3", True)


def mla_decode_of_bytes():
    """Latent rows of 8 bits with a factor for each span of columns, and rotated columns of the type of queries."""
    rng, keys, lengths = np.random.default_rng(41), 150, np.array([137, 0, 16, 150], np.int32)
    for kind, stored, heads, queries, page, page_rows, splits, spans, width in (
            ("f64", "e4m3", 6, 2, 7, 1, 0, 4, 64), ("f16", "e4m3", 16, 1, 32, 16, 3, 4, 256), ("bf16", "e5m2", 70, 2, 64, 64, 2, 1, 64),
            ("bf16", "e4m3", 40, 1, 96, 0, 0, 2, 512)):
        q, k, _, _ = tensors(31, kind, 4, heads, 1, queries, keys, width + 32)
        latent = k[..., :width].reshape(4, 1, keys, spans, width // spans) * 10.0 ** rng.uniform(-2, 0.5, (4, 1, keys, spans, 1))
        values, by = quantized(latent, stored)
        rope, values, scales = k[..., width:], values.reshape(4, 1, keys, width), by[..., 0]
        table, pool = pages_of(rng, 4, keys, page) if page_rows else (np.arange(4)[:, None], 4)
        rows = page if page_rows else keys
        inputs = {"q": q, "k_pages": paged(values, lengths, rows, table, pool), "rope_pages": paged(rope, lengths, rows, table, pool),
                  "k_scales": paged(scales, lengths, rows, table, pool).reshape(pool * rows, spans), "seq_lens": lengths}
        inputs |= {"block_table": table} if page_rows else {}
        params = {"T": kind, "CACHE": stored, "SPANS": spans, "PAGE_ROWS": page_rows, "SPLITS": splits, "D": width + 32, "DV": width,
                  "GROUP": heads, "CAUSAL": "bottom_right"}
        got = run("attention_mla_decode_bytes", params, inputs,
                  {"o": ((*q.shape[:3], width), kind), "lse": (q.shape[:3], lse_kind(kind))}, {"scale": SCALE},
                  entry=("program", "attention_mla_decode_bytes"), kinds={"k_pages": stored, "k_scales": "f32"})
        stored_k = np.concatenate([(values.reshape(latent.shape) * by).reshape(4, 1, keys, width), rope], -1)
        keep = np.arange(keys) <= (lengths[:, None] - queries + np.arange(queries))[:, None, :, None]
        check_forward(str(params), got, *forward(q, stored_k, stored_k[..., :width], SCALE, keep)[:2], kind)


def cached_forward_of_integers():
    forward_of_bytes("i8", False)
    forward_of_bytes("i8", True, cases=(("bf16", 16, 16),))
