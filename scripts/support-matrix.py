#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the support matrix from the results of the acceptance tests.

  scripts/support-matrix.py RESULTS            print the table
  scripts/support-matrix.py RESULTS --write    write it to docs/support-matrix.md
  scripts/support-matrix.py RESULTS --check    exit 1 unless that file is up to date

  scripts/support-matrix.py --gpu MACHINE RESULTS... [--write]
                                               the same for a GPU, in docs/support-matrix-gpu.md; MACHINE is its name.
                                               The shards of a run form one table

RESULTS is what AcceptanceTests wrote to $TILEWRIGHT_SUPPORT_MATRIX; under CTest, test/support-matrix.tsv of the build
tree. The committed table is that of the smoke tier: with results of the full tier, --check requires that each of its
rows passed.
"""

import argparse
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "support-matrix.md"
GPU_TABLE = ROOT / "docs" / "support-matrix-gpu.md"
TYPES = ["f32", "f16", "bf16", "f64", "e4m3", "e5m2"]


def fail(message):
    sys.exit(f"support-matrix: {message}")


class Results:
    """The results of one run, in one file or one file per shard."""

    def __init__(self, paths):
        self.tier = None
        self.devices = set()
        self.cases = {}  # (kernel, what) -> {type: (passed, tried)}
        self.unsupported = {}  # (kernel, what) -> {type: cases that are among those tried}
        for path in paths:
            self.read(path)

    def read(self, path):
        try:
            lines = pathlib.Path(path).read_text().splitlines()
        except OSError as error:
            fail(f"cannot read {path}: {error.strerror}")
        device = "cpu"
        for line in lines:
            kind, *fields = line.split("\t")
            if kind == "tier":
                if self.tier not in (None, fields[0]):
                    fail(f"{path} is of the {fields[0]} tier, but others are of the {self.tier} one")
                self.tier = fields[0]
            elif kind == "device":
                device = fields[0]
            elif kind == "case":
                kernel, what, dtype, passed, tried, *unsupported = fields
                row = self.cases.setdefault((kernel, what), {})
                before = row.get(dtype, (0, 0))
                row[dtype] = (before[0] + int(passed), before[1] + int(tried))
                counts = self.unsupported.setdefault((kernel, what), {})
                counts[dtype] = counts.get(dtype, 0) + sum(map(int, unsupported))
            elif kind == "tiles":
                pass  # how the accuracy rule counted: Accuracy.h
            else:
                fail(f"{path}: unknown line '{line}'")
        self.devices.add(device)
        if not self.tier:
            fail(f"{path} holds no results")

    def kernels(self):
        return sorted({kernel for kernel, _ in self.cases})

    def failed(self):
        return [f"{kernel}, {what or 'all'}, {dtype}: {passed} of {tried} cases passed"
                for (kernel, what), row in sorted(self.cases.items())
                for dtype, (passed, tried) in row.items() if passed < tried]

    def totals(self, kernel):
        totals = {}
        for (name, _), row in self.cases.items():
            if name == kernel:
                for dtype, (passed, _) in row.items():
                    totals[dtype] = totals.get(dtype, 0) + passed
        return totals


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def paragraph(text):
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def cells(row):
    return [str(row[dtype]) if dtype in row else "" for dtype in TYPES]


def summary(results):
    return table(["kernel"] + TYPES, [[f"`{kernel}`"] + cells(results.totals(kernel)) for kernel in results.kernels()])


def document(results):
    detail = []
    for kernel in results.kernels():
        rows = [[what or "all"] + cells({dtype: passed for dtype, (passed, _) in row.items()})
                for (name, what), row in sorted(results.cases.items()) if name == kernel]
        detail.append(f"### {kernel}\n\n{table(['mask or variant'] + TYPES, rows)}\n")
    preface = paragraph("""
        Written by `scripts/support-matrix.py` from what the acceptance tests of `make check` ran: do not edit. A number
        counts the cases that passed by the accuracy rule or, in the rows named probe, whose attended sets were exactly
        right; an empty field was not tried. `make check-full` runs many more cases of the same rows.""")
    return f"""# Support matrix

{preface}

## By kernel and element type

{summary(results)}

## By mask and variant

