# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operator's wiring, with plain PyTorch in place of the plans: autograd, torch.compile, errors. Needs PyTorch, no GPU."""

import os
import sys
import unittest
import warnings
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
if not hasattr(torch.library, "custom_op"):
    raise unittest.SkipTest(f"PyTorch {torch.__version__} has no torch.library.custom_op; 2.4 has")

from tilewright import checks  # noqa: E402
from tilewright import torch as operator  # noqa: E402
from tilewright.torch import attention  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_reference import StandIn, reference, stand_in_launch  # noqa: E402


def make(*shape, dtype=torch.float64, seed=1):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def qkv(batch=2, heads=4, kv_heads=2, rows=5, keys=7, width=8, value_width=6, dtype=torch.float64):
    return (make(batch, heads, rows, width, dtype=dtype), make(batch, kv_heads, keys, width, dtype=dtype, seed=2),
            make(batch, kv_heads, keys, value_width, dtype=dtype, seed=3))


class OperatorTest(unittest.TestCase):
    def setUp(self):
        check = checks.check_arrays

        def on_cpu(*arrays):
            for array in arrays:
                array.device = "cuda" if array.device == "cpu" else array.device
            check(*arrays)

        for patch in (mock.patch.object(operator, "_plan", StandIn), mock.patch.object(operator, "_launch", stand_in_launch),
                      mock.patch.object(checks, "check_arrays", on_cpu)):
            patch.start()
            self.addCleanup(patch.stop)
        warnings.simplefilter("ignore")

    def gradients(self, call, inputs, seeds=None):
        outputs = call(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        seeds = [torch.cos(x.detach() + n) for n, x in enumerate(outputs)]
        return outputs, torch.autograd.grad(outputs, inputs, seeds)

    def assert_same(self, got, expected):
        for x, y in zip(got, expected):
            torch.testing.assert_close(x, y)

    def test_results_and_gradients(self):
        for options in ({}, {"causal": True}, {"causal": "bottom_right", "scale": 0.3}, {"window": (2, 1)},
                        {"causal": "bottom_right", "rows": 9}):
            with self.subTest(options):
                options = dict(options)
                inputs = qkv(rows=options.pop("rows", 5))
                plain = dict(options, causal=checks.causal_mode(options.get("causal", False)))
                for count in (1, 2):  # without LSE and with it
                    def ours(*x):
                        return attention(*x, return_lse=count == 2, **options)

                    def wanted(*x):
                        return reference(*x, **plain)[:count]

                    if options.get("causal") == "bottom_right" and inputs[0].shape[2] == 9 and count == 2:
                        continue  # LSE is -inf in rows without keys
                    for got, expected in zip(self.gradients(ours, inputs), self.gradients(wanted, inputs)):
                        self.assert_same(got, expected)

    def test_only_lse(self):
        q, k, v = qkv()
        _, lse = attention(q, k, v, return_lse=True)
        _, expected = reference(q, k, v)
        self.assert_same(torch.autograd.grad(lse.sum(), (q, k)), torch.autograd.grad(expected.sum(), (q, k)))

    def test_modifiers_and_their_gradients(self):
        q, k, v = qkv()
        table = make(4, 7)
        captures = {"relative_bias": table, "relative_radius": 3}

        def ours(q, k, v, table):
            return attention(q, k, v, modifier="relative_bias", captures=captures | {"relative_bias": table})

        def wanted(q, k, v, table):
            return reference(q, k, v, modifier="relative_bias", captures=captures | {"relative_bias": table})[0]

        for got, expected in zip(self.gradients(ours, (q, k, v, table)), self.gradients(wanted, (q, k, v, table))):
            self.assert_same(got, expected)
        self.assert_same([attention(q, k, v, modifier="softcap", captures={"softcap": 2.0})],
                         [reference(q, k, v, modifier="softcap", captures={"softcap": 2.0})[0]])
        slopes = torch.rand(4, dtype=torch.float64, requires_grad=True)
        o = attention(q, k, v, modifier="alibi", captures={"slopes": slopes})
        with self.assertRaisesRegex(ValueError, "the gradient of capture 'slopes' must be one that the kernel computes, but "
                                                "this backward has none; detach the tensor"):
            o.sum().backward()
        o = attention(q, k, v, modifier="alibi", captures={"slopes": slopes.detach()})
        o.sum().backward()
        self.assertIsNotNone(q.grad)

    def test_strides_and_expanded_gradients(self):
        q, k, v = (make(2, 6, 4, 8, seed=seed) for seed in range(3))  # [batch, rows, heads, width]
        o = attention(*(x.transpose(1, 2) for x in (q, k, v)))
        expected = reference(*(x.transpose(1, 2) for x in (q, k, v)))[0]
        self.assert_same([o], [expected])
        self.assert_same(torch.autograd.grad(o.sum(), (q, k, v)), torch.autograd.grad(expected.sum(), (q, k, v)))
        transposed = make(2, 4, 8, 6).mT  # rows that are not dense
        self.assert_same([attention(transposed, k.transpose(1, 2), v.transpose(1, 2))],
                         [reference(transposed, k.transpose(1, 2), v.transpose(1, 2))[0]])

    def test_gradcheck(self):
        q, k, v = qkv(1, 2, 1, 3, 4, 4, 4)
        self.assertTrue(torch.autograd.gradcheck(lambda *x: attention(*x, causal=True, return_lse=True), (q, k, v)))

    def test_opcheck(self):
        q, k, v = qkv()
        table = make(4, 7)
        for arguments in ((q, k, v, [], "", [0.0], "", "top_left", -1, -1, 0.3, "", False),
                          (q, k, v, [table], "relative_bias", [3.0, 0.0], "relative_radius:i32", "none", 2, 2, 0.3,
                           "relative_bias", True)):
            torch.library.opcheck(torch.ops.tilewright.attention.default, arguments)

    def test_compile(self):
        for dynamic in (False, True):
            with self.subTest(dynamic=dynamic):
                torch.compiler.reset()

                @torch.compile(fullgraph=True, backend="aot_eager", dynamic=dynamic)
                def block(q, k, v, table):
                    o, lse = attention(q * 2, k, v, causal="bottom_right", window=(4, -1), modifier="relative_bias",
                                       captures={"relative_bias": table, "relative_radius": 3}, return_lse=True)
                    return o + 1, lse

                for rows in (5, 6):
                    inputs = (*qkv(rows=rows), make(4, 7))

                    def wanted(q, k, v, table):
                        o, lse = reference(q * 2, k, v, "bottom_right", (4, -1), modifier="relative_bias",
                                           captures={"relative_bias": table, "relative_radius": 3})
                        return o + 1, lse

                    for got, expected in zip(self.gradients(block, inputs), self.gradients(wanted, inputs)):
                        self.assert_same(got, expected)

    def test_compile_with_a_number(self):
        torch.compiler.reset()

        @torch.compile(fullgraph=True, backend="aot_eager", dynamic=True)
        def capped(q, k, v, cap, scale):
            return attention(q, k, v, scale=scale, modifier="softcap", captures={"softcap": cap})

        q, k, v = qkv()
        for cap, scale in ((2.0, 0.5), (3.5, 0.25)):
            self.assert_same([capped(q, k, v, cap, scale)],
                             [reference(q, k, v, scale=scale, modifier="softcap", captures={"softcap": cap})[0]])

    def test_training(self):
        torch.manual_seed(1)
        project = torch.nn.Linear(16, 48, dtype=torch.float64)
        x, target = torch.randn(2, 10, 16, dtype=torch.float64), torch.randn(2, 10, 16, dtype=torch.float64)
        optimizer = torch.optim.Adam(project.parameters(), 0.02)
        losses = []
        for _ in range(20):
            q, k, v = project(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            loss = (attention(q, k, v, causal=True).transpose(1, 2).flatten(2) - target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.95 * losses[0])

    def test_types(self):
        q, k, v = qkv(dtype=torch.float16)
        o, lse = attention(q, k, v, return_lse=True)
        self.assertEqual((o.dtype, lse.dtype), (torch.float16, torch.float32))
        self.assertEqual(torch.autograd.grad(o.sum(), k)[0].dtype, torch.float16)

    def test_deterministic_by_default_where_pytorch_is(self):
        seen = []

        def watch(backward, *rest):
            seen.append((backward, rest[-3]))
            return StandIn(backward, *rest)

        with mock.patch.object(operator, "_plan", watch):
            for mode, option, expected in ((False, None, False), (True, None, True), (True, False, False),
                                           (False, True, True)):
                torch.use_deterministic_algorithms(mode)
                self.addCleanup(torch.use_deterministic_algorithms, False)
                seen.clear()
                attention(*qkv(), deterministic=option).sum().backward()
                self.assertEqual(seen[-1], (True, expected))

    def test_errors(self):
        q, k, v = qkv()
        with self.assertRaisesRegex(ValueError, "q must be a tensor, but got list"):
            attention([1], k, v)
        with self.assertRaisesRegex(ValueError, "captures must belong to a modifier, but got softcap without one"):
            attention(q, k, v, captures={"softcap": 1.0})
        with self.assertRaisesRegex(ValueError, "capture 'softcap' must be a tensor or a number, but got str"):
            attention(q, k, v, modifier="softcap", captures={"softcap": "30"})
        with self.assertRaisesRegex(ValueError, "k must have the type of q, f64, but got f32"):
            attention(q, k.float(), v)
        with self.assertRaisesRegex(ValueError, "device must be a CUDA device, but got cpu"):
            operator.prepare("cpu", torch.float16, 64)

    def test_refuses_the_cpu(self):
        mock.patch.stopall()
        with self.assertRaisesRegex(ValueError, "q must be on a CUDA device, but got cpu; move it with"):
            attention(*qkv())


if __name__ == "__main__":
    unittest.main()
