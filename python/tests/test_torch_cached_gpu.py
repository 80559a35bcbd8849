# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several queries of each sequence over a cache, on a GPU, against the formulas in f64. The tests are skipped, with a
message, if there is no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from gpu_inputs import captured  # noqa: E402

import torch  # noqa: E402

import tilewright  # noqa: E402
from torch_reference import reference  # noqa: E402

HEADS, KEY_HEADS = 8, 2


def make(*shape, dtype=torch.bfloat16, seed=1):
    generator = torch.Generator("cuda").manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, device="cuda").to(dtype)


class Call:
    """Packed queries over pages in random order; `room` keys of each sequence are written, and those behind are NaN."""

    def __init__(self, queries, room, rows, width=128, dtype=torch.bfloat16, heads_outside=False):
        self.queries, self.room = queries, room
        self.starts = torch.tensor([0, *torch.tensor(queries).cumsum(0)], dtype=torch.int32, device="cuda")
        self.q = make(sum(queries), HEADS, width, dtype=dtype)
        self.k, self.v = (make(len(queries), room, KEY_HEADS, width, dtype=dtype, seed=seed) for seed in (2, 3))
        columns = -(-room // rows)
        order = torch.randperm(len(queries) * columns + 1, generator=torch.Generator().manual_seed(1))[1:].cuda()
        self.table = order.view(len(queries), columns).int()
        self.pools = []
        for x in (self.k, self.v):
            pool = torch.full((len(order) + 1, rows, KEY_HEADS, width), torch.nan, dtype=dtype, device="cuda")
            if heads_outside:
                pool = pool.transpose(1, 2).contiguous().transpose(1, 2)
            padded = torch.full((len(queries), columns * rows, KEY_HEADS, width), torch.nan, dtype=dtype, device="cuda")
            padded[:, :room] = x
            pool[order] = padded.view(-1, rows, KEY_HEADS, width)
            self.pools.append(pool)

    def run(self, lengths, **options):
        o, lse, _ = tilewright.flash_attn_varlen_func(self.q, *self.pools, self.starts, None, max(self.queries), self.room,
                                                      block_table=self.table, seqused_k=lengths, return_attn_probs=True,
                                                      **options)
        return o, lse

    def expected(self, lengths, causal=True, window_size=None, softcap=0.0, alibi_slopes=None):
        parts = []
        for b, q in enumerate(self.q.split(self.queries)):
            k, v = (x[b, :lengths[b]] for x in (self.k, self.v))
            parts.append(reference(*(x.transpose(0, 1)[None].double() for x in (q, k, v)), window=window_size,
                                   causal="bottom_right" if causal else False, align="bottom_right", softcap=softcap,
                                   alibi_slopes=alibi_slopes))
        return torch.cat([o[0].transpose(0, 1) for o, _ in parts]), torch.cat([lse[0] for _, lse in parts], 1)


class CachedGpuTest(unittest.TestCase):
    def assert_right(self, got, expected):
        for x, want, tolerance in zip(got, expected, (2e-2, 1e-3)):
            self.assertFalse(x.isnan().any())
            torch.testing.assert_close(x.double(), want, rtol=tolerance, atol=tolerance)

    def test_pages(self):
        lengths = [700, 0, 129, 1000]
        on_device = torch.tensor(lengths, dtype=torch.int32, device="cuda")
        slopes = torch.linspace(0.01, 0.5, HEADS, device="cuda")
        for width, dtype in ((64, torch.float16), (128, torch.bfloat16), (256, torch.bfloat16)):
            for rows, outside in ((64, False), (16, False), (16, True), (128, False), (7, False)):
                call = Call([300, 20, 1, 129], 1000, rows, width, dtype, outside)
                for options in ({}, {"window_size": (200, 0), "softcap": 20.0}, {"alibi_slopes": slopes}):
                    with self.subTest(width=width, rows=rows, outside=outside, options=options):
                        self.assert_right(call.run(on_device, causal=True, **options), call.expected(lengths, **options))

    def test_same_bits_in_any_pages(self):
        lengths = torch.tensor([700, 129], dtype=torch.int32, device="cuda")
        results = []
        for rows in (8, 16, 64, 128):
            call = Call([300, 129], 1000, rows)
            results.append(call.run(lengths, causal=True))
        for o, lse in results[1:]:
            self.assertTrue(torch.equal(o, results[0][0]) and torch.equal(lse, results[0][1]))

    def test_a_graph_is_replayed_with_other_lengths(self):
        call = Call([300, 20, 129], 1000, 16)
        lengths = torch.zeros(3, dtype=torch.int32, device="cuda")
        graph, got = captured(lambda: call.run(lengths, causal=True))
        for new in ([0, 0, 0], [1000, 20, 500], [17, 1000, 0]):
            lengths.copy_(torch.tensor(new, dtype=torch.int32))
            graph.replay()
            torch.cuda.synchronize()
            self.assert_right(got, call.expected(new))

    def test_several_queries_of_equal_number(self):
        call = Call([4] * 3, 1000, 64)
        lengths = [700, 4, 1000]
        o, lse = tilewright.flash_attn_with_kvcache(call.q.view(3, 4, HEADS, -1), *call.pools, block_table=call.table,
                                                    cache_seqlens=torch.tensor(lengths, dtype=torch.int32, device="cuda"),
                                                    causal=True, return_softmax_lse=True)
        self.assert_right((o.flatten(0, 1), lse.transpose(0, 1).flatten(1)), call.expected(lengths))


if __name__ == "__main__":
    unittest.main()