{chr(10).join(detail)}"""


def gpu_cell(passed, tried, unsupported):
    """"12", "12, 3 unsupported", or "10 of 12" if some failed."""
    text = str(passed) if passed + unsupported == tried else f"**{passed} of {tried - unsupported}**"
    return text + (f", {unsupported} unsupported" if unsupported else "")


def gpu_rows(results, rows):
    """Rows [[name, cell of each type]] from [(name, [(kernel, what)])]; the cases of several keys are added."""
    table_rows = []
    for name, keys in rows:
        cells_of_row = []
        for dtype in TYPES:
            counted = [key for key in keys if dtype in results.cases[key]]
            if not counted:
                cells_of_row.append("")
                continue
            passed, tried = (sum(results.cases[key][dtype][i] for key in counted) for i in (0, 1))
            cells_of_row.append(gpu_cell(passed, tried, sum(results.unsupported[key][dtype] for key in counted)))
        table_rows.append([name] + cells_of_row)
    return table_rows


def gpu_document(results, machine):
    keys = sorted(results.cases)
    by_kernel = [(f"`{kernel}`", [key for key in keys if key[0] == kernel]) for kernel in results.kernels()]
    detail = []
    for kernel in results.kernels():
        rows = gpu_rows(results, [(what or "all", [(name, what)]) for name, what in keys if name == kernel])
        detail.append(f"### {kernel}\n\n{table(['mask or variant'] + TYPES, rows)}\n")
    preface = paragraph(f"""
        Written by `scripts/support-matrix.py --gpu` from what the acceptance tests ran on {machine} ({results.tier} tier):
        do not edit. A number counts the cases that passed by the rules of [support-matrix.md](support-matrix.md);
        "unsupported" those for which the compiler said that the kernel is not for the GPU; in bold is where cases failed. An
        empty field was not tried.""")
    return f"""# Support matrix of a GPU

{preface}

## By kernel and element type

{table(["kernel"] + TYPES, gpu_rows(results, by_kernel))}

## By mask and variant

{chr(10).join(detail)}"""


def rows_of(text):
    """The rows of a committed table: (kernel, what, type)."""
    rows, kernel = set(), None
    for line in text.splitlines():
        if line.startswith("### "):
            kernel = line[4:]
        elif kernel and line.startswith("| ") and not line.startswith("| mask or variant"):
            what, *numbers = [field.strip() for field in line.strip("|").split("|")]
            rows |= {(kernel, what, dtype) for dtype, number in zip(TYPES, numbers) if number}
    return rows


def main():
    parser = argparse.ArgumentParser(description="The support matrix of the acceptance tests.")
    parser.add_argument("results", nargs="+")
    parser.add_argument("--gpu", metavar="MACHINE")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--write", action="store_true")
    mode.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.gpu and arguments.check:
        parser.error("--check is for the table of the CPU")
    results = Results(arguments.results)
    if ("cpu" in results.devices) == bool(arguments.gpu) or not results.cases:
        fail(f"these are results of {', '.join(sorted(results.devices))}")
    if arguments.gpu:
        text = gpu_document(results, arguments.gpu)
        if arguments.write:
            GPU_TABLE.write_text(text)
        else:
            print(text, end="")
        return
    text = document(results)

    if not arguments.write and not arguments.check:
        print(text, end="")
        return
    if results.failed():
        fail("there are cases that did not pass:\n  " + "\n  ".join(results.failed()))
    if arguments.write:
        if results.tier != "smoke":
            fail("the committed table is that of the smoke tier, but these are results of the full one")
        TABLE.write_text(text)
        return

    committed = TABLE.read_text() if TABLE.exists() else ""
    remedy = f"refresh it by scripts/support-matrix.py {' '.join(arguments.results)} --write"
    if results.tier == "smoke":
        if committed != text:
            fail(f"docs/support-matrix.md is not what the tests ran; {remedy}")
        return
    ran = {(kernel, what or "all", dtype) for (kernel, what), row in results.cases.items() for dtype in row}
    missing = sorted(rows_of(committed) - ran)
    if missing or not committed:
        fail("docs/support-matrix.md has rows that were not run: " + "; ".join(", ".join(row) for row in missing))


main()
