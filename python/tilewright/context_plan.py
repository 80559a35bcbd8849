# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chooses how attention is distributed over the GPUs that hold a sequence. Needs no PyTorch.

    plan([131072], heads=64, key_heads=8, dim=128, ranks=8, causal=True)

Each rank has an equal part of the rows and keys, with all heads. The methods, of which docs/scale.md has pictures and costs:

    ring         K and V go around: each step computes on the keys that the last step received
    all_gather   each rank gets all K and V, and computes once
    heads        ranks exchange rows for heads (all to all), compute on whole sequences, and exchange back
    2d           heads are exchanged in groups of ranks, and K and V go around between the groups
"""

import functools
import math
from dataclasses import dataclass

from tilewright.context_cost import (FLOAT, Problem, Rates, Topology, Work, kernel_seconds, one_gpu, overlapped, share_ranges,
                                     size_of)
from tilewright.context_simulation import run_ring
from tilewright.gather_plan import GatherPlan
from tilewright.shares import Heads

METHODS = ("ring", "all_gather", "heads", "2d")
SHARES = ("contiguous", "zigzag", "balanced")
INNERS = ("heads", "ring")
CLOSE = 0.01  # of the time: a plan of less memory that is slower by less is chosen
SAMPLED = 8  # ranks that are computed where there are many
SIMULATED = 64  # ranks of a ring whose events are simulated; those of a larger ring are estimated


@dataclass(frozen=True)
class Plan:
    """How to distribute one call. Rank r is the `ring_rank(r)`-th of its ring and the `head_rank(r)`-th of its group."""
    method: str
    ranks: int
    ring: int  # ranks over which rows are distributed while attention is computed
    heads: int  # ranks over which heads are; ranks = ring * heads
    inner: str  # "heads" or "ring": the dimension whose ranks have neighbouring numbers
    shares: str  # "contiguous", "zigzag" or "balanced"
    row_ranges: tuple  # for each rank of the ring its ranges of rows, ((start, end), ...)
    key_ranges: tuple  # and of keys
    steps: int  # launches of the forward on each rank
    forward_seconds: float  # predicted
    backward_seconds: float  # 0 without training
    peak_bytes: int  # predicted for each rank: arguments, results and buffers of attention
    efficiency: float  # the time of one GPU, over that of all ranks together
    reason: str = ""

    @property
    def seconds(self):
        return self.forward_seconds + self.backward_seconds

    def ring_rank(self, rank):
        return rank // self.heads if self.inner == "heads" else rank % self.ring

    def head_rank(self, rank):
        return rank % self.heads if self.inner == "heads" else rank // self.ring

    def ring_members(self, head_rank=0):
        """The ranks of one ring, in order."""
        return [rank for rank in range(self.ranks) if self.head_rank(rank) == head_rank]

    def group_members(self, ring_rank=0):
        """The ranks that exchange heads."""
        return [rank for rank in range(self.ranks) if self.ring_rank(rank) == ring_rank]


class Refused(ValueError):
    """A method that a problem does not allow; the text is the reason."""


def _split_heads(problem, heads):
    """(heads of Q, heads of K) of a rank, where `heads` ranks exchange; key heads that are fewer are replicated."""
    if problem.heads % heads:
        raise Refused(f"{problem.heads} heads are not a multiple of {heads} ranks")
    if problem.key_heads % heads and heads % problem.key_heads:
        raise Refused(f"{problem.key_heads} key heads neither divide {heads} ranks, nor are a multiple of them")
    return problem.heads // heads, max(1, problem.key_heads // heads)


class _Layout:
    """A method with its sizes, whose costs are the methods."""

    def __init__(self, problem, topology, rates, work, method, ranks, heads, inner, shares):
        self.problem, self.topology, self.rates, self.work = problem, topology, rates, work
        self.method, self.ranks, self.heads, self.inner, self.shares = method, ranks, heads, inner, shares
        self.ring = ranks // heads
        self.q_heads, self.k_heads = _split_heads(problem, heads)
        if shares == "balanced":
            self.row_ranges = [[cut] for cut in work.cuts(self.ring)]
            self.key_ranges = self.row_ranges if problem.key_lengths is None else share_ranges(
                "contiguous", problem.key_rows, self.ring)
        else:
            self.row_ranges = share_ranges(shares, problem.rows, self.ring)
            self.key_ranges = share_ranges(shares, problem.key_rows, self.ring)
        self._between = work.shared.setdefault((self.ring, shares), {})
        self.most_rows = max(map(size_of, self.row_ranges))
        self.most_keys = max(map(size_of, self.key_ranges))

    # What moves.

    def across(self, index):
        """(whether the message from a rank of the ring to the next leaves its node, how many such messages do at a time)."""
        size, stride = self.topology.gpus_per_node, self.heads if self.inner == "heads" else 1
        here, there = index * stride, (index + 1) % self.ring * stride
        # Ranks of a node whose next rank is on another node.
        return here // size != there // size, min(stride, size)

    def hops(self, size):
        """Seconds of a message of `size` bytes from each rank of the ring to the next."""
        return [self.topology.hop(size, *self.across(index)) for index in range(self.ring)]

    def values_bytes(self, element):
        """Bytes of the largest message of K and V, in the heads of a rank: a share, or for a window what a neighbour sees."""
        p = self.problem
        return p.batch * self.moved_keys * self.k_heads * (p.dim + p.value_dim) * element

    @functools.cached_property
    def moved_keys(self):
        if self.wraps():
            return self.most_keys
        return max((self.touched(rank, offset)[1] for rank in self.sampled for offset in self.offsets if offset), default=0)

    def exchange_seconds(self):
        """All to all of Q, K and V before the forward and of O behind it; the backward's, of dO and then of dQ, dK and dV, has
        as many bytes."""
        if self.heads == 1:
            return 0.0
        p, t = self.problem, self.topology
        keys = max(p.key_heads, self.heads)  # with copies
        rows = -(-p.rows // self.ranks) * (p.heads * (p.dim + p.value_dim)) + -(-p.key_rows // self.ranks) * keys * (p.dim + p.value_dim)
        size = p.batch * rows * p.element_bytes
        group = self.group()
        inside = sum(rank // t.gpus_per_node == group[0] // t.gpus_per_node for rank in group) - 1
        outside = len(group) - 1 - inside
        latency = t.network_latency if outside else t.node_latency
        return 2 * latency + max(size * inside / len(group) / t.node_rate,
                                 size * outside / len(group) / min(t.network_rate, t.of_node / t.gpus_per_node))

    def group(self):
        return list(range(self.heads)) if self.inner == "heads" else [index * self.ring for index in range(self.heads)]

    def gather_seconds(self, element):
        """All K and V to each rank, or their gradients back, summed."""
        p, t = self.problem, self.topology
        size = p.batch * p.key_rows * self.k_heads * (p.dim + p.value_dim) * element
        nodes = t.nodes(range(self.ranks))
        latency = (self.ring - nodes) * t.node_latency / max(1, nodes) + (nodes - 1) * t.network_latency
        return latency + max(size * (self.ring - 1) / self.ring / t.node_rate, size * (nodes - 1) / nodes / t.of_node)

    def pieces(self, direction):
        """The parts of the heads that a gathering exchanges one after the other, which add up to 1."""
        heads = Heads((0, self.q_heads), (0, self.k_heads))
        cut = GatherPlan.forward_heads(heads) if direction == "forward" else GatherPlan.backward_heads(heads)
        return [(piece.keys[1] - piece.keys[0]) / self.k_heads for piece in cut]

    # What is computed.

    @functools.cached_property
    def sampled(self):
        """Ranks of the ring that stand for all."""
        if self.ring <= SIMULATED:
            return list(range(self.ring))
        return sorted({index * (self.ring - 1) // (SAMPLED - 1) for index in range(SAMPLED)})

    @functools.cached_property
    def reach(self):
        """How far before a rank, and how far after it, the owners of its keys are."""
        if self.problem.is_open and len(self.problem.lengths) == 1:
            return self.ring - 1, self.ring - 1
        apart = {rank - other for rank in self.sampled for other in range(self.ring) if self.between(rank, other)}
        return max((each for each in apart if each > 0), default=0), max((-each for each in apart if each < 0), default=0)

    @functools.cached_property
    def offsets(self):
        """How far the owner of the keys of each step is before a rank, step by step. A window needs those of some neighbours only."""
        before, after = self.reach
        return list(range(self.ring)) if self.wraps() else [*range(before + 1), *range(-1, -after - 1, -1)]

    def between(self, rank, other):
        """The work of a rank's rows on the keys of another."""
        if (rank, other) not in self._between:
            self._between[rank, other] = self.work.of(self.row_ranges[rank], self.key_ranges[other])
        return self._between[rank, other]

    def wraps(self):
        """Whether all keys go around to all ranks."""
        return sum(self.reach) + 1 > self.ring

    def step_work(self, rank, offset):
        """The work of a rank on the keys of the rank `offset` before it; 0 if there is no such rank."""
        other = (rank - offset) % self.ring if self.wraps() else rank - offset
        return self.between(rank, other) if 0 <= other < self.ring else 0

    def touched(self, rank, offset):
        """How many rows of a rank see keys of the rank `offset` before it, and how many keys they see."""
        other = rank - offset
        if self.wraps() or not offset:
            return size_of(self.row_ranges[rank]), self.most_keys
        return self.work.touched(self.row_ranges[rank], self.key_ranges[other]) if 0 <= other < self.ring else (0, 0)

    def merge_seconds(self, rows, direction):
        """Reads a step's partial result, and reads and writes the sum of those before, in f32."""
        p = self.problem
        if direction == "forward":
            elements = rows * self.q_heads * (p.value_dim + 1)
        else:
            elements = rows * self.q_heads * p.dim + self.moved_keys * self.k_heads * (p.dim + p.value_dim)
        return self.rates.launch + 3 * FLOAT * p.batch * elements / self.rates.memory

    def step_seconds(self, rank, step, direction):
        """What a rank computes in a step."""
        rows = self.touched(rank, self.offsets[step])[0]
        work = self.step_work(rank, self.offsets[step])
        if not work:
            return 0.0
        kernel = kernel_seconds(work, rows, self.q_heads, self.problem, self.rates, direction)
        return kernel + (self.merge_seconds(rows, direction) if step else 0.0)

    def whole_seconds(self, direction):
        """The slowest rank, where each has all keys of its heads."""
        everything = [(0, self.problem.key_rows)]
        return max(kernel_seconds(self.work.of(self.row_ranges[rank], everything), size_of(self.row_ranges[rank]), self.q_heads,
                                  self.problem, self.rates, direction) for rank in self.sampled)

    def gathering_seconds(self, direction):
        """K and V of the first piece of heads; then kernels, while the others arrive, before those of the second piece begin. In the
        backward, dK and dV of all pieces but the last return meanwhile. Sums are in f32."""
        p, pieces = self.problem, self.pieces(direction)
        first, last = pieces[0], pieces[-1]
        values, kernel = self.gather_seconds(p.element_bytes), self.whole_seconds(direction)
        sums = self.gather_seconds(FLOAT) if direction == "backward" else 0.0
        late = max(0.0, values * (1 - first) - overlapped(kernel * first, values * (1 - first), self.topology, self.rates)[0])
        total = values * first + late + sums * last
        total += overlapped(kernel, values * (1 - first) + sums * (1 - last), self.topology, self.rates)[1]
        if direction == "backward":
            added = (FLOAT * self.ring + p.element_bytes) * self.most_keys * self.k_heads * (p.dim + p.value_dim)
            converted = (FLOAT + p.element_bytes) * self.most_rows * self.q_heads * p.dim
            total += self.rates.launch + p.batch * (added / self.rates.adding + converted / self.rates.memory)
            total += self.rates.uneven * kernel
        return total

    def transfers(self, direction):
        """Seconds of the messages from each rank: (K and V, dK and dV or None)."""
        values = self.hops(self.values_bytes(self.problem.element_bytes))
        return values, self.hops(self.values_bytes(FLOAT)) if direction == "backward" else None

    def under_step(self, step, values, sums):
        """Seconds of messages while a step computes: K and V of the next step, dK and dV of that before."""
        return (values if step + 1 < len(self.offsets) else 0.0) + (sums if step else 0.0)

    def simulated(self, direction):
        """Seconds of the ring, by the simulation of its events; a rank that is not sampled computes as long as the nearest
        that is."""
        values, sums = self.transfers(direction)
        kernels = {}
        for rank in self.sampled:
            moved = [self.under_step(step, values[rank], sums[rank] if sums else 0.0) for step in range(len(self.offsets))]
            kernels[rank] = [overlapped(self.step_seconds(rank, step, direction), transfer, self.topology, self.rates)[0]
                             for step, transfer in enumerate(moved)]
        kernels = [kernels[min(self.sampled, key=lambda other: abs(rank - other))] for rank in range(self.ring)]
        return run_ring(kernels, self.offsets, values, sums, self.wraps())

    def estimated(self, direction):
        """Seconds of the ring: of steps which are as long as their slowest rank, or the slowest messages under it."""
        values, sums = (max(each) if each else 0.0 for each in self.transfers(direction))
        total = sums if len(self.offsets) > 1 else 0.0
        for step in range(len(self.offsets)):
            kernel = max(self.step_seconds(rank, step, direction) for rank in self.sampled)
            total += overlapped(kernel, self.under_step(step, values, sums), self.topology, self.rates)[1]
        return total

    def ring_seconds(self, direction, simulate):
        return self.simulated(direction) if simulate or self.ring <= SIMULATED else self.estimated(direction)

    def seconds(self, direction, simulate=False):
        if self.method == "all_gather":
            return self.gathering_seconds(direction)
        inside = self.whole_seconds(direction) if self.ring == 1 else self.ring_seconds(direction, simulate)
        return inside + self.exchange_seconds()

    # What is kept.

    def peak_bytes(self, training):
        p = self.problem
        element = p.element_bytes
        rows, keys = -(-p.rows // self.ranks), -(-p.key_rows // self.ranks)
        if self.heads == 1:
            rows, keys = self.most_rows, self.most_keys
        arguments = rows * p.heads * p.dim + keys * p.key_heads * (p.dim + p.value_dim)
        result = rows * p.heads * p.value_dim
        local = element * (arguments + result) + FLOAT * rows * p.heads
        if training:  # with dO, dQ, dK and dV
            local += element * (result + arguments)
        q, o = self.most_rows * self.q_heads * p.dim, self.most_rows * self.q_heads * p.value_dim
        kv = self.most_keys * self.k_heads * (p.dim + p.value_dim)
        if self.heads > 1:  # the same in the heads of this rank
            local += element * (q + kv + o) * (2 if training else 1) + FLOAT * self.most_rows * self.q_heads
        every = p.key_rows * self.k_heads * (p.dim + p.value_dim)
        sums = FLOAT * (2 * q + 3 * kv)  # dQ, also a kernel's, and dK and dV: the own, those of a step, and those that arrive
        if self.method == "all_gather":
            part = max(self.pieces("backward"))  # of the sums, of which those of two pieces are in memory
            more = element * every + (int(FLOAT * part * (2 * q + 2 * every + 2 * (self.ring - 1) * kv)) if training else 0)
        elif self.ring > 1:
            more = min(2, self.ring - 1) * element * kv + (max(FLOAT * o, sums) if training else FLOAT * o)
        else:  # a kernel's sum of dQ, and where ranks share key heads, dK and dV
            more = FLOAT * (q + (kv if self.k_heads * self.heads > p.key_heads else 0)) if training else 0
        return p.batch * (local + more)


def _as_problem(lengths, heads, key_heads, dim, value_dim, batch, key_lengths, causal, window, align, element_bytes):
    return Problem(tuple(lengths), heads, heads if key_heads is None else key_heads, dim, dim if value_dim is None else value_dim,
                   batch, None if key_lengths is None else tuple(key_lengths), bool(causal), tuple(window), align, element_bytes)


def layouts(problem, ranks, topology, rates, methods=METHODS, shares=SHARES, inners=INNERS):
    """All layouts of a problem on `ranks` GPUs, and {method: why it has none}."""
    found, refused, work = [], {}, Work(problem, rates)
    cuts = ["contiguous"] + (["zigzag"] if not problem.is_open else []) + (["balanced"] if len(problem.lengths) > 1 else [])
    cuts = [cut for cut in cuts if cut in shares]

    def add(method, heads, inner, cut):
        try:
            found.append(_Layout(problem, topology, rates, work, method, ranks, heads, inner, cut))
        except Refused as error:
            refused.setdefault(method, str(error))

    for method in methods:
        if method in ("ring", "all_gather"):
            for cut in cuts:
                add(method, 1, "ring", cut)
        elif method == "heads":
            add(method, ranks, "heads", "contiguous")
        else:
            refused[method] = f"no number between 1 and {ranks} divides both ranks and heads"
            for heads in (n for n in range(2, ranks) if ranks % n == 0 and problem.heads % n == 0):
                for inner in inners:
                    for cut in cuts:
                        add(method, heads, inner, cut)
    for layout in found:
        refused.pop(layout.method, None)
    return found, refused


def candidates(problem, ranks, topology, rates, training=True, methods=METHODS, shares=SHARES, simulate=False,
               groups=None, inners=INNERS):
    """The plans of all layouts, without reasons; and {method: why it has none}. With `simulate`, rings of any size are
    simulated, which takes seconds for one of a thousand ranks. `groups` limits the numbers of ranks that exchange heads."""
    alone = {direction: one_gpu(problem, rates, direction) for direction in ("forward", "backward")}
    found, refused = layouts(problem, ranks, topology, rates, methods, shares, inners)
    plans = []
    for layout in found:
        if groups and layout.heads not in groups:
            continue
        forward = layout.seconds("forward", simulate)
        backward = layout.seconds("backward", simulate) if training else 0.0
        ideal = alone["forward"] + (alone["backward"] if training else 0.0)
        ranges = [tuple(map(tuple, each)) for each in (layout.row_ranges, layout.key_ranges)]
        steps = 1 if layout.method == "all_gather" else len(layout.offsets)
        plans.append(Plan(layout.method, ranks, layout.ring, layout.heads, layout.inner, layout.shares, *ranges, steps, forward,
                          backward, layout.peak_bytes(training), ideal / (ranks * (forward + backward)) if ideal else 1.0))
    return plans, refused


def fastest(plans):
    """Of the plans whose time is within CLOSE of the least, that of the least memory."""
    least = min(plan.seconds for plan in plans)
    return min((plan for plan in plans if plan.seconds <= least * (1 + CLOSE)), key=lambda plan: plan.peak_bytes)


def _gib(size):
    return f"{size / 2**30:.3g} GiB"


def describe(plan):
    """The method of a plan and its sizes, in words."""
    if plan.method == "2d":
        return f"heads over {plan.heads} neighbours, ring of {plan.ring}" if plan.inner == "heads" else \
            f"ring of {plan.ring} neighbours, heads over {plan.heads}"
    return f"{plan.method} of {plan.ranks} ranks"


def _reason(chosen, plans, refused, too_large):
    parts = [f"{describe(chosen)}, {chosen.shares} shares: {chosen.seconds * 1e3:,.4g} ms, {chosen.efficiency:.0%} of {chosen.ranks} "
             f"times one GPU, {_gib(chosen.peak_bytes)} on each"]
    for method in METHODS:
        others = [plan for plan in plans if plan.method == method]
        if method == chosen.method:
            continue
        if others and chosen.seconds:
            parts.append(f"{method} {min(plan.seconds for plan in others) / chosen.seconds:.2f} times as long")
        elif method in too_large:
            parts.append(f"{method} needs {_gib(too_large[method])}")
        elif method in refused:
            parts.append(f"no {method}: {refused[method]}")
    return "; ".join(parts)


def plan(lengths, heads, key_heads=None, dim=128, value_dim=None, *, ranks, batch=1, key_lengths=None, causal=False,
         window=(-1, -1), align="top_left", element_bytes=2, training=True, memory=None, topology=Topology(), rates=Rates(),
         methods=METHODS, shares=SHARES, inners=INNERS):
    """The plan that is predicted to be fastest, for attention with the arguments of tilewright.attention.

    `lengths` are the rows of all ranks together, one number for each document of a packed sequence; `key_lengths` those of the
    keys, if they differ. `element_bytes` is 2 for f16 and bf16. With `training`, the backward counts. `memory` is the number
    of bytes that a rank has for attention: plans that need more are not chosen. `methods`, `shares` and `inners` limit the choice.
    Raises ValueError for arguments that no attention has, and if no method is left.

    The plan depends on the arguments alone, so that all ranks choose the same. It takes milliseconds for 8 ranks, and seconds
    for 1,024; keep it for calls of the same shape."""
    problem = _as_problem(lengths, heads, key_heads, dim, value_dim, batch, key_lengths, causal, window, align, element_bytes)
    if ranks < 1:
        raise ValueError(f"ranks must be positive, but got {ranks}")
    for name, given, known in (("methods", methods, METHODS), ("shares", shares, SHARES), ("inners", inners, INNERS)):
        unknown = [each for each in given if each not in known]
        if unknown or not given:
            raise ValueError(f"{name} must be some of {', '.join(known)}, but got {', '.join(map(repr, unknown)) or 'none'}")
    plans, refused = candidates(problem, ranks, topology, rates, training, tuple(methods), tuple(shares), inners=tuple(inners))
    if not plans:
        raise ValueError("no method distributes this attention: " + "; ".join(f"{name}: {why}" for name, why in refused.items()))
    fitting = [each for each in plans if memory is None or each.peak_bytes <= memory]
    if not fitting:
        least = min(plans, key=lambda each: each.peak_bytes)
        raise ValueError(f"attention must fit into {_gib(memory)} on each rank, but the least, {describe(least)}, needs "
                         f"{_gib(least.peak_bytes)}; distribute over more ranks, or fewer rows")
    smallest = {}
    for each in plans:
        smallest[each.method] = min(each.peak_bytes, smallest.get(each.method, math.inf))
    chosen = fastest(fitting)
    too_large = {method: size for method, size in smallest.items() if all(each.method != method for each in fitting)}
    return Plan(**{**vars(chosen), "reason": _reason(chosen, fitting, refused, too_large)})
