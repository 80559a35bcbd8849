# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m tilewright doctor and bench. What a GPU would answer is made up; needs no GPU, and PyTorch for a part."""

import contextlib
import ctypes
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from tilewright import __main__, bench, cache, doctor, places, reports, runtime, timing  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
H200 = doctor.Gpu("NVIDIA H200", 9, 0)
GOOD = doctor.Facts(version="0.1.0", package="/site/tilewright", driver="580.159.04, for CUDA 13.0",
                    gpus=(H200, doctor.Gpu("NVIDIA RTX 4090", 8, 9), doctor.Gpu("NVIDIA V100", 7, 0)), library="/lib/libtilewright.so.0",
                    compiler="/lib/libtilewright-compiler.so.0, in this process", tool=sys.executable, kernels="/kernels, 15 files",
                    ptxas="/cuda/bin/ptxas", cache="/home/me/.cache/tilewright, 12 files, 3.5 of 1024 MiB, writable",
                    torch="2.15.0, for CUDA 13.0", torch_gpus=3, others="numpy 2.4.6", trial="")


def run(main, *arguments):
    """The exit status, standard output and standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(list(arguments))
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()


class DoctorTest(unittest.TestCase):
    def test_a_good_machine(self):
        with mock.patch.object(doctor, "gather", lambda: GOOD):
            status, out, _ = run(doctor.main)
        self.assertEqual(status, 0)
        self.assertEqual(out, f"""\
tilewright    0.1.0, /site/tilewright
driver        580.159.04, for CUDA 13.0
GPU 0         NVIDIA H200, compute capability 9.0, code for sm_90a
GPU 1         NVIDIA RTX 4090, compute capability 8.9, code for sm_89
GPU 2         NVIDIA V100, compute capability 7.0, too old: 8.0 is needed
library       /lib/libtilewright.so.0
compiler      /lib/libtilewright-compiler.so.0, in this process
kernels       /kernels, 15 files
ptxas         /cuda/bin/ptxas
cache         /home/me/.cache/tilewright, 12 files, 3.5 of 1024 MiB, writable
PyTorch       2.15.0, for CUDA 13.0
also          numpy 2.4.6
without a GPU {sys.executable}, for tilewright.interpret()

