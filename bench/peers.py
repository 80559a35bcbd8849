#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares libtilewright with other libraries on one GPU: attention forward, backward or both, and a matrix product.

    bench/peers.py --json peers.json --svg peers.svg                     every forward, and the matrix product
    bench/peers.py --cases "D64 top_left" "S4096" --peers cudnn,flash    the cases whose names contain one of these
    bench/peers.py --bundle attention.twb --bundle matmul.twb            with bundles; no tilewrightc needed
    bench/peers.py --perturbed --peers "" --cases D64 D128               variants of the kernels (perturb.py)
    bench/peers.py --direction backward --deterministic --profile        also the deterministic form, and time by kernel
    bench/peers.py --direction both --mods softcap,alibi --peers flex --cases "D128 * S8192"
    bench/peers.py --mods ,spans --peers flex,flex_setup --dims 64,128 --cases S16384 --direction fwd,both
    bench/peers.py --direction fwd,bwd --gqa 8 --window 0,1024 --peers fa4,cudnn --cases "D128 * S8192"
    bench/peers.py --direction varlen,varlen_backward --dense --cases 8x2048    packed and dense, the same arrays

Cases: attention over 16,384 tokens with hidden size 2048 (`--hidden`; B = 16384 / S, H = 2048 / D rounded down), causal
or not, S 512 to 16384, and by default bf16 and D 64, 128 and 256; and a matrix product 8192^3. Packed sequences
(`--direction varlen,varlen_backward`) have the lengths of gpubench/cases.py and as many heads. Inputs are N(0, 1), the
same for all sides. The forward counts 4 B H S S D FLOPs, the backward 10 B H S S D and both 14 B H S S D; a causal mask
halves them. With a window, or with documents that share a sequence, only kept pairs count. For a peer's backward, only
autograd.grad is timed; `both` is timed with one pair of events.

A side is a way to compute the case: Tilewright's kernels, another source of kernels (--against), or a peer. The
tilewrightc of this tree compiles the kernels, for sm_90a on an sm_90a GPU, else for sm_80. Every side is first checked
against a reference in f64 (the rule is in gpubench/problems.py and in the output); a side that fails is reported and
not timed. Then each round calls all sides, one after the other. The output compares medians with interquartile ranges,
also with the best of cudnn and fa4 in each case.

Needs PyTorch and a GPU. Peers: cudnn, flash, fa4 (FlashAttention-4, if the package flash-attn-4 is installed),
efficient and torch (matrix product); for packed sequences fa4 and flash. On request also flex, flex_setup and triton
(attention). flex_setup is for the modifiers document and spans: each call also makes its block mask, and Tilewright with
the modifier spans also computes the spans.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import perturb
from gpubench import cases as bench_cases
from gpubench import fa4, report
from gpubench.places import ROOT, find_library, find_tool

SUBJECT = "tilewright"
PEERS = ["cudnn", "flash", "fa4", "efficient", "torch", "flex", "flex_setup", "triton"]
BEST_OF = ["cudnn", "fa4"]  # the fastest two; which one is faster depends on the case
LONG = 2048  # cases of at least this length fill a GPU
DIRECTIONS = ["forward", "backward", "both", "varlen", "varlen_backward", "matmul"]
# Kernel files.
KERNELS = ["attention_forward", "attention_backward", "matmul"]


