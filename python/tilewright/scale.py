# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m tilewright scale: how fast attention is predicted to be over a sequence that is on many GPUs. Needs none.

For each number of GPUs and each length, the best plan of each method: its efficiency, which is the time of one GPU over that of
all GPUs together, and the memory of attention on each. The events of rings are simulated. What the model assumes is in
docs/scale.md.
"""

import argparse
import functools
import json
import re
import sys

from tilewright import context_plan, reports
from tilewright.context_cost import Problem, Rates, Topology

GPUS = [8, 64, 256, 1024]
LENGTHS = [32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20]
UNITS = {"k": 1 << 10, "M": 1 << 20}


def best_plans(problem, ranks, topology, rates, training=True):
    """{method: its fastest plan}, and {method: why it has none}."""
    estimated, refused = context_plan.candidates(problem, ranks, topology, rates, training)
    best = {method: context_plan.fastest([plan for plan in estimated if plan.method == method])
            for method in dict.fromkeys(plan.method for plan in estimated)}
    for method, plan in best.items():
        if plan.ring > context_plan.SIMULATED and method != "all_gather":
            simulated, _ = context_plan.candidates(problem, ranks, topology, rates, training, (method,), (plan.shares,), True,
                                                   (plan.heads,))
            best[method] = next(each for each in simulated if each.inner == plan.inner)
    return best, refused


def _milliseconds(seconds):
    return f"{seconds * 1e3:.3g}" if seconds < 0.1 else f"{seconds * 1e3:,.0f}"


def table(ranks, found):
    """The text for one number of GPUs; `found` is {length: {method: plan}}."""
    rows = []
    for length, plans in found.items():
        chosen = context_plan.fastest(list(plans.values()))
        cells = [f"{plans[method].efficiency:.0%}" if method in plans else "-" for method in context_plan.METHODS]
        rows.append([reports.short_length(length), *cells, f"{context_plan.describe(chosen)}, {chosen.shares}",
                     _milliseconds(chosen.seconds), f"{chosen.peak_bytes / 2**30:.3g}"])
    return reports.markdown_table([f"{ranks} GPUs", *context_plan.METHODS, "chosen", "ms", "GiB on each"], rows)


def plot(found, title):
    """An SVG with a panel for each number of GPUs; `found` is {ranks: {length: {method: plan}}}."""
    groups = {f"{ranks} GPUs, efficiency in percent": {
        method: [(length, 100 * plans[method].efficiency) for length, plans in lengths.items() if method in plans]
        for method in context_plan.METHODS if any(method in plans for plans in lengths.values())} for ranks, lengths in found.items()}
    return reports.svg_plot(groups, title, reports.short_length)


def measured_plot(results, topology, rates):
    """An SVG with a panel for each method: the efficiency of causal attention that bench/context_parallel.py measured (`results` is its
    JSON), and that predicted."""
    ranks, panels = results["gpus"], {}
    cases = [(re.fullmatch(r"causal (\d+)k", row["case"]), row) for row in results["rows"]]
    rows = [(int(found[1]) << 10, row) for found, row in cases if found]
    alone = {length: row for length, row in rows if row["side"] == "one GPU"}
    for length, row in rows:
        side = row["side"]
        if side == "one GPU":
            continue
        lines = panels.setdefault(f"{side.split()[0]}, percent of one GPU's rate", {})
        for name, key, training in (("forward", "forward", False), ("forward + backward", "both", True)):
            lines.setdefault(f"{name}, measured", []).append((length, 100 * row[key] / alone[length][key]))
            if side in context_plan.METHODS:
                shares = "contiguous" if side == "heads" else "zigzag"
                plan = context_plan.plan([length], 16, ranks=ranks, causal=True, training=training, topology=topology, rates=rates,
                                         methods=(side,), shares=(shares,))
                lines.setdefault(f"{name}, predicted", []).append((length, 100 * plan.efficiency))
    return reports.svg_plot(panels, f"{ranks} x {results['device']}, bf16, 16 heads, D 128, causal", reports.short_length)


def _number(text):
    unit = UNITS.get(text[-1:], 1)
    digits = text[:-1] if unit > 1 else text
    if not digits.isdigit() or not int(digits):
        raise argparse.ArgumentTypeError(f"expected numbers such as 128k or 1M, but got '{text}'")
    return int(digits) * unit


def _numbers(text):
    return [_number(word) for word in text.split(",")]


def _window(text):
    try:
        left, right = map(int, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected LEFT,RIGHT, but got '{text}'") from None
    return left, right


def _parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m tilewright scale", description=__doc__.partition(": ")[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    topology = Topology()
    for option, kind, default, text in (
            ("--gpus", _numbers, GPUS, "numbers of GPUs; default 8,64,256,1024"),
            ("--lengths", _numbers, LENGTHS, "rows of the sequence; default 32k,128k,512k,2M,8M"),
            ("--heads", _number, 64, "heads of Q; default 64"), ("--key-heads", _number, 8, "heads of K and V; default 8"),
            ("--dim", _number, 128, "width of a head; default 128"), ("--value-dim", _number, None, "that of V, if it differs"),
            ("--window", _window, (-1, -1), "keys to the left and right of the diagonal, LEFT,RIGHT; -1 is open"),
            ("--gpus-per-node", _number, topology.gpus_per_node, f"default {topology.gpus_per_node}"),
            ("--node-rate", float, topology.node_rate / 1e9, f"GB/s of a GPU inside its node; default {topology.node_rate / 1e9:g}"),
            ("--network-rate", float, topology.network_rate / 1e9, f"GB/s of a GPU across nodes; default {topology.network_rate / 1e9:g}"),
            ("--node-network-rate", float, None, "GB/s of a node across nodes; default that of its GPUs together")):
        parser.add_argument(option, type=kind, default=default, help=text, metavar="N,..." if kind is _numbers else "N")
    parser.add_argument("--full", action="store_true", help="no causal mask")
    parser.add_argument("--forward", action="store_true", help="without the backward")
    parser.add_argument("--plot", metavar="FILE.svg", help="write a plot")
    parser.add_argument("--json", metavar="FILE", help="write the plans")
    parser.add_argument("--measured", metavar="FILE", help="the JSON of bench/context_parallel.py: only plot its causal cases beside what is predicted, with the links given")
    options = parser.parse_args(arguments)
    if options.plot and not options.plot.endswith(".svg"):
        parser.error(f"--plot: expected the name of an .svg file, but got '{options.plot}'; other formats are not written")
    if options.measured and not options.plot:
        parser.error("--measured needs --plot FILE.svg")
    try:
        options.problem_of = functools.partial(
            Problem, heads=options.heads, key_heads=options.key_heads, dim=options.dim, value_dim=options.value_dim or options.dim,
            causal=not options.full, window=options.window)
        options.problem_of((1,))
        options.topology = Topology(options.gpus_per_node, options.node_rate * 1e9, options.network_rate * 1e9,
                                    options.node_network_rate and options.node_network_rate * 1e9)
    except ValueError as error:
        parser.error(str(error))
    return options


def main(arguments):
    """Prints a table for each number of GPUs; returns the exit status, 0, or 2 for wrong arguments."""
    options = _parse(arguments)
    if options.measured:
        try:
            with open(options.measured, encoding="utf-8") as file:
                text = measured_plot(json.load(file), options.topology, Rates())
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"python -m tilewright scale: error: --measured must name the JSON of bench/context_parallel.py with causal cases, but got "
                  f"{options.measured}: {error}", file=sys.stderr)
            return 2
        with open(options.plot, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    problem = options.problem_of((1,))
    mask = "full" if problem.is_open else f"window {problem.window[0]},{problem.window[1]}" if problem.window != (-1, -1) else "causal"
    title = (f"{'forward' if options.forward else 'forward and backward'}, bf16, {problem.heads} heads on {problem.key_heads}, "
             f"D {problem.dim}{'' if problem.value_dim == problem.dim else f', DV {problem.value_dim}'}, {mask}")
    print(f"Predicted efficiency of attention: {title}")
    found, reasons = {}, {}
    for ranks in options.gpus:
        found[ranks] = {}
        for length in options.lengths:
            found[ranks][length], refused = best_plans(options.problem_of((length,)), ranks, options.topology, Rates(), not options.forward)
            for method, why in refused.items():
                reasons.setdefault(f"{method}: {why}")
        print("\n" + table(ranks, found[ranks]), flush=True)
    if reasons:
        print("\n" + "\n".join(f"- {reason}" for reason in reasons))
    if options.json:
        keep = ("method", "ring", "heads", "inner", "shares", "steps", "forward_seconds", "backward_seconds", "peak_bytes", "efficiency")
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({str(ranks): {str(length): [{name: getattr(plan, name) for name in keep} for plan in plans.values()]
                                    for length, plans in lengths.items()} for ranks, lengths in found.items()}, file, indent=1)
    if options.plot:
        with open(options.plot, "w", encoding="utf-8") as file:
            file.write(plot(found, f"Predicted: {title}"))
        print(f"\nThe plot is in {options.plot}")
    return 0
