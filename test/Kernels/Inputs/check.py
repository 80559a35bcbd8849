# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs a kernel of the corpus on small cases and compares it with reference.py.
#
#   check.py NAME...    NAME: a function below

import os
import sys

import numpy as np

from harness import DEVICE, TOLERANCE, compare, finish, normal, round_to, run
from progress import Progress
from reference import (backward, differential, dropout_factor, forward, keep_mask, linear,
                       scores)

SCALE = 0.125


def tensors(seed, kind, batch, heads, kv_heads, queries, keys, width, v_width=None):
    v_width = v_width or width
    shapes = {
        "q": (batch, heads, queries, width),
        "k": (batch, kv_heads, keys, width),
        "v": (batch, kv_heads, keys, v_width),
        "do": (batch, heads, queries, v_width),
    }
    return [normal(seed + n, shape, kind) for n, shape in enumerate(shapes.values())]


def lse_kind(kind):
    return "f64" if kind == "f64" else "f32"


def gradients(q, k, v, kind):
    return {"dq": (q.shape, kind), "dk": (k.shape, kind), "dv": (v.shape, kind)}


# Few queries, many keys, odd sizes, a padded head, groups; each with an element type and mask.
SHAPES = [
    # kind, batch, heads, kv_heads, queries, keys, width, v_width, causal
    ("f64", 2, 4, 2, 37, 53, 24, 40, "none"),
    ("f64", 1, 2, 1, 65, 33, 19, 19, "bottom_right"),
    ("f32", 1, 3, 3, 1, 70, 64, 64, "top_left"),
    ("f16", 1, 2, 2, 40, 40, 32, 32, "bottom_right"),
    ("f64", 1, 2, 2, 5, 0, 16, 16, "none"),
]
BLOCKS = {"BLOCK_M": 32, "BLOCK_N": 32}


def cases():
    for n, (kind, b, h, hk, sq, sk, d, dv, causal) in enumerate(SHAPES):
        q, k, v, do = tensors(10 * n, kind, b, h, hk, sq, sk, d, dv)
        params = {"T": kind, "D": d, "DV": dv, "CAUSAL": causal, **BLOCKS}
        yield kind, q, k, v, do, keep_mask(sq, sk, causal), params


def forward_outputs(q, v, kind):
    return {"o": (q.shape[:3] + v.shape[3:], kind), "lse": (q.shape[:3], lse_kind(kind))}


def check_forward(what, got, o, lse, kind):
    compare(what + " o", got["o"], o, kind)
    compare(what + " lse", got["lse"], lse, "f32" if kind == "f16" else kind)


def check_gradients(what, got, wanted, kind):
    for name, value in zip(("dq", "dk", "dv"), wanted):
        compare(f"{what} {name}", got[name], value, kind)


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
        params = {"T": "bf16", "D": width, "CAUSAL": causal, "DETERMINISTIC": "true", "ORDERED": "true"}
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


def t5_buckets(sq, sk, count, max_distance, bidirectional):
    """Returns the bucket of each pair, of `count`, in integers: d is in bucket E + n from (d / E)^(C - E) =
    (max_distance / E)^n on."""
    per_direction = count // 2 if bidirectional else count
    exact = per_direction // 2
    rest = per_direction - exact

    def of_distance(d):
        if d < exact:
            return d
        n = 0
        while n < rest - 1 and d**rest * exact ** (n + 1) >= max_distance ** (n + 1) * exact**rest:
            n += 1
        return exact + n

    past = np.array([of_distance(d) for d in range(max(sq, sk))])
    ahead = np.arange(sk)[None, :] - np.arange(sq)[:, None]
    if bidirectional:
        return past[np.abs(ahead)] + per_direction * (ahead > 0)
    return past[np.maximum(-ahead, 0)]


