# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The names and conventions of FlashAttention 3 in tilewright.flash_attn_with_kvcache, against the formulas. Runs on the
interpreter: needs PyTorch and tilewright-run, but no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, interpret_module, torch  # noqa: E402

import tilewright  # noqa: E402
from test_torch_append import rotate, tables  # noqa: E402
from test_torch_decode import leftpad_reference, normal, paged  # noqa: E402

setUpModule = interpret_module
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


def call(*arguments, **options):
    return tilewright.flash_attn_with_kvcache(*arguments, return_softmax_lse=True, **options)


class PackedTest(TorchTest):
    """Packed queries of four sequences, of which one has no queries and one no keys."""

    def setUp(self):
        self.queries, self.lengths = [5, 0, 1, 9], [33, 20, 0, 29]
        self.q, self.starts = normal(15, 6, 16), int32(0, 5, 5, 6, 15)
        self.k, self.v = normal(4, 48, 2, 16, seed=2), normal(4, 48, 2, 24, seed=3)

    def expected(self, q, k, v, lengths, leftpad=(0, 0, 0, 0), **options):
        parts = [leftpad_reference(own[None], k[b:b + 1], v[b:b + 1], lengths[b:b + 1], leftpad[b:b + 1], **options)
                 for b, own in enumerate(q.split(self.queries))]
        return torch.cat([o[0] for o, _ in parts]), torch.cat([lse[0] for _, lse in parts], 1)

    def test_queries(self):
        leftpad = [9, 0, 0, 17]
        for options in ({}, {"causal": True}, {"window_size": (7, 2), "softcap": 4.0}):
            for rows in (0, 16, 7):
                k, v, table = self.k, self.v, None
                if rows:
                    (k, table), (v, _) = paged(k, rows), paged(v, rows)
                for pad in (None, leftpad):
                    with self.subTest(rows=rows, pad=pad, **options):
                        got = call(self.q, k, v, cu_seqlens_q=self.starts, max_seqlen_q=9, cache_seqlens=int32(*self.lengths),
                                   page_table=table, cache_leftpad=None if pad is None else int32(*pad), **options)
                        self.assert_same(got, self.expected(self.q, self.k, self.v, self.lengths, pad or [0] * 4, **options),
                                         **TOLERANCE)

    def test_new_keys(self):
        """New keys are packed by offsets of their own; queries and keys are rotated by the positions that their sequences
        have, or by others."""
        cos, sin = tables(64, 16)
        new, starts_k = [2, 3, 1, 4], int32(0, 2, 5, 6, 10)
        new_k, new_v = normal(10, 2, 16, seed=8), normal(10, 2, 24, seed=9)
        lengths, others = int32(*self.lengths), int32(3, 30, 5, 11)
        for causal, interleaved, first, rows in ((False, True, None, 0), (True, False, None, 16), (True, True, others, 0),
                                                 (False, False, others, 7), (True, False, lengths, 16)):
            at = lengths if first is None else first
            with self.subTest(causal=causal, interleaved=interleaved, rows=rows, first=first):
                k, v = self.k.clone(), self.v.clone()
                turned = []
                for b, (own_q, own_k, own_v) in enumerate(zip(self.q.split(self.queries), new_k.split(new), new_v.split(new))):
                    count = len(own_k)
                    positions = at[b] + torch.arange(max(count, len(own_q)))
                    q_positions = positions[:len(own_q)] if causal else at[b].expand(len(own_q))
                    turned.append(rotate(own_q, q_positions, cos, sin, interleaved))
                    k[b, lengths[b]:lengths[b] + count] = rotate(own_k, positions[:count], cos, sin, interleaved)
                    v[b, lengths[b]:lengths[b] + count] = own_v
                expected = self.expected(torch.cat(turned), k, v, (lengths + int32(*new)).tolist(), causal=causal)
                caches, table = [self.k.clone(), self.v.clone()], None
                if rows:
                    (caches[0], table), (caches[1], _) = (paged(x, rows) for x in caches)
                got = call(self.q, *caches, new_k, new_v, cu_seqlens_q=self.starts, max_seqlen_q=9, cu_seqlens_k_new=starts_k,
                           cache_seqlens=lengths, rotary_cos=cos, rotary_sin=sin, rotary_interleaved=interleaved,
                           rotary_seqlens=first, page_table=table, causal=causal)
                self.assert_same(got, expected, **TOLERANCE)
                for cache, wanted in zip(caches, (k, v)):
                    whole = cache if table is None else cache[table.long()].flatten(1, 2)[:, :48]
                    self.assert_same((whole,), (wanted,), **TOLERANCE)
        self.assertEqual(lengths.tolist(), self.lengths)

    def test_graph_of_fake_tensors(self):
        with torch._subclasses.FakeTensorMode():
            q, k, v, out = (torch.empty(*shape) for shape in ((15, 6, 16), (4, 48, 2, 16), (4, 48, 2, 24), (15, 6, 24)))
            starts, lengths = torch.empty(5, dtype=torch.int32), torch.empty(4, dtype=torch.int32)
            o, lse = call(q, k, v, q[:3, :2], out[:3, :2], cu_seqlens_q=starts, max_seqlen_q=9, cu_seqlens_k_new=starts,
                          cache_seqlens=lengths, out=out)
        self.assertIs(o, out)
        self.assertEqual(list(lse.shape), [6, 15])


