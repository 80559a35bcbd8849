#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times variants of a kernel on a GPU: block sizes, warps and schedules, compiled by tilewrightc, and PyTorch for comparison.

    bench/tune.py --kernel kernels/attention_forward.mlir --dims 64,128 --causal none,top_left --seqs 4096 \\
        --grid BLOCK_M=64,128 BLOCK_N=32,64,128 --warps 4,8 --schedule stages=2,3 --json tune.json
    bench/tune.py --kernel kernels/attention_backward.mlir --grid BLOCK_M=64,128 BLOCK_N=64,128 --warps 4,8
    bench/tune.py --kernel kernels/matmul.mlir --seqs 8192 --grid BLOCK_M=128,256 BLOCK_N=128 BLOCK_K=32,64
    bench/tune.py --target sm_90a --dims 128 --grid BLOCK_M=128,192 BLOCK_N=112,128,176 --seqs 1024,8192 --blocks rows.json
    bench/tune.py --kernel linear_attention --target sm_90a --dims 128 --grid BLOCK_N=64,128 BLOCK_V=64,128 \\
        --warps 4,8 --schedule in_flight=default,1 --against-synchronous --keep linear --compile-only
    bench/tune.py --prebuilt linear                      the same without a compiler
    bench/tune.py --kernel swiglu --target sm_90a --dims 4096 --seqs 8192 --grid BLOCK_N=64,128 --against-synchronous

Every combination of the values is a variant; the value `default` leaves the setting out. A variant is compiled (in
parallel, with ptxas if there is one), checked against a reference in f64 on ragged shapes and on the shortest case, and
then timed, in rounds that interleave all variants and the peers. Failures are listed with their reasons; a variant that
crashes or hangs does not stop the others. Needs PyTorch, a GPU and tilewrightc. --blocks writes the fastest blocks as
rows for `tilewrightc --blocks=FILE`: for each dimension and mask, one row for the longest case, and one for each shorter
case with other blocks.

--against-synchronous measures the benefit of schedules: it compiles the blocks of --grid with the values of --schedule,
and those of --synchronous-grid, with the warps of --warps, with skeleton=synchronous. It then times the best of both kinds
again, only these two and alternating, and prints the ratio of their medians. --keep FOLDER with --compile-only writes the
input of --prebuilt FOLDER: bundles, and a list of them. Options given with --prebuilt replace those of the compilation.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading

from gpubench import cases as bench_cases
from gpubench import report
from gpubench.contract import Contract, ContractError
from gpubench.places import ROOT, find_arch, find_library, find_ptxas, find_tool
from gpubench.progress import Progress


def values_of(text):
    return [value for value in text.split(",") if value]


def settings_of(items, option):
    """Parses ["A=1,2", "B=3"] into [("A", ["1", "2"]), ("B", ["3"])]."""
    settings = []
    for item in items:
        key, equals, values = item.partition("=")
        if not key or not equals or not values_of(values):
            raise ValueError(f"{option}: expected NAME=VALUE,... but got '{item}'")
        settings.append((key, values_of(values)))
    return settings


SYNCHRONOUS = {"skeleton": "synchronous"}
LIST = "variants.json"  # in a folder of compiled variants


class Variant:
    """One way to compile the kernel for one binding of the parameters that the cases fix."""

    def __init__(self, binding, params, warps, schedule):
        self.binding, self.params, self.warps, self.schedule = binding, params, warps, schedule
        self.resources, self.error = {}, None
        self.paths = {}

    @property
    def is_synchronous(self):
        return self.schedule.get("skeleton") == "synchronous"

    @property
    def setting(self):
        """The name of the variant within a case."""
        parts = [f"{key}={value}" for key, value in self.params.items()]
        parts += [f"warps={self.warps}"] if self.warps else []
        return " ".join(parts + [f"{key}={value}" for key, value in self.schedule.items()]) or "default"

    @property
    def name(self):
        return " ".join([f"{key}={value}" for key, value in self.binding.items()] + [self.setting])

    def command(self, options, form, output):
        command = [options.tilewrightc, options.kernel, f"--target={options.target}", f"--emit={form}", "-o", output]
        for key, value in {**self.binding, **self.params}.items():
            command += ["--param", f"{key}={value}"]
        if self.warps:
            command.append(f"--warps={self.warps}")
        for key, value in self.schedule.items():
            command += ["--schedule", f"{key}={value}"]
        return command + options.extra


