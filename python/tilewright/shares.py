# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which rows and heads of an attention each rank of a group has, and which blocks of rows and keys they need. Numbers only: does
not need PyTorch. A span is a range of rows, (begin, end)."""

from bisect import bisect_right
from typing import NamedTuple, Tuple

ORDERS = ("contiguous", "zigzag")


def split(count, parts):
    """`count` things in `parts` spans of about one size, the longer ones first."""
    size, longer = divmod(count, parts)
    ends = [size * n + min(n, longer) for n in range(parts + 1)]
    return list(zip(ends, ends[1:]))


def united(spans):
    """The spans in ascending order; those that touch become one, and those without rows are left out."""
    result = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if result and result[-1][1] == begin:
            begin = result.pop()[0]
        result.append((begin, end))
    return tuple(result)


def gaps(span, spans):
    """The parts of a span that lie in none of `spans`, which are united."""
    begin, result = span[0], []
    for other in spans:
        if other[1] > begin and other[0] < span[1]:
            result += [(begin, other[0])] if other[0] > begin else []
            begin = max(begin, other[1])
    return result + ([(begin, span[1])] if begin < span[1] else [])


def rows_of(spans):
    return sum(end - begin for begin, end in spans)


def shares(rows, ranks, order):
    """The spans of each rank, of `rows` rows. "contiguous": one after the other. "zigzag": the r-th and the r-th last of twice as
    many spans as there are ranks, so that all have the same work under a causal mask."""
    if order == "contiguous":
        return [united([span]) for span in split(rows, ranks)]
    spans = split(rows, 2 * ranks)
    return [united([spans[rank], spans[2 * ranks - 1 - rank]]) for rank in range(ranks)]


def offset_in(spans, row):
    """The index of a row among the rows of `spans`."""
    before = 0
    for begin, end in spans:
        if begin <= row < end:
            return before + row - begin
        before += end - begin
    raise ValueError(f"row must be in {spans}, but got {row}")


class Band(NamedTuple):
    """The keys that row i may attend: i + shift - left to i + shift + right; -1 leaves a side open."""
    left: int
    right: int
    shift: int

    def keys(self, rows, keys):
        """The span of `keys` that a row of the span `rows` may attend."""
        begin, end = keys
        if rows[0] >= rows[1]:
            return begin, begin
        if self.left >= 0:
            begin = max(begin, rows[0] + self.shift - self.left)
        if self.right >= 0:
            end = min(end, rows[1] + self.shift + self.right)
        return begin, max(begin, end)

    def rows(self, rows, keys):
        """The span of `rows` that may attend a key of the span `keys`."""
        begin, end = rows
        if keys[0] >= keys[1]:
            return begin, begin
        if self.right >= 0:
            begin = max(begin, keys[0] - self.shift - self.right)
        if self.left >= 0:
            end = min(end, keys[1] - self.shift + self.left)
        begin = min(begin, rows[1])
        return begin, max(begin, end)


class BlockBand(NamedTuple):
    """The blocks of rows and keys that have a pair of a band, as lists of blocks need whole ones."""
    band: Band
    rows_each: int
    keys_each: int

    left = property(lambda self: self.band.left)
    right = property(lambda self: self.band.right)
    shift = property(lambda self: self.band.shift)

    def keys(self, rows, keys):
        return self._whole(self.band.keys(rows, keys), keys, self.keys_each)

    def rows(self, rows, keys):
        return self._whole(self.band.rows(rows, keys), rows, self.rows_each)

    @staticmethod
    def _whole(part, span, each):
        begin, end = part
        return part if begin >= end else (max(span[0], begin // each * each), min(span[1], -(-end // each) * each))


def band_of(causal, left, right, shift):
    """The band of a causal mask, if there is one, and a window."""
    if causal:
        right = 0
    return Band(left, right, shift)


class Document(NamedTuple):
    """Rows that attend keys of their own alone: a packed sequence, or all rows and keys. Positions count from its begin."""
    rows: Tuple[int, int]
    keys: Tuple[int, int]
    band: Band
    number: int = 0


def documents_of(row_starts, key_starts, left, right, causal, from_corner):
    """The documents of packed sequences, whose first rows and keys `row_starts` and `key_starts` are, with the last's ends."""
    result = []
    for number, (rows, keys) in enumerate(zip(zip(row_starts, row_starts[1:]), zip(key_starts, key_starts[1:]))):
        shift = keys[1] - keys[0] - rows[1] + rows[0] if from_corner else 0
        result.append(Document(rows, keys, band_of(causal, left, right, shift), number))
    return result