class NamesTest(TorchTest):
    def setUp(self):
        self.q, self.k, self.v = normal(3, 2, 6, 16), normal(3, 40, 2, 16, seed=2), normal(3, 40, 2, 24, seed=3)
        self.lengths = int32(33, 0, 40)

    def test_names_of_one_thing(self):
        (k, table), (v, _) = paged(self.k, 16), paged(self.v, 16)
        expected = call(self.q, k, v, cache_seqlens=self.lengths, block_table=table, num_splits=2)
        metadata = tilewright.get_scheduler_metadata(3, 2, 48, 6, 2, 16, self.lengths, headdim_v=24, page_size=16, num_splits=2)
        self.assertEqual((list(metadata.shape), metadata.dtype), ([0], torch.int32))
        got = call(self.q, k, v, cache_seqlens=self.lengths, page_table=table, num_splits=2, scheduler_metadata=metadata,
                   pack_gqa=False, sm_margin=8, max_seqlen_q=2, attention_chunk=0, rotary_seqlens=self.lengths)
        self.assert_same(got, expected, rtol=0, atol=0)

    def test_chosen_rows_of_a_table(self):
        (k, table), (v, _) = paged(self.k, 16), paged(self.v, 16)
        which = int32(2, 5, 0)
        expected = leftpad_reference(self.q, self.k[[2, 1, 0]], self.v[[2, 1, 0]], [33, 0, 40], [0] * 3)
        got = call(self.q, k, v, cache_seqlens=self.lengths, page_table=table, cache_batch_idx=which)
        self.assert_same(got, expected, **TOLERANCE)
        with self.assertRaisesRegex(ValueError, r"block_table\[1, 0\] = -1"):  # the interpreter checks tables
            call(self.q, k, v, cache_seqlens=int32(33, 7, 40), page_table=table, cache_batch_idx=which)

    def test_fewer_new_keys_than_queries(self):
        """It used to be refused."""
        cos, sin = tables(64, 16)
        lengths = int32(33, 0, 38)
        self.q = normal(3, 5, 6, 16)
        new_k, new_v = normal(3, 2, 2, 16, seed=8), normal(3, 2, 2, 24, seed=9)
        positions = lengths[:, None] + torch.arange(5)
        for causal in False, True:
            k, v = self.k.clone(), self.v.clone()
            for b, n in enumerate(lengths):
                k[b, n:n + 2], v[b, n:n + 2] = rotate(new_k[b], positions[b, :2], cos, sin, True), new_v[b]
            q = rotate(self.q, positions if causal else lengths[:, None].expand(3, 5), cos, sin, True)
            expected = leftpad_reference(q, k, v, (lengths + 2).tolist(), [0] * 3, causal=causal)
            got = call(self.q, self.k.clone(), self.v.clone(), new_k, new_v, cache_seqlens=lengths, rotary_cos=cos, rotary_sin=sin,
                       causal=causal)
            self.assert_same(got, expected, **TOLERANCE)

    def test_positions_of_the_rotation(self):
        cos, sin = tables(64, 16)
        new_k, new_v = normal(3, 2, 2, 16, seed=8), normal(3, 2, 2, 24, seed=9)
        lengths, first = int32(30, 0, 38), int32(15, 7, 0)
        positions = first[:, None] + torch.arange(2)
        k, v = self.k.clone(), self.v.clone()
        for b, n in enumerate(lengths):
            k[b, n:n + 2], v[b, n:n + 2] = rotate(new_k[b], positions[b], cos, sin, False), new_v[b]
        expected = leftpad_reference(rotate(self.q, positions, cos, sin, False), k, v, (lengths + 2).tolist(), [0] * 3, causal=True)
        got = call(self.q, self.k, self.v, new_k, new_v, cache_seqlens=lengths, rotary_seqlens=first, rotary_cos=cos,
                   rotary_sin=sin, rotary_interleaved=False, causal=True)
        self.assert_same(got, expected, **TOLERANCE)

    def test_queries_of_8_bits(self):
        """They are converted, and their factors are factors of the scores; new keys are written as they are."""
        for stored in (torch.float8_e4m3fn, torch.float8_e5m2):
            q, k, v = (x.to(stored) for x in (self.q, self.k, self.v))
            new_k, new_v = normal(3, 2, 2, 16, seed=8).to(stored), normal(3, 2, 2, 24, seed=9).to(stored)
            q_by, by = normal(3, 2, seed=5).abs() + 0.5, normal(3, 2, seed=6).abs() + 0.5
            lengths = int32(30, 0, 38)
            real_k, real_v = k.float(), v.float()
            for b, n in enumerate(lengths):
                real_k[b, n:n + 2], real_v[b, n:n + 2] = new_k[b].float(), new_v[b].float()
            wide = q.float() * q_by.repeat_interleave(3, 1)[:, None, :, None]
            expected = leftpad_reference(wide, real_k * by[:, None, :, None], real_v * by[:, None, :, None], (lengths + 2).tolist(),
                                         [0] * 3, causal=True)
            o, lse = call(q, k, v, new_k, new_v, cache_seqlens=lengths, q_descale=q_by, k_descale=by, v_descale=by, causal=True)
            self.assertEqual(o.dtype, torch.bfloat16)
            self.assertLess((o.double() - expected[0]).norm(), 0.006 * expected[0].norm())
            self.assertTrue(torch.allclose(lse.double(), expected[1], atol=2e-3))
            for cache, wanted in ((k, real_k), (v, real_v)):
                self.assertTrue(torch.equal(cache.float(), wanted))

    def test_results_that_are_given(self):
        lengths = int32(33, 0, 40)
        for queries in (2, 20):
            q = normal(3, queries, 6, 16)
            expected = call(q, self.k, self.v, cache_seqlens=lengths, causal=True)
            for out in (torch.full((3, queries, 6, 24), torch.nan), torch.full((3, 6, queries, 24), torch.nan).transpose(1, 2),
                        torch.full((3, queries, 6, 40), torch.nan)[..., 8:32]):
                version = out._version
                o, lse = call(q, self.k, self.v, cache_seqlens=lengths, causal=True, out=out)
                self.assertIs(o, out)
                self.assertGreater(out._version, version)
                self.assert_same((o, lse), expected, rtol=0, atol=0)
        whole = torch.full((3, 2, 6, 40), 7.0)
        call(self.q, self.k, self.v, cache_seqlens=lengths, out=whole[..., 8:32])
        self.assertTrue(bool((whole[..., :8] == 7).all() and (whole[..., 32:] == 7).all()))

    def test_compile_and_opcheck(self):
        def step(q, k, v, lengths, out):
            tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, out=out, causal=True)
            return 2 * out
        expected, _ = call(self.q, self.k, self.v, cache_seqlens=self.lengths, causal=True)
        out = torch.empty(3, 2, 6, 24)
        got = torch.compile(step, fullgraph=True, backend="aot_eager")(self.q, self.k, self.v, self.lengths, out)
        self.assert_same((got, out), (2 * expected, expected), rtol=0, atol=0)
        writes = [x.name for x in torch.ops.tilewright.cached_attention_to.default._schema.arguments
                  if x.alias_info is not None and x.alias_info.is_write]
        self.assertEqual(writes, ["o"])
        q = self.q.transpose(1, 2)
        arguments = (torch.empty(3, 6, 2, 24), q, self.k, self.v, None, self.lengths, *[None] * 5, [], [0.0], [0], "", "none", -1,
                     -1, 0.25, "", 0, 0, 1)
        torch.library.opcheck(torch.ops.tilewright.cached_attention_to.default, arguments, test_utils=("test_schema", "test_faketensor"))


