# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times calls on a GPU, in turn: one by one, or as CUDA graphs of many calls. Does not import PyTorch before it is used."""

import statistics
import time

FLUSH_BYTES = 256 << 20  # several times the L2 of any GPU
SPACER_CYCLES = 300_000  # about 150 microseconds, time for the host to enqueue work


def in_turn(names, number):
    """The names in the order of a round. The clock of a GPU follows what ran before, so rounds start with different ones, and
    every other round is in reverse: over 2 * len(names) rounds, each name follows its two neighbours equally often."""
    shift = number // 2 % max(len(names), 1)
    order = names[shift:] + names[:shift]
    return order[::-1] if number % 2 else order


def time_interleaved(sides, rounds, flush=True, warm_up=3, time_limit=None):
    """Milliseconds of each call in every round, {name: [ms]}. Each round calls all sides once, in another order
    (in_turn). Before each call, the L2 is overwritten (flush) and the GPU is kept busy until the host has enqueued
    the call."""
    import torch

    scratch = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda") if flush else None
    names = list(sides)
    times = {name: [] for name in names}
    begin = time.monotonic()
    for number in range(warm_up + rounds):
        events = []
        for name in in_turn(names, number):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            if flush:
                scratch.zero_()
            torch.cuda._sleep(SPACER_CYCLES)
            start.record()
            sides[name]()
            end.record()
            events.append((name, start, end))
        torch.cuda.synchronize()
        if number >= warm_up:
            for name, start, end in events:
                times[name].append(start.elapsed_time(end))
            if time_limit is not None and time.monotonic() - begin > time_limit:
                break
    return times


def graph_of(torch, calls):
    """A graph of the calls; its caller keeps what they use."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls[:4]:
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
    return graph


def time_graphs(torch, graphs, calls, rounds):
    """Replays {name: graph of `calls` calls} in rounds (in_turn), of which the first is not counted.
    Returns {name: {"us": median of a call, "iqr": interquartile range}}."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = {name: [] for name in graphs}
    for number in range(rounds + 1):
        for name in in_turn(list(graphs), number):
            begin.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            if number:
                times[name].append(begin.elapsed_time(end) * 1000 / calls)
    result = {}
    for name, values in times.items():
        low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else 3 * values
        result[name] = {"us": statistics.median(values), "iqr": high - low}
    return result
