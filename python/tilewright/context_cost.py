# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What attention costs when its sequence is on several GPUs: pairs, seconds and bytes. Needs no PyTorch.

docs/scale.md has the formulas. Every constant of the model is a default of `Topology` or of `Rates`.
"""

import bisect
import functools
import itertools
import math
from dataclasses import dataclass, field

FLOAT = 4  # bytes of what is summed over several GPUs


@dataclass(frozen=True)
class Topology:
    """How GPUs are linked. Ranks are numbered node by node. Rates are bytes in a second, each way; latencies are seconds."""
    gpus_per_node: int = 8
    node_rate: float = 248e9  # of a GPU inside its node; 244e9 to 271e9 between two H200 (docs/figures/links-2xh200.json)
    network_rate: float = 46e9  # of a GPU across nodes: 400 Gb/s for each GPU, of which 92% carry data (assumed)
    node_network_rate: float = None  # of a whole node across nodes; by default gpus_per_node times network_rate
    node_latency: float = 20e-6  # of a message, from the launch to the data; 17e-6 for a send, 28e-6 for a collective there
    network_latency: float = 35e-6  # (assumed)
    copy_sms: int = 21  # multiprocessors that NCCL takes from attention while data moves: 15.8% of 132 there

    def __post_init__(self):
        for name in ("gpus_per_node", "node_rate", "network_rate", "node_network_rate"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"topology: {name} must be positive, but got {value}")
        for name in ("node_latency", "network_latency", "copy_sms"):
            if getattr(self, name) < 0:
                raise ValueError(f"topology: {name} must not be negative, but got {getattr(self, name)}")

    @property
    def of_node(self):
        """Bytes in a second that leave a node."""
        return self.node_network_rate or self.gpus_per_node * self.network_rate

    def nodes(self, ranks):
        """How many nodes a list of ranks is on."""
        return len({rank // self.gpus_per_node for rank in ranks})

    def hop(self, size, across, flows=1):
        """Seconds for `size` bytes from one GPU to another; across nodes, `flows` such messages leave the node at a time."""
        if not size:
            return 0.0
        if not across:
            return self.node_latency + size / self.node_rate
        return self.network_latency + size / min(self.network_rate, self.of_node / flows)


@dataclass(frozen=True)
class Rates:
    """How fast one GPU computes: an H200, fitted to docs/figures/h200.json (bf16)."""
    forward: dict = field(default_factory=lambda: {64: 632e12, 128: 858e12, 256: 865e12})  # FLOP/s of long sequences, by width
    backward: dict = field(default_factory=lambda: {64: 578e12, 128: 692e12, 256: 576e12})
    wide: float = 30e12  # FLOP/s for elements of more than two bytes (assumed)
    row_keys: int = 200  # what a row costs besides its pairs, in pairs: loads of Q, stores of O, the first copies
    edge_keys: int = 100  # pairs that are computed and masked in a row where an edge of the mask is, in blocks
    sms: int = 132
    tile_rows: int = 128  # rows of a thread block
    memory: float = 4.0e12  # bytes in a second to and from device memory
    adding: float = 1.5e12  # where PyTorch adds f32 of rows with strides, and converts them, beside messages
    launch: float = 10e-6  # seconds of a launch, with its end
    uneven: float = 0.03  # of kernels of pieces, behind each of which ranks wait for the slowest

    def flops(self, direction, dim, element_bytes):
        """FLOP/s for heads of width `dim`: of the narrowest measured width that is not narrower, else of the widest."""
        if element_bytes > 2:
            return self.wide
        table = getattr(self, direction)
        return table[min((width for width in table if width >= dim), default=max(table))]


@dataclass(frozen=True)
class Problem:
    """One call of attention over whole sequences, on no GPU yet. `lengths` are the rows of its documents, which lie one
    after the other and do not see each other; `key_lengths` those of their keys, if they differ."""
    lengths: tuple
    heads: int
    key_heads: int
    dim: int
    value_dim: int
    batch: int = 1
    key_lengths: tuple = None
    causal: bool = False
    window: tuple = (-1, -1)  # keys to the left and to the right of the diagonal; -1 is open
    align: str = "top_left"  # or bottom_right: where the diagonal is, if lengths and key_lengths differ
    element_bytes: int = 2

    def __post_init__(self):
        for name in ("heads", "key_heads", "dim", "value_dim", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, but got {getattr(self, name)}")
        if self.heads % self.key_heads:
            raise ValueError(f"heads must be a multiple of key_heads, but got {self.heads} and {self.key_heads}")
        if not self.lengths or min(self.lengths) < 0 or min(self.keys) < 0:
            raise ValueError(f"lengths must be one or more numbers that are not negative, but got {self.lengths}")
        if len(self.keys) != len(self.lengths):
            raise ValueError(f"key_lengths must have one number for each document, but got {len(self.keys)} for {len(self.lengths)}")
        if min(self.window) < -1:
            raise ValueError(f"window must have numbers of keys, or -1, but got {self.window}")
        if self.align not in ("top_left", "bottom_right"):
            raise ValueError(f"align must be 'top_left' or 'bottom_right', but got {self.align!r}")
        if self.element_bytes not in (2, 4, 8):
            raise ValueError(f"element_bytes must be 2, 4 or 8, but got {self.element_bytes}")

    @property
    def keys(self):
        return self.lengths if self.key_lengths is None else self.key_lengths

    @functools.cached_property
    def starts(self):
        """Where documents begin: (in the rows, in the keys), each with the end of the last."""
        return tuple((0, *itertools.accumulate(lengths)) for lengths in (self.lengths, self.keys))

    @property
    def rows(self):
        return self.starts[0][-1]

    @property
    def key_rows(self):
        return self.starts[1][-1]

    @functools.cached_property
    def is_open(self):
        """Whether each row of a document sees all its keys."""
        return not self.causal and self.window == (-1, -1)

    def edges(self, document):
        """The least and the greatest j - i that are kept, with i and j in the document."""
        shift = self.keys[document] - self.lengths[document] if self.align == "bottom_right" else 0
        left, right = self.window
        right = 0 if self.causal else right
        return -math.inf if left < 0 else shift - left, math.inf if right < 0 else shift + right


def _triangle(n):
    return n * (n + 1) // 2 if n > 0 else 0


def _up_to(rows, keys, most):
    """Pairs of two ranges with j - i <= most."""
    (q0, q1), (k0, k1) = rows, keys
    if most == math.inf:
        return (q1 - q0) * (k1 - k0)
    if most == -math.inf:
        return 0

    def clipped(start):  # the sum over i of max(0, i + most + 1 - start)
        return _triangle(q1 + most - start) - _triangle(q0 + most - start)

    return clipped(k0) - clipped(k1)


def kept_pairs(rows, keys, low, high):
    """How many pairs (i, j) of the ranges `rows` and `keys` have low <= j - i <= high."""
    if rows[0] >= rows[1] or keys[0] >= keys[1] or low > high:
        return 0
    return _up_to(rows, keys, high) - _up_to(rows, keys, low - 1)


def _common(a, b):
    return max(0, min(a[1], b[1]) - max(a[0], b[0]))


def block_work(rows, keys, low, high, rates):
    """The work of one range of rows on one of keys, in pairs: those kept, those masked in blocks at an edge, and what the
    rows themselves cost."""
    pairs = kept_pairs(rows, keys, low, high)
    if not pairs:
        return 0
    at_edges = sum(_common(rows, (keys[0] - edge, keys[1] - edge)) for edge in (low, high) if abs(edge) != math.inf)
    seen = (max(rows[0], keys[0] - high), min(rows[1], keys[1] - low))  # the rows that have a key
    return pairs + rates.edge_keys * at_edges + rates.row_keys * (seen[1] - seen[0])


class Work:
    """The work of a problem's ranges, in pairs of one head. Ranges are of all rows, and of all keys, of the documents."""

    def __init__(self, problem, rates):
        self.problem, self.rates = problem, rates
        self._blocks = {}
        self.shared = {}  # of layouts with the same shares: {(parts, shares): {(part of rows, of keys): work}}

    def _block(self, rows, keys, low, high):
        key = (rows[1] - rows[0], keys[1] - keys[0], low + rows[0] - keys[0], high + rows[0] - keys[0])
        if key not in self._blocks:
            self._blocks[key] = block_work(rows, keys, low, high, self.rates)
        return self._blocks[key]

    def of(self, row_ranges, key_ranges):
        """The work of some ranges of rows on some of keys."""
        return sum(self._block(*each) for each in self._meetings(row_ranges, key_ranges))

    def touched(self, row_ranges, key_ranges):
        """(how many rows see a key, how many keys a row sees)."""
        seeing = seen = 0
        for rows, keys, low, high in self._meetings(row_ranges, key_ranges):
            seeing += max(0, min(rows[1], keys[1] - low) - max(rows[0], keys[0] - high))
            seen += max(0, min(keys[1], rows[1] + high) - max(keys[0], rows[0] + low))
        return min(seeing, size_of(row_ranges)), min(seen, size_of(key_ranges))

    def _meetings(self, row_ranges, key_ranges):
        """The parts of a document that ranges have, (rows, keys, low, high), counted from its start."""
        starts, key_starts = self.problem.starts
        for row in row_ranges:
            first = max(0, bisect.bisect_right(starts, row[0]) - 1)
            for document in range(first, len(starts) - 1):
                begin, key_begin = starts[document], key_starts[document]
                if begin >= row[1]:
                    break
                rows = (max(row[0], begin) - begin, min(row[1], starts[document + 1]) - begin)
                if rows[0] >= rows[1]:
                    continue
                low, high = self.problem.edges(document)
                for key in key_ranges:
                    keys = (max(key[0], key_begin) - key_begin, min(key[1], key_starts[document + 1]) - key_begin)
                    if keys[0] < keys[1]:
                        yield rows, keys, low, high

    def all(self):
        return self.of([(0, self.problem.rows)], [(0, self.problem.key_rows)])

    def cuts(self, parts):
        """Cuts the rows into parts of equal work: [(start, end)]."""
        whole, keys = self.all(), [(0, self.problem.key_rows)]

        def first_with(work):  # the least number of rows that have it
            low, high = 0, self.problem.rows
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if self.of([(0, middle)], keys) >= work else (middle + 1, high)
            return low

        ends = [first_with(whole * part / parts) for part in range(1, parts)]
        return list(zip([0, *ends], [*ends, self.problem.rows]))


