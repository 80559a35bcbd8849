# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Attention of packed sequences, and of listed blocks.

import numpy as np

from corpus.cases import (BLOCKS, SCALE, cases, check_forward, check_gradients, forward_outputs,
                          gradients, lse_kind, tensors)
from harness import compare, round_to, run
from reference import backward, forward, keep_mask


def packed_sequences(kind):
    """Returns sequences, one without queries, one without keys, as packed arrays and their starts."""
    lengths_q, lengths_k = [33, 0, 5, 70], [40, 17, 0, 61]
    parts = [tensors(20 * n, kind, 1, 4, 2, lengths_q[n], lengths_k[n], 24, 16) for n in range(4)]
    packed = [np.concatenate([part[n] for part in parts], axis=2) for n in range(4)]
    cu = [np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in (lengths_q, lengths_k)]
    return lengths_q, lengths_k, parts, packed, cu


def packed_wanted(kind, causal, left, right):
    lengths_q, lengths_k, parts, packed, cu = packed_sequences(kind)
    results = []
    for sq, sk, (q, k, v, do) in zip(lengths_q, lengths_k, parts):
        keep = keep_mask(sq, sk, causal, left, right)
        o, lse, _ = forward(q, k, v, SCALE, keep)
        results.append((o, *backward(q, k, v, do, SCALE, keep)[:3], lse))
    rows = [np.concatenate([r[n] for r in results], axis=2) for n in range(4)]
    lse = np.concatenate([r[4] for r in results], axis=2)
    return packed, cu, rows, lse


PACKED = [("f64", "none", -1, -1), ("f64", "bottom_right", 9, -1), ("f16", "top_left", -1, -1)]


def packed_forward():
    for kind, causal, left, right in PACKED:
        (q, k, v, _), cu, (o, *_), lse = packed_wanted(kind, causal, left, right)
        params = {"T": kind, "D": 24, "DV": 16, "CAUSAL": causal,
                  "WINDOW": "true" if left >= 0 else "false", **BLOCKS}
        got = run("attention_forward", {**params, "PACKED": "true"},
                  {"q": q, "k": k, "v": v, "cu_seqlens_q": cu[0], "cu_seqlens_k": cu[1]},
                  {"o": (o.shape, kind), "lse": (lse.shape, lse_kind(kind))},
                  {"scale": SCALE, "window_left": left, "window_right": right})
        check_forward(str(params), got, o, lse, kind)


def packed_forward_neighbors():
    """With default blocks, the last block of a sequence includes rows of the next one, whose keys and
    values are NaN here and whose results must not be overwritten."""
    kind = "f16"
    lengths = [(70, 200), (0, 90), (150, 61), (130, 0), (1, 300)]
    for width, causal, left, right in [(64, "none", -1, -1), (128, "bottom_right", -1, -1),
                                       (64, "top_left", 40, 20)]:
        packed, results = [[], [], []], []
        for n, (sq, sk) in enumerate(lengths):
            q, k, v, _ = tensors(40 + 4 * n, kind, 1, 4, 2, sq, sk, width)
            o, lse, _ = forward(q, k, v, SCALE, keep_mask(sq, sk, causal, left, right))
            results.append((o, lse))
            if sq == 0:
                k[:], v[:] = np.nan, np.nan
            for whole, part in zip(packed, (q, k, v)):
                whole.append(part)
        q, k, v = (np.concatenate(parts, axis=2) for parts in packed)
        o, lse = (np.concatenate([r[n] for r in results], axis=2) for n in range(2))
        cu = [np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in zip(*lengths)]
        params = {"T": kind, "D": width, "CAUSAL": causal, "WINDOW": "true" if left >= 0 else "false"}
        got = run("attention_forward", {**params, "PACKED": "true"},
                  {"q": q, "k": k, "v": v, "cu_seqlens_q": cu[0], "cu_seqlens_k": cu[1]},
                  {"o": (o.shape, kind), "lse": (lse.shape, "f32")},
                  {"scale": SCALE, "window_left": left, "window_right": right})
        check_forward(str(params), got, o, lse, kind)


