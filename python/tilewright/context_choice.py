# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The method that tilewright.context_parallel chooses for a call (context_plan.plan), and the topology of a process group."""

import os

from tilewright import context_plan, performance, shares
from tilewright.context_cost import Topology

SLOWER = 1.05  # a call whose order of rows costs more is warned of


def topology_of(group):
    """The default topology of an exchange.Group: nodes with as many of its ranks as the environment of torchrun says. Its ranks are
    numbered node by node, or if they are on nodes in another way, each counts as on a node of its own."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    if not local.isdigit() or not int(local):
        return Topology()
    nodes = [rank // int(local) for rank in group.global_ranks]
    most = max(map(nodes.count, set(nodes)))
    expected = [place // most for place in range(len(nodes))]
    first_seen = {node: number for number, node in enumerate(dict.fromkeys(nodes))}
    return Topology(gpus_per_node=most if [first_seen[node] for node in nodes] == expected else 1)


def rounded(count):
    """A number rounded up to five binary digits, so that calls of many lengths have few plans: one takes 0.3 s for 64 ranks."""
    unit = 1 << max(0, count.bit_length() - 5)
    return -(-count // unit) * unit


class Chooser:
    """Chooses methods for shapes, of one process group. It depends on its arguments alone: all ranks choose the same."""

    def __init__(self, ranks, order, topology, rates, memory, training):
        self.ranks, self.order = ranks, order
        self.fixed = {"topology": topology, "rates": rates, "memory": memory, "training": bool(training)}
        self.about = repr(self.fixed)
        self.plans = {}  # by the shapes of calls

    def plan(self, lengths, heads, key_heads, dim, value_dim, **options):
        return context_plan.plan(lengths, heads, key_heads, dim, value_dim, ranks=self.ranks, **(self.fixed | options))

    def choose(self, q, k, v, rows, keys, mode, window):
        """The plan of a call with about so many rows and keys of all ranks together; q, k and v have the other extents."""
        key = (q.shape[:2], k.shape[1], q.shape[3], v.shape[3], q.element_size(), rounded(rows), rounded(keys), mode, window)
        if key not in self.plans:
            self.plans[key] = self._choose(*key)
        return self.plans[key]

    def _choose(self, outer, key_heads, dim, value_dim, element_bytes, rows, keys, mode, window):
        batch, heads = outer
        if not (batch and heads and key_heads):  # nothing to compute
            batch, heads, key_heads, rows, keys = 1, 1, 1, 0, 0
        options = dict(batch=batch, key_lengths=None if keys == rows else [keys], causal=mode != "none", window=window,
                       align="bottom_right" if mode == "bottom_right" else "top_left", element_bytes=element_bytes, inners=("heads",))
        found = self.plan([rows], heads, key_heads, dim, value_dim, shares=(self.order,), **options)
        best = self.plan([rows], heads, key_heads, dim, value_dim, shares=shares.ORDERS, **options)
        if found.seconds > SLOWER * best.seconds and best.shares != self.order:
            performance.warn(("order of rows", self.order, best.shares), (
                f"attention over {self.ranks} ranks is slower than it need be: with rows in the order '{self.order}', "
                f"{context_plan.describe(found)} is predicted to take {found.seconds / best.seconds:.2f} times as long as "
                f"{context_plan.describe(best)} with order='{best.shares}'; give context_parallel this order"))
        return found