class Source:
    """The code of one of Tilewright's sides: bundles, or kernels that are compiled for each case. The file name of a
    bundle contains the name of the modifier that is linked to its kernels."""

    def __init__(self, name, files, params=None, is_dense=False):
        self.name = name
        self.is_dense = is_dense  # packed sequences as a batch, without PACKED
        self.params = params or {}  # of the backward
        self.bundles = [file for file in files if not file.endswith(".mlir")]
        self.kernels = [file for file in files if file.endswith(".mlir")]
        self.compiled = {}  # by kernel and parameters

    def kernel_for(self, entry):
        """The kernel whose file name contains the operation's name, or None."""
        def operation(name):
            return [word for word in ("matmul", "backward") if word in os.path.basename(name)]
        return next((file for file in self.kernels if operation(file) == operation(entry)), None)

    def params_for(self, entry, case):
        params = {**case.params(), **(self.params if entry == "attention_backward" else {})}
        return {**params, "PACKED": "false"} if self.is_dense else params

    def files_for(self, entry, case, options, folder):
        files = [file for file in self.bundles if all((mod == case.mod) == (mod in os.path.basename(file))
                                                      for mod in bench_cases.MODS)]
        kernel, params = self.kernel_for(entry), self.params_for(entry, case)
        if kernel:
            key = (kernel, case.mod, tuple(params.items()))
            if key not in self.compiled:
                path = os.path.join(folder, f"{self.name}{len(self.compiled)}.twb")
                compile_bundle(options, kernel, case.mod, params, path)
                self.compiled[key] = path
            files.insert(0, self.compiled[key])
        return files


def compile_bundle(options, kernel, mod, params, path):
    """Compiles a kernel file, with a modifier of kernels/mods or "", into a bundle. Raises RuntimeError with the compiler's
    output."""
    command = [options.tilewrightc, kernel, "--emit=bundle", "-o", path, *options.extra]
    command += [f"--target={target}" for target in options.targets]
    if mod:
        command += ["--with", os.path.join(options.kernels, "mods", mod + ".mlir")]
    for name, value in params.items():
        command += ["--param", f"{name}={value}"]
    run_compiler(command)


def run_compiler(command):
    """Runs tilewrightc. Raises RuntimeError with its output if it fails."""
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        raise RuntimeError(f"cannot run {command[0]}: {error.strerror}") from None
    if result.returncode:
        raise RuntimeError(f"tilewrightc: {result.stdout.strip()[-400:]}")


def parse_source(text):
    name, equals, files = text.partition("=")
    if not equals or not name or not files:
        raise argparse.ArgumentTypeError(f"expected NAME=FILE,... but got '{text}'")
    return Source(name, files.split(","))


def listed(text):
    return [{"fwd": "forward", "bwd": "backward"}.get(word, word) for word in text.split(",") if word]


def numbers(text):
    if not all(word.isdigit() for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"expected N,... but got '{text}'")
    return [int(word) for word in text.split(",")]


