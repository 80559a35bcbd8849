# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tilewright.context_parallel on processes that exchange over gloo, with kernels on the interpreter: results and gradients against
the formulas on one process. Needs PyTorch and tilewright-run, but no GPU."""

import datetime
import os
import signal
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
from tilewright.context_cost import Topology  # noqa: E402
from tilewright.context_plan import plan  # noqa: E402
from torch_reference import FEATURES, fill, packed_features, packed_reference, reference, replaced, slices_of  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    raise unittest.SkipTest("PyTorch has no torch.distributed with gloo")

setUpModule = interpret_module
SECONDS, SECONDS_LOST = 60, 4  # of a group's time-out; the latter where a process is lost


def run(rank, size, folder, names):
    """A process of a group: calls the functions `names` of this file."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    interpreter.interpret()
    dist.init_process_group("gloo", rank=rank, world_size=size, init_method=f"file://{folder}/group",
                            timeout=datetime.timedelta(seconds=SECONDS))
    check = Check()
    check.rank, check.size = rank, size
    for name in names:
        globals()[name](check)
    if names[0].startswith("lost"):
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
            if method != "heads" and "block_mask" in options:
                continue
            if method == "heads" and len(options) == 1 and not options.keys() & {"alibi_slopes", "block_mask", "causal", "sinks"}:
                continue  # by heads, kernels get what one GPU's do, but for what heads have
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
        for method in ("heads", "ring", "all_gather"):
            with check.subTest(method, rows=rows, keys=keys):
                compare(check, tilewright.context_parallel(method=method), causal, rows, keys, batch=1)
    for method in ("ring", "all_gather"):  # what a layout keeps is not of the mode of its first call
        context = tilewright.context_parallel(method=method)
        with torch.inference_mode():
            context.attention(*(context.shard(x.detach(), 2) for x in qkv(2, 4, 2, 19, 19)), causal=True)
        compare(check, context, causal, rows=19, keys=19)
    context = tilewright.context_parallel(method="all_gather")  # pieces of one and of several key heads
    compare(check, context, causal, rows=19, keys=19, heads=12, kv_heads=6)
    compare(check, context, causal, rows=9, keys=9, heads=4, kv_heads=1)
    context = tilewright.context_parallel(method="heads")
    with check.assertRaisesRegex(ValueError, "the key heads must be a multiple or a divisor of the 4 ranks that exchange heads, but got 3"):
        context.attention(*(context.shard(x, 2) for x in qkv(1, 6, 3, 8, 8)))
    compare(check, context, causal, rows=9, keys=9, heads=6, kv_heads=6)
    compare(check, context, causal, rows=9, keys=9, heads=8, kv_heads=2)  # two pieces share a key head
    compare(check, tilewright.context_parallel(method="heads"), causal, rows=9, keys=9, heads=8, kv_heads=8)
    compare(check, tilewright.context_parallel(method="2d", heads=2, reduce_captures=True), {"sinks": "?sinks"}, rows=9, keys=9, heads=8,
            kv_heads=4)


def compare_packed(check, context, options, starts, starts_k=None, heads=4, kv_heads=2):
    """The same for packed sequences. Rows behind the last one belong to none."""
    rows, keys = starts[-1] + 1, (starts_k or starts)[-1] + 1
    inputs = (make(rows, heads, 8), make(keys, kv_heads, 8, seed=2), make(keys, kv_heads, 6, seed=3))
    lengths = [max(b - a for a, b in zip(of, of[1:])) for of in (starts, starts_k or starts)]
    filled, learned = fill(options, make, len(starts) - 1, heads, *lengths, torch.float64, "cpu")
    offsets = {name: torch.tensor(of, dtype=torch.int32) for name, of in (("cu_seqlens_q", starts), ("cu_seqlens_k", starts_k)) if of}
    offsets |= {"max_seqlen_q": lengths[0]} | ({"max_seqlen_k": lengths[1]} if starts_k else {})
    SEEDS[:] = [torch.empty(rows, heads, 6), torch.empty(heads, rows)]

    def ours(q, k, v, *rest):
        return context.attention(q, k, v, return_lse=True, **offsets, **replaced(filled, learned, rest))

    def wanted(q, k, v, *rest):
        given = replaced(filled, learned, rest)
        o, lse = packed_reference(q, k, v, starts, starts_k or starts, slices_of(given), **given)
        lone = given["sinks"][:, None].to(lse.dtype) if "sinks" in given else torch.full((heads, 1), -torch.inf).to(lse.dtype)
        return torch.cat([o, o.new_zeros(1, *o.shape[1:])]), torch.cat([lse, lone], 1)

    check.assert_distributed(context, ours, wanted, inputs, learned, dim=0)


