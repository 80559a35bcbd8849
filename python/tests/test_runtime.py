# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles kernels and checks their plans, through ctypes; needs the built libraries, but neither PyTorch nor a GPU."""

import ctypes
import functools
import os
import pathlib
import re
import sys
import tempfile
import unittest
import warnings
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from tilewright import compiler, places, runtime  # noqa: E402

FORWARD = os.path.join(places.KERNELS, "attention_forward.mlir")
BACKWARD = os.path.join(places.KERNELS, "attention_backward.mlir")
SOFTCAP = os.path.join(places.KERNELS, "mods", "softcap.mlir")


class Whole:
    """An integer of another library."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Number(Whole):
    def __float__(self):
        return self.value

    __index__ = None


class Tensor:
    """The part of a tensor's interface that a view needs."""

    def __init__(self, *shape, dtype="torch.float16"):
        self.shape, self.dtype = shape, dtype

    def stride(self):
        strides = [1]
        for extent in self.shape[:0:-1]:
            strides.insert(0, strides[0] * extent)
        return strides

    def data_ptr(self):
        return 0x10000


def setUpModule():
    if not os.path.exists(places.find_library()):
        raise unittest.SkipTest(f"there is no {places.find_library()}")


class RuntimeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = runtime.Library(places.find_library())
        cls.params = {"D": 32, "T": "f16", "CAUSAL": "top_left"}
        data = compiler.compile_bundle(FORWARD, cls.params, [SOFTCAP])
        cls.forward = runtime.AttentionForward(cls.library, cls.library.load(data), "f16", 32, "top_left")
        cls.bundle = cls.library.load(compiler.compile_bundle(BACKWARD, cls.params))
        cls.backward = runtime.AttentionBackward(cls.library, cls.bundle, "f16", 32, "top_left")

    def values(self, **changed):
        q, k, rows = Tensor(2, 8, 300, 32), Tensor(2, 2, 500, 32), Tensor(2, 8, 300, dtype="torch.float32")
        values = {"q": q, "k": k, "v": k, "o": q, "lse": rows, "scale": 0.125, "window_left": -1, "window_right": -1}
        return values | changed

    def gradients(self, **changed):
        values = self.values(do=Tensor(2, 8, 300, 32), dlse=None, dq=Tensor(2, 8, 300, 32), dk=Tensor(2, 2, 500, 32),
                             dv=Tensor(2, 2, 500, 32))
        return values | changed

    def expect(self, message, call, *args):
        with self.assertRaises(runtime.TilewrightError) as caught:
            call(*args)
        self.assertEqual(str(caught.exception), message)
        return caught.exception

    def test_forward(self):
        self.assertEqual(self.forward.captures(), ["softcap"])
        self.forward.check_support(8, 6)
        self.assertEqual(self.forward.workspace_size(self.forward.pack(self.values(softcap=30.0))), 0)
        self.expect("argument 'softcap' of kernel 'attention_forward' must be a scalar of type f32, but got i32",
                    self.forward.workspace_size, self.forward.pack(self.values(softcap=30)))
        error = self.expect("there is no argument 'cap'; the names are: softcap", self.forward.workspace_size,
                            self.forward.pack(self.values(cap=30.0)))
        self.assertEqual(error.code, "invalid argument")
        with self.assertRaisesRegex(runtime.TilewrightError, "elements must be of one of .*, but got torch.int16"):
            self.forward.pack(self.values(softcap=Tensor(8, dtype="torch.int16")))

    def test_window(self):
        values = self.values(softcap=30.0)
        del values["window_left"], values["window_right"]
        self.assertEqual(self.forward.workspace_size(self.forward.pack(values)), 0)
        with self.assertRaisesRegex(ValueError, "values must hold q, k, v, o, lse, scale, None for a view that is absent, "
                                    "but got none for lse, scale"):
            self.forward.pack({name: x for name, x in values.items() if name not in ("lse", "scale")})
        self.expect("the window of attention must be -1 and -1, since it was planned without one, but got 3 and -1; set has_window in "
                    "the description", self.forward.workspace_size,
                    self.forward.pack(self.values(softcap=30.0, window_left=3)))

    def test_window_that_is_open(self):
        data = compiler.compile_bundle(FORWARD, self.params | {"WINDOW": True})
        plan = runtime.AttentionForward(self.library, self.library.load(data), "f16", 32, "top_left", has_window=True)
        self.assertEqual(plan.workspace_size(plan.pack(self.values(window_left=7, window_right=-1))), 0)
        for name in ("window_left", "window_right"):
            self.expect(f"{name} of attention must be a number of keys, or -1 for no limit, but got -2", plan.workspace_size,
                        plan.pack(self.values(**{name: -2})))

    def test_backward(self):
        self.backward.check_support(9, 0)
        self.assertGreater(self.backward.workspace_size(self.backward.pack(self.gradients())), 0)
        self.expect("argument 'dv' of attention must have extent 500 along dimension 2, as 'v' has, but got 300",
                    self.backward.workspace_size, self.backward.pack(self.gradients(dv=Tensor(2, 2, 300, 32))))
        with self.assertRaises(runtime.TilewrightError) as caught:
            runtime.AttentionBackward(self.library, self.bundle, "f16", 32, "top_left", deterministic=True)
        self.assertEqual(caught.exception.code, "missing variant")

    def test_gradients_of_captures(self):
        relative_bias = os.path.join(places.KERNELS, "mods", "relative_bias.mlir")
        data = compiler.compile_bundle(BACKWARD, {**self.params, "CAPTURE_GRADIENTS": "true"}, [relative_bias])
        plan = runtime.AttentionBackward(self.library, self.library.load(data), "f16", 32, "top_left",
                                         capture_gradients=True)
        self.assertEqual(sorted(plan.captures()), ["d_relative_bias", "relative_bias", "relative_radius"])
        table = Tensor(8, 41, dtype="torch.float32")
        values = self.gradients(relative_bias=table, relative_radius=20)
        self.assertGreater(plan.workspace_size(plan.pack(values | {"d_relative_bias": table})), 0)
        self.expect("argument 'd_relative_bias' of attention must have extent 41 along dimension 1, as the capture "
                    "'relative_bias' has, but got 40", plan.workspace_size,
                    plan.pack(values | {"d_relative_bias": Tensor(8, 40, dtype="torch.float32")}))
        self.expect("there is no argument 'd_relative_radius'; none is given by name", self.backward.workspace_size,
                    self.backward.pack(self.gradients(d_relative_radius=1.0)))

    def test_check_indices(self):
        bundle = compiler.compile_bundle(FORWARD, {"D": 32, "T": "f16", "PACKED": True})
        operation = runtime.Operation(self.library, self.library.load(bundle), "attention_forward", {"D": "32"})
        for plan in (operation, self.forward, self.backward):
            for change in (plan.check_indices, plan.overlap_previous):
                change()
                change(False)
        rows, offsets = Tensor(1, 2, 300, 32), Tensor(4, dtype="torch.int32")
        packed = operation.pack({"q": rows, "k": rows, "v": rows, "o": rows, "cu_seqlens_q": offsets,
                                 "cu_seqlens_k": offsets, "scale": 0.125, "window_left": -1,
                                 "window_right": -1})
        self.assertEqual(operation.workspace_size(packed), 0)
        for wrong in (7, -1, 2**32, 1.0, None, "yes"):
            for plan in (operation, self.forward, self.backward):
                with self.assertRaisesRegex(ValueError, re.escape(f"wanted must be True or False, but got {wrong!r}")):
                    plan.check_indices(wanted=wrong)
                with self.assertRaisesRegex(ValueError, re.escape(f"wanted must be True or False, but got {wrong!r}")):
                    plan.overlap_previous(wanted=wrong)
        operation.handle.value, handle = None, operation.handle.value
        self.expect("operation must be a valid pointer, but got null", operation.check_indices)
        operation.handle.value = handle

    def compile_attention(self, kernel, desc, files=(), targets=("sm_80", "sm_90a")):
        data = compiler.compile_bundle(os.path.join(places.KERNELS, f"attention_{kernel}.mlir"),
                                       self.library.attention_params(desc), files, targets)
        return runtime.Attention(self.library, self.library.load(data), desc)

    def report(self, plan, values, target=(9, 0, 232448, 132)):
        return plan.report(plan.pack(values), target=target)

    def test_scalars_have_their_defaults(self):
        """Through Operation they were missing: "argument 'window_left' of kernel 'attention_forward' is missing"."""
        operation = runtime.Operation(self.library, self.bundle, "attention_backward", {"D": 32})
        values = self.gradients()
        del values["window_left"], values["window_right"]
        size = operation.workspace_size(operation.pack(values))
        self.assertGreater(size, 0)
        self.assertEqual(operation.workspace_size(operation.pack(values | {"window_right": None})), size)
        self.assertEqual(operation.report(operation.pack(values), target=(8, 0, 0, 108)).call.count("window_left=i32:0xffffffff"), 1)
        self.expect("argument 'scale' of program 'attention_backward' is missing; it is not an optional argument",
                    operation.workspace_size, operation.pack(values | {"scale": None}))

    def test_fields_that_a_description_does_not_have(self):
        with self.assertRaisesRegex(ValueError, "an AttentionDesc has no field 'has_windows'; its fields are .*has_window"):
            runtime.attention_desc("forward", "f16", 32, has_windows=True)

    def test_packed_sequences(self):
        desc = runtime.attention_desc("forward", "f16", 32, causal="bottom_right", has_window=True, packed=True)
        self.assertEqual(self.library.attention_text("signature", desc),
                         "attention_forward D=32,DV=32,T=f16,CAUSAL=bottom_right,WINDOW=true,PACKED=true")
        plan = self.compile_attention("forward", desc)
        self.assertEqual(plan.arguments(), ["q", "k", "v", "o", "lse", "cu_seqlens_q", "cu_seqlens_k", "scale", "window_left",
                                            "window_right"])
        offsets = Tensor(4, dtype="torch.int32")
        q, k = Tensor(1, 8, 300, 32), Tensor(1, 2, 500, 32)
        values = {"q": q, "k": k, "v": k, "o": q, "lse": None, "cu_seqlens_q": offsets, "cu_seqlens_k": offsets, "scale": 0.125}
        report = self.report(plan, values | {"window_left": 8})
        self.assertEqual((report.name, report.target, report.sums, report.deterministic, report.workspace_bytes),
                         ("attention_forward", "sm_90a", ("f32",), True, 0))
        self.assertEqual(report.params["PACKED"], "true")
        launch, = report.launches
        block_m = int(launch.params["BLOCK_M"])
        self.assertEqual(launch.grid, ((-(-300 // block_m) + 4) * 8, 1, 1))  # one more block for each sequence
        self.assertGreater(launch.shared_bytes, 0)
        self.assertEqual(self.report(plan, values, (8, 0, 166912, 108)).target, "sm_80")
        self.assertTrue(report.call.startswith(self.library.attention_text("signature", desc) + " q=f16[1,8,300,32]/"))
        self.expect("there is no argument 'kv_indices'; the names are: " + ", ".join(plan.arguments()), self.report, plan,
                    values | {"kv_indices": offsets})

    def test_lists_of_blocks(self):
        desc = runtime.attention_desc("forward", "f16", 32, list_block_m=128)
        plan = self.compile_attention("forward", desc, targets=["sm_80"])
        q, k = Tensor(2, 8, 300, 32), Tensor(2, 2, 500, 32)
        values = {"q": q, "k": k, "v": k, "o": q, "kv_indices": Tensor(2, 8, 3, 4, dtype="torch.int32"),
                  "kv_num_blocks": Tensor(2, 8, 3, dtype="torch.int32"), "scale": 0.125}
        self.assertEqual(self.report(plan, values).launches[0].params["LIST_BLOCK_N"], "128")

    def test_prefill_over_pages(self):
        desc = runtime.attention_desc("forward", "f16", 32, cached=True, page_rows=16)
        plan = self.compile_attention("forward", desc, targets=["sm_80"])
        q, k = Tensor(3, 8, 300, 32), Tensor(9, 64, 2, 32)
        values = {"q": q, "k": k, "v": k, "o": q, "block_table": Tensor(3, 4, dtype="torch.int32"),
                  "seq_lens": Tensor(3, dtype="torch.int32"), "scale": 0.125}
        report = self.report(plan, values)
        self.assertEqual((report.params["PAGE_ROWS"], report.target, report.deterministic), ("16", "sm_80", True))
        self.expect("'bundle' has no variant of 'attention_forward' for pages of 20 rows, but PAGE_ROWS = 16; compile it with "
                    "--param=PAGE_ROWS=1", self.report, plan, values | {"k": Tensor(9, 20, 2, 32), "v": Tensor(9, 20, 2, 32)})

    def test_append(self):
        desc = runtime.attention_desc("append", "f16", 64, places="table", rotary=32, rotary_type="f32")
        plan = self.compile_attention("append", desc, targets=["sm_80"])
        new, pages, lengths, angles = Tensor(6, 2, 64), Tensor(9, 16, 2, 64), Tensor(3, dtype="torch.int32"), \
            Tensor(100, 16, dtype="torch.float32")
        values = {"k": new, "v": new, "k_pages": pages, "v_pages": pages, "seq_lens": lengths,
                  "block_table": Tensor(3, 4, dtype="torch.int32"), "cos": angles, "sin": angles}
        self.assertEqual(self.report(plan, values).params["PLACES"], "table")
        self.expect("argument 'seq_lens' of kernel 'attention_append' is missing; it is not an optional argument",
                    self.report, plan, values | {"seq_lens": None})

    def test_backward_of_a_bias(self):
        bias = os.path.join(places.KERNELS, "mods", "bias.mlir")
        values = self.gradients(bias=Tensor(1, 8, 300, 500), d_score=Tensor(1, 8, 300, 500, dtype="torch.float32"))
        for more in {}, {"deterministic": True}:
            desc = runtime.attention_desc("backward", "f16", 32, causal="top_left", score_gradient=True, **more)
            plan = self.compile_attention("backward", desc, [bias], ["sm_90a"])
            report = self.report(plan, values)
            self.assertIn("scores_of_pairs", [launch.kernel for launch in report.launches])
            self.assertEqual(report.workspace_bytes, plan.workspace_size(plan.pack(values)))
            self.assertEqual(report.sums, ("f32",))
            # Without DETERMINISTIC, sums of few queries are in order too, unless a launch adds atomically.
            self.assertTrue(report.deterministic or not more)
        plain = runtime.attention_desc("backward", "f16", 32, causal="top_left")
        plan = self.compile_attention("backward", plain, targets=["sm_80"])
        self.assertIs(self.report(plan, self.gradients(), (8, 0, 166912, 108)).deterministic, False)

    def test_saved_probabilities(self):
        """A kernel of another name, without masks, with an argument of its own."""
        entry = "attention_backward_saved_probs"
        data = compiler.compile_bundle(os.path.join(places.KERNELS, entry + ".mlir"), {"D": 32, "T": "f16"}, (), ["sm_80"])
        plan = runtime.Attention(self.library, self.library.load(data),
                                 runtime.attention_desc("backward", "f16", 32, entry=entry))
        self.assertEqual(plan.arguments(), ["q", "k", "v", "o", "do", "p", "dq", "dk", "dv", "scale"])
        values = self.gradients(p=Tensor(2, 8, 300, 500))
        values = {name: x for name, x in values.items() if name in plan.arguments()}
        self.assertGreater(plan.workspace_size(plan.pack(values)), 0)
        self.assertEqual(self.report(plan, values).name, entry)

    def test_descriptions_of_calls(self):
        def described(kind, values, **fields):
            desc = self.library.attention_describe(runtime.attention_desc(kind, "f64", 1, **fields), values)
            return self.library.attention_text("signature", desc)

        q, k, lengths = Tensor(3, 8, 2, 32), Tensor(9, 48, 2, 32), Tensor(3, dtype="torch.int32")
        table = Tensor(3, 4, dtype="torch.int32")
        values = {"q": q, "k": k, "v": k, "seq_lens": lengths, "scale": 0.125, "lse": None}
        self.assertEqual(described("forward", values | {"block_table": table}, causal="top_left"),
                         "attention_forward D=32,DV=32,T=f16,CAUSAL=top_left,CACHED=true,PAGE_ROWS=16")
        self.assertEqual(described("forward", values | {"window_left": 3}),
                         "attention_forward D=32,DV=32,T=f16,WINDOW=true,CACHED=true,PAGE_ROWS=0")
        self.assertEqual(described("decode", {"q": q, "k_pages": k, "v_pages": k, "block_table": table}, num_splits=2),
                         "attention_decode D=32,DV=32,T=f16,GROUP=4,ROWS=2,PAGE_ROWS=16,SPLITS=2")
        self.expect("the description of decoding follows from 'k_pages', a view of rank 4, but got none",
                    described, "decode", values)

    def test_descriptions(self):
        def expect(message, **more):
            fields = dict(kind="forward", dtype="f16", dim=32) | more
            with self.assertRaisesRegex(ValueError, re.escape(message)):
                runtime.attention_desc(**fields)

        expect("kind must be one of forward, backward, decode, append, cached, but got 'prefill'", kind="prefill")
        expect("places must be one of slots, table, sequences, but got 'rows'", places="rows")
        expect("head_dim must be an integer of 32 bits, but got 32.0", dim=32.0)
        expect("packed must be an integer of 32 bits, but got 'yes'", packed="yes")
        expect(f"page_rows must be an integer of 32 bits, but got {2**40}", page_rows=2**40)
        decode = runtime.attention_desc("decode", "f16", 32, max_rows=3, group=2, page_rows=runtime.NO_TABLE)
        self.assertEqual(self.library.attention_params(decode)["ROWS"], "4")
        self.assertEqual(self.library.attention_params(runtime.attention_desc("decode", "f16", 32, packed=True))["PACKED"], "true")
        with self.assertRaisesRegex(runtime.TilewrightError, "deterministic is of the description of a backward, but this one"):
            self.library.attention_params(runtime.attention_desc("decode", "f16", 32, deterministic=True))

    def test_numbers_of_other_kinds(self):
        """ctypes would pass the low bits of a large integer."""
        def expect(message, call, *arguments):
            with self.assertRaisesRegex(ValueError, re.escape(message)):
                call(*arguments)

        for wrong in (2**31, -2**31 - 1, 2**32 + 4, 2**40 - 1):
            expect(f"window_left must be an integer of 32 bits, but got {wrong}", self.forward.pack,
                   self.values(window_left=wrong))
            expect(f"argument 'softcap' must be an integer of 32 bits, but got {wrong}", self.forward.pack,
                   self.values(softcap=wrong))
            expect(f"device must be an integer of 32 bits, but got {wrong}", self.forward.prepare, wrong)
            expect(f"has_window must be True or False, but got {wrong}", lambda: runtime.AttentionForward(
                self.library, self.bundle, "f16", 32, "top_left", has_window=wrong))
            expect(f"deterministic must be True or False, but got {wrong}", lambda: runtime.AttentionBackward(
                self.library, self.bundle, "f16", 32, "top_left", deterministic=wrong))
            expect(f"device must be an integer of 32 bits, but got {wrong}", self.forward.workspace_size,
                   self.forward.pack(self.values(softcap=30.0)), wrong)
            expect(f"minor must be an integer of 32 bits, but got {wrong}", self.forward.check_support, 9, wrong)
        expect("window_right must be an integer of 32 bits, but got 0.5", self.forward.pack, self.values(window_right=0.5))
        expect("window_right must be an integer of 32 bits, but got True", self.forward.pack, self.values(window_right=True))
        for wrong in ("0.5", None, True, [0.5]):  # "0.5" was a TypeError of ctypes
            expect(f"scale must be a number, but got {wrong!r}", self.forward.pack, self.values(scale=wrong))
        expect("argument 'softcap' must be an array, a number or None, but got True", self.forward.pack, self.values(softcap=True))
        expect("argument 'softcap' must be an array, a number or None, but got '30'", self.forward.pack,
               self.values(softcap="30"))
        expect("parameter 'D' must be text, an integer or a flag, but got 32.0", runtime.Operation, self.library, self.bundle,
               "attention_backward", {"D": 32.0})
        for by_protocol in (Number(30.0), 30.0):  # it was an error
            packed = self.forward.pack(self.values(softcap=by_protocol, scale=Number(0.5), window_left=Whole(-1)))
            self.assertEqual((packed[1][0].scale, packed[1][0].exact_scale), (0.5, 0.5))
            self.assertEqual(self.forward.workspace_size(packed, Whole(0)), 0)
            with self.assertRaises(runtime.TilewrightError):  # not prepared, or no driver; it was a TypeError of ctypes
                self.forward.run(packed, Whole(0), Whole(0), Whole(0))
        for name in ("workspace", "workspace_bytes", "stream"):
            given = {"workspace": None, "workspace_bytes": 0, "stream": None}
            for wrong in ("0", -1, 0.5, True, 2**64):
                expect(f"{name} must be an integer of 64 bits from 0, or None, but got {wrong!r}", self.forward.run, packed,
                       *{**given, name: wrong}.values())
        with self.assertRaisesRegex(runtime.TilewrightError, "cannot open 'nowhere/a.twb'"):
            self.library.open(pathlib.Path("nowhere", "a.twb"))
        for device in (77, -1):
            self.expect(f"device must be from 0 to 63, but got {device}", self.forward.workspace_size,
                        self.forward.pack(self.values(softcap=30.0)), device)
        named = runtime.Operation(self.library, self.bundle, "attention_backward", {"D": Whole(32), "WINDOW": False})
        self.assertTrue(named.takes("dq"))

    def test_warns_of_a_cache_that_others_may_write(self):
        if not places.find_compiler():
            self.skipTest("there is no compiler library")
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"TILEWRIGHT_CACHE_DIR": folder}):
            def compile_one():
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    compiler.compile_bundle(os.path.join(places.KERNELS, "row_softmax.mlir"), {"T": "f32"})
                return [str(each.message) for each in caught]

            os.chmod(folder, 0o777)
            self.assertEqual(compile_one(), [f"the cache '{folder}' must be writable by its owner only, but has mode 777; run "
                                             "chmod go-w on it; it is not used"])
            self.assertEqual(compile_one(), [])  # once
            self.assertEqual(os.listdir(folder), [])
            os.chmod(folder, 0o700)
            self.assertEqual(compile_one(), [])
            self.assertEqual(len(os.listdir(folder)), 1)

    def test_says_why_kernels_are_slow(self):
        """Remarks of the compiler come with a bundle."""
        def remarks(**params):
            return self.library.remarks(self.library.load(compiler.compile_bundle(FORWARD, {"D": 64, **params})))

        self.assertEqual(remarks(T="f16"), [])
        self.assertEqual(remarks(T="f16", PAGE_ROWS=1),
                         ["kernel 'attention_forward' has no code for sm_90a: there is no tensor map for a copy of 'k': 1 row of a "
                          "tile lies together in a page; use pages of a multiple of 8 rows"])
        self.assertEqual(self.library.remarks(None), [])

    def test_reports_what_does_not_compile(self):
        with self.assertRaisesRegex(compiler.CompileError, "parameter 'CAUSAL' of .* must be one of"):
            compiler.compile_bundle(FORWARD, {**self.params, "CAUSAL": "sideways"})
        with self.assertRaisesRegex(compiler.CompileError, "there is no kernel file 'nowhere.mlir'"):
            compiler.compile_bundle("nowhere.mlir", {})

    def test_links_files_beside_a_kernel(self):
        kernel = """tile.link "lib/once.mlir"
            tile.kernel @main (%s: !tile.view<[?], f32>) grid(%i = 1) {
              %t = tile.load %s[0] : !tile.view<[?], f32> -> !tile.tile<[32], f32>
              %u = tile.map @once(%t) : (!tile.tile<[32], f32>) -> !tile.tile<[32], f32>
              tile.store %u, %s[0] : !tile.tile<[32], f32>, !tile.view<[?], f32>
            }"""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "lib"))
            for name, text in (("kernel.mlir", kernel), ("lib/once.mlir", "func.func private @once(%x: f32) -> f32 {\n  return %x : f32\n}")):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            self.assertTrue(compiler.compile_bundle(os.path.join(folder, "kernel.mlir"), {}, (), ["sm_80"]))

    def test_the_tool_compiles_the_same(self):
        if not os.path.exists(places.find_tool()):
            self.skipTest(f"there is no {places.find_tool()}")
        here = compiler.compile_bundle(FORWARD, self.params)
        with mock.patch.object(places, "find_compiler", lambda: None):
            by_tool = compiler.compile_bundle(FORWARD, self.params)
            with self.assertRaisesRegex(compiler.CompileError, "must be one of"):
                compiler.compile_bundle(FORWARD, {**self.params, "CAUSAL": "sideways"})
        for data in (here, by_tool):
            runtime.AttentionForward(self.library, self.library.load(data), "f16", 32, "top_left")

    def test_code_executes_prints_if_it_shall(self):
        text = """
            tile.kernel @k (%y: !tile.view<[?], f32>) grid(%i = 1) {
              tile.print "at" %i : i32
              tile.store 1, %y[0] : !tile.tile<[8], f32>
            }"""
        with tempfile.TemporaryDirectory() as folder:
            kernel = os.path.join(folder, "kernel.mlir")
            with open(kernel, "w") as file:
                file.write(text)
            compile_ = functools.partial(compiler.compile_bundle, kernel, {}, (), ["sm_80"])
            finders = [places.find_compiler] + [lambda: None] * os.path.exists(places.find_tool())
            for finder in finders:
                with mock.patch.object(places, "find_compiler", finder):
                    self.assertNotIn(b"vprintf", compile_())
                    self.assertIn(b"vprintf", compile_(debug_ops=True))
                    with mock.patch.dict(os.environ, {"TILEWRIGHT_DEBUG_OPS": "1"}):
                        self.assertIn(b"vprintf", compile_())
                        self.assertNotIn(b"vprintf", compile_(debug_ops=False))

    def test_says_what_is_not_there(self):
        with self.assertRaisesRegex(runtime.TilewrightError, "cannot load nowhere.so"):
            runtime.Library("nowhere.so")
        with mock.patch.dict(os.environ, {"TILEWRIGHTC": "nowhere/tilewrightc"}), \
                mock.patch.object(places, "find_compiler", lambda: None), \
                self.assertRaisesRegex(compiler.CompileError, "neither libtilewright-compiler.so nor tilewrightc"):
            compiler.compile_bundle(FORWARD, self.params)