def common(spans, span):
    """The parts of the spans that lie in a span, from whose begin they count."""
    begin, end = span
    parts = ((max(own[0], begin) - begin, min(own[1], end) - begin) for own in spans)
    return tuple(part for part in parts if part[0] < part[1])


def moved(spans, by):
    return tuple((begin + by, end + by) for begin, end in spans)


def needed(rows, keys, band):
    """The spans of `keys` that some row of `rows` may attend; both are lists of spans."""
    spans = []
    for key_span in keys:
        parts = [band.keys(row_span, key_span) for row_span in rows]
        parts = [part for part in parts if part[0] < part[1]]
        if parts:
            spans.append((min(begin for begin, _ in parts), max(end for _, end in parts)))
    return tuple(spans)


def needed_of(rows, keys, documents):
    """The same for rows and keys of documents."""
    spans = []
    for each in documents:
        own = needed(common(rows, each.rows), common(keys, each.keys), each.band)
        spans += moved(own, each.keys[0])
    return united(spans)


def _covering(spans, span):
    """The index of the one of `spans` in which a span lies, None if there is none."""
    return next((at for at, own in enumerate(spans) if own[0] <= span[0] and span[1] <= own[1]), None)


class Run(NamedTuple):
    """Documents one behind the other, with a span of the rows and a span of the keys that a rank has: one launch."""
    rows: Tuple[int, int]
    keys: Tuple[int, int]


def runs(rows, keys, documents):
    """The documents that have rows on a rank: runs of those that lie in one span of `rows` and one of `keys`, and the others, which
    ranks have parts of."""
    starts = [each.rows[0] for each in documents]
    found, cut, last = [], [], None
    for at, span in enumerate(rows):
        for number in range(max(0, bisect_right(starts, span[0]) - 1), len(documents)):
            own = documents[number]
            if own.rows[0] >= span[1]:
                break
            if own.rows[0] == own.rows[1] or own.rows[1] <= span[0]:
                continue
            there = _covering(keys, own.keys)
            if own.rows[0] < span[0] or span[1] < own.rows[1] or there is None:
                cut += [] if own in cut[-1:] else [own]
                last = None
            elif last == (at, there):
                before = found[-1]
                found[-1] = Run((before.rows[0], own.rows[1]), (before.keys[0], max(before.keys[1], own.keys[1])))
            else:
                found.append(Run(own.rows, own.keys))
                last = at, there
    return found, sorted(set(cut), key=lambda each: each.number)


class Part(NamedTuple):
    """A block of rows and keys, of keys that rank `source` has, and further keys."""
    rows: Tuple[int, int]
    keys: Tuple[int, int]
    source: int
    further: int = 0  # so many keys before `keys` in memory, wherever they are in the whole, all of which all rows attend
    document: int = 0  # the number of the document, from whose begin rows and keys count


