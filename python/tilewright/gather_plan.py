# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a rank sends, receives and computes where it gets all keys that its rows need (tilewright.gathers runs it): keys that lie one
behind the other in the order of their positions, so that each range of rows is one launch. Numbers only: computed once for calls of the
same shapes. Does not need PyTorch."""

from typing import NamedTuple, Tuple

from tilewright import shares
from tilewright.ring_plan import RingPlan
from tilewright.shares import offset_in, rows_of

FIRST_PART = 8  # 1 / this many of the key heads are exchanged before the others
LARGEST_PART = 3  # 1 / this many of the key heads are at most in a piece of the backward


class Peer(NamedTuple):
    """Another rank: the ranges of gathered keys that it gets, and those that come from it."""
    place: int
    sent: Tuple[Tuple[int, int], ...]
    received: Tuple[Tuple[int, int], ...]


class Reduction(NamedTuple):
    """A range of the own keys, whose gradient has the same terms everywhere: where it is in the own tensors and among the gathered
    keys, and where in the rows that some peers return."""
    own: Tuple[int, int]
    gathered: Tuple[int, int]
    returned: Tuple[Tuple[int, Tuple[int, int]], ...]


class GatherPlan:
    """The plan of the rank at place `own`. `rows` and `keys` are the spans of each rank; `fuses`: whether positions are nothing but a
    mask. Ranges count rows in memory, not positions."""

    def __init__(self, own, rows, keys, documents, fuses):
        others = [place for place in range(len(rows)) if place != own]
        taken = {place: shares.needed_of(rows[own], keys[place], documents) for place in others}
        given = {place: shares.needed_of(rows[place], keys[own], documents) for place in others}
        self.spans = shares.united([*keys[own], *(span for spans in taken.values() for span in spans)])
        self.rows = rows_of(self.spans)
        self.own = [(self._range(keys[own], span), self._range(self.spans, span)) for span in keys[own]]
        self.peers = [Peer(place, *(tuple(self._range(self.spans, span) for span in spans) for spans in (given[place], taken[place])))
                      for place in others]
        self.reductions = [self._reduction(part, keys[own], given) for part in self._cut(keys[own], given)]
        self.local = RingPlan(0, [rows[own]], [self.spans], documents, fuses)
        self.forward = self.local.steps[0].forward
        # Launches of different rows, of which the largest ones come first, are independent of each other.
        self.independent = not self.local.states
        if self.independent:
            self.forward = sorted(self.forward, key=lambda each: -rows_of([each.rows]) * rows_of([each.keys]))
        # All gradients of keys are added to those of peers, in f32.
        self.terms = [each._replace(alone=False) for each in self.local.first + self.local.last]
        for total in (self.local.row_sum, self.local.key_sum):
            total.finish([False] * len(self.terms))

    @staticmethod
    def _range(spans, span):
        begin = offset_in(spans, span[0])
        return begin, begin + span[1] - span[0]

    @staticmethod
    def _cut(own, given):
        """The parts of the own keys that go to the same peers."""
        places = sorted({place for spans in given.values() for span in spans for place in span})
        for begin, end in own:
            cuts = [begin, *(place for place in places if begin < place < end), end]
            yield from zip(cuts, cuts[1:])

    def _reduction(self, part, own, given):
        returned = []
        for number, spans in enumerate(given[peer.place] for peer in self.peers):
            if any(begin <= part[0] and part[1] <= end for begin, end in spans):
                returned.append((number, self._range(spans, part)))
        return Reduction(self._range(own, part), self._range(self.spans, part), tuple(returned))

    @staticmethod
    def forward_heads(heads):
        """Pieces of the heads for the forward: a small one, whose exchange no kernel hides, and the others."""
        keys = heads.keys[1] - heads.keys[0]
        first = max(1, keys // FIRST_PART)
        return shares.heads_cut(heads, [first, keys - first] if keys > 1 else [keys])

    @staticmethod
    def backward_heads(heads):
        """Pieces of the heads for the backward: also the last one is small, since its gradients return behind all kernels."""
        keys = heads.keys[1] - heads.keys[0]
        if keys < 3:
            return shares.heads_cut(heads, [1] * keys)
        return shares.heads_cut(heads, [1, *(end - begin for begin, end in shares.split(keys - 2, min(LARGEST_PART, keys - 2))), 1])

    def describe(self):
        """Lines of text: what is exchanged and computed."""
        sources = sum(bool(peer.received) for peer in self.peers)
        return [f"gathers {self.rows} keys, of which {sum(rows_of(peer.received) for peer in self.peers)} come from other ranks "
                f"({sources}); launches for a piece of heads: {len(self.forward)}"]