class HeaderTest(unittest.TestCase):
    """Checks that runtime.py repeats the C declarations: the same fields in the same order, and the same names of
    views."""
    STRUCTS = {"view": runtime.View, "argument": runtime.Argument, "param": runtime.Param,
               "attention_forward_desc": runtime.ForwardDesc, "attention_backward_desc": runtime.BackwardDesc,
               "attention_forward_args": runtime.ForwardArguments, "attention_backward_args": runtime.BackwardArguments,
               "attention_desc": runtime.AttentionDesc, "target": runtime.Target, "run_info": runtime.RunInfo,
               "launch_info": runtime.LaunchInfo}
    TYPES = {"size_t": ctypes.c_size_t, "int": ctypes.c_int, "float": ctypes.c_float, "double": ctypes.c_double,
             "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64, "tilewright_type": ctypes.c_int,
             "tilewright_causal": ctypes.c_int, "tilewright_attention_kind": ctypes.c_int, "tilewright_places": ctypes.c_int,
             "tilewright_determinism": ctypes.c_int, "uint64_t": ctypes.c_uint64, "uint32_t[3]": ctypes.c_uint32 * 3,
             "tilewright_param *": ctypes.POINTER(runtime.Param), "char *": ctypes.c_char_p, "void *": ctypes.c_void_p,
             "int64_t *": ctypes.POINTER(ctypes.c_int64), "tilewright_view *": ctypes.POINTER(runtime.View),
             "tilewright_argument *": ctypes.POINTER(runtime.Argument), "tilewright_type *": ctypes.POINTER(ctypes.c_int)}

    def read(self, name):
        path = os.path.join(places.ROOT, "runtime", name)
        if not os.path.exists(path):
            self.skipTest(f"there is no {path}: this is not a source tree")
        with open(path, encoding="utf-8") as file:
            return re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)

    def test_structs(self):
        header = self.read("tilewright.h") + self.read("tilewright-attention.h")
        for name, struct in self.STRUCTS.items():
            body = re.search(rf"typedef struct tilewright_{name} {{(.*?)}}", header, re.DOTALL).group(1)
            declared = re.findall(r"(?:const )?(\w+(?:\s+\*)?)\s*(\w+)(\[3\])?;", body)
            fields = [(field, self.TYPES[re.sub(r"\s+", " ", kind) + array]) for kind, field, array in declared]
            if name.endswith("_args"):  # by the names of the kernel's arguments: dlse for d_lse
                fields = [(re.sub("^d_", "d", field), kind) for field, kind in fields]
            self.assertEqual(fields, list(struct._fields_), name)

    def test_views(self):
        text = self.read("AttentionViews.h")
        for direction, views in ("forward", runtime.FORWARD_VIEWS), ("backward", runtime.BACKWARD_VIEWS):
            rows = text.split(f"namespace {direction} {{")[1].split("};\n}")[0]
            self.assertEqual(tuple(re.findall(r'\{"(\w+)", (?:true|false)', rows)), views)

    def test_enumerations(self):
        header = self.read("tilewright.h")
        for enum, names in (("type", runtime.TYPES), ("causal", runtime.CAUSAL), ("code", runtime.CODES),
                            ("attention_kind", runtime.KINDS), ("places", runtime.PLACES)):
            body = re.search(rf"typedef enum tilewright_{enum} {{(.*?)}}", header, re.DOTALL).group(1)
            declared = re.findall(r"TILEWRIGHT_(?:CAUSAL_|ATTENTION_|PLACES_)?(\w+) = (\d+)", body)
            self.assertEqual(declared, [(name.upper().replace(" ", "_"), str(i)) for i, name in enumerate(names)])


if __name__ == "__main__":
    unittest.main()
