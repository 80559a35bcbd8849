# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over a ring of ranks (tilewright.ring_plan): keys and values pass from rank to rank, and each rank continues the softmax
of its rows over them. Step t is with the ranks at distance t, so that keys travel once, and only to ranks that need them. In the
backward, dK and dV of others' keys return to them."""

import torch

from tilewright.exchange import Exchange, post_beside
from tilewright.launches import add_terms, launch_backward, launch_forward, lists_of_heads, lists_of_part, place_of
from tilewright.ops import sum_type
from tilewright.shares import rows_of


def part(x, range_):
    """A range of the rows of [batch, heads, rows, ...]."""
    begin, end = range_
    return x if end - begin == x.shape[2] else x[:, :, begin:end]


class _Keys:
    """The exchange of keys and values along a column of the grid."""

    def __init__(self, layout, k, v):
        self.layout, self.plan, self.tensors, self.posted = layout, layout.ring, (k, v), {}
        self.rows_first = layout.rows_first or layout.heads_size > 1  # as HeadPlan makes them

    def rank(self, place):
        return self.layout.rank_at(place, self.layout.column)

    def post(self, number):
        if number >= len(self.plan.steps) or number in self.posted:
            return
        step, exchange, buffers = self.plan.steps[number], Exchange(self.layout.group, "exchange keys"), []
        target, source, rows = self.rank(step.target), self.rank(step.source), rows_of(step.taken)
        for x in self.tensors:
            if self.rows_first:  # a range of rows is one piece of memory
                own, buffer = x.permute(2, 0, 1, 3), x.new_empty((rows, *x.shape[:2], x.shape[3]))
                for begin, end in step.given_ranges:
                    exchange.send(own[begin:end], target)
                at = 0
                for begin, end in step.taken:
                    exchange.receive(buffer[at:at + end - begin], source)
                    at += end - begin
                buffers.append(buffer.permute(1, 2, 0, 3))
            else:
                given = [part(x, range_) for range_ in step.given_ranges]
                exchange.send(given[0] if len(given) == 1 else torch.cat(given, 2) if given else x[:, :, :0], target)
                buffers.append(x.new_empty((*x.shape[:2], rows, x.shape[3])))
                exchange.receive(buffers[-1], source)
        if number == 1:
            exchange.post()
        else:
            self.post_beside(exchange, step)
        self.posted[number] = exchange, buffers

    def post_beside(self, exchange, step):
        """Posts messages of a step that are to run beside kernels."""
        peers = sorted({self.rank(step.source), self.rank(step.target)})
        return post_beside(exchange, peers, self.tensors[0], self.layout.gates)

    def begin(self):
        self.post(1)

    def take(self, number):
        """K and V of a step; starts the next one."""
        if number == 0:
            return self.tensors
        exchange, buffers = self.posted.pop(number)
        exchange.wait()
        self.post(number + 1)
        return buffers


def _place(each, heads):
    return place_of(each.first_row, each.first_key, heads[0], each.diagonal, each.document)


class Arguments:
    """The arguments besides rows, for launches of runs of documents, and for those of parts of one."""

    def __init__(self, call, more, heads, plan):
        self.call, self.more, self.heads, self.plan = call, more, heads, plan
        dense = {name: x for name, x in more.items() if not name.startswith("cu_seqlens_")} if call.packed else more
        self.dense = lists_of_heads(dense, heads)

    def of(self, each):
        """The arguments of a launch, its place, and whether it is packed."""
        if each.run is None:
            (row_begin, row_end), (key_begin, key_end) = each.rows, each.keys
            more = lists_of_part(self.dense, each.first_row, row_end - row_begin, each.first_key, key_end - key_begin)
            return more, _place(each, self.heads), False
        kept, device = self.plan.cache, self.more["cu_seqlens_q"].device
        starts = kept.get((each.run, device))
        if starts is None:  # other documents become empty, and keep their numbers
            ends = (("cu_seqlens_q", each.run.rows), ("cu_seqlens_k", each.run.keys))
            starts = kept[each.run, device] = {name: (self.more[name] - begin).clamp_(0, end - begin) for name, (begin, end) in ends}
        return self.more | starts, place_of(first_head=self.heads[0]) if self.call.modifier else None, True


def forward(call, q, k, v, more, heads, o, lse):
    """Writes O and LSE of rows that attend keys of all ranks of a column."""
    if q.shape[1] == 0:  # more columns than heads: no rank of this column has keys to exchange
        return
    plan, keys = call.layout.ring, _Keys(call.layout, k, v)
    arguments, states = Arguments(call, more, heads, plan), [None] * len(plan.states)
    keys.begin()
    for number, step in enumerate(plan.steps):
        own = keys.take(number)
        for each in step.forward:
            compute_forward(call, each, q, own, arguments.of(each), o, lse, states)


def compute_forward(call, each, q, keys, arguments, o, lse, states):
    """A launch of a plan, of rows of q on some of `keys`, (k, v), with what Arguments.of returns. `states` has O of rows whose last
    launch comes later."""
    sums, result, before = part(lse, each.rows), part(o, each.rows), None
    if each.before:
        before = states[each.state], sums
    if not each.last:
        if states[each.state] is None:
            states[each.state] = result.new_empty(result.shape, dtype=lse.dtype)
        result = states[each.state]
    more, place, packed = arguments
    launch_forward(call, part(q, each.rows), *(part(x, each.keys) for x in keys), more, place, result, sums, before, packed)


