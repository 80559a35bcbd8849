# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of the parts of bench/gpubench that need no GPU."""

import io
import os
import sys
import types
import unittest
import unittest.mock
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "bench"))

import peers  # noqa: E402
import timeline  # noqa: E402
from gpubench import timeline_plot  # noqa: E402
import tune  # noqa: E402
from gpubench import cases, fa4, report  # noqa: E402
from gpubench.contract import Contract, ContractError  # noqa: E402
from gpubench.progress import Progress  # noqa: E402

KERNEL = '''module {
  func.func private @score(%s: f32) -> f32 { return %s : f32 }
  tgpu.kernel @forward target "sm_80" warps 8
    (%q: !tile.view<[?, ?, ?, 64], bf16>, %lse: optional !tile.view<[?, ?], f32>, %scale: f32)
    grid(%bm = ceildiv(dim(q, 2), 128), %h = dim(q, 1), %b = min(sm_count(), 4)) attributes {bindings = {D = 64 : i64}, shared_bytes = 24576 : i64} {
  }
}
'''


PTXAS = """ptxas info    : Compiling entry function '{}' for 'sm_80'
ptxas info    : Function properties for {}
    24 bytes stack frame, {} bytes spill stores, {} bytes spill loads
ptxas info    : Used {} registers, used 1 barriers, 24 bytes cumulative stack size
"""


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressTest(unittest.TestCase):
    def shown(self, stream, delay, **options):
        with unittest.mock.patch.dict(os.environ, TILEWRIGHT_PROGRESS_DELAY=delay):
            with Progress("tune: compiled", 2, stream=stream, **options) as progress:
                progress.show("a")
                progress.step("b")
        return stream.getvalue()

    def test_a_terminal_gets_a_line_that_goes_away(self):
        text = self.shown(Terminal(), "0")
        self.assertEqual(text, "\r\x1b[Ktune: compiled 0 of 2: a (0 s)\r\x1b[Ktune: compiled 1 of 2: b (0 s)\r\x1b[K")

    def test_nothing_is_shown_before_the_delay_or_elsewhere_or_quietly(self):
        self.assertEqual(self.shown(Terminal(), "100000"), "")
        self.assertEqual(self.shown(io.StringIO(), "0"), "")
        self.assertEqual(self.shown(Terminal(), "0", quiet=True), "")


class TuneTest(unittest.TestCase):
    def test_resources_are_those_of_the_entry_that_is_launched(self):
        general, aligned = PTXAS.format("f", "f", 8, 16, 255), PTXAS.format("f_aligned", "f_aligned", 0, 4, 200)
        for log in (general + aligned, aligned + general):
            self.assertEqual(tune.resources_of_log(log), {"registers": 200, "spilled_bytes": 4})
        self.assertEqual(tune.resources_of_log(general), {"registers": 255, "spilled_bytes": 24})
        self.assertEqual(tune.resources_of_log(""), {})


