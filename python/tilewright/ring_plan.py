# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a rank of a ring computes, receives and sends, step by step (tilewright.rings runs it), and where sums over launches go.
Numbers only, from spans: computed once for calls of the same shape. Does not need PyTorch. A range is of rows in memory."""

import math
from typing import NamedTuple, Optional, Tuple

from tilewright import shares
from tilewright.context_cost import kept_pairs
from tilewright.shares import offset_in, rows_of


class Launch(NamedTuple):
    """A launch: rows of this rank, and keys of the rank of a step."""
    rows: Tuple[int, int]  # the range of rows
    keys: Tuple[int, int]  # and of keys
    first_row: int  # their positions in the document
    first_key: int
    document: int
    diagonal: int = 0
    run: Optional[shares.Run] = None  # whole documents, instead of a part of one
    before: bool = False  # forward: whether it continues another launch
    last: bool = True  # forward: whether it writes O, and not a state
    state: int = 0  # forward: the number of its rows among those that have states


class Step(NamedTuple):
    """The exchange of keys with two ranks of the ring, and what a rank computes on those that it gets."""
    source: int  # numbers of ranks in the ring
    target: int
    given: Tuple[Tuple[int, int], ...]  # the spans of keys that the target gets
    taken: Tuple[Tuple[int, int], ...]  # and that this rank gets
    given_ranges: Tuple[Tuple[int, int], ...]  # where the former are in memory
    forward: Tuple[Launch, ...]


class Change(NamedTuple):
    """What is done with a range of a term of a sum: "copy" to the sum, "add" to it, "end": the result is the sum and the term,
    "only": it is the term."""
    kind: str
    range: Tuple[int, int]


class SumPlan:
    """How a gradient is added up from terms, in their order. A kernel writes its term to the sum itself where that has none yet, and
    the last term of a row goes to the result, which may have another type."""

    def __init__(self, rows, terms):
        """`terms` are (range, whether it may be written to its place)."""
        places = sorted({0, rows, *(place for range_, _ in terms for place in range_)})
        self.rows, self.direct = rows, []
        self.ended = [[] for _ in terms]  # the changes, if the last term of a row ends it
        self.singles = [[] for _ in terms]  # by term that is written to the sum: ranges that get no other
        self.zeros = []  # ranges that get none
        self.single = []  # by term: whether its rows get no other
        pieces = [(piece, [at for at, (range_, _) in enumerate(terms) if range_[0] <= piece[0] and piece[1] <= range_[1]])
                  for piece in zip(places, places[1:])]
        for at, (_, may) in enumerate(terms):
            own = [adders for _, adders in pieces if at in adders]
            self.direct.append(may and all(adders[0] == at for adders in own))
            self.single.append(self.direct[at] and all(len(adders) == 1 for adders in own))
        for piece, adders in pieces:
            for place, at in enumerate(adders):
                if not self.direct[at]:
                    kind = ("only" if len(adders) == 1 else "copy") if place == 0 else "end" if place == len(adders) - 1 else "add"
                    self._extend(self.ended[at], Change(kind, piece))
            if not adders:
                self.zeros.append(piece)
            elif len(adders) == 1 and self.direct[adders[0]]:
                self.singles[adders[0]].append(piece)
        self.finish([False] * len(terms))

    def finish(self, alone):
        """Says which terms go to the result at once, since no other has their rows. What remains needs a sum, of the range `extent`,
        and is `converted` where no change ends it. Where changes would end a small part, all rows are converted instead: a pass over
        whole arrays is twice as fast as one over a range of the rows of each head."""
        self.alone, self.changes = list(alone), self.ended
        kept = [ranges for is_alone, ranges in zip(self.alone, self.singles) if not is_alone]
        self.converted = shares.united(range_ for ranges in kept for range_ in ranges)
        ends = [change.range for changes in self.changes for change in changes if change.kind == "end"]
        if 8 * rows_of(ends) <= self.rows and shares.united([*self.converted, *ends]) == ((0, self.rows),):
            self.converted = ((0, self.rows),)
            self.changes = [[Change("add", change.range) if change.kind == "end" else change for change in changes]
                            for changes in self.ended]
        changed = [change.range for changes in self.changes for change in changes if change.kind != "only"]
        summed = shares.united([*self.converted, *changed])
        self.extent = (summed[0][0], summed[-1][1]) if summed else (0, 0)

    @staticmethod
    def _extend(changes, change):
        before = changes[-1] if changes else None
        if before and before.kind == change.kind and before.range[1] == change.range[0]:
            changes[-1] = Change(change.kind, (before.range[0], change.range[1]))
        else:
            changes.append(change)


class Term(NamedTuple):
    """A launch of the backward, and the number of its term in each sum. With `alone`, no other term has its rows and keys."""
    launch: Launch
    term: int
    key_term: int
    alone: bool = False


class RingPlan:
    """The plan of the rank at place `own` of a ring. `rows` and `keys` are the spans of each rank; `fuses`: whether positions are
    nothing but a mask, so that launches may be merged."""

    def __init__(self, own, rows, keys, documents, fuses):
        self.own, self.size, self.fuses = own, len(rows), fuses
        self.rows, self.keys = rows, keys
        self.row_count, self.key_count = rows_of(rows[own]), rows_of(keys[own])
        self.runs, self.documents = {}, {}
        for place in range(self.size):
            whole = len(documents) == 1 and documents[0].rows[0] == 0  # not packed: a document of all rows
            self.runs[place], self.documents[place] = ([], documents) if whole else shares.runs(
                rows[place], keys[place], documents)
        self.by_number = {each.number: each for each in documents}
        self.steps = self._steps()
        self._add_backward()
        self.cache = {}  # of tensors that depend on the plan alone

    def needs(self, place, source):
        """The spans of the keys of rank `source` that a rank of the ring needs."""
        return shares.needed_of(self.rows[place], self.keys[source], self.documents[place])

    # Forward

    def _steps(self):
        taken = {(self.own - step) % self.size: None for step in range(self.size)}  # in the order of steps
        for source in taken:
            taken[source] = self.keys[self.own] if source == self.own else self.needs(self.own, source)
        launches = {source: [] for source in taken}
        self.states = []  # the range of rows of each
        covered = list(run.rows for run in self.runs[self.own])
        for run in self.runs[self.own]:
            launches[self.own].append(self._run(run))
        for each in self.documents[self.own]:
            own_keys = {source: shares.common(spans, each.keys) for source, spans in taken.items()}
            for segment, parts in shares.segments(shares.common(self.rows[self.own], each.rows), own_keys, each.band):
                parts = self._placed(self._merged(parts, own_keys, each, taken), each)
                covered.append(shares.moved([segment], each.rows[0])[0])
                if not parts:
                    launches[self.own].append(self._without_keys(covered[-1], each.number))
                    continue
                if len(parts) > 1:
                    self.states.append(self._range(self.rows[self.own], covered[-1]))
                for at, part in enumerate(parts):
                    launches[part.source].append(self._launch(part, each, taken[part.source])._replace(
                        before=at > 0, last=at == len(parts) - 1, state=len(self.states) - 1))
        for span in self.rows[self.own]:
            launches[self.own] += [self._without_keys(gap, 0) for gap in shares.gaps(span, shares.united(covered))]
        result = []
        for step, source in enumerate(taken):
            target = (self.own + step) % self.size
            given = self.needs(target, self.own) if step else ()
            ranges = tuple(self._range(self.keys[self.own], span) for span in given)
            result.append(Step(source, target, given, taken[source], ranges, tuple(launches[source])))
        return result

    def _merged(self, parts, own_keys, document, taken):
        """Merges parts whose keys lie one behind the other in memory."""
        if not self.fuses:
            return parts
        # Of other documents' keys, none are between those of this one.
        return shares.merged(parts, own_keys, document.band)

    @staticmethod
    def _placed(parts, document):
        """Parts with positions in the whole."""
        return [part._replace(rows=shares.moved([part.rows], document.rows[0])[0],
                              keys=shares.moved([part.keys], document.keys[0])[0], document=document.number) for part in parts]

    @staticmethod
    def _range(spans, span):
        begin = offset_in(spans, span[0])
        return begin, begin + span[1] - span[0]

    def _launch(self, part, document, key_spans):
        begin, end = self._range(key_spans, part.keys)
        return Launch(self._range(self.rows[self.own], part.rows), (begin - part.further, end), part.rows[0] - document.rows[0],
                      part.keys[0] - document.keys[0] - part.further, document.number, document.band.shift)

    def _run(self, run):
        keys = self._range(self.keys[self.own], run.keys) if run.keys[0] < run.keys[1] else (0, 0)
        return Launch(self._range(self.rows[self.own], run.rows), keys, 0, 0, 0, run=run)

    def _without_keys(self, rows, number):
        return Launch(self._range(self.rows[self.own], rows), (0, 0), rows[0], 0, number)

    # Backward

    def _add_backward(self):
        """The launches of the backward: on the own keys before and after the other ranks' keys, and those of each step between."""
        own = []
        for each in self.documents[self.own]:
            own += [(part, each) for part in self._blocks(each, self.own, self.keys[self.own])]
        first, last = self._halves(own)
        rows_terms, key_terms = [], []

        def add(launch, keys):
            rows_terms.append((launch.rows, True))
            keys.append((launch.keys, True))
            return Term(launch, len(rows_terms) - 1, len(keys) - 1)

        runs = [self._run(run) for run in self.runs[self.own]]
        parts = [[self._launch(part, each, self.keys[self.own]) for part, each in half] for half in (first, last)]
        if len(runs) > 1 and not parts[1]:
            parts[1].append(runs.pop())
        self.first = [add(launch, key_terms) for launch in parts[0] + runs]
        self.between, self.step_sums, self.returned = [], [], []
        returns = []
        for step in self.steps[1:]:
            terms, keys = [], []
            for each in self.documents[self.own]:
                terms += [add(self._launch(part, each, step.taken), keys) for part in self._blocks(each, step.source, step.taken)]
            self.between.append(terms)
            self.step_sums.append(SumPlan(rows_of(step.taken), keys))
            returns.append(step.given_ranges)
        # What ranks return is added behind the first own launches, in the order of steps, but that of the last step.
        for number, ranges in enumerate(returns[:-1]):
            self.returned.append([(len(key_terms) + at, range_) for at, range_ in enumerate(ranges)])
            key_terms += [(range_, False) for range_ in ranges]
        self.last = [add(launch, key_terms) for launch in parts[1]]
        for ranges in returns[-1:]:
            self.returned.append([(len(key_terms) + at, range_) for at, range_ in enumerate(ranges)])
            key_terms += [(range_, False) for range_ in ranges]
        self.row_sum, self.key_sum = SumPlan(self.row_count, rows_terms), SumPlan(self.key_count, key_terms)
        alone, key_alone = [False] * len(rows_terms), [False] * len(key_terms)
        for terms in (self.first, self.last):
            terms[:] = [each._replace(alone=self.row_sum.single[each.term] and self.key_sum.single[each.key_term]) for each in terms]
            for each in terms:
                alone[each.term] = key_alone[each.key_term] = each.alone
        self.row_sum.finish(alone)
        self.key_sum.finish(key_alone)

    def _blocks(self, document, source, key_spans):
        own = shares.common(self.rows[self.own], document.rows), shares.common(key_spans, document.keys)
        parts = shares.blocks(*own, document.band, source)
        return self._placed(self._merged(parts, {source: own[1]}, document, None), document)

    def _halves(self, own):
        """Cuts the parts of a rank's own keys into those before and those after the other ranks' keys: exchanges run meanwhile. The
        last one is that with the least work, on all ranks: they wait for each other between. With a window, little returns, which
        is not worth a launch."""
        if self.size == 1:  # the largest part is written to the sum, others are added
            return sorted(own, key=lambda each: -_pairs(*each)), []
        if len(own) == 1 and own[0][1].band.left < 0 and own[0][0].rows[1] - own[0][0].rows[0] > 1:
            (part, document), (begin, end) = own[0], own[0][0].rows
            middle, band, (by, key_by) = (begin + end) // 2, document.band, (document.rows[0], document.keys[0])
            middle -= (middle - begin) % getattr(band, "rows_each", 1)  # parts of lists begin with a block
            if middle == begin:
                return own, []
            own = []
            for half in ((middle, end), (begin, middle)):
                keys = band.keys((half[0] - by, half[1] - by), (part.keys[0] - key_by, part.keys[1] - key_by))
                if keys[0] < keys[1]:
                    own.append((part._replace(rows=half, keys=(keys[0] + key_by, keys[1] + key_by)), document))
        if len(own) < 2:
            return own, []
        last = min(range(len(own)), key=lambda at: (_pairs(*own[at]), -at))
        return own[:last] + own[last + 1:], [own[last]]

    def describe(self):
        """Lines of text: what each step exchanges and computes."""
        result = []
        for number, step in enumerate(self.steps):
            moved = f"keys {_shown(step.taken)} from place {step.source}, {_shown(step.given)} to {step.target}" if number else "own keys"
            result.append(f"step {number}: {moved}; {len(step.forward)} launches")
        return result


def _pairs(part, document):
    """How many pairs of a part a row may attend."""
    (begin, end), (key_begin, key_end), band = part.rows, part.keys, document.band
    by, key_by = document.rows[0], document.keys[0]
    low = band.shift - band.left if band.left >= 0 else -math.inf
    high = band.shift + band.right if band.right >= 0 else math.inf
    keys = key_begin - key_by, key_end - key_by
    return kept_pairs((begin - by, end - by), keys, low, high) + part.further * (end - begin)


def _shown(spans):
    return ", ".join(f"{begin}-{end}" for begin, end in spans) or "none"
