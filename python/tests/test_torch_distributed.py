# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.context_parallel on processes that exchange over gloo, with kernels on the interpreter: results and gradients against
the formulas on one process. Needs PyTorch and tilewright-run, but no GPU."""

import datetime
import os
import sys
import tempfile
import time
import unittest
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_on_cpu import TorchTest, gradients, interpret_module, make, qkv, torch  # noqa: E402

import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import tilewright  # noqa: E402
from tilewright import exchange, interpreter, shares  # noqa: E402
from torch_reference import FEATURES, fill, packed_reference, reference, replaced  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    raise unittest.SkipTest("PyTorch has no torch.distributed with gloo")

setUpModule = interpret_module
SECONDS = 60  # of a group's time-out; where a process is lost, 4


def run(rank, size, folder, name, seconds):
    """A process of a group: calls the function `name` of this file."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    interpreter.interpret()
    dist.init_process_group("gloo", rank=rank, world_size=size, init_method=f"file://{folder}/group",
                            timeout=datetime.timedelta(seconds=seconds))
    check = Check()
    check.rank, check.size = rank, size
    globals()[name](check)
    if name.startswith("lost"):
        os._exit(0)  # the group cannot end in order
    dist.barrier()
    dist.destroy_process_group()


class Check(TorchTest):
    """Assertions in a process of a group."""

    def assert_distributed(self, context, ours, wanted, inputs, learned=(), dim=2):
        """Asserts that `ours` of the shards of inputs is the shard of `wanted`, and that all gradients are."""
        leaves = [context.shard(x.detach(), dim).requires_grad_() for x in inputs]
        own = gradients_of(ours, leaves, learned, lambda x, of: context.shard(x, 1 if of == 1 and x.dim() == 2 else dim))
        true = gradients_of(wanted, inputs, learned, lambda x, of: x)
        for at, (x, y) in enumerate(zip(own[0], true[0])):
            self.assert_same([x], [context.shard(y, 1 if at == 1 and y.dim() == 2 else dim)])
        self.assert_same(own[1][:3], [context.shard(x, dim) for x in true[1][:3]])
        self.assert_same(own[1][3:], true[1][3:])


def gradients_of(call, inputs, learned, shard):
    """Outputs, and the gradients of inputs for fixed seeds of the whole."""
    outputs = call(*inputs, *learned)
    seeds = []
    for at, x in enumerate(outputs):
        whole = torch.cos(torch.arange(64 * 4096).reshape(-1)[:SEEDS[at].numel()].reshape(SEEDS[at].shape) * 0.37).to(x.dtype)
        seeds.append(shard(whole, at) * (x.detach() > -torch.inf))
    return [x.detach() for x in outputs], torch.autograd.grad(outputs, [*inputs, *learned], seeds)


SEEDS = []  # tensors of the shapes of the whole outputs


def compare(check, context, options, rows=8, keys=8, batch=2, heads=4, kv_heads=2):
    """All rows on this process, by the formulas, against the shards."""
    inputs = qkv(batch, heads, kv_heads, rows, keys)
    filled, learned = fill(options, make, batch, heads, rows, keys, torch.float64, "cpu")
    SEEDS[:] = [torch.empty(batch, heads, rows, inputs[2].shape[3]), torch.empty(batch, heads, rows)]

    def ours(q, k, v, *rest):
        return context.attention(q, k, v, return_lse=True, **replaced(filled, learned, rest))

    def wanted(q, k, v, *rest):
        return reference(q, k, v, **replaced(filled, learned, rest))

    check.assert_distributed(context, ours, wanted, inputs, learned)


def features(check):
    """The covering set on each method; shares differ in size, and queries from keys."""
    for options in FEATURES:
        options = dict(options)
        rows = options.pop("rows", 5)
        for method in ("heads", "ring", "all_gather"):
            if method != "heads" and "block_mask" in options or method == "all_gather" and len(options) > 1:
                continue
            with check.subTest(options, method=method):
                context = tilewright.context_parallel(method=method, reduce_captures=True,
                                                      order="zigzag" if len(options) == 1 else None)
                compare(check, context, dict(options), rows, 9)


