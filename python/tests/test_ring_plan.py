# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plans of tilewright.context_parallel, of all ranks, by counting pairs: needs neither PyTorch nor several processes."""

import collections
import os
import random
import sys
import types
import unittest
import unittest.mock
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from tilewright import context_choice, context_plan, performance, shares  # noqa: E402
from tilewright.context_cost import Rates, Topology  # noqa: E402
from tilewright.head_plan import HeadPlan  # noqa: E402
from tilewright.gather_plan import GatherPlan  # noqa: E402
from tilewright.ring_plan import RingPlan, SumPlan  # noqa: E402


def positions(spans):
    return [i for span in spans for i in range(*span)]


class Ring:
    """All ranks of a ring, which compute pairs instead of attention: a gradient of a row is the set of its pairs."""

    def __init__(self, size, order, starts, rows, keys, band, causal, from_corner, fuses, packed):
        self.rows, self.keys = shares.shares(rows, size, order), shares.shares(keys, size, order)
        if packed:
            self.documents = shares.documents_of(*starts, *band, causal, from_corner)
        else:
            shift = keys - rows if from_corner else 0
            self.documents = [shares.Document((0, rows), (0, keys), shares.band_of(causal, *band, shift))]
        self.plans = [RingPlan(rank, self.rows, self.keys, self.documents, fuses) for rank in range(size)]

    def pairs(self):
        """The pairs of the whole."""
        return {(i + each.rows[0], j + each.keys[0]) for each in self.documents for i in range(each.rows[1] - each.rows[0])
                for j in range(each.keys[1] - each.keys[0]) if self.attends(each.band, i, j)}

    @staticmethod
    def attends(band, i, j):
        ahead = j - i - band.shift
        return (band.left < 0 or ahead >= -band.left) and (band.right < 0 or ahead <= band.right)

    def of_launch(self, launch, rank, key_spans):
        """The pairs of a launch by the positions that its kernel sees, {(row, key) in the whole}."""
        own_rows, own_keys = positions(self.rows[rank])[slice(*launch.rows)], positions(key_spans)[slice(*launch.keys)]
        if launch.run:
            documents = [each for each in self.documents if launch.run.rows[0] <= each.rows[0] and each.rows[1] <= launch.run.rows[1]]
            inside = {(i, j) for each in documents for i in range(*each.rows) for j in range(*each.keys)
                      if self.attends(each.band, i - each.rows[0], j - each.keys[0])}
            return [(i, j) for i in own_rows for j in own_keys if (i, j) in inside]
        if not own_keys:
            return []
        band = self.documents[launch.document].band._replace(shift=launch.diagonal)
        return [(i, j) for at, i in enumerate(own_rows) for by, j in enumerate(own_keys)
                if self.attends(band, launch.first_row + at, launch.first_key + by)]


def summed(plan, terms):
    """Runs a plan of a sum on terms, {number: (range, what each row gets)}, in their order. Asserts that nothing is read that has not
    been written."""
    total, result, rows = {}, {}, set()
    for number in sorted(terms):
        (begin, end), values = terms[number]
        into = result if plan.alone[number] else total
        if plan.direct[number]:
            for at in range(begin, end):
                assert at not in into and at not in result
                into[at] = values[at - begin]
        for kind, changed in plan.changes[number]:
            assert not plan.direct[number]
            for at in range(*changed):
                x = values[at - begin]
                if kind == "only":
                    result[at] = x
                elif kind == "end":
                    result[at] = total[at] + x
                elif kind == "copy":
                    total[at] = x
                else:
                    total[at] = total[at] + x
    for span in plan.zeros:
        rows |= set(range(*span))
        result |= {at: collections.Counter() for at in range(*span)}
    for span in plan.converted:
        assert plan.extent[0] <= span[0] and span[1] <= plan.extent[1]
        result |= {at: total[at] for at in range(*span)}
    return result


