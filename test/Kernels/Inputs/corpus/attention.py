# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Attention kernels without modifiers, on dense batches and pages.

import numpy as np

from corpus.cases import (BLOCKS, SCALE, cases, check_forward, check_gradients, forward_outputs,
                          gradients, lse_kind, tensors)
from harness import compare, normal, round_to, run
from reference import backward, dropout_factor, forward, keep_mask


def attention_forward():
    for kind, q, k, v, _, keep, params in cases():
        got = run("attention_forward", params, {"q": q, "k": k, "v": v},
                  forward_outputs(q, v, kind),
                  {"scale": SCALE, "window_left": -1, "window_right": -1})
        check_forward(str(params), got, *forward(q, k, v, SCALE, keep)[:2], kind)
    for causal, left, right in (("none", 5, 3), ("bottom_right", 7, -1), ("top_left", -1, 0)):
        q, k, v, _ = tensors(77, "f64", 1, 2, 1, 45, 70, 16)
        params = {"T": "f64", "D": 16, "CAUSAL": causal, "WINDOW": "true", **BLOCKS}
        got = run("attention_forward", params, {"q": q, "k": k, "v": v},
                  forward_outputs(q, v, "f64"),
                  {"scale": SCALE, "window_left": left, "window_right": right})
        keep = keep_mask(45, 70, causal, left, right)
        check_forward(str(params), got, *forward(q, k, v, SCALE, keep)[:2], "f64")


def attention_backward():
    for deterministic in ("false", "true"):
        for kind, q, k, v, do, keep, params in cases():
            o, lse, _ = forward(q, k, v, SCALE, keep)
            dlse = normal(5, lse.shape, lse_kind(kind))
            got = run("attention_backward", {**params, "DETERMINISTIC": deterministic},
                      {"q": q, "k": k, "v": v, "o": round_to(o, kind), "do": do, "lse": lse,
                       "dlse": dlse},
                      gradients(q, k, v, kind),
                      {"scale": SCALE, "window_left": -1, "window_right": -1},
                      entry=("program", "attention_backward"),
                      kinds={"lse": lse_kind(kind), "dlse": lse_kind(kind)})
            check_gradients(str(params), got, backward(q, k, v, do, SCALE, keep, dlse=dlse), kind)


def backward_by_default_blocks():
    """Large sizes, whose products exchange results through shared memory on a GPU."""
    cases = [(width, form) for width in (64, 128) for form in ("false", "true")]
    # One kernel per gradient for wide heads.
    for width, deterministic in [(8, "false"), (40, "false"), (96, "false"), (192, "false"), (256, "false")] + cases:
        q, k, v, do = tensors(20, "f16", 1, 2, 1, 150, 280, width)
        keep = keep_mask(150, 280, "bottom_right")
        o, lse, _ = forward(q, k, v, SCALE, keep)
        params = {"T": "f16", "D": width, "CAUSAL": "bottom_right", "DETERMINISTIC": deterministic}
        got = run("attention_backward", params,
                  {"q": q, "k": k, "v": v, "o": round_to(o, "f16"), "do": do, "lse": lse},
                  gradients(q, k, v, "f16"), {"scale": SCALE, "window_left": -1, "window_right": -1},
                  entry=("program", "attention_backward"), kinds={"lse": "f32"})
        check_gradients(str(params), got, backward(q, k, v, do, SCALE, keep), "f16")


