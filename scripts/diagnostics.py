#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks that tests assert all diagnostics.
#
#   scripts/diagnostics.py            fails if no test asserts a diagnostic of the sources, if an exception is not needed or
#                                     has no diagnostic, or if docs/reference/diagnostics.md is not up to date
#   scripts/diagnostics.py --write    writes docs/reference/diagnostics.md
#   scripts/diagnostics.py --list     prints the diagnostics that neither a test asserts nor an exception names
#
# --root DIR selects another tree.
#
# A diagnostic is a statement of the sources that calls one of REPORTERS, or prints to an InFlightDiagnostic, and contains
# constant text. A fragment is a part of its text without variable parts. A test asserts the diagnostic if the longest
# fragment occurs in a text that the test expects. These texts are: an expected-error; a line with a prefix that FileCheck
# looks for; an argument of a GoogleTest or Python assertion, or of a function that contains one; a table of such cases;
# an output block of a document. Docstrings, command lines and sources of kernels do not count. If several messages have
# the longest fragment, all fragments must occur. A test may also expect a part of the fragment, or the beginning of the
# message, if no other diagnostic has that part. A message of a tool is asserted only by a test that names the tool.
#
# scripts/diagnostics-without-test.json lists the exceptions: a file, the fragment, and the reason.

import json
import os
import re
import sys

from diagnostics_check.sources import diagnostics_of
from diagnostics_check.tests import assign, expectations

REFERENCE = os.path.join("docs", "reference", "diagnostics.md")
EXCEPTIONS = os.path.join("scripts", "diagnostics-without-test.json")

# Files of passes/ that belong to one pass; files named after their pass are not listed.
HELPERS = {
    "BindParameters": "tile-specialize", "ApplyBindings": "tile-specialize", "ConstantEvaluator": "tile-specialize",
    "LinkLibraries": "tile-link", "LinkSymbols": "tile-link", "PaddedWidth": "tile-bind-target",
    "BlockTable": "tile-choose-blocks", "BlockRowsFromJson": "tile-choose-blocks", "LoopStructure": "tile-choose-blocks", "LoopSteps": "tile-unroll",
    "ScalarGradients": "tile-differentiate", "CaptureGradients": "tile-differentiate",
    "Derivatives": "tile-differentiate", "GradientSums": "tile-differentiate",
    "KernelMapper": "tile-to-tgpu", "MapDot": "tile-to-tgpu", "MapBlockLoop": "tile-to-tgpu",
    "LayoutInference": "tile-to-tgpu", "PrepareKernel": "tile-to-tgpu", "ChooseWarps": "tile-to-tgpu",
    "PlanRoles": "tgpu-plan-schedule", "CopySlice": "tgpu-pipeline-copies", "RoleSlice": "tgpu-assign-roles",
    "RoleBodies": "tgpu-assign-roles", "RoleTiles": "tgpu-assign-roles", "RoleWriter": "tgpu-assign-roles",
    "StageParts": "tgpu-expand-stages", "Pipelines": "the pass pipelines",
}
AREAS = {
    "dialect/Tile": "The tile dialect: syntax and verifiers", "dialect/Tgpu": "The tgpu dialect: syntax and verifiers",
    "lib/Bundle": "Bundles, as the compiler writes them", "lib/Codegen": "Code generation",
    "lib/CompilerApi": "The C interface of the compiler", "lib/Driver": "Shared by the tools",
    "lib/Interpreter": "The CPU device", "lib/Interpreter/Simulator": "The simulator", "base/Layout": "Layouts",
    "base/Expr": "Expressions", "base/Npy": ".npy files", "base/Numeric": "Loops over tiles", "base/Target": "Targets", "runtime": "The runtime",
    "runtime/Distributed": "Attention over several GPUs",
    "passes/Conversion": "The pass `convert-tgpu-to-nvvm`",
}
# A message with one of these words, then ": …", ends with the cause.
FAILURES = "cannot|could not|bad|malformed|rejects?|failed|has no|no variant|not valid|not"
# Beginnings and ends of messages that the sources compose: their texts, up to the first variable part, and how they go on.
# A text in the third column is a remedy.
PARTS = {
    "argument '": "the type that the argument must have, and which it has",
    "binds '": "what the parameter must be",
    "cannot bind '": "the value, and what it must be",
    "its first region": "the region of `tile.if` that must end with tile.yield",
    "packed": "the clause of `in order` that must have a flag or a number",
    "the end of the text": "what was found instead of the expected token",
    "in an expression": "`reads argument '…' where the condition of the argument does not hold`",
    "with tile.await requires a separate role,": "why there is none, and the remedy",
    "overwrites …": "what else accesses the memory, and the barrier that is missing",
    "in the grid, …": "the expression that cannot be computed",
    "overflow of 64 bits": "why an expression `cannot be computed`",
    "the kernel must add as many tiles there": "the remedy for a `tile.await` that waits forever",
    "a copy by TMA": "the asynchronous operation of a fault",
    "a product of warpgroup": "the asynchronous operation of a fault",
    "an asynchronous copy of": "the asynchronous operation of a fault",
    "has no parameter '": "the parameters that there are, or a similar one",
    "wgmma multiplies bytes of": "a remedy",
    "ptxas failed": "what ptxas says",
    ", or give more warps than": "",
    "choose blocks that need fewer": "",
    "make its tiles smaller": "",
}
SPILLS = "kernel @… spills registers on …, … bytes stored and … loaded…"  # of the warning that has these remedies
INTRODUCTION = """\
# Diagnostics

The error messages of the compiler, the tools and the runtime, grouped by the part that prints them. A message states
the violated rule; most messages then state what was found ("but got ..."), and some a remedy. The columns of a table
are these parts, in this order. An ellipsis marks text that depends on the program, and a slash separates alternatives.
Some rows, such as `it reads another value`, are the end of a message whose beginning is another row. Where a row is the
beginning of one, the second column says in plain text how it goes on. The last column names one test that asserts the
message, or a unique part of it: by -verify-diagnostics, FileCheck, or an assertion of GoogleTest or Python. Messages
without a test are listed at the end, with the reason.

[Read an error](../guide/debug.md#read-an-error) shows messages in context.

`scripts/diagnostics.py` writes this file from the sources and the tests (`make docs`). A lit test fails if no test
asserts a message, or if this file is not up to date.
"""


