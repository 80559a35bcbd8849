#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes docs/reference/library.md, the reference of the functions in kernels/lib, from these files.
#
#   scripts/library.py            fails if the document is not up to date, or if a function has no description
#   scripts/library.py --write    writes the document
#
# --root DIR selects another tree.
#
# The description of a function is the comment above it, without an empty line between; that of a file is the comment behind
# its license. "Needs" lists the parameters that a kernel must declare: those that occur in the function, in the types that it
# names, and in the functions of kernels/lib that it calls.

import os
import re
import sys
import textwrap

FOLDER = os.path.join("kernels", "lib")
DOCUMENT = os.path.join("docs", "reference", "library.md")
COLUMNS = 120
INTRODUCTION = """\
# Library of kernels

The functions in `kernels/lib`, which `tile.link "lib/NAME.mlir"` makes available to a kernel. The compiler contains
these files. A kernel declares the parameters that a function needs; a function that is not called needs none. A
function that is marked as replaceable is replaced by that of a file which is linked [by one of these
rules](../guide/combine.md#make-a-function-of-your-kernel-replaceable). Types that begin with `!` are those of the file,
which lists them, or else of one that it links: [types.mlir](#typesmlir), or [pair_types.mlir](#pair_typesmlir) for
backwards.
"""
ALIAS = re.compile(r"^(!\w+)\s*=\s*(.*)$")
DEFINITION = re.compile(r"^(func\.func private|tile\.function|tile\.kernel|tile\.program)\s+(@\w+)")
FORMULA = re.compile(r"(?<!tile\.replaceable) = ")
PARAMETER = re.compile(r"\b[A-Z][A-Z0-9_]*\b")
OWN = re.compile(r"(?<!= )\b((?:[A-Z][A-Z0-9_]*, )*[A-Z][A-Z0-9_]*):")
REPLACEABLE = re.compile(r"\battributes \{tile\.replaceable(?: = \"(\w+)\")?\}")


class Function:
    """A function or kernel: its signature and what its text names."""

    def __init__(self, kind, name, signature, body, description):
        self.kind, self.name, self.description = kind, name, description
        found = REPLACEABLE.search(signature)
        self.replaceable = found and (found[1] or "")
        self.signature = " ".join(REPLACEABLE.sub("", signature).split()).removeprefix("func.func private ").removeprefix("tile.function ").replace("( ", "(")
        code = re.sub(r'"[^"]*"', "", signature + body)
        self.calls = set(re.findall(r"@\w+", code)) - {name}
        self.types = set(re.findall(r"!\w+\b(?!\.)", code))
        self.parameters = set(PARAMETER.findall(code))
        names = OWN.findall(signature) if kind in ("tile.kernel", "tile.program") else []
        self.own = {name for group in names for name in group.split(", ")}


class File:
    """The contents of a file: its description, aliases and definitions."""

    def __init__(self, path):
        self.name = os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        self.aliases, self.functions, self.links = {}, [], []
        begin = next(number for number, line in enumerate(lines) if not line.startswith("//") or line == "//")
        comment, number = [], begin
        while lines[number].startswith("//"):
            comment.append(lines[number][2:])
            number += 1
        self.description = textwrap.dedent("\n".join(comment)).strip()
        comment = []
        while number < len(lines):
            line = lines[number]
            if line.startswith("//"):
                comment.append(line[2:].strip())
            elif alias := ALIAS.match(line):
                self.aliases[alias[1]] = alias[2]
            elif line.startswith("tile.link"):
                while line.endswith(","):
                    number += 1
                    line += lines[number]
                self.links += line.split('"')[1::2]
            elif found := DEFINITION.match(line):
                number = self.add(lines, number, found, " ".join(comment))
            if not line.startswith("//"):
                comment = []
            number += 1

    def add(self, lines, number, found, description):
        """Adds the definition that begins at a line; returns the number of its last line."""
        signature = lines[number]
        while not signature.endswith("{") and lines[number + 1].startswith("  "):
            number += 1
            signature += " " + lines[number].strip()
        if found[1] == "func.func private" and not signature.endswith("{"):
            return number  # a declaration
        body = []
        if not signature.endswith("{"):
            signature, formula = FORMULA.split(signature, 1)
            self.functions.append(Function(found[1], found[2], signature, formula, description))
            return number
        while lines[number] != "}":
            number += 1
            body.append(lines[number].split("//")[0])
        self.functions.append(Function(found[1], found[2], signature[:-1].strip(), "\n".join(body), description))
        return number