def combinations(settings):
    for values in itertools.product(*(values for _, values in settings)):
        yield {key: value for (key, _), value in zip(settings, values) if value != "default"}


def make_variants(options, binding):
    def make(grid, all_warps, schedules):
        return [Variant(binding, params, None if warps == "default" else warps, schedule)
                for params in combinations(grid) for warps in all_warps for schedule in schedules]

    schedules = list(combinations(options.schedule))
    if options.against_synchronous:
        return (make(options.grid, ["default"], schedules) +
                make(options.synchronous_grid or options.grid, options.warps, [SYNCHRONOUS]))
    return make(options.grid, options.warps, schedules)


def write_list(path, arguments, variants):
    """Writes the input of read_list, with paths relative to the folder of the list."""
    entries = [{"binding": v.binding, "params": v.params, "warps": v.warps, "schedule": v.schedule,
                "resources": v.resources, "error": v.error,
                "paths": {key: os.path.basename(file) for key, file in v.paths.items()}} for v in variants]
    with open(path, "w") as file:
        json.dump({"arguments": arguments, "variants": entries}, file, indent=1)


def read_list(path):
    """Returns the arguments of the compilation and its variants."""
    with open(path) as file:
        content = json.load(file)
    variants = []
    for entry in content["variants"]:
        variant = Variant(entry["binding"], entry["params"], entry["warps"], entry["schedule"])
        variant.resources, variant.error = entry["resources"], entry["error"]
        variant.paths = {key: os.path.join(os.path.dirname(path), name) for key, name in entry["paths"].items()}
        variants.append(variant)
    return content["arguments"], variants


def run_tool(command, limit=120):
    """Runs a command and returns its standard error; raises with its last lines if it failed."""
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{os.path.basename(command[0])} took more than {limit} s") from None
    except OSError as error:
        raise RuntimeError(f"cannot run {command[0]}: {error.strerror}") from None
    if result.returncode:
        lines = [line for line in result.stdout.strip().splitlines() if "error" in line] or [result.stdout.strip()]
        raise RuntimeError(lines[0][-300:] or f"{command[0]} exited with {result.returncode}")
    return result.stdout


def compile_variant(variant, options, number, folder):
    """Compiles a variant, and sets its paths and resources, or its error."""
    base = os.path.join(folder, f"variant{number}")
    try:
        if options.operation == "backward" or options.via == "bundle":  # a program: several kernels
            report_options = ["--report"] if options.ptxas else []
            log = run_tool(variant.command(options, "bundle", base + ".twb") + report_options)
            variant.paths["bundle"] = base + ".twb"
            variant.resources = worst_of_report(log)
            return
        run_tool(variant.command(options, "tgpu", base + ".mlir"))
        with open(base + ".mlir") as file:
            contract = Contract(file.read())
        variant.paths = {"contract": base + ".mlir", "code": base + ".ptx"}
        variant.resources = {"shared_bytes": contract.shared_bytes, "warps": contract.warps}
        if options.via == "auto" and contract.tensor_maps:
            run_tool(variant.command(options, "bundle", base + ".twb"))
            variant.paths["bundle"] = base + ".twb"
        run_tool(variant.command(options, "ptx", base + ".ptx"))
        if options.ptxas:
            log = run_tool([options.ptxas, "-v", f"-arch={options.arch}", base + ".ptx", "-o", base + ".cubin"])
            variant.paths["code"] = base + ".cubin"
            variant.resources |= resources_of_log(log)
    except (RuntimeError, ContractError) as error:
        variant.error = f"compile: {error}"


