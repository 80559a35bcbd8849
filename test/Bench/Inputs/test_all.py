# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of the parts of bench/all.py that need no GPU: rows, files of figures, tables, and how a run continues."""

import contextlib
import datetime
import io
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "..", "bench"))

import all as bench_all  # noqa: E402
import serving  # noqa: E402
from gpubench import figures, rows  # noqa: E402

MACHINE = {"gpu": "NVIDIA X9", "driver": "1.2", "torch": "3.4", "cudnn": "91901"}
HEAD = {"commit": "abc", "machine": MACHINE, "rounds": 7}


def side(ms, rate, spread=0.01):
    return {"ms": ms, "rate": rate, "spread": spread}


def row_named(name):
    return next(row for row in rows.rows() if row.name == name)


FORWARD = row_named("forward bf16 D64 none S1024")
CAUSAL = row_named("forward bf16 D64 top_left S4096")


class RowsTest(unittest.TestCase):
    def test_names_are_unique_and_areas_are_known(self):
        every = rows.rows()
        self.assertEqual(len({row.name for row in every}), len(every))
        self.assertEqual({row.area for row in every}, set(rows.AREAS))

    def test_cases_with_the_same_code_share_a_bundle(self):
        files = [bundle.file for row in rows.rows() for bundle in row.bundles()]
        of_heads = row_named("forward bf16 D128 top_left gqa8 hidden8192 S4096").bundles()
        self.assertEqual(of_heads[0].file, "attention_forward_D=128_T=bf16_CAUSAL=top_left.twb")
        self.assertIn(of_heads[0].file, [row.bundles()[0].file for row in rows.rows() if row.area == "forward"])
        self.assertLess(len(set(files)), len(files))
        self.assertEqual([bundle.name for bundle in row_named("decode 16 rows B16 S8k").bundles()],
                         ["16 rows B16 S8k P0", "16 rows B16 S8k P64"])

    def test_heads_of_a_case(self):
        case = row_named("backward bf16 D128 top_left gqa8 hidden8192 S4096").case
        self.assertEqual((case.heads, case.kv_heads), (64, 8))

    def test_units(self):
        self.assertEqual([row_named(name).unit for name in ("decode B1 S1k", "decode 16 x 512 on 8k", "matmul bf16 8192")],
                         ["TB/s", "TFLOP/s", "TFLOP/s"])

    def test_select(self):
        names = [row.name for row in rows.select(rows.rows(), ["packed", "D256 none", "varlen"])]
        self.assertEqual(len(names), 8 + 6)
        self.assertEqual((names[0], names[8]), ("varlen bf16 D128 none mixed", "forward bf16 D256 none S1024"))
        self.assertEqual(rows.select(rows.rows(), []), rows.rows())
        self.assertEqual(rows.select(rows.rows(), ["D65"]), [])

    def test_kernels_of_peers_are_compiled_once(self):
        found = bench_all.prepared([FORWARD, row_named("forward bf16 D64 none S4096"), row_named("decode softcap B16 S8k"),
                                    row_named("decode B1 S1k"), row_named("decode 4 rows B16 S8k"),
                                    row_named("forward bf16 D128 top_left alibi S4096"), row_named("varlen bf16 D128 none mixed"),
                                    row_named("varlen bf16 D128 none 32x512"), row_named("matmul bf16 8192"),
                                    row_named("backward bf16 D128 top_left window1024 S16384")])
        self.assertEqual([(case.name, names) for case, names in found], [
            ("forward bf16 D64 none S1024", ("fa4",)), ("4 rows B16 S8k", ("fa4",)), ("forward bf16 D128 top_left alibi S4096", ("flex",)),
            ("varlen bf16 D128 none mixed", ("fa4",)), ("backward bf16 D128 top_left window1024 S2048", ("fa4",))])


class FiguresTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "figures.json")

    def begun(self, **changes):
        return figures.Figures.begin(self.path, **{**HEAD, **changes})

    def test_a_file_is_written_after_each_row_and_continued(self):
        first = self.begun()
        self.assertFalse(os.path.exists(self.path))
        first.add(FORWARD, {"tilewright": side(1.23456789, 500.4)}, {"fa4": "refuses"})
        again = self.begun()
        self.assertEqual(again.data, first.data)
        self.assertEqual(again.rows[FORWARD.name], {"sides": {"tilewright": side(1.2346, 500.4)}, "excluded": {"fa4": "refuses"}})
        self.assertEqual(again.digest(), first.digest())
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(file.read(), first.text())
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["figures.json"])

    def test_a_digest_is_of_the_figures(self):
        first = self.begun()
        first.add(FORWARD, {"tilewright": side(1, 2)}, {})
        digest = first.digest()
        first.add(FORWARD, {"tilewright": side(1, 3)}, {})
        self.assertNotEqual(first.digest(), digest)

    def test_files_of_something_else_are_refused(self):
        self.begun().add(FORWARD, {}, {})
        for changes, text in (({"commit": "abd"}, "has figures of commit abc, but this is abd"),
                              ({"machine": {"gpu": "NVIDIA X8"}}, "has figures of gpu NVIDIA X9, but this is NVIDIA X8"),
                              ({"machine": {**MACHINE, "torch": "3.5"}}, "has figures of torch 3.4, but this is 3.5"),
                              ({"rounds": 8}, "has figures of rounds 7, but this is 8")):
            with self.assertRaisesRegex(figures.Refused, text):
                self.begun(**changes)

    def test_a_peer_can_come_later(self):
        self.begun().add(FORWARD, {}, {})
        self.assertEqual(self.begun(machine={**MACHINE, "fa4": "4.0"}).data["machine"], {**MACHINE, "fa4": "4.0"})
        self.begun(machine={**MACHINE, "fa4": "4.0"}).add(FORWARD, {}, {})
        self.assertEqual(self.begun().data["machine"]["fa4"], "4.0")

    def test_files_of_another_day_are_refused(self):
        first = self.begun()
        first.data["begun"] = (figures.now() - datetime.timedelta(hours=25)).isoformat(timespec="seconds")
        first.add(FORWARD, {}, {})
        with self.assertRaisesRegex(figures.Refused, "was begun on "):
            self.begun()


