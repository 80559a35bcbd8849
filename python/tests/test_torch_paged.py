# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.paged_decode, with FlashInfer's conventions, against the formulas. Runs on the interpreter: needs PyTorch and
tilewright-run, but no GPU."""

import math
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, interpret_module, torch  # noqa: E402

import tilewright  # noqa: E402
from test_torch_decode import leftpad_reference, normal  # noqa: E402

setUpModule = interpret_module
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
ROWS = 8


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


class PagedTest(TorchTest):
    """Four sequences, of which one has no keys; other pages, and rows behind the end of a sequence, are NaN."""

    def setUp(self):
        self.lengths = [33, 0, 40, 5]
        self.k, self.v = normal(4, 40, 2, 16, seed=2), normal(4, 40, 2, 16, seed=3)
        counts = [-(-n // ROWS) for n in self.lengths]
        order = torch.randperm(sum(counts) + 3, generator=torch.Generator().manual_seed(4))
        self.pool = torch.full((len(order), 2, ROWS, 2, 16), torch.nan)
        self.indices = order[:sum(counts)].int()
        self.indptr = int32(*[sum(counts[:b]) for b in range(5)])
        self.last = int32(*[(n - 1) % ROWS + 1 if n else 0 for n in self.lengths])
        for b, pages in enumerate(self.indices.split(counts)):
            for j in range(self.lengths[b]):
                self.pool[pages[j // ROWS], 0, j % ROWS] = self.k[b, j]
                self.pool[pages[j // ROWS], 1, j % ROWS] = self.v[b, j]

    def where(self):
        return self.indptr, self.indices, self.last

    def expected(self, q, queries, **options):
        o, lse = leftpad_reference(q.view(4, queries, *q.shape[1:]), self.k, self.v, self.lengths, [0] * 4, causal=True, **options)
        return o.flatten(0, 1), lse.transpose(1, 2).flatten(0, 1) / math.log(2)

    def test_layouts(self):
        hnd = self.pool.transpose(2, 3).contiguous()
        for queries in (1, 3):
            q = normal(4 * queries, 6, 16)
            expected = self.expected(q, queries)
            for layout, cache in (("NHD", self.pool), ("HND", hnd), ("NHD", self.pool.unbind(1)), ("HND", hnd.unbind(1))):
                with self.subTest(queries=queries, layout=layout):
                    got = tilewright.paged_decode(q, cache, *self.where(), kv_layout=layout, q_len_per_req=queries, return_lse=True)
                    self.assert_same(got, expected, **TOLERANCE)

    def test_tables(self):
        tables, lengths = tilewright.block_tables_of(*self.where(), ROWS, max_pages=5)
        self.assertEqual((list(tables.shape), lengths.tolist(), lengths.dtype), ([4, 5], self.lengths, torch.int32))
        q = normal(4, 6, 16)
        given = tilewright.paged_decode(q, self.pool, block_tables=tables, seq_lens=lengths, num_splits=2)
        self.assert_same((given,), self.expected(q, 1)[:1], **TOLERANCE)
        by_lists = tilewright.paged_decode(q, self.pool, *self.where(), max_pages=5, num_splits=2)
        self.assert_same((by_lists,), (given,), rtol=0, atol=0)
        _, cut = tilewright.block_tables_of(*self.where(), ROWS, max_pages=3)
        self.assertEqual(cut.tolist(), [24, 0, 24, 5])
        tables, lengths = tilewright.block_tables_of(int32(0, 0), int32(), int32(0), ROWS)
        self.assertEqual((list(tables.shape), lengths.tolist()), ([1, 0], [0]))

    def test_options(self):
        q, sinks = normal(8, 6, 16), normal(6, seed=9)
        for options, of_reference in (({"logits_soft_cap": 3.0}, {"softcap": 3.0}), ({"window_left": 9}, {"window_size": (9, -1)}),
                                      ({"logits_soft_cap": 0.0, "sm_scale": 0.25}, {})):
            with self.subTest(**options):
                got = tilewright.paged_decode(q, self.pool, *self.where(), q_len_per_req=2, return_lse=True, **options)
                self.assert_same(got, self.expected(q, 2, **of_reference), **TOLERANCE)
        o, lse = tilewright.paged_decode(q, self.pool, *self.where(), q_len_per_req=2, return_lse=True, sinks=sinks)
        plain, plain_lse = self.expected(q, 2)
        total = torch.logaddexp(plain_lse * math.log(2), sinks[None].double())
        self.assert_same((lse,), (total / math.log(2),), **TOLERANCE)
        self.assert_same((o,), (plain * torch.exp(plain_lse * math.log(2) - total).nan_to_num(0)[..., None],), **TOLERANCE)

    def test_merges(self):
        """The LSE is that which merge_state takes with base2."""
        q = normal(4, 6, 16)
        parts = []
        for begin, end in ((0, 3), (3, 5)):
            tables, lengths = tilewright.block_tables_of(*self.where(), ROWS, max_pages=5)
            own = (lengths - begin * ROWS).clamp(0, (end - begin) * ROWS)
            parts += tilewright.paged_decode(q, self.pool, block_tables=tables[:, begin:end], seq_lens=own, return_lse=True)
        self.assert_same(tilewright.merge_state(*parts, base2=True), self.expected(q, 1), **TOLERANCE)

    def test_caches_of_8_bits(self):
        q = normal(4, 6, 16)
        pool = self.pool.to(torch.float8_e4m3fn)
        self.k, self.v = (x.to(torch.float8_e4m3fn).float() for x in (self.k, self.v))
        self.k, self.v = self.k * 0.5, self.v * torch.tensor([0.25, 1.5])[None, None, :, None]
        expected = self.expected(q, 1)
        for k_scale in (0.5, torch.tensor(0.5), torch.tensor([0.5]), torch.full((4, 2), 0.5)):
            got = tilewright.paged_decode(q, pool, *self.where(), k_scale=k_scale, v_scale=torch.tensor([0.25, 1.5]), return_lse=True)
            self.assert_same(got, expected, **TOLERANCE)

    def test_results_that_are_given(self):
        q, out = normal(8, 6, 16), torch.full((8, 6, 24), torch.nan)[..., 4:20]
        expected = tilewright.paged_decode(q, self.pool, *self.where(), q_len_per_req=2)
        self.assertIs(tilewright.paged_decode(q, self.pool, *self.where(), q_len_per_req=2, out=out, k_scale=1.0), out)
        self.assert_same((out,), (expected,), rtol=0, atol=0)

    def test_fake_tensors_and_compile(self):
        with torch._subclasses.FakeTensorMode():
            numbers = torch.empty(4, dtype=torch.int32)
            o, lse = tilewright.paged_decode(torch.empty(6, 6, 16), torch.empty(9, 2, 8, 2, 16), numbers, numbers, numbers[:3],
                                             q_len_per_req=2, return_lse=True)
        self.assertEqual((list(o.shape), list(lse.shape)), ([6, 6, 16], [6, 6]))

        def step(q, pool, indptr, indices, last):
            return 2 * tilewright.paged_decode(q, pool, indptr, indices, last, max_pages=5)
        q = normal(4, 6, 16)
        got = torch.compile(step, fullgraph=True, backend="aot_eager")(q, self.pool, *self.where())
        self.assert_same((got,), (2 * self.expected(q, 1)[0],), **TOLERANCE)

    def test_refusals(self):
        q, where = normal(4, 6, 16), self.where()
        tables, lengths = tilewright.block_tables_of(*where, ROWS)
        given = {"block_tables": tables, "seq_lens": lengths}
        for text, arguments, options in (
                ("pos_encoding_mode must be 'NONE': keys are rotated when they are written to the cache, by append_kv, but got "
                 "'ROPE_LLAMA'", (q, self.pool, *where), {"pos_encoding_mode": "ROPE_LLAMA"}),
                ("kv_layout must be 'NHD' or 'HND', but got 'NDH'", (q, self.pool, *where), {"kv_layout": "NDH"}),
                ("kv_cache must be a tensor, or a pair of keys and values, but got 3 tensors", (q, [self.pool] * 3, *where), {}),
                ("kv_cache must be a tensor of five dimensions, of which the second, of keys and values, is 2, but got shape",
                 (q, self.pool[:, 0], *where), {}),
                ("v of kv_cache must be a tensor of four dimensions, but got shape", (q, (self.pool[:, 0], self.pool), *where), {}),
                ("q_len_per_req must be a number of at least 1, but got 0", (q, self.pool, *where), {"q_len_per_req": 0}),
                ("q must be a tensor of three dimensions, of which the first is a multiple of q_len_per_req, 3, but got shape",
                 (q, self.pool, *where), {"q_len_per_req": 3}),
                ("k and v must agree in all but their width, and k and q in their width", (q[..., :8], self.pool, *where), {}),
                ("block_tables must be given, with seq_lens, or indptr, indices and last_page_len", (q, self.pool), {}),
                ("block_tables must be None where there is indptr: pages are those of lists, or of a table", (q, self.pool, *where),
                 given),
                ("seq_lens must be None where there is indices", (q, self.pool, None, where[1]), {"seq_lens": lengths}),
                (r"block_tables must be a tensor \[sequences, pages\] of int32 on cpu, but got None", (q, self.pool), {"seq_lens": lengths}),
                ("block_tables must have the batch of q, 4", (q, self.pool), {"block_tables": tables[:3], "seq_lens": lengths}),
                (r"seq_lens must be a tensor \[4\] of int32 on cpu, but got torch.int64", (q, self.pool),
                 {"block_tables": tables, "seq_lens": lengths.long()}),
                ("max_pages must be None where there are block_tables, whose columns are so many", (q, self.pool),
                 {"max_pages": 5, **given}),
                ("max_pages must be a number of at least 0, but got -1", (q, self.pool, *where), {"max_pages": -1}),
                ("indptr must have one element more than the 3 sequences of q, but got 5", (q[:3], self.pool, *where), {}),
                (r"last_page_len must be a tensor \[4\] of int32 on cpu, but got torch.int32 \[3\]",
                 (q, self.pool, *where[:2], where[2][:3]), {}),
                (r"indices must be a tensor \[pages\] of int32 on cpu, but got torch.int64", (q, self.pool, where[0], where[1].long(),
                                                                                              where[2]), {}),
                ("k_scale must be None for a cache of torch.float32: only those of 8 bits have factors", (q, self.pool, *where),
                 {"k_scale": 0.5}),
                ("window must be two integers", (q, self.pool, *where), {"window_left": -2}),
                ("num_splits must be a number from 0 to 1024, but got -1", (q, self.pool, *where), {"num_splits": -1}),
                (r"out must be a tensor \[4, 6, 16\] of torch.float32 on cpu", (q, self.pool, *where), {"out": q[:3]})):
            with self.subTest(text):
                with self.assertRaisesRegex(ValueError, text):
                    tilewright.paged_decode(*arguments, **options)
        for text, arguments in (("page_size must be a number of at least 1, but got 0", (*where, 0)),
                                ("indptr must have one element more than there are sequences, but got 0", (int32(), *where[1:], 8))):
            with self.assertRaisesRegex(ValueError, text):
                tilewright.block_tables_of(*arguments)


if __name__ == "__main__":
    unittest.main()