def resources_of_log(log):
    """The resources of the entry that is launched: if there are two forms, the one for aligned views."""
    entries = re.findall(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?"
                         r"Used (\d+) registers", log, re.DOTALL)
    found = max(entries, key=lambda entry: entry[0].endswith("_aligned"), default=None)
    return {"registers": int(found[3]), "spilled_bytes": int(found[1]) + int(found[2])} if found else {}


def worst_of_report(log):
    """The maximum resources of a kernel over all kernels in the output of `tilewrightc --report`."""
    patterns = {"registers": r"registers +(\d+) per thread", "spilled_bytes": r"spills +(\d+) bytes stored",
                "shared_bytes": r"shared memory +(\d+) bytes", "warps": r"\((\d+) warps\)"}
    found = {key: [int(number) for number in re.findall(pattern, log)] for key, pattern in patterns.items()}
    return {key: max(numbers) for key, numbers in found.items() if numbers}


def start_worker(job, folder):
    path = os.path.join(folder, "job.json")
    with open(path, "w") as file:
        json.dump(job, file)
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", path], stdout=subprocess.PIPE,
                               text=True)
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return process, lines


def measure(options, group, variants, folder, progress, rounds=None):
    """Checks and times the variants of one binding; returns {case: {side: summary}}."""
    results = {}
    while True:
        live = [number for number, variant in enumerate(variants) if variant.error is None]
        missing = [case for case in group if case.name not in results]
        if not live or not missing:
            return results
        job = {"operation": group[0].operation, "cases": [vars(case) for case in missing], "peers": options.peers,
               "rounds": rounds or options.rounds, "flush": not options.warm, "time_limit": options.time_limit,
               "library": options.library,
               "variants": [{"number": number, **variants[number].paths, "name": variants[number].setting}
                            for number in live]}
        process, lines = start_worker(job, folder)
        current, why = None, "crashed"
        while True:
            try:
                line = lines.get(timeout=options.hang)
            except queue.Empty:
                process.kill()
                why = f"gave no sign for {options.hang} s"
                break
            if line is None:
                break
            event = json.loads(line) if line.startswith("{") else {}
            if "begin" in event:
                current = event["begin"]
                progress.show(f"runs {variants[current].name}")
            elif "ran" in event:
                found = {key: value for key, value in event["resources"].items() if value is not None}
                variants[event["ran"]].resources.update(found)
                variants[event["ran"]].error = event["error"]
                current = None
            elif "wrong" in event:
                variants[event["wrong"]].error = event["error"]
            elif "case" in event:
                results[event["case"]] = event["times"]
                progress.step(f"has timed {event['case']}")
            elif "fatal" in event:
                why = event["fatal"]
        process.wait()
        if current is not None:
            variants[current].error = f"run: {why}"
        elif process.returncode or why != "crashed":
            left = [case.name for case in group if case.name not in results]
            progress.hide()
            print(f"tune: {', '.join(left)}: {why}", file=sys.stderr)
            return results


