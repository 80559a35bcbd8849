# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times calls as CUDA graphs of many calls, whose replays take turns."""

import statistics


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
    """Replays {name: graph of `calls` calls} in turn. Returns {name: {"us": median of a call, "iqr": interquartile range}}."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = {name: [] for name in graphs}
    for number in range(rounds + 1):
        for name, graph in graphs.items():
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if number:
                times[name].append(begin.elapsed_time(end) * 1000 / calls)
    result = {}
    for name, values in times.items():
        quartiles = statistics.quantiles(values, n=4)
        result[name] = {"us": statistics.median(values), "iqr": quartiles[2] - quartiles[0]}
    return result
