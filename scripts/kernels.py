#!/usr/bin/env python3
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes docs/reference/kernels.md, the reference of the shipped kernels and of the files in kernels/mods, from these files.
#
#   scripts/kernels.py            fails if the document is not up to date, or if a file does not describe an argument,
#                                 parameter or capture
#   scripts/kernels.py --write    writes the document
#
# --root DIR selects another tree.
#
# The tables of arguments and parameters are those of the declaration of the entry: the program of a file, or its first
# kernel. What they mean is the comment at the top of the file, from the line "Arguments" on.

import os
import re
import sys
import textwrap

from library import is_current

KERNELS, MODS = "kernels", os.path.join("kernels", "mods")
DOCUMENT = os.path.join("docs", "reference", "kernels.md")
COLUMNS = 120
INTRODUCTION = """\
# Kernels

The kernels in `kernels/`, with the arguments and parameters of each, and [the files for `--with`](#modifiers-and-masks),
with the arrays and scalars that they capture. [Parameters and arguments](../guide/parameters.md) says how values are
given and inferred, [the runtime](../runtime.md) and [serving](../serving.md) how applications launch the kernels.

In the tables, an argument with a condition exists only where that holds, an optional one may be left out, and a scalar
with a default as well. A parameter without a default must be given, or follows from the arrays. `block()` and
`block_in(N)` leave a parameter to the compiler. Parameters that follow from others (`let`) are left out.
"""
MODS_INTRODUCTION = """\
## Modifiers and masks

`--with kernels/mods/NAME.mlir` links a file that [replaces a function of attention](../guide/modifiers.md). Each array
or scalar that it captures is a further argument of the kernel, with this name. B, Hq, Hkv, Sq and Skv are the extents
of q, k and v; with PACKED, B is the number of sequences. Gradients of captured floats are the arguments `d_NAME` of the
backward with `CAPTURE_GRADIENTS=true`.
"""
ENTRY = re.compile(r"^tile\.(program|kernel)\s+(@\w+)", re.M)
ALIAS = re.compile(r"^(!\w+)\s*=\s*(.*)$", re.M)
CAPTURE = re.compile(r"^tile\.capture (@\w+)(?: \{([\w.]+)\})? : (!?[\w.]+(?:<[^>]*>)?)", re.M)
FUNCTION = re.compile(r"^tile\.function (@\w+)", re.M)
LINK = re.compile(r'"([\w./]+\.mlir)"')
HOOKS = {"@score_mod": "scores", "@mask_mod": "masks", "@weight_mod": "probabilities", "@weight_limit": "", "@sink": "sinks"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def header_of(text):
    """The comment behind the license, without its slashes."""
    lines = []
    for line in text.split("\n")[3:]:
        if not line.startswith("//"):
            break
        lines.append(line[3:])
    return "\n".join(lines).strip("\n")


def code_of(text):
    """Without comments."""
    return re.sub(r"//.*", "", text)


def split(text):
    """The parts between commas that no bracket or quote encloses."""
    parts, depth, quoted, begin = [], 0, False, 0
    for at, letter in enumerate(text):
        is_bracket = text[at - 1:at] not in ("", " ", "-")  # not an operator or an arrow
        if letter == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{" or letter == "<" and is_bracket:
            depth += 1
        elif letter in ")]}" or letter == ">" and is_bracket:
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    return [" ".join(part.split()) for part in parts + [text[begin:]] if part.strip()]


def enclosed(text, at):
    """What the parentheses that open at `at` enclose, and the position behind them."""
    depth, quoted = 0, False
    for end in range(at, len(text)):
        quoted ^= text[end] == '"'
        depth += 0 if quoted else (text[end] == "(") - (text[end] == ")")
        if not depth and not quoted:
            return text[at + 1:end], end + 1
    raise ValueError("a parenthesis is not closed")


class Entry:
    """The program or kernel of a file: its parameters and arguments, as (name, text) in order."""

    def __init__(self, code, types):
        found = next((match for match in ENTRY.finditer(code) if match[1] == "program"), None) or ENTRY.search(code)
        self.kind, self.name = found[1], found[2]
        at, self.params, self.arguments = found.end(), [], []
        while match := re.compile(r"\s*(\w*)\s*\(").match(code, at):
            inside, at = enclosed(code, match.end() - 1)
            if match[1] == "params":
                self.params = self.group(split(inside), r"^(let )?(\w+)\s*(?::\s*(.*))?$")
            elif match[1] in ("", None):
                self.arguments = self.group(split(inside), r"^()%(\w+)\s*(?::\s*(.*))?$")
                break
        self.params = [(name, text) for name, text in self.params if text is not None]
        self.types = types

    @staticmethod
    def group(parts, pattern):
        """Neighbors share what follows the last of them; that of a derived parameter is None."""
        result, waiting, derives = [], [], False
        for part in parts:
            match = re.match(pattern, part)
            derives |= bool(match[1])
            waiting.append(match[2])
            if match[3] is not None:
                result += [(name, None if derives else match[3]) for name in waiting]
                waiting, derives = [], False
        return result

    def argument_rows(self):
        for name, text in self.arguments:
            notes, default = [], ""
            if match := re.match(r"(.*?)\s+=\s+(\S+)$", text):
                text, default = match[1], match[2]
            if match := re.match(r"(.*?)\s+when\s+\((.*)\)$", text):
                text = match[1]
                notes.append(f"with `{match[2]}`")
            if text.startswith("optional "):
                text = text[len("optional "):]
                notes.append("optional")
            if default:
                notes.append(f"default `{default}`")
            yield name, self.types.get(text, text), ", ".join(notes)

    def param_rows(self):
        for name, text in self.params:
            values, _, default = text.partition(" = ") if " = " in text else (text, "", "")
            yield name, values, default


def types_of(root, text, seen=None):
    """The types that a file names, and those of the files that it links."""
    seen, types = seen if seen is not None else set(), {}
    for name in LINK.findall("\n".join(re.findall(r"^tile\.link\b(?:[^\n]*,\n)*[^\n]*", text, re.M))):
        path = os.path.join(root, KERNELS, "lib", os.path.basename(name))
        if path not in seen and os.path.exists(path):
            seen.add(path)
            types |= types_of(root, read(path), seen)
    return types | dict(ALIAS.findall(code_of(text)))


def cell(text):
    return f"`{text}`".replace("|", "\\|") if text else ""


def table(titles, rows):
    rows = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(titles)} |", "|" + "---|" * len(titles), *rows]) + "\n" if rows else ""


def paragraphs(text):
    """Formulas and tables, which are indented, become blocks of code."""
    parts = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("  "):
            parts.append("```text\n" + textwrap.dedent(paragraph).rstrip() + "\n```")
        elif paragraph.strip():
            parts.append(textwrap.fill(" ".join(paragraph.split()), COLUMNS, break_long_words=False, break_on_hyphens=False))
    return "\n\n".join(parts)


def resolve(types):
    """Types in which others are written out."""
    def expand(text):
        return re.sub(r"!\w+\b(?!\.)", lambda match: expand(types[match[0]]) if match[0] in types else match[0], text)

    return {name: expand(text).removeprefix("!tile.") for name, text in types.items()}


def headers_of(root, name, seen):
    """The comment of a file, and of those that it names."""
    path = next((path for folder in (KERNELS, os.path.join(KERNELS, "lib")) if os.path.exists(path := os.path.join(root, folder, name))),
                None)
    if name in seen or not path:
        return ""
    seen.add(name)
    header = header_of(read(path))
    return "\n".join([header, *(headers_of(root, each, seen) for each in re.findall(r"\w+\.mlir", header))])


def is_described(header, name):
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", header) is not None


def document(root):
    """The text, and what no comment describes."""
    out, silent = [INTRODUCTION], []
    for name in sorted(os.listdir(os.path.join(root, KERNELS))):
        if not name.endswith(".mlir"):
            continue
        text = read(os.path.join(root, KERNELS, name))
        header, entry = header_of(text), Entry(code_of(text), resolve(types_of(root, text)))
        silent += [f"{KERNELS}/{name}: {each} is not described" for each, _ in entry.arguments + entry.params
                   if not is_described(headers_of(root, name, set()), each)]
        about, _, rest = header.partition("\nArguments\n")
        out += [f"## {name}\n", paragraphs(about) + "\n", f"The {entry.kind} `{entry.name}`:\n"]
        out += [table(("argument", "type", ""), [(cell(each), cell(of), note) for each, of, note in entry.argument_rows()])]
        if entry.params:
            out += [table(("parameter", "values", "default"), [map(cell, row) for row in entry.param_rows()])]
        if rest:
            out += ["```text\nArguments\n" + rest.rstrip() + "\n```\n"]
    out += [MODS_INTRODUCTION]
    rows = []
    for name in sorted(os.listdir(os.path.join(root, MODS))):
        if not name.endswith(".mlir"):
            continue
        text = read(os.path.join(root, MODS, name))
        header, code = header_of(text), code_of(text)
        hooks = ", ".join(HOOKS[each] for each in FUNCTION.findall(code) if HOOKS.get(each))
        for number, (capture, attribute, of) in enumerate(CAPTURE.findall(code)):
            capture = capture[1:]
            shape = re.search(rf"^  (?:[\w, ]*\b)?{capture}\b[\w, ]*?\s+(\[[^\]]*\]|\w+,)", header, re.M)
            if not is_described(header, capture):
                silent.append(f"{MODS}/{name}: {capture} is not described")
            element = re.search(r"(\w+)>$", of)
            rows.append((f"[{name}](../../kernels/mods/{name})" if not number else "", hooks if not number else "", cell(capture),
                         shape[1] if shape and shape[1].startswith("[") else "scalar" if not element else "",
                         cell(element[1] if element else of)))
    out += [table(("file", "changes", "capture", "shape", "type"), rows)]
    return "\n".join(part for part in out if part), silent


def main(arguments):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    if "--root" in arguments:
        root = arguments[arguments.index("--root") + 1]
    text, silent = document(root)
    for line in silent:
        print(line)
    if not is_current(root, DOCUMENT, text, "scripts/kernels.py", arguments):
        return 1
    print(f"{text.count('The program `') + text.count('The kernel `')} kernels and programs")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
