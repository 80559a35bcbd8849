# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operator on a GPU against PyTorch's attention. The tests are skipped, with a message, if there is no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
if not hasattr(torch.library, "custom_op"):
    raise unittest.SkipTest(f"PyTorch {torch.__version__} has no torch.library.custom_op; 2.4 has")
if not torch.cuda.is_available():
    raise unittest.SkipTest("there is no GPU")

import torch.nn.functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import tilewright  # noqa: E402
from tilewright import compiler, ops, places, runtime  # noqa: E402
from tilewright.torch import attention, prepare  # noqa: E402
from torch_reference import (FEATURES, fill, packed_features, packed_reference, reference, replaced,  # noqa: E402
                             slices_of)


def make(*shape, dtype=torch.bfloat16, seed=1):
    generator = torch.Generator("cuda").manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, device="cuda").to(dtype).requires_grad_()


def qkv(batch=2, heads=4, kv_heads=2, rows=150, keys=203, width=64, value_width=None, dtype=torch.bfloat16):
    return (make(batch, heads, rows, width, dtype=dtype), make(batch, kv_heads, keys, width, dtype=dtype, seed=2),
            make(batch, kv_heads, keys, value_width or width, dtype=dtype, seed=3))


def gradients(call, inputs):
    """Outputs, and gradients for fixed seeds; None for outputs that are left out."""
    outputs = call(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    seeds = [torch.cos(torch.arange(x.numel(), device="cuda").reshape(x.shape) * 0.37).to(x.dtype) for x in outputs]
    return [x.detach() for x in outputs] + list(torch.autograd.grad(outputs, inputs, seeds))


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
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step()
        for _ in range(3):
            for x in captured:
                x.fill_(torch.nan)
            graph.replay()
            for x, want in zip(captured, expected):
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

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o, dv = step()
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
