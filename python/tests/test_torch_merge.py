# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.merge_states and tilewright.cascade against the formulas. Runs on the interpreter: needs PyTorch and
tilewright-run, but no GPU."""

import math
import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, interpret_module, torch  # noqa: E402

import tilewright  # noqa: E402
from test_torch_decode import normal, paged  # noqa: E402
from tilewright import plans, prefix  # noqa: E402

setUpModule = interpret_module
EPSILON = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def merged(o, lse, base2=False):
    """O [M, H, D] and LSE [M, H] of parts [M, N, H, D] and [M, N, H]."""
    factor = math.log(2) if base2 else 1.0
    total = torch.logsumexp(lse.double() * factor, 1)
    weights = torch.exp(lse.double() * factor - total[:, None].clamp(min=-1e300))
    known = torch.where(weights[..., None] > 0, o.double(), 0.0)
    return (weights[..., None] * known).sum(1), total / factor


def attention(q, k, v, softcap=0.0, causal_from=None):
    """O [B, Sq, Hq, DV] and LSE [B, Hq, Sq] of q [B, Sq, Hq, D]; k and v are lists of [keys, Hkv, width] of each sequence. From
    key causal_from on, query i attends no key behind the one at its distance from the last."""
    o, lse = q.new_zeros((*q.shape[:3], v[0].shape[2]), dtype=torch.float64), []
    for b, (own_k, own_v) in enumerate(zip(k, v)):
        group, queries, keys = q.shape[2] // own_k.shape[1], q.shape[1], own_k.shape[0]
        scores = torch.einsum("ihd,jhd->hij", q[b].double(), own_k.double().repeat_interleave(group, 1)) * q.shape[3] ** -0.5
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        if causal_from is not None:
            j, i = torch.arange(keys), torch.arange(queries)[:, None]
            scores = scores.masked_fill((j > i + keys - queries) & (j >= causal_from), -math.inf)
        lse.append(torch.logsumexp(scores, 2))
        if keys:
            o[b] = torch.einsum("hij,jhd->ihd", torch.softmax(scores, 2), own_v.double().repeat_interleave(group, 1))
    return o, torch.stack(lse)


class MergeTest(TorchTest):
    def parts(self, rows=5, count=3, heads=4, width=24, dtype=torch.float32, seed=1):
        """Some parts without keys, whose O is NaN; all of row 2."""
        o = normal(rows, count, heads, width, seed=seed, dtype=dtype)
        lse = 5 * normal(rows, count, heads, seed=seed + 1, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
        lse[1, 0, :2], lse[2] = -math.inf, -math.inf
        return torch.where(lse[..., None] > -math.inf, o, math.nan), lse

    def check(self, got, expected, dtype):
        self.assertEqual(got[0].dtype, dtype)
        self.assert_same(got[:1], expected[:1], rtol=EPSILON[dtype], atol=EPSILON[dtype])
        self.assert_same(got[1:], expected[1:], rtol=1e-6, atol=1e-6)

    def test_any_number_of_parts(self):
        for dtype, count in ((torch.float64, 2), (torch.float32, 1), (torch.float16, 5), (torch.bfloat16, 9)):
            for base2 in (False, True):
                with self.subTest(dtype=dtype, base2=base2):
                    o, lse = self.parts(count=count, dtype=dtype)
                    expected = merged(o, lse, base2)
                    self.assertTrue(bool((expected[0][2] == 0).all() and (expected[1][2] == -math.inf).all()))
                    self.check(tilewright.merge_states(o, lse, base2=base2), expected, dtype)

    def test_strides(self):
        """Parts outside of rows, and LSE by head and row, as attention returns it."""
        o, lse = self.parts()
        outside = o.transpose(0, 1).contiguous().transpose(0, 1)
        by_head = lse.permute(1, 2, 0).contiguous().permute(2, 0, 1)
        self.check(tilewright.merge_states(outside, by_head), merged(o, lse), torch.float32)
        columns = o.transpose(2, 3).contiguous().transpose(2, 3)
        self.check(tilewright.merge_states(columns, lse), merged(o, lse), torch.float32)

    def test_two_parts_in_arrays_of_their_own(self):
        o, lse = self.parts(count=2, dtype=torch.float16)
        for base2 in (False, True):
            got = tilewright.merge_state(o[:, 0], lse[:, 0], o[:, 1].clone(), lse[:, 1].clone(), base2=base2)
            self.check(got, merged(o, lse, base2), torch.float16)

    def test_result_of_another_type(self):
        o, lse = self.parts()
        for dtype in (torch.bfloat16, torch.float16):
            self.check(tilewright.merge_states(o, lse, dtype=dtype), merged(o, lse), dtype)

    def test_attention_over_parts_of_the_keys(self):
        q, k, v = normal(3, 1, 6, 16), normal(3, 70, 2, 16, seed=2), normal(3, 70, 2, 24, seed=3)
        parts = [tilewright.flash_attn_with_kvcache(q, k[:, a:b], v[:, a:b], return_softmax_lse=True)
                 for a, b in ((0, 20), (20, 21), (21, 70))]
        got = tilewright.merge_states(torch.stack([o[:, 0] for o, _ in parts], 1), torch.stack([lse[..., 0] for _, lse in parts], 1))
        o, lse = attention(q, k, v)
        self.check(got, (o[:, 0], lse[..., 0]), torch.float32)

    def test_no_rows(self):
        o, lse = tilewright.merge_states(torch.ones(0, 2, 3, 8), torch.ones(0, 2, 3))
        self.assertEqual((list(o.shape), list(lse.shape)), ([0, 3, 8], [0, 3]))

    def test_fake_tensors_and_compile(self):
        with torch._subclasses.FakeTensorMode():
            o, lse = tilewright.merge_states(torch.empty(5, 2, 4, 24), torch.empty(5, 2, 4), dtype=torch.bfloat16)
            self.assertEqual((list(o.shape), o.dtype, list(lse.shape), lse.dtype), ([5, 4, 24], torch.bfloat16, [5, 4], torch.float32))
            o, lse = tilewright.merge_state(torch.empty(5, 4, 24), torch.empty(5, 4), torch.empty(5, 4, 24), torch.empty(5, 4))
            self.assertEqual((list(o.shape), list(lse.shape)), ([5, 4, 24], [5, 4]))
        o, lse = self.parts()
        step = torch.compile(lambda o, lse: tilewright.merge_states(2 * o, lse), fullgraph=True, backend="aot_eager")
        self.check(step(o, lse), merged(2 * o, lse), torch.float32)

    def test_opcheck(self):
        o, lse = (x.nan_to_num(0, neginf=-9) for x in self.parts())
        for arguments in ((o, lse, None, None, None, False), (o, lse, o[:, 0], lse[:, 0], torch.float16, True)):
            torch.library.opcheck(torch.ops.tilewright.merge.default, arguments, test_utils=("test_schema", "test_faketensor"))

    def refuses(self, message, function, *arguments, **options):
        with self.assertRaisesRegex(ValueError, message):
            function(*arguments, **options)

    def test_refusals(self):
        o, lse = self.parts()
        states, state = tilewright.merge_states, tilewright.merge_state
        self.refuses(r"o must be a tensor \[rows, parts, heads, width\] of float16.* but got torch.float32 \[5, 4, 24\]", states, o[:, 0],
                     lse)
        self.refuses("of a width from 1 to 1024, but got torch.float32 \\[1, 1, 1, 1025\\]", states, torch.ones(1, 1, 1, 1025), lse)
        self.refuses(r"lse must be a tensor \[5, 3, 4\] of torch.float32 on cpu, but got torch.float32 \[5, 2, 4\]", states, o, lse[:, :2])
        self.refuses(r"lse must be a tensor .* of torch.float32 on cpu, but got torch.float64", states, o, lse.double())
        self.refuses("o must have at least 1 part, but got 0", states, o[:, :0], lse[:, :0])
        self.refuses("dtype must be float16, .* or None, but got torch.int32", states, o, lse, dtype=torch.int32)
        self.refuses("lse must not require a gradient: merging has none", states, o, lse.clone().requires_grad_())
        self.refuses(r"o_a must be a tensor \[rows, heads, width\] of", state, o, lse, o, lse)
        self.refuses(r"o_b must be as o_a, torch.float32 \[5, 4, 24\] on cpu, but got torch.float16", state, o[:, 0], lse[:, 0],
                     o[:, 1].half(), lse[:, 1])
        self.refuses(r"lse_b must be a tensor \[5, 4\] of", state, o[:, 0], lse[:, 0], o[:, 1], lse[:, 1, :1])


class CascadeTest(TorchTest):
    def check(self, q, shared, lengths, rows, *, dtype=torch.float32, causal=False, softcap=0.0, as_tensor=False, dense=False,
              num_splits=0, heads=2):
        """Shared and own keys in one pool of pages of `rows` rows, or all in one piece."""
        batch, queries, width = q.shape[0], q.shape[1], q.shape[3]
        k, v = normal(batch, max(lengths), heads, width, seed=2, dtype=dtype), normal(batch, max(lengths), heads, 24, seed=3, dtype=dtype)
        first = [normal(1, shared, heads, w, seed=w, dtype=dtype) for w in (width, 24)]
        keys = [[torch.cat((f[0], x[b, :n])) for b, n in enumerate(lengths)] for f, x in zip(first, (k, v))]
        o, lse = attention(q, *keys, softcap, shared if causal else None)
        for x in (k, v):
            for b, n in enumerate(lengths):
                x[b, n:] = math.nan
        caches, options = (k, v), {"cache_seqlens": torch.tensor(lengths, dtype=torch.int32)}
        if rows:
            own, table = zip(*(paged(x, rows) for x in (k, v)))
            pools, tables = zip(*(paged(x, rows, seed=5) for x in first))
            count = own[0].shape[0]
            caches = [torch.cat(pair) for pair in zip(own, pools)]
            options |= {"block_table": table[0], "shared_table": tables[0][0] + count}
        if dense or not rows:
            options.pop("shared_table", None)
            options |= {"shared_k": first[0][0], "shared_v": first[1][0]}
        length = torch.tensor([shared], dtype=torch.int32) if as_tensor else shared
        got = tilewright.cascade(q, *caches, length, causal=causal, softcap=softcap, num_splits=num_splits, return_softmax_lse=True,
                                 **options)
        epsilon = {torch.float32: 2e-5, torch.bfloat16: 2.0**-6}[dtype]
        self.assertEqual(got[0].dtype, dtype)
        self.assert_same(got, (o, lse), rtol=epsilon, atol=epsilon)

    def test_one_new_row(self):
        """5 sequences in tiles of 8 queries; one has no keys of its own."""
        for as_tensor in (False, True):
            self.check(normal(5, 1, 4, 16), 150, [33, 0, 40, 1, 17], 16, as_tensor=as_tensor)

    def test_more_rows_than_a_tile(self):
        for group, batch in ((2, 19), (8, 20), (64, 5), (160, 2)):
            with self.subTest(group=group):
                self.check(normal(batch, 1, 2 * group, 16), 70, [5 + b for b in range(batch)], 16)

    def test_several_new_rows(self):
        for causal in (False, True):
            self.check(normal(3, 4, 4, 16), 100, [33, 4, 40], 16, causal=causal)

    def test_forms_of_caches(self):
        self.check(normal(3, 1, 4, 16), 96, [33, 7, 40], 0)
        self.check(normal(3, 1, 4, 16), 97, [33, 7, 40], 16, dense=True)
        self.check(normal(3, 1, 4, 16), 97, [33, 7, 40], 7)

    def test_lengths_types_and_modifiers(self):
        self.check(normal(3, 1, 4, 16), 0, [33, 7, 40], 16)
        self.check(normal(3, 1, 4, 16), 80, [0, 0, 1], 16)
        self.check(normal(3, 1, 4, 16), 90, [33, 7, 40], 16, softcap=1.5)
        self.check(normal(3, 1, 4, 16, dtype=torch.bfloat16), 90, [33, 7, 40], 16, dtype=torch.bfloat16)

    def test_parts(self):
        self.check(normal(3, 1, 4, 16), 300, [190, 7, 40], 16, num_splits=3)

    def test_queries_of_a_tile(self):
        for group, queries, each in ((1, 64, 16), (8, 64, 16), (8, 5, 8), (9, 64, 8), (64, 64, 2), (128, 64, 1), (200, 9, 1), (8, 1, 1)):
            self.assertEqual(prefix.queries_of_tile(group, queries), each, (group, queries))

    def test_shared_keys_are_attended_in_tiles_of_rows(self):
        """Keys are read once for 16 queries and all heads of a group."""
        launch = plans.launch
        for batch, q, table in ((32, [2, 4, 16, 16], [2, 4]), (20, [1, 4, 20, 16], [2, 4])):
            seen = []

            def note(plan, values, *rest):
                seen.append({name: list(x.shape) for name, x in values.items() if hasattr(x, "shape")})
                return launch(plan, values, *rest)
            with mock.patch.object(prefix, "launch", note):
                self.check(normal(batch, 1, 4, 16), 64, [5] * batch, 16)
            self.assertEqual([(x["q"], x["block_table"]) for x in seen], [(q, table), ([batch, 4, 1, 16], [batch, 1])])
            self.assertEqual(seen[0].get("cu_seqlens_q"), None if batch == 32 else [3])

    def test_fake_tensors_and_compile(self):
        q, k, shared = normal(3, 1, 4, 16), normal(3, 9, 2, 16), normal(40, 2, 16)
        lengths = torch.tensor([9, 0, 4], dtype=torch.int32)

        def step(q, k, shared, lengths):
            return tilewright.cascade(q, k, k, 40, shared_k=shared, shared_v=shared, cache_seqlens=lengths, return_softmax_lse=True)
        with torch._subclasses.FakeTensorMode() as mode:
            o, lse = step(*(mode.from_tensor(x) for x in (q, k, shared, lengths)))
        self.assertEqual((list(o.shape), list(lse.shape)), ([3, 1, 4, 16], [3, 4, 1]))
        expected = step(q, k, shared, lengths)
        got = torch.compile(step, fullgraph=True, backend="aot_eager")(q, k, shared, lengths)
        self.assert_same(got, expected, rtol=0, atol=0)

    def test_no_rows(self):
        k, lengths = normal(0, 9, 2, 16), torch.zeros(0, dtype=torch.int32)
        o = tilewright.cascade(normal(0, 1, 4, 16), k, k, 4, shared_k=normal(4, 2, 16), shared_v=normal(4, 2, 16), cache_seqlens=lengths)
        self.assertEqual(list(o.shape), [0, 1, 4, 16])

    def refuses(self, message, *arguments, **options):
        with self.assertRaisesRegex(ValueError, message):
            tilewright.cascade(*arguments, **options)

    def test_refusals(self):
        q, k, shared, lengths = normal(3, 1, 4, 16), normal(3, 9, 2, 16), normal(40, 2, 16), torch.tensor([9, 0, 4]).int()
        both = {"shared_k": shared, "shared_v": shared}
        table = torch.zeros(2, dtype=torch.int32)
        given = both | {"cache_seqlens": lengths}
        self.refuses("either shared_table, or shared_k and shared_v must be given", q, k, k, 4, cache_seqlens=lengths)
        self.refuses("either shared_table, or shared_k and shared_v must be given", q, k, k, 4, shared_table=table, **given)
        self.refuses("shared_k and shared_v must both be given, or both be None", q, k, k, 4, shared_k=shared, cache_seqlens=lengths)
        self.refuses(r"shared_k must have the heads of k_cache, .* but got \[40, 1, 16\]", q, k, k, 4, shared_k=shared[:, :1],
                     shared_v=shared[:, :1], cache_seqlens=lengths)
        self.refuses(r"shared_table must be a tensor \[pages\] of int32 on cpu, but got torch.int64", q, k, k, 4, shared_table=table.long(),
                     cache_seqlens=lengths)
        for wrong, shown in ((41, "41"), (-1, "-1"), (2.5, "2.5")):
            self.refuses(f"shared_keys must be a tensor or a number from 0 to 40, but got {shown}", q, k, k, wrong, **given)
        self.refuses("shared_keys must be a number|shared_keys must be a tensor .* of int32", q, k, k, torch.tensor([4]), **given)
        self.refuses(r"cache_seqlens must be a tensor \[3\] of int32 on cpu, but got None", q, k, k, 4, **both)
        self.refuses("k_cache must have the batch of q, 3, where there is no block_table, but got 2", q, k[:2], k[:2], 4, **given)
        self.refuses("num_splits must be a number from 0 to 1024, but got -1", q, k, k, 4, num_splits=-1, **given)
        self.refuses("q must not require a gradient: cascade has none", q.clone().requires_grad_(), k, k, 4, **given)


if __name__ == "__main__":
    unittest.main()
