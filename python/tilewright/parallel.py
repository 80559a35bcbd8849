# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention whose rows are distributed over ranks (tilewright.distributed): forward and backward.

The ranks of a group are `heads_size` columns of a grid: rank = row of the grid * heads_size + column. In a row of the grid, ranks
exchange heads for rows: each then has all rows of the row of the grid, for some heads. Along a column, keys and values pass around
in a ring, and each rank merges the results over them. With one row, that is an exchange of heads alone; with one column, a ring
alone. Tensors have the layout of the kernels, [batch, heads, rows, width]; packed sequences have a batch of 1."""

from typing import Any, NamedTuple, Tuple

import torch

from tilewright import shares
from tilewright.choice import Choice, ShardChoice
from tilewright.exchange import Exchange, Group, post_beside
from tilewright.ops import LIST_SIZES, dense_rows, sum_type
from tilewright.plans import TYPES, launch, plan
from tilewright.shares import offset_in, rows_of

SINKS = "sinks"  # the capture of mods/sink.mlir


class Call(NamedTuple):
    """A call, but for its tensors."""
    group: Group
    heads_size: int
    at_once: bool  # whether all keys are exchanged at once, instead of around a ring
    pieces: int  # into how many pieces the exchange of heads is cut at most
    rows: Tuple[Any, ...]  # the spans of queries of each rank
    keys: Tuple[Any, ...]  # those of keys
    heads: Tuple[Any, ...]  # the heads of each column
    mode: str
    left: int
    right: int
    shift: int  # the key on the diagonal of the first query
    scale: float
    modifier: str
    packed: bool
    names: Tuple[str, ...]  # of the tensors that autograd knows
    numbers: Tuple[Tuple[str, Any], ...]  # captures that are numbers, and the block sizes of lists
    deterministic: bool
    wants_lse: bool

    @property
    def column(self):
        return self.group.rank % self.heads_size

    @property
    def line(self):
        """The row of the grid that this rank is in."""
        return self.group.rank // self.heads_size

    def members(self, line):
        """The ranks in a row of the grid."""
        return range(line * self.heads_size, (line + 1) * self.heads_size)

    def lines(self):
        return self.group.size // self.heads_size

    def spans(self, of, line):
        """The spans of all ranks of a row of the grid."""
        return shares.united(span for rank in self.members(line) for span in of[rank])


def _is_alone(call):
    """Whether a rank has all rows and keys for its heads."""
    return call.lines() == 1


def _choice(call, kernel, q, v, more, place, continued=False, result=None, captured=False):
    lists = tuple(more[name] for name in LIST_SIZES if name in more)
    backward = dict(deterministic=call.deterministic, captured=captured) if kernel == "backward" else {}
    whole = Choice(kernel, TYPES[q.dtype], q.shape[-1], v.shape[-1], call.mode, (call.left, call.right) != (-1, -1), call.modifier,
                   packed=call.packed, lists=lists, **backward)
    kind = TYPES[result] if result is not None and result != q.dtype else ""
    return ShardChoice(whole, True, continued, kind) if place or continued or kind else whole


def _values(call, more, place):
    values = {name: x for name, x in more.items() if name not in LIST_SIZES}
    return {"scale": call.scale, "window_left": call.left, "window_right": call.right, **values, **(place or {})}


def _place(call, first_row=0, first_key=0, first_head=0):
    return {"first_row": first_row, "first_key": first_key, "diagonal": 0 if call.packed else call.shift, "first_head": first_head,
            "first_batch": 0}


def _forward(call, q, k, v, more, place, o, lse, before=None):
    """Writes O and LSE of the keys to o and lse; with `before`, of those and its O and LSE."""
    choice = _choice(call, "forward", q, v, more, place, before is not None, o.dtype)
    if isinstance(choice, ShardChoice):
        place = place or _place(call)
    values = {"q": dense_rows(q), "k": dense_rows(k), "v": dense_rows(v), "o": o, "lse": lse, **_values(call, more, place)}
    if before is not None:
        values |= {"o_before": before[0], "lse_before": before[1]}
    launch(plan(choice, q.device), values, ("o", "lse"), q.device)


def _backward(call, do, dlse, q, k, v, o, lse, more, wanted, place, gradients):
    """Writes dQ, dK and dV to `gradients`, and returns those of the captures `wanted`, {name: tensor}."""
    choice = _choice(call, "backward", q, v, more, place, False, gradients[0].dtype, bool(wanted))
    if isinstance(choice, ShardChoice):
        place = place or _place(call)
    found = plan(choice, q.device)
    captured = {}
    for name in wanted:
        if not found.takes(f"d_{name}"):
            raise ValueError(f"the gradient of capture '{name}' must be one that the kernel computes, but this backward "
                             "has none; detach the tensor")
        captured[name] = more[name].new_empty(more[name].shape, dtype=sum_type(more[name]))
    values = {"q": dense_rows(q), "k": dense_rows(k), "v": dense_rows(v), "o": dense_rows(o), "do": dense_rows(do), "lse": lse,
              "dlse": dlse, **dict(zip(("dq", "dk", "dv"), gradients)), **_values(call, more, place),
              **{f"d_{name}": x for name, x in captured.items()}}
    launch(found, values, ("dq", "dk", "dv", *(f"d_{name}" for name in captured)), q.device)
    return captured


def _add(sums, terms):
    for name, x in terms.items():
        sums[name] = sums[name].add_(x) if name in sums else x


# ----------------------------------------------------------------------------------------------------------------------
# One rank with all rows and keys


def _of_heads(call, more, heads):
    """The lists of blocks of some heads; other arguments are those of all."""
    begin, end = heads
    lists = {name: more[name][:, begin:end] for name in ("kv_indices", "kv_num_blocks") if name in more and more[name].shape[1] > 1}
    return more | lists


def _place_of_heads(call, heads):
    return _place(call, first_head=heads[0]) if call.modifier else None


# ----------------------------------------------------------------------------------------------------------------------
# A ring


def _band(call):
    return shares.band_of(call.mode != "none", call.left, call.right, call.shift)


def _rows(x, spans, span):
    """The rows of a span, of a tensor [batch, heads, rows, ...] that has those of `spans`."""
    begin = offset_in(spans, span[0])
    return x[:, :, begin:begin + span[1] - span[0]]


def _keys(part, spans):
    """The range of a part's keys, among those of `spans` in memory."""
    begin = offset_in(spans, part.keys[0])
    return begin - part.further, begin + part.keys[1] - part.keys[0]