def add_linked_aliases(files):
    """Sets the types that a file knows: its own, or else those of the files that it links."""
    named = {file.name: file for file in files}

    def collect(file):
        known = {}
        for name in file.links:
            known |= collect(named[name])
        return known | file.aliases

    for file in files:
        file.known = collect(file)


def needs(files):
    """{(file, function): the parameters that a kernel declares for it}."""
    owners = {function.name: (file, function) for file in files for function in file.functions}

    def collect(file, function, seen):
        if function.name in seen:
            return set()
        seen.add(function.name)
        found = set(function.parameters) - function.own
        for name in function.types:
            found |= set(PARAMETER.findall(re.sub(r'"[^"]*"', "", file.known.get(name, ""))))
        for name in function.calls & set(owners):
            found |= collect(*owners[name], seen)
        return found - function.own

    return {(file.name, function.name): sorted(collect(file, function, set())) for file in files for function in file.functions}


def wrap(text, later=""):
    return textwrap.fill(text, COLUMNS, subsequent_indent=later, break_long_words=False, break_on_hyphens=False)


def wrap_code(text):
    """A signature, broken between arguments."""
    kept = {": ": ":\0", " = ": "\0=\0", "let ": "let\0"}
    for parts, together in kept.items():
        text = text.replace(parts, together)
    return wrap(text, later="    ").replace("\0", " ")


def description_of(file):
    """The description of a file; tables and formulas in it, which are indented, become blocks of code."""
    parts = []
    for paragraph in file.description.split("\n\n"):
        if paragraph.startswith("  "):
            parts.append("```text\n" + textwrap.dedent(paragraph) + "\n```")
        else:
            parts.append(wrap(" ".join(paragraph.split())))
    return "\n\n".join(parts)


def document(files):
    add_linked_aliases(files)
    needed, text = needs(files), [INTRODUCTION]
    for file in files:
        text.append(f"## {file.name}\n\n{description_of(file)}\n")
        used = {name for function in file.functions for name in re.findall(r"!\w+\b(?!\.)", function.signature)}
        listed = [name for name in file.aliases if name in used or not file.functions]
        if aliases := [f"{name} = {file.aliases[name]}" for name in listed]:
            text.append("```mlir\n" + "\n".join(aliases) + "\n```\n")
        for function in file.functions:
            notes = []
            if function.replaceable is not None:
                notes.append("Replaceable." if not function.replaceable else f"Replaceable (`{function.replaceable}`).")
            if parameters := needed[file.name, function.name]:
                notes.append("Needs " + ", ".join(f"`{name}`" for name in parameters) + ".")
            text.append(f"### `{function.name}`\n\n```mlir\n{wrap_code(function.signature)}\n```\n")
            text.append(wrap(" ".join([function.description, *notes])) + "\n")
    return "\n".join(text)


def is_current(root, document, text, script, arguments):
    """Whether the document has this text, with a message if not; with --write it gets it."""
    path = os.path.join(root, document)
    if "--write" in arguments:
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return True
    try:
        with open(path, encoding="utf-8") as old:
            is_same = old.read() == text
    except FileNotFoundError:
        is_same = False
    if not is_same:
        print(f"{document} is not up to date: run {script} --write")
    return is_same


def main(arguments):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    if "--root" in arguments:
        root = arguments[arguments.index("--root") + 1]
    folder = os.path.join(root, FOLDER)
    files = [File(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".mlir")]
    silent = [f"{FOLDER}/{file.name}: {function.name} has no description" for file in files for function in file.functions
              if not function.description]
    for line in silent:
        print(line)
    if not is_current(root, DOCUMENT, document(files), "scripts/library.py", arguments):
        return 1
    print(f"{sum(len(file.functions) for file in files)} functions in {len(files)} files")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
