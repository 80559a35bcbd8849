# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operator on a GPU against PyTorch's attention. The tests are skipped, with a message, if there is no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from gpu_inputs import captured, gradients, make, qkv  # noqa: E402

import torch  # noqa: E402

from tilewright import compiler, ops, places, runtime  # noqa: E402
from tilewright.torch import attention, prepare  # noqa: E402
from torch_reference import reference  # noqa: E402


class OperatorTest(unittest.TestCase):
    def assert_right(self, call, peer, inputs, options):
        """Asserts that the error against the f64 reference is at most twice that of a peer in the same type, plus a
        small slack."""
        exact = [x.detach().double().requires_grad_() for x in inputs]
        expected = gradients(lambda *x: reference(*x[:3], **options(x))[0], exact)
        got, other = gradients(call, inputs), gradients(peer, inputs)
        for name, x, y, want in zip(("o", "dq", "dk", "dv", "d_capture"), got, other, expected):
            self.assertFalse(x.isnan().any(), name)
            self.assertEqual((x.shape, x.dtype), (y.shape, y.dtype), name)
            error, allowed = (x.double() - want).abs(), (y.double() - want).abs()
            unit = torch.finfo(x.dtype).eps * want.abs().max()
            self.assertLessEqual(error.max(), 2 * allowed.max() + 2 * unit, name)
            self.assertLessEqual(error.mean(), 1.5 * allowed.mean() + unit / 4, name)

    def test_beside_sdpa(self):
        cases = [dict(width=64), dict(width=128, causal=True), dict(width=256, rows=96, keys=96),
                 dict(width=80, causal=True), dict(width=64, value_width=32), dict(dtype=torch.float16),
                 dict(dtype=torch.float32), dict(dtype=torch.float32, causal=True, width=128),
                 dict(heads=6, kv_heads=1, rows=1)]
        for case in cases:
            with self.subTest(case):
                causal = case.pop("causal", False)
                inputs = qkv(**case)

                def peer(q, k, v):
                    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
                    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

                for deterministic in (False, True):
                    self.assert_right(lambda *x: attention(*x, causal=causal, deterministic=deterministic), peer, inputs,
                                      lambda x: {"causal": causal})

    def test_masks(self):
        for options in ({"causal": "bottom_right"}, {"window": (20, 5)}, {"causal": "bottom_right", "window": (16, -1)},
                        {"causal": True, "scale": 0.5}):
            for rows in (150, 260):  # more rows than keys: rows without keys
                with self.subTest(options, rows=rows):
                    inputs = qkv(rows=rows)
                    self.assert_right(lambda *x: attention(*x, **options), lambda *x: reference(*x, **options)[0], inputs,
                                      lambda x: options)

    def test_lse(self):
        q, k, v = qkv(dtype=torch.float32)
        exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
        got = gradients(lambda *x: attention(*x, causal=True, return_lse=True), (q, k, v))
        expected = gradients(lambda *x: reference(*x, causal="top_left"), exact)
        for x, want in zip(got, expected):
            torch.testing.assert_close(x.double(), want, rtol=1e-4, atol=1e-4)
        o, lse = attention(*qkv(rows=300, dtype=torch.float32), causal="bottom_right", return_lse=True)
        self.assertTrue((lse[:, :, :97] == -torch.inf).all() and (o[:, :, :97] == 0).all())

    def test_modifiers(self):
        slopes, table = torch.rand(4, device="cuda"), make(4, 41, dtype=torch.float32)
        cases = {"softcap": {"softcap": 5.0}, "alibi": {"slopes": slopes},
                 "relative_bias": {"relative_bias": table, "relative_radius": 20}}
        for name, captures in cases.items():
            for causal in (False, True):
                with self.subTest(name, causal=causal):
                    inputs = qkv()
                    if name == "relative_bias":
                        inputs = (*inputs, table)

                    def given(x):
                        return captures | {"relative_bias": x[3]} if len(x) > 3 else captures

                    self.assert_right(
                        lambda *x: attention(*x[:3], causal=causal, modifier=name, captures=given(x)),
                        lambda *x: reference(*x[:3], causal, modifier=name, captures=given(x))[0], inputs,
                        lambda x: {"causal": causal, "modifier": name, "captures": given(x)})

    def test_gradcheck(self):
        double = [make(1, 2, 5, 16, dtype=torch.float64), make(1, 1, 7, 16, dtype=torch.float64),
                  make(1, 1, 7, 16, dtype=torch.float64, seed=4)]
        single = [x.detach().float().requires_grad_() for x in double]
        for causal in (False, True):
            def call(*x):
                return attention(*x, causal=causal, return_lse=True, deterministic=True)

            self.assertTrue(torch.autograd.gradcheck(call, double))
            self.assertTrue(torch.autograd.gradcheck(call, single, eps=1e-2, atol=1e-2, rtol=1e-2))
            self.assertTrue(torch.autograd.gradcheck(lambda *x: attention(*x, causal=causal), double, nondet_tol=1e-9))

    def test_opcheck(self):
        q, k, v = qkv()
        torch.library.opcheck(torch.ops.tilewright.attention.default,
                              (q, k, v, [], [0.0], [0], "", "top_left", -1, -1, 0.125, "", True))

    def test_compile(self):
        def block(q, k, v):
            o, lse = attention(q * 2, k, v, causal=True, return_lse=True, deterministic=True)
            return o.float() + 1, lse

        for dynamic in (False, True):
            with self.subTest(dynamic=dynamic):
                torch.compiler.reset()
                compiled = torch.compile(block, fullgraph=True, dynamic=dynamic)
                for rows in (150, 170):
                    inputs = qkv(rows=rows)
                    for x, y in zip(gradients(compiled, inputs), gradients(block, inputs)):
                        torch.testing.assert_close(x, y)

    def test_strides(self):
        def separate(q, k, v):
            return attention(*(x.transpose(1, 2) for x in (q, k, v)), causal=True, deterministic=True)

        def dense(q, k, v):
            return attention(*(x.transpose(1, 2).contiguous() for x in (q, k, v)), causal=True, deterministic=True)

        inputs = [make(2, 130, 3, 64, seed=seed) for seed in range(3)]  # [batch, rows, heads, width]
        for x, y in zip(gradients(separate, inputs), gradients(dense, inputs)):
            self.assertTrue(torch.equal(x, y))
        packed = make(2, 130, 3, 3, 64)  # one projection for q, k and v
        o = attention(*packed.permute(2, 0, 3, 1, 4), deterministic=True)
        (got,) = torch.autograd.grad(o.sum(), packed)  # the gradient of a sum is an expanded tensor
        parts = [x.contiguous() for x in packed.permute(2, 0, 3, 1, 4)]
        o = attention(*parts, deterministic=True)
        (expected,) = torch.autograd.grad(o, packed, torch.ones_like(o))
        self.assertTrue(torch.equal(got, expected))
        # Neither aligned nor dense in rows: TMA does not support this, so other code runs, which sums in another order.
        odd = [make(2, 3, 130, 65, seed=seed).detach()[..., 1:].requires_grad_() for seed in range(3)]
        self.assert_right(attention, lambda *x: reference(*x)[0], odd, lambda x: {})
        columns = make(2, 3, 64, 130).mT
        self.assertTrue(torch.equal(attention(columns, columns, columns),
                                    attention(*[columns.contiguous()] * 3)))

    def test_zero_sizes(self):
        for shape in (dict(batch=0), dict(rows=0), dict(keys=0), dict(heads=0, kv_heads=0)):
            with self.subTest(shape):
                inputs = qkv(**shape)
                got = gradients(lambda *x: attention(*x), inputs)
                for x in got:
                    self.assertTrue((x == 0).all())

    def test_a_graph_of_a_training_step(self):
        inputs = qkv(dtype=torch.float16)
        do = torch.randn(2, 4, 150, 64, device="cuda", dtype=torch.float16)

        def step():
            o = attention(*inputs, causal=True, deterministic=True)
            return (o.detach(), *torch.autograd.grad(o, inputs, do))

        prepare("cuda", torch.float16, 64, causal=True, deterministic=True)
        expected = [x.clone() for x in step()]
        graph, results = captured(step)
        for _ in range(3):
            for x in results:
                x.fill_(torch.nan)
            graph.replay()
            for x, want in zip(results, expected):
                self.assertTrue(torch.equal(x, want))

    def test_loads_no_code_while_it_is_captured(self):
        q, k, v = qkv(width=24)
        message = "the first call of attention for these types and widths must not be captured"
        caught = None
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                try:
                    attention(q, k, v)
                except RuntimeError as error:
                    caught = str(error)
        except RuntimeError:  # an empty capture
            pass
        torch.cuda.synchronize()
        self.assertIn(message, caught)

    def test_other_streams_and_many_calls(self):
        inputs = qkv(rows=512, keys=512)

        def call():
            return gradients(lambda *x: attention(*x, causal=True, deterministic=True), inputs)

        expected = call()
        torch.cuda.synchronize()
        streams = [torch.cuda.Stream() for _ in range(3)]
        results = []
        for round in range(10):
            for stream in streams:
                with torch.cuda.stream(stream):
                    results.append(call())
        torch.cuda.synchronize()
        for result in results:
            for x, want in zip(result, expected):
                self.assertTrue(torch.equal(x, want))

    def test_checks_indices(self):
        library = runtime.Library(places.find_library())
        data = compiler.compile_bundle(f"{places.KERNELS}/attention_forward.mlir",
                                       {"D": "64", "T": "bf16", "PACKED": True})
        operation = runtime.Operation(library, library.load(data), "attention_forward", {})
        operation.prepare()
        q, k, v = (make(1, 2, 300, 64, seed=seed).detach() for seed in (1, 2, 3))

        def run(*offsets):
            offsets, o = torch.tensor(offsets, dtype=torch.int32, device="cuda"), torch.zeros_like(q)
            packed = operation.pack({"q": q, "k": k, "v": v, "o": o, "cu_seqlens_q": offsets, "cu_seqlens_k": offsets,
                                     "scale": 0.125, "window_left": -1, "window_right": -1})
            operation.run(packed, None, 0, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
            return o

        unchecked = run(0, 100, 100, 300)
        operation.check_indices()
        self.assertTrue(torch.equal(run(0, 100, 100, 300), unchecked))
        with self.assertRaises(runtime.TilewrightError) as caught:
            run(0, 100, 50, 300)
        self.assertEqual(str(caught.exception), "kernel 'attention_forward' requires 'ascending(cu_seqlens_q)', but "
                         "got cu_seqlens_q[2] = 50 after 100")
        self.assertEqual(caught.exception.code, "invalid argument")
        operation.check_indices(False)
        run(0, 100, 50, 300)

    def test_training(self):
        torch.manual_seed(1)
        losses = []
        for ours in (True, False):
            torch.manual_seed(2)
            project = torch.nn.Linear(64, 192, device="cuda")
            x, target = torch.randn(2, 100, 64, device="cuda"), torch.randn(2, 100, 64, device="cuda")
            optimizer = torch.optim.Adam(project.parameters(), 0.01)
            for _ in range(20):
                q, k, v = project(x).unflatten(-1, (3, 2, 32)).permute(2, 0, 3, 1, 4)
                o = (attention(q, k, v, causal=True) if ours else
                     torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
                loss = (o.transpose(1, 2).flatten(2) - target).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        torch.testing.assert_close(losses[:20], losses[20:], rtol=1e-3, atol=1e-3)
        self.assertLess(losses[19], losses[0])

    def test_errors(self):
        q, k, v = qkv()
        with self.assertRaisesRegex(ValueError, "there is no argument 'cap'"):
            attention(q, k, v, modifier="softcap", captures={"cap": 3.0})
        with self.assertRaisesRegex(ValueError, "argument 'softcap' of kernel 'attention_forward' must be a scalar of type "
                                                "f32, but got i32"):
            attention(q, k, v, modifier="softcap", captures={"softcap": 3})
        with self.assertRaisesRegex(ValueError, "argument 'softcap' .* is missing"):
            attention(q, k, v, modifier="softcap")
        with self.assertRaisesRegex(ValueError, "modifier must be one of .* but got 'tanh'"):
            attention(q, k, v, modifier="tanh")
        with self.assertRaisesRegex(ValueError, "k must be on a CUDA device, but got cpu"):
            attention(q, k.cpu(), v)
        with self.assertRaisesRegex(ValueError, "dtype must be float16, bfloat16, float32 or float64, but got torch.int8"):
            prepare("cuda", torch.int8, 64)
        self.assertEqual(ops.TYPES[torch.bfloat16], "bf16")


if __name__ == "__main__":
    unittest.main()
