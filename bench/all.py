#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures every figure of docs/performance.md and README.md, beside the peers that have the feature, and writes them.

    bench/all.py compile --out DIR                 the kernels of all rows, and libtilewright.so; needs tilewrightc, no GPU
    bench/all.py prepare DIR --jobs 12             compiles in parallel what a first call compiles: peers' kernels, and PTX
    bench/all.py measure DIR --out FILE.json       checks and times all rows; continues a FILE.json of the same commit and day
    bench/all.py render --json FILE.json           takes the file over to docs/figures, draws the charts, fills the documents
    bench/all.py render --check                    fails if documents and charts are not those of docs/figures
    bench/all.py list

`measure` and `prepare` need PyTorch and a GPU of sm_90a; FlashAttention-4 is a peer if the package flash-attn-4 is installed.
The rows are in gpubench/rows.py; --rows selects some of them by area or by a part of their names. Attention is timed as by
bench/peers.py, decoding as by bench/serving.py, after the results were checked against f64; a side that is wrong is not timed.
`render` without --check draws by matplotlib.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
import types

import peers
import serving
from gpubench import charts, figures, rows
from gpubench.cases import VarlenCase
from gpubench.library import Library, Operation, TilewrightError
from gpubench.places import ROOT, find_library, find_tool
from gpubench.progress import Progress

FOLDER = os.path.join(ROOT, "docs", "figures")
FILE = os.path.join(FOLDER, "h200.json")
CHARTS = ["forward", "backward", "decode", "summary"]
DOCUMENTS = [os.path.join(ROOT, "README.md"), os.path.join(ROOT, "docs", "performance.md")]
MANIFEST, LIBRARY = "manifest.json", "libtilewright.so"
CODE = ["base", "dialect", "kernels", "lib", "passes", "runtime", "tools"]  # folders whose changes change the figures
SHORT = 1024  # rows of a case that only compiles a peer


def chart_path(name):
    return os.path.join(FOLDER, name + ".svg")


def fail(text):
    print(f"all: {text}", file=sys.stderr)
    return 1


def commit_of(tool):
    """The commit of the tree in which a compiler was built, with -dirty if its code was changed."""
    def git(*arguments):
        return subprocess.run(["git", "-C", os.path.dirname(os.path.realpath(tool)), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True).stdout.strip()
    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *(f":/{folder}" for folder in CODE))
        return git("rev-parse", "--short=8", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def compile_all(options):
    commit = options.commit or commit_of(options.tilewrightc)
    if not commit:
        return fail(f"{options.tilewrightc} is in no git tree; name the commit by --commit")
    os.makedirs(options.out, exist_ok=True)
    manifest = os.path.join(options.out, MANIFEST)
    if os.path.exists(manifest) and (there := read(manifest)["commit"]) != commit:
        return fail(f"{options.out} has bundles of {there}, but this is {commit}; take another folder")
    write(manifest, {"commit": commit})
    shutil.copy(options.library, os.path.join(options.out, LIBRARY))
    bundles = {bundle.file: bundle for row in options.selected for bundle in row.bundles()}
    missing = [bundle for file, bundle in bundles.items() if not os.path.exists(os.path.join(options.out, file))]
    wrong = []
    of_peers = types.SimpleNamespace(tilewrightc=options.tilewrightc, kernels=os.path.join(ROOT, "kernels"), targets=["sm_90a"],
                                     extra=["--quiet"])

    def build(bundle):
        path, part = os.path.join(options.out, bundle.file), os.path.join(options.out, bundle.file + ".part")
        try:
            if isinstance(bundle.case, serving.Case):
                peers.run_compiler(serving.compile_command(options.tilewrightc, bundle.case, bundle.page_rows, 0, part))
            else:
                peers.compile_bundle(of_peers, bundle.source, bundle.mod, bundle.case.params(), part)
            os.replace(part, path)
        except RuntimeError as error:
            wrong.append(f"{bundle.name}: {error}")
        progress.step(bundle.name)

    with Progress("all: compiled", len(missing)) as progress, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(build, missing))
    print(f"{len(bundles) - len(wrong)} of {len(bundles)} bundles of {commit} are in {options.out}")
    return fail("; ".join(wrong)) if wrong else 0


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path, data):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)


def bench_of(options, library):
    """bench/peers.py's Bench with every peer of the rows, on whose sides each call decides."""
    every = list(dict.fromkeys(peer for row in options.selected for peer in row.peers))
    arguments = ["--library", library, "--peers", ",".join(every), "--rounds", str(options.rounds)]
    return peers.Bench(peers.parse(arguments), None)