STARTS = [0, 3, 3, 9, 16]
PACKED_ALONE = ({"causal": True}, {"causal": "bottom_right", "window": (3, -1)}, {"bias": "?batch"}, {"sinks": "?sinks"})


def packed(check):
    """Packed sequences by heads, and in rings, where a sequence may be on several ranks, or several are on one."""
    causal = {"causal": True}
    for options in (causal, {"window": (2, 0)}, {"softcap": 1.5, "sinks": torch.tensor([0.5, 1.0, -1.0, 0.0])}):
        with check.subTest(options):
            compare_packed(check, tilewright.context_parallel(method="heads"), options, STARTS)
    for options in packed_features():  # in parts of sequences and in whole ones, positions and batches are those of the whole
        if "block_mask" not in options and (len(options) > 3 or options in PACKED_ALONE):
            with check.subTest(options, method="ring"):
                order = "contiguous" if len(options) == 1 else "zigzag"
                context = tilewright.context_parallel(method="ring", order=order, reduce_captures=True)
                compare_packed(check, context, options, [0, 2, 7, 7, 12, 16], [0, 3, 7, 9, 12, 21] if len(options) > 1 else None)
    for order in ("contiguous", "zigzag"):
        with check.subTest(method="all_gather", order=order):
            compare_packed(check, tilewright.context_parallel(method="all_gather", order=order, reduce_captures=True),
                           {"window": (4, 0), "sinks": "?sinks"}, [0, 2, 7, 7, 12, 16])
    with check.assertRaisesRegex(ValueError, "cu_seqlens_q must ascend from a number that is not negative, but got \\[0, 5, 3, 9\\]"):
        compare_packed(check, tilewright.context_parallel(method="ring"), causal, [0, 5, 3, 9])
    context = tilewright.context_parallel(method="ring")
    with check.assertRaisesRegex(ValueError, "cu_seqlens_q must end with at most the 8 rows of all ranks, but got 9"):
        context.attention(*(context.shard(make(8, 2, 8), 0) for _ in "qkv"), max_seqlen_q=9,
                          cu_seqlens_q=torch.tensor([0, 9], dtype=torch.int32))
    with check.assertRaisesRegex(ValueError, "block_mask of packed sequences must have method 'heads'"):
        lists = torch.ones(1, 1, 1, dtype=torch.int32), torch.zeros(1, 1, 1, 1, dtype=torch.int32)
        context.attention(*(context.shard(make(8, 2, 8), 0) for _ in "qkv"), max_seqlen_q=8, block_mask=lists,
                          cu_seqlens_q=torch.tensor([0, 8], dtype=torch.int32))


def rounded(check):
    """16 bits: sums of launches are in f32, so that errors are at most twice those of one process, of results that are rounded once."""
    whole = [x.detach() for x in qkv(1, 4, 2, 32, 32, 8, 8, torch.bfloat16)]
    do = make(1, 4, 32, 8, dtype=torch.bfloat16, seed=9).detach()
    starts = {"cu_seqlens_q": torch.tensor([0, 5, 9, 30, 32], dtype=torch.int32), "max_seqlen_q": 21}

    def gradients_of_all(call, inputs, seed, dtype=torch.bfloat16):
        leaves = [x.to(dtype).requires_grad_() for x in inputs]
        o = call(*leaves)
        return [o.detach(), *torch.autograd.grad(o, leaves, seed.to(dtype))]

    def exactly(q, k, v):
        if not packed:
            return reference(q, k, v, causal=True, **options)[0]
        ends = starts["cu_seqlens_q"].tolist()
        return packed_reference(q, k, v, ends, ends, causal=True)[0]

    for method, packed, options in (("ring", False, {}), ("ring", False, {"window": (3, 0)}), ("ring", True, {}),
                                    ("all_gather", False, {}), ("all_gather", True, {})):
        inputs, seed, dim = (whole, do, 2) if not packed else ([x[0].transpose(0, 1) for x in whole], do[0].transpose(0, 1), 0)
        more = options | (starts if packed else {})
        context = tilewright.context_parallel(method=method, order="contiguous" if "window" in options else None)
        one = gradients_of_all(lambda *x: tilewright.attention(*x, causal=True, **more), inputs, seed)
        exact = gradients_of_all(exactly, inputs, seed, torch.float64)
        own = gradients_of_all(lambda *x: context.attention(*x, causal=True, **more), [context.shard(x, dim) for x in inputs],
                               context.shard(seed, dim))
        for x, y, true in zip(own, one, exact):
            with check.subTest(method, packed=packed, options=options):
                check.assertEqual(x.dtype, torch.bfloat16)
                check.assertLessEqual((x - context.shard(true, dim)).abs().max(), 2 * (y - true).abs().max())