def packed_backward():
    for kind, causal, left, right in PACKED:
        (q, k, v, do), cu, (o, *wanted), lse = packed_wanted(kind, causal, left, right)
        params = {"T": kind, "D": 24, "DV": 16, "CAUSAL": causal,
                  "WINDOW": "true" if left >= 0 else "false", **BLOCKS}
        got = run("attention_backward", {**params, "PACKED": "true"},
                  {"q": q, "k": k, "v": v, "o": round_to(o, kind), "do": do, "lse": lse,
                   "cu_seqlens_q": cu[0], "cu_seqlens_k": cu[1]},
                  gradients(q, k, v, kind),
                  {"scale": SCALE, "window_left": left, "window_right": right},
                  entry=("program", "attention_backward"), kinds={"lse": lse_kind(kind)})
        check_gradients(str(params), got, wanted, kind)


def packed_backward_neighbors():
    """With default blocks: a sequence with only NaN between others, empty sequences, one of a single row,
    partial and whole blocks, for gradients summed atomically and for a separate kernel for dQ."""
    kind = "f16"
    lengths = [(70, 200), (0, 90), (150, 61), (130, 140), (128, 0), (1, 300), (260, 1)]
    poisoned = 2
    for width, causal, left, right, deterministic in [
            (64, "none", -1, -1, "false"), (128, "bottom_right", -1, -1, "false"),
            (96, "none", -1, -1, "false"), (64, "top_left", 40, 20, "false"),
            (128, "top_left", -1, -1, "true"), (256, "bottom_right", -1, -1, "false")]:
        packed, wanted, lse = [[] for _ in range(5)], [], []
        for n, (sq, sk) in enumerate(lengths):
            q, k, v, do = tensors(40 + 4 * n, kind, 1, 4, 2, sq, sk, width)
            keep = keep_mask(sq, sk, causal, left, right)
            o, of_rows, _ = forward(q, k, v, SCALE, keep)
            wanted.append(backward(q, k, v, do, SCALE, keep)[:3])
            if n == poisoned or sq == 0:
                k[:], v[:] = np.nan, np.nan
            if n == poisoned:
                q[:], do[:], o[:], of_rows[:] = np.nan, np.nan, np.nan, np.nan
            for whole, part in zip(packed, (q, k, v, do, round_to(o, kind))):
                whole.append(part)
            lse.append(of_rows)
        q, k, v, do, o = (np.concatenate(parts, axis=2) for parts in packed)
        cu = [np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in zip(*lengths)]
        params = {"T": kind, "D": width, "CAUSAL": causal, "DETERMINISTIC": deterministic,
                  "WINDOW": "true" if left >= 0 else "false"}
        got = run("attention_backward", {**params, "PACKED": "true"},
                  {"q": q, "k": k, "v": v, "o": o, "do": do, "lse": np.concatenate(lse, axis=2),
                   "cu_seqlens_q": cu[0], "cu_seqlens_k": cu[1]},
                  gradients(q, k, v, kind),
                  {"scale": SCALE, "window_left": left, "window_right": right},
                  entry=("program", "attention_backward"), kinds={"lse": "f32"})
        for n, results in enumerate(wanted):
            of_sequence = [got[name][:, :, starts[n]:starts[n + 1]]
                           for name, starts in zip(("dq", "dk", "dv"), (cu[0], cu[1], cu[1]))]
            if n != poisoned:
                check_gradients(f"{params} sequence {n}", dict(zip(("dq", "dk", "dv"), of_sequence)),
                                results, kind)
            elif causal == "none":
                for name, rows in zip(("dq", "dk", "dv"), of_sequence):
                    compare(f"{params} {name} that is no number", np.isnan(rows),
                            np.ones(rows.shape), kind)


