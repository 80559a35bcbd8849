#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over the GPUs of a host: tilewright.context_parallel, against one GPU and against torch's context_parallel (cuDNN).

    bench/context_parallel.py --json scale.json                          all cases, on all GPUs
    bench/context_parallel.py --json scale.json --budget 300             what fits into 300 seconds: fewer rounds, then fewer cases
    bench/context_parallel.py --prebuild FOLDER                          compiles the code of all cases, without a GPU
    bench/context_parallel.py --prebuilt FOLDER --cases check,causal     without a compiler
    bench/context_parallel.py --processor                                the processor's time of a call, on two processes without a GPU

Cases: check (results and gradients against f32 on one GPU); of the --lengths: causal, window, packed, softcap, gqa, and auto (the method
that is chosen, its predicted time, and those of the others); million (1M tokens, forward and backward), and lost (a process ends: what
the others report). Sides run in turn in each round; a time is that of calls one after the other, behind two others, the longest of all GPUs,
the median of rounds. Prints TFLOP/s a GPU, forward and forward + backward, and the memory of a GPU beyond its inputs. --json has all times."""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "python"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import tilewright  # noqa: E402
from tilewright.choice import Choice, ShardChoice  # noqa: E402

WIDTH, WINDOW = 128, 4096
WHOLE = ("heads", "ring", "all_gather")  # methods of sequences in one piece
SECONDS_LOST = 10  # until a process is missed


def choices():
    """What the cases launch, by the name of a bundle."""
    result = {}
    for name, window, packed, modifier in (("causal", False, False, ""), ("window", True, False, ""), ("packed", False, True, ""),
                                           ("softcap", False, False, "softcap")):
        for kernel in ("forward", "backward"):
            whole = Choice(kernel, "bf16", WIDTH, WIDTH, "top_left", window, modifier, packed=packed)
            result[f"{name}-{kernel}"] = whole
            shards = {"shard": ShardChoice(whole, True)}  # an exchange of heads; the others are those of a ring
            if kernel == "backward":
                shards["sum"] = ShardChoice(whole, True, result="f32")
            else:
                shards |= {"first": ShardChoice(whole, True, result="f32"), "next": ShardChoice(whole, True, True, "f32"),
                           "last": ShardChoice(whole, True, True)}
            # Of packed sequences, parts are those of the case causal; gathered keys of whole ones get sums.
            for part in shards if not packed else {"sum"} & shards.keys():
                result[f"{name}-{kernel}-{part}"] = shards[part]
    return result


def prebuild(folder, compiler):
    os.makedirs(folder, exist_ok=True)
    for name, choice in choices().items():
        kernel, files = choice.files()
        subprocess.run([compiler, kernel, "--quiet", "--emit=bundle", "--target=sm_90a", "-o", os.path.join(folder, name + ".twb"),
                        *(f"--param={key}={value}" for key, value in choice.params().items()), *(f"--with={file}" for file in files)],
                       check=True)


class Side:
    """A way to compute attention: attend(q, k, v) on what `prepare` makes of q, k and v of all rows."""

    def __init__(self, name, attend, prepare, gpus):
        self.name, self.attend, self.prepare, self.gpus = name, attend, prepare, gpus


class Bench:
    def __init__(self, options, rank, size):
        self.options, self.rank, self.size = options, rank, size
        self.device = torch.device("cuda", rank)
        self.mesh = dist.device_mesh.init_device_mesh("cuda", (size,))
        self.rows, self.skipped = [], []
        self.deadline = self.case_deadline = None  # with --budget, of time.monotonic

    def is_late(self, deadline):
        """Whether a time has passed on some GPU, the same on all."""
        return deadline is not None and self.longest(float(time.monotonic() > deadline)) > 0

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def make(self, heads, kv_heads, rows, seed=1):
        generator = torch.Generator(self.device).manual_seed(seed)
        return [torch.randn((1, n, rows, WIDTH), generator=generator, device=self.device, dtype=torch.bfloat16)
                for n in (heads, kv_heads, kv_heads)]

    def longest(self, seconds):
        x = torch.tensor([seconds], device=self.device)
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        return x.item()

    def timed(self, run, seconds=0.2):
        """Seconds of a call, of calls one after the other that take `seconds` together, behind calls that are not timed: as in
        training, where the processor prepares a launch while others run, and memory for what it has in flight is allocated."""
        times = max(2, min(20, int(seconds / self.timed_once(run, 1, 0))))
        return self.timed_once(run, times, 2)

    def timed_once(self, run, times, before):
        dist.barrier()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(before):
            run()
        begin.record()
        for _ in range(times):
            run()
        end.record()
        torch.cuda.synchronize()
        return self.longest(begin.elapsed_time(end) / 1e3 / times)

    # Sides

    def one(self, **options):
        return Side("one GPU", lambda *x: tilewright.attention(*x, **options), lambda *x: [y.detach() for y in x], 1)

    def ours(self, method, order=None, dim=2, **options):
        context = tilewright.context_parallel(self.mesh, method, order=order)
        side = Side(method, lambda *x: context.attention(*x, **options), lambda *x: [context.shard(y, dim) for y in x], self.size)
        side.ours = context
        return side

    def of_torch(self, method, gqa=False):
        from torch.distributed.tensor.experimental import context_parallel
        from torch.distributed.tensor.experimental._attention import set_rotate_method
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def attend(q, k, v):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True, **({"enable_gqa": True} if gqa else {}))

        side = Side(f"torch {method}", attend, lambda *x: [y.clone() for y in x], self.size)
        side.context = lambda buffers: (set_rotate_method(method), context_parallel(self.mesh, buffers=buffers,
                                                                                    buffer_seq_dims=[2] * len(buffers)))[1]
        return side

    def run_case(self, name, inputs, flops, sides, backward=True):
        """`flops` of the forward over all rows; the backward has 2.5 times as many."""
        times, memory = {side.name: ([], []) for side in sides}, {}
        for round in range(self.options.rounds + 1):  # the first one warms up
            if round > 1 and self.is_late(self.case_deadline):
                break
            for side in sides if round % 2 else sides[::-1]:
                try:
                    self.run_side(side, inputs, times[side.name], memory, round == 0, backward)
                except Exception as error:  # noqa: BLE001
                    if not side.name.startswith("torch"):
                        raise
                    times[side.name] = ([], [])
                    self.say(f"  {side.name}: {str(error).splitlines()[0]}")
        for side in sides:
            forward, both = times[side.name]
            if not forward:
                continue
            row = {"case": name, "side": side.name, "gpus": side.gpus,
                   "forward": flops / statistics.median(forward) / side.gpus / 1e12, "forward_ms": statistics.median(forward) * 1e3,
                   "memory_mb": memory.get(side.name, 0), "forward_times_ms": [x * 1e3 for x in forward],
                   "both_times_ms": [x * 1e3 for x in both]}
            plan = side.ours.last_plan if hasattr(side, "ours") else None
            if plan is not None:
                row |= {"method": plan.method, "heads": plan.heads, "predicted_ms": plan.seconds * 1e3, "reason": plan.reason}
            if both:
                row |= {"both": 3.5 * flops / statistics.median(both) / side.gpus / 1e12, "both_ms": statistics.median(both) * 1e3}
            self.rows.append(row)
            self.say(f"  {name:16} {side.name:18} forward {row['forward']:6.1f} ({row['forward_ms']:.2f} ms)"
                     + (f"   forward + backward {row['both']:6.1f} ({row['both_ms']:.2f} ms)" if both else "")
                     + f"   {row['memory_mb']:.0f} MB" + (f"   {plan.method}, predicted {plan.seconds * 1e3:.2f} ms" if plan else ""))

    def run_side(self, side, inputs, times, memory, is_first, backward):
        own = side.prepare(*inputs)
        context = side.context(own) if hasattr(side, "context") else None
        if context:
            context.__enter__()
        try:
            own = [x.requires_grad_(backward) for x in own]
            with torch.no_grad():
                side.attend(*own)  # its kernels are loaded, and the clocks are up
                forward = self.timed(lambda: side.attend(*own))
            both = None
            if backward:
                do = torch.randn_like(own[0])
                run = lambda: torch.autograd.grad(side.attend(*own), own, do)  # noqa: E731
                if is_first:
                    torch.cuda.reset_peak_memory_stats()
                    before = torch.cuda.memory_allocated()
                both = self.timed(run)
                if is_first:
                    memory[side.name] = (torch.cuda.max_memory_allocated() - before) / 2**20
        finally:
            if context:
                for x in own:
                    x.requires_grad_(False)
                context.__exit__(None, None, None)
        if not is_first:
            times[0].append(forward)
            times[1].extend([both] if backward else [])

    # Cases

    def check(self):
        """|x - exact| of two GPUs is at most twice that of one GPU, and bit-equal in a second deterministic run."""
        rows = 3000
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device=self.device)
        starts = torch.tensor([0, 700, 900, 2500, rows], device=self.device, dtype=torch.int32)
        for features in ({}, {"causal": True}, {"causal": True, "window": (500, 0)}, {"causal": True, "softcap": 20.0},
                         {"causal": True, "alibi_slopes": slopes}, {"causal": True, "cu_seqlens_q": starts, "max_seqlen_q": 1600}):
            packed, modified = "cu_seqlens_q" in features, {"softcap", "alibi_slopes"} & set(features)
            if self.options.prebuilt and ("alibi_slopes" in features or not features):
                continue
            inputs = self.make(4, 2, rows)
            if packed:
                inputs = [x[0].transpose(0, 1).contiguous() for x in inputs]
            do = torch.randn(inputs[0].shape, generator=torch.Generator(self.device).manual_seed(7), device=self.device).bfloat16()
            dim = 0 if packed else 2

            def gradients(call, tensors, seed, dtype=torch.bfloat16):
                leaves = [x.detach().to(dtype).requires_grad_() for x in tensors]
                o = call(*leaves)
                return [o.detach(), *torch.autograd.grad(o, leaves, seed.to(dtype))]

            one = gradients(lambda *x: tilewright.attention(*x, **features), inputs, do)
            exact = gradients(lambda *x: exactly(*x, **features), inputs, do, torch.float32)
            for method in WHOLE:
                for deterministic in (False,) if modified or self.options.prebuilt else (False, True):
                    context = tilewright.context_parallel(self.mesh, method)
                    parts = [context.shard(x, dim) for x in inputs]
                    runs = [gradients(lambda *x: context.attention(*x, deterministic=deterministic, **features), parts,
                                      context.shard(do, dim)) for _ in range(1 + deterministic)]
                    if deterministic:
                        assert all(torch.equal(x, y) for x, y in zip(*runs)), (features, method)
                    errors = []
                    for x, own, true in zip(runs[0], one, exact):
                        error = (x - context.shard(true, dim)).abs().max().item()
                        allowed = 2 * (own - true).abs().max().item()
                        errors.append(error / allowed)
                    worst = self.longest(max(errors))
                    self.say(f"  check {method:10} {'deterministic ' if deterministic else ''}{sorted(features)}: "
                             f"{worst:.2f} of the allowed error")
                    assert worst <= 1, errors

    def causal(self, rows):
        inputs = self.make(16, 16, rows)
        sides = [self.one(causal=True), *(self.ours(method, causal=True) for method in WHOLE)]
        sides += [self.of_torch(method) for method in self.options.torch]
        self.run_case(f"causal {rows // 1024}k", inputs, 2 * rows * rows * 16 * WIDTH, sides)

    def gqa(self, rows):
        sides = [self.one(causal=True), *(self.ours(method, causal=True) for method in WHOLE)]
        sides += [self.of_torch(method, gqa=True) for method in self.options.torch]
        self.run_case(f"GQA 64/8 {rows // 1024}k", self.make(64, 8, rows), 2 * rows * rows * 64 * WIDTH, sides)

    def window(self, rows):
        options = {"causal": True, "window": (WINDOW, 0)}
        self.run_case(f"window {WINDOW} {rows // 1024}k", self.make(16, 16, rows), 4 * rows * WINDOW * 16 * WIDTH,
                      [self.one(**options), self.ours("heads", **options), self.ours("ring", "contiguous", **options)])

    def packed(self, rows):
        generator, lengths = torch.Generator().manual_seed(3), []
        while sum(lengths) < rows:
            lengths.append(min(1 << int(torch.randint(10, 16, (1,), generator=generator)), rows - sum(lengths)))
        starts = torch.tensor([0, *lengths], device=self.device).cumsum(0).to(torch.int32)
        options = {"causal": True, "cu_seqlens_q": starts, "max_seqlen_q": max(lengths)}
        inputs = [x[0].transpose(0, 1).contiguous() for x in self.make(16, 16, rows)]
        plan = tilewright.context_parallel(self.mesh).plan(lengths, 16, 16, WIDTH, causal=True, methods=("ring",), shares=("balanced",))
        balanced = self.ours(plan, dim=0, **options)
        balanced.name = "ring, balanced"
        self.run_case(f"packed {rows // 1024}k", inputs, 2 * sum(n * n for n in lengths) * 16 * WIDTH,
                      [self.one(**options), self.ours("heads", dim=0, **options), balanced])

    def softcap(self, rows):
        options = {"causal": True, "softcap": 30.0}
        self.run_case(f"softcap {rows // 1024}k", self.make(16, 16, rows), 2 * rows * rows * 16 * WIDTH,
                      [self.one(**options), *(self.ours(method, **options) for method in WHOLE)])

    def auto(self, rows):
        """The chosen method, against all others, of a causal mask and of a window."""
        for name, work, options in (("causal", rows / 2, {}), ("window", WINDOW, {"window": (WINDOW, 0)})):
            sides = [self.ours("auto", "zigzag" if name == "causal" else None, causal=True, **options)]
            sides += [self.ours(method, "zigzag" if name == "causal" else "contiguous", causal=True, **options)
                      for method in WHOLE]
            self.run_case(f"auto, {name} {rows // 1024}k", self.make(16, 16, rows), 4 * rows * work * 16 * WIDTH, sides)

    def million(self):
        rows, context = 1 << 20, tilewright.context_parallel(self.mesh, "heads")
        own = [torch.randn((1, 16, rows // self.size, WIDTH), device=self.device, dtype=torch.bfloat16).requires_grad_()
               for _ in range(3)]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        seconds = self.timed_once(lambda: torch.autograd.grad(context.attention(*own, causal=True), own, torch.ones_like(own[0])), 1, 1)
        rate, peak = 7 * rows * rows * 16 * WIDTH / seconds / self.size / 1e12, (torch.cuda.max_memory_allocated() - before) / 2**20
        self.rows.append({"case": "1M tokens", "side": "heads", "gpus": self.size, "both": rate, "both_ms": seconds * 1e3,
                          "memory_mb": peak})
        self.say(f"  1M tokens        heads              forward + backward {rate:6.1f} ({seconds * 1e3:.0f} ms)   {peak:.0f} MB")

    def lost(self):
        """Its last rank ends before a call: the others get an error within the time-out. Last of all cases."""
        group = dist.new_group(timeout=datetime.timedelta(seconds=SECONDS_LOST))
        context = tilewright.context_parallel(group, "ring")
        own = [context.shard(x, 2) for x in self.make(16, 16, 8192)]
        context.attention(*own, causal=True)
        torch.cuda.synchronize()
        if self.rank == self.size - 1:
            os._exit(0)
        begin = time.monotonic()
        try:
            context.attention(*own, causal=True)
            torch.cuda.synchronize()
            context.unshard(own[0], 2)
            print(f"  lost: no error on rank {self.rank}", flush=True)
        except Exception as error:  # noqa: BLE001
            print(f"  lost: rank {self.rank} after {time.monotonic() - begin:.1f} s: {type(error).__name__}: {str(error)[:400]}",
                  flush=True)
        os._exit(0)


def exactly(q, k, v, causal=False, window=None, softcap=None, alibi_slopes=None, cu_seqlens_q=None, max_seqlen_q=None):
    """In f32, with all scores."""
    if cu_seqlens_q is not None:
        o = [exactly(*(x[None, a:b].transpose(1, 2) for x in (q, k, v)), causal=causal)[0].transpose(0, 1)
             for a, b in zip(cu_seqlens_q.tolist(), cu_seqlens_q.tolist()[1:])]
        return torch.cat(o)
    group = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(group, 1).mT * WIDTH**-0.5
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    ahead = torch.arange(k.shape[2], device=q.device) - torch.arange(q.shape[2], device=q.device)[:, None]
    if alibi_slopes is not None:
        scores = scores - alibi_slopes[:, None, None] * ahead.abs()
    kept = torch.ones_like(ahead, dtype=torch.bool)
    if causal:
        kept &= ahead <= 0
    if window:
        kept &= ahead >= -window[0]
    return scores.masked_fill(~kept, -torch.inf).softmax(-1) @ v.repeat_interleave(group, 1)


def work(rank, size, options):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = str(options.port)
    torch.cuda.set_device(rank)
    torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group("nccl", rank=rank, world_size=size, device_id=torch.device("cuda", rank),
                            timeout=datetime.timedelta(seconds=40))
    if options.prebuilt:
        for name, choice in choices().items():
            tilewright.load_bundle(os.path.join(options.prebuilt, name + ".twb"), choice.modifier or None)
    bench = Bench(options, rank, size)
    bench.say(f"{size} x {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, NCCL {torch.cuda.nccl.version()}")
    run_all(bench, options)
    if rank == 0 and options.json:
        write(options, bench)
    dist.destroy_process_group()


OF_LENGTHS = ("causal", "window", "packed", "softcap", "gqa", "auto")


def run_all(bench, options):
    """The cases, of each length in turn. With --budget, each gets its part of the time that is left; what no time is left for is
    skipped."""
    names = options.cases.split(",")
    runs = [(name, []) for name in names if name == "check"]
    runs += [(name, [rows]) for rows in options.lengths for name in names if name in OF_LENGTHS]
    runs += [(name, []) for name in names if name not in OF_LENGTHS and name != "check"]
    if options.budget:
        bench.deadline = time.monotonic() + options.budget - (SECONDS_LOST + 5 if "lost" in names else 0)
    for number, (case, arguments) in enumerate(runs):
        begin = time.monotonic()
        title = f"{case} {arguments[0] // 1024}k" if arguments else case
        if case != "lost" and bench.is_late(bench.deadline):
            bench.skipped.append(title)
            bench.say(f"  ({title}: skipped, no time is left)")
            continue
        if bench.deadline:
            bench.case_deadline = begin + (bench.deadline - begin) / (len(runs) - number)
        if case == "lost" and bench.rank == 0 and options.json:
            write(options, bench)
        try:
            getattr(bench, case)(*arguments)
        except Exception as error:  # noqa: BLE001
            print(f"  {title}: rank {bench.rank}: {type(error).__name__}: {str(error)[:600]}", flush=True)
            if not options.go_on:
                raise
        torch.cuda.empty_cache()
        bench.say(f"  ({title}: {time.monotonic() - begin:.0f} s)")
        if bench.rank == 0 and options.json:
            write(options, bench)


def write(options, bench):
    with open(options.json, "w") as file:
        json.dump({"device": torch.cuda.get_device_name(), "gpus": bench.size, "torch": torch.__version__,
                   "nccl": list(torch.cuda.nccl.version()), "rounds": options.rounds, "budget_s": options.budget,
                   "skipped": bench.skipped, "rows": bench.rows}, file, indent=1)


def processor(rank, size, folder, file):
    """Milliseconds of the processor for a call, and how many messages and launches it prepares, of which it does none: kernels on a
    GPU and NCCL take the processor time besides, which this has not."""
    from tilewright import exchange, launches
    torch.set_num_threads(1)
    tilewright.interpret()
    dist.init_process_group("gloo", rank=rank, world_size=size, init_method=f"file://{folder}/group")
    counts, done = [0, 0], type("Done", (), {"wait": lambda self: None})()

    def post(ops):
        counts[0] += len(ops)
        return [done] * len(ops)

    def launch(*_, **__):
        counts[1] += 1

    dist.batch_isend_irecv, launches.launch, exchange.GATED = post, launch, ("cpu",)
    inputs, rows = [torch.randn(1, 16, 64, 8, dtype=torch.bfloat16) for _ in range(3)], []
    packed = {"cu_seqlens_q": torch.tensor([0, 10, 30, 34, 64], dtype=torch.int32), "max_seqlen_q": 30}
    for name, method, options in (("causal", "heads", {}), ("causal", "ring", {}), ("window", "ring", {"window": (8, 0)}),
                                  ("packed", "heads", packed), ("packed", "ring", packed)):
        context = tilewright.context_parallel(method=method, order="contiguous" if name == "window" else None)
        own = [context.shard(x, 2) for x in inputs]
        own = [(x[0].transpose(0, 1) if name == "packed" else x).requires_grad_() for x in own]

        def forward():
            with torch.no_grad():
                return context.attention(*own, causal=True, **options)

        def both():
            return torch.autograd.grad(context.attention(*own, causal=True, **options), own, torch.ones_like(own[0]))

        for what, call in (("forward", forward), ("forward + backward", both)):
            for _ in range(5):
                call()
            counts[:] = 0, 0
            call()
            row, times = {"case": name, "method": method, "what": what, "messages": counts[0], "launches": counts[1]}, []
            for _ in range(200):
                begin = time.thread_time()
                call()
                times.append(time.thread_time() - begin)
            rows.append(row | {"ms": statistics.median(times) * 1e3})
            if rank == 0:
                print("  {case:8} {method:6} {what:20} {ms:.2f} ms, {messages} messages, {launches} launches".format(**rows[-1]))
    if rank == 0 and file:
        with open(file, "w") as output:
            json.dump({"torch": torch.__version__, "rows": rows}, output, indent=1)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="check,causal,gqa,window,packed,softcap,auto,million,lost", help="which, with commas")
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=[1 << n for n in (15, 16, 17, 18)],
                        help="the numbers of rows, with commas; by default 32k to 256k")
    parser.add_argument("--budget", type=float, default=0, metavar="SECONDS", help="stop rounds and skip cases to end within this time")
    parser.add_argument("--processor", action="store_true", help="the processor's time of a call, without a GPU, and stop")
    parser.add_argument("--torch", type=lambda text: [n for n in text.split(",") if n], default=["alltoall"],
                        help="how torch's context_parallel moves keys: alltoall, allgather, or both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gpus", type=int, default=0, help="how many; default: all")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--prebuild", metavar="FOLDER", help="write the bundles of all cases, and stop")
    parser.add_argument("--prebuilt", metavar="FOLDER", help="take bundles from here")
    parser.add_argument("--tilewrightc", default=os.environ.get("TILEWRIGHTC", "tilewrightc"), help="the compiler, for --prebuild")
    parser.add_argument("--go-on", action="store_true", help="after a case that fails, run the next one")
    parser.add_argument("--port", type=int, default=29533)
    options = parser.parse_args()
    if options.prebuild:
        prebuild(options.prebuild, options.tilewrightc)
        return
    if options.processor:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(processor, (2, folder, options.json), nprocs=2)
        return
    os.environ.setdefault("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000")  # for the case lost: PyTorch's watchdog ends the process soon
    os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")
    size = options.gpus or torch.cuda.device_count()
    if not size:
        parser.error("there is no GPU; --processor and --prebuild need none")
    torch.multiprocessing.spawn(work, (size, options), nprocs=size)


if __name__ == "__main__":
    main()
