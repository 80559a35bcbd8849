# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.append_kv, and new keys of tilewright.flash_attn_with_kvcache, against plain PyTorch. Runs on the interpreter:
needs PyTorch and tilewright-run, but no GPU."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, interpret_module, torch  # noqa: E402

import tilewright  # noqa: E402
from test_torch_decode import normal, reference  # noqa: E402

setUpModule = interpret_module


def tables(positions, columns, dtype=torch.float32):
    """cos and sin of a rotation of `columns` columns."""
    angles = torch.arange(positions)[:, None] * 10000.0 ** (-torch.arange(0, columns, 2) / columns)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x, positions, cos, sin, interleaved):
    """Rotates the rows of x [..., heads, D], of which each has a position."""
    half = cos.shape[1]
    c, s = (t[positions.long()].to(torch.float64).unsqueeze(-2) for t in (cos, sin))
    wide, rest = x[..., :2 * half].double(), x[..., 2 * half:]
    x1, x2 = (wide[..., 0::2], wide[..., 1::2]) if interleaved else (wide[..., :half], wide[..., half:])
    y1, y2 = x1 * c - x2 * s, x2 * c + x1 * s
    y = torch.stack((y1, y2), -1).flatten(-2) if interleaved else torch.cat((y1, y2), -1)
    return torch.cat((y.to(x.dtype), rest), -1)


def pools(pages, rows, heads, width, value_width, dtype, layout):
    """Caches [pages, rows, heads, width] that lie as `layout` says."""
    if layout == "interleaved":
        both = normal(pages, 2, rows, heads, width, seed=8, dtype=dtype)
        return both[:, 0], both[:, 1]
    if layout == "fused":
        both = normal(pages, heads, rows, width + value_width, seed=8, dtype=dtype)
        return both[..., :width].transpose(1, 2), both[..., width:].transpose(1, 2)
    caches = [normal(pages, rows, heads, w, seed=8 + w, dtype=dtype) for w in (width, value_width)]
    return [x.transpose(1, 2).contiguous().transpose(1, 2) for x in caches] if layout == "HND" else caches


