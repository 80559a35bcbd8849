# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Attention without a softmax, and the backward of differential attention.

import numpy as np

from corpus.cases import BLOCKS, SCALE, cases, check_gradients, gradients, lse_kind, tensors
from harness import TOLERANCE, compare, normal, round_to, run
from reference import differential, differential_backward, keep_mask, weighted, weighted_backward

TANH = np.tanh, lambda s: 1 - np.tanh(s) ** 2
SIGMOID = (lambda s: 1 / (1 + np.exp(-s))), lambda s: np.exp(-s) / (1 + np.exp(-s)) ** 2


def tanh_attention():
    for kind, q, k, v, _, keep, params in cases():
        check_forward(params, q, k, v, keep)
    for causal, left, right in (("none", 5, 3), ("bottom_right", 7, -1), ("top_left", -1, 0)):
        q, k, v, _ = tensors(77, "f64", 1, 2, 1, 45, 70, 16)
        check_forward({"T": "f64", "D": 16, "CAUSAL": causal, "WINDOW": "true", **BLOCKS}, q, k, v,
                      keep_mask(45, 70, causal, left, right), left, right)


def tanh_attention_backward():
    for kind, q, k, v, do, keep, params in cases():
        check_backward(params, q, k, v, do, keep)
    for causal, left, right in (("none", 5, 3), ("bottom_right", 7, -1), ("top_left", -1, 0)):
        q, k, v, do = tensors(77, "f64", 1, 2, 1, 45, 70, 16)
        check_backward({"T": "f64", "D": 16, "CAUSAL": causal, "WINDOW": "true", **BLOCKS}, q, k, v, do,
                       keep_mask(45, 70, causal, left, right), left, right)


def tanh_attention_by_default_blocks():
    """Large sizes, whose blocks of keys add to dQ from a role of their own on a GPU."""
    for kind, width, v_width, heads, causal in (
            ("f16", 64, 64, (2, 1), "bottom_right"), ("bf16", 128, 128, (2, 2), "none"),
            ("f16", 40, 72, (2, 1), "top_left"), ("bf16", 96, 64, (1, 1), "none")):
        q, k, v, do = tensors(20, kind, 1, *heads, 150, 280, width, v_width)
        params = {"T": kind, "D": width, "DV": v_width, "CAUSAL": causal}
        keep = keep_mask(150, 280, causal)
        check_forward(params, q, k, v, keep)
        check_backward(params, q, k, v, do, keep)


def tanh_attention_with_a_mask():
    """A linked mask without bounds, and a linked function of the score."""
    q, k, v, do = tensors(30, "f16", 1, 2, 1, 150, 280, 64)
    of_query, of_key = np.arange(150) // 60, np.arange(280) // 60
    arrays = {"query_document": of_query[None].astype(np.int32), "key_document": of_key[None].astype(np.int32)}
    params = {"T": "f16", "D": 64, "CAUSAL": "top_left"}
    keep = keep_mask(150, 280, "top_left") & (of_query[:, None] == of_key[None, :])
    for with_files, functions in ((("document",), TANH), (("document", "sigmoid_weight"), SIGMOID)):
        more = {"arrays": arrays, "with_files": with_files, "functions": functions}
        check_forward(params, q, k, v, keep, **more)
        check_backward(params, q, k, v, do, keep, **more)


def tanh_attention_in_order():
    """Blocks of keys add to dQ in a fixed order, so results are bitwise equal for any assignment to thread blocks."""
    for width, causal, heads, sq, sk in ((64, "top_left", (2, 1), 300, 300), (128, "none", (1, 1), 150, 270),
                                         (64, "bottom_right", (1, 1), 150, 400), (128, "top_left", (2, 1), 280, 200)):
        q, k, v, do = tensors(40, "bf16", 1, *heads, sq, sk, width)
        params = {"T": "bf16", "D": width, "CAUSAL": causal, "DETERMINISTIC": "true"}
        runs = [check_backward(params, q, k, v, do, keep_mask(sq, sk, causal), extra=[f"--seed={seed}"])
                for seed in (1, 2, 3)]
        for other in runs[1:]:
            for name in other:
                compare(f"{params} {name}", other[name], runs[0][name], "bf16", allowed=0)


def tanh_gradients():
    """Derivatives along random directions, without rounding, agree with central differences of the forward."""
    exact = ["--precision=f64"]
    q, k, v, do = tensors(90, "f64", 2, 4, 2, 19, 23, 8, 12)
    for causal in ("none", "bottom_right"):
        params = {"T": "f64", "D": 8, "DV": 12, "CAUSAL": causal}

        def forward(q, k, v, params=params):
            return run("tanh_attention", params, {"q": q, "k": k, "v": v}, {"o": (do.shape, "f64")}, {"scale": 0.7},
                       extra=exact)["o"]

        got = run("tanh_attention_backward", params, {"q": q, "k": k, "v": v, "do": do}, gradients(q, k, v, "f64"),
                  {"scale": 0.7}, entry=("program", "tanh_attention_backward"), extra=exact)
        check_derivative(f"tanh {causal}", forward, [q, k, v], do, [got["dq"], got["dk"], got["dv"]])


