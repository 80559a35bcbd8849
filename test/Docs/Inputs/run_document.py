# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# run_document.py ROOT TOOLS WORK DOCUMENT: runs every fenced block of a Markdown document of ROOT, in order, in the folder
# WORK, which contains the folders of the tree, build/bin/ and build/lib/, so that commands work as written in the document.
#
# A block is processed according to its language:
#
#   mlir      is a module that must parse, verify, and be unchanged by printing and parsing
#   sh        is run, and must succeed
#   python    is run, and must succeed
#   text      is ignored, as is a block without a language
#
# An HTML comment on the line above the fence changes this:
#
#   <!-- file NAME -->         the block is also written to NAME
#   <!-- rejected file NAME --> the block is written to NAME, and must not verify
#   <!-- part of NAME -->      the block is not a complete module: NAME (in WORK) must contain its lines consecutively
#   <!-- rejected -->           sh: must exit with 1
#   <!-- output -->            text: the output of the sh or python block above, except for line numbers; "..." is any text
#   <!-- not run: WHY -->      the block is not run, since it takes too long or needs an interactive user

import os
import re
import shutil
import subprocess
import sys

FENCE = re.compile(r"^```([\w+]*)\s*$")
DIRECTIVE = re.compile(r"^<!-- (.*) -->$")


class Block:
    def __init__(self, line, directive, language):
        self.line, self.directive, self.language = line, directive, language
        self.lines = []

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"


def read_blocks(path):
    blocks, block, before = [], None, ""
    for number, line in enumerate(open(path, encoding="utf-8").read().split("\n"), 1):
        if block:
            if line.startswith("```"):
                blocks.append(block)
                block = None
            else:
                block.lines.append(line)
        elif match := FENCE.match(line):
            directive = DIRECTIVE.match(before)
            block = Block(number, directive[1] if directive else "", match[1])
        elif line.startswith("```"):
            sys.exit(f"{path}:{number}: a fence that this script does not read")
        before = line
    if block:
        sys.exit(f"{path}:{block.line}: the fence is not closed")
    return blocks


def run(command, work, environment):
    done = subprocess.run(command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    return done.returncode, done.stdout


def squeeze(text):
    """Removes leading blanks and empty lines."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def is_part_of(part, whole):
    part, whole = squeeze(part), squeeze(whole)
    return any(whole[i:i + len(part)] == part for i in range(len(whole) - len(part) + 1))


def matches(pattern, text):
    """Whether the text matches the pattern, where "..." matches any text, and line numbers of files are not compared."""
    def normal(s):
        return re.sub(r"\.mlir:\d+:\d+", ".mlir:N:N", s.strip())
    regex = ".*".join(re.escape(piece) for piece in normal(pattern).split("..."))
    return re.fullmatch(regex, normal(text), re.DOTALL) is not None


def main():
    root, tools, work, name = sys.argv[1:]
    document = os.path.join(root, name)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(os.path.join(work, "build"))
    os.symlink(tools, os.path.join(work, "build", "bin"))
    libraries = os.path.join(os.path.dirname(os.path.abspath(tools)), "lib")
    if os.path.isdir(libraries):
        os.symlink(libraries, os.path.join(work, "build", "lib"))
    for folder in ("base", "bench", "docs", "examples", "kernels", "scripts", "test"):
        os.symlink(os.path.join(root, folder), os.path.join(work, folder))
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment["PATH"]

    def fail(block, message):
        sys.exit(f"{name}:{block.line}: {message}")

    printed, counts = None, {}
    for block in read_blocks(document):
        directive, language = block.directive, block.language
        if directive.startswith("not run: "):
            printed = None
            continue
        if is_file := re.fullmatch(r"(rejected )?file (\S+)", directive):
            with open(os.path.join(work, is_file[2]), "w", encoding="utf-8") as file:
                file.write(block.text)
        elif directive not in ("", "rejected", "output") and not directive.startswith("part of "):
            fail(block, f"unknown directive '{directive}'")

        if directive.startswith("part of "):
            whole = directive[len("part of "):]
            if not is_part_of(block.text, open(os.path.join(work, whole), encoding="utf-8").read()):
                fail(block, f"these lines are not in {whole}")
        elif language == "mlir":
            file = os.path.join(work, "block.mlir")
            with open(file, "w", encoding="utf-8") as out:
                out.write(block.text)
            code, output = run(["tilewright-opt", "--verify-roundtrip", "-o", os.devnull, file], work, environment)
            if bool(code) != directive.startswith("rejected"):
                fail(block, f"does not verify\n{output}" if code else "verifies, but should not")
        elif language in ("sh", "python"):
            command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
            code, printed = run([*command, block.text], work, environment)
            if code != (1 if directive == "rejected" else 0):
                fail(block, f"exits with {code}\n{printed}")
        elif directive == "output":
            if printed is None or not matches(block.text, printed):
                fail(block, f"the output differs; it is\n{printed}")
        elif language not in ("", "text"):
            fail(block, f"unknown language '{language}'")
        if language:
            counts[language] = counts.get(language, 0) + 1
    if not counts:
        sys.exit(f"{name}: no block was run")
    print(f"{name}: " + ", ".join(f"{count} {language}" for language, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
