# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Decoding with parts of a cache on several devices, and with caches of 8 bits.

import numpy as np

from corpus.attention import merged, paged
from corpus.cases import SCALE, check_forward, lse_kind, tensors
from harness import compare, round_to, run
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
