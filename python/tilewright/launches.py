# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of attention whose rows are distributed over ranks (tilewright.distributed): where rows and heads are, and launches of kernels
on parts of them. Tensors have the layout of the kernels, [batch, heads, rows, width]; packed sequences have a batch of 1."""

import functools
from typing import Any, NamedTuple, Tuple

import torch

from tilewright import shares
from tilewright.choice import Choice, ShardChoice
from tilewright.gather_plan import GatherPlan
from tilewright.head_plan import HeadPlan
from tilewright.ops import LIST_SIZES, dense_rows, sum_type
from tilewright.plans import TYPES, launch, plan
from tilewright.ring_plan import RingPlan


class Layout:
    """Where the rows and heads of a call are. The ranks of a group are a grid of `heads_size` columns. In a row of the grid, a line,
    ranks exchange heads for rows: each then has all rows of the line, for some heads. Along a column, keys and values pass around
    in a ring, or are gathered. Ranks of a line are neighbours, or with `inner` "ring" those of a column are.

    A layout depends on shapes alone, and is kept for calls of the same shapes, with what it plans for them."""

    def __init__(self, group, heads_size, inner, at_once, pieces, rows, keys, heads, documents, fuses, rows_first):
        self.group, self.heads_size, self.at_once = group, heads_size, at_once  # whether keys are gathered: see gathers
        self.lines = group.size // heads_size
        self.strides = (heads_size, 1) if inner == "heads" else (1, self.lines)
        self.line, self.column = (group.rank // stride % count for stride, count in zip(self.strides, (self.lines, heads_size)))
        self.rows, self.keys = rows, keys  # the spans of each rank
        self.heads = tuple(shares.head_shares(*heads, heads_size))  # the heads of each column
        self.pieces = pieces  # into how many pieces the exchange of heads is cut at most
        self.documents, self.fuses = documents, fuses
        self.rows_first = rows_first  # whether all ranks have keys as [rows, batch, heads, width] in memory
        self.line_rows, self.line_keys = ([self._spans(of, line) for line in range(self.lines)] for of in (rows, keys))
        self.gates = {}  # see exchange.post_beside

    def rank_at(self, line, column):
        return line * self.strides[0] + column * self.strides[1]

    def members(self, line):
        """The ranks of a line."""
        return [self.rank_at(line, column) for column in range(self.heads_size)]

    def _spans(self, of, line):
        return shares.united(span for rank in self.members(line) for span in of[rank])

    @property
    def is_alone(self):
        """Whether a rank has all rows and keys for its heads."""
        return self.lines == 1

    @functools.cached_property
    def ring(self):
        return RingPlan(self.line, self.line_rows, self.line_keys, self.documents, self.fuses)

    @functools.cached_property
    def gather(self):
        return GatherPlan(self.line, self.line_rows, self.line_keys, self.documents, self.fuses)

    @functools.cached_property
    def exchange(self):
        return HeadPlan(self.heads, self.pieces, self.column, self.members(self.line), self.rows, self.keys, self.line_rows[self.line],
                        self.line_keys[self.line])

    def describe(self):
        """What a call exchanges and computes on this rank, in lines of text."""
        result = [f"rank {self.group.rank}: line {self.line} of {self.lines}, column {self.column} of {self.heads_size}"]
        result += self.exchange.describe() if self.heads_size > 1 else []
        keys = None if self.lines == 1 else self.gather if self.at_once else self.ring
        return "\n".join(result + (keys.describe() if keys else []))


class Call(NamedTuple):
    """A call, but for its tensors."""
    layout: Layout
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


@functools.lru_cache(maxsize=None)
def _choice(kernel, dtype, dim, value_dim, mode, has_window, modifier, packed, lists, shard, continued, kind, deterministic, captured):
    backward = dict(deterministic=deterministic, captured=captured) if kernel == "backward" else {}
    whole = Choice(kernel, dtype, dim, value_dim, mode, has_window, modifier, packed=packed, lists=lists, **backward)
    return ShardChoice(whole, True, continued, kind) if shard or continued or kind else whole


def _plan_of(call, kernel, q, v, more, place, packed, continued=False, result=None, captured=False):
    """The plan of a launch, and whether it takes places."""
    lists = tuple(more[name] for name in LIST_SIZES if name in more)
    kind = TYPES[result] if result is not None and result != q.dtype else ""
    choice = _choice(kernel, TYPES[q.dtype], q.shape[-1], v.shape[-1], call.mode, call.left >= 0 or call.right >= 0, call.modifier,
                     packed, lists, place is not None, continued, kind, call.deterministic, captured)
    return plan(choice, q.device), isinstance(choice, ShardChoice)


def _values(call, more, place, takes_place):
    values = {name: x for name, x in more.items() if name not in LIST_SIZES}
    values |= {"scale": call.scale, "window_left": call.left, "window_right": call.right}
    return values | (place or place_of()) if takes_place else values


def place_of(first_row=0, first_key=0, first_head=0, diagonal=0, first_batch=0):
    return {"first_row": first_row, "first_key": first_key, "diagonal": diagonal, "first_head": first_head, "first_batch": first_batch}


def launch_forward(call, q, k, v, more, place, o, lse, before=None, packed=False):
    """Writes O and LSE of the keys to o and lse; with `before`, of those and its O and LSE."""
    found, takes_place = _plan_of(call, "forward", q, v, more, place, packed, before is not None, o.dtype)
    values = {"q": dense_rows(q), "k": dense_rows(k), "v": dense_rows(v), "o": o, "lse": lse, **_values(call, more, place, takes_place)}
    if before is not None:
        values |= {"o_before": before[0], "lse_before": before[1]}
    launch(found, values, ("o", "lse"), q.device)


def launch_backward(call, do, dlse, q, k, v, o, lse, more, wanted, place, gradients, packed=False):
    """Writes dQ, dK and dV to `gradients`, and returns those of the captures `wanted`, {name: tensor}."""
    found, takes_place = _plan_of(call, "backward", q, v, more, place, packed, False, gradients[0].dtype, bool(wanted))
    captured = {}
    for name in wanted:
        if not found.takes(f"d_{name}"):
            raise ValueError(f"the gradient of capture '{name}' must be one that the kernel computes, but this backward "
                             "has none; detach the tensor")
        captured[name] = more[name].new_empty(more[name].shape, dtype=sum_type(more[name]))
    values = {"q": dense_rows(q), "k": dense_rows(k), "v": dense_rows(v), "o": dense_rows(o), "do": dense_rows(do), "lse": lse,
              "dlse": dlse, **dict(zip(("dq", "dk", "dv"), gradients)), **_values(call, more, place, takes_place),
              **{f"d_{name}": x for name, x in captured.items()}}
    launch(found, values, ("dq", "dk", "dv", *(f"d_{name}" for name in captured)), q.device)
    return captured


def lists_of_heads(more, heads):
    """The arguments with the lists of blocks of some heads; others are those of all."""
    begin, end = heads
    lists = {name: more[name][:, begin:end] for name in ("kv_indices", "kv_num_blocks") if name in more and more[name].shape[1] > 1}
    return more | lists


def lists_of_part(more, first_row, rows, first_key, keys):
    """The arguments with the lists of blocks of a part of the rows and keys: blocks of other keys get a number that no key has."""
    if "kv_indices" not in more:
        return more
    row_block, key_block = (more[name] for name in LIST_SIZES)
    begin, end, first, count = first_row // row_block, -(-(first_row + rows) // row_block), first_key // key_block, -(-keys // key_block)
    numbers = more["kv_indices"][:, :, begin:end] - first
    numbers = torch.where((numbers >= 0) & (numbers < count), numbers, count).to(torch.int32)
    return more | {"kv_indices": numbers, "kv_num_blocks": more["kv_num_blocks"][:, :, begin:end].contiguous()}


def add_terms(sums, terms):
    for name, x in terms.items():
        sums[name] = sums[name].add_(x) if name in sums else x