def lists_of_blocks(rng, lists, queries, keys, size):
    """Returns random lists [*lists, Mb, L] of blocks of `size` keys, their arguments, and the pairs that they keep."""
    rows, columns = -(-queries // size), -(-keys // size)
    chosen = rng.random((*lists, rows, columns)) < 0.6
    # Unordered, followed by numbers that must not be read, and two that are not blocks.
    counts = chosen.sum(axis=-1).astype(np.int32) + 2
    blocks = np.zeros((*lists, rows, columns + 3), np.int32)
    for at in np.ndindex(*lists, rows):
        listed = rng.permutation(np.append(np.flatnonzero(chosen[at]), [columns + 5, -1]))
        blocks[at][: len(listed)] = listed
    pairs = np.repeat(np.repeat(chosen, size, axis=2), size, axis=3)[:, :, :queries, :keys]
    return {"kv_indices": blocks, "kv_num_blocks": counts}, pairs


def listed_cases():
    """Lists per batch and head, or shared; blocks as large as those of the kernel, or twice as large."""
    rng = np.random.default_rng(8)
    for n, (kind, q, k, v, do, keep, params) in enumerate(cases()):
        size = 32 << n % 2
        lists = q.shape[:2] if n % 3 else (1, 1)
        arrays, pairs = lists_of_blocks(rng, lists, q.shape[2], k.shape[2], size)
        sizes = {"LISTED": "true", "LIST_BLOCK_M": size, "LIST_BLOCK_N": size}
        yield kind, q, k, v, do, keep & pairs, {**params, **sizes}, arrays


def listed_forward():
    for kind, q, k, v, _, keep, params, arrays in listed_cases():
        got = run("attention_forward", params, {"q": q, "k": k, "v": v, **arrays},
                  forward_outputs(q, v, kind), {"scale": SCALE})
        check_forward(str(params), got, *forward(q, k, v, SCALE, keep)[:2], kind)


def listed_backward():
    for deterministic in ("false", "true"):
        for kind, q, k, v, do, keep, params, arrays in listed_cases():
            o, lse, _ = forward(q, k, v, SCALE, keep)
            got = run("attention_backward",
                      {**params, "DETERMINISTIC": deterministic, "DQ_BLOCK_M": 32, "DQ_BLOCK_N": 32},
                      {"q": q, "k": k, "v": v, "o": round_to(o, kind), "do": do, "lse": lse, **arrays},
                      gradients(q, k, v, kind), {"scale": SCALE},
                      entry=("program", "attention_backward"), kinds={"lse": lse_kind(kind)})
            check_gradients(str(params), got, backward(q, k, v, do, SCALE, keep), kind)


def listed_by_default_blocks():
    """Large sizes, which divide blocks of 128; with a window, and blocks without pairs."""
    for width, causal, left in [(64, "none", -1), (64, "bottom_right", 90), (128, "top_left", -1), (256, "none", 70)]:
        q, k, v, do = tensors(20, "f16", 1, 2, 1, 300, 560, width)
        arrays, pairs = lists_of_blocks(np.random.default_rng(width), (1, 2), 300, 560, 128)
        keep = keep_mask(300, 560, causal, left, -1) & pairs
        o, lse, _ = forward(q, k, v, SCALE, keep)
        params = {"T": "f16", "D": width, "CAUSAL": causal, "LISTED": "true"}
        numbers = {"scale": SCALE}
        if left >= 0:
            params["WINDOW"] = "true"
            numbers |= {"window_left": left, "window_right": -1}
        got = run("attention_forward", params, {"q": q, "k": k, "v": v, **arrays}, forward_outputs(q, v, "f16"), numbers)
        check_forward(str(params), got, o, lse, "f16")
        got = run("attention_backward", params,
                  {"q": q, "k": k, "v": v, "o": round_to(o, "f16"), "do": do, "lse": lse, **arrays},
                  gradients(q, k, v, "f16"), numbers, entry=("program", "attention_backward"), kinds={"lse": "f32"})
        check_gradients(str(params), got, backward(q, k, v, do, SCALE, keep), "f16")


def listed_absent_gradient():
    """The rare loop of a capture whose gradient is absent: full blocks add to dQ through a role, others do not."""
    q, k, v, do = tensors(21, "f16", 2, 4, 1, 139, 200, 64)
    arrays, pairs = lists_of_blocks(np.random.default_rng(3), (1, 1), 139, 200, 64)
    prefix = np.array([100, 150], np.int32)
    position = np.arange(200)
    keep = (position <= np.arange(139)[:, None]) | (position < prefix[:, None, None, None])
    keep = keep & pairs
    o, lse, _ = forward(q, k, v, SCALE, keep)
    params = {"T": "f16", "D": 64, "CAPTURE_GRADIENTS": "true",
              "LISTED": "true", "LIST_BLOCK_M": 64, "LIST_BLOCK_N": 64}
    got = run("attention_backward", params,
              {"q": q, "k": k, "v": v, "o": round_to(o, "f16"), "do": do, "lse": lse, **arrays,
               "prefix_length": prefix, "slopes": np.zeros(4)},
              gradients(q, k, v, "f16"), {"scale": SCALE}, with_files=["prefix_lm", "alibi"],
              entry=("program", "attention_backward"), kinds={"lse": "f32", "slopes": "f32"})
    check_gradients(str(params), got, backward(q, k, v, do, SCALE, keep), "f16")
