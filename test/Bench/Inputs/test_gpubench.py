# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What bench/gpubench computes without a GPU."""

import os
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "bench"))

import tune  # noqa: E402
from gpubench import cases, report  # noqa: E402
from gpubench.contract import Contract, ContractError  # noqa: E402

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

    def test_tokens_and_hidden_size_stay(self):
        for case in cases.attention_cases():
            self.assertEqual(case.batch * case.seq, 16384)
            self.assertEqual(case.heads * case.dim, 2048)

    def test_flops(self):
        case = cases.AttentionCase(128, "none", 4096)
        self.assertEqual(case.flops, 4 * 4 * 16 * 4096 * 4096 * 128)
        self.assertEqual(cases.AttentionCase(128, "top_left", 4096).flops, case.flops / 2)
        self.assertEqual(cases.MatmulCase(8192).flops, 2 * 8192**3)

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

    def test_refuses(self):
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


if __name__ == "__main__":
    unittest.main()
