# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Other layers than softmax attention.

import os

import numpy as np

from corpus.cases import BLOCKS, SCALE, lse_kind, tensors
from harness import TOLERANCE, compare, normal, round_to, run
from reference import (differential, gated_delta_rule as delta_rule, gated_delta_rule_backward as delta_rule_backward,
                       keep_mask, linear)


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


# kind, batch, heads, key heads, rows, width, v_width, blocks, whether there are states, whether keys are alike
DELTA_CASES = (
    ("f64", 2, 4, 2, 77, 24, 40, (32, 32), True, False), ("f64", 1, 2, 2, 64, 16, 16, (16, 16), False, True),
    ("f32", 1, 3, 1, 50, 70, 19, (16, 32), True, False), ("f16", 1, 2, 2, 70, 32, 32, (32, 32), True, False),
    ("bf16", 1, 2, 1, 40, 16, 48, (32, 32), False, False), ("f64", 2, 1, 1, 0, 8, 16, (16, 16), True, False),
    ("f32", 0, 2, 1, 30, 8, 8, (16, 16), False, False), ("f32", 1, 1, 1, 100, 16, 16, (64, 16), True, True))


def gated_delta_rule():
    for n, (kind, b, h, hk, rows, d, dv, blocks, states, alike) in enumerate(DELTA_CASES):
        check_delta({"T": kind, "D": d, "DV": dv, "BLOCK_N": blocks[0], "BLOCK_V": blocks[1]}, 800 + 10 * n,
                    (b, h, hk, rows), states, alike)


def gated_delta_rule_by_default_blocks():
    for kind, d, dv, alike in (("f16", 128, 128, False), ("bf16", 128, 72, False), ("f16", 64, 64, True)):
        check_delta({"T": kind, "D": d, "DV": dv}, 900, (1, 2, 1, 200), dv != 72, alike)


def gated_delta_rule_backward():
    check_delta_differences()
    for n, (kind, b, h, hk, rows, d, dv, blocks, states, alike) in enumerate(DELTA_CASES):
        check_delta_backward({"T": kind, "D": d, "DV": dv, "BLOCK_N": blocks[0], "BLOCK_V": blocks[1]}, 800 + 10 * n,
                             (b, h, hk, rows), states, alike)


def gated_delta_rule_backward_by_default_blocks():
    for kind, d, dv, alike in (("f16", 128, 128, False), ("bf16", 128, 72, False), ("f16", 64, 64, True)):
        check_delta_backward({"T": kind, "D": d, "DV": dv}, 900, (1, 2, 1, 100), dv != 72, alike)


def delta_arrays(kind, seed, sizes, d, dv, states, alike):
    """Keys that are alike are the hardest case: the matrix of a chunk then has ones everywhere below its diagonal."""
    b, h, hk, rows = sizes
    acc = lse_kind(kind)
    q, k = (normal(seed + i, (b, hk, 1 if alike and i else rows, d), kind) for i in range(2))
    k = np.broadcast_to(round_to(k / np.sqrt((k**2).sum(-1, keepdims=True) + 1e-6), kind), q.shape)
    v = normal(seed + 2, (b, h, rows, dv), kind)
    random = np.random.default_rng(seed + 3)
    g = np.zeros((b, h, rows)) if alike else round_to(-0.2 * random.random((b, h, rows)) ** 2, acc)
    beta = np.ones((b, h, rows)) if alike else round_to(random.random((b, h, rows)), acc)
    first = normal(seed + 4, (b, h, d, dv), acc) if states else np.zeros((b, h, d, dv))
    return q, k, v, g, beta, first


