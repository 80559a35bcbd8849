#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over the GPUs of a host: tilewright.context_parallel, against one GPU and against torch's context_parallel (cuDNN).

    bench/context_parallel.py --json scale.json                          all cases, on all GPUs
    bench/context_parallel.py --prebuild FOLDER                          compiles the code of all cases, without a GPU
    bench/context_parallel.py --prebuilt FOLDER --cases check,causal     without a compiler

Cases: check (results and gradients against f32 on one GPU), causal (--lengths), gqa, window, packed, softcap, million (one run of 1M
tokens), and lost (a process ends: what the others report). Sides run in turn in each round; a time is that of calls one after
the other, the longest of all GPUs, the median of rounds. Prints TFLOP/s a GPU, forward and forward + backward, and the memory of a GPU beyond its inputs."""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
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


def choices():
    """What the cases launch, by the name of a bundle. Those of one GPU come first: a call that does not name a parameter takes the
    first bundle that has the others."""
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
            for part in {"causal": shards, "window": shards, "softcap": ["shard"]}.get(name, []):
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
        self.rows = []

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

    def timed(self, run, seconds=0.1):
        """Seconds of a call, of calls one after the other that take `seconds` together: as in training, where the processor
        prepares a launch while others run."""
        once = self.timed_once(run, 1)
        times = min(10, int(seconds / once))
        return self.timed_once(run, times) if times > 1 else once

    def timed_once(self, run, times):
        dist.barrier()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
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
        return Side(method, lambda *x: context.attention(*x, **options), lambda *x: [context.shard(y, dim) for y in x], self.size)

    def of_torch(self, method):
        from torch.distributed.tensor.experimental import context_parallel
        from torch.distributed.tensor.experimental._attention import set_rotate_method
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def attend(q, k, v):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        side = Side(f"torch {method}", attend, lambda *x: [y.clone() for y in x], self.size)
        side.context = lambda buffers: (set_rotate_method(method), context_parallel(self.mesh, buffers=buffers,
                                                                                    buffer_seq_dims=[2] * len(buffers)))[1]
        return side

    def run_case(self, name, inputs, flops, sides, backward=True):
        """`flops` of the forward over all rows; the backward has 2.5 times as many."""
        times, memory = {side.name: ([], []) for side in sides}, {}
        for round in range(self.options.rounds + 1):  # the first one warms up
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
                   "memory_mb": memory.get(side.name, 0)}
            if both:
                row |= {"both": 3.5 * flops / statistics.median(both) / side.gpus / 1e12, "both_ms": statistics.median(both) * 1e3}
            self.rows.append(row)
            self.say(f"  {name:16} {side.name:18} forward {row['forward']:6.1f} ({row['forward_ms']:.2f} ms)"
                     + (f"   forward + backward {row['both']:6.1f} ({row['both_ms']:.2f} ms)" if both else "")
                     + f"   {row['memory_mb']:.0f} MB")

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
            for method in ("heads",) if packed else ("heads", "ring", "all_gather"):
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

    def causal(self):
        for rows in self.options.lengths:
            inputs = self.make(16, 16, rows)
            sides = [self.one(causal=True), self.ours("heads", causal=True), self.ours("ring", causal=True)]
            sides += [self.of_torch(method) for method in self.options.torch]
            self.run_case(f"causal {rows // 1024}k", inputs, 2 * rows * rows * 16 * WIDTH, sides)

    def gqa(self):
        rows = 65536
        self.run_case("GQA 64/8 64k", self.make(64, 8, rows), 2 * rows * rows * 64 * WIDTH,
                      [self.one(causal=True), self.ours("heads", causal=True)])

    def window(self):
        rows, options = 131072, {"causal": True, "window": (WINDOW, 0)}
        self.run_case("window 4096 128k", self.make(16, 16, rows), 4 * rows * WINDOW * 16 * WIDTH,
                      [self.one(**options), self.ours("ring", "contiguous", **options)])

    def packed(self):
        rows = 131072
        generator, lengths = torch.Generator().manual_seed(3), []
        while sum(lengths) < rows:
            lengths.append(min(1 << int(torch.randint(10, 16, (1,), generator=generator)), rows - sum(lengths)))
        starts = torch.tensor([0, *lengths], device=self.device).cumsum(0).to(torch.int32)
        options = {"causal": True, "cu_seqlens_q": starts, "max_seqlen_q": max(lengths)}
        inputs = [x[0].transpose(0, 1).contiguous() for x in self.make(16, 16, rows)]
        self.run_case("packed 128k", inputs, 2 * sum(n * n for n in lengths) * 16 * WIDTH,
                      [self.one(**options), self.ours("heads", dim=0, **options)])

    def softcap(self):
        rows, options = 65536, {"causal": True, "softcap": 30.0}
        self.run_case("softcap 64k", self.make(16, 16, rows), 2 * rows * rows * 16 * WIDTH,
                      [self.one(**options), self.ours("heads", **options)])

    def million(self):
        rows, context = 1 << 20, tilewright.context_parallel(self.mesh, "heads")
        own = [torch.randn((1, 16, rows // self.size, WIDTH), device=self.device, dtype=torch.bfloat16).requires_grad_()
               for _ in range(3)]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        seconds = self.timed(lambda: torch.autograd.grad(context.attention(*own, causal=True), own, torch.ones_like(own[0])))
        rate, peak = 7 * rows * rows * 16 * WIDTH / seconds / self.size / 1e12, (torch.cuda.max_memory_allocated() - before) / 2**20
        self.rows.append({"case": "1M tokens", "side": "heads", "gpus": self.size, "both": rate, "both_ms": seconds * 1e3,
                          "memory_mb": peak})
        self.say(f"  1M tokens        heads              forward + backward {rate:6.1f} ({seconds * 1e3:.0f} ms)   {peak:.0f} MB")

    def lost(self):
        """Its last rank ends before a call: the others get an error within the time-out. Last of all cases."""
        group = dist.new_group(timeout=datetime.timedelta(seconds=15))
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
    for case in options.cases.split(","):
        begin = time.monotonic()
        if case == "lost" and rank == 0 and options.json:
            write(options, bench)
        try:
            getattr(bench, case)()
        except Exception as error:  # noqa: BLE001
            print(f"  {case}: rank {rank}: {type(error).__name__}: {str(error)[:600]}", flush=True)
            if not options.go_on:
                raise
        torch.cuda.empty_cache()
        bench.say(f"  ({case}: {time.monotonic() - begin:.0f} s)")
    if rank == 0 and options.json:
        write(options, bench)
    dist.destroy_process_group()


def write(options, bench):
    with open(options.json, "w") as file:
        json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rounds": options.rounds, "rows": bench.rows},
                  file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="check,causal,gqa,window,packed,softcap,million,lost", help="which, with commas")
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=[1 << n for n in (15, 16, 17, 18)],
                        help="of the case causal")
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
    size = options.gpus or torch.cuda.device_count()
    torch.multiprocessing.spawn(work, (size, options), nprocs=size)


if __name__ == "__main__":
    main()
