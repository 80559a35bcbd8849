# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention under torch.compile and activation checkpointing, and the errors of both. Runs on the interpreter: needs
PyTorch and tilewright-run, but no GPU."""

import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, gradients, interpret_module, make, qkv, torch  # noqa: E402

import torch.nn.functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import tilewright  # noqa: E402
from tilewright import interpreter, ops, plans  # noqa: E402
from tilewright.torch import attention  # noqa: E402

setUpModule = interpret_module


def compiled(call, **options):
    torch.compiler.reset()
    return torch.compile(call, fullgraph=True, backend=options.pop("backend", "aot_eager"), **options)


class CompileTest(TorchTest):
    def assert_compiles(self, call, all_inputs, dynamic):
        """Asserts that compiled code gives the same bits, in one graph."""
        code = compiled(call, dynamic=dynamic)
        for inputs in all_inputs:
            for got, expected in zip(gradients(code, inputs), gradients(call, inputs)):
                self.assert_same(got, expected, rtol=0, atol=0)

    def test_features(self):
        def block(q, k, v, bias, sinks, slopes):
            o, lse = attention(q * 2, k, v, causal="bottom_right", window=(4, -1), softcap=3.0, bias=bias, sinks=sinks,
                               alibi_slopes=slopes, attn_mask=bias.detach()[None] > -1, return_lse=True)
            return o + 1, lse

        for dynamic in (False, True):
            with self.subTest(dynamic=dynamic):
                self.assert_compiles(block, [(*qkv(rows=rows), make(4, rows, 9), make(4, dtype=torch.float32),
                                              make(2, 4, dtype=torch.float32)) for rows in (5, 6, 7)], dynamic)

    def test_packed(self):
        def block(q, k, v, starts, longest):
            return attention(q, k, v, cu_seqlens_q=starts, max_seqlen_q=longest, causal=True, return_lse=True)

        code = compiled(block, dynamic=True)
        for ends in ([2, 5], [3, 4], [0, 9]):
            starts = torch.tensor([0, *ends], dtype=torch.int32)
            inputs = [make(ends[-1], heads, 8, seed=heads) for heads in (4, 2, 2)]
            more = starts, max(ends[0], ends[1] - ends[0])
            for got, expected in zip(gradients(lambda *x: code(*x, *more), inputs),
                                     gradients(lambda *x: block(*x, *more), inputs)):
                self.assert_same(got, expected, rtol=0, atol=0)

    def test_used_lengths(self):
        def block(q, k, v, used):
            return attention(q, k, v, seqused_k=used, causal="bottom_right", return_lse=True)

        code = compiled(block, dynamic=True)
        for rows, used in ((5, [9, 2]), (6, [0, 7])):
            inputs, used = qkv(rows=rows), torch.tensor(used, dtype=torch.int32)
            for got, expected in zip(gradients(lambda *x: code(*x, used), inputs), gradients(lambda *x: block(*x, used), inputs)):
                self.assert_same(got, expected, rtol=0, atol=0)

    def test_other_shapes_do_not_compile_kernels(self):
        def block(q, k, v, bias):
            return attention(q, k, v, bias=bias, causal=True)

        code, plans = compiled(block, dynamic=True), set()
        plan = ops.plan
        with mock.patch.object(ops, "plan", lambda choice, device: (plans.add(choice), plan(choice, device))[1]):
            for rows in (3, 5, 6):
                for batch in (2, 3):
                    inputs = (*qkv(batch=batch, rows=rows), make(rows, 9))
                    torch.autograd.grad(code(*inputs).sum(), inputs)
        self.assertEqual(sorted(choice.kernel for choice in plans), ["backward", "forward"])

    def test_numbers(self):
        def capped(q, k, v, cap, scale):
            return attention(q, k, v, scale=scale, modifier="softcap", captures={"softcap": cap})

        code, (q, k, v) = compiled(capped, dynamic=True), qkv()
        for cap, scale in ((2.0, 0.5), (3.5, 0.25)):
            self.assert_same([code(q, k, v, cap, scale)], [attention(q, k, v, scale=scale, softcap=cap)], rtol=0, atol=0)

    def test_dropout(self):
        def block(q, k, v):
            return attention(q, k, v, dropout_p=0.5)

        code, inputs = compiled(block), qkv(rows=20, keys=20)
        torch.manual_seed(4)
        first, second = code(*inputs), code(*inputs)
        self.assertFalse(torch.equal(first, second))
        torch.manual_seed(4)
        for x in (first, second):
            self.assertTrue(torch.equal(block(*inputs), x))
        torch.manual_seed(4)
        got = torch.autograd.grad(first.sum(), inputs)
        torch.manual_seed(4)
        self.assert_same(got, torch.autograd.grad(block(*inputs).sum(), inputs), rtol=0, atol=0)

    def test_autocast(self):
        def block(q, k, v):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return attention(q, k, v)

        self.assertEqual(block(*qkv(dtype=torch.float32)).dtype, torch.bfloat16)
        self.assert_compiles(block, [qkv(dtype=torch.float32)], False)

    def test_the_switch(self):
        def block(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        code, inputs, launch, count = compiled(block), qkv(kv_heads=4), ops.launch, []
        plain = code(*inputs)
        with mock.patch.object(ops, "launch", lambda *x: (count.append(1), launch(*x))[1]):
            with tilewright.use_for_sdpa():
                ours = code(*inputs)
            self.assertEqual(len(count), 1)
            again = code(*inputs)
            self.assertEqual(len(count), 1)
        self.assert_same([ours, again], [plain, plain])

        def other(q):
            return F.scaled_dot_product_attention(q, q, q, dropout_p=1.0)

        with tilewright.use_for_sdpa():
            self.assertTrue((compiled(other)(inputs[0]) == 0).all())

    def test_names_of_others(self):
        def flash(q, k, v):
            return tilewright.flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=True, window_size=(4, 0))

        def sdpa(q, k, v, mask):
            return tilewright.sdpa_compatible(q, k, v, attn_mask=mask, enable_gqa=True)

        inputs = [qkv(rows=rows) for rows in (5, 6)]
        self.assert_compiles(flash, inputs, True)
        self.assert_compiles(sdpa, [(*x, make(x[0].shape[2], 9)) for x in inputs], True)

    def test_checkpointing(self):
        inputs, bias = qkv(), make(4, 5, 9)

        def block(q, k, v, bias):
            return attention(q.sin(), k, v, bias=bias, dropout_p=0.4, causal=True)

        torch.manual_seed(6)
        expected = torch.autograd.grad(block(*inputs, bias).sum(), (*inputs, bias))
        calls = []
        for reentrant in (True, False):
            with self.subTest(reentrant=reentrant), mock.patch.object(
                    ops, "launch", lambda *x, launch=ops.launch: (calls.append(1), launch(*x))[1]):
                torch.manual_seed(6)
                leaves = [x.detach().requires_grad_() for x in (*inputs, bias)]
                o = checkpoint(block, *leaves, use_reentrant=reentrant)
                calls.clear()
                o.sum().backward()
                self.assertEqual(len(calls), 2)  # the forward again, and the backward
                self.assert_same([x.grad for x in leaves], expected, rtol=0, atol=0)

        def inside(*x):
            return checkpoint(block, *x, use_reentrant=False)

        torch.manual_seed(6)
        got = torch.autograd.grad(compiled(inside)(*inputs, bias).sum(), (*inputs, bias))
        self.assert_same(got, expected, rtol=0, atol=0)

    def test_by_name(self):
        self.assertIn("attention", dir(tilewright))
        self.assertIs(tilewright.attention, attention)
        with self.assertRaisesRegex(AttributeError, "module 'tilewright' has no attribute 'atention'"):
            tilewright.atention
        q, k, v = qkv()
        self.assert_same([compiled(lambda *x: tilewright.attention(*x))(q, k, v)], [attention(q, k, v)], rtol=0, atol=0)


class RejectionTest(unittest.TestCase):
    def expect(self, message, error=ValueError, inputs=None, **options):
        with self.assertRaises(error) as caught:
            attention(*(inputs or qkv()), **options)
        self.assertIn(message, str(caught.exception))

    def test_arguments(self):
        q, k, v = qkv()
        self.expect("q must be a tensor, but got list", inputs=([1], k, v))
        self.expect("k must have the type of q, f64, but got f32; convert it with .to()", inputs=(q, k.float(), v))
        self.expect("q must have the four dimensions [batch, heads, rows, width], but got shape [4, 5, 8]; packed sequences "
                    "have cu_seqlens_q", inputs=(q[0], k, v))
        self.expect("captures must belong to a modifier, but got softcap without one", captures={"softcap": 1.0})
        self.expect("capture 'table' must be a tensor or a number, but got str", modifier="relative_bias",
                    captures={"table": "30"})
        for wrong in (1.0, -0.1, 1, True, "0.1", None):
            self.expect(f"dropout_p must be a number from 0 to less than 1, but got {wrong!r}", dropout_p=wrong)
        for wrong in (-1.0, True, "3", float("nan"), float("inf"), 1.1e18):
            self.expect(f"softcap must be positive and at most 1e18, or None or 0 for none, but got {wrong!r}", softcap=wrong)
        self.expect("align must be one of top_left, bottom_right, and match causal unless that is none, but got 'top_left' "
                    "with causal bottom_right", causal="bottom_right", align="top_left")
        self.expect("align must be one of top_left, bottom_right", align="middle")

    def test_tensors(self):
        self.expect("bias must have the type of q, torch.float64, but got torch.float32; convert it with .to()",
                    bias=torch.zeros(5, 9))
        self.expect("bias must have extents of [2, 4, 5, 9] or 1, but got shape [1, 3, 5, 9]",
                    bias=torch.zeros(3, 5, 9, dtype=torch.float64))
        self.expect("bias must be a tensor, but got int", bias=3)
        self.expect("attn_mask must have at most the four dimensions", attn_mask=torch.zeros(1, 1, 1, 1, 9) > 0)
        self.expect("attn_mask must be of bool where there is a bias, but got a tensor of torch.float64 and shape [5, 9]; add the "
                    "two",
                    bias=make(5, 9), attn_mask=make(5, 9))
        self.expect("attn_mask must be on the device of q, cpu, but got meta; move it with .to()",
                    attn_mask=torch.zeros(5, 9, device="meta") > 0)
        self.expect("sinks must have shape [4], but got [2]", sinks=torch.zeros(2))
        self.expect("sinks must be a tensor of floats, one for each head, but got a tensor of torch.int64",
                    sinks=torch.zeros(4, dtype=torch.int64))
        self.expect("alibi_slopes must have shape [4] or [2, 4], but got [3, 4]", alibi_slopes=torch.zeros(3, 4))
        self.expect("generator must be on the device of q, cpu, but got meta", dropout_p=0.1,
                    generator=mock.Mock(spec=torch.Generator, device=torch.device("meta")))
        self.expect("generator must be a torch.Generator, but got 3", dropout_p=0.1, generator=3)

    def test_numbers(self):
        """Tensors with dimensions, or with a gradient, are no numbers."""
        self.expect("window must be two integers (left, right), each the number of keys that a query sees on that side, or -1 for "
                    "all of them, but got a tensor of torch.int64 and shape [3]", window=torch.tensor([1, 2, 3]))
        self.expect("but got a tensor of torch.float32 and shape [2]", window=torch.tensor([1.0, 2.0]))
        self.expect("scale must be a finite number of f32, or None for 1 / sqrt(D), but got a tensor of torch.float32 and shape [], "
                    "which requires a gradient; a factor that has a gradient, or differs between rows or heads, belongs into q",
                    scale=torch.tensor(0.5, requires_grad=True))
        self.expect("scale must be a finite number of f32, or None for 1 / sqrt(D), but got a tensor of torch.float64 and shape [4]",
                    scale=make(4))
        self.expect("scale must be a finite number of f32", scale=torch.tensor(0.5, device="meta"))
        self.expect("softcap must be positive and at most 1e18, or None or 0 for none, but got a tensor of torch.float64 and shape "
                    "[1]", softcap=make(1))
        self.expect("dropout_p must be a number from 0 to less than 1, but got a tensor of torch.bool and shape []",
                    dropout_p=torch.tensor(True))
        self.expect("causal must be True, False or one of none, top_left, bottom_right, but got a tensor of torch.bool and shape [2]",
                    causal=torch.tensor([True, False]))
        for name, wrong, shown in (("width", 513, "513"), ("width", True, "True"), ("value_width", "64", "'64'")):
            with self.assertRaisesRegex(ValueError, f"{name} must be a number from 1 to 512, but got {shown}"):
                tilewright.prepare("cuda", torch.float16, **{"width": 64, name: wrong})

    def test_tensors_that_are_not_dense(self):
        """They were internal errors of PyTorch: "NestedTensorImpl doesn't support sizes. Please file an issue"."""
        q, k, v = qkv()
        rows = [make(3, 4, 8), make(5, 4, 8)]
        nested = "{} must be a dense tensor, but got a nested one; pass values() and, as cu_seqlens, offsets() of one of the layout " \
                 "torch.jagged as packed sequences"
        for layout in (torch.strided, torch.jagged):
            x = torch.nested.nested_tensor(rows, layout=layout)
            self.expect(nested.format("q"), inputs=(x, k, v))
            self.expect(nested.format("v"), inputs=(q, k, x))
            self.expect(nested.format("bias"), bias=x)
        sparse = "{} must be a dense tensor, but got torch.sparse_coo; convert it with .to_dense()"
        self.expect(sparse.format("k"), inputs=(q, k.to_sparse(), v))
        self.expect(sparse.format("bias"), bias=make(5, 9).to_sparse())
        self.expect(sparse.format("attn_mask"), attn_mask=(make(5, 9) > 0).to_sparse())
        self.expect(sparse.format("sinks"), sinks=make(4).to_sparse())
        self.expect(sparse.format("alibi_slopes"), alibi_slopes=make(4).to_sparse())
        self.expect(sparse.format("seqused_q"), seqused_q=torch.ones(2, dtype=torch.int32).to_sparse())
        self.expect(sparse.format("capture 'prefix_length'"), modifier="prefix_lm",
                    captures={"prefix_length": torch.ones(2, dtype=torch.int32).to_sparse()})
        self.expect("q must be a dense tensor, but got torch._mkldnn; convert it with .to_dense()",
                    inputs=(q.float().to_mkldnn(), k.float(), v.float()))
        # What the remedy says.
        jagged = [torch.nested.nested_tensor(rows, layout=torch.jagged) for _ in range(3)]
        starts = jagged[0].offsets().int()
        o = attention(*(x.values() for x in jagged), cu_seqlens_q=starts, max_seqlen_q=5)
        alone = torch.cat([attention(*[x.transpose(0, 1)[None]] * 3)[0].transpose(0, 1) for x in rows])
        torch.testing.assert_close(o, alone)

    def test_used_lengths(self):
        self.expect("seqused_q must be a tensor [2] of int32 on cpu, but got torch.int64 [2] on cpu; convert it with .to()",
                    seqused_q=torch.tensor([1, 2]))
        self.expect("seqused_k must be a tensor [2] of int32 on cpu, but got torch.int32 [3] on cpu",
                    seqused_k=torch.zeros(3, dtype=torch.int32))
        self.expect("seqused_q must be a tensor [2] of int32 on cpu, but got [1, 2]", seqused_q=[1, 2])
        self.expect("seqused_k must be a tensor [2] of int32 on cpu, but got torch.int32 [2] on meta; convert it with .to()",
                    seqused_k=torch.zeros(2, dtype=torch.int32, device="meta"))
        self.expect("seqused_q must be a tensor [2] of int32 on cpu, but got torch.int32 [3] on cpu",
                    inputs=[make(5, heads, 8) for heads in (4, 2, 2)],
                    cu_seqlens_q=torch.tensor([0, 2, 5], dtype=torch.int32), max_seqlen_q=3,
                    seqused_q=torch.zeros(3, dtype=torch.int32))
        self.expect("modifier must not name 'used_lengths', which an argument of attention links already",
                    seqused_q=torch.zeros(2, dtype=torch.int32), modifier="used_lengths")

    def test_block_masks(self):
        counts, indices = torch.ones(1, 1, 2, dtype=torch.int32), torch.zeros(1, 1, 2, 3, dtype=torch.int32)
        self.expect("block_mask must be a BlockMask of FlexAttention, or (kv_num_blocks, kv_indices), or (kv_num_blocks, "
                    "kv_indices, block size), but got 3", block_mask=3)
        for wrong in (0, (4, 2, 1), (4, 0), True, "4"):
            self.expect("block_mask must have blocks of a positive number of queries and keys, an int or a pair of them, but "
                        f"got {wrong!r}", block_mask=(counts, indices, wrong))
        self.expect("kv_num_blocks of block_mask must be a tensor [batch, heads, blocks of queries] of int32 on cpu, but got "
                    "torch.int64 [1, 1, 2] on cpu; convert it with .to()", block_mask=(counts.long(), indices, 4))
        self.expect("kv_indices of block_mask must be a tensor [batch, heads, blocks of queries, blocks of keys] of int32 on cpu, "
                    "but got [0]", block_mask=(counts, [0], 4))
        self.expect("of int32 on cpu, but got torch.int32 [1, 1, 2, 3] on meta; convert it with .to()",
                    block_mask=(counts, indices.to("meta"), 4))
        self.expect("kv_num_blocks of block_mask must have extents of [2, 4, 1], or 1 for batches and heads, with blocks of "
                    "128 queries, but got shape [1, 1, 2]", block_mask=(counts, indices))
        self.expect("with blocks of 4 queries, but got shape [1, 3, 2]",
                    block_mask=(counts.expand(1, 3, 2), indices.expand(1, 3, 2, 3), 4))
        self.expect("kv_indices of block_mask must have the shape of kv_num_blocks and a dimension more, but got [1, 1, 1, 3] "
                    "and [1, 1, 2]", block_mask=(counts, indices[:, :, :1], 4))

    def test_modifiers(self):
        self.expect("modifier must not name 'softcap', which an argument of attention links already", softcap=2.0,
                    modifier="softcap")
        self.expect("captures must not hold 'bias', which an argument of attention gives already", bias=make(5, 9),
                    modifier="relative_bias", captures={"bias": make(5, 9)})
        self.expect("modifier must be one of alibi, alibi_aligned, bias,", modifier="tanh")
        # The remedy was that of the tool: "give it with --in prefix_length=..."; 'b' suggested 'q'.
        table = {"relative_bias": make(4, 9).float()}
        self.expect("capture 'relative_radius' is missing; it is a scalar of type i32; give it in captures", modifier="relative_bias",
                    captures=table)
        self.expect("capture 'prefix_length' is missing; it is a view [?] of i32; give it in captures", modifier="prefix_lm")
        self.expect("there is no argument 'b'; the arguments are: q, k, v, o, lse,", modifier="relative_bias",
                    captures=table | {"relative_radius": 4, "b": 3})
        self.expect("there is no argument 'relativ_radius'; did you mean 'relative_radius'?", modifier="relative_bias",
                    captures=table | {"relativ_radius": 4})
        self.expect("captures must be a dict of values by name, but got list", modifier="prefix_lm", captures=[3])

    def test_packed(self):
        starts = torch.tensor([0, 2, 5], dtype=torch.int32)
        flat = [make(5, heads, 8) for heads in (4, 2, 2)]

        def rejects(message, **options):
            self.expect(message, inputs=flat, **({"cu_seqlens_q": starts, "max_seqlen_q": 3} | options))

        self.expect("cu_seqlens_q must be given with cu_seqlens_k, max_seqlen_k", cu_seqlens_k=starts, max_seqlen_k=3)
        rejects("cu_seqlens_q must be a tensor [sequences + 1] of int32 on cpu, but got torch.int64 [3] on cpu; convert it with "
                ".to()", cu_seqlens_q=starts.long())
        rejects("cu_seqlens_q must be a tensor [sequences + 1] of int32 on cpu, but got [0, 5]", cu_seqlens_q=[0, 5])
        rejects("cu_seqlens_q must be a tensor [sequences + 1] of int32 on cpu, but got torch.int32 [1, 3] on cpu",
                cu_seqlens_q=starts[None])
        rejects("cu_seqlens_q must be a dense tensor, but got torch.sparse_coo; convert it with .to_dense()",
                cu_seqlens_q=starts.to_sparse())
        for wrong, shown in ((torch.tensor([3]), "a tensor of torch.int64 and shape [1]"), (3.0, "3.0"), (True, "True"),
                             (torch.tensor(3.0), "a tensor of torch.float32 and shape []")):
            rejects(f"max_seqlen_q must be an integer, the length of the longest sequence or more, but got {shown}",
                    max_seqlen_q=wrong)
        rejects("cu_seqlens_q and cu_seqlens_k must have one element more than there are sequences, but got 3 and 2",
                cu_seqlens_k=starts[:2], max_seqlen_k=3)
        rejects("max_seqlen_q must be an integer, the length of the longest sequence or more, but got None",
                max_seqlen_q=None)
        rejects("max_seqlen_k must be an integer", cu_seqlens_k=starts.clone())
        self.expect("q must have the three dimensions [rows, heads, width], but got shape [2, 4, 5, 8]", cu_seqlens_q=starts,
                    max_seqlen_q=3)
        rejects("cu_seqlens_q[2] = 1 after 2", cu_seqlens_q=torch.tensor([0, 2, 1], dtype=torch.int32))

    def test_the_cpu_is_rejected_unless_it_is_asked_for(self):
        with interpreter.interpret(None):
            self.expect("q must be on a CUDA device, but got cpu; move it with .cuda(), or see tilewright.interpret")
        o = attention(*qkv())
        with interpreter.interpret(None), self.assertRaisesRegex(ValueError, "also in the backward, but got cpu"):
            o.sum().backward()
        with self.assertRaisesRegex(ValueError, "device must be 'cpu', 'sim:' and a target, or None, but got 'gpu'"):
            tilewright.interpret("gpu")
        with self.assertRaisesRegex(ValueError, "device must be a CUDA device, but got cpu"):
            tilewright.prepare("cpu", torch.float16, 64)

    def test_says_where_the_tool_is_missing(self):
        with mock.patch.dict(os.environ, {"TILEWRIGHT_RUN": "nowhere/run"}), mock.patch.object(plans._code, "plans", {}):
            self.expect("there is no tilewright-run (nowhere/run: No such file or directory); set TILEWRIGHT_RUN",
                        error=RuntimeError)


if __name__ == "__main__":
    unittest.main()