def _merged(call, parts, spans, band):
    return parts if call.modifier else shares.merged(parts, spans, band)  # modifiers read positions


def _picked(x, spans, wanted):
    return x if wanted == spans else torch.cat([_rows(x, spans, span) for span in wanted], 2) if wanted else x[:, :, :0]


class _Ring:
    """The exchange of keys and values along a column of the grid. Step t is with the ranks at distance t, so that keys travel
    once, and only to ranks that need them."""

    def __init__(self, call, k, v):
        self.call, self.tensors = call, (k, v)
        self.rows = [call.spans(call.rows, line) for line in range(call.lines())]
        self.keys = [call.spans(call.keys, line) for line in range(call.lines())]
        self.own, self.band = call.line, _band(call)
        self.posted = {}

    def source(self, step):
        return (self.own - step) % self.call.lines()

    def target(self, step):
        return (self.own + step) % self.call.lines()

    def needs(self, of, source):
        return shares.needed(self.rows[of], self.keys[source], self.band)

    def rank(self, line):
        return line * self.call.heads_size + self.call.column

    def post(self, step):
        if step >= self.call.lines() or step in self.posted:
            return
        exchange, (k, v) = Exchange(self.call.group, "exchange keys"), self.tensors
        given, taken = self.needs(self.target(step), self.own), self.needs(self.own, self.source(step))
        buffers = [x.new_empty((*x.shape[:2], rows_of(taken), x.shape[3])) for x in (k, v)]
        for x, buffer in zip((k, v), buffers):
            exchange.send(_picked(x, self.keys[self.own], given), self.rank(self.target(step)))
            exchange.receive(buffer, self.rank(self.source(step)))
        if step == 1 or self.call.at_once:
            exchange.post()
        else:
            self.post_beside(exchange, step)
        self.posted[step] = exchange, buffers, taken

    def post_beside(self, exchange, step):
        """Posts messages of a step that are to run beside kernels."""
        return post_beside(exchange, {self.rank(self.source(step)), self.rank(self.target(step))}, self.tensors[0])

    def begin(self):
        for step in range(1, self.call.lines() if self.call.at_once else 2):
            self.post(step)

    def take(self, step):
        """K, V and the spans of a step; starts the next one."""
        if step == 0:
            return *self.tensors, self.keys[self.own]
        exchange, (k, v), spans = self.posted.pop(step)
        exchange.wait()
        self.post(step + 1)
        return k, v, spans


