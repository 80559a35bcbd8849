#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces the waits, copies, products and stores of a case of peers.py: writes a trace for Perfetto, and prints a table.

    bench/timeline.py --cases "D128 none S4096" -o trace.json                        compiles the kernel with --timeline
    bench/timeline.py --cases "D128 none S4096" --bundle forward.twb -o trace.json   a bundle compiled with --timeline
    bench/timeline.py --read trace.json                                              only prints the table; needs no GPU
    bench/timeline.py --read trace.json --svg picture.svg --from 20 --length 10      10 us of one thread block

The table has a row for each operation of each role: how often it ran, its mean duration over all blocks in the trace, and
its share of the role's time. `work` is the time between these operations: arithmetic on tiles, addresses. Iterations of
loops and products in flight overlap other operations and have no share. A timeline makes a kernel slower.
"""

import argparse
import json
import sys
import tempfile

import peers
from gpubench import report
from gpubench.library import TilewrightError
from gpubench.timeline_plot import svg_timeline


def rows_of(trace):
    """The rows of the table for a trace."""
    roles, began, rows, totals = {}, {}, {}, {}
    for event in trace["traceEvents"]:
        track = event["pid"], event["tid"]
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                roles[track] = event["args"]["name"].rsplit(" ", 1)[0]
            continue
        role, microseconds = roles[track], event.get("dur")
        if event["ph"] == "b":
            began[event["id"]] = event["ts"]
            continue
        if event["ph"] == "e":
            microseconds = event["ts"] - began.pop(event["id"])
        is_part = event["ph"] == "X" and event["cat"] != "loop"
        key = role, event["cat"], event["name"], event.get("args", {}).get("line", "")
        row = rows.setdefault(key, [0, 0.0, is_part])
        row[0] += 1
        row[1] += microseconds
        if is_part:
            totals[role] = totals.get(role, 0.0) + microseconds
    order = list(dict.fromkeys(role for role, *_ in rows))
    table = []
    for (role, kind, name, line), (count, total, is_part) in sorted(
            rows.items(), key=lambda row: (order.index(row[0][0]), not row[1][2], -row[1][1])):
        share = f"{total / totals[role]:.1%}" if is_part and totals[role] else ""
        table.append([role, kind, name, line, count, f"{1e3 * total / count:.0f}", share])
    return table


def print_trace(trace):
    print(", ".join(f"{name}: {value}" for name, value in trace["otherData"].items()))
    print(report.markdown_table(["role", "kind", "operation", "line", "times", "mean ns", "share"], rows_of(trace)))


def record(arguments, path, megabytes):
    """Runs the first case that the arguments of peers.py select twice, and keeps the second run."""
    options = peers.parse(arguments)
    if not options.bundle:
        options.extra.append("--timeline")
    case = options.selected[0]
    with tempfile.TemporaryDirectory() as folder:
        bench = peers.Bench(options, folder)
        torch = bench.torch
        timeline = torch.zeros(megabytes << 17, dtype=torch.int64, device="cuda")
        problem = bench.forms[case.form].of(case)

        def allocate(size):
            return torch.empty(size, dtype=torch.uint8, device="cuda")

        calls = [bench.plan(options.sources[0], entry, case).bind({**given, "timeline": timeline}, allocate,
                                                                  bench.device.current_stream)
                 for entry, given in zip(problem.entries, problem.launches(problem.outputs()))]
        for _ in range(2):
            timeline.zero_()
            for call in calls:
                call()
        torch.cuda.synchronize()
        if len(bench.bundles) > 1:
            raise RuntimeError(f"'{case.name}' has kernels of several bundles; select a forward or a backward")
        for bundle in bench.bundles.values():
            bench.library.write_timeline(bundle, timeline.cpu().numpy().tobytes(), path)
    print(case.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="further options: those of peers.py")
    parser.add_argument("-o", "--output", default="trace.json")
    parser.add_argument("--read", metavar="FILE", help="print the table of an existing trace, also of tilewright-run")
    parser.add_argument("--megabytes", type=int, default=1,
                        help="size of the buffer in GPU memory; blocks that do not fit are left out")
    parser.add_argument("--svg", metavar="FILE", help="a picture of one thread block")
    parser.add_argument("--title", default="", help="title of the picture")
    parser.add_argument("--block", type=int, default=0, help="index of the picture's thread block in the trace")
    parser.add_argument("--from", dest="begin", type=float, default=0.0,
                        help="start of the picture, in microseconds after the block's first event")
    parser.add_argument("--length", type=float, default=10.0, help="length of the picture in microseconds")
    options, rest = parser.parse_known_args()
    if options.read and rest:
        parser.error(f"--read takes no case, but got {' '.join(rest)}")
    if options.megabytes < 1:
        parser.error(f"--megabytes: expected 1 or more but got {options.megabytes}")
    try:
        if not options.read:
            record(rest, options.output, options.megabytes)
        with open(options.read or options.output) as file:
            trace = json.load(file)
        print_trace(trace)
        if options.svg:
            with open(options.svg, "w") as file:
                file.write(svg_timeline(trace, options.title, options.begin, options.length, options.block))
    except (OSError, RuntimeError, ValueError, TilewrightError) as error:
        sys.exit(f"timeline: {error}")


if __name__ == "__main__":
    main()