Attention runs: its results and gradients on the GPU are right.
""")

    def test_what_is_missing(self):
        old = (doctor.Gpu("NVIDIA V100", 7, 0),)
        for changes, line, remedy in (
                ({"driver": "!there is no libcuda.so.1", "gpus": ()}, "missing: there is no libcuda.so.1",
                 "install NVIDIA's driver, or run on a machine with a GPU; in a container, start it with --gpus all"),
                ({"gpus": ()}, "missing: the driver finds no GPU", "unset CUDA_VISIBLE_DEVICES, or give the container a GPU"),
                ({"gpus": old}, "missing: no GPU has compute capability 8.0 or more",
                 "use an A100, a GPU of the series 30, or a later one"),
                ({"library": "!cannot load x"}, "missing: cannot load x",
                 "install the wheel, build the source tree (make tools), or set TILEWRIGHT_LIBRARY"),
                ({"compiler": "!there is neither"}, "missing: there is neither",
                 "install the wheel, build the source tree (make tools), or set TILEWRIGHT_COMPILER"),
                ({"kernels": "!there is no /kernels"}, "missing: there is no /kernels",
                 "install the wheel, or use the package from its source tree"),
                ({"torch": "!PyTorch is not installed"}, "missing: PyTorch is not installed",
                 "pip install torch, of version 2.4 or later, for CUDA"),
                ({"torch_gpus": 0}, "missing: PyTorch finds no GPU, though the driver does",
                 "install a PyTorch for this driver: python -c 'import torch; torch.cuda.init()' says why"),
                ({"trial": "O is wrong: relative error 0.5"}, "missing: attention on the GPU fails: O is wrong: relative error 0.5",
                 "report it with this text")):
            with self.subTest(changes):
                lines, can_run = doctor.report(GOOD._replace(trial=changes.get("trial"), **{
                    name: value for name, value in changes.items() if name != "trial"}))
                self.assertFalse(can_run)
                self.assertEqual(lines[lines.index(line) + 1], " " * 9 + remedy)
                self.assertEqual(lines[-1], "Attention cannot run.")

    def test_a_cache_that_is_not_used_only_costs_time(self):
        lines, can_run = doctor.report(GOOD._replace(cache="!/c must not be writable by others"))
        self.assertTrue(can_run)
        self.assertIn("slower:  the cache is not used: /c must not be writable by others", lines)
        self.assertIn("cache         /c must not be writable by others", lines)

    def test_attention_is_tried_where_there_is_everything(self):
        tried = []
        parts = {"find_driver": (GOOD.driver, (GOOD.gpus[2], H200)), "_library": GOOD.library, "_compiler": GOOD.compiler,
                 "_kernels": GOOD.kernels, "_cache": GOOD.cache, "_torch": (GOOD.torch, 2)}
        for changes, wanted in (({}, ["cuda:1"]), ({"_library": "!cannot load x"}, [])):
            with contextlib.ExitStack() as stack:
                for name, value in {**parts, **changes}.items():
                    stack.enter_context(mock.patch.object(doctor, name, lambda value=value: value))
                stack.enter_context(mock.patch.object(doctor, "try_attention", lambda device: tried.append(device) or "broken"))
                facts = doctor.gather()
            self.assertEqual(tried, wanted)
            self.assertEqual(facts.trial, "broken" if wanted else None)
            tried.clear()

    def test_the_driver(self):
        class Driver:
            status = 0

            def cuInit(self, flags):
                return self.status

            def cuDriverGetVersion(self, number):
                number._obj.value = 13020

            def cuGetErrorName(self, status, name):
                name._obj.value = b"CUDA_ERROR_NO_DEVICE"

            def cuDeviceGetCount(self, count):
                count._obj.value = 1

            def cuDeviceGet(self, device, index):
                device._obj.value = index

            def cuDeviceGetName(self, name, size, device):
                ctypes.memmove(name, b"NVIDIA H200\0", 12)

            def cuDeviceGetAttribute(self, value, attribute, device):
                value._obj.value = {75: 9, 76: 0}[attribute]

        driver = Driver()
        with mock.patch.object(ctypes, "CDLL", lambda name: driver):
            text, gpus = doctor.find_driver()
            self.assertTrue(text.endswith("for CUDA 13.2"), text)
            self.assertEqual(gpus, (H200,))
            driver.status = 100
            text, gpus = doctor.find_driver()
            self.assertRegex(text, r"^!the driver \(.*for CUDA 13.2\) answers CUDA_ERROR_NO_DEVICE \(100\)$")
            self.assertEqual(gpus, ())

    def test_targets(self):
        self.assertEqual([doctor.Gpu("", *each).target() for each in ((7, 5), (8, 0), (8, 7), (8, 9), (9, 0), (10, 0), (12, 1))],
                         [None, "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_89"])

    def test_the_cache(self):
        info = cache.CacheInfo("/c", None, 12, 3 << 20, 1 << 30)
        for changes, writable, text in (({}, True, "/c, 12 files, 3.0 of 1024 MiB, writable"),
                                        ({}, False, "!/c, 12 files, 3.0 of 1024 MiB, not writable"),
                                        ({"folder": ""}, True, "off, since TILEWRIGHT_CACHE_DIR is empty"),
                                        ({"unused": "others may write /c"}, True, "!others may write /c")):
            with mock.patch.object(cache, "cache_info", lambda changes=changes: info._replace(**changes)), \
                    mock.patch.object(doctor, "_may_write", lambda folder, writable=writable: writable):
                self.assertEqual(doctor._cache(), text)
        with tempfile.TemporaryDirectory() as folder:
            self.assertTrue(doctor._may_write(os.path.join(folder, "not", "yet")))  # its first entry makes it
        error = runtime.TilewrightError("no library")
        with mock.patch.object(cache, "cache_info", mock.Mock(side_effect=error)):
            self.assertEqual(doctor._cache(), "not known without the library")

    def test_ptxas(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bin", "ptxas")
            os.mkdir(os.path.dirname(path))
            with open(path, "w", encoding="utf-8"):
                pass
            os.chmod(path, 0o755)
            with mock.patch.dict(os.environ, {"PATH": folder, "CUDA_HOME": folder}):
                os.environ.pop("TILEWRIGHT_PTXAS", None)
                self.assertEqual(places.find_ptxas(), path)
                os.environ["TILEWRIGHT_PTXAS"] = ""
                self.assertIsNone(places.find_ptxas())
                self.assertEqual(doctor._ptxas(), "none: the driver assembles kernels, one after the other, which takes longer")
                os.environ["TILEWRIGHT_PTXAS"] = folder + "/nowhere"
                self.assertEqual(doctor._ptxas(), "none: TILEWRIGHT_PTXAS must be the path of an executable file, but is "
                                                  f"'{folder}/nowhere'")

    def test_parts_that_are_missing(self):
        with mock.patch.object(places, "find_library", lambda: "/nowhere.so"):
            self.assertRegex(doctor._library(), "^!cannot load /nowhere.so: ")
        with mock.patch.object(places, "find_compiler", lambda: None), mock.patch.object(places, "find_tool", lambda: "/nowhere"):
            self.assertEqual(doctor._compiler(), "!there is neither a libtilewright-compiler.so nor a tilewrightc")
        with mock.patch.object(places, "find_compiler", lambda: "/nowhere.so"):
            self.assertRegex(doctor._compiler(), "^!/nowhere.so does not compile: cannot load /nowhere.so: ")
        with mock.patch.object(places, "KERNELS", "/nowhere"):
            self.assertEqual(doctor._kernels(), "!there is no /nowhere")
        with mock.patch.object(importlib.util, "find_spec", lambda name: None):
            self.assertEqual(doctor._torch(), ("!PyTorch is not installed", 0))
        with mock.patch.object(importlib.util, "find_spec", lambda name: object()):
            for version, cuda, text in (("2.3.1", "12.1", "!PyTorch 2.3.1 is older than 2.4"),
                                        ("2.15.0+cpu", None, "!PyTorch 2.15.0+cpu is built without CUDA"),
                                        ("2.15.0", "13.0", "2.15.0, for CUDA 13.0")):
                torch = mock.Mock(__version__=version, **{"version.cuda": cuda, "cuda.is_available": lambda: True,
                                                          "cuda.device_count": lambda: 2})
                with mock.patch.dict(sys.modules, {"torch": torch}):
                    self.assertEqual(doctor._torch()[0], text)
            with mock.patch.dict(sys.modules, {"torch": None}):
                self.assertRegex(doctor._torch()[0], "^!PyTorch cannot be imported: ")

    def test_on_this_machine(self):
        """The whole command, in a process of its own."""
        if not os.path.exists(places.find_library()):
            self.skipTest(f"there is no {places.find_library()}")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-B", "-m", "tilewright", "doctor"], stdout=subprocess.PIPE, text=True, env={
                **os.environ, "PYTHONPATH": os.path.dirname(places.PACKAGE), "TILEWRIGHT_CACHE_DIR": folder})
        self.assertRegex(done.stdout, f"cache +{folder}, [01] files, 0.[0-9] of 1024 MiB, writable")  # that of the compiler's check
        self.assertIn(f"library       {places.find_library()}", done.stdout)
        self.assertNotIn("compiler      none", done.stdout)
        if done.stdout.splitlines()[-1] == "Attention cannot run.":
            self.assertEqual(done.returncode, 1)
            self.assertIn("missing: ", done.stdout)
        else:
            self.assertIn("GPU 0", done.stdout)
            self.assertEqual(done.returncode, 0)

    @unittest.skipUnless(HAS_TORCH and os.path.exists(places.find_run()), "there is no PyTorch, or no tilewright-run")
    def test_the_trial(self):
        import torch
        import tilewright
        with tilewright.interpret():
            self.assertEqual(doctor.try_attention("cpu"), "")
            for wrong, text in ((lambda q, k, v, causal: q * k * v, "^O is wrong: relative error "),
                                (mock.Mock(side_effect=ValueError("no\nway")), "^ValueError: no$")):
                with mock.patch.dict(tilewright.__dict__, {"attention": wrong}):
                    self.assertRegex(doctor.try_attention("cpu"), text)
        self.assertRegex(doctor.try_attention("cpu"), "^ValueError: q must be on a CUDA device")
        self.assertTrue(torch.is_grad_enabled())


def summary(milliseconds, work):
    return {**reports.summarize([milliseconds * 0.99, milliseconds, milliseconds * 1.02]), "tflops": reports.tflops(work, milliseconds)}


class BenchTest(unittest.TestCase):
    def test_cases(self):
        cases = {case.name: case for case in bench.all_cases()}
        self.assertEqual(len(cases), 27)
        self.assertEqual(list(cases)[:3] + list(cases)[-2:], ["forward D64 full S1024", "forward D64 full S4096",
                                                             "forward D64 full S16384", "decode D128 B16 S8192", "decode D128 B64 S8192"])
        case = cases["backward D128 causal S4096"]
        self.assertEqual((case.batch, case.heads, case.work), (4, 16, 10 * 4 * 16 * 4096 * 4096 / 2 * 128))
        self.assertEqual(cases["forward D128 full S4096"].work, 4 * 4 * 16 * 4096 * 4096 * 128)
        self.assertEqual(cases["decode D128 B16 S8192"].work, 16 * 8 * 8192 * 128 * 2 * 2)  # keys and values of 2 bytes

    def made_up(self):
        cases = [case for case in bench.all_cases([128], [4096])] + bench.all_cases([64], [1024])[:1]
        results = {case.name: {name: summary(milliseconds, case.work) for name, milliseconds in
                               (("tilewright", 1.0), ("cudnn", 1.25), ("flash", 2.0))} for case in cases}
        del results["decode D128 B1 S16384"]["flash"]
        absent = {case.name: {"flash_attn": "not installed"} for case in cases}
        absent["decode D128 B1 S16384"]["flash"] = "RuntimeError: no"
        return [case for case in cases if case.name in ("forward D128 full S4096", "backward D128 causal S4096",
                                                        "decode D128 B1 S16384")], results, absent

    def test_the_table(self):
        cases, results, absent = self.made_up()
        absent = {case.name: absent[case.name] for case in cases}
        self.assertEqual(bench.table(cases, results, absent), """\