class AppendTest(TorchTest):
    def test_slots(self):
        for dtype, layout, rows, index in ((torch.float32, "NHD", 16, torch.int64), (torch.bfloat16, "HND", 1, torch.int32),
                                           (torch.float16, "interleaved", 64, torch.int64),
                                           (torch.float64, "fused", 16, torch.int64)):
            with self.subTest(layout=layout, dtype=dtype):
                pages, value_width = 128 // rows, 24 if layout != "interleaved" else 16
                k_cache, v_cache = pools(pages, rows, 3, 16, value_width, dtype, layout)
                expected = [x.clone() for x in (k_cache, v_cache)]
                qkv = normal(20, 3, 32 + value_width, dtype=dtype)  # new rows are slices, too
                k, v = qkv[..., 16:32], qkv[..., 32:]
                slots = torch.randperm(128, generator=torch.Generator().manual_seed(2))[:20].to(index)
                slots[3] = -1
                for new, cache in zip((k, v), expected):
                    for n, slot in enumerate(slots.tolist()):
                        if slot >= 0:
                            cache[slot // rows, slot % rows] = new[n]
                self.assertIsNone(tilewright.append_kv(k, v, k_cache, v_cache, slots))
                self.assert_same((k_cache, v_cache), expected, rtol=0, atol=0)

    def test_keys_only(self):
        cache = torch.zeros(4, 8, 1, 576)
        k = normal(2, 1, 576)
        tilewright.append_kv(k, None, cache, None, torch.tensor([9, 31]))
        self.assert_same((cache[1, 1], cache[3, 7]), (k[0], k[1]), rtol=0, atol=0)
        self.assertEqual(int((cache != 0).any(-1).sum()), 2)

    def test_rotary(self):
        for dtype, columns, interleaved, angles in ((torch.float32, 64, False, torch.float32),
                                                    (torch.bfloat16, 32, True, torch.bfloat16),
                                                    (torch.bfloat16, 48, False, torch.float32),
                                                    (torch.float64, 64, True, torch.float64)):
            with self.subTest(dtype=dtype, columns=columns, interleaved=interleaved):
                cos, sin = tables(100, columns, angles)
                k, v, q = normal(9, 2, 64, dtype=dtype), normal(9, 2, 64, seed=2, dtype=dtype), normal(9, 6, 64, seed=3, dtype=dtype)
                k_cache, v_cache = pools(4, 8, 2, 64, 64, dtype, "NHD")
                expected = [x.clone() for x in (k_cache, v_cache)]
                slots = torch.randperm(32, generator=torch.Generator().manual_seed(3))[:9].int()
                positions = torch.randperm(100, generator=torch.Generator().manual_seed(4))[:9]
                expected[0].view(32, 2, 64)[slots.long()] = rotate(k, positions, cos, sin, interleaved)
                expected[1].view(32, 2, 64)[slots.long()] = v
                got = tilewright.append_kv(k, v, k_cache, v_cache, slots, positions=positions, rotary_cos=cos, rotary_sin=sin,
                                           rotary_interleaved=interleaved, q=q)
                tolerance = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 8 * torch.finfo(dtype).eps}
                self.assert_same((got, k_cache), (rotate(q, positions, cos, sin, interleaved), expected[0]), **tolerance)
                self.assert_same((v_cache,), (expected[1],), rtol=0, atol=0)

    def test_no_rows(self):
        cache = torch.ones(2, 4, 1, 16)
        tilewright.append_kv(torch.ones(0, 1, 16), None, cache, None, torch.zeros(0, dtype=torch.int32))
        self.assertTrue(bool((cache == 1).all()))

    def test_fake_tensors_and_compile(self):
        with torch._subclasses.FakeTensorMode():
            k, cache, cos = torch.empty(3, 2, 32), torch.empty(5, 4, 2, 32), torch.empty(9, 16)
            q = tilewright.append_kv(k, k, cache, torch.empty(5, 4, 2, 32), torch.empty(3, dtype=torch.int64), rotary_cos=cos,
                                     rotary_sin=cos, positions=torch.empty(3, dtype=torch.int64), q=torch.empty(3, 8, 32))
        self.assertEqual(list(q.shape), [3, 8, 32])
        schema = torch.ops.tilewright.append.default._schema
        self.assertEqual([x.name for x in schema.arguments if x.alias_info is not None and x.alias_info.is_write],
                         ["k_cache", "v_cache", "k_scales", "v_scales"])

    def test_compile(self):
        k, cache, slots = normal(3, 2, 32), torch.zeros(5, 4, 2, 32), torch.tensor([7, 0, 19])

        def step(k, k_cache, v_cache, slots):
            tilewright.append_kv(k, 2 * k, k_cache, v_cache, slots)
            return k_cache.sum() + v_cache.sum()
        caches = cache.clone(), cache.clone()
        total = torch.compile(step, fullgraph=True, backend="aot_eager")(k, *caches, slots)
        for x, factor in zip(caches, (1, 2)):
            self.assert_same((x.view(20, 2, 32)[slots],), (factor * k,), rtol=0, atol=0)
        self.assert_same((total,), (3 * k.sum(),), rtol=1e-5, atol=1e-5)

    def test_opcheck(self):
        k, cache = normal(3, 2, 32), torch.zeros(5, 4, 2, 32)
        arguments = (k, k, cache, cache.clone(), torch.arange(3), *[None] * 7, False, False, *[None] * 4)
        torch.library.opcheck(torch.ops.tilewright.append.default, arguments, test_utils=("test_schema", "test_faketensor"))

    def refuses(self, message, *arguments, **options):
        with self.assertRaisesRegex(ValueError, message):
            tilewright.append_kv(*arguments, **options)

    def test_refusals(self):
        k, cache, slots = normal(3, 2, 32), normal(4, 8, 2, 32), torch.arange(3)
        cos, sin = tables(9, 32)
        self.refuses(r"k must be a tensor of 3 dimensions, of float16.* but got torch.float32 \[1, 3, 2, 32\]", k[None], k, cache,
                     cache, slots)
        self.refuses("k_cache must have the type and the device of k, torch.float32 on cpu, but got torch.float64", k, k,
                     cache.double(), cache, slots)
        self.refuses("v and v_cache must both be given, or both be None", k, None, cache, cache, slots)
        self.refuses(r"k must have the heads and the width of k_cache, \[2, 16\], but got \[2, 32\]", k, k, cache[..., :16], cache,
                     slots)
        self.refuses(r"v must agree with k in all but its width, but got \[2, 2, 32\]", k, k[:2], cache, cache, slots)
        self.refuses("v_cache must agree with k_cache in all but its width", k, k, cache, cache[:3], slots)
        self.refuses("k must have a width from 1 to 1024, but got 1100", normal(3, 2, 1100), None, normal(4, 8, 2, 1100), None,
                     slots)
        self.refuses("k must not require a gradient", k.clone().requires_grad_(), k, cache, cache, slots)
        self.refuses("k_cache must have less than 2\\*\\*31 rows", torch.empty(3, 1, 1), None,
                     torch.zeros(1, 1, 1, 1).expand(2**16, 2**15, 1, 1), None, slots)
        self.refuses(r"slot_mapping must be a tensor \[3\] of int32 or int64 on cpu, but got torch.int64 \[2\]", k, k, cache, cache,
                     slots[:2])
        self.refuses(r"slot_mapping must be a tensor \[3\] of int32 or int64", k, k, cache, cache, slots.to(torch.int16))
        self.refuses(r"'within\(slots_i64, -1, .*but got slots_i64\[2\] = 4294967298; it must be from -1 to 31", k, k, cache, cache,
                     torch.tensor([0, -1, 2**32 + 2]))
        for name, value in (("rotary_sin", sin), ("positions", slots), ("q", k)):
            self.refuses(f"{name} must be None where there is no rotary_cos", k, k, cache, cache, slots, **{name: value})
        rotary = {"rotary_cos": cos, "rotary_sin": sin, "positions": slots}
        self.refuses("positions must be a tensor .* but got None", k, k, cache, cache, slots, **(rotary | {"positions": None}))
        self.refuses("rotary_sin must be a tensor, but got NoneType", k, k, cache, cache, slots,
                     **(rotary | {"rotary_sin": None}))
        self.refuses("rotary_cos must be of torch.float32, as k is, or float32, but got torch.float16", k, k, cache, cache, slots,
                     **(rotary | {"rotary_cos": cos.half()}))
        self.refuses("rotary_sin must have the shape and the type of rotary_cos", k, k, cache, cache, slots,
                     **(rotary | {"rotary_sin": sin[:8]}))
        for width in (12, 24):
            self.refuses(f"rotary_cos must have half as many columns as are rotated, a multiple of 8 .* but got {width}", k, k,
                         cache, cache, slots, **(rotary | {"rotary_cos": torch.ones(9, width), "rotary_sin": torch.ones(9, width)}))
        self.refuses(r"q must have the rows and the width of k, 3 and 32, but got \[2, 2, 32\]", k, k, cache, cache, slots, q=k[:2],
                     **rotary)