def masked_backward_by_default_blocks():
    """A mask without bounds, whose blocks are skipped by a vote, and the same mask as spans, which have bounds."""
    sq, sk = 150, 280
    queries, keys = documents_of(np.arange(sq) // 60, sk, 60), documents_of(np.arange(sk) // 60, sq, 60)
    masks = {"document": {"query_document": np.arange(sq)[None] // 60, "key_document": np.arange(sk)[None] // 60},
             "spans": {"key_begin": queries[0], "key_end": queries[1], "query_begin": keys[0], "query_end": keys[1]}}
    of_query, of_key = np.arange(sq) // 60, np.arange(sk) // 60
    far = (of_query[:, None] == of_key[None, :])
    for width, causal in [(64, "none"), (64, "top_left"), (128, "bottom_right"), (256, "top_left")]:
        q, k, v, do = tensors(30, "f16", 1, 2, 1, sq, sk, width)
        keep = keep_mask(sq, sk, causal) & far
        o, lse, _ = forward(q, k, v, SCALE, keep)
        for mask, arrays in masks.items():
            got = run("attention_backward", {"T": "f16", "D": width, "CAUSAL": causal},
                      {"q": q, "k": k, "v": v, "o": round_to(o, "f16"), "do": do, "lse": lse,
                       **{name: array.astype(np.int32) for name, array in arrays.items()}},
                      gradients(q, k, v, "f16"), {"scale": SCALE, "window_left": -1, "window_right": -1},
                      entry=("program", "attention_backward"), with_files=(mask,), kinds={"lse": "f32"})
            check_gradients(f"{mask} {width} {causal}", got, backward(q, k, v, do, SCALE, keep), "f16")


def documents_of(numbers, rows, length):
    """Returns the begin and end of the document of each row, for documents of `length` rows in a sequence of `rows`."""
    begin = np.minimum(numbers * length, rows)
    return begin[None], np.minimum(begin + length, rows)[None]


def backward_is_deterministic():
    """Two runs of the deterministic form are bitwise equal."""
    q, k, v, do = tensors(50, "f32", 1, 4, 2, 130, 150, 16)
    o, lse, _ = forward(q, k, v, SCALE)
    runs = [
        run("attention_backward", {"T": "f32", "D": 16, "DETERMINISTIC": "true", **BLOCKS},
            {"q": q, "k": k, "v": v, "o": o, "do": do, "lse": lse}, gradients(q, k, v, "f32"),
            {"scale": SCALE, "window_left": -1, "window_right": -1},
            entry=("program", "attention_backward"))
        for _ in range(2)
    ]
    for name in runs[0]:
        compare(name, runs[0][name], runs[1][name], "f32", allowed=0)


def backward_in_order():
    """Blocks of keys add to dQ in a fixed order, so results are bitwise equal for any assignment to
    thread blocks."""
    for width, causal, heads, kv_heads, sq, sk in [
            (64, "none", 2, 1, 150, 300), (64, "top_left", 2, 1, 300, 300), (128, "none", 1, 1, 150, 270),
            (128, "top_left", 2, 1, 280, 200), (64, "bottom_right", 1, 1, 150, 400),
            (128, "bottom_right", 1, 1, 290, 270)]:
        q, k, v, do = tensors(40, "bf16", 1, heads, kv_heads, sq, sk, width)
        keep = keep_mask(sq, sk, causal)
        o, lse, _ = forward(q, k, v, SCALE, keep)
        params = {"T": "bf16", "D": width, "CAUSAL": causal, "DETERMINISTIC": "true"}
        runs = [
            run("attention_backward", params,
                {"q": q, "k": k, "v": v, "o": round_to(o, "bf16"), "do": do, "lse": lse},
                gradients(q, k, v, "bf16"), {"scale": SCALE, "window_left": -1, "window_right": -1},
                entry=("program", "attention_backward"), kinds={"lse": "f32"}, extra=[f"--seed={seed}"])
            for seed in (1, 2, 3)
        ]
        check_gradients(str(params), runs[0], backward(q, k, v, do, SCALE, keep), "bf16")
        for other in runs[1:]:
            for name in other:
                compare(f"{params} {name}", other[name], runs[0][name], "bf16", allowed=0)


def precision_f64():
    """--precision=f64 computes the f16 kernel without rounding, except its literals: log2(e) is rounded
    to f32, an error of 1e-8."""
    q, k, v, _ = tensors(51, "f64", 1, 2, 2, 40, 50, 24)
    got = run("attention_forward", {"T": "f16", "D": 24, **BLOCKS}, {"q": q, "k": k, "v": v},
              {"o": (q.shape, None), "lse": (q.shape[:3], None)},
              {"scale": SCALE, "window_left": -1, "window_right": -1},
              kinds={name: None for name in "qkv"}, extra=["--precision=f64"])
    for name, wanted in zip(("o", "lse"), forward(q, k, v, SCALE)):
        compare(name, got[name], wanted, "f64", allowed=1e-7)


def nan_stays_in_its_row():
    q, k, v, _ = tensors(52, "f64", 1, 1, 1, 40, 50, 16)
    o, lse, _ = forward(q, k, v, SCALE)
    q[0, 0, 7, 3] = np.nan
    got = run("attention_forward", {"T": "f64", "D": 16, **BLOCKS}, {"q": q, "k": k, "v": v},
              forward_outputs(q, v, "f64"),
              {"scale": SCALE, "window_left": -1, "window_right": -1})
    for what, wanted in (("o", o), ("lse", lse)):
        poisoned = np.isnan(got[what][0, 0]).reshape(40, -1)
        if not poisoned[7].all() or np.delete(poisoned, 7, axis=0).any():
            raise SystemExit(f"{what}: row 7 alone must be NaN")
        compare(what, np.delete(got[what], 7, axis=2), np.delete(wanted, 7, axis=2), "f64")


def paged(x, lengths, page, table, pages):
    """Moves the first lengths[b] rows of x[b], [H, N, D], to the pages of the table: [pages, page, H, D]. Other rows of
    the pages are NaN."""
    result = np.full((pages, page, x.shape[1], x.shape[3]), np.nan)
    for b, length in enumerate(lengths):
        for j in range(length):
            result[table[b, j // page], j % page] = x[b, :, j]
    return result


def without_padding(x, leftpad):
    """A copy of x, [B, H, N, D], with NaN in the first leftpad[b] rows of x[b]."""
    result = np.array(x, np.float64)
    for b, rows in enumerate(leftpad):
        result[b, :, :rows] = np.nan
    return result


def decode(params, lengths, page, table, pages, q, k, v, leftpad=None, lists=None):
    """Runs attention_decode with one query of each sequence; `table` is absent where each sequence has one page. `lists`:
    arrays of lists of blocks, and the keys that they keep, [B, Hkv, 1, keys]; others are NaN."""
    keep = np.arange(k.shape[2]) < lengths[:, None, None, None]
    expected, arrays = None, {}
    if lists is not None:
        arrays, listed = lists
        keep = keep & np.repeat(listed, q.shape[1] // k.shape[1], axis=1)
        expected = forward(q, k, v, SCALE, keep)[:2]
        k, v = (np.where(listed[:, :, 0, :, None], x, np.nan) for x in (k, v))
        params = {**params, "LISTED": "true"}
    if leftpad is not None:
        keep = keep & (np.arange(k.shape[2]) >= leftpad[:, None, None, None])
        expected = forward(q, k, v, SCALE, keep)[:2]
        k, v = without_padding(k, leftpad), without_padding(v, leftpad if table is None else [])
        params = {**params, "LEFTPAD": "true"}
    kind, numbers = params["T"], np.arange(len(lengths))[:, None] if table is None else table
    inputs = {"q": q, "k_pages": paged(k, lengths, page, numbers, pages),
              "v_pages": paged(v, lengths, page, numbers, pages), "seq_lens": lengths, **arrays}
    if table is not None:
        inputs["block_table"] = table
    if leftpad is not None:
        inputs["leftpad"] = leftpad
    params = {**params, "D": q.shape[3], "DV": v.shape[3], "GROUP": q.shape[1] // k.shape[1]}
    got = run("attention_decode", params, inputs,
              {"o": ((*q.shape[:3], v.shape[3]), kind), "lse": (q.shape[:3], lse_kind(kind))}, {"scale": SCALE},
              entry=("program", "attention_decode"))
    check_forward(str(params), got, *(expected or forward(q, k, v, SCALE, keep)[:2]), kind)


def attention_decode():
    rng = np.random.default_rng(19)
    for kind, heads, kv_heads, page, page_rows, splits in (("f64", 6, 2, 7, 1, 0), ("f16", 4, 4, 32, 16, 3),
                                                            ("bf16", 8, 1, 64, 64, 2), ("f16", 4, 2, 96, 0, 0)):
        lengths = np.array([37, 0, 16, 90], np.int32)
        q, k, v, _ = tensors(31, kind, 4, heads, kv_heads, 1, 90, 24, 40)
        total, table = 4, None
        if page_rows:
            most = -(-90 // page)
            total = 4 * most + 3
            table = rng.permutation(total)[: 4 * most].reshape(4, most).astype(np.int32)
        for leftpad in (None, np.array([20, 0, 16, 77], np.int32)):
            decode({"T": kind, "PAGE_ROWS": page_rows, "SPLITS": splits}, lengths, page, table, total, q, k, v, leftpad)


def key_blocks(rng, batch, heads, keys, size):
    """Lists of some blocks in any order, of the first and of one that no sequence has, and the keys that they keep."""
    columns = -(-keys // size)
    chosen = rng.random((batch, heads, columns)) < 0.5
    chosen[..., 0] = True
    counts = chosen.sum(-1).astype(np.int32)[..., None] + 1
    blocks = np.zeros((batch, heads, 1, columns + 1), np.int32)
    for at in np.ndindex(batch, heads):
        listed = rng.permutation(np.append(np.flatnonzero(chosen[at]), columns + 3))
        blocks[at][0, : len(listed)] = listed
    return {"kv_indices": blocks, "kv_num_blocks": counts}, np.repeat(chosen, size, axis=-1)[:, :, None, :keys]


def listed_decode():
    """Blocks of several sizes, in one part or several; NaN in those that are not listed."""
    rng = np.random.default_rng(18)
    for kind, heads, kv_heads, page, page_rows, splits, size in (
            ("f64", 6, 2, 7, 1, 0, 16), ("f16", 8, 1, 32, 32, 3, 64), ("bf16", 8, 2, 64, 64, 0, 64), ("f16", 4, 2, 300, 0, 2, 128)):
        lengths = np.array([300, 0, 16, 290], np.int32)
        q, k, v, _ = tensors(31, kind, 4, heads, kv_heads, 1, 300, 64)
        total, table = 4, None
        if page_rows:
            most = -(-300 // page)
            total = 4 * most + 3
            table = rng.permutation(total)[: 4 * most].reshape(4, most).astype(np.int32)
        params = {"T": kind, "PAGE_ROWS": page_rows, "SPLITS": splits, "LIST_BLOCK_N": size}
        decode(params, lengths, page, table, total, q, k, v, lists=key_blocks(rng, 4, kv_heads, 300, size))


def block_scores():
    """Means of the keys of complete blocks, and scores of the blocks by queries of several lists; in pages, in one piece."""
    rng = np.random.default_rng(17)
    for kind, group, queries, span, page, page_rows, size in (("f32", 3, 1, 1, 80, 0, 16), ("bf16", 8, 9, 4, 16, 16, 16),
                                                              ("f16", 20, 3, 64, 5, 1, 32)):
        lengths = np.array([80, 0, 47, 33], np.int32)
        q, k, _, _ = tensors(13, kind, 4, 2 * group, 2, queries, 80, 40)
        total, table = 4, np.arange(4)[:, None]
        if page_rows:
            most = 80 // page
            total = 4 * most + 3
            table = rng.permutation(total)[: 4 * most].reshape(4, most).astype(np.int32)
        params, count = {"T": kind, "D": 40, "LIST_BLOCK_N": size}, 80 // size
        inputs = {"k_pages": paged(k, lengths, page, table, total), "seq_lens": lengths}
        if page_rows:
            inputs["block_table"] = table
        means = run("block_means", {**params, "PAGE_ROWS": page_rows}, inputs, {"means": ((4, 2, count, 40), kind)},
                    {"new_keys": 2**31 - 1})["means"]
        rows = k[:, :, : count * size].reshape(4, 2, count, size, 40).mean(3)
        blocks = -(-queries // span)
        scores = run("block_scores", {**params, "GROUP": group, "LIST_BLOCK_M": span},
                     {"q": q, "means": means, "seq_lens": lengths}, {"scores": ((4, 2, blocks, count), "f32")})["scores"]
        products = np.einsum("bhgid,bhnd->bhign", q.reshape(4, 2, group, queries, 40), np.nan_to_num(means)).max(3)
        for b, length in enumerate(lengths):
            compare("means", means[b, :, : length // size], rows[b, :, : length // size], kind)
            for m in range(blocks):
                first, end = m * span, min((m + 1) * span, queries)
                expected = products[b, :, first:end].max(1)
                number, before = np.arange(count), int(length) - queries
                expected[:, (number == 0) | (number >= max(before + first, 0) // size)] = np.inf
                expected[:, number * size >= before + end] = -np.inf
                compare("scores", scores[b, :, m], expected, kind)


def attention_mla_decode():
    """Values are the first columns of keys."""
    rng = np.random.default_rng(39)
    for kind, heads, queries, page, page_rows, splits in (("f64", 6, 2, 7, 1, 0), ("f16", 16, 1, 32, 16, 3),
                                                          ("bf16", 80, 2, 64, 64, 2), ("f16", 40, 1, 96, 0, 0)):
        lengths = np.array([37, 0, 16, 90], np.int32)
        q, k, _, _ = tensors(31, kind, 4, heads, 1, queries, 90, 96, 64)
        total, table, numbers = 4, None, np.arange(4)[:, None]
        if page_rows:
            most = -(-90 // page)
            total = 4 * most + 3
            table = numbers = rng.permutation(total)[: 4 * most].reshape(4, most).astype(np.int32)
        inputs = {"q": q, "k_pages": paged(k, lengths, page, numbers, total), "seq_lens": lengths}
        if table is not None:
            inputs["block_table"] = table
        params = {"T": kind, "PAGE_ROWS": page_rows, "SPLITS": splits, "D": 96, "DV": 64, "GROUP": heads,
                  "CAUSAL": "bottom_right"}
        got = run("attention_mla_decode", params, inputs, {"o": ((*q.shape[:3], 64), kind), "lse": (q.shape[:3], lse_kind(kind))},
                  {"scale": SCALE}, entry=("program", "attention_mla_decode"))
        last = lengths[:, None] - queries + np.arange(queries)
        keep = np.arange(90) <= last[:, None, :, None]
        o, lse = forward(q, k, k[..., :64], SCALE, keep)[:2]
        check_forward(str(params), got, o.reshape(*q.shape[:3], -1), lse.reshape(q.shape[:3]), kind)


def merged(o, lse, base=np.e):
    """O and LSE of parts [M, N, H, DV] and [M, N, H], of which those with an LSE of -inf are left out."""
    known, log = lse > -np.inf, np.log(base)
    top = np.max(lse, axis=1, where=known, initial=np.finfo(np.float64).min)
    weights = np.exp(log * (lse - top[:, None]))
    total = weights.sum(axis=1)
    values = (weights[..., None] * np.where(known[..., None], o, 0)).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total[..., None] > 0, values / total[..., None], 0), top + np.log(total) / log


def attention_merge():
    """Any number of parts, none of them, one in an array of its own; some have no keys, and NaN as O."""
    for seed, (parts_kind, kind, heads, width, count, other, base2) in enumerate((
            ("f64", "f64", 3, 24, 2, False, False), ("f32", "f16", 9, 40, 5, True, False), ("bf16", "bf16", 8, 128, 4, False, True),
            ("f16", "f32", 20, 64, 1, True, True), ("f32", "f32", 2, 256, 13, False, False), ("f16", "f16", 2, 16, 0, False, False),
            ("bf16", "bf16", 5, 512, 0, True, False), ("f32", "bf16", 4, 7, 8, False, False))):
        rng, rows, all_parts = np.random.default_rng(seed), 6, count + other
        o = normal(seed, (rows, all_parts, heads, width), parts_kind)
        lse = round_to(20 * rng.standard_normal((rows, all_parts, heads)), lse_kind(parts_kind))
        lse[1] = -np.inf
        lse[2, : all_parts // 2] = -np.inf
        lse[3, all_parts - 1:] = 1e30  # as a sink may be
        o[np.isneginf(lse)] = np.nan
        inputs = {"o_parts": o[:, :count], "lse_parts": lse[:, :count]}
        if other:
            inputs |= {"o_other": o[:, -1], "lse_other": lse[:, -1]}
        params = {"D": width, "T": parts_kind, "TO": kind, "OTHER": str(other).lower(), "BASE2": str(base2).lower()}
        kinds = {name: parts_kind if name.startswith("o_") else lse_kind(parts_kind) for name in inputs}
        got = run("attention_merge", params, inputs,
                  {"o": ((rows, heads, width), kind), "lse": ((rows, heads), lse_kind(parts_kind))}, kinds=kinds)
        o, lse = merged(o, lse, 2 if base2 else np.e)
        compare(f"{params} o", got["o"], o, kind)
        compare(f"{params} lse", got["lse"][3], lse[3], lse_kind(parts_kind))
        compare(f"{params} lse", np.delete(got["lse"], 3, 0), np.delete(lse, 3, 0), lse_kind(parts_kind))


def one_behind_another(x, rows):
    """The first rows of each batch element, as many as `rows` says, one behind another."""
    return np.concatenate([x[b:b + 1, :, :n] for b, n in enumerate(rows)], 2)


def results_one_behind_another(q, k, v, rows, lengths, keeps):
    """O and LSE of as many queries and keys of each batch element, with a mask for each, one behind another."""
    results = [forward(q[b:b + 1, :, :n], k[b:b + 1, :, :m], v[b:b + 1, :, :m], SCALE, keep)[:2]
               for b, (n, m, keep) in enumerate(zip(rows, lengths, keeps))]
    return [np.concatenate(parts, 2) for parts in zip(*results)]


def listed_cached_forward():
    """Packed chunks over a cache, of lists that the heads of a group share, by default blocks."""
    rng = np.random.default_rng(28)
    for kind, page, page_rows, size in (("f16", 32, 16, 64), ("bf16", 64, 64, 128), ("f16", 300, 0, 64)):
        lengths, rows = np.array([137, 0, 290], np.int32), [70, 5, 130]
        starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
        q, k, v, _ = tensors(62, kind, 3, 4, 2, max(rows), 290, 64)
        total, table = 3, np.arange(3)[:, None]
        if page_rows:
            most = -(-290 // page)
            total = 3 * most + 3
            table = rng.permutation(total)[: 3 * most].reshape(3, most).astype(np.int32)
        columns = -(-290 // size)
        chosen = rng.random((3, 2, 2, columns)) < 0.6
        counts = chosen.sum(-1).astype(np.int32)
        blocks = np.zeros((3, 2, 2, columns), np.int32)
        for at in np.ndindex(3, 2, 2):
            blocks[at][: counts[at]] = rng.permutation(np.flatnonzero(chosen[at]))
        pairs = np.repeat(np.repeat(np.repeat(chosen, size, -1), 128, 2), 2, 1)
        keeps = [keep_mask(n, m, "bottom_right") & pairs[b:b + 1, :, :n, :m] for b, (n, m) in enumerate(zip(rows, lengths))]
        inputs = {"q": one_behind_another(q, rows),
                  "k": paged(k, lengths, page, table, total), "v": paged(v, lengths, page, table, total), "seq_lens": lengths,
                  "cu_seqlens_q": starts, "kv_indices": blocks, "kv_num_blocks": counts}
        if page_rows:
            inputs["block_table"] = table
        got = run("attention_forward",
                  {"T": kind, "D": 64, "CAUSAL": "bottom_right", "PACKED": "true", "CACHED": "true", "PAGE_ROWS": page_rows,
                   "LISTED": "true", "LIST_BLOCK_M": 128, "LIST_BLOCK_N": size},
                  inputs, {"o": ((1, 4, starts[-1], 64), kind), "lse": ((1, 4, starts[-1]), lse_kind(kind))}, {"scale": SCALE})
        check_forward(str(page), got, *results_one_behind_another(q, k, v, rows, lengths, keeps), kind)


def cached_forward_of_bytes():
    """A cache of 8 bits under queries of 16, with factors for each sequence and key head."""
    rng = np.random.default_rng(27)
    for kind, stored, page, page_rows in (("f16", "e4m3", 16, 16), ("bf16", "e5m2", 300, 0), ("f16", "e4m3", 7, 1)):
        lengths, rows = np.array([137, 0, 290], np.int32), [70, 5, 130]
        starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
        q = tensors(63, kind, 3, 4, 2, max(rows), 290, 64)[0]
        k, v = tensors(64, stored, 3, 4, 2, max(rows), 290, 64)[1:3]
        total, table = 3, np.arange(3)[:, None]
        if page_rows:
            most = -(-290 // page)
            total = 3 * most + 3
            table = rng.permutation(total)[: 3 * most].reshape(3, most).astype(np.int32)
        of_keys, of_values = (rng.uniform(0.5, 1.5, (3, 2)).astype(np.float32) for _ in range(2))
        by_key, by_value = k * of_keys[:, :, None, None], v * of_values[:, :, None, None]
        keeps = [keep_mask(n, m, "bottom_right") for n, m in zip(rows, lengths)]
        inputs = {"q": one_behind_another(q, rows),
                  "k": paged(k, lengths, page, table, total), "v": paged(v, lengths, page, table, total), "seq_lens": lengths,
                  "cu_seqlens_q": starts, "k_factors": of_keys, "v_factors": of_values}
        if page_rows:
            inputs["block_table"] = table
        got = run("attention_forward",
                  {"T": kind, "CACHE": stored, "D": 64, "CAUSAL": "bottom_right", "PACKED": "true", "CACHED": "true",
                   "PAGE_ROWS": page_rows},
                  inputs, {"o": ((1, 4, starts[-1], 64), kind), "lse": ((1, 4, starts[-1]), lse_kind(kind))}, {"scale": SCALE},
                  kinds={"k": stored, "v": stored, "k_factors": "f32", "v_factors": "f32"})
        check_forward(stored, got, *results_one_behind_another(q, by_key, by_value, rows, lengths, keeps), kind)


def cached_forward():
    """Chunks of new rows over a cache, by default blocks: packed or of one number, in pages or in one piece."""
    rng = np.random.default_rng(29)
    for kind, heads, kv_heads, page, page_rows, packed, leftpad in (
            ("f64", 6, 2, 7, 1, True, None), ("f16", 4, 4, 32, 16, True, None), ("bf16", 8, 1, 64, 64, True, None),
            ("f16", 4, 2, 16, 8, False, None), ("f16", 4, 2, 300, 0, True, None), ("f16", 4, 2, 64, 64, True, [9, 0, 16, 200]),
            ("bf16", 4, 2, 300, 0, True, [90, 0, 1, 135])):
        lengths = np.array([137, 0, 16, 290], np.int32)
        rows = [70, 5, 0, 130] if packed else [40] * 4
        starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
        q, k, v, _ = tensors(61, kind, 4, heads, kv_heads, max(rows), 290, 64, 40)
        total, table = 4, np.arange(4)[:, None]
        if page_rows:
            most = -(-290 // page)
            total = 4 * most + 3
            table = rng.permutation(total)[: 4 * most].reshape(4, most).astype(np.int32)
        results = [forward(q[b:b + 1, :, :n], k[b:b + 1, :, :m], v[b:b + 1, :, :m], SCALE,
                           keep_mask(n, m, "bottom_right") & (np.arange(m) >= (leftpad or [0] * 4)[b]))
                   for b, (n, m) in enumerate(zip(rows, lengths))]
        if leftpad:
            k, v = without_padding(k, leftpad), without_padding(v, [] if page_rows else leftpad)
        axis = 2 if packed else 0
        q, o, lse = (np.concatenate(parts, axis) for parts in (
            [q[b:b + 1, :, :n] for b, n in enumerate(rows)], [r[0] for r in results], [r[1] for r in results]))
        inputs = {"q": q, "k": paged(k, lengths, page, table, total), "v": paged(v, lengths, page, table, total),
                  "seq_lens": lengths}
        inputs |= {"cu_seqlens_q": starts} if packed else {}
        inputs |= {"block_table": table} if page_rows else {}
        inputs |= {"leftpad": np.array(leftpad, np.int32)} if leftpad else {}
        params = {"T": kind, "D": 64, "DV": 40, "CAUSAL": "bottom_right", "PACKED": str(packed).lower(), "CACHED": "true",
                  "PAGE_ROWS": page_rows, "LEFTPAD": str(bool(leftpad)).lower()}
        got = run("attention_forward", params, inputs, {"o": (o.shape, kind), "lse": (lse.shape, lse_kind(kind))},
                  {"scale": SCALE})
        check_forward(str(params), got, o, lse, kind)


def rotated(x, positions, cos, sin, pairs):
    """Rows of x [N, H, D], each rotated by its position."""
    half = cos.shape[1]
    c, s = cos[positions][:, None], sin[positions][:, None]
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if pairs else (slice(half), slice(half, 2 * half))
    y = x.copy()
    y[..., first] = x[..., first] * c - x[..., second] * s
    y[..., second] = x[..., second] * c + x[..., first] * s
    return y


def attention_append():
    """Fills all pages, in any order."""
    for seed, (kind, rows, heads, rotary, pairs, index) in enumerate((
            ("f64", 16, 3, 0, False, np.int32), ("f32", 1, 2, 32, True, np.int64), ("f16", 8, 20, 16, False, np.int32),
            ("bf16", 64, 1, 48, True, np.int64))):
        rng, count = np.random.default_rng(seed), 64
        k, v, q = normal(seed, (count, heads, 48), kind), normal(seed + 9, (count, heads, 24), kind), normal(
            seed + 20, (count, 2 * heads, 48), kind)
        slots, suffix = rng.permutation(count).astype(index), "_i64" if index == np.int64 else ""
        params = {"T": kind, "D": 48, "DV": 24, "INDICES": suffix[1:] or "i32", "ROTARY": rotary, "PAIRS": str(pairs).lower()}
        inputs, outputs = {"k": k, "v": v, "slots" + suffix: slots}, {}
        if rotary:
            angles = rng.uniform(0, 6, (100, rotary // 2))
            cos, sin = round_to(np.cos(angles), kind), round_to(np.sin(angles), kind)
            positions = rng.permutation(100)[:count].astype(index)
            inputs |= {"cos": cos, "sin": sin, "positions" + suffix: positions, "q": q}
            params["POSITIONS"] = "true"
            k, q = (rotated(x, positions, cos, sin, pairs) for x in (k, q))
            outputs["q_out"] = (q.shape, kind)
        outputs |= {name: ((count // rows, rows, heads, x.shape[2]), kind) for name, x in (("k_pages", k), ("v_pages", v))}
        got = run("attention_append", params, inputs, outputs)
        for name, x in (("k_pages", k), ("v_pages", v)):
            wanted = np.zeros(x.shape)
            wanted[slots] = x
            compare(f"{params} {name}", got[name].reshape(x.shape), wanted, kind)
        if rotary:
            compare(f"{params} q_out", got["q_out"], q, kind)


def attention_backward_saved_probs():
    """With the result of the forward, and without."""
    for kind, q, k, v, do, keep, params in cases():
        o, _, p = forward(q, k, v, SCALE, keep)
        params = {name: value for name, value in params.items() if name != "CAUSAL"}
        for more in ({"o": round_to(o, kind)}, {}):
            got = run("attention_backward_saved_probs", params,
                      {"q": q, "k": k, "v": v, "do": do, "p": round_to(p, kind), **more},
                      gradients(q, k, v, kind), {"scale": SCALE},
                      entry=("program", "attention_backward_saved_probs"))
            check_gradients(f"{params} {' '.join(more)}", got, backward(q, k, v, do, SCALE, keep), kind)


def attention_forward_saved_probs():
    """P, O and LSE, under each mask, and with an additive bias."""
    for kind, q, k, v, _, keep, params in cases():
        check_saved_probs(kind, q, k, v, keep, params)
    for causal, left, right in (("none", 5, 3), ("bottom_right", 7, -1), ("top_left", -1, 0)):
        q, k, v, _ = tensors(77, "f64", 1, 2, 1, 45, 70, 16)
        check_saved_probs("f64", q, k, v, keep_mask(45, 70, causal, left, right),
                          {"T": "f64", "D": 16, "CAUSAL": causal, "WINDOW": "true", **BLOCKS},
                          windows={"window_left": left, "window_right": right})
    for kind in ("bf16", "f16", "f32"):
        q, k, v, _ = tensors(78, kind, 1, 2, 1, 150, 80, 64)
        check_saved_probs(kind, q, k, v, keep_mask(150, 80, "bottom_right"),
                          {"T": kind, "D": 64, "CAUSAL": "bottom_right"})
    q, k, v, _ = tensors(79, "f32", 2, 2, 2, 40, 50, 32)
    bias = normal(80, (1, 2, 40, 50), "f32")
    check_saved_probs("f32", q, k, v, True, {"T": "f32", "D": 32}, bias=bias)


def check_saved_probs(kind, q, k, v, keep, params, windows={}, bias=None):
    wanted_o, wanted_lse, wanted_p = forward(q, k, v, SCALE, keep, bias)
    got = run("attention_forward_saved_probs", params,
              {"q": q, "k": k, "v": v, **({} if bias is None else {"bias": bias})},
              {**forward_outputs(q, v, kind), "p": (wanted_p.shape, kind)}, {"scale": SCALE, **windows},
              with_files=() if bias is None else ("bias",), kinds={"bias": None})
    check_forward(str(params), got, wanted_o, wanted_lse, kind)
    compare(f"{params} p", got["p"], wanted_p, kind)
    # Exactly zero where a pair is masked.
    compare(f"{params} masked p", np.where(keep, 0, got["p"]), np.zeros(wanted_p.shape), kind, allowed=0)


def fp8_forward():
    # A kept probability of 1 becomes 2.5 by dropout, and 2.5 * 256 is no e4m3.
    for kind, causal, dropout in (("e4m3", "none", 0), ("e4m3", "bottom_right", 0),
                                  ("e5m2", "top_left", 0), ("e4m3", "top_left", 0.6)):
        q, k, v, _ = tensors(60, kind, 1, 4, 2, 45, 90, 40, 64)
        descales = {"q_descale": 0.5, "k_descale": 1.5, "v_descale": 2.0}
        inputs = {name: np.array([value]) for name, value in descales.items()}
        kinds, scalars, factor = {name: "f32" for name in descales}, {"scale": SCALE}, 1
        if dropout:
            factor = dropout_factor(dropout, 42, 7, *q.shape[:3], k.shape[2])
            inputs |= {"dropout_seed": np.array([42], np.int64),
                       "dropout_offset": np.array([7], np.int64)}
            scalars["dropout"] = dropout
        got = run("attention_forward",
                  {"D": 40, "DV": 64, "T": kind, "TO": "f32", "CAUSAL": causal, **BLOCKS},
                  {"q": q, "k": k, "v": v, **inputs},
                  {"o": (q.shape[:3] + v.shape[3:], "f32"), "lse": (q.shape[:3], "f32")},
                  scalars, kinds=kinds, with_files=["dropout"] if dropout else [])
        o, lse, p = forward(0.5 * q, 1.5 * k, 2.0 * v, SCALE, keep_mask(45, 90, causal),
                            factor=factor)
        # P is rounded to the type: half a unit in the last place of each term, and half the smallest number, to which P
        # is rounded after multiplication by 256, or by 256 over the largest factor.
        bits, smallest = {"e4m3": (3, 2.0**-9), "e5m2": (2, 2.0**-16)}[kind]
        magnitude = np.abs(np.repeat(2.0 * v, 2, axis=1))
        half_place = 2.0 ** -(bits + 1)
        allowed = (half_place * (p * factor) @ magnitude
                   + np.max(factor) * smallest / 512 * magnitude.sum(axis=2, keepdims=True))
        compare(f"{kind} o", got["o"], o, kind, 1e-5 + allowed)
        compare(f"{kind} lse", got["lse"], lse, "f32")