def mods():
    b, h, sq, sk, d = 2, 4, 41, 60, 16
    q, k, v, do = tensors(3, "f64", b, h, 2, sq, sk, d)
    i, j = np.arange(sq)[:, None], np.arange(sk)[None, :]
    slopes = normal(1, (h,), "f32")
    table = normal(2, (h, 2 * 9 + 1), "f32")
    prefix = np.array([13, 0], np.int32)
    of_query = np.sort(np.random.default_rng(4).integers(0, 4, (b, sq)), axis=1).astype(np.int32)
    of_key = np.sort(np.random.default_rng(5).integers(0, 4, (b, sk)), axis=1).astype(np.int32)
    begin = np.sort(np.random.default_rng(6).integers(0, sk, (b, sq)), axis=1).astype(np.int32)
    end = np.sort(np.random.default_rng(7).integers(0, sk + 9, (b, sq)), axis=1).astype(np.int32)
    # Queries that attend a key: from the first whose keys end after it to the first whose keys begin after it.
    first, behind = (np.array([np.searchsorted(row, j[0], side="right") for row in x], np.int32) for x in (end, begin))
    each_slope, shift = normal(6, (b, h), "f32"), np.array([sk - sq, -5], np.int32)
    used_q, used_k = np.array([17, sq], np.int32), np.array([sk, 33], np.int32)
    ahead = j - i - shift[:, None, None, None]
    modifiers = {
        "softcap": (lambda s: 2.5 * np.tanh(s / 2.5), {}, {"softcap": 2.5}),
        "alibi": (lambda s: s - slopes[:, None, None] * np.abs(i - j), {"slopes": slopes}, {}),
        "alibi_aligned": (lambda s: s - each_slope[:, :, None, None] * np.abs(ahead),
                          {"alibi_slopes": each_slope, "alibi_shift": shift}, {}),
        "relative_bias": (lambda s: s + table[:, np.clip(j - i, -9, 9) + 9],
                          {"relative_bias": table}, {"relative_radius": 9}),
    }
    # Some distances are at the start of a bucket (32 of 64, say), some beyond the last one.
    for count, far, both in (32, 128, 1), (32, 128, 0), (8, 20, 1), (12, 48, 0), (3, 4, 0):
        t5_table = normal(8, (h, count), "f32")
        bucket = t5_buckets(sq, sk, count, far, both)
        modifiers[f"t5_bias {count} {far} {both}"] = (
            lambda s, t5_table=t5_table, bucket=bucket: s + t5_table[:, bucket], {"t5_bias": t5_table},
            {"t5_max_distance": far, "t5_bidirectional": both})
    # Broadcast along any dimensions, and smaller than the scores: 0 outside.
    for shape in (b, h, sq, sk), (1, h, 1, sk), (b, 1, sq, 1), (1, 1, 1, 1), (b, h, sq - 9, sk - 7):
        bias = normal(8, shape, "f64")
        ends = [(0, n - m if m > 1 else 0) for n, m in zip((b, h, sq, sk), shape)]
        modifiers[f"bias {shape}"] = (lambda s, each=np.pad(bias, ends): s + each, {"bias": bias},
                                      {})
    masks = {
        "sink_window": ((j <= i) & ((j < 3) | (j >= i - 6)), {},
                        {"sink_size": 3, "sink_window": 6}),
        "prefix_lm": ((j < prefix[:, None, None, None]) | (j <= i), {"prefix_length": prefix}, {}),
        "document": ((of_query[:, None, :, None] == of_key[:, None, None, :]),
                     {"query_document": of_query, "key_document": of_key}, {}),
        "spans": ((begin[:, None, :, None] <= j) & (j < end[:, None, :, None]),
                  {"key_begin": begin, "key_end": end, "query_begin": first, "query_end": behind}, {}),
        "window_aligned": ((ahead >= -4) & (ahead <= 7), {"window_shift": shift},
                           {"aligned_left": 4, "aligned_right": 7}),
        "used_lengths": ((i < used_q[:, None, None, None]) & (j < used_k[:, None, None, None]),
                         {"seqused_q": used_q, "seqused_k": used_k}, {}),
    }
    for shape in (b, h, sq, sk), (1, h, 1, sk), (b, 1, sq, 1):  # one row without keys
        mask = np.random.default_rng(7).random(shape) < 0.5
        mask[:, 0, :1] = False
        masks[f"mask {shape}"] = (np.broadcast_to(mask, (b, h, sq, sk)), {"mask": mask}, {})
    params = {"T": "f64", "D": d, **BLOCKS}
    scalars = {"scale": 1.0, "window_left": -1, "window_right": -1}
    kinds = {"slopes": "f32", "alibi_slopes": "f32", "relative_bias": "f32", "t5_bias": "f32",
             "mask": "i1"}
    for name in list(modifiers) + list(masks):
        score, keep, file = None, True, name.split()[0]
        if name in modifiers:
            score, arrays, numbers = modifiers[name]
        else:
            keep, arrays, numbers = masks[name]
        got = run("attention_forward", params, {"q": q, "k": k, "v": v, **arrays},
                  forward_outputs(q, v, "f64"), {**scalars, **numbers}, with_files=[file],
                  kinds=kinds)
        o, lse, _ = forward(q, k, v, 1.0, keep, score=score)
        check_forward(name, got, o, lse, "f64")
        if name in masks:
            got = run("attention_backward", params,
                      {"q": q, "k": k, "v": v, "o": o, "do": do, "lse": lse, **arrays},
                      gradients(q, k, v, "f64"), {**scalars, **numbers}, with_files=[file],
                      entry=("program", "attention_backward"), kinds=kinds)
            check_gradients(name, got, backward(q, k, v, do, 1.0, keep), "f64")


def run_dense_backward(params, inputs, arrays, outputs, numbers, mod):
    """Runs attention_backward with a modifier that captures `arrays` and `numbers`."""
    q, k, v = (inputs[name] for name in "qkv")
    return run("attention_backward", params, {**inputs, **arrays},
               {**gradients(q, k, v, params["T"]), **outputs},
               {"scale": 1.0, "window_left": -1, "window_right": -1, **numbers},
               with_files=[mod], entry=("program", "attention_backward"),
               kinds={array: "f32" for array in (*arrays, "lse") if array != "bias"})