class NewKeysTest(TorchTest):
    """New keys of flash_attn_with_kvcache."""

    def check(self, lengths, new=1, rows=None, interleaved=None, causal=False, columns=16, dtype=torch.float32, batch_idx=None):
        """Compares with a decode of a cache to which PyTorch has appended; pages have `rows` rows, None: one piece."""
        batch, room = len(lengths), 32
        k, v = normal(batch, new, 2, 16, seed=5, dtype=dtype), normal(batch, new, 2, 24, seed=6, dtype=dtype)
        q = normal(batch, 1, 6, 16, dtype=dtype)
        k_cache, v_cache = normal(batch, room, 2, 16, seed=2, dtype=dtype), normal(batch, room, 2, 24, seed=3, dtype=dtype)
        seqlens, options, q_used, k_used = torch.tensor(lengths, dtype=torch.int32), {}, q, k
        if interleaved is not None:
            cos, sin = tables(64, columns, dtype)
            options = {"rotary_cos": cos, "rotary_sin": sin, "rotary_interleaved": interleaved}
            positions = seqlens[:, None] + torch.arange(new)
            k_used, q_used = (rotate(x, p, cos, sin, interleaved) for x, p in ((k, positions), (q, positions[:, :1])))
        k_full, v_full = k_cache.clone(), v_cache.clone()
        for b, length in enumerate(lengths):
            fits = min(new, room - length)
            k_full[b, length:length + fits], v_full[b, length:length + fits] = k_used[b, :fits], v[b, :fits]
        expected = reference(q_used, k_full, v_full, [min(length + new, room) for length in lengths], 0.25)
        if rows is not None:
            table = torch.randperm(batch * room // rows, generator=torch.Generator().manual_seed(1)).view(batch, -1).int()
            def pool(x):
                pages = torch.empty(batch * room // rows, rows, *x.shape[2:], dtype=dtype)
                pages[table.long()] = x.view(batch, -1, rows, *x.shape[2:])
                return pages
            k_cache, v_cache, k_full, v_full = map(pool, (k_cache, v_cache, k_full, v_full))
            options["block_table"] = table
        if batch_idx is not None:
            options["cache_batch_idx"] = order = torch.tensor(batch_idx, dtype=torch.int32)
            inverse = torch.argsort(order)
            k_cache, v_cache, k_full, v_full = (x[inverse].clone() for x in (k_cache, v_cache, k_full, v_full))
        before = seqlens.clone()
        got = tilewright.flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=seqlens, causal=causal,
                                                 return_softmax_lse=True, **options)
        self.assertTrue(torch.equal(seqlens, before))
        self.assert_same(got, expected, rtol=1e-5, atol=1e-5)
        self.assert_same((k_cache, v_cache), (k_full, v_full), rtol=1e-6, atol=1e-6)

    def test_one_piece(self):
        self.check([3, 0, 31, 32])
        self.check([3, 0, 31], new=4, batch_idx=[2, 0, 1])

    def test_pages(self):
        self.check([16, 0, 15, 31], new=2, rows=16)
        self.check([1, 7], rows=1)

    def test_rotary(self):
        self.check([16, 0, 15], rows=8, interleaved=True)
        self.check([16, 0, 15], new=2, interleaved=False, causal=True)
        self.check([9, 31], rows=16, interleaved=False, dtype=torch.float64)

    def test_refusals(self):
        q, k, v = normal(2, 1, 4, 32), normal(2, 1, 2, 32), normal(2, 1, 2, 32, seed=2)
        caches, seqlens = (normal(2, 9, 2, 32), normal(2, 9, 2, 32)), torch.zeros(2, dtype=torch.int32)
        cos, sin = tables(16, 32)

        def refuses(message, *new, **options):
            with self.assertRaisesRegex(ValueError, message):
                tilewright.flash_attn_with_kvcache(q, *caches, *new, **{"cache_seqlens": seqlens, **options})

        refuses("rotary_cos must be None where there are no new keys, k and v", rotary_cos=cos, rotary_sin=sin)
        refuses("cache_seqlens must be given where there are new keys", k, v, cache_seqlens=None)
        refuses("k and v must both be given, or both be None", k)
        refuses("k must have the batch, the type and the device of q, 2 of torch.float32", k[:1], v[:1])
        refuses("k_cache must have the type and the device of k", k.double(), v.double())
        refuses(r"v must have the heads and the width of v_cache, \[2, 32\], but got \[2, 16\]", k, v[..., :16])
        refuses("rotary_cos must be a tensor, but got NoneType", k, v, rotary_sin=sin)


if __name__ == "__main__":
    unittest.main()