def default_targets(capability):
    """The targets for a GPU of this compute capability: code for sm_90a runs only on 9.0."""
    return ["sm_90a"] if capability == (9, 0) else ["sm_80"]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=find_library(), help="libtilewright.so")
    parser.add_argument("--bundle", action="append", default=[], metavar="FILE")
    parser.add_argument("--tilewrightc", default=find_tool(),
                        help="the compiler of the kernels, unless --bundle is given")
    parser.add_argument("--kernels", default=os.path.join(ROOT, "kernels"))
    parser.add_argument("--targets", type=lambda text: text.split(","),
                        help="targets of tilewrightc; by default the fastest on the GPU: sm_90a on Hopper, else sm_80")
    parser.add_argument("--extra", nargs="*", default=[], metavar="OPTION",
                        help="further options of tilewrightc, each written as =OPTION")
    parser.add_argument("--against", action="append", type=parse_source, default=[], metavar="NAME=FILE,...",
                        help="bundles or kernels (.mlir) to time in addition to the shipped ones, as a side NAME")
    parser.add_argument("--direction", type=listed, default=["forward", "matmul"], metavar="NAME,...",
                        help=f"some of {', '.join(DIRECTIONS)}; fwd and bwd abbreviate forward and backward")
    parser.add_argument("--mods", type=lambda text: text.split(","), default=[""], metavar="NAME,...",
                        help=f"score modifiers of kernels/mods: some of {', '.join(bench_cases.MODS)}")
    parser.add_argument("--gqa", type=numbers, default=[1], metavar="N,...", help="heads of Q for each head of K and V")
    parser.add_argument("--hidden", type=int, default=bench_cases.hidden, metavar="N",
                        help="heads of Q times their width")
    parser.add_argument("--dims", type=numbers, default=bench_cases.DIMS, metavar="N,...", help="widths of a head")
    parser.add_argument("--value-dim", type=int, default=0, metavar="N",
                        help="width of a head of V; 0: that of Q and K")
    parser.add_argument("--dtype", choices=["bf16", "f16"], default="bf16")
    parser.add_argument("--window", type=numbers, default=[0], metavar="N,...",
                        help="keys that a row keeps to its left and, without a causal mask, to its right; 0: all")
    parser.add_argument("--deterministic", action="store_true",
                        help="also time the deterministic form of the backward")
    parser.add_argument("--dense", action="store_true",
                        help="also time the kernels without PACKED on the same arrays, if all sequences have one length")
    parser.add_argument("--equal-documents", action="store_true",
                        help="documents of equal length, to compare with a batch of as many sequences")
    parser.add_argument("--profile", action="store_true",
                        help="print the time of each kernel of the first Tilewright side")
    parser.add_argument("--perturbed", action="store_true",
                        help="also time the variants of the attention kernels that perturb.py writes")
    parser.add_argument("--peers", type=listed,
                        default=["cudnn", "flash", "fa4", "efficient", "torch"], help=",".join(PEERS))
    parser.add_argument("--cases", nargs="*", metavar="PART",
                        help="only cases whose name contains a PART; * and ? are wildcards")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--warm", action="store_true", help="do not overwrite the L2 before each call")
    parser.add_argument("--time-limit", type=float, default=480, help="seconds after which no further case is started")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--svg", metavar="FILE")
    parser.add_argument("--list", action="store_true", help="print the cases and do nothing")
    options = parser.parse_args(arguments)
    for option, given, known in (("--peers", options.peers, PEERS), ("--direction", options.direction, DIRECTIONS),
                                 ("--mods", options.mods, ["", *bench_cases.MODS])):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"{option}: expected some of {', '.join(filter(None, known))} but got '{unknown[0]}'")
    if options.rounds < 20:
        print(f"peers: {options.rounds} rounds are too few for a claim: 20 or more", file=sys.stderr)
    options.extra = [option.removeprefix("=") for option in options.extra]
    bench_cases.equal_documents = options.equal_documents
    if options.hidden < max(options.dims):
        parser.error(f"--hidden: expected at least the width of a head, {max(options.dims)}, but got {options.hidden}")
    bench_cases.hidden = options.hidden
    if min(options.gqa) < 1:
        parser.error(f"--gqa: expected numbers of 1 or more but got {min(options.gqa)}")
    every = bench_cases.all_cases(options.direction, options.mods, options.gqa, options.window, options.dims,
                                  options.dtype, options.value_dim)
    options.selected = bench_cases.select(every, options.cases)
    if not options.selected:
        parser.error("--cases selects nothing; --list prints the names")
    shipped = options.bundle or [os.path.join(options.kernels, name + ".mlir") for name in KERNELS]
    if options.deterministic:
        options.against.append(Source("deterministic", shipped, {"DETERMINISTIC": "true"}))
    if options.dense:
        options.against.append(Source("dense", shipped, is_dense=True))
    options.sources = [Source(SUBJECT, shipped)] + options.against
    return options