class CasesTest(unittest.TestCase):
    def test_the_list_is_that_of_the_peers(self):
        names = [case.name for case in cases.all_cases()]
        self.assertEqual(len(names), 3 * 2 * 6 + 1)
        self.assertEqual(len(set(names)), len(names))
        self.assertIn("forward bf16 D256 top_left S16384", names)
        self.assertEqual(names[-1], "matmul bf16 8192")

    def test_directions_and_modifiers(self):
        names = [case.name for case in cases.all_cases(["backward", "both"], ["softcap"])]
        self.assertEqual(len(names), 2 * 3 * 2 * 6)
        self.assertIn("backward bf16 D64 none softcap S512", names)
        forward, backward, both = (cases.AttentionCase(64, "top_left", 512, direction=direction)
                                   for direction in ("forward", "backward", "both"))
        self.assertEqual(backward.flops * 2, forward.flops * 5)
        self.assertEqual(both.flops, forward.flops + backward.flops)
        self.assertEqual((backward.form, cases.MatmulCase(64).form), ("backward", "matmul"))

    def test_packed_sequences(self):
        names = [case.name for case in cases.all_cases(["varlen"], dims=[64, 128])]
        self.assertEqual(len(names), 2 * 2 * len(cases.LENGTHS))
        self.assertIn("varlen bf16 D128 top_left mixed", names)
        for mask in cases.MASKS:
            packed, dense = cases.VarlenCase(128, mask, "8x2048"), cases.AttentionCase(128, mask, 2048)
            self.assertEqual((packed.flops, packed.heads), (dense.flops, dense.heads))
        self.assertEqual(cases.VarlenCase(64, "none", "mixed").seq, 4096)
        self.assertEqual(cases.VarlenCase(64, "none", "mixed").params(), {"D": "64", "T": "bf16", "CAUSAL": "none",
                                                                            "PACKED": "true"})

    def test_pairs_under_a_window(self):
        for seq, window in ((7, 3), (7, 6), (7, 9), (8, 1)):
            for causal in ("none", "top_left"):
                kept = sum(abs(i - j) <= window and (causal == "none" or j <= i) for i in range(seq) for j in range(seq))
                self.assertEqual(cases.AttentionCase(64, causal, seq, window=window).kept_pairs, kept)
        self.assertEqual(cases.AttentionCase(64, "none", 8).params(), {"D": "64", "T": "bf16", "CAUSAL": "none"})
        self.assertEqual(cases.AttentionCase(64, "none", 8, window=1).params()["WINDOW"], "true")

    def test_documents(self):
        lengths = cases.document_lengths()
        self.assertEqual((len(lengths), sum(lengths), min(lengths) > 0), (32, 16384, True))
        self.assertEqual(lengths, cases.document_lengths())
        every = cases.all_cases(["forward"], ["document"])
        self.assertEqual([case.seq for case in every], [16384] * 6)
        self.assertEqual(every[0].kept_pairs, sum(n * n for n in lengths))
        self.assertEqual(every[1].kept_pairs * 2, every[0].kept_pairs)
        self.assertEqual(cases.all_cases(["forward"], ["document"], windows=[8]), [])

    def test_grouped_heads(self):
        case = cases.AttentionCase(128, "none", 4096, gqa=8)
        self.assertEqual((case.heads, case.kv_heads), (16, 2))
        self.assertEqual(case.flops, cases.AttentionCase(128, "none", 4096).flops)
        self.assertEqual(len(cases.all_cases(["forward"], gqas=[16])), 2 * 2 * 6)  # D 256 has 8 heads

    def test_tokens_and_hidden_size_stay(self):
        for case in cases.attention_cases():
            self.assertEqual(case.batch * case.seq, 16384)
            self.assertEqual(case.heads * case.dim, 2048)

    def test_flops(self):
        case = cases.AttentionCase(128, "none", 4096)
        self.assertEqual(case.flops, 4 * 4 * 16 * 4096 * 4096 * 128)
        self.assertEqual(cases.AttentionCase(128, "top_left", 4096).flops, case.flops / 2)
        self.assertEqual(cases.MatmulCase(8192).flops, 2 * 8192**3)

    def test_packed_backward(self):
        forward, backward = (cases.VarlenCase(128, "top_left", "8x2048", direction=direction)
                             for direction in ("varlen", "varlen_backward"))
        self.assertEqual(backward.name, "varlen_backward bf16 D128 top_left 8x2048")
        self.assertEqual(backward.form, "varlen_backward")
        self.assertEqual(backward.flops, 10 * 16 * 8 * 2048**2 / 2 * 128)
        self.assertEqual(forward.flops * 5, backward.flops * 2)
        self.assertEqual(len(cases.all_cases(["varlen_backward"])), 3 * 2 * 3)

    def test_rows_of_values_may_be_narrower(self):
        pairs = 4 * 10 * 4096 * 4096
        forward = cases.AttentionCase(192, "none", 4096, value_dim=128)
        self.assertEqual(forward.name, "forward bf16 D192x128 none S4096")
        self.assertEqual(forward.params()["DV"], "128")
        self.assertEqual(forward.flops, 2 * pairs * (192 + 128))
        backward = cases.AttentionCase(192, "none", 4096, direction="backward", value_dim=128)
        self.assertEqual(backward.flops, 2 * pairs * (3 * 192 + 2 * 128))

    def test_other_attentions(self):
        two = cases.CASES["differential"](dim=64, v_dim=128, causal="top_left", seq=4096, batch=4, heads=16)
        self.assertEqual(two.name, "differential bf16 B4 H16 D64 V128 top_left S4096")
        self.assertEqual(two.flops, 4 * 4 * 16 * 4096**2 / 2 * (64 + 128))
        self.assertEqual(two.params(), {"D": "64", "DV": "128", "T": "bf16", "CAUSAL": "top_left"})
        linear = cases.CASES["linear"](dim=128, v_dim=64, seq=256, batch=2, heads=3)
        self.assertEqual(linear.name, "linear bf16 B2 H3 D128 V64 S256")
        self.assertEqual(linear.flops, 2 * 3 * 256 * (4 * 128 * 64 + 128 * (128 + 64)))

    def test_gated_unit(self):
        case = cases.CASES["swiglu"](dim=4096, v_dim=cases.inner_width(4096), seq=8192)
        self.assertEqual(case.name, "swiglu bf16 M8192 N11008 K4096")
        self.assertEqual(case.flops, 2 * 2 * 8192 * 11008 * 4096)
        self.assertEqual(case.params(), {"T": "bf16", "TRANSPOSED": "false"})
        turned = cases.CASES["swiglu"](dim=64, v_dim=128, seq=256, transposed=True)
        self.assertEqual((turned.name, turned.params()["TRANSPOSED"]),
                         ("swiglu bf16 M256 N128 K64 transposed", "true"))
        self.assertEqual([cases.inner_width(dim) for dim in (5120, 8192)], [13824, 22016])

    def test_select(self):
        every = cases.all_cases()
        self.assertEqual(cases.select(every, None), every)
        self.assertEqual(len(cases.select(every, ["D64 top_left"])), 6)
        self.assertEqual(len(cases.select(every, ["S512", "matmul"])), 7)
        self.assertEqual(len(cases.select(every, ["D64*S1*"])), 4)
        self.assertEqual(cases.select(every, ["S51"]), [])  # whole words