def check_delta_differences():
    """The reference of the gradients agrees with differences of the forward's."""
    random = np.random.default_rng(1000)
    arrays = dict(zip(("dq", "dk", "dv", "dg", "dbeta", "dstate_in"),
                      delta_arrays("f64", 1001, (1, 2, 1, 9), 5, 3, True, False)))
    do, dstate = normal(1002, arrays["dv"].shape, "f64"), normal(1003, arrays["dstate_in"].shape, "f64")

    def loss(arrays):
        o, last, _, _ = delta_rule(*arrays.values(), SCALE)
        return (o * do).sum() + (last * dstate).sum()

    grads, _ = delta_rule_backward(*arrays.values(), do, dstate, SCALE)
    step = 1e-4
    for name, x in arrays.items():
        direction = random.standard_normal(x.shape)
        above, below = (loss({**arrays, name: x + sign * step * direction}) for sign in (1, -1))
        difference = (above - below) / (2 * step)
        assert abs((grads[name] * direction).sum() - difference) < 1e-6 * (1 + abs(difference)), name


def check_delta_backward(params, seed, sizes, states, alike):
    kind, d, dv = params["T"], params["D"], params["DV"]
    acc = lse_kind(kind)
    q, k, v, g, beta, first = delta_arrays(kind, seed, sizes, d, dv, states, alike)
    do = normal(seed + 5, v.shape, kind)
    dlast = normal(seed + 6, first.shape, acc) if states else np.zeros(first.shape)
    outputs = {"dq": (q.shape, kind), "dk": (k.shape, kind), "dv": (v.shape, kind), "dg": (g.shape, acc),
               "dbeta": (beta.shape, acc), **({"dstate_in": (first.shape, acc)} if states else {})}
    got = run("gated_delta_rule_backward", params,
              {"q": q, "k": k, "v": v, "g": g, "beta": beta, "do": do,
               **({"state_in": first, "dstate_out": dlast} if states else {})}, outputs, {"scale": SCALE},
              entry=("program", "gated_delta_rule_backward"),
              kinds={"g": acc, "beta": acc, "state_in": acc, "dstate_out": acc})
    grads, terms = delta_rule_backward(q, k, v, g, beta, first, do, dlast, SCALE)
    # Every value is a sum of terms that are rounded to the type. Those of a decay are sums over all rows behind it, of
    # which a chunk adds and subtracts some.
    terms["dg"] = np.flip(np.flip(terms["dg"], -1).cumsum(-1), -1) if terms["dg"].size else terms["dg"]
    for name in outputs:
        compare(f"{params} {name}", got[name], grads[name], kind, TOLERANCE[kind] * (1 + terms[name]))


def check_delta(params, seed, sizes, states, alike):
    kind, d, dv = params["T"], params["D"], params["DV"]
    acc = lse_kind(kind)
    q, k, v, g, beta, first = delta_arrays(kind, seed, sizes, d, dv, states, alike)
    outputs = {"o": (v.shape, kind), **({"state_out": (first.shape, acc)} if states else {})}
    got = run("gated_delta_rule", params,
              {"q": q, "k": k, "v": v, "g": g, "beta": beta, **({"state_in": first} if states else {})}, outputs,
              {"scale": SCALE}, entry=("program", "gated_delta_rule"),
              kinds={"g": acc, "beta": acc, "state_in": acc})
    o, last, of_o, of_last = delta_rule(q, k, v, g, beta, first, SCALE)
    # As in check_linear. The state is a sum of terms that are rounded to the type, too.
    compare(f"{params} o", got["o"], o, kind, TOLERANCE[kind] * (1 + of_o))
    if states:
        compare(f"{params} state", got["state_out"], last, kind, TOLERANCE[kind] * (1 + of_last))


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


