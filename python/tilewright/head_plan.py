# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the ranks of a line send each other to exchange heads for rows (tilewright.head_exchange runs it): the heads of each piece, and
the columns of messages. Numbers only: computed once for calls of the same shape. Does not need PyTorch.

Messages are rows of a matrix [rows, batch, width], whose columns are those heads of all tensors that the receiver computes: of Q, of K
and of V. So what all ranks of a line send lies one below the other in the matrix of the receiver."""

from typing import NamedTuple, Tuple

from tilewright import shares
from tilewright.shares import offset_in, rows_of

NONE = shares.Heads((0, 0), (0, 0))


class Field(NamedTuple):
    """Columns of a matrix: heads of one tensor."""
    tensor: int  # its number among those that are exchanged together
    heads: Tuple[int, int]
    width: int  # of a head
    begin: int  # the first column


class Fields(NamedTuple):
    """The columns of a matrix: those of each tensor, those of each tensor of each piece, {(piece, tensor): field}, and their number."""
    tensors: Tuple[Field, ...]
    pieces: dict
    width: int


class Member(NamedTuple):
    """A rank of the line. Its rows are spans, one below the other in its own tensors, anywhere in those of the line: pairs of
    ranges, (begin, end) in its tensors and the begin in the line's."""
    rank: int
    column: int
    spans: Tuple[Tuple[int, int, int], ...]


class HeadPlan:
    """The plan of the rank in one of the columns of a line."""

    def __init__(self, heads, pieces, column, ranks, rows, keys, line_rows, line_keys):
        cut = [shares.head_pieces(own, pieces) for own in heads]
        self.count = max(map(len, cut))
        self.pieces = [own + [NONE] * (self.count - len(own)) for own in cut]  # by column
        self.column, self.own = column, self.pieces[column]
        self.is_new = [[piece == 0 or own[piece].keys != own[piece - 1].keys for piece in range(self.count)] for own in self.pieces]
        self.is_last = [new[1:] + [True] for new in self.is_new]
        # Where ranks or pieces share key heads, their terms are added.
        self.shared = len({own.keys for own in heads}) < len(heads) or not all(map(all, self.is_new))
        self.members = {of: [Member(rank, at, _spans(spans[rank], line)) for at, rank in enumerate(ranks)]
                        for of, spans, line in (("queries", rows, line_rows), ("keys", keys, line_keys))}
        self.rows = {of: rows_of(spans[ranks[column]]) for of, spans in (("queries", rows), ("keys", keys))}
        self.line_rows = {"queries": rows_of(line_rows), "keys": rows_of(line_keys)}
        self.is_self = self.members["queries"] == self.members["keys"]  # whether queries and keys are the same rows
        self._fields = {}

    def fields(self, column, pieces, tensors, all_keys=False):
        """The columns of the matrix of a column of the grid: `tensors` are (whether of "queries" or "keys", width of a head). Heads of
        keys are in the first piece that has them, or with `all_keys` in each."""
        key = column, pieces, tensors, all_keys
        if key not in self._fields:
            whole, parts, at = [], {}, 0
            for number, (of, width) in enumerate(tensors):
                own = [(piece, getattr(self.pieces[column][piece], of)) for piece in pieces
                       if of == "queries" or all_keys or self.is_new[column][piece]]
                # Heads of pieces are one behind the other.
                spans = shares.united(heads for _, heads in own) or ((0, 0),)
                whole.append(Field(number, spans[0], width, at))
                for piece, heads in own:
                    inside = (heads[0] - spans[0][0]) * width if heads[0] < heads[1] else 0
                    parts[piece, number] = Field(number, heads, width, at + inside)
                at += (spans[0][1] - spans[0][0]) * width
            self._fields[key] = Fields(tuple(whole), parts, at)
        return self._fields[key]

    def describe(self):
        own = "; ".join(f"heads {piece.queries[0]}-{piece.queries[1]} on key heads {piece.keys[0]}-{piece.keys[1]}" for piece in self.own)
        others = [member for member in self.members["queries"] if member.column != self.column]
        messages = sum(len(member.spans) for member in others)
        return [f"pieces: {own}", f"an exchange of a piece: {messages} messages from {len(others)} ranks"]


def _spans(spans, line):
    result, at = [], 0
    for begin, end in spans:
        result.append((at, at + end - begin, offset_in(line, begin)))
        at += end - begin
    return tuple(result)
