# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.kernel: kernels and programs of files on tensors, against the formulas. Runs on the interpreter, and compiles
for a GPU: needs PyTorch, the built libraries and tilewright-run, but no GPU."""

import os
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, interpret_module, make, torch  # noqa: E402

import tilewright  # noqa: E402
from tilewright import functions, places, plans, signature  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "examples")
RMS_NORM, RMS_BACKWARD, SOFTMAX = (os.path.join(EXAMPLES, name + ".mlir") for name in
                                   ("rms_norm", "rms_norm_backward", "first_kernel"))
DECODE = {"GROUP": 2, "BLOCK_N": 16}  # of attention_decode

TWO = """
!view = !tile.view<[?, 16], f32>
!t = !tile.tile<[1, 16], f32>
tile.kernel @two params() require(dim(y, 0) == dim(x, 0), dim(z, 0) == dim(x, 0)) (%x: !view, %y: !view, %z: !view)
    grid(%r = dim(x, 0)) {
  %t = tile.load %x[%r, 0] : !view -> !t
  %doubled = arith.addf %t, %t : !t
  %squared = arith.mulf %t, %t : !t
  tile.store %doubled, %y[%r, 0] : !t, !view
  tile.store %squared, %z[%r, 0] : !t, !view
}
"""
TWO_BACKWARD = """
!view = !tile.view<[?, 16], f32>
!t = !tile.tile<[1, 16], f32>
tile.kernel @two_backward params() require(dim(d_x, 0) == dim(x, 0))
    (%x: !view, %d_y: !view, %d_z: !view, %d_x: !view) grid(%r = dim(x, 0)) {
  %t = tile.load %x[%r, 0] : !view -> !t
  %d_y_tile = tile.load %d_y[%r, 0] : !view -> !t
  %d_z_tile = tile.load %d_z[%r, 0] : !view -> !t
  %of_z = arith.mulf %t, %d_z_tile : !t
  %half = arith.addf %d_y_tile, %of_z : !t
  %whole = arith.addf %half, %half : !t
  tile.store %whole, %d_x[%r, 0] : !t, !view
}
"""


def setUpModule():
    if not os.path.isfile(RMS_BACKWARD):
        raise unittest.SkipTest(f"there is no {RMS_BACKWARD}")
    if not places.find_compiler() and not os.path.exists(places.find_tool()):
        raise unittest.SkipTest("there is no compiler")
    interpret_module()


def single(*shape, seed=1):
    return make(*shape, dtype=torch.float32, seed=seed)


def formula(x, epsilon=1e-5):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)


def rms_norm(**options):
    return tilewright.kernel(RMS_NORM, C=16, T=torch.float32, **options)


class KernelTest(TorchTest):
    def test_by_position_and_by_name(self):
        norm, x = rms_norm(), single(5, 16).detach()
        self.assertEqual(repr(norm), "<tilewright.Kernel rms_norm(x: f32[?, 16], y: f32[?, 16], epsilon: f32)>")
        for got, epsilon in ((norm(x), 1e-5), (norm(x=x), 1e-5), (norm(x, None, 0.5), 0.5), (norm(epsilon=0.5, x=x), 0.5),
                             (norm(x, epsilon=torch.tensor(0.5)), 0.5), (norm(x, epsilon=1), 1.0), (norm(x, epsilon=None), 1e-5)):
            self.assert_same([got], [formula(x, epsilon)])
        self.assert_same([norm(x[:0])], [x[:0]])

    def test_given_results_are_written_in_place(self):
        norm, x, y = rms_norm(), single(5, 16).detach(), torch.zeros(7, 16)
        version = y._version
        self.assertIs(norm(x[:3], z := y[2:5]), z)
        self.assert_same([y[2:5], y[:2], y[5:]], [formula(x[:3]), torch.zeros(2, 16), torch.zeros(2, 16)])
        self.assertGreater(y._version, version)

    def test_strides(self):
        softmax = tilewright.kernel("row_softmax", T="f32")
        x = single(7, 6).detach()
        for each in (x, x.T, x[:, ::2], x[::2], x[:1].expand(4, 6)):
            self.assert_same([softmax(each, scale=0.5)], [torch.softmax(each * 0.5, 1)])

    def test_gradients(self):
        for backward in (RMS_BACKWARD, tilewright.kernel(RMS_BACKWARD, C=16, T="f32")):
            norm = rms_norm(backward=backward)
            for epsilon in (1e-5, 0.5):
                self.assert_right(lambda x: norm(x, epsilon=epsilon), lambda x: formula(x, epsilon), (single(5, 16),), rtol=1e-5,
                                  atol=1e-5)
        x = single(5, 16)
        self.assert_same([torch.autograd.grad((norm(x.sin()) * 2).cos().sum(), x)[0]],
                         [torch.autograd.grad((formula(x.sin()) * 2).cos().sum(), x)[0]], rtol=1e-5, atol=1e-5)

    def test_gradients_by_other_names(self):
        """d_y may be dy, and any name with backward_names."""
        with open(RMS_BACKWARD, encoding="utf-8") as file:
            text = file.read()
        with tempfile.TemporaryDirectory() as folder:
            for d_y, d_x, names in (("dy", "dx", None), ("seed", "out", {"seed": "d_y", "out": "d_x"})):
                path = os.path.join(folder, d_y + ".mlir")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(re.sub(r"\bd_x\b", d_x, re.sub(r"\bd_y\b", d_y, text)))
                norm = rms_norm(backward=path, backward_names=names)
                self.assert_right(norm, formula, (single(5, 16),), rtol=1e-5, atol=1e-5)

    def test_gradients_of_several_results(self):
        """One that is not used has a gradient of zeros."""
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name) for name in ("two.mlir", "two_backward.mlir")]
            for path, text in zip(files, (TWO, TWO_BACKWARD)):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            two, x = tilewright.kernel(files[0], backward=files[1]), single(5, 16)
            self.assert_right(two, lambda x: (x * 2, x * x), (x,))
            for use in (lambda y, z: y.sin(), lambda y, z: z.sin()):
                self.assert_same([torch.autograd.grad(use(*two(x)).sum(), x)[0]], [torch.autograd.grad(use(x * 2, x * x).sum(), x)[0]])

    def test_optional_arguments_and_several_results(self):
        x, weight = single(5, 16).detach(), single(16, seed=2).detach()
        mean, std = x.mean(1, keepdim=True), (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
        plain = tilewright.kernel("layer_norm", N=16, T="f32")
        self.assert_same([plain(x, eps=1e-5)], [(x - mean) / std])
        self.assert_same([plain(x, weight, eps=1e-5)], [(x - mean) / std * weight])
        both = tilewright.kernel("layer_norm", N=16, T="f32", outputs=["rstd", "mean"])
        got = both(x, None, weight, eps=1e-5)
        self.assert_same(got, [(x - mean) / std + weight, mean[:, 0], 1 / std[:, 0]])  # in the order of the kernel
        given = torch.zeros(5)
        got = both(x, mean=given, eps=1e-5)
        self.assertIs(got[1], given)
        self.assert_same([given, got[2]], [mean[:, 0], 1 / std[:, 0]])

    def test_shapes_of_results(self):
        """What conditions say, in either direction; what they do not say comes from `outputs`."""
        x, gate, up = single(4, 8).detach(), single(8, 6, seed=2).detach(), single(8, 6, seed=3).detach()
        swiglu = tilewright.kernel("swiglu", T="f32")
        self.assert_same([swiglu(x, gate, up)], [torch.nn.functional.silu(x @ gate) * (x @ up)], rtol=1e-4, atol=1e-4)
        for rule in ("x", (5, 16), [5, 16], lambda given: given["x"].shape):
            x = single(5, 16).detach()
            softmax = tilewright.kernel(SOFTMAX, C=16, outputs={"y": rule})
            self.assert_same([softmax(x)], [torch.softmax(x, 1)])
        with self.assertRaisesRegex(ValueError, "^y must be given, or its shape in outputs: the conditions of 'softmax' do not say its "
                                                "extent 0$"):
            tilewright.kernel(SOFTMAX, C=16)(x)
        self.assert_same([tilewright.kernel(SOFTMAX, C=16)(x, torch.empty(5, 16))], [torch.softmax(x, 1)])
        for rule, got in (((5, 15), r"\[5, 15\]"), (lambda given: (5,), r"\[5\]")):
            with self.assertRaisesRegex(ValueError, r"^outputs must give y the shape \[\?, 16\], as the parameters of 'softmax' say, but "
                                                    f"got {got}$"):
                tilewright.kernel(SOFTMAX, C=16, outputs={"y": rule})(x)

    def test_expressions_of_extents(self):
        """Of conditions: all arithmetic, also over scalars."""
        arguments = (signature.Argument("x", "f32", (-1, 4)), signature.Argument("n", "i32", None),
                     signature.Argument("y", "f32", (-1, -1, -1, 8), True), signature.Argument("z", "f32", (-1,), True))
        dims = [("dim", "y", i) for i in range(3)]
        conditions = (("==", ("ceildiv", ("dim", "x", 0), 4), dims[0]), ("==", dims[1], ("*", ("name", "n"), ("dim", "x", 1))),
                      ("==", ("dim", "z", 0), ("-", dims[1], ("max", dims[0], 1))), (">=", ("name", "n"), 1),
                      ("==", dims[2], ("select", True, 1, 2)))
        found = signature.shapes_of(signature.Signature("k", False, arguments, conditions), {"x": (9, 4), "n": 2}, ["y", "z"])
        self.assertEqual(found, {"y": (3, 8, None, 8), "z": (5,)})

    def test_programs_and_names(self):
        q, k, v = (single(1, heads, rows, 8, seed=seed).detach() for heads, rows, seed in ((4, 1, 1), (2, 40, 2), (2, 40, 3)))
        pages, lengths = [x.transpose(1, 2) for x in (k, v)], torch.tensor([40], dtype=torch.int32)
        decode = tilewright.kernel("attention_decode", D=8, T="f32", SPLITS=2, **DECODE)
        self.assertTrue(decode.signature.is_program)
        self.assert_same([decode(q, *pages, seq_lens=lengths, scale=0.5)], [tilewright.attention(q, k, v, scale=0.5)])
        part = tilewright.kernel("attention_decode", "attention_decode_part", D=8, DV=8, T="f32", CACHE="f32", DESCALE=False, ROWS=1,
                                 CAUSAL="none", WINDOW=False, PAGE_ROWS=0, PACKED=False, LEFTPAD=False, LISTED=False,
                                 BY_TOKEN=False, SHARD=False, RANKS=1, RANK_KEYS=1, LIST_BLOCK_N=0, PART_KEYS=1, PART_UNIT=16, BLOCK_M=16, SPLITS=2, FOLDS=False, **DECODE)
        self.assertEqual(part.signature.names(), ["q", "k_pages", "v_pages", "o", "lse", "o_parts", "lse_parts", "block_table", "seq_lens",
                                                  "scale", "window_left", "window_right"])
        parts = torch.zeros(1, 4, 1, 2, 8), torch.zeros(1, 4, 1, 2)
        part(q, *pages, torch.zeros(1, 4, 1, 8), None, *parts, seq_lens=lengths, scale=0.5, window_left=-1, window_right=-1)
        self.assert_same([parts[1].logsumexp(3)], [tilewright.attention(q, k, v, scale=0.5, return_lse=True)[1]])

    def test_without_the_compiler_library(self):
        """The tool needs to know whether a name is that of a kernel or of a program."""
        x = single(5, 16).detach()
        with mock.patch.object(places, "find_compiler", lambda: None):
            for name in (None, "rms_norm"):
                self.assert_same([tilewright.kernel(RMS_NORM, name, C=16, T="f32")(x)], [formula(x)])
            decode = tilewright.kernel("attention_decode", "attention_decode", D=8, T="f32", SPLITS=2, **DECODE)
        q, k = single(1, 4, 1, 8).detach(), single(1, 2, 40, 8).detach()
        pages, lengths = k.transpose(1, 2), torch.tensor([40], dtype=torch.int32)
        self.assert_same([decode(q, pages, pages, seq_lens=lengths, scale=0.5)], [tilewright.attention(q, k, k, scale=0.5)])

    def test_linked_files(self):
        """Captures of linked files are arguments."""
        q, k, v = (single(1, heads, rows, 8, seed=seed).detach() for heads, rows, seed in ((4, 5, 1), (2, 9, 2), (2, 9, 3)))
        capped = tilewright.kernel("attention_forward", with_=["softcap"], D=8, T="f32", CAUSAL="top_left")
        self.assertIn("softcap", capped.signature.names())
        self.assert_same([capped(q, k, v, scale=0.5, softcap=2.0)], [tilewright.attention(q, k, v, scale=0.5, softcap=2.0, causal=True)])

    def test_an_edited_file(self):
        with tempfile.TemporaryDirectory() as folder, open(SOFTMAX, encoding="utf-8") as file:
            path, text = os.path.join(folder, "k.mlir"), file.read()
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
            kernel, x = tilewright.kernel(path, C=16, outputs={"y": "x"}), single(5, 16).detach()
            self.assert_same([kernel(x)], [torch.softmax(x, 1)])
            with open(path, "w", encoding="utf-8") as out:
                out.write(text.replace("arith.divf %p, %sum_each", "arith.mulf %p, %sum_each"))
            exponents = (x - x.max(1, keepdim=True).values).exp()
            self.assert_same([kernel(x)], [exponents * exponents.sum(1, keepdim=True)], rtol=1e-5, atol=1e-5)


class CompiledTest(TorchTest):
    def test_results_and_gradients(self):
        norm = rms_norm(backward=RMS_BACKWARD)
        for dynamic in (False, True):
            torch.compiler.reset()
            code = torch.compile(lambda x, e: norm(x * 2, epsilon=e) + 1, fullgraph=True, backend="aot_eager", dynamic=dynamic)
            for rows, epsilon in ((5, 0.25), (6, 0.5), (7, 0.5)):
                self.assert_right(lambda x: code(x, epsilon), lambda x: formula(x * 2, epsilon) + 1, (single(rows, 16),), rtol=1e-5,
                                  atol=1e-5)

    def test_given_results(self):
        norm = rms_norm()

        def block(x, y):
            norm(x * 2, y)
            return y + 1

        torch.compiler.reset()
        x, y = single(5, 16).detach(), torch.zeros(5, 16)
        got = torch.compile(block, fullgraph=True, backend="aot_eager")(x, y)
        self.assert_same([got, y], [formula(x * 2) + 1, formula(x * 2)])

    def test_what_pytorch_checks_of_operators(self):
        norm, x = rms_norm(backward=RMS_BACKWARD), single(5, 16)
        torch.library.opcheck(functions.kernel_op, (norm.key, [x], [0.5, 0.0], [0], "x,epsilon", "y", [0]),
                              test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))
        torch.library.opcheck(functions.kernel_into_op, (norm.key, [x.detach()], [0.0], [0], "x", [torch.zeros(5, 16)], "y"),
                              test_utils=("test_schema", "test_faketensor"))

    def test_names_are_stable(self):
        """A graph that is kept on disk finds its kernel in a later process, which makes it in the same way."""
        first = rms_norm(backward=RMS_BACKWARD)
        self.assertEqual(first.key, rms_norm(backward=RMS_BACKWARD).key)
        self.assertRegex(first.key, "^rms_norm:[0-9a-f]{16}$")
        keys = {first.key, rms_norm().key, rms_norm(outputs={"y": "x"}).key, tilewright.kernel(RMS_NORM, C=32, T="f32").key,
                tilewright.kernel("row_softmax", T="f32").key}
        keys |= {rms_norm(outputs={"y": lambda given: given["x"].shape}).key for _ in range(2)}
        self.assertEqual(len(keys), 7)
        with self.assertRaisesRegex(RuntimeError, "there is no kernel 'other' in this process, for which a graph was made; call "
                                                  "tilewright.kernel with the same arguments before"):
            functions.kernel_op("other", [single(5, 16)], [0.0], [0], "x", "y", [0])


class PlansTest(unittest.TestCase):
    """What the runtime for a GPU says to the values that a call would launch with."""

    def launched(self, kernel, *arguments, **named):
        seen = []
        with mock.patch.object(plans, "launch", lambda plan, values, *more, **updates: seen.append(values)):
            kernel(*arguments, **named)
        return seen[0]

    def test_reports(self):
        x = single(5, 16).detach()
        for kernel, arguments, named, grid in (
                (rms_norm(), (x,), {}, (5, 1, 1)), (rms_norm(), (x, torch.empty(5, 16)), {"epsilon": 0.5}, (5, 1, 1)),
                (tilewright.kernel("row_softmax", T="f32"), (x.T,), {"scale": 0.5}, (4, 1, 1)),
                (tilewright.kernel("layer_norm", N=16, T="f32"), (x,), {"eps": 1e-5}, (2, 1, 1))):
            plan = plans.compile_choice(kernel._code, ["sm_80"])
            report = plan.report(plan.pack(self.launched(kernel, *arguments, **named)), target=(8, 0, 166912, 108))
            self.assertEqual(report.launches[0].grid, grid)
            self.assertEqual(report.name, kernel.signature.name)

    def test_what_is_copied(self):
        """Only rows whose elements are not contiguous; and no array that is written."""
        softmax, x = tilewright.kernel("row_softmax", T="f32"), single(8, 8).detach()
        for each, is_copied in ((x, False), (x[::2, 1:], False), (x[:1].expand(4, 8), False), (x.T, True), (x[:, ::2], True)):
            self.assertEqual(self.launched(softmax, each, scale=1.0)["x"].data_ptr() != each.data_ptr(), is_copied)
            self.assertEqual(self.launched(softmax, each, y := torch.empty(*each.shape[::-1]).T, scale=1.0)["y"].data_ptr(), y.data_ptr())

    def test_a_capture_needs_code(self):
        with mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: True), self.assertRaisesRegex(
                RuntimeError, r"^the first call of kernel 'rms_norm' must not be captured, since it loads code; call it once before, or "
                              r"its method prepare\(\)$"):
            plans.plan(rms_norm()._code, torch.device("cuda", 0))
        made = []
        with mock.patch.object(plans, "_make", lambda *x: made.append(x) or object()), mock.patch.object(plans._code, "plans", {}), \
                mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: False):
            norm = rms_norm(backward=RMS_BACKWARD)
            norm.prepare("cuda:0")
            self.assertEqual([(code.name, complete) for code, _, _, complete in made],
                             [("rms_norm", True), ("rms_norm_backward", True)])
            plans.plan(norm._code, torch.device("cuda", 0))  # found
            self.assertEqual(len(made), 2)


class RejectionTest(unittest.TestCase):
    def expect(self, text, call, *arguments, error=ValueError, **named):
        with self.assertRaises(error) as caught:
            call(*arguments, **named)
        self.assertEqual(str(caught.exception), text)

    def test_arguments(self):
        norm, x, y = rms_norm(), single(5, 16).detach(), torch.empty(5, 16)
        self.expect("'rms_norm' has 3 arguments, x, y, epsilon, but got 4", norm, x, y, 1.0, 2, error=TypeError)
        self.expect("'rms_norm' has no argument 'epsilom'; did you mean 'epsilon'?", norm, x, epsilom=1.0, error=TypeError)
        self.expect("'rms_norm' has no argument 'weight'; its arguments are x, y, epsilon", norm, x, weight=y, error=TypeError)
        self.expect("'rms_norm' got argument 'x' twice, by position and by name", norm, x, x=x, error=TypeError)
        self.expect("'rms_norm' needs argument 'x'", norm, epsilon=1.0, error=TypeError)
        self.expect("x must be a tensor, but got float", norm, 1.0)
        self.expect("x must be of torch.float32, as the parameters of 'rms_norm' say, but got torch.float64; convert it with .to(), or "
                    "give other parameters", norm, x.double())
        self.expect("x must have shape [?, 16], as the parameters of 'rms_norm' say, but got [5, 15]", norm, x[:, 1:])
        self.expect("y must have shape [?, 16], as the parameters of 'rms_norm' say, but got [5]", norm, x, y[:, 0])
        self.expect("epsilon must be a number, for the kernel's f32, but got 'small'", norm, x, epsilon="small")
        self.expect("epsilon must be a number, for the kernel's f32, but got a tensor of torch.float32 and shape [2]", norm, x,
                    epsilon=torch.ones(2))
        self.expect("epsilon must be a number, for the kernel's f32, but got True", norm, x, epsilon=True)
        self.expect("y must be on the device of x, cpu, but got meta; move it with .to()", norm, x, y.to("meta"))
        self.expect("x must be a dense tensor, but got torch.sparse_coo; convert it with .to_dense()", norm, x.to_sparse())
        with self.assertRaisesRegex(ValueError, r"requires 'dim\(y, 0\) == dim\(x, 0\)', but got"):
            norm(x, torch.empty(4, 16))
        attend = tilewright.kernel("attention_forward", D=16, T="f32", WINDOW=True)
        q = x[None, None]
        for wrong, shown in ((2.5, "2.5"), (True, "True"), (torch.tensor(2.0), "a tensor of torch.float32 and shape []")):
            self.expect(f"window_left must be an integer, for the kernel's i32, but got {shown}", attend, q, q, q, scale=1,
                        window_left=wrong)
        self.expect("window_left must be an integer of 32 bits, but got 4294967296", attend, q, q, q, scale=1, window_left=2**32)
        with tilewright.interpret(None):
            self.expect("x must be on a CUDA device, but got cpu; move it with .cuda(), or see tilewright.interpret", norm, x)

    def test_gradients(self):
        norm, x = rms_norm(), single(5, 16)
        with self.assertRaises(NotImplementedError) as caught:
            norm(x).sum().backward()
        self.assertEqual(str(caught.exception), "'rms_norm' has no gradient; give a kernel for it by backward=, detach its inputs, or use "
                                                "torch.no_grad()")
        self.expect("y must be left out where x requires a gradient, since results that are given have none; use torch.no_grad() "
                    "otherwise", norm, x, torch.empty(5, 16))
        self.expect("y must not require a gradient, since 'rms_norm' writes to it; use torch.no_grad(), or leave it out", norm,
                    x.detach(), torch.empty(5, 16, requires_grad=True))
        with torch.no_grad():
            norm(x, torch.empty(5, 16, requires_grad=True))
        norm = rms_norm(backward=RMS_BACKWARD)
        first = torch.autograd.grad(norm(x).sin().sum(), x, create_graph=True)[0]
        with self.assertRaisesRegex(NotImplementedError, "^'rms_norm_backward' has no gradient; "):
            first.sum().backward()
        with self.assertRaisesRegex(NotImplementedError, "^x must not be a tensor of vmap or another transform of torch.func, which kernels "
                                                         "do not support$"):
            torch.func.vmap(norm)(torch.zeros(2, 5, 16))
        # A backward that has the gradients of some inputs only.
        layer = tilewright.kernel("layer_norm", N=16, T="f32", backward=tilewright.kernel(RMS_BACKWARD, C=16, T="f32"))
        self.expect("weight must not require a gradient, which the backward 'rms_norm_backward' does not compute: it has no argument "
                    "d_weight; detach it", layer, x, single(16), eps=1e-5)

    def test_making(self):
        kernel = tilewright.kernel
        with self.assertRaisesRegex(ValueError, "^file must be the path of an .mlir file, or one of .*row_softmax.*, but got 'softmax'$"):
            kernel("softmax")
        with self.assertRaisesRegex(ValueError, "^modifier must be one of alibi, .*, but got 'tanh'$"):
            kernel("attention_forward", with_="tanh", D=8)
        self.expect("parameter 'C' must be an integer, a bool, a string or a torch.dtype, but got 1.5", kernel, RMS_NORM, C=1.5)
        self.expect("program must be the name of a kernel or program, or None, but got 3", kernel, RMS_NORM, 3, C=16)
        for options, text in (({"D": 16}, "D"), ({}, "C"), ({"C": 16, "T": "i32"}, "T")):
            with self.assertRaisesRegex(ValueError, f"^the kernel does not compile: (?s:.*){text}"):
                kernel(RMS_NORM, **options)
        with self.assertRaisesRegex(ValueError, "^the kernel does not compile: (?s:.*)other"):
            kernel(RMS_NORM, "other", C=16)
        self.expect("outputs must name arguments that 'rms_norm' writes, y, but got 'x'", rms_norm, outputs=["x"])
        for rule in (3, "z", ("x", 1), (1.5,)):
            self.expect("the shape of 'y' in outputs must be a tuple of integers, the name of an argument with this shape, or a function "
                        f"of the arguments, but got {rule!r}", rms_norm, outputs={"y": rule})
        self.expect("backward must be a kernel of tilewright.kernel, or the path of a file, but got int", rms_norm, backward=3)
        self.expect("backward_names must belong to a backward, but got none", rms_norm, backward_names={"d": "d_y"})
        self.expect("backward_names must name arguments of 'rms_norm_backward', x, d_y, d_x, epsilon, but got 'd'", rms_norm,
                    backward=RMS_BACKWARD, backward_names={"d": "d_y"})
        self.expect("argument 'd_y' of the backward 'rms_norm_backward' must have the name of an argument of the forward, x, y, epsilon, "
                    "or d_ and such a name; say in backward_names which it is", rms_norm, backward=RMS_BACKWARD,
                    backward_names={"d_y": "seed"})
        self.expect("argument 'd_x' of the backward 'rms_norm_backward' must not be written, since it is 'y' of the forward; name it d_y "
                    "if it is the gradient", rms_norm, backward=RMS_BACKWARD, backward_names={"d_x": "y"})
        self.expect("argument 'd_x' of the backward 'rms_norm_backward' must not be written, since 'y' of the forward is a result",
                    rms_norm, backward=RMS_BACKWARD, backward_names={"d_x": "d_y"})
        self.expect("argument 'd_y' of the backward 'rms_norm_backward' must be written, since 'x' of the forward is an input", rms_norm,
                    backward=RMS_BACKWARD, backward_names={"d_y": "d_x"})
        self.expect("device must be a CUDA device, but got cpu", rms_norm().prepare, "cpu")

    def test_bundles(self):
        self.expect("the data must be a bundle of version 1", signature.signature_of, b"TWBUNDLE" + bytes(60))
        self.expect("the data must be a bundle of version 1", signature.signature_of, b"other")


if __name__ == "__main__":
    unittest.main()