def run_packed_backward(params, inputs, arrays, outputs, numbers, mod):
    """Runs the same as packed sequences, one per batch."""
    packed = {name: np.concatenate(list(x), axis=1)[None] for name, x in inputs.items()}
    for name in "qk":
        batch, _, rows, _ = inputs[name].shape
        packed[f"cu_seqlens_{name}"] = (rows * np.arange(batch + 1)).astype(np.int32)
    got = run("attention_backward", {**params, "PACKED": "true"}, {**packed, **arrays},
              {**gradients(*(packed[name] for name in "qkv"), params["T"]), **outputs},
              {"scale": 1.0, **numbers},
              with_files=[mod], entry=("program", "attention_backward"),
              kinds={array: "f32" for array in (*arrays, "lse") if array != "bias"})
    for name in "qkv":
        batch = inputs[name].shape[0]
        got["d" + name] = np.concatenate(np.split(got["d" + name], batch, axis=2))
    return got


def modified_packed_backward():
    modified_backward(run_packed_backward)


def modified_backward(run_backward=run_dense_backward):
    """The backward of modified scores, and the gradients of captures of the modifiers. Few pairs, since
    it also runs on the simulator."""
    b, h, sq, sk, d, far = 2, 4, 37, 50, 16, 5
    i, j = np.arange(sq)[:, None], np.arange(sk)[None, :]
    slopes, gain, row = normal(1, (h,), "f32"), normal(2, (h,), "f32"), normal(3, (sq,), "f32")
    table, key = normal(4, (h, 2 * far + 1), "f32"), normal(5, (b, sk), "f32")
    slope = normal(6, (h, far + 1), "f32")
    each_slope, shift = normal(7, (b, h), "f32"), np.array([sk - sq, -3], np.int32)
    from_diagonal = np.abs(j - i - shift[:, None, None, None])
    near, distance = np.clip(j - i, -far, far) + far, np.minimum(np.abs(j - i), far)
    t5_table, bucket = normal(8, (h, 12), "f32"), t5_buckets(sq, sk, 12, 20, True)

    def by_head(x):
        return x[:, None, None]

    def entries(shape, where, dt):
        """Sums dt [B, Hq, Sq, Skv] into the entries given by `where`; without it, into one."""
        if not where:
            return dt.sum().reshape(shape)
        sums = np.zeros(shape)
        np.add.at(sums, tuple(np.broadcast_arrays(*where, dt)[:-1]), dt)
        return sums

    batch = np.arange(b)[:, None, None, None]
    head = np.arange(h)[None, :, None, None]
    tanh = np.tanh
    learned = lambda s: (0.75 * s + by_head(gain) * tanh(s) + row[:, None] + key[:, None, None, :]
                         + slope[:, distance] * s / 4)
    # name: modifier, derivative, arrays, numbers, and for each gradient the element that a pair reads and the
    # derivative with respect to it.
    mods = {
        "softcap": (lambda s: 2.5 * tanh(s / 2.5), lambda s: 1 - tanh(s / 2.5) ** 2, {},
                    {"softcap": 2.5},
                    {"softcap": ((1,), (), lambda s: tanh(s / 2.5)
                                 - s / 2.5 * (1 - tanh(s / 2.5) ** 2))}),
        "alibi": (lambda s: s - by_head(slopes) * np.abs(i - j), lambda s: 1.0,
                  {"slopes": slopes}, {},
                  {"slopes": ((h,), (head,), lambda s: -np.abs(i - j) + 0 * s)}),
        "alibi_aligned": (lambda s: s - each_slope[:, :, None, None] * from_diagonal, lambda s: 1.0,
                          {"alibi_slopes": each_slope, "alibi_shift": shift}, {},
                          {"alibi_slopes": ((b, h), (batch, head),
                                            lambda s: -from_diagonal + 0 * s)}),
        "relative_bias": (lambda s: s + table[:, near], lambda s: 1.0, {"relative_bias": table},
                          {"relative_radius": far},
                          {"relative_bias": (table.shape, (head, near), lambda s: 1 + 0 * s)}),
        "t5_bias": (lambda s: s + t5_table[:, bucket], lambda s: 1.0, {"t5_bias": t5_table},
                    {"t5_max_distance": 20, "t5_bidirectional": 1},
                    {"t5_bias": (t5_table.shape, (head, bucket), lambda s: 1 + 0 * s)}),
        "learned": (learned,
                    lambda s: (0.75 + by_head(gain) * (1 - tanh(s) ** 2)
                               + slope[:, distance] / 4),
                    {"gain": gain, "row": row, "key": key, "slope": slope},
                    {"temperature": 0.75, "reach": far},
                    {"temperature": ((1,), (), lambda s: s),
                     "gain": ((h,), (head,), tanh),
                     "row": ((sq,), (i,), lambda s: 1 + 0 * s),
                     "key": ((b, sk), (batch, j), lambda s: 1 + 0 * s),
                     "slope": (slope.shape, (head, distance), lambda s: s / 4)}),
    }
    # One element per pair, and sums over pairs that share an element.
    for shape in (b, h, sq, sk), (1, h, 1, sk), (b, 1, sq, 1):
        bias = normal(8, shape, "f16")
        where = [x if n > 1 else 0 * x for x, n in zip((batch, head, i, j), shape)]
        mods[f"bias {shape}"] = (lambda s, bias=bias: s + bias, lambda s: 1.0, {"bias": bias}, {},
                                 {"bias": (shape, where, lambda s: 1 + 0 * s)})
    for kind, causal in (("f32", "none"), ("f16", "bottom_right")):
        q, k, v, do = tensors(60, kind, b, h, 2, sq, sk, d)
        keep = keep_mask(sq, sk, causal)
        s = scores(q, k, 1.0)
        for name, (score, slope_of, arrays, numbers, tables) in mods.items():
            o, lse, _ = forward(q, k, v, 1.0, keep, score=score)
            *wanted, dt = backward(q, k, v, do, 1.0, keep, score=score, slope=slope_of)
            for deterministic in ("false", "true"):
                params = {"T": kind, "D": d, "CAUSAL": causal, "CAPTURE_GRADIENTS": "true",
                          "DETERMINISTIC": deterministic, **BLOCKS}
                outputs = {"d_" + t: (shape, "f32") for t, (shape, _, _) in tables.items()}
                got = run_backward(params, {"q": q, "k": k, "v": v, "o": round_to(o, kind), "do": do,
                                            "lse": lse}, arrays, outputs, numbers, name.split()[0])
                check_gradients(f"{name} {params}", got, wanted, kind)
                for t, (shape, where, derivative) in tables.items():
                    terms = dt * derivative(s)
                    # Terms of both signs cancel, so the error is relative to the terms. The error of a term is that of
                    # P and of delta, even if these cancel.
                    allowed = TOLERANCE[kind] * (1 + entries(shape, where, np.abs(terms)))
                    if len(where) == dt.ndim:
                        allowed = np.max(allowed)
                    compare(f"{name} {params} d_{t}", got["d_" + t],
                            entries(shape, where, terms), kind, allowed)


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