class Bench:
    """The part of the benchmark that needs the GPU."""

    def __init__(self, options, folder):
        import torch
        from gpubench import device, library, problems, varlen

        self.torch, self.device, self.problems, self.tilewright = torch, device, problems, library
        self.forms = {**problems.PROBLEMS, "varlen": varlen.Varlen, "varlen_backward": varlen.VarlenBackward}
        self.options, self.folder = options, folder
        options.targets = options.targets or default_targets(torch.cuda.get_device_capability())
        self.absent = {}  # reasons, by peer
        if "fa4" in options.peers and (why := fa4.why_absent()):
            self.absent["fa4"] = why
        self.peers = [peer for peer in options.peers if peer not in self.absent]
        self.library = library.Library(options.library)
        self.bundles = {}

    def plan(self, source, entry, case):
        """A prepared plan of the first bundle that contains the case."""
        reason = "no bundle or kernel for this operation"
        for file in source.files_for(entry, case, self.options, self.folder):
            try:
                if file not in self.bundles:
                    self.bundles[file] = self.library.open(file)
                bundle = self.bundles[file]
                if case.operation == "varlen":
                    plan = self.tilewright.Operation(self.library, bundle, entry, source.params_for(entry, case))
                elif entry == "attention_forward":
                    plan = self.tilewright.AttentionForward(self.library, bundle, case.dtype, case.dim, case.causal,
                                                            value_dim=case.value_dim or case.dim,
                                                            has_window=bool(case.window))
                elif entry == "attention_backward":
                    plan = self.tilewright.AttentionBackward(self.library, bundle, case.dtype, case.dim, case.causal,
                                                             "DETERMINISTIC" in source.params,
                                                             value_dim=case.value_dim or case.dim,
                                                             has_window=bool(case.window))
                else:
                    plan = self.tilewright.Operation(self.library, bundle, entry, source.params_for(entry, case))
                plan.prepare()
                return plan
            except self.tilewright.TilewrightError as error:
                reason = str(error)
        raise RuntimeError(reason)

    def bind(self, source, case, problem, outputs, stream=None):
        """A function that enqueues all launches of a case."""
        def allocate(size):
            return self.torch.empty(size, dtype=self.torch.uint8, device="cuda")
        launches = problem.dense_launches(outputs) if source.is_dense else problem.launches(outputs)
        calls = [self.plan(source, entry, case).bind(arguments, allocate, stream or self.device.current_stream)
                 for entry, arguments in zip(problem.entries, launches)]
        return calls[0] if len(calls) == 1 else lambda: [call() for call in calls]

    def run(self, case, sources=None, peers=None):
        """Checks and times all sides of a case, by default those of the options; returns ({side: summary}, {side: the reason
        why it was excluded})."""
        sources = self.options.sources if sources is None else sources
        peers = self.peers if peers is None else [peer for peer in peers if peer not in self.absent]
        problem = self.forms[case.form].of(case)
        sides, outputs, excluded = {}, {}, {}

        def try_side(name, call, result):
            try:
                returned = call()
                self.torch.cuda.synchronize()
                sides[name], outputs[name] = call, result or problem.of_peer(returned)
            except Exception as error:  # fa4 raises assertions and errors of its own compiler
                excluded[name] = (str(error).strip() or type(error).__name__).splitlines()[0][:300]

        for source in sources:
            result = problem.outputs()
            try:
                call = self.bind(source, case, problem, result)
            except (RuntimeError, self.tilewright.TilewrightError) as error:
                excluded[source.name] = str(error).strip().splitlines()[0][:300]
                continue
            try_side(source.name, call, result)
            set_up = getattr(getattr(problem, "mod", None), "set_up", None)
            if set_up and "flex_setup" in peers:
                try_side(source.name + "_setup", lambda call=call, set_up=set_up: (set_up(), call()), result)
        for name, call in problem.peers(peers).items():
            try_side(name, call, None)
        # Each side draws its own dropout: only ours equals the reference's.
        judged = {name: output for name, output in outputs.items()
                  if not getattr(problem, "is_random", False) or name not in peers}
        for name, wrong in problem.judge(judged).items():
            if wrong:
                excluded[name] = f"fails the accuracy check: {wrong}"
                del sides[name]
        outputs.clear()
        judged.clear()
        if not sides:
            return {}, excluded
        times = self.device.time_interleaved(sides, self.options.rounds, flush=not self.options.warm)
        results = {name: report.summarize(values) for name, values in times.items()}
        for summary in results.values():
            summary["tflops"] = report.tflops(case.flops, summary["median_ms"])
        if self.options.profile and SUBJECT in sides:
            results[SUBJECT]["kernels_us"] = self.device.kernel_microseconds(sides[SUBJECT])
        return results, excluded

    def host_overhead(self):
        """Median host time of one call in microseconds, on a small problem."""
        case = next((case for case in self.options.selected if case.operation == "attention"), None)
        if case is None:
            return {}
        problem = self.problems.PROBLEMS[case.form](1, 2 * case.gqa, 2, 128, 128, case.dim, case.causal, case.dtype,
                                                    case.mod, case.window, getattr(case, "value_dim", 0))
        measured = {}

        def measure(name, call):
            try:
                measured[name] = self.device.host_microseconds(call())
            except Exception as error:  # as in `run`
                print(f"peers: host time of {name}: {error}", file=sys.stderr)

        stream = self.device.current_stream()  # queried once, since a query takes as long as a launch
        measure(SUBJECT, lambda: self.bind(self.options.sources[0], case, problem, problem.outputs(), lambda: stream))
        for name in self.peers:
            if name in self.problems.SDPA and case.direction == "forward":
                if case.mod or case.window:
                    continue  # SDPA has neither
                with self.problems.sdpa_kernel(self.problems.SDPA[name]):  # not timed, since users set it once
                    measure(name, lambda: problem.sdpa)
            elif name in self.problems.SDPA or name == "fa4":
                for call in problem.peers([name]).values():
                    measure(name, lambda call=call: call)
        return measured

    def machine(self):
        properties = self.torch.cuda.get_device_properties(0)
        query = "driver_version,clocks.sm,clocks.mem,clocks.max.sm"
        try:
            smi = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.splitlines()
        except OSError:
            smi = []
        return {"gpu": self.torch.cuda.get_device_name(0), "sms": properties.multi_processor_count,
                "torch": self.torch.__version__, **({"fa4": fa4.version()} if "fa4" in self.peers else {}),
                query: smi[0] if smi else "unknown"}


