# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments that attention rejects before any kernel runs; needs neither PyTorch nor a GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from tilewright import checks, compiler, runtime  # noqa: E402


def arrays(q=(2, 8, 300, 64), k=(2, 2, 500, 64), v=None, dtypes=("bf16",) * 3, devices=("cuda",) * 3):
    shapes = (q, k, v or k)
    return [checks.Array(*row) for row in zip("qkv", shapes, dtypes, devices)]


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
        shapes("q must have a width from 1 to 256, but got 512", q=(2, 8, 300, 512))
        shapes("v must have a width from 1 to 256, but got 0", v=(2, 2, 500, 0))
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
        self.assertEqual(checks.dropout_of(0), 0.0)
        self.expect("dropout_p must be a number from 0 to less than 1, but got 1", checks.dropout_of, 1)

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
        class Index:
            def __index__(self):
                return 64

        self.assertEqual(compiler.param_texts({"WINDOW": True, "BLOCK_M": 64, "D": Index(), "T": "f16", "FAST": False}),
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

    def test_descriptions(self):
        def describe(dtype="f16", dim=64, causal="none", value_dim=0):
            return runtime._desc(runtime.ForwardDesc, dtype, dim, causal, value_dim, False, None)

        self.assertEqual(describe(causal="bottom_right").causal, 2)
        self.expect("causal must be one of none, top_left, bottom_right, but got 'diag'", describe, causal="diag")
        self.expect("causal must be one of none, top_left, bottom_right, but got True", describe, causal=True)
        self.expect("dtype must be one of f64, f32, f16, bf16, e4m3, e5m2, i64, i32, i1, but got 'half'", describe, "half")
        self.expect("dim must be an integer, but got '64'", describe, dim="64")
        self.expect("value_dim must be an integer, but got None", describe, value_dim=None)

    def test_captures(self):
        for value, device in ((2.5, None), (3, None), (-2**31, None), (object(), "cuda:0")):
            checks.check_capture("x", value, device, "cuda:0")
        for message, value, device in (
                ("on the device of q, cuda:0, but got cpu; move it with .to()", object(), "cpu"),
                ("a tensor or a number, but got str", "30", None), ("a tensor or a number, but got bool", True, None),
                ("an i32, but got 2147483648; write 2147483648.0 where an f32 is meant", 2**31, None)):
            self.expect(f"capture 'x' must be {message}", checks.check_capture, "x", value, device, "cuda:0")

    def test_masks(self):
        self.assertEqual([checks.causal_mode(x) for x in (None, False, True, "none", "bottom_right")],
                         ["none", "none", "top_left", "none", "bottom_right"])
        for wrong in ("lower", 2, ["none"]):
            self.expect(f"causal must be True, False or one of none, top_left, bottom_right, but got {wrong!r}",
                        checks.causal_mode, wrong)
        self.assertEqual(checks.window_of(None), (-1, -1))
        self.assertEqual(checks.window_of((255, 0)), (255, 0))
        for wrong in (3, (1,), (1, -2), (1.5, 0), (2**31, 0), "ab"):
            self.expect("window must be two integers (left, right), each the number of keys that a query sees on that side, "
                        f"or -1 for all of them, but got {wrong!r}", checks.window_of, wrong)

    def test_scale(self):
        self.assertEqual(checks.scale_of(None, 64), 0.125)
        self.assertEqual(checks.scale_of(2, 64), 2.0)
        for wrong in (float("inf"), float("nan"), 1e300, True, "0.1"):
            self.expect(f"scale must be a finite number of f32, or None for 1 / sqrt(D), but got {wrong!r}; a factor that is a "
                        "tensor belongs into q", checks.scale_of, wrong, 64)
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


if __name__ == "__main__":
    unittest.main()
