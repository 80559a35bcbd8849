# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Attention with the modifiers of kernels/mods: masks, scores, weights, and gradients of captures.

import numpy as np

from corpus.cases import (BLOCKS, SCALE, cases, check_forward, check_gradients, forward_outputs,
                          gradients, lse_kind, tensors)
from harness import TOLERANCE, compare, normal, round_to, run
from reference import backward, dropout_factor, forward, keep_mask, scores


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
    # Broadcast along any dimensions.
    for shape in (b, h, sq, sk), (1, h, 1, sk), (b, 1, sq, 1), (1, 1, 1, 1):
        bias = normal(8, shape, "f64")
        modifiers[f"bias {shape}"] = (lambda s, bias=bias: s + bias, {"bias": bias}, {})
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
    # Two words for each query; all keys of the second batch but a few are before the tree.
    bits, tree = np.random.default_rng(8).integers(-2**31, 2**31, (b, sq, 2)).astype(np.int32), np.array([13, 57], np.int32)
    place = np.maximum(j - tree[:, None, None], 0)
    is_set = np.stack([bits[n, i, place[n] // 32] >> (place[n] % 32) & 1 for n in range(b)])
    masks["tree_bits"] = (((j < tree[:, None, None]) | (is_set != 0))[:, None], {"tree_bits": bits, "tree_begin": tree}, {})
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