TFLOP/s, for decode TB/s; in brackets the interquartile range, or the speed of tilewright over that of the peer

| case | tilewright | cudnn | flash |
|---|---|---|---|
| forward D128 full S4096 | 550 (IQR 3.0%) | 440 (1.25) | 275 (2.00) |
| backward D128 causal S4096 | 687 (IQR 3.0%) | 550 (1.25) | 344 (2.00) |
| decode D128 B1 S16384 | 0.07 (IQR 3.0%) | 0.05 (1.25) | - |

Speed of tilewright over that of the peer, forward

| peer | cases | geometric mean | least | where |
|---|---|---|---|---|
| cudnn | 1 | 1.250 | 1.250 | forward D128 full S4096 |
| flash | 1 | 2.000 | 2.000 | forward D128 full S4096 |

Speed of tilewright over that of the peer, backward

| peer | cases | geometric mean | least | where |
|---|---|---|---|---|
| cudnn | 1 | 1.250 | 1.250 | backward D128 causal S4096 |
| flash | 1 | 2.000 | 2.000 | backward D128 causal S4096 |

Speed of tilewright over that of the peer, decode

| peer | cases | geometric mean | least | where |
|---|---|---|---|---|
| cudnn | 1 | 1.250 | 1.250 | decode D128 B1 S16384 |

