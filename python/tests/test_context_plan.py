# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The choice of a method for sequences on several GPUs, its model of costs, and python -m tilewright scale. Needs no GPU."""

import contextlib
import io
import itertools
import json
import math
import os
import random
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from tilewright import __main__, context_plan, scale  # noqa: E402
from tilewright.context_cost import (Problem, Rates, Topology, Work, even_ranges, kept_pairs, one_gpu, overlapped,  # noqa: E402
                                     share_ranges, size_of)
from tilewright.context_plan import METHODS, plan  # noqa: E402
from tilewright.context_simulation import run_ring  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FIGURES = os.path.join(ROOT, "docs", "figures")
in_tree = unittest.skipUnless(os.path.isdir(FIGURES), "the documents are not here")
PAIRS_ONLY = Rates(row_keys=0, edge_keys=0)
# Messages cost nothing, nor do launches and merges, and any part of a wave of thread blocks is as long as its work.
FREE = Topology(node_rate=1e30, network_rate=1e30, node_latency=0, network_latency=0, copy_sms=0)
IDEAL = Rates(row_keys=0, edge_keys=0, sms=1, memory=1e30, adding=1e30, launch=0, uneven=0)


def documents(seed, rows, least, most):
    generator, lengths = random.Random(seed), []
    while sum(lengths) < rows:
        lengths.append(min(generator.randint(least, most), rows - sum(lengths)))
    return lengths


def problem_of(lengths, **options):
    return Problem(tuple(lengths), **{**dict(heads=16, key_heads=16, dim=128, value_dim=128), **options})


def layout_of(problem, ranks, method, heads=1, inner="ring", shares="contiguous", topology=Topology(), rates=Rates()):
    found, _ = context_plan.layouts(problem, ranks, topology, rates, (method,), (shares,))
    return next(layout for layout in found if (layout.heads, layout.inner) == (heads, inner))


