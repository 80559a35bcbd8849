# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.merge_states and tilewright.cascade on a GPU. The tests are skipped, with a message, if there is no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gpu_inputs import captured  # noqa: E402
from torch_on_cpu import TorchTest, torch  # noqa: E402

import tilewright  # noqa: E402
from test_torch_decode import normal, paged  # noqa: E402
from test_torch_merge import attention, merged  # noqa: E402


class MergeTest(TorchTest):
    def test_parts(self):
        for dtype, to, heads, width, count, base2 in (
                (torch.bfloat16, torch.bfloat16, 64, 128, 2, False), (torch.float16, torch.float32, 9, 64, 5, False),
                (torch.float32, torch.float32, 3, 40, 3, True), (torch.bfloat16, torch.bfloat16, 8, 128, 33, False)):
            for offset in (0, 1):  # rows that are not aligned
                with self.subTest(dtype=dtype, count=count, offset=offset):
                    o, lse = normal(70, count, heads, width, dtype=dtype), 9 * normal(70, count, heads, seed=2)
                    lse[3, 1:], lse[5] = -torch.inf, -torch.inf
                    o = torch.where(lse[..., None] > -torch.inf, o, torch.nan)
                    moved = torch.empty(o.numel() + offset, dtype=dtype, device="cuda")[offset:].view(o.shape)
                    moved.copy_(o)
                    got = tilewright.merge_states(moved, lse.cuda(), base2=base2, dtype=to)
                    tolerance = {torch.bfloat16: 2.0**-7, torch.float32: 1e-5}[to]
                    self.assert_same([x.cpu() for x in got], merged(o, lse, base2), rtol=tolerance, atol=tolerance)

    def test_two_parts_in_a_graph(self):
        o, lse = normal(2, 33, 64, 128, dtype=torch.bfloat16).cuda(), normal(2, 33, 64, seed=2).cuda()
        arguments = o[0], lse[0], o[1], lse[1]
        graph, got = captured(lambda: tilewright.merge_state(*arguments))
        lse.mul_(-3)
        graph.replay()
        expected = merged(o.transpose(0, 1).cpu(), lse.transpose(0, 1).cpu())
        self.assert_same([x.cpu() for x in got], expected, rtol=2.0**-7, atol=2.0**-7)


class CascadeTest(TorchTest):
    def check(self, dtype, batch, queries, heads, key_heads, width, shared, rows, causal=False):
        """The lengths change between a call and a replay."""
        lengths = [(37 * b + 5) % 300 + queries for b in range(batch)]
        q, scale = normal(batch, queries, heads, width, dtype=dtype), width ** -0.5
        k, v = (normal(batch, 400, key_heads, width, seed=seed, dtype=dtype) for seed in (2, 3))
        first = [normal(1, shared, key_heads, width, seed=seed, dtype=dtype) for seed in (4, 5)]
        own, table = zip(*(paged(x, rows) for x in (k, v)))
        pools, tables = zip(*(paged(x, rows, seed=5) for x in first))
        caches = [torch.cat(pair).cuda() for pair in zip(own, pools)]
        seq_lens, number = torch.tensor(lengths, dtype=torch.int32, device="cuda"), torch.tensor([shared]).int().cuda()
        options = {"shared_table": (tables[0][0] + own[0].shape[0]).cuda(), "block_table": table[0].cuda(), "cache_seqlens": seq_lens,
                   "causal": causal, "softmax_scale": scale, "return_softmax_lse": True}
        given = q.cuda()

        def call():
            return tilewright.cascade(given, *caches, number, **options)

        def expected(lengths, shared):
            keys = [[torch.cat((f[0, :shared], x[b, :n])) for b, n in enumerate(lengths)] for f, x in zip(first, (k, v))]
            return attention(q, *keys, causal_from=shared if causal else None)
        tolerance = {torch.bfloat16: 2.0**-6, torch.float16: 2.0**-9}[dtype]
        self.assert_same([x.cpu() for x in call()], expected(lengths, shared), rtol=tolerance, atol=tolerance)
        graph, got = captured(call)
        lengths = [n + 60 for n in lengths]
        seq_lens.add_(60)
        number.sub_(70)
        graph.replay()
        self.assert_same([x.cpu() for x in got], expected(lengths, shared - 70), rtol=tolerance, atol=tolerance)

    def test_one_new_row(self):
        self.check(torch.float16, 37, 1, 8, 2, 64, 1000, 16)
        self.check(torch.bfloat16, 64, 1, 16, 2, 128, 3000, 64)

    def test_several_new_rows(self):
        self.check(torch.float16, 5, 4, 8, 2, 64, 500, 16, causal=True)


if __name__ == "__main__":
    unittest.main()