- flash_attn: not installed
- flash: RuntimeError: no (decode D128 B1 S16384)""")

    def test_the_plot(self):
        cases, results, _ = self.made_up()
        svg = xml.etree.ElementTree.fromstring(bench.plot(cases, results, "Attention on a <GPU>"))
        texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
        for text in ("Attention on a <GPU>", "forward D128 full, TFLOP/s", "decode D128 B1, TB/s", "tilewright", "cudnn", "4096"):
            self.assertIn(text, texts)

    @unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")
    def test_the_command(self):
        import torch
        _, results, absent = self.made_up()
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(bench, "no_gpu", lambda: None), \
                mock.patch.object(torch.cuda, "get_device_name", lambda: "NVIDIA H200"), \
                mock.patch.object(bench, "measure", lambda case, sides, rounds: (results[case.name], absent[case.name])):
            svg, data = os.path.join(folder, "a.svg"), os.path.join(folder, "a.json")
            arguments = ("--dims", "128", "--lengths", "4096", "--cases", "forward D*", "B1", "--plot", svg, "--json", data)
            status, out, err = run(__main__.main, "bench", *arguments)
            self.assertEqual(status, 0, err)
            self.assertRegex(out, r"^NVIDIA H200, PyTorch [^,]+, bf16, medians of 20 rounds in turn\n")
            self.assertIn("| forward D128 causal S4096 | 275 (IQR 3.0%) | 220 (1.25) | 137 (2.00) |\n", out)
            self.assertTrue(out.endswith(f"The plot is in {svg}\n"))
            self.assertEqual([line.partition(":")[0] for line in err.splitlines()],
                             ["forward D128 full S4096", "forward D128 causal S4096", "decode D128 B1 S16384"])
            xml.etree.ElementTree.parse(svg)
            with open(data, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["cases"]["decode D128 B1 S16384"]["cudnn"]["median_ms"], 1.25)
            del results["forward D128 full S4096"]["tilewright"]
            self.assertEqual(run(__main__.main, "bench", *arguments)[0], 1)

    def test_without_a_gpu(self):
        with mock.patch.object(bench, "no_gpu", lambda: "there is no GPU that PyTorch can use"):
            self.assertEqual(run(__main__.main, "bench"), (3, "", (
                "tilewright bench: there is no GPU that PyTorch can use, so that there is nothing to measure; python -m tilewright doctor "
                "says more\n")))
        with mock.patch.dict(sys.modules, {"torch": None}):
            self.assertRegex(bench.no_gpu(), "^PyTorch cannot be imported ")
        torch = mock.Mock(**{"cuda.is_available": lambda: False})
        with mock.patch.dict(sys.modules, {"torch": torch}):
            self.assertEqual(bench.no_gpu(), "there is no GPU that PyTorch can use")
            torch.cuda.is_available = lambda: True
            torch.cuda.get_device_name, torch.cuda.get_device_capability = lambda: "NVIDIA V100", lambda: (7, 0)
            self.assertEqual(bench.no_gpu(), "NVIDIA V100 has compute capability 7.0, but 8.0 is needed")
            torch.cuda.get_device_capability = lambda: (9, 0)
            self.assertIsNone(bench.no_gpu())

    def test_wrong_arguments(self):
        for arguments, text in ((["--rounds", "1"], "--rounds: expected at least 2, but got 1"),
                                (["--dims", "64,x"], "argument --dims: expected N,... but got '64,x'"),
                                (["--dims", "1024"], "--dims: expected at most 512, but got 1024"),
                                (["--lengths", "32768"], "--lengths: expected at most 16384, but got 32768"),
                                (["--plot", "a.png"], "--plot: expected the name of an .svg file, but got 'a.png'; other formats are not "
                                                      "written"),
                                (["--cases", "sideways"], "--cases selects nothing of forward D64 full S1024, ")):
            status, _, err = run(__main__.main, "bench", *arguments)
            self.assertEqual(status, 2)
            self.assertIn(f"error: {text}", err)

    @unittest.skipUnless(HAS_TORCH and os.path.exists(places.find_run()), "there is no PyTorch, or no tilewright-run")
    def test_sides_are_checked_and_called(self):
        """On the interpreter, beside PyTorch's formula; only the clock is made up."""
        import torch
        import tilewright

        def time_sides(calls):
            for each in calls.values():
                self.assertEqual(len(each), 1)
                each[0]()
            return {name: reports.summarize([2.0, 4.0]) for name in calls}

        small = dict(dim=16, batch=2, heads=4, kv_heads=4, queries=40, keys=40)
        cases = [bench.Case(direction, causal=causal, **small) for direction in ("forward", "backward") for causal in (False, True)]
        cases.append(bench.Case("decode", causal=True, **{**small, "kv_heads": 2, "queries": 1}))
        with tilewright.interpret():
            for case in cases:
                with self.subTest(case.name):
                    found, absent = bench.measure(case, ("tilewright", "math", "flash_attn"), 20, "cpu", torch.float32, time_sides)
                    self.assertEqual(absent, {} if importlib.util.find_spec("flash_attn") else {"flash_attn": "not installed"})
                    self.assertEqual(found["tilewright"]["tflops"], case.work / 3.0 / 1e9)
            for case in cases:
                def wrong(q, k, v, right=bench.side_of("math", case)):
                    return right(q, k, v) * 1.1

                with mock.patch.object(bench, "side_of", lambda name, case, wrong=wrong: wrong):
                    found, absent = bench.measure(case, ("tilewright",), 20, "cpu", torch.float32, time_sides)
                which = "dQ" if case.direction == "backward" else "O"
                self.assertEqual(absent["tilewright"], f"ValueError: {which} is wrong: relative error 0.1")
                self.assertEqual(found, {})


