# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of a rank's rows on all keys that they need (tilewright.gather_plan), which come from other ranks in pieces of heads: while
one is computed, the others are exchanged. dK and dV of others' keys return to them, and are added in f32."""

import contextlib

import torch

from tilewright.exchange import Exchange, let_begin, post_beside
from tilewright.ops import sum_type
from tilewright.rings import Arguments, Gradients, Sum, compute_forward, part
from tilewright.shares import Heads, rows_of


class _Rows:
    """Rows [rows, batch, width] of K and V, or of their gradients: a range of rows is one piece of memory, which is a message."""

    def __init__(self, rows, like, kind=None):
        """`like` are tensors [batch, heads, rows, width of a head]."""
        batch, self.heads = like[0].shape[:2]
        self.widths = [x.shape[3] for x in like]
        self.data = like[0].new_empty((rows, batch, self.heads * sum(self.widths)), dtype=kind)

    def tensors(self):
        """[batch, heads, rows, width of a head], for kernels."""
        columns = self.data.split([self.heads * width for width in self.widths], 2)
        return [x.unflatten(2, (self.heads, width)).permute(1, 2, 0, 3) for x, width in zip(columns, self.widths)]


class _Gathering:
    """Gathers K and V by two exchanges: of the first piece of heads, and of the others."""

    def __init__(self, layout, k, v, pieces):
        self.layout, self.plan, self.exchanges = layout, layout.gather, []
        self.keys = []
        for group in (pieces[:1], pieces[1:]):
            exchange = Exchange(layout.group, "exchange keys")
            for heads in group:
                self._add(exchange, [x[:, slice(*heads.keys)] for x in (k, v)])
            self.exchanges.append(exchange.post())

    def _add(self, exchange, own):
        rows = _Rows(self.plan.rows, own)
        self.keys.append(rows.tensors())
        Exchange.copy_now([(part(x, there), part(each, here)) for here, there in self.plan.own for x, each in zip(self.keys[-1], own)])
        for peer in self.plan.peers:
            rank = self.layout.rank_at(peer.place, 0)
            for begin, end in peer.sent:
                exchange.send(rows.data[begin:end], rank)
            for begin, end in peer.received:
                exchange.receive(rows.data[begin:end], rank)

    def take(self, piece, streams):
        """K and V of a piece, of all keys that the rank needs, on both streams."""
        if piece < 2:
            self.exchanges[piece].wait(streams.second)
        if piece == 0:
            if len(self.keys) > 1:
                let_begin(self.keys[0][0], self.layout.group.size, self.layout.gates)
            streams.fork()
        return self.keys[piece]


_second_streams = {}  # by device and first stream


class _Streams:
    """Two streams of a GPU, on which launches that do not depend on each other take turns: the next one gets the multiprocessors
    that the last one has no work for. What is allocated on the second stream is safe to use on the first one, and to free there:
    each use of the second one begins with `fork`, it has one first stream alone, and the `with` statement ends by joining them."""

    def __init__(self, x):
        self.first = self.second = None
        if x.device.type == "cuda":
            self.first = torch.cuda.current_stream(x.device)
            key = x.device, self.first.cuda_stream
            if key not in _second_streams:
                _second_streams[key] = torch.cuda.Stream(x.device)
            self.second = _second_streams[key]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.join()

    def fork(self):
        """The second stream comes behind what the first one has."""
        if self.first:
            self.second.wait_stream(self.first)

    def join(self):
        if self.first:
            self.first.wait_stream(self.second)

    def of(self, number):
        return torch.cuda.stream((self.first, self.second)[number % 2]) if self.first else contextlib.nullcontext()


def forward(call, q, k, v, more, o, lse):
    """Writes O and LSE of the own rows."""
    if q.shape[1] == 0:
        return
    layout, plan = call.layout, call.layout.gather
    pieces = plan.forward_heads(Heads((0, q.shape[1]), (0, k.shape[1])))
    gathering, arguments = _Gathering(layout, k, v, pieces), []
    for heads in pieces:  # before streams fork, since these may be computed
        own = Arguments(call, more, heads.queries, plan.local)
        arguments.append([own.of(each) for each in plan.forward])
    with _Streams(q) as streams:
        for number, heads in enumerate(pieces):
            keys, queries = gathering.take(number, streams), slice(*heads.queries)
            states = [None] * len(plan.local.states)
            for at, each in enumerate(plan.forward):
                with streams.of(number + at if plan.independent else 0):
                    compute_forward(call, each, q[:, queries], keys, arguments[number][at], o[:, queries], lse[:, queries], states)


def backward(call, do, dlse, q, k, v, o, lse, more, wanted, gradients):
    """Writes dQ, dK and dV to `gradients`, and returns those of captures."""
    if q.shape[1] == 0:
        return {}
    layout, plan, kind, captured = call.layout, call.layout.gather, sum_type(q), {}
    pieces = plan.backward_heads(Heads((0, q.shape[1]), (0, k.shape[1])))
    gathering, returned = _Gathering(layout, k, v, pieces), []
    peers = [layout.rank_at(peer.place, 0) for peer in plan.peers if peer.sent or peer.received]

    def settle(most):
        """Adds what others have returned, in the order of ranks, but for `most` pieces."""
        while len(returned) > most:
            exchange, own, others, heads = returned.pop(0)
            exchange.wait()
            for number, result in enumerate(gradients[1:]):
                for each in plan.reductions:
                    _reduce(part(result[:, slice(*heads.keys)], each.own), part(own[number], each.gathered),
                            [part(others[peer][number], range_) for peer, range_ in each.returned])

    with _Streams(q) as streams:
        for number, heads in enumerate(pieces):
            keys, queries = gathering.take(number, streams), slice(*heads.queries)
            computed = _Rows(plan.rows, keys, kind)
            dq = Sum(plan.local.row_sum, gradients[0][:, queries], kind)
            sums = [Sum(plan.local.key_sum, x, kind) for x in computed.tensors()]
            own = [None if x is None else x[:, queries] for x in (do, dlse, q, o, lse)]
            piece = Gradients(call, *own, Arguments(call, more, heads.queries, plan.local), wanted, dq, captured)
            launched = []
            streams.fork()
            for at, term in enumerate(plan.terms):
                with streams.of(at):
                    launched.append(piece.launch(term, *keys, sums))
            streams.join()
            while launched:
                piece.add(launched.pop(0))
            for total in (dq, *sums):
                total.finish()
            exchange, others = Exchange(layout.group, "exchange gradients of keys"), []
            for peer in plan.peers:
                rank = layout.rank_at(peer.place, 0)
                for begin, end in peer.received:
                    exchange.send(computed.data[begin:end], rank)
                others.append(_Rows(rows_of(peer.sent), keys, kind))
                at = 0
                for begin, end in peer.sent:
                    exchange.receive(others[-1].data[at:at + end - begin], rank)
                    at += end - begin
            if number + 1 < len(pieces):
                exchange = post_beside(exchange, peers, do, layout.gates)
            else:
                exchange.post()
            returned.append((exchange, computed.tensors(), [each.tensors() for each in others], heads))
            settle(1)
    settle(0)
    return captured


def _reduce(result, own, others):
    for x in others[:-1]:
        own.add_(x)
    if others:
        torch.add(own, others[-1], out=result)
    else:
        result.copy_(own)