def _ring_forward(call, q, k, v, more, heads):
    """O and LSE of rows that attend keys of all ranks of a column."""
    o, lse = like(q).empty(v.shape[3]), q.new_empty(q.shape[:3], dtype=sum_type(q))
    if q.shape[1] == 0:  # more columns than heads: no rank of this column has keys to exchange
        return o, lse
    ring = _Ring(call, k, v)
    ring.begin()
    rows = ring.rows[ring.own]
    keys = {source: ring.needs(ring.own, source) for source in map(ring.source, range(call.lines()))}
    keys[ring.own] = ring.keys[ring.own]
    segments = [(segment, _merged(call, parts, keys, ring.band)) for segment, parts in shares.segments(rows, keys, ring.band)]
    states, left = {}, {segment: max(len(parts), 1) for segment, parts in segments}
    for step in range(call.lines()):
        own_k, own_v, spans = ring.take(step)
        for segment, parts in segments:
            own_parts = [part for part in parts if part.source == ring.source(step)]
            if step == 0 and not parts:  # rows without keys
                own_parts = [shares.Part(segment, None, 0)]
            for part in own_parts:
                left[segment] -= 1
                result = _rows(o, rows, segment)
                if left[segment]:
                    states.setdefault(segment, result.new_empty(result.shape, dtype=lse.dtype))
                    result = states[segment]
                sums, before = _rows(lse, rows, segment), None
                if left[segment] + 1 < len(parts):
                    before = states[segment], sums
                begin, end = _keys(part, spans) if part.keys else (0, 0)
                its_k, its_v = (x[:, :, begin:end] for x in (own_k, own_v))
                place = _place(call, segment[0], part.keys[0] - part.further if part.keys else 0, heads[0])
                _forward(call, _rows(q, rows, segment), its_k, its_v, more, place, result, sums, before)
    return o, lse


class _Sum:
    """A gradient of rows to which parts add. The first part of a row writes it, since kernels write all rows that they get."""

    def __init__(self, x, dtype):
        self.total, self.written = x.new_empty(x.shape, dtype=dtype), ()

    def target(self, rows):
        """Where a kernel writes the gradient of a range of rows: the sum itself, if no part has written there yet."""
        place = self.total[:, :, rows[0]:rows[1]]
        is_new = all(end <= rows[0] or rows[1] <= begin for begin, end in self.written)
        return place if is_new else place.new_empty(place.shape)

    def add(self, rows, x):
        """Adds what target(rows) or another tensor holds."""
        place = self.total[:, :, rows[0]:rows[1]]
        if place.data_ptr() != x.data_ptr():
            self.clear(rows)
            place.add_(x)
        self.written = shares.united([*self.written, *shares.gaps(rows, self.written)])

    def clear(self, rows):
        """Writes zeros where no part has written."""
        for begin, end in shares.gaps(rows, self.written):
            self.total[:, :, begin:end].zero_()

    def result(self):
        self.clear((0, self.total.shape[2]))
        return self.total


def _own_first(parts, band):
    """Cuts the parts of a rank's own keys into those before and those after the other ranks' keys: exchanges run meanwhile. With a
    window, little returns, which is not worth a launch."""
    if len(parts) == 1 and band.left < 0 and parts[0].rows[1] - parts[0].rows[0] > 1:
        (begin, end), middle = parts[0].rows, sum(parts[0].rows) // 2
        parts = [parts[0]._replace(rows=own, keys=band.keys(own, parts[0].keys)) for own in ((middle, end), (begin, middle))]
        parts = [part for part in parts if part.keys[0] < part.keys[1]]
    return parts[:max(1, len(parts) - 1)], parts[max(1, len(parts) - 1):]