class GraphsTest(unittest.TestCase):
    """timing.time_graphs, with a clock that each replay advances."""

    def setUp(self):
        self.clock, self.replayed, case = 0.0, [], self

        class Event:
            def record(self):
                self.at = case.clock

            def synchronize(self):
                pass

            def elapsed_time(self, end):
                return end.at - self.at

        class Graph:
            def __init__(self, name, milliseconds):
                self.name, self.milliseconds = name, milliseconds

            def replay(self):
                case.replayed.append(self.name)
                case.clock += self.milliseconds(case.replayed.count(self.name))

        self.torch = mock.Mock()
        self.torch.cuda.Event = lambda enable_timing: Event()
        self.graph = Graph

    def test_rounds_begin_with_another_side_each(self):
        graphs = {"a": self.graph("a", lambda _: 1.0), "b": self.graph("b", lambda count: float(count))}
        found = timing.time_graphs(self.torch, graphs, 10, 3)
        self.assertEqual("".join(self.replayed), "ab" "ba" "ba" "ab")
        self.assertEqual(found["a"], {"us": 100.0, "iqr": 0.0})
        self.assertEqual(found["b"], {"us": 300.0, "iqr": 200.0})  # of 2, 3 and 4 ms

    def test_three_sides_follow_each_other_equally_often(self):
        rounds = ["".join(timing.in_turn(list("abc"), number)) for number in range(6)]
        self.assertEqual(rounds, ["abc", "cba", "bca", "acb", "cab", "bac"])
        followed = [before + after for order in rounds for before, after in zip(order, order[1:])]
        self.assertEqual({pair: followed.count(pair) for pair in followed}, {"ab": 2, "bc": 2, "cb": 2, "ba": 2, "ca": 2, "ac": 2})

    def test_one_round(self):
        self.assertEqual(timing.time_graphs(self.torch, {"a": self.graph("a", lambda _: 2.0)}, 1, 1), {"a": {"us": 2000.0, "iqr": 0.0}})


class MainTest(unittest.TestCase):
    def test_usage(self):
        self.assertEqual(run(__main__.main, "--help")[:2], (0, """\
usage: python -m tilewright {doctor,bench,scale} [--help]

  doctor  whether attention can run on this machine, and what is missing
  bench   the speed of attention on this machine's GPU, beside what is installed
  scale   the predicted efficiency of attention over sequences on many GPUs; needs none
"""))
        status, _, err = run(__main__.main, "cure")
        self.assertEqual((status, err.splitlines()[-1]), (2, "tilewright: error: expected doctor, bench or scale, but got 'cure'"))


if __name__ == "__main__":
    unittest.main()