class ContractTest(unittest.TestCase):
    def test_reads_a_kernel(self):
        contract = Contract(KERNEL)
        self.assertEqual((contract.entry, contract.target, contract.threads, contract.shared_bytes),
                         ("forward", "sm_80", 256, 24576))
        self.assertEqual([(a.name, a.rank, a.type, a.optional) for a in contract.arguments],
                         [("q", 4, "bf16", False), ("lse", 2, "f32", True), ("scale", None, "f32", False)])
        self.assertFalse(contract.tensor_maps)

    def test_grid(self):
        contract = Contract(KERNEL)
        self.assertEqual(contract.count_blocks({"q": [2, 3, 129, 64]}, sm_count=132), 2 * 3 * 4)
        self.assertEqual(contract.count_blocks({"q": [2, 0, 129, 64]}, sm_count=2), 0)

    def test_rejects(self):
        with self.assertRaisesRegex(ContractError, "expected one tgpu.kernel but got 0"):
            Contract("module {}")
        with self.assertRaisesRegex(ContractError, "cannot evaluate the grid's 'dim\\(k, 1\\)'"):
            Contract(KERNEL.replace("%h = dim(q, 1)", "%h = dim(k, 1)")).count_blocks({"q": [1, 1, 1, 64]}, 1)


class ReportTest(unittest.TestCase):
    def test_summary(self):
        summary = report.summarize([5.0, 1.0, 3.0, 2.0, 4.0])
        self.assertEqual(summary, {"median_ms": 3.0, "q1_ms": 1.5, "q3_ms": 4.5, "rounds": 5})
        self.assertEqual(report.summarize([7.0])["q1_ms"], 7.0)

    def test_speeds(self):
        self.assertEqual(report.tflops(2e12, 4.0), 500.0)
        self.assertAlmostEqual(report.geometric_mean([0.5, 2.0, 8.0]), 2.0)
        self.assertIsNone(report.geometric_mean([]))

    def test_ratios(self):
        results = {"a": {"us": {"median_ms": 2.0}, "peer": {"median_ms": 1.0}},
                   "b": {"us": {"median_ms": 1.0}, "peer": {"median_ms": 2.0}},
                   "c": {"peer": {"median_ms": 1.0}}}
        table = report.ratios(results, "us")
        self.assertEqual(table, {"peer": {"a": 0.5, "b": 2.0}})
        self.assertEqual(report.summary_rows(table), [["peer", 2, "1.000", "0.500", "a"]])

    def test_best_of_peers(self):
        results = {"a": {"us": {"median_ms": 2.0}, "x": {"median_ms": 1.0}, "y": {"median_ms": 3.0}},
                   "b": {"us": {"median_ms": 1.0}, "x": {"median_ms": 5.0}, "y": {"median_ms": 4.0}},
                   "c": {"us": {"median_ms": 1.0}, "z": {"median_ms": 0.1}},
                   "d": {"x": {"median_ms": 1.0}}}
        best = report.best_peers(results, ["x", "y"])
        self.assertEqual(best, {"a": "x", "b": "y", "d": "x"})
        self.assertEqual(report.ratios_to_best(results, "us", best), {"a": 0.5, "b": 4.0})

    def test_table(self):
        self.assertEqual(report.markdown_table(["x", "y"], [[1, "z"]]), "| x | y |\n|---|---|\n| 1 | z |")

    def test_svg(self):
        groups = {"D64 <none>": {"us": [(512, 300.0), (1024, 400.0)], "peer": [(512, 250.0)]}, "D128": {"us": [(512, 1.0)]}}
        tree = xml.etree.ElementTree.fromstring(report.svg_plot(groups, "a & b"))
        name = "{http://www.w3.org/2000/svg}"
        self.assertEqual(len(tree.findall(name + "polyline")), 3)
        self.assertEqual(len(tree.findall(name + "circle")), 4)
        texts = [text.text for text in tree.findall(name + "text")]
        for text in ("a & b", "D64 <none>", "1024", "us", "peer"):
            self.assertIn(text, texts)
        for circle in tree.findall(name + "circle"):
            self.assertTrue(0 < float(circle.get("cx")) < 860 and 0 < float(circle.get("cy")) < 340)

    def test_curves(self):
        picture = report.svg_curves({"us": [5.5, 4.0, 2.5], "a & b": [5.5, 2.75]}, "Loss", "step", "nats")
        tree, name = xml.etree.ElementTree.fromstring(picture), "{http://www.w3.org/2000/svg}"
        lines = [[tuple(map(float, point.split(","))) for point in line.get("points").split()]
                 for line in tree.findall(name + "polyline")]
        self.assertEqual([len(line) for line in lines], [3, 2])
        self.assertEqual(lines[0][0], lines[1][0])
        self.assertLess(lines[0][0][1], lines[0][1][1])  # a lower value is further down
        self.assertEqual([line.get("stroke-dasharray") for line in tree.findall(name + "polyline")], [None, "6 6"])
        self.assertIn("a & b", [text.text for text in tree.findall(name + "text")])