def area_of(file, passes):
    folder, name = os.path.split(file)
    stem = os.path.splitext(name)[0]
    if folder.startswith("tools"):
        return f"The tool `{folder.split(os.sep)[1]}`"
    if folder == "passes/Conversion":
        return AREAS[folder]
    if folder.startswith("passes"):
        pass_name = HELPERS.get(stem) or next((p for p in passes if p.replace("-", "") in
                                               (x + stem.lower() for x in ("", "tile", "tgpu"))), None)
        if not pass_name and stem.startswith("VerifySync"):
            pass_name = "tgpu-verify-sync"
        return f"The pass `{pass_name}`" if pass_name in passes else "Shared by passes"
    return AREAS.get(folder, folder)


def cell(text):
    if not text:
        return ""
    text = text.strip()
    ticks = "``" if "`" in text else "`"
    pad = " " if ticks == "``" else ""
    return ticks + pad + text.replace("|", "\\|") + pad + ticks


def row_of(text):
    """The first cells of a row."""
    rule, found, remedy = parts_of(text)
    if found or remedy:
        return [cell(rule) or "the end of a message", cell(found), cell(remedy)]
    for beginning, rest in PARTS.items():
        if rule.strip().startswith(beginning):
            return [cell(rule), rest, ""] if rest else [cell(SPILLS), "", cell(rule.strip(" ,"))]
    return [cell(rule), "", ""]


def parts_of(text):
    """The rule, the part "but got", and the remedy."""
    rule, found, remedy = text, "", ""
    # A "but the" without a comma is an exception of the rule: "along a dimension but the innermost".
    if match := re.match(r"(.*?),? (but got\b.*)$", text) or re.match(r"(.*?), (but (?:its?|there|the|this|is|has)\b.*)$", text):
        rule, found = match[1].rstrip(" ,"), match[2]
    elif match := re.match(r"(.*\S), which (must (?!not\b).*)$", text):    # the finding comes first
        rule, found = match[2], match[1]
    # The cause at the end, which is an error of its own, or of the system.
    elif match := re.match(rf"(.*\b(?:{FAILURES})\b.*?): (…)$", text):
        rule, found = match[1], match[2]
    # An option or a file, and its error.
    elif match := re.match(r"((?:--|file |a bundle |ptxas ).*?): ((?:it |/ : … )?…)$", text) or re.match(r"(.*): (… returned .*)$", text):
        rule, found = match[1], match[2]
    whole = found or rule
    before, semicolon, after = whole.rpartition("; ")
    if semicolon:
        remedy = after
        rule, found = (rule, before) if found else (before, found)
    return rule, found, remedy