def listed(check):
    """Lists of blocks in rings, of all heads or of each."""
    generator = torch.Generator().manual_seed(2)
    of_all = (1, True, "zigzag", 128, 128, (16, 32))
    for method, heads, causal, order, rows, keys, sizes in (("all_gather", *of_all), ("ring", *of_all),
                                                            ("ring", 4, False, "contiguous", 63, 64, (32, 16))):
        context = tilewright.context_parallel(method=method, order=order)
        blocks, others = -(-rows // sizes[0]), -(-keys // sizes[1])
        indices = torch.stack([torch.randperm(others, generator=generator) for _ in range(heads * blocks)]).to(torch.int32)
        counts = torch.randint(0, others + 1, (1, heads, blocks), generator=generator, dtype=torch.int32)
        lists = counts, indices.reshape(1, heads, blocks, others), sizes
        compare(check, context, {"block_mask": lists, "causal": causal}, rows, keys, batch=1)
    with check.assertRaisesRegex(ValueError, "the rows of each rank must be whole blocks of block_mask, of 32 queries, but got "):
        compare(check, context, {"block_mask": lists}, 60, 64, batch=1)


def few_key_heads(check):
    """Packed sequences whose key heads are no divisor of the ranks, by the method that is chosen; and shares by work, of a plan."""
    context = tilewright.context_parallel()
    compare_packed(check, context, {"causal": True}, STARTS, heads=6, kv_heads=3)
    check.assertEqual(context.explain().splitlines()[0], "ring: 3 key heads are neither a divisor of 4 ranks, nor as many")
    compare_packed(check, context, {"causal": True}, [0, 9, 20], heads=4, kv_heads=1)  # all ranks share it
    check.assertTrue(context.explain().startswith("heads: 1 key heads are a multiple or a divisor"))
    compare_packed(check, tilewright.context_parallel(method="2d", heads=2), {"causal": True}, STARTS)
    lengths = [1, 2, 30, 4, 3]
    plan = tilewright.context_parallel().plan([*lengths, 1], 6, 3, 8, 6, causal=True, methods=("ring",), shares=("balanced",))
    context = tilewright.context_parallel(method=plan)
    check.assertEqual([each[0] for each in context.shares(41)], [list(each)[0] for each in plan.row_ranges])
    compare_packed(check, context, {"causal": True}, [0, 1, 3, 33, 37, 40], heads=6, kv_heads=3)
    plan = context.plan([40], 4, 2, 8, 6, causal=True, methods=("2d",), shares=("zigzag",), inners=("ring",))
    compare(check, tilewright.context_parallel(method=plan), {"causal": True}, rows=40, keys=40, batch=1)


def users(check):
    """Dropout, the same bits as on one process; a window, for which only neighbours exchange; SDPA, buffers, checkpoints, compiled
    code, and equal bits of two runs."""
    inputs = qkv(rows=16, keys=16)
    whole = [x.detach() for x in inputs]
    for method in ("heads", "ring", "all_gather"):
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
    context = tilewright.context_parallel(method="ring", order="contiguous")
    context.attention(*(context.shard(x, 2) for x in whole), window=(2, 0))
    exchange.Exchange.send = send
    check.assertEqual({(peer, rows) for peer, rows in sent if rows}, {(check.rank + 1, 2)} if check.rank + 1 < check.size else set())


def auto(check):
    """The planned method, the same on all ranks, with the constants of the caller; inspectable, and kept."""
    context = tilewright.context_parallel()
    check.assertEqual(context.explain(), "no call yet")
    compare(check, context, {"causal": True}, rows=16, keys=16)
    plan = context.last_plan
    check.assertEqual(plan, context.plan([16], 4, 2, 8, 6, batch=2, causal=True, element_bytes=8, shares=("contiguous",),
                                         inners=("heads",)))
    check.assertEqual(context.explain().splitlines()[0], plan.reason)
    check.assertIn(f"rank {check.rank}: line", context.explain())
    layout = context.last_layout
    compare(check, context, {"causal": True}, rows=16, keys=16)
    check.assertTrue(context.last_plan is plan and context.last_layout is layout)
    methods = {}
    for name, topology in (("fast", Topology(node_rate=1e15, node_latency=0)), ("slow", Topology(node_rate=1e3))):
        context = tilewright.context_parallel(topology=topology)
        compare(check, context, {"window": (2, 0)}, rows=32, keys=32)  # for a ring, fewer rows move
        methods[name] = context.last_plan.method
    check.assertEqual(methods["slow"], "ring")
    check.assertNotEqual(methods["fast"], "ring")
    # Of 8 and of 7 rows, rank 0 has as many.
    context = tilewright.context_parallel(method="ring", order="contiguous")
    for rows in (8, 7, 8):
        compare(check, context, {"causal": True}, rows=rows, keys=rows, batch=1)
    # Rows first in memory, as of [batch, rows, heads, width].
    for method in ("ring", "heads"):
        context = tilewright.context_parallel(method=method)
        whole = [x.detach() for x in qkv(batch=1, rows=12, keys=12)]
        parts = [context.shard(x, 2).transpose(1, 2).contiguous().transpose(1, 2) for x in whole]
        o = context.attention(*parts, causal=True)
        check.assert_same([o], [context.shard(reference(*whole, causal=True)[0], 2)])
        check.assertTrue(o.transpose(1, 2).is_contiguous())


def refusals(check):
    context = tilewright.context_parallel(method="ring")
    q, k, v = qkv(batch=1, rows=8, keys=8)
    with check.assertRaisesRegex(ValueError, r"q must have the rows that context_parallel.shard gives each rank, \[3, 4\] of 7 in the "
                                             r"order 'zigzag', but got \[4, 3\]"):
        context.attention(q[:, :, :4 - check.rank], k[:, :, :4], v[:, :, :4])
    with check.assertRaisesRegex(ValueError, "must have the same arguments on all ranks, but got others on rank"):
        context.attention(q[:, :, :4], k[:, :, :4], v[:, :, :4], causal=check.rank == 0)
    for arguments, text in (({"method": "tree"}, "method must be one of auto, heads, ring, all_gather, 2d, or a plan, but got 'tree'"),
                            ({"method": plan([8], 4, ranks=4)}, "a plan must be for the 2 ranks, without heads and order, but got one"),
                            ({"method": plan([8], 4, ranks=2), "order": "zigzag"}, "but got one for 2 with order"),
                            ({"order": "random"}, "order must be one of contiguous, zigzag or None"),
                            ({"method": "2d"}, "heads must be given with method '2d' alone, a divisor of the 2 ranks, but got None"),
                            ({"method": "2d", "heads": 3}, "a divisor of the 2 ranks, but got 3"),
                            ({"mesh": 3}, "mesh must be a DeviceMesh of one dimension, a process group or None, but got 3"),
                            ({"buffers": [q]}, "buffer_seq_dims must have a dimension for each of 1 buffers, but got 0")):
        with check.assertRaisesRegex(ValueError, text):
            tilewright.context_parallel(**arguments)
    with check.assertRaisesRegex(ValueError, "must have the same arguments on all ranks"):  # each would choose a method
        topology = Topology(network_rate=1e9 * (1 + check.rank))
        tilewright.context_parallel(topology=topology).attention(q[:, :, :4], k[:, :, :4], v[:, :, :4])
    balanced = tilewright.context_parallel(method=plan([3, 5], 4, ranks=2, causal=True, methods=("ring",), shares=("balanced",)))
    with check.assertRaisesRegex(ValueError, "rows must be as many as those of the plan, 8, but got 9"):
        balanced.shares(9)
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


LOST = "context_parallel: rank 0 of 2 could not {}, but got no answer of another rank within the time-out of the group"


def lost(check, method, what, other, **options):
    """After a call of both, rank 1 does something else, and rank 0 gets an error within the time-out, here 4 s."""
    context = tilewright.context_parallel(dist.new_group(timeout=datetime.timedelta(seconds=SECONDS_LOST)), method)
    parts = [context.shard(x, 2) for x in qkv(rows=8, keys=8)]
    context.attention(*parts)
    if check.rank == 1:
        other(context, parts)
        return
    begin = time.monotonic()
    with check.assertRaisesRegex(RuntimeError, LOST.format(what)):
        context.attention(*parts, **options)
    check.assertLess(time.monotonic() - begin, 40)


def lost_by_error(check):
    def raises(context, parts):
        with check.assertRaises(ValueError):
            context.attention(*parts, softcap=-1)

    lost(check, "ring", "exchange keys", raises, softcap=1.0)


def lost_by_end(check):
    lost(check, "heads", "exchange heads", lambda *_: os._exit(0))


def lost_by_kill(check):
    lost(check, "ring", "exchange keys", lambda *_: os.kill(os.getpid(), signal.SIGKILL))


def lost_by_hang(check):
    lost(check, "heads", "exchange heads", lambda *_: time.sleep(3 * SECONDS_LOST))


def lost_by_shape(check):
    """Where one rank alone has other shapes: it compares them, while the other one exchanges keys. With always_check, both get to know."""
    context = tilewright.context_parallel(method="ring", always_check=True)
    q, k, v = qkv(batch=1, rows=8, keys=8)
    rows = 4 - check.rank
    context.attention(*(context.shard(x, 2) for x in (q, k, v)))
    with check.assertRaisesRegex(ValueError, r"q must have the rows that context_parallel.shard gives each rank, \[4, 3\] of 7|"
                                             r"q must have the rows that context_parallel.shard gives each rank, .* but got \[4, 3\]"):
        context.attention(q[:, :, :rows], k[:, :, :4], v[:, :, :4])

    def shorter(context, parts):
        with check.assertRaisesRegex(RuntimeError, LOST.format("compare the shapes of a call").replace("rank 0", "rank 1")):
            context.attention(*(x[:, :, :3] for x in parts))

    lost(check, "ring", "exchange keys", shorter)


class DistributedTest(TorchTest):
    def spawn(self, size, *names):
        """In as few processes as possible, since each imports PyTorch."""
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(run, (size, folder, names), nprocs=size)

    def test_features_on_two(self):
        self.spawn(2, "features")

    def test_on_two(self):
        self.spawn(2, "packed", "listed", "rounded", "users", "auto", "refusals")

    def test_on_four(self):
        self.spawn(4, "shapes", "few_key_heads")

    def lose(self, names, code=0):
        """Rank 1 ends with a code of its own."""
        with tempfile.TemporaryDirectory() as folder:
            context = torch.multiprocessing.spawn(run, (2, folder, names), nprocs=2, join=False)
            for process in context.processes:
                process.join(240)
            self.assertEqual([process.exitcode for process in context.processes], [0, code])

    def test_a_process_that_raises_or_has_another_shape_or_hangs(self):
        self.lose(("lost_by_error", "lost_by_shape", "lost_by_hang"))

    def test_a_process_that_ends(self):
        self.lose(("lost_by_end",))

    def test_a_process_that_is_killed(self):
        self.lose(("lost_by_kill",), -signal.SIGKILL)


class CopiesTest(TorchTest):
    def test_elements_of_16_bytes(self):
        """Where rows have them, copies are of such elements; all copies are right."""
        for dtype in (torch.float16, torch.float64):
            x = torch.randn(2, 4, 10, 16).to(dtype)
            rows = x.new_empty(10, 2, 64).as_strided((2, 4, 10, 16), (64, 16, 128, 1))  # of all heads
            odd = torch.randn(x.numel() + 1).to(dtype)[1:].view_as(x)
            for to, of, is_wide in ((rows, x, True), (torch.empty_like(x)[:, :, 5:], x[:, :, :5], True), (torch.empty_like(x), odd, False),
                                    (x.new_empty(2, 4, 10, 3), x[..., :3], False), (torch.empty_like(x).mT, x.mT, False)):
                self.assertEqual(exchange._wide(to, of)[0].dtype == torch.complex128, is_wide)
                exchange.Exchange.copy_now([(to, of)])
                self.assertTrue(torch.equal(to, of))


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