class PeersTest(unittest.TestCase):
    def test_targets_are_those_of_the_users(self):
        self.assertEqual(peers.default_targets((9, 0)), ["sm_90a"])
        for capability in ((8, 0), (8, 9), (10, 0), (12, 0)):  # sm_90a's code runs on none of them
            self.assertEqual(peers.default_targets(capability), ["sm_80"])

    def test_best_of_all_lengths_and_of_long_ones(self):
        selected = [cases.AttentionCase(64, "none", seq) for seq in (512, 2048, 4096)]
        times = {512: (4.0, 1.0, 2.0), 2048: (1.0, 2.0, 3.0), 4096: (1.0, 9.0, 8.0)}  # ours, cudnn, fa4
        results = {case.name: {side: {"median_ms": ms} for side, ms in zip((peers.SUBJECT, "cudnn", "fa4"), times[case.seq])}
                   for case in selected}
        self.assertEqual(peers.best_rows(results, selected),
                         [["forward, all lengths", 3, "1.587", "0.250", selected[0].name],
                          ["forward, S >= 2048", 2, "4.000", "2.000", selected[1].name]])
        del results[selected[0].name][peers.SUBJECT]
        self.assertEqual([row[1] for row in peers.best_rows(results, selected)], [2, 2])

    def test_cell_of_the_best(self):
        times = {peers.SUBJECT: {"median_ms": 2.0, "tflops": 300.0}, "fa4": {"median_ms": 1.0, "tflops": 600.0}}
        self.assertEqual(peers.describe_best(times, "fa4"), "fa4 600 (0.50)")
        self.assertEqual(peers.describe_best({"fa4": times["fa4"]}, "fa4"), "fa4 600")
        self.assertEqual(peers.describe_best(times, None), "-")