def shapes(check):
    """Fewer key heads than ranks, two dimensions, empty shares, one row, large messages."""
    causal = {"causal": True}
    exchange.GATED = ("cpu",)
    for method, heads, order in (("heads", None, None), ("heads", None, "zigzag"), ("ring", None, None), ("2d", 2, None),
                                 ("2d", 2, "contiguous"), ("auto", None, None), ("all_gather", None, None)):
        with check.subTest(method, order=order):
            context = tilewright.context_parallel(method=method, heads=heads, order=order)
            compare(check, context, causal, rows=19, keys=19)  # 2 key heads on 4 ranks
            compare(check, context, {"window": (3, 2)}, rows=17, keys=17, batch=1)
    for rows, keys in ((3, 3), (0, 5), (6, 0), (1, 1)):
        for method in ("heads", "ring"):
            with check.subTest(method, rows=rows, keys=keys):
                compare(check, tilewright.context_parallel(method=method), causal, rows, keys, batch=1)
    context = tilewright.context_parallel(method="heads")
    with check.assertRaisesRegex(ValueError, "the key heads must be a multiple or a divisor of the 4 ranks that exchange heads, but got 3"):
        context.attention(*(context.shard(x, 2) for x in qkv(1, 6, 3, 8, 8)))
    compare(check, context, causal, rows=9, keys=9, heads=6, kv_heads=6)
    compare(check, context, causal, rows=9, keys=9, heads=8, kv_heads=2)  # two pieces share a key head
    exchange.DIRECT_BYTES = 1
    compare(check, tilewright.context_parallel(method="heads"), causal, rows=9, keys=9, heads=8, kv_heads=8)
    compare(check, tilewright.context_parallel(method="2d", heads=2, reduce_captures=True), {"sinks": "?sinks"}, rows=9, keys=9, heads=8, kv_heads=4)


def packed(check):
    starts = [0, 3, 3, 9, 16]
    inputs = (make(17, 4, 8), make(17, 2, 8, seed=2), make(17, 2, 6, seed=3))
    cu_seqlens = torch.tensor(starts, dtype=torch.int32)
    SEEDS[:] = [torch.empty(17, 4, 6), torch.empty(4, 17)]
    for options in ({"causal": True}, {"window": (2, 0)}, {"softcap": 1.5, "sinks": torch.tensor([0.5, 1.0, -1.0, 0.0])}):
        context = tilewright.context_parallel(method="heads")

        def ours(q, k, v):
            return context.attention(q, k, v, return_lse=True, cu_seqlens_q=cu_seqlens, max_seqlen_q=7, **options)

        def wanted(q, k, v):
            o, lse = packed_reference(q, k, v, starts, starts, **options)
            lone = options["sinks"][:, None].to(lse.dtype) if "sinks" in options else torch.full((4, 1), -torch.inf).to(lse.dtype)
            return torch.cat([o, o.new_zeros(1, *o.shape[1:])]), torch.cat([lse, lone], 1)  # a row of no sequence

        with check.subTest(options):
            check.assert_distributed(context, ours, wanted, inputs, dim=0)
    with check.assertRaisesRegex(ValueError, "packed sequences must have method 'heads'"):
        shard = [tilewright.context_parallel(method="ring", order="contiguous").shard(x, 0) for x in inputs]
        tilewright.context_parallel(method="ring", order="contiguous").attention(*shard, cu_seqlens_q=cu_seqlens, max_seqlen_q=7)
    with check.assertRaisesRegex(ValueError, "block_mask must have method 'heads'"):
        lists = torch.ones(1, 1, 1, dtype=torch.int32), torch.zeros(1, 1, 1, 1, dtype=torch.int32)
        context = tilewright.context_parallel(method="ring")
        context.attention(*(context.shard(x, 2) for x in qkv(rows=8, keys=8)), block_mask=lists)