class WorkTest(unittest.TestCase):
    def test_pairs(self):
        generator = random.Random(1)
        for _ in range(300):
            rows, keys = (sorted(generator.choices(range(12), k=2)) for _ in range(2))
            low, high = (generator.choice([-math.inf, *range(-12, 12)]), generator.choice([math.inf, *range(-12, 12)]))
            counted = sum(low <= j - i <= high for i in range(*rows) for j in range(*keys))
            self.assertEqual(kept_pairs(rows, keys, low, high), counted, (rows, keys, low, high))

    def test_documents(self):
        """Against the mask itself, for all masks, with fewer and with more keys than rows."""
        lengths, key_lengths = (5, 0, 9, 2), (7, 3, 4, 0)
        for causal, window, align in itertools.product((False, True), ((-1, -1), (2, -1), (-1, 1), (3, 0)), ("top_left", "bottom_right")):
            problem = problem_of(lengths, key_lengths=key_lengths, causal=causal, window=window, align=align)
            kept = set()
            for document, (rows, keys) in enumerate(zip(lengths, key_lengths)):
                shift = keys - rows if align == "bottom_right" else 0
                row, key = sum(lengths[:document]), sum(key_lengths[:document])
                for i, j in itertools.product(range(rows), range(keys)):
                    apart = j - i - shift
                    if (not causal or apart <= 0) and (window[0] < 0 or apart >= -window[0]) and (window[1] < 0 or apart <= window[1]):
                        kept.add((row + i, key + j))
            work = Work(problem, PAIRS_ONLY)
            self.assertEqual(work.all(), len(kept))
            for row, key in itertools.product(even_ranges(16, 3), even_ranges(14, 4)):
                inside = [(i, j) for i, j in kept if i in range(*row) and j in range(*key)]
                self.assertEqual(work.of([row], [key]), len(inside))
                self.assertEqual(work.touched([row], [key]), tuple(len(set(side)) for side in zip(*inside)) or (0, 0))

    def test_shares(self):
        for rows, parts, shares in itertools.product((0, 1, 7, 64, 1000), (1, 3, 8), ("contiguous", "zigzag")):
            ranges = share_ranges(shares, rows, parts)
            covered = sorted(row for each in ranges for part in each for row in range(*part))
            self.assertEqual(covered, list(range(rows)))
            self.assertLessEqual(max(map(size_of, ranges)) - min(map(size_of, ranges)), 2)
        self.assertEqual(share_ranges("zigzag", 16, 2), [[(0, 4), (12, 16)], [(4, 8), (8, 12)]])
        with self.assertRaisesRegex(ValueError, "^shares must be 'contiguous' or 'zigzag', but got 'balanced'$"):
            share_ranges("balanced", 16, 2)

    def test_zigzag_shares_have_the_same_causal_work_in_each_step(self):
        layout = layout_of(problem_of([1024], causal=True), 8, "ring", shares="zigzag", rates=PAIRS_ONLY)
        self.assertEqual(layout.offsets, list(range(8)))
        for offset in range(8):
            self.assertEqual({layout.step_work(rank, offset) for rank in range(8)}, {2 * 64 * 64 if offset else 64 * 64 + 2 * 64 * 65 // 2})
        uneven = layout_of(problem_of([1024], causal=True), 8, "ring", rates=PAIRS_ONLY)
        self.assertEqual([uneven.step_work(rank, 1) for rank in (0, 1, 7)], [0, 128 * 128, 128 * 128])

    def test_balanced_cuts(self):
        problem = problem_of(documents(3, 40000, 100, 9000), causal=True)
        work = Work(problem, Rates())
        for parts in (2, 8, 13):
            cuts = work.cuts(parts)
            self.assertEqual([cuts[0][0], *(end for _, end in cuts)], [start for start, _ in cuts] + [problem.rows])
            for cut in cuts:  # to about a row
                self.assertAlmostEqual(work.of([cut], [(0, problem.rows)]) / (work.all() / parts), 1, delta=0.02)


class RatesTest(unittest.TestCase):
    @in_tree
    def test_the_measured_figures_of_one_gpu(self):
        """The model's constants are those of docs/figures/h200.json. If this fails after a new measurement, fit Rates again."""
        with open(os.path.join(FIGURES, "h200.json"), encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        for direction, dim, (mask, causal), length in itertools.product(
                ("forward", "backward"), (64, 128, 256), (("none", False), ("top_left", True)), (1024, 4096, 16384)):
            name = f"{direction} bf16 D{dim} {mask} S{length}"
            problem = problem_of([length], heads=2048 // dim, key_heads=2048 // dim, dim=dim, value_dim=dim, batch=16384 // length,
                                 causal=causal)
            predicted = one_gpu(problem, Rates(), direction) * 1e3
            self.assertAlmostEqual(predicted / rows[name]["sides"]["tilewright"]["ms"], 1, delta=0.1, msg=name)
        for direction in ("forward", "backward"):  # not fitted
            problem = problem_of([16384], causal=True, window=(1023, -1))
            measured = rows[f"{direction} bf16 D128 top_left window1024 S16384"]["sides"]["tilewright"]["ms"]
            self.assertAlmostEqual(one_gpu(problem, Rates(), direction) * 1e3 / measured, 1, delta=0.15, msg=direction)

    @in_tree
    def test_the_measured_figures_of_links(self):
        with open(os.path.join(FIGURES, "links-2xh200.json"), encoding="utf-8") as file:
            found = json.load(file)
        topology, rates = Topology(), Rates()
        for name in ("send", "exchange", "gather"):
            self.assertAlmostEqual(topology.node_rate / 1e9 / found[name]["gb_s"], 1, delta=0.1)
            self.assertAlmostEqual(topology.node_latency * 1e6, found[name]["latency_us"], delta=10)
        self.assertEqual(topology.copy_sms, round(found["lost_to_copies"] * rates.sms))

    def test_widths_and_elements(self):
        rates = Rates()
        self.assertEqual([rates.flops("forward", dim, 2) for dim in (16, 64, 96, 512)],
                         [rates.forward[width] for width in (64, 64, 128, 256)])
        self.assertEqual(rates.flops("backward", 128, 4), rates.wide)

    def test_thread_blocks_fill_waves(self):
        """One head of 128 rows keeps one multiprocessor busy, 132 of them the GPU."""
        one, all_sms, one_more = (one_gpu(problem_of([128], heads=heads, key_heads=1), Rates(launch=0), "forward") for heads in (1, 132, 133))
        self.assertAlmostEqual(one, all_sms)
        self.assertAlmostEqual(one_more, 2 * all_sms)

    def test_a_kernel_under_a_message(self):
        topology, rates = Topology(copy_sms=33), Rates()  # a quarter
        for kernel, transfer, slowed, both in ((3.0, 0.0, 3.0, 3.0), (3.0, 2.0, 3.5, 3.5), (3.0, 4.0, 4.0, 4.0), (3.0, 8.0, 4.0, 8.0)):
            self.assertEqual(overlapped(kernel, transfer, topology, rates), (slowed, both))


class SimulationTest(unittest.TestCase):
    """By hand: times in units, messages from each rank."""

    def test_one_rank(self):
        self.assertEqual(run_ring([[5.0]], [0], [1.0], [1.0]), 5)

    def test_messages_under_kernels(self):
        self.assertEqual(run_ring([[4.0, 6.0]] * 2, [0, 1], [3.0] * 2), 10)

    def test_messages_longer_than_kernels(self):
        """Keys of step 1 arrive at 9; of step 2 at 18; the kernel of step 2 ends at 20."""
        self.assertEqual(run_ring([[2.0] * 3] * 3, [0, 1, 2], [9.0] * 3), 20)

    def test_a_buffer_is_free_when_its_kernel_has_ended(self):
        """Rank 1 computes until 10, so keys of step 2 do not reach it before: they come from 10 to 11, while it computes step
        1 until 20, and it ends at 30. Rank 0 has its keys of step 2 from rank 2 at 2, of the time of its second kernel."""
        self.assertEqual(run_ring([[1.0] * 3, [10.0] * 3, [1.0] * 3], [0, 1, 2], [1.0] * 3), 30)
        """The slow link of rank 0 sends its own keys until 50, and those of rank 2 until 100, upon which rank 1 ends."""
        self.assertEqual(run_ring([[1.0] * 3] * 3, [0, 1, 2], [50.0, 1.0, 1.0]), 101)

    def test_sums_of_a_backward(self):
        """Two ranks: keys arrive at 1, step 0 ends at 4, step 1 at 8; the sums of step 0, sent from 4 to 7, are there; those of
        step 1 go home from 8 to 11."""
        self.assertEqual(run_ring([[4.0, 4.0]] * 2, [0, 1], [1.0] * 2, [3.0] * 2), 11)
        """If they take 6, step 1 waits for them until 10, and they are home at 16."""
        self.assertEqual(run_ring([[4.0, 4.0]] * 2, [0, 1], [1.0] * 2, [6.0] * 2), 16)

    def test_a_window_needs_neighbours(self):
        """Rank 0 has no neighbour before it; its second kernel is empty."""
        self.assertEqual(run_ring([[4.0, 0.0], [4.0, 3.0], [4.0, 3.0]], [0, 1], [2.0] * 3, wraps=False), 7)
        """A window to both sides: keys of the rank after come from it, at 4, behind those which it sent to the rank after it."""
        self.assertEqual(run_ring([[1.0, 1.0, 1.0]] * 3, [0, 1, -1], [2.0] * 3, wraps=False), 5)

    def test_the_estimate(self):
        """Where kernels hide the messages, estimate and simulation are equal; where they do not, and where shares are uneven, the
        estimate is not below by more than the last sums, which the simulation lets wait for others."""
        for length, causal, shares in itertools.product((4096, 65536, 1 << 20), (False, True), ("contiguous", "zigzag")):
            if shares == "zigzag" and not causal:
                continue
            for ranks, direction in itertools.product((2, 4, 8, 16, 64), ("forward", "backward")):
                layout = layout_of(problem_of([length], causal=causal), ranks, "ring", shares=shares)
                estimated, simulated = layout.estimated(direction), layout.simulated(direction)
                message = f"{length} {causal} {shares} {ranks} {direction}"
                if length == 1 << 20 and ranks <= 8 and (shares == "zigzag" or not causal):
                    self.assertAlmostEqual(estimated, simulated, delta=1e-9 * simulated, msg=message)
                self.assertGreaterEqual(estimated, simulated * 0.9, message)
                self.assertLessEqual(estimated, simulated * 1.5, message)


class PlanTest(unittest.TestCase):
    def test_two_ranks_by_hand(self):
        """Each number from the formulas of docs/scale.md."""
        rates = Rates(forward={128: 1e12}, backward={128: 1e12}, row_keys=0, edge_keys=0, sms=1, launch=1e-3, memory=1e12, adding=5e11,
                      uneven=0.1)
        topology = Topology(node_rate=1e9, node_latency=1e-3, copy_sms=0)
        found, refused = context_plan.candidates(problem_of([2048], heads=2, key_heads=2), 2, topology, rates)
        plans = {each.method: each for each in found}
        self.assertEqual(refused, {"2d": "no number between 1 and 2 divides both ranks and heads"})
        flops = 2 * 2048 ** 2 * 512  # of the forward of all; 2.5 times as many in the backward
        kernel, values = flops / 4 / 1e12, 1024 * 2 * 256 * 2  # of a step; bytes of K and V of a rank
        merge = 1e-3 + 12 * 1024 * 2 * 129 / 1e12
        sent = 1e-3 + values / 1e9
        self.assertAlmostEqual(plans["ring"].forward_seconds, max(1e-3 + kernel, sent) + 1e-3 + kernel + merge)
        # Step 0 computes for 1e-3 + 2.5 kernel; step 1 waits for the keys, and for the sums of step 0, which are sent behind the
        # keys, since these leave at once; then its own go home.
        first, sums = 1e-3 + 2.5 * kernel, 1e-3 + 2 * values / 1e9
        gradient_merge = 1e-3 + 12 * (1024 * 2 * 128 + 1024 * 2 * 256) / 1e12
        second = max(max(first, sent) + first + gradient_merge, max(first, sent) + sums)
        self.assertAlmostEqual(plans["ring"].backward_seconds, second + sums)
        # Two pieces of a head: half of the keys come before the kernels, and half of the sums return behind them.
        gathered, returned, whole = 1e-3 + values / 1e9, 1e-3 + 2 * values / 1e9, 1e-3 + 2 * kernel
        self.assertAlmostEqual(plans["all_gather"].forward_seconds, gathered / 2 + whole + max(0, gathered / 2 - whole / 2))
        gradient = 1e-3 + 5 * kernel
        added = 1e-3 + 10 * 1024 * 2 * 256 / 5e11 + 6 * 1024 * 2 * 128 / 1e12 + 0.1 * gradient
        self.assertAlmostEqual(plans["all_gather"].backward_seconds, gathered / 2 + max(0, gathered / 2 - gradient / 2)
                               + max(gradient, gathered / 2 + returned / 2) + returned / 2 + added)
        # Each of two ranks sends half of Q, K and V, and of O.
        exchanged = 2e-3 + 1024 * 2 * (2 * 256) * 2 / 2 / 1e9
        self.assertAlmostEqual(plans["heads"].forward_seconds, exchanged + 1e-3 + 2 * kernel)
        self.assertAlmostEqual(plans["heads"].backward_seconds, exchanged + 1e-3 + 5 * kernel)
        for each in found:
            alone = 2e-3 + 3.5 * flops / 1e12
            self.assertAlmostEqual(each.efficiency, alone / (2 * each.seconds))
        # Bytes: Q, K, V, O, the gradients of all but O, dO, and the LSE; then the method's own.
        one = 1024 * 2 * 128
        base = 8 * 2 * one + 4 * 1024 * 2
        self.assertEqual(plans["ring"].peak_bytes, base + 2 * 2 * one + 4 * (2 * one + 3 * 2 * one))
        self.assertEqual(plans["all_gather"].peak_bytes, base + 2 * 4 * one + 4 * (2 * one + 2 * 4 * one + 2 * 2 * one) // 2)
        self.assertEqual(plans["heads"].peak_bytes, base + 8 * 2 * one + 4 * 2048 + 4 * one)

    def test_bytes_of_two_gpus(self):
        """Megabytes beside Q, K, V and dO of 128k and 1M causal rows, 16 heads of 128, on two H200 (docs/scale.md)."""
        for rows, method, measured in ((131072, "heads", 3477), (131072, "ring", 5384), (131072, "all_gather", 4213), (1 << 20, "heads", 29864)):
            found = plan([rows], 16, ranks=2, causal=True, methods=(method,), shares=("zigzag",))
            predicted = (found.peak_bytes - 4 * rows // 2 * 16 * 128 * 2) / 2**20
            self.assertAlmostEqual(predicted / measured, 1, delta=0.06, msg=f"{rows} {method}")

    def test_one_rank(self):
        alone = plan([4096], 16, ranks=1, causal=True)
        problem = problem_of([4096], causal=True)
        self.assertAlmostEqual(alone.seconds, one_gpu(problem, Rates(), "forward") + one_gpu(problem, Rates(), "backward"))
        self.assertEqual((alone.ring, alone.heads, alone.steps), (1, 1, 1))
        self.assertAlmostEqual(alone.efficiency, 1)

    def test_without_costs_efficiency_is_one(self):
        for ranks, causal, window in ((2, True, (-1, -1)), (8, False, (-1, -1)), (16, True, (-1, -1))):
            for method in METHODS:
                if (ranks, method) == (2, "2d"):
                    continue
                found = plan([16384], 16, ranks=ranks, causal=causal, window=window, topology=FREE, rates=IDEAL, methods=(method,))
                self.assertAlmostEqual(found.efficiency, 1, delta=1e-3, msg=f"{ranks} {method}")

    def test_longer_is_more_efficient_and_slower(self):
        for method, causal in itertools.product(METHODS, (False, True)):
            before = None
            for length in (1 << shift for shift in range(13, 24, 2)):
                found = plan([length], 64, 8, ranks=8, causal=causal, methods=(method,))
                self.assertLessEqual(found.efficiency, 1)
                if before:
                    self.assertGreater(found.seconds, before.seconds)
                    self.assertGreater(found.peak_bytes, before.peak_bytes)
                    self.assertGreater(found.efficiency, before.efficiency - 0.001)
                before = found
            self.assertGreater(before.efficiency, 0.97)

    def test_faster_links_are_not_slower(self):
        for method, ranks in itertools.product(METHODS, (8, 32)):
            times = [plan([65536], 64, 8, ranks=ranks, causal=True, methods=(method,), topology=Topology(node_rate=rate, network_rate=rate / 5,
                     )).seconds for rate in (25e9, 100e9, 400e9)]
            self.assertEqual(times, sorted(times, reverse=True))

    def test_more_ranks_are_faster_for_long_sequences(self):
        times = [plan([4 << 20], 64, 8, ranks=ranks, causal=True).seconds for ranks in (1, 2, 8, 16, 64, 256)]
        for few, many in zip(times, times[1:]):
            self.assertLess(many, few)

    def test_the_choice_is_the_fastest_but_for_a_percent(self):
        for length, ranks in itertools.product((8192, 131072), (4, 8, 16)):
            chosen = plan([length], 16, 4, ranks=ranks, causal=True)
            for method in METHODS:
                other = plan([length], 16, 4, ranks=ranks, causal=True, methods=(method,))
                self.assertLessEqual(chosen.seconds, other.seconds * (1 + context_plan.CLOSE), method)

    def test_windows_need_neighbours_only(self):
        found = plan([131072], 64, 8, ranks=8, causal=True, window=(4095, -1))
        self.assertEqual((found.method, found.shares, found.steps), ("ring", "contiguous", 2))
        layout = layout_of(problem_of([131072], window=(4095, 100)), 8, "ring")
        self.assertEqual(layout.offsets, [0, 1, -1])
        self.assertFalse(layout.wraps())
        wide = layout_of(problem_of([131072], causal=True, window=(16384 * 2, -1)), 8, "ring")
        self.assertEqual(wide.offsets, [0, 1, 2])
        # What moves is what a neighbour sees, and what is merged is its rows that see it.
        self.assertEqual((layout.moved_keys, layout.touched(3, 1), layout.touched(3, -1)), (4095, (4095, 4095), (100, 100)))
        self.assertEqual(wide.moved_keys, 16384)

    def test_packed_sequences_are_cut_by_work(self):
        lengths = documents(1, 131072, 1024, 32768)
        balanced, even = (plan(lengths, 64, 8, ranks=8, causal=True, methods=("ring",), shares=(shares,)) for shares in ("balanced", "contiguous"))
        self.assertLess(balanced.seconds, 0.7 * even.seconds)
        self.assertEqual(plan(lengths, 64, 8, ranks=8, causal=True, methods=("ring",)), balanced_with_reason(balanced, lengths))
        self.assertEqual(sum(map(size_of, balanced.row_ranges)), 131072)
        self.assertEqual(balanced.row_ranges, balanced.key_ranges)

    def test_few_key_heads_are_replicated(self):
        found = plan([65536], 64, 2, ranks=8, causal=True, methods=("heads",))
        self.assertEqual((found.method, found.heads), ("heads", 8))
        less = plan([65536], 64, 8, ranks=8, causal=True, methods=("heads",))
        self.assertAlmostEqual(found.forward_seconds, less.forward_seconds)  # as many bytes are sent

    def test_nodes(self):
        """A ring over nodes is as slow as its hops between them; heads inside a node leave the network to the ring, of which each
        GPU then has its own link."""
        topology = Topology()
        flat = layout_of(problem_of([65536]), 32, "ring")
        self.assertEqual({flat.across(index) for index in range(32)}, {(False, 1), (True, 1)})
        grouped = layout_of(problem_of([65536]), 32, "2d", 8, "heads")
        self.assertEqual({grouped.across(index) for index in range(4)}, {(True, 8)})
        self.assertEqual(grouped.hops(46e6), [topology.network_latency + 1e-3] * 4)
        shared = layout_of(problem_of([65536]), 32, "2d", 8, "heads", topology=Topology(node_network_rate=46e9))
        self.assertEqual(shared.hops(46e6), [topology.network_latency + 8e-3] * 4)
        self.assertEqual(plan([131072], 64, 8, ranks=64, causal=True).method, "2d")

    def test_ranks_of_a_plan(self):
        for inner in ("heads", "ring"):
            layout = layout_of(problem_of([65536]), 8, "2d", 2, inner)
            found, _ = context_plan.candidates(layout.problem, 8, Topology(), Rates(), methods=("2d",))
            each = next(one for one in found if (one.heads, one.inner) == (2, inner))
            rings, groups = [each.ring_members(head) for head in range(2)], [each.group_members(index) for index in range(4)]
            self.assertEqual(sorted(sum(rings, [])), list(range(8)))
            self.assertEqual(sorted(sum(groups, [])), list(range(8)))
            self.assertEqual(rings[0], [0, 2, 4, 6] if inner == "heads" else [0, 1, 2, 3])
            self.assertEqual(groups[0], layout.group())
            for rank in range(8):
                self.assertEqual(rings[each.head_rank(rank)][each.ring_rank(rank)], rank)

    def test_memory(self):
        of = dict(lengths=[1 << 17], heads=64, key_heads=8, ranks=64, causal=True)
        full = plan(**of)
        least = min((plan(**of, methods=(method,)) for method in METHODS), key=lambda each: each.peak_bytes)
        self.assertLess(least.peak_bytes, full.peak_bytes)
        found = plan(**of, memory=least.peak_bytes)
        self.assertEqual(found.method, least.method)
        self.assertRegex(found.reason, r"; 2d needs [\d.]+ GiB")
        with self.assertRaisesRegex(ValueError, r"^attention must fit into 0.0625 GiB on each rank, but the least, ring of 64 ranks, needs "
                                                r"[\d.]+ GiB; distribute over more ranks, or fewer rows$"):
            plan(**of, memory=1 << 26)

    def test_a_million_tokens_on_two(self):
        self.assertLess(plan([1 << 20], 16, ranks=2, causal=True).peak_bytes, 60 << 30)

    def test_reasons(self):
        self.assertRegex(plan([131072], 20, 4, ranks=8, causal=True).reason, (
            r"^.*, zigzag shares: [\d.]+ ms, \d+% of 8 times one GPU, [\d.]+ GiB on each; ring [\d.]+ times as long; all_gather [\d.]+ times as "
            r"long; no heads: 20 heads are not a multiple of 8 ranks$"))
        self.assertIn("no heads: 6 key heads neither divide 4 ranks, nor are a multiple of them", plan([8192], 12, 6, ranks=4).reason)

    def test_empty(self):
        for lengths in ((0,), (0, 0)):
            found = plan(lengths, 16, ranks=4, causal=True)
            self.assertEqual(sum(map(size_of, found.row_ranges)), 0)
        self.assertEqual(plan([2], 16, ranks=4, causal=True, methods=("ring",)).ranks, 4)

    def test_mistakes(self):
        for options, text in (
                (dict(ranks=0), "ranks must be positive, but got 0"), (dict(dim=0), "dim must be positive, but got 0"),
                (dict(key_heads=3), "heads must be a multiple of key_heads, but got 16 and 3"),
                (dict(lengths=[]), "lengths must be one or more numbers that are not negative, but got ()"),
                (dict(key_lengths=[1, 2]), "key_lengths must have one number for each document, but got 2 for 1"),
                (dict(window=(-2, 0)), "window must have numbers of keys, or -1, but got (-2, 0)"),
                (dict(align="left"), "align must be 'top_left' or 'bottom_right', but got 'left'"),
                (dict(element_bytes=1), "element_bytes must be 2, 4 or 8, but got 1"),
                (dict(methods=("ulysses",)), "methods must be some of ring, all_gather, heads, 2d, but got 'ulysses'"),
                (dict(methods=()), "methods must be some of ring, all_gather, heads, 2d, but got none"),
                (dict(shares=("rows",)), "shares must be some of contiguous, zigzag, balanced, but got 'rows'"),
                (dict(heads=18, methods=("heads",)), "no method distributes this attention: heads: 18 heads are not a multiple of 4 ranks")):
            arguments = {**dict(lengths=[4096], heads=16, ranks=4), **options}
            with self.assertRaises(ValueError) as caught:
                plan(arguments.pop("lengths"), arguments.pop("heads"), **arguments)
            self.assertEqual(str(caught.exception), text)
        for options, text in ((dict(gpus_per_node=0), "topology: gpus_per_node must be positive, but got 0"),
                              (dict(node_latency=-1), "topology: node_latency must not be negative, but got -1")):
            with self.assertRaises(ValueError) as caught:
                Topology(**options)
            self.assertEqual(str(caught.exception), text)


def balanced_with_reason(balanced, lengths):
    """The same plan, chosen among all shares: its reason may name other methods only."""
    again = plan(lengths, 64, 8, ranks=8, causal=True, methods=("ring",))
    return context_plan.Plan(**{**vars(balanced), "reason": again.reason})


def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = __main__.main(["scale", *arguments])
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()


class ScaleTest(unittest.TestCase):
    @in_tree
    def test_the_plot_and_the_table_of_the_documents(self):
        """Write them by python -m tilewright scale --plot docs/figures/scale.svg."""
        with tempfile.TemporaryDirectory() as folder:
            svg = os.path.join(folder, "scale.svg")
            status, out, err = run("--plot", svg)
            self.assertEqual((status, err), (0, ""))
            with open(svg, encoding="utf-8") as new, open(os.path.join(FIGURES, "scale.svg"), encoding="utf-8") as old:
                self.assertEqual(new.read(), old.read())
        with open(os.path.join(ROOT, "docs", "scale.md"), encoding="utf-8") as file:
            document = file.read()
        for rows in out.split("\n\n")[1:5]:
            self.assertIn(rows.strip(), document)

    @in_tree
    def test_the_measured_plot(self):
        """Write it by python -m tilewright scale --measured docs/figures/context-parallel-2xh200.json --plot FILE."""
        with tempfile.TemporaryDirectory() as folder:
            svg = os.path.join(folder, "a.svg")
            self.assertEqual(run("--measured", os.path.join(FIGURES, "context-parallel-2xh200.json"), "--plot", svg), (0, "", ""))
            with open(svg, encoding="utf-8") as new, open(os.path.join(FIGURES, "scale-measured.svg"), encoding="utf-8") as old:
                text = new.read()
                self.assertEqual(text, old.read())
        self.assertIn("all_gather, percent of one GPU&#x27;s rate", text)
        for content in ("{}", "[", '{"gpus": 2, "device": "x", "rows": [{"case": "causal 64k", "side": "ring", "forward": 1, "both": 1}]}'):
            with tempfile.TemporaryDirectory() as folder:
                data, svg = os.path.join(folder, "a.json"), os.path.join(folder, "a.svg")
                with open(data, "w", encoding="utf-8") as file:
                    file.write(content)
                status, out, err = run("--measured", data, "--plot", svg)
                self.assertEqual((status, out, os.path.exists(svg)), (2, "", False))
                self.assertIn("--measured must name the JSON of bench/context_parallel.py with causal cases, but got ", err)
        status, _, err = run("--measured", "a.json")
        self.assertEqual((status, err.splitlines()[-1]), (2, "python -m tilewright scale: error: --measured needs --plot FILE.svg"))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            svg, data = os.path.join(folder, "a.svg"), os.path.join(folder, "a.json")
            status, out, _ = run("--gpus", "8,16", "--lengths", "64k,1M", "--full", "--forward", "--heads", "16", "--key-heads", "16",
                                 "--plot", svg, "--json", data)
            self.assertEqual(status, 0)
            self.assertIn("Predicted efficiency of attention: forward, bf16, 16 heads on 16, D 128, full\n", out)
            self.assertIn("| 16 GPUs | ring | all_gather | heads | 2d | chosen | ms | GiB on each |", out)
            texts = ["".join(node.itertext()) for node in xml.etree.ElementTree.parse(svg).iter() if node.tag.endswith("text")]
            for text in ("8 GPUs, efficiency in percent", "64k", "1M", "2d"):
                self.assertIn(text, texts)
            with open(data, encoding="utf-8") as file:
                found = json.load(file)
        self.assertEqual([one["method"] for one in found["8"]["65536"]], list(METHODS))
        expected = plan([65536], 16, ranks=8, training=False, methods=("ring",))
        self.assertAlmostEqual(found["8"]["65536"][0]["forward_seconds"], expected.seconds)
        self.assertEqual(found["8"]["65536"][0]["backward_seconds"], 0)

    def test_large_rings_are_simulated(self):
        problem = problem_of([1 << 20], causal=True)
        found, _ = scale.best_plans(problem, 128, Topology(), Rates())
        layout = layout_of(problem, 128, "ring", shares=found["ring"].shares)
        self.assertEqual(found["ring"].forward_seconds, layout.simulated("forward"))
        self.assertEqual(layout.seconds("forward"), layout.estimated("forward"))

    def test_the_network(self):
        slow = run("--gpus", "16", "--lengths", "128k", "--network-rate", "5")[1]
        shared = run("--gpus", "16", "--lengths", "128k", "--node-network-rate", "40")[1]
        self.assertNotEqual(slow, run("--gpus", "16", "--lengths", "128k")[1])
        self.assertNotEqual(slow, shared)
        self.assertIn("window 4095,-1", run("--gpus", "8", "--lengths", "64k", "--window=4095,-1", "--value-dim", "64")[1])

    def test_mistakes(self):
        for arguments, text in ((["--gpus", "8,x"], "argument --gpus: expected numbers such as 128k or 1M, but got 'x'"),
                                (["--window", "1"], "argument --window: expected LEFT,RIGHT, but got '1'"),
                                (["--plot", "a.png"], "--plot: expected the name of an .svg file, but got 'a.png'; other formats are not "
                                                      "written"),
                                (["--key-heads", "7"], "heads must be a multiple of key_heads, but got 64 and 7"),
                                (["--node-rate", "-1"], "topology: node_rate must be positive, but got -1000000000.0")):
            status, _, err = run(*arguments)
            self.assertEqual(status, 2)
            self.assertIn(f"error: {text}", err)


if __name__ == "__main__":
    unittest.main()