def merged(parts, spans, band):
    """The parts, of keys that are in memory as `spans`, {source: spans}, with fewer launches, for a call without modifiers, to which
    positions are nothing but a mask: keys that all rows attend count as those before the next keys in memory, if all rows attend
    these as well under the band."""
    result = []
    for part in parts:
        before = result[-1] if result else None
        if before and before.rows == part.rows and before.source == part.source and band.left < 0:
            own = spans[part.source]
            adjacent = offset_in(own, before.keys[0]) + before.keys[1] - before.keys[0] == offset_in(own, part.keys[0])
            last = part.rows[0] + band.shift + band.right  # the last key that all rows attend
            if adjacent and (band.right < 0 or max(before.keys[1], part.keys[0]) - 1 <= last):
                result[-1] = part._replace(further=before.further + before.keys[1] - before.keys[0])
                continue
        result.append(part)
    return result


def segments(rows, keys, band):
    """Cuts the spans `rows` of a rank into segments whose rows all need the same keys, those of every rank in `keys`, {rank:
    spans}: a list of (segment, parts). The parts of a segment are in the order of `keys`."""
    result = []
    for span in rows:
        places = {span[0], span[1]}
        for spans in keys.values():
            for key_span in spans:
                begin, end = band.rows(span, key_span)
                if begin < end:
                    places |= {begin, end}
        cuts = sorted(places)
        for segment in zip(cuts, cuts[1:]):
            parts = [Part(segment, band.keys(segment, key_span), source) for source, spans in keys.items() for key_span in spans
                     if band.rows(segment, key_span)[0] < band.rows(segment, key_span)[1]]
            result.append((segment, [part for part in parts if part.keys[0] < part.keys[1]]))
    return result


def blocks(rows, keys, band, source):
    """The parts of all pairs of the spans `rows` and the spans `keys` of a rank that have a pair in the band."""
    result = []
    for row_span in rows:
        for key_span in keys:
            own_rows = band.rows(row_span, key_span)
            own_keys = band.keys(own_rows, key_span)
            if own_rows[0] < own_rows[1] and own_keys[0] < own_keys[1]:
                result.append(Part(own_rows, own_keys, source))
    return result


class Heads(NamedTuple):
    """A piece of the heads of a rank: the spans of its query heads and of the key heads that these share."""
    queries: Tuple[int, int]
    keys: Tuple[int, int]


def head_shares(query_heads, key_heads, ranks):
    """The heads of each rank, as Heads. Ranks share a key head where there are fewer key heads than ranks. Raises ValueError
    where these are no divisor of the ranks."""
    group = query_heads // max(key_heads, 1)
    if key_heads >= ranks or not key_heads:
        return [Heads((begin * group, end * group), (begin, end)) for begin, end in split(key_heads, ranks)]
    if ranks % key_heads:
        raise ValueError(f"the key heads must be a multiple or a divisor of the {ranks} ranks that exchange heads, but got "
                         f"{key_heads}; use method='ring'")
    sharing = ranks // key_heads
    result = []
    for head in range(key_heads):
        result += [Heads((head * group + begin, head * group + end), (head, head + 1)) for begin, end in split(group, sharing)]
    return result


def _sizes(count, pieces):
    """The numbers of things in pieces: the first and the last piece are small, since no computation hides their exchange."""
    if count < 2 or pieces < 2:
        return [count]
    if count < 4 or pieces < 3:
        return [1, count - 1]
    return [1, count - 2, 1]


def head_pieces(own, pieces):
    """Cuts the heads of a rank into at most `pieces` pieces, whose exchange can run while another is computed: at key heads, or
    if there is one key head, at query heads."""
    (begin, end), (k_begin, k_end) = own
    if k_end - k_begin > 1:
        return heads_cut(own, _sizes(k_end - k_begin, pieces))
    result = []
    for size in _sizes(end - begin, pieces):
        result.append(Heads((begin, begin + size), own.keys))
        begin += size
    return result


def heads_cut(heads, sizes):
    """Cuts heads into pieces with so many key heads."""
    (begin, end), (k_begin, k_end) = heads
    group, result = (end - begin) // max(k_end - k_begin, 1), []
    for size in sizes:
        result.append(Heads((begin, begin + size * group), (k_begin, k_begin + size)))
        begin, k_begin = result[-1].queries[1], result[-1].keys[1]
    return result
