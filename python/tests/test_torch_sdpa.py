# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.sdpa_compatible and use_for_sdpa against PyTorch's scaled_dot_product_attention, and the functions of
tilewright.flash against the formulas. Runs on the interpreter: needs PyTorch and tilewright-run, but no GPU."""

import itertools
import os
import re
import sys
import unittest
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, interpret_module, make, torch  # noqa: E402

import torch.nn.functional as F  # noqa: E402
try:
    import numpy as np
except ImportError:
    np = None

import tilewright  # noqa: E402
from tilewright import ops, sdpa  # noqa: E402
from torch_reference import packed_reference, reference, slices_of  # noqa: E402

setUpModule = interpret_module
pytorch_sdpa = F.scaled_dot_product_attention


def single(*shape, seed=1, dtype=torch.float32):
    return make(*shape, dtype=dtype, seed=seed)


def three(q=(2, 4, 5, 8), k=(2, 4, 7, 8), v=None):
    return single(*q), single(*k, seed=2), single(*(v or k), seed=3)


def mask(*shape):
    kept = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.6
    if len(shape) > 1 and shape[-2] > 1:
        kept[..., 1, :] = False  # a row without keys
    return kept


@unittest.skipIf("enable_gqa" not in pytorch_sdpa.__doc__, "PyTorch 2.4 has neither enable_gqa nor zeros in empty rows")
class SdpaTest(TorchTest):
    def beside(self, inputs, **options):
        """Asserts that results, strides and gradients equal PyTorch's."""
        learned = [x for x in (*inputs, options.get("attn_mask")) if x is not None and x.requires_grad]
        ours, theirs = (f(*inputs, **options) for f in (tilewright.sdpa_compatible, pytorch_sdpa))
        self.assertEqual((ours.shape, ours.dtype, ours.stride()), (theirs.shape, theirs.dtype, theirs.stride()))
        self.assertIsNone(tilewright.why_not_sdpa(*inputs, **options))
        tolerance = {"rtol": 1e-5, "atol": 1e-5}
        self.assert_same([ours], [theirs], **tolerance)
        self.assertFalse(ours.isnan().any())
        got, expected = (torch.autograd.grad(o.sin().sum(), learned) for o in (ours, theirs))
        self.assert_same(got, expected, **tolerance)

    def test_shapes(self):
        for shapes in ({}, dict(q=(5, 8), k=(7, 8)), dict(q=(4, 5, 8), k=(4, 7, 8)), dict(k=(2, 4, 7, 8), v=(2, 4, 7, 3)),
                       dict(k=(1, 4, 7, 8)), dict(q=(1, 4, 5, 8)), dict(k=(2, 1, 7, 8)), dict(q=(2, 1, 5, 8)), dict(q=(5, 8)),
                       dict(q=(3, 2, 4, 5, 8), k=(2, 4, 7, 8)), dict(q=(3, 1, 4, 5, 8), k=(3, 2, 4, 7, 8)),
                       dict(k=(2, 4, 0, 8)), dict(q=(2, 4, 0, 8)), dict(q=(0, 4, 5, 8), k=(0, 4, 7, 8))):
            with self.subTest(shapes):
                self.beside(three(**shapes))
        self.beside([single(2, 6, 4, 8, seed=n).transpose(1, 2) for n in range(3)], is_causal=True)

    def test_grouped_heads(self):
        for shapes in (dict(k=(2, 2, 7, 8)), dict(k=(2, 1, 7, 8)), dict(q=(4, 5, 8), k=(2, 7, 8))):
            with self.subTest(shapes):
                self.beside(three(**shapes), enable_gqa=True)

    def test_causal_is_top_left(self):
        self.beside(three(), is_causal=True)
        self.beside(three(q=(2, 4, 9, 8)), is_causal=True)

    def test_scale(self):
        for scale in (0.0, 1, -0.5, 0.125):
            self.beside(three(), scale=scale)

    def test_masks(self):
        for shape in ((5, 7), (2, 1, 5, 7), (2, 4, 5, 7), (4, 5, 7), (1, 7), (5, 1), (2, 1, 1, 7)):
            with self.subTest(shape):
                self.beside(three(), attn_mask=mask(*shape))
                self.beside(three(), attn_mask=single(*shape))
                self.beside(three(), attn_mask=single(*shape).detach().masked_fill(~mask(*shape), -torch.inf))
        self.beside(three(), attn_mask=single(2, 1, 1, 7).expand(2, 4, 5, 7))
        for shape in ((5, 7), (3, 1, 4, 5, 7), (1, 2, 1, 5, 7)):
            self.beside(three(q=(3, 2, 4, 5, 8)), attn_mask=mask(*shape))

    def test_a_row_without_keys_is_zero_as_in_pytorch(self):
        for hidden in (torch.zeros(5, 7, dtype=torch.bool), torch.full((5, 7), -torch.inf)):
            inputs = three()
            for f in (tilewright.sdpa_compatible, pytorch_sdpa):
                o = f(*inputs, attn_mask=hidden)
                self.assertTrue((o == 0).all())
                for x in torch.autograd.grad(o.sum(), inputs):
                    self.assertTrue((x == 0).all())

    def test_other_types(self):
        for dtype in (torch.float64, torch.bfloat16, torch.float16):
            inputs = [x.detach().to(dtype) for x in three()]
            unit = torch.finfo(dtype).eps if dtype != torch.float64 else 1e-7
            self.assert_same([tilewright.sdpa_compatible(*inputs)], [pytorch_sdpa(*inputs)], rtol=4 * unit, atol=4 * unit)

    def test_autocast(self):
        q, k, v = three()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got, expected = (f(q, k.bfloat16(), v, attn_mask=single(5, 7)) for f in
                             (tilewright.sdpa_compatible, pytorch_sdpa))
        self.assertEqual((got.dtype, expected.dtype), (torch.bfloat16,) * 2)
        self.assert_same([got], [expected], rtol=2e-2, atol=2e-2)

    def test_dropout(self):
        inputs = three()
        torch.manual_seed(2)
        first = tilewright.sdpa_compatible(*inputs, dropout_p=0.5)
        torch.manual_seed(2)
        self.assertTrue(torch.equal(first, tilewright.attention(*inputs, dropout_p=0.5)))
        self.assertFalse(torch.equal(first, tilewright.sdpa_compatible(*inputs)))

    def test_rejects_what_pytorch_rejects(self):
        q, k, v = three()
        for arguments, options in (((q[0, 0, 0], k, v), {}), ((q, k.double(), v), {}), ((q, k[..., :6], v), {}),
                                   ((q, k[:, :2], v[:, :2]), {}), ((q, k[:, :3], v[:, :3]), {"enable_gqa": True}),
                                   ((q[:1].expand(3, -1, -1, -1), k, v), {}), ((q, k, v), {"dropout_p": 1.5}),
                                   ((q, k, v), {"dropout_p": -0.5}), ((q, k, v), {"attn_mask": torch.ones(5, 6)}),
                                   ((q, k, v), {"attn_mask": torch.ones(3, 2, 4, 5, 7)}),
                                   ((q[:1], k[:1], v[:1]), {"attn_mask": torch.ones(2, 4, 5, 7)}),
                                   ((q, k, v), {"attn_mask": torch.ones(5, 7, dtype=torch.int32)}),
                                   ((q, k, v), {"attn_mask": torch.ones(5, 7, dtype=torch.float64)})):
            with self.subTest([x.shape for x in arguments], **options):
                for f in (pytorch_sdpa, tilewright.sdpa_compatible):
                    with self.assertRaises(RuntimeError):
                        f(*arguments, **options)
                self.assertIsNotNone(tilewright.why_not_sdpa(*arguments, **options))
        with self.assertRaisesRegex(RuntimeError, "attn_mask must be None where is_causal is set"):  # as in its documentation
            tilewright.sdpa_compatible(q, k, v, attn_mask=mask(5, 7), is_causal=True)
        with self.assertRaises(TypeError):  # scale and enable_gqa are keyword-only
            tilewright.sdpa_compatible(q, k, v, None, 0.0, False, 0.5)

    def unsupported(self):
        q, k, v = three()
        half = [x.detach().bfloat16() for x in (q, k, v)]
        nested = torch.nested.nested_tensor([torch.randn(2, 4, 8), torch.randn(2, 6, 8)])
        wide = torch.zeros(1, 1, 3, 520)
        return (((q, k, v), {"dropout_p": 1.0}, "dropout_p must be less than 1"),
                ((q, k[:, :2], v[:, :1]), {"enable_gqa": True}, "key and value must have as many heads, but got 2 and 1"),
                (half, {"attn_mask": torch.zeros(5, 7)}, "attn_mask must be of bool or have the dtype of query, "
                                                         "torch.bfloat16, but got torch.float32"),
                ((wide,) * 3, {}, "widths must be from 1 to 512, but got 520 and 520"),
                ((wide[..., :300].double(),) * 3, {}, "widths must be from 1 to 256, but got 300 and 300"),
                ((nested,) * 3, {}, "query must be a dense tensor, but got a nested one"),
                ((q, k, v), {"scale": float("nan")}, "scale must be a finite number of f32, but got nan"))

    def test_says_what_the_kernels_do_not_do(self):
        for inputs, options, reason in self.unsupported():
            with self.subTest(reason):
                self.assertEqual(tilewright.why_not_sdpa(*inputs, **options), reason)
                with self.assertRaises(ValueError) as caught:
                    tilewright.sdpa_compatible(*inputs, **options)
                self.assertEqual(str(caught.exception), reason)

    def test_the_switch(self):
        q, k, v = three()
        expected = pytorch_sdpa(q, k, v)
        self.assertIs(F.scaled_dot_product_attention, pytorch_sdpa)
        with CountedLaunches() as launches:
            with tilewright.use_for_sdpa():
                self.assert_same([F.scaled_dot_product_attention(q, k, v)], [expected], rtol=1e-5, atol=1e-5)
                self.assertEqual(launches.count, 1)
                with tilewright.use_for_sdpa(False):
                    self.assertIs(F.scaled_dot_product_attention, pytorch_sdpa)
                F.scaled_dot_product_attention(q, k, v)
                self.assertEqual(launches.count, 2)
            self.assertIs(F.scaled_dot_product_attention, pytorch_sdpa)
            switch = tilewright.use_for_sdpa()  # without `with`, until it is disabled
            F.scaled_dot_product_attention(q, k, v)
            self.assertEqual(launches.count, 3)
            tilewright.use_for_sdpa(False)
            self.assertIs(F.scaled_dot_product_attention, pytorch_sdpa)
            del switch

    @unittest.skipUnless(np, "there is no NumPy")
    def test_numbers_by_protocol(self):
        """A scale or dropout_p of NumPy or in a tensor, which PyTorch takes, fell back in silence."""
        inputs = three()
        scales = np.float32(0.5), np.int64(2), torch.tensor(0.25), None
        for scale, p in itertools.product(scales, (np.float64(0), torch.tensor(0.0))):
            with self.subTest(scale=scale, p=p):
                self.assertIsNone(tilewright.why_not_sdpa(*inputs, scale=scale, dropout_p=p))
                with CountedLaunches() as launches, tilewright.use_for_sdpa(fallback="raise"):
                    got = F.scaled_dot_product_attention(*inputs, scale=scale, dropout_p=p)
                self.assertEqual(launches.count, 1)
                self.assert_same([got], [pytorch_sdpa(*inputs, scale=scale, dropout_p=p)], rtol=1e-5, atol=1e-5)
        for options, reason in (({"scale": torch.tensor(0.5, requires_grad=True)}, "scale must be a finite number of f32, but got "
                                 "a tensor of torch.float32 and shape [], which requires a gradient"),
                                ({"scale": True}, "scale must be a finite number of f32, but got True"),
                                ({"dropout_p": torch.zeros(1)}, "dropout_p must be a number, but got a tensor of torch.float32 and "
                                 "shape [1]"),
                                ({"dropout_p": "0.1"}, "dropout_p must be a number, but got '0.1'")):
            self.assertEqual(tilewright.why_not_sdpa(*inputs, **options), reason)

    def test_falls_back_with_a_reason(self):
        reasons = tilewright.sdpa_fallbacks()
        reasons.clear()
        for inputs, options, reason in self.unsupported():
            with self.subTest(reason):
                torch.manual_seed(1)
                with CountedLaunches() as launches, tilewright.use_for_sdpa():
                    got = F.scaled_dot_product_attention(*inputs, **options)
                self.assertEqual((launches.count, reasons[reason]), (0, 1))
                torch.manual_seed(1)
                expected = pytorch_sdpa(*inputs, **options)
                if not expected.is_nested:
                    self.assert_same([got], [expected], equal_nan=True, rtol=0, atol=0)
                with tilewright.use_for_sdpa(fallback="raise"), self.assertRaises(ValueError) as caught:
                    F.scaled_dot_product_attention(*inputs, **options)
                self.assertEqual(str(caught.exception), f"Tilewright does not compute this attention: {reason}")
                with warnings.catch_warnings(), tilewright.use_for_sdpa(fallback="warn"):
                    warnings.simplefilter("always")
                    with self.assertWarnsRegex(UserWarning, "PyTorch computes this attention, not Tilewright"):
                        F.scaled_dot_product_attention(*inputs, **options)
        with tilewright.interpret(None), tilewright.use_for_sdpa():
            F.scaled_dot_product_attention(*three())
        self.assertEqual(reasons["query must be on a CUDA device, but got cpu"], 1)
        with tilewright.use_for_sdpa(), self.assertRaises(TypeError):  # raised by PyTorch
            F.scaled_dot_product_attention([1], 2, 3)
        with tilewright.use_for_sdpa():
            x = torch.randn(3, 2, 4, 5, 8)
            got = torch.func.vmap(F.scaled_dot_product_attention)(x, x, x)
            self.assert_same([got], [pytorch_sdpa(x, x, x)], rtol=1e-5, atol=1e-5)
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                tangents = [torch.func.jvp(call, (x[0], x[0], x[0]), (x[1], x[1], x[1]))[1]
                            for call in (F.scaled_dot_product_attention, pytorch_sdpa)]
                with torch.autograd.forward_ad.dual_level():
                    dual = torch.autograd.forward_ad.make_dual(x[0], x[1])
                    tangents.append(torch.autograd.forward_ad.unpack_dual(F.scaled_dot_product_attention(dual, dual, dual)).tangent)
            self.assertGreater(tangents[1].abs().max().item(), 0)
            self.assert_same([tangents[0], tangents[2]], [tangents[1]] * 2, rtol=1e-5, atol=1e-5)
        self.assertEqual(reasons["query must not be a tensor of vmap or another transform of torch.func"], 2)
        self.assertEqual(reasons["query must not be a tensor of forward-mode differentiation"], 1)
        with self.assertRaisesRegex(ValueError, "fallback must be one of silent, warn, raise, but got 'quiet'"):
            tilewright.use_for_sdpa(fallback="quiet")

    def test_modules_of_pytorch(self):
        torch.manual_seed(1)
        layer = torch.nn.TransformerDecoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        x, memory = torch.randn(2, 5, 32), torch.randn(2, 7, 32)
        padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
        causal = torch.nn.Transformer.generate_square_subsequent_mask(5)

        def run():
            layer.zero_grad()
            y = layer(x, memory, tgt_mask=causal, memory_key_padding_mask=padding)
            y.sin().sum().backward()
            return [y, *(p.grad.clone() for p in layer.parameters())]

        expected = run()
        with CountedLaunches() as launches, tilewright.use_for_sdpa(fallback="raise"):
            got = run()
        self.assertEqual(launches.count, 4)  # two attentions, forward and backward
        self.assert_same(got, expected, rtol=1e-4, atol=1e-4)