class MeasureTest(unittest.TestCase):
    def setUp(self):
        FiguresTest.setUp(self)
        self.options = types.SimpleNamespace(selected=[FORWARD, CAUSAL], time_limit=100, out=self.path)
        self.ran = []

    def measure(self, run, begin=None, release=lambda: None):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            status = bench_all.measure_rows(self.options, figures.Figures.begin(self.path, **HEAD), run, release,
                                            bench_all.time.monotonic() if begin is None else begin)
        return status, out.getvalue()

    def run_row(self, row):
        self.ran.append(row.name)
        return {"tilewright": side(1, 500)}, {"fa4": "refuses"}

    def test_rows_that_are_there_are_not_measured_again(self):
        status, text = self.measure(self.run_row)
        self.assertEqual((status, self.ran), (0, [FORWARD.name, CAUSAL.name]))
        self.assertIn(f"{FORWARD.name}: tilewright 500 (", text)
        self.assertIn("; fa4: refuses\n", text)
        self.options.selected.append(row_named("decode B1 S1k"))
        self.assertEqual(self.measure(self.run_row)[0], 0)
        self.assertEqual(self.ran, [FORWARD.name, CAUSAL.name, "decode B1 S1k"])

    def test_a_lost_gpu_ends_the_run_and_the_next_goes_on_behind_the_row(self):
        def lost():
            raise RuntimeError("an illegal address\nand more")
        status, text = self.measure(self.run_row, release=lost)
        self.assertEqual((status, text), (1, f"all: {FORWARD.name}: an illegal address; the same command goes on behind this row\n"))
        self.assertEqual(self.measure(self.run_row)[0], 0)
        self.assertEqual(self.ran, [FORWARD.name, CAUSAL.name])
        self.assertEqual(figures.Figures.read(self.path).rows[FORWARD.name],
                         {"sides": {}, "excluded": {"fa4": "refuses", "all": "an illegal address"}})

    def test_a_row_that_fails_is_entered_with_the_reason(self):
        def refuse(row):
            raise RuntimeError("out of memory\nand more") if row is FORWARD else AssertionError()
        status, text = self.measure(refuse)
        self.assertEqual(status, 0)
        self.assertIn("nothing could be timed", text)
        self.assertEqual([row["excluded"] for row in figures.Figures.read(self.path).rows.values()],
                         [{"all": "out of memory"}, {"all": "AssertionError"}])

    def test_no_row_is_begun_behind_the_limit(self):
        status, text = self.measure(self.run_row, begin=bench_all.time.monotonic() - 101)
        self.assertEqual((status, self.ran), (2, []))
        self.assertIn("2 rows were not begun within 100 s; the same command goes on", text)

    def test_what_a_machine_needs(self):
        cuda = types.SimpleNamespace(is_available=lambda: True, get_device_name=lambda: "X8", get_device_capability=lambda: (8, 0))
        for torch, text in ((None, "PyTorch is needed: "), (types.SimpleNamespace(cuda=cuda), "a GPU of sm_90a is needed, but there is X8"),
                            (types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False)), "but there is none")):
            with unittest.mock.patch.dict(sys.modules, torch=torch), self.assertRaisesRegex(figures.Refused, text):
                bench_all.need_gpu()
        cuda.get_device_capability = lambda: (9, 0)
        with unittest.mock.patch.dict(sys.modules, torch=types.SimpleNamespace(cuda=cuda)):
            bench_all.need_gpu()

    def test_summaries(self):
        self.assertEqual(figures.of_peers({"median_ms": 2.0, "q1_ms": 1.9, "q3_ms": 2.1, "tflops": 7.0, "rounds": 3}),
                         {"ms": 2.0, "spread": (2.1 - 1.9) / 2.0, "rate": 7.0})
        self.assertEqual(figures.of_serving({"us": 20.0, "iqr": 1.0, "tbs": 4.0}), {"ms": 0.02, "spread": 0.05, "rate": 4.0})
        self.assertEqual(figures.of_serving({"us": 20.0, "iqr": 1.0, "tbs": 4.0, "tflops": 9.0})["rate"], 9.0)


class ServingTest(unittest.TestCase):
    def test_cases_whose_means_are_compared(self):
        names = [case.name for case in serving.THIRTEEN]
        self.assertEqual((len(set(names)), names[0], names[6], names[-1]), (13, "B1 S1k", "B64 S8k", "pages of 16 B64 S8k"))
        self.assertEqual({case.page_rows for case in serving.THIRTEEN[:12]}, {64})
        self.assertEqual(serving.bundle_names(serving.THIRTEEN[-1], 16, 4), ["D128 G8 P16 S4"])

    def test_other_kernels_have_sides_of_their_own(self):
        command = serving.compile_command("tilewrightc", serving.CASES[12], 64, 0, "a.twb", "before")
        self.assertEqual(command[1], os.path.join("before", "attention_decode.mlir"))
        ours = types.SimpleNamespace(folders={"": "now", "old.": "before"}, against="")
        ours.call = lambda *arguments, splits: (ours.against, *arguments[3:], splits)
        case = serving.CASES[0]
        self.assertEqual(serving.side_of("old.pages16:4", None, ours, case, None, None), ("old.", 16, False, 4))
        self.assertEqual(serving.side_of("paged", None, ours, case, None, None), ("", 64, 0))
        with self.assertRaisesRegex(SystemExit, "side older.rows needs --against older=FOLDER"):
            serving.side_of("older.rows", None, ours, case, None, None)

    def test_a_row_is_measured_with_the_bundles_of_the_folder(self):
        options = types.SimpleNamespace(selected=[row_named("decode B1 S1k")], folder="bundles", rounds=3)
        bench = types.SimpleNamespace(torch=None, options=types.SimpleNamespace(library="lib.so"), absent={"cudnn": "no PyTorch"})
        with unittest.mock.patch.object(serving, "Library") as library:
            library.return_value.open = os.path.basename
            measurement = bench_all.Measurement(options, bench)
        self.assertEqual(measurement.ours.bundles, {"D128 G8 P0": "D128_G8_P0.twb", "D128 G8 P64": "D128_G8_P64.twb"})
        self.assertEqual(list(measurement.ours.folders), [""])
        with unittest.mock.patch.object(serving, "measure", return_value=({}, {})) as measure:
            measurement.row(options.selected[0])
        _, case, asked, _ = measure.call_args.args
        self.assertEqual((case.name, asked.sides), ("B1 S1k", ["rows", "pages64"]))

    def test_ratios(self):
        results = {"a": {"paged": {"us": 1.0}, "invariant": {"us": 2.0}}, "b": {"paged": {"us": 2.0}, "invariant": {"us": 1.0}},
                   "c": {"paged": {"us": 1.0}}}
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            serving.print_ratios(results, "paged/invariant")
        lines = text.getvalue().splitlines()
        self.assertEqual([line.split()[-1] for line in lines[:2]], ["0.500", "2.000"])
        self.assertEqual(lines[2], "paged/invariant geometric mean of 2 cases 1.000, from 0.500 to 2.000")
        with self.assertRaisesRegex(SystemExit, "no case has both sides of --ratio paged/fa3"):
            serving.print_ratios(results, "paged/fa3")


