# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments that attention rejects before any kernel runs; needs neither PyTorch nor a GPU."""

import ast
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
import warnings
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import tilewright  # noqa: E402
from tilewright import checks, compiler, performance, places, runtime  # noqa: E402


def arrays(q=(2, 8, 300, 64), k=(2, 2, 500, 64), v=None, dtypes=("bf16",) * 3, devices=("cuda",) * 3):
    shapes = (q, k, v or k)
    return [checks.Array(*row) for row in zip("qkv", shapes, dtypes, devices)]


class Index:
    """An integer as one of NumPy, or of a tensor without dimensions."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value

    def __repr__(self):
        return f"Index({self.value})"


class Real:
    """A float in the same sense."""

    def __init__(self, value, **attributes):
        self.value = value
        self.__dict__.update(attributes)

    def __float__(self):
        return self.value

    def __repr__(self):
        return f"Real({self.value})"


class Flag(Real):
    """A bool of NumPy converts to a float, too."""
    dtype = "bool"

    def __init__(self):
        super().__init__(1.0)

    def __bool__(self):
        return True


class ChecksTest(unittest.TestCase):
    def expect(self, message, call, *args, **kwargs):
        with self.assertRaises(ValueError) as caught:
            call(*args, **kwargs)
        self.assertEqual(str(caught.exception), message)

    def test_accepts(self):
        checks.check_arrays(*arrays())
        checks.check_arrays(*arrays(q=(2, 8, 1, 64), v=(2, 2, 500, 80)))
        checks.check_arrays(*arrays(q=(0, 0, 0, 64), k=(0, 0, 5, 64)))
        checks.check_arrays(*arrays(dtypes=("f64",) * 3))

    def test_shapes(self):
        def shapes(message, **kwargs):
            self.expect(message, checks.check_arrays, *arrays(**kwargs))

        shapes("q must have the four dimensions [batch, heads, rows, width], but got shape [8, 300, 64]; "
               "packed sequences have cu_seqlens_q", q=(8, 300, 64))
        shapes("q must have a width from 1 to 512, but got 520", q=(2, 8, 300, 520))
        shapes("v must have a width from 1 to 512, but got 0", v=(2, 2, 500, 0))
        shapes("k must have the width of q, 64, but got 128", k=(2, 2, 500, 128))
        shapes("k must have the batch of q, 2, but got 1; expand it", k=(1, 2, 500, 64))
        shapes("v must have the batch of q, 2, but got 3; expand it", v=(3, 2, 500, 64))
        shapes("v must have as many heads as k, 2, but got 8", v=(2, 8, 500, 64))
        shapes("v must have as many rows as k, 500, but got 300", v=(2, 2, 300, 64))
        shapes("the heads of q must be a multiple of those of k, but got 8 and 3; arrays are [batch, heads, rows, width]: "
               "use transpose(1, 2) on [batch, rows, heads, width]", k=(2, 3, 500, 64))
        shapes("the heads of q must be a multiple of those of k, but got 8 and 0; arrays are [batch, heads, rows, width]: "
               "use transpose(1, 2) on [batch, rows, heads, width]", k=(2, 0, 500, 64))

    def test_packed(self):
        packed = dict(q=(300, 8, 64), k=(500, 2, 64))
        checks.check_arrays(*arrays(**packed), packed=True)
        checks.check_arrays(*arrays(**packed, v=(500, 2, 80)), packed=True)

        def shapes(message, **kwargs):
            with self.assertRaises(ValueError) as caught:
                checks.check_arrays(*arrays(**(packed | kwargs)), packed=True)
            self.assertEqual(str(caught.exception), message)

        shapes("q must have the three dimensions [rows, heads, width], but got shape [2, 8, 300, 64]", q=(2, 8, 300, 64))
        shapes("v must have as many rows as k, 500, but got 300", v=(300, 2, 64))
        shapes("v must have as many heads as k, 2, but got 8", v=(500, 8, 64))
        shapes("the heads of q must be a multiple of those of k, but got 8 and 3", k=(500, 3, 64))
        self.expect("q must have the four dimensions [batch, heads, rows, width], but got shape [300, 8, 64]; packed sequences "
                    "have cu_seqlens_q", checks.check_arrays, *arrays(**packed))

    def test_options(self):
        self.assertEqual([checks.align_of(*x) for x in ((None, "none"), (None, "top_left"), (None, "bottom_right"),
                                                        ("bottom_right", "none"), ("top_left", "top_left"))],
                         ["top_left", "top_left", "bottom_right", "bottom_right", "top_left"])
        self.expect("align must be one of top_left, bottom_right, and match causal unless that is none, but got "
                    "'bottom_right' with causal top_left", checks.align_of, "bottom_right", "top_left")
        self.assertEqual([checks.softcap_of(x) for x in (None, 0, 0.0, 3, 1e18)], [None, None, None, 3.0, 1e18])
        self.expect("softcap must be positive and at most 1e18, or None or 0 for none, but got -1", checks.softcap_of, -1)
        self.assertEqual([checks.softcap_of(x) for x in (Real(0.0), Real(2.5), Index(3))], [None, 2.5, 3.0])
        for wrong in ("3", True, Flag(), float("nan"), Real(-1.0)):
            self.expect(f"softcap must be positive and at most 1e18, or None or 0 for none, but got {wrong!r}", checks.softcap_of,
                        wrong)
        self.assertEqual([checks.dropout_of(x) for x in (0, Real(0.25))], [0.0, 0.25])
        for wrong in (1, -0.1, float("nan"), None, "0.1", True, Flag(), Real(1.0)):
            self.expect(f"dropout_p must be a number from 0 to less than 1, but got {wrong!r}", checks.dropout_of, wrong)

    def test_numbers_by_protocol(self):
        """What has __index__ or __float__ is a number, but no bool, nor an array with dimensions, nor what has a gradient."""
        self.assertEqual([checks.integer_of(x) for x in (3, Index(-4), True, Flag(), 3.0, Real(3.0), "3", None)],
                         [3, -4, None, None, None, None, None, None])
        numbers = (3, 0.5, Index(2), Real(0.25), True, Flag(), "3", 10**400, 1j, Real(1.0, ndim=1), Real(1.0, requires_grad=True),
                   Real(1.0, is_meta=True), Real(1.0, dtype="complex64"))
        self.assertEqual([checks.float_of(x) for x in numbers], [3.0, 0.5, 2.0, 0.25] + [None] * 9)
        self.assertEqual([checks.flag_of(x) for x in (True, False, Flag(), 1, None, "yes")], [True, False, True, None, None, None])
        self.assertEqual([checks.sizes_of(x) for x in (64, Index(64), (64, Index(32)), [16, 32])],
                         [(64, 64), (64, 64), (64, 32), (16, 32)])
        for wrong in (0, True, (64,), (64, 0), (64, 1.5), "ab", None):
            self.expect("block_mask must have blocks of a positive number of queries and keys, an int or a pair of them, but got "
                        f"{wrong!r}", checks.sizes_of, wrong)

    def test_a_number_on_a_device_is_slow(self):
        """Reading it waits for the device: a warning says so, once."""
        with mock.patch.object(performance, "_given", set()), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                self.assertEqual(checks.scale_of(Real(0.5, is_cuda=True, device="cuda:0"), 64), 0.5)
        self.assertEqual([(each.category, str(each.message)) for each in caught], [(
            performance.PerformanceWarning, "a number is a tensor on cuda:0, so each call waits for the device to read it, and cannot "
            "be captured in a graph; pass a number of Python, or a tensor on the CPU")])
        self.assertEqual(caught[0].filename, __file__)  # the caller's line
        self.assertIs(tilewright.PerformanceWarning, performance.PerformanceWarning)

    def test_types_and_devices(self):
        self.expect("k must have the type of q, bf16, but got f16; convert it with .to()", checks.check_arrays,
                    *arrays(dtypes=("bf16", "f16", "bf16")))
        self.expect("q must be of float16, bfloat16, float32 or float64, but got torch.int8", checks.check_arrays,
                    *arrays(dtypes=("torch.int8",) * 3))
        self.expect("v must be on a CUDA device, but got cpu; move it with .cuda(), or see tilewright.interpret",
                    checks.check_arrays, *arrays(devices=("cuda", "cuda", "cpu")))
        checks.check_arrays(*arrays(devices=("cpu",) * 3), devices=("cuda", "cpu"))
        checks.check_arrays(*arrays(devices=("cuda:1",) * 3))
        self.expect("k must be on the device of q, cuda:0, but got cuda:1; move it with .to()", checks.check_arrays,
                    *arrays(devices=("cuda:0", "cuda:1", "cuda:0")))

    def test_compiler_arguments(self):
        self.assertEqual(compiler.param_texts({"WINDOW": True, "BLOCK_M": 64, "D": Index(64), "T": "f16", "FAST": False}),
                         {"WINDOW": "true", "BLOCK_M": "64", "D": "64", "T": "f16", "FAST": "false"})
        self.expect("parameter 'SCALE' must be an integer, a bool or a string, but got 0.5", compiler.param_texts,
                    {"SCALE": 0.5})
        self.expect("parameter 'T' must be an integer, a bool or a string, but got None", compiler.param_texts, {"T": None})
        self.expect("the name of a parameter must be a string such as 'BLOCK_M', but got 4", compiler.param_texts, {4: "x"})
        self.expect("the name of a parameter must be a string such as 'BLOCK_M', but got 'A=B'", compiler.param_texts,
                    {"A=B": 1})
        self.expect("params must be a dict of values by name, but got ['D=64']", compiler.param_texts, ["D=64"])
        self.expect("with_files must be a list of strings, but got 'x.mlir'", compiler.compile_bundle, "k.mlir", {}, "x.mlir")
        self.expect("with_files must be a list of strings, but got 3 in it", compiler.compile_bundle, "k.mlir", {}, [3])
        self.expect("targets must be a list of strings, but got 'sm_80'", compiler.compile_bundle, "k.mlir", {}, [], "sm_80")
        self.assertEqual(compiler.param_texts({"WINDOW": Flag()}), {"WINDOW": "true"})
        for wrong in ((9, 0.5, 0), (9, 0), "sm_90a", 90):
            self.expect(f"device must be (major, minor, bytes of shared memory), three integers, but got {wrong!r}",
                        compiler.compile_bundle, "k.mlir", {}, device=wrong)

    def test_descriptions(self):
        def describe(dtype="f16", dim=64, causal="none", value_dim=0):
            return runtime._desc(runtime.ForwardDesc, dtype, dim, causal, value_dim, False, None)

        self.assertEqual(describe(causal="bottom_right").causal, 2)
        self.expect("causal must be one of none, top_left, bottom_right, but got 'diag'", describe, causal="diag")
        self.expect("causal must be one of none, top_left, bottom_right, but got True", describe, causal=True)
        self.expect("dtype must be one of f64, f32, f16, bf16, e4m3, e5m2, i64, i32, i1, i8, but got 'half'", describe, "half")
        self.assertEqual(describe(dim=Index(80)).head_dim, 80)
        self.expect("dim must be an integer, but got '64'", describe, dim="64")
        self.expect("dim must be an integer, but got True", describe, dim=True)
        self.assertEqual(runtime._desc(runtime.ForwardDesc, "f16", 64, "none", 0, Flag(), None).has_window, 1)
        self.expect("value_dim must be an integer, but got None", describe, value_dim=None)

    def test_captures(self):
        for value, device in ((2.5, None), (3, None), (-2**31, None), (object(), "cuda:0")):
            self.assertEqual(checks.capture_of("x", value, device, "cuda:0"), value)
        for value, number in (Index(7), 7), (Real(0.5), 0.5):
            found = checks.capture_of("x", value, None, "cuda:0")
            self.assertEqual((found, type(found)), (number, type(number)))
        for message, value, device in (
                ("on the device of q, cuda:0, but got cpu; move it with .to()", object(), "cpu"),
                ("a tensor or a number, but got str", "30", None), ("a tensor or a number, but got bool", True, None),
                ("an i32, but got 2147483648; write 2147483648.0 where an f32 is meant", 2**31, None)):
            self.expect(f"capture 'x' must be {message}", checks.capture_of, "x", value, device, "cuda:0")

    def test_masks(self):
        self.assertEqual([checks.causal_mode(x) for x in (None, False, True, "none", "bottom_right")],
                         ["none", "none", "top_left", "none", "bottom_right"])
        for wrong in ("lower", 2, ["none"]):
            self.expect(f"causal must be True, False or one of none, top_left, bottom_right, but got {wrong!r}",
                        checks.causal_mode, wrong)
        self.assertEqual(checks.window_of(None), (-1, -1))
        self.assertEqual(checks.window_of((255, 0)), (255, 0))
        self.assertEqual(checks.window_of([Index(255), Index(-1)]), (255, -1))
        self.assertEqual(checks.causal_mode(Flag()), "top_left")
        # (True, 0) was taken for (1, 0).
        for wrong in (3, (1,), (1, -2), (1.5, 0), (2**31, 0), "ab", (True, 0), (Flag(), 0), (Real(1.0), 0), (Index(2**31), 0)):
            self.expect("window must be two integers (left, right), each the number of keys that a query sees on that side, "
                        f"or -1 for all of them, but got {wrong!r}", checks.window_of, wrong)

    def test_scale(self):
        self.assertEqual(checks.scale_of(None, 64), 0.125)
        self.assertEqual(checks.scale_of(2, 64), 2.0)
        for wrong in (float("inf"), float("nan"), 1e300, 10**400, True, "0.1", Flag(), 1j):
            self.expect(f"scale must be a finite number of f32, or None for 1 / sqrt(D), but got {wrong!r}; a factor that has a "
                        "gradient, or differs between rows or heads, belongs into q", checks.scale_of, wrong, 64)
        self.expect("scale must be given for heads of width 0, since 1 / sqrt(D) has no value", checks.scale_of, None, 0)

    def test_modifiers(self):
        self.assertEqual(checks.modifier_text(["softcap", "a.mlir"]), os.pathsep.join(["softcap", "a.mlir"]))
        self.assertEqual(checks.modifier_files(""), [])
        for path in checks.modifier_files("softcap" + os.pathsep + "document"):
            self.assertTrue(os.path.isfile(path))
        with self.assertRaisesRegex(ValueError, "modifier must be one of alibi, .*softcap.* or the path of an .mlir file, "
                                                "but got 'tanh'"):
            checks.modifier_files("tanh")
        with self.assertRaisesRegex(ValueError, "but got 'nowhere/my.mlir'"):
            checks.modifier_files("nowhere/my.mlir")
        self.expect("modifier must be a name, a path or a list of them, but got 3", checks.modifier_text, 3)
        self.expect("modifier must be a name, a path or a list of them, but got ['softcap', None]", checks.modifier_text,
                    ["softcap", None])
        # What has __fspath__ is a path. It was an error.
        path = pathlib.Path("folder", "my.mlir")
        self.assertEqual(checks.modifier_text(path), str(path))
        self.assertEqual(checks.modifier_text(["softcap", path]), "softcap" + os.pathsep + str(path))


class OldestPythonTest(unittest.TestCase):
    """README and the wheel promise Python 3.9. Once, `Tensor | None` in an annotation made tilewright.attention fail there."""
    VERSION = (3, 9)
    FILES = sorted(glob.glob(os.path.join(places.PACKAGE, "*.py")))
    # What Python 3.10 to 3.12 added and a file would use by these names or keywords.
    LATER = {"bit_count", "pairwise", "batched", "aiter", "anext", "ExceptionGroup", "add_note", "TypeAlias", "ParamSpec", "Self",
             "tomllib", "get_annotations", "stdlib_module_names", "skip_file_prefixes", "orig_argv", "override"}
    LATER_KEYWORDS = {("zip", "strict"), ("dataclass", "slots"), ("dataclass", "kw_only"), ("warn", "skip_file_prefixes")}

    @classmethod
    def mistakes(cls, text):
        try:
            tree = ast.parse(text, feature_version=cls.VERSION)
        except SyntaxError as error:
            return [f"{error.lineno}: {error.msg}"]
        found, evaluated = [], "from __future__ import annotations" not in text
        for node in ast.walk(tree):
            places = [getattr(node, field, None) for field in ("annotation", "returns")] if evaluated else []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
                places += node.args[1:]
            for place in filter(None, places):
                if any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr) for part in ast.walk(place)):
                    found.append(f"{place.lineno}: a union of types by |")
            name = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None)
            if isinstance(node, (ast.Attribute, ast.Name, ast.alias)) and name in cls.LATER:
                found.append(f"{node.lineno if hasattr(node, 'lineno') else 0}: {name}")
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
                found += [f"{node.lineno}: {called} with {each.arg}" for each in node.keywords
                          if (called, each.arg) in cls.LATER_KEYWORDS]
        return found

    def test_what_the_check_finds(self):
        for text, mistake in (("def f(x: int | None): pass", "1: a union of types by |"),
                              ("def f() -> 'a':\n  x: int | str = 3", "2: a union of types by |"),
                              ("isinstance(x, int | str)", "1: a union of types by |"),
                              ("zip(a, b, strict=True)", "1: zip with strict"),
                              ("n.bit_count()", "1: bit_count")):
            self.assertEqual(self.mistakes(text), [mistake])
        self.assertEqual(len(self.mistakes("match x:\n  case 1: pass")), 1)
        self.assertEqual(self.mistakes("from __future__ import annotations\ndef f(x: int | None): return x | 1"), [])

    def test_files(self):
        self.assertGreater(len(self.FILES), 20)
        for file in self.FILES:
            self.assertEqual(self.mistakes(pathlib.Path(file).read_text(encoding="utf-8")), [], file)

    def test_imports(self):
        """Imports what needs no PyTorch, and compiles the rest, if there is a Python 3.9."""
        pythons = [shutil.which("python3.9"), *glob.glob(os.path.expanduser("~/.pyenv/versions/3.9.*/bin/python3.9"))]
        works = [path for path in filter(None, pythons)
                 if subprocess.run([path, "-c", "import ctypes"], capture_output=True).returncode == 0]
        if not works:
            self.skipTest("there is no Python 3.9")
        script = ("import sys; sys.path.insert(0, sys.argv[1]); assert sys.version_info[:2] == (3, 9)\n"
                  "import tilewright.checks, tilewright.choice, tilewright.compiler, tilewright.cache, tilewright.performance\n"
                  "import tilewright.progress, tilewright.runtime, tilewright.tools\n"
                  "for file in sys.argv[2:]: compile(open(file, encoding='utf-8').read(), file, 'exec')\n")
        result = subprocess.run([works[0], "-B", "-c", script, os.path.dirname(places.PACKAGE), *self.FILES],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