def worker(path):
    """The process that uses the GPU; prints one JSON object per line."""
    with open(path) as file:
        job = json.load(file)

    def say(**event):
        print(json.dumps(event), flush=True)

    import torch
    from gpubench import device, library, problems

    runtime = library.Library(job["library"]) if any("bundle" in variant for variant in job["variants"]) else None
    failures = (device.DeviceError, library.TilewrightError, ContractError)
    cases = [bench_cases.CASES[job["operation"]](**case) for case in job["cases"]]
    form = problems.PROBLEMS[cases[0].form]
    shortest = min(cases, key=lambda case: case.seq)
    tests = problems.ragged(shortest) + [form.of(shortest)]
    kernels, names, outputs = {}, {}, [{} for _ in tests]
    for variant in job["variants"]:
        number, error, kernel = variant["number"], None, None
        say(begin=number)
        try:
            if "bundle" in variant:
                kernel = device.BundleKernel(runtime, variant["bundle"], form.entries[0])
            else:
                with open(variant["contract"]) as file:
                    kernel = device.PtxKernel(variant["code"], Contract(file.read()))
            for problem, seen in zip(tests, outputs):
                seen[number] = problem.outputs()
                kernel.bind(problem.arguments(*seen[number]))()
                torch.cuda.synchronize()
            kernels[number], names[number] = kernel, variant["name"]
        except failures as failure:
            error = f"run: {failure}"
        except RuntimeError as failure:  # the context is unusable after a kernel error
            say(fatal=str(failure).strip().splitlines()[0])
            os._exit(1)
        resources = {"registers": kernel.registers, "local_bytes": kernel.local_bytes,
                     "blocks_per_sm": kernel.blocks_per_sm} if kernel else {}
        say(ran=number, error=error, resources=resources)
    for problem, seen in zip(tests, outputs):
        for number, wrong in problem.judge({number: seen[number] for number in kernels}).items():
            if wrong:
                say(wrong=number, error=f"wrong: {wrong}")
                del kernels[number]
    if not kernels:
        return
    del tests, outputs
    for case in cases:
        problem = form.of(case)
        outputs = problem.outputs()
        sides = dict(problem.peers(job["peers"]))
        for number, kernel in kernels.items():
            sides[names[number]] = kernel.bind(problem.arguments(*outputs))
        try:
            times = device.time_interleaved(sides, job["rounds"], job["flush"], time_limit=job["time_limit"])
        except (RuntimeError, *failures) as failure:
            say(fatal=str(failure).strip().splitlines()[0])
            os._exit(1)
        say(case=case.name, times={name: report.summarize(values) for name, values in times.items()})


def shown(value):
    return "" if value is None else value


def print_case(case, times, variants, peers):
    reference = next((times[peer]["median_ms"] for peer in peers if peer in times), None)
    by_name = {variant.setting: variant.resources for variant in variants}
    rows = []
    for side, time in sorted(times.items(), key=lambda item: item[1]["median_ms"]):
        speed, resources = report.tflops(case.flops, time["median_ms"]), by_name.get(side, {})
        spread = (time["q3_ms"] - time["q1_ms"]) / time["median_ms"]
        rows.append([side, f"{speed:.0f}", f"{spread:.1%}",
                     f"{reference / time['median_ms']:.3f}" if reference else ""] +
                    [shown(resources.get(key)) for key in ("registers", "spilled_bytes", "shared_bytes", "blocks_per_sm")])
    print(f"\n### {case.name}\n")
    print(report.markdown_table(["variant", "TFLOP/s", "IQR", f"over {peers[0]}" if peers else "ratio", "registers",
                                 "spilled", "shared", "blocks/SM"], rows), flush=True)


def best_of(variants, times):
    """The fastest timed variant, or None."""
    timed = [variant for variant in variants if variant.setting in times]
    return min(timed, key=lambda variant: times[variant.setting]["median_ms"], default=None)


def compare_kinds(options, case, times, variants, folder, progress):
    """Times the best variant with a schedule and the best synchronous one again, without the others; returns the line
    to print, or None."""
    kinds = [best_of([v for v in variants if v.is_synchronous == kind], times) for kind in (False, True)]
    if None in kinds:
        return None
    again = measure(options, [case], kinds, folder, progress, rounds=3 * options.rounds).get(case.name, {})
    if any(kind.setting not in again for kind in kinds):
        return None
    progress.hide()
    ours, other = (again[kind.setting] for kind in kinds)
    ratio = other["median_ms"] / ours["median_ms"]
    for name, kind, time in (("best", kinds[0], ours), ("best synchronous", kinds[1], other)):
        print(f"- {name}: {kind.setting}: {time['median_ms']:.4f} ms ({time['q1_ms']:.4f} to {time['q3_ms']:.4f}), "
              f"{report.tflops(case.flops, time['median_ms']):.0f} TFLOP/s")
    print(f"- {case.name}: {ratio:.3f} times the best of skeleton=synchronous", flush=True)
    return {"setting": kinds[0].setting, "ms": ours["median_ms"], "synchronous_setting": kinds[1].setting,
            "synchronous_ms": other["median_ms"], "ratio": ratio}