def rms_norm():
    # kind, kind of y, rows, columns, whether there are a residual, a weight and further results
    for n, (kind, y_kind, rows, columns, present) in enumerate((
            ("f64", "f64", 7, 50, True), ("f32", "f32", 3, 8, False), ("f16", "f16", 5, 129, True),
            ("bf16", "f32", 2, 300, True), ("f64", "f64", 1, 1, True), ("f32", "f32", 0, 5, True),
            ("bf16", "e4m3", 9, 300, True), ("f16", "e5m2", 3, 40, False), ("f32", "e4m3", 1, 1, True))):
        x, residual = (round_to(normal(500 + 10 * n + i, (rows, columns), kind) + i, kind) for i in range(2))
        weight = normal(505 + 10 * n, (columns,), kind)
        x[1:2] = 0  # a row of zeros
        residual[1:2] = 0
        is_quantized = y_kind in ("e4m3", "e5m2")
        acc = lse_kind(kind)
        outputs = {"y": (x.shape, y_kind), **({"scales": ((rows,), "f32")} if is_quantized else {}),
                   **({"sum": (x.shape, kind), "rstd": ((rows,), acc)} if present else {})}
        got = run("rms_norm", {"T": kind, "TY": y_kind, "N": columns},
                  {"x": x, **({"residual": residual, "weight": weight} if present else {})}, outputs, {"eps": 0.125})
        total = round_to(x + residual, kind) if present else x
        rstd = 1 / np.sqrt((total**2).mean(axis=1) + 0.125)
        y = total * rstd[:, None] * (weight if present else 1)
        what = f"{rows}x{columns} {kind} {y_kind} "
        if present:
            compare(what + "sum", got["sum"], total, kind, 0)
            compare(what + "rstd", got["rstd"], rstd, acc)
        if is_quantized:
            limit, steps = {"e4m3": (448, 8), "e5m2": (57344, 4)}[y_kind]
            scales = np.maximum(np.abs(y).max(axis=1) / limit, 2.0**-126)
            compare(what + "scales", got["scales"] / scales, np.ones(rows), "f32")
            # Half of the distance of values, or of those below the least normal one.
            y = y / scales[:, None]
            allowed = np.maximum(np.abs(y), {"e4m3": 2.0**-6, "e5m2": 2.0**-14}[y_kind]) / steps / 2 * 1.001
            compare(what + "y", got["y"], y, y_kind, allowed)
            if rows and not np.all((np.abs(got["y"]).max(axis=1) == limit) | (y == 0).all(axis=1)):
                raise SystemExit(what + "the largest of a row must be the largest of its type")
        else:
            compare(what + "y", got["y"], y, y_kind)


def grouped_matmul():
    blocks = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16}
    # kind, kind of c, transposed, numbers of rows of the experts, rows behind them, columns, depth
    for n, (kind, c_kind, transposed, counts, behind, columns, depth) in enumerate((
            ("f64", "f64", False, (33, 0, 1, 70, 32), 0, 33, 50), ("f32", "f32", True, (0, 0, 40), 5, 64, 16),
            ("f16", "f16", False, (5, 3, 0, 0, 1, 100), 9, 72, 40), ("bf16", "f32", True, (64, 64), 0, 40, 24),
            ("f64", "f64", False, (0, 0), 3, 8, 8), ("f32", "f32", False, (), 0, 8, 8),
            ("f64", "f64", False, (4, 2), 0, 8, 0), ("e4m3", "f16", True, (20, 0, 17), 0, 64, 32))):
        check_grouped({"T": kind, "TC": c_kind, "TRANSPOSED": str(transposed).lower(), **blocks}, 600 + 10 * n, counts,
                      behind, columns, depth)


def grouped_matmul_by_default_blocks():
    """Several blocks for each thread block on a GPU, of experts with many rows, few and none."""
    for kind, transposed, counts in (("bf16", "true", (150, 0, 7, 260)), ("f16", "false", (128, 1, 0, 0, 130, 60))):
        check_grouped({"T": kind, "TRANSPOSED": transposed}, 700, counts, 20, 264, 200)