def _ring_backward(call, do, dlse, q, k, v, o, lse, more, wanted, heads):
    """The gradients of a ring, in f32."""
    kind, captured = lse.dtype, {}
    if q.shape[1] == 0:
        return (*(x.new_zeros(x.shape, dtype=kind) for x in (q, k, v)), captured)
    ring = _Ring(call, k, v)
    ring.begin()
    rows, spans = ring.rows[ring.own], ring.keys[ring.own]
    dq, dk, dv = (_Sum(x, kind) for x in (q, k, v))

    def compute(parts, its_k, its_v, its_spans, dk, dv):
        for part in parts:
            its_do, its_q, its_o, its_lse = (_rows(x, rows, part.rows) for x in (do, q, o, lse))
            its_dlse = None if dlse is None else _rows(dlse, rows, part.rows)
            begin = offset_in(rows, part.rows[0])
            keys = _keys(part, its_spans)
            places = ((dq, (begin, begin + part.rows[1] - part.rows[0])), (dk, keys), (dv, keys))
            targets = [total.target(span) for total, span in places]
            place = _place(call, part.rows[0], part.keys[0] - part.further, heads[0])
            terms = _backward(call, its_do, its_dlse, its_q, its_k[:, :, keys[0]:keys[1]], its_v[:, :, keys[0]:keys[1]], its_o,
                              its_lse, more, wanted, place, targets)
            for (total, span), target in zip(places, targets):
                total.add(span, target)
            _add(captured, terms)

    def parts_of(its_spans, source):
        return _merged(call, shares.blocks(rows, its_spans, ring.band, source), {source: its_spans}, ring.band)

    own_k, own_v, _ = ring.take(0)
    first, last = _own_first(parts_of(spans, ring.own), ring.band)
    compute(first, own_k, own_v, spans, dk, dv)
    returned = []

    def settle(most):
        """Adds what others have returned, in the order of steps, so that runs are bit-identical, but for `most` exchanges."""
        while len(returned) > most:
            exchange, buffers, of = returned.pop(0)
            exchange.wait()
            for total, buffer in zip((dk, dv), buffers):
                for span in of:
                    begin = offset_in(spans, span[0])
                    total.add((begin, begin + span[1] - span[0]), _rows(buffer, of, span))

    for step in range(1, call.lines()):
        its_k, its_v, its_spans = ring.take(step)
        sums = [_Sum(x, kind) for x in (its_k, its_v)]
        compute(parts_of(its_spans, ring.source(step)), its_k, its_v, its_spans, *sums)
        exchange, of = Exchange(call.group, "exchange gradients of keys"), ring.needs(ring.target(step), ring.own)
        buffers = [x.new_empty((*x.shape[:2], rows_of(of), x.shape[3]), dtype=kind) for x in (k, v)]
        for total, buffer in zip(sums, buffers):
            exchange.send(total.result(), ring.rank(ring.source(step)))
            exchange.receive(buffer, ring.rank(ring.target(step)))
        returned.append((ring.post_beside(exchange, step), buffers, of))
        settle(1)
    compute(last, own_k, own_v, spans, dk, dv)
    settle(0)
    return dq.result(), dk.result(), dv.result(), captured


def _sinks_gradient(call, do, dlse, o, lse, sinks, heads):
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
# What a rank computes for its heads


def _forward_of_heads(call, q, k, v, more, heads):
    if not _is_alone(call):
        return _ring_forward(call, q, k, v, more, heads)
    o, lse = like(q).empty(v.shape[3]), q.new_empty(q.shape[:3], dtype=sum_type(q))
    _forward(call, q, k, v, _of_heads(call, more, heads), _place_of_heads(call, heads), o, lse)
    return o, lse


def _backward_of_heads(call, do, dlse, q, k, v, o, lse, more, wanted, heads, result):
    if _is_alone(call):
        gradients = [like(x, do.new_empty(0, dtype=result)).empty() for x in (q, k, v)]
        captured = _backward(call, do, dlse, q, k, v, o, lse, _of_heads(call, more, heads), wanted, _place_of_heads(call, heads),
                             gradients)
        return (*gradients, captured)
    *gradients, captured = _ring_backward(call, do, dlse, q, k, v, o, lse, more, [name for name in wanted if name != SINKS], heads)
    if SINKS in wanted:
        captured[SINKS] = _sinks_gradient(call, do, dlse, o, lse, more[SINKS], heads)
    return (*gradients, captured)


# ----------------------------------------------------------------------------------------------------------------------
# The exchange of heads for rows