def best_rows(results, cases):
    """Rows for report.markdown_table: Tilewright's speed relative to the best of BEST_OF in each case, over the cases of
    all lengths, and over those of at least LONG."""
    best = report.best_peers(results, BEST_OF)
    ratios = report.ratios_to_best(results, SUBJECT, best)
    rows = []
    for direction in dict.fromkeys(case.direction for case in cases):
        of = {case.name: case for case in cases if case.direction == direction}
        every = {name: ratio for name, ratio in ratios.items() if name in of}
        long = {name: ratio for name, ratio in every.items() if of[name].seq >= LONG}
        rows += report.summary_rows({label: table for label, table in (
            (f"{direction}, all lengths", every), (f"{direction}, S >= {LONG}", long)) if table})
    return rows


def print_results(results, cases, sides, others):
    """Prints TFLOP/s of each side, and the speed of SUBJECT relative to it; `others` are Tilewright's other sides."""
    rows, best = [], report.best_peers(results, BEST_OF)
    for case in cases:
        times = results.get(case.name)
        if not times:
            continue
        row = report.speed_row(case.name, times, sides, SUBJECT)
        if best:
            row.append(describe_best(times, best.get(case.name)))
        rows.append(row)
    print("\nTFLOP/s, and in brackets the speed of tilewright over that of the peer\n")
    print(report.markdown_table(["case"] + sides + (["best"] if best else []), rows))
    for name in others:  # the inverse ratio: their speed relative to the subject
        kept = {case: 1 / ratio for case, ratio in report.ratios(results, SUBJECT).get(name, {}).items()}
        if kept:
            print(f"\nSpeed of {name} over that of tilewright\n")
            print(report.markdown_table(["side", "cases", "geometric mean", "least", "where"],
                                        report.summary_rows({name: kept})))
    by_peer = {name: row for name, row in report.ratios(results, SUBJECT).items() if name not in others}
    if by_peer:
        print("\nSpeed of tilewright over that of the peer\n")
        print(report.markdown_table(["peer", "cases", "geometric mean", "least", "where"], report.summary_rows(by_peer)))
    if over_best := best_rows(results, cases):
        timed = [peer for peer in BEST_OF if peer in sides]
        print(f"\nSpeed of tilewright over the best of {' and '.join(timed)} in each case\n")
        print(report.markdown_table(["cases", "number", "geometric mean", "least", "where"], over_best))


def describe_best(times, peer):
    """A table cell: the best peer of a case, its TFLOP/s, and the speed of Tilewright relative to it."""
    if peer is None:
        return "-"
    ratio = f" ({times[peer]['median_ms'] / times[SUBJECT]['median_ms']:.2f})" if SUBJECT in times else ""
    return f"{peer} {times[peer]['tflops']:.0f}{ratio}"


