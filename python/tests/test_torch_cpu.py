# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch attention on the interpreter against the formulas: results, gradients, autograd, torch.compile, errors. Needs
PyTorch and tilewright-run, but no GPU."""

import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, gradients, interpret_module, make, qkv, torch  # noqa: E402

import tilewright  # noqa: E402
from tilewright import ops  # noqa: E402
from tilewright.torch import attention  # noqa: E402
from torch_reference import FEATURES, fill, packed_features, packed_reference, reference, replaced, slices_of  # noqa: E402

setUpModule = interpret_module


def dropped(p, queries, keys, seed, **options):
    """The dropout factors of a call with this seed, recovered from equal probabilities."""
    torch.manual_seed(seed)
    batch, heads = 2, 4
    zero, one = torch.zeros(batch, heads, queries, 8, dtype=torch.float64), torch.zeros(batch, 2, keys, 8, dtype=torch.float64)
    eye = torch.eye(keys, dtype=torch.float64).expand(batch, 2, -1, -1)
    return attention(zero, one, eye, dropout_p=p, **options) * keys


class AttentionTest(TorchTest):
    def test_features_and_their_gradients(self):
        for options in FEATURES:
            for deterministic in (False, True):
                with self.subTest(options, deterministic=deterministic):
                    options = dict(options)
                    rows, keys = options.pop("rows", 5), 9
                    inputs = qkv(rows=rows, keys=keys)
                    filled, learned = fill(options, make, 2, 4, rows, keys, torch.float64, "cpu")

                    def ours(q, k, v, *rest):
                        return attention(q, k, v, return_lse=True, deterministic=deterministic,
                                         **replaced(filled, learned, rest))

                    def wanted(q, k, v, *rest):
                        return reference(q, k, v, **replaced(filled, learned, rest))

                    self.assert_right(ours, wanted, (*inputs, *learned))

    def test_packed_features(self):
        starts_q, starts_k = [0, 3, 3, 7, 12], [0, 4, 6, 6, 15]  # one has no queries, one no keys
        for options in packed_features():
            for equal in (False, True):
                with self.subTest(options, equal=equal):
                    ends_k, longest_k = (starts_q, 5) if equal else (starts_k, 9)
                    inputs = (make(12, 4, 8), make(ends_k[-1], 2, 8, seed=2), make(ends_k[-1], 2, 6, seed=3))
                    filled, learned = fill(options, make, 4, 4, 5, longest_k, torch.float64, "cpu", (starts_q, ends_k))
                    where = {"cu_seqlens_q": torch.tensor(starts_q, dtype=torch.int32), "max_seqlen_q": 5}
                    if not equal:
                        where |= {"cu_seqlens_k": torch.tensor(starts_k, dtype=torch.int32), "max_seqlen_k": 9}

                    def ours(q, k, v, *rest):
                        return attention(q, k, v, return_lse=True, **where, **replaced(filled, learned, rest))

                    def wanted(q, k, v, *rest):
                        given = replaced(filled, learned, rest)
                        return packed_reference(q, k, v, starts_q, ends_k, slices_of(given), **given)

                    self.assert_right(ours, wanted, (*inputs, *learned))

    def test_masks_of_the_lowest_number(self):
        """Masks as transformers add them, also over whole rows, give what PyTorch gives."""
        inputs = qkv(heads=2, dtype=torch.float32, value_width=8)
        lowest = torch.finfo(torch.float32).min
        mask = torch.where(make(2, 1, 5, 9, seed=5) < 0, lowest, 0.0).float().detach()
        mask[:, :, 0], mask[:, :, 3] = 0, lowest
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # gradients of others lack the sum
            self.assert_right(lambda *x: attention(*x, attn_mask=mask),
                              lambda *x: torch.nn.functional.scaled_dot_product_attention(*x, attn_mask=mask), inputs)

    def test_lse_beside_a_large_maximum(self):
        """What docs/pytorch.md says of f32: LSE is off by up to half a unit in the last place, but the gradients, for which the
        backward sums such rows again, are right."""
        q, k, v, do = (make(1, 1, 64, 16, dtype=torch.float32, seed=seed) for seed in range(4))
        for large, unit in ((1e5, 2**-7), (1e6, 2**-4), (1e7, 1.0)):
            bias = torch.full((64, 64), -large)
            o, lse = attention(q, k, v, bias=bias, return_lse=True)
            dv, = torch.autograd.grad(o, [v], do)
            with torch.no_grad():
                scores = (q @ k.transpose(-1, -2) / 4 + bias).double()
                p = scores.softmax(-1)
                error = (lse - torch.logsumexp(scores, -1)).abs().max().item()
            self.assertLessEqual(error, unit / 2)
            self.assertGreater(error, unit / 8)  # there is a loss
            for got, wanted in (o, p @ v.double()), (dv, p.transpose(-1, -2) @ do.double()):
                self.assertLess(((got - wanted).norm() / wanted.norm()).item(), 1e-6)

    def test_the_scale_of_f64(self):
        inputs = qkv(width=24, value_width=24)
        for mine, wanted in zip(gradients(lambda *x: attention(*x, return_lse=True), inputs),
                                gradients(lambda *x: reference(*x), inputs)):
            self.assert_same(mine, wanted, rtol=1e-12, atol=1e-12)

    def test_rows_of_no_sequence(self):
        """Packed rows before the first sequence and after the last have no influence, and zero gradients, behind a linear
        layer too. tilewright-run fills results with NaN before it runs a kernel."""
        for starts in ([0, 5, 12], [4, 9, 12], [4, 9, 16], [7, 7]):
            for deterministic in (False, True):
                with self.subTest(starts, deterministic=deterministic):
                    x, weight = make(16, 10), make(10, 48, seed=2)
                    inside = slice(starts[0], starts[-1])
                    results = []
                    for rows, own in ((slice(None), inside), (inside, slice(None))):
                        q, k, v = (x[rows] @ weight).view(-1, 2, 24).split(8, 2)
                        cu = torch.tensor(starts, dtype=torch.int32) - (rows.start or 0)
                        o, lse = attention(q, k, v, cu_seqlens_q=cu, max_seqlen_q=7, return_lse=True,
                                           deterministic=deterministic)
                        loss = o.sin().sum() + lse[:, own].sum()
                        results.append((o, lse, *torch.autograd.grad(loss, (weight, q))))
                    (o, lse, *gradients), (few_o, few_lse, *few_gradients) = results
                    outside = torch.ones(16, dtype=torch.bool)
                    outside[inside] = False
                    self.assertTrue((o[outside] == 0).all() and (lse[:, outside] == -torch.inf).all())
                    self.assertTrue((gradients[1][outside] == 0).all())
                    self.assert_same((o[inside], lse[:, inside], gradients[0], gradients[1][inside]),
                                     (few_o, few_lse, *few_gradients), rtol=0, atol=1e-12)

    def test_what_unused_rows_hold(self):
        """NaN in unused rows of q and k does not affect a forward, nor do finite numbers affect a backward."""
        inputs = [x.detach() for x in qkv(rows=6, keys=9)]
        used = {"seqused_q": torch.tensor([4, 0], dtype=torch.int32), "seqused_k": torch.tensor([5, 9], dtype=torch.int32)}
        is_used = [torch.arange(x.shape[2])[:, None] < used[f"seqused_{of}"][:, None, None, None]
                   for x, of in zip(inputs, "qkk")]
        for options in ({}, {"causal": "bottom_right"}, {"softcap": 2.0, "sinks": make(4, dtype=torch.float32).detach()}):
            with self.subTest(options):
                expected = attention(*inputs, return_lse=True, **used, **options)
                self.assertTrue((expected[0].masked_select(~is_used[0]) == 0).all())
                wrong = [x.masked_fill(~of_x, torch.nan) for x, of_x in zip(inputs, is_used)]
                self.assert_same(attention(*wrong[:2], inputs[2], return_lse=True, **used, **options), expected, rtol=0, atol=0)
                grads = []
                for fill_with in (None, 1e3):
                    leaves = [x if fill_with is None else x.masked_fill(~of_x, fill_with) for x, of_x in zip(inputs, is_used)]
                    leaves = [x.clone().requires_grad_() for x in leaves]
                    grads.append(torch.autograd.grad(attention(*leaves, **used, **options).cos().sum(), leaves))
                self.assert_same(grads[1], grads[0], rtol=0, atol=0)
                for x, of_x in zip(grads[0], is_used):
                    self.assertTrue((x.masked_select(~of_x) == 0).all())

    def test_block_masks_of_flex_attention(self):
        """Full and partial blocks; the mask within partial blocks is given separately."""
        from torch.nn.attention.flex_attention import BlockMask, create_block_mask, noop_mask
        inputs = qkv(rows=24, keys=40)

        def causal(b, h, i, j):
            return i + 16 >= j

        made = create_block_mask(causal, None, None, 24, 40, device="cpu", BLOCK_SIZE=(4, 8))
        self.assertGreater(made.full_kv_num_blocks.sum(), 0)
        rebuilt = BlockMask.from_kv_blocks(made.kv_num_blocks, made.kv_indices, made.full_kv_num_blocks,
                                           made.full_kv_indices, BLOCK_SIZE=made.BLOCK_SIZE)
        self.assert_right(lambda *x: attention(*x, block_mask=rebuilt, causal="bottom_right", return_lse=True),
                          lambda *x: reference(*x, causal="bottom_right"), inputs)
        partial = (made.kv_num_blocks, made.kv_indices, (4, 8))
        self.assert_right(lambda *x: attention(*x, block_mask=partial, return_lse=True),
                          lambda *x: reference(*x, block_mask=partial), inputs)
        with self.assertRaisesRegex(ValueError, "block_mask must not have a mask_mod, which no kernel can apply, but got "
                                                "'causal'; set its mask_mod to torch.nn.attention.flex_attention.noop_mask"):
            attention(*inputs, block_mask=made)
        # A slice of `rebuilt`, which has no mask_mod, was told to be rebuilt without one.
        sliced = rebuilt[:, :, [0, 1]]
        upper = [inputs[0][:, :, :8], *inputs[1:]]
        if sliced.mask_mod is not noop_mask:  # it is in PyTorch 2.8
            with self.assertRaises(ValueError) as caught:
                attention(*upper, block_mask=sliced)
            self.assertEqual(str(caught.exception), "block_mask must not be a slice of a BlockMask as it is, whose mask_mod PyTorch "
                             "replaces by one that raises: its lists are right; set its mask_mod to "
                             "torch.nn.attention.flex_attention.noop_mask, and give the mask within blocks by causal, window, "
                             "attn_mask or modifier, where there is one")
        for mask in sliced, made:  # as the remedy says
            mask.mask_mod = noop_mask
        kept = torch.ones(8, 40, dtype=torch.bool).tril(16)
        self.assert_right(lambda *x: attention(*x, block_mask=sliced, attn_mask=kept, return_lse=True),
                          lambda *x: reference(*x, attn_mask=kept), upper)
        self.assert_right(lambda *x: attention(*x, block_mask=made, causal="bottom_right", return_lse=True),
                          lambda *x: reference(*x, causal="bottom_right"), inputs)

    def test_used_lengths_by_the_names_of_others(self):
        starts = torch.tensor([0, 4, 4, 9], dtype=torch.int32)
        used_q, used_k = (torch.tensor(x, dtype=torch.int32) for x in ([3, 0, 5], [2, 0, 4]))
        flat = [make(9, heads, 8, seed=heads) for heads in (4, 2, 2)]

        def ours(q, k, v):
            o, lse, _ = tilewright.flash_attn_varlen_func(q, k, v, starts, starts, 5, 5, causal=True, return_attn_probs=True,
                                                          seqused_q=used_q, seqused_k=used_k)
            return o, lse

        def wanted(q, k, v):
            given = {"seqused_q": used_q, "seqused_k": used_k, "causal": "bottom_right"}
            return packed_reference(q, k, v, starts, starts, slices_of(given), **given)

        self.assert_right(ours, wanted, flat)

    def test_arrays_side_by_side_by_the_names_of_others(self):
        """The functions for q, k and v in one array have results and gradients of those for three arrays."""
        qkv_one, kv_one, q_one = make(2, 9, 3, 4, 8, seed=1), make(2, 9, 2, 2, 8, seed=2), make(2, 9, 4, 8, seed=3)
        starts = torch.tensor([0, 4, 9, 18], dtype=torch.int32)
        options = {"causal": True, "window_size": (3, 0), "return_attn_probs": True}

        def check(packed, separate, *inputs):
            results = []
            for function in (packed, separate):
                leaves = [x.clone().requires_grad_() for x in inputs]
                o, lse, _ = function(*leaves)
                results.append((o, lse, *torch.autograd.grad(o.sin().sum() + lse.cos().sum(), leaves)))
            for got, wanted in zip(*results):
                self.assertTrue(torch.equal(got, wanted))
                self.assertGreater(got.abs().max().item(), 0)

        check(lambda x: tilewright.flash_attn_qkvpacked_func(x, **options),
              lambda x: tilewright.flash_attn_func(*x.unbind(2), **options), qkv_one)
        check(lambda q, x: tilewright.flash_attn_kvpacked_func(q, x, **options),
              lambda q, x: tilewright.flash_attn_func(q, *x.unbind(2), **options), q_one, kv_one)
        check(lambda x: tilewright.flash_attn_varlen_qkvpacked_func(x.flatten(0, 1), starts, 9, **options),
              lambda x: tilewright.flash_attn_varlen_func(*x.flatten(0, 1).unbind(1), starts, starts, 9, 9, **options), qkv_one)
        check(lambda q, x: tilewright.flash_attn_varlen_kvpacked_func(q.flatten(0, 1), x.flatten(0, 1), starts, starts, 9, 9,
                                                                      **options),
              lambda q, x: tilewright.flash_attn_varlen_func(q.flatten(0, 1), *x.flatten(0, 1).unbind(1), starts, starts, 9, 9,
                                                             **options), q_one, kv_one)
        for call, text in ((lambda: tilewright.flash_attn_qkvpacked_func(kv_one),
                            "qkv must have 5 dimensions, of which the third from the end is 3, but got shape [2, 9, 2, 2, 8]"),
                           (lambda: tilewright.flash_attn_varlen_kvpacked_func(q_one[0], kv_one, starts, starts, 9, 9),
                            "kv must have 4 dimensions, of which the third from the end is 2, but got shape [2, 9, 2, 2, 8]")):
            with self.assertRaises(ValueError) as caught:
                call()
            self.assertEqual(str(caught.exception), text)

    def test_used_lengths_that_are_the_same_have_the_mask_of_the_kernel(self):
        seen, plan, used = [], ops.plan, torch.tensor([3, 0], dtype=torch.int32)
        with mock.patch.object(ops, "plan", lambda choice, device: (seen.append(choice), plan(choice, device))[1]):
            attention(*qkv(keys=5), causal="bottom_right", seqused_q=used, seqused_k=used)
            attention(*qkv(keys=5), causal="bottom_right", seqused_q=used)
        self.assertEqual([(choice.causal, choice.modifier) for choice in seen],
                         [("top_left", "used_lengths"), ("none", os.pathsep.join(["used_lengths", "window_aligned"]))])

    def test_a_simulated_gpu(self):
        inputs, bias = qkv(width=16, value_width=16, dtype=torch.float32), make(4, 5, 9, dtype=torch.float32)
        kept, sinks = make(2, 1, 5, 9) > -1, make(4, dtype=torch.float32)

        def ours(q, k, v, bias, sinks):
            return attention(q, k, v, causal="bottom_right", softcap=2.0, bias=bias, attn_mask=kept, sinks=sinks)

        for device in ("sim:sm_80", "sim:sm_90a"):
            with self.subTest(device), tilewright.interpret(device):
                self.assert_right(ours, lambda q, k, v, bias, sinks: reference(
                    q, k, v, causal="bottom_right", softcap=2.0, bias=bias, attn_mask=kept, sinks=sinks)[0],
                    (*inputs, bias, sinks), rtol=1e-5, atol=1e-5)

    def test_dropout(self):
        inputs, bias, sinks = qkv(), make(4, 5, 9), make(4, dtype=torch.float32)
        cases = [{}, {"causal": True}, {"bias": bias, "sinks": sinks, "softcap": 2.0}]
        for options in cases:
            with self.subTest(options):
                factors = dropped(0.4, 5, 9, 7)
                kept = 1 - int(0.4 * 2**16) / 2**16  # probabilities are multiples of 2^-16
                self.assertEqual(sorted(set(factors.flatten().round(decimals=4).tolist())), [0.0, round(1 / kept, 4)])
                learned = [x for x in options.values() if isinstance(x, torch.Tensor)]

                def ours(q, k, v, *rest):
                    torch.manual_seed(7)
                    return attention(q, k, v, dropout_p=0.4, return_lse=True, **replaced(options, learned, rest))

                def wanted(q, k, v, *rest):
                    return reference(q, k, v, factors=factors, **replaced(options, learned, rest))

                self.assert_right(ours, wanted, (*inputs, *learned))

    def test_dropout_draws_from_a_generator(self):
        q, k, v = qkv(rows=30, keys=30)
        torch.manual_seed(3)
        first, second = (attention(q, k, v, dropout_p=0.5) for _ in range(2))
        self.assertFalse(torch.equal(first, second))
        torch.manual_seed(3)
        self.assertTrue(torch.equal(attention(q, k, v, dropout_p=0.5), first))
        own = torch.Generator().manual_seed(5)
        before = torch.get_rng_state()
        drawn = [attention(q, k, v, dropout_p=0.5, generator=own) for _ in range(2)]
        self.assertTrue(torch.equal(torch.get_rng_state(), before))
        again = torch.Generator().manual_seed(5)
        for x in drawn:
            self.assertTrue(torch.equal(attention(q, k, v, dropout_p=0.5, generator=again), x))
        share = (dropped(0.3, 40, 50, 9) == 0).double().mean()  # of 16,000 pairs: a deviation of 0.0036
        self.assertLess(abs(share - 0.3), 0.015)
        with torch.no_grad():
            self.assertTrue(torch.equal(attention(q, k, v, dropout_p=0.0), attention(q, k, v)))

    def test_packed_dropout(self):
        starts = torch.tensor([0, 4, 9], dtype=torch.int32)
        q, k, v = (make(9, 4, 8, seed=n) for n in range(3))

        def ours(q, k, v):
            torch.manual_seed(4)
            return attention(q, k, v, cu_seqlens_q=starts, max_seqlen_q=5, dropout_p=0.4)

        torch.manual_seed(4)
        eye = torch.cat([torch.eye(n, 8, dtype=torch.float64) for n in (4, 5)])[:, None].expand(-1, 4, -1)
        zero = torch.zeros(9, 4, 8, dtype=torch.float64)
        found = attention(zero, zero, eye, cu_seqlens_q=starts, max_seqlen_q=5, dropout_p=0.4).transpose(0, 1)
        factors = [found[None, :, a:b, :b - a] * (b - a) for a, b in ((0, 4), (4, 9))]

        def wanted(q, k, v):
            return packed_reference(q, k, v, [0, 4, 9], [0, 4, 9], lambda b, n: {"factors": factors[b]})[0]

        self.assert_right(ours, wanted, (q, k, v))

    def test_gradcheck(self):
        q, k, v = qkv(1, 2, 1, 3, 4, 4, 4)
        bias, sinks = make(2, 3, 4), torch.tensor([0.5, -1.0])
        table = {"relative_bias": make(2, 5, dtype=torch.float32).detach(), "relative_radius": 2}

        def everything(q, k, v, bias):
            torch.manual_seed(1)
            return attention(q, k, v, causal="bottom_right", softcap=1.5, bias=bias, alibi_slopes=sinks.abs(), sinks=sinks,
                             dropout_p=0.3, modifier="relative_bias", captures=table, return_lse=True)

        def packed(q, k, v):
            starts = torch.tensor([0, 1, 3], dtype=torch.int32)
            return attention(*(x[0].transpose(0, 1)[:3] for x in (q, k, v)), cu_seqlens_q=starts, max_seqlen_q=2,
                             causal=True, sinks=sinks, return_lse=True)

        check = torch.autograd.gradcheck
        self.assertTrue(check(lambda *x: attention(*x, causal=True, return_lse=True), (q, k, v)))
        self.assertTrue(check(lambda *x: attention(*x[:3], bias=x[3]), (q, k, v, bias), fast_mode=True))
        self.assertTrue(check(everything, (q, k, v, bias), fast_mode=True))
        self.assertTrue(check(packed, (q, k, v), fast_mode=True))

    def test_only_lse(self):
        q, k, v = qkv()
        _, lse = attention(q, k, v, return_lse=True)
        _, expected = reference(q, k, v)
        self.assert_same(torch.autograd.grad(lse.sum(), (q, k)), torch.autograd.grad(expected.sum(), (q, k)))

    def test_the_layout_of_results_is_that_of_queries(self):
        q, k, v = (make(2, 6, 4, 8, seed=seed) for seed in range(3))  # [batch, rows, heads, width]
        swapped = [x.transpose(1, 2) for x in (q, k, v)]
        o = attention(*swapped)
        self.assertTrue(o.transpose(1, 2).is_contiguous())
        self.assertTrue(attention(*(x.contiguous() for x in swapped)).is_contiguous())
        expected = reference(*swapped)[0]
        self.assert_same([o], [expected])
        got = torch.autograd.grad(o.sum(), (q, k, v))  # the gradient of a sum is an expanded tensor
        self.assert_same(got, torch.autograd.grad(expected.sum(), (q, k, v)))
        self.assertTrue(all(x.is_contiguous() for x in got))
        transposed = make(2, 4, 8, 6).mT  # rows that are not dense
        self.assert_same([attention(transposed, *swapped[1:])], [reference(transposed, *swapped[1:])[0]])

    def test_refuses_transforms(self):
        """Forward mode would give zero in silence."""
        q, k, v = (x.detach() for x in qkv())
        bias = make(5, 9).detach()

        def loss(x, **options):
            return attention(x, k, v, **options).sum()

        for transform in (lambda f, x: torch.func.jvp(f, (x,), (x,)), lambda f, x: torch.func.jacfwd(f)(x),
                          lambda f, x: torch.func.grad(f)(x), lambda f, x: torch.func.vmap(f)(x[None])):
            with self.assertRaisesRegex(NotImplementedError, "q must not be a tensor of vmap or another transform"):
                transform(loss, q)
            with self.assertRaisesRegex(NotImplementedError, "bias must not be a tensor of vmap or another transform"):
                transform(lambda x: loss(q, bias=x), bias)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(v, v)
            with self.assertRaisesRegex(NotImplementedError, "v must not be a tensor of forward-mode differentiation"):
                attention(q, k, dual)
            attention(q, k, v)  # no tangent

    def test_opcheck(self):
        q, k, v = qkv()
        starts = torch.tensor([0, 2, 5], dtype=torch.int32)
        flat = [make(5, heads, 8) for heads in (4, 2, 2)]
        for arguments in ((q, k, v, [], [0.0], [0], "", "top_left", -1, -1, 0.3, "", False),
                          (q.transpose(1, 2).contiguous().transpose(1, 2), k, v, [make(2, 1, 5, 9)], [0.0], [0], "bias", "none",
                           -1, -1, 0.3, "bias", False),
                          (q, k, v, [make(4, 7, dtype=torch.float32)], [2.0, 0.0], [3, 0],
                           "relative_bias,softcap,relative_radius", "none", 2, 2, 0.3,
                           os.pathsep.join(["softcap", "relative_bias"]), True),
                          (*flat, [starts, starts], [0.0], [0], "cu_seqlens_q,cu_seqlens_k",
                           "bottom_right", -1, -1, 0.3, "", False)):
            torch.library.opcheck(torch.ops.tilewright.attention.default, arguments)

    def test_a_second_derivative_is_rejected(self):
        q, k, v = qkv()
        (dq,) = torch.autograd.grad(attention(q, k, v).sin().sum(), q, create_graph=True)
        with self.assertRaisesRegex(NotImplementedError, "attention must not be differentiated twice"):
            torch.autograd.grad(dq.sum(), q)

    def test_autocast(self):
        q, k, v = qkv(dtype=torch.float32)
        bias, sinks = make(4, 5, 9, dtype=torch.float32), make(4, dtype=torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            o, lse = attention(q, k.bfloat16(), v, bias=bias, sinks=sinks, return_lse=True)
            exact = attention(*qkv())
        self.assertEqual((o.dtype, lse.dtype, exact.dtype), (torch.bfloat16, torch.float32, torch.float64))
        rounded = attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), bias=bias.bfloat16(), sinks=sinks)
        self.assertTrue(torch.equal(o, rounded))
        grads = torch.autograd.grad(o.sum(), (q, k, v, bias, sinks))
        self.assertEqual({x.dtype for x in grads}, {torch.float32})

    def test_types(self):
        for dtype, sums in ((torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float32, torch.float32)):
            inputs = qkv(dtype=dtype)
            bias = make(4, 5, 9, dtype=dtype)
            o, lse = attention(*inputs, bias=bias, return_lse=True)
            self.assertEqual((o.dtype, lse.dtype), (dtype, sums))
            grads = torch.autograd.grad(o.sum(), (*inputs, bias))
            self.assertEqual({x.dtype for x in grads}, {dtype})
            exact = reference(*(x.double() for x in inputs), bias=bias.double())[0]
            unit = torch.finfo(dtype).eps
            self.assert_same([o.double()], [exact], rtol=8 * unit, atol=8 * unit)

    def test_meta_tensors(self):
        q, k, v = (x.to("meta") for x in qkv())
        o, lse = attention(q, k, v, dropout_p=0.1, return_lse=True)
        self.assertEqual((o.shape, lse.shape, o.device.type), ((2, 4, 5, 6), (2, 4, 5), "meta"))

    def test_zero_sizes(self):
        for shape in (dict(batch=0), dict(rows=0), dict(keys=0), dict(heads=0, kv_heads=0)):
            with self.subTest(shape):
                outputs, grads = gradients(attention, qkv(**shape))
                for x in (*outputs, *grads):
                    self.assertTrue((x == 0).all())

    def test_training(self):
        torch.manual_seed(1)
        project = torch.nn.Linear(16, 48, dtype=torch.float64)
        sinks = torch.nn.Parameter(torch.zeros(2))
        x, target = torch.randn(2, 10, 16, dtype=torch.float64), torch.randn(2, 10, 16, dtype=torch.float64)
        optimizer = torch.optim.Adam([*project.parameters(), sinks], 0.02)
        losses = []
        for _ in range(20):
            q, k, v = project(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            o = attention(q, k, v, causal=True, sinks=sinks)
            loss = (o.transpose(1, 2).flatten(2) - target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.95 * losses[0])
        self.assertTrue((sinks != 0).all())

    def test_deterministic_by_default_where_pytorch_is(self):
        seen, plan = [], ops.plan

        def watch(choice, device):
            seen.append((choice.kernel, choice.deterministic))
            return plan(choice, device)

        with mock.patch.object(ops, "plan", watch):
            for mode, option, expected in ((False, None, False), (True, None, True), (True, False, False),
                                           (False, True, True)):
                torch.use_deterministic_algorithms(mode)
                self.addCleanup(torch.use_deterministic_algorithms, False)
                seen.clear()
                attention(*qkv(), deterministic=option).sum().backward()
                self.assertEqual(seen[-1], ("backward", expected))

    def test_the_gradient_of_a_bias_that_is_shared_is_that_of_the_scores(self):
        seen, plan, inputs = [], ops.plan, qkv()
        sinks, pairs = make(4, dtype=torch.float32), (2, 4, 5, 9)
        with mock.patch.object(ops, "plan", lambda choice, device: (seen.append(choice), plan(choice, device))[1]):
            for bias, options, of_scores, captured in (
                    (make(5, 9), {}, True, False), (make(5, 9), {"window": (2, 2)}, True, False),
                    (make(5, 9), {"sinks": sinks}, True, True), (make(*pairs), {"deterministic": True}, True, False),
                    (make(*pairs), {}, False, True), (make(5, 1), {}, False, True),
                    (make(5, 9), {"softcap": 2.0}, False, True), (make(5, 9).detach(), {}, False, False)):
                seen.clear()
                learned = [x for x in (*inputs, bias, options.get("sinks")) if x is not None and x.requires_grad]
                found = torch.autograd.grad(attention(*inputs, bias=bias, **options).sum(), learned)
                self.assertEqual([choice.kernel for choice in seen], ["forward", "backward"])
                self.assertEqual((seen[1].score_gradient, seen[1].captured), (of_scores, captured))
                if bias.requires_grad:  # the other method gives the same gradients
                    with mock.patch.object(ops, "takes_score_gradient", lambda *_: False):
                        other = torch.autograd.grad(attention(*inputs, bias=bias, **options).sum(), learned)
                    self.assert_same(found, other)


if __name__ == "__main__":
    unittest.main()
