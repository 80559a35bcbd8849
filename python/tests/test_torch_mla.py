# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.flash_mla_with_kvcache against the formulas. Runs on the interpreter: needs PyTorch and tilewright-run, but no
GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, interpret_module, torch  # noqa: E402

import tilewright  # noqa: E402

setUpModule = interpret_module

DIM, VALUE_DIM, HEADS, ROWS = 96, 64, 20, 16


def normal(*shape, seed=1, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def reference(q, k, lengths, scale, causal):
    """O [B, Sq, Hq, DV] and LSE [B, Hq, Sq] for rows k [B, S, D]."""
    queries = q.shape[1]
    o = torch.zeros(*q.shape[:3], VALUE_DIM, dtype=torch.float64)
    lse = torch.full((q.shape[0], q.shape[2], queries), -torch.inf, dtype=torch.float64)
    for b, length in enumerate(lengths):
        for i in range(queries):
            own = k[b, :max(length - (queries - 1 - i if causal else 0), 0)].double()
            if len(own):
                scores = q[b, i].double() @ own.T * scale
                o[b, i] = torch.softmax(scores, -1) @ own[:, :VALUE_DIM]
                lse[b, :, i] = torch.logsumexp(scores, -1)
    return o, lse


class MlaTest(TorchTest):
    def setUp(self):
        self.lengths = [33, 0, 40, 1]
        self.q, self.k = normal(4, 2, HEADS, DIM), normal(4, 48, DIM, seed=2)
        self.seqlens = torch.tensor(self.lengths, dtype=torch.int32)
        self.table = torch.randperm(14, generator=torch.Generator().manual_seed(3))[:12].view(4, 3)
        self.pages = torch.full((14, ROWS, 1, DIM), torch.nan)
        self.pages[self.table] = self.k.view(4, 3, ROWS, 1, DIM)
        for b, length in enumerate(self.lengths):  # unused rows
            self.pages[self.table[b]] = torch.where(torch.arange(48).view(3, ROWS, 1, 1) < length, self.pages[self.table[b]],
                                                    torch.nan)
        self.table = self.table.int()

    def test_pages_and_masks(self):
        for causal, splits in ((False, None), (True, 2), (True, torch.empty(0, dtype=torch.int32))):
            got = tilewright.flash_mla_with_kvcache(self.q, self.pages, self.table, self.seqlens, VALUE_DIM, None, splits,
                                                    causal=causal)
            self.assert_same(got, reference(self.q, self.k, self.lengths, DIM ** -0.5, causal), rtol=1e-5, atol=1e-5)

    def test_rows_of_bytes(self):
        """FlashMLA's rows: e4m3, a factor for each quarter of them, and the other columns as they are."""
        k = self.k * torch.cat([10.0 ** torch.linspace(-2, 0, 4).repeat_interleave(VALUE_DIM // 4), torch.ones(DIM - VALUE_DIM)])
        latent = k[..., :VALUE_DIM].unflatten(-1, (4, VALUE_DIM // 4))
        by = latent.abs().amax(-1, keepdim=True) / 448
        stored = (latent / by).to(torch.float8_e4m3fn)
        rows = torch.cat([stored.flatten(-2).view(torch.uint8), by[..., 0].contiguous().view(torch.uint8),
                          k[..., VALUE_DIM:].contiguous().view(torch.uint8)], -1)
        pages = torch.full((14, ROWS, 1, rows.shape[-1]), 0x7f, dtype=torch.uint8)  # NaN in e4m3
        pages[self.table.long()] = rows.view(4, 3, ROWS, 1, -1)
        for kind in (torch.uint8, torch.float8_e4m3fn):
            got = tilewright.flash_mla_with_kvcache(self.q, pages.view(kind), self.table, self.seqlens, VALUE_DIM, causal=True,
                                                    is_fp8_kvcache=True)
            k_stored = torch.cat([(stored.float() * by).flatten(-2), k[..., VALUE_DIM:]], -1)
            self.assert_same(got, reference(self.q, k_stored, self.lengths, DIM ** -0.5, True), rtol=1e-5, atol=1e-5)
        for text, cache, width in (("k_cache must have 1 head and rows of 208 bytes", pages[..., :200], VALUE_DIM),
                                   ("k_cache must have dense rows", pages.repeat(1, 1, 1, 2)[..., ::2], VALUE_DIM),
                                   ("head_dim_v must be a multiple of 64 and less than 96", pages, 96)):
            with self.assertRaisesRegex(Exception, text):
                tilewright.flash_mla_with_kvcache(self.q, cache, self.table, self.seqlens, width, is_fp8_kvcache=True)

    def test_one_piece_and_scale(self):
        k = self.k[:, :, None]
        got = tilewright.flash_mla_with_kvcache(self.q, k, None, self.seqlens, VALUE_DIM, softmax_scale=0.25)
        self.assert_same(got, reference(self.q, self.k, self.lengths, 0.25, False), rtol=1e-5, atol=1e-5)

    def test_metadata_is_accepted(self):
        metadata, splits = tilewright.get_mla_metadata(self.seqlens, 2 * HEADS, 1)
        o, _ = tilewright.flash_mla_with_kvcache(self.q, self.pages, self.table, self.seqlens, VALUE_DIM, metadata, splits)
        self.assertEqual(o.shape, (4, 2, HEADS, VALUE_DIM))

    def test_operator(self):
        torch.library.opcheck(torch.ops.tilewright.mla_decode.default,
                              (self.q.transpose(1, 2), self.pages, self.table, self.seqlens, VALUE_DIM, 0.25, True, 0),
                              test_utils=("test_schema", "test_faketensor"))

    def test_refusals(self):
        call = tilewright.flash_mla_with_kvcache
        good = dict(q=self.q, k_cache=self.pages, block_table=self.table, cache_seqlens=self.seqlens, head_dim_v=VALUE_DIM)
        for text, changes in (
                ("q must be a tensor of four dimensions", {"q": self.q[0]}),
                ("k_cache must be of float16", {"k_cache": self.pages.half()}),
                ("q must not require a gradient", {"q": self.q.clone().requires_grad_()}),
                ("k_cache must have 1 head and the width of q, 96", {"k_cache": self.pages[..., :64]}),
                ("q must have 1 to 128 heads, but got 160", {"q": self.q.repeat(1, 1, 8, 1)}),
                ("head_dim_v must be a multiple of 32 from 32 to 96 where q has 96 columns, but got 40", {"head_dim_v": 40}),
                ("head_dim_v must be", {"head_dim_v": 128}),
                ("block_table must have the batch of q, 4", {"block_table": self.table[:2]}),
                ("k_cache must have the batch of q, 4, where there is no block_table, but got 14", {"block_table": None}),
                ("cache_seqlens must be a tensor", {"cache_seqlens": self.seqlens[:3]}),
                ("num_splits must be None, a tensor, or a number from 0 to 1024, but got 2000", {"num_splits": 2000})):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                call(**{**good, **changes})


if __name__ == "__main__":
    unittest.main()