class TimelineTest(unittest.TestCase):
    def test_table(self):
        def named(pid, tid, name):
            return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}

        def event(tid, ph, cat, name, ts, dur=None, **more):
            return {"ph": ph, "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, **({"dur": dur} if dur else {}), **more}

        line = {"args": {"line": "a.mlir:3"}}
        events = [named(1, 1, "load 0"), named(1, 65, "compute 0"), named(1, 66, "compute 1"),
                  event(1, "X", "copy", "tma_load k", 0, 1.0, **line),
                  event(65, "X", "wait", "wait k", 0, 3.0, **line), event(66, "X", "wait", "wait k", 1, 1.0, **line),
                  event(65, "b", "in flight", "wgmma", 3, id=7), event(65, "e", "in flight", "wgmma", 5, id=7),
                  event(65, "X", "work", "work", 3, 12.0), event(65, "X", "loop", "round", 0, 16.0)]
        self.assertEqual(timeline.rows_of({"traceEvents": events}),
                         [["load", "copy", "tma_load k", "a.mlir:3", 1, "1000", "100.0%"],
                          ["compute", "work", "work", "", 1, "12000", "75.0%"],
                          ["compute", "wait", "wait k", "a.mlir:3", 2, "2000", "25.0%"],
                          ["compute", "loop", "round", "", 1, "16000", ""],
                          ["compute", "in flight", "wgmma", "", 1, "2000", ""]])
        self.draws({"traceEvents": events})

    def draws(self, trace):
        tracks, slices = timeline_plot.read_block(trace)
        self.assertEqual(tracks, {1: "load 0", 65: "compute 0", 66: "compute 1"})
        self.assertIn((65, "in flight", "wgmma", 3, 2), slices)
        self.assertNotIn("round", [name for _, _, name, _, _ in slices])
        # 4 us from 2 us on: the copy has ended; the wait is clipped on the left and the work on the right.
        picture = timeline_plot.svg_timeline(trace, "D & V", begin=2.0, length=4.0)
        self.assertNotIn("tma_load", picture)
        self.assertIn("D &amp; V", picture)
        scale = (timeline_plot.WIDTH - timeline_plot.LEFT - 16) / 4
        self.assertIn(f'x="{timeline_plot.LEFT:.1f}" y="72" width="{scale:.1f}"', picture)
        self.assertIn(f'width="{3 * scale:.1f}"', picture)
        with self.assertRaisesRegex(ValueError, "the trace has 1 blocks, but got block 1"):
            timeline_plot.read_block(trace, block=1)


class Axes:
    """A stand-in for an array, which only has the order of its axes."""

    def __init__(self, axes):
        self.axes = axes

    def transpose(self, a, b):
        axes = list(self.axes)
        axes[a], axes[b] = axes[b], axes[a]
        return Axes("".join(axes))


class FlashAttention4Test(unittest.TestCase):
    def test_says_why_it_is_absent(self):
        with unittest.mock.patch.object(fa4, "MODULE", "no_such_package.interface"):
            self.assertEqual(fa4.why_absent(), "not installed: ModuleNotFoundError: No module named 'no_such_package'")

    def call(self, *args, **kwargs):
        """What the package gets, and the order of the axes that comes back."""
        seen = []

        def flash_attn_func(q, k, v, **options):
            seen.append(([x.axes for x in (q, k, v)], options))
            return q, "LSE"

        module = types.SimpleNamespace(flash_attn_func=flash_attn_func)
        with unittest.mock.patch.dict(sys.modules, {fa4.MODULE: module}):
            self.assertIsNone(fa4.why_absent())
            result = fa4.forward(*args, **kwargs)(*[Axes("bhsd")] * 3)
        return (*seen[0], result.axes)

    def test_takes_rows_before_heads(self):
        given, options, returned = self.call(True, 0.5)
        self.assertEqual((given, returned), (["bshd"] * 3, "bhsd"))
        self.assertEqual(options, {"softmax_scale": 0.5, "causal": True, "softcap": 0.0, "window_size": (None, None)})

    def test_features(self):
        self.assertEqual(self.call(True, 1.0, window=64)[1]["window_size"], (64, None))
        self.assertEqual(self.call(False, 1.0, window=64)[1]["window_size"], (64, 64))
        self.assertEqual(self.call(False, 1.0, mod="softcap")[1]["softcap"], 20.0)
        self.assertIsNone(fa4.forward(False, 1.0, mod="alibi"))


if __name__ == "__main__":
    unittest.main()
