# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Combinations of features of the operator on a GPU. The tests are skipped, with a message, if there is no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from gpu_inputs import captured, gradients, make, qkv  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import tilewright  # noqa: E402
from tilewright.torch import attention, prepare  # noqa: E402
from torch_reference import (FEATURES, fill, packed_features, packed_reference, reference,  # noqa: E402
                             replaced, slices_of)


def finite_gradients(call, inputs):
    """As `gradients`, but infinite outputs have no seed."""
    outputs = call(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    seeds = [torch.cos(torch.arange(x.numel(), device=x.device).reshape(x.shape) * 0.37).to(x.dtype)
             * (x.detach() > -torch.inf) for x in outputs]
    return [x.detach() for x in outputs] + list(torch.autograd.grad(outputs, inputs, seeds))


class FeaturesTest(unittest.TestCase):
    """Combinations of features in f32 against the formulas in f64."""

    def assert_near(self, call, wanted, inputs, tolerance=2e-4):
        exact = [x.detach().double().requires_grad_() for x in inputs]
        for x, want in zip(finite_gradients(call, inputs), finite_gradients(wanted, exact), strict=True):
            finite = want[want.isfinite()]
            size = 1 + (finite.abs().max() if finite.numel() else 0)
            torch.testing.assert_close(x.double(), want, rtol=0, atol=tolerance * float(size))

    def test_dense(self):
        for options in FEATURES:
            for deterministic in (False, True):
                with self.subTest(options, deterministic=deterministic):
                    options = dict(options)
                    rows, keys = (260 if options.pop("rows", 5) > 9 else 150), 203
                    inputs = qkv(rows=rows, keys=keys, width=32, dtype=torch.float32)
                    filled, learned = fill(options, make, 2, 4, rows, keys, torch.float32, "cuda")
                    self.assert_near(
                        lambda q, k, v, *rest: attention(q, k, v, return_lse=True, deterministic=deterministic,
                                                         **replaced(filled, learned, rest)),
                        lambda q, k, v, *rest: reference(q, k, v, **replaced(filled, learned, rest)), (*inputs, *learned))

    def test_packed(self):
        starts_q, starts_k = [0, 70, 70, 170, 300], [0, 90, 130, 130, 333]
        for options in packed_features():
            with self.subTest(options):
                inputs = [make(rows, heads, 32, dtype=torch.float32, seed=n)
                          for n, (rows, heads) in enumerate(((300, 4), (333, 2), (333, 2)))]
                filled, learned = fill(options, make, 4, 4, 130, 203, torch.float32, "cuda", (starts_q, starts_k))
                cu_q, cu_k = (torch.tensor(x, dtype=torch.int32, device="cuda") for x in (starts_q, starts_k))

                def wanted(q, k, v, *rest):
                    given = replaced(filled, learned, rest)
                    return packed_reference(q, k, v, starts_q, starts_k, slices_of(given), **given)

                self.assert_near(
                    lambda q, k, v, *rest: attention(q, k, v, return_lse=True, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k,
                                                     max_seqlen_q=130, max_seqlen_k=203, **replaced(filled, learned, rest)),
                    wanted, (*inputs, *learned))

    def test_rows_of_no_sequence(self):
        """Packed rows before the first sequence and after the last are zeros, whatever they and fresh memory hold."""
        fill_uninitialized = torch.utils.deterministic.fill_uninitialized_memory
        for dtype in torch.bfloat16, torch.float32:
            for starts in ([0, 70, 412], [4, 300, 412], [150, 412, 600]):
                for deterministic in (False, True):
                    with self.subTest(dtype, starts=starts, deterministic=deterministic):
                        inputs = [make(600, heads, 64, dtype=dtype, seed=heads).detach() for heads in (4, 2, 2)]
                        inside = slice(starts[0], starts[-1])
                        outside = torch.ones(600, dtype=torch.bool, device="cuda")
                        outside[inside] = False
                        few = [x[inside].clone().requires_grad_() for x in inputs]
                        leaves = [x.masked_fill(outside[:, None, None], torch.nan).requires_grad_() for x in inputs]
                        cu = torch.tensor(starts, dtype=torch.int32, device="cuda")
                        torch.use_deterministic_algorithms(True)  # fills fresh memory with NaN
                        try:
                            results = []
                            for x, own in (leaves, cu), (few, cu - starts[0]):
                                o, lse = attention(*x, cu_seqlens_q=own, max_seqlen_q=400, causal=True, return_lse=True,
                                                   deterministic=deterministic)
                                rows = inside if x is leaves else slice(None)
                                loss = o[rows].float().sin().sum() + lse[:, rows].sum()
                                results.append((o, lse.T, *torch.autograd.grad(loss, x)))
                        finally:
                            torch.use_deterministic_algorithms(False)
                        self.assertTrue(fill_uninitialized)
                        for whole, part in zip(*results):
                            unit = torch.finfo(dtype).eps * part.abs().max()
                            self.assertLessEqual((whole[inside] - part).abs().max(), 4 * unit)
                        o, lse, *grads = (x[outside] for x in results[0])
                        self.assertTrue(all((x == 0).all() for x in (o, *grads)) and (lse == -torch.inf).all())

    def test_masks_of_the_lowest_number(self):
        """Masks as transformers add them, also over whole rows."""
        for dtype in torch.bfloat16, torch.float32:
            with self.subTest(dtype):
                inputs = qkv(heads=2, dtype=dtype)
                mask = torch.where(make(2, 1, 150, 203, seed=5) < 0, torch.finfo(dtype).min, 0.0).to(dtype).detach()
                mask[:, :, :10], mask[:, :, 3], mask[:, :, 149] = 0, torch.finfo(dtype).min, torch.finfo(dtype).min
                exact = [x.detach().double().requires_grad_() for x in inputs]
                expected = gradients(lambda *x: F.scaled_dot_product_attention(*x, attn_mask=mask.double()), exact)
                for name, x, want in zip(("o", "dq", "dk", "dv"), gradients(lambda *x: attention(*x, attn_mask=mask), inputs),
                                         expected):
                    unit = torch.finfo(dtype).eps * want.abs().max()
                    self.assertLessEqual((x.double() - want).abs().max(), (8 if dtype == torch.bfloat16 else 64) * unit, name)

    def test_half_types(self):
        """The error is at most that of the formulas in the same type."""
        for dtype in (torch.float16, torch.bfloat16):
            for options in (FEATURES[-1], {"attn_mask": "?mask", "causal": True}, {"bias": "?pairs"}):
                with self.subTest(options, dtype=dtype):
                    inputs = qkv(rows=150, keys=203, dtype=dtype)
                    filled, learned = fill(options, make, 2, 4, 150, 203, dtype, "cuda")
                    every = (*inputs, *learned)
                    call = lambda q, k, v, *rest: attention(q, k, v, **replaced(filled, learned, rest))  # noqa: E731
                    plain = lambda q, k, v, *rest: reference(q, k, v, **replaced(filled, learned, rest))[0]  # noqa: E731
                    exact = gradients(plain, [x.detach().double().requires_grad_() for x in every])
                    for x, y, want in zip(gradients(call, every), gradients(plain, every), exact, strict=True):
                        self.assertEqual((x.shape, x.dtype), (y.shape, y.dtype))
                        unit = torch.finfo(dtype).eps * want.abs().max()
                        self.assertLessEqual((x.double() - want).abs().max(), 2 * (y.double() - want).abs().max() + 2 * unit)

    def dropped(self, seed, rows, keys):
        """The dropout factors of a call with this seed."""
        torch.manual_seed(seed)
        zero = torch.zeros(2, 4, rows, 32, device="cuda")
        eye = torch.eye(keys, device="cuda").expand(2, 2, -1, -1)
        return attention(zero, torch.zeros(2, 2, keys, 32, device="cuda"), eye, dropout_p=0.4) * keys

    def test_dropout(self):
        inputs, bias, sinks = qkv(width=32, dtype=torch.float32), make(4, 150, 203, dtype=torch.float32), make(
            4, dtype=torch.float32)
        factors = self.dropped(7, 150, 203)
        kept = (factors > 0.5).double().mean().item()
        self.assertLess(abs(kept - 0.6), 0.01)  # of 243,600 pairs: a deviation of 0.001

        def call(q, k, v, bias, sinks):
            torch.manual_seed(7)
            return attention(q, k, v, bias=bias, sinks=sinks, causal=True, dropout_p=0.4, return_lse=True)

        self.assert_near(call, lambda q, k, v, bias, sinks: reference(
            q, k, v, causal=True, bias=bias, sinks=sinks, factors=factors.round(decimals=4).double()),
            (*inputs, bias, sinks), 1e-3)
        generator, again = (torch.Generator("cuda").manual_seed(5) for _ in range(2))
        before = torch.cuda.get_rng_state()
        first, second = (attention(*inputs, dropout_p=0.4, generator=generator) for _ in range(2))
        self.assertFalse(torch.equal(first, second))
        self.assertTrue(torch.equal(attention(*inputs, dropout_p=0.4, generator=again), first))
        self.assertTrue(torch.equal(torch.cuda.get_rng_state(), before))

    def test_a_graph_draws_new_numbers(self):
        zero = torch.zeros(1, 2, 100, 64, device="cuda", requires_grad=True)
        v = torch.eye(100, device="cuda").expand(1, 2, -1, -1).clone().requires_grad_()
        ones = torch.ones(1, 2, 100, 100, device="cuda")

        def step():
            o = attention(zero, zero, v, dropout_p=0.5)
            return o.detach(), torch.autograd.grad(o, v, ones)[0]

        graph, (o, dv) = captured(step)
        seen = []
        for _ in range(3):
            graph.replay()
            seen.append(o.clone())
            # O is the factors / 100, and dV their sums over the queries: the backward drops the same pairs.
            torch.testing.assert_close(dv[..., 0], o.sum(2), rtol=1e-4, atol=1e-4)
        self.assertFalse(torch.equal(seen[0], seen[1]) or torch.equal(seen[1], seen[2]))

    def test_prepare_is_enough_for_a_graph(self):
        starts = torch.tensor([0, 2, 5], dtype=torch.int32, device="cuda")
        per_head = torch.zeros(4, device="cuda")

        def step(q, k, v, bias):
            a = torch.autograd.grad(attention(q, k, v, bias=bias).sum(), bias)[0]
            b = attention(q, k, v, softcap=3.0, alibi_slopes=per_head, dropout_p=0.1, sinks=per_head, causal=True,
                          window=(9, 9))
            flat = [x.detach()[0].transpose(0, 1)[:5].contiguous() for x in (q, k, v)]
            return a, b, attention(*flat, cu_seqlens_q=starts, max_seqlen_q=3)

        inputs = {width: (*qkv(width=width, dtype=torch.float16), make(150, 203, dtype=torch.float16)) for width in (40, 64)}
        step(*inputs[64])  # the library that PyTorch loads
        prepare("cuda", torch.float16, 40, modifier=["bias"], capture_gradients=True)
        prepare("cuda", torch.float16, 40, modifier=["softcap", "alibi", "dropout", "sink"], causal=True, window=True)
        prepare("cuda", torch.float16, 40, packed=True, backward=False)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = step(*inputs[40])
        graph.replay()
        torch.cuda.synchronize()
        for x, want in zip((results[0], results[2]), (lambda r: (r[0], r[2]))(step(*inputs[40]))):
            self.assertTrue(torch.equal(x, want))

    def test_beside_sdpa(self):
        mask = torch.rand(2, 1, 150, 203, device="cuda") < 0.6
        cases = [{"is_causal": True}, {"attn_mask": mask}, {"attn_mask": mask[:, :, :1]}, {"scale": 0.3},
                 {"attn_mask": make(4, 150, 203, dtype=torch.float32)}]
        for options in cases:
            for dtype in (torch.float32, torch.bfloat16):
                with self.subTest(options.keys(), dtype=dtype):
                    options = {name: x.to(dtype).detach().requires_grad_() if isinstance(x, torch.Tensor) and
                               x.is_floating_point() else x for name, x in options.items()}
                    inputs = qkv(kv_heads=4, dtype=dtype)
                    learned = [x for x in options.values() if isinstance(x, torch.Tensor) and x.requires_grad]
                    exact = gradients(lambda q, k, v, *rest: F.scaled_dot_product_attention(
                        q, k, v, **replaced(options, learned, rest)),
                        [x.detach().double().requires_grad_() for x in (*inputs, *learned)])

                    def call(f):
                        return gradients(lambda q, k, v, *rest: f(q, k, v, **replaced(options, learned, rest)),
                                         (*inputs, *learned))

                    theirs = call(F.scaled_dot_product_attention)
                    with tilewright.use_for_sdpa(fallback="raise"):
                        ours = call(F.scaled_dot_product_attention)
                    for x, y, want in zip(ours, theirs, exact, strict=True):
                        self.assertEqual((x.shape, x.dtype), (y.shape, y.dtype))
                        unit = torch.finfo(dtype).eps * want.abs().max()
                        self.assertLessEqual((x.double() - want).abs().max(), 2 * (y.double() - want).abs().max() + 4 * unit)

    def test_a_model_of_pytorch(self):
        torch.manual_seed(1)
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, device="cuda")
        x = torch.randn(3, 50, 64, device="cuda")
        causal = torch.nn.Transformer.generate_square_subsequent_mask(50, device="cuda")

        def run():
            layer.zero_grad()
            y = layer(x, src_mask=causal, is_causal=True)
            y.sin().sum().backward()
            return [y.detach(), *(p.grad.clone() for p in layer.parameters())]

        expected = run()
        with tilewright.use_for_sdpa(fallback="raise"):
            got = run()
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)

    def test_flash_attn(self):
        q, k, v = make(2, 150, 4, 64), make(2, 203, 2, 64, seed=2), make(2, 203, 2, 64, seed=3)
        for options in ({}, {"causal": True}, {"window_size": (30, 10)}, {"alibi_slopes": torch.rand(2, 4, device="cuda")},
                        {"softcap": 5.0, "causal": True}):
            with self.subTest(options):
                plain = {"causal": "bottom_right" if options.get("causal") else False, "align": "bottom_right",
                         "window": options.get("window_size"), "softcap": options.get("softcap"),
                         "alibi_slopes": options.get("alibi_slopes")}

                def swapped(f):
                    return lambda *x: f(*(y.transpose(1, 2) for y in x), **plain)

                o = tilewright.flash_attn_func(q, k, v, **options)
                self.assertTrue(o.is_contiguous())
                want = swapped(reference)(*(x.detach().double() for x in (q, k, v)))[0].transpose(1, 2)
                peer = swapped(reference)(q, k, v)[0].transpose(1, 2)
                error, allowed = ((x.double() - want).abs().max() for x in (o, peer))
                self.assertLessEqual(error, 2 * allowed + 0.02 * want.abs().max())
                starts_q, starts_k = (torch.arange(0, 2 * n + 1, n, dtype=torch.int32, device="cuda") for n in (150, 203))
                packed = tilewright.flash_attn_varlen_func(*(x.flatten(0, 1) for x in (q, k, v)), starts_q, starts_k, 150, 203,
                                                           **options)
                torch.testing.assert_close(packed.view_as(o), o, rtol=2e-2, atol=2e-2)
                for x, y in zip(torch.autograd.grad(o.sum(), (q, k, v)), torch.autograd.grad(packed.sum(), (q, k, v))):
                    torch.testing.assert_close(x, y, rtol=4e-2, atol=4e-2)

    def test_autocast(self):
        inputs = qkv(dtype=torch.float32)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            o = attention(*inputs)
        self.assertTrue(torch.equal(o, attention(*(x.bfloat16() for x in inputs))))
        self.assertEqual({x.dtype for x in torch.autograd.grad(o.sum(), inputs)}, {torch.float32})

    def test_compile(self):
        def block(q, k, v, bias, sinks):
            return attention(q * 2, k, v, causal="bottom_right", softcap=3.0, bias=bias, sinks=sinks, dropout_p=0.25,
                             deterministic=True).sin()

        for dynamic in (False, True):
            torch.compiler.reset()
            code = torch.compile(block, fullgraph=True, dynamic=dynamic)
            for rows in (150, 170):
                inputs = (*qkv(rows=rows, dtype=torch.float32), make(rows, 203, dtype=torch.float32),
                          make(4, dtype=torch.float32))
                o = code(*inputs)
                self.assertFalse(o.isnan().any())
                for x in torch.autograd.grad(o.sum(), inputs):
                    self.assertFalse(x.isnan().any())
            plain = torch.compile(lambda *x: attention(*x, causal=True), fullgraph=True, dynamic=dynamic)
            torch.testing.assert_close(plain(*inputs[:3]), attention(*inputs[:3], causal=True))

    def test_checkpointing(self):
        inputs = qkv(dtype=torch.float32)

        def block(q, k, v):
            return attention(q.sin(), k, v, dropout_p=0.4, causal=True, deterministic=True)

        torch.manual_seed(6)
        expected = torch.autograd.grad(block(*inputs).sum(), inputs)
        for reentrant in (True, False):
            leaves = [x.detach().requires_grad_() for x in inputs]
            torch.manual_seed(6)
            checkpoint(block, *leaves, use_reentrant=reentrant).sum().backward()
            for x, want in zip(leaves, expected):
                self.assertTrue(torch.equal(x.grad, want))

    def test_gradcheck(self):
        double = [make(1, 2, 5, 16, dtype=torch.float64), make(1, 1, 7, 16, dtype=torch.float64),
                  make(1, 1, 7, 16, dtype=torch.float64, seed=4), make(2, 5, 7, dtype=torch.float64)]
        sinks = torch.tensor([0.5, -1.0], device="cuda")

        def call(q, k, v, bias):
            torch.manual_seed(1)
            return attention(q, k, v, bias=bias, causal="bottom_right", softcap=1.5, sinks=sinks, dropout_p=0.3,
                             return_lse=True, deterministic=True)

        self.assertTrue(torch.autograd.gradcheck(call, double))
        self.assertTrue(torch.autograd.gradcheck(lambda q, k, v, bias: attention(q, k, v, bias=bias), double))

    def test_a_second_derivative_is_rejected(self):
        q, k, v = qkv()
        (dq,) = torch.autograd.grad(attention(q, k, v).sum(), q, create_graph=True)
        with self.assertRaisesRegex(NotImplementedError, "attention must not be differentiated twice"):
            torch.autograd.grad(dq.sum(), q)


if __name__ == "__main__":
    unittest.main()