class RefusalsTest(TorchTest):
    def test_refusals(self):
        q, k, v = normal(3, 2, 6, 16), normal(3, 40, 2, 16), normal(3, 40, 2, 24)
        packed, starts, lengths = normal(5, 6, 16), int32(0, 2, 2, 5), int32(3, 0, 9)
        table, small = int32(0, 1, 2)[:, None], k.to(torch.float8_e4m3fn)
        new = {"cache_seqlens": lengths}
        for text, arguments, options in (
                ("qv must be None: there is no kernel whose scores have a second product", (q, k, v), {"qv": q}),
                ("attention_chunk must be 0: there is no mask of chunks over a cache, but got 16; for one query", (q, k, v),
                 {"attention_chunk": 16}),
                ("page_table must be None where there is a block_table: these are names of one argument", (q, k, v),
                 {"page_table": table, "block_table": table}),
                ("scheduler_metadata must be None or a tensor, as get_scheduler_metadata returns it, but got 3", (q, k, v),
                 {"scheduler_metadata": 3}),
                ("pack_gqa must be None, True or False, but got 1", (q, k, v), {"pack_gqa": 1}),
                ("sm_margin must be a number of at least 0, but got -1", (q, k, v), {"sm_margin": -1}),
                ("max_seqlen_q must be an integer, but got 'x'", (q, k, v), {"max_seqlen_q": "x"}),
                ("max_seqlen_q must be an integer, the length of the longest sequence or more, but got None", (packed, k, v),
                 {"cu_seqlens_q": starts}),
                ("q must be a tensor of three dimensions, but got shape", (q, k, v), {"cu_seqlens_q": starts, "max_seqlen_q": 3}),
                (r"cu_seqlens_q must be a tensor \[sequences \+ 1\] of int32 on cpu, but got torch.int64", (packed, k, v),
                 {"cu_seqlens_q": starts.long(), "max_seqlen_q": 3}),
                ("k_cache must have the batch of q, 2, where there is no block_table, but got 3", (packed, k, v),
                 {"cu_seqlens_q": starts[:3], "max_seqlen_q": 3}),
                ("cu_seqlens_q must be left out where there are tree_bits: the bits are those of as many queries", (packed, k, v),
                 {"cu_seqlens_q": starts, "max_seqlen_q": 3, "tree_bits": torch.zeros(3, 2, 1, dtype=torch.int32)}),
                ("cu_seqlens_k_new must be None where there are no new keys, k and v", (q, k, v), {"cu_seqlens_k_new": starts}),
                (r"cu_seqlens_k_new must be a tensor \[4\] of int32 on cpu, but got torch.int32 \[3\]", (q, k, v, k[:2, 0], v[:2, 0]),
                 {"cu_seqlens_k_new": starts[:3], **new}),
                ("k must be a tensor of 3 dimensions", (q, k, v, k[:, :2], v[:, :2]), {"cu_seqlens_k_new": starts, **new}),
                (r"rotary_seqlens must be a tensor \[3\] of int32 on cpu, but got torch.int32 \[2\]", (q, k, v),
                 {"rotary_seqlens": lengths[:2]}),
                ("block_table must have at least 1 row where there is cache_batch_idx, but got 0", (q, k, v),
                 {"page_table": table[:0], "cache_batch_idx": lengths}),
                ("q_descale must be None for q of other types than float8_e4m3fn and float8_e5m2", (q, k, v),
                 {"q_descale": torch.ones(3, 2)}),
                ("k_cache must have the type of q, torch.float8_e4m3fn, where that has 8 bits, but got torch.float32",
                 (q.to(torch.float8_e4m3fn), k, v), {}),
                (r"q_descale must be a tensor \[2\] or \[3, 2\] of float32 on cpu, but got torch.float32 \[6\]",
                 (q.to(torch.float8_e4m3fn), small, small), {"q_descale": torch.ones(6)}),
                ("q_descale must be None where k_descale has factors of each key", (q.to(torch.float8_e4m3fn), small, small),
                 {"q_descale": torch.ones(2), "k_descale": torch.ones(3, 40, 2)}),
                (r"out must be a tensor \[3, 2, 6, 24\] of torch.float32 on cpu, as the result is, but got torch.float32 \[3, 2, 6, 16\]",
                 (q, k, v), {"out": torch.empty(3, 2, 6, 16)}),
                (r"out must be a tensor \[3, 2, 6, 24\] of torch.float32 on cpu, as the result is, but got torch.float16", (q, k, v),
                 {"out": torch.empty(3, 2, 6, 24, dtype=torch.float16)}),
                ("out must have rows whose elements lie one after the other, but their stride is 2", (q, k, v),
                 {"out": torch.empty(3, 2, 6, 48)[..., ::2]}),
                ("out must not require a gradient", (q, k, v), {"out": torch.empty(3, 2, 6, 24, requires_grad=True)}),
                ("out must be a tensor, but got int", (q, k, v), {"out": 3})):
            with self.subTest(text):
                with self.assertRaisesRegex(ValueError, text):
                    call(*arguments, **options)
        with self.assertRaisesRegex(ValueError, "cache_seqlens must be a tensor, but got int"):
            tilewright.get_scheduler_metadata(3, 2, 48, 6, 2, 16, 7)


if __name__ == "__main__":
    unittest.main()