def even_ranges(rows, parts):
    """[(start, end)] of `parts` ranges, whose lengths differ by at most one."""
    return [(part * rows // parts, (part + 1) * rows // parts) for part in range(parts)]


def share_ranges(shares, rows, parts):
    """For each rank of a ring of `parts` its ranges of rows, [[(start, end)]]: one for "contiguous"; for "zigzag" two of 2
    `parts`, the one as far from the start as the other from the end, so that causal work is the same on all ranks."""
    if shares == "contiguous":
        return [[part] for part in even_ranges(rows, parts)]
    if shares != "zigzag":
        raise ValueError(f"shares must be 'contiguous' or 'zigzag', but got {shares!r}")
    chunks = even_ranges(rows, 2 * parts)
    return [[chunks[part], chunks[2 * parts - 1 - part]] for part in range(parts)]


def size_of(ranges):
    return sum(end - start for start, end in ranges)


def kernel_seconds(work, rows, heads, problem, rates, direction):
    """One launch: `work` of each of `heads` heads in all batches, over `rows` rows. Thread blocks that do not fill the
    multiprocessors, or fill them one time more in part, cost as if they did."""
    if not work:
        return 0.0
    per_pair = 2 * (problem.dim + problem.value_dim) if direction == "forward" else 2 * (3 * problem.dim + 2 * problem.value_dim)
    tiles = -(-rows // rates.tile_rows) * heads * problem.batch
    filled = -(-tiles // rates.sms) * rates.sms / tiles
    speed = rates.flops(direction, max(problem.dim, problem.value_dim), problem.element_bytes)
    return rates.launch + work * heads * problem.batch * per_pair / speed * filled


def one_gpu(problem, rates, direction):
    """Seconds of the whole problem on one GPU with memory enough."""
    return kernel_seconds(Work(problem, rates).all(), problem.rows, problem.heads, problem, rates, direction)


def overlapped(kernel, transfer, topology, rates):
    """(seconds of a kernel while `transfer` seconds of data move, seconds of both)."""
    share = min(topology.copy_sms, rates.sms - 1) / rates.sms
    kernel += min(transfer, kernel / (1 - share)) * share
    return kernel, max(kernel, transfer)