def machine_of(bench):
    """The machine and its versions, without the clocks of a moment."""
    torch, found = bench.torch, bench.machine()
    driver = next((value.split(",")[0] for name, value in found.items() if name.startswith("driver_version")), "unknown")
    return {"gpu": found["gpu"], "sms": found["sms"], "driver": driver, "torch": torch.__version__.partition("+")[0],
            "cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version()), **({"fa4": found["fa4"]} if "fa4" in found else {})}


class Measurement:
    """Measures rows with the bundles of a folder."""

    def __init__(self, options, bench):
        self.bench, self.folder = bench, options.folder
        self.served = {bundle.name: bundle.file for row in options.selected if row.is_serving for bundle in row.bundles()}
        self.options = types.SimpleNamespace(rounds=options.rounds, library=bench.options.library, tilewrightc=None, against=[], bundle=[
            f"{name}={os.path.join(self.folder, file)}" for name, file in self.served.items()])
        self.ours = serving.Tilewright(bench.torch, self.options) if self.served else None

    def row(self, row):
        """({side: figures}, {side: the reason why it was not timed})."""
        if not row.is_serving:
            source = peers.Source(peers.SUBJECT, [os.path.join(self.folder, bundle.file) for bundle in row.bundles()])
            sides, excluded = self.bench.run(row.case, [source], row.peers)
            return {side: figures.of_peers(summary) for side, summary in sides.items()}, excluded
        self.options.sides = [side for side in row.sides if side not in self.bench.absent]
        sides, excluded = serving.measure(self.bench.torch, row.case, self.options, self.ours)
        self.ours.kept.clear()
        return {side: figures.of_serving(summary) for side, summary in sides.items()}, excluded


def need_gpu():
    """Raises Refused if this machine cannot run the bundles beside the peers."""
    try:
        import torch
    except ImportError as error:
        raise figures.Refused(f"PyTorch is needed: {error}") from None
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
        raise figures.Refused(f"a GPU of sm_90a is needed, but there is {gpu}")


def measure(options):
    need_gpu()
    manifest = read(os.path.join(options.folder, MANIFEST))
    begin = time.monotonic()
    bench = bench_of(options, os.path.join(options.folder, LIBRARY))
    found = figures.Figures.begin(options.out, commit=manifest["commit"], machine=machine_of(bench), rounds=options.rounds,
                                  command="bench/all.py measure", accuracy_rule=bench.problems.RULE)
    for peer, why in bench.absent.items():
        print(f"{peer}: {why}", flush=True)
    measurement = Measurement(options, bench)

    def release():
        bench.torch.cuda.synchronize()
        bench.torch.cuda.empty_cache()

    return measure_rows(options, found, measurement.row, release, begin)


def measure_rows(options, found, run, release, begin):
    """Enters the rows that the file does not have. `run` returns the figures of a row, `release` frees its memory and raises if
    the GPU is lost to this process: then the row is entered with the reason, and the next run goes on behind it."""
    left = [row for row in options.selected if row.name not in found.rows]
    for index, row in enumerate(left):
        if time.monotonic() - begin > options.time_limit:
            print(f"{len(left) - index} rows were not begun within {options.time_limit:g} s; the same command goes on")
            return 2
        start = time.monotonic()
        try:
            sides, excluded = run(row)
        except Exception as error:  # of a peer, or of the check
            sides, excluded = {}, {"all": reason_of(error)}
        try:
            release()
        except RuntimeError as error:
            excluded.setdefault("all", reason_of(error))
            found.add(row, {}, excluded)
            return fail(f"{row.name}: {excluded['all']}; the same command goes on behind this row")
        found.add(row, sides, excluded)
        speeds = ", ".join(f"{side} {summary['rate']:.4g}" for side, summary in sides.items())
        why = "".join(f"; {side}: {reason}" for side, reason in excluded.items())
        print(f"{row.name}: {speeds or 'nothing could be timed'} ({time.monotonic() - start:.1f} s){why}", flush=True)
    print(f"{len(found.rows)} rows are in {options.out}")
    return 0


def reason_of(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def load(library, row, bundle, path):
    """Makes a plan of the row and loads its code. Its forms for sm_80, which are PTX, are compiled then."""
    handle, case = library.open(path), row.case
    if row.is_serving:
        params = serving.Tilewright.params(case, bundle.page_rows, 0)
    else:
        params = peers.Source(peers.SUBJECT, [path]).params_for(bundle.kernel, case)
    Operation(library, handle, bundle.kernel, params).prepare(0)


def prepare(options):
    """Loads each bundle, and calls each peer that compiles its kernels, once, in `--jobs` processes; the runtime, PyTorch and
    FlashAttention-4 keep what they compile on the disk."""
    need_gpu()
    if options.part is None:
        command = [sys.executable, "-B", os.path.abspath(__file__), "prepare", options.folder, "--jobs", str(options.jobs)]
        command += ["--rows", *options.rows] if options.rows else []
        running = [subprocess.Popen(command + ["--part", str(part)]) for part in range(options.jobs)]
        return max(process.wait() for process in running)
    bundles = {bundle.file: (row, bundle) for row in options.selected for bundle in row.bundles()}
    library = Library(os.path.join(options.folder, LIBRARY))
    for file, (row, bundle) in list(bundles.items())[options.part::options.jobs]:
        try:
            load(library, row, bundle, os.path.join(options.folder, file))
        except TilewrightError as error:
            print(f"{row.name}: {error}", file=sys.stderr)
    import torch
    from gpubench import fa4, problems, varlen
    absent = ("fa4",) if fa4.why_absent() else ()
    forms = {**problems.PROBLEMS, "varlen": varlen.Varlen, "varlen_backward": varlen.VarlenBackward}
    for case, names in prepared(options.selected)[options.part::options.jobs]:
        if set(names) <= set(absent):
            continue
        try:
            if isinstance(case, serving.Case):
                cache = serving.Cache(torch, case, 0)
                serving.fa4_call(torch, case, cache, torch.empty_like(cache.q))()
            else:
                for call in forms[case.form].of(case).peers(names).values():
                    call()
            torch.cuda.synchronize()
        except Exception as error:  # `measure` says what a peer refuses
            print(f"{case.name}: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
        torch.cuda.empty_cache()
    return 0


def prepared(selected):
    """(case, peers) that compile every kernel of the peers that compile. Those of FlashAttention-4 do not depend on the lengths,
    those of flex_attention do."""
    found = {}
    for row in selected:
        case, names = row.case, tuple(peer for peer in row.peers if peer in ("fa4", "flex"))
        if row.is_serving:
            key = (type(case), case.heads // case.key_heads, case.dim, case.queries, case.window)
        elif isinstance(case, VarlenCase):
            key = (case.dim, case.causal, case.direction)
        else:
            if names == ("fa4",):
                case = dataclasses.replace(case, seq=max(SHORT, 2 * case.window))
            key = case.name
        if names:
            found.setdefault(key, (case, names))
    return list(found.values())


def render(options):
    source = options.json or FILE
    found = figures.Figures.read(source)
    every, stale = rows.rows(), []
    found.data["rows"] = {row.name: found.rows[row.name] for row in every if row.name in found.rows}
    digest = found.digest()
    for path in DOCUMENTS:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        filled = figures.fill(text, found, every)
        if options.check:
            stale += [path] if filled != text else []
        elif filled != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(filled)
    if options.check:
        stale += [chart_path(name) for name in CHARTS if f"figures {digest}" not in text_of(chart_path(name))]
        for path in stale:
            print(f"{os.path.relpath(path, ROOT)} is not that of {os.path.relpath(source, ROOT)}: run bench/all.py render")
        return 1 if stale else 0
    os.makedirs(FOLDER, exist_ok=True)
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(found.text())
    try:
        charts.draw(found, every, chart_path)
    except ImportError as error:
        return fail(f"the documents are written, but no chart: {error}")
    return 0


def text_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, **options):
        added = commands.add_parser(name, **options)
        added.set_defaults(run=run)
        if name != "render":
            added.add_argument("--rows", nargs="*", default=[], metavar="PART", help="an area, or a part of a name with * and ?")
        return added

    added = command("compile", compile_all, help="compile the bundles of the rows into a folder")
    added.add_argument("--out", required=True, metavar="DIR")
    added.add_argument("--tilewrightc", default=find_tool())
    added.add_argument("--library", default=find_library(), help="libtilewright.so, which is copied into the folder")
    added.add_argument("--commit", help="of the compiler; by default that of the tree in which it is")
    added.add_argument("--jobs", type=int, default=os.cpu_count())
    added = command("prepare", prepare, help="compile what a first call compiles, in parallel")
    added.add_argument("folder", metavar="DIR", help="the folder of compile")
    added.add_argument("--jobs", type=int, default=8)
    added.add_argument("--part", type=int, help=argparse.SUPPRESS)
    added = command("measure", measure, help="check and time the rows")
    added.add_argument("folder", metavar="DIR", help="the folder of compile")
    added.add_argument("--out", required=True, metavar="FILE", help="written after each row")
    added.add_argument("--rounds", type=int, default=20)
    added.add_argument("--time-limit", type=float, default=1e9, metavar="SECONDS", help="after which no further row is begun")
    added = command("render", render, help="write charts and documents")
    added.add_argument("--json", metavar="FILE", help="by default docs/figures/h200.json")
    added.add_argument("--check", action="store_true")
    command("list", lambda options: print("\n".join(row.name for row in options.selected)) or 0, help="print the rows")
    options = parser.parse_args(arguments)
    if options.command != "render":
        options.selected = rows.select(rows.rows(), options.rows)
        if not options.selected:
            parser.error("--rows selects nothing; bench/all.py list prints the names")
    return options


def main():
    # Before FlashAttention-4 is imported: kernels that one process has compiled serve the others.
    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "1")
    options = parse(sys.argv[1:])
    try:
        return options.run(options)
    except (figures.Refused, OSError) as error:
        return fail(str(error))


if __name__ == "__main__":
    sys.exit(main())