def print_summary(results, peers):
    """Prints the settings over all cases that have them, the best first."""
    if not peers or len(results) < 2:
        return
    table = {}
    for times in results.values():
        for side in times:
            if side not in peers and peers[0] in times:
                table.setdefault(side, []).append(times[peers[0]]["median_ms"] / times[side]["median_ms"])
    rows = [[side, len(values), f"{report.geometric_mean(values):.3f}", f"{min(values):.3f}"]
            for side, values in sorted(table.items(), key=lambda item: -report.geometric_mean(item[1]))]
    print(f"\n### All cases, over {peers[0]}\n")
    print(report.markdown_table(["variant", "cases", "geometric mean", "least"], rows))


def known_blocks(options, binding):
    """The choice of tile-choose-blocks for one binding of the kernel: structure, bits, row_bytes, narrow_bytes if
    rows of operands differ, mask and, by role, "NAME = 64"."""
    command = [options.tilewrightc, options.kernel, f"--target={options.target}", "--emit=tile"]
    text = run_tool(command + [f"--param={key}={value}" for key, value in binding.items()] + options.extra)
    found = re.search(r"\bblocks = \{(.*?)\}", text)
    if not found:
        raise RuntimeError(f"{options.kernel} leaves no block to the table; declare it with the default block()")
    return {key: text or int(number) for key, text, number in re.findall(r'(\w+) = (?:"([^"]*)"|(\d+))', found[1])}