def check_grouped(params, seed, counts, behind, columns, depth):
    kind, c_kind = params["T"], params.get("TC", params["T"])
    ends = np.cumsum(counts, dtype=np.int32)
    rows = int(sum(counts)) + behind
    a = normal(seed, (rows, depth), kind)
    b = round_to(normal(seed + 1, (len(counts), depth, columns), kind) / max(depth, 1) ** 0.5, kind)
    is_turned = params["TRANSPOSED"] == "true"
    got = run("grouped_matmul", params, {"a": a, "b": np.swapaxes(b, 1, 2) if is_turned else b, "ends": ends},
              {"c": ((rows, columns), c_kind)})
    used = rows - behind
    wanted = np.zeros((used, columns))
    for e, end in enumerate(ends):
        begin = ends[e - 1] if e else 0
        wanted[begin:end] = a[begin:end] @ b[e]
    compare(f"{params} {counts}", got["c"][:used], wanted, c_kind)


def int4_matmul():
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32}
    # kind, rows, columns, depth, rows of a group, whether there are zeros
    for n, (kind, rows, columns, depth, group, with_zeros) in enumerate((
            ("f16", 40, 70, 512, 128, False), ("bf16", 5, 33, 700, 64, True), ("f16", 1, 64, 100, 256, True),
            ("bf16", 3, 8, 0, 128, False))):
        check_int4({"T": kind, "SCALE_ROWS": group, **blocks}, 1000 + 10 * n, rows, columns, depth, with_zeros)


def int4_matmul_by_default_blocks():
    for kind, rows, columns, depth in (("bf16", 70, 136, 1100), ("f16", 64, 64, 512)):
        check_int4({"T": kind}, 1100, rows, columns, depth, kind == "bf16")


def int4_matmul_with_roles():
    for kind, rows, columns, depth in (("bf16", 70, 136, 1100), ("f16", 64, 64, 512)):
        check_int4({"T": kind, "BLOCK_N": 128}, 1100, rows, columns, depth, kind == "bf16")


def int4_matmul_shares():
    """Parts of K in instances of their own."""
    for shares in (2, 3):
        check_int4({"T": "bf16"}, 1200, 70, 136, 1100, True, extra=[f"--sums=shares={shares}"])


def check_int4(params, seed, rows, columns, depth, with_zeros, extra=()):
    kind, group = params["T"], params.get("SCALE_ROWS", 128)
    a = normal(seed, (rows, depth), kind)
    groups, chunks = -(-depth // group), -(-depth // 512)
    scales = round_to(normal(seed + 1, (groups, columns), kind) / max(depth, 1) ** 0.5 / 4, kind)
    random = np.random.default_rng(seed + 2)
    digits = random.integers(0, 16, (512 * chunks, columns))
    parts = digits.reshape(chunks, 8, 64, columns)
    words = np.zeros((chunks, 64, columns), np.uint32)
    for j in range(8):
        words |= (parts[:, j] << 4 * j).astype(np.uint32)
    zeros = random.integers(0, 16, (groups, columns)).astype(np.float64)
    arrays = {"a": a, "packed": words.reshape(64 * chunks, columns).view(np.int32), "scales": scales}
    got = run("int4_matmul", params, {**arrays, **({"zeros": zeros} if with_zeros else {})},
              {"c": ((rows, columns), kind)}, extra=extra)
    each = np.arange(depth) // group
    b = round_to(scales[each] * (digits[:depth] - (zeros[each] if with_zeros else 8)), kind)
    compare(f"{params} {rows}x{columns}x{depth}", got["c"], a @ b, kind)


def shifted_blocks():
    """Loads that begin before an array, in a kernel in the folder of the inputs."""
    file = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "shifted_blocks")
    random = np.random.default_rng(3)
    for rows, width in ((5, 32), (100, 64), (130, 32)):
        x, w = (random.integers(-3, 4, shape).astype(np.float64) for shape in ((rows, width), (rows,)))
        got = run(file, {"D": width}, {"x": x, "w": w}, {"y": ((width, width), "f32")},
                  entry=("kernel", "shifted_blocks"), kinds={"x": "f16", "w": "f32"})
        compare(f"{rows} rows of {width}", got["y"], x.T @ (w[:, None] * x), "f32")