class Sum:
    """A gradient of rows that is added up as a plan says. `result` may have another type than the sum."""

    def __init__(self, plan, result, kind):
        self.plan, self.result = plan, result
        if result.dtype == kind:
            self.total, self.begin = result, 0
        else:
            (self.begin, end), shape = plan.extent, result.shape
            self.total = result.new_empty((*shape[:2], end - self.begin, shape[3]), dtype=kind)

    def sum_of(self, range_):
        return part(self.total, (range_[0] - self.begin, range_[1] - self.begin))

    def target(self, term, range_, alone=False):
        """Where a kernel writes a term."""
        if alone:
            return part(self.result, range_)
        if self.plan.direct[term]:
            return self.sum_of(range_)
        shape = self.result.shape
        return self.result.new_empty((*shape[:2], range_[1] - range_[0], shape[3]), dtype=self.total.dtype)

    def add(self, term, range_, x):
        """Adds a term, x, of a range."""
        for kind, changed in self.plan.changes[term]:
            own, result = part(x, (changed[0] - range_[0], changed[1] - range_[0])), part(self.result, changed)
            if kind == "only":
                result.copy_(own)
            elif kind == "end":
                torch.add(self.sum_of(changed), own, out=result)
            elif kind == "copy":
                self.sum_of(changed).copy_(own)
            else:
                self.sum_of(changed).add_(own)

    def finish(self):
        for range_ in self.plan.zeros:
            part(self.result, range_).zero_()
        if self.total is not self.result:
            for range_ in self.plan.converted:
                part(self.result, range_).copy_(self.sum_of(range_))


def _flat(tensors, rows, kind):
    """Uninitialized tensors like these, of so many rows, in one piece of memory, and that."""
    shapes = [(*x.shape[:2], rows, x.shape[3]) for x in tensors]
    sizes = [batch * heads * rows * width for batch, heads, rows, width in shapes]
    whole = tensors[0].new_empty(sum(sizes), dtype=kind)
    return [x.view(shape) for x, shape in zip(whole.split(sizes), shapes)], whole


class Gradients:
    """The backward of launches of a plan: rows of a rank, with keys that each call gets."""

    def __init__(self, call, do, dlse, q, o, lse, arguments, wanted, dq, captured):
        """`dq` is a Sum; terms of captures are added to `captured`."""
        self.call, self.rows, self.dlse, self.arguments = call, (do, q, o, lse), dlse, arguments
        self.wanted, self.dq, self.captured = wanted, dq, captured

    def compute(self, terms, k, v, key_sums):
        """Adds dQ, and dK and dV to `key_sums`."""
        for term in terms:
            self.add(self.launch(term, k, v, key_sums))

    def launch(self, term, k, v, key_sums):
        """Computes a term, which `add` adds."""
        each, row_term, key_term, alone = term
        targets = [(self.dq, row_term, each.rows), *((total, key_term, each.keys) for total in key_sums)]
        written = [total.target(at, range_, alone) for total, at, range_ in targets]
        more, place, packed = self.arguments.of(each)
        do, q, o, lse = (part(x, each.rows) for x in self.rows)
        dlse = None if self.dlse is None else part(self.dlse, each.rows)
        captured = launch_backward(self.call, do, dlse, q, part(k, each.keys), part(v, each.keys), o, lse, more, self.wanted, place,
                                   written, packed)
        return targets, written, captured

    def add(self, launched):
        targets, written, captured = launched
        for (total, at, range_), x in zip(targets, written):
            total.add(at, range_, x)
        add_terms(self.captured, captured)


def backward(call, do, dlse, q, k, v, o, lse, more, wanted, heads, gradients):
    """Writes dQ, dK and dV to `gradients`, and returns those of captures. Sums are in f32."""
    if q.shape[1] == 0:
        return {}
    layout, plan, kind, captured = call.layout, call.layout.ring, sum_type(q), {}
    keys = _Keys(layout, k, v)
    keys.begin()
    dq = Sum(plan.row_sum, gradients[0], kind)
    own_sums = [Sum(plan.key_sum, x, kind) for x in gradients[1:]]
    own = Gradients(call, do, dlse, q, o, lse, Arguments(call, more, heads, plan), wanted, dq, captured)
    own.compute(plan.first, *keys.take(0), own_sums)
    returned = []

    def settle(most):
        """Adds what others have returned, in the order of steps, so that runs are bit-identical, but for `most` exchanges."""
        while len(returned) > most:
            exchange, buffers, terms = returned.pop(0)
            exchange.wait()
            for total, buffer in zip(own_sums, buffers):
                at = 0
                for term, range_ in terms:
                    total.add(term, range_, part(buffer, (at, at + range_[1] - range_[0])))
                    at += range_[1] - range_[0]

    for number, step in enumerate(plan.steps[1:]):
        own_k, own_v = keys.take(number + 1)
        sent, message = _flat((own_k, own_v), rows_of(step.taken), kind)
        sums = [Sum(plan.step_sums[number], x, kind) for x in sent]
        own.compute(plan.between[number], own_k, own_v, sums)
        for total in sums:
            total.finish()
        buffers, buffer = _flat((k, v), rows_of(step.given), kind)
        exchange = Exchange(layout.group, "exchange gradients of keys")
        exchange.send(message, keys.rank(step.source))
        exchange.receive(buffer, keys.rank(step.target))
        returned.append((keys.post_beside(exchange, step), buffers, plan.returned[number]))
        settle(1)
    own.compute(plan.last, k, v, own_sums)
    dq.finish()  # before the wait for the last messages
    settle(0)
    for total in own_sums:
        total.finish()
    return captured