class TextTest(unittest.TestCase):
    def setUp(self):
        FiguresTest.setUp(self)
        self.figures = figures.Figures.begin(self.path, **HEAD)

    def add(self, name, excluded=None, **sides):
        self.figures.add(row_named(name), sides, excluded or {})

    def text(self, area):
        return figures.area_text(self.figures, rows.rows(), area)

    def test_plain_attention(self):
        self.add("forward bf16 D64 none S1024", tilewright=side(1, 500), cudnn=side(2, 250), fa4=side(1.5, 333.4))
        self.add("forward bf16 D64 top_left S4096", {"cudnn": "fails | the check"}, tilewright=side(1, 400), fa4=side(0.9, 444))
        self.assertEqual(self.text("forward"), "\n".join((
            "| TFLOP/s | Tilewright | cuDNN | FA4 | over the faster |", "|---|---|---|---|---|",
            "| D 64, full, S 1,024 | 500 | 250 | 333 | 1.50 |", "| D 64, causal, S 4,096 | 400 | - | 444 | 0.90 |", "",
            "Over the faster of cuDNN and FA4: 1.16 in the geometric mean of 2 cases, least 0.90 (D 64, causal, S 4,096).", "",
            "- cuDNN was not timed: fails / the check (D 64, causal, S 4,096)")))

    def test_features(self):
        self.add("forward bf16 D128 none dropout S4096", tilewright=side(1, 436), cudnn=side(2, 297), flash=side(3, 100))
        self.add("backward bf16 D128 none dropout S4096", tilewright=side(2, 400))
        self.add("matmul bf16 8192", tilewright=side(1, 700), torch=side(0.98, 714))
        self.assertEqual(self.text("features").splitlines()[2:], [
            "| dropout of 0.1, full | 436 | cuDNN 297 | 2.00 | 400 | - | - |",
            "| matrix product, 8192 cubed | 700 | cuBLAS 714 | 0.98 | - | - | - |"])

    def test_packed(self):
        self.add("varlen bf16 D128 none mixed", tilewright=side(1, 600), fa4=side(1.2, 500))
        self.add("varlen_backward bf16 D128 none mixed", tilewright=side(1, 600), fa4=side(1.5, 400))
        self.assertEqual(self.text("packed").splitlines()[2:], [
            "| 1 to 4096 rows, full | 600 | FA4 500 | 1.20 | 600 | FA4 400 | 1.50 |", "",
            "Over FA4: forward 1.20 in the geometric mean of 1 cases, least 1.20 (1 to 4096 rows, full); backward 1.50 in the",
            "geometric mean of 1 cases, least 1.50 (1 to 4096 rows, full)."])

    def test_decode(self):
        self.add("decode B1 S1k", rows=side(0.007, 0.6), pages64=side(0.008, 0.55), cudnn=side(0.0076, 0.56))
        self.add("decode 64 lengths", rows=side(0.2, 4.0), pages64=side(0.2, 4.01), fa4=side(0.3, 2.7))
        self.add("decode 16 x 512 on 8k", rows=side(1.8, 700), pages64=side(1.9, 650), fa4=side(2, 600))
        self.assertEqual(self.text("decode").splitlines(), [
            "| TB/s | one piece | pages of 64 | the same, us | cuDNN | FA4 | pages over the peer |", "|---|---|---|---|---|---|---|",
            "| B1 S1k | 0.60 | 0.55 | 8.0 | 0.56 | - | 0.95 |", "| 64 lengths | 4.00 | 4.01 | 200 | - | 2.70 | 1.50 |", "",
            "| TFLOP/s | one piece | pages of 64 | the same, us | FA4 | pages over the peer |", "|---|---|---|---|---|---|",
            "| 16 x 512 on 8k | 700 | 650 | 1900 | 600 | 1.05 |", "",
            "Over cuDNN, where it has the case: pages of 64 0.95 in the geometric mean of 1 cases, least 0.95 (B1 S1k); one piece",
            "1.09 in the geometric mean of 1 cases, least 1.09 (B1 S1k)."])

    def test_machine(self):
        self.add("forward bf16 D64 none S1024", tilewright=side(1, 500, 0.05), cudnn=side(2, 250), fa4=side(1.5, 333))
        text = " ".join(figures.machine_text(self.figures).split())
        self.assertIn(f"One NVIDIA X9 (driver 1.2, PyTorch 3.4, cuDNN 9.19.1), {figures.now():%Y-%m-%d}, commit abc, for all rows: medians of 7", text)
        self.assertIn("at most 3% of the median in 2 of 3 figures, and most in `forward bf16 D64 none S1024` (Tilewright, 5%).", text)

    def test_summary(self):
        for direction, slower in (("forward", 1.1), ("backward", 1.2)):
            self.add(f"{direction} bf16 D64 none S1024", tilewright=side(1, 500), cudnn=side(slower, 450), fa4=side(2, 250))
        self.add("varlen bf16 D128 none mixed", tilewright=side(1, 500), fa4=side(1.3, 400))
        self.add("decode B1 S1k", rows=side(1, 4), pages64=side(1.25, 3), cudnn=side(1, 4))
        self.add("decode 4 x 2048 on 30k", pages64=side(2, 600), fa4=side(3, 400))
        self.add("decode 4 rows B16 S8k", pages64=side(1, 4), fa4=side(9, 1))  # is no prefill
        text = " ".join(figures.summary_text(self.figures, rows.rows()).split())
        self.assertIn("1 cases each", text)
        self.assertIn("the forward is 1.10x as fast as the faster of cuDNN and FlashAttention-4, the backward 1.20x (geometric", text)
        self.assertIn("Packed sequences of D 128 are 1.30x and - as fast as FlashAttention-4", text)
        self.assertIn("is 0.80x as fast as cuDNN although keys are in pages, and 1.00x where they are in one piece", text)
        self.assertIn("Chunked prefill over pages is 1.50x as fast as FlashAttention-4. Measured", text)

    def test_documents_are_filled_between_marks(self):
        self.add("matmul bf16 8192", tilewright=side(1, 700))
        document = "a\n<!-- figures: features -->\nold\n<!-- end of figures -->\nb\n"
        filled = figures.fill(document, self.figures, rows.rows())
        self.assertEqual(filled.splitlines()[:2] + filled.splitlines()[-2:],
                         ["a", "<!-- figures: features -->", "<!-- end of figures -->", "b"])
        self.assertIn("| matrix product, 8192 cubed | 700 |", filled)
        self.assertNotIn("old", filled)
        self.assertEqual(figures.fill(filled, self.figures, rows.rows()), filled)
        with self.assertRaisesRegex(figures.Refused, "expected one of machine, summary, forward, .* but got 'speed'"):
            figures.fill(document.replace("features", "speed"), self.figures, rows.rows())


if __name__ == "__main__":
    unittest.main()