def write_perturbed(kernels, folder):
    """Writes perturbed variants of the attention kernels into the folder."""
    for name in KERNELS[:2]:
        path = os.path.join(folder, name + ".mlir")
        with open(os.path.join(kernels, name + ".mlir")) as source, open(path, "w") as file:
            file.write(perturb.perturb(perturb.include(source.read(), kernels, [])))
        yield path


def plot_groups(results, cases):
    groups = {}
    for case in cases:
        if case.operation == "matmul":
            continue
        for side, summary in results.get(case.name, {}).items():
            groups.setdefault(case.group, {}).setdefault(side, []).append((case.seq, summary["tflops"]))
    return groups


def main():
    options = parse(sys.argv[1:])
    if options.list:
        print("\n".join(case.name for case in options.selected))
        return 0
    begin = time.monotonic()
    if options.perturbed:
        options.against.append(Source("perturbed", []))
        options.sources.append(options.against[-1])
    results, exclusions, skipped, lost = {}, {}, [], False
    with tempfile.TemporaryDirectory() as folder:
        if options.perturbed:
            options.against[-1].kernels += write_perturbed(options.kernels, folder)
        bench = Bench(options, folder)
        machine = bench.machine()
        print(", ".join(f"{key}: {value}" for key, value in machine.items()))
        print(f"accuracy: {bench.problems.RULE}")
        print(f"targets: {', '.join(options.bundle or options.targets)}")
        for name, why in bench.absent.items():
            print(f"{name}: {why}")
        for case in options.selected:
            if time.monotonic() - begin > options.time_limit:
                skipped.append(case.name)
                continue
            try:
                results[case.name], excluded = bench.run(case)
            except RuntimeError as error:  # the context is unusable after a kernel error
                exclusions[case.name] = {"all": str(error).strip().splitlines()[0]}
                lost = True
                break
            if excluded:
                exclusions[case.name] = excluded
            speeds = ", ".join(f"{side} {summary['tflops']:.0f}" for side, summary in results[case.name].items())
            print(f"{case.name}: {speeds or 'nothing could be timed'}", file=sys.stderr, flush=True)
        overhead = {} if lost else bench.host_overhead()

    sides = [SUBJECT] + [source.name for source in options.against]
    sides += [peer for peer in PEERS if any(peer in times for times in results.values())]
    print_results(results, options.selected, sides, [source.name for source in options.against])
    for name, sides_of_case in results.items():
        kernels = sides_of_case.get(SUBJECT, {}).get("kernels_us")
        if kernels:
            print(f"- {name}, microseconds: " + ", ".join(f"{kernel} {time:.0f}" for kernel, time in kernels.items()))
    if overhead:
        print(f"\nHost time of one call ({options.selected[0].direction}), median in microseconds: " +
              ", ".join(f"{name} {value:.1f}" for name, value in overhead.items()))
    reasons = {}
    for name, excluded in exclusions.items():
        for side, why in excluded.items():
            reasons.setdefault((side, why), []).append(name)
    for (side, why), names in reasons.items():
        print(f"- {side} excluded: {why} ({'; '.join(names)})")
    if skipped:
        print(f"- not begun within {options.time_limit:g} s: {', '.join(skipped)}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"command": sys.argv, "machine": machine, "accuracy_rule": bench.problems.RULE,
                       "rounds": options.rounds, "l2": "warm" if options.warm else "flushed", "cases": results,
                       "excluded": exclusions, "not_begun": skipped, "host_microseconds": overhead,
                       "absent": bench.absent, "targets": options.targets,
                       "best": report.best_peers(results, BEST_OF), "ratios": report.ratios(results, SUBJECT)}, file,
                      indent=1)
    groups = plot_groups(results, options.selected)
    if options.svg and groups:
        with open(options.svg, "w") as file:
            file.write(report.svg_plot(groups, f"Attention on {machine['gpu']}, TFLOP/s by sequence length"))
    return 0 if any(SUBJECT in times for times in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
