# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The names and conventions of FlashAttention 3, most of all in tilewright.flash_attn_with_kvcache, against the formulas. Runs on the
interpreter: needs PyTorch and tilewright-run, but no GPU."""

import inspect
import itertools
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


# The arguments of flash_attn's functions after q, k and v and those without a default, in their order: version 2.8, and
# flash_attn_interface of version 3.
VERSION_2 = {
    "flash_attn_with_kvcache":
        "k v rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad block_table softmax_scale causal window_size softcap "
        "rotary_interleaved alibi_slopes num_splits return_softmax_lse",
    "flash_attn_varlen_func":
        "dropout_p softmax_scale causal window_size softcap alibi_slopes deterministic return_attn_probs block_table",
    "flash_attn_func": "dropout_p softmax_scale causal window_size softcap alibi_slopes deterministic return_attn_probs"}
VERSION_3 = {
    "flash_attn_with_kvcache":
        "k v qv rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad page_table cu_seqlens_q cu_seqlens_k_new "
        "max_seqlen_q rotary_seqlens q_descale k_descale v_descale softmax_scale causal window_size attention_chunk softcap "
        "rotary_interleaved scheduler_metadata num_splits pack_gqa sm_margin return_softmax_lse",
    "flash_attn_varlen_func":
        "seqused_q seqused_k softmax_scale causal qv q_descale k_descale v_descale window_size attention_chunk softcap num_splits "
        "pack_gqa deterministic sm_margin return_attn_probs",
    "flash_attn_func":
        "softmax_scale causal qv q_descale k_descale v_descale window_size attention_chunk softcap num_splits pack_gqa deterministic "
        "sm_margin return_attn_probs",
    "get_scheduler_metadata":
        "qkv_dtype headdim_v cu_seqlens_q cu_seqlens_k_new cache_leftpad page_size max_seqlen_k_new causal window_size "
        "attention_chunk has_softcap num_splits pack_gqa sm_margin"}
DEFAULTS = {"dropout_p": 0.0, "causal": False, "window_size": (-1, -1), "softcap": 0.0, "deterministic": False,
            "return_attn_probs": False, "return_softmax_lse": False, "rotary_interleaved": True, "attention_chunk": 0, "sm_margin": 0,
            "qkv_dtype": torch.bfloat16, "max_seqlen_k_new": 0, "has_softcap": False}  # of others None


class SignaturesTest(TorchTest):
    def test_names_and_defaults(self):
        for functions in VERSION_2, VERSION_3:
            for function, names in functions.items():
                own = inspect.signature(getattr(tilewright, function)).parameters
                for name in names.split():
                    default = DEFAULTS.get(name)
                    if name == "num_splits":
                        default = 1 if function in ("flash_attn_func", "flash_attn_varlen_func") else 0
                    with self.subTest(function=function, name=name):
                        self.assertEqual(own[name].default, default)

    def test_order(self):
        """Positional arguments are those of version 2; get_scheduler_metadata, which that has not, has those of version 3."""
        for function, names in {**VERSION_2, "get_scheduler_metadata": VERSION_3["get_scheduler_metadata"]}.items():
            own = [name for name, x in inspect.signature(getattr(tilewright, function)).parameters.items()
                   if x.default is not x.empty and x.kind is x.POSITIONAL_OR_KEYWORD]
            self.assertEqual(own[:len(names.split())], names.split())

    def test_what_has_no_effect(self):
        """num_splits, pack_gqa and sm_margin of the functions without a cache."""
        q, k, v = normal(2, 5, 6, 16), normal(2, 9, 2, 16, seed=2), normal(2, 9, 2, 24, seed=3)
        unused = dict(num_splits=3, pack_gqa=True, sm_margin=8, attention_chunk=0)
        expected = tilewright.flash_attn_func(q, k, v, causal=True)
        self.assert_same((tilewright.flash_attn_func(q, k, v, causal=True, **unused),), (expected,), rtol=0, atol=0)
        flat, starts_q, starts_k = [x.flatten(0, 1) for x in (q, k, v)], int32(0, 5, 10), int32(0, 9, 18)
        got = tilewright.flash_attn_varlen_func(*flat, starts_q, starts_k, 5, 9, causal=True, **unused)
        self.assert_same((got,), (expected.flatten(0, 1),), **TOLERANCE)
        got = tilewright.flash_attn_varlen_func(flat[0], k, v, starts_q, None, 5, 9, causal=True, block_table=int32(0, 1)[:, None],
                                                seqused_k=int32(9, 9), **unused)
        self.assert_same((got,), (expected.flatten(0, 1),), **TOLERANCE)

    def test_what_there_is_instead(self):
        """The remedies that refusals of qv and of attention_chunk without pages name."""
        q, qv = normal(2, 5, 6, 16), normal(2, 5, 6, 24, seed=5)
        k, v = normal(2, 9, 2, 16, seed=2), normal(2, 9, 2, 24, seed=3)
        wide_k, wide_v = (x.double().repeat_interleave(3, 2) for x in (k, v))
        scores = torch.einsum("bihd,bjhd->bhij", q.double(), wide_k) + torch.einsum("bihd,bjhd->bhij", qv.double(), wide_v)
        expected = torch.einsum("bhij,bjhd->bihd", torch.softmax(scores * 40 ** -0.5, -1), wide_v)
        got = tilewright.flash_attn_func(torch.cat((q, qv), -1), torch.cat((k, v), -1), v)
        self.assert_same((got,), (expected,), **TOLERANCE)
        q = normal(1, 9, 2, 16)
        i = torch.arange(9)
        keep = (i[:, None] // 4 == i // 4) & (i <= i[:, None])
        scores = torch.einsum("bihd,bjhd->bhij", q.double(), k[:1].double()) * 0.25
        expected = torch.einsum("bhij,bjhd->bihd", torch.softmax(scores.masked_fill(~keep, -torch.inf), -1), v[:1].double())
        chunks = int32(0, 4, 8, 9)
        got = tilewright.flash_attn_varlen_func(q[0], k[0], v[0], chunks, chunks, 4, 4, causal=True)
        self.assert_same((got,), (expected[0],), **TOLERANCE)


def chunks_reference(q, k, v, lengths, chunk, leftpad=(0, 0, 0), causal=False, window_size=(-1, -1)):
    """O and LSE of queries that attend keys of their own chunk of positions, each query by itself."""
    batch, queries, heads = q.shape[:3]
    o, lse = torch.zeros(batch, queries, heads, v.shape[3]).double(), torch.full((batch, heads, queries), -torch.inf).double()
    for b, i in itertools.product(range(batch), range(queries)):
        own = lengths[b] - leftpad[b]
        at, j = own - queries + i, torch.arange(own)
        keep = torch.div(j, chunk, rounding_mode="floor") == at // chunk
        keep &= (j <= at) | (not causal)
        keep &= (j >= at - window_size[0]) | (window_size[0] < 0)
        keep &= (j <= at + window_size[1]) | (window_size[1] < 0)
        if not keep.any():
            continue
        wide_k, wide_v = (x[b, leftpad[b]:lengths[b]][keep].double().repeat_interleave(heads // k.shape[2], 1) for x in (k, v))
        scores = torch.einsum("hd,jhd->hj", q[b, i].double(), wide_k) * q.shape[3] ** -0.5
        o[b, i], lse[b, :, i] = torch.einsum("hj,jhd->hd", torch.softmax(scores, -1), wide_v), torch.logsumexp(scores, -1)
    return o, lse


class ChunksTest(TorchTest):
    """attention_chunk: a query attends keys of its own chunk of positions."""

    def setUp(self):
        self.k, self.v = normal(3, 72, 2, 16, seed=2), normal(3, 72, 2, 24, seed=3)
        self.lengths, self.leftpad = [65, 3, 72], [7, 0, 40]

    def test_chunks(self):
        """In pages and not, few queries and many, beginning before the first key, with each mask and padding on the left."""
        for queries, chunk, rows, pad, options in (
                (1, 16, 0, False, {"causal": True}), (1, 16, 8, True, {}), (3, 8, 0, True, {"causal": True}),
                (5, 32, 16, False, {"window_size": (3, 1)}), (4, 1, 0, False, {}), (20, 8, 0, False, {"causal": True}),
                (20, 24, 8, True, {}), (20, 8, 0, True, {"window_size": (11, 2)}), (3, 2**40, 8, False, {"causal": True})):
            q, leftpad = normal(3, queries, 6, 16), self.leftpad if pad else [0] * 3
            k, v, table = self.k, self.v, None
            if rows:
                (k, table), (v, _) = paged(k, rows), paged(v, rows)
            if rows and pad:  # in pages, values of the block in which padding ends are read
                k, v = k.nan_to_num(0.0), v.nan_to_num(0.0)
            with self.subTest(queries=queries, chunk=chunk, rows=rows, pad=pad, **options):
                expected = chunks_reference(q, self.k, self.v, self.lengths, chunk, leftpad, **options)
                got = call(q, k, v, cache_seqlens=int32(*self.lengths), page_table=table, attention_chunk=chunk,
                           cache_leftpad=int32(*leftpad) if pad else None, **options)
                self.assert_same(got, expected, **TOLERANCE)
                starts = torch.arange(4, dtype=torch.int32) * queries
                o, lse = call(q.flatten(0, 1), k, v, cache_seqlens=int32(*self.lengths), page_table=table, attention_chunk=chunk,
                              cache_leftpad=int32(*leftpad) if pad else None, cu_seqlens_q=starts, max_seqlen_q=queries, **options)
                self.assert_same((o.view(3, queries, 6, 24), lse.view(6, 3, queries).transpose(0, 1)), expected, **TOLERANCE)
                if rows and not pad:
                    o, lse, _ = tilewright.flash_attn_varlen_func(
                        q.flatten(0, 1), k, v, starts, None, queries, 72, block_table=table, seqused_k=int32(*self.lengths),
                        attention_chunk=chunk, return_attn_probs=True, **options)
                    self.assert_same((o.view(3, queries, 6, 24), lse.view(6, 3, queries).transpose(0, 1)), expected, **TOLERANCE)

    def test_one_query_and_padding(self):
        """With one query, a chunk is a number of keys before its own that do not count."""
        q, lengths = normal(3, 1, 6, 16), int32(*self.lengths)
        expected = call(q, self.k, self.v, cache_seqlens=lengths, cache_leftpad=lengths - 1 - (lengths - 1) % 16)
        self.assert_same(call(q, self.k, self.v, cache_seqlens=lengths, attention_chunk=16), expected, **TOLERANCE)

    def test_rotation(self):
        """Each row of q has its own position, as under a causal mask."""
        cos, sin = tables(80, 16)
        q, new_k, new_v = normal(3, 2, 6, 16), normal(3, 2, 2, 16, seed=8), normal(3, 2, 2, 24, seed=9)
        lengths = int32(60, 0, 69)
        positions, k = lengths[:, None] + torch.arange(2), self.k.clone()
        for b, n in enumerate(lengths):
            k[b, n:n + 2], self.v[b, n:n + 2] = rotate(new_k[b], positions[b], cos, sin, True), new_v[b]
        expected = chunks_reference(rotate(q, positions, cos, sin, True), k, self.v, (lengths + 2).tolist(), 8)
        got = call(q, self.k, self.v, new_k, new_v, cache_seqlens=lengths, rotary_cos=cos, rotary_sin=sin, attention_chunk=8)
        self.assert_same(got, expected, **TOLERANCE)


class RefusalsTest(TorchTest):
    def test_without_a_cache(self):
        q, starts = normal(1, 4, 2, 16), int32(0, 4)
        functions = (lambda **options: tilewright.flash_attn_func(q, q, q, **options),
                     lambda **options: tilewright.flash_attn_varlen_func(q[0], q[0], q[0], starts, starts, 4, 4, **options),
                     lambda **options: tilewright.flash_attn_varlen_func(q[0], q, q, starts, starts, 4, 4, block_table=int32(0)[None],
                                                                         **options))
        for text, options in (
                (r"qv must be None: there is no kernel whose scores have a second product, of queries and values; "
                 r"torch.cat\(\(q, qv\), -1\) and torch.cat\(\(k, v\), -1\), of a width up to 512, have these scores", {"qv": q}),
                ("attention_chunk must be a number of positions, or 0 for no chunks, but got 2.5", {"attention_chunk": 2.5}),
                ("q_descale must be None: q has 16 bits or more here; flash_attn_with_kvcache, to which cu_seqlens_q may be given, "
                 "converts q of 8 bits", {"q_descale": torch.ones(1, 2)}),
                ("num_splits must be a number from 0 to 1024, but got -1", {"num_splits": -1}),
                ("pack_gqa must be None, True or False, but got 1", {"pack_gqa": 1}),
                ("sm_margin must be a number of at least 0, but got -1", {"sm_margin": -1})):
            for function in functions:
                with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                    function(**options)
        for function in functions[:2]:
            with self.assertRaisesRegex(ValueError, "v_descale must be None where there is no block_table: only pages of 8 bits have "
                                                    "factors"):
                function(v_descale=torch.ones(2))
            with self.assertRaisesRegex(ValueError, "attention_chunk must be 0 where there is no block_table, but got 16; for as many "
                                                    "queries as keys, flash_attn_varlen_func with each chunk as a sequence computes "
                                                    "this"):
                function(attention_chunk=16)

    def test_refusals(self):
        q, k, v = normal(3, 2, 6, 16), normal(3, 40, 2, 16), normal(3, 40, 2, 24)
        packed, starts, lengths = normal(5, 6, 16), int32(0, 2, 2, 5), int32(3, 0, 9)
        table, small = int32(0, 1, 2)[:, None], k.to(torch.float8_e4m3fn)
        new = {"cache_seqlens": lengths}
        for text, arguments, options in (
                ("qv must be None: there is no kernel whose scores have a second product", (q, k, v), {"qv": q}),
                ("attention_chunk must be a number of positions, or 0 for no chunks, but got -1", (q, k, v), {"attention_chunk": -1}),
                ("attention_chunk must be left out where there are tree_bits: the place of a token is not its position", (q, k, v),
                 {"attention_chunk": 16, "tree_bits": torch.zeros(3, 2, 1, dtype=torch.int32)}),
                ("attention_chunk must be None where keys are those of one rank", (q, k, v),
                 {"attention_chunk": 16, "cp_world_size": 2, "cp_tot_seqused_k": lengths}),
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