def check_derivative(what, forward, inputs, do, gradients_of):
    step, directions = 1e-6, [normal(95 + n, x.shape, "f64") for n, x in enumerate(inputs)]
    above, below = (forward(*(x + sign * step * d for x, d in zip(inputs, directions))) for sign in (1, -1))
    derivative = sum(np.sum(g * d) for g, d in zip(gradients_of, directions))
    compare(f"{what}: derivative", derivative, np.sum(do * (above - below)) / (2 * step), "f64",
            allowed=1e-8 * max(1, abs(derivative)))


def check_forward(params, q, k, v, keep, left=-1, right=-1, arrays=None, with_files=(), functions=TANH):
    kind = params["T"]
    got = run("tanh_attention", params, {"q": q, "k": k, "v": v, **(arrays or {})},
              {"o": (q.shape[:3] + v.shape[3:], kind)},
              {"scale": SCALE, "window_left": left, "window_right": right}, with_files=with_files)
    compare(f"{params} o", got["o"], weighted(q, k, v, SCALE, functions[0], keep), kind)


def check_backward(params, q, k, v, do, keep, left=-1, right=-1, arrays=None, with_files=(), functions=TANH, extra=()):
    kind = params["T"]
    got = run("tanh_attention_backward", params, {"q": q, "k": k, "v": v, "do": do, **(arrays or {})},
              gradients(q, k, v, kind), {"scale": SCALE, "window_left": left, "window_right": right},
              entry=("program", "tanh_attention_backward"), with_files=with_files, extra=extra)
    check_gradients(str(params), got, weighted_backward(q, k, v, do, SCALE, *functions, keep), kind)
    return got


def differential_attention_saved():
    """The results that the backward reads, for values in one piece and in two."""
    for kind, d, dv, causal in (("f64", 12, 40, "bottom_right"), ("f16", 32, 200, "top_left"), ("bf16", 64, 128, "none")):
        (q, k, v, _), lambdas = pairs(60, kind, 1, 2, 1, 70, 90, d, dv), normal(7, (2,), "f32")
        keep = keep_mask(70, 90, causal)
        o2, lse, _ = differential_backward(q, k, v, np.zeros(q.shape[:1] + (2,) + q.shape[2:3] + (dv,)), lambdas, SCALE,
                                           keep)
        got = run("differential_attention", {"T": kind, "D": d, "DV": dv, "CAUSAL": causal, "SAVE": "true"},
                  {"q1": q[:, ::2], "q2": q[:, 1::2], "k1": k[:, ::2], "k2": k[:, 1::2], "v": v, "lambda": lambdas},
                  {"o": (o2.shape, kind), "o2": (o2.shape, kind), "lse": (lse.shape, lse_kind(kind))}, {"scale": SCALE},
                  kinds={"lambda": "f32"})
        compare(f"{kind} o2", got["o2"], o2, kind)
        compare(f"{kind} lse", got["lse"], lse, "f32" if kind != "f64" else kind)


def differential_attention_backward():
    # kind, batch, heads, kv_heads, queries, keys, width, v_width, causal
    for n, (kind, b, h, hk, sq, sk, d, dv, causal) in enumerate((
            ("f64", 2, 4, 2, 37, 53, 12, 40, "none"), ("f64", 1, 2, 1, 65, 33, 19, 19, "bottom_right"),
            ("f32", 1, 3, 3, 1, 70, 64, 64, "top_left"), ("f16", 1, 2, 2, 40, 40, 32, 64, "bottom_right"),
            ("f64", 1, 2, 2, 5, 0, 16, 16, "none"), ("f64", 1, 2, 2, 0, 5, 16, 16, "none"))):
        check_differential({"T": kind, "D": d, "DV": dv, "CAUSAL": causal, **BLOCKS}, 10 * n, (b, h, hk, sq, sk))
    for causal, left, right in (("none", 5, 3), ("bottom_right", 7, -1)):
        check_differential({"T": "f64", "D": 16, "DV": 24, "CAUSAL": causal, "WINDOW": "true", **BLOCKS}, 77,
                           (1, 2, 1, 45, 70), left, right)


def differential_attention_backward_by_default_blocks():
    """Large sizes, whose blocks of keys add to dQ from a role of their own on a GPU."""
    for kind, d, dv, heads, causal in (("f16", 64, 128, (2, 1), "bottom_right"), ("bf16", 64, 64, (2, 2), "none"),
                                       ("f16", 40, 72, (2, 1), "top_left"), ("bf16", 128, 128, (1, 1), "none")):
        check_differential({"T": kind, "D": d, "DV": dv, "CAUSAL": causal}, 20, (1, *heads, 150, 280))