def users(check):
    """Dropout, the same bits as on one process; a window, for which only neighbours exchange; SDPA, buffers, checkpoints, compiled
    code, and equal bits of two runs."""
    inputs = qkv(rows=16, keys=16)
    whole = [x.detach() for x in inputs]
    for method in ("heads", "ring"):
        context = tilewright.context_parallel(method=method)
        parts = [context.shard(x, 2) for x in whole]
        torch.manual_seed(5)
        expected = tilewright.attention(*whole, causal=True, dropout_p=0.4)
        torch.manual_seed(5 + check.rank)  # rank 0's counts
        o = context.attention(*parts, causal=True, dropout_p=0.4)
        check.assert_same([o], [context.shard(expected, 2)])
        check.assert_same([context.unshard(o, 2)], [expected])

        plain = tilewright.attention(*whole, causal=True)
        with context, tilewright.use_for_sdpa(fallback="raise"):
            check.assert_same([F.scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)], [context.shard(plain, 2)])
            compiled = torch.compile(lambda q, k, v: 2 * tilewright.attention(q, k, v, causal=True), backend="eager")
            check.assert_same([compiled(*parts)], [2 * context.shard(plain, 2)])
        check.assert_same([F.scaled_dot_product_attention(*whole, is_causal=True, enable_gqa=True)], [plain])

        leaves = [x.clone().requires_grad_() for x in parts]
        runs = []
        for _ in range(2):
            out = torch.utils.checkpoint.checkpoint(lambda *x: context.attention(*x, causal=True).sin(), *leaves, use_reentrant=False)
            runs.append(torch.autograd.grad(out, leaves, torch.ones_like(out)))
        again = torch.autograd.grad(context.attention(*leaves, causal=True).sin(), leaves, torch.ones_like(out))
        check.assertTrue(all(torch.equal(x, y) for x, y in zip(*runs)))
        check.assertTrue(all(torch.equal(x, y) for x, y in zip(runs[0], again)))
    # Each head is computed as on one process.
    context = tilewright.context_parallel(dist.device_mesh.init_device_mesh("cpu", (check.size,)), method="heads")
    check.assertTrue(torch.equal(context.attention(*(context.shard(x, 2) for x in whole), causal=True), context.shard(plain, 2)))

    buffers = [x.clone() for x in whole]
    with tilewright.context_parallel(buffers=buffers, buffer_seq_dims=[2, 2, 2], no_restore_buffers={buffers[2]}) as context:
        check.assert_same([tilewright.attention(*buffers, causal=True)], [context.shard(plain, 2)])
    check.assert_same(buffers, [*whole[:2], context.shard(whole[2], 2)])

    sent = []
    send = exchange.Exchange.send
    exchange.Exchange.send = lambda self, x, peer: (sent.append((peer, x.shape[2])), send(self, x, peer))
    context = tilewright.context_parallel(method="auto")
    context.attention(*(context.shard(x, 2) for x in whole), window=(2, 0))
    exchange.Exchange.send = send
    check.assertEqual({(peer, rows) for peer, rows in sent if rows}, {(check.rank + 1, 2)} if check.rank + 1 < check.size else set())


def refusals(check):
    context = tilewright.context_parallel(method="ring")
    q, k, v = qkv(batch=1, rows=8, keys=8)
    with check.assertRaisesRegex(ValueError, r"q must have the rows that context_parallel.shard gives each rank, \[3, 4\] of 7 in the "
                                             r"order 'zigzag', but got \[4, 3\]"):
        context.attention(q[:, :, :4 - check.rank], k[:, :, :4], v[:, :, :4])
    with check.assertRaisesRegex(ValueError, "must have the same arguments on all ranks, but got others on rank"):
        context.attention(q[:, :, :4], k[:, :, :4], v[:, :, :4], causal=check.rank == 0)
    for arguments, text in (({"method": "tree"}, "method must be one of auto, heads, ring, all_gather, 2d"),
                            ({"order": "random"}, "order must be one of contiguous, zigzag or None"),
                            ({"method": "2d"}, "heads must be given with method '2d' alone, a divisor of the 2 ranks, but got None"),
                            ({"method": "2d", "heads": 3}, "a divisor of the 2 ranks, but got 3"),
                            ({"mesh": 3}, "mesh must be a DeviceMesh of one dimension, a process group or None, but got 3"),
                            ({"buffers": [q]}, "buffer_seq_dims must have a dimension for each of 1 buffers, but got 0")):
        with check.assertRaisesRegex(ValueError, text):
            tilewright.context_parallel(**arguments)
    text = """tile.link "lib/attention.mlir"
tile.capture @level : !tile.view<[?], f32>
func.func private @sink(%h: i32) -> !tile.param<ACC> {
  %x = tile.at @level[%h] : f32
  %y = tile.cast %x : f32 -> !tile.param<ACC>
  return %y : !tile.param<ACC>
}
"""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        with check.assertRaisesRegex(ValueError, "a modifier that replaces @sink must have method 'heads' where captures require"):
            context.attention(*(context.shard(x, 2) for x in (q, k, v)), modifier=file.name,
                              captures={"level": torch.zeros(4).requires_grad_()})