def block_rows(options, cases, variants, results):
    """The rows of the table of blocks for one group of cases: the fastest blocks of each length."""
    plain = {variant.setting: variant for variant in variants if not variant.warps and not variant.schedule}
    known, rows = known_blocks(options, cases[0].params()), []
    for case in sorted((case for case in cases if case.name in results), key=lambda case: -getattr(case, "seq", 0)):
        timed = [(time["median_ms"], name) for name, time in results[case.name].items() if name in plain]
        if not timed:
            continue
        chosen = plain[min(timed)[1]].params
        row = {"structure": known["structure"], "target": options.target, "bits": known["bits"], "mask": known["mask"]}
        if known["row_bytes"]:
            row |= {"above": known["row_bytes"] - 1, "bytes": known["row_bytes"]}
        if "narrow_bytes" in known:
            row["narrow"] = known["narrow_bytes"]
        for role in ("rows", "columns", "step"):
            if role in known:
                name, extent = re.match(r"(\w+) = (\d+)", known[role]).groups()
                row[role] = int(chosen.get(name, extent))
        if not rows or any(row[role] != rows[0].get(role) for role in ("rows", "columns", "step") if role in row):
            rows.insert(0, {**row, "length": case.seq} if rows else row)
    return rows


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default=os.path.join(ROOT, "kernels", "attention_forward.mlir"))
    parser.add_argument("--operation", choices=list(bench_cases.CASES), help="by default from the kernel's name")
    parser.add_argument("--dims", type=values_of,
                        help="widths of a head, by default 64,128; of swiglu the width of a token, 4096")
    parser.add_argument("--causal", type=values_of, default=["none", "top_left"])
    parser.add_argument("--seqs", type=values_of, default=["4096"], help="lengths, or sizes of a matrix product")
    parser.add_argument("--v-dim", type=int,
                        help="width of V, by default that of K, or twice that in differential attention; "
                        "of swiglu the width of the inner layer, by default 8/3 of the width of a token")
    parser.add_argument("--transposed", action="store_true",
                        help="the weights of swiglu are stored as [N, K], as in PyTorch's layers")
    parser.add_argument("--batch", type=int, help="by default 8 in linear, 16384 / length in differential attention")
    parser.add_argument("--heads", type=int,
                        help="by default 16 in linear, 2048 / width of V in differential attention")
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f16"])
    parser.add_argument("--grid", nargs="*", default=[], metavar="NAME=VALUE,...", help="parameters of the kernel")
    parser.add_argument("--warps", type=values_of, default=["default"])
    parser.add_argument("--schedule", nargs="*", default=[], metavar="KEY=VALUE,...")
    parser.add_argument("--against-synchronous", action="store_true",
                        help="compare the best of --schedule with the best of skeleton=synchronous and --warps")
    parser.add_argument("--synchronous-grid", nargs="*", default=[], metavar="NAME=VALUE,...",
                        help="blocks for skeleton=synchronous; by default those of --grid")
    parser.add_argument("--prebuilt", metavar="FOLDER",
                        help="time the variants in this folder, which --keep and --compile-only wrote; needs no compiler")
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--arch", help="the architecture for ptxas; by default that of this machine's GPU")
    parser.add_argument("--ptxas", default=find_ptxas(), help="path of ptxas; if it is '', the driver compiles the PTX")
    parser.add_argument("--tilewrightc", default=find_tool())
    parser.add_argument("--library", default=find_library(), help="libtilewright.so, which loads bundles")
    parser.add_argument("--via", choices=["auto", "ptx", "bundle"], default="auto",
                        help="how kernels are loaded; auto: from PTX, or from a bundle if they take tensor maps")
    parser.add_argument("--extra", nargs="*", default=[], metavar="OPTION",
                        help="further options of tilewrightc, each written as =OPTION")
    parser.add_argument("--peers", type=values_of, default=None,
                        help="some of flash, cudnn, efficient, flex; torch for matmul and swiglu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--warm", action="store_true", help="do not overwrite the L2 before each call")
    parser.add_argument("--time-limit", type=float, default=30, help="seconds of timing for each case")
    parser.add_argument("--hang", type=float, default=90,
                        help="seconds without output after which a variant counts as hung")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--blocks", metavar="FILE", help="write the fastest blocks for tilewrightc --blocks")
    parser.add_argument("--keep", metavar="FOLDER", help="keep tgpu IR, PTX and cubins in this folder")
    parser.add_argument("--quiet", action="store_true", help="show no progress line on the terminal")
    parser.add_argument("--compile-only", action="store_true",
                        help="only compile the variants; needs neither PyTorch nor a GPU")
    options = parser.parse_args(arguments)
    if not os.path.exists(options.kernel):
        named = os.path.join(ROOT, "kernels", options.kernel + ".mlir")
        options.kernel = named if os.path.exists(named) else options.kernel
    if options.against_synchronous:
        options.via = "bundle"
    try:
        options.grid, options.schedule = settings_of(options.grid, "--grid"), settings_of(options.schedule, "--schedule")
        options.synchronous_grid = settings_of(options.synchronous_grid, "--synchronous-grid")
        lengths, dims = [int(text) for text in options.seqs], [int(text) for text in options.dims or []]
    except ValueError as error:
        parser.error(str(error))
    options.extra = [option.removeprefix("=") for option in options.extra]
    file = os.path.basename(options.kernel)
    named = (name for name in ("matmul", "backward", "differential", "linear", "swiglu") if name in file)
    options.operation = options.operation or next(named, "attention")
    dims = dims or ([4096] if options.operation == "swiglu" else [64, 128])
    if options.peers is None:
        known = {"matmul": ["torch"], "swiglu": ["torch"], "linear": [], "differential": []}
        options.peers = known.get(options.operation, ["flash"])
    if options.rounds < 1 or options.jobs < 1:
        parser.error("--rounds and --jobs must be at least 1")
    if options.operation == "matmul":
        options.groups = [[bench_cases.MatmulCase(size, options.dtype) for size in lengths]]
    elif options.operation == "swiglu":
        options.groups = [[bench_cases.SwigluCase(dim, options.v_dim or bench_cases.inner_width(dim), length,
                                                  options.transposed, options.dtype) for dim in dims for length in lengths]]
    elif options.operation == "linear":
        options.groups = [[bench_cases.LinearCase(dim, options.v_dim or dim, length, options.batch or 8,
                                                  options.heads or 16, options.dtype) for length in lengths]
                          for dim in dims]
    elif options.operation == "differential":
        def make(dim, mask, length):
            v_dim = options.v_dim or 2 * dim
            return bench_cases.DifferentialCase(dim, v_dim, mask, length, options.batch or max(1, 16384 // length),
                                                options.heads or max(1, 2048 // v_dim), options.dtype)
        options.groups = [[make(dim, mask, length) for length in lengths] for dim in dims for mask in options.causal]
    else:
        direction = "backward" if options.operation == "backward" else "forward"
        options.groups = [bench_cases.attention_cases([dim], [mask], lengths, options.dtype, direction)
                          for dim in dims for mask in options.causal]
    return options


def main():
    if sys.argv[1:2] == ["--worker"]:
        return worker(sys.argv[2])
    options = parse(sys.argv[1:])
    scratch = tempfile.TemporaryDirectory()
    folder = options.keep or scratch.name
    os.makedirs(folder, exist_ok=True)

    if options.prebuilt:
        try:
            arguments, flat = read_list(os.path.join(options.prebuilt, LIST))
        except (OSError, ValueError, KeyError) as error:
            print(f"tune: {options.prebuilt} has no list of variants: {error}; make it with --keep and --compile-only",
                  file=sys.stderr)
            return 1
        options = parse(arguments + sys.argv[1:])
        options.compile_only = False
        variants = [[v for v in flat if v.binding == group[0].params()] for group in options.groups]
    else:
        options.arch = options.arch or find_arch(options.target)
        variants = [make_variants(options, group[0].params()) for group in options.groups]
        flat = list(itertools.chain(*variants))
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, \
                Progress("tune: compiled", len(flat), options.quiet) as progress:
            def make(item):
                compile_variant(item[1], options, item[0], folder)
                progress.step(item[1].name)
            list(pool.map(make, enumerate(flat)))
        if options.keep:
            write_list(os.path.join(options.keep, LIST), sys.argv[1:], flat)
    compiled = sum(variant.error is None for variant in flat)
    if options.prebuilt:
        print(f"{compiled} of {len(flat)} variants are there, for {options.target}", flush=True)
    else:
        print(f"{compiled} of {len(flat)} variants compile for {options.target}"
              + (f", by ptxas for {options.arch}" if options.ptxas else ""), flush=True)
    if options.compile_only:
        keys = ["registers", "spilled_bytes", "shared_bytes", "warps"]
        rows = [[variant.name] + [shown(variant.resources.get(key)) for key in keys]
                for variant in flat if variant.error is None]
        print(report.markdown_table(["variant", "registers", "spilled", "shared", "warps"], rows))

    results, ratios = {}, {}
    if not options.compile_only:
        total = sum(len(group) for group in options.groups) * (2 if options.against_synchronous else 1)
        with Progress("tune: timed", total, options.quiet) as progress:
            for group, members in zip(options.groups, variants):
                times = measure(options, group, members, folder, progress)
                progress.hide()
                for case in group:
                    if case.name in times:
                        print_case(case, times[case.name], members, options.peers)
                        if options.against_synchronous:
                            ratios[case.name] = compare_kinds(options, case, times[case.name], members, folder, progress)
                results.update(times)
        print_summary(results, options.peers)
    if options.blocks:
        rows = []
        for group, members in zip(options.groups, variants):
            rows += block_rows(options, group, members, results)
        with open(options.blocks, "w") as file:
            file.write("[" + ",\n ".join(json.dumps(row) for row in rows) + "]\n")
    failures = [variant for variant in flat if variant.error is not None]
    if failures:
        print("\n### Not timed\n")
        for variant in failures:
            print(f"- {variant.name}: {variant.error}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"command": sys.argv, "cases": results, "against_synchronous": ratios,
                       "variants": [{"name": v.name, "setting": v.setting, "binding": v.binding, "error": v.error,
                                     **v.resources} for v in flat]}, file, indent=1)
    return 0 if options.compile_only or results else 1


if __name__ == "__main__":
    sys.exit(main())