class RingTest(unittest.TestCase):
    def cases(self):
        generator = random.Random(7)
        for number in range(120):
            lengths = [[generator.choice([0, 1, 3, 8, 20]) for _ in range(generator.randint(1, 6))]]
            lengths.append(lengths[0] if number % 2 else [n + generator.choice([0, 2, 5]) if n else 0 for n in lengths[0]])
            starts = [tuple(sum(of[:at]) for at in range(len(of) + 1)) for of in lengths]
            rows, keys = (of[-1] + generator.choice([0, 2]) for of in starts)
            if number % 2:
                keys = rows
            band = generator.choice([(-1, -1), (-1, -1), (3, -1), (4, 2), (-1, 3)])
            yield dict(size=generator.randint(2, 5), order=generator.choice(shares.ORDERS), starts=starts, rows=rows, keys=keys, band=band,
                       causal=generator.random() < 0.6, from_corner=generator.random() < 0.3, fuses=generator.random() < 0.5,
                       packed=number % 3 > 0)

    def test_pairs_and_sums(self):
        """Each pair is in one launch of the forward and one of the backward; each sum has all of its terms, and messages match."""
        launches = [0, 0]
        for case in self.cases():
            with self.subTest(case):
                ring = Ring(**case)
                wanted = ring.pairs()
                found, d_rows, d_keys = [], {}, {}
                returned = {}
                for rank, plan in enumerate(ring.plans):
                    written = set()
                    for step in plan.steps:
                        other = ring.plans[step.source].steps[(rank - step.source) % plan.size]
                        if step.source != rank:
                            self.assertEqual((other.target, other.given), (rank, step.taken))
                        for launch in step.forward:
                            found += ring.of_launch(launch, rank, step.taken)
                            launches[launch.run is not None] += 1
                            rows = set(range(*launch.rows))
                            self.assertEqual(launch.before, bool(rows & written))  # what it continues has been written
                            self.assertTrue(not launch.before or rows <= written)
                            written |= rows
                    self.assertEqual(written, set(range(plan.row_count)))
                    for number, (step, terms) in enumerate(zip(plan.steps[1:], plan.between)):
                        values = self.terms_of(ring, rank, terms, step.taken, 1)
                        sums = summed(plan.step_sums[number], values)
                        returned[rank, step.source] = [sums[at] for at in range(shares.rows_of(step.taken))]
                self.assertEqual(len(found), len(wanted))
                self.assertEqual(set(found), wanted)
                for rank, plan in enumerate(ring.plans):
                    terms, key_terms = {}, {}
                    for launched, spans in [(plan.first, ring.keys[rank]), (plan.last, ring.keys[rank]),
                                            *((terms, step.taken) for step, terms in zip(plan.steps[1:], plan.between))]:
                        terms |= self.terms_of(ring, rank, launched, spans, 0)
                        if spans is ring.keys[rank]:
                            key_terms |= self.terms_of(ring, rank, launched, spans, 1)
                    for step, ranges in zip(plan.steps[1:], plan.returned):
                        values, at = returned[step.target, rank], 0
                        for term, range_ in ranges:
                            key_terms[term] = range_, values[at:at + range_[1] - range_[0]]
                            at += range_[1] - range_[0]
                    for into, sums, own in ((d_rows, summed(plan.row_sum, terms), ring.rows),
                                            (d_keys, summed(plan.key_sum, key_terms), ring.keys)):
                        self.assertEqual(set(sums), set(range(shares.rows_of(own[rank]))))
                        into |= {position: sums[at] for at, position in enumerate(positions(own[rank]))}
                for i in range(case["rows"]):
                    self.assertEqual(d_rows[i], collections.Counter(j for row, j in wanted if row == i))
                for j in range(case["keys"]):
                    self.assertEqual(d_keys[j], collections.Counter(i for i, key in wanted if key == j))
        self.assertTrue(min(launches) > 50, launches)

    @staticmethod
    def terms_of(ring, rank, terms, spans, side):
        """{number of the term: (range, for each row the partners)} of dQ (side 0) or of dK."""
        result = {}
        for launch, *numbers, _ in terms:
            range_ = launch.keys if side else launch.rows
            places = positions(spans if side else ring.rows[rank])
            values = {place: collections.Counter() for place in places[slice(*range_)]}
            for pair in ring.of_launch(launch, rank, spans):
                values[pair[side]][pair[1 - side]] += 1
            result[numbers[side]] = range_, list(values.values())
        return result

    def test_passes(self):
        """What is added, and how: a causal ring of two needs no zeros, one launch of the results' type, and no addition to zeros."""
        ring = Ring(2, "zigzag", None, 32, 32, (-1, -1), True, False, True, False)
        plan = ring.plans[0]
        self.assertEqual([len(plan.first), len(plan.between[0]), len(plan.last)], [1, 1, 1])
        self.assertEqual([[change.kind for change in changes] for changes in plan.row_sum.changes], [[], ["end"], []])
        self.assertEqual([[change.kind for change in changes] for changes in plan.key_sum.changes], [[], ["add"], ["end"]])
        self.assertEqual((plan.row_sum.zeros, plan.row_sum.converted), ([], ((0, 8),)))
        packed = Ring(2, "contiguous", ((0, 16, 32),) * 2, 32, 32, (-1, -1), True, False, True, True).plans[0]
        self.assertEqual((packed.steps[1].taken, packed.steps[1].given), ((), ()))
        self.assertTrue(packed.first[0].alone)  # the launch writes dQ, dK and dV themselves
        self.assertEqual((packed.row_sum.extent, packed.row_sum.converted), ((0, 0), ()))

    def test_balance(self):
        """Ranks meet after each step, so that all need the same work in it: in the backward, zigzag shares have it."""
        for size in (2, 3, 4):
            ring = Ring(size, "zigzag", None, 32 * size, 32 * size, (-1, -1), True, False, True, False)
            work = [[sum(len(ring.of_launch(each.launch, rank, spans)) for each in terms)
                     for terms, spans in [(plan.first, ring.keys[rank]), *zip(plan.between, (step.taken for step in plan.steps[1:])),
                                          (plan.last, ring.keys[rank])]]
                    for rank, plan in enumerate(ring.plans)]
            self.assertEqual(work, [[392, *[512] * (size - 1), 136]] * size)

    def test_gathered_keys(self):
        """Where ranks gather keys, each pair is in one launch, messages match, and what ranks return adds up to all pairs of a key."""
        for case in self.cases():
            with self.subTest(case):
                ring = Ring(**case)
                wanted = ring.pairs()
                plans = [GatherPlan(rank, ring.rows, ring.keys, ring.documents, case["fuses"]) for rank in range(case["size"])]
                found, terms = [], []
                for rank, plan in enumerate(plans):
                    self.assertEqual(sorted(i for each in plan.forward if each.last for i in range(*each.rows)),
                                     list(range(plan.local.row_count)))
                    found += [pair for each in plan.forward for pair in ring.of_launch(each, rank, plan.spans)]
                    backward = [pair for each in plan.terms for pair in ring.of_launch(each.launch, rank, plan.spans)]
                    terms.append({key: sum(j == key for _, j in backward) for key in positions(plan.spans)})
                self.assertEqual(len(found), len(wanted))
                self.assertEqual(set(found), wanted)
                for rank, plan in enumerate(plans):
                    for peer in plan.peers:
                        back = next(each for each in plans[peer.place].peers if each.place == rank)
                        self.assertEqual(self.keys_of(plan, peer.sent), self.keys_of(plans[peer.place], back.received))
                    own = positions(ring.keys[rank])
                    self.assertEqual(sorted(at for total in plan.reductions for at in range(*total.own)), list(range(len(own))))
                    for total in plan.reductions:
                        self.assertEqual(own[slice(*total.own)], self.keys_of(plan, [total.gathered]))
                        for at, key in enumerate(own[slice(*total.own)]):
                            result = terms[rank][key]
                            for number, (begin, _) in total.returned:
                                peer = plan.peers[number]
                                self.assertEqual(self.keys_of(plan, peer.sent)[begin + at], key)
                                result += terms[peer.place][key]
                            self.assertEqual(result, sum(j == key for _, j in wanted))

    def test_pieces_of_gathered_heads(self):
        """The numbers of key heads in pieces; query heads come with theirs."""
        for keys, forward, backward in ((0, [0], []), (1, [1], [1]), (2, [1, 1], [1, 1]), (3, [1, 2], [1, 1, 1]), (6, [1, 5], [1, 2, 1, 1, 1]),
                                        (8, [1, 7], [1, 2, 2, 2, 1]), (16, [2, 14], [1, 5, 5, 4, 1])):
            heads = shares.Heads((10, 10 + 4 * keys), (3, 3 + keys))
            for wanted, pieces in ((forward, GatherPlan.forward_heads(heads)), (backward, GatherPlan.backward_heads(heads))):
                self.assertEqual([end - begin for _, (begin, end) in pieces], wanted)
                at = 3
                for queries, (begin, end) in pieces:
                    self.assertEqual((begin, queries), (at, (10 + 4 * (begin - 3), 10 + 4 * (end - 3))))
                    at = end

    @staticmethod
    def keys_of(plan, ranges):
        return [key for range_ in ranges for key in positions(plan.spans)[slice(*range_)]]

    def test_sums(self):
        """Of all ways to lay three terms over six rows."""
        spans = [(begin, end) for begin in range(6) for end in range(begin + 1, 7)]
        generator = random.Random(3)
        for _ in range(400):
            ranges = [generator.choice(spans) for _ in range(3)]
            plan = SumPlan(6, [(range_, generator.random() < 0.7) for range_ in ranges])
            plan.finish([single and generator.random() < 0.5 for single in plan.single])
            got = summed(plan, {number: (range_, [collections.Counter({number: 1})] * (range_[1] - range_[0]))
                                for number, range_ in enumerate(ranges)})
            self.assertEqual(got, {at: collections.Counter(number for number, range_ in enumerate(ranges) if range_[0] <= at < range_[1])
                                   for at in range(6)})


