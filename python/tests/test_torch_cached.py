# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several queries of each sequence over a cache, by flash_attn's functions, against the formulas. Runs on the interpreter:
needs PyTorch and tilewright-run, but no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, interpret_module, torch  # noqa: E402
from torch_reference import reference  # noqa: E402

import tilewright  # noqa: E402

setUpModule = interpret_module
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}  # scale and some captures are f32


def normal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


def paged(sequences, rows, heads_outside=False):
    """The rows of each sequence, [keys, Hkv, D], in pages in random order, and the table. Rows that no sequence has are
    NaN."""
    columns = max(-(-len(x) // rows) for x in sequences) + 1
    order = torch.randperm(len(sequences) * columns, generator=torch.Generator().manual_seed(5))
    table = order.view(len(sequences), columns)
    shape = (len(order), rows, *sequences[0].shape[1:])
    pool = torch.full(shape, torch.nan, dtype=sequences[0].dtype)
    if heads_outside:
        pool = pool.transpose(1, 2).contiguous().transpose(1, 2)
    for b, x in enumerate(sequences):
        for j, row in enumerate(x):
            pool[table[b, j // rows], j % rows] = row
    return pool, table.int()


class CachedTest(TorchTest):
    """Packed queries of four sequences, of which one has no queries and one no keys."""

    def setUp(self):
        self.queries, self.lengths = [5, 0, 3, 9], [33, 20, 0, 41]
        self.q = normal(17, 6, 16)
        self.k = [normal(n, 2, 16, seed=2 + b) for b, n in enumerate(self.lengths)]
        self.v = [normal(n, 2, 24, seed=12 + b) for b, n in enumerate(self.lengths)]
        self.starts_q, self.starts_k = int32(0, 5, 5, 8, 17), int32(0, 33, 53, 53, 94)

    def expected(self, causal=False, window_size=None, alibi_slopes=None, softmax_scale=None, softcap=0.0, seqused_q=None):
        parts = []
        for b, q in enumerate(self.q.split(self.queries)):
            slopes = alibi_slopes[b] if alibi_slopes is not None and alibi_slopes.dim() == 2 else alibi_slopes
            parts.append(reference(*(x.transpose(0, 1)[None] for x in (q, self.k[b], self.v[b])), window=window_size,
                                   causal="bottom_right" if causal else False, align="bottom_right", scale=softmax_scale,
                                   softcap=softcap, alibi_slopes=slopes,
                                   seqused_q=None if seqused_q is None else seqused_q[b:b + 1]))
        return torch.cat([o[0].transpose(0, 1) for o, _ in parts]), torch.cat([lse[0] for _, lse in parts], 1)

    def varlen(self, rows=16, heads_outside=False, **options):
        k, table = paged(self.k, rows, heads_outside)
        v, _ = paged(self.v, rows)
        o, lse, nothing = tilewright.flash_attn_varlen_func(self.q, k, v, self.starts_q, self.starts_k, 9, 41,
                                                            block_table=table, return_attn_probs=True, **options)
        self.assertIsNone(nothing)
        return o, lse

    def test_pages(self):
        for rows in (1, 7, 16, 64):
            with self.subTest(rows):
                self.assert_same(self.varlen(rows, rows == 16, causal=True), self.expected(causal=True), **TOLERANCE)

    def test_mixed_batches(self):
        """Sequences with one new query, and with a chunk of many, in one call: each has the bits that it has alone, and those
        with one query have the results of a decode."""
        self.queries, self.lengths = [1, 40, 0, 1, 3, 1], [33, 57, 20, 1, 3, 0]
        self.q = normal(46, 6, 16)
        self.k = [normal(n, 2, 16, seed=2 + b) for b, n in enumerate(self.lengths)]
        self.v = [normal(n, 2, 24, seed=12 + b) for b, n in enumerate(self.lengths)]
        starts = [0]
        for n in self.queries:
            starts.append(starts[-1] + n)
        k, table = paged(self.k, 16)
        v, _ = paged(self.v, 16)
        lengths = int32(*self.lengths)
        options = {"causal": True, "block_table": table, "seqused_k": lengths, "return_attn_probs": True}
        o, lse, _ = tilewright.flash_attn_varlen_func(self.q, k, v, int32(*starts), None, 40, 57, **options)
        self.assert_same((o, lse), self.expected(causal=True), **TOLERANCE)
        for b, n in enumerate(self.queries):
            own = slice(starts[b], starts[b + 1])
            options |= {"block_table": table[b:b + 1], "seqused_k": lengths[b:b + 1]}
            alone = tilewright.flash_attn_varlen_func(self.q[own], k, v, int32(0, n), None, n, 57, **options)
            self.assertTrue(torch.equal(alone[0], o[own]) and torch.equal(alone[1], lse[:, own]), b)
            if n == 1:
                decoded = tilewright.flash_attn_with_kvcache(self.q[own][None], k, v, cache_seqlens=lengths[b:b + 1],
                                                             block_table=table[b:b + 1], causal=True)
                torch.testing.assert_close(decoded[0], o[own], **TOLERANCE)

    def test_features(self):
        slopes = torch.tensor([0.5, 0.25, 0.125, 1.0, 0.0625, 2.0])
        for options in ({}, {"softmax_scale": 0.5, "softcap": 2.0}, {"window_size": (7, 2)},
                        {"causal": True, "window_size": (11, 0), "softcap": 5.0}, {"causal": True, "alibi_slopes": slopes},
                        {"alibi_slopes": torch.stack([slopes * b for b in range(1, 5)]), "window_size": (-1, 3)},
                        {"causal": True, "seqused_q": int32(4, 0, 3, 6)}):
            with self.subTest(options):
                self.assert_same(self.varlen(**options), self.expected(**options), **TOLERANCE)

    def test_same_as_rows_in_one_piece(self):
        """Dropout too: a seed drops the same pairs."""
        for options in ({"causal": True}, {"dropout_p": 0.25, "causal": True}):
            torch.manual_seed(3)
            k, table = paged(self.k, 16)
            v, _ = paged(self.v, 16)
            got = tilewright.flash_attn_varlen_func(self.q, k, v, self.starts_q, self.starts_k, 9, 41, block_table=table,
                                                    **options)
            torch.manual_seed(3)
            expected = tilewright.flash_attn_varlen_func(self.q, torch.cat(self.k), torch.cat(self.v), self.starts_q,
                                                         self.starts_k, 9, 41, **options)
            self.assertTrue(torch.equal(got, expected), options)

    def test_used_lengths_of_keys(self):
        k, table = paged(self.k, 16)
        v, _ = paged(self.v, 16)
        lengths = int32(20, 20, 0, 39)
        for b, n in enumerate(lengths.tolist()):
            self.k[b], self.v[b] = self.k[b][:n], self.v[b][:n]
        for starts in (None, self.starts_k):
            got = tilewright.flash_attn_varlen_func(self.q, k, v, self.starts_q, starts, 9, 41, block_table=table, causal=True,
                                                    seqused_k=lengths, return_attn_probs=True)
            self.assert_same(got[:2], self.expected(causal=True), **TOLERANCE)

    def test_rows_of_no_sequence(self):
        k, table = paged(self.k[:1], 16)
        v, _ = paged(self.v[:1], 16)
        o, lse, _ = tilewright.flash_attn_varlen_func(self.q, k, v, int32(2, 7), int32(0, 33), 5, 33, block_table=table,
                                                      return_attn_probs=True)
        self.assertFalse(o[:2].any() or o[7:].any() or o.isnan().any())
        self.assertTrue(lse[:, :2].isneginf().all() and lse[:, 7:].isneginf().all() and lse[:, 2:7].isfinite().all())

    def kvcache(self, queries=3, rows=16, **options):
        """The first `queries` queries of each of three sequences; the result as that of `expected`."""
        q = self.q[:3 * queries].view(3, queries, 6, 16)
        which = [0, 2, 3]
        self.q, self.queries = q.flatten(0, 1), [queries] * 3
        self.k, self.v = [self.k[b] for b in which], [self.v[b] for b in which]
        lengths = int32(*(len(k) for k in self.k))
        k, table = paged(self.k, rows)
        v, _ = paged(self.v, rows)
        o, lse = tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, block_table=table, return_softmax_lse=True,
                                                    **options)
        self.assertTrue(o.is_contiguous())
        return o.flatten(0, 1), lse.transpose(0, 1).flatten(1)

    def test_several_queries_of_equal_number(self):
        slopes = torch.tensor([0.5, 0.25, 0.125, 1.0, 0.0625, 2.0])
        for options in ({"causal": True}, {"causal": True, "window_size": (6, 0), "softcap": 3.0},
                        {"window_size": (6, 1)}, {"causal": True, "alibi_slopes": slopes}):
            for queries in (1, 3, 5):
                with self.subTest(options, queries=queries):
                    self.setUp()
                    got = self.kvcache(queries, **options)
                    self.assert_same(got, self.expected(**options), **TOLERANCE)

    def test_caches_in_one_piece(self):
        k, v = (torch.full((4, 50, 2, n), torch.nan, dtype=torch.float64) for n in (16, 24))
        for b, n in enumerate(self.lengths):
            k[b, :n], v[b, :n] = self.k[b], self.v[b]
        q = normal(4, 3, 6, 16)
        self.q, self.queries = q.flatten(0, 1), [3] * 4
        lengths = int32(*self.lengths)
        expected = self.expected(causal=True)
        for which in (None, int32(2, 1, 3, 0)):
            at = slice(None) if which is None else which.argsort()
            o, lse = tilewright.flash_attn_with_kvcache(q, k[at], v[at], cache_seqlens=lengths, cache_batch_idx=which,
                                                        causal=True, return_softmax_lse=True)
            self.assert_same((o.flatten(0, 1), lse.transpose(0, 1).flatten(1)), expected, **TOLERANCE)

    def test_fake_tensors_and_compilation(self):
        with torch._subclasses.FakeTensorMode():
            q, k, v = torch.empty(3, 4, 6, 16), torch.empty(9, 16, 2, 16), torch.empty(9, 16, 2, 24)
            o, lse = tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=7, causal=True, return_softmax_lse=True,
                                                        block_table=torch.empty(3, 2, dtype=torch.int32))
        self.assertEqual((list(o.shape), list(lse.shape)), ([3, 4, 6, 24], [3, 6, 4]))
        k, table = paged(self.k, 16)
        v, _ = paged(self.v, 16)

        def call(q, starts_q, starts_k):
            return tilewright.flash_attn_varlen_func(q * 2, k, v, starts_q, starts_k, 9, 41, block_table=table, causal=True)

        compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(self.q, self.starts_q, self.starts_k), call(self.q, self.starts_q, self.starts_k)))

    def test_pages_have_no_gradients(self):
        """Arguments may require a gradient, as those of flash_attn may; the error comes with backward."""
        wanted = self.varlen(causal=True)
        self.q = self.q.clone().requires_grad_()
        got = self.varlen(causal=True)
        self.assert_same(tuple(x.detach() for x in got), wanted, rtol=0, atol=0)
        for result in got:
            with self.assertRaisesRegex(RuntimeError, "flash_attn_varlen_func with a block_table has no gradient; copy the pages"):
                result.sum().backward(retain_graph=True)
        with torch.no_grad():
            self.assertFalse(self.varlen(causal=True)[0].requires_grad)

    def refuses(self, message, **changes):
        k, table = paged(self.k, 16)
        v, _ = paged(self.v, 16)
        call = {"q": self.q, "k": k, "v": v, "cu_seqlens_q": self.starts_q, "cu_seqlens_k": self.starts_k, "max_seqlen_q": 9,
                "max_seqlen_k": 41, "block_table": table}
        for name, value in changes.items():
            call[name] = value(call[name]) if callable(value) else value
        with self.assertRaisesRegex(ValueError, message):
            tilewright.flash_attn_varlen_func(**call)

    def test_refusals(self):
        self.refuses("q must be a tensor of three dimensions, but got shape", q=lambda q: q[None])
        self.refuses("k must be a tensor of four dimensions, but got shape", k=lambda k: k.flatten(0, 1))
        self.refuses("v must be of .*, as q is, or of float8_e4m3fn, float8_e5m2 or int8, but got torch.float32", v=lambda v: v.float())
        self.refuses("k and v must agree in all but their width", v=lambda v: v[1:])
        self.refuses("k and v must agree in all but their width, and k and q in their width", q=lambda q: q[..., :8])
        self.refuses("q must have a multiple of the 2 heads of k, but got 5", q=lambda q: q[:, :5])
        self.refuses("v must have a width from 1 to 512, but got 0", v=lambda v: v[..., :0])
        self.refuses(r"cu_seqlens_q must be a tensor \[sequences \+ 1\] of int32 on cpu, but got None", cu_seqlens_q=None)
        self.refuses("max_seqlen_q must be an integer", max_seqlen_q=None)
        self.refuses(r"cu_seqlens_k must be a tensor \[5\] of int32 on cpu, but got None", cu_seqlens_k=None)
        self.refuses(r"cu_seqlens_k must be a tensor \[5\] of int32 on cpu, but got torch.int32 \[4\]", cu_seqlens_k=lambda x: x[1:])
        self.refuses(r"block_table must be a tensor \[sequences, pages\] of int32 on cpu, but got torch.int64",
                     block_table=lambda x: x.long())
        self.refuses("block_table must have the batch of q, 4, and pages at least 1 row", block_table=lambda x: x[1:])
        self.refuses("block_table must have the batch of q, 4, and pages at least 1 row", k=lambda k: k[:, :0],
                     v=lambda v: v[:, :0])
        self.refuses(r"seqused_k must be a tensor \[4\] of int32 on cpu, but got torch.int32 \[3\]", seqused_k=int32(1, 2, 3))
        self.refuses(r"seqused_k must be a tensor \[4\] of int32 on cpu, but got torch.float32 \[4\]", seqused_k=torch.ones(4))
        self.refuses(r"seqused_q must be a tensor \[4\] of int32 on cpu, but got torch.int32 \[3\]", seqused_q=int32(1, 2, 3))
        self.refuses("return_attn_probs must be False where there is dropout", return_attn_probs=True, dropout_p=0.5)
        self.refuses("alibi_slopes must have shape", alibi_slopes=torch.ones(5))
        # The elements, which the interpreter checks and a GPU does not.
        self.refuses("within_first", block_table=lambda table: table + 1000)
        self.refuses("within.*seq_lens", seqused_k=int32(33, 20, 0, 1000))


if __name__ == "__main__":
    unittest.main()
