# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention whose rows are distributed over ranks (tilewright.distributed): forward and backward. Along the lines of a grid of ranks,
heads are exchanged for rows (tilewright.head_exchange); along its columns, keys pass around a ring (tilewright.rings) or are gathered
(tilewright.gathers). With one line, that is an exchange of heads alone; with one column, a ring or a gathering alone."""

import torch

from tilewright import gathers, rings
from tilewright.exchange import Exchange
from tilewright.head_exchange import HeadExchange
from tilewright.launches import add_terms, launch_backward, launch_forward, like, lists_of_heads, place_of
from tilewright.ops import sum_type

SINKS = "sinks"  # the capture of mods/sink.mlir


# ----------------------------------------------------------------------------------------------------------------------
# What a rank computes for its heads


def _place_of_heads(call, heads):
    return place_of(first_head=heads[0], diagonal=0 if call.packed else call.shift) if call.modifier else None


def _forward_of_heads(call, q, k, v, more, heads, o, lse):
    if call.layout.is_alone:
        launch_forward(call, q, k, v, lists_of_heads(more, heads), _place_of_heads(call, heads), o, lse, packed=call.packed)
    elif call.layout.at_once:
        gathers.forward(call, q, k, v, more, o, lse)
    else:
        rings.forward(call, q, k, v, more, heads, o, lse)


def _backward_of_heads(call, do, dlse, q, k, v, o, lse, more, wanted, heads, gradients):
    """Writes `gradients`, and returns those of captures."""
    if call.layout.is_alone:
        return launch_backward(call, do, dlse, q, k, v, o, lse, lists_of_heads(more, heads), wanted, _place_of_heads(call, heads), gradients,
                               packed=call.packed)
    others = [name for name in wanted if name != SINKS]
    if call.layout.at_once:
        captured = gathers.backward(call, do, dlse, q, k, v, o, lse, more, others, gradients)
    else:
        captured = rings.backward(call, do, dlse, q, k, v, o, lse, more, others, heads, gradients)
    if SINKS in wanted:
        captured[SINKS] = _sinks_gradient(do, dlse, o, lse, more[SINKS], heads)
    return captured


def _sinks_gradient(do, dlse, o, lse, sinks, heads):
    """The gradient of sinks, which depends on O and LSE alone: that of -p delta, where p is the probability of the sink."""
    kind = lse.dtype
    delta = (o.to(kind) * do.to(kind)).sum(3)
    delta = delta if dlse is None else delta - dlse
    logits = sinks.to(kind)[heads[0]:heads[1], None]
    p = torch.where(logits > -torch.inf, torch.exp((logits - lse).clamp(max=0)), 0)
    gradient = sinks.new_zeros(sinks.shape, dtype=kind)
    gradient[heads[0]:heads[1]] = -(p * delta).sum((0, 2))
    return gradient


# ----------------------------------------------------------------------------------------------------------------------
# The call


def forward(call, q, k, v, more):
    """O and LSE of the own rows, and what the backward reads: (q, k, v, o, lse) of each piece."""
    o, lse = like(q).empty(v.shape[3]), q.new_empty(q.shape[:3], dtype=sum_type(q))
    if call.layout.heads_size == 1:
        _forward_of_heads(call, q, k, v, more, (0, q.shape[1]), o, lse)
        return o, lse, [(q, k, v, o, lse)]
    heads = HeadExchange(call.layout)
    inputs, wait_for = heads.posted(((q, "queries"), (k, "keys"), (v, "keys")))
    saved, returns, kinds, lse_kinds = [], [], (("queries", v.shape[3]),), (("queries", 1),)
    for piece, own in enumerate(heads.plan.own):
        wait_for(piece)
        own_q = inputs[piece, 0]
        own_k, own_v = (inputs[piece, number] for number in (1, 2)) if (piece, 1) in inputs else saved[-1][1:3]
        result = heads.results(q, piece, kinds)
        own_o, own_lse = result.heads(result.fields[0]), lse.new_empty(own_q.shape[:3])
        _forward_of_heads(call, own_q, own_k, own_v, more, own.queries, own_o, own_lse)
        exchange = Exchange(call.layout.group, "return rows of heads")
        heads.spread(exchange, piece, result, kinds, (o,))
        if call.wants_lse:
            sums = heads.results(lse, piece, lse_kinds)
            sums.heads(sums.fields[0]).copy_(own_lse[..., None])
            heads.spread(exchange, piece, sums, lse_kinds, (lse[..., None],))
        returns.append(heads.post(exchange, piece, own_o))
        saved.append((own_q, own_k, own_v, own_o, own_lse))
    for exchange in returns:
        exchange.wait()
    return o, lse, saved


def backward(call, do, dlse, saved, more, wanted, likes):
    """The gradients of the own rows, of which `likes` are those of q, k and v, and those of captures, {name: sum over the own rows
    or heads}."""
    kind = do.dtype
    if call.layout.heads_size == 1:
        gradients = [each.empty() for each in likes]
        captured = _backward_of_heads(call, do, dlse, *saved[0], more, wanted, (0, do.shape[1]), gradients)
        return (*gradients, captured)
    heads, captured = HeadExchange(call.layout), {}
    inputs, wait_for = heads.posted(((do, "queries"),) + (() if dlse is None else ((dlse[..., None], "queries"),)))
    run = _add_up if heads.plan.shared else _spread
    dq, *keys = [likes[0].empty(), *(each.zeros(sum_type(do)) if heads.plan.shared else each.empty() for each in likes[1:])]
    returns = []
    for piece in range(heads.plan.count):
        wait_for(piece)
        own_dlse = inputs[piece, 1][..., 0].contiguous() if dlse is not None else None
        compute = _Piece(call, inputs[piece, 0], own_dlse, saved[piece], more, wanted, heads.plan.own[piece].queries, captured)
        exchange = Exchange(call.layout.group, "return gradients of heads")
        terms = run(heads, exchange, piece, compute, (dq, *keys), returns)
        returns.append((heads.post(exchange, piece, do), *terms))
    for exchange, terms, _ in returns:
        exchange.wait()
        for total, term in terms:
            total.add_(term)
    return (dq, *(x.to(kind) for x in keys), captured)


class _Piece:
    """What a rank computes of the backward of a piece."""

    def __init__(self, call, do, dlse, saved, more, wanted, heads, captured):
        self.arguments = call, do, dlse, *saved, more, wanted, heads
        self.captured, self.widths, self.do = captured, (saved[0].shape[3], saved[2].shape[3]), do

    def write(self, gradients):
        add_terms(self.captured, _backward_of_heads(*self.arguments, gradients))


def _spread(heads, exchange, piece, compute, totals, returns):
    """Computes a piece where each key head is of one rank and piece, and posts what others get."""
    width, value_width = compute.widths
    kinds = ("queries", width), ("keys", width), ("keys", value_width)
    groups = [(0, 1, 2)] if heads.plan.is_self else [(0,), (1, 2)]
    matrices = [heads.results(compute.do, piece, tuple(kinds[number] for number in group)) for group in groups]
    compute.write([x for matrix in matrices for x in matrix.of_fields()])
    for group, matrix in zip(groups, matrices):
        heads.spread(exchange, piece, matrix, tuple(kinds[number] for number in group), [totals[number] for number in group])
    return (), None


def _add_up(heads, exchange, piece, compute, totals, returns):
    """Computes a piece where ranks or pieces share key heads, whose terms are added in f32."""
    (width, value_width), kind = compute.widths, totals[1].dtype
    q_kinds, kinds = (("queries", width),), (("keys", width), ("keys", value_width))
    rows, keys = heads.results(compute.do, piece, q_kinds), heads.results(compute.do, piece, kinds, kind)
    own_dq = rows.heads(rows.fields[0])
    written = own_dq if kind == compute.do.dtype else own_dq.new_empty(own_dq.shape, dtype=kind)
    compute.write([written, *keys.of_fields()])
    if written is not own_dq:
        own_dq.copy_(written)
    before = returns[-1][2] if returns else None  # the sum of pieces before of the same keys
    if before is not None:
        keys.data.add_(before.data)
    is_last = heads.plan.is_last[heads.plan.column][piece]
    heads.spread(exchange, piece, rows, q_kinds, totals[:1])
    return heads.add_up(exchange, piece, keys if is_last else None, kinds, totals[1:]), None if is_last else keys
