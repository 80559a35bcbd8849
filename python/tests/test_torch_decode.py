# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.flash_attn_with_kvcache against the formulas. Runs on the interpreter: needs PyTorch and tilewright-run, but
no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, interpret_module, torch  # noqa: E402

import torch_reference  # noqa: E402  # after torch_on_cpu, which skips the tests without PyTorch

import tilewright  # noqa: E402
from tilewright import cached  # noqa: E402

setUpModule = interpret_module


def normal(*shape, seed=1, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def paged(x, rows, seed=4):
    """[B, S, H, D] as pages of `rows` rows in random order, with NaN in pages that no sequence has, and the table."""
    batch, length = x.shape[:2]
    columns = -(-length // rows)
    order = torch.randperm(batch * columns + 2, generator=torch.Generator().manual_seed(seed))
    pool = torch.full((batch * columns + 2, rows, *x.shape[2:]), torch.nan, dtype=x.dtype)
    table = order[:batch * columns].reshape(batch, columns)
    for b in range(batch):
        padded = torch.full((columns * rows, *x.shape[2:]), torch.nan, dtype=x.dtype)
        padded[:length] = x[b]
        pool[table[b]] = padded.view(columns, rows, *x.shape[2:])
    return pool, table.int()


def reference(q, k, v, lengths, scale):
    """O [B, 1, Hq, DV] and LSE [B, Hq, 1]."""
    group = q.shape[2] // k.shape[2]
    o, lse = torch.zeros(*q.shape[:3], v.shape[3], dtype=torch.float64), torch.full((*q.shape[:1], q.shape[2], 1), -torch.inf)
    lse = lse.double()
    for b, length in enumerate(lengths):
        for h in range(q.shape[2] if length else 0):
            scores = k[b, :length, h // group].double() @ q[b, 0, h].double() * scale
            o[b, 0, h] = torch.softmax(scores, 0) @ v[b, :length, h // group].double()
            lse[b, h, 0] = torch.logsumexp(scores, 0)
    return o, lse


def leftpad_reference(q, k, v, lengths, leftpad, causal=False, window_size=(-1, -1), alibi_slopes=None, softcap=0.0):
    """O and LSE for keys leftpad[b] to lengths[b] - 1, whose positions count from leftpad[b]: of any number of queries."""
    group, queries = q.shape[2] // k.shape[2], q.shape[1]
    o = torch.zeros(*q.shape[:3], v.shape[3], dtype=torch.float64)
    lse = torch.full((q.shape[0], q.shape[2], queries), -torch.inf, dtype=torch.float64)
    left, right = window_size
    for b, (length, first) in enumerate(zip(lengths, leftpad)):
        for h in range(q.shape[2]):
            own_k, own_v = k[b, first:length, h // group].double(), v[b, first:length, h // group].double()
            for i in range(queries):
                diagonal, j = i + len(own_k) - queries, torch.arange(len(own_k))
                scores = own_k @ q[b, i, h].double() * q.shape[3] ** -0.5
                if softcap:
                    scores = softcap * torch.tanh(scores / softcap)
                if alibi_slopes is not None:
                    scores = scores - alibi_slopes[h] * (diagonal - j).abs()
                keep = torch.ones(len(j), dtype=torch.bool)
                keep &= (j <= diagonal) | (not causal)
                keep &= (j >= diagonal - left) | (left < 0)
                keep &= (j <= diagonal + right) | (right < 0)
                if keep.any():
                    o[b, i, h] = torch.softmax(scores[keep], 0) @ own_v[keep]
                    lse[b, h, i] = torch.logsumexp(scores[keep], 0)
    return o, lse


class DecodeTest(TorchTest):
    def setUp(self):
        self.q, self.k, self.v = normal(3, 1, 6, 16), normal(3, 40, 2, 16, seed=2), normal(3, 40, 2, 24, seed=3)
        self.lengths = [33, 0, 40]
        self.seqlens = torch.tensor(self.lengths, dtype=torch.int32)

    def decode(self, *caches, **options):
        return tilewright.flash_attn_with_kvcache(self.q, *caches, return_softmax_lse=True, **options)

    def test_pages_and_rows_in_one_piece(self):
        expected = reference(self.q, self.k, self.v, self.lengths, 0.25)
        tolerance = {"rtol": 1e-5, "atol": 1e-5}
        self.assert_same(self.decode(self.k, self.v, cache_seqlens=self.seqlens), expected, **tolerance)
        for rows in (16, 7, 40):
            k, table = paged(self.k, rows)
            v, _ = paged(self.v, rows)
            with self.subTest(rows):
                got = self.decode(k, v, cache_seqlens=self.seqlens, block_table=table, num_splits=2)
                self.assert_same(got, expected, **tolerance)

    def test_lengths(self):
        tolerance = {"rtol": 1e-5, "atol": 1e-5}
        for given, lengths in ((None, [40] * 3), (17, [17] * 3), (0, [0] * 3)):
            expected = reference(self.q, self.k, self.v, lengths, 0.5)
            self.assert_same(self.decode(self.k, self.v, cache_seqlens=given, softmax_scale=0.5), expected, **tolerance)

    def test_sequences_of_a_larger_cache(self):
        which = torch.tensor([2, 0, 2], dtype=torch.int32)
        expected = reference(self.q, self.k[which.long()], self.v[which.long()], self.lengths, 0.25)
        got = self.decode(self.k, self.v, cache_seqlens=self.seqlens, cache_batch_idx=which)
        self.assert_same(got, expected, rtol=1e-5, atol=1e-5)

    def test_wide_heads(self):
        """Widths above those of a decode: keys are not divided."""
        for width, value_width, queries in ((16, 512, 1), (320, 264, 3)):
            q, k, v = normal(3, queries, 6, width), normal(3, 40, 2, width, seed=2), normal(3, 40, 2, value_width, seed=3)
            expected = leftpad_reference(q, k, v, self.lengths, [0] * 3, causal=True)
            (k, table), (v, _) = paged(k, 8), paged(v, 8)
            got = tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=self.seqlens, block_table=table, causal=True, num_splits=3,
                                                     return_softmax_lse=True)
            self.assert_same(got, expected, rtol=1e-5, atol=1e-5)
        with self.assertRaisesRegex(ValueError, r"keys of several ranks are for at most 16 queries of a sequence, and 128 of the heads "
                                                r"that share a key head, of widths up to 256, but got q of shape \[3, 6, 3, 320\] and "
                                                r"values of width 264"):
            tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=self.seqlens, block_table=table, cp_world_size=2,
                                               cp_tot_seqused_k=self.seqlens)

    def test_heads_outside_of_rows(self):
        k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (self.k, self.v))
        expected = reference(self.q, self.k, self.v, self.lengths, 0.25)
        self.assert_same(self.decode(k, v, cache_seqlens=self.seqlens), expected, rtol=1e-5, atol=1e-5)

    def test_keys_of_ranks(self):
        """Keys by turns, or consecutive: merged, the results of ranks are those of one cache, with all that has positions."""
        lengths, slopes = torch.tensor([33, 2, 40], dtype=torch.int32), torch.tensor([0.5, 0.25, 0.125, 1.0, 0.0625, 2.0])
        for queries, options in ((1, {}), (3, {"causal": True, "window_size": (14, 0)}),
                                 (2, {"causal": True, "alibi_slopes": slopes}), (1, {"alibi_slopes": slopes})):
            self.q = normal(3, queries, 6, 16)
            expected = self.decode(self.k, self.v, cache_seqlens=lengths, **options)
            for ranks, interleave in ((2, 1), (3, 4), (2, 0)):
                with self.subTest(queries=queries, ranks=ranks, interleave=interleave, **options):
                    parts = []
                    for rank in range(ranks):
                        at = torch.arange(40)
                        at = at[at // interleave % ranks == rank] if interleave else at[25 * rank: 25 + 15 * rank]
                        where = {"cp_world_size": ranks, "cp_rank": rank, "cp_interleave_size": interleave}
                        where = where if interleave else {"cp_first_key": 25 * rank}
                        own = torch.stack([(at < n).sum() for n in lengths]).int()
                        parts.append(self.decode(self.k[:, at], self.v[:, at], cache_seqlens=own, cp_tot_seqused_k=lengths,
                                                 **where, **options))
                    o, lse = (torch.stack([part[i] for part in parts], 1) for i in range(2))  # [B, N, Sq, Hq, DV], [B, N, Hq, Sq]
                    weights = torch.softmax(lse.double(), 1).nan_to_num()
                    merged = (weights.transpose(2, 3)[..., None] * o).sum(1), torch.logsumexp(lse.double(), 1)
                    self.assert_same(merged, expected, rtol=1e-5, atol=1e-5)

    def test_keys_of_ranks_that_are_refused(self):
        given = {"cache_seqlens": self.seqlens, "cp_tot_seqused_k": self.seqlens}
        for options, text in (({"cp_world_size": 0}, "cp_world_size must be a number of at least 1, but got 0"),
                              ({"cp_world_size": 2, "cp_rank": 2}, "cp_rank must be less than cp_world_size, 2, but got 2"),
                              ({}, "cp_tot_seqused_k must be None where the caches have all keys"),
                              ({"cp_first_key": -1}, "cp_first_key must be a tensor or a number of at least 0, but got -1"),
                              ({"cp_first_key": 0, "cache_leftpad": self.seqlens}, "cache_leftpad must be None where keys are"),
                              ({"cp_world_size": 2, "cp_tot_seqused_k": None}, "cp_tot_seqused_k must be a tensor")):
            with self.subTest(text):
                with self.assertRaisesRegex(Exception, text):
                    self.decode(self.k, self.v, **{**given, **options})
        self.q = normal(3, 20, 6, 16)
        with self.assertRaisesRegex(Exception, "keys of several ranks are for at most 16 queries"):
            self.decode(self.k, self.v, cp_world_size=2, **given)

    def test_leftpad(self):
        """Keys begin at cache_leftpad: for each query, as flash_attn's test defines it, with all that has positions. One of the
        sequences has no key left. It used to be refused."""
        leftpad, slopes = torch.tensor([9, 3, 40], dtype=torch.int32), torch.tensor([0.5, 0.25, 0.125, 1.0, 0.0625, 2.0])
        lengths = torch.tensor([33, 20, 40], dtype=torch.int32)
        for queries in (1, 3, 20):
            self.q = normal(3, queries, 6, 16)
            for options in ({}, {"causal": True}, {"causal": True, "alibi_slopes": slopes, "window_size": (12, 0)},
                            {"window_size": (5, 2), "softcap": 3.0}):
                expected = leftpad_reference(self.q, self.k, self.v, lengths.tolist(), leftpad.tolist(), **options)
                for rows in (0, 16, 7):
                    with self.subTest(queries=queries, rows=rows, **options):
                        k, v, table = self.k.clone(), self.v.clone(), None
                        for b in range(3):
                            k[b, :leftpad[b]] = torch.nan
                            if not rows:
                                v[b, :leftpad[b]] = torch.nan
                        if rows:
                            (k, table), (v, _) = paged(k, rows), paged(v, rows)
                        got = self.decode(k, v, cache_seqlens=lengths, block_table=table, cache_leftpad=leftpad, **options)
                        self.assert_same(got, expected, rtol=1e-5, atol=1e-5)

    def test_leftpad_with_new_keys(self):
        """cache_seqlens and the positions of the rotation count the keys before cache_leftpad."""
        leftpad, lengths = torch.tensor([9, 0, 30], dtype=torch.int32), torch.tensor([25, 7, 31], dtype=torch.int32)
        self.q, new_k, new_v = normal(3, 2, 6, 16), normal(3, 2, 2, 16, seed=8), normal(3, 2, 2, 24, seed=9)
        angles = torch.arange(40)[:, None] * torch.tensor([1.0, 0.5, 0.25, 0.125, 0.1, 0.05, 0.02, 0.01])
        cos, sin = angles.cos(), angles.sin()

        def rotated(x):  # [3, 2, heads, 16], halves
            at = lengths[:, None] + torch.arange(2)
            c, s = cos[at][:, :, None], sin[at][:, :, None]
            return torch.cat([x[..., :8] * c - x[..., 8:] * s, x[..., 8:] * c + x[..., :8] * s], -1)

        k, v = self.k.clone(), self.v.clone()
        for b in range(3):
            k[b, lengths[b]:lengths[b] + 2], v[b, lengths[b]:lengths[b] + 2] = rotated(new_k)[b], new_v[b]
        expected = leftpad_reference(rotated(self.q), k, v, (lengths + 2).tolist(), leftpad.tolist(), causal=True)
        got = self.decode(self.k, self.v, k=new_k, v=new_v, rotary_cos=cos, rotary_sin=sin, rotary_interleaved=False,
                          cache_seqlens=lengths, cache_leftpad=leftpad, causal=True)
        self.assert_same(got, expected, rtol=1e-5, atol=1e-5)

    def test_tree_bits(self):
        """Trees of drafted tokens: of 5, and of 40, whose bits take two words and which a forward attends."""
        for queries in 5, 40:
            self.q, before = normal(3, queries, 6, 16), torch.tensor([7, 0, 20], dtype=torch.int32)
            k, v = normal(3, 70, 2, 16, seed=2), normal(3, 70, 2, 24, seed=3)
            parents = [-1] + [(7 * c + 3) % c for c in range(1, queries)]
            keep = torch.eye(queries, dtype=torch.bool)
            for i, parent in enumerate(parents):
                keep[i] |= keep[parent] if parent >= 0 else keep[i]
            words = -(-queries // 32)
            padded = torch.nn.functional.pad(keep, (0, 32 * words - queries)).view(queries, words, 32)
            bits = (padded.long() << torch.arange(32)).sum(-1).to(torch.int32).expand(3, -1, -1)
            lengths = before + queries
            o, lse = torch.zeros(3, queries, 6, 24, dtype=torch.float64), torch.zeros(3, 6, queries, dtype=torch.float64)
            for b, n in enumerate(before.tolist()):
                mask = torch.cat((torch.ones(queries, n, dtype=torch.bool), keep), 1)
                for h in range(6):
                    scores = self.q[b, :, h].double() @ k[b, :n + queries, h // 3].double().T / 4
                    scores = scores.masked_fill(~mask, -torch.inf)
                    o[b, :, h], lse[b, h] = torch.softmax(scores, 1) @ v[b, :n + queries, h // 3].double(), torch.logsumexp(scores, 1)
            for causal in False, True:
                got = self.decode(k, v, cache_seqlens=lengths, tree_bits=bits, causal=causal)
                self.assert_same(got, (o, lse), rtol=1e-5, atol=1e-5)
        bits = torch.zeros(3, 40, 1, dtype=torch.int32)
        caches = {"q": self.q, "cache_seqlens": lengths}
        self.refuses("tree_bits must have a bit for each of the 40 queries, in words of 32, but got 1", k, v, tree_bits=bits, **caches)
        self.refuses(r"tree_bits must be a tensor \[3, 40, words\] of int32 on cpu, but got torch.int64", k, v, tree_bits=bits.long(),
                     **caches)
        for name, value in (("window_size", (4, 0)), ("alibi_slopes", torch.ones(6))):
            self.refuses(f"{name} must be left out where there are tree_bits", k, v, tree_bits=bits, **{name: value}, **caches)

    def test_fake_tensors(self):
        with torch._subclasses.FakeTensorMode():
            q, k, v = torch.empty(3, 1, 6, 16), torch.empty(3, 40, 2, 16), torch.empty(3, 40, 2, 24)
            o, lse = tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=7, return_softmax_lse=True)
        self.assertEqual((list(o.shape), list(lse.shape)), ([3, 1, 6, 24], [3, 6, 1]))

    def test_the_library_chooses(self):
        """The kernel, and how many rows of a page are copied together. Both used to be decided in Python, too."""
        def choice(queries=1, heads=8, rows=16, packed=False, has_table=True, splits=0, dim=16):
            return cached.choice_of(torch.float16, heads, queries, dim, 2, rows, 16, packed, has_table, False, "none", False,
                                    "", splits)

        self.assertEqual([choice(rows=rows).page_rows for rows in (1, 7, 8, 16, 24, 48, 64, 96, 128, 256)],
                         [1, 1, 8, 16, 8, 16, 64, 32, 128, 128])
        self.assertEqual(choice(17, rows=96).page_rows, 32)
        self.assertEqual([choice(has_table=False).page_rows, choice(17, has_table=False).page_rows], [0, 0])
        for queries, heads, rows in ((0, 8, 1), (1, 256, 1), (3, 8, 4), (16, 16, 16)):
            decode = choice(queries, heads, splits=3)
            self.assertEqual((decode.entry(), decode.group, decode.rows, decode.splits),
                             ("attention_decode", heads // 2, rows, 3))
        for options in ({"queries": 17}, {"heads": 258}, {"queries": 9, "heads": 32}, {"packed": True}, {"dim": 264}):
            self.assertEqual(choice(splits=3, **options).entry(), "attention_forward", options)
        self.assertIs(choice(3), choice(3))

    def refuses(self, message, *caches, q=None, **options):
        with self.assertRaisesRegex(ValueError, message):
            tilewright.flash_attn_with_kvcache(self.q if q is None else q, *(caches or (self.k, self.v)), **options)

    def test_refusals(self):
        table = torch.zeros(3, 1, dtype=torch.int32)
        self.refuses(r"cache_leftpad must be a tensor \[3\] of int32 on cpu, but got torch.int32 \[2\]",
                     cache_leftpad=self.seqlens[:2])
        self.refuses(r"cache_leftpad must be a tensor \[3\] of int32 on cpu, but got torch.int64 \[3\]",
                     cache_leftpad=self.seqlens.long())
        self.refuses("window must be two integers", window_size=(8, -2))
        self.refuses("softcap must be positive and at most 1e18", softcap=-1.0)
        self.refuses("q must be a tensor of four dimensions, but got shape", q=self.q[:, 0])
        self.refuses("v_cache must be of .* as q is, or of float8_e4m3fn, float8_e5m2 or int8, but got torch.float64", self.k,
                     self.v.double())
        self.refuses("k_cache must not require a gradient", self.k.clone().requires_grad_(), self.v)
        self.refuses("k_cache and v_cache must agree in all but their width", self.k, self.v[:, :39])
        self.refuses("q must have a multiple of the 2 heads of k_cache, but got 5", q=self.q[:, :, :5])
        self.refuses("k_cache must have the batch of q, 3, where there is no block_table, but got 2", self.k[:2], self.v[:2])
        self.refuses(r"block_table must be a tensor \[sequences, pages\] of int32 on cpu, but got torch.int64 \[3, 1\] on cpu; "
                     r"convert it with .to\(\)", block_table=table.long())
        self.refuses("block_table must have the batch of q, 3", block_table=table[:2])
        self.refuses(r"cache_seqlens must be a tensor \[3\] of int32 on cpu, but got torch.int32 \[3, 1\]", cache_seqlens=table)
        self.refuses(r"cache_seqlens must be a tensor \[3\] of int32 on cpu, but got torch.int32 \[2\]",
                     cache_seqlens=self.seqlens[:2])
        self.refuses(r"cache_batch_idx must be a tensor \[3\] of int32 on cpu, but got torch.int32 \[2\]",
                     cache_batch_idx=table[:2, 0])
        for wrong in (41, 4.5, "4", True):
            self.refuses(f"cache_seqlens must be a tensor or a number from 0 to 40, but got {wrong!r}", cache_seqlens=wrong)
        for wrong in (-1, 1.5, True):
            self.refuses(f"num_splits must be a number from 0 to 1024, but got {wrong!r}", num_splits=wrong)
        self.refuses("k_cache must be a dense tensor, but got torch.sparse_coo; convert it with .to_dense", self.k.to_sparse(), self.v)
        self.refuses("q must be a tensor, but got list", q=[1])
        self.refuses("v_cache must have a width from 1 to 512, but got 520", self.k, normal(3, 40, 2, 520))

class BlockMaskTest(TorchTest):
    """Listed blocks of a cache, of which others are not read: NaN."""
    lengths = [70, 0, 40, 9]

    def lists(self, heads, blocks, size, batch=4, seed=5):
        """Lists [batch, heads, blocks of queries, 3], which end with numbers that do not count or name no block."""
        generator = torch.Generator().manual_seed(seed)
        order = torch.rand(batch, heads, blocks, 72 // size, generator=generator).argsort(-1)
        counts = torch.randint(0, 5, (batch, heads, blocks), generator=generator).int()
        return counts, torch.nn.functional.pad(order[..., :3], (0, 1), value=99).int(), size

    def kept(self, mask, heads, queries):
        """[4, heads, queries, 72]."""
        counts, indices, size = mask
        valid = torch.arange(indices.shape[-1]) < counts[..., None]
        own = ((indices[..., None] == torch.arange(72) // size) & valid[..., None]).any(3)
        return own.repeat_interleave(heads // own.shape[1], 1).expand(4, -1, -1, -1).repeat_interleave(size, 2)[:, :, :queries]

    def expected(self, q, k, v, kept, causal):
        o, lse = torch.zeros(*q.shape[:3], v.shape[3]).double(), torch.full((4, q.shape[2], q.shape[1]), -torch.inf).double()
        for b, n in enumerate(self.lengths):
            if n:
                one = (x[b:b + 1].transpose(1, 2).double() for x in (q, k[:, :n], v[:, :n]))
                own, lse[b:b + 1] = torch_reference.reference(*one, causal="bottom_right" if causal else False,
                                                              attn_mask=kept[b:b + 1, ..., :n])
                o[b] = own[0].transpose(0, 1)
        return o, lse

    def caches(self, kept, rows):
        """Keys and values without NaN, and with: in one piece, or the pages and their table."""
        k, v = normal(4, 72, 2, 16, seed=2), normal(4, 72, 2, 24, seed=3)
        read = kept.any(2).view(4, 2, 3, 72).any(2).transpose(1, 2)[..., None]  # [4, 72, 2, 1]
        poisoned = [x.masked_fill(~read, torch.nan) for x in (k, v)]
        if not rows:
            return k, v, *poisoned, None
        (k_pages, table), (v_pages, _) = (paged(x, rows) for x in poisoned)
        return k, v, k_pages, v_pages, table

    def test_decodes_and_forwards(self):
        seqlens = torch.tensor(self.lengths, dtype=torch.int32)
        for queries, size, heads, batch in ((1, 16, 2, 4), (3, 16, 1, 4), (4, 32, 2, 1), (1, 16, 6, 4), (20, 16, 2, 4), (20, 32, 6, 1)):
            mask = self.lists(heads, -(-queries // size), size, batch)
            kept = self.kept(mask, 6, queries)
            for rows in (0, 16, 6):
                k, v, *caches, table = self.caches(kept, rows)
                q = normal(4, queries, 6, 16)
                for causal in False, True:
                    with self.subTest(queries=queries, size=size, heads=heads, rows=rows, causal=causal):
                        got = tilewright.flash_attn_with_kvcache(q, *caches, cache_seqlens=seqlens, block_table=table,
                                                                 causal=causal, block_mask=mask, return_softmax_lse=True)
                        self.assert_same(got, self.expected(q, k, v, kept, causal), rtol=1e-5, atol=1e-5)

    def test_packed(self):
        mask = self.lists(2, 2, 16)
        queries = [20, 3, 1, 9]
        kept = self.kept(mask, 6, 20)
        k, v, *caches, table = self.caches(kept, 16)
        q = normal(sum(queries), 6, 16)
        offsets = torch.tensor([0, 20, 23, 24, 33], dtype=torch.int32)
        seqlens = torch.tensor(self.lengths, dtype=torch.int32)
        o, lse, _ = tilewright.flash_attn_varlen_func(q, *caches, offsets, None, 20, 72, causal=True, block_table=table,
                                                      seqused_k=seqlens, block_mask=mask, return_attn_probs=True)
        for b, n in enumerate(queries):
            rows = slice(int(offsets[b]), int(offsets[b + 1]))
            own = q[rows].expand(4, -1, -1, -1)
            expected, expected_lse = self.expected(own, k, v, kept[:, :, :n], True)
            self.assert_same((o[rows], lse[:, rows]), (expected[b], expected_lse[b]), rtol=1e-5, atol=1e-5)

    def test_the_library_chooses(self):
        """A decode, if all queries of a sequence and a group have one list, of blocks that it has code for."""
        def choice(lists, list_heads, queries=1):
            return cached.choice_of(torch.float16, 8, queries, 16, 2, 16, 16, False, True, False, "none", False, "", 3, None,
                                    lists, list_heads)

        for lists, heads, queries in (((16, 64), 2, 1), ((64, 64), 1, 16), ((4, 16), 2, 3), ((1, 256), 2, 1)):
            decode = choice(lists, heads, queries)
            self.assertEqual((decode.entry(), decode.listed, decode.splits), ("attention_decode", lists[1], 3))
        for lists, heads, queries in (((16, 64), 8, 1), ((2, 64), 2, 3), ((16, 48), 2, 1), ((16, 512), 1, 1)):
            forward = choice(lists, heads, queries)
            self.assertEqual((forward.entry(), forward.lists), ("attention_forward", lists))
        self.assertIs(choice((16, 64), 2), choice((16, 64), 2))

    def test_rejects(self):
        q, k, mask = normal(4, 1, 6, 16), normal(4, 72, 2, 16), self.lists(2, 1, 16)
        call = tilewright.flash_attn_with_kvcache
        for text, of in (("block_mask must be left out where there is cache_leftpad: blocks count from the first key",
                          lambda: call(q, k, k, block_mask=mask, cache_leftpad=torch.zeros(4, dtype=torch.int32))),
                         (r"kv_num_blocks of block_mask must have extents of \[4, 6, 1\], or 1 for batches and heads, or 2 for heads, "
                          r"with blocks of 16 queries, but got shape \[4, 3, 1\]", lambda: call(q, k, k, block_mask=self.lists(3, 1, 16))),
                         ("block_mask must be a BlockMask", lambda: call(q, k, k, block_mask=3))):
            with self.assertRaisesRegex(ValueError, text):
                of()


class SinksTest(TorchTest):
    def test_sinks_are_terms_of_the_sum(self):
        k, v, q = normal(2, 40, 2, 16, seed=1), normal(2, 40, 2, 16, seed=2), normal(2, 1, 4, 16, seed=3)
        lengths, sinks = torch.tensor([21, 0], dtype=torch.int32), torch.tensor([-1.0, 0.5, 2.0, -torch.inf])
        plain, lse = tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, return_softmax_lse=True)
        o, with_sinks = tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, return_softmax_lse=True, sinks=sinks)
        expected = torch.logaddexp(lse, sinks[None, :, None])
        self.assert_same((with_sinks,), (expected,), rtol=1e-5, atol=1e-5)
        share = torch.exp(lse - expected).nan_to_num(0).transpose(1, 2)[..., None]
        self.assert_same((o,), (plain * share,), rtol=1e-5, atol=1e-5)


class EightBitCacheTest(TorchTest):
    """Caches of 8 bits under queries of 16 and 32."""

    def test_agrees_with_the_values_that_it_holds(self):
        lengths, group = [21, 0, 40], 4
        for stored in (torch.float8_e4m3fn, torch.float8_e5m2):
            k, v = (normal(3, 40, 2, 16, seed=seed).to(stored) for seed in (1, 2))
            q = normal(3, 1, 2 * group, 16, seed=3, dtype=torch.bfloat16)
            seqlens = torch.tensor(lengths, dtype=torch.int32)
            for factors in (None, torch.tensor([0.5, 1.75]), torch.tensor([[0.5, 1.5], [1.0, 2.0], [0.75, 0.25]])):
                by = torch.ones(3, 2) if factors is None else factors.expand(3, 2)
                o, lse = tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=seqlens, k_descale=factors,
                                                            v_descale=factors, return_softmax_lse=True)
                expected, expected_lse = reference(q, k.float() * by[:, None, :, None], v.float() * by[:, None, :, None],
                                                   lengths, 0.25)
                self.assertLess((o.double() - expected).norm(), 0.005 * expected.norm())
                self.assertTrue(torch.allclose(lse.double(), expected_lse, atol=1e-3))

    def test_chunks_of_prompts(self):
        """More queries than a decode takes, by a forward: of sequences of one length, and packed, in pages."""
        lengths = torch.tensor([21, 18, 40], dtype=torch.int32)
        by = torch.tensor([[0.5, 1.5], [1.0, 2.0], [0.75, 0.25]])
        for stored in (torch.float8_e4m3fn, torch.float8_e5m2):
            k, v = (normal(3, 40, 2, 16, seed=seed).to(stored) for seed in (1, 2))
            q = normal(3, 18, 4, 16, seed=3)
            real = [x.double() * by[:, None, :, None] for x in (k, v)]
            expected, expected_lse = torch.empty(3, 18, 4, 16).double(), torch.empty(3, 4, 18).double()
            for b, n in enumerate(lengths.tolist()):
                one = (x[b:b + 1].transpose(1, 2).double() for x in (q, real[0][:, :n], real[1][:, :n]))
                o, expected_lse[b:b + 1] = torch_reference.reference(*one, causal="bottom_right")
                expected[b] = o[0].transpose(0, 1)
            got = tilewright.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, k_descale=by, v_descale=by, causal=True,
                                                     return_softmax_lse=True)
            self.assert_same(got, (expected, expected_lse), rtol=1e-5, atol=1e-5)
            pages = [x.view(15, 8, 2, 16) for x in (k, v)]
            o, lse, _ = tilewright.flash_attn_varlen_func(
                q.flatten(0, 1), *pages, torch.tensor([0, 18, 36, 54], dtype=torch.int32), None, 18, 40, causal=True,
                block_table=torch.arange(15, dtype=torch.int32).view(3, 5), seqused_k=lengths, k_descale=by, v_descale=by,
                return_attn_probs=True)
            self.assert_same((o.view(3, 18, 4, 16), lse.view(4, 3, 18).transpose(0, 1)), (expected, expected_lse), rtol=1e-5, atol=1e-5)
        q = normal(4, 2, 16)
        starts = torch.tensor([0, 4], dtype=torch.int32)
        with self.assertRaisesRegex(ValueError, "k_descale must be None where there is no block_table: only pages of 8 bits have "
                                                "factors"):
            tilewright.flash_attn_varlen_func(q, q, q, starts, starts, 4, 4, k_descale=torch.ones(2))

    def test_factors_of_each_key(self):
        """New keys and values get factors of their own, by which a decode and packed chunks multiply."""
        k_cache, v_cache = (torch.zeros(6, 8, 2, 16, dtype=torch.float8_e4m3fn) for _ in range(2))
        k_by, v_by = (torch.full((6, 8, 2), torch.nan) for _ in range(2))
        table, lengths = torch.tensor([[4, 1], [0, 3]], dtype=torch.int32), torch.tensor([0, 0], dtype=torch.int32)
        sizes = 10.0 ** torch.linspace(-2, 1, 11)[None, :, None, None]
        k, v, q = (normal(2, 11, heads, 16, seed=seed) for seed, heads in ((1, 2), (2, 2), (3, 4)))
        k, v = k * sizes, v * sizes / 20
        options = dict(block_table=table, causal=True, k_descale=k_by, v_descale=v_by, return_softmax_lse=True)
        o, lse = tilewright.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=lengths, **options)
        stored = [torch.stack([(cache.float() * by[..., None])[table[b].long()].flatten(0, 1)[:11] for b in range(2)])
                  for cache, by in ((k_cache, k_by), (v_cache, v_by))]
        for got, new in zip(stored, (k, v)):
            self.assertTrue(((got - new).abs() <= new.abs().amax(-1, keepdim=True) / 16).all())
        expected = leftpad_reference(q, *stored, [11, 11], [0, 0], causal=True)
        self.assert_same((o, lse), expected, rtol=1e-4, atol=1e-4)
        starts = torch.tensor([0, 11, 22], dtype=torch.int32)
        packed = tilewright.flash_attn_varlen_func(q.flatten(0, 1), k_cache, v_cache, starts, None, 11, 11, causal=True,
                                                   block_table=table, seqused_k=lengths + 11, k_descale=k_by, v_descale=v_by)
        self.assert_same((packed.view(o.shape),), (expected[0],), rtol=1e-4, atol=1e-4)
        for text, by in (("must have pages one behind another", {"k_descale": torch.ones(6, 9, 2)[:, :8]}),
                         ("must both be factors of each key and value", {"k_descale": torch.ones(2)})):
            with self.assertRaisesRegex(Exception, text):
                tilewright.flash_attn_with_kvcache(q, k_cache, v_cache, cache_seqlens=lengths, **options | by)

    def test_new_keys_are_rounded_to_the_type_of_the_cache(self):
        k_cache, v_cache = (torch.zeros(2, 8, 2, 16, dtype=torch.float8_e4m3fn) for _ in range(2))
        k, v = normal(2, 1, 2, 16, seed=1), normal(2, 1, 2, 16, seed=2)
        k[0, 0, 0, 0] = 1e6  # more than the type has
        by = torch.tensor([0.5, 2.0])
        seqlens = torch.tensor([3, 0], dtype=torch.int32)
        tilewright.flash_attn_with_kvcache(normal(2, 1, 4, 16), k_cache, v_cache, k, v, cache_seqlens=seqlens, k_descale=by,
                                           v_descale=by)
        for cache, new in ((k_cache, k), (v_cache, v)):
            wanted = (new[:, 0] / by[:, None]).clamp(-448, 448).to(torch.float8_e4m3fn)
            for b, row in enumerate((3, 0)):
                self.assertTrue(torch.equal(cache[b, row].float(), wanted[b].float()))

    def test_integers(self):
        """New keys and values are rounded to the nearest of -128 to 127."""
        k_cache, v_cache = (torch.zeros(2, 8, 2, 16, dtype=torch.int8) for _ in range(2))
        k, v, q = normal(2, 3, 2, 16, seed=1), normal(2, 3, 2, 16, seed=2), normal(2, 3, 4, 16)
        k[0, 0, 0, 0] = -1e6  # less than the type has
        by, seqlens = torch.tensor([0.03, 0.02]), torch.tensor([3, 0], dtype=torch.int32)
        stored = [(new / by[:, None]).round().clamp(-128, 127) for new in (k, v)]
        got = tilewright.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=seqlens, k_descale=by, v_descale=by,
                                                 causal=True, return_softmax_lse=True)
        for cache, new in ((k_cache, stored[0]), (v_cache, stored[1])):
            for b, row in enumerate((3, 0)):
                self.assertTrue(torch.equal(cache[b, row:row + 3].float(), new[b]))
        whole = [cache.float() * by[:, None] for cache in (k_cache, v_cache)]
        self.assert_same(got, leftpad_reference(q, *whole, [6, 3], [0, 0], causal=True), rtol=1e-5, atol=1e-5)

    def test_rejects(self):
        q = normal(1, 1, 2, 16, dtype=torch.bfloat16)
        k = torch.zeros(1, 8, 2, 16, dtype=torch.float8_e4m3fn)
        call = tilewright.flash_attn_with_kvcache
        for text, of in (("v_cache must have the type of k_cache", lambda: call(q, k, k.to(torch.float8_e5m2))),
                         ("k_cache must be of .*, or of float8_e4m3fn, float8_e5m2 or int8", lambda: call(q, k.int(), k.int())),
                         (r"k_descale must be a tensor \[2\], \[1, 2\] or \[1, 8, 2\] of float32", lambda: call(q, k, k, k_descale=torch.ones(3))),
                         ("k_descale must be None for a cache of torch.bfloat16",
                          lambda: call(q, k.bfloat16(), k.bfloat16(), k_descale=torch.ones(2)))):
            with self.assertRaisesRegex(Exception, text):
                of()

if __name__ == "__main__":
    unittest.main()