class CountedLaunches:
    def __enter__(self):
        self.count, self.launch = 0, ops.launch

        def launch(*arguments):
            self.count += 1
            return self.launch(*arguments)

        ops.launch = launch
        return self

    def __exit__(self, *error):
        ops.launch = self.launch


class FlashTest(TorchTest):
    """The conventions of flash_attn: layouts, and masks, windows and biases aligned to the bottom right corner."""

    options = ({}, {"causal": True}, {"window_size": (2, 1)}, {"window_size": (2, 3), "causal": True}, {"softcap": 2.0},
               {"softmax_scale": 0.2}, {"window_size": (3, -1)}, {"deterministic": True, "causal": True})

    @staticmethod
    def plain(options, slopes):
        return {"causal": "bottom_right" if options.get("causal") else False, "align": "bottom_right",
                "window": options.get("window_size"), "softcap": options.get("softcap"), "scale": options.get("softmax_scale"),
                "alibi_slopes": slopes}

    def test_window_size(self):
        q, offsets = make(2, 6, 4, 8), torch.tensor([0, 12], dtype=torch.int32)
        for wrong in ((-2, 0), (0, -2), (-2, -1)):
            message = re.escape("window must be two integers (left, right), each the number of keys that a query sees on that "
                                f"side, or -1 for all of them, but got {wrong}")
            with self.assertRaisesRegex(ValueError, message):
                tilewright.flash_attn_func(q, q, q, window_size=wrong)
            with self.assertRaisesRegex(ValueError, message):
                tilewright.flash_attn_varlen_func(*[q.reshape(12, 4, 8)] * 3, offsets, offsets, 12, 12, window_size=wrong)

    def test_dense(self):
        for rows, keys in ((6, 6), (4, 9), (9, 4)):
            q = make(2, rows, 4, 8)
            k, v = make(2, keys, 2, 8, seed=2), make(2, keys, 2, 6, seed=3)
            for options in self.options:
                for slopes in (None, torch.rand(4), torch.rand(2, 4)):
                    with self.subTest(options, rows=rows, keys=keys, slopes=slopes):
                        def ours(*x):
                            return tilewright.flash_attn_func(*x, **options, alibi_slopes=slopes, return_attn_probs=True)[:2]

                        def wanted(*x):
                            o, lse = reference(*(y.transpose(1, 2) for y in x), **self.plain(options, slopes))
                            return o.transpose(1, 2), lse

                        self.assert_right(ours, wanted, (q, k, v))
        o = tilewright.flash_attn_func(q, k, v)
        self.assertTrue(o.is_contiguous())

    def test_packed(self):
        starts_q, starts_k = [0, 3, 3, 8], [0, 5, 9, 11]
        cu_q, cu_k = (torch.tensor(x, dtype=torch.int32) for x in (starts_q, starts_k))
        q, k, v = make(8, 4, 8), make(11, 2, 8, seed=2), make(11, 2, 6, seed=3)
        for options in self.options:
            for slopes in (None, torch.rand(4), torch.rand(3, 4)):
                with self.subTest(options, slopes=slopes):
                    def ours(*x):
                        return tilewright.flash_attn_varlen_func(*x, cu_q, cu_k, 5, 5, **options, alibi_slopes=slopes,
                                                                 return_attn_probs=True)[:2]

                    def wanted(*x):
                        given = {name: y for name, y in self.plain(options, slopes).items() if y is not None}
                        return packed_reference(*x, starts_q, starts_k, slices_of(given), **given)

                    self.assert_right(ours, wanted, (q, k, v))

    def test_parts_of_one_projection_are_read_in_place(self):
        seen, launch = [], ops.launch
        packed = make(2, 6, 3, 4, 8)

        def watch(plan, values, outputs, device):
            seen.append([values[name].data_ptr() for name in "qkv"])
            return launch(plan, values, outputs, device)

        ops.launch = watch
        self.addCleanup(setattr, ops, "launch", launch)
        tilewright.flash_attn_func(*packed.unbind(2), causal=True)
        self.assertEqual(seen, [[x.data_ptr() for x in packed.unbind(2)]])

    def test_dropout(self):
        q = make(2, 6, 4, 8)
        torch.manual_seed(1)
        first = tilewright.flash_attn_func(q, q, q, 0.5)
        torch.manual_seed(1)
        self.assertTrue(torch.equal(first, tilewright.flash_attn_func(q, q, q, dropout_p=0.5)))
        self.assertFalse(torch.equal(first, tilewright.flash_attn_func(q, q, q)))

    @unittest.skipUnless(np, "there is no NumPy")
    def test_numbers_by_protocol(self):
        """flash_attn takes what has __index__ or __float__: its tests pass window_size=torch.randint(0, n, (2,))."""
        q, starts = make(2, 6, 4, 8).detach(), torch.tensor([0, 6, 12], dtype=torch.int32)
        windows = (torch.tensor([2, 1]), [torch.tensor(2), np.int32(1)], np.array([2, 1]))
        others = {"softmax_scale": (np.float32(0.5), torch.tensor(0.5)), "softcap": (np.float16(2), torch.tensor(2.0)),
                  "dropout_p": (np.float64(0), torch.tensor(0)), "causal": (np.bool_(True),)}
        plain = {"window_size": (2, 1), "softmax_scale": 0.5, "softcap": 2.0, "dropout_p": 0.0, "causal": True}
        for name, given in {"window_size": windows, **others}.items():
            wanted = tilewright.flash_attn_func(q, q, q, **{name: plain[name]})
            for each in given:
                with self.subTest(name, given=each):
                    self.assertTrue(torch.equal(tilewright.flash_attn_func(q, q, q, **{name: each}), wanted))
        flat = [q.flatten(0, 1)] * 3
        wanted = tilewright.flash_attn_varlen_func(*flat, starts, starts, 6, 6, window_size=(2, 1))
        for longest in (np.int64(6), torch.tensor(6), starts.diff().max()):
            got = tilewright.flash_attn_varlen_func(*flat, starts, starts, longest, longest, window_size=windows[0])
            self.assertTrue(torch.equal(got, wanted))
        cache = make(2, 8, 4, 8, seed=2).detach()
        wanted = tilewright.flash_attn_with_kvcache(q[:, :1], cache, cache, cache_seqlens=5, num_splits=2, window_size=(3, -1))
        got = tilewright.flash_attn_with_kvcache(q[:, :1], cache, cache, cache_seqlens=np.int64(5), num_splits=np.int8(2),
                                                 window_size=torch.tensor([3, -1]))
        self.assertTrue(torch.equal(got, wanted))

    @unittest.skipUnless(np, "there is no NumPy")
    def test_rejects(self):
        """In the terms of flash_attn's layout; q without an attribute `transpose` was an AttributeError."""
        q = make(2, 6, 4, 8)
        for message, *inputs in (
                ("q must be a tensor, but got NoneType", None, q, q), ("k must be a tensor, but got ndarray", q, q.detach().numpy(), q),
                ("q must have the four dimensions [batch, rows, heads, width], but got shape [6, 4, 8]; flash_attn_varlen_func takes "
                 "packed sequences", q[0], q, q),
                ("v must have the rows and heads of k, [6, 4], but got [6, 2]", q, q, q[:, :, :2]),
                ("the heads of q must be a multiple of those of k, but got 4 and 3; arrays are [batch, rows, heads, width]: use "
                 "transpose(1, 2) on [batch, heads, rows, width]", q, q[:, :, :3], q[:, :, :3])):
            with self.assertRaises(ValueError) as caught:
                tilewright.flash_attn_func(*inputs)
            self.assertEqual(str(caught.exception), message)
        with self.assertRaisesRegex(ValueError, "dropout_p must be a number from 0 to less than 1, but got '0.1'"):
            tilewright.flash_attn_func(q, q, q, "0.1")
        with self.assertRaisesRegex(ValueError, "return_attn_probs must be False where there is dropout"):
            tilewright.flash_attn_func(q, q, q, 0.1, return_attn_probs=True)


if __name__ == "__main__":
    unittest.main()
