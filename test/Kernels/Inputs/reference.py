# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The formulas of the kernels in float64, over whole rows.
#
# Shapes: q [B, Hq, Sq, D], k [B, Hkv, Skv, D], v [B, Hkv, Skv, DV]; keep, bias, factor broadcast
# against [B, Hq, Sq, Skv].

import numpy as np


def keep_mask(num_queries, num_keys, causal="none", left=-1, right=-1):
    """Returns the mask [Sq, Skv] of CAUSAL and WINDOW as attention_forward.mlir defines it."""
    shift = num_keys - num_queries if causal == "bottom_right" else 0
    ahead = np.arange(num_keys)[None, :] - (np.arange(num_queries)[:, None] + shift)
    keep = np.ones((num_queries, num_keys), bool)
    if causal != "none":
        keep &= ahead <= 0
    if left >= 0:
        keep &= ahead >= -left
    if right >= 0:
        keep &= ahead <= right
    return keep


def _repeat(x, heads):
    """Repeats key heads for each query head of their group."""
    return np.repeat(x, heads // x.shape[1], axis=1)


def _fold(x, like):
    """Sums over the query heads of each key head."""
    b, kv_heads, rows, width = like.shape
    return x.reshape(b, kv_heads, x.shape[1] // max(kv_heads, 1), rows, width).sum(axis=2)


def _scores(q, k, scale, keep, bias, score):
    s = scale * q @ np.swapaxes(_repeat(k, q.shape[1]), -1, -2)
    if score is not None:
        s = score(s)
    if bias is not None:
        s = s + bias
    return np.where(np.broadcast_to(keep, s.shape), s, -np.inf)


def _log_sum_exp(s):
    if s.shape[-1] == 0:
        return np.full(s.shape[:-1], -np.inf)
    top = np.max(s, axis=-1, keepdims=True)
    safe = np.where(np.isinf(top), 0, top)
    with np.errstate(divide="ignore"):
        return (np.log(np.sum(np.exp(s - safe), axis=-1, keepdims=True)) + safe)[..., 0]


def forward(q, k, v, scale, keep=True, bias=None, score=None, factor=1.0):
    """Returns o, lse and P; a row without keys has o = 0, lse = -inf, P = 0. factor: dropout."""
    s = _scores(q, k, scale, keep, bias, score)
    lse = _log_sum_exp(s)
    p = np.exp(s - np.where(np.isinf(lse), 0, lse)[..., None])
    return (factor * p) @ _repeat(v, q.shape[1]), lse, p


def differential(q1, q2, k1, k2, v, weights, scale, keep=True):
    """Returns the difference of two attentions over the same values, the second times the weight of its head."""
    second = forward(q2, k2, v, scale, keep)[0]
    return forward(q1, k1, v, scale, keep)[0] - np.asarray(weights)[:, None, None] * second


def differential_backward(q, k, v, do, weights, scale, keep=True):
    """Returns o2, lse, and dq, dk, dv and d_lambda of differential attention; heads 2 h and 2 h + 1 of q, k, lse, dq and
    dk belong to head h."""
    maps = [(q[:, x::2], k[:, x::2]) for x in range(2)]
    o2, lses, dq, dk, dv = None, [], np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    shares = (np.ones(do.shape[1]), -np.asarray(weights))
    for x, ((q_x, k_x), share) in enumerate(zip(maps, shares)):
        o2, lse, _ = forward(q_x, k_x, v, scale, keep)
        own = backward(q_x, k_x, v, share[:, None, None] * do, scale, keep)
        dq[:, x::2], dk[:, x::2] = own[:2]
        dv += own[2]
        lses.append(lse)
    lse = np.stack(lses, axis=2).reshape(q.shape[:3])
    return o2, lse, (dq, dk, dv, -np.sum(do * o2, axis=(0, 2, 3)))


def linear(q, k, v, state, scale):
    """Returns o of causal linear attention, the state after the last row, and the magnitude of the terms of o."""
    def both(q, k, v, state):
        s = np.tril(q @ np.swapaxes(k, -1, -2))
        return scale * (s @ v + q @ state), state + np.swapaxes(k, -1, -2) @ v
    o, last = both(q, k, v, state)
    return o, last, np.abs(both(*(np.abs(x) for x in (q, k, v, state)))[0])


def scores(q, k, scale):
    """Returns scale * q . k of all pairs."""
    return _scores(q, k, scale, True, None, None)


def backward(q, k, v, do, scale, keep=True, bias=None, factor=1.0, dlse=0.0, score=None,
             slope=None):
    """Returns dq, dk, dv and the gradient of the modified score; slope: the derivative of `score`."""
    heads = q.shape[1]
    o, _, p = forward(q, k, v, scale, keep, bias, score, factor)
    delta = np.sum(do * o, axis=-1) - dlse
    dp = factor * (do @ np.swapaxes(_repeat(v, heads), -1, -2))
    dt = p * (dp - delta[..., None])
    ds = dt if slope is None else dt * slope(scores(q, k, scale))
    dq = scale * ds @ _repeat(k, heads)
    dk = scale * np.swapaxes(ds, -1, -2) @ q
    dv = np.swapaxes(factor * p, -1, -2) @ do

    return dq, _fold(dk, k), _fold(dv, v), dt


def weighted(q, k, v, scale, weight, keep=True):
    """Returns o of attention without a softmax: `weight` of a score, 0 where the pair is masked."""
    w = weight(scores(q, k, scale)) * keep
    return w @ _repeat(v, q.shape[1])


def weighted_backward(q, k, v, do, scale, weight, slope, keep=True):
    """Returns dq, dk and dv of it; slope: the derivative of `weight`."""
    heads = q.shape[1]
    s = scores(q, k, scale)
    ds = slope(s) * keep * (do @ np.swapaxes(_repeat(v, heads), -1, -2))
    dk = scale * np.swapaxes(ds, -1, -2) @ q
    dv = np.swapaxes(weight(s) * keep, -1, -2) @ do
    return scale * ds @ _repeat(k, heads), _fold(dk, k), _fold(dv, v)


def philox(seed, offset, c0, c1, c2):
    """Returns the 16-bit number c0 mod 8 of Philox4x32-7 at (c0 / 8, c1, c2, offset low), key (seed low, seed high xor
    offset high): Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC11)."""
    low, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    c0, c1, c2 = np.broadcast_arrays(*(np.asarray(c).astype(np.uint64) for c in (c0, c1, c2)))
    seed, offset = int(seed) % 2**64, int(offset) % 2**64
    x = [c0 >> np.uint64(3), c1, c2, np.full_like(c0, offset % 2**32)]
    key = [np.uint64(seed % 2**32), np.uint64((seed >> 32) ^ (offset >> 32))]
    for _ in range(7):
        a = x[0] * np.uint64(0xD2511F53)
        b = x[2] * np.uint64(0xCD9E8D57)
        x = [(b >> low) ^ x[1] ^ key[0], b & mask, (a >> low) ^ x[3] ^ key[1], a & mask]
        key = [(key[0] + np.uint64(0x9E3779B9)) & mask, (key[1] + np.uint64(0xBB67AE85)) & mask]
    word = np.choose((c0 >> np.uint64(1) & np.uint64(3)).astype(np.int64), x)
    return word >> (c0 & np.uint64(1)) * np.uint64(16) & np.uint64(0xFFFF)


def dropout_factor(p, seed, offset, batch, heads, num_queries, num_keys):
    """Returns 0 for dropped pairs, else 1 / (1 - p), p in steps of 2^-16: [B, Hq, Sq, Skv]."""
    threshold = int(np.floor(np.float64(np.float32(p)) * 2.0**16))
    row = np.arange(num_queries)[:, None]
    column = np.arange(num_keys)[None, :]
    number = (column >> 4 << 5) + (column >> 1 & 3) * 8 + (row >> 3 & 1) * 4 + (column >> 3 & 1) * 2 + (column & 1)
    head = np.arange(heads)[:, None, None]
    # Each batch has a separate offset.
    bits = np.stack([philox(seed, offset + (b << 32), number, row & ~8, head) for b in range(batch)])
    return np.where(bits < np.uint64(threshold), 0.0, 2.0**16 / (2.0**16 - threshold))


def gated_delta_rule(q, k, v, g, beta, state, scale):
    """Returns O, the state after the last row, and the sums of the magnitudes of their terms."""
    group = v.shape[1] // max(q.shape[1], 1)
    q, k = (np.repeat(x, group, axis=1) for x in (q, k))
    state, terms = np.array(state), np.abs(state)
    o, of_o = np.zeros(v.shape), np.zeros(v.shape)
    for i in range(v.shape[2]):
        decay = np.exp(g[:, :, i])[..., None, None]
        key, query = k[:, :, i], q[:, :, i]
        state, terms = decay * state, decay * terms
        u = beta[:, :, i, None] * (v[:, :, i] - np.einsum("bhd,bhdv->bhv", key, state))
        change = key[..., None] * u[:, :, None]
        state, terms = state + change, terms + np.abs(change)
        o[:, :, i] = scale * np.einsum("bhd,bhdv->bhv", query, state)
        of_o[:, :, i] = abs(scale) * np.einsum("bhd,bhdv->bhv", np.abs(query), terms)
    return o, state, of_o, terms


def gated_delta_rule_backward(q, k, v, g, beta, state, do, dstate, scale):
    """Returns the gradients of q, k, v, g, beta and the first state, and the sums of the magnitudes of their terms."""
    group = v.shape[1] // max(q.shape[1], 1)
    batch, heads, rows, _ = q.shape
    q, k = (np.repeat(x, group, axis=1) for x in (q, k))
    state, terms, steps = np.array(state), np.abs(state), []
    for i in range(rows):
        decay = np.exp(g[:, :, i])[..., None, None]
        old, of_old, key = state, terms, k[:, :, i]
        left = v[:, :, i] - np.einsum("bhd,bhdv->bhv", key, decay * old)
        u = beta[:, :, i, None] * left
        change = key[..., None] * u[:, :, None]
        state, terms = decay * old + change, decay * of_old + np.abs(change)
        steps.append((decay, old, of_old, left, u, state, terms))
    names = ("dq", "dk", "dv", "dg", "dbeta")
    grads, of_grads = ({name: np.zeros(x.shape) for name, x in zip(names, (q, k, v, g, beta))} for _ in range(2))
    dstate, of_dstate = np.array(dstate), np.abs(dstate)
    for i in reversed(range(rows)):
        decay, old, of_old, left, u, new, of_new = steps[i]
        key, query, out = k[:, :, i], q[:, :, i], scale * do[:, :, i]
        dstate = dstate + query[..., None] * out[:, :, None]
        of_dstate = of_dstate + np.abs(query[..., None] * out[:, :, None])
        du = np.einsum("bhd,bhdv->bhv", key, dstate)
        of_du = np.einsum("bhd,bhdv->bhv", np.abs(key), of_dstate)
        dknown = -beta[:, :, i, None] * du
        each = {"dq": (np.einsum("bhdv,bhv->bhd", new, out), np.einsum("bhdv,bhv->bhd", of_new, np.abs(out))),
                "dk": (np.einsum("bhdv,bhv->bhd", dstate, u) + np.einsum("bhdv,bhv->bhd", decay * old, dknown),
                       np.einsum("bhdv,bhv->bhd", of_dstate, np.abs(u)) +
                       np.einsum("bhdv,bhv->bhd", decay * of_old, np.abs(dknown))),
                "dv": (-dknown, beta[:, :, i, None] * of_du),
                "dbeta": ((du * left).sum(-1), (of_du * np.abs(left)).sum(-1))}
        dstate = dstate + key[..., None] * dknown[:, :, None]
        of_dstate = of_dstate + np.abs(key[..., None] * dknown[:, :, None])
        each["dg"] = (decay * dstate * old).sum((-2, -1)), (decay * of_dstate * of_old).sum((-2, -1))
        dstate, of_dstate = decay * dstate, decay * of_dstate
        for name, (value, magnitude) in each.items():
            grads[name][:, :, i], of_grads[name][:, :, i] = value, magnitude
    for list_of in (grads, of_grads):
        for name in ("dq", "dk"):
            list_of[name] = list_of[name].reshape(batch, heads, group, rows, list_of[name].shape[-1]).sum(2)
    return {**grads, "dstate_in": dstate}, {**of_grads, "dstate_in": of_dstate}
