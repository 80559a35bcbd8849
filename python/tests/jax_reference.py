# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention by its formula, in f64 of JAX, and what the tests of tilewright.jax share."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
try:
    import jax  # noqa: F401  # for the tests
except ImportError:
    raise unittest.SkipTest("no JAX") from None
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5}


def normal(*shape, seed=0, dtype="float32"):
    return jnp.asarray(numpy.random.default_rng(seed).standard_normal(shape), dtype)


def reference(q, k, v, *, causal=None, window=(-1, -1), scale=None, softcap=None, bias=None, mask=None, alibi_slopes=None, sinks=None,
              lengths=None):
    """(O, LSE) of arrays [B, H, S, D] in f32 of JAX, where causal is None, "top_left" or "bottom_right"."""
    q, k, v = (x.astype(jnp.float32) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (jnp.repeat(x, group, 1) for x in (k, v))
    s = jnp.einsum("bhid,bhjd->bhij", q, k, precision="highest") * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * jnp.tanh(s / softcap)
    if bias is not None:
        s = s + bias.astype(jnp.float32)
    rows, keys = s.shape[2:]
    i, j = jnp.arange(rows)[:, None], jnp.arange(keys)[None]
    shift = keys - rows if causal == "bottom_right" else 0
    if alibi_slopes is not None:
        s = s - alibi_slopes[None, :, None, None] * jnp.abs(i - j)
    keep = jnp.ones(s.shape, bool)
    if causal:
        keep &= j <= i + shift
    left, right = window
    keep &= (left < 0) | (j >= i + shift - left)
    keep &= (right < 0) | (j <= i + shift + right)
    if mask is not None:
        keep &= mask
    if lengths is not None:
        keep &= (i < lengths[0][:, None, None, None]) & (j < lengths[1][:, None, None, None])
    s = jnp.where(keep, s, -jnp.inf)
    if sinks is not None:
        s = jnp.concatenate([s, jnp.broadcast_to(sinks[None, :, None, None], (*s.shape[:3], 1))], -1)
    top = jnp.max(s, -1, keepdims=True)
    safe = jnp.where(jnp.isfinite(top), top, 0)
    p = jnp.exp(s - safe)
    total = p.sum(-1, keepdims=True)
    lse = jnp.where(total[..., 0] > 0, jnp.log(jnp.where(total > 0, total, 1))[..., 0] + safe[..., 0], -jnp.inf)
    p = p / jnp.where(total > 0, total, 1)
    return jnp.einsum("bhij,bhjd->bhid", p[..., :keys], v, precision="highest"), lse


def difference(got, wanted):
    """The largest difference, over the largest element."""
    got, wanted = (numpy.asarray(x, numpy.float64) for x in (got, wanted))
    if not wanted.size:
        return 0.0
    return float(numpy.abs(got - wanted).max() / max(numpy.abs(wanted).max(), 1e-9))


CASES = {
    "plain": dict(),
    "causal": dict(causal="top_left"),
    "bottom right": dict(causal="bottom_right"),
    "window, softcap": dict(window=(5, 3), softcap=4.0),
    "bias": dict(bias=(1, 4, 1, 19)),
    "mask, alibi": dict(mask=(2, 1, 13, 19), alibi_slopes=(4,)),
    "sinks, causal": dict(sinks=(4,), causal="top_left"),
}


def arguments_of(case, dtype):
    """The arguments of a case, with arrays for the shapes that it names."""
    made = dict(CASES[case])
    for name in ("bias", "alibi_slopes", "sinks"):
        if name in made:
            made[name] = normal(*made[name], seed=7, dtype=dtype if name == "bias" else "float32")
    if "alibi_slopes" in made:
        made["alibi_slopes"] = jnp.abs(made["alibi_slopes"])
    if "mask" in made:
        made["mask"] = normal(*made["mask"], seed=8) > -0.5
    return made


def operands(dtype):
    return normal(2, 4, 13, 16, dtype=dtype), normal(2, 2, 19, 16, seed=1, dtype=dtype), normal(2, 2, 19, 24, seed=2, dtype=dtype)