def reference(root, diagnostics, exceptions):
    with open(os.path.join(root, "passes", "Passes.td"), encoding="utf-8") as file:
        passes = re.findall(r'Pass<"([\w-]+)"', file.read())
    areas = {}
    for diagnostic in diagnostics:
        rows = areas.setdefault(area_of(diagnostic.file, passes), {})
        if diagnostic.tests:
            rows.setdefault(diagnostic.text, diagnostic.tests[0][2])
    order = ["The tool", "Shared by the tools", "The tile", "The pass", "Shared by passes", "The tgpu"]
    rank = {area: (next((i for i, start in enumerate(order) if area.startswith(start)), len(order)),
                   next((i for i, name in enumerate(passes) if f"`{name}`" in area), 0), area) for area in areas}
    out = [INTRODUCTION]
    for area in sorted(areas, key=rank.get):
        if not areas[area]:
            continue
        out += [f"## {area}", "", "| rule | found | remedy | test |", "|---|---|---|---|"]
        for text in sorted(areas[area], key=lambda t: (t.lstrip("…' ").lower(), t)):
            test = areas[area][text]
            link = os.path.relpath(test, os.path.dirname(REFERENCE))
            out.append("| " + " | ".join(row_of(text)) + f" | [{os.path.basename(test)}]({link}) |")
        out.append("")
    out += ["## Without a test", "",
            "These messages require a fault of the system, or guard against internal errors.", "",
            "| message | where | why no test asserts it |", "|---|---|---|"]
    for diagnostic in sorted(diagnostics, key=lambda d: (d.file, d.text)):
        if not diagnostic.tests and (reason := exceptions.get((diagnostic.file, diagnostic.fragment))):
            row = f"| {cell(diagnostic.text)} | `{diagnostic.file}` | {reason} |"
            if row != out[-1]:
                out.append(row)
    return "\n".join(out) + "\n"


def main():
    arguments = sys.argv[1:]
    root = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    if arguments[:1] == ["--root"]:
        root, arguments = arguments[1], arguments[2:]
    if arguments not in ([], ["--write"], ["--list"]):
        sys.exit("usage: diagnostics.py [--root DIR] [--write | --list]")
    with open(os.path.join(root, EXCEPTIONS), encoding="utf-8") as file:
        exceptions = {(entry["file"], text): entry["reason"] for entry in json.load(file) for text in entry["texts"]}
    diagnostics = diagnostics_of(root)
    assign(diagnostics, expectations(root))
    without = [d for d in diagnostics if not d.tests and (d.file, d.fragment) not in exceptions]
    needed = {(d.file, d.fragment) for d in diagnostics if not d.tests}
    mistakes = [f"{d.file}:{d.line}: no test asserts '{d.text}'; its longest constant fragment is '{d.fragment}'" for d in without]
    mistakes += [f"{EXCEPTIONS}: '{text}' of {file} is no longer needed: a test asserts it, or there is no such message"
                 for file, text in exceptions if (file, text) not in needed]
    text = reference(root, diagnostics, exceptions)
    path = os.path.join(root, REFERENCE)
    if arguments == ["--list"]:
        print("\n".join(mistakes))
        return 0
    if arguments == ["--write"]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(path, encoding="utf-8") as file:
        if file.read() != text:
            mistakes.append(f"{REFERENCE} is not up to date: run make docs, or scripts/diagnostics.py --write")
    excepted = sum(not d.tests for d in diagnostics) - len(without)
    asserted = len(diagnostics) - excepted - len(without)
    print("\n".join(mistakes + [f"{len(diagnostics)} diagnostics, {asserted} asserted by tests, {excepted} excepted, "
                                f"{len(mistakes)} mistakes"]))
    return 1 if mistakes or not diagnostics else 0


if __name__ == "__main__":
    sys.exit(main())