class HeadsTest(unittest.TestCase):
    def test_columns(self):
        """Messages have each head of the receiver once, and pieces see theirs."""
        for q_heads, k_heads, ranks in ((8, 8, 2), (8, 2, 4), (6, 1, 3), (10, 5, 2)):
            heads, rows = shares.head_shares(q_heads, k_heads, ranks), shares.shares(24, ranks, "zigzag")
            for column in range(ranks):
                plan = HeadPlan(heads, 3, column, list(range(ranks)), rows, rows, ((0, 24),), ((0, 24),))
                self.assertTrue(plan.is_self)
                kinds, got = (("queries", 4), ("keys", 4), ("keys", 2)), [[], [], []]
                for pieces in ((0,), tuple(range(1, plan.count))):
                    fields = plan.fields(column, pieces, kinds)
                    self.assertEqual(fields.width, sum((f.heads[1] - f.heads[0]) * f.width for f in fields.tensors))
                    for field in fields.tensors:
                        got[field.tensor] += range(*field.heads)
                    for (piece, number), field in fields.pieces.items():
                        self.assertEqual(field.heads, getattr(plan.own[piece], kinds[number][0]))
                        whole = fields.tensors[number]
                        if field.heads[0] < field.heads[1]:
                            self.assertEqual(field.begin - whole.begin, (field.heads[0] - whole.heads[0]) * field.width)
                self.assertEqual(got, [list(range(*heads[column].queries)), *[list(range(*heads[column].keys))] * 2])


