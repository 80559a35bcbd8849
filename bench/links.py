#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the links between GPUs through NCCL, for the constants of tilewright.context_cost.Topology (docs/scale.md).

    torchrun --nproc-per-node 2 bench/links.py --json links.json

Each operation moves 64 KiB to 256 MiB from each rank: sends to the next rank of the ring, the exchange of all with all, and the
gathering of all. Latency and rate are fitted to the medians, by least squares of the relative errors; bytes are those that a rank
sends to others, or for the gathering receives. Last, attention of PyTorch runs alone and while the ring sends: the part of the
speed that it loses is the part of the multiprocessors that NCCL takes.
"""

import argparse
import json
import os
import statistics

import torch
import torch.distributed as dist
import torch.nn.functional as F

SIZES = [1 << shift for shift in range(16, 29, 2)]


def ring_of(size, rank, ranks):
    out = torch.empty(size, dtype=torch.uint8, device="cuda")
    into = torch.empty_like(out)

    def call():
        ops = [dist.P2POp(dist.isend, out, (rank + 1) % ranks), dist.P2POp(dist.irecv, into, (rank - 1) % ranks)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()

    return call, size


def exchange_of(size, rank, ranks):
    out = torch.empty(size * ranks, dtype=torch.uint8, device="cuda")
    into = torch.empty_like(out)
    return lambda: dist.all_to_all_single(into, out), size * (ranks - 1)


def gather_of(size, rank, ranks):
    out = torch.empty(size, dtype=torch.uint8, device="cuda")
    into = torch.empty(size * ranks, dtype=torch.uint8, device="cuda")
    return lambda: dist.all_gather_into_tensor(into, out), size * (ranks - 1)


def seconds_of(call, rounds):
    """The median of a call, from its launch on an idle GPU to the end of what it moved, on the slowest rank."""
    times = []
    for number in range(rounds + 3):
        torch.cuda.synchronize()
        dist.barrier()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(200_000)  # until the host has enqueued the call
        begin.record()
        call()
        end.record()
        end.synchronize()
        if number >= 3:
            times.append(begin.elapsed_time(end) / 1e3)
    slowest = torch.tensor(statistics.median(times), device="cuda")
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def fit(points):
    """(latency, bytes in a second) of [(bytes, seconds)]: seconds = latency + bytes / rate."""
    weights = [1 / seconds ** 2 for _, seconds in points]
    total = sum(weights)
    x = sum(w * size for w, (size, _) in zip(weights, points)) / total
    y = sum(w * seconds for w, (_, seconds) in zip(weights, points)) / total
    slope = (sum(w * (size - x) * (seconds - y) for w, (size, seconds) in zip(weights, points)) /
             sum(w * (size - x) ** 2 for w, (size, _) in zip(weights, points)))
    return y - slope * x, 1 / slope


def lost_to_copies(rank, ranks, rounds):
    """The part of attention's speed that is lost while the ring sends without a pause."""
    q, k, v = (torch.randn(1, 16, 16384, 128, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    send, _ = ring_of(256 << 20, rank, ranks)
    side = torch.cuda.Stream()

    def attention():
        F.scaled_dot_product_attention(q, k, v)

    def both():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):  # longer than the kernel
                send()
        attention()

    return 1 - seconds_of(attention, rounds) / seconds_of(both, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = {"gpu": torch.cuda.get_device_name(), "ranks": ranks, "torch": torch.__version__,
             "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    for name, make in (("send", ring_of), ("exchange", exchange_of), ("gather", gather_of)):
        points = []
        for size in SIZES:
            call, moved = make(size, rank, ranks)
            points.append((moved, seconds_of(call, options.rounds)))
        latency, rate = fit(points)
        found[name] = {"latency_us": latency * 1e6, "gb_s": rate / 1e9,
                       "points": [{"bytes": moved, "us": seconds * 1e6} for moved, seconds in points]}
    found["lost_to_copies"] = lost_to_copies(rank, ranks, options.rounds)
    if rank == 0:
        for name in ("send", "exchange", "gather"):
            print(f"{name:9} {found[name]['latency_us']:6.1f} us + {found[name]['gb_s']:.1f} GB/s; " + ", ".join(
                f"{point['bytes'] >> 10} KiB {point['us']:.0f} us" for point in found[name]["points"]))
        print(f"attention loses {found['lost_to_copies']:.1%} while the ring sends")
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(found, file, indent=1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
