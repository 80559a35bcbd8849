# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Shapes, tensors and comparisons that the checks of attention kernels share.

from harness import compare, normal
from reference import keep_mask

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