class _Heads:
    """The exchange along a row of the grid, in pieces: while one is computed, another is exchanged."""

    def __init__(self, call):
        self.call, self.rank = call, call.group.rank
        pieces = [shares.head_pieces(heads, call.pieces) for heads in call.heads]
        self.count = max(map(len, pieces))
        none = shares.Heads((0, 0), (0, 0))
        self.pieces = [own + [none] * (self.count - len(own)) for own in pieces]  # by column
        self.own = self.pieces[call.column]
        self.peers = list(enumerate(call.members(call.line)))
        self.whole = {id(of): call.spans(of, call.line) for of in (call.rows, call.keys)}

    def ranges(self, of, piece):
        """The ranges of heads of a piece, "queries" or "keys", by column."""
        return [getattr(pieces[piece], of) for pieces in self.pieces]

    def are_new(self, piece):
        """Whether the keys of a piece are not those of the piece before, by column."""
        return [piece == 0 or pieces[piece].keys != pieces[piece - 1].keys for pieces in self.pieces]

    def post(self, exchange, piece, like):
        """Posts results of a piece, beside the computation of the next one."""
        others = [rank for _, rank in self.peers if rank != self.rank]
        return exchange.post() if piece == self.count - 1 else post_beside(exchange, others, like)

    def collect(self, x, of, ranges, exchange, wanted=None):
        """Sends the own rows of other ranks' heads, and returns a tensor of all rows of the own heads, which is complete when the
        messages have arrived and `exchange.copies` have run. `of` holds the spans of each rank, `ranges` the heads of each column,
        and `wanted` which columns receive; without it, all do. None where this one does not."""
        spans, whole = of[self.rank], self.whole[id(of)]
        wanted = wanted or [True] * len(ranges)
        result = None
        if wanted[self.call.column]:
            begin, end = ranges[self.call.column]
            result = x.new_empty((x.shape[0], end - begin, rows_of(whole), *x.shape[3:]))
        for column, rank in self.peers:
            begin, end = ranges[column]
            if rank == self.rank:
                for span in spans if result is not None else ():
                    exchange.copies.append((_rows(result, whole, span), _rows(x[:, begin:end], spans, span)))
                continue
            for span in spans if wanted[column] else ():
                exchange.send_rows(_four(_rows(x[:, begin:end], spans, span)), rank)
            for span in of[rank] if result is not None else ():
                exchange.receive_rows(_four(_rows(result, whole, span)), rank)
        return result

    def spread(self, x, of, ranges, result, exchange):
        """The reverse: sends other ranks' rows of the own heads, and receives the own rows of theirs into `result`."""
        spans, whole = of[self.rank], self.whole[id(of)]
        for column, rank in self.peers:
            begin, end = ranges[column]
            if rank == self.rank:
                for span in spans:
                    _rows(result[:, begin:end], spans, span).copy_(_rows(x, whole, span))
                continue
            for span in of[rank]:
                exchange.send_rows(_four(_rows(x, whole, span)), rank)
            for span in spans:
                exchange.receive_rows(_four(_rows(result[:, begin:end], spans, span)), rank)

    def are_last(self, piece):
        """Whether the next piece has other keys, by column."""
        return self.are_new(piece + 1) if piece + 1 < self.count else [True] * len(self.pieces)

    def add_up(self, x, of, ranges, are_last, result, exchange):
        """Like `spread` where ranks share heads, in f32, of the columns in `are_last`: returns a function that adds the terms of all
        ranks to `result`, in their order, once the messages have arrived."""
        spans, whole = of[self.rank], self.whole[id(of)]
        terms = []
        for column, rank in self.peers:
            begin, end = ranges[column]
            term = _picked(x, whole, of[rank]) if are_last[self.call.column] else None
            if rank != self.rank:
                if term is not None:
                    exchange.send(term, rank)
                term = x.new_empty((x.shape[0], end - begin, rows_of(spans), x.shape[3])) if are_last[column] else None
                if term is not None:
                    exchange.receive(term, rank)
            if term is not None:
                terms.append((result[:, begin:end], term))

        def complete():
            for total, term in terms:
                total.add_(term)

        return complete


def _four(x):
    """LSE [batch, heads, rows] as rows of width 1."""
    return x if x.dim() == 4 else x[..., None]


class Like(NamedTuple):
    """What results have in common with a tensor of rows [batch, heads, rows, width]."""
    shape: Tuple[int, ...]
    has_rows_first: bool  # whether it has [batch, rows, heads, width] in memory
    some: torch.Tensor  # any tensor of its type and device

    def empty(self, width=None):
        batch, heads, rows, own = self.shape
        width = own if width is None else width
        if self.has_rows_first:
            return self.some.new_empty((batch, rows, heads, width)).transpose(1, 2)
        return self.some.new_empty((batch, heads, rows, width))

    def zeros(self, dtype):
        return self.some.new_zeros(self.shape, dtype=dtype)


def like(x, some=None):
    return Like(tuple(x.shape), 0 < x.stride(1) < x.stride(2), x if some is None else some)