def lost_by_error(check):
    context = tilewright.context_parallel(method="ring")
    parts = [context.shard(x, 2) for x in qkv(rows=8, keys=8)]
    context.attention(*parts)
    if check.rank == 1:
        try:
            context.attention(*parts, softcap=-1)
        except ValueError:
            time.sleep(8)  # it lives, but takes no part
        return
    begin = time.monotonic()
    with check.assertRaisesRegex(RuntimeError, "context_parallel: rank 0 of 2 could not .*: another rank raised an error, ended, or did "
                                               "not answer within the time-out of the group"):
        context.attention(*parts, softcap=1.0)
    check.assertLess(time.monotonic() - begin, 30)


def lost_by_end(check):
    context = tilewright.context_parallel(method="heads")
    parts = [context.shard(x, 2) for x in qkv(rows=8, keys=8)]
    context.attention(*parts)
    if check.rank == 1:
        os._exit(0)
    with check.assertRaisesRegex(RuntimeError, "rank 0 of 2 could not exchange heads: another rank raised an error, ended, or did not"):
        context.attention(*parts)


class DistributedTest(TorchTest):
    def spawn(self, name, size, seconds=SECONDS):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(run, (size, folder, name, seconds), nprocs=size)

    def test_features_on_two(self):
        self.spawn("features", 2)

    def test_shapes_on_four(self):
        self.spawn("shapes", 4)

    def test_packed_on_two(self):
        self.spawn("packed", 2)

    def test_users_on_two(self):
        self.spawn("users", 2)

    def test_refusals_on_two(self):
        self.spawn("refusals", 2)

    def test_a_process_that_raises(self):
        self.spawn("lost_by_error", 2, 4)

    def test_a_process_that_ends(self):
        self.spawn("lost_by_end", 2, 4)


class SharesTest(unittest.TestCase):
    def test_every_pair_once(self):
        """Rows, keys and parts of all ranks are those of the whole, for many sizes, bands and orders."""
        for size, rows, keys, band in ((1, 7, 7, (-1, 0)), (2, 10, 13, (3, 0)), (3, 20, 20, (-1, -1)), (3, 2, 9, (-1, 0)),
                                       (4, 21, 16, (2, 4)), (4, 17, 30, (-1, 2)), (5, 3, 40, (9, -1))):
            for order in shares.ORDERS:
                for shift in {0, keys - rows}:
                    with self.subTest(size=size, rows=rows, keys=keys, band=band, order=order, shift=shift):
                        self.check(size, shares.shares(rows, size, order), shares.shares(keys, size, order),
                                   shares.Band(*band, shift), rows, keys)

    def check(self, size, rows, keys, band, row_count, key_count):
        self.assertEqual(sorted(i for own in rows for span in own for i in range(*span)), list(range(row_count)))
        wanted = {(i, j) for i in range(row_count) for j in range(key_count)
                  if (band.left < 0 or j >= i + band.shift - band.left) and (band.right < 0 or j <= i + band.shift + band.right)}
        by_segments, by_blocks = [], []
        for rank in range(size):
            for _, parts in shares.segments(rows[rank], dict(enumerate(keys)), band):
                by_segments += parts
            for source in range(size):
                own = shares.blocks(rows[rank], keys[source], band, source)
                by_blocks += own
                needed = shares.needed(rows[rank], keys[source], band)
                for part in own:
                    self.assertTrue(any(begin <= part.keys[0] and part.keys[1] <= end for begin, end in needed))
        for parts in (by_segments, by_blocks):
            pairs = [pair for part in parts for i in range(*part.rows) for j in range(*part.keys) if (pair := (i, j)) in wanted]
            self.assertEqual(len(pairs), len(set(pairs)))
            self.assertEqual(set(pairs), wanted)

    def test_heads(self):
        self.assertEqual([tuple(own) for own in shares.head_shares(8, 2, 4)], [((0, 2), (0, 1)), ((2, 4), (0, 1)), ((4, 6), (1, 2)),
                                                                              ((6, 8), (1, 2))])
        self.assertEqual([tuple(own) for own in shares.head_shares(10, 5, 2)], [((0, 6), (0, 3)), ((6, 10), (3, 5))])
        self.assertEqual(shares.head_pieces(shares.Heads((8, 16), (4, 8)), 3),
                         [((8, 10), (4, 5)), ((10, 14), (5, 7)), ((14, 16), (7, 8))])
        self.assertEqual(shares.head_pieces(shares.Heads((4, 8), (1, 2)), 3), [((4, 5), (1, 2)), ((5, 7), (1, 2)), ((7, 8), (1, 2))])


if __name__ == "__main__":
    unittest.main()