class ChoiceTest(unittest.TestCase):
    def array(self, heads, dim=128):
        return types.SimpleNamespace(shape=(1, heads, 1, dim), element_size=lambda: 2)

    def choose(self, ranks, order, topology=Topology(), rows=131072, mode="top_left", window=(-1, -1), heads=(64, 8), **more):
        chooser = context_choice.Chooser(ranks, order, topology, Rates(), **{"memory": None, "training": True, **more})
        q, k = map(self.array, heads)
        return chooser.choose(q, k, k, rows, rows, mode, window)

    def test_order(self):
        """The choice is of the plans with the order of the rows; that another order would be faster is said once."""
        performance._given.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = self.choose(64, "zigzag")
            self.assertEqual((found.method, found.heads, found.shares, found.inner), ("2d", 8, "zigzag", "heads"))
            self.assertEqual(self.choose(8, "contiguous").method, "heads")
            self.assertEqual(self.choose(8, "contiguous", mode="none", window=(64, 0), topology=Topology(node_rate=1e9)).method, "ring")
        text = ("attention over 64 ranks is slower than it need be: with rows in the order 'contiguous', .* is predicted to take [0-9.]+ "
                "times as long as heads over 8 neighbours, ring of 8 with order='zigzag'; give context_parallel this order")
        with self.assertWarnsRegex(performance.PerformanceWarning, text):
            self.assertEqual(self.choose(64, "contiguous").shares, "contiguous")

    def test_same_as_plan(self):
        found = self.choose(8, "zigzag", topology=Topology(node_rate=1e10), rows=32768, training=False)
        self.assertEqual(found, context_plan.plan([32768], 64, 8, ranks=8, causal=True, shares=("zigzag",), inners=("heads",),
                                                  topology=Topology(node_rate=1e10), training=False))
        self.assertEqual(found.backward_seconds, 0)
        with self.assertRaisesRegex(ValueError, "attention must fit into 1 GiB on each rank"):
            self.choose(8, "zigzag", rows=1 << 24, memory=1 << 30)
        self.assertEqual(self.choose(4, "contiguous", heads=(0, 0)).heads * 0, 0)  # nothing to compute

    def test_lengths(self):
        self.assertEqual([context_choice.rounded(n) for n in (0, 1, 31, 33, 1000, 3000, 131072, 131073)],
                         [0, 1, 31, 34, 1024, 3072, 131072, 139264])
        chooser = context_choice.Chooser(8, "contiguous", Topology(), Rates(), None, True)
        q = self.array(8)
        found = [chooser.choose(q, q, q, rows, rows, "top_left", (-1, -1)) for rows in (131073, 135000, 139264, 139265)]
        self.assertTrue(found[0] is found[1] is found[2])
        self.assertEqual(len(chooser.plans), 2)

    def test_topology(self):
        def of(local, ranks):
            with unittest.mock.patch.dict(os.environ, {"LOCAL_WORLD_SIZE": local}):
                return context_choice.topology_of(types.SimpleNamespace(global_ranks=tuple(ranks))).gpus_per_node

        self.assertEqual(of("8", range(16)), 8)
        self.assertEqual(of("4", range(8)), 4)
        self.assertEqual(of("8", range(0, 64, 8)), 1)  # one rank of each node
        self.assertEqual(of("8", range(0, 32, 2)), 4)
        self.assertEqual(of("8", [0, 8, 1, 9]), 1)
        self.assertEqual(of("", range(16)), Topology().gpus_per_node)


if __name__ == "__main__":
    unittest.main()