def differential_attention_in_order():
    """Results are bitwise equal for any assignment to thread blocks."""
    for d, dv, causal, heads in ((64, 128, "top_left", (2, 1)), (64, 64, "none", (1, 1)),
                                 (128, 128, "bottom_right", (1, 1))):
        runs = [check_differential({"T": "bf16", "D": d, "DV": dv, "CAUSAL": causal, "DETERMINISTIC": "true"}, 40,
                                   (1, *heads, 150, 270), extra=[f"--seed={seed}"]) for seed in (1, 2, 3)]
        for other in runs[1:]:
            for name in other:
                compare(f"{d} {causal} {name}", other[name], runs[0][name], "bf16", allowed=0)


def backwards_with_a_kernel_for_dq():
    """A deterministic form where no addition can be in order, and wide heads: a kernel that owns queries computes dQ, by
    the text of the kernel that owns keys, of tiles that are turned."""
    for kind, width, v_width, heads, causal, deterministic in (
            ("f32", 24, 40, (2, 1), "bottom_right", "true"), ("f16", 160, 96, (2, 1), "top_left", "false"),
            ("bf16", 96, 200, (1, 1), "none", "true")):
        params = {"T": kind, "D": width, "DV": v_width, "CAUSAL": causal, "DETERMINISTIC": deterministic}
        q, k, v, do = tensors(50, kind, 1, *heads, 90, 140, width, v_width)
        check_backward(params, q, k, v, do, keep_mask(90, 140, causal))
        check_differential(params, 50, (1, *heads, 90, 140))


def differential_gradients():
    """Derivatives along random directions, without rounding, agree with central differences of the forward."""
    exact, (batch, heads, kv_heads, sq, sk, d, dv) = ["--precision=f64"], (2, 4, 2, 19, 23, 8, 12)
    (q, k, v, do), lambdas = pairs(90, "f64", batch, heads, kv_heads, sq, sk, d, dv), np.arange(-1, 3) / 8
    for causal in ("none", "bottom_right"):
        params = {"T": "f64", "D": d, "DV": dv, "CAUSAL": causal}

        def saved(q, k, v, lambdas, params=params):
            return run("differential_attention", {**params, "SAVE": "true"},
                       {"q1": q[:, ::2], "q2": q[:, 1::2], "k1": k[:, ::2], "k2": k[:, 1::2], "v": v, "lambda": lambdas},
                       {"o": (do.shape, "f64"), "o2": (do.shape, "f64"), "lse": (q.shape[:3], "f64")}, {"scale": 0.7},
                       kinds={"lambda": "f32"}, extra=exact)

        got = run("differential_attention_backward", params,
                  {"q": q, "k": k, "v": v, "lambda": lambdas, "do": do, **saved(q, k, v, lambdas)},
                  {**gradients(q, k, v, "f64"), "d_lambda": (lambdas.shape, "f32")}, {"scale": 0.7},
                  entry=("program", "differential_attention_backward"), kinds={"lambda": "f32"}, extra=exact)
        check_derivative(f"differential {causal}", lambda *x: saved(*x, lambdas)["o"], [q, k, v], do,
                         [got[name] for name in ("dq", "dk", "dv")])
        # O is linear in lambda, so that any step will do; this one is exact in f32.
        for h, step in enumerate(np.eye(heads) / 4):
            above, below = (np.sum(do * saved(q, k, v, lambdas + sign * step)["o"]) for sign in (1, -1))
            compare(f"differential {causal}: d_lambda {h}", got["d_lambda"][h], 2 * (above - below), "f32")


def pairs(seed, kind, batch, heads, kv_heads, queries, keys, width, v_width):
    """q and k of two softmaxes for each head, v and do."""
    q, k, _, _ = tensors(seed, kind, batch, 2 * heads, 2 * kv_heads, queries, keys, width)
    _, _, v, do = tensors(seed + 5, kind, batch, heads, kv_heads, queries, keys, width, v_width)
    return q, k, v, do


def check_differential(params, seed, shape, left=-1, right=-1, extra=()):
    kind, (sq, sk) = params["T"], shape[3:]
    q, k, v, do = pairs(seed, kind, *shape, params["D"], params["DV"])
    lambdas = normal(7, (shape[1],), "f32")
    keep = keep_mask(sq, sk, params["CAUSAL"], left, right)
    o2, lse, wanted = differential_backward(q, k, v, do, lambdas, SCALE, keep)
    o = differential(q[:, ::2], q[:, 1::2], k[:, ::2], k[:, 1::2], v, lambdas, SCALE, keep)
    got = run("differential_attention_backward", params,
              {"q": q, "k": k, "v": v, "o": round_to(o, kind), "o2": round_to(o2, kind), "lse": lse, "do": do,
               "lambda": lambdas},
              {**gradients(q, k, v, kind), "d_lambda": (lambdas.shape, "f32")},
              {"scale": SCALE, "window_left": left, "window_right": right},
              entry=("program", "differential_attention_backward"),
              kinds={"lambda": "f32", "lse": lse_kind(kind)}, extra=extra)
    check_gradients(str(params), got, wanted[:3], kind)
    # A sum of products of o2, whose roundings are independent.
    compare(f"{params} d_lambda", got["d_lambda"], wanted[3], "f32",
            TOLERANCE[kind if kind != "f64" else "f32"] * (1 + np.sqrt(np.sum((do * o2) ** 2))))
    return got