def attention_split_kv():
    for kind, q, k, v, _, keep, params in cases():
        for splits in (1, 3, 8):
            got = run("attention_split_kv", params, {"q": q, "k": k, "v": v},
                      forward_outputs(q, v, kind), {"scale": SCALE, "num_splits": splits},
                      entry=("program", "attention_split_kv"))
            check_forward(f"{splits} {params}", got, *forward(q, k, v, SCALE, keep)[:2], kind)


def attention_packed_gqa():
    for kind, q, k, v, _, keep, params in cases():
        group = q.shape[1] // k.shape[1]
        # On the CPU, any number of rows is valid.
        params = {**params, "GROUP": group, "QUERIES": 32 // group if DEVICE else 16 // group + 1}
        params.pop("BLOCK_M", None)
        got = run("attention_packed_gqa", params, {"q": q, "k": k, "v": v},
                  forward_outputs(q, v, kind), {"scale": SCALE})
        check_forward(str(params), got, *forward(q, k, v, SCALE, keep)[:2], kind)


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


def attention_paged_decode():
    rng = np.random.default_rng(9)
    for kind, heads, kv_heads, page in (("f64", 6, 2, 16), ("f16", 4, 4, 32)):
        lengths = np.array([37, 0, 16, 80], np.int32)
        most = -(-80 // page)
        q, k, v, _ = tensors(31, kind, 4, heads, kv_heads, 1, 80, 24, 40)
        # Every page without a sequence, and every row beyond a sequence, is NaN.
        total = 4 * most + 3
        table = rng.permutation(total)[: 4 * most].reshape(4, most).astype(np.int32)
        k_pages = np.full((total, page, kv_heads, 24), np.nan)
        v_pages = np.full((total, page, kv_heads, 40), np.nan)
        keep = np.arange(80) < lengths[:, None, None, None]
        for b in range(4):
            for j in range(lengths[b]):
                k_pages[table[b, j // page], j % page] = k[b, :, j]
                v_pages[table[b, j // page], j % page] = v[b, :, j]
        got = run("attention_paged_decode",
                  {"T": kind, "D": 24, "DV": 40, "PAGE": page, "GROUP": heads // kv_heads},
                  {"q": q[:, :, 0], "k_pages": k_pages, "v_pages": v_pages, "block_table": table,
                   "seq_lens": lengths},
                  {"o": ((4, heads, 40), kind), "lse": ((4, heads), lse_kind(kind))},
                  {"scale": SCALE})
        o, lse, _ = forward(q, k, v, SCALE, keep)
        check_forward(f"page {page}", got, o[:, :, 0], lse[:, :, 0], kind)


DROPOUT = [(0.0, 1, 0), (0.25, 42, 7), (0.6, -3, 2**40 + 5)]


def dropout_cases():
    for kind, q, k, v, do, keep, params in cases():
        for p, seed, offset in DROPOUT:
            factor = dropout_factor(p, seed, offset, *q.shape[:3], k.shape[2])
            memory = {"dropout_seed": np.array([seed], np.int64),
                      "dropout_offset": np.array([offset], np.int64)}
            scalars = {"scale": SCALE, "window_left": -1, "window_right": -1,
                       "dropout": float(np.float32(p))}
            yield kind, q, k, v, do, keep, params, factor, memory, scalars


def linked_dropout():
    for kind, q, k, v, _, keep, params, factor, memory, scalars in dropout_cases():
        got = run("attention_forward", params, {"q": q, "k": k, "v": v, **memory},
                  forward_outputs(q, v, kind), scalars, with_files=["dropout"])
        o, lse, _ = forward(q, k, v, SCALE, keep, factor=factor)
        check_forward(f"{scalars} {params}", got, o, lse, kind)


def linked_dropout_backward():
    for kind, q, k, v, do, keep, params, factor, memory, scalars in dropout_cases():
        o, lse, _ = forward(q, k, v, SCALE, keep, factor=factor)
        # Other tiles than in the forward kernel: the mask does not depend on them.
        params = {**params, "DETERMINISTIC": "true", "BLOCK_M": 16, "BLOCK_N": 64}
        got = run("attention_backward", params,
                  {"q": q, "k": k, "v": v, "o": round_to(o, kind), "do": do, "lse": lse, **memory},
                  gradients(q, k, v, kind), scalars,
                  with_files=["dropout"], entry=("program", "attention_backward"),
                  kinds={"lse": lse_kind(kind)})
        wanted = backward(q, k, v, do, SCALE, keep, factor=factor)
        check_gradients(f"{scalars} {params}", got, wanted, kind)


def bias_cases():
    for n, (kind, q, k, v, do, keep, params) in enumerate(cases()):
        full = (*q.shape[:3], k.shape[2])
        for shared in ((), (0,), (0, 1), (2,), (0, 1, 2)):
            shape = tuple(1 if d in shared else e for d, e in enumerate(full))
            bias = normal(90 + n, shape, kind)
            if bias.size:
                bias[..., 0] = -np.inf
            yield kind, q, k, v, do, keep, params, bias, shared


def linked_bias():
    for kind, q, k, v, _, keep, params, bias, _ in bias_cases():
        got = run("attention_forward", params, {"q": q, "k": k, "v": v, "bias": bias},
                  forward_outputs(q, v, kind),
                  {"scale": SCALE, "window_left": -1, "window_right": -1}, with_files=["bias"])
        o, lse, _ = forward(q, k, v, SCALE, keep, bias)
        check_forward(f"{bias.shape} {params}", got, o, lse, kind)


def linked_bias_by_default_blocks():
    """Tiles of a captured bias for the blocks of a GPU: whole and partial tiles, rows that begin at odd
    elements, extents of 1, and -inf, which masks."""
    b, h, sq = 1, 2, 150
    for n, (kind, d, sk, causal, shared) in enumerate((
            ("f16", 64, 400, "none", ()), ("f16", 64, 400, "bottom_right", (1,)),
            ("bf16", 128, 400, "none", (2,)), ("f16", 128, 393, "none", ()),
            ("f16", 64, 160, "none", (0, 1, 3)), ("f32", 32, 200, "none", ()))):
        q, k, v, do = tensors(70 + n, kind, b, h, 1, sq, sk, d)
        shape = tuple(1 if axis in shared else e for axis, e in enumerate((b, h, sq, sk)))
        bias = normal(80 + n, shape, kind)
        bias[:, :, ::7, 3 % shape[3]] = -np.inf
        keep = keep_mask(sq, sk, causal)
        params = {"T": kind, "D": d, "CAUSAL": causal}
        scalars = {"scale": SCALE, "window_left": -1, "window_right": -1}
        got = run("attention_forward", params, {"q": q, "k": k, "v": v, "bias": bias},
                  forward_outputs(q, v, kind), scalars, with_files=["bias"])
        o, lse, _ = forward(q, k, v, SCALE, keep, bias)
        check_forward(f"{bias.shape} {params}", got, o, lse, kind)
        if n % 2 or d == 128:
            continue
        got = run("attention_backward", {**params, "CAPTURE_GRADIENTS": "true"},
                  {"q": q, "k": k, "v": v, "o": round_to(o, kind), "do": do, "lse": lse,
                   "bias": bias},
                  {**gradients(q, k, v, kind), "d_bias": (shape, "f32")}, scalars,
                  with_files=["bias"], entry=("program", "attention_backward"),
                  kinds={"lse": "f32"})
        *wanted, ds = backward(q, k, v, do, SCALE, keep, bias)
        check_gradients(f"{bias.shape} {params}", got, wanted, kind)
        terms = np.abs(ds).sum(axis=shared, keepdims=True)
        compare(f"{bias.shape} {params} d_bias", got["d_bias"],
                ds.sum(axis=shared, keepdims=True), kind, TOLERANCE[kind] * (1 + terms))


def linked_bias_copied():
    """The same through tensor maps (a device with roles): blocks that end beyond the bias, rows of -inf, two heads of Q
    per head of K, and a bias shared by all sequences."""
    for n, (kind, d, sq, sk, causal, batch) in enumerate((
            ("f16", 64, 150, 400, "none", 2), ("bf16", 64, 150, 400, "bottom_right", 1),
            ("f16", 128, 200, 264, "none", 1), ("bf16", 128, 70, 136, "top_left", 1))):
        q, k, v, _ = tensors(170 + n, kind, 2, 2, 1, sq, sk, d)
        bias = normal(180 + n, (batch, 2, sq, sk), kind)
        bias[:, :, ::7, 3] = bias[:, 0, 5] = -np.inf
        got = run("attention_forward", {"T": kind, "D": d, "CAUSAL": causal},
                  {"q": q, "k": k, "v": v, "bias": bias}, forward_outputs(q, v, kind),
                  {"scale": SCALE, "window_left": -1, "window_right": -1}, with_files=["bias"],
                  extra=["--schedule=copy_captures=1"])
        o, lse, _ = forward(q, k, v, SCALE, keep_mask(sq, sk, causal), bias)
        check_forward(f"{bias.shape} D {d} {causal}", got, o, lse, kind)


def score_gradient():
    for kind, q, k, v, do, keep, params, bias, shared in bias_cases():
        o, lse, _ = forward(q, k, v, SCALE, keep, bias)
        got = run("attention_backward", {**params, "SCORE_GRADIENT": "true"},
                  {"q": q, "k": k, "v": v, "o": round_to(o, kind), "do": do, "lse": lse,
                   "bias": bias},
                  {**gradients(q, k, v, kind), "d_score": (bias.shape, lse_kind(kind))},
                  {"scale": SCALE}, with_files=["bias"], entry=("program", "attention_backward"),
                  kinds={"lse": lse_kind(kind)})
        *wanted, ds = backward(q, k, v, do, SCALE, keep, bias)
        check_gradients(f"{bias.shape} {params}", got, wanted, kind)
        compare("d_score", got["d_score"], ds.sum(axis=shared, keepdims=True), kind)


def attention_backward_saved_probs():
    for kind, q, k, v, do, keep, params in cases():
        o, _, p = forward(q, k, v, SCALE, keep)
        params = {name: value for name, value in params.items() if name != "CAUSAL"}
        got = run("attention_backward_saved_probs", params,
                  {"q": q, "k": k, "v": v, "o": round_to(o, kind), "do": do, "p": round_to(p, kind)},
                  gradients(q, k, v, kind), {"scale": SCALE},
                  entry=("program", "attention_backward_saved_probs"))
        check_gradients(str(params), got, backward(q, k, v, do, SCALE, keep), kind)


def fp8_forward():
    for kind, causal in (("e4m3", "none"), ("e4m3", "bottom_right"), ("e5m2", "top_left")):
        q, k, v, _ = tensors(60, kind, 1, 4, 2, 45, 90, 40, 64)
        descales = {"q_descale": 0.5, "k_descale": 1.5, "v_descale": 2.0}
        got = run("attention_forward",
                  {"D": 40, "DV": 64, "T": kind, "TO": "f32", "CAUSAL": causal, **BLOCKS},
                  {"q": q, "k": k, "v": v,
                   **{name: np.array([value]) for name, value in descales.items()}},
                  {"o": (q.shape[:3] + v.shape[3:], "f32"), "lse": (q.shape[:3], "f32")},
                  {"scale": SCALE}, kinds={name: "f32" for name in descales})
        o, lse, p = forward(0.5 * q, 1.5 * k, 2.0 * v, SCALE, keep_mask(45, 90, causal))
        # P is rounded to the type: half a unit in the last place of each term, and half the smallest number, to which P
        # is rounded after multiplication by 256.
        bits, smallest = {"e4m3": (3, 2.0**-9), "e5m2": (2, 2.0**-16)}[kind]
        magnitude = np.abs(np.repeat(2.0 * v, 2, axis=1))
        half_place = 2.0 ** -(bits + 1)
        allowed = half_place * p @ magnitude + smallest / 512 * magnitude.sum(axis=2, keepdims=True)
        compare(f"{kind} o", got["o"], o, kind, 1e-5 + allowed)
        compare(f"{kind} lse", got["lse"], lse, "f32")


def differential_attention():
    lambdas = normal(7, (4,), "f32")
    # kind, batch, heads, kv_heads, queries, keys, width, v_width, causal
    for n, (kind, b, h, hk, sq, sk, d, dv, causal) in enumerate((
            ("f64", 2, 4, 2, 37, 53, 12, 40, "none"), ("f64", 1, 2, 1, 65, 33, 19, 19, "bottom_right"),
            ("f32", 1, 3, 3, 1, 70, 64, 64, "top_left"), ("f16", 1, 2, 2, 40, 40, 32, 64, "bottom_right"),
            ("bf16", 1, 2, 1, 70, 90, 16, 32, "top_left"), ("f64", 1, 2, 2, 5, 0, 16, 16, "none"),
            ("f32", 1, 2, 2, 0, 5, 16, 16, "none"))):
        q1, k1, v, _ = tensors(10 * n, kind, b, h, hk, sq, sk, d, dv)
        q2, k2 = tensors(10 * n + 5, kind, b, h, hk, sq, sk, d, dv)[:2]
        check_differential({"T": kind, "D": d, "DV": dv, "CAUSAL": causal, **BLOCKS, "BLOCK_V": 32},
                           q1, q2, k1, k2, v, lambdas[:h])


def differential_attention_by_default_blocks():
    """Large sizes, whose four products overlap on a GPU; values in one piece, and in two."""
    for kind, d, dv, causal in (("f16", 64, 128, "none"), ("bf16", 64, 64, "top_left"),
                                ("f16", 32, 200, "bottom_right")):
        q1, k1, v, _ = tensors(80, kind, 1, 2, 1, 150, 280, d, dv)
        q2, k2 = tensors(85, kind, 1, 2, 1, 150, 280, d, dv)[:2]
        check_differential({"T": kind, "D": d, "DV": dv, "CAUSAL": causal}, q1, q2, k1, k2, v,
                           normal(7, (2,), "f32"))


def check_differential(params, q1, q2, k1, k2, v, lambdas):
    kind = params["T"]
    got = run("differential_attention", params,
              {"q1": q1, "q2": q2, "k1": k1, "k2": k2, "v": v, "lambda": lambdas},
              {"o": (q1.shape[:3] + v.shape[3:], kind)}, {"scale": SCALE}, kinds={"lambda": "f32"})
    keep = keep_mask(q1.shape[2], k1.shape[2], params["CAUSAL"])
    wanted = differential(q1, q2, k1, k2, v, lambdas, SCALE, keep)
    compare(str(params), got["o"], wanted, kind)


def linear_attention():
    # kind, batch, heads, rows, width, v_width, blocks, whether there are states
    for n, (kind, b, h, rows, d, dv, blocks, states) in enumerate((
            ("f64", 2, 3, 77, 24, 40, (32, 32), True), ("f64", 1, 2, 64, 16, 16, (32, 16), False),
            ("f32", 1, 2, 50, 70, 19, (16, 32), True), ("f16", 1, 2, 70, 32, 32, (32, 32), True),
            ("bf16", 1, 2, 40, 16, 48, (32, 32), False), ("f64", 2, 1, 0, 8, 16, (16, 16), True),
            ("f32", 0, 2, 30, 8, 8, (16, 16), False))):
        check_linear({"T": kind, "D": d, "DV": dv, "BLOCK_N": blocks[0], "BLOCK_V": blocks[1]},
                     100 + 10 * n, (b, h, rows), states)


def linear_attention_by_default_blocks():
    """Large sizes, whose state reaches the next chunk through shared memory on a GPU."""
    for kind, d, dv, blocks in (("f16", 128, 128, {}), ("bf16", 128, 72, {}), ("f16", 96, 64, {}),
                                ("f16", 192, 32, {"BLOCK_N": 128}), ("f16", 128, 128, {"BLOCK_V": 128}),
                                ("f16", 64, 64, {})):
        check_linear({"T": kind, "D": d, "DV": dv, **blocks}, 200, (1, 2, 400), dv != 72)


def check_linear(params, seed, outer, states):
    kind, d, dv = params["T"], params["D"], params["DV"]
    acc = lse_kind(kind)
    q, k = (normal(seed + i, outer + (d,), kind) for i in range(2))
    v = normal(seed + 2, outer + (dv,), kind)
    first = normal(seed + 3, outer[:2] + (d, dv), acc) if states else np.zeros(outer[:2] + (d, dv))
    outputs = {"o": (v.shape, kind), **({"state_out": (first.shape, acc)} if states else {})}
    got = run("linear_attention", params,
              {"q": q, "k": k, "v": v, **({"state_in": first} if states else {})}, outputs,
              {"scale": SCALE}, kinds={"state_in": acc})
    o, last, magnitude = linear(q, k, v, first, SCALE)
    # Terms of both signs cancel, and the state and P are rounded to the type, so the error is relative to the terms.
    compare(f"{params} o", got["o"], o, kind, TOLERANCE[kind] * (1 + magnitude))
    if states:
        compare(f"{params} state", got["state_out"], last, acc,
                TOLERANCE[acc] * (1 + np.abs(first) + np.abs(np.swapaxes(k, -1, -2)) @ np.abs(v)))


ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}


def matmul():
    blocks = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16}
    sizes = ((70, 33, 50), (1, 64, 16), (5, 7, 0))
    for kind, name, (m, n, depth), with_bias in (
        ("f64", "none", sizes[0], False), ("f64", "gelu_tanh", sizes[0], True),
        ("f64", "silu", sizes[1], True), ("f32", "relu", sizes[0], True),
        ("f16", "none", sizes[0], True), ("f64", "relu", sizes[2], True),
    ):
        a, b = normal(1, (m, depth), kind), normal(2, (depth, n), kind)
        bias = normal(3, (n,), kind)
        arrays = {"a": a, "b": b, **({"bias": bias} if with_bias else {})}
        got = run("matmul", {"T": kind, "ACTIVATION": name, **blocks}, arrays,
                  {"c": ((m, n), kind)}, {"alpha": 0.25})
        x = 0.25 * a @ b + (bias if with_bias else 0)
        compare(f"{name} {m}x{n}x{depth} {kind}", got["c"], ACTIVATIONS[name](x), kind)


def swiglu():
    blocks = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16}
    sizes = ((70, 33, 50), (1, 64, 16), (5, 7, 0), (0, 3, 4))
    for n, (kind, name, size, transposed) in enumerate((
            ("f64", "silu", sizes[0], False), ("f64", "gelu_tanh", sizes[0], True),
            ("f32", "silu", sizes[0], True), ("f32", "relu", sizes[1], False),
            ("f16", "sigmoid", sizes[0], False), ("bf16", "none", sizes[0], True),
            ("f64", "silu", sizes[2], True), ("f32", "silu", sizes[3], False))):
        check_swiglu({"T": kind, "ACTIVATION": name, "TRANSPOSED": str(transposed).lower(), **blocks},
                     300 + 10 * n, size)


def swiglu_by_default_blocks():
    """Large sizes, whose products stay in flight while the next are issued on a GPU."""
    for kind, transposed, size in (("f16", "false", (300, 264, 328)), ("bf16", "true", (130, 392, 200)),
                                   ("bf16", "false", (8, 16, 8))):
        check_swiglu({"T": kind, "TRANSPOSED": transposed}, 400, size)


def check_swiglu(params, seed, size):
    kind, (m, n, depth) = params["T"], size
    x = normal(seed, (m, depth), kind)
    gate, up = (round_to(normal(seed + i, (depth, n), kind) / max(depth, 1) ** 0.5, kind) for i in (1, 2))
    is_turned = params["TRANSPOSED"] == "true"
    got = run("swiglu", params,
              {"x": x, **{name: w.T if is_turned else w for name, w in (("w_gate", gate), ("w_up", up))}},
              {"y": ((m, n), kind)})
    wanted = ACTIVATIONS[params.get("ACTIVATION", "silu")](x @ gate) * (x @ up)
    compare(f"{params} {size}", got["y"], wanted, kind)


def row_softmax():
    for kind, rows, columns, scale in (("f64", 5, 70, 1.0), ("f32", 3, 1, -2.0),
                                       ("f16", 4, 300, 0.5), ("f64", 2, 128, 0.25)):
        x = 3 * normal(4, (rows, columns), kind)
        x = round_to(x, kind)
        x[1] = -np.inf
        if scale < 0:
            x[1] = 0
        got = run("row_softmax", {"T": kind, "BLOCK_M": 2, "BLOCK_N": 64}, {"x": x},
                  {"y": (x.shape, kind)}, {"scale": scale})
        e = np.exp(scale * x - np.where(np.isinf(x), 0, scale * x).max(axis=1, keepdims=True))
        total = e.sum(axis=1, keepdims=True)
        compare(f"{rows}x{columns} {kind}", got["y"], e / np.where(total == 0, 1, total), kind)


def layer_norm():
    for kind, rows, columns, present in (("f64", 7, 50, True), ("f32", 3, 8, False),
                                         ("f16", 5, 129, True), ("f64", 1, 1, True)):
        x = round_to(normal(6, (rows, columns), kind) + 3, kind)
        weight, bias = normal(7, (columns,), kind), normal(8, (columns,), kind)
        arrays = {"x": x, **({"weight": weight, "bias": bias} if present else {})}
        statistics = (rows,), lse_kind(kind)
        got = run("layer_norm", {"T": kind, "N": columns}, arrays,
                  {"y": (x.shape, kind), "mean": statistics, "rstd": statistics}, {"eps": 0.125})
        mean = x.mean(axis=1)
        rstd = 1 / np.sqrt(((x - mean[:, None]) ** 2).mean(axis=1) + 0.125)
        y = (x - mean[:, None]) * rstd[:, None]
        what = f"{rows}x{columns} {kind} "
        compare(what + "y", got["y"], y * weight + bias if present else y, kind)
        compare(what + "mean", got["mean"], mean, statistics[1])
        compare(what + "rstd", got["rstd"], rstd, statistics[1])


def shifted_blocks():
    """Loads that begin before an array, in a kernel in this folder."""
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shifted_blocks")
    random = np.random.default_rng(3)
    for rows, width in ((5, 32), (100, 64), (130, 32)):
        x, w = (random.integers(-3, 4, shape).astype(np.float64) for shape in ((rows, width), (rows,)))
        got = run(file, {"D": width}, {"x": x, "w": w}, {"y": ((width, width), "f32")},
                  entry=("kernel", "shifted_blocks"), kinds={"x": "f16", "w": "f32"})
        compare(f"{rows} rows of {width}", got["y"], x.T @ (w[:, None] * x), "f32")


if __name__ == "__main__":
    names = sys.argv[1:]
    for i, name in enumerate(names):
        with Progress(lambda: f"check: {name}, {i + 1} of {len(names)}"):
            globals()[name]()
        finish(name)