def _posted(heads, collect):
    """collect(piece, exchange) of each piece, and the exchanges: the first piece alone, and the others together. The second exchange
    is started before the first one has ended, and while rows are copied: once a kernel has all multiprocessors, an exchange waits
    for its end."""
    inputs, exchanges = [], []
    for pieces in (range(1), range(1, heads.count)):
        exchange = Exchange(heads.call.group, "exchange heads")
        inputs += [collect(piece, exchange) for piece in pieces]
        exchanges.append(exchange.post())
    exchanges[0].copy()
    return inputs, exchanges


def _await(exchanges, piece):
    """Waits for the exchange of a piece."""
    if piece < 2:
        exchanges[piece].wait()
    if piece == 0:
        exchanges[1].copy()


def forward(call, q, k, v, more):
    """O and LSE of the own rows, and what the backward reads: (q, k, v, o, lse) of each piece."""
    if call.heads_size == 1:
        o, lse = _forward_of_heads(call, q, k, v, more, (0, q.shape[1]))
        return o, lse, [(q, k, v, o, lse)]
    heads = _Heads(call)
    o, lse = like(q).empty(v.shape[3]), q.new_empty(q.shape[:3], dtype=sum_type(q))

    def collect(piece, exchange):
        ranges, new = heads.ranges("keys", piece), heads.are_new(piece)
        return (heads.collect(q, call.rows, heads.ranges("queries", piece), exchange),
                *(heads.collect(x, call.keys, ranges, exchange, new) for x in (k, v)))

    inputs, exchanges = _posted(heads, collect)
    saved, returns = [], []
    for piece, (own_q, own_k, own_v) in enumerate(inputs):
        _await(exchanges, piece)
        if own_k is None:
            own_k, own_v = saved[-1][1:3]
        own_o, own_lse = _forward_of_heads(call, own_q, own_k, own_v, more, heads.own[piece].queries)
        exchange, ranges = Exchange(call.group, "return rows of heads"), heads.ranges("queries", piece)
        heads.spread(own_o, call.rows, ranges, o, exchange)
        if call.wants_lse:
            heads.spread(own_lse, call.rows, ranges, lse, exchange)
        returns.append(heads.post(exchange, piece, own_o))
        saved.append((own_q, own_k, own_v, own_o, own_lse))
    for exchange in returns:
        exchange.wait()
    return o, lse, saved


def backward(call, do, dlse, saved, more, wanted, likes):
    """The gradients of the own rows, of which `likes` are those of q, k and v, and those of captures, {name: sum over the own rows
    or heads}."""
    kind = do.dtype
    if call.heads_size == 1:
        *gradients, captured = _backward_of_heads(call, do, dlse, *saved[0], more, wanted, (0, do.shape[1]), kind)
        return (*(x.to(kind) for x in gradients), captured)
    heads, captured = _Heads(call), {}
    # Where ranks or pieces share key heads, their terms are added in f32.
    shared = len({own.keys for own in call.heads}) < len(call.heads) or not all(
        all(heads.are_new(piece)) for piece in range(heads.count))
    result = sum_type(do) if shared else kind
    dq = likes[0].empty()
    dk, dv = (each.zeros(result) if shared else each.empty() for each in likes[1:])

    def collect(piece, exchange):
        return [None if x is None else heads.collect(x, call.rows, heads.ranges("queries", piece), exchange) for x in (do, dlse)]

    inputs, exchanges = _posted(heads, collect)
    returns, completions, held = [], [], None
    for piece, (own_do, own_dlse) in enumerate(inputs):
        _await(exchanges, piece)
        own_dq, *own_keys, terms = _backward_of_heads(call, own_do, own_dlse, *saved[piece], more, wanted,
                                                      heads.own[piece].queries, result)
        _add(captured, terms)
        exchange, ranges, are_last = Exchange(call.group, "return gradients of heads"), heads.ranges("keys", piece), heads.are_last(piece)
        if shared and held is not None:
            own_keys = [x.add_(before) for x, before in zip(own_keys, held)]
        held = None if are_last[call.column] else own_keys
        heads.spread(own_dq.to(kind), call.rows, heads.ranges("queries", piece), dq, exchange)
        for x, total in zip(own_keys, (dk, dv)):
            if shared:
                completions.append(heads.add_up(x, call.keys, ranges, are_last, total, exchange))
            else:
                heads.spread(x, call.keys, ranges, total, exchange)
        returns.append(heads.post(exchange, piece, own_dq))
    for exchange in returns:
        exchange.wait()
    for complete in completions:
        complete()
    return dq, dk.to(kind), dv.to(kind), captured
